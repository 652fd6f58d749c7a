"""What Gemini CLI and Qwen Code, which began as its fork, write alike: parts of messages, results, calls, prompts.

Messages are lists of parts as Google's API has them. A status `success` says that a tool worked: how a command ended
stands at the end of its output, in lines that the program puts there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Message, Notice, Role, ToolCall, Usage
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
    LineDecoder,
    Losses,
    Record,
    Source,
    input_hash,
    is_given,
    kept_text,
    raw_body,
    text_body,
    utf8_length,
)

# --- parts of messages, as Google's API has them -----------------------------------------------------------


class FunctionCall(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING


class FunctionResponse(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    response: msgspec.Raw = NOTHING


class Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: msgspec.Raw = NOTHING
    file_data: msgspec.Raw = NOTHING

    @property
    def is_file(self) -> bool:
        return is_given(self.inline_data) or is_given(self.file_data)


Content = str | list[Part] | Part | None


def parts_of(content: Content) -> list[Part]:
    if isinstance(content, str):
        return [Part(text=content)]
    return [content] if isinstance(content, Part) else content or []


def texts_of(parts: Iterable[Part]) -> list[str]:
    return [part.text for part in parts if part.text and not part.thought]


# --- results ------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What a tool answered: its output, or its error beside what there is of an output."""

    output: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    is_bare: bool = False
    """It came without saying which of the two it is."""

    @property
    def value(self) -> msgspec.Raw:
        return self.error if is_given(self.error) else self.output

    @property
    def text(self) -> str:
        """The text of `value`; of anything but a string, its JSON."""
        return _string(self.value)


class _Response(msgspec.Struct):
    output: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


_RESPONSES = LineDecoder(_Response)


def _string(raw: msgspec.Raw) -> str:
    if not is_given(raw):
        return ""
    data = bytes(raw)
    if data[:1] == b'"':
        try:
            return str(msgspec.json.decode(data, type=str))
        except BAD_CONTENT:
            pass
    return data.decode("utf-8", "replace")


def answer_in(response: msgspec.Raw, record: Record, losses: Losses) -> Answer:
    """The answer in a `functionResponse`: an object with `output` or `error`, in rare cases anything else."""
    first = bytes(memoryview(response)[:1])
    if first == b"{":
        for found in _RESPONSES.decode(Record(bytes(response), record.offset), losses):
            if is_given(found.output) or is_given(found.error):
                return Answer(found.output, found.error)
    elif is_given(response) and first not in b'"[':
        losses.add("wrong_type", record.offset)
    return Answer(response, is_bare=True)


# How a shell call's result ends. Older versions write each of these lines, newer ones only those that say something.
_ENDING = frozenset(("Exit Code", "Signal", "Background PIDs", "Process Group PGID"))
_NO_ERROR = "Error: (none)"
# What may follow: the tag that newest versions put around it, a remark on hooks, Qwen Code's advice on long runs.
_AFTER = ("</untrusted_context>", "[System] ", "Note: this foreground command ran ")
_ENDING_CHARS = 2000
_OUTPUT = re.compile(r"(?:\A|\n)(?:Output|Stdout): ")
_TIMED_OUT = re.compile(
    r"Command (?:was automatically cancelled because it exceeded the timeout|timed out after|execution timed out)\b"
)
_IN_BACKGROUND = re.compile(r"(?:Command (?:moved|auto-promoted) to background|Background (?:shell|command) started)\b")
# What the stream shows of a command in place of an output that is empty.
_DISPLAYED = re.compile(r"Command (?:exited with code: (?P<Exit_Code>-?\d+)|terminated by signal: (?P<Signal>\S+))\Z")
_NUMBER = re.compile(r"-?\d{1,10}\Z")

