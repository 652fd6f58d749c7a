"""What people decide about kept sessions: a verdict by hand, and which of them are not to be kept any longer."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Connection, Engine, Table, and_, case, delete, func, insert, or_, select, text, update

from demerit.store import Store, StoreError, archive
from demerit.store.filters import microseconds, moment
from demerit.store.reads import NotFound
from demerit.store.schema import (
    archive_metadata,
    archived_frames,
    archived_logs,
    logs,
    metadata,
    projects,
    sessions,
    texts,
    verdicts,
)
from demerit.store.texts import plain
from demerit.store.writer import forget_sessions

_SESSIONS_AT_A_TIME = 50
_LOGS_AT_A_TIME = 20
_KEYS_AT_A_TIME = 500
_MERGE_PAGES = 2000
# About what a row costs with its indexes; on SQLite only the proportions count, the file's size gives the rest.
_SESSION_BYTES = 2000
_ROW_BYTES = 400
_TEXT_BYTES = 100


# --- verdicts ---------------------------------------------------------------------------------------------------


def set_verdict(
    connection: Connection, session_id: int, verdict: Literal["good", "bad"] | None, note: str, now: datetime
) -> None:
    """Keep what a person says of a session, in place of what was said before. None: nothing is said any more.

    It goes by the agent's own name of the session, so that it outlives a rebuild. Raises NotFound.
    """
    named = select(sessions.c.agent, sessions.c.source_id).where(sessions.c.id == session_id)
    row = connection.execute(named).first()
    if row is None:
        raise NotFound(f"there is no session {session_id}; demerit sessions lists them")
    of_it = and_(verdicts.c.agent == row.agent, verdicts.c.source_id == row.source_id)
    connection.execute(delete(verdicts).where(of_it))
    if verdict is not None:
        said = {"verdict": verdict, "note": plain(note), "at_us": microseconds(now)}
        connection.execute(insert(verdicts).values(agent=row.agent, source_id=row.source_id, **said))


# --- what to prune ----------------------------------------------------------------------------------------------


class PrunePlan(msgspec.Struct, frozen=True):
    """What `prune` would delete."""

    ids: tuple[int, ...]
    """Oldest first."""
    sessions: int
    """Copies of one in several logs count each."""
    logs: int
    """Logs of which no session is left: their archived bytes go as well."""
    shared_logs: int
    """Logs that hold other sessions too: their archived bytes stay, and in them what these sessions said."""
    bytes: int
    """Estimate of what they take in the database and the archive."""
    kept_bytes: int
    """Estimate of what all sessions take now."""
    oldest: datetime | None
    """Last signs of life. None: there is no session, or none that is known to have had one."""
    newest: datetime | None


class _Kept(NamedTuple):
    id: int
    log_id: int
    name: tuple[str, str]
    copy_of: int | None
    last_us: int | None
    bytes: float
    is_meant: bool


def plan_prune(
    store: Store, *, older_than: datetime | None = None, project: str | None = None, max_bytes: int | None = None
) -> PrunePlan:
    """The sessions that meet all that is asked, with their copies in other logs. Changes nothing.

    older_than: aware; the last sign of life came before. A session without any is not known to be older.
    project: a name or a key. max_bytes: of those the oldest, as many as it takes until all that is kept fits.
    Raises ValueError when nothing is asked: that would be everything.
    """
    if older_than is None and project is None and max_bytes is None:
        raise ValueError("say which sessions are not to be kept: older than a time, of a project, or beyond a size")
    with store.reading() as connection:
        fixed, kept = _kept(connection, older_than, project)
        keys = {row[0]: row[1] for row in connection.execute(select(logs.c.id, logs.c.key))}
    with store.reading_archive() as connection:
        fixed_too, archived = _archived_bytes(connection)
    of_log = {number: archived.get(key, 0) for number, key in keys.items()}
    total = fixed + fixed_too + sum(one.bytes for one in kept.values()) + sum(of_log.values())
    meant = sorted(
        (one for one in kept.values() if one.is_meant),
        key=lambda one: (one.last_us is None, one.last_us or 0, one.id),
    )
    left_in: defaultdict[int, int] = defaultdict(int)
    for one in kept.values():
        left_in[one.log_id] += 1
    like = _alike(kept)
    chosen: dict[int, _Kept] = {}
    freed = 0.0
    for first in meant:
        if max_bytes is not None and total - freed <= max_bytes:
            break
        waiting = [first]
        while waiting:
            one = waiting.pop()
            if one.id in chosen:
                continue
            chosen[one.id] = one
            left_in[one.log_id] -= 1
            freed += one.bytes + (0 if left_in[one.log_id] else of_log[one.log_id])
            waiting += (kept[number] for number in like(one))
    ages = [one.last_us for one in chosen.values() if one.last_us is not None]
    touched = {one.log_id for one in chosen.values()}
    emptied = sum(not left_in[number] for number in touched)
    return PrunePlan(
        ids=tuple(chosen),
        sessions=len(chosen),
        logs=emptied,
        shared_logs=len(touched) - emptied,
        bytes=round(freed),
        kept_bytes=round(total),
        oldest=moment(min(ages, default=None)),
        newest=moment(max(ages, default=None)),
    )


def _alike(kept: Mapping[int, _Kept]) -> Any:
    """Which sessions go with one: its copies, and what the agent calls by the same name and did not go on longer."""
    named = defaultdict(list)
    copies = defaultdict(list)
    for one in kept.values():
        named[one.name].append(one)
        if one.copy_of is not None:
            copies[one.copy_of].append(one.id)

    def like(one: _Kept) -> Iterator[int]:
        yield from copies[one.id]
        for other in named[one.name]:
            # A later read would take it for the pruned one, and not keep it up to date.
            if other.last_us is None or (one.last_us is not None and other.last_us <= one.last_us):
                yield other.id

    return like


def _kept(connection: Connection, older_than: datetime | None, project: str | None) -> tuple[float, dict[int, _Kept]]:
    """What the database takes without any session, and every session with its part of the rest."""
    is_meant = []
    if older_than is not None:
        is_meant.append(func.coalesce(sessions.c.last_us < microseconds(older_than), False))
    if project is not None:
        of_it = select(projects.c.id).where(or_(projects.c.name == project, projects.c.key == project))
        is_meant.append(func.coalesce(sessions.c.project_id.in_(of_it), False))
    row = sessions.c
    size = _SESSION_BYTES + _ROW_BYTES * (row.messages + row.replayed_messages + row.requests)
    meant = case((and_(True, *is_meant), 1), else_=0)
    found = connection.execute(
        select(row.id, row.log_id, row.agent, row.source_id, row.copy_of, row.last_us, size.label("size"), meant)
    ).all()
    of_texts = select(texts.c.session_id, func.sum(func.length(texts.c.data)) + _TEXT_BYTES * func.count())
    sizes = {row[0]: row[1] for row in connection.execute(of_texts.group_by(texts.c.session_id))}
    sizes = {number: sizes.get(number, 0) + size for number, *_, size, _ in found}
    fixed, scale = _scaled(connection, sum(sizes.values()))
    return fixed, {
        number: _Kept(number, log_id, (agent, name), copy_of, last_us, scale * sizes[number], bool(is_meant))
        for number, log_id, agent, name, copy_of, last_us, _, is_meant in found
    }


def _archived_bytes(connection: Connection) -> tuple[float, dict[str, float]]:
    """What the archive takes without any log, and every log in it."""
    frame = archived_frames.c
    of_log = select(frame.key, func.sum(func.length(frame.data)) + _SESSION_BYTES).group_by(frame.key)
    sizes = {row[0]: row[1] for row in connection.execute(of_log)}
    fixed, scale = _scaled(connection, sum(sizes.values()))
    return fixed, {key: scale * size for key, size in sizes.items()}


def _scaled(connection: Connection, size: float) -> tuple[float, float]:
    """What an SQLite file takes when it is empty, and by how much more than `size` the rest of it is.

    On PostgreSQL 0 and 1: its files do not shrink when rows go, so that their size says nothing of what is kept.
    """
    if connection.dialect.name != "sqlite":
        return 0.0, 1.0
    page = connection.exec_driver_sql("pragma page_size").scalar_one()
    trees = connection.exec_driver_sql("select count(*) from sqlite_master where rootpage > 0").scalar_one() + 1
    used = _used_pages(connection)
    return float(trees * page), max(0, used - trees) * page / size if size else 1.0


def _used_pages(connection: Connection) -> int:
    pages: int = connection.exec_driver_sql("pragma page_count").scalar_one()
    free: int = connection.exec_driver_sql("pragma freelist_count").scalar_one()
    return pages - free


# --- pruning ----------------------------------------------------------------------------------------------------


class Pruned(msgspec.Struct, frozen=True):
    """What was deleted."""

    sessions: int
    """Fewer than planned when some went on meanwhile, and stay."""
    logs: int
    """Logs whose archived bytes are gone."""
    freed_bytes: int | None
    """By which the files are smaller. None on PostgreSQL, which keeps the space for what comes."""
    trouble: str | None
    """Why the space could not be given back, in one plain sentence; what is deleted stays deleted."""


def prune(store: Store, plan: PrunePlan) -> Pruned:
    """Delete the sessions of a plan for good, then give their space back. Raises StoreError.

    Each transaction is a small one: killed at any moment and run again with a new plan, the rest goes. Where an agent
    still has the log, a later read does not bring them back, unless they go on. What other sessions repeat of them
    counts there from now on. On SQLite both files are made anew, so that no trace is left in them: that takes as much
    free disk as they need, twice, and without it `trouble` says so; the free pages are overwritten all the same, and
    used again. On PostgreSQL the space is used again, and VACUUM FULL, by hand, gives it to the system.
    """
    before = _file_bytes(store)
    count = 0
    for at in range(0, len(plan.ids), _SESSIONS_AT_A_TIME):
        with store.writing() as connection:
            count += _forget(connection, plan.ids[at : at + _SESSIONS_AT_A_TIME], plan.newest)
    with store.writing() as connection:
        used = select(sessions.c.project_id).where(sessions.c.project_id == projects.c.id)
        connection.execute(delete(projects).where(~used.exists()))
    gone = _forget_archived(store)
    trouble = _reclaim(store)
    after = _file_bytes(store)
    return Pruned(count, gone, None if before is None or after is None else max(0, before - after), trouble)


def _forget(connection: Connection, ids: Sequence[int], newest: datetime | None) -> int:
    """Delete those of the sessions that have not gone on since the plan was made; how many."""
    row = sessions.c
    latest = -1 if newest is None else microseconds(newest)
    found = connection.execute(
        select(row.id, row.agent, row.source_id, row.log_id, func.coalesce(row.ended_us, row.last_us).label("ended"))
        .where(row.id.in_(ids), or_(row.last_us.is_(None), row.last_us <= latest))
        .order_by(row.id)
    ).all()
    if not found:
        return 0
    connection.execute(text(_KEEP_OUT), [{"agent": o.agent, "source_id": o.source_id, "last": o.ended} for o in found])
    # Where reading would go on is of no use: what went before is not there.
    connection.execute(update(logs).where(logs.c.id.in_({one.log_id for one in found})).values(checkpoint=None))
    forget_sessions(connection, [one.id for one in found])
    same = select(row.id).where(row.agent == verdicts.c.agent, row.source_id == verdicts.c.source_id)
    named = verdicts.c.source_id.in_({one.source_id for one in found})
    connection.execute(delete(verdicts).where(named, ~same.exists()))
    return len(found)


_KEEP_OUT = """
    insert into pruned (agent, source_id, last_us) values (:agent, :source_id, :last)
    on conflict (agent, source_id) do update set last_us = case
        when pruned.last_us > excluded.last_us then pruned.last_us
        else coalesce(excluded.last_us, pruned.last_us) end
