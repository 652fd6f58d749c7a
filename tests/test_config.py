"""Where settings come from, what they may be, and what is said of those that are wrong."""

from __future__ import annotations

import os
import pickle
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs
import pytest
import tzlocal
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import make_url

from demerit.config import (
    FILE_VARIABLE,
    SETTINGS,
    BadSetting,
    Place,
    Setting,
    Settings,
    Upstream,
    describe,
    key_of,
    load,
    settings_table,
    without_password,
)

DOCS = Path(__file__).parents[1] / "docs"
PASSWORD = "cor" + "rect-horse"
NAMES = [setting.name for setting in SETTINGS]

posix = pytest.mark.skipif(sys.platform == "win32", reason="paths as POSIX has them")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of a user who has nothing yet."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(platformdirs, "user_config_path", lambda *_, **__: tmp_path / "configurations")
    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: tmp_path / "data")


def toml(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# --- the table --------------------------------------------------------------------------------------------


def test_each_row_has_its_field_in_order() -> None:
    assert list(Settings.__struct_fields__) == [*NAMES, "places"]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_each_row_says_what_people_need(setting: Setting) -> None:
    assert setting.help.endswith(".")
    assert callable(setting.default) == bool(setting.default_in_words)
    assert bool(setting.unit) == (setting.type.startswith(("number", "whole number")))


def test_the_page_has_the_table() -> None:
    path = DOCS / "config.md"
    page = path.read_text(encoding="utf-8")
    between = re.compile(r"(?<=<!-- settings -->\n).*?(?=<!-- /settings -->)", re.DOTALL)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        page = between.sub(lambda _: settings_table(), page)
        path.write_text(page, encoding="utf-8")
    is_current = between.findall(page) == [settings_table()]
    assert is_current, "a setting changed: run UPDATE_SNAPSHOTS=1 make test ARGS='-k the_page_has_the_table'"


def test_the_example_of_the_page_is_a_file_of_settings(tmp_path: Path) -> None:
    [text] = re.findall(r"^```toml\n(.*?)^```", (DOCS / "config.md").read_text(encoding="utf-8"), re.DOTALL | re.M)
    settings = load({}, toml(tmp_path / "config.toml", text))
    assert (settings.workers, settings.timezone, len(settings.exclude)) == (2, "Europe/Rome", 2)


# --- which place counts -----------------------------------------------------------------------------------


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    settings = load({"TZ": "Asia/Tokyo"})
    assert settings.database_url == f"sqlite:///{tmp_path / 'data' / 'demerit.db'}"
    assert (settings.timezone, settings.archive, settings.redact) == ("Asia/Tokyo", True, True)
    assert (settings.workers, settings.watch_interval_s, settings.settle_interval_s) == (0, 2, 60)
    assert (settings.exclude, settings.roots) == ((), ())
    assert settings.machine
    assert (settings.upstreams, settings.proxy_key, settings.allowed_hosts, settings.cors_origins) == ((), "", (), ())
    assert (settings.proxy_host, settings.proxy_port, settings.loop_guard_mode) == ("127.0.0.1", 8788, "note")
    assert (settings.repeat_limit, settings.read_only_limit, settings.stagnation_limit) == (2, 15, 5)
    assert (settings.read_only_tools, settings.costly_tools, settings.body_limit_mb) == ((), (), 32)
    assert (settings.connect_timeout_s, settings.first_byte_timeout_s, settings.idle_timeout_s) == (5, 300, 300)
    assert (settings.keepalive_s, settings.queue_size, settings.queue_wait_s) == (15, 64, 30)
    assert {place for _, _, place in describe(settings)} == {Place("default")}


def test_a_later_place_overrules_an_earlier_one(tmp_path: Path) -> None:
    file = toml(tmp_path / "a.toml", 'workers = 1\nmachine = "file"\nwatch_interval_s = 5\narchive = false\n')
    environ = {FILE_VARIABLE: str(file), "DEMERIT_WORKERS": "2", "DEMERIT_MACHINE": "environment"}
    settings = load(environ, workers=3, archive=None)
    told = {name: (value, place) for name, value, place in describe(settings)}
    assert list(told) == NAMES
    assert told["workers"] == (3, Place("flag", "--workers"))
    assert told["machine"] == ("environment", Place("environment", "DEMERIT_MACHINE"))
    assert told["watch_interval_s"] == (5.0, Place("file", str(file)))
    assert told["archive"] == (False, Place("file", str(file)))
    assert told["redact"] == (True, Place("default"))


def test_the_file_is_the_users_own_unless_another_is_named(tmp_path: Path) -> None:
    toml(tmp_path / "configurations" / "config.toml", "workers = 1")
    named = toml(tmp_path / "named.toml", "workers = 2")
    given = toml(tmp_path / "given.toml", "\ufeffworkers = 3")
    assert load({}).workers == load({FILE_VARIABLE: ""}).workers == 1
    assert load({FILE_VARIABLE: str(named)}).workers == 2
    assert load({FILE_VARIABLE: str(named)}, given).workers == 3


def test_a_variable_set_to_nothing_is_not_set(tmp_path: Path) -> None:
    file = toml(tmp_path / "a.toml", "workers = 1")
    assert load({"DEMERIT_WORKERS": ""}, file).workers == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False)],
)
def test_a_switch_in_the_environment(text: str, value: bool) -> None:
    assert load({"DEMERIT_ARCHIVE": text}).archive is value


