"""What to change, over many sessions."""

from __future__ import annotations

from sqlalchemy import func, select

from demerit.panels.choosing import is_many, narrowed, over_chosen
from demerit.panels.tables import SESSIONS, Ask, Column, Found, Panel, Row, View
from demerit.quality.advice import RULES
from demerit.rates import share
from demerit.store.filters import conditions, with_signals
from demerit.store.schema import session_advice, session_signals, sessions


def _by_rule(ask: Ask) -> Found:
    [(chosen, measured)] = ask.fetch(over_chosen(ask, ask.chosen, func.count(), func.count(session_signals.c.version)))
    statement = (
        select(session_advice.c.rule, func.count())
        .select_from(with_signals.join(session_advice, session_advice.c.session_id == sessions.c.id))
        .where(*conditions(ask.chosen, by_time=not is_many(ask, ask.chosen)), session_signals.c.version.is_not(None))
        .group_by(session_advice.c.rule)
    )
    counts: dict[str, int] = dict(map(tuple, ask.fetch(statement)))
    rows = []
    for rule, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        row_filter = narrowed(ask.chosen, rule=rule)
        if row_filter is not None:
            rows.append(Row((rule, _WHEN.get(rule), n, measured, share(n, measured)), row_filter))
    return Found(rows, chosen, ask.chosen)


_WHEN = {rule.__name__: (rule.__doc__ or "").strip() for rule in RULES}

ADVICE_PANEL = Panel(
    "advice",
    "What would help most sessions?",
    "Begin at the top; docs/advice.md says what each rule means and what to do.",
    "when a session started.",
    {
        "rule": View(
            (
                Column("rule", "", "the rule, as in advice.md"),
                Column("when", "", "when it speaks; null: a rule of another version"),
                SESSIONS,
                Column("measured", "sessions", "sessions whose signals are measured: what `share` is taken over"),
                Column("share", "share", "`sessions` over `measured`"),
            ),
            _by_rule,
            "sessions that got advice from the rule, most first. A session gets up to three: rows do not add up.",
        )
    },
)
