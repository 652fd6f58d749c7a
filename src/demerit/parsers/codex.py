"""Codex: rollouts under `~/.codex`, one session a file, one JSON object a line.

A rollout tells most things twice: as the item that went to or came from the model (`response_item`), and as
the event that the program showed (`event_msg`). Items make the messages and calls; events add what items leave
out (exit codes, token counts, interrupts) and stand in where an item is missing. docs/formats/codex.md tells
what is read, what is not, and how each fact is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, Session, ToolCall, Usage
from demerit.parsers import evidence, records
from demerit.parsers.evidence import Judgement
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
)

# --- the lines, as far as they are used -------------------------------------------------------------------


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None


_Parts = list[_Part] | str | None


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class _Info(msgspec.Struct):
    last_token_usage: _Counts | None = None
    total_token_usage: _Counts | None = None
    prompt: int | None = None  # 0.50
    completion: int | None = None


class _Small(msgspec.Struct):
    """The one field of interest of several small objects."""

    name: str | None = None
    branch: str | None = None
    model: str | None = None
    message: str | None = None


class _Payload(msgspec.Struct):
    """Any payload. One wide struct is decoded in one pass over the line; what a payload lacks stays None."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: _Parts = None
    message: str | None = None
    text: str | None = None
    images: list[str] | None = None
    local_images: list[str] | None = None
    summary: _Parts = None
    encrypted_content: msgspec.Raw = NOTHING
    # calls, and how they ended
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    function: _Small | None = None
    arguments: msgspec.Raw = NOTHING
    input: msgspec.Raw = NOTHING
    action: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    tools: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    status: str | dict[str, Any] | None = None
    success: bool | None = None
    exit_code: int | None = None
    command: msgspec.Raw = NOTHING
    aggregated_output: str | None = None
    changes: msgspec.Raw = NOTHING
    server: str | None = None
    tool: str | None = None
    invocation: _Payload | None = None
    item: _Payload | None = None
    error: _Small | str | None = None
    # tokens
    info: _Info | None = None
    usage: _Counts | None = None
    thread_token_usage: _Counts | None = None
    response_id: str | None = None
    # turns and the session
    turn_id: str | None = None
    model: str | None = None
    thread_settings: _Small | None = None
    cwd: str | None = None
    cli_version: str | None = None
    git: _Small | None = None
    source: msgspec.Raw = NOTHING
    thread_source: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    subagent_history_start_ordinal: int | str | None = None
    timestamp: str | int | float | None = None
    created_at: str | int | float | None = None
    thread_name: str | None = None
    reason: str | None = None
    num_turns: int | None = None
    agent_thread_id: str | None = None
    new_thread_id: str | None = None
    kind: str | None = None


class _Line(msgspec.Struct):
    timestamp: str | int | float | None = None
    type: str | None = None
    payload: _Payload | None = None
    ordinal: int | None = None
    record_type: str | None = None


class _Metadata(msgspec.Struct):
    exit_code: int | None = None


class _Outcome(msgspec.Struct):
    """What an object, or a text that holds one, says about how its call went."""

    metadata: _Metadata | None = None
    exitCode: int | None = None
    success: bool | None = None
    isError: bool | None = None
    Ok: _IsError | None = None
    Err: msgspec.Raw = NOTHING


class _IsError(msgspec.Struct):
    isError: bool | None = None


_lines = LineDecoder(_Line)
_payloads = LineDecoder(_Payload)
_outcomes = LineDecoder(_Outcome)
_old_output = msgspec.json.Decoder(_Outcome)

# --- fixed forms ------------------------------------------------------------------------------------------

# What Codex says to the model under the role `user`: fragments of codex-rs/core/src/context, and older texts.
_CONTEXT = (
    "# AGENTS.md instructions", "Warning: The maximum number of unified exec processes",
    "Warning: apply_patch was requested via", "Warning: Your account was flagged",
    "<environment_context>", "<user_instructions>", "<recommended_plugins>", "<turn_aborted>", "<skill>",
    "<skills_instructions>", "<apps_instructions>", "<plugins_instructions>", "<subagent_notification>",
    "<user_shell_command>", "<user_action>", "<hook_prompt", "<goal_context>", "<codex_internal_context",
    "<external_", "<collaboration_mode>", "<model_switch>", "<personality_spec>", "<permissions",
)  # fmt: skip
_SUMMARY = ("Another language model started to solve this problem and produced a summary",)
# The editor extension and the desktop app put what is open or attached before the request.
_WRAPPERS = ("# Files mentioned by the user:", "# Context from my IDE setup:", "# Applications mentioned by")
_REQUEST = "## My request for Codex:"
_IMAGE_TAG = re.compile(r"\s*</?image\b[^>]*>\s*\Z")

# The head of an output, before `Output:`. Only these lines may stand before the one that tells.
_HEADER = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines|Warning)\b[^\n]*\n)*"
    r"(?:(?:Process exited with code|[Ee]xit code:?) (?P<exit>-?\d{1,9})\b"
    r"|Process running with (?P<process>session ID \S+)|Script running with (?P<cell>cell ID \S+)"
    r"|Script (?P<script>completed|failed|terminated)\b)"
)
_REFUSED = re.compile(
    r"(?:(?:exec command|command|patch) )?rejected by user\b|user (?:rejected|declined|denied|cancelled) "
    r"|approval policy is [^\n]{1,80}; reject command|This action was rejected\b"
    r"|exec_command failed for [^\0]*?message: \"Rejected\("
)
_ABORTED = re.compile(r"(?:Wall time[^\n]*\n)?(?:command )?aborted(?: by user(?: after [\d.]+\w*)?)?\s*\Z")
_BROKEN = re.compile(
    r"unsupported (?:custom tool )?call\b|failed to parse (?:function )?arguments\b|invalid arguments?\b"
    r"|unknown tool\b|tool \S{1,200} (?:invoked with incompatible payload|is not enabled)|missing field `",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    r"(?:apply_patch|exec_command|write_stdin|view_image|spawn_agent|collab \w+|resources/\w+|js_repl) "
    r"(?:verification )?failed\b|tool call (?:error|failed)\b|execution error\b|Script error:|patch rejected\b"
    r"|unable to (?:locate|read|process) image\b|agent with id \S+ not found|failed in sandbox\b"
    r"|Failed to (?:find expected lines|create unified exec)"
)
_FORMS = (
    (_REFUSED, CallStatus.DECLINED, "text of a refusal"),
    (_ABORTED, CallStatus.CANCELLED, "text of an abort"),
    (_BROKEN, CallStatus.INVALID, "text of a broken call"),
    (_FAILURE, CallStatus.FAILED, "text of a failure"),
)
_BY_STATUS = {
    "completed": CallStatus.OK,
    "failed": CallStatus.FAILED,
    "incomplete": CallStatus.FAILED,
    "declined": CallStatus.DECLINED,
}
_BY_SCRIPT = {"completed": CallStatus.OK, "failed": CallStatus.FAILED, "terminated": CallStatus.OK}

# The sandbox could not start the command: not the command's own exit code, whatever program it names.
_SANDBOX = ("bwrap:", "sandbox-exec:", "error applying legacy Linux sandbox")

_EventKind = Literal["compaction", "interrupt", "api_error", "rewind", "model_change", "subagent"]

