"""Reads what agents leave on disk: which file is whose, and its records, a piece at a time.

The only place of the log side that opens files. A walk never follows a link out of its folder, and what it
cannot read becomes a `Skipped` with the reason. A path that the caller named raises `Unreadable`.
"""

from __future__ import annotations

import codecs
import glob
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from demerit.model import Body, Session
from demerit.parsers import PARSERS, parser_for
from demerit.parsers.records import (
    BAD_CONTENT,
    Losses,
    Parser,
    Record,
    Sample,
    Source,
    digest,
    json_head,
    salvage,
)

LOG_SUFFIXES = (".jsonl", ".json")
"""What a walk of a folder looks at. A file that is named on its own may have any name."""
_SAMPLE_LINES = 50
_SAMPLE_BYTES = 1 << 20
_BUFFER = 1 << 20
# A longer line is cut into pieces, each a malformed record: better than all of it in memory.
_MAX_LINE = 1 << 28
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
            raise Unreadable(name, "no such file or folder")
        for path in map(Path, matches):
            for file in _walk(path, skipped) if path.is_dir() else (path,):
                identity = _identity(file)
                if identity is None or identity not in seen:
                    if identity is not None:
                        seen.add(identity)
                    yield file


def agent_logs(home: Path, environ: Mapping[str, str], skipped: list[Unreadable]) -> Iterator[Path]:
    """The logs in the own folders of the agents that we know, as far as this user has any."""
    for parser in PARSERS:
        for place in parser.homes:
            first, _, rest = place.folder.partition("/")
            moved = environ.get(place.env) if place.env else None
            folder = Path(moved or home / first, rest)
            if folder.is_dir():
                suffix = place.pattern.rpartition("*")[2]
                yield from (path for path in _walk(folder, skipped) if path.name.endswith(suffix))


def missing_homes(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables that name a place of an agent's logs, with the folders they name, where there is no such folder."""
    named = {
        place.env: environ[place.env] for p in PARSERS for place in p.homes if place.env and environ.get(place.env)
    }
    return [(name, folder) for name, folder in named.items() if not Path(folder).is_dir()]


def _walk(root: Path, skipped: list[Unreadable]) -> Iterator[Path]:
    def complain(error: OSError) -> None:
        skipped.append(_unreadable(Path(error.filename or root), error))

    # os.walk enters no linked folder, so a loop of links ends here.
    for folder, folders, names in os.walk(root, onerror=complain):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith(LOG_SUFFIXES) and (not path.is_symlink() or _stays_in(path, root)):
                yield path


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
    where = f"/{path.as_posix()}"
    return any(f"/{place.folder}/" in where for parser in PARSERS for place in parser.homes)


def read_sessions(path: Path, limits: Source = Source()) -> list[Session]:  # noqa: B008 - immutable
    """All sessions in one file, with no more of each text kept than `limits` says.

    Raises Unreadable when the file cannot be read, or is no log that we know.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer
            raise Unreadable(
                str(path), "it is a folder; name a log in it" if stat.S_ISDIR(mode) else "not a regular file"
            )
        with path.open("rb", buffering=_BUFFER) as file:
            status = os.fstat(file.fileno())
            source = limits._replace(
                name=path.name.removesuffix(".jsonl").removesuffix(".json"),
                modified=datetime.fromtimestamp(status.st_mtime, UTC),
                parent=path.parent.parent.name if path.parent.name == "subagents" else None,
            )
            return read_stream(file, source, str(path), among_agents=_is_among_agents(path))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


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


def read_stream(stream: BinaryIO, source: Source, label: str, among_agents: bool = False) -> list[Session]:
    """All sessions in a stream of bytes. Raises Unreadable as `read_sessions` does.

    label: names it in errors. among_agents: it lies in a folder where an agent keeps its logs.
    """
    lines = _lines(stream)
    parser, sample, taken = _recognise(lines)
    if not taken:
        raise Unreadable(label, "it is empty", among_agents)
    if parser is None:
        raise Unreadable(label, _what_it_is(sample), among_agents)
    return parser.parse(chain(taken, lines), source)


def _lines(stream: BinaryIO) -> Iterator[Record]:
    """The lines that hold anything, as UTF-8, each with its offset in the stream."""
    offset = 0
    line = stream.readline(_MAX_LINE)
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # What PowerShell's `>` writes. The bytes of a record are then not those of the file: no offsets.
        text = io.TextIOWrapper(_Rest(line, stream), encoding="utf-16", errors="replace")  # type: ignore[type-var]
        for decoded in text:
            if not decoded.isspace():
                yield Record(decoded.encode("utf-8", "replace"), None)
        return
    if line.startswith(codecs.BOM_UTF8):
        offset, line = len(codecs.BOM_UTF8), line.removeprefix(codecs.BOM_UTF8)
    while line:
        if not line.isspace():
            yield Record(line, offset)
        offset += len(line)
        line = stream.readline(_MAX_LINE)


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
        except BAD_CONTENT as error:
            if len(taken) == 1 and "truncated" in str(error):  # a JSON value goes on in the next line
                sample, taken = _document(record, lines)
                return parser_for(sample), sample, taken
        else:
            values.append(value)
            one = Sample((value,))
            for parser in PARSERS:
                if parser.one_line_tells and parser.sniff(one):
                    return parser, one, taken
        if len(taken) == _SAMPLE_LINES or size > _SAMPLE_BYTES:
            break
    sample = Sample(tuple(values), is_document=len(taken) == len(values) == 1)
    return parser_for(sample), sample, taken


def _document(first: Record, lines: Iterator[Record]) -> tuple[Sample, list[Record]]:
    """A source that is one JSON value over many lines; as lines again when it is not."""
    taken = [first]
    size = len(first.data)
    for record in lines:
        taken.append(record)
        size += len(record.data)
        if size > _MAX_DOCUMENT:
            return Sample(()), taken
    whole = b"".join(record.data for record in taken)
    last = taken[-1]
    # Blank lines were left out: with any of them, offsets in the whole are not those of the file.
    exact = first.offset is not None and last.offset is not None
    exact = exact and last.offset + len(last.data) - first.offset == len(whole)  # type: ignore[operator]
    try:
        sample = Sample((msgspec.json.decode(whole),), is_document=True)
        return sample, [Record(whole, first.offset if exact else None)]
    except BAD_CONTENT:
        found = salvage(Record(whole), Losses())
        if len(found) == 1:  # halves of characters, bytes that are not UTF-8
            return Sample((found[0],), is_document=True), [Record(whole, first.offset if exact else None)]
        values = []
        for record in taken[:_SAMPLE_LINES]:
            try:
                values.append(msgspec.json.decode(record.data))
            except BAD_CONTENT:
                continue
        return Sample(tuple(values)), taken


def _what_it_is(sample: Sample) -> str:
    if not sample.values:
        return "no JSON in its first lines, so no agent's log that demerit knows"
    first = sample.values[0]
    if isinstance(first, dict):
        keys = ", ".join(sorted(map(repr, list(first)[:6]))) or "no keys"
        return f"JSON, but no agent's log that demerit knows (it begins with an object of {keys})"
    return "JSON, but no agent's log that demerit knows"
