"""How work is handed to sub-agents."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from sqlalchemy import and_, case, func, select

from demerit.panels.choosing import is_many, narrowed, over_chosen
from demerit.panels.scores import SCORE_COLUMNS, SCORE_SUMS, scores_of, whole
from demerit.panels.tables import SESSIONS, Ask, Column, Found, Panel, Row, Value, View, ranked
from demerit.rates import share
from demerit.store.filters import conditions, is_child, with_signals
from demerit.store.schema import session_signals, sessions

_BANDS: tuple[tuple[str, int, int | None], ...] = (
    ("0", 0, 1),
    ("1", 1, 2),
    ("2-3", 2, 4),
    ("4-7", 4, 8),
    ("8+", 8, None),
)


def _by_band(ask: Ask) -> Found:
    chosen = replace(ask.chosen, subagents=False)
    child = sessions.alias("child")
    parents = (
        select(
            func.min(session_signals.c.score).label("score"),
            func.min(sessions.c.cost_usd).label("cost"),
            func.count(child.c.id).label("children"),
            func.sum(child.c.cost_usd).label("children_cost"),
        )
        .select_from(with_signals.outerjoin(child, and_(child.c.parent_id == sessions.c.id, *is_child(child))))
        .where(*conditions(chosen, by_time=not is_many(ask, chosen)))
        .group_by(sessions.c.id)
        .subquery()
    )
    of = parents.c
    band = case(
        *((of.children < below, number) for number, (_, _, below) in enumerate(_BANDS) if below is not None),
        else_=len(_BANDS) - 1,
    ).label("band")
    statement = select(
        band,
        func.count(),
        whole(of.children),
        func.count(of.score),
        whole(of.score),
        func.sum(of.cost),
        func.sum(of.children_cost),
    ).group_by("band")
    found = {number: tuple(sums) for number, *sums in ask.fetch(statement)}
    counted = sum(sums[0] for sums in found.values())
    rows = []
    for number, (name, floor, below) in enumerate(_BANDS):
        wanted: dict[str, Any] = (
            {"children_from": floor} if below is None else {"children_from": floor, "children_below": below}
        )
        sums = found.get(number, (0, 0, 0, 0, None, None))
        rows.append(Row((name, *_figures(counted, *sums)), narrowed(chosen, **wanted)))
    total = tuple(_sum(column) for column in zip(*found.values(), strict=True)) or (0, 0, 0, 0, None, None)
    return Found(rows, counted, chosen, Row(("all", *_figures(counted, *total)), chosen))


def _sum(values: tuple[Any, ...]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _figures(
    counted: int, n: int, children: int, graded: int, points: int, cost: float | None, children_cost: float | None
) -> tuple[Value, ...]:
    both = None if cost is None or children_cost is None else cost + children_cost
    of_cost = None if both is None or children_cost is None else share(children_cost, both)
    return (n, counted, share(n, counted), children, graded, share(points, graded), cost, children_cost, of_cost)


def _by_agent(ask: Ask) -> Found:
    chosen = narrowed(ask.chosen, relation="subagent")
    if chosen is None:
        return Found((), 0, ask.chosen)
    statement = over_chosen(ask, chosen, sessions.c.agent, *SCORE_SUMS).group_by(sessions.c.agent)
    found = [(agent, scores_of(sums)) for agent, *sums in ask.fetch(statement)]
    found.sort(key=lambda item: (-item[1].sessions, item[0]))
    rows = [Row((agent, *scores.values), narrowed(chosen, agent=agent)) for agent, scores in found]
    shown, more = ranked(rows, ask.limit)
    return Found(shown, sum(scores.sessions for _, scores in found), chosen, more=more)


SUBAGENTS_PANEL = Panel(
    "subagents",
    "How much work is handed to sub-agents, and how well do they do it?",
    "Sub-agents that score worse than the sessions that start them may lack instructions that their parents have.",
    "when a session started; sub-agents count with the session that started them, whenever they ran themselves.",
    {
        "children": View(
            (
                Column("children", "sessions", "how many sub-agents a session has right below it"),
                SESSIONS,
                Column("of", "sessions", "chosen sessions that are no sub-agents': what `share` is taken over"),
                Column("share", "share", "`sessions` over `of`"),
                Column("subagents", "sessions", "the sub-agents' sessions right below them"),
                Column("graded", "sessions", "of `sessions`, those with a score"),
                Column("average_score", "points", "their mean score; null: none has one"),
                Column("cost_usd", "USD", "cost of `sessions` themselves; null: none has a price"),
                Column("subagents_cost_usd", "USD", "cost of `subagents`; null: none has a price"),
                Column("subagents_cost_share", "share", "that over both together; null: either is not known"),
            ),
            _by_band,
            "every chosen session that is no sub-agent's is in exactly one row.",
        ),
        "agent": View(
            (Column("agent", "", "key of the agent"), *SCORE_COLUMNS),
            _by_agent,
            "grades of the sub-agents' own sessions among the chosen ones.",
        ),
    },
)