# Which evidence about one call wins; among equals, the first.
_PLAIN, _TEXT, _LOGGED, _EVENT = 0, 1, 2, 3
_HEAD_CHARS = 4096
# A real ciphertext takes a thousand bytes; exports put a word ("REDACTED") in its place.
_LEAST_CIPHERTEXT = 64
# Copied lines of a fork are written in one burst; a person or a model takes longer.
_BURST = timedelta(seconds=1)


def _words(text: str) -> list[str]:
    return text.split()


def _texts(parts: _Parts) -> list[str]:
    if isinstance(parts, str):
        return [parts]
    return [part.text for part in parts or () if part.text]


def _first_byte(raw: msgspec.Raw) -> bytes:
    return bytes(memoryview(raw)[:1])


def _uuid7_ms(name: str | None) -> int | None:
    """The milliseconds since 1970 that a version 7 UUID begins with; None for any other name."""
    if name is None or len(name) != 36 or name[14] != "7":
        return None
    try:
        return int(name[:8] + name[9:13], 16)
    except ValueError:
        return None


def _command(value: object) -> str | None:
    """The shell command in a call's input; that of `bash -lc x` is x."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("cmd", "command") if key in value), None)
        if isinstance(value, str):
            return value
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return None
    return str(value[2]) if len(value) == 3 and value[1] in ("-lc", "-c", "-Command") else " ".join(value)


def _patch(value: object, command: str | None) -> str | None:
    if command is not None:
        return command if "apply_patch" in command and "*** Begin Patch" in command else None
    candidates = (value, *value.values()) if isinstance(value, dict) else (value,)
    return next((text for text in candidates if isinstance(text, str) and "*** Begin Patch" in text), None)


def _tool_name(payload: _Payload) -> str:
    name = payload.name or (payload.function.name if payload.function else None) or payload.type or "unknown"
    space = payload.namespace or ""
    if not space.startswith("mcp__"):
        return name
    return space + ("" if space.endswith("__") or name.startswith("_") else "__") + name


def _usage(counts: _Counts, key: str) -> Usage:
    cached = records.token_count(counts.cached_input_tokens)
    written = records.token_count(counts.cache_write_input_tokens)
    reasoning = counts.reasoning_output_tokens
    return Usage(
        input_tokens=max(0, records.token_count(counts.input_tokens) - cached - written),
        cache_read_tokens=cached,
        cache_write_5m_tokens=written,
        output_tokens=records.token_count(counts.output_tokens),
        reasoning_tokens=None if reasoning is None else records.token_count(reasoning),
        key=key,
    )


def _difference(now: _Counts, before: _Counts) -> _Counts:
    names = _Counts.__struct_fields__
    return _Counts(*(max(0, (getattr(now, name) or 0) - (getattr(before, name) or 0)) for name in names))


def _state(payload: _Payload) -> str | None:
    """The status, which one event gives as an object of one key."""
    return next(iter(payload.status), None) if isinstance(payload.status, dict) else payload.status


def _error_text(payload: _Payload) -> str | None:
    return payload.error.message if isinstance(payload.error, _Small) else payload.error


def _by_status(status: str | None, told_by: str) -> Judgement:
    return Judgement(_BY_STATUS.get(status or "", CallStatus.UNKNOWN), f"{told_by} status {status}")


def _by_flag(flag: str, value: bool, is_good: bool) -> Judgement:
    return Judgement(CallStatus.OK if is_good else CallStatus.FAILED, f"{flag} {str(value).lower()}")


# --- building ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Fate:
    """What became of a call; all copies of the call share it."""

    judgement: Judgement = Judgement(CallStatus.PENDING, "no result")  # noqa: RUF009
    rank: int = -1
    result: Body | None = None


@dataclass(slots=True, eq=False)
class _Call:
    """A tool call while its results may still come."""

    name: str
    call_id: str | None
    at: datetime | None
    category: Category
    command: str | None = None
    input: Body | None = None
    input_hash: str | None = None
    paths: tuple[str, ...] = ()
    fate: _Fate = field(default_factory=_Fate)
    polls: str = ""
    """The running process (`session ID n`, `cell ID n`) that this call writes to or waits for."""
    is_poll: bool = False
    breaks: bool = False
    """The model sent ^C: to the process that this call polls, or that this call started."""

    def settle(self, rank: int, judgement: Judgement, result: Body | None = None) -> None:
        self.fate.result = self.fate.result or result
        if rank > self.fate.rank:
            self.fate.rank, self.fate.judgement = rank, judgement

    def by_exit(self, code: int, output: str, told_by: str) -> Judgement:
        if code == 130 and self.breaks:
            return Judgement(CallStatus.OK, f"{told_by} 130 after ^C", code)
        if code and output.startswith(_SANDBOX):  # the command never ran
            return Judgement(CallStatus.FAILED, f"{told_by} {code} of the sandbox: {output[:60].splitlines()[0]}", code)
        return evidence.by_exit_code(self.command, code, output, told_by)

    def frozen(self, ordinal: int, index: int) -> ToolCall:
        status, reason, code = self.fate.judgement
        return ToolCall(
            ordinal, index, self.name, self.category, status, reason, self.call_id, self.input, self.input_hash,
            self.paths, code, self.fate.result, self.at,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class _Draft:
    """A message while more of it may still come."""

    role: Role
    author: Author
    at: datetime | None
    texts: list[str] = field(default_factory=list)
    notice: Notice | None = None
    model: str | None = None
    has_image: bool = False
    # of a prompt
    told_by: str = ""
    """`item`, `event` or `both`."""
    key: str = ""
    is_repeat: bool = False
    """The same prompt again, after an interrupt."""
    # of a response
    calls: list[_Call] = field(default_factory=list)
    usage: Usage | None = None
    thinking: list[Body | None] = field(default_factory=list)
    ciphertext_bytes: int = 0
    reasoning_bytes: int = 0
    shown: list[str] = field(default_factory=list)
    """What events showed of the answer, and of the reasoning: for logs without the items."""
    shown_reasoning: list[str] = field(default_factory=list)
    is_answered: bool = False
    """A result of one of its calls was logged: the model's next item is another response."""
    is_told: bool = False
    """An earlier read told it: only what a later line may ask of it is here."""

    def as_told(self, is_copied: bool) -> _Draft:
        left_out = self.is_repeat or is_copied
        return _Draft(
            self.role, self.author, self.at, notice=self.notice, has_image=self.has_image, told_by=self.told_by,
            key=self.key, is_repeat=left_out, is_told=True,
        )  # fmt: skip

    def frozen(self, ordinal: int, source: Source) -> Message:
        is_prompt = self.role == "user" and self.author == "human"
        kept = records.kept_text("\n".join(self.texts or self.shown), source, whole=is_prompt)
        if not (self.ciphertext_bytes or self.reasoning_bytes):
            self.thinking += [records.text_body(shown, source) for shown in self.shown_reasoning]
            self.reasoning_bytes = sum(map(records.utf8_length, self.shown_reasoning))
        thought = self.ciphertext_bytes or self.reasoning_bytes
        return Message(
            ordinal=ordinal,
            role=self.role,
            author=self.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=self.has_image,
            calls=tuple(call.frozen(ordinal, index) for index, call in enumerate(self.calls)),
            thinking=tuple(body for body in self.thinking if body is not None),
            thinking_bytes=thought,
            thinking_kind=("ciphertext" if self.ciphertext_bytes else "text") if thought else None,
            model=self.model,
            at=self.at,
            usage=self.usage,
            notice=self.notice,
        )


