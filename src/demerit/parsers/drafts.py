"""A session while it is being read: messages without ordinals, and calls whose results are still to come.

For formats in which results come later than their calls, or a message in several pieces: a reader adds to a
`Transcript`, which makes the frozen session in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from demerit.model import (
    Author,
    Body,
    Category,
    Event,
    Message,
    Notice,
    Role,
    Session,
    ThinkingKind,
    ToolCall,
    Usage,
)
from demerit.parsers.evidence import PENDING, Judgement
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Losses,
    Record,
    Source,
    kept_text,
    parse_time,
    raw_body,
    text_body,
    token_count,
    utf8_length,
)


@dataclass(slots=True, eq=False)
class DraftCall:
    """A call while its result is still to come."""

    name: str
    category: Category
    call_id: str | None = None
    at: datetime | None = None
    verdict: Judgement | None = None
    may_change: bool = False
    """The verdict is what can be said without a result: one that comes takes its place."""
    input: Body | None = None
    hash: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None
    result: Body | None = None
    is_poll: bool = False
    server: str | None = None
    """The MCP server, where the log names it."""
    first: DraftCall | None = None
    """The same call, logged before: it has the result."""
    unanswered: Judgement = PENDING
    """What it is if no result comes."""
    continues: bool = False
    """It sends input to a command that is running, or looks at it."""

    def answer(self, verdict: Judgement, result: Body | None = None) -> None:
        """Take a result: of several, the first stands."""
        if self.verdict is None or self.may_change:
            self.verdict, self.result, self.may_change = verdict, result, False

    def frozen(self, ordinal: int, index: int) -> ToolCall:
        told = self.first or self
        status, why, code = told.verdict or told.unanswered
        return ToolCall(
            ordinal, index, self.name, self.category, status, why, self.call_id, self.input, self.hash, self.paths,
            code, told.result, self.at, self.is_poll, self.server,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class Draft:
    """A message, before it has its ordinal."""

    role: Role
    author: Author
    at: datetime | None = None
    text: str = ""
    has_image: bool = False
    notice: Notice | None = None
    sidechain: bool = False
    calls: list[DraftCall] = field(default_factory=list)
    thinking: list[Body] = field(default_factory=list)
    thinking_bytes: int = 0
    thinking_kind: ThinkingKind | None = None
    model: str | None = None
    usage: Usage | None = None
    stop: str | None = None

    def frozen(self, ordinal: int, source: Source) -> Message:
        kept = kept_text(self.text, source, whole=self.role == "user")
        return Message(
            ordinal=ordinal,
            role=self.role,
            author=self.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=self.has_image,
            calls=tuple(call.frozen(ordinal, index) for index, call in enumerate(self.calls)),
            thinking=tuple(self.thinking),
            thinking_bytes=self.thinking_bytes,
            thinking_kind=self.thinking_kind,
            model=self.model,
            at=self.at,
            usage=self.usage,
            stop_reason=self.stop,
            sidechain=self.sidechain,
            notice=self.notice,
        )


class Part(msgspec.Struct):
    """A part of a content."""

    type: str | None = None
    text: str | None = None


class ThinkingBlock(msgspec.Struct):
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class Function(msgspec.Struct):
    """What a call in the form of the chat API calls."""

    name: str | None = None
    arguments: msgspec.Raw = NOTHING  # a JSON text


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class ApiUsage(msgspec.Struct):
    """The tokens of a request, as the chat API and the Responses API count them: cached input is a part of the input.

    LiteLLM adds Anthropic's names for it.
    """

    prompt_tokens: int | None = None
    input_tokens: int | None = None
    completion_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


def usage_of(counts: ApiUsage | None, key: str | None) -> Usage | None:
    """The usage of one request; None where nothing was counted."""
    if counts is None:
        return None
    into = counts.prompt_tokens_details or counts.input_tokens_details or _Details()
    out = counts.completion_tokens_details or counts.output_tokens_details or _Details()
    read = token_count(counts.cache_read_input_tokens) or token_count(into.cached_tokens)
    written = token_count(counts.cache_creation_input_tokens)
    sent = token_count(counts.prompt_tokens) or token_count(counts.input_tokens)
    made = token_count(counts.completion_tokens) or token_count(counts.output_tokens)
    found = Usage(max(0, sent - read - written), read, written, 0, made, out.reasoning_tokens, key or None)
    return None if found.is_empty else found


_CONTENT = msgspec.json.Decoder(str | list[Part] | None)
EventKind = Literal["compaction", "interrupt", "api_error", "rewind", "subagent"]


class Transcript:
    """What a reader has found so far."""

    def __init__(self, source: Source, losses: Losses) -> None:
        self.source = source
        self.losses = losses
        self.record = Record(b"")
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.loose: list[Usage] = []
        self.calls: dict[str, DraftCall] = {}
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.model: str | None = None
        self.cwd: str | None = None
        self.title: str | None = None
        self.version: str | None = None
        self.is_terminal = False
        self._after = 0
        self._reached = 0

    def begin_item(self) -> None:
        """Go on to an item that stands behind all before it: its bodies are looked for from there."""
        self._after = self._reached

    def lose(self, kind: str) -> None:
        self.losses.add(kind, self.record.offset)

    def time(self, value: object) -> datetime | None:
        at = parse_time(value, self.losses, self.record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        return at

    def body(self, raw: msgspec.Raw) -> Body | None:
        body = raw_body(raw, self.record, self.source, self._after)
        if body is not None and body.offset is not None:
            self._reached = max(self._reached, body.offset + body.bytes - (self.record.offset or 0))
        return body

    def content(self, raw: msgspec.Raw) -> tuple[str, bool]:
        """The text of a content (a text, or parts), and whether there is an image in it."""
        try:
            content = _CONTENT.decode(raw)
        except BAD_CONTENT:
            self.lose("wrong_type")
            return "", False
        if isinstance(content, str) or content is None:
            return content or "", False
        has_image = any(part.type in ("image", "image_url", "input_image") for part in content)
        return "\n".join(part.text for part in content if part.text), has_image

    def arguments(self, raw: msgspec.Raw) -> Any:
        """The decoded arguments of a call, which stand there as an object or as a JSON text."""
        value = None
        try:
            value = msgspec.json.decode(raw)
            return msgspec.json.decode(value) if isinstance(value, str) else value
        except BAD_CONTENT:
            if not isinstance(value, str) or value.lstrip()[:1] in ("{", "["):  # any other is text for a tool of text
                self.lose("malformed_input")
            return value

    def say(self, role: Role, author: Author, text: str, at: datetime | None = None, **more: Any) -> Draft:
        draft = Draft(role, author, at, text, **more)
        self.drafts.append(draft)
        return draft

    def context(self, text: str, at: datetime | None = None, notice: Notice | None = None) -> None:
        self.say("context", "harness", text, at, notice=notice)

    def event(self, kind: EventKind, at: datetime | None = None, detail: str = "") -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail[:200]))

    def interrupt(self, detail: str, at: datetime | None = None) -> None:
        if not self.drafts or self.drafts[-1].notice != "interrupt":  # one stop may be logged as several events
            self.event("interrupt", at, detail)
            self.context(detail, at, "interrupt")

    def api_error(self, detail: str, at: datetime | None = None) -> None:
        self.event("api_error", at, detail)
        self.say("assistant", "harness", detail, at, notice="api_error")

    def compaction(self, summary: str, at: datetime | None = None) -> None:
        self.event("compaction", at)
        if summary:
            self.context(summary, at, "compaction_summary")

    def add_call(self, draft: Draft, call: DraftCall) -> DraftCall:
        if not call.name:
            self.lose("call_without_name")
        draft.calls.append(call)
        if call.call_id:
            self.calls[call.call_id] = call
        return call

    def think(self, draft: Draft, texts: list[str], secret: int = 0, secret_kind: ThinkingKind = "signature") -> None:
        """Add reasoning to a message. secret: the bytes of its signature or ciphertext, which count where there are
        any; of two kinds in one message, the first counts."""
        kind: ThinkingKind = secret_kind if secret else "text"
        size = secret or sum(utf8_length(text) for text in texts)
        if size and draft.thinking_kind in (None, kind):
            draft.thinking_bytes += size
            draft.thinking_kind = kind
        bodies = [text_body(text, self.source) for text in texts if text]
        draft.thinking += [body for body in bodies if body is not None]

    def session(self, agent: str, name: str, **more: Any) -> Session:
        return Session(
            agent=agent,
            source_id=name,
            messages=tuple(draft.frozen(ordinal, self.source) for ordinal, draft in enumerate(self.drafts)),
            title=self.title,
            cwd=self.cwd,
            agent_version=self.version,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.is_terminal,
            events=tuple(self.events),
            loose_usage=tuple(self.loose),
            losses=self.losses.result(),
            models=(self.model,) if self.model and not any(draft.model for draft in self.drafts) else (),
            **more,
        )
