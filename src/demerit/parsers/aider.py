"""Aider: the Markdown chat history that it appends to in each repository, many sessions a file.

The file is written for people, and a line's kind shows only in how it is written (aider/io.py): what a person typed
stands behind `#### ` and what the program said behind `> `, both with two blanks at the end; the rest is the model's
answer, which may hold lines that look like either. A program text of several lines is marked at its first line only,
and has the two blanks at its last. Blank lines are no records: the gap between two records' places shows them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from demerit.model import Author, Body, CallStatus, Category, Event, Message, Notice, Role, Session, ToolCall, Usage
from demerit.parsers.evidence import Judgement
from demerit.parsers.records import (
    Coverage,
    Losses,
    Parser,
    Record,
    Sample,
    Source,
    digest,
    input_hash,
    kept_text,
    parse_time,
    text_body,
    token_count,
    utf8_length,
)

# --- fixed forms ------------------------------------------------------------------------------------------

_HEADER = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_BEGINS = re.compile(r"\s*# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[ \t]*(?:\r?\n|\Z)")
_TOKENS = re.compile(
    r"Tokens: (?P<sent>\d[\d.,]*[kM]?) sent(?:, (?P<write>\d[\d.,]*[kM]?) cache write)?"
    r"(?:, (?P<hit>\d[\d.,]*[kM]?) cache hit)?(?:, (?P<received>\d[\d.,]*[kM]?) received)?"
)
_MODEL = re.compile(r"(?:Main model|Model): (\S+) with (\S+) edit format")
_EDITOR = re.compile(r"Editor model: (\S+) with ")
_VERSION = re.compile(r"Aider v(\S+)")
_CWD = "Cur working dir: "
_APPLIED = "Applied edit to "
_SKIPPED = "Skipping edits to "
_SHELL = re.compile(r"Run shell commands?\?.*\]: ?(\S*)")
_GOES_ON = re.compile(r"(?:Attempt to fix (?:lint|test) errors|Add .{0,40}command output to the chat)\b.*\]: ?[yY]")
_NOT_CONFORMING = "The LLM did not conform to the edit format."
_NO_MATCH = re.compile(r"\b(?:failed to match|failed to apply|failed to exactly match|matches? multiple)\b")
_FAILED_BLOCK = re.compile(r"^## \w+: [^\n]* in ([^\n]*[^\s])[ \t]*\n(?=<<<<<<< SEARCH\n)", re.MULTILINE)
_API_ERROR = re.compile(r"litellm\.\w+(?:Error|Exception)\b")
_INTERRUPT = "^C again to exit"
_STOPPED = "^C KeyboardInterrupt"
# The program's own lines that end an answer even where a code block was left open.
_ENDS_ANSWER = re.compile(rb"> (?:Tokens: [\d.,]+[kM]? sent|\^C |litellm\.|Applied edit to )")
_UNATTENDED = re.compile(r"\s(?:--message(?:-file)?|--msg|-m|-f)[\s=]")
_STARTED_BY = re.compile(r"\S*aider(?:\.exe|\.py)?(?:\s|\Z)")

# Commands whose text goes to the model, in that mode. It is logged once more, without the command, when it does.
_ASKING = frozenset(("ask", "code", "architect", "context", "help", "ok", "editor", "edit"))
_THOUGHT = re.compile(
    r"\A\s*<(think)>(.*?)(?:</think>|\Z)|<(thinking-content-\w+)>\n(.*?)(?:</\3>|\Z)"
    r"|(?<!-)-{8,}\n► \*\*THINKING\*\*\n(.*?)(?:(?<!-)-{8,}\n► \*\*ANSWER\*\*\n?|\Z)",
    re.DOTALL,
)
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})([^`\n]*)")
_SEARCH = "<<<<<<< SEARCH\n"
_REPLACE = ">>>>>>> REPLACE"

# The marks around a file's text that Aider asks for where back-ticks would clash with what is in the file.
_TAGS = tuple(f"<{name}>" for name in ("source", "code", "pre", "codeblock", "sourcecode"))

_MARKS = frozenset(b"#>`~<")
_SPACE = ord(" ")
_KIND: dict[str, int] = {"k": 1000, "M": 1_000_000}


def _tokens(text: str | None) -> int:
    """A count as Aider prints it: `812`, `3.1k` (rounded), `21k`."""
    if not text:
        return 0
    try:
        return token_count(round(float(text.rstrip("kM").replace(",", "")) * _KIND.get(text[-1], 1)))
    except (ValueError, OverflowError):
        return 0


def _fence(line: str) -> tuple[str, bool] | None:
    """What opens or closes a block of code, and whether it stands alone; None for any other line."""
    if line.startswith("<"):
        bare = line.strip().replace("</", "<", 1)
        return (bare, line.startswith("</")) if bare in _TAGS else None
    mark = _FENCE.match(line)
    return (mark[1], not mark[2].strip()) if mark is not None else None


def _closes(mark: tuple[str, bool], fence: str) -> bool:
    return mark[1] and mark[0].startswith(fence)


def _search_replace(text: str) -> list[str]:
    """The SEARCH/REPLACE parts in a text."""
    found = []
    at = text.find(_SEARCH)
    while at >= 0 and (end := text.find(_REPLACE, at)) >= 0:
        end += len(_REPLACE)
        found.append(text[at:end])
        at = text.find(_SEARCH, end)
    return found


def _edits_in(answer: str) -> dict[str, str]:
    """What an answer writes to each file: the code block below the file's name, or its SEARCH/REPLACE parts."""
    found: dict[str, list[str]] = {}
    name = fence = ""
    block: list[str] = []
    for line in answer.splitlines():
        mark = _fence(line)
        if fence:
            if mark is not None and _closes(mark, fence):
                text = "\n".join(block)
                parts = _search_replace(text)
                if parts and not block[0].startswith("<<<<<<<"):
                    name = block[0].strip()  # some models put it inside
                found.setdefault(name, []).extend(parts or [text])
                name = fence = ""
            else:
                block.append(line)
        elif mark is not None:
            fence, block = mark[0], []
        elif line.strip():
            name = line.strip().strip("*`#:").strip()
    return {name: "\n".join(blocks) for name, blocks in found.items() if name}


