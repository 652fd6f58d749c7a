"""What the store shows of single sessions: the list, a session with its card, and its transcript in windows.

Every list goes on from where it stopped by a key, never by a number of rows to pass over, and no read touches more than
it shows: a window of a transcript costs the same at the end of a million messages as at the beginning of ten.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Float,
    Row,
    and_,
    case,
    func,
    literal,
    literal_column,
    select,
    tuple_,
)

from demerit.quality.context import context_health, is_context_reset
from demerit.quality.report import Report
from demerit.store.engines import StoreError
from demerit.store.filters import (
    Filter,
    archetype,
    chosen_sessions,
    conditions,
    is_measured,
    is_visible,
    moment,
    started_us,
    with_signals,
)
from demerit.store.schema import (
    events,
    logs,
    messages,
    projects,
    session_reports,
    session_signals,
    sessions,
    texts,
    tool_calls,
    usage_events,
    verdicts,
)
from demerit.store.texts import KEPT_HEAD_BYTES, unpacked, unpacked_bytes, unpacked_head

Sort = Literal["started", "score", "duration", "cost", "tokens", "messages"]

HEAD_BYTES = 2048
"""Shown at first of a tool's input or result, and of thinking."""
MESSAGE_BYTES = 65_536
"""Shown at first of a message's text."""
_MOST_ROWS = 500
_MOST_TURNS = 1000
_MOST_CALLS = 2000  # in one window: a message may claim to make any number
_MOST_RELATED = 200
_MOST_EVENTS = 1000
_LEAST_PREFIX = 4
_CANDIDATES = 5
_MINUTE_US = 60_000_000
_MOST_INT = 2**63 - 1
_INT_DIGITS = 19


class NotFound(LookupError):
    """No session, or more than one, goes by a name. The message is one plain sentence."""


class BadCursor(ValueError):
    """A mark of a place in a list that this list did not give. The message is one plain sentence."""


# --- the list --------------------------------------------------------------------------------------------------


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session in a list."""

    id: int
    agent: str
    source_id: str
    """The agent's own name of it."""
    parent_id: int | None
    relation: str | None
    title: str | None
    project: str | None
    project_key: str | None
    cwd: str | None
    branch: str | None
    agent_version: str | None
    model: str | None
    """The one with the most answers."""
    models: tuple[str, ...]
    started: datetime | None
    ended: datetime | None
    last: datetime | None
    """Last sign of life: `ended`, or when a log without times was written."""
    duration_min: float | None
    is_terminal: bool
    is_measured: bool
    """Its signals are those of the session as it stands; else all from here to `no_code_prompts` are None."""
    outcome: str | None
    confidence: str | None
    score: int | None
    grade: str | None
    ending: str | None
    tool_calls: int | None
    tool_failures: int | None
    prompts: int | None
    short_prompts: int | None
    duplicate_prompts: int | None
    no_code_prompts: int | None
    archetype: str
    messages: int
    """Its own, without those that it repeats of another session."""
    user_messages: int
    replayed_messages: int
    requests: int
    input_tokens: int | None
    """This and the other tokens: None where the log has no usage."""
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    """The part of `cache_write_tokens` that was written for an hour."""
    output_tokens: int | None
    reasoning_tokens: int | None
    output_is_partial: bool
    cost_usd: float | None
    """Of the requests with a price; None where none has one."""
    unpriced_requests: int
    losses: int
    """Records and values of its log that were not understood."""
    verdict: str | None
    """`good` or `bad`, by hand."""
    children: int
    """Sessions that name it as their parent, and count."""


class SessionPage(msgspec.Struct, frozen=True):
    rows: tuple[SessionRow, ...]
    next: str | None
    """Where the next page begins; None: there is none."""


_KEYS: Mapping[str, ColumnElement[Any]] = {
    "started": started_us,
    "score": session_signals.c.score,
    "duration": sessions.c.duration_us,
    "cost": sessions.c.cost_usd,
    "tokens": sessions.c.tokens,
    "messages": sessions.c.messages,
}

_graded = session_signals.join(sessions, and_(sessions.c.id == session_signals.c.session_id, is_measured))

_Whole = Annotated[int, msgspec.Meta(ge=-_MOST_INT, le=_MOST_INT)]


class _Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a page ends: the last row's key, None where it has none, and id."""

    sort: str
    descending: bool
    key: _Whole | float | None
    id: _Whole


