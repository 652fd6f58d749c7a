"""`demerit sessions`, `show`, `search` and `insights`: the history that `demerit sync` keeps, in the terminal."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

from typer import Argument, Option

from demerit.cli.app import Debug, Misuse, app, say, write
from demerit.cli.choosing import (
    Json,
    being_rebuilt,
    between,
    closed,
    explain_nothing,
    filtered,
    is_empty,
    nearest,
    one_format,
    opened,
    put_csv,
    put_json,
    read_filter,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from demerit.listing import Pages
    from demerit.panels import Panel, Table
    from demerit.store import Store
    from demerit.store.reads import SessionRow, SessionView, TurnView

SORTS = ("started", "score", "duration", "cost", "tokens", "messages")
KINDS = ("prompt", "answer", "input", "output")
PANEL_NAMES = (
    *("grades", "outcomes", "archetypes", "score-trend", "hygiene", "context", "tools", "churn", "cost", "rhythm"),
    *("subagents", "advice", "defects"),
)
"""For `--help`, which must not take the time to load them; a test holds them to be all."""
_TELLING = (
    ("grades", "grade", 6, ("grade", "sessions", "share", "average_score")),
    ("outcomes", "outcome", 6, ("outcome", "confidence", "sessions", "share")),
    ("tools", "tool", 5, ("tool", "sessions", "judged", "failures", "failure_rate")),
    ("cost", "model", 5, ("model", "is_dated", "sessions", "requests", "cache_hit_rate", "output_tokens", "cost_usd")),
    ("defects", "model", 3, ("model", "responses", "truncated_rate", "empty_rate", "calls", "invalid_rate")),
    ("hygiene", "fact", 5, ("fact", "count", "of", "share")),
    ("advice", "rule", 3, ("rule", "when", "sessions", "share")),
)
"""Panels on the page of `demerit insights`: the view, and the rows and columns that are shown of it."""
_SHOWN = 200
"""Messages that `show` prints unless more are asked for."""
_WINDOW = 100


# --- sessions --------------------------------------------------------------------------------------------------

After = Annotated[str | None, Option(metavar="CURSOR", help="Go on from there: the page before says the cursor.")]
Csv = Annotated[bool, Option("--csv", help="Print comma-separated values with a line of column names.")]


@app.command()
@filtered
def sessions(
    *,
    sort: Annotated[
        str, Option(metavar="KEY", help="By " + ", ".join(SORTS) + ".", autocompletion=lambda: list(SORTS))
    ] = "started",
    asc: Annotated[bool, Option("--asc", help="The least first, in place of the most, or newest.")] = False,
    limit: Annotated[int, Option(help="Sessions on a page, up to 500.")] = 30,
    after: After = None,
    chosen: dict[str, Any],
    json: Json = False,
    csv: Csv = False,
    debug: Debug = False,
) -> int:
    """List the sessions that are kept, newest first: grade, outcome, title, project, agent, model, length, cost.

    A session's number is what `demerit show` opens.
    """
    key = closed("--sort", sort, SORTS)
    between("--limit", limit, 1, 500)
    one_format(json, csv)
    with opened() as at:
        choice = read_filter(chosen, at.now, at.zone)
        from demerit.store.reads import count_sessions, list_sessions

        with at.store.reading() as connection:
            if (found := being_rebuilt(connection, at.now)) is not None:
                if json:
                    put_json("demerit.sessions/1", rebuilding=found, total=None, next=None, sessions=[])
                return 0
            total = count_sessions(connection, choice)
            page = list_sessions(connection, choice, cast(Any, key), not asc, limit, after)
            if not total and not is_empty(connection):
                explain_nothing(connection, choice)
        if json:
            put_json("demerit.sessions/1", rebuilding=None, total=total, next=page.next, sessions=page.rows)
        elif csv:
            put_csv(as_csv(page.rows))
            if page.next:
                say(f"{len(page.rows):,} of {total:,} sessions; the next ones: --after {page.next}")
        elif total:
            pages = at.pages(sys.stdout)
            write(lambda: _list(pages, page.rows, key, total, page.next, asc))
    return 0


def _list(pages: Pages, rows: Sequence[SessionRow], key: str, total: int, following: str | None, asc: bool) -> None:
    from demerit.render import count

    pages.sessions(rows, key)
    order = ("oldest" if asc else "newest") if key == "started" else f"{'least' if asc else 'most'} {key}"
    said = f"{len(rows):,} of {count(total, 'session')}, {order} first"
    pages.words(["", said + ("; the next ones:" if following else "")])
    if following:
        pages.line(f"  --after {following}")


def as_csv(rows: Sequence[SessionRow]) -> str:
    """Sessions as CSV; a cell that a spreadsheet would take for a formula begins with an apostrophe."""
    from csv import writer
    from io import StringIO

    from demerit.store.reads import SessionRow

    text = StringIO()
    lines = writer(text, lineterminator="\n")
    lines.writerow(SessionRow.__struct_fields__)
    for row in rows:
        lines.writerow([_cell(getattr(row, name)) for name in SessionRow.__struct_fields__])
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return value


# --- show ------------------------------------------------------------------------------------------------------


@app.command()
def show(
    session: Annotated[
        str, Argument(metavar="ID", help="Its number in `demerit sessions`, or the agent's own id or its beginning.")
    ],
    messages: Annotated[
        str | None, Option(metavar="FROM:TO", help="These messages: 10:20, 10: (from there on), :20, or one like 10.")
    ] = None,
    all: Annotated[bool, Option("--all", help=f"Every message, in place of the first {_SHOWN}.")] = False,
    full: Annotated[bool, Option("--full", help="Texts, inputs and results whole, and messages that repeat.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Show a session: its report card, then its transcript with the calls, what they cost, and where context was shed.

    On a terminal it opens in $PAGER, else in less.
    """
    first, last = _ordinals(messages, all)
    with opened() as at:
        from demerit.store.reads import find_session, read_session

        with at.store.reading() as connection:
            if is_empty(connection):
                return 0
            view = read_session(connection, find_session(connection, session))
        turns = _turns(at.store, view.row.id, first, last, full)
        if json:
            listed = list(turns)
            more = _next(at.store, view.row.id, listed)
            put_json("demerit.session/1", session=view, messages=listed, next=more)
            return 0

        def page(stream: IO[str]) -> None:
            pages = at.pages(stream)
            if first == 0 or messages is None:
                pages.about(view, _notices(view))
            seen: list[int] = []

            def told() -> Iterator[TurnView]:
                for turn in turns:
                    seen[:] = [turn.ordinal]
                    yield turn

            pages.transcript(told(), full, folds=messages is None and not full)
            with at.store.reading() as connection:
                _where(pages, connection, view, seen, messages, full)

        with pager(sys.stdout) as stream:
            write(lambda: page(stream))
    return 0


