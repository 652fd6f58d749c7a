"""Message lists: what people keep who call a model's API themselves, in OpenAI's or Anthropic's spelling.

Every accepted shape (docs/formats/chat.md shows each) comes down to entries in order: messages, or the items
of OpenAI's Responses API. `_Builder` takes them one by one as JSON; a list in memory is encoded, entry by
entry, and then read like a file, but without places in it.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec

from demerit.model import Author, Body, CallStatus, Event, Message, Notice, Role, Session, ThinkingKind, ToolCall, Usage
from demerit.parsers.evidence import (
    INTERRUPT,
    PENDING,
    SUMMARIES,
    Judgement,
    by_claude_error,
    by_exit_code,
    category_of,
    is_cline_request,
    is_harness_text,
    is_mini_result,
    patch_paths,
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
    salvage,
    text_body,
    utf8_length,
    without_surrogates,
)

# --- whose it is ------------------------------------------------------------------------------------------

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))
# What other agents' lines, blocks and files have, and message lists have not.
_FOREIGN_KEYS = frozenset(("message", "messageId", "parts", "schema_version"))
_FOREIGN_BLOCKS = (
    "tool-call",
    "tool-result",
    "toolCall",
    "toolResult",
    "toolUse",
    "toolRequest",
    "toolResponse",
)
_FOREIGN_BODY_KEYS = frozenset(("info", "trajectory_format", "context_window", "traceId"))
_SNIFFED = 20  # entries of a list


def sniff(sample: Sample) -> bool:
    shapes = (_is_line, _is_list, _is_body)
    return bool(sample.values) and any(all(map(is_ours, sample.values)) for is_ours in shapes)


def _is_line(value: Any) -> bool:
    """Whether it is a message as a line of its own; of those with a type only Anthropic's responses are."""
    return _is_message(value) and ("type" not in value or "usage" in value or "stop_reason" in value)


def _is_list(value: Any) -> bool:
    entries = [item for item in value[:_SNIFFED] if isinstance(item, dict)] if isinstance(value, list) else []
    if any(map(is_mini_result, entries)):
        return False
    return bool(entries) and all(_is_message(item) or _is_item(item) for item in entries)


def _is_body(value: Any) -> bool:
    if not isinstance(value, dict) or not _FOREIGN_BODY_KEYS.isdisjoint(value):
        return False
    if str(value.get("id")).startswith("T-"):  # a thread of Amp's
        return False
    if isinstance(value.get("sessionId"), str) and value.get("agent") in ("lead", "subagent", "teammate"):
        return False  # Cline's command line
    if is_cline_request(value):
        return False
    choices = value.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return _is_message(choices[0].get("message"))
    if "messages" not in value and "model" in value and "type" not in value:
        return _is_list(value.get("input")) or _is_list(value.get("output"))
    return _is_list(value.get("messages"))


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or not _FOREIGN_KEYS.isdisjoint(value):
        return False
    role, content, calls = value.get("role"), value.get("content"), value.get("tool_calls")
    if not isinstance(role, str) or role not in _ROLES or value.get("type") not in (None, "message"):
        return False
    if isinstance(content, list):
        return not any(isinstance(block, dict) and block.get("type") in _FOREIGN_BLOCKS for block in content)
    if isinstance(calls, list):
        return all(isinstance(call, dict) and not {"function", "custom", "name"}.isdisjoint(call) for call in calls)
    says = ("content", "function_call", "tool_call_id", "refusal", "reasoning_content")
    return isinstance(content, str) or (content is None and not value.keys().isdisjoint(says))


def _is_item(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str) or "payload" in value:
        return False
    is_call = kind.endswith(("_call", "_call_output")) and ("call_id" in value or "status" in value)
    return is_call or (kind == "reasoning" and "summary" in value)


# --- the shapes -------------------------------------------------------------------------------------------

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Code = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**32)]
_Id = str | int | None
_Time = str | int | float | None


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None


class _CacheCreation(msgspec.Struct):
    ephemeral_5m_input_tokens: _Count | None = None
    ephemeral_1h_input_tokens: _Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    total_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None
    cache_read_input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_creation: _CacheCreation | None = None


