"""What models do wrong, as transcripts show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, FromClause, cast, func, select

from demerit.panels.choosing import led_by_rows, narrowed, of_chosen
from demerit.panels.scores import told, whole
from demerit.panels.tables import MODEL, SESSIONS, Ask, Column, Found, Panel, Row, Value, View, ranked, rate_columns
from demerit.rates import wilson
from demerit.store.schema import REPETITIONS, session_defects, sessions

_defects = session_defects.c
_SUMS = (
    func.count(),  # a session has one row for each model
    *(whole(_defects[name]) for name in ("responses", "truncated", "empty", "reasoning_only", "calls", "invalid")),
    *(cast(func.sum(_defects[name]), BigInteger) for name in REPETITIONS),  # null: nobody looked
)


def _by(*keys: ColumnElement[Any], filter_of: Callable[..., dict[str, str]]) -> Callable[[Ask], Found]:
    def find(ask: Ask) -> Found:
        source: FromClause = session_defects
        if any(key is not _defects.model for key in keys):
            source = source.join(sessions, sessions.c.id == led_by_rows(ask, ask.chosen, _defects.session_id))
        statement = select(*keys, *_SUMS).select_from(source).group_by(*keys)
        statement = statement.where(of_chosen(ask, ask.chosen, _defects.session_id))
        if ask.chosen.model is not None:
            statement = statement.where(_defects.model == ask.chosen.model)
        found = [(tuple(name or "" for name in row[: len(keys)]), row[len(keys) :]) for row in ask.fetch(statement)]
        found.sort(key=lambda item: (-item[1][1], item[0]))
        rows = [
            Row((*(name or None for name in key), *_figures(*sums)), narrowed(ask.chosen, **filter_of(*key)))
            for key, sums in found
        ]
        shown, more = ranked(rows, ask.limit)
        return Found(shown, ask.count(ask.chosen), ask.chosen, more=more)

    return find


def _figures(
    count: int,
    responses: int,
    truncated: int,
    empty: int,
    reasoning_only: int,
    calls: int,
    invalid: int,
    *repetitions: int | None,
) -> tuple[Value, ...]:
    batches, seen, identical, not_evaluated, rescued, loops, stagnations, cycles = repetitions
    return (
        *(count, responses),
        *(truncated, *wilson(truncated, responses)),
        *(empty, *wilson(empty, responses)),
        *(reasoning_only, *wilson(reasoning_only, empty)),
        *(calls, invalid, *wilson(invalid, calls)),
        *(batches, seen),
        *(identical, *_rate(identical, seen)),
        *(not_evaluated, *_rate(not_evaluated, seen)),
        *(loops, *_rate(loops, batches)),
        *(rescued, *_rate(rescued, batches)),
        *(cycles, *_rate(cycles, batches)),
        *(stagnations, *_rate(stagnations, responses)),
    )


def _rate(hits: int | None, of: int | None) -> tuple[Value, ...]:
    return (None, None, None) if hits is None or of is None else wilson(hits, of)


_COLUMNS = (
    SESSIONS,
    Column("responses", "responses", "answers of the model, each once though logs repeat it"),
    Column("truncated", "responses", "cut off at the limit of the output"),
    *rate_columns("truncated", "responses"),
    Column("empty", "responses", "with neither text nor a call"),
    *rate_columns("empty", "responses"),
    Column("reasoning_only", "responses", "of the empty ones, those with reasoning"),
    *rate_columns("reasoning_only", "empty"),
    Column("calls", "calls", "calls that the model made"),
    Column("invalid", "calls", "of these, broken ones: no such tool, or arguments that do not parse or fit"),
    *rate_columns("invalid", "calls"),
    Column(
        "batches", "responses", "with calls, in the session's own conversation; null, as all below: not looked at yet"
    ),
    Column("repeats_seen", "responses", "of these, those whose calls were made together before, since a compaction"),
    Column("identical_repeats", "responses", "of these, those that were answered as the last time"),
    *rate_columns("identical_repeats", "repeats_seen"),
    Column("repeats_not_evaluated", "responses", "of the repeats, those where an answer is not known"),
    *rate_columns("repeats_not_evaluated", "repeats_seen"),
    Column("loops", "responses", "where the loop guard would have said: the same calls again, without anything new"),
    *rate_columns("loops", "batches"),
    Column("repeats_rescued", "responses", "where it would have, had the answers not changed"),
    *rate_columns("repeats_rescued", "batches"),
    Column("cycles", "responses", "that close a third or later round of two to four turns, answered as before"),
    *rate_columns("cycles", "batches"),
    Column("stagnations", "responses", "without calls, where the loop guard would have said: the same text again"),
    *rate_columns("stagnations", "responses"),
)
_HOW = "most responses first. A session is in the row of each model that answered in it."

DEFECTS_PANEL = Panel(
    "defects",
    "What do models do wrong?",
    "Truncated answers ask for a larger limit, invalid calls for plainer tool descriptions or another model, loops for"
    " a guard before it: `demerit proxy`.",
    "when a session started. With a filter for a model, only that model's answers count.",
    {
        "version": View(
            (
                MODEL,
                Column("agent", "", "key of the agent"),
                Column("agent_version", "", "version of the agent; null: not told"),
                *_COLUMNS,
            ),
            _by(
                _defects.model,
                sessions.c.agent,
                told(sessions.c.agent_version),
                filter_of=lambda model, agent, version: {"model": model, "agent": agent, "agent_version": version},
            ),
            _HOW,
        ),
        "model": View((MODEL, *_COLUMNS), _by(_defects.model, filter_of=lambda model: {"model": model}), _HOW),
    },
)
