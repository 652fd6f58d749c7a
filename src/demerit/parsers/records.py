"""What every parser needs: records in, typed values out, and a count of what was lost.

Nothing here raises on content. A record that does not decode as it stands is salvaged as far as it goes
(objects fused on one line, bytes that are not UTF-8, a field of the wrong type costs that field alone), and
each salvage or loss is counted in `Losses`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from types import UnionType
from typing import Any, Generic, Literal, NamedTuple, TypeGuard, TypeVar, Union, get_args, get_origin

import msgspec

from demerit.model import Body, ParseLoss, Session

HEAD_CHARS = 2048
TEXT_BYTES = 65536

# What decoding can raise on content. ValidationError (a wrong type) is a DecodeError; ValueError comes from
# numbers of thousands of digits, RecursionError from nesting.
BAD_CONTENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, OverflowError)


class Record(NamedTuple):
    """One record of a source: a line of a JSONL file, a whole JSON file, a database row as JSON."""

    data: bytes
    offset: int | None = 0
    """Byte offset in the source; None when the bytes do not stand there as they are."""
    part: str = ""
    """Of a source of several files: the file, relative to the main one's folder. Of a database: the query's name."""


class Source(NamedTuple):
    """Where records come from, as far as a parser may know."""

    name: str = "-"
    """File name without folder and suffix, for logs that do not name themselves."""
    modified: datetime | None = None
    """When the source was last written; None for stdin and lists in memory."""
    parent: str | None = None
    """Session that the source's folder says this one belongs to."""
    folders: tuple[str, ...] = ()
    """Names of the three folders that the file lies in, the nearest first: some agents name a session only there."""
    head_chars: int = HEAD_CHARS
    """How much of each large body to keep."""
    unplaced_chars: int = HEAD_CHARS
    """How much to keep of a body that cannot be read back from its source: where it has no offset there."""
    text_bytes: int = TEXT_BYTES
    """How much of an answer's text to keep. Human prompts are always whole."""
    bodies: bool = True
    """Whether to keep the heads, places and digests of large bodies; a report needs none."""


Told = Literal["yes", "partly", "no"]


class Home(NamedTuple):
    """A folder in which an agent keeps its logs."""

    folder: str
    """Relative to the user's home, with forward slashes."""
    pattern: str
    """Glob below that folder."""
    env: str | None = None
    """Environment variable that names another place for a part of `folder` (CODEX_HOME for `.codex`)."""
    replaces: str = ""
    """That part, from the beginning of `folder`; its first folder when not given."""


class Sample(NamedTuple):
    """The beginning of a source, for telling whose it is."""

    values: tuple[Any, ...] = ()
    """The first JSON values: of the first lines, or the one value of a whole JSON file."""
    is_document: bool = False
    """The source is one JSON value."""
    text: str = ""
    """The first 4 KiB as text, for logs that are no JSON."""
    tables: frozenset[str] = frozenset()
    """Names of the tables, where the source is an SQLite database."""


class Bundle(NamedTuple):
    """A session that lies in several files: the main one, by which it is recognised, and its parts."""

    main: str
    """Glob of the main file's name."""
    parts: tuple[str, ...]
    """Globs relative to the main file's folder. `{stem}` is the main file's name without suffix, `{part}` each in turn
    of the names, without suffix, that the pattern before gave. Their records follow the main file's, in this order,
    sorted by name: the lines of `.jsonl` files, any other file as one record."""


class Query(NamedTuple):
    """What to read from another tool's database: each row becomes one record, a JSON object by column names."""

    name: str
    """The `part` of its records."""
    table: str
    """It has to exist, or the query gives nothing."""
    sql: str
    """With `*` rather than columns, so that versions with more or fewer of them are read as well."""


class Coverage(NamedTuple):
    """Which facts an agent's log can tell: `yes`, `partly` (in some versions or shapes), `no`."""

    statuses: Told = "yes"
    exit_codes: Told = "yes"
    declined: Told = "yes"
    usage: Told = "yes"
    models: Told = "yes"
    times: Told = "yes"
    subagents: Told = "yes"
    compaction: Told = "yes"
    thinking: Told = "yes"


