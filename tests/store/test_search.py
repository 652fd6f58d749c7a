"""What is found, on both engines alike, in which order, and what is shown of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, select, text
from tests.store.servers import fresh_database
from tests.store.test_reads import put_call, put_session, put_signals, put_text

from demerit.model import PARSE_EPOCH
from demerit.store import Store
from demerit.store import search as searching
from demerit.store.filters import Filter
from demerit.store.schema import texts
from demerit.store.search import (
    INDEX_CHARS,
    RANKED,
    BadCursor,
    BadQuery,
    Found,
    Hits,
    index_texts,
    search,
    searchable,
    unindex_texts,
)
from demerit.store.texts import packed


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


def put_said(connection: Connection, session: int, number: int, said: str, kind: str = "prompt", **values: Any) -> None:
    """A text of a session, in the index."""
    index_texts(connection, [(put_text(connection, session, number, said, kind, is_indexed=True, **values), said)])


def kept(store: Store, *said: str) -> None:
    """A session for each text, numbered from 1."""
    with store.writing() as connection:
        for number, one in enumerate(said, 1):
            put_session(connection, number)
            put_said(connection, number, 0, one)


def found(store: Store, query: str, chosen: Filter | None = None, **options: Any) -> Hits:
    with store.reading() as connection:
        return search(connection, query, chosen or Filter(), **options)


def numbers(store: Store, query: str, **options: Any) -> set[int]:
    return {result.session.id for result in found(store, query, **options).results}


def marked(result: Found) -> list[str]:
    """What is marked in the best hit."""
    hit = result.hits[0]
    return [hit.snippet[start:end] for start, end in hit.marks]


# --- words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param("Fix the Parser, please: a/b.py", "Fix the Parser, please: a/b.py", id="ASCII stays as it is"),
        pytest.param("a\0b", "a b", id="no NUL"),
        pytest.param("Café NAÏVE", "cafe naive", id="no diacritics, no case"),
        pytest.param("Cafe\u0301", "cafe", id="nor diacritics that stand apart"),
        pytest.param("\uff21\uff22\uff23", "abc", id="no wide letters"),
        pytest.param("東京都", " 東京 京都 都 ", id="pairs of letters, and the last one"),
        pytest.param("字", " 字 ", id="a single letter"),
        pytest.param("見るAPIを", " 見る る api を ", id="runs between other letters"),
        pytest.param("がんばれ", " がん んば ばれ れ ", id="a sign of Kana is no diacritic"),
        pytest.param("한국어", " 한국 국어 어 ", id="Hangul keeps its syllables"),
        pytest.param("a" * 101 + " b", "  b", id="no blob"),
        pytest.param("x " + "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cX9/" * 4 + " y", "x   y", id="no base64"),
        pytest.param("/very/long/path" * 10, "/very/long/path" * 10, id="a long path is made of words"),
        pytest.param("é" * 101 + " b", "  b", id="no blob of other letters"),
    ],
)
def test_words(said: str, words: str) -> None:
    # A long run is put together again from its words, so that a path's separators become spaces.
    assert searchable(said).replace("/", " ").strip() == words.replace("/", " ").strip()


def test_only_the_beginning_of_a_text_is_searched() -> None:
    assert searchable("a " * INDEX_CHARS) == "a " * (INDEX_CHARS // 2)
    assert len(searchable("ﷺ" * INDEX_CHARS)) <= 2 * INDEX_CHARS, "one letter that stands for eighteen"


@pytest.mark.parametrize("letter", ["a", " ", "+", "-", "é", "日", "a+", "a ", "\u0301", "ｶ", "\u1100"])
def test_words_take_linear_time(letter: str) -> None:
    begin = time.perf_counter()
    searchable(letter * INDEX_CHARS)
    assert time.perf_counter() - begin < 1


# --- what is found ---------------------------------------------------------------------------------------------

TEXTS = (
    "Fix the failing parser",  # 1
    "the café is closed",  # 2
    "cafe\u0301 and CAFETERIA",  # 3
    "日本語のテキストを検索する",  # 4
    "日本酒",  # 5
    "see src/demerit/store/search.py:42 for def search_texts(a, b)",  # 6
    "AND OR NOT NEAR",  # 7
    "parser of failing tests",  # 8
    "한국어 문서를 찾는다",  # 9
    "x" * 200,  # 10
    "本日",  # 11
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("parser", {1, 8}, id="a word"),
        pytest.param("PARSER failing", {1, 8}, id="all words, in any order and case"),
        pytest.param('"failing parser"', {1}, id="a phrase"),
        pytest.param('"failing parser', {1}, id="a phrase that is not closed"),
        pytest.param("parser -fix", {8}, id="not with a word"),
        pytest.param('parser -"failing parser"', {8}, id="not with a phrase"),
        pytest.param("fail", set(), id="no part of a word"),
        pytest.param("fail*", {1, 8}, id="the beginning of a word"),
        pytest.param('"the fail"*', {1}, id="a phrase with the beginning of a word"),
        pytest.param("cafe", {2, 3}, id="without diacritics"),
        pytest.param("CAFÉ", {2, 3}, id="with diacritics"),
        pytest.param("caf*", {2, 3}, id="a beginning before a diacritic"),
        pytest.param("日本", {4, 5}, id="Japanese"),
        pytest.param("日本語", {4}, id="Japanese, more than two letters"),
        pytest.param("検索する", {4}, id="Japanese, at the end"),
        pytest.param("本語の", {4}, id="Japanese, within a run"),
        pytest.param("酒", {5}, id="a single letter at the end of a run"),
        pytest.param("本", {4, 5, 11}, id="a single letter anywhere"),
        pytest.param("日本 検索", {4}, id="two Japanese words"),
        pytest.param("ﾃｷｽﾄ", {4}, id="half-width Kana"),
        pytest.param("한국", {9}, id="Korean without its ending"),
        pytest.param("src/demerit/store", {6}, id="a path is a phrase"),
        pytest.param("search.py:42", {6}, id="a colon is no column"),
        pytest.param("search_texts(a", {6}, id="a parenthesis opens nothing"),
        pytest.param("search_te*", {6}, id="the beginning of a name"),
        pytest.param("AND", {3, 7}, id="an operator is a word"),
        pytest.param("NOT NEAR", {7}, id="two of them"),
        pytest.param("parser OR cafe", set(), id="an operator between words is one more word"),
        pytest.param("NEAR(parser failing, 2)", set(), id="a function is words"),
        pytest.param("body : parser", set(), id="a column's name is a word"),
        pytest.param("^parser", {1, 8}, id="a sign of FTS5"),
        pytest.param("parser & ! | <-> :*", {1, 8}, id="signs of PostgreSQL"),
        pytest.param("parser '", {1, 8}, id="a quote"),
        pytest.param("--fix", {1}, id="two dashes leave nothing out"),
        pytest.param('parser \0 * - ""', {1, 8}, id="what says nothing is passed over"),
        pytest.param("parser " + "x" * 200, {1, 8}, id="a word that is too long to be indexed is passed over"),
    ],
)
def test_a_query_finds(all_texts: Store, query: str, expected: set[int]) -> None:
    assert numbers(all_texts, query) == expected


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def all_texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Only read from, so that all queries share it."""
    url: AbstractContextManager[str]
    if request.param == "sqlite":
        url = nullcontext(f"sqlite:///{tmp_path_factory.mktemp('search') / 'demerit.db'}")
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
    with url as name, Store.open(name) as opened:
        kept(opened, *TEXTS)
        yield opened


