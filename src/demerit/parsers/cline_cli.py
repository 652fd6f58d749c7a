"""Cline's command line agent, and the editors that run on the same core: one folder for each session.

`<id>.messages.json` is the conversation, and the file by which a session is recognised; sub-agents have a file of
their own beside it. `<id>.json` says where and how the session ran, `<id>.compaction.json` what was last compacted.
Messages are those of `cline_history`; results are JSON, in which each operation says whether it worked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import CallStatus, Event, Relation, Session
from demerit.parsers.cline_history import Block, Call, Entry, History, by_parent, category, finished, tagged, without
from demerit.parsers.evidence import Judgement, by_exit_code, without_wrappers
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
    json_head,
    parse_time,
)

# --- the format -------------------------------------------------------------------------------------------


class _Messages(msgspec.Struct):
    agent: str | None = None
    session_id: str | None = msgspec.field(name="sessionId", default=None)
    updated_at: str | None = None
    messages: msgspec.Raw = NOTHING


class _Fork(msgspec.Struct, rename="camel"):
    forked_from_session_id: str | None = None
    forked_at: str | None = None


class _Import(msgspec.Struct, rename="camel"):
    source_session_id: str | None = None


class _Origin(msgspec.Struct):
    mode: str | None = None
    version: str | None = None
    trigger: str | None = None


class _About(msgspec.Struct, rename="camel"):
    title: str | None = None
    fork: _Fork | None = None
    imported_from: _Import | None = None
    session_history_origin: _Origin | None = None


class _Manifest(msgspec.Struct):
    session_id: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    status: str | None = None
    interactive: bool | None = None
    model: str | None = None
    cwd: str | None = None
    prompt: str | None = None
    metadata: _About | None = None


class _Compaction(msgspec.Struct):
    updated_at: str | None = None
    source_message_count: int | None = None


class _Operation(msgspec.Struct):
    """What one of a call's operations gave: it may read several files, or run several commands."""

    query: str | None = None
    result: msgspec.Raw = NOTHING
    error: str | None = None
    success: bool | None = None


class _Error(msgspec.Struct):
    error: str | None = None


_MESSAGES = LineDecoder(_Messages)
_MANIFESTS = LineDecoder(_Manifest)
_COMPACTIONS = LineDecoder(_Compaction)
_OPERATION = msgspec.json.Decoder(_Operation)
_OPERATIONS = msgspec.json.Decoder(list[_Operation])
_ERROR = msgspec.json.Decoder(_Error)
_TEXT = msgspec.json.Decoder(str)

# --- how a call went --------------------------------------------------------------------------------------

_EXIT = re.compile(r"(?:Command failed: )?\[?Command exited with code (\d{1,9})\b\]?")
_FORMS = (
    (
        re.compile(
            r"Unknown tool: |Tool call \S{1,200} (?:emitted invalid JSON arguments|was rejected before execution)"
        ),
        CallStatus.INVALID,
        "text of a broken call",
    ),
    (
        re.compile(r"Tool \"[^\"\n]{1,200}\" (?:was not approved|is disabled by policy|requires approval but )"),
        CallStatus.DECLINED,
        "text: not approved",
    ),
    (
        re.compile(r"(?:Command failed: )?(?:Command was aborted|Tool execution was aborted)"),
        CallStatus.CANCELLED,
        "text: aborted",
    ),
)
_ENDED = frozenset(("completed", "failed", "cancelled", "aborted"))


def _by_error(error: str) -> Judgement:
    for form, status, reason in _FORMS:
        if form.match(error):
            return Judgement(status, reason)
    return Judgement(CallStatus.FAILED, "is_error true")


def _operation(operation: _Operation, name: str) -> Judgement:
    error = operation.error or ""
    if operation.success:
        if category(name) == "shell":
            return Judgement(CallStatus.OK, "success true", 0)
        return Judgement(CallStatus.OK, "success true")
    exit_code = _EXIT.match(error)
    if exit_code is not None:
        output = error[exit_code.end() :] or json_head(bytes(operation.result), 4096)
        return by_exit_code(operation.query, int(exit_code[1]), output)
    if not error and category(name) == "search":  # what it says when nothing was found
        return Judgement(CallStatus.BENIGN, "success false without an error, of a search")
    found = _by_error(error)
    return found if found.status is not CallStatus.FAILED else Judgement(CallStatus.FAILED, "success false")


_WORST = (
    CallStatus.INVALID, CallStatus.FAILED, CallStatus.DECLINED, CallStatus.CANCELLED, CallStatus.BENIGN, CallStatus.OK,
)  # fmt: skip


def _together(operations: list[_Operation], name: str) -> Judgement | None:
    """The status of a call of several operations is the worst of theirs."""
    judged = [_operation(operation, name) for operation in operations if operation.success is not None]
    if not judged:
        return None
    worst = min(judged, key=lambda one: _WORST.index(one.status))
    if len(judged) == 1:
        return worst
    count = sum(one.status is worst.status for one in judged)
    return Judgement(worst.status, f"{worst.evidence} ({count} of {len(judged)})")


# --- the conversation -------------------------------------------------------------------------------------

_INPUT = re.compile(r"<(user_input|user_command)(?: [^>\n]{0,200})?>")
_NOTICE = re.compile(r"<(mode_notice)>")


