"""Adding to a session that went on, at a cost that does not grow with what is kept of it.

Only the rows of the messages that are told anew are replaced; sums are moved by the difference. Where that could be
wrong (something of the session stands in another one, a request or a call is repeated) nothing is done, and the log is
read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Table, and_, delete, exists, func, insert, or_, select, update

from demerit.model import PARSE_EPOCH, Body, CallStatus, Event, Message, ToolCall
from demerit.parsers.records import Resumed
from demerit.quality.assess import Replays
from demerit.store.engines import insert_rows
from demerit.store.filters import microseconds
from demerit.store.grading import stored_messages
from demerit.store.projection import COST_DIGITS, HEADS, Projection, Sums, UsageRow, add_up
from demerit.store.rounds import Rounds, RoundsFolder, answers_of
from demerit.store.schema import (
    events,
    file_changes,
    messages,
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
from demerit.store.texts import TEXT_SPACE, plain
from demerit.store.writer import LogRow, StoredTurn, forget_texts, keep_texts, stored_prompts, stored_turns

_CALLS_LOOKED_AT = 2000
"""Earlier calls of which a new one may be a repetition: as far back as a parser remembers."""
_ADDITIVE = (
    "requests",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_usd",
    "unpriced_requests",
    "messages",
    "user_messages",
)
_STRINGS = msgspec.json.Decoder(tuple[str, ...])


def grow(
    connection: Connection, log_id: int, log: LogRow, told: Resumed, whole: Callable[[Body, int], str | None]
) -> int | None:
    """Add what `told` says to the one session of a log; its id. None when that log has to be read whole.

    whole: as `Projection` takes it.
    """
    kept = connection.execute(select(sessions).where(sessions.c.log_id == log_id).limit(2)).all()
    if len(kept) != 1 or not _stands_alone(connection, kept[0], told):
        return None
    row = kept[0]
    number: int = row.id
    tail = _Tail(connection, row.id, told.first, told.loose_kept)
    base = number * TEXT_SPACE
    last = connection.execute(
        select(func.max(texts.c.id)).where(texts.c.id >= base, texts.c.id < base + TEXT_SPACE)
    ).scalar()
    known = _KnownTexts(connection, number)
    next_text = 0 if last is None else last - base + 1
    turns = tail.turns()
    replays = Replays()
    wanted = [(turn.message, turn.calls) for turn in turns]
    wanted += [(one, [call for call in one.calls if not replays.is_one(call)]) for one in told.session.messages]
    past = _Past(connection, number, told, _batches_of(wanted))
    rounds = past.folder(told.session.events)
    new = Projection(number, told.session, whole, known, next_text, None, None, log.path, tail.after_us, rounds)
    if _repeats(connection, number, told, new):
        return None
    new.prepare()
    before = past.folder(tail.compactions(told.events_kept))
    for turn in turns:
        before.add(turn.message, turn.calls, turn.said)
    old = tail.sums(told, before.by_model)
    tail.forget(told.events_kept)
    _insert(connection, number, told, new)
    forget_texts(connection, sorted(tail.text_ids - new.texts.used))
    _shift_hours(connection, number, old, new.sums)
    _shift_files(connection, number, old, new.sums)
    models = _shift_defects(connection, number, old, new.sums)
    _shift_tools(connection, number, old, new.sums, told)
    connection.execute(
        update(sessions).where(sessions.c.id == number).values(**_columns(connection, row, log, told, old, new, models))
    )
    return number


def _stands_alone(connection: Connection, row: Row[Any], told: Resumed) -> bool:
    """Whether the session is as the parsers of this version read it, and nothing of it is in another one."""
    session = told.session
    same = (row.agent, row.source_id) == (session.agent, plain(session.source_id))
    parent = None if session.parent_source_id is None else plain(session.parent_source_id)
    if not same or (row.parent_source_id, row.relation) != (parent, session.relation):
        return False
    if row.epoch != PARSE_EPOCH or row.replayed_messages or row.copy_of is not None:
        return False
    # Its first messages, by which others find it, must be among those that stay.
    head = (
        select(messages.c.ordinal)
        .where(messages.c.session_id == row.id, messages.c.key.is_not(None))
        .order_by(messages.c.ordinal)
        .limit(1)
        .offset(HEADS - 1)
    )
    last_head = connection.execute(head).scalar()
    if last_head is None or last_head >= told.first:
        return False
    own, other = session_heads.alias(), session_heads.alias()
    shared = select(own.c.key).where(
        own.c.session_id == row.id, exists().where(other.c.key == own.c.key, other.c.session_id != row.id)
    )
    has_own_requests = select(usage_events.c.place).where(
        usage_events.c.session_id == row.id, usage_events.c.message_ordinal < told.first
    )
    return (
        connection.execute(shared.limit(1)).first() is None
        and connection.execute(has_own_requests.limit(1)).first() is not None
    )


def _repeats(connection: Connection, number: int, told: Resumed, new: Projection) -> bool:
    """Whether a new request or call is told in another place already."""
    keys = [row.key for row in new.usage if row.key is not None]
    request = usage_events.c
    elsewhere = or_(request.session_id != number, request.message_ordinal < told.first)
    for at in range(0, len(keys), 500):
        if connection.execute(
            select(request.place).where(request.key.in_(keys[at : at + 500]), elsewhere).limit(1)
        ).first():
            return True
    ids = {plain(call.call_id) for message in told.session.messages for call in message.calls if call.call_id}
    if not ids:
        return False
    call = tool_calls.c
    earlier = (
        select(call.call_id)
        .where(call.session_id == number, call.message_ordinal < told.first)
        .order_by(call.message_ordinal.desc(), call.call_index.desc())
        .limit(_CALLS_LOOKED_AT)
    )
    return not ids.isdisjoint(connection.execute(earlier).scalars())


class _KnownTexts(Mapping[str, int]):
    """Ids of a session's texts by digest, asked for one by one: a tail has few of them."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def __getitem__(self, digest: str) -> int:
        query = select(texts.c.id).where(texts.c.session_id == self._number, texts.c.digest == digest)
        found = self._connection.execute(query.limit(1)).scalar()
        if found is None:
            raise KeyError(digest)
        return int(found)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Tail:
    """The rows of a session's last messages as they are kept: from `first` on."""

    def __init__(self, connection: Connection, number: int, first: int, loose_kept: int) -> None:
        self._connection = connection
        self._number = number
        self._first = first
        self._of_messages = and_(messages.c.session_id == number, messages.c.ordinal >= first)
        self._of_calls = and_(tool_calls.c.session_id == number, tool_calls.c.message_ordinal >= first)
        request = usage_events.c
        loose = (
            select(request.place)
            .where(request.session_id == number, request.message_ordinal.is_(None))
            .order_by(request.place)
            .offset(loose_kept)
        )
        places = list(connection.execute(loose.limit(10_000)).scalars())
        self._of_requests = and_(
            request.session_id == number, or_(request.message_ordinal >= first, request.place.in_(places))
        )
        before = (
            select(messages.c.at_us)
            .where(messages.c.session_id == number, messages.c.ordinal < first, messages.c.at_us.is_not(None))
            .order_by(messages.c.ordinal.desc())
        )
        self.after_us: int | None = connection.execute(before.limit(1)).scalar()
        """The time of the last message before them."""
        self.text_ids = self._texts()
        """Of texts that stand nowhere before them."""

    def _texts(self) -> set[int]:
        found: set[int | None] = set()
        for pair in self._connection.execute(
            select(messages.c.text_id, messages.c.thinking_id).where(self._of_messages)
        ):
            found.update(pair)
        for pair in self._connection.execute(
            select(tool_calls.c.input_id, tool_calls.c.result_id).where(self._of_calls)
        ):
            found.update(pair)
        ids = sorted(one for one in found if one is not None)
        own: set[int] = set()
        for at in range(0, len(ids), 500):
            here = texts.c.message_ordinal >= self._first
            query = select(texts.c.id).where(texts.c.id.in_(ids[at : at + 500]), here)
            own.update(self._connection.execute(query).scalars())
        return own

    def turns(self) -> list[StoredTurn]:
        return stored_turns(self._connection, None, self._of_messages)

    def compactions(self, events_kept: int) -> list[Event]:
        """Those that are told anew."""
        told = (events.c.session_id == self._number, events.c.place >= events_kept, events.c.kind == "compaction")
        ordinals = self._connection.execute(select(events.c.message_ordinal).where(*told)).scalars()
        return [Event("compaction", message_ordinal=ordinal) for ordinal in ordinals]

    def sums(self, told: Resumed, rounds: Mapping[str, Rounds]) -> Sums:
        connection = self._connection
        columns = [column for column in usage_events.c if column.name != "session_id"]
        rows = connection.execute(
            select(*columns).where(self._of_requests, usage_events.c.is_counted).order_by(usage_events.c.place)
        )
        uncounted = select(tool_calls.c.message_ordinal, tool_calls.c.call_index).where(
            self._of_calls, ~tool_calls.c.is_counted
        )
        return add_up(
            msgspec.structs.replace(told.session, messages=(), models=()),
            self._number,
            stored_messages(connection, self._number, first=self._first),
            stored_prompts(connection, self._number, self._first),
            [UsageRow(*row) for row in rows],
            {(row[0], row[1]) for row in connection.execute(uncounted)},
            rounds,
            self.after_us,
        )

    def forget(self, events_kept: int) -> None:
        number, first = self._number, self._first
        changed = and_(file_changes.c.session_id == number, file_changes.c.message_ordinal >= first)
        told = and_(events.c.session_id == number, events.c.place >= events_kept)
        for table, of_tail in (
            (messages, self._of_messages),
            (tool_calls, self._of_calls),
            (usage_events, self._of_requests),
            (file_changes, changed),
            (events, told),
        ):
            self._connection.execute(delete(table).where(of_tail))


