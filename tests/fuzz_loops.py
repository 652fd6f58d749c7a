"""Conversations with any value anywhere, through all that reads them: `python -m tests.fuzz_loops 1000000 1`.

A case that raises is printed with the seed that makes it again.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from demerit.loops import GuardConfig, LoopGuard, Scanner, read_turns, scan, scan_turns

DEEP: Any = []
for _ in range(3000):
    DEEP = [DEEP]

JUNK: list[Any] = [
    *(None, True, False, 0, 1, -1, 2.0, 1e308, float("inf"), float("nan"), 10**30, 10**5000),
    *("", "x", "null", "\ud800", "\x00", "é" * 500, "assistant", "tool", "user", "system", "function", "call_0"),
    *('{"a":1}', '{"a":1.0}', '{"a":', "[1e400]", "NaN", "[" * 5000, "9" * 5000, '"\\ud800"', "{" * 50),
    *([], {}, [[]], [None], [{}], {"": None}, {"role": "tool"}, {"type": "text", "text": "x"}, DEEP, {"a": DEEP}),
]
OURS = set(map(id, JUNK))
"""What stays as it is, for the cases that come after."""

CONFIGS = [
    GuardConfig(),
    GuardConfig(0, 0, 0),
    GuardConfig(None, None, None),
    GuardConfig(1, None, 1),
    GuardConfig(3, 1, 2, ("", "=", "x"), ("x",)),
]
NAMES = ("read_file", "write_file", "click", "Read", "")


def conversation(chance: random.Random) -> list[Any]:
    """A few turns of an agent that likes to repeat itself."""
    messages: list[Any] = [{"role": "system", "content": "Help."}, {"role": "user", "content": "go"}]
    for turn in range(chance.randrange(1, 8)):
        kind = chance.random()
        if kind < 0.7:
            calls = [
                {
                    "id": f"call_{place if chance.random() < 0.5 else turn}",
                    "type": "function",
                    "function": {"name": chance.choice(NAMES), "arguments": json.dumps({"a": chance.randrange(2)})},
                }
                for place in range(chance.choice((1, 1, 2)))
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
        elif kind < 0.9:
            messages.append({"role": "assistant", "content": chance.choice(("hm", [{"type": "text", "text": "hm"}]))})
        else:
            messages.append({"role": "user", "content": chance.choice(("go", [{"type": "text", "text": "go"}]))})
    return messages


def mutate(messages: list[Any], chance: random.Random) -> None:
    """Changes one place: another value, one less, one twice, or two in the other order."""
    at: Any = messages
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(at[key], dict | list) and id(at[key]) not in OURS and chance.random() < 0.8:
            at = at[key]
            continue
        kind = chance.random()
        if kind < 0.6:
            at[key] = chance.choice(JUNK)
        elif kind < 0.75:
            del at[key]
        elif isinstance(at, list):
            at.insert(chance.randrange(len(at) + 1), at[key])
        else:
            at[chance.choice(("id", "role", "content", "tool_calls", "function", "arguments"))] = at[key]
        return


def read(messages: list[Any], config: GuardConfig) -> None:
    """Reads a conversation in every way there is, which must agree."""
    turns = read_turns(messages)
    scanner, guard = Scanner(config), LoopGuard(config)
    last = scan(messages, config)
    assert last == scan_turns(turns, config)
    for turn in turns:
        found = scanner.feed(turn)
        assert found.identical + found.not_evaluated <= found.repeat_seen
        if turn.role == "user":
            guard.user(turn.text)
        elif turn.role == "assistant":
            guard.check(turn.calls, turn.text)
    for message in messages:
        fields = message if isinstance(message, dict) else {}
        calls = fields.get("tool_calls")
        if fields.get("role") == "tool":
            guard.record([message])
        elif isinstance(calls, list | dict):
            guard.check(calls, fields.get("content") if isinstance(fields.get("content"), str) else "")
            guard.record(fields.get("content"))
        else:
            guard.user(fields.get("content"))


def run(count: int, seed: int) -> int:
    """Reads so many mutated conversations, and returns their number."""
    for case in range(count):
        chance = random.Random(f"{seed} {case}")
        messages = conversation(chance)
        for _ in range(chance.randrange(1, 6)):
            mutate(messages, chance)
        try:
            read(messages, chance.choice(CONFIGS))
        except BaseException:
            print(f"case {case} of seed {seed}", file=sys.stderr)
            raise
    return count


if __name__ == "__main__":
    cases, start = (int(argument) for argument in sys.argv[1:])
    print(f"{run(cases, start)} conversations read")
