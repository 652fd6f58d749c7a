"""How far a rebuild is, and what the store says it could not read: a change of epoch from its beginning to its end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.store.logs import LATER, content, ids_by_file, report_of, settings_for, sync, totals, turns, write

from demerit import ingest
from demerit.model import PARSE_EPOCH
from demerit.store import Store
from demerit.store.filters import Filter, chosen_sessions, moment
from demerit.store.reads import count_sessions
from demerit.store.schema import logs, messages, sessions
from demerit.store.status import rebuilding, status


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three logs, `new` the last written and `old` the first."""
    for days, name in ((1, "old"), (5, "mid"), (9, "new")):
        write(tmp_path / "logs" / f"{name}.jsonl", turns(2, name), LATER + timedelta(days=days))
    return tmp_path / "logs"


def age(store: Store) -> None:
    """As after an update that reads logs in another way: all that is there is of the epoch before."""
    with store.writing() as connection:
        connection.execute(update(logs).values(epoch=PARSE_EPOCH - 1))
        connection.execute(update(sessions).values(epoch=PARSE_EPOCH - 1))


def rebuild(store: Store, report: Any = None, **chosen: Any) -> ingest.Pass:
    return ingest.rebuild(store, settings_for(store, **chosen), LATER, report, debug=True)


def progress(store: Store) -> tuple[int, int] | None:
    with store.reading() as connection:
        found = rebuilding(connection, LATER)
    return None if found is None else (found.logs_done, found.logs)


def listed(store: Store) -> int:
    with store.reading() as connection:
        return len(connection.execute(chosen_sessions(Filter(), sessions.c.id)).all())


def test_a_new_epoch_hides_all_sessions_until_they_are_read_again(store: Store, folder: Path) -> None:
    sync(store, folder)
    with store.reading() as connection:
        before = content(connection)
    assert (progress(store), listed(store)) == (None, 3)
    age(store)
    assert (progress(store), listed(store)) == ((0, 3), 0)
    with store.reading() as connection:
        assert count_sessions(connection, Filter()) == 0
        number = ids_by_file(connection)["new.jsonl"][0]
    assert report_of(store, number) is not None  # one session's page opens all the same
    assert rebuild(store).sessions == 3
    assert (progress(store), listed(store)) == (None, 3)
    with store.reading() as connection:
        assert content(connection) == before


def test_an_unchanged_log_of_an_older_epoch_is_read_by_the_next_pass(store: Store, folder: Path) -> None:
    sync(store, folder)
    age(store)
    found = sync(store, folder)
    assert (found.unchanged, found.read, found.sessions) == (0, 3, 3)
    assert progress(store) is None


@pytest.mark.parametrize("archive", [True, False])
def test_a_rebuild_begins_with_the_last_written_and_goes_on_where_it_was_stopped(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, archive: bool
) -> None:
    monkeypatch.setattr(ingest, "_BATCH_LOGS", 1)
    for name in ("mid", "old", "new"):
        sync(store, folder / f"{name}.jsonl", archive=archive)
    with store.reading() as connection:
        before = content(connection)
    age(store)
    order: list[str] = []

    def current() -> set[str]:
        with store.reading() as connection:
            paths = connection.execute(select(logs.c.path).where(logs.c.epoch == PARSE_EPOCH)).scalars()
            return {Path(path).stem for path in paths}

    def stop(progress: ingest.Progress) -> None:
        order.extend(current() - set(order))
        raise KeyboardInterrupt

    for left in (3, 2):
        with pytest.raises(KeyboardInterrupt):
            rebuild(store, stop, archive=archive)
        assert progress(store) == (4 - left, 3)
    found = rebuild(store, archive=archive)
    assert (found.found, order, progress(store)) == (1, ["new", "mid"], None)
    with store.reading() as connection:
        assert content(connection) == before


def test_a_rebuild_that_is_asked_for_reads_everything_again_and_changes_nothing(store: Store, folder: Path) -> None:
    sync(store, folder)
    with store.reading() as connection:
        before = content(connection)
    assert rebuild(store).found == 0
    ingest.begin_rebuild(store)
    found = rebuild(store)
    assert (found.found, found.read, found.failed) == (3, 3, [])
    with store.reading() as connection:
        assert content(connection) == before


def test_prompt_facts_of_another_version_are_made_anew_by_a_rebuild(store: Store, folder: Path) -> None:
    sync(store, folder)
    with store.writing() as connection:
        connection.execute(update(messages).where(messages.c.prompt_version.is_not(None)).values(prompt_version=-1))
        connection.execute(update(sessions).values(is_stale=True))
    age(store)
    assert ingest.settle(store, LATER) == 0
    rebuild(store)
    with store.reading() as connection:
        assert status(connection, LATER).waiting == 0


