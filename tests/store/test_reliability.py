"""What happens to the store when all goes wrong: kills, others at work, full disks, damaged and newer databases.

What a store holds is compared with one into which the same logs went in peace; `killing` says what is compared.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Engine, MetaData, create_engine, event, func, inspect, make_url, select, text, update
from sqlalchemy.pool import ConnectionPoolEntry
from tests.store.killing import Logs, Task, contents, difference, encoded, settings_for, unsound, work

from demerit import ingest
from demerit.store import Store, StoreError, engines, migrating
from demerit.store.engines import Busy, archive_url
from demerit.store.schema import archive_metadata, archived_frames, logs, metadata, sessions

ROOT = Path(__file__).parents[2]
MIGRATIONS = Path(migrating.__file__).parent / "migrations"


@pytest.fixture
def made(tmp_path: Path) -> Logs:
    """Some thirty logs of four agents."""
    begun = Logs(tmp_path / "logs")
    begun.begin(20)
    return begun


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store/demerit.db"


@pytest.fixture
def clean(tmp_path: Path) -> str:
    """URL of the database that nobody disturbs."""
    return f"sqlite:///{tmp_path}/clean/demerit.db"


def task(url: str, made: Logs, do: str = "sync") -> Task:
    return Task(do, url, str(made.folder), made.now, workers=1)


def sync(url: str, made: Logs) -> ingest.Pass:
    return work(task(url, made))


def rebuild(url: str, made: Logs) -> ingest.Pass:
    work(task(url, made, "begin"))
    return work(task(url, made, "rebuild"))


def assert_alike(one: str, other: str, *leave_out: str) -> None:
    """Both hold the same, but for these columns."""
    with Store.open(one) as first, Store.open(other) as second:
        assert unsound(first) is None
        assert difference(contents(first, leave_out), contents(second, leave_out)) is None


def assert_one_sentence(error: object, *parts: str) -> None:
    said = str(error)
    assert all(part in said for part in parts), said
    assert "\n" not in said and "Traceback" not in said and "sqlalche.me" not in said


def file_of(database_url: str, lineage: str) -> URL:
    """Where the tables of a lineage are: on SQLite each has a file of its own."""
    url = make_url(database_url)
    return archive_url(url) if lineage == "archive" and database_url.startswith("sqlite") else url


def counts(url: str) -> dict[str, int]:
    """Rows of each table, its version's included."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            names = [name for name in inspect(connection).get_table_names() if not name.startswith("search")]
            return {name: connection.execute(text(f"select count(*) from {name}")).scalar_one() for name in names}
    finally:
        engine.dispose()


