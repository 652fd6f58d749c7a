"""Amp: one JSON file a thread under `~/.local/share/amp/threads`, and what `amp threads export` prints.

What is easy to get wrong, and is decided here:
- A run that is `done` has only run: the exit code in its result tells how a command went.
- Results stand in messages of the user, which nobody typed. So do notes of the program, under the role `info`.
- With models of OpenAI, Amp counts the uncached prompt as cache creation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from demerit.model import (
    Author,
    Body,
    CallStatus,
    Category,
    Event,
    Role,
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

_Time = str | int | float | None


class _Repository(msgspec.Struct):
    ref: str | None = None


class _Tree(msgspec.Struct):
    uri: str | None = None
    repository: _Repository | None = None


class _Platform(msgspec.Struct):
    clientVersion: str | None = None


class _Initial(msgspec.Struct):
    trees: list[_Tree] | None = None
    platform: _Platform | str | None = None


class _Environment(msgspec.Struct):
    initial: _Initial | None = None


class _Trace(msgspec.Struct):
    startTime: _Time = None
    endTime: _Time = None


class _ThreadMeta(msgspec.Struct):
    traces: list[_Trace] | None = None


class _Thread(msgspec.Struct):
    id: str | None = None
    title: str | None = None
    created: _Time = None
    env: _Environment | None = None
    meta: _ThreadMeta | None = None
    messages: msgspec.Raw = NOTHING


class _Meta(msgspec.Struct):
    sentAt: _Time = None
    fromAggman: bool | None = None
    fromExecutorThreadID: str | None = None


class _Error(msgspec.Struct):
    message: str | None = None


class _State(msgspec.Struct):
    type: str | None = None
    stopReason: str | None = None
    error: _Error | str | None = None


class _Usage(msgspec.Struct):
    model: str | None = None
    inputTokens: int | None = None
    outputTokens: int | None = None
    cacheCreationInputTokens: int | None = None
    cacheReadInputTokens: int | None = None
    timestamp: _Time = None


class _Run(msgspec.Struct):
    status: str | None = None
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    reason: msgspec.Raw = NOTHING


class _Result(msgspec.Struct):
    """What a finished run gives, where it is an object."""

    output: msgspec.Raw = NOTHING
    exitCode: int | None = None
    success: bool | None = None


class _Reasoning(msgspec.Struct):
    encryptedContent: str | None = None


class _Summary(msgspec.Struct):
    summary: str | None = None


class _Arguments(msgspec.Struct):
    cmd: str | None = None


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: msgspec.Raw = NOTHING
    signature: str | None = None
    openAIReasoning: _Reasoning | None = None
    data: msgspec.Raw = NOTHING
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    startTime: _Time = None
    # of a result
    toolUseID: str | None = None
    run: _Run | None = None
    tool_use_id: str | None = None  # imported threads have the API's own blocks
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None
    # of the role `info`
    summary: _Summary | None = None
    args: _Arguments | None = None


class _Message(msgspec.Struct):
    role: str | None = None
    messageId: int | str | None = None
    content: str | list[_Block] | None = None
    parentToolUseId: str | None = None
    meta: _Meta | None = None
    state: _State | None = None
    usage: _Usage | None = None


_THREADS = LineDecoder(_Thread)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGES = LineDecoder(_Message)
_RESULTS = LineDecoder(_Result)
_ERRORS = msgspec.json.Decoder(_Error | str | None)

# The tools whose names `evidence` does not know.
_CATEGORIES: dict[str, Category] = {
    "async_shell_command": "shell",
    "undo_edit": "edit",
    "format_file": "edit",
    "todo_read": "plan",
    "todo_write": "plan",
    "read_web_page": "web",
    "look_at": "read",
    "finder": "agent",
    "codebase_search_agent": "agent",
    "oracle": "agent",
    "librarian": "agent",
    "handoff": "agent",
}
_BY_STATUS = {
    "error": CallStatus.FAILED,
    "cancelled": CallStatus.CANCELLED,
    "rejected-by-user": CallStatus.DECLINED,
}
# A run in one of these has no result yet.
_UNFINISHED = ("in-progress", "queued", "blocked-on-user")
_DRIVE = re.compile(r"/[A-Za-z]:")

# --- reading ----------------------------------------------------------------------------------------------


class _Reader:
    """Reads one thread into one session."""

    def __init__(self, source: Source, losses: Losses) -> None:
        self.source = source
        self.losses = losses
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.calls: dict[str, DraftCall] = {}
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.thread = _Thread()
        self.body_at = 0  # where in the record the last body stands: the next one stands behind it

    def read(self, thread: _Thread, record: Record) -> None:
        self.thread = thread
        self.time(thread.created, record)
        for trace in (thread.meta.traces if thread.meta else None) or ():
            self.time(trace.startTime, record)
            self.time(trace.endTime, record)
        for piece in self.pieces(thread, record):
            for message in _MESSAGES.decode(piece, self.losses):
                self.message(message, piece)

    def pieces(self, thread: _Thread, record: Record) -> Iterator[Record]:
        """The messages as records of their own: a bad field costs itself, and bodies are found where they stand."""
        if not is_given(thread.messages):
            self.losses.add("no_messages", record.offset)
            return
        try:
            raws = _LIST.decode(thread.messages)
        except BAD_CONTENT:
            self.losses.add("wrong_type", record.offset)
            return
        at = 0
        for raw in raws:
            data = bytes(raw)
            found = record.data.find(data, at)
            at = found + len(data) if found >= 0 else len(record.data)  # salvaged: none stands there
            yield Record(data, record.offset + found if record.offset is not None and found >= 0 else None)

    def time(self, value: _Time, record: Record) -> datetime | None:
        if isinstance(value, int | float) and value <= 0:  # not set
            return None
        at = parse_time(value, self.losses, record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        return at

    def message(self, message: _Message, record: Record) -> None:
        self.body_at = 0
        content = message.content
        blocks = [_Block("text", content)] if isinstance(content, str) else content or []
        if message.role == "assistant":
            self.response(message, blocks, record)
        elif message.role == "user":
            self.user(message, blocks, record)
        elif message.role == "info":
            self.info(blocks, record)
        else:
            self.losses.add("unknown_role" if message.role else "no_role", record.offset)

    def body(self, raw: msgspec.Raw, record: Record) -> Body | None:
        body = raw_body(raw, record, self.source, self.body_at)
        if body is not None and body.offset is not None and record.offset is not None:
            self.body_at = body.offset - record.offset + body.bytes
        return body

    # a response

    def response(self, message: _Message, blocks: list[_Block], record: Record) -> None:
        usage = message.usage or _Usage()
        state = message.state or _State()
        at = self.time(usage.timestamp, record)
        at = at or next(filter(None, (self.time(block.startTime, record) for block in blocks)), None)
        draft = Draft("assistant", "agent", at, model=usage.model, stop=state.stopReason or state.type)
        draft.sidechain = message.parentToolUseId is not None
        texts = []
        for block in blocks:
            if block.type == "text":
                texts.append(block.text or "")
            elif block.type in ("tool_use", "server_tool_use"):
                self.call(block, draft, record)
            elif block.type in ("thinking", "redacted_thinking"):
                self.think(block, draft, record)
            else:
                self.losses.add("unknown_block" if block.type else "no_type", record.offset)
        draft.text = "\n".join(filter(None, texts))
        draft.usage = self.usage(usage, message)
        if state.type not in ("cancelled", "error") or draft.text or draft.calls or draft.thinking_bytes or draft.usage:
            self.drafts.append(draft)
        if state.type == "cancelled":
            for call in draft.calls:
                call.unanswered = Judgement(CallStatus.CANCELLED, "its message has state cancelled")
            self.event("interrupt", at, "")
            self.drafts.append(Draft("context", "harness", at, sidechain=draft.sidechain, notice="interrupt"))
        elif state.type == "error":
            reason = (state.error.message if isinstance(state.error, _Error) else state.error) or "error"
            self.event("api_error", at, reason[:200])
            notice = Draft("assistant", "harness", at, reason, sidechain=draft.sidechain, notice="api_error")
            self.drafts.append(notice)

    def usage(self, counts: _Usage, message: _Message) -> Usage | None:
        written = token_count(counts.cacheCreationInputTokens)
        fresh = token_count(counts.inputTokens)
        if (counts.model or "").startswith("gpt-"):  # OpenAI bills no writes: this is the uncached prompt
            fresh, written = fresh + written, 0
        found = Usage(
            input_tokens=fresh,
            cache_read_tokens=token_count(counts.cacheReadInputTokens),
            cache_write_5m_tokens=written,
            output_tokens=token_count(counts.outputTokens),
            key=f"{self.name()}:{message.messageId}" if message.messageId is not None else None,
        )
        return None if found.is_empty else found

    def call(self, block: _Block, draft: Draft, record: Record) -> None:
        name = block.name or ""
        if not name:
            self.losses.add("call_without_name", record.offset)
        at = self.time(block.startTime, record) or draft.at
        call = DraftCall(name, _CATEGORIES.get(name) or category_of(name), block.id, at)
        if is_given(block.input):
            call.input = self.body(block.input, record)
            try:
                arguments = msgspec.json.decode(block.input)
            except BAD_CONTENT:
                self.losses.add("malformed_input", record.offset)
            else:
                _describe(call, arguments)
        if block.type == "server_tool_use":
            call.verdict = Judgement(CallStatus.OK, "answered by the API in the same response")
        draft.calls.append(call)
        if block.id:
            known = self.calls.get(block.id)
            if known is not None and (known.name, known.hash) == (call.name, call.hash):
                call.first = known
            else:
                self.calls[block.id] = call

    def think(self, block: _Block, draft: Draft, record: Record) -> None:
        ciphertext = block.openAIReasoning.encryptedContent if block.openAIReasoning else None
        kind: ThinkingKind
        if ciphertext:
            size, kind = len(ciphertext), "ciphertext"
        elif block.type == "redacted_thinking":
            size, kind = max(0, len(bytes(block.data)) - 2) if is_given(block.data) else 0, "signature"
        else:
            size, kind = len(block.signature or ""), "signature"
        if not size and is_given(block.thinking):
            try:
                size, kind = utf8_length(msgspec.json.decode(block.thinking, type=str)), "text"
            except BAD_CONTENT:
                self.losses.add("wrong_type", record.offset)
        if size and draft.thinking_kind in (None, kind):  # of two kinds in one response, the first counts
            draft.thinking_bytes += size
            draft.thinking_kind = kind
        body = self.body(block.thinking, record) if bytes(block.thinking) != b'""' else None
        if body is not None:
            draft.thinking.append(body)

    # what is said to the model

    def user(self, message: _Message, blocks: list[_Block], record: Record) -> None:
        meta = message.meta or _Meta()
        at = self.time(meta.sentAt, record)
        texts = []
        has_image = has_result = False
        for block in blocks:
            if block.type == "tool_result":
                has_result = True
                self.result(block, record)
            elif block.type == "text":
                texts.append(block.text or "")
            elif block.type == "image":
                has_image = True
            else:
                self.losses.add("unknown_block" if block.type else "no_type", record.offset)
        text = "\n".join(filter(None, texts))
        if not text.strip() and not has_image:
            if not has_result:
                self.losses.add("empty_message", record.offset)
            return
        kept = without_wrappers(text)
        role: Role = "user"
        author: Author = "human"
        if is_harness_text(text) or (text.strip() and not kept.strip()):
            role, author, kept = "context", "harness", text
        elif message.parentToolUseId or meta.fromAggman or meta.fromExecutorThreadID:
            author = "agent"
        sidechain = message.parentToolUseId is not None
        self.drafts.append(Draft(role, author, at, kept, has_image, sidechain=sidechain))

    def info(self, blocks: list[_Block], record: Record) -> None:
        for block in blocks:
            if block.type == "summary":
                self.event("compaction", None, "")
                text = (block.summary.summary if block.summary else None) or ""
                self.drafts.append(Draft("context", "harness", None, text, notice="compaction_summary"))
            elif block.type == "manual_bash_invocation":  # the user ran it
                self.drafts.append(Draft("context", "harness", None, (block.args.cmd if block.args else None) or ""))
            elif block.type != "text":
                self.losses.add("unknown_block" if block.type else "no_type", record.offset)

    def result(self, block: _Block, record: Record) -> None:
        call = self.calls.get(block.toolUseID or block.tool_use_id or "")
        if call is None:
            self.losses.add("orphan_result", record.offset)
            return
        run = block.run
        if run is not None and run.status in _UNFINISHED:
            call.unanswered = Judgement(CallStatus.PENDING, f"run status {run.status}")
        elif call.verdict is None:  # of two results, the first stands
            given = block.content
            if run is not None:
                given = next(filter(is_given, (run.result, run.error, run.reason)), NOTHING)
            call.result = self.body(given, record)
            call.verdict = self.judge(call, block, record)

    def judge(self, call: DraftCall, block: _Block, record: Record) -> Judgement:
        run = block.run
        if run is None:
            if block.is_error is None:
                return Judgement(CallStatus.UNKNOWN, "a result without a run")
            status = CallStatus.FAILED if block.is_error else CallStatus.OK
            return Judgement(status, f"is_error {str(block.is_error).lower()}")
        if run.status != "done":
            line = _error_line(run.error) if run.status == "error" else ""
            told = f"run status {run.status}"[:80] + (f": {line}" if line else "")
            return Judgement(_BY_STATUS.get(run.status or "", CallStatus.UNKNOWN), told)
        if bytes(run.result)[:1] == b"{":
            for found in _RESULTS.decode(Record(bytes(run.result), record.offset), self.losses):
                if found.exitCode is not None and found.exitCode >= 0:
                    output = json_head(bytes(found.output), 4096)
                    return by_exit_code(call.command, found.exitCode, output, "run exitCode")
                if found.exitCode is not None:
                    return Judgement(CallStatus.UNKNOWN, f"run exitCode {found.exitCode}: the process gave none")
                if found.success is False:
                    return Judgement(CallStatus.FAILED, "run success false")
        return Judgement(CallStatus.OK, "run status done")

    # the whole

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def name(self) -> str:
        return self.thread.id or self.source.name

    def session(self) -> Session:
        initial = (self.thread.env.initial if self.thread.env else None) or _Initial()
        trees = initial.trees or [_Tree()]
        repository = trees[0].repository if trees else None
        platform = initial.platform
        return Session(
            agent="amp",
            source_id=self.name(),
            messages=tuple(draft.frozen(ordinal, self.source) for ordinal, draft in enumerate(self.drafts)),
            title=self.thread.title or None,
            cwd=_path(trees[0].uri),
            branch=(repository.ref or "").removeprefix("refs/heads/") or None if repository else None,
            agent_version=platform.clientVersion if isinstance(platform, _Platform) else None,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            events=tuple(self.events),
            losses=self.losses.result(),
        )


def _error_line(error: msgspec.Raw) -> str:
    """How the message of a run's error begins: a text, or an object with a `message`."""
    try:
        said = _ERRORS.decode(error)
    except BAD_CONTENT:
        return ""
    text = said.message if isinstance(said, _Error) else said
    return (text or "").lstrip()[:80].partition("\n")[0]


