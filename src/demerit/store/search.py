"""Full-text search over what was asked, answered, put into tools and got out of them, alike on both engines.

What a word is, is decided here, for texts and queries by the same code: the engines get text in which nothing is left
to decide. That text is what an SQLite index needs to forget a text again, so a change of `searchable` is a new
PARSE_EPOCH.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Float,
    Row,
    Select,
    cast,
    column,
    func,
    literal,
    literal_column,
    select,
    table,
    tuple_,
)
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR

from demerit.store.filters import Filter, conditions, with_signals
from demerit.store.reads import BadCursor, SessionRow, read_cursor, read_rows, written_cursor
from demerit.store.schema import sessions, texts, tool_calls
from demerit.store.texts import KEPT_HEAD_BYTES, TEXT_SPACE, unpacked_head

INDEX_CHARS = 32_768
"""Characters of a text that are searched. PostgreSQL knows no place beyond the 16,383rd word of a text."""
WORD_CHARS = 100
"""A longer word is a hash or a blob: nobody looks for it, and the index would be full of such."""
RANKED = 5_000
"""Hits that are compared with each other, the newest first: where a word is in every text, the rest is left out."""
SNIPPET_CHARS = 160
_BEFORE_CHARS = 50
_MOST_SNIPPET_CHARS = 400
_SHOWN = 3
_MOST_RESULTS = 200
_MOST_QUERY_CHARS = 1000
_MOST_TERMS = 32

_WEIGHTS = {"prompt": 4.0, "answer": 2.0, "input": 1.5}
"""What a hit counts for by the kind of its text; anything else counts 1."""


class BadQuery(ValueError):
    """Nothing can be searched by it. The message is one plain sentence."""


class Hit(msgspec.Struct, frozen=True):
    """One text in which everything that was looked for stands."""

    kind: str
    """`prompt`, `answer`, `input` or `output`."""
    text_id: int
    message: int
    """Ordinal of the first message that has it; the text is kept once where it repeats."""
    call: int | None
    tool: str | None
    snippet: str
    """The surroundings of the first place, on one line."""
    marks: tuple[tuple[int, int], ...]
    """From and to, in characters of the snippet, of what was looked for."""


class Found(msgspec.Struct, frozen=True):
    session: SessionRow
    hits: tuple[Hit, ...]
    """The best ones, best first."""
    count: int
    """Hits in this session, among those that were compared."""


class Hits(msgspec.Struct, frozen=True):
    results: tuple[Found, ...]
    """Best session first."""
    next: str | None
    """Where the next page begins; None: there is none."""
    is_cut: bool
    """More texts match than were compared: of those the newest were."""


# --- words -----------------------------------------------------------------------------------------------------

# Scripts without spaces between words, and Korean, whose words carry endings: they are found by pairs of letters.
_CJK = (
    "\u3005-\u3007\u3021-\u3029\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"  # Han
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b167"  # Kana
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"  # Hangul
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
_LETTER = rf"[^\W_{_CJK}]"
_WORD = re.compile(r"[^\W_]+")
_PIECE = re.compile(f"([{_CJK}]+)|{_LETTER}+")
# Each can only begin where the run does, so that no run is looked at twice.
_LONG_ASCII_RUN = re.compile(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{{{WORD_CHARS + 1},}}+")
_RUNS = bytes(120 if code > 127 or re.match(r"[A-Za-z0-9+/=_-]", chr(code)) else 32 for code in range(256))
_LONG = b"x" * (WORD_CHARS + 1)
# All that is not ASCII, but for dashes, quotes, arrows, boxes and pictures: in English texts most of it is these.
_SIGNS = "\u2000-\u206f\u2190-\u23ff\u2500-\u2bff\ufe0e\ufe0f\U0001f300-\U0001faff"
_OTHER_LETTERS = re.compile(f"[^\x00-\x7f{_SIGNS}]+")
_SHORT_RUN = 16
_LONG_RUN = re.compile(rf"(?<![\w+/=-])[\w+/=-]{{{WORD_CHARS + 1},}}+")
_JOINT = re.compile(r"[\W_]")
_MOST_MEAN_CHARS = 16  # of the words of a path or a long name; base64 has a + or a / at every 32nd letter
_DIACRITICS = re.compile("[\u0300-\u036f]+")
_HALVES = re.compile("[\ud800-\udfff]")


def searchable(text: str) -> str:
    """The words of a text, or of a query, as the index knows them: at most of its first INDEX_CHARS characters.

    Letters lose case (ASCII ones only in the index), diacritics and compatibility forms. A run of Chinese, Japanese or
    Korean letters becomes its overlapping pairs and its last letter, so that each of its letters begins a word. Words
    of more than WORD_CHARS letters are left out, and so is base64.
    """
    beginning = text[:INDEX_CHARS]
    if beginning.isascii():
        return _without_blobs(beginning)
    # `_split` of `_folded`, with one look at the text.
    return _without_blobs(_OTHER_LETTERS.sub(_fold_and_pair, beginning).lower()[: 2 * INDEX_CHARS])


def _folded(text: str) -> str:
    # Letter by letter: what ASCII letters stand beside changes nothing, and they are most of any text.
    return text if text.isascii() else _OTHER_LETTERS.sub(lambda run: _folded_run(run[0]), text).lower()


def _folded_run(run: str) -> str:
    return _fold(run) if len(run) > _SHORT_RUN else _fold_short(run)


def _fold(run: str) -> str:
    # Signs of Kana and syllables of Hangul are put together again: they are letters, no diacritics.
    bare = _DIACRITICS.sub("", unicodedata.normalize("NFKD", run.casefold()))
    return unicodedata.normalize("NFC", bare).casefold()


_fold_short = lru_cache(4096)(_fold)


def _split(folded: str) -> str:
    return _without_blobs(folded if folded.isascii() else _OTHER_LETTERS.sub(_pair, folded))


def _pair(run: re.Match[str]) -> str:
    return _paired(run[0])


def _fold_and_pair(run: re.Match[str]) -> str:
    return _paired(_folded_run(run[0]))


def _paired(run: str) -> str:
    return _CJK_RUN.sub(_pairs, _HALVES.sub(" ", run))


def _without_blobs(words: str) -> str:
    if "\0" in words:
        words = words.replace("\0", " ")
    # Hardly any text has a long run, and to see that so is much quicker than with the pattern.
    if _LONG not in words.encode("utf-8", "replace").translate(_RUNS):
        return words
    return (_LONG_ASCII_RUN if words.isascii() else _LONG_RUN).sub(_without_blob, words)


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join([run[at : at + 2] for at in range(len(run))])} "


def _without_blob(found: re.Match[str]) -> str:
    words = _JOINT.split(found[0])
    if len(found[0]) > _MOST_MEAN_CHARS * len(words):
        return " "
    return " ".join(word for word in words if len(word) <= WORD_CHARS)


# --- the index -------------------------------------------------------------------------------------------------


def index_texts(connection: Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Make texts findable: each its id, and the text that is kept."""
    index_words(connection, [(text_id, searchable(text)) for text_id, text in rows])