class Resumed(NamedTuple):
    """What a log says now, as far as it differs from what an earlier read of its beginning told."""

    session: Session
    """All of the session but what was told before: `messages` from ordinal `first` on, with their own ordinals;
    `events` after the first `events_kept`; `loose_usage` after the first `loose_kept`."""
    first: int = 0
    """The messages before it are as they were told."""
    events_kept: int = 0
    loose_kept: int = 0
    state: bytes | None = None
    """What to go on from; None when this log cannot be read on from here: the next read is a whole one."""

    def onto(self, before: Session) -> Session:
        """The whole session. before: as the read that gave the state, and those before it, made it."""
        return msgspec.structs.replace(
            self.session,
            messages=before.messages[: self.first] + self.session.messages,
            events=before.events[: self.events_kept] + self.session.events,
            loose_usage=before.loose_usage[: self.loose_kept] + self.session.loose_usage,
        )


class Parser(NamedTuple):
    """How to read one agent's logs."""

    agent: str
    """Stable key: `claude-code`, `codex`, ..."""
    title: str
    """What people call it."""
    homes: tuple[Home, ...]
    sniff: Callable[[Sample], bool]
    """Whether a source that begins like this is this agent's. No two parsers may claim one source."""
    parse: Callable[[Iterable[Record], Source], list[Session]]
    """All sessions in the records of one source, which come in the source's order. Never raises on content."""
    one_line_tells: bool = False
    """Whether `sniff` may be believed on a single line, so that no more of a source is looked at."""
    coverage: Coverage = Coverage()
    suffixes: tuple[str, ...] = (".jsonl", ".json")
    """What a walk of a folder looks at for this agent. Files that are no JSON are passed over silently there."""
    bundle: Bundle | None = None
    queries: tuple[Query, ...] = ()
    """For an agent that keeps its sessions in SQLite. `sniff` then sees the `tables` of a sample."""
    resume: Callable[[bytes | None, Iterable[Record], Source], Resumed | None] | None = None
    """Read a log on from a state, given the whole lines behind those that it has seen; or, from None, all of it.
    None when only a whole read can tell: what was told may have changed, or the state is not for this log, this
    source's limits or this version. None for a parser that always reads the whole."""


class Losses:
    """Counts of what was not understood, by kind, with the place of the first."""

    def __init__(self, kinds: dict[str, tuple[int, int | None]] | None = None) -> None:
        self.kinds: dict[str, tuple[int, int | None]] = {} if kinds is None else kinds

    def add(self, kind: str, offset: int | None = None, count: int = 1) -> None:
        seen, first = self.kinds.get(kind, (0, offset))
        self.kinds[kind] = (seen + count, first)

    def result(self) -> tuple[ParseLoss, ...]:
        return tuple(ParseLoss(kind, n, first) for kind, (n, first) in sorted(self.kinds.items()))


S = TypeVar("S", bound=msgspec.Struct)


NOTHING = msgspec.Raw(b"null")
"""Default of a field left undecoded. (msgspec takes no union of Raw with None.)"""


def is_given(raw: msgspec.Raw) -> bool:
    """Whether a field left undecoded holds anything."""
    return raw is not NOTHING and bytes(raw) != b"null"


class LineDecoder(Generic[S]):
    """Decodes records into one struct type, of which every field must have a default.

    The quick way is msgspec's typed decoder, which skips what the struct does not name. Where that fails,
    the record is salvaged: see `salvage` and `lenient`.
    """

    def __init__(self, shape: type[S]) -> None:
        self._shape = shape
        self.quick: Callable[[bytes], S] = msgspec.json.Decoder(shape).decode
        """The typed decoder alone, for a loop over millions of lines: `salvaged` is for what it raises on."""

    def decode(self, record: Record, losses: Losses) -> list[S]:
        """The objects in one record; none when nothing of it could be read."""
        try:
            return [self.quick(record.data)]
        except BAD_CONTENT:
            return self.salvaged(record, losses)

    def salvaged(self, record: Record, losses: Losses) -> list[S]:
        """The objects in a record on which `quick` raised."""
        found = []
        for value in salvage(record, losses):
            if isinstance(value, dict):
                found.append(lenient(value, self._shape, losses, record.offset))
            else:
                losses.add("not_an_object", record.offset)
        return found


def _small_int(digits: str) -> int | float:
    # No count, time or id needs more; int() of millions of digits is quadratic, or refused.
    return int(digits) if len(digits) < 20 else float("inf")