def list_sessions(
    connection: Connection,
    chosen: Filter,
    sort: Sort = "started",
    descending: bool = True,
    limit: int = 50,
    after: str | None = None,
) -> SessionPage:
    """A page of the chosen sessions; those without a value to sort by come last in both directions.

    sort: `tokens` are input, cached input and output together.
    after: the `next` of the page before. Raises BadCursor for any other.
    """
    place = None if after is None else read_cursor(after, _Place)
    if place is not None and (place.sort, place.descending) != (sort, descending):
        raise BadCursor("this place is one of a list in another order; begin again at the first page")
    if place is not None and isinstance(place.key, float) and sort != "cost":
        raise _bad_cursor(after)
    limit = max(1, min(limit, _MOST_ROWS))
    found = _keys(connection, chosen, sort, descending, limit + 1, place)
    page = found[:limit]
    rows = read_rows(connection, [session_id for session_id, _ in page])
    return SessionPage(
        tuple(rows[session_id] for session_id, _ in page),
        written_cursor(_Place(sort, descending, page[-1][1], page[-1][0])) if len(found) > limit else None,
    )


def _keys(
    connection: Connection, chosen: Filter, sort: Sort, descending: bool, limit: int, place: _Place | None
) -> list[tuple[int, Any]]:
    """The ids and keys of the next sessions: those with a key, and when these are at their end, those without."""
    key, number = _KEYS[sort], sessions.c.id
    if sort != "started" and _are_few(connection, chosen):
        key = key + literal_column("0")  # a sum is in no index: they are gathered and sorted
    found: list[tuple[int, Any]] = []
    if place is None or place.key is not None:
        query = chosen_sessions(chosen, number, key)
        if sort == "score":  # from the signals on, in the order of their index
            number = session_signals.c.session_id
            query = select(number, key).select_from(_graded).where(*conditions(chosen))
        query = query.where(key.is_not(None))
        if place is not None:
            value = literal(place.key, Float() if sort == "cost" else BigInteger())
            here, there = tuple_(key, number), tuple_(value, literal(place.id, BigInteger()))
            # The first says nothing new, but lets SQLite begin at that place in the index of a computed key.
            query = query.where(key <= value, here < there) if descending else query.where(key >= value, here > there)
        order = (key.desc(), number.desc()) if descending else (key, number)
        found += [(row[0], row[1]) for row in connection.execute(query.order_by(*order).limit(limit))]
    if len(found) < limit:
        number = sessions.c.id
        query = chosen_sessions(chosen, number, where=key.is_(None))
        if place is not None and place.key is None:
            query = query.where(number < place.id if descending else number > place.id)
        query = query.order_by(number.desc() if descending else number).limit(limit - len(found))
        found += [(row[0], None) for row in connection.execute(query)]
    return found


def count_sessions(connection: Connection, chosen: Filter) -> int:
    """How many sessions are chosen."""
    found: int = connection.execute(chosen_sessions(chosen, func.count())).scalar_one()
    return found


_FEW = 10_000


def _are_few(connection: Connection, chosen: Filter) -> bool:
    """Whether what an index leads to is so little that to sort it beats going through all sessions in their order.

    SQLite cannot tell, and goes through them, all of them where few are chosen.
    """
    narrow = Filter(since=chosen.since, until=chosen.until, project=chosen.project, agent=chosen.agent)
    if narrow == Filter():
        return False
    some = chosen_sessions(narrow, sessions.c.id).limit(_FEW + 1).subquery()
    return bool(connection.execute(select(func.count()).select_from(some)).scalar_one() <= _FEW)