class _Cut(NamedTuple):
    """How much of what was read belongs to the parent."""

    drafts: int
    events: int
    loose: int


class _Facts(msgspec.Struct):
    """What a builder knows beside drafts, calls and the first line: a state holds it as it stands in the builder."""

    at: datetime | None
    started: datetime | None
    ended: datetime | None
    born: datetime | None
    spawned_by: str | None
    author: Author
    is_subagent: bool
    is_exec: bool
    is_terminal: bool
    title: str | None
    cwd: str | None
    model: str | None
    error: str | None
    is_compacting: bool
    prompt_key: str | None
    aborted_key: str | None
    total: _Counts | None
    counted: _Counts | None
    recorded: _Counts | None
    requests: int
    copied_from: str | None


class _Meta(msgspec.Struct):
    """What is asked of the first line after it was read."""

    id: str | None
    forked_from_id: str | None
    cli_version: str | None
    git: _Small | None


class _Past(msgspec.Struct):
    """What was told in earlier reads, as far as it is needed to see that a line changes it."""

    source: str
    """Of which source, and read within which limits."""
    end: int = 0
    """Where the last line that was read ends."""
    first: int = 0
    events: int = 0
    loose: int = 0
    own_id: str = ""
    ended: Known = msgspec.field(default_factory=Known)
    """Calls, by id, of which a result or an event told the end."""
    running: Known = msgspec.field(default_factory=Known)
    """Those that were still running, or had no result: their end may be told much later."""
    processes: Known = msgspec.field(default_factory=Known)


class _Place(NamedTuple):
    """Of a call among the drafts of a state."""

    draft: int
    call: int


class _State(msgspec.Struct):
    past: _Past
    facts: _Facts
    meta: _Meta | None
    was_cut: bool
    losses: dict[str, tuple[int, int | None]]
    drafts: list[_Draft]
    """Those that may still change and what came after them; before them the last few that were told."""
    response: int | None
    last: int | None
    calls: dict[str, _Place]
    copies: list[tuple[_Place, _Place]]
    """Of a call that was logged again, with the one whose fate it shares."""
    nameless: dict[str, list[_Place | None]]
    """None for a call that was told."""
    processes: dict[str, _Place]
    searches: list[tuple[_Place | None, bool]]


_STATE_VERSION = "codex 1"
# A prompt is told twice within so many messages.
_NEAR = 8
# A call without a result that so many messages have come after is taken to stay as it is. The smaller numbers are
# for messages so long that the state would be too large.
_WINDOWS = (32, 8, 1)
_MOST_NAMES = 256
_MOST_WAITING = 4096


