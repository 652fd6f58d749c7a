"""From the logs on disk to the store: what is new is read, judged and kept, over all cores; what is not is passed over.

`sync` is one pass. `watch` goes on making them as files change. `settle` grades what has come to rest, `rebuild` reads
everything again from the archived bytes. All of them can be stopped at any time: what is kept is whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from datetime import datetime
from fnmatch import fnmatch
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import select

from demerit.config import Settings
from demerit.library import die_with_parent
from demerit.model import Session
from demerit.parsers import PARSE_EPOCH
from demerit.parsers.records import Source
from demerit.projects import Projects
from demerit.sources import Log, Unreadable, agent_logs, find_logs, fingerprint, open_log
from demerit.store import Store, StoreError
from demerit.store import archive as archiving
from demerit.store.engines import Busy
from demerit.store.filters import microseconds
from demerit.store.projection import Project, Projection
from demerit.store.schema import logs
from demerit.store.writer import Conflict, LogRow, Write, stored_sessions, take_ids, write_logs

LIMITS = Source(unplaced_chars=65536)
# Of a log of this size, the rows are made as they are written: they would not fit into memory together.
_LARGE = 48 << 20
_BATCH_BYTES = 6 << 20
_BATCH_LOGS = 64
_WORTH_A_POOL = 4 << 20
_ID_BLOCK = 256
_CHECKED = 4096
"""Bytes at the end of what is archived by which a log that grew is told from one that was rewritten."""


class Task(msgspec.Struct, frozen=True):
    """A log to read."""

    path: str
    key: str
    seen: str | None
    """Its fingerprint in the database; None: it is not there yet."""
    bytes: int


class Done(msgspec.Struct):
    """What became of some logs."""

    logs: int = 0
    bytes: int = 0
    sessions: int = 0
    """New, or changed."""
    failed: list[tuple[str, str]] = []
    """Paths of logs that gave none, with the reason."""
    trouble: str | None = None
    """Why the store could not take them, in words: nothing of them is kept."""
    is_busy: bool = False


class Progress(msgspec.Struct, frozen=True):
    """How far a pass is."""

    logs: int
    of_logs: int
    bytes: int
    of_bytes: int
    sessions: int


class Pass(msgspec.Struct):
    """What a pass found and did."""

    found: int = 0
    unchanged: int = 0
    read: int = 0
    bytes: int = 0
    sessions: int = 0
    graded: int = 0
    gone: int = 0
    failed: list[tuple[str, str]] = []
    skipped: list[tuple[str, str]] = []
    """What a walk could not enter, with the reason."""


def log_key(machine: str, path: str) -> str:
    """The store's name of a log: a path need not be text, and two machines may have the same ones."""
    digest = blake2b(machine.encode() + b"\\0", digest_size=16)
    digest.update(os.fsencode(path))
    return digest.hexdigest()


def find(
    settings: Settings, home: Path, environ: Mapping[str, str], named: Sequence[str], skipped: list[Unreadable]
) -> Iterator[Path]:
    """The logs to look at: those that were named, else those of all agents and of the folders in the settings.

    Raises Unreadable for a name that matches nothing.
    """
    if named:
        found: Iterable[Path] = find_logs(named, skipped)
    else:
        roots = [str(Path(root).expanduser()) for root in settings.roots]
        there = [root for root in roots if os.path.lexists(root)]
        skipped += [Unreadable(root, "no such folder") for root in roots if root not in there]
        found = (path for paths in (agent_logs(home, environ, skipped), find_logs(there, skipped)) for path in paths)
    seen: set[str] = set()
    for path in found:
        absolute = os.path.abspath(path)
        if absolute not in seen and not any(fnmatch(absolute, pattern) for pattern in settings.exclude):
            seen.add(absolute)
            yield Path(absolute)


