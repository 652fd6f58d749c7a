"""The settle pass: from rows to the same card that the whole session gives, in flat memory, at the right time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, event, func, insert, select, text, update
from tests.quality.sessions import (
    API_ERROR,
    FAILED_CHILD,
    INTERRUPT,
    JUST_NOW,
    LONG_AGO,
    NOW,
    RETRIED,
    agent,
    harness,
    human,
    request,
    session,
    tool,
)
from tests.store.logs import NEWER, keep, report_of, without_cost
from tests.store.rows import add_session

import demerit
from demerit import ingest
from demerit.model import CallStatus, Event, ParseLoss, Session, Usage
from demerit.quality import SIGNALS_VERSION, Report, assess
from demerit.samples import SAMPLES
from demerit.sources import Unreadable, read_sessions
from demerit.store import Store, StoreError, filters, grading
from demerit.store.filters import Filter, is_measured, is_visible, with_signals
from demerit.store.grading import due, due_terminal, grade_session
from demerit.store.schema import logs, messages, session_advice, session_signals, sessions


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """What is asked of the database meanwhile."""
    told: list[str] = []

    def note(connection: Connection, cursor: Any, statement: str, *rest: Any) -> None:
        told.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield told
    finally:
        event.remove(store.engine, "before_cursor_execute", note)


def settled_again(store: Store, number: int, now: datetime = NOW) -> Report | None:
    """The card that the settle pass makes of the rows alone."""
    with store.writing() as connection:
        connection.execute(update(sessions).where(sessions.c.id == number).values(is_stale=True))
        grade_session(connection, number, now)
    return report_of(store, number)


def empty(store: Store) -> None:
    with store.writing() as connection:
        connection.execute(delete(logs))


# --- rows and memory tell the same ------------------------------------------------------------------------------


def assert_same_card(store: Store, name: str, found: Session, now: datetime) -> None:
    """Written and graded at once, or settled from rows: both are what the session in memory comes to."""
    [number] = keep(store, name, found, now=now, modified=found.modified)
    expected = assess(found, now, name)
    quick = report_of(store, number)
    assert without_cost(quick) == expected
    assert settled_again(store, number, now) == quick


_STATUSES = [status.value for status in CallStatus]
_texts = st.sampled_from(["", " ", "hi", "fix it", "please fix the rounding in src/cart.py now", "Look:\nat the carts"])
_models = st.sampled_from([None, "claude-opus-4-8", "gpt-5", "nobody-knows"])
_moments = st.sampled_from([None, LONG_AGO, LONG_AGO - timedelta(minutes=7), LONG_AGO + timedelta(microseconds=1)])
_calls = st.builds(
    lambda name, status, input, id, files, is_poll, server: tool(
        name, status, input=input, id=id, files=files, is_poll=is_poll, server=server
    ),
    st.sampled_from(["Bash", "Edit", "Write", "Read", "Task", "mcp__x__y"]),
    st.sampled_from(_STATUSES),
    st.sampled_from(["a", "b", None]),
    st.sampled_from(["1", "2", None]),
    st.lists(st.sampled_from(["f", "g/h"]), max_size=2, unique=True),
    st.booleans(),
    st.just(None),
)
_served = st.builds(
    lambda name, status, server: tool(name, status, server=server),
    st.sampled_from(["find", "close"]),
    st.sampled_from(_STATUSES),
    st.sampled_from(["github", "linear"]),
)
_usages = st.builds(
    lambda fresh, read, hour, output, reasoning, key, is_partial, is_sum: Usage(
        fresh, read, 0, hour, output, reasoning, key, is_partial, is_sum
    ),
    st.sampled_from([0, 10, 20_000, 150_000]),
    st.sampled_from([0, 20_000]),
    st.sampled_from([0, 7]),
    st.sampled_from([0, 1, 41]),
    st.sampled_from([None, 0, 12]),
    st.sampled_from([None, None, "m1", "m2"]),
    st.booleans(),
    st.booleans(),
)
_answers = st.builds(
    lambda text, calls, **more: agent(text, *calls, **more),
    _texts,
    st.lists(st.one_of(_calls, _served), max_size=4),
    model=_models,
    usage=st.one_of(st.none(), _usages),
    at=_moments,
    sidechain=st.booleans(),
    thinking_bytes=st.sampled_from([0, 0, 400, 1_000_000]),
    thinking_kind=st.sampled_from([None, "signature", "ciphertext", "text"]),
    stop_reason=st.sampled_from([None, "end_turn", "max_tokens"]),
)
_messages = st.one_of(
    _answers,
    _answers,
    st.builds(human, _texts, at=_moments, has_image=st.booleans(), sidechain=st.booleans()),
    st.builds(lambda text: {"role": "user", "author": "agent", "text": text}, _texts),
    st.sampled_from([INTERRUPT, API_ERROR, INTERRUPT | {"role": "user"}]),
    st.builds(harness, _texts, role=st.sampled_from(["context", "system", "user", "assistant"])),
)
_sessions = st.builds(
    lambda spoken, **more: session(*spoken, **more),
    st.lists(_messages, max_size=12),
    ended=st.sampled_from([LONG_AGO, None]),
    modified=st.just(LONG_AGO),
    terminal=st.booleans(),
    title=st.sampled_from([None, "Given", ""]),
    events=st.lists(
        st.sampled_from([FAILED_CHILD, RETRIED, Event("compaction"), Event("interrupt", LONG_AGO, 0)]), max_size=3
    ).map(tuple),
    loose_usage=st.lists(_usages, max_size=2).map(tuple),
    losses=st.sampled_from([(), (ParseLoss("malformed_line", 2, 0),)]),
    untold=st.sampled_from([(), ("statuses",), ("thinking", "usage")]),
    models=st.sampled_from([(), ("gpt-5",)]),
    parent_source_id=st.sampled_from([None, "nobody"]),
    relation=st.sampled_from([None, "subagent"]),
)


def test_any_session_gets_the_card_that_it_has_in_memory(store: Store) -> None:
    @given(_sessions)
    @settings(max_examples=200)
    def check(made: Session) -> None:
        empty(store)
        assert_same_card(store, "log", made, NOW)

    check()


def _sample_logs() -> list[Path]:
    return sorted(path for path in SAMPLES.rglob("*.json*") if path.is_file())


def test_every_bundled_sample_gets_the_card_that_it_has_in_memory(store: Store) -> None:
    seen = 0
    for path in _sample_logs():
        for found in read_sessions(path):
            empty(store)
            assert_same_card(store, path.name, found, datetime.fromisoformat("2027-01-01T00:00:00Z"))
            seen += 1
    assert seen >= 13


def test_every_real_log_gets_the_card_that_it_has_in_memory(store: Store, corpus: Path) -> None:
    seen = 0
    for path in sorted(path for path in corpus.rglob("*") if path.is_file()):
        try:
            every = read_sessions(path)
        except Unreadable:
            continue
        for found in every:
            empty(store)
            assert_same_card(store, path.name, found, datetime.fromisoformat("2040-01-01T00:00:00Z"))
            seen += 1
    assert seen > 100


@pytest.mark.parametrize(
    ("made", "score", "grade"),
    [
        pytest.param(
            session(
                human(),
                agent(
                    "",
                    tool("Edit", input="a", files=["x"]),
                    tool("Edit", input="a", files=["x"]),
                    *[tool("Bash", "failed", input="b")] * 3,
                    tool("Edit", input="c", files=["y"]),
                ),
                agent("Done."),
            ),
            62,  # 100 - 3 failures 9 - 3 retries 15 - 1 churned edit 4 - a streak of three 10
            "C",
            id="akari 3.3, row 1: failures, retries, churn and a streak",
        ),
        pytest.param(
            session(human(), agent("I try."), agent("", *[tool("Bash", "failed", input=None)] * 3)),
            51,  # 100 - 30 errored - 9 - 10
            "D",
            id="three failures at the end",
        ),
        pytest.param(session(human(), agent("Done."), human()), 85, "B", id="the person spoke last"),
        pytest.param(session(agent("")), None, None, id="only an answer of nothing"),
    ],
)
def test_scores_worked_out_by_hand(store: Store, made: Session, score: int | None, grade: str | None) -> None:
    [number] = keep(store, "log", made, now=NOW)
    settled = settled_again(store, number)
    assert settled is not None
    assert (settled.score, settled.grade) == (score, grade)


def test_a_call_that_is_told_again_counts_once_and_ids_never_mix_with_places(store: Store) -> None:
    replayed = [agent("", tool("Read", id="1")) for _ in range(3)]
    made = session(
        human(), *replayed, agent("", tool("Bash", "failed", id="2")), agent("", *[tool(id=None)] * 2, tool(id="1:0"))
    )
    [number] = keep(store, "log", made, now=NOW)
    settled = settled_again(store, number)
    assert settled is not None
    # One read, one failure, two calls without an id, and the one whose id looks like a place.
    assert (settled.signals.tool_calls, settled.signals.tool_failures) == (5, 1)


def test_evidence_is_cut_and_counts_are_not(store: Store) -> None:
    calls = [tool("Edit", "failed" if number % 2 else "ok", input=str(number), files=["f"]) for number in range(600)]
    made = session(human(), agent("", *calls), agent("Done."))
    [number] = keep(store, "log", made, now=NOW)
    settled = settled_again(store, number)
    assert settled is not None
    assert settled == without_cost(report_of(store, number)) == assess(made, NOW, "log")
    assert (settled.signals.tool_failures, settled.signals.edit_churn) == (300, 299)
    assert [len(line.calls) for line in settled.breakdown] == [200, 200]


# --- what is asked of the database ------------------------------------------------------------------------------


def test_no_statement_of_the_settle_pass_reads_a_text(store: Store) -> None:
    made = session(
        human("please fix the rounding in src/cart.py"),
        agent("Done.", tool("Edit", files=["src/cart.py"]), usage=request(10, key="m")),
        human("fix it"),
        agent("Done."),
    )
    [number] = keep(store, "log", made, now=NOW, grades=False)
    with statements(store) as told:
        assert ingest.settle(store, NOW) == 1
    assert any("prompt_digest" in one for one in told)
    for one in told:
        words = one.lower().replace('"', " ").replace(",", " ").replace(".", " ").split()
        assert not {"texts", "search", "text_id", "thinking_id", "data", "input_id", "result_id"} & set(words), one
    # From columns alone: a prompt whose facts say something else than its text is judged by the facts.
    with store.writing() as connection:
        facts = {"prompt_short": False, "prompt_no_code": True, "prompt_greeting": True, "prompt_digest": 5}
        is_prompt = messages.c.prompt_version.is_not(None)
        connection.execute(update(messages).where(is_prompt).values(**facts))
    settled = settled_again(store, number)
    assert settled is not None
    hygiene = settled.hygiene
    assert (hygiene.prompts, hygiene.short, hygiene.duplicate, hygiene.no_code_context) == (2, 0, 1, 2)
    assert hygiene.unstructured_start


@pytest.mark.parametrize(
    ("query", "index"),
    [
        pytest.param(due(NOW, None, 500), "ix_sessions_due", id="the first batch"),
        pytest.param(due(NOW, (1, 1), 500), "ix_sessions_due", id="a later batch"),
        pytest.param(due_terminal(0, 500), "ix_sessions_due_terminal", id="those that are over"),
    ],
)
def test_the_due_sessions_come_from_the_partial_index_in_its_order(store: Store, query: Any, index: str) -> None:
    with store.reading() as connection:
        compiled = query.compile(store.engine, compile_kwargs={"literal_binds": True})
        if store.is_sqlite:
            plan = [row.detail for row in connection.execute(text(f"explain query plan {compiled}"))]
            assert len(plan) == 1
            assert f"INDEX {index} " in f"{plan[0]} "
        else:
            connection.execute(text("set local enable_seqscan = off"))
            connection.execute(text("set local enable_bitmapscan = off"))
            plan = [row[0] for row in connection.execute(text(f"explain {compiled}"))]
            assert any(f"using {index} on" in line for line in plan)
            assert not any("Sort" in line for line in plan)


def test_batches_go_on_after_the_last_one_and_each_session_is_a_transaction(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_SETTLED_AT_A_TIME", 2)
    with store.writing() as connection:
        for number in range(5):  # three of them end at the same time
            started = LONG_AGO - timedelta(hours=max(0, number - 2))
            add_session(connection, started=started, is_terminal=False, is_stale=True, signals_version=None)
    writes: list[str] = []
    asked: list[tuple[str, Any]] = []

    def begun(connection: Connection) -> None:
        if connection.get_execution_options().get("writes"):
            writes.append("begin")

    def note(connection: Connection, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        if "sessions.is_stale" in statement and "ORDER BY sessions.last_us" in statement:
            asked.append((statement, parameters))

    event.listen(store.engine, "begin", begun)
    event.listen(store.engine, "before_cursor_execute", note)
    assert ingest.settle(store, NOW) == 5
    assert len(writes) == 5
    # Two, two and one, and then none: never from the beginning again, and never by counting off.
    assert len(asked) == 4
    assert all("OFFSET 0" not in one.upper() or "OFFSET" not in one.upper().split("LIMIT")[0] for one, _ in asked)
    assert ingest.settle(store, NOW) == 0
    assert len(writes) == 5


def test_it_stops_between_two_sessions_and_goes_on_later(store: Store) -> None:
    with store.writing() as connection:
        for _ in range(4):
            add_session(connection, started=LONG_AGO, is_terminal=False, is_stale=True, signals_version=None)
    left = iter([False, False, True])
    assert ingest.settle(store, NOW, lambda: next(left, True)) == 2
    assert ingest.settle(store, NOW) == 2


# --- when a session is graded -----------------------------------------------------------------------------------


def kept(store: Store, ended: datetime | None, **fields: Any) -> int:
    """A session that a person ended, kept without a grade."""
    made = session(human(), agent("Done."), human(), ended=ended, **fields)
    [number] = keep(store, "log", made, now=NOW, modified=fields.get("modified"), grades=False)
    return number


@pytest.mark.parametrize(
    ("ended", "fields", "outcome"),
    [
        pytest.param(NOW - timedelta(minutes=120), {}, "abandoned", id="silent for two hours"),
        pytest.param(NOW - timedelta(minutes=30), {}, "abandoned", id="silent for just 30 minutes"),
        pytest.param(NOW - timedelta(minutes=30) + timedelta(microseconds=1), {}, None, id="not quite 30 minutes"),
        pytest.param(NOW - timedelta(minutes=5), {}, None, id="silent for five minutes"),
        pytest.param(None, {}, None, id="without any time"),
        pytest.param(NOW - timedelta(minutes=5), {"terminal": True}, "abandoned", id="over, five minutes ago"),
        pytest.param(None, {"terminal": True}, "abandoned", id="over, without any time"),
        pytest.param(None, {"modified": LONG_AGO}, "abandoned", id="without times, in a file of two hours ago"),
        pytest.param(None, {"modified": JUST_NOW}, None, id="without times, in a file of just now"),
    ],
)
def test_a_session_is_graded_when_it_is_over_or_silent(
    store: Store, ended: datetime | None, fields: dict[str, Any], outcome: str | None
) -> None:
    number = kept(store, ended, **fields)
    assert ingest.settle(store, NOW) == (outcome is not None)
    settled = report_of(store, number)
    assert (settled.outcome.value if settled else None) == outcome
    assert ingest.settle(store, NOW) == 0


@pytest.mark.parametrize("ended", [NOW - timedelta(minutes=30), NOW - timedelta(minutes=29)])
def test_what_has_settled_when_it_is_read_is_graded_at_once_and_nothing_else(store: Store, ended: datetime) -> None:
    [number] = keep(store, "log", session(human(), agent("Done."), ended=ended), now=NOW)
    assert (report_of(store, number) is not None) == (NOW - ended >= timedelta(minutes=30))


def test_a_live_session_is_graded_once_it_falls_silent(store: Store) -> None:
    number = kept(store, JUST_NOW)
    assert ingest.settle(store, NOW) == 0
    later = NOW + timedelta(minutes=25)
    assert ingest.settle(store, later) == 1
    settled = report_of(store, number)
    assert settled is not None
    assert (settled.outcome, settled.score) == ("abandoned", 85)
    assert ingest.settle(store, later) == 0


# --- versions ---------------------------------------------------------------------------------------------------


def counted(store: Store) -> tuple[int, int, int]:
    """Sessions that are listed, those that are measured, and those with a grade that a filter finds."""
    with store.reading() as connection:
        listed = select(func.count()).select_from(with_signals).where(is_visible)
        return (
            connection.execute(listed).scalar_one(),
            connection.execute(listed.where(is_measured)).scalar_one(),
            connection.execute(listed.where(*filters.conditions(Filter(grade="B")))).scalar_one(),
        )


def test_a_late_line_hides_the_grade_in_the_transaction_that_keeps_it(store: Store) -> None:
    abandoned = [human(), agent("Done."), human()]
    [number] = keep(store, "log", session(*abandoned, ended=LONG_AGO), now=NOW)
    assert counted(store) == (1, 1, 1)
    [again] = keep(store, "log", session(*abandoned, agent("Now."), ended=JUST_NOW), now=NOW)
    assert again == number
    assert report_of(store, number) is None
    assert counted(store) == (1, 0, 0)


def test_a_late_line_of_a_session_that_has_settled_again_is_graded_anew(store: Store) -> None:
    abandoned = [human(), agent("Done."), human()]
    keep(store, "log", session(*abandoned, ended=LONG_AGO), now=NOW)
    [number] = keep(store, "log", session(*abandoned, agent("Now."), ended=LONG_AGO + timedelta(minutes=1)), now=NOW)
    settled = report_of(store, number)
    assert settled is not None
    assert (settled.score, settled.hygiene.prompts) == (100, 2)
    assert counted(store) == (1, 1, 0)


def test_what_is_read_again_unchanged_keeps_its_grade(store: Store) -> None:
    made = session(human(), agent("Done."), human())
    keep(store, "log", made, now=NOW)
    with statements(store) as told:
        keep(store, "log", made, now=NOW)
    assert not any("session_signals" in one or "INTO messages" in one for one in told)
    assert counted(store) == (1, 1, 1)


def test_rows_of_another_version_are_unmeasured_until_they_are_made_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, "log", session(human(), agent("Done."), human()), now=NOW)
    with store.writing() as connection:
        connection.execute(update(session_signals).values(version=NEWER))
    assert counted(store) == (1, 0, 0)
    assert ingest.settle(store, NOW) == 1
    assert counted(store) == (1, 1, 1)
    with store.reading() as connection:
        assert connection.execute(select(session_signals.c.version)).scalars().all() == [SIGNALS_VERSION]
    monkeypatch.setattr(grading, "SIGNALS_VERSION", SIGNALS_VERSION + 1)
    assert ingest.settle(store, NOW) == 1
    # The readers of the version before see nothing of it.
    assert counted(store) == (1, 0, 0)


def test_prompt_facts_of_another_version_leave_a_session_ungraded_until_it_is_read_again(store: Store) -> None:
    made = session(human(), agent("Done."), human())
    [number] = keep(store, "log", made, now=NOW, grades=False)
    with store.writing() as connection:
        connection.execute(update(messages).where(messages.c.ordinal == 2).values(prompt_version=NEWER))
    assert ingest.settle(store, NOW) == 0
    assert ingest.settle(store, NOW) == 0
    assert counted(store) == (1, 0, 0)
    with store.writing() as connection:  # as a rebuild does
        connection.execute(update(sessions).values(digest=""))
    keep(store, "log", made, now=NOW)
    settled = report_of(store, number)
    assert settled is not None
    assert settled.score == 85


def test_advice_and_signals_are_replaced_together(store: Store) -> None:
    failing = [tool("Grep", "failed", input=str(number)) for number in range(3)]
    [number] = keep(store, "log", session(human(), agent("", *failing), agent("No.")), now=NOW)
    rules = select(session_advice.c.rule)
    with store.reading() as connection:
        assert connection.execute(rules).scalars().all() == ["tool_always_fails"]
    keep(store, "log", session(human(), agent("", *failing), agent("", tool("Grep")), agent("No.")), now=NOW)
    settled_again(store, number)
    with store.reading() as connection:
        assert connection.execute(rules).scalars().all() == []


# --- constraints ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"score": 80, "grade": None}, id="a score without a grade"),
        pytest.param({"score": None, "grade": "A"}, id="a grade without a score"),
        pytest.param({"score": 89, "grade": "A"}, id="89 is no A"),
        pytest.param({"score": 90, "grade": "B"}, id="90 is no B"),
        pytest.param({"score": 74, "grade": "B"}, id="74 is no B"),
        pytest.param({"score": 59, "grade": "C"}, id="59 is no C"),
        pytest.param({"score": 39, "grade": "D"}, id="39 is no D"),
        pytest.param({"score": 40, "grade": "F"}, id="40 is no F"),
        pytest.param({"score": 101, "grade": "A"}, id="more than 100"),
        pytest.param({"score": -1, "grade": "F"}, id="less than 0"),
        pytest.param({"outcome": "fine"}, id="an outcome that there is not"),
        pytest.param({"confidence": "total"}, id="a confidence that there is not"),
        pytest.param({"tool_calls": -1}, id="fewer than no calls"),
        pytest.param({"tool_failures": 5}, id="more failures than calls"),
        pytest.param({"tool_failures": -1}, id="fewer than no failures"),
        pytest.param({"tool_retries": 5}, id="more retries than calls"),
        pytest.param({"edit_churn": -1}, id="fewer than no churned edits"),
        pytest.param({"longest_failure_streak": 3}, id="a run longer than all failures"),
        pytest.param({"tool_failures": None, "longest_failure_streak": 1}, id="a run of failures that nobody measured"),
        pytest.param({"short_prompts": 4}, id="more short prompts than prompts"),
        pytest.param({"duplicate_prompts": 4}, id="more duplicates than prompts"),
        pytest.param({"no_code_prompts": 4}, id="more prompts without code than prompts"),
        pytest.param({"short_prompts": -1}, id="fewer than no short prompts"),
        pytest.param({"prompts": 0, "unstructured_start": True}, id="a bad start without a prompt"),
        pytest.param({"peak_context_tokens": 5}, id="a peak without resets"),
        pytest.param({"context_resets": 0}, id="resets without a peak"),
        pytest.param({"peak_context_tokens": -1, "context_resets": 0}, id="a peak below nothing"),
        pytest.param({"assistant_turns": 3}, id="turns without their thinking"),
        pytest.param(
            {"assistant_turns": 3, "thinking_turns": 1, "thinking_tail_tokens": None, "thinking_peak_tokens": 7},
            id="thinking without a tail",
        ),
        pytest.param(
            {"assistant_turns": 3, "thinking_turns": 4, "thinking_tail_tokens": 7, "thinking_peak_tokens": 7},
            id="more turns that thought than turns",
        ),
        pytest.param(
            {"assistant_turns": 3, "thinking_turns": 1, "thinking_tail_tokens": 8, "thinking_peak_tokens": 7},
            id="a tail above the peak",
        ),
        pytest.param({"version": None}, id="no version"),
        pytest.param({"session_id": 77}, id="no session"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    row = {
        "version": SIGNALS_VERSION,
        "outcome": "completed",
        "confidence": "high",
        "tool_calls": 4,
        "tool_failures": 2,
        "prompts": 3,
        "short_prompts": 1,
        "duplicate_prompts": 1,
        "no_code_prompts": 1,
        "unstructured_start": True,
    }
    with store.writing() as connection:
        number = add_session(connection, signals_version=None)
        connection.execute(insert(session_signals).values(session_id=number, **row))
        connection.execute(delete(session_signals))
    with pytest.raises(StoreError, match=r"(?i)constraint"), store.writing() as connection:
        connection.execute(insert(session_signals).values(**{"session_id": number, **row, **wrong}))


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        pytest.param("sessions", {"user_messages": 3}, id="more prompts than messages"),
        pytest.param("sessions", {"messages": -1, "user_messages": 0}, id="fewer than no messages"),
        pytest.param("sessions", {"input_tokens": 5}, id="input without output"),
        pytest.param("sessions", {"parent_id": 1}, id="its own parent"),
        pytest.param("sessions", {"copy_of": 1}, id="its own copy"),
        pytest.param("sessions", {"relation": "cousin"}, id="a relation that there is not"),
        pytest.param("messages", {"role": "tool"}, id="a role that there is not"),
        pytest.param("messages", {"author": "nobody"}, id="an author that there is not"),
        pytest.param("messages", {"prompt_version": 1}, id="a version of no facts"),
        pytest.param("messages", {"prompt_short": True}, id="facts without a version"),
    ],
)
def test_a_session_that_contradicts_itself_is_refused(store: Store, table: str, wrong: dict[str, Any]) -> None:
    with store.writing() as connection:
        add_session(connection)
    with pytest.raises(StoreError, match=r"(?i)constraint"), store.writing() as connection:
        connection.execute(update({"sessions": sessions, "messages": messages}[table]).values(**wrong))


# --- memory -----------------------------------------------------------------------------------------------------

_LONG = {
    "sqlite": "with recursive n(i) as (select 0 union all select i + 1 from n where i < {last}) ",
    "postgresql": "with n(i) as (select generate_series(0, {last})) ",
}
_ROWS = (
    "insert into messages (session_id, ordinal, role, author, is_sidechain, is_replayed, has_substance, has_image,"
    " calls, text_bytes, thinking_bytes, thinking_tokens, at_us, prompt_version, prompt_short, prompt_no_code,"
    " prompt_greeting, prompt_digest) {numbers}select {session}, i, case when i % 2 = 0 then 'user' else 'assistant'"
    " end, case when i % 2 = 0 then 'human' else 'agent' end, false, false, true, false, i % 2, 1, 0,"
    " case when i % 2 = 0 then null else i end, i * 1000000,"
    " case when i % 2 = 0 then 1 end, case when i % 2 = 0 then false end, case when i % 2 = 0 then false end,"
    " case when i % 2 = 0 then false end, case when i % 2 = 0 then i end from n",
    "insert into tool_calls (session_id, message_ordinal, call_index, name, category, status, evidence, call_id,"
    " input_hash, is_poll, is_counted) {numbers}select {session}, i, 0, 'Edit', 'edit',"
    " case when i % 10 = 1 then 'failed' else 'ok' end, '', i, i, false, true from n where i % 2 = 1",
    "insert into file_changes (session_id, message_ordinal, call_index, place, path) {numbers}"
    "select {session}, i, 0, 0, i % 1000 from n where i % 2 = 1 and i % 10 <> 1",
    "insert into usage_events (session_id, place, input_tokens, cache_read_tokens, cache_write_5m_tokens,"
    " cache_write_1h_tokens, output_tokens, is_sum, is_partial, context_tokens, is_counted) {numbers}"
    "select {session}, i, 1, 0, 0, 0, 1, false, false, i % 50000, true from n where i % 2 = 1",
)


def add_long_session(connection: Connection, turns: int) -> int:
    """A session of so many messages in turn: every answer makes a call, every fifth of which fails."""
    number = add_session(connection, prompts=0, answers=0, is_stale=True, signals_version=None)
    dialect = connection.dialect.name
    numbers = _LONG[dialect].format(last=turns - 1)
    for rows in _ROWS:
        statement = rows.format(numbers=numbers, session=number)
        if dialect == "sqlite":  # there it stands before the whole statement
            statement = numbers + statement.replace(numbers, "")
        else:
            statement = (
                statement.replace("'', i, i, false", "'', i::text, i::text, false")
                .replace("0, 0, i % 1000 from", "0, 0, (i % 1000)::text from")
                .replace("i * 1000000", "i::bigint * 1000000")
            )
        connection.execute(text(statement))
    return number


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells what a process holds")
def test_memory_is_flat_over_the_length_of_a_session(store: Store) -> None:
    """100,000 messages here; `python -m tests.store.test_grading` does it for a million."""
    with store.writing() as connection:
        add_long_session(connection, 1_000)
        add_long_session(connection, 100_000)
    store.engine.dispose()
    short, long = _measured(store.url.render_as_string(hide_password=False))
    assert long["failures"] == 10_000  # the 50,000 answers whose number ends in 1
    assert long["churn"] == 40_000 - 400  # the rest changed the files whose number is odd, and does not end in 1
    assert long["growth_mib"] < 30, (short, long)


def _measured(url: str) -> list[dict[str, Any]]:
    """Settle each session of a store in a process of its own, and tell how its memory grew."""
    done = subprocess.run(
        [sys.executable, "-c", _SETTLE, url],
        env={**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


_SETTLE = """
import json, sys, time
from datetime import UTC, datetime
from threading import Thread
from sqlalchemy import select
from demerit.store import Store
from demerit.store.grading import grade_session
from demerit.store.schema import sessions

