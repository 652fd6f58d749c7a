"""Gemini CLI: chats under `~/.gemini/tmp`, and what `gemini --output-format stream-json` prints.

A chat is one JSON object with a list of messages (to 0.38) or lines of the same messages, each written again in
full whenever it changes. A stream has an event a line, and no chat needs to exist beside it. What is easy to get
wrong, and is decided here:
- The same id again is the same message, mostly with its calls: those are only written when they are done.
- A `$set` of messages is the model's history from there on: what was compressed away was done all the same.
- Cached tokens are a part of the input, thoughts are counted beside the output.

docs/formats/gemini.md tells how each fact is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import Author, CallStatus, Event, Notice, Session, Usage
from demerit.parsers.evidence import Judgement
from demerit.parsers.genai import (
    Answer,
    Content,
    Draft,
    FunctionResponse,
    OpenCall,
    Part,
    answer_in,
    frozen,
    judge,
    parts_of,
    prompt_in,
    texts_of,
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
    is_given,
    parse_time,
)

# --- the lines of a chat or a stream --------------------------------------------------------------------------

_Time = str | int | float | None


class _Thought(msgspec.Struct):
    subject: str | None = None
    description: str | None = None


class _Tokens(msgspec.Struct):
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    thoughts: int | None = None
    tool: int | None = None


class _ToolCall(msgspec.Struct, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING
    status: str | None = None
    result: Content = None
    result_display: msgspec.Raw = NOTHING
    display_name: str | None = None
    agent_id: str | None = None


class _Set(msgspec.Struct, rename="camel"):
    """Metadata: of the first line, of a whole file, or of a `$set`."""

    session_id: str | None = None
    start_time: _Time = None
    last_updated: _Time = None
    kind: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    messages: msgspec.Raw = NOTHING


class _Patch(msgspec.Struct, rename="camel"):
    remove_ids: list[Any] | None = None


class _Error(msgspec.Struct):
    type: str | None = None
    message: str | None = None


class _Stats(msgspec.Struct):
    total_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached: int | None = None


class _Line(_Set, rename="camel"):
    type: str | None = None
    id: str | None = None
    timestamp: _Time = None
    content: Content = None
    display_content: Content = None
    thoughts: list[_Thought] | None = None
    tokens: _Tokens | None = None
    model: str | None = None
    tool_calls: list[_ToolCall] | None = None
    set: _Set | None = msgspec.field(name="$set", default=None)
    rewind_to: str | None = msgspec.field(name="$rewindTo", default=None)
    patch: _Patch | None = msgspec.field(name="$patch", default=None)
    # of a saved conversation (`/chat save`)
    history: msgspec.Raw = NOTHING
    role: str | None = None
    parts: list[Part] | None = None
    ts: _Time = None
    # of a stream
    stream_id: str | None = msgspec.field(name="session_id", default=None)
    delta: bool | None = None
    tool_name: str | None = msgspec.field(name="tool_name", default=None)
    tool_id: str | None = msgspec.field(name="tool_id", default=None)
    parameters: msgspec.Raw = NOTHING
    status: str | None = None
    output: msgspec.Raw = NOTHING
    error: _Error | None = None
    message: str | None = None
    stats: _Stats | None = None


_LINES = LineDecoder(_Line)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])

# What a chat tells and a stream never does.
_UNTOLD_BY_STREAMS = ("compaction", "thinking")
_CANCELLED = ("Request cancelled.", "User cancelled the request.")
_COMPRESSED = "A compressed context will be sent for future messages"
_GOT_IT = "Got it. Thanks for the additional context!"
# The program says in its opening text where it runs; the second form is that of older versions.
_FOLDER = re.compile(r"\*\*Workspace Directories:\*\*\n\s*- ([^\n]+)|working in the directory: ([^\n]+)")


class _Reader:
    """Reads the lines of one chat, or of one run in a stream, into one session."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.known: dict[str, Draft | None] = {}  # messages by id; None for one that only brought results
        self.calls: dict[str, OpenCall] = {}
        self.response: Draft | None = None  # to which more may come
        self.is_compacting = False
        self.loose: list[Usage] = []
        self.session_id: str | None = None
        self.title: str | None = None
        self.cwd: str | None = None
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.is_subagent = False
        self.model: str | None = None
        self.runs = False  # of a stream: between its first line and its last
        self.is_stream = False
        self.stray: list[Draft] = []
        self.terminal = False

    def read(self, line: _Line, record: Record) -> None:
        at = self.time(line.timestamp, record)
        handler = self.HANDLERS.get(line.type or "")
        if line.rewind_to is not None:
            # What was rewound was done, and cost what it cost: it stays.
            self.event("rewind", at, "")
            self.response = None
        elif line.set is not None:
            self.metadata(line.set, record)
            self.checkpoint(line.set, record)
        elif line.patch is not None:
            if line.patch.remove_ids:
                self.compaction(at)
        elif is_given(line.messages) or is_given(line.history):
            self.metadata(line, record)
            for inner in self.inside(line.messages if is_given(line.messages) else line.history, record):
                for message in _LINES.decode(inner, self.losses):
                    self.message(message, inner)
        elif line.type == "error" and line.id is None:
            self.context(line.message or "", at)
        elif handler is not None:
            handler(self, line, at, record)
        elif line.type is None and line.session_id is not None:
            self.metadata(line, record)
        else:
            self.losses.add("unknown_type", record.offset)

    def inside(self, messages: msgspec.Raw, record: Record) -> Iterator[Record]:
        """The items of a list in `record`, each as a record of its own: a fault in one costs no other."""
        try:
            raws = _LIST.decode(messages) if is_given(messages) else []
        except BAD_CONTENT:
            self.losses.add("wrong_type", record.offset)
            return
        at = 0
        for raw in raws:
            data = bytes(raw)
            found = record.data.find(data, at) if at >= 0 else -1
            at = found + len(data) if found >= 0 else -1  # it was salvaged: nothing stands there as it is
            yield Record(data, None if record.offset is None or found < 0 else record.offset + found)

    def message(self, line: _Line, record: Record) -> None:
        """A message of a list, in the form of chats or in that of the API."""
        if line.type is None and line.parts is not None:
            line.type = "user" if line.role == "user" else "gemini"
            line.content, line.timestamp = list(line.parts), line.ts
        if line.type is None or line.set is not None or is_given(line.messages) or is_given(line.history):
            self.losses.add("unknown_type", record.offset)
        else:
            self.read(line, record)

    def time(self, value: _Time, record: Record) -> datetime | None:
        at = parse_time(value, self.losses, record.offset)
        if at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        return at

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def context(self, text: str, at: datetime | None, notice: Notice | None = None) -> None:
        draft = Draft("context", "harness", at, text)
        draft.notice = notice
        self.drafts.append(draft)

    # the session

    def metadata(self, line: _Set, record: Record) -> None:
        self.session_id = line.session_id or self.session_id
        self.title = (line.summary or "").strip() or self.title
        self.time(line.start_time, record)
        self.time(line.last_updated, record)
        if line.kind is not None:
            self.is_subagent = line.kind == "subagent"
        if line.directories and self.is_subagent:  # those of a main session were only added to its own
            self.cwd = self.cwd or line.directories[0]

    def checkpoint(self, line: _Set, record: Record) -> None:
        """A `$set` of all messages: what the model's history is from here on.

        Messages that are known stand as they were first written; here their outputs may be cut. A history that
        was loaded from a file comes under new ids.
        """
        said = {(draft.role, draft.text): draft for draft in self.drafts} if is_given(line.messages) else {}
        for inner in self.inside(line.messages, record):
            for message in _LINES.decode(inner, self.losses):
                if message.id is not None and message.id in self.known:
                    continue
                parts = parts_of(message.content)
                is_prompt = message.type == "user"
                text = prompt_in(texts_of(parts)).text if is_prompt else "\n".join(texts_of(parts))
                original = said.get(("user" if is_prompt else "assistant", text)) if text else None
                called = [part.function_call.id for part in parts if part.function_call is not None]
                is_copy = (original is not None or (not text and bool(said))) and all(c in self.calls for c in called)
                if is_copy and message.id is not None:
                    self.known[message.id] = original
                elif not is_copy:
                    self.message(message, inner)

    def compaction(self, at: datetime | None) -> None:
        """A compaction is told by a note, by a new history, or by both with nothing of the model in between."""
        if not self.is_compacting:
            self.event("compaction", at, "")
        self.is_compacting = True

    # what a person or the program said

    def user(self, line: _Line, at: datetime | None, record: Record) -> None:
        parts = parts_of(line.content)
        responses = [part.function_response for part in parts if part.function_response is not None]
        for response in responses:
            self.result(response, record)
        if line.id is not None:
            if line.id in self.known:
                return
            self.known[line.id] = None
        self.response = None
        if responses:
            return
        texts = texts_of(parts)
        has_image = any(part.is_file for part in parts)
        if not has_image and not any(texts):
            self.losses.add("empty_message", record.offset)
            return
        self.prompt(texts, texts_of(parts_of(line.display_content)), has_image, at)

    def prompt(self, texts: list[str], displayed: list[str], has_image: bool, at: datetime | None) -> None:
        found = prompt_in(texts)
        if not found.is_typed:
            folder = _FOLDER.search(found.text) if self.cwd is None else None
            if folder is not None:
                self.cwd = (folder[1] or folder[2]).strip()
            if found.notice == "compaction_summary":
                self.compaction(at)
            self.context(found.text, at, found.notice)
            return
        author: Author = "agent" if self.is_subagent else "harness" if self.runs else "human"
        draft = Draft("user", author, at, "\n".join(displayed) if displayed else found.text)
        draft.has_image = has_image
        self.drafts.append(draft)
        self.terminal = self.is_compacting = False

    def note(self, line: _Line, at: datetime | None, record: Record) -> None:
        """An information, a warning or an error that the program showed."""
        if line.id is not None:
            if line.id in self.known:
                return
            self.known[line.id] = None
        text = "\n".join(texts_of(parts_of(line.content)))
        if line.type == "info" and text.strip() in _CANCELLED:
            if not (self.drafts and self.drafts[-1].notice == "interrupt"):
                self.interrupt(text, at)
        elif line.type == "error" and text.startswith("[API Error"):
            self.api_error(text, at)
        else:
            if _COMPRESSED in text:
                self.compaction(at)
            self.context(text, at)

    def interrupt(self, text: str, at: datetime | None) -> None:
        self.event("interrupt", at, "")
        self.context(text, at, "interrupt")

    def api_error(self, text: str, at: datetime | None) -> None:
        draft = Draft("assistant", "harness", at, text)
        draft.notice = "api_error"
        self.drafts.append(draft)
        self.event("api_error", at, text[:200])

    # what the model said

    def gemini(self, line: _Line, at: datetime | None, record: Record) -> None:
        parts = parts_of(line.content)
        text = "\n".join(texts_of(parts))
        draft = self.known.get(line.id) if line.id is not None else None
        if draft is None and line.id is not None and line.id in self.known:
            return  # it only repeats calls of others
        if draft is None and text == _GOT_IT and line.tokens is None and line.model is None:
            self.context(text, at)  # how the program ends a summary, in the model's name
            return
        thoughts = [_thought(thought) for thought in line.thoughts or []]
        thoughts = thoughts or [part.text for part in parts if part.text and part.thought]
        if draft is None and self.response is not None and self.goes_on(line, text, self.response):
            draft = self.response
            thoughts = draft.thoughts + thoughts
        draft = draft or self.respond(at)
        if line.id is not None:
            self.known[line.id] = draft
        self.response = draft
        self.is_compacting = self.terminal = False
        draft.text = text or draft.text
        draft.model = line.model or draft.model
        request = f"{self.session_id or self.source.name}:{line.id}" if line.id is not None else None
        draft.usage = _usage(line.tokens, request) or draft.usage
        draft.thoughts = [thought for thought in thoughts if thought] or draft.thoughts
        for index, tool in enumerate(line.tool_calls or []):
            key = tool.id if tool.id is not None else f"{line.id}#{index}"
            self.tool_call(tool, key, draft, record)
        for index, part in enumerate(parts):
            if part.function_call is not None:
                made = part.function_call
                key = made.id if made.id is not None else f"{line.id or len(self.drafts)}#part{index}"
                self.call(draft, key, made.name, made.id, made.args, record)

    def goes_on(self, line: _Line, text: str, last: Draft) -> bool:
        """Whether a message only has calls of the response before it, as something was shown in between."""
        has_only_calls = bool(line.tool_calls) and not text and line.tokens is None
        return has_only_calls and (last.usage is not None or not last.calls)

    def respond(self, at: datetime | None) -> Draft:
        draft = Draft("assistant", "agent", at)
        self.drafts.append(draft)
        return draft

    def call(
        self, draft: Draft, key: str, name: str | None, call_id: str | None, args: msgspec.Raw, record: Record,
        display_name: str | None = None,
    ) -> OpenCall:  # fmt: skip
        known = self.calls.get(key)
        if known is not None:
            return known
        if not name:
            self.losses.add("call_without_name", record.offset)
        call = OpenCall(name or "", call_id, draft.at, display_name)
        call.takes(args, record, self.source, self.losses)
        self.calls[key] = call
        draft.calls.append(call)
        return call

    def tool_call(self, tool: _ToolCall, key: str, draft: Draft, record: Record) -> None:
        call = self.call(draft, key, tool.name, tool.id, tool.args, record, tool.display_name)
        if call.verdict is not None:
            return
        if tool.agent_id is not None:
            self.event("subagent", draft.at, tool.agent_id)
        parts = parts_of(tool.result)
        response = next((part.function_response for part in parts if part.function_response is not None), None)
        if response is not None:
            answer = answer_in(response.response, record, self.losses)
        elif parts:
            answer = Answer(msgspec.Raw(msgspec.json.encode("\n".join(texts_of(parts)))), is_bare=True)
        else:
            answer = Answer(tool.result_display, is_bare=True)
        if tool.status is None and not is_given(answer.value):
            return
        call.ends(judge(call.category, call.command, tool.status, answer), answer, record, self.source)

    def result(self, response: FunctionResponse, record: Record) -> None:
        """A result in the model's history: mostly of a call that has its own already."""
        if response.id is not None:
            call = self.calls.get(response.id)
        else:
            waiting = (call for call in self.calls.values() if call.verdict is None and call.name == response.name)
            call = next(waiting, None)
        if call is None:
            self.losses.add("orphan_result", record.offset)
        elif call.verdict is None:
            answer = answer_in(response.response, record, self.losses)
            call.ends(judge(call.category, call.command, None, answer), answer, record, self.source)

    # a stream

    def begin(self, line: _Line, at: datetime | None, record: Record) -> None:
        self.session_id = line.stream_id or self.session_id
        self.model = line.model or self.model
        self.is_stream = self.runs = True
        self.terminal, self.response = False, None

    def said(self, line: _Line, at: datetime | None, record: Record) -> None:
        text = "\n".join(texts_of(parts_of(line.content)))
        if line.role == "assistant":
            draft = self.streamed(at)
            draft.text += text if line.delta or not draft.text else f"\n{text}"
        elif line.role != "user":
            self.losses.add("unknown_role", record.offset)
        elif self.runs:
            self.response = None
            self.prompt([text], [], False, at)
        else:
            # Written between runs by what started them: it belongs to the next.
            self.stray.append(Draft("context", "harness", at, text))

    def streamed(self, at: datetime | None) -> Draft:
        """The response that an event belongs to: results come when it is whole."""
        self.is_stream = self.runs = True
        self.terminal = False
        if self.response is None or self.response.is_answered:
            self.response = self.respond(at)
            self.response.model = self.model
        return self.response

    def tool_use(self, line: _Line, at: datetime | None, record: Record) -> None:
        draft = self.streamed(at)
        key = line.tool_id if line.tool_id is not None else f"#{len(self.calls)}"
        self.call(draft, key, line.tool_name, line.tool_id, line.parameters, record)

    def tool_result(self, line: _Line, at: datetime | None, record: Record) -> None:
        call = self.calls.get(line.tool_id or "")
        if self.response is not None:
            self.response.is_answered = True
        if call is None:
            self.losses.add("orphan_result", record.offset)
            return
        error = line.error or _Error()
        told = NOTHING if error.message is None else msgspec.Raw(msgspec.json.encode(error.message))
        answer = Answer(line.output, told, is_bare=True)
        verdict = judge(call.category, call.command, line.status, answer, error.type)
        if verdict is not None and call.category == "shell" and line.status == "success" and not answer.text:
            # Of an empty output the stream shows the exit code, if it is not 0.
            verdict = Judgement(CallStatus.OK, "status success, and no exit code in place of the empty output", 0)
        call.ends(verdict, Answer(line.output) if is_given(line.output) else answer, record, self.source)

    def end(self, line: _Line, at: datetime | None, record: Record) -> None:
        if line.stats is not None:
            usage = _run_usage(line.stats, f"{self.session_id or self.source.name}:{line.timestamp}")
            self.loose += [usage] if not usage.is_empty else []
        if line.status == "error" or line.error is not None:
            error = line.error or _Error()
            text = error.message or error.type or "error"
            if error.type == "FatalCancellationError":
                self.interrupt(text, at)
            elif (error.type or "").startswith("Fatal"):  # a limit of the program's own, or a bad setting
                self.context(text, at)
            else:
                self.api_error(text, at)
        self.runs, self.terminal, self.response = False, True, None

    HANDLERS = {  # noqa: RUF012 - a table of methods, never changed
        "user": user,
        "gemini": gemini,
        "info": note,
        "warning": note,
        "error": note,
        "init": begin,
        "message": said,
        "tool_use": tool_use,
        "tool_result": tool_result,
        "result": end,
    }

    def session(self) -> Session:
        self.drafts += self.stray
        return Session(
            agent="gemini",
            source_id=self.session_id or self.source.name,
            messages=frozen(self.drafts, self.source),
            parent_source_id=self.source.parent if self.is_subagent else None,
            relation="subagent" if self.is_subagent else None,
            title=self.title,
            cwd=self.cwd,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.terminal,
            events=tuple(self.events),
            loose_usage=tuple(self.loose),
            losses=self.losses.result(),
            untold=_UNTOLD_BY_STREAMS if self.is_stream else (),
        )


