"""From the logs on disk to the store: what is new is read, judged and kept, over all cores; what is not is passed over.

`sync` is one pass. `watch` goes on making them as files change. `settle` grades what has come to rest, `rebuild` reads
everything again from the archived bytes. All of them can be stopped at any time: what is kept is whole.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, NamedTuple

import msgspec
import watchfiles
from sqlalchemy import select, update

from demerit.config import Settings
from demerit.library import die_with_parent
from demerit.model import PARSE_EPOCH, Session
from demerit.parsers.records import Source
from demerit.projects import Projects
from demerit.sources import (
    Log,
    Unreadable,
    agent_homes,
    agent_logs,
    find_logs,
    fingerprint,
    is_agents_log,
    is_part_of,
    open_log,
    read_archived,
    text_at,
)
from demerit.store import Store, StoreError
from demerit.store import archive as archiving
from demerit.store.engines import Busy
from demerit.store.filters import microseconds, moment
from demerit.store.grading import due, due_terminal, outdated
from demerit.store.growing import grow
from demerit.store.projection import Project, Projection
from demerit.store.schema import logs, sessions
from demerit.store.texts import TEXT_SPACE, plain
from demerit.store.writer import (
    Conflict,
    LogRow,
    Write,
    grade_settled,
    stored_sessions,
    take_ids,
    thrown_away,
    write_log,
    write_logs,
)

LIMITS = Source(head_chars=0, unplaced_chars=65536)
# Of a log of this size, the rows are made as they are written: they would not fit into memory together.
_LARGE = 48 << 20
_BATCH_BYTES = 6 << 20
_BATCH_LOGS = 64
_WORTH_A_POOL = 4 << 20
_ID_BLOCK = 256
_SETTLED_AT_A_TIME = 500
_RESCAN_S = 900
_MANY_SESSIONS = 20
"""New or changed in one pass: the database is then another one than it was."""
_WORTH_A_STATE = 1 << 18
_LIVE_S = 1800
_CHECKED = 4096
"""Bytes at the end of what is archived by which a log that grew is told from one that was rewritten."""


class Task(msgspec.Struct, frozen=True):
    """A log to read."""

    path: str
    key: str
    seen: str | None
    """Its fingerprint in the database; None: it is not there yet."""
    bytes: int
    from_archive: bool = False
    """It is read from its archived bytes: the log itself is gone, or on another machine."""


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
    _go_through(store, settings, tasks, now, ended, report, debug, result)
    return result


def mark_gone(store: Store, settings: Settings) -> int:
    """Note which of this machine's logs are there no more; how many that is. Their sessions stay."""
    with store.reading() as connection:
        here = select(logs.c.id, logs.c.path).where(logs.c.machine == settings.machine, ~logs.c.is_gone)
        known = connection.execute(here).all()
    # A name that is not text was kept as near to it as text can be: nobody can look for it.
    gone = [number for number, path in known if "\ufffd" not in path and not os.path.lexists(path)]
    for at in range(0, len(gone), 500):
        with store.writing() as connection:
            connection.execute(update(logs).where(logs.c.id.in_(gone[at : at + 500])).values(is_gone=True))
    return len(gone)


def _go_through(
    store: Store,
    settings: Settings,
    tasks: Sequence[Task],
    now: datetime,
    ended: bool,
    report: Callable[[Progress], None] | None,
    debug: bool,
    result: Pass,
) -> None:
    sizes = sum(task.bytes for task in tasks)
    for done in _read_all(store, settings, tasks, now, ended, debug):
        result.read += done.logs
        result.bytes += done.bytes
        result.sessions += done.sessions
        result.failed += done.failed
        if report is not None:
            report(Progress(result.read, len(tasks), result.bytes, sizes, result.sessions))
    if result.sessions >= _MANY_SESSIONS:
        store.look_over()


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


