"""Reading other tools' databases, and sessions that lie in several files: real ones, made here."""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.parsers import test_goose, test_opencode
from tests.parsers.sessions import losses

from demerit import sources
from demerit.model import Session
from demerit.parsers import goose, opencode
from demerit.parsers.records import Bundle, Home, Parser, Query, Record, Sample, Source
from demerit.sources import Unreadable, agent_logs, find_logs, read_sessions

QUERIES = (
    Query("chat", "chat", "select * from chat"),
    Query("notes", "note", "select * from note order by id"),
)
BUNDLE = Bundle("ses_*.json", ("../../message/{stem}/*.json", "../../part/{part}/*.json", "{stem}.notes.jsonl"))

needs_users = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without Unix users")


class Toy:
    """A parser that only keeps the records that come."""

    def __init__(self, then: Callable[[Record], object] = lambda record: None, most: int | None = None) -> None:
        self.records: list[Record] = []
        self.source = Source()
        self.then = then
        self.most = most

    def parse(self, records: Iterable[Record], source: Source) -> list[Session]:
        self.source = source
        for record in islice(records, self.most):
            self.records.append(record)
            self.then(record)
        return [Session("toy", source.name)]

    @property
    def rows(self) -> list[tuple[str, Any]]:
        return [(record.part, json.loads(record.data)) for record in self.records]


def is_toy(sample: Sample) -> bool:
    return "chat" in sample.tables or any(isinstance(value, dict) and "toy" in value for value in sample.values)


def use(monkeypatch: pytest.MonkeyPatch, *parsers: Parser) -> None:
    """Let these be the only parsers there are."""
    suffixes = {suffix for parser in parsers for suffix in parser.suffixes} - set(sources.JSON_SUFFIXES)
    monkeypatch.setattr(sources, "PARSERS", parsers)
    monkeypatch.setattr(sources, "_OTHER_SUFFIXES", tuple(suffixes))
    monkeypatch.setattr(sources, "_BUNDLES", [parser.bundle for parser in parsers if parser.bundle])
    monkeypatch.setattr(sources, "parser_for", lambda sample: next((p for p in parsers if p.sniff(sample)), None))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy()
    homes = (Home(".toy", "*.db"), Home(".toy/storage/session", "**/*.json"))
    # The method is looked up at each call, so that a test may put another one there.
    parser = Parser(
        "toy",
        "Toy",
        homes,
        is_toy,
        lambda records, source: made.parse(records, source),
        suffixes=(".json", ".db"),
        bundle=BUNDLE,
        queries=QUERIES,
    )
    use(monkeypatch, parser)
    return made


def database(path: Path, *statements: str, wal: bool = False) -> Path:
    with closing(sqlite3.connect(path)) as made:
        if wal:
            made.execute("pragma journal_mode = wal")
        for statement in statements:
            made.execute(statement)
        made.commit()
    return path


CHAT = ("create table chat (id integer primary key, said)", "insert into chat (said) values ('hi'), ('there')")


def reason(path: Path) -> str:
    with pytest.raises(Unreadable) as caught:
        read_sessions(path)
    return caught.value.reason


