"""Reads what agents leave on disk: which file is whose, and its records, a piece at a time.

The only place of the log side that opens files. A walk never follows a link out of its folder, and what it
cannot read becomes a `Skipped` with the reason. A path that the caller named raises `Unreadable`.
"""

from __future__ import annotations

import codecs
import fnmatch as patterns
import glob
import io
import math
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from demerit.model import Body, Session
from demerit.parsers import PARSERS, parser_for
from demerit.parsers.records import (
    BAD_CONTENT,
    Home,
    Losses,
    Parser,
    Query,
    Record,
    Resumed,
    Sample,
    Source,
    digest,
    json_head,
    salvage,
)

JSON_SUFFIXES = (".jsonl", ".json")
"""A walk of a folder reports what it cannot read of these; other files, only when they are an agent's."""
_OTHER_SUFFIXES = tuple({suffix for parser in PARSERS for suffix in parser.suffixes} - set(JSON_SUFFIXES))
_BUNDLES = [parser.bundle for parser in PARSERS if parser.bundle is not None]
_TEXT_BYTES = 4096
_SQLITE = b"SQLite format 3\0"
_NO_PLACE = ("SQLITE_CANTOPEN", "SQLITE_READONLY_DIRECTORY")
_SAMPLE_LINES = 50
_SAMPLE_BYTES = 1 << 20
_BUFFER = 1 << 20
_BLANKS = b" \t\r\n\0" + codecs.BOM_UTF8
# A longer line is cut into pieces, each a malformed record: better than all of it in memory.
_MAX_LINE = 1 << 27
# SQLite's steps between two looks at how long it is at it, and the looks that even a small database has.
_STEPS, _LOOKS = 100_000, 20
# Bytes of rows that even a small database may give.
_MOST_ROWS = 1 << 26
# A JSON file is decoded as one value, so all of it has to fit into memory.
_MAX_DOCUMENT = 1 << 29


class Unreadable(Exception):
    """A source gave no session. The message is one plain sentence with the path and what is wrong."""

    def __init__(self, path: str, reason: str, known_agent: bool = False) -> None:
        super().__init__(path, reason, known_agent)  # what pickling between processes needs
        self.path = path
        self.reason = reason
        self.known_agent = known_agent
        """It is, or lies among, the logs of an agent that we know: a gate must not pass over it."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def find_logs(names: Iterable[str], skipped: list[Unreadable]) -> Iterator[Path]:
    """The files to read, each once: a path itself, all logs below it where it is a folder, what a glob matches.

    What a walk cannot enter goes to `skipped`. Raises Unreadable for a name that matches nothing.
    """
    seen: set[tuple[int, int]] = set()
    for name in names:
        matches = [name] if os.path.lexists(name) else sorted(glob.glob(name, recursive=True))
        if not matches:
            raise Unreadable(name, _why_missing(Path(name)))
        for path in map(Path, matches):
            for file in _walk(path, skipped) if _is_folder(path) else (path,):
                identity = _identity(file)
                if identity is None or identity not in seen:
                    if identity is not None:
                        seen.add(identity)
                    yield file


def _why_missing(path: Path) -> str:
    try:
        path.stat()
    except PermissionError:
        return "no permission to look into its folder"
    except (OSError, ValueError):
        pass
    return "no such file or folder"


def agent_logs(home: Path, environ: Mapping[str, str], skipped: list[Unreadable]) -> Iterator[Path]:
    """The logs in the own folders of the agents that we know, as far as this user has any, each once."""
    seen: set[Path] = set()
    for _, place, folder in agent_homes(home, environ):
        if not _is_folder(folder):
            continue
        for path in _walk(folder, skipped, deep="/" in place.pattern):
            if path not in seen and _fits(path.relative_to(folder).as_posix(), place.pattern):
                seen.add(path)
                yield path


def is_agents_log(path: Path, home: Path, environ: Mapping[str, str]) -> bool:
    """Whether a file's place and name are those of some agent's log: what `agent_logs` would look at."""
    for _, place, folder in agent_homes(home, environ):
        if path.is_relative_to(folder) and _fits(path.relative_to(folder).as_posix(), place.pattern):
            return True
    return False


def _fits(below: str, pattern: str) -> bool:
    # `**/` stands for no folder as well, which fnmatch does not know.
    return fnmatch(below, pattern) or fnmatch(below, pattern.replace("**/", ""))


def agent_homes(home: Path, environ: Mapping[str, str]) -> Iterator[tuple[Parser, Home, Path]]:
    """Where each agent keeps its logs on this machine, whether it is there or not."""
    for parser in PARSERS:
        for place in parser.homes:
            replaced = place.replaces or place.folder.partition("/")[0]
            moved = environ.get(place.env) if place.env else None
            yield parser, place, Path(moved or home / replaced, place.folder.removeprefix(replaced).lstrip("/"))


def missing_homes(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables that name a place of an agent's logs, with the folders they name, where there is no such folder."""
    named = {
        place.env: environ[place.env] for p in PARSERS for place in p.homes if place.env and environ.get(place.env)
    }
    return [(name, folder) for name, folder in named.items() if not _is_folder(Path(folder))]


