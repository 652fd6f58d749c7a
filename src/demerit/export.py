"""Sessions, their report cards or their transcripts as a stream of JSON, NDJSON or CSV, without the secrets in them.

JSON is one object: `{"schema", "what", "filter", "redacted", "items"}`; NDJSON is its items alone, one a line. Sessions
come newest first; in every item `id` is the store's number of the session, `source_id` the agent's own name of it.

* `sessions`: the fields of `SessionRow`, and `note`, what a person wrote beside the verdict.
* `reports`: `id`, `agent`, `source_id` and `report`: the card as `demerit grade --format json` has it, or null where
  the session is not measured.
* `transcripts`: one item a message, in order: `id`, `agent`, `source_id` and the fields of `TurnView`. Texts are whole
  as far as they are kept: `text`, `thinking`, and of each call `input` and `result` are strings, and `..._is_cut`
  beside them says that the log has more.

CSV (RFC 4180, UTF-8, a header line) has a row a session, and for transcripts a row a message and one more for each of
its calls. Parts have dotted names (`signals.tool_failures`, `call.input`), lists are JSON in their cell, what is not
measured is empty. A text that begins with `=`, `+`, `-`, `@`, a tab or an end of line, which a spreadsheet would
compute, has an apostrophe before it; control characters become U+FFFD.

No more than a page of rows and the texts of one message or call are in memory, however much there is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, and_, select

from demerit.parsers.records import HEAD_CHARS
from demerit.quality.outcome import Facts
from demerit.quality.report import Context, Hygiene, Report, UsageTotals
from demerit.quality.score import Signals
from demerit.quality.thinking import Thinking
from demerit.redact import redact, redact_value
from demerit.render import encoded
from demerit.store.filters import Filter
from demerit.store.reads import (
    CallView,
    SessionRow,
    TextView,
    TurnView,
    UsageView,
    list_sessions,
    read_report,
    read_text,
    read_transcript,
)
from demerit.store.schema import sessions, verdicts
from demerit.store.texts import TEXT_CHARS, plain

SCHEMA = "demerit.export/1"
"""Raised when a key goes or changes its meaning; a new key keeps it."""

What = Literal["sessions", "reports", "transcripts"]
Form = Literal["json", "ndjson", "csv"]

_PAGE = 100
_WINDOW = 100
_CHUNK_BYTES = 1 << 16
_LAST_WORD_CHARS = 4096
# At which a body was cut: in a log where it cannot be read again, where it has no place of its own, and any.
_CUT_CHARS = frozenset((HEAD_CHARS, 65_536, TEXT_CHARS))


def export_sessions(
    connection: Connection, chosen: Filter, what: What, form: Form, redacted: bool = True
) -> Iterator[bytes]:
    """The chosen sessions in pieces of some 64 KiB, to be written one after the other.

    connection: one that sees a single state, as `Store.reading` gives. redacted: secrets become `[REDACTED:...]`.
    Raises StoreError when something that is kept turns out to be damaged, after what comes before it.
    """
    items = _ITEMS[what](connection, chosen, redacted)
    if form == "csv":
        return _chunks(_csv(what, items))
    return _chunks(_json(chosen, what, redacted, items) if form == "json" else _lines(items))


class _Item(msgspec.Struct):
    fields: dict[str, Any]
    calls: Iterable[dict[str, Any]] | None = None
    """Of a message, which may have more of them than fit into memory."""


# --- what is exported -------------------------------------------------------------------------------------------


def _pages(connection: Connection, chosen: Filter) -> Iterator[Sequence[SessionRow]]:
    after: str | None = None
    while True:
        page = list_sessions(connection, chosen, limit=_PAGE, after=after)
        yield page.rows
        after = page.next
        if after is None:
            return


def _sessions(connection: Connection, chosen: Filter, redacted: bool) -> Iterator[_Item]:
    for rows in _pages(connection, chosen):
        same = and_(verdicts.c.agent == sessions.c.agent, verdicts.c.source_id == sessions.c.source_id)
        of_page = sessions.c.id.in_([row.id for row in rows])
        said = select(sessions.c.id, verdicts.c.note).join_from(sessions, verdicts, same).where(of_page)
        notes = {row[0]: row[1] for row in connection.execute(said)}
        for row in rows:
            yield _Item(_safe({**_plain(row), "note": notes.get(row.id)}, redacted))


def _reports(connection: Connection, chosen: Filter, redacted: bool) -> Iterator[_Item]:
    for rows in _pages(connection, chosen):
        for row in rows:
            report = read_report(connection, row.id)
            fields = {**_named(row), "report": None if report is None else _plain(report)}
            yield _Item(_safe(fields, redacted))


def _transcripts(connection: Connection, chosen: Filter, redacted: bool) -> Iterator[_Item]:
    for rows in _pages(connection, chosen):
        for row in rows:
            named = _safe(_named(row), redacted)
            for turn in _turns(connection, row.id):
                yield _message(connection, named, turn, redacted)


def _turns(connection: Connection, session_id: int) -> Iterator[TurnView]:
    start = 0
    while turns := read_transcript(connection, session_id, start, _WINDOW):
        # A window has only so many calls; where they are too many, a message by itself has most room.
        is_cut = any(len(turn.calls) < turn.calls_made for turn in turns)
        for turn in turns:
            yield from read_transcript(connection, session_id, turn.ordinal, 1) if is_cut else (turn,)
        start = turns[-1].ordinal + 1


def _message(connection: Connection, named: Mapping[str, Any], turn: TurnView, redacted: bool) -> _Item:
    texts = {**_text(connection, "text", turn.text, redacted), **_text(connection, "thinking", turn.thinking, redacted)}
    rest = {name: value for name, value in _plain(turn).items() if name not in ("text", "thinking", "calls")}
    fields = {**named, **_safe(rest, redacted), **texts}
    return _Item(
        {name: fields[name] for name in (*named, *_TURN)}, (_call(connection, call, redacted) for call in turn.calls)
    )


def _call(connection: Connection, call: CallView, redacted: bool) -> dict[str, Any]:
    texts = {**_text(connection, "input", call.input, redacted), **_text(connection, "result", call.result, redacted)}
    rest = {name: value for name, value in _plain(call).items() if name not in ("input", "result")}
    fields = {**_safe(rest, redacted), **texts}
    return {name: fields[name] for name in _CALL}


def _text(connection: Connection, name: str, view: TextView | None, redacted: bool) -> dict[str, Any]:
    """A text as it is kept, whole, and whether the log has more of it.

    What is redacted is looked at whole, and loses the word at which it was cut: that may be half a secret.
    """
    if view is None:
        return {name: None, f"{name}_is_cut": False}
    text = (read_text(connection, view.id) or "") if view.is_cut else view.text
    is_cut = len(text) < view.bytes and len(text.encode()) < view.bytes
    if name != "text":  # of others the bytes are those of the log, with its quotes and escapes
        is_cut = is_cut and len(text) in _CUT_CHARS
    if redacted:
        text = _without_secrets(text)
        text = _without_last_word(text) if is_cut else text
    return {name: text, f"{name}_is_cut": is_cut}


def _without_secrets(text: str) -> str:
    """Redacted as text and, where it is JSON, by what it means: names tell of secrets, and escapes hide them."""
    if text[:1] in ("{", "["):
        try:
            value = json.loads(text)
            safe = redact_value(value)
            if safe != value:
                text = plain(json.dumps(safe, ensure_ascii=False))
        except (ValueError, RecursionError):
            pass
    return redact(text)


def _without_last_word(text: str) -> str:
    words = text[-_LAST_WORD_CHARS:].split()
    return text[: -len(words[-1])] if words and not text[-1].isspace() else text


def _named(row: SessionRow) -> dict[str, Any]:
    return {"id": row.id, "agent": row.agent, "source_id": row.source_id}


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value, builtin_types=(datetime,))
    return found


def _safe(fields: dict[str, Any], redacted: bool) -> dict[str, Any]:
    if not redacted:
        return fields
    safe: dict[str, Any] = redact_value(fields)
    cwd = safe.get("cwd")
    if cwd and cwd != fields["cwd"]:  # the project's name and key may hold a piece of what was found, out of its place
        safe["project_key"], safe["project"] = cwd, cwd.rpartition("/")[2]
    _close(safe)
    return safe


# Fields that were cut when they were made, most of them without a sign of it, and none to fewer characters than these.
_CUT_FIELDS = frozenset(("title", "evidence", "detail", "why"))
_LEAST_CUT_CHARS = 40
# A word that cannot be the first part of a secret, or only a short one.
_HARMLESS = re.compile(r"[^\w]*+(?:[A-Za-z]?[a-z]*|\w{1,5})[^\w]*")
_MARKED = re.compile(r".*\[REDACTED:[^\s\]]+\]\W{0,3}")


def _close(value: Any) -> None:
    """Take from texts that may have been cut the last word, where that may be half a secret."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _CUT_FIELDS and isinstance(inner, str):
                value[name] = _without_half(inner)
            else:
                _close(inner)
    elif isinstance(value, list):
        for inner in value:
            _close(inner)


