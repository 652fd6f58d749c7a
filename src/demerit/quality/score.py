"""The score from 0 to 100, its grade, and the lines of arithmetic behind it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from demerit.quality.outcome import Outcome

__all__ = [
    "GRADE_ORDER",
    "SIGNALS_VERSION",
    "Penalty",
    "PenaltyKind",
    "Score",
    "ScoreBreakdownItem",
    "Signals",
    "gpa_points",
    "grade_for",
    "penalties",
    "score",
    "score_breakdown",
]

SIGNALS_VERSION = 2
"""Recorded with every stored signals row. Raise it on any change to the signals, the weights or the
thresholds: a row of another version is unmeasured until it is derived again."""

GRADE_ORDER: tuple[str | None, ...] = ("A", "B", "C", "D", "F", None)
"""Grades as they are shown, best first; None is unscored."""

GRADE_FLOORS = (("A", 90), ("B", 75), ("C", 60), ("D", 40))
_GPA_POINTS = {"A": 4, "B": 3, "C": 2, "D": 1, "F": 0}

_ERRORED_POINTS = 30
_ABANDONED_POINTS = 15
_FAILURE_STREAK = 3
_FAILURE_STREAK_POINTS = 10

PenaltyKind = Literal["errored", "abandoned", "tool_failures", "tool_retries", "edit_churn", "failure_streak"]


class Signals(msgspec.Struct, frozen=True):
    """What `score` reads of a session. A count is None when the agent's log cannot tell it."""

    tool_calls: int | None = 0
    """Shown beside the others; it costs nothing."""
    tool_failures: int | None = 0
    tool_retries: int | None = 0
    """Calls that repeat the tool and the input of the call right before them."""
    edit_churn: int | None = 0
    """Edits of a file beyond its first, over all files."""
    longest_failure_streak: int | None = 0
    """Length of the longest run of failed calls."""
    outcome: Outcome = Outcome.unknown


class Score(NamedTuple):
    """A score and its grade: both None when the session is unscored."""

    score: int | None
    grade: str | None

    @property
    def scored(self) -> bool:
        return self.score is not None


class Penalty(NamedTuple):
    """One line of the arithmetic, with a key that stays the same when the label's wording does not."""

    kind: PenaltyKind
    label: str
    points: int
    """What it subtracts, after its cap; always above 0."""
    is_capped: bool = False
    """Without its cap it would have been more."""


class ScoreBreakdownItem(NamedTuple):
    """One line of the arithmetic as a reader sees it."""

    label: str
    points: int


def penalties(signals: Signals) -> list[Penalty]:
    """The penalty lines in their fixed order; empty when nothing costs anything.

    An unscored session has none either: whatever costs points also makes a session scored.
    Caps keep one bad habit from deciding the grade alone. What is None prints no line.
    Source: weights, caps and grade floors are those of akari's published model (signals version 2).
    """
    lines: list[Penalty] = []
    if signals.outcome == Outcome.errored:
        lines.append(Penalty("errored", "errored ending", _ERRORED_POINTS))
    elif signals.outcome == Outcome.abandoned:
        lines.append(Penalty("abandoned", "abandoned", _ABANDONED_POINTS))

    counted: tuple[tuple[PenaltyKind, int | None, int, int, str, str], ...] = (
        ("tool_failures", signals.tool_failures, 3, 30, "tool failure", "tool failures"),
        ("tool_retries", signals.tool_retries, 5, 25, "retry", "retries"),
        ("edit_churn", signals.edit_churn, 4, 20, "churned edit", "churned edits"),
    )
    for kind, count, each, cap, one, many in counted:
        if count is not None and count > 0:
            label = f"{count} {one if count == 1 else many}"
            lines.append(Penalty(kind, label, min(each * count, cap), each * count > cap))

    streak = signals.longest_failure_streak
    if streak is not None and streak >= _FAILURE_STREAK:
        lines.append(Penalty("failure_streak", "failure streak", _FAILURE_STREAK_POINTS))
    return lines


def score(signals: Signals) -> Score:
    """The score and its grade; both None when there is nothing to judge by.

    Unscored: the outcome is unknown, and failures, retries, churn and streak are all 0 or unmeasured.
    Any number there would be a verdict that the log does not support.
    """
    if not _has_evidence(signals):
        return Score(None, None)
    points = max(0, 100 - sum(line.points for line in penalties(signals)))
    return Score(points, grade_for(points))


def score_breakdown(signals: Signals) -> list[ScoreBreakdownItem]:
    """The lines that `score` subtracted, in the same order; empty when unscored or free of penalties.

    Their sum is 100 minus the score, unless the score was held at 0.
    """
    return [ScoreBreakdownItem(line.label, line.points) for line in penalties(signals)]


def grade_for(score: int) -> str:
    """The letter of a score: A from 90, B from 75, C from 60, D from 40, else F."""
    return next((grade for grade, floor in GRADE_FLOORS if score >= floor), "F")


def gpa_points(grade: str | None) -> int | None:
    """A grade's points, 4 for A to 0 for F; None for None, so that an unscored session is in no mean.

    Raises ValueError for anything that is no grade.
    """
    if grade is None:
        return None
    try:
        return _GPA_POINTS[grade]
    except KeyError:
        raise ValueError(f"no grade: {grade!r}; the grades are A, B, C, D, F and None") from None


def _has_evidence(signals: Signals) -> bool:
    counts = (
        signals.tool_failures,
        signals.tool_retries,
        signals.edit_churn,
        signals.longest_failure_streak,
    )
    return signals.outcome != Outcome.unknown or any(count is not None and count > 0 for count in counts)
