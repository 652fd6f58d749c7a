"""`demerit proxy`: what it refuses, what it tells, how it keeps its key, and that no key is told."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import insert
from tests.test_cli import Ran, machine, run

import demerit
from demerit.config import load
from demerit.loops import COSTLY, READ_ONLY, GuardConfig
from demerit.proxy.options import Options, Upstream
from demerit.store import Store
from demerit.store.guarded import add_model_counts
from demerit.store.schema import guard_scans, guard_trips

__all__ = ["machine", "run"]

DOCS = Path(__file__).parents[1] / "docs"
KEY = "cor" + "rect-horse-battery"
NOWHERE = "http://127.0.0.1:1/v1"
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of files as POSIX has them")


@pytest.fixture(autouse=True)
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings of this test, empty at first, on a machine whose database and folders are the test's own."""
    for name in [name for name in os.environ if name.startswith(("DEMERIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("DEMERIT_DATABASE_URL", str(tmp_path / "demerit.db"))
    path = tmp_path / "config.toml"
    path.write_text("")
    monkeypatch.setenv("DEMERIT_CONFIG", str(path))
    return path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """What proxies were started with. None of them listens; each says that it does, and ends."""
    found: list[Options] = []

    def serve(
        options: Options, host: str, port: int, database_url: str | None, announce: Callable[[], None] | None
    ) -> None:
        found.append(options)
        if announce is not None:
            announce()

    monkeypatch.setattr("demerit.proxy.app.serve", serve)
    return found


class Server(ThreadingHTTPServer):
    """A model server that answers each path as it is told, and 404 to all others."""

    daemon_threads = True

    def __init__(self, answers: dict[str, tuple[int, str]]) -> None:
        self.answers = answers
        self.keys: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        status, text = self.server.answers.get(self.path, (404, ""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server({}) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def models(*names: str) -> tuple[int, str]:
    return 200, json.dumps({"object": "list", "data": [{"id": name} for name in names]})


# --- what is wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            (),
            "no model server is named; say where it is: demerit proxy --upstream http://127.0.0.1:8080/v1, or with the "
            "setting upstreams",
            id="no upstream",
        ),
        pytest.param(
            ("http://127.0.0.1:8080/v1",),
            "a URL goes behind --upstream: demerit proxy --upstream http://127.0.0.1:8080/v1",
            id="the URL without its option",
        ),
        pytest.param(
            ("--upstream", "http://127.0.0.1:8080/v1/chat/completions"),
            "--upstream: a URL must end before /chat/completions; write http://127.0.0.1:8080/v1",
            id="the URL of one call",
        ),
        pytest.param(
            ("--upstream", NOWHERE, "--loop-guard-mode", "deny"),
            "--loop-guard-mode is 'deny', and must be off, note or refuse",
            id="no such mode",
        ),
        pytest.param(
            ("--upstream", "localhost:9000", "--port", "9000"),
            "the upstream localhost:9000 would be this proxy itself; name the model server, or another --port",
            id="its own address",
        ),
        pytest.param(
            ("trips", "--since", "yesterday"),
            "--since 'yesterday' is no span of days; write it like 30d or 4w",
            id="no span of days",
        ),
        pytest.param(
            ("dashboard", "--url", f"http://me:{KEY}@127.0.0.1:8788"),
            "--url must be where the proxy listens, like http://127.0.0.1:8788",
            id="a password in the URL of the dashboard",
        ),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    arguments: tuple[str, ...], said: str, run: Any, served: list[Options]
) -> None:
    ran = run("proxy", *arguments)
    assert (ran.code, ran.out, ran.err, served) == (2, "", f"demerit: {said}\n", [])


def test_a_port_that_is_taken(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("proxy", "--upstream", NOWHERE, "--port", str(port))
    said = f"demerit: port {port} of 127.0.0.1 is taken; stop what listens there, or take another one with --port\n"
    assert (ran.code, ran.out, ran.err) == (2, "", said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(errno.EACCES, "no"), "port 8788 of 127.0.0.1 is not for every user; take one above 1023 with"),
        (
            OSError(errno.EADDRNOTAVAIL, "no"),
            "127.0.0.1 is no address of this machine; give one of its own with --host",
        ),
        (socket.gaierror(-2, "no"), "127.0.0.1 is no address of this machine; give one of its own with --host"),
    ],
)
def test_a_place_where_nothing_can_listen(error: OSError, said: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(*_: object) -> None:
        raise error

    monkeypatch.setattr("demerit.proxy.app.serve", serve)
    ran = run("proxy", "--upstream", NOWHERE)
    assert ran.code == 2
    assert ran.err.startswith(f"demerit: {said}")


def test_a_variable_without_its_key_stops_the_proxy_alone(run: Any, settings_file: Path, served: list[Options]) -> None:
    settings_file.write_text(f'[upstreams.cloud]\nurl = "{NOWHERE}"\nkey_variable = "NO_SUCH_KEY"\n')
    ran = run("proxy")
    assert (ran.code, served) == (2, [])
    assert ran.err.startswith("demerit: the upstream cloud has its key in NO_SUCH_KEY, which is not set; set it, or ")
    assert run("config").code == 0


# --- what it goes by --------------------------------------------------------------------------------------


def test_the_settings_reach_the_proxy(
    run: Any, settings_file: Path, served: list[Options], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUD_KEY", KEY)
    settings_file.write_text(
        f"""
        proxy_key = "{KEY}"
        allowed_hosts = ["gpu.example"]
        cors_origins = ["https://app.example"]
        loop_guard_mode = "refuse"
        repeat_limit = 4
        read_only_limit = "off"
        stagnation_limit = 7
        read_only_tools = ["peek"]
        body_limit_mb = 2
        connect_timeout_s = 1
        first_byte_timeout_s = 2
        idle_timeout_s = 3
        keepalive_s = 4
        queue_size = 5
        queue_wait_s = 6
        [upstreams.local]
        url = "{NOWHERE}"
        models = ["qwen*"]
        max_inflight = 8
        embedding_models = ["e*"]
        [upstreams.cloud]
        url = "{NOWHERE}"
        key_variable = "CLOUD_KEY"
        """
    )
    assert run("proxy", "--loop-guard-mode", "off").code == 0
    assert served == [
        Options(
            upstreams=(
                Upstream(name="local", url=NOWHERE, models=("qwen*",), max_inflight=8, embedding_models=("e*",)),
                Upstream(name="cloud", url=NOWHERE, key=KEY),
            ),
            guard_mode="off",
            guard=GuardConfig(
                repeat_limit=4, read_only_limit=None, stagnation_limit=7, read_only=("peek",), costly=COSTLY
            ),
            key=KEY,
            allowed_hosts=("gpu.example",),
            cors_origins=("https://app.example",),
            body_limit_bytes=2 * 1024 * 1024,
            connect_s=1,
            first_byte_s=2,
            idle_s=3,
            keepalive_s=4,
            queue=5,
            queue_wait_s=6,
        )
    ]


def test_without_settings_it_goes_by_the_defaults_of_the_proxy(run: Any, served: list[Options]) -> None:
    assert run("proxy", "--upstream", NOWHERE).code == 0
    assert served == [Options(upstreams=(Upstream(name="127.0.0.1:1", url=NOWHERE),))]
    assert served[0].guard.read_only == READ_ONLY


# --- what it tells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"/v1/models": models("qwen3:8b")}, "answers, 1 model (qwen3:8b)"),
        ({"/v1/models": models("a", "b", "c", "d")}, "answers, 4 models (a, b, c, ...)"),
        ({"/v1/models": models("a\x1b[2Jb")}, "answers, 1 model (ab)"),
        ({"/v1/models": models()}, "answers, 0 models"),
        ({"/v1/models": (200, "<html>")}, "answers, but not with a list of models; is this the base of an OpenAI-"),
        (
            {"/v1/models": (200, '{"data": [{"name": "a"}]}')},
            "answers, but not with a list of models; is this the base",
        ),
        ({"/v1/models": (401, "")}, "answers, and wants a key, which clients bring"),
        ({"/v1/models": (500, "")}, "answers, but with 500 when it is asked for its models"),
        ({}, "answers, but with 404 when it is asked for its models"),
    ],
)
def test_it_tells_what_the_upstream_answers(
    answers: dict[str, tuple[int, str]], said: str, server: Server, run: Any, served: list[Options]
) -> None:
    server.answers = answers
    ran = run("proxy", "--upstream", f"{server.url}/v1")
    assert ran.code == 0
    assert f"  upstream  {server.url}/v1: {said}" in ran.out


def test_a_base_that_lacks_its_version_is_told_the_right_one(server: Server, run: Any, served: list[Options]) -> None:
    server.answers = {"/v1/models": models("a")}
    ran = run("proxy", "--upstream", server.url)
    assert f"{server.url}: its API begins one step on; stop this and give {server.url}/v1\n" in ran.out
    assert [upstream.url for upstream in served[0].upstreams] == [server.url]


def test_an_upstream_that_is_not_there_keeps_nothing_from_starting(run: Any, served: list[Options]) -> None:
    ran = run("proxy", "--upstream", NOWHERE)
    why = os.strerror(errno.ECONNREFUSED)
    said = f"{NOWHERE}: not there ({why}); the proxy starts all the same, and requests get 502 until it is\n"
    assert (ran.code, len(served)) == (0, 1)
    assert said in ran.out


def test_an_upstream_that_says_nothing(run: Any, served: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demerit.cli.proxy._PROBE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ran = run("proxy", "--upstream", f"127.0.0.1:{silent.getsockname()[1]}")
    assert "no answer within 0.1 s; the proxy starts all the same, and requests get 504 until it is there\n" in ran.out


def test_it_tells_what_to_paste(run: Any, served: list[Options]) -> None:
    ran = run("proxy", "--upstream", NOWHERE, "--port", "9001", "--loop-guard-mode", "refuse")
    lines = ran.out.splitlines()
    assert re.fullmatch(r"demerit \S+ listens at http://127\.0\.0\.1:9001/v1", lines[0])
    assert "  guard     refuse, a request that goes round in circles is answered with 400" in lines
    assert "  most               OPENAI_BASE_URL=http://127.0.0.1:9001/v1" in lines
    assert "KEY" not in ran.out  # nobody has to show one


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ("0.0.0.0", "listens at http://127.0.0.1:8788/v1"),
        ("[::1]", "listens at http://[::1]:8788/v1"),
        ("localhost", "listens at http://localhost:8788/v1"),
    ],
)
def test_the_address_is_one_that_a_client_can_use(host: str, line: str, run: Any, served: list[Options]) -> None:
    assert line in run("proxy", "--upstream", NOWHERE, "--host", host).out


def test_a_proxy_for_other_machines_says_under_which_names(
    run: Any, settings_file: Path, served: list[Options]
) -> None:
    ran = run("proxy", "--upstream", NOWHERE, "--host", "::")
    assert (
        "  hosts     none yet: put this machine's name or address, as others know it, into allowed_hosts\n" in ran.out
    )
    settings_file.write_text('allowed_hosts = ["gpu.example", "10.0.0.7"]')
    ran = run("proxy", "--upstream", NOWHERE, "--host", "0.0.0.0")
    assert "  hosts     other machines reach it under gpu.example, 10.0.0.7\n" in ran.out


# --- the key ----------------------------------------------------------------------------------------------


def key_file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "demerit" / "proxy.key"


def beyond(run: Any) -> Ran:
    ran: Ran = run("proxy", "--upstream", NOWHERE, "--host", "0.0.0.0")
    return ran


linux = pytest.mark.skipif(sys.platform != "linux", reason="where the user's data is on Linux")


@linux
def test_a_key_is_made_once_and_told_once(tmp_path: Path, run: Any, served: list[Options]) -> None:
    before = os.umask(0)
    try:
        first = beyond(run)
    finally:
        os.umask(before)
    path = key_file(tmp_path)
    key = path.read_text().strip()
    assert len(key) == 43  # 32 random bytes in base64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"  key       {key}, shown this once and kept in {path}\n" in first.out
    second = beyond(run)
    assert key not in second.out + second.err
    assert f"  key       in {path}\n" in second.out
    assert [options.key for options in served] == [key, key]


@linux
def test_a_key_in_the_settings_wins_and_is_not_told(
    tmp_path: Path, run: Any, settings_file: Path, served: list[Options]
) -> None:
    settings_file.write_text(f'proxy_key = "{KEY}"')
    ran = beyond(run)
    assert served[0].key == KEY
    assert "  key       the one in the settings (proxy_key); clients give it as their API key\n" in ran.out
    assert KEY not in ran.out + ran.err
    assert not key_file(tmp_path).exists()


@linux
def test_a_key_that_others_could_read_is_closed(tmp_path: Path, run: Any, served: list[Options]) -> None:
    path = key_file(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(KEY)
    path.chmod(0o644)
    ran = beyond(run)
    assert served[0].key == KEY
    said = f"others could read {path}, and cannot any more; delete it for a new key if they may have"
    assert ran.err == f"demerit: {said}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@linux
@pytest.mark.parametrize("content", [b"", b"short", b"two words that are no key", b"\xff" * 40])
def test_a_file_without_a_key_is_no_key(content: bytes, tmp_path: Path, run: Any, served: list[Options]) -> None:
    path = key_file(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o600)
    ran = beyond(run)
    assert (ran.code, served) == (2, [])
    said = f"demerit: {path} holds no key; delete it for a new one, or give one in the setting proxy_key\n"
    assert ran.err == said


@linux
def test_a_folder_in_place_of_the_data_folder(tmp_path: Path, run: Any, served: list[Options]) -> None:
    (tmp_path / "data").write_text("a file")
    ran = beyond(run)
    assert (ran.code, served) == (2, [])
    assert "give one in the setting proxy_key" in ran.err


def test_on_the_loopback_no_key_is_made(tmp_path: Path, run: Any, served: list[Options]) -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        run("proxy", "--upstream", NOWHERE, "--host", host)
    assert [options.key for options in served] == [None] * 3
    assert not (tmp_path / "data").exists()


def test_nothing_tells_a_key(server: Server, run: Any, settings_file: Path, served: list[Options]) -> None:
    server.answers = {"/v1/models": (401, KEY)}
    settings_file.write_text(f'proxy_key = "{KEY}"\n[upstreams.a]\nurl = "{server.url}/v1"\nkey = "{KEY}"\n')
    told = [run("proxy"), run("config"), run("config", "--json"), run("proxy", "--port", "0")]
    assert [ran.code for ran in told] == [0, 0, 0, 2]
    assert "answers, and refuses the key in the settings" in told[0].out
    assert server.keys == [f"Bearer {KEY}"]
    assert all(KEY not in ran.out + ran.err for ran in told)


# --- the real one -----------------------------------------------------------------------------------------


@posix
def test_it_serves_until_it_is_interrupted(server: Server) -> None:
    server.answers = {"/v1/models": models("qwen3")}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "demerit", "proxy", "--upstream", f"{server.url}/v1", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            told = [process.stdout.readline() for _ in range(3)]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10) as response:
                assert json.load(response)["data"] == [{"id": "qwen3"}]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()
    assert told[0].endswith(f" listens at http://127.0.0.1:{port}/v1\n")
    assert told[2] == f"  upstream  {server.url}/v1: answers, 1 model (qwen3)\n"


# --- looking at it ----------------------------------------------------------------------------------------


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """The proxies that the dashboard was to show, and the keys that they were to be shown."""
    found: list[tuple[str, str | None]] = []
    monkeypatch.setattr("demerit.dashboard.follow", lambda url, key, *_, **__: found.append((url, key)))
    return found


@linux
def test_the_dashboard_shows_the_kept_key_to_none_but_its_own_proxy(
    tmp_path: Path, run: Any, settings_file: Path, followed: list[tuple[str, str | None]]
) -> None:
    path = key_file(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(KEY)
    path.chmod(0o600)
    for arguments in ((), ("--url", "localhost:9000/v1"), ("--url", "https://gpu.example:8788")):
        assert run("proxy", "dashboard", *arguments).code == 0
    assert followed == [
        ("http://127.0.0.1:8788", KEY),
        ("http://localhost:9000", KEY),
        ("https://gpu.example:8788", None),
    ]
    settings_file.write_text(f'proxy_key = "{KEY * 2}"\nproxy_host = "0.0.0.0"\nproxy_port = 9001')
    assert run("proxy", "dashboard").code == run("proxy", "dashboard", "--url", "http://gpu.example").code == 0
    assert followed[3:] == [("http://127.0.0.1:9001", KEY * 2), ("http://gpu.example", KEY * 2)]


NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trips log at noon of 2 March: today two loops and a stagnation in 200 requests, yesterday none in 50, and on
    1 February a loop in requests of which the count was lost."""
    monkeypatch.setattr("demerit.cli.choosing.moment", lambda text: NOW)
    today = (NOW.date() - date(1970, 1, 1)).days

    model = "qwen\x1b[2J3"

    def trip(day: int, detector: str, session: str) -> dict[str, Any]:
        by = {"model": model, "version": "0.1.0", "mode": "note", "detector": detector, "session_hash": session}
        return {**by, "at_us": day * 86_400_000_000, "count": 3, "limit": 2}

    decisions = [trip(today, "loop", "a"), trip(today, "loop", "b"), trip(today, "stagnation", "a")]
    decisions.append(trip(today - 29, "loop", "c"))
    scans = [
        {"day": today, "model": model, "version": "0.1.0", "mode": "note", "scanned": 200},
        {"day": today - 1, "model": "glm", "version": "0.1.0", "mode": "refuse", "scanned": 50},
    ]
    with Store.open(f"sqlite:///{tmp_path / 'demerit.db'}") as store, store.writing() as connection:
        connection.execute(insert(guard_trips), decisions)
        connection.execute(insert(guard_scans), scans)


@pytest.mark.usefixtures("log")
def test_trips_of_each_day_with_their_shares(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    ran = run("proxy", "trips")
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("2026-")]
    today = ["2026-03-02", "qwen3", "0.1.0", "note", "200", "2", "1.0%", "(0.3-3.6%)", "1", "0.5%", "(0.1-2.8%)", "2"]
    none = ["2026-03-01", "glm", "0.1.0", "refuse", "50", "0", "0%", "(0-7.1%)", "0", "0%", "(0-7.1%)", "0"]
    lost = ["2026-02-01", "qwen3", "0.1.0", "note", "0", "1", "-", "0", "-", "1"]
    assert rows == [today, none, lost]
    assert "A trip is a decision of the guard and no delivery" in ran.out


@pytest.mark.usefixtures("log")
def test_trips_fit_a_narrow_terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    out = run("proxy", "trips").out
    assert max(map(len, out.splitlines())) <= 50
    assert "loops share 1.0% (0.3-3.6%)" in out


@pytest.mark.usefixtures("log")
def test_trips_as_json(run: Any) -> None:
    found = run("proxy", "trips", "--since", "2d", "--json").json
    assert (found["schema"], found["since"], len(found["trips"])) == ("demerit.trips/1", "2026-03-01", 2)
    row = found["trips"][0]
    shares = [round(row.pop(name), 4) for name in [name for name in row if "_share" in name]]
    assert shares == [0.01, 0.0027, 0.0357, 0.005, 0.0009, 0.0278]
    assert row == {
        "day": "2026-03-02",
        "model": "qwen\x1b[2J3",
        "version": "0.1.0",
        "mode": "note",
        "scanned": 200,
        "loops": 2,
        "stagnations": 1,
        "sessions": 2,
    }


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("since", "first", "said"),
    [
        pytest.param("0d", "2026-03-02", "", id="no day is today"),
        pytest.param("1w", "2026-02-24", "", id="today and the six days before"),
        pytest.param(
            "1y",
            "2025-12-03",
            "demerit: the log reaches back 90 days; these are shown\n",
            id="today and the 89 days before, and no more",
        ),
    ],
)
def test_the_days_of_trips(since: str, first: str, said: str, run: Any) -> None:
    ran = run("proxy", "trips", "--since", since, "--json")
    assert (ran.json["since"], ran.err) == (first, said)


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("off", "loop_guard_mode is off, and then nothing is read for loops: set it to note or refuse"),
        ("note", "no request went through demerit proxy, unless its loop_guard_mode was off"),
    ],
)
def test_no_trips_and_why(mode: str, why: str, run: Any, settings_file: Path) -> None:
    settings_file.write_text(f'loop_guard_mode = "{mode}"')
    ran = run("proxy", "trips", "--since", "7d")
    assert (ran.code, ran.out, ran.err) == (0, "", f"demerit: nothing in the last 7 days: {why}\n")


def test_what_was_counted_over_some_days(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demerit.cli.choosing.moment", lambda text: NOW)
    today = int(NOW.timestamp()) // 3600
    with Store.open(f"sqlite:///{tmp_path / 'demerit.db'}") as store, store.writing() as connection:
        for hour, requests in ((today, 5), (today - 24, 2), (today - 24 * 9, 90)):
            add_model_counts(connection, hour, "1", {"qwen3": {"requests": requests, "upstream_refusals": 1}})
    ran = run("proxy", "dashboard", "--since", "7d")
    assert (ran.code, ran.err) == (0, "")
    assert "1 of 1 model with something to report; 7 requests in all" in ran.out
    assert "upstream refusals" in ran.out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--since", "soon"], "--since 'soon' is no span of days"),
        (["--since", "7d", "--once"], "leave out one of both"),
    ],
)
def test_spans_that_make_no_sense(given: list[str], said: str, run: Any) -> None:
    ran = run("proxy", "dashboard", *given)
    assert ran.code == 2
    assert said in ran.err


# --- the page ---------------------------------------------------------------------------------------------


def test_the_upstreams_of_the_page_are_settings(settings_file: Path) -> None:
    [text] = re.findall(r"^```toml\n(.*?)^```", (DOCS / "proxy.md").read_text(encoding="utf-8"), re.DOTALL | re.M)
    settings_file.write_text(text)
    names = [(one.name, one.models, one.max_inflight) for one in load({}, settings_file).upstreams]
    assert names == [("coder", ("qwen*coder*", "devstral*"), 4), ("cloud", ("*",), None)]


def test_the_page_and_the_program_name_the_same_clients(run: Any, served: list[Options]) -> None:
    page = (DOCS / "proxy.md").read_text(encoding="utf-8")
    told = run("proxy", "--upstream", NOWHERE).out.partition("Point a client at it:\n")[2]
    clients = [line[2:19].strip() for line in told.splitlines()]
    rows = re.findall(r"^\| (.*?) \|", page.partition("## Clients")[2].partition("## Several")[0], re.M)
    assert clients[1:] == rows[2:]  # below the head, and without those that have no name