def beside(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


# --- rows ----------------------------------------------------------------------------------------------------


def test_each_row_is_an_object_by_the_names_of_its_columns(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, "create table note (id, x)", "insert into note values (2, 1), (1, 2)")
    (session,) = read_sessions(path)
    assert session.agent == "toy"
    assert toy.rows == [
        ("chat", {"id": 1, "said": "hi"}),
        ("chat", {"id": 2, "said": "there"}),
        ("notes", {"id": 1, "x": 2}),
        ("notes", {"id": 2, "x": 1}),
    ]
    assert {record.offset for record in toy.records} == {None}
    assert toy.source.name == "toy.db"


def test_a_table_that_is_missing_gives_nothing(tmp_path: Path, toy: Toy) -> None:
    read_sessions(database(tmp_path / "toy.db", *CHAT))
    assert [part for part, _ in toy.rows] == ["chat", "chat"]


def test_a_view_is_as_good_as_a_table(tmp_path: Path, toy: Toy) -> None:
    read_sessions(database(tmp_path / "toy.db", *CHAT, "create view note as select id, said as x from chat"))
    assert toy.rows[2:] == [("notes", {"id": 1, "x": "hi"}), ("notes", {"id": 2, "x": "there"})]


ENDLESS = "create view note as with recursive t(id) as (select 1 union all select id + 1 from t) select "


@pytest.mark.parametrize(
    "rows",
    ["id from t", "id from t where id < 0", "id, printf('%.*c', 9000000, 'x') as x from t"],
    ids=["small", "none", "large"],
)
def test_a_view_without_an_end_is_told(tmp_path: Path, toy: Toy, rows: str) -> None:
    path = database(tmp_path / "toy.db", *CHAT, ENDLESS + rows)
    toy.then = lambda record: toy.records.clear()
    assert reason(path) in ("SQLite says: interrupted", "SQLite says: far more rows than the file can hold")


def test_a_value_that_is_larger_than_memory_is_not_made(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, "create view note as select zeroblob(999999999) as id")
    assert reason(path) == "SQLite says: string or blob too big"


def test_columns_that_are_missing_or_new_are_taken_as_they_are(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", "create table chat (mood)", "insert into chat values ('fine')")
    read_sessions(path)
    assert toy.rows == [("chat", {"mood": "fine"})]


def test_a_missing_column_that_is_asked_for_is_told(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, "create table note (x)")
    assert reason(path) == "SQLite says: no such column: id"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("null", None, id="nothing"),
        pytest.param("9223372036854775807", 2**63 - 1, id="the largest number"),
        pytest.param("-1.5", -1.5, id="a fraction"),
        pytest.param("9e999", None, id="infinity, which JSON has not"),
        pytest.param("'a' || char(0) || 'b'", "a\0b", id="a NUL in a text"),
        pytest.param("cast(x'61ff62' as text)", "a\ufffdb", id="a text that is not UTF-8"),
        pytest.param("cast('größer' as blob)", "größer", id="bytes that are a text"),
        pytest.param("x'00ff'", "\0\ufffd", id="bytes that are none"),
        pytest.param("''", "", id="an empty text"),
    ],
)
def test_any_value_becomes_json(tmp_path: Path, toy: Toy, value: str, expected: object) -> None:
    path = database(tmp_path / "toy.db", "create table chat (said)", f"insert into chat values ({value})")
    read_sessions(path)
    assert toy.rows == [("chat", {"said": expected})]


def test_a_name_may_hold_what_means_something_in_an_address(tmp_path: Path, toy: Toy) -> None:
    read_sessions(database(tmp_path / "a b#%41.db", *CHAT))
    assert len(toy.records) == 2


MANY = (
    "create table chat (id integer primary key, said)",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)"
    " insert into chat select i, printf('%0200d', i) from n",
)


def test_fifty_thousand_rows_are_never_in_memory_at_once(tmp_path: Path, toy: Toy, monkeypatch: Any) -> None:
    path = database(tmp_path / "toy.db", *MANY)
    seen = [0, 0]

    def count(records: Iterable[Record], source: Source) -> list[Session]:
        for record in records:
            seen[0] += 1
            seen[1] += len(record.data)
        return []

    monkeypatch.setattr(toy, "parse", count)
    tracemalloc.start()
    try:
        read_sessions(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen[0] == 50_000 and seen[1] > 10_000_000
    assert peak < 2_000_000 + sources._BUFFER


def test_what_a_parser_does_not_ask_for_is_not_read(tmp_path: Path, toy: Toy) -> None:
    toy.most = 3
    read_sessions(database(tmp_path / "toy.db", *MANY))
    assert len(toy.records) == 3


# --- databases that are in use -------------------------------------------------------------------------------


def test_what_an_open_program_has_written_is_read_and_what_it_has_not_yet_is_not(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, wal=True)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("insert into chat (said) values ('written')")
        writer.commit()
        writer.execute("insert into chat (said) values ('not yet')")
        assert os.stat(f"{path}-wal").st_size > 0
        read_sessions(path)
        writer.commit()  # the reader holds nothing up
    assert [row["said"] for _, row in toy.rows] == ["hi", "there", "written"]


def test_all_queries_see_one_state(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, "create table note (id)", wal=True)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("insert into note values (1)")
        writer.commit()

        def write(record: Record) -> None:
            writer.execute("insert into note values (2)")
            writer.commit()

        toy.then = write
        read_sessions(path)
    assert toy.rows[2:] == [("notes", {"id": 1})]


def test_reading_leaves_nothing_behind(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, wal=True)
    before = path.read_bytes()
    read_sessions(path)
    assert len(toy.records) == 2
    assert beside(path) == ["toy.db"]
    assert path.read_bytes() == before


def test_what_a_program_left_when_it_crashed_is_read(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, wal=True)
    copy = tmp_path / "copy" / "toy.db"
    copy.parent.mkdir()
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("insert into chat (said) values ('last words')")
        writer.commit()
        for suffix in ("", "-wal"):
            Path(f"{copy}{suffix}").write_bytes(Path(f"{path}{suffix}").read_bytes())
    read_sessions(copy)
    assert [row["said"] for _, row in toy.rows] == ["hi", "there", "last words"]


def test_the_time_of_a_change_is_that_of_the_log_where_it_is_the_newer(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", *CHAT, wal=True)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("insert into chat (said) values ('new')")
        writer.commit()
        for times in ((1_700_000_000, 1_800_000_000), (1_900_000_000, 1_800_000_000)):
            for suffix, time in zip(("", "-wal"), times, strict=True):
                os.utime(f"{path}{suffix}", (time, time))
            read_sessions(path)
            assert toy.source.modified == datetime.fromtimestamp(max(times), UTC)


@contextmanager
def nobody() -> Iterator[Path]:
    """A folder in which we may read and not write, even where the tests run as root."""
    user = os.geteuid()
    with TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name, "logs")
        folder.mkdir()
        try:
            yield folder
        finally:
            os.seteuid(user)
            folder.chmod(0o755)


def close(folder: Path) -> None:
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)


