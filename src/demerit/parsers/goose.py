"""Goose: an SQLite database of all sessions, before that a JSONL file each, and exports as one JSON object.

A message is a row or a line with its content as typed blocks. One response of the model is written as several
rows, one for each of its tool calls, with the result behind each; they are put together again here.
docs/formats/goose.md tells what is read, what is not, and how each fact is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, Session, ToolCall, Usage
from demerit.parsers import evidence, records
from demerit.parsers.evidence import PENDING, Judgement
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Home,
    LineDecoder,
    Losses,
    Parser,
    Query,
    Record,
    Sample,
    Source,
    json_head,
    token_count,
)

# --- the objects, as far as they are used -----------------------------------------------------------------


class _Call(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = NOTHING


class _Request(msgspec.Struct):
    status: str | None = None
    value: _Call | None = None
    error: msgspec.Raw = NOTHING


class _Response(msgspec.Struct):
    status: str | None = None
    value: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class _Value(msgspec.Struct):
    """A tool's result; older versions logged its content alone."""

    content: msgspec.Raw = NOTHING
    isError: bool | None = None
    structuredContent: msgspec.Raw = NOTHING


class _Shell(msgspec.Struct):
    exit_code: int | None = None
    timed_out: bool | None = None


class _Block(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    text: str | None = None
    toolCall: _Request | None = None
    toolResult: _Response | None = None
    thinking: msgspec.Raw = NOTHING
    signature: str | None = None
    data: msgspec.Raw = NOTHING
    notificationType: str | None = None
    msg: str | None = None
    message: str | None = None


class _Inference(msgspec.Struct):
    requestedModel: str | None = None
    resolvedModel: str | None = None


class _Counts(msgspec.Struct):
    inputTokens: int | None = None
    outputTokens: int | None = None
    totalTokens: int | None = None
    cacheReadTokens: int | None = None
    cacheWriteTokens: int | None = None


class _Metadata(msgspec.Struct):
    userVisible: bool | None = None
    agentVisible: bool | None = None
    turnContext: msgspec.Raw = NOTHING
    inference: _Inference | None = None
    usage: _Counts | None = None


class _Line(msgspec.Struct):
    """A message, or the first line of a JSONL file, or an export."""

    id: str | None = None
    role: str | None = None
    created: int | float | None = None
    content: list[_Block] | None = None
    metadata: _Metadata | None = None
    working_dir: str | None = None
    conversation: msgspec.Raw = NOTHING


class _Row(msgspec.Struct):
    """A message in the database. Columns were added over time."""

    id: int | None = None
    message_id: str | None = None
    session_id: str | None = None
    role: str | None = None
    created_timestamp: int | float | None = None
    content_json: str | None = None
    metadata_json: str | None = None


class _Tokens(msgspec.Struct):
    """Counts as sessions and the ledger have them: what is read from and written to the cache is in the input."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Ledger(msgspec.Struct):
    id: int | None = None
    session_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    is_compaction: bool | int | None = None


class _ModelConfig(msgspec.Struct):
    model_name: str | None = None


class _Meta(msgspec.Struct):
    """A session: a row, the first line of a JSONL file, or an export."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    session_type: str | None = None
    working_dir: str | None = None
    created_at: str | int | float | None = None
    schedule_id: str | None = None
    parent_session_id: str | None = None
    model_config_json: str | None = None
    model_config: _ModelConfig | None = None
    accumulated_input_tokens: int | None = None
    accumulated_output_tokens: int | None = None
    accumulated_total_tokens: int | None = None
    accumulated_cache_read_tokens: int | None = None
    accumulated_cache_write_tokens: int | None = None
    accumulated_usage: _Tokens | None = None


_LINES = LineDecoder(_Line)
_ROWS = LineDecoder(_Row)
_LEDGER = LineDecoder(_Ledger)
_METAS = LineDecoder(_Meta)
_CONFIGS = LineDecoder(_ModelConfig)
_METADATA = LineDecoder(_Metadata)
_VALUES = LineDecoder(_Value)
_SHELLS = LineDecoder(_Shell)
_BLOCKS = msgspec.json.Decoder(list[_Block])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])

# --- fixed forms ------------------------------------------------------------------------------------------