@pytest.mark.parametrize(
    ("query", "said"),
    [
        pytest.param("", "nothing to look for", id="empty"),
        pytest.param(' "*" -- ( ', "nothing to look for", id="signs only"),
        pytest.param("x" * 101, "more than 100 letters are not indexed", id="a word that is too long"),
        pytest.param("-a -b", "only what to leave out", id="exclusions only"),
        pytest.param("a " * 33, "more than 32 words", id="too many words"),
        pytest.param("a" * 1001, "longer than 1,000 characters", id="too long"),
    ],
)
def test_a_query_that_asks_for_nothing_is_told(tmp_path: Any, query: str, said: str) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'demerit.db'}") as store, pytest.raises(BadQuery, match=said) as error:
        found(store, query)
    assert isinstance(error.value, ValueError)


SAID = st.text(alphabet="ab Aé\u0301_-.\"'*日本語カﾞが한1\n", max_size=12)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(SAID, min_size=1, max_size=6), query=SAID)
def test_what_is_found_is_what_can_be_marked(store: Store, said: list[str], query: str) -> None:
    """The index, which knows words, and the marks, which are made from the text as it is, agree on every text."""
    try:
        terms = searching._terms(query)
    except BadQuery:
        return
    with store.writing() as connection:
        connection.execute(delete(texts))
        connection.execute(text("delete from logs"))
        for number, one in enumerate(said, 1):
            put_session(connection, number)
            put_said(connection, number, 0, one)
        result = search(connection, query, Filter(), limit=50)
        unindex_texts(connection, [(number << 24, one) for number, one in enumerate(said, 1)])
    expected = {
        number
        for number, one in enumerate(said, 1)
        if all(bool(searching.places(one, re.compile(term.pattern))) != term.is_excluded for term in terms)
    }
    assert {one.session.id for one in result.results} == expected
    assert all(found.hits[0].marks for found in result.results), "what is found is marked"


