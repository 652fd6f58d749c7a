"""What a proxy counts reaches the store: once, whole, and without a request waiting for it."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from tests.store.conftest import database_url, postgres, postgres_url

from demerit.defects import OTHER, DefectLedger, LoopGuardTrip
from demerit.proxy.exchange import Decision
from demerit.proxy.keeping import Keeping, Waiting
from demerit.store import Store, StoreError, guarded
from demerit.store.guarded import ScanKey, TripsDay, model_counts, trips
from demerit.store.schema import guard_trips

__all__ = ["database_url", "postgres", "postgres_url"]

AT = datetime(2026, 12, 1, 12, tzinfo=UTC)


def begun(
    url: str, ledger: DefectLedger | None = None, warn: Callable[[str], None] = pytest.fail, **options: Any
) -> Keeping:
    """With a clock that goes on by a second at each look, and looks at the ledger whenever it does."""
    seconds = itertools.count()
    options = {"counts_s": 1, "now": lambda: AT + timedelta(seconds=next(seconds)), **options}
    return Keeping(url, ledger or DefectLedger(), "1", "note", warn, **options)


def decision(at: datetime = AT, session: str = "5e55") -> Decision:
    return Decision(at, "m", "note", LoopGuardTrip.loop, "abcd", session, 3, 2)


def log(url: str) -> list[TripsDay]:
    with Store.open(url) as store, store.reading() as connection:
        return trips(connection, 0)


def counted(url: str) -> dict[tuple[int, str], dict[str, int]]:
    """By hour and model."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    with Store.open(url) as store, store.reading() as connection:
        for row in model_counts(connection, 0, 10**7):
            found.setdefault((row.hour, row.model), {})[row.counter] = row.value
    return found


def sums(url: str) -> Counter[str]:
    return sum(map(Counter, counted(url).values()), Counter())