def test_the_time_left_is_told_at_the_rate_of_the_last_minute(store: Store, folder: Path) -> None:
    sync(store, folder)
    age(store)
    with store.reading() as connection:
        found = rebuilding(connection, LATER)
    assert found is not None
    assert found.seconds_left is None  # nobody is at it
    with store.writing() as connection:
        now_us = connection.execute(select(logs.c.read_us)).scalars().first()
        connection.execute(update(logs).where(logs.c.path.like("%new%")).values(epoch=PARSE_EPOCH))
        of_new = sessions.c.log_id.in_(select(logs.c.id).where(logs.c.epoch == PARSE_EPOCH))
        connection.execute(update(sessions).where(of_new).values(epoch=PARSE_EPOCH))
    assert now_us is not None
    with store.reading() as connection:
        found = rebuilding(connection, moment(now_us) or LATER)
    assert found is not None
    assert (found.logs_done, found.logs, found.seconds_left) == (1, 3, 120.0)  # one a minute


# --- logs that are gone -------------------------------------------------------------------------------------------


def test_what_is_gone_and_was_archived_is_rebuilt_from_the_archive(store: Store, folder: Path) -> None:
    sync(store, folder)
    with store.reading() as connection:
        before = content(connection)
    shutil.rmtree(folder)
    age(store)
    found = rebuild(store)
    assert (found.read, found.failed) == (3, [])
    with store.reading() as connection:
        assert content(connection) == before
        assert status(connection, LATER).gone == 3


def test_what_is_gone_and_was_not_archived_stays_and_counts_nowhere(store: Store, folder: Path) -> None:
    sync(store, folder, archive=False)
    (folder / "old.jsonl").unlink()
    age(store)
    found = rebuild(store, archive=False)
    assert [Path(path).name for path, _ in found.failed] == ["old.jsonl"]
    assert listed(store) == 2
    with store.reading() as connection:
        told = status(connection, LATER)
        number = ids_by_file(connection)["old.jsonl"][0]
    assert (told.sessions, told.outdated, told.unread_count, told.rebuilding) == (2, 1, 1, None)
    assert told.unread[0].reason == "it is gone, and was not archived; its sessions stay as they were read"
    assert report_of(store, number) is not None
    assert rebuild(store, archive=False).found == 0  # it is not tried again and again


def test_a_log_that_comes_back_is_read_again(store: Store, folder: Path) -> None:
    sync(store, folder, archive=False)
    away = folder.parent / "away"
    folder.rename(away)
    age(store)
    rebuild(store, archive=False)
    assert listed(store) == 0
    away.rename(folder)
    sync(store, folder, archive=False)
    assert listed(store) == 3
    with store.reading() as connection:
        told = status(connection, LATER)
    assert (told.outdated, told.unread_count, told.gone) == (0, 0, 0)


def test_logs_that_are_gone_are_marked_and_their_sessions_count_on(store: Store, folder: Path) -> None:
    sync(store, folder)
    os.unlink(folder / "old.jsonl")
    assert ingest.mark_gone(store, settings_for(store)) == 1
    assert ingest.mark_gone(store, settings_for(store)) == 0
    assert ingest.mark_gone(store, settings_for(store, machine="elsewhere")) == 0
    with store.reading() as connection:
        told = status(connection, LATER)
    assert (told.logs, told.gone, told.sessions) == (3, 1, 3)


# --- what could not be read ---------------------------------------------------------------------------------------


def test_what_the_store_holds(store: Store, folder: Path) -> None:
    write(folder / "copy.jsonl", turns(2, "old"))
    write(folder / "live.jsonl", [*turns(2, "live"), '{"type": "user", "mess'], LATER)
    write(folder / "notes.jsonl", ['{"nothing": "of ours"}'])
    sync(store, folder, now=LATER - timedelta(days=1) + timedelta(minutes=5))
    with store.reading() as connection:
        told = status(connection, LATER)
        assert totals(connection)["sessions"] == told.sessions
    assert (told.logs, told.sessions, told.copies, told.outdated, told.waiting) == (6, 4, 1, 0, 4)
    assert told.losses == {"malformed_line": 1}
    assert [(Path(one.path).name, one.machine, one.known_agent) for one in told.unread] == [
        ("notes.jsonl", "here", False)
    ]
    assert told.unread_count == 1