class _Checkpoint(msgspec.Struct):
    """Where reading goes on when a log has grown."""

    read: int
    """Bytes that were read."""
    seam: str
    """Digest of the last of them: where it differs, the log was rewritten."""
    state: bytes
    """Of its parser."""
    epoch: int


def _seam(log: Log, end: int) -> str:
    start = max(0, end - _CHECKED)
    return blake2b(log.piece(start, end - start), digest_size=8).hexdigest()


_CHECKPOINT = msgspec.json.Decoder(_Checkpoint)


class _Known(NamedTuple):
    """A log as it is kept."""

    agent: str | None
    generation: int
    checkpoint: str | None


class _Batch:
    """What was read and is not kept yet."""

    def __init__(self) -> None:
        self.archived: dict[str, archiving.Archived] = {}
        """What is archived of its logs, by their keys."""
        self.known: dict[str, _Known] = {}
        """How those of its logs are kept that are not new."""
        self.additions: list[archiving.Addition] = []
        self.writes: list[Write] = []


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
        batch = _Batch()
        try:
            if self.settings.archive:
                with self.store.reading_archive() as connection:
                    batch.archived = archiving.archived(connection, [task.key for task in tasks])
            batch.known = self.known([task.key for task in tasks if task.seen is not None])
            for task in tasks:
                self.one(task, batch, done)
            self.keep(batch, done)
        except StoreError as error:
            if self.debug:
                raise
            done.trouble, done.is_busy = str(error), isinstance(error, Busy)
        done.logs = len(tasks)
        done.bytes = sum(task.bytes for task in tasks)
        return done

    def known(self, keys: Sequence[str]) -> dict[str, _Known]:
        if not keys:
            return {}
        query = select(logs.c.key, logs.c.agent, logs.c.generation, logs.c.checkpoint).where(logs.c.key.in_(keys))
        with self.store.reading() as connection:
            return {key: _Known(*rest) for key, *rest in connection.execute(query)}

    def one(self, task: Task, batch: _Batch, done: Done) -> None:
        """Read one log. A fault of ours, or of the log, costs that log alone."""
        before = None if task.from_archive else fingerprint(Path(task.path))
        try:
            if task.from_archive:
                self.one_archived(task, batch, done)
            else:
                self.one_on_disk(task, before, batch, done)
            return
        except Unreadable as error:
            reason, known_agent = error.reason, error.known_agent
        except archiving.Damaged as error:
            reason, known_agent = str(error), True
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
        is_gone = before is None and not task.from_archive
        row = msgspec.structs.replace(row, reason=reason, known_agent=known_agent, is_gone=is_gone)
        batch.writes.append(Write(row, task.seen, ()))

    def one_on_disk(self, task: Task, before: tuple[str, os.stat_result] | None, batch: _Batch, done: Done) -> None:
        with open_log(Path(task.path)) as log:
            if self.grown(task, log, before, batch, done):
                return
            # A log that is written to now will be written to again.
            is_live = (
                log.size >= _WORTH_A_STATE
                and before is not None
                and self.now.timestamp() - _LIVE_S < (before[1].st_mtime)
            )
            found = self.read(log, is_live or task.seen is not None)
            assert log.parser is not None
            if log.size > _LARGE:
                self.keep(batch, done)
            keeps = self.settings.archive and not self.are_thrown_away(task, found)
            generation = self.archive(task, log, batch) if keeps else 0
            row = self.row(task, log.parser.agent, before, log.size, generation)
            row = msgspec.structs.replace(row, checkpoint=self.checkpoint(log))
            self.take_in(Write(row, task.seen, self.projections(task, found, log.text)), batch, done)

    def are_thrown_away(self, task: Task, found: Sequence[Session]) -> bool:
        """Whether all that a log holds was pruned: its bytes were then, too."""
        if task.seen is None or not found:
            return False
        with self.store.reading() as connection:
            return all(thrown_away(connection, found))

    def checkpoint(self, log: Log) -> str | None:
        if log.state is None or self.ended:
            return None
        found = _Checkpoint(log.size, _seam(log, log.size), log.state, PARSE_EPOCH)
        return msgspec.json.encode(found).decode()

    def grown(self, task: Task, log: Log, before: tuple[str, os.stat_result] | None, batch: _Batch, done: Done) -> bool:
        """Add what was added to a log, without reading the rest; whether that could be done."""
        known = batch.known.get(task.key)
        if known is None or known.checkpoint is None or known.agent is None or self.ended:
            return False
        try:
            last = _CHECKPOINT.decode(known.checkpoint)
        except (msgspec.DecodeError, ValueError):
            return False
        if last.epoch != PARSE_EPOCH or log.size <= last.read or _seam(log, last.read) != last.seam:
            return False
        told = log.more(known.agent, last.state, last.read, LIMITS)
        if told is None or log.is_framed:
            return False
        self.keep(batch, done)
        generation = self.archive(task, log, batch) if self.settings.archive else known.generation
        if generation != known.generation:
            return False
        row = self.row(task, known.agent, before, log.size, generation)
        row = msgspec.structs.replace(row, checkpoint=self.checkpoint(log))
        self.keep(batch, done)
        try:
            with self.alone(), self.store.writing() as connection:
                number = grow(connection, write_log(connection, row, task.seen), row, told, log.text)
                if number is None:
                    raise _NotGrown
                grade_settled(connection, [number], self.now)
                done.sessions += 1
        except _NotGrown:
            return False
        except Conflict:
            pass
        return True

    def one_archived(self, task: Task, batch: _Batch, done: Done) -> None:
        """Read a log from its archived bytes: its newest generation, and of older ones what is only there."""
        known = batch.archived.get(task.key)
        if known is None:
            raise Unreadable(task.path, "it is gone, and was not archived; its sessions stay as they were read", True)
        with self.store.reading_archive() as connection:
            if known.bytes > _LARGE:
                self.keep(batch, done)
            path = Path(os.fsdecode(known.os_path))
            made: list[Projection] = []
            for generation in archiving.generations(connection, task.key):
                raw = archiving.pieces(connection, task.key, generation)
                agent, found = read_archived(raw, path, moment(known.modified_us), known.agent, known.is_framed, LIMITS)
                names = {one.session.source_id for one in made}
                text = partial(text_at, archiving.ArchivedBytes(connection, task.key, generation).piece)
                new = [session for session in found if session.source_id not in names]
                made += self.projections(task, new, text)
            row = self.row(task, agent, None, known.bytes, known.generation)
            row = msgspec.structs.replace(
                row, machine=known.machine, modified_us=known.modified_us, is_gone=True, fingerprint=task.seen or ""
            )
            self.take_in(Write(row, task.seen, made), batch, done)

    def take_in(self, write: Write, batch: _Batch, done: Done) -> None:
        batch.writes.append(write)
        if write.log.bytes > _LARGE:
            self.keep(batch, done)
            return
        for projection in write.sessions:
            projection.prepare()

    def read(self, log: Log, resumable: bool) -> list[Session]:
        found = log.sessions(LIMITS, resumable)
        return [msgspec.structs.replace(one, terminal=True) for one in found] if self.ended else found

    def projections(self, task: Task, found: Sequence[Session], whole: Callable[..., str | None]) -> list[Projection]:
        kept = []
        if task.seen is not None:
            with self.store.reading() as connection:
                kept = stored_sessions(connection, task.key)
        made = []
        for session in found:
            same = next((one for one in kept if one.source_id == plain(session.source_id)), None)
            projection = None
            if same is not None:
                kept.remove(same)
                projection = self.project(task, same.id, session, whole, same.texts)
                # Another session that took its name, and its place in the file: the old one is kept for good.
                if same.heads and projection.heads and same.heads.isdisjoint(projection.heads):
                    projection = None
            made.append(projection or self.project(task, self.next_id(), session, whole, {}))
        return made

    def project(
        self, task: Task, number: int, session: Session, whole: Callable[..., str | None], known: dict[str, int]
    ) -> Projection:
        next_text = max(known.values(), default=number * TEXT_SPACE - 1) - number * TEXT_SPACE + 1
        return Projection(number, session, whole, known, next_text, self.project_of(session), self.now, task.path)

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
            read_us=microseconds(datetime.now(UTC)),
        )

    def archive(self, task: Task, log: Log, batch: _Batch) -> int:
        """Compress the raw bytes that are not archived yet; their generation."""
        known = batch.archived.get(task.key)
        start = generation = 0
        drops = False
        if known is not None:
            generation = known.generation
            if log.is_framed or known.is_framed or not self.continues(log, known):
                generation += 1
                drops = not log.is_framed and log.size >= known.bytes
            else:
                start = known.bytes
        while not log.is_framed and log.size - start > _LARGE:
            # At once, and a part at a time: the whole, even compressed, is no matter for memory.
            made = archiving.frames(log.raw(start, start + _LARGE), start)
            row = self.archived_row(task, log, generation, start, made)
            with self.alone(), self.store.archiving() as connection:
                archiving.add(connection, [archiving.Addition(row, known, made, drops)])
            known, start, drops = row, row.bytes, False
        made = archiving.frames(log.raw(start), start)
        if known is not None and self.is_archived(known, generation, made):
            return known.generation
        row = self.archived_row(task, log, generation, start, made)
        batch.additions.append(archiving.Addition(row, known, made, drops))
        return generation

    def archived_row(
        self, task: Task, log: Log, generation: int, start: int, made: Sequence[archiving.Frame]
    ) -> archiving.Archived:
        return archiving.Archived(
            key=task.key,
            machine=self.settings.machine,
            path=task.path.encode("utf-8", "replace").decode(),
            os_path=os.fsencode(task.path),
            agent=log.parser.agent if log.parser is not None else None,
            is_framed=log.is_framed,
            generation=generation,
            bytes=start + sum(frame.size for frame in made),
            modified_us=os.stat(task.path).st_mtime_ns // 1000,
        )

    def is_archived(self, known: archiving.Archived, generation: int, made: list[archiving.Frame]) -> bool:
        """Whether the archive has all of a log already. Records of a database are framed anew at each reading."""
        if generation == known.generation:
            return not made
        with self.store.reading_archive() as connection:
            return archiving.holds(connection, known.key, known.generation, made)

    def continues(self, log: Log, known: archiving.Archived) -> bool:
        """Whether a log begins with what is archived of it, by the bytes at the seam. Damaged bytes: it does not."""
        if log.size < known.bytes:
            return False
        start = max(0, known.bytes - _CHECKED)
        with self.store.reading_archive() as connection:
            try:
                kept = b"".join(archiving.pieces(connection, known.key, known.generation, start))
            except archiving.Damaged:
                return False
        return kept[: known.bytes - start] == log.piece(start, known.bytes - start)

    def keep(self, batch: _Batch, done: Done) -> None:
        """Keep what was read so far: first the raw bytes, for they are what all else can be made from again."""
        if batch.additions:
            with self.alone(), self.store.archiving() as connection:
                archiving.add(connection, batch.additions)
            batch.additions.clear()
        self.write(batch.writes, done)
        batch.writes.clear()

    def write(self, writes: Sequence[Write], done: Done) -> None:
        if not writes:
            return
        try:
            with self.alone(), self.store.writing() as connection:
                done.sessions += len(write_logs(connection, writes, self.now))
        except Conflict:
            # One of them was written by somebody else meanwhile, and stands; the others go in one by one.
            for write in writes if len(writes) > 1 else ():
                self.write([write], done)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for the other readers of this run in turn, rather than for the database's lock by chance."""
        if self.lock is None:
            yield
        else:
            with self.lock:
                yield