class Reader:
    """A process that reads logs when it is told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.killing", "--answer"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ask(self, task: Task) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(task) + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or b'{"ended": true}')
        return answer

    def end(self) -> dict[str, Any]:
        """What came of the task."""
        while "logs" in (answer := self.line()):
            pass
        return answer


@contextmanager
def readers(count: int) -> Iterator[list[Reader]]:
    started = [Reader() for _ in range(count)]
    try:
        yield started
    finally:
        for one in started:
            with suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
            one.process.communicate()


# --- killed, and stopped ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_at_random_moments_a_store_is_as_one_that_nobody_disturbed(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killing", "--database", kind, "--times", "8", "--seed", "1"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{kind}, seed 1: 8 kills in ")


def test_what_was_read_before_ctrl_c_is_kept(sqlite_url: str, clean: str, made: Logs) -> None:
    made.begin(40)
    with readers(1) as [reader]:
        reader.ask(msgspec.structs.replace(task(sqlite_url, made), workers=2))
        read = reader.line()["logs"]
        os.killpg(reader.process.pid, signal.SIGINT)  # to the reading processes as well, as a terminal does it
        assert reader.end() == {"stopped": True}
    assert 0 < read <= counts(sqlite_url)["logs"]
    sync(sqlite_url, made)
    sync(clean, made)
    assert_alike(sqlite_url, clean)


# --- not alone ----------------------------------------------------------------------------------------------------


def test_two_that_read_the_same_logs_at_once_keep_each_thing_once(database_url: str, clean: str, made: Logs) -> None:
    with readers(2) as both:
        for _ in range(3):
            for reader in both:
                reader.ask(msgspec.structs.replace(task(database_url, made), workers=2))
            assert all("read" in reader.end() for reader in both)
            for url in (database_url, clean):  # what one of them left to the other, and it to the first
                sync(url, made)
            assert_alike(database_url, clean)
            made.change_some()
            made.grow_some()


@contextmanager
def locked(url: str, for_s: float = 60) -> Iterator[None]:
    """Somebody else writes into that database, for so long or until the end of the block."""
    taken, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with Store.open(url) as other, other.writing():
            taken.set()
            let_go.wait(for_s)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert taken.wait(30)
        yield
    finally:
        let_go.set()
        holder.join()


def test_a_lock_that_lasts_is_said_and_nothing_is_lost(
    database_url: str, clean: str, made: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (database_url, clean):
        sync(url, made)
    made.grow_some()
    monkeypatch.setattr(engines, "LOCK_WAIT_S", 0.3)
    with locked(database_url), pytest.raises(Busy) as caught:
        sync(database_url, made)
    assert_one_sentence(caught.value, "was locked by another program for 0.3 seconds", "run this again later")
    for url in (database_url, clean):
        sync(url, made)
    assert_alike(database_url, clean)


def test_a_lock_that_ends_is_waited_for(database_url: str, clean: str, made: Logs) -> None:
    assert engines.LOCK_WAIT_S == 60
    for url in (database_url, clean):
        sync(url, made)
    made.grow_some()
    with locked(database_url, for_s=0.7):
        sync(database_url, made)
    sync(clean, made)
    assert_alike(database_url, clean)


# --- no room ------------------------------------------------------------------------------------------------------


def mount(folder: Path, *options: str) -> None:
    """A disk of its own in that folder, or another size for it; skips the test where we may not."""
    shown = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    try:
        subprocess.run(shown, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("to mount a disk takes root")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1.4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, "size=1400k")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_said_and_what_was_kept_stays(disk: Path, clean: str, made: Logs) -> None:
    url = f"sqlite:///{disk}/demerit.db"
    few = Logs(made.folder.with_name("few"))
    few.begin(3)
    with readers(1) as [reader]:
        reader.ask(task(url, few))
        assert "read" in reader.end()
        before = counts(url)["sessions"]
        reader.ask(task(url, made))
        assert_one_sentence(reader.end()["error"], f"the disk that holds {disk}/demerit", "is full", "make room")
        assert before and counts(url)["sessions"] >= before
        mount(disk, "remount", "size=64m")
        reader.ask(task(url, made))
        assert "read" in reader.end()
    sync(clean, few)
    sync(clean, made)
    assert_alike(url, clean, "logs.is_gone")


@contextmanager
def full(url: str) -> Iterator[None]:
    """A database that takes no more than it has."""
    if url.startswith("sqlite"):

        def limit(connection: Any, record: ConnectionPoolEntry) -> None:
            pages = connection.execute("pragma page_count").fetchone()[0]
            connection.execute(f"pragma max_page_count = {pages}")

        event.listen(Engine, "connect", limit)
        try:
            yield
        finally:
            event.remove(Engine, "connect", limit)
        return
    fails = "begin raise 'could not extend file' using errcode = '53100'; end"
    execute(
        url,
        f"create function fail() returns trigger language plpgsql as $$ {fails} $$",
        "create trigger full_disk before insert on tool_calls execute function fail()",
    )
    yield
    execute(url, "drop trigger full_disk on tool_calls")


def execute(url: str, *statements: str) -> None:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))
    finally:
        engine.dispose()


def test_a_database_that_cannot_grow_is_whole_and_goes_on_where_there_is_room(
    database_url: str, clean: str, made: Logs
) -> None:
    for url in (database_url, clean):
        sync(url, made)
    for _ in range(20):
        made.new_claude()
    with full(database_url), pytest.raises(StoreError) as caught:
        sync(database_url, made)
    assert_one_sentence(caught.value, "the disk that holds", "is full", "make room")
    assert_alike(database_url, clean, "archive")  # that one comes first, and may have come further
    for url in (database_url, clean):
        sync(url, made)
    assert_alike(database_url, clean)


# --- other versions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lineage", ["main", "archive"])
def test_a_database_of_a_newer_version_is_refused_untouched(database_url: str, lineage: str, made: Logs) -> None:
    sync(database_url, made)
    file = file_of(database_url, lineage)
    execute(file.render_as_string(False), f"update demerit_{lineage}_version set version_num = '9999'")
    before = counts(database_url), _dump(file.render_as_string(False))
    with pytest.raises(StoreError) as caught:
        sync(database_url, made)
    where = str(file.database) if database_url.startswith("sqlite") else file.render_as_string()
    assert_one_sentence(caught.value, f"{where} was written by a newer demerit (schema 9999); update demerit")
    assert (counts(database_url), _dump(file.render_as_string(False))) == before


def _dump(url: str) -> dict[str, list[str]]:
    """All rows of a database, as they are shown."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return {
                name: sorted(map(repr, connection.execute(text(f"select * from {name}"))))
                for name in inspect(connection).get_table_names()
                if not name.startswith("search")
            }
    finally:
        engine.dispose()