def _where(
    pages: Pages, connection: Connection, view: SessionView, seen: Sequence[int], asked: str | None, full: bool
) -> None:
    """Say how to go on from the last message that was shown."""
    from demerit.store.reads import read_transcript

    if not seen:
        pages.words(["", "There is no such message." if asked else "There is no message in it."])
        return
    pages.words(["", *([] if full else ["What is folded here: --full shows it."])])
    if read_transcript(connection, view.row.id, seen[-1] + 1, 1):
        pages.words(["There is more:"])
        pages.line(f"  demerit show {view.row.id} --messages {seen[-1] + 1}:")


def _next(store: Store, number: int, turns: Sequence[TurnView]) -> int | None:
    """The ordinal of the message after these; None: there is none."""
    from demerit.store.reads import read_transcript

    if not turns:
        return None
    with store.reading() as connection:
        following = read_transcript(connection, number, turns[-1].ordinal + 1, 1)
    return following[0].ordinal if following else None


def _ordinals(text: str | None, everything: bool) -> tuple[int, int | None]:
    """The first and the last ordinal to show; None: to the end."""
    if text is None:
        return 0, None if everything else _SHOWN - 1
    if (one := re.fullmatch(r"#?(\d{1,9})", text.strip())) and not everything:
        return int(one[1]), int(one[1])
    if both := re.fullmatch(r"#?(\d{0,9}):#?(\d{0,9})", text.strip()):
        first = int(both[1] or 0)
        last = int(both[2]) if both[2] else None if everything else first + _SHOWN - 1
        if last is None or first <= last:
            return first, last
    raise Misuse(f"--messages {text!r} names no messages; write 10:20, 10: (from there on), :20, or 10")


