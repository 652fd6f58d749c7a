"""A store on both engines, with sessions of every kind in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection
from tests.store.conftest import database_url, postgres, postgres_url
from tests.store.rows import NOON, Call, Request, add_session

from demerit.store import Store

__all__ = ["database_url", "postgres", "postgres_url"]


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty one."""
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def sqlite_store(tmp_path: object) -> Iterator[Store]:
    """An empty one, where the engine plays no part."""
    with Store.open(f"sqlite:///{tmp_path}/demerit.db") as opened:
        yield opened


def add_some_of_every_kind(connection: Connection) -> None:
    """Sessions that differ in everything that a panel or a filter looks at."""
    clocks_change = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    first = add_session(
        connection,
        prompts=4,
        answers=4,
        short=1,
        duplicate=1,
        unstructured_start=True,
        score=92,
        peak=7_999,
        calls=[Call("Read"), Call("Read", "failed"), Call("Bash", "invalid", "m2"), Call("Bash", "declined")],
        files={"a.py": 3, "b.py": 1},
        requests=[
            Request(input=100, cached=300, written=100, output=50, cost=0.5),
            Request(NOON + timedelta(days=1), "m2", 10, output=5),
        ],
        rules=["prompts_repeat"],
    )
    for number in range(3):
        add_session(
            connection,
            relation="subagent",
            parent=first,
            prompts=0,
            agent="codex",
            started=NOON + timedelta(minutes=number),
            score=(80, None, 30)[number],
            outcome=("completed", "unknown", "errored")[number],
            confidence=("high", "low", "high")[number],
            requests=[Request(cost=0.25)],
        )
    second = add_session(
        connection,
        started=clocks_change,
        minutes=150,
        model="m2",
        version="2.0",
        project="shop",
        project_key="/elsewhere/shop",
        score=55,
        outcome="abandoned",
        confidence="medium",
        ending="interrupted",
        no_code=1,
        peak=64_000,
        resets=2,
        calls=[Call("Bash", "cancelled", ""), Call("Bash", "benign", "m2")],
        files={"a.py": 2},
        requests=[Request(clocks_change, "m2", 7), Request(clocks_change + timedelta(hours=2), "m2", 7, cost=1.0)],
        rules=["prompts_repeat", "context_overflows"],
        truncated=1,
        empty=0,
    )
    add_session(connection, relation="subagent", parent=second, prompts=0, score=100, model="m2")
    add_session(connection, relation="fork", parent=second, score=100, peak=2_000_000, resets=1)
    # A log without times, and without a project, model or statuses.
    add_session(
        connection,
        started=None,
        last=NOON + timedelta(days=2),
        project=None,
        model=None,
        version=None,
        calls=[Call("Read", "unknown", "")],
        is_judged=False,
        files={"a.py": 2},
        requests=[Request(None, "", 40), Request(None, "m1", 2, cost=0.1)],
        empty=1,
        reasoning_only=1,
    )
    # Not measured: it still runs, it is of older rules, or it was never graded.
    add_session(connection, is_stale=True, rules=["context_overflows"], peak=10_000, agent="codex")
    add_session(connection, signals_version=1, score=10, rules=["prompts_repeat"])
    add_session(connection, signals_version=None, started=NOON + timedelta(days=9))
    # None of these counts anywhere.
    facts = {"calls": [Call("Read", "failed")], "files": {"a.py": 9}, "requests": [Request(cost=9.0)], "peak": 9_999}
    add_session(connection, copy_of=first, relation="subagent", parent=second, **facts)  # type: ignore[arg-type]
    add_session(connection, epoch=0, relation="subagent", parent=second, **facts)  # type: ignore[arg-type]