def _insert(connection: Connection, number: int, told: Resumed, new: Projection) -> None:
    for part in new.parts():
        insert_rows(connection, messages, part.messages)
        insert_rows(connection, tool_calls, part.calls)
        insert_rows(connection, file_changes, part.changes)
        keep_texts(connection, number, part.texts)
    last = select(func.max(usage_events.c.place)).where(usage_events.c.session_id == number)
    next_place = connection.execute(last).scalar_one() + 1  # some stand before the tail, or it would be read whole
    requests = [(number, row.place + next_place, *msgspec.structs.astuple(row)[1:]) for row in new.usage]
    insert_rows(connection, usage_events, requests)
    later = [(number, place + told.events_kept, *rest) for _, place, *rest in new.event_rows()]
    insert_rows(connection, events, later)


# --- what came before, as far as it tells of repeats -----------------------------------------------------------

_LONGEST_ROUND = 4
_TEXTS_LOOKED_AT = 100  # more than the window in which a text repeats
_AT_A_TIME = 16
_OF_THE_MODEL = (messages.c.role == "assistant", messages.c.author == "agent", messages.c.notice.is_(None))

_Batch = tuple[tuple[str, str], ...]
"""The calls of a turn, each a name and the hash of its input, sorted."""


class _Past:
    """Of a session's messages before the told ones, those without which a `RoundsFolder` would judge these otherwise.

    That is where the runs, rounds and texts stand that the newest turns are in, and when each of the told batches came
    last: few messages, however long the session is.
    """

    def __init__(self, connection: Connection, number: int, told: Resumed, wanted: Iterable[_Batch]) -> None:
        """wanted: the told batches, and those that were told in their place until now."""
        self._connection = connection
        self._number = number
        self._first = told.first
        kept = (events.c.session_id == number, events.c.place < told.events_kept, events.c.kind == "compaction")
        compacted = connection.execute(select(func.max(events.c.message_ordinal)).where(*kept)).scalar()
        self._begin = 0 if compacted is None else compacted + 1
        """What came before it was compacted away."""
        between, cleared = self._between()
        after = between[-1].message.ordinal if between else self._begin - 1
        batches = self._batches(after)
        is_text = (messages.c.calls == 0, messages.c.text_id.is_not(None), messages.c.ordinal > cleared)
        said = self._read(_TEXTS_LOOKED_AT, *_OF_THE_MODEL, *is_text)
        self._recent = [*between, *reversed(said), *reversed(batches)]
        known = set(_batches_of((turn.message, turn.calls) for turn in batches))
        before = batches[-1].message.ordinal if batches else self._first
        self._earlier = self._last_of([batch for batch in dict.fromkeys(wanted) if batch not in known], before)

    def folder(self, told: Iterable[Event]) -> RoundsFolder:
        """One that has read the past. told: the events since."""
        folder = RoundsFolder(told)
        for turn in self._earlier:
            folder.add(turn.message, turn.calls, turn.said, counts=False)
        folder.interrupt()
        for turn in self._recent:
            folder.add(turn.message, turn.calls, turn.said, counts=False)
        return folder

    def _between(self) -> tuple[list[StoredTurn], int]:
        """What was said to the model last, as far back as tells what is a nudge; and the ordinal of the last of it that
        is none: after it any text is new."""
        found: list[StoredTurn] = []
        cleared = -1
        later: StoredTurn | None = None
        for turn in self._back(messages.c.role != "assistant"):
            message = turn.message
            if message.notice == "compaction_summary":
                self._begin = message.ordinal
                # Nothing before it is read here: it need not put an end to that.
                turn = turn._replace(message=msgspec.structs.replace(message, notice=None))
            found.insert(0, turn)
            if message.role == "system":
                cleared = max(cleared, message.ordinal)
                continue
            if later is not None and (later.message.has_image or message.has_image or later.said != turn.said):
                cleared = max(cleared, later.message.ordinal)
            later = turn
            if cleared >= 0 or self._begin == message.ordinal:
                break
        # The first of all is no nudge either.
        return found, cleared if later is None else max(cleared, later.message.ordinal)

    def _batches(self, after: int) -> list[StoredTurn]:
        """The newest turns with calls behind a message, newest first: as far back as tells which run and which rounds
        they are in."""
        found: list[StoredTurn] = []
        unsure = set(range(1, _LONGEST_ROUND + 1))
        for turn in self._back(*_OF_THE_MODEL, messages.c.calls > 0, messages.c.ordinal > after):
            if not turn.calls:
                continue
            found.append(turn)
            batch = _batch_of(turn.calls)
            for period in unsure.intersection(range(1, len(found))):
                other = found[-1 - period]
                is_same = batch is not None and batch == _batch_of(other.calls)
                if not is_same or (period > 1 and answers_of(turn.calls) != answers_of(other.calls)):
                    unsure.discard(period)
            if not unsure:
                break
        return found

    def _last_of(self, batches: Sequence[_Batch], before: int) -> list[StoredTurn]:
        """Where each of the batches came last before a message, in order."""
        missing: dict[tuple[str, str], set[_Batch]] = {}
        for batch in batches:
            missing.setdefault(batch[0], set()).add(batch)
        found: list[StoredTurn] = []
        call = tool_calls.c
        earlier = (
            *(call.session_id == self._number, call.message_ordinal >= self._begin, call.message_ordinal < before),
            call.is_counted,
        )
        inputs = list({hashed for _, hashed in missing})
        for at in range(0, len(inputs), 500):
            query = (
                select(call.message_ordinal, call.name, call.input_hash)
                .where(*earlier, call.input_hash.in_(inputs[at : at + 500]))
                .order_by(call.message_ordinal.desc())
            )
            for ordinal, name, hashed in self._connection.execute(query):
                wanted = missing.get((name, hashed))
                if not wanted:
                    continue
                for turn in self._read(1, *_OF_THE_MODEL, messages.c.ordinal == ordinal):
                    made = _batch_of(turn.calls)
                    if made in wanted:
                        wanted.discard(made)
                        found.append(turn)
        found.sort(key=lambda turn: turn.message.ordinal)
        if found:
            summary = (messages.c.notice == "compaction_summary", messages.c.ordinal > found[0].message.ordinal)
            for turn in self._read(1, *summary):
                return [one for one in found if one.message.ordinal > turn.message.ordinal]
        return found

    def _back(self, *where: ColumnElement[bool]) -> Iterator[StoredTurn]:
        """The messages of that kind, newest first."""
        last = self._first
        while part := self._read(_AT_A_TIME, *where, messages.c.ordinal < last):
            yield from part
            last = part[-1].message.ordinal

    def _read(self, most: int, *where: ColumnElement[bool]) -> list[StoredTurn]:
        """The newest messages of that kind in the session's own conversation, newest first."""
        turn = messages.c
        ours = (turn.session_id == self._number, turn.ordinal >= self._begin, turn.ordinal < self._first)
        return stored_turns(self._connection, most, *ours, ~turn.is_sidechain, *where, newest=True)