_PLAIN = (
    *("id", "agent", "source_id", "parent_id", "relation", "title", "cwd", "branch", "agent_version", "model"),
    *("is_terminal", "messages", "user_messages", "replayed_messages", "requests", "input_tokens"),
    *("cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens", "reasoning_tokens"),
    *("output_is_partial", "cost_usd", "unpriced_requests"),
)
_SIGNALS = (
    *("outcome", "confidence", "score", "grade", "ending", "tool_calls", "tool_failures"),
    *("prompts", "short_prompts", "duplicate_prompts", "no_code_prompts"),
)
_ROW = (
    select(
        *(sessions.c[name] for name in _PLAIN),
        *(session_signals.c[name] for name in _SIGNALS),
        sessions.c.models,
        sessions.c.losses,
        sessions.c.started_us,
        sessions.c.ended_us,
        sessions.c.last_us,
        projects.c.name.label("project"),
        projects.c.key.label("project_key"),
        verdicts.c.verdict,
        archetype.label("archetype"),
        func.coalesce(is_measured, False).label("is_measured"),
    )
    .select_from(with_signals)
    .outerjoin(projects, projects.c.id == sessions.c.project_id)
    .outerjoin(verdicts, and_(verdicts.c.agent == sessions.c.agent, verdicts.c.source_id == sessions.c.source_id))
)
# Where a parent is given, no index on what counts may come first: it would lead through all sessions.
_counts = case((is_visible, 1), else_=0)
_NAMES = msgspec.json.Decoder(tuple[str, ...])
_COUNTS = msgspec.json.Decoder(dict[str, int])


def read_rows(connection: Connection, session_ids: Collection[int]) -> dict[int, SessionRow]:
    """These sessions as a list shows them, by id, visible or not; one that is not there is left out."""
    if not session_ids:
        return {}
    families = connection.execute(
        select(sessions.c.parent_id, func.sum(_counts))
        .where(sessions.c.parent_id.in_(session_ids))
        .group_by(sessions.c.parent_id)
    )
    children = {row[0]: row[1] for row in families}
    found = connection.execute(_ROW.where(sessions.c.id.in_(session_ids))).mappings()
    return {row["id"]: _row(row, children.get(row["id"], 0)) for row in found}


def _row(row: Mapping[Any, Any], children: int) -> SessionRow:
    started, ended = row["started_us"], row["ended_us"]
    return SessionRow(
        **{name: row[name] for name in (*_PLAIN, *_SIGNALS)},
        project=row["project"],
        project_key=row["project_key"],
        models=_NAMES.decode(row["models"]),
        started=moment(started),
        ended=moment(ended),
        last=moment(row["last_us"]),
        duration_min=None if started is None or ended is None else (ended - started) / _MINUTE_US,
        is_measured=bool(row["is_measured"]),
        archetype=row["archetype"],
        losses=sum(_COUNTS.decode(row["losses"]).values()),
        verdict=row["verdict"],
        children=children,
    )


P = TypeVar("P")


def written_cursor(place: msgspec.Struct) -> str:
    """A place in a list as text for a URL."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def read_cursor(text: str, kind: type[P]) -> P:
    """The place that `written_cursor` gave. Raises BadCursor for any other text."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        place = msgspec.json.decode(data, type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise _bad_cursor(text) from None
    if any(isinstance(value, float) and not isfinite(value) for value in msgspec.structs.astuple(place)):  # type: ignore[arg-type]
        raise _bad_cursor(text)
    return place


def _bad_cursor(text: str | None) -> BadCursor:
    return BadCursor(f"{(text or '')[:80]!r} is no place in this list; begin again at the first page")


# --- one session -----------------------------------------------------------------------------------------------


def find_session(connection: Connection, name: str) -> int:
    """Our id of a session by that id, by the agent's own name of it, or by at least four characters that begin it.

    A copy of a session gives way to the session itself. Raises NotFound.
    """
    name = name.strip()
    number = int(name) if name.isascii() and name.isdigit() and len(name) < _INT_DIGITS else None
    if number is not None and connection.execute(select(sessions.c.id).where(sessions.c.id == number)).first():
        return number
    own = func.substr(sessions.c.source_id, 1, len(name))
    for condition in (
        (sessions.c.source_id == name, own == name) if len(name) >= _LEAST_PREFIX else (sessions.c.source_id == name,)
    ):
        candidates = _candidates(connection, condition)
        if len(candidates) == 1:
            return candidates[0][0]
        if candidates:
            raise NotFound(_ambiguous(name, candidates))
    hint = "" if len(name) >= _LEAST_PREFIX else f", and {_LEAST_PREFIX} characters are the least of a longer name"
    raise NotFound(f"no session is called {name[:80]!r}{hint}; demerit sessions lists them")


def _candidates(connection: Connection, condition: ColumnElement[bool]) -> list[tuple[int, str, str]]:
    """The sessions that may be meant, one more than are named; copies only where there is nothing else."""
    query = select(sessions.c.id, sessions.c.agent, sessions.c.source_id).where(condition).order_by(sessions.c.id)
    for is_copy in (sessions.c.copy_of.is_(None), sessions.c.copy_of.is_not(None)):
        found = [(row[0], row[1], row[2]) for row in connection.execute(query.where(is_copy).limit(_CANDIDATES + 1))]
        if found:
            return found
    return []


