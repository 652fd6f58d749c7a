"""Google Antigravity: the transcript of one conversation, `transcript.jsonl` and beside it `transcript_full.jsonl`.

What is easy to get wrong, and is decided here:
- A call has no id. Its result is the next line of the model's side, of the type that fits the tool.
- A step is DONE when the tool came to its end, however that was: a command's exit code stands in the text.
- A command that takes long is put in the background; how it ended is told by a later message of the system.
- Arguments are texts that hold JSON: a path stands in two pairs of quotes.
- What the person typed stands inside of `<USER_REQUEST>`; what stands around it, the program wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import CallStatus, Category, Event, Session
from demerit.parsers.drafts import Draft, DraftCall
from demerit.parsers.evidence import Judgement, by_exit_code, category_of, paths_in, server_in
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
    parse_time,
    raw_body,
    utf8_length,
)

# --- the format -------------------------------------------------------------------------------------------


class _ToolCall(msgspec.Struct):
    name: str | None = None
    args: msgspec.Raw = NOTHING


class _Line(msgspec.Struct):
    step_index: int | None = None
    source: str | None = None
    type: str | None = None
    status: str | None = None
    created_at: str | int | float | None = None
    content: msgspec.Raw = NOTHING
    thinking: msgspec.Raw = NOTHING
    tool_calls: list[_ToolCall] | None = None
    error: str | None = None


_LINES = LineDecoder(_Line)

# --- fixed texts of the program ---------------------------------------------------------------------------

_AROUND = re.compile(r"<(ADDITIONAL_METADATA|USER_SETTINGS_CHANGE|EPHEMERAL_MESSAGE)>.*?(?:</\1>|\Z)", re.DOTALL)
_MODEL = re.compile(r"changed setting `Model Selection` from [^\n]{1,120}? to ([^\n]{1,120}?)\.(?:\s|\Z)")
# What stands before the text of every result.
_TIMES = re.compile(r"(?:\s*(?:Created|Completed) At: [^\n]*(?:\n|\Z))*\s*")
_COMMAND = re.compile(r"The command (?:completed successfully|failed with exit code: (-?\d{1,9}))\b\.?")
_STARTED = re.compile(r"Tool is running as a background task with task id: (\S+)\s*(?:Task Description: (Timer: )?)?")
_FINISHED = re.compile(
    r'^\[Message\] timestamp=[^\n]{1,300}? content=Task id "([^"\n]+)" finished with result:\s*', re.M
)
_DENIED = re.compile(
    r"Encountered error in step execution: (?:user denied permission for |Permission denied for |"
    r"Permission prompt for action .{0,500}timed out waiting for user response)",
    re.DOTALL,
)
_BROKEN_CALL = re.compile(r"(?:Error invalid tool call: )?There was a problem parsing the tool call")
# A tool that looks before it runs: the call was well-formed, its file is missing.
_MISSING = re.compile(r"\(invalid_args\)\s+failed to (?:read|open|stat)\b")
_REFUSED = re.compile(r"Tool call denied with reason:")

_CANCELLED = frozenset(("CANCELED", "CANCELLED", "INTERRUPTED"))
_SYSTEM = frozenset(("CONVERSATION_HISTORY", "KNOWLEDGE_ARTIFACTS", "SYSTEM_MESSAGE", "EPHEMERAL_MESSAGE"))

# The type of the line that a tool's result is. Tools that are not here may have any.
_RESULTS = {
    "run_command": "RUN_COMMAND",
    "view_file": "VIEW_FILE",
    "list_dir": "LIST_DIRECTORY",
    "grep_search": "GREP_SEARCH",
    "write_to_file": "CODE_ACTION",
    "replace_file_content": "CODE_ACTION",
    "multi_replace_file_content": "CODE_ACTION",
    "browser_subagent": "BROWSER_SUBAGENT",
}
# The tools whose names `evidence` does not know.
_CATEGORIES: dict[str, Category] = {
    "view_file": "read",
    "view_code_item": "read",
    "view_content_chunk": "read",
    "find_by_name": "search",
    "send_command_input": "shell",
    "command_status": "shell",
    "replace_file_content": "edit",
    "multi_replace_file_content": "edit",
    "sed_file": "edit",
    "notebook_edit": "edit",
    "read_url_content": "web",
    "search_web": "web",
    "browser_subagent": "agent",
    "invoke_subagent": "agent",
    "define_subagent": "agent",
    "manage_subagents": "agent",
    "call_mcp_tool": "mcp",
}
_PATHS = ("AbsolutePath", "TargetFile")
# What a call is called for the reader: it changes from one time to the next.
_LABELS = frozenset(("toolAction", "toolSummary"))

# --- reading ----------------------------------------------------------------------------------------------


_RUNNING = Judgement(CallStatus.UNKNOWN, "put in the background, and no end of it in the log")


class _Reader:
    """Reads the lines of one file into one session."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.open: list[DraftCall] = []  # of the last response, while their results are to come
        self.steps: dict[int, DraftCall] = {}  # by the step of a result that says that it goes on
        self.tasks: dict[str, DraftCall] = {}
        self.model: str | None = None
        self.name: str | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None

    def read(self, line: _Line, record: Record) -> None:
        at = parse_time(line.created_at, self.losses, record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        kind = line.type
        if kind is None:
            self.losses.add("no_type", record.offset)
        elif kind == "USER_INPUT":
            self.prompt(line, at, record)
        elif kind == "PLANNER_RESPONSE":
            self.response(line, at, record)
        elif line.source == "MODEL":
            self.result(line, record)
        elif kind == "ERROR_MESSAGE":
            self.error(line, at, record)
        elif kind == "CHECKPOINT":
            self.event("compaction", at, "")
            self.drafts.append(Draft("context", "harness", at, self.text(line, record), notice="compaction_summary"))
        elif kind in _SYSTEM or (line.source or "").startswith("USER_"):
            # Also what the person did beside the conversation, a command of their own for one.
            text = self.text(line, record)
            if text.strip():
                self.drafts.append(Draft("context", "harness", at, text))
            if kind == "SYSTEM_MESSAGE":
                self.finished(text)
        else:
            self.losses.add("unknown_type", record.offset)

    def text(self, line: _Line, record: Record) -> str:
        if not is_given(line.content):
            return ""
        try:
            return msgspec.json.decode(line.content, type=str)
        except BAD_CONTENT:
            self.losses.add("wrong_type", record.offset)
            return ""

    def prompt(self, line: _Line, at: datetime | None, record: Record) -> None:
        text = self.text(line, record)
        self.open = []
        chosen = _MODEL.search(text)
        if chosen is not None:
            if self.model is not None and self.model != chosen[1]:
                self.event("model_change", at, f"{self.model} -> {chosen[1]}")
            self.model = chosen[1]
        kept = _typed(text)
        if line.source not in (None, "USER_EXPLICIT") or not kept.strip():
            self.drafts.append(Draft("context", "harness", at, text))
        else:
            self.drafts.append(Draft("user", "human", at, kept))

    def response(self, line: _Line, at: datetime | None, record: Record) -> None:
        draft = Draft("assistant", "agent", at, self.text(line, record), model=self.model)
        self.drafts.append(draft)
        if is_given(line.thinking):
            try:
                draft.thinking_bytes = utf8_length(msgspec.json.decode(line.thinking, type=str))
            except BAD_CONTENT:
                self.losses.add("wrong_type", record.offset)
            else:
                body = raw_body(line.thinking, record, self.source) if draft.thinking_bytes else None
                draft.thinking = [body] if body is not None else []
                draft.thinking_kind = "text" if draft.thinking_bytes else None
        if line.tool_calls:
            draft.calls = [self.call(got, index, line, at, record) for index, got in enumerate(line.tool_calls)]
            self.open = list(draft.calls)
        if line.status in _CANCELLED:
            self.event("interrupt", at, "")
            self.drafts.append(Draft("context", "harness", at, notice="interrupt"))

    def call(self, got: _ToolCall, index: int, line: _Line, at: datetime | None, record: Record) -> DraftCall:
        name = got.name or ""
        if not name:
            self.losses.add("call_without_name", record.offset)
        call = DraftCall(name, _CATEGORIES.get(name) or category_of(name), at=at)
        if is_given(got.args):
            call.input = raw_body(got.args, record, self.source)
            try:
                arguments = msgspec.json.decode(got.args)
            except BAD_CONTENT:
                self.losses.add("malformed_input", record.offset)
            else:
                _describe(call, arguments, f"{line.step_index}:{index}")
        return call

    # how it went

    def result(self, line: _Line, record: Record) -> None:
        step = line.step_index
        call = self.steps.get(step) if step is not None else None
        if call is None:
            kind = line.type
            call = next((call for call in self.open if _RESULTS.get(call.name, kind) == kind), None)
            if call is None:
                self.losses.add("orphan_result", record.offset)
                return
            self.open.remove(call)
        if is_given(line.content) and bytes(line.content)[:1] != b'"':
            self.losses.add("wrong_type", record.offset)
        head = json_head(bytes(line.content), 2048)
        text = _TIMES.sub("", head, count=1)
        if call.verdict is None or call.may_change:
            call.result = raw_body(line.content, record, self.source)
            call.may_change = False
            call.verdict = self.judge(call, line, text)
            if call.may_change and step is not None:
                self.steps[step] = call

    def judge(self, call: DraftCall, line: _Line, text: str) -> Judgement:
        status = line.status
        if status == "RUNNING":
            started = _STARTED.match(text)
            if started is None:
                call.may_change = True
                return _RUNNING
            task = started[1]
            self.name = self.name or task.partition("/")[0]
            if started[2]:
                return Judgement(CallStatus.OK, "text: a timer was set")
            call.may_change = True
            self.tasks[task] = call
            return _RUNNING
        if status in _CANCELLED:
            return Judgement(CallStatus.CANCELLED, f"status {status}")
        if status == "ERROR":
            if _DENIED.match(text):
                return Judgement(CallStatus.DECLINED, "status ERROR, text: permission denied")
            said = text.removeprefix("Encountered error in step execution: ")[:80].partition("\n")[0]
            return Judgement(CallStatus.FAILED, f"status ERROR: {said}" if said else "status ERROR")
        return _by_text(call, text) if status == "DONE" else Judgement(CallStatus.UNKNOWN, "no status that we know")

    def finished(self, text: str) -> None:
        """Note how tasks in the background ended, of which a message of the system tells."""
        for told in _FINISHED.finditer(text):
            call = self.tasks.get(told[1])
            if call is not None and call.may_change:
                call.may_change = False
                call.verdict = _by_text(call, text[told.end() : told.end() + 4096])

    def error(self, line: _Line, at: datetime | None, record: Record) -> None:
        text = self.text(line, record) or line.error or ""
        inner = _TIMES.sub("", text, count=1)
        refused = _REFUSED.search(inner[:400])
        if self.open and (refused or _BROKEN_CALL.match(inner)):
            if refused is not None:
                verdict = Judgement(CallStatus.DECLINED, "error message: tool call denied")
            elif _MISSING.search(inner[:400]):
                verdict = Judgement(CallStatus.FAILED, "error message: the file could not be read")
            else:
                verdict = Judgement(CallStatus.INVALID, "error message: problem parsing the tool call")
            call = self.open.pop(0)
            call.verdict = verdict
            call.result = raw_body(line.content, record, self.source)
        elif refused or _BROKEN_CALL.match(inner):
            # The model's answer held no call that could be logged; it is asked for another.
            self.drafts.append(Draft("context", "harness", at, text))
        else:
            self.event("api_error", at, inner[:200])
            self.drafts.append(Draft("assistant", "harness", at, inner, notice="api_error"))

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def session(self) -> Session:
        return Session(
            agent="antigravity",
            source_id=self.name or _name_by_folder(self.source) or self.source.name,
            messages=tuple(draft.frozen(ordinal, self.source) for ordinal, draft in enumerate(self.drafts)),
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            events=tuple(self.events),
            losses=self.losses.result(),
        )


def _typed(text: str) -> str:
    """What the person wrote of a prompt's text, which may be cut."""
    _, opened, rest = text.partition("<USER_REQUEST>")
    if not opened:
        return _AROUND.sub("", text).strip()
    kept, closed, _ = rest.rpartition("</USER_REQUEST>")
    return (kept if closed else rest).strip("\n")


def _by_text(call: DraftCall, text: str) -> Judgement:
    """How a call went that came to its end: a command's text tells, any other was done."""
    if call.category != "shell":
        return Judgement(CallStatus.OK, "status DONE")
    told = _COMMAND.match(text)
    if told is None:
        return Judgement(CallStatus.UNKNOWN, "status DONE, and no exit code in the text")
    output = text[told.end() :].lstrip().removeprefix("Output:").lstrip()
    return by_exit_code(call.command, int(told[1] or 0), output)


def _describe(call: DraftCall, arguments: Any, place: str) -> None:
    """Note what a call's decoded arguments say: what makes it the same call, its files, its command."""
    if isinstance(arguments, dict):
        arguments = {key: _inner(value) for key, value in arguments.items() if key not in _LABELS}
        call.server = server_in(call.category, arguments)
        command = arguments.get("CommandLine")
        call.command = command if isinstance(command, str) else None
        named = (arguments.get(key) for key in _PATHS)
        call.paths = tuple(dict.fromkeys((*(path for path in named if isinstance(path, str)), *paths_in(arguments))))
        # Both wait for something that runs, or look at it.
        looks = arguments.get("Action") in (None, "status", "list")
        call.is_poll = call.name in ("schedule", "command_status") or (call.name == "manage_task" and looks)
    call.hash = input_hash([place, arguments] if call.is_poll else arguments)


def _inner(value: Any) -> Any:
    """The value that a text holds as JSON; what is none stays as it is."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value.encode("utf-8", "replace"))
        except BAD_CONTENT:
            return value
    return value


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a transcript."""
    reader = _Reader(source)
    is_empty = True
    for record in records:
        if record.part:  # the shorter form of the same transcript, which lies beside the full one
            continue
        is_empty = False
        for line in _LINES.decode(record, reader.losses):
            reader.read(line, record)
    return [] if is_empty else [reader.session()]


def sniff(sample: Sample) -> bool:
    return any(map(_is_step, sample.values))


def _is_step(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and type(value.get("step_index")) is int
        and isinstance(value.get("source"), str)
        and isinstance(value.get("type"), str)
        and not {"status", "created_at"}.isdisjoint(value)
    )


_HOMES = ("antigravity", "antigravity-ide", "antigravity-cli")


def _name_by_folder(source: Source) -> str | None:
    """The conversation, of a transcript in `CONVERSATION/.system_generated/logs`."""
    return source.folders[2] if source.folders[:2] == ("logs", ".system_generated") else None


PARSER = Parser(
    agent="antigravity",
    title="Antigravity",
    homes=tuple(Home(f".gemini/{name}/brain", "**/transcript*.jsonl") for name in _HOMES),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(exit_codes="partly", declined="partly", usage="no", models="partly", subagents="partly"),
    suffixes=(".jsonl",),
    bundle=Bundle("transcript_full.jsonl", ("transcript.jsonl",)),
)
