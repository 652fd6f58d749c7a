"""Invented Claude Code log lines, in the shape of real ones: one function a kind of line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from demerit.model import Session
from demerit.parsers import claude
from demerit.parsers.records import Record, Source

START = datetime(2026, 5, 2, 9, 0, tzinfo=UTC)
_numbers = count(1)

Line = dict[str, Any]


def line(kind: str, second: float = 0, **fields: Any) -> Line:
    """Any line, with the fields that all lines have. A field of None is left out."""
    number = next(_numbers)
    common: Line = {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/dev/shop",
        "sessionId": "5e55a0e1-0000-4000-8000-000000000001",
        "version": "2.1.40",
        "gitBranch": "main",
        "type": kind,
        "uuid": f"00000000-0000-4000-8000-{number:012d}",
        "timestamp": (START + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    return {key: value for key, value in (common | fields).items() if value is not None}


def user(text: Any, second: float = 0, **fields: Any) -> Line:
    return line("user", second, message={"role": "user", "content": text}, **fields)


def usage(fresh: int = 10, output: int = 20, read: int = 0, five: int = 0, hour: int = 0) -> Line:
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": five + hour,
        "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour},
        "cache_read_input_tokens": read,
        "output_tokens": output,
    }


def assistant(*blocks: Any, id: str | None = None, second: float = 0, used: Any = None, **fields: Any) -> Line:
    message = {
        "id": id or f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": fields.pop("model", "claude-opus-4-8"),
        "content": [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks],
        "stop_reason": None,
        "usage": used or usage(),
    }
    return line("assistant", second, message=message, requestId=f"req_{message['id']}", **fields)


def call(id: str, name: str = "Bash", /, **arguments: Any) -> Line:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(
    id: str,
    content: Any = "done",
    is_error: bool | None = None,
    second: float = 0,
    detail: Any = None,
    **fields: Any,
) -> Line:
    block: Line = {"type": "tool_result", "tool_use_id": id, "content": content}
    if is_error is not None:
        block["is_error"] = is_error
    return user([block], second, toolUseResult=detail, **fields)


def records(lines: list[Line | str | bytes]) -> list[Record]:
    found = []
    offset = 0
    for item in lines:
        data = item if isinstance(item, bytes) else (item if isinstance(item, str) else json.dumps(item)).encode()
        found.append(Record(data + b"\n", offset))
        offset += len(data) + 1
    return found


def read(*lines: Line | str | bytes, source: Source = Source("log")) -> Session:  # noqa: B008 - immutable
    return claude.parse(records(list(lines)), source)[0]


def kinds(session: Session) -> list[tuple[str, str, str]]:
    """(role, author, text) of each message."""
    return [(message.role, message.author, message.text) for message in session.messages]


def statuses(session: Session) -> list[str]:
    return [call.status.value for message in session.messages for call in message.calls]


def losses(session: Session) -> dict[str, int]:
    return {loss.kind: loss.count for loss in session.losses}