def test_what_is_taken_out_is_found_no_more(store: Store) -> None:
    kept(store, "one thing", "one more thing")
    with store.writing() as connection:
        unindex_texts(connection, [(1 << 24, "one thing")])
    assert numbers(store, "thing") == {2}
    with store.writing() as connection:
        index_texts(connection, [(1 << 24, "another thing")])
        unindex_texts(connection, [])
    assert numbers(store, "thing") == {1, 2}
    assert numbers(store, "one") == {2}


def test_a_text_of_nothing_but_different_words_fits(store: Store) -> None:
    han = "".join(chr(0x4E00 + at % 20_000) for at in range(INDEX_CHARS))
    kept(store, han, "\U00020000" * INDEX_CHARS, " ".join(f"w{at}" for at in range(INDEX_CHARS)))
    assert numbers(store, han[5000:5010]) == {1}
    assert numbers(store, "w4000") == {3}


# --- order, pages, filter --------------------------------------------------------------------------------------


def test_the_kind_of_text_counts_and_a_session_comes_once(store: Store) -> None:
    with store.writing() as connection:
        for number, kind in enumerate(("output", "input", "answer", "prompt"), 1):
            put_session(connection, number)
            put_said(connection, number, 0, "the broken build", kind)
        for number in range(1, 6):
            put_said(connection, 1, number, "the broken build", "output", message_ordinal=number)
        for filler in range(20):
            put_said(connection, 4, 1 + filler, "nothing", "answer")
    hits = found(store, "broken")
    assert [result.session.id for result in hits.results] == [4, 3, 2, 1]
    last = hits.results[-1]
    assert (last.count, [hit.message for hit in last.hits]) == (6, [0, 1, 2])
    assert numbers(store, "broken", kinds=["input", "output"]) == {1, 2}
    assert not hits.is_cut


def test_a_hit_in_a_call_names_its_tool(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1)
        put_call(connection, 3, 1, name="Grep")
        put_said(connection, 1, 7, "no such needle", "output", message_ordinal=3, call_index=1)
        put_said(connection, 1, 8, "needle", "input", message_ordinal=4, call_index=0)
    by_kind = {hit.kind: hit for hit in found(store, "needle").results[0].hits}
    output = by_kind["output"]
    assert (output.message, output.call, output.tool, output.text_id) == (3, 1, "Grep", (1 << 24) + 7)
    assert by_kind["input"].tool is None, "its call is not kept"


def test_pages_give_each_session_once_in_one_order(store: Store) -> None:
    # All equal, so that only their numbers order them, but for one that has the word in few words.
    kept(store, *["needle and some hay"] * 5, "needle")
    whole = [result.session.id for result in found(store, "needle").results]
    assert whole == [6, 5, 4, 3, 2, 1]
    for limit in (1, 2, 4):
        paged: list[int] = []
        after = None
        while True:
            page = found(store, "needle", limit=limit, after=after)
            paged += [result.session.id for result in page.results]
            after = page.next
            if after is None:
                break
        assert paged == whole
    with pytest.raises(BadCursor):
        found(store, "needle", after="WzFd")


def test_only_chosen_sessions_that_count_are_found(store: Store) -> None:
    with store.writing() as connection:
        for number in range(1, 6):
            values: dict[str, Any] = {4: {"copy_of": 1}, 5: {"epoch": PARSE_EPOCH + 1}}.get(number, {})
            put_session(connection, number, agent="pi" if number == 2 else "codex", **values)
            put_said(connection, number, 0, "needle")
        put_signals(connection, 3, 95)
    assert numbers(store, "needle") == {1, 2, 3}
    assert numbers(store, "needle", chosen=Filter(agent="pi")) == {2}
    assert numbers(store, "needle", chosen=Filter(grade="A")) == {3}
    assert numbers(store, "needle", chosen=Filter(grade="unscored", agent="codex")) == {1}


