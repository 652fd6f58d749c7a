"""The one writer: what a log gave goes in whole, in one transaction, with its links to what is there already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from demerit.model import PARSE_EPOCH, Body, CallStatus, Message, Session, ToolCall
from demerit.quality import PromptFacts
from demerit.quality.assess import IDLE_AFTER, Replays, changed_files
from demerit.store.engines import insert_rows
from demerit.store.filters import microseconds
from demerit.store.grading import (
    forget_reports,
    grade_session,
    keep_reports,
    repeated_calls,
    stored_messages,
    stored_session,
)
from demerit.store.projection import Project, Projection, Text, UsageRow, add_up, is_request_key
from demerit.store.rounds import Rounds, RoundsFolder, spoken_as
from demerit.store.schema import (
    counters,
    events,
    file_changes,
    logs,
    messages,
    projects,
    pruned,
    session_defects,
    session_files,
    session_heads,
    session_hours,
    session_tools,
    sessions,
    texts,
    tool_calls,
    usage_events,
)
from demerit.store.search import index_words, unindex_texts
from demerit.store.texts import plain, unpacked

_SUMS = (session_hours, session_tools, session_files, session_defects)
_ROWS = (events, file_changes, messages, session_heads, tool_calls, usage_events)
_SESSION_COLUMNS = [column.name for column in sessions.c if column.computed is None]
_AT_A_TIME = 500
_FAMILY = 200
"""Sessions that may begin alike and are still compared: what more of them share is a template."""
T = TypeVar("T")


class Conflict(Exception):
    """Somebody else wrote this log since it was looked at. What they wrote stands; the next pass looks again."""


class LogRow(msgspec.Struct, frozen=True):
    """What is kept of a log: the columns of `logs`, but for its id."""

    key: str
    machine: str
    path: str
    agent: str | None
    fingerprint: str
    bytes: int
    modified_us: int | None
    generation: int
    epoch: int
    reason: str | None
    known_agent: bool
    read_us: int
    is_gone: bool = False
    checkpoint: str | None = None


class Stored(NamedTuple):
    """A session of a log, as it is kept."""

    id: int
    source_id: str
    place: int
    digest: str
    epoch: int
    heads: frozenset[int]
    texts: dict[str, int]
    """Ids of its texts by digest."""


class Write(NamedTuple):
    """What one log gave."""

    log: LogRow
    seen: str | None
    """Its fingerprint in the database when it was looked at; None: it was not there."""
    sessions: Sequence[Projection]


def take_ids(connection: Connection, count: int) -> int:
    """The first of `count` session ids that nobody else gets. Its own short transaction: nobody waits for the work."""
    name = "sessions"
    grown = update(counters).where(counters.c.name == name).values(value=counters.c.value + count)
    last = connection.execute(grown.returning(counters.c.value)).scalar()
    if last is None:
        begun = "on conflict do nothing"
        connection.execute(text(f"insert into counters (name, value) values ('{name}', 0) {begun}"))
        last = connection.execute(grown.returning(counters.c.value)).scalar_one()
    return int(last) - count + 1


def stored_sessions(connection: Connection, log_key: str) -> list[Stored]:
    """The sessions that are kept of a log, in the order of their ids."""
    found = connection.execute(
        select(sessions.c.id, sessions.c.source_id, sessions.c.place, sessions.c.digest, sessions.c.epoch)
        .join(logs, logs.c.id == sessions.c.log_id)
        .where(logs.c.key == log_key)
        .order_by(sessions.c.id)
    ).all()
    listed = []
    for number, source_id, place, digest, epoch in found:
        heads = connection.execute(select(session_heads.c.key).where(session_heads.c.session_id == number)).scalars()
        known = connection.execute(select(texts.c.digest, texts.c.id).where(texts.c.session_id == number))
        listed.append(
            Stored(number, source_id, place, digest, epoch, frozenset(heads), {row[0]: row[1] for row in known})
        )
    return listed


def write_logs(connection: Connection, writes: Sequence[Write], now: datetime, grades: bool = True) -> list[int]:
    """Keep what some logs gave, in the open transaction. Gives the ids of the sessions that are new or have changed.

    now: sessions that have settled by this time are graded at once, unless `grades` is false.
    Raises Conflict when one of the logs was written by somebody else since it was looked at.
    """
    changed = _Changes(connection)
    numbers = _write_logs(connection, writes)
    changed.look_at([numbers[write.log.key] for write in writes if write.seen is not None])
    away = iter(thrown_away(connection, [found.session for write in writes for found in write.sessions]))
    for write in writes:
        for found in write.sessions:
            if not next(away):
                changed.take(numbers[write.log.key], write.log, found)
    changed.insert()
    shared = count_once(connection, list(changed.new), changed.others.difference(changed.new))
    _link(connection, list(dict.fromkeys([*changed.new, *shared])))
    if grades:
        ready = [(n, one.report) for n, one in changed.new.items() if one.report is not None and n not in shared]
        keep_reports(connection, ready)
        grade_settled(connection, shared, now)
    return list(dict.fromkeys([*changed.new, *shared]))


def thrown_away(connection: Connection, found: Sequence[Session]) -> list[bool]:
    """Which of the sessions were pruned, and have not gone on since."""
    away: dict[tuple[str, str], int | None] = {}
    for part in _parts(dict.fromkeys(plain(session.source_id) for session in found)):
        query = select(pruned.c.agent, pruned.c.source_id, pruned.c.last_us).where(pruned.c.source_id.in_(part))
        away.update({(agent, source_id): last_us for agent, source_id, last_us in connection.execute(query)})
    still = []
    for session in found:
        name = (session.agent, plain(session.source_id))
        ended = microseconds(session.ended)
        last_us = away.get(name)
        still.append(name in away and (ended is None or (last_us is not None and ended <= last_us)))
    return still


def grade_settled(connection: Connection, ids: Sequence[int], now: datetime) -> int:
    """Grade those of the sessions that have settled; how many these are."""
    graded = 0
    settled = or_(sessions.c.is_terminal, sessions.c.last_us <= microseconds(now - IDLE_AFTER))
    for part in _parts(ids):
        query = select(sessions.c.id).where(sessions.c.id.in_(part), sessions.c.is_stale, settled)
        for number in connection.execute(query).scalars().all():
            graded += grade_session(connection, number, now) is not None
    return graded


def write_log(connection: Connection, log: LogRow, seen: str | None) -> int:
    """Keep the row of a log without its sessions; its id. Raises Conflict as `write_logs` does."""
    return _write_logs(connection, [Write(log, seen, ())])[log.key]


def _write_logs(connection: Connection, writes: Sequence[Write]) -> dict[str, int]:
    """Keep the rows of the logs themselves; their ids by their keys. Raises Conflict."""
    known = _known_logs(connection, [write.log.key for write in writes])
    new = []
    for write in writes:
        row = known.get(write.log.key)
        if (None if row is None else row.fingerprint) != write.seen:
            raise Conflict(write.log.path)
        if row is None:
            new.append(write.log)
        else:
            values = msgspec.structs.asdict(write.log)
            connection.execute(update(logs).where(logs.c.id == row.id).values(**values))
    if new:
        connection.execute(insert(logs), [msgspec.structs.asdict(log) for log in new])
        known.update(_known_logs(connection, [log.key for log in new]))
    return {key: row.id for key, row in known.items()}


def _known_logs(connection: Connection, keys: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _parts(keys):
        query = select(logs.c.id, logs.c.key, logs.c.fingerprint).where(logs.c.key.in_(part))
        found.update({row.key: row for row in connection.execute(query)})
    return found


class _Changes:
    """Rows to insert, gathered over many small sessions, so that each table is written once."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.new: dict[int, Projection] = {}
        """Of the sessions that are new, or not as they are kept."""
        self.kept: dict[int, tuple[str, int]] = {}
        self.places: dict[tuple[int, str], int] = {}
        self.rows: defaultdict[Table, list[Any]] = defaultdict(list)
        self.texts: list[tuple[int, Text]] = []
        self.projects: dict[str, int] = {}
        self.others: set[int] = set()
        """Sessions that shared something with what is replaced."""

    def take(self, log_id: int, log: LogRow, found: Projection) -> None:
        connection, number = self.connection, found.session_id
        values = {**_columns(found, log), "log_id": log_id, "project_id": self.project(found.project)}
        known = self.kept.get(number)
        if known == (found.digest, PARSE_EPOCH):
            same = {"generation": log.generation, "log_id": log_id}
            connection.execute(update(sessions).where(sessions.c.id == number).values(**same))
            return
        if known is not None:
            self.others |= _sharing(connection, [number])
            _forget_rows(connection, number)
            forget_reports(connection, number)
            connection.execute(update(sessions).where(sessions.c.id == number).values(**values))
        else:
            name = (log_id, values["source_id"])
            self.places[name] = place = self.places.get(name, -1) + 1
            self.rows[sessions].append(
                tuple({"id": number, "place": place, **values}[name] for name in _SESSION_COLUMNS)
            )
        self.new[number] = found
        self.rows[session_heads] += [(key, number) for key in found.heads]
        self.rows[usage_events] += [(number, *msgspec.structs.astuple(row)) for row in found.usage]
        self.rows[events] += found.event_rows()
        for table, rows in zip(_SUMS, found.sums.rows, strict=True):
            self.rows[table] += rows
        for at, part in enumerate(found.parts()):
            if at:
                self.insert()
            self.rows[messages] += part.messages
            self.rows[tool_calls] += part.calls
            self.rows[file_changes] += part.changes
            self.texts += [(number, one) for one in part.texts]
        if known is not None:
            kept = connection.execute(select(texts.c.id).where(texts.c.session_id == number)).scalars()
            forget_texts(connection, [one for one in kept if one not in found.texts.used])

    def look_at(self, log_ids: Sequence[int]) -> None:
        """Note which sessions are kept of these logs."""
        row = sessions.c
        for part in _parts(log_ids):
            query = select(row.id, row.digest, row.epoch, row.log_id, row.source_id, row.place)
            for number, digest, epoch, log_id, source_id, place in self.connection.execute(
                query.where(row.log_id.in_(part))
            ):
                self.kept[number] = (digest, epoch)
                self.places[log_id, source_id] = max(place, self.places.get((log_id, source_id), -1))

    def project(self, project: Project | None) -> int | None:
        if project is None:
            return None
        known = self.projects.get(project.key)
        if known is None:
            known = self.projects[project.key] = _project_id(self.connection, project)
        return known

    def insert(self) -> None:
        for table in dict.fromkeys((sessions, *self.rows)):  # first what the others refer to
            insert_rows(self.connection, table, self.rows.pop(table, []))
        _keep_texts(self.connection, self.texts)
        self.texts.clear()


