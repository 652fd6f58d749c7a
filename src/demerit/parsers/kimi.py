"""Kimi Code, and Kimi CLI before it: the wire of a session, or the older context file alone.

Three shapes, told line by line:
- Kimi Code's wire has flat records: `context.append_message`, `context.append_loop_event`, `usage.record`, ...
- Kimi CLI's wire has `{timestamp, message: {type, payload}}`.
- Kimi CLI's context has a message of the chat a line, between `_checkpoint` and `_usage`.

What is easy to get wrong, and is decided here:
- A step is one response, in many lines. Its usage is recorded twice: at its end, and once more by itself.
- A fork is a copy of its parent's wire up to the record `forked`.
- Ids of calls are counted (`Bash_0`), and begin anew when a session is opened again.
- What the user was asked, and said, stands before the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Relation, Role, Session, Usage
from demerit.model import ToolCall as Call
from demerit.parsers.evidence import (
    PENDING,
    Judgement,
    by_exit_code,
    category_of,
    is_harness_text,
    is_poll,
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
    kept_text,
    parse_time,
    raw_body,
    text_body,
    token_count,
    utf8_length,
)

# --- the format -------------------------------------------------------------------------------------------


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    think: str | None = None


class _Origin(msgspec.Struct, rename="camel"):
    """Why a message of the user's side is there."""

    kind: str | None = None
    name: str | None = None
    trigger: str | None = None
    skill_args: str | None = None
    command_args: str | None = None
    task_id: str | None = None
    status: str | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = NOTHING


