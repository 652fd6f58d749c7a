"""What Cline, Roo Code and Kilo Code send to the model, and how a call went: shared by `cline` and `cline_cli`.

`api_conversation_history.json` is a list of Anthropic-like messages. A call is a `tool_use` block, or XML tags in the
text (`<read_file><path>a.py</path></read_file>`); its result is a `tool_result` block, or a text below the heading
`[read_file for 'a.py'] Result:`. Nothing flags a failure but the extension's own texts (core/prompts/responses.ts).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, ToolCall, Usage
from demerit.parsers.evidence import (
    PENDING,
    SUMMARIES,
    Judgement,
    by_exit_code,
    category_of,
    patch_paths,
    paths_in,
    server_in,
    starts_with_any,
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
    json_head,
    kept_text,
    parse_time,
    raw_body,
    salvage,
    text_body,
    token_count,
    utf8_length,
)

# --- the format -------------------------------------------------------------------------------------------


class Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: msgspec.Raw = NOTHING  # of redacted thinking, or of an image
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None


class ModelInfo(msgspec.Struct, rename="camel"):
    model_id: str | None = None
    id: str | None = None


class _Tokens(msgspec.Struct):
    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


class _Metrics(msgspec.Struct, rename="camel"):
    tokens: _Tokens | None = None  # of the extension
    input_tokens: int | None = None  # and the others of the command line agent
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    kind: str | None = None
    display_role: str | None = None


class Entry(msgspec.Struct, rename="camel"):
    """One message."""

    id: str | None = None
    role: str | None = None
    type: str | None = None
    content: str | list[Block] | None = None
    ts: int | float | None = None
    model_info: ModelInfo | None = None
    metrics: _Metrics | None = None
    is_summary: bool | None = None
    compaction_summary: bool | None = None
    metadata: _Metadata | None = None


class _Said(msgspec.Struct):
    """A result of Roo's native tool protocol that is no plain output."""

    status: str | None = None
    type: str | None = None
    feedback: str | None = None


_OTHER_BLOCKS = frozenset(("image", "document", "file", "media"))
_ENTRIES = LineDecoder(Entry)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_SAID = msgspec.json.Decoder(_Said)


def items(record: Record, losses: Losses) -> Iterator[Record]:
    """The items of a JSON list, each as a record of its own."""
    try:
        raws = _RAWS.decode(record.data)
    except BAD_CONTENT:
        for value in salvage(record, losses):
            for item in value if isinstance(value, list) else [value]:
                yield Record(msgspec.json.encode(item), None)
        return
    at = 0
    for raw in raws:
        data = bytes(raw)
        at = record.data.find(data, at)
        yield Record(data, None if record.offset is None else record.offset + at)
        at += len(data)


# --- tools ------------------------------------------------------------------------------------------------

# Tools that evidence.py does not know by these names.
_CATEGORIES: dict[str, Category] = {
    "list_code_definition_names": "search", "search_codebase": "search", "read_files": "read",
    "fetch_instructions": "read", "load_mcp_documentation": "read", "insert_content": "edit",
    "search_and_replace": "edit", "editor": "edit", "new_rule": "write", "delete_file": "write",
    "run_commands": "shell", "read_command_output": "shell", "browser_action": "web", "fetch_web_content": "web",
    "use_mcp_tool": "mcp", "access_mcp_resource": "mcp", "use_subagents": "agent", "subagents": "agent",
    "update_todo_list": "plan", "ask_question": "question",
}  # fmt: skip
SPOKEN = frozenset(("attempt_completion", "plan_mode_respond", "plan_mode_response", "act_mode_respond"))
"""Tools with which the model only speaks: their text is the answer, and they are no calls."""
# These say something as well, and what came back is a result.
_SPOKEN_CALLS = frozenset(("ask_followup_question", "ask_question", "submit_and_exit"))
COMPACTING = frozenset(("condense", "summarize_task"))
_XML_TOOLS = (
    "execute_command read_file write_to_file replace_in_file apply_diff apply_patch insert_content search_and_replace "
    "search_files list_files list_code_definition_names codebase_search browser_action use_mcp_tool "
    "access_mcp_resource ask_followup_question attempt_completion plan_mode_respond plan_mode_response new_task "
    "switch_mode fetch_instructions web_fetch load_mcp_documentation update_todo_list condense summarize_task new_rule "
    "edit_file run_slash_command generate_image use_skill"
).split()
_NAMES = "|".join(_XML_TOOLS)
_XML_CALL = re.compile(rf"<({_NAMES})>")
_PARAMETER = re.compile(r"<(\w+)>\n?")
_NESTED_PATH = re.compile(r"<path>\s*([^<\n]+?)\s*</path>")
# What a call is annotated with, and what is not a part of what it does.
_NOT_INPUT = frozenset(("task_progress", "requires_approval"))


