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
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote
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

Origin = Literal["default", "file", "environment", "flag"]
Value: TypeAlias = str | bool | int | float | tuple[str, ...]


class BadSetting(Exception):
    """A setting that cannot be used. The message is one plain sentence: where it stands, and what is allowed."""


class Place(NamedTuple):
    """Where a value came from."""

    origin: Origin
    name: str | None = None
    """Path of the file, environment variable, or flag; None for a default."""


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
    do; its message is a better value, where there is one."""


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

    @property
    def type(self) -> str:
        return self.kind.name

    @property
    def variable(self) -> str:
        """The environment variable."""
        return _PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


class Described(NamedTuple):
    name: str
    value: Value
    """Without a password."""
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


def _list(of: str, finish: Callable[[tuple[str, ...], str], tuple[str, ...]]) -> Kind:
    return Kind("list", tuple[Annotated[str, Meta(min_length=1)], ...], f"a list of {of}", finish)


_SWITCH = Kind("true or false", bool, "true or false")
_SECONDS = _number(0.1, 86400)


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
        if text:  # set to nothing is how scripts and containers leave one out
            given: object = [part for part in text.split(os.pathsep) if part] if setting.type == "list" else text
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
    hint = ""
    try:
        typed = msgspec.convert(value, kind.type, strict=not is_text)
        return kind.finish(typed, base) if kind.finish else typed
    except msgspec.ValidationError:
        pass
    except ValueError as error:
        hint = f"; did you mean {error}?" if str(error) else ""
    quoted = without_password(repr(value))
    quoted = quoted if len(quoted) <= _QUOTED else f"{quoted[:_QUOTED]}..."
    raise BadSetting(f"{where} is {quoted}, and must be {kind.allowed}{hint}")
