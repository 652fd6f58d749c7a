"""Qwen Code: one JSONL file a session under `~/.qwen/projects`, a record a line.

It began as a fork of Gemini CLI, and its messages, tools and results are still alike (see genai.py); the log is its
own. What is easy to get wrong, and is decided here:
- A response may be written in several records: with the same uuid, or (in a sub-agent's log) a record a call.
- Half of the records of type `user` were typed by nobody; their subtype tells.
- A branched session begins with a copy of its parent's records, each marked `forkedFrom`.
- Telemetry repeats the tokens that the response's own record has.

docs/formats/qwen-code.md tells how each fact is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import Author, Event, Notice, Relation, Session, Usage
from demerit.parsers.genai import (
    Answer,
    Draft,
    FunctionResponse,
    OpenCall,
    Part,
    answer_in,
    frozen,
    judge,
    prompt_in,
    texts_of,
)
from demerit.parsers.records import (
    NOTHING,
    Home,
    LineDecoder,
    Losses,
    Parser,
    Record,
    Sample,
    Source,
    is_given,
    parse_time,
    salvage,
)

# --- the format -------------------------------------------------------------------------------------------


class _Message(msgspec.Struct):
    parts: list[Part] | None = None


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None


class _Result(msgspec.Struct, rename="camel"):
    """What the program keeps of a result beside what the model gets."""

    call_id: str | None = None
    status: str | None = None
    error_type: str | None = None
    result_display: msgspec.Raw = NOTHING


class _Compression(msgspec.Struct, rename="camel"):
    original_token_count: int | None = None
    new_token_count: int | None = None
    compression_status: int | str | None = None


class _Error(msgspec.Struct):
    message: str | None = None


class _UiEvent(msgspec.Struct):
    name: str | None = msgspec.field(name="event.name", default=None)
    error_message: str | None = None


class _Payload(msgspec.Struct, rename="camel"):
    """What a record carries beside the message, by its subtype."""

    display_text: str | None = None
    custom_title: str | None = None
    parent_session_id: str | None = None
    raw_command: str | None = None
    info: _Compression | None = None
    ui_event: _UiEvent | None = None
    state: str | None = None
    error: _Error | None = None


class _Fork(msgspec.Struct, rename="camel"):
    session_id: str | None = None


class _Line(msgspec.Struct, rename="camel"):
    uuid: str | None = None
    session_id: str | None = None
    timestamp: str | int | float | None = None
    type: str | None = None
    subtype: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    model: str | None = None
    message: _Message | None = None
    usage_metadata: _Usage | None = None
    tool_call_result: _Result | None = None
    system_payload: _Payload | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    external_input_kind: str | None = None
    forked_from: _Fork | None = None


_LINES = LineDecoder(_Line)

# Subtypes of `user` records that no person and no agent wrote.
_INJECTED = frozenset(("notification", "cron", "goal_runtime", "agent_launch_prompt", "slash_command"))
# System records that carry nothing a report needs. Any other subtype that is not handled is new to us.
_IGNORED = frozenset(
    (
        "at_command attribution_snapshot background_task_completed session_source session_execution_engine "
        "omni_recall session_model session_approval_mode session_notes agent_bootstrap agent_launch_prompt "
        "agent_retry agent_session_ready file_history_snapshot user_text_elements session_artifact_event "
        "session_artifact_snapshot session_sources_snapshot branch_checkpoint goal_state goal_turn_end "
        "managed_session_header_v1 managed_session_event_v1 managed_session_commit_v1"
    ).split()
)
_QUIT = re.compile(r"\s*/(?:quit|exit)\b")
_COMPRESSED = (None, 1, "1", "completed", "compressed")


# --- reading ----------------------------------------------------------------------------------------------


class _Reader:
    """Reads the records of one file into one session."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.seen: set[str] = set()  # uuids: a resumed session may repeat records
        self.responses: dict[str, Draft] = {}  # by uuid
        self.calls: dict[str, OpenCall] = {}
        self.response: Draft | None = None  # to which the next record may belong
        self.session_ids: dict[str, None] = {}
        self.agent_id: str | None = None
        self.own_records = 0
        self.side_records = 0
        self.forked_from: str | None = None
        self.parent: str | None = None
        self.title: str | None = None
        self.cwd: str | None = None
        self.branch: str | None = None
        self.version: str | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.terminal = False

    def read(self, line: _Line, record: Record) -> None:
        if line.session_id is not None:
            self.session_ids.setdefault(line.session_id)
        self.cwd = self.cwd or line.cwd
        self.branch = line.git_branch or self.branch
        self.version = line.version or self.version
        if line.forked_from is not None:
            # What the session was branched from did the same, and its own log tells it.
            self.forked_from = line.forked_from.session_id or self.forked_from
            self.title = self.title or (line.system_payload.custom_title if line.system_payload else None)
            return
        at = parse_time(line.timestamp, self.losses, record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        self.agent_id = line.agent_id or self.agent_id
        if line.is_sidechain:
            self.side_records += 1
        else:
            self.own_records += 1
        is_repeated = line.uuid is not None and line.uuid in self.seen
        if line.uuid is not None:
            self.seen.add(line.uuid)
        if line.type == "assistant":
            self.assistant(line, at, record, is_repeated)
        elif line.type == "tool_result":
            self.results(line, record)
        elif line.type not in ("user", "system"):
            self.losses.add("unknown_type", record.offset)
        elif not is_repeated:
            handler = self.user if line.type == "user" else self.system
            handler(line, at, record)

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def add(self, draft: Draft, line: _Line) -> Draft:
        draft.sidechain = bool(line.is_sidechain)
        self.drafts.append(draft)
        return draft

    # what was said

    def user(self, line: _Line, at: datetime | None, record: Record) -> None:
        parts = line.message.parts or [] if line.message is not None else []
        if line.message is None:
            self.losses.add("no_message", record.offset)
        responses = [part.function_response for part in parts if part.function_response is not None]
        for response in responses:
            self.result(response, _Result(), record)
        self.response = None
        if responses:
            return
        texts = texts_of(parts)
        displayed = (line.system_payload.display_text if line.system_payload else None) or ""
        has_image = any(part.is_file for part in parts)
        if not (any(texts) or displayed or has_image):
            if line.message is not None:
                self.losses.add("empty_message", record.offset)
            return
        found = prompt_in(texts)
        if line.subtype in _INJECTED or line.external_input_kind == "notification" or not (found.is_typed or displayed):
            draft = self.add(Draft("context", "harness", at, found.text or displayed), line)
            draft.notice = found.notice
            return
        author: Author = (
            "agent" if line.is_sidechain or (self.parent is not None and not self.seen_prompt()) else "human"
        )
        draft = self.add(Draft("user", author, at, displayed or found.text), line)
        draft.has_image = has_image
        self.terminal = False

    def seen_prompt(self) -> bool:
        return any(draft.role == "user" for draft in self.drafts)

    def notice(self, line: _Line, at: datetime | None, kind: Notice, text: str) -> None:
        is_interrupt = kind == "interrupt"
        draft = Draft("context" if is_interrupt else "assistant", "harness", at, text)
        draft.notice = kind
        self.event("interrupt" if is_interrupt else "api_error", at, text[:200])
        self.add(draft, line)
        self.response = None

    def assistant(self, line: _Line, at: datetime | None, record: Record, is_repeated: bool) -> None:
        parts = line.message.parts or [] if line.message is not None else []
        known = self.responses.get(line.uuid) if line.uuid is not None else None
        if known is None and self.response is not None and line.usage_metadata is None:
            known = self.response  # of several records the first has the tokens
        draft = known or self.add(Draft("assistant", "agent", at), line)
        if line.uuid is not None:
            self.responses[line.uuid] = draft
        self.response = draft
        self.terminal = False
        draft.model = line.model or draft.model
        draft.usage = _usage(line, self.source) or draft.usage
        for part in parts:
            if part.text and part.thought:
                draft.thoughts += [part.text] if not (is_repeated and part.text in draft.thoughts) else []
            elif part.text and not (is_repeated and part.text in draft.text):
                draft.text += f"\n{part.text}" if draft.text else part.text
            if part.function_call is not None:
                self.call(part, draft, record)

    # calls

    def call(self, part: Part, draft: Draft, record: Record) -> None:
        made = part.function_call
        if made is None or (made.id is not None and made.id in self.calls):
            return
        if not made.name:
            self.losses.add("call_without_name", record.offset)
        call = OpenCall(made.name or "", made.id, draft.at)
        call.takes(made.args, record, self.source, self.losses)
        draft.calls.append(call)
        self.calls[made.id if made.id is not None else f"#{len(self.calls)}"] = call

    def results(self, line: _Line, record: Record) -> None:
        """A `tool_result`: what the model got, and what the program notes about it."""
        told = line.tool_call_result or _Result()
        parts = line.message.parts or [] if line.message is not None else []
        responses = [part.function_response for part in parts if part.function_response is not None]
        for response in responses or [FunctionResponse(told.call_id)]:
            self.result(response, told, record)
        self.response = None

    def result(self, response: FunctionResponse, told: _Result, record: Record) -> None:
        call_id = response.id if response.id is not None else told.call_id
        if call_id is not None:
            call = self.calls.get(call_id)
        else:
            waiting = (call for call in self.calls.values() if call.verdict is None and call.name == response.name)
            call = next(waiting, None)
        if call is None:
            self.losses.add("orphan_result", record.offset)
            return
        if is_given(response.response):
            answer = answer_in(response.response, record, self.losses)
        else:
            answer = Answer(told.result_display, is_bare=True)
        verdict = judge(call.category, call.command, told.status, answer, told.error_type)
        call.ends(verdict, answer, record, self.source)

    # the rest

    def system(self, line: _Line, at: datetime | None, record: Record) -> None:
        payload = line.system_payload or _Payload()
        if line.subtype == "chat_compression":
            info = payload.info or _Compression()
            if info.compression_status in _COMPRESSED:
                tokens = (info.original_token_count, info.new_token_count)
                self.event("compaction", at, "" if None in tokens else "{} to {} tokens".format(*tokens))
        elif line.subtype == "custom_title":
            self.title = (payload.custom_title or "").strip() or self.title
        elif line.subtype == "rewind":
            # What was rewound was done, and cost what it cost: it stays.
            self.event("rewind", at, "")
            self.response = None
        elif line.subtype == "parent_session":
            self.parent = payload.parent_session_id or self.parent
        elif line.subtype == "ui_telemetry":
            if payload.ui_event is not None and (payload.ui_event.name or "").endswith(".api_error"):
                self.event("api_error", at, (payload.ui_event.error_message or "")[:200])
        elif line.subtype == "turn_result":
            if payload.state == "cancelled":
                self.notice(line, at, "interrupt", "")
            elif payload.state == "error":
                self.notice(line, at, "api_error", (payload.error.message if payload.error else None) or "error")
        elif line.subtype == "slash_command":
            self.terminal = self.terminal or _QUIT.match(payload.raw_command or "") is not None
        elif line.subtype not in _IGNORED:
            self.losses.add("unknown_type", record.offset)

    def session(self) -> Session:
        # The file is named after its session, so other names in it are strays.
        names = list(self.session_ids) or [self.source.name]
        own = self.source.name if self.source.name in names else names[-1]
        is_subagent = self.side_records > 0 and self.own_records == 0
        parent, relation = self.parent, "subagent" if self.parent is not None else None
        if is_subagent:  # its records name the session that launched it
            parent, relation, own = own, "subagent", self.agent_id or self.source.name
        elif self.forked_from is not None:
            parent, relation = self.forked_from, "fork"
        for draft in self.drafts if is_subagent else ():
            draft.sidechain = False  # to itself it is the main conversation
        kind: Relation | None = relation  # type: ignore[assignment]
        return Session(
            agent="qwen-code",
            source_id=own,
            messages=frozen(self.drafts, self.source),
            parent_source_id=parent,
            relation=kind,
            title=self.title,
            cwd=self.cwd,
            branch=self.branch,
            agent_version=self.version,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.terminal,
            events=tuple(self.events),
            losses=self.losses.result(),
        )


def _usage(line: _Line, source: Source) -> Usage | None:
    counts = line.usage_metadata
    if counts is None:
        return None
    sent, made = max(0, counts.prompt_token_count or 0), max(0, counts.candidates_token_count or 0)
    cached = max(0, counts.cached_content_token_count or 0)
    thoughts = None if counts.thoughts_token_count is None else max(0, counts.thoughts_token_count)
    if thoughts:
        # Servers differ in whether the output includes reasoning: the total tells, or that it would not fit in.
        beside = (counts.total_token_count or 0) - sent - made
        made += thoughts if beside >= thoughts or made < thoughts else 0
    found = Usage(
        input_tokens=max(0, sent - cached) + max(0, counts.tool_use_prompt_token_count or 0),
        cache_read_tokens=cached,
        output_tokens=made,
        reasoning_tokens=thoughts,
        key=f"{line.session_id or source.name}:{line.uuid}" if line.uuid is not None else None,
    )
    return None if found.is_empty else found


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a file of Qwen Code's."""
    reader = _Reader(source)
    is_empty = True
    for record in records:
        is_empty = False
        for line in _LINES.decode(record, reader.losses):
            reader.read(line, record)
    return [] if is_empty else [reader.session()]


# --- whose log ------------------------------------------------------------------------------------------------


def sniff(sample: Sample) -> bool:
    # Two records on one line are a fault of its own that Qwen Code knows and mends: such a line is no JSON.
    values = sample.values or salvage(Record(sample.text.encode("utf-8", "replace")), Losses())
    return any(map(_is_record, values))


def _is_record(value: Any) -> bool:
    """Whether it is a record that can only be Qwen Code's: Claude Code's have `content` in place of `parts`."""
    if not isinstance(value, dict) or "sessionId" not in value or "uuid" not in value:
        return False
    message = value.get("message")
    if value.get("type") in ("user", "assistant", "tool_result") and isinstance(message, dict):
        return isinstance(message.get("parts"), list)
    return value.get("type") == "system" and "subtype" in value and "systemPayload" in value


PARSER = Parser(
    agent="qwen-code",
    title="Qwen Code",
    homes=(Home(".qwen/projects", "**/*.jsonl", "QWEN_HOME"),),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
)
