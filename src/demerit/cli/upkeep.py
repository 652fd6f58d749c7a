"""What keeps the history: `demerit sync`, `watch`, `settle`, `rebuild`, `config`, `verdict`, `prune` and `export`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Argument, Option

from demerit.cli.app import WRONG_USAGE, Debug, Misuse, Stopped, app, debugs, one_of, put, say, write
from demerit.cli.choosing import (
    Json,
    closed,
    days_of,
    explain_nothing,
    filtered,
    is_empty,
    nearest,
    opened,
    put_json,
    read_filter,
)

if TYPE_CHECKING:
    from demerit.ingest import Pass, Progress
    from demerit.listing import Pages
    from demerit.store.keeping import Pruned, PrunePlan
    from demerit.store.reads import SessionRow

_FORMATS = ("json", "ndjson", "csv")
_WHAT = ("sessions", "reports", "transcripts")
_NAMED = 10
"""Sessions that `prune` names of those that would go."""

Paths = Annotated[
    list[str] | None,
    Argument(metavar="PATH", help="Logs, folders of logs, or globs. Without any: where the agents keep theirs."),
]


@app.command()
def sync(
    context: typer.Context,
    paths: Paths = None,
    ended: Annotated[bool, Option("--ended", help="The sessions in these logs are over: grade them now.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Read what is new or has changed in the logs of this machine, keep it, and grade what has ended.

    Ctrl-C keeps what is done. A log that was kept and has not changed is passed over.
    """
    from demerit import ingest
    from demerit.sources import Unreadable

    if ended and not paths:
        raise Misuse("--ended is for logs that you name: demerit sync --ended PATH")
    with opened() as at:
        skipped: list[Unreadable] = []
        try:
            found = list(ingest.find(at.settings, Path.home(), os.environ, paths or (), skipped))
        except Unreadable as error:
            raise Misuse(str(error)) from None
        begun = monotonic()
        with _shown_progress("sync") as report:
            result = ingest.sync(at.store, at.settings, found, at.now, ended, report, debugs(context))
            seconds = monotonic() - begun
            result.skipped = [(error.path, error.reason) for error in skipped]
            result.gone = ingest.mark_gone(at.store, at.settings)
            result.graded += ingest.settle(at.store, at.now)
        _tell(result, seconds, json)
        if not found:
            where = f"there is no log in {', '.join(paths)}" if paths else "no agent has left a log on this machine"
            return say(f"{where}; demerit doctor says where it looks", WRONG_USAGE if paths else 0)
        if paths and len(result.failed) == result.found:
            return WRONG_USAGE
    return 0


@contextmanager
def _shown_progress(command: str) -> Iterator[Callable[[Progress], None]]:
    """What to tell the progress of a pass to. When the pass is stopped, it says what is kept."""
    from demerit.listing import bar

    last: Progress | None = None
    try:
        with bar(sys.stderr) as shown:

            def report(progress: Progress) -> None:
                nonlocal last
                last = progress
                if shown is not None:
                    shown(progress)

            yield report
    except (Stopped, KeyboardInterrupt):
        if last is not None and last.logs < last.of_logs:
            what = f"{last.logs:,} of {last.of_logs:,} logs are read and kept"
        else:
            what = "what was read is kept"
        say(f"{what}; demerit {command} goes on from there")
        raise


def _tell(result: Pass, seconds: float, json: bool) -> None:
    """Print what a pass found and did."""
    from demerit.listing import in_short, reasons

    if json:
        put_json("demerit.sync/1", **_document(result, seconds))
        return
    line = in_short(result, seconds) + "\n"
    write(lambda: put(line.encode()))
    for sentence in reasons(result):
        say(sentence)


def _document(result: Pass, seconds: float) -> dict[str, Any]:
    import msgspec

    values: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(result, failed=[], skipped=[]))
    for name, pairs in (("failed", result.failed), ("skipped", result.skipped)):
        values[name] = [{"path": path, "reason": reason} for path, reason in pairs]
    return {**values, "seconds": round(seconds, 3)}


@app.command()
def watch(
    context: typer.Context,
    paths: Paths = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object a pass, each on a line.")] = False,
    debug: Debug = False,
) -> int:
    """Keep the history up to date until Ctrl-C: read logs as they change, and grade what has ended."""
    from threading import Event

    from demerit import ingest
    from demerit.listing import in_short
    from demerit.sources import Unreadable

    with opened() as at:
        last = monotonic()

        def report(result: Pass) -> None:
            nonlocal last
            seconds, last = monotonic() - last, monotonic()
            if json:
                put_json("demerit.sync/1", **_document(result, seconds))
            elif result.read or result.graded:
                when = _now().astimezone(at.zone).strftime("%H:%M:%S")
                parts = in_short(result, 0)
                write(lambda: put(f"{when} {parts}\n".encode()))

        if not json:
            say("watching; Ctrl-C ends it")
        stop = Event()
        try:
            ingest.watch(at.store, at.settings, Path.home(), os.environ, _now, report, stop, paths or ())
        except (Stopped, KeyboardInterrupt):
            # Whatever was being read is read again: nothing is half kept.
            stop.set()
        except Unreadable as error:
            raise Misuse(str(error)) from None
    return 0