# How the text of a result begins, whatever its status.
_FORMS = (
    (
        "The user has declined to run this tool",
        Judgement(CallStatus.DECLINED, "text: the user declined"),
    ),
    (
        "Let the user know the tool call was skipped in goose chat mode",
        Judgement(CallStatus.DECLINED, "text: chat mode runs no tools"),
    ),
    (
        "Interrupted by the user to make a correction",
        Judgement(CallStatus.CANCELLED, "text: interrupted by the user"),
    ),
)
_INVALID = re.compile(
    r"(?:Execution failed: )?(?:-3260[12]\b|Invalid parameters|Tool not found|The tool call could not be parsed"
    r"|Tool '[^'\n]{1,200}' (?:is not available|was not advertised))"
)
_EXITED = re.compile(r"Command exited with code (\d{1,9})\s*\Z")

# What Goose says in the model's place.
_INTERRUPTED = (
    "The existing call to ",
    "We interrupted the existing call to ",
    "Interrupted before the model replied",
    "Yes — what would you like me to do?",
)
_API_ERROR = ("Ran into this error",)
_LIMIT = ("I've reached the maximum number of actions",)
_COMPACTED = ("Your context was compacted", "The previous message contains a summary")
# Commands of the program, and what it asks for itself.
_COMMAND = re.compile(r"(?:/(?:compact|summarize|clear|prompts?|endplan)\b|Please compact this conversation)")

_DEFAULT_TITLE = re.compile(r"(?:New Chat|CLI Session|ACP Session|New session(?: \d+)?)?")
_TIME_NAME = re.compile(r"\d{8}_\d{6}")
_BROKEN_NAME = "unparseable_tool_call"

_OF_THE_MODEL = frozenset("text toolRequest frontendToolRequest thinking reasoning redactedThinking".split())
# `toolResponse` and `image` are read where they count.
_UNREAD_BLOCKS = frozenset(
    (
        "toolResponse image document toolConfirmationRequest actionRequired systemNotification "
        "contextLengthExceeded summarizationRequested"
    ).split()
)

_BUILT_IN = frozenset(
    "developer platform todo memory computercontroller subagent dynamic_task summon analyze extensionmanager".split()
)
_CATEGORIES: dict[str, Category] = {
    "tree": "search",
    "analyze": "search",
    "list_windows": "read",
    "screen_capture": "read",
    "image_processor": "read",
    "todo_write": "plan",
    "todo_read": "plan",
    "execute_task": "agent",
    "create_task": "agent",
    "web_scrape": "web",
}
_TEXT_EDITOR: dict[str, Category] = {"view": "read", "write": "write", "create": "write"}


def _category(name: str, arguments: Any) -> Category:
    """What kind of work a tool does. The name has the extension's in front, but for newer built-in tools."""
    extension, _, tool = name.rpartition("__")
    if extension and extension not in _BUILT_IN:
        return "mcp"
    if tool == "text_editor":
        return _TEXT_EDITOR.get(str(arguments.get("command")), "edit") if isinstance(arguments, dict) else "edit"
    return _CATEGORIES.get(tool) or evidence.category_of(tool)


def _usage(
    key: str | None,
    fresh: int | None,
    output: int | None,
    total: int | None,
    read: int | None,
    written: int | None,
) -> Usage | None:
    whole, out, from_cache, to_cache = token_count(fresh), token_count(output), token_count(read), token_count(written)
    cached = from_cache + to_cache
    # Some providers count the cache beside the input.
    is_beside = cached > whole or (cached > 0 and total == whole + out + cached)
    found = Usage(
        input_tokens=whole if is_beside else whole - cached,
        cache_read_tokens=from_cache,
        cache_write_5m_tokens=to_cache,
        output_tokens=out,
        key=key,
    )
    return None if found.is_empty else found


def _numbers(usage: Usage) -> tuple[int, int]:
    return usage.context_tokens, usage.output_tokens


# --- reading ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Draft:
    """A message while more of its rows may follow."""

    role: Role
    author: Author
    at: datetime | None
    texts: dict[str, None] = field(default_factory=dict)
    """Each once: rows of one response may repeat what came before."""
    notice: Notice | None = None
    has_image: bool = False
    is_hidden: bool = False
    """The person does not see it: the model does."""
    calls: list[_Asked] = field(default_factory=list)
    is_answered: bool = False
    thinking: dict[str, Body | None] = field(default_factory=dict)
    """By text: each row of a response repeats it."""
    signatures: set[str] = field(default_factory=set)
    model: str | None = None
    usage: Usage | None = None


