"""What `demerit doctor` finds: where agents keep logs on this machine, whose they are, what of them was not understood.

It names files, formats and counts, and nothing that a transcript holds.
"""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from demerit import __version__
from demerit.library import REPORT_LIMITS, Graded
from demerit.parsers import PARSERS
from demerit.parsers.records import Coverage, Parser
from demerit.render import clean, count, encoded, fact
from demerit.sources import Unreadable, agent_homes, agent_logs, find_logs, read_sessions
from demerit.store.status import Status

SCHEMA = "demerit.doctor/1"
"""Raised when a key goes or changes its meaning; a new key keeps it."""

_EXAMPLES = 3
_FILES_SHOWN = 20
_PLACES_SHOWN = 4
# Readable, and nothing for us; every other reason is a file that should have been read.
_NO_LOGS = (
    "it is empty",
    "no session in it",
    "no JSON in",
    "JSON, but no agent's",
    "an SQLite database, but no agent's",
)


class Versions(msgspec.Struct, frozen=True):
    demerit: str
    python: str
    platform: str


class Folder(msgspec.Struct, frozen=True):
    """A place in which an agent keeps its logs."""

    path: str
    patterns: tuple[str, ...]
    """Globs below it."""
    variable: str | None
    """Environment variable that names another place."""
    is_moved: bool
    """That variable is set."""
    exists: bool
    files: int
    """That were looked at."""
    others: int
    """That are no logs by themselves: parts of one, attachments, settings."""


class Loss(msgspec.Struct, frozen=True):
    """Something that was not understood, over all logs of one agent."""

    kind: str
    count: int
    path: str
    """The first log that has it."""
    offset: int | None
    """Byte offset of its first record there; None where it has none, as in a database."""


class Agent(msgspec.Struct, frozen=True):
    agent: str
    title: str
    folders: tuple[Folder, ...]
    """Empty where paths were named on the command line, and for agents that have no folder of their own."""
    files: int
    """Taken for this agent's by what they hold, wherever they lie."""
    sessions: int
    bytes: int
    newest: datetime | None
    """When the last of them was written."""
    losses: tuple[Loss, ...]
    coverage: dict[str, str]
    """What its logs can tell: `yes`, `partly`, `no`."""


class File(msgspec.Struct, frozen=True):
    path: str
    agent: str | None
    """Whose it was taken for; None when it gave no session."""
    sessions: int
    bytes: int
    modified: datetime | None
    reason: str | None
    """Why it gave no session."""


class Group(msgspec.Struct, frozen=True):
    """Files that gave no session for one reason."""

    reason: str
    files: int
    examples: tuple[str, ...]
    """The first of them."""


class Store(msgspec.Struct, frozen=True):
    """What the history holds, and what of it could not be read."""

    database: str
    """Path of the file, or the URL without its password."""
    trouble: str | None
    """Why it cannot be used, in words; all below is empty then."""
    logs: int = 0
    gone: int = 0
    """Of these, those that are on the disk no more."""
    sessions: int = 0
    waiting: int = 0
    """Of these, those that have not come to rest, or are still to be graded."""
    copies: int = 0
    """Further logs of the same sessions, which count nowhere."""
    outdated: int = 0
    """Sessions that older parsers read and whose log is gone: they count nowhere."""
    losses: dict[str, int] = {}
    """What was not understood, by kind."""
    unreadable: tuple[Group, ...] = ()
    rebuilt_logs: int | None = None
    """Logs that the parsers of this version have read; None when all of them are."""


class Diagnosis(msgspec.Struct, frozen=True):
    schema: str
    versions: Versions
    agents: tuple[Agent, ...]
    files: tuple[File, ...]
    skipped: tuple[Group, ...]
    """Read, and no log."""
    unreadable: tuple[Group, ...]
    store: Store | None = None
    """None: nothing was kept yet (`demerit sync`)."""


