"""What the store says of itself: how far a rebuild is, what could not be read, and what was lost on the way."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import msgspec
from sqlalchemy import Connection, and_, func, select

from demerit.model import PARSE_EPOCH
from demerit.store.filters import is_visible, microseconds
from demerit.store.schema import logs, sessions

_RATE_OVER = timedelta(seconds=60)
_LISTED = 1000
_COUNTS = msgspec.json.Decoder(dict[str, int])


class Rebuilding(msgspec.Struct, frozen=True):
    """Sessions that older parsers read are there, and are being read again: until then nothing is compared."""

    logs_done: int
    logs: int
    seconds_left: float | None
    """At the rate of the last minute; None: nobody is at it just now (`demerit rebuild` goes on)."""


def rebuilding(connection: Connection, now: datetime) -> Rebuilding | None:
    """How far the reading by the parsers of this version is; None when every session that can be read has been.

    Sessions whose log is gone and was not archived stay as they are, and count nowhere.
    """
    old = and_(sessions.c.epoch != PARSE_EPOCH, logs.c.epoch != PARSE_EPOCH)
    joined = sessions.join(logs, logs.c.id == sessions.c.log_id)
    if connection.execute(select(sessions.c.id).select_from(joined).where(old).limit(1)).first() is None:
        return None
    current = logs.c.epoch == PARSE_EPOCH
    lately = and_(current, logs.c.read_us > microseconds(now - _RATE_OVER))
    total, done, recent = connection.execute(
        select(func.count(), func.count().filter(current), func.count().filter(lately)).select_from(logs)
    ).one()
    seconds = (total - done) * _RATE_OVER.total_seconds() / recent if recent else None
    return Rebuilding(done, total, seconds)


class Unread(msgspec.Struct, frozen=True):
    """A log that gave no session."""

    path: str
    machine: str
    reason: str
    known_agent: bool
    """It is, or lies among, the logs of an agent that we know."""


class Status(msgspec.Struct, frozen=True):
    """What the store holds."""

    logs: int
    gone: int
    """Of these, those that are on the disk no more."""
    sessions: int
    """Those that count: no copies, and read by the parsers of this version."""
    waiting: int
    """Of these, those that have not come to rest, or are still to be graded."""
    copies: int
    outdated: int
    """Read by older parsers, and their log is gone: they are shown one by one, and count nowhere."""
    losses: dict[str, int]
    """Records and values that were not understood, by kind."""
    unread: tuple[Unread, ...]
    """At most 1,000."""
    unread_count: int
    rebuilding: Rebuilding | None


def status(connection: Connection, now: datetime) -> Status:
    """What the store holds, what could not be read, and why."""
    total, gone, unread = connection.execute(
        select(func.count(), func.count().filter(logs.c.is_gone), func.count().filter(logs.c.reason.is_not(None)))
    ).one()
    counted, waiting, copies, outdated = connection.execute(
        select(
            func.count().filter(is_visible),
            func.count().filter(and_(is_visible, sessions.c.is_stale)),
            func.count().filter(sessions.c.copy_of.is_not(None)),
            func.count().filter(sessions.c.epoch != PARSE_EPOCH),
        ).select_from(sessions)
    ).one()
    losses: Counter[str] = Counter()
    kinds = select(sessions.c.losses, func.count()).where(is_visible, sessions.c.losses != "{}")
    for found, times in connection.execute(kinds.group_by(sessions.c.losses)):
        losses.update({kind: count * times for kind, count in _COUNTS.decode(found).items()})
    listed = (
        select(logs.c.path, logs.c.machine, logs.c.reason, logs.c.known_agent)
        .where(logs.c.reason.is_not(None))
        .order_by(logs.c.known_agent.desc(), logs.c.path)
        .limit(_LISTED)
    )
    return Status(
        logs=total,
        gone=gone,
        sessions=counted,
        waiting=waiting,
        copies=copies,
        outdated=outdated,
        losses=dict(losses.most_common()),
        unread=tuple(Unread(*row) for row in connection.execute(listed)),
        unread_count=unread,
        rebuilding=rebuilding(connection, now),
    )
