"""From a session, as its log tells it, to the rows that are kept of it. Pure: the writer puts them in their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from demerit.model import Body, CallStatus, Message, Session, ToolCall, Usage
from demerit.pricing import cost_usd
from demerit.quality import PROMPT_FACTS_VERSION, PromptFacts, classify_prompt, prompt_hygiene
from demerit.quality.advice import AdviceFolder
from demerit.quality.assess import (
    CallFolder,
    Replays,
    assess,
    changed_files,
    is_idle,
    is_turn,
    thinking_tokens,
    title_from,
)
from demerit.quality.context import ContextHealthFolder
from demerit.quality.report import Advice, Hygiene
from demerit.store.filters import microseconds
from demerit.store.rounds import Rounds, RoundsFolder, spoken
from demerit.store.search import searchable
from demerit.store.texts import TEXT_CHARS, TEXT_SPACE, packed, plain, text_digest

Row = tuple[Any, ...]

HEADS = 8
"""Messages at the beginning of a session by which a session that repeats it is found."""
COST_DIGITS = 12
"""Behind the point of a cost in USD: no price of a token has more, so that sums are equal in whatever order."""
UNDATED = -1
"""The hour of what has no time."""

_HOUR_US = 3_600_000_000
_MOST_GAP_US = 300_000_000
# Finish reasons that mean "cut off", in the spellings of all wire formats.
_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens"})
_MOST_INT = 2**63 - 1
_PART_BYTES = 8 << 20


class Project(NamedTuple):
    """Which project a session belongs to: key, name and kind of a row of `projects`."""

    key: str
    name: str
    kind: str


class Text(msgspec.Struct):
    """One text of a session, in its first place."""

    id: int
    digest: str
    kind: str
    message_ordinal: int
    call_index: int | None
    size: int
    """Bytes of the whole, of which `data` may hold the beginning."""
    data: bytes
    """The text, packed."""
    words: str | None
    """What of it is searched for; None: nothing is."""


INDEXED = frozenset({"prompt", "answer", "input", "output"})
"""Kinds of text that are searched."""


class UsageRow(msgspec.Struct):
    """One request of a session, in the columns of `usage_events` from `place` on."""

    place: int
    message_ordinal: int | None
    key: int | None
    model: str | None
    at_us: int | None
    input_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    output_tokens: int
    reasoning_tokens: int | None
    is_sum: bool
    is_partial: bool
    context_tokens: int | None
    is_counted: bool
    cost_usd: float | None

    @property
    def tokens(self) -> int:
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
            + self.output_tokens
        )


class Part(NamedTuple):
    """Rows of some of a session's messages, one after the other."""

    messages: list[Row]
    calls: list[Row]
    changes: list[Row]
    texts: list[Text]
    """Those that were not kept before."""


def _number(*parts: str) -> int:
    """A signed 64-bit number that stands for these texts."""
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def message_key(message: Message) -> int | None:
    """What tells the same message in another log of it; None where nothing does.

    The identity that the agent gave the request is worth more than a text at a time: programs write the same text
    again, but hardly ever in the very same moment.
    """
    if message.usage is not None and message.usage.key is not None:
        return _number("request", message.usage.key) | 1
    if message.at is None or not (message.text or message.calls):
        return None
    said = message.text_digest or message.text
    call = message.calls[0] if message.calls else None
    called = (call.call_id or "", call.name, call.input_hash or "") if call else ()
    return _number(message.role, message.at.isoformat(), said, *called) & ~1


def is_request_key(key: int) -> bool:
    """Whether a message's key is the identity of its request: no other message has it but a repetition."""
    return bool(key & 1)