"""


def _forget_archived(store: Store) -> int:
    """Delete the archived bytes of logs that were read well and have no session: all of them were pruned."""
    with store.reading() as connection:
        used = select(sessions.c.id).where(sessions.c.log_id == logs.c.id)
        empty = select(logs.c.key).where(logs.c.reason.is_(None), ~used.exists()).order_by(logs.c.id)
        keys = list(connection.execute(empty).scalars())
    with store.reading_archive() as connection:
        there: list[str] = []
        for at in range(0, len(keys), _KEYS_AT_A_TIME):
            some = archived_logs.c.key.in_(keys[at : at + _KEYS_AT_A_TIME])
            there += connection.execute(select(archived_logs.c.key).where(some)).scalars()
    for at in range(0, len(there), _LOGS_AT_A_TIME):
        with store.archiving() as connection:
            for key in there[at : at + _LOGS_AT_A_TIME]:
                archive.forget(connection, key)
    return len(there)


# --- space ------------------------------------------------------------------------------------------------------


def _reclaim(store: Store) -> str | None:
    """Give back the space of what was deleted, also of what an earlier run could not; why not, if it could not."""
    if not store.is_sqlite:
        with store.explaining(), store.engine.connect() as connection:
            tables: list[Table] = [*metadata.sorted_tables, *archive_metadata.sorted_tables]
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql(f"vacuum {', '.join([*(table.name for table in tables), 'search'])}")
        return None
    _merge_search(store)
    for engine in (store.engine, store.archive_engine):
        try:
            trouble = _made_anew(store, engine)
        except StoreError as error:
            trouble = str(error)
        if trouble is not None:
            return f"what was pruned is deleted, but its space is not given back yet: {trouble}"
    return None


def _merge_search(store: Store) -> None:
    """Make one of the parts of the search index: until then a deleted text's words stand in it, crossed out."""
    pages = -_MERGE_PAGES  # less than 0 begins the merge of all parts, more goes on with it
    changes = 2
    while changes >= 2:  # so SQLite says that there is nothing left to do
        with store.writing() as connection:
            before = connection.exec_driver_sql("select total_changes()").scalar_one()
            connection.exec_driver_sql("insert into search (search, rank) values ('merge', ?)", (pages,))
            changes = connection.exec_driver_sql("select total_changes()").scalar_one() - before
        pages = _MERGE_PAGES