# --- reading ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    name: Literal["edit", "shell"]
    verdict: Judgement
    paths: tuple[str, ...] = ()
    given: object = None
    input: Body | None = None
    result: Body | None = None


@dataclass(slots=True)
class _Draft:
    role: Role
    author: Author
    text: str
    notice: Notice | None = None
    model: str | None = None
    thoughts: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    usage: Usage | None = None
    edits: dict[str, str] | None = None
    sidechain: bool = False


class _Chat:
    """One session: what stands below one heading."""

    def __init__(self, started: datetime | None, stamp: str, source: Source, losses: Losses) -> None:
        self.started = started
        self.stamp = stamp
        self.source = source
        self.losses = losses
        self.drafts: list[_Draft] = []
        self.events: list[Event] = []
        self.model: str | None = None
        self.editor: str | None = None
        self.version: str | None = None
        self.cwd: str | None = None
        self.typed_by: Author = "human"
        self.terminal = False
        self.held: str | None = None
        """A prompt that came with a command, and may come once more without it."""
        self.answer: _Draft | None = None
        """The answer that the program's lines are now about."""
        self.waiting = False
        """A prompt was sent, and nothing tells yet that its answer is whole."""
        self.failing = False
        self.interrupted = False
        """The person stopped an answer, of which the beginning may still be logged."""
        self.is_editing = False
        """The architect's editor is at work, in a conversation of its own that begins anew each time."""
        self.said: list[str] = []
        """What the program said since the last prompt or answer."""

    def event(self, kind: Literal["api_error", "interrupt", "rewind"], detail: str = "") -> None:
        at = len(self.drafts) - 1 if self.drafts else None
        self.events.append(Event(kind, None, at, detail))

    # a person

    def prompt(self, text: str) -> None:
        self.close()
        self.said.clear()
        is_command = text.startswith(("/", "!"))
        if self.held is not None:
            again = text.strip() == self.held
            if not again:
                self.ask(self.held)
            self.held = None
        answer = self.answer.text if self.answer is not None else ""
        if answer and answer[:20] == text[:20] and answer.split() == text.split():
            # The architect's answer, handed on to the editor, which writes it into the files.
            self.drafts.append(_Draft("context", "harness", text))
            self.answer = None
            self.waiting = self.is_editing = True
            return
        self.is_editing = False  # what a person typed, a command as well, goes to the architect again
        if not is_command:
            self.ask(text)
            return
        command, *rest = text.split(None, 1)
        self.terminal = command in ("/exit", "/quit")
        self.drafts.append(_Draft("context", "harness", text))
        if command[1:] in _ASKING and rest:
            self.held = rest[0].strip()
        elif command == "/undo":
            self.event("rewind", "/undo")

    def ask(self, text: str) -> None:
        self.drafts.append(_Draft("user", self.typed_by, text))
        self.waiting = True
        self.terminal = False
        self.answer = None

    # the model

    def say(self, text: str) -> None:
        if self.held is not None:
            self.ask(self.held)
            self.held = None
        thoughts: list[str] = []
        if "<think" in text or "**THINKING**" in text:
            thoughts = [found[2] or found[4] or found[5] or "" for found in _THOUGHT.finditer(text)]
            text = _THOUGHT.sub("", text)
        self.answer = self.begin(text.strip("\n"), thoughts)
        self.terminal = False
        self.said.clear()
        self.stop()

    def begin(self, text: str, thoughts: list[str]) -> _Draft:
        model = self.editor if self.is_editing and self.editor else self.model
        draft = _Draft("assistant", "agent", text, model=model, thoughts=thoughts, sidechain=self.is_editing)
        self.drafts.append(draft)
        return draft

    def call(self, call: _Call) -> None:
        if self.answer is None:
            self.answer = self.begin("", [])
        self.answer.calls.append(call)

    def edit(self, path: str, verdict: Judgement, block: str | None = None) -> None:
        if block is None and self.answer is not None:
            if self.answer.edits is None:
                self.answer.edits = _edits_in(self.answer.text)
            edits = self.answer.edits
            block = edits.get(path) or next((edits[name] for name in edits if path.endswith("/" + name)), None)
        body = text_body(block, self.source) if block is not None else None
        given = [path, block] if block is not None else None
        self.call(_Call("edit", verdict, (path,) if path else (), given, body))

    # the program

    def tell(self, text: str) -> None:
        """A text of the program, without its mark."""
        line = text.split("\n", 1)[0].rstrip()
        if not line:
            return
        handler = next((handle for starts, handle in self.LINES if line.startswith(starts)), None)
        if handler is not None:
            handler(self, line, text)
            self.said.clear()
            return
        if _API_ERROR.match(line):
            self.failing = True
            self.event("api_error", line[:200])
        elif (ran := _SHELL.match(line)) is not None:
            self.shell(ran[1])
        elif _GOES_ON.match(line):
            self.drafts.append(_Draft("context", "harness", "\n".join(self.said)))
            self.waiting = True
            self.answer = None
        elif _STARTED_BY.match(line) and not self.drafts:
            if _UNATTENDED.search(line):
                self.typed_by = "harness"
        elif (model := _MODEL.match(line)) is not None:
            self.model = model[1]
        self.said.append(text)

    def tokens(self, line: str, text: str) -> None:
        counts = _TOKENS.match(line)
        self.waiting = self.failing = False
        if counts is None or self.answer is None:
            return
        write, hit = _tokens(counts["write"]), _tokens(counts["hit"])
        sent = max(0, _tokens(counts["sent"]) - write - hit)
        if self.answer.usage is None:
            self.answer.usage = Usage(sent, hit, write, output_tokens=_tokens(counts["received"]))

    def applied(self, line: str, text: str) -> None:
        self.edit(line.removeprefix(_APPLIED), Judgement(CallStatus.OK, "line: Applied edit to"))

    def skipped(self, line: str, text: str) -> None:
        self.edit(line.removeprefix(_SKIPPED), Judgement(CallStatus.DECLINED, "line: Skipping edits to"))

    def not_conforming(self, line: str, text: str) -> None:
        self.failed_edit = True

    def shell(self, answer: str) -> None:
        if self.answer is None or not self.said:  # asked in another run of Aider, in the same folder
            return
        command = self.said[-1].strip()
        agreed = answer[:1].lower() in ("y", "a") or not answer
        verdict = (
            Judgement(CallStatus.UNKNOWN, "run, and its exit code is not logged")
            if agreed
            else Judgement(CallStatus.DECLINED, f"line: Run shell command? {answer}")
        )
        self.call(_Call("shell", verdict, (), command, text_body(command, self.source)))

    def stopped(self, line: str, text: str) -> None:
        if line.startswith(_INTERRUPT) and self.waiting:
            self.interrupted = True
            self.waiting = self.failing = False
        elif line.startswith(_STOPPED):
            self.terminal = True

    def facts(self, line: str, text: str) -> None:
        if (version := _VERSION.match(line)) is not None:
            self.version = version[1]
        elif (editor := _EDITOR.match(line)) is not None:
            self.editor = editor[1]
        elif line.startswith(_CWD):
            self.cwd = line.removeprefix(_CWD)

    def edit_errors(self, text: str) -> None:
        """What Aider sends back to the model when its edits did not fit: the calls that failed, and a message."""
        found = list(_FAILED_BLOCK.finditer(text))
        last = text.rfind(_REPLACE)
        for block in found:
            end = text.find(_REPLACE, block.end()) if block.end() <= last else -1
            part = text[block.end() : end + len(_REPLACE) if end >= 0 else block.end()]
            self.edit(block[1], Judgement(CallStatus.FAILED, "text: SEARCH block failed to match"), part)
        if not found:
            no_match = _NO_MATCH.search(text[:500])
            status = CallStatus.FAILED if no_match else CallStatus.INVALID
            self.edit("", Judgement(status, "text: did not conform to the edit format"), "")
        self.drafts.append(_Draft("context", "harness", text))
        self.answer = None
        self.waiting = True

    LINES = (
        ("Tokens: ", tokens),
        (_APPLIED, applied),
        (_SKIPPED, skipped),
        (_NOT_CONFORMING, not_conforming),
        ("^C ", stopped),
        (("Aider v", "Editor model: ", _CWD), facts),
    )
    failed_edit = False

    def stop(self) -> None:
        if self.interrupted:
            self.event("interrupt")
            self.drafts.append(_Draft("context", "harness", _INTERRUPT, notice="interrupt"))
        self.interrupted = False

    def close(self) -> None:
        """The turn is over: tell of an interrupt, or of an API that gave no answer."""
        self.stop()
        if self.failing and self.waiting:
            self.drafts.append(_Draft("assistant", "harness", "", notice="api_error"))
        self.waiting = self.failing = False

    def session(self, source_id: str, is_last: bool) -> Session:
        if self.held is not None:
            self.ask(self.held)
            self.held = None
        self.close()
        return Session(
            agent="aider",
            source_id=source_id,
            messages=tuple(_message(n, draft, self.source) for n, draft in enumerate(self.drafts)),
            cwd=self.cwd,
            agent_version=self.version,
            started=self.started,
            # The heading has the only time. Of the last session the file's own tells more.
            ended=None if is_last else self.started,
            modified=self.source.modified,
            terminal=self.terminal,
            events=tuple(self.events),
            losses=self.losses.result(),
        )


