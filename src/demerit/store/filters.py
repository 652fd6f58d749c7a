"""Which sessions a question is about: one filter for the list and for every panel, so that the two agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import msgspec
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    FromClause,
    Select,
    and_,
    case,
    func,
    literal_column,
    or_,
    select,
    union_all,
)
from sqlalchemy.sql.visitors import iterate

from demerit.model import PARSE_EPOCH
from demerit.quality import (
    DEEP_MESSAGES,
    DEEP_MINUTES,
    MARATHON_MESSAGES,
    MARATHON_MINUTES,
    SIGNALS_VERSION,
    STANDARD_MESSAGES,
    STANDARD_MINUTES,
    Archetype,
)
from demerit.store.schema import (
    projects,
    session_advice,
    session_defects,
    session_files,
    session_hours,
    session_signals,
    session_tools,
    sessions,
    verdicts,
)

UNSCORED = "unscored"
NO_ENDING = "none"
HOUR_US = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_MINUTE_US = 60_000_000


@overload
def microseconds(moment: datetime) -> int: ...


@overload
def microseconds(moment: datetime | None) -> int | None: ...


def microseconds(moment: datetime | None) -> int | None:
    """Microseconds since 1970 of an aware time; None for None."""
    return None if moment is None else (moment - _EPOCH) // _US


def moment(microseconds: int | None) -> datetime | None:
    """The time in UTC of a `*_us` column; None for NULL."""
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)


class Filter(msgspec.Struct, frozen=True):
    """A choice of sessions; None and the defaults choose all of them."""

    since: datetime | None = None
    """Started at this aware time or later. A session without times goes by when its log was written."""
    until: datetime | None = None
    """Started before this time."""
    project: str | None = None
    """A project's name, or its key (canonical git remote, or folder); empty: it has none."""
    agent: str | None = None
    model: str | None = None
    """It answered in the session at least once."""
    branch: str | None = None
    grade: str | None = None
    """`A` to `F`, or `unscored`: measured, and without a score, or not measured."""
    outcome: str | None = None
    """One of the outcomes. What is not measured is `unknown`."""
    archetype: str | None = None
    ending: str | None = None
    """A special ending; `none`: measured, and without one."""
    verdict: str | None = None
    """`good` or `bad`, by hand."""
    rule: str | None = None
    """It got advice from this rule."""
    tool: str | None = None
    """It called this tool."""
    subagents: bool = True
    """Sub-agents' sessions as well."""
    # What the rows of panels count besides.
    confidence: str | None = None
    measured: bool | None = None
    """Its signals are those of the session as it stands; False: they are not, or not yet."""
    main_model: str | None = None
    """Most of its answers are this model's; empty: none is told."""
    agent_version: str | None = None
    """Empty: not told."""
    relation: str | None = None
    """What it is to its parent."""
    children_from: int | None = None
    """It has at least so many sub-agents' sessions right below it."""
    children_below: int | None = None
    """It has fewer of them."""
    hygiene: str | None = None
    """`prompts`: it has some; `short`, `duplicate`, `no_code`: one of them is; `unstructured_start`."""
    peak_from: int | None = None
    """Its context reached at least so many tokens; 0: its context was measured."""
    peak_below: int | None = None
    """Its context was measured, and reached fewer tokens."""
    resets: bool | None = None
    """Its context was measured, and was shed at least once, or never."""
    file: str | None = None
    """It changed this file, as it is called below the working folder."""
    has_calls: bool = False
    """It called a tool."""
    tool_model: str | None = None
    """With `tool`: this model called it; without: this model called one. Empty: no model is told."""
    used_since: datetime | None = None
    """It made a model request in an hour that begins at this time or later."""
    used_until: datetime | None = None
    """And before this time."""
    used_model: str | None = None
    """And of this model; empty: none is told. With `used_since`, `used_until` or `undated_usage` only."""
    undated_usage: bool = False
    """It made a model request whose time is not told."""
    active_since: datetime | None = None
    """Something happened in it in an hour that begins at this time or later."""
    active_until: datetime | None = None
    """And before this time."""


is_visible: ColumnElement[bool] = and_(sessions.c.copy_of.is_(None), sessions.c.epoch == PARSE_EPOCH)
"""A session that counts: no copy of another one, and read by the parsers of this version."""

is_measured: ColumnElement[bool] = and_(~sessions.c.is_stale, session_signals.c.version == SIGNALS_VERSION)
"""Its signals are those of the session as it stands, by the rules of this version. Needs `with_signals`."""

started_us: ColumnElement[int] = sessions.c.begun_us
"""What a session is sorted and cut by."""


