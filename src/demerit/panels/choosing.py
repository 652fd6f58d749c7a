"""From the sessions that are chosen to those of one row: the filter of the list that a row opens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Select, func, literal_column, select

from demerit.panels.tables import Ask
from demerit.store.filters import HOUR_US, UNDATED, Filter, chosen_sessions, hidden_sessions, microseconds
from demerit.store.schema import session_hours, sessions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALL = Filter()
_FLOORS = frozenset(("since", "used_since", "active_since", "peak_from", "children_from"))
_CEILINGS = frozenset(("until", "used_until", "active_until", "peak_below", "children_below"))
# A row's project is one of those that the filter chose, by its name or its key, and its key is the narrower.
_NARROWER = frozenset(("project",))


def narrowed(chosen: Filter, **wanted: Any) -> Filter | None:
    """The chosen sessions of which this holds as well; None where the two contradict each other.

    A filter holds one value a field, so "grade A" cannot be narrowed to "grade B": no session is both.
    """
    changes: dict[str, Any] = {}
    for field, value in wanted.items():
        have = getattr(chosen, field)
        if have == getattr(_ALL, field) or field in _NARROWER:
            changes[field] = value
        elif value is None or value == have:
            continue
        elif field in _FLOORS:
            changes[field] = max(have, value)
        elif field in _CEILINGS:
            changes[field] = min(have, value)
        else:
            return None
    return replace(chosen, **changes)


def by_usage(chosen: Filter) -> Filter:
    """The sessions with a model request in the chosen span, whenever they started."""
    anywhen = replace(of_usage(chosen), since=None, until=None)
    return _surely(narrowed(anywhen, used_since=chosen.since or EPOCH, used_until=chosen.until))


def of_usage(chosen: Filter) -> Filter:
    """The same with its model as the one of requests: a filter for a model is for its requests, not for all those of
    sessions in which it took part."""
    model = chosen.model if chosen.used_model is None else chosen.used_model
    return replace(chosen, model=None, used_model=model)


def by_activity(chosen: Filter) -> Filter:
    """The sessions in which something happened in the chosen span, whenever they started."""
    anywhen = replace(chosen, since=None, until=None)
    return _surely(narrowed(anywhen, active_since=chosen.since or EPOCH, active_until=chosen.until))


ZERO: ColumnElement[int] = literal_column("0")
"""Added to a column, it keeps SQLite from an index that begins with that column."""
_MANY = 10
"""From a tenth of all sessions on it is quicker to go through the rows of all of them, in the order of their index."""


def of_chosen(
    ask: Ask, chosen: Filter, session_id: ColumnElement[int], in_order: bool | None = None
) -> ColumnElement[bool]:
    """That a row of sums, with this column, is of one of the chosen sessions.

    in_order: rows are best read in the order of the index that holds them, and looked up among the chosen one by one;
    False: best from the chosen sessions on. None: as it is quicker for so many sessions.
    """
    if chooses_all(chosen):
        return (session_id + ZERO).not_in(hidden_sessions)
    if in_order is None:
        return led_by_rows(ask, chosen, session_id).in_(_ids(chosen))
    return (session_id + ZERO if in_order else session_id).in_(_ids(chosen))


def _ids(chosen: Filter) -> Select[Any]:
    return chosen_sessions(chosen, sessions.c.id).correlate(None)


def led_by_rows(ask: Ask, chosen: Filter, session_id: ColumnElement[int]) -> ColumnElement[int]:
    """The column, for a join or a look-up: so that it leads nowhere where many sessions are chosen.

    SQLite cannot tell how many rows a choice leaves, and a sum of a column is in no index.
    """
    return session_id + ZERO if is_many(ask, chosen) else session_id


def over_chosen(ask: Ask, chosen: Filter, *columns: ColumnElement[Any]) -> Select[Any]:
    """`chosen_sessions`, for sums over all of them."""
    return chosen_sessions(chosen, *columns, by_time=not is_many(ask, chosen))


def chooses_all(chosen: Filter) -> bool:
    return chosen == _ALL


def is_many(ask: Ask, chosen: Filter) -> bool:
    """Whether so many sessions are chosen that rows of sums are read for all."""
    if chooses_all(chosen):
        return True
    if chosen not in ask.many:
        [(all_sessions,)] = ask.fetch(select(func.count()).select_from(sessions))
        some = chosen_sessions(chosen, sessions.c.id).limit(all_sessions // _MANY + 1).subquery()
        [(found,)] = ask.fetch(select(func.count()).select_from(some))
        ask.many[chosen] = found > all_sessions // _MANY
    return ask.many[chosen]


def of_hours(ask: Ask, chosen: Filter, since: datetime | None) -> ColumnElement[bool]:
    """`of_chosen` for hours of sessions. since: the hours begin then, None or `EPOCH` for all."""
    # A span's hours lie together; those of a project are better found by its sessions.
    in_order = True if since is not None and since > EPOCH and chosen.project is None else None
    return of_chosen(ask, chosen, session_hours.c.session_id, in_order)


def hours_between(ask: Ask, since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """The first and the last hour that may come up in a span."""
    hour = session_hours.c.hour
    [(first, last)] = ask.fetch(
        select(
            select(func.min(hour)).where(hour > UNDATED).scalar_subquery(),
            select(func.max(hour)).where(hour > UNDATED).scalar_subquery(),
        )
    )
    first = max(first or 0, microseconds(since or EPOCH) // HOUR_US)
    return first, max(first, last or 0) if until is None else microseconds(until) // HOUR_US


_SHORT = 4


def grouped_session(ask: Ask, since: datetime | None, until: datetime | None) -> ColumnElement[int]:
    """The session of an hour in a span, to group by: as its hours lie, or for a quarter of all time as they are found.

    SQLite would go through the hours of all sessions, for their order.
    """
    first, last = hours_between(ask, None, None)
    begin, end = hours_between(ask, since, until)
    session_id: ColumnElement[int] = session_hours.c.session_id
    return session_id + ZERO if (end - begin) * _SHORT < last - first else session_id


def _surely(chosen: Filter | None) -> Filter:
    assert chosen is not None, "bounds never contradict each other"
    return chosen