class _Function(msgspec.Struct):
    """A call, the function in a call, or a tool of the request: each has a name, here or in `function`."""

    id: _Id = None
    type: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = NOTHING
    args: msgspec.Raw = NOTHING
    input: msgspec.Raw = NOTHING  # free text, of a custom tool
    function: _Function | None = None
    custom: _Function | None = None


class _Block(msgspec.Struct):
    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    thinking: msgspec.Raw = NOTHING
    signature: str | None = None
    data: msgspec.Raw = NOTHING
    id: _Id = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: _Id = None
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None


class _Choice(msgspec.Struct):
    message: msgspec.Raw = NOTHING
    finish_reason: str | None = None


class _Entry(msgspec.Struct):
    """A message, an item of the Responses API, or the body of a request or a response."""

    role: str | None = None
    type: str | None = None
    id: _Id = None
    model: str | None = None
    usage: _Usage | None = None
    stop_reason: str | None = None
    finish_reason: str | None = None
    timestamp: _Time = None
    created_at: _Time = None
    created: _Time = None
    ts: _Time = None
    content: msgspec.Raw = NOTHING
    refusal: str | None = None
    reasoning_content: msgspec.Raw = NOTHING
    reasoning: msgspec.Raw = NOTHING
    thinking: msgspec.Raw = NOTHING
    tool_calls: list[_Function] | None = None
    function_call: _Function | None = None
    # a tool's answer
    tool_call_id: _Id = None
    name: str | None = None
    is_error: bool | None = None
    status: str | None = None
    error: msgspec.Raw = NOTHING
    exit_code: _Code | None = None
    exitCode: _Code | None = None
    # an item
    call_id: _Id = None
    arguments: msgspec.Raw = NOTHING
    action: msgspec.Raw = NOTHING
    summary: msgspec.Raw = NOTHING
    encrypted_content: str | None = None
    # an item or a body
    input: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    # a body
    messages: msgspec.Raw = NOTHING
    system: msgspec.Raw = NOTHING
    instructions: msgspec.Raw = NOTHING
    tools: msgspec.Raw = NOTHING
    functions: msgspec.Raw = NOTHING
    choices: list[_Choice] | None = None

    @property
    def is_body(self) -> bool:
        if is_given(self.messages) or self.choices is not None:
            return True
        untyped = self.role is None and self.type in (None, "response")
        return untyped and (is_given(self.input) or is_given(self.output))


_ENTRIES = LineDecoder(_Entry)
_BLOCKS = LineDecoder(_Block)
_TOOLS = LineDecoder(_Function)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])

_TEXT = frozenset(("text", "input_text", "output_text", "refusal"))
# What a person attaches says something, as an image does.
_ATTACHED = frozenset(
    ("image", "image_url", "input_image", "document", "file", "input_file", "input_audio", "video_url")
)

# --- fixed texts ------------------------------------------------------------------------------------------

_COMMANDS = ("<command-name>", "<command-message>")
_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning|REASONING_SCRATCHPAD)>")
_SEARCHED = 200
_NO_RESULTS = Judgement(CallStatus.UNKNOWN, "one response alone holds no results")
_NO_STATUS = Judgement(CallStatus.UNKNOWN, "no status in the log")


def _origin(text: str) -> tuple[str, Notice | None, bool]:
    """Of a text in a user's message: what a person typed, the notice it is, whether a harness wrote it."""
    typed = without_wrappers(text)
    if starts_with_any(typed, (INTERRUPT,)):
        return text, "interrupt", True
    if starts_with_any(typed, SUMMARIES):
        return text, "compaction_summary", True
    is_injected = is_harness_text(typed) or starts_with_any(typed, _COMMANDS) or (not typed and bool(text))
    return (text if is_injected else typed), None, is_injected


# --- JSON -------------------------------------------------------------------------------------------------


def _plain(value: object) -> Any:
    """What to encode in place of an object that is no plain data: the message objects of the SDKs can say."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else str(value)


def _encoded(value: object) -> bytes | None:
    """`value` as JSON; None when it has no such form. Whatever the caller's objects raise goes no further."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except Exception:
        try:
            # Takes what msgspec does not: halves of surrogate pairs. Keys that are no text are left out.
            return json.dumps(value, default=_plain, skipkeys=True).encode()
        except Exception:
            return None


def _inside(raw: msgspec.Raw, record: Record) -> Record:
    """A value in `record` as a record of its own."""
    data = bytes(raw)
    at = record.data.find(data)
    return Record(data, None if record.offset is None or at < 0 else record.offset + at)