def _path(uri: str | None) -> str | None:
    """The path in a `file:` address."""
    if uri is None or not uri.startswith("file://"):
        return None
    path = "/" + unquote(uri.removeprefix("file://")).partition("/")[2]
    return path[1:] if _DRIVE.match(path) else path


def _describe(call: DraftCall, arguments: Any) -> None:
    """Note what a call's decoded arguments say: what makes it the same call, its files, its command."""
    call.hash = input_hash(arguments)
    call.is_poll = is_poll(call.name, arguments)
    call.paths = paths_in(arguments)
    if isinstance(arguments, dict):
        command = arguments.get("cmd", arguments.get("command"))
        call.command = command if isinstance(command, str) else None
        for value in arguments.values() if not call.paths else ():
            if isinstance(value, str) and "*** Begin Patch" in value:
                call.paths += patch_paths(value)


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The thread of each record; a record is a whole file."""
    sessions = []
    for record in records:
        losses = Losses()
        for thread in _THREADS.decode(record, losses) or [_Thread()]:
            reader = _Reader(source, losses)
            reader.read(thread, record)
            sessions.append(reader.session())
    return sessions


def sniff(sample: Sample) -> bool:
    value = sample.values[0] if sample.is_document and sample.values else None
    if not isinstance(value, dict):
        return False
    name = value.get("id")
    is_thread = isinstance(name, str) and name.startswith("T-") and isinstance(value.get("messages"), list)
    return is_thread and ("created" in value or "v" in value)


PARSER = Parser(
    agent="amp",
    title="Amp",
    homes=(Home(".local/share/amp/threads", "T-*.json", "XDG_DATA_HOME", ".local/share"),),
    sniff=sniff,
    parse=parse,
    coverage=Coverage(exit_codes="partly", times="partly", subagents="partly"),
    suffixes=(".json",),
)