def eventually(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


# --- what is written --------------------------------------------------------------------------------------------


def test_all_that_waits_is_written_when_it_is_closed(database_url: str) -> None:
    ledger = DefectLedger()
    keeping = begun(database_url, ledger)
    for _ in range(3):
        ledger.record_request("m")
        keeping.scanned(AT, "m")
    keeping.decision(decision())
    assert (keeping.pending, keeping.lost) == (1, 0)
    keeping.close()
    assert (keeping.pending, keeping.lost) == (0, 0)
    assert [(row.scanned, row.trips, row.sessions) for row in log(database_url)] == [(3, 1, 1)]
    assert sums(database_url) == {"requests": 3}


def test_of_a_conversation_nothing_but_hashes_is_kept(database_url: str) -> None:
    keeping = begun(database_url)
    keeping.decision(decision())
    keeping.close()
    with Store.open(database_url) as store, store.reading() as connection:
        (row,) = connection.execute(select(guard_trips)).all()
    assert tuple(row)[2:] == ("m", "1", "note", "loop", "abcd", "5e55", 3, 2)


def test_a_request_just_before_midnight_is_of_one_day_whenever_it_is_written(database_url: str) -> None:
    last = datetime(AT.year, AT.month, AT.day, tzinfo=UTC) - timedelta(microseconds=1)
    keeping = begun(database_url)
    keeping.scanned(last, "m")
    keeping.decision(decision(last))
    keeping.close()
    assert [(row.day, row.scanned, row.trips) for row in log(database_url)] == [(last.date(), 1, 1)]


def test_an_empty_proxy_makes_no_database(tmp_path: Any) -> None:
    begun(f"sqlite:///{tmp_path}/demerit.db").close()
    assert list(tmp_path.iterdir()) == []


def test_many_decisions_do_not_wait_for_their_seconds(database_url: str) -> None:
    keeping = begun(database_url, flush_s=600)
    for _ in range(300):
        keeping.decision(decision())
    eventually(lambda: not keeping.pending, "they wait")
    keeping.close()
    assert [row.trips for row in log(database_url)] == [300]


def test_what_a_minute_counts_is_of_the_hour_in_which_it_began(database_url: str) -> None:
    clock = [datetime(2026, 12, 1, 12, 59, 58, tzinfo=UTC)]
    ledger = DefectLedger()
    keeping = begun(database_url, ledger, now=lambda: clock[0], flush_s=0.01)
    ledger.record_request("m")
    ledger.record_request("n")
    clock[0] += timedelta(seconds=5)
    eventually(lambda: counted(database_url), "nothing was written")
    ledger.record_request("m")
    keeping.close()
    noon = 20_788 * 24 + 12
    assert counted(database_url) == {
        (noon, "m"): {"requests": 1},
        (noon, "n"): {"requests": 1},
        (noon + 1, "m"): {"requests": 1},
    }


def test_old_trips_go_as_new_ones_come(database_url: str) -> None:
    for at in (AT - timedelta(90), AT):
        keeping = begun(database_url, now=partial(datetime.fromtimestamp, at.timestamp(), UTC))
        keeping.decision(decision(at))
        keeping.close()
    assert [row.day for row in log(database_url)] == [AT.date()]


# --- each once --------------------------------------------------------------------------------------------------

RECORDED = st.tuples(st.sampled_from("ab"), st.sampled_from(["requests", "stream_errors", "scanned"]))
TAKEN = st.integers(0, 2)
TRIED = st.booleans()


@given(st.lists(RECORDED | TAKEN | TRIED))
def test_what_is_written_comes_to_what_the_ledger_has(steps: list[tuple[str, str] | int | bool]) -> None:
    """Between two looks at the ledger anything is recorded; writing succeeds or fails as it comes."""
    ledger = DefectLedger()
    waiting = Waiting(ledger, "1", "note")
    found: Counter[tuple[int, str, str]] = Counter()
    expected: Counter[tuple[int, str, str]] = Counter()
    new: Counter[tuple[str, str]] = Counter()

    def count(hour: int) -> None:
        waiting.count(hour)
        expected.update({(hour, *key): n for key, n in new.items()})
        new.clear()

    def write() -> None:
        batch = waiting.batch()
        for hour, models in batch.counts.items():
            for model, counts in models.items():
                found.update({(hour, model, name): n for name, n in counts.items()})
        waiting.written(batch)

    for step in steps:
        if isinstance(step, tuple):
            model, name = step
            if name == "requests":
                ledger.record_request(model)
            elif name == "stream_errors":
                ledger.record_stream_error(model)
            else:
                ledger.record_turn(model, scanned=1)
            new[step] += 1
        elif isinstance(step, bool):
            if step:
                write()
            else:
                waiting.batch()  # and the database failed
        else:
            count(step)
    count(3)
    write()
    assert found == expected
    assert waiting.batch().is_empty


@given(st.lists(st.sampled_from(["request", "trip", "take", "written"])))
def test_scans_and_trips_are_written_once_however_they_come_between(steps: list[str]) -> None:
    waiting = Waiting(DefectLedger(), "1", "note")
    batch = None
    asked = tripped = scans = decided = 0
    for step in (*steps, "take", "written"):
        if step == "request":
            waiting.scanned(AT, "m")
            asked += 1
        elif step == "trip":
            waiting.decision(decision())
            tripped += 1
        elif step == "take":
            batch = waiting.batch()
        elif batch is not None:
            waiting.written(batch)
            scans += sum(batch.scans.values())
            decided += len(batch.trips)
            batch = None
    assert (scans, decided, waiting.pending) == (asked, tripped, 0)


def test_two_proxies_at_one_database_add_up(database_url: str) -> None:
    def serve() -> None:
        ledger = DefectLedger()
        keeping = begun(database_url, ledger, told.append, flush_s=0.001)
        for _ in range(50):
            ledger.record_request("m")
            keeping.scanned(AT, "m")
            keeping.decision(decision())
            time.sleep(0.001)
        keeping.close(60)

    told: list[str] = []
    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == []
    assert [(row.scanned, row.trips) for row in log(database_url)] == [(100, 100)]
    assert sums(database_url) == {"requests": 100}


# --- what goes wrong --------------------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes every transaction fail at its end, until the list is emptied; each failure adds to it."""
    failures = [0]
    real = guarded.add_model_counts

    def add(*given: Any) -> None:
        real(*given)
        if failures:
            failures.append(0)
            raise StoreError("the disk is full")

    monkeypatch.setattr("demerit.proxy.keeping.add_model_counts", add)
    return failures


def test_a_database_that_fails_for_a_while_loses_nothing(database_url: str, failing: list[int]) -> None:
    told: list[str] = []
    ledger = DefectLedger()
    keeping = begun(database_url, ledger, told.append, flush_s=0.01)
    ledger.record_request("m")
    keeping.scanned(AT, "m")
    keeping.decision(decision())
    eventually(lambda: len(failing) > 3, "it was not tried again")
    ledger.record_request("m")
    failing.clear()
    keeping.close()
    assert [(row.scanned, row.trips) for row in log(database_url)] == [(1, 1)]
    assert sums(database_url) == {"requests": 2}
    assert told == ["what the proxy counted cannot be kept now, and will be tried again: the disk is full"]


def test_a_database_that_is_not_there_is_said_to_be_in_words(tmp_path: Any) -> None:
    told: list[str] = []
    (tmp_path / "file").touch()
    keeping = begun(f"sqlite:///{tmp_path}/file/demerit.db", warn=told.append)
    keeping.scanned(AT, "m")
    keeping.close()
    assert told[0].startswith("what the proxy counted cannot be kept now, and will be tried again: ")
    assert str(tmp_path) in told[0]
    assert told[1:] == ["the proxy's last counts were not kept; decisions that its guard's log lacks: 0"]


def test_decisions_without_room_are_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(url: str) -> Store:
        raise StoreError("not there")

    monkeypatch.setattr(Store, "open", fail)
    told: list[str] = []
    keeping = begun("sqlite://", warn=told.append, flush_s=600)
    for _ in range(1030):
        keeping.decision(decision())
    assert (keeping.pending, keeping.lost) == (1024, 6)
    keeping.close()
    assert (keeping.pending, keeping.lost) == (0, 1030)
    assert told[-1] == "the proxy's last counts were not kept; decisions that its guard's log lacks: 1030"


def test_a_database_that_somebody_keeps_locked_does_not_keep_the_proxy_from_ending(database_url: str) -> None:
    told: list[str] = []
    with Store.open(database_url) as store, store.writing():
        keeping = begun(database_url, warn=told.append, flush_s=0.01)
        keeping.decision(decision())
        keeping.close(0.2)
        assert keeping.lost == 1
    for thread in threading.enumerate():
        if thread.name == "demerit-keeping":
            thread.join()
    assert len(told) == 1


KILLED = """
import sys
from datetime import UTC, datetime
from demerit.defects import DefectLedger, LoopGuardTrip
from demerit.proxy.exchange import Decision
from demerit.proxy.keeping import Keeping

ledger, at = DefectLedger(), datetime.now(UTC)
keeping = Keeping(sys.argv[1], ledger, "1", "note", print, flush_s=0.001, counts_s=0.001)
while True:
    while keeping.pending > 100:
        pass
    ledger.record_request("m")
    keeping.scanned(at, "m")
    keeping.decision(Decision(at, "m", "note", LoopGuardTrip.loop, None, None, 3, 2))
"""


def test_a_proxy_that_is_killed_leaves_whole_batches(database_url: str) -> None:
    Store.open(database_url).close()
    with subprocess.Popen([sys.executable, "-c", KILLED, database_url]) as process:
        try:
            eventually(lambda: sum(row.trips for row in log(database_url)) > 200, "nothing was written")
        finally:
            process.send_signal(signal.SIGKILL)
    assert all(row.scanned >= row.trips for row in log(database_url)), "no trip is there without its request"
    assert sums(database_url)["requests"] > 0


# --- what clients can make of it --------------------------------------------------------------------------------


def test_clients_that_invent_names_do_not_fill_the_store() -> None:
    waiting = Waiting(DefectLedger(), "1", "note")
    for number in range(1002):
        waiting.scanned(AT, f"m{number}")
    waiting.scanned(AT, "m0")
    waiting.scanned(AT, "m0" + "x" * 300)
    models = Counter({key.model: count for key, count in waiting.batch().scans.items()})
    assert (len(models), models["m0"], models[OTHER]) == (1001, 2, 3)


def test_with_the_guard_off_nothing_is_scanned() -> None:
    waiting = Waiting(DefectLedger(), "1", "off")
    waiting.scanned(AT, "m")
    assert waiting.batch().is_empty


def test_a_scan_is_of_its_day_model_version_and_mode() -> None:
    waiting = Waiting(DefectLedger(), "0.3", "refuse")
    waiting.scanned(datetime(2026, 12, 1, 23, 59, 59, tzinfo=UTC), "m")
    assert waiting.batch().scans == {ScanKey(20_788, "m", "0.3", "refuse"): 1}