def _items(record: Record, losses: Losses) -> Iterator[Record]:
    """The items of a JSON list, each as a record of its own."""
    try:
        raws = _RAWS.decode(record.data)
    except BAD_CONTENT:
        for value in salvage(record, losses):
            for item in value if isinstance(value, list) else [value]:
                yield Record(_encoded(item) or b"null", None)
        return
    at = 0
    for raw in raws:
        data = bytes(raw)
        at = record.data.find(data, at)
        yield Record(data, None if record.offset is None else record.offset + at)
        at += len(data)


def _string(raw: msgspec.Raw) -> str | None:
    try:
        value = msgspec.json.decode(raw)
    except BAD_CONTENT:
        return None
    return value if isinstance(value, str) else None


def _arguments(raw: msgspec.Raw) -> tuple[Any, bool]:
    """The decoded arguments of a call, and whether they are the JSON object that they have to be."""
    text = _string(raw)
    if text is not None and not text.strip():
        return {}, True  # how many servers write a call without arguments
    try:
        value = msgspec.json.decode(raw if text is None else text)
    except RecursionError:
        return text, True  # too deep for us, which is no fault of the model's
    except BAD_CONTENT:
        try:
            # Takes what msgspec does not: halves of surrogate pairs, numbers of any size.
            value = without_surrogates(json.loads(bytes(raw) if text is None else text, parse_int=float))
        except (ValueError, RecursionError):
            return text, False
    return value, isinstance(value, dict)


# --- building a session -----------------------------------------------------------------------------------


class _Open(msgspec.Struct, gc=False):
    """A call whose result may still come."""

    call: ToolCall  # as it is without a result
    command: str | None = None
    problem: str | None = None  # what is broken about it, whatever its result
    answered: bool = False
    verdict: Judgement | None = None
    result: Body | None = None

    @property
    def key(self) -> tuple[str | None, str, str | None]:
        """Equal for copies of one call."""
        return self.call.call_id, self.call.name, self.call.input_hash


_Judge = Callable[[_Open], Judgement | None]
_NO_CALLS: deque[_Open] = deque()


class _Turn(msgspec.Struct, gc=False):
    """A message of which more may come."""

    role: Role
    author: Author
    at: datetime | None = None
    texts: list[str] = []
    has_image: bool = False
    notice: Notice | None = None
    model: str | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    calls: list[_Open] = []
    thinking: list[Body] = []
    thinking_bytes: dict[ThinkingKind, int] = {}

    def think(self, kind: ThinkingKind, size: int, body: Body | None) -> None:
        if size:
            self.thinking_bytes[kind] = self.thinking_bytes.get(kind, 0) + size
        if body is not None:
            self.thinking.append(body)