_STOPPED = re.compile(
    r"\[Operation Cancelled\]|The user aborted a request|Tool call aborted|Command was cancelled by user"
    r"|Command cancelled by user\.|Tool call cancelled while in queue"
)
_SAID_NO = re.compile(r"\[Operation Cancelled\] (?:Reason: )?User (?:did not allow tool call|denied execution)")
_NOT_ALLOWED = re.compile(
    r"Tool execution (?:denied by policy|blocked: )|Tool execution for \"[^\"\n]{0,200}\" requires user confirmation"
    r"|Qwen Code requires permission to use|Tool \"[^\"\n]{0,200}\" is blocked in plan mode"
)
_BROKEN = re.compile(r"(?:Tool|Skill) \"[^\"\n]{0,200}\" not found|params(?:/\S{0,200})? must |MCP error -3260[12]\b")
_BY_ERROR_TYPE = {
    "invalid_tool_params": CallStatus.INVALID,
    "tool_not_registered": CallStatus.INVALID,
    "output_truncated": CallStatus.INVALID,  # Qwen Code: the model's arguments ended at its token limit
    "policy_violation": CallStatus.DECLINED,
    "execution_denied": CallStatus.DECLINED,
}
_OPEN = ("validating", "scheduled", "executing", "awaiting_approval")


def by_shell_text(command: str | None, text: str) -> Judgement | None:
    """Status of a shell command by the program's own words around its output; None where it says nothing."""
    text = text.removeprefix("<untrusted_context>\n")
    if _TIMED_OUT.match(text):
        return Judgement(CallStatus.FAILED, "text: timed out")
    if _STOPPED.match(text):
        return None
    if _IN_BACKGROUND.match(text):
        return Judgement(CallStatus.OK, "text: started in the background")
    shown = _DISPLAYED.match(text)
    ending, end = (shown.groupdict(), 0) if shown is not None else _ending(text)
    code, signal = ending.get("Exit_Code"), ending.get("Signal")
    begin = _OUTPUT.search(text)
    if code is not None and _NUMBER.match(code):
        output = text[begin.end() : end][:4096] if begin else ""
        return by_exit_code(command, int(code), output, "Exit Code:" if shown is None else "displayed exit code")
    if signal not in (None, "0", "(none)", "null"):
        return Judgement(CallStatus.FAILED, f"signal {signal}"[:40])
    if code is None and begin is not None and (begin.start() == 0 or "Process_Group_PGID" in ending):
        return Judgement(CallStatus.OK, "no Exit Code line, which is only written when not 0", 0)
    return None


def _ending(text: str) -> tuple[dict[str, str | Any], int]:
    """The lines about the process at the end of a shell's result, by their names, and where they begin."""
    found: dict[str, str] = {}
    text = text.rstrip()
    at = end = len(text)
    for line in reversed(text[-_ENDING_CHARS:].split("\n")):
        at -= len(line)
        name, _, value = line.partition(": ")
        if name in _ENDING or line.rstrip() == _NO_ERROR:
            found.setdefault(name.replace(" ", "_"), value.strip())
            end = at
        elif found or (line.strip() and not line.startswith(_AFTER)):
            break
        at -= 1
    return found, end


class _Payload(msgspec.Struct):
    status: Any = None
    error: Any = None


_PAYLOAD = msgspec.json.Decoder(_Payload)


