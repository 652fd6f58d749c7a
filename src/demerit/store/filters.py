"""Which sessions a question is about: one filter for the list and for every panel, so that the two agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, FromClause, Select, and_, case, func, or_, select

from demerit.parsers import PARSE_EPOCH
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
    session_signals,
    session_tools,
    sessions,
    verdicts,
)

UNSCORED = "unscored"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_US = 60_000_000


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 of an aware time."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


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
    """A project's name, or its key (canonical git remote, or folder)."""
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
    verdict: str | None = None
    """`good` or `bad`, by hand."""
    rule: str | None = None
    """It got advice from this rule."""
    tool: str | None = None
    """It called this tool."""
    subagents: bool = True
    """Sub-agents' sessions as well."""


is_visible: ColumnElement[bool] = and_(sessions.c.copy_of.is_(None), sessions.c.epoch == PARSE_EPOCH)
"""A session that counts: no copy of another one, and read by the parsers of this version."""

is_measured: ColumnElement[bool] = and_(~sessions.c.is_stale, session_signals.c.version == SIGNALS_VERSION)
"""Its signals are those of the session as it stands, by the rules of this version. Needs `with_signals`."""

started_us: ColumnElement[int] = func.coalesce(sessions.c.started_us, sessions.c.last_us)
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


def conditions(chosen: Filter) -> list[ColumnElement[bool]]:
    """What `chosen` demands of a row of `with_signals`, visibility included."""
    found: list[ColumnElement[bool]] = [is_visible]
    signals = session_signals.c
    if chosen.since is not None:
        found.append(started_us >= microseconds(chosen.since))
    if chosen.until is not None:
        found.append(started_us < microseconds(chosen.until))
    if chosen.project is not None:
        named = or_(projects.c.name == chosen.project, projects.c.key == chosen.project)
        found.append(sessions.c.project_id.in_(select(projects.c.id).where(named)))
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
        found.append(signals.ending == chosen.ending)
    if chosen.verdict is not None:
        same = and_(verdicts.c.agent == sessions.c.agent, verdicts.c.source_id == sessions.c.source_id)
        found.append(select(verdicts.c.agent).where(same, verdicts.c.verdict == chosen.verdict).exists())
    if chosen.rule is not None:
        found.append(_has(session_advice, session_advice.c.rule == chosen.rule))
    if chosen.tool is not None:
        found.append(_has(session_tools, session_tools.c.tool == chosen.tool))
    if not chosen.subagents:
        found.append(or_(sessions.c.relation.is_(None), sessions.c.relation != "subagent"))
    return found


def _has(table: Any, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(table.c.session_id).where(table.c.session_id == sessions.c.id, condition).exists()


def chosen_sessions(chosen: Filter, *columns: ColumnElement[Any]) -> Select[Any]:
    """The sessions that `chosen` is about, with these columns of `with_signals`."""
    return select(*columns).select_from(with_signals).where(*conditions(chosen))
