"""The shape of a session: both measures, both sides of every edge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.quality import archetype
from demerit.quality.archetype import Archetype, ArchetypeFacts, classify_archetype

CASES = [
    ("no person is automation, however large", (0, 500, 300), Archetype.automation),
    ("no person is automation, however small", (0, 1, 0), Archetype.automation),
    ("a short exchange is quick", (1, 4, 1), Archetype.quick),
    ("messages alone make it standard", (2, 20, 1), Archetype.standard),
    ("minutes alone make it standard", (2, 6, 10), Archetype.standard),
    ("minutes alone make it deep", (3, 20, 45), Archetype.deep),
    ("messages alone make it deep", (3, 80, 2), Archetype.deep),
    ("minutes alone make it a marathon", (4, 30, 180), Archetype.marathon),
    ("messages alone make it a marathon", (4, 250, 10), Archetype.marathon),
    ("the heavier measure wins", (2, 16, 200), Archetype.marathon),
    ("exactly five minutes is standard", (1, 1, 5), Archetype.standard),
    ("just under five minutes is quick", (1, 1, 4.999), Archetype.quick),
    ("four minutes is quick", (1, 1, 4), Archetype.quick),
    ("exactly fifteen messages is standard", (1, 15, 0), Archetype.standard),
    ("fourteen messages is quick", (1, 14, 0), Archetype.quick),
    ("exactly thirty minutes is deep", (1, 1, 30), Archetype.deep),
    ("just under thirty minutes is standard", (1, 1, 29.999), Archetype.standard),
    ("exactly sixty messages is deep", (1, 60, 1), Archetype.deep),
    ("fifty-nine messages is standard", (1, 59, 1), Archetype.standard),
    ("exactly two hours is a marathon", (1, 1, 120), Archetype.marathon),
    ("just under two hours is deep", (1, 1, 119.999), Archetype.deep),
    ("exactly two hundred messages is a marathon", (1, 200, 0), Archetype.marathon),
    ("one hundred and ninety-nine messages is deep", (1, 199, 0), Archetype.deep),
    ("one message without two times is quick", (1, 1, 0), Archetype.quick),
]


@pytest.mark.parametrize(("facts", "shape"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_archetype(facts: tuple[int, int, float], shape: Archetype) -> None:
    assert classify_archetype(ArchetypeFacts(*facts)) is shape


def test_the_thresholds_are_fixed() -> None:
    assert (archetype.MARATHON_MINUTES, archetype.MARATHON_MESSAGES) == (120, 200)
    assert (archetype.DEEP_MINUTES, archetype.DEEP_MESSAGES) == (30, 60)
    assert (archetype.STANDARD_MINUTES, archetype.STANDARD_MESSAGES) == (5, 15)


def test_the_names_are_the_values_lightest_first() -> None:
    assert [shape.value for shape in Archetype] == ["automation", "quick", "standard", "deep", "marathon"]
    assert all(shape.name == shape.value for shape in Archetype)


def test_facts_without_arguments_are_an_automation() -> None:
    assert ArchetypeFacts() == ArchetypeFacts(user_messages=0, messages=0, duration_min=0.0)
    assert classify_archetype(ArchetypeFacts()) is Archetype.automation
    with pytest.raises(AttributeError):
        ArchetypeFacts().messages = 1  # type: ignore[misc]


@given(st.integers(1, 9), st.integers(0, 300), st.floats(0, 200), st.integers(0, 300), st.floats(0, 200))
def test_a_larger_session_never_has_a_lighter_shape(
    people: int, messages: int, minutes: float, more_messages: int, more_minutes: float
) -> None:
    weights = list(Archetype)
    smaller = classify_archetype(ArchetypeFacts(people, messages, minutes))
    larger = classify_archetype(ArchetypeFacts(people, messages + more_messages, minutes + more_minutes))
    assert weights.index(larger) >= weights.index(smaller) >= weights.index(Archetype.quick)
