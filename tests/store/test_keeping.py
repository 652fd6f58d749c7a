"""Verdicts by hand, and what is thrown away: it is gone, all of it, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from sqlalchemy import func, select
from tests.parsers.claude_lines import START, assistant, call, result, user

from demerit import config, ingest
from demerit.model import PARSE_EPOCH
from demerit.store import Store, StoreError, keeping
from demerit.store.archive import all_archived
from demerit.store.filters import Filter
from demerit.store.keeping import PrunePlan, plan_prune, prune, set_verdict
from demerit.store.reads import NotFound, list_sessions, read_session
from demerit.store.schema import logs, metadata, projects, pruned, sessions, texts, verdicts
from demerit.store.search import search

NOW = START + timedelta(days=100)
MARK = "zq" + "xvplanted"  # in titles, prompts, answers, inputs, outputs, paths; a word that nothing else has


class Logs(NamedTuple):
    store: Store
    settings: config.Settings
    folder: Path

    def write(self, name: str, *lines: Any) -> Path:
        path = self.folder / f"{name}.jsonl"
        path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        return path

    def sync(self) -> ingest.Pass:
        return ingest.sync(self.store, self.settings, sorted(self.folder.glob("*.jsonl")), NOW, debug=True)

    def session(self, name: str, day: int = 0, word: str = "plain", cwd: str = "/home/dev/shop") -> Path:
        """A log of one session of four messages, which began `day` days after START."""
        return self.write(name, *conversation(name, day, word, cwd))

    def names(self) -> list[str]:
        with self.store.reading() as connection:
            page = list_sessions(connection, Filter(), descending=False, limit=500)
        return [row.source_id for row in page.rows]

    def count(self, table: Any) -> int:
        with self.store.reading() as connection:
            found: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
        return found

    def archived(self) -> list[str]:
        """Names of the logs of which bytes are archived."""
        with self.store.archive_engine.connect() as connection:
            return sorted(Path(one.path).stem for one in all_archived(connection))


def conversation(name: str, day: int, word: str, cwd: str = "/home/dev/shop") -> list[Any]:
    second = day * 86_400
    common: dict[str, Any] = {"sessionId": name, "cwd": cwd}
    edit = call(f"t-{name}", "Edit", file_path=f"{cwd}/{word}.py", old_string="a", new_string=word)
    return [
        user(f"please look at {word} in {name}", second, **common),
        assistant(f"it is {word}", edit, second=second + 10, id=f"a-{name}", **common),
        result(f"t-{name}", f"found {word}", second=second + 20, **common),
        assistant(f"done with {word}", second=second + 30, id=f"b-{name}", **common),
    ]


@pytest.fixture
def kept(database_url: str, tmp_path: Path) -> Iterator[Logs]:
    folder = tmp_path / "logs"
    folder.mkdir()
    settings = config.load({"DEMERIT_DATABASE_URL": database_url, "DEMERIT_WORKERS": "1"})
    with Store.open(database_url) as store:
        yield Logs(store, settings, folder)


def days(number: float) -> datetime:
    return START + timedelta(days=number)


def number_of(kept: Logs, name: str) -> int:
    with kept.store.reading() as connection:
        query = select(sessions.c.id).where(sessions.c.source_id == name)
        found: int = connection.execute(query).scalar_one()
    return found


# --- verdicts ---------------------------------------------------------------------------------------------------


def test_a_verdict_is_set_replaced_and_taken_back(kept: Logs) -> None:
    kept.session("one")
    kept.sync()
    number = number_of(kept, "one")
    seen = []
    for verdict, note in (("good", "did it"), ("bad", "not \0 really"), (None, "")):
        with kept.store.writing() as connection:
            set_verdict(connection, number, verdict, note, NOW)  # type: ignore[arg-type]
        with kept.store.reading() as connection:
            said = read_session(connection, number).verdict
        seen.append(said and (said.verdict, said.note, said.at))
    assert seen == [("good", "did it", NOW), ("bad", "not \ufffd really", NOW), None]


def test_a_verdict_on_no_session_is_refused(kept: Logs) -> None:
    with kept.store.writing() as connection, pytest.raises(NotFound, match="no session 7"):
        set_verdict(connection, 7, "good", "", NOW)


# --- plans ------------------------------------------------------------------------------------------------------


def plan(kept: Logs, **asked: Any) -> list[str]:
    """Names of the sessions of a plan, in its order."""
    found = plan_prune(kept.store, **asked)
    with kept.store.reading() as connection:
        names = {row[0]: row[1] for row in connection.execute(select(sessions.c.id, sessions.c.source_id))}
    assert len(found.ids) == found.sessions
    return [names[number] for number in found.ids]


@pytest.fixture
def four(kept: Logs) -> Logs:
    """Four sessions, the last signs of life 30 s after days 0 to 3; the third in another project."""
    for day, name in enumerate(("one", "two", "three", "four")):
        kept.session(name, day, cwd="/home/dev/till" if name == "three" else "/home/dev/shop")
    kept.sync()
    return kept


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({"older_than": days(2)}, ["one", "two"], id="older than a time, the oldest first"),
        pytest.param({"older_than": days(0) + timedelta(seconds=30)}, [], id="the very moment is not older"),
        pytest.param({"project": "till"}, ["three"], id="a project by its name"),
        pytest.param({"project": "till", "older_than": days(1)}, [], id="what meets one demand only stays"),
        pytest.param({"project": "nowhere"}, [], id="an unknown project has none"),
        pytest.param({"max_bytes": 0}, ["one", "two", "three", "four"], id="nothing fits into no space"),
        pytest.param({"max_bytes": 1 << 30}, [], id="what fits stays"),
        pytest.param({"max_bytes": 0, "project": "shop"}, ["one", "two", "four"], id="a size within a project"),
    ],
)
def test_a_plan_has_the_sessions_that_are_asked_for(four: Logs, asked: Any, found: list[str]) -> None:
    assert plan(four, **asked) == found


def test_a_size_takes_the_oldest_sessions_until_the_rest_fits(four: Logs) -> None:
    everything = plan_prune(four.store, max_bytes=0)
    oldest = plan_prune(four.store, older_than=days(2))
    assert everything.kept_bytes >= everything.bytes > oldest.bytes > 0
    left = everything.kept_bytes - oldest.bytes  # to a byte: both are rounded
    assert plan(four, max_bytes=left + 1) == ["one", "two"]
    assert plan(four, max_bytes=left - 2) == ["one", "two", "three"]


def test_a_plan_says_how_old_they_are_and_which_logs_go(four: Logs) -> None:
    found = plan_prune(four.store, older_than=days(2))
    seconds = timedelta(seconds=30)
    assert (found.sessions, found.logs, found.shared_logs) == (2, 2, 0)
    assert (found.oldest, found.newest) == (days(0) + seconds, days(1) + seconds)
    nothing = plan_prune(four.store, older_than=days(-1))
    assert nothing == PrunePlan((), 0, 0, 0, 0, found.kept_bytes, None, None)


def test_a_copy_in_another_log_goes_along(kept: Logs) -> None:
    lines = conversation("one", 0, "plain")
    kept.write("one", *lines)
    kept.write("copied", *lines)
    kept.session("two", 1)
    kept.sync()
    assert plan(kept, older_than=days(0.5)) == ["one", "one"]
    prune(kept.store, plan_prune(kept.store, project="shop", older_than=days(0.5)))
    assert kept.names() == ["two"]


def test_nothing_asked_is_not_everything(kept: Logs) -> None:
    with pytest.raises(ValueError, match="which sessions"):
        plan_prune(kept.store)


def snapshot(kept: Logs, tmp_path: Path) -> Any:
    if kept.store.is_sqlite:
        return {path.name: path.read_bytes() for path in sorted(tmp_path.glob("demerit*")) if path.suffix == ".db"}
    return {table.name: kept.count(table) for table in metadata.sorted_tables}


def test_a_plan_changes_nothing(four: Logs, tmp_path: Path) -> None:
    before = snapshot(four, tmp_path)
    plan_prune(four.store, older_than=days(9), max_bytes=0)
    assert snapshot(four, tmp_path) == before
    assert len(before) >= 2


# --- pruning ----------------------------------------------------------------------------------------------------


def holding(kept: Logs, tmp_path: Path) -> list[str]:
    """Where the mark still stands: in files as they are, and in every blob that can be unpacked."""
    found = []
    if kept.store.is_sqlite:
        for path in tmp_path.glob("demerit*"):
            # An index keeps of a word only what the word before it does not begin with.
            found += [path.name for word in (MARK, MARK[2:]) if word.encode() in path.read_bytes().lower()]
    for engine in {kept.store.engine, kept.store.archive_engine}:
        with engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                names = "select name from sqlite_master where type = 'table'"
                tables = list(connection.exec_driver_sql(names).scalars())
            else:
                tables = [*(table.name for table in metadata.sorted_tables), "archived_logs", "archived_frames"]
            for table in tables:
                if table.startswith("search") and table != "search_data":
                    continue
                for row in connection.exec_driver_sql(f"select * from {table}"):
                    found += [f"{table}: {value!r:.60}" for value in row if MARK[2:].encode() in bytes_of(value)]
    return found


def bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes | memoryview):
        try:
            return zstandard.ZstdDecompressor().decompress(bytes(value), max_output_size=1 << 24)
        except zstandard.ZstdError:
            return bytes(value)
    return str(value).encode("utf-8", "replace")


def test_what_is_pruned_is_gone_and_nothing_else_is(kept: Logs, tmp_path: Path) -> None:
    kept.session("old", 0, MARK, cwd=f"/home/dev/{MARK}")
    kept.session("new", 5, "plain")
    kept.sync()
    with kept.store.writing() as connection:
        set_verdict(connection, number_of(kept, "old"), "bad", f"{MARK} was wrong", NOW)
        set_verdict(connection, number_of(kept, "new"), "good", "", NOW)
    assert len(holding(kept, tmp_path)) > 5
    with kept.store.reading() as connection:
        assert len(search(connection, MARK, Filter()).results) == 1

    done = prune(kept.store, plan_prune(kept.store, older_than=days(1)))

    assert (done.sessions, done.logs, done.trouble) == (1, 1, None)
    assert holding(kept, tmp_path) == []
    assert (kept.names(), kept.archived()) == (["new"], ["new"])
    assert (kept.count(projects), kept.count(verdicts), kept.count(logs), kept.count(pruned)) == (1, 1, 2, 1)
    with kept.store.reading() as connection:
        assert search(connection, MARK, Filter()).results == ()
        assert len(search(connection, "plain", Filter()).results) == 1
        assert connection.execute(select(func.count()).select_from(texts)).scalar_one() == 5


def test_what_is_pruned_comes_back_only_when_it_goes_on(kept: Logs) -> None:
    path = kept.session("one", 0)
    kept.session("two", 1)
    kept.sync()
    prune(kept.store, plan_prune(kept.store, older_than=days(0.5)))
    assert kept.sync().unchanged == 2
    os.utime(path, (1, 1))  # another fingerprint, and nothing new
    kept.sync()
    ingest.begin_rebuild(kept.store)
    ingest.rebuild(kept.store, kept.settings, NOW)
    assert kept.names() == ["two"]
    lines = [*conversation("one", 0, "plain"), user("go on", 2 * 86_400, sessionId="one")]
    kept.write("one", *lines)
    kept.sync()
    assert sorted(kept.names()) == ["one", "two"]


def test_a_session_that_went_on_since_the_plan_stays(kept: Logs) -> None:
    kept.session("one", 0)
    kept.session("two", 1)
    kept.sync()
    made = plan_prune(kept.store, older_than=days(2))
    kept.write("one", *conversation("one", 0, "plain"), user("go on", 3 * 86_400, sessionId="one"))
    kept.sync()
    assert prune(kept.store, made).sessions == 1
    assert (kept.names(), kept.archived()) == (["one"], ["one"])


def test_what_another_session_repeats_of_it_counts_there_afterwards(kept: Logs) -> None:
    first = conversation("one", 0, "plain")
    more = user("now the next thing", 4 * 86_400, sessionId="two")
    kept.write("one", *first)
    kept.write("two", *[{**line, "sessionId": "two"} for line in first], more)
    kept.sync()
    with kept.store.reading() as connection:
        before = {row.source_id: (row.messages, row.requests) for row in list_sessions(connection, Filter()).rows}
    prune(kept.store, plan_prune(kept.store, older_than=days(1)))
    with kept.store.reading() as connection:
        after = {row.source_id: (row.messages, row.requests) for row in list_sessions(connection, Filter()).rows}
    assert before == {"one": (3, 2), "two": (1, 0)}  # the result of a call is no message
    assert after == {"two": (4, 2)}


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_killed_half_way_and_run_again_the_rest_goes(
    kept: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    for day, name in enumerate(("one", "two", "three")):
        kept.session(name, day, f"{MARK}{day}")
    kept.session("four", 9)
    kept.sync()
    monkeypatch.setattr(keeping, "_SESSIONS_AT_A_TIME", 1)
    monkeypatch.setattr(keeping, "_LOGS_AT_A_TIME", 1)
    where = {0: "forget_sessions", 1: "_forget_archived", 2: "_reclaim"}[steps]
    real = getattr(keeping, where)
    calls: list[None] = []

    def killed(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) == (2 if steps == 0 else 1):
            raise KeyboardInterrupt
        return real(*arguments)

    made = plan_prune(kept.store, older_than=days(5))
    with monkeypatch.context() as patch:
        patch.setattr(keeping, where, killed)
        with pytest.raises(KeyboardInterrupt):
            prune(kept.store, made)
    assert kept.names() == (["two", "three", "four"] if steps == 0 else ["four"])

    assert prune(kept.store, plan_prune(kept.store, older_than=days(5))).trouble is None

    assert (kept.names(), kept.archived(), kept.count(pruned)) == (["four"], ["four"], 3)
    assert holding(kept, tmp_path) == []


def test_a_log_with_a_session_left_keeps_its_bytes(kept: Logs) -> None:
    path = kept.folder / ".aider.chat.history.md"
    chats = [f"\n# aider chat started at 2026-05-0{day} 09:00:00\n\n#### say {day}\n\nIt is {day}.\n" for day in (1, 6)]
    path.write_text("".join(chats))
    ingest.sync(kept.store, kept.settings, [path], NOW, debug=True)
    assert len(kept.names()) == 2
    found = plan_prune(kept.store, older_than=datetime(2026, 5, 4, tzinfo=UTC))
    assert (found.sessions, found.logs, found.shared_logs) == (1, 0, 1)
    prune(kept.store, found)
    assert (len(kept.names()), len(kept.archived())) == (1, 1)


def test_the_archive_of_a_log_that_could_not_be_read_is_no_leftover(kept: Logs) -> None:
    path = kept.session("one", 0)
    kept.sync()
    with kept.store.writing() as connection:
        connection.execute(sessions.delete())
        connection.execute(logs.update().values(reason="our fault", epoch=PARSE_EPOCH))
    prune(kept.store, plan_prune(kept.store, older_than=days(1)))
    assert path.exists() and kept.archived() == ["one"]


# --- space ------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Logs]:
    folder = tmp_path / "logs"
    folder.mkdir()
    url = f"sqlite:///{tmp_path / 'demerit.db'}"
    with Store.open(url) as store:
        yield Logs(store, config.load({"DEMERIT_DATABASE_URL": url, "DEMERIT_WORKERS": "1"}), folder)


def noise(length: int) -> str:
    """Text that hardly compresses."""
    return "".join(str(pow(7, number, 1_000_003)) + " " for number in range(length))


def test_the_files_shrink_to_the_size_that_was_asked_for(on_sqlite: Logs, tmp_path: Path) -> None:
    for day in range(20):
        on_sqlite.session(f"s{day}", day, noise(3000))
    on_sqlite.sync()
    most = plan_prune(on_sqlite.store, max_bytes=0).kept_bytes // 2
    made = plan_prune(on_sqlite.store, max_bytes=most)
    done = prune(on_sqlite.store, made)
    size = sum(path.stat().st_size for path in tmp_path.glob("demerit*.db*") if not path.name.endswith("-shm"))
    assert 8 <= made.sessions <= 12
    assert 0.8 * most < size < 1.1 * most
    assert done.freed_bytes is not None and done.freed_bytes > 0.8 * made.bytes
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("demerit*")} == {0o600}


def test_without_free_disk_it_says_so_and_the_next_run_makes_up_for_it(
    on_sqlite: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_sqlite.session("one", 0, f"{MARK} {noise(3000)}")
    on_sqlite.session("two", 5)
    on_sqlite.sync()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 0))
        done = prune(on_sqlite.store, plan_prune(on_sqlite.store, older_than=days(1)))
    assert done.sessions == 1
    assert done.trouble is not None and "free disk; make room and prune again" in done.trouble
    assert on_sqlite.names() == ["two"]
    again = prune(on_sqlite.store, plan_prune(on_sqlite.store, older_than=days(1)))
    assert (again.sessions, again.trouble) == (0, None)
    assert holding(on_sqlite, tmp_path) == []


def test_a_store_that_cannot_be_made_anew_is_pruned_all_the_same(
    on_sqlite: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_sqlite.session("one", 0)
    on_sqlite.sync()

    def full(*arguments: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(keeping, "_made_anew", full)
    done = prune(on_sqlite.store, plan_prune(on_sqlite.store, max_bytes=0))
    assert (done.sessions, on_sqlite.names()) == (1, [])
    assert done.trouble == "what was pruned is deleted, but its space is not given back yet: the disk is full"