@needs_users
@pytest.mark.parametrize("wal", [True, False])
def test_a_database_in_a_folder_that_we_may_not_write_to_is_read(toy: Toy, wal: bool) -> None:
    with nobody() as folder:
        path = database(folder / "toy.db", *CHAT, wal=wal)
        close(folder)
        read_sessions(path)
    assert len(toy.records) == 2


@needs_users
def test_changes_that_cannot_be_read_are_not_passed_over(toy: Toy) -> None:
    with nobody() as folder:
        path = database(folder / "toy.db", *CHAT, wal=True)
        with closing(sqlite3.connect(path)) as writer:
            writer.execute("insert into chat (said) values ('last words')")
            writer.commit()
            kept = Path(f"{path}-wal").read_bytes()
        Path(f"{path}-wal").write_bytes(kept)
        close(folder)
        told = reason(path)
    assert told == "SQLite says: unable to open database file; copy it with its -wal file to a folder of your own"
    assert toy.records == []


# --- files that are no database of an agent's -----------------------------------------------------------------


def broken(path: Path) -> Path:
    """A database of which all pages but the first, which has the names of the tables, are gone bad."""
    data = database(path, *MANY).read_bytes()
    path.write_bytes(data[:4096].ljust(len(data), b"\xa5"))
    return path


def test_a_broken_database_of_an_agents_is_told_as_such(tmp_path: Path, toy: Toy) -> None:
    with pytest.raises(Unreadable, match="SQLite says: database disk image is malformed") as caught:
        read_sessions(broken(tmp_path / "toy.db"))
    assert caught.value.known_agent


def test_a_file_that_only_begins_like_a_database_is_told(tmp_path: Path, toy: Toy) -> None:
    path = tmp_path / "toy.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    assert reason(path) == "SQLite says: file is not a database"
    path.write_bytes(b"SQLite format 3\0")
    assert reason(path) == "SQLite says: file is not a database"


def test_a_database_of_somebody_else_is_told_when_it_is_named(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "places.db", "create table places (url)")
    assert reason(path) == "an SQLite database, but no agent's that demerit knows"


def test_a_database_without_tables_is_nobodys(tmp_path: Path, toy: Toy) -> None:
    path = database(tmp_path / "toy.db", "pragma user_version = 1")
    assert reason(path) == "an SQLite database, but no agent's that demerit knows"


def test_a_walk_finds_an_agents_databases_and_passes_over_others(tmp_path: Path, toy: Toy) -> None:
    (tmp_path / "a").mkdir()
    ours = database(tmp_path / "a" / "toy.db", *CHAT)
    database(tmp_path / "places.db", "create table places (url)")
    database(tmp_path / "toy.sqlite", *CHAT)  # a suffix that no agent's have
    (tmp_path / "thumbs.db").write_bytes(b"\0\0\0\0")
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    skipped: list[Unreadable] = []
    assert list(find_logs([str(tmp_path)], skipped)) == [bad, ours]  # what is broken is told when it is read
    assert skipped == []


