"""The raw bytes of every log, compressed and only added to: what a better parser reads again.

A log is kept in frames of a megabyte, each compressed by itself, so that a part can be read without the rest. It has a
new generation when it was rewritten; the old one stays as long as the new one does not hold all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import zstandard
from sqlalchemy import Connection, and_, delete, func, select, update

from demerit.store.engines import StoreError, insert_rows
from demerit.store.schema import archived_frames, archived_logs

FRAME_BYTES = 1 << 20
_SMALL_FRAME = 1 << 18
_LEVEL = 1
_AT_A_TIME = 500


class Damaged(StoreError):
    """The archived bytes of one log are not what was put there."""


class Archived(NamedTuple):
    """What is kept of one log."""

    key: str
    machine: str
    path: str
    os_path: bytes
    """The path's very bytes: it need not be text."""
    agent: str | None
    is_framed: bool
    """Records of a database or of several files, rather than the bytes of one."""
    generation: int
    bytes: int
    modified_us: int | None


def archived(connection: Connection, keys: Sequence[str]) -> dict[str, Archived]:
    """What is kept of these logs, by their keys."""
    found: dict[str, Archived] = {}
    for at in range(0, len(keys), _AT_A_TIME):
        rows = connection.execute(select(archived_logs).where(archived_logs.c.key.in_(keys[at : at + _AT_A_TIME])))
        found.update((row.key, Archived(*row)) for row in rows)
    return found


def all_archived(connection: Connection) -> list[Archived]:
    """All logs that are kept, the last written first."""
    newest = select(archived_logs).order_by(archived_logs.c.modified_us.desc(), archived_logs.c.key)
    return [Archived(*row) for row in connection.execute(newest)]


def pieces(connection: Connection, key: str, generation: int, start: int = 0) -> Iterator[bytes]:
    """The bytes of a log from `start` on. Raises Damaged where they are not as they were put in."""
    frame = archived_frames.c
    first = connection.execute(
        select(func.max(frame.start)).where(frame.key == key, frame.generation == generation, frame.start <= start)
    ).scalar()
    query = (
        select(frame.start, frame.data)
        .where(frame.key == key, frame.generation == generation, frame.start >= (first or 0))
        .order_by(frame.start)
    )
    with connection.execute(query, execution_options={"stream_results": True, "yield_per": 4}) as rows:
        for at, data in rows:
            piece = _unpacked(data)
            yield piece[start - at :] if at < start else piece


class ArchivedBytes:
    """Reads pieces of an archived log wherever they are, with the last frame at hand."""

    def __init__(self, connection: Connection, key: str, generation: int) -> None:
        self._connection = connection
        self._of_it = and_(archived_frames.c.key == key, archived_frames.c.generation == generation)
        self._start = 0
        self._frame = b""

    def piece(self, at: int, size: int) -> bytes:
        """`size` bytes from `at` on, fewer where there are no more."""
        found = b""
        while len(found) < size:
            place = at + len(found)
            if not self._start <= place < self._start + len(self._frame):
                frame = archived_frames.c
                row = self._connection.execute(
                    select(frame.start, frame.data)
                    .where(self._of_it, frame.start <= place)
                    .order_by(frame.start.desc())
                    .limit(1)
                ).first()
                if row is None:
                    break
                self._start, self._frame = row.start, _unpacked(row.data)
            more = self._frame[place - self._start : at + size - self._start]
            if not more:
                break
            found += more
        return found


def generations(connection: Connection, key: str) -> list[int]:
    """The generations of which bytes are kept, the newest first."""
    found = select(archived_frames.c.generation).where(archived_frames.c.key == key).distinct()
    return sorted(connection.execute(found).scalars(), reverse=True)


class Frame(NamedTuple):
    start: int
    size: int
    data: bytes


def frames(raw: Iterable[bytes], start: int) -> list[Frame]:
    """The bytes, which begin at `start` of their log, in compressed frames."""
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    made: list[Frame] = []
    waiting: list[bytes] = []
    size = 0

    def close() -> None:
        nonlocal start, size
        made.append(Frame(start, size, packer.compress(b"".join(waiting))))
        start += size
        size = 0
        waiting.clear()

    for piece in raw:
        waiting.append(piece)
        size += len(piece)
        if size >= FRAME_BYTES:
            close()
    if size:
        close()
    return made


def holds(connection: Connection, key: str, generation: int, made: Sequence[Frame]) -> bool:
    """Whether a generation is these very frames."""
    frame = archived_frames.c
    kept = select(frame.start, frame.bytes, frame.data).where(frame.key == key, frame.generation == generation)
    return [tuple(row) for row in connection.execute(kept.order_by(frame.start))] == made


class Addition(NamedTuple):
    """What is to be kept of one log."""

    log: Archived
    """As it is with the frames."""
    known: Archived | None
    """As it was when they were made."""
    frames: list[Frame]
    drops: bool
    """Its earlier generations need not stay."""


def add(connection: Connection, additions: Sequence[Addition]) -> None:
    """Keep the frames of some logs, after those that are there.

    Where somebody else added to a log meanwhile, theirs stay: the next pass finds what is missing.
    """
    now = archived(connection, [one.log.key for one in additions])
    rows: list[tuple[object, ...]] = []
    new: list[tuple[object, ...]] = []
    for log, known, made, drops in additions:
        if now.get(log.key) != known:
            continue
        if known is None:
            new.append(tuple(log))
        else:
            connection.execute(update(archived_logs).where(archived_logs.c.key == log.key).values(**log._asdict()))
            made = _joined(connection, log, made)
        if drops:
            old = and_(archived_frames.c.key == log.key, archived_frames.c.generation != log.generation)
            connection.execute(delete(archived_frames).where(old))
        rows += [(log.key, log.generation, *frame) for frame in made]
    insert_rows(connection, archived_logs, new)
    insert_rows(connection, archived_frames, rows)


def _joined(connection: Connection, log: Archived, made: list[Frame]) -> list[Frame]:
    """The frames to add, the first of them joined with a small one before it, which is deleted.

    A log that grows line by line would come to as many frames, each hardly compressed.
    """
    if not made:
        return made
    frame = archived_frames.c
    last = connection.execute(
        select(frame.start, frame.bytes, frame.data)
        .where(frame.key == log.key, frame.generation == log.generation)
        .order_by(frame.start.desc())
        .limit(1)
    ).first()
    if last is None or last.bytes + made[0].size > _SMALL_FRAME:
        return made
    of_it = and_(frame.key == log.key, frame.generation == log.generation, frame.start == last.start)
    connection.execute(delete(archived_frames).where(of_it))
    return frames([_unpacked(last.data), _unpacked(made[0].data)], last.start) + made[1:]


def forget(connection: Connection, key: str) -> None:
    """Delete all that is kept of a log."""
    connection.execute(delete(archived_frames).where(archived_frames.c.key == key))
    connection.execute(delete(archived_logs).where(archived_logs.c.key == key))


def _unpacked(data: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=4 * FRAME_BYTES)
    except zstandard.ZstdError as error:
        raise Damaged(f"its archived bytes are damaged ({error}); its sessions stay as they were read") from error