@lru_cache(1024)
def category(name: str) -> Category:
    known = _CATEGORIES.get(name)
    if known is not None:
        return known
    if name.startswith(("mcp--", "mcp_")) or "0mcp0" in name or "__" in name:
        return "mcp"
    return "agent" if name.startswith("team_") else category_of(name)


class Tagged(NamedTuple):
    """A text within tags, and where both begin and end."""

    tag: str
    text: str
    start: int
    end: int


def tagged(text: str, opening: re.Pattern[str], start: int = 0) -> Iterator[Tagged]:
    """What stands within the tags that `opening` finds by name. A tag that is never closed is passed over."""
    unclosed: set[str] = set()
    at = start
    while (opened := opening.search(text, at)) is not None:
        tag = opened[1]
        closing = f"</{tag}>"
        end = -1 if tag in unclosed else text.find(closing, opened.end())
        if end < 0:
            unclosed.add(tag)
            at = opened.end()
        else:
            at = end + len(closing)
            yield Tagged(tag, text[opened.end() : end], opened.start(), at)


def without(text: str, parts: list[Tagged]) -> str:
    at = 0
    kept = []
    for part in parts:
        kept.append(text[at : part.start])
        at = part.end
    return "".join((*kept, text[at:]))


def _parameters(body: str) -> dict[str, Any]:
    """The parameters in the body of an XML call. A file's content may hold tags of its own."""
    found: dict[str, Any] = {}
    at = 0
    while (opening := _PARAMETER.search(body, at)) is not None:
        closing = f"</{opening[1]}>"
        is_long = opening[1] in ("content", "diff", "args", "arguments")
        end = body.rfind(closing) if is_long else body.find(closing, opening.end())
        if end < opening.end():
            break
        found[opening[1]] = body[opening.end() : end].removesuffix("\n")
        at = end + len(closing)
    if isinstance(found.get("args"), str) and "path" not in found:
        found["paths"] = _NESTED_PATH.findall(found["args"])
    return found


# --- how a call went --------------------------------------------------------------------------------------

_ERROR = "The tool execution failed with the following error:\n<error>\n"
_EXIT = re.compile(
    r"Command executed successfully \(exit code (0)\)|Command failed with exit code (\d{1,9})\b"
    r"|(?:Command failed: )?Command exited with code (\d{1,9})\b"
    r"|Command executed in terminal\b(?:(?!\nOutput:).){0,1000}?Exit code: (-?\d{1,9})\b",
    re.DOTALL,
)
_SIGNAL = re.compile(r"Command executed in terminal\b[^\n]{0,1000}?Process terminated by signal \w+")
_BROKEN = re.compile(
    r"Missing value for required parameter '|Invalid JSON argument used with |Unknown tool\b|"
    r"Tool '[^'\n]{1,200}' does not exist on server |Server '[^'\n]{1,200}' is not configured"
)
_FORMS = (
    (re.compile(r"The user denied this operation\b"), CallStatus.DECLINED, "text: The user denied this operation"),
    (
        re.compile(r"Access to .{1,1000} is blocked by the \.\w+ file settings|Command \"[^\n]* was denied by "),
        CallStatus.DECLINED,
        "text: blocked by the user's settings",
    ),
    (
        re.compile(r"Skipping (?:MCP )?tool |(?:MCP )?[Tt]ool .{1,2000} was interrupted and not executed", re.DOTALL),
        CallStatus.CANCELLED,
        "text: skipped after a refusal",
    ),
    (
        re.compile(r"Tool \[[^\]\n]*\] was not executed because a tool has already been used"),
        CallStatus.CANCELLED,
        "text: one tool a message",
    ),
    (
        re.compile(r"The command was cancelled by the user\.|Command cancelled\b|Command was aborted"),
        CallStatus.CANCELLED,
        "text: the user stopped the command",
    ),
    (_BROKEN, CallStatus.INVALID, "text of a broken call"),
    (
        re.compile(
            r"The command was terminated after exceeding|Command failed to execute in terminal|"
            r"Working directory '[^\n]*' does not exist\.|This tool cannot be used in PLAN MODE\.|"
            r"Unable to apply diff to file: "
        ),
        CallStatus.FAILED,
        "text of a failure",
    ),
)
_RUNNING = re.compile(r"Command (?:is (?:still )?running|timed out after \d+ seconds\. Running in background)")
_STATUSES = {"denied": CallStatus.DECLINED, "error": CallStatus.FAILED}
_INVALID_TYPES = frozenset(("invalid_argument", "unknown_tool", "unknown_server"))


