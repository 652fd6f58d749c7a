"""MB/s in one process: JSON alone, parsing, parsing and judging, for each agent. `python -m benchmarks.throughput`

The yardstick is msgspec decoding the same records into untyped objects, in the same run. Name agents to measure only
those. Real logs beside the repository are used where there are any, else the tests' fixtures: those are small, and a
session costs its card however short it is, so the size of a record stands beside each figure.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import msgspec

from benchmarks.data import CORPUS, ROOT, SAMPLES
from demerit import parsers, sources
from demerit.library import REPORT_LIMITS
from demerit.model import Session
from demerit.parsers import PARSERS
from demerit.parsers.records import BAD_CONTENT, Parser, Record, Source
from demerit.quality.assess import assess

ROUNDS = 5
AT_LEAST = 0.1  # seconds that one timed run lasts

Log = tuple[list[Record], Source]


def best(work: Callable[[], None]) -> float:
    """Seconds of the quickest of `ROUNDS` runs: what the machine's other work adds is never negative."""
    gc.collect()
    start = time.perf_counter()
    work()
    repeats = max(1, round(AT_LEAST / (time.perf_counter() - start)))
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        times.append((time.perf_counter() - start) / repeats)
    return min(times)


def logs_below(roots: Iterable[Path]) -> dict[str, list[Log]]:
    """What the reader hands to each agent's parser, for every log below these folders."""
    logs: defaultdict[str, list[Log]] = defaultdict(list)

    def recording(parser: Parser) -> Parser:
        def parse(records: Iterable[Record], source: Source) -> list[Session]:
            logs[parser.title].append((list(records), source))
            return []

        return parser._replace(parse=parse)

    watched = tuple(map(recording, PARSERS))
    with mock.patch.object(parsers, "PARSERS", watched), mock.patch.object(sources, "PARSERS", watched):
        for path in sources.find_logs(map(str, roots), []):
            try:
                sources.read_sessions(path, REPORT_LIMITS)
            except sources.Unreadable:
                continue
    return logs


def measure(parser: Parser, logs: list[Log]) -> None:
    records = [record.data for log, _ in logs for record in log]
    megabytes = sum(map(len, records)) / 1e6
    decoder = msgspec.json.Decoder()
    now = datetime.now(UTC)

    def decode() -> None:
        for data in records:
            try:
                decoder.decode(data)
            except BAD_CONTENT:
                continue

    def parse() -> None:
        for log, source in logs:
            parser.parse(log, source)

    def judge() -> None:
        for log, source in logs:
            for session in parser.parse(log, source):
                assess(session, now)

    each = megabytes * 1e6 / len(records)
    print(f"{parser.title}: {megabytes:.2f} MB in {len(logs)} logs, {len(records):,} records of {each:,.0f} bytes")
    base = best(decode)
    for name, seconds in (("decode, untyped", base), ("parse", best(parse)), ("parse and judge", best(judge))):
        print(f"  {name:16} {megabytes / seconds:6.0f} MB/s   {base / seconds:5.2f} of decoding alone")


if __name__ == "__main__":
    found = logs_below([CORPUS] if CORPUS.is_dir() else [SAMPLES])
    fixtures = logs_below([ROOT / "tests" / "parsers"])
    for chosen in PARSERS:
        if len(sys.argv) == 1 or chosen.agent in sys.argv[1:]:
            measure(chosen, found.get(chosen.title) or fixtures[chosen.title])