def test_settings_pass_between_processes_and_cannot_be_changed() -> None:
    settings = load({}, workers=3)
    assert pickle.loads(pickle.dumps(settings)) == settings
    with pytest.raises(AttributeError):
        settings.workers = 4  # type: ignore[misc]


# --- paths and names --------------------------------------------------------------------------------------


@posix
def test_paths_begin_where_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = toml(tmp_path / "etc" / "a.toml", 'database_url = "x/../a.db"\nroots = ["logs", "~/logs", "/srv", "./logs"]')
    settings = load({}, file)
    assert settings.database_url == f"sqlite:///{tmp_path}/etc/a.db"
    assert settings.roots == (f"{tmp_path}/etc/logs", f"{tmp_path}/home/logs", "/srv")
    settings = load({"DEMERIT_ROOTS": "logs::/srv:"}, file, exclude=["~/a/*", "**/b"], database_url=Path("b.db"))
    assert settings.roots == (f"{tmp_path}/here/logs", "/srv")
    assert settings.exclude == (f"{tmp_path}/home/a/*", "**/b")
    assert settings.database_url == f"sqlite:///{tmp_path}/here/b.db"


@posix
@pytest.mark.parametrize(
    ("given", "driver", "database"),
    [
        pytest.param("/a/b.db", "sqlite", "/a/b.db", id="a path"),
        pytest.param("sqlite:////a/b.db", "sqlite", "/a/b.db", id="SQLite's URL of a path"),
        pytest.param(
            "/a/100%25?#@:b.db", "sqlite", "/a/100%25?#@:b.db", id="a path with what means something in a URL"
        ),
        pytest.param("sqlite:////a%20b%3F.db", "sqlite", "/a b?.db", id="a URL that escapes"),
        pytest.param("postgres://h/shop", "postgresql+psycopg", "shop", id="the short name of PostgreSQL"),
        pytest.param("PostgreSQL+psycopg://h/shop", "postgresql+psycopg", "shop", id="with its driver"),
        pytest.param("postgresql:///shop?host=/run/pg", "postgresql+psycopg", "shop", id="over a socket"),
    ],
)
def test_the_database_as_sqlalchemy_reads_it(given: str, driver: str, database: str) -> None:
    url = make_url(load({}, database_url=given).database_url)
    assert (url.drivername, url.database) == (driver, database)


@pytest.mark.parametrize(
    ("server", "host", "port"),
    [("db.example", "db.example", None), ("db.example:6432", "db.example", 6432), ("[::1]:5432", "::1", 5432)],
)
@pytest.mark.parametrize("password", ["plain", "p%40ss", "a@b", "a/b", "a?b", "a:b"])
def test_a_password_reaches_the_server_as_it_is(server: str, host: str, port: int | None, password: str) -> None:
    url = make_url(load({}, database_url=f"postgresql://me:{password}@{server}/shop?x=a").database_url)
    assert (url.username, url.password, url.host, url.port) == ("me", password.replace("%40", "@"), host, port)
    assert (url.database, dict(url.query)) == ("shop", {"x": "a"})