def _without_half(text: str) -> str:
    if text.endswith(("…", "...")):
        return f"{_without_last_word(text.rstrip('….'))}…"
    words = text[-_LAST_WORD_CHARS:].split()
    if len(text) < _LEAST_CUT_CHARS or text[-1].isspace():
        return text
    is_given = len(words) > 1 and words[-2].endswith((":", "="))
    if _MARKED.fullmatch(words[-1]) or (not is_given and _HARMLESS.fullmatch(words[-1])):
        return text
    return f"{_without_last_word(text)}…"


_ITEMS = {"sessions": _sessions, "reports": _reports, "transcripts": _transcripts}


def _with_texts(kind: type[msgspec.Struct], *names: str) -> list[str]:
    """The fields of `kind`, with `..._is_cut` after each of these, and without its calls."""
    found = []
    for field in kind.__struct_fields__:
        found += [field, f"{field}_is_cut"] if field in names else [field]
    return [name for name in found if name != "calls"]


_TURN = _with_texts(TurnView, "text", "thinking")
_CALL = _with_texts(CallView, "input", "result")


# --- JSON -------------------------------------------------------------------------------------------------------


def _json(chosen: Filter, what: What, redacted: bool, items: Iterable[_Item]) -> Iterator[bytes]:
    about = {
        "schema": SCHEMA,
        "what": what,
        "filter": _safe(_plain(chosen), redacted),
        "redacted": redacted,
    }
    yield encoded(about)[:-1] + b',"items":['
    separator = b"\n"
    for item in items:
        yield separator
        yield from _object(item)
        separator = b",\n"
    yield b"\n]}\n"