def _turns(store: Store, number: int, first: int, last: int | None, full: bool) -> Iterator[TurnView]:
    """The messages of a session in windows, each read when it is wanted: a pager may stay open for hours."""
    from demerit.store.reads import read_transcript

    while last is None or first <= last:
        size = _WINDOW if last is None else min(_WINDOW, last - first + 1)
        with store.reading() as connection:
            found = read_transcript(connection, number, first, size)
            window = [turn for turn in found if last is None or turn.ordinal <= last]
            if full:
                window = [_whole(connection, turn) for turn in window]
        yield from window
        if not window:
            return
        first = window[-1].ordinal + 1


def _whole(connection: Connection, turn: TurnView) -> TurnView:
    """A message with all that is kept of its texts."""
    from msgspec.structs import replace

    from demerit.store.reads import TextView, read_text

    def whole(view: TextView | None) -> TextView | None:
        text = None if view is None or not view.is_cut else read_text(connection, view.id)
        return view if text is None or view is None else replace(view, text=text, is_cut=False)

    calls = tuple(replace(call, input=whole(call.input), result=whole(call.result)) for call in turn.calls)
    return replace(turn, text=whole(turn.text), thinking=whole(turn.thinking), calls=calls)


def _notices(view: SessionView) -> Iterator[str]:
    """What there is to say of a session that does not stand as all others do."""
    from demerit.model import PARSE_EPOCH

    if view.copy_of is not None:
        yield f"All of it stands in session {view.copy_of} as well, and counts there: demerit show {view.copy_of}"
    if view.epoch != PARSE_EPOCH:
        yield (
            f"An older version of demerit read it (epoch {view.epoch}; this version's is {PARSE_EPOCH}), so it counts "
            "nowhere; demerit rebuild reads it again, where its log is still there or archived."
        )
    elif view.report is None:
        yield (
            "It is not graded: it may still be going on. It is graded once it ended, or 30 minutes after its last "
            "line, by demerit sync or demerit settle."
        )
    if view.log_is_gone:
        yield "Its log is gone from the disk; this is what was kept of it."


class _PagerStream:
    """A pager's input as a terminal, which it is in the end: so colours are kept."""

    encoding = "utf-8"

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe

    def write(self, text: str) -> int:
        return self._pipe.write(text)

    def flush(self) -> None:
        self._pipe.flush()

    def isatty(self) -> bool:
        return True


@contextmanager
def pager(stream: IO[str]) -> Iterator[IO[str]]:
    """Where to print what may be long: `$PAGER` or less when `stream` is a terminal, else `stream` itself."""
    command = _pager_command() if stream.isatty() else None
    process = None
    if command is not None:
        # As git does it: colours are shown, and what fits on one screen is not held up.
        environ = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
        with suppress(OSError):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8", env=environ)
    if process is None or process.stdin is None:
        yield stream
        return
    interrupt = None
    with suppress(ValueError):  # Ctrl-C is the pager's
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError):
            yield cast(Any, _PagerStream(process.stdin))
    finally:
        with suppress(OSError):
            process.stdin.close()
        process.wait()
        if interrupt is not None:
            signal.signal(signal.SIGINT, interrupt)


def _pager_command() -> list[str] | None:
    said = os.environ.get("PAGER")
    with suppress(ValueError):
        command = shlex.split(said) if said is not None else ["less", "-R"]
        if command and command != ["cat"] and shutil.which(command[0]):
            return command
    return None


# --- search ----------------------------------------------------------------------------------------------------


