"""OpenCode, and Kilo's program, which is built on it: an SQLite database, a tree of JSON files, or an export.

All three hold the same objects: a session, its messages, their parts. OpenCode 2 keeps a message in one row with
its content, and has other names for much; it is read beside the older form, never both for one session.
docs/formats/opencode.md tells what is read, what is not, and how each fact is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, Session, ToolCall, Usage
from demerit.parsers import evidence, records
from demerit.parsers.evidence import Judgement
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Bundle,
    Home,
    LineDecoder,
    Losses,
    Parser,
    Query,
    Record,
    Sample,
    Source,
    json_head,
    parse_time,
    token_count,
)

# --- the objects, as far as they are used -----------------------------------------------------------------

_Number = int | float | None


class _Time(msgspec.Struct):
    created: _Number = None
    completed: _Number = None
    start: _Number = None
    end: _Number = None


class _Cache(msgspec.Struct):
    read: int | None = None
    write: int | None = None


class _Tokens(msgspec.Struct):
    total: int | None = None
    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache: _Cache | None = None


class _Error(msgspec.Struct):
    name: str | None = None
    data: _Error | None = None
    type: str | None = None  # OpenCode 2
    message: str | None = None


class _State(msgspec.Struct):
    """How a tool call stands."""

    status: str | None = None
    input: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    error: _Error | str | None = None
    metadata: msgspec.Raw = NOTHING  # as its tool likes
    time: _Time | None = None
    content: msgspec.Raw = NOTHING  # OpenCode 2
    structured: msgspec.Raw = NOTHING


class _Part(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    text: msgspec.Raw = NOTHING
    synthetic: bool | None = None
    ignored: bool | None = None
    mime: str | None = None
    tool: str | None = None
    callID: str | None = None
    state: _State | None = None
    tokens: _Tokens | None = None
    metadata: msgspec.Raw = NOTHING
    time: _Time | None = None
    # OpenCode 2
    name: str | None = None
    native: msgspec.Raw = NOTHING
    providerMetadata: msgspec.Raw = NOTHING


class _Model(msgspec.Struct):
    id: str | None = None


class _Path(msgspec.Struct):
    cwd: str | None = None


class _Info(msgspec.Struct):
    """A message without its parts; in OpenCode 2 with them."""

    id: str | None = None
    role: str | None = None
    time: _Time | None = None
    tokens: _Tokens | None = None
    error: _Error | None = None
    finish: str | None = None
    modelID: str | None = None
    providerID: str | None = None
    path: _Path | None = None
    summary: msgspec.Raw = NOTHING  # a flag, an object, or in OpenCode 2 a text
    # OpenCode 2
    text: str | None = None
    command: str | None = None
    files: list[_Part] | None = None
    content: list[_Part] | None = None
    model: _Model | None = None
    previous: _Model | None = None
    retry: msgspec.Raw = NOTHING
    outcome: str | None = None
    status: str | None = None


class _Meta(msgspec.Struct):
    """A session as an object, or as a row of the database, or an export that has one in it."""

    id: str | None = None
    parentID: str | None = None
    parent_id: str | None = None
    fork_session_id: str | None = None
    directory: str | None = None
    title: str | None = None
    version: str | None = None
    time: _Time | None = None
    time_created: _Number = None
    permission: msgspec.Raw = NOTHING
    revert: msgspec.Raw = NOTHING
    info: _Meta | None = None
    messages: msgspec.Raw = NOTHING


class _Whole(msgspec.Struct):
    """A message of an export."""

    info: _Info | None = None
    parts: list[_Part] | None = None


class _Row(msgspec.Struct):
    """A row of the database: a message joined with one of its parts; in OpenCode 2 a message."""

    session_id: str | None = None
    message_id: str | None = None
    message: str | None = None
    part: str | None = None
    id: str | None = None
    type: str | None = None
    time_created: _Number = None
    data: str | None = None


class _Exit(msgspec.Struct):
    """What a shell's metadata tell. `exit` is null for a command that was killed, absent while it runs."""

    exit: int | msgspec.UnsetType | None = msgspec.UNSET
    exitCode: int | msgspec.UnsetType | None = msgspec.UNSET
    status: str | None = None


class _Interrupted(msgspec.Struct):
    interrupted: bool | None = None


_METAS = LineDecoder(_Meta)
_INFOS = LineDecoder(_Info)
_PARTS = LineDecoder(_Part)
_WHOLES = LineDecoder(_Whole)
_ROWS = LineDecoder(_Row)
_EXITS = LineDecoder(_Exit)
_INTERRUPTED = LineDecoder(_Interrupted)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])