def _ambiguous(name: str, candidates: Sequence[tuple[int, str, str]]) -> str:
    named = ", ".join(f"{number} ({agent} {own})" for number, agent, own in candidates[:_CANDIDATES])
    more = " and more" if len(candidates) > _CANDIDATES else ""
    return f"{name[:80]!r} may be any of {named}{more}; give the number of the one you mean"


class VerdictView(msgspec.Struct, frozen=True):
    """What a person said of a session."""

    verdict: str
    note: str
    at: datetime


class Copy(msgspec.Struct, frozen=True):
    """Another log that holds the same session."""

    id: int
    path: str


class EventView(msgspec.Struct, frozen=True):
    """Something that happened beside the messages."""

    kind: str
    message: int | None
    """Ordinal of the message that it came after; None: before the first."""
    at: datetime | None
    detail: str


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """One session as its page shows it, without its transcript."""

    row: SessionRow
    report: Report | None
    """Its card; None where it is not measured."""
    parent: SessionRow | None
    parent_source_id: str | None
    """The agent's own name of the parent, which need not be in the store."""
    children: tuple[SessionRow, ...]
    """The first 200, in the order of their start."""
    copy_of: int | None
    copies: tuple[Copy, ...]
    log_path: str
    log_is_gone: bool
    epoch: int
    """Of the parsers that read it."""
    untold: tuple[str, ...]
    """Facts that its agent's logs never tell."""
    verdict: VerdictView | None
    events: tuple[EventView, ...]
    """The first 1,000."""
    losses: dict[str, int]


_REPORT = msgspec.json.Decoder(Report)


def read_session(connection: Connection, session_id: int) -> SessionView:
    """One session, whether it counts or not. Raises NotFound."""
    row = read_rows(connection, [session_id]).get(session_id)
    if row is None:
        raise NotFound(f"there is no session {session_id}; demerit sessions lists them")
    about = connection.execute(
        select(
            sessions.c.parent_source_id,
            sessions.c.copy_of,
            sessions.c.epoch,
            sessions.c.untold,
            sessions.c.losses,
            logs.c.path,
            logs.c.is_gone,
        )
        .join_from(sessions, logs, logs.c.id == sessions.c.log_id)
        .where(sessions.c.id == session_id)
    ).one()
    said = connection.execute(
        select(verdicts.c.verdict, verdicts.c.note, verdicts.c.at_us).where(
            verdicts.c.agent == row.agent, verdicts.c.source_id == row.source_id
        )
    ).one_or_none()
    return SessionView(
        row=row,
        report=read_report(connection, session_id),
        parent=read_rows(connection, [row.parent_id]).get(row.parent_id) if row.parent_id is not None else None,
        parent_source_id=about.parent_source_id,
        children=_children(connection, session_id),
        copy_of=about.copy_of,
        copies=tuple(
            Copy(copy.id, copy.path)
            for copy in connection.execute(
                select(sessions.c.id, logs.c.path)
                .join_from(sessions, logs, logs.c.id == sessions.c.log_id)
                .where(sessions.c.copy_of == session_id)
                .order_by(sessions.c.id)
                .limit(_MOST_RELATED)
            )
        ),
        log_path=about.path,
        log_is_gone=about.is_gone,
        epoch=about.epoch,
        untold=_NAMES.decode(about.untold),
        verdict=None if said is None else VerdictView(said.verdict, said.note, _known(said.at_us)),
        events=_events(connection, session_id, events.c.place),
        losses=_COUNTS.decode(about.losses),
    )


def read_report(connection: Connection, session_id: int) -> Report | None:
    """The card of a session; None where it is not measured. Raises StoreError when it is damaged."""
    data = connection.execute(
        select(session_reports.c.data)
        .select_from(with_signals.join(session_reports, session_reports.c.session_id == session_signals.c.session_id))
        .where(sessions.c.id == session_id)
    ).scalar()
    if data is None:
        return None
    try:
        return _REPORT.decode(unpacked_bytes(data))
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"the stored report of session {session_id} cannot be read ({error}); demerit rebuild makes it anew"
        ) from error


