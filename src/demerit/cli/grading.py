"""`demerit grade` and `demerit doctor`: which logs were asked for, and what of them is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from typer import Argument, Option

from demerit.cli.app import (
    GATE_FAILED,
    WRONG_USAGE,
    Debug,
    Misuse,
    app,
    debugs,
    moment,
    one_of,
    put,
    say,
    write,
)

if TYPE_CHECKING:
    from demerit.ci import Gate
    from demerit.doctor import Store as Held
    from demerit.library import Graded
    from demerit.quality.report import Report
    from demerit.quality.summary import Summary
    from demerit.render import Failure
    from demerit.sources import Unreadable

_FORMATS = ("table", "json", "markdown", "junit", "sarif", "github")
_STDIN = "-"
_RECENT = timedelta(days=30)
# Less than this is read before a progress bar would have been seen.
_MANY_FILES, _MANY_BYTES = 50, 64 << 20
_REASONS = 5
"""Files that were passed over, and are told with their reason."""


# --- grade ------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The options of one `grade`, read."""

    now: datetime
    format: str
    gate: Gate | None
    ended: bool
    everything: bool
    debug: bool


@app.command()
def grade(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        Argument(
            metavar="PATH",
            help="Logs, folders of logs, or globs; - for standard input. "
            "Without any: the sessions of the last 30 days on this machine.",
        ),
    ] = None,
    format: Annotated[
        str,
        Option("--format", "-f", help=", ".join(_FORMATS) + ".", autocompletion=lambda: list(_FORMATS)),
    ] = "table",
    fail_under: Annotated[
        str | None,
        Option(
            metavar="GRADE_OR_SCORE",
            help="Exit with 1 when a session is below this: B means B or better, 80 means 80 or more. "
            "Takes every session as ended.",
        ),
    ] = None,
    ended: Annotated[bool, Option("--ended", help="Take every session as ended, even if just now active.")] = False,
    allow_unscored: Annotated[bool, Option("--allow-unscored", help="Unscored sessions pass --fail-under.")] = False,
    subagents: Annotated[bool, Option("--subagents", help="Sub-agents have to pass --fail-under as well.")] = False,
    now: Annotated[
        str | None,
        Option(metavar="ISO_TIME", help="Judge at this time, like 2026-01-31T18:00:00Z. Without a zone it is UTC."),
    ] = None,
    all: Annotated[bool, Option("--all", help="Without a PATH: every session, however old, and its card.")] = False,
    debug: Debug = False,
) -> int:
    """Print a report card for each session: its grade, how it ended, and the calls behind every lost point.

    Exits with 1 when --fail-under is not met, and with 2 when a PATH gave no session.
    """
    gate = None if fail_under is None else _gate(fail_under, allow_unscored, subagents)
    asked = Asked(moment(now), one_of(format, _FORMATS), gate, ended or gate is not None, all, debugs(context))
    found = Found()
    if paths:
        _read_named(paths, asked, found)
    elif not _read_machine(asked, found):
        return _introduce(asked, found)
    elif not found.reports and asked.format == "table":
        write(lambda: put(b"No session in the last 30 days; demerit --all goes through the older ones.\n"))
        return _finish(asked, found, cards=True)
    return _finish(asked, found, cards=bool(paths) or asked.everything)


def _gate(bar: str, allow_unscored: bool, subagents: bool) -> Gate:
    from demerit.ci import Gate

    try:
        return Gate.read(bar, allow_unscored, subagents)
    except ValueError as error:
        raise Misuse(str(error)) from None


def _introduce(asked: Asked, found: Found) -> int:
    """What to show on a machine without any log: the samples, to whoever looks; nothing to a program."""
    from demerit.sources import missing_homes

    missing = "".join(f"; {name} names {folder}, which is not there" for name, folder in missing_homes(os.environ))
    none = f"no agent has left a log on this machine{missing}"
    if asked.gate is not None:
        raise Misuse(f"{none}, so there is nothing to hold to a bar; name what to grade: demerit grade PATH")
    if asked.format == "table":
        from demerit.samples import SAMPLES

        none = none.removeprefix("no agent has left a log on this machine")
        first = f"No agent has left a log on this machine yet{none}. These are the samples that come along.\n\n"
        write(lambda: put(first.encode("utf-8", "replace")))
        _read_named([str(SAMPLES)], asked, found)
        found.are_samples = True
    else:
        say(f"{none}; name what to grade: demerit grade PATH")
    return _finish(asked, found, cards=asked.everything)


