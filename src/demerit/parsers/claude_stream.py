"""Claude Code's streams: what `claude -p --output-format stream-json` prints, kept in a file.

The same agent as in `claude`, by the same session ids, in other lines. What is easy to get wrong:
- Several runs may stand in one file, and a run resumed goes on under the id of the first.
- A response is printed a block a line, before it is whole: its output tokens are those that stood at its start.
  What the last line tells for the whole process is right, and has the sub-agents' and helpers' requests as well.
- Sub-agents print into the same stream; their lines name the call that began them.
- The prompts came from a program. Mostly they are not printed at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, lt, sub
from typing import Any

import msgspec

from demerit.model import Author, Body, CallStatus, Event, Message, Notice, Role, Session, ToolCall, Usage
from demerit.parsers.claude import (
    MOST_BYTES_PER_TOKEN,
    NO_DETAIL,
    ApiMessage,
    ApiUsage,
    Block,
    CacheCreation,
    Origin,
    Result,
    by_result,
)
from demerit.parsers.evidence import (
    INTERRUPT,
    PENDING,
    SUMMARIES,
    Judgement,
    category_of,
    is_harness_text,
    is_poll,
    paths_in,
    starts_with_any,
    without_wrappers,
)
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Coverage,
    LineDecoder,
    Losses,
    Parser,
    Record,
    Sample,
    Source,
    input_hash,
    is_given,
    json_head,
    kept_text,
    parse_time,
    raw_body,
    token_count,
    utf8_length,
)

# --- the format -------------------------------------------------------------------------------------------


class _ModelUsage(msgspec.Struct, rename="camel"):
    """Of one model, since the process began."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Denial(msgspec.Struct):
    tool_use_id: str | None = None


class _CompactMetadata(msgspec.Struct):
    trigger: str | None = None
    pre_tokens: int | None = None


class _Delta(msgspec.Struct):
    stop_reason: str | None = None


class _Partial(msgspec.Struct):
    """An event of the API, of `--include-partial-messages`."""

    type: str | None = None
    message: ApiMessage | None = None
    delta: _Delta | None = None
    usage: ApiUsage | None = None


class _Line(msgspec.Struct):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    request_id: str | None = None
    timestamp: str | int | float | None = None
    message: ApiMessage | None = None
    error: msgspec.Raw = NOTHING
    tool_use_result: Result | str | list[msgspec.Raw] | None = None
    origin: Origin | None = None
    is_synthetic: bool | None = msgspec.field(name="isSynthetic", default=None)
    # of `system`
    cwd: str | None = None
    claude_code_version: str | None = None
    compact_metadata: _CompactMetadata | None = None
    tool_use_id: str | None = None
    status: msgspec.Raw = NOTHING
    # of `result`
    is_error: bool | None = None
    result: msgspec.Raw = NOTHING
    errors: list[str] | None = None
    model_usage: dict[str, _ModelUsage] | None = msgspec.field(name="modelUsage", default=None)
    permission_denials: list[_Denial] | None = None
    # of `stream_event`
    event: _Partial | None = None


_LINES = LineDecoder(_Line)

# Lines that carry nothing a report needs. A type that is neither here nor in `_HANDLERS` is new to us.
_IGNORED = frozenset(
    "rate_limit_event auth_status tool_use_summary prompt_suggestion conversation_reset keep_alive control_request "
    "control_response control_cancel_request streamlined_text streamlined_tool_use_summary active_goal".split()
)

