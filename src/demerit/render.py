"""Report cards as JSON and as Markdown, and the words and the cleaning that they share with the terminal.

Transcripts are hostile: they hold escape codes that rename a window, letters that turn text around, and
markup that would run in a page. `clean` takes from a text whatever a terminal would obey, `escaped` whatever
Markdown or GitHub would; only JSON carries texts as they are, and encodes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from demerit.model import CallStatus
from demerit.quality.report import BreakdownLine, CallRef, Hygiene, Report, UsageTotals
from demerit.quality.score import penalties
from demerit.quality.summary import Summary

SCHEMA = "demerit.report/1"
"""Raised when a key goes or changes its meaning; a new key keeps it."""


class Failure(NamedTuple):
    """A path that gave no session, and why."""

    path: str
    reason: str


# --- cleaning ---------------------------------------------------------------------------------------------

_SHOWN_CHARS = 2000
"""More than any place shows: a title of megabytes is cut before it is looked at."""

# Whole control sequences: of strings (window titles, links, images) and of cursor and colour. Each pattern
# stops at whatever begins the next one, so that no text is looked at twice.
_STRING_SEQUENCE = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*+(?:\x07|\x1b\\|\x9c)"
)
_CONTROL_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]|\x1b[ -/]*+[0-Z\\^-~]")
# Unicode's format characters, for what they do to their neighbours: they turn text around, join, or hide.
_INVISIBLE = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e007f"
)
_SPACE = re.compile(r"[\s\x1c-\x1f\x85\u2028\u2029]")
_DROPPED = re.compile(f"[\x00-\x1f\x7f-\x9f{_INVISIBLE}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_PLAIN = re.compile(f"[\x7f-\x9f\u2028\u2029{_INVISIBLE}]")


def clean(text: str) -> str:
    """`text` on one line, without anything that a terminal would obey or that hides what is there.

    Control sequences, other control characters and Unicode's invisible format characters are dropped, every
    white space becomes a space, and half a surrogate pair U+FFFD. At most 2,000 characters come back.
    """
    text = text[:_SHOWN_CHARS]
    if text.isascii() and text.isprintable():
        return text
    text = _CONTROL_SEQUENCE.sub("", _STRING_SEQUENCE.sub("", text))
    return _SURROGATE.sub("\ufffd", _DROPPED.sub("", _SPACE.sub(" ", text)))


_ACTIVE = re.compile(r"[\\`*_{}\[\]()<>#&|~$@!]|:(?=//)|(?<=[wW]{3})\.")
_ENTITIES = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    # A backslash does not protect these in every cell of a table, nor from what GitHub makes of the page.
    "|": "&#124;",
    "`": "&#96;",
    # A zero-width space keeps a name from being called, an issue from being linked, an address from being one.
    "@": "@&#8203;",
    "#": "#&#8203;",
    ":": ":&#8203;",
    ".": ".&#8203;",
}


def escaped(text: str) -> str:
    """`text` cleaned, for the middle of a line of GitHub's Markdown: nothing in it is markup any more."""
    return _ACTIVE.sub(lambda found: _ENTITIES.get(found[0], "\\" + found[0]), clean(text))


# --- words ------------------------------------------------------------------------------------------------

_ENDINGS = {
    "interrupted": "interrupted by the user",
    "api_error": "ended on an API error",
    "children_failed": "sub-agents failed",
}
_UNSCORED_ENDINGS = {"tool_failures", "tool_retries", "edit_churn", "longest_failure_streak"}


def count(n: int, thing: str) -> str:
    """`1 call`, `2 calls`, `1,000 retries`."""
    if n == 1:
        return f"1 {thing}"
    return f"{n:,} {thing[:-1] + 'ies' if thing.endswith('y') else thing + 's'}"


def tokens(n: int) -> str:
    """A number of tokens in three digits or so: `950`, `12.3k`, `1.25M`."""
    if n < 1000:
        return str(n)
    for unit, size in (("k", 10**3), ("M", 10**6), ("G", 10**9)):
        if n < 999.5 * size:
            return f"{n / size:.3g}{unit}"
    return f"{n / 10**9:,.0f}G"


def title(report: Report) -> str:
    """The session's title on one line; its id where it has none."""
    return " ".join(clean(report.title or "").split()) or f"session {clean(report.session_id)}"


def duration(report: Report) -> str:
    """How long the session went on; empty where the log has no times."""
    if "duration" in report.basis or report.started_at is None:
        return ""
    minutes = report.duration_minutes
    if minutes < 1:
        return f"{round(minutes * 60)} s"
    hours, rest = divmod(round(minutes), 60)
    days, hours_left = divmod(hours, 24)
    if days > 2:
        return f"{days} d {hours_left} h"
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def ending(name: str) -> str:
    """An ending in words."""
    return _ENDINGS.get(name, name.replace("_", " "))


