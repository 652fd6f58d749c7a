"""How full the context got, and how often it was emptied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = [
    "RESET_DROP_FRACTION",
    "RESET_FLOOR_TOKENS",
    "ContextHealth",
    "ContextHealthFolder",
    "context_health",
    "is_context_reset",
]

RESET_FLOOR_TOKENS = 20_000
"""A context smaller than this is still warming up: its swings are no resets. An absolute count, not a
share of the model's window, so that it holds for models whose window nobody knows."""

RESET_DROP_FRACTION = 0.5
"""A turn of at most this share of the turn before it has shed its context."""


class ContextHealth(NamedTuple):
    peak: int = 0
    """Tokens of the largest turn."""
    resets: int = 0
    """Turns that shed their context: compactions and clearings, as far as sizes show them."""


def is_context_reset(prev: int, cur: int) -> bool:
    """Whether the step from a turn of `prev` tokens to the next one of `cur` is a compaction or a clearing.

    Both bounds are inclusive: `prev` of 20,000 or more, `cur` half of it or less.
    """
    # Doubled rather than multiplied by the fraction: exact for integers of any size.
    return prev >= RESET_FLOOR_TOKENS and cur * 2 <= prev


class ContextHealthFolder:
    """Context health in one pass, holding three numbers however long the session is."""

    __slots__ = ("_peak", "_prev", "_resets")

    def __init__(self) -> None:
        self._prev: int | None = None
        self._peak = 0
        self._resets = 0

    def add(self, tokens: int) -> None:
        """Count the next turn in transcript order: uncached input, cache reads and cache writes."""
        if self._prev is not None and is_context_reset(self._prev, tokens):
            self._resets += 1
        self._peak = max(self._peak, tokens)
        self._prev = tokens

    def result(self) -> ContextHealth | None:
        """Peak and resets so far; None when no turn was added, which is nothing to measure and not zero."""
        return None if self._prev is None else ContextHealth(self._peak, self._resets)


def context_health(per_turn_tokens: Iterable[int]) -> ContextHealth:
    """Peak and resets of a session's turns in transcript order; (0, 0) when there is none.

    The folder tells "no turn" from "turns of size zero"; this form does not.
    """
    folder = ContextHealthFolder()
    for tokens in per_turn_tokens:
        folder.add(tokens)
    return folder.result() or ContextHealth()
