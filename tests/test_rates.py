"""Shares and their intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.rates import Share, share, wilson


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        pytest.param(81, 263, 0.2553, 0.3662, id="many cases"),
        pytest.param(15, 148, 0.0624, 0.1605, id="few hits"),
        pytest.param(0, 20, 0.0, 0.1611, id="no hit at all still says how many there may be"),
        pytest.param(1, 29, 0.0061, 0.1718, id="one hit"),
    ],
)
def test_the_interval_is_the_published_one(hits: int, of: int, low: float, high: float) -> None:
    """R. G. Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3."""
    rate = wilson(hits, of)
    assert rate.value == hits / of
    assert rate.low == pytest.approx(low, abs=5e-5)
    assert rate.high == pytest.approx(high, abs=5e-5)


def test_nothing_to_have_a_share_of_is_none() -> None:
    assert wilson(0, 0) == Share(None, None, None)
    assert share(0, 0) is None


@pytest.mark.parametrize(("hits", "of"), [(2, 1), (-1, 3)])
def test_what_is_no_share_is_refused(hits: int, of: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(hits, of)


@given(st.integers(1, 10**12).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_the_share_lies_in_its_interval_and_hits_mirror_misses(case: tuple[int, int]) -> None:
    hits, of = case
    rate, misses = wilson(hits, of), wilson(of - hits, of)
    assert rate.value is not None and rate.low is not None and rate.high is not None
    assert 0 <= rate.low <= rate.value <= rate.high <= 1
    assert misses.low == pytest.approx(1 - rate.high, abs=1e-9)