class _Builder:
    """Takes the lines of one rollout in order, and makes the session of them."""

    def __init__(self, source: Source, past: _Past | None = None) -> None:
        self.source = source
        self.past = past
        """What earlier reads told; None for a read that nothing will go on from."""
        self.base = 0
        """Ordinal of the first of the drafts that is a message."""
        self.losses = Losses()
        self.record = Record(b"")
        self.at: datetime | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.meta: _Payload | None = None
        self.born: datetime | None = None
        self.spawned_by: str | None = None
        self.author: Author = "human"
        self.is_subagent = self.is_exec = self.is_terminal = False
        self.title: str | None = None
        self.cwd: str | None = None
        self.model: str | None = None

        self.drafts: list[_Draft] = []
        self.events: list[tuple[Event, _Draft | None]] = []
        self.loose: list[Usage] = []
        self.calls: dict[str, _Call] = {}
        self.nameless: dict[str, list[_Call | None]] = {}
        self.processes: dict[str, _Call] = {}
        self.searches: list[tuple[_Call | None, bool]] = []
        """None, here and in `nameless`, for a call that an earlier read told."""

        self.response: _Draft | None = None
        self.last: _Draft | None = None
        """The response of this turn that was closed last."""
        self.error: str | None = None
        self.is_compacting = False
        self.prompt_key: str | None = None
        self.aborted_key: str | None = None

        self.total: _Counts | None = None
        self.counted: _Counts | None = None
        self.recorded: _Counts | None = None
        self.requests = 0

        self.is_copy = False
        """The lines now read may be the parent's history, copied to the start of a fork."""
        self.created_ms: int | None = None
        self.own_ordinal: int | None = None
        self.copied_from: str | None = None
        self.has_turn_times = False
        self.gap: _Cut | None = None
        self.cut: _Cut | None = None

    # lines

    def add(self, record: Record) -> None:
        self.record = record
        lines = _lines.decode(record, self.losses)
        for line in lines:
            if line.payload is not None:
                self._time(line.timestamp)
                if self.is_copy:
                    self._look_for_own(line, line.payload)
                self._dispatch(_LINES, _UNREAD_LINES, line.type, line.payload)
            elif len(lines) == 1:
                for payload in _payloads.decode(record, self.losses):
                    self._bare(line, payload)
            else:
                self.losses.add("no_payload", record.offset)  # bare, and fused with others: nobody saw one yet

    def _dispatch(self, known: _Handlers, unread: list[str], kind: str | None, payload: _Payload) -> None:
        handler = known.get(kind or "")
        if handler is not None:
            handler(self, payload)
        elif kind not in unread:
            self.losses.add("unknown_type", self.record.offset)

    def _bare(self, line: _Line, payload: _Payload) -> None:
        """A line without an envelope: of the first rollouts (mid 2025), or drifted."""
        self._time(line.timestamp if payload.created_at is None else payload.created_at)
        self.model = payload.model or self.model
        if line.type in _ITEMS or (line.type is None and payload.role is not None):
            self._item(payload)
        elif line.type is None and payload.id is not None:
            self._session_meta(payload)
        elif line.record_type is None:
            self.losses.add("no_payload" if line.type in _LINES else "unknown_type", self.record.offset)

    def _item(self, payload: _Payload) -> None:
        kind = "message" if payload.type is None and payload.role is not None else payload.type
        self._dispatch(_ITEMS, _UNREAD_ITEMS, kind, payload)

    def _event(self, payload: _Payload) -> None:
        self._dispatch(_EVENTS, _UNREAD_EVENTS, payload.type, payload)

    def _time(self, value: object) -> None:
        at = records.parse_time(value, self.losses, self.record.offset)
        if at is None:
            return
        if self.is_copy and self.gap is None and self.at is not None and at - self.at > _BURST:
            is_old = self.created_ms is not None and at.timestamp() * 1000 <= self.created_ms
            self.gap = None if is_old else self._here()
        self.at = at
        self.started = at if self.started is None or at < self.started else self.started
        self.ended = at if self.ended is None or at > self.ended else self.ended

    # the session and its parent

    def _session_meta(self, payload: _Payload) -> None:
        if self.meta is not None:
            if payload.id is not None and payload.id != self.meta.id:
                # A copied history begins with the parent's own first line.
                self.copied_from = self.copied_from or payload.id
                self.is_copy = self.cut is None
                if self.is_copy and self.past is not None and self.past.end:
                    raise Unsure  # what was told may be the parent's
            return
        self.meta, self.born = payload, self.at
        self.cwd = payload.cwd
        self._read_source(payload)
        created = records.parse_time(payload.timestamp, self.losses, self.record.offset)
        self.created_ms = _uuid7_ms(payload.id) or (int(created.timestamp() * 1000) if created else None)
        start = payload.subagent_history_start_ordinal
        if start is not None:
            try:
                self.own_ordinal = int(start)
            except ValueError:
                self.losses.add("wrong_type", self.record.offset)
        self.is_copy = payload.forked_from_id is not None or self.own_ordinal is not None

    def _read_source(self, payload: _Payload) -> None:
        """Who starts the turns: a person, the agent that spawned this one, or a program."""
        value = self._value(payload.source)
        subagent = value.get("subagent") if isinstance(value, dict) else None
        spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
        parent = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
        self.spawned_by = payload.parent_thread_id or (parent if isinstance(parent, str) else None)
        self.is_exec = value == "exec"
        is_program = value in ("exec", "mcp") or payload.thread_source not in (None, "user")
        self.is_subagent = subagent is not None or payload.thread_source == "subagent"
        if self.is_subagent:
            self.author = "agent"
        elif is_program:
            self.author = "harness"

    def _look_for_own(self, line: _Line, payload: _Payload) -> None:
        """Ends the copied history at the first line that is surely the session's own.

        Sure are the ordinal that the first line announces, and a turn whose id (a version 7 UUID begins with
        its time) is not older than the session.
        """
        if self.own_ordinal is not None and line.ordinal is not None:
            is_own = line.ordinal >= self.own_ordinal and line.type != "session_meta"
        else:
            is_turn = line.type == "turn_context" or payload.type in ("task_started", "turn_started")
            turn_ms = _uuid7_ms(payload.turn_id) if is_turn else None
            self.has_turn_times = self.has_turn_times or turn_ms is not None
            is_own = turn_ms is not None and self.created_ms is not None and turn_ms >= self.created_ms
        if is_own:
            self._close()
            self.is_copy, self.cut = False, self._here()
            self.last = self.error = self.prompt_key = self.aborted_key = None
            self.started = self.born or self.at

    def _here(self) -> _Cut:
        return _Cut(len(self.drafts), len(self.events), len(self.loose))

    def _leave_out_copied(self) -> None:
        cut = self.cut
        if cut is None and self.is_copy:
            if self.has_turn_times or self.own_ordinal is not None:
                cut = self._here()  # only the parent's turns: a fork that was never used
            elif self.gap is not None:
                # Without sure signs: the first burst, if a model answered in it.
                has_answer = any(draft.role == "assistant" for draft in self.drafts[: self.gap.drafts])
                cut = self.gap if has_answer or self.gap.loose else None
            elif self.copied_from is not None:
                cut = self._here()
        if cut is not None:
            del self.drafts[: cut.drafts], self.events[: cut.events], self.loose[: cut.loose]

    def _turn_context(self, payload: _Payload) -> None:
        self.cwd = self.cwd or payload.cwd
        self._set_model(payload.model)

    def _settings(self, payload: _Payload) -> None:
        self._set_model(payload.thread_settings.model if payload.thread_settings else None)

    def _set_model(self, name: str | None) -> None:
        if name and self.model and name != self.model:
            self._note("model_change", f"{self.model} -> {name}")
        if name is not None:
            self.model = name or None

    def _named(self, payload: _Payload) -> None:
        self.title = (payload.thread_name or "").strip() or None

    # messages

    def _add(self, role: Role, author: Author, text: str = "", notice: Notice | None = None) -> _Draft:
        draft = _Draft(role, author, self.at, [text] if text else [], notice)
        self.drafts.append(draft)
        return draft

    def _note(self, kind: _EventKind, detail: str = "") -> None:
        self.events.append((Event(kind, self.at, None, detail), self.drafts[-1] if self.drafts else None))

    def _message(self, payload: _Payload) -> None:
        texts = _texts(payload.content)
        if payload.content is None and payload.message is not None:
            texts = [payload.message]
        text = "\n".join(texts)
        if payload.role == "user":
            self._user(payload, texts, "item")
        elif text.startswith("<turn_aborted>") and payload.role == "developer":
            self._interrupt(text, "")
        elif payload.role != "assistant":
            self._add("system" if payload.role in ("developer", "system") else "context", "harness", text)
        elif text.startswith('{"author":"') and '"trigger_turn"' in text:
            # Before 0.130 a message between agents was logged as an answer that holds it as JSON.
            self._from_agent(text)
        else:
            self._model_item().texts.extend(texts)

    def _user_event(self, payload: _Payload) -> None:
        self._user(payload, _texts(payload.content or payload.message), "event")

    def _user(self, payload: _Payload, texts: list[str], told_by: str) -> None:
        parts = payload.content if isinstance(payload.content, list) else []
        has_image = any("image" in (part.type or "").lower() for part in parts)
        has_image = has_image or bool(payload.images or payload.local_images)
        texts = [text for text in texts if not _IMAGE_TAG.match(text)]
        injected = "\n".join(text for text in texts if evidence.starts_with_any(text, _CONTEXT))
        typed = "\n".join(text for text in texts if not evidence.starts_with_any(text, _CONTEXT))
        if "<turn_aborted>" in injected:
            self._interrupt(injected, "")
        elif injected:
            self._add("context", "harness", injected)
        if evidence.starts_with_any(typed, _SUMMARY):
            self._add("context", "harness", typed, "compaction_summary")
        elif typed or has_image or not injected:
            self._prompt(typed, has_image, told_by)

    def _prompt(self, text: str, has_image: bool, told_by: str) -> None:
        if evidence.starts_with_any(text, _WRAPPERS) and _REQUEST in text:
            text = text.split(_REQUEST, 1)[1].strip()
        key = records.digest("".join(text.split()).encode("utf-8", "surrogatepass"))
        for draft in reversed(self.drafts[-_NEAR:]):
            if draft.key == key and draft.told_by not in ("", "both", told_by):
                if draft.is_told and has_image and not draft.has_image:
                    raise Unsure
                draft.told_by = "both"
                draft.has_image = draft.has_image or has_image
                return
        self._end_turn()
        draft = self._add("user", self.author, text)
        draft.told_by, draft.key, draft.has_image = told_by, key, has_image
        draft.is_repeat = key == self.aborted_key
        self.prompt_key, self.aborted_key, self.last = key, None, None
        self.is_compacting = self.is_terminal = False

    def _agent_message(self, payload: _Payload) -> None:
        self._from_agent("\n".join(_texts(payload.content or payload.message)))

    def _from_agent(self, text: str) -> None:
        """What another agent wrote to this one: an item, a line, or both."""
        if self.drafts and self.drafts[-1].author == "agent" and self.drafts[-1].texts == [text]:
            return
        self._close()
        self._add("user" if self.is_subagent else "context", "agent", text)

    def _reasoning(self, payload: _Payload) -> None:
        draft = self._model_item()
        for text in (*_texts(payload.summary), *_texts(payload.content)):
            draft.thinking.append(records.text_body(text, self.source))
            draft.reasoning_bytes += records.utf8_length(text)
        cipher = payload.encrypted_content
        if records.is_given(cipher) and _first_byte(cipher) != b'"':
            self.losses.add("wrong_type", self.record.offset)
        elif len(cipher) - 2 >= _LEAST_CIPHERTEXT:
            draft.ciphertext_bytes += len(cipher) - 2
            draft.thinking.append(records.raw_body(cipher, self.record, self.source))

    def _shown(self, payload: _Payload) -> None:
        text = payload.message or ""
        if text and not (self.response is None and self.last is not None and text in self.last.texts):
            self._respond().shown.append(text)

    def _shown_reasoning(self, payload: _Payload) -> None:
        if payload.text:
            self._respond().shown_reasoning.append(payload.text)

    # responses and their tokens

    def _model_item(self) -> _Draft:
        """The response that the item now read belongs to."""
        self.error = None
        self.is_compacting = self.is_terminal = False
        return self._respond()

    def _respond(self) -> _Draft:
        if self.response is None or self.response.is_answered:
            # Where no token count came in between (old logs have none): the model has seen a result.
            self._close()
            self.response = self._add("assistant", "agent")
            self.response.model = self.model
        return self.response

    def _close(self) -> None:
        if self.response is not None:
            self.last, self.response = self.response, None

    def _token_count(self, payload: _Payload) -> None:
        info = payload.info
        if info is None:
            return
        last, total = info.last_token_usage, info.total_token_usage
        if last is None and total is None and (info.prompt is not None or info.completion is not None):
            last = _Counts(input_tokens=info.prompt, output_tokens=info.completion)
        if total is not None:
            if total == self.total:
                return  # the same row again: limits were refreshed, or the context was estimated anew
            last = last or _difference(total, self.total or _Counts())
            self.total = total
        elif last == self.counted and self.response is None:
            return
        if last is not None and last != self.recorded:
            self._count(last, total, None)
        self.counted, self.recorded = last, None

    def _usage_record(self, payload: _Payload) -> None:
        """From 0.150 on a response has a line of its own, beside its `token_count`."""
        total = payload.thread_token_usage
        if payload.usage is not None and (total is None or total != self.total):
            self.total, self.recorded = total or self.total, payload.usage
            self._count(payload.usage, total, payload.response_id)

    def _turn_completed(self, payload: _Payload) -> None:
        # Per turn, no running totals: in a log of 0.52 the second turn's output is smaller than the first's, and
        # its cached part equals the first's input.
        if payload.usage is not None:
            self._count(payload.usage, None, None)
        self._task_complete(payload)

    def _count(self, counts: _Counts, total: _Counts | None, response_id: str | None) -> None:
        self.requests += 1
        # Running totals name a request in every copy of the log.
        place: tuple[object, ...] = (f"#{self.requests}",)
        if total is not None:
            place = (total.input_tokens, total.cached_input_tokens, total.output_tokens)
        usage = _usage(counts, response_id or ":".join(map(str, (self._id(), *place))))
        if usage.is_empty:
            return
        draft = self.response or self.last
        if draft is None or draft.usage is not None:
            self.loose.append(usage)
        else:
            draft.usage = usage
        self._close()

    # calls

    def _value(self, raw: msgspec.Raw, is_json: bool = True) -> Any:
        """The decoded input of a call; a text in it is decoded again where it should be JSON."""
        if not records.is_given(raw):
            return None
        try:
            value = msgspec.json.decode(raw)
        except BAD_CONTENT:
            self.losses.add("bad_value", self.record.offset)
            return None
        if isinstance(value, str) and is_json:
            try:
                return msgspec.json.decode(value)
            except BAD_CONTENT:
                return value
        if isinstance(value, str | dict | list):
            return value
        self.losses.add("wrong_type", self.record.offset)
        return None

    def _call(self, name: str, call_id: str | None, raw: msgspec.Raw, is_json: bool = True) -> _Call:
        value = self._value(raw, is_json)
        call = _Call(name, call_id, self.at, evidence.category_of(name), _command(value))
        if value is not None:
            call.input = records.raw_body(raw, self.record, self.source)
            call.input_hash = records.input_hash(value)
            call.is_poll = evidence.is_poll(name, value)
        patch = _patch(value, call.command) if name != "exec" else None  # events tell what its script did
        call.paths = evidence.patch_paths(patch) if patch is not None else evidence.paths_in(value)
        if patch is not None and call.paths:
            call.category = "edit"
        if isinstance(value, dict):
            self._note_poll(call, value)
        if call_id is None:
            self.nameless.setdefault(name, []).append(call)
        else:
            if self.past is not None and (self.past.ended.has(call_id) or self.past.running.has(call_id)):
                raise Unsure  # it shares the fate of a call that was told
            call.fate = self.calls.setdefault(call_id, call).fate
        return call

    def _called(self, call_id: str) -> _Call | None:
        """The call with this id."""
        call, past = self.calls.get(call_id), self.past
        if past is not None and (
            past.ended.has(call_id)
            or past.running.has(call_id)
            # What ended so long ago is told no more of. (A script of `exec` runs commands whose ids nobody knows:
            # to doubt them as well would be a whole read for each.)
            or (call is None and past.running.forgot)
        ):
            raise Unsure
        return call

    def _process(self, name: str) -> _Call | None:
        """The call that started the process of this name."""
        call, past = self.processes.get(name), self.past
        if call is None and name and past is not None and (past.processes.has(name) or past.processes.forgot):
            raise Unsure
        return call

    def _note_poll(self, call: _Call, value: dict[str, Any]) -> None:
        session, cell, chars = value.get("session_id"), value.get("cell_id"), value.get("chars")
        if call.name == "write_stdin" and isinstance(session, str | int):
            call.polls = f"session ID {session}"
            call.breaks = isinstance(chars, str) and "\x03" in chars
        elif call.name == "wait" and isinstance(cell, str | int):
            call.polls, call.category = f"cell ID {cell}", "shell"
        started = self._process(call.polls) if call.breaks else None
        if started is not None:
            started.breaks = True

    def _tool_call(self, payload: _Payload) -> None:
        given = (payload.arguments, payload.input, payload.action)
        raw = next(filter(records.is_given, given), NOTHING)
        name = "local_shell" if payload.type == "local_shell_call" else _tool_name(payload)
        draft = self._model_item()
        call = self._call(name, payload.call_id or payload.id, raw, payload.type != "custom_tool_call")
        draft.calls.append(call)
        if payload.type == "image_generation_call":
            call.settle(_LOGGED, _by_status(_state(payload), "item"))

    def _search(self, payload: _Payload) -> None:
        """A web search has an item (often without an id) and an event; whichever comes first makes the call."""
        is_item = payload.type == "web_search_call"
        call_id = payload.call_id or payload.id
        if self.searches and self.searches[0][1] != is_item:  # those that wait are all of one kind
            known = self.searches.pop(0)[0]
            if known is None:
                raise Unsure
            known.call_id = known.call_id or call_id
            return
        call = self._call("web_search", call_id, payload.action)
        call.settle(_LOGGED, _by_status(_state(payload) or "completed", "item"))
        self._model_item().calls.append(call)
        self.searches.append((call, is_item))

    # results

    def _output(self, payload: _Payload) -> None:
        raw = next(filter(records.is_given, (payload.output, payload.tools, payload.result)), NOTHING)
        if self.response is not None:
            self.response.is_answered = True
        call = self._answered_by(payload)
        if call is None:
            self.losses.add("orphan_result", self.record.offset)
        elif _first_byte(raw) not in b'"{[':
            self.losses.add("wrong_type", self.record.offset)
        else:
            is_search = payload.type == "tool_search_output"
            rank, judgement = (_LOGGED, _by_status(_state(payload), "item")) if is_search else self._judge(call, raw)
            call.settle(rank, judgement, records.raw_body(raw, self.record, self.source))

    def _answered_by(self, payload: _Payload) -> _Call | None:
        if payload.call_id is not None:
            call = self._called(payload.call_id)
            if call is None and self.past is not None and self.past.ended.forgot:
                raise Unsure
            return call
        # Drifted lines carry no ids: a result answers the first open call of its name.
        waiting = self.nameless.get(_tool_name(payload))
        if not waiting:
            return None
        first = waiting.pop(0)
        if first is None:
            raise Unsure
        return first

    def _judge(self, call: _Call, raw: msgspec.Raw) -> tuple[int, Judgement]:
        if _first_byte(raw) == b"{":
            return self._by_object(call, raw)
        head = records.json_head(bytes(raw), _HEAD_CHARS)
        if head.startswith("{") and call.category in ("shell", "edit"):
            # Up to 0.50 a shell's output was JSON in a text.
            try:
                metadata = _old_output.decode(msgspec.json.decode(raw, type=str)).metadata
            except BAD_CONTENT:
                metadata = None
            if metadata is not None and metadata.exit_code is not None:
                return _LOGGED, call.by_exit(metadata.exit_code, head, "metadata exit code")
        header = _HEADER.match(head)
        if header is not None:
            return self._by_header(call, header, head.partition("Output:\n")[2])
        for form, status, what in _FORMS:
            if form.match(head):
                return _TEXT, Judgement(status, f"{what}: {head.partition(chr(10))[0][:80]}")
        if call.category == "edit":
            is_done = head.startswith(("Success.", "Done!"))
            return _PLAIN, Judgement(CallStatus.OK if is_done else CallStatus.UNKNOWN, "text of a patch")
        if call.category in ("shell", "mcp", "other"):
            return _PLAIN, Judgement(CallStatus.UNKNOWN, "a result without a status")
        # Codex's own tools tell a failure in one of the forms above.
        return _PLAIN, Judgement(CallStatus.OK, "no form of a failure")

    def _by_object(self, call: _Call, raw: msgspec.Raw) -> tuple[int, Judgement]:
        for found in _outcomes.decode(Record(bytes(raw), None), self.losses):
            code = found.metadata.exit_code if found.metadata else found.exitCode
            if code is not None:
                return _LOGGED, call.by_exit(code, records.json_head(bytes(raw), _HEAD_CHARS), "exit code")
            if found.success is not None:
                return _LOGGED, _by_flag("success", found.success, found.success)
            if found.isError is not None:
                return _LOGGED, _by_flag("isError", found.isError, not found.isError)
        return _PLAIN, Judgement(CallStatus.UNKNOWN, "a result without a status")

    def _by_header(self, call: _Call, header: re.Match[str], output: str) -> tuple[int, Judgement]:
        running = header["process"] or header["cell"]
        if running is not None:
            if call.polls:
                return _TEXT, Judgement(CallStatus.OK, f"poll: running with {running}")
            self.processes[running] = call
            return _PLAIN, Judgement(CallStatus.UNKNOWN, f"still running with {running}")
        started = self._process(call.polls)
        if header["script"] is not None:
            outcome = Judgement(_BY_SCRIPT[header["script"]], f"header script {header['script']}")
        else:
            outcome = (started or call).by_exit(int(header["exit"]), output, "header exit code")
        if started is None:
            return _TEXT, outcome
        # What ended is the call that started the process; this one only looked.
        started.settle(_TEXT, outcome)
        return _TEXT, Judgement(CallStatus.OK, f"poll: {outcome.evidence}")

    def _ended(self, name: str, payload: _Payload, raw: msgspec.Raw) -> _Call:
        """The call that an event tells the end of; where no item told of one, a new one.

        What a script of the `exec` tool runs has no items of its own: only so does it count.
        """
        call_id = payload.call_id or payload.id
        call = self._called(call_id or "")
        if call is None:
            call = self._call(name, call_id, raw)
            (self.response or self.last or self._respond()).calls.append(call)
        return call

    def _exec_end(self, payload: _Payload) -> None:
        if bytes(payload.source) in (b'"user_shell"', b'"userShell"'):
            return  # the person ran it with `!`
        call = self._ended("exec_command", payload, payload.command)
        if call.polls:
            return  # it tells of the process, which is another call's
        if payload.status == "declined" or payload.exit_code is None:
            call.settle(_EVENT, _by_status(_state(payload), f"{payload.type}"))
        else:
            output = (payload.aggregated_output or "")[:_HEAD_CHARS]
            call.settle(_EVENT, call.by_exit(payload.exit_code, output, f"{payload.type} exit code"))

    def _patch_end(self, payload: _Payload) -> None:
        call = self._ended("apply_patch", payload, payload.changes)
        if not call.paths:
            changed = self._value(payload.changes)
            call.paths = tuple(changed) if isinstance(changed, dict) else ()
        if payload.status == "declined" or payload.success is None:
            call.settle(_EVENT, _by_status(_state(payload), f"{payload.type}"))
        else:
            call.settle(_EVENT, _by_flag(f"{payload.type} success", payload.success, payload.success))

    def _mcp_end(self, payload: _Payload) -> None:
        asked = payload.invocation or payload
        call = self._ended(f"mcp__{asked.server}__{asked.tool}", payload, asked.arguments)
        call.settle(_EVENT, self._mcp_outcome(payload), records.raw_body(payload.result, self.record, self.source))

    def _mcp_outcome(self, payload: _Payload) -> Judgement:
        refusal = _error_text(payload)
        if records.is_given(payload.result):
            for found in _outcomes.decode(Record(bytes(payload.result), None), self.losses):
                if records.is_given(found.Err):
                    refusal = records.json_head(bytes(found.Err), _HEAD_CHARS)
                elif found.Ok is not None or found.isError is not None:
                    is_error = bool(found.isError or (found.Ok is not None and found.Ok.isError))
                    return _by_flag(f"{payload.type} isError", is_error, not is_error)
        if refusal is not None:
            status = CallStatus.DECLINED if _REFUSED.match(refusal) else CallStatus.FAILED
            return Judgement(status, f"{payload.type} error: {refusal[:80]}")
        return _by_status(_state(payload), f"{payload.type}")

    def _tool_response(self, payload: _Payload) -> None:
        call = self._called(payload.call_id or payload.id or "")
        if call is not None and payload.success is not None:
            call.settle(_EVENT, _by_flag(f"{payload.type} success", payload.success, payload.success))

    def _item_completed(self, payload: _Payload) -> None:
        """From 0.149 on the one event for what had an event each; its item has their fields."""
        if payload.item is not None:
            handler = _COMPLETED.get((payload.item.type or "").lower())
            if handler is not None:
                handler(self, payload.item)

    # turns

    def _end_turn(self) -> None:
        """An error that nothing of the model followed has ended its turn."""
        self._close()
        if self.error is not None:
            self._add("assistant", "harness", self.error, "api_error")
            self.error = None

    def _task_started(self, payload: _Payload) -> None:
        self._end_turn()
        self.last = None
        self.searches.clear()
        self.is_terminal = False

    def _task_complete(self, payload: _Payload) -> None:
        self._end_turn()
        self.is_terminal = self.is_exec  # `codex exec` runs one task and is done

    def _aborted(self, payload: _Payload) -> None:
        self._end_turn()
        if payload.reason != "review_ended":
            self._interrupt("", payload.reason or "")

    def _interrupt(self, text: str, reason: str) -> None:
        """An interrupt is told by an event and by a text to the model, in either order."""
        self._close()
        if self.drafts and self.drafts[-1].notice == "interrupt":
            self.drafts[-1].texts = self.drafts[-1].texts or [text]
            return
        self._note("interrupt", reason)
        self._add("context", "harness", text, "interrupt")
        self.aborted_key = self.prompt_key

    def _rolled_back(self, payload: _Payload) -> None:
        self._note("rewind", f"{payload.num_turns or 0} turns")

    def _compacted(self, payload: _Payload) -> None:
        """A compaction is told by a line, an item and an event, with nothing of the model in between."""
        self._close()
        if not self.is_compacting:
            self._note("compaction")
        self.is_compacting = True

    def _failed(self, payload: _Payload) -> None:
        self.error = payload.message or _error_text(payload) or "error"
        self._note("api_error", self.error[:500])

    def _subagent(self, payload: _Payload) -> None:
        thread = payload.agent_thread_id or payload.new_thread_id
        self._note("subagent", " ".join(filter(None, (thread, payload.kind or _state(payload)))))

    # the whole

    def _id(self) -> str:
        return (self.meta.id if self.meta else None) or self.source.name

    def session(self) -> Session:
        self._end_turn()
        self._leave_out_copied()
        drafts = [draft for draft in self.drafts if not draft.is_repeat]
        place = {id(draft): ordinal for ordinal, draft in enumerate(drafts, self.base)}
        meta = self.meta or _Payload()
        origin = meta.forked_from_id or self.copied_from
        replace = msgspec.structs.replace
        return Session(
            agent="codex",
            source_id=self._id(),
            messages=tuple(draft.frozen(place[id(draft)], self.source) for draft in drafts if not draft.is_told),
            parent_source_id=self.spawned_by or origin or self.source.parent,
            relation="subagent" if self.is_subagent else "fork" if origin is not None else None,
            title=self.title,
            cwd=self.cwd,
            branch=meta.git.branch if meta.git else None,
            agent_version=meta.cli_version,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.is_terminal,
            events=tuple(replace(event, message_ordinal=place.get(id(last))) for event, last in self.events),
            loose_usage=tuple(self.loose),
            models=(self.model,) if self.model else (),
            losses=self.losses.result(),
        )

    # reading on

    def state(self) -> bytes | None:
        """What to read on from. Tell the session after this: it ends what is open."""
        past = self.past
        if past is None or self.is_copy or self.record.offset is None:
            return None  # of a copied history it is not yet known what of it counts
        cut = self.cut or _Cut(0, 0, 0)
        past.end = max(past.end, self.record.offset + len(self.record.data))
        past.events += len(self.events) - cut.events
        past.loose += len(self.loose) - cut.loose
        past.own_id = self._id()
        told = sum(draft.is_told for draft in self.drafts)
        for window in _WINDOWS:
            keep = max(told, cut.drafts, self._first_open(window))
            self._let_go(told, keep, cut, past)
            told = keep
            found = self._packed(past, told, cut)
            if found is not None:
                return found
        return None

    def _first_open(self, window: int) -> int:
        """Index of the first draft that may still change; drafts before the last `window` are taken not to."""
        end = len(self.drafts)
        begin = max(0, end - window)
        running = {id(call) for call in self.processes.values()}
        # The next line may say again what the last message says; of a prompt its key is enough to see that.
        is_prompt = end > 0 and self.drafts[-1].told_by != "" and self.drafts[-1].author != "agent"
        first = end if is_prompt else max(0, end - 1)
        for index in range(end - 1, begin - 1, -1):
            if any(call.fate.rank < (_TEXT if id(call) in running else 0) for call in self.drafts[index].calls):
                first = index
        going_on = [draft for draft in (self.response, self.last) if draft is not None]
        for index in range(end - 1, -1, -1):
            if not going_on:
                break
            if self.drafts[index] in going_on:
                going_on.remove(self.drafts[index])
                first = min(first, index)
        return first

    def _let_go(self, begin: int, end: int, cut: _Cut, past: _Past) -> None:
        """Keep of these drafts only what shows that a line changes them."""
        names: dict[int, list[str]] = {}
        for name, call in self.processes.items():
            names.setdefault(id(call), []).append(name)
        for index in range(begin, end):
            draft = self.drafts[index]
            for call in draft.calls:
                if call.call_id is not None:
                    # That a process ended may be told by a poll, and by its own event whenever that comes.
                    is_open = call.fate.rank < (_EVENT if id(call) in names else 0)
                    (past.running if is_open else past.ended).add(call.call_id, call.at)
                for name in names.get(id(call), ()):
                    del self.processes[name]
                    past.processes.add(name, call.at)
            past.first += index >= cut.drafts and not draft.is_repeat

    def _packed(self, past: _Past, told: int, cut: _Cut) -> bytes | None:
        start = min(told, max(0, len(self.drafts) - _NEAR))
        shown = enumerate(self.drafts[start:told], start)
        drafts = [draft if draft.is_told else draft.as_told(index < cut.drafts) for index, draft in shown]
        drafts += self.drafts[told:]
        where = {id(draft): at for at, draft in enumerate(drafts)}
        placed = [(_Place(at, n), call) for at, draft in enumerate(drafts) for n, call in enumerate(draft.calls)]
        place = {id(call): found for found, call in placed}
        own = [(found, call, self.calls.get(call.call_id)) for found, call in placed if call.call_id is not None]
        nameless = {
            name: [place.get(id(call)) for call in waiting] for name, waiting in self.nameless.items() if waiting
        }
        searches = [(place.get(id(call)), is_item) for call, is_item in self.searches]
        if len(self.processes) > _MOST_NAMES or len(searches) + sum(map(len, nameless.values())) > _MOST_WAITING:
            return None
        for known in (past.ended, past.running, past.processes):
            known.pack()
        meta = self.meta
        state = _State(
            past=past,
            facts=_Facts(**{name: getattr(self, name) for name in _Facts.__struct_fields__}),
            meta=_Meta(meta.id, meta.forked_from_id, meta.cli_version, meta.git) if meta is not None else None,
            was_cut=self.cut is not None,
            losses=self.losses.kinds,
            drafts=drafts,
            response=where[id(self.response)] if self.response is not None else None,
            last=where[id(self.last)] if self.last is not None else None,
            calls={call.call_id or "": found for found, call, first in own if first is call},
            copies=[
                (found, place[id(first)])
                for found, call, first in own
                if first is not None and first is not call and first.fate is call.fate and id(first) in place
            ],
            nameless=nameless,
            processes={name: place[id(call)] for name, call in self.processes.items()},
            searches=searches,
        )
        return records.sealed(state, _STATE_VERSION)

    @classmethod
    def from_state(cls, state: _State, source: Source) -> _Builder:
        builder = cls(source, state.past)
        for name in _Facts.__struct_fields__:
            setattr(builder, name, getattr(state.facts, name))
        drafts = builder.drafts = state.drafts
        builder.base = state.past.first - sum(draft.is_told and not draft.is_repeat for draft in drafts)
        builder.losses = Losses(state.losses)
        if state.meta is not None:
            builder.meta = _Payload(**{name: getattr(state.meta, name) for name in _Meta.__struct_fields__})
        builder.cut = _Cut(0, 0, 0) if state.was_cut else None
        builder.response = drafts[state.response] if state.response is not None else None
        builder.last = drafts[state.last] if state.last is not None else None

        def at(place: _Place) -> _Call:
            return drafts[place.draft].calls[place.call]

        for copy, first in state.copies:
            at(copy).fate = at(first).fate
        builder.calls = {call_id: at(place) for call_id, place in state.calls.items()}
        builder.processes = {name: at(place) for name, place in state.processes.items()}
        builder.searches = [(at(place) if place is not None else None, is_item) for place, is_item in state.searches]
        for name, places in state.nameless.items():
            builder.nameless[name] = [at(place) if place is not None else None for place in places]
        return builder