def judge(name: str, command: str | None, text: str, is_error: bool | None = None) -> Judgement:
    """Status of a call by the extension's own texts; only where no such text can be left out is a plain output ok."""
    text = text.lstrip()
    if text.startswith('{"status":'):
        try:
            said = _SAID.decode(text)
        except BAD_CONTENT:
            said = _Said()
        status = _STATUSES.get(said.status or "")
        if status is not None:
            if said.type in _INVALID_TYPES:
                status = CallStatus.INVALID
            elif said.type == "access_denied":
                status = CallStatus.DECLINED
            return Judgement(status, f"status {said.status}" + (f", {said.type}" if said.type else ""))
    inner = text.removeprefix(_ERROR)
    for form, status, reason in _FORMS:
        if form.match(inner):
            return Judgement(status, reason)
    exit_code = _EXIT.match(text)
    if exit_code is not None:
        output = text[exit_code.end() : exit_code.end() + 4096]
        return by_exit_code(command, int(exit_code[exit_code.lastindex or 1]), output)
    if inner is not text:
        return Judgement(CallStatus.FAILED, "text: The tool execution failed")
    if is_error:
        return Judgement(CallStatus.FAILED, "is_error true")
    kind = category(name)
    if kind == "shell":
        if _SIGNAL.match(text):
            return Judgement(CallStatus.FAILED, "text: terminated by a signal")
        running = _RUNNING.match(text)
        return Judgement(CallStatus.UNKNOWN, "still running" if running else "no exit code in the log")
    if kind == "mcp" and text.startswith("Error:\n"):  # how the extension marks a server's isError
        return Judgement(CallStatus.FAILED, "text: Error, of an MCP server")
    return Judgement(CallStatus.OK, "is_error false" if is_error is False else "a result without an error text")


# --- drafts -----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Call:
    """A call while its result is still to come."""

    name: str
    call_id: str | None = None
    at: datetime | None = None
    arguments: Any = None
    paths: tuple[str, ...] = ()
    command: str | None = None
    input: Body | None = None
    verdict: Judgement | None = None
    result: Body | None = None
    matched: bool = False
    """A result was found for it in what was sent to the model."""

    def hash(self) -> str | None:
        given = self.arguments
        if isinstance(given, dict):
            given = {key: value for key, value in given.items() if key not in _NOT_INPUT}
        return input_hash(given)


@dataclass(slots=True, eq=False)
class Draft:
    """A message while more of it may follow."""

    role: Role
    author: Author
    at: datetime | None = None
    texts: list[str] = field(default_factory=list)
    has_image: bool = False
    notice: Notice | None = None
    model: str | None = None
    usage: Usage | None = None
    calls: list[Call] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    signature_bytes: int = 0
    ts: int | float | None = None
    index: int = -1


def by_parent(drafts: list[Draft]) -> None:
    """The first prompt of a sub-agent was written by the agent that started it."""
    opener = next((draft for draft in drafts if draft.role == "user"), None)
    if opener is not None:
        opener.author = "agent"


def finished(drafts: Iterable[Draft], source: Source) -> Iterator[Message]:
    for ordinal, draft in enumerate(drafts):
        is_prompt = draft.role == "user" and draft.author == "human"
        kept = kept_text("\n".join(draft.texts), source, whole=is_prompt)
        bodies = (text_body(thought, source) for thought in draft.thoughts)
        thought = draft.signature_bytes or sum(map(utf8_length, draft.thoughts))
        yield Message(
            ordinal=ordinal,
            role=draft.role,
            author=draft.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=draft.has_image,
            calls=tuple(_tool_call(ordinal, index, call) for index, call in enumerate(draft.calls)),
            thinking=tuple(body for body in bodies if body is not None),
            thinking_bytes=thought,
            thinking_kind=("signature" if draft.signature_bytes else "text") if thought else None,
            model=draft.model,
            at=draft.at,
            usage=draft.usage,
            notice=draft.notice,
        )