def _walk(root: Path, skipped: list[Unreadable], deep: bool = True) -> Iterator[Path]:
    def complain(error: OSError) -> None:
        skipped.append(_unreadable(Path(error.filename or root), error))

    # os.walk enters no linked folder, so a loop of links ends here.
    for folder, folders, names in os.walk(root, onerror=complain):
        folders[:] = sorted(folders) if deep else ()
        parts = _parts_among(Path(folder), names)
        for name in sorted(names):
            path = Path(folder, name)
            if not name.endswith((*JSON_SUFFIXES, *_OTHER_SUFFIXES)) or name in parts:
                continue
            if path.is_symlink() and not _stays_in(path, root):
                continue
            if name.endswith(JSON_SUFFIXES) or _begins_like_a_log(path):
                yield path


def _parts_among(folder: Path, names: list[str]) -> set[str]:
    """Files of a folder that belong to a source of several files, of which they are not the main one."""
    found: set[str] = set()
    for bundle in _BUNDLES:
        mains = patterns.filter(names, bundle.main)
        parts: set[str] = set()
        for pattern in bundle.parts:
            if "/" in pattern:
                inner, _, last = (
                    pattern.replace("../", "").format(stem=Path(bundle.main).stem, part="*").rpartition("/")
                )
                fitting = patterns.filter(names, last)
                # A name alone could be anybody's: the main file has to be there, as deep as the pattern climbs.
                down = "*/" * pattern.count("../") + bundle.main
                if fitting and (folder.match(inner) if inner else any(folder.glob(down))):
                    parts.update(fitting)
            elif "{stem}" in pattern:
                parts.update(pattern.format(stem=Path(name).stem) for name in mains)
            elif mains:
                parts.update(patterns.filter(names, pattern))
        found |= parts.difference(mains)
    return found


def _begins_like_a_log(path: Path) -> bool:
    """Whether a file that is no JSON by its name is some agent's log: a folder may hold thousands that are not."""
    try:
        if not path.is_file():
            return False
        with path.open("rb", buffering=_BUFFER) as file:
            if file.read(len(_SQLITE)) == _SQLITE:
                return _is_an_agents_database(path)
            file.seek(0)
            return _recognise(_lines(file))[0] is not None
    except OSError:
        return False


def _is_an_agents_database(path: Path) -> bool:
    try:
        with closing(_open_database(path)) as database:
            return parser_for(Sample(tables=_tables(database))) is not None
    except sqlite3.Error:
        return True  # whosever it is, it is broken: what reads it says how