_STDLIB = json.JSONDecoder(strict=False, parse_int=_small_int, parse_constant=lambda _: None)
_BLANK = " \t\r\n\x00\ufeff"


def salvage(record: Record, losses: Losses) -> list[Any]:
    """The JSON values in a record that did not decode as it stands, untyped."""
    text = record.data.decode("utf-8", "replace").strip(_BLANK)
    if not text:
        losses.add("empty_record", record.offset)
        return []
    values: list[Any] = []
    at = 0
    try:
        while at < len(text):
            value, at = _STDLIB.raw_decode(text, at)
            values.append(without_surrogates(value))
            if values[-1] != value:
                losses.add("lone_surrogate", record.offset)
            while at < len(text) and text[at] in _BLANK:
                at += 1
    except BAD_CONTENT as error:
        if not values and text[0] == "[":
            values = _items_before_cut(text)
        elif not values and "\n" in text:  # a document over lines; a line of a log has none in it
            values = _whole_before(text[: getattr(error, "pos", 0)])
        losses.add("malformed_tail" if values else "malformed_line", record.offset)
    if values and "\ufffd" in text and b"\xef\xbf\xbd" not in record.data:
        losses.add("invalid_utf8", record.offset)
    if len(values) > 1:
        losses.add("fused_line", record.offset)
    return values


def _items_before_cut(text: str) -> list[Any]:
    """The list that a text begins, as far as its items are whole; nothing when not one of them is."""
    items: list[Any] = []
    at = 1
    try:
        while True:
            while text[at] in _BLANK or text[at] == ",":
                at += 1
            item, at = _STDLIB.raw_decode(text, at)
            items.append(without_surrogates(item))
    except (*BAD_CONTENT, IndexError):
        return [items] if items else []


_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}


def _whole_before(text: str) -> list[Any]:
    """The object that a text begins, up to the last list or object in it that is whole; nothing without one."""
    open_brackets: list[str] = []
    end = depth = 0
    for found in _STRINGS_AND_BRACKETS.finditer(text):
        token = found[0]
        if token in _CLOSING:
            open_brackets.append(_CLOSING[token])
        elif token in "}]" and open_brackets:
            open_brackets.pop()
            # What is pushed later lies above; a pop comes by here.
            end, depth = found.end(), len(open_brackets)
    try:
        return [without_surrogates(_STDLIB.decode(text[:end] + "".join(reversed(open_brackets[:depth]))))]
    except BAD_CONTENT:
        return []


def without_surrogates(value: Any) -> Any:
    """`value` with each half of a surrogate pair that stands alone (JSON allows it) as a question mark."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


_fields = cache(msgspec.structs.fields)  # it evaluates annotations: slow


def lenient(value: dict[str, Any], shape: type[S], losses: Losses, offset: int | None) -> S:
    """`value` as `shape`; each field that does not fit keeps its default and counts as `wrong_type`."""
    fitting: dict[str, Any] = {}
    for field in _fields(shape):
        if field.encode_name in value:
            try:
                fitting[field.name] = _convert(value[field.encode_name], field.type, losses, offset)
            except BAD_CONTENT:
                losses.add("wrong_type", offset)
    return shape(**fitting)


def _is_struct(shape: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(shape, type) and issubclass(shape, msgspec.Struct)


def _convert(got: Any, wanted: Any, losses: Losses, offset: int | None) -> Any:
    options = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
    if msgspec.Raw in options:
        return msgspec.Raw(msgspec.json.encode(got))
    try:
        return msgspec.convert(got, wanted)
    except BAD_CONTENT:
        for option in options:
            if isinstance(got, dict) and _is_struct(option):
                return lenient(got, option, losses, offset)
            inner = get_args(option)
            if isinstance(got, list) and inner and _is_struct(inner[0]):
                objects = [item for item in got if isinstance(item, dict)]
                if len(objects) < len(got):
                    losses.add("wrong_type", offset, len(got) - len(objects))
                return [lenient(item, inner[0], losses, offset) for item in objects]
        raise


def parse_time(value: object, losses: Losses, offset: int | None = None) -> datetime | None:
    """An ISO 8601 text as an aware datetime in UTC; None for None and for what is no time.

    A time without a zone is read as UTC and counted as `time_without_zone`; what is no time is counted as
    `bad_time`. A number is seconds since 1970, or milliseconds where seconds would lie beyond the year 5138.
    """
    if value is None:
        return None
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            if found.tzinfo is UTC:
                return found
            if found.tzinfo is None:
                losses.add("time_without_zone", offset)
                return found.replace(tzinfo=UTC)
            return found.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    losses.add("bad_time", offset)
    return None


def digest(data: bytes | memoryview) -> str:
    """Sixteen hex digits over `data` (BLAKE2b, 64 bits)."""
    return blake2b(data, digest_size=8).hexdigest()


_canonical = msgspec.json.Encoder(order="deterministic")


def input_hash(value: Any) -> str | None:
    """Digest of a tool call's input with its keys in order, so that spelling makes no difference.

    `value` is the decoded input; a text that should have been JSON is hashed as it is. None for None.
    """
    if value is None:
        return None
    try:
        return digest(_canonical.encode(value))
    except BAD_CONTENT:
        return digest(repr(value).encode("utf-8", "replace"))


def utf8_length(text: str) -> int:
    """Length of `text` in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_MOST_TOKENS = 2**53


