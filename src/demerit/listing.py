"""What the store holds, laid out for a terminal: lists of sessions, transcripts, hits of a search, tables of panels.

As on the cards, texts of a transcript are printed only cleaned, line by line, and every line is laid out here to the
console's width. A table leaves out what is least telling where it has no room; a panel's never leaves out a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from time import monotonic
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from demerit.render import clean, count, ending, tokens
from demerit.store.reads import CallView, EventView, Mark, SessionRow, SessionView, TextView, TurnView
from demerit.store.search import Found, Hit
from demerit.store.status import Rebuilding
from demerit.terminal import STYLES, Cards

if TYPE_CHECKING:
    from demerit.config import Described
    from demerit.ingest import Pass, Progress
    from demerit.panels import Column, Panel, Table

_GAP = 2
_LABEL = 10
_LEAST_TITLE = 24
_WIDEST = 180
_TEXT_LINES = 40
"""Shown of a message; of a tool's input and result, and of thinking, fewer: they are heads of what can be opened."""
_INPUT_LINES, _RESULT_LINES, _THINKING_LINES = 2, 4, 1
_PIECE = 2000  # `clean` takes no more of a line at a time
_LONGEST_LINE = 20_000
_TAB = 4
_BAR_AFTER_S = 0.5
_REASONS = 5
_BIG = 100_000
"""Figures from here on are shown in three digits, where they are tokens."""

_CALL_STYLES = {"failed": "red", "invalid": "red", "declined": "yellow", "cancelled": "yellow", "ok": "green"}
_EVENTS = {
    "compaction": "context compacted",
    "interrupt": "interrupted",
    "api_error": "API error",
    "rewind": "rewound",
    "model_change": "model changed",
    "subagent": "sub-agent",
}


class _Field(NamedTuple):
    """One column of a table."""

    heading: str
    """In words, one below the other where that saves room."""
    cells: Sequence[Text]
    is_right: bool = False
    leaves: int = 0
    """The higher, the sooner it is left out where there is no room; 0: never."""
    most: int = 24
    """Cells that it may take."""

    @property
    def width(self) -> int:
        cells = max((cell.cell_len for cell in self.cells), default=0)
        return max(min(cells, self.most), *map(cell_len, self.heading.split(" ")))


