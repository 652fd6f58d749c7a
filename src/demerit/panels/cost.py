"""What the sessions cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import BigInteger, ColumnElement, Label, Select, cast, distinct, func, select

from demerit.panels.choosing import by_usage, hours_of, narrowed, of_usage
from demerit.panels.rates import share
from demerit.panels.scores import whole
from demerit.panels.tables import MODEL, PROJECT, SESSIONS, Ask, Column, Found, Panel, Row, Value, View, ranked
from demerit.panels.zones import begin_of, date_of, local_day, offsets
from demerit.store.filters import HOUR_US, UNDATED, Filter, conditions, has_usage, in_hours, microseconds
from demerit.store.schema import projects, session_hours, sessions

_hours = session_hours.c
_SUMS = (
    func.count(distinct(_hours.session_id)),
    *(whole(_hours[name]) for name in ("requests", "input_tokens", "cache_read_tokens", "cache_write_tokens")),
    whole(_hours.output_tokens),
    cast(func.sum(_hours.reasoning_tokens), BigInteger),
    func.sum(_hours.cost_usd),
    *(whole(_hours[name]) for name in ("unpriced_requests", "unpriced_tokens")),
)
_NAMED = 5
"""Models without a price that the note names."""


class _Sums(NamedTuple):
    """In the order of `_SUMS`."""

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


def _by(*keys: ColumnElement[Any], filter_of: Callable[..., dict[str, str]]) -> Callable[[Ask], Found]:
    def find(ask: Ask) -> Found:
        dated, undated = by_usage(ask.chosen), _undated(ask.chosen)
        with_time = sorted(_grouped(ask, dated, True, *keys), key=_costliest)
        rows = []
        for chosen, groups in (
            (dated, with_time),
            (undated, sorted(_grouped(ask, undated, False, *keys), key=_costliest)),
        ):
            for group in groups:
                row_filter = narrowed(chosen, **filter_of(*(value or "" for value in group.key)))
                key = (*(value or None for value in group.key), chosen is dated)
                rows.append(Row((*key, *_figures(group.sums)), row_filter))
        shown, more = ranked(rows, ask.limit)
        return _found(ask, shown, [group.sums for group in with_time], len(keys), more)

    return find


def _by_day(ask: Ask) -> Found:
    dated, undated = by_usage(ask.chosen), _undated(ask.chosen)
    first, last = _span(ask, dated)
    day = local_day(cast(_hours.hour, BigInteger) * HOUR_US, offsets(ask.zone, first * 3600, last * 3600))
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


def _found(ask: Ask, rows: Sequence[Row], parts: Sequence[_Sums], keys: int, more: int = 0) -> Found:
    """parts: the sums of all rows of dated usage."""
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
    [(counted,)] = ask.fetch(_of_hours(dated, True, func.count(distinct(_hours.session_id))))
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
    statement = _of_hours(chosen, is_dated, *keys, *_SUMS)
    if only is not None:
        statement = statement.where(only)
    for key in keys:
        # By its name: what is computed with parameters would not be the same expression twice for PostgreSQL.
        statement = statement.group_by(key.name if isinstance(key, Label) else key)
    return [_Group(tuple(row[: len(keys)]), _Sums(*row[len(keys) :])) for row in ask.fetch(statement)]


def _of_hours(chosen: Filter, is_dated: bool, *columns: ColumnElement[Any]) -> Select[Any]:
    """Of the hours with requests in the chosen sessions, by the chosen model."""
    spans = in_hours(_hours.hour, chosen.used_since, chosen.used_until) if is_dated else [_hours.hour == UNDATED]
    statement = hours_of(chosen, chosen.used_since if is_dated else None, *columns).where(has_usage(_hours), *spans)
    if chosen.used_model is not None:
        statement = statement.where(_hours.model == chosen.used_model)
    # The hours themselves say when they were: no need to look for such hours in each session as well.
    seen = is_dated and not chosen.undated_usage
    return statement.where(*conditions(replace(chosen, used_since=None, used_until=None) if seen else chosen))


def _figures(sums: _Sums) -> tuple[Value, ...]:
    read, cached, written = sums.input, sums.cache_read, sums.cache_write
    tokens = (read, cached, written, sums.output, sums.reasoning, share(cached, read + cached + written))
    return (sums.sessions, sums.requests, *tokens, sums.cost, sums.unpriced_requests, sums.unpriced_tokens)


def _costliest(group: _Group) -> tuple[Any, ...]:
    sums = group.sums
    tokens = sums.input + sums.cache_read + sums.cache_write + sums.output
    return (-(sums.cost or 0.0), -tokens, [value or "" for value in group.key])


def _span(ask: Ask, dated: Filter) -> tuple[int, int]:
    """The first and the last hour that may come up."""
    since, until = dated.used_since, dated.used_until
    assert since is not None, "by_usage always sets it"
    [(first, last)] = ask.fetch(
        select(
            select(func.min(_hours.hour)).where(_hours.hour > UNDATED).scalar_subquery(),
            select(func.max(_hours.hour)).where(_hours.hour > UNDATED).scalar_subquery(),
        )
    )
    first = max(first or 0, microseconds(since) // HOUR_US)
    return first, max(first, last or 0) if until is None else microseconds(until) // HOUR_US


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
            _by(projects.c.name, projects.c.key, filter_of=lambda name, key: {"project": key}),
            _HOW.format("project"),
        ),
        "agent": View(
            (Column("agent", "", "key of the agent"), *_COLUMNS),
            _by(sessions.c.agent, filter_of=lambda agent: {"agent": agent}),
            _HOW.format("agent"),
        ),
    },
)
