"""The settle pass of one session: from its rows to its signals and its card, in memory that does not grow with it.

The messages and calls go through `SessionFold` as they come from the database; what takes a set or a sort to find
out (distinct files and prompts, the hardest turns) is asked of the database. No statement reads a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, and_, delete, desc, func, select, update

from demerit.model import CallStatus, Event, Message, ParseLoss, Session, ToolCall
from demerit.quality import PROMPT_FACTS_VERSION, SIGNALS_VERSION, ContextHealth, ContextHealthFolder
from demerit.quality.advice import AdviceFolder
from demerit.quality.assess import IDLE_AFTER, Findings, SessionFold, churned, report_from
from demerit.quality.report import EVIDENCE_LIMIT, Advice, Evidence, Hygiene, Report, ToolTally, UsageTotals
from demerit.quality.thinking import Thinking, thinking_from
from demerit.store.engines import insert_rows
from demerit.store.filters import microseconds, moment
from demerit.store.projection import Advices
from demerit.store.schema import (
    events,
    file_changes,
    logs,
    messages,
    session_advice,
    session_reports,
    session_signals,
    session_tools,
    sessions,
    tool_calls,
    usage_events,
)
from demerit.store.texts import packed_bytes

_AT_A_TIME = 1000
# Stands for a text that is not looked at: that there is one is all that the fold asks.
_SOME_TEXT = "."
_PATHS = msgspec.json.Decoder(tuple[str, ...])
_STRINGS = msgspec.json.Decoder(tuple[str, ...])
_COUNTS = msgspec.json.Decoder(dict[str, int])
_STATUSES = {status.value: status for status in CallStatus}


def due(now: datetime, after: tuple[int, int] | None, limit: int) -> Select[Any]:
    """The next sessions to grade, by keyset over a partial index: (last_us, id) of those that settled and are stale."""
    settled = sessions.c.last_us <= microseconds(now - IDLE_AFTER)
    query = select(sessions.c.last_us, sessions.c.id).where(sessions.c.is_stale, settled)
    if after is not None:
        at, number = after
        later = and_(sessions.c.last_us == at, sessions.c.id > number)
        query = query.where((sessions.c.last_us > at) | later)
    return query.order_by(sessions.c.last_us, sessions.c.id).limit(limit)


def due_terminal(after: int, limit: int) -> Select[Any]:
    """The next stale sessions whose log records their own end, whatever the time, in the order of their ids."""
    terminal = and_(sessions.c.is_stale, sessions.c.is_terminal)
    return select(sessions.c.id).where(terminal, sessions.c.id > after).order_by(sessions.c.id).limit(limit)


def outdated(limit: int) -> Select[Any]:
    """Sessions whose signals are of another version, and not marked yet."""
    old = and_(session_signals.c.version != SIGNALS_VERSION, ~sessions.c.is_stale)
    joined = session_signals.join(sessions, sessions.c.id == session_signals.c.session_id)
    return select(sessions.c.id).select_from(joined).where(old).limit(limit)


def stored_messages(connection: Connection, session_id: int, whole: bool = False, first: int = 0) -> Iterator[Message]:
    """The session's own messages with their calls, as they were read but without texts, bodies and usage.

    whole: those that stand in an earlier session as well. first: the ordinal to begin at.
    """
    of_it = and_(messages.c.session_id == session_id, messages.c.ordinal >= first)
    if not whole:
        of_it = and_(of_it, ~messages.c.is_replayed)
    calls = _stored_calls(connection, session_id, first)
    pending = next(calls, None)
    columns = [
        messages.c[name]
        for name in (
            "ordinal role author notice is_sidechain has_substance has_image model at_us stop_reason calls"
            " text_bytes thinking_bytes"
        ).split()
    ]
    rows = _streamed(connection, select(*columns).where(of_it).order_by(messages.c.ordinal))
    for ordinal, role, author, notice, sidechain, spoke, image, model, at, stop, count, size, thought in rows:
        own: list[ToolCall] = []
        while count and pending is not None and pending.message_ordinal <= ordinal:
            if pending.message_ordinal == ordinal:
                own.append(pending)
            pending = next(calls, None)
        yield Message(
            ordinal=ordinal,
            role=role,
            author=author,
            text=_SOME_TEXT if spoke and not image else "",
            text_bytes=size,
            has_image=image,
            calls=tuple(own),
            thinking_bytes=thought,
            model=model,
            at=moment(at),
            stop_reason=stop,
            sidechain=sidechain,
            notice=notice,
        )
    for _ in calls:  # to its end, or PostgreSQL keeps its cursor
        pass


def _stored_calls(connection: Connection, session_id: int, first: int) -> Iterator[ToolCall]:
    columns = [
        tool_calls.c[name]
        for name in (
            "message_ordinal call_index name category status evidence call_id input_hash exit_code is_poll"
            " file_paths mcp_server"
        ).split()
    ]
    in_order = (tool_calls.c.message_ordinal, tool_calls.c.call_index)
    of_it = (tool_calls.c.session_id == session_id, tool_calls.c.message_ordinal >= first)
    query = select(*columns).where(*of_it).order_by(*in_order)
    for ordinal, index, name, category, status, evidence, call_id, hashed, code, poll, paths, server in _streamed(
        connection, query
    ):
        yield ToolCall(
            message_ordinal=ordinal,
            index=index,
            name=name,
            category=category,
            status=_STATUSES[status],
            evidence=evidence,
            call_id=call_id,
            input_hash=hashed,
            file_paths=_PATHS.decode(paths) if paths else (),
            exit_code=code,
            is_poll=poll,
            mcp_server=server,
        )


def _streamed(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    with connection.execute(query, execution_options={"stream_results": True, "yield_per": _AT_A_TIME}) as rows:
        yield from rows


def repeated_calls(connection: Connection, session_id: int) -> set[tuple[int, int]]:
    """(message, call) of the calls that do not count."""
    query = select(tool_calls.c.message_ordinal, tool_calls.c.call_index)
    return {(row[0], row[1]) for row in connection.execute(query.where(*_uncounted(session_id)))}


def _uncounted(session_id: int) -> tuple[Any, ...]:
    return tool_calls.c.session_id == session_id, ~tool_calls.c.is_counted


def grade_session(connection: Connection, session_id: int, now: datetime) -> Report | None:
    """Derive and keep the signals of one session; None when it is not there, or its prompts' facts are outdated.

    Until those are read again, the session stays ungraded: hygiene is never counted by a superseded rule.
    """
    row = connection.execute(
        select(sessions, logs.c.path).join(logs, logs.c.id == sessions.c.log_id).where(sessions.c.id == session_id)
    ).first()
    if row is None:
        return None
    hygiene = _hygiene(connection, session_id)
    if hygiene is None:
        return None
    report = _report(connection, row, hygiene, now)
    _keep(connection, session_id, report)
    return report


def _report(connection: Connection, row: Row[Any], hygiene: Hygiene, now: datetime) -> Report:
    session_id = row.id
    fold = SessionFold()
    # In memory only where a log repeats the lines of its calls.
    repeated = _Repeated(connection, session_id)
    for message in stored_messages(connection, session_id):
        fold.add(message, [call for call in message.calls if call not in repeated])
    session = stored_session(connection, row)
    health = _health(connection, session_id)
    findings = Findings(
        churn=_churn(connection, session_id),
        hygiene=hygiene,
        health=health,
        usage=_usage(row),
        thinking=_thinking(connection, session_id),
        advice=_advice(connection, row, hygiene, health),
        models=_STRINGS.decode(row.models),
        title=row.title,
        tools=_tallies(connection, session_id, session_tools.c.tool),
        servers=_servers(connection, session_id),
    )
    return report_from(session, fold, findings, now, row.path)


def _advice(
    connection: Connection, row: Row[Any], hygiene: Hygiene, health: ContextHealth | None
) -> tuple[Advice, ...]:
    """As the reader found it; found again, in bounded memory, where the session has gone on since."""
    if row.advice is not None:
        return Advices.decode(row.advice)
    folder = AdviceFolder()
    repeated = _Repeated(connection, row.id)
    for message in stored_messages(connection, row.id):
        for call in message.calls:
            if call not in repeated:
                folder.add(call, message.model)
    found = folder.result(hygiene, health)
    advice = msgspec.json.encode(found).decode()
    connection.execute(update(sessions).where(sessions.c.id == row.id).values(advice=advice))
    return found


class _Repeated:
    """Which calls do not count, asked of the database a message at a time, and only where there are any."""

    def __init__(self, connection: Connection, session_id: int) -> None:
        columns = (tool_calls.c.message_ordinal, tool_calls.c.call_index)
        query = select(*columns).where(*_uncounted(session_id)).order_by(*columns)
        self._rows = _streamed(connection, query)
        self._next: tuple[int, int] | None = None
        self._step()

    def _step(self) -> None:
        row = next(self._rows, None)
        self._next = None if row is None else (row[0], row[1])

    def __contains__(self, call: ToolCall) -> bool:
        place = (call.message_ordinal, call.index)
        while self._next is not None and self._next < place:
            self._step()
        return self._next == place


def stored_session(connection: Connection, row: Row[Any]) -> Session:
    """What is kept of a session beside its messages. `row` is of `sessions`."""
    query = select(events.c.kind, events.c.at_us, events.c.message_ordinal, events.c.detail)
    listed = connection.execute(query.where(events.c.session_id == row.id).order_by(events.c.place))
    return Session(
        agent=row.agent,
        source_id=row.source_id,
        parent_source_id=row.parent_source_id,
        relation=row.relation,
        title=row.title,
        cwd=row.cwd,
        branch=row.branch,
        agent_version=row.agent_version,
        started=moment(row.started_us),
        ended=moment(row.ended_us),
        modified=moment(row.last_us),
        terminal=row.is_terminal,
        events=tuple(Event(kind, moment(at), ordinal, detail) for kind, at, ordinal, detail in listed),
        losses=tuple(ParseLoss(kind, count) for kind, count in _COUNTS.decode(row.losses).items()),
        untold=_STRINGS.decode(row.untold),
    )


def _hygiene(connection: Connection, session_id: int) -> Hygiene | None:
    """Summed up from columns alone; None when a prompt's facts are of another version."""
    prompt = messages.c
    own = and_(prompt.session_id == session_id, ~prompt.is_replayed, prompt.prompt_version.is_not(None))
    eligible = ~prompt.prompt_short
    counted = connection.execute(
        select(
            func.count(),
            func.count().filter(prompt.prompt_version != PROMPT_FACTS_VERSION),
            func.count().filter(prompt.prompt_short),
            func.count().filter(prompt.prompt_no_code),
            func.count().filter(eligible) - func.count(prompt.prompt_digest.distinct()).filter(eligible),
        ).where(own)
    ).one()
    count, outdated, short, no_code, duplicate = counted
    if outdated:
        return None
    opener = connection.execute(
        select(prompt.prompt_short, prompt.prompt_greeting).where(own).order_by(prompt.ordinal).limit(1)
    ).first()
    return Hygiene(count, short, duplicate, no_code, opener is not None and any(opener))