@app.command()
@filtered
def search(
    *,
    text: Annotated[
        list[str],
        Argument(
            metavar="TEXT",
            help="Words that must all be there; '\"a phrase\"', -word to leave one out, begin* for how one begins.",
        ),
    ],
    kind: Annotated[
        list[str] | None,
        Option(metavar="KIND", help="Look only in: prompt, answer, input or output (of tools). May be repeated."),
    ] = None,
    limit: Annotated[int, Option(help="Sessions on a page, up to 200.")] = 10,
    after: After = None,
    chosen: dict[str, Any],
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Search prompts, answers, and what went into tools and came out of them: the best sessions first."""
    between("--limit", limit, 1, 200)
    kinds = [closed("--kind", one, KINDS) for one in kind or ()] or None
    query = " ".join(text)
    with opened() as at:
        choice = read_filter(chosen, at.now, at.zone)
        from demerit.store.search import search as look

        with at.store.reading() as connection:
            if (found := being_rebuilt(connection, at.now)) is not None:
                if json:
                    put_json("demerit.search/1", rebuilding=found, query=query, results=[], next=None, is_cut=False)
                return 0
            hits = look(connection, query, choice, limit, after, kinds)
            if not hits.results and not is_empty(connection) and not after:
                say("; ".join([*nearest(connection, choice), f"nothing that is kept has {query!r} in one text"]))
        if json:
            answer = {"results": hits.results, "next": hits.next, "is_cut": hits.is_cut}
            put_json("demerit.search/1", rebuilding=None, query=query, **answer)
        elif hits.results:
            pages = at.pages(sys.stdout)

            def page() -> None:
                pages.hits(hits.results)
                first = hits.results[0]
                opens = f"demerit show {first.session.id} --messages {first.hits[0].message}:"
                pages.words(["", "To open the first place:"])
                pages.line(f"  {opens}")
                if hits.is_cut:
                    pages.words(["More texts have it than were compared; of those the newest were."])
                if hits.next:
                    pages.words(["The next sessions:"])
                    pages.line(f"  --after {hits.next}")

            write(page)
    return 0


# --- insights --------------------------------------------------------------------------------------------------


@app.command(
    help="Answer questions about many sessions: how good they were, which tools fail, what they cost.\n\n"
    "Without a PANEL: the most telling ones, in short. The panels: " + ", ".join(PANEL_NAMES) + "."
)
@filtered
def insights(
    *,
    panel: Annotated[
        str | None,
        Argument(metavar="PANEL", help="One of them, whole.", autocompletion=lambda: list(PANEL_NAMES)),
    ] = None,
    by: Annotated[str | None, Option(metavar="VIEW", help="Cut it in another way: a panel names its views.")] = None,
    limit: Annotated[int, Option(help="Rows of a ranking; 0: all.")] = 50,
    chosen: dict[str, Any],
    json: Json = False,
    csv: Csv = False,
    debug: Debug = False,
) -> int:
    one_format(json, csv)
    between("--limit", limit, 0, 1_000_000)
    name = None if panel is None else closed("PANEL", panel, PANEL_NAMES)
    if name is None and (csv or by is not None):
        option = "--csv" if csv else f"--by {by}"
        raise Misuse(f"{option} is for one panel: demerit insights PANEL {option}")
    with opened() as at:
        choice = read_filter(chosen, at.now, at.zone)
        from demerit.panels import PANELS, as_csv, document
        from demerit.store.reads import count_sessions

        wanted = PANELS[name] if name else None
        view = closed("--by", by, wanted.by) if wanted and by is not None else None
        with at.store.reading() as connection:
            if (found := being_rebuilt(connection, at.now)) is not None:
                if json:
                    put_json("demerit.insights/1", rebuilding=found, panels=[])
                return 0
            most = None if csv or json or not limit else limit
            if wanted:
                tables = [(wanted, wanted.run(connection, choice, at.zone, view, most))]
            elif json:
                tables = [(one, one.run(connection, choice, at.zone, None, None)) for one in PANELS.values()]
            else:
                tables = [
                    (PANELS[one], PANELS[one].run(connection, choice, at.zone, view, rows))
                    for one, view, rows, _ in _TELLING
                ]
            nothing = not any(table.counted for _, table in tables) and not count_sessions(connection, choice)
            if nothing and not is_empty(connection):
                explain_nothing(connection, choice)
        if json:
            put_json("demerit.insights/1", rebuilding=None, panels=[document(table, one) for one, table in tables])
        elif csv:
            put_csv(as_csv(tables[0][1]))
        elif not nothing:
            pages = at.pages(sys.stdout)
            write(lambda: _answer(pages, tables, whole=name is not None))
    return 0


def _answer(pages: Pages, tables: Sequence[tuple[Panel, Table]], whole: bool) -> None:
    columns = {name: shown for name, _, _, shown in _TELLING}
    for panel, table in tables:
        if whole:
            pages.panel(table, panel)
        elif table.counted and table.rows:
            pages.glance(table, panel, columns[panel.name])


__all__ = ["insights", "search", "sessions", "show"]