# --- fixed forms ------------------------------------------------------------------------------------------

_PREFIX = re.compile(r"\A(?:\w{0,40}Error: ){1,3}")
_DECLINED = (
    "The user rejected permission",
    "The user has specified a rule which prevents",
    "The user has specifically restricted access",
    "The user dismissed this question",
    "The user declined this tool call",
)
_CANCELLED = (
    "Tool execution aborted",
    "Tool execution was interrupted",
    "Tool execution interrupted",
    "The operation was aborted",
    "Cancelled",
    "Task cancelled",
    "Command cancelled",
    "Subagent cancelled",
)
_INVALID = re.compile(
    r"The \S+ tool was called with invalid arguments|Model tried to call unavailable tool|Invalid input for tool"
    r"|Invalid tool input|Unknown tool|Tool call arguments were malformed JSON"
)
_BY_TYPE = {  # OpenCode 2
    "aborted": CallStatus.CANCELLED,
    "permission.rejected": CallStatus.DECLINED,
    "tool.unknown": CallStatus.INVALID,
    "tool.input-json": CallStatus.INVALID,
}
# What stands at the end of the output of a command that gave no exit code.
_TIMED_OUT = re.compile(r"terminated command after exceeding timeout|\(Command timed out after \d+ ms\)")
_ABORTED = re.compile(r"User aborted the command|\(Command was aborted\)")
_TAIL_CHARS = 500

_USER_SHELL = "The following tool was executed by the user"
_DEFAULT_TITLE = re.compile(r"(?:new|child) session - \d{4}-\d\d-\d\dT[\d:.]+Z", re.IGNORECASE)
_FORK_TITLE = re.compile(r"\(fork #\d+\)\Z")
# Errors of a message that say how the answer ended, and not that the request failed.
_STOPS = frozenset(("MessageOutputLengthError", "StructuredOutputError"))
# Scrubbed logs have this word for an id or a ciphertext.
_SCRUBBED = "REDACTED"
# A session is made some milliseconds before its first message; what is older was copied into it.
_OLDER = timedelta(seconds=1)

# Parts that tell nothing of their own. `step-start` only divides.
_UNREAD_PARTS = frozenset(("step-start", "snapshot", "patch", "agent", "file", "compaction", "subtask", "text"))

_CATEGORIES: dict[str, Category] = {
    "list": "search",
    "lsp": "search",
    "codesearch": "web",
    "question": "question",
    "plan_enter": "plan",
    "plan_exit": "plan",
}
_SHELLS = ("bash", "shell")


class _Held(NamedTuple):
    """A part, and the record that it stands in."""

    part: _Part
    record: Record


def _usage(tokens: _Tokens | None, key: str | None, apart: bool | None, provider: str | None = None) -> Usage | None:
    """apart: whether reasoning is counted beside the output; None when the numbers have to tell."""
    if tokens is None:
        return None
    cache = tokens.cache or _Cache()
    # Some versions logged less than nothing, where they had subtracted too much: that counts as nothing.
    fresh, read, written = token_count(tokens.input), token_count(cache.read), token_count(cache.write)
    output, reasoning = token_count(tokens.output), token_count(tokens.reasoning)
    if apart is None and tokens.total:
        apart = token_count(tokens.total) == fresh + read + written + output + reasoning
    elif apart is None:
        apart = reasoning > output or (provider or "").startswith("google")
    found = Usage(
        input_tokens=fresh,
        cache_read_tokens=read,
        cache_write_5m_tokens=written,
        output_tokens=output + (reasoning if apart else 0),
        reasoning_tokens=reasoning or None,  # zero is written where the provider reports none as well
        key=key if key and key.startswith("msg_") else None,
    )
    return None if found.is_empty else found


def _value(raw: msgspec.Raw) -> Any:
    """A field decoded; in the database it may be a text that holds JSON."""
    try:
        found = msgspec.json.decode(raw)
        return msgspec.json.decode(found) if isinstance(found, str) and found[:1] in ("[", "{") else found
    except BAD_CONTENT:
        return None


def _is_headless(meta: _Meta) -> bool:
    """`opencode run` denies what would wait for a person."""
    rules = _value(meta.permission)
    denied = {
        str(rule.get("permission"))
        for rule in (rules if isinstance(rules, list) else ())
        if isinstance(rule, dict) and rule.get("action") == "deny"
    }
    return {"question", "plan_enter"} <= denied