def _migrations(lineage: str) -> Config:
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS))
    made.set_main_option("version_locations", str(MIGRATIONS / lineage))
    made.set_main_option("path_separator", "os")
    made.attributes["version_table"] = migrating.version_table(lineage)
    return made


@pytest.mark.parametrize("lineage", ["main", "archive"])
def test_the_newest_migration_is_the_one_that_the_code_expects(lineage: str) -> None:
    assert ScriptDirectory.from_config(_migrations(lineage)).get_heads() == [migrating.HEADS[lineage]]


# Rows of the first schema. They stay as they are written here, whatever the schema becomes.
_FIRST = (
    "insert into projects (id, key, name, kind) values (9001, 'here:/home/dev/shop', 'shop', 'folder')",
    "insert into logs (id, key, machine, path, agent, fingerprint, bytes, epoch, known_agent, read_us)"
    " values (9001, 'k', 'here', '/gone/a.jsonl', 'claude', '1:2:3', 10, 1, true, 0)",
    "insert into sessions (id, log_id, agent, source_id, place, models, is_terminal, messages, user_messages,"
    " replayed_messages, requests, output_is_partial, unpriced_requests, untold, losses, advice, digest, generation,"
    " epoch, is_stale, title, project_id)"
    " values (9001, 9001, 'claude', 's1', 0, '[]', true, 1, 1, 0, 0, false, 0, '[]', '{}', '[]',"
    " 'd', 0, 1, true, 'of the first schema', 9001)",
    "insert into messages (session_id, ordinal, role, author, is_sidechain, is_replayed, has_substance, has_image,"
    " calls, text_bytes, thinking_bytes) values (9001, 0, 'user', 'human', false, false, true, false, 0, 2, 0)",
    "insert into verdicts (agent, source_id, verdict, note, at_us) values ('claude', 's1', 'good', 'kept', 0)",
)


def test_a_database_of_the_first_schema_is_brought_up_to_date_with_its_rows(database_url: str, made: Logs) -> None:
    for lineage in ("main", "archive"):
        engine = create_engine(file_of(database_url, lineage))
        with engine.begin() as connection:
            first = _migrations(lineage)
            first.attributes["connection"] = connection
            command.upgrade(first, {"main": "0001", "archive": "a001"}[lineage])
        engine.dispose()
    execute(database_url, *_FIRST)
    sync(database_url, made)
    with Store.open(database_url) as store, store.reading() as connection:
        old = select(sessions.c.title, sessions.c.project_id).where(sessions.c.source_id == "s1")
        assert connection.execute(old).one() == ("of the first schema", 9001)
        assert connection.execute(text("select note from verdicts")).scalars().all() == ["kept"]
        for lineage, engine in (("main", store.engine), ("archive", store.archive_engine)):
            with engine.connect() as asking:
                assert migrating.version_of(asking, lineage) == migrating.HEADS[lineage]


def test_migrations_lead_to_the_very_tables_of_the_code(database_url: str) -> None:
    with Store.open(database_url) as store:
        wanted = {store.engine: MetaData(naming_convention=metadata.naming_convention)}
        archived = wanted.setdefault(store.archive_engine, MetaData(naming_convention=metadata.naming_convention))
        for table in metadata.sorted_tables:
            table.to_metadata(wanted[store.engine])
        for table in archive_metadata.sorted_tables:
            table.to_metadata(archived)
        for engine, tables in wanted.items():
            with engine.connect() as connection:
                options = {"include_name": _is_ours, "compare_type": True, "compare_server_default": True}
                assert compare_metadata(MigrationContext.configure(connection, opts=options), tables) == []
                assert _checks(connection) == _checks_of(tables)


def _is_ours(name: str | None, kind: str, parents: object) -> bool:
    return kind != "table" or not (name or "").startswith(("search", "demerit_"))


def _checks(connection: Any) -> dict[str, set[str | None]]:
    """Names of the conditions on each table, which Alembic does not compare."""
    asked = inspect(connection)
    names = [name for name in asked.get_table_names() if _is_ours(name, "table", None)]
    return {name: {check["name"] for check in asked.get_check_constraints(name)} for name in names}