@pytest.mark.parametrize("variable", ["Asia/Tokyo", ":Asia/Tokyo", "/usr/share/zoneinfo/Asia/Tokyo"])
def test_the_zone_of_the_machine_is_that_of_its_environment(variable: str) -> None:
    assert load({"TZ": variable}).timezone == "Asia/Tokyo"


@pytest.mark.parametrize("name", [None, "Mars/Base"])
def test_a_machine_without_a_known_zone_has_utc(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tzlocal, "get_localzone_name", lambda: name)
    assert load({"TZ": "<+03>-3"}).timezone == "UTC"


def test_a_machine_whose_zones_contradict_one_another_has_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    def contradict() -> str:
        raise KeyError("two zones")

    monkeypatch.setattr(tzlocal, "get_localzone_name", contradict)
    assert load({}).timezone == "UTC"


# --- what is wrong ----------------------------------------------------------------------------------------

ZONE = "must be the name of a time zone, like Europe/Rome"
DATABASE = "must be a file, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('workers = "2"', "workers in FILE is '2', and must be a whole number from 0 to 1024"),
        ("workers = true", "workers in FILE is True, and must be a whole number from 0 to 1024"),
        ("workers = -1", "workers in FILE is -1, and must be a whole number from 0 to 1024"),
        ("watch_interval_s = nan", "watch_interval_s in FILE is nan, and must be a number from 0.1 to 86400"),
        ("settle_interval_s = 0", "settle_interval_s in FILE is 0, and must be a number from 0.1 to 86400"),
        ("archive = 1", "archive in FILE is 1, and must be true or false"),
        ('roots = "/srv"', "roots in FILE is '/srv', and must be a list of folders, as texts that are not empty"),
        ('exclude = [""]', "exclude in FILE is [''], and must be a list of globs, as texts that are not empty"),
        (
            'roots = ["a\\u0000"]',
            "roots in FILE is ['a\\x00'], and must be a list of folders, as texts that are not empty",
        ),
        (
            'machine = "a\\u001b[2J"',
            "machine in FILE is 'a\\x1b[2J', and must be a name of at most 200 characters that can be printed",
        ),
        ('timezone = "Europe/Roma"', f"timezone in FILE is 'Europe/Roma', and {ZONE}; did you mean Europe/Rome?"),
        ('timezone = "tokyo"', f"timezone in FILE is 'tokyo', and {ZONE}; did you mean Asia/Tokyo?"),
        ('timezone = "../etc/passwd"', f"timezone in FILE is '../etc/passwd', and {ZONE}"),
        ("timezone = 2026-01-31", f"timezone in FILE is datetime.date(2026, 1, 31), and {ZONE}"),
        ('database_url = ""', f"database_url in FILE is '', and {DATABASE}"),
        ('database_url = "sqlite:///:memory:"', f"database_url in FILE is 'sqlite:///:memory:', and {DATABASE}"),
        ('database_url = "postgresql://h:99999/"', f"database_url in FILE is 'postgresql://h:99999/', and {DATABASE}"),
        (
            'proxy_host = "127.0.0.1:9000"',
            "proxy_host in FILE is '127.0.0.1:9000', and must be an address of this machine without a port, like "
            "127.0.0.1, or 0.0.0.0 for all of them; did you mean 127.0.0.1?",
        ),
        (
            'proxy_host = "*"',
            "proxy_host in FILE is '*', and must be an address of this machine without a port, like 127.0.0.1, or "
            "0.0.0.0 for all of them; did you mean 0.0.0.0?",
        ),
        ("proxy_port = 0", "proxy_port in FILE is 0, and must be a whole number from 1 to 65535"),
        (
            'allowed_hosts = ["https://gpu.example/"]',
            "allowed_hosts in FILE is ['https://gpu.example/'], and must be a list of host names, without a scheme and "
            "a path; did you mean gpu.example?",
        ),
        (
            'cors_origins = ["https://app.example/chat"]',
            "cors_origins in FILE is ['https://app.example/chat'], and must be a list of origins, like "
            "https://app.example, or *; did you mean https://app.example?",
        ),
        ('loop_guard_mode = "deny"', "loop_guard_mode in FILE is 'deny', and must be off, note or refuse"),
        ("repeat_limit = 0", 'repeat_limit in FILE is 0, and must be a whole number from 1 to 1000, or "off"'),
        ("read_only_limit = false", "read_only_limit in FILE is False, and must be a whole number from 1 to 1000, or "),
        ('stagnation_limit = "5"', "stagnation_limit in FILE is '5', and must be a whole number from 1 to 1000, or "),
        ('read_only_tools = [" "]', "read_only_tools in FILE is [' '], and must be a list of names of tools"),
        ('costly_tools = "fetch"', "costly_tools in FILE is 'fetch', and must be a list of names of tools"),
        ("body_limit_mb = 0", "body_limit_mb in FILE is 0, and must be a whole number from 1 to 1024"),
        ("connect_timeout_s = 0", "connect_timeout_s in FILE is 0, and must be a number from 0.1 to 86400"),
        ("first_byte_timeout_s = -1", "first_byte_timeout_s in FILE is -1, and must be a number from 0.1 to 86400"),
        ("idle_timeout_s = inf", "idle_timeout_s in FILE is inf, and must be a number from 0.1 to 86400"),
        ('keepalive_s = "15"', "keepalive_s in FILE is '15', and must be a number from 0.1 to 86400"),
        ("queue_size = -1", "queue_size in FILE is -1, and must be a whole number from 0 to 100000"),
        ("queue_wait_s = 0", "queue_wait_s in FILE is 0, and must be a number from 0.1 to 86400"),
        ("databse_url = 1", "unknown setting 'databse_url' in FILE; did you mean database_url?"),
        ("Time-Zone = 1", "unknown setting 'Time-Zone' in FILE; did you mean timezone?"),
        ("[q]", f"unknown setting 'q' in FILE; there are {', '.join(NAMES)}"),
        (
            "workers",
            "FILE: no TOML (Expected '=' after a key in a key/value pair (at end of document)); a setting is a ",
        ),
    ],
)
def test_a_bad_line_of_the_file(line: str, said: str, tmp_path: Path) -> None:
    file = toml(tmp_path / "a.toml", line)
    with pytest.raises(BadSetting) as error:
        load({}, file)
    found = str(error.value).replace(str(file), "FILE")
    assert found.startswith(said) if said.startswith("FILE") or said.endswith("or ") else found == said


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"DEMERIT_WORKERS": "many"}, "DEMERIT_WORKERS is 'many', and must be a whole number from 0 to 1024"),
        ({"DEMERIT_SETTLE_INTERVAL_S": "inf"}, "DEMERIT_SETTLE_INTERVAL_S is 'inf', and must be a number from 0.1 to"),
        ({"DEMERIT_REDACT": "no"}, "DEMERIT_REDACT is 'no', and must be true or false"),
        ({"DEMERIT_REDCAT": "0"}, "unknown environment variable DEMERIT_REDCAT; did you mean DEMERIT_REDACT?"),
        ({"demerit_redact": "0"}, "unknown environment variable demerit_redact; did you mean DEMERIT_REDACT?"),
        ({"DEMERIT_CONFGI": "a"}, "unknown environment variable DEMERIT_CONFGI; did you mean DEMERIT_CONFIG?"),
    ],
)
def test_a_bad_variable(environ: dict[str, str], said: str) -> None:
    with pytest.raises(BadSetting) as error:
        load(environ)
    assert str(error.value).startswith(said)