def relation(report: Report) -> str:
    """What the session is to another one; empty for a session of its own."""
    if report.relation is None:
        return ""
    what = {"subagent": "sub-agent of", "fork": "fork of", "continuation": "continues"}
    parent = clean(report.parent_session_id or "another session")
    return f"{what.get(report.relation, report.relation)} {parent[:8] if len(parent) == 36 else parent[:24]}"


def statuses(found: Mapping[str, int]) -> list[tuple[str, int]]:
    """Calls by status, in the order of `CallStatus`."""
    order = [status.value for status in CallStatus]
    return sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def arithmetic(report: Report) -> tuple[str, str]:
    """The score as it came about, and the score: `100 - 9 - 10 =` and `81 B`."""
    points = [line.points for line in report.breakdown]
    terms = " ".join(["100", *(f"- {lost}" for lost in points), "="])
    result = f"{report.score} {report.grade}"
    return terms, f"{result} (never below 0)" if sum(points) > 100 else result


def why_unscored(report: Report) -> str:
    """Why a session got no score, and what would change that."""
    if not report.messages:
        return "there is no message in it"
    if report.facts.idle_long_enough:
        return "how it ended cannot be told, and nothing in it counts against it"
    return "it may still be going on (--ended says that it is not)"


def hygiene(found: Hygiene) -> list[str]:
    """What fired among the prompts; nothing when nothing did."""
    shown = [
        f"{n} {what}"
        for n, what in (
            (found.short, "under four words"),
            (found.duplicate, "repeated word for word" if found.duplicate == 1 else "repeat another word for word"),
            (found.no_code_context, "ask for a change and name no file or code"),
        )
        if n
    ]
    if found.unstructured_start:
        shown.append("the first says little")
    return [f"of {count(found.prompts, 'prompt')}", *shown] if shown else []


def losses(found: Mapping[str, int]) -> list[str]:
    """What was not understood, by kind."""
    return [f"{n:,} {clean(kind).replace('_', ' ')}" for kind, n in found.items()]


def unmeasured(report: Report) -> str:
    """What the log could not tell; empty when it told everything."""
    if not report.basis:
        return ""
    names = ", ".join(clean(name).replace("_", " ") for name in report.basis)
    less = "; the score rests on less" if _UNSCORED_ENDINGS.intersection(report.basis) else ""
    return f"not measured: {names}{less}"


def usage(found: UsageTotals | None) -> list[str]:
    """Tokens by class; nothing when the log has none."""
    if found is None:
        return []
    shown = [f"{tokens(found.input_tokens)} in"]
    if found.cache_read_tokens:
        shown.append(f"{tokens(found.cache_read_tokens)} cache read")
    if found.cache_write_tokens:
        shown.append(f"{tokens(found.cache_write_tokens)} cache written")
    reasoning = f" ({tokens(found.reasoning_tokens)} of it reasoning)" if found.reasoning_tokens else ""
    shown += [f"{tokens(found.output_tokens)} out{reasoning}", count(found.requests, "request")]
    if found.cost_usd is not None:
        shown.append(f"${found.cost_usd:,.2f}")
    return shown


def context(report: Report) -> list[str]:
    """How full the context got, and how often it was shed; nothing when not measured."""
    if report.context is None:
        return []
    shown = [f"peak {tokens(report.context.peak_tokens)} tokens"]
    return [*shown, f"shed {count(report.context.resets, 'time')}"] if report.context.resets else shown


def thinking(report: Report) -> list[str]:
    """How much the model thought; nothing when not measured, or when it did not."""
    found = report.thinking
    if found is None or not found.thinking_turns:
        return []
    return [
        f"{found.band}, in {found.thinking_turns} of {count(found.assistant_turns, 'turn')}",
        f"hardest tenth about {tokens(found.tail_tokens)} tokens",
        f"peak {tokens(found.peak_tokens)}",
    ]


def lost(report: Report) -> str:
    """What the points went on, in one clause: `9 for 3 tool failures, 10 for failure streak`."""
    return ", ".join(f"{line.points} for {clean(line.label)}" for line in report.breakdown)


def total_of(line: BreakdownLine) -> int:
    """How many calls a line of the breakdown is about: its list may have been cut, its label was not."""
    first = line.label.partition(" ")[0]
    return max(len(line.calls), int(first) if first.isdecimal() else 0)