def _churn(connection: Connection, session_id: int) -> Evidence:
    """Changes beyond the first to each file, with the first calls behind them."""
    changed = file_changes.c
    number = (
        func.row_number()
        .over(partition_by=changed.path, order_by=(changed.message_ordinal, changed.call_index, changed.place))
        .label("number")
    )
    # Their rows are kept of the session's own calls alone.
    numbered = (
        select(changed.message_ordinal, changed.call_index, changed.place, changed.path, number)
        .where(changed.session_id == session_id)
        .subquery()
    )
    again = numbered.c
    found = Evidence()
    repeated = select(func.count()).select_from(numbered).where(again.number > 1)
    count = connection.execute(repeated).scalar_one()
    if not count:
        return found
    call = tool_calls.c
    behind = (
        select(again.path, again.number, call.message_ordinal, call.call_index, call.name, call.status, call.evidence)
        .add_columns(call.call_id)
        .join(
            tool_calls,
            and_(
                call.session_id == session_id,
                call.message_ordinal == again.message_ordinal,
                call.call_index == again.call_index,
            ),
        )
        .where(again.number > 1)
        .order_by(again.message_ordinal, again.call_index, again.place)
        .limit(EVIDENCE_LIMIT)
    )
    for path, change, ordinal, index, name, status, evidence, call_id in connection.execute(behind):
        made = ToolCall(ordinal, index, name, "edit", _STATUSES[status], evidence, call_id)
        found.keep(churned(made, path, change))
    found.count = count
    return found


