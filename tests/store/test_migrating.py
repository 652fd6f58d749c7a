"""What a newer schema makes of the rows of an older one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, select, text

from demerit.store import Store, migrating
from demerit.store.schema import REPETITIONS, session_defects, verdicts

# Of the first schema; they stay as they are written here, whatever the schema becomes.
_ROWS = (
    "insert into logs (id, key, machine, path, fingerprint, bytes, epoch, known_agent, read_us)"
    " values (1, 'k', 'here', '/gone/a.jsonl', '1:2:3', 10, 1, true, 0)",
    "insert into sessions (id, log_id, agent, source_id, place, models, is_terminal, messages, user_messages,"
    " replayed_messages, requests, output_is_partial, unpriced_requests, untold, losses, digest, generation, epoch,"
    " is_stale) values (1, 1, 'claude', 's1', 0, '[]', true, 9, 1, 0, 0, false, 0, '[]', '{}', 'd', 0, 1, false)",
    "insert into session_defects (session_id, model, responses, truncated, empty, reasoning_only, calls, invalid)"
    " values (1, 'm', 8, 1, 2, 1, 7, 3)",
    "insert into verdicts (agent, source_id, verdict, note, at_us) values ('claude', 's1', 'good', 'kept', 0)",
)


def make_first(url: str) -> None:
    config = Config()
    folder = Path(migrating.__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder))
    config.set_main_option("version_locations", str(folder / "main"))
    config.set_main_option("path_separator", "os")
    config.attributes["version_table"] = migrating.version_table("main")
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for row in _ROWS:
            connection.execute(text(row))
    engine.dispose()


def test_rows_of_the_first_schema_stay_and_what_was_not_looked_for_is_not_measured(database_url: str) -> None:
    make_first(database_url)
    with Store.open(database_url) as store, store.reading() as connection:
        [row] = connection.execute(select(session_defects)).mappings()
        assert connection.execute(select(verdicts.c.note)).scalars().all() == ["kept"]
    old = {"model": "m", "responses": 8, "truncated": 1, "empty": 2, "reasoning_only": 1, "calls": 7, "invalid": 3}
    assert row == {"session_id": 1, **old, **dict.fromkeys(REPETITIONS)}