class Projection:
    """All rows of one session, but for what depends on other sessions.

    The rows of messages come in parts, so that those of a large log need not be in memory together.
    """

    def __init__(
        self,
        session_id: int,
        session: Session,
        whole: Callable[[Body, int], str | None],
        known_texts: Mapping[str, int],
        next_text: int,
        project: Project | None,
        now: datetime | None,
        path: str,
        after_us: int | None = None,
        rounds: RoundsFolder | None = None,
    ) -> None:
        """now: the session is graded at once if it has settled by this time; None: these are its last messages alone.
        path: where its log is. after_us: see `add_up`. rounds: has read what comes before these messages.
        whole: the first characters of a body that was left in its log, None where it has no place there.
        known_texts: ids of the texts that are kept of this session already, by digest; they keep them.
        next_text: number, in the session, of its next new text.
        """
        self.session_id = session_id
        self.session = session
        self.project = project
        self.title: str | None = None
        self.heads: list[int] = []
        self.prompts: dict[int, PromptFacts] = {}
        self.repeated_calls: set[tuple[int, int]] = set()
        self.rounds = RoundsFolder(session.events) if rounds is None else rounds
        self.usage = _requests(session)
        self.texts = _Texts(session_id, whole, known_texts, next_text)
        self.digest = self._look_through()
        self.sums = add_up(
            session,
            session_id,
            session.messages,
            self.prompts,
            self.usage,
            self.repeated_calls,
            self.rounds.by_model,
            after_us,
        )
        self.report = None
        """Its card, where it has settled. It holds if nothing of the session stands in another one."""
        if now is not None and is_idle(session, now):
            card = assess(session, now, path)
            usage = card.usage and msgspec.structs.replace(card.usage, cost_usd=self.sums.columns["cost_usd"])
            self.report = msgspec.structs.replace(card, usage=usage)
        self._ready: list[Part] | None = None

    def _look_through(self) -> str:
        """Find what has to be known before the rows; the digest of all that was read."""
        session, replays, said = self.session, Replays(), None
        about = msgspec.structs.replace(session, messages=(), modified=None)
        read = blake2b(msgspec.msgpack.encode(about), digest_size=16)
        for message in session.messages:
            key = message_key(message)
            if key is not None and len(self.heads) < HEADS and key not in self.heads:
                self.heads.append(key)
            if message.role == "user" and message.text.strip():
                said = said or title_from(message.text)
                if message.author == "human":
                    self.prompts[message.ordinal] = classify_prompt(message.text)
            calls = []
            for call in message.calls:
                if replays.is_one(call):
                    self.repeated_calls.add((message.ordinal, call.index))
                else:
                    calls.append(call)
            self.rounds.add(message, calls, "" if calls else spoken(message))
            read.update(msgspec.msgpack.encode(message))
        title = session.title or said
        self.title = None if title is None else plain(title)
        return read.hexdigest()

    def prepare(self) -> None:
        """Make all rows now, rather than when they are written."""
        self._ready = list(self._parts())

    def parts(self) -> Iterable[Part]:
        """The rows of its messages, in order. To be gone through once."""
        return self._parts() if self._ready is None else self._ready

    def _parts(self) -> Iterator[Part]:
        part, size = Part([], [], [], []), 0
        for message in self.session.messages:
            size += self._add(message, part)
            if size > _PART_BYTES:
                yield part
                part, size = Part([], [], [], []), 0
        yield part

    def _add(self, message: Message, part: Part) -> int:
        """Add the rows of one message; about how many bytes that takes."""
        number, ordinal, texts = self.session_id, message.ordinal, self.texts
        facts = self.prompts.get(ordinal)
        hygiene: Row = (None,) * 5
        if facts is not None:
            hygiene = (PROMPT_FACTS_VERSION, facts.short, facts.no_code_context, facts.bare_greeting, facts.digest)
        part.messages.append(
            (
                number,
                ordinal,
                message.role,
                message.author,
                message.notice,
                message.sidechain,
                False,
                message.has_substance,
                message.has_image,
                None if message.model is None else plain(message.model),
                microseconds(message.at),
                None if message.stop_reason is None else plain(message.stop_reason),
                len(message.calls),
                message.text_bytes,
                texts.of_message(message),
                message.thinking_bytes,
                thinking_tokens(message) if is_turn(message) else None,
                texts.of_thinking(message),
                message_key(message),
                *hygiene,
            )
        )
        for call in message.calls:
            is_counted = (ordinal, call.index) not in self.repeated_calls
            server = call.server if call.category == "mcp" else call.mcp_server
            part.calls.append(
                (
                    number,
                    ordinal,
                    call.index,
                    plain(call.name),
                    call.category,
                    None if server is None else plain(server),
                    call.status._value_,
                    plain(call.evidence),
                    None if call.call_id is None else plain(call.call_id),
                    call.input_hash,
                    call.exit_code if call.exit_code is not None and abs(call.exit_code) <= _MOST_INT else None,
                    call.is_poll,
                    is_counted,
                    plain(msgspec.json.encode(call.file_paths).decode()) if call.file_paths else None,
                    microseconds(call.at),
                    texts.of_body("input", call.input, ordinal, call.index),
                    texts.of_body("output", call.result, ordinal, call.index),
                )
            )
            if is_counted:
                for place, path in enumerate(changed_files(call)):
                    part.changes.append((number, ordinal, call.index, place, plain(path)))
        new = texts.take_new()
        part.texts.extend(new)
        return 500 * (1 + len(message.calls)) + sum(len(text.data) + len(text.words or "") for text in new)

    def event_rows(self) -> list[Row]:
        return [
            (self.session_id, place, event.kind, event.message_ordinal, microseconds(event.at), plain(event.detail))
            for place, event in enumerate(self.session.events)
        ]


