"""How people asked."""

from __future__ import annotations

from sqlalchemy import func

from demerit.panels.choosing import narrowed, over_chosen
from demerit.panels.scores import count_if, whole
from demerit.panels.tables import SESSIONS, Ask, Column, Found, Panel, Row, View
from demerit.rates import share
from demerit.store.schema import session_signals

_COUNTS = ("short", "duplicate", "no_code")
_START = "unstructured_start"


def _by_fact(ask: Ask) -> Found:
    signals = session_signals.c
    columns = [signals[f"{name}_prompts"] for name in _COUNTS]
    statement = over_chosen(
        ask,
        ask.chosen,
        func.count(),
        count_if(signals.prompts > 0),
        whole(signals.prompts),
        count_if(signals.unstructured_start),
        *(whole(column) for column in columns),
        *(count_if(column > 0) for column in columns),
    )
    [(chosen, measured, prompts, unstructured, *rest)] = ask.fetch(statement)
    counts, having = rest[: len(_COUNTS)], rest[len(_COUNTS) :]
    figures = [
        ("prompts", prompts, prompts, "prompts", measured),
        *((name, n, prompts, "prompts", have) for name, n, have in zip(_COUNTS, counts, having, strict=True)),
        (_START, unstructured, measured, "sessions", unstructured),
    ]
    rows = []
    for name, n, of, unit, have in figures:
        row_filter = narrowed(ask.chosen, hygiene=name)
        if row_filter is not None:
            # Without a prompt nothing is known of how people ask.
            rows.append(Row((name, unit, n if measured else None, of, share(n, of), have, measured), row_filter))
    return Found(rows, chosen, ask.chosen)


HYGIENE_PANEL = Panel(
    "hygiene",
    "How do people ask?",
    "A prompt that names the file saves the agent a search; one that is repeated did not help the first time.",
    "when a session started.",
    {
        "fact": View(
            (
                Column(
                    "fact",
                    "",
                    "`prompts` (all), `short`, `duplicate`, `no_code` (asks for a change and names no code), "
                    "`unstructured_start` (the first prompt is short or a greeting)",
                ),
                Column("counts", "", "what `count` and `of` count: `prompts` or `sessions`"),
                Column("count", "prompts or sessions", "how many are so; null: no session with a prompt is measured"),
                Column("of", "prompts or sessions", "among how many"),
                Column("share", "share", "`count` over `of`; null: there is none"),
                SESSIONS,
                Column("measured", "sessions", "sessions with at least one prompt whose facts are measured"),
            ),
            _by_fact,
            "over sessions with a human prompt. A row's sessions are those in which at least one prompt is so.",
        )
    },
)
