"""Cursor: agent transcripts below `~/.cursor/projects`, one JSON object a message, and the older plain text.

A transcript says who said what and which tools were called with what. It has no ids, times, tokens or results:
every call is `unknown`, and the report says that failures were not measured. docs/formats/cursor.md tells more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, Session, ToolCall
from demerit.parsers.evidence import category_of, is_harness_text, is_poll, patch_paths, paths_in, server_in
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
    json_head,
    kept_text,
    raw_body,
    text_body,
    utf8_length,
)

# --- the lines ----------------------------------------------------------------------------------------------


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING


class _Message(msgspec.Struct):
    content: str | list[_Block] | None = None


class _Line(msgspec.Struct):
    role: str | None = None
    message: _Message | None = None
    model: str | None = None
    # of the line that ends a turn
    type: str | None = None
    status: str | None = None
    error: msgspec.Raw = NOTHING


_LINES = LineDecoder(_Line)

_RESULTS = frozenset(("tool_result", "tool-result"))
# What the editor puts around, before or after a prompt.
_WRAPPERS = frozenset(
    (
        "external_links attached_files attached_images timestamp system_reminder environment_context user_info "
        "open_and_recently_viewed_files git_status rules always_applied_workspace_rules agent_skills "
        "agent_transcripts mcp_file_system cursor_commands project_layout manually_attached_skills "
        "additional_data current_file linter_errors"
    ).split()
)
_OPENING_TAG = re.compile(r"\s*<([\w-]+)[^>\n]{0,200}>")
# What stands where a text was taken out.
_REDACTED = "[REDACTED]"
_ABORTED = "User aborted"

_CATEGORIES: dict[str, Category] = {
    "StrReplace": "edit",
    "EditNotebook": "edit",
    "Delete": "edit",
    "SemanticSearch": "search",
    "ReadLints": "search",
    "CallMcpTool": "mcp",
    "FetchMcpResource": "mcp",
    "CreatePlan": "plan",
    "SwitchMode": "plan",
    "AskQuestion": "question",
    "AwaitShell": "shell",
    "Subagent": "agent",
}
_POLLS = frozenset(("AwaitShell",))


class _Reader:
    """Reads the messages of one transcript, in their order."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.record = Record(b"")
        self.messages: list[Message] = []
        self.events: list[Event] = []

    # JSON lines

    def read_lines(self, records: Iterable[Record]) -> None:
        for record in records:
            self.record = record
            for line in _LINES.decode(record, self.losses):
                if line.role == "user":
                    self.user(line)
                elif line.role == "assistant":
                    self.assistant(line)
                elif line.type == "turn_ended":
                    self.turn_ended(line)
                else:
                    self.losses.add("unknown_type" if line.role or line.type else "no_type", record.offset)

    def blocks(self, line: _Line) -> list[_Block]:
        content = line.message.content if line.message else None
        if content is None:
            self.losses.add("no_message", self.record.offset)
        return [_Block("text", content)] if isinstance(content, str) else content or []

    def user(self, line: _Line) -> None:
        texts: list[str] = []
        has_image = False
        for block in self.blocks(line):
            if block.type in _RESULTS:
                self.losses.add("orphan_result", self.record.offset)  # nothing says of which call
            elif block.type == "text":
                texts += [block.text] if block.text else []
            elif block.type == "image":
                has_image = True
            else:
                self.losses.add("unknown_type", self.record.offset)
        if texts or has_image:
            self.prompt("\n".join(texts), has_image)

    def assistant(self, line: _Line) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        for block in self.blocks(line):
            if block.type == "text":
                texts += [block.text] if block.text else []
            elif block.type == "thinking":
                thoughts += filter(None, (block.thinking or block.text,))
            elif block.type == "tool_use" or block.type == "tool_call":
                value = None
                try:
                    value = msgspec.json.decode(block.input)
                except BAD_CONTENT:
                    self.losses.add("malformed_input", self.record.offset)
                body = raw_body(block.input, self.record, self.source)
                calls.append(self.call(block.name, len(calls), value, value, body))
            elif block.type not in _RESULTS:
                # Unknown, but where it has a text, that was shown.
                self.losses.add("unknown_type", self.record.offset)
                texts += [block.text] if block.text else []
        self.answer(texts, thoughts, calls, line.model)

    def turn_ended(self, line: _Line) -> None:
        error = json_head(bytes(line.error), 500) if is_given(line.error) else ""
        if line.status == "aborted" or error.startswith(_ABORTED):
            self.notice("context", "interrupt", error)
        elif line.status == "error":
            self.notice("assistant", "api_error", error if error != "{}" else "")
        elif line.status != "success" and line.status != "completed":
            self.losses.add("unknown_type", self.record.offset)

    # plain text

    def read_text(self, records: Iterable[Record]) -> None:
        role = ""
        block: list[str] = []
        for record in records:
            line = record.data.decode("utf-8", "replace").rstrip()
            if line == "user:" or line == "assistant:":  # what a tool printed is indented
                self.told(role, block)
                role, block = line, []
                self.record = record
            elif role:
                block.append(line)
            else:
                self.losses.add("unknown_type", record.offset)
        self.told(role, block)

    def told(self, role: str, lines: list[str]) -> None:
        """One block of the plain text, without its marker."""
        if role == "user:":
            self.prompt("\n".join(lines).strip(), False)
        if role != "assistant:":
            return
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        for head, body in _sections(lines):
            text = "\n".join(body)
            if head.startswith("[Thinking]"):
                thoughts.append("\n".join(filter(None, (head.removeprefix("[Thinking]").strip(), text.strip()))))
            elif head.startswith("[Tool call] "):
                value, named = _input(text)
                kept = text_body(text, self.source) if text else None
                calls.append(self.call(head.removeprefix("[Tool call] ").strip(), len(calls), value, named, kept))
            elif not head:
                texts.append(text)
        self.answer(texts, list(filter(None, thoughts)), calls, None)

    # messages

    def prompt(self, text: str, has_image: bool) -> None:
        typed = _typed(text)
        is_context = (not typed and bool(text.strip()) and not has_image) or is_harness_text(typed)
        if is_context:
            self.add("context", "harness", text)
        else:
            self.add("user", "agent" if self.source.parent else "human", typed, has_image=has_image)

    def answer(self, texts: list[str], thoughts: list[str], calls: list[ToolCall], model: str | None) -> None:
        bodies = (text_body(text, self.source) for text in thoughts)
        self.add(
            "assistant",
            "agent",
            "\n".join(text for text in texts if text.strip() != _REDACTED),
            calls=tuple(calls),
            thinking=tuple(body for body in bodies if body is not None),
            thinking_bytes=sum(map(utf8_length, thoughts)),
            thinking_kind="text" if thoughts else None,
            model=model,
        )

    def notice(self, role: Role, notice: Notice, text: str) -> None:
        """That a turn was broken off, which newer versions may log more than once."""
        if self.messages and self.messages[-1].notice == notice:
            return
        last = len(self.messages) - 1 if self.messages else None
        self.events.append(Event("interrupt" if notice == "interrupt" else "api_error", None, last, text[:200]))
        self.add(role, "harness", text, notice=notice)

    def add(self, role: Role, author: Author, text: str, **more: Any) -> None:
        kept = kept_text(text, self.source, whole=role == "user")
        self.messages.append(
            Message(
                ordinal=len(self.messages),
                role=role,
                author=author,
                text=kept.text,
                text_bytes=kept.bytes,
                text_digest=kept.digest,
                **more,
            )
        )

    def call(self, name: str | None, index: int, value: Any, named: Any, body: Body | None) -> ToolCall:
        """A call with its decoded input, and the same by parameter names as far as they are known."""
        if not name:
            self.losses.add("call_without_name", self.record.offset)
        name = name or ""
        paths = paths_in(named)
        if isinstance(named, dict) and isinstance(named.get("target_notebook"), str):
            paths = (*paths, named["target_notebook"])
        texts = named.values() if isinstance(named, dict) else (value,)
        if not paths and category_of(name) == "edit":
            paths = patch_paths("\n".join(text for text in texts if isinstance(text, str)))
        place = [len(self.messages), index]
        poll = name in _POLLS or is_poll(name, value)
        category = _CATEGORIES.get(name) or category_of(name)
        return ToolCall(
            message_ordinal=place[0],
            index=index,
            name=name,
            category=category,
            status=CallStatus.UNKNOWN,
            evidence="Cursor logs no results",
            input=body,
            # A poll has no id to tell it from the one before: its place does.
            input_hash=input_hash([place, value] if poll else value),
            file_paths=paths,
            is_poll=poll,
            mcp_server=server_in(category, named),
        )

    def session(self) -> Session:
        parent = self.source.parent
        return Session(
            agent=PARSER.agent,
            source_id=self.source.name.removesuffix(".txt"),
            messages=tuple(self.messages),
            parent_source_id=parent,
            relation="subagent" if parent else None,
            modified=self.source.modified,
            events=tuple(self.events),
            losses=self.losses.result(),
        )


