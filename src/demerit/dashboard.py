"""The status of a proxy in a terminal: once, or live.

A status comes from another process, which may be of another version and has model names from anywhere. So nothing is
expected of it: what is missing is left out, a counter of a newer proxy is shown by its name, and every text is cleaned.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import StringIO
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from demerit.defects import COUNTERS, DEFECTS, TURNS, ModelDefectCounts, ModelTurnCounts, rates
from demerit.proxy.sse import Reader, payloads
from demerit.render import clean, count
from demerit.store.guarded import CountRow

__all__ = ["NoProxy", "follow", "kept", "print_lines", "shown"]

RETRY_S = 1.0
_SILENCE_S = 60.0  # a proxy says something every 15 s at least, unless it was set otherwise
_LARGEST = 64 << 20
_LEAST = 24
_NAME_CELLS = 48
_FIGURE_ENDS = 33
_TURNS_SHOWN = 5

_TRIP_PARTS = {"loop_guard_loops": "loops", "loop_guard_stagnations": "stagnations"}
_INSIDE = {*_TRIP_PARTS, "repairs_succeeded", "reasoning_only"}
"""Counters that are shown with the one that they are a part of."""
_REPEATS = ("identical_result_repeats", "repeats_not_evaluated", "repeats_rescued")
_AROUND = ("upstream_refusals", "first_byte_timeouts", "unreadable_frames")
_AGENTS = ("agent_loops", "agent_stagnations")


class NoProxy(Exception):
    """There is no proxy to show; one sentence says what is there instead, and what to do."""


class _Away(Exception):
    """The proxy cannot be reached right now."""


# --- following it -------------------------------------------------------------------------------------------


def follow(url: str, key: str | None, console: Console, once: bool = False, explain: bool = False) -> None:
    """Show the proxy at `url` on a console, live until interrupted; once, where that is no terminal.

    url: where it listens, without a path. key: shown to it; None: it wants none. explain: say what each row counts.
    Raises NoProxy when none is there, or what is there does not let us see it. One that was there is waited for.
    """
    if once or not (console.is_interactive and console.file.isatty()):
        try:
            found = _whole(url, key)
        except _Away as away:
            raise NoProxy(_start_one(str(away))) from None
        print_lines(console, shown(_document(found, url), console.width, explain))
        return
    document: dict[str, Any] | None = None
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            reason = f"the proxy at {url} ended"
            try:
                for newest in _documents(url, key):
                    document = newest
                    live.update(_fitting(shown(document, console.width, explain), console), refresh=True)
            except _Away as away:
                reason = str(away)
            if document is None:
                raise NoProxy(_start_one(reason))
            notice = _wrapped(Text(f"{reason}; trying again", "yellow"), max(console.width, _LEAST))
            live.update(_fitting([*notice, Text(), *shown(document, console.width, explain)], console), refresh=True)
            time.sleep(RETRY_S)


def _fitting(lines: Sequence[Text], console: Console) -> Group:
    """Lines of which the last says how many more there are, where the window has no room for all."""
    room = console.height - 1
    if len(lines) <= room:
        return Group(*lines)
    shown = lines[: max(1, room - 1)]
    more = len(lines) - len(shown)
    return Group(*shown, Text(f"... {more} more lines: a taller window or --once shows them", "dim", no_wrap=True))


def _start_one(reason: str) -> str:
    return f"{reason}; start one with demerit proxy --upstream URL, or say where it is with --url"


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines, each on its own."""
    with console:  # one write for all of them
        for line in lines:
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _whole(url: str, key: str | None) -> bytes:
    with _asked(url, "/v1/proxy/status", key) as response:
        return response.read(_LARGEST)


def _documents(url: str, key: str | None) -> Iterator[dict[str, Any]]:
    """Each status as it comes, until the proxy ends the stream."""
    with _asked(url, "/v1/proxy/status/stream", key) as response:
        reader = Reader()
        while chunk := response.read1(1 << 16):
            for data in payloads(reader.feed(chunk)):
                yield _document(data, url)