class _Builder:
    """Builds one session from entries in order."""

    def __init__(self, source: Source, losses: Losses, line: int = 1) -> None:
        self.source = source
        self.losses = losses
        self.line = line
        self.model: str | None = None
        self.tools: frozenset[str] | None = None
        self.turns: list[_Turn] = []
        self.events: list[Event] = []
        self.times: list[datetime] = []
        self.response: _Turn | None = None  # what the next item of the Responses API belongs to
        # By id: the last turn that called with it, and those calls of its that have no result. Some models
        # count ids anew in every turn, so a result belongs to the last turn with its id.
        self.waiting: dict[str, tuple[_Turn, deque[_Open]]] = {}
        self.latest: deque[_Open] = deque()  # the calls without a result of the last turn that called
        self.answers: dict[tuple[str | None, str, str | None], _Open] = {}
        self.early: dict[str, tuple[Record, _Judge, msgspec.Raw]] = {}  # results that came before their calls
        self.has_flags = False  # some result carries `is_error`

    def add(self, record: Record) -> None:
        for entry in _ENTRIES.decode(record, self.losses):
            self.add_entry(entry, record)

    def add_list(self, record: Record) -> None:
        for item in _items(record, self.losses):
            self.add(item)

    def add_entry(self, entry: _Entry, record: Record) -> None:
        at = self._time(entry, record)
        if entry.role in ("tool", "function"):
            self._tool_message(entry, record)
        elif entry.role == "user":
            self._user(entry.content, record, at)
        elif entry.role == "assistant":
            self._assistant(entry, record, at)
        elif entry.role in ("system", "developer"):
            self._system(entry.content, record, at)
        elif entry.role is None and entry.type is not None and not entry.is_body:
            self._item(entry, entry.type, record, at)
        else:
            self.losses.add("unknown_role" if entry.role else "not_a_message", record.offset)

    def add_body(self, body: _Entry, record: Record) -> None:
        self.model = body.model
        self.tools = self._tool_names(body, record)
        for raw in (body.system, body.instructions):
            if is_given(raw):
                self._system(raw, record, None)
        for raw in (body.messages, body.input):
            if bytes(raw)[:1] == b'"':
                self._user(raw, record, None)
            elif is_given(raw):
                self.add_list(_inside(raw, record))
        self.response = None
        asked = len(self.turns)
        choices = body.choices or []
        if choices:
            self.add(_inside(choices[0].message, record))
        if len(choices) > 1:  # other answers to the same question
            self.losses.add("unused_choice", record.offset, len(choices) - 1)
        if is_given(body.output):
            self.add_list(_inside(body.output, record))
        at = self._time(body, record)
        for turn in self.turns[asked : asked + 1]:
            turn.at = turn.at or at
            turn.usage = turn.usage or _usage(body.usage, body.id)
            turn.stop_reason = turn.stop_reason or (choices[0].finish_reason if choices else None)

    def _tool_names(self, body: _Entry, record: Record) -> frozenset[str] | None:
        """The tools that the model may call; None when the request does not name every one."""
        names: set[str] = set()
        for raw in (body.tools, body.functions):
            for item in _items(_inside(raw, record), self.losses) if is_given(raw) else ():
                for tool in _TOOLS.decode(item, self.losses):
                    name = tool.function.name if tool.function else tool.name
                    if not name or tool.type == "namespace":
                        return None
                    names.add(name)
        return frozenset(names) or None

    # messages

    def _blocks(self, content: msgspec.Raw, record: Record) -> Iterator[tuple[_Block, Record]]:
        """The blocks of a message's content, each with its place; a text is one block."""
        first = bytes(content)[:1]
        if first == b'"':
            yield _Block(text=_string(content)), record
        elif first == b"[":
            for item in _items(_inside(content, record), self.losses):
                for block in _BLOCKS.decode(item, self.losses):
                    yield block, item
        elif is_given(content):
            self.losses.add("wrong_type", record.offset)

    def _text(self, raw: msgspec.Raw, record: Record) -> str:
        text = _string(raw)
        if text is None and is_given(raw):
            self.losses.add("wrong_type", record.offset)
        return text or ""

    def _system(self, content: msgspec.Raw, record: Record, at: datetime | None) -> None:
        texts = [block.text for block, _ in self._blocks(content, record) if block.text]
        self._begin(_Turn("system", "harness", at, texts))

    def _user(self, content: msgspec.Raw, record: Record, at: datetime | None) -> None:
        typed: list[str] = []
        injected: list[str] = []
        notice: Notice | None = None
        has_image = has_results = False
        for block, place in self._blocks(content, record):
            if block.type == "tool_result":
                has_results = True
                self._block_result(block, place)
            elif block.type in _TEXT:
                text, said, is_injected = _origin(block.text or "")
                (injected if is_injected else typed).append(text)
                notice = notice or said
            elif block.type in _ATTACHED:
                has_image = True
            else:
                self.losses.add("unknown_type", place.offset)
        if notice is not None:
            self._event("interrupt" if notice == "interrupt" else "compaction", at, len(self.turns) - 1)
        if has_image or any(text and not text.isspace() for text in typed):
            self._begin(_Turn("user", "human", at, typed, has_image))
        elif injected:
            self._begin(_Turn("context", "harness", at, injected, notice=notice))
        elif not has_results:
            self._begin(_Turn("user", "human", at, typed))

    def _assistant(self, entry: _Entry, record: Record, at: datetime | None) -> None:
        turn = _Turn("assistant", "agent", at, model=entry.model or self.model)
        # The Responses API puts a response into several items; a response of Anthropic's is whole.
        is_item = entry.type == "message" and not (entry.model or entry.usage or entry.stop_reason)
        turn = self._respond(turn) if is_item else self._begin(turn)
        for raw in (entry.reasoning_content, entry.reasoning, entry.thinking):
            if (thought := self._text(raw, record)) and not turn.thinking_bytes:
                turn.think("text", utf8_length(thought), raw_body(raw, record, self.source))
        texts = [entry.refusal] if entry.refusal else []
        for block, place in self._blocks(entry.content, record):
            self._assistant_block(turn, block, place, texts)
        text = self._without_thought(turn, "\n".join(texts))
        turn.texts += [text] if text else []
        if starts_with_any(text, SUMMARIES):
            turn.role, turn.author, turn.notice = "context", "harness", "compaction_summary"
            self._event("compaction", at, len(self.turns) - 2)
        for call in entry.tool_calls or ():
            self._tool_call(turn, call, record)
        if entry.function_call is not None:
            self._call(turn, entry.function_call.name, None, entry.function_call.arguments, record)
        turn.usage = turn.usage or _usage(entry.usage, entry.id if entry.type == "message" else None)
        turn.stop_reason = entry.stop_reason or entry.finish_reason

    def _assistant_block(self, turn: _Turn, block: _Block, place: Record, texts: list[str]) -> None:
        kind = block.type
        if kind in _TEXT:
            texts.append(block.text or block.refusal or "")
        elif kind in ("thinking", "redacted_thinking"):
            text = self._text(block.thinking, place)
            sealed = block.signature or self._text(block.data, place)
            kept = raw_body(block.thinking if text else block.data, place, self.source)
            turn.think("text", utf8_length(text), kept)
            turn.think("signature", len(sealed), None)
        elif kind.endswith("tool_use"):  # those of the server are in no list of ours
            self._call(turn, block.name, block.id, block.input, place, is_listed=kind == "tool_use")
        elif kind.endswith("tool_result"):
            self._block_result(block, place)
        elif kind not in _ATTACHED:
            self.losses.add("unknown_type", place.offset)

    def _without_thought(self, turn: _Turn, text: str) -> str:
        """The text of an answer without the reasoning that it opens with."""
        opening = _THOUGHT.match(text)
        close = text.find(f"</{opening[1]}>", opening.end()) if opening else -1
        if opening is None or close < 0:  # without the closing mark all of the answer would vanish
            return text
        if thought := text[opening.end() : close].strip():
            turn.think("text", utf8_length(thought), text_body(thought, self.source))
        return text[close + len(opening[1]) + 3 :].lstrip()

    # items of the Responses API

    def _respond(self, turn: _Turn) -> _Turn:
        """The turn that an item of a response belongs to: `turn`, when it is the first."""
        self.response = self.response or self._begin(turn)
        return self.response

    def _item(self, entry: _Entry, kind: str, record: Record, at: datetime | None) -> None:
        if kind.endswith("_call_output"):
            # The status of such an item says that the item is whole, not how the call went.
            self.response = None
            self._answer(entry.call_id, None, record, lambda _: _NO_STATUS, entry.output)
            return
        if kind != "reasoning" and not kind.endswith("_call"):
            self.losses.add("unknown_type", record.offset)
            return
        turn = self._respond(_Turn("assistant", "agent", at, model=self.model))
        if kind == "reasoning":
            raw = entry.content if bytes(entry.summary) in (b"[]", b"null") else entry.summary
            text = json_head(bytes(raw), len(bytes(raw)))
            turn.think("text", utf8_length(text), raw_body(raw, record, self.source))
            turn.think("ciphertext", len(entry.encrypted_content or ""), None)
        elif kind in ("function_call", "custom_tool_call"):
            is_text = kind == "custom_tool_call"
            raw = entry.input if is_text else entry.arguments
            self._call(turn, entry.name, entry.call_id, raw, record, is_text=is_text)
        else:
            raw = entry.action if is_given(entry.action) else entry.arguments
            name = entry.name or kind
            made = self._call(turn, name, entry.call_id, raw, record, is_text=True, is_listed=False)
            if entry.call_id is None:  # the server ran it, and nothing else will tell how it went
                made.verdict = _by_fields(entry, "completed")

    # calls and results

    def _tool_call(self, turn: _Turn, call: _Function, record: Record) -> None:
        made = call.function or call.custom or call
        if made is call and not call.name:
            self.losses.add("unknown_call", record.offset)
            return
        is_text = call.custom is not None
        raw = next((raw for raw in (made.arguments, made.args, made.input) if is_given(raw)), NOTHING)
        self._call(turn, made.name, call.id, raw, record, is_text=is_text)

    def _call(
        self,
        turn: _Turn,
        name: str | None,
        call_id: _Id,
        raw: msgspec.Raw,
        record: Record,
        is_text: bool = False,
        is_listed: bool = True,
    ) -> _Open:
        """A new call of `turn`. is_text: any input will do; is_listed: the request has to name the tool."""
        value, fits = _arguments(raw) if is_given(raw) else (None, True)
        fields = value if isinstance(value, dict) else {"input": _string(raw)}
        category = category_of(name or "")
        paths = paths_in(fields)
        if category == "edit" and not paths:
            paths = patch_paths("\n".join(text for text in fields.values() if isinstance(text, str)))
        command = fields.get("command", fields.get("cmd"))
        identity = None if call_id in (None, "") else str(call_id)
        made = _Open(
            ToolCall(
                message_ordinal=0,
                index=len(turn.calls),
                name=name or "",
                category=category,
                status=PENDING.status,
                evidence=PENDING.evidence,
                call_id=identity,
                input=raw_body(raw, record, self.source),
                input_hash=input_hash(value),
                file_paths=paths,
                at=turn.at,
            ),
            command if isinstance(command, str) else None,
        )
        if not name:
            made.problem = "no tool name"
        elif is_listed and self.tools is not None and name not in self.tools:
            made.problem = "no tool of this name in the request"
        elif not fits and not is_text:
            made.problem = "arguments are no JSON object"
        if not turn.calls:
            self.latest = deque()
        turn.calls.append(made)
        self.latest.append(made)
        if identity is not None:
            if identity not in self.waiting or self.waiting[identity][0] is not turn:
                self.waiting[identity] = turn, deque()
            self.waiting[identity][1].append(made)
            if identity in self.early:
                self._answer(identity, None, *self.early.pop(identity))
        return made

    def _answer(self, call_id: _Id, name: str | None, record: Record, judge: _Judge, raw: msgspec.Raw) -> None:
        """Gives a result to its call; one without an id to the first open call of that name."""
        identity = None if call_id in (None, "") else str(call_id)
        if identity is not None and identity not in self.waiting and identity not in self.early:
            self.early[identity] = record, judge, raw
            return
        queue = self.latest if identity is None else self.waiting.get(identity, (None, _NO_CALLS))[1]
        # Results come in the order of their calls, or nearly: looking further would take a time of n * n.
        fits = (open_ for open_ in islice(queue, _SEARCHED) if not open_.answered)
        if identity is None and name:
            fits = (open_ for open_ in fits if open_.call.name == name)
        made = next(fits, None)
        while queue and (queue[0].answered or queue[0] is made):
            queue.popleft()
        if made is None:  # of two results of one call, as a replay has them, the first stands
            self.losses.add("repeated_result" if identity else "orphan_result", record.offset)
            return
        made.answered = True
        made.result = raw_body(raw, record, self.source)
        made.verdict = judge(made)
        self.answers[made.key] = made

    def _tool_message(self, entry: _Entry, record: Record) -> None:
        def judge(made: _Open) -> Judgement:
            code = entry.exit_code if entry.exit_code is not None else entry.exitCode
            if code is None:
                verdict = _by_fields(entry)
                if verdict is _NO_STATUS and str(entry.tool_call_id).startswith("toolu_"):
                    return _by_claude_text(json_head(bytes(entry.content), 2048), made.command)
                return verdict
            return by_exit_code(made.command, code, json_head(bytes(entry.content), 2048), "exit_code")

        self.response = None
        self._answer(entry.tool_call_id, entry.name, record, judge, entry.content)

    def _block_result(self, block: _Block, record: Record) -> None:
        is_own = block.type in ("tool_result", "mcp_tool_result")
        self.has_flags |= is_own and block.is_error is not None

        def judge(made: _Open) -> Judgement | None:
            return _by_block(block, made.command) if is_own else _by_server(block)

        self._answer(block.tool_use_id, None, record, judge, block.content)

    # the rest

    def _begin(self, turn: _Turn) -> _Turn:
        self.response = None
        self.turns.append(turn)
        return turn

    def _event(self, kind: Literal["interrupt", "compaction"], at: datetime | None, after: int) -> None:
        self.events.append(Event(kind, at, after if after >= 0 else None))

    def _time(self, entry: _Entry, record: Record) -> datetime | None:
        values = (entry.timestamp, entry.created_at, entry.created, entry.ts)
        found = parse_time(next((v for v in values if v is not None), None), self.losses, record.offset)
        self.times += [found] if found else []
        return found

    def session(self, source_id: str) -> Session:
        for record, _, _ in self.early.values():
            self.losses.add("orphan_result", record.offset)
        return Session(
            agent=PARSER.agent,
            source_id=source_id,
            messages=tuple(self._message(ordinal, turn) for ordinal, turn in enumerate(self.turns)),
            started=min(self.times, default=None),
            ended=max(self.times, default=None),
            modified=self.source.modified,
            events=tuple(self.events),
            losses=self.losses.result(),
        )

    def _message(self, ordinal: int, turn: _Turn) -> Message:
        kept = kept_text("\n".join(turn.texts), self.source, whole=turn.role == "user")
        # Where the reasoning is sealed, its text is a summary at most.
        kinds: tuple[ThinkingKind, ...] = ("signature", "ciphertext", "text")
        kind = next((kind for kind in kinds if kind in turn.thinking_bytes), None)
        return Message(
            ordinal=ordinal,
            role=turn.role,
            author=turn.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=turn.has_image,
            calls=tuple(self._settled(made, ordinal) for made in turn.calls),
            thinking=tuple(turn.thinking),
            thinking_bytes=turn.thinking_bytes[kind] if kind else 0,
            thinking_kind=kind,
            model=turn.model,
            at=turn.at,
            usage=turn.usage,
            stop_reason=turn.stop_reason,
            notice=turn.notice,
        )

    def _settled(self, made: _Open, ordinal: int) -> ToolCall:
        # A copy of a call has that call's result.
        answer = made if made.answered or made.call.call_id is None else self.answers.get(made.key, made)
        verdict = answer.verdict
        if made.problem is not None:
            verdict = Judgement(CallStatus.INVALID, made.problem)
        elif verdict is None and answer.answered:
            absent = Judgement(CallStatus.OK, "no is_error, where other results carry it")
            verdict = absent if self.has_flags else _NO_STATUS
        is_lone = len(self.turns) == 1  # a model's answer without the conversation around it
        status, evidence, exit_code = verdict or (_NO_RESULTS if is_lone else PENDING)
        return msgspec.structs.replace(
            made.call,
            message_ordinal=ordinal,
            status=status,
            evidence=evidence,
            exit_code=exit_code,
            result=answer.result,
        )