def _category(name: str) -> Category:
    return _CATEGORIES.get(name) or evidence.category_of(name)


# --- how calls went ---------------------------------------------------------------------------------------


def _judge(name: str, category: Category, command: str | None, state: _State, losses: Losses) -> Judgement:
    if state.status == "error":
        return _by_error(state, losses)
    if state.status in ("pending", "running", "streaming"):
        return Judgement(CallStatus.PENDING, f"status {state.status}")
    if state.status != "completed":
        return Judgement(CallStatus.UNKNOWN, "a status that is not known" if state.status else "no status")
    if name == "invalid":
        return Judgement(CallStatus.INVALID, "tool invalid: OpenCode put it in the place of the model's call")
    if name in _SHELLS:
        return _by_exit(command, state, losses)
    head = json_head(bytes(state.output if records.is_given(state.output) else state.content), 200)
    if category in ("web", "mcp", "other") and head.startswith("MCP error -"):
        broken = evidence.BROKEN_CALL.match(head)
        return Judgement(CallStatus.INVALID if broken else CallStatus.FAILED, f"text: {head[:40].split(':')[0]}")
    return Judgement(CallStatus.OK, "status completed")


def _by_exit(command: str | None, state: _State, losses: Losses) -> Judgement:
    told = state.metadata if records.is_given(state.metadata) else state.structured
    raw = state.output if records.is_given(state.output) else state.content
    for found in _EXITS.decode(Record(bytes(told), None), losses) if records.is_given(told) else ():
        name, code = ("exit", found.exit) if found.exit is not msgspec.UNSET else ("exitCode", found.exitCode)
        if found.status == "running":
            return Judgement(CallStatus.UNKNOWN, "it went on in the background")
        if code is None:
            tail = json_head(bytes(raw), 10**9)[-_TAIL_CHARS:]
            if _ABORTED.search(tail):
                return Judgement(CallStatus.CANCELLED, "no exit code: the user aborted it")
            how = "timed out" if _TIMED_OUT.search(tail) else "ended by a signal"
            return Judgement(CallStatus.FAILED, f"no exit code: {how}")
        if isinstance(code, int):
            return evidence.by_exit_code(command, code, json_head(bytes(raw), 2048), f"metadata {name}")
    return Judgement(CallStatus.UNKNOWN, "status completed, without an exit code")


def _by_error(state: _State, losses: Losses) -> Judgement:
    error = state.error if isinstance(state.error, _Error) else _Error(message=state.error)
    text = _PREFIX.sub("", error.message or "")
    line = text[:80].partition("\n")[0]
    if records.is_given(state.metadata):
        for found in _INTERRUPTED.decode(Record(bytes(state.metadata), None), losses):
            if found.interrupted:
                return Judgement(CallStatus.CANCELLED, "metadata interrupted true")
    if text.startswith(_DECLINED):
        return Judgement(CallStatus.DECLINED, f"status error: {line}")
    if error.type in _BY_TYPE:
        return Judgement(_BY_TYPE[error.type], f"error {error.type}")
    if text.startswith(_CANCELLED):
        return Judgement(CallStatus.CANCELLED, f"status error: {line}")
    if _INVALID.match(text) or evidence.BROKEN_CALL.match(text):
        return Judgement(CallStatus.INVALID, f"status error: {line}")
    return Judgement(CallStatus.FAILED, f"status error: {line}" if line else "status error")


# --- reading ----------------------------------------------------------------------------------------------


class _Response:
    """What one response of the model is made of."""

    __slots__ = ("calls", "cipher", "signature", "text_bytes", "texts", "thinking", "tokens")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[ToolCall] = []
        self.thinking: list[Body] = []
        self.text_bytes = 0
        self.cipher: set[str] = set()  # every part of one reasoning repeats it
        self.signature: set[str] = set()
        self.tokens: _Tokens | None = None

    def reasoned(self) -> tuple[int, Literal["signature", "ciphertext", "text"] | None]:
        if self.cipher:
            return sum(map(len, self.cipher)), "ciphertext"
        if self.signature:
            return sum(map(len, self.signature)), "signature"
        return self.text_bytes, "text" if self.text_bytes else None