@contextmanager
def _asked(url: str, path: str, key: str | None) -> Iterator[HTTPResponse]:
    """The proxy's answer. Raises NoProxy where it is no status, and _Away where none comes, or its end does not."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        with closing(kind(parts.hostname or "", parts.port, timeout=_SILENCE_S)) as connection:
            connection.request("GET", path, headers={} if key is None else {"Authorization": f"Bearer {key}"})
            with connection.getresponse() as response:
                _check(response.status, url, key)
                yield response
    except (OSError, HTTPException) as error:
        raise _away(url, error) from None


def _check(status: int, url: str, key: str | None) -> None:
    if status == 401:
        said = "wants another key" if key else "wants a key"
        raise NoProxy(f"the proxy at {url} {said}: put it into the setting proxy_key")
    if status == 403:
        raise NoProxy(f"the proxy at {url} does not answer to that name: add it to its setting allowed_hosts")
    if status >= 500:
        raise _Away(f"what answers at {url} says {status}")
    if status != 200:
        raise NoProxy(_no_proxy(url))


def _away(url: str, error: Exception) -> _Away:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return _Away(f"no proxy answers at {url} ({reason})")


def _document(data: bytes, url: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NoProxy(_no_proxy(url))
    return found


def _no_proxy(url: str) -> str:
    return f"what answers at {url} is no demerit proxy; say where it is with --url"


# --- what is shown ------------------------------------------------------------------------------------------


def shown(document: Mapping[str, Any], width: int, explain: bool = False) -> list[Text]:
    """A status document in lines of at most `width` cells (24 at least); of models, those with something to report."""
    width = max(width, _LEAST)
    models = [_Model(clean(name), of) for name, of in _mapping(document, "models").items() if isinstance(of, Mapping)]
    told = sorted((model for model in models if model.has_something), key=lambda model: -model.failures)
    lines = [*_head(document, width), *_upstreams(document, width), Text(), *_state(document, models, told, width)]
    for model in told:
        lines += [Text(), *_model(model, width)]
    lines += _outside(document, width)
    lines += _turns(document, width)
    if explain:
        lines += _explained(told, width)
    elif told:
        lines += [Text(), *_wrapped(Text("--explain says what each row counts", "dim"), width)]
    return lines


def kept(counts: Iterable[CountRow], since: datetime) -> dict[str, Any]:
    """What the store has counted, in the form of a status document: of all proxies that wrote it, in all versions."""
    models: dict[str, dict[str, int]] = {}
    for row in counts:
        of_model = models.setdefault(row.model, {})
        of_model[row.counter] = of_model.get(row.counter, 0) + row.value
    told = {}
    for model, of_model in models.items():
        defects = ModelDefectCounts(**{name: of_model.get(name, 0) for name in DEFECTS})
        turns = ModelTurnCounts(**{name: of_model.get(name, 0) for name in TURNS})
        told[model] = {"defects": defects, "turns": turns, "rates": rates(defects, turns)}
    document: dict[str, Any] = msgspec.to_builtins({"models": told, "started_at": since})
    return document


def _head(document: Mapping[str, Any], width: int) -> list[Text]:
    words = [f"demerit proxy {_text(document, 'version')}".rstrip()]
    if mode := _text(document, "guard_mode"):
        words.append(f"loop guard: {mode}")
    if (uptime_s := _number(document, "uptime_s")) is not None:
        words.append(f"up {_span(uptime_s)}")
    if turns := _list(document, "in_flight"):
        words.append(f"{len(turns):,} in flight")
    head = Text("  ".join(words))
    head.stylize("bold", 0, len(words[0]))
    return _wrapped(head, width)


def _upstreams(document: Mapping[str, Any], width: int) -> Iterator[Text]:
    for upstream in _list(document, "upstreams"):
        words = [f"{_text(upstream, 'name')}  {_text(upstream, 'url')}".strip()]
        serves, most = _whole_number(upstream, "in_flight"), _whole_number(upstream, "max_inflight")
        words.append(f"serves {serves:,}{f' of {most:,}' if most else ''}")
        if queued := _whole_number(upstream, "queued"):
            words.append(f"{queued:,} waiting")
        line = Text(f"upstream {'  '.join(words)}")
        if refusals := _whole_number(upstream, "refusals"):
            last = _text(upstream, "last_error")
            line.append(f"  {count(refusals, 'refusal')}{f', last: it {last}' if last else ''}", "yellow")
        yield from _wrapped(line, width, 2)


class _Model:
    """What a document says of one model."""

    def __init__(self, name: str, of: Mapping[str, Any]) -> None:
        self.name = name
        self.defects = _counts(of, "defects")
        self.turns = _counts(of, "turns")
        self.rates = {_text(rate, "name"): rate for rate in _list(of, "rates")}

    @property
    def reports(self) -> list[str]:
        """Counters that are above 0 and are a reason to show a model, those first that this version knows."""
        # That a client hung up or that many were scanned is nobody's fault.
        found = [name for name in DEFECTS if name != "requests" and name not in _INSIDE]
        found += [*_AROUND, "cycles", *_AGENTS]
        found += [name for name in self.defects if name not in COUNTERS]
        return [name for name in found if self.of(name)]

    @property
    def failures(self) -> int:
        """How much there is to report: those with most come first."""
        return sum(map(self.of, self.reports))

    @property
    def has_something(self) -> bool:
        return bool(self.reports)

    def of(self, name: str) -> int:
        return self.defects.get(name) or self.turns.get(name) or 0

    def rate(self, name: str) -> str:
        """A counter's rate over what it is a part of; empty where that was not measured."""
        over = COUNTERS[name].over if name in COUNTERS else None
        rate = self.rates.get(f"{name}/{over or 'requests'}", {})
        value, low, high = (_number(rate, key) for key in ("value", "low", "high"))
        if value is None:
            return ""
        interval = "" if low is None or high is None else f" ({_percent(low)}-{_percent(high)})"
        return f"{_percent(value)} %{interval} of {_whole_number(rate, 'denominator'):,} {_label(over or 'requests')}"