# --- how a call went --------------------------------------------------------------------------------------


def _by_flag(name: str, is_error: bool) -> Judgement:
    return Judgement(CallStatus.FAILED if is_error else CallStatus.OK, f"{name} {str(is_error).lower()}")


def _by_fields(entry: _Entry, *good: str) -> Judgement:
    """By the fields that some dialects put beside a result. good: further status words that mean success."""
    if entry.is_error is not None:
        return _by_flag("is_error", entry.is_error)
    error, word = bytes(entry.error), (entry.status or "").lower()
    if error not in (b"null", b"false", b'""', b"{}", b"[]"):
        return Judgement(CallStatus.FAILED, "error field")
    if word in ("ok", "success", *good):
        return Judgement(CallStatus.OK, f"status {word}")
    if word in ("error", "failed", "failure"):
        return Judgement(CallStatus.FAILED, f"status {word}")
    return _by_flag("error", False) if error == b"false" else _NO_STATUS


def _by_claude_text(text: str, command: str | None) -> Judgement:
    """For a log of Claude Code's that was made into a list without its flags: by the texts that only it writes."""
    is_fixed = text.startswith(("<tool_use_error>", "The user doesn't want to ")) or re.match(r"Exit code [1-9]", text)
    return by_claude_error(text, command) if is_fixed else _NO_STATUS


