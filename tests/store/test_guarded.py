"""What proxies counted, and the trips log: sums, days and what is let go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import select

from demerit.rates import Share, wilson
from demerit.store import Store, guarded
from demerit.store.filters import microseconds
from demerit.store.guarded import (
    CountRow,
    ScanKey,
    Trip,
    TripsDay,
    add_decisions,
    add_model_counts,
    forget_old_trips,
    model_counts,
    trips,
)
from demerit.store.schema import guard_scans

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
TODAY = 20_788
"""Days from 1970 to NOON."""
FIRST = date(2026, 12, 1)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


def trip(
    days_ago: int = 0,
    model: str = "m",
    mode: str = "note",
    detector: str = "loop",
    session: str | None = None,
    version: str = "1",
    at: datetime = NOON,
) -> Trip:
    return Trip(microseconds(at - timedelta(days_ago)), model, version, mode, detector, None, session, 3, 2)


def scanned(days_ago: int = 0, model: str = "m", mode: str = "note", version: str = "1") -> ScanKey:
    return ScanKey(TODAY - days_ago, model, version, mode)


def decide(store: Store, decided: list[Trip], scans: dict[ScanKey, int]) -> None:
    with store.writing() as connection:
        add_decisions(connection, decided, scans)


def log(store: Store, since: datetime = NOON - timedelta(400)) -> list[TripsDay]:
    with store.reading() as connection:
        return trips(connection, microseconds(since))


# --- the trips log ----------------------------------------------------------------------------------------------


def test_a_row_for_each_day_model_version_and_mode_the_newest_first(store: Store) -> None:
    yesterday = [trip(1, session="s1"), trip(1, detector="stagnation")]
    decide(store, yesterday, {scanned(1): 9})
    decide(store, [trip(session="s1"), trip(session="s1")], {scanned(): 4, scanned(version="2"): 1})
    decide(store, [trip(session="s2"), trip(model="n", mode="refuse")], {scanned(): 1, scanned(model="q"): 5})
    of_today = [
        TripsDay(FIRST, "m", "1", "note", scanned=5, trips=3, loops=3, stagnations=0, sessions=2),
        TripsDay(FIRST, "m", "2", "note", scanned=1, trips=0, loops=0, stagnations=0, sessions=0),
        TripsDay(FIRST, "n", "1", "refuse", scanned=0, trips=1, loops=1, stagnations=0, sessions=0),
        TripsDay(FIRST, "q", "1", "note", scanned=5, trips=0, loops=0, stagnations=0, sessions=0),
    ]
    assert log(store, NOON) == of_today, "a time means the whole of its day"
    assert log(store, NOON - timedelta(1)) == [
        *of_today,
        TripsDay(date(2026, 11, 30), "m", "1", "note", scanned=9, trips=2, loops=1, stagnations=1, sessions=1),
    ]


def test_days_end_at_midnight_in_utc(store: Store) -> None:
    last = datetime(2026, 12, 1, 23, 59, 59, 999_999, tzinfo=UTC)
    decide(store, [trip(at=last), trip(at=last + timedelta(microseconds=1))], {})
    assert [(row.day, row.trips) for row in log(store)] == [(date(2026, 12, 2), 1), (FIRST, 1)]


def test_shares_are_of_what_was_scanned() -> None:
    row = TripsDay(FIRST, "m", "1", "note", scanned=200, trips=3, loops=2, stagnations=1, sessions=1)
    assert (row.loops_share, row.stagnations_share) == (wilson(2, 200), wilson(1, 200))


@pytest.mark.parametrize(
    "of", [pytest.param(0, id="the count of a day was lost"), pytest.param(1, id="a part of it was")]
)
def test_there_is_no_share_of_less_than_tripped(of: int) -> None:
    row = TripsDay(FIRST, "m", "1", "note", scanned=of, trips=2, loops=2, stagnations=0, sessions=1)
    assert row.loops_share == Share(None, None, None)


def test_days_go_when_they_are_ninety_days_old(store: Store) -> None:
    decide(store, [trip(90), trip(89)], {scanned(90): 1, scanned(89): 1})
    with store.writing() as connection:
        forget_old_trips(connection, NOON)
    assert [(row.day, row.trips, row.scanned) for row in log(store)] == [(date(2026, 9, 3), 1, 1)]


def test_too_many_trips_go_by_whole_days_from_both_tables(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "MOST_TRIPS", 3)
    decide(store, [trip(day) for day in (4, 2, 2, 1, 1)], {scanned(day): 1 for day in (4, 3, 2, 1)})
    with store.writing() as connection:
        forget_old_trips(connection, NOON)
        assert connection.execute(select(guard_scans.c.day)).scalars().all() == [TODAY - 1]
    assert [(row.day, row.trips) for row in log(store)] == [(date(2026, 11, 30), 2)], "the day of the fourth goes"


def test_todays_trips_never_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "MOST_TRIPS", 3)
    decide(store, [trip(1), *(trip() for _ in range(5))], {scanned(1): 1, scanned(): 5})
    with store.writing() as connection:
        forget_old_trips(connection, NOON)
    assert [(row.day, row.trips, row.scanned) for row in log(store)] == [(FIRST, 5, 5)]


def test_as_many_trips_as_may_be_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "MOST_TRIPS", 3)
    decide(store, [trip(2), trip(1), trip()], {})
    with store.writing() as connection:
        forget_old_trips(connection, NOON)
    assert [row.trips for row in log(store)] == [1, 1, 1]


# --- what was counted -------------------------------------------------------------------------------------------


@pytest.fixture
def counted(store: Store) -> Store:
    with store.writing() as connection:
        add_model_counts(connection, 47, "1", {"m": {"requests": 2, "stream_errors": 0}, "n": {"requests": 1}})
        add_model_counts(connection, 47, "1", {"m": {"requests": 3}})
        add_model_counts(connection, 48, "2", {"m": {"requests": 1}})
        add_model_counts(connection, 49, "2", {"m": {"requests": 4, "empty_responses": 1}})
        add_model_counts(connection, 49, "2", {})
    return store


def test_counts_of_an_hour_add_up(counted: Store) -> None:
    with counted.reading() as connection:
        assert model_counts(connection, 47, 49) == [
            CountRow(47, "m", "1", "requests", 5),
            CountRow(47, "n", "1", "requests", 1),
            CountRow(48, "m", "2", "requests", 1),
        ], "a counter that counted nothing has no row, and the last hour is not among those asked for"


def test_hours_of_a_day_add_up(counted: Store) -> None:
    with counted.reading() as connection:
        assert model_counts(connection, 24, 72, model="m", by="day") == [
            CountRow(24, "m", "1", "requests", 5),
            CountRow(48, "m", "2", "empty_responses", 1),
            CountRow(48, "m", "2", "requests", 5),
        ]


def test_nothing_is_ever_uncounted(store: Store) -> None:
    with store.writing() as connection, pytest.raises(ValueError, match="every difference must be 0 or more"):
        add_model_counts(connection, 1, "1", {"m": {"requests": 1}, "n": {"requests": -1}})


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        pytest.param("nul\0", "nul\ufffd", id="with a character that PostgreSQL does not take"),
        pytest.param("half \ud83d", "half ?", id="with half of a character"),
        pytest.param("x" * 300, "x" * 256, id="of more than 256 characters"),
        pytest.param("", "", id="empty"),
    ],
)
def test_a_models_name(store: Store, model: str, kept: str) -> None:
    decide(store, [trip(model=model)], {scanned(model=model): 1})
    with store.writing() as connection:
        add_model_counts(connection, 1, "1", {model: {"requests": 1}})
        assert model_counts(connection, 0, 2, model) == [CountRow(1, kept, "1", "requests", 1)]
    assert [(row.model, row.scanned, row.trips) for row in log(store)] == [(kept, 1, 1)]
