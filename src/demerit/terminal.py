"""Report cards for a terminal, laid out with Rich.

Transcripts are hostile: what comes from one is printed only as cleaned text inside a `rich.text.Text`, so
that neither the terminal nor Rich's markup ever reads it. Every line is laid out here to the console's width,
in terminal cells, so that nothing is wrapped in the middle of a word or a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import zip_longest
from typing import IO, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from demerit.quality.report import BreakdownLine, CallRef, Report, UsageTotals
from demerit.quality.summary import Summary
from demerit.render import (
    arithmetic,
    clean,
    count,
    duration,
    ending,
    hygiene,
    outcome,
    relation,
    statuses,
    title,
    tokens,
    unmeasured,
    why_unscored,
)

_GRADE_STYLES = {"A": "green", "B": "cyan", "C": "yellow", "D": "dark_orange", "F": "red"}
_OUTCOME_STYLES = {"completed": "green", "abandoned": "yellow", "errored": "red", "unknown": "dim"}
_STATUS_STYLES = {"failed": "red", "invalid": "red", "ok": "green"}

_PIPE_COLUMNS = 100
_WIDEST_CARD = 120
_WIDEST_LIST = 160
# Below this, a call's evidence goes on a line of its own.
_NARROW = 64
_CALLS_SHOWN = 4
_LABEL = 9


class _Glyphs(NamedTuple):
    letters: Mapping[str | None, tuple[str, str]]
    dot: str
    dots: str
    arrow: str
    rule: str


_FANCY = _Glyphs(
    {
        "A": ("▄▀█", "█▀█"),
        "B": ("█▄▄", "█▄█"),
        "C": ("█▀▀", "█▄▄"),
        "D": ("█▀▄", "█▄▀"),
        "F": ("█▀▀", "█▀ "),
        None: ("▄▄▄", "   "),
    },
    " · ",
    "…",
    "→ ",
    "─",
)
_PLAIN = _Glyphs({grade: (f"[{grade or '-'}]", "   ") for grade in (*"ABCDF", None)}, " | ", "...", "> ", "-")


def console_for(stream: IO[str], environ: Mapping[str, str]) -> Console:
    """A console on `stream`: of the terminal's own width, or of COLUMNS, else 100 columns into a pipe or file."""
    columns = environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and 0 < int(columns) < 10_000 else None
    if width is None and not stream.isatty():
        width = _PIPE_COLUMNS
    # Typer and others print through Rich as well: nothing here may depend on its markup, emoji or guesses.
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


