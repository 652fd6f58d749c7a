"""MB/s in one process: JSON alone, parsing, parsing and judging, for each agent. `python -m benchmarks.throughput`

The yardstick is msgspec decoding the same lines into untyped objects, in the same run.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from benchmarks.data import originals
from demerit.library import REPORT_LIMITS
from demerit.parsers import PARSERS
from demerit.parsers.records import BAD_CONTENT, Record
from demerit.quality.assess import assess

ROUNDS = 7
AGENTS = {"claude": "claude-code", "codex": "codex"}


def best(work: Callable[[], None]) -> float:
    """Seconds of the quickest of `ROUNDS` runs: what the machine's other work adds is never negative."""
    times = []
    for _ in range(ROUNDS):
        gc.collect()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(folder: str) -> None:
    parser = next(parser for parser in PARSERS if parser.agent == AGENTS[folder])
    logs: list[list[Record]] = []
    for path in originals(folder):
        offset, records = 0, []
        for line in path.read_bytes().splitlines(keepends=True):
            records.append(Record(line, offset))
            offset += len(line)
        logs.append(records)
    lines = [record.data for records in logs for record in records]
    megabytes = sum(map(len, lines)) / 1e6
    decoder = msgspec.json.Decoder()
    now = datetime.now(UTC)

    def decode() -> None:
        for line in lines:
            try:
                decoder.decode(line)
            except BAD_CONTENT:
                continue

    def parse() -> None:
        for records in logs:
            parser.parse(records, REPORT_LIMITS)

    def judge() -> None:
        for records in logs:
            for session in parser.parse(records, REPORT_LIMITS):
                assess(session, now)

    base = best(decode)
    print(f"{parser.title}: {megabytes:.1f} MB in {len(lines):,} lines of {megabytes * 1e6 / len(lines):,.0f} bytes")
    for name, seconds in (("decode, untyped", base), ("parse", best(parse)), ("parse and judge", best(judge))):
        print(f"  {name:16} {megabytes / seconds:6.0f} MB/s   {base / seconds:5.2f} of decoding alone")


if __name__ == "__main__":
    for name in AGENTS:
        measure(name)
