"""Factory Droid: its sessions under `~/.factory/sessions`, and the stream that `droid exec` prints.

What is easy to get wrong, and is decided here:
- Texts of the program stand beside the prompt in one message of the user, or alone in one marked `visibility`.
- Tokens stand in no line of a session: its settings file has their sum. The stream tells it in its last line.
- A fork begins with a copy of its parent's lines, up to the message that its header names.
- The stream has one line for each text, reasoning and call of a response, and the last answer twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import (
    Author,
    Body,
    CallStatus,
    Category,
    Event,
    Message,
    Relation,
    Session,
    ThinkingKind,
    Usage,
)
from demerit.parsers.drafts import Draft, DraftCall
from demerit.parsers.evidence import (
    Judgement,
    by_exit_code,
    category_of,
    is_harness_text,
    is_poll,
    patch_paths,
    paths_in,
    without_wrappers,
)
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Bundle,
    Coverage,
    Home,
    LineDecoder,
    Losses,
    Parser,
    Record,
    Sample,
    Source,
    input_hash,
    is_given,
    json_head,
    parse_time,
    raw_body,
    token_count,
    utf8_length,
)

# --- the format -------------------------------------------------------------------------------------------


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: msgspec.Raw = NOTHING
    signature: str | None = None
    data: msgspec.Raw = NOTHING
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None


class _Message(msgspec.Struct):
    role: str | None = None
    content: str | list[_Block] | None = None
    visibility: str | None = None
    modelId: str | None = None
    userMessageSource: str | None = None
    hookEventName: str | None = None


class _Tokens(msgspec.Struct):
    """Of the settings file, and of the stream's last line."""

    inputTokens: int | None = None
    outputTokens: int | None = None
    cacheCreationTokens: int | None = None
    cacheReadTokens: int | None = None
    thinkingTokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    thinking_tokens: int | None = None


