"""Which files are changed again and again."""

from __future__ import annotations

from sqlalchemy import func, select

from demerit.panels.choosing import narrowed
from demerit.panels.scores import count_if, whole
from demerit.panels.tables import PROJECT, SESSIONS, Ask, Column, Found, Panel, Row, View
from demerit.store.filters import conditions, with_signals
from demerit.store.schema import projects, session_files, sessions


def _by_file(ask: Ask) -> Found:
    changes, again = session_files.c.changes, session_files.c.changes - 1
    keys = (projects.c.name, projects.c.key, session_files.c.path)
    statement = (
        select(*keys, func.count(), count_if(changes > 1), whole(changes), whole(again), func.count().over())
        .select_from(
            with_signals.join(session_files, session_files.c.session_id == sessions.c.id).outerjoin(
                projects, projects.c.id == sessions.c.project_id
            )
        )
        .where(*conditions(ask.chosen), changes > 0)
        .group_by(*keys)
        .having(whole(again) > 0)
        .order_by(whole(again).desc(), whole(changes).desc(), session_files.c.path, projects.c.key)
        .limit(ask.limit)
    )
    if ask.chosen.file is not None:
        statement = statement.where(session_files.c.path == ask.chosen.file)
    found = ask.fetch(statement)
    rows = [
        Row((name, key, path, *figures), narrowed(ask.chosen, project=key or "", file=path))
        for name, key, path, *figures, _ in found
    ]
    files = found[0][-1] if found else 0
    return Found(rows, ask.count(ask.chosen), ask.chosen, more=files - len(rows))


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