def token_count(value: int | None) -> int:
    """A logged count of tokens; 0 for what none can be: nothing, less than none, more than fits a float."""
    return value if value is not None and 0 <= value <= _MOST_TOKENS else 0


class Kept(NamedTuple):
    """What a message keeps of its text: see `Message.text`, `text_bytes` and `text_digest`."""

    text: str
    bytes: int
    digest: str | None


def kept_text(text: str, source: Source, whole: bool = False) -> Kept:
    """A message's text, cut to what the reader keeps unless it is a person's prompt (`whole`)."""
    size = utf8_length(text)
    if whole or size <= source.text_bytes:
        return Kept(text, size, None)
    data = text.encode("utf-8", "surrogatepass")
    beginning = data[: source.text_bytes].decode("utf-8", "ignore")
    return Kept(beginning, size, digest(data) if source.bodies else None)


def text_body(text: str, source: Source, offset: int | None = None) -> Body | None:
    """A body whose text is in hand: `bytes` and `digest` are over its UTF-8 form. None when none are kept."""
    if not source.bodies:
        return None
    data = text.encode("utf-8", "surrogatepass")
    return Body(text[: _kept_chars(source, offset)], len(data), digest(data), offset)


def raw_body(raw: msgspec.Raw, record: Record, source: Source, after: int = 0) -> Body | None:
    """A body left in its record: `bytes`, `digest` and `offset` are those of the JSON value there.

    after: it stands behind this place in the record, as far as that is known. None when the field holds nothing,
    or no bodies are kept.
    """
    if not source.bodies or not is_given(raw):
        return None
    data = bytes(raw)
    at = record.data.find(data, after) if record.offset is not None else -1
    offset = record.offset + at if record.offset is not None and at >= 0 else None
    return Body(json_head(data, _kept_chars(source, offset)), len(data), digest(data), offset)


def _kept_chars(source: Source, offset: int | None) -> int:
    return source.head_chars if offset is not None else source.unplaced_chars


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


_parts = msgspec.json.Decoder(list[_Part])


def json_head(data: bytes, chars: int) -> str:
    """The first `chars` characters of the text in a JSON value, without decoding the rest of a long one.

    A string gives itself, a list of content parts the texts of its parts joined by newlines, null the empty
    text, anything else its JSON.
    """
    if data[:1] == b'"':
        return _string_head(data, chars)
    if data == b"null":
        return ""
    if data[:1] == b"[":
        try:
            parts = _parts.decode(data)
        except BAD_CONTENT:
            pass
        else:
            return "\n".join(part.text for part in parts if part.text)[:chars]
    return data[: chars * 4].decode("utf-8", "replace")[:chars]


def _string_head(data: bytes, chars: int) -> str:
    # A character takes at most 12 bytes in JSON (an escaped surrogate pair).
    if len(data) > chars * 12 + 16:
        data = data[: chars * 12 + 16]
        for _ in range(4):
            try:
                return str(msgspec.json.decode(data + b'"', type=str))[:chars]
            except BAD_CONTENT:
                # The slice split a character or an escape: cut before the last escape, or by a byte.
                escape = data.rfind(b"\\", len(data) - 6)
                data = data[:escape] if escape > 0 else data[:-1]
    try:
        return str(msgspec.json.decode(data, type=str))[:chars]
    except BAD_CONTENT:
        return data[1 : chars * 4].decode("utf-8", "replace")[:chars]