def _is_folder(path: Path) -> bool:
    """Whether it is a folder; what we may not even look at is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _stays_in(path: Path, root: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _unreadable(path: Path, error: OSError | ValueError) -> Unreadable:
    if isinstance(error, PermissionError):
        reason = "no permission to read it"
    elif isinstance(error, FileNotFoundError):
        reason = "no such file" if not path.is_symlink() else "its link leads nowhere"
    else:
        reason = getattr(error, "strerror", None) or str(error)
    return Unreadable(str(path), reason, _is_among_agents(path))


def _is_among_agents(path: Path) -> bool:
    where = Path(os.path.abspath(path)).as_posix()
    return any(f"/{place.folder}/" in where for parser in PARSERS for place in parser.homes)


def read_sessions(path: Path, limits: Source = Source()) -> list[Session]:  # noqa: B008 - immutable
    """All sessions in one file, with no more of each text kept than `limits` says.

    Raises Unreadable when the file cannot be read, or is no log that we know.
    """
    with open_log(path) as log:
        return log.sessions(limits)


@contextmanager
def open_log(path: Path) -> Iterator[Log]:
    """A log to read from, as it stands now. Raises Unreadable, also for what its own methods meet."""
    try:
        with open(path, "rb", buffering=_BUFFER, opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(str(path), "not a regular file")
            yield Log(path, file, status)
    except IsADirectoryError:
        raise Unreadable(str(path), "it is a folder; name a log in it") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


class Log:
    """One open log: its sessions, the whole of a text in it, and its raw bytes."""

    def __init__(self, path: Path, file: BinaryIO, status: os.stat_result) -> None:
        self.path = path
        self.size = status.st_size
        """Bytes that it had when it was opened; it may grow faster than it is read."""
        self.parser: Parser | None = None
        """Whose it is, once its sessions were read."""
        self.state: bytes | None = None
        """What reading can go on from behind `size` when the log has grown; None: it has to be read whole then."""
        self._file = file
        self._source = _source_of(path, _moment(status.st_mtime))

    def sessions(self, limits: Source, resumable: bool = False) -> list[Session]:
        """All sessions in it. Raises Unreadable when it is no log that we know.

        resumable: see to `state`, as far as its parser can; that takes a little longer.
        """
        source = limits._replace(**_placed(self._source))
        is_database = self._file.read(len(_SQLITE)) == _SQLITE
        self._file.seek(0)
        if is_database:
            with _database_rows(self.path) as (self.parser, rows):
                return _told_by(self.parser, self.parser.parse(rows, _as_written(self.path, source)))
        lines = _lines(self._file, self.size)
        self.parser, records = _identified(lines, str(self.path), self.path)
        if resumable and self.parser.resume is not None and self._ends_with_a_line():
            told = self.parser.resume(None, records, source)
            if told is not None:
                self.state = told.state
                return _told_by(self.parser, [told.session])
            self._file.seek(0)
            records = chain(_lines(self._file, self.size), _parts(self.parser, self.path))
        return _told_by(self.parser, self.parser.parse(records, source))

    def _ends_with_a_line(self) -> bool:
        # One that is still being written belongs to the next read; that it will be whole cannot be waited for here.
        return self.size > 0 and self.piece(self.size - 1, 1) == b"\n"

    def more(self, agent: str, state: bytes, start: int, limits: Source) -> Resumed | None:
        """What the lines from `start` on add to what was told with `state`; None: the log has to be read whole."""
        parser = next((parser for parser in PARSERS if parser.agent == agent and parser.resume is not None), None)
        if parser is None or parser.resume is None or not self._ends_with_a_line():
            return None
        self._file.seek(start)
        told = parser.resume(
            state, _lines_behind(self._file, start, self.size), limits._replace(**_placed(self._source))
        )
        if told is None:
            return None
        self.parser, self.state = parser, told.state
        return told._replace(session=_told_by(parser, [told.session])[0])

    @property
    def is_framed(self) -> bool:
        """Whether its raw form is records of a database or of several files, rather than the bytes of the one file."""
        parser = self.parser
        if parser is None:
            return False
        return (bool(parser.queries) and self._begins_as_database()) or any(_part_paths(parser, self.path))

    def _begins_as_database(self) -> bool:
        return self.piece(0, len(_SQLITE)) == _SQLITE

    def piece(self, at: int, size: int) -> bytes:
        """Bytes of the file itself."""
        # Without moving the place where its lines are being read, and past their buffer of a megabyte.
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), size, at)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(at)
            return file.read(size)

    def raw(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes to archive, from `start` of them on, in pieces; `read_archived` reads their whole.

        end: where to stop, for a log that is not framed.
        """
        if not self.is_framed:
            at, end = start, self.size if end is None else min(end, self.size)
            while at < end and (piece := self.piece(at, min(_BUFFER, end - at))):
                at += len(piece)
                yield piece
            return
        assert self.parser is not None
        if self._begins_as_database():
            with _database_rows(self.path) as (_, rows):
                yield from map(_framed, rows)
            return
        self._file.seek(0)
        main = _lines(self._file, self.size)
        yield from map(_framed, chain(main, _parts(self.parser, self.path)))

    def text(self, body: Body, chars: int) -> str | None:
        """The first `chars` characters of a body that was left in this file; None when it has no place there."""
        return text_at(self.piece, body, chars)