def _state(document: Mapping[str, Any], models: list[_Model], told: list[_Model], width: int) -> Iterator[Text]:
    requests = count(sum(model.of("requests") for model in models), "request")
    if not models:
        line = Text("nothing recorded yet", "dim")
    elif not told:
        line = Text(f"all clean: {requests}, {count(len(models), 'model')}", "green")
    else:
        line = Text(f"{len(told):,} of {count(len(models), 'model')} with something to report; {requests} in all")
    if since := _time(document, "started_at"):
        line.append(f", since {since:%Y-%m-%d %H:%M} UTC", "dim")
    yield from _wrapped(line, width)


class _Row(NamedTuple):
    label: str
    figure: str
    rate: str = ""
    indent: int = 2


def _model(model: _Model, width: int) -> Iterator[Text]:
    asked, checked = model.of("requests"), model.of("agent_scanned")
    line = Text(_cut(model.name or "(no name)", min(_NAME_CELLS, width)), "bold")
    if asked or not checked:
        line.append(f"  {count(asked, 'request')}", "not bold")
    if checked:
        line.append(f"  {count(checked, 'turn')} checked", "not bold")
    yield from _wrapped(line, width, 2)
    for row in _rows(model):
        yield from _laid_out(row, width)


def _rows(model: _Model) -> Iterator[_Row]:
    defects = [name for name in model.reports if name in model.defects and name not in _REPEATS]
    for name in defects:
        yield from _rows_of(model, name)
    if around := [name for name in (*_AROUND, "client_aborts") if model.of(name)]:
        yield _Row("around the answers", "")
        yield from (_Row(_label(name), f"{model.of(name):,}", model.rate(name), 4) for name in around)
    if seen := [name for name in (*_REPEATS, "cycles") if model.of(name)]:
        yield _Row("seen in the conversations", "")
        yield from (_Row(_label(name), f"{model.of(name):,}", model.rate(name), 4) for name in seen)
    if agents := [name for name in _AGENTS if model.of(name)]:
        yield _Row("agents' own guards", "")
        yield from (_Row(_label(name), f"{model.of(name):,}", model.rate(name), 4) for name in agents)


def _rows_of(model: _Model, name: str) -> Iterator[_Row]:
    n = model.of(name)
    if name == "loop_guard_trips":
        yield _Row(_label(name), f"{n:,}", model.rate(name))
        yield from (_Row(part, f"{model.of(of):,}", model.rate(of), 4) for of, part in _TRIP_PARTS.items())
    elif name == "repairs_attempted":
        succeeded = model.of("repairs_succeeded")
        yield _Row("repairs", f"{succeeded:,} of {n:,} succeeded", model.rate("repairs_succeeded"))
        yield _Row("attempted", f"{n:,}", model.rate(name), 4)
    elif name == "empty_responses" and (reasoning := model.of("reasoning_only")):
        yield _Row(_label(name), f"{n:,} ({reasoning:,} reasoning-only)", model.rate(name))
    else:
        yield _Row(_label(name), f"{n:,}", model.rate(name))


def _laid_out(row: _Row, width: int) -> Iterator[Text]:
    """A row on one line; its rate on a line of its own where there is no room."""
    label = " " * row.indent + row.label
    room = max(_FIGURE_ENDS - cell_len(label), len(row.figure) + 2)
    line = Text(f"{label}{row.figure:>{room}}" if row.figure else label)
    if cell_len(line.plain) > width:
        line = Text(f"{label}  {row.figure}")
    if row.rate and cell_len(line.plain) + 2 + len(row.rate) <= width:
        line.append(f"  {row.rate}", "dim")
        yield line
        return
    yield from _wrapped(line, width, row.indent + 2)
    if row.rate:
        yield from _wrapped(Text(" " * (row.indent + 2) + row.rate, "dim"), width, row.indent + 2)


