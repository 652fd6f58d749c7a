"""The settings: their defaults, then a TOML file, then the environment, then flags; the later one wins.

`SETTINGS` is the one table of them, and docs/config.md shows it to people. Nothing is read before `load` is called.
"""

from __future__ import annotations

import os
import platform
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, available_timezones

import msgspec
import platformdirs
import tzlocal
from msgspec import Meta

FILE_VARIABLE = "DEMERIT_CONFIG"
"""Environment variable that names the file, in place of `config.toml` in the user's folder of configurations."""

_PREFIX = "DEMERIT_"
# Others may put variables like ours there (Kubernetes does, for a service of that name), so of those that we do not
# know only what looks like a slip stops the program. In the file every key that we do not know does.
_SLIP = 0.75
_QUOTED = 100
# A password may hold what stands between the parts of a URL: it goes on to an @ after which a server can be read.
_POSTGRES = re.compile(
    r"postgres(?:ql)?(?:\+psycopg)?://(?:(?P<user>[^:/?@]*(?::.*?)?)@)?"
    r"(?P<server>(?:\[[^\]/?@]*\]|[^:/?@\[\]]*)(?::(?P<port>\d{1,5}))?)(?P<rest>(?:[/?].*)?)",
    re.IGNORECASE | re.DOTALL,
)
_SQLITE = re.compile(r"sqlite(?:\+pysqlite)?:///([^?]+)", re.IGNORECASE | re.DOTALL)
_ANY_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)

_ENDPOINT = re.compile(r"/(chat/completions|completions|responses|messages|embeddings|models)$", re.IGNORECASE)
_BARE_SERVER = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+):\d{1,5}(/.*)?", re.IGNORECASE)

Origin = Literal["default", "file", "environment", "flag"]
GuardMode = Literal["off", "note", "refuse"]
Limit: TypeAlias = int | Literal["off"]
Value: TypeAlias = str | bool | int | float | tuple[str, ...]


class BadSetting(Exception):
    """A setting that cannot be used. The message is one plain sentence: where it stands, and what is allowed."""