def _own_error(text: str) -> str | None:
    """How a server's tool calls its answer an error, where that is an object that says so."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        said = _PAYLOAD.decode(text)
    except BAD_CONTENT:
        return None
    if said.status != "error":
        return None
    return _told("the answer's own status is error", said.error if isinstance(said.error, str) else "")


def _told(by: str, text: str) -> str:
    """What decided, and how the text of the error begins."""
    line = text.lstrip()[:80].partition("\n")[0]
    return f"{by}: {line}" if line else by


def judge(
    category: Category, command: str | None, status: str | None, answer: Answer, error_type: str | None = None
) -> Judgement | None:
    """How a call went; None while it is still open.

    status, error_type: as the agent logged them beside the answer, where it did.
    """
    word = (status or "").lower()
    if word in _OPEN:
        return None
    has_error = is_given(answer.error)
    told_by = f"status {word}"[:40] if word else "error" if has_error else "output without an error"
    if word == "cancelled":
        if _SAID_NO.match(answer.text):
            return Judgement(CallStatus.DECLINED, "text: the user said no")
        return Judgement(CallStatus.CANCELLED, told_by)
    if category == "shell" and is_given(answer.value):
        found = by_shell_text(command, answer.text)
        if found is not None:
            return found
        if _STOPPED.match(answer.text):
            return Judgement(CallStatus.CANCELLED, "text: cancelled by the user")
    if word in ("error", "failed") or has_error:
        return _by_error(answer.text, told_by, error_type)
    if word and word not in ("success", "completed"):
        return Judgement(CallStatus.UNKNOWN, told_by)
    if not word and answer.is_bare:
        return Judgement(CallStatus.UNKNOWN, "a result without a status")
    if category == "shell" and is_given(answer.value) and answer.text.strip():
        return Judgement(CallStatus.UNKNOWN, f"{told_by}, which does not tell how the command ended")
    own_error = _own_error(answer.text) if category in ("mcp", "other") else None
    if own_error is not None:
        return Judgement(CallStatus.FAILED, own_error)
    return Judgement(CallStatus.OK, told_by)


def _by_error(text: str, told_by: str, error_type: str | None) -> Judgement:
    if _SAID_NO.match(text):
        return Judgement(CallStatus.DECLINED, "text: the user said no")
    if _STOPPED.match(text):
        return Judgement(CallStatus.CANCELLED, f"{told_by}, text: cancelled")
    known = _BY_ERROR_TYPE.get(error_type or "")
    if known is not None:
        return Judgement(known, f"error type {error_type}")
    if _NOT_ALLOWED.match(text):
        return Judgement(CallStatus.DECLINED, "text: permission not given")
    broken = _BROKEN.match(text)
    if broken is not None:
        return Judgement(CallStatus.INVALID, f"text: {text[:60].splitlines()[0]}")
    return Judgement(CallStatus.FAILED, _told(f"error type {error_type}"[:60] if error_type else told_by, text))


# --- calls ---------------------------------------------------------------------------------------------------

_CATEGORIES: dict[str, Category] = {
    **dict.fromkeys(("write_todos", "enter_plan_mode", "exit_plan_mode", "update_topic"), "plan"),
    **dict.fromkeys(("todo_write", "task_create", "task_get", "task_list", "task_update"), "plan"),
    **dict.fromkeys(("invoke_agent", "delegate_to_agent", "codebase_investigator", "generalist", "cli_help"), "agent"),
    **dict.fromkeys(("read_background_output", "list_background_processes", "read_shell", "write_to_shell"), "shell"),
    **dict.fromkeys(("task_output", "task_stop", "monitor"), "shell"),
    "get_internal_docs": "read",
    "ask_user_question": "question",
    "lsp": "search",
    "notebook_edit": "edit",
}
_POLLS = frozenset(("task_output", "read_shell", "list_background_processes"))
# What a model says about a call for its reader, and when to start it, make no other call of it.
_REMARKS = ("description", "wait_for_previous")


class OpenCall:
    """A call while its result is still to come."""

    __slots__ = (
        "at", "body", "call_id", "category", "command", "hash", "is_poll", "name", "paths", "result", "server",
        "verdict",
    )  # fmt: skip

    def __init__(self, name: str, call_id: str | None, at: datetime | None, display_name: str | None = None) -> None:
        self.name = name
        self.call_id = call_id
        self.at = at
        self.category = _category(name, display_name)
        served = _SERVED.search(display_name or "")
        self.server = served[1] if served else None
        self.command: str | None = None
        self.body: Body | None = None
        self.hash: str | None = None
        self.is_poll = False
        self.paths: tuple[str, ...] = ()
        self.verdict: Judgement | None = None
        self.result: Body | None = None

    def takes(self, args: msgspec.Raw, record: Record, source: Source, losses: Losses) -> None:
        """Notes the input of the call."""
        if not is_given(args):
            return
        self.body = raw_body(args, record, source)
        try:
            value = msgspec.json.decode(args)
        except BAD_CONTENT:
            losses.add("malformed_input", record.offset)
            return
        compared = value
        if isinstance(value, dict):
            command = value.get("command")
            self.command = command if isinstance(command, str) else None
            self.paths = paths_in(value)
            if self.category == "shell":
                compared = {key: item for key, item in value.items() if key not in _REMARKS}
        else:
            losses.add("wrong_type", record.offset)
        self.is_poll = self.name in _POLLS or is_poll(self.name, value)
        self.hash = input_hash([self.call_id, compared] if self.is_poll else compared)

    def ends(self, verdict: Judgement | None, answer: Answer, record: Record, source: Source) -> None:
        """Takes the result; of two, as a replay has them, the first stands."""
        if self.verdict is None and verdict is not None:
            self.verdict = verdict
            self.result = raw_body(answer.value, record, source)

    def frozen(self, ordinal: int, index: int) -> ToolCall:
        status, reason, code = self.verdict or PENDING
        return ToolCall(
            ordinal, index, self.name, self.category, status, reason, self.call_id, self.body, self.hash,
            self.paths, code, self.result, self.at, self.is_poll, self.server,
        )  # fmt: skip


_SERVED = re.compile(r"\(([^()]{1,100}) MCP Server\)\Z")


def _category(name: str, display_name: str | None) -> Category:
    if name.startswith("mcp_") or _SERVED.search(display_name or ""):
        return "mcp"
    known = _CATEGORIES.get(name) or category_of(name)
    return "mcp" if known == "other" and "__" in name else known


# --- who wrote it --------------------------------------------------------------------------------------------

# What the program says to the model under the role of the user.
_INJECTED = (
    "<session_context>",
    "Here is the user's editor context as a JSON object.",
    "Here is a summary of changes in the user's editor context, in JSON format.",
    "I ran the following shell command:",
    "System: Please continue.",
    "System: Potential loop detected.",
)
# Files that were named with an @ follow the prompt.
_REFERENCED = "--- Content from referenced files ---"


class Prompt(NamedTuple):
    text: str
    is_typed: bool
    notice: Notice | None = None


def prompt_in(texts: list[str]) -> Prompt:
    """What a person typed of the texts in a user's message; all of it where nobody typed any."""
    whole = "\n".join(texts)
    if ("<state_snapshot>" in whole and "</state_snapshot>" in whole) or starts_with_any(whole, SUMMARIES):
        return Prompt(whole, False, "compaction_summary")
    kept = "\n".join(text for text in texts if not starts_with_any(text, _INJECTED) and not is_harness_text(text))
    typed = without_wrappers(kept.partition(_REFERENCED)[0])
    if typed != whole:
        typed = typed.strip()
    return Prompt(typed, True) if typed.strip() else Prompt(whole, not whole.strip())