class Found:
    """What was read so far, and what could not be."""

    def __init__(self) -> None:
        from demerit.quality.usage import RequestTotals

        self.reports: list[Report] = []
        self.requests = RequestTotals()
        self.are_samples = False
        self.failures: dict[str, Failure] = {}
        self.named: list[Failure] = []
        """Those of paths that the user named."""
        self.broken: list[Failure] = []
        """Those of logs of a known agent that a walk met."""

    def fail(self, path: str, reason: str, *, named: bool = False, known_agent: bool = False) -> None:
        from demerit.render import Failure

        if path not in self.failures:
            failure = self.failures[path] = Failure(path, reason)
            if named:
                self.named.append(failure)
            elif known_agent:
                self.broken.append(failure)

    def skip(self, errors: Iterable[Unreadable]) -> None:
        for error in errors:
            self.fail(error.path, error.reason, known_agent=error.known_agent)

    @property
    def passed_over(self) -> list[Failure]:
        """The others: most often no logs at all."""
        told = {failure.path for failure in (*self.named, *self.broken)}
        return [failure for failure in self.failures.values() if failure.path not in told]

    def summary(self) -> Summary:
        from demerit.quality.summary import summarize

        return summarize(self.reports, self.requests.result())


def _read_named(names: Iterable[str], asked: Asked, found: Found) -> None:
    """Read what the user named. A name that gives no session is a failure, whatever lies below it."""
    from demerit.sources import Unreadable, find_logs

    skipped: list[Unreadable] = []
    files: dict[object, Path] = {}
    below: dict[str, set[str]] = {}
    for name in dict.fromkeys(names):
        if name == _STDIN:
            _read_stdin(asked, found)
            continue
        try:
            paths = [files.setdefault(_identity(path), path) for path in find_logs([name], skipped)]
            below[str(Path(name))] = set(map(str, paths))
        except Unreadable as error:
            found.fail(error.path, error.reason, named=True)
    gave: set[str] = set()
    for graded in _graded(list(files.values()), asked.now, asked.ended, asked.debug):
        found.reports += graded.reports
        found.requests.add(graded.usages)
        if graded.reports:
            gave.add(graded.path)
        else:
            skipped.append(graded.error or Unreadable(graded.path, "no session in it"))
    reasons = {error.path: error.reason for error in skipped}
    for name, paths_below in below.items():
        if gave.isdisjoint(paths_below):
            files_in_it = (
                f"none of the {len(paths_below)} files in it" if len(paths_below) != 1 else "the one file in it"
            )
            none = "no log in it: there is no .jsonl or .json file"
            if paths_below:
                none = f"{files_in_it} gave {'a' if len(paths_below) != 1 else 'no'} session"
            found.fail(name, reasons.get(name, none), named=True)
    found.skip(skipped)


def _read_stdin(asked: Asked, found: Found) -> None:
    from demerit.library import REPORT_LIMITS, report_on, requests_of
    from demerit.sources import Unreadable, read_stream

    if sys.stdin is None:
        found.fail(_STDIN, "it is closed", named=True)
        return
    try:
        sessions = read_stream(sys.stdin.buffer, REPORT_LIMITS, _STDIN)
    except (Unreadable, OSError) as error:
        found.fail(_STDIN, getattr(error, "reason", None) or str(error), named=True)
        return
    found.reports += [report_on(session, asked.now, asked.ended, _STDIN) for session in sessions]
    for session in sessions:
        found.requests.add(requests_of(session))
    if not sessions:
        found.fail(_STDIN, "no session in it", named=True)


def _read_machine(asked: Asked, found: Found) -> bool:
    """Read the logs that agents keep on this machine; whether there is any, however old."""
    from demerit.sources import Unreadable, agent_logs

    skipped: list[Unreadable] = []
    since = asked.now - _RECENT
    logs = list(agent_logs(Path(os.path.expanduser("~")), os.environ, skipped))
    recent_logs = [path for path in logs if asked.everything or _modified(path) >= since]
    for graded in _graded(recent_logs, asked.now, asked.ended, asked.debug):
        recent = [
            report
            for report in graded.reports
            if asked.everything or (report.ended_at or _modified(Path(graded.path))) >= since
        ]
        if recent:
            found.reports += recent
            found.requests.add(graded.usages)
        if graded.error:  # wherever the agent's folder was moved to
            skipped.append(Unreadable(graded.path, graded.error.reason, known_agent=True))
    found.skip(skipped)
    return bool(logs)