class _Conversation(History):
    def __init__(self, source: Source, losses: Losses, since: float | None) -> None:
        super().__init__(source, losses)
        self.since = since
        """A fork begins with a copy of what was said before this time."""

    def entry(self, entry: Entry, record: Record) -> None:
        if self.since is None or entry.ts is None or entry.ts > self.since:
            super().entry(entry, record)

    def send(self, entry: Entry, blocks: list[Block], at: datetime | None, record: Record) -> None:
        if any(block.type == "tool_result" for block in blocks):  # a text beside results is a reminder
            blocks = [block for block in blocks if block.type != "text" or _INPUT.search(block.text or "")]
        super().send(entry, blocks, at, record)

    def typed_in(self, text: str) -> list[str]:
        found = [wrapped.text for wrapped in tagged(text, _INPUT)] or [text]
        texts = (without_wrappers(without(one, list(tagged(one, _NOTICE)))).strip() for one in found)
        return [one for one in texts if one]

    def judged(self, call: Call, block: Block) -> Judgement:
        content = block.content
        if not is_given(content):
            return Judgement(CallStatus.UNKNOWN, "an empty result")
        data = bytes(content)
        text = ""
        try:
            if data[:1] == b"[":
                judged = _together(_OPERATIONS.decode(data), call.name)
            else:
                text = _TEXT.decode(data)
                judged = _together([_OPERATION.decode(text)], call.name) if text.startswith("{") else None
        except BAD_CONTENT:
            judged = None
        if judged is not None and not block.is_error:
            return judged
        if block.is_error:
            with suppress(*BAD_CONTENT):
                text = _ERROR.decode(text).error or text
            return _by_error(text)
        if category(call.name) == "shell":
            return Judgement(CallStatus.UNKNOWN, "no exit code in the log")
        return Judgement(CallStatus.OK, "no error flag")


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The session of one file of messages: that of a folder, or one of its sub-agents'."""
    losses = Losses()
    files: list[tuple[_Messages, Record]] = []
    manifest = _Manifest()
    compaction = _Compaction()
    for record in records:
        if not record.part:
            files += [(found, record) for found in _MESSAGES.decode(record, losses)]
        elif record.part.endswith(".compaction.json"):
            compaction = next(iter(_COMPACTIONS.decode(record, losses)), compaction)
        else:
            manifest = next(iter(_MANIFESTS.decode(record, losses)), manifest)
    about = manifest.metadata or _About()
    origin = about.session_history_origin or _Origin()
    root = next((found.session_id for found, _ in files), None) or manifest.session_id
    is_child = any(found.agent in ("subagent", "teammate") for found, _ in files)
    fork = about.fork if about.fork is not None and not is_child else None
    forked = parse_time(fork.forked_at, losses) if fork is not None else None
    history = _Conversation(source, losses, forked.timestamp() * 1000 if forked is not None else None)
    if manifest.interactive is False or origin.trigger or origin.mode not in (None, "user"):
        history.typed_by = "harness"
    times = []
    for found, record in files:
        written = parse_time(found.updated_at, losses)
        times += [written] if written is not None else []
        if is_given(found.messages):
            data = bytes(found.messages)
            place = record.data.find(data)
            history.read(Record(data, None if record.offset is None or place < 0 else record.offset + place))
    drafts = history.drafts
    name = source.name.removesuffix(".messages")
    relation: Relation | None = None
    parent = None
    if is_child:
        by_parent(drafts)
        relation, parent = "subagent", root
    elif fork is not None:
        relation, parent = "fork", fork.forked_from_session_id
    elif about.imported_from is not None:
        relation, parent = "continuation", about.imported_from.source_session_id
    events = history.events
    if compaction.source_message_count and not is_child and not any(event.kind == "compaction" for event in events):
        before = [n for n, draft in enumerate(drafts) if 0 <= draft.index < compaction.source_message_count]
        at = parse_time(compaction.updated_at, losses)
        events = [*events, Event("compaction", at, before[-1] if before else None)]
    if not is_child:
        for text in (manifest.started_at, manifest.ended_at):
            moment = parse_time(text, losses)
            times += [moment] if moment is not None else []
    times += history.times
    return [
        Session(
            agent="cline-cli",
            source_id=_child_id(root, name, files[0][0]) if is_child else root or name,
            messages=tuple(finished(drafts, source)),
            parent_source_id=parent,
            relation=relation if parent else None,
            title=_title(manifest, about) if not is_child else None,
            cwd=manifest.cwd,
            agent_version=origin.version,
            started=min(times, default=None),
            ended=max(times, default=None),
            modified=source.modified,
            models=(manifest.model,) if manifest.model and not is_child else (),
            terminal=manifest.status in _ENDED and not is_child,
            events=tuple(events),
            losses=losses.result(),
        )
    ]


def _child_id(root: str | None, name: str, found: _Messages) -> str:
    return f"{root}__teamtask__{name}" if found.agent == "teammate" else f"{root}__{name}"


def _title(manifest: _Manifest, about: _About) -> str | None:
    """The title, where it is none: Cline takes the prompt's first line for one until it is named."""
    title = (about.title or "").strip()
    return title if title and not (manifest.prompt or "").strip().startswith(title) else None


def sniff(sample: Sample) -> bool:
    document: Any = sample.values[0] if sample.is_document and sample.values else None
    return (
        isinstance(document, dict)
        and isinstance(document.get("messages"), list)
        and document.get("agent") in ("lead", "subagent", "teammate")
        and isinstance(document.get("sessionId"), str)
    )


# Thirteen digits of milliseconds and five characters: what the agent names a session.
_ID = "[0-9]" * 13 + "_?????"

PARSER = Parser(
    agent="cline-cli",
    title="Cline CLI",
    homes=(Home(".cline/data/sessions", "**/*.messages.json", "CLINE_DIR"),),
    sniff=sniff,
    parse=parse,
    coverage=Coverage(statuses="yes", declined="partly", compaction="partly"),
    suffixes=(".json",),
    bundle=Bundle("*.messages.json", (f"{_ID}.json", f"{_ID}.compaction.json")),
)