def sync(
    store: Store,
    settings: Settings,
    paths: Iterable[Path],
    now: datetime,
    ended: bool = False,
    report: Callable[[Progress], None] | None = None,
    debug: bool = False,
) -> Pass:
    """Read what is new or has changed of these logs.

    now: aware time at which sessions count as settled. ended: the sessions in them are over, whatever the logs say.
    Raises StoreError when the store cannot take them; what it took before is kept.
    """
    result = Pass()
    listed = list(paths)
    tasks = list(_changed(store, settings, listed, result))
    if ended:
        _end(store, [log_key(settings.machine, str(path)) for path in listed])
    for done in _read_all(store, settings, tasks, now, ended, debug):
        result.read += done.logs
        result.bytes += done.bytes
        result.sessions += done.sessions
        result.failed += done.failed
        if report is not None:
            sizes = sum(task.bytes for task in tasks)
            report(Progress(result.read, len(tasks), result.bytes, sizes, result.sessions))
    return result


def _changed(store: Store, settings: Settings, paths: Iterable[Path], result: Pass) -> Iterator[Task]:
    """The logs that are not kept as they are, the last written first."""
    with store.reading() as connection:
        rows = connection.execute(
            select(logs.c.key, logs.c.fingerprint, logs.c.agent, logs.c.epoch).where(logs.c.machine == settings.machine)
        )
        known = {key: (mark, agent, epoch) for key, mark, agent, epoch in rows}
    found: list[tuple[float, Task]] = []
    for path in paths:
        result.found += 1
        name = str(path)
        key = log_key(settings.machine, name)
        mark, agent, epoch = known.get(key, (None, None, PARSE_EPOCH))
        now = fingerprint(path, agent)
        if now is None:
            # It vanished, or is no file: reading it says what is wrong.
            found.append((0.0, Task(name, key, mark, 0)))
        elif now[0] == mark and epoch == PARSE_EPOCH:
            result.unchanged += 1
        else:
            found.append((-now[1].st_mtime, Task(name, key, mark, now[1].st_size)))
    yield from (task for _, task in sorted(found, key=lambda one: one[0]))


def _end(store: Store, keys: Sequence[str]) -> None:
    """Take the sessions of these logs as over: they are graded, whenever their last line came."""
    with store.writing() as connection:
        for at in range(0, len(keys), 500):
            of_them = sessions.c.log_id.in_(select(logs.c.id).where(logs.c.key.in_(keys[at : at + 500])))
            over = update(sessions).where(of_them, ~sessions.c.is_terminal)
            connection.execute(over.values(is_terminal=True, is_stale=True))


# --- reading ----------------------------------------------------------------------------------------------------


