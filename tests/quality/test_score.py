"""Score, grade and breakdown: one computation, tabled by hand from the weights."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.quality.outcome import Outcome
from demerit.quality.score import (
    GRADE_ORDER,
    SIGNALS_VERSION,
    Penalty,
    Score,
    ScoreBreakdownItem,
    Signals,
    gpa_points,
    grade_for,
    penalties,
    score,
    score_breakdown,
)

COMPLETED, ABANDONED, ERRORED, UNKNOWN = (
    Outcome.completed,
    Outcome.abandoned,
    Outcome.errored,
    Outcome.unknown,
)

COUNTS = st.none() | st.integers(0, 60)
SIGNALS = st.builds(
    Signals,
    tool_calls=COUNTS,
    tool_failures=COUNTS,
    tool_retries=COUNTS,
    edit_churn=COUNTS,
    longest_failure_streak=COUNTS,
    outcome=st.sampled_from(Outcome),
)

SCORES = [
    ("a clean completed session has all its points", Signals(10, outcome=COMPLETED), 100, "A"),
    ("an unknown outcome without a signal is unscored", Signals(), None, None),
    ("calls alone are no signal", Signals(tool_calls=12), None, None),
    ("one failure makes an unknown outcome scored", Signals(3, 1), 97, "A"),
    ("one retry makes an unknown outcome scored", Signals(tool_retries=1), 95, "A"),
    ("one churned edit makes an unknown outcome scored", Signals(edit_churn=1), 96, "A"),
    ("a streak alone makes an unknown outcome scored", Signals(longest_failure_streak=1), 100, "A"),
    ("an errored ending costs 30", Signals(5, outcome=ERRORED), 70, "C"),
    ("an abandoned session costs 15", Signals(5, outcome=ABANDONED), 85, "B"),
    ("a failure costs 3", Signals(tool_failures=4, outcome=COMPLETED), 88, "B"),
    ("ten failures reach the cap of 30", Signals(tool_failures=10, outcome=COMPLETED), 70, "C"),
    ("forty failures cost no more than the cap", Signals(tool_failures=40, outcome=COMPLETED), 70, "C"),
    ("five retries reach the cap of 25", Signals(tool_retries=5, outcome=COMPLETED), 75, "B"),
    ("ten retries cost no more than the cap", Signals(tool_retries=10, outcome=COMPLETED), 75, "B"),
    ("five churned edits reach the cap of 20", Signals(edit_churn=5, outcome=COMPLETED), 80, "B"),
    ("eight churned edits cost no more than the cap", Signals(edit_churn=8, outcome=COMPLETED), 80, "B"),
    ("a streak of five costs 10", Signals(longest_failure_streak=5, outcome=COMPLETED), 90, "A"),
    ("a streak of three costs 10", Signals(longest_failure_streak=3, outcome=COMPLETED), 90, "A"),
    ("a streak of two costs nothing", Signals(longest_failure_streak=2, outcome=COMPLETED), 100, "A"),
    ("the score stops at 0 (penalties sum to 115)", Signals(99, 50, 20, 20, 10, ERRORED), 0, "F"),
    ("three failures, retries, a churned edit and a streak", Signals(6, 3, 3, 1, 3, COMPLETED), 62, "C"),
    ("three failures in a row at the end", Signals(3, 3, 0, 0, 3, ERRORED), 51, "D"),
    ("unmeasured counts cost nothing", Signals(None, None, None, None, None, COMPLETED), 100, "A"),
    ("unmeasured counts are no signal", Signals(None, None, None, None, None, UNKNOWN), None, None),
    ("zero and unmeasured counts together are no signal", Signals(4, None, 0, None, 0, UNKNOWN), None, None),
    ("one measured failure among unmeasured counts is a signal", Signals(4, 1, None, None, None), 97, "A"),
    ("an outcome alone is enough to score", Signals(None, None, None, None, None, ERRORED), 70, "C"),
]


@pytest.mark.parametrize(
    ("signals", "points", "grade"), [case[1:] for case in SCORES], ids=[case[0] for case in SCORES]
)
def test_score(signals: Signals, points: int | None, grade: str | None) -> None:
    assert score(signals) == (points, grade)
    assert score(signals).scored == (points is not None)


BREAKDOWNS: list[tuple[str, Signals, list[tuple[str, int]]]] = [
    ("a clean session has no line", Signals(10, outcome=COMPLETED), []),
    ("an unscored session has no line", Signals(), []),
    ("an errored ending", Signals(outcome=ERRORED), [("errored ending", 30)]),
    ("an abandoned session", Signals(outcome=ABANDONED), [("abandoned", 15)]),
    ("one failure is singular", Signals(tool_failures=1, outcome=COMPLETED), [("1 tool failure", 3)]),
    ("two failures are plural", Signals(tool_failures=2, outcome=COMPLETED), [("2 tool failures", 6)]),
    ("one retry is singular", Signals(tool_retries=1, outcome=COMPLETED), [("1 retry", 5)]),
    ("three retries are plural", Signals(tool_retries=3, outcome=COMPLETED), [("3 retries", 15)]),
    ("one churned edit is singular", Signals(edit_churn=1, outcome=COMPLETED), [("1 churned edit", 4)]),
    ("three churned edits are plural", Signals(edit_churn=3, outcome=COMPLETED), [("3 churned edits", 12)]),
    (
        "a streak says no number",
        Signals(longest_failure_streak=4, outcome=COMPLETED),
        [("failure streak", 10)],
    ),
    ("a streak below three has no line", Signals(longest_failure_streak=2, outcome=COMPLETED), []),
    (
        "all lines in their order",
        Signals(9, 2, 1, 3, 5, ERRORED),
        [
            ("errored ending", 30),
            ("2 tool failures", 6),
            ("1 retry", 5),
            ("3 churned edits", 12),
            ("failure streak", 10),
        ],
    ),
    (
        "a capped line names the whole count",
        Signals(99, 40, 20, 20, 10, ERRORED),
        [
            ("errored ending", 30),
            ("40 tool failures", 30),
            ("20 retries", 25),
            ("20 churned edits", 20),
            ("failure streak", 10),
        ],
    ),
    (
        "an unmeasured count prints no line between two that are",
        Signals(9, 1, None, 1, None, UNKNOWN),
        [("1 tool failure", 3), ("1 churned edit", 4)],
    ),
]


@pytest.mark.parametrize(("signals", "lines"), [case[1:] for case in BREAKDOWNS], ids=[case[0] for case in BREAKDOWNS])
def test_breakdown(signals: Signals, lines: list[tuple[str, int]]) -> None:
    breakdown = score_breakdown(signals)
    assert breakdown == [ScoreBreakdownItem(label, points) for label, points in lines]
    assert isinstance(breakdown, list)


def test_every_penalty_has_its_own_key() -> None:
    assert penalties(Signals(9, 2, 1, 3, 5, ERRORED)) == [
        Penalty("errored", "errored ending", 30),
        Penalty("tool_failures", "2 tool failures", 6),
        Penalty("tool_retries", "1 retry", 5),
        Penalty("edit_churn", "3 churned edits", 12),
        Penalty("failure_streak", "failure streak", 10),
    ]
    assert penalties(Signals(outcome=ABANDONED)) == [Penalty("abandoned", "abandoned", 15)]


GRADES = [
    (100, "A"),
    (90, "A"),
    (89, "B"),
    (75, "B"),
    (74, "C"),
    (60, "C"),
    (59, "D"),
    (40, "D"),
    (39, "F"),
    (0, "F"),
]


@pytest.mark.parametrize(("points", "grade"), GRADES, ids=[f"{points} is {grade}" for points, grade in GRADES])
def test_grade_edges(points: int, grade: str) -> None:
    assert grade_for(points) == grade


def test_grades_are_shown_best_first_and_unscored_last() -> None:
    assert GRADE_ORDER == ("A", "B", "C", "D", "F", None)


def test_gpa_points_leave_the_unscored_out() -> None:
    assert [gpa_points(grade) for grade in GRADE_ORDER] == [4, 3, 2, 1, 0, None]


@pytest.mark.parametrize("grade", ["", "E", "a", "A+"])
def test_gpa_points_refuse_what_is_no_grade(grade: str) -> None:
    with pytest.raises(ValueError, match="no grade"):
        gpa_points(grade)


def test_signals_without_arguments_are_zero_and_unknown() -> None:
    assert Signals() == Signals(
        tool_calls=0,
        tool_failures=0,
        tool_retries=0,
        edit_churn=0,
        longest_failure_streak=0,
        outcome=Outcome.unknown,
    )
    with pytest.raises(AttributeError):
        Signals().tool_calls = 1  # type: ignore[misc]


def test_the_model_is_version_two() -> None:
    assert SIGNALS_VERSION == 2


def test_a_score_has_names_and_unpacks() -> None:
    graded = score(Signals(outcome=ERRORED))
    points, grade = graded
    assert isinstance(graded, Score)
    assert (graded.score, graded.grade, graded.scored) == (points, grade, True) == (70, "C", True)


@given(SIGNALS)
def test_a_score_is_0_to_100_and_equals_its_lines(signals: Signals) -> None:
    graded = score(signals)
    lines = score_breakdown(signals)
    assert all(line.points > 0 for line in lines)
    if graded.score is None:
        assert lines == []
    else:
        assert 0 <= graded.score <= 100
        assert graded.score == max(0, 100 - sum(line.points for line in lines))


@given(SIGNALS)
def test_a_grade_is_the_grade_of_its_score(signals: Signals) -> None:
    graded = score(signals)
    assert graded.grade == (None if graded.score is None else grade_for(graded.score))


@given(SIGNALS)
def test_unscored_is_exactly_an_unknown_outcome_without_a_signal(signals: Signals) -> None:
    counts = (
        signals.tool_failures,
        signals.tool_retries,
        signals.edit_churn,
        signals.longest_failure_streak,
    )
    silent = signals.outcome is Outcome.unknown and all(count in (None, 0) for count in counts)
    assert score(signals).scored is not silent


@given(SIGNALS)
def test_an_unmeasured_count_costs_what_zero_costs(signals: Signals) -> None:
    zeroed = Signals(
        signals.tool_calls or 0,
        signals.tool_failures or 0,
        signals.tool_retries or 0,
        signals.edit_churn or 0,
        signals.longest_failure_streak or 0,
        signals.outcome,
    )
    assert score(signals) == score(zeroed)
    assert penalties(signals) == penalties(zeroed)


@given(SIGNALS)
def test_a_line_for_the_reader_is_its_penalty_without_the_key(signals: Signals) -> None:
    assert score_breakdown(signals) == [(line.label, line.points) for line in penalties(signals)]


@given(SIGNALS, st.sampled_from(["tool_failures", "tool_retries", "edit_churn", "longest_failure_streak"]))
def test_one_more_of_anything_bad_never_helps(signals: Signals, name: str) -> None:
    worse = msgspec.structs.replace(signals, **{name: (getattr(signals, name) or 0) + 1})
    before, after = score(signals).score, score(worse).score
    assert after is not None
    assert before is None or after <= before
