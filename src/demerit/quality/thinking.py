"""How much a model thought: an estimate of shape that never enters the score."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

__all__ = [
    "THINKING_BYTES_PER_TOKEN",
    "Thinking",
    "ThinkingBand",
    "ThinkingFolder",
    "estimate_tokens",
    "thinking_band",
]

ThinkingBand = Literal["off", "low", "medium", "high", "xhigh"]

THINKING_BYTES_PER_TOKEN = {"signature": 10.7, "ciphertext": 14.2, "text": 4.0}
"""Logged bytes for each reasoning token, by what the bytes are: an encrypted signature, a ciphertext,
or plain text. Source: akari's published calibration, against logs that kept both forms."""

_BAND_LIMITS: tuple[tuple[ThinkingBand, int], ...] = (("low", 128), ("medium", 512), ("high", 2048))

_MOST_TOKENS = 2**53
"""More than any turn has; a larger number in a damaged log would not fit a float."""


class Thinking(msgspec.Struct, frozen=True):
    """The shape of a session's thinking, over its own assistant turns."""

    assistant_turns: int
    thinking_turns: int
    tail_tokens: int
    """Mean of the hardest tenth of the thinking turns, at least one; 0 when none thought."""
    peak_tokens: int
    band: ThinkingBand


def estimate_tokens(reported: int | None, thinking_bytes: int, kind: str | None) -> float:
    """Reasoning tokens of one assistant turn; 0.0 when it did not think.

    reported: what the agent logged, believed when above 0; None or 0 when it says nothing.
    thinking_bytes: length of the logged reasoning, as `kind` counts it. An unknown kind counts as a
    signature, the most common form.
    """
    if reported is not None and reported > 0:
        return float(min(reported, _MOST_TOKENS))
    if thinking_bytes <= 0:
        return 0.0
    factor = THINKING_BYTES_PER_TOKEN.get(kind or "signature", THINKING_BYTES_PER_TOKEN["signature"])
    return min(thinking_bytes, _MOST_TOKENS) / factor


def thinking_band(tail_tokens: int) -> ThinkingBand:
    """The band of a session that thought: low to 128 tokens, medium to 512, high to 2048, else xhigh.

    Never "off": only a session in which no turn thought is off, and its tail cannot tell that.
    """
    return next((band for band, most in _BAND_LIMITS if tail_tokens <= most), "xhigh")


class ThinkingFolder:
    """Thinking in one pass, holding eight bytes for each turn that thought."""

    __slots__ = ("_assistant_turns", "_tokens")

    def __init__(self) -> None:
        self._assistant_turns = 0
        self._tokens = array("d")

    def add(self, tokens: float) -> None:
        """Count one assistant turn with its reasoning tokens; 0 when it did not think."""
        self._assistant_turns += 1
        if tokens > 0:
            self._tokens.append(tokens)

    def result(self) -> Thinking | None:
        """The session's thinking so far; None when it has no assistant turn."""
        return thinking_from(self._assistant_turns, len(self._tokens), lambda most: heapq.nlargest(most, self._tokens))


def thinking_from(
    assistant_turns: int, thinking_turns: int, hardest: Callable[[int], Iterable[float]]
) -> Thinking | None:
    """The shape of a session's thinking; None when it has no assistant turn.

    hardest: the tokens of so many of the thinking turns, the largest first.
    """
    if not assistant_turns:
        return None
    if not thinking_turns:
        return Thinking(assistant_turns, 0, 0, 0, "off")
    most = -(-thinking_turns // 10)
    peak = 0.0

    def watched() -> Iterator[float]:
        nonlocal peak
        for tokens in hardest(most):
            peak = max(peak, tokens)
            yield tokens

    tail = _rounded(math.fsum(watched()) / most)
    # The band goes by the rounded tail, so that the figure shown and its band never disagree.
    return Thinking(assistant_turns, thinking_turns, tail, _rounded(peak), thinking_band(tail))


def _rounded(tokens: float) -> int:
    """The nearest whole number; halves go up (no count is negative)."""
    whole = math.floor(tokens)
    return whole + 1 if tokens - whole >= 0.5 else whole