class Place(NamedTuple):
    """Where a value came from."""

    origin: Origin
    name: str | None = None
    """Path of the file, environment variable, or flag; None for a default."""


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """A model server behind the proxy, as the settings name it. `key_of` gives its key."""

    name: str
    url: str
    """http or https; without a name, a password, a query, or a slash at its end."""
    models: tuple[str, ...] = ("*",)
    """Globs of the models that it has; the first upstream with one that matches is asked."""
    key: str | None = None
    key_variable: str | None = None
    """Environment variable that holds the key; never together with `key`."""
    max_inflight: int | None = None
    embedding_models: tuple[str, ...] = ()
    """Globs of models that cannot chat."""

    def __repr__(self) -> str:
        return f"Upstream({_shown_upstream(self)!r})"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, checked. `SETTINGS` says what each of them means."""

    database_url: str
    """As SQLAlchemy takes it. It may hold a password: show what `describe` gives."""
    archive: bool
    timezone: str
    machine: str
    workers: int
    watch_interval_s: float
    settle_interval_s: float
    exclude: tuple[str, ...]
    roots: tuple[str, ...]
    """Absolute."""
    redact: bool
    upstreams: tuple[Upstream, ...]
    proxy_host: str
    proxy_port: int
    proxy_key: str
    """Secret; empty: none is given."""
    allowed_hosts: tuple[str, ...]
    cors_origins: tuple[str, ...]
    loop_guard_mode: GuardMode
    repeat_limit: Limit
    read_only_limit: Limit
    stagnation_limit: Limit
    read_only_tools: tuple[str, ...]
    """Empty: the built-in list, as with `costly_tools`."""
    costly_tools: tuple[str, ...]
    body_limit_mb: int
    connect_timeout_s: float
    first_byte_timeout_s: float
    idle_timeout_s: float
    keepalive_s: float
    queue_size: int
    queue_wait_s: float
    places: dict[str, Place]
    """Where each of them came from, by its name."""

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value, _ in describe(self))})"


class Kind(NamedTuple):
    """What a setting may be."""

    name: str
    type: Any
    allowed: str
    """Ends the sentence "... must be"."""
    finish: Callable[[Any, str], Any] | None = None
    """What to keep, from a value of `type` and the folder that relative paths begin at. ValueError when it will not
    do; its message is a better value, where there is one. BadSetting where there is more to say: its message then
    stands in place of what is allowed."""
    shows: Callable[[Any], Value] | None = None
    """What people may see of a value that can hold a secret: it is quoted nowhere. None: all of it."""
    separator: str = os.pathsep
    """Stands between the items of a list in an environment variable."""


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    kind: Kind
    default: Value | Callable[[Mapping[str, str]], str]
    """As it would be given; a function of the environment where the machine decides."""
    unit: str
    help: str
    default_in_words: str = ""
    """Where the machine decides."""
    option: str = ""
    """The flag, where it has a shorter one than its name."""

    @property
    def type(self) -> str:
        return self.kind.name

    @property
    def variable(self) -> str:
        """The environment variable."""
        return _PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return self.option or "--" + self.name.replace("_", "-")


class Described(NamedTuple):
    name: str
    value: Value
    """Without a password or a key."""
    place: Place


# --- what a setting may be --------------------------------------------------------------------------------


def _database(text: str, base: str) -> str:
    if match := _POSTGRES.fullmatch(text):
        if int(match["port"] or 0) > 65535:
            raise ValueError
        user = "" if match["user"] is None else match["user"].replace("@", "%40") + "@"
        return f"postgresql+psycopg://{user}{match['server']}{match['rest']}"
    file = _SQLITE.fullmatch(text)
    if not file and _ANY_URL.match(text):
        raise ValueError
    path = unquote(file[1]) if file else text
    if path == ":memory:" or re.match(r"\w+ *= *\S+ ", path):  # the latter is PostgreSQL's other form, no path
        raise ValueError
    path = _absolute(path, base)
    for character in "%?#":  # what SQLAlchemy would not take for a part of the path
        path = path.replace(character, f"%{ord(character):X}")
    return f"sqlite:///{path}"


def _zone(name: str, _: str) -> str:
    if _is_zone(name):
        return name
    zones = [zone for zone in sorted(available_timezones()) if "/" in zone]  # EST and its like are no places
    names = {zone.rpartition("/")[2].lower(): zone for zone in zones} | {zone.lower(): zone for zone in zones}
    near = get_close_matches(name[:_QUOTED].replace(" ", "_").lower(), names, 1, 0.8)
    raise ValueError(names[near[0]] if near else "")


def _is_zone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name).key)
    except (KeyError, ValueError, OSError):  # KeyError: none of that name; the others: the name of something else
        return False


def _machine(name: str, _: str) -> str:
    if not name.isprintable() or name.isspace():
        raise ValueError
    return name


def _folders(paths: tuple[str, ...], base: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_absolute(path, base) for path in paths))


def _globs(globs: tuple[str, ...], _: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(os.path.expanduser, globs)))


def _absolute(path: str, base: str) -> str:
    if "\0" in path:
        raise ValueError
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))


def _whole(least: int, most: int) -> Kind:
    return Kind("whole number", Annotated[int, Meta(ge=least, le=most)], f"a whole number from {least} to {most}")


def _number(least: float, most: float) -> Kind:
    return Kind("number", Annotated[float, Meta(ge=least, le=most)], f"a number from {least:g} to {most:g}")


def _text(allowed: str, finish: Callable[[str, str], str], most: int = 4096) -> Kind:
    return Kind("text", Annotated[str, Meta(min_length=1, max_length=most)], allowed, finish)


def _list(of: str, finish: Callable[[tuple[str, ...], str], tuple[str, ...]], separator: str = os.pathsep) -> Kind:
    kind = tuple[Annotated[str, Meta(min_length=1, max_length=4096)], ...]
    return Kind("list", kind, f"a list of {of}", finish, separator=separator)


_SWITCH = Kind("true or false", bool, "true or false")
_SECONDS = _number(0.1, 86400)
# Nought is no way to say "off": the first batch would be a loop.
_LIMIT = Kind(
    "whole number or `off`",
    Annotated[int, Meta(ge=1, le=1000)] | Literal["off"],
    'a whole number from 1 to 1000, or "off"',
)


# --- what the proxy may be told -----------------------------------------------------------------------------

_LEAST_KEY = 16
_ADDRESS = "an address of this machine without a port, like 127.0.0.1, or 0.0.0.0 for all of them"


def _address(text: str, _: str) -> str:
    host = _bare_host(text)
    if host is None:
        raise ValueError({"*": "0.0.0.0"}.get(text, ""))
    if host != text.lower().strip("[]"):
        raise ValueError(host)
    return host


def _bare_host(text: str) -> str | None:
    """The host in a URL or before a port, in lower case; None where there is none."""
    text = text.lower()
    if re.fullmatch(r"[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*", text):  # IPv6 as it is
        return text
    try:
        host = urlsplit(text if "://" in text else f"//{text}").hostname
    except ValueError:
        return None
    return host if host and re.fullmatch(r"[a-z0-9._:-]{1,255}", host) else None


def _host_names(names: tuple[str, ...], _: str) -> tuple[str, ...]:
    for name in names:
        host = _bare_host(name)
        if host is None or "/" in name:
            raise ValueError(host or "")
    return tuple(dict.fromkeys(map(str.lower, names)))


def _origins(origins: tuple[str, ...], _: str) -> tuple[str, ...]:
    found = [origin.lower().rstrip("/") for origin in origins]
    for origin in found:
        if origin != "*" and not re.fullmatch(r"https?://[a-z0-9._:\[\]-]+", origin):
            host = _bare_host(origin)
            raise ValueError(f"https://{host}" if host else "")
    return tuple(dict.fromkeys(found))


def _tools(names: tuple[str, ...], _: str) -> tuple[str, ...]:
    if not all(name.isprintable() and name.strip() for name in names):
        raise ValueError
    return tuple(dict.fromkeys(names))


def _proxy_key(text: str, _: str) -> str:
    if text and not (len(text) >= _LEAST_KEY and _is_key(text)):
        raise ValueError
    return text


def _is_key(text: str) -> bool:
    """Whether a text can stand in a header as one word."""
    return re.fullmatch(r"[!-~]{1,4096}", text) is not None


_GLOBS = tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...]
_URL = "an http or https URL, like http://127.0.0.1:8080/v1"
_PARTS: dict[str, tuple[Any, str]] = {
    "url": (str, _URL),
    "models": (Annotated[_GLOBS, Meta(min_length=1)], 'a list of globs of model names, like ["qwen*"]'),
    "key": (Annotated[str, Meta(pattern=r"\A[!-~]{1,4096}\Z")], "a key: printable ASCII characters without a space"),
    "key_variable": (
        Annotated[str, Meta(pattern=r"\A[A-Z_][A-Z0-9_]*\Z")],
        "the name of an environment variable in capitals, like OPENAI_API_KEY",
    ),
    "max_inflight": (Annotated[int, Meta(ge=1, le=100_000)], "a whole number from 1 to 100000"),
    "embedding_models": (_GLOBS, "a list of globs of model names"),
}
"""What stands in a table `[upstreams.NAME]`: its type, and what is allowed."""


def _upstreams(value: object, _: str) -> tuple[Upstream, ...]:
    """From tables by name, or from URLs, each of which may have a glob of models and `=` before it.

    Nothing that is given may be quoted: it can hold a key.
    """
    if isinstance(value, dict):
        found = [_upstream(name, table) for name, table in value.items()]
    elif isinstance(value, str):
        found = _from_urls([value])
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        found = _from_urls(value)
    elif isinstance(value, list) and all(isinstance(item, Upstream) for item in value):
        found = value
    else:
        raise BadSetting("write a table for each, which begins with a line like [upstreams.local]")
    for first, second in pairwise(found):
        if "*" in first.models:
            raise BadSetting(
                f"{first.name} has every model, so {second.name} behind it would never be asked; say which "
                f"models {first.name} has, or put it last"
            )
    return tuple(found)


def _upstream(name: str, table: object) -> Upstream:
    if not isinstance(table, dict):
        # Whoever forgets the name has written the keys of a table here.
        raise BadSetting('each has a name: write a line [upstreams.local], and below it url = "http://HOST:PORT/v1"')
    if not re.fullmatch(r"\S{1,64}", name) or not name.isprintable():
        raise BadSetting("the name of one must be a word of at most 64 characters, as in [upstreams.local]")
    values: dict[str, Any] = {}
    for key, given in table.items():
        if key not in _PARTS:
            near = _nearest(key, _PARTS)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(_PARTS)}"
            raise BadSetting(f"unknown key {key[:_QUOTED]!r} in {name}; {hint}")
        kind, allowed = _PARTS[key]
        try:
            values[key] = msgspec.convert(given, kind)
        except msgspec.ValidationError:
            raise BadSetting(f"{key} of {name} must be {allowed}") from None
    if "url" not in values:
        raise BadSetting(f"{name} has no url; write one, like http://127.0.0.1:8080/v1")
    if "key" in values and "key_variable" in values:
        raise BadSetting(f"{name} has both key and key_variable; leave one of them out")
    return Upstream(**{**values, "name": name, "url": _base_url(values["url"], f"url of {name}")})


def _from_urls(texts: Iterable[str]) -> list[Upstream]:
    models: dict[str, list[str]] = {}
    for text in texts:
        glob, found, url = text.strip().rpartition("=")
        if found and not (glob and len(glob) <= 256 and glob.isprintable() and "://" not in glob):
            raise BadSetting(f"each must be {_URL}, or such a URL behind a glob of models, like qwen*=URL")
        models.setdefault(_base_url(url, "a URL"), []).append(glob if found else "*")
    servers = [urlsplit(url).netloc for url in models]
    return [
        Upstream(
            name=server if servers.count(server) == 1 else server + urlsplit(url).path,
            url=url,
            models=tuple(dict.fromkeys(globs)),
        )
        for server, (url, globs) in zip(servers, models.items(), strict=True)
    ]


def _base_url(text: str, what: str) -> str:
    """The base of an API as it is kept. what: begins the sentence about one that will not do."""
    text = text.strip()
    if _BARE_SERVER.fullmatch(text):
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not re.fullmatch(r"[!-~]{1,2000}", text):
        raise BadSetting(f"{what} must be {_URL}")
    if "@" in parts.netloc:
        raise BadSetting(f"{what} must hold no name and no password; a key goes into key or key_variable, in a table")
    if "?" in text or "#" in text:
        raise BadSetting(f"{what} must end where the paths of the API begin, without ? and #")
    path = parts.path.rstrip("/")
    server = f"{parts.scheme}://{parts.netloc.lower()}"
    if end := _ENDPOINT.search(path):
        raise BadSetting(f"{what} must end before {end[0]}; write {server}{path[: end.start()]}")
    return server + path


def _shown_upstream(upstream: Upstream) -> str:
    """An upstream in one line, without its key."""
    parts = [] if upstream.models == ("*",) else [f"models {', '.join(upstream.models)}"]
    if upstream.embedding_models:
        parts.append(f"embedding models {', '.join(upstream.embedding_models)}")
    if upstream.max_inflight is not None:
        parts.append(f"at most {upstream.max_inflight} requests at a time")
    if upstream.key is not None:
        parts.append("with a key")
    elif upstream.key_variable is not None:
        parts.append(f"with the key in {upstream.key_variable}")
    return f"{upstream.name}: {upstream.url}" + (f" ({'; '.join(parts)})" if parts else "")


def key_of(upstream: Upstream, environ: Mapping[str, str]) -> str | None:
    """The key of an upstream; None where it has none. Raises BadSetting where its variable holds none.

    Not looked for before it is needed: a variable that is missing stops the proxy, and no other command.
    """
    if upstream.key_variable is None:
        return upstream.key
    key = environ.get(upstream.key_variable, "").strip()
    if not key:
        raise BadSetting(
            f"the upstream {upstream.name} has its key in {upstream.key_variable}, which is not set; set it, or take "
            "key_variable out of the settings"
        )
    if not _is_key(key):
        raise BadSetting(f"{upstream.key_variable} must hold a key: printable ASCII characters without a space")
    return key


# --- what the machine decides -----------------------------------------------------------------------------


def _own_database(_: Mapping[str, str]) -> str:
    return str(platformdirs.user_data_path("demerit", appauthor=False) / "demerit.db")


def _own_zone(environ: Mapping[str, str]) -> str:
    named = environ.get("TZ", "").removeprefix(":").rpartition("zoneinfo/")[2]
    if named and _is_zone(named):
        return named
    try:
        with warnings.catch_warnings(action="ignore"):
            found = tzlocal.get_localzone_name()
    except (KeyError, ValueError, OSError):  # the machine's own files contradict one another
        found = None
    return found if found and _is_zone(found) else "UTC"


def _own_name(_: Mapping[str, str]) -> str:
    return platform.node() or "localhost"


# --- the table --------------------------------------------------------------------------------------------

SETTINGS = (
    Setting(
        "database_url",
        _text("a file, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE", _database),
        _own_database,
        "",
        "The database: a file for SQLite, or `postgresql://USER:PASSWORD@HOST/DATABASE`, which several machines may "
        "share. What is special in a password is written as in every URL: `%40` for `@`.",
        "`demerit.db` in the user's data folder",
    ),
    Setting(
        "archive",
        _SWITCH,
        True,
        "",
        "Keep the bytes of each log, compressed: a better parser reaches old sessions, and a log that its agent "
        "deletes is not lost.",
    ),
    Setting(
        "timezone",
        _text("the name of a time zone, like Europe/Rome", _zone),
        _own_zone,
        "",
        "The zone in which days, weeks and hours are cut, by its IANA name.",
        "the machine's; `UTC` where it has no name",
    ),
    Setting(
        "machine",
        _text("a name of at most 200 characters that can be printed", _machine, 200),
        _own_name,
        "",
        "Names this machine's logs in a database that several machines share. Under another name they are others.",
        "the host name",
    ),
    Setting(
        "workers", _whole(0, 1024), 0, "processes", "How many processes read logs at a time; `0` is one for each core."
    ),
    Setting("watch_interval_s", _SECONDS, 2, "seconds", "How long `watch` waits between two looks at the logs."),
    Setting("settle_interval_s", _SECONDS, 60, "seconds", "How long between two passes that grade what has ended."),
    Setting(
        "exclude",
        _list("globs, as texts that are not empty", _globs),
        (),
        "",
        "Globs of paths that are never read, like `~/clients/*`.",
    ),
    Setting(
        "roots",
        _list("folders, as texts that are not empty", _folders),
        (),
        "",
        "Further folders with logs, besides those of the agents.",
    ),
    Setting("redact", _SWITCH, True, "", "Mask secrets in what leaves the store: exports, recordings, answers."),
    Setting(
        "upstreams",
        Kind(
            "tables",
            Any,
            _URL,
            _upstreams,
            shows=lambda upstreams: tuple(map(_shown_upstream, upstreams)),
            separator=",",
        ),
        (),
        "",
        "The model servers behind [the proxy](proxy.md): [a table for each](proxy.md#several-upstreams) in the file, a "
        "URL elsewhere.",
        option="--upstream",
    ),
    Setting(
        "proxy_host",
        _text(_ADDRESS, _address, 255),
        "127.0.0.1",
        "",
        "Where the proxy listens. Anywhere but on the loopback, clients need [its key](proxy.md#access-and-keys).",
        option="--host",
    ),
    Setting("proxy_port", _whole(1, 65535), 8788, "TCP port", "Where the proxy listens.", option="--port"),
    Setting(
        "proxy_key",
        Kind(
            "secret text",
            Annotated[str, Meta(max_length=4096)],
            f"a key of at least {_LEAST_KEY} printable ASCII characters without a space",
            _proxy_key,
            shows=lambda key: "***" if key else "",
        ),
        "",
        "",
        "What clients of the proxy have to show. Empty: nothing on the loopback, and elsewhere a key that is made when "
        "it first starts.",
    ),
    Setting(
        "allowed_hosts",
        _list("host names, without a scheme and a path", _host_names, ","),
        (),
        "",
        "Names under which clients reach the proxy, besides `localhost` and the address where it listens.",
    ),
    Setting(
        "cors_origins",
        _list("origins, like https://app.example, or *", _origins, ","),
        (),
        "",
        "Origins of web pages that may call the proxy; `*` is all.",
    ),
    Setting(
        "loop_guard_mode",
        Kind("`off`, `note` or `refuse`", GuardMode, "off, note or refuse"),
        "note",
        "",
        "What [the loop guard](proxy.md#the-loop-guard) does with a request that goes round in circles.",
    ),
    Setting(
        "repeat_limit",
        _LIMIT,
        2,
        "calls in a row",
        "Same calls with no new answer that the loop guard lets pass; the next one acts.",
    ),
    Setting(
        "read_only_limit",
        _LIMIT,
        15,
        "calls in a row",
        "The same where every call only looks; and the most for all others, whatever the answers.",
    ),
    Setting(
        "stagnation_limit",
        _LIMIT,
        5,
        "answers",
        "Same answers without a call that the loop guard lets pass; the next one acts.",
    ),
    Setting(
        "read_only_tools",
        _list("names of tools", _tools, ","),
        (),
        "",
        "Tools that only look, in place of the built-in list. Empty: that list.",
    ),
    Setting(
        "costly_tools",
        _list("names of tools", _tools, ","),
        (),
        "",
        "Of these, tools that nobody wants called for ever, in place of the built-in list. Empty: that list.",
    ),
    Setting("body_limit_mb", _whole(1, 1024), 32, "MiB", "Largest body of a request that the proxy takes."),
    Setting("connect_timeout_s", _SECONDS, 5, "seconds", "How long an upstream may take to accept a connection."),
    Setting("first_byte_timeout_s", _SECONDS, 300, "seconds", "How long an upstream may take to begin its answer."),
    Setting("idle_timeout_s", _SECONDS, 300, "seconds", "How long an upstream may be silent within an answer."),
    Setting("keepalive_s", _SECONDS, 15, "seconds", "After so long without a byte, a waiting client gets a comment."),
    Setting(
        "queue_size", _whole(0, 100_000), 64, "requests", "How many may wait for an upstream that has `max_inflight`."
    ),
    Setting("queue_wait_s", _SECONDS, 30, "seconds", "How long they may wait."),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def load(environ: Mapping[str, str], file: Path | None = None, **flags: object) -> Settings:
    """The settings in force.

    environ: where DEMERIT_... are looked for; the user's folders are those of the process.
    file: the TOML file, in place of $DEMERIT_CONFIG and the user's own. Only the user's own may be absent.
    flags: by the name of the setting; None is one that was not given.
    Raises BadSetting for the first that is unknown or not allowed, even where a later place overrules it.
    """
    here = os.getcwd()
    values: dict[str, Any] = {}
    for name, setting in _BY_NAME.items():
        default = setting.default(environ) if callable(setting.default) else setting.default
        values[name] = _checked(setting, default, here, f"the default of {name}")
    places = dict.fromkeys(values, Place("default"))
    for given in (_in_file(environ, file, here), _in_environment(environ, here), _in_flags(flags, here)):
        for name, value, place in given:
            values[name] = value
            places[name] = place
    return Settings(**values, places=places)


def describe(settings: Settings) -> list[Described]:
    """Every setting in the order of `SETTINGS`: its value, and where that came from."""
    found = []
    for name, place in settings.places.items():
        value = getattr(settings, name)
        if shows := _BY_NAME[name].kind.shows:
            value = shows(value)
        found.append(Described(name, without_password(value) if isinstance(value, str) else value, place))
    return found


def without_password(text: str) -> str:
    """A text with `***` for the passwords of the URLs in it."""
    # Up to the last @, for passwords that hold one unescaped: rather too much is hidden than too little.
    text = re.sub(r"(://[^:/@]*:).*@", r"\1***@", text, flags=re.DOTALL)
    return re.sub(r"(password\s*=\s*)[^&\s]*", r"\1***", text, flags=re.IGNORECASE)


def settings_table() -> str:
    """The settings as the Markdown table of docs/config.md."""
    lines = [["setting", "type", "default", "unit", "environment variable", "what it does"], ["---"] * 6]
    for setting in SETTINGS:
        default = setting.default_in_words or f"`{msgspec.json.encode(setting.default).decode()}`"
        cells = [f"`{setting.name}`", setting.type, default, setting.unit, f"`{setting.variable}`", setting.help]
        lines.append(cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


# --- where they are given ---------------------------------------------------------------------------------

_Given: TypeAlias = Iterator[tuple[str, Any, Place]]


def _in_file(environ: Mapping[str, str], file: Path | None, here: str) -> _Given:
    named = file or environ.get(FILE_VARIABLE)
    path = Path(named or platformdirs.user_config_path("demerit", appauthor=False) / "config.toml").expanduser()
    path = Path(here, path)
    for key, value in _toml(path, may_be_absent=not named).items():
        setting = _named(key, f"unknown setting {key!r} in {path}")
        value = _checked(setting, value, str(path.parent), f"{key} in {path}")
        yield setting.name, value, Place("file", str(path))


def _toml(path: Path, may_be_absent: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        if may_be_absent:
            return {}
        raise BadSetting(f"{path}: no such file of settings; make it, or name another") from None
    except UnicodeDecodeError:
        raise BadSetting(f"{path}: settings are UTF-8 text, and this is not; save it as that") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadSetting(f"{path}: no TOML ({error}); a setting is a line like workers = 2") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadSetting(f"{path}: cannot be read ({reason}); settings are a file that you may read") from None


def _in_environment(environ: Mapping[str, str], here: str) -> _Given:
    variables = {"config": FILE_VARIABLE} | {setting.name: setting.variable for setting in SETTINGS}
    for name in environ:
        if name.upper().startswith(_PREFIX) and name not in variables.values():
            near = _nearest(name[len(_PREFIX) :], variables, _SLIP)
            if near:
                raise BadSetting(f"unknown environment variable {name}; did you mean {variables[near]}?")
    for setting in SETTINGS:
        text = environ.get(setting.variable)
        if text and text.startswith("tcp://"):  # Kubernetes' PORT of a service that is called demerit-proxy
            continue
        if text:  # set to nothing is how scripts and containers leave one out
            is_many = setting.type in ("list", "tables")
            given: object = list(filter(None, text.split(setting.kind.separator))) if is_many else text
            value = _checked(setting, given, here, setting.variable, is_text=True)
            yield setting.name, value, Place("environment", setting.variable)


def _in_flags(flags: Mapping[str, object], here: str) -> _Given:
    for key, value in flags.items():
        setting = _named(key, f"unknown setting {key!r}")
        if value is not None:
            yield setting.name, _checked(setting, value, here, setting.flag), Place("flag", setting.flag)


def _named(key: str, complaint: str) -> Setting:
    if key in _BY_NAME:
        return _BY_NAME[key]
    near = _nearest(key, _BY_NAME)
    raise BadSetting(f"{complaint}; did you mean {near}?" if near else f"{complaint}; there are {', '.join(_BY_NAME)}")


def _nearest(key: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    return next(iter(get_close_matches(key[:_QUOTED].replace("-", "_").lower(), names, 1, cutoff)), None)


def _checked(setting: Setting, value: object, base: str, where: str, is_text: bool = False) -> Any:
    """The value to keep. base: the folder that relative paths begin at. is_text: numbers may be digits."""
    kind = setting.kind
    if isinstance(value, list | tuple):
        value = [os.fspath(item) if isinstance(item, os.PathLike) else item for item in value]
    elif isinstance(value, os.PathLike):
        value = os.fspath(value)
    tail = ""
    try:
        typed = msgspec.convert(value, kind.type, strict=not is_text)
        return kind.finish(typed, base) if kind.finish else typed
    except msgspec.ValidationError:
        pass
    except BadSetting as error:
        raise BadSetting(f"{where}: {error}") from None
    except ValueError as error:
        tail = f"; did you mean {error}?" if str(error) else ""
    if kind.shows:
        raise BadSetting(f"{where} must be {kind.allowed}{tail}")
    quoted = without_password(repr(value))
    quoted = quoted if len(quoted) <= _QUOTED else f"{quoted[:_QUOTED]}..."
    raise BadSetting(f"{where} is {quoted}, and must be {kind.allowed}{tail}")