def _typed(text: str) -> str:
    """What a person typed, without what the editor put around it; empty when that is all there is."""
    _, opened, rest = text.partition("<user_query>")
    if opened:
        inside, closed, _ = rest.rpartition("</user_query>")
        return (inside if closed else rest).strip()
    at = 0
    while (tag := _OPENING_TAG.match(text, at)) is not None and tag[1] in _WRAPPERS:
        closing = f"</{tag[1]}>"
        end = text.find(closing, tag.end())
        if end < 0:
            break
        at = end + len(closing)
    return text[at:].strip() if at else text


_MARKERS = ("[Thinking]", "[Tool call] ", "[Tool result]")


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The sections of an answer in plain text: a marker with the indented lines below it, or prose without one."""
    head = ""
    body: list[str] = []
    for line in lines:
        text = line.strip()
        is_marker = text.startswith(_MARKERS)
        if is_marker or (head and not line[:1].isspace()):
            if head or body:
                yield head, body
            head, body = (text, []) if is_marker else ("", [line])
        else:
            body.append(line)
    if head or body:
        yield head, body


def _input(text: str) -> tuple[Any, Any]:
    """The input of a call in plain text: as a whole, and by the names of its parameters.

    It is JSON, or lines `name=value`, or the bare text of a patch. Values may have more lines, in which a `=` names
    nothing: equal inputs are told by the whole text.
    """
    try:
        value = msgspec.json.decode(text)
    except BAD_CONTENT:
        named: dict[str, str] = {}
        for line in text.splitlines():
            key, is_pair, rest = line.strip().partition("=")
            if is_pair and key.isidentifier():
                named.setdefault(key, rest.strip())
        if "*** Begin Patch" in text:
            named = {"patch": "\n".join(line.strip() for line in text.splitlines())}
        return text or None, named
    return value, value


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a transcript."""
    rest = iter(records)
    first = next(rest, None)
    if first is None:
        return []
    reader = _Reader(source)
    every = chain((first,), rest)
    if first.data.lstrip()[:1] == b"{":
        reader.read_lines(every)
    else:
        reader.read_text(every)
    return [reader.session()]


