"""Cline, Roo Code and Kilo Code up to spring 2026: a folder for each task, and in it what was shown and what was sent.

- `ui_messages.json` is the list of what the extension showed, with times, tokens, errors and what the person wrote.
  A row `api_req_started` begins a request and is rewritten in place as its numbers arrive; its `request` is what was
  sent, and so holds the results of the calls before it.
- `api_conversation_history.json` is the conversation as the model saw it: whole calls, whole results. Where it has
  all the answers, messages are read from it, and times, tokens and endings from the other; else all from the other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import msgspec

from demerit.model import CallStatus, Event, Relation, Session, Usage
from demerit.parsers.cline_history import (
    COMPACTING,
    RESUMED,
    SPOKEN,
    Call,
    Draft,
    History,
    ModelInfo,
    by_parent,
    cancel,
    category,
    cwd_in,
    describe,
    finished,
    items,
    results_in,
    settle,
    unlogged,
)
from demerit.parsers.evidence import Judgement, is_cline_request
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
    parse_time,
    text_body,
    token_count,
)

# --- the format -------------------------------------------------------------------------------------------


class _Summary(msgspec.Struct):
    summary: str | None = None


class _Row(msgspec.Struct, rename="camel"):
    ts: int | float | None = None
    type: str | None = None
    say: str | None = None
    ask: str | None = None
    text: str | None = None
    reasoning: str | None = None
    images: list[msgspec.Raw] | None = None
    partial: bool | None = None
    conversation_history_index: int | None = None
    model_info: ModelInfo | None = None
    context_condense: _Summary | None = None


class _Request(msgspec.Struct, rename="camel"):
    """The text of a row that tells of a request, or of several that were taken back."""

    request: str | None = None
    tokens_in: int | float | None = None
    tokens_out: int | float | None = None
    cache_writes: int | float | None = None
    cache_reads: int | float | None = None
    cancel_reason: str | None = None
    api_protocol: str | None = None


class _Retry(msgspec.Struct):
    """The text of a row `error_retry`."""

    failed: bool = False
    """It was the last try: the program asks what to do."""


class _Environment(msgspec.Struct):
    ts: int | float | None = None
    cline_version: str | None = None


class _ModelUse(msgspec.Struct):
    ts: int | float | None = None
    model_id: str | None = None


class _TaskMetadata(msgspec.Struct):
    environment_history: list[_Environment] = []
    model_usage: list[_ModelUse] = []


class _HistoryItem(msgspec.Struct, rename="camel"):
    """What Roo keeps of a task for its list."""

    id: str | None = None
    parent_task_id: str | None = None
    title: str | None = None
    workspace: str | None = None
    status: str | None = None


class _Body(msgspec.Struct):
    """A request as it was sent."""

    model: str | None = None
    messages: msgspec.Raw = NOTHING


_ROWS = LineDecoder(_Row)
_REQUESTS = LineDecoder(_Request)
_RETRIES = LineDecoder(_Retry)
_METADATA = LineDecoder(_TaskMetadata)
_ITEMS = LineDecoder(_HistoryItem)
_BODIES = LineDecoder(_Body)

# The tools by the names that the rows have for them.
_TOOLS = {
    "readFile": "read_file", "listFilesTopLevel": "list_files", "listFilesRecursive": "list_files",
    "listCodeDefinitionNames": "list_code_definition_names", "searchFiles": "search_files",
    "codebaseSearch": "codebase_search", "newFileCreated": "write_to_file", "editedExistingFile": "replace_in_file",
    "appliedDiff": "apply_diff", "insertContent": "insert_content", "searchAndReplace": "search_and_replace",
    "fileDeleted": "delete_file", "fetchInstructions": "fetch_instructions", "newTask": "new_task",
    "switchMode": "switch_mode", "updateTodoList": "update_todo_list", "webFetch": "web_fetch",
    "webSearch": "web_search", "useSkill": "use_skill", "generateImage": "generate_image",
    "runSlashCommand": "run_slash_command", "readCommandOutput": "read_command_output",
}  # fmt: skip
# In a row of a tool that reads, `content` is what it gave.
_GIVEN = frozenset(
    "tool path regex filePattern batchFiles batchDiffs lineNumber lineSnippet reason mode query search replace".split()
)
_WRITTEN = frozenset(("content", "diff"))
_CALLS = {
    "browser_action_launch": "browser_action", "browser_action": "browser_action",
    "load_mcp_documentation": "load_mcp_documentation", "use_subagents": "use_subagents", "new_task": "new_task",
}  # fmt: skip
_OUTPUTS = frozenset(
    "command_output mcp_server_response browser_action_result subtask_result codebase_search_result".split()
)
_FAILURES = {
    "error": CallStatus.FAILED,
    "diff_error": CallStatus.FAILED,
    "rooignore_error": CallStatus.DECLINED,
    "clineignore_error": CallStatus.DECLINED,
    "command_permission_denied": CallStatus.DECLINED,
}
_IGNORED = frozenset(
    (
        "api_req_finished api_req_retried api_req_rate_limited api_req_deleted auto_approval_max_req_reached "
        "browser_session_status checkpoint_created checkpoint_saved conditional_rules_applied condense_context_error "
        "generate_explanation hook_output_stream hook_status image info mcp_notification "
        "mcp_server_request_started mistake_limit_reached report_bug resume_completed_task resume_task "
        "shell_integration_warning shell_integration_warning_with_suggestion subagent task_progress user_edit_todos "
        "user_feedback_diff"
    ).split()
)
# Marks that the extension puts behind a text, for itself.
_ASKED_APPROVAL = "REQ_APP"
_CHANGES = "HAS_CHANGES"
_MISSING = re.compile(
    r"(?:Cline|Roo|Kilo Code) tried to use (\w{1,100})\b.{0,1000}? without value for required parameter "
)


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _number(value: int | float | None) -> int:
    return token_count(int(value)) if value is not None and abs(value) < 2.0**53 else 0


def _usage(info: _Request, is_whole: bool, key: str | None) -> Usage | None:
    read, written = _number(info.cache_reads), _number(info.cache_writes)
    fresh = _number(info.tokens_in)
    if is_whole:
        fresh = max(0, fresh - read - written)
    usage = Usage(fresh, read, written, output_tokens=_number(info.tokens_out), key=key)
    return None if usage.is_empty else usage


# --- what was shown ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Asked:
    """One request, and the answer to it as far as it was shown."""

    row: _Row
    info: _Request
    draft: Draft
    shown: bool = False
    """Something of an answer was shown."""
    failed: bool = False
    is_over: bool = False

    @property
    def is_answered(self) -> bool:
        return self.shown and self.info.cancel_reason is None


class _Shown:
    """Reads the rows of `ui_messages.json`."""

    def __init__(self, source: Source, losses: Losses) -> None:
        self.source = source
        self.losses = losses
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.loose: list[_Request] = []  # requests taken back, and those of sub-agents
        self.asked: list[_Asked] = []
        self.errors: list[tuple[str, str]] = []
        """Kind and text of the errors in the answer at hand: a call that fails early has no row of its own."""
        self.times: list[datetime] = []
        self.first_ts: int | float | None = None
        self.cwd: str | None = None
        self.is_first = True
        self.gave_up = False
        """The last try of the request at hand failed, and the question what to do is still to come."""

    def read(self, record: Record) -> None:
        for item in items(record, self.losses):
            for row in _ROWS.decode(item, self.losses):
                self.row(row, item)
        self.close(None)

    def row(self, row: _Row, item: Record) -> None:
        at = parse_time(row.ts, self.losses, item.offset)
        if at is not None:
            self.times.append(at)
            self.first_ts = row.ts if self.first_ts is None else self.first_ts
        kind = row.say or row.ask
        if kind is None:
            self.losses.add("no_type", item.offset)
            return
        if self.is_first and kind in ("text", "task"):
            self.typed(row, at)
        elif kind == "api_req_started":
            self.request(row, at, item)
        elif (handler := self.HANDLERS.get(kind)) is not None:
            handler(self, row, at, item)
        elif kind in _CALLS or kind in _OUTPUTS or kind in _FAILURES:
            self.work(kind, row, at)
        elif kind not in _IGNORED:
            self.losses.add("unknown_type", item.offset)
        self.is_first = False

    @property
    def answer(self) -> Draft | None:
        return self.asked[-1].draft if self.asked else None

    def event(self, kind: Literal["compaction", "interrupt", "api_error", "rewind", "subagent"], at: datetime | None,
              detail: str = "") -> None:  # fmt: skip
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def show(self, model: ModelInfo | None = None) -> Draft | None:
        """The answer at hand, which is a message from its first row on."""
        if not self.asked:
            return None
        asked = self.asked[-1]
        if not asked.shown:
            asked.shown = True
            self.drafts.append(asked.draft)
        if model is not None and model.model_id:
            asked.draft.model = model.model_id
        return asked.draft

    # a person

    def typed(self, row: _Row, at: datetime | None, item: Record | None = None) -> None:
        if row.text or row.images:
            self.end()
            self.drafts.append(Draft("user", "human", at, [row.text or ""], has_image=bool(row.images)))
            self.is_first = False

    # a request

    def request(self, row: _Row, at: datetime | None, item: Record) -> None:
        info = self.info(row, item)
        self.close(info)
        self.gave_up = False
        draft = Draft("assistant", "agent", at, ts=row.ts)
        draft.model = row.model_info.model_id if row.model_info is not None else None
        self.asked.append(_Asked(row, info, draft))
        if info.request and self.cwd is None:
            self.cwd = cwd_in(info.request)

    def info(self, row: _Row, item: Record) -> _Request:
        return next(iter(_REQUESTS.decode(_inner(row.text, item), self.losses)), _Request()) if row.text else _Request()

    def close(self, sent: _Request | None) -> None:
        """The answer at hand is whole: `sent` was the next request, with the results of its calls."""
        if not self.asked:
            return
        last = self.asked[-1]
        text = sent.request if sent is not None else None
        if text and text.startswith(RESUMED):
            cancel(last.draft.calls)
        elif text:
            self.results(last.draft, text)
        elif sent is not None:
            self.results_unsent(last.draft)
        self.errors.clear()
        self.end()

    def end(self) -> None:
        """Say how the last request ended, where it was not with an answer."""
        if not self.asked or self.asked[-1].is_over:
            return
        last = self.asked[-1]
        last.is_over = True
        reason = last.info.cancel_reason
        if reason == "user_cancelled":
            self.event("interrupt", last.draft.at)
            self.drafts.append(Draft("context", "harness", last.draft.at, notice="interrupt"))
        elif reason is not None or (last.failed and not last.shown):
            self.drafts.append(Draft("assistant", "harness", last.draft.at, notice="api_error"))

    def results(self, answer: Draft, text: str) -> None:
        for result in results_in(text, len(answer.calls) + len(self.errors)):
            if result.name in SPOKEN or result.name in COMPACTING:
                continue
            if settle(answer.calls, result, self.source) is None:
                self.show()
                answer.calls.append(unlogged(result, answer.at, self.source))

    def results_unsent(self, answer: Draft) -> None:
        """Newer versions of Roo do not log what they sent: what is left is what was shown."""
        for kind, text in self.errors:
            broken = _MISSING.match(text)
            name = broken[1] if broken is not None else "apply_diff" if kind == "diff_error" else None
            waiting = (call for call in reversed(answer.calls) if not (call.verdict or call.result))
            call = next(waiting, None) if broken is None else None
            if call is None and name is not None:
                self.show()
                call = Call(name, None, answer.at)
                answer.calls.append(call)
            if call is not None:
                call.verdict = Judgement(CallStatus.INVALID if broken else _FAILURES[kind], f"row {kind}")
        for call in answer.calls:
            if call.verdict is None:
                call.verdict = Judgement(CallStatus.UNKNOWN, "its result was not logged")

    # the answer

    def say(self, row: _Row, at: datetime | None, item: Record) -> None:
        if not row.text:
            return
        answer = self.show(row.model_info)
        if answer is None:
            return
        text = row.text
        if row.ask in ("plan_mode_respond", "act_mode_respond") or row.ask == "followup":
            text = self.spoken(row, item)
            if row.ask == "followup":
                answer.calls.append(Call("ask_followup_question", None, at, {"question": text}))
        answer.texts.append(text.removesuffix(_CHANGES).strip())

    def spoken(self, row: _Row, item: Record) -> str:
        said = self.object(row)
        text = said.get("response") or said.get("question")
        return text if isinstance(text, str) else row.text or ""

    def think(self, row: _Row, at: datetime | None, item: Record) -> None:
        text = row.reasoning or row.text
        answer = self.show(row.model_info) if text else None
        if answer is not None and text:
            answer.thoughts.append(text)

    def object(self, row: _Row) -> dict[str, Any]:
        try:
            value = msgspec.json.decode(row.text or "null")
        except BAD_CONTENT:
            return {}
        return value if isinstance(value, dict) else {}

    def tool(self, row: _Row, at: datetime | None, item: Record) -> None:
        if row.partial:  # never whole: the stream was cut, or the call failed before it was asked for
            return
        given = self.object(row)
        shown = given.get("tool")
        name = _TOOLS.get(shown, shown) if isinstance(shown, str) else None
        if name is None:
            self.losses.add("malformed_row", item.offset)
            return
        if name == "summarizeTask":
            self.compacted(row, at, item)
            return
        if name in ("finishTask", "attempt_completion"):
            return
        reads = category(name) not in ("edit", "write", "agent", "plan", "other")
        kept = {key: value for key, value in given.items() if key in _GIVEN or (not reads and key in _WRITTEN)}
        self.call(name, kept, row, at)

    def command(self, row: _Row, at: datetime | None, item: Record) -> None:
        if not row.partial:
            self.call("execute_command", {"command": (row.text or "").removesuffix(_ASKED_APPROVAL)}, row, at)

    def server(self, row: _Row, at: datetime | None, item: Record) -> None:
        if not row.partial:
            given = self.object(row)
            name = given.get("type")
            self.call(name if isinstance(name, str) and name else "use_mcp_tool", given, row, at)

    def call(self, name: str, given: Any, row: _Row, at: datetime | None) -> None:
        answer = self.show(row.model_info)
        if answer is not None:
            call = Call(name, None, at, given, input=text_body(row.text or "", self.source))
            describe(call)
            answer.calls.append(call)

    def work(self, kind: str, row: _Row, at: datetime | None) -> None:
        """Calls, outputs and errors that have a row of their own kind."""
        answer = self.answer
        if kind in _CALLS:
            if not row.partial:
                self.call(_CALLS[kind], self.object(row) or row.text, row, at)
        elif kind in _FAILURES:
            self.errors.append((kind, row.text or ""))
        elif answer is not None and answer.calls and answer.calls[-1].result is None and row.text:
            answer.calls[-1].result = text_body(row.text, self.source)

    # tokens

    def count(self, task: str) -> None:
        """Give each answer its usage."""
        # Newer versions of Roo log the whole input, older ones and Cline the part that was not cached. Only Roo names
        # the protocol; a model of Anthropic's has far less uncached input than cached.
        named = [one.info for one in self.asked if one.info.api_protocol is not None]
        cached = [(_number(info.tokens_in), _number(info.cache_reads) + _number(info.cache_writes)) for info in named]
        is_whole = bool(named) and all(tokens >= part for tokens, part in cached)
        for one in self.asked:
            one.draft.usage = _usage(one.info, is_whole, f"{task}:{_number(one.row.ts)}")

    def uncounted(self, drafts: list[Draft]) -> list[Usage]:
        """Usage of the requests that no message stands for."""
        kept = {id(draft) for draft in drafts}
        lost = [one.draft.usage for one in self.asked if id(one.draft) not in kept]
        sums = (_usage(info, False, None) for info in self.loose)
        lost += [msgspec.structs.replace(usage, is_sum=True) for usage in sums if usage is not None]
        return [usage for usage in lost if usage is not None]

    # the program

    def api_error(self, row: _Row, at: datetime | None, item: Record) -> None:
        is_told, self.gave_up = self.gave_up and row.ask == "api_req_failed", False
        if row.say == "error_retry" and row.text:
            self.gave_up = any(retry.failed for retry in _RETRIES.decode(_inner(row.text, item), self.losses))
        if not is_told:  # after the last try, the question is about the same error
            self.event("api_error", at, (row.text or "")[:200])
        if self.asked:
            self.asked[-1].failed = True

    def compacted(self, row: _Row, at: datetime | None, item: Record) -> None:
        if row.partial:
            return
        self.event("compaction", at)
        summary = row.context_condense.summary if row.context_condense is not None else row.text
        if summary and row.say != "sliding_window_truncation":
            self.drafts.append(Draft("context", "harness", at, [summary], notice="compaction_summary"))

    def taken_back(self, row: _Row, at: datetime | None, item: Record) -> None:
        self.loose.append(self.info(row, item))
        self.event("rewind", at)

    def subagents(self, row: _Row, at: datetime | None, item: Record) -> None:
        self.loose.append(self.info(row, item))

    HANDLERS: ClassVar = {
        "text": say, "completion_result": say, "plan_mode_respond": say, "act_mode_respond": say, "followup": say,
        "reasoning": think, "user_feedback": typed, "tool": tool, "command": command, "use_mcp_server": server,
        "api_req_failed": api_error, "error_retry": api_error, "api_req_retry_delayed": api_error,
        "condense_context": compacted, "condense": compacted, "summarize_task": compacted,
        "sliding_window_truncation": compacted, "deleted_api_reqs": taken_back, "subagent_usage": subagents,
    }  # fmt: skip


# --- both -------------------------------------------------------------------------------------------------


def _merged(shown: _Shown, history: History) -> list[Draft] | None:
    """The history's messages, with the times and tokens that were shown; None where it lacks an answer."""
    answers = history.answers
    asked = shown.asked
    pairs: list[tuple[Draft, _Asked]] = []
    if any(one.row.conversation_history_index is not None for one in asked):
        # The row was written before what was sent was added, and the answer comes after that.
        places = {(one.row.conversation_history_index or 0) + 2: one for one in asked}
        pairs = [(answer, places[answer.index]) for answer in answers if answer.index in places]
    elif all(answer.ts is not None for answer in answers):
        at = 0
        for answer in answers:
            first = at
            while at < len(asked) and (asked[at].row.ts or 0) <= (answer.ts or 0):
                at += 1
            if at > first:
                pairs.append((answer, asked[at - 1]))
    elif len(answers) == len([one for one in asked if one.is_answered]):
        pairs = list(zip(answers, (one for one in asked if one.is_answered), strict=True))
    told = {id(one) for _, one in pairs}
    if not pairs or any(one.is_answered and id(one) not in told for one in asked):
        return None
    for answer, one in pairs:
        answer.at = answer.at or one.draft.at
        answer.usage = one.draft.usage or answer.usage
        answer.model = one.draft.model or answer.model
        answer.thoughts = answer.thoughts or one.draft.thoughts
        one.draft = answer
    return _with_times(history.drafts) + _tail(shown, history.drafts)