def keep_texts(connection: Connection, number: int, found: Iterable[Text]) -> None:
    """Keep new texts of a session, and make them findable."""
    _keep_texts(connection, [(number, one) for one in found])


def _keep_texts(connection: Connection, found: Sequence[tuple[int, Text]]) -> None:
    rows = [
        (
            one.id,
            number,
            one.digest,
            one.kind,
            one.message_ordinal,
            one.call_index,
            one.size,
            one.words is not None,
            one.data,
        )
        for number, one in found
    ]
    insert_rows(connection, texts, rows)
    index_words(connection, [(one.id, one.words) for _, one in found if one.words is not None])


def _columns(found: Projection, log: LogRow) -> dict[str, Any]:
    """The columns of a session's own row, but for the ids of other rows."""
    session = found.session
    named = {
        name: None if (value := getattr(session, name)) is None else plain(value)
        for name in ("source_id", "parent_source_id", "cwd", "branch", "agent_version")
    }
    ended = microseconds(session.ended)
    return {
        **named,
        "agent": session.agent,
        "parent_id": None,
        "relation": session.relation,
        "copy_of": None,
        "title": found.title,
        "started_us": microseconds(session.started),
        "ended_us": ended,
        "last_us": log.modified_us if ended is None else ended,
        "is_terminal": session.terminal,
        "replayed_messages": 0,
        "untold": msgspec.json.encode(session.untold).decode(),
        "losses": msgspec.json.encode({loss.kind: loss.count for loss in session.losses}).decode(),
        "digest": found.digest,
        "generation": log.generation,
        "epoch": PARSE_EPOCH,
        "is_stale": True,
        **found.sums.columns,
    }