def _batches_of(turns: Iterable[tuple[Message, Sequence[ToolCall]]]) -> list[_Batch]:
    return [batch for message, calls in turns if not message.sidechain and (batch := _batch_of(calls))]


def _batch_of(calls: Sequence[ToolCall]) -> _Batch | None:
    """None where it is equal to no other."""
    if any(call.input_hash is None for call in calls):
        return None
    return tuple(sorted((plain(call.name), call.input_hash or "") for call in calls)) or None


# --- moving the sums -------------------------------------------------------------------------------------------


_Moves = dict[tuple[Any, ...], list[Any]]


def _moves(old: Sequence[tuple[Any, ...]], new: Sequence[tuple[Any, ...]], keys: int) -> _Moves:
    """By key (the `keys` columns behind the session's id), what is to be added to the columns behind it."""
    found: _Moves = {}
    for sign, rows in ((-1, old), (1, new)):
        for row in rows:
            moves = found.setdefault(tuple(row[1 : 1 + keys]), [None] * (len(row) - 1 - keys))
            for at, value in enumerate(row[1 + keys :]):
                if value is not None:
                    moves[at] = (moves[at] or 0) + sign * value
    return found


def _shift(
    connection: Connection,
    table: Table,
    number: int,
    moves: _Moves,
    finish: Callable[[dict[str, Any]], dict[str, Any] | None],
) -> None:
    """Add to the rows of a table by key. finish: gets a row's new values; None: the row goes."""
    names = [column.name for column in table.c][1:]
    for key, values in moves.items():
        given = dict(zip(names, key, strict=False))
        of_row = and_(table.c.session_id == number, *(table.c[name] == value for name, value in given.items()))
        row = connection.execute(select(table).where(of_row)).first()
        before = {name: (getattr(row, name) if row is not None else None) for name in names[len(key) :]}
        after = finish(
            {
                name: None if was is None and move is None else (was or 0) + (move or 0)
                for (name, was), move in zip(before.items(), values, strict=True)
            }
        )
        if after is None:
            connection.execute(delete(table).where(of_row))
        elif row is None:
            connection.execute(insert(table).values(session_id=number, **given, **after))
        elif after != before:
            connection.execute(update(table).where(of_row).values(**after))


