"""Report cards as JSON and as Markdown, and the words and the cleaning that the terminal shares with them.

Transcripts are hostile: they hold escape codes that rename a window, letters that turn text around, and
markup that would run in a page. `clean` takes from a text whatever a terminal would obey, `escaped` whatever
Markdown or GitHub would; only JSON carries texts as they are, and encodes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from demerit.model import CallStatus
from demerit.quality.report import BreakdownLine, CallRef, Hygiene, Report, ToolTally, UsageTotals
from demerit.quality.summary import Summary

SCHEMA = "demerit.report/1"
"""Raised when a key goes or changes its meaning; a new key keeps it."""


class Failure(msgspec.Struct, frozen=True):
    """A path that gave no session, and why."""

    path: str
    reason: str


# --- cleaning ---------------------------------------------------------------------------------------------

_SHOWN_CHARS = 2000
"""More than any place shows: a title of megabytes is cut before it is looked at."""

# Whole control sequences, in 7 and in 8 bits: those that hold a text of their own (window titles, links,
# images), and those of cursor and colour. A text stops where another sequence begins, so that many unclosed
# ones cost no more than one.
_STRING_SEQUENCE = re.compile(r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*+(?:\x07|\x1b\\|\x9c)")
_CONTROL_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]|\x1b[ -/]*+[0-Z\\^-~]")
# Unicode's format characters: they turn the text around them, join it, or hide in it.
_INVISIBLE = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e007f"
)
_SPACE = re.compile(r"\s")  # the separators of lines, paragraphs and records too
_DROPPED = re.compile(f"[\x00-\x1f\x7f-\x9f{_INVISIBLE}]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` on one line, without anything that a terminal would obey or that hides what is there.

    Control sequences, other control characters and Unicode's invisible format characters are dropped, every
    white space becomes a space, and half a surrogate pair U+FFFD. At most 2,000 characters come back.
    """
    text = text[:_SHOWN_CHARS]
    if not (text.isascii() and text.isprintable()):
        text = _CONTROL_SEQUENCE.sub("", _STRING_SEQUENCE.sub("", text))
        text = _SURROGATE.sub("\ufffd", _DROPPED.sub("", _SPACE.sub(" ", text)))
    # GitHub's runner obeys this wherever in a printed line it stands.
    return text.replace("##[", "## [")[:_SHOWN_CHARS]


_ACTIVE = re.compile(r"[\\`*_\[\]<>#&|~$@]|:(?=//)|(?<=[wW]{3})\.")
_INERT = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    # In a table's cell a backslash does not always keep these what they are.
    "|": "&#124;",
    "`": "&#96;",
    # A zero-width space after it keeps a name from being called, an issue or an address from being linked.
    "@": "@&#8203;",
    "#": "#&#8203;",
    ":": ":&#8203;",
    ".": ".&#8203;",
}


def escaped(text: str) -> str:
    """`text` cleaned, for the middle of a line of GitHub's Markdown: nothing in it is markup any more."""
    return _ACTIVE.sub(lambda found: _INERT.get(found[0], "\\" + found[0]), clean(text))


# --- words ------------------------------------------------------------------------------------------------

_ENDINGS = {
    "interrupted": "interrupted by the user",
    "api_error": "ended on an API error",
    "children_failed": "sub-agents failed",
}
_RELATIONS = {"subagent": "sub-agent of", "fork": "fork of", "continuation": "continues"}
_LISTED = 10
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STATUSES = [status.value for status in CallStatus]
_SCORED = {"tool_failures", "tool_retries", "edit_churn", "longest_failure_streak"}
_FACTS = {
    "statuses": "how calls went",
    "declined": "declined calls",
    "subagents": "sub-agents",
    "compaction": "compactions",
}
"""Facts that a log may not tell, where the name itself says too little."""
_SAME_ABSENCE = {"statuses": "tool_failures", "times": "duration"}
"""Names that say nothing more beside another one: without statuses there are no failures to count."""


def count(n: int, thing: str) -> str:
    """`1 call`, `2 calls`, `1,000 calls`."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def tokens(n: int) -> str:
    """A number of tokens in three digits: `950`, `12.3k`, `1.25M`."""
    for unit, size in (("", 1), ("k", 10**3), ("M", 10**6)):
        if n < 999.5 * size:
            return f"{n / size:.3g}{unit}"
    return f"{n / 10**9:,.3g}G" if n < 10**12 else f"{n // 10**9:,}G"


def place(path: str) -> str:
    """A path as it is said to people."""
    return "standard input" if path == "-" else path


def title(report: Report) -> str:
    """The session's title on one line; its id where it has none."""
    return " ".join(clean(report.title or "").split()) or f"session {clean(report.session_id)}"