def _checks_of(whole: MetaData) -> dict[str, set[str | None]]:
    empty = create_engine("sqlite://")
    try:
        with empty.begin() as connection:
            whole.create_all(connection)
            return _checks(connection)
    finally:
        empty.dispose()


# --- damage -------------------------------------------------------------------------------------------------------


def overwrite(path: Path, start: float, end: float) -> None:
    """Put bytes that mean nothing into a part of a file, given as fractions of its size."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(int(size * start))
        file.write(b"\xa5" * int(size * (end - start)))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "bytes in the middle": lambda path: overwrite(path, 0.2, 0.8),
    "the header": lambda path: overwrite(path, 0, 0.01),
    "the second half": truncate,
}


def settled(url: str) -> Path:
    """The file of a database, in which is all that was written to it."""
    path = Path(str(make_url(url).database))
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    return path


def drop_logs(made: Logs) -> None:
    shutil.rmtree(made.folder)
    made.folder.mkdir()


# What only a log that is there has.
ON_DISK = ("logs.fingerprint", "logs.bytes", "logs.is_gone")

GENERATIONS = ("logs.generation", "sessions.generation", "archive.generations")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_named_and_made_anew_from_the_archive(
    damage: str, sqlite_url: str, clean: str, made: Logs
) -> None:
    (made.folder / "notes.jsonl").unlink()  # what is no log is not archived
    sync(clean, made)
    sync(sqlite_url, made)
    path = settled(sqlite_url)
    DAMAGES[damage](path)
    drop_logs(made)
    made.new_claude()
    with pytest.raises(StoreError) as caught:
        rebuild(sqlite_url, made)
    assert_one_sentence(caught.value, f"{path} is ", "move it away", "demerit rebuild makes it anew")
    drop_logs(made)
    path.rename(path.with_name("damaged.db"))
    rebuild(sqlite_url, made)
    assert_alike(sqlite_url, clean, *ON_DISK)


def test_an_empty_file_is_a_new_database(sqlite_url: str, clean: str, made: Logs) -> None:
    path = Path(str(make_url(sqlite_url).database))
    path.parent.mkdir()
    path.touch()
    for url in (sqlite_url, clean):
        sync(url, made)
    assert_alike(sqlite_url, clean)


def test_the_archive_alone_gives_back_all_that_was_read(database_url: str, clean: str, made: Logs) -> None:
    (made.folder / "notes.jsonl").unlink()
    for change in (made.grow_some, made.change_some, made.grow_some):
        for url in (database_url, clean):
            sync(url, made)
        change()
    for path in made.folder.rglob("*.json"):
        if path not in made.documents:  # what is none any more
            path.unlink()
    for url in (database_url, clean):
        sync(url, made)
    if database_url.startswith("sqlite"):
        Path(str(make_url(database_url).database)).unlink()
    else:
        execute(database_url, f"truncate {', '.join(metadata.tables)}, search")
    drop_logs(made)
    rebuild(database_url, made)
    rebuild(clean, made)
    assert_alike(database_url, clean, *ON_DISK)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_named_and_costs_no_session(damage: str, sqlite_url: str, clean: str, made: Logs) -> None:
    for url in (sqlite_url, clean):
        sync(url, made)
    main, path = settled(sqlite_url), settled(archive_url(make_url(sqlite_url)).render_as_string())
    DAMAGES[damage](path)
    for log in list(made.lines):
        made.grow(log)
    with pytest.raises(StoreError) as caught:
        sync(sqlite_url, made)
    assert_one_sentence(caught.value, f"{path} is ", "move it away")
    assert f"{main} is " not in str(caught.value)
    path.rename(path.with_name("damaged.db"))
    sync(clean, made)
    rebuild(sqlite_url, made)
    rebuild(clean, made)
    assert_alike(sqlite_url, clean, *GENERATIONS)
    assert counts(archive_url(make_url(sqlite_url)).render_as_string())["archived_logs"] > len(made.lines)


def test_damaged_bytes_of_one_log_cost_no_other(database_url: str, clean: str, made: Logs) -> None:
    for url in (database_url, clean):
        sync(url, made)
    grown, gone = sorted(path for path in made.lines if path.parent.name == "codex")[:2]
    with Store.open(database_url) as store, store.archiving() as connection:
        for path in (grown, gone):
            of_it = archived_frames.c.key == ingest.log_key("here", str(path))
            broken = update(archived_frames).where(of_it).values(data=b"\xa5" * 40)
            assert connection.execute(broken).rowcount
    made.grow(grown)
    made.forget(gone).unlink()
    for url in (database_url, clean):
        assert sync(url, made).failed == []
    assert_alike(database_url, clean, *GENERATIONS)
    failed = dict(rebuild(database_url, made).failed)
    assert_one_sentence(failed.pop(str(gone)), "its archived bytes are damaged", "its sessions stay")
    assert failed == {str(made.folder / "notes.jsonl"): _NO_LOG}


_NO_LOG = "JSON, but no agent's log that demerit knows (it begins with an object of 'no')"


# --- files --------------------------------------------------------------------------------------------------------


def test_nobody_else_may_read_what_is_kept(tmp_path: Path, made: Logs) -> None:
    folder = tmp_path / "data" / "demerit"
    before = os.umask(0)
    try:
        with (
            Store.open(f"sqlite:///{folder}/demerit.db") as store,
            store.reading(),
            store.archive_engine.connect() as kept,
        ):
            kept.execute(select(func.count()).select_from(archived_frames))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(before)
    files = [f"{name}{end}" for name in ("demerit.db", "demerit-archive.db") for end in ("", "-wal", "-shm")]
    assert modes == dict.fromkeys(files, 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.fixture
def shut(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Makes the folder `shut` one that nobody can write to: root could in spite of its permissions."""
    folder = tmp_path / "shut"
    folder.mkdir()
    if os.geteuid():
        yield lambda: folder.chmod(0o500)
        folder.chmod(0o700)
        return
    mount(folder, "size=64m")
    yield lambda: mount(folder, "remount", "ro")
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("is_new", [True, False], ids=["a new database", "a database that is there"])
def test_a_folder_that_cannot_be_written_is_named(
    is_new: bool, tmp_path: Path, shut: Callable[[], None], made: Logs
) -> None:
    url = f"sqlite:///{tmp_path}/shut/demerit.db"
    if not is_new:
        sync(url, made)
    shut()
    with pytest.raises(StoreError) as caught:
        sync(url, made)
    assert_one_sentence(caught.value, f"{tmp_path}/shut/demerit.db cannot be opened for writing", "set database_url")


