"""Questions about many sessions, one a file: what they ask, count and mean, and the sessions behind every figure.

    table = PANELS["grades"].run(connection, Filter(project="shop"), zone)

A panel is one line in `PANELS`. It answers in a `Table` whose rows name the sessions that they count, and reads the
sums that the store keeps a session, never messages, calls or requests one by one.
"""

from __future__ import annotations

from demerit.panels.advice import ADVICE_PANEL
from demerit.panels.archetypes import ARCHETYPES_PANEL, Standing, score_percentile
from demerit.panels.churn import CHURN_PANEL
from demerit.panels.context import CONTEXT_PANEL
from demerit.panels.cost import COST_PANEL
from demerit.panels.defects import DEFECTS_PANEL
from demerit.panels.grades import GRADES_PANEL
from demerit.panels.hygiene import HYGIENE_PANEL
from demerit.panels.outcomes import OUTCOMES_PANEL
from demerit.panels.rhythm import RHYTHM_PANEL
from demerit.panels.subagents import SUBAGENTS_PANEL
from demerit.panels.tables import LIMIT, SCHEMA, Column, Panel, Row, Table, View, as_csv, document, reference
from demerit.panels.tools import TOOLS_PANEL
from demerit.panels.trend import SCORE_TREND_PANEL
from demerit.rates import Share, wilson

__all__ = [
    "LIMIT",
    "PANELS",
    "SCHEMA",
    "Column",
    "Panel",
    "Row",
    "Share",
    "Standing",
    "Table",
    "View",
    "as_csv",
    "document",
    "reference",
    "score_percentile",
    "wilson",
]

PANELS: dict[str, Panel] = {
    panel.name: panel
    for panel in (
        GRADES_PANEL,
        OUTCOMES_PANEL,
        ARCHETYPES_PANEL,
        SCORE_TREND_PANEL,
        HYGIENE_PANEL,
        CONTEXT_PANEL,
        TOOLS_PANEL,
        CHURN_PANEL,
        COST_PANEL,
        RHYTHM_PANEL,
        SUBAGENTS_PANEL,
        ADVICE_PANEL,
        DEFECTS_PANEL,
    )
}
"""Every panel by name, in the order in which they are shown."""
