"""Grok Build: a session's folder under `~/.grok/sessions`, of which `chat_history.jsonl` has the conversation.

What is easy to get wrong, and is decided here:
- The history has no status of a call, no time and no token. `updates.jsonl` beside it has all three, and
  `summary.json` the name and place; where they are missing, what only they tell stays untold.
- A failing command is `completed` in the updates: its exit code tells.
- Most lines of the user's side are the program's, with a reason; the person's words stand in `<user_query>`.
- That a turn was interrupted is noted with the prompt that came after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    Notice,
    Relation,
    Role,
    Session,
    ThinkingKind,
    ToolCall,
    Usage,
)
from demerit.parsers.evidence import (
    PENDING,
    SUMMARIES,
    Judgement,
    by_exit_code,
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
    kept_text,
    parse_time,
    raw_body,
    text_body,
    token_count,
    utf8_length,
)

# --- the history ------------------------------------------------------------------------------------------


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None


class _ToolCall(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = NOTHING  # a text that holds JSON


class _Backend(msgspec.Struct):
    """A call that the service ran by itself."""

    tool_type: str | None = None
    action: msgspec.Raw = NOTHING
    id: str | None = None
    status: str | None = None


class _Line(msgspec.Struct):
    type: str | None = None
    role: str | None = None  # of older versions
    content: msgspec.Raw = NOTHING
    synthetic_reason: str | None = None
    prompt_index: int | None = None
    prior_turn_interrupt: str | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    model_id: str | None = None
    tool_call_id: str | None = None
    kind: _Backend | None = None


# --- the files beside it ----------------------------------------------------------------------------------


class _Output(msgspec.Struct):
    exit_code: int | None = None


class _Counts(msgspec.Struct, rename="camel"):
    input_tokens: int | None = None
    """With those that were cached."""
    output_tokens: int | None = None
    cached_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Update(msgspec.Struct):
    session_update: str | None = msgspec.field(name="sessionUpdate", default=None)
    tool_call_id: str | None = msgspec.field(name="toolCallId", default=None)
    status: str | None = None
    raw_output: msgspec.Raw = msgspec.field(name="rawOutput", default=NOTHING)
    prompt_id: str | None = None
    stop_reason: str | None = None
    usage: _Counts | None = None


class _Meta(msgspec.Struct, rename="camel"):
    agent_timestamp_ms: int | None = None
    prompt_index: int | None = None


class _Params(msgspec.Struct):
    update: _Update | None = None
    meta: _Meta | None = msgspec.field(name="_meta", default=None)


class _Notification(msgspec.Struct):
    timestamp: int | float | str | None = None
    params: _Params | None = None


class _Info(msgspec.Struct):
    id: str | None = None
    cwd: str | None = None


class _Summary(msgspec.Struct):
    info: _Info | None = None
    generated_title: str | None = None
    created_at: str | int | float | None = None
    updated_at: str | int | float | None = None
    head_branch: str | None = None
    parent_session_id: str | None = None
    session_kind: str | None = None
    forked_at: msgspec.Raw = NOTHING


_LINES = LineDecoder(_Line)
_UPDATES = LineDecoder(_Notification)
_SUMMARIES = LineDecoder(_Summary)
_OUTPUTS = LineDecoder(_Output)
_TEXTS = msgspec.json.Decoder(list[_Part])

# --- fixed texts of the program ---------------------------------------------------------------------------

_FORMS = (
    (
        re.compile(
            r"Tool execution (?:was |has been )?cancelled|User cancelled the execution for tool|"
            r"Tool execution was halted by the harness|Wait interrupted: the user sent a message"
        ),
        CallStatus.CANCELLED,
    ),
    (
        re.compile(r"User rejected the execution for tool|Tool `[^`]{1,200}` was not executed: Denied"),
        CallStatus.DECLINED,
    ),
    (re.compile(r"Tool `[^`]{1,200}` failed\b"), CallStatus.FAILED),
)
# What newer versions write before the output of a command.
_EXIT = re.compile(r"exit: (?:(-?\d{1,9})|killed \(([^)\n]{1,80})\))[^\n]*(?:\n|\Z)")
_IN_BACKGROUND = "[Command moved to background]"
_QUERY = re.compile(
    r"\s*(?:The user (?:interrupted the previous turn|sent a message while you were working):\s*)?<user_query>"
)
_WORKSPACE = re.compile(r"\s*<user_info>.{0,1000}?^Workspace Path: ([^\n]{1,4096})$", re.DOTALL | re.MULTILINE)
_PREAMBLES = ("<user_info>", "<git_status>", "<project_layout>", "<rules>")
# Reasons of a text that a person wrote all the same.
_TYPED = frozenset(("interjection",))

# The tools whose names `evidence` does not know.
_CATEGORIES: dict[str, Category] = {
    "run_terminal_command": "shell",
    "get_task_output": "shell",
    "get_command_or_subagent_output": "shell",
    "wait_tasks": "shell",
    "kill_task": "shell",
    "spawn_subagent": "agent",
    "todo_write": "plan",
    "use_tool": "mcp",
}
_POLLS = frozenset(("get_task_output", "get_command_or_subagent_output", "wait_tasks"))

# --- reading ----------------------------------------------------------------------------------------------


# Neither refers back to what holds it, so the garbage collector need not look at them (gc=False).


class _Call(msgspec.Struct, gc=False):
    """A call while its result is still to come."""

    name: str
    call_id: str | None
    category: Category
    first: _Call | None = None
    """The first call with this id, which has the result of all its copies."""
    input: Body | None = None
    hash: str | None = None
    is_poll: bool = False
    paths: tuple[str, ...] = ()
    command: str | None = None
    verdict: Judgement | None = None
    result: Body | None = None
    text: str = ""
    """How its result begins."""
    at: datetime | None = None
    told: bool = False
    """Its verdict is from the updates, which have a status."""


class _Draft(msgspec.Struct, gc=False):
    role: Role
    author: Author
    text: str = ""
    notice: Notice | None = None
    has_image: bool = False
    prompt: int | None = None
    calls: list[_Call] = []
    thinking: list[Body] = []
    thinking_text_bytes: int = 0
    ciphertext_bytes: int = 0
    model: str | None = None


_NO_STATUS = Judgement(CallStatus.UNKNOWN, "the history has no status")


class _Reader:
    """Reads the files of one session."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.response: _Draft | None = None  # of which the reasoning came, and the text and calls are to come
        self.calls: dict[str, _Call] = {}
        self.loose: list[Usage] = []
        self.prompts: dict[int, datetime] = {}  # when each was sent
        self.last_stop: str | None = None
        self.summary = _Summary()
        self.workspace: str | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None

    def span(self, at: datetime | None) -> None:
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended

    # the history

    def read(self, line: _Line, record: Record) -> None:
        kind = line.type or line.role
        if kind == "assistant":
            self.assistant(line, record)
        elif kind in ("tool_result", "tool"):
            self.result(line, record)
        elif kind == "user":
            self.user(line, record)
        elif kind == "reasoning":
            self.reasoning(line)
        elif kind == "backend_tool_call":
            self.backend(line, record)
        elif kind == "system":
            self.drafts.append(_Draft("system", "harness", "\n".join(self.texts(line, record)[0])))
        else:
            self.losses.add("unknown_type" if kind else "no_type", record.offset)

    def texts(self, line: _Line, record: Record) -> tuple[list[str], bool]:
        """The texts in a line's content, and whether there is an image."""
        data = bytes(line.content)
        try:
            if data[:1] == b'"':
                return [msgspec.json.decode(data, type=str)], False
            parts = _TEXTS.decode(data) if is_given(line.content) else []
        except BAD_CONTENT:
            parts = []
            self.losses.add("wrong_type", record.offset)
        return [part.text for part in parts if part.text], any(part.type == "image" for part in parts)

    def part(self) -> _Draft:
        if self.response is None:
            self.response = _Draft("assistant", "agent")
            self.drafts.append(self.response)
        return self.response

    def reasoning(self, line: _Line) -> None:
        draft = self.part()
        text = "\n".join(part.text for part in line.summary or () if part.text)
        draft.thinking_text_bytes += utf8_length(text)
        draft.ciphertext_bytes += len(line.encrypted_content or "")
        body = text_body(text, self.source) if text else None
        if body is not None:
            draft.thinking.append(body)

    def backend(self, line: _Line, record: Record) -> None:
        kind = line.kind
        if kind is None:
            self.losses.add("no_call", record.offset)
            return
        call = self.call(self.part(), kind.tool_type or "", kind.id, record)
        self.describe(call, kind.action, record)
        status = {"completed": CallStatus.OK, "failed": CallStatus.FAILED}.get(kind.status or "", CallStatus.UNKNOWN)
        call.verdict = Judgement(status, f"status {kind.status}"[:80])

    def assistant(self, line: _Line, record: Record) -> None:
        draft = self.part()
        self.response = None
        draft.text = "\n".join(self.texts(line, record)[0])
        draft.model = line.model_id
        for got in line.tool_calls or ():
            call = self.call(draft, got.name or "", got.id, record)
            self.describe(call, got.arguments, record)

    def call(self, draft: _Draft, name: str, call_id: str | None, record: Record) -> _Call:
        if not name:
            self.losses.add("call_without_name", record.offset)
        category = _CATEGORIES.get(name) or category_of(name)
        call = _Call(name, call_id, "mcp" if category == "other" and "__" in name else category)
        draft.calls.append(call)
        if call_id:
            first = self.calls.setdefault(call_id, call)
            call.first = first if first is not call else None
        return call

    def describe(self, call: _Call, raw: msgspec.Raw, record: Record) -> None:
        """Note what a call's arguments say: what makes it the same call, its files, its command."""
        if not is_given(raw):
            return
        call.input = raw_body(raw, record, self.source)
        arguments: Any = None
        try:
            arguments = msgspec.json.decode(raw)
            if isinstance(arguments, str):
                arguments = msgspec.json.decode(arguments.encode("utf-8", "replace")) if arguments.strip() else {}
        except BAD_CONTENT:
            self.losses.add("malformed_input", record.offset)
        call.is_poll = call.name in _POLLS or is_poll(call.name, arguments)
        call.hash = input_hash([call.call_id, arguments] if call.is_poll else arguments)
        if isinstance(arguments, dict):
            command = arguments.get("command")
            call.command = command if isinstance(command, str) else None
            target = arguments.get("target_file")
            named = (target,) if isinstance(target, str) and target else ()
            call.paths = tuple(dict.fromkeys((*named, *paths_in(arguments))))

    def result(self, line: _Line, record: Record) -> None:
        self.response = None
        if is_given(line.content) and bytes(line.content)[:1] not in (b'"', b"["):
            self.losses.add("wrong_type", record.offset)
        call = self.calls.get(line.tool_call_id or "")
        if call is None:
            self.losses.add("orphan_result", record.offset)
        elif call.verdict is None:  # of two results, the first stands
            call.text = json_head(bytes(line.content), 4096)
            call.result = raw_body(line.content, record, self.source)
            call.verdict = _by_text(call) or _NO_STATUS

    def user(self, line: _Line, record: Record) -> None:
        self.response = None
        texts, has_image = self.texts(line, record)
        if line.prior_turn_interrupt:
            self.interrupt(line.prior_turn_interrupt)
        text = "\n".join(texts)
        if self.workspace is None and (named := _WORKSPACE.match(text)) is not None:
            self.workspace = named[1]
        draft = _Draft("context", "harness", text)
        if line.synthetic_reason == "compaction_meta" or starts_with_any(text, SUMMARIES):
            draft.notice = "compaction_summary"
            self.event("compaction", "")
        else:
            kept = [] if line.synthetic_reason else [_typed(text) for text in texts]
            if line.synthetic_reason in _TYPED:
                kept = [_typed(text) for text in texts if _QUERY.match(text)] or texts
            typed = "\n".join(filter(str.strip, kept))
            if typed or (has_image and not line.synthetic_reason):
                draft = _Draft("user", "human", typed, has_image=has_image, prompt=line.prompt_index)
            elif not text.strip():
                self.losses.add("empty_message", record.offset)
                return
        self.drafts.append(draft)

    def interrupt(self, detail: str) -> None:
        self.event("interrupt", detail)
        self.drafts.append(_Draft("context", "harness", notice="interrupt"))

    def event(self, kind: Any, detail: str) -> None:
        self.events.append(Event(kind, None, len(self.drafts) - 1 if self.drafts else None, detail))

    # the files beside it

    def beside(self, record: Record) -> None:
        if record.part.endswith("summary.json"):
            for summary in _SUMMARIES.decode(record, self.losses):
                self.summary = summary
                self.span(parse_time(summary.created_at, self.losses))
                self.span(parse_time(summary.updated_at, self.losses))
        else:
            for line in _UPDATES.decode(record, self.losses):
                if line.params is not None and line.params.update is not None:
                    self.update(line.params.update, line.params.meta or _Meta(), line.timestamp)

    def update(self, update: _Update, meta: _Meta, timestamp: object) -> None:
        kind = update.session_update
        at = parse_time(meta.agent_timestamp_ms or timestamp, self.losses)
        self.span(at)
        if kind == "user_message_chunk" and meta.prompt_index is not None and at is not None:
            self.prompts.setdefault(meta.prompt_index, at)
        elif kind in ("tool_call", "tool_call_update"):
            call = self.calls.get(update.tool_call_id or "")
            if call is not None:
                call.at = call.at or at
                if update.status in ("completed", "failed") and not call.told:
                    self.settle(call, update)
        elif kind == "turn_completed":
            self.last_stop = update.stop_reason
            self.spend(update)

    def settle(self, call: _Call, update: _Update) -> None:
        call.told = True
        by_text = _by_text(call)
        if update.status == "failed":
            call.verdict = by_text or Judgement(CallStatus.FAILED, "status failed")
            return
        code = None
        if bytes(update.raw_output)[:1] == b"{":
            for output in _OUTPUTS.decode(Record(bytes(update.raw_output), None), self.losses):
                code = output.exit_code
        if code is not None and call.category == "shell":
            call.verdict = by_exit_code(call.command, code, call.text)
        elif call.text.startswith(_IN_BACKGROUND):
            call.verdict = _NO_STATUS
        else:
            call.verdict = by_text or Judgement(CallStatus.OK, "status completed")

    def spend(self, update: _Update) -> None:
        counts = update.usage
        if counts is None:
            return
        read, written = token_count(counts.cached_read_tokens), token_count(counts.cache_creation_tokens)
        found = Usage(
            input_tokens=max(0, token_count(counts.input_tokens) - read - written),
            cache_read_tokens=read,
            cache_write_5m_tokens=written,
            output_tokens=token_count(counts.output_tokens),
            reasoning_tokens=counts.reasoning_tokens and token_count(counts.reasoning_tokens),
            key=update.prompt_id,  # a fork has copies of its parent's turns, under their ids
            is_sum=True,
        )
        if not found.is_empty:
            self.loose.append(found)

    # the whole

    def session(self) -> Session:
        summary, info = self.summary, self.summary.info or _Info()
        if self.last_stop == "cancelled" and not (self.drafts and self.drafts[-1].notice == "interrupt"):
            self.interrupt("cancelled")
        relation: Relation | None = None
        if (summary.session_kind or "").lower().startswith("sub"):
            relation = "subagent"
        elif summary.parent_session_id:
            relation = "fork" if is_given(summary.forked_at) else "continuation"
        folders = self.source.folders
        return Session(
            agent="grok",
            source_id=info.id or (folders[0] if "sessions" in folders[2:] else self.source.name),
            messages=tuple(self.message(ordinal, draft, relation) for ordinal, draft in enumerate(self.drafts)),
            parent_source_id=summary.parent_session_id,
            relation=relation,
            title=summary.generated_title,
            cwd=info.cwd or self.workspace,
            branch=summary.head_branch,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            events=tuple(self.events),
            loose_usage=tuple(self.loose),
            losses=self.losses.result(),
        )

    def message(self, ordinal: int, draft: _Draft, relation: Relation | None) -> Message:
        kept = kept_text(draft.text, self.source, whole=draft.role == "user")
        kind: ThinkingKind | None = "text" if draft.thinking_text_bytes else None
        calls = tuple(_finish(call, ordinal, index) for index, call in enumerate(draft.calls))
        at = self.prompts.get(draft.prompt) if draft.prompt is not None else None
        return Message(
            ordinal=ordinal,
            role=draft.role,
            author="agent" if draft.author == "human" and relation == "subagent" else draft.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=draft.has_image,
            calls=calls,
            thinking=tuple(draft.thinking),
            thinking_bytes=draft.ciphertext_bytes or draft.thinking_text_bytes,
            thinking_kind="ciphertext" if draft.ciphertext_bytes else kind,
            model=draft.model,
            at=at or next((call.at for call in calls if call.at), None),
            notice=draft.notice,
        )


