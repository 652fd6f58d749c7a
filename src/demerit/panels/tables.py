"""The shape of a panel and of what it finds, and how that is written down."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import Connection, Executable, func

from demerit.store.filters import Filter, chosen_sessions

SCHEMA = "demerit.panel/1"
"""Raised when a key or a column goes or changes its meaning; a new one keeps it."""

LIMIT = 50
"""Rows of a ranking that are shown unless more are asked for."""

Value = str | int | float | bool | None


class Column(msgspec.Struct, frozen=True):
    name: str
    unit: str
    """What the values count or are measured in; empty for words and marks."""
    help: str


class Row(NamedTuple):
    values: tuple[Value, ...]
    """In the order of the columns; None: not measured, or nothing to have a share of."""
    sessions: Filter | None = None
    """Lists exactly the sessions that the row counts; None: it counts none."""


class Ask(NamedTuple):
    """What a panel is asked."""

    connection: Connection
    chosen: Filter
    zone: ZoneInfo
    limit: int | None
    """Rows of a ranking; None: all."""
    many: dict[Filter, bool]
    """What is known of whether a filter chooses many sessions."""

    def fetch(self, statement: Executable) -> Sequence[Any]:
        return self.connection.execute(statement).all()

    def count(self, chosen: Filter) -> int:
        """How many sessions that is."""
        return int(self.connection.execute(chosen_sessions(chosen, func.count())).scalar_one())


class Found(NamedTuple):
    """What a view of a panel finds."""

    rows: Sequence[Row]
    counted: int
    """Sessions that it is about."""
    sessions: Filter
    """Lists them."""
    total: Row | None = None
    """All rows together, in the same columns."""
    notes: tuple[str, ...] = ()
    more: int = 0
    """Rows of the ranking that the limit cut off."""


class View(NamedTuple):
    """One way to cut a panel's figures into rows."""

    columns: tuple[Column, ...]
    find: Callable[[Ask], Found]
    how: str
    """How it counts, in words for docs/panels.md."""


class Table(msgspec.Struct, frozen=True):
    """What a panel found: rows of figures, each with the sessions behind it."""

    panel: str
    by: str
    """The view."""
    zone: str
    """In which days, weeks and hours are cut."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    total: Row | None
    counted: int
    sessions: Filter
    notes: tuple[str, ...]
    more: int


class Panel(msgspec.Struct, frozen=True):
    """One question about many sessions."""

    name: str
    question: str
    why: str
    """What to do about the answer."""
    time_base: str
    """What a range of time cuts."""
    views: dict[str, View]
    """By name, the usual one first."""

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the views, the usual one first."""
        return tuple(self.views)

    def columns(self, by: str | None = None) -> tuple[Column, ...]:
        """The columns of a view. Raises ValueError, in a sentence, for a view that this panel has not."""
        return self.views[self._view(by)].columns

    def run(
        self,
        connection: Connection,
        chosen: Filter,
        zone: ZoneInfo,
        by: str | None = None,
        limit: int | None = LIMIT,
    ) -> Table:
        """The answer for the chosen sessions. connection: on one state of the store. by: the view, None: the usual one.

        Raises ValueError, in a sentence, for a view that this panel has not.
        """
        name = self._view(by)
        view = self.views[name]
        found = view.find(Ask(connection, chosen, zone, limit, {}))
        return Table(
            self.name,
            name,
            str(zone),
            view.columns,
            tuple(found.rows),
            found.total,
            found.counted,
            found.sessions,
            found.notes,
            found.more,
        )

    def _view(self, by: str | None) -> str:
        if by is None:
            return self.by[0]
        if by not in self.views:
            raise ValueError(f"the panel {self.name} has no view by {by!r}; it has: {', '.join(self.by)}")
        return by


def ranked(rows: Sequence[Row], limit: int | None) -> tuple[Sequence[Row], int]:
    """The first `limit` rows, and how many there are beyond them."""
    return (rows, 0) if limit is None else (rows[:limit], max(0, len(rows) - limit))


# --- columns that many panels have ----------------------------------------------------------------------------

SESSIONS = Column("sessions", "sessions", "sessions that the row counts; its list opens exactly these")
SHARE = Column("share", "share", "their share, from 0 to 1")
PROJECT = (
    Column("project", "", "the project's name; null: without one"),
    Column("project_key", "", "what tells it from others of that name: git remote or folder"),
)
MODEL = Column("model", "", "as the log names it; null: the log does not tell")


def rate_columns(name: str, of: str) -> tuple[Column, Column, Column]:
    """The columns of a `Share`."""
    return (
        Column(f"{name}_rate", "share", f"`{name}` over `{of}`"),
        Column(f"{name}_rate_low", "share", "lower end of its 95 % interval (Wilson)"),
        Column(f"{name}_rate_high", "share", "upper end of it"),
    )


# --- written down ---------------------------------------------------------------------------------------------


def document(table: Table, panel: Panel) -> dict[str, Any]:
    """A table as the JSON object of docs/panel.schema.json, ready to be encoded."""
    names = [column.name for column in table.columns]
    return {
        "schema": SCHEMA,
        "panel": table.panel,
        "by": table.by,
        "question": panel.question,
        "why": panel.why,
        "zone": table.zone,
        "columns": msgspec.to_builtins(table.columns),
        "rows": [_row(names, row) for row in table.rows],
        "total": None if table.total is None else _row(names, table.total),
        "counted": table.counted,
        "sessions": listed(table.sessions),
        "notes": list(table.notes),
        "more": table.more,
    }


def _row(names: Sequence[str], row: Row) -> dict[str, Any]:
    return {
        "values": dict(zip(names, row.values, strict=True)),
        "sessions": None if row.sessions is None else listed(row.sessions),
    }


_CHOOSES_ALL = msgspec.to_builtins(Filter())


def listed(chosen: Filter) -> dict[str, Any]:
    """A filter as JSON: only what differs from choosing everything."""
    return {key: value for key, value in msgspec.to_builtins(chosen).items() if value != _CHOOSES_ALL[key]}


def as_csv(table: Table) -> str:
    """The rows as CSV with a line of column names; null is an empty cell. Total, notes and lists are not in it.

    Names come from logs, so a cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    writer.writerows([_cell(value) for value in row.values] for row in table.rows)
    return text.getvalue()


def _cell(value: Value) -> Value:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return value


def reference(panels: Mapping[str, Panel]) -> str:
    """Every panel with its views and columns, as the Markdown of docs/panels.md."""
    return "\n".join(_described(panel) for panel in panels.values())


def _described(panel: Panel) -> str:
    lines = [
        f"## {panel.name}",
        "",
        *_wrapped(f"**{panel.question}** {panel.why}"),
        "",
        *_wrapped(f"Time: {panel.time_base}"),
        "",
    ]
    for number, (name, view) in enumerate(panel.views.items()):
        usual = " (the usual view)" if number == 0 and len(panel.views) > 1 else ""
        lines += [*_wrapped(f"By `{name}`{usual}: {view.how}"), ""]
        same = next((other for other in list(panel.views)[:number] if panel.views[other].columns == view.columns), None)
        if same is not None:
            lines += [f"Its columns are those of `{same}`.", ""]
            continue
        lines += ["| column | unit | meaning |", "|---|---|---|"]
        lines += [f"| `{column.name}` | {column.unit} | {column.help} |" for column in view.columns]
        lines.append("")
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_on_hyphens=False, break_long_words=False)