def test_variables_of_others_that_only_begin_like_ours_stop_nothing() -> None:
    environ = {"DEMERIT_SERVICE_HOST": "10.0.0.1", "DEMERIT_PORT_80_TCP_ADDR": "10.0.0.1", "WORKERS": "x"}
    assert load(environ).places == load({}).places


def test_a_bad_flag() -> None:
    with pytest.raises(BadSetting, match=r"^--watch-interval-s is -2, and must be a number from 0\.1 to 86400$"):
        load({}, watch_interval_s=-2)
    with pytest.raises(BadSetting, match=r"^unknown setting 'worker'; did you mean workers\?$"):
        load({}, worker=None)


def test_what_is_overruled_must_be_right_too() -> None:
    with pytest.raises(BadSetting, match="DEMERIT_WORKERS"):
        load({"DEMERIT_WORKERS": "many"}, workers=1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file of settings"),
        ("folder", "cannot be read"),
        (b"workers = 1 # \xff", "settings are UTF-8 text, and this is not"),
        (b"exclude = " + b"[" * 100_000, "no TOML"),
    ],
)
def test_a_named_file_that_is_none(content: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    with pytest.raises(BadSetting, match=said) as error:
        load({FILE_VARIABLE: str(path)})
    assert str(error.value).startswith(f"{path}: ")


def test_a_long_value_is_quoted_only_in_part() -> None:
    with pytest.raises(BadSetting) as error:
        load({}, timezone="a" * 1_000_000)
    assert len(str(error.value)) < 300


# --- the proxy's ------------------------------------------------------------------------------------------


def test_settings_of_the_proxy_in_the_environment() -> None:
    settings = load(
        {
            "DEMERIT_UPSTREAMS": "qwen*=http://127.0.0.1:8081/v1,127.0.0.1:8080",
            "DEMERIT_PROXY_KEY": PASSWORD * 2,
            "DEMERIT_ALLOWED_HOSTS": "GPU.example,gpu.example,10.0.0.7:8788",
            "DEMERIT_CORS_ORIGINS": "https://app.example/,http://localhost:3000",
            "DEMERIT_REPEAT_LIMIT": "off",
            "DEMERIT_STAGNATION_LIMIT": "9",
            "DEMERIT_COSTLY_TOOLS": "fetch,2:browse",
        }
    )
    assert settings.upstreams == (
        Upstream(name="127.0.0.1:8081", url="http://127.0.0.1:8081/v1", models=("qwen*",)),
        Upstream(name="127.0.0.1:8080", url="http://127.0.0.1:8080"),
    )
    assert settings.proxy_key == PASSWORD * 2
    assert settings.allowed_hosts == ("gpu.example", "10.0.0.7:8788")
    assert settings.cors_origins == ("https://app.example", "http://localhost:3000")
    assert (settings.repeat_limit, settings.stagnation_limit) == ("off", 9)
    assert settings.costly_tools == ("fetch", "2:browse")


def test_the_port_that_kubernetes_tells_of_a_service_is_none_of_ours() -> None:
    assert load({"DEMERIT_PROXY_PORT": "tcp://10.0.0.1:8788"}).proxy_port == 8788


def test_a_flag_goes_by_the_name_that_the_command_gives_it() -> None:
    with pytest.raises(BadSetting, match=r"^--port is 70000, and must be a whole number from 1 to 65535$"):
        load({}, proxy_port=70_000)


def test_upstreams_are_shown_readably_and_in_their_order(tmp_path: Path) -> None:
    text = """
    [upstreams.local]
    url = "HTTP://GPU.example:8080/v1/"
    models = ["qwen*", "llama*"]
    embedding_models = ["e*"]
    max_inflight = 8
    [upstreams.cloud]
    url = "https://api.example/v1"
    key_variable = "CLOUD_KEY"
    """
    settings = load({}, toml(tmp_path / "a.toml", text))
    assert [upstream.url for upstream in settings.upstreams] == ["http://gpu.example:8080/v1", "https://api.example/v1"]
    assert next(value for name, value, _ in describe(settings) if name == "upstreams") == (
        "local: http://gpu.example:8080/v1 (models qwen*, llama*; embedding models e*; at most 8 requests at a time)",
        "cloud: https://api.example/v1 (with the key in CLOUD_KEY)",
    )


@pytest.mark.parametrize(
    ("given", "url"),
    [
        pytest.param("127.0.0.1:8080", "http://127.0.0.1:8080", id="a server and its port"),
        pytest.param("gpu.example:8080/v1/", "http://gpu.example:8080/v1", id="with a path and a slash at its end"),
        pytest.param("[::1]:8080", "http://[::1]:8080", id="an IPv6 address and its port"),
        pytest.param(" https://API.example/V1/ ", "https://api.example/V1", id="the path keeps its capitals"),
    ],
)
def test_a_url_is_kept_without_a_slash_at_its_end(given: str, url: str) -> None:
    assert [upstream.url for upstream in load({}, upstreams=given).upstreams] == [url]


URL = "must be an http or https URL, like http://127.0.0.1:8080/v1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ftp://h/v1", f"a URL {URL}"),
        ("localhost", f"a URL {URL}"),
        ("http://:8080/v1", f"a URL {URL}"),
        ("http://h:99999/v1", f"a URL {URL}"),
        ("http://[::1/v1", f"a URL {URL}"),
        ("http://h/a b", f"a URL {URL}"),
        (
            "http://h:1/v1/chat/completions",
            "a URL must end before /chat/completions; write http://h:1/v1",
        ),
        ("http://h/v1/models/", "a URL must end before /models; write http://h/v1"),
        (
            f"http://me:{PASSWORD}@h/v1",
            "a URL must hold no name and no password; a key goes into key or key_variable, in a table",
        ),
        (f"http://h/v1?key={PASSWORD}", f"each {URL}, or such a URL behind a glob of models, like qwen*=URL"),
        (f"http://h/v1?{PASSWORD}", "a URL must end where the paths of the API begin, without ? and #"),
        (
            ["http://a:1", "http://b:1"],
            "a:1 has every model, so b:1 behind it would never be asked; say which models a:1 has, or put it last",
        ),
        ([PASSWORD, 1], "write a table for each, which begins with a line like [upstreams.local]"),
    ],
)
def test_a_bad_url_of_an_upstream(given: object, said: str) -> None:
    with pytest.raises(BadSetting) as error:
        load({}, upstreams=given)
    assert str(error.value) == f"--upstream: {said}"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            '[upstreams]\nurl = "http://h/v1"',
            'each has a name: write a line [upstreams.local], and below it url = "http://HOST:PORT/v1"',
        ),
        (
            '[upstreams."my own"]\nurl = "http://h/v1"',
            "the name of one must be a word of at most 64 characters, as ",
        ),
        ("[upstreams.a]\n", "a has no url; write one, like http://127.0.0.1:8080/v1"),
        ('[upstreams.a]\nurl = "h"', f"url of a {URL}"),
        ('[upstreams.a]\nadress = "h"', "unknown key 'adress' in a; there are url, models, key, key_variable, max_"),
        ('[upstreams.a]\nmodel = ["q"]', "unknown key 'model' in a; did you mean models?"),
        ('[upstreams.a]\nmodels = "q"', 'models of a must be a list of globs of model names, like ["qwen*"]'),
        ("[upstreams.a]\nmodels = []", 'models of a must be a list of globs of model names, like ["qwen*"]'),
        ("[upstreams.a]\nmax_inflight = 0", "max_inflight of a must be a whole number from 1 to 100000"),
        (
            f'[upstreams.a]\nkey = "{PASSWORD} "',
            "key of a must be a key: printable ASCII characters without a space",
        ),
        (
            f'[upstreams.a]\nkey_variable = "{PASSWORD}"',
            "key_variable of a must be the name of an environment variable in capitals, like OPENAI_API_KEY",
        ),
        (
            f'[upstreams.a]\nurl = "h:1"\nkey = "{PASSWORD}"\nkey_variable = "A"',
            "a has both key and key_variable; leave one of them out",
        ),
        (
            '[upstreams.a]\nurl = "h:1"\n[upstreams.b]\nurl = "h:2"\nmodels = ["q"]',
            "a has every model, so b behind it would never be asked; say which models a has, or put it last",
        ),
        (
            f'[[upstreams]]\nkey = "{PASSWORD}"',
            "write a table for each, which begins with a line like [upstreams.local]",
        ),
    ],
)
def test_a_bad_table_of_an_upstream(table: str, said: str, tmp_path: Path) -> None:
    file = toml(tmp_path / "a.toml", table)
    with pytest.raises(BadSetting) as error:
        load({}, file)
    assert str(error.value).startswith(f"upstreams in {file}: {said}")
    assert PASSWORD not in str(error.value)


