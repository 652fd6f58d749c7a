"""The whole command beside ccusage's native build, on the same logs. `python -m benchmarks.against_ccusage [MiB]`

ccusage only adds up usage; `demerit grade` reads and judges every call as well. Needs npm, which fetches
ccusage 20.0.24 into benchmarks/.data. Then token totals of every original log are compared, and each difference shown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.data import DATA, folder_of_logs, originals
from demerit.library import grade_file
from demerit.quality.usage import RequestTotals

VERSION = "20.0.24"
ROUNDS = 3
CLASSES = ("inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens")


def ccusage() -> str:
    folder = DATA / "ccusage"
    program = folder / "node_modules/@ccusage/ccusage-linux-x64/bin/ccusage"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        packages = [f"ccusage@{VERSION}", f"@ccusage/ccusage-linux-x64@{VERSION}"]
        subprocess.run(["npm", "install", "--silent", "--prefix", str(folder), *packages], check=True)
        program.chmod(0o755)
    return str(program)


def timed(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds, and peak memory in MB of the largest process, of the quickest run."""
    runs = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        runs.append((time.perf_counter() - start, usage.ru_maxrss / 1000))
        if os.waitstatus_to_exitcode(status) not in (0, 2):
            raise SystemExit(f"failed: {command}")
    return min(runs)


def speed(mebibytes: int) -> None:
    home = folder_of_logs("claude", mebibytes << 20)
    size = sum(path.stat().st_size for path in home.rglob("*.jsonl")) / 1e6
    env = dict(os.environ, CLAUDE_CONFIG_DIR=str(home), HOME=str(DATA / "nobody"))
    theirs, their_memory = timed([ccusage(), "claude", "daily", "--json", "--offline"], env)
    ours, our_memory = timed([sys.executable, "-m", "demerit", "grade", str(home), "--format", "json"], env)
    print(f"{size:,.0f} MB of Claude Code logs in {len(list(home.rglob('*.jsonl')))} files, best of {ROUNDS}")
    print(f"  ccusage daily --json     {theirs:6.2f} s  {size / theirs:5.0f} MB/s  {their_memory:5.0f} MB")
    print(f"  demerit grade --format json {ours:3.2f} s  {size / ours:5.0f} MB/s  {our_memory:5.0f} MB")
    print(f"  throughput {theirs / ours:.2f} of ccusage's")


def totals(agent: str) -> None:
    logs = originals(agent)
    home = DATA / f"originals-{agent}"
    folder = home / ("projects/p" if agent == "claude" else "sessions/2026/05/02")
    folder.mkdir(parents=True, exist_ok=True)
    for path in logs:
        (folder / path.name).write_bytes(path.read_bytes())
    env = dict(os.environ, CLAUDE_CONFIG_DIR=str(home), CODEX_HOME=str(home), HOME=str(DATA / "nobody"))
    command = [ccusage(), agent, "session", "--json", "--offline"]
    answer = json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
    theirs = {
        row["sessionId"].split("/")[-1]: tuple(row.get(name, 0) for name in CLASSES) for row in answer["sessions"]
    }
    print(f"token totals of {len(logs)} {agent} logs (uncached input, cache read, cache write, output):")
    equal = 0
    for path in logs:
        found = RequestTotals()
        found.add(grade_file(str(path), datetime.now(UTC), False).usages)
        sums = found.result()
        ours = (
            (sums.input_tokens, sums.cache_read_tokens, sums.cache_write_tokens, sums.output_tokens)
            if sums
            else (0, 0, 0, 0)
        )
        other = theirs.get(path.stem, (0, 0, 0, 0))
        if ours == other:
            equal += 1
        else:
            print(f"  {path.stem}: demerit {ours}, ccusage {other}")
    print(f"  {equal} of {len(logs)} agree")


if __name__ == "__main__":
    speed(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
    for name in ("claude", "codex"):
        totals(name)
    print(f"data is kept in {Path(DATA)}")
