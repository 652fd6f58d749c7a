"""Reading logs into the store. `python -m benchmarks.ingest [MiB] [--small N]`

Cold: beside agentsview's cold sync of the same logs, the two in turn (put agentsview on the path to compare:
`pip install agentsview`). Ours keeps the raw bytes and the search index as well. Then a pass over 20,000 logs of which
none has changed, and a line added to a log of 100 MB and to one of 1 MB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.data import DATA, folder_of_logs, on_a_day_of_its_own, one_log, originals
from demerit import config, ingest
from demerit.store import Store

ROUNDS = 2
CODEX_SHARE = 0.3


def timed(command: list[str], env: dict[str, str]) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and peak memory in MB of the largest process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def cold(mebibytes: int) -> None:
    codex = round(mebibytes * CODEX_SHARE)
    homes = {"claude": folder_of_logs("claude", mebibytes - codex << 20), "codex": folder_of_logs("codex", codex << 20)}
    logs = [path for home in homes.values() for path in home.rglob("*.jsonl")]
    size = sum(path.stat().st_size for path in logs) / 1e6
    # Read once, so that neither waits for the disk.
    for path in logs:
        path.read_bytes()
    print(f"cold: {size:,.0f} MB of Claude Code and Codex logs in {len(logs):,} files, best of {ROUNDS}, in turn")
    other = shutil.which("agentsview", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    runs: dict[str, list[tuple[float, float, float]]] = {"agentsview": [], "demerit": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=DATA) as scratch:
            env = {"PATH": os.environ.get("PATH", ""), "HOME": scratch}
            if other is not None:
                theirs = {
                    "AGENTSVIEW_NO_DAEMON": "1",
                    "CLAUDE_PROJECTS_DIR": str(homes["claude"] / "projects"),
                    "CODEX_SESSIONS_DIR": str(homes["codex"] / "sessions"),
                }
                runs["agentsview"].append(timed([other, "sync"], {**env, **theirs}))
            ours = {
                "DEMERIT_DATABASE_URL": str(Path(scratch, "demerit.db")),
                "CLAUDE_CONFIG_DIR": str(homes["claude"]),
                "CODEX_HOME": str(homes["codex"]),
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            }
            runs["demerit"].append(timed([sys.executable, "-m", "demerit", "sync"], {**env, **ours}))
    for name, found in runs.items():
        if found:
            seconds, cpu, memory = min(found)
            print(f"  {name:<11} {seconds:6.2f} s {size / seconds:6.1f} MB/s  {cpu:6.2f} s of cores  {memory:5.0f} MB")
    if runs["agentsview"]:
        print(f"  throughput {min(runs['agentsview'])[0] / min(runs['demerit'])[0]:.2f} of agentsview's (at least 3)")


def store_in(folder: str) -> tuple[Store, config.Settings]:
    settings = config.load({"DEMERIT_DATABASE_URL": str(Path(folder, "demerit.db"))})
    return Store.open(settings.database_url), settings


def unchanged(count: int) -> None:
    folder = DATA / f"small-{count}"
    if not (folder / "complete").exists():
        log = min(originals("claude"), key=lambda path: path.stat().st_size).read_bytes()
        for number in range(count):
            place = folder / f"projects/{number % 200}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.jsonl").write_bytes(on_a_day_of_its_own(log, number))
        (folder / "complete").touch()
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        store, settings = store_in(scratch)
        environ = {"CLAUDE_CONFIG_DIR": str(folder)}
        with store:
            seconds = []
            for _ in range(4):
                start = time.perf_counter()
                found = ingest.find(settings, Path(scratch), environ, (), [])
                result = ingest.sync(store, settings, found, datetime.now(UTC))
                seconds.append(time.perf_counter() - start)
        print(
            f"unchanged: {result.unchanged:,} of {count:,} logs passed over in {min(seconds[1:]):.2f} s (under 1)"
            f"; the first pass took {seconds[0]:.1f} s"
        )


def append(mebibytes: int) -> None:
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        store, settings = store_in(scratch)
        path = Path(scratch, "log.jsonl")
        path.write_bytes(one_log("claude", mebibytes << 20).read_bytes())
        line = b'{"type":"user","uuid":"u-%d","timestamp":"2030-01-01T00:00:%02d.000Z","message":{"role":"user",' + (
            b'"content":"and one more thing"}}\n'
        )
        seconds = []
        with store:
            ingest.sync(store, settings, [path], datetime.now(UTC))
            for number in range(8):
                with path.open("ab") as file:
                    file.write(line % (number, number))
                start = time.perf_counter()
                ingest.sync(store, settings, [path], datetime.now(UTC))
                seconds.append(time.perf_counter() - start)
        print(f"append: a line to a log of {mebibytes} MiB is kept in {statistics.median(seconds[1:]) * 1000:.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mebibytes", type=int, nargs="?", default=1125)
    parser.add_argument("--small", type=int, default=20_000)
    asked = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    cold(asked.mebibytes)
    unchanged(asked.small)
    append(1)
    append(100)
