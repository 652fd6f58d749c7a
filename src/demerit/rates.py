"""What a share of a few cases says, and how far to trust it."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

Z_95 = 1.959963984540054
"""Between minus and plus so many standard deviations lie 95 % of a normal distribution."""


class Share(NamedTuple):
    """A share with its 95 % interval, each from 0 to 1; all None where there was nothing to have a share of."""

    value: float | None
    low: float | None
    high: float | None


def wilson(hits: int, of: int) -> Share:
    """The share of `hits` among `of` cases with its 95 % score interval. Raises ValueError unless 0 <= hits <= of.

    Unlike the textbook's plus-minus it stays within 0 and 1, and says something of "none of three" too.
    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    if not 0 <= hits <= of:
        raise ValueError(f"{hits} of {of} is no share")
    if of == 0:
        return Share(None, None, None)
    share = hits / of
    weight = Z_95 * Z_95 / of
    middle = (share + weight / 2) / (1 + weight)
    half = Z_95 * sqrt(share * (1 - share) / of + weight / (4 * of)) / (1 + weight)
    # At both ends the bound is exact, and rounding must not push it past the share.
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == of else min(1.0, middle + half)
    return Share(share, low, high)


def share(part: float, of: float) -> float | None:
    """`part / of`; None where there is nothing to have a share of."""
    return part / of if of else None