def _tool_call(ordinal: int, index: int, call: Call) -> ToolCall:
    status, reason, code = call.verdict or PENDING
    kind = category(call.name)
    return ToolCall(
        ordinal, index, call.name, kind, status, reason, call.call_id, call.input, call.hash(), call.paths, code,
        call.result, call.at, is_poll=call.name == "read_command_output",
        mcp_server=server_in(kind, call.arguments),
    )  # fmt: skip


def answer_block(block: Block, draft: Draft, record: Record, source: Source, losses: Losses) -> Call | None:
    """Take one block of an answer into its draft; the call, where it is one."""
    if block.type == "text":
        if block.text:
            draft.texts.append(block.text)
    elif block.type == "thinking":
        draft.signature_bytes += len(block.signature or "")
        if block.thinking:
            draft.thoughts.append(block.thinking)
    elif block.type == "redacted_thinking":
        draft.signature_bytes += max(0, len(bytes(block.data)) - 2) if is_given(block.data) else 0
    elif block.type == "reasoning":
        if block.text:
            draft.thoughts.append(block.text)
    elif block.type == "tool_use":
        return _native_call(block, draft, record, source, losses)
    elif block.type not in _OTHER_BLOCKS:
        losses.add("no_type" if block.type is None else "unknown_type", record.offset)
    return None


def _native_call(block: Block, draft: Draft, record: Record, source: Source, losses: Losses) -> Call | None:
    name = block.name or ""
    if not name:
        losses.add("call_without_name", record.offset)
    arguments: Any = None
    if is_given(block.input):
        try:
            arguments = msgspec.json.decode(block.input)
        except BAD_CONTENT:
            losses.add("malformed_input", record.offset)
    if name in SPOKEN:
        draft.texts += _speech(arguments)
        return None
    call = Call(name, block.id, draft.at, arguments, input=raw_body(block.input, record, source))
    describe(call)
    draft.calls.append(call)
    if name in _SPOKEN_CALLS:
        draft.texts += _speech(arguments)
    return call


def _speech(arguments: Any) -> list[str]:
    if not isinstance(arguments, dict):
        return []
    said = (arguments.get(key) for key in ("result", "response", "question", "summary"))
    return [text.strip() for text in said if isinstance(text, str) and text.strip()]


def describe(call: Call) -> None:
    """The files and the command that a call's arguments name."""
    given = call.arguments
    if not isinstance(given, dict):
        return
    paths = list(paths_in(given))
    for key in ("files", "paths", "batchFiles", "batchDiffs"):  # as objects
        listed = given.get(key)
        if isinstance(listed, list):
            paths += [path for entry in listed for path in paths_in(entry)]
    if call.name == "apply_patch":
        texts = (given.get("input"), given.get("patch"))
        paths += (path for text in texts if isinstance(text, str) for path in patch_paths(text))
    call.paths = tuple(dict.fromkeys(paths))
    command = given.get("command")
    commands = given.get("commands")
    if isinstance(command, str):
        call.command = command
    elif isinstance(commands, list) and len(commands) == 1 and isinstance(commands[0], str):
        call.command = commands[0]


# --- results in texts -------------------------------------------------------------------------------------

_HEADING = re.compile(r"\[(\w[\w.:-]{0,100})(.{0,20000}?)\] Result:\s*", re.DOTALL)
_NEXT_HEADING = re.compile(rf"\n\n(?=\[(?:{_NAMES}|subagents)\b.{{0,2000}}?\] Result:)", re.DOTALL)
_ARGUMENT = re.compile(r" for '(.*)'\Z", re.DOTALL)
_SKIPPED = re.compile(r"(?:Skipping tool|Tool) \[(\w[\w.:-]{0,100})(.{0,20000}?)\] (?:due to|was )", re.DOTALL)


@dataclass(slots=True)
class Found:
    """A result in a text, and what its heading says of the call."""

    name: str
    argument: str | None
    text: str


def results_in(text: str, most: int) -> list[Found]:
    """The results, `most` of them, that stand in one text, which begins with the first one's heading."""
    found: list[Found] = []
    parts = _NEXT_HEADING.split(text, maxsplit=max(0, most - 1)) if most > 1 else [text]
    for part in parts:
        heading = _HEADING.match(part)
        if heading is None:
            skipped = _SKIPPED.match(part)
            if skipped is not None:
                found.append(Found(skipped[1], _argument(skipped[2]), part))
            continue
        found.append(Found(heading[1], _argument(heading[2]), part[heading.end() :]))
    return found


