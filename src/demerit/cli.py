"""The command line: what was asked for, which logs that means, and how the process exits.

Only Typer is imported with this module; a command imports what it needs when it runs, for a quick start.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from demerit.library import Graded
    from demerit.quality.report import Report
    from demerit.quality.summary import Summary
    from demerit.render import Failure
    from demerit.sources import Unreadable

GATE_FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes beside 0. What goes wrong inside demerit exits as wrong usage does: 1 would read as a verdict."""

_FORMATS = ("table", "json", "markdown")
_STDIN = "-"
_RECENT = timedelta(days=30)
_LISTED = 10
# Less than this is read before a progress bar would have been seen.
_MANY_FILES, _MANY_BYTES = 50, 64 << 20

app = typer.Typer(
    help="Report cards for AI agents: grades every agent session A-F and says why.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


class Misuse(Exception):
    """The command was given something that it cannot work with; one sentence says what to give instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of one run of the program. `argv` is without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that cannot show a letter shows a question mark
            stream.reconfigure(errors="replace")
    try:
        code = app(_with_command(arguments), prog_name="demerit", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Misuse as error:
        return _say(str(error), WRONG_USAGE)
    except Exception as error:
        # Typer's own errors; their classes have no public name in all its versions.
        if hasattr(error, "format_message"):
            return _say(_usage_sentence(error, arguments), WRONG_USAGE)
        if "--debug" in arguments:
            raise
        kind = type(error).__name__
        return _say(f"{kind}: {error}. This is a fault of demerit; --debug shows where it is.", WRONG_USAGE)
    return _say("stopped", INTERRUPTED) if code == INTERRUPTED else int(code or 0)


def _with_command(arguments: list[str]) -> list[str]:
    """`arguments`, with the command that plain `demerit` and `demerit --all` leave out."""
    first = next((a for a in arguments if a != "--debug"), "")
    own = ("-h", "--help", "--version", "--install-completion", "--show-completion")
    if first in own or (first and not first.startswith("-")):
        return arguments
    return ["grade", *arguments]


def _usage_sentence(error: Exception, arguments: Sequence[str]) -> str:
    """Typer's complaint as one sentence, with what to do."""
    message: str = getattr(error, "message", "") or str(error)
    close: Sequence[str] = getattr(error, "possibilities", None) or ()
    if close:
        return f"{message.rstrip('.')}; did you mean {close[0]}?"
    if message.startswith("No such command") and arguments and os.path.lexists(arguments[0]):
        return f"{message.rstrip('.')}; to grade that file: demerit grade {arguments[0]}"
    return f"{message.rstrip('.')}; demerit --help lists what there is"


def _say(sentence: str, code: int = 0) -> int:
    """`code`, after one line on stderr that holds nothing for the terminal to obey."""
    from demerit.render import clean

    if sys.stderr is not None:
        print(f"demerit: {clean(sentence)}", file=sys.stderr)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        from demerit import __version__

        typer.echo(f"demerit {__version__}")
        raise typer.Exit


_Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when demerit itself fails.")]


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: _Debug = False,
) -> None:
    pass


# --- grade ------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """What a session has to reach under `--fail-under`."""

    name: str
    score: float

    @classmethod
    def read(cls, text: str) -> Bar:
        """The bar that a grade or a score names. Raises Misuse when it is neither."""
        from demerit.quality.score import GRADE_FLOORS

        floors = dict(GRADE_FLOORS)
        if text.upper() in floors:
            return cls(text.upper(), floors[text.upper()])
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0 <= number <= 100:
            return cls(f"{number:g}", number)
        near = next((letter for letter in text.upper() if letter in floors), "D" if text.upper() == "E" else "")
        if text.rstrip("%").isdecimal():
            near = str(min(int(text.rstrip("%")), 100))
        hint = f"; did you mean {near}?" if near else ""
        raise Misuse(f"--fail-under {text!r} is none of A, B, C, D, F and no score from 0 to 100{hint}")


class Asked(NamedTuple):
    """The options of one `grade`, read."""

    now: datetime
    format: str
    bar: Bar | None
    ended: bool
    allow_unscored: bool
    subagents: bool
    everything: bool