def _by_block(block: _Block, command: str | None) -> Judgement | None:
    """By the flag of Anthropic's result block; None when it has none."""
    if not block.is_error:
        return None if block.is_error is None else _by_flag("is_error", False)
    return by_claude_error(json_head(bytes(block.content), 2048), command)


class _ServerResult(msgspec.Struct):
    type: Any = None
    error_code: Any = None
    return_code: Any = None


def _by_server(block: _Block) -> Judgement:
    """How a call went that the model's server ran: an error is a content of a type of its own."""
    try:
        found = msgspec.json.decode(block.content, type=_ServerResult)
    except BAD_CONTENT:  # a list of what was found
        found = _ServerResult()
    if str(found.type).endswith("_error"):
        return Judgement(CallStatus.FAILED, f"error_code {found.error_code}"[:80])
    if isinstance(found.return_code, int):
        return by_exit_code(None, found.return_code, "", "return_code")
    return Judgement(CallStatus.OK, f"{block.type} without an error")


_LONG_ID = 16


def _usage(usage: _Usage | None, key: _Id) -> Usage | None:
    """Usage in our classes. OpenAI counts cached tokens within the input, Anthropic beside it."""
    if usage is None:
        return None
    sent, made = usage.input_tokens, usage.output_tokens
    into, out = usage.input_tokens_details, usage.output_tokens_details
    is_chat = sent is None and made is None
    if is_chat:
        sent, made = usage.prompt_tokens, usage.completion_tokens
        into, out = usage.prompt_tokens_details, usage.completion_tokens_details
    if sent is None and made is None:
        return None
    sent, made = sent or 0, made or 0
    details, created = into or _Details(), usage.cache_creation or _CacheCreation()
    read = details.cached_tokens or usage.cache_read_input_tokens or 0
    hour = created.ephemeral_1h_input_tokens or 0
    written = details.cache_write_tokens or usage.cache_creation_input_tokens or 0
    written = max(written, hour + (created.ephemeral_5m_input_tokens or 0))
    reasoning = out.reasoning_tokens if out else None
    if reasoning and usage.total_tokens == sent + made + reasoning:
        made += reasoning  # the total tells that this server counts reasoning beside the output
    if is_chat or into is not None:
        sent = max(0, sent - read - written)
    # Small servers count their ids anew, or draw them from a hat: those tell no two requests apart.
    identity = str(key) if len(str(key)) >= _LONG_ID else None
    return Usage(sent, read, written - hour, hour, made, reasoning, identity)


