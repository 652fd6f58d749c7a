"""Peak memory of `demerit grade` on one 1 GiB log, and on one line of 60 MB. `python -m benchmarks.memory`"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.data import DATA, SAMPLES, one_log


def long_line() -> Path:
    """A good sample whose first result is a text of 60 MB."""
    path = DATA / "long-line.jsonl"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        lines = [json.loads(line) for line in (SAMPLES / "claude-good.jsonl").read_text().splitlines()]
        for line in lines:
            content = line.get("message", {}).get("content")
            if isinstance(content, list) and content[0].get("type") == "tool_result":
                content[0]["content"] = "0123456789 größer\n" * (60_000_000 // 20)
                break
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return path


def measure(name: str, path: Path) -> None:
    command = [sys.executable, "-m", "demerit", "grade", str(path), "--format", "json"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    size = path.stat().st_size / 1e6
    print(
        f"{name}: {size:,.0f} MB in {seconds:.1f} s ({size / seconds:.0f} MB/s), peak {usage.ru_maxrss / 1000:.0f} MB"
    )


if __name__ == "__main__":
    measure("one Claude Code log", one_log("claude", 1 << 30))
    measure("a line of 60 MB", long_line())
