"""The databases of the store's tests: each test that asks for `database_url` runs on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.servers import Unavailable, fresh_database, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a real PostgreSQL that lives as long as this run, or under xdist this worker, whose start takes 0.5 s."""
    try:
        with postgres_server() as server:
            yield server
    except Unavailable as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """URL of an empty PostgreSQL database, this test's alone."""
    with fresh_database(postgres) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database, this test's alone: on SQLite a file that is not there yet, then on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'demerit.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
