"""How good the sessions were."""

from __future__ import annotations

from sqlalchemy import func

from demerit.panels.choosing import narrowed, over_chosen
from demerit.panels.scores import GRADES, whole
from demerit.panels.tables import SESSIONS, Ask, Column, Found, Panel, Row, View
from demerit.quality import gpa_points
from demerit.rates import share
from demerit.store.filters import UNSCORED
from demerit.store.schema import session_signals


def _by_grade(ask: Ask) -> Found:
    signals = session_signals.c
    statement = over_chosen(
        ask, ask.chosen, signals.grade, func.count(), whole(signals.score), func.count(signals.version)
    )
    found = {
        grade: (n, points, measured) for grade, n, points, measured in ask.fetch(statement.group_by(signals.grade))
    }
    graded = sum(n for grade, (n, _, _) in found.items() if grade)
    sessions = sum(n for n, _, _ in found.values())
    rows = []
    for grade in (*GRADES, None):
        chosen = narrowed(ask.chosen, grade=grade or UNSCORED)
        if chosen is not None:
            n, points, _ = found.get(grade, (0, 0, 0))
            of = share(n, graded) if grade else None
            rows.append(
                Row((grade or UNSCORED, n, graded, of, share(points, n) if grade else None, gpa_points(grade)), chosen)
            )
    earned = sum((gpa_points(grade) or 0) * n for grade, (n, _, _) in found.items())
    points = sum(points for _, points, _ in found.values())
    total = Row(
        ("all", sessions, graded, share(graded, graded), share(points, graded), share(earned, graded)), ask.chosen
    )
    waiting = sessions - sum(measured for _, _, measured in found.values())
    notes = (
        (f"{waiting} of the unscored sessions are not measured: they still run, or wait to be graded.",)
        if waiting
        else ()
    )
    return Found(rows, sessions, ask.chosen, total, notes)


GRADES_PANEL = Panel(
    "grades",
    "How good were the sessions?",
    "Open the list behind D and F: each report card says which calls cost the points.",
    "when a session started.",
    {
        "grade": View(
            (
                Column("grade", "", "A to F; `unscored`: nothing to judge by, or not measured"),
                SESSIONS,
                Column("graded", "sessions", "sessions with a grade: what `share` is taken over"),
                Column("share", "share", "`sessions` over `graded`; null for the unscored"),
                Column("average_score", "points", "mean score; null: none has one"),
                Column("gpa", "grade points", "4 for an A to 0 for an F; in the total their mean over the graded"),
            ),
            _by_grade,
            "every chosen session is in exactly one row. A session whose grade is stale or of older rules is unscored.",
        )
    },
)
