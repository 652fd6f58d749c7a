"""What many report cards say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from demerit.quality.archetype import Archetype
from demerit.quality.outcome import Outcome
from demerit.quality.report import Report, UsageTotals
from demerit.quality.score import GRADE_ORDER, penalties

UNSCORED = "unscored"


class WorstTool(msgspec.Struct, frozen=True):
    tool: str
    calls: int
    failures: int


class CostlySignal(msgspec.Struct, frozen=True):
    """One kind of penalty over all sessions."""

    signal: str
    points: int
    sessions: int


class Summary(msgspec.Struct, frozen=True):
    """Totals over sessions, sub-agents included."""

    sessions: int
    subagents: int
    average_score: float | None
    """Over the scored ones; None when there is none."""
    grades: dict[str, int]
    """Every grade from A to F, and `unscored`."""
    outcomes: dict[str, int]
    archetypes: dict[str, int]
    endings: dict[str, int]
    statuses: dict[str, int]
    worst_tools: tuple[WorstTool, ...]
    """The ten with the most failures, of those with any."""
    costly_signals: tuple[CostlySignal, ...]
    """By points, most first."""
    usage: UsageTotals | None
    """Each request once over all sessions, though resumed and copied logs repeat it."""
    losses: dict[str, int]
    agents: dict[str, int]


def summarize(reports: Iterable[Report], usage: UsageTotals | None) -> Summary:
    """What `reports` say together. `usage` comes from `RequestTotals`, which sees every request."""
    grades = Counter({grade or UNSCORED: 0 for grade in GRADE_ORDER})
    outcomes = Counter({outcome.value: 0 for outcome in Outcome})
    archetypes = Counter({archetype.value: 0 for archetype in Archetype})
    endings: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    losses: Counter[str] = Counter()
    agents: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    points: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    scores: list[int] = []
    sessions = subagents = 0
    for report in reports:
        sessions += 1
        subagents += report.relation == "subagent"
        grades[report.grade or UNSCORED] += 1
        outcomes[report.outcome.value] += 1
        archetypes[report.archetype.value] += 1
        agents[report.agent] += 1
        statuses.update(report.statuses)
        losses.update(report.losses)
        if report.ending:
            endings[report.ending] += 1
        if report.score is not None:
            scores.append(report.score)
        for name, tally in report.tools.items():
            calls[name] += tally.calls
            failures[name] += tally.failures or 0
        for line in penalties(report.signals):
            points[line.kind] += line.points
            hit[line.kind] += 1
    return Summary(
        sessions=sessions,
        subagents=subagents,
        average_score=round(sum(scores) / len(scores), 1) if scores else None,
        grades=dict(grades),
        outcomes=dict(outcomes),
        archetypes=dict(archetypes),
        endings=dict(endings),
        statuses=dict(statuses),
        worst_tools=tuple(WorstTool(name, calls[name], n) for name, n in failures.most_common(10) if n),
        costly_signals=tuple(CostlySignal(kind, n, hit[kind]) for kind, n in points.most_common()),
        usage=usage,
        losses=dict(losses),
        agents=dict(agents),
    )
