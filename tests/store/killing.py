"""Kills what reads logs at random moments, again and again: the store is then as one that nobody disturbed.

    python -m tests.store.killing --database sqlite --times 200 [--seed N] [--logs FOLDER]

Two stores look at one folder of invented logs. In the one, every pass is killed (SIGKILL to all of its processes) some
times before it may end; in the other none is. Between the passes agents go on writing. A round is one of

- logs that are rewritten, cut, moved, deleted, spoilt: a pass is killed some times, and ends;
- logs that grow, or come: more of that after each kill, until a pass ends;
- a settle pass, or a rebuild, which are killed some times, and end.

What was rewritten or deleted is kept on purpose, so both stores see each such state in a pass that ends; what only
grows need not be seen at every size. After each round every row of every table is compared, and the raw bytes that
are archived. Only these may differ: numbers that the database gives out (a row is known by the log it came from, the
agent's name of its session, its place in it), when a log was read and where reading would go on, and where the
archive cuts its frames.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, Connection, Engine, event, func, select, text
from tests.parsers import claude_lines
from tests.store.servers import fresh_database, postgres_server

from demerit import config, ingest
from demerit.config import Settings
from demerit.store import Store, StoreError, archive
from demerit.store.engines import archive_url
from demerit.store.schema import archived_logs, logs, messages, metadata, projects, sessions, texts
from demerit.store.texts import unpacked, unpacked_bytes

WORDS = (
    "apricot barley cardamom damson elderberry fennel gooseberry hazelnut iris juniper kumquat lavender mulberry nettle"
).split()
"""What the invented logs are about; each is looked for in both stores."""
BEGUN = claude_lines.START

Line = dict[str, Any]


# --- logs that agents write ---------------------------------------------------------------------------------------


class Logs:
    """A folder of invented logs of several agents, and what these do to them: the same again from the same seed."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.second = 0
        self.lines: dict[Path, list[Line]] = {}
        """Of the logs that only grow, or are cut."""
        self.documents: dict[Path, Line] = {}
        """Gemini's, which are written anew each time."""
        self.waiting: dict[Path, str] = {}
        """Calls without a result, which comes later."""
        self.rest: dict[Path, bytes] = {}
        """Of logs that end in the middle of a line."""
        self.number = 0
        self.database = folder / "opencode" / "opencode.db"

    @property
    def now(self) -> datetime:
        return BEGUN + timedelta(seconds=self.second)

    def begin(self, count: int = 60) -> None:
        """Make about `count` logs: of Claude Code, resumed ones among them, of Codex, of Gemini, and of OpenCode."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for at in range(count):
            kind = (self.new_claude, self.new_codex, self.new_claude, self.new_document, self.new_codex)[at % 5]
            kind()
        for _ in range(max(1, count // 15)):
            self.resume()
        self.write_database()
        large = self.new_claude()
        while large.stat().st_size < 200_000:
            self.grow(large)
        (self.folder / "notes.jsonl").write_text('{"no": "log"}\n')

    def grow_some(self) -> None:
        """Let logs grow, and new ones come."""
        grows = (self.grow, self.grow, self.grow_half, self.new_claude, self.new_codex, self.resume)
        for _ in range(self.random.randint(1, 4)):
            self.random.choice(grows)()

    def change_some(self) -> None:
        """Change logs in ways that take something away."""
        self.write_database()
        self.new_document()
        self.new_codex()
        changes = (self.rewrite, self.rewrite, self.cut, self.delete, self.replace, self.move, self.copy, self.spoil)
        for change in self.random.sample(changes, 4):
            change()

    # What is added.

    def new_claude(self) -> Path:
        name = self.next_name()
        path = self.folder / "claude" / f"{name}.jsonl"
        return self.put(path, [self.claude_line(name, claude_lines.user, self.said()), *self.claude_turn(name)])

    def new_codex(self) -> Path:
        name = self.next_name()
        about = {"id": name, "timestamp": self.stamp(), "cwd": "/home/dev/shop", "cli_version": "0.142.0"}
        first = self.codex_line("session_meta", about | {"originator": "codex-tui", "source": "cli"})
        return self.put(self.folder / "codex" / f"rollout-{name}.jsonl", [first, *self.codex_turn()])

    def new_document(self) -> None:
        name = self.next_name()
        path = self.folder / "gemini" / f"session-{name}.json"
        self.documents[path] = {"sessionId": name, "projectHash": "9f0c", "startTime": self.stamp(), "messages": []}
        self.rewrite(path)

    def resume(self) -> None:
        """A log that begins with all lines of another one, under its own session's name."""
        source = self.one(path for path in self.lines if path.parent.name == "claude")
        name = self.next_name()
        repeated = [{**line, "sessionId": name} for line in self.lines[source]]
        self.put(self.folder / "claude" / f"{name}.jsonl", [*repeated, *self.claude_turn(name)])

    def grow(self, path: Path | None = None) -> None:
        path = path or self.one(self.lines)
        if path.parent.name == "codex":
            more = self.codex_turn()
        else:
            more = self.claude_turn(path.stem)
            if path in self.waiting:
                late = claude_lines.result(self.waiting.pop(path), self.said(), second=self.tick())
                more.insert(0, {**late, "sessionId": path.stem})
            elif self.random.random() < 0.3:
                self.waiting[path] = more[1]["message"]["content"][1]["id"]
                del more[2:]
        self.lines[path] += more
        self.append(path, encoded(more))

    def grow_half(self) -> None:
        """Leave the last line unfinished until the log grows again."""
        path = self.one(self.lines)
        before = path.stat().st_size
        self.grow(path)
        whole = path.read_bytes()
        at = self.random.randrange(before + 1, len(whole))
        os.truncate(path, at)
        self.rest[path] = whole[at:]

    # What takes away.

    def rewrite(self, path: Path | None = None) -> None:
        """Write a document anew with one more answer."""
        path = path or self.one(self.documents)
        document = self.documents[path]
        document["messages"] += self.gemini_turn(document["sessionId"])
        document["lastUpdated"] = self.stamp()
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document, indent=self.random.choice((None, 2))))

    def cut(self) -> None:
        """Take back the last turns of a session: its log gets shorter."""
        path = self.one(path for path, lines in self.lines.items() if len(lines) > 3)
        self.waiting.pop(path, None)
        self.put(path, self.lines[path][: self.random.randrange(2, len(self.lines[path]))])

    def delete(self) -> None:
        self.forget(self.one(self.lines)).unlink()

    def replace(self) -> None:
        """Put another session's log in the place of one."""
        path = self.one(path for path in self.lines if path.parent.name == "codex")
        other = self.new_codex()
        self.put(path, self.lines[other])
        self.forget(other).unlink()

    def move(self) -> None:
        path = self.one(self.lines)
        lines = self.lines[path]
        old = path.rename(path.with_name(f"{path.stem}-moved-{self.number}.jsonl"))
        self.forget(path)
        self.lines[old] = lines

    def copy(self) -> None:
        path = self.one(self.lines)
        path.with_name(f"{path.stem}-copy-{self.number}.jsonl").write_bytes(path.read_bytes())

    def spoil(self) -> None:
        """Make a log something that is none."""
        path = self.one(self.documents)
        del self.documents[path]
        path.write_text("nothing of the kind\n")

    def write_database(self) -> None:
        """Add a session to OpenCode's database, and to one that is there an answer, while others are rewritten."""
        self.database.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(self.database)) as database, database:
            database.executescript(_OPENCODE)
            name = f"ses_{self.next_name()}"
            at = round(self.now.timestamp() * 1000)
            row = (name, "9c1f", None, "/home/dev/shop", self.said(), "1.2.24", at, at)
            database.execute("insert into session values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            names = [row[0] for row in database.execute("select id from session order by id")]
            for session in (name, self.random.choice(names)):
                for role in ("user", "assistant"):
                    at, message = 1000 * self.tick() + round(BEGUN.timestamp() * 1000), f"msg_{self.next_name()}"
                    about: Line = {
                        "role": role,
                        "time": {"created": at},
                        "modelID": "claude-sonnet-4-5",
                        "providerID": "x",
                    }
                    used = {"input": 5, "output": 7, "reasoning": 0, "cache": {"read": 1, "write": 0}}
                    about |= {"tokens": used} if role == "assistant" else {}
                    database.execute(
                        "insert into message values (?, ?, ?, ?, ?)", (message, session, at, at, json.dumps(about))
                    )
                    part = json.dumps({"type": "text", "text": self.said()})
                    parts = (f"prt_{self.next_name()}", message, session, at, part)
                    database.execute("insert into part values (?, ?, ?, ?, ?)", parts)
            said = json.dumps({"type": "text", "text": self.said()})
            database.execute("update part set data = ? where id = (select min(id) from part)", (said,))

    # How it is written.

    def put(self, path: Path, lines: list[Line]) -> Path:
        path.parent.mkdir(exist_ok=True)
        self.lines[path] = lines
        self.rest.pop(path, None)
        path.write_bytes(encoded(lines))
        return path

    def append(self, path: Path, data: bytes) -> None:
        with path.open("ab") as file:
            file.write(self.rest.pop(path, b"") + data)

    def forget(self, path: Path) -> Path:
        self.lines.pop(path)
        self.waiting.pop(path, None)
        self.rest.pop(path, None)
        return path

    def one(self, paths: Any) -> Path:
        found: Path = self.random.choice(sorted(paths))
        return found

    def next_name(self) -> str:
        self.number += 1
        return f"5e55a0e1-0000-4000-8000-{self.number:012d}"

    def tick(self) -> int:
        self.second += self.random.randint(1, 20)
        return self.second

    def stamp(self) -> str:
        self.tick()
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def said(self) -> str:
        words = self.random.choices(WORDS, weights=range(len(WORDS), 0, -1), k=self.random.randint(3, 12))
        return f"{' '.join(words)} in shelf_{self.random.randrange(40)}.py"

    def output(self) -> str:
        return "\n".join(self.said() for _ in range(self.random.choice((1, 2, 100))))  # the last does not fit in a head

    def claude_line(self, session: str, kind: Callable[..., Line], *content: Any, **fields: Any) -> Line:
        return {**kind(*content, second=self.tick(), **fields), "sessionId": session}

    def claude_turn(self, session: str) -> list[Line]:
        call_id = f"toolu_{self.next_name()}"
        name, arguments = self.random.choice(
            (
                ("Bash", {"command": f"make {self.random.choice(WORDS)}"}),
                ("Edit", {"file_path": "/home/dev/shop/cart.py", "old_string": "a", "new_string": self.said()}),
                ("Read", {"file_path": f"/home/dev/shop/shelf_{self.random.randrange(9)}.py"}),
            )
        )
        used = claude_lines.usage(self.random.randrange(90), self.random.randrange(90), self.random.randrange(900))
        call = claude_lines.call(call_id, name, **arguments)
        failed = True if self.random.random() < 0.3 else None
        return [
            self.claude_line(session, claude_lines.user, self.said()),
            self.claude_line(session, claude_lines.assistant, self.said(), call, used=used),
            self.claude_line(session, claude_lines.result, call_id, self.output(), failed),
            self.claude_line(session, claude_lines.assistant, self.said()),
        ]

    def codex_line(self, kind: str, payload: Line) -> Line:
        return {"timestamp": self.stamp(), "type": kind, "payload": payload}

    def codex_turn(self) -> list[Line]:
        call_id = f"call_{self.next_name()}"
        used = {"input_tokens": self.random.randrange(50, 99), "cached_input_tokens": 9, "output_tokens": 7}
        info = {"last_token_usage": used, "total_token_usage": used, "model_context_window": 258400}
        code, said = self.random.randrange(2), self.said()
        items = (
            ("turn_context", {"cwd": "/home/dev/shop", "model": "gpt-5.5"}),
            ("response_item", _codex_text("user", self.said())),
            ("response_item", {"type": "function_call", "name": "exec_command", "call_id": call_id}),
            ("response_item", {"type": "function_call_output", "call_id": call_id, "output": ""}),
            ("event_msg", {"type": "token_count", "info": info}),
            ("response_item", _codex_text("assistant", said)),
        )
        items[2][1]["arguments"] = json.dumps({"cmd": f"make {said}"})
        items[3][1]["output"] = f"Process exited with code {code}\nOutput:\n{self.output()}"
        return [self.codex_line(kind, payload) for kind, payload in items]

    def gemini_turn(self, session: str) -> list[Line]:
        tokens = {"input": 60, "output": 7, "cached": 9, "thoughts": 2, "tool": 0, "total": 69}
        call = {"id": f"read_{self.number}", "name": "read_file", "args": {"file_path": "cart.py"}, "status": "success"}
        answer = {"toolCalls": [call], "tokens": tokens, "model": "gemini-3-pro-preview"}
        return [
            {"id": self.next_name(), "timestamp": self.stamp(), "type": "user", "content": self.said()},
            {"id": self.next_name(), "timestamp": self.stamp(), "type": "gemini", "content": self.said(), **answer},
        ]


_OPENCODE = """
create table if not exists session (id text primary key, project_id text, parent_id text, directory text, title text,
  version text, time_created integer, time_updated integer);
create table if not exists message (id text primary key, session_id text, time_created integer, time_updated integer,
  data text);
create table if not exists part (id text primary key, message_id text, session_id text, time_created integer,
  data text);
"""


def _codex_text(role: str, said: str) -> Line:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}