def _outside(document: Mapping[str, Any], width: int) -> Iterator[Text]:
    """What is in no model's counts."""
    said = []
    paths = _counts(document, "uncounted_paths")
    if any(paths.values()):
        listed = ", ".join(f"{clean(path)} {n:,}" for path, n in paths.items())
        said.append(f"passed through and in no counter: {listed}")
    failures = _counts(document, "stage_failures")
    if any(failures.values()):
        listed = ", ".join(f"{clean(stage)} {n:,}" for stage, n in failures.items())
        said.append(f"steps of the proxy that failed and were passed over: {listed}")
    if lost := _whole_number(_mapping(document, "trips_log"), "lost"):
        said.append(f"entries of the trips log that could not be kept: {lost:,}")
    for at, text in enumerate(said):
        yield from ([Text()] if at == 0 else [])
        yield from _wrapped(Text(text, "yellow"), width, 2)


def _turns(document: Mapping[str, Any], width: int) -> Iterator[Text]:
    """What is being served, and what ended last."""
    serving = _list(document, "in_flight")
    if serving:
        yield from (Text(), Text("in flight", "bold"))
    for turn in serving[:_TURNS_SHOWN]:
        words = [_text(turn, "phase"), _span(_number(turn, "age_s") or 0), _cut(_text(turn, "model"), _NAME_CELLS)]
        yield from _wrapped(Text("  " + "  ".join(words)), width, 4)
    if len(serving) > _TURNS_SHOWN:
        yield Text(f"  and {len(serving) - _TURNS_SHOWN:,} more", "dim")
    recent = _list(document, "recent")
    if recent:
        yield from (Text(), Text("ended last", "bold"))
    for turn in recent[: -_TURNS_SHOWN - 1 : -1]:
        at = _time(turn, "at")
        words = [f"{at:%H:%M:%S}"] if at else []
        words += [_cut(_text(turn, "model"), _NAME_CELLS), str(_whole_number(turn, "status") or "-")]
        words.append(_label(_text(turn, "ended")))
        if trip := _text(turn, "trip"):
            words.append(f"tripped: {trip}")
        if (took := _number(turn, "duration_s")) is not None:
            words.append(_span(took))
        is_well = _text(turn, "ended") == "clean" and not trip
        yield from _wrapped(Text("  " + "  ".join(words), "" if is_well else "yellow"), width, 4)


def _explained(told: list[_Model], width: int) -> Iterator[Text]:
    """What each row that is shown counts; every one of the sixteen where none is."""
    shows = {name for model in told for name in (*model.reports, *_INSIDE, "client_aborts") if model.of(name)}
    names = [name for name in COUNTERS if name in shows or name == "requests"] if shows else DEFECTS
    yield from (Text(), Text("what each counts", "bold"))
    for name in names:
        yield from _wrapped(Text(f"  {_label(name)}: {COUNTERS[name].says}"), width, 4)


# --- words and room -------------------------------------------------------------------------------------------


def _label(name: str) -> str:
    return "turns checked" if name == "agent_scanned" else clean(name).replace("_", " ")


def _percent(share: float) -> str:
    """Of 100, in two digits: `0`, `0.97`, `2.1`, `60`."""
    return f"{100 * share:.2g}" if share < 0.0995 else f"{100 * share:.0f}"


def _span(seconds: float) -> str:
    if not 0 <= seconds < 1e11:
        return "?"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24:,} d {hours % 24} h"
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {left} s" if minutes else f"{left} s"


def _cut(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 2).rstrip() + ".."


def _wrapped(text: Text, width: int, indent: int = 0) -> list[Text]:
    """A text on lines of at most `width` cells, those after the first indented. Long words are broken."""
    begins = len(text.plain) - len(text.plain.lstrip())
    lines = text[begins:].wrap(_measuring(), width - max(begins, indent))
    for at, line in enumerate(lines):
        line.rstrip()
        line.pad_left(indent if at else begins)
    return list(lines)


@cache
def _measuring() -> Console:
    """What Rich wants for wrapping; nothing is printed on it."""
    return Console(file=StringIO(), width=80, markup=False, emoji=False, highlight=False)


# --- reading what may not be there ----------------------------------------------------------------------------


def _mapping(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(of: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = of.get(name)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _text(of: Mapping[str, Any], name: str) -> str:
    found = of.get(name)
    return clean(found) if isinstance(found, str) else ""


def _number(of: Mapping[str, Any], name: str) -> float | None:
    found = of.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _whole_number(of: Mapping[str, Any], name: str) -> int:
    """The count of that name; 0 where there is none."""
    found = of.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def _counts(of: Mapping[str, Any], name: str) -> dict[str, int]:
    found = _mapping(of, name)
    return {key: _whole_number(found, key) for key in found}


def _time(of: Mapping[str, Any], name: str) -> datetime | None:
    try:
        return datetime.fromisoformat(_text(of, name)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