class _Texts:
    """Gives each different text of a session one id, and keeps those that are new."""

    def __init__(
        self, session_id: int, whole: Callable[[Body, int], str | None], known: Mapping[str, int], next_text: int
    ) -> None:
        self._base = session_id * TEXT_SPACE
        self._whole = whole
        self._known = known
        self._ids: dict[str, int] = {}
        self._next = next_text
        self._new: list[Text] = []
        self.used: set[int] = set()
        """Ids of all texts that were asked for so far."""

    def take_new(self) -> list[Text]:
        """The texts that are new since the last call."""
        new, self._new = self._new, []
        return new

    def of_message(self, message: Message) -> int | None:
        if not message.text:
            return None
        kind = "context"
        if message.role == "assistant" and message.author == "agent":
            kind = "answer"
        elif message.role == "user" and message.author != "harness":
            kind = "prompt"
        return self._id(kind, message.text, message.text_bytes, message.ordinal, None)

    def of_thinking(self, message: Message) -> int | None:
        heads = [self._read(body) for body in message.thinking]
        text = "\n".join(head for head in heads if head)
        size = sum(body.bytes for body in message.thinking)
        return self._id("thinking", text, size, message.ordinal, None) if text else None

    def of_body(self, kind: str, body: Body | None, ordinal: int, index: int) -> int | None:
        if body is None:
            return None
        if kind == "output":
            # Under the digest of all of it, images too: so that equal answers, and no others, are one text.
            known = self._known_id(body.digest)
            return known or self._add(body.digest, kind, self._read(body), body.bytes, ordinal, index)
        text = self._read(body)
        return self._id(kind, text, body.bytes, ordinal, index) if text else None

    def _read(self, body: Body) -> str:
        # What has a place in its log was left there.
        return body.head if body.offset is None else self._whole(body, TEXT_CHARS) or body.head

    def _id(self, kind: str, text: str, size: int, ordinal: int, index: int | None) -> int | None:
        text = plain(text[:TEXT_CHARS])
        digest = text_digest(text)
        return self._known_id(digest) or self._add(digest, kind, text, size, ordinal, index)

    def _known_id(self, digest: str) -> int | None:
        known = self._ids.get(digest) or self._known.get(digest)
        if known is not None:
            self.used.add(known)
        return known

    def _add(self, digest: str, kind: str, text: str, size: int, ordinal: int, index: int | None) -> int | None:
        if self._next >= TEXT_SPACE:
            return None
        number = self._base + self._next
        self._next += 1
        self._ids[digest] = number
        self.used.add(number)
        text = plain(text[:TEXT_CHARS])
        words = searchable(text) if text and kind in INDEXED else None
        self._new.append(Text(number, digest, kind, ordinal, index, size, packed(text), words))
        return number


def _requests(session: Session) -> list[UsageRow]:
    """Each request once: of several records of one, the one with most output, in the place of the first."""
    rows: list[UsageRow] = []
    known: dict[str, int] = {}

    def add(usage: Usage, message: Message | None, own: bool) -> None:
        if usage.is_empty:
            return
        at = known.get(usage.key) if usage.key is not None else None
        context = usage.context_tokens if own and not usage.is_sum else None
        if at is not None:
            if usage.output_tokens <= rows[at].output_tokens:
                return
            context = rows[at].context_tokens
        model = message.model if message is not None else default
        moment = message.at if message is not None else session.ended
        row = UsageRow(
            place=len(rows) if at is None else at,
            message_ordinal=None if message is None else message.ordinal,
            key=None if usage.key is None else _number(usage.key),
            model=None if model is None else plain(model),
            at_us=microseconds(moment),
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_5m_tokens=usage.cache_write_5m_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            is_sum=usage.is_sum,
            is_partial=usage.output_is_partial,
            context_tokens=context,
            is_counted=True,
            cost_usd=cost_usd(model, usage, moment) if model else None,
        )
        if at is None:
            if usage.key is not None:
                known[usage.key] = len(rows)
            rows.append(row)
        else:
            rows[at] = row

    answers = Counter(message.model for message in session.messages if message.model)
    default = answers.most_common(1)[0][0] if answers else (session.models[0] if session.models else None)
    for message in session.messages:
        if message.usage is not None:
            add(message.usage, message, own=not message.sidechain)
    own = not rows
    for usage in session.loose_usage:
        add(usage, None, own)
    return rows