def _argument(text: str) -> str | None:
    quoted = _ARGUMENT.match(text)
    return quoted[1] if quoted is not None else None


def _work(name: str) -> str:
    """What kind of work a tool does; to overwrite a file is an edit in one place and a write in the other."""
    kind = category(name)
    return "edit" if kind == "write" else name if kind == "other" else kind


def settle(calls: list[Call], found: Found, source: Source) -> Call | None:
    """Give a result to its call: the first without one that does such work. None when there is no such call."""
    work = _work(found.name)
    for call in calls:
        if not call.matched and _work(call.name) == work:
            call.matched = True
            call.name = found.name if found.name != "subagents" else call.name
            if call.verdict is None:
                call.verdict = judge(call.name, call.command, found.text)
            call.result = call.result or text_body(found.text, source)
            return call
    return None


def cancel(calls: list[Call]) -> None:
    """The task was resumed: calls that have no result by then never get one."""
    for call in calls:
        if call.verdict is None:
            call.verdict = Judgement(CallStatus.CANCELLED, "the task was interrupted before a result")


def unlogged(found: Found, at: datetime | None, source: Source) -> Call:
    """A call of which only the result was logged, as far as the result's heading tells it."""
    call = Call(found.name, None, at, matched=True)
    kind = category(found.name)
    if found.argument and kind == "shell":
        call.command = found.argument
        call.arguments = {"command": found.argument}
    elif found.argument and kind in ("read", "edit", "write"):
        call.paths = (found.argument,)
    call.verdict = judge(call.name, call.command, found.text)
    call.result = text_body(found.text, source)
    return call


# --- the history ------------------------------------------------------------------------------------------

_TYPED = re.compile(r"<(task|feedback|user_message|answer)>")
_MODEL = re.compile(r"<model>([^<\n]{1,200})</model>")
_CWD = re.compile(r"# Current (?:Working|Workspace) Directory \(([^\n]{1,1000}?)\) Files")
RESUMED = "[TASK RESUMPTION]"
_NO_TOOL = "[ERROR] You did not use a tool in your previous response!"
_STOPPED = "[Response interrupted by user]"
_BROKE_OFF = "[Response interrupted by API Error]"
_XML_THOUGHT = re.compile(r"<(thinking)>")
# How a call looks that a model wrote in another program's form.
_FENCED_CALL = re.compile(r"```tool_(?:code|call|use)\n(.*?)\n?```", re.DOTALL)
_TAGGED_CALL = re.compile(r"<(tool_call)>")


def cwd_in(text: str) -> str | None:
    found = _CWD.search(text)
    return found[1] if found is not None else None


