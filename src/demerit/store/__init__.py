"""The history: every session that was read, its grade once it settled, and the raw bytes of its log.

One database, SQLite by default or PostgreSQL by URL, with one schema and one code. `Store.open` makes it, brings an
older one up to date, and refuses what it must not touch with a `StoreError` of one plain sentence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from demerit.store.engines import StoreError, archive_url, in_words, make_engine, shown
from demerit.store.migrating import bring_up_to_date

__all__ = ["Store", "StoreError"]


class Store:
    """An open database. Connections are made as they are needed, in each process anew."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.engine: Engine = make_engine(url)
        self.archive_engine: Engine = make_engine(archive_url(url)) if self.is_sqlite else self.engine

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @classmethod
    def open(cls, url: str | URL) -> Store:
        """The database at this SQLAlchemy URL, made or brought up to date where needed.

        Raises StoreError: it cannot be reached, is no database, is damaged, or a newer demerit wrote it.
        """
        store = cls(make_url(url))
        try:
            if store.is_sqlite:
                _own_files(store.url, archive_url(store.url))
            with store.explaining():
                bring_up_to_date(store.engine, "main")
            with store.explaining(of_archive=True):
                bring_up_to_date(store.archive_engine, "archive")
        except BaseException:
            store.close()
            raise
        return store

    @contextmanager
    def explaining(self, of_archive: bool = False) -> Iterator[None]:
        """Turn what the database, or the archive, complains of into a StoreError in words."""
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            where = shown(self.archive_engine.url if of_archive else self.url)
            raise in_words(error, where, of_archive and self.is_sqlite) from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database until it is closed, whoever writes meanwhile."""
        with self.explaining(), self.engine.connect() as connection:
            connection = (
                connection.execution_options(isolation_level="REPEATABLE READ") if not self.is_sqlite else connection
            )
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a transaction of its own that writes: kept whole at the end, or not at all."""
        with self.explaining(), self.engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    def look_over(self) -> None:
        """Let an SQLite database count its rows, by which it chooses how to answer. PostgreSQL does so by itself."""
        if self.is_sqlite:
            with self.writing() as connection:
                connection.exec_driver_sql("pragma analysis_limit = 2000")
                connection.exec_driver_sql("analyze")

    @contextmanager
    def reading_archive(self) -> Iterator[Connection]:
        """A connection to read archived bytes by."""
        with self.explaining(of_archive=True), self.archive_engine.connect() as connection:
            yield connection

    @contextmanager
    def archiving(self) -> Iterator[Connection]:
        """As `writing`, for the archive."""
        with self.explaining(of_archive=True), self.archive_engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        self.engine.dispose()
        if self.archive_engine is not self.engine:
            self.archive_engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _own_files(*urls: URL) -> None:
    """Make the files, and the folder, readable by their owner alone: transcripts hold secrets."""
    for url in urls:
        if not url.database or url.database == ":memory:":
            continue
        path = Path(url.database)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise in_words(error, str(path)) from error