class Cards:
    """Prints report cards on one console.

    zone: the time zone that times are shown in; the machine's own when None.
    home: the user's home folder, shown as `~` in paths.
    """

    def __init__(
        self, console: Console, now: datetime, zone: tzinfo | None = None, home: str | None = None
    ) -> None:
        self._console = console
        self._now = now
        self._zone = zone
        self._home = home.rstrip("/\\") if home else None
        self._glyphs = _FANCY if _can_show(console, _FANCY) else _PLAIN
        self._width = max(min(console.width, _WIDEST_CARD), 24)
        self._indent = 6 if self._width >= _NARROW else 2

    def card(self, report: Report) -> None:
        """Print the card of one session."""
        lines = [*self._header(report), Text()]
        lines += self._score(report)
        for number, line in enumerate(report.breakdown):
            lines += self._breakdown(report, line, number)
        rows = [*self._facts(report)]
        lines += [Text(), *rows] if rows else []
        if report.advice:
            lines.append(Text())
            for advice in report.advice:
                lines += self._paragraph(clean(advice.text), self._glyphs.arrow)
        self._print(lines)

    def rule(self) -> None:
        """Print the line between two cards."""
        self._print([Text(), Text(self._glyphs.rule * self._width, "dim"), Text()])

    def summary(self, summary: Summary) -> None:
        """Print what many cards say together."""
        heading = [Text(count(summary.sessions, "session"), "bold")]
        if summary.subagents:
            heading.append(Text(f"{summary.subagents} of them sub-agents'"))
        if summary.average_score is not None:
            heading.append(Text(f"average score {summary.average_score:g}"))
        lines = [*self._flow(heading, self._width), Text()]
        lines.append(Text(" " * self._indent).append_text(self._bar(summary.grades)))
        rows: list[tuple[str, list[Text]]] = [
            ("grades", [_grade_count(grade, n) for grade, n in summary.grades.items()]),
            ("outcomes", [Text(f"{n} {name}", _OUTCOME_STYLES[name]) for name, n in summary.outcomes.items() if n]),
            ("endings", [Text(f"{n} {ending(name)}") for name, n in summary.endings.items()]),
            ("calls", _status_items(summary.statuses)),
            (
                "worst",
                [Text(f"{clean(t.tool)} failed {t.failures} of {t.calls}") for t in summary.worst_tools[:5]],
            ),
            (
                "costliest",
                [
                    Text(f"{s.signal.replace('_', ' ')} {s.points:,} points in {count(s.sessions, 'session')}")
                    for s in summary.costly_signals
                ],
            ),
            ("tokens", list(map(Text, _usage(summary.usage)))),
            ("agents", [Text(f"{clean(name)} {n}") for name, n in summary.agents.items()]),
            ("unread", _losses(summary.losses)),
        ]
        for label, items in rows:
            lines += self._row(label, items)
        self._print(lines)

    def list(self, heading: str, reports: Sequence[Report]) -> None:
        """Print a heading, and one line a session."""
        width = min(self._console.width, _WIDEST_LIST)
        self._print([Text(), Text(heading, "bold"), *(self._line(report, width) for report in reports)])

    def _print(self, lines: Iterable[Text]) -> None:
        self._console.print(Text("\n").join(lines), soft_wrap=True)

    # The parts of a card

    def _header(self, report: Report) -> list[Text]:
        style = _GRADE_STYLES.get(report.grade or "", "dim")
        figure = "" if report.score is None else str(report.score)
        left = [Text(row, style) for row in self._glyphs.letters[report.grade]]
        left.append(Text(f"{figure:>3}", f"bold {style}"))
        width = self._width - 6
        right = self._wrap(Text(title(report), "bold"), width)[:2]
        right += self._flow(self._about(report), width)
        right += self._flow(self._ending(report), width)
        if report.path is not None:
            path = "standard input" if report.path == "-" else self._short(report.path, width)
            right.append(Text(path, "dim"))
        return [
            Text(" ").append_text(beside or Text("   ")).append("  ").append_text(line or Text())
            for beside, line in zip_longest(left, right)
        ]

    def _about(self, report: Report) -> list[Text]:
        models = [clean(model) for model in report.models[:2]]
        if len(report.models) > 2:
            models.append(f"+{len(report.models) - 2} more")
        parts = [
            relation(report),
            clean(report.agent),
            ", ".join(models),
            self._when(report.started_at or report.ended_at),
            duration(report),
            report.archetype.value,
        ]
        return [Text(part, "cyan" if part is parts[0] else "") for part in parts if part]

    def _ending(self, report: Report) -> list[Text]:
        muted = report.confidence.value == "low"
        items = [
            Text(report.outcome.value, "dim" if muted else f"bold {_OUTCOME_STYLES[report.outcome.value]}")
            + Text(f", {report.confidence.value} confidence", "dim" if muted else "")
        ]
        if report.ending:
            items.append(Text(ending(report.ending), "yellow"))
        return items

    def _score(self, report: Report) -> list[Text]:
        if report.score is None:
            return self._paragraph(f"unscored: {why_unscored(report)}", "", "dim")
        style = _GRADE_STYLES.get(report.grade or "", "")
        *terms, result = arithmetic(report)
        items = [Text(" ".join(terms) + " "), Text(result, f"bold {style}")]
        return [Text(" " * self._indent).append_text(items[0]).append_text(items[1])]

    def _breakdown(self, report: Report, line: BreakdownLine, number: int) -> list[Text]:
        reasons = {call.why for call in line.calls}
        # A reason that all calls share, and that is more than a status, is said once.
        shared = reasons.pop() if len(reasons) == 1 and " " in min(reasons, default="") else None
        if shared is not None and line.calls[0].call is None:
            shared = None
        items = [Text(clean(line.label), "bold")]
        if shared:
            items.append(Text(clean(shared), "dim"))
        points = f"{-line.points:>3}  "
        inner = self._indent + len(points)
        lines = self._flow(items, self._width - inner)
        lines[0] = Text(" " * self._indent).append(points, "bold red").append_text(lines[0])
        lines[1:] = [Text(" " * inner).append_text(more) for more in lines[1:]]
        lines += self._calls(line.calls[:_CALLS_SHOWN], inner, shared)
        left = total_of(line) - min(len(line.calls), _CALLS_SHOWN)
        if left > 0 and line.calls:
            lines.append(Text(f"{' ' * inner}+{left} more", "dim"))
        return lines

    def _calls(self, calls: Sequence[CallRef], indent: int, shared: str | None) -> list[Text]:
        numbers = max((len(str(call.message)) for call in calls), default=0) + 1
        tools = min(max((cell_len(clean(call.tool or "")) for call in calls), default=0), 18)
        files = max((cell_len(clean(call.file or "")) for call in calls), default=0)
        room = self._width - indent - numbers - 2
        lines: list[Text] = []
        for call in calls:
            line = Text(" " * indent).append(f"#{call.message:<{numbers - 1}}", "dim").append("  ")
            why = ", ".join(filter(None, ["" if call.why == shared else clean(call.why), clean(call.evidence)]))
            if call.tool is None:
                lines.append(line.append(self._cut(why, room)))
                continue
            tool = self._cut(clean(call.tool), tools)
            if self._width >= _NARROW:
                place = min(files, (room - tools - 2) // 2)
                line.append(set_cell_size(tool, tools)).append("  ")
                if files:
                    line.append(set_cell_size(self._short(call.file or "", place), place), "cyan").append("  ")
                    why = self._cut(why, room - tools - place - 4)
                lines.append(line.append(self._cut(why, room - tools - 2), "dim"))
            else:
                line.append(tool).append("  ").append(self._short(call.file or "", room - cell_len(tool) - 2), "cyan")
                lines.append(line)
                if why:
                    lines.append(Text(" " * (indent + numbers + 2)).append(self._cut(why, room), "dim"))
        return lines

    def _facts(self, report: Report) -> Iterable[Text]:
        calls = _status_items(report.statuses)
        if report.failures_per_100_calls is not None:
            calls.append(Text(f"{report.failures_per_100_calls:g} failures per 100 calls"))
        yield from self._row("calls", calls)
        if report.context:
            shed = f", shed {count(report.context.resets, 'time')}" if report.context.resets else ""
            yield from self._row("context", [Text(f"peak {tokens(report.context.peak_tokens)} tokens{shed}")])
        thought = report.thinking
        if thought and thought.thinking_turns:
            yield from self._row(
                "thinking",
                [
                    Text(f"{thought.band}, in {thought.thinking_turns} of {count(thought.assistant_turns, 'turn')}"),
                    Text(f"hardest tenth about {tokens(thought.tail_tokens)} tokens"),
                    Text(f"peak {tokens(thought.peak_tokens)}"),
                ],
            )
        yield from self._row("tokens", list(map(Text, _usage(report.usage))))
        yield from self._row("events", [Text(count(n, kind.replace("_", " "))) for kind, n in report.events.items()])
        yield from self._row("prompts", list(map(Text, hygiene(report.hygiene))), "yellow")
        yield from self._row("unread", _losses(report.losses))
        if basis := unmeasured(report):
            yield from self._paragraph(basis, "", "dim")

    # Many sessions

    def _bar(self, grades: Mapping[str, int]) -> Text:
        """One letter for each part of the sessions that got it: it reads without colour as well."""
        total = sum(grades.values())
        room = min(60, self._width - self._indent)
        bar = Text()
        shown = [(grade, n) for grade, n in grades.items() if n]
        spare = room - len(shown)
        for grade, n in shown:
            style = _GRADE_STYLES.get(grade)
            letter = grade if style else "-"
            bar.append(letter * (1 + spare * n // total), f"bold black on {style}" if style else "dim")
        return bar

    def _line(self, report: Report, width: int) -> Text:
        style = _GRADE_STYLES.get(report.grade or "", "dim")
        line = Text("  ").append(report.grade or "-", f"bold {style}")
        line.append(f"  {'' if report.score is None else report.score:>3}  ", style)
        if width >= 60:
            muted = report.confidence.value == "low"
            line.append(f"{report.outcome.value:<9}  ", "dim" if muted else _OUTCOME_STYLES[report.outcome.value])
        line.append(f"{self._ago(report.ended_at):>10}  ", "dim")
        room = width - line.cell_len
        agent = cell_len(clean(report.agent)) if width >= 80 else 0
        path = (room - agent) // 2 - 4 if width >= 100 and report.path else 0
        name = room - sum(part + 2 for part in (max(agent, 11), path) if part) if agent else room
        line.append(set_cell_size(self._cut(title(report), name), name))
        if agent:
            line.append(f"  {clean(report.agent):<11}", "dim")
        if path and report.path:
            line.append("  ").append(self._short(report.path, path), "dim")
        line.rstrip()
        return line

    # Text

    def _row(self, label: str, items: Sequence[Text], style: str = "") -> list[Text]:
        """`items` in lines beside their label; nothing when there is none."""
        if not items:
            return []
        inner = self._indent + _LABEL + 1
        lines = self._flow(items, self._width - inner)
        for at, line in enumerate(lines):
            start = f"{' ' * self._indent}{label:<{_LABEL}} " if at == 0 else " " * inner
            lines[at] = Text(start, "dim").append_text(Text(style=style).append_text(line))
        return lines

    def _paragraph(self, words: str, mark: str, style: str = "") -> list[Text]:
        width = self._width - self._indent - len(mark)
        lines = self._wrap(Text(words, style), width)
        for at, line in enumerate(lines):
            start = mark if at == 0 else " " * len(mark)
            lines[at] = Text(" " * self._indent).append(start, "cyan").append_text(line)
        return lines

    def _flow(self, items: Sequence[Text], width: int) -> list[Text]:
        """`items` with dots between them, broken between items where it can be."""
        lines: list[Text] = []
        for item in items:
            dot = self._glyphs.dot
            if lines and lines[-1].cell_len + len(dot) + item.cell_len <= width:
                lines[-1].append(dot, "dim").append_text(item)
            else:
                lines += self._wrap(item, width)
        return lines

    def _wrap(self, text: Text, width: int) -> list[Text]:
        return list(text.wrap(self._console, max(width, 8))) or [Text()]

    def _cut(self, text: str, cells: int) -> str:
        if cell_len(text) <= cells:
            return text
        dots = self._glyphs.dots
        return set_cell_size(text, max(cells - len(dots), 0)).rstrip() + dots

    def _short(self, path: str, cells: int) -> str:
        """The end of a path, which tells more than its beginning, from the start of a name where that fits."""
        shown = clean(path)
        if self._home and shown.startswith(self._home) and shown[len(self._home) :][:1] in ("/", "\\"):
            shown = "~" + shown[len(self._home) :]
        if cell_len(shown) <= cells:
            return shown
        dots = self._glyphs.dots
        room = max(cells - len(dots), 0)
        while cell_len(shown) > room:
            _, slash, rest = shown[1:].partition("/")
            if not slash or not rest:
                break
            shown = slash + rest
        while cell_len(shown) > room:
            shown = shown[max(1, (cell_len(shown) - room) // 2) :]
        return dots + shown

    def _when(self, at: datetime | None) -> str:
        return at.astimezone(self._zone).strftime("%Y-%m-%d %H:%M") if at else ""

    def _ago(self, at: datetime | None) -> str:
        if at is None:
            return ""
        gone = max(self._now - at, timedelta())
        if gone < timedelta(hours=1):
            return f"{gone // timedelta(minutes=1)} min ago"
        if gone < timedelta(days=2):
            return f"{gone // timedelta(hours=1)} h ago"
        return f"{gone.days} days ago" if gone.days < 100 else at.astimezone(self._zone).strftime("%Y-%m-%d")


def total_of(line: BreakdownLine) -> int:
    """How many calls a line of the breakdown is about: its own list may have been cut, its label was not."""
    first = line.label.partition(" ")[0]
    return max(len(line.calls), int(first) if first.isdecimal() else 0)


def _can_show(console: Console, glyphs: _Glyphs) -> bool:
    try:
        "".join([*glyphs.letters["A"], glyphs.dot, glyphs.dots, glyphs.arrow, glyphs.rule]).encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _grade_count(grade: str, n: int) -> Text:
    return Text(f"{grade} {n}", _GRADE_STYLES.get(grade, "dim") if n else "dim")


def _status_items(found: Mapping[str, int]) -> list[Text]:
    return [Text(f"{n:,} {name}", _STATUS_STYLES.get(name, "")) for name, n in statuses(found)]


def _usage(usage: UsageTotals | None) -> list[str]:
    """Tokens by class, most telling first; nothing when the log has none."""
    if usage is None:
        return []
    parts: list[tuple[int | None, Callable[[str], str]]] = [
        (usage.input_tokens, lambda n: f"{n} in"),
        (usage.cache_read_tokens or None, lambda n: f"{n} cache read"),
        (usage.cache_write_tokens or None, lambda n: f"{n} cache written"),
        (usage.output_tokens, lambda n: f"{n} out"),
        (usage.reasoning_tokens or None, lambda n: f"{n} of it reasoning"),
    ]
    shown = [say(tokens(n)) for n, say in parts if n is not None]
    shown.append(count(usage.requests, "request"))
    if usage.cost_usd is not None:
        shown.append(f"${usage.cost_usd:,.2f}")
    return shown


def _losses(losses: Mapping[str, int]) -> list[Text]:
    return [Text(f"{n:,} {clean(kind).replace('_', ' ')}") for kind, n in losses.items()]