def _thought(thought: _Thought) -> str:
    return "\n".join(filter(None, (thought.subject, thought.description)))


def _usage(tokens: _Tokens | None, key: str | None) -> Usage | None:
    if tokens is None:
        return None
    cached = max(0, tokens.cached or 0)
    thoughts = None if tokens.thoughts is None else max(0, tokens.thoughts)
    found = Usage(
        # What tools brought into the prompt is counted beside it.
        input_tokens=max(0, (tokens.input or 0) - cached) + max(0, tokens.tool or 0),
        cache_read_tokens=cached,
        output_tokens=max(0, tokens.output or 0) + (thoughts or 0),
        reasoning_tokens=thoughts,
        key=key,
    )
    return None if found.is_empty else found


def _run_usage(stats: _Stats, key: str) -> Usage:
    """The tokens of all requests of a run: a stream tells no others."""
    sent, cached, made = (max(0, count or 0) for count in (stats.input_tokens, stats.cached, stats.output_tokens))
    thoughts = None if stats.total_tokens is None else max(0, stats.total_tokens - sent - made)
    return Usage(
        input_tokens=max(0, sent - cached),
        cache_read_tokens=cached,
        output_tokens=made + (thoughts or 0),
        reasoning_tokens=thoughts,
        key=key,
        is_sum=True,
    )


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session of a chat; of a stream that several runs were appended to, each run's."""
    readers = [_Reader(source)]
    is_empty = True
    for record in records:
        is_empty = False
        for line in _LINES.decode(record, readers[-1].losses):
            last = readers[-1]
            if line.type == "init" and line.stream_id != last.session_id and last.session_id is not None:
                readers.append(_Reader(source))
            if line.type == "init":
                readers[-1].drafts += last.stray
                last.stray = []
            readers[-1].read(line, record)
    return [] if is_empty else [reader.session() for reader in readers]


