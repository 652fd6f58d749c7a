"""What a session is, whatever agent logged it: the one message model of the log side and the wire side.

Everything here is frozen and imports nothing of ours. `None` means "not measured", never zero. Times are
aware datetimes in UTC. Ordinals count the messages of one session from 0, in transcript order.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

__all__ = [
    "PARSE_EPOCH",
    "Author",
    "Body",
    "CallStatus",
    "Category",
    "Event",
    "Message",
    "Notice",
    "ParseLoss",
    "Relation",
    "Role",
    "Session",
    "ThinkingKind",
    "ToolCall",
    "Usage",
]

PARSE_EPOCH = 2
"""Recorded with all that is stored of a log. Raise it when a parser, what the store keeps of a session, or a prompt's
facts change: every stored session is then read again from its archived bytes. A test of golden projections fails when
output drifts without it."""

Role = Literal["user", "assistant", "system", "context"]
"""`context` is text that the harness put in: reminders, summaries, hook feedback, command output."""

Author = Literal["human", "agent", "harness"]
"""Who wrote a message. A sub-agent's opening prompt has role `user` and author `agent`."""

Category = Literal["read", "search", "edit", "write", "shell", "web", "agent", "plan", "question", "mcp", "other"]
"""What kind of work a tool does. `edit` and `write` change the files that the call names."""


class CallStatus(StrEnum):
    """How one tool call went."""

    OK = "ok"
    FAILED = "failed"
    """It ran and failed."""
    INVALID = "invalid"
    """The model's call was broken: unknown tool, arguments that do not parse or do not fit."""
    DECLINED = "declined"
    """A person, or a permission that nobody gave, said no."""
    CANCELLED = "cancelled"
    """Interrupted, or never run because a sibling call failed."""
    BENIGN = "benign"
    """A non-zero exit that only says "nothing found" or "differs"."""
    PENDING = "pending"
    """No result in the log."""
    UNKNOWN = "unknown"
    """There is a result, and the agent logs no status for it."""

    @property
    def is_failure(self) -> bool:
        """Whether the score counts this call as failed: it failed, or the model's call was broken."""
        return self is CallStatus.FAILED or self is CallStatus.INVALID


class Body(msgspec.Struct, frozen=True):
    """A large text that stays in its log: where it stands there, and how it begins."""

    head: str
    """The first characters of the text (2 KiB unless the reader asked for less)."""
    bytes: int
    """Length of the value in the log, in bytes, as it stands there."""
    digest: str
    """Sixteen hex digits over those bytes: equal digests mean equal bodies."""
    offset: int | None = None
    """Byte offset of the JSON value in its source; None where it has none (a database, a list in memory)."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one model request, in one meaning for every agent: the five classes do not overlap,
    but for reasoning, which is a part of the output."""

    input_tokens: int = 0
    """Uncached input."""
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    """Everything generated, reasoning included."""
    reasoning_tokens: int | None = None
    """The part of the output that was reasoning; None when the agent does not report it."""
    key: str | None = None
    """Identity of the request over all files (resumed and copied logs repeat it); None when there is none."""
    output_is_partial: bool = False
    """The log has the output only as it stood before the answer was whole: `output_tokens` is a lower bound."""
    is_sum: bool = False
    """Of several requests, of which the log has only the sum: it says nothing of the size of any one."""

    @property
    def context_tokens(self) -> int:
        """Size of the prompt that was sent: uncached input, cache reads and cache writes."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def is_empty(self) -> bool:
        """Whether nothing was sent and nothing came back: the mark of a line that no model wrote."""
        return not (self.context_tokens or self.output_tokens)


class ToolCall(msgspec.Struct, frozen=True):
    """One call of one tool, with what became of it."""

    message_ordinal: int
    index: int
    """Place among the calls of its message, from 0."""
    name: str
    category: Category
    status: CallStatus
    evidence: str
    """What decided the status: the flag, the exit code, or the agent's fixed text form."""
    call_id: str | None = None
    """Not unique in a session: replays repeat it."""
    input: Body | None = None
    input_hash: str | None = None
    """Equal hashes mean equal inputs (key order aside); None when the input was not recorded."""
    file_paths: tuple[str, ...] = ()
    """Files that the call names, each once, as the log spells them; a patch names every file it touches."""
    exit_code: int | None = None
    result: Body | None = None
    at: datetime | None = None
    is_poll: bool = False
    """It only waits for, or looks at, something that is still running: no new piece of work."""
    mcp_server: str | None = None
    """The MCP server, where the log names it beside the tool."""

    @property
    def server(self) -> str | None:
        """The MCP server whose tool it is, by the log or by a name like `mcp__SERVER__TOOL`; None when not told."""
        if self.mcp_server or self.category != "mcp":
            return self.mcp_server
        server, separator, _ = self.name.removeprefix("mcp__").partition("__")
        return server if server and (separator or self.name.startswith("mcp__")) else None

    @property
    def changes_files(self) -> bool:
        return self.category == "edit" or self.category == "write"