def _children(connection: Connection, session_id: int) -> tuple[SessionRow, ...]:
    found = connection.execute(
        select(sessions.c.id)
        .where(sessions.c.parent_id == session_id, _counts == 1)
        .order_by(started_us, sessions.c.id)
        .limit(_MOST_RELATED)
    ).scalars()
    order = list(found)
    rows = read_rows(connection, order)
    return tuple(rows[child] for child in order)


_EVENT = select(events.c.kind, events.c.message_ordinal, events.c.at_us, events.c.detail)


def _events(
    connection: Connection, session_id: int, *order: ColumnElement[Any], where: ColumnElement[bool] | None = None
) -> tuple[EventView, ...]:
    query = _EVENT.where(events.c.session_id == session_id, *([] if where is None else [where]))
    found = connection.execute(query.order_by(*order).limit(_MOST_EVENTS))
    return tuple(EventView(row.kind, row.message_ordinal, moment(row.at_us), row.detail) for row in found)


def _known(at_us: int) -> datetime:
    at = moment(at_us)
    assert at is not None
    return at


# --- the transcript --------------------------------------------------------------------------------------------


class TextView(msgspec.Struct, frozen=True):
    """The beginning of a text; `read_text` has the rest."""

    id: int
    text: str
    is_cut: bool
    """More of it is kept than this."""
    bytes: int
    """Of the whole, of which the store may hold the beginning only."""


class Mark(msgspec.Struct, frozen=True):
    """A call, or a message, that cost points."""

    label: str
    """The line of the breakdown that it stands behind."""
    why: str


class CallView(msgspec.Struct, frozen=True):
    index: int
    name: str
    category: str
    mcp_server: str | None
    status: str
    evidence: str
    exit_code: int | None
    file_paths: tuple[str, ...]
    at: datetime | None
    call_id: str | None
    is_counted: bool
    """False: it only repeats an earlier call, and counts there."""
    input: TextView | None
    result: TextView | None
    marks: tuple[Mark, ...]


class UsageView(msgspec.Struct, frozen=True):
    """The tokens of the message's request."""

    input_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    output_tokens: int
    reasoning_tokens: int | None
    context_tokens: int | None
    """Size of the prompt; None: it tells nothing of the session's own conversation."""
    cost_usd: float | None
    is_partial: bool
    is_sum: bool
    is_counted: bool
    """False: another session has it, and counts it."""


class PromptMarks(msgspec.Struct, frozen=True):
    is_short: bool
    no_code: bool
    repeats: int | None
    """Ordinal of an earlier prompt with the same words; None: there is none, or it is short."""


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a transcript, with what belongs to it."""

    ordinal: int
    role: str
    author: str
    notice: str | None
    model: str | None
    at: datetime | None
    stop_reason: str | None
    text: TextView | None
    text_bytes: int
    has_image: bool
    thinking: TextView | None
    thinking_bytes: int
    is_sidechain: bool
    is_replayed: bool
    """It stands in an earlier session, and counts there."""
    calls: tuple[CallView, ...]
    calls_made: int
    """More than `calls` where a window has too many to show."""
    usage: UsageView | None
    context_shed: int
    """Dividers before this message: the context was emptied, by compaction or clearing. 0 or 1 as a rule."""
    context_shed_after: int
    """Dividers after it, at the transcript's end: of requests that no message stands for."""
    events_before: tuple[EventView, ...]
    """What happened before the first message."""
    events: tuple[EventView, ...]
    """What happened after this message."""
    prompt: PromptMarks | None
    """None: no prompt of a person's with text, or one that counts in an earlier session."""
    marks: tuple[Mark, ...]
    """Points that the message itself cost, where no call is to blame."""


def read_text(connection: Connection, text_id: int) -> str | None:
    """A text, as much of it as is kept; None when there is none of that id."""
    data = connection.execute(select(texts.c.data).where(texts.c.id == text_id)).scalar()
    return None if data is None else unpacked(data)


_EARLIER = messages.alias("earlier")
# One look-up in ix_messages_prompts for each prompt of the window. SQLite uses that index only because it holds all
# columns that are asked for here; else it would run through all messages before.
_repeats = (
    select(_EARLIER.c.ordinal)
    .where(
        _EARLIER.c.session_id == messages.c.session_id,
        _EARLIER.c.prompt_digest == messages.c.prompt_digest,
        _EARLIER.c.ordinal < messages.c.ordinal,
        ~_EARLIER.c.prompt_short,
        ~_EARLIER.c.is_replayed,
        ~messages.c.prompt_short,
        ~messages.c.is_replayed,
    )
    .order_by(_EARLIER.c.ordinal)
    .limit(1)
    .correlate(messages)
    .scalar_subquery()
)