def _lines(items: Iterable[_Item]) -> Iterator[bytes]:
    for item in items:
        yield from _object(item)
        yield b"\n"


def _object(item: _Item) -> Iterator[bytes]:
    data = encoded(item.fields)
    if item.calls is None:
        yield data
        return
    yield data[:-1] + b',"calls":['
    separator = b""
    for call in item.calls:
        yield separator + encoded(call)
        separator = b","
    yield b"]}"


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


# --- CSV --------------------------------------------------------------------------------------------------------

_ID = ("id", "agent", "source_id")
_PARTS: dict[str, type[msgspec.Struct]] = {
    "facts": Facts,
    "signals": Signals,
    "hygiene": Hygiene,
    "context": Context,
    "thinking": Thinking,
    "usage": UsageTotals,
}


def _columns(names: Iterable[str], parts: Mapping[str, type[msgspec.Struct]]) -> list[str]:
    found = []
    for name in names:
        found += [f"{name}.{field}" for field in parts[name].__struct_fields__] if name in parts else [name]
    return found


_COLUMNS = {
    "sessions": [*SessionRow.__struct_fields__, "note"],
    "reports": [
        *_ID,
        *_columns((name for name in Report.__struct_fields__ if name not in ("agent", "session_id")), _PARTS),
    ],
    "transcripts": [*_ID, *_columns(_TURN, {"usage": UsageView}), *(f"call.{name}" for name in _CALL)],
}


def _csv(what: What, items: Iterable[_Item]) -> Iterator[bytes]:
    columns = _COLUMNS[what]
    yield _row(columns)
    for item in items:
        fields = item.fields
        if what == "reports":
            fields = {**(_short(fields["report"]) if fields["report"] else {}), **fields}
        flat = _flat(fields)
        yield _row([flat.get(name) for name in columns])
        for call in item.calls or ():
            flat = {**{name: fields[name] for name in (*_ID, "ordinal")}, **_flat({"call": call})}
            yield _row([flat.get(name) for name in columns])


def _short(report: Mapping[str, Any]) -> dict[str, Any]:
    """A card for one row: its lines without the calls behind them, which would not fit into a cell."""
    return {
        **report,
        "breakdown": {line["label"]: line["points"] for line in report["breakdown"]},
        "advice": {advice["rule"]: advice["text"] for advice in report["advice"]},
    }


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(fields)
    for name, value in fields.items():
        if isinstance(value, dict):
            found.update({f"{name}.{field}": inner for field, inner in value.items()})
    return found


def _row(values: Iterable[Any]) -> bytes:
    return (",".join(map(_cell, values)) + "\r\n").encode()


# Beside the ASCII signs their wide forms, which some spreadsheets take for them.
_COMPUTED = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        value = msgspec.to_builtins(value)
    elif not isinstance(value, str):
        value = msgspec.json.encode(value).decode()
    text = _CONTROL.sub("\ufffd", value)
    mark = "'" if text.startswith(_COMPUTED) else ""
    return '"' + mark + text.replace('"', '""') + '"'