def own_mib():  # without the pages of files, which the system takes back when it likes
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("RssAnon")).split()[1]) / 1024

def watch():
    global peak
    while True:
        peak = max(peak, own_mib())
        time.sleep(0.002)

peak = own_mib()
store = Store.open(sys.argv[1])
with store.reading() as connection:
    found = connection.execute(select(sessions.c.id).order_by(sessions.c.id)).scalars().all()
Thread(target=watch, daemon=True).start()
for number in found:
    before = peak = own_mib()
    began = time.monotonic()
    with store.writing() as connection:
        signals = grade_session(connection, number, datetime(2027, 1, 1, tzinfo=UTC)).signals
    print(json.dumps({
        "calls": signals.tool_calls,
        "failures": signals.tool_failures,
        "churn": signals.edit_churn,
        "growth_mib": round(peak - before, 1),
        "peak_mib": round(peak, 1),
        "seconds": round(time.monotonic() - began, 1),
    }))
"""


def _main(urls: Sequence[str]) -> None:
    for url in urls:
        with Store.open(url) as store, store.writing() as connection:
            for turns in (1_000, 100_000, 1_000_000):
                add_long_session(connection, turns)
        for found in _measured(url):
            print(found)


if __name__ == "__main__":
    _main(sys.argv[1:])
