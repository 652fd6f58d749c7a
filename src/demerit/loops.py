"""Whether an agent goes round in circles: the same calls with the same answers, or the same words again and again.

Agent clients resend the conversation with every request, so `scan` reads all of it each time and keeps nothing. The
same detectors, driven turn by turn, follow a log (`Scanner`) or an agent's own loop (`LoopGuard`). Nothing here raises
on content: an odd shape is an empty one.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from demerit.defects import DefectLedger, LoopGuardTrip

__all__ = [
    "COSTLY",
    "READ_ONLY",
    "Call",
    "GuardConfig",
    "LoopDetector",
    "LoopGuard",
    "Scan",
    "Scanner",
    "StagnationDetector",
    "Standing",
    "Turn",
    "Verdict",
    "canonical",
    "digest",
    "is_costly",
    "is_read_only",
    "join_answers",
    "read_turns",
    "scan",
    "scan_turns",
    "signature",
]

READ_ONLY = (
    # What agents call their own tools. A word alone is too common: `mark_as_read` and `create_view` change something.
    *("=Read", "=Grep", "=Glob", "=LS", "=view", "NotebookRead", "WebSearch"),
    *("read_file", "read_text_file", "read_media_file", "read_multiple_files", "read_many_files", "read_page"),
    *("list_directory", "list_dir", "list_files", "list_allowed_directories", "directory_tree", "get_file_info"),
    *("search_files", "search_file_content", "file_search", "grep_search", "semantic_search", "codebase_search"),
    *("test_search", "list_code_definition_names", "list_code_usages", "get_errors", "get_changed_files"),
    *("get_terminal_output", "fetch_webpage", "snapshot", "screenshot", "navigate", "click"),
)
"""Tools that only look: see `is_read_only`. Looking again is how an agent waits, so it gets the larger limit."""

COSTLY = ("navigate", "click", "fetch")
"""Of these, tools that nobody wants called for ever, however much the answers change."""

LABEL_CHARS = 240
_WINDOW_FACTOR = 4  # two texts in turn fill half a window each, so it must hold well over twice the limit
_PERIODS = (2, 3, 4)
_ROUNDS = 3
_NO_MATCHES = dict.fromkeys(_PERIODS, 0)


class GuardConfig(msgspec.Struct, frozen=True):
    """What the guard goes by. A limit is how often something may come: the next one acts, and 0 acts on the first."""

    repeat_limit: int | None = 2
    """Batches in a row with one signature and no new answer; None: no loop is ever found."""
    read_only_limit: int | None = 15
    """The same where every call only looks; and the most for the others whatever the answers. None: no such tier."""
    stagnation_limit: int | None = 5
    """Turns with the same text, of the last `4 * limit` that were text alone; None: no stagnation is ever found."""
    read_only: tuple[str, ...] = READ_ONLY
    costly: tuple[str, ...] = COSTLY

    def __post_init__(self) -> None:
        for name in ("repeat_limit", "read_only_limit", "stagnation_limit"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise ValueError(f"{name} is {limit!r}: give 0 or more, or None to switch it off.")


DEFAULTS = GuardConfig()


class Call(msgspec.Struct, frozen=True):
    """One call that the model asked for."""

    name: str
    arguments: str
    """Digest of their canonical JSON; any text will do that is equal when they are."""
    call_id: str | None = None
    """What its answer names; None when it has none."""
    shown: str = ""
    """How the arguments begin, for people."""

    @property
    def signature(self) -> str:
        return f"{self.name}:{self.arguments}"


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation, in whatever format it came. Tool messages are no turns: they are `answers`."""

    role: str
    """`assistant`, `user`, or anything else, which is taken for a system message."""
    text: str = ""
    """What it says; of a user's message with more than text in it, something that is equal when all of it is. Beside
    calls it plays no part, and is left out."""
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    """Digest of what the calls were answered (see `join_answers`); None when that is not known."""


