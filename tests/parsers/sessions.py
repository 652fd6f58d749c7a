"""What the tests of all parsers ask of a session."""

from __future__ import annotations

from pathlib import Path

from demerit.model import Session, ToolCall

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "transcripts"
"""Real logs beside the repository. Tests may use them, and never need them."""


def calls(session: Session) -> list[ToolCall]:
    return [call for message in session.messages for call in message.calls]


def losses(session: Session) -> dict[str, int]:
    return {loss.kind: loss.count for loss in session.losses}


def spoken(session: Session) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in session.messages]


def statuses(session: Session) -> list[str]:
    return [call.status.value for call in calls(session)]


def prompts(session: Session) -> list[str]:
    return [message.text for message in session.messages if message.role == "user" and message.author == "human"]


def assert_well_formed(session: Session) -> None:
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]
    for happened in session.events:
        assert happened.message_ordinal is None or happened.message_ordinal < len(session.messages)