def read_transcript(connection: Connection, session_id: int, start: int = 0, limit: int = 100) -> list[TurnView]:
    """The messages of a session from the ordinal `start` on, at most `limit`; empty when there is none.

    Raises StoreError when a text, or the session's report, is damaged.
    """
    rows = connection.execute(
        select(messages, _repeats.label("repeats"))
        .where(messages.c.session_id == session_id, messages.c.ordinal >= min(max(start, 0), 2**31 - 1))
        .order_by(messages.c.ordinal)
        .limit(max(1, min(limit, _MOST_TURNS)))
    ).all()
    if not rows:
        return []
    first, last = rows[0].ordinal, rows[-1].ordinal
    calls = _calls(connection, session_id, first, last)
    wanted = {row.text_id: MESSAGE_BYTES for row in rows}
    heads = [row.thinking_id for row in rows]
    heads += [text_id for group in calls.values() for call in group for text_id in (call.input_id, call.result_id)]
    for text_id in heads:
        wanted.setdefault(text_id, HEAD_BYTES)
    wanted.pop(None, None)
    shown = _texts(connection, wanted)
    marks = _marks(read_report(connection, session_id))
    usage, dividers = _usage(connection, session_id, first, last)
    happened = defaultdict(list)
    order = (events.c.message_ordinal, events.c.place)
    for event in _events(connection, session_id, *order, where=events.c.message_ordinal.between(first, last)):
        happened[event.message].append(event)
    # Events are numbered as they happened: what came before the first message is among the first.
    begun = _events(connection, session_id, events.c.place) if first == 0 else ()
    after = _dividers_at_end(connection, session_id) if _is_last(connection, session_id, last) else 0
    return [
        TurnView(
            ordinal=row.ordinal,
            role=row.role,
            author=row.author,
            notice=row.notice,
            model=row.model,
            at=moment(row.at_us),
            stop_reason=row.stop_reason,
            text=shown.get(row.text_id),
            text_bytes=row.text_bytes,
            has_image=row.has_image,
            thinking=_head(shown.get(row.thinking_id)),
            thinking_bytes=row.thinking_bytes,
            is_sidechain=row.is_sidechain,
            is_replayed=row.is_replayed,
            calls=tuple(
                _call(call, shown, marks.get((row.ordinal, call.call_index), ())) for call in calls[row.ordinal]
            ),
            calls_made=row.calls,
            usage=usage.get(row.ordinal),
            context_shed=dividers[row.ordinal],
            context_shed_after=after if row.ordinal == last else 0,
            events_before=tuple(event for event in begun if event.message is None) if row.ordinal == first else (),
            events=tuple(happened[row.ordinal]),
            prompt=None
            if row.prompt_version is None or row.is_replayed
            else PromptMarks(row.prompt_short, row.prompt_no_code, row.repeats),
            marks=marks.get((row.ordinal, None), ()),
        )
        for row in rows
    ]


def _calls(connection: Connection, session_id: int, first: int, last: int) -> dict[int, list[Row[Any]]]:
    """The calls of these messages, by message."""
    found: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(
        select(tool_calls)
        .where(tool_calls.c.session_id == session_id, tool_calls.c.message_ordinal.between(first, last))
        .order_by(tool_calls.c.message_ordinal, tool_calls.c.call_index)
        .limit(_MOST_CALLS)
    ):
        found[row.message_ordinal].append(row)
    return found


def _call(row: Row[Any], shown: Mapping[int, TextView], marks: tuple[Mark, ...]) -> CallView:
    return CallView(
        index=row.call_index,
        name=row.name,
        category=row.category,
        mcp_server=row.mcp_server,
        status=row.status,
        evidence=row.evidence,
        exit_code=row.exit_code,
        file_paths=() if row.file_paths is None else _NAMES.decode(row.file_paths),
        at=moment(row.at_us),
        call_id=row.call_id,
        is_counted=row.is_counted,
        input=_head(shown.get(row.input_id)),
        result=_head(shown.get(row.result_id)),
        marks=marks,
    )


