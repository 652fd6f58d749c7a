"""What proxies counted and their loop guards decided: two logs that outlive the process, and that several may share.

`model_counts` has what a ledger counted, by the hour, and is kept for good. The trips log has one row a decision of
the guard and one number a day for the requests that it read; both go after 90 days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple

import msgspec
from sqlalchemy import BigInteger, Connection, delete, func, insert, literal_column, select, text

from demerit.rates import Share, wilson
from demerit.store.filters import microseconds
from demerit.store.schema import guard_scans, guard_trips
from demerit.store.schema import model_counts as stored_counts
from demerit.store.texts import plain

MOST_DAYS = 90
"""Days of the trips log, today among them."""
MOST_TRIPS = 50_000
"""Rows of the trips log, beyond which its oldest days go, but for today."""

_DAY_US = 86_400_000_000
_MODEL_CHARS = 256
_FIRST_DAY = date(1970, 1, 1)
# No parameter: PostgreSQL would not see that what is grouped by is what is asked for.
_day_of_trip = literal_column(f"guard_trips.at_us / {_DAY_US}", BigInteger).label("day")
_day_of_hour = literal_column("model_counts.hour / 24 * 24", BigInteger).label("begins")


def _named(model: str) -> str:
    return plain(model[:_MODEL_CHARS])


# --- what was counted -------------------------------------------------------------------------------------------


class CountRow(NamedTuple):
    """What proxies of one version counted for one model in an hour, or in a day, with one counter."""

    hour: int
    """When it began, in whole hours since 1970."""
    model: str
    version: str
    """Of demerit. A counter without a row has counted nothing, or was not known to that version."""
    counter: str
    value: int


_ADD_COUNTS = text(
    "insert into model_counts (hour, model, version, counter, value) values (:hour, :model, :version, :counter, :value)"
    " on conflict (hour, model, version, counter) do update set value = model_counts.value + excluded.value"
)


def add_model_counts(
    connection: Connection, hour: int, version: str, differences: Mapping[str, Mapping[str, int]]
) -> None:
    """Add what was counted to what is there. Raises ValueError for a difference below 0: nothing is uncounted.

    hour: whole hours since 1970. differences: by model, then by counter.
    """
    if any(value < 0 for counts in differences.values() for value in counts.values()):
        raise ValueError("a count cannot be taken back: every difference must be 0 or more")
    rows = [
        {"hour": hour, "model": _named(model), "version": version, "counter": counter, "value": value}
        for model, counts in differences.items()
        for counter, value in counts.items()
        if value
    ]
    if rows:
        connection.execute(_ADD_COUNTS, rows)


def model_counts(
    connection: Connection,
    since_hour: int,
    until_hour: int,
    model: str | None = None,
    by: Literal["hour", "day"] = "hour",
) -> list[CountRow]:
    """What was counted from one hour to before another, oldest first, then by model, version and counter.

    by: "day" adds up each day of UTC; its first and last may be cut by the hours that are asked for.
    """
    row = stored_counts.c
    hour = _day_of_hour if by == "day" else row.hour
    keys = (hour, row.model, row.version, row.counter)
    asked = select(*keys, func.sum(row.value)).where(row.hour >= since_hour, row.hour < until_hour).group_by(*keys)
    if model is not None:
        asked = asked.where(row.model == _named(model))
    return sorted(CountRow(*row[:-1], int(row[-1])) for row in connection.execute(asked))


# --- the trips log ----------------------------------------------------------------------------------------------


class Trip(msgspec.Struct, frozen=True):
    """One decision of the guard, whatever became of the request."""

    at_us: int
    model: str
    version: str
    """Of demerit."""
    mode: str
    detector: str
    signature_hash: str | None
    """None where it was not calls that repeated."""
    session_hash: str | None
    """None where the conversation could not be told from others."""
    count: int
    limit: int


class ScanKey(NamedTuple):
    """What requests that the guard read are counted by."""

    day: int
    """Since 1970, in UTC."""
    model: str
    version: str
    mode: str


class TripsDay(NamedTuple):
    """What the guards of one version in one mode did with one model on one day."""

    day: date
    """In UTC."""
    model: str
    version: str
    mode: str
    scanned: int
    """Requests that were read. A process that was killed can have lost some, but not their trips."""
    trips: int
    loops: int
    stagnations: int
    sessions: int
    """Conversations with a trip, as far as they could be told apart. One that goes on past midnight counts twice."""

    @property
    def loops_share(self) -> Share:
        """Of what was scanned; unknown where less was than tripped."""
        return self._share(self.loops)

    @property
    def stagnations_share(self) -> Share:
        """Of what was scanned; unknown where less was than tripped."""
        return self._share(self.stagnations)

    def _share(self, hits: int) -> Share:
        return wilson(hits, self.scanned) if hits <= self.scanned else Share(None, None, None)


_ADD_SCANS = text(
    "insert into guard_scans (day, model, version, mode, scanned) values (:day, :model, :version, :mode, :scanned)"
    " on conflict (day, model, version, mode) do update set scanned = guard_scans.scanned + excluded.scanned"
)


def day_of(at_us: int) -> int:
    """Whole days from 1970 to a time, in UTC."""
    return at_us // _DAY_US


def add_decisions(connection: Connection, decided: Iterable[Trip], scans: Mapping[ScanKey, int]) -> None:
    """Put decisions into the trips log, and add requests that were read to those of their days."""
    rows = [{**msgspec.structs.asdict(trip), "model": _named(trip.model)} for trip in decided]
    if rows:
        connection.execute(insert(guard_trips), rows)
    read = [{**key._asdict(), "model": _named(key.model), "scanned": count} for key, count in scans.items()]
    if read:
        connection.execute(_ADD_SCANS, read)


def forget_old_trips(connection: Connection, now: datetime) -> None:
    """Delete the oldest days of the trips log that are more than `MOST_DAYS`, or have more than `MOST_TRIPS` rows.

    Days go whole, and from both tables, so that no share is of half a day. Today's never go, however many they are.
    """
    today = day_of(microseconds(now))
    last = today - MOST_DAYS  # the newest day that goes
    too_many = select(guard_trips.c.at_us).order_by(guard_trips.c.at_us.desc()).offset(MOST_TRIPS).limit(1)
    at_us = connection.execute(too_many).scalar()
    if at_us is not None:
        last = max(last, min(day_of(at_us), today - 1))
    connection.execute(delete(guard_scans).where(guard_scans.c.day <= last))
    connection.execute(delete(guard_trips).where(guard_trips.c.at_us < (last + 1) * _DAY_US))


def trips(connection: Connection, since_us: int) -> list[TripsDay]:
    """The trips log from the UTC day of this time on, newest first: each day on which requests were read, or tripped.

    The shares of two rows can be compared only within one mode and one version.
    """
    first = day_of(since_us)
    scan, trip = guard_scans.c, guard_trips.c
    scanned = select(scan.day, scan.model, scan.version, scan.mode, scan.scanned).where(scan.day >= first)
    keys = (_day_of_trip, trip.model, trip.version, trip.mode)
    tripped = (
        select(
            *keys,
            func.count(),
            func.count().filter(trip.detector == "loop"),
            func.count().filter(trip.detector == "stagnation"),
            func.count(trip.session_hash.distinct()),
        )
        .where(trip.at_us >= first * _DAY_US)
        .group_by(*keys)
    )
    found: dict[ScanKey, tuple[int, ...]] = {}
    for *key, count in connection.execute(scanned):
        found[ScanKey(*key)] = (count, 0, 0, 0, 0)
    for day, model, version, mode, *counts in connection.execute(tripped):
        key_of_trips = ScanKey(day, model, version, mode)
        found[key_of_trips] = (found.get(key_of_trips, (0,))[0], *counts)
    return [
        TripsDay(_FIRST_DAY + timedelta(key.day), *key[1:], *found[key])
        for key in sorted(found, key=lambda key: (-key.day, *key[1:]))
    ]