# --- messages -------------------------------------------------------------------------------------------------


class Draft:
    """A message while more of it may still come."""

    __slots__ = (
        "at", "author", "calls", "has_image", "is_answered", "model", "notice", "role", "sidechain", "text",
        "thoughts", "usage",
    )  # fmt: skip

    def __init__(self, role: Role, author: Author, at: datetime | None, text: str = "") -> None:
        self.role: Role = role
        self.author: Author = author
        self.at = at
        self.text = text
        self.has_image = False
        self.calls: list[OpenCall] = []
        self.thoughts: list[str] = []
        self.model: str | None = None
        self.usage: Usage | None = None
        self.notice: Notice | None = None
        self.sidechain = False
        self.is_answered = False
        """A result of one of its calls was logged: what the model says next is another response."""

    def frozen(self, ordinal: int, source: Source) -> Message:
        kept = kept_text(self.text, source, whole=self.role == "user")
        bodies = (text_body(thought, source) for thought in self.thoughts)
        return Message(
            ordinal=ordinal,
            role=self.role,
            author=self.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=self.has_image,
            calls=tuple(call.frozen(ordinal, index) for index, call in enumerate(self.calls)),
            thinking=tuple(body for body in bodies if body is not None),
            thinking_bytes=sum(map(utf8_length, self.thoughts)),
            thinking_kind="text" if self.thoughts else None,
            model=self.model,
            at=self.at,
            usage=self.usage,
            sidechain=self.sidechain,
            notice=self.notice,
        )


def frozen(drafts: list[Draft], source: Source) -> tuple[Message, ...]:
    return tuple(draft.frozen(ordinal, source) for ordinal, draft in enumerate(drafts))