@dataclass(slots=True, eq=False)
class _Asked:
    """A tool call, whose result may still come."""

    name: str
    call_id: str | None
    at: datetime | None
    category: Category = "other"
    command: str | None = None
    input: Body | None = None
    input_hash: str | None = None
    paths: tuple[str, ...] = ()
    is_poll: bool = False
    verdict: Judgement = PENDING
    is_answered: bool = False
    result: Body | None = None
    original: _Asked | None = None
    """The first call with this id, which has the result of all its copies."""


class _Reader:
    """Builds one session from its messages, which come in order."""

    def __init__(self, meta: _Meta, source: Source, losses: Losses) -> None:
        self.meta = meta
        self.source = source
        self.losses = losses
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.calls: dict[str, _Asked] = {}
        self.response: _Draft | None = None
        self.ledger: list[tuple[Usage, str | None]] = []
        self.loose: list[Usage] = []
        self.prompt_text: str | None = None
        self.is_compacted = False  # and no response since
        self.created = self.time(meta.created_at)
        self.first = self.last = self.created
        self.name = meta.id or source.name
        # A newer name counts the sessions of a day on one machine, and so is not unique; an older one is a time.
        is_unique = self.created is None or _TIME_NAME.fullmatch(self.name)
        self.key = self.name if is_unique else f"{self.name}:{int(self.created.timestamp())}"  # type: ignore[union-attr]
        self.is_child = meta.session_type == "sub_agent" or bool(meta.parent_session_id)
        by_program = meta.session_type in ("scheduled", "hidden") or bool(meta.schedule_id)
        self.asks: Author = "agent" if self.is_child else "harness" if by_program else "human"
        self.models: dict[str, None] = {}  # that the log names, but not with a message
        configured = self.configured()
        if configured:
            self.models[configured] = None
        self.body_at = 0  # where in the record the last body stands: the next one stands behind it
        self.record = Record(b"", None)

    def time(self, value: str | int | float | None) -> datetime | None:
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?", value):
            value += "Z"  # as SQLite writes it, which is in UTC
        return records.parse_time(value, self.losses)

    def configured(self) -> str | None:
        config = self.meta.model_config
        if self.meta.model_config_json:
            config = next(iter(_CONFIGS.decode(Record(self.meta.model_config_json.encode(), None), self.losses)), None)
        return config.model_name if config else None

    def note(self, kind: Any, at: datetime | None, detail: str = "") -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def add(self, role: Role, author: Author, text: str, at: datetime | None, notice: Notice | None = None) -> _Draft:
        draft = _Draft(role, author, at, {text: None}, notice)
        self.drafts.append(draft)
        return draft

    def message(self, line: _Line, record: Record) -> None:
        self.record = record
        self.body_at = 0
        at = self.time(line.created)
        if at is not None:
            self.first = at if self.first is None else min(self.first, at)
            self.last = at if self.last is None else max(self.last, at)
        blocks = line.content or []
        metadata = line.metadata or _Metadata()
        for block in blocks:
            if block.type == "toolResponse":
                self.answer(block)
        self.body_at = 0
        if line.role == "user":
            self.user(blocks, metadata, at)
        elif line.role == "assistant":
            self.assistant(line, blocks, metadata, at)
        else:
            self.losses.add("unknown_type" if line.role else "no_type", record.offset)

    # what comes under the user's role

    def user(self, blocks: list[_Block], metadata: _Metadata, at: datetime | None) -> None:
        texts = [block.text for block in blocks if block.type == "text" and block.text]
        has_image = any(block.type == "image" for block in blocks)
        for block in blocks:
            self.aside(block, at)
        if not texts and (not has_image or any(block.type == "toolResponse" for block in blocks)):
            return
        text = "\n".join(texts)
        kept = evidence.without_wrappers(text)
        self.response = None
        for_model = metadata.userVisible is False and metadata.agentVisible is not False
        no_words = bool(text.strip()) and not kept
        if for_model or records.is_given(metadata.turnContext) or no_words or evidence.is_harness_text(text):
            self.add("context", "harness", text, at).is_hidden = for_model
        elif _COMMAND.match(text):
            self.add("context", "harness", text, at)
        elif self.is_compacted and text == self.prompt_text:
            pass  # said again behind the summary, for the model
        else:
            self.prompt_text = text
            self.add("user", self.asks, kept, at).has_image = has_image

    def answer(self, block: _Block) -> None:
        call = self.calls.get(block.id or "")
        if self.response is not None:
            self.response.is_answered = True
        if call is None:
            self.losses.add("orphan_result", self.record.offset)
        elif not call.is_answered:  # of two results the first stands
            call.is_answered = True
            response = block.toolResult or _Response()
            raw = response.error if response.status == "error" else response.value
            found = self.value(raw)
            call.result = self.body(found.content)
            call.verdict = self.judge(call, response, found)

    def value(self, raw: msgspec.Raw) -> _Value:
        if bytes(memoryview(raw)[:1]) != b"{":
            return _Value(content=raw)
        return next(iter(_VALUES.decode(Record(bytes(raw), None), self.losses)), _Value())

    def judge(self, call: _Asked, response: _Response, value: _Value) -> Judgement:
        content = bytes(value.content)
        head = json_head(content, 2048)
        for beginnings, form in _FORMS:
            if head.startswith(beginnings):
                return form
        if call.verdict is not PENDING:
            return call.verdict  # the request was broken
        is_error = response.status == "error" or value.isError is True
        line = head[:80].partition("\n")[0]
        if is_error and _INVALID.match(head):
            return Judgement(CallStatus.INVALID, f"text: {line}")
        if call.category == "shell":
            found = self.by_exit(call, content, head, value, is_error)
            if found is not None:
                return found
        if response.status == "error":
            return Judgement(CallStatus.FAILED, f"toolResult status error: {line}")
        if value.isError:
            return Judgement(CallStatus.FAILED, "isError true")
        if call.category == "shell":
            return Judgement(CallStatus.UNKNOWN, "a result without an exit code")
        if response.status != "success":
            return Judgement(CallStatus.UNKNOWN, "a result without a status")
        return Judgement(CallStatus.OK, "toolResult status success")

    def by_exit(self, call: _Asked, content: bytes, head: str, value: _Value, is_error: bool) -> Judgement | None:
        if records.is_given(value.structuredContent):
            for found in _SHELLS.decode(Record(bytes(value.structuredContent), None), self.losses):
                if found.timed_out:
                    return Judgement(CallStatus.FAILED, "timed_out true")
                if found.exit_code is not None:
                    return evidence.by_exit_code(call.command, found.exit_code, head, "exit_code")
        code = _EXITED.search(json_head(content, 10**9)[-200:]) if is_error else None
        return None if code is None else evidence.by_exit_code(call.command, int(code[1]), head, "text: exit code")

    # what comes under the model's

    def assistant(self, line: _Line, blocks: list[_Block], metadata: _Metadata, at: datetime | None) -> None:
        text = "\n".join(block.text for block in blocks if block.type == "text" and block.text)
        has_calls = any(block.type in ("toolRequest", "frontendToolRequest") for block in blocks)
        if metadata.userVisible is False and metadata.agentVisible is not False and not has_calls:
            if text.startswith(_COMPACTED):
                self.compacted(at)
            return  # Goose put the words into the model's mouth
        if not has_calls and text.startswith(_INTERRUPTED) and self.is_interrupt(text):
            self.note("interrupt", at)
            self.add("context", "harness", text, at, "interrupt")
            self.response = None
            return
        if text.startswith(_API_ERROR):
            self.failed(text, at)
            return
        if text.startswith(_LIMIT):
            self.add("assistant", "harness", text, at)
            self.response = None
            return
        own = [block for block in blocks if block.type in _OF_THE_MODEL]
        if own:
            self.respond(line, own, has_calls, metadata, at)
        for block in blocks:
            self.aside(block, at)

    def respond(
        self, line: _Line, own: list[_Block], has_calls: bool, metadata: _Metadata, at: datetime | None
    ) -> None:
        draft = self.responding(has_calls, at)
        for block in own:
            self.block(block, draft, at)
        inference = metadata.inference or _Inference()
        draft.model = inference.resolvedModel or inference.requestedModel or draft.model
        counts = metadata.usage
        if counts is not None:
            key = line.id or f"{self.key}:{len(self.drafts)}"
            draft.usage = _usage(
                key, counts.inputTokens, counts.outputTokens, counts.totalTokens, counts.cacheReadTokens,
                counts.cacheWriteTokens,
            )  # fmt: skip

    @staticmethod
    def is_interrupt(text: str) -> bool:
        return not text.startswith("The existing call to ") or " was interrupted" in text[:500]

    def responding(self, has_calls: bool, at: datetime | None) -> _Draft:
        """The response that a row belongs to: the one before, when nothing shows that the model was asked again."""
        draft = self.response
        if draft is not None and draft.is_answered:
            # The rows of one response are written at once, each call's with its result behind it.
            is_same = has_calls and at is not None and draft.at is not None
            if not (is_same and int(at.timestamp()) == int(draft.at.timestamp())):  # type: ignore[union-attr]
                draft = None
        if draft is None:
            self.is_compacted = False
            draft = self.response = _Draft("assistant", "agent", at)
            self.drafts.append(draft)
        return draft

    def block(self, block: _Block, draft: _Draft, at: datetime | None) -> None:
        kind = block.type
        if kind == "text":
            if block.text:
                draft.texts[block.text] = None
        elif kind in ("toolRequest", "frontendToolRequest"):
            draft.calls.append(self.call(block, at))
        elif kind == "thinking":
            text = self.text(block.thinking)
            if text and text not in draft.thinking:
                draft.thinking[text] = self.body(block.thinking)
            if block.signature:
                draft.signatures.add(block.signature)
        elif kind == "reasoning":
            if block.text and block.text not in draft.thinking:
                draft.thinking[block.text] = records.text_body(block.text, self.source)
        elif kind == "redactedThinking":
            draft.signatures.add(self.text(block.data))

    def body(self, raw: msgspec.Raw) -> Body | None:
        body = records.raw_body(raw, self.record, self.source, self.body_at)
        if body is not None and self.record.offset is not None:
            # What was mended stands nowhere as it is, nor does the rest of its record.
            self.body_at = (
                len(self.record.data) if body.offset is None else body.offset - self.record.offset + body.bytes
            )
        return body

    def text(self, raw: msgspec.Raw) -> str:
        if not records.is_given(raw):
            return ""
        try:
            return str(msgspec.json.decode(raw, type=str))
        except BAD_CONTENT:
            self.losses.add("wrong_type", self.record.offset)
            return ""

    def aside(self, block: _Block, at: datetime | None) -> None:
        """A block that is not of the model."""
        kind = block.type
        if kind == "error" or (kind == "systemNotification" and block.notificationType == "creditsExhausted"):
            self.failed(block.message or block.msg or "error", at)
        elif kind == "conversationCompacted":
            self.compacted(at)
        elif kind not in _UNREAD_BLOCKS and kind not in _OF_THE_MODEL:
            self.losses.add("unknown_type" if kind else "no_type", self.record.offset)

    def call(self, block: _Block, at: datetime | None) -> _Asked:
        request = block.toolCall or _Request()
        asked = request.value or _Call()
        call = _Asked(asked.name or "unknown", block.id, at)
        arguments = None
        if records.is_given(asked.arguments):
            try:
                arguments = msgspec.json.decode(asked.arguments)
            except BAD_CONTENT:
                self.losses.add("malformed_input", self.record.offset)
        call.category = _category(call.name, arguments)
        command = arguments.get("command") if isinstance(arguments, dict) else None
        call.command = command if isinstance(command, str) else None
        call.input = self.body(asked.arguments)
        call.input_hash = records.input_hash(arguments)
        call.paths = evidence.paths_in(arguments)
        call.is_poll = evidence.is_poll(call.name, arguments)
        if request.status == "error":
            line = json_head(bytes(request.error), 80).partition("\n")[0]
            call.verdict = Judgement(CallStatus.INVALID, f"toolCall status error: {line}")
        elif call.name == _BROKEN_NAME:
            call.verdict = Judgement(CallStatus.INVALID, f"name {_BROKEN_NAME}")
        elif asked.name is None:
            self.losses.add("call_without_name", self.record.offset)
        if block.id:
            call.original = self.calls.setdefault(block.id, call)
        return call

    def failed(self, text: str, at: datetime | None) -> None:
        self.note("api_error", at, text[:500])
        self.add("assistant", "harness", text, at, "api_error")
        self.response = None

    def compacted(self, at: datetime | None) -> None:
        self.response = None
        if self.drafts and self.drafts[-1].is_hidden:
            self.drafts[-1].notice = "compaction_summary"
        if not self.is_compacted:
            self.note("compaction", at)
        self.is_compacted = True

    # the whole

    def spent(self, record: Record) -> None:
        for row in _LEDGER.decode(record, self.losses):
            usage = _usage(
                f"{self.key}:{row.id}", row.input_tokens, row.output_tokens, row.total_tokens, row.cache_read_tokens,
                row.cache_write_tokens,
            )  # fmt: skip
            if row.model:
                self.models.setdefault(row.model)
            if usage is not None and row.is_compaction:
                self.loose.append(usage)
            elif usage is not None:
                self.ledger.append((usage, row.model))

    def attribute(self) -> None:
        """Give each response its usage, as far as the log tells whose it is."""
        responses = [draft for draft in self.drafts if draft.role == "assistant" and draft.author == "agent"]
        if any(draft.usage for draft in responses):
            told = Counter(_numbers(draft.usage) for draft in responses if draft.usage)
            for usage, _ in self.ledger:
                told[_numbers(usage)] -= 1
                if told[_numbers(usage)] < 0:
                    self.loose.append(usage)
        elif len(self.ledger) == len(responses):
            for draft, (usage, model) in zip(responses, self.ledger, strict=True):
                draft.usage = usage
                draft.model = draft.model or model
        else:
            self.loose += [usage for usage, _ in self.ledger]
        if not self.loose and not any(draft.usage for draft in responses):
            self.loose += self.accumulated()

    def accumulated(self) -> Iterator[Usage]:
        meta = self.meta
        nested = meta.accumulated_usage or _Tokens(
            meta.accumulated_input_tokens, meta.accumulated_output_tokens, meta.accumulated_total_tokens,
            meta.accumulated_cache_read_tokens, meta.accumulated_cache_write_tokens,
        )  # fmt: skip
        usage = _usage(f"{self.key}:accumulated", *msgspec.structs.astuple(nested))
        if usage is not None:
            yield msgspec.structs.replace(usage, is_sum=True)

    def session(self) -> Session:
        self.attribute()
        meta = self.meta
        names = (name for name in (meta.name, meta.description) if not _DEFAULT_TITLE.fullmatch(name or ""))
        title = next((name for name in names if name != self.name), None)
        return Session(
            agent="goose",
            source_id=self.name,
            messages=tuple(_finish(draft, ordinal, self.source) for ordinal, draft in enumerate(self.drafts)),
            parent_source_id=meta.parent_session_id,
            relation="subagent" if self.is_child else None,
            title=title,
            cwd=meta.working_dir,
            started=self.first,
            ended=self.last,
            modified=self.source.modified,
            events=tuple(self.events),
            loose_usage=tuple(self.loose),
            losses=self.losses.result(),
            models=tuple(self.models),
        )


