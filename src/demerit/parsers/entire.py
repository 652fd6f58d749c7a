"""Entire's transcript format: what `entire` makes of other agents' logs and keeps with each checkpoint.

The conversion leaves out cache tokens, models, thinking and places, and puts each result into its call. How much a
status says depends on the agent that was converted: for Codex it is always `success`, and for Cursor there is
none. docs/formats/entire.md tells more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import Author, Body, CallStatus, Event, Message, Notice, Role, Session, ToolCall
from demerit.parsers import evidence, genai, pi, records
from demerit.parsers.evidence import Judgement
from demerit.parsers.genai import Answer
from demerit.parsers.records import (
    BAD_CONTENT,
    NOTHING,
    Coverage,
    LineDecoder,
    Losses,
    Parser,
    Record,
    Sample,
    Source,
    is_given,
)

# --- the lines ----------------------------------------------------------------------------------------------


class _Result(msgspec.Struct):
    output: msgspec.Raw = NOTHING
    status: str | None = None


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    result: _Result | None = None


class _Line(msgspec.Struct):
    type: str | None = None
    agent: str | None = None
    cli_version: str | None = None
    ts: str | int | float | None = None
    id: str | None = None
    content: str | list[_Block] | None = None


_LINES = LineDecoder(_Line)

# A result that did not follow its call at once is left out, so that a missing one says little before the end.
_UNKEPT = Judgement(CallStatus.UNKNOWN, "no result was kept")
_PENDING = Judgement(CallStatus.PENDING, "no result in the last message")

# How the outputs of two agents tell the exit code, whatever the status says.
_CODEX_EXIT = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines|Warning)\b[^\n]*\n)*"
    r"(?:Process exited with code|[Ee]xit code:?) (-?\d{1,9})\b"
)
_COPILOT_EXIT = re.compile(
    r"<(?:shellId: \S+ completed|command with id: \S+ exited|exited) with exit code (-?\d{1,9})>\s*\Z"
)
_TAIL = 1000
_MOST_CHARS = 1 << 20


@dataclass(slots=True, eq=False)
class _Call:
    name: str
    call_id: str | None
    at: datetime | None
    input: Body | None = None
    input_hash: str | None = None
    paths: tuple[str, ...] = ()
    command: str | None = None
    is_poll: bool = False
    verdict: Judgement | None = None
    result: Body | None = None
    original: _Call | None = None
    """The first call with this id, whose result all copies have."""

    def frozen(self, ordinal: int, index: int, unanswered: Judgement) -> ToolCall:
        told = self.original or self
        status, reason, code = told.verdict or unanswered
        return ToolCall(
            ordinal, index, self.name, evidence.category_of(self.name), status, reason, self.call_id, self.input,
            self.input_hash, self.paths, code, told.result, self.at, self.is_poll,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class _Draft:
    role: Role
    author: Author
    at: datetime | None
    texts: list[str] = field(default_factory=list)
    has_image: bool = False
    notice: Notice | None = None
    calls: list[_Call] = field(default_factory=list)


class _Reader:
    """Reads the lines of one transcript, in their order."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.record = Record(b"")
        self.agent = ""
        """The agent that was converted, in lower case."""
        self.version: str | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.open: dict[str, _Draft] = {}  # responses that may go on, by id
        self.calls: dict[str, _Call] = {}

    def read_all(self, lines: Iterable[Record]) -> None:
        for record in lines:
            self.record = record
            for line in _LINES.decode(record, self.losses):
                self.read(line)

    def read(self, line: _Line) -> None:
        # Some converters write an empty time, and one copies whatever stands there.
        at = records.parse_time(line.ts, self.losses, self.record.offset) if line.ts != "" else None
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        self.agent = (line.agent or self.agent).lower()
        self.version = line.cli_version or self.version
        content = line.content
        blocks = [_Block("text", content)] if isinstance(content, str) else content or []
        if line.type == "user":
            self.user(blocks, at)
        elif line.type == "assistant":
            self.assistant(line.id, blocks, at)
        else:
            self.losses.add("unknown_type" if line.type else "no_type", self.record.offset)

    def user(self, blocks: list[_Block], at: datetime | None) -> None:
        texts = [block.text for block in blocks if block.text]
        text = "\n".join(texts)
        has_image = any(block.type == "image" for block in blocks)
        if not text.strip() and not has_image:
            return  # a command of the program itself, whose tags were taken out
        draft = _Draft("context", "harness", at, [text])
        if evidence.starts_with_any(text, evidence.SUMMARIES):
            draft.notice = "compaction_summary"
            self.note("compaction", at)
        elif evidence.starts_with_any(text, (evidence.INTERRUPT,)):
            draft.notice = "interrupt"
            self.note("interrupt", at)
        elif not evidence.is_harness_text(text):
            typed = evidence.without_wrappers(text)
            if typed or has_image:
                draft = _Draft("user", "human", at, [typed], has_image)
        self.drafts.append(draft)
        if draft.role == "user":
            self.open.clear()

    def note(self, kind: Any, at: datetime | None) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None))

    def assistant(self, name: str | None, blocks: list[_Block], at: datetime | None) -> None:
        draft = self.open.get(name) if name else None
        if draft is None:
            draft = _Draft("assistant", "agent", at)
            self.drafts.append(draft)
            if name:
                self.open[name] = draft
        for block in blocks:
            if block.type == "tool_use":
                draft.calls.append(self.call(block, at))
            elif block.type == "text" or (block.type is None and block.text is not None):
                draft.texts += [block.text] if block.text else []
            elif block.type not in ("thinking", "redacted_thinking", "image"):
                self.losses.add("unknown_type", self.record.offset)

    def call(self, block: _Block, at: datetime | None) -> _Call:
        if not block.name:
            self.losses.add("call_without_name", self.record.offset)
        call = _Call(block.name or "", block.id, at)
        call.input = records.raw_body(block.input, self.record, self.source)
        try:
            value = msgspec.json.decode(block.input)
        except BAD_CONTENT:
            self.losses.add("malformed_input", self.record.offset)
            value = None
        if isinstance(value, dict):
            command = value.get("command", value.get("cmd"))
            if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
                command = command[-1] if command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
            call.command = command if isinstance(command, str) else None
            call.paths = evidence.paths_in(value)
            if not call.paths and isinstance(value.get("input"), str):
                call.paths = evidence.patch_paths(value["input"])
        call.is_poll = evidence.is_poll(call.name, value)
        call.input_hash = records.input_hash(_compared(call, value))
        if block.id:
            original = self.calls.setdefault(block.id, call)
            call.original = original if original is not call else None
        told = call.original or call
        if block.result is not None and told.verdict is None:
            told.verdict = self.judge(told, block.result)
            told.result = records.raw_body(block.result.output, self.record, self.source)
        return call

    def judge(self, call: _Call, result: _Result) -> Judgement:
        if "codex" in self.agent:
            found = _CODEX_EXIT.match(records.json_head(bytes(result.output), _TAIL))
            if found is not None:
                return evidence.by_exit_code(call.command, int(found[1]), "", "header, exit code")
            return Judgement(CallStatus.UNKNOWN, "every Codex result is called a success")
        category = evidence.category_of(call.name)
        if "gemini" in self.agent and result.status in ("success", "error"):
            answer = Answer(result.output) if result.status == "success" else Answer(error=result.output)
            return genai.judge(category, call.command, result.status, answer) or _UNKEPT
        if result.status == "error":
            if "claude" in self.agent:
                judged = evidence.by_claude_error(records.json_head(bytes(result.output), 2048), call.command)
                return judged._replace(evidence=judged.evidence.replace("is_error true", "status error"))
            output = records.json_head(bytes(result.output), _MOST_CHARS)
            if self.agent == "pi":
                return pi.by_error(category, call.command, output, "status error")
            line = output.lstrip()[:80].partition("\n")[0]
            return Judgement(CallStatus.FAILED, f"status error: {line}" if line else "status error")
        if result.status != "success":
            return Judgement(CallStatus.UNKNOWN, f"status {result.status}"[:60])
        if category == "shell" and "opencode" in self.agent:
            return Judgement(CallStatus.UNKNOWN, "status success, which does not tell how the command ended")
        if category == "shell" and "copilot" in self.agent and is_given(result.output):
            output = records.json_head(bytes(result.output), _MOST_CHARS)
            found = _COPILOT_EXIT.search(output, max(0, len(output) - _TAIL))
            if found is not None:
                code = int(found[1])
                return evidence.by_exit_code(call.command, code, output[: found.start()], "last line, exit code")
        return Judgement(CallStatus.OK, "status success")

    def session(self) -> Session:
        spoken = (at for at, draft in enumerate(self.drafts) if draft.role in ("user", "assistant"))
        last = -1 if "cursor" in self.agent else max(spoken, default=-1)
        return Session(
            agent=PARSER.agent,
            source_id=self.source.name,
            messages=tuple(
                self.frozen(draft, ordinal, _PENDING if ordinal == last else _UNKEPT)
                for ordinal, draft in enumerate(self.drafts)
            ),
            agent_version=self.version,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            events=tuple(self.events),
            losses=self.losses.result(),
        )

    def frozen(self, draft: _Draft, ordinal: int, unanswered: Judgement) -> Message:
        kept = records.kept_text("\n".join(draft.texts), self.source, whole=draft.role == "user")
        return Message(
            ordinal=ordinal,
            role=draft.role,
            author=draft.author,
            text=kept.text,
            text_bytes=kept.bytes,
            text_digest=kept.digest,
            has_image=draft.has_image,
            calls=tuple(call.frozen(ordinal, index, unanswered) for index, call in enumerate(draft.calls)),
            at=draft.at,
            notice=draft.notice,
        )


def _compared(call: _Call, value: Any) -> Any:
    """The part of an input that makes two calls the same call: not what a command is called for the reader."""
    if call.is_poll:
        return [call.call_id, value]
    if call.command is not None and isinstance(value, dict):
        return {name: inner for name, inner in value.items() if name != "description"}
    return value


def parse(lines: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a transcript."""
    reader = _Reader(source)
    reader.read_all(lines)
    return [reader.session()] if reader.record.data else []


def sniff(sample: Sample) -> bool:
    return any(
        isinstance(value, dict)
        and value.get("v") == 1
        and value.get("type") in ("user", "assistant")
        and isinstance(value.get("agent"), str)
        and isinstance(value.get("cli_version"), str)
        and "content" in value
        for value in sample.values
    )


PARSER = Parser(
    agent="entire",
    title="Entire transcript",
    homes=(),  # they lie in the branches of a repository
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(
        statuses="partly",
        exit_codes="partly",
        declined="partly",
        usage="no",
        models="no",
        times="partly",
        subagents="no",
        compaction="partly",
        thinking="no",
    ),
)