class _Reader:
    """Builds one session from its messages, which come in order."""

    def __init__(self, meta: _Meta, source: Source, losses: Losses) -> None:
        self.meta = meta
        self.source = source
        self.losses = losses
        self.messages: list[Message] = []
        self.events: list[Event] = []
        self.loose: list[tuple[int, Usage]] = []
        self.created = parse_time(meta.time.created if meta.time else meta.time_created, losses)
        self.first = self.last = self.created
        self.cwd = meta.directory
        self.offset: int | None = None
        self.body_at = 0  # where in the record the last body stands: the next one stands behind it
        self.is_child = bool(meta.parentID or meta.parent_id)
        self.asks: Author = "agent" if self.is_child else "harness" if _is_headless(meta) else "human"
        self.ran_shell = False  # the next message of the model is a command that the person ran
        self.is_v2 = False
        self.is_empty = True

    def see(self, value: _Number) -> datetime | None:
        at = parse_time(value, self.losses, self.offset)
        if at is not None:
            self.first = at if self.first is None else min(self.first, at)
            self.last = at if self.last is None else max(self.last, at)
        return at

    def body(self, raw: msgspec.Raw, record: Record) -> Body | None:
        body = records.raw_body(raw, record, self.source, self.body_at)
        if body is not None and record.offset is not None:
            # What was mended stands nowhere as it is, nor does the rest of its record.
            self.body_at = len(record.data) if body.offset is None else body.offset - record.offset + body.bytes
        return body

    def text(self, raw: msgspec.Raw, record: Record) -> str:
        if not records.is_given(raw):
            return ""
        try:
            return str(msgspec.json.decode(raw, type=str))
        except BAD_CONTENT:
            self.losses.add("wrong_type", record.offset)
            return ""

    def add(self, role: Role, author: Author, text: str, at: datetime | None, notice: Notice | None = None) -> None:
        kept = records.kept_text(text, self.source, whole=role == "user")
        ordinal = len(self.messages)
        self.messages.append(Message(ordinal, role, author, *kept, at=at, notice=notice))

    def note(self, kind: Any, at: datetime | None, detail: str = "") -> None:
        self.events.append(Event(kind, at, len(self.messages) - 1 if self.messages else None, detail))

    # messages with parts

    def message(self, info: _Info, parts: list[_Held], offset: int | None) -> None:
        self.offset = offset
        self.body_at = 0
        self.is_empty = False
        time = info.time or _Time()
        at = self.see(time.created)
        self.see(time.completed)
        if info.role == "user":
            self.user(parts, at)
        elif info.role == "assistant":
            self.assistant(info, parts, at)
        else:
            self.losses.add("unknown_type" if info.role else "no_type", offset)

    def user(self, parts: list[_Held], at: datetime | None) -> None:
        typed: list[str] = []
        added: list[str] = []
        kinds = set()
        for part, record in parts:
            kinds.add(part.type)
            if part.type == "text":
                (added if part.synthetic or part.ignored else typed).append(self.text(part.text, record))
            elif part.type not in _UNREAD_PARTS:
                self.losses.add("unknown_type" if part.type else "no_type", record.offset)
        if not parts:
            self.losses.add("no_parts", self.offset)
        has_image = any(part.type == "file" and (part.mime or "").startswith("image/") for part, _ in parts)
        if typed or has_image or not parts:
            self.prompt("\n".join(typed), has_image, at)
        elif "subtask" in kinds:  # a command of the person's; what was typed is not logged
            self.add("user", self.asks, "", at)
        else:
            self.ran_shell = added == [_USER_SHELL]
            if any(added):
                self.add("context", "harness", "\n".join(added), at)

    def prompt(self, text: str, has_image: bool, at: datetime | None) -> None:
        kept = evidence.without_wrappers(text)
        if evidence.is_harness_text(text) or (text.strip() and not kept):
            self.add("context", "harness", text, at)
            return
        self.add("user", self.asks, kept, at)
        if has_image:
            self.messages[-1] = msgspec.structs.replace(self.messages[-1], has_image=True)

    def assistant(self, info: _Info, parts: list[_Held], at: datetime | None) -> None:
        if info.path is not None and self.cwd is None:
            self.cwd = info.path.cwd
        ran_shell, self.ran_shell = self.ran_shell, False
        if ran_shell and all(held.part.type == "tool" for held in parts):
            return
        responses = [_Response()]
        for part, record in parts:
            # Older versions put all answers to one prompt into one message.
            if part.type == "step-start" and responses[-1].tokens is not None:
                responses.append(_Response())
            self.piece(part, record, responses[-1], at)
        if all(response.tokens is None for response in responses):
            responses[-1].tokens = info.tokens
        if info.summary is not NOTHING and bytes(info.summary) == b"true":
            self.summary(info, responses[0], at)
        else:
            for number, response in enumerate(responses):
                key = f"{info.id}:{number}" if info.id and number else info.id
                usage = _usage(response.tokens, key, None, info.providerID)
                self.respond(response, at, usage, info.modelID, info.finish)
        if info.error is not None:
            self.failed(info.error, at)

    def piece(self, part: _Part, record: Record, response: _Response, at: datetime | None) -> None:
        if part.time is not None:
            self.see(part.time.end)
        if part.type == "text":
            text = self.text(part.text, record)
            if text:
                response.texts.append(text)
        elif part.type == "tool":
            response.calls.append(self.call(part, record, len(response.calls), at))
        elif part.type == "reasoning":
            self.reasoning(part, record, response)
        elif part.type == "step-finish":
            response.tokens = part.tokens or _Tokens()
        elif part.type == "retry":
            self.note("api_error", at, "retried")
        elif part.type not in _UNREAD_PARTS:
            self.losses.add("unknown_type" if part.type else "no_type", record.offset)

    def reasoning(self, part: _Part, record: Record, response: _Response) -> None:
        response.text_bytes += records.utf8_length(self.text(part.text, record))
        body = self.body(part.text, record)
        if body is not None and body.bytes > 2:
            response.thinking.append(body)
        for raw in (part.metadata, part.native, part.providerMetadata):
            told = _value(raw) if records.is_given(raw) else None
            for inner in (told, *told.values()) if isinstance(told, dict) else ():
                if isinstance(inner, dict):
                    for name, found in (
                        ("reasoningEncryptedContent", response.cipher),
                        ("signature", response.signature),
                    ):
                        value = inner.get(name)
                        if isinstance(value, str) and value and value != _SCRUBBED:
                            found.add(value)

    def call(self, part: _Part, record: Record, index: int, at: datetime | None) -> ToolCall:
        state = part.state or _State()
        name = part.tool or part.name or "unknown"
        call_id = part.callID or (part.id if part.name else None)
        if part.tool is None and part.name is None:
            self.losses.add("call_without_name", record.offset)
        arguments = None
        if records.is_given(state.input):
            try:
                arguments = msgspec.json.decode(state.input)
            except BAD_CONTENT:
                self.losses.add("malformed_input", record.offset)
        category = _category(name)
        command = arguments.get("command") if isinstance(arguments, dict) else None
        command = command if isinstance(command, str) else None
        status, reason, code = _judge(name, category, command, state, self.losses)
        compared = arguments
        if name in _SHELLS and isinstance(arguments, dict):
            # What the command is called for the reader changes from one run of it to the next.
            compared = {key: value for key, value in arguments.items() if key != "description"}
        paths = evidence.paths_in(arguments)
        if category == "edit" and isinstance(arguments, dict) and isinstance(arguments.get("patchText"), str):
            paths = evidence.patch_paths(arguments["patchText"])
        if name == "invalid" and isinstance(arguments, dict) and isinstance(arguments.get("tool"), str):
            name = arguments["tool"]
            category = _category(name)
        time = state.time or part.time or _Time()
        self.see(time.end or time.completed)
        result = state.output if records.is_given(state.output) else state.content
        return ToolCall(
            message_ordinal=len(self.messages),
            index=index,
            name=name,
            category=category,
            status=status,
            evidence=reason,
            call_id=call_id if call_id != _SCRUBBED else None,
            input=self.body(state.input, record),
            input_hash=records.input_hash(compared),
            file_paths=paths,
            exit_code=code,
            result=self.body(result, record) or self.error_body(state),
            at=self.see(time.start or time.created) or at,
            is_poll=evidence.is_poll(name, arguments),
        )

    def error_body(self, state: _State) -> Body | None:
        text = state.error.message if isinstance(state.error, _Error) else state.error
        return records.text_body(text, self.source) if text else None

    def respond(
        self, response: _Response, at: datetime | None, usage: Usage | None, model: str | None, stop: str | None
    ) -> None:
        thinking_bytes, kind = response.reasoned()
        if not (response.texts or response.calls or thinking_bytes or usage):
            return  # it failed before anything came
        ordinal = len(self.messages)
        kept = records.kept_text("\n".join(response.texts), self.source)
        calls = tuple(response.calls)
        if any(call.message_ordinal != ordinal for call in calls):
            calls = tuple(msgspec.structs.replace(call, message_ordinal=ordinal) for call in calls)
        message = Message(
            ordinal, "assistant", "agent", *kept, calls=calls, thinking=tuple(response.thinking),
            thinking_bytes=thinking_bytes, thinking_kind=kind, model=model, at=at, usage=usage, stop_reason=stop,
        )  # fmt: skip
        self.messages.append(message)

    def summary(self, info: _Info, response: _Response, at: datetime | None) -> None:
        """The model's summary, which takes the place of what was said before."""
        usage = _usage(response.tokens, info.id, None, info.providerID)
        if usage is not None:
            self.loose.append((len(self.messages), usage))
        if info.error is None:
            self.note("compaction", at)
        if response.texts:
            self.add("context", "harness", "\n".join(response.texts), at, "compaction_summary")

    def failed(self, error: _Error, at: datetime | None) -> None:
        kind = error.name or error.type or "error"
        text = (error.data.message if error.data else None) or error.message or kind
        if kind in ("MessageAbortedError", "aborted"):
            self.interrupted(at)
        elif kind not in _STOPS:
            self.note("api_error", at, text[:500])
            self.add("assistant", "harness", text, at, "api_error")

    def interrupted(self, at: datetime | None) -> None:
        if not self.messages or self.messages[-1].notice != "interrupt":
            self.note("interrupt", at)
            self.add("context", "harness", "", at, "interrupt")

    # OpenCode 2: a message in a row

    def row(self, row: _Row) -> None:
        if row.type in ("user", "assistant"):
            self.is_v2, self.is_empty = True, False
        if not self.is_v2:
            return  # version 1 began to write rows of other types beside its messages
        handler = self.ROWS.get(row.type or "")
        if handler is None:
            if row.type not in _UNREAD_ROWS:
                self.losses.add("unknown_type" if row.type else "no_type")
            return
        record = Record((row.data or "").encode(), None)
        for info in _INFOS.decode(record, self.losses):
            info.id = row.id
            time = info.time or _Time()
            at = self.see(time.created if time.created is not None else row.time_created)
            self.see(time.completed)
            handler(self, info, record, at)

    def user_row(self, info: _Info, record: Record, at: datetime | None) -> None:
        self.prompt(info.text or "", any((file.mime or "").startswith("image/") for file in info.files or ()), at)

    def context_row(self, info: _Info, record: Record, at: datetime | None) -> None:
        self.add("context", "harness", info.text or info.command or "", at)

    def assistant_row(self, info: _Info, record: Record, at: datetime | None) -> None:
        response = _Response()
        for part in info.content or ():
            self.piece(part, record, response, at)
        if records.is_given(info.retry):
            self.note("api_error", at, "retried")
        model = info.model.id if info.model else None
        self.respond(response, at, _usage(info.tokens, info.id, True), model, info.finish)
        if info.error is not None:
            self.failed(info.error, at)

    def compaction_row(self, info: _Info, record: Record, at: datetime | None) -> None:
        usage = _usage(info.tokens, info.id, True)
        if usage is not None:
            self.loose.append((len(self.messages), usage))
        if info.status in (None, "completed"):
            self.note("compaction", at)
            self.add("context", "harness", self.text(info.summary, record), at, "compaction_summary")

    def model_row(self, info: _Info, record: Record, at: datetime | None) -> None:
        before, now = (model.id if model else None for model in (info.previous, info.model))
        if before and before != now:
            self.note("model_change", at, f"{before} -> {now}")

    def idle_row(self, info: _Info, record: Record, at: datetime | None) -> None:
        if info.outcome == "interrupted":
            self.interrupted(at)

    ROWS: dict[str, Callable[[_Reader, _Info, Record, datetime | None], None]] = {  # noqa: RUF012 - never changed
        "user": user_row,
        "synthetic": context_row,
        "system": context_row,
        "skill": context_row,
        "shell": context_row,
        "assistant": assistant_row,
        "compaction": compaction_row,
        "model-switched": model_row,
        "idle": idle_row,
    }

    # the whole

    def copied(self) -> int:
        """How many messages at the beginning came from the session that this one was forked from."""
        created = self.created
        if created is None or self.is_child:
            return 0
        ages = [message.at is not None and message.at < created - _OLDER for message in self.messages]
        older = ages.index(False) if False in ages else len(ages)
        is_named = self.meta.fork_session_id is not None or _FORK_TITLE.search(self.meta.title or "") is not None
        # A session of old messages alone was imported, unless it says that it is a fork.
        return older if is_named or older < len(ages) else 0

    def session(self) -> Session:
        meta = self.meta
        if records.is_given(meta.revert) and isinstance(_value(meta.revert), dict):
            self.note("rewind", None)
        copied = self.copied()
        messages, events = self.messages, self.events
        if copied:
            messages = [_moved(message, copied) for message in messages[copied:]]
            events = [
                msgspec.structs.replace(event, message_ordinal=event.message_ordinal - copied)
                for event in events
                if event.message_ordinal is not None and event.message_ordinal >= copied
            ]
        is_fork = copied > 0 or meta.fork_session_id is not None
        parent = meta.parentID or meta.parent_id or meta.fork_session_id
        return Session(
            agent="opencode",
            source_id=meta.id or self.source.name,
            messages=tuple(messages),
            parent_source_id=parent if parent and parent.startswith("ses_") else None,
            relation="subagent" if self.is_child else "fork" if is_fork else None,
            title=None if _DEFAULT_TITLE.fullmatch(meta.title or "") else meta.title or None,
            cwd=self.cwd,
            agent_version=meta.version,
            started=self.created if copied else self.first,
            ended=self.last,
            modified=self.source.modified,
            events=tuple(events),
            loose_usage=tuple(usage for at, usage in self.loose if at >= copied),
            losses=self.losses.result(),
        )


