"""pi and its forks (Oh My Pi, Prime, OpenClaw): one JSONL file a session, its entries a tree.

What is easy to get wrong, and is decided here:
- A branch that the user left stays in the file. Its work was done: entries count in the order of the file, and each
  step back is a `rewind` event.
- `isError` is set for every command that did not exit with 0, also where grep found nothing: the code at the end of
  the text decides.
- A response that was aborted, or broke off with an error, keeps its calls; none of them ran.
- A fork begins with a copy of its parent's entries. Their times are older than the fork's own header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from demerit.model import (
    Author,
    Body,
    CallStatus,
    Category,
    Event,
    Notice,
    Session,
    Usage,
)
from demerit.parsers.drafts import Draft, DraftCall
from demerit.parsers.evidence import (
    SUMMARIES,
    Judgement,
    by_exit_code,
    category_of,
    is_harness_text,
    is_poll,
    patch_paths,
    paths_in,
    starts_with_any,
    without_wrappers,
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
    input_hash,
    is_given,
    parse_time,
    raw_body,
    token_count,
    utf8_length,
)

# --- the format -------------------------------------------------------------------------------------------


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: msgspec.Raw = NOTHING
    thinkingSignature: str | None = None
    data: msgspec.Raw = NOTHING  # of an image, or of thinking that only the API can read
    id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = NOTHING


class _Lifetimes(msgspec.Struct):
    ephemeral1h: int | None = None


class _Usage(msgspec.Struct):
    input: int | None = None
    output: int | None = None
    cacheRead: int | None = None
    cacheWrite: int | None = None
    cacheWrite1h: int | None = None
    cttl: _Lifetimes | None = None  # the same in Oh My Pi
    reasoning: int | None = None
    reasoningTokens: int | None = None  # the same in Oh My Pi


class _Message(msgspec.Struct):
    role: str | None = None
    content: msgspec.Raw = NOTHING
    timestamp: str | int | float | None = None
    attribution: str | None = None
    synthetic: bool | None = None
    # of a response
    api: str | None = None
    model: str | None = None
    responseId: str | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    usage: _Usage | None = None
    # of a result
    toolCallId: str | None = None
    isError: bool | None = None
    details: msgspec.Raw = NOTHING
    # of what the user ran, and of summaries
    command: str | None = None
    code: str | None = None
    summary: str | None = None


class _Git(msgspec.Struct):
    branch: str | None = None


class _Entry(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    parentId: str | msgspec.UnsetType | None = msgspec.UNSET
    timestamp: str | int | float | None = None
    message: _Message | None = None
    # of the header
    cwd: str | None = None
    parentSession: str | None = None
    branchedFrom: str | None = None
    # of the rest
    modelId: str | None = None
    model: str | None = None
    role: str | None = None
    summary: str | None = None
    tokensBefore: int | None = None
    usage: _Usage | None = None
    content: msgspec.Raw = NOTHING
    name: str | None = None
    title: str | None = None
    customType: str | None = None
    git: _Git | None = None


class _Content(msgspec.Struct):
    content: str | list[_Block] | None = None


class _Details(msgspec.Struct):
    exitCode: int | None = None


class _Reasoning(msgspec.Struct):
    encrypted_content: str | None = None


_ENTRIES = LineDecoder(_Entry)
_CONTENT = msgspec.json.Decoder(str | list[_Block] | None)
_SALVAGED_CONTENT = LineDecoder(_Content)
_DETAILS = LineDecoder(_Details)
_REASONING = msgspec.json.Decoder(_Reasoning)

# Entries that carry nothing a report needs. A type that is neither here nor among the handlers is new to us.
_IGNORED = frozenset(
    (
        "thinking_level_change label context_transform ephemeral service_tier_change reset_boundary archive "
        "ttsr_injection mode_change credential_pin child_usage_attributed session_state agent_status"
    ).split()
)

# --- fixed texts of the program ---------------------------------------------------------------------------

# At the end of the bash tool's text, after the output.
_ENDING = re.compile(
    r"(?:^|\n)Command (?:exited with code (?P<code>-?\d{1,9})|(?P<aborted>aborted)|timed out after [\w.]+ seconds)\s*\Z"
)
_ENDING_CHARS = 120
_FORMS = (
    (re.compile(r"Validation failed for tool "), CallStatus.INVALID),
    (re.compile(r"Tool \S{1,200} not found\s*\Z"), CallStatus.INVALID),
    (re.compile(r'Tool call "[^"]{1,200}" was not executed: the response hit'), CallStatus.INVALID),
    (re.compile(r"Operation aborted\s*\Z|Skipped due to queued user message"), CallStatus.CANCELLED),
    (re.compile(r"Tool execution was blocked\s*\Z"), CallStatus.DECLINED),
)
# `/skill:name request` is logged as the skill's text, and after it the request.
_SKILL = re.compile(r'<skill name="[^"\n]*"[^>\n]*>\n.*?\n</skill>\s*', re.DOTALL)
# What the forks' tools do; the others are known to `evidence`.
_CATEGORIES: dict[str, Category] = {
    "run_terminal": "shell",
    "shell_exec": "shell",
    "eval": "shell",
    "python": "shell",
    "ssh": "shell",
    "ast_grep": "search",
    "ast_edit": "edit",
    "notebook": "edit",
    "todo_write": "plan",
    "ask": "question",
}
# Why a call is made, in the model's words: it changes from one call to the next that is the same.
_INTENTS = frozenset(("_i", "agent__intent"))
# A real signature or ciphertext takes hundreds of bytes; exports put a word ("REDACTED") in its place.
_LEAST_SIGNATURE = 64

# --- reading ----------------------------------------------------------------------------------------------


class _Reader:
    """Reads the entries of one file into one session."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.losses = Losses()
        self.drafts: list[Draft] = []
        self.events: list[Event] = []
        self.loose: list[Usage] = []
        self.calls: dict[str, DraftCall] = {}
        self.leaf: str | None = None
        self.places: dict[str, int] = {}  # of each entry, how many messages had come when it was there
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.name: str | None = None
        self.parent: str | None = None
        self.forked: datetime | None = None
        self.has_copies = False
        self.is_subagent = False
        self.cwd: str | None = None
        self.branch: str | None = None
        self.title: str | None = None
        self.model: str | None = None
        self.is_terminal = False
        self.body_at = 0  # where in the record the last body stands: the next one stands behind it

    def read(self, entry: _Entry, record: Record) -> None:
        self.body_at = 0
        at = parse_time(entry.timestamp, self.losses, record.offset)
        message = entry.message
        if at is None and message is not None:
            at = parse_time(message.timestamp, self.losses, record.offset)
        handler = _HANDLERS.get(entry.type or "")
        if handler is None and entry.type not in _IGNORED:
            self.losses.add("unknown_type" if entry.type else "no_type", record.offset)
        if self.forked is not None and at is not None and at < self.forked and entry.type != "session":
            self.has_copies = True
            if handler in _CONVERSATION:
                handler = None
        elif at is not None:
            self.started = at if self.started is None or at < self.started else self.started
            self.ended = at if self.ended is None or at > self.ended else self.ended
        if entry.type != "session" and entry.id:
            self.step(entry, at)
        if handler is not None:
            handler(self, entry, at, record)
        if entry.type != "session" and entry.id:
            self.places[entry.id] = len(self.drafts)

    def step(self, entry: _Entry, at: datetime | None) -> None:
        """Move on to an entry: a parent other than the entry before it, with messages in between, is a step back."""
        back = self.places.get(entry.parentId) if isinstance(entry.parentId, str) else None
        if entry.parentId is None:  # as the first entry: before the first prompt
            back = 0
        if back is not None and entry.parentId != self.leaf and self.leaf is not None and back < len(self.drafts):
            self.event("rewind", at, f"back over {len(self.drafts) - back} messages")
        self.leaf = entry.id

    def header(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        if self.name is None:
            self.name = entry.id
            self.cwd = entry.cwd
            self.model = entry.modelId
            self.title = entry.title or self.title
            path = entry.parentSession or entry.branchedFrom
            if path:
                # A path `<time>_<id>.jsonl`; Oh My Pi also writes the id alone.
                file = re.split(r"[/\\]", path)[-1].removesuffix(".jsonl")
                self.parent, self.forked = file.rpartition("_")[2] or file, at

    def blocks(self, raw: msgspec.Raw, record: Record) -> list[_Block]:
        """The blocks of a content; a text alone is one block."""
        try:
            content = _CONTENT.decode(raw)
        except BAD_CONTENT:
            wrapped = Record(b'{"content":' + bytes(raw) + b"}", record.offset)
            content = next((found.content for found in _SALVAGED_CONTENT.decode(wrapped, self.losses)), None)
        return [_Block("text", content)] if isinstance(content, str) else content or []

    def body(self, raw: msgspec.Raw, record: Record) -> Body | None:
        body = raw_body(raw, record, self.source, self.body_at)
        if body is not None and body.offset is not None and record.offset is not None:
            self.body_at = body.offset - record.offset + body.bytes
        return body

    def text(self, raw: msgspec.Raw, record: Record) -> str:
        return _text(self.blocks(raw, record))

    # a response

    def message(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        message = entry.message
        if message is None:
            self.losses.add("no_message", record.offset)
            return
        role = message.role
        if role == "toolResult":
            self.result(message, record)
        elif role == "assistant":
            self.response(message, entry, at, record)
        elif role == "user":
            self.prompt(message, at, record)
        elif role in ("system", "developer"):
            self.drafts.append(Draft("system", "harness", at, self.text(message.content, record)))
        elif role in ("bashExecution", "pythonExecution"):  # the user ran it: `!command`
            self.context(at, message.command or message.code or "")
        elif role in ("custom", "hookMessage", "fileMention", "branchSummary"):
            self.context(at, message.summary or self.text(message.content, record))
        elif role == "compactionSummary":
            self.context(at, message.summary or "", "compaction_summary")
        else:
            self.losses.add("unknown_role" if role else "no_role", record.offset)

    def response(self, message: _Message, entry: _Entry, at: datetime | None, record: Record) -> None:
        stop = message.stopReason
        broke = stop in ("aborted", "error")
        draft = Draft("assistant", "agent", at, model=message.model or self.model, stop=stop)
        texts = []
        for block in self.blocks(message.content, record):
            if block.type == "text":
                texts.append(block.text or "")
            elif block.type == "toolCall":
                self.call(block, draft, at, record, f"never ran: stopReason {stop}" if broke else None)
            elif block.type in ("thinking", "redactedThinking"):
                self.think(block, draft, message.api or "", record)
            elif block.type != "image":
                self.losses.add("unknown_block" if block.type else "no_type", record.offset)
        draft.text = "\n".join(filter(None, texts))
        key = f"{message.responseId or entry.id or ''}:{message.timestamp or entry.timestamp or ''}"
        draft.usage = _usage(message.usage, key if key != ":" else None)
        if not broke or draft.text or draft.calls or draft.thinking_bytes or draft.usage:
            self.use_model(draft.model, at)
            self.drafts.append(draft)
        self.is_terminal = False
        reason = message.errorMessage or stop or ""
        if stop == "aborted":
            self.event("interrupt", at, reason[:200])
            self.context(at, reason, "interrupt")
        elif stop == "error":
            self.event("api_error", at, reason[:200])
            self.drafts.append(Draft("assistant", "harness", at, reason, notice="api_error"))

    def call(self, block: _Block, draft: Draft, at: datetime | None, record: Record, never_ran: str | None) -> None:
        name = block.name or ""
        if not name:
            self.losses.add("call_without_name", record.offset)
        call = DraftCall(name, _CATEGORIES.get(name) or category_of(name), block.id, at)
        if never_ran:
            call.verdict = Judgement(CallStatus.CANCELLED, never_ran)
        if is_given(block.arguments):
            call.input = self.body(block.arguments, record)
            try:
                arguments = msgspec.json.decode(block.arguments)
            except BAD_CONTENT:
                self.losses.add("malformed_input", record.offset)
            else:
                _describe(call, arguments)
        draft.calls.append(call)
        if block.id:
            known = self.calls.get(block.id)
            if known is not None and (known.name, known.hash) == (call.name, call.hash):
                call.first = known
            else:  # small servers count their calls from 0 in every response
                self.calls[block.id] = call

    def think(self, block: _Block, draft: Draft, api: str, record: Record) -> None:
        signature = block.thinkingSignature or ""
        size, kind = 0, None
        if block.type == "redactedThinking":
            size, kind = max(0, len(bytes(block.data)) - 2) if is_given(block.data) else 0, "signature"
        elif signature.startswith("{"):  # OpenAI's item, whole
            size, kind = _ciphertext_bytes(signature), "ciphertext"
        elif api.startswith(("anthropic", "bedrock")) and len(signature) >= _LEAST_SIGNATURE:
            size, kind = len(signature), "signature"
        if not size and is_given(block.thinking):
            try:
                size, kind = utf8_length(msgspec.json.decode(block.thinking, type=str)), "text"
            except BAD_CONTENT:
                self.losses.add("wrong_type", record.offset)
        if size and draft.thinking_kind in (None, kind):  # of two kinds in one response, the first counts
            draft.thinking_bytes += size
            draft.thinking_kind = kind  # type: ignore[assignment]
        body = self.body(block.thinking, record) if bytes(block.thinking) != b'""' else None
        if body is not None:
            draft.thinking.append(body)

    def result(self, message: _Message, record: Record) -> None:
        if message.usage is not None:
            self.spend(message.usage, f"{message.toolCallId or ''}:{message.timestamp or ''}")
        call = self.calls.get(message.toolCallId or "")
        if call is None:
            self.losses.add("orphan_result", record.offset)
        elif call.verdict is None:  # of two results, the first stands
            call.verdict = self.judge(call, message, record)
            call.result = self.body(message.content, record)

    def judge(self, call: DraftCall, message: _Message, record: Record) -> Judgement:
        if call.category == "shell" and bytes(message.details)[:1] == b"{":
            for details in _DETAILS.decode(Record(bytes(message.details), record.offset), self.losses):
                if details.exitCode is not None:
                    text = self.text(message.content, record)
                    return by_exit_code(call.command, details.exitCode, text, "details.exitCode")
        if message.isError is None:
            return Judgement(CallStatus.UNKNOWN, "a result without isError")
        if not message.isError:
            return Judgement(CallStatus.OK, "isError false")
        return by_error(call.category, call.command, self.text(message.content, record), "isError true")

    # what is said to the model

    def prompt(self, message: _Message, at: datetime | None, record: Record) -> None:
        blocks = self.blocks(message.content, record)
        text = _text(blocks)
        has_image = any(block.type == "image" for block in blocks)
        self.is_terminal = False
        if not text.strip() and not has_image:
            self.losses.add("empty_message", record.offset)
        elif starts_with_any(text, SUMMARIES):
            self.context(at, text, "compaction_summary")
        elif message.synthetic or is_harness_text(text):
            self.context(at, text)
        else:
            skill = _SKILL.match(text)
            kept = without_wrappers(text[skill.end() :] if skill else text)
            if not kept.strip() and not has_image:
                self.context(at, text)
                return
            author: Author = "agent" if self.is_subagent or message.attribution == "agent" else "human"
            self.drafts.append(Draft("user", author, at, kept, has_image))

    def context(self, at: datetime | None, text: str, notice: Notice | None = None) -> None:
        self.drafts.append(Draft("context", "harness", at, text, notice=notice))

    def injected(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.context(at, self.text(entry.content, record))

    def compaction(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.event("compaction", at, f"{entry.tokensBefore} tokens" if entry.tokensBefore else "")
        self.context(at, entry.summary or "", "compaction_summary")
        self.spend(entry.usage, f"{entry.id or ''}:{entry.timestamp or ''}")

    def branch_summary(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.context(at, entry.summary or "")
        self.spend(entry.usage, f"{entry.id or ''}:{entry.timestamp or ''}")

    # the rest

    def model_usage(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.spend(entry.usage, f"{entry.id or ''}:{entry.timestamp or ''}")

    def model_change(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        # Oh My Pi keeps models for several roles, and writes `provider/model`.
        model = entry.modelId or (entry.model or "").partition("/")[2] or entry.model
        if entry.role in (None, "default"):
            self.use_model(model, at)

    def use_model(self, model: str | None, at: datetime | None) -> None:
        if model and self.model and model != self.model and self.drafts:  # before all messages it is a choice
            self.event("model_change", at, f"{self.model} -> {model}")
        self.model = model or self.model

    def named(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.title = (entry.name or entry.title or "").strip() or self.title

    def started_by_agent(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.is_subagent = True

    def custom(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.is_terminal = self.is_terminal or entry.customType == "session_exit"

    def git(self, entry: _Entry, at: datetime | None, record: Record) -> None:
        self.branch = (entry.git.branch if entry.git else None) or self.branch

    def spend(self, counts: _Usage | None, key: str) -> None:
        usage = _usage(counts, key if key != ":" else None)
        if usage is not None:
            self.loose.append(usage)

    def event(self, kind: Any, at: datetime | None, detail: str) -> None:
        self.events.append(Event(kind, at, len(self.drafts) - 1 if self.drafts else None, detail))

    def session(self) -> Session:
        parent = self.parent or self.source.parent
        is_subagent = self.is_subagent or (self.parent is None and self.source.parent is not None)
        relation = "subagent" if is_subagent else "fork" if self.has_copies else "continuation"
        return Session(
            agent="pi",
            source_id=self.name or self.source.name,
            messages=tuple(draft.frozen(ordinal, self.source) for ordinal, draft in enumerate(self.drafts)),
            parent_source_id=parent,
            relation=relation if parent or is_subagent else None,  # type: ignore[arg-type]
            title=self.title,
            cwd=self.cwd,
            branch=self.branch,
            started=self.started,
            ended=self.ended,
            modified=self.source.modified,
            terminal=self.is_terminal,
            events=tuple(self.events),
            loose_usage=tuple(self.loose),
            losses=self.losses.result(),
        )


_Handler = Callable[[_Reader, _Entry, datetime | None, Record], None]
_HANDLERS: dict[str, _Handler] = {
    "session": _Reader.header,
    "message": _Reader.message,
    "custom_message": _Reader.injected,
    "compaction": _Reader.compaction,
    "branch_summary": _Reader.branch_summary,
    "model_usage": _Reader.model_usage,
    "model_change": _Reader.model_change,
    "session_info": _Reader.named,
    "title": _Reader.named,
    "title_change": _Reader.named,
    "session_init": _Reader.started_by_agent,
    "custom": _Reader.custom,
    "git_state": _Reader.git,
}
# What a fork's copies would count twice.
_CONVERSATION = frozenset(
    (_Reader.message, _Reader.injected, _Reader.compaction, _Reader.branch_summary, _Reader.model_usage, _Reader.custom)
)


def by_error(category: Category, command: str | None, text: str, flag: str) -> Judgement:
    """Status of a call whose result is called an error, by pi's own words. `flag` says what called it so."""
    ending = _ENDING.search(text[-_ENDING_CHARS:]) if category == "shell" else None
    if ending is not None:
        if ending["code"]:
            output = text[: len(text) - len(ending[0])]
            return by_exit_code(command, int(ending["code"]), output, f"{flag}, exit code")
        status = CallStatus.CANCELLED if ending["aborted"] else CallStatus.FAILED
        return Judgement(status, f"{flag}: {ending[0].strip()}")
    for form, status in _FORMS:
        if form.match(text):
            return Judgement(status, f"{flag}: {text[:80].splitlines()[0]}")
    line = text.lstrip()[:80].partition("\n")[0]
    return Judgement(CallStatus.FAILED, f"{flag}: {line}" if line else flag)


def _text(blocks: list[_Block]) -> str:
    return "\n".join(block.text for block in blocks if block.text)


def _describe(call: DraftCall, arguments: Any) -> None:
    """Note what a call's decoded arguments say: what makes it the same call, its files, its command."""
    compared = arguments
    if isinstance(arguments, dict) and not _INTENTS.isdisjoint(arguments):
        compared = {name: value for name, value in arguments.items() if name not in _INTENTS}
    call.hash = input_hash(compared)
    call.is_poll = is_poll(call.name, arguments)
    call.paths = paths_in(arguments)
    if isinstance(arguments, dict):
        command = arguments.get("command")
        call.command = command if isinstance(command, str) else None
        for value in arguments.values() if not call.paths else ():
            if isinstance(value, str) and "*** Begin Patch" in value:
                call.paths += patch_paths(value)


def _ciphertext_bytes(signature: str) -> int:
    try:
        return len(_REASONING.decode(signature).encrypted_content or "")
    except BAD_CONTENT:
        return 0


def _usage(counts: _Usage | None, key: str | None) -> Usage | None:
    """The usage of one request; None for the zeros of one that was never answered."""
    if counts is None:
        return None
    hour = token_count(counts.cacheWrite1h or (counts.cttl.ephemeral1h if counts.cttl else None))
    reasoning = counts.reasoning if counts.reasoning is not None else counts.reasoningTokens
    found = Usage(
        input_tokens=token_count(counts.input),
        cache_read_tokens=token_count(counts.cacheRead),
        cache_write_5m_tokens=max(0, token_count(counts.cacheWrite) - hour),
        cache_write_1h_tokens=hour,
        output_tokens=token_count(counts.output),
        reasoning_tokens=None if reasoning is None else token_count(reasoning),
        key=key,
    )
    return None if found.is_empty else found


def parse(records: Iterable[Record], source: Source) -> list[Session]:
    """The one session in a pi log."""
    reader = _Reader(source)
    is_empty = True
    for record in records:
        is_empty = False
        for entry in _ENTRIES.decode(record, reader.losses):
            reader.read(entry, record)
    return [] if is_empty else [reader.session()]


def sniff(sample: Sample) -> bool:
    return any(_is_pi(value) for value in sample.values)


def _is_pi(value: object) -> bool:
    """Whether a line is a header, or an entry of a kind that only pi writes: a log may have lost its beginning."""
    if not isinstance(value, dict):
        return False
    if value.get("type") == "session":
        return isinstance(value.get("id"), str) and "timestamp" in value and "cwd" in value
    message = value.get("message")
    if value.get("type") != "message" or not isinstance(message, dict):
        return False
    role = message.get("role")
    is_response = role == "assistant" and {"api", "provider", "stopReason"} <= message.keys()
    return role == "bashExecution" or (role == "toolResult" and "toolCallId" in message) or is_response


PARSER = Parser(
    agent="pi",
    title="pi",
    homes=(
        Home(".pi/agent/sessions", "**/*.jsonl", "PI_CODING_AGENT_DIR", ".pi/agent"),
        Home(".omp/agent/sessions", "**/*.jsonl"),
        Home(".prime/agent/sessions", "**/*.jsonl"),
        Home(".openclaw/agents", "**/*.jsonl"),
    ),
    sniff=sniff,
    parse=parse,
    one_line_tells=True,
    coverage=Coverage(exit_codes="partly", declined="partly", subagents="partly"),
)