ThinkingKind = Literal["signature", "ciphertext", "text"]
Notice = Literal["interrupt", "api_error", "compaction_summary"]


class Message(msgspec.Struct, frozen=True):
    """One message. A model's response is one message, however many lines it was logged in."""

    ordinal: int
    role: Role
    author: Author
    text: str = ""
    """Text of a human prompt in full; of anything else at most 64 KiB (see `text_bytes`)."""
    text_bytes: int = 0
    """Length of the whole text in UTF-8 bytes."""
    text_digest: str | None = None
    """Sixteen hex digits over the whole text where `text` is only its beginning; None where it is whole."""
    has_image: bool = False
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[Body, ...] = ()
    thinking_bytes: int = 0
    """Bytes of reasoning as `thinking_kind` counts them; 0 when the turn did not think."""
    thinking_kind: ThinkingKind | None = None
    """What the bytes are: Claude's encrypted signature, Codex's ciphertext, or plain text."""
    model: str | None = None
    at: datetime | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    sidechain: bool = False
    """Logged inside this session, but part of a sub-agent's conversation."""
    notice: Notice | None = None
    """What the harness says with this message; None for what a person or the model wrote."""

    @property
    def has_substance(self) -> bool:
        """Whether a person or the model wrote text here (an image counts as a person's text)."""
        return (
            self.notice is None
            and self.author != "harness"
            and (self.role == "user" or self.role == "assistant")
            and (self.has_image or (bool(self.text) and not self.text.isspace()))
        )


class Event(msgspec.Struct, frozen=True):
    """Something that happened beside the messages."""

    kind: Literal["compaction", "interrupt", "api_error", "rewind", "model_change", "subagent"]
    at: datetime | None = None
    message_ordinal: int | None = None
    """The message that it came after; None when it came before the first."""
    detail: str = ""


class ParseLoss(msgspec.Struct, frozen=True):
    """Something in a log that was not understood, counted by kind."""

    kind: str
    count: int
    first_offset: int | None = None
    """Byte offset of the first record it concerns."""


Relation = Literal["subagent", "fork", "continuation"]


class Session(msgspec.Struct, frozen=True):
    """One conversation of one agent, as its log tells it."""

    agent: str
    source_id: str
    """The agent's own name of the session; the file's name where the log has none."""
    messages: tuple[Message, ...] = ()
    parent_source_id: str | None = None
    relation: Relation | None = None
    """What the session is to its parent."""
    title: str | None = None
    """A title that the agent or its user gave; never made up from a prompt."""
    cwd: str | None = None
    branch: str | None = None
    agent_version: str | None = None
    started: datetime | None = None
    """First time on any line."""
    ended: datetime | None = None
    """Last time on any line."""
    modified: datetime | None = None
    """When the log was last written, for logs without times; None for a list in memory."""
    terminal: bool = False
    """The log records its own end, or the caller said that it ended."""
    events: tuple[Event, ...] = ()
    loose_usage: tuple[Usage, ...] = ()
    """Requests that no message stands for (a compaction's summary, an aborted turn)."""
    losses: tuple[ParseLoss, ...] = ()
    untold: tuple[str, ...] = ()
    """Facts that this agent's logs never tell, by the names of its coverage."""
    models: tuple[str, ...] = ()
    """Models that the log names outside of messages."""