def sniff(sample: Sample) -> bool:
    # A line of the plain text may be JSON.
    return any(map(_is_line, sample.values)) or _is_text(sample.text)


# What the lines of other agents have beside a role and a message.
_FOREIGN = frozenset("type id uuid sessionId session_id timestamp parentId v cwd".split())


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("type") == "turn_ended":
        return isinstance(value.get("status"), str)
    message = value.get("message")
    is_message = isinstance(message, dict) and "content" in message and "role" not in message
    return is_message and value.get("role") in ("user", "assistant") and not _FOREIGN & value.keys()


def _is_text(text: str) -> bool:
    first, _, rest = text.lstrip("\ufeff \t\r\n").partition("\n")
    if first.strip() not in ("user:", "assistant:"):
        return False
    return rest.lstrip().startswith("<user_query>") or re.search(r"^assistant:\s*$", rest, re.MULTILINE) is not None


PARSER = Parser(
    agent="cursor",
    title="Cursor",
    homes=(
        Home(".cursor/projects", "**/agent-transcripts/**/*.jsonl"),
        Home(".cursor/projects", "**/agent-transcripts/**/*.txt"),
    ),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(
        statuses="no",
        exit_codes="no",
        declined="no",
        usage="no",
        models="partly",
        times="no",
        subagents="partly",
        compaction="no",
        thinking="partly",
    ),
    suffixes=(".jsonl", ".txt"),
)
