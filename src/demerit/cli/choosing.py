"""What the commands over the history share: the open store, the options that choose sessions, and what they print."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Option

from demerit.cli.app import Misuse, moment, put, say, write

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from sqlalchemy import Connection

    from demerit.config import Settings
    from demerit.listing import Pages
    from demerit.store import Store
    from demerit.store.filters import Filter
    from demerit.store.status import Rebuilding

_MOST_DAYS = 36_500
_DAYS = {"d": 1, "w": 7, "y": 365}

Json = Annotated[bool, Option("--json", help="Print one JSON object; docs/store-json.md has its keys.")]


# --- an open store ---------------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """The store with what a command needs beside it."""

    store: Store
    settings: Settings
    zone: ZoneInfo
    now: datetime

    def pages(self, stream: IO[str]) -> Pages:
        from demerit.listing import Pages
        from demerit.terminal import console_for

        return Pages(console_for(stream, os.environ), self.now, self.zone, os.path.expanduser("~"))


@contextmanager
def opened() -> Iterator[Opened]:
    """The store that the settings name. What is wrong with either, or with a question to it, is said in a sentence."""
    from zoneinfo import ZoneInfo

    from demerit.config import BadSetting, load
    from demerit.store import Store, StoreError
    from demerit.store.reads import BadCursor, NotFound
    from demerit.store.search import BadQuery

    try:
        settings = load(os.environ)
        with Store.open(settings.database_url) as store:
            yield Opened(store, settings, ZoneInfo(settings.timezone), moment(None))
    except (BadSetting, StoreError, NotFound, BadCursor, BadQuery) as error:
        raise Misuse(str(error)) from None


def being_rebuilt(connection: Connection, now: datetime) -> Rebuilding | None:
    """How far a rebuild is, told on stderr; None: sessions can be compared."""
    from demerit.listing import under_way
    from demerit.store.status import rebuilding

    found = rebuilding(connection, now)
    if found is not None:
        say(under_way(found))
    return found


def is_empty(connection: Connection) -> bool:
    """Whether nothing is kept yet, told on stderr with what to do."""
    from sqlalchemy import select

    from demerit.store.schema import sessions

    empty = connection.execute(select(sessions.c.id).limit(1)).first() is None
    if empty:
        say("nothing is kept yet; demerit sync reads the logs on this machine, demerit sync PATH those in a folder")
    return empty


def put_json(schema: str, **values: Any) -> None:
    """Print one JSON object of this schema, in a line."""
    from demerit.render import encoded

    data = encoded({"schema": schema, **values}) + b"\n"
    write(lambda: put(data))


def put_csv(text: str) -> None:
    """Print CSV, without what a terminal would obey of the names in it."""
    from demerit.render import clean

    step = 2000  # `clean` takes no more at a time
    lines = ["".join(clean(line[at : at + step]) for at in range(0, len(line), step)) for line in text.split("\n")]
    write(lambda: put("\n".join(lines).encode("utf-8", "replace")))


# --- which sessions --------------------------------------------------------------------------------------------

_FILTERS: dict[str, Any] = {
    "range": Annotated[
        str | None,
        Option(
            "--range",
            metavar="SPAN",
            help="Started in these days: 7d, 12w or 1y up to today, one day like 2026-01-31, FROM..TO (either may be "
            "left out), or all.",
        ),
    ],
    "project": Annotated[str | None, Option(help="Of this project: its name, git remote or folder.")],
    "agent": Annotated[str | None, Option(help="Of this agent: claude-code, codex, ...")],
    "model": Annotated[str | None, Option(help="In which this model answered.")],
    "branch": Annotated[str | None, Option(help="On this git branch.")],
    "tool": Annotated[str | None, Option(help="That called this tool.")],
    "grade": Annotated[str | None, Option(help="With this grade: A, B, C, D, F or unscored.")],
    "outcome": Annotated[str | None, Option(help="That ended so: completed, abandoned, errored or unknown.")],
    "archetype": Annotated[str | None, Option(help="Of this shape: automation, quick, standard, deep or marathon.")],
    "ending": Annotated[str | None, Option(help="That ended so: interrupted, api_error or children_failed.")],
    "verdict": Annotated[str | None, Option(help="That you called so: good or bad.")],
    "rule": Annotated[str | None, Option(help="That got this advice; docs/advice.md has the rules.")],
    "no_subagents": Annotated[bool, Option("--no-subagents", help="Without the sessions of sub-agents.")],
}


def filtered(command: Callable[..., int]) -> Callable[..., int]:
    """`command`, whose parameters are keywords, with the options of a filter in place of `chosen`: a dict of them."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "no_subagents" else None, annotation=kind
        )
        for name, kind in _FILTERS.items()
    ]

    def run(**given: Any) -> int:
        return command(chosen={name: given.pop(name) for name in _FILTERS}, **given)

    parameters = [one for parameter in own for one in (options if parameter.name == "chosen" else [parameter])]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _agents() -> list[str]:
    from demerit.parsers import PARSERS  # it takes a while, and few ask for an agent

    return list(dict.fromkeys(parser.agent for parser in PARSERS))