class _ToolCall(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = NOTHING
    function: _Function | None = None


class _Message(msgspec.Struct):
    # of Kimi Code
    role: str | None = None
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = msgspec.field(name="toolCalls", default=None)
    tool_call_id: str | None = msgspec.field(name="toolCallId", default=None)
    origin: _Origin | None = None
    # of Kimi CLI
    type: str | None = None
    payload: msgspec.Raw = NOTHING


class _Tokens(msgspec.Struct, rename="camel"):
    input_other: int | None = None
    output: int | None = None
    input_cache_read: int | None = None
    input_cache_creation: int | None = None


class _Result(msgspec.Struct):
    output: msgspec.Raw = NOTHING
    is_error: bool | None = msgspec.field(name="isError", default=None)


class _Event(msgspec.Struct, rename="camel"):
    """What happens in a step."""

    type: str | None = None
    uuid: str | None = None
    step_uuid: str | None = None
    part: _Part | None = None
    tool_call_id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING
    result: _Result | None = None
    usage: _Tokens | None = None
    finish_reason: str | None = None
    message_id: str | None = None


class _Place(msgspec.Struct):
    cwd: str | None = None


class _Detail(msgspec.Struct):
    """Of what the user decided, and of an error."""

    decision: str | None = None
    message: str | None = None


class _Line(msgspec.Struct):
    # of Kimi Code
    type: str | None = None
    time: int | float | str | None = None
    message: _Message | None = None
    event: _Event | None = None
    usage: _Tokens | None = None
    model: str | None = None
    model_alias: str | None = msgspec.field(name="modelAlias", default=None)
    kind: str | None = None
    attempt: str | int | None = None
    cwd: str | None = None
    environment: _Place | None = msgspec.field(name="environmentDisclosure", default=None)
    call_id: str | None = msgspec.field(name="toolCallId", default=None)
    result: msgspec.Raw = NOTHING
    summary: msgspec.Raw = NOTHING
    reason: str | None = None
    error: msgspec.Raw = NOTHING
    target: msgspec.Raw = NOTHING
    # of Kimi CLI: the wire, then the context
    timestamp: int | float | str | None = None
    role: str | None = None
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


class _CliTokens(msgspec.Struct):
    input_other: int | None = None
    output: int | None = None
    input_cache_read: int | None = None
    input_cache_creation: int | None = None


class _Return(msgspec.Struct):
    is_error: bool | None = None
    output: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING


class _Payload(msgspec.Struct):
    """Of a message on Kimi CLI's wire."""

    user_input: str | list[_Part] | None = None
    type: str | None = None
    text: str | None = None
    think: str | None = None
    id: str | None = None
    function: _Function | None = None
    arguments_part: str | None = None
    tool_call_id: str | None = None
    return_value: _Return | None = None
    token_usage: _CliTokens | None = None
    message_id: str | None = None
    request_id: str | None = None
    response: str | None = None
    event: msgspec.Raw = NOTHING


class _SubEvent(msgspec.Struct):
    type: str | None = None
    payload: _Payload | None = None


class _State(msgspec.Struct, rename="camel"):
    id: str | None = None
    title: str | None = None
    is_custom_title: bool | None = None
    work_dir: str | None = None
    cwd: str | None = None
    forked_from: str | None = None


_LINES = LineDecoder(_Line)
_PAYLOADS = LineDecoder(_Payload)
_SUB_EVENTS = LineDecoder(_SubEvent)
_STATES = LineDecoder(_State)
_DETAILS = LineDecoder(_Detail)

# Records that carry nothing a report needs, by how their types begin. Any other is new to us.
_IGNORED = tuple(
    (
        "metadata turn.prompt turn.steer turn.step. tools. llm.tools_snapshot mcp. permission. plugin. runtime. plan. "
        "full_compaction. micro_compaction. context.clear context.update_token_count plan_mode. swarm_mode. "
        "tower_mode. token_counting. goal. cron. file_history. task. interaction. interruptionReminder. prompt. "
        "staleGuard."
    ).split()
)
_IGNORED_WIRE = frozenset(
    (
        "TurnEnd Notification PlanDisplay HookTriggered HookResolved MCPLoadingBegin MCPLoadingEnd BtwBegin BtwEnd "
        "QuestionRequest QuestionResponse ToolCallRequest StepRetry CompactionEnd MCPStatusSnapshot"
    ).split()
)

# --- fixed texts of the program ---------------------------------------------------------------------------

_EXIT = re.compile(r"(?:\A|\n)Command failed with exit code: (-?\d{1,9})\.(?=\s*\Z|\s*\n\[|\s*</system>)")
_TOOL = r"Tool (?:call )?[\"`][^\"`\n]{1,200}[\"`] "
_FORMS = (
    (
        re.compile(_TOOL + r"not found|Invalid args for tool |Error (?:parsing|validating) JSON arguments:"),
        CallStatus.INVALID,
    ),
    (
        re.compile(
            r"The tool call is rejected by the user|"
            + _TOOL
            + r"was (?:not run because the user rejected|denied by permission policy|blocked)"
        ),
        CallStatus.DECLINED,
    ),
    (
        re.compile(
            _TOOL + r"(?:was aborted|aborted by grace timeout|was not run because the approval request was cancelled)|"
            r"(?:subagent error: )?(?:The user manually interrupted|The subagent was stopped|Interrupted by user)|"
            r"Tool skipped because a previous tool call stopped the turn|Aborted before command started"
        ),
        CallStatus.CANCELLED,
    ),
)
_TASK = re.compile(r"^task_id: (\S{1,200})$", re.MULTILINE)
_RUNNING = re.compile(r"^status: running$", re.MULTILINE)
_SYSTEM_ERROR = re.compile(r"<system>ERROR: (.*?)(?:</system>|\Z)", re.DOTALL)
_COMPACTED = "<system>Previous context has been compacted."

# How a task in the background ended; of one that was `lost`, nobody knows.
_ENDS = {
    "completed": CallStatus.OK,
    "failed": CallStatus.FAILED,
    "timed_out": CallStatus.FAILED,
    "killed": CallStatus.CANCELLED,
}

# The tools whose names `evidence` does not know.
_CATEGORIES: dict[str, Category] = {
    "ReadMediaFile": "read",
    "StrReplaceFile": "edit",
    "TaskList": "shell",
    "SearchWeb": "web",
    "FetchURL": "web",
    "AgentSwarm": "agent",
    "TodoList": "plan",
    "SetTodoList": "plan",
    "CreateGoal": "plan",
    "UpdateGoal": "plan",
    "GetGoal": "plan",
    "SetGoalBudget": "plan",
}
_POLLS = frozenset(("TaskList",))

# --- reading ----------------------------------------------------------------------------------------------


# Neither refers back to what holds it, so the garbage collector need not look at them (gc=False).


class _Call(msgspec.Struct, gc=False):
    """A call while its result is still to come."""

    name: str
    call_id: str | None
    at: datetime | None
    category: Category
    first: _Call | None = None
    """The same call, logged before: it has the result."""
    decision: str | None = None
    """What the user said of it."""
    arguments: str | None = None
    """The text of the arguments, where it comes in pieces."""
    input: Body | None = None
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
    texts: list[str] = []
    notice: Notice | None = None
    has_image: bool = False
    calls: list[_Call] = []
    thinking: list[Body] = []
    thinking_bytes: int = 0
    model: str | None = None
    usage: Usage | None = None
    stop: str | None = None
    id: str | None = None
    joint: str = "\n"

    @property
    def is_empty(self) -> bool:
        """Whether nothing came of a step: the request failed, or was broken off."""
        return not (self.texts or self.calls or self.thinking_bytes or self.usage)


class _Reader:
    """Reads the files of one session."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.loose: list[Usage] = []
        self.calls: dict[str, _Call] = {}
        self.tasks: dict[str, _Call] = {}  # in the background, until they end
        self.decisions: dict[str, str | None] = {}  # what the user said of calls that are to come, by their ids
        self.requests: dict[str, str] = {}  # of Kimi CLI: the call that the user was asked about
        self.step: _Draft | None = None
        self.tokens: _Tokens | None = None  # of the step that just ended: they are recorded once more
        self.is_busy = False
        self.is_fork = False
        self.is_subagent = False
        self.model: str | None = None
        self.alias: str | None = None
        self.cwd: str | None = None
        self.state = _State()
        self.started: datetime | None = None
        self.ended: datetime | None = None

    def read(self, line: _Line, record: Record) -> None:
        at = parse_time(line.time if line.time is not None else line.timestamp, self.losses, record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        kind = line.type
        if kind is not None:
            handler = _CODE.get(kind)
            if handler is not None:
                handler(self, line, at, record)
            elif not kind.startswith(_IGNORED):
                self.losses.add("unknown_type", record.offset)
        elif line.role is not None:
            self.chat(line.role, line.content, line.tool_calls, line.tool_call_id, at, record)
        elif line.message is not None and line.message.type is not None:
            wired = line.message.type
            on_wire = _WIRE.get(wired)
            if on_wire is not None:
                for payload in _decoded(_PAYLOADS, line.message.payload, record, self.losses):
                    on_wire(self, payload, at, record)
            elif wired not in _IGNORED_WIRE:
                self.losses.add("unknown_type", record.offset)
        else:
            self.losses.add("no_type", record.offset)

    # what all three shapes have

    def begin(self, at: datetime | None, number: str | None = None, joint: str = "\n") -> _Draft:
        self.step = _Draft("assistant", "agent", at, model=self.model, id=number, joint=joint)
        self.drafts.append(self.step)
        return self.step

    def note(self, kind: Any, at: datetime | None, detail: str = "") -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def context(self, text: str, at: datetime | None, notice: Notice | None = None) -> None:
        self.drafts.append(_Draft("context", "harness", at, [text] if text else [], notice))

    def interrupt(self, at: datetime | None, detail: str = "") -> None:
        self.is_busy = False
        self.note("interrupt", at, detail)
        self.context("", at, "interrupt")

    def part(self, draft: _Draft, part: _Part, record: Record) -> None:
        if part.type == "text":
            if part.text:
                draft.texts.append(part.text)
        elif part.type == "think":
            draft.thinking_bytes += utf8_length(part.think or "")
            body = text_body(part.think, self.source) if part.think else None
            if body is not None:
                draft.thinking.append(body)
        elif part.type is None:
            self.losses.add("no_type", record.offset)

    def call(self, draft: _Draft, name: str | None, call_id: str | None, at: datetime | None, record: Record) -> _Call:
        if not name:
            self.losses.add("call_without_name", record.offset)
        name = name or ""
        call = _Call(name, call_id, at, _CATEGORIES.get(name) or category_of(name))
        if call_id:
            known = self.calls.get(call_id)
            # Ids are counted from nothing when a session is opened again: only in its step it is the same call.
            if known is not None and any(known is other for other in draft.calls):
                call.first = known
            else:
                self.calls[call_id] = call
                call.decision = self.decisions.pop(call_id, None)
        draft.calls.append(call)
        return call

    def describe(self, call: _Call, raw: msgspec.Raw, record: Record) -> None:
        """Note what a call's arguments say: what makes it the same call, its files, its command."""
        if not is_given(raw):
            return
        call.input = raw_body(raw, record, self.source)
        try:
            arguments = msgspec.json.decode(raw)
            if isinstance(arguments, str):
                arguments = msgspec.json.decode(arguments.encode("utf-8", "replace")) if arguments.strip() else {}
        except BAD_CONTENT:
            self.losses.add("malformed_input", record.offset)
            return
        _note_arguments(call, arguments)

    def answer(self, call_id: str | None, body: msgspec.Raw, record: Record) -> _Call | None:
        """The call that a result is the first of."""
        call = self.calls.get(call_id or "")
        if call is None:
            self.losses.add("orphan_result", record.offset)
            return None
        if call.verdict is not None:
            return None
        call.result = raw_body(body, record, self.source)
        return call

    def failed(self, call: _Call, text: str) -> Judgement:
        """How a call went of which the log says that it did not go well."""
        if call.decision in ("rejected", "reject"):
            return Judgement(CallStatus.DECLINED, f"approval {call.decision}")
        if call.decision == "cancelled":
            return Judgement(CallStatus.CANCELLED, "approval cancelled")
        ended = _EXIT.search(text) if call.category == "shell" else None
        if ended is not None:
            return by_exit_code(call.command, int(ended[1]), text[: ended.start()])
        for form, status in _FORMS:
            if form.match(text):
                return Judgement(status, f"text: {text[:80].splitlines()[0]}")
        line = text.lstrip()[:80].partition("\n")[0]
        return Judgement(CallStatus.FAILED, f"error flag true: {line}" if line else "error flag true")

    def went_well(self, call: _Call, head: str) -> Judgement:
        """How a call went that has no error flag; it may go on in the background."""
        task = _TASK.search(head) if call.category in ("shell", "agent") and not call.is_poll else None
        if task is not None and _RUNNING.search(head):
            self.tasks[task[1]] = call
            return Judgement(CallStatus.UNKNOWN, "put in the background, and no end of it in the log")
        return Judgement(CallStatus.OK, "no error flag")

    def spend(self, tokens: _Tokens | _CliTokens | None, key: str | None) -> Usage | None:
        if tokens is None:
            return None
        found = Usage(
            input_tokens=token_count(tokens.input_other),
            cache_read_tokens=token_count(tokens.input_cache_read),
            cache_write_5m_tokens=token_count(tokens.input_cache_creation),
            output_tokens=token_count(tokens.output),
            key=key,
        )
        return None if found.is_empty else found

    def chat(
        self,
        role: str,
        content: str | list[_Part] | None,
        calls: list[_ToolCall] | None,
        call_id: str | None,
        at: datetime | None,
        record: Record,
    ) -> None:
        """A message of the chat: a line of the context, or one that was put into a session of Kimi Code."""
        parts = [_Part("text", content)] if isinstance(content, str) else content or []
        if role == "assistant":
            draft = self.begin(at)
            for part in parts:
                self.part(draft, part, record)
            for got in calls or ():
                function = got.function or _Function(got.name, got.arguments)
                self.describe(self.call(draft, function.name, got.id, at, record), function.arguments, record)
        elif role == "tool":
            text = "\n".join(part.text for part in parts if part.text)
            call = self.answer(call_id, NOTHING, record)
            if call is not None:
                call.result = text_body(text, self.source)
                error = _SYSTEM_ERROR.match(text)
                call.verdict = self.failed(call, error[1]) if error else self.went_well(call, text[:500])
        elif role == "user":
            text = "\n".join(part.text for part in parts if part.text)
            has_image = any(part.type not in ("text", "think", None) for part in parts)
            if text.startswith(_COMPACTED):
                self.note("compaction", at)
                self.context(text, at, "compaction_summary")
            elif text.startswith("<system>"):
                self.context(text, at)
            else:
                self.prompt(text, has_image, "human", at)
        elif role in ("system", "_system_prompt"):
            text = "\n".join(part.text for part in parts if part.text)
            self.drafts.append(_Draft("system", "harness", at, [text]))
        elif role not in ("_checkpoint", "_usage"):
            self.losses.add("unknown_role", record.offset)

    def prompt(self, text: str, has_image: bool, author: Author, at: datetime | None) -> None:
        self.step = None
        kept = without_wrappers(text)
        if is_harness_text(text) or not (kept.strip() or has_image):
            self.context(text, at)
        else:
            self.is_busy = True
            self.drafts.append(_Draft("user", author, at, [kept], has_image=has_image))

    # Kimi Code's wire

    def configure(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.cwd = line.cwd or (line.environment.cwd if line.environment else None) or self.cwd
        alias = line.model_alias
        if alias and alias != self.alias:
            if self.alias is not None:
                self.note("model_change", at, f"{self.alias} -> {alias}")
            self.alias = self.model = alias

    def request(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.attempt is not None and str(line.attempt).partition("/")[0] != "1":
            self.note("api_error", at, f"retried, attempt {line.attempt}"[:80])
        if line.kind != "compaction":
            self.model = line.model or line.model_alias or self.model
            if self.step is not None and self.step.is_empty:
                self.step.model = self.model

    def append(self, line: _Line, at: datetime | None, record: Record) -> None:
        message = line.message
        if message is None:
            self.losses.add("no_message", record.offset)
            return
        origin = message.origin or _Origin()
        kind = origin.kind
        if message.role != "user" or kind in (None, "user"):
            role = message.role or "user"
            self.chat(role, message.content, message.tool_calls, message.tool_call_id, at, record)
            return
        parts = [_Part("text", message.content)] if isinstance(message.content, str) else message.content or []
        text = "\n".join(part.text for part in parts if part.text)
        arguments = origin.skill_args or origin.command_args
        if kind in ("skill_activation", "plugin_command") and origin.trigger == "user-slash" and arguments:
            self.prompt(arguments, False, "human", at)
        elif kind == "system_trigger" and origin.name == "subagent":
            self.is_subagent = True
            self.prompt(text, False, "agent", at)
        elif kind == "compaction_summary":
            if not (self.drafts and self.drafts[-1].notice == "compaction_summary"):
                self.context(text, at, "compaction_summary")
        else:
            if kind == "background_task":
                self.finished(origin)
            self.context(text, at)

    def finished(self, origin: _Origin) -> None:
        """Note how a task in the background ended."""
        status = _ENDS.get(origin.status or "")
        call = self.tasks.pop(origin.task_id or "", None) if status is not None else None
        if call is not None and status is not None:
            call.verdict = Judgement(status, f"task {origin.status}")

    def event(self, line: _Line, at: datetime | None, record: Record) -> None:
        event = line.event
        if event is None:
            self.losses.add("no_event", record.offset)
        elif event.type == "content.part":
            if event.part is None:
                self.losses.add("no_part", record.offset)
            else:
                self.part(self.of_step(event, at), event.part, record)
        elif event.type == "tool.call":
            call = self.call(self.of_step(event, at), event.name, event.tool_call_id, at, record)
            self.describe(call, event.args, record)
        elif event.type == "tool.result":
            result = event.result or _Result()
            answered = self.answer(event.tool_call_id, result.output, record)
            if answered is not None:
                data = bytes(result.output)
                if result.is_error:
                    answered.verdict = self.failed(answered, json_head(data, len(data)))
                else:
                    answered.verdict = self.went_well(answered, json_head(data, 500))
        elif event.type == "step.begin":
            self.is_busy = True
            self.begin(at, event.uuid)
        elif event.type == "step.end":
            draft = self.of_step(event, at, event.uuid)
            draft.usage = self.spend(event.usage, event.message_id or event.uuid)
            draft.stop = event.finish_reason
            self.tokens = event.usage
            self.is_busy = event.finish_reason != "end_turn"
        else:
            self.losses.add("unknown_type" if event.type else "no_type", record.offset)

    def of_step(self, event: _Event, at: datetime | None, number: str | None = None) -> _Draft:
        number = number or event.step_uuid
        if self.step is not None and number in (None, self.step.id):
            return self.step
        for draft in reversed(self.drafts[-50:]):
            if number is not None and draft.id == number:
                return draft
        return self.begin(at, number)

    def used(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.usage is not None and line.usage == self.tokens:
            self.tokens = None
            return
        found = self.spend(line.usage, None)
        if found is not None:
            self.loose.append(found)

    def approval(self, line: _Line, at: datetime | None, record: Record) -> None:
        for detail in _decoded(_DETAILS, line.result, record, self.losses) if line.call_id else ():
            self.decisions[line.call_id or ""] = detail.decision

    def compacted(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.note("compaction", at)
        self.context(json_head(bytes(line.summary), 10**6), at, "compaction_summary")

    def undo(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.note("rewind", at)

    def cancel(self, line: _Line, at: datetime | None, record: Record) -> None:
        # A prompt that waited may be taken back, and a turn that is over be cancelled: neither breaks anything off.
        if self.is_busy and b'"queued"' not in bytes(line.target):
            self.interrupt(at, line.reason or "")

    def turn_ended(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.reason == "failed":
            details = _decoded(_DETAILS, line.error, record, self.losses)
            text = next((detail.message for detail in details if detail.message), "the turn failed")
            self.note("api_error", at, text[:200])
            self.drafts.append(_Draft("assistant", "harness", at, [text], "api_error"))
        elif line.reason == "cancelled" and self.is_busy:
            self.interrupt(at)
        self.is_busy = False

    def forked(self, line: _Line, at: datetime | None, record: Record) -> None:
        """All until here is a copy of the parent's."""
        self.is_fork = True
        self.drafts, self.events, self.loose = [], [], []
        self.calls, self.tasks, self.step = {}, {}, None
        self.started = self.ended = at
        self.is_busy = False

    # Kimi CLI's wire

    def turn_begin(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        given = payload.user_input
        parts = [_Part("text", given)] if isinstance(given, str) else given or []
        text = "\n".join(part.text for part in parts if part.text)
        self.prompt(text, any(part.type not in ("text", "think", None) for part in parts), "human", at)

    def step_begin(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        self.is_busy = True
        self.begin(at, joint="")

    def in_step(self, at: datetime | None) -> _Draft:
        return self.step or self.begin(at, joint="")

    def content_part(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        self.part(self.in_step(at), _Part(payload.type, payload.text, payload.think), record)

    def tool_call(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        function = payload.function or _Function()
        call = self.call(self.in_step(at), function.name, payload.id, at, record)
        call.input = raw_body(function.arguments, record, self.source)
        call.arguments = json_head(bytes(function.arguments), 10**7)

    def tool_call_part(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        calls = self.in_step(at).calls
        if calls and payload.arguments_part:
            calls[-1].arguments = (calls[-1].arguments or "") + payload.arguments_part
            calls[-1].input = None  # it stands nowhere in one piece

    def tool_result(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        got = payload.return_value or _Return()
        call = self.answer(payload.tool_call_id, got.output, record)
        if call is None:
            return
        self.settle(call, record)
        output = json_head(bytes(got.output), 4096)
        message = json_head(bytes(got.message), 4096)
        if got.is_error:
            call.verdict = self.failed(call, message or output)
        else:
            call.verdict = self.went_well(call, output[:500])

    def settle(self, call: _Call, record: Record | None) -> None:
        """Read the arguments that came in pieces, now that all of them are there."""
        text, call.arguments = call.arguments, None
        if text is None:
            return
        try:
            arguments = msgspec.json.decode(text.encode("utf-8", "replace")) if text.strip() else {}
        except BAD_CONTENT:
            self.losses.add("malformed_input", record.offset if record else None)
            return
        _note_arguments(call, arguments)
        if call.input is None:
            call.input = text_body(text, self.source)

    def status(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        usage = self.spend(payload.token_usage, payload.message_id)
        if usage is not None:
            self.in_step(at).usage = usage

    def step_interrupted(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        self.interrupt(at)

    def ask(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        if payload.id and payload.tool_call_id:
            self.requests[payload.id] = payload.tool_call_id

    def decide(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        call = self.calls.get(self.requests.get(payload.request_id or "", ""))
        if call is not None:
            call.decision = payload.response

    def compaction(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        self.note("compaction", at)

    def sub_event(self, payload: _Payload, at: datetime | None, record: Record) -> None:
        """Of a sub-agent, whose conversation has a file of its own: what it spent."""
        for event in _decoded(_SUB_EVENTS, payload.event, record, self.losses):
            if event.type == "StatusUpdate" and event.payload is not None:
                usage = self.spend(event.payload.token_usage, event.payload.message_id)
                if usage is not None:
                    self.loose.append(usage)

    # the whole

    def beside(self, record: Record) -> None:
        if record.part.endswith("state.json"):
            for state in _STATES.decode(record, self.losses):
                self.state = state

    def session(self) -> Session:
        state = self.state
        folders = self.source.folders
        own = state.id
        if own is None and "agents" in folders[1:2]:  # SESSION/agents/AGENT
            own = folders[-1]
        elif own is None and "sessions" in folders[2:]:  # sessions/FOLDER/SESSION
            own = folders[0]
        name, parent = own or self.source.name, self.source.parent
        relation: Relation | None = None
        if self.is_subagent:
            relation = "subagent"
            is_known = own is not None and "agents" in folders[1:2]
            name, parent = f"{own}:{folders[0]}" if is_known else self.source.name, parent or own
        elif self.is_fork or state.forked_from:
            relation, parent = "fork", state.forked_from
        ordinals: dict[int, int] = {}
        kept = []
        for index, draft in enumerate(self.drafts):
            if draft.role != "assistant" or not draft.is_empty:
                kept.append(draft)
            ordinals[index] = len(kept) - 1
        events = (
            msgspec.structs.replace(event, message_ordinal=_before(ordinals, event.message_ordinal))
            for event in self.events
        )
        return Session(
            agent="kimi",
            source_id=name,
            messages=tuple(self.message(ordinal, draft) for ordinal, draft in enumerate(kept)),
            parent_source_id=parent if relation is not None else None,
            relation=relation,
            title=state.title if state.is_custom_title else None,
            cwd=self.cwd or state.work_dir or state.cwd,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            events=tuple(events),
            loose_usage=tuple(self.loose),
            losses=self.losses.result(),
            models=(self.model,) if self.model and not any(draft.model for draft in kept) else (),
        )

    def message(self, ordinal: int, draft: _Draft) -> Message:
        kept = kept_text(draft.joint.join(draft.texts), self.source, whole=draft.role == "user")
        return Message(
            ordinal=ordinal,
            role=draft.role,
            author=draft.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=draft.has_image,
            calls=tuple(self.finish(call, ordinal, index) for index, call in enumerate(draft.calls)),
            thinking=tuple(draft.thinking),
            thinking_bytes=draft.thinking_bytes,
            thinking_kind="text" if draft.thinking_bytes else None,
            model=draft.model,
            at=draft.at,
            usage=draft.usage,
            stop_reason=draft.stop,
            notice=draft.notice,
        )

    def finish(self, call: _Call, ordinal: int, index: int) -> Call:
        self.settle(call, None)
        told = call.first or call
        status, why, code = told.verdict or PENDING
        return Call(
            ordinal, index, call.name, call.category, status, why, call.call_id, call.input, call.hash, call.paths,
            code, told.result, call.at, call.is_poll,
        )  # fmt: skip


_CODE: dict[str, Callable[[_Reader, _Line, datetime | None, Record], None]] = {
    "context.append_loop_event": _Reader.event,
    "context.append_message": _Reader.append,
    "context.apply_compaction": _Reader.compacted,
    "context.undo": _Reader.undo,
    "config.update": _Reader.configure,
    "profile.bind": _Reader.configure,
    "llm.request": _Reader.request,
    "usage.record": _Reader.used,
    "permission.record_approval_result": _Reader.approval,
    "turn.cancel": _Reader.cancel,
    "turn.ended": _Reader.turn_ended,
    "forked": _Reader.forked,
}
_WIRE: dict[str, Callable[[_Reader, _Payload, datetime | None, Record], None]] = {
    "TurnBegin": _Reader.turn_begin,
    "SteerInput": _Reader.turn_begin,
    "StepBegin": _Reader.step_begin,
    "StepInterrupted": _Reader.step_interrupted,
    "ContentPart": _Reader.content_part,
    "ToolCall": _Reader.tool_call,
    "ToolCallPart": _Reader.tool_call_part,
    "ToolResult": _Reader.tool_result,
    "StatusUpdate": _Reader.status,
    "ApprovalRequest": _Reader.ask,
    "ApprovalResponse": _Reader.decide,
    "ApprovalRequestResolved": _Reader.decide,
    "CompactionBegin": _Reader.compaction,
    "SubagentEvent": _Reader.sub_event,
}


def _decoded(decoder: LineDecoder[Any], raw: msgspec.Raw, record: Record, losses: Losses) -> Iterable[Any]:
    """The object in a field that was left undecoded; none where there is none."""
    return decoder.decode(Record(bytes(raw), record.offset), losses) if is_given(raw) else ()


def _before(ordinals: dict[int, int], index: int | None) -> int | None:
    found = ordinals.get(index, -1) if index is not None else -1
    return found if found >= 0 else None


def _note_arguments(call: _Call, arguments: Any) -> None:
    call.is_poll = call.name in _POLLS or is_poll(call.name, arguments)
    call.hash = input_hash([call.call_id, arguments] if call.is_poll else arguments)
    call.paths = paths_in(arguments)
    command = arguments.get("command") if isinstance(arguments, dict) else None
    call.command = command if isinstance(command, str) else None


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a wire or a context file, with what the files beside it tell."""
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


_OWN_TYPES = frozenset(
    (
        "context.append_loop_event context.append_message context.apply_compaction turn.prompt config.update "
        "llm.request llm.tools_snapshot usage.record tools.set_active_tools permission.record_approval_result"
    ).split()
)


def sniff(sample: Sample) -> bool:
    return any(map(_is_line, sample.values))


def _is_line(value: Any) -> bool:
    """Whether a line can only be one of the three shapes'."""
    if not isinstance(value, dict):
        return False
    kind, role = value.get("type"), value.get("role")
    if isinstance(kind, str):
        is_wire = kind in _OWN_TYPES and "time" in value
        return is_wire or (kind == "metadata" and isinstance(value.get("protocol_version"), str))
    message = value.get("message")
    if isinstance(message, dict):
        named = isinstance(message.get("type"), str) and isinstance(message.get("payload"), dict)
        return named and type(value.get("timestamp")) in (int, float)
    if role == "_checkpoint":
        return type(value.get("id")) is int
    return (role == "_usage" and "token_count" in value) or (role == "_system_prompt" and "content" in value)


PARSER = Parser(
    agent="kimi",
    title="Kimi Code",
    homes=(
        Home(".kimi-code/sessions", "**/wire.jsonl", "KIMI_CODE_HOME"),
        Home(".kimi/sessions", "**/*.jsonl", "KIMI_SHARE_DIR"),
    ),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(models="partly", times="partly", usage="partly", subagents="partly"),
    suffixes=(".jsonl",),
    bundle=Bundle("wire.jsonl", ("../../state.json", "state.json", "context*.jsonl")),
)