def duration(report: Report) -> str:
    """How long the session went on; empty where the log has no times, or a single one."""
    if report.started_at is None or report.started_at == report.ended_at or report.ended_at is None:
        return ""
    minutes = report.duration_minutes
    if minutes < 1:
        return f"{round(minutes * 60)} s"
    hours, rest = divmod(round(minutes), 60)
    if hours > 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def ending(name: str) -> str:
    """An ending in words."""
    return _ENDINGS.get(name) or clean(name).replace("_", " ")


def relation(report: Report) -> str:
    """What the session is to another one; empty for a session of its own."""
    if report.relation is None:
        return ""
    parent = clean(report.parent_session_id or "another session")
    short = parent[: 8 if len(parent) == 36 else 24]  # of a UUID the beginning tells enough
    return f"{_RELATIONS.get(report.relation) or clean(report.relation)} {short}"


def models(report: Report) -> str:
    """The first two models, and how many more there were."""
    shown = [clean(model) for model in report.models[:2]]
    return ", ".join(shown) + (f" and {len(report.models) - 2} more" if len(report.models) > 2 else "")


def arithmetic(report: Report) -> tuple[str, str]:
    """The score as it came about, and the score itself: `100 - 9 - 10 =` and `81 B`."""
    points = [line.points for line in report.breakdown]
    if not points:
        return "nothing lost:", f"{report.score} {report.grade}"
    terms = " ".join(["100", *(f"- {lost}" for lost in points), "="])
    return terms, f"{report.score} {report.grade}{', never below 0' if sum(points) > 100 else ''}"


def why_unscored(report: Report) -> str:
    """Why a session got no score, and what would change that."""
    if not report.messages:
        return "there is no message in it"
    if report.facts.idle_long_enough:
        return "its log does not tell how it ended, and nothing in it counts against it"
    return "it may still be going on (--ended says that it is not)"


def lost(report: Report) -> str:
    """What the points went on, in one clause: `9 for 3 tool failures, 10 for failure streak`."""
    return ", ".join(f"{line.points} for {clean(line.label)}" for line in report.breakdown)


def total_of(line: BreakdownLine) -> int:
    """How many calls a line of the breakdown is about: its list may have been cut, its label was not."""
    first = line.label.partition(" ")[0]
    return max(len(line.calls), int(first) if first.isdecimal() else 0)


def shared_reason(line: BreakdownLine) -> str:
    """The reason that all calls of a line have, where it is more than their status: it is then said once."""
    reasons = {call.why for call in line.calls if call.call is not None}
    only = reasons.pop() if len(reasons) == 1 else ""
    return clean(only) if " " in only else ""


class Alike(NamedTuple):
    """Calls of a line, one after the other, of which the same is to be said; everything is cleaned."""

    calls: list[CallRef]
    tool: str
    file: str
    reason: str

    @property
    def messages(self) -> str:
        """The first of their messages: `#6 #15 #16 +2`."""
        numbers = list(dict.fromkeys(call.message for call in self.calls))
        more = f" +{len(numbers) - 3}" if len(numbers) > 3 else ""
        return " ".join(f"#{number}" for number in numbers[:3]) + more


def alike(line: BreakdownLine, shared: str) -> list[Alike]:
    """The calls of a line in their order, those alike together. The reason that all share is not said again."""
    groups: list[Alike] = []
    for call in line.calls:
        why = clean(call.why)
        reason = ", ".join(part for part in ("" if why == shared else why, clean(call.evidence)) if part)
        group = Alike([call], clean(call.tool or ""), clean(call.file or ""), reason)
        if groups and groups[-1][1:] == group[1:]:
            groups[-1].calls.append(call)
        else:
            groups.append(group)
    return groups


def said(group: Alike) -> str:
    """A group of calls in one line: `messages 3, 6, 8 +2, Bash, cart.py: failed, exit code 1`."""
    several = " " in group.messages
    numbers = group.messages.replace(" #", ", ").replace("#", "messages " if several else "message ")
    names = ", ".join(part for part in (numbers, group.tool, group.file) if part)
    return f"{names}: {group.reason}" if group.reason else names


def worst_and_newest(reports: Iterable[Report]) -> list[tuple[str, list[Report]]]:
    """Headings with the ten sessions under each, or one heading where there are no more in all.

    Sub-agents are left out, and so are logs without a message, of which agents leave many.
    """
    own = [report for report in reports if report.relation != "subagent" and report.messages]
    newest = sorted(own, key=lambda report: report.ended_at or _LONG_AGO, reverse=True)
    if len(newest) <= _LISTED:
        return [("Newest first", newest)] if newest else []
    # With an A a session is not among the worst, however few there are.
    scored = (report for report in newest if report.score is not None and report.grade != "A")
    worst = sorted(scored, key=lambda report: report.score or 0)[:_LISTED]
    heading = f"The {len(worst)} worst" if len(worst) > 1 else "The worst"
    lists = [(heading, worst)] if worst else []
    return [*lists, (f"The {_LISTED} newest", newest[:_LISTED])]