class _NotGrown(Exception):
    """A log has to be read whole: what was written of it is taken back."""


_reader: _Reader | None = None


def _start_reader(url: str, settings: Settings, now: datetime, ended: bool, debug: bool, lock: Any) -> None:
    global _reader
    die_with_parent()
    # What is read makes few circles, and looking for them took an eighth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
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


# --- settling, rebuilding, watching -------------------------------------------------------------------------------


def settle(store: Store, now: datetime, stop: Callable[[], bool] = lambda: False) -> int:
    """Grade the sessions that have settled since they were read, and those that an older version graded; how many.

    Each in a transaction of its own, so that it can be stopped between any two.
    """
    graded = 0
    while ids := _ids(store, outdated(_SETTLED_AT_A_TIME)):
        with store.writing() as connection:
            connection.execute(update(sessions).where(sessions.c.id.in_(ids)).values(is_stale=True))
    after: tuple[int, int] | None = None
    while True:
        with store.reading() as connection:
            found = [tuple(row) for row in connection.execute(due(now, after, _SETTLED_AT_A_TIME))]
        if not found:
            break
        after = found[-1]
        graded += _grade(store, [number for _, number in found], now, stop)
        if stop():
            return graded
    last = 0
    while ids := _ids(store, due_terminal(last, _SETTLED_AT_A_TIME)):
        last = ids[-1]
        graded += _grade(store, ids, now, stop)
        if stop():
            break
    return graded


