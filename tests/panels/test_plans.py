"""No panel reads messages, calls, requests or texts one by one, whatever it is asked: as SQLite plans it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Connection, event, select
from tests.panels.conftest import add_some_of_every_kind
from tests.panels.test_panels import FILTERS, VIEWS

from demerit.panels import PANELS
from demerit.store import Store
from demerit.store.filters import chosen_sessions
from demerit.store.schema import messages, sessions

_WHOLE = re.compile(r"SCAN (messages|tool_calls|file_changes|usage_events|events|texts)\b")


@contextmanager
def statements(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """What is asked of the database meanwhile."""
    seen: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        seen.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(connection, "before_cursor_execute", note)


def plans(connection: Connection, seen: list[tuple[str, Any]]) -> list[str]:
    """The steps of all of them."""
    return [
        step[-1]
        for statement, parameters in seen
        for step in connection.exec_driver_sql(f"explain query plan {statement}", parameters)
    ]


@pytest.mark.parametrize(("panel", "by"), VIEWS)
def test_no_panel_scans_what_grows_with_every_message(sqlite_store: Store, panel: str, by: str) -> None:
    with sqlite_store.writing() as connection:
        add_some_of_every_kind(connection)
    with sqlite_store.reading() as connection:
        for name, chosen in FILTERS.items():
            with statements(connection) as seen:
                table = PANELS[panel].run(connection, chosen, ZoneInfo("Europe/Berlin"), by)
                for row in table.rows[:1]:
                    connection.execute(chosen_sessions(row.sessions or table.sessions, sessions.c.id)).all()
            assert seen
            assert [step for step in plans(connection, seen) if _WHOLE.match(step)] == [], name


def test_a_scan_would_be_seen(sqlite_store: Store) -> None:
    with sqlite_store.reading() as connection:
        with statements(connection) as seen:
            connection.execute(select(messages.c.model)).all()
        assert any(_WHOLE.match(step) for step in plans(connection, seen))