def _by_text(call: _Call) -> Judgement | None:
    """What the program's own text of a result says of the call; None when it says nothing."""
    text = call.text
    for form, status in _FORMS:
        if form.match(text):
            return Judgement(status, f"text: {text[:80].splitlines()[0]}")
    ended = _EXIT.match(text) if call.category == "shell" else None
    if ended is None:
        return None
    if ended[1] is None:
        status = CallStatus.CANCELLED if ended[2].startswith("cancel") else CallStatus.FAILED
        return Judgement(status, f"text: exit: killed ({ended[2]})")
    return by_exit_code(call.command, int(ended[1]), text[ended.end() :])


def _typed(text: str) -> str:
    """What the person wrote of a text; nothing when it is the program's."""
    query = _QUERY.match(text)
    if query is not None:
        kept, closed, rest = text[query.end() :].rpartition("</user_query>")
        return (kept if closed else rest).strip("\n")
    if starts_with_any(text, _PREAMBLES) or is_harness_text(text):
        return ""
    return without_wrappers(text)


def _finish(call: _Call, ordinal: int, index: int) -> ToolCall:
    told = call.first or call
    status, why, code = told.verdict or PENDING
    return ToolCall(
        ordinal, index, call.name, call.category, status, why, call.call_id, call.input, call.hash, call.paths, code,
        told.result, call.at, call.is_poll,
    )  # fmt: skip


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a history, with what the files beside it tell."""
    reader = _Reader(source)
    is_empty = True
    for record in records:
        is_empty = False
        if record.part:
            reader.beside(record)
            continue
        for line in _LINES.decode(record, reader.losses):
            reader.read(line, record)
    return [] if is_empty else [reader.session()]


def sniff(sample: Sample) -> bool:
    return any(map(_is_line, sample.values))


def _is_line(value: Any) -> bool:
    """Whether a line of a history has what no other agent's has."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "user":
        return isinstance(value.get("content"), list) and not {"prompt_index", "synthetic_reason"}.isdisjoint(value)
    if kind == "assistant":
        return "model_id" in value and isinstance(value.get("content"), str) and "tool_calls" in value
    return kind == "backend_tool_call" and isinstance(value.get("kind"), dict)


PARSER = Parser(
    agent="grok",
    title="Grok Build",
    homes=(Home(".grok/sessions", "**/chat_history.jsonl", "GROK_HOME"),),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(
        statuses="partly", exit_codes="partly", declined="partly", usage="partly", times="partly", subagents="partly"
    ),
    suffixes=(".jsonl",),
    bundle=Bundle("chat_history.jsonl", ("summary.json", "updates.jsonl")),
)