def _now() -> datetime:
    return datetime.now(UTC)


@app.command()
def settle(json: Json = False, debug: Debug = False) -> int:
    """Grade the sessions that have ended since, and those that an older version graded."""
    from demerit import ingest

    with opened() as at, _shown_progress("settle"):
        graded = ingest.settle(at.store, at.now)
    if json:
        put_json("demerit.settle/1", graded=graded)
    else:
        from demerit.render import count

        line = f"{count(graded, 'session')} graded\n"
        write(lambda: put(line.encode()))
    return 0


@app.command()
def rebuild(
    context: typer.Context,
    all: Annotated[bool, Option("--all", help="Every log, and not only those that an older version read.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Read again what an older version of demerit read, from the logs or from what is archived of them.

    Stopped and started again, it goes on where it was.
    """
    from demerit import ingest

    with opened() as at:
        if all:
            ingest.begin_rebuild(at.store)
        begun = monotonic()
        with _shown_progress("rebuild") as report:
            result = ingest.rebuild(at.store, at.settings, at.now, report, debugs(context))
            seconds = monotonic() - begun
            result.graded += ingest.settle(at.store, at.now)
        if not result.found and not json:
            say("nothing is due: this version has read every log; --all reads them all again")
        else:
            _tell(result, seconds, json)
    return 0


@app.command()
def config(json: Json = False, debug: Debug = False) -> int:
    """Show every setting, its value, and where that came from: docs/config.md explains them."""
    from demerit.config import BadSetting, describe, load

    try:
        found = describe(load(os.environ))
    except BadSetting as error:
        raise Misuse(str(error)) from None
    if json:
        listed = [
            {"name": one.name, "value": one.value, "origin": one.place.origin, "place": one.place.name} for one in found
        ]
        put_json("demerit.config/1", settings=listed)
        return 0
    from demerit.listing import settings_lines

    lines = settings_lines(found)
    write(lambda: put("".join(f"{line}\n" for line in lines).encode("utf-8", "replace")))
    return 0


# --- what people decide ----------------------------------------------------------------------------------------


@app.command()
def verdict(
    session: Annotated[str, Argument(metavar="ID", help="Its number, or the agent's own id or its beginning.")],
    said: Annotated[str, Argument(metavar="good|bad|none", help="What you say of it; none takes back what was said.")],
    note: Annotated[str, Option(metavar="TEXT", help="Why.")] = "",
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Say by hand that a session went well or badly. It is shown beside the grade, and changes none."""
    word = closed("the verdict", said, ("good", "bad", "none"))
    if note and word == "none":
        raise Misuse("--note goes with good or bad; none takes back the verdict with its note")
    with opened() as at:
        from demerit.store.keeping import set_verdict
        from demerit.store.reads import find_session, read_session

        with at.store.writing() as connection:
            number = find_session(connection, session)
            set_verdict(connection, number, None if word == "none" else cast(Any, word), note, at.now)
        with at.store.reading() as connection:
            view = read_session(connection, number)
    if json:
        put_json(
            "demerit.verdict/1", id=number, agent=view.row.agent, source_id=view.row.source_id, verdict=view.verdict
        )
        return 0
    row = view.row
    ours = "not graded" if row.grade is None else f"{row.grade} {row.score}"
    yours = "no verdict of yours" if view.verdict is None else f"yours is {view.verdict.verdict}"
    from demerit.render import clean

    line = f"session {number}, {clean(row.title or row.source_id)}: {yours}, ours is {ours}\n"
    write(lambda: put(line.encode("utf-8", "replace")))
    return 0


@app.command()
def prune(
    older_than: Annotated[
        str | None, Option(metavar="AGE", help="Without a sign of life for so long: 90d, 12w or 1y.")
    ] = None,
    project: Annotated[str | None, Option(help="Of this project: its name, git remote or folder.")] = None,
    max_size: Annotated[
        str | None, Option(metavar="SIZE", help="The oldest, until what is kept takes no more than this, like 2GB.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Delete them. Without it, only what would go is shown.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Delete sessions from the history, with their archived logs. The agents' own logs stay as they are.

    Shows what would go; --yes deletes it. What meets all of the options goes.
    """
    days = None if older_than is None else days_of(older_than)
    if older_than is not None and days is None:
        raise Misuse(f"--older-than {older_than!r} is no age; write it like 90d, 12w or 1y")
    size = None if max_size is None else _bytes_of(max_size)
    if days is None and project is None and size is None:
        raise Misuse("say what may go: --older-than 90d, --project NAME or --max-size 2GB; without --yes nothing goes")
    with opened() as at:
        from demerit.store import keeping
        from demerit.store.filters import Filter
        from demerit.store.reads import read_rows

        if project is not None:
            with at.store.reading() as connection:
                for sentence in nearest(connection, Filter(project=project)):
                    raise Misuse(sentence)
        before = None if days is None else at.now - timedelta(days)
        plan = keeping.plan_prune(at.store, older_than=before, project=project, max_bytes=size)
        if not json:
            with at.store.reading() as connection:
                rows = read_rows(connection, plan.ids[:_NAMED])
            shown = [rows[number] for number in plan.ids[:_NAMED] if number in rows]
            write(lambda: _tell_plan(at.pages(sys.stdout), plan, shown))
        done = keeping.prune(at.store, plan) if yes else None
        if json:
            planned = {name: getattr(plan, name) for name in plan.__struct_fields__ if name != "ids"}
            put_json("demerit.prune/1", plan=planned, done=done)
        elif done is not None:
            write(lambda: _tell_pruned(at.pages(sys.stdout), done))
            if done.trouble:
                say(done.trouble)
        elif plan.ids:
            say("nothing is deleted yet; with --yes it is")
    return 0


def _bytes_of(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?) *([kmgt]i?b?)", text.strip().lower())
    if found is None:
        raise Misuse(f"--max-size {text!r} is no size; write it like 500MB or 2GB")
    power = "kmgt".index(found[2][0]) + 1
    unit: int = (1024 if "i" in found[2] else 1000) ** power
    return round(float(found[1]) * unit)


def _tell_plan(pages: Pages, plan: PrunePlan, shown: Sequence[SessionRow]) -> None:
    from demerit.listing import size
    from demerit.render import count

    if not plan.ids:
        pages.words([f"Nothing is to go: what is kept takes about {size(plan.kept_bytes)}."], "")
        return
    pages.sessions(shown)
    more = f", {plan.sessions - len(shown):,} more" if plan.sessions > len(shown) else ""
    shared = (
        f", and {count(plan.shared_logs, 'log')} stay archived for other sessions in them" if plan.shared_logs else ""
    )
    pages.words(
        [
            "",
            f"{count(plan.sessions, 'session')} to go, oldest first{more}: about {size(plan.bytes)} of "
            f"{size(plan.kept_bytes)}, with {count(plan.logs, 'archived log')}{shared}.",
        ],
        "",
    )


def _tell_pruned(pages: Pages, done: Pruned) -> None:
    from demerit.listing import size
    from demerit.render import count

    freed = "" if done.freed_bytes is None else f"; {size(done.freed_bytes)} are free again"
    pages.words([f"Deleted: {count(done.sessions, 'session')}, {count(done.logs, 'archived log')}{freed}."], "")


# --- export ----------------------------------------------------------------------------------------------------


@app.command()
@filtered
def export(
    *,
    format: Annotated[
        str, Option("--format", "-f", help=", ".join(_FORMATS) + ".", autocompletion=lambda: list(_FORMATS))
    ] = "json",
    what: Annotated[
        str, Option(metavar="WHAT", help=", ".join(_WHAT) + ".", autocompletion=lambda: list(_WHAT))
    ] = "sessions",
    output: Annotated[str | None, Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
    chosen: dict[str, Any],
    no_redact: Annotated[bool, Option("--no-redact", help="Leave secrets as they are.")] = False,
    debug: Debug = False,
) -> int:
    """Write sessions, their report cards or their transcripts as JSON, NDJSON or CSV, with secrets masked."""
    form, of = one_of(format, _FORMATS), closed("--what", what, _WHAT)
    with opened() as at:
        choice = read_filter(chosen, at.now, at.zone)
        from demerit.export import export_sessions
        from demerit.listing import under_way
        from demerit.store.reads import count_sessions
        from demerit.store.status import rebuilding

        with at.store.reading() as connection:
            if (found := rebuilding(connection, at.now)) is not None:
                raise Misuse(under_way(found))  # half of an export would be taken for the whole
            if not count_sessions(connection, choice) and not is_empty(connection):
                explain_nothing(connection, choice)
            redacted = at.settings.redact and not no_redact
            pieces = export_sessions(connection, choice, cast(Any, of), cast(Any, form), redacted)
            if output is None or output == "-":
                write(lambda: _put_all(pieces))
            else:
                _into_file(Path(output), pieces)
    return 0


def _put_all(pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        put(piece)


def _into_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that its owner alone may read, whole or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(pieces)
        os.replace(half, path)
    except OSError as error:
        raise Misuse(f"{path} could not be written: {error.strerror or error}") from None
    finally:
        half.unlink(missing_ok=True)


__all__ = ["config", "export", "prune", "rebuild", "settle", "sync", "verdict", "watch"]
