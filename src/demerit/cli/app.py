"""The program: its options, how a command says something, and how the process exits.

Only Typer is imported with this module; a command imports what it needs when it runs, for a quick start.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer
from typer import Option

GATE_FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes beside 0. What goes wrong inside demerit exits as wrong usage does: 1 would read as a verdict."""

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
    except Stopped as stopped:
        return say("stopped", 128 + stopped.signal)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Misuse as error:
        return say(str(error), WRONG_USAGE)
    except Exception as error:
        # Typer's own errors; their classes have no public name in all its versions.
        if hasattr(error, "format_message"):
            return say(_usage_sentence(error, arguments), WRONG_USAGE)
        if "--debug" in arguments:
            raise
        kind = type(error).__name__
        return say(f"{kind}: {error}. This is a fault of demerit; --debug shows where it is.", WRONG_USAGE)
    return say("stopped", INTERRUPTED) if code == INTERRUPTED else int(code or 0)


class Stopped(BaseException):
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
        raise Stopped(signum)

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
    named = getattr(getattr(error, "param", None), "opts", None)
    if named and message.startswith("Input should be"):
        message = f"{named[0]}: {message[0].lower()}{message[1:]}"
    close: Sequence[str] = getattr(error, "possibilities", None) or ()
    if close:
        return f"{message}; did you mean {close[0]}?"
    name = next((a for a in arguments if not a.startswith("-")), "")
    if message.startswith("No such command") and (os.path.lexists(name) or "/" in name or ".json" in name):
        return f"{message}; to grade a file: demerit grade {name}"
    return message if message.endswith("?") else f"{message}; demerit --help lists what there is"


def say(sentence: str, code: int = 0) -> int:
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


Debug = Annotated[bool, Option("--debug", help="Show a traceback when demerit itself fails.")]


@app.callback()
def _program(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Debug = False,
) -> None:
    pass


def debugs(context: typer.Context) -> bool:
    """Whether `--debug` was given, before the command or behind it."""
    return any(level.params.get("debug") for level in (context, context.parent) if level is not None)


def one_of(text: str, formats: Sequence[str]) -> str:
    if text.lower() in formats:
        return text.lower()
    from difflib import get_close_matches

    near = get_close_matches(text.lower(), formats, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise Misuse(f"--format {text!r} is none of {', '.join(formats)}{hint}")


def moment(text: str | None) -> datetime:
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


def put(data: bytes) -> None:
    """Write a document in UTF-8, whatever the console's encoding is: most often it goes into a file."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(data)
    else:
        sys.stdout.write(data.decode())


def write(write: Callable[[], None]) -> None:
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