def _forget_rows(connection: Connection, number: int) -> None:
    for table in (*_ROWS, *_SUMS):
        connection.execute(delete(table).where(table.c.session_id == number))


def forget_texts(connection: Connection, ids: Iterable[int]) -> None:
    for part in _parts(ids):
        kept = select(texts.c.id, texts.c.data).where(texts.c.id.in_(part), texts.c.is_indexed)
        unindex_texts(connection, [(number, unpacked(data)) for number, data in connection.execute(kept)])
        connection.execute(delete(texts).where(texts.c.id.in_(part)))


def forget_sessions(connection: Connection, ids: Sequence[int]) -> None:
    """Delete sessions with all that is kept of them, and count again what others repeat of them."""
    others = _sharing(connection, ids)
    children: set[int] = set()
    for part in _parts(ids):
        children.update(connection.execute(select(sessions.c.id).where(sessions.c.parent_id.in_(part))).scalars())
    for number in ids:
        forget_texts(connection, connection.execute(select(texts.c.id).where(texts.c.session_id == number)).scalars())
        connection.execute(delete(sessions).where(sessions.c.id == number))
    shared = count_once(connection, [], others.difference(ids))
    _link(connection, sorted(children.union(shared).difference(ids)))


def _project_id(connection: Connection, project: Project) -> int:
    found = select(projects.c.id).where(projects.c.key == project.key)
    known = connection.execute(found).scalar()
    if known is None:
        sql = "insert into projects (key, name, kind) values (:key, :name, :kind) on conflict (key) do nothing"
        connection.execute(text(sql), project._asdict())
        known = connection.execute(found).scalar_one()
    return int(known)