class History:
    """Reads the messages that were sent to the model and came from it."""

    def __init__(self, source: Source, losses: Losses) -> None:
        self.source = source
        self.losses = losses
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.calls: dict[str, Call] = {}
        self.spoken: set[str] = set()
        """Ids of calls with which the model only spoke: they are no calls here, and have a result."""
        self.answer: Draft | None = None
        self.model: str | None = None
        self.cwd: str | None = None
        self.times: list[datetime] = []
        self.index = -1
        self.typed_by: Author = "human"

    @property
    def answers(self) -> list[Draft]:
        return [draft for draft in self.drafts if draft.role == "assistant" and draft.author == "agent"]

    def read(self, record: Record) -> None:
        for item in items(record, self.losses):
            for entry in _ENTRIES.decode(item, self.losses):
                self.index += 1
                self.entry(entry, item)

    def entry(self, entry: Entry, record: Record) -> None:
        at = parse_time(entry.ts, self.losses, record.offset)
        if at is not None:
            self.times.append(at)
        content = entry.content
        blocks = [Block(type="text", text=content)] if isinstance(content, str) else content or []
        if entry.role == "assistant":
            self.say(entry, blocks, at, record)
        elif entry.role == "user":
            self.send(entry, blocks, at, record)
        elif entry.role == "system":
            self.drafts.append(Draft("system", "harness", at, [_text_of(blocks)]))
        elif entry.role == "error":  # of the command line agent
            self.notice("api_error", at, _text_of(blocks))
        elif entry.type != "reasoning":  # an encrypted item of OpenAI's, beside the messages
            self.losses.add("unknown_type", record.offset)

    # from the model

    def say(self, entry: Entry, blocks: list[Block], at: datetime | None, record: Record) -> None:
        draft = Draft("assistant", "agent", at, ts=entry.ts, index=self.index)
        info = entry.model_info or ModelInfo()
        draft.model = info.model_id or info.id or self.model
        draft.usage = _usage(entry.metrics, entry.id)
        for block in blocks:
            if block.type == "tool_use" and block.name in SPOKEN and block.id:
                self.spoken.add(block.id)
            call = answer_block(block, draft, record, self.source, self.losses)
            if call is not None and call.call_id:
                self.calls.setdefault(call.call_id, call)
        draft.texts = [text for text in (self.prose(text, draft) for text in draft.texts) if text]
        self.drafts.append(draft)
        self.answer = draft
        last = draft.texts[-1].rstrip() if draft.texts else ""
        if last.endswith((_STOPPED, _BROKE_OFF)):
            is_stop = last.endswith(_STOPPED)
            draft.texts[-1] = last.removesuffix(_STOPPED).removesuffix(_BROKE_OFF).rstrip()
            self.notice("interrupt" if is_stop else "api_error", at)

    def prose(self, text: str, draft: Draft) -> str:
        """The text without the calls and thoughts in it, which go to the draft."""
        if "<" not in text:
            return text.strip()
        thoughts = list(tagged(text, _XML_THOUGHT))
        draft.thoughts += (thought.text.strip("\n") for thought in thoughts)
        text = without(text, thoughts)
        found = list(tagged(text, _XML_CALL))
        for name, body, _, _ in found:
            arguments = _parameters(body)
            if name in SPOKEN or name in _SPOKEN_CALLS:
                draft.texts += _speech(arguments)
            if name not in SPOKEN:
                call = Call(name, None, draft.at, arguments, input=text_body(body, self.source))
                describe(call)
                draft.calls.append(call)
        return without(text, found).strip()

    def notice(self, kind: Notice, at: datetime | None, text: str = "") -> None:
        is_error = kind == "api_error"
        self.events.append(Event("api_error" if is_error else "interrupt", at, len(self.drafts) - 1))
        role: Role = "assistant" if is_error else "context"
        self.drafts.append(Draft(role, "harness", at, [text] if text else [], notice=kind))

    # to the model

    def send(self, entry: Entry, blocks: list[Block], at: datetime | None, record: Record) -> None:
        open_calls = self.answer.calls if self.answer is not None else []
        images = sum(block.type == "image" for block in blocks)
        metadata = entry.metadata or _Metadata()
        if entry.is_summary or entry.compaction_summary or metadata.kind == "compaction_summary":
            self.summary(_text_of(blocks), at)
            return
        if metadata.display_role in ("system", "status"):
            self.drafts.append(Draft("context", "harness", at, [_text_of(blocks)]))
            return
        heading: Found | None = None
        for block in blocks:
            if block.type == "tool_result":
                self.result(block, record)
                for text in _typed_beside(block):
                    self.prompt(text, at)
                continue
            if block.type != "text" or not block.text:
                if block.type is None:
                    self.losses.add("no_type", record.offset)
                continue
            text = block.text
            if heading is not None and not heading.text.strip():
                heading.text = text  # the heading in a block of its own, before its result
                self.give(heading, open_calls, at)
                heading = None
            elif text.startswith(("[", "Skipping tool", "Tool [")) and self.told(text, open_calls, at):
                pass
            elif (found := next(iter(results_in(text, 1)), None)) is not None:
                heading = found if not found.text.strip() else None
                if heading is None:
                    self.give(found, open_calls, at)
            self.about(text)
            for typed in self.typed_in(text):
                self.prompt(typed, at, has_image=images > 0)
                images = 0
        if heading is not None:
            self.give(heading, open_calls, at)

    def told(self, text: str, open_calls: list[Call], at: datetime | None) -> bool:
        """Whether a text is a note of the extension's, which is taken."""
        if text.startswith(RESUMED):
            cancel(open_calls)
            return True
        if text.startswith(_NO_TOOL):
            self.drafts.append(Draft("context", "harness", at, [text]))
            if self.answer is not None and not self.answer.calls:
                self.answer.calls += _foreign_calls("\n".join(self.answer.texts), self.answer.at, self.source)
            return True
        return False

    def give(self, found: Found, open_calls: list[Call], at: datetime | None) -> None:
        if found.name in SPOKEN or found.name in COMPACTING:
            return
        if settle(open_calls, found, self.source) is None:
            self.losses.add("orphan_result")

    def result(self, block: Block, record: Record) -> None:
        call = self.calls.get(block.tool_use_id or "")
        if call is None:
            if block.tool_use_id not in self.spoken:
                self.losses.add("orphan_result", record.offset)
            return
        if call.matched:
            return
        call.matched = True
        call.verdict = call.verdict or self.judged(call, block)
        call.result = call.result or raw_body(block.content, record, self.source)

    def judged(self, call: Call, block: Block) -> Judgement:
        text = json_head(bytes(block.content), 8192) if is_given(block.content) else ""
        found = next(iter(results_in(text, 1)), None)
        return judge(call.name, call.command, found.text if found else text, block.is_error)

    def about(self, text: str) -> None:
        if "<environment_details>" in text:
            found = _MODEL.search(text)
            self.model = found[1] if found is not None else self.model
            self.cwd = self.cwd or cwd_in(text)

    def typed_in(self, text: str) -> list[str]:
        if starts_with_any(text, SUMMARIES):
            self.summary(text, None)
            return []
        return typed_in(text)

    def summary(self, text: str, at: datetime | None) -> None:
        self.events.append(Event("compaction", at, len(self.drafts) - 1 if self.drafts else None))
        self.drafts.append(Draft("context", "harness", at, [text], notice="compaction_summary"))

    def prompt(self, text: str, at: datetime | None, has_image: bool = False) -> None:
        if text or has_image:
            self.drafts.append(Draft("user", self.typed_by, at, [text], has_image=has_image))


