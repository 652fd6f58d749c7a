"""Logs and sessions on their way into a store, and what the store then holds, told without the numbers it gave.

keep(store, "a.jsonl", session(human(), agent("done")))   # a Session as it is
write(tmp_path / "a.jsonl", turns(3))                      # lines of a log in Claude Code's shape
sync(store, tmp_path)
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, func, select
from tests.parsers.claude_lines import START, Line, assistant, call, result, usage, user

from demerit import config, ingest
from demerit.config import Settings
from demerit.model import PARSE_EPOCH, Body, Session
from demerit.quality.report import Report
from demerit.store import Store
from demerit.store.filters import microseconds
from demerit.store.projection import Projection
from demerit.store.reads import read_report
from demerit.store.schema import (
    events,
    file_changes,
    logs,
    messages,
    session_defects,
    session_files,
    session_hours,
    session_tools,
    sessions,
    texts,
    tool_calls,
    usage_events,
)
from demerit.store.texts import TEXT_SPACE
from demerit.store.writer import LogRow, Write, stored_sessions, take_ids, write_logs

LATER = START + timedelta(days=1)
"""By then every log that `turns` wrote has settled."""
NEWER = -7
"""A number of a version, or epoch, that no store has."""


def no_bodies(body: Body, chars: int) -> str | None:
    return None


def project(
    number: int, session: Session, name: str = "log", now: datetime = LATER, known: dict[str, int] | None = None
) -> Projection:
    """The rows of a session of this number, without its bodies and its project. known: ids of its texts, by digest."""
    texts = known or {}
    next_text = max(texts.values(), default=number * TEXT_SPACE - 1) - number * TEXT_SPACE + 1
    return Projection(number, session, no_bodies, texts, next_text, None, now, name)


def keep(
    store: Store,
    name: str,
    *found: Session,
    now: datetime = LATER,
    modified: datetime | None = None,
    grades: bool = True,
) -> list[int]:
    """The ids of sessions that the store now has of the log of this name, in their order. Kept as a pass keeps them."""
    key = ingest.log_key("here", name)
    with store.writing() as connection:
        kept = stored_sessions(connection, key)
        seen = connection.execute(select(logs.c.fingerprint).where(logs.c.key == key)).scalar()
        log = LogRow(
            key=key,
            machine="here",
            path=name,
            agent=found[0].agent if found else None,
            fingerprint=str(int(seen or 0) + 1),
            bytes=1,
            modified_us=None if modified is None else microseconds(modified),
            generation=0,
            epoch=PARSE_EPOCH,
            reason=None,
            known_agent=True,
            read_us=microseconds(now),
        )
        made = []
        for session in found:
            same = next((one for one in kept if one.source_id == session.source_id), None)
            if same is not None:
                kept.remove(same)
            number = take_ids(connection, 1) if same is None else same.id
            made.append(project(number, session, name, now, None if same is None else same.texts))
        write_logs(connection, [Write(log, seen, made)], now, grades)
        return [projection.session_id for projection in made]


def settings_for(store: Store, **chosen: Any) -> Settings:
    """Of this store alone, whatever the machine's are."""
    url = store.url.render_as_string(hide_password=False)
    given = {"machine": "here", "workers": 1, "database_url": url, **chosen}
    return config.load({"DEMERIT_CONFIG": os.devnull}, **given)


def sync(
    store: Store,
    *roots: Path,
    now: datetime = LATER,
    ended: bool = False,
    debug: bool = True,
    **chosen: Any,
) -> ingest.Pass:
    """One pass over the logs below these folders. chosen: settings."""
    settings = settings_for(store, **chosen)
    paths = ingest.find(settings, Path("/nonexistent"), {}, [str(root) for root in roots], [])
    return ingest.sync(store, settings, paths, now, ended=ended, debug=debug)


# --- logs -------------------------------------------------------------------------------------------------------


def turns(count: int, name: str = "a", start: int = 0, session: str | None = None) -> list[Line]:
    """Turns of a person and an agent, half a minute each: 10 input, 20 output and 5 cached tokens for each answer.

    name: of the conversation; equal names give equal lines. session: its id in the log, if that is another one.
    """
    made: list[Line] = []
    for number in range(start, start + count):
        place: Line = {"sessionId": session or name, "cwd": "/home/dev/shop"}
        asks = user(
            f"please fix the rounding of {name} {number} in src/cart.py",
            number * 30.0,
            uuid=f"u-{name}-{number}",
            **place,
        )
        change = {"file_path": "/home/dev/shop/src/cart.py", "old_string": "a", "new_string": "b"}
        works = assistant(
            "I will.",
            call(f"c-{name}-{number}", "Edit", **change),
            id=f"m-{name}-{number}",
            second=number * 30.0 + 5,
            used=usage(read=5),
            uuid=f"v-{name}-{number}",
            **place,
        )
        done = result(f"c-{name}-{number}", second=number * 30.0 + 10, uuid=f"w-{name}-{number}", **place)
        made += [asks, works, done]
    return made


