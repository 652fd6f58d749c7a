"""GitHub Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`, one event a line.

What is easy to get wrong, and is decided here:
- `success` is true for a shell command that exits with 1. The exit code stands in the telemetry, in a content
  block, or in the last line of the output.
- A command that outlives its wait is told twice: as still running, and later by the call that looks at its shell
  or by a notification. The end belongs to the call that started it.
- The totals at a shutdown are those of all legs of a resumed session; they are not to be added up.
- Tokens of one request are logged for its output alone, so no single request has a usage here.

docs/formats/copilot.md tells how each fact is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, Session, Usage
from demerit.parsers import evidence, records
from demerit.parsers.drafts import DraftCall
from demerit.parsers.evidence import PENDING, Judgement
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
    is_given,
)

# --- the format: envelopes {type, data, id, timestamp, parentId, agentId?} ------------------------------------


class _Request(msgspec.Struct, rename="camel"):
    tool_call_id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = NOTHING
    mcp_server_name: str | None = None


class _Attachment(msgspec.Struct, rename="camel"):
    type: str | None = None
    mime_type: str | None = None


class _Context(msgspec.Struct):
    cwd: str | None = None
    branch: str | None = None


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Metrics(msgspec.Struct):
    exit_code: int | None = None


class _Telemetry(msgspec.Struct):
    metrics: _Metrics | None = None


class _Counts(msgspec.Struct, rename="camel"):
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class _OfModel(msgspec.Struct):
    usage: _Counts | None = None


class _Kind(msgspec.Struct, rename="camel"):
    """What a notification is about."""

    type: str | None = None
    shell_id: str | None = None
    exit_code: int | None = None


class _Permission(msgspec.Struct, rename="camel"):
    tool_call_id: str | None = None


class _Data(msgspec.Struct, rename="camel"):
    """Any payload: one wide struct is decoded in one pass over the line."""

    # the session
    session_id: str | None = None
    copilot_version: str | None = None
    detached_from_spawning_parent_session_id: str | None = None
    context: _Context | None = None
    selected_model: str | None = None
    new_model: str | None = None
    model_metrics: dict[str, _OfModel] | None = None
    # messages
    content: str | None = None
    source: str | None = None
    is_autopilot_continuation: bool | None = None
    attachments: list[_Attachment] | None = None
    api_call_id: str | None = None
    model: str | None = None
    reasoning_text: str | None = None
    reasoning_opaque: str | None = None
    encrypted_content: str | None = None
    tool_requests: list[_Request] | None = None
    # calls
    parent_tool_call_id: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    mcp_server_name: str | None = None
    arguments: msgspec.Raw = NOTHING
    is_user_requested: bool | None = None
    success: bool | None = None
    result: msgspec.Raw = NOTHING
    error: _Error | str | None = None
    tool_telemetry: _Telemetry | None = None
    request_id: str | None = None
    permission_request: _Permission | None = None
    # the rest
    kind: _Kind | str | None = None
    agent_name: str | None = None
    reason: str | None = None
    error_type: str | None = None
    message: str | None = None
    trigger: str | None = None
    summary_content: str | None = None
    performed_by: str | None = None


class _Line(msgspec.Struct, rename="camel"):
    type: str | None = None
    data: _Data | None = None
    timestamp: str | int | float | None = None
    agent_id: str | None = None


class _Block(msgspec.Struct, rename="camel"):
    type: str | None = None
    exit_code: int | None = None


class _Result(msgspec.Struct):
    content: msgspec.Raw = NOTHING
    contents: list[_Block] | None = None
    kind: str | None = None  # of a permission


_LINES = LineDecoder(_Line)
_RESULTS = LineDecoder(_Result)

# Events that carry nothing a report needs, and those of a stream that a log on disk does not keep.
_UNREAD = frozenset(
    (
        "session.info session.warning session.mode_changed session.mode_notice_delivered session.plan_changed "
        "session.permissions_changed session.workspace_file_changed session.remote_steerable_changed "
        "session.session_limits_changed session.usage_checkpoint session.usage_info session.context_changed "
        "session.context_cleared session.compaction_start session.task_complete session.todos_changed "
        "session.auto_mode_resolved session.schedule_created session.schedule_cancelled session.schedule_rearmed "
        "session.autopilot_objective_changed session.binary_asset session.title_changed session.idle "
        "session.background_tasks_changed session.tools_updated session.skills_loaded session.custom_agents_updated "
        "session.mcp_servers_loaded session.mcp_server_status_changed session.extensions_loaded session.handoff "
        "assistant.turn_end assistant.intent assistant.idle assistant.usage assistant.message_start "
        "assistant.message_delta assistant.reasoning_delta assistant.streaming_delta assistant.tool_call_delta "
        "tool.execution_partial_result tool.execution_progress tool_search.activated skill.invoked "
        "subagent.selected subagent.deselected subagent.configured pending_messages.modified model.call_failure"
    ).split()
)
_UNREAD_FAMILIES = tuple("hook. user_input. elicitation. sampling. command. external_tool. exit_plan_mode.".split())

# Origins of a user.message that nobody typed; a person's have none, or `user` or `immediate-prompt`.
_INJECTED = re.compile(
    r"(?:system|autopilot|skill|command|schedule|other|jit-instruction|snippy-blocking"
    r"|thinking-exhausted-continuation)(?:-|\Z)"
)
_SKILL = ("<skill-context",)

# The last line of a shell's output, in the spellings of all versions.
_EXITED = re.compile(
    r"<(?:shellId: (?P<shell>\S+) completed|command with id: (?P<command>\S+) exited|exited)"
    r" with exit code (?P<code>-?\d{1,10})>\s*\Z"
)
_RUNNING = re.compile(
    r"<command (?:with shellId: (?P<shell>\S+) is still running\b[^<>]*"
    r"|started in (?:detached )?background with shellId: (?P<started>[^\s>]+)[^<>]*)>\s*\Z"
)
_TAIL = 1000  # characters: the longest such line has 300

_BY_CODE = {"rejected": CallStatus.DECLINED, "denied": CallStatus.DECLINED, "cancelled": CallStatus.CANCELLED}
# An Entire checkpoint puts this in place of what looks like a secret: the length of the rest tells nothing.
_REDACTED = "REDACTED"

_CATEGORIES: dict[str, Category] = {}
for _category, _names in {
    "read": "show_file fetch_copilot_cli_documentation",
    "search": "lsp search_code_subagent tool_search_tool_regex",
    "shell": "read_bash write_bash stop_bash list_bash "
    "read_powershell write_powershell stop_powershell list_powershell",
    "agent": "read_agent write_agent",
    "plan": "report_intent update_todo exit_plan_mode task_complete",
}.items():
    _CATEGORIES.update(dict.fromkeys(_names.split(), _category))  # type: ignore[arg-type]
_POLLS = frozenset("read_bash read_powershell list_bash list_powershell read_agent list_agents".split())
# Up to late 2025 one tool did what `view`, `create` and `edit` do now.
_EDITOR: dict[str, Category] = {"view": "read", "create": "write"}


# --- reading ------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Draft:
    """A message while more of it may come."""

    role: Role
    author: Author
    at: datetime | None
    lane: str = ""
    """The sub-agent it belongs to; empty for the session's own conversation."""
    texts: list[str] = field(default_factory=list)
    notice: Notice | None = None
    has_image: bool = False
    calls: list[DraftCall] = field(default_factory=list)
    model: str | None = None
    api_call_id: str | None = None
    thinking: list[Body] = field(default_factory=list)
    thinking_bytes: int = 0
    signature_bytes: int = 0
    ciphertext_bytes: int = 0

    def frozen(self, ordinal: int, source: Source) -> Message:
        kept = records.kept_text("\n".join(self.texts), source, whole=self.role == "user")
        sealed = self.signature_bytes or self.ciphertext_bytes
        kind = "signature" if self.signature_bytes else "ciphertext" if sealed else "text"
        return Message(
            ordinal=ordinal,
            role=self.role,
            author=self.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=self.has_image,
            calls=tuple(call.frozen(ordinal, index) for index, call in enumerate(self.calls)),
            thinking=tuple(self.thinking),
            thinking_bytes=sealed or self.thinking_bytes,
            thinking_kind=kind if sealed or self.thinking_bytes else None,  # type: ignore[arg-type]
            model=self.model,
            at=self.at,
            sidechain=bool(self.lane),
            notice=self.notice,
        )