# --- links and replays ------------------------------------------------------------------------------------------


def _link(connection: Connection, ids: Sequence[int]) -> None:
    """Link these sessions to the parents that they name, and those that name one of them to it."""
    child, parent = sessions.alias("child"), sessions.alias("parent")
    named = and_(
        parent.c.agent == child.c.agent,
        parent.c.source_id == child.c.parent_source_id,
        parent.c.source_id != child.c.source_id,
        # Nobody comes from a session that began later.
        func.coalesce(parent.c.started_us, 0) <= func.coalesce(child.c.started_us, parent.c.started_us, 0),
    )
    # Of several logs of the parent, the same one as the child's, else the one that counts.
    best = (
        (parent.c.log_id == child.c.log_id).desc(),
        parent.c.copy_of.is_not(None),
        func.coalesce(parent.c.started_us, 0),
        (parent.c.messages + parent.c.replayed_messages).desc(),
        logs.c.path,
        parent.c.place,
    )
    children: set[int] = set()
    row = sessions.c
    for part in _parts(ids):
        own = select(sessions.c.id).where(sessions.c.id.in_(part), sessions.c.parent_source_id.is_not(None))
        children.update(connection.execute(own).scalars())
        names: defaultdict[str, set[str]] = defaultdict(set)
        for agent, name in connection.execute(select(row.agent, row.source_id).where(row.id.in_(part))):
            names[agent].add(name)
        for agent, known in names.items():
            naming = and_(row.agent == agent, row.parent_source_id.in_(known))
            children.update(connection.execute(select(row.id).where(naming)).scalars())
    wanted: dict[int, int | None] = dict.fromkeys(sorted(children))
    for part in _parts(sorted(children)):
        pairs = select(child.c.id, parent.c.id).where(named, child.c.id.in_(part))
        pairs = pairs.join(logs, logs.c.id == parent.c.log_id).order_by(child.c.id, *best)
        for number, other in connection.execute(pairs):
            if wanted[number] is None:
                wanted[number] = other
    for number, parent_id in wanted.items():
        _set_parent(connection, number, parent_id)


def _set_parent(connection: Connection, number: int, parent_id: int | None) -> None:
    """Link a session to its parent. A circle is cut at the one of it that began first, whichever was read first."""
    row = sessions.c
    about = select(row.id, row.parent_id, row.started_us, row.agent, row.source_id, logs.c.path)
    about = about.join(logs, logs.c.id == row.log_id)
    circle: list[Any] = []
    seen = set()
    at = parent_id
    while at is not None and at not in seen:
        seen.add(at)
        circle.append(connection.execute(about.where(row.id == at)).one())
        at = None if at == number else circle[-1].parent_id
    if number in seen:
        first = min(circle, key=lambda one: (one.started_us or 0, one.agent, one.source_id, one.path, one.id)).id
        connection.execute(update(sessions).where(row.id == first).values(parent_id=None))
        if first == number:
            return
    connection.execute(update(sessions).where(row.id == number).values(parent_id=parent_id))


class _Member(NamedTuple):
    """A session of a family: some that begin alike."""

    id: int
    agent: str
    source_id: str
    began: tuple[int, int]
    total: int
    path: str
    parent_source_id: str | None