class Pages(Cards):
    """Prints what the store holds on one console; now, zone and home are those of `Cards`."""

    # --- lists

    def sessions(self, rows: Sequence[SessionRow], sort: str = "started") -> None:
        """Print one line a session. What they are sorted by is always shown."""
        if not rows:
            return
        shown: dict[str, _Field] = {
            "id": _Field("id", [Text(str(row.id), "dim") for row in rows], True),
            "score": _Field("score", [_score(row) for row in rows]),
            "outcome": _Field("outcome", [_outcome(row) for row in rows], leaves=3),
            "started": _Field("when", [Text(self._ago(row.started or row.last), "dim") for row in rows], True),
            "title": _Field("session", [self._name(row) for row in rows], most=_WIDEST),
            "verdict": _Field("yours", [Text(row.verdict or "", "bold") for row in rows], leaves=2),
            "agent": _Field("agent", [Text(clean(row.agent)) for row in rows], leaves=2, most=16),
            "project": _Field("project", [Text(clean(row.project or "")) for row in rows], leaves=4, most=18),
            "duration": _Field("took", [Text(_minutes(row.duration_min)) for row in rows], True, 5),
            "model": _Field("model", [Text(clean(row.model or "")) for row in rows], leaves=6, most=22),
            "cost": _Field("cost", [Text(_dollars(row.cost_usd)) for row in rows], True, 7),
            "tokens": _Field("tokens", [Text(_tokens_of(row)) for row in rows], True, 8),
            "messages": _Field("messages", [Text(f"{row.messages:,}") for row in rows], True, 9),
        }
        if not any(row.verdict for row in rows):
            del shown["verdict"]
        shown[sort] = shown[sort]._replace(leaves=0)
        self._print(self._columns(list(shown.values()), list(shown).index("title")))

    def _ago(self, at: datetime | None) -> str:
        # A log may tell of times to come.
        return super()._ago(at) if at is None or at <= self._now else self._when(at)[:10]

    def _name(self, row: SessionRow) -> Text:
        name = " ".join(clean(row.title or "").split()) or f"session {clean(row.source_id)}"
        return Text().append(self._glyphs.arrow if row.relation == "subagent" else "", "dim").append(name)

    def _columns(self, fields: Sequence[_Field], stretched: int) -> Iterator[Text]:
        """The lines of a table; the field `stretched` gets the room that is left."""
        room = max(min(self._console.width, _WIDEST), 32)
        name = fields[stretched]
        kept = list(fields)

        def needed() -> int:
            least = min(_LEAST_TITLE, name.width)
            return sum(least if field is name else field.width for field in kept) + _GAP * (len(kept) - 1)

        while needed() > room and (out := max(kept, key=lambda field: field.leaves)).leaves:
            kept.remove(out)
        spare = room - sum(field.width + _GAP for field in kept if field is not name)
        widths = [min(name.width, max(spare, 8)) if field is name else field.width for field in kept]
        yield from self._head(widths, kept)
        for at in range(len(name.cells)):
            yield self._row([field.cells[at] for field in kept], widths, kept)

    def _head(self, widths: Sequence[int], fields: Sequence[_Field]) -> Iterator[Text]:
        """The headings, which stand on their table."""
        columns = [_stacked(field.heading, width) for field, width in zip(fields, widths, strict=True)]
        height = max(map(len, columns))
        columns = [[Text()] * (height - len(column)) + column for column in columns]
        for line in zip(*columns, strict=True):
            yield self._row(line, widths, fields)

    def _row(self, cells: Sequence[Text], widths: Sequence[int], fields: Sequence[_Field]) -> Text:
        line = Text()
        for at, (cell, width, field) in enumerate(zip(cells, widths, fields, strict=True)):
            cell = self._fitted(cell, width)
            space = " " * (width - cell.cell_len)
            line.append(" " * _GAP if at else "")
            line = line.append(space).append_text(cell) if field.is_right else line.append_text(cell).append(space)
        return line

    def _fitted(self, text: Text, width: int) -> Text:
        if text.cell_len <= width:
            return text
        cut = text.copy()
        dots = self._glyphs.dots
        cut.truncate(max(width - len(dots), 0))
        return cut.append(dots)

    # --- a search

    def hits(self, results: Sequence[Found]) -> None:
        """Print each session with the places in it, what was looked for in bold."""
        for at, found in enumerate(results):
            row = found.session
            about = [_score(row), Text(clean(row.agent), "dim"), Text(clean(row.project or ""), "dim")]
            about.append(Text(self._ago(row.started or row.last), "dim"))
            more = found.count - len(found.hits)
            about.append(Text(f"{more:,} more places" if more > 0 else "", "dim"))
            number = f"{row.id}  "
            name = self._cut(self._name(row).plain, self._width - len(number))
            lines = [Text().append(number, "dim").append(name, "bold")]
            indent = " " * len(number)
            lines += [Text(indent).append_text(part) for part in self._flow(_told(about), self._width - len(number))]
            for hit in found.hits:
                lines += self._hit(hit, indent)
            self._print([Text(), *lines] if at else lines)

    def _hit(self, hit: Hit, indent: str) -> Iterator[Text]:
        what = hit.kind if hit.tool is None else f"{clean(hit.tool)} {hit.kind}"
        heading = Text(indent).append(f"#{hit.message} ", "cyan").append(what, "dim")
        room = self._width - len(indent) - 4
        words = self._wrap(snippet(hit), room)
        yield heading
        for line in words:
            yield Text(indent + "    ").append_text(line)

    # --- one session

    def about(self, view: SessionView, notices: Iterable[str]) -> None:
        """Print the card of a session, or what is known of one without, and what there is to say beside it."""
        if view.report is not None:
            self.card(view.report)
        else:
            row = view.row
            what = [row.agent, row.model or "", self._when(row.started or row.last), _minutes(row.duration_min)]
            lines = self._wrap(Text(self._name(row).plain, "bold"), self._width)
            lines += self._flow([Text(clean(part)) for part in what if part], self._width)
            lines.append(Text(self._short(view.log_path, self._width), "dim"))
            self._print(lines)
        lines = [Text()]
        inner = " " * (len(self._indent) + _LABEL)
        for label, items in self._beside(view):
            for at, line in enumerate(self._flow([Text(item) for item in items], self._width - len(inner))):
                start = f"{self._indent}{label:<{_LABEL}}" if at == 0 else inner
                lines.append(Text().append(start, "dim").append_text(line))
        for notice in notices:
            lines += [Text(), *self._paragraph(clean(notice), self._glyphs.arrow)]
        self._print(lines)

    def _beside(self, view: SessionView) -> Iterator[tuple[str, list[str]]]:
        row = view.row
        yield "session", [f"{row.id}", clean(row.source_id)]
        if row.project:
            yield "project", [clean(row.project), *([clean(row.branch)] if row.branch else [])]
        if view.parent is not None:
            yield "parent", [f"{view.parent.id} {self._name(view.parent).plain}"]
        if view.children:
            shown = [f"{child.id} {child.grade or '-'} {self._name(child).plain}" for child in view.children[:_REASONS]]
            more = row.children - len(shown)
            yield "children", [*shown, *([f"{more:,} more"] if more > 0 else [])]
        if view.verdict is not None:
            yield "yours", [view.verdict.verdict, *([clean(view.verdict.note)] if view.verdict.note else [])]

    def transcript(self, turns: Iterable[TurnView], full: bool, folds: bool) -> None:
        """Print messages in their order, each as soon as it comes.

        full: all of every text that a turn has, else its first lines. folds: replayed messages in one line.
        """
        for is_folded, group in groupby(turns, lambda turn: turn.is_replayed and folds):
            if is_folded:
                self._print(self._replayed(group))
            else:
                for turn in group:
                    self._print(self._turn(turn, full))

    def _replayed(self, group: Iterable[TurnView]) -> Iterator[Text]:
        folded = [turn.ordinal for turn in group]
        numbers = f"#{folded[0]}" + (f" to #{folded[-1]}" if len(folded) > 1 else "")
        what = f"{count(len(folded), 'message')} of an earlier session, where they count: {numbers}"
        yield from (Text(), *self._wrap(Text(what, "dim"), self._width))

    def _turn(self, turn: TurnView, full: bool) -> Iterator[Text]:
        for event in turn.events_before:
            yield from self._event(event)
        yield from self._shed(turn.context_shed)
        yield Text()
        yield from self._flow(self._heading(turn), self._width)
        indent = "  "
        lines = self._folded("thought ", turn.thinking, _THINKING_LINES, full, "dim italic")
        yield from (Text(indent).append_text(line) for line in lines)
        if turn.thinking is None and turn.thinking_bytes:
            yield Text(f"{indent}thought, {size(turn.thinking_bytes)} that the log has not in plain text", "dim italic")
        if turn.text is not None:
            most = None if full else _TEXT_LINES
            style = "" if turn.role in ("user", "assistant") and turn.notice is None else "dim"
            lines = self._text(turn.text, self._width - len(indent), most, style)
            yield from (Text(indent).append_text(line) for line in lines)
        for call in turn.calls:
            yield from (Text(indent).append_text(line) for line in self._call(call, full))
        if turn.calls_made > len(turn.calls):
            yield Text(f"{indent}+{turn.calls_made - len(turn.calls):,} more calls", "dim")
        for event in turn.events:
            yield from self._event(event)
        yield from self._shed(turn.context_shed_after)

    def _heading(self, turn: TurnView) -> list[Text]:
        who = turn.role if turn.author != "agent" or turn.role == "assistant" else f"{turn.role} (an agent)"
        heading = Text(f"#{turn.ordinal} ", "bold cyan").append(who, "bold")
        parts = [heading, Text(ending(turn.notice) if turn.notice else "", "yellow")]
        parts += [Text(part, "dim") for part in (clean(turn.model or ""), self._when(turn.at))]
        if turn.usage is not None and turn.usage.context_tokens is not None:
            parts.append(Text(f"context {tokens(turn.usage.context_tokens)}", "dim"))
        if turn.is_sidechain:
            parts.append(Text("sub-agent's", "dim"))
        if turn.is_replayed:
            parts.append(Text("of an earlier session", "dim"))
        if turn.has_image:
            parts.append(Text("with an image", "dim"))
        if turn.stop_reason and turn.stop_reason not in ("end_turn", "tool_use", "stop", "tool_calls"):
            parts.append(Text(clean(turn.stop_reason), "yellow"))
        if turn.prompt is not None:
            said = ("under four words", turn.prompt.is_short), ("names no code", turn.prompt.no_code)
            parts += [Text(words, "yellow") for words, is_so in said if is_so]
            if turn.prompt.repeats is not None:
                parts.append(Text(f"repeats #{turn.prompt.repeats}", "yellow"))
        return _told([*parts, *map(_mark, turn.marks)])

    def _call(self, call: CallView, full: bool) -> Iterator[Text]:
        style = _CALL_STYLES.get(call.status, "dim")
        evidence = clean(call.evidence)
        parts = [Text(clean(call.name), "bold"), Text(call.status, style)]
        if evidence and call.status != "ok":
            parts.append(Text(evidence, "dim"))
        if not call.is_counted:
            parts.append(Text("counted before", "dim"))
        parts += map(_mark, call.marks)
        for at, line in enumerate(self._flow(parts, self._width - 4)):
            yield Text(self._glyphs.arrow if at == 0 else "  ", "cyan").append_text(line)
        yield from self._folded("  in  ", call.input, _INPUT_LINES, full)
        yield from self._folded("  out ", call.result, _RESULT_LINES, full)

    def _folded(self, start: str, text: TextView | None, most: int, full: bool, style: str = "dim") -> Iterator[Text]:
        """The beginning of a text, or all of it, behind the words `start`."""
        if text is None or not text.text.strip():
            return
        lines = self._text(text, self._width - 2 - cell_len(start), None if full else most, style)
        for at, line in enumerate(lines):
            yield Text().append(start if at == 0 else " " * cell_len(start), "dim").append_text(line)

    def _text(self, view: TextView, width: int, most: int | None, style: str = "") -> Iterator[Text]:
        """The lines of a text, cut after `most`, with a word on what is left."""
        made = 0
        lines = view.text.replace("\r\n", "\n").split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        for at, line in enumerate(lines):
            for part in self._line(line, width, style):
                if made == most:
                    left = f"{size(view.bytes)} in all" if view.is_cut else count(len(lines) - at, "line")
                    yield Text(f"{self._glyphs.dots} {left}" if view.is_cut else f"+{left}", "dim")
                    return
                made += 1
                yield part
        if view.is_cut:
            yield Text(f"{self._glyphs.dots} {size(view.bytes)} in all", "dim")

    def _line(self, line: str, width: int, style: str) -> list[Text]:
        """One line of a text, cleaned, in as many lines as it takes."""
        line = line.expandtabs(_TAB)
        pieces = [clean(line[at : at + _PIECE]) for at in range(0, min(len(line), _LONGEST_LINE), _PIECE)]
        if len(line) > _LONGEST_LINE:
            pieces.append(f" {self._glyphs.dots} +{len(line) - _LONGEST_LINE:,} characters")
        return self._wrap(Text("".join(pieces), style), width)

    def _event(self, event: EventView) -> Iterator[Text]:
        words = _EVENTS.get(event.kind) or clean(event.kind).replace("_", " ")
        detail = " ".join(clean(event.detail).split())
        yield self._divider(f"{words}: {detail}" if detail else words, "yellow")

    def _shed(self, times: int) -> Iterator[Text]:
        if times:
            yield self._divider("context shed" + (f" {times} times" if times > 1 else ""), "magenta")

    def _divider(self, words: str, style: str) -> Text:
        rule = self._glyphs.rule
        said = f"{rule * 4} {self._cut(words, self._width - 12)} "
        return Text(said + rule * max(self._width - cell_len(said), 0), style)

    # --- panels

    def panel(self, table: Table, panel: Panel) -> None:
        """Print a panel's question and all of its figures, with what they mean."""
        lines = [*self._question(panel, table), Text()]
        lines += self._figures(table, self._console.width)
        for note in table.notes:
            lines += [Text(), *self._wrap(Text(clean(note)), self._width)]
        if table.more:
            lines += [
                Text(),
                *self._wrap(Text(f"{table.more:,} more rows: --limit 0 shows all, as --csv does"), self._width),
            ]
        others = [name for name in panel.by if name != table.by]
        ends = [panel.why, f"Time: {panel.time_base}"]
        if others:
            ends.append(f"Other views: {', '.join(f'--by {name}' for name in others)}")
        for words in ends:
            lines += [Text(), *self._wrap(Text(words, "dim"), self._width)]
        self._print(lines)

    def glance(self, table: Table, panel: Panel, columns: Sequence[str]) -> None:
        """Print a panel's question and its first rows, in these columns as far as they fit."""
        fields = _fields(table, columns)
        width = min(self._console.width, _WIDEST)
        while len(fields) > 2 and sum(field.width + _GAP for field in fields) - _GAP > width:
            fields.pop()
        lines = [*self._question(panel, table), *self._columns(fields, 0)]
        more = f", {table.more:,} more rows" if table.more else ""
        lines.append(Text(f"demerit insights {table.panel}{more}", "dim"))
        self._print([*lines, Text()])

    def _question(self, panel: Panel, table: Table) -> Iterator[Text]:
        counted = f"{count(table.counted, 'session')}, by {table.by}"
        yield from self._flow([Text(panel.question, "bold"), Text(counted, "dim")], self._width)

    def _figures(self, table: Table, width: int) -> Iterator[Text]:
        """All rows, in columns where they fit, else one under the other."""
        fields = _fields(table)
        if not table.rows:
            yield Text("There is nothing to show.")
            return
        if sum(field.width + _GAP for field in fields) - _GAP <= min(width, _WIDEST):
            yield from self._columns(fields, 0)
            return
        for at in range(len(fields[0].cells)):
            yield Text().append_text(fields[0].cells[at]) if fields[0].cells[at].plain else Text("-")
            items = [
                Text(f"{field.heading} ", "dim").append_text(field.cells[at])
                for field in fields[1:]
                if field.cells[at].plain
            ]
            yield from (Text("  ").append_text(line) for line in self._flow(items, self._width - 2))

    def figures(self, table: Table) -> None:
        """Print the rows of a table, and nothing around them."""
        self._print(self._figures(table, self._console.width))

    def words(self, sentences: Iterable[str], style: str = "dim") -> None:
        """Print sentences of our own, wrapped, each on lines of its own."""
        for sentence in sentences:
            self._print(self._wrap(Text(clean(sentence), style), self._width))

    def line(self, words: str, style: str = "dim") -> None:
        """Print something to be copied: on one line, however long it is."""
        self._print([Text(clean(words), style)])