# --- logs that do not hold still ----------------------------------------------------------------------------------


def test_a_log_that_grows_as_it_is_read_is_whole_after_the_next_pass(sqlite_url: str, clean: str, made: Logs) -> None:
    path = made.new_claude()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            more = encoded(made.claude_turn(path.stem))
            for at in range(0, len(more), 700):  # not in whole lines
                made.append(path, more[at : at + 700])
                time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(6):
        sync(sqlite_url, made)
    stop.set()
    writer.join()
    for url in (sqlite_url, clean):
        sync(url, made)
        work(task(url, made, "settle"))  # some sessions came to rest meanwhile
    # Where it was read on, these are made when it is graded, or say how it was read.
    assert_alike(sqlite_url, clean, "sessions.advice", "sessions.digest", "logs.checkpoint")


def as_folder(path: Path) -> None:
    path.mkdir()


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_loop(path: Path) -> None:
    path.symlink_to(path.name)


class Instead(NamedTuple):
    put: Callable[[Path], None]
    take: Callable[[Path], None]


INSTEAD = {
    "a folder": Instead(as_folder, Path.rmdir),
    "a pipe that nobody writes to": Instead(as_pipe, Path.unlink),
    "a link to itself": Instead(as_loop, Path.unlink),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_what_takes_the_place_of_a_log_takes_nothing_of_its_sessions(
    what: str, sqlite_url: str, clean: str, made: Logs
) -> None:
    for url in (sqlite_url, clean):
        sync(url, made)
    path = made.one(made.lines)
    whole = path.read_bytes()
    path.unlink()
    INSTEAD[what].put(path)
    settings = settings_for(sqlite_url, 1)
    with Store.open(sqlite_url) as store:
        done = ingest.sync(store, settings, [path], made.now)
        with store.reading() as connection:
            reason = connection.execute(select(logs.c.reason).where(logs.c.path == str(path))).scalar_one()
    assert [name for name, _ in done.failed] == [str(path)]
    assert reason and "\n" not in reason
    assert_alike(sqlite_url, clean, *map(str, logs.c))
    INSTEAD[what].take(path)
    path.write_bytes(whole)
    for url in (sqlite_url, clean):
        sync(url, made)
    assert_alike(sqlite_url, clean)