class Scan(msgspec.Struct, frozen=True):
    """What a request reports: of its newest turn alone, and nothing when that was reported before."""

    trip: LoopGuardTrip | None = None
    signature: str | None = None
    """Of the newest batch of calls; None when the newest turn is none."""
    count: int = 0
    """How often it came in a row (a batch) or in the window (a text)."""
    limit: int | None = None
    """The limit that `count` is over; None without a trip."""
    label: str = ""
    """What repeated, for people, at most 240 characters; empty without a trip."""
    repeat_seen: bool = False
    """The batch came before, anywhere in the conversation."""
    identical: bool = False
    """Of these: it was answered as the last time."""
    not_evaluated: bool = False
    """Of these: one of the two answers is not known."""
    rescued: bool = False
    """It came more often than the limit allows, and a changed answer kept it from a trip."""
    cycle: bool = False
    """It closes the third or a later round of two to four batches in turn, answered as the rounds before."""


_NOTHING = Scan()


# --- equality ---------------------------------------------------------------------------------------------

# What encoding and decoding can raise on content: wrong types and lone surrogates, nesting, numbers of thousands of
# digits.
_BAD_CONTENT = (msgspec.MsgspecError, TypeError, ValueError, RecursionError, OverflowError)

_LARGEST_WHOLE = 1e22  # of the powers of ten, the last that a float holds exactly


def _number(text: str) -> object:
    value = _whole(float(text))
    return value if abs(value) != float("inf") else msgspec.Raw(text.encode())  # encoded as a float it would be null


def _whole(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) <= _LARGEST_WHOLE else value


_decode = msgspec.json.Decoder(float_hook=_number).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical(value: object) -> bytes:
    """JSON text that is the same for equal values: keys sorted at every depth, integral floats as integers."""
    try:
        return _encode(_decode(_encode(value)))
    except _BAD_CONTENT:
        return _spelled(value)


def _spelled(value: object) -> bytes:
    """As `canonical`, slowly and in a notation of its own, for what the encoder does not take: nesting of any depth,
    lone surrogates, keys that are no strings, containers that hold themselves, values of any type."""
    out: list[str] = []
    rest: list[object] = [value]
    places: dict[int, int] = {}
    while rest:
        item = rest.pop()
        if not isinstance(item, Mapping | list | tuple):
            out.append(_scalar(item))
        elif id(item) in places:
            out.append(f"*{places[id(item)]}")
        else:
            places[id(item)] = len(places)
            out.append(f"{'{' if isinstance(item, Mapping) else '['}{len(item)}")
            if isinstance(item, Mapping):
                named = sorted(((_scalar(key), member) for key, member in item.items()), key=itemgetter(0))
                rest.extend(part for key, member in reversed(named) for part in (member, key))
            else:
                rest.extend(reversed(item))
    return ",".join(out).encode()


def _scalar(item: object) -> str:
    try:
        return json.dumps(_whole(item) if isinstance(item, float) else item, default=repr)
    except Exception:  # an object's own `repr` may raise anything; this one is equal to nothing else
        return object.__repr__(item)


