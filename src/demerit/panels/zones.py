"""Days in the reader's time zone, cut by the database.

The database knows no zones: it gets the zone's offsets over the span in question, each with the time from which it
holds, so that both changes of the clocks fall where they should, in either engine.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, ColumnElement, case, literal

DAY_S = 86_400
_HOUR_S = 3600
_STEP_S = 7 * DAY_S
"""No zone has changed its clocks twice within a week and meant it."""
_FIRST_S = -2_208_988_800  # 1900
_LAST_S = 7_258_118_400  # 2200
# Integer division rounds towards zero in both engines, and should go downwards before 1970 too.
_BIAS_DAYS = 1_000_000
_SECOND_US = 1_000_000


class Offset(NamedTuple):
    since_s: int
    """Seconds since 1970 from which it holds, up to the next one's."""
    offset_s: int


def offsets(zone: ZoneInfo, first_s: int, last_s: int) -> list[Offset]:
    """The zone's offsets from UTC between two times, oldest first; the first one holds before them too."""
    at, last = (min(max(time_s, _FIRST_S), _LAST_S) for time_s in (first_s, last_s))
    found = [Offset(at, _offset_s(zone, at))]
    while at < last:
        until = min(at + _STEP_S, last)
        if _offset_s(zone, until) != found[-1].offset_s:
            found.append(_change(zone, at, until))
        at = until
    return found


def local_day(time_us: ColumnElement[int], found: list[Offset]) -> ColumnElement[int]:
    """The number of the day, from 1970-01-01 on, on which a time falls in the zone with these offsets."""
    offset = _large(found[0].offset_s * _SECOND_US)
    if len(found) > 1:
        # The newest first: most rows are of lately.
        whens = [
            (time_us >= _large(since_s * _SECOND_US), _large(offset_s * _SECOND_US)) for since_s, offset_s in found
        ]
        offset = case(*whens[:0:-1], else_=offset)
    day_us = DAY_S * _SECOND_US
    return (time_us + offset + _large(_BIAS_DAYS * day_us)) // _large(day_us) - _large(_BIAS_DAYS)


def local_day_of_hour(hour: ColumnElement[int], found: list[Offset]) -> ColumnElement[int]:
    """The same of the time at which an hour, counted from 1970 on, begins."""
    offset = _large(found[0].offset_s)
    if len(found) > 1:
        whens = [(hour >= -(-since_s // _HOUR_S), _large(offset_s)) for since_s, offset_s in found]
        offset = case(*whens[:0:-1], else_=offset)
    return (hour * _large(_HOUR_S) + offset + _large(_BIAS_DAYS * DAY_S)) // _large(DAY_S) - _large(_BIAS_DAYS)


def _large(number: int) -> ColumnElement[int]:
    return literal(number, BigInteger)


def date_of(number: int) -> date:
    """The day of a number of `local_day`."""
    return date(1970, 1, 1) + timedelta(days=number)


def begin_of(day: date, zone: ZoneInfo) -> datetime:
    """When a day begins in the zone, in UTC. A midnight that the clocks skip is the moment when they do."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _offset_s(zone: ZoneInfo, time_s: int) -> int:
    offset = datetime.fromtimestamp(time_s, zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def _change(zone: ZoneInfo, before_s: int, after_s: int) -> Offset:
    """The first second between two times with different offsets at which the later one's holds."""
    wanted = _offset_s(zone, after_s)
    while after_s - before_s > 1:
        middle = (before_s + after_s) // 2
        if _offset_s(zone, middle) == wanted:
            after_s = middle
        else:
            before_s = middle
    return Offset(after_s, wanted)