def archetype_of(
    user_messages: ColumnElement[int], messages: ColumnElement[int], duration_us: ColumnElement[int]
) -> ColumnElement[str]:
    """`classify_archetype` in SQL, from the same constants. duration_us: NULL counts as 0."""
    length = func.coalesce(duration_us, 0)
    bands = (
        (Archetype.marathon, MARATHON_MINUTES, MARATHON_MESSAGES),
        (Archetype.deep, DEEP_MINUTES, DEEP_MESSAGES),
        (Archetype.standard, STANDARD_MINUTES, STANDARD_MESSAGES),
    )
    return case(
        (user_messages == 0, Archetype.automation.value),
        *((or_(length >= minutes * _MINUTE_US, messages >= most), band.value) for band, minutes, most in bands),
        else_=Archetype.quick.value,
    )


archetype: ColumnElement[str] = archetype_of(
    sessions.c.user_messages, sessions.c.messages, sessions.c.ended_us - sessions.c.started_us
)

with_signals: FromClause = sessions.outerjoin(
    session_signals,
    and_(
        session_signals.c.session_id == sessions.c.id,
        session_signals.c.version == SIGNALS_VERSION,
        ~sessions.c.is_stale,
    ),
)
"""Sessions with their signals; all of these NULL where they are not measured."""


def conditions(chosen: Filter, by_time: bool = True) -> list[ColumnElement[bool]]:
    """What `chosen` demands of a row of `with_signals`, visibility included.

    by_time: False where so many are chosen that they are better read as they lie than, by an index, in the order of
    their time: SQLite cannot tell, and a sum of a column is in no index.
    """
    copy_of, epoch, begun = (
        column if by_time else column + literal_column("0")
        for column in (sessions.c.copy_of, sessions.c.epoch, started_us)
    )
    found: list[ColumnElement[bool]] = [copy_of.is_(None), epoch == PARSE_EPOCH]
    signals = session_signals.c
    if chosen.since is not None:
        found.append(begun >= microseconds(chosen.since))
    if chosen.until is not None:
        found.append(begun < microseconds(chosen.until))
    if chosen.project is not None:
        named = or_(projects.c.name == chosen.project, projects.c.key == chosen.project)
        found.append(
            sessions.c.project_id.in_(select(projects.c.id).where(named))
            if chosen.project
            else sessions.c.project_id.is_(None)
        )
    for column, wanted in ((sessions.c.agent, chosen.agent), (sessions.c.branch, chosen.branch)):
        if wanted is not None:
            found.append(column == wanted)
    if chosen.model is not None:
        found.append(_has(session_defects, session_defects.c.model == chosen.model))
    if chosen.grade is not None:
        found.append(signals.grade.is_(None) if chosen.grade == UNSCORED else signals.grade == chosen.grade)
    if chosen.outcome is not None:
        found.append(func.coalesce(signals.outcome, "unknown") == chosen.outcome)
    if chosen.archetype is not None:
        found.append(archetype == chosen.archetype)
    if chosen.ending is not None:
        plain = and_(signals.ending.is_(None), signals.version.is_not(None))
        found.append(plain if chosen.ending == NO_ENDING else signals.ending == chosen.ending)
    if chosen.verdict is not None:
        same = and_(verdicts.c.agent == sessions.c.agent, verdicts.c.source_id == sessions.c.source_id)
        found.append(select(verdicts.c.agent).where(same, verdicts.c.verdict == chosen.verdict).exists())
    if chosen.rule is not None:
        # Advice is of the signals' own version: that of others waits to be derived again.
        found.append(signals.version.is_not(None))
        found.append(_has(session_advice, session_advice.c.rule == chosen.rule))
    if not chosen.subagents:
        found.append(or_(sessions.c.relation.is_(None), sessions.c.relation != "subagent"))
    return [*found, *_of_signals(chosen), *_of_origin(chosen), *_of_work(chosen)]


def _of_signals(chosen: Filter) -> Iterator[ColumnElement[bool]]:
    signals = session_signals.c
    if chosen.confidence is not None:
        yield signals.confidence == chosen.confidence
    if chosen.measured is not None:
        yield signals.version.is_not(None) if chosen.measured else signals.version.is_(None)
    if chosen.hygiene is not None:
        yield (
            signals.unstructured_start if chosen.hygiene == "unstructured_start" else hygiene_count(chosen.hygiene) > 0
        )
    if chosen.peak_from is not None:
        yield signals.peak_context_tokens >= chosen.peak_from
    if chosen.peak_below is not None:
        yield signals.peak_context_tokens < chosen.peak_below
    if chosen.resets is not None:
        yield signals.context_resets > 0 if chosen.resets else signals.context_resets == 0