_Handlers = dict[str, Callable[[_Builder, _Payload], None]]

_LINES: _Handlers = {
    "session_meta": _Builder._session_meta,
    "turn_context": _Builder._turn_context,
    "response_item": _Builder._item,
    "event_msg": _Builder._event,
    "compacted": _Builder._compacted,
    "token_usage_record": _Builder._usage_record,
    "inter_agent_communication": _Builder._agent_message,
}
_CALLS = _words("function_call custom_tool_call local_shell_call tool_search_call tool_call image_generation_call")
_OUTPUTS = _words(
    "function_call_output custom_tool_call_output local_shell_call_output tool_search_output "
    "mcp_tool_call_output tool_result function_result"
)
_ITEMS: _Handlers = {
    "message": _Builder._message,
    "agent_message": _Builder._agent_message,
    "reasoning": _Builder._reasoning,
    "web_search_call": _Builder._search,
    "compaction": _Builder._compacted,
    "compaction_summary": _Builder._compacted,
    "context_compaction": _Builder._compacted,
    **dict.fromkeys(_CALLS, _Builder._tool_call),
    **dict.fromkeys(_OUTPUTS, _Builder._output),
}
_EVENTS: _Handlers = {
    "token_count": _Builder._token_count,
    "user_message": _Builder._user_event,
    "agent_message": _Builder._shown,
    "agent_reasoning": _Builder._shown_reasoning,
    "agent_reasoning_raw_content": _Builder._shown_reasoning,
    "exec_command_end": _Builder._exec_end,
    "patch_apply_end": _Builder._patch_end,
    "mcp_tool_call_end": _Builder._mcp_end,
    "dynamic_tool_call_response": _Builder._tool_response,
    "web_search_end": _Builder._search,
    "item_completed": _Builder._item_completed,
    "task_started": _Builder._task_started,
    "turn_started": _Builder._task_started,
    "task_complete": _Builder._task_complete,
    "turn_complete": _Builder._task_complete,
    "turn.completed": _Builder._turn_completed,
    "turn_aborted": _Builder._aborted,
    "thread_rolled_back": _Builder._rolled_back,
    "context_compacted": _Builder._compacted,
    "error": _Builder._failed,
    "stream_error": _Builder._failed,
    "thread_name_updated": _Builder._named,
    "thread_settings_applied": _Builder._settings,
    "sub_agent_activity": _Builder._subagent,
    "collab_agent_spawn_end": _Builder._subagent,
}
_COMPLETED: _Handlers = {
    "commandexecution": _Builder._exec_end,
    "filechange": _Builder._patch_end,
    "mcptoolcall": _Builder._mcp_end,
    "dynamictoolcall": _Builder._tool_response,
    "contextcompaction": _Builder._compacted,
    "usermessage": _Builder._user_event,
}

