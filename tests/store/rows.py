"""Sessions as the store keeps them, from few facts: rows of all tables that agree with each other.

add_session(connection, started=MONDAY, score=80, calls=[Call("Read"), Call("Bash", "failed")])
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, func, insert, select

from demerit.model import PARSE_EPOCH, CallStatus
from demerit.quality import SIGNALS_VERSION, grade_for
from demerit.store.schema import (
    file_changes,
    logs,
    messages,
    projects,
    session_advice,
    session_defects,
    session_files,
    session_hours,
    session_signals,
    session_tools,
    sessions,
    tool_calls,
    usage_events,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNTIMED = -1


class Call(NamedTuple):
    name: str
    status: str = "ok"
    model: str = "m1"
    """Empty: the log does not tell."""


class Request(NamedTuple):
    at: datetime | None = NOON
    model: str = "m1"
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    cost: float | None = None


def add_session(
    connection: Connection,
    source_id: str | None = None,
    *,
    agent: str = "claude-code",
    version: str | None = "1.0",
    project: str | None = "shop",
    project_key: str | None = None,
    model: str | None = "m1",
    started: datetime | None = NOON,
    minutes: float = 10,
    last: datetime | None = None,
    is_terminal: bool = True,
    parent: int | None = None,
    relation: str | None = None,
    copy_of: int | None = None,
    epoch: int = PARSE_EPOCH,
    is_stale: bool = False,
    signals_version: int | None = SIGNALS_VERSION,
    prompts: int = 1,
    answers: int = 1,
    short: int = 0,
    duplicate: int = 0,
    no_code: int = 0,
    unstructured_start: bool = False,
    score: int | None = 100,
    outcome: str = "completed",
    confidence: str = "high",
    ending: str | None = None,
    peak: int | None = None,
    resets: int = 0,
    rules: Sequence[str] = (),
    calls: Sequence[Call] = (),
    is_judged: bool = True,
    files: Mapping[str, int] | None = None,
    requests: Sequence[Request] = (),
    truncated: int = 0,
    empty: int = 0,
    reasoning_only: int = 0,
    repetitions: Mapping[str, int] | None = None,
    **columns: Any,
) -> int:
    """The id of a new session: prompts and answers in turn, evenly over its minutes, all calls with the last answer.

    started: None for a log without times. last: its last sign of life, where that is not its end.
    signals_version: None where it is not graded yet. files: changes by path.
    repetitions: columns of `session_defects` of each of its models; None where nobody looked.
    columns: of `sessions`, as they are.
    """
    number = connection.execute(select(func.count()).select_from(sessions)).scalar_one() + 1
    name = source_id or f"session-{number}"
    ended = None if started is None else started + timedelta(minutes=minutes)
    spoken = _spoken(prompts, answers, model, started, minutes)
    session = _insert(
        connection,
        sessions,
        log_id=_log(connection, agent, name, number),
        agent=agent,
        source_id=name,
        parent_id=parent,
        relation=relation,
        copy_of=copy_of,
        project_id=None if project is None else _project(connection, project, project_key or f"/code/{project}"),
        cwd=None if project is None else f"/code/{project}",
        agent_version=version,
        title=name,
        model=model,
        models=json.dumps([] if model is None else [model]),
        started_us=_us(started),
        ended_us=_us(ended),
        last_us=_us(last or ended),
        is_terminal=is_terminal,
        messages=len(spoken),
        user_messages=prompts,
        requests=len(requests),
        **_usage(requests),
        untold="[]" if is_judged else '["statuses"]',
        losses="{}",
        advice="[]",
        digest=f"digest of {name}",
        epoch=epoch,
        is_stale=is_stale,
        **columns,
    )
    _add_messages(connection, session, spoken, calls, files or {}, requests)
    _add_hours(connection, session, spoken, calls, requests)
    tallies: dict[tuple[str, str], Counter[str]] = {}
    for call in calls:
        tallies.setdefault((call.name, call.model), Counter())[call.status] += 1
    for (tool, of_model), statuses in tallies.items():
        counts = {status.value: statuses[status.value] for status in CallStatus}
        row = {"tool": tool, "model": of_model, "category": "other", "calls": statuses.total(), "is_judged": is_judged}
        row["is_first"] = next(model for name, model in tallies if name == tool) == of_model
        _add(connection, session_tools, session_id=session, **row, **counts)
    for path, changes in (files or {}).items():
        _add(connection, session_files, session_id=session, path=path, changes=changes)
    of_models = Counter(call.model for call in calls)
    for of_model in {*of_models, *([model or ""] if answers else [])}:
        has_answers = of_model == (model or "") and answers
        _add(
            connection,
            session_defects,
            session_id=session,
            model=of_model,
            responses=answers if has_answers else 0,
            truncated=truncated if has_answers else 0,
            empty=empty if has_answers else 0,
            reasoning_only=reasoning_only if has_answers else 0,
            calls=of_models[of_model],
            invalid=sum(call.model == of_model and call.status == "invalid" for call in calls),
            **(repetitions or {}),
        )
    if signals_version is not None:
        failures = sum(call.status in ("failed", "invalid") for call in calls)
        _add(
            connection,
            session_signals,
            session_id=session,
            version=signals_version,
            outcome=outcome,
            confidence=confidence,
            ending=ending,
            score=score,
            grade=None if score is None else grade_for(score),
            tool_calls=len(calls),
            tool_failures=failures if is_judged else None,
            prompts=prompts,
            short_prompts=short,
            duplicate_prompts=duplicate,
            no_code_prompts=no_code,
            unstructured_start=unstructured_start,
            peak_context_tokens=peak,
            context_resets=None if peak is None else resets,
        )
        for rule in rules:
            _add(connection, session_advice, session_id=session, rule=rule)
    return session


class _Spoken(NamedTuple):
    role: str
    model: str | None
    at: datetime | None


def _spoken(prompts: int, answers: int, model: str | None, started: datetime | None, minutes: float) -> list[_Spoken]:
    order = ["user", "assistant"] * min(prompts, answers)
    order += ["user"] * (prompts - answers) + ["assistant"] * (answers - prompts)
    gap = timedelta(minutes=minutes) / max(1, len(order) - 1)
    times = [None if started is None else started + gap * place for place in range(len(order))]
    return [_Spoken(role, model if role == "assistant" else None, at) for role, at in zip(order, times, strict=True)]


def _usage(requests: Sequence[Request]) -> dict[str, Any]:
    if not requests:
        return {"unpriced_requests": 0}
    costs = [request.cost for request in requests if request.cost is not None]
    return {
        "input_tokens": sum(request.input for request in requests),
        "cache_read_tokens": sum(request.cached for request in requests),
        "cache_write_tokens": sum(request.written for request in requests),
        "output_tokens": sum(request.output for request in requests),
        "cost_usd": sum(costs) if costs else None,
        "unpriced_requests": len(requests) - len(costs),
    }


def _add_messages(
    connection: Connection,
    session: int,
    spoken: Sequence[_Spoken],
    calls: Sequence[Call],
    files: Mapping[str, int],
    requests: Sequence[Request],
) -> None:
    for ordinal, message in enumerate(spoken):
        _add(
            connection,
            messages,
            session_id=session,
            ordinal=ordinal,
            role=message.role,
            author="human" if message.role == "user" else "agent",
            has_substance=True,
            model=message.model,
            at_us=_us(message.at),
            calls=len(calls) if ordinal == len(spoken) - 1 else 0,
            text_bytes=1,
        )
    for index, call in enumerate(calls):
        _add(
            connection,
            tool_calls,
            session_id=session,
            message_ordinal=len(spoken) - 1,
            call_index=index,
            name=call.name,
            category="other",
            status=call.status,
            is_counted=True,
        )
    changes = [path for path, count in files.items() for _ in range(count)]
    for place, path in enumerate(changes):
        at = {"message_ordinal": len(spoken) - 1, "call_index": 0, "place": place}
        _add(connection, file_changes, session_id=session, **at, path=path)
    for place, request in enumerate(requests):
        _add(
            connection,
            usage_events,
            session_id=session,
            place=place,
            model=request.model or None,
            at_us=_us(request.at),
            input_tokens=request.input,
            cache_read_tokens=request.cached,
            cache_write_5m_tokens=request.written,
            output_tokens=request.output,
            is_counted=True,
            cost_usd=request.cost,
        )


def _add_hours(
    connection: Connection,
    session: int,
    spoken: Sequence[_Spoken],
    calls: Sequence[Call],
    requests: Sequence[Request],
) -> None:
    found: dict[tuple[int, str], dict[str, Any]] = {}

    def at(moment: datetime | None, model: str | None) -> dict[str, Any]:
        counted = [column.name for column in session_hours.c if column.name not in ("session_id", "hour", "model")]
        blank = dict.fromkeys(counted, 0) | {"cost_usd": None}
        return found.setdefault((_hour(moment), model or ""), blank)

    for message in spoken:
        row = at(message.at, message.model)
        row["messages"] += 1
        row["prompts"] += message.role == "user"
    for before, after in pairwise(spoken):
        if before.at and after.at and after.at - before.at <= timedelta(minutes=5):
            at(after.at, after.model)["active_us"] += (after.at - before.at) // timedelta(microseconds=1)
    for call in calls:
        at(spoken[-1].at if spoken else None, call.model)["tool_calls"] += 1
    for request in requests:
        row = at(request.at, request.model)
        row["requests"] += 1
        row["input_tokens"] += request.input
        row["cache_read_tokens"] += request.cached
        row["cache_write_tokens"] += request.written
        row["output_tokens"] += request.output
        if request.cost is None:
            row["unpriced_requests"] += 1
            row["unpriced_tokens"] += request.input + request.cached + request.written + request.output
        else:
            row["cost_usd"] = (row["cost_usd"] or 0) + request.cost
    for (hour, model), sums in found.items():
        _add(connection, session_hours, session_id=session, hour=hour, model=model, **sums)


def _log(connection: Connection, agent: str, name: str, number: int) -> int:
    path = f"/logs/{name}-{number}.jsonl"
    facts: dict[str, Any] = {"key": hashlib.sha256(path.encode()).hexdigest(), "machine": "here", "path": path}
    facts |= {"agent": agent, "fingerprint": "1", "bytes": 1, "epoch": PARSE_EPOCH, "known_agent": True, "read_us": 0}
    return _insert(connection, logs, **facts)


def _project(connection: Connection, name: str, key: str) -> int:
    found = connection.execute(select(projects.c.id).where(projects.c.key == key)).scalar()
    return int(found) if found is not None else _insert(connection, projects, key=key, name=name, kind="folder")


def _insert(connection: Connection, table: Table, **values: Any) -> int:
    """The id of a new row."""
    return int(_add(connection, table, **values)[0])


def _add(connection: Connection, table: Table, **values: Any) -> Any:
    """The key of a new row. What it must have and `values` leave out is nothing: 0, false, an empty text."""
    blank = {
        column.name: column.type.python_type()
        for column in table.c
        if not (column.nullable or column.server_default or (column.primary_key and column.autoincrement is not False))
    }
    return connection.execute(insert(table).values(**blank | values)).inserted_primary_key


def _us(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _hour(moment: datetime | None) -> int:
    return _UNTIMED if moment is None else (moment - _EPOCH) // timedelta(hours=1)