# --- whose log ------------------------------------------------------------------------------------------------

_KINDS = ("user", "gemini", "info", "error", "warning")


def sniff(sample: Sample) -> bool:
    return any(_is_chat(value) or _is_event(value) for value in sample.values)


def _is_chat(value: Any) -> bool:
    """Whether it is a chat, a line of one, or a saved conversation, and can be nobody else's."""
    if not isinstance(value, dict):
        return False
    if "$rewindTo" in value or "$patch" in value:
        return True
    update, messages, history = value.get("$set"), value.get("messages"), value.get("history")
    if isinstance(update, dict):
        return not {"lastUpdated", "messages", "summary", "memoryScratchpad", "directories"}.isdisjoint(update)
    if "sessionId" in value and "projectHash" in value:
        return messages is None or isinstance(messages, list)
    if isinstance(messages, list):  # of a file that was cut the name may be missing
        found = [message["type"] for message in messages[:20] if _is_message(message)]
        return bool(found) if "sessionId" in value else "gemini" in found
    if isinstance(history, list):
        turns = [turn for turn in history[:20] if isinstance(turn, dict)]
        return bool(turns) and all(
            "parts" in turn and turn.get("role") in ("user", "model", "gemini") for turn in turns
        )
    return value.get("type") == "gemini" and _is_message(value)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _KINDS and "id" in value and "content" in value


def _is_event(value: Any) -> bool:
    """Whether it is an event of a stream that can be nobody else's."""
    if not isinstance(value, dict) or "timestamp" not in value:
        return False
    kind = value.get("type")
    if kind == "init":
        return "session_id" in value and "model" in value
    if kind == "tool_use":
        return "tool_name" in value and "tool_id" in value
    return kind == "tool_result" and "tool_id" in value and "status" in value


PARSER = Parser(
    agent="gemini",
    title="Gemini CLI",
    homes=(Home(".gemini/tmp", "*/chats/**/*.jsonl"), Home(".gemini/tmp", "*/chats/**/*.json")),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(
        exit_codes="partly", declined="partly", usage="partly", subagents="partly", compaction="partly",
        thinking="partly",
    ),
)  # fmt: skip
