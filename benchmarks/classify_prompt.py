"""Time and memory of `classify_prompt` on prompts of 10 MB that are made to be hard.

    python -m benchmarks.classify_prompt

One line for each prompt: seconds, megabytes a second, the ratio to one plain `str.count` of a rare word over
the same prompt, and the peak of memory allocated beyond the prompt (measured in a second run, because the
tracing slows the first). Budget: under one second and flat memory for 10 MB of any one character.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

from demerit.quality.prompts import PromptFacts, classify_prompt

MEGABYTE = 1_000_000
SIZE_BYTES = 10 * MEGABYTE

GREETING = "'hello, ' repeated"

PIECES = {
    "one letter": "f",
    "slashes": "/",
    "dots": ".",
    "back-ticks": "`",
    "spaces": " ",
    "one Han letter": "\u4fee",
    "'a/' repeated": "a/",
    "'a//' repeated": "a//",
    "'a.' repeated": "a.",
    "'c..' repeated": "c..",
    "Han, emoji, Greek": "\u4fee\u6b63 \U0001f600 \u039f\u0394\u039f\u03a3 ",
    "Thai with marks": "\u0e01\u0e49\u0e49.",
    "'fix ' repeated": "fix ",
    GREETING: "hello, ",
    "plain words": "we decide many reports each for now ",
}


def prompt_of(name: str) -> str:
    """The piece repeated to the size in UTF-8 bytes, with a change verb behind all of it.

    The verb makes every scan read the whole prompt: first for the verb, then for each kind of anchor. The
    greeting has none, since any other word would end its scan at once.
    """
    piece = PIECES[name]
    return piece * (SIZE_BYTES // len(piece.encode())) + ("" if name == GREETING else " fix")


def seconds(run: Callable[[], object], rounds: int = 3) -> float:
    """The best of several runs: noise on a shared machine only ever adds."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best


def peak_bytes(prompt: str) -> int:
    """The most that was allocated at once while the prompt was classified."""
    tracemalloc.start()
    try:
        classify_prompt(prompt)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def flags(facts: PromptFacts) -> str:
    """The flags that hold."""
    named = {
        "short": facts.short,
        "no code": facts.no_code_context,
        "greeting": facts.bare_greeting,
    }
    return ", ".join(name for name, holds in named.items() if holds) or "-"


def main() -> None:
    classify_prompt("warm up")
    print(f"{'10 MB of':<20}{'s':>8}{'MB/s':>8}{'x scan':>8}{'peak KiB':>10}  flags")
    for name in PIECES:
        prompt = prompt_of(name)
        taken = seconds(lambda prompt=prompt: classify_prompt(prompt))  # type: ignore[misc]
        scan = seconds(lambda prompt=prompt: prompt.count("zebra crossing"))  # type: ignore[misc]
        peak = peak_bytes(prompt)
        rate = SIZE_BYTES / MEGABYTE / taken
        print(
            f"{name:<20}{taken:>8.3f}{rate:>8.0f}{taken / scan:>8.1f}{peak / 1024:>10.0f}"
            f"  {flags(classify_prompt(prompt))}"
        )


if __name__ == "__main__":
    main()