def test_a_key_is_taken_from_its_variable_when_it_is_needed() -> None:
    upstream = Upstream(name="cloud", url="https://api.example/v1", key_variable="CLOUD_KEY")
    assert key_of(upstream, {"CLOUD_KEY": f"{PASSWORD}\n"}) == PASSWORD
    with pytest.raises(BadSetting, match=r"^the upstream cloud has its key in CLOUD_KEY, which is not set; set it, or"):
        key_of(upstream, {})
    with pytest.raises(BadSetting, match=r"^CLOUD_KEY must hold a key: printable ASCII characters without a space$"):
        key_of(upstream, {"CLOUD_KEY": f"{PASSWORD} {PASSWORD}"})


def test_a_key_is_shown_nowhere(tmp_path: Path) -> None:
    file = toml(tmp_path / "a.toml", f'proxy_key = "{PASSWORD * 2}"\n[upstreams.a]\nurl = "h:1"\nkey = "{PASSWORD}"\n')
    settings = load({}, file)
    assert (settings.proxy_key, key_of(settings.upstreams[0], {})) == (PASSWORD * 2, PASSWORD)
    told = {name: value for name, value, _ in describe(settings)}
    assert (told["proxy_key"], told["upstreams"]) == ("***", ("a: http://h:1 (with a key)",))
    assert PASSWORD not in f"{settings!r}{settings}{settings.upstreams!r}{told}"