def _hashed(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def digest(content: object) -> str:
    """Equal for equal contents of an answer, typed as they came: null is not "null", and a list not its text."""
    if isinstance(content, str):
        return _hashed(b"s" + content.encode("utf-8", "surrogatepass"))
    return _hashed(b"j" + canonical(content))


def signature(calls: Iterable[Call]) -> str:
    """Equal for batches of the same calls, in whatever order and with whatever ids."""
    return "|".join(sorted([call.signature for call in calls]))


def join_answers(calls: Sequence[Call], answers: Mapping[str, str]) -> str | None:
    """What a batch was answered, equal for equal answers to equal calls; None when it is not known of every call.

    answers: digests by call id. Those of other calls play no part.
    """
    known: dict[str, str] = {}
    for call in calls:
        answer = answers.get(call.call_id) if call.call_id else None
        if answer is None or call.call_id is None or call.call_id in known:
            return None
        known[call.call_id] = f"{call.signature}={answer}"
    return _hashed("|".join(sorted(known.values())).encode("utf-8", "surrogatepass"))


# --- reading a conversation -------------------------------------------------------------------------------


def read_turns(messages: object) -> list[Turn]:
    """The turns of OpenAI Chat Completions messages. What cannot be read is empty; what is no list has no turns."""
    return list(_turns(messages))


def _turns(messages: object) -> Iterator[Turn]:
    calls: tuple[Call, ...] = ()  # of the batch whose answers are being read
    answers: dict[str, str] = {}
    is_doubled = False
    for message in messages if isinstance(messages, list) else ():
        fields: dict[str, object] = message if isinstance(message, dict) else {}
        role = fields.get("role")
        if role == "tool":
            call_id = fields.get("tool_call_id")
            if calls and isinstance(call_id, str):
                is_doubled |= call_id in answers
                answers[call_id] = digest(fields.get("content"))
            continue
        if calls:
            yield Turn("assistant", "", calls, None if is_doubled else join_answers(calls, answers))
            calls, answers, is_doubled = (), {}, False
        if role == "assistant":
            calls = _wire_calls(fields.get("tool_calls"))
            if not calls:
                yield Turn("assistant", _text(fields.get("content")))
        elif role == "user":
            yield Turn("user", _said(fields.get("content")))
        else:
            yield Turn(role if isinstance(role, str) else "")
    if calls:
        yield Turn("assistant", "", calls, None if is_doubled else join_answers(calls, answers))


def _wire_calls(entries: object) -> tuple[Call, ...]:
    if not isinstance(entries, list):
        return ()
    return tuple([_wire_call(entry) for entry in entries if isinstance(entry, dict)])


def _wire_call(entry: dict[str, object]) -> Call:
    call_id = entry.get("id")
    body = entry.get("function")
    if not isinstance(body, dict):
        body = entry.get("custom")
    if isinstance(body, dict):
        name = body.get("name")
        arguments = body.get("arguments") if "arguments" in body else body.get("input")
    else:  # no call that is known: only one that is the same to the last field repeats it
        name, arguments = "", {key: value for key, value in entry.items() if key not in ("id", "index")}
    return _call(name, arguments, call_id)


def _call(name: object, arguments: object, call_id: object) -> Call:
    text = _arguments(arguments)
    return Call(
        name if isinstance(name, str) else "",
        _hashed(text),
        call_id if isinstance(call_id, str) and call_id else None,
        text[:LABEL_CHARS].decode("utf-8", "ignore"),
    )


def _arguments(value: object) -> bytes:
    if not isinstance(value, str):
        return canonical(value)
    try:
        return _encode(_decode(value))
    except _BAD_CONTENT:
        return canonical(value)


def _text(content: object) -> str:
    """The text of a message, as it is."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(part for part in parts if isinstance(part, str))


def _said(content: object) -> str:
    """The text of a user's message, and with it all that is not text."""
    others = content
    if isinstance(content, list):
        others = [part for part in content if not (isinstance(part, dict) and part.get("type") == "text")]
    return _text(content) + ("" if isinstance(content, str) or not others else digest(others))


# --- names ------------------------------------------------------------------------------------------------

_BORDER = re.compile(r"[_\-.:]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MCP = re.compile(r"mcp__.+?__|\d+:")
_NAME_CHARS = 256  # of a name that a model made up there may be megabytes


def is_read_only(name: str, entries: tuple[str, ...] = READ_ONLY) -> bool:
    """Whether an entry is in the name, as whole words: `read_file` is in `2:read_file` and `readFile`, not in
    `thread_files`. An entry with `=` before it has to be the whole name, or all that follows an MCP prefix."""
    return _is_named(name[:_NAME_CHARS], entries)


def is_costly(name: str, entries: tuple[str, ...] = COSTLY) -> bool:
    """As `is_read_only`, of the other list."""
    return _is_named(name[:_NAME_CHARS], entries)


@lru_cache(maxsize=1024)
def _is_named(name: str, entries: tuple[str, ...]) -> bool:
    words = _words(name)
    prefix = _MCP.match(name)
    bare = _words(name[prefix.end() :]) if prefix else words
    for entry in entries:
        wanted = _words(entry.removeprefix("="))
        if not wanted:
            continue
        if entry.startswith("="):
            if wanted in (words, bare):
                return True
        elif any(words[start : start + len(wanted)] == wanted for start in range(len(words))):
            return True
    return False


@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _BORDER.split(name) if word)


# --- detectors --------------------------------------------------------------------------------------------


class Standing(msgspec.Struct, frozen=True):
    """Where a run of equal batches stands."""

    count: int
    limit: int | None = None
    """The limit that `count` is over; None without a trip."""
    rescued: bool = False


class LoopDetector:
    """Follows the run of consecutive batches with one signature: `add` each, then `record` what it was answered.

    Between the two `standing` tells what is known before the calls run, and after them how it turned out.
    """

    def __init__(self, config: GuardConfig = DEFAULTS) -> None:
        self._config = config
        low, high = config.repeat_limit, config.read_only_limit
        self._floor = low or 0 if high is None else high if low is None else min(low, high)
        self.interrupt()

    def interrupt(self) -> None:
        """Something else was said: whatever comes next begins a run."""
        self._signature: str | None = None
        self._calls: Sequence[Call] = ()
        self._limits: tuple[int, int | None] | None = None  # of this run: its limit, its ceiling
        self._count = self._total = 0
        self._before: str | None = None
        self._answers: str | None = None

    def add(self, calls: Sequence[Call], same: str) -> None:
        """Takes in the next batch, whose answers are not known yet. same: its `signature`."""
        if same != self._signature:
            self.interrupt()
            self._signature, self._calls = same, calls
        self._count += 1
        self._total += 1
        self._before, self._answers = self._answers, None

    def record(self, answers: str | None) -> None:
        """What that batch was answered (see `join_answers`). After an interruption it is the answer to nothing."""
        if self._signature is None:
            return
        self._answers = answers
        if answers is not None and self._before is not None and answers != self._before:
            self._count = 1

    def standing(self) -> Standing:
        count, total = self._count, self._total
        if self._config.repeat_limit is None or total <= self._floor:
            return Standing(count)
        if self._limits is None:
            self._limits = self._limits_of(self._config.repeat_limit)
        limit, ceiling = self._limits
        if count > limit:
            return Standing(count, limit)
        if ceiling is not None and total > ceiling:
            return Standing(total, ceiling)
        return Standing(count, None, total > limit)

    def _limits_of(self, repeat_limit: int) -> tuple[int, int | None]:
        config, names = self._config, {call.name for call in self._calls}
        if config.read_only_limit is None:
            return repeat_limit, repeat_limit
        ceiling = max(repeat_limit, config.read_only_limit)
        if not all(is_read_only(name, config.read_only) for name in names):
            return repeat_limit, ceiling
        return config.read_only_limit, ceiling if any(is_costly(name, config.costly) for name in names) else None


class StagnationDetector:
    """Follows the texts of turns without calls, in a window of four times the limit."""

    def __init__(self, limit: int | None = DEFAULTS.stagnation_limit) -> None:
        self.limit = limit
        self._texts: deque[str] = deque()
        self._counts: dict[str, int] = {}
        self._asked: str | None = None

    def check(self, text: str) -> int:
        """How often this text, of the newest turn, is in the window."""
        if self.limit is None or not text:
            return 0
        self._texts.append(text)
        self._counts[text] = self._counts.get(text, 0) + 1
        if len(self._texts) > max(1, _WINDOW_FACTOR * self.limit):
            oldest = self._texts.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]
        return self._counts[text]

    def trips(self, count: int) -> bool:
        return self.limit is not None and count > self.limit

    def interrupt(self, asked: str | None = None) -> bool:
        """Something else was said: the window is emptied. False for a nudge, which is passed over.

        asked: what the user said; None for anybody else, or when it is not known. A nudge is the same as the user's
        message before it: a harness that says "continue".
        """
        if asked is not None:
            is_nudge = asked == self._asked
            self._asked = asked
            if is_nudge:
                return False
        if self._texts:
            self._texts.clear()
            self._counts.clear()
        return True


