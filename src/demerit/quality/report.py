"""The report card of one session, and the lines behind it. Field by field it is the JSON of `demerit grade`."""

from __future__ import annotations

from datetime import datetime

import msgspec

from demerit.model import CallStatus, ToolCall
from demerit.quality.archetype import Archetype
from demerit.quality.outcome import Confidence, Facts, Outcome
from demerit.quality.score import Signals
from demerit.quality.thinking import Thinking

_OK = CallStatus.OK


class CallRef(msgspec.Struct, frozen=True):
    """One reason for a lost point or an advice: a call, or a message where no call is to blame."""

    message: int
    """Ordinal of the message."""
    call: int | None
    """Place of the call in its message; None when the message itself is meant."""
    tool: str | None
    file: str | None
    """The first file that the call names."""
    why: str
    evidence: str
    """What decided the call's status; empty for a message, and for a call that worked."""
    call_id: str | None = None
    """The log's own id of the call, to find it there."""


def reference(call: ToolCall, why: str, file: str | None = None) -> CallRef:
    """A call as a reason. `file` is the file meant, where that is not the first one it names."""
    named = file or (call.file_paths[0] if call.file_paths else None)
    # That a call worked is no evidence for what is held against it.
    evidence = "" if call.status is _OK else call.evidence
    return CallRef(call.message_ordinal, call.index, call.name, named, why, evidence, call.call_id)


EVIDENCE_LIMIT = 200
"""Calls kept behind one count: the count is exact, the list is cut, so that a report stays small."""


class Evidence:
    """A count, with the first calls behind it."""

    __slots__ = ("calls", "count")

    def __init__(self) -> None:
        self.count = 0
        self.calls: list[CallRef] = []

    def add(self, call: ToolCall, why: str, file: str | None = None) -> None:
        self.count += 1
        if len(self.calls) < EVIDENCE_LIMIT:
            self.calls.append(reference(call, why, file))

    def keep(self, ref: CallRef) -> None:
        """Count a reason that is made already."""
        self.count += 1
        if len(self.calls) < EVIDENCE_LIMIT:
            self.calls.append(ref)


class BreakdownLine(msgspec.Struct, frozen=True):
    """One penalty with the calls that cost it: at most `EVIDENCE_LIMIT` of them, the first ones."""

    label: str
    points: int
    calls: tuple[CallRef, ...]
    is_capped: bool = False
    """The calls would have cost more, but this kind of line costs no more than that."""


class Advice(msgspec.Struct, frozen=True):
    """One sentence on what to change, from the named rule, with the calls that it rests on. Never scored."""

    rule: str
    text: str
    calls: tuple[CallRef, ...] = ()


class Hygiene(msgspec.Struct, frozen=True):
    """Shape of the human prompts that have text; every count is at most `prompts`."""

    prompts: int
    short: int
    duplicate: int
    no_code_context: int
    unstructured_start: bool


class Context(msgspec.Struct, frozen=True):
    peak_tokens: int
    resets: int


class UsageTotals(msgspec.Struct, frozen=True):
    """Tokens of all requests of a session, each counted once. The classes are those of `model.Usage`."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int | None = None
    """None when no request reports it."""
    requests: int = 0
    cost_usd: float | None = None
    """None: not priced."""
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that was written for an hour."""
    output_is_partial: bool = False
    """Some answers were logged before they were whole: `output_tokens` is a lower bound."""


class ToolTally(msgspec.Struct, frozen=True):
    """A session's calls of one tool, or of all tools of one MCP server; replays count once."""

    calls: int
    failures: int | None
    """Failed or broken. None when the log does not tell how calls went."""


class Report(msgspec.Struct, frozen=True):
    """What `assess` finds out about one session. `None` is "not measured" (see `basis`)."""

    path: str | None
    agent: str
    session_id: str
    title: str | None
    """The title that the log gives, else the first line of the first human prompt."""
    models: tuple[str, ...]
    """In the order of their first answer."""
    started_at: datetime | None
    ended_at: datetime | None
    outcome: Outcome
    confidence: Confidence
    score: int | None
    grade: str | None
    archetype: Archetype
    ending: str | None
    """`interrupted`, `api_error`, `children_failed`, or None."""
    terminal: bool
    parent_session_id: str | None
    statuses: dict[str, int]
    """Calls by status; a status that no call has is left out."""
    failures_per_100_calls: float | None
    basis: tuple[str, ...]
    """Facts that this session's log cannot tell."""
    advice: tuple[Advice, ...]
    """At most three."""
    facts: Facts
    signals: Signals
    breakdown: tuple[BreakdownLine, ...]
    hygiene: Hygiene
    context: Context | None
    thinking: Thinking | None
    usage: UsageTotals | None
    losses: dict[str, int]
    relation: str | None = None
    """What the session is to its parent: `subagent`, `fork`, `continuation`, or None."""
    messages: int = 0
    duration_minutes: float = 0.0
    cwd: str | None = None
    branch: str | None = None
    agent_version: str | None = None
    tools: dict[str, ToolTally] = {}
    mcp_servers: dict[str, ToolTally] = {}
    """Of `tools`, those of MCP servers, by server where the log tells it."""
    events: dict[str, int] = {}
    """Compactions, interrupts, API errors and the like, by kind."""