def _made_anew(store: Store, engine: Engine) -> str | None:
    """Write an SQLite file anew without its free space, and empty its WAL; why not, if that cannot be."""
    path = engine.url.database
    with store.explaining(), engine.connect() as connection:
        needed = 2 * _used_pages(connection) * connection.exec_driver_sql("pragma page_size").scalar_one()
        has_free = bool(connection.exec_driver_sql("pragma freelist_count").scalar_one())
        connection.exec_driver_sql("commit")  # of the transaction that begins by itself: none of this may be in one
        trouble = None
        if has_free and path and path != ":memory:" and shutil.disk_usage(Path(path).parent).free < needed:
            trouble = f"making {path} anew needs {needed >> 20:,} MB of free disk; make room and prune again"
        elif has_free:
            connection.exec_driver_sql("pragma temp_store = file")  # else the new file would be made in memory
            try:
                connection.exec_driver_sql("vacuum")
            finally:
                connection.exec_driver_sql("pragma temp_store = memory")
        is_busy = connection.exec_driver_sql("pragma wal_checkpoint(truncate)").first()
        if is_busy and is_busy[0]:
            trouble = trouble or f"another program is reading {path}; prune again when it has finished"
    return trouble


def _file_bytes(store: Store) -> int | None:
    """Size of the files of an SQLite store; None for any other."""
    if not store.is_sqlite:
        return None
    paths = [engine.url.database for engine in (store.engine, store.archive_engine)]
    files = [f"{path}{end}" for path in paths if path for end in ("", "-wal")]
    return sum(os.path.getsize(file) for file in files if os.path.exists(file))
