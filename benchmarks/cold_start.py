"""Seconds from the shell's prompt to a report card on a small log. `python -m benchmarks.cold_start`

A bare interpreter is measured beside it: the rest is ours.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from benchmarks.data import SAMPLES

ROUNDS = 15
# An installed program has its bytecode; a developer's shell may forbid to write it.
INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(name: str, command: list[str]) -> None:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=INSTALLED)
        times.append(time.perf_counter() - start)
    print(f"  {name:28} best {min(times):.3f} s, median {statistics.median(times):.3f} s")


if __name__ == "__main__":
    log = str(SAMPLES / "claude-good.jsonl")
    print(f"{ROUNDS} runs each")
    measure("python -c pass", [sys.executable, "-c", "pass"])
    measure("python -c 'import demerit'", [sys.executable, "-c", "import demerit"])
    measure("demerit grade", [sys.executable, "-m", "demerit", "grade", log])
    measure("demerit grade --format json", [sys.executable, "-m", "demerit", "grade", log, "--format", "json"])
