"""What the sessions cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import BigInteger, ColumnElement, Label, Select, cast, distinct, func, select
from sqlalchemy import Column as TableColumn

from demerit.panels.choosing import (
    ZERO,
    by_usage,
    grouped_session,
    hours_between,
    narrowed,
    of_chosen,
    of_hours,
    of_usage,
)
from demerit.panels.scores import whole
from demerit.panels.tables import MODEL, PROJECT, SESSIONS, Ask, Column, Found, Panel, Row, Value, View, ranked
from demerit.panels.zones import begin_of, date_of, local_day_of_hour, offsets
from demerit.rates import share
from demerit.store.filters import UNDATED, Filter, has_usage, in_hours
from demerit.store.schema import projects, session_hours, sessions

_hours = session_hours.c
_WHOLE = ("requests", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
_KNOWN = ("reasoning_tokens", "cost_usd")  # NULL of none that is known
_UNPRICED = ("unpriced_requests", "unpriced_tokens")


def _sums(of: Any) -> tuple[ColumnElement[Any], ...]:
    """The sums of hours, or of sums of hours, after the number of their sessions."""
    known = (cast(func.sum(of.reasoning_tokens), BigInteger), func.sum(of.cost_usd))
    return (*(whole(of[name]) for name in _WHOLE), *known, *(whole(of[name]) for name in _UNPRICED))


_NAMED = 5
"""Models without a price that the note names."""


class _Sums(NamedTuple):
    """In the order of `_sums`, after the number of sessions."""

    sessions: int
    requests: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int | None
    cost: float | None
    unpriced_requests: int
    unpriced_tokens: int


class _Group(NamedTuple):
    key: tuple[Any, ...]
    sums: _Sums


def _by(key: TableColumn[Any], filter_of: Callable[..., dict[str, str]]) -> Callable[[Ask], Found]:
    """key: a column of hours, or of sessions; `filter_of` gets its value, or for a project its name and its key."""

    def find(ask: Ask) -> Found:
        dated, undated = by_usage(ask.chosen), _undated(ask.chosen)
        with_time, without = (
            sorted(_named(ask, key, _grouped(ask, chosen, chosen is dated, key)), key=_costliest)
            for chosen in (dated, undated)
        )
        rows = []
        for chosen, groups in ((dated, with_time), (undated, without)):
            for group in groups:
                row_filter = narrowed(chosen, **filter_of(*(value or "" for value in group.key)))
                values = (*(value or None for value in group.key), chosen is dated)
                rows.append(Row((*values, *_figures(group.sums)), row_filter))
        shown, more = ranked(rows, ask.limit)
        parts = [group.sums for group in with_time]
        # A session has one project and one agent, but may have several models.
        counted = None if key.table is session_hours else sum(part.sessions for part in parts)
        return _found(ask, shown, parts, 2 if key is sessions.c.project_id else 1, more, counted)

    return find


def _named(ask: Ask, key: TableColumn[Any], groups: list[_Group]) -> list[_Group]:
    """The groups, those of projects by name and key: numbers are quicker to group by."""
    if key is not sessions.c.project_id:
        return groups
    names = {row.id: (row.name, row.key) for row in ask.fetch(select(projects))}
    return [group._replace(key=names.get(group.key[0], (None, None))) for group in groups]


def _by_day(ask: Ask) -> Found:
    dated, undated = by_usage(ask.chosen), _undated(ask.chosen)
    first, last = hours_between(ask, dated.used_since, dated.used_until)
    day = local_day_of_hour(_hours.hour, offsets(ask.zone, first * 3600, last * 3600))
    groups = sorted(_grouped(ask, dated, True, day.label("local_day")), key=lambda group: group.key)
    rows = []
    for group in groups:
        date = date_of(group.key[0])
        begin, end = begin_of(date, ask.zone), begin_of(date + timedelta(days=1), ask.zone)
        row_filter = narrowed(dated, used_since=begin, used_until=end)
        rows.append(Row((date.isoformat(), True, *_figures(group.sums)), row_filter))
    [without_time] = _grouped(ask, undated, False)
    if without_time.sums.sessions:
        rows.append(Row((None, False, *_figures(without_time.sums)), undated))
    return _found(ask, rows, [group.sums for group in groups], 1)


def _found(
    ask: Ask, rows: Sequence[Row], parts: Sequence[_Sums], keys: int, more: int = 0, counted: int | None = None
) -> Found:
    """parts: the sums of all rows of dated usage. counted: sessions with dated usage, where the rows tell it."""
    dated = by_usage(ask.chosen)
    notes = []
    if any(part.unpriced_requests for part in parts):
        unpriced = _grouped(ask, dated, True, _hours.model, only=_hours.unpriced_requests > 0)
        unpriced.sort(key=lambda group: (-group.sums.unpriced_tokens, group.key))
        names = [
            f"{group.key[0] or 'a model that is not told'} "
            f"({group.sums.unpriced_requests:,} requests, {group.sums.unpriced_tokens:,} tokens)"
            for group in unpriced[:_NAMED]
        ]
        others = f" and {len(unpriced) - _NAMED} more models" if len(unpriced) > _NAMED else ""
        notes.append(f"Without a price, so in no cost: {', '.join(names)}{others}.")
    if counted is None:
        session_id = grouped_session(ask, dated.used_since, dated.used_until)
        used = select(session_id).where(*_of_hours(ask, dated, True)).distinct().subquery()
        [(counted,)] = ask.fetch(select(func.count()).select_from(used))
    costs = [part.cost for part in parts if part.cost is not None]
    reasoning = [part.reasoning for part in parts if part.reasoning is not None]
    sums = [sum(column) for column in zip(*(part._replace(cost=0, reasoning=0) for part in parts), strict=True)]
    total = _Sums(*(sums or [0] * len(_Sums._fields)))._replace(
        sessions=counted, cost=sum(costs) if costs else None, reasoning=sum(reasoning) if reasoning else None
    )
    return Found(rows, counted, dated, Row((*(None,) * keys, True, *_figures(total)), dated), tuple(notes), more)


def _undated(chosen: Filter) -> Filter:
    return replace(of_usage(chosen), undated_usage=True)


def _grouped(
    ask: Ask, chosen: Filter, is_dated: bool, *keys: ColumnElement[Any], only: ColumnElement[bool] | None = None
) -> list[_Group]:
    """The sums of hours with requests, in groups of the same keys: of the chosen sessions, model and span alone."""
    wanted = _of_hours(ask, chosen, is_dated)
    if only is not None:
        wanted.insert(0, only)
    if any(isinstance(key, TableColumn) and key.table is not session_hours for key in keys):
        statement = _by_session(ask, chosen, is_dated, wanted, *keys)
    else:
        statement = select(*keys, func.count(distinct(_hours.session_id)), *_sums(_hours)).where(*wanted)
    for key in keys:
        # By its name: what is computed with parameters would not be the same expression twice for PostgreSQL.
        statement = statement.group_by(key.name if isinstance(key, Label) else key)
    return [_Group(tuple(row[: len(keys)]), _Sums(*row[len(keys) :])) for row in ask.fetch(statement)]


def _by_session(
    ask: Ask, chosen: Filter, is_dated: bool, wanted: Sequence[ColumnElement[bool]], *keys: ColumnElement[Any]
) -> Select[Any]:
    """First the sums of each session, in the order in which its hours lie; then of all with the same keys."""
    session_id = grouped_session(ask, chosen.used_since, chosen.used_until) if is_dated else _hours.session_id + ZERO
    names = (*_WHOLE, *_KNOWN, *_UNPRICED)
    each = (
        select(session_id.label("session_id"), *(func.sum(_hours[name]).label(name) for name in names))
        .where(*wanted)
        .group_by(session_id)
        .subquery()
    )
    return select(*keys, func.count(), *_sums(each.c)).select_from(
        each.join(sessions, sessions.c.id == each.c.session_id)
    )


def _of_hours(ask: Ask, chosen: Filter, is_dated: bool) -> list[ColumnElement[bool]]:
    """That an hour has requests, of the chosen sessions and by the chosen model."""
    spans = in_hours(_hours.hour, chosen.used_since, chosen.used_until) if is_dated else [_hours.hour == UNDATED]
    wanted = [has_usage(_hours), *spans]
    if chosen.used_model is not None:
        wanted.append(_hours.model == chosen.used_model)
    # The hours themselves say when they were, and of which model: no need to look for such in each session as well.
    if is_dated and not chosen.undated_usage:
        anywhen = replace(chosen, used_since=None, used_until=None, used_model=None)
        return [*wanted, of_hours(ask, anywhen, chosen.used_since)]
    if not is_dated and chosen.used_since is None and chosen.used_until is None:
        anywhen = replace(chosen, undated_usage=False, used_model=None)
        return [*wanted, of_chosen(ask, anywhen, _hours.session_id, in_order=True)]
    return [*wanted, of_chosen(ask, chosen, _hours.session_id, in_order=not is_dated or None)]


def _figures(sums: _Sums) -> tuple[Value, ...]:
    read, cached, written = sums.input, sums.cache_read, sums.cache_write
    tokens = (read, cached, written, sums.output, sums.reasoning, share(cached, read + cached + written))
    return (sums.sessions, sums.requests, *tokens, sums.cost, sums.unpriced_requests, sums.unpriced_tokens)


def _costliest(group: _Group) -> tuple[Any, ...]:
    sums = group.sums
    tokens = sums.input + sums.cache_read + sums.cache_write + sums.output
    return (-(sums.cost or 0.0), -tokens, [value or "" for value in group.key])


_COLUMNS = (
    Column("is_dated", "", "the log tells when it was; false: it does not, and the session started in the range"),
    SESSIONS,
    Column("requests", "requests", "model requests, each once though logs repeat it"),
    Column("input_tokens", "tokens", "uncached input"),
    Column("cache_read_tokens", "tokens", "input that was read from a cache"),
    Column("cache_write_tokens", "tokens", "input that was written to a cache"),
    Column("output_tokens", "tokens", "everything generated, reasoning included"),
    Column("reasoning_tokens", "tokens", "the part of the output that was reasoning, where it is told"),
    Column("cache_hit_rate", "share", "cache reads over all input: uncached, read and written; null: no input"),
    Column("cost_usd", "USD", "of the requests with a known price; null: none has one"),
    Column("unpriced_requests", "requests", "without a known price: what they cost is not in `cost_usd`"),
    Column("unpriced_tokens", "tokens", "tokens of these"),
)
_HOW = (
    "one row for each {}, costliest first, and apart from them rows for usage without a time (`is_dated` false). "
    "The total is of dated usage. Models without a price are named in a note."
)

COST_PANEL = Panel(
    "cost",
    "What do the sessions cost, and where does it go?",
    "A low cache hit rate pays the same input again and again; a costly model or project is worth a look at its list.",
    "when a request was made, to the hour: an hour belongs to the day on which it begins in the reader's zone. A row's "
    "list is by activity too: sessions with a request there, whenever they started. Usage without a time goes by when "
    "its session started. With a filter for a model, only that model's requests count.",
    {
        "day": View(
            (Column("day", "date", "the day in the reader's zone; null: without a time"), *_COLUMNS),
            _by_day,
            "one row for each day with requests, and one for usage without a time (`is_dated` false). The total is of "
            "dated usage. A session is in the row of each of its days, so the sessions of the rows do not add up.",
        ),
        "model": View(
            (MODEL, *_COLUMNS), _by(_hours.model, filter_of=lambda m: {"used_model": m}), _HOW.format("model")
        ),
        "project": View(
            (*PROJECT, *_COLUMNS),
            _by(sessions.c.project_id, filter_of=lambda name, key: {"project": key}),
            _HOW.format("project"),
        ),
        "agent": View(
            (Column("agent", "", "key of the agent"), *_COLUMNS),
            _by(sessions.c.agent, filter_of=lambda agent: {"agent": agent}),
            _HOW.format("agent"),
        ),
    },
)
