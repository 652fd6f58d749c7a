"""The raw bytes of every log, compressed and only added to: what a better parser reads again.

A log is kept in frames of a megabyte, each compressed by itself, so that a part can be read without the rest. It has a
new generation when it was rewritten; the old one stays as long as the new one does not hold all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import zstandard
from sqlalchemy import Connection, and_, delete, func, insert, select, update

from demerit.store.engines import StoreError, insert_rows
from demerit.store.schema import archived_frames, archived_logs

FRAME_BYTES = 1 << 20
_SMALL_FRAME = 1 << 18
_LEVEL = 3


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


def archived(connection: Connection, key: str) -> Archived | None:
    """What is kept of a log; None when nothing is."""
    row = connection.execute(select(archived_logs).where(archived_logs.c.key == key)).first()
    return None if row is None else Archived(*row)


def all_archived(connection: Connection) -> list[Archived]:
    """All logs that are kept, the last written first."""
    newest = select(archived_logs).order_by(archived_logs.c.modified_us.desc(), archived_logs.c.key)
    return [Archived(*row) for row in connection.execute(newest)]


def pieces(connection: Connection, key: str, generation: int, start: int = 0) -> Iterator[bytes]:
    """The bytes of a log from `start` on. Raises StoreError where they are damaged."""
    frame = archived_frames.c
    first = connection.execute(
        select(func.max(frame.start)).where(frame.key == key, frame.generation == generation, frame.start <= start)
    ).scalar()
    rows = connection.execute(
        select(frame.start, frame.data)
        .where(frame.key == key, frame.generation == generation, frame.start >= (first or 0))
        .order_by(frame.start),
        execution_options={"stream_results": True, "yield_per": 4},
    )
    for at, data in rows:
        piece = _unpacked(data)
        yield piece[start - at :] if at < start else piece


def generations(connection: Connection, key: str) -> list[int]:
    """The generations of which bytes are kept, the newest first."""
    found = select(archived_frames.c.generation).where(archived_frames.c.key == key).distinct()
    return sorted(connection.execute(found).scalars(), reverse=True)


class Frame(NamedTuple):
    start: int
    bytes: int
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


def add(connection: Connection, log: Archived, made: Sequence[Frame], drops: bool) -> None:
    """Keep frames of a log, after those that are there. `log` is as it is with them.

    drops: earlier generations need not stay.
    """
    known = archived(connection, log.key)
    if known is None:
        connection.execute(insert(archived_logs).values(**log._asdict()))
    else:
        connection.execute(update(archived_logs).where(archived_logs.c.key == log.key).values(**log._asdict()))
    if drops:
        old = and_(archived_frames.c.key == log.key, archived_frames.c.generation != log.generation)
        connection.execute(delete(archived_frames).where(old))
    rows = list(made)
    of_it = and_(archived_frames.c.key == log.key, archived_frames.c.generation == log.generation)
    if rows:
        # What a killed run left behind, and nobody counted.
        connection.execute(delete(archived_frames).where(of_it, archived_frames.c.start >= rows[0].start))
        last = connection.execute(
            select(archived_frames.c.start, archived_frames.c.bytes, archived_frames.c.data)
            .where(of_it, archived_frames.c.start < rows[0].start)
            .order_by(archived_frames.c.start.desc())
            .limit(1)
        ).first()
        if last is not None and last.bytes + rows[0].bytes <= _SMALL_FRAME:
            # A log that grows line by line would come to as many frames, each hardly compressed.
            whole = [_unpacked(last.data), _unpacked(rows[0].data)]
            connection.execute(delete(archived_frames).where(of_it, archived_frames.c.start == last.start))
            rows[:1] = frames(whole, last.start)
    insert_rows(connection, archived_frames, [(log.key, log.generation, *row) for row in rows])


def forget(connection: Connection, key: str) -> None:
    """Delete all that is kept of a log."""
    connection.execute(delete(archived_frames).where(archived_frames.c.key == key))
    connection.execute(delete(archived_logs).where(archived_logs.c.key == key))


def _unpacked(data: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=4 * FRAME_BYTES)
    except zstandard.ZstdError as error:
        raise StoreError(f"the archive is damaged ({error}): of that log, what its agent still has is read") from error