def _answered(call: _Asked) -> _Asked:
    if call.original is not None and call.original is not call:
        call.verdict, call.result = call.original.verdict, call.original.result
    return call


def _finish(draft: _Draft, ordinal: int, source: Source) -> Message:
    kept = records.kept_text("\n".join(draft.texts), source, whole=draft.role == "user")
    signature = sum(map(len, draft.signatures))
    text = sum(map(records.utf8_length, draft.thinking))
    return Message(
        ordinal,
        draft.role,
        draft.author,
        *kept,
        has_image=draft.has_image,
        calls=tuple(
            ToolCall(
                ordinal, index, call.name, call.category, call.verdict.status, call.verdict.evidence, call.call_id,
                call.input, call.input_hash, call.paths, call.verdict.exit_code, call.result, call.at,
                call.is_poll,
            )
            for index, call in enumerate(map(_answered, draft.calls))
        ),
        thinking=tuple(body for body in draft.thinking.values() if body is not None),
        thinking_bytes=signature or text,
        thinking_kind="signature" if signature else "text" if text else None,
        model=draft.model,
        at=draft.at,
        usage=draft.usage,
        notice=draft.notice,
    )  # fmt: skip


# --- the three places -------------------------------------------------------------------------------------


def parse(lines: Iterable[Record], source: Source) -> list[Session]:
    """All sessions in a database, or the one in a JSONL file or an export."""
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        return []
    if first.part:
        return _from_database(chain((first,), rest), source)
    reader: _Reader | None = None
    for record in chain((first,), rest):
        losses = reader.losses if reader else Losses()
        for line in _LINES.decode(record, losses):
            if reader is None:
                is_meta = line.role is None
                meta = next(iter(_METAS.decode(record, losses)), _Meta()) if is_meta else _Meta()
                reader = _Reader(meta, source, losses)
                if is_meta:
                    _read_export(reader, line, record)
                    continue
            reader.message(line, record)
    return [reader.session()] if reader else []