# --- a scan -----------------------------------------------------------------------------------------------


class Scanner:
    """Follows a conversation turn by turn. State: one number or two for each different batch."""

    def __init__(self, config: GuardConfig = DEFAULTS) -> None:
        self._loops = LoopDetector(config)
        self._stagnation = StagnationDetector(config.stagnation_limit)
        # What each batch was answered last, by Python's own keyed hashes: a log may have a million batches.
        self._answered: dict[int, int | None] = {}
        self._recent: deque[tuple[str, str | None]] = deque(maxlen=max(_PERIODS))
        self._matches = _NO_MATCHES.copy()
        self._last = _NOTHING

    def feed(self, turn: Turn) -> Scan:
        """What a request that ends with this turn, and its answers, reports.

        A nudge, which stands in no one's way, is reported as the turn before it: count trips of assistant turns only.
        """
        if turn.role == "assistant":
            self._last = self._batch(turn) if turn.calls else self._prose(turn.text)
        elif turn.role != "tool":
            if self._recent:  # batches since the last such turn: there is a run to end
                self._loops.interrupt()
                self._recent.clear()
                self._matches = _NO_MATCHES.copy()
            is_nudge = not self._stagnation.interrupt(turn.text if turn.role == "user" else None)
            if not (is_nudge and self._last.trip is LoopGuardTrip.stagnation):
                self._last = _NOTHING
        return self._last

    def _batch(self, turn: Turn) -> Scan:
        same, answers = signature(turn.calls), turn.answers
        is_cycle = self._closes_round(same, answers)
        self._loops.add(turn.calls, same)
        self._loops.record(answers)
        standing = self._loops.standing()
        trips = standing.limit is not None
        key, now = hash(same), None if answers is None else hash(answers)
        is_repeat = key in self._answered
        before = self._answered.get(key)
        self._answered[key] = now
        is_unknown = is_repeat and (before is None or now is None)
        return Scan(
            trip=LoopGuardTrip.loop if trips else None,
            signature=same,
            count=standing.count,
            limit=standing.limit,
            label=_label(turn.calls) if trips else "",
            repeat_seen=is_repeat,
            identical=is_repeat and not is_unknown and before == now,
            not_evaluated=is_unknown,
            rescued=standing.rescued,
            cycle=is_cycle,
        )

    def _closes_round(self, same: str, answers: str | None) -> bool:
        """Whether the batch closes such a round: for each period, how many batches in a row matched the one so far
        before them."""
        closes = False
        recent, batch = self._recent, (same, answers)
        for period in _PERIODS:
            if answers is None or len(recent) < period or recent[-period] != batch:
                self._matches[period] = 0
                continue
            self._matches[period] = matched = self._matches[period] + 1
            if matched >= (_ROUNDS - 1) * period and matched % period == 0:
                # The same batch all through is a run and no cycle, whatever it was answered.
                closes |= any(recent[-place][0] != same for place in range(1, period))
        recent.append(batch)
        return closes

    def _prose(self, text: str) -> Scan:
        count = self._stagnation.check(text)
        if not self._stagnation.trips(count):
            return Scan(count=count) if count else _NOTHING
        return Scan(LoopGuardTrip.stagnation, None, count, self._stagnation.limit, _cut(text))


