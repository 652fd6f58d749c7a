"""Claude Code: one JSONL file a session under `~/.claude/projects`, and the web export of the same lines.

What is easy to get wrong, and is decided here:
- One response is logged in several lines, one a content block, each with the same message id and a growing
  usage; results of the first calls may stand between them. They are one message, and the largest usage counts.
- A good result mostly has no error flag. A set flag may mean that the tool failed, that the call was broken,
  that the user said no, or that the call never ran: fixed texts of the program tell these apart.
- Most lines of type `user` were typed by nobody: results, command output, reminders, notices, summaries.
- A queued prompt is logged when it is queued, when it leaves the queue, and mostly once more as a prompt.
- A log is read on from a state: what was read, but for the messages that nothing is expected to change. A line
  that does change one of those is seen by its ids (of calls, responses and lines), and asks for a whole read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any

import msgspec

from demerit.model import (
    Author,
    Body,
    CallStatus,
    Event,
    Message,
    Notice,
    Relation,
    Role,
    Session,
    ToolCall,
    Usage,
)
from demerit.parsers.evidence import (
    BROKEN_CALL,
    INTERRUPT,
    PENDING,
    SUMMARIES,
    Judgement,
    by_claude_error,
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
    Home,
    Known,
    LineDecoder,
    Losses,
    Parser,
    Record,
    Resumed,
    Sample,
    Source,
    Unsure,
    digest,
    input_hash,
    is_given,
    json_head,
    kept_text,
    limits_of,
    parse_time,
    raw_body,
    salvage,
    sealed,
    token_count,
    unsealed,
    utf8_length,
)

# --- the format -------------------------------------------------------------------------------------------


class Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: msgspec.Raw = NOTHING
    signature: str | None = None
    data: str | None = None  # of redacted_thinking; an image's data is deeper, in `source`
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None


class CacheCreation(msgspec.Struct):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ApiUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None


class ApiMessage(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: ApiUsage | None = None


class Result(msgspec.Struct, rename="camel"):
    """What Claude Code itself keeps of a tool's result, beside the text that the model gets."""

    interrupted: bool | None = None
    return_code_interpretation: str | None = None
    status: str | None = None
    total_tokens: int | None = None


class Origin(msgspec.Struct):
    kind: str | None = None


class _Attachment(msgspec.Struct, rename="camel"):
    type: str | None = None
    prompt: str | list[Block] | None = None
    command_mode: str | None = None
    origin: Origin | None = None
    is_meta: bool | None = None


class _Progress(msgspec.Struct):
    type: str | None = None


class _CompactMetadata(msgspec.Struct, rename="camel"):
    trigger: str | None = None
    pre_tokens: int | None = None


class _Line(msgspec.Struct, rename="camel"):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | int | float | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    request_id: str | None = None
    entrypoint: str | None = None
    prompt_source: str | None = None
    origin: Origin | None = None
    is_meta: bool | None = None
    is_sidechain: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    is_api_error_message: bool | None = None
    tool_denial_kind: str | None = None
    message: ApiMessage | None = None
    tool_use_result: Result | str | list[msgspec.Raw] | None = None
    parent_tool_use_id: str | None = msgspec.field(name="parentToolUseID", default=None)
    operation: str | None = None
    content: msgspec.Raw = NOTHING
    attachment: _Attachment | None = None
    data: _Progress | None = None
    compact_metadata: _CompactMetadata | None = None
    custom_title: str | None = None
    ai_title: str | None = None


class _Export(msgspec.Struct):
    loglines: list[msgspec.Raw] = []


_LINES = LineDecoder(_Line)
_EXPORT = msgspec.json.Decoder(_Export)

# Lines that carry nothing a report needs. A type that is in neither this set nor `_Reader.HANDLERS` is new to us.
_IGNORED = frozenset(
    (
        "file-history-snapshot summary permission-mode last-prompt agent-name pr-link mode worktree-state "
        "frame-link started result relocated bridge-session atis-latch agent-setting tag task-summary "
        "speculation-accept attribution-snapshot content-replacement"
    ).split()
)

# --- fixed texts of the program ---------------------------------------------------------------------------

