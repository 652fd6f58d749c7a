"""Observed thinking: one turn's estimate, and a session's tail, peak and band."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.quality.thinking import (
    THINKING_BYTES_PER_TOKEN,
    Thinking,
    ThinkingBand,
    ThinkingFolder,
    estimate_tokens,
    thinking_band,
)

ESTIMATES = [
    ("reported tokens are believed over bytes", 300, 1_070, "signature", 300.0),
    ("reported tokens need no bytes", 12, 0, None, 12.0),
    ("zero reported falls back to bytes", 0, 1_070, "signature", 100.0),
    ("nothing reported falls back to bytes", None, 1_420, "ciphertext", 100.0),
    ("plain text has four bytes a token", None, 400, "text", 100.0),
    ("an unnamed kind counts as a signature", None, 1_070, None, 100.0),
    ("an unknown kind counts as a signature", None, 1_070, "hologram", 100.0),
    ("no tokens and no bytes did not think", None, 0, None, 0.0),
    ("zero reported and no bytes did not think", 0, 0, "signature", 0.0),
    ("a kind without bytes did not think", None, 0, "ciphertext", 0.0),
    ("a negative report is no report", -5, 400, "text", 100.0),
]


@pytest.mark.parametrize(
    ("reported", "thinking_bytes", "kind", "tokens"),
    [case[1:] for case in ESTIMATES],
    ids=[case[0] for case in ESTIMATES],
)
def test_one_turn(reported: int | None, thinking_bytes: int, kind: str | None, tokens: float) -> None:
    assert estimate_tokens(reported, thinking_bytes, kind) == pytest.approx(tokens)


def test_the_factors_are_the_published_ones() -> None:
    assert THINKING_BYTES_PER_TOKEN == {"signature": 10.7, "ciphertext": 14.2, "text": 4.0}


def test_a_number_that_fits_no_float_does_not_raise() -> None:
    assert math.isfinite(estimate_tokens(10**400, 0, None))
    assert math.isfinite(estimate_tokens(None, 10**400, "text"))


BANDS = [
    (0, "low"),
    (1, "low"),
    (128, "low"),
    (129, "medium"),
    (512, "medium"),
    (513, "high"),
    (2048, "high"),
    (2049, "xhigh"),
    (50_000, "xhigh"),
]


@pytest.mark.parametrize(("tail", "band"), BANDS, ids=[f"{tail} is {band}" for tail, band in BANDS])
def test_band_edges(tail: int, band: str) -> None:
    assert thinking_band(tail) == band


SESSIONS: list[tuple[str, Sequence[float], tuple[int, int, int, int, str] | None]] = [
    ("no assistant turn is nothing to measure", [], None),
    ("turns that did not think are measured zeros, and off", [0, 0], (2, 0, 0, 0, "off")),
    ("the hardest of two thinking turns is the tail", [100, 0, 300], (3, 2, 300, 300, "medium")),
    ("a tenth of twelve turns is two", [100] * 11 + [3_000], (12, 12, 1_550, 3_000, "high")),
    ("a tenth of ten turns is one", [100] * 9 + [3_000], (10, 10, 3_000, 3_000, "xhigh")),
    ("a tenth of eleven turns is two", [100] * 10 + [3_000], (11, 11, 1_550, 3_000, "high")),
    ("a tenth of twenty turns is two", [100] * 18 + [200, 400], (20, 20, 300, 400, "medium")),
    ("a tenth of twenty-one turns is three", [100] * 19 + [200, 600], (21, 21, 300, 600, "medium")),
    (
        "turns that did not think are not in the tenth",
        [0] * 90 + [100] * 9 + [500],
        (100, 10, 500, 500, "medium"),
    ),
    ("half a token is rounded up", [128.5], (1, 1, 129, 129, "medium")),
    ("less than half a token is rounded down, and the band with it", [128.4], (1, 1, 128, 128, "low")),
    ("just under a half is not pushed over it", [0.49999999999999994], (1, 1, 0, 0, "low")),
    ("a trace of thinking is low, not off", [0.1], (1, 1, 0, 0, "low")),
    ("a half that even rounding would drop is kept", [2.5], (1, 1, 3, 3, "low")),
]


def folded(turns: Sequence[float]) -> Thinking | None:
    folder = ThinkingFolder()
    for tokens in turns:
        folder.add(tokens)
    return folder.result()


@pytest.mark.parametrize(("turns", "thinking"), [case[1:] for case in SESSIONS], ids=[case[0] for case in SESSIONS])
def test_a_session(turns: Sequence[float], thinking: tuple[int, int, int, int, ThinkingBand] | None) -> None:
    assert folded(turns) == (Thinking(*thinking) if thinking else None)


def test_the_result_has_names() -> None:
    assert folded([100, 0, 300]) == Thinking(
        assistant_turns=3, thinking_turns=2, tail_tokens=300, peak_tokens=300, band="medium"
    )


def test_a_folder_goes_on_after_a_result() -> None:
    folder = ThinkingFolder()
    folder.add(0)
    assert folder.result() == Thinking(1, 0, 0, 0, "off")
    folder.add(700)
    assert folder.result() == Thinking(2, 1, 700, 700, "high")


TURNS = st.lists(st.just(0.0) | st.integers(1, 10_000).map(float), min_size=1)


@given(TURNS)
def test_the_order_of_the_turns_does_not_matter(turns: Sequence[float]) -> None:
    assert folded(turns) == folded(sorted(turns)) == folded(turns[::-1])


@given(TURNS)
def test_tail_and_peak_by_sorting_everything(turns: Sequence[float]) -> None:
    thinking = folded(turns)
    assert thinking is not None
    thought = sorted((tokens for tokens in turns if tokens), reverse=True)
    assert (thinking.assistant_turns, thinking.thinking_turns) == (len(turns), len(thought))
    assert (thinking.band == "off") == (not thought)
    if thought:
        hardest = thought[: max(1, math.ceil(len(thought) / 10))]
        total = int(sum(hardest))
        assert thinking.tail_tokens == (2 * total + len(hardest)) // (2 * len(hardest))
        assert thinking.peak_tokens == thought[0]
        assert thinking.tail_tokens <= thinking.peak_tokens
