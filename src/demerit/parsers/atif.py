"""ATIF, the Agent Trajectory Interchange Format (v1.x): one JSON file a run, written by many programs for any agent.

What is easy to get wrong, and is decided here:
- The format has no place for a status. Some producers put a flag or an exit code into `extra`; otherwise a call with a
  result is `unknown`.
- `prompt_tokens` holds the cached tokens as well.
- Steps with `is_copied_context` stand in an earlier trajectory already, and are left out.
- Who typed a prompt is not said: a benchmark's instruction looks like a person's.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import Author, CallStatus, Category, Session, Usage
from demerit.parsers.drafts import Draft, DraftCall, Transcript
from demerit.parsers.evidence import (
    INTERRUPT,
    SUMMARIES,
    Judgement,
    by_claude_error,
    by_exit_code,
    category_of,
    is_harness_text,
    is_poll,
    patch_paths,
    paths_in,
    starts_with_any,
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
    token_count,
)

# --- the format ---------------------------------------------------------------------------------------------


class _ResultMetadata(msgspec.Struct):
    is_error: bool | None = None


class _CallExtra(msgspec.Struct):
    """Where producers tell how a call went: beside the call or its result."""

    is_error: bool | None = None
    tool_result_is_error: bool | None = None
    tool_result_metadata: _ResultMetadata | None = None
    exit_code: int | None = None
    status: str | None = None


class _ToolCall(msgspec.Struct):
    tool_call_id: str | None = None
    function_name: str | None = None
    arguments: msgspec.Raw = NOTHING
    extra: _CallExtra | None = None


class _Result(msgspec.Struct):
    source_call_id: str | None = None
    content: msgspec.Raw = NOTHING
    extra: _CallExtra | None = None


class _Observation(msgspec.Struct):
    results: list[_Result] | None = None


class _MetricsExtra(msgspec.Struct):
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class _Metrics(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    extra: _MetricsExtra | None = None


class _ContextManagement(msgspec.Struct):
    type: str | None = None


class _EventPayload(msgspec.Struct):
    interrupted: bool | None = None


class _StepExtra(msgspec.Struct):
    context_management: _ContextManagement | None = None
    generation_model: str | None = None
    llm_request: msgspec.Raw = NOTHING
    event_payload: _EventPayload | None = None


class _Step(msgspec.Struct):
    source: str | None = None
    timestamp: str | int | float | None = None
    model_name: str | None = None
    message: msgspec.Raw = NOTHING
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: _StepExtra | None = None


class _Agent(msgspec.Struct):
    name: str | None = None
    version: str | None = None
    model_name: str | None = None


class _FinalMetrics(msgspec.Struct):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None


class _Trajectory(msgspec.Struct):
    schema_version: str | None = None
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: _Agent | None = None
    steps: list[_Step] | None = None
    final_metrics: _FinalMetrics | None = None
    subagent_trajectories: msgspec.Raw = NOTHING


_TRAJECTORIES = LineDecoder(_Trajectory)
_INNER = msgspec.json.Decoder(list[msgspec.Raw] | None)

# What the tools of the agents behind the format do, as far as `evidence` does not know them.
_CATEGORIES: dict[str, Category] = {
    "bash_command": "shell",
    "execute_bash": "shell",
    "run_in_terminal": "shell",
    "get_terminal_output": "shell",
    "replace_string_in_file": "edit",
    "insert_edit_into_file": "edit",
    "semantic_search": "search",
    "fetch_webpage": "web",
    "manage_todo_list": "plan",
    "runSubagent": "agent",
    "run_subagent": "agent",
}
_EDITORS = frozenset(("str_replace_editor", "file_editor", "str_replace_based_edit_tool"))
_BY_COMMAND: dict[str, Category] = {"view": "read", "create": "write"}
# Agents that work through a benchmark's tasks: nobody sits there.
_UNATTENDED = ("terminus", "swe-agent", "mini-swe-agent")
_STATUSES = {
    "success": CallStatus.OK,
    "succeeded": CallStatus.OK,
    "error": CallStatus.FAILED,
    "failed": CallStatus.FAILED,
    "failure": CallStatus.FAILED,
    "cancelled": CallStatus.CANCELLED,
    "interrupted": CallStatus.CANCELLED,
    "rejected": CallStatus.DECLINED,
    "denied": CallStatus.DECLINED,
}
_SUMMARISED = "Performed context summarization"
_NO_STATUS = Judgement(CallStatus.UNKNOWN, "a result; the format has no status")
_MOST_NESTED = 8

# --- reading ------------------------------------------------------------------------------------------------


class _Reader(Transcript):
    """Reads one trajectory."""

    def __init__(self, record: Record, source: Source, losses: Losses, is_subagent: bool) -> None:
        super().__init__(source, losses)
        self.record = record
        self.is_subagent = is_subagent
        self.is_claude = self.is_unattended = self.has_begun = False
        self.last_prompt: str | None = None
        self.extras: dict[DraftCall, _CallExtra] = {}

    def read(self, trajectory: _Trajectory) -> None:
        agent = trajectory.agent or _Agent()
        name = (agent.name or "").lower()
        self.version = agent.version
        self.model = agent.model_name
        self.is_claude = "claude" in name
        self.is_unattended = name.startswith(_UNATTENDED)
        for step in trajectory.steps or ():
            self.begin_item()
            if not step.is_copied_context:
                self.step(step, step.extra or _StepExtra())
        if not any(draft.usage for draft in self.drafts):
            self.total(trajectory.final_metrics or _FinalMetrics())

    def step(self, step: _Step, extra: _StepExtra) -> None:
        at = self.time(step.timestamp)
        text, has_image = self.content(step.message)
        calls: list[DraftCall] = []
        self.has_begun = self.has_begun or step.source != "system"
        if step.source == "agent" and step.observation is not None and not (text or _is_response(step)):
            pass  # it only hands in results
        elif step.source == "agent" or (step.source not in ("system", "user") and _is_response(step)):
            calls = self.response(step, extra, text, at).calls
        elif step.source == "user":
            self.user(extra, text, has_image, at)
        elif step.source == "system":
            self.system(extra, text, at)
        else:
            self.lose("unknown_source" if step.source else "no_source")
            self.context(text, at)
        self.results(step.observation.results if step.observation else None, calls)

    # what is said

    def user(self, extra: _StepExtra, text: str, has_image: bool, at: datetime | None) -> None:
        if is_given(extra.llm_request) and text == self.last_prompt:
            return  # one producer writes a step for every request, each with the prompt that it goes back to
        self.last_prompt = text
        kept = without_wrappers(text)
        if text.startswith(INTERRUPT):
            self.interrupt(text, at)
        elif starts_with_any(text, SUMMARIES):
            self.compaction(text, at)
        elif is_harness_text(text) or not (kept.strip() or has_image):
            self.context(text, at)
        else:
            author: Author = "agent" if self.is_subagent else "harness" if self.is_unattended else "human"
            self.say("user", author, kept, at, has_image=has_image)

    def system(self, extra: _StepExtra, text: str, at: datetime | None) -> None:
        managed = extra.context_management
        if extra.event_payload is not None:  # a mark in time, its message the mark's name
            if extra.event_payload.interrupted:
                self.interrupt(text, at)
        elif (managed is not None and managed.type == "compaction") or text.startswith(_SUMMARISED):
            self.compaction(text, at)
        elif managed is None and not self.has_begun:
            self.say("system", "harness", text, at)
        else:
            self.context(text, at)

    # a response

    def response(self, step: _Step, extra: _StepExtra, text: str, at: datetime | None) -> Draft:
        is_model = step.llm_call_count != 0  # 0: the program itself called a tool
        draft = self.say("assistant", "agent" if is_model else "harness", text, at)
        if is_model:
            draft.model = extra.generation_model or step.model_name or self.model
            draft.usage = _usage(step.metrics)
            self.think(draft, [step.reasoning_content or ""])
        for made in step.tool_calls or ():
            self.call(draft, made)
        return draft

    def call(self, draft: Draft, made: _ToolCall) -> None:
        name = made.function_name or ""
        call = DraftCall(name, _CATEGORIES.get(name) or category_of(name), made.tool_call_id, draft.at)
        self.add_call(draft, call)
        if is_given(made.arguments):
            call.input = self.body(made.arguments)
            arguments = self.arguments(made.arguments)
            call.is_poll = is_poll(name, arguments)
            if isinstance(arguments, dict):
                command = next((arguments[key] for key in ("command", "cmd", "keystrokes") if key in arguments), None)
                call.command = command if isinstance(command, str) else None
                if name == "bash_command":  # terminus sends no keys when it waits
                    call.is_poll = not (call.command or "").strip()
                elif name in _EDITORS:
                    call.category = _BY_COMMAND.get(call.command or "", "edit")
                call.paths = paths_in(arguments) or _patched(arguments)
            call.hash = input_hash([call.call_id, arguments] if call.is_poll else arguments)
        if made.extra is not None:
            self.extras[call] = made.extra
            verdict = self.judge(call, made.extra, "")
            if verdict is not _NO_STATUS:
                call.verdict, call.may_change = verdict, True

    def results(self, results: list[_Result] | None, calls: list[DraftCall]) -> None:
        loose: list[_Result] = []
        own: dict[str | None, list[DraftCall]] = {}  # the step's calls by id, the last first: ids may repeat
        for call in reversed(calls):
            own.setdefault(call.call_id, []).append(call)
        for result in results or ():
            if result.source_call_id is None:
                loose.append(result)
                continue
            asked = self.calls.get(result.source_call_id)
            if own.get(result.source_call_id):
                asked = own[result.source_call_id].pop()
            if asked is None:
                self.lose("orphan_result")
            else:
                self.answer(asked, result)
        # A result without an id is that of its step.
        waiting = [call for call in calls if call.result is None and (call.verdict is None or call.may_change)]
        for number, call in enumerate(waiting):
            if loose:
                self.answer(call, loose[number] if len(loose) == len(waiting) else loose[0])

    def answer(self, call: DraftCall, result: _Result) -> None:
        text, _ = self.content(result.content)
        verdict = self.judge(call, result.extra, text)
        if verdict is _NO_STATUS:
            verdict = self.judge(call, self.extras.get(call), text)
        call.answer(verdict, self.body(result.content))

    def judge(self, call: DraftCall, extra: _CallExtra | None, text: str) -> Judgement:
        """Status by what a producer put beside a call or its result."""
        if extra is None:
            return _NO_STATUS
        if extra.exit_code is not None and call.category == "shell":
            return by_exit_code(call.command, extra.exit_code, text, "extra.exit_code")
        is_error = extra.is_error if extra.is_error is not None else extra.tool_result_is_error
        if is_error is None and extra.tool_result_metadata is not None:
            is_error = extra.tool_result_metadata.is_error
        if is_error and self.is_claude:
            return by_claude_error(text, call.command if call.category == "shell" else None)
        if is_error is not None:
            return Judgement(CallStatus.FAILED if is_error else CallStatus.OK, f"is_error {str(is_error).lower()}")
        # `completed` only says that there is a result: one producer always writes it.
        status = _STATUSES.get((extra.status or "").lower())
        return Judgement(status, f"extra.status {extra.status}") if status is not None else _NO_STATUS

    def total(self, final: _FinalMetrics) -> None:
        read = token_count(final.total_cached_tokens)
        sent = max(0, token_count(final.total_prompt_tokens) - read)
        total = Usage(sent, read, output_tokens=token_count(final.total_completion_tokens), is_sum=True)
        self.loose += [] if total.is_empty else [total]


def _is_response(step: _Step) -> bool:
    return bool(step.tool_calls) or step.metrics is not None or bool(step.reasoning_content)


def _patched(arguments: dict[str, Any]) -> tuple[str, ...]:
    texts = [value for value in arguments.values() if isinstance(value, str) and "*** Begin Patch" in value]
    return tuple(path for text in texts for path in patch_paths(text))


def _usage(metrics: _Metrics | None) -> Usage | None:
    """The usage of one request: the prompt includes what was cached, read or written."""
    if metrics is None:
        return None
    extra = metrics.extra or _MetricsExtra()
    written = token_count(extra.cache_creation_input_tokens)
    read = token_count(extra.cache_read_input_tokens) or token_count(metrics.cached_tokens)
    sent = max(0, token_count(metrics.prompt_tokens) - read - written)
    reasoning = extra.reasoning_tokens if extra.reasoning_tokens is not None else extra.reasoning_output_tokens
    found = Usage(sent, read, written, 0, token_count(metrics.completion_tokens), reasoning)
    return None if found.is_empty else found


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The trajectories in a file, each before the sub-agents' that are embedded in it."""
    sessions: list[Session] = []
    losses = Losses()
    is_empty = True
    for record in records:
        is_empty = False
        for trajectory in _TRAJECTORIES.decode(record, losses):
            number = f"#{len(sessions) + 1}" if sessions else ""
            name = trajectory.session_id or trajectory.trajectory_id or source.name + number
            sessions += _sessions(trajectory, record, source, losses, name, None)
            losses = Losses()
    if not sessions and not is_empty:
        return [Transcript(source, losses).session("atif", source.name)]
    return sessions