# Known, and of no use here: what they tell is told by another line, or is no matter of a report.
_UNREAD_LINES = _words(
    "world_state inter_agent_communication_metadata retained_context security_risk_score realtime_item"
)
_UNREAD_ITEMS = _words("ghost_snapshot configuration_update additional_tools")
_UNREAD_EVENTS = _words(
    "warning guardian_assessment entered_review_mode exited_review_mode thread_goal_updated injected_message "
    "image_generation_end view_image_tool_call dynamic_tool_call_request undo_completed shutdown_complete "
    "collab_agent_interaction_end collab_waiting_end collab_close_end collab_resume_end turn_diff plan_update "
    "background_event account/rateLimits/updated codex/event/raw_item"
)


def parse(lines: Iterable[Record], source: Source) -> list[Session]:
    builder = _Builder(source)
    is_empty = True
    for record in lines:
        builder.add(record)
        is_empty = False
    return [] if is_empty else [builder.session()]


def resume(state: bytes | None, lines: Iterable[Record], source: Source) -> Resumed | None:
    """See `Parser.resume`. None also for no lines at all: they are no session."""
    try:
        return _begun(lines, source) if state is None else _read_on(state, lines, source)
    except Unsure:
        return None


def _begun(lines: Iterable[Record], source: Source) -> Resumed:
    builder = _Builder(source, _Past(records.limits_of(source)))
    rest = iter(lines)
    begin = tuple(islice(rest, 1))
    if not begin:
        raise Unsure
    for record in chain(begin, rest):
        builder.add(record)
    state = builder.state()
    return Resumed(builder.session(), state=state)