class Survey:
    """Finds logs, and takes in what each of them gives: `add` for each of `paths`, in order, then `result`."""

    def __init__(self, home: Path, environ: Mapping[str, str], names: Sequence[str] = ()) -> None:
        """names: what to look at; without any, the folders of all agents. Raises Unreadable for a name of nothing."""
        self._walk: list[Unreadable] = []
        logs = find_logs(names, self._walk) if names else agent_logs(home, environ, self._walk)
        self.paths = list(dict.fromkeys(logs))
        self._folders = {} if names else _folders(home, environ, self.paths)
        self._files: list[File] = []
        self._losses: dict[str, Counter[str]] = {}
        self._first: dict[tuple[str, str], str] = {}

    def add(self, graded: Graded) -> None:
        """What the next log gave."""
        size, modified = _stat(graded.path)
        agent = graded.reports[0].agent if graded.reports else None
        reason = None if agent else _without_content(graded.reason or "no session in it")
        self._files.append(File(graded.path, agent, len(graded.reports), size, modified, reason))
        for report in graded.reports:
            self._losses.setdefault(report.agent, Counter()).update(report.losses)
            for kind in report.losses:
                self._first.setdefault((report.agent, kind), graded.path)

    def result(self) -> Diagnosis:
        """All that was found. Logs with losses are read once more, for the place of the first."""
        offsets = self._offsets()
        walked = [File(error.path, None, 0, 0, None, _without_content(error.reason)) for error in self._walk]
        without = [file for file in (*walked, *self._files) if file.reason is not None]
        return Diagnosis(
            SCHEMA,
            Versions(__version__, platform.python_version(), platform.platform(terse=True)),
            tuple(self._agent(key, offsets) for key in dict.fromkeys(parser.agent for parser in PARSERS)),
            tuple(self._files),
            tuple(_groups(file for file in without if _is_no_log(file))),
            tuple(_groups(file for file in without if not _is_no_log(file))),
        )

    def _agent(self, key: str, offsets: Mapping[tuple[str, str], int | None]) -> Agent:
        parsers = [parser for parser in PARSERS if parser.agent == key]
        files = [file for file in self._files if file.agent == key]
        losses = self._losses.get(key, Counter())
        return Agent(
            key,
            parsers[0].title,
            tuple(self._folders.get(key, ())),
            len(files),
            sum(file.sessions for file in files),
            sum(file.bytes for file in files),
            max((file.modified for file in files if file.modified), default=None),
            tuple(Loss(kind, n, self._first[key, kind], offsets.get((key, kind))) for kind, n in losses.most_common()),
            _together(parsers),
        )

    def _offsets(self) -> dict[tuple[str, str], int | None]:
        found: dict[tuple[str, str], int | None] = {}
        for path in dict.fromkeys(self._first.values()):
            with suppress(Unreadable):  # it has gone meanwhile
                for session in read_sessions(Path(path), REPORT_LIMITS):
                    for loss in session.losses:
                        if self._first.get((session.agent, loss.kind)) == path:
                            found.setdefault((session.agent, loss.kind), loss.first_offset)
        return found


def _folders(home: Path, environ: Mapping[str, str], logs: Sequence[Path]) -> dict[str, list[Folder]]:
    """The folders of each agent, with the number of files in each."""
    patterns: dict[tuple[str, str], list[str]] = {}
    variables: dict[str, str | None] = {}
    for parser, place, folder in agent_homes(home, environ):
        path = str(folder)
        patterns.setdefault((parser.agent, path), []).append(place.pattern)
        variables[path] = place.env
    found: dict[str, list[Folder]] = {}
    names = [str(log) for log in logs]
    for (agent, path), globs in patterns.items():
        variable = variables[path]
        files = sum(name.startswith(path + os.sep) for name in names)
        is_moved = bool(variable and environ.get(variable))
        exists = os.path.isdir(path)
        total = _files_below(path, deep=any("/" in pattern for pattern in globs)) if exists else 0
        found.setdefault(agent, []).append(
            Folder(path, tuple(globs), variable, is_moved, exists, files, max(total - files, 0))
        )
    return found


def _files_below(path: str, deep: bool) -> int:
    found = 0
    for _, folders, names in os.walk(path):
        found += len(names)
        if not deep:
            folders.clear()
    return found