def _stacked(heading: str, width: int) -> list[Text]:
    """The words of a heading in lines of this width."""
    lines: list[str] = []
    for word in heading.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [Text(line, "dim") for line in lines]


# --- figures ---------------------------------------------------------------------------------------------------


def _fields(table: Table, wanted: Sequence[str] = ()) -> list[_Field]:
    """The columns of a panel's table as they are shown, or of these only: an interval with its rate, and nothing that
    says the same of every row.
    """
    names = [column.name for column in table.columns]
    rows = [row.values for row in table.rows]
    total = [] if table.total is None else [table.total.values]
    fields: list[_Field] = []
    for at, column in enumerate(table.columns):
        base = column.name.removesuffix("_low").removesuffix("_high")
        if base != column.name and base in names:
            continue  # the ends of an interval, which stand with their rate
        if wanted and column.name not in wanted:
            continue
        if column.name == "project_key" and len({row[names.index("project")] for row in rows}) == len(rows):
            continue
        if column.name == "is_dated" and all(row[at] for row in rows):
            continue
        low = names.index(f"{column.name}_low") if f"{column.name}_low" in names else None
        cells = []
        for number, row in enumerate([*rows, *total]):
            text = _figure(row[at], column)
            if low is not None and row[low] is not None:
                text += f" ({_percent(row[low])[:-1]}-{_percent(row[low + 1])})"
            is_total = number == len(rows)
            if is_total and not fields and row[at] is None:
                text = "all"
            cells.append(Text(text, "bold" if is_total else ""))
        heading = column.name.replace("_", " ").removesuffix(" usd")
        is_said = column.unit in ("", "share", "USD", "date") or set(column.unit.split()) <= set(heading.split())
        is_words = column.unit in ("", "date")
        said = heading if is_said else f"{heading} ({column.unit})"
        fields.append(_Field(said, cells, not is_words, most=44 if is_words else 32))
    return fields