def _identity(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return path
    return status.st_dev, status.st_ino


def _modified(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return datetime.max.replace(tzinfo=UTC)  # reading it will say what is wrong


def _graded(paths: list[Path], now: datetime, ended: bool, debug: bool) -> Iterator[Graded]:
    """What each file gives, with a progress bar on a terminal when it takes a while."""
    from demerit.library import grade_files

    results = grade_files(paths, now, ended, debug=debug)
    if not sys.stderr.isatty():
        return results
    sizes = [path.stat().st_size if path.exists() else 0 for path in paths]
    if len(paths) < _MANY_FILES and sum(sizes) < _MANY_BYTES:
        return results
    from demerit.terminal import watched

    return watched(results, sizes)


def _finish(asked: Asked, found: Found, cards: bool) -> int:
    """Print what was found, then what is wrong with it; the exit code."""
    from demerit.render import place

    write(lambda: _print(asked, found, cards))
    if not cards and asked.format == "table":
        _hint(found.reports)
    for failure in found.named:
        say(f"{place(failure.path)}: {failure.reason}")
    failed = [] if asked.gate is None else list(asked.gate.failures(found.reports, found.broken))
    for sentence in failed:
        say(sentence)
    if asked.gate and found.reports and not any(map(asked.gate.holds, found.reports)):
        say("every session here is a sub-agent's, and --fail-under holds those to nothing without --subagents")
    others = [*found.passed_over, *(() if asked.gate else found.broken)]
    for failure in others[:_REASONS]:
        say(f"passed over {failure.path}: {failure.reason}")
    if len(others) > _REASONS:
        say(f"passed over {len(others) - _REASONS:,} more files; --format json lists all of them under errors")
    return WRONG_USAGE if found.named else GATE_FAILED if failed else 0


def _hint(reports: Sequence[Report]) -> None:
    """Say how to see the card of the first session that the overview lists: its path whole, to be copied."""
    from shlex import quote

    from demerit.render import worst_and_newest

    lists = worst_and_newest(reports)
    if lists and (path := lists[0][1][0].path):
        say(f"the card of the first one: demerit grade {quote(path)}")


def _print(asked: Asked, found: Found, cards: bool) -> None:
    if asked.format == "json":
        from demerit.render import document

        put(document(found.reports, found.summary(), list(found.failures.values())) + b"\n")
    elif asked.format == "markdown":
        put(_markdown(found, cards).encode())
    elif asked.format == "table":
        from demerit.terminal import Cards, console_for

        page = Cards(console_for(sys.stdout, os.environ), asked.now, home=os.path.expanduser("~"))
        if cards:
            page.all(found.reports, found.summary())
        else:
            page.overview(found.reports, found.summary(), "" if found.are_samples else "of the last 30 days")
    else:
        from demerit import ci

        unread = ci.Unread([*found.named, *found.broken], found.passed_over)
        put(ci.document(asked.format, found.reports, unread, asked.gate, asked.now, os.environ))
        if asked.format == "github" and (path := os.environ.get("GITHUB_STEP_SUMMARY")):
            try:
                ci.append_summary(path, _markdown(found, cards))
            except OSError as error:  # the gate's exit code is worth more than the page
                say(f"the job summary could not be written to {path}: {error.strerror or error}")


def _markdown(found: Found, cards: bool) -> str:
    from demerit.render import markdown, worst_and_newest

    tables = [("", found.reports)] if cards else worst_and_newest(found.reports)
    return markdown(tables, found.reports if cards else (), found.summary(), list(found.failures.values()))


# --- doctor -----------------------------------------------------------------------------------------------


@app.command()
def doctor(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        Argument(metavar="PATH", help="Files, folders, or globs. Without any: the folders of all agents."),
    ] = None,
    format: Annotated[str, Option("--format", "-f", help="table or json.")] = "table",
    debug: Debug = False,
) -> int:
    """Say which logs are found where, whose they are, and which of them were passed over, and why.

    Names files and counts, and nothing that a transcript holds. Exits with 0 whatever it finds.
    """
    import msgspec

    from demerit.doctor import Survey, document, in_words
    from demerit.sources import Unreadable

    wanted = one_of(format, ("table", "json"))
    home = os.path.expanduser("~")
    try:
        survey = Survey(Path(home), os.environ, paths or ())
    except Unreadable as error:
        raise Misuse(str(error)) from None
    for graded in _graded(survey.paths, moment(None), False, debugs(context)):
        survey.add(graded)
    found = msgspec.structs.replace(survey.result(), store=_history())
    write(lambda: put(document(found) + b"\n" if wanted == "json" else in_words(found, home).encode()))
    return 0


def _history() -> Held | None:
    """What the history holds; None where there is none yet: looking makes none."""
    from sqlalchemy import make_url

    from demerit import config
    from demerit.doctor import Store as Held
    from demerit.doctor import store_of
    from demerit.store import Store, StoreError
    from demerit.store.engines import shown
    from demerit.store.status import status

    try:
        url = make_url(config.load(os.environ).database_url)
    except config.BadSetting as error:
        return Held("the settings", str(error))
    if url.get_backend_name() == "sqlite" and not os.path.exists(str(url.database)):
        return None
    try:
        with Store.open(url) as store, store.reading() as connection:
            return store_of(shown(url), status(connection, moment(None)))
    except StoreError as error:
        return Held(shown(url), str(error))