def test_a_home_of_databases_alone_is_not_walked_below(tmp_path: Path, toy: Toy) -> None:
    home = tmp_path / ".toy"
    for folder in (home, home / "snapshot", home / "storage" / "session" / "p"):
        folder.mkdir(parents=True)
    path = database(home / "toy.db", *CHAT)
    database(home / "snapshot" / "toy.db", *CHAT)
    session = home / "storage" / "session" / "p" / "ses_1.json"
    session.write_text('{"toy": 1}')
    assert list(agent_logs(tmp_path, {}, [])) == [path, session]


# --- the databases of real agents -----------------------------------------------------------------------------


OPENCODE = """
create table session (id text primary key, project_id text, parent_id text, directory text, title text, version text,
  permission text, revert text, time_created integer, time_updated integer);
create table message (id text primary key, session_id text, time_created integer, time_updated integer, data text);
create table part (id text primary key, message_id text, session_id text, time_created integer, data text);
"""


def test_a_database_of_opencode_is_read_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, opencode.PARSER)
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as made:
        made.executescript(OPENCODE)
        for name in reversed(test_opencode.NAMES):
            doc = test_opencode.document(name)
            row = json.loads(test_opencode.as_rows(doc)[0].data)
            insert(made, "session", row)
            for message in reversed(doc["messages"]):
                info = message["info"]
                created = info["time"]["created"]
                insert(
                    made, "message", {"id": info["id"], "session_id": row["id"], "time_created": created} | text(info)
                )
                for part in reversed(message["parts"]):
                    insert(made, "part", {"id": part["id"], "message_id": info["id"]} | text(part))
        insert(made, "session", {"id": "ses_empty"})
        made.commit()
    found = {session.source_id: session for session in read_sessions(path, Source(bodies=False))}
    assert len(found) == len(test_opencode.NAMES)
    for name in test_opencode.NAMES:
        expected = opencode.parse(test_opencode.as_rows(test_opencode.document(name)), Source(bodies=False))[0]
        assert found[expected.source_id].messages == expected.messages


def text(held: dict[str, Any]) -> dict[str, str]:
    return {"data": json.dumps({key: held[key] for key in held if key not in ("id", "sessionID", "messageID")})}


def insert(made: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    values = [json.dumps(value) if isinstance(value, list | dict) else value for value in row.values()]
    marks = ", ".join("?" * len(row))
    made.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", values)


GOOSE = """
create table schema_version (version integer);
create table sessions (id text primary key, name text, description text, user_set_name boolean, session_type text,
  working_dir text, created_at timestamp, updated_at timestamp, extension_data text, total_tokens integer,
  input_tokens integer, output_tokens integer, accumulated_total_tokens integer, accumulated_input_tokens integer,
  accumulated_output_tokens integer, schedule_id text, provider_name text, model_config_json text,
  parent_session_id text);
create table messages (id integer primary key autoincrement, message_id text, session_id text, role text,
  content_json text, created_timestamp integer, timestamp timestamp, tokens integer, metadata_json text);
create table usage_ledger (id integer primary key, session_id text, created_timestamp integer, model text,
  input_tokens integer, output_tokens integer, total_tokens integer, cache_read_tokens integer,
  cache_write_tokens integer, is_compaction boolean);
"""


def test_a_database_of_goose_is_read_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, goose.PARSER)
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as made:
        made.executescript(GOOSE)
        for name in test_goose.DATABASES:
            for table, row in test_goose.rows(name):
                # The numbers run over all sessions; those of one session stay in order.
                insert(made, table, {key: row[key] for key in row if key != "id" or table == "sessions"})
        made.commit()
    found = {session.source_id: session for session in read_sessions(path, Source(bodies=False))}
    assert len(found) == len(test_goose.DATABASES)
    for name in test_goose.DATABASES:
        expected = test_goose.fixture(name, Source("sessions.db", bodies=False))
        assert [message.text for message in found[expected.source_id].messages] == [
            message.text for message in expected.messages
        ]
        assert losses(found[expected.source_id]) == losses(expected)


# --- sessions in several files ---------------------------------------------------------------------------------


