"""The shape of a session in SQL is that of `classify_archetype`, and what is not measured is chosen as such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import BigInteger, literal, select
from tests.store.rows import add_session

from demerit.quality import (
    DEEP_MESSAGES,
    DEEP_MINUTES,
    MARATHON_MESSAGES,
    MARATHON_MINUTES,
    SIGNALS_VERSION,
    STANDARD_MESSAGES,
    STANDARD_MINUTES,
    ArchetypeFacts,
    classify_archetype,
)
from demerit.store import Store
from demerit.store.filters import Filter, archetype, archetype_of, chosen_sessions, is_measured, with_signals
from demerit.store.schema import sessions

_MINUTE_US = 60_000_000
Row = tuple[int, int, int | None]
"""(messages of a person, messages, microseconds or None)"""


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


def in_sql(store: Store, rows: Sequence[Row]) -> list[str]:
    columns = [
        archetype_of(literal(users), literal(messages), literal(duration, BigInteger)).label(f"c{place}")
        for place, (users, messages, duration) in enumerate(rows)
    ]
    with store.reading() as connection:
        return list(connection.execute(select(*columns)).one())


def in_python(rows: Sequence[Row]) -> list[str]:
    return [
        classify_archetype(ArchetypeFacts(users, messages, (duration or 0) / _MINUTE_US)).value
        for users, messages, duration in rows
    ]


def test_the_shape_is_the_same_around_every_edge(store: Store) -> None:
    counts = [0, 1, *(edge + by for edge in (STANDARD_MESSAGES, DEEP_MESSAGES, MARATHON_MESSAGES) for by in (-1, 0, 1))]
    edges = (STANDARD_MINUTES, DEEP_MINUTES, MARATHON_MINUTES)
    lengths = [None, 0, 1, *(edge * _MINUTE_US + by for edge in edges for by in (-1, 0, 1))]
    rows = list(product((0, 1, 300), counts, lengths))
    for at in range(0, len(rows), 100):
        some = rows[at : at + 100]
        assert in_sql(store, some) == in_python(some)


def test_the_shape_is_the_same_for_any_session(store: Store) -> None:
    row = st.tuples(st.integers(0, 3), st.integers(0, 300), st.none() | st.integers(-(10**12), 10**12))

    @given(st.lists(row, min_size=1, max_size=60))
    @settings(max_examples=30)
    def check(rows: list[Row]) -> None:
        assert in_sql(store, rows) == in_python(rows)

    check()


@pytest.mark.parametrize(
    ("prompts", "answers", "minutes", "expected"),
    [
        pytest.param(1, 0, None, "quick", id="no span, one message"),
        pytest.param(1, 1, 4.999999, "quick", id="not quite five minutes"),
        pytest.param(1, 1, 5, "standard", id="five minutes"),
        pytest.param(30, 30, 1, "deep", id="60 messages in a minute"),
        pytest.param(0, 250, 300, "automation", id="nobody took part"),
    ],
)
def test_the_shape_of_a_session_that_is_kept(
    store: Store, prompts: int, answers: int, minutes: float | None, expected: str
) -> None:
    with store.writing() as connection:
        if minutes is None:
            add_session(connection, prompts=prompts, answers=answers, started=None)
        else:
            add_session(connection, prompts=prompts, answers=answers, minutes=minutes)
    with store.reading() as connection:
        assert connection.execute(select(archetype).select_from(sessions)).scalar_one() == expected
        found = connection.execute(chosen_sessions(Filter(archetype=expected), sessions.c.id)).all()
    assert len(found) == 1


@pytest.mark.parametrize(
    "unmeasured",
    [
        pytest.param({"signals_version": None}, id="not graded yet"),
        pytest.param({"is_stale": True}, id="grown since"),
        pytest.param({"signals_version": SIGNALS_VERSION - 1}, id="graded by older rules"),
        pytest.param({"signals_version": SIGNALS_VERSION + 1}, id="graded by newer rules"),
    ],
)
def test_what_is_not_measured_has_no_grade_no_outcome_and_no_ending(
    store: Store, unmeasured: dict[str, int | None]
) -> None:
    with store.writing() as connection:
        number = add_session(connection, score=80, outcome="abandoned", ending="interrupted", **unmeasured)  # type: ignore[arg-type]

    def found(chosen: Filter) -> list[int]:
        with store.reading() as connection:
            return list(connection.execute(chosen_sessions(chosen, sessions.c.id)).scalars())

    assert found(Filter()) == [number]
    assert found(Filter(grade="B")) == []
    assert found(Filter(outcome="abandoned")) == []
    assert found(Filter(ending="interrupted")) == []
    assert found(Filter(grade="unscored")) == found(Filter(outcome="unknown")) == [number]
    with store.reading() as connection:
        assert connection.execute(select(sessions.c.id).select_from(with_signals).where(is_measured)).all() == []


def test_copies_and_what_older_parsers_read_are_chosen_by_nothing(store: Store) -> None:
    with store.writing() as connection:
        number = add_session(connection)
        add_session(connection, copy_of=number)
        add_session(connection, epoch=-1)
    with store.reading() as connection:
        assert list(connection.execute(chosen_sessions(Filter(), sessions.c.id)).scalars()) == [number]
