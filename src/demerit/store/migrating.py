"""Bringing a database up to the schema of this version, and refusing one that a newer version wrote."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from demerit.store.engines import StoreError, shown

HEADS = {"main": "0002", "archive": "a001"}
"""The newest migration of each lineage. A test compares them with the files."""

_MIGRATIONS = Path(__file__).parent / "migrations"


def version_table(lineage: str) -> str:
    """Where a database notes which migrations it has had."""
    return f"demerit_{lineage}_version"


def version_of(connection: Connection, lineage: str) -> str | None:
    """The newest migration that a database has had; None for an empty one."""
    if not inspect(connection).has_table(version_table(lineage)):
        return None
    return connection.execute(text(f"select version_num from {version_table(lineage)}")).scalar()


def bring_up_to_date(engine: Engine, lineage: str) -> None:
    """Run the migrations that a database has not had. Raises StoreError for a database from a newer version."""
    with engine.connect() as connection:
        version = version_of(connection, lineage)
    if version == HEADS[lineage]:
        return
    with engine.connect() as connection:
        connection = connection.execution_options(writes=True)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                # Two that start at once: the second finds it done. SQLite's own lock does the same.
                connection.execute(text("select pg_advisory_xact_lock(2082844800)"))
            version = version_of(connection, lineage)
            if version != HEADS[lineage]:
                _upgrade(connection, lineage, version)


def _upgrade(connection: Connection, lineage: str, version: str | None) -> None:
    # Imported here because almost no run migrates, and every run would wait for it.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("version_locations", str(_MIGRATIONS / lineage).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["version_table"] = version_table(lineage)
    known = ScriptDirectory.from_config(config)
    try:
        is_known = version is None or known.get_revision(version) is not None
    except CommandError:
        is_known = False
    if not is_known:
        raise StoreError(
            f"{shown(connection.engine.url)} was written by a newer demerit (schema {version}); "
            "update demerit, or set database_url to another database"
        )
    command.upgrade(config, "head")