def _read_on(state: bytes, lines: Iterable[Record], source: Source) -> Resumed:
    before = records.unsealed(state, _State, _STATE_VERSION)
    past = before.past
    rest = iter(lines)
    begin = tuple(islice(rest, 1))
    if past.source != records.limits_of(source) or any(new.offset is None or new.offset < past.end for new in begin):
        raise Unsure
    builder = _Builder.from_state(before, source)
    told = past.first, past.events, past.loose
    for record in chain(begin, rest):
        builder.add(record)
    if builder.is_copy or builder._id() != past.own_id:
        raise Unsure
    new_state = builder.state()
    return Resumed(builder.session(), *told, state=new_state)


def sniff(sample: Sample) -> bool:
    return any(_is_codex(value) for value in sample.values)


def _is_codex(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if isinstance(value.get("payload"), dict):
        is_line = isinstance(kind, str) and (kind in _LINES or kind in _UNREAD_LINES)
        return kind == "session_meta" or (is_line and "timestamp" in value)
    # The first rollouts (mid 2025): a header without a type, then items, with marks of state in between.
    is_header = kind is None and {"id", "timestamp", "instructions"} <= value.keys()
    return is_header or value.get("record_type") == "state"


PARSER = Parser(
    agent="codex",
    title="Codex",
    homes=(
        Home(".codex/sessions", "**/*.jsonl", "CODEX_HOME"),
        Home(".codex/archived_sessions", "**/*.jsonl", "CODEX_HOME"),
    ),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    resume=resume,
)
