"""From the sessions that are chosen to those of one row: the filter of the list that a row opens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Select, literal_column, select

from demerit.store.filters import Filter, with_signals
from demerit.store.schema import projects, session_hours, sessions

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


def hours_of(chosen: Filter, since: datetime | None, *columns: ColumnElement[Any]) -> Select[Any]:
    """These columns of the hours of sessions, with their session, signals and project; `chosen` is yet to be asked for.

    since: the hours begin then, None or `EPOCH` for all.
    """
    session_id: ColumnElement[int] = session_hours.c.session_id
    if since is not None and since > EPOCH and chosen.project is None:
        # SQLite cannot tell that a span is short, and would look through all sessions for those with such hours. As a
        # sum, the column leads it from sessions to their hours no more, only from the span's hours to their sessions.
        session_id = session_id + literal_column("0")
    return select(*columns).select_from(
        with_signals.join(session_hours, session_id == sessions.c.id).outerjoin(
            projects, projects.c.id == sessions.c.project_id
        )
    )


def _surely(chosen: Filter | None) -> Filter:
    assert chosen is not None, "bounds never contradict each other"
    return chosen
