"""Kiro: a JSON document or a database row a session, and the command line's newer files of one line a record.

A document has a history of turns, each a user's half and an assistant's half. The results of one turn's calls are the
user's half of the next turn. Where Kiro is an editor, the document as it comes to us has neither ids nor results:
its calls are `unknown`. The price of a turn is in credits, which are no tokens and no dollars, so nothing of it is
read. docs/formats/kiro.md tells more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, Session
from demerit.parsers import evidence, records
from demerit.parsers.drafts import DraftCall
from demerit.parsers.evidence import Judgement
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Bundle,
    Coverage,
    Home,
    LineDecoder,
    Losses,
    Parser,
    Query,
    Record,
    Sample,
    Source,
    is_given,
)

# --- a document: {conversation_id, history: [{user, assistant, request_metadata}]} ---------------------------


class _Output(msgspec.Struct):
    """One part of a result."""

    Json: msgspec.Raw = NOTHING
    Text: str | None = None


class _Result(msgspec.Struct):
    tool_use_id: str | None = None
    content: list[_Output] | None = None
    status: str | None = None


class _Given(msgspec.Struct):
    """What came from the user's side: a prompt, results, or both."""

    prompt: str | None = None
    tool_use_results: list[_Result] | None = None


class _Content(msgspec.Struct):
    Prompt: _Given | None = None
    ToolUseResults: _Given | None = None
    CancelledToolUses: _Given | None = None


class _Place(msgspec.Struct):
    current_working_directory: str | None = None


class _Around(msgspec.Struct):
    env_state: _Place | None = None


class _User(msgspec.Struct):
    content: _Content | None = None
    env_context: _Around | None = None
    timestamp: str | int | float | None = None
    images: list[msgspec.Raw] | None = None