def text_at(piece: Callable[[int, int], bytes], body: Body, chars: int) -> str | None:
    """The first `chars` characters of a body whose bytes `piece(at, size)` gives; None when it has no place there."""
    return None if body.offset is None else json_head(piece(body.offset, body.bytes), chars)


def fingerprint(path: Path, agent: str | None = None) -> tuple[str, os.stat_result] | None:
    """What changes when a log does: size, time and inode of all its files; and the status of the main one.

    agent: whose log it is, when known: only the files that belong to such a log are looked at then.
    None when the file is not there, or is none.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    found = [_mark(status)]
    if not path.name.endswith(JSON_SUFFIXES):
        log = _status(f"{path}-wal")
        found += [_mark(log)] if log is not None else []
    for parser in PARSERS:
        if parser.bundle is not None and (agent is None or parser.agent == agent):
            found += [_mark(part) for _, at in _part_paths(parser, path) if (part := _status(str(at))) is not None]
    return " ".join(found), status


def _mark(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"


def read_archived(
    pieces: Iterable[bytes], path: Path, modified: datetime | None, agent: str | None, is_framed: bool, limits: Source
) -> tuple[str | None, list[Session]]:
    """Whose the archived bytes of a log are, and all sessions in them. Raises Unreadable as `read_sessions` does.

    path: where the log was; agent: whose it was taken for, which framed bytes are not asked again.
    """
    source = limits._replace(**_placed(_source_of(path, modified)))
    stream = io.BufferedReader(_Pieces(pieces), _BUFFER)  # type: ignore[type-var]
    if is_framed:
        parser = next((parser for parser in PARSERS if parser.agent == agent), None)
        if parser is None:
            raise Unreadable(
                str(path), f"its archived records are of an agent {agent!r} that this demerit does not know"
            )
        return agent, _told_by(parser, parser.parse(_unframed(stream), source))
    parser, sessions = _read(_lines(stream), source, str(path), None)
    return parser.agent, sessions


def _source_of(path: Path, modified: datetime | None) -> Source:
    return Source(
        name=_as_text(path.name.removesuffix(".jsonl").removesuffix(".json")),
        modified=modified,
        parent=_parent(path),
        folders=tuple(map(_as_text, reversed(path.absolute().parts[-4:-1]))),
    )


def _placed(source: Source) -> dict[str, Any]:
    return {name: getattr(source, name) for name in ("name", "modified", "parent", "folders")}


class _Frame(msgspec.Struct):
    """What stands before each record of a framed archive, on a line of its own."""

    bytes: int
    part: str = ""


_FRAME = msgspec.json.Decoder(_Frame)


def _framed(record: Record) -> bytes:
    return msgspec.json.encode(_Frame(len(record.data), record.part)) + b"\n" + record.data + b"\n"


def _unframed(stream: BinaryIO) -> Iterator[Record]:
    while header := stream.readline(_MAX_LINE):
        try:
            frame = _FRAME.decode(header)
        except BAD_CONTENT:
            return  # cut short: what came before it is whole
        yield Record(stream.read(frame.bytes), None, frame.part)
        stream.readline(_MAX_LINE)


class _Pieces(io.RawIOBase):
    """A stream of the bytes in pieces that come one after the other."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would be waited for otherwise."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _parent(path: Path) -> str | None:
    """The session that a sub-agent's log belongs to by its folder: `PARENT/subagents/x`, `chats/PARENT/x`."""
    if path.parent.name == "subagents":
        return _as_text(path.parent.parent.name)
    return _as_text(path.parent.name) if path.parent.parent.name == "chats" else None


def _as_text(name: str) -> str:
    """A file's name, which may be any bytes, as text that can be written everywhere."""
    return name.encode("utf-8", "replace").decode()