@pytest.mark.parametrize("key", [PASSWORD, f"{PASSWORD} {PASSWORD}", 1, [PASSWORD]])
def test_a_bad_key_is_not_quoted(key: object) -> None:
    with pytest.raises(BadSetting) as error:
        load({}, proxy_key=key)
    said = "--proxy-key must be a key of at least 16 printable ASCII characters without a space"
    assert str(error.value) == said


# --- passwords --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@h/shop",
        f"postgresql://me:a@b/{PASSWORD}@h/shop",
        f"postgresql://h/shop?user=me&password={PASSWORD}&x=y",
        f"postgresql://h/shop?sslpassword={PASSWORD}",
    ],
)
def test_a_password_is_shown_nowhere(url: str) -> None:
    settings = load({}, database_url=url)
    assert PASSWORD in settings.database_url
    assert PASSWORD not in f"{settings!r}{settings}{describe(settings)}"
    assert "***" in str(describe(settings)[0].value)


@pytest.mark.parametrize(
    "url",
    [f"mysql://me:{PASSWORD}@h/shop", f"postgresql://me:{PASSWORD}@h:x/shop", f"host=h password={PASSWORD} port=1"],
)
def test_a_complaint_holds_no_password(url: str) -> None:
    with pytest.raises(BadSetting) as error:
        load({}, database_url=url)
    assert PASSWORD not in str(error.value)
    assert "***" in str(error.value)


def test_what_is_no_password_stays() -> None:
    for text in ("sqlite:////a/b.db", "postgresql+psycopg://me@h:5432/shop", "postgresql+psycopg:///shop?host=/run"):
        assert without_password(text) == text


# --- anything at all --------------------------------------------------------------------------------------

anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | st.binary()


@given(st.dictionaries(st.sampled_from(NAMES), anything))
@example({"timezone": "\udc80", "machine": "\udc80"})
@example({"database_url": "sqlite:///\udc80"})
def test_a_value_is_taken_as_it_is_kept_or_refused_in_one_sentence(values: dict[str, Any]) -> None:
    with suppress(BadSetting):
        settings = load({}, **values)
        kept: dict[str, Any] = {name: getattr(settings, name) for name in NAMES}
        again = load({}, **kept)
        assert {name: getattr(again, name) for name in NAMES} == kept


@given(st.sampled_from(NAMES), anything)
def test_a_refusal_is_one_line(name: str, value: object) -> None:
    flags: dict[str, Any] = {name: value}
    said = ""
    try:
        load({}, **flags)
    except BadSetting as error:
        said = str(error)
    assert said.count("\n") == 0 and len(said) < 400