# --- sums ------------------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """What a session comes to, of its own messages."""

    columns: dict[str, Any]
    """Of its row in `sessions`."""
    rows: tuple[list[Row], list[Row], list[Row], list[Row]]
    """Of `session_hours`, `session_tools`, `session_files` and `session_defects`."""


class _Hour(msgspec.Struct):
    messages: int = 0
    prompts: int = 0
    tool_calls: int = 0
    active_us: int = 0
    requests: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    unpriced_requests: int = 0
    unpriced_tokens: int = 0


class _Defects(msgspec.Struct):
    responses: int = 0
    truncated: int = 0
    empty: int = 0
    reasoning_only: int = 0
    calls: int = 0
    invalid: int = 0


def add_up(
    session: Session,
    session_id: int,
    messages: Iterable[Message],
    prompts: dict[int, PromptFacts],
    usage: Sequence[UsageRow],
    repeated_calls: set[tuple[int, int]],
    rounds: Mapping[str, Rounds],
    after_us: int | None = None,
) -> Sums:
    """The sums of a session, or of its last messages.

    messages: those that count, without the ones that stand in an earlier session. Of their texts, lengths matter.
    prompts: the facts of its human prompts with text, by ordinal.
    usage: of its requests, those that count here.
    repeated_calls: (message, call) of those that only repeat the line of an earlier call.
    rounds: of their turns, by model: see `RoundsFolder`.
    after_us: the time of the last message before these.
    """
    hours: dict[tuple[int, str], _Hour] = {}
    tools: dict[tuple[str, str], list[Any]] = {}
    files: Counter[str] = Counter()
    defects: dict[str, _Defects] = {}
    models: Counter[str] = Counter()
    order: dict[str, None] = {}
    folder, advice, health = CallFolder(), AdviceFolder(), ContextHealthFolder()
    asked: list[PromptFacts] = []
    count = users = 0
    previous = after_us
    for message in messages:
        count += 1
        at = microseconds(message.at)
        model = plain(message.model) if message.model else ""
        hour = hours.setdefault((UNDATED if at is None else at // _HOUR_US, model), _Hour())
        hour.messages += 1
        if at is not None:
            if previous is not None and 0 < at - previous <= _MOST_GAP_US:
                hour.active_us += at - previous
            previous = at
        is_prompt = message.role == "user" and message.author == "human"
        users += is_prompt
        hour.prompts += is_prompt
        if message.ordinal in prompts:
            asked.append(prompts[message.ordinal])
        if model:
            order.setdefault(model)
        if message.role == "assistant" and message.author == "agent" and message.notice is None:
            models[model] += bool(model)
            _judge_response(message, defects.setdefault(model, _Defects()))
        for call in message.calls:
            if (message.ordinal, call.index) in repeated_calls:
                continue
            hour.tool_calls += 1
            folder.add(call)
            advice.add(call, message.model)
            _tally(call, model, tools)
            broken = defects.setdefault(model, _Defects())
            broken.calls += 1
            broken.invalid += call.status is CallStatus.INVALID
            for path in changed_files(call):
                files[plain(below(path, session.cwd))] += 1
    for row in usage:
        _spend(row, hours)
        if row.context_tokens is not None:
            health.add(row.context_tokens)
    for name in session.models:
        order.setdefault(plain(name))
    firsts: dict[str, str] = {}
    for tool, model in tools:
        firsts.setdefault(tool, model)
    judged = folder.statuses_are_logged and "statuses" not in session.untold
    return Sums(
        columns={
            **_totals(usage),
            "model": models.most_common(1)[0][0] if models.total() else (next(iter(order)) if order else None),
            "models": msgspec.json.encode(list(order)).decode(),
            "messages": count,
            "user_messages": users,
            "advice": msgspec.json.encode(advice.result(_hygiene(asked), health.result())).decode(),
        },
        rows=(
            [_hour_row(session_id, key, hour) for key, hour in hours.items()],
            [
                (session_id, *key, *values, judged, firsts[key[0]] == key[1])  # one row of a tool counts the session
                for key, values in tools.items()
            ],
            [(session_id, path, changes) for path, changes in files.items()],
            [
                (
                    session_id,
                    model,
                    *msgspec.structs.astuple(found),
                    *msgspec.structs.astuple(rounds.get(model, Rounds())),
                )
                for model, found in defects.items()
            ],
        ),
    )


def _hygiene(facts: Sequence[PromptFacts]) -> Hygiene:
    found = prompt_hygiene(facts)
    return Hygiene(len(facts), found.short, found.duplicate, found.no_code_context, found.unstructured_start)


def _judge_response(message: Message, found: _Defects) -> None:
    found.responses += 1
    found.truncated += message.stop_reason in _CUT_OFF
    if not message.text_bytes and not message.calls and not message.has_image:
        found.empty += 1
        found.reasoning_only += message.thinking_bytes > 0


def _tally(call: ToolCall, model: str, tools: dict[tuple[str, str], list[Any]]) -> None:
    key = (plain(call.name), model)
    row = tools.get(key)
    if row is None:
        server = call.server if call.category == "mcp" else None
        row = tools[key] = [call.category, None if server is None else plain(server), 0, *(0 for _ in CallStatus)]
    row[2] += 1
    row[3 + _STATUS_PLACE[call.status]] += 1


_STATUS_PLACE = {status: place for place, status in enumerate(CallStatus)}


def _spend(row: UsageRow, hours: dict[tuple[int, str], _Hour]) -> None:
    key = (UNDATED if row.at_us is None else row.at_us // _HOUR_US, row.model or "")
    hour = hours.setdefault(key, _Hour())
    hour.requests += not row.is_sum
    hour.input_tokens += row.input_tokens
    hour.cache_read_tokens += row.cache_read_tokens
    hour.cache_write_tokens += row.cache_write_5m_tokens + row.cache_write_1h_tokens
    hour.output_tokens += row.output_tokens
    if row.reasoning_tokens is not None:
        hour.reasoning_tokens = (hour.reasoning_tokens or 0) + row.reasoning_tokens
    if row.cost_usd is None:
        hour.unpriced_requests += 1
        hour.unpriced_tokens += row.tokens
    else:
        hour.cost_usd = (hour.cost_usd or 0.0) + row.cost_usd


def _hour_row(session_id: int, key: tuple[int, str], hour: _Hour) -> Row:
    if hour.cost_usd is not None:
        hour.cost_usd = round(hour.cost_usd, COST_DIGITS)
    return (session_id, *key, *msgspec.structs.astuple(hour))


def _totals(usage: Sequence[UsageRow]) -> dict[str, Any]:
    if not usage:
        nothing = dict.fromkeys(
            (
                "input_tokens",
                "cache_read_tokens",
                "cache_write_tokens",
                "cache_write_1h_tokens",
                "output_tokens",
                "reasoning_tokens",
                "cost_usd",
            )
        )
        return {**nothing, "requests": 0, "output_is_partial": False, "unpriced_requests": 0}
    priced = [row.cost_usd for row in usage if row.cost_usd is not None]
    reasoning = [row.reasoning_tokens for row in usage if row.reasoning_tokens is not None]
    return {
        "requests": sum(not row.is_sum for row in usage),
        "input_tokens": sum(row.input_tokens for row in usage),
        "cache_read_tokens": sum(row.cache_read_tokens for row in usage),
        "cache_write_tokens": sum(row.cache_write_5m_tokens + row.cache_write_1h_tokens for row in usage),
        "cache_write_1h_tokens": sum(row.cache_write_1h_tokens for row in usage),
        "output_tokens": sum(row.output_tokens for row in usage),
        "reasoning_tokens": sum(reasoning) if reasoning else None,
        "output_is_partial": any(row.is_partial for row in usage),
        "cost_usd": round(sum(priced), COST_DIGITS) if priced else None,
        "unpriced_requests": len(usage) - len(priced),
    }


def below(path: str, cwd: str | None) -> str:
    """A path relative to the working folder where it lies below it, so that worktrees and clones agree; else itself."""
    if not cwd:
        return path
    folder, spelled = cwd.replace("\\", "/").rstrip("/"), path.replace("\\", "/")
    if folder and spelled.startswith(f"{folder}/"):
        return spelled[len(folder) + 1 :]
    return spelled.removeprefix("./")


Advices = msgspec.json.Decoder(tuple[Advice, ...])
