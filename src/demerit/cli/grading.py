"""The command line: what was asked for, which logs that means, and how the process exits.

Only Typer is imported with this module; a command imports what it needs when it runs, for a quick start.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from demerit.ci import Gate
    from demerit.library import Graded
    from demerit.quality.report import Report
    from demerit.quality.summary import Summary
    from demerit.render import Failure
    from demerit.sources import Unreadable

GATE_FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes beside 0. What goes wrong inside demerit exits as wrong usage does: 1 would read as a verdict."""

_FORMATS = ("table", "json", "markdown", "junit", "sarif", "github")
_STDIN = "-"
_RECENT = timedelta(days=30)
# Less than this is read before a progress bar would have been seen.
_MANY_FILES, _MANY_BYTES = 50, 64 << 20
_REASONS = 5
"""Files that were passed over, and are told with their reason."""

app = typer.Typer(
    help="Report cards for AI agents: grades every agent session A-F and says why. "
    "Plain `demerit` is `demerit grade` without a path.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


class Misuse(Exception):
    """The command was given something that it cannot work with; one sentence says what to give instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of one run of the program. `argv` is without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open as long as the process
        elif hasattr(stream, "reconfigure"):  # a console that cannot show a letter shows a question mark
            stream.reconfigure(errors="replace")
    _stop_at_once()
    try:
        code = app(_with_command(arguments), prog_name="demerit", standalone_mode=False)
    except _Stopped as stopped:
        return _say("stopped", 128 + stopped.signal)
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


class _Stopped(BaseException):
    """A signal asked us to stop."""

    def __init__(self, signal: int) -> None:
        self.signal = signal


def _stop_at_once() -> None:
    """Make a signal to stop end the reading processes too: a pool would first finish all that it was given."""
    main = os.getpid()

    def stop(signum: int, frame: object) -> None:
        if os.getpid() != main:
            os._exit(128 + signum)  # a forked reader, which would print a traceback of its own
        from multiprocessing import active_children

        for child in active_children():
            child.kill()
        raise _Stopped(signum)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # Not in the main thread: then no signal comes here either.
        with suppress(ValueError, AttributeError):
            signal.signal(getattr(signal, name), stop)


def _with_command(arguments: list[str]) -> list[str]:
    """`arguments`, with the command that plain `demerit` and `demerit --all` leave out."""
    first = next((a for a in arguments if a != "--debug"), "")
    own = ("-h", "--help", "--version", "--install-completion", "--show-completion")
    if first in own or (first and not first.startswith("-")):
        return arguments
    return ["grade", *arguments]


def _usage_sentence(error: Exception, arguments: Sequence[str]) -> str:
    """Typer's complaint as one sentence, with what to do."""
    message = str(getattr(error, "message", "") or error).rstrip(".")
    close: Sequence[str] = getattr(error, "possibilities", None) or ()
    if close:
        return f"{message}; did you mean {close[0]}?"
    name = next((a for a in arguments if not a.startswith("-")), "")
    if message.startswith("No such command") and (os.path.lexists(name) or "/" in name or ".json" in name):
        return f"{message}; to grade a file: demerit grade {name}"
    return message if message.endswith("?") else f"{message}; demerit --help lists what there is"


def _say(sentence: str, code: int = 0) -> int:
    """`code`, after one line on stderr that holds nothing for the terminal to obey."""
    from demerit.render import clean

    try:
        print(f"demerit: {clean(sentence)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # nobody can be told; the exit code still says it
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        from demerit import __version__

        typer.echo(f"demerit {__version__}")
        raise typer.Exit


_Debug = Annotated[bool, Option("--debug", help="Show a traceback when demerit itself fails.")]


@app.callback()
def _program(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: _Debug = False,
) -> None:
    pass


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
    debug: _Debug = False,
) -> int:
    """Print a report card for each session: its grade, how it ended, and the calls behind every lost point.

    Exits with 1 when --fail-under is not met, and with 2 when a PATH gave no session.
    """
    gate = None if fail_under is None else _gate(fail_under, allow_unscored, subagents)
    asked = Asked(_moment(now), _one_of(format, _FORMATS), gate, ended or gate is not None, all, _debugs(context))
    found = Found()
    if paths:
        _read_named(paths, asked, found)
    elif not _read_machine(asked, found):
        return _introduce(asked, found)
    elif not found.reports and asked.format == "table":
        _write(lambda: _put(b"No session in the last 30 days; demerit --all goes through the older ones.\n"))
        return _finish(asked, found, cards=True)
    return _finish(asked, found, cards=bool(paths) or asked.everything)


def _gate(bar: str, allow_unscored: bool, subagents: bool) -> Gate:
    from demerit.ci import Gate

    try:
        return Gate.read(bar, allow_unscored, subagents)
    except ValueError as error:
        raise Misuse(str(error)) from None


def _debugs(context: typer.Context) -> bool:
    """Whether `--debug` was given, before the command or behind it."""
    return any(level.params.get("debug") for level in (context, context.parent) if level is not None)


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
        _write(lambda: _put(first.encode("utf-8", "replace")))
        _read_named([str(SAMPLES)], asked, found)
        found.are_samples = True
    else:
        _say(f"{none}; name what to grade: demerit grade PATH")
    return _finish(asked, found, cards=asked.everything)


def _one_of(text: str, formats: Sequence[str]) -> str:
    if text.lower() in formats:
        return text.lower()
    from difflib import get_close_matches

    near = get_close_matches(text.lower(), formats, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise Misuse(f"--format {text!r} is none of {', '.join(formats)}{hint}")


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        if found.year >= 1970:
            return found
        raise Misuse(f"--now {text!r} lies before 1970, and no agent logged anything then")
    except (ValueError, OverflowError):
        pass
    raise Misuse(f"--now {text!r} is no time in ISO 8601; write it like 2026-01-31T18:00:00Z")


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

    _write(lambda: _print(asked, found, cards))
    if not cards and asked.format == "table":
        _hint(found.reports)
    for failure in found.named:
        _say(f"{place(failure.path)}: {failure.reason}")
    failed = [] if asked.gate is None else list(asked.gate.failures(found.reports, found.broken))
    for sentence in failed:
        _say(sentence)
    if asked.gate and found.reports and not any(map(asked.gate.holds, found.reports)):
        _say("every session here is a sub-agent's, and --fail-under holds those to nothing without --subagents")
    others = [*found.passed_over, *(() if asked.gate else found.broken)]
    for failure in others[:_REASONS]:
        _say(f"passed over {failure.path}: {failure.reason}")
    if len(others) > _REASONS:
        _say(f"passed over {len(others) - _REASONS:,} more files; --format json lists all of them under errors")
    return WRONG_USAGE if found.named else GATE_FAILED if failed else 0


def _hint(reports: Sequence[Report]) -> None:
    """Say how to see the card of the first session that the overview lists: its path whole, to be copied."""
    from shlex import quote

    from demerit.render import worst_and_newest

    lists = worst_and_newest(reports)
    if lists and (path := lists[0][1][0].path):
        _say(f"the card of the first one: demerit grade {quote(path)}")


def _print(asked: Asked, found: Found, cards: bool) -> None:
    if asked.format == "json":
        from demerit.render import document

        _put(document(found.reports, found.summary(), list(found.failures.values())) + b"\n")
    elif asked.format == "markdown":
        _put(_markdown(found, cards).encode())
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
        _put(ci.document(asked.format, found.reports, unread, asked.gate, asked.now, os.environ))
        if asked.format == "github" and (path := os.environ.get("GITHUB_STEP_SUMMARY")):
            try:
                ci.append_summary(path, _markdown(found, cards))
            except OSError as error:  # the gate's exit code is worth more than the page
                _say(f"the job summary could not be written to {path}: {error.strerror or error}")


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
    debug: _Debug = False,
) -> int:
    """Say which logs are found where, whose they are, and which of them were passed over, and why.

    Names files and counts, and nothing that a transcript holds. Exits with 0 whatever it finds.
    """
    from demerit.doctor import Survey, document, in_words
    from demerit.sources import Unreadable

    wanted = _one_of(format, ("table", "json"))
    home = os.path.expanduser("~")
    try:
        survey = Survey(Path(home), os.environ, paths or ())
    except Unreadable as error:
        raise Misuse(str(error)) from None
    for graded in _graded(survey.paths, _moment(None), False, _debugs(context)):
        survey.add(graded)
    found = survey.result()
    _write(lambda: _put(document(found) + b"\n" if wanted == "json" else in_words(found, home).encode()))
    return 0


def _put(data: bytes) -> None:
    """Write a document in UTF-8, whatever the console's encoding is: most often it goes into a file."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(data)
    else:
        sys.stdout.write(data.decode())


def _write(write: Callable[[], None]) -> None:
    """Run `write`, and end quietly when nobody reads on (`| head`)."""
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would fail once more when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Windows reports a closed pipe as an invalid argument.
        if error.errno not in (errno.EPIPE, errno.EINVAL) and not isinstance(error, BrokenPipeError):
            raise Misuse(f"the report could not be written: {error.strerror or error}") from None