def _shift_hours(connection: Connection, number: int, old: Sums, new: Sums) -> None:
    def finish(row: dict[str, Any]) -> dict[str, Any] | None:
        used = row["requests"] + row["unpriced_requests"] + row["input_tokens"] + row["output_tokens"]
        if not row["messages"] and not used:
            return None
        row["cost_usd"] = _cost(row["cost_usd"], row["requests"], row["unpriced_requests"])
        return row

    _shift(connection, session_hours, number, _moves(old.rows[0], new.rows[0], 2), finish)


def _cost(cost: float | None, requests: int, unpriced: int) -> float | None:
    return round(cost, COST_DIGITS) if cost is not None and (requests > unpriced or cost > 1e-9) else None


def _shift_files(connection: Connection, number: int, old: Sums, new: Sums) -> None:
    moves = _moves(old.rows[2], new.rows[2], 1)
    _shift(connection, session_files, number, moves, lambda row: row if row["changes"] else None)


def _shift_defects(connection: Connection, number: int, old: Sums, new: Sums) -> dict[str, int]:
    """The session's answers by model, afterwards."""
    moves = _moves(old.rows[3], new.rows[3], 1)
    _shift(connection, session_defects, number, moves, lambda row: row if row["responses"] or row["calls"] else None)
    answers = select(session_defects.c.model, session_defects.c.responses).where(session_defects.c.session_id == number)
    return {model: responses for model, responses in connection.execute(answers) if model}