def scan_turns(turns: Iterable[Turn], config: GuardConfig = DEFAULTS) -> Scan:
    """What a request with these turns reports."""
    scanner = Scanner(config)
    last = _NOTHING
    for turn in turns:
        last = scanner.feed(turn)
    return last


def scan(messages: object, config: GuardConfig = DEFAULTS) -> Scan:
    """What a request with these messages of OpenAI Chat Completions reports."""
    return scan_turns(_turns(messages), config)


def _label(calls: Sequence[Call]) -> str:
    return _cut(", ".join(f"{call.name} {call.shown}" for call in calls))


def _cut(text: str) -> str:
    head = " ".join(text[: LABEL_CHARS - 1].split())
    return head if len(text) < LABEL_CHARS else head + "\N{HORIZONTAL ELLIPSIS}"


# --- an agent's own loop ----------------------------------------------------------------------------------


class Verdict(msgspec.Struct, frozen=True):
    """Why a `LoopGuard` says stop."""

    trip: LoopGuardTrip
    label: str
    """What repeated, at most 240 characters."""
    count: int
    limit: int

    @property
    def message(self) -> str:
        """One sentence to hand to the model or to the user."""
        what, where = ("tool call", " in a row") if self.trip is LoopGuardTrip.loop else ("text", "")
        return (
            f"The same {what} came {self.count} times{where} ({self.limit} allowed): "
            f"{self.label}; do something else, or say what is missing."
        )