def has_usage(hours: Any) -> ColumnElement[bool]:
    """Whether an hour of a session (columns of `session_hours`) has model requests, or a sum of some."""
    told: ColumnElement[int] = hours.requests + hours.input_tokens + hours.cache_read_tokens + hours.output_tokens
    return told > literal_column("0")  # no parameter: the words of ix_session_hours_usage


def hygiene_count(name: str) -> ColumnElement[int]:
    """The number of prompts that are `short`, `duplicate` or `no_code`, or of all `prompts`."""
    return session_signals.c.prompts if name == "prompts" else session_signals.c[f"{name}_prompts"]


def _of_origin(chosen: Filter) -> Iterator[ColumnElement[bool]]:
    if chosen.relation is not None:
        yield sessions.c.relation == chosen.relation
    for column, wanted in (
        (sessions.c.model, chosen.main_model),
        (sessions.c.agent_version, chosen.agent_version),
    ):
        if wanted is not None:
            yield column == wanted if wanted else func.coalesce(column, "") == ""
    if chosen.children_from is not None or chosen.children_below is not None:
        child = sessions.alias("child")
        number = (
            select(func.count())
            .select_from(child)
            .where(child.c.parent_id == sessions.c.id, *is_child(child))
            .correlate(sessions)
            .scalar_subquery()
        )
        if chosen.children_from is not None:
            yield number >= chosen.children_from
        if chosen.children_below is not None:
            yield number < chosen.children_below


def is_child(child: FromClause) -> tuple[ColumnElement[bool], ...]:
    """What makes a session with a parent one of its sub-agents' that counts. child: an alias of `sessions`."""
    return (child.c.relation == "subagent", child.c.copy_of.is_(None), child.c.epoch == PARSE_EPOCH)


def _of_work(chosen: Filter) -> Iterator[ColumnElement[bool]]:
    """Conditions on what happened in a session, from its sums."""
    if chosen.file is not None:
        yield _has(session_files, session_files.c.path == chosen.file)
    calls = [
        column == wanted
        for column, wanted in ((session_tools.c.tool, chosen.tool), (session_tools.c.model, chosen.tool_model))
        if wanted is not None
    ]
    if calls or chosen.has_calls:
        yield _has(session_tools, and_(session_tools.c.calls > 0, *calls))
    used = session_hours.alias("used")
    of_model = [] if chosen.used_model is None else [used.c.model == chosen.used_model]
    if chosen.used_since is not None or chosen.used_until is not None:
        hours = in_hours(used.c.hour, chosen.used_since, chosen.used_until)
        yield _has(used, and_(has_usage(used.c), *hours, *of_model))
    if chosen.undated_usage:
        yield _has(used, and_(has_usage(used.c), used.c.hour == UNDATED, *of_model))
    if chosen.active_since is not None or chosen.active_until is not None:
        active = session_hours.alias("active")
        yield _has(active, and_(*in_hours(active.c.hour, chosen.active_since, chosen.active_until)))


UNDATED = -1
"""The hour of what has no time."""


def in_hours(hour: ColumnElement[int], since: datetime | None, until: datetime | None) -> Iterator[ColumnElement[bool]]:
    """That an hour begins in this span; those without a time never do."""
    yield hour >= (0 if since is None else max(0, -(-microseconds(since) // HOUR_US)))
    if until is not None:
        yield hour < -(-microseconds(until) // HOUR_US)


def _has(table: Any, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    # What it stands in may have this table itself among its own.
    own = select(table.c.session_id).where(table.c.session_id == sessions.c.id, condition)
    return own.correlate(sessions).exists()


def chosen_sessions(
    chosen: Filter, *columns: ColumnElement[Any], where: ColumnElement[bool] | None = None, by_time: bool = True
) -> Select[Any]:
    """The sessions that `chosen` is about, and of which `where` holds, with these columns of `with_signals`.

    by_time: as for `conditions`.
    """
    demanded = [*conditions(chosen, by_time), *([] if where is None else [where])]
    # Where nothing needs the signals, SQLite would look them up for each session all the same.
    source = with_signals if any(map(_is_of_signals, (*columns, *demanded))) else sessions
    return select(*columns).select_from(source).where(*demanded)


def _is_of_signals(element: ColumnElement[Any]) -> bool:
    return any(getattr(part, "table", None) is session_signals for part in iterate(element))


hidden_sessions: CompoundSelect[Any] = union_all(
    select(sessions.c.id).where(sessions.c.copy_of.is_not(None)),
    select(sessions.c.id).where(or_(sessions.c.epoch < PARSE_EPOCH, sessions.c.epoch > PARSE_EPOCH)),
)
"""Those that are not visible, some of them twice: few, as a rule, and found by indexes."""
