"""Report cards for a terminal, laid out with Rich.

Texts of a transcript are printed only cleaned, and inside a `rich.text.Text`: neither the terminal nor Rich's
markup reads them. Every line is laid out here to the console's width, in terminal cells, so that nothing
breaks in the middle of a word or a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from itertools import zip_longest
from typing import IO, NamedTuple, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from demerit.quality.report import BreakdownLine, Report
from demerit.quality.summary import Summary
from demerit.render import (
    Alike,
    alike,
    arithmetic,
    clean,
    count,
    duration,
    ending,
    facts,
    models,
    overall,
    place,
    relation,
    shared_reason,
    title,
    total_of,
    unmeasured,
    why_unscored,
    worst_and_newest,
)

STYLES = {
    "A": "green",
    "B": "cyan",
    "C": "yellow",
    "D": "dark_orange",
    "F": "red",
    "completed": "green",
    "abandoned": "yellow",
    "errored": "red",
    "unknown": "dim",
    "failed": "red",
    "invalid": "red",
    "prompts": "yellow",
    "unread": "yellow",
}

_Result = TypeVar("_Result")

_PIPE_COLUMNS = 100
_MOST_COLUMNS = 10_000
# Longer lines are harder to read, and a card has nothing to fill them with.
_WIDEST_CARD = 110
_LEAST = 32
_WIDEST_LIST = 180
_NARROW = 64
"""Below this the indent shrinks, and a call's evidence goes on a line of its own."""
_GROUPS_SHOWN = 4
_LABEL_CELLS = 9
_FILE_CELLS = 44
_AGENT_CELLS = 16


class _Glyphs(NamedTuple):
    letters: Mapping[str | None, tuple[str, str]]
    dot: str
    dots: str
    arrow: str
    rule: str


_FANCY = _Glyphs(
    letters={
        "A": ("▄▀█", "█▀█"),
        "B": ("█▄▄", "█▄█"),
        "C": ("█▀▀", "█▄▄"),
        "D": ("█▀▄", "█▄▀"),
        "F": ("█▀▀", "█▀ "),
        None: ("▄▄▄", "   "),
    },
    dot=" · ",
    dots="…",
    arrow="→ ",
    rule="─",
)
# For a console whose encoding has no such letters.
_PLAIN = _Glyphs(
    letters={grade: (f"[{grade or '-'}]", "   ") for grade in (*"ABCDF", None)},
    dot=" | ",
    dots="...",
    arrow="> ",
    rule="-",
)