def index_words(connection: Connection, rows: list[tuple[int, str]]) -> None:
    """As `index_texts`, for texts of which `searchable` was asked before."""
    if connection.dialect.name == "sqlite":
        _execute_many(connection, "insert into search (rowid, body) values (?, ?)", rows)
    else:
        _execute_many(
            connection,
            "insert into search (rowid, body) values (%s, cast(%s as tsvector))",
            [(text_id, _vector(words)) for text_id, words in rows],
        )


def unindex_texts(connection: Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Take texts out of the index: each its id, and the very text that was put in."""
    if connection.dialect.name == "sqlite":
        _execute_many(
            connection,
            "insert into search (search, rowid, body) values ('delete', ?, ?)",
            [(text_id, searchable(text)) for text_id, text in rows],
        )
    else:
        _execute_many(connection, "delete from search where rowid = %s", [(text_id,) for text_id, _ in rows])


def _execute_many(connection: Connection, statement: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        connection.exec_driver_sql(statement, rows)


def _vector(words: str) -> str:
    """A tsvector as text. PostgreSQL's own parser takes paths and addresses for one word, and differs by its locale."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(_WORD.findall(words.lower()), 1):
        places.setdefault(word, []).append(str(place))
    return " ".join(f"'{word}':{','.join(at)}" for word, at in places.items())


# --- queries ---------------------------------------------------------------------------------------------------


class _Term(NamedTuple):
    """Words that follow each other."""

    words: tuple[str, ...]
    is_prefix: bool
    """The last of them is only the beginning of a word."""
    is_excluded: bool
    pattern: str
    """What it looks like in folded text."""


_TERM = re.compile(r'(?P<no>-(?=["\w]))?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))(?P<star>(?<=")\*)?')


def _terms(query: str) -> list[_Term]:
    """The terms of a query. Raises BadQuery when it has none to look for."""
    if len(query) > _MOST_QUERY_CHARS:
        raise BadQuery(f"the query is longer than {_MOST_QUERY_CHARS:,} characters; look for fewer words")
    found = []
    for part in _TERM.finditer(query):
        said = part["phrase"] if part["word"] is None else part["word"]
        is_prefix = bool(part["star"]) or (part["word"] is not None and re.search(r"\w\*$", said) is not None)
        term = _term(said, is_prefix, bool(part["no"]))
        if term is not None:
            found.append(term)
    if len(found) > _MOST_TERMS:
        raise BadQuery(f"the query has more than {_MOST_TERMS} words; leave some out, or quote what belongs together")
    if not found:
        raise BadQuery(
            f"there is nothing to look for in {query!r}: write a word with a letter or a digit"
            f" (words of more than {WORD_CHARS} letters are not indexed)"
        )
    if all(term.is_excluded for term in found):
        raise BadQuery(f"{query!r} says only what to leave out; write as well what to look for")
    return found


def _term(said: str, is_prefix: bool, is_excluded: bool) -> _Term | None:
    folded = _folded(said).lower()
    words = _WORD.findall(_split(folded))
    pieces = list(_PIECE.finditer(folded))
    if not words:
        return None
    last = pieces[-1]
    if last[1]:  # the text may go on where the query's last run of CJK letters ends
        is_prefix = len(last[1]) == 1
        words = words if is_prefix else words[:-1]
    pattern = "" if pieces[0][1] else rf"(?<!{_LETTER})"
    for at, piece in enumerate(pieces):
        if at:
            pattern += r"[\W_]+" if bool(piece[1]) == bool(pieces[at - 1][1]) else r"[\W_]*"
        pattern += re.escape(piece[0])
    if not last[1]:
        pattern += f"{_LETTER}*" if is_prefix else f"(?!{_LETTER})"
    return _Term(tuple(words), is_prefix, is_excluded, pattern)


def _fts5(terms: Sequence[_Term]) -> str:
    wanted, excluded = _apart(terms, lambda term: f'"{" ".join(term.words)}"{" *" if term.is_prefix else ""}')
    query = " AND ".join(wanted)
    return f"({query}) NOT ({' OR '.join(excluded)})" if excluded else query


def _tsquery(terms: Sequence[_Term]) -> str:
    wanted, excluded = _apart(
        terms,
        lambda term: "(" + " <-> ".join(f"'{word}'" for word in term.words) + (":*" if term.is_prefix else "") + ")",
    )
    return " & ".join([*wanted, *(f"!{phrase}" for phrase in excluded)])


def _apart(terms: Sequence[_Term], written: Any) -> tuple[list[str], list[str]]:
    return (
        [written(term) for term in terms if not term.is_excluded],
        [written(term) for term in terms if term.is_excluded],
    )


# --- search ----------------------------------------------------------------------------------------------------

_index = table("search", column("rowid", BigInteger), column("body", TSVECTOR))
_session_of_text: ColumnElement[int] = literal_column(f"(search.rowid / {TEXT_SPACE})", BigInteger)


class _Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a page ends."""

    rank: float
    session_id: int


def search(
    connection: Connection,
    query: str,
    chosen: Filter,
    limit: int = 20,
    after: str | None = None,
    kinds: Sequence[str] | None = None,
) -> Hits:
    """The sessions that have the query's words in one of their texts, best first.

    query: words that must all be there, `"quoted phrases"`, `-excluded` ones, and beginnings of words with a `*` at
    the end; everything else in it is taken as it stands.
    after: the `next` of the page before. kinds: kinds of text to look in; None: all.
    Raises BadQuery, and BadCursor.
    """
    terms = _terms(query)
    place = None if after is None else read_cursor(after, _Place)
    if connection.dialect.name == "postgresql":
        # The driver prepares what it runs often, and a plan for any word reads the whole table for a rare one.
        connection.exec_driver_sql("set local plan_cache_mode = force_custom_plan")
    matches = connection.execute(_ranked(connection, terms, chosen, kinds)).all()
    rows = sorted(matches, key=lambda row: -row.id)[:RANKED]
    best: dict[int, list[tuple[float, Row[Any]]]] = {}
    for row in rows:
        rank = abs(row.rank) * _WEIGHTS.get(row.kind, 1.0)
        best.setdefault(row.id // TEXT_SPACE, []).append((rank, row))
    for ranked in best.values():
        ranked.sort(key=lambda hit: (-hit[0], hit[1].id))
    order = sorted((-ranked[0][0], -session_id) for session_id, ranked in best.items())
    if place is not None:
        order = [key for key in order if key > (-place.rank, -place.session_id)]
    limit = max(1, min(limit, _MOST_RESULTS))
    page = [(-session_id, -rank) for rank, session_id in order[:limit]]
    shown = read_rows(connection, [session_id for session_id, _ in page])
    hits = _hits(connection, [hit[1] for session_id, _ in page for hit in best[session_id][:_SHOWN]], terms)
    return Hits(
        results=tuple(
            Found(
                shown[session_id],
                tuple(hits[row.id] for _, row in best[session_id][:_SHOWN]),
                len(best[session_id]),
            )
            for session_id, _ in page
        ),
        next=written_cursor(_Place(page[-1][1], page[-1][0])) if len(order) > limit else None,
        is_cut=len(matches) > RANKED,
    )


def _ranked(connection: Connection, terms: Sequence[_Term], chosen: Filter, kinds: Sequence[str] | None) -> Select[Any]:
    """The newest texts that match, with the engine's rank: on SQLite the lower the better, on PostgreSQL the higher."""
    # As a condition for each hit, not as a join: an index on sessions must never become the outer loop.
    wanted = [
        select(literal(1))
        .select_from(with_signals)
        .where(sessions.c.id == _session_of_text, *conditions(chosen))
        .exists()
    ]
    if kinds is not None:
        wanted.append(
            select(literal(1))
            .select_from(texts)
            .where(texts.c.id == literal_column("search.rowid"), texts.c.kind.in_(kinds))
            .exists()
        )
    if connection.dialect.name == "sqlite":
        whole: ColumnElement[Any] = literal_column("search")
        ranked = (
            select(_index.c.rowid, func.bm25(whole, type_=Float).label("rank"))
            .where(whole.op("match")(_fts5(terms)), *wanted)
            .order_by(_index.c.rowid.desc())
            .limit(RANKED + 1)
            .cte("ranked")
        )
    else:
        asked = cast(_tsquery(terms), TSQUERY)
        newest = (
            select(_index.c.rowid, _index.c.body)
            .where(_index.c.body.op("@@")(asked), *wanted)
            .order_by(_index.c.rowid.desc())
            .limit(RANKED + 1)
            .cte("newest")
            .prefix_with("materialized", dialect="postgresql")
        )
        # 1: a hit in a long text counts for less, as it does with bm25.
        ranked = select(newest.c.rowid, func.ts_rank_cd(newest.c.body, asked, 1, type_=Float).label("rank")).cte(
            "ranked"
        )
    return select(ranked.c.rank, texts.c.id, texts.c.kind, texts.c.message_ordinal, texts.c.call_index).join_from(
        ranked, texts, texts.c.id == ranked.c.rowid
    )


def _hits(connection: Connection, rows: Sequence[Row[Any]], terms: Sequence[_Term]) -> dict[int, Hit]:
    """What is shown of these texts, by their ids."""
    if not rows:
        return {}
    head = func.substr(texts.c.data, 1, 2 * KEPT_HEAD_BYTES)
    kept = connection.execute(select(texts.c.id, head).where(texts.c.id.in_([row.id for row in rows])))
    heads = {row[0]: bytes(row[1]) for row in kept}
    tools = _tools(connection, rows)
    pattern = re.compile("|".join(f"(?:{term.pattern})" for term in terms if not term.is_excluded))
    found = {}
    for row in rows:
        text = unpacked_head(heads[row.id], 4 * INDEX_CHARS).text[:INDEX_CHARS]
        shown = snippet(text, places(text, pattern))
        tool = (
            None if row.call_index is None else tools.get((row.id // TEXT_SPACE, row.message_ordinal, row.call_index))
        )
        found[row.id] = Hit(row.kind, row.id, row.message_ordinal, row.call_index, tool, *shown)
    return found


def _tools(connection: Connection, rows: Sequence[Row[Any]]) -> dict[tuple[int, int, int], str]:
    """The names of the tools that these texts went into or came out of, by session, message and call."""
    calls = [(row.id // TEXT_SPACE, row.message_ordinal, row.call_index) for row in rows if row.call_index is not None]
    if not calls:
        return {}
    key = (tool_calls.c.session_id, tool_calls.c.message_ordinal, tool_calls.c.call_index)
    named = connection.execute(select(*key, tool_calls.c.name).where(tuple_(*key).in_(calls)))
    return {(session, message, call): name for session, message, call, name in named}


# --- snippets --------------------------------------------------------------------------------------------------

_ASCII = re.compile(r"[\x00-\x7f]+")
_SPACE = re.compile(r"\s+")


def places(text: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """From and to, in characters of the text as it is, of what a pattern for folded text finds."""
    if text.isascii():
        return [found.span() for found in pattern.finditer(text.lower())]
    letters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in _clusters(text):
        piece = text[start:end]
        if piece.isascii():
            letters.append(piece.lower())
            starts.extend(range(start, end))
            ends.extend(range(start + 1, end + 1))
        else:
            folded = _folded_cluster(piece)
            letters.append(folded)
            starts.extend([start] * len(folded))
            ends.extend([end] * len(folded))
    return [
        (starts[found.start()], ends[found.end() - 1])
        for found in pattern.finditer("".join(letters))
        if found.end() > found.start()
    ]


@lru_cache(maxsize=4096)
def _folded_cluster(piece: str) -> str:
    return _folded(piece).lower()


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text that can be folded each for itself: runs of ASCII, and letters with what stands on them."""
    at, size = 0, len(text)
    while at < size:
        run = _ASCII.match(text, at)
        if run:
            yield at, run.end()
            at = run.end()
            continue
        end = at + 1
        while end < size and _belongs(text[end - 1], text[end]):
            end += 1
        yield at, end
        at = end


def _belongs(before: str, letter: str) -> bool:
    """Whether folding may join a letter with the one before: signs, and the parts of a Korean syllable."""
    return (
        unicodedata.combining(letter) > 0
        or letter in "\uff9e\uff9f"
        or ("\u1100" <= before <= "\u11ff" and "\u1161" <= letter <= "\u11ff")
        or ("\uac00" <= before <= "\ud7a3" and "\u11a8" <= letter <= "\u11ff")
    )


def snippet(text: str, marks: Sequence[tuple[int, int]]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """About SNIPPET_CHARS characters around the first mark, on one line, and the marks in it.

    Cut between words where there are spaces, with an ellipsis; the text's beginning when nothing is marked.
    """
    first, last = marks[0] if marks else (0, 0)
    start, end = _cut(text, first, last)
    parts: list[str] = ["…"] if text[:start].strip() else []
    size = len(parts)
    kept: list[tuple[int, int]] = []
    at = start
    for begin, stop in marks:
        if begin >= end:
            break
        stop = min(stop, end)
        before, within = _SPACE.sub(" ", text[at:begin]), _SPACE.sub(" ", text[begin:stop])
        parts += (before, within)
        kept.append((size + len(before), size + len(before) + len(within)))
        size = kept[-1][1]
        at = stop
    parts.append(_SPACE.sub(" ", text[at:end]))
    if text[end:].strip():
        parts.append("…")
    return "".join(parts), tuple(kept)


def _cut(text: str, first: int, last: int) -> tuple[int, int]:
    """Where a snippet begins and ends that shows the text from `first` to `last`."""
    start = max(0, first - _BEFORE_CHARS)
    if start:
        space = _SPACE.search(text, start, first)
        start = space.end() if space else start
    end = min(len(text), max(start + SNIPPET_CHARS, min(last, start + _MOST_SNIPPET_CHARS)))
    if end < len(text):
        gap = max(
            (space.start() for space in _SPACE.finditer(text, max(last, start + SNIPPET_CHARS // 2), end)), default=0
        )
        end = gap or end
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


__all__ = ["BadCursor", "BadQuery", "Found", "Hit", "Hits", "index_texts", "search", "searchable", "unindex_texts"]
