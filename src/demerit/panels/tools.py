"""Which tools fail, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from sqlalchemy import ColumnElement, and_, case, distinct, func, select

from demerit.model import CallStatus
from demerit.panels.choosing import narrowed
from demerit.panels.rates import wilson
from demerit.panels.scores import whole
from demerit.panels.tables import MODEL, SESSIONS, Ask, Column, Found, Panel, Row, Value, View, ranked, rate_columns
from demerit.store.filters import Filter, conditions, with_signals
from demerit.store.schema import session_tools, sessions

_tools = session_tools.c
_RAN = (CallStatus.OK, CallStatus.BENIGN, CallStatus.FAILED, CallStatus.INVALID)
"""Calls whose end says something about the tool or the model: the others ended by a person's hand, or not at all."""
_APART = (CallStatus.FAILED, CallStatus.INVALID, CallStatus.BENIGN, CallStatus.DECLINED, CallStatus.CANCELLED)
_OPEN = (CallStatus.PENDING, CallStatus.UNKNOWN)


def _judged(*statuses: CallStatus) -> ColumnElement[int]:
    """Calls with one of these statuses, in sessions whose log tells statuses."""
    number: Any = sum((_tools[status.value] for status in statuses[1:]), start=_tools[statuses[0].value])
    return whole(case((_tools.is_judged, number), else_=0))


_SUMS = (
    func.count(distinct(_tools.session_id)),
    whole(_tools.calls),
    whole(case((_tools.is_judged, 0), else_=_tools.calls)),
    _judged(*_RAN),
    _judged(CallStatus.FAILED, CallStatus.INVALID),
    *(_judged(status) for status in _APART),
    _judged(*_OPEN),
)


def _by(*keys: ColumnElement[Any], filter_of: Callable[..., dict[str, str]]) -> Callable[[Ask], Found]:
    def find(ask: Ask) -> Found:
        chosen = _with_model(ask.chosen)
        statement = (
            select(*keys, *_SUMS)
            .select_from(with_signals.join(session_tools, _tools.session_id == sessions.c.id))
            .where(*conditions(chosen), and_(_tools.calls > 0, *_of_calls(chosen)))
        )
        found = ask.fetch(statement.group_by(*keys))
        listed = [(tuple(row[: len(keys)]), row[len(keys) :]) for row in found]
        listed.sort(key=lambda item: (-item[1][1], item[0]))
        rows = [
            Row((*(name or None for name in key), *_figures(*sums)), narrowed(chosen, **filter_of(*key)))
            for key, sums in listed
        ]
        with_calls = narrowed(chosen, has_calls=True)
        assert with_calls is not None
        count = ask.count(with_calls)
        sums = [sum(column) for column in zip(*(sums for _, sums in listed), strict=True)] or [0] * len(_SUMS)
        total = Row((*(None for _ in keys), *_figures(count, *sums[1:])), with_calls)
        shown, more = ranked(rows, ask.limit)
        return Found(shown, count, with_calls, total, more=more)

    return find


def _with_model(chosen: Filter) -> Filter:
    """A filter for a model is here for its calls, not for all calls of sessions in which it took part."""
    return replace(chosen, model=None, tool_model=chosen.model if chosen.tool_model is None else chosen.tool_model)


def _of_calls(chosen: Filter) -> list[ColumnElement[bool]]:
    wanted = ((_tools.tool, chosen.tool), (_tools.model, chosen.tool_model))
    return [column == value for column, value in wanted if value is not None]


def _figures(count: int, calls: int, untold: int, judged: int, failures: int, *statuses: int) -> tuple[Value, ...]:
    # Where no log tells statuses, none was counted.
    known: tuple[int | None, ...] = statuses if calls > untold else (None,) * len(statuses)
    return (count, calls, untold, judged, failures if calls > untold else None, *wilson(failures, judged), *known)


_COLUMNS = (
    SESSIONS,
    Column("calls", "calls", "calls, each once though logs repeat it"),
    Column("untold", "calls", "of these, in sessions whose log never tells how calls went: in no other column"),
    Column("judged", "calls", "calls that worked, failed, were benign or invalid: what the rate is taken over"),
    Column("failures", "calls", "of these, failed or invalid; null: no log tells"),
    *rate_columns("failure", "judged"),
    Column("failed", "calls", "ran and failed; null here and below: no log tells"),
    Column("invalid", "calls", "the model's call itself was broken"),
    Column("benign", "calls", "a non-zero exit that only says that nothing was found, or that things differ"),
    Column("declined", "calls", "a person or a permission said no"),
    Column("cancelled", "calls", "interrupted, or never run because of another call"),
    Column("unknown", "calls", "without a status of its own, or without a result"),
)
_HOW = "most calls first. A session is in the row of each {} that it called, so the sessions of the rows do not add up."

TOOLS_PANEL = Panel(
    "tools",
    "Which tools fail, and for which model?",
    "Many `invalid` calls: describe the tool better. `failed`: look at its environment. `declined`: at permissions.",
    "when a session started. With a filter for a model, only that model's calls count.",
    {
        "tool": View(
            (Column("tool", "", "as the log names it"), *_COLUMNS),
            _by(_tools.tool, filter_of=lambda tool: {"tool": tool}),
            _HOW.format("tool"),
        ),
        "tool-model": View(
            (Column("tool", "", "as the log names it"), MODEL, *_COLUMNS),
            _by(_tools.tool, _tools.model, filter_of=lambda tool, model: {"tool": tool, "tool_model": model}),
            _HOW.format("tool and model"),
        ),
        "model": View(
            (MODEL, *_COLUMNS),
            _by(_tools.model, filter_of=lambda model: {"tool_model": model}),
            _HOW.format("model"),
        ),
    },
)
