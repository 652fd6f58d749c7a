"""When people and agents work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace
from sqlalchemy import ColumnElement, func, select

from demerit.panels.choosing import by_activity, grouped_session, narrowed, of_chosen, of_hours
from demerit.panels.scores import whole
from demerit.panels.tables import Ask, Column, Found, Panel, Row, Value, View
from demerit.panels.zones import begin_of
from demerit.store.filters import UNDATED, Filter, in_hours
from demerit.store.schema import session_hours

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_hours = session_hours.c
_SUMS = tuple(whole(_hours[name]) for name in ("messages", "prompts", "tool_calls", "active_us"))


def _by_hour(ask: Ask) -> Found:
    found = _cut(ask, lambda at: (at.weekday(), at.hour))
    cells = [(day, hour) for day in range(7) for hour in range(24)] if found else []
    rows = [Row((DAYS[day], hour, *_figures(found.get((day, hour), _NOTHING)))) for day, hour in cells]
    return _found(ask, rows, 2, found)


def _by_day(ask: Ask) -> Found:
    found = _cut(ask, lambda at: at.date())
    chosen = by_activity(ask.chosen)
    rows = []
    for day, sums in sorted(found.items()):
        begin, end = begin_of(day, ask.zone), begin_of(day + timedelta(days=1), ask.zone)
        rows.append(Row((day.isoformat(), *_figures(sums)), narrowed(chosen, active_since=begin, active_until=end)))
    return _found(ask, rows, 1, found)


_NOTHING = [0] * len(_SUMS)


def _cut(ask: Ask, key_of: Callable[[datetime], Any]) -> dict[Any, list[int]]:
    """The sums of all active hours by what `key_of` makes of the time on the zone's clocks when the hour begins."""
    chosen = by_activity(ask.chosen)
    statement = select(_hours.hour, *_SUMS).where(*_active(ask, chosen)).group_by(_hours.hour)
    found: dict[Any, list[int]] = {}
    for hour, *sums in ask.fetch(statement):
        cell = found.setdefault(key_of(datetime.fromtimestamp(hour * 3600, ask.zone)), [0] * len(sums))
        cell[:] = [a + b for a, b in zip(cell, sums, strict=True)]
    return found


def _active(ask: Ask, chosen: Filter) -> list[ColumnElement[bool]]:
    """That an hour is in the span of `by_activity`, and of a chosen session."""
    spans = in_hours(_hours.hour, chosen.active_since, chosen.active_until)
    # The hours themselves say when they were: no need to look for such hours in each session as well.
    anywhen = replace(chosen, active_since=None, active_until=None)
    return [*spans, of_hours(ask, anywhen, chosen.active_since)]


def _figures(sums: list[int]) -> tuple[Value, ...]:
    messages, prompts, calls, active_us = sums
    return (messages, prompts, calls, active_us / 60_000_000)


def _found(ask: Ask, rows: list[Row], keys: int, found: dict[Any, list[int]]) -> Found:
    chosen = by_activity(ask.chosen)
    sums = [sum(column) for column in zip(*found.values(), strict=True)] or _NOTHING
    session_id = grouped_session(ask, chosen.active_since, chosen.active_until)
    active = select(session_id).where(*_active(ask, chosen)).distinct().subquery()
    [(counted,)] = ask.fetch(select(func.count()).select_from(active))
    undated = select(whole(_hours.messages)).where(
        _hours.hour == UNDATED, of_chosen(ask, ask.chosen, _hours.session_id, in_order=True)
    )
    [(without,)] = ask.fetch(undated)
    notes = (f"{without:,} messages have no time, and are in no row.",) if without else ()
    return Found(rows, counted, chosen, Row((*(None,) * keys, *_figures(sums)), chosen), notes)


_COLUMNS = (
    Column("messages", "messages", "messages of every role, each once though logs repeat it"),
    Column("prompts", "messages", "of these, what people wrote"),
    Column("tool_calls", "calls", "calls of tools"),
    Column(
        "active_minutes", "minutes", "time between messages of a session that follow each other within five minutes"
    ),
)
_TIME = (
    "when a message was written, to the hour, by the reader's clocks as they stood then. In a zone that is half an "
    "hour off, an hour counts where it begins. The list is by activity too: sessions in which something happened in "
    "the range, whenever they started."
)

RHYTHM_PANEL = Panel(
    "rhythm",
    "When do people and agents work?",
    "Sessions at odd hours that go badly, or agents that run all night, show here first.",
    _TIME,
    {
        "hour": View(
            (
                Column("weekday", "", "Monday to Sunday"),
                Column("hour", "hour", "0 to 23: when it begins on the zone's clocks"),
                *_COLUMNS,
            ),
            _by_hour,
            "all hours of a week, Monday first; no row at all without any activity. Rows count messages, not sessions.",
        ),
        "day": View(
            (Column("day", "date", "the day in the reader's zone"), *_COLUMNS),
            _by_day,
            "one row for each day with activity; its list has the sessions in which something happened on that day.",
        ),
    },
)