def _read_export(reader: _Reader, line: _Line, record: Record) -> None:
    if not records.is_given(line.conversation):
        return
    try:
        messages = _LIST.decode(line.conversation)
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
        for message in _LINES.decode(own, reader.losses):
            reader.message(message, own)


def _from_database(rows: Iterable[Record], source: Source) -> list[Session]:
    """The rows come by query: the sessions, what they spent, their messages in order."""
    readers: dict[str, _Reader] = {}
    strays = Losses()  # of rows that do not say whose they are
    for record in rows:
        if record.part == "sessions":
            losses = Losses()
            for meta in _METAS.decode(record, losses):
                if meta.id is None:
                    strays.add("no_session", None)
                else:
                    readers[meta.id] = _Reader(meta, source, losses)
            continue
        for row in _ROWS.decode(record, strays):
            reader = readers.get(row.session_id or "")
            if reader is None:
                strays.add("no_session", None)
            elif record.part == "usage_ledger":
                reader.spent(record)
            else:
                _read_row(reader, row)
    found = [reader for reader in readers.values() if reader.drafts]
    for loss in strays.result() if found else ():
        found[0].losses.add(loss.kind, loss.first_offset, loss.count)
    return [reader.session() for reader in found]


def _read_row(reader: _Reader, row: _Row) -> None:
    content = (row.content_json or "[]").encode()
    # As a message: so a block of a wrong type costs itself and no other.
    record = Record(b'{"content":%b}' % content, None)
    for line in _LINES.decode(record, reader.losses):
        line.id, line.role, line.created = row.message_id, row.role, row.created_timestamp
        if row.metadata_json:
            metadata = Record(row.metadata_json.encode(), None)
            line.metadata = next(iter(_METADATA.decode(metadata, reader.losses)), None)
        reader.message(line, record)