def _with_times(drafts: list[Draft]) -> list[Draft]:
    """Messages without a time get that of the answer that they led to."""
    following: datetime | None = None
    for draft in reversed(drafts):
        following = draft.at = draft.at or following
    return drafts


def _tail(shown: _Shown, drafts: list[Draft]) -> list[Draft]:
    """What was shown after the last answer and is not in the history: a prompt, or how the session ended."""
    last = max(
        (n for n, draft in enumerate(shown.drafts) if draft.role == "assistant" and draft.notice is None), default=-1
    )
    known = {"\n".join(draft.texts).strip() for draft in drafts[-3:] if draft.role == "user"}
    ending = {draft.notice for draft in drafts[-1:]}
    return [
        draft
        for draft in shown.drafts[last + 1 :]
        if (draft.notice not in ending if draft.notice else "\n".join(draft.texts).strip() not in known)
    ]


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a task's folder, or in a request as it was sent."""
    losses = Losses()
    shown = _Shown(source, losses)
    history = History(source, losses)
    metadata = _TaskMetadata()
    item = _HistoryItem()
    models: list[str] = []
    for record in records:
        part = record.part.rpartition("/")[2]
        if part == "api_conversation_history.json":
            history.read(record)
        elif part == "task_metadata.json":
            metadata = next(iter(_METADATA.decode(record, losses)), metadata)
            models += [use.model_id for use in metadata.model_usage if use.model_id]
        elif part == "history_item.json":
            item = next(iter(_ITEMS.decode(record, losses)), item)
        elif record.data.lstrip()[:1] == b"{":
            for body in _BODIES.decode(record, losses):
                models += [body.model] if body.model else []
                if is_given(body.messages):
                    history.read(_messages(body, record))
        else:
            shown.read(record)
    first = None if shown.first_ts is None else str(_number(shown.first_ts))
    task = item.id or (source.folders[0] if "tasks" in source.folders[1:2] else first or source.name)
    shown.count(task)
    merged = _merged(shown, history) if shown.asked else history.drafts or None
    drafts = shown.drafts if merged is None else merged
    _name_models(drafts, metadata, losses)
    if item.parent_task_id:
        by_parent(drafts)
    times = shown.times + history.times
    relation: Relation | None = "subagent" if item.parent_task_id else None
    return [
        Session(
            agent="cline",
            source_id=task,
            messages=tuple(finished(drafts, source)),
            parent_source_id=item.parent_task_id or None,
            relation=relation,
            title=item.title or None,
            cwd=item.workspace or history.cwd or shown.cwd,
            models=tuple(dict.fromkeys(models)),
            agent_version=next((one.cline_version for one in reversed(metadata.environment_history)), None),
            started=min(times, default=None),
            ended=max(times, default=None),
            modified=source.modified,
            terminal=item.status == "completed",
            events=tuple(_events(shown, history, drafts)),
            loose_usage=tuple(shown.uncounted(drafts)),
            losses=losses.result(),
        )
    ]