_UNREAD_ROWS = frozenset(("agent-switched", "location-switched"))


def _moved(message: Message, by: int) -> Message:
    ordinal = message.ordinal - by
    calls = tuple(msgspec.structs.replace(call, message_ordinal=ordinal) for call in message.calls)
    return msgspec.structs.replace(message, ordinal=ordinal, calls=calls)


# --- the three places -------------------------------------------------------------------------------------

_TABLES = ("session", "session_v2", "session_message", "message")


def parse(lines: Iterable[Record], source: Source) -> list[Session]:
    """All sessions in a database, in a session's file with its messages and parts, or in an export."""
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        return []
    if first.part in _TABLES:
        return _from_database(chain((first,), rest), source)
    readers: list[_Reader] = []
    files: list[Record] = []
    for record in chain((first,), rest):
        if record.part:
            files.append(record)
        else:
            losses = Losses()
            for meta in _METAS.decode(record, losses):
                readers.append(_Reader(meta.info or meta, source, losses))
                _read_export(readers[-1], meta, record)
    if len(readers) == 1:
        _read_files(readers[0], files)
    return [reader.session() for reader in readers]


def _read_export(reader: _Reader, meta: _Meta, record: Record) -> None:
    if not records.is_given(meta.messages):
        return
    try:
        messages = _LIST.decode(meta.messages)
    except BAD_CONTENT:
        reader.losses.add("wrong_type", record.offset)
        return
    at = 0
    for raw in messages:
        data = bytes(raw)
        # Each is looked for behind the one before: from the start, a long export would take for ever.
        found = record.data.find(data, at) if record.offset is not None else -1
        offset = record.offset + found if record.offset is not None and found >= 0 else None
        at = found + len(data) if found >= 0 else at
        own = Record(data, offset)
        for whole in _WHOLES.decode(own, reader.losses):
            if whole.info is None:
                reader.losses.add("no_message", offset)
            else:
                reader.message(whole.info, [_Held(part, own) for part in whole.parts or ()], offset)


