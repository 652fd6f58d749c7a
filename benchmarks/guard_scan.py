"""Milliseconds of the guard for a conversation of 1 MB, from bytes to verdict. `python -m benchmarks.guard_scan`

What every request through the proxy pays: decoding its body, and reading the whole conversation again. The budget is
10 ms for both. The second conversation is the worst of its size: nothing but short calls, each of them a repeat.
"""

from __future__ import annotations

import random
import statistics
import time

import msgspec

from demerit.loops import Scan, scan

ROUNDS = 50
BUDGET_MS = 10
decode = msgspec.json.Decoder().decode


def working(size: int = 1_000_000) -> bytes:
    """An agent at work: one or two calls a turn, among them whole files written, and answers of kilobytes."""
    chance = random.Random(5)
    words = [f"word_{number} = call({number * 7})" for number in range(500)]

    def text(chars: int) -> str:
        return "\n".join(chance.choices(words, k=max(1, chars // 22)))[:chars]

    messages: list[dict[str, object]] = [
        {"role": "system", "content": text(12_000)},
        {"role": "user", "content": "Make the tests of the parser pass."},
    ]
    total = 12_000
    while total < size:
        turn = len(messages)
        calls = []
        for place in range(chance.choice((1, 1, 2))):
            name = chance.choice(("read_file", "grep_search", "run_in_terminal", "edit_file"))
            arguments = {"path": f"src/module_{chance.randrange(60)}.py", "line": chance.randrange(2000), "depth": 2.0}
            if name == "edit_file":
                arguments["new"] = text(chance.randrange(200, 6000))
            written = msgspec.json.encode(arguments).decode()
            function = {"name": name, "arguments": written}
            calls.append({"id": f"call_{turn}_{place}", "type": "function", "function": function})
        messages.append({"role": "assistant", "content": text(chance.randrange(300)), "tool_calls": calls})
        for call in calls:
            answer = text(chance.randrange(200, 9000))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
        total = len(msgspec.json.encode(messages)) if len(messages) % 20 < 2 else total
    return body(messages)


def polling(size: int = 1_000_000) -> bytes:
    """An agent that looks at the same page for ever."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Wait for it."}]
    for turn in range(size // 210):
        function = {"name": "browser_snapshot", "arguments": "{}"}
        calls = [{"id": f"call_{turn}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": f"Page {turn % 3}"})
    return body(messages)


def body(messages: list[dict[str, object]]) -> bytes:
    return msgspec.json.encode({"model": "m", "stream": True, "messages": messages})


def measure(name: str, data: bytes) -> float:
    found = Scan()
    decoding, whole = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        messages = decode(data)["messages"]
        decoded = time.perf_counter()
        found = scan(messages)
        whole.append((time.perf_counter() - start) * 1000)
        decoding.append((decoded - start) * 1000)
    median = statistics.median(whole)
    print(
        f"  {name:8} {len(data) / 1e6:.2f} MB, {len(messages):5} messages: best {min(whole):.2f} ms, "
        f"median {median:.2f} ms, of which JSON {statistics.median(decoding):.2f} ms; trip: {found.trip}"
    )
    return median


if __name__ == "__main__":
    print(f"{ROUNDS} runs each; budget {BUDGET_MS} ms")
    measure("working", working())
    measure("polling", polling())
