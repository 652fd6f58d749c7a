"""Sums over scores that several panels take, and what is read off them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, case, cast, func, literal_column

from demerit.panels.tables import Column, Value
from demerit.quality import GRADE_ORDER, gpa_points
from demerit.rates import share
from demerit.store.schema import session_signals

GRADES = tuple(grade for grade in GRADE_ORDER if grade is not None)


def whole(column: ColumnElement[Any]) -> ColumnElement[int]:
    """The sum of whole numbers; 0 of none. PostgreSQL would make large sums decimal fractions."""
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def told(column: ColumnElement[Any]) -> ColumnElement[str]:
    """A name, empty where there is none: one group for both ways to say so."""
    # Not a parameter: PostgreSQL would not see that two of them are the same expression.
    return func.coalesce(column, literal_column("''"))


def count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count(case((condition, 1)))


class Scores(NamedTuple):
    """Sums over sessions, which add up."""

    sessions: int
    graded: int
    points: int
    """Sum of the scores."""
    grades: tuple[int, ...]
    """Sessions of each grade, A to F."""

    @property
    def average(self) -> float | None:
        return share(self.points, self.graded)

    @property
    def gpa(self) -> float | None:
        earned = sum((gpa_points(grade) or 0) * count for grade, count in zip(GRADES, self.grades, strict=True))
        return share(earned, self.graded)

    @property
    def values(self) -> tuple[Value, ...]:
        """In the order of `SCORE_COLUMNS`."""
        return (
            self.sessions,
            self.graded,
            self.average,
            self.gpa,
            *(share(count, self.graded) for count in self.grades),
        )


NO_SCORES = Scores(0, 0, 0, (0,) * len(GRADES))

SCORE_SUMS: tuple[ColumnElement[Any], ...] = (
    func.count(),
    func.count(session_signals.c.score),
    whole(session_signals.c.score),
    *(count_if(session_signals.c.grade == grade) for grade in GRADES),
)
"""What a statement over `with_signals` selects for `scores_of`."""

SCORE_COLUMNS = (
    Column("sessions", "sessions", "sessions that the row counts; its list opens exactly these"),
    Column("graded", "sessions", "of these, those with a score"),
    Column("average_score", "points", "mean score of the graded ones; null: none is"),
    Column("gpa", "grade points", "mean of 4 for an A to 0 for an F over the graded ones; null: none is"),
    *(Column(f"{grade.lower()}_share", "share", f"grade {grade}, over `graded`") for grade in GRADES),
)


def scores_of(values: Iterable[int]) -> Scores:
    """The sums as `SCORE_SUMS` gave them."""
    sessions, graded, points, *grades = values
    return Scores(sessions, graded, points, tuple(grades))


def together(all_scores: Iterable[Scores]) -> Scores:
    """The sums over several groups of sessions."""
    total = NO_SCORES
    for one in all_scores:
        grades = tuple(a + b for a, b in zip(total.grades, one.grades, strict=True))
        total = Scores(total.sessions + one.sessions, total.graded + one.graded, total.points + one.points, grades)
    return total


def percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """The smallest value that at least `percent` % of the cases do not exceed: a real one, not one between two.

    counts: cases by value. None without cases.
    """
    of, passed = sum(counts.values()), 0
    for value in sorted(counts):
        passed += counts[value]
        if passed * 100 >= of * percent:
            return value if of else None
    return None