def _message(ordinal: int, draft: _Draft, source: Source) -> Message:
    is_prompt = draft.role == "user" and draft.author == "human"
    kept = kept_text(draft.text, source, whole=is_prompt)
    bodies = (text_body(thought, source) for thought in draft.thoughts)
    thought = sum(map(utf8_length, draft.thoughts))
    return Message(
        ordinal=ordinal,
        role=draft.role,
        author=draft.author,
        text=kept.text,
        text_bytes=kept.bytes,
        text_digest=kept.digest,
        calls=tuple(_tool_call(ordinal, index, call) for index, call in enumerate(draft.calls)),
        thinking=tuple(body for body in bodies if body is not None),
        thinking_bytes=thought,
        thinking_kind="text" if thought else None,
        model=draft.model,
        usage=None if draft.usage is None or draft.usage.is_empty else draft.usage,
        sidechain=draft.sidechain,
        notice=draft.notice,
    )


def _tool_call(ordinal: int, index: int, call: _Call) -> ToolCall:
    category: Category = "edit" if call.name == "edit" else "shell"
    status, reason, _ = call.verdict
    return ToolCall(
        ordinal, index, call.name, category, status, reason,
        input=call.input, input_hash=input_hash(call.given), file_paths=call.paths, result=call.result,
    )  # fmt: skip


