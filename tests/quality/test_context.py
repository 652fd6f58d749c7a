"""Context health: what a reset is, and that the stream and the list agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.quality.context import (
    RESET_DROP_FRACTION,
    RESET_FLOOR_TOKENS,
    ContextHealth,
    ContextHealthFolder,
    context_health,
    is_context_reset,
)

RESETS = [
    ("a steep drop from a large turn", 180_000, 20_000, True),
    ("exactly the floor and exactly half", 20_000, 10_000, True),
    ("one token more than half", 20_000, 10_001, False),
    ("half of an odd size, rounded down", 20_001, 10_000, True),
    ("half of an odd size, rounded up", 20_001, 10_001, False),
    ("a drop of a quarter", 120_000, 90_000, False),
    ("one token under the floor, whatever follows", 19_999, 0, False),
    ("the floor, down to nothing", 20_000, 0, True),
    ("growth", 30_000, 80_000, False),
    ("no change", 100_000, 100_000, False),
    ("too large for a float: one more than half", 2**60, 2**59 + 1, False),
    ("too large for a float: half", 2**60, 2**59, True),
]


@pytest.mark.parametrize(("prev", "cur", "reset"), [case[1:] for case in RESETS], ids=[case[0] for case in RESETS])
def test_a_reset_is_a_drop_to_half_from_a_turn_that_was_large(prev: int, cur: int, reset: bool) -> None:
    assert is_context_reset(prev, cur) is reset


HEALTH: list[tuple[str, list[int], tuple[int, int]]] = [
    ("no turn at all", [], (0, 0)),
    ("one turn", [50_000], (50_000, 0)),
    ("one turn of size zero", [0], (0, 0)),
    ("growth only", [10_000, 30_000, 80_000, 150_000], (150_000, 0)),
    ("one compaction", [50_000, 120_000, 180_000, 20_000, 60_000], (180_000, 1)),
    ("two compactions", [100_000, 180_000, 15_000, 90_000, 160_000, 10_000], (180_000, 2)),
    ("a drop while the context is still small", [10_000, 3_000], (10_000, 0)),
    ("a drop of a quarter", [100_000, 120_000, 90_000], (120_000, 0)),
    ("a drop to exactly half", [40_000, 20_000], (40_000, 1)),
    ("halving twice is two resets", [80_000, 40_000, 20_000], (80_000, 2)),
    ("halving down to the floor and past it", [40_000, 20_000, 10_000, 5_000], (40_000, 2)),
    ("a decline by quarters is none, however far it goes", [100_000, 75_000, 56_000, 42_000], (100_000, 0)),
    (
        "input and cache of one turn count together",
        [60_000, 100_000 + 60_000 + 20_000, 200_000, 25_000],
        (200_000, 1),
    ),
]


@pytest.mark.parametrize(("sizes", "health"), [case[1:] for case in HEALTH], ids=[case[0] for case in HEALTH])
def test_peak_and_resets(sizes: list[int], health: tuple[int, int]) -> None:
    assert context_health(sizes) == health


def test_a_folder_without_a_turn_has_nothing_to_measure() -> None:
    assert ContextHealthFolder().result() is None


def test_a_folder_with_a_turn_of_size_zero_has_measured_zero() -> None:
    folder = ContextHealthFolder()
    folder.add(0)
    assert folder.result() == ContextHealth(peak=0, resets=0)


def test_a_folder_goes_on_after_a_result() -> None:
    folder = ContextHealthFolder()
    folder.add(50_000)
    assert folder.result() == (50_000, 0)
    folder.add(1_000)
    assert folder.result() == (50_000, 1)


def test_the_constants_are_those_of_the_rule() -> None:
    assert (RESET_FLOOR_TOKENS, RESET_DROP_FRACTION) == (20_000, 0.5)
    assert ContextHealth() == (0, 0)


SIZES = st.lists(st.integers(0, 300_000) | st.sampled_from([0, 9_999, 10_000, 10_001, 19_999, 20_000, 20_001, 40_000]))


@given(SIZES)
def test_the_stream_and_the_list_agree(sizes: list[int]) -> None:
    folder = ContextHealthFolder()
    for size in sizes:
        folder.add(size)
    assert folder.result() == (context_health(sizes) if sizes else None)
    assert context_health(iter(sizes)) == (folder.result() or (0, 0))


@given(SIZES)
def test_peak_is_the_largest_and_resets_are_the_adjacent_pairs_that_are_one(sizes: list[int]) -> None:
    resets = sum(is_context_reset(sizes[at], sizes[at + 1]) for at in range(len(sizes) - 1))
    assert context_health(sizes) == (max(sizes, default=0), resets)


@given(st.integers(0, 400_000), st.integers(0, 400_000))
def test_doubling_asks_the_same_as_the_fraction(prev: int, cur: int) -> None:
    assert is_context_reset(prev, cur) == (prev >= RESET_FLOOR_TOKENS and cur <= prev * RESET_DROP_FRACTION)