def _read_files(reader: _Reader, files: list[Record]) -> None:
    """The messages and parts that lie in files of their own; they come sorted by name, which is by id."""
    messages: dict[str, _Info] = {}
    parts: dict[str, list[_Held]] = {}
    for record in files:
        *_, kind, folder, name = ("", "", *record.part.split("/"))
        if kind == "message":
            for info in _INFOS.decode(record, reader.losses):
                info.id = info.id or name.removesuffix(".json")
                messages[name.removesuffix(".json")] = info
        elif kind == "part":
            held = parts.setdefault(folder, [])
            held += [_Held(part, record) for part in _PARTS.decode(record, reader.losses)]
    for name in sorted(messages, key=lambda name: (_created(messages[name]), name)):
        reader.message(messages[name], parts.pop(name, []), None)
    for orphans in parts.values():
        reader.losses.add("orphan_part", None, len(orphans))


def _created(info: _Info) -> float:
    return float(min(info.time.created, 1e300)) if info.time and info.time.created is not None else 0.0


def _from_database(rows: Iterable[Record], source: Source) -> list[Session]:
    """The rows come by query, in each of them by session and in order."""
    readers: dict[str, _Reader] = {}
    strays = Losses()  # of rows that do not say whose they are
    joined = _Joined(source, readers, strays)
    for record in rows:
        if record.part in ("session", "session_v2"):
            losses = Losses()
            for meta in _METAS.decode(record, losses):
                if meta.id is None:
                    strays.add("no_session", None)
                else:
                    readers[meta.id] = _Reader(meta, source, losses)
            continue
        for row in _ROWS.decode(record, strays):
            if row.session_id is None:
                strays.add("no_session", None)
            elif record.part == "session_message":
                joined.reader(row.session_id).row(row)
            else:
                joined.add(row.session_id, row)
    joined.close()
    found = [reader for reader in readers.values() if not reader.is_empty]
    for loss in strays.result() if found else ():
        found[0].losses.add(loss.kind, loss.first_offset, loss.count)
    return [reader.session() for reader in found]