def _health(connection: Connection, session_id: int) -> ContextHealth | None:
    request = usage_events.c
    sizes = (
        select(request.context_tokens)
        .where(request.session_id == session_id, request.is_counted, request.context_tokens.is_not(None))
        .order_by(request.place)
    )
    folder = ContextHealthFolder()
    for (tokens,) in _streamed(connection, sizes):
        folder.add(tokens)
    return folder.result()


def _usage(row: Row[Any]) -> UsageTotals | None:
    if row.input_tokens is None:
        return None
    return UsageTotals(
        input_tokens=row.input_tokens,
        cache_read_tokens=row.cache_read_tokens,
        cache_write_tokens=row.cache_write_tokens,
        output_tokens=row.output_tokens,
        reasoning_tokens=row.reasoning_tokens,
        requests=row.requests,
        cost_usd=row.cost_usd,
        cache_write_1h_tokens=row.cache_write_1h_tokens,
        output_is_partial=row.output_is_partial,
    )


def _thinking(connection: Connection, session_id: int) -> Thinking | None:
    turn = messages.c
    own = and_(turn.session_id == session_id, ~turn.is_replayed, turn.thinking_tokens.is_not(None))
    thought = turn.thinking_tokens > 0
    turns, thinking = connection.execute(select(func.count(), func.count().filter(thought)).where(own)).one()
    hardest = select(turn.thinking_tokens).where(own, thought).order_by(desc(turn.thinking_tokens))
    return thinking_from(turns, thinking, lambda most: _values(connection, hardest.limit(most)))


