"""The list of sessions in pages, a session by its names, and its transcript in windows."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from sqlalchemy import Boolean, Connection, LargeBinary, Table, Text, event, insert, update

from demerit.model import PARSE_EPOCH, Body, CallStatus, Message, Session, ToolCall
from demerit.quality import SIGNALS_VERSION, Report, assess
from demerit.store import Store, StoreError
from demerit.store.filters import Filter, microseconds
from demerit.store.reads import (
    HEAD_BYTES,
    BadCursor,
    Copy,
    EventView,
    Mark,
    NotFound,
    PromptMarks,
    Sort,
    TurnView,
    count_sessions,
    find_session,
    list_sessions,
    read_rows,
    read_session,
    read_text,
    read_transcript,
)
from demerit.store.schema import (
    events,
    logs,
    messages,
    projects,
    session_defects,
    session_reports,
    session_signals,
    sessions,
    texts,
    tool_calls,
    usage_events,
    verdicts,
)
from demerit.store.texts import KEPT_HEAD_BYTES, TEXT_SPACE, packed, packed_bytes, unpacked, unpacked_head

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def put(connection: Connection, table: Table, **values: Any) -> None:
    """Insert a row; a column that is not named and may not be NULL gets a nothing of its kind."""
    row = {
        column.name: ""
        if isinstance(column.type, Text)
        else False
        if isinstance(column.type, Boolean)
        else b""
        if isinstance(column.type, LargeBinary)
        else 0
        for column in table.columns
        if not column.nullable
    }
    connection.execute(insert(table).values({**row, **values}))


def put_session(connection: Connection, number: int, **values: Any) -> None:
    """A session that counts, in a log of its own; `at` is when it began."""
    at = values.pop("at", NOON)
    put(connection, logs, id=number, key=f"log {number}", path=f"/logs/{number}.jsonl")
    row = {
        "agent": "codex",
        "source_id": f"session-{number}",
        "models": "[]",
        "untold": "[]",
        "losses": "{}",
        "advice": "[]",
        "epoch": PARSE_EPOCH,
        "started_us": None if at is None else microseconds(at),
        "last_us": None if at is None else microseconds(at),
    }
    put(connection, sessions, **{**row, **values, "id": number, "log_id": number})


def put_signals(
    connection: Connection, number: int, score: int | None = None, *, report: bytes | None = None, **values: Any
) -> None:
    grade = (
        None
        if score is None
        else next(name for name, floor in zip("ABCDF", (90, 75, 60, 40, 0), strict=True) if score >= floor)
    )
    row = {"version": SIGNALS_VERSION, "outcome": "completed", "confidence": "high", "score": score, "grade": grade}
    put(connection, session_signals, **{**row, **values, "session_id": number})
    if report is not None:
        put(connection, session_reports, session_id=number, data=report)


def put_text(connection: Connection, session: int, number: int, said: str, kind: str = "prompt", **values: Any) -> int:
    """A text of a session; its id."""
    text_id = session * TEXT_SPACE + number
    data = {"data": packed(said), "bytes": len(said.encode()), "digest": str(text_id), "kind": kind, **values}
    put(connection, texts, id=text_id, session_id=session, **data)
    return text_id


def put_message(connection: Connection, ordinal: int, session: int = 1, **values: Any) -> None:
    row = {"role": "assistant", "author": "agent", "session_id": session, "ordinal": ordinal}
    put(connection, messages, **{**row, **values})


def put_prompt(connection: Connection, ordinal: int, digest: int, short: bool = False, **values: Any) -> None:
    facts = {"prompt_version": 1, "prompt_short": short, "prompt_no_code": False, "prompt_greeting": False}
    put_message(connection, ordinal, role="user", author="human", prompt_digest=digest, **facts, **values)


def put_request(connection: Connection, place: int, ordinal: int | None, size: int | None, **values: Any) -> None:
    """A request of session 1; size: of its context, None where it tells none."""
    row = {"session_id": 1, "place": place, "message_ordinal": ordinal, "context_tokens": size, "is_counted": True}
    put(connection, usage_events, **{**row, **values})


def put_call(connection: Connection, ordinal: int, index: int = 0, session: int = 1, **values: Any) -> None:
    row = {"name": "Bash", "category": "shell", "status": "ok", "is_counted": True}
    put(
        connection,
        tool_calls,
        **{**row, **values, "session_id": session, "message_ordinal": ordinal, "call_index": index},
    )


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    """For what differs on no engine."""
    with Store.open(f"sqlite:///{tmp_path / 'demerit.db'}") as opened:
        yield opened


def listed(store: Store, chosen: Filter | None = None, **options: Any) -> list[int]:
    """The ids of all pages."""
    found: list[int] = []
    after = None
    while True:
        with store.reading() as connection:
            page = list_sessions(connection, chosen or Filter(), after=after, **options)
        found += [row.id for row in page.rows]
        after = page.next
        if after is None:
            return found
        assert page.rows, "a page that leads on is never empty"


# --- the list --------------------------------------------------------------------------------------------------

# The key of each session, by each order: some are equal, some are not there.
KEYS: dict[str, list[float | None]] = {
    "started": [30, 10, None, 30, 20, None, 30],
    "score": [90, None, 41, 90, None, 100, 90],
    "duration": [5, 5, None, 0, 7, 5, None],
    "cost": [0.1, None, 0.1, 2.5, 1e-9, None, 0.1],
    "tokens": [None, 900, 900, 0, None, 1_000_000_000_000, 900],
    "messages": [3, 3, 1, 2, 3, 3, 1],
}


def put_keys(connection: Connection) -> None:
    for at in range(7):
        number = at + 1
        key = {name: values[at] for name, values in KEYS.items()}
        start = None if key["started"] is None else microseconds(NOON + timedelta(minutes=key["started"]))
        # Times that say nothing of the start: what a session without times is sorted by is `last_us`.
        times = {"started_us": None, "last_us": start}
        put_session(
            connection, number, **times, messages=key["messages"], cost_usd=key["cost"], **tokens(key["tokens"])
        )
        put_signals(connection, number, None if key["score"] is None else int(key["score"]))


def tokens(total: float | None) -> dict[str, int | None]:
    if total is None:
        return {"input_tokens": None, "output_tokens": None}
    # All four classes count; the part of the cache that was written for an hour is in the third already.
    whole = int(total)
    return {
        "input_tokens": whole - whole // 2,
        "cache_read_tokens": whole // 2,
        "cache_write_tokens": 0,
        "cache_write_1h_tokens": 0,
        "output_tokens": 0,
    }


@pytest.mark.parametrize("sort", [sort for sort in get_args(Sort) if sort != "duration"])
def test_pages_of_any_size_give_each_session_once_and_those_without_a_key_last(store: Store, sort: Sort) -> None:
    with store.writing() as connection:
        put_keys(connection)
    values = dict(enumerate(KEYS[sort], 1))
    with_key = sorted((value, number) for number, value in values.items() if value is not None)
    without = [number for number, value in values.items() if value is None]
    upward = [number for _, number in with_key] + without
    downward = [number for _, number in reversed(with_key)] + without[::-1]
    for limit in (1, 2, 3, 7, 50):
        assert listed(store, sort=sort, descending=False, limit=limit) == upward
        assert listed(store, sort=sort, descending=True, limit=limit) == downward


def test_sessions_by_length_where_one_without_an_end_has_none(store: Store) -> None:
    with store.writing() as connection:
        for number, minutes in ((1, 5), (2, None), (3, 90), (4, 5)):
            ended = None if minutes is None else microseconds(NOON + timedelta(minutes=minutes))
            put_session(connection, number, ended_us=ended)
    assert listed(store, sort="duration", limit=1) == [3, 4, 1, 2]
    assert listed(store, sort="duration", descending=False, limit=1) == [1, 4, 3, 2]


def test_a_session_that_comes_in_between_two_pages_moves_nothing(store: Store) -> None:
    with store.writing() as connection:
        for number in (1, 2, 3):
            put_session(connection, number, at=NOON + timedelta(minutes=number))
    with store.reading() as connection:
        first = list_sessions(connection, Filter(), limit=2)
    with store.writing() as connection:
        put_session(connection, 4, at=NOON + timedelta(hours=1))
    with store.reading() as connection:
        second = list_sessions(connection, Filter(), limit=2, after=first.next)
    assert [row.id for page in (first, second) for row in page.rows] == [3, 2, 1]
    assert second.next is None


@pytest.mark.parametrize("sort", get_args(Sort))
def test_a_page_is_read_from_its_place_in_an_index(sqlite: Store, sort: Sort) -> None:
    with sqlite.writing() as connection:
        put_keys(connection)
        connection.execute(update(sessions).values(started_us=sessions.c.id, ended_us=2 * sessions.c.id))
    for descending in (True, False):
        with sqlite.reading() as connection:
            first = list_sessions(connection, Filter(), sort, descending, limit=1)
            with statements(connection) as ran:
                list_sessions(connection, Filter(), sort, descending, limit=1, after=first.next)
            plan = plans(connection, ran[:1])
        assert not any("TEMP B-TREE" in step or step.startswith("SCAN") for step in plan), plan
        assert re.search(r"=\? AND \S+[<>]\?", plan[0]), plan


def cursor(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("", id="nothing"),
        pytest.param("é!", id="no base64"),
        pytest.param(cursor("started"), id="another JSON value"),
        pytest.param(cursor(["started", True, 1]), id="a place without an id"),
        pytest.param(cursor(["started", True, "1", 1]), id="a key of another kind"),
        pytest.param(cursor(["started", True, 2**63, 1]), id="a number that no database takes"),
        pytest.param(cursor(["started", True, 1.5, 1]), id="a fraction where there are none"),
        pytest.param(cursor(["score", True, 90, 1]), id="a place in another order"),
        pytest.param(cursor(["started", False, 90, 1]), id="a place in the other direction"),
        pytest.param(base64.urlsafe_b64encode(b'["started",true,1e999,1]').decode(), id="a number without end"),
    ],
)
def test_a_place_that_no_page_gave_is_refused_in_one_sentence(sqlite: Store, after: str) -> None:
    with sqlite.reading() as connection, pytest.raises(BadCursor, match="begin again at the first page") as error:
        list_sessions(connection, Filter(), after=after)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("sort", get_args(Sort))
def test_a_place_beyond_all_rows_is_an_empty_page(store: Store, sort: Sort) -> None:
    with store.writing() as connection:
        put_session(connection, 1, cost_usd=1, ended_us=microseconds(NOON), **tokens(9))
        put_signals(connection, 1, 50)
    with store.reading() as connection:
        page = list_sessions(connection, Filter(), sort, False, after=cursor([sort, False, 2**63 - 1, 2**63 - 1]))
    assert (page.rows, page.next) == ((), None)


def test_a_row_shows_all_that_is_known_and_none_for_the_rest(store: Store) -> None:
    with store.writing() as connection:
        put(connection, projects, id=1, key="git.example/a/b", name="b", kind="remote")
        put_session(
            connection,
            1,
            title="Mend it",
            project_id=1,
            model="m1",
            models='["m1", "m2"]',
            ended_us=microseconds(NOON + timedelta(minutes=31)),
            messages=12,
            user_messages=3,
            losses='{"malformed": 2, "unknown": 3}',
            input_tokens=0,
            output_tokens=7,
            requests=1,
            unpriced_requests=1,
        )
        put_signals(connection, 1, 77, tool_calls=4, tool_failures=None, prompts=3, short_prompts=1)
        put_session(connection, 2, parent_id=1, relation="subagent", is_stale=True)
        put_signals(connection, 2, 20)
        put_session(connection, 3, parent_id=1, relation="fork")
        put_signals(connection, 3, 20, version=SIGNALS_VERSION - 1)
        put_session(connection, 4, parent_id=1, copy_of=2)
        put(connection, verdicts, agent="codex", source_id="session-1", verdict="bad", note="no", at_us=0)
    with store.reading() as connection:
        rows = read_rows(connection, [1, 2, 3, 99])
    assert set(rows) == {1, 2, 3}
    whole = rows[1]
    assert (whole.title, whole.project, whole.project_key, whole.models) == (
        "Mend it",
        "b",
        "git.example/a/b",
        ("m1", "m2"),
    )
    assert (whole.started, whole.duration_min, whole.archetype) == (NOON, 31.0, "deep")
    assert (whole.is_measured, whole.score, whole.grade, whole.outcome) == (True, 77, "B", "completed")
    assert (whole.tool_calls, whole.tool_failures, whole.prompts, whole.short_prompts) == (4, None, 3, 1)
    assert (whole.input_tokens, whole.output_tokens, whole.reasoning_tokens, whole.cost_usd) == (0, 7, None, None)
    assert (whole.losses, whole.verdict) == (5, "bad")
    assert whole.children == 2, "a copy is no child"
    for unmeasured in (rows[2], rows[3]):
        assert not unmeasured.is_measured
        assert (unmeasured.score, unmeasured.grade, unmeasured.outcome, unmeasured.tool_calls) == (None,) * 4
        assert (unmeasured.verdict, unmeasured.project, unmeasured.duration_min) == (None, None, None)
        assert unmeasured.archetype == "automation"


def test_the_list_and_its_number_are_those_of_the_filter(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1)
        put_session(connection, 2, agent="pi", relation="subagent", parent_id=1)
        put_session(connection, 3, agent="pi")
        put_session(connection, 4, copy_of=1)
        put_session(connection, 5, epoch=PARSE_EPOCH + 1)
        put_signals(connection, 3, 95)
        put(connection, session_defects, session_id=3, model="m1")
    for chosen, expected in (
        (Filter(), [3, 2, 1]),
        (Filter(subagents=False), [3, 1]),
        (Filter(agent="pi"), [3, 2]),
        (Filter(grade="A"), [3]),
        (Filter(grade="unscored"), [2, 1]),
        (Filter(measured=True), [3]),
        (Filter(measured=False, agent="pi"), [2]),
        (Filter(model="m1"), [3]),
        (Filter(until=NOON), []),
    ):
        assert listed(store, chosen, limit=1) == expected
        with store.reading() as connection:
            assert count_sessions(connection, chosen) == len(expected)


# --- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("1", 1, id="our number"),
        pytest.param("abcd-1111", 1, id="its whole name"),
        pytest.param(" abcd-2", 2, id="the beginning of one name"),
        pytest.param("2026", 4, id="digits that are no number of ours, but begin a name"),
        pytest.param("abc", 7, id="a whole name that begins others and is too short for a beginning"),
        pytest.param("twice", 5, id="a name of a session and of its copy"),
        pytest.param("50%_x", 8, id="signs that mean something to a database"),
    ],
)
def test_a_session_is_found_by(store: Store, name: str, number: int) -> None:
    with store.writing() as connection:
        put_names(connection)
    with store.reading() as connection:
        assert find_session(connection, name) == number


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("abcd", "may be any of 1 (codex abcd-1111), 2 (codex abcd-2222); give", id="two names"),
        pytest.param("many", "and more; give the number", id="more names than are shown"),
        pytest.param("nothing", "no session is called 'nothing'; demerit sessions", id="no name"),
        pytest.param("ab", "4 characters are the least", id="too short a beginning"),
        pytest.param("", "no session is called ''", id="nothing"),
        pytest.param("9" * 5000, "no session is called '999", id="a number beyond all numbers"),
        pytest.param("____", "no session is called '____'", id="signs that would match anything"),
    ],
)
def test_what_names_no_single_session_is_told(store: Store, name: str, said: str) -> None:
    with store.writing() as connection:
        put_names(connection)
    with store.reading() as connection, pytest.raises(NotFound) as error:
        find_session(connection, name)
    assert said in str(error.value)
    assert len(str(error.value)) < 300


def put_names(connection: Connection) -> None:
    for number, name in enumerate(
        ("abcd-1111", "abcd-2222", "other", "2026-03-02", "twice", "twice", "abc", "50%_x"), 1
    ):
        put_session(connection, number, source_id=name, copy_of=5 if number == 6 else None)
    for number in range(11, 17):
        put_session(connection, number, source_id=f"many-{number}")


# --- one session -----------------------------------------------------------------------------------------------


def failed_call(ordinal: int) -> ToolCall:
    return ToolCall(ordinal, 0, "Bash", "shell", CallStatus.FAILED, "exit code 1", input=Body("ls", 2, "d"))


def card() -> Report:
    """A session in which message 1 made a call that failed, and nobody answered message 2."""
    said = (
        Message(0, "user", "human", "mend it"),
        Message(1, "assistant", "agent", calls=(failed_call(1),)),
        Message(2, "user", "human", "and now?"),
    )
    return assess(Session("codex", "s", said, terminal=True), NOON)


def test_a_session_with_its_card_and_relatives(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1, losses='{"malformed": 2}', untold='["thinking"]', epoch=PARSE_EPOCH - 1)
        put_session(connection, 2, parent_id=1, parent_source_id="session-1", relation="subagent", at=NOON)
        put_session(connection, 3, parent_id=1, relation="subagent", at=NOON - timedelta(hours=1))
        put_session(connection, 4, copy_of=1)
        report = card()
        put_signals(connection, 1, report.score, report=packed_bytes(msgspec.json.encode(report)))
        put(connection, events, session_id=1, place=0, kind="compaction", at_us=microseconds(NOON), detail="auto")
        put(
            connection,
            verdicts,
            agent="codex",
            source_id="session-1",
            verdict="good",
            note="fine",
            at_us=microseconds(NOON),
        )
    with store.reading() as connection:
        parent, child = read_session(connection, 1), read_session(connection, 2)
    assert parent.report == report
    assert [row.id for row in parent.children] == [3, 2], "in the order of their start"
    assert parent.copies == (Copy(4, "/logs/4.jsonl"),)
    assert (parent.log_path, parent.epoch, parent.losses) == ("/logs/1.jsonl", PARSE_EPOCH - 1, {"malformed": 2})
    assert parent.untold == ("thinking",)
    assert parent.verdict is not None
    assert (parent.verdict.verdict, parent.verdict.note, parent.verdict.at) == ("good", "fine", NOON)
    assert parent.events == (EventView("compaction", None, NOON, "auto"),)
    assert (parent.parent, child.parent and child.parent.id, child.parent_source_id) == (None, 1, "session-1")
    assert (child.report, child.verdict, child.events, child.copies) == (None, None, (), ())


def test_a_session_that_is_not_there_and_one_whose_card_is_damaged(sqlite: Store) -> None:
    with sqlite.writing() as connection:
        put_session(connection, 1)
        put_signals(connection, 1, report=packed_bytes(b'{"path": 1}'))
    with sqlite.reading() as connection:
        with pytest.raises(NotFound, match="there is no session 9"):
            read_session(connection, 9)
        with pytest.raises(StoreError, match="report of session 1 cannot be read"):
            read_session(connection, 1)
    with sqlite.writing() as connection:
        connection.execute(update(sessions).values(is_stale=True))
    with sqlite.reading() as connection:
        assert read_session(connection, 1).report is None, "what is not shown is not read"


# --- the transcript --------------------------------------------------------------------------------------------


def test_a_turn_shows_its_texts_calls_and_points(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1)
        put_signals(connection, 1, report=packed_bytes(msgspec.json.encode(card())))
        asked = put_text(connection, 1, 0, "mend it")
        command = put_text(connection, 1, 1, "ls " + "ö" * HEAD_BYTES, "input")
        output = put_text(connection, 1, 2, "no such file", "output", bytes=5000)
        thought = put_text(connection, 1, 3, "hm", "thinking")
        put_prompt(connection, 0, 7, text_id=asked, text_bytes=7)
        put_message(connection, 1, thinking_id=thought, thinking_bytes=2, calls=1, at_us=microseconds(NOON), model="m1")
        put_call(
            connection,
            1,
            status="failed",
            evidence="exit code 1",
            exit_code=1,
            file_paths='["a.py"]',
            input_id=command,
            result_id=output,
        )
        put_message(connection, 2, role="user", author="human", text_id=asked)
        put_request(connection, 0, 1, 1500, output_tokens=20, cost_usd=0.5)
        for place, (kind, ordinal) in enumerate((("model_change", None), ("interrupt", 1), ("compaction", 1))):
            put(connection, events, session_id=1, place=place, kind=kind, message_ordinal=ordinal)
    with store.reading() as connection:
        first, second, third = read_transcript(connection, 1)
        assert read_text(connection, command) == "ls " + "ö" * HEAD_BYTES
        assert read_text(connection, 5) is None
    assert first.text is not None and (first.text.text, first.text.is_cut, first.text.bytes) == ("mend it", False, 7)
    assert (first.author, first.usage, first.calls, first.marks) == ("human", None, (), ())
    assert [event.kind for event in first.events_before] == ["model_change"]
    assert second.thinking is not None and second.thinking.text == "hm"
    [call] = second.calls
    assert call.input is not None and call.result is not None
    assert call.input.text == "ls " + "ö" * ((HEAD_BYTES - 3) // 2), "cut between letters"
    assert (call.input.is_cut, call.input.bytes) == (True, 3 + 2 * HEAD_BYTES)
    assert (call.result.text, call.result.is_cut, call.result.bytes) == ("no such file", False, 5000)
    assert (call.status, call.exit_code, call.file_paths) == ("failed", 1, ("a.py",))
    assert call.marks == (Mark("1 tool failure", "failed"),)
    assert second.usage is not None
    assert (second.usage.output_tokens, second.usage.context_tokens, second.usage.cost_usd) == (20, 1500, 0.5)
    assert [event.kind for event in second.events] == ["interrupt", "compaction"]
    assert (second.at, second.model, second.events_before, second.prompt) == (NOON, "m1", (), None)
    assert third.text == first.text, "a text that repeats is kept once"
    assert third.marks == (Mark("abandoned", "nobody answered the user's last word"),)


def test_a_divider_stands_where_the_counted_size_fell_by_half(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1)
        for ordinal in range(9):
            put_message(connection, ordinal)
        put_request(connection, 0, 0, 40_000)
        put_request(connection, 1, 1, 20_000)  # half of it: shed
        put_request(connection, 2, 2, 90_000, is_counted=False)  # another session's
        put_request(connection, 3, 3, 11_000)  # more than half of 20,000
        put_request(connection, 4, 4, 5_000)  # small before, so no shedding
        put_request(connection, 5, 5, 60_000)
        put_request(connection, 6, 6, None, is_sum=True)  # has no size
        put_request(connection, 7, 8, 1)  # a sixty-thousandth of the last one that has a size
    with store.reading() as connection:
        whole = read_transcript(connection, 1)
        alone = [read_transcript(connection, 1, ordinal, 1)[0] for ordinal in range(9)]
    assert [turn.context_shed for turn in whole] == [0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert alone == whole, "a window of one message shows what the whole shows"


def test_dividers_of_requests_that_no_message_stands_for_come_after_the_last_message(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1)
        put_message(connection, 0)
        put_message(connection, 1)
        for place, size in enumerate((50_000, 10_000, 30_000, 15_000)):
            put_request(connection, place, None, size)
    with store.reading() as connection:
        turns = read_transcript(connection, 1)
        assert read_transcript(connection, 1, 0, 1)[0].context_shed_after == 0
    assert [(turn.context_shed, turn.context_shed_after) for turn in turns] == [(0, 0), (0, 2)]


def test_prompts_are_marked_as_they_are_counted(store: Store) -> None:
    with store.writing() as connection:
        put_session(connection, 1)
        put_prompt(connection, 0, digest=7, is_replayed=True)
        put_prompt(connection, 1, digest=7)
        put_prompt(connection, 2, digest=8, short=True)
        put_prompt(connection, 3, digest=8, short=True)
        put_prompt(connection, 4, digest=7)
        put_prompt(connection, 5, digest=7)
        put_message(connection, 6, role="user", author="human")
    with store.reading() as connection:
        turns = read_transcript(connection, 1)
    assert [turn.prompt for turn in turns] == [
        None,  # it counts where it was first said
        PromptMarks(False, False, None),
        PromptMarks(True, False, None),
        PromptMarks(True, False, None),  # what is short repeats nothing
        PromptMarks(False, False, 1),
        PromptMarks(False, False, 1),
        None,  # without text
    ]
    assert [turn.is_replayed for turn in turns] == [True, *[False] * 6]


def test_windows_of_any_size_together_are_the_transcript(sqlite: Store) -> None:
    with sqlite.writing() as connection:
        put_session(connection, 1)
        put_session(connection, 2)
        put_message(connection, 0, session=2)
        for ordinal in range(10):
            put_prompt(connection, ordinal, digest=ordinal % 4)
            put_call(connection, ordinal, 0)
            put_request(connection, ordinal, ordinal, 100_000 if ordinal % 3 else 1)
            put(connection, events, session_id=1, place=ordinal, kind="api_error", message_ordinal=ordinal)
    with sqlite.reading() as connection:
        whole = read_transcript(connection, 1)
        for limit in (1, 3, 7):
            found: list[TurnView] = []
            while turns := read_transcript(connection, 1, found[-1].ordinal + 1 if found else 0, limit):
                assert len(turns) <= limit
                found += turns
            assert found == whole
        assert read_transcript(connection, 1, 10) == read_transcript(connection, 3) == []
        assert read_transcript(connection, 1, 2**70) == []
    assert sum(turn.context_shed for turn in whole) == 3, "before 3, 6 and 9"


def test_no_read_of_a_window_runs_through_the_rest_of_its_session(sqlite: Store) -> None:
    with sqlite.writing() as connection:
        put_session(connection, 1)
        for ordinal in range(3):
            put_prompt(connection, ordinal, digest=1, text_id=put_text(connection, 1, ordinal, "x"))
            put_request(connection, ordinal, ordinal, 1)
    with sqlite.reading() as connection:
        with statements(connection) as ran:
            read_transcript(connection, 1, 0, 1)
            read_transcript(connection, 1, 1, 1)
        plan = plans(connection, ran)
    reads = [step for step in plan if step.startswith(("SEARCH", "SCAN"))]
    # By one row's id, or by more than the session; but for the session's first thousand events.
    one_row = ("(rowid=?)", "(session_id=? AND ", "session_reports")
    by_session = [step for step in reads if not any(by in step for by in one_row)]
    assert by_session == ["SEARCH events USING PRIMARY KEY (session_id=?)"]
    assert any("earlier" in step and "prompt_digest=?" in step for step in reads)


def plans(connection: Connection, ran: list[tuple[str, Any]]) -> list[str]:
    """How SQLite goes about these statements, step by step."""
    return [
        row[-1]
        for statement, values in ran
        for row in connection.exec_driver_sql(f"explain query plan {statement}", values)
    ]


@contextmanager
def statements(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """What is asked of the database."""
    ran: list[tuple[str, Any]] = []

    def note(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        ran.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    try:
        yield ran
    finally:
        event.remove(connection, "before_cursor_execute", note)


# --- texts -----------------------------------------------------------------------------------------------------


def test_a_text_comes_back_as_it_went_in() -> None:
    for said in ("", "x", "naïve 日本語 🎉", "x" * 3_000_000):
        assert unpacked(packed(said)) == said
        assert unpacked_head(packed(said), 64) == (
            said.encode()[:64].decode("utf-8", "ignore"),
            len(said.encode()) > 64,
        )


def test_the_beginning_of_a_text_needs_only_the_beginning_of_its_bytes() -> None:
    said = Random(7).randbytes(500_000).hex()  # it hardly packs
    assert len(packed(said)) > 3 * KEPT_HEAD_BYTES
    assert unpacked_head(packed(said)[:KEPT_HEAD_BYTES], 131_072) == (said[:131_072], True)


# The header of a frame that claims a tebibyte, and its first block.
BOMB = bytes([0x28, 0xB5, 0x2F, 0xFD, 0xE0]) + (2**40).to_bytes(8, "little") + b"\x01\0\0"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no frame at all", id="something else"),
        pytest.param(packed("x" * 500 + "y" * 500)[:-3], id="the end is missing"),
        pytest.param(BOMB, id="a size that no text has"),
    ],
)
def test_damaged_texts_are_told_and_bounded(data: bytes) -> None:
    with pytest.raises(StoreError, match="a stored text is damaged"):
        unpacked(data)


def test_a_damaged_text_in_a_transcript_is_told(sqlite: Store) -> None:
    with sqlite.writing() as connection:
        put_session(connection, 1)
        put_message(connection, 0, text_id=put_text(connection, 1, 0, "", data=BOMB))
    with sqlite.reading() as connection, pytest.raises(StoreError, match="a stored text is damaged"):
        read_transcript(connection, 1)
