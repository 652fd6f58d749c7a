"""Where SQLite and PostgreSQL differ: how to connect, what their complaints mean, how to insert, and search."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, Table, create_engine, event, insert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

LOCK_WAIT_S = 60
"""How long a writer waits for another one before it gives up."""


class StoreError(Exception):
    """The database cannot be used. The message is one plain sentence that says what is wrong and what to do."""


class Busy(StoreError):
    """Somebody else kept the database locked all the time; nothing was lost, and trying again later may do."""


def make_engine(url: URL) -> Engine:
    """An engine for one of the two kinds of database. Raises StoreError for any other."""
    kind = url.get_backend_name()
    if kind == "sqlite":
        engine = create_engine(url, connect_args={"timeout": LOCK_WAIT_S, "check_same_thread": False})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if kind == "postgresql":
        try:
            engine = create_engine(
                url, paramstyle="format", pool_pre_ping=True, connect_args={"options": "-c timezone=UTC"}
            )
        except (ImportError, NoSuchModuleError) as error:
            raise StoreError(f"the driver for {shown(url)} is missing: {error}") from error
        event.listen(engine, "begin", _begin_postgresql)
        return engine
    raise StoreError(f"{shown(url)}: demerit keeps its data in SQLite or PostgreSQL, not in {kind}")


def _set_up_sqlite(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    # The driver would begin transactions by itself, too late for a snapshot and never for DDL.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode = wal",
        "synchronous = normal",  # a kill loses nothing; a power cut at most the last transactions, never the rest
        "foreign_keys = on",
        "secure_delete = on",  # what is pruned is gone
        "temp_store = memory",
        "cache_size = -65536",
        "wal_autocheckpoint = 8192",
        "mmap_size = 268435456",
    ):
        cursor.execute(f"pragma {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins by reading and writes later can fail at once when somebody else writes in between.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _begin_postgresql(connection: Connection) -> None:
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql(f"set local lock_timeout = '{LOCK_WAIT_S}s'")
        # One writer at a time: what one adds decides what another one's rows count.
        connection.exec_driver_sql("select pg_advisory_xact_lock(2082844801)")


def archive_url(url: URL) -> URL:
    """Where the raw bytes are: beside an SQLite file, so that either can be made anew without the other."""
    if not url.database or url.database == ":memory:":
        return url
    path = Path(url.database)
    return url.set(database=str(path.with_name(f"{path.stem}-archive{path.suffix}")))


def shown(url: URL) -> str:
    """The address as it may be shown: a file's path, or the URL without its password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


def in_words(error: Exception, where: str, is_archive: bool = False) -> StoreError:
    """What a database's or system's complaint means, and what to do. is_archive: the file holds raw bytes alone."""
    if isinstance(error, StoreError):
        return error
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    code = getattr(cause, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    state = getattr(cause, "sqlstate", None)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or state in ("55P03", "40001", "40P01"):
        return Busy(
            f"{where} was locked by another program for {LOCK_WAIT_S} seconds; nothing is lost: run this again later"
        )
    if primary == sqlite3.SQLITE_FULL or state in ("53100", "53200") or getattr(cause, "errno", None) == errno.ENOSPC:
        return StoreError(
            f"the disk that holds {where} is full; nothing of what was kept is lost: make room, run again"
        )
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        what = "is damaged" if primary == sqlite3.SQLITE_CORRUPT else "is no SQLite database"
        first = "" if primary == sqlite3.SQLITE_CORRUPT else "check database_url; if it was demerit's, "
        source = "fills a new one from the logs that are there"
        if not is_archive:
            source = "makes it anew from the archive and the logs"
        return StoreError(f"{where} {what} ({text}); {first}move it away, and demerit rebuild {source}")
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN) or (
        isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    ):
        return StoreError(f"{where} cannot be opened for writing ({text}); check its permissions, or set database_url")
    if isinstance(cause, OSError):
        return StoreError(f"{where}: {cause.strerror or cause}")
    if isinstance(error, OperationalError):
        return StoreError(f"{where} cannot be used: {text}; check database_url and that the server runs")
    return StoreError(f"{where}: {text}")


@cache
def _insert_sql(table: Table, dialect: Dialect) -> str:
    given = [column.name for column in table.c if column.computed is None]
    return str(insert(table).compile(dialect=dialect, column_keys=given))


def insert_rows(connection: Connection, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows, each a value for every column of the table in its order, computed ones aside: for many at once."""
    listed = rows if isinstance(rows, list) else list(rows)
    if listed:
        connection.exec_driver_sql(_insert_sql(table, connection.dialect), listed)
