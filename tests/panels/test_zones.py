"""Days as the clocks of a zone cut them, in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Connection, create_engine, literal, select

from demerit.panels.zones import begin_of, date_of, local_day, offsets
from demerit.store.filters import microseconds

ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"),
    *("America/Sao_Paulo", "Africa/Casablanca", "Asia/Kathmandu", "Asia/Gaza"),
)


@pytest.fixture(scope="module")
def sqlite() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@given(
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    times=st.lists(
        st.datetimes(datetime(1965, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC)), min_size=1, max_size=4
    ),
)
def test_a_time_is_on_the_day_that_the_zone_s_clocks_say(
    sqlite: Connection, zone: ZoneInfo, times: list[datetime]
) -> None:
    all_us = [microseconds(time) for time in times]
    found = offsets(zone, min(all_us) // 1_000_000, max(all_us) // 1_000_000)
    for time, time_us in zip(times, all_us, strict=True):
        number = sqlite.execute(select(local_day(literal(time_us, BigInteger), found))).scalar_one()
        day = date_of(number)
        assert day == time.astimezone(zone).date()
        # Its row lists what began in the day, and this did.
        assert begin_of(day, zone) <= time < begin_of(day + timedelta(days=1), zone)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        pytest.param("Europe/Berlin", date(2026, 3, 29), 23, id="clocks go forward"),
        pytest.param("Europe/Berlin", date(2026, 10, 25), 25, id="clocks go back"),
        pytest.param("America/Sao_Paulo", date(2018, 11, 4), 23, id="the skipped hour is that after midnight"),
        pytest.param("Pacific/Apia", date(2011, 12, 30), 0, id="the whole day was skipped"),
    ],
)
def test_a_day_has_the_hours_that_the_clocks_give_it(zone: str, day: date, hours: int) -> None:
    there = ZoneInfo(zone)
    assert begin_of(day + timedelta(days=1), there) - begin_of(day, there) == timedelta(hours=hours)


def test_offsets_are_told_to_the_second_of_their_change() -> None:
    found = offsets(ZoneInfo("Europe/Berlin"), 1_767_225_600, 1_798_761_600)  # the year 2026
    assert found == [(1_767_225_600, 3600), (1_774_746_000, 7200), (1_792_890_000, 3600)]