class _Line(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    timestamp: str | int | float | None = None
    message: _Message | str | None = None
    visibility: str | None = None
    # of the header
    title: str | None = None
    sessionTitle: str | None = None
    version: str | int | float | None = None
    cwd: str | None = None
    parent: str | None = None
    forkedAtMessageId: str | None = None
    callingSessionId: str | None = None
    # of a compaction
    summaryText: str | None = None
    # of the end of a turn
    reason: str | None = None
    # of the stream
    session_id: str | None = None
    role: str | None = None
    text: str | None = None
    model: str | None = None
    messageId: str | None = None
    toolName: str | None = None
    toolId: str | None = None
    toolCallId: str | None = None
    parameters: msgspec.Raw = NOTHING
    value: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    isError: bool | None = None
    finalText: str | None = None
    usage: _Tokens | None = None


class _Settings(msgspec.Struct):
    model: str | None = None
    tokenUsage: _Tokens | None = None


class _Value(msgspec.Struct):
    """A result in a stream, where it is an object: an error, and in older ones what a command gave."""

    exitCode: int | None = None
    stdout: msgspec.Raw = NOTHING
    message: str | None = None


_LINES = LineDecoder(_Line)
_SETTINGS = LineDecoder(_Settings)
_VALUES = LineDecoder(_Value)

# Lines that carry nothing a report needs. A type that is neither here nor among the handlers is new to us.
_IGNORED = frozenset("todo_state session_settings session_end".split())

# --- fixed texts of the program ---------------------------------------------------------------------------

_FAILED_COMMAND = re.compile(r"(?:Error: )?Command failed \(exit code: (-?\d{1,9})\)")
_ENDING = re.compile(r"\[Process exited with code (-?\d{1,9})\]\s*\Z")
_ENDING_CHARS = 80
_FORMS = (
    (re.compile(r"(?:Error: )?Tool execution cancelled by user\b"), CallStatus.CANCELLED),
    (re.compile(r"(?:Error: )?insufficient permission to proceed\b", re.IGNORECASE), CallStatus.DECLINED),
)
# What only the user sees, and what ends the turn.
_REFUSED_BY_SERVICE = ("Token limit reached",)
# The tools whose names `evidence` does not know.
_CATEGORIES: dict[str, Category] = {
    "fetchurl": "web",
    "exitspecmode": "plan",
    "askuser": "question",
}
# What a command is called for the reader: it changes from one run of it to the next.
_LABELS = frozenset(("riskLevel", "riskLevelReason"))

# --- reading ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Draft(Draft):
    more: list[str] = field(default_factory=list)
    """What the stream adds to the text."""
    id: str | None = None
    """Of the response, in the stream."""
    is_answered: bool = False
    """A result of one of its calls was logged: the next line is another response, unless it has the same id."""

    def whole(self) -> str:
        return "\n".join(filter(None, (self.text, *self.more)))

    def frozen(self, ordinal: int, source: Source) -> Message:
        self.text, self.more = self.whole(), []
        return Draft.frozen(self, ordinal, source)

    def thought(self, size: int, kind: ThinkingKind, body: Body | None) -> None:
        if size and self.thinking_kind in (None, kind):  # of two kinds in one response, the first counts
            self.thinking_bytes += size
            self.thinking_kind = kind
        if body is not None:
            self.thinking.append(body)


class _Reader:
    """Reads the lines of one file into one session."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.calls: dict[str, DraftCall] = {}
        self.response: _Draft | None = None  # of the stream, while it may go on
        self.loose: list[Usage] = []
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.header = _Line()
        self.name: str | None = None
        self.cwd: str | None = None
        self.model: str | None = None
        self.is_stream = False
        self.is_terminal = False
        self.body_at = 0  # where in the record the last body stands: the next one stands behind it

    def read(self, line: _Line, record: Record) -> None:
        self.body_at = 0
        at = parse_time(line.timestamp, self.losses, record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        if line.session_id and self.name is None:
            self.name, self.is_stream = line.session_id, True
        kind = line.type or ""
        handler = _STREAM.get(kind) or _HANDLERS.get(kind) if self.is_stream else _HANDLERS.get(kind)
        if handler is not None:
            handler(self, line, at, record)
        elif kind not in _IGNORED:
            self.losses.add("unknown_type" if kind else "no_type", record.offset)

    def body(self, raw: msgspec.Raw, record: Record) -> Body | None:
        body = raw_body(raw, record, self.source, self.body_at)
        if body is not None and body.offset is not None and record.offset is not None:
            self.body_at = body.offset - record.offset + body.bytes
        return body

    def settings(self, record: Record) -> None:
        """The file beside the session's: the sum of its tokens, and the model that it had at last."""
        for settings in _SETTINGS.decode(record, self.losses):
            self.model = settings.model or self.model
            self.spend(settings.tokenUsage, "total")

    # a session's own file

    def session_start(self, line: _Line, at: datetime | None, record: Record) -> None:
        if self.name is None:
            self.header, self.name, self.cwd = line, line.id, line.cwd

    def message(self, line: _Line, at: datetime | None, record: Record) -> None:
        message = line.message
        if not isinstance(message, _Message):
            self.losses.add("no_message", record.offset)
            return
        content = message.content
        blocks = [_Block("text", content)] if isinstance(content, str) else content or []
        self.is_terminal = False
        if message.role == "assistant":
            draft = _Draft("assistant", "agent", at, model=message.modelId)
            texts = []
            for block in blocks:
                if block.type == "text":
                    texts.append(block.text or "")
                elif block.type == "tool_use":
                    self.call(draft, block.name or "", block.id, block.input, record)
                elif block.type in ("thinking", "redacted_thinking"):
                    self.think(block, draft, record)
                else:
                    self.other_block(block, record)
            draft.text = "\n".join(filter(None, texts))
            self.drafts.append(draft)
        elif message.role in ("user", "tool"):
            self.user(line, message, blocks, at, record)
        elif message.role == "system":
            self.drafts.append(_Draft("system", "harness", at, _text(blocks)))
        else:
            self.losses.add("unknown_role" if message.role else "no_role", record.offset)
        if line.id and line.id == self.header.forkedAtMessageId:  # all until here is the parent's
            self.drafts.clear()
            self.events.clear()
            self.started = self.ended = None

    def think(self, block: _Block, draft: _Draft, record: Record) -> None:
        kind: ThinkingKind = "signature"
        size = len(block.signature or "")
        if block.type == "redacted_thinking" and is_given(block.data):
            size = max(0, len(bytes(block.data)) - 2)
        if not size and is_given(block.thinking):
            try:
                size, kind = utf8_length(msgspec.json.decode(block.thinking, type=str)), "text"
            except BAD_CONTENT:
                self.losses.add("wrong_type", record.offset)
        draft.thought(size, kind, self.body(block.thinking, record) if size else None)

    def user(self, line: _Line, message: _Message, blocks: list[_Block], at: datetime | None, record: Record) -> None:
        texts = []
        has_image = has_result = False
        for block in blocks:
            if block.type == "tool_result":
                has_result = True
                self.result(block.tool_use_id, block.content, block.is_error, record)
            elif block.type == "text":
                texts.append(block.text or "")
            elif block.type in ("image", "document"):
                has_image = True
            else:
                self.other_block(block, record)
        text = "\n".join(filter(None, texts))
        visibility = message.visibility or line.visibility
        if visibility == "user_only" and text.startswith(_REFUSED_BY_SERVICE):
            self.event("api_error", at, text[:200])
            self.drafts.append(_Draft("assistant", "harness", at, text, notice="api_error"))
        elif text.strip() and (visibility in ("user_only", "llm_only") or message.hookEventName):
            self.drafts.append(_Draft("context", "harness", at, text))
        elif text.strip() or has_image:
            self.prompt(texts, has_image, message.userMessageSource, at)
        elif not has_result and not message.hookEventName:
            self.losses.add("empty_message", record.offset)

    def prompt(self, texts: list[str], has_image: bool, written_by: str | None, at: datetime | None) -> None:
        text = "\n".join(filter(None, texts))
        kept = "\n".join(filter(str.strip, map(without_wrappers, texts)))
        if is_harness_text(text) or (not kept.strip() and not has_image):
            self.drafts.append(_Draft("context", "harness", at, text))
            return
        author: Author = "human" if written_by in (None, "user") else "harness"
        if self.header.callingSessionId:
            author = "agent"
        self.drafts.append(_Draft("user", author, at, kept, has_image))

    def other_block(self, block: _Block, record: Record) -> None:
        if block.type not in ("image", "document"):
            self.losses.add("unknown_block" if block.type else "no_type", record.offset)

    def compaction(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.event("compaction", at, "")
        self.drafts.append(_Draft("context", "harness", at, line.summaryText or "", notice="compaction_summary"))

    def outcome(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.reason == "cancelled":
            self.event("interrupt", at, "")
            self.drafts.append(_Draft("context", "harness", at, notice="interrupt"))

    # calls

    def call(self, draft: _Draft, name: str, call_id: str | None, raw: msgspec.Raw, record: Record) -> None:
        if not name:
            self.losses.add("call_without_name", record.offset)
        call = DraftCall(name, _CATEGORIES.get(name.lower()) or category_of(name), call_id, draft.at)
        if is_given(raw):
            call.input = self.body(raw, record)
            try:
                arguments = msgspec.json.decode(raw)
            except BAD_CONTENT:
                self.losses.add("malformed_input", record.offset)
            else:
                _describe(call, arguments)
        draft.calls.append(call)
        if call_id:
            known = self.calls.get(call_id)
            if known is not None and (known.name, known.hash) == (call.name, call.hash):
                call.first = known
            else:
                self.calls[call_id] = call

    def result(self, call_id: str | None, content: msgspec.Raw, is_error: bool | None, record: Record) -> None:
        call = self.calls.get(call_id or "")
        if call is None:
            self.losses.add("orphan_result", record.offset)
        elif call.verdict is None:  # of two results, the first stands
            call.verdict = self.judge(call, content, is_error, record)
            call.result = self.body(content, record)
        if self.response is not None:
            self.response.is_answered = True

    def judge(self, call: DraftCall, content: msgspec.Raw, is_error: bool | None, record: Record) -> Judgement:
        data = bytes(content)
        is_shell = call.category == "shell"
        text = json_head(data, len(data)) if is_shell or is_error is not False else ""
        if data[:1] == b"{" and (is_shell or is_error):
            for found in _VALUES.decode(Record(data, record.offset), self.losses):
                if is_shell and found.exitCode is not None:
                    return by_exit_code(call.command, found.exitCode, json_head(bytes(found.stdout), 4096), "exitCode")
                text = found.message or text
        if is_shell:
            failed, ending = _FAILED_COMMAND.match(text), _ENDING.search(text[-_ENDING_CHARS:])
            if failed is not None:
                return by_exit_code(call.command, int(failed[1]), text[failed.end() :], "Command failed, exit code")
            if ending is not None:
                output = text[: text.rindex(ending[0])]
                return by_exit_code(call.command, int(ending[1]), output, "Process exited with code")
        if is_error is False:
            return Judgement(CallStatus.OK, "error flag false")
        for form, status in _FORMS:
            if form.match(text):
                return Judgement(status, f"text: {text[:80].splitlines()[0]}")
        if is_error:
            return Judgement(CallStatus.FAILED, "error flag true")
        if text.startswith("Error: "):
            return Judgement(CallStatus.UNKNOWN, "no error flag, and the text begins with Error:")
        return Judgement(CallStatus.OK, "no error flag")

    # the stream

    def init(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.cwd = self.cwd or line.cwd
        self.model = line.model or self.model

    def text(self, line: _Line, at: datetime | None, record: Record) -> None:
        text = line.text or ""
        if line.role == "user":
            self.response = None
            self.is_terminal = False
            # `droid exec` runs one task: nobody sits at it.
            self.drafts.append(_Draft("user", "harness", at, text))
        elif line.role == "assistant":
            self.part(line.id, at).more.append(text)
        else:
            self.losses.add("unknown_role" if line.role else "no_role", record.offset)

    def part(self, response_id: str | None, at: datetime | None) -> _Draft:
        """The response that a line of the stream belongs to."""
        draft = self.response
        if draft is not None:
            is_same = response_id is not None and draft.id == response_id
            is_other = draft.is_answered or (None not in (response_id, draft.id) and draft.id != response_id)
            if is_same or not is_other:
                draft.id = draft.id or response_id
                return draft
        self.response = _Draft("assistant", "agent", at, model=self.model, id=response_id)
        self.drafts.append(self.response)
        self.is_terminal = False
        return self.response

    def reasoning(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.part(line.messageId, at).thought(utf8_length(line.text or ""), "text", None)

    def tool_call(self, line: _Line, at: datetime | None, record: Record) -> None:
        draft = self.part(line.messageId, at)
        self.call(draft, line.toolName or line.toolId or "", line.toolCallId or line.id, line.parameters, record)

    def tool_result(self, line: _Line, at: datetime | None, record: Record) -> None:
        content = line.value if is_given(line.value) else line.error
        self.result(line.toolCallId or line.id, content, line.isError, record)

    def completion(self, line: _Line, at: datetime | None, record: Record) -> None:
        text = line.finalText or ""
        last = self.drafts[-1].whole() if self.drafts and self.drafts[-1].role == "assistant" else ""
        if line.isError:
            self.event("api_error", at, text[:200])
            self.drafts.append(_Draft("assistant", "harness", at, text, notice="api_error"))
        elif text.strip() and text.strip() not in last:
            self.response = None
            self.part(line.id, at).more.append(text)
        self.spend(line.usage, f"{line.timestamp or len(self.loose)}")
        self.is_terminal = True

    def failed(self, line: _Line, at: datetime | None, record: Record) -> None:
        text = line.message if isinstance(line.message, str) else json_head(bytes(line.error), 2000)
        self.event("api_error", at, text[:200])
        self.drafts.append(_Draft("assistant", "harness", at, text, notice="api_error"))

    # the whole

    def spend(self, counts: _Tokens | None, which: str) -> None:
        if counts is None:
            return
        output = token_count(counts.outputTokens or counts.output_tokens)
        thought = counts.thinkingTokens if counts.thinkingTokens is not None else counts.thinking_tokens
        found = Usage(
            input_tokens=token_count(counts.inputTokens or counts.input_tokens),
            cache_read_tokens=token_count(counts.cacheReadTokens or counts.cache_read_input_tokens),
            cache_write_5m_tokens=token_count(counts.cacheCreationTokens or counts.cache_creation_input_tokens),
            output_tokens=output,
            # Whether it is a part of the output is told nowhere; what is more than the output is none.
            reasoning_tokens=thought if thought is not None and 0 <= thought <= output else None,
            is_sum=True,
            key=f"{self.name or self.source.name}:{which}",
        )
        if not found.is_empty:
            self.loose.append(found)

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def session(self) -> Session:
        header = self.header
        relation: Relation | None = None
        if header.callingSessionId:
            relation = "subagent"
        elif header.parent:
            relation = "fork" if header.forkedAtMessageId else "continuation"
        is_named = any(draft.model for draft in self.drafts)
        return Session(
            agent="droid",
            source_id=self.name or self.source.name,
            messages=tuple(draft.frozen(ordinal, self.source) for ordinal, draft in enumerate(self.drafts)),
            parent_source_id=header.callingSessionId or header.parent,
            relation=relation,
            # `title` is the first prompt; a name that somebody or a model gave is the other.
            title=header.sessionTitle if header.sessionTitle != "New Session" else None,
            cwd=self.cwd,
            agent_version=header.version if isinstance(header.version, str) else None,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.is_terminal,
            events=tuple(self.events),
            loose_usage=tuple(self.loose),
            # The settings have the last one: no message may be said to be its own.
            models=(self.model,) if self.model and not is_named else (),
            losses=self.losses.result(),
        )


_Handler = Callable[[_Reader, _Line, datetime | None, Record], None]
_HANDLERS: dict[str, _Handler] = {
    "session_start": _Reader.session_start,
    "message": _Reader.message,
    "compaction_state": _Reader.compaction,
    "agent_turn_outcome": _Reader.outcome,
}
_STREAM: dict[str, _Handler] = {
    "system": _Reader.init,
    "message": _Reader.text,
    "reasoning": _Reader.reasoning,
    "tool_call": _Reader.tool_call,
    "tool_result": _Reader.tool_result,
    "completion": _Reader.completion,
    "error": _Reader.failed,
}


def _text(blocks: list[_Block]) -> str:
    return "\n".join(block.text for block in blocks if block.text)


def _describe(call: DraftCall, arguments: Any) -> None:
    """Note what a call's decoded arguments say: what makes it the same call, its files, its command."""
    compared = arguments
    if isinstance(arguments, dict) and not _LABELS.isdisjoint(arguments):
        compared = {name: value for name, value in arguments.items() if name not in _LABELS}
    call.hash = input_hash(compared)
    call.is_poll = is_poll(call.name, arguments)
    call.paths = paths_in(arguments)
    if isinstance(arguments, dict):
        command = arguments.get("command")
        call.command = command if isinstance(command, str) else None
        for value in arguments.values() if not call.paths else ():
            if isinstance(value, str) and "*** Begin Patch" in value:
                call.paths += patch_paths(value)


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a Droid file or stream."""
    reader = _Reader(source)
    is_empty = True
    for record in records:
        is_empty = False
        if record.part:
            reader.settings(record)
            continue
        for line in _LINES.decode(record, reader.losses):
            reader.read(line, record)
    return [] if is_empty else [reader.session()]


def sniff(sample: Sample) -> bool:
    return any(_is_header(value) or _is_stream(value) for value in sample.values)


def _is_header(value: object) -> bool:
    is_start = isinstance(value, dict) and value.get("type") == "session_start" and isinstance(value.get("id"), str)
    return is_start and isinstance(value, dict) and not {"title", "sessionTitle", "owner"}.isdisjoint(value)


def _is_stream(value: object) -> bool:
    """Whether a line is one that only Droid's stream has. Claude Code's, Gemini's and Cursor's lack these keys."""
    if not isinstance(value, dict) or "session_id" not in value:
        return False
    kind = value.get("type")
    if kind == "message":
        return isinstance(value.get("text"), str) and "content" not in value and "message" not in value
    if kind in ("tool_call", "tool_result"):
        return not {"toolName", "toolId", "toolCallId"}.isdisjoint(value)
    return (kind == "completion" and "finalText" in value) or (kind == "system" and "reasoning_effort" in value)


PARSER = Parser(
    agent="droid",
    title="Factory Droid",
    homes=(Home(".factory/sessions", "**/*.jsonl"),),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(statuses="partly", exit_codes="partly", declined="partly", usage="partly", models="partly"),
    bundle=Bundle("*.jsonl", ("{stem}.settings.json",)),
)
