"""How the sessions ended."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func

from demerit.panels.choosing import narrowed, over_chosen
from demerit.panels.tables import SESSIONS, Ask, Column, Found, Panel, Row, View
from demerit.quality import Confidence, Outcome
from demerit.rates import share
from demerit.store.filters import NO_ENDING
from demerit.store.schema import session_signals

_NOT_MEASURED: tuple[str | None, ...] = (None, None)


def _by_outcome(ask: Ask) -> Found:
    signals = session_signals.c
    statement = over_chosen(ask, ask.chosen, signals.outcome, signals.confidence, func.count())
    found = {
        (outcome, confidence): n
        for outcome, confidence, n in ask.fetch(statement.group_by(*statement.selected_columns[:2]))
    }
    order = [(outcome.value, confidence.value) for outcome in Outcome for confidence in Confidence]
    measured = sum(n for key, n in found.items() if key != _NOT_MEASURED)
    rows = []
    for key in [*order, _NOT_MEASURED]:
        if key not in found:
            continue
        outcome, confidence = key
        wanted: dict[str, Any] = (
            {"measured": False} if key == _NOT_MEASURED else {"outcome": outcome, "confidence": confidence}
        )
        of = None if key == _NOT_MEASURED else share(found[key], measured)
        rows.append(Row((outcome, confidence, found[key], measured, of), narrowed(ask.chosen, **wanted)))
    sessions = sum(found.values())
    return Found(
        rows, sessions, ask.chosen, Row(("all", None, sessions, measured, share(measured, measured)), ask.chosen)
    )


def _by_ending(ask: Ask) -> Found:
    signals = session_signals.c
    statement = over_chosen(ask, ask.chosen, signals.ending, func.count(), func.count(signals.version))
    found = {ending: (n, measured) for ending, n, measured in ask.fetch(statement.group_by(signals.ending))}
    sessions = sum(n for n, _ in found.values())
    measured = sum(measured for _, measured in found.values())
    counts: dict[str, int] = {ending: n for ending, (n, _) in found.items() if ending is not None}
    rows = [
        Row((ending, n, measured, share(n, measured)), narrowed(ask.chosen, ending=ending))
        for ending, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    if plain := found.get(None, (0, 0))[1]:
        rows.append(Row((NO_ENDING, plain, measured, share(plain, measured)), narrowed(ask.chosen, ending=NO_ENDING)))
    if sessions > measured:
        rows.append(Row((None, sessions - measured, measured, None), narrowed(ask.chosen, measured=False)))
    return Found(rows, sessions, ask.chosen, Row(("all", sessions, measured, share(measured, measured)), ask.chosen))


_MEASURED = Column("measured", "sessions", "sessions whose signals are measured: what `share` is taken over")
_SHARE = Column("share", "share", "`sessions` over `measured`; null for those that are not")

OUTCOMES_PANEL = Panel(
    "outcomes",
    "How did the sessions end?",
    "Abandoned ones: people gave up, or left once they had what they wanted. Errored ones stopped among failures.",
    "when a session started.",
    {
        "outcome": View(
            (
                Column("outcome", "", "the verdict; null: not measured"),
                Column("confidence", "", "how far to trust it; null: not measured"),
                SESSIONS,
                _MEASURED,
                _SHARE,
            ),
            _by_outcome,
            "every chosen session is in exactly one row; a pair that no session has is left out.",
        ),
        "ending": View(
            (
                Column(
                    "ending",
                    "",
                    "what ended it: `interrupted`, `api_error`, ...; `none`: nothing special; null: not measured",
                ),
                SESSIONS,
                _MEASURED,
                _SHARE,
            ),
            _by_ending,
            "every chosen session is in exactly one row.",
        ),
    },
)