# --- whose log --------------------------------------------------------------------------------------------


def sniff(sample: Sample) -> bool:
    if sample.tables:
        # Hermes has three tables of these names, and these beside them.
        theirs = sample.tables & {"state_meta", "messages_fts"}
        return {"schema_version", "sessions", "messages"} <= sample.tables and not theirs
    first = sample.values[0] if sample.values else None
    if isinstance(first, dict) and isinstance(first.get("working_dir"), str):
        is_header = "role" not in first and "description" in first and "message_count" in first
        return is_header or isinstance(first.get("conversation"), list)
    return any(_has_blocks(value) for value in sample.values)


def _has_blocks(value: object) -> bool:
    """Whether a line is a message with blocks that only Goose writes."""
    content = value.get("content") if isinstance(value, dict) and "role" in value and "created" in value else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and ("toolCall" in block or "toolResult" in block) and "type" in block
        for block in content
    )


PARSER = Parser(
    agent="goose",
    title="Goose",
    homes=tuple(
        home
        for pattern in ("*.db", "*.jsonl")
        for home in (
            Home(".local/share/goose/sessions", pattern, "XDG_DATA_HOME", ".local/share"),
            Home("Library/Application Support/Block/goose/sessions", pattern),
            Home("AppData/Roaming/Block/goose/data/sessions", pattern),
        )
    ),
    sniff=sniff,
    parse=parse,
    coverage=records.Coverage(
        statuses="partly",
        exit_codes="partly",
        usage="partly",
        models="partly",
        subagents="partly",
        compaction="partly",
    ),
    suffixes=(".jsonl", ".json", ".db"),
    queries=(
        Query("sessions", "sessions", "select * from sessions"),
        Query("usage_ledger", "usage_ledger", "select * from usage_ledger order by session_id, id"),
        # As Goose itself reads them.
        Query("messages", "messages", "select * from messages order by session_id, created_timestamp, id"),
    ),
)