# A background command reports in the same form; only a sub-agent's summary begins like this.
_CHILD_FAILED = re.compile(
    r"<task-notification>(?=.{0,4000}<status>(?:failed|killed)</status>).{0,4000}<summary>\s*(?:Sub-?)?[Aa]gent\b",
    re.DOTALL,
)
_COMMAND = re.compile(r"<command-name>\s*/?([^<\s]*)")
# Commands of the program itself: what follows them is a setting, not a request to the model.
_CONTROL = frozenset(
    (
        "add-dir agents bashes btw bug cd chrome clear color compact config context copy cost debug doctor effort "
        "exit export extra-usage fast feedback fork help hooks ide install-github-app keybindings login logout "
        "mcp memory model mobile output-style passes permissions plan plugin privacy-settings quit release-notes "
        "reload-plugins remote-control rename resume rewind sandbox settings skills stats status statusline "
        "stickers tasks terminal-setup theme todos upgrade usage vim voice"
    ).split()
)


# --- reading ----------------------------------------------------------------------------------------------


# Neither refers back to what holds it, so the garbage collector need not look at them (gc=False).


class _Call(msgspec.Struct, gc=False):
    """A call while its result is still to come."""

    name: str
    call_id: str | None
    at: datetime | None
    original: _Call | None = None
    """The first call with this id, which has the result of all its copies; None when it is this one."""
    body: Body | None = None
    hash: str | None = None
    is_poll: bool = False
    paths: tuple[str, ...] = ()
    command: str | None = None
    verdict: Judgement | None = None
    result: Body | None = None


class _Draft(msgspec.Struct, gc=False):
    """A message while more of its lines may follow."""

    role: Role
    author: Author
    at: datetime | None
    sidechain: bool
    texts: list[str] = []
    has_image: bool = False
    calls: list[_Call] = []
    thinking: list[Body] = []
    signature_bytes: int = 0
    thinking_text_bytes: int = 0
    input_bytes: int = 0  # of its calls
    model: str | None = None
    usage: ApiUsage | None = None
    output_tokens: int = 0
    id: str | None = None
    request_id: str | None = None
    stop: str | None = None
    notice: Notice | None = None


class _Facts(msgspec.Struct):
    """What a reader knows of the whole session: a state holds it as it stands in the reader."""

    started: datetime | None
    ended: datetime | None
    session_id: str | None
    session_ids: dict[str, None]
    agent_id: str | None
    own_lines: int
    sidechain_lines: int
    cwd: str | None
    branch: str | None
    version: str | None
    titles: dict[str, str]
    terminal: bool
    queue: list[tuple[str, datetime | None]]


class _Past(msgspec.Struct):
    """What was told in earlier reads, as far as it is needed to see that a line changes it."""

    source: str
    """Of which source, and read within which limits."""
    end: int = 0
    """Where the last line that was read ends."""
    first: int = 0
    events: int = 0
    uuids: Known = msgspec.field(default_factory=Known)
    answered: Known = msgspec.field(default_factory=Known)
    unanswered: Known = msgspec.field(default_factory=Known)
    responses: list[Known] = msgspec.field(default_factory=lambda: [Known(), Known()])
    """Those that may still go on: the session's own, and those of sub-agents."""
    own_id: str | None = None
    is_subagent: bool = False

    def known(self) -> Iterator[Known]:
        yield from (self.uuids, self.answered, self.unanswered, *self.responses)


class _State(msgspec.Struct):
    past: _Past
    facts: _Facts
    drafts: list[_Draft]
    """Those that may still change, and what came after them."""
    open: list[int]
    """Which of them are responses that may go on."""
    ran: set[str]
    unqueued: dict[str, int]
    attached: dict[str, int]
    losses: dict[str, tuple[int, int | None]]


_STATE_VERSION = "claude-code 1"
# A call without a result, or a response, that so many messages have come after is taken to stay as it is. The
# smaller numbers are for messages so long that the state would be too large.
_WINDOWS = (32, 8, 2, 1)