def _text_of(blocks: list[Block]) -> str:
    return "\n".join(block.text for block in blocks if block.text)


def _typed_beside(block: Block) -> list[str]:
    """What a person wrote when answering a call, which stands in the call's result."""
    content = bytes(block.content) if is_given(block.content) else b""
    if b'\\"feedback\\"' not in content and b"feedback>" not in content and b"answer>" not in content:
        return []
    text = json_head(content, len(content))
    if text.startswith('{"status":'):
        try:
            return [_SAID.decode(text).feedback or ""]
        except BAD_CONTENT:
            return []
    return typed_in(text)


def typed_in(text: str) -> list[str]:
    """What a person typed, within the tags that the extension puts around it."""
    # Tags in a file that was read are none of a person's.
    start = 0
    if text.startswith("["):
        start = text.rfind("<feedback>")
        start = max(text.find("<user_message>"), text.find("<answer>")) if start < 0 else start
    return [found.text.strip() for found in tagged(text, _TYPED, start)] if start >= 0 else []


def _foreign_calls(text: str, at: datetime | None, source: Source) -> list[Call]:
    """Calls in a form that the extension does not know: it answered that no tool was used."""
    calls = []
    bodies = [found[1] for found in _FENCED_CALL.finditer(text)]
    for body in bodies + [found.text for found in tagged(text, _TAGGED_CALL)]:
        try:
            given = msgspec.json.decode(body)
        except BAD_CONTENT:
            given = body
        names = (given.get(key) for key in ("action", "name", "tool")) if isinstance(given, dict) else ()
        name = next((value for value in names if isinstance(value, str) and value), "unknown")
        verdict = Judgement(CallStatus.INVALID, "text: You did not use a tool")
        calls.append(Call(name, None, at, given, input=text_body(body, source), verdict=verdict, matched=True))
    return calls


def _usage(metrics: _Metrics | None, key: str | None) -> Usage | None:
    if metrics is None:
        return None
    if metrics.tokens is not None:
        # Of the extension: cache reads and writes are one figure, counted as reads.
        tokens = metrics.tokens
        usage = Usage(
            token_count(tokens.prompt), token_count(tokens.cached), output_tokens=token_count(tokens.completion)
        )
    else:
        # Of the command line agent, whose own price of a request takes the cached tokens off the input.
        read, written = token_count(metrics.cache_read_tokens), token_count(metrics.cache_write_tokens)
        fresh = max(0, token_count(metrics.input_tokens) - read - written)
        usage = Usage(fresh, read, written, output_tokens=token_count(metrics.output_tokens), key=key)
    return None if usage.is_empty else usage