def encoded(lines: Sequence[Line]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


# --- what a store holds -------------------------------------------------------------------------------------------

Contents = dict[str, dict[str, object]]
"""Of each table: a row by what it is known by. Numbers that the database gave out are in none of it."""

_KNOWN_BY = {"logs": ("path",), "sessions": ("id",), "projects": ("key",), "texts": ("session_id", "digest")}
_TEXT_IDS = ("text_id", "thinking_id", "input_id", "result_id")
_NO_CONTENT = ("logs.read_us", "logs.checkpoint")
_SESSION_IDS = ("session_id", "parent_id", "copy_of")


def contents(store: Store, leave_out: Sequence[str] = ()) -> Contents:
    """All that a store holds, its archive and its search index included.

    leave_out: columns, as `logs.bytes`, and tables not to ask for; two of `logs` never are.
    """
    with store.reading() as connection, store.archive_engine.connect() as archiving:
        raw = {one.key: _raw(archiving, one.key) for one in archive.all_archived(archiving)}
        name = _Names(connection, raw)
        found: Contents = {}
        for table in metadata.sorted_tables:
            if table.name == "counters":
                continue
            columns = [column for column in table.c if str(column) not in (*_NO_CONTENT, *leave_out)]
            known_by = _KNOWN_BY.get(table.name, tuple(column.name for column in table.primary_key))
            rows = found[table.name] = {}
            for values in connection.execute(select(table)):
                row = values._mapping
                named = {column.name: name.of(column, row) for column in columns}
                key = str(tuple(name.of(table.c[column], row) for column in known_by))
                assert key not in rows, f"{table.name} has {key} twice"
                rows[key] = named
        found["search"] = {word: sorted(name.hits(word)) for word in WORDS}
        found["archive"] = {}
        for kept in archiving.execute(select(archived_logs)):
            row = kept._mapping
            about = {name: value for name, value in row.items() if name not in ("key", "generation", "modified_us")}
            about["generations"] = list(raw[row["key"]].values())
            found["archive"][row["path"]] = {k: v for k, v in about.items() if f"archive.{k}" not in leave_out}
        return {table: rows for table, rows in found.items() if table not in leave_out}


def _raw(connection: Connection, key: str) -> dict[int, str]:
    """Size and digest of what is archived of a log, by its generations."""
    found = {}
    for generation in sorted(archive.generations(connection, key)):
        try:
            whole = b"".join(archive.pieces(connection, key, generation))
        except StoreError as error:
            found[generation] = str(error)
            continue
        found[generation] = f"{len(whole)} bytes {blake2b(whole, digest_size=6).hexdigest()}"
    return found


class _Names:
    """What stands for the numbers of rows."""

    def __init__(self, connection: Connection, raw: dict[str, dict[int, str]]) -> None:
        self.connection = connection
        self.logs: dict[int, str] = {}
        self.raw: dict[int, dict[int, str]] = {}
        for number, path, key in connection.execute(select(logs.c.id, logs.c.path, logs.c.key)):
            self.logs[number], self.raw[number] = path, raw.get(key, {})
        row = sessions.c
        self.sessions = {
            number: f"{self.logs[log]} {source_id} {place}"
            for number, log, source_id, place in connection.execute(
                select(row.id, row.log_id, row.source_id, row.place)
            )
        }
        self.projects = {row.id: row.key for row in connection.execute(select(projects.c.id, projects.c.key))}
        self.texts = {row.id: row.digest for row in connection.execute(select(texts.c.id, texts.c.digest))}

    def of(self, column: Column[Any], row: Any) -> object:
        table, value = column.table.name, row[column.name]
        if value is None:
            return None
        if column.name == "id":
            return self.sessions[value] if table == "sessions" else "-"
        if column.name in _SESSION_IDS:
            return self.sessions[value]
        if column.name in _TEXT_IDS:
            return self.texts[value]
        if column.name == "log_id":
            return self.logs[value]
        if column.name == "project_id":
            return self.projects[value]
        if column.name == "generation":
            return self.raw[row["id"] if table == "logs" else row["log_id"]].get(value, "-")
        if table == "session_reports" and column.name == "data":
            return json.loads(unpacked_bytes(value))
        return unpacked(value) if table == "texts" and column.name == "data" else value

    def hits(self, word: str) -> Iterator[str]:
        matches = "search match :word" if self.connection.dialect.name == "sqlite" else "body @@ cast(:word as tsquery)"
        found = self.connection.execute(text(f"select rowid from search where {matches}"), {"word": word}).scalars()
        for number in found:
            yield f"{self.sessions.get(number >> 24)} {self.texts.get(number)}"


def difference(one: Contents, other: Contents) -> str | None:
    """The first thing in which two stores differ, in words; None when there is none."""
    for table, rows in one.items():
        for key in sorted(rows.keys() | other[table].keys()):
            a, b = rows.get(key), other[table].get(key)
            if a == b:
                continue
            if isinstance(a, dict) and isinstance(b, dict):
                values = [f"{name} {a[name]!r} and {b[name]!r}" for name in a if a[name] != b[name]]
                return f"{table} {key}: {'; '.join(values)}"
            return f"{table} {key}: {a!r} and {b!r}"
    return None


def unsound(store: Store) -> str | None:
    """What no reader may ever see, in words: half of a session, or a file that is not in order. None: all is well."""
    with store.reading() as connection:
        own = select(func.count()).where(messages.c.session_id == sessions.c.id).scalar_subquery()
        half = select(sessions.c.source_id).where(own != sessions.c.messages + sessions.c.replayed_messages)
        found = connection.execute(half.limit(1)).scalar()
    if found is not None:
        return f"half of the session {found} is there"
    for url in (store.url, archive_url(store.url)) if store.is_sqlite else ():
        with closing(sqlite3.connect(str(url.database))) as database:
            for pragma in ("integrity_check", "foreign_key_check"):
                complaints = [row for row in database.execute(f"pragma {pragma}") if row != ("ok",)]
                if complaints:
                    return f"{url.database}: {complaints[0]}"
    return None


# --- passes that can be killed ------------------------------------------------------------------------------------


class Task(msgspec.Struct, frozen=True):
    """One pass over the logs."""

    do: str
    """`sync`, `settle`, `begin` (a rebuild) or `rebuild`."""
    url: str
    folder: str
    now: datetime
    workers: int = 2


def settings_for(url: str, workers: int = 2, **flags: object) -> Settings:
    """Settings that depend on nobody's machine."""
    return config.load({}, Path(os.devnull), database_url=url, workers=workers, machine="here", timezone="UTC", **flags)


def shrink_batches() -> None:
    """Let few small logs go the ways of many large ones: several batches, processes, frames, parts."""
    ingest._WORTH_A_POOL = 0
    ingest._BATCH_LOGS = 5
    ingest._LARGE = 100_000
    archive.FRAME_BYTES = 1 << 16
    archive._SMALL_FRAME = 1 << 14


def work(task: Task, report: Callable[[ingest.Progress], None] | None = None) -> ingest.Pass:
    """Make one pass. Raises StoreError."""
    settings = settings_for(task.url, task.workers)
    result = ingest.Pass()
    with Store.open(settings.database_url) as store:
        if task.do == "sync":
            found = ingest.find(settings, Path("/nonexistent"), {}, [task.folder], [])
            result = ingest.sync(store, settings, found, task.now, report=report)
            result.gone = ingest.mark_gone(store, settings)
        elif task.do == "settle":
            result.graded = ingest.settle(store, task.now)
        elif task.do == "begin":
            ingest.begin_rebuild(store)
        else:
            result = ingest.rebuild(store, settings, task.now, report)
    return result


def answer() -> int:
    """Make the passes that standard input asks for, a task on each line: to be run in a process of its own.

    Answers with lines of JSON: how far it is, as it goes, and at the end what was read, or the sentence of an error.
    """

    def put(**values: object) -> None:
        print(json.dumps(values), flush=True)

    shrink_batches()
    for line in sys.stdin:
        task = msgspec.json.decode(line, type=Task)
        try:
            done = work(task, lambda progress: put(logs=progress.logs))
        except StoreError as error:
            put(error=str(error))
        except KeyboardInterrupt:
            put(stopped=True)
        else:
            put(read=done.read, failed=done.failed)
    return 0


class Failed(Exception):
    """A pass failed by itself, or the stores differ: the message says how."""


class Killer:
    """Makes passes in processes of their own, and kills them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.kills = self.in_transaction = 0
        self.marks = mmap.mmap(-1, 1 << 22)  # one byte a process: it has written rows and not committed them
        shrink_batches()
        with TemporaryDirectory() as folder:  # once here, so that no process has to import it all again
            made = Logs(Path(folder, "logs"))
            made.begin(5)
            work(Task("sync", f"sqlite:///{folder}/demerit.db", str(made.folder), made.now, workers=1))

    def end(self, task: Task) -> float:
        """Let a pass end; how many seconds it took."""
        begun = time.monotonic()
        process = self.start(task)
        _, status = os.waitpid(process, 0)
        if status:
            raise Failed(f"{task.do} ended with status {status}")
        return time.monotonic() - begun

    def kill(self, task: Task, within_s: float) -> bool:
        """Kill a pass within so many seconds; whether it was still running."""
        self.marks[:] = bytes(len(self.marks))
        process = self.start(task)
        time.sleep(self.random.uniform(0, within_s))
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if status:
                raise Failed(f"{task.do} ended with status {status}")
            return False
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        self.kills += 1
        self.in_transaction += self.marks.find(b"\1") >= 0
        return True

    def start(self, task: Task) -> int:
        process = os.fork()
        if process:
            os.setpgid(process, process)
            return process
        code = 1
        try:
            os.setpgid(0, 0)
            event.listen(Engine, "before_cursor_execute", self.mark)
            for name in ("commit", "rollback"):
                event.listen(Engine, name, self.unmark)
            work(task)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def mark(self, connection: Connection, cursor: Any, statement: str, *rest: object) -> None:
        if statement.lstrip()[:6].lower() in ("insert", "update", "delete"):
            self.marks[os.getpid() % len(self.marks)] = 1

    def unmark(self, connection: Connection) -> None:
        self.marks[os.getpid() % len(self.marks)] = 0


class Figures(NamedTuple):
    kills: int
    in_transaction: int
    """Kills while some process had written rows that it had not committed."""
    rounds: int
    seconds: float


def kill_often(disturbed: str, clean: str, folder: Path, times: int, seed: int) -> Figures:
    """Kill passes into the store `disturbed` that often, and compare it with `clean`. Raises Failed."""
    begun = time.monotonic()
    made = Logs(folder, seed)
    made.begin(60 if times > 20 else 20)
    killer = Killer(seed)
    rounds = 0
    kinds = ("change", "grow", "rebuild", "change", "settle")
    while killer.kills < times:
        kind = kinds[rounds % len(kinds)]
        most = min(times - killer.kills, killer.random.randint(1, 8) if rounds else max(2, times // 20))
        _round(killer, made, kind, disturbed, clean, most)
        rounds += 1
        with Store.open(disturbed) as one, Store.open(clean) as other:
            found = difference(contents(one), contents(other)) or unsound(one)
        if found:
            raise Failed(f"after {killer.kills} kills, the last in a round of {kind!r}: {found}")
    return Figures(killer.kills, killer.in_transaction, rounds, time.monotonic() - begun)


def _round(killer: Killer, made: Logs, kind: str, disturbed: str, clean: str, most: int) -> None:
    do = kind if kind in ("settle", "rebuild") else "sync"
    if kind == "settle":
        made.second += 3600
    elif kind == "change":
        made.change_some()
    elif kind == "rebuild":
        for url in (disturbed, clean):
            killer.end(Task("begin", url, str(made.folder), made.now))
    within_s = killer.end(Task(do, clean, str(made.folder), made.now))
    if kind == "grow":
        within_s = 0.3
    wanted, tries = killer.kills + most, 3 * most
    while killer.kills < wanted and tries:
        if kind == "grow":
            made.grow_some()
        killer.kill(Task(do, disturbed, str(made.folder), made.now), within_s)
        tries -= 1
    # What settled after one store read it is graded in the other as it is read.
    for last in (do, "settle"):
        for url in (disturbed, clean):
            killer.end(Task(last, url, str(made.folder), made.now))


@contextmanager
def two_databases(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """URLs of two empty databases of that kind."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/disturbed/demerit.db", f"sqlite:///{folder}/clean/demerit.db"
        return
    with postgres_server() as server, fresh_database(server) as one, fresh_database(server) as other:
        yield one, other


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store.killing", description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--times", type=int, default=200, help="how many kills (200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, help="an empty folder for the logs, which stay there")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.answer:
        return answer()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        made = asked.logs or folder / "logs"
        disturbed, clean = stack.enter_context(two_databases(asked.database, folder))
        try:
            done = kill_often(disturbed, clean, made.absolute(), asked.times, asked.seed)
        except Failed as error:
            print(f"{asked.database}, seed {asked.seed}: {error}")
            return 1
    print(
        f"{asked.database}, seed {asked.seed}: {done.kills} kills in {done.rounds} rounds, {done.in_transaction} inside"
        f" a transaction; all that is kept equals a clean run's; {done.seconds:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