class _Reader:
    """Reads the lines of one file into one session."""

    def __init__(self, source: Source, past: _Past | None = None) -> None:
        self.source = source
        self.past = past
        """What earlier reads told; None for a read that nothing will go on from."""
        self.base = past.first if past is not None else 0  # ordinal of the first draft
        self.told_lines = past.uuids.so_far() if past is not None else Known()
        self.last = NO_RECORD  # that was read
        self.losses = Losses()
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.seen: set[int] = set()  # hashes of uuids: resumed and forked files repeat lines
        # Responses that may go on, by message id: the session's own, and those of sub-agents.
        self.open: dict[bool, dict[str, _Draft]] = {False: {}, True: {}}
        self.calls: dict[str, _Call] = {}
        self.ran: set[str] = set()  # calls with progress lines: they were running when they ended
        self.queue: list[tuple[str, datetime | None]] = []
        self.unqueued: Counter[str] = Counter()  # queued prompts already taken, by the digest of their text
        self.attached: Counter[str] = Counter()
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.session_id: str | None = None  # of the last line
        self.session_ids: dict[str, None] = {}  # of all lines, in their order
        self.agent_id: str | None = None
        self.own_lines = 0
        self.sidechain_lines = 0
        self.cwd: str | None = None
        self.branch: str | None = None
        self.version: str | None = None
        self.titles: dict[str, str] = {}
        self.terminal = False
        self.body_at = 0  # where in the record the last body stands: the next one stands behind it

    def read_all(self, records: Iterable[Record]) -> None:
        """Read every line. One loop, with what it needs at hand: it runs a hundred thousand times a second."""
        quick, handlers, seen = _LINES.quick, self.HANDLERS, self.seen
        is_told: Callable[[str, datetime | None], object] | None = None
        if self.past is not None:  # of a first read nothing was told yet: its lines are only noted
            is_told = self.line_is_told if self.past.end else self.past.uuids.add
        record = NO_RECORD
        lines: Iterable[_Line]
        for record in records:
            self.body_at = 0
            try:
                lines = (quick(record.data),)
            except BAD_CONTENT:
                lines = _LINES.salvaged(record, self.losses)
            for line in lines:
                at = parse_time(line.timestamp, self.losses, record.offset)
                if at is not None:
                    if self.ended is None or at > self.ended:
                        self.ended = at
                    if self.started is None or at < self.started:
                        self.started = at
                if line.session_id is not None and line.session_id != self.session_id:
                    self.session_id = line.session_id
                    self.session_ids.setdefault(line.session_id)
                handler = handlers.get(line.type or "")
                if handler is None:
                    if line.type not in _IGNORED:
                        self.losses.add("unknown_type" if line.type else "no_type", record.offset)
                    continue
                if line.uuid is not None:
                    identity = hash(line.uuid)  # a third of the memory that the texts would take
                    if identity in seen:
                        continue
                    seen.add(identity)
                    if is_told is not None and is_told(line.uuid, at):
                        continue
                handler(self, line, at, record)
        self.last = record

    def place(self, line: _Line) -> bool:
        """Note where and by what a line was written; whether it belongs to a sub-agent's conversation."""
        if self.cwd is None:
            self.cwd = line.cwd
        self.branch = line.git_branch or self.branch
        self.version = line.version or self.version
        if line.is_sidechain:
            self.agent_id = line.agent_id or self.agent_id
            self.sidechain_lines += 1
            return True
        self.own_lines += 1
        return False

    # a response

    def assistant(self, line: _Line, at: datetime | None, record: Record) -> None:
        message = line.message
        if message is None:
            self.losses.add("no_message", record.offset)
            return
        sidechain = self.place(line)
        draft = self.open[sidechain].get(message.id) if message.id else None
        self.terminal = False
        if draft is None:
            if self.past is not None and message.id and self.past.responses[sidechain].has(message.id):
                raise Unsure
            synthetic = message.model == "<synthetic>" or bool(line.is_api_error_message)
            draft = _Draft("assistant", "harness" if synthetic else "agent", at, sidechain)
            draft.model = None if synthetic else message.model
            self.drafts.append(draft)
            draft.id = message.id
            if message.id:
                self.open[sidechain][message.id] = draft
            if line.is_api_error_message:
                draft.notice = "api_error"
                self.event("api_error", at, _plain_text(message.content)[:200])
        draft.stop = message.stop_reason or draft.stop
        usage = message.usage
        if usage is not None and (draft.usage is None or (usage.output_tokens or 0) >= draft.output_tokens):
            # Each line repeats the usage of the request so far: the last, the largest, is the whole.
            draft.usage = usage
            draft.output_tokens = usage.output_tokens or 0
        if draft.request_id is None:
            draft.request_id = line.request_id
        if isinstance(message.content, str):
            draft.texts.append(message.content)
        elif message.content is not None:
            for block in message.content:
                self.response_block(block, draft, at, record)

    def response_block(self, block: Block, draft: _Draft, at: datetime | None, record: Record) -> None:
        kind = block.type
        if kind == "text":
            # A block that an earlier line of the response had; only the last few can be that.
            if block.text and block.text not in draft.texts[-8:]:
                draft.texts.append(block.text)
        elif kind == "tool_use" or kind == "server_tool_use":
            self.call(block, draft, at, record, answered=kind == "server_tool_use")
        elif kind == "thinking":
            draft.signature_bytes += len(block.signature or "")
            self.thinking(block.thinking, draft, record)
        elif kind == "redacted_thinking":
            draft.signature_bytes += len(block.data or "")
        elif kind is None:
            self.losses.add("no_type", record.offset)

    def thinking(self, raw: msgspec.Raw, draft: _Draft, record: Record) -> None:
        if raw is NOTHING or bytes(raw) == b'""':
            return
        try:
            draft.thinking_text_bytes += utf8_length(msgspec.json.decode(raw, type=str))
        except BAD_CONTENT:
            self.losses.add("wrong_type", record.offset)
            return
        body = self.body(raw, record)
        if body is not None:
            draft.thinking.append(body)

    def body(self, raw: msgspec.Raw, record: Record) -> Body | None:
        body = raw_body(raw, record, self.source, self.body_at)
        if body is not None and body.offset is not None and record.offset is not None:
            self.body_at = body.offset - record.offset + body.bytes
        return body

    def call(self, block: Block, draft: _Draft, at: datetime | None, record: Record, answered: bool) -> None:
        call = _Call(block.name or "", block.id, at)
        if not block.name:
            self.losses.add("call_without_name", record.offset)
        if block.input is not NOTHING:
            draft.input_bytes += memoryview(block.input).nbytes
            call.body = self.body(block.input, record)
            try:
                arguments = msgspec.json.decode(block.input)
            except BAD_CONTENT:
                self.losses.add("malformed_input", record.offset)
            else:
                call.hash = input_hash(_compared(call.name, arguments))
                call.is_poll = is_poll(call.name, arguments)
                call.paths = paths_in(arguments)
                command = arguments.get("command") if isinstance(arguments, dict) else None
                call.command = command if isinstance(command, str) else None
        draft.calls.append(call)
        if answered:  # the API's own tool: its result is a part of the same response
            call.verdict = Judgement(CallStatus.OK, "answered by the API in the same response")
        if block.id:
            past = self.past
            if past is not None and (past.answered.has(block.id) or past.unanswered.has(block.id)):
                raise Unsure  # its result is that of a call that was told
            first = self.calls.setdefault(block.id, call)
            if first is not call:
                call.original = first

    # what comes in `user` lines

    def user(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.message is None:
            self.losses.add("no_message", record.offset)
            return
        content = line.message.content
        sidechain = self.place(line)
        if isinstance(content, list) and len(content) == 1 and content[0].type == "tool_result":
            self.result(content[0], line, record, alone=True)  # nine lines in ten
            return
        texts = [content] if isinstance(content, str) else []
        has_image = False
        blocks = content if isinstance(content, list) else []
        results = sum(block.type == "tool_result" for block in blocks)
        for block in blocks:
            if block.type == "tool_result":
                self.result(block, line, record, alone=results == 1)
            elif block.type == "text" and block.text:
                texts.append(block.text)
            elif block.type == "image" or block.type == "document":
                has_image = True
        text = "\n".join(texts)
        if text.strip() or has_image:
            self.prompt(line, text, has_image and not results, at, sidechain)
        elif not results:
            self.losses.add("empty_message", record.offset)

    def prompt(self, line: _Line, text: str, has_image: bool, at: datetime | None, sidechain: bool) -> None:
        role, author, kept, notice = self.written_by(line, text)
        if role == "user" and line.prompt_source == "queued" and self.unqueued[_key(kept)] > 0:
            self.unqueued[_key(kept)] -= 1
            return
        draft = _Draft(role, author, at, sidechain)
        draft.texts.append(kept)
        draft.has_image = has_image
        draft.notice = notice
        if notice == "interrupt":
            self.event("interrupt", at, "")
        if role == "context" and _CHILD_FAILED.search(text):
            self.event("subagent", at, "failed")
        self.drafts.append(draft)
        if role == "user":
            self.terminal = False
            self.open[sidechain] = {}
            if self.past is not None:
                self.past.responses[sidechain] = Known()

    def written_by(self, line: _Line, text: str) -> tuple[Role, Author, str, Notice | None]:
        """Role, author, the text without its wrappers, and the notice it is, of a text in a `user` line."""
        if line.is_compact_summary or starts_with_any(text, SUMMARIES):
            return "context", "harness", text, "compaction_summary"
        if starts_with_any(text, (INTERRUPT,)):
            return "context", "harness", text, "interrupt"
        kind = line.origin.kind if line.origin else None
        injected = line.is_meta or line.is_visible_in_transcript_only or line.prompt_source == "system"
        if injected or (kind and kind != "human") or is_harness_text(text):
            return "context", "harness", text, None
        kept = without_wrappers(text)
        if not kept and text.strip():
            return "context", "harness", text, None
        command = _COMMAND.search(kept) if kept.startswith(("<command-name>", "<command-message>")) else None
        if command is not None:
            if command[1] in ("exit", "quit"):
                self.terminal = True
            arguments = kept.partition("<command-args>")[2].partition("</command-args>")[0].strip()
            request = arguments if command[1] not in _CONTROL else ""
            if not request:
                return "context", "harness", text, None
            kept = request
        if kept.strip() in ("/exit", "/quit"):  # from the queue
            self.terminal = True
            return "context", "harness", text, None
        if line.is_sidechain:
            return "user", "agent", kept, None
        by_program = line.prompt_source == "sdk" or (
            (line.entrypoint or "").startswith("sdk-") and line.prompt_source not in ("typed", "queued")
        )
        return "user", "harness" if by_program and kind != "human" else "human", kept, None

    def result(self, block: Block, line: _Line, record: Record, alone: bool) -> None:
        if not block.tool_use_id:
            self.losses.add("orphan_result", record.offset)
            return
        if self.past is not None and self.result_is_told(block.tool_use_id, self.past):
            return
        call = self.calls.get(block.tool_use_id)
        if call is None:
            self.losses.add("orphan_result", record.offset)
        elif call.verdict is None:  # of two results, as a replay has them, the first stands
            call.verdict = self.judge(call, block, line, alone)
            call.result = self.body(block.content, record)

    def judge(self, call: _Call, block: Block, line: _Line, alone: bool) -> Judgement:
        detail = line.tool_use_result if alone and isinstance(line.tool_use_result, Result) else NO_DETAIL
        if block.is_error and line.tool_denial_kind and not detail.interrupted:
            return Judgement(CallStatus.DECLINED, f"toolDenialKind {line.tool_denial_kind}"[:60])
        return by_result(call.name, call.command, call.call_id in self.ran, block, detail)

    # the rest

    def system(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.subtype == "compact_boundary":
            meta = line.compact_metadata or _CompactMetadata()
            tokens = f", {meta.pre_tokens} tokens" if meta.pre_tokens else ""
            self.event("compaction", at, f"{meta.trigger or 'unknown trigger'}{tokens}")
        elif line.subtype == "api_error":
            self.event("api_error", at, "retried")
        elif line.subtype == "local_command" and is_given(line.content):
            command = _COMMAND.search(json_head(bytes(line.content), 500))
            if command is not None and command[1] in ("exit", "quit"):
                self.terminal = True

    def progress(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.parent_tool_use_id and line.data is not None and line.data.type != "hook_progress":
            self.ran.add(line.parent_tool_use_id)

    def queue_operation(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.operation == "enqueue":
            self.queue.append((json_head(bytes(line.content), 10**9) if is_given(line.content) else "", at))
        elif line.operation == "popAll":
            self.queue.clear()
        elif self.queue:
            text, _ = self.queue.pop(0)
            if line.operation == "remove" and text.strip():
                # Taken into the running turn; older versions write it down nowhere else.
                if self.attached[_key(text)] > 0:
                    self.attached[_key(text)] -= 1
                else:
                    self.unqueued[_key(text)] += 1
                    self.prompt(line, text, False, at, sidechain=False)

    def attachment(self, line: _Line, at: datetime | None, record: Record) -> None:
        got = line.attachment
        if got is None or got.type != "queued_command":
            return
        text = _plain_text(got.prompt)
        image = isinstance(got.prompt, list) and any(block.type == "image" for block in got.prompt)
        if self.unqueued[_key(text)] > 0:
            self.unqueued[_key(text)] -= 1
            return
        self.attached[_key(text)] += 1
        line.origin = got.origin or line.origin
        line.is_meta = got.is_meta or got.command_mode not in (None, "prompt")
        if text.strip() or image:
            self.prompt(line, text, image, at, self.place(line))

    def title(self, line: _Line, at: datetime | None, record: Record) -> None:
        found = line.custom_title or line.ai_title
        if found:
            self.titles[line.type or ""] = found

    HANDLERS = {  # noqa: RUF012 - a table of methods, never changed
        "assistant": assistant,
        "user": user,
        "system": system,
        "progress": progress,
        "queue-operation": queue_operation,
        "attachment": attachment,
        "custom-title": title,
        "ai-title": title,
    }

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(
            Event(kind, at, self.base + len(self.drafts) - 1 if self.base or self.drafts else None, detail)
        )

    @property
    def is_subagent(self) -> bool:
        # A file with nothing but sidechain lines is a sub-agent's own: to itself it is the main conversation.
        return self.sidechain_lines > 0 and self.own_lines == 0

    def whose(self) -> tuple[str, str | None, Relation | None]:
        """The session's id, its parent's, and what it is to that one."""
        names = list(self.session_ids) or [self.source.name]
        # The file is named after its session; else it is the one that wrote last.
        own = self.source.name if self.source.name in names else names[-1]
        if self.is_subagent:
            return self.agent_id or self.source.name, self.source.parent or own, "subagent"
        # Lines of another session: the one that was resumed into this file.
        parent = next((name for name in reversed(names) if name != own), None)
        return own, parent, "continuation" if parent else None

    def session(self) -> Session:
        own, parent, relation = self.whose()
        return Session(
            agent="claude-code",
            source_id=own,
            messages=tuple(self.finished(self.is_subagent)),
            parent_source_id=parent,
            relation=relation,
            title=self.titles.get("custom-title") or self.titles.get("ai-title"),
            cwd=self.cwd,
            branch=self.branch,
            agent_version=self.version,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.terminal,
            events=tuple(self.events),
            losses=self.losses.result(),
        )

    def finished(self, subagent: bool) -> Iterator[Message]:
        # Each draft goes as its message comes: on a large log, both together would be the peak.
        self.open.clear()
        self.calls.clear()
        self.drafts.reverse()
        for ordinal in range(self.base, self.base + len(self.drafts)):
            draft = self.drafts.pop()
            kept = kept_text("\n".join(draft.texts), self.source, whole=draft.role == "user")
            kind = "signature" if draft.signature_bytes else "text" if draft.thinking_text_bytes else None
            yield Message(
                ordinal=ordinal,
                role=draft.role,
                author=draft.author,
                text=kept.text,
                text_bytes=kept.bytes,
                text_digest=kept.digest,
                has_image=draft.has_image,
                calls=tuple(_finish(call, ordinal, index) for index, call in enumerate(draft.calls)),
                thinking=tuple(draft.thinking),
                thinking_bytes=draft.signature_bytes or draft.thinking_text_bytes,
                thinking_kind=kind,  # type: ignore[arg-type]
                model=draft.model,
                at=draft.at,
                usage=_usage(draft, kept.bytes) if draft.usage is not None else None,
                stop_reason=draft.stop,
                sidechain=draft.sidechain and not subagent,
                notice=draft.notice,
            )

    # reading on

    def line_is_told(self, uuid: str, at: datetime | None) -> bool:
        """Whether an earlier read had this line."""
        assert self.past is not None
        if self.told_lines.has(uuid):
            return True
        if self.told_lines.may_have_forgotten(at):
            raise Unsure
        self.past.uuids.add(uuid, at)
        return False

    def result_is_told(self, call_id: str, past: _Past) -> bool:
        """Whether a result is a second one of a call that was told with its first."""
        if past.unanswered.has(call_id):
            raise Unsure
        if past.answered.has(call_id):
            return True
        if call_id not in self.calls and (past.answered.forgot or past.unanswered.forgot):
            raise Unsure
        return False

    def state(self) -> bytes | None:
        """What to read on from. Tell the session after this: it takes the drafts."""
        past = self.past
        if past is None or self.last.offset is None:
            return None
        past.end = max(past.end, self.last.offset + len(self.last.data))
        past.events += len(self.events)
        past.own_id, past.is_subagent = self.whose()[0], self.is_subagent
        told = 0
        for window in _WINDOWS:
            keep = max(told, self.first_open(window))
            for draft in self.drafts[told:keep]:
                self.let_go(draft, past)
            told = keep
            past.first = self.base + told
            found = self.packed(past, self.drafts[told:])
            if found is not None:
                return found
        return None

    def first_open(self, window: int) -> int:
        """Index of the first draft that may still change; drafts before the last `window` are taken not to."""
        end = len(self.drafts)
        going_on = {side: next(reversed(responses.values()), None) for side, responses in self.open.items()}
        for index in range(max(0, end - window), end):
            draft = self.drafts[index]
            if draft is going_on[draft.sidechain] or any(
                (call.original or call).verdict is None for call in draft.calls
            ):
                return index
        return end

    def let_go(self, draft: _Draft, past: _Past) -> None:
        for call in draft.calls:
            if call.call_id:
                is_answered = (call.original or call).verdict is not None
                (past.answered if is_answered else past.unanswered).add(call.call_id, draft.at)
        if draft.id and self.open[draft.sidechain].get(draft.id) is draft:
            past.responses[draft.sidechain].add(draft.id, draft.at)

    def packed(self, past: _Past, drafts: list[_Draft]) -> bytes | None:
        for known in past.known():
            known.pack()
        waiting = {call.call_id for draft in drafts for call in draft.calls if call.verdict is None}
        ran = {
            name
            for name in self.ran
            if name in waiting or not (name in self.calls or past.answered.has(name) or past.unanswered.has(name))
        }
        state = _State(
            past=past,
            facts=_Facts(**{name: getattr(self, name) for name in _Facts.__struct_fields__}),
            drafts=drafts,
            open=[i for i, d in enumerate(drafts) if d.id and self.open[d.sidechain].get(d.id) is d],
            ran=ran,
            unqueued=dict(+self.unqueued),
            attached=dict(+self.attached),
            losses=self.losses.kinds,
        )
        return sealed(state, _STATE_VERSION)

    @classmethod
    def from_state(cls, state: _State, source: Source) -> _Reader:
        reader = cls(source, state.past)
        for name in _Facts.__struct_fields__:
            setattr(reader, name, getattr(state.facts, name))
        reader.losses = Losses(state.losses)
        reader.ran = state.ran
        reader.unqueued.update(state.unqueued)
        reader.attached.update(state.attached)
        reader.drafts = state.drafts
        for index in state.open:
            draft = state.drafts[index]
            reader.open[draft.sidechain][draft.id or ""] = draft
        calls = [call for draft in state.drafts for call in draft.calls if call.call_id]
        reader.calls = {call.call_id or "": call for call in calls if call.original is None}
        for call in calls:
            if call.original is not None:  # itself where it was kept, else a copy of it as it stood
                call.original = reader.calls.get(call.call_id or "", call.original)
        return reader


def _key(text: str) -> str:
    return digest(text.encode("utf-8", "surrogatepass"))


def _head(block: Block) -> str:
    return json_head(bytes(block.content), 2048)


NO_DETAIL = Result()
NO_RECORD = Record(b"", 0)
_FLAG_FALSE = Judgement(CallStatus.OK, "is_error false")
_NO_FLAG = Judgement(CallStatus.OK, "no error flag")


def _compared(name: str, arguments: Any) -> Any:
    """The part of an input that makes two calls the same call."""
    if name == "Bash" and isinstance(arguments, dict):
        # What the command is called for the reader changes from one run of it to the next.
        return {name: value for name, value in arguments.items() if name != "description"}
    return arguments


def _finish(call: _Call, ordinal: int, index: int) -> ToolCall:
    original = call.original or call
    verdict = original.verdict or PENDING
    return ToolCall(
        message_ordinal=ordinal,
        index=index,
        name=call.name,
        category=category_of(call.name),
        status=verdict.status,
        evidence=verdict.evidence,
        call_id=call.call_id,
        input=call.body,
        input_hash=call.hash,
        file_paths=call.paths,
        exit_code=verdict.exit_code,
        result=original.result,
        at=call.at,
        is_poll=call.is_poll,
    )


def _plain_text(content: str | list[Block] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or () if block.type == "text" and block.text)


# Bytes of an answer for each token of it: far above what any text or language has.
MOST_BYTES_PER_TOKEN = 20


def by_result(name: str, command: str | None, began: bool, block: Block, detail: Result) -> Judgement:
    """How a call of that tool went, by its result. began: something of it was seen while it ran."""
    if detail.interrupted:
        return Judgement(CallStatus.CANCELLED, "interrupted flag")
    if block.is_error:
        return by_claude_error(_head(block), command, began=began)
    if detail.return_code_interpretation:
        return Judgement(CallStatus.BENIGN, f"return code: {detail.return_code_interpretation}"[:80])
    # iFlow, and sub-agents, write a status; an MCP server may put an error of the protocol under a success.
    if detail.status in ("error", "failed"):
        return Judgement(CallStatus.FAILED, f"status {detail.status}")
    if detail.total_tokens == 0 and _head(block).startswith("API Error: "):
        return Judgement(CallStatus.FAILED, "text: API Error, and no token was used")
    if detail.status in ("cancelled", "killed"):
        return Judgement(CallStatus.CANCELLED, f"status {detail.status}")
    if name.startswith("mcp__"):
        text = _head(block)
        if text.startswith("MCP error -"):
            broken = BROKEN_CALL.match(text)
            return Judgement(CallStatus.INVALID if broken else CallStatus.FAILED, text[:40].split(":")[0])
    return _FLAG_FALSE if block.is_error is False else _NO_FLAG


def _usage(draft: _Draft, text_bytes: int) -> Usage | None:
    """The usage of one request; None for the zeros of a line that no model wrote."""
    usage = draft.usage or ApiUsage()
    created = usage.cache_creation or CacheCreation()
    hour = token_count(created.ephemeral_1h_input_tokens)
    written = token_count(usage.cache_creation_input_tokens)
    output = token_count(usage.output_tokens)
    seen = text_bytes + draft.input_bytes + draft.thinking_text_bytes
    found = Usage(
        input_tokens=token_count(usage.input_tokens),
        cache_read_tokens=token_count(usage.cache_read_input_tokens),
        # Without the split by lifetime, all of it has the default lifetime, five minutes.
        cache_write_5m_tokens=max(token_count(created.ephemeral_5m_input_tokens), written - hour, 0),
        cache_write_1h_tokens=hour,
        output_tokens=output,
        # Versions around 2.1 often logged the count that stood when the answer began, and no other.
        output_is_partial=draft.stop is None and seen > output * MOST_BYTES_PER_TOKEN,
        key=f"{draft.id}:{draft.request_id or ''}" if draft.id else None,
    )
    return None if found.is_empty else found


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a Claude Code log, or in a web export of one."""
    reader = _Reader(source)
    rest = iter(records)
    first = next(rest, None)
    if first is not None:
        is_export = b'"loglines"' in first.data[:4096]
        reader.read_all(chain(_export_lines(first, reader.losses) if is_export else (first,), rest))
    return [reader.session()]


def resume(state: bytes | None, records: Iterable[Record], source: Source) -> Resumed | None:
    """See `Parser.resume`."""
    try:
        return _begun(records, source) if state is None else _read_on(state, records, source)
    except Unsure:
        return None


def _begun(records: Iterable[Record], source: Source) -> Resumed:
    rest = iter(records)
    begin = tuple(islice(rest, 1))
    if begin and b'"loglines"' in begin[0].data[:4096]:
        return Resumed(parse(chain(begin, rest), source)[0])
    reader = _Reader(source, _Past(limits_of(source)))
    reader.read_all(chain(begin, rest))
    state = reader.state()
    return Resumed(reader.session(), state=state)


def _read_on(state: bytes, records: Iterable[Record], source: Source) -> Resumed:
    before = unsealed(state, _State, _STATE_VERSION)
    past = before.past
    rest = iter(records)
    begin = tuple(islice(rest, 1))
    if past.source != limits_of(source) or any(new.offset is None or new.offset < past.end for new in begin):
        raise Unsure
    reader = _Reader.from_state(before, source)
    told = past.first, past.events
    reader.read_all(chain(begin, rest))
    if past.own_id != reader.whose()[0] or past.is_subagent != reader.is_subagent:
        raise Unsure
    new_state = reader.state()
    return Resumed(reader.session(), *told, state=new_state)


def _export_lines(record: Record, losses: Losses) -> Iterator[Record]:
    try:
        lines = _EXPORT.decode(record.data).loglines
    except BAD_CONTENT:
        for value in salvage(record, losses):
            found = value.get("loglines") if isinstance(value, dict) else None
            yield from (Record(msgspec.json.encode(line), None) for line in (found if isinstance(found, list) else ()))
        return
    at = 0
    for raw in lines:
        data = bytes(raw)
        at = record.data.find(data, at)
        yield Record(data, None if record.offset is None else record.offset + at)
        at += len(data)


def sniff(sample: Sample) -> bool:
    if sample.is_document:
        document = sample.values[0] if sample.values else None
        lines = document.get("loglines") if isinstance(document, dict) else None
        if isinstance(lines, list):
            return any(_is_native(line) for line in lines[:50])
    return any(_is_native(value) for value in sample.values)


def _is_native(value: Any) -> bool:
    """Whether a line can only be Claude Code's: `claude -p` streams and its forks lack one of these keys."""
    if not isinstance(value, dict) or "sessionId" not in value:
        return False
    kind = value.get("type")
    if kind == "user" or kind == "assistant":
        message = value.get("message")
        return "uuid" in value and isinstance(message, dict) and "content" in message
    if kind == "queue-operation":
        return "operation" in value
    return kind == "file-history-snapshot" or (
        kind in ("system", "attachment", "progress")
        and "uuid" in value
        and "isSidechain" in value
        and "systemPayload" not in value  # Qwen Code's
    )


PARSER = Parser(
    agent="claude-code",
    title="Claude Code",
    homes=(Home(".claude/projects", "**/*.jsonl", "CLAUDE_CONFIG_DIR"),),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    resume=resume,
)