def read_filter(given: dict[str, Any], now: datetime, zone: ZoneInfo) -> Filter:
    """The filter that the options ask for. Raises Misuse for what no session can be."""
    from demerit.quality import Archetype
    from demerit.quality.advice import RULES
    from demerit.quality.outcome import Outcome
    from demerit.quality.score import GRADE_ORDER
    from demerit.store.filters import UNSCORED, Filter

    allowed: dict[str, Sequence[str]] = {
        "agent": _agents() if given.get("agent") else (),
        "grade": [*(grade for grade in GRADE_ORDER if grade), UNSCORED],
        "outcome": list(Outcome),
        "archetype": list(Archetype),
        "ending": ("interrupted", "api_error", "children_failed"),
        "verdict": ("good", "bad"),
        "rule": [rule.__name__ for rule in RULES],
    }
    values: dict[str, Any] = {
        name: closed(f"--{name}", text, allowed[name]) if name in allowed else text
        for name, text in given.items()
        if name not in ("range", "no_subagents") and text is not None
    }
    since, until = span(given["range"], now, zone)
    return Filter(since=since, until=until, subagents=not given["no_subagents"], **values)


def closed(option: str, text: str, allowed: Sequence[str]) -> str:
    """`text` as it is spelled in `allowed`. Raises Misuse, with the nearest of them."""
    for name in allowed:
        if text.lower() == name.lower():
            return str(name)
    near = get_close_matches(text.lower(), {name.lower(): name for name in allowed}, 1, 0.5)
    hint = f"; did you mean {next(name for name in allowed if name.lower() == near[0])}?" if near else ""
    raise Misuse(f"{option} {text!r} is none of {', '.join(allowed)}{hint}")


def between(option: str, number: int, least: int, most: int) -> None:
    """Raise Misuse unless `number` is one of these."""
    if not least <= number <= most:
        raise Misuse(f"{option} {number} is not from {least} to {most:,}")


def span(text: str | None, now: datetime, zone: ZoneInfo) -> tuple[datetime | None, datetime | None]:
    """From when (None: ever) to before when, in whole days of the zone; `7d` is today and the six days before.

    Raises Misuse for what is no span.
    """
    if text is None or text == "all":
        return None, None
    from demerit.panels.zones import begin_of

    today = now.astimezone(zone).date()
    with suppress(ValueError, OverflowError):
        if days := days_of(text):
            return begin_of(today - timedelta(days - 1), zone), None
        if not text.isalnum():
            first, dots, end = text.partition("..")
            since = date.fromisoformat(first) if first else None
            until = (date.fromisoformat(end) if end else None) if dots else since
            if since and until and since > until:
                raise Misuse(f"--range {text!r} ends before it begins; write {end}..{first}")
            if since or until:
                before = None if until is None else begin_of(until + timedelta(1), zone)
                return None if since is None else begin_of(since, zone), before
    raise Misuse(
        f"--range {text!r} is no span of days; write it like 30d, 12w, 1y, 2026-01-31, 2026-01-01..2026-01-31, or all"
    )


def days_of(text: str) -> int | None:
    """The days of `90d`, `12w` or `1y`; None for anything else."""
    found = re.fullmatch(r"(\d{1,5})([dwy])", text.strip().lower())
    days = int(found[1]) * _DAYS[found[2]] if found else 0
    return days if 0 < days <= _MOST_DAYS else None


def nearest(connection: Connection, chosen: Filter) -> Iterator[str]:
    """For each name in a filter that nothing in the store goes by, a sentence with the one that may be meant."""
    from sqlalchemy import select

    from demerit.store.schema import projects, session_defects, session_tools, sessions

    columns = {
        "project": (projects.c.name, projects.c.key),
        "model": (session_defects.c.model,),
        "branch": (sessions.c.branch,),
        "tool": (session_tools.c.tool,),
    }
    for field, places in columns.items():
        wanted = getattr(chosen, field)
        if wanted is None:
            continue
        known = {name for column in places for name in connection.execute(select(column).distinct()).scalars() if name}
        if wanted in known:
            continue
        lower = {name.lower(): name for name in sorted(known)}
        # Part of a name is meant as often as a slip of the pen.
        near = [lower[name] for name in get_close_matches(wanted.lower(), lower, 3, 0.6)]
        near = near or [name for key, name in lower.items() if wanted.lower() in key][:3]
        yield f"no {field} is called {wanted!r}" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")


def explain_nothing(connection: Connection, choice: Filter) -> None:
    """Say why a filter chose nothing."""
    sentences = list(nearest(connection, choice))
    say("; ".join(sentences) if sentences else "no session is like that; demerit sessions without options lists all")


def one_format(json: bool, csv: bool) -> None:
    if json and csv:
        raise Misuse("--json and --csv are two formats; give one of them")