def _shift_tools(connection: Connection, number: int, old: Sums, new: Sums, told: Resumed) -> None:
    """Few rows, which say of the whole session whether its calls were judged: they are written anew."""
    columns = [column.name for column in session_tools.c]
    counted = columns[columns.index("calls") : columns.index("is_judged")]
    at = columns.index("calls")
    query = select(session_tools).where(session_tools.c.session_id == number)
    rows = {(row.tool, row.model): list(row) for row in connection.execute(query)}
    for sign, sums in ((-1, old), (1, new)):
        for moved in sums.rows[1]:
            row = rows.setdefault((moved[1], moved[2]), [*moved[:at], *(0 for _ in counted), True, True])
            for place in range(at, at + len(counted)):
                row[place] += sign * moved[place]
    left = {key: row for key, row in rows.items() if row[at]}
    total = sum(row[at] for row in left.values())
    silent, pending = (
        sum(row[columns.index(status)] for row in left.values()) for status in (CallStatus.UNKNOWN, CallStatus.PENDING)
    )
    judged = silent * 2 <= total - pending and "statuses" not in told.session.untold
    firsts: dict[str, str] = {}
    for tool, model in left:
        firsts.setdefault(tool, model)
    connection.execute(delete(session_tools).where(session_tools.c.session_id == number))
    insert_rows(
        connection,
        session_tools,
        [(*row[:-2], judged, firsts[tool] == model) for (tool, model), row in left.items()],
    )