def _messages(body: _Body, record: Record) -> Record:
    data = bytes(body.messages)
    at = record.data.find(data)
    return Record(data, None if record.offset is None or at < 0 else record.offset + at)


def _inner(text: str, item: Record) -> Record:
    """The JSON in a row's text."""
    return Record(text.encode("utf-8", "replace"), item.offset)


def _events(shown: _Shown, history: History, drafts: list[Draft]) -> list[Event]:
    """What was shown happens in the session's own order; beside a history's messages, its time says where."""
    if drafts is shown.drafts:
        return shown.events
    known = {event.kind for event in history.events}
    times: list[datetime] = []
    for draft in drafts:
        last = times[-1] if times else _LONG_AGO
        times.append(max(last, draft.at) if draft.at is not None else last)
    events = list(history.events)
    for event in shown.events:
        if event.kind not in ("compaction", "interrupt") or event.kind not in known:
            place = len(times) if event.at is None else bisect_right(times, event.at)
            events.append(Event(event.kind, event.at, place - 1 if place else None, event.detail))
    return events


def _name_models(drafts: list[Draft], metadata: _TaskMetadata, losses: Losses) -> None:
    """The model of each answer that does not name it, from the list of those in use since when."""
    uses = ((parse_time(use.ts, losses), use.model_id) for use in metadata.model_usage)
    known = sorted((since, model) for since, model in uses if since is not None and model)
    for draft in drafts:
        if draft.role == "assistant" and draft.author == "agent" and draft.model is None and draft.at is not None:
            place = bisect_right(known, draft.at, key=lambda one: one[0])
            draft.model = known[place - 1][1] if place else None


