"""Which tools fail, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from sqlalchemy import ColumnElement, func, select

from demerit.model import CallStatus
from demerit.panels.choosing import chooses_all, narrowed, of_chosen
from demerit.panels.scores import count_if, whole
from demerit.panels.tables import MODEL, SESSIONS, Ask, Column, Found, Panel, Row, Value, View, ranked, rate_columns
from demerit.rates import wilson
from demerit.store.filters import Filter, hidden_sessions
from demerit.store.schema import session_defects, session_tools

_tools = session_tools.c
_APART = (CallStatus.FAILED, CallStatus.INVALID, CallStatus.BENIGN, CallStatus.DECLINED, CallStatus.CANCELLED)


_SUMS: tuple[ColumnElement[int], ...] = (
    func.count(),
    count_if(_tools.is_first),
    *(whole(column) for column in (_tools.calls, *(_tools[status.value] for status in _APART))),
    whole(_tools.pending + _tools.unknown),
)


class _Sums(NamedTuple):
    """In the order of `_SUMS`: over rows of `session_tools`, of sessions whose log tells how calls went, or not."""

    rows: int
    of_tool: int
    """Of these, one for each tool in a session."""
    calls: int
    failed: int
    invalid: int
    benign: int
    declined: int
    cancelled: int
    open: int


_Key = tuple[str, str, bool]
"""Tool, model, and whether the log tells how calls went."""


def _by(*names: str) -> Callable[[Ask], Found]:
    def find(ask: Ask) -> Found:
        chosen = _with_model(ask.chosen)
        sums = _counted(ask, chosen)
        groups: dict[tuple[str, ...], dict[_Key, _Sums]] = {}
        for key, found in sums.items():
            named = {"tool": key[0], "tool_model": key[1]}
            group = tuple(named[name] for name in names)
            groups.setdefault(group, {})[key] = found
        numbers = _sessions(ask, chosen, names, groups)
        listed = [(group, _figures(numbers[group], found)) for group, found in groups.items()]
        listed.sort(key=lambda item: (-sum(sums.calls for sums in groups[item[0]].values()), item[0]))
        rows = [
            Row((*(name or None for name in group), *figures), narrowed(chosen, **dict(zip(names, group, strict=True))))
            for group, figures in listed
        ]
        with_calls = narrowed(chosen, has_calls=True)
        assert with_calls is not None
        count = _sessions(ask, chosen, (), {(): sums})[()]
        total = Row((*(None for _ in names), *_figures(count, sums)), with_calls)
        shown, more = ranked(rows, ask.limit)
        return Found(shown, count, with_calls, total, more=more)

    return find


def _counted(ask: Ask, chosen: Filter) -> dict[_Key, _Sums]:
    """What the chosen sessions called, in the groups of the index: one look at each row, and nothing to sort."""
    keys = (_tools.tool, _tools.model, _tools.is_judged)
    statement = select(*keys, *_SUMS).where(_tools.calls > 0, *_of_calls(chosen)).group_by(*keys)

    def fetch(condition: ColumnElement[bool] | None) -> dict[_Key, _Sums]:
        asked = statement if condition is None else statement.where(condition)
        return {(row[0], row[1], bool(row[2])): _Sums(*row[3:]) for row in ask.fetch(asked)}

    if not chooses_all(chosen):
        return fetch(of_chosen(ask, _without_calls(chosen), _tools.session_id))
    # To look each row's session up costs more than to take off what the few hidden ones have.
    found, hidden = fetch(None), fetch(_tools.session_id.in_(hidden_sessions))
    left = {key: _less(sums, hidden[key]) if key in hidden else sums for key, sums in found.items()}
    return {key: sums for key, sums in left.items() if sums.rows}


def _less(sums: _Sums, others: _Sums) -> _Sums:
    return _Sums(*(a - b for a, b in zip(sums, others, strict=True)))


def _sessions(
    ask: Ask, chosen: Filter, names: Sequence[str], groups: Mapping[tuple[str, ...], Mapping[_Key, _Sums]]
) -> Mapping[tuple[str, ...], int]:
    """The sessions of each group, each counted once though it called a tool for several models, or several tools."""
    by_model = "tool_model" in names or chosen.tool_model is not None
    if "tool" in names or chosen.tool is not None:
        field = "rows" if by_model else "of_tool"
        return {group: sum(getattr(sums, field) for sums in found.values()) for group, found in groups.items()}
    # Calls are counted by model alone as well.
    calls = session_defects.c
    called = [calls.calls > 0, of_chosen(ask, _without_calls(chosen), calls.session_id)]
    if not by_model:
        callers = select(calls.session_id).where(*called).distinct().subquery()
        [(number,)] = ask.fetch(select(func.count()).select_from(callers))
        return {(): number}
    if chosen.tool_model is not None:
        called.append(calls.model == chosen.tool_model)
    numbers = ask.fetch(select(calls.model, func.count()).where(*called).group_by(calls.model))
    return {(model,): n for model, n in numbers} if names else {(): sum(n for _, n in numbers)}


def _with_model(chosen: Filter) -> Filter:
    """A filter for a model is here for its calls, not for all calls of sessions in which it took part."""
    return replace(chosen, model=None, tool_model=chosen.model if chosen.tool_model is None else chosen.tool_model)


def _of_calls(chosen: Filter) -> list[ColumnElement[bool]]:
    wanted = ((_tools.tool, chosen.tool), (_tools.model, chosen.tool_model))
    return [column == value for column, value in wanted if value is not None]


def _without_calls(chosen: Filter) -> Filter:
    """The rows of calls themselves say of what they are: no need to look for such in each session as well."""
    return replace(chosen, tool=None, tool_model=None)


def _figures(count: int, found: Mapping[_Key, _Sums]) -> tuple[Value, ...]:
    none = _Sums(*[0] * len(_Sums._fields))
    told, untold = (
        _Sums(*map(sum, zip(none, *(sums for key, sums in found.items() if key[2] is is_judged), strict=True)))
        for is_judged in (True, False)
    )
    calls = told.calls + untold.calls
    judged = told.calls - told.declined - told.cancelled - told.open
    failures = told.failed + told.invalid
    statuses = told[_Sums._fields.index("failed") :]
    # Where no log tells statuses, none was counted.
    known: tuple[int | None, ...] = statuses if told.calls else (None,) * len(statuses)
    return (
        *(count, calls, untold.calls, judged, failures if told.calls else None),
        *(*wilson(failures, judged), *known),
    )


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
            _by("tool"),
            _HOW.format("tool"),
        ),
        "tool-model": View(
            (Column("tool", "", "as the log names it"), MODEL, *_COLUMNS),
            _by("tool", "tool_model"),
            _HOW.format("tool and model"),
        ),
        "model": View(
            (MODEL, *_COLUMNS),
            _by("tool_model"),
            _HOW.format("model"),
        ),
    },
)
