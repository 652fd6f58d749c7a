"""Insights and reads on a large history. `python -m benchmarks.insights [--sessions N] [--only WORD]`

A store of 100,000 sessions over two years (5 million messages, 2.5 million calls and as many requests) is made once and
asked everything: each view of each panel, over ranges from a week to all time, without and with filters; then the reads
of single sessions. Printed are p50, p95 and the slowest, with a mark where p95 misses its budget.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import Connection

from benchmarks.history import AGENTS, END, LONG_MESSAGES, MODELS, history
from demerit.panels import PANELS
from demerit.store import Store
from demerit.store.filters import Filter
from demerit.store.reads import (
    Sort,
    count_sessions,
    find_session,
    list_sessions,
    read_session,
    read_text,
    read_transcript,
)
from demerit.store.search import search
from demerit.store.texts import TEXT_SPACE

PANEL_MS = 300
READ_MS = 100
_RANGES = {"7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": None}
_CHOICES = {
    "all": Filter(),
    "project, large": Filter(project="project-1"),
    "project, small": Filter(project="project-150"),
    "agent, common": Filter(agent=AGENTS[0]),
    "agent, rare": Filter(agent=AGENTS[-1]),
    "model, common": Filter(model=MODELS[0]),
    "model, rare": Filter(model=MODELS[-2]),
}


def asks() -> Iterator[tuple[str, Filter]]:
    """Every range with every choice."""
    for (span, days), (name, chosen) in itertools.product(_RANGES.items(), _CHOICES.items()):
        since = None if days is None else END - timedelta(days=days)
        yield f"{span} {name}", msgspec.structs.replace(chosen, since=since)


class Measured:
    """Prints one line for each thing that is measured, and remembers what misses its budget."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def __call__(self, name: str, asked: Sequence[tuple[str, Callable[[], Any]]], budget_ms: float) -> None:
        """Each asked once unmeasured, so that what it reads is in memory; then the better of two counts."""
        found = []
        for what, ask in asked:
            ask()
            found.append((min(_ms(ask) for _ in range(2)), what))
        found.sort()
        times = [ms for ms, _ in found]
        p95 = statistics.quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
        mark = f"  over {budget_ms} ms" if p95 > budget_ms else ""
        if mark:
            self.missed.append(name)
        slowest = f"{times[-1]:7.1f} ({found[-1][1]})"
        print(f"{name:<28} {statistics.median(times):7.1f} {p95:7.1f} {slowest}{mark}", flush=True)


def _ms(ask: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    ask()
    return (time.perf_counter() - begun) * 1000


def ask_panels(store: Store, measured: Measured, only: str) -> None:
    zone = ZoneInfo("Europe/Berlin")

    def run(panel: str, by: str, chosen: Filter) -> None:
        with store.reading() as connection:
            PANELS[panel].run(connection, chosen, zone, by)

    for panel in PANELS.values():
        for by in panel.by:
            if only in f"{panel.name} {by}":
                todo = [(name, partial(run, panel.name, by, chosen)) for name, chosen in asks()]
                measured(f"{panel.name} by {by}", todo, PANEL_MS)


_SORTS: tuple[Sort, ...] = ("started", "score", "duration", "cost", "tokens", "messages")
_LATE_PAGES = 60


def ask_reads(store: Store, measured: Measured, sessions: int) -> None:
    """The list in every order, early and late; single sessions; windows of a long transcript; the search."""

    def timed(name: str, todo: Sequence[tuple[str, Callable[[Connection], Any]]]) -> None:
        def run(read: Callable[[Connection], Any]) -> None:
            with store.reading() as connection:
                read(connection)

        measured(name, [(what, partial(run, read)) for what, read in todo], READ_MS)

    chosen = dict(asks())
    for sort in _SORTS:
        for descending in (True, False):
            pages: list[tuple[str, Callable[[Connection], Any]]] = [
                (name, partial(_page, sort=sort, descending=descending, chosen=one)) for name, one in chosen.items()
            ]
            after = None
            with store.reading() as connection:
                for number in range(_LATE_PAGES):
                    page = list_sessions(connection, Filter(), sort, descending, 500, after)
                    after = page.next
                    if after is None:
                        break
                    if number % 10 == 9:
                        pages.append(
                            (
                                f"from row {(number + 1) * 500}",
                                partial(_page, sort=sort, descending=descending, chosen=Filter(), after=after),
                            )
                        )
            timed(f"list by {sort}, {'down' if descending else 'up'}", pages)
    timed("count", [(name, partial(count_sessions, chosen=one)) for name, one in chosen.items()])
    numbers = range(1, sessions, max(1, sessions // 40))
    timed("show", [(f"session {number}", partial(read_session, session_id=number)) for number in numbers])
    timed("find by its name", [("no such", _nobody), *((f"{n:x}", partial(_found_again, number=n)) for n in numbers)])
    windows = [0, 100, 5000, LONG_MESSAGES - 100, LONG_MESSAGES - 1, *range(0, LONG_MESSAGES, 400)]
    timed(
        "transcript, 100 of 10,000",
        [(f"from {at}", partial(read_transcript, session_id=sessions, start=at)) for at in windows],
    )
    texts = [(f"text {n}", partial(read_text, text_id=n * TEXT_SPACE)) for n in numbers]
    timed("text", texts)
    queries = ["fix", "the", "lexer config", '"slow index"', "add -fix", "pars*", "nowhere", "fix the", "timeout", "q*"]
    timed("search", [(query, partial(search, query=query, chosen=Filter())) for query in queries])
    last = Filter(since=END - timedelta(days=30))
    timed("search, 30d", [(query, partial(search, query=query, chosen=last)) for query in queries])


def _page(connection: Connection, sort: Any, descending: bool, chosen: Filter, after: str | None = None) -> None:
    list_sessions(connection, chosen, sort, descending, 50, after)


def _found_again(connection: Connection, number: int) -> None:
    name = read_session(connection, number).row.source_id
    find_session(connection, name[:12])


def _nobody(connection: Connection) -> None:
    try:
        find_session(connection, "ffffffffnobody")
    except LookupError:
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--only", default="", help="a word of the panels to ask; `reads` for the reads alone")
    given = parser.parse_args()
    path = history(given.sessions)
    print(f"{path.name}: {given.sessions:,} sessions, {path.stat().st_size / 1e9:.2f} GB")
    print(f"{'ms':<28} {'p50':>7} {'p95':>7} {'slowest':>7}")
    measured = Measured()
    with Store.open(f"sqlite:///{path}") as store:
        if given.only != "reads":
            ask_panels(store, measured, given.only)
        if given.only in ("", "reads"):
            ask_reads(store, measured, given.sessions)
    print(f"over their budget: {', '.join(measured.missed) or 'none'}")


if __name__ == "__main__":
    main()