def _ids(store: Store, query: Any) -> list[int]:
    with store.reading() as connection:
        return list(connection.execute(query).scalars())


def _grade(store: Store, ids: Sequence[int], now: datetime, stop: Callable[[], bool]) -> int:
    graded = 0
    for number in ids:
        if stop():
            break
        with store.writing() as connection:
            graded += grade_settled(connection, [number], now)
    return graded


def begin_rebuild(store: Store) -> None:
    """Make every log due for reading again."""
    with store.writing() as connection:
        connection.execute(update(logs).values(epoch=0))
        connection.execute(update(sessions).values(digest=""))


def rebuild(
    store: Store,
    settings: Settings,
    now: datetime,
    report: Callable[[Progress], None] | None = None,
    debug: bool = False,
) -> Pass:
    """Read again, the last written first, every log that another epoch's parsers read, or that only the archive has.

    A log that is there is read from the disk, any other from its archived bytes. Stopped and run again, it goes on
    where it was.
    """
    with store.reading() as connection:
        query = select(logs.c.key, logs.c.machine, logs.c.path, logs.c.fingerprint, logs.c.epoch, logs.c.bytes)
        query = query.add_columns(logs.c.modified_us)
        known = {row.key: row for row in connection.execute(query)}
    with store.reading_archive() as connection:
        kept = {one.key: one for one in archiving.all_archived(connection)}
    found: list[tuple[int, Task]] = []
    for key in dict.fromkeys((*kept, *known)):
        row, archived = known.get(key), kept.get(key)
        if row is not None and row.epoch == PARSE_EPOCH:
            continue
        machine = row.machine if row is not None else archived.machine  # type: ignore[union-attr]
        path = os.fsdecode(archived.os_path) if archived is not None else row.path  # type: ignore[union-attr]
        is_here = machine == settings.machine and os.path.lexists(path)
        size = archived.bytes if archived is not None else row.bytes  # type: ignore[union-attr]
        newest = (archived.modified_us if archived is not None else row.modified_us) or 0  # type: ignore[union-attr]
        task = Task(path, key, None if row is None else row.fingerprint, size, from_archive=not is_here)
        found.append((-newest, task))
    tasks = [task for _, task in sorted(found, key=lambda one: one[0])]
    result = Pass(found=len(tasks))
    _go_through(store, settings, tasks, now, False, report, debug, result)
    return result


