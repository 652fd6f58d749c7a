"""How full contexts got, and how often they were emptied."""

from __future__ import annotations

from sqlalchemy import ColumnElement, case, func, select

from demerit.panels.choosing import narrowed, over_chosen
from demerit.panels.scores import count_if, whole
from demerit.panels.tables import SESSIONS, Ask, Column, Found, Panel, Row, View
from demerit.rates import share
from demerit.store.schema import session_signals

_SMALLEST = 8_000
BIN_EDGES = tuple(_SMALLEST * 2**power for power in range(8))
"""8,000 to 1,024,000 tokens, doubling; what is below and beyond has a bin as well."""

_peak, _resets = session_signals.c.peak_context_tokens, session_signals.c.context_resets


def _all(ask: Ask) -> Found:
    ordered = (
        over_chosen(
            ask,
            ask.chosen,
            _peak.label("peak"),
            _resets.label("resets"),
            func.row_number().over(order_by=_peak).label("place"),
            func.count().over().label("sessions"),
        )
        .where(_peak.is_not(None))
        .subquery()
    )
    found = ordered.c

    def percentile(percent: int) -> ColumnElement[int]:
        # The first one that so many are at most; the places follow the values.
        return func.min(case((found.place * 100 >= found.sessions * percent, found.peak)))

    [(measured, p50, p90, most, resets, with_resets)] = ask.fetch(
        select(
            func.count(),
            percentile(50),
            percentile(90),
            func.max(found.peak),
            whole(found.resets),
            count_if(found.resets > 0),
        ).select_from(ordered)
    )
    chosen = ask.count(ask.chosen)
    values = (measured, p50, p90, most, resets if measured else None, with_resets if measured else None)
    row = Row((*values, share(with_resets, measured)), narrowed(ask.chosen, peak_from=0))
    return Found([row], chosen, ask.chosen, notes=_unmeasured(chosen - measured))


def _by_size(ask: Ask) -> Found:
    whens = [(_peak < edge, number) for number, edge in enumerate(BIN_EDGES)]
    size = case(*whens, else_=len(BIN_EDGES)).label("size_bin")
    statement = over_chosen(ask, ask.chosen, size, func.count(), whole(_resets), count_if(_resets > 0))
    found = {number: counts for number, *counts in ask.fetch(statement.where(_peak.is_not(None)).group_by(size.name))}
    measured = sum(n for n, _, _ in found.values())
    chosen = ask.count(ask.chosen)
    rows = []
    for number, (floor, below) in enumerate(zip((0, *BIN_EDGES), (*BIN_EDGES, None), strict=True) if measured else ()):
        n, resets, with_resets = found.get(number, (0, 0, 0))
        wanted = {"peak_from": floor} if below is None else {"peak_from": floor, "peak_below": below}
        values = (floor, below, n, measured, share(n, measured), resets, with_resets, share(with_resets, n))
        rows.append(Row(values, narrowed(ask.chosen, **wanted)))
    return Found(rows, chosen, ask.chosen, notes=_unmeasured(chosen - measured))


def _unmeasured(sessions: int) -> tuple[str, ...]:
    return (f"The context of {sessions} sessions is not measured.",) if sessions else ()


_RESETS = (
    Column("resets", "resets", "how often a context was shed: compactions and clearings"),
    Column("with_resets", "sessions", "of `sessions`, those in which it was shed at least once"),
    Column("with_resets_share", "share", "`with_resets` over `sessions`"),
)

CONTEXT_PANEL = Panel(
    "context",
    "How full do contexts get, and how often are they emptied?",
    "What an agent knew is gone after a reset: split tasks that reach it, or start a new session for each part.",
    "when a session started.",
    {
        "all": View(
            (
                SESSIONS,
                Column(
                    "p50_peak_tokens", "tokens", "half of the sessions peaked at this or less; null: none is measured"
                ),
                Column("p90_peak_tokens", "tokens", "nine of ten did"),
                Column("max_peak_tokens", "tokens", "the largest context"),
                *_RESETS,
            ),
            _all,
            "over sessions whose context is measured. Percentiles are peaks that sessions have.",
        ),
        "size": View(
            (
                Column("from_tokens", "tokens", "the peak is this or more"),
                Column("below_tokens", "tokens", "and less than this; null: no limit"),
                SESSIONS,
                Column("measured", "sessions", "sessions whose context is measured"),
                Column("share", "share", "`sessions` over `measured`"),
                *_RESETS,
            ),
            _by_size,
            "every session whose context is measured is in exactly one row; without any there is no row.",
        ),
    },
)