class _Reader:
    """Reads the events of one session, in their order."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.record = Record(b"")
        self.at: datetime | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.responses: dict[str, _Draft] = {}  # those that may go on, by lane
        self.reasoning: dict[str, list[str]] = {}  # told before the response that it is a part of
        self.calls: dict[str, DraftCall] = {}
        self.begun: dict[str, list[DraftCall]] = {}  # calls that ran and that no response has named yet, by lane
        self.since_abort: list[DraftCall] = []
        self.by_user: set[str] = set()
        self.asked: dict[str, str] = {}  # calls by the request for their permission
        self.shells: dict[str, DraftCall] = {}  # calls whose command outlived its wait, by shell
        self.usage: dict[str, list[_Counts]] = {}  # by model; more than one where the totals began anew
        self.start = _Data()
        self.model: str | None = None
        self.title: str | None = None
        self.branch: str | None = None
        self.terminal = False

    def read_all(self, lines: Iterable[Record]) -> None:
        for record in lines:
            self.record = record
            if record.part:
                self.title = _name(record) or self.title
                continue
            for line in _LINES.decode(record, self.losses):
                self.read(line)

    def read(self, line: _Line) -> None:
        self.at = records.parse_time(line.timestamp, self.losses, self.record.offset)
        if self.at is not None:
            if self.started is None or self.at < self.started:
                self.started = self.at
            if self.ended is None or self.at > self.ended:
                self.ended = self.at
        kind = line.type or ""
        handler = self.HANDLERS.get(kind)
        if handler is None:
            if kind not in _UNREAD and not kind.startswith(_UNREAD_FAMILIES):
                self.losses.add("unknown_type" if kind else "no_type", self.record.offset)
        elif line.data is None:
            self.losses.add("no_data", self.record.offset)
        else:
            handler(self, line.data, line.agent_id or line.data.parent_tool_call_id or "")

    # the session

    def session_start(self, data: _Data, lane: str) -> None:
        self.start = data
        self.session_resume(data, lane)

    def session_resume(self, data: _Data, lane: str) -> None:
        self.terminal = False
        if data.context is not None:
            self.branch = data.context.branch or self.branch
        self.set_model(data.selected_model)

    def model_change(self, data: _Data, lane: str) -> None:
        self.set_model(data.new_model)

    def set_model(self, name: str | None) -> None:
        if name and name != "auto":  # which leaves the choice open
            if self.model and name != self.model:
                self.note("model_change", f"{self.model} -> {name}")
            self.model = name

    def shutdown(self, data: _Data, lane: str) -> None:
        self.terminal = True
        for model, metric in (data.model_metrics or {}).items():
            now = metric.usage
            if now is None or not (now.input_tokens or now.output_tokens):
                continue  # a leg without a request
            legs = self.usage.setdefault(model, [])
            if legs and _goes_on(legs[-1], now):
                legs[-1] = now
            else:
                legs.append(now)

    # messages

    def add(self, role: Role, author: Author, text: str | None, lane: str, notice: Notice | None = None) -> _Draft:
        draft = _Draft(role, author, self.at, lane, [text] if text else [], notice)
        self.drafts.append(draft)
        return draft

    def note(self, kind: Any, detail: str = "") -> None:
        self.events.append(Event(kind, self.at, len(self.drafts) - 1 if self.drafts else None, detail))

    def user_message(self, data: _Data, lane: str) -> None:
        self.end_turn(lane)
        text, origin = data.content or "", data.source or ""
        injected = data.is_autopilot_continuation or _INJECTED.match(origin)
        if lane:
            self.add("user", "agent", text, lane)
        elif origin.startswith("agent-"):
            self.add("context", "agent", text, lane)
        elif injected or evidence.starts_with_any(text, _SKILL) or evidence.is_harness_text(text):
            self.add("context", "harness", text, lane)
        else:
            detached = self.start.detached_from_spawning_parent_session_id
            draft = self.add("user", "harness" if detached else "human", text, lane)
            draft.has_image = any((one.mime_type or "").startswith("image/") for one in data.attachments or ())
            self.terminal = False

    def system_message(self, data: _Data, lane: str) -> None:
        self.add("system", "harness", data.content, lane)

    def notification(self, data: _Data, lane: str) -> None:
        self.add("context", "harness", data.content, lane)
        kind = data.kind if isinstance(data.kind, _Kind) else _Kind()
        started = self.shells.get(kind.shell_id or "")
        if started is not None and kind.exit_code is not None:
            started.verdict = evidence.by_exit_code(started.command, kind.exit_code, "", "notification, exit code")
            del self.shells[kind.shell_id or ""]

    def turn_start(self, data: _Data, lane: str) -> None:
        self.end_turn(lane)

    def end_turn(self, lane: str) -> None:
        """A response is over; what ran in it without being named in it belongs to it."""
        begun = self.begun.pop(lane, [])
        if begun:
            self.respond(lane).calls.extend(begun)
        self.responses.pop(lane, None)

    def respond(self, lane: str) -> _Draft:
        draft = self.responses.get(lane)
        if draft is None:
            draft = self.responses[lane] = self.add("assistant", "agent", None, lane)
            draft.model = self.model
        return draft

    def assistant_message(self, data: _Data, lane: str) -> None:
        self.terminal = False
        open_ = self.responses.get(lane)
        # A response with reasoning in its middle comes in pieces of one id.
        if open_ is not None and (data.api_call_id is None or open_.api_call_id != data.api_call_id):
            del self.responses[lane]
        draft = self.respond(lane)
        draft.api_call_id = data.api_call_id
        draft.model = data.model or draft.model
        if data.content:
            draft.texts.append(data.content)
        self.think(draft, data, self.reasoning.pop(lane, []))
        for request in data.tool_requests or ():
            draft.calls.append(self.requested(request, lane))

    def assistant_reasoning(self, data: _Data, lane: str) -> None:
        if data.content:
            self.reasoning.setdefault(lane, []).append(data.content)

    def think(self, draft: _Draft, data: _Data, told: list[str]) -> None:
        for text in [data.reasoning_text] if data.reasoning_text else told:
            body = records.text_body(text, self.source)
            draft.thinking += [body] if body is not None else []
            draft.thinking_bytes += records.utf8_length(text)
        draft.signature_bytes += _sealed_bytes(data.reasoning_opaque)
        draft.ciphertext_bytes += _sealed_bytes(data.encrypted_content)

    # calls

    def requested(self, request: _Request, lane: str) -> DraftCall:
        known = self.calls.get(request.tool_call_id or "")
        begun = self.begun.get(lane, [])
        if known is not None and known in begun:  # it began before the response was logged
            begun.remove(known)
            return known
        call = self.call(request.name, request.tool_call_id, request.arguments, request.mcp_server_name)
        call.first = known
        return call

    def call(self, name: str | None, call_id: str | None, raw: msgspec.Raw, mcp_server: str | None) -> DraftCall:
        if not name:
            self.losses.add("call_without_name", self.record.offset)
        call = DraftCall(name or "", _CATEGORIES.get(name or "") or evidence.category_of(name or ""), call_id, self.at)
        if call_id:
            self.calls.setdefault(call_id, call)
            self.since_abort.append(call)
        value = self.arguments(raw)
        if value is not None:
            call.input = records.raw_body(raw, self.record, self.source)
            call.is_poll = call.name in _POLLS or evidence.is_poll(call.name, value)
            call.hash = records.input_hash([call_id, value] if call.is_poll else _compared(call, value))
            call.paths = evidence.paths_in(value)
        if isinstance(value, dict):
            command = value.get("command")
            if call.name == "str_replace_editor" and isinstance(command, str):
                call.category = _EDITOR.get(command, "edit")
            elif isinstance(command, str):
                call.command = command
        if call.category == "edit" and not call.paths:
            texts = value.values() if isinstance(value, dict) else (value,)
            call.paths = evidence.patch_paths("\n".join(text for text in texts if isinstance(text, str)))
        if mcp_server:
            call.category, call.server = "mcp", mcp_server
        return call

    def arguments(self, raw: msgspec.Raw) -> Any:
        """The decoded arguments, which some versions write as a text that holds JSON."""
        if not is_given(raw):
            return None
        try:
            value = msgspec.json.decode(raw)
            if not isinstance(value, str):
                if not isinstance(value, dict | list):
                    self.losses.add("wrong_type", self.record.offset)
                return value
        except BAD_CONTENT:
            self.losses.add("malformed_input", self.record.offset)
            return None
        try:
            return msgspec.json.decode(value)
        except BAD_CONTENT:
            return value  # the free text of a tool with a grammar, such as a patch

    def user_requested(self, data: _Data, lane: str) -> None:
        if data.tool_call_id:
            self.by_user.add(data.tool_call_id)

    def execution_start(self, data: _Data, lane: str) -> None:
        call_id = data.tool_call_id
        if call_id is None or (call_id not in self.calls and call_id not in self.by_user):
            call = self.call(data.tool_name, call_id, data.arguments, data.mcp_server_name)
            self.begun.setdefault(lane, []).append(call)

    def permission_requested(self, data: _Data, lane: str) -> None:
        if data.request_id and data.permission_request and data.permission_request.tool_call_id:
            self.asked[data.request_id] = data.permission_request.tool_call_id

    def permission_completed(self, data: _Data, lane: str) -> None:
        call = self.calls.get(data.tool_call_id or self.asked.get(data.request_id or "", ""))
        for found in _RESULTS.decode(Record(bytes(data.result), None), self.losses) if is_given(data.result) else ():
            if call is None or found.kind is None:
                continue
            if found.kind.startswith("denied"):
                call.unanswered = Judgement(CallStatus.DECLINED, f"permission {found.kind}"[:100])
            elif found.kind == "cancelled":
                call.unanswered = Judgement(CallStatus.CANCELLED, "permission cancelled")

    def execution_complete(self, data: _Data, lane: str) -> None:
        if data.is_user_requested or data.tool_call_id in self.by_user:
            return  # the person ran it
        call = self.calls.get(data.tool_call_id or "")
        if call is None:
            self.losses.add("orphan_result", self.record.offset)
            return
        if call.verdict is not None:
            return
        content, blocks = self.result(data.result)
        call.verdict = self.judge(call, data, content, blocks)
        call.result = records.raw_body(content, self.record, self.source)
        error = _error(data)
        if call.result is None and error.message:
            call.result = records.text_body(error.message, self.source)

    def result(self, raw: msgspec.Raw) -> tuple[msgspec.Raw, list[_Block]]:
        """What the model got, and the blocks beside it."""
        if bytes(memoryview(raw)[:1]) == b"{":
            for found in _RESULTS.decode(Record(bytes(raw), self.record.offset), self.losses):
                return found.content, found.contents or []
        elif is_given(raw) and bytes(memoryview(raw)[:1]) not in b'"[':
            self.losses.add("wrong_type", self.record.offset)
        return raw, []

    def judge(self, call: DraftCall, data: _Data, content: msgspec.Raw, blocks: list[_Block]) -> Judgement:
        if data.success is None:
            return Judgement(CallStatus.UNKNOWN, "a completion that does not say whether it succeeded")
        if not data.success:
            error = _error(data)
            told = f"success false, code {error.code}" if error.code else "success false"
            if error.code in _BY_CODE:
                return Judgement(_BY_CODE[error.code], told)
            if call.unanswered is not PENDING:
                return call.unanswered
            line = (error.message or "").lstrip()[:80].partition("\n")[0]  # the code is nearly always `failure`
            return Judgement(CallStatus.FAILED, f"{told}: {line}" if line else told)
        text = _text(content) if call.category == "shell" else ""
        running = _RUNNING.search(text, len(text) - _TAIL if len(text) > _TAIL else 0)
        if running is not None and call.command is not None:  # the others look at a shell, or write to it
            shell = running["shell"] or running["started"]
            self.shells[shell] = call
            return Judgement(CallStatus.UNKNOWN, f"still running in shell {shell}")
        return self.by_exit(call, data, text, blocks) or Judgement(CallStatus.OK, "success true")

    def by_exit(self, call: DraftCall, data: _Data, text: str, blocks: list[_Block]) -> Judgement | None:
        metrics = data.tool_telemetry.metrics if data.tool_telemetry else None
        exited = _EXITED.search(text, len(text) - _TAIL if len(text) > _TAIL else 0)
        code, told_by = metrics.exit_code if metrics else None, "telemetry exit code"
        if code is None:
            codes = (block.exit_code for block in blocks if block.type in ("shell_exit", "terminal"))
            code, told_by = next((one for one in codes if one is not None), None), "shell_exit"
        if code is None and exited is not None:
            code, told_by = int(exited["code"]), "last line, exit code"
        if code is None:
            return None
        shell = (exited["shell"] or exited["command"]) if exited is not None else None
        started = self.shells.pop(shell or "", None)
        output = text[: exited.start()] if exited is not None else text
        if started is None or started is call:
            return evidence.by_exit_code(call.command, code, output, told_by)
        # What ended is the call that started the shell; this one only looked.
        started.verdict = evidence.by_exit_code(started.command, code, output, told_by)
        return Judgement(CallStatus.OK, f"poll: {started.verdict.evidence}")

    # what else happened

    def failed(self, data: _Data, lane: str) -> None:
        text = data.message or data.error_type or "error"
        self.add("assistant", "harness", text, lane, "api_error")
        self.note("api_error", text[:500])

    def abort(self, data: _Data, lane: str) -> None:
        self.end_turn(lane)
        if data.reason == "autopilot_credit_limit":
            return  # the program kept to its limit: nobody stopped it
        self.add("context", "harness", data.reason, lane, "interrupt")
        self.note("interrupt", data.reason or "")
        for call in self.since_abort:
            if call.verdict is None and call.unanswered is PENDING:
                call.unanswered = Judgement(CallStatus.CANCELLED, "the turn was aborted")
        self.since_abort.clear()

    def compaction(self, data: _Data, lane: str) -> None:
        if data.success is not False and not lane:
            self.note("compaction", data.trigger or "")
            if data.summary_content:
                self.add("context", "harness", data.summary_content, lane, "compaction_summary")

    def truncation(self, data: _Data, lane: str) -> None:
        self.note("compaction", "messages dropped")

    def rewind(self, data: _Data, lane: str) -> None:
        self.note("rewind")

    def subagent_started(self, data: _Data, lane: str) -> None:
        self.note("subagent", f"started {data.agent_name or ''}".strip())

    def subagent_failed(self, data: _Data, lane: str) -> None:
        # Of a call that waits for its agent, the result will tell it.
        call = self.calls.get(data.tool_call_id or "")
        waits = call is not None and call.verdict is None
        self.note("subagent", "failed while its call waits" if waits else "failed")

    HANDLERS = {  # noqa: RUF012 - a table of methods, never changed
        "session.start": session_start,
        "session.resume": session_resume,
        "session.model_change": model_change,
        "session.shutdown": shutdown,
        "session.error": failed,
        "session.compaction_complete": compaction,
        "session.truncation": truncation,
        "session.snapshot_rewind": rewind,
        "user.message": user_message,
        "system.message": system_message,
        "system.notification": notification,
        "assistant.turn_start": turn_start,
        "assistant.message": assistant_message,
        "assistant.reasoning": assistant_reasoning,
        "tool.user_requested": user_requested,
        "tool.execution_start": execution_start,
        "tool.execution_complete": execution_complete,
        "permission.requested": permission_requested,
        "permission.completed": permission_completed,
        "subagent.started": subagent_started,
        "subagent.completed": lambda self, data, lane: None,
        "subagent.failed": subagent_failed,
        "abort": abort,
    }

    def session(self) -> Session:
        for lane in list(self.begun):
            self.end_turn(lane)
        own = self.start.session_id or self.source.name
        parent = self.start.detached_from_spawning_parent_session_id
        return Session(
            agent=PARSER.agent,
            source_id=own,
            messages=tuple(draft.frozen(ordinal, self.source) for ordinal, draft in enumerate(self.drafts)),
            parent_source_id=parent,
            relation="continuation" if parent else None,
            title=self.title,
            cwd=self.start.context.cwd if self.start.context else None,
            branch=self.branch,
            agent_version=self.start.copilot_version,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.terminal,
            events=tuple(self.events),
            loose_usage=tuple(
                _usage(counts, f"{own}:{model}:{leg}")
                for model, legs in self.usage.items()
                for leg, counts in enumerate(legs)
            ),
            losses=self.losses.result(),
        )


def _error(data: _Data) -> _Error:
    return data.error if isinstance(data.error, _Error) else _Error(message=data.error)


def _goes_on(before: _Counts, now: _Counts) -> bool:
    """Whether `now` holds what was counted before. A compaction in the session lets the totals begin anew."""
    return all((getattr(now, name) or 0) >= (getattr(before, name) or 0) for name in ("input_tokens", "output_tokens"))


def _usage(counts: _Counts, key: str) -> Usage:
    """Cache reads and writes are parts of the input here."""
    read, written = max(0, counts.cache_read_tokens or 0), max(0, counts.cache_write_tokens or 0)
    return Usage(
        input_tokens=max(0, (counts.input_tokens or 0) - read - written),
        cache_read_tokens=read,
        cache_write_5m_tokens=written,
        output_tokens=max(0, counts.output_tokens or 0),
        reasoning_tokens=counts.reasoning_tokens,
        key=key,
        is_sum=True,
    )


def _sealed_bytes(text: str | None) -> int:
    """The length of sealed reasoning that is whole; a word in its place is none."""
    return len(text) if text and len(text) >= 64 and _REDACTED not in text else 0


def _compared(call: DraftCall, value: Any) -> Any:
    """The part of an input that makes two calls the same call: not what a command is called for the reader."""
    if call.category == "shell" and isinstance(value, dict):
        return {name: inner for name, inner in value.items() if name != "description"}
    return value


def _text(raw: msgspec.Raw) -> str:
    try:
        value = msgspec.json.decode(raw)
    except BAD_CONTENT:
        return ""
    return value if isinstance(value, str) else records.json_head(bytes(raw), 1 << 20)


_NAME = re.compile(rb"^name:[ \t](.*)$", re.MULTILINE)


def _name(record: Record) -> str | None:
    """The session's name in its workspace.yaml, where it is a scalar on one line."""
    found = _NAME.search(record.data)
    text = found[1].decode("utf-8", "replace").strip() if found else ""
    if text.startswith('"'):
        text = records.json_head(text.encode(), 1000)
    elif text.startswith("'"):
        text = text.strip("'").replace("''", "'")
    return text if text and text not in ("null", "~") and text[0] not in "|>&*" else None