def test_of_too_many_hits_the_newest_are_compared(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert RANKED >= 1000
    monkeypatch.setattr(searching, "RANKED", 2)
    kept(store, "needle", "needle", "needle")
    hits = found(store, "needle")
    assert ([result.session.id for result in hits.results], hits.is_cut) == ([3, 2], True)
    assert not found(store, "needle", Filter(agent="codex", until=None), kinds=["answer"]).is_cut


# --- snippets --------------------------------------------------------------------------------------------------


def snippet_of(query: str, said: str) -> tuple[str, list[str]]:
    """What is shown of a text, and what of it is marked."""
    pattern = re.compile("|".join(term.pattern for term in searching._terms(query)))
    shown, marks = searching.snippet(said, searching.places(said, pattern))
    return shown, [shown[start:end] for start, end in marks]


@pytest.mark.parametrize(
    ("query", "said", "shown", "marks"),
    [
        pytest.param("needle", "a needle", "a needle", ["needle"], id="a short text is shown whole"),
        pytest.param("b", "a\n\n\tB  c", "a B c", ["B"], id="on one line"),
        pytest.param(
            "caf*",
            "Un Café, two CAFE\u0301S",
            "Un Café, two CAFE\u0301S",
            ["Café", "CAFE\u0301S"],
            id="as it was written",
        ),
        pytest.param("日本 テキスト", "この日本語のﾃｷｽﾄ", "この日本語のﾃｷｽﾄ", ["日本", "ﾃｷｽﾄ"], id="within words"),
        pytest.param('"a b"', "b a -- b a", "b a -- b a", ["a -- b"], id="a phrase over signs"),
        pytest.param("ss", "Straße ß", "Straße ß", ["ß"], id="one letter that is two"),
        pytest.param("a", "İ a", "İ a", ["a"], id="after a letter that is two in lower case"),
        pytest.param("한", "한국", "한국", ["한"], id="syllables that are written in parts"),
    ],
)
def test_a_snippet(query: str, said: str, shown: str, marks: list[str]) -> None:
    assert snippet_of(query, said) == (shown, marks)


def test_a_snippet_of_a_long_text_is_cut_between_words() -> None:
    shown, marks = snippet_of("needle", "hay " * 500 + "needle " + "hay " * 500)
    assert shown.startswith("…hay ") and shown.endswith(" hay…")
    assert marks == ["needle"]
    assert 140 <= len(shown) <= 170


def test_a_snippet_of_a_long_run_is_cut_anywhere() -> None:
    shown, marks = snippet_of("針", "草" * 500 + "針" + "草" * 500)
    assert (len(shown), marks) == (162, ["針"])


def test_a_snippet_stays_short_however_long_the_match_is() -> None:
    shown, marks = snippet_of('"a b"', "a" + "-" * 30_000 + "b")
    assert len(shown) <= 402 and len(marks) == 1


@given(said=st.text(max_size=300), query=SAID)
def test_marks_lie_in_the_snippet_and_never_overlap(said: str, query: str) -> None:
    try:
        pattern = re.compile("|".join(term.pattern for term in searching._terms(query)))
    except BadQuery:
        return
    places = searching.places(said, pattern)
    shown, marks = searching.snippet(said, places)
    edges = [edge for mark in marks for edge in mark]
    assert edges == sorted(edges)
    assert not edges or (edges[0] >= 0 and edges[-1] <= len(shown))
    assert "\n" not in shown


@given(said=st.text(max_size=60) | SAID)
def test_a_text_folds_to_the_same_letters_in_parts_and_as_a_whole(said: str) -> None:
    parts = "".join(searching._folded(said[start:end]) for start, end in searching._clusters(said))
    assert parts.lower() == searching._folded(said).lower()


def test_a_text_that_is_kept_in_part_and_a_session_that_is_gone(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1)
        put_said(connection, 1, 0, "a needle", bytes=10_000_000)
        index_texts(connection, [(9 << 24, "a needle")])  # of a session that is no more
        assert connection.execute(select(texts.c.data)).scalar() == packed("a needle")
    hits = found(store, "needle")
    assert [result.session.id for result in hits.results] == [1]
    assert marked(hits.results[0]) == ["needle"]