class _Joined:
    """Gathers the rows of one message: each has one part, and the message again."""

    def __init__(self, source: Source, readers: dict[str, _Reader], strays: Losses) -> None:
        self.source = source
        self.readers = readers
        self.strays = strays
        self.open: tuple[_Reader, str | None, list[_Info], list[_Held]] | None = None

    def reader(self, session: str) -> _Reader:
        if session not in self.readers:
            self.readers[session] = _Reader(_Meta(id=session), self.source, Losses())
        return self.readers[session]

    def add(self, session: str, row: _Row) -> None:
        reader = self.reader(session)
        if reader.is_v2:
            return
        if self.open is None or self.open[0] is not reader or self.open[1] != row.message_id:
            self.close()
            infos = _INFOS.decode(Record((row.message or "").encode(), None), reader.losses)
            self.open = (reader, row.message_id, infos[:1], [])
        if row.part is not None:
            record = Record(row.part.encode(), None)
            self.open[3].extend(_Held(part, record) for part in _PARTS.decode(record, reader.losses))

    def close(self) -> None:
        if self.open is not None:
            reader, name, infos, parts = self.open
            for info in infos:
                info.id = name
                reader.message(info, parts, None)
        self.open = None


# --- whose log --------------------------------------------------------------------------------------------


def sniff(sample: Sample) -> bool:
    if sample.tables:
        sessions = sample.tables & {"session", "session_v2"}
        return bool(sessions) and ({"message", "part"} <= sample.tables or "session_message" in sample.tables)
    return any(_is_export(value) or (sample.is_document and _is_session(value)) for value in sample.values)