def console_for(stream: IO[str], environ: Mapping[str, str]) -> Console:
    """A console on `stream`: as wide as COLUMNS says, or the terminal is; 100 columns into a pipe or a file."""
    columns = environ.get("COLUMNS", "")
    said = min(int(columns[:9]), _MOST_COLUMNS) if columns.isascii() and columns[:9].isdecimal() else 0
    width = said or None
    if width is None and not stream.isatty():
        width = _PIPE_COLUMNS
    return _Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command: Rich itself would exit here."""
        raise BrokenPipeError


class Cards:
    """Prints report cards on one console.

    now: aware time that "2 h ago" counts from.
    zone: where times are shown; the machine's own when None.
    home: the user's home folder, shown as `~` in paths.
    """

    def __init__(self, console: Console, now: datetime, zone: tzinfo | None = None, home: str | None = None) -> None:
        self._console = console
        self._now = now
        self._zone = zone
        self._home = home.rstrip("/\\") if home else None
        self._glyphs = _FANCY if _can_show(_FANCY, console.encoding) else _PLAIN
        self._width = max(min(console.width, _WIDEST_CARD), _LEAST)
        self._indent = " " * (6 if self._width >= _NARROW else 2)

    def card(self, report: Report) -> None:
        """Print the card of one session."""
        lines = [*self._header(report), Text(), *self._score(report)]
        for line in report.breakdown:
            lines += self._breakdown(line)
        rows = self._rows(facts(report))
        if basis := unmeasured(report):
            rows += self._paragraph(basis, style="dim")
        lines += [Text(), *rows] if rows else []
        for at, advice in enumerate(report.advice):
            lines += [Text()] if at == 0 else []
            lines += self._paragraph(clean(advice.text), self._glyphs.arrow)
        self._print(lines)

    def summary(self, summary: Summary, span: str = "") -> None:
        """Print what many cards say together; `span` says which they are."""
        heading = [Text(f"{count(summary.sessions, 'session')} {span}".rstrip(), "bold")]
        if summary.subagents:
            heading.append(Text(f"{count(summary.subagents, 'sub-agent')} among them"))
        if summary.average_score is not None:
            heading.append(Text(f"average score {summary.average_score:g}"))
        bar = Text(self._indent).append_text(self._bar(summary.grades))
        self._print([*self._flow(heading, self._width), Text(), bar, *self._rows(overall(summary))])

    def all(self, reports: Sequence[Report], summary: Summary) -> None:
        """Print every card, and what several say together."""
        for at, report in enumerate(reports):
            if at:
                self._rule()
            self.card(report)
        if len(reports) > 1:
            self._rule()
            self.summary(summary)

    def overview(self, reports: Sequence[Report], summary: Summary, span: str) -> None:
        """Print what all say together, and one line for each of the worst and the newest sessions."""
        self.summary(summary, span)
        for heading, listed in worst_and_newest(reports):
            self._print([Text(), Text(heading, "bold"), *self._sessions(listed)])

    def _rule(self) -> None:
        self._print([Text(), Text(self._glyphs.rule * self._width, "dim"), Text()])

    def _print(self, lines: Iterable[Text]) -> None:
        with self._console:  # one write for all of them
            for line in lines:
                line.rstrip()
                self._console.print(line, no_wrap=True, overflow="ignore", crop=False)

    # The parts of a card

    def _header(self, report: Report) -> Iterator[Text]:
        style = STYLES.get(report.grade or "", "dim")
        score = "" if report.score is None else str(report.score)
        grade = [*(Text(row, style) for row in self._glyphs.letters[report.grade]), Text(f"{score:>3}", style)]
        grade[-1].stylize("bold")
        width = self._width - 6
        beside = self._wrap(Text(self._cut(title(report), 2 * width - 8), "bold"), width)
        beside += self._flow(self._about(report), width)
        beside += self._flow(self._outcome(report), width)
        if report.path is not None:
            beside.append(Text(self._short(place(report.path), width), "dim"))
        for left, right in zip_longest(grade, beside, fillvalue=Text("   ")):
            yield Text(" ").append_text(left).append("  ").append_text(right)

    def _about(self, report: Report) -> list[Text]:
        what = [relation(report), clean(report.agent), models(report), self._when(report.started_at or report.ended_at)]
        return [Text(part) for part in (*what, duration(report), report.archetype.value) if part]

    def _outcome(self, report: Report) -> list[Text]:
        low = report.confidence.value == "low"
        verdict = Text(report.outcome.value, "dim" if low else f"bold {STYLES[report.outcome.value]}")
        verdict.append(f", {report.confidence.value} confidence", "dim" if low else "")
        return [verdict, Text(ending(report.ending), "yellow")] if report.ending else [verdict]

    def _score(self, report: Report) -> list[Text]:
        if report.score is None:
            return self._paragraph(f"unscored: {why_unscored(report)}", style="dim")
        terms, result = arithmetic(report)
        line = Text(terms + " ").append(result, f"bold {STYLES.get(report.grade or '', '')}")
        return [Text(self._indent).append_text(part) for part in self._wrap(line, self._width - len(self._indent))]

    def _breakdown(self, line: BreakdownLine) -> list[Text]:
        shared = shared_reason(line)
        points = f"{-line.points:>3}  "
        inner = self._indent + " " * len(points)
        most = f" (at most {line.points})" if line.is_capped else ""
        heading = [Text(clean(line.label) + most, "bold"), *([Text(shared, "dim")] if shared else [])]
        lines = [Text(inner).append_text(part) for part in self._flow(heading, self._width - len(inner))]
        lines[0] = Text(self._indent).append(points, "bold red").append_text(lines[0][len(inner) :])
        groups = alike(line, shared)
        shown = groups[:_GROUPS_SHOWN]
        lines += self._calls(shown, inner)
        left = total_of(line) - sum(len(group.calls) for group in shown)
        if shown and left > 0:
            lines.append(Text(f"{inner}+{left:,} more", "dim"))
        return lines

    def _calls(self, groups: Sequence[Alike], inner: str) -> Iterator[Text]:
        wide = self._width >= _NARROW
        numbers = max((len(group.messages) for group in groups), default=0) if wide else 0
        room = self._width - len(inner) - numbers - 2
        tools = [group.tool + (f" x{len(group.calls)}" if len(group.calls) > 1 else "") for group in groups]
        tool_cells = min(max(map(cell_len, tools), default=0), room // 2)
        # The end of a path still tells something, the beginning of a reason often nothing.
        reason_cells = min(max((cell_len(group.reason) for group in groups), default=0), (room - tool_cells) * 3 // 5)
        most = min(room - tool_cells - reason_cells - 4, _FILE_CELLS)
        file_cells = max((cell_len(self._short(group.file, most)) for group in groups), default=0) if most > 5 else 0
        for group, tool in zip(groups, tools, strict=True):
            line = Text(inner).append(f"{group.messages:<{numbers}}  ", "dim")
            if not group.tool:
                start = line.cell_len
                for at, part in enumerate(self._wrap(Text(group.reason), self._width - start)):
                    yield (line if at == 0 else Text(" " * start)).append_text(part)
            elif wide:
                line.append(set_cell_size(self._cut(tool, tool_cells), tool_cells) + "  ")
                if file_cells > 0:
                    line.append(set_cell_size(self._short(group.file, file_cells), file_cells) + "  ", "cyan")
                yield line.append(self._cut(group.reason, self._width - line.cell_len), "dim")
            else:
                room = self._width - line.cell_len
                line.append(self._cut(tool, room // 2 if group.file else room))
                if group.file:
                    line.append("  ").append(self._short(group.file, self._width - line.cell_len - 2), "cyan")
                yield line
                if group.reason:
                    yield Text(inner + "  ").append(self._cut(group.reason, self._width - len(inner) - 2), "dim")

    # Many sessions

    def _bar(self, grades: Mapping[str, int]) -> Text:
        """A bar of letters, each standing for a share of the sessions: it reads without colour as well."""
        shown = [(grade, n) for grade, n in grades.items() if n]
        total = sum(n for _, n in shown)
        spare = min(60, self._width - len(self._indent)) - len(shown)
        bar = Text()
        for grade, n in shown:
            style = STYLES.get(grade)
            bar.append((grade if style else "-") * (1 + spare * n // total), f"black on {style}" if style else "dim")
        return bar

    def _sessions(self, reports: Sequence[Report]) -> Iterator[Text]:
        width = max(min(self._console.width, _WIDEST_LIST), _LEAST)
        agents = max((cell_len(clean(report.agent)) for report in reports), default=0) if width >= 80 else 0
        agents = min(agents, _AGENT_CELLS)
        for report in reports:
            style = STYLES.get(report.grade or "", "dim")
            line = Text("  ").append(report.grade or "-", f"bold {style}")
            line.append(f"  {'' if report.score is None else report.score:>3}  ", style)
            if width >= _NARROW:
                low = report.confidence.value == "low"
                line.append(f"{report.outcome.value:<9}  ", "dim" if low else STYLES[report.outcome.value])
            line.append(f"{self._ago(report.ended_at or report.started_at):>11}  ", "dim")
            room = width - line.cell_len - (agents + 2 if agents else 0)
            path = (room - 2) * 2 // 5 if width >= 100 else 0
            name = room - (path + 2 if path else 0)
            line.append(set_cell_size(self._cut(title(report), name), name))
            if agents:
                line.append("  " + set_cell_size(self._cut(clean(report.agent), agents), agents))
            if path:
                line.append("  " + self._short(report.path or "", path), "dim")
            yield line

    # Text

    def _rows(self, rows: Iterable[tuple[str, list[str]]]) -> list[Text]:
        lines: list[Text] = []
        inner = " " * (len(self._indent) + _LABEL_CELLS + 1)
        for label, items in rows:
            styled = [Text(item, _style_of(label, item)) for item in items]
            for at, line in enumerate(self._flow(styled, self._width - len(inner))):
                start = f"{self._indent}{label:<{_LABEL_CELLS}} " if at == 0 else inner
                lines.append(Text().append(start, "dim").append_text(line))
        return lines

    def _paragraph(self, words: str, mark: str = "", style: str = "") -> list[Text]:
        lines = self._wrap(Text(words, style), self._width - len(self._indent) - len(mark))
        return [
            Text(self._indent).append(mark if at == 0 else " " * len(mark), "cyan").append_text(line)
            for at, line in enumerate(lines)
        ]

    def _flow(self, items: Sequence[Text], width: int) -> list[Text]:
        """`items` with dots between them, in lines that break between items as long as these fit a line."""
        lines: list[Text] = []
        for item in items:
            dot = self._glyphs.dot
            if lines and lines[-1].cell_len + len(dot) + item.cell_len <= width:
                lines[-1] = Text().append_text(lines[-1]).append(dot, "dim").append_text(item)
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
        """The end of a path, which tells more than its beginning: whole names of it where one fits."""
        shown = clean(path)
        if self._home and shown.startswith((self._home + "/", self._home + "\\")):
            shown = "~" + shown[len(self._home) :]
        if cell_len(shown) <= cells:
            return shown
        dots = self._glyphs.dots
        room = max(cells - len(dots), 1)
        while cell_len(shown) > room and "/" in shown[1:]:
            shown = shown[shown.index("/", 1) :]
        if cell_len(shown) > room:
            shown = shown.removeprefix("/")
        while cell_len(shown) > room:
            shown = shown[max(1, (cell_len(shown) - room) // 2) :]
        return dots + shown

    def _when(self, at: datetime | None) -> str:
        if at is None:
            return ""
        with suppress(OverflowError):  # in the first or the last hours of the calendar
            at = at.astimezone(self._zone)
        return at.strftime("%Y-%m-%d %H:%M")

    def _ago(self, at: datetime | None) -> str:
        if at is None:
            return ""
        gone = max(self._now - at, timedelta())
        if gone < timedelta(hours=1):
            return f"{gone // timedelta(minutes=1)} min ago"
        if gone < timedelta(days=2):
            return f"{gone // timedelta(hours=1)} h ago"
        return f"{gone.days} days ago" if gone.days < 100 else self._when(at)[:10]


def _style_of(label: str, item: str) -> str:
    """The style of one item of a row: of the grade or status that it counts, else of its row."""
    words = item.split() or [""]
    first, last = words[0], words[-1]
    if label == "grades":
        return STYLES.get(first, "dim") if last != "0" else "dim"
    return STYLES.get(last if label in ("calls", "outcomes") else label, "")


def _can_show(glyphs: _Glyphs, encoding: str) -> bool:
    try:
        "".join([*glyphs.letters["A"], *glyphs[1:]]).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def watched(results: Iterable[_Result], sizes: Sequence[int]) -> Iterator[_Result]:
    """`results` as they come, one for each file of these `sizes` in bytes, with a progress bar on stderr."""
    # Few runs take long enough for a bar, and importing it takes a while.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), TransferSpeedColumn(), TimeRemainingColumn()]
    if console.width >= 80:
        columns[1:1] = [BarColumn(bar_width=24), DownloadColumn()]
    # Refreshed here, and not by a thread of its own, because processes are forked meanwhile.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task(f"0 of {len(sizes):,} files", total=sum(sizes))
        refreshed = 0.0
        for at, (result, size) in enumerate(zip(results, sizes, strict=True), 1):
            progress.update(task, advance=size, description=f"{at:,} of {len(sizes):,} files")
            if progress.get_time() - refreshed > 0.1:
                progress.refresh()
                refreshed = progress.get_time()
            yield result