def watch(
    store: Store,
    settings: Settings,
    home: Path,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    report: Callable[[Pass], None],
    stop: Event,
    named: Sequence[str] = (),
) -> None:
    """Keep the store up to date until `stop` is set: what changes is read, and what has settled is graded.

    report: gets every pass that read or graded something.
    """
    while not stop.is_set():
        # All folders: a new agent's may have come.
        report(_pass(store, settings, home, environ, named, clock(), stop))
        roots = _watched(settings, home, environ, named)
        if not roots:
            stop.wait(settings.settle_interval_s)
            continue
        until = monotonic() + _RESCAN_S
        changes = watchfiles.watch(
            *roots,
            watch_filter=None,
            step=int(settings.watch_interval_s * 500),
            debounce=int(settings.watch_interval_s * 1000),
            rust_timeout=int(settings.settle_interval_s * 1000),
            yield_on_timeout=True,
            stop_event=stop,
            raise_interrupt=True,
        )
        for changed in changes:
            if changed:
                paths = _changed_logs(store, settings, {Path(path) for _, path in changed}, home, environ, named)
                result = sync(store, settings, paths, clock()) if paths else Pass()
                result.graded += settle(store, clock(), stop.is_set)
            else:
                # It was quiet: time to see what came before the watch began, and what no system tells of.
                result = _pass(store, settings, home, environ, named, clock(), stop)
            if result.read or result.graded:
                report(result)
            if monotonic() > until or stop.is_set():
                break


