"""`demerit.parse` and `demerit.grade`, and grading of many logs at once over all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from demerit.model import Session, Usage
from demerit.parsers import chat
from demerit.parsers.records import Record, Source
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
    path_or_messages: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Any],
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
    if isinstance(path_or_messages, str | os.PathLike):
        path = Path(path_or_messages)
        return [report_on(session, moment, ended, str(path)) for session in read_sessions(path, REPORT_LIMITS)]
    if isinstance(path_or_messages, Mapping):
        records = [Record(msgspec.json.encode(dict(path_or_messages)), None)]
        return [report_on(session, moment, ended, None) for session in chat.parse(records, Source())]
    return [report_on(chat.parse_messages(path_or_messages, Source()), moment, ended, None)]


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


def grade_file(path: str, now: datetime, ended: bool) -> Graded:
    """What one log gives; what keeps it from being read is in `error`."""
    try:
        sessions = read_sessions(Path(path), REPORT_LIMITS)
    except Unreadable as error:
        return Graded(path, reason=error.reason, known_agent=error.known_agent)
    reports = [report_on(session, now, ended, path) for session in sessions]
    return Graded(path, reports, [usage for session in sessions for usage in requests_of(session)])


def requests_of(session: Session) -> Iterator[Usage]:
    """The usage of every request of a session, repeats included."""
    yield from (message.usage for message in session.messages if message.usage is not None)
    yield from session.loose_usage


def grade_files(paths: Iterable[Path], now: datetime, ended: bool = False, workers: int = 0) -> Iterator[Graded]:
    """What each log gives, in the order of `paths`, read over `workers` processes (0: one a core)."""
    files = [str(path) for path in paths]
    sizes = [_size(path) for path in files]
    workers = min(workers or os.cpu_count() or 1, len(files))
    if workers < 2 or sum(sizes) < _WORTH_A_POOL:
        yield from (grade_file(path, now, ended) for path in files)
        return
    batches = _batches(files, sizes)
    with ProcessPoolExecutor(workers) as pool:
        # The largest first, or the last one running is the largest; the answers come in the order of the files.
        # Among ordinary batches the first ones come first, so that answers can be handed on early.
        order = sorted(range(len(batches)), key=lambda at: -max(batches[at][1], _BATCH_BYTES))
        futures = {at: pool.submit(_grade_batch, batches[at][0], now, ended) for at in order}
        for at in range(len(batches)):
            yield from _BATCH.decode(futures.pop(at).result())


# Reports go from process to process as MessagePack: pickling structs one by one takes several times as long.
_BATCH = msgspec.msgpack.Decoder(list[Graded])


def _grade_batch(paths: list[str], now: datetime, ended: bool) -> bytes:
    return msgspec.msgpack.encode([grade_file(path, now, ended) for path in paths])


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
