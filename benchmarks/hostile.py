"""How time grows on content that was made to hurt: four times the size, how many times the time?

`python -m benchmarks.hostile`. About 4 is what it should be; a square gives 16, what is worse than that hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.parsers.claude_lines import assistant, call, line, read, user

from demerit.parsers import chat
from demerit.parsers.evidence import patch_paths
from demerit.parsers.records import Source
from demerit.parsers.shell import answering_program, describe

SIZE = 2000


def answers(count: int) -> list[dict[str, Any]]:
    made = [{"type": "function", "function": {"name": "a", "arguments": "{}"}} for _ in range(count)]
    return [{"role": "assistant", "tool_calls": made}, *[{"role": "tool", "name": "b", "content": "x"}] * count]


HOSTILE: dict[str, Callable[[int], object]] = {
    "git options that match in two ways": lambda n: answering_program("git config " + "--a " * (n // 2) + "!", 1, ""),
    "git options with values": lambda n: answering_program("git " + "-c -x0 " * (n // 3) + "commit", 1, ""),
    "git options without end": lambda n: answering_program("git " + "-a " * (n // 2) + "x", 1, ""),
    "ssh with words without end": lambda n: answering_program("ssh " + "a " * n, 1, ""),
    "a line of commands": lambda n: describe("grep a && " * (n // 8)),
    "blanks in a patch header": lambda n: patch_paths("*** Add File: a" + " " * n * 50 + "x"),
    "unclosed command arguments": lambda n: read(user("<command-name>/foo</command-name>" + "<command-args>" * n * 20)),
    "unclosed reminders": lambda n: read(user("<system-reminder>" * n * 20)),
    "texts of one response": lambda n: read(*[assistant(f"text {i}", id="m") for i in range(n)]),
    "calls of one response": lambda n: read(assistant(*[call(f"t{i}", command="x") for i in range(n)], id="m")),
    "sub-agents beside prompts": lambda n: read(
        *[made for i in range(n) for made in (assistant("x", id=f"m{i}", isSidechain=True), user("next"))]
    ),
    "queued prompts": lambda n: read(
        *[line("queue-operation", operation="enqueue", content=f"p {i}") for i in range(n)],
        *[line("queue-operation", operation="remove") for _ in range(n)],
    ),
    "results without a matching call": lambda n: chat.parse_messages(answers(n), Source()),
}


def seconds(work: Callable[[int], object], size: int) -> float:
    """Of the best of three runs: a slow one is the machine's."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work(size)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    for name, work in HOSTILE.items():
        small, large = seconds(work, SIZE), seconds(work, SIZE * 4)
        print(f"  {name:34} {large * 1000:7.1f} ms   x{large / small:.1f}")