def read_body(path: Path, body: Body) -> str:
    """The whole text of a body that `read_sessions` left in its file.

    Raises Unreadable when it is not there any more: the file is gone, or was rewritten since.
    """
    if body.offset is None:
        raise Unreadable(str(path), "this text does not stand in the file as it is")
    try:
        with path.open("rb") as file:
            file.seek(body.offset)
            data = file.read(body.bytes)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if digest(data) != body.digest:
        raise Unreadable(str(path), "it has changed since it was read")
    return json_head(data, len(data))


def read_stream(stream: BinaryIO, source: Source, label: str) -> list[Session]:
    """All sessions in a stream of bytes; `label` names it in errors. Raises Unreadable as `read_sessions` does."""
    return _read(_lines(stream), source, label, None)[1]


def _read(lines: Iterator[Record], source: Source, label: str, path: Path | None) -> tuple[Parser, list[Session]]:
    parser, records = _identified(lines, label, path)
    return parser, _told_by(parser, parser.parse(records, source))


def _identified(lines: Iterator[Record], label: str, path: Path | None) -> tuple[Parser, Iterator[Record]]:
    """Whose a source is, and all its records. Raises Unreadable."""
    parser, sample, taken = _recognise(lines)
    among_agents = path is not None and _is_among_agents(path)
    if not taken:
        raise Unreadable(label, "it is empty", among_agents)
    if parser is None:
        raise Unreadable(label, _what_it_is(sample), among_agents)
    records = chain(taken, lines)
    return parser, records if path is None else chain(records, _parts(parser, path))


def _told_by(parser: Parser, sessions: list[Session]) -> list[Session]:
    untold = [name for name, told in parser.coverage._asdict().items() if told == "no"]
    return [msgspec.structs.replace(s, untold=tuple(dict.fromkeys((*s.untold, *untold)))) for s in sessions]


def _parts(parser: Parser, main: Path) -> Iterator[Record]:
    """The records of a source's other files. One that cannot be read is left out."""
    for name, path in _part_paths(parser, main):
        yield from (Record(data, None, name) for data in _part(path))


def _part_paths(parser: Parser, main: Path) -> Iterator[tuple[str, Path]]:
    """The other files of a source, by their place relative to the main one's folder."""
    bundle = parser.bundle
    if bundle is None or not fnmatch(main.name, bundle.main):
        return
    stems = [""]
    for pattern in bundle.parts:
        found = []
        for stem in stems if "{part}" in pattern else [""]:
            wanted = pattern.format(stem=glob.escape(main.stem), part=glob.escape(stem))
            found += sorted(glob.glob(wanted, root_dir=main.parent))
        stems = [Path(name).stem for name in found]
        above = main.parent / ("../" * pattern.count("../"))
        for name in found:
            path = main.parent / name
            if _stays_in(path, above):  # or a link would bring in anybody's file
                yield Path(name).as_posix(), path


def is_part_of(main: Path, agent: str | None, path: Path) -> bool:
    """Whether a file belongs to the log of several files whose main one this is."""
    parsers = (parser for parser in PARSERS if parser.agent == agent and parser.bundle is not None)
    return any(os.path.normpath(part) == str(path) for parser in parsers for _, part in _part_paths(parser, main))


def _part(path: Path) -> Iterator[bytes]:
    with suppress(OSError), open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return
        if path.suffix == ".jsonl":
            yield from (record.data for record in _lines(file))
        elif (data := file.read(_MAX_DOCUMENT)).strip():
            yield data


@contextmanager
def _database_rows(path: Path) -> Iterator[tuple[Parser, Iterator[Record]]]:
    """Whose SQLite database this is, and its rows: it is opened for reading only."""
    known = _is_among_agents(path)
    try:
        with closing(_open_database(path)) as database:
            tables = _tables(database)
            parser = parser_for(Sample(tables=tables))
            if parser is None or not parser.queries:
                raise Unreadable(str(path), "an SQLite database, but no agent's that demerit knows", known)
            known = True
            queries = [query for query in parser.queries if query.table in tables]
            most = _MOST_ROWS + 64 * _size_of(path)
            # To sort endless rows would fill the disk before the first one came.
            for _ in _rows(database, _unsorted(database, queries), most):
                pass
            yield parser, _rows(database, queries, most)
    except sqlite3.Error as error:
        # The log of a program that stopped, in a folder where SQLite may not write what it needs to read it.
        is_shut = getattr(error, "sqlite_errorname", "") in _NO_PLACE
        hint = "; copy it with its -wal file to a folder of your own" if is_shut else ""
        raise Unreadable(str(path), f"SQLite says: {error}{hint}", known) from None


