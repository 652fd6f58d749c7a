"""`demerit.parse` and `demerit.grade`, and grading of many logs at once over all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from demerit.model import Session, Usage
from demerit.parsers import chat
from demerit.parsers.records import Source
from demerit.quality.assess import assess
from demerit.quality.report import Report
from demerit.sources import Unreadable, read_sessions

# A report shows no bodies, and asks of an answer's text only whether there is any.
REPORT_LIMITS = Source(text_bytes=256, bodies=False)
# Below this a pool of processes costs more than it saves.
_WORTH_A_POOL = 8 << 20
_BATCH_BYTES = 4 << 20
_BATCH_FILES = 100


def parse(path: str | os.PathLike[str]) -> list[Session]:
    """The sessions in one log, of any agent that demerit knows.

    Raises Unreadable (one plain sentence) when the file is missing, or is no such log.

    >>> import demerit
    >>> from demerit.samples import SAMPLES
    >>> session = demerit.parse(SAMPLES / "claude-good.jsonl")[0]
    >>> session.agent, session.messages[0].author
    ('claude-code', 'human')
    """
    return read_sessions(Path(path))


def grade(
    path_or_messages: str | bytes | os.PathLike[str] | Sequence[Any] | Mapping[str, Any],
    now: datetime | None = None,
    ended: bool = False,
) -> list[Report]:
    """The report cards of one log, or of messages in OpenAI's or Anthropic's style: a list, or a request body.

    now: aware time to judge idleness at; the present when not given.
    ended: the caller knows that the session is over, whatever its log says.
    Raises Unreadable as `parse` does.

    >>> import demerit
    >>> report = demerit.grade([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"}])[0]
    >>> report.outcome.value, report.score, report.grade
    ('completed', 100, 'A')
    """
    moment = now or datetime.now(UTC)
    if isinstance(path_or_messages, str | bytes | os.PathLike):
        path = Path(os.fsdecode(path_or_messages))
        return [report_on(session, moment, ended, str(path)) for session in read_sessions(path, REPORT_LIMITS)]
    if isinstance(path_or_messages, Mapping):
        sessions = chat.parse_body(path_or_messages, Source())
    else:
        sessions = [chat.parse_messages(path_or_messages, Source())]
    return [report_on(session, moment, ended, None) for session in sessions]


def report_on(session: Session, now: datetime, ended: bool, path: str | None) -> Report:
    """`assess`, with the caller's word that the session has ended."""
    return assess(msgspec.structs.replace(session, terminal=True) if ended else session, now, path)


class Graded(msgspec.Struct):
    """What one log gave."""

    path: str
    reports: list[Report] = []
    usages: list[Usage] = []
    """Every request of its sessions, to be counted once over all logs (see `RequestTotals`)."""
    reason: str | None = None
    """Why it gave none, in words."""
    known_agent: bool = False

    @property
    def error(self) -> Unreadable | None:
        return Unreadable(self.path, self.reason, self.known_agent) if self.reason else None


def grade_file(path: str, now: datetime, ended: bool, debug: bool = False) -> Graded:
    """What one log gives; what keeps it from being read is in `error`.

    A fault of ours costs that log alone. debug: raise it instead.
    """
    try:
        sessions = read_sessions(Path(path), REPORT_LIMITS)
        reports = [report_on(session, now, ended, path) for session in sessions]
    except Unreadable as error:
        return Graded(path, reason=error.reason, known_agent=error.known_agent)
    except (Exception, MemoryError) as error:
        if debug:
            raise
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return Graded(path, reason=f"demerit failed on it ({what}), which is our fault; --debug shows where")
    return Graded(path, reports, [usage for session in sessions for usage in requests_of(session)])


def requests_of(session: Session) -> Iterator[Usage]:
    """The usage of every request of a session, repeats included."""
    yield from (message.usage for message in session.messages if message.usage is not None)
    yield from session.loose_usage


def grade_files(
    paths: Iterable[Path], now: datetime, ended: bool = False, workers: int = 0, debug: bool = False
) -> Iterator[Graded]:
    """What each log gives, in the order of `paths`, read over `workers` processes (0: one a core)."""
    files = [str(path) for path in paths]
    sizes = [_size(path) for path in files]
    workers = min(workers or os.cpu_count() or 1, len(files))
    if workers < 2 or sum(sizes) < _WORTH_A_POOL:
        yield from (grade_file(path, now, ended, debug) for path in files)
        return
    batches = _batches(files, sizes)
    with ProcessPoolExecutor(workers, initializer=die_with_parent) as pool:
        # The largest first, or the last one running is the largest; the answers come in the order of the files.
        # Among ordinary batches the first ones come first, so that answers can be handed on early.
        order = sorted(range(len(batches)), key=lambda at: -max(batches[at][1], _BATCH_BYTES))
        futures = {}
        with suppress(BrokenProcessPool):
            for at in order:
                futures[at] = pool.submit(_grade_batch, batches[at][0], now, ended, debug)
        for at, (files, _) in enumerate(batches):
            try:
                yield from _unpacked(futures.pop(at).result(), files)
            except (BrokenProcessPool, KeyError):
                yield from _graded_alone(files, now, ended, debug)


def _graded_alone(files: Iterable[str], now: datetime, ended: bool, debug: bool) -> Iterator[Graded]:
    """What each log gives, each read in a process of its own: one of a batch has brought its process down."""
    for path in files:
        with ProcessPoolExecutor(1, initializer=die_with_parent) as pool:
            try:
                yield from _unpacked(pool.submit(_grade_batch, [path], now, ended, debug).result(), [path])
            except BrokenProcessPool:
                yield Graded(path, reason="the process that read it was killed (out of memory?)")


def die_with_parent() -> None:
    """End a reading process when the one that asked is gone: it would hold its standard output open for ever."""

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


# Reports go from process to process as MessagePack: pickling structs one by one takes several times as long.
# Paths stay behind: a file's name need not be text.
_BATCH = msgspec.msgpack.Decoder(list[Graded])


def _grade_batch(paths: list[str], now: datetime, ended: bool, debug: bool) -> bytes | list[Graded]:
    graded = [grade_file(path, now, ended, debug) for path in paths]
    for one in graded:
        one.path = ""
        one.reports = [msgspec.structs.replace(report, path=None) for report in one.reports]
    try:
        return msgspec.msgpack.encode(graded)
    except (ValueError, OverflowError):  # what MessagePack cannot hold goes the slow way
        return graded


def _unpacked(answer: bytes | list[Graded], paths: Iterable[str]) -> Iterator[Graded]:
    for one, path in zip(_BATCH.decode(answer) if isinstance(answer, bytes) else answer, paths, strict=True):
        one.path = path
        one.reports = [msgspec.structs.replace(report, path=path) for report in one.reports]
        yield one


def _batches(files: list[str], sizes: list[int]) -> list[tuple[list[str], int]]:
    """The files in order, in batches with their sizes: sending one small file at a time costs more than reading it."""
    batches: list[tuple[list[str], int]] = []
    for path, size in zip(files, sizes, strict=True):
        if batches and batches[-1][1] + size <= _BATCH_BYTES and len(batches[-1][0]) < _BATCH_FILES:
            batches[-1] = (batches[-1][0], batches[-1][1] + size)
            batches[-1][0].append(path)
        else:
            batches.append(([path], size))
    return batches


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0