def _columns(
    connection: Connection,
    row: Row[Any],
    log: LogRow,
    told: Resumed,
    old: Sums,
    new: Projection,
    answers: dict[str, int],
) -> dict[str, Any]:
    session = told.session
    values: dict[str, Any] = {}
    for name in _ADDITIVE:
        before, taken, added = getattr(row, name), old.columns[name], new.sums.columns[name]
        told_ever = before is not None or added is not None
        values[name] = (before or 0) - (taken or 0) + (added or 0) if told_ever else None
    values["cost_usd"] = _cost(values["cost_usd"], values["requests"], values["unpriced_requests"])
    partial = new.sums.columns["output_is_partial"]
    if row.output_is_partial and not partial:
        # Rarely: most often it is the last answer that was not whole yet.
        request = usage_events.c
        some = select(request.place).where(request.session_id == row.id, request.is_partial, request.is_counted)
        partial = connection.execute(some.limit(1)).first() is not None
    models = dict.fromkeys((*_STRINGS.decode(row.models), *_STRINGS.decode(new.sums.columns["models"])))
    named = {
        name: None if (value := getattr(session, name)) is None else plain(value)
        for name in ("cwd", "branch", "agent_version")
    }
    ended = microseconds(session.ended)
    return {
        **named,
        **values,
        "output_is_partial": partial,
        "title": None if (title := session.title or row.title) is None else plain(title),
        "model": max(answers, key=lambda model: answers[model]) if answers else row.model,
        "models": msgspec.json.encode(list(models)).decode(),
        "started_us": microseconds(session.started),
        "ended_us": ended,
        "last_us": log.modified_us if ended is None else ended,
        "is_terminal": session.terminal,
        "untold": msgspec.json.encode(session.untold).decode(),
        "losses": msgspec.json.encode({loss.kind: loss.count for loss in session.losses}).decode(),
        "advice": None,
        "digest": "",
        "generation": log.generation,
        "is_stale": True,
    }