def _values(connection: Connection, query: Select[Any]) -> Iterator[float]:
    for (value,) in _streamed(connection, query):
        yield value


def _tallies(connection: Connection, session_id: int, name: Any) -> dict[str, ToolTally]:
    failed = func.sum(session_tools.c.failed + session_tools.c.invalid)
    calls = func.sum(session_tools.c.calls)
    query = (
        select(name, calls, failed)
        .where(session_tools.c.session_id == session_id, name.is_not(None))
        .group_by(name)
        .order_by(calls.desc(), name)
    )
    return {tool: ToolTally(int(total), int(broken)) for tool, total, broken in connection.execute(query)}


def _servers(connection: Connection, session_id: int) -> dict[str, ToolTally]:
    """By the calls themselves: an agent may have one tool for the tools of all servers."""
    call = tool_calls.c
    own = and_(call.session_id == session_id, call.is_counted, call.category == "mcp", call.mcp_server.is_not(None))
    total, broken = func.count(), func.count().filter(call.status.in_(("failed", "invalid")))
    query = select(call.mcp_server, total, broken).where(own).group_by(call.mcp_server)
    return {name: ToolTally(*counts) for name, *counts in connection.execute(query.order_by(total.desc()))}


def _keep(connection: Connection, session_id: int, report: Report) -> None:
    forget_reports(connection, session_id)
    keep_reports(connection, [(session_id, report)])


def forget_reports(connection: Connection, session_id: int) -> None:
    """Delete the signals and the card of a session."""
    for table in (session_signals, session_reports, session_advice):
        connection.execute(delete(table).where(table.c.session_id == session_id))


def keep_reports(connection: Connection, reports: Sequence[tuple[int, Report]]) -> None:
    """Keep the cards of sessions that have none, and the signals in them."""
    insert_rows(connection, session_signals, [_signals_row(number, report) for number, report in reports])
    cards = [(number, packed_bytes(msgspec.json.encode(report))) for number, report in reports]
    insert_rows(connection, session_reports, cards)
    advice = [(number, one.rule) for number, report in reports for one in report.advice]
    insert_rows(connection, session_advice, advice)
    for at in range(0, len(reports), _AT_A_TIME):
        of_these = sessions.c.id.in_([number for number, _ in reports[at : at + _AT_A_TIME]])
        connection.execute(update(sessions).where(of_these).values(is_stale=False))


def _signals_row(session_id: int, report: Report) -> tuple[Any, ...]:
    signals, hygiene, context, thinking = report.signals, report.hygiene, report.context, report.thinking
    return (
        session_id,
        SIGNALS_VERSION,
        report.outcome.value,
        report.confidence.value,
        report.ending,
        report.score,
        report.grade,
        signals.tool_calls,
        signals.tool_failures,
        signals.tool_retries,
        signals.edit_churn,
        signals.longest_failure_streak,
        hygiene.prompts,
        hygiene.short,
        hygiene.duplicate,
        hygiene.no_code_context,
        hygiene.unstructured_start,
        *((context.peak_tokens, context.resets) if context else (None, None)),
        *(
            (thinking.assistant_turns, thinking.thinking_turns, thinking.tail_tokens, thinking.peak_tokens)
            if thinking
            else (None, None, None, None)
        ),
    )