def _texts(connection: Connection, wanted: Mapping[int, int]) -> dict[int, TextView]:
    """The beginnings of texts, by id. wanted: how many bytes of each."""
    found: dict[int, TextView] = {}
    ids = list(wanted)
    for at in range(0, len(ids), _MOST_ROWS):
        for row in connection.execute(
            select(texts.c.id, texts.c.bytes, func.substr(texts.c.data, 1, KEPT_HEAD_BYTES).label("data")).where(
                texts.c.id.in_(ids[at : at + _MOST_ROWS])
            )
        ):
            head = unpacked_head(bytes(row.data), wanted[row.id])
            found[row.id] = TextView(row.id, head.text, head.is_cut, row.bytes)
    return found


def _head(view: TextView | None) -> TextView | None:
    """A text that is a message's as well as a call's is read once, and shown at the length of each."""
    if view is None or len(view.text) * 4 <= HEAD_BYTES:
        return view
    data = view.text.encode()
    if len(data) <= HEAD_BYTES:
        return view
    return TextView(view.id, data[:HEAD_BYTES].decode("utf-8", "ignore"), True, view.bytes)


def _marks(report: Report | None) -> dict[tuple[int, int | None], tuple[Mark, ...]]:
    """What cost points, by message and call; of a message itself by None."""
    found: dict[tuple[int, int | None], tuple[Mark, ...]] = {}
    for line in report.breakdown if report is not None else ():
        for ref in line.calls:
            key = (ref.message, ref.call)
            found[key] = (*found.get(key, ()), Mark(line.label, ref.why))
    return found


_BEFORE = usage_events.alias("before")
# The dividers are those of the very sequence that the stored count folded: requests that count here and have a size, in
# the order of their places. Each is judged with the one before it, wherever that stands.
_size_before = (
    select(_BEFORE.c.context_tokens)
    .where(
        _BEFORE.c.session_id == usage_events.c.session_id,
        _BEFORE.c.place < usage_events.c.place,
        _BEFORE.c.is_counted,
        _BEFORE.c.context_tokens.is_not(None),
    )
    .order_by(_BEFORE.c.place.desc())
    .limit(1)
    .correlate(usage_events)
    .scalar_subquery()
)


def _usage(
    connection: Connection, session_id: int, first: int, last: int
) -> tuple[dict[int, UsageView], dict[int, int]]:
    """The requests of these messages, and the dividers before them, by message."""
    found: dict[int, UsageView] = {}
    dividers: dict[int, int] = defaultdict(int)
    for row in connection.execute(
        select(usage_events, _size_before.label("size_before"))
        .where(usage_events.c.session_id == session_id, usage_events.c.message_ordinal.between(first, last))
        .order_by(usage_events.c.message_ordinal, usage_events.c.place)
    ):
        dividers[row.message_ordinal] += (
            row.is_counted
            and row.context_tokens is not None
            and row.size_before is not None
            and is_context_reset(row.size_before, row.context_tokens)
        )
        found[row.message_ordinal] = UsageView(
            row.input_tokens,
            row.cache_read_tokens,
            row.cache_write_5m_tokens,
            row.cache_write_1h_tokens,
            row.output_tokens,
            row.reasoning_tokens,
            row.context_tokens,
            row.cost_usd,
            row.is_partial,
            row.is_sum,
            row.is_counted,
        )
    return found, dividers


def _is_last(connection: Connection, session_id: int, ordinal: int) -> bool:
    later = select(messages.c.ordinal).where(messages.c.session_id == session_id, messages.c.ordinal > ordinal)
    return connection.execute(later.limit(1)).scalar() is None


def _dividers_at_end(connection: Connection, session_id: int) -> int:
    """Dividers of requests that no message stands for: these have a size only where no message has a request."""
    mine = usage_events.c.session_id == session_id
    first = connection.execute(
        select(usage_events.c.message_ordinal).where(mine).order_by(usage_events.c.place).limit(1)
    ).first()
    if first is None or first[0] is not None:
        return 0
    sizes = connection.execute(
        select(usage_events.c.context_tokens)
        .where(mine, usage_events.c.is_counted, usage_events.c.context_tokens.is_not(None))
        .order_by(usage_events.c.place)
    ).scalars()
    return context_health(size for size in sizes if size is not None).resets