def _is_session(value: object) -> bool:
    return (
        isinstance(value, dict)
        and str(value.get("id")).startswith("ses_")
        and isinstance(value.get("time"), dict)
        and ("projectID" in value or "directory" in value)
    )


def _is_export(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    info = value.get("info")
    if not isinstance(info, dict) or not isinstance(info.get("time"), dict):
        return False
    is_whole = all(isinstance(message, dict) and "info" in message for message in value["messages"][:5])
    return is_whole and not {"projectID", "directory", "slug"}.isdisjoint(info)


PARSER = Parser(
    agent="opencode",
    title="OpenCode",
    homes=(
        Home(".local/share/opencode", "*.db", "XDG_DATA_HOME", ".local/share"),
        Home(".local/share/opencode/storage/session", "**/*.json", "XDG_DATA_HOME", ".local/share"),
        Home(".local/share/kilo", "*.db", "XDG_DATA_HOME", ".local/share"),
        Home(".local/share/kilo/storage/session", "**/*.json", "XDG_DATA_HOME", ".local/share"),
    ),
    sniff=sniff,
    parse=parse,
    suffixes=(".jsonl", ".json", ".db"),
    bundle=Bundle("ses_*.json", ("../../message/{stem}/*.json", "../../part/{part}/*.json")),
    queries=(
        Query("session", "session", "select * from session"),
        Query("session_v2", "session_v2", "select * from session_v2"),
        Query("session_message", "session_message", "select * from session_message order by session_id, rowid"),
        # OpenCode itself reads messages by time and id, and their parts by id.
        Query(
            "message",
            "part",
            "select m.session_id, m.id as message_id, m.data as message, p.data as part from message m"
            " left join part p on p.message_id = m.id order by m.session_id, m.time_created, m.id, p.id",
        ),
    ),
)