# --- reading a log on from where it was -------------------------------------------------------------------

MOST_STATE_BYTES = 256 << 10
_GENERATION = 1024
_ID_BYTES = 8
_SEAL_BYTES = 16


class Unsure(Exception):
    """The new lines may change what was told, or may not: only a whole read can say."""


class _Generation(msgspec.Struct):
    packed: bytes = b""
    """Eight bytes an id."""
    fresh: list[str] = []
    until: datetime | None = None
    """The newest time of any of them."""
    has_undated: bool = False

    def pack(self) -> None:
        self.packed += b"".join(map(_packed, self.fresh))
        self.fresh = []

    def has(self, packed: bytes) -> bool:
        at = self.packed.find(packed)
        while at % _ID_BYTES and at > 0:
            at = self.packed.find(packed, at + 1)
        return at >= 0


def _packed(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).digest()


class Known(msgspec.Struct):
    """The last one or two thousand ids of a kind that earlier reads came by, for a state: 16 KiB at most."""

    older: _Generation = msgspec.field(default_factory=_Generation)
    newer: _Generation = msgspec.field(default_factory=_Generation)
    forgotten_until: datetime | None = None
    """Of the ids that were let go, the newest time."""
    forgot_undated: bool = False

    def add(self, name: str, at: datetime | None) -> None:
        """Note an id, for the reads to come. at: the time of its line."""
        newer = self.newer
        newer.fresh.append(name)
        if at is None:
            newer.has_undated = True
        elif newer.until is None or at > newer.until:
            newer.until = at
        if len(newer.fresh) + len(newer.packed) // _ID_BYTES >= _GENERATION:
            gone = self.older
            if gone.until is not None and (self.forgotten_until is None or gone.until > self.forgotten_until):
                self.forgotten_until = gone.until
            self.forgot_undated = self.forgot_undated or gone.has_undated
            self.older, self.newer = newer, _Generation()

    @property
    def forgot(self) -> bool:
        """Whether any id was let go."""
        return self.forgotten_until is not None or self.forgot_undated

    def may_have_forgotten(self, at: datetime | None) -> bool:
        """Whether a line of this time may be a copy of one whose id was let go: copies keep their times."""
        return self.forgot_undated if at is None else self.forgotten_until is not None and at <= self.forgotten_until

    def so_far(self) -> Known:
        """What earlier reads noted, whatever this one adds."""
        older, newer = _Generation(self.older.packed), _Generation(self.newer.packed)
        return Known(older, newer, self.forgotten_until, self.forgot_undated)

    def has(self, name: str) -> bool:
        """Whether an earlier read noted this id: True is sure, False only while nothing was forgotten."""
        if not (self.newer.packed or self.older.packed):
            return False
        packed = _packed(name)
        return self.newer.has(packed) or self.older.has(packed)

    def pack(self) -> None:
        """Make it ready for a state."""
        self.older.pack()
        self.newer.pack()


def sealed(state: msgspec.Struct, version: str) -> bytes | None:
    """A state as bytes, with what shows later that they are whole and of this version; None when it is too large."""
    try:
        data = msgspec.msgpack.encode(state)
    except BAD_CONTENT:  # a number that does not fit
        return None
    return _seal(data, version) + data if len(data) <= MOST_STATE_BYTES - _SEAL_BYTES else None


def unsealed(data: bytes, shape: type[S], version: str) -> S:
    """The state in what `sealed` gave. Raises Unsure for anything else."""
    seal, content = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
    if seal != _seal(content, version):
        raise Unsure
    try:
        return msgspec.msgpack.decode(content, type=shape)
    except BAD_CONTENT:
        raise Unsure from None


def _seal(data: bytes, version: str) -> bytes:
    return blake2b(data, digest_size=_SEAL_BYTES, key=version.encode()).digest()


def limits_of(source: Source) -> str:
    """Digest of what a source decides about a session, but for its time: states of another one do not fit."""
    return digest(repr(source._replace(modified=None)).encode("utf-8", "surrogatepass"))
