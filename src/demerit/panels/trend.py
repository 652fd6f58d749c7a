"""How scores change: over time, and from one model, project, agent or version to the next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, select

from demerit.panels.choosing import is_many, narrowed, over_chosen
from demerit.panels.scores import NO_SCORES, SCORE_COLUMNS, SCORE_SUMS, Scores, scores_of, together, told
from demerit.panels.tables import PROJECT, Ask, Column, Found, Panel, Row, View, ranked
from demerit.panels.zones import Offset, begin_of, date_of, local_day, offsets
from demerit.store.filters import conditions, microseconds, started_us, with_signals
from demerit.store.schema import projects, sessions

FILLED = 731
"""Days or weeks in a row at most for which those without a session get a row too."""
_MONDAY = 4  # 1970-01-05


def _over_time(days: int) -> Callable[[Ask], Found]:
    def find(ask: Ask) -> Found:
        day = local_day(started_us, _offsets(ask)).label("local_day")
        found: dict[int | None, list[Scores]] = {}
        for number, *sums in ask.fetch(over_chosen(ask, ask.chosen, day, *SCORE_SUMS).group_by(day.name)):
            first = None if number is None else number if days == 1 else number - (number - _MONDAY) % 7
            found.setdefault(first, []).append(scores_of(sums))
        scores = {first: together(parts) for first, parts in found.items()}
        undated = scores.pop(None, NO_SCORES).sessions
        starts = sorted(first for first in scores if first is not None)
        if starts and starts[-1] - starts[0] < FILLED * days:
            starts = list(range(starts[0], starts[-1] + 1, days))
        rows = [_row(ask, first, days, scores.get(first, NO_SCORES)) for first in starts]
        total = together(scores.values())
        # A session without any time is in no list that asks for one either.
        notes = (f"{undated} sessions have no time at all, and are in no row.",) if undated else ()
        sessions = total.sessions + undated
        return Found(rows, sessions, ask.chosen, None if undated else Row((None, *total.values), ask.chosen), notes)

    return find


def _row(ask: Ask, first: int, days: int, scores: Scores) -> Row:
    day = date_of(first)
    span = narrowed(ask.chosen, since=begin_of(day, ask.zone), until=begin_of(day + timedelta(days=days), ask.zone))
    return Row((day.isoformat(), *scores.values), span)


def _offsets(ask: Ask) -> list[Offset]:
    """The zone's offsets over the span of the chosen sessions."""
    since, until = ask.chosen.since, ask.chosen.until
    if since is None or until is None:
        [(first, last)] = ask.fetch(
            select(
                select(func.min(started_us)).select_from(sessions).scalar_subquery(),
                select(func.max(started_us)).select_from(sessions).scalar_subquery(),
            )
        )
    else:
        first = last = 0
    first = first or 0 if since is None else microseconds(since)
    last = last or 0 if until is None else microseconds(until)
    return offsets(ask.zone, first // 1_000_000, last // 1_000_000)


def _by(*keys: ColumnElement[Any], filter_of: Callable[..., dict[str, str]]) -> Callable[[Ask], Found]:
    def find(ask: Ask) -> Found:
        statement = select(*keys, *SCORE_SUMS).select_from(with_signals.outerjoin(projects, _PROJECT_OF))
        found = ask.fetch(
            statement.where(*conditions(ask.chosen, by_time=not is_many(ask, ask.chosen))).group_by(*keys)
        )
        listed = [(tuple(row[: len(keys)]), scores_of(row[len(keys) :])) for row in found]
        listed.sort(key=lambda item: (-item[1].sessions, [value or "" for value in item[0]]))
        rows = [
            Row(
                (*(value or None for value in key), *scores.values),
                narrowed(ask.chosen, **filter_of(*(value or "" for value in key))),
            )
            for key, scores in listed
        ]
        total = together(scores for _, scores in listed)
        shown, more = ranked(rows, ask.limit)
        return Found(
            shown, total.sessions, ask.chosen, Row((*(None for _ in keys), *total.values), ask.chosen), more=more
        )

    return find


_PROJECT_OF = projects.c.id == sessions.c.project_id


def _day(name: str, meaning: str) -> tuple[Column, ...]:
    return (Column(name, "date", meaning), *SCORE_COLUMNS)


SCORE_TREND_PANEL = Panel(
    "score-trend",
    "Do sessions go better or worse, over time and from one model, project, agent or version to the next?",
    "A step down on one day often has a cause of that day: a new version, another model, a changed instruction.",
    "when a session started, in the reader's zone; a session without times goes by when its log was written.",
    {
        "day": View(
            _day("day", "the day in the reader's zone"),
            _over_time(1),
            "from the first day with a session to the last. A day without one has 0 sessions and null for the rest; "
            f"where the span is longer than {FILLED} days, it has no row.",
        ),
        "week": View(
            _day("week", "the Monday on which the week begins in the reader's zone"),
            _over_time(7),
            f"as by day, in weeks from Monday to Sunday, at most {FILLED} of them in a row.",
        ),
        "model": View(
            (Column("model", "", "the model with most of a session's answers; null: not told"), *SCORE_COLUMNS),
            _by(told(sessions.c.model), filter_of=lambda model: {"main_model": model}),
            "every chosen session is in exactly one row; most sessions first.",
        ),
        "project": View(
            (*PROJECT, *SCORE_COLUMNS),
            _by(projects.c.name, projects.c.key, filter_of=lambda name, key: {"project": key}),
            "every chosen session is in exactly one row; most sessions first.",
        ),
        "agent": View(
            (Column("agent", "", "key of the agent"), *SCORE_COLUMNS),
            _by(sessions.c.agent, filter_of=lambda agent: {"agent": agent}),
            "every chosen session is in exactly one row; most sessions first.",
        ),
        "version": View(
            (
                Column("agent", "", "key of the agent"),
                Column("agent_version", "", "version of the agent; null: not told"),
                *SCORE_COLUMNS,
            ),
            _by(
                sessions.c.agent,
                told(sessions.c.agent_version),
                filter_of=lambda agent, version: {"agent": agent, "agent_version": version},
            ),
            "every chosen session is in exactly one row; most sessions first.",
        ),
    },
)
