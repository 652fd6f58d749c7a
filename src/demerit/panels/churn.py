"""Which files are changed again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from demerit.panels.choosing import led_by_rows, narrowed, of_chosen
from demerit.panels.scores import count_if, whole
from demerit.panels.tables import PROJECT, SESSIONS, Ask, Column, Found, Panel, Row, View
from demerit.store.schema import projects, session_files, sessions

_files = session_files.c


def _by_file(ask: Ask) -> Found:
    found = ask.fetch(_again(ask))
    totals = _totals(ask, [path for _, path, _, _ in found])
    projects_of = {row.id: (row.name, row.key) for row in ask.fetch(select(projects))}
    rows = []
    for project, path, again, _ in found:
        name, key = projects_of.get(project, (None, None))
        row_filter = narrowed(ask.chosen, project=key or "", file=path)
        rows.append(Row((name, key, path, *totals[project, path], again), row_filter))
    files = found[0][-1] if found else 0
    return Found(rows, ask.count(ask.chosen), ask.chosen, more=files - len(rows))


def _again(ask: Ask) -> Select[Any]:
    """Project, path and re-edits of the first files, and how many there are: of sessions with re-edits alone."""
    again = whole(_files.changes - 1).label("again")
    keys = (sessions.c.project_id, _files.path)
    statement = _of_files(ask, *keys, again, func.count().over()).where(_files.changes > 1).group_by(*keys)
    # In an order that is the same on both engines.
    order = select(projects.c.key).where(projects.c.id == sessions.c.project_id).scalar_subquery()
    return statement.order_by(again.desc(), _files.path, func.min(order)).limit(ask.limit)


def _totals(ask: Ask, paths: Sequence[str]) -> dict[tuple[int | None, str], tuple[int, int, int]]:
    """Sessions, those with re-edits, and changes of these files, by project and path."""
    found: dict[tuple[int | None, str], tuple[int, int, int]] = {}
    keys = (sessions.c.project_id, _files.path)
    statement = _of_files(ask, *keys, func.count(), count_if(_files.changes > 1), whole(_files.changes)).group_by(*keys)
    names = sorted(set(paths))
    for at in range(0, len(names), _AT_A_TIME):
        for project, path, *figures in ask.fetch(statement.where(_files.path.in_(names[at : at + _AT_A_TIME]))):
            found[project, path] = (figures[0], figures[1], figures[2])
    return found


_AT_A_TIME = 500


def _of_files(ask: Ask, *columns: ColumnElement[Any]) -> Select[Any]:
    """Of the files that the chosen sessions changed."""
    session_id = led_by_rows(ask, ask.chosen, _files.session_id)
    statement = select(*columns).select_from(session_files.join(sessions, sessions.c.id == session_id))
    statement = statement.where(_files.changes > 0, of_chosen(ask, ask.chosen, _files.session_id))
    return statement if ask.chosen.file is None else statement.where(_files.path == ask.chosen.file)


CHURN_PANEL = Panel(
    "churn",
    "Which files are changed again and again?",
    "A file that one session changes many times was not understood at first: describe it, test it or split it.",
    "when a session started.",
    {
        "file": View(
            (
                *PROJECT,
                Column("path", "", "the file, as it is called below the working folder where it lies there"),
                SESSIONS,
                Column("sessions_again", "sessions", "of these, those that changed it more than once"),
                Column("changes", "changes", "edits and writes that worked"),
                Column("re_edits", "changes", "of these, those after the first of their session"),
            ),
            _by_file,
            "files that a session changed more than once, most re-edits first. A row has all sessions that changed it.",
        )
    },
)