# --- reading ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Call:
    """A call while its result is still to come."""

    name: str
    call_id: str | None
    at: datetime | None
    first: _Call | None = None
    """The first call with this id, which has the result of all its copies."""
    input: Body | None = None
    hash: str | None = None
    is_poll: bool = False
    paths: tuple[str, ...] = ()
    command: str | None = None
    verdict: Judgement | None = None
    result: Body | None = None

    def frozen(self, ordinal: int, index: int, denied: set[str]) -> ToolCall:
        told = self.first or self
        status, why, code = told.verdict or PENDING
        if self.call_id in denied and status in (CallStatus.FAILED, CallStatus.PENDING, CallStatus.CANCELLED):
            status, why, code = CallStatus.DECLINED, "listed among the permission denials", None
        return ToolCall(
            ordinal, index, self.name, category_of(self.name), status, why, self.call_id, self.input, self.hash,
            self.paths, code, told.result, self.at, self.is_poll,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class _Draft:
    """A message while more of its lines may follow."""

    role: Role
    author: Author
    at: datetime | None
    sidechain: bool
    texts: list[str] = field(default_factory=list)
    has_image: bool = False
    calls: list[_Call] = field(default_factory=list)
    thinking: list[Body] = field(default_factory=list)
    signature_bytes: int = 0
    thinking_text_bytes: int = 0
    input_bytes: int = 0  # of its calls
    model: str | None = None
    usage: ApiUsage | None = None
    usage_key: str | None = None
    output_tokens: int = 0
    stop: str | None = None
    notice: Notice | None = None


_NO_TOKENS: tuple[int, ...] = (0, 0, 0, 0)


class _Reader:
    """Reads the lines of one session's runs."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.seen: set[str] = set()
        self.responses: dict[tuple[str | None, str], _Draft] = {}
        self.streaming: dict[str | None, str] = {}  # by sub-agent, the response whose events come in
        self.calls: dict[str, _Call] = {}
        self.ran: set[str] = set()  # calls that told of their progress: they were running when they ended
        self.denied: set[str] = set()
        self.before = _NO_TOKENS  # of processes that ended
        self.process = _NO_TOKENS
        self.told = _NO_TOKENS  # by the messages that these are the sums of
        self.counted = 0  # how many messages that are
        self.name: str | None = None
        self.cwd: str | None = None
        self.version: str | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.is_terminal = False

    def read(self, line: _Line, record: Record) -> None:
        at = parse_time(line.timestamp, self.losses, record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        handler = _HANDLERS.get(line.type or "")
        if handler is None:
            if line.type not in _IGNORED:
                self.losses.add("unknown_type" if line.type else "no_type", record.offset)
            return
        if line.uuid is not None:
            if line.uuid in self.seen:  # a resumed run may print again what there was
                return
            self.seen.add(line.uuid)
        handler(self, line, at, record)

    # a response

    def assistant(self, line: _Line, at: datetime | None, record: Record) -> None:
        message = line.message
        if message is None:
            self.losses.add("no_message", record.offset)
            return
        self.is_terminal = False
        lane = line.parent_tool_use_id
        draft = self.responses.get((lane, message.id)) if message.id else None
        if draft is None:
            synthetic = message.model == "<synthetic>" or is_given(line.error)
            draft = _Draft("assistant", "harness" if synthetic else "agent", at, lane is not None)
            draft.model = None if synthetic else message.model
            if message.id:
                self.responses[lane, message.id] = draft
                draft.usage_key = f"{message.id}:{line.request_id or ''}"
            self.drafts.append(draft)
            if is_given(line.error):
                draft.notice = "api_error"
                self.event("api_error", at, json_head(bytes(line.error), 200))
        self.spent(draft, message.usage)
        draft.stop = message.stop_reason or draft.stop
        if isinstance(message.content, str):
            draft.texts.append(message.content)
        for block in message.content if isinstance(message.content, list) else ():
            self.response_block(block, draft, record)

    def spent(self, draft: _Draft, usage: ApiUsage | None) -> None:
        # Of the counts of one request, the last and largest is nearest to the whole.
        if usage is not None and (draft.usage is None or (usage.output_tokens or 0) >= draft.output_tokens):
            draft.output_tokens = usage.output_tokens or 0
            draft.usage = usage

    def response_block(self, block: Block, draft: _Draft, record: Record) -> None:
        kind = block.type
        if kind == "text":
            if block.text:
                draft.texts.append(block.text)
        elif kind == "tool_use" or kind == "server_tool_use":
            self.call(block, draft, record)
        elif kind == "thinking":
            draft.signature_bytes += len(block.signature or "")
            try:
                text = msgspec.json.decode(block.thinking, type=str) if is_given(block.thinking) else ""
            except BAD_CONTENT:
                self.losses.add("wrong_type", record.offset)
                return
            draft.thinking_text_bytes += utf8_length(text)
            body = raw_body(block.thinking, record, self.source) if text else None
            if body is not None:
                draft.thinking.append(body)
        elif kind == "redacted_thinking":
            draft.signature_bytes += len(block.data or "")
        elif kind is None:
            self.losses.add("no_type", record.offset)

    def call(self, block: Block, draft: _Draft, record: Record) -> None:
        call = _Call(block.name or "", block.id, draft.at)
        if not block.name:
            self.losses.add("call_without_name", record.offset)
        if is_given(block.input):
            draft.input_bytes += len(bytes(block.input))
            call.input = raw_body(block.input, record, self.source)
            try:
                _describe(call, msgspec.json.decode(block.input))
            except BAD_CONTENT:
                self.losses.add("malformed_input", record.offset)
        if block.type == "server_tool_use":  # its result is a part of the same response
            call.verdict = Judgement(CallStatus.OK, "answered by the API in the same response")
        draft.calls.append(call)
        if block.id:
            first = self.calls.setdefault(block.id, call)
            call.first = first if first is not call else None

    def partial(self, line: _Line, at: datetime | None, record: Record) -> None:
        """An event of the API: the last ones of a response tell its tokens and why it ended."""
        event = line.event
        lane = line.parent_tool_use_id
        if event is None:
            self.losses.add("no_event", record.offset)
        elif event.type == "message_start" and event.message is not None and event.message.id:
            self.streaming[lane] = event.message.id
        elif event.type == "message_delta":
            draft = self.responses.get((lane, self.streaming.get(lane, "")))
            if draft is not None:
                draft.stop = (event.delta.stop_reason if event.delta else None) or draft.stop
                draft.output_tokens = max(draft.output_tokens, event.usage.output_tokens or 0 if event.usage else 0)

    # what comes in `user` lines

    def user(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.message is None:
            self.losses.add("no_message", record.offset)
            return
        content = line.message.content
        blocks = [Block("text", content)] if isinstance(content, str) else content or []
        results = [block for block in blocks if block.type == "tool_result"]
        for block in results:
            call = self.calls.get(block.tool_use_id or "")
            if call is None:
                self.losses.add("orphan_result", record.offset)
            elif call.verdict is None:  # of two results, the first stands
                detail = line.tool_use_result if len(results) == 1 else None
                detail = detail if isinstance(detail, Result) else NO_DETAIL
                call.verdict = by_result(call.name, call.command, call.call_id in self.ran, block, detail)
                call.result = raw_body(block.content, record, self.source)
        text = "\n".join(block.text for block in blocks if block.type == "text" and block.text)
        has_image = not results and any(block.type in ("image", "document") for block in blocks)
        if text.strip() or has_image:
            self.prompt(line, text, has_image, at)
        elif not results:
            self.losses.add("empty_message", record.offset)

    def prompt(self, line: _Line, text: str, has_image: bool, at: datetime | None) -> None:
        lane = line.parent_tool_use_id
        kind = line.origin.kind if line.origin else None
        kept = without_wrappers(text)
        draft = _Draft("context", "harness", at, lane is not None, [text])
        self.drafts.append(draft)
        if starts_with_any(text, SUMMARIES):
            draft.notice = "compaction_summary"
        elif starts_with_any(text, (INTERRUPT,)):
            draft.notice = "interrupt"
            self.event("interrupt", at, "")
        elif not (
            line.is_synthetic or (kind and kind != "human") or is_harness_text(text) or not (kept.strip() or has_image)
        ):
            self.is_terminal = False
            draft.role = "user"
            draft.author = "agent" if lane is not None else "human" if kind == "human" else "harness"
            draft.texts = [kept]
            draft.has_image = has_image

    # the rest

    def system(self, line: _Line, at: datetime | None, record: Record) -> None:
        kind = line.subtype
        if kind == "init":
            self.cwd = self.cwd or line.cwd
            self.version = line.claude_code_version or self.version
        elif kind == "compact_boundary":
            meta = line.compact_metadata or _CompactMetadata()
            tokens = f", {meta.pre_tokens} tokens" if meta.pre_tokens else ""
            self.event("compaction", at, f"{meta.trigger or 'unknown trigger'}{tokens}")
        elif kind == "api_retry":
            self.event("api_error", at, "retried")
        elif kind == "permission_denied":
            self.denied.add(line.tool_use_id or "")
        elif kind == "task_notification" and json_head(bytes(line.status), 20) in ("failed", "stopped"):
            call = self.calls.get(line.tool_use_id or "")
            if call is not None and category_of(call.name) == "agent":  # commands in the background tell so as well
                self.event("subagent", at, "failed")

    def progress(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.ran.add(line.tool_use_id or "")

    def result(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.denied.update(denial.tool_use_id or "" for denial in line.permission_denials or ())
        if line.model_usage is not None:
            self.total(line.model_usage.values())
        # A run that reached a limit its caller had set did not break.
        is_limit = (line.subtype or "").startswith("error_max")
        if line.is_error and not is_limit and not (self.drafts and self.drafts[-1].notice):
            text = json_head(bytes(line.result), 2048) or "\n".join(line.errors or ())
            self.drafts.append(_Draft("assistant", "harness", at, False, [text], notice="api_error"))
            self.event("api_error", at, text[:200] or (line.subtype or ""))
        self.is_terminal = True

    def total(self, models: Iterable[_ModelUsage]) -> None:
        """Note the tokens of a process so far, by its last line."""
        total = _NO_TOKENS
        for model in models:
            total = tuple(map(add, total, map(token_count, msgspec.structs.astuple(model))))
        fresh = _NO_TOKENS
        for draft in self.drafts[self.counted :]:
            usage = _usage(draft) or Usage()
            written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
            counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, written)
            fresh = tuple(map(add, fresh, counts))
        # A process may do several runs, and its sum goes on. Less than that: it is another process.
        if any(map(lt, total, map(add, self.process, fresh))):
            self.before = tuple(map(add, self.before, self.process))
        self.process = total
        self.told = tuple(map(add, self.told, fresh))
        self.counted = len(self.drafts)

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    # the whole

    def session(self) -> Session:
        name = self.name or self.source.name
        # More in the messages than in the sums: a run was cut before it told them, and the output is not whole.
        rest = tuple(map(sub, map(add, self.before, self.process), self.told))
        whole = self.counted if min(rest) >= 0 else 0
        fresh, output, read, written = (max(0, count) for count in rest)
        loose = Usage(fresh, read, written, output_tokens=output, key=f"{name}:rest", is_sum=True)
        return Session(
            agent="claude-code",
            source_id=name,
            messages=tuple(
                self.finished(ordinal, draft, is_whole=ordinal < whole) for ordinal, draft in enumerate(self.drafts)
            ),
            cwd=self.cwd,
            agent_version=self.version,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.is_terminal,
            events=tuple(self.events),
            loose_usage=() if loose.is_empty else (loose,),
            losses=self.losses.result(),
        )

    def finished(self, ordinal: int, draft: _Draft, is_whole: bool) -> Message:
        kept = kept_text("\n".join(draft.texts), self.source, whole=draft.role == "user")
        usage = _usage(draft)
        if usage is not None and not is_whole and draft.stop is None:
            seen = kept.bytes + draft.input_bytes + draft.thinking_text_bytes
            is_partial = seen > usage.output_tokens * MOST_BYTES_PER_TOKEN
            usage = msgspec.structs.replace(usage, output_is_partial=is_partial)
        return Message(
            ordinal=ordinal,
            role=draft.role,
            author=draft.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=draft.has_image,
            calls=tuple(call.frozen(ordinal, index, self.denied) for index, call in enumerate(draft.calls)),
            thinking=tuple(draft.thinking),
            thinking_bytes=draft.signature_bytes or draft.thinking_text_bytes,
            thinking_kind="signature" if draft.signature_bytes else "text" if draft.thinking_text_bytes else None,
            model=draft.model,
            at=draft.at,
            usage=usage,
            stop_reason=draft.stop,
            sidechain=draft.sidechain,
            notice=draft.notice,
        )


_HANDLERS: dict[str, Callable[[_Reader, _Line, datetime | None, Record], None]] = {
    "assistant": _Reader.assistant,
    "user": _Reader.user,
    "system": _Reader.system,
    "result": _Reader.result,
    "stream_event": _Reader.partial,
    "tool_progress": _Reader.progress,
}

# Bytes of an answer for each token of it: far above what any text or language has.


def _usage(draft: _Draft) -> Usage | None:
    """The tokens of one request; None for the zeros of a line that no model wrote."""
    usage = draft.usage or ApiUsage()
    created = usage.cache_creation or CacheCreation()
    hour = token_count(created.ephemeral_1h_input_tokens)
    written = token_count(usage.cache_creation_input_tokens)
    found = Usage(
        input_tokens=token_count(usage.input_tokens),
        cache_read_tokens=token_count(usage.cache_read_input_tokens),
        cache_write_5m_tokens=max(token_count(created.ephemeral_5m_input_tokens), written - hour, 0),
        cache_write_1h_tokens=hour,
        output_tokens=token_count(draft.output_tokens),
        key=draft.usage_key,
    )
    return None if found.is_empty else found


def _describe(call: _Call, arguments: Any) -> None:
    """Note what a call's decoded arguments say: what makes it the same call, its files, its command."""
    compared = arguments
    if isinstance(arguments, dict):
        command = arguments.get("command")
        call.command = command if isinstance(command, str) else None
        if call.name == "Bash":
            # What the command is called for the reader changes from one run of it to the next.
            compared = {name: value for name, value in arguments.items() if name != "description"}
    call.hash = input_hash(compared)
    call.is_poll = is_poll(call.name, arguments)
    call.paths = paths_in(arguments)


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The sessions of a stream, in the order in which they begin. Runs of one session are one."""
    current = _Reader(source)
    readers = [current]
    by_name: dict[str, _Reader] = {}
    record = None
    for record in records:
        for line in _LINES.decode(record, current.losses):
            name = line.session_id
            if name is not None and name != current.name:
                if name in by_name:
                    current = by_name[name]
                else:
                    if current.name is not None:
                        current = _Reader(source)
                        readers.append(current)
                    current.name = name
                    by_name[name] = current
            current.read(line, record)
    return [reader.session() for reader in readers] if record is not None else []


def sniff(sample: Sample) -> bool:
    return any(map(_is_native, sample.values))


def _is_native(value: Any) -> bool:
    """Whether a line can only be this stream's. Other programs print lines of the same shape, less these marks."""
    if not isinstance(value, dict) or "session_id" not in value:
        return False
    kind = value.get("type")
    if kind == "system":
        return value.get("subtype") == "init" and (
            "claude_code_version" in value or {"tools", "mcp_servers", "apiKeySource"} <= value.keys()
        )
    if kind == "assistant":
        message = value.get("message")
        number = message.get("id") if isinstance(message, dict) else None
        return "parent_tool_use_id" in value and isinstance(number, str) and number.startswith("msg_")
    return kind == "result" and {"subtype", "num_turns", "total_cost_usd"} <= value.keys()


PARSER = Parser(
    agent="claude-code",
    title="Claude Code (stream-json)",
    homes=(),  # a stream is kept where somebody puts it
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(times="partly"),
)
