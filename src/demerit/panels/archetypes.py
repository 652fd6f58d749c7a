"""What shapes the sessions had, and what a usual score is for each."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from sqlalchemy import Connection, func

from demerit.panels.choosing import narrowed, over_chosen
from demerit.panels.scores import percentile
from demerit.panels.tables import SESSIONS, Ask, Column, Found, Panel, Row, Value, View
from demerit.quality import Archetype
from demerit.rates import share
from demerit.store.filters import Filter, archetype, chosen_sessions
from demerit.store.schema import session_signals

_ORDER = ("quick", "standard", "deep", "marathon", "automation")


def _by_archetype(ask: Ask) -> Found:
    found: dict[str, Counter[int | None]] = {name: Counter() for name in _ORDER}
    statement = over_chosen(ask, ask.chosen, archetype.label("shape"), session_signals.c.score, func.count())
    for name, score, n in ask.fetch(statement.group_by("shape", session_signals.c.score)):
        found[name][score] += n
    sessions = sum(counts.total() for counts in found.values())
    rows = []
    for name, counts in found.items():
        chosen = narrowed(ask.chosen, archetype=name)
        if chosen is not None:
            rows.append(Row((name, *_figures(counts, sessions)), chosen))
    total = Row(("all", *_figures(sum(found.values(), Counter()), sessions)), ask.chosen)
    return Found(rows, sessions, ask.chosen, total)


def _figures(counts: Counter[int | None], sessions: int) -> tuple[Value, ...]:
    scores = {score: n for score, n in counts.items() if score is not None}
    graded = sum(scores.values())
    average = share(sum(score * n for score, n in scores.items()), graded)
    quarters = (percentile(scores, percent) for percent in (25, 50, 75))
    return (counts.total(), share(counts.total(), sessions), graded, average, *quarters)


class Standing(NamedTuple):
    """Where a score stands among others."""

    percentile: float | None
    """How many of a hundred scored lower, those with the same score counted half; None: there are no others."""
    graded: int
    """Sessions that it is compared with."""


def score_percentile(connection: Connection, chosen: Filter, shape: Archetype, score: int) -> Standing:
    """Where `score` stands among the chosen sessions of one archetype that have a score."""
    among = narrowed(chosen, archetype=shape.value)
    if among is None:
        return Standing(None, 0)
    scores = session_signals.c.score
    statement = chosen_sessions(among, scores, func.count()).where(scores.is_not(None)).group_by(scores)
    counts: dict[int, int] = dict(map(tuple, connection.execute(statement)))
    graded = sum(counts.values())
    below = sum(n for found, n in counts.items() if found < score) + counts.get(score, 0) / 2
    return Standing(below * 100 / graded if graded else None, graded)


ARCHETYPES_PANEL = Panel(
    "archetypes",
    "What shapes do the sessions have, and what is a usual score for each?",
    "Compare a session with others of its shape: long ones have more occasions to lose points.",
    "when a session started.",
    {
        "archetype": View(
            (
                Column("archetype", "", "shape of the session, by its length and whether a person took part"),
                SESSIONS,
                Column("share", "share", "`sessions` over all sessions"),
                Column("graded", "sessions", "of these, those with a score: what the rest is taken over"),
                Column("average_score", "points", "mean score; null: none has one"),
                Column("p25_score", "points", "a quarter of them have this score or less; null: none has one"),
                Column("p50_score", "points", "half of them do"),
                Column("p75_score", "points", "three quarters of them do"),
            ),
            _by_archetype,
            "every chosen session is in exactly one row, measured or not. Percentiles are scores that sessions have.",
        )
    },
)