@app.command()
def grade(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Logs, folders of logs, or globs; - for standard input. "
            "Without any: the sessions of the last 30 days on this machine.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="table, json or markdown.", autocompletion=lambda: list(_FORMATS))
    ] = "table",
    fail_under: Annotated[
        str | None,
        typer.Option(
            metavar="GRADE_OR_SCORE",
            help="Exit with 1 when a session is below this: B means B or better, 80 means 80 or more. "
            "Takes every session as ended.",
            show_default=False,
        ),
    ] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Take every session as ended, even if just now active.")] = False,
    allow_unscored: Annotated[
        bool, typer.Option("--allow-unscored", help="Let sessions that cannot be scored pass --fail-under.")
    ] = False,
    subagents: Annotated[
        bool, typer.Option("--subagents", help="Hold sub-agents' sessions to --fail-under as well.")
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="ISO_TIME",
            help="Judge at this time instead of now, like 2026-01-31T18:00:00Z. Without a zone it is UTC.",
            show_default=False,
        ),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Without a PATH: every session, however old, with its whole card.")
    ] = False,
    debug: _Debug = False,
) -> int:
    """Print a report card for each session: its grade, how it ended, and the calls behind every lost point.

    Exits with 1 when --fail-under is not met, and with 2 when a PATH gave no session.
    """
    bar = None if fail_under is None else Bar.read(fail_under)
    asked = Asked(_moment(now), _one_of(format), bar, ended or bar is not None, allow_unscored, subagents, all)
    found = Found()
    if paths:
        _read_named(paths, asked, found)
    else:
        _read_machine(asked, found)
    return _finish(asked, found, named=bool(paths))


def _one_of(text: str) -> str:
    from difflib import get_close_matches

    if text.lower() in _FORMATS:
        return text.lower()
    near = get_close_matches(text.lower(), _FORMATS, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise Misuse(f"--format {text!r} is none of {', '.join(_FORMATS)}{hint}")


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Misuse(f"--now {text!r} is no time in ISO 8601; write it like 2026-01-31T18:00:00Z") from None


class Found:
    """What was read so far, and what could not be."""

    def __init__(self) -> None:
        from demerit.quality.summary import RequestTotals

        self.reports: list[Report] = []
        self.requests = RequestTotals()
        self.failures: dict[str, Failure] = {}
        self.named_failures: list[Failure] = []
        self.broken: list[Failure] = []
        """Of those that nobody named, the logs of a known agent."""
        self.notice = ""
        """Why this is not about what the user asked for, but about something else."""

    def add(self, graded: Graded) -> None:
        self.reports += graded.reports
        self.requests.add(graded.usages)

    def fail(self, path: str, reason: str, *, named: bool, known_agent: bool = False) -> None:
        from demerit.render import Failure

        if path not in self.failures:
            failure = self.failures[path] = Failure(path, reason)
            if named:
                self.named_failures.append(failure)
            elif known_agent:
                self.broken.append(failure)

    def skip(self, skipped: Iterable[Unreadable]) -> None:
        for error in skipped:
            self.fail(error.path, error.reason, named=False, known_agent=error.known_agent)

    def summary(self) -> Summary:
        from demerit.quality.summary import summarize

        return summarize(self.reports, self.requests.result())


def _read_named(names: Sequence[str], asked: Asked, found: Found) -> None:
    """Read what the user named; each name that gives no session is a failure of its own."""
    from demerit.library import grade_files
    from demerit.sources import Unreadable, find_logs

    skipped: list[Unreadable] = []
    files: dict[object, Path] = {}
    owners: dict[str, set[str]] = {}
    for name in dict.fromkeys(names):
        if name == _STDIN:
            _read_stdin(asked, found)
            continue
        try:
            for path in find_logs([name], skipped):
                path = files.setdefault(_identity(path), path)
                owners.setdefault(str(path), set()).add(name)
        except Unreadable as error:
            found.fail(error.path, error.reason, named=True)
    gave: set[str] = set()
    for graded in _watched(list(files.values()), lambda paths: grade_files(paths, asked.now, asked.ended)):
        found.add(graded)
        by_itself = any(Path(name) == Path(graded.path) for name in owners[graded.path])
        if graded.reports:
            gave |= owners[graded.path]
        else:
            error = graded.error or Unreadable(graded.path, "no session in it")
            found.fail(error.path, error.reason, named=by_itself, known_agent=error.known_agent)
    found.skip(error for error in skipped if error.path not in names)
    for name in dict.fromkeys(names):
        if name != _STDIN and name not in gave and str(Path(name)) not in found.failures:
            reasons = {error.path: error.reason for error in skipped}
            files_in_it = sum(name in having for having in owners.values())
            none = f"no session in any of the {files_in_it} files in it" if files_in_it else "no .jsonl or .json in it"
            found.fail(name, reasons.get(name, none), named=True)


def _read_stdin(asked: Asked, found: Found) -> None:
    from demerit.library import Graded, report_on, requests_of
    from demerit.parsers.records import Source
    from demerit.sources import Unreadable, read_stream

    try:
        sessions = read_stream(sys.stdin.buffer, Source(text_bytes=4096, bodies=False), "standard input")
    except Unreadable as error:
        found.fail(_STDIN, error.reason, named=True)
        return
    reports = [report_on(session, asked.now, asked.ended, _STDIN) for session in sessions]
    found.add(Graded(_STDIN, reports, [usage for session in sessions for usage in requests_of(session)]))
    if not reports:
        found.fail(_STDIN, "no session in it", named=True)