def _sessions(
    trajectory: _Trajectory,
    record: Record,
    source: Source,
    losses: Losses,
    name: str,
    parent: str | None,
    depth: int = 0,
) -> list[Session]:
    reader = _Reader(record, source, losses, parent is not None)
    reader.read(trajectory)
    children: list[tuple[str, _Trajectory, Record]] = []
    try:
        inner = _INNER.decode(trajectory.subagent_trajectories) or []
    except BAD_CONTENT:
        reader.lose("wrong_type")
        inner = []
    for number, raw in enumerate(inner if depth < _MOST_NESTED else ()):
        part = Record(bytes(raw), None)
        decoded = _TRAJECTORIES.decode(part, losses)
        children += [(child.trajectory_id or f"{name}/{number + 1}", child, part) for child in decoded]
    relation = "subagent" if parent is not None else None
    found = [reader.session("atif", name, parent_source_id=parent, relation=relation)]
    for child_name, child, part in children:
        found += _sessions(child, part, source, Losses(), child_name, name, depth + 1)
    return found


def sniff(sample: Sample) -> bool:
    first = sample.values[0] if sample.values else None
    if not isinstance(first, dict) or not isinstance(first.get("agent"), dict):
        return False
    steps = first.get("steps")
    if not isinstance(steps, list) or "schema_version" not in first:
        return False
    # Some write the bare number of the version.
    step = steps[0] if steps and isinstance(steps[0], dict) else {}
    return str(first["schema_version"]).startswith("ATIF-") or {"step_id", "source", "message"} <= step.keys()


PARSER = Parser(
    agent="atif",
    title="ATIF",
    homes=(Home(".local/share/devin/cli/transcripts", "*.json"),),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(
        statuses="partly",
        exit_codes="partly",
        declined="partly",
        usage="partly",
        models="partly",
        times="partly",
        subagents="partly",
        compaction="partly",
        thinking="partly",
    ),
)