def _families(connection: Connection, ids: Sequence[int]) -> dict[int, set[int]]:
    """For each session that shares one of its first messages with these, those that it shares one with."""
    own, other = session_heads.alias("own"), session_heads.alias("other")
    alike: defaultdict[int, set[int]] = defaultdict(set)
    for part in _parts(ids):
        rest = session_heads.alias("rest")
        many = select(rest.c.session_id).where(rest.c.key == own.c.key).limit(1).offset(_FAMILY).scalar_subquery()
        same = (
            select(own.c.session_id, other.c.session_id)
            .where(own.c.session_id.in_(part), other.c.key == own.c.key, other.c.session_id != own.c.session_id)
            .where(many.is_(None))
            .distinct()
        )
        for number, like in [*connection.execute(same), *_named_alike(connection, part)]:
            alike[number].add(like)
            alike[like].add(number)
    return alike


def _named_alike(connection: Connection, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of these and other sessions of one name, of which one is empty: a copy from before its first message."""
    row = sessions.c
    about = select(row.id, row.log_id, row.agent, row.source_id, (row.messages + row.replayed_messages).label("all"))
    own: defaultdict[str, dict[str, list[Any]]] = defaultdict(dict)
    for one in connection.execute(about.where(row.id.in_(ids))):
        own[one.agent].setdefault(one.source_id, []).append(one)
    for agent, names in own.items():
        for some in _parts(names):
            for other in connection.execute(about.where(row.agent == agent, row.source_id.in_(some))):
                for one in names[other.source_id]:
                    if one.log_id != other.log_id and not (one.all and other.all):
                        yield one.id, other.id


def _is_empty(session: Any) -> tuple[Any, ...]:
    of_it = select(usage_events.c.place).where(usage_events.c.session_id == session.c.id)
    return session.c.messages == 0, session.c.replayed_messages == 0, ~of_it.exists()


def _sharing(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Other sessions that tell of something that these tell of."""
    return {*_families(connection, ids), *_with_same_requests(connection, ids)}.difference(ids)


def _with_same_requests(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Other sessions that tell of a request that these tell of."""
    own, other = usage_events.alias("own"), usage_events.alias("other")
    found: set[int] = set()
    for part in _parts(ids):
        same = (
            select(other.c.session_id)
            .where(own.c.session_id.in_(part), other.c.key == own.c.key, other.c.session_id != own.c.session_id)
            .distinct()
        )
        found.update(connection.execute(same).scalars())
    return found


def count_once(connection: Connection, new: Sequence[int], others: Collection[int] = ()) -> list[int]:
    """Find what these sessions share with others, and let each message, call and request count in one of them.

    others: sessions that shared something with what is not there any more.
    Which one does not depend on the order in which logs were read. Gives the sessions that count differently now.
    """
    ids = [*new, *sorted(others)]
    alike = _families(connection, ids)
    changed: dict[int, None] = {}
    left = dict.fromkeys(number for number in ids if number in alike)
    while left:
        family = {next(iter(left))}
        grown = True
        while grown:
            near = set().union(*(alike[number] for number in family)) - family
            more = _families(connection, sorted(near))
            for number, others in more.items():
                alike[number] |= others
            grown = bool(near)
            family |= near
            if len(family) > _FAMILY:
                break
        for number in family:
            left.pop(number, None)
        changed.update(dict.fromkeys(_count_family(connection, family)))
    # A session alone had its rows counted when they were made; one that was in a family may have lost it.
    lonely = [number for number in ids if number not in alike]
    for part in _parts(lonely):
        was = select(sessions.c.id).where(
            sessions.c.id.in_(part), or_(sessions.c.replayed_messages > 0, sessions.c.copy_of.is_not(None))
        )
        for number in connection.execute(was).scalars().all():
            changed.update(dict.fromkeys(_count_family(connection, {number})))
    sharing = _with_same_requests(connection, ids)
    touched = dict.fromkeys([*changed, *sorted(others), *(ids if sharing else ()), *sorted(sharing)])
    for number in _share_requests(connection, list(touched)):
        changed.setdefault(number)
    for number in changed:
        sum_up_again(connection, number)
    return list(changed)


def _count_family(connection: Connection, family: set[int]) -> list[int]:
    """Mark what each session of a family repeats of those before it; those for which that has changed."""
    seen: dict[int, int] = {}
    last_key: dict[int, int] = {}
    names: dict[tuple[str, str], int] = {}
    changed = []
    for member in _in_order(connection, family):
        keys = connection.execute(
            select(messages.c.ordinal, messages.c.key)
            .where(messages.c.session_id == member.id)
            .order_by(messages.c.ordinal)
        ).all()
        name = (member.agent, member.source_id)
        replayed = _replayed([(ordinal, key) for ordinal, key in keys], seen, name in names)
        keyed = [key for _, key in keys if key is not None]
        # It comes from the session that has the last of what it repeats: that one may have repeated the rest itself.
        last = next((key for ordinal, key in reversed(keys) if ordinal in replayed and key is not None), None)
        giver = None if last is None else seen[last]
        is_copy = bool(keyed) and len(replayed) == len(keys)
        nothing = select(sessions.c.id).where(sessions.c.id == member.id, *_is_empty(sessions))
        if not keys and connection.execute(nothing).first() is not None:
            giver = names.get(name)
            is_copy = giver is not None
        names.setdefault(name, member.id)
        relation = None
        if giver is not None and not is_copy and member.parent_source_id is None:
            ended = {key for ordinal, key in keys if ordinal in replayed}
            relation = "continuation" if last_key.get(giver) in ended else "fork"
        if _mark(connection, member, replayed, giver if is_copy else None, giver if relation else None, relation):
            changed.append(member.id)
        if not is_copy:
            if keyed:
                last_key[member.id] = keyed[-1]
            for key in keyed:
                seen.setdefault(key, member.id)
    return changed


def _replayed(keys: Sequence[tuple[int, int | None]], seen: dict[int, int], is_named_alike: bool) -> set[int]:
    """Ordinals of the messages that stand in an earlier session.

    A request's identity is proof. The same text at the same moment is, beside another message that is known: two
    sub-agents that were started together with one prompt are no replay of each other.
    is_named_alike: an earlier session has this one's name, so that a single message is proof as well.
    """
    keyed = [(ordinal, key) for ordinal, key in keys if key is not None]
    known = [key in seen for _, key in keyed]
    everything = all(known) and (is_named_alike or len(keyed) > 1)
    replayed: set[int] = set()
    for at, (ordinal, key) in enumerate(keyed):
        beside = (at > 0 and known[at - 1]) or (at + 1 < len(known) and known[at + 1])
        if known[at] and (everything or beside or is_request_key(key)):
            replayed.add(ordinal)
    # What has no key of its own goes with what stands around it.
    before = True
    waiting: list[int] = []
    for number, name in keys:
        if name is None:
            if before:
                waiting.append(number)
            continue
        before = number in replayed
        if before:
            replayed.update(waiting)
        waiting = []
    if before and replayed and everything:
        replayed.update(waiting)
    return replayed


def _in_order(connection: Connection, family: set[int]) -> list[_Member]:
    """The sessions in the order in which they count: the first to begin, then the first to end; of one and the same
    session in several logs, the fullest."""
    found: list[_Member] = []
    for part in _parts(sorted(family)):
        row = sessions.c
        query = (
            select(row.id, row.agent, row.source_id, row.started_us, row.ended_us, row.parent_source_id, logs.c.path)
            .add_columns(row.messages + row.replayed_messages)
            .join(logs, logs.c.id == row.log_id)
            .where(row.id.in_(part))
        )
        for number, agent, source_id, started, ended, parent, path, total in connection.execute(query):
            began = (started if started is not None else 2**62, ended if ended is not None else 2**62)
            found.append(_Member(number, agent, source_id, began, total, path, parent))
    firsts: dict[tuple[str, str], tuple[int, int]] = {}
    for one in found:
        name = (one.agent, one.source_id)
        firsts[name] = min(one.began, firsts.get(name, one.began))
    return sorted(
        found,
        key=lambda one: (firsts[one.agent, one.source_id], one.agent, one.source_id, -one.total, one.path),
    )


def _mark(
    connection: Connection,
    member: _Member,
    replayed: set[int],
    copy_of: int | None,
    parent_id: int | None,
    relation: str | None,
) -> bool:
    """Note what a session repeats, and of whom; whether that is news."""
    of_it = messages.c.session_id == member.id
    was = set(connection.execute(select(messages.c.ordinal).where(of_it, messages.c.is_replayed)).scalars())
    row = connection.execute(
        select(sessions.c.copy_of, sessions.c.parent_id, sessions.c.relation).where(sessions.c.id == member.id)
    ).one()
    links: dict[str, Any] = {"copy_of": copy_of}
    if member.parent_source_id is None:
        links |= {"parent_id": parent_id, "relation": relation}
    if was == replayed and all(getattr(row, name) == value for name, value in links.items()):
        return False
    values = {**links, "replayed_messages": len(replayed)}
    # Until its sums are made anew, so that no constraint sees more messages than there are.
    connection.execute(update(sessions).where(sessions.c.id == member.id).values(**values))
    for flag, ordinals in ((False, was - replayed), (True, replayed - was)):
        for part in _parts(sorted(ordinals)):
            marked = update(messages).where(of_it, messages.c.ordinal.in_(part)).values(is_replayed=flag)
            connection.execute(marked)
    _recount_calls(connection, member.id, replayed)
    return True


def _recount_calls(connection: Connection, number: int, replayed: set[int]) -> None:
    """Note which calls of a session count, and the files that those changed."""
    replays = Replays()
    counted: list[dict[str, Any]] = []
    changes: list[tuple[Any, ...]] = []
    for message in stored_messages(connection, number, whole=True):
        for call in message.calls:
            is_counted = not replays.is_one(call) and message.ordinal not in replayed
            counted.append({"ordinal": message.ordinal, "index": call.index, "counted": is_counted})
            if is_counted:
                paths = enumerate(changed_files(call))
                changes += [(number, message.ordinal, call.index, place, path) for place, path in paths]
    connection.execute(delete(file_changes).where(file_changes.c.session_id == number))
    insert_rows(connection, file_changes, changes)
    if counted:
        place = and_(
            tool_calls.c.session_id == number,
            tool_calls.c.message_ordinal == bindparam("ordinal"),
            tool_calls.c.call_index == bindparam("index"),
        )
        connection.execute(update(tool_calls).where(place).values(is_counted=bindparam("counted")), counted)


def _share_requests(connection: Connection, ids: Sequence[int]) -> list[int]:
    """Let each request count in one session: the one that tells most of it. Gives those for which that has changed."""
    request, own = usage_events.alias(), usage_events.alias("own")
    rows: dict[tuple[int, int], tuple[Any, ...]] = {}
    for part in _parts(ids):
        query = (
            select(
                request.c.session_id,
                request.c.place,
                request.c.key,
                request.c.output_tokens,
                request.c.is_counted,
                sessions.c.copy_of,
                sessions.c.started_us,
                sessions.c.ended_us,
                sessions.c.source_id,
                logs.c.path,
                messages.c.is_replayed,
            )
            .join(sessions, sessions.c.id == request.c.session_id)
            .join(logs, logs.c.id == sessions.c.log_id)
            .outerjoin(
                messages,
                and_(messages.c.session_id == request.c.session_id, messages.c.ordinal == request.c.message_ordinal),
            )
            .where(
                or_(
                    request.c.session_id.in_(part),
                    request.c.key.in_(select(own.c.key).where(own.c.session_id.in_(part), own.c.key.is_not(None))),
                )
            )
        )
        for row in connection.execute(query):
            rows[row.session_id, row.place] = tuple(row)
    best: dict[int, tuple[Any, ...]] = {}
    for number, place, key, output, _, copy_of, started, ended, source_id, path, _ in rows.values():
        if key is not None and copy_of is None:
            rank = (-output, started or 0, ended or 0, source_id, path, number, place)
            best[key] = min(rank, best.get(key, rank))
    changed: dict[int, None] = {}
    updates = []
    for number, place, key, _, was, copy_of, _, _, _, _, replayed in rows.values():
        counts = copy_of is None and (best[key][-2:] == (number, place) if key is not None else not replayed)
        if counts != bool(was):
            updates.append({"number": number, "at": place, "counts": counts})
            changed.setdefault(number)
    if updates:
        where = and_(usage_events.c.session_id == bindparam("number"), usage_events.c.place == bindparam("at"))
        connection.execute(update(usage_events).where(where).values(is_counted=bindparam("counts")), updates)
    return list(changed)


def sum_up_again(connection: Connection, number: int) -> None:
    """Make the sums of a session anew from its rows, and let it be graded again."""
    row = connection.execute(select(sessions).where(sessions.c.id == number)).one()
    named = msgspec.json.decode(row.models, type=list[str])
    answered = select(messages.c.model).where(messages.c.session_id == number).distinct()
    answering = set(connection.execute(answered).scalars())
    # Of the models that answer in it, those of its own messages are found there.
    models = tuple(model for model in named if model not in answering)
    session = msgspec.structs.replace(stored_session(connection, row), models=models)
    request = usage_events.c
    counted = connection.execute(
        select(*[column for column in usage_events.c if column.name != "session_id"])
        .where(request.session_id == number, request.is_counted)
        .order_by(request.place)
    )
    usage = [UsageRow(*values) for values in counted]
    sums = add_up(
        session,
        number,
        stored_messages(connection, number),
        stored_prompts(connection, number),
        usage,
        repeated_calls(connection, number),
        _rounds(connection, session, number),
    )
    for table in _SUMS:
        connection.execute(delete(table).where(table.c.session_id == number))
    for table, rows in zip(_SUMS, sums.rows, strict=True):
        insert_rows(connection, table, rows)
    connection.execute(update(sessions).where(sessions.c.id == number).values(is_stale=True, **sums.columns))
    forget_reports(connection, number)


def _rounds(connection: Connection, session: Session, number: int) -> dict[str, Rounds]:
    """What of a session's own turns was said before, by model."""
    folder, replays = RoundsFolder(session.events), Replays()
    first = 0
    while part := stored_turns(connection, _AT_A_TIME, messages.c.session_id == number, messages.c.ordinal >= first):
        for turn in part:
            calls = [call for call in turn.message.calls if not replays.is_one(call)]
            folder.add(turn.message, calls, turn.said, turn.is_own)
        first = part[-1].message.ordinal + 1
    return folder.by_model


class StoredTurn(NamedTuple):
    """A message as a `RoundsFolder` takes it, and nothing else of it."""

    message: Message
    calls: Sequence[ToolCall]
    """Those that count."""
    said: str
    is_own: bool
    """It does not stand in an earlier session."""


_TOLD = ("ordinal", "role", "author", "notice", "has_image", "model")


def stored_turns(
    connection: Connection, most: int | None, *where: ColumnElement[bool], newest: bool = False
) -> list[StoredTurn]:
    """At most so many messages of a session (None: all), in order; with `newest` the last of them, newest first."""
    turn, call = messages.c, tool_calls.c
    query = (
        select(*(turn[name] for name in _TOLD), turn.session_id, turn.is_sidechain, turn.is_replayed)
        .add_columns(turn.calls, turn.text_bytes, texts.c.digest)
        .outerjoin(texts, texts.c.id == turn.text_id)
        .where(*where)
        .order_by(turn.ordinal.desc() if newest else turn.ordinal)
    )
    rows = connection.execute(query.limit(most)).all()
    calls: dict[int, list[tuple[ToolCall, bool]]] = {row.ordinal: [] for row in rows}
    made = (
        select(call.message_ordinal, call.call_index, call.name, call.status, call.call_id, call.input_hash)
        .add_columns(call.is_counted, texts.c.digest)
        .outerjoin(texts, texts.c.id == call.result_id)
        .order_by(call.message_ordinal, call.call_index)
    )
    for part in _parts(row.ordinal for row in rows if row.calls):
        of_these = made.where(call.session_id == rows[0].session_id, call.message_ordinal.in_(part))
        for ordinal, index, name, status, call_id, hashed, counts, answer in connection.execute(of_these):
            result = None if answer is None else Body("", 0, answer)
            one = ToolCall(ordinal, index, name, "other", CallStatus(status), "", call_id, None, hashed, result=result)
            calls[ordinal].append((one, counts))
    return [
        StoredTurn(
            Message(
                **{name: getattr(row, name) for name in _TOLD},
                sidechain=row.is_sidechain,
                calls=tuple(one for one, _ in calls[row.ordinal]),
            ),
            [one for one, counts in calls[row.ordinal] if counts],
            "" if row.digest is None else spoken_as(row.digest, row.text_bytes),
            not row.is_replayed,
        )
        for row in rows
    ]


def stored_prompts(connection: Connection, number: int, first: int = 0) -> dict[int, PromptFacts]:
    """Facts of a session's own prompts with text, by ordinal, from `first` on."""
    prompt = messages.c
    own = (prompt.session_id == number, prompt.ordinal >= first, ~prompt.is_replayed)
    query = select(
        prompt.ordinal, prompt.prompt_short, prompt.prompt_no_code, prompt.prompt_greeting, prompt.prompt_digest
    ).where(*own, prompt.prompt_version.is_not(None))
    return {ordinal: PromptFacts(*facts) for ordinal, *facts in connection.execute(query)}


def _parts(values: Iterable[T]) -> Iterator[list[T]]:
    listed = list(values)
    for at in range(0, len(listed), _AT_A_TIME):
        yield listed[at : at + _AT_A_TIME]