# --- entrance ---------------------------------------------------------------------------------------------

_LIST = re.compile(rb"[\s\x00\xef\xbb\xbf]*\[")


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The conversations of a source: each list, each body, and each run of lines with single messages."""
    found: list[_Builder] = []
    spare = Losses()  # of the next conversation
    open_list: _Builder | None = None

    def begin(line: int) -> _Builder:
        nonlocal spare
        found.append(_Builder(source, spare, line))
        spare = Losses()
        return found[-1]

    for line, record in enumerate(records, 1):
        if _LIST.match(record.data):
            open_list = None
            begin(line).add_list(record)
            continue
        for entry in _ENTRIES.decode(record, open_list.losses if open_list else spare):
            if entry.is_body:
                open_list = None
                begin(line).add_body(entry, record)
            else:
                open_list = open_list or begin(line)
                open_list.add_entry(entry, record)
    if found:
        for loss in spare.result():
            found[-1].losses.add(loss.kind, loss.first_offset, loss.count)
    if len(found) == 1:
        return [found[0].session(source.name)]
    return [builder.session(f"{source.name}#{builder.line}") for builder in found]


def parse_body(body: Mapping[str, object], source: Source) -> list[Session]:
    """The session that a request body or a response in memory is. It is only read."""
    data = _encoded(body)
    if data is None:
        builder = _Builder(source, Losses())
        builder.losses.add("not_an_object")
        return [builder.session(source.name)]
    return parse([Record(data, None)], source)


def parse_messages(messages: Iterable[object], source: Source) -> Session:
    """The session that a list in memory is. It is only read; an entry that is no object counts as a loss."""
    builder = _Builder(source, Losses())
    for message in messages:
        data = _encoded(message)
        if data is None:
            builder.losses.add("not_an_object")
        else:
            builder.add(Record(data, None))
    return builder.session(source.name)


PARSER = Parser(
    agent="chat",
    title="Message list",
    homes=(),
    sniff=sniff,
    parse=parse,
    coverage=Coverage(
        statuses="partly",
        exit_codes="partly",
        declined="partly",
        usage="partly",
        models="partly",
        times="partly",
        subagents="no",
        compaction="partly",
        thinking="partly",
    ),
)