def _open_database(path: Path) -> sqlite3.Connection:
    """A connection that sees one state of the database, whoever writes to it, and leaves nothing beside it."""
    address = f"file:{quote(str(path.absolute()))}"
    log = _status(f"{path}-wal")
    with path.open("rb") as file:
        has_log = file.read(19)[18:] == b"\2"  # changes go to a log first, which is brought into the file later
    if has_log and not (log and log.st_size) and _status(f"{path}-shm") is None:
        # All is in the file, and nobody has it open. A usual connection would make both files and leave them there,
        # or fail, in a folder that we may not write to.
        database = sqlite3.connect(f"{address}?immutable=1", uri=True)
    else:
        database = sqlite3.connect(f"{address}?mode=ro", uri=True)
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    # A view or a column may be a program that never ends, or makes values larger than memory.
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_DOCUMENT)
    looks = iter(range(_LOOKS + _size_of(path) // (_STEPS // 100)))  # a hundred steps a byte; a row takes some thirty
    database.set_progress_handler(lambda: next(looks, None) is None, _STEPS)
    database.execute("begin")
    return database


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _unsorted(database: sqlite3.Connection, queries: Iterable[Query]) -> list[Query]:
    """Queries for all that these sort, as far as it is computed: views, and tables with such columns."""
    words = {word for query in queries for word in query.sql.split()}
    rows = database.execute("select name, type, sql from sqlite_master where type in ('table', 'view')").fetchall()
    computed = [name for name, kind, sql in rows if kind == "view" or re.search(r"\bas\b", str(sql), re.IGNORECASE)]
    return [Query(name, name, f"select * from {name}") for name in computed if name in words]


def _size_of(database: Path) -> int:
    return sum(status.st_size for end in ("", "-wal") if (status := _status(f"{database}{end}")) is not None)


def _as_written(path: Path, source: Source) -> Source:
    """The source with the time of its last change, which may be in the log of the database and not yet in its file."""
    log = _status(f"{path}-wal")
    written = _moment(log.st_mtime) if log else None
    is_newer = written is not None and (source.modified is None or written > source.modified)
    return source._replace(modified=written) if is_newer else source


def _tables(database: sqlite3.Connection) -> frozenset[str]:
    rows = database.execute("select name from sqlite_master where type in ('table', 'view')")
    return frozenset(str(name) for (name,) in rows)


def _rows(database: sqlite3.Connection, queries: Iterable[Query], most: int) -> Iterator[Record]:
    for query in queries:
        cursor = database.execute(query.sql)
        names = [column[0] for column in cursor.description]
        for row in cursor:
            values = (v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in row)
            data = msgspec.json.encode(dict(zip(names, values, strict=True)))
            most -= len(data)  # a query may repeat a row beside each of many others
            if most < 0:
                raise sqlite3.DataError("far more rows than the file can hold")
            yield Record(data, None, query.name)


def _lines(stream: BinaryIO, end: float = math.inf) -> Iterator[Record]:
    """The lines that hold anything and begin before `end`, as UTF-8, each with its offset in the stream."""
    offset = 0
    line = stream.readline(_MAX_LINE)
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # What PowerShell's `>` writes. The bytes of a record are then not those of the file: no offsets.
        text = io.TextIOWrapper(_Rest(line, stream), encoding="utf-16", errors="replace")  # type: ignore[type-var]
        while decoded := text.readline(_MAX_LINE // 4):
            if not decoded.isspace():
                yield Record(decoded.encode("utf-8", "replace"), None)
        return
    if line.startswith(codecs.BOM_UTF8):
        offset, line = len(codecs.BOM_UTF8), line.removeprefix(codecs.BOM_UTF8)
    while line:
        if not line.isspace():
            yield Record(line, offset)
        offset += len(line)
        line = stream.readline(_MAX_LINE) if offset < end else b""


def _lines_behind(stream: BinaryIO, offset: int, end: int) -> Iterator[Record]:
    """The lines that hold anything from where the stream stands, its `offset`, up to `end`."""
    while offset < end and (line := stream.readline(_MAX_LINE)):
        if not line.isspace():
            yield Record(line, offset)
        offset += len(line)


class _Rest(io.RawIOBase):
    """A stream whose first bytes were already taken from it."""

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        self._start = start
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self._start[: len(buffer)] or self._stream.read(len(buffer))
        self._start = self._start[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _recognise(lines: Iterator[Record]) -> tuple[Parser | None, Sample, list[Record]]:
    """Whose a source is, how it begins, and the records that were taken from it to see that."""
    taken: list[Record] = []
    values: list[object] = []
    size = 0
    for record in lines:
        taken.append(record)
        size += len(record.data)
        try:
            value = msgspec.json.decode(record.data)
        except BAD_CONTENT:
            if len(taken) == 1 and record.data.lstrip(_BLANKS)[:1] in (b"{", b"["):
                begun = _from_bad_line(record, lines)
                if begun is not None:
                    return begun
        else:
            values.append(value)
            if (parser := _told_by_line(value)) is not None:
                return parser, Sample((value,)), taken
        if len(taken) == _SAMPLE_LINES or size > _SAMPLE_BYTES:
            break
    text = b"".join(record.data for record in taken)[:_TEXT_BYTES].decode("utf-8", "replace") if taken else ""
    sample = Sample(tuple(values), is_document=len(taken) == len(values) == 1, text=text)
    return parser_for(sample), sample, taken


def _told_by_line(value: object) -> Parser | None:
    one = Sample((value,))
    return next((parser for parser in PARSERS if parser.one_line_tells and parser.sniff(one)), None)


def _from_bad_line(first: Record, lines: Iterator[Record]) -> tuple[Parser | None, Sample, list[Record]] | None:
    """As `_recognise`, for a source whose first line is no JSON by itself: a damaged line, or a value of many lines.

    None when it cannot tell; nothing of `lines` was taken then.
    """
    found = salvage(first, Losses())
    if found and isinstance(found[0], dict) and (parser := _told_by_line(found[0])) is not None:
        return parser, Sample((found[0],)), [first]
    taken = [first]
    size = len(first.data)
    for record in lines:
        taken.append(record)
        size += len(record.data)
        if size > _MAX_DOCUMENT:
            break
        if len(taken) <= _SAMPLE_LINES:
            # A log of lines, of which the first is cut: an item of a list over lines would not be whole.
            try:
                value = msgspec.json.decode(record.data)
            except BAD_CONTENT:
                continue
            if isinstance(value, dict) and (parser := _told_by_line(value)) is not None:
                return parser, Sample((value,)), taken
    whole = b"".join(record.data for record in taken)
    last = taken[-1]
    # Blank lines were left out: with any of them, offsets in the whole are not those of the file.
    exact = first.offset is not None and last.offset is not None
    exact = exact and last.offset + len(last.data) - first.offset == len(whole)  # type: ignore[operator]
    document = [Record(whole, first.offset if exact else None)]
    try:
        found = [msgspec.json.decode(whole)]
    except BAD_CONTENT:
        # Halves of characters, bytes that are not UTF-8, a list that was cut.
        found = salvage(document[0], Losses())
    as_document = Sample(tuple(found), is_document=True)
    if len(found) == 1 and (parser := parser_for(as_document)) is not None:
        return parser, as_document, document
    values = tuple(value for record in taken[:_SAMPLE_LINES] for value in salvage(record, Losses()))
    as_lines = Sample(values, text=whole[:_TEXT_BYTES].decode("utf-8", "replace"))
    parser = parser_for(as_lines)
    return parser, as_document if parser is None and len(found) == 1 else as_lines, taken


def _what_it_is(sample: Sample) -> str:
    if not sample.values:
        return "no JSON in its first lines, so no agent's log that demerit knows"
    first = sample.values[0]
    if isinstance(first, dict):
        keys = ", ".join(sorted(map(repr, list(first)[:6]))) or "no keys"
        return f"JSON, but no agent's log that demerit knows (it begins with an object of {keys})"
    return "JSON, but no agent's log that demerit knows"