class LoopGuard:
    """Guards one conversation of an agent's own loop: `check` what the model wants, run it, `record` what came back.

    It knows no answer yet when it checks, so it may act one turn sooner than a scan of the same conversation. With a
    ledger, its checks and verdicts are counted there under `model`, apart from the proxy's.
    """

    def __init__(self, config: GuardConfig = DEFAULTS, ledger: DefectLedger | None = None, model: str = "") -> None:
        self._loops = LoopDetector(config)
        self._stagnation = StagnationDetector(config.stagnation_limit)
        self._calls: tuple[Call, ...] = ()
        self._ledger, self._model = ledger, model

    def check(self, calls: object = None, text: str | None = None) -> Verdict | None:
        """Takes in a turn of the model before its calls run; a verdict when it goes round in circles, else None.

        calls: as OpenAI, Anthropic or LangChain have them, objects or dicts, or pairs of name and arguments.
        text: of a turn without calls.
        """
        self._calls = tuple(call for call in map(_any_call, _listed(calls)) if call is not None)
        verdict = self._loop() if self._calls else self._stagnates(text or "")
        if self._ledger is not None:
            trip = None if verdict is None else verdict.trip
            self._ledger.record_turn(
                self._model,
                agent_scanned=1,
                agent_loops=int(trip is LoopGuardTrip.loop),
                agent_stagnations=int(trip is LoopGuardTrip.stagnation),
            )
        return verdict

    def _loop(self) -> Verdict | None:
        self._loops.add(self._calls, signature(self._calls))
        standing = self._loops.standing()
        if standing.limit is None:
            return None
        return Verdict(LoopGuardTrip.loop, _label(self._calls), standing.count, standing.limit)

    def _stagnates(self, text: str) -> Verdict | None:
        count = self._stagnation.check(text)
        if self._stagnation.limit is None or not self._stagnation.trips(count):
            return None
        return Verdict(LoopGuardTrip.stagnation, _cut(text), count, self._stagnation.limit)

    def record(self, results: object) -> None:
        """What the calls of the turn just checked were answered.

        results: contents by call id, or in the order of the calls; tool messages name their call themselves. Left out,
        or with one missing, they are not known, and the next repeat is taken for one without news.
        """
        if self._calls:
            self._loops.record(_joined(self._calls, results))

    def user(self, content: object = None) -> None:
        """The user said something, so repeating is no longer a loop."""
        self._loops.interrupt()
        self._stagnation.interrupt(None if content is None else _said(content))


def _listed(calls: object) -> Iterable[object]:
    if calls is None:
        return ()
    if isinstance(calls, Mapping) or _name(calls) is not None or (isinstance(calls, tuple) and _is_pair(calls)):
        return (calls,)
    if isinstance(calls, Iterable) and not isinstance(calls, str | bytes):
        return calls
    raise TypeError(f"check takes the tool calls of a turn, and {type(calls).__name__} is none: give them as a list.")


def _is_pair(entry: object) -> bool:
    return isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str)


def _field(entry: object, *names: str) -> object:
    """The first of these fields that a dict or an object has."""
    if isinstance(entry, Mapping):
        found = (entry.get(name) for name in names)
    else:
        found = (getattr(entry, name, None) for name in names)
    return next((value for value in found if value is not None), None)


def _name(entry: object) -> str | None:
    body = _field(entry, "function", "custom")
    name = _field(entry if body is None else body, "name", "tool_name")
    return name if isinstance(name, str) else None


def _any_call(entry: object) -> Call | None:
    """The call in an entry of whatever make; None when it is none, as a block of text is."""
    if isinstance(entry, Call):
        return entry
    if isinstance(entry, tuple | list):
        return _call(entry[0], entry[1], None) if _is_pair(entry) else None
    name = _name(entry)
    if name is None:
        return None
    body = _field(entry, "function", "custom")
    arguments = _field(entry if body is None else body, "arguments", "args", "input")
    return _call(name, arguments, _field(entry, "call_id", "tool_call_id", "id"))


def _joined(calls: tuple[Call, ...], results: object) -> str | None:
    if isinstance(results, Mapping) and any(call.call_id in results for call in calls):
        return join_answers(calls, {call_id: digest(content) for call_id, content in results.items()})
    entries: Sequence[object] = results if isinstance(results, tuple | list) else (results,)
    ids = [_answered(entry) for entry in entries]
    contents = [
        digest(entry if call_id is None else _field(entry, "content"))
        for entry, call_id in zip(entries, ids, strict=True)
    ]
    if None not in ids:
        named = dict(zip((str(call_id) for call_id in ids), contents, strict=True))
        return join_answers(calls, named) if len(named) == len(ids) else None
    if len(entries) != len(calls):
        return None
    places = [str(place) for place in range(len(calls))]
    numbered = [replace(call, call_id=place) for call, place in zip(calls, places, strict=True)]
    return join_answers(numbered, dict(zip(places, contents, strict=True)))


def _answered(entry: object) -> str | None:
    """The call that a tool message answers; None for what is no tool message but a content."""
    call_id = None if isinstance(entry, str) else _field(entry, "tool_call_id", "tool_use_id")
    return call_id if isinstance(call_id, str) else None