class _Reader:
    """Tells the lines of one file apart, and hands them to the session that they belong to."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.chats: list[_Chat] = []
        self.chat: _Chat | None = None
        self.end: int | None = None
        """Where the last record ended."""
        self.body: list[Record] = []  # lines of an answer
        self.typed: list[str] = []  # lines of a prompt
        self.told: list[str] = []  # lines of the program's text that is not over
        self.fence = ""

    def read_all(self, records: Iterable[Record]) -> None:
        for record in records:
            data = record.data
            # Most lines are in the middle of an answer; of those only marks, and what may be a fence, say more.
            if self.body and (
                data[0] not in _MARKS and (data[0] != _SPACE or (b"```" not in data and b"~~~" not in data))
            ):
                self.body.append(record)
            else:
                self.line(record)
        self.flush()

    def line(self, record: Record) -> None:
        data = record.data
        before = self.body[-1] if self.body else None
        if before is not None and before.offset is not None:
            self.end = before.offset + len(before.data)
        gap = 1 if record.offset is None or self.end is None else record.offset - self.end
        self.end = None if record.offset is None else record.offset + len(data)
        if data.startswith(b"# aider chat started at ") and self.heading(record):
            return
        if self.chat is None:
            self.losses.add("before_first_session", record.offset)
            return
        ends = data.rstrip(b"\r\n").endswith(b"  ")
        if data.startswith(b"####") and ends and (gap > 1 or not self.fence):
            # After an answer there are two blank lines, which tells the end of one that stopped inside a code block.
            self.typed_line(data, gap > 0)
        elif data.startswith(b"> ") and (_ENDS_ANSWER.match(data) if self.fence else ends or not self.body):
            self.flush_answer()
            self.flush_prompt()
            self.flush_told()
            self.told.append(_text(data)[2:])
        elif self.told and not self.is_over(gap):
            self.told.append(_text(data))
        else:
            self.answer_line(record)

    def is_over(self, gap: int) -> bool:
        """Whether the program's text was whole before this line: it ended in two blanks, and a blank line follows."""
        return gap > 0 and self.told[-1].endswith("  ")

    def heading(self, record: Record) -> bool:
        found = _HEADER.match(_text(record.data))
        if found is None:
            return False
        self.flush()
        losses = Losses()
        started = parse_time(found[1], losses, record.offset)
        self.chat = _Chat(started, re.sub(r"\D", "", found[1]), self.source, losses)
        self.chats.append(self.chat)
        return True

    def typed_line(self, data: bytes, gap: bool) -> None:
        self.flush_answer()
        self.flush_told()
        text = _text(data)[4:].removeprefix(" ").removesuffix("  ")
        # Where no places show a blank line, the prompt that repeats a command's text is told by the text.
        is_again = len(self.typed) == 1 and self.typed[0].startswith("/") and self.typed[0].endswith(" " + text)
        if self.typed and (gap or is_again):
            self.flush_prompt()
        self.typed.append(text)

    def answer_line(self, record: Record) -> None:
        self.flush_prompt()
        self.flush_told()
        self.body.append(record)
        if record.data[0] in b"#>":
            return
        mark = _fence(_text(record.data))
        if mark is not None and not self.fence:
            self.fence = mark[0]
        elif mark is not None and _closes(mark, self.fence):
            self.fence = ""

    # hand over

    def flush(self) -> None:
        self.flush_answer()
        self.flush_prompt()
        self.flush_told()

    def flush_answer(self) -> None:
        if self.body and self.chat is not None:
            self.chat.say(_joined(self.body))
        self.body = []
        self.fence = ""

    def flush_prompt(self) -> None:
        if self.typed and self.chat is not None:
            text = "\n".join(self.typed)
            self.chat.prompt("" if text == "<blank>" else text)
        self.typed.clear()

    def flush_told(self) -> None:
        if not self.told or self.chat is None:
            return
        text = "\n".join(self.told)
        self.told = []
        chat = self.chat
        if chat.failed_edit and not text.startswith("https://"):
            chat.failed_edit = False
            chat.edit_errors(text)
        else:
            chat.tell(text)

    def sessions(self) -> Iterator[Session]:
        times = Counter(chat.stamp for chat in self.chats)
        used: Counter[str] = Counter()
        for chat in self.chats:
            name = f"{self.source.name}@{chat.stamp}"
            if times[chat.stamp] > 1:
                # Two that began in the same second: the first prompt tells them apart, wherever in the file they are.
                opener = next((draft.text for draft in chat.drafts if draft.role == "user"), "")
                name += f"-{digest(opener.encode('utf-8', 'replace'))[:8]}"
            used[name] += 1
            if used[name] > 1:
                name += f"-{used[name]}"
            yield chat.session(name, chat is self.chats[-1])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").rstrip("\r\n")


def _joined(lines: list[Record]) -> str:
    """The text of an answer, its blank lines put back where the places show them."""
    parts: list[bytes] = []
    end: int | None = None
    for data, offset, _ in lines:
        if end is not None and offset is not None and offset > end:
            parts.append(b"\n")
        parts.append(data)
        end = None if offset is None else offset + len(data)
    return b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The sessions of a chat history, in the order of their headings."""
    reader = _Reader(source)
    reader.read_all(records)
    sessions = list(reader.sessions())
    if not sessions:
        return [Session(agent="aider", source_id=source.name, modified=source.modified, losses=reader.losses.result())]
    return sessions


def sniff(sample: Sample) -> bool:
    return bool(_BEGINS.match(sample.text))


PARSER = Parser(
    agent="aider",
    title="Aider",
    homes=(),  # each repository has its own: name the file, or the folder
    sniff=sniff,
    parse=parse,
    coverage=Coverage(
        statuses="partly",
        exit_codes="no",
        usage="partly",
        times="partly",
        subagents="no",
        compaction="no",
        thinking="partly",
    ),
    suffixes=(".md",),
)