# --- AgentV's replay files: a Copilot session as plain messages, results inside the calls ---------------------


class _RowCall(msgspec.Struct):
    tool: str | None = None
    id: str | None = None
    input: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING


class _RowSource(msgspec.Struct):
    session_id: str | None = None
    model: str | None = None
    timestamp: str | int | float | None = None
    cwd: str | None = None


class _Row(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    tool_calls: list[_RowCall] | None = None
    source: _RowSource | None = None


_ROWS = LineDecoder(_Row)
_REPLAY = "agentv.transcript.v1"


def _read_replay(reader: _Reader, lines: Iterable[Record]) -> None:
    for record in lines:
        reader.record = record
        for row in _ROWS.decode(record, reader.losses):
            told = row.source or _RowSource()
            # The one time that a row has is that of the session.
            reader.started = reader.started or records.parse_time(told.timestamp, reader.losses, record.offset)
            reader.start.session_id = told.session_id or reader.start.session_id
            reader.start.context = _Context(told.cwd) if told.cwd else reader.start.context
            if row.role == "assistant":
                draft = reader.add("assistant", "agent", row.content, "")
                draft.model = told.model
                for one in row.tool_calls or ():
                    call = reader.call(one.tool, one.id, one.input, None)
                    if is_given(one.output):
                        call.result = records.raw_body(one.output, record, reader.source)
                        call.verdict = Judgement(CallStatus.UNKNOWN, "a result without a status")
                    draft.calls.append(call)
            elif row.role == "user":
                reader.add("user", "human", row.content, "")
            else:
                reader.losses.add("unknown_type", record.offset)


# --- entrance -----------------------------------------------------------------------------------------------


def parse(lines: Iterable[Record], source: Source) -> list[Session]:
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        return []
    reader = _Reader(source)
    every = chain((first,), rest)
    if _REPLAY.encode() in first.data[:200]:
        _read_replay(reader, every)
    else:
        reader.read_all(every)
    return [reader.session()]


def sniff(sample: Sample) -> bool:
    return any(map(_is_event, sample.values)) or (bool(sample.values) and all(map(_is_row, sample.values)))


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("data"), dict):
        return False
    kind = value.get("type")
    is_ours = isinstance(kind, str) and "." in kind and (kind in _Reader.HANDLERS or kind in _UNREAD)
    return is_ours and "parentId" in value and "timestamp" in value


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("schema_version") != _REPLAY:
        return False
    origin = value.get("source")
    return isinstance(origin, dict) and str(origin.get("provider")).startswith("copilot")


PARSER = Parser(
    agent="copilot",
    title="GitHub Copilot CLI",
    homes=(Home(".copilot/session-state", "**/*.jsonl", "COPILOT_HOME"),),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(usage="partly", thinking="partly", exit_codes="yes"),
    bundle=Bundle("events.jsonl", ("workspace.yaml",)),
)