def _pass(
    store: Store,
    settings: Settings,
    home: Path,
    environ: Mapping[str, str],
    named: Sequence[str],
    now: datetime,
    stop: Event,
) -> Pass:
    skipped: list[Unreadable] = []
    result = sync(store, settings, find(settings, home, environ, named, skipped), now)
    result.skipped = [(error.path, error.reason) for error in skipped]
    if _is_due(store):
        again = rebuild(store, settings, now)
        result.read, result.sessions = result.read + again.read, result.sessions + again.sessions
    result.gone = mark_gone(store, settings)
    result.graded = settle(store, now, stop.is_set)
    return result


def _is_due(store: Store) -> bool:
    """Whether older parsers read some log that is there no more: what is there, a pass reads."""
    with store.reading() as connection:
        return connection.execute(select(logs.c.id).where(logs.c.epoch != PARSE_EPOCH).limit(1)).first() is not None


def _watched(settings: Settings, home: Path, environ: Mapping[str, str], named: Sequence[str]) -> list[Path]:
    """The folders to watch: none of them below another one."""
    wanted = [Path(name) for name in named]
    if not named:
        wanted += [folder for _, _, folder in agent_homes(home, environ)]
        wanted += [Path(root).expanduser() for root in settings.roots]
    there = sorted({path.resolve() for path in wanted if path.is_dir()})
    return [path for path in there if not any(path.is_relative_to(other) for other in there if other != path)]


def _changed_logs(
    store: Store,
    settings: Settings,
    changed: set[Path],
    home: Path,
    environ: Mapping[str, str],
    named: Sequence[str],
) -> list[Path]:
    """The logs that changed files belong to: themselves, or the main file of several, or a database beside its -wal."""
    files = {Path(str(path).removesuffix("-wal")) for path in changed if not path.name.endswith("-shm")}
    near = {str(folder): path for path in files for folder in list(path.parents)[:4]}
    found: set[Path] = set()
    with store.reading() as connection:
        row = logs.c
        known = connection.execute(select(row.path, row.agent).where(row.machine == settings.machine)).all()
    for name, agent in known:
        path = Path(name)
        if path in files or (str(path.parent) in near and any(is_part_of(path, agent, part) for part in files)):
            found.add(path)
    roots = [Path(root).expanduser() for root in (*settings.roots, *named)]
    for path in files - found:
        is_below = any(path.is_relative_to(root) for root in roots)
        if path.is_file() and (is_below or is_agents_log(path, home, environ)):
            found.add(path)
    return [path for path in sorted(found) if not any(fnmatch(str(path), pattern) for pattern in settings.exclude)]