class _Reader:
    """Reads logs and keeps what they give; one in each process."""

    def __init__(self, store: Store, settings: Settings, now: datetime, ended: bool, debug: bool, lock: Any) -> None:
        self.store = store
        self.settings = settings
        self.now = now
        self.ended = ended
        self.debug = debug
        self.lock = lock
        self.projects = Projects(Path.home())
        self.ids: list[int] = []

    def take(self, tasks: Sequence[Task]) -> Done:
        """Read some logs and keep them in one transaction."""
        done = Done()
        writes: list[Write] = []
        try:
            for task in tasks:
                with suppress(Conflict):
                    self.one(task, writes, done)
            self.keep(writes, done)
        except StoreError as error:
            if self.debug:
                raise
            done.trouble, done.is_busy = str(error), isinstance(error, Busy)
        done.logs = len(tasks)
        done.bytes = sum(task.bytes for task in tasks)
        return done

    def one(self, task: Task, writes: list[Write], done: Done) -> None:
        path = Path(task.path)
        before = fingerprint(path)
        try:
            with open_log(path) as log:
                found = self.read(log)
                write = self.prepared(task, log, found, before)
                if log.size > _LARGE:
                    self.keep([write], done)
                else:
                    for projection in write.sessions:
                        projection.prepare()
                    writes.append(write)
                return
        except Unreadable as error:
            reason, known_agent = error.reason, error.known_agent
        except StoreError:
            raise
        except (Exception, MemoryError) as error:
            if self.debug:
                raise
            what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            reason, known_agent = f"demerit failed on it ({what}), which is our fault; --debug shows where", True
        done.failed.append((task.path, reason))
        if before is None and task.seen is None:
            return  # it is not there, and never was
        row = self.row(task, None, before, 0, 0)
        row = msgspec.structs.replace(row, reason=reason, known_agent=known_agent, is_gone=before is None)
        writes.append(Write(row, task.seen, ()))

    def read(self, log: Log) -> list[Session]:
        found = log.sessions(LIMITS)
        return [msgspec.structs.replace(one, terminal=True) for one in found] if self.ended else found

    def prepared(
        self, task: Task, log: Log, found: Sequence[Session], before: tuple[str, os.stat_result] | None
    ) -> Write:
        assert log.parser is not None
        generation = self.archived(task, log, found) if self.settings.archive else 0
        row = self.row(task, log.parser.agent, before, log.size, generation)
        return Write(row, task.seen, self.projections(task, found, log.text))

    def projections(self, task: Task, found: Sequence[Session], whole: Callable[..., str | None]) -> list[Projection]:
        kept = []
        if task.seen is not None:
            with self.store.reading() as connection:
                kept = stored_sessions(connection, task.key)
        made = []
        for session in found:
            same = next((one for one in kept if one.source_id == session.source_id), None)
            projection = None
            if same is not None:
                kept.remove(same)
                projection = self.project(same.id, session, whole, same.texts)
                # Another session that took its name, and its place in the file: the old one is kept for good.
                if same.heads and projection.heads and same.heads.isdisjoint(projection.heads):
                    projection = None
            made.append(projection or self.project(self.next_id(), session, whole, {}))
        return made

    def project(
        self, number: int, session: Session, whole: Callable[..., str | None], known: dict[str, int]
    ) -> Projection:
        return Projection(number, session, whole, known, self.project_of(session))

    def project_of(self, session: Session) -> Project | None:
        found = self.projects.of(session.cwd)
        if found is None:
            return None
        # A folder is one on its own machine only.
        key = found.key if found.kind == "remote" else f"{self.settings.machine}:{found.key}"
        return Project(key, found.name, found.kind)

    def next_id(self) -> int:
        if not self.ids:
            with self.store.writing() as connection:
                first = take_ids(connection, _ID_BLOCK)
            self.ids = list(range(first + _ID_BLOCK - 1, first - 1, -1))
        return self.ids.pop()

    def row(
        self,
        task: Task,
        agent: str | None,
        before: tuple[str, os.stat_result] | None,
        size: int,
        generation: int,
    ) -> LogRow:
        modified = None if before is None else int(before[1].st_mtime_ns // 1000)
        return LogRow(
            key=task.key,
            machine=self.settings.machine,
            path=task.path.encode("utf-8", "replace").decode(),
            agent=agent,
            fingerprint="" if before is None else before[0],
            bytes=size,
            modified_us=modified,
            generation=generation,
            epoch=PARSE_EPOCH,
            reason=None,
            known_agent=agent is not None,
            read_us=microseconds(self.now),
        )

    def archived(self, task: Task, log: Log, found: Sequence[Session]) -> int:
        """Keep the raw bytes that are not kept yet; their generation."""
        store = self.store
        with store.explaining(), store.archive_engine.connect() as connection:
            known = archiving.archived(connection, task.key)
            start = generation = 0
            drops = False
            if known is not None:
                generation = known.generation
                if log.is_framed or known.is_framed or not self.continues(log, connection, known):
                    generation += 1
                    drops = not log.is_framed and log.size >= known.bytes
                else:
                    start = known.bytes
        made = archiving.frames(log.raw(start), start)
        size = start + sum(frame.bytes for frame in made)
        if known is not None and not made and generation == known.generation:
            return generation
        agent = log.parser.agent if log.parser is not None else None
        status = os.stat(task.path)
        row = archiving.Archived(
            key=task.key,
            machine=self.settings.machine,
            path=task.path.encode("utf-8", "replace").decode(),
            os_path=os.fsencode(task.path),
            agent=agent,
            is_framed=log.is_framed,
            generation=generation,
            bytes=size,
            modified_us=status.st_mtime_ns // 1000,
        )
        with self.alone(), store.explaining(), store.archive_engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                if archiving.archived(connection, task.key) != known:
                    raise Conflict(task.path)
                archiving.add(connection, row, made, drops)
        return generation

    def continues(self, log: Log, connection: Any, known: archiving.Archived) -> bool:
        """Whether a log begins with what is archived of it, by the bytes at the seam."""
        if log.size < known.bytes:
            return False
        start = max(0, known.bytes - _CHECKED)
        kept = b"".join(archiving.pieces(connection, known.key, known.generation, start))
        return kept[: known.bytes - start] == log.piece(start, known.bytes - start)

    def keep(self, writes: Sequence[Write], done: Done) -> None:
        if not writes:
            return
        try:
            with self.alone(), self.store.writing() as connection:
                done.sessions += len(write_logs(connection, writes, self.now))
        except Conflict:
            # One of them was written by somebody else meanwhile; the others go in one by one.
            if len(writes) > 1:
                for write in writes:
                    self.keep([write], done)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for the other readers of this run in turn, rather than for the database's lock by chance."""
        if self.lock is None:
            yield
        else:
            with self.lock:
                yield


_reader: _Reader | None = None


def _start_reader(url: str, settings: Settings, now: datetime, ended: bool, debug: bool, lock: Any) -> None:
    global _reader
    die_with_parent()
    _reader = _Reader(Store.open(url), settings, now, ended, debug, lock)


def _take(tasks: Sequence[Task]) -> Done:
    assert _reader is not None
    return _reader.take(tasks)


def _read_all(
    store: Store, settings: Settings, tasks: Sequence[Task], now: datetime, ended: bool, debug: bool
) -> Iterator[Done]:
    """Read logs in batches, over as many processes as the settings say."""
    batches = list(_batches(tasks))
    workers = min(settings.workers or os.cpu_count() or 1, len(batches))
    if workers < 2 or sum(task.bytes for task in tasks) < _WORTH_A_POOL:
        reader = _Reader(store, settings, now, ended, debug, None)
        for batch in batches:
            yield _in_order(reader.take(batch))
        return
    # A connection must not be there twice, in this process and in its children.
    store.engine.dispose()
    store.archive_engine.dispose()
    context = get_context()
    url = store.url.render_as_string(hide_password=False)
    arguments = (url, settings, now, ended, debug, context.Lock())
    with ProcessPoolExecutor(workers, context, _start_reader, arguments) as pool:
        waiting: set[Future[Done]] = set()
        left = iter(batches)
        try:
            while True:
                # No more is handed out than is being worked on, so that stopping need not wait for the rest.
                while len(waiting) < workers + 1 and (batch := next(left, [])):
                    waiting.add(pool.submit(_take, batch))
                if not waiting:
                    return
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield _in_order(future.result())
        except BrokenProcessPool:
            raise StoreError(
                "a process that read logs was killed (out of memory?); what was read before is kept: run this again"
            ) from None
        finally:
            for future in waiting:
                future.cancel()


def _in_order(done: Done) -> Done:
    if done.trouble is not None:
        raise (Busy if done.is_busy else StoreError)(done.trouble)
    return done


def _batches(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    batch: list[Task] = []
    size = 0
    for task in tasks:
        if batch and (size + task.bytes > _BATCH_BYTES or len(batch) == _BATCH_LOGS):
            yield batch
            batch, size = [], 0
        batch.append(task)
        size += task.bytes
    if batch:
        yield batch