class _Use(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING


class _Answer(msgspec.Struct):
    content: str | None = None
    tool_uses: list[_Use] | None = None


class _Assistant(msgspec.Struct):
    Response: _Answer | None = None
    ToolUse: _Answer | None = None


class _Request(msgspec.Struct):
    model_id: str | None = None
    request_start_timestamp_ms: int | float | None = None
    stream_end_timestamp_ms: int | float | None = None


class _Turn(msgspec.Struct):
    user: _User | None = None
    assistant: _Assistant | None = None
    request_metadata: _Request | None = None


class _Model(msgspec.Struct):
    model_id: str | None = None


class _Document(msgspec.Struct):
    conversation_id: str | None = None
    history: list[_Turn] | None = None
    model_info: _Model | None = None
    latest_summary: msgspec.Raw = NOTHING


class _Row(msgspec.Struct):
    """A row of the table conversations_v2, whose key is the folder."""

    key: str | None = None
    conversation_id: str | None = None
    value: str | None = None
    created_at: int | float | None = None
    updated_at: int | float | None = None


# --- lines: {version, kind, data}, and the file beside them ---------------------------------------------------


class _Block(msgspec.Struct):
    kind: str | None = None
    data: msgspec.Raw = NOTHING


class _LineUse(msgspec.Struct, rename="camel"):
    tool_use_id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING


class _LineResult(msgspec.Struct, rename="camel"):
    tool_use_id: str | None = None
    content: list[_Block] | None = None
    status: str | None = None


class _Thought(msgspec.Struct):
    text: str | None = None


class _Fate(msgspec.Struct):
    result: msgspec.Raw = NOTHING


class _Meta(msgspec.Struct):
    timestamp: str | int | float | None = None


class _Data(msgspec.Struct):
    message_id: str | None = None
    content: list[_Block] | None = None
    meta: _Meta | None = None
    results: dict[str, _Fate] | None = None


class _Line(msgspec.Struct):
    kind: str | None = None
    data: _Data | None = None


class _TurnTold(msgspec.Struct):
    model: str | None = None
    message_ids: list[str] | None = None


class _Turns(msgspec.Struct):
    user_turn_metadatas: list[_TurnTold] | None = None


class _ModelState(msgspec.Struct):
    model_info: _Model | None = None


class _State(msgspec.Struct):
    rts_model_state: _ModelState | None = None
    conversation_metadata: _Turns | None = None


class _Beside(msgspec.Struct):
    session_id: str | None = None
    cwd: str | None = None
    title: str | None = None
    created_at: str | int | float | None = None
    updated_at: str | int | float | None = None
    parent_session_id: str | None = None
    session_created_reason: str | None = None
    session_state: _State | None = None


class _Ran(msgspec.Struct):
    """The result of a shell command."""

    exit_status: str | int | None = None
    stdout: str | None = None
    stderr: str | None = None


_DOCUMENTS = LineDecoder(_Document)
_ROWS = LineDecoder(_Row)
_LINES = LineDecoder(_Line)
_USES = LineDecoder(_LineUse)
_RESULTS = LineDecoder(_LineResult)
_THOUGHTS = LineDecoder(_Thought)
_BESIDE = LineDecoder(_Beside)
_RAN = msgspec.json.Decoder(_Ran)

_KINDS = frozenset(("Prompt", "AssistantMessage", "ToolResults", "Clear"))

# --- fixed texts of the program, and its tools -----------------------------------------------------------------

_INTERRUPTED = "The user interrupted the tool execution."
_DENIED = ("I deny this tool request", "Tool use with ")
_HARNESS_PROMPTS = (
    "In a few words, summarize our conversation so far.",
    "[SYSTEM NOTE: This is an automated request, not from the user]",
    "You took too long to respond - try to split up the work into smaller steps.",
    "The conversation history has overflowed, clearing state",
)
_HARNESS_ANSWERS = ("Tool uses were interrupted, waiting for the next user prompt",)
_TIMED_OUT = "Response timed out - message took too long to generate"
_CANCELLED = "Tool use was cancelled by the user"
_BROKEN = ("Failed to parse the tool use:", "The tool arguments failed validation")
_LINE_START = re.compile(rb'\s*\{\s*"(?:version|kind|data)"\s*:')
_EXIT_STATUS = re.compile(r"(?:exit status: )?(-?\d{1,9})\Z")

_CATEGORIES: dict[str, Category] = {
    "fs_edit": "edit",
    "execute_bash": "shell",
    "execute_cmd": "shell",
    "use_aws": "shell",
    "code": "search",
    "todo_list": "plan",
    "thinking": "plan",
    "use_subagent": "agent",
}
_WRITERS = frozenset(("fs_write", "write"))
# What a call is called for the reader changes from one run of it to the next.
_FOR_THE_READER = frozenset(("__tool_use_purpose", "summary"))

_NO_IDS = Judgement(CallStatus.UNKNOWN, "the log has no ids and no results")


# --- reading ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Draft:
    role: Role
    author: Author
    at: datetime | None = None
    text: str = ""
    notice: Notice | None = None
    has_image: bool = False
    calls: list[DraftCall] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    model: str | None = None
    message_id: str | None = None


class _Reader:
    """Builds one session, whatever the shape of its log."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.record = Record(b"")
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.calls: dict[str, DraftCall] = {}
        self.times: list[datetime] = []
        self.session_id: str | None = None
        self.untold: tuple[str, ...] = ()
        self.cwd: str | None = None
        self.beside = _Beside()

    # what all shapes have

    def time(self, value: object) -> datetime | None:
        found = records.parse_time(value, self.losses, self.record.offset)
        if found is not None:
            self.times.append(found)
        return found

    def add(self, role: Role, author: Author, at: datetime | None, text: str, notice: Notice | None = None) -> _Draft:
        draft = _Draft(role, author, at, text, notice)
        self.drafts.append(draft)
        return draft

    def note(self, kind: Any, at: datetime | None, detail: str = "") -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def prompt(self, text: str, at: datetime | None, has_image: bool = False) -> None:
        if evidence.starts_with_any(text, _HARNESS_PROMPTS) or evidence.is_harness_text(text):
            self.add("context", "harness", at, text)
        elif text.strip() or has_image:
            self.add("user", "human", at, text).has_image = has_image

    def answer(self, text: str, at: datetime | None) -> _Draft:
        if text.startswith(_TIMED_OUT):
            self.note("api_error", at, "response timed out")
            return self.add("assistant", "harness", at, text, "api_error")
        is_harness = text.startswith(_HARNESS_ANSWERS)
        return self.add("assistant", "harness" if is_harness else "agent", at, text)

    def call(self, name: str | None, call_id: str | None, raw: msgspec.Raw, at: datetime | None) -> DraftCall:
        if not name:
            self.losses.add("call_without_name", self.record.offset)
        name = name or ""
        call = DraftCall(name, _CATEGORIES.get(name) or evidence.category_of(name), call_id or None, at)
        if call.call_id is None:
            call.unanswered = _NO_IDS
        call.input = records.raw_body(raw, self.record, self.source)
        try:
            value = msgspec.json.decode(raw)
        except BAD_CONTENT:
            self.losses.add("malformed_input", self.record.offset)
            value = None
        if isinstance(value, dict):
            value = {key: inner for key, inner in value.items() if key not in _FOR_THE_READER}
            command = value.get("command")
            if name in _WRITERS:
                call.category = "write" if command in ("create", None) else "edit"
            elif call.category == "shell" and isinstance(command, str):
                call.command = command
            operations = value.get("operations")
            every = (value, *(operations if isinstance(operations, list) else ()))
            call.paths = tuple(dict.fromkeys(path for one in every for path in evidence.paths_in(one)))
        call.hash = records.input_hash(value)
        if call.call_id:
            original = self.calls.setdefault(call.call_id, call)
            call.first = original if original is not call else None
        return call

    def result(self, call_id: str | None, verdict: Judgement, body: Body | None) -> None:
        call = self.calls.get(call_id or "")
        if call is None:
            self.losses.add("orphan_result", self.record.offset)
        elif call.verdict is None:
            call.verdict, call.result = verdict, body

    def judge(self, call_id: str | None, status: str | None, raw: msgspec.Raw, text: str) -> Judgement:
        """How a call went, by the status, and by a command's exit code: a status is good whatever the code is."""
        if status is None or status.lower() not in ("success", "error"):
            return Judgement(CallStatus.UNKNOWN, f"status {status}"[:60])
        if status.lower() == "error":
            if text.startswith(_CANCELLED):
                return Judgement(CallStatus.CANCELLED, f"text: {_CANCELLED}")
            if text.startswith(_BROKEN):
                return Judgement(CallStatus.INVALID, f"text: {text[:40].partition(':')[0]}")
            return Judgement(CallStatus.FAILED, f"status {status}")
        call = self.calls.get(call_id or "")
        if call is not None and call.category == "shell" and bytes(memoryview(raw)[:1]) == b"{":
            try:
                ran = _RAN.decode(raw)
            except BAD_CONTENT:
                ran = _Ran()
            code = _EXIT_STATUS.match(str(ran.exit_status))
            if code is not None:
                output = f"{ran.stderr or ''}\n{(ran.stdout or '')[:2048]}"
                return evidence.by_exit_code(call.command, int(code[1]), output, "exit_status")
            if ran.exit_status is not None:
                return Judgement(CallStatus.FAILED, f"exit_status {ran.exit_status}"[:60])
        return Judgement(CallStatus.OK, f"status {status}")

    # a document

    def read_document(self, document: _Document) -> None:
        self.session_id = document.conversation_id or self.session_id
        if not any(turn.request_metadata for turn in document.history or ()):
            self.untold = ("statuses",)  # the editor's: no results, and not every call
        if is_given(document.latest_summary):
            # The turns before it are gone: it opens what is left.
            self.note("compaction", None)
            text = records.json_head(_first(document.latest_summary), 1 << 20)
            self.add("context", "harness", None, text, "compaction_summary")
        model = document.model_info.model_id if document.model_info else None
        for turn in document.history or ():
            if turn.user is not None:
                self.user_half(turn.user)
            request = turn.request_metadata or _Request()
            at = self.time(request.request_start_timestamp_ms)
            self.time(request.stream_end_timestamp_ms)
            half = turn.assistant or _Assistant()
            for answer in (half.Response, half.ToolUse):
                if answer is not None:
                    draft = self.answer(answer.content or "", at)
                    draft.model = _model(request.model_id or model)
                    draft.calls = [self.call(use.name, use.id, use.args, at) for use in answer.tool_uses or ()]

    def user_half(self, user: _User) -> None:
        at = self.time(user.timestamp)
        content = user.content or _Content()
        place = user.env_context.env_state if user.env_context else None
        self.cwd = self.cwd or (place.current_working_directory if place else None)
        if content.Prompt is not None:
            self.prompt(content.Prompt.prompt or "", at, bool(user.images))
        if content.ToolUseResults is not None:
            for result in content.ToolUseResults.tool_use_results or ():
                parts = result.content or []
                raw = next((part.Json for part in parts if is_given(part.Json)), NOTHING)
                text = "\n".join(part.Text for part in parts if part.Text)
                verdict = self.judge(result.tool_use_id, result.status, raw, text)
                body = records.raw_body(raw, self.record, self.source)
                if body is None and text:
                    body = records.text_body(text, self.source)
                self.result(result.tool_use_id, verdict, body)
        if content.CancelledToolUses is not None:
            self.cancelled(content.CancelledToolUses, at)

    def cancelled(self, given: _Given, at: datetime | None) -> None:
        """Calls that a person stopped, refused, or answered with another prompt instead of a yes."""
        prompt = given.prompt or ""
        is_stop = not prompt or prompt.startswith(_INTERRUPTED)
        verdict = Judgement(CallStatus.DECLINED, "another prompt in place of a permission")
        if is_stop:
            verdict = Judgement(CallStatus.CANCELLED, "CancelledToolUses after an interrupt")
        elif prompt.startswith(_DENIED):
            verdict = Judgement(CallStatus.DECLINED, f"CancelledToolUses: {prompt[:40]}")
        for result in given.tool_use_results or ():
            self.result(result.tool_use_id, verdict, None)
        if is_stop:
            self.note("interrupt", at)
            self.add("context", "harness", at, prompt, "interrupt")
        elif prompt.startswith(_DENIED):
            self.add("context", "harness", at, prompt)
        else:
            self.prompt(prompt, at)

    # lines

    def read_line(self, line: _Line) -> None:
        if line.kind not in _KINDS:
            self.losses.add("unknown_type" if line.kind else "no_type", self.record.offset)
        elif line.data is None:
            self.losses.add("no_data", self.record.offset)
        elif line.kind == "Prompt":
            at = self.time(line.data.meta.timestamp) if line.data.meta else None
            blocks = line.data.content or []
            self.prompt(_texts(blocks), at, any(block.kind == "image" for block in blocks))
        elif line.kind == "AssistantMessage":
            self.assistant_line(line.data)
        elif line.kind == "ToolResults":
            self.results_line(line.data)

    def assistant_line(self, data: _Data) -> None:
        blocks = data.content or []
        draft = self.answer(_texts(blocks), None)
        draft.message_id = data.message_id
        for block in blocks:
            if block.kind == "toolUse":
                for use in _USES.decode(self.inner(block), self.losses):
                    draft.calls.append(self.call(use.name, use.tool_use_id, use.input, None))
            elif block.kind == "thinking":
                for thought in _THOUGHTS.decode(self.inner(block), self.losses):
                    draft.thoughts += [thought.text] if thought.text else []
            elif block.kind != "text" and block.kind != "image":
                self.losses.add("unknown_type", self.record.offset)

    def results_line(self, data: _Data) -> None:
        fates = data.results or {}
        for block in data.content or ():
            if block.kind != "toolResult":
                continue
            for result in _RESULTS.decode(self.inner(block), self.losses):
                fate = fates.get(result.tool_use_id or "", _Fate())
                parts = result.content or []
                raw = next((part.data for part in parts if is_given(part.data)), NOTHING)
                if bytes(fate.result) == b'"Cancelled"':
                    verdict = Judgement(CallStatus.CANCELLED, "result Cancelled")
                else:
                    verdict = self.judge(result.tool_use_id, result.status, raw, records.json_head(bytes(raw), 100))
                self.result(result.tool_use_id, verdict, records.raw_body(raw, self.record, self.source))

    def inner(self, block: _Block) -> Record:
        """A value inside a line, as a record of its own."""
        return Record(bytes(block.data), self.record.offset)

    # the whole

    def session(self) -> Session:
        beside = self.beside
        state = beside.session_state or _State()
        info = state.rts_model_state.model_info if state.rts_model_state else None
        turns = (state.conversation_metadata.user_turn_metadatas if state.conversation_metadata else None) or ()
        models = {name: turn.model for turn in turns for name in turn.message_ids or ()}
        is_subagent = beside.session_created_reason == "subagent"
        for draft in self.drafts:
            if draft.author == "agent":
                told = models.get(draft.message_id or "") or (info.model_id if info else None)
                draft.model = draft.model or _model(told)
            elif draft.author == "human" and is_subagent:
                draft.author = "agent"
        times = self.times + [at for at in map(self.time, (beside.created_at, beside.updated_at)) if at is not None]
        return Session(
            agent=PARSER.agent,
            source_id=beside.session_id or self.session_id or self.source.name,
            messages=tuple(self.frozen(draft, ordinal) for ordinal, draft in enumerate(self.drafts)),
            parent_source_id=beside.parent_session_id,
            relation="subagent" if is_subagent else None,
            title=beside.title,
            cwd=beside.cwd or self.cwd,
            started=min(times, default=None),
            ended=max(times, default=None),
            modified=self.source.modified,
            events=tuple(self.events),
            losses=self.losses.result(),
            untold=self.untold,
        )

    def frozen(self, draft: _Draft, ordinal: int) -> Message:
        kept = records.kept_text(draft.text, self.source, whole=draft.role == "user")
        bodies = (records.text_body(text, self.source) for text in draft.thoughts)
        return Message(
            ordinal=ordinal,
            role=draft.role,
            author=draft.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=draft.has_image,
            calls=tuple(call.frozen(ordinal, index) for index, call in enumerate(draft.calls)),
            thinking=tuple(body for body in bodies if body is not None),
            thinking_bytes=sum(map(records.utf8_length, draft.thoughts)),
            thinking_kind="text" if draft.thoughts else None,
            model=draft.model,
            at=draft.at,
            notice=draft.notice,
        )


def _model(name: str | None) -> str | None:
    return None if name == "auto" else name  # which leaves the choice to the service


def _texts(blocks: list[_Block]) -> str:
    texts = (records.json_head(bytes(block.data), 10**9) for block in blocks if block.kind == "text")
    return "\n".join(text for text in texts if text)


def _first(raw: msgspec.Raw) -> bytes:
    """The text in `[text, what it cost]`."""
    try:
        return bytes(msgspec.json.decode(raw, type=list[msgspec.Raw])[0])
    except (*BAD_CONTENT, IndexError):
        return bytes(raw)


def _from_row(record: Record, source: Source) -> tuple[float, Session] | None:
    """The session in a row of the database, with the time that the row was written."""
    reader = _Reader(source)
    reader.record = record
    for row in _ROWS.decode(record, reader.losses):
        reader.session_id, reader.cwd = row.conversation_id, row.key
        reader.time(row.created_at)
        reader.time(row.updated_at)
        reader.record = Record((row.value or "").encode(), None)
        for document in _DOCUMENTS.decode(reader.record, reader.losses):
            reader.read_document(document)
        return row.updated_at or 0, reader.session()
    return None


def _from_rows(lines: Iterable[Record], source: Source) -> list[Session]:
    newest: dict[str, tuple[float, Session]] = {}
    for record in lines:
        found = _from_row(record, source)
        if found is not None:
            known = newest.get(found[1].source_id)
            if known is None or found[0] >= known[0]:  # a session that was taken to another folder has a row there too
                newest[found[1].source_id] = found
    return [session for _, session in newest.values()]


def parse(lines: Iterable[Record], source: Source) -> list[Session]:
    """The session of a document or of a file of lines; all sessions of a database."""
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        return []
    every = chain((first,), rest)
    if first.part == PARSER.queries[0].name:
        return _from_rows(every, source)
    reader = _Reader(source)
    are_lines = _LINE_START.match(first.data) is not None
    for record in every:
        reader.record = record
        if not are_lines:
            for document in _DOCUMENTS.decode(record, reader.losses):
                reader.read_document(document)
        elif record.part:
            found = _BESIDE.decode(record, reader.losses)
            reader.beside = found[-1] if found else reader.beside
        else:
            for line in _LINES.decode(record, reader.losses):
                reader.read_line(line)
    return [reader.session()]


def sniff(sample: Sample) -> bool:
    if sample.tables:
        return {"conversations_v2", "auth_kv"} <= sample.tables
    return any(_is_document(value) or _is_line(value) for value in sample.values)


def _is_document(value: Any) -> bool:
    history = value.get("history") if isinstance(value, dict) and "conversation_id" in value else None
    return isinstance(history, list) and all(isinstance(turn, dict) and "assistant" in turn for turn in history[:50])


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("version") != "v1" or not isinstance(value.get("data"), dict):
        return False
    kind = value.get("kind")
    return isinstance(kind, str) and kind in _KINDS


PARSER = Parser(
    agent="kiro",
    title="Kiro",
    homes=(
        Home(".kiro/sessions/cli", "*.jsonl"),
        Home(".local/share/kiro-cli", "*.sqlite3", "XDG_DATA_HOME", ".local/share"),
        Home("Library/Application Support/kiro-cli", "*.sqlite3"),
    ),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(
        statuses="partly",
        exit_codes="partly",
        declined="partly",
        usage="no",
        models="partly",
        times="partly",
        subagents="partly",
        compaction="partly",
        thinking="partly",
    ),
    suffixes=(".jsonl", ".json", ".sqlite3"),
    # Named as narrowly as can be: in the walk of a folder, a part is passed over whoever wrote it.
    bundle=Bundle("????????-????-????-????-????????????.jsonl", ("{stem}.json",)),
    queries=(Query("conversations_v2", "conversations_v2", "select * from conversations_v2"),),
)