def _figure(value: object, column: Column) -> str:
    """A value in words; a dash where there was nothing to measure."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return " ".join(clean(value).split()) or "-"
    if column.unit == "share":
        return _percent(value)
    if column.unit == "USD" and isinstance(value, int | float):
        return _dollars(value)
    if column.unit == "tokens" and isinstance(value, int | float) and value >= _BIG:
        return tokens(round(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"  # type: ignore[operator]


def _percent(value: object) -> str:
    share = float(value) * 100  # type: ignore[arg-type]
    return f"{share:.0f}%" if share in (0, 100) or 9.95 <= share < 99.5 else f"{share:.1f}%"


def _dollars(value: float | None) -> str:
    return "" if value is None else f"${value:,.2f}" if value >= 0.005 or not value else f"${value:.2g}"


def _score(row: SessionRow) -> Text:
    style = STYLES.get(row.grade or "", "dim")
    return Text(row.grade or "-", f"bold {style}").append("" if row.score is None else f" {row.score:>3}", style)


def _outcome(row: SessionRow) -> Text:
    if row.outcome is None:
        return Text("ungraded", "dim")
    return Text(row.outcome, "dim" if row.confidence == "low" else STYLES.get(row.outcome, ""))


def _tokens_of(row: SessionRow) -> str:
    found = [row.input_tokens, row.cache_read_tokens, row.cache_write_tokens, row.output_tokens]
    return "" if row.input_tokens is None else tokens(sum(number or 0 for number in found))


def _minutes(minutes: float | None) -> str:
    if not minutes:  # one single time tells no length
        return ""
    if minutes < 1:
        return f"{round(minutes * 60)} s"
    hours, rest = divmod(round(minutes), 60)
    if hours > 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def size(number: int) -> str:
    """A number of bytes in three digits: `950 bytes`, `12.3 kB`, `1.25 MB`."""
    if number < 1000:
        return f"{number} bytes"
    for unit, power in (("kB", 1e3), ("MB", 1e6)):
        if number < 999.5 * power:
            return f"{number / power:.3g} {unit}"
    return f"{number / 1e9:,.3g} GB" if number < 1e12 else f"{number / 1e9:,.0f} GB"


def _told(parts: Iterable[Text]) -> list[Text]:
    return [part for part in parts if part.plain]


def _mark(mark: Mark) -> Text:
    return Text(f"cost points: {clean(mark.label)}, {clean(mark.why)}", "bold red")


def snippet(hit: Hit) -> Text:
    """The surroundings of what was found, cleaned, with that in bold."""
    shown = Text()
    at = 0
    for start, end in hit.marks:
        shown.append(clean(hit.snippet[at:start])).append(clean(hit.snippet[start:end]), "bold")
        at = end
    return shown.append(clean(hit.snippet[at:]))


# --- sentences -------------------------------------------------------------------------------------------------


def in_short(result: Pass, seconds: float) -> str:
    """What a pass over the logs found and did, in one line. seconds: that it took; 0: without a rate."""
    parts = [f"{count(result.found, 'log')} found", f"{result.unchanged:,} unchanged"]
    rate = f" ({size(result.bytes)}, {result.bytes / 1e6 / seconds:,.1f} MB/s)" if result.read and seconds > 0 else ""
    parts.append(f"{result.read:,} read{rate}")
    parts.append(f"{count(result.sessions, 'session')} new or changed")
    if result.graded:  # besides those that had ended when they were read
        parts.append(f"{result.graded:,} graded that had ended since")
    if result.gone:
        parts.append(f"{result.gone:,} gone from the disk")
    if result.failed:
        parts.append(f"{len(result.failed):,} without a session")
    if result.skipped:
        parts.append(f"{len(result.skipped):,} skipped")
    return ", ".join(parts)


def reasons(result: Pass, most: int = _REASONS) -> Iterator[str]:
    """Which logs gave no session, and why: the first `most`, and how many more."""
    others = [*result.failed, *result.skipped]
    for path, reason in others[:most]:
        yield f"passed over {path}: {reason}"
    if len(others) > most:
        yield f"passed over {len(others) - most:,} more; --json lists all of them"


def under_way(found: Rebuilding) -> str:
    """That a rebuild stands between the question and its answer, and for how long."""
    how_far = f"{found.logs_done:,} of {count(found.logs, 'log')}"
    begun = (
        f"this version of demerit reads all logs again, and has done {how_far}; nothing is compared until all are read"
    )
    if found.seconds_left is None:
        return f"{begun}: demerit rebuild goes on"
    return f"{begun}, in about {_left(found.seconds_left)}"


def _left(seconds: float) -> str:
    return count(max(1, round(seconds)), "second") if seconds < 90 else count(round(seconds / 60), "minute")


def settings_lines(found: Sequence[Described]) -> Iterator[str]:
    """Every setting on a line: its name, its value, and where that came from where it is no default."""
    names = max(len(one.name) for one in found)
    for one in found:
        value = clean(msgspec.json.encode(one.value).decode())
        place = one.place
        where = "" if place.origin == "default" else f"  ({place.origin} {clean(place.name or '')})"
        yield f"{one.name:<{names}} = {value}{where}"


@contextmanager
def bar(stream: IO[str]) -> Iterator[Callable[[Progress], None] | None]:
    """What to tell the progress of a pass to: a bar with rate and time left; None where nobody looks."""
    if not stream.isatty():
        yield None
        return
    # Few passes take long enough for a bar, and importing it takes a while.
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Shown

    console = Console(file=stream)
    columns = [TextColumn("{task.description}"), TransferSpeedColumn(), TimeRemainingColumn()]
    if console.width >= 80:
        columns[1:1] = [BarColumn(bar_width=24), DownloadColumn()]
    # Refreshed here, and not by a thread of its own, because processes are forked meanwhile.
    with Shown(*columns, console=console, transient=True, auto_refresh=False) as shown:
        task = shown.add_task("looking for logs", total=None)
        begun = refreshed = monotonic()

        def report(progress: Progress) -> None:
            nonlocal refreshed
            words = f"{progress.logs:,} of {progress.of_logs:,} logs"
            shown.update(task, total=progress.of_bytes, completed=progress.bytes, description=words)
            if monotonic() - begun > _BAR_AFTER_S and monotonic() - refreshed > 0.1:
                shown.refresh()
                refreshed = monotonic()

        yield report


__all__ = ["Pages", "bar", "in_short", "reasons", "settings_lines", "size", "snippet", "under_way"]