def unmeasured(report: Report) -> str:
    """What the log could not tell; empty when it told everything."""
    said_otherwise = {name for name, other in _SAME_ABSENCE.items() if other in report.basis}
    left = [name for name in report.basis if name not in said_otherwise]
    if not left:
        return ""
    names = ", ".join(map(fact, left))
    return f"not measured: {names}{'; the score rests on less' if _SCORED.intersection(left) else ''}"


def fact(name: str) -> str:
    """A fact that a log may not tell, in words."""
    return _FACTS.get(name) or clean(name).replace("_", " ")


def facts(report: Report) -> list[tuple[str, list[str]]]:
    """What else is known of a session, in rows of a label and its items; a row without items is left out."""
    calls = _statuses(report.statuses)
    if report.failures_per_100_calls is not None:
        calls.append(f"{report.failures_per_100_calls:g} failures per 100 calls")
    rows = [
        ("calls", calls),
        ("context", _context(report)),
        ("thinking", _thinking(report)),
        ("tokens", _usage(report.usage)),
        ("MCP", [_server(clean(name), tally) for name, tally in report.mcp_servers.items()]),
        ("events", [count(n, _event(kind)) for kind, n in report.events.items()]),
        ("prompts", _hygiene(report.hygiene)),
        ("unread", _losses(report.losses)),
    ]
    return [(label, items) for label, items in rows if items]


def _server(name: str, tally: ToolTally) -> str:
    return f"{name} {count(tally.calls, 'call')}" + (f", {tally.failures:,} failed" if tally.failures else "")


def overall(summary: Summary) -> list[tuple[str, list[str]]]:
    """What many sessions say together, in rows as `facts` has them."""
    rows = [
        ("grades", [f"{grade} {n}" for grade, n in summary.grades.items()]),
        ("outcomes", [f"{n:,} {name}" for name, n in summary.outcomes.items() if n]),
        ("endings", [f"{n:,} {ending(name)}" for name, n in summary.endings.items()]),
        ("calls", _statuses(summary.statuses)),
        ("failing", [f"{clean(t.tool)} {t.failures:,} of {t.calls:,}" for t in summary.worst_tools[:5]]),
        (
            "costly",
            [
                f"{signal.signal.replace('_', ' ')} {signal.points:,} points in {count(signal.sessions, 'session')}"
                for signal in summary.costly_signals
            ],
        ),
        ("tokens", _usage(summary.usage)),
        ("agents", [f"{clean(name)} {n:,}" for name, n in summary.agents.items()]),
        ("unread", _losses(summary.losses)),
    ]
    return [(label, items) for label, items in rows if items]


def _statuses(found: Mapping[str, int]) -> list[str]:
    known = sorted(found, key=lambda name: _STATUSES.index(name) if name in _STATUSES else len(_STATUSES))
    return [f"{found[name]:,} {clean(name)}" for name in known if found[name]]


def _context(report: Report) -> list[str]:
    if report.context is None:
        return []
    shed = f", shed {count(report.context.resets, 'time')}" if report.context.resets else ""
    return [f"peak {tokens(report.context.peak_tokens)} tokens{shed}"]


def _thinking(report: Report) -> list[str]:
    found = report.thinking
    if found is None or not found.thinking_turns:
        return []
    return [
        f"{found.band}, in {found.thinking_turns:,} of {count(found.assistant_turns, 'turn')}",
        f"hardest tenth about {tokens(found.tail_tokens)} tokens",
        f"peak {tokens(found.peak_tokens)}",
    ]


def _usage(found: UsageTotals | None) -> list[str]:
    if found is None:
        return []
    shown = [f"{tokens(found.input_tokens)} in"]
    if found.cache_read_tokens:
        shown.append(f"{tokens(found.cache_read_tokens)} cache read")
    if found.cache_write_tokens:
        shown.append(f"{tokens(found.cache_write_tokens)} cache written")
    at_least = "at least " if found.output_is_partial else ""
    reasoning = f" ({tokens(found.reasoning_tokens)} of it reasoning)" if found.reasoning_tokens else ""
    shown.append(f"{at_least}{tokens(found.output_tokens)} out{reasoning}")
    if found.requests:  # none: the log has only sums
        shown.append(count(found.requests, "request"))
    if found.cost_usd is not None:
        shown.append(f"${found.cost_usd:,.2f}")
    return shown