def _stat(path: str) -> tuple[int, datetime | None]:
    try:
        status = os.stat(path)
        return status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return 0, None


def _without_content(reason: str) -> str:
    """A reason without what it quotes: keys of a file, the message of an exception."""
    reason = re.sub(r" \(it begins with .*\)$", "", reason, flags=re.DOTALL)
    return re.sub(r"\((\w+): .*\), which is our fault", r"(\1), which is our fault", reason, flags=re.DOTALL)


def _is_no_log(file: File) -> bool:
    return (file.reason or "").startswith(_NO_LOGS)


def _groups(files: Iterator[File]) -> Iterator[Group]:
    paths: dict[str, list[str]] = {}
    for file in files:
        paths.setdefault(file.reason or "", []).append(file.path)
    for reason, same in sorted(paths.items(), key=lambda item: -len(item[1])):
        yield Group(reason, len(same), tuple(same[:_EXAMPLES]))


# --- coverage ---------------------------------------------------------------------------------------------


def _together(parsers: Sequence[Parser]) -> dict[str, str]:
    """What an agent's logs can tell; `partly` where its formats differ."""
    told = [parser.coverage._asdict() for parser in parsers]
    return {name: told[0][name] if len({each[name] for each in told}) == 1 else "partly" for name in Coverage._fields}


def coverage_table() -> str:
    """What each format can tell, as the Markdown table of docs/formats.md."""
    lines = [["agent", *map(fact, Coverage._fields)], ["---"] + [":-:"] * len(Coverage._fields)]
    lines += [[parser.title, *parser.coverage] for parser in PARSERS]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


# --- in words ---------------------------------------------------------------------------------------------


def store_of(database: str, found: Status) -> Store:
    """What a history says of itself. database: its address, without a password."""
    reasons = [File(log.path, None, 0, 0, None, _without_content(log.reason)) for log in found.unread]
    return Store(
        database,
        None,
        found.logs,
        found.gone,
        found.sessions,
        found.waiting,
        found.copies,
        found.outdated,
        found.losses,
        tuple(_groups(file for file in reasons if not _is_no_log(file))),
        None if found.rebuilding is None else found.rebuilding.logs_done,
    )


def document(diagnosis: Diagnosis) -> bytes:
    """The one JSON object of `demerit doctor --format json`, in a line; docs/doctor.md has its keys."""
    return encoded(diagnosis)


def in_words(diagnosis: Diagnosis, home: str) -> str:
    """A diagnosis for people. home: shown as `~`."""
    return "\n".join(_Words(home).lines(diagnosis)).rstrip("\n") + "\n"