# --- recognising ------------------------------------------------------------------------------------------


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return kind in ("ask", "say") and isinstance(value.get(kind), str) and isinstance(value.get("ts"), int | float)


def sniff(sample: Sample) -> bool:
    if not sample.is_document or not sample.values:
        return False
    document = sample.values[0]
    return any(map(_is_row, document[:20])) if isinstance(document, list) else is_cline_request(document)


_EDITORS = ("Code", "Code - Insiders", "Cursor", "VSCodium", "Windsurf")
_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")
_FOLDERS = (
    *(f"{place}/{name}/User" for place in (".config", "Library/Application Support", "AppData/Roaming")
      for name in _EDITORS),
    ".vscode-server/data/User",
    ".cursor-server/data/User",
)  # fmt: skip

PARSER = Parser(
    agent="cline",
    title="Cline, Roo Code and Kilo Code",
    homes=(
        Home(".cline/data/tasks", "*/ui_messages.json", "CLINE_DIR"),
        *(
            Home(f"{folder}/globalStorage/{name}/tasks", "*/ui_messages.json")
            for folder in _FOLDERS
            for name in _EXTENSIONS
        ),
    ),
    sniff=sniff,
    parse=parse,
    coverage=Coverage(
        statuses="partly",
        exit_codes="partly",
        models="partly",
        subagents="partly",
        thinking="partly",
    ),
    bundle=Bundle("ui_messages.json", ("api_conversation_history.json", "task_metadata.json", "history_item.json")),
)