def put(root: Path, name: str, content: str = "{}") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Two messages with three parts, beside the session of somebody else."""
    root = tmp_path / "storage"
    put(root, "session/p1/ses_1.json", '{"toy": 1}')
    put(root, "session/p1/ses_2.json", '{"toy": 2}')
    for name in ("msg_b", "msg_a"):
        put(root, f"message/ses_1/{name}.json", json.dumps({"message": name}))
        put(root, f"part/{name}/prt_2.json", json.dumps({"part": f"{name} 2"}))
    put(root, "part/msg_a/prt_1.json", json.dumps({"part": "msg_a 1"}))
    put(root, "message/ses_2/msg_c.json", json.dumps({"message": "msg_c"}))
    return root


def test_the_parts_follow_the_main_file_in_order(storage: Path, toy: Toy) -> None:
    read_sessions(storage / "session/p1/ses_1.json")
    assert [(record.part, json.loads(record.data)) for record in toy.records] == [
        ("", {"toy": 1}),
        ("../../message/ses_1/msg_a.json", {"message": "msg_a"}),
        ("../../message/ses_1/msg_b.json", {"message": "msg_b"}),
        ("../../part/msg_a/prt_1.json", {"part": "msg_a 1"}),
        ("../../part/msg_a/prt_2.json", {"part": "msg_a 2"}),
        ("../../part/msg_b/prt_2.json", {"part": "msg_b 2"}),
    ]
    assert [record.offset for record in toy.records] == [0, *[None] * 5]
    assert toy.source.name == "ses_1"


def test_a_session_without_its_parts_is_its_main_file(tmp_path: Path, toy: Toy) -> None:
    read_sessions(put(tmp_path, "ses_1.json", '{"toy": 1}'))
    assert toy.rows == [("", {"toy": 1})]


def test_a_walk_gives_the_main_files_only(storage: Path, toy: Toy) -> None:
    assert [path.name for path in find_logs([str(storage)], [])] == ["ses_1.json", "ses_2.json"]


def test_a_folder_that_is_only_named_like_one_of_parts_is_walked(tmp_path: Path, toy: Toy) -> None:
    path = put(tmp_path, "message/monday/log.json", '{"toy": 1}')
    assert list(find_logs([str(tmp_path)], [])) == [path]


def test_a_part_that_is_named_alone_is_no_session(storage: Path, toy: Toy) -> None:
    told = reason(storage / "message/ses_1/msg_a.json")
    assert told == "JSON, but no agent's log that demerit knows (it begins with an object of 'message')"


def test_a_part_that_cannot_be_read_is_left_out(storage: Path, toy: Toy) -> None:
    (storage / "message/ses_1/msg_b.json").unlink()
    (storage / "message/ses_1/msg_b.json").symlink_to(storage / "nowhere.json")
    (storage / "part/msg_a/prt_3.json").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(storage / "part/msg_a/prt_4.json")
    read_sessions(storage / "session/p1/ses_1.json")
    assert [part.rpartition("/")[2] for part, _ in toy.rows] == [
        "",
        "msg_a.json",
        "prt_1.json",
        "prt_2.json",
        "prt_2.json",  # of msg_b: its message is gone, its parts are there
    ]


def test_a_part_that_a_link_brings_in_from_elsewhere_is_left_out(tmp_path: Path, toy: Toy) -> None:
    secret = put(tmp_path, "home/secret/key.json", '{"key": 1}')
    put(tmp_path, "home/secret/notes.jsonl", '{"key": 2}')
    main = put(tmp_path, "storage/session/p1/ses_1.json", '{"toy": 1}')
    (tmp_path / "storage/message").mkdir()
    (tmp_path / "storage/message/ses_1").symlink_to(secret.parent)
    (main.parent / "ses_1.notes.jsonl").symlink_to(secret.parent / "notes.jsonl")
    read_sessions(main)
    assert toy.rows == [("", {"toy": 1})]


def test_a_part_of_lines_is_read_a_line_at_a_time(tmp_path: Path, toy: Toy) -> None:
    main = put(tmp_path, "ses_1.json", '{"toy": 1}')
    put(tmp_path, "ses_1.notes.jsonl", '{"n": "%s"}\n' % ("x" * 100_000) * 300)
    toy.then = lambda record: toy.records.clear()
    tracemalloc.start()
    try:
        read_sessions(main)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_walk_looks_at_each_name_of_a_folder_only_a_few_times(
    tmp_path: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        put(tmp_path, f"ses_{number}.json", '{"toy": 1}')
        put(tmp_path, f"ses_{number}.notes.jsonl")
    calls: list[int] = []
    filtered = fnmatch.filter

    def counted(names: list[str], pattern: str) -> list[str]:
        calls.append(len(names))
        return filtered(names, pattern)

    monkeypatch.setattr(fnmatch, "filter", counted)
    assert len(list(find_logs([str(tmp_path)], []))) == 300
    assert sum(calls) < 10 * 600


def test_empty_parts_and_blank_lines_are_left_out(tmp_path: Path, toy: Toy) -> None:
    main = put(tmp_path, "session/p1/ses_1.json", '{"toy": 1}')
    put(tmp_path, "message/ses_1/msg_a.json", "\n")
    put(tmp_path, "session/p1/ses_1.notes.jsonl", '{"n": 1}\n\n{"n": 2}\n')
    read_sessions(main)
    assert toy.rows == [("", {"toy": 1}), ("ses_1.notes.jsonl", {"n": 1}), ("ses_1.notes.jsonl", {"n": 2})]


def test_a_part_beside_its_main_file_is_walked_over_and_one_without_is_not(tmp_path: Path, toy: Toy) -> None:
    put(tmp_path, "a/ses_1.json", '{"toy": 1}')
    put(tmp_path, "a/ses_1.notes.jsonl")
    alone = put(tmp_path, "b/ses_1.notes.jsonl")
    assert list(find_logs([str(tmp_path)], [])) == [tmp_path / "a/ses_1.json", alone]


def test_a_name_may_hold_what_means_something_in_a_pattern(tmp_path: Path, toy: Toy) -> None:
    main = put(tmp_path, "session/p1/ses_[1]*.json", '{"toy": 1}')
    put(tmp_path, "message/ses_[1]*/msg_[a].json", '{"m": 1}')
    put(tmp_path, "message/ses_1/msg_b.json", '{"m": 2}')
    put(tmp_path, "part/msg_[a]/prt_1.json", '{"p": 1}')
    read_sessions(main)
    assert [value for _, value in toy.rows] == [{"toy": 1}, {"m": 1}, {"p": 1}]


def test_a_main_file_of_another_name_has_no_parts(storage: Path, toy: Toy) -> None:
    read_sessions((storage / "session/p1/ses_1.json").rename(storage / "session/p1/other.json"))
    assert toy.rows == [("", {"toy": 1})]


def test_the_tree_of_opencode_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, opencode.PARSER)
    main = tmp_path / "storage/session/9c1f/ses_4a10plain.json"
    for record in test_opencode.as_tree(test_opencode.document("plain")):
        path = Path(os.path.normpath(main.parent / record.part)) if record.part else main
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record.data)
    assert list(find_logs([str(tmp_path)], [])) == [main]
    (session,) = read_sessions(main)
    assert [message.text for message in session.messages] == [
        message.text for message in test_opencode.fixture("plain").messages
    ]
    assert session.losses == ()


# --- names that only a folder tells -------------------------------------------------------------------------

FIXTURES = Path(__file__).parent / "parsers"


@pytest.mark.parametrize(
    ("fixture", "place", "name"),
    [
        ("antigravity/plain.jsonl", "brain/conv-1/.system_generated/logs/transcript.jsonl", "conv-1"),
        ("grok/plain.jsonl", "sessions/shop/s-1/chat_history.jsonl", "s-1"),
        ("kimi/plain.jsonl", "sessions/shop/s-1/agents/main/wire.jsonl", "s-1"),
        ("kimi/subagent.jsonl", "sessions/shop/s-1/agents/agent-0/wire.jsonl", "s-1:agent-0"),
        ("kimi/cli_plain.jsonl", "sessions/shop/s-1/wire.jsonl", "s-1"),
        ("cline/plain.ui.json", "tasks/1777712400000/ui_messages.json", "1777712400000"),
        ("grok/plain.jsonl", "elsewhere/shop/s-1/chat_history.jsonl", "chat_history"),
        ("kimi/plain.jsonl", "elsewhere/shop/s-1/wire.jsonl", "wire"),
        ("antigravity/plain.jsonl", "logs/transcript.jsonl", "transcript"),
    ],
    ids=lambda value: value.rpartition("/")[0],
)
def test_a_session_that_only_its_folder_names(tmp_path: Path, fixture: str, place: str, name: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / fixture, path)
    (session,) = read_sessions(path)
    assert session.source_id == name


def test_a_part_without_a_folder_in_its_name_is_one_only_beside_its_log(tmp_path: Path) -> None:
    mine = tmp_path / "sessions/shop/s-1"
    (mine / "agents/main").mkdir(parents=True)
    shutil.copy(FIXTURES / "kimi/plain.jsonl", mine / "agents/main/wire.jsonl")
    for folder in (mine, tmp_path / "game"):
        folder.mkdir(exist_ok=True)
        (folder / "state.json").write_text("{}")
    found = {path.relative_to(tmp_path).as_posix() for path in find_logs([str(tmp_path)], [])}
    assert found == {"sessions/shop/s-1/agents/main/wire.jsonl", "game/state.json"}