class _Words:
    def __init__(self, home: str) -> None:
        self._home = home.rstrip("/\\")

    def lines(self, found: Diagnosis) -> Iterator[str]:
        of = found.versions
        yield f"demerit {of.demerit}, Python {of.python}, {clean(of.platform)}"
        here = [agent for agent in found.agents if agent.files or any(folder.exists for folder in agent.folders)]
        for agent in here:
            yield ""
            yield from self._agent(agent)
        walks_machine = any(agent.folders for agent in found.agents)
        if not walks_machine and len(found.files) <= _FILES_SHOWN:
            yield from ("", "Files", *map(self._file, found.files))
        yield from self._without("No log", found.skipped)
        yield from self._without("Not to be read", found.unreadable)
        if found.store is not None:
            yield from ("", *self._store(found.store))
        if walks_machine:
            yield from self._elsewhere([agent for agent in found.agents if agent not in here])
        if len(found.files) > _FILES_SHOWN:
            yield from ("", "--format json lists every file, and whose it was taken for.")

    def _store(self, store: Store) -> Iterator[str]:
        yield f"History in {self._path(store.database)}"
        if store.trouble is not None:
            yield f"  {clean(store.trouble)}"
            return
        gone = f", of which {store.gone:,} are gone from the disk" if store.gone else ""
        copies = f", beside {count(store.copies, 'log')} of the same ones" if store.copies else ""
        yield f"  holds      {count(store.sessions, 'session')}{copies}; {count(store.logs, 'file')} looked at{gone}"
        if store.waiting:
            yield f"  waiting    {count(store.waiting, 'session')} not at rest yet, or still to be graded"
        if store.rebuilt_logs is not None:
            yield f"  rebuilding {store.rebuilt_logs:,} of {store.logs:,} logs; demerit rebuild goes on with the others"
        if store.outdated:
            yield f"  outdated   {count(store.outdated, 'session')} whose log is gone and was not archived"
        if store.losses:
            kinds = ", ".join(f"{fact(kind)} ({n:,})" for kind, n in store.losses.items())
            yield f"  unread     {kinds}"
        yield from (f"  {line}" if line else line for line in self._without("Not to be read", store.unreadable) if line)

    def _agent(self, agent: Agent) -> Iterator[str]:
        newest = f", the newest of {agent.newest:%Y-%m-%d %H:%M} UTC" if agent.newest else ""
        what = f"{count(agent.sessions, 'session')} in {count(agent.files, 'file')}, {_size(agent.bytes)}{newest}"
        yield f"{clean(agent.title)} ({agent.agent}): {what if agent.files else 'no session'}"
        absent = [folder for folder in agent.folders if not folder.exists]
        for folder in agent.folders:
            if not folder.exists and len(absent) > _PLACES_SHOWN:
                continue
            inside = count(folder.files, "log")
            if folder.others:
                inside += f", {count(folder.others, 'other file')}"
            if not folder.exists:
                inside = "not there"
            yield f"  looked in  {self._path(folder.path)}: {inside}{_variable(folder)}"
        if len(absent) > _PLACES_SHOWN:
            yield f"  and in     {len(absent)} other places, none of which is there"
        for label, wanted in (("tells", "yes"), ("partly", "partly"), ("never", "no")):
            names = [fact(name) for name, told in agent.coverage.items() if told == wanted]
            if names:
                yield f"  {label:<9}  {'everything' if len(names) == len(agent.coverage) else ', '.join(names)}"
        for loss in agent.losses:
            at = "" if loss.offset is None else f" at byte {loss.offset:,}"
            kind = clean(loss.kind).replace("_", " ")
            yield f"  unread     {kind} ({loss.count:,}), first in {self._path(loss.path)}{at}"

    def _file(self, file: File) -> str:
        what = f"{file.agent}, {count(file.sessions, 'session')}" if file.agent else file.reason or ""
        return f"  {self._path(file.path)}: {clean(what)}"

    def _without(self, heading: str, groups: Sequence[Group]) -> Iterator[str]:
        if not groups:
            return
        yield from ("", heading)
        for group in groups:
            yield f"  {count(group.files, 'file')}: {clean(group.reason)}"
            yield from (f"      {self._path(path)}" for path in group.examples)
            if group.files > len(group.examples):
                yield f"      and {group.files - len(group.examples):,} more"

    def _elsewhere(self, agents: Sequence[Agent]) -> Iterator[str]:
        kept = [agent for agent in agents if agent.folders]
        if kept:
            yield from ("", "Not on this machine")
        for agent in kept:
            places = [f"{self._path(folder.path)}{_variable(folder)}" for folder in agent.folders[:_PLACES_SHOWN]]
            more = len(agent.folders) - len(places)
            yield f"  {clean(agent.title)}: {', '.join(places)}" + (f", and {more} other places" if more else "")
        free = ", ".join(clean(agent.title) for agent in agents if not agent.folders)
        if free:
            yield from ("", f"Without a folder of their own, so to be named on the command line: {free}")

    def _path(self, path: str) -> str:
        shown = clean(path)
        if self._home and shown.startswith((self._home + "/", self._home + "\\")):
            return "~" + shown[len(self._home) :]
        return shown


def _variable(folder: Folder) -> str:
    if folder.variable is None:
        return ""
    return f" (moved by {folder.variable})" if folder.is_moved else f" ({folder.variable} may move it)"


def _size(n: int) -> str:
    for unit, size in (("bytes", 1), ("kB", 10**3), ("MB", 10**6)):
        if n < 999.5 * size:
            return f"{n / size:.3g} {unit}"
    return f"{n / 10**9:,.3g} GB"
