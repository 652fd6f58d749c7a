"""Sessions built by hand, for tests of what is judged from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from demerit.model import CallStatus, Event, Message, Session, ToolCall, Usage
from demerit.parsers.evidence import category_of
from demerit.quality.assess import assess
from demerit.quality.report import Report

NOW = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=2)
JUST_NOW = NOW - timedelta(minutes=5)


def tool(
    name: str = "Bash",
    status: str = "ok",
    *,
    input: str | None = "x",
    id: str | None = None,
    files: Sequence[str] = (),
    exit_code: int | None = None,
    is_poll: bool = False,
    server: str | None = None,
) -> ToolCall:
    """A call without its place, which `session` gives it. Equal `input` means equal input."""
    return ToolCall(
        message_ordinal=-1,
        index=-1,
        name=name,
        category="mcp" if server else category_of(name),
        status=CallStatus(status),
        evidence="by hand",
        call_id=id,
        input_hash=input,
        file_paths=tuple(files),
        exit_code=exit_code,
        is_poll=is_poll,
        mcp_server=server,
    )


def human(text: str = "please fix the rounding in src/cart.py", **fields: Any) -> dict[str, Any]:
    return {"role": "user", "author": "human", "text": text, **fields}


def agent(text: str = "", *calls: ToolCall, **fields: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "author": "agent",
        "text": text,
        "calls": calls,
        "model": "claude-opus-4-8",
        **fields,
    }


def harness(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "context", "author": "harness", "text": text, **fields}


INTERRUPT = harness("[Request interrupted by user]", notice="interrupt")
API_ERROR = {"role": "assistant", "author": "harness", "text": "API Error: 529", "notice": "api_error"}


def session(*messages: dict[str, Any], ended: datetime | None = LONG_AGO, **fields: Any) -> Session:
    made = []
    for ordinal, message in enumerate(messages):
        calls = tuple(
            ToolCall(
                **{
                    **{f: getattr(c, f) for f in c.__struct_fields__},
                    "message_ordinal": ordinal,
                    "index": index,
                }
            )
            for index, c in enumerate(message.get("calls", ()))
        )
        made.append(Message(**{**message, "ordinal": ordinal, "calls": calls}))
    started = ended - timedelta(minutes=10) if ended else None
    return Session(
        **{
            "agent": "claude-code",
            "source_id": "s",
            "messages": tuple(made),
            "started": started,
            "ended": ended,
            **fields,
        }
    )


def report(*messages: dict[str, Any], **fields: Any) -> Report:
    return assess(session(*messages, **fields), NOW)


def request(context: int, **fields: Any) -> Usage:
    return Usage(input_tokens=context, output_tokens=1, **fields)


FAILED_CHILD = Event("subagent", message_ordinal=0, detail="failed")
RETRIED = Event("api_error", message_ordinal=0, detail="retried")