def renamed(lines: Iterable[Line], session: str) -> list[Line]:
    """The same lines as another session's, as an agent writes them that resumes a conversation in a new file."""
    return [{**line, "sessionId": session} for line in lines]


def write(path: Path, lines: Iterable[Line | str], modified: datetime | None = None) -> Path:
    """The log of these lines. modified: when it was last written; now if not given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    if modified is not None:
        os.utime(path, (modified.timestamp(), modified.timestamp()))
    return path


# --- what the store holds ---------------------------------------------------------------------------------------

_TABLES = (
    events,
    file_changes,
    messages,
    tool_calls,
    usage_events,
    session_hours,
    session_tools,
    session_files,
    session_defects,
    texts,
)
_NUMBERS = ("id", "log_id", "place", "project_id", "generation")
_LINKS = ("parent_id", "copy_of")
_TEXT_IDS = ("text_id", "thinking_id", "input_id", "result_id")


def content(connection: Connection) -> dict[str, Any]:
    """All that the store holds of its sessions, with (file, session) and digests in place of the numbers it gave."""
    rows = connection.execute(
        select(sessions, logs.c.path.label("path")).join(logs, logs.c.id == sessions.c.log_id)
    ).mappings()
    listed = [dict(row) for row in rows]
    names = {row["id"]: (Path(row["path"]).name, row["source_id"], row["place"]) for row in listed}
    found: dict[str, Any] = {"sessions": {}, "reports": {}}
    for row in listed:
        about = {name: value for name, value in row.items() if name not in (*_NUMBERS, "path")}
        for link in _LINKS:
            about[link] = names.get(row[link])
        found["sessions"][names[row["id"]]] = about
        report = read_report(connection, row["id"])
        found["reports"][names[row["id"]]] = report and msgspec.structs.replace(report, path=None)
    digests = {row.id: row.digest for row in connection.execute(select(texts.c.id, texts.c.digest))}
    for table in _TABLES:
        found[table.name] = sorted(map(repr, _told(connection, table, names, digests)))
    return found


def _told(
    connection: Connection, table: Table, names: dict[int, Any], digests: dict[int, str]
) -> Iterable[dict[str, Any]]:
    places: Counter[int] = Counter()
    for row in connection.execute(select(table).order_by(*table.primary_key)).mappings():
        told = {name: value for name, value in row.items() if name != "id"}
        told["session_id"] = names[row["session_id"]]
        if table is usage_events:  # their places may have gaps
            told["place"] = places[row["session_id"]]
            places[row["session_id"]] += 1
        for name in _TEXT_IDS:
            if told.get(name) is not None:
                told[name] = digests[told[name]]
        yield told


def totals(connection: Connection) -> dict[str, int]:
    """Sums over all sessions of what counts."""
    row = connection.execute(
        select(
            func.count(),
            func.sum(sessions.c.messages),
            func.sum(sessions.c.user_messages),
            func.sum(sessions.c.requests),
            func.sum(sessions.c.input_tokens),
            func.sum(sessions.c.cache_read_tokens),
            func.sum(sessions.c.output_tokens),
        ).where(sessions.c.copy_of.is_(None))
    ).one()
    names = ("sessions", "messages", "prompts", "requests", "input", "read", "output")
    calls = connection.execute(select(func.count()).where(tool_calls.c.is_counted)).scalar_one()
    return {name: int(value or 0) for name, value in zip(names, row, strict=True)} | {"calls": calls}


def of_turns(count: int, sessions: int = 1) -> dict[str, int]:
    """The totals of so many different `turns`, each told once."""
    return {
        "sessions": sessions,
        "messages": 2 * count,
        "prompts": count,
        "requests": count,
        "input": 10 * count,
        "read": 5 * count,
        "output": 20 * count,
        "calls": count,
    }


def links(connection: Connection) -> dict[str, tuple[str | None, str | None, str | None]]:
    """(relation, file of the parent, file that it is a copy of) of each session, by the name of its file."""
    told = content(connection)["sessions"]
    return {
        name[0]: (row["relation"], row["parent_id"] and row["parent_id"][0], row["copy_of"] and row["copy_of"][0])
        for name, row in told.items()
    }


def report_of(store: Store, number: int) -> Report | None:
    """The card that readers see."""
    with store.reading() as connection:
        return read_report(connection, number)


def without_cost(report: Report | None) -> Report | None:
    """A card as `assess` makes it: the store adds what was spent."""
    if report is None or report.usage is None:
        return report
    return msgspec.structs.replace(report, usage=msgspec.structs.replace(report.usage, cost_usd=None))


def ids_by_file(connection: Connection) -> dict[str, list[int]]:
    """The ids of the sessions of each log, by its file's name."""
    query = select(logs.c.path, sessions.c.id).join(sessions, sessions.c.log_id == logs.c.id).order_by(sessions.c.id)
    found: dict[str, list[int]] = {}
    for path, number in connection.execute(query):
        found.setdefault(Path(path).name, []).append(number)
    return found


def at(second: float) -> datetime:
    """So many seconds after the first line of every log here."""
    return START + timedelta(seconds=second)