def _hygiene(found: Hygiene) -> list[str]:
    shown = [
        f"{n} of {found.prompts} {what}"
        for n, what in (
            (found.short, "under four words"),
            (found.duplicate, "repeat an earlier one"),
            (found.no_code_context, "ask for a change and name no code"),
        )
        if n
    ]
    return [*shown, "the first says little"] if found.unstructured_start else shown


def _event(kind: str) -> str:
    return clean(kind).replace("api_", "API ").replace("_", " ")


def _losses(found: Mapping[str, int]) -> list[str]:
    return [f"{clean(kind).replace('_', ' ')} ({n:,})" for kind, n in found.items()]


# --- JSON -------------------------------------------------------------------------------------------------

# JSON leaves these as they are, and a terminal that the document is printed on would obey them.
_BARE = re.compile(f"[\x80-\x9f\u2028\u2029{_INVISIBLE}]")


def document(reports: Sequence[Report], summary: Summary, failures: Sequence[Failure]) -> bytes:
    """The one JSON object of `demerit grade --format json`, in a line; docs/report-json.md has its keys.

    Texts are those of the transcript, with control and invisible characters written as escapes. Half a
    surrogate pair (a file name can hold one, JSON in UTF-8 cannot) is U+FFFD.
    """
    return encoded({"schema": SCHEMA, "reports": reports, "summary": summary, "errors": failures})


def encoded(value: Any) -> bytes:
    """`value` as JSON in one line, with nothing in it that a terminal would obey."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))
    if not data.isascii():
        data = _BARE.sub(lambda found: json.dumps(found[0])[1:-1], data.decode()).encode()
    return data.replace(b"\x7f", b"\\u007f")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


# --- Markdown ---------------------------------------------------------------------------------------------

_GROUPS_LISTED = 5


def markdown(
    tables: Sequence[tuple[str, Sequence[Report]]],
    sections: Iterable[Report],
    summary: Summary,
    failures: Sequence[Failure],
) -> str:
    """A summary, each table under its heading (an empty one gives none), and one section a report."""
    average = "" if summary.average_score is None else f", average score {summary.average_score:g}"
    lines = [f"## Report cards: {count(summary.sessions, 'session')}{average}", ""]
    for heading, reports in tables:
        lines += [f"### {escaped(heading)}", ""] if heading else []
        lines += [*_table(reports), ""]
    if summary.sessions > 1:
        lines += [f"- {label}: {', '.join(map(escaped, items))}" for label, items in overall(summary)]
        lines.append("")
    for report in sections:
        lines += [*_section(report), ""]
    if failures:
        lines += ["### No session in", ""]
        lines += [f"- {escaped(place(failure.path))}: {escaped(failure.reason)}" for failure in failures]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(reports: Sequence[Report]) -> Iterator[str]:
    yield "| Grade | Score | Session | Agent | Outcome | When (UTC) | Points lost |"
    yield "| :-: | --: | --- | --- | --- | --- | --- |"
    for report in reports:
        cells = (
            f"**{report.grade}**" if report.grade else "-",
            "-" if report.score is None else str(report.score),
            escaped(title(report)),
            escaped(report.agent),
            report.outcome.value,
            _when(report).removesuffix(" UTC"),
            escaped(lost(report)),
        )
        yield f"| {' | '.join(cells)} |"


def _section(report: Report) -> Iterator[str]:
    mark = "Unscored" if report.score is None else f"{report.grade} {report.score}"
    yield f"### {mark}: {escaped(title(report))}"
    yield ""
    about = [
        relation(report),
        report.agent,
        models(report),
        _when(report),
        duration(report),
        report.archetype.value,
    ]
    yield ", ".join(escaped(part) for part in about if part) + "  "
    if report.path is not None:
        yield escaped(place(report.path)) + "  "
    how = f"**{report.outcome.value}**, {report.confidence.value} confidence"
    yield f"{how}, {escaped(ending(report.ending))}  " if report.ending else f"{how}  "
    if report.score is None:
        yield f"unscored: {escaped(why_unscored(report))}"
    else:
        terms, result = arithmetic(report)
        yield f"{terms} **{result}**"
    yield ""
    for line in report.breakdown:
        shared = shared_reason(line)
        yield f"- **-{line.points}** {escaped(line.label)}{': ' + escaped(shared) if shared else ''}"
        groups = alike(line, shared)[:_GROUPS_LISTED]
        yield from (f"  - {escaped(said(group))}" for group in groups)
        left = total_of(line) - sum(len(group.calls) for group in groups)
        if groups and left > 0:
            yield f"  - {left:,} more"
    for label, items in facts(report):
        yield f"- {label}: {', '.join(map(escaped, items))}"
    if basis := unmeasured(report):
        yield f"- {escaped(basis)}"
    for advice in report.advice:
        yield ""
        yield f"> {escaped(advice.text)}"


def _when(report: Report) -> str:
    at = report.started_at or report.ended_at
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if at else ""
