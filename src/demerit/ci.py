"""What a CI system is told: whether sessions reach the bar, and reports as JUnit XML, SARIF and GitHub annotations.

Texts of a transcript get in only cleaned, so that they stay on one line and hold nothing to obey; what XML, a
SARIF message or a workflow command would read otherwise is escaped here. Files are named as the code host knows
them: relative to the checkout, or to the folder that the agent worked in.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby
from types import ModuleType
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from msgspec.structs import replace

from demerit import __version__
from demerit.quality.report import BreakdownLine, CallRef, Report
from demerit.quality.score import GRADE_ORDER, PenaltyKind, grade_for, penalties
from demerit.render import (
    Failure,
    alike,
    arithmetic,
    clean,
    encoded,
    lost,
    place,
    said,
    shared_reason,
    title,
    total_of,
    why_unscored,
)

# --- the bar ----------------------------------------------------------------------------------------------


class Missed(NamedTuple):
    """Why a session did not pass."""

    kind: Literal["below_bar", "unscored"]
    sentence: str


class Gate(NamedTuple):
    """What `--fail-under` asks of a session."""

    bar: str
    """The grade or the score, as people say it."""
    score: float
    allow_unscored: bool = False
    subagents: bool = False

    @classmethod
    def read(cls, text: str, allow_unscored: bool = False, subagents: bool = False) -> Gate:
        """The gate with the bar that a grade or a score names. Raises ValueError, with a sentence, when it is neither.

        >>> Gate.read("b").score, Gate.read("80").bar
        (75, '80')
        """
        letter = text.strip().upper()
        if letter and letter in GRADE_ORDER:
            lowest = next(score for score in range(101) if grade_for(score) == letter)
            return cls(letter, lowest, allow_unscored, subagents)
        if re.fullmatch(r"\d{1,3}(\.\d{1,9})?", letter, re.ASCII) and (number := float(letter)) <= 100:
            return cls(f"{number:g}", number, allow_unscored, subagents)
        near = {"E": "D"}.get(letter) or (letter[:1] if letter[1:] in ("+", "-") and letter[0] in "ABCDF" else "")
        if re.fullmatch(r"\d+%?", letter, re.ASCII):
            near = letter.rstrip("%") if len(letter) <= 3 and int(letter.rstrip("%")) <= 100 else "100"
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(f"--fail-under {text[:40]!r} is none of A, B, C, D, F and no score from 0 to 100{hint}")

    def holds(self, report: Report) -> bool:
        """Whether this session has to reach the bar."""
        return self.subagents or report.relation != "subagent"

    def missed(self, report: Report) -> Missed | None:
        """Why a session does not pass; None when it does, or does not have to."""
        if not self.holds(report):
            return None
        if report.score is None or not report.messages:
            if self.allow_unscored:
                return None
            why = f"not scored, so not {self.bar} or better: {why_unscored(report)}; --allow-unscored lets it pass"
            return Missed("unscored", why)
        if report.score < self.score:
            return Missed("below_bar", f"{report.score} {report.grade} is below {self.bar}: lost {lost(report)}")
        return None

    def failures(self, reports: Sequence[Report], broken: Iterable[Failure]) -> Iterator[str]:
        """One sentence for each session, and for each broken log of an agent that we know, that does not pass."""
        several = Counter(report.path for report in reports)
        for report in reports:
            if missed := self.missed(report):
                session = f", session {report.session_id}" if several[report.path] > 1 else ""
                yield f"{place(report.path or '-')}{session}: {missed.sentence}"
        for failure in broken:
            yield f"{failure.path}: {failure.reason}, and a gate does not pass over an agent's log that it cannot read"


class Unread(NamedTuple):
    """Paths that gave no session."""

    errors: Sequence[Failure] = ()
    """Named by the user, or logs of an agent that we know."""
    passed_over: Sequence[Failure] = ()
    """Whatever else a walk met: most often no log at all."""


def document(
    format: str,
    reports: Sequence[Report],
    unread: Unread,
    gate: Gate | None,
    now: datetime,
    environ: Mapping[str, str],
) -> bytes:
    """Report cards in one of the formats of this module: `junit`, `sarif` or `github`."""
    places = Places.of(environ)
    if format == "junit":
        return junit(reports, unread, gate, now, places)
    if format == "sarif":
        return sarif(reports, unread, places) + b"\n"
    return workflow_commands(reports, unread, gate, places).encode("utf-8", "replace")


# --- what all formats say ---------------------------------------------------------------------------------

_RULES: Mapping[PenaltyKind, tuple[str, str, str]] = {
    "errored": (
        "ErroredEnding",
        "The session ended in errors",
        "The last three calls or more failed, or a run that nobody attended stopped in the middle of a call.",
    ),
    "abandoned": (
        "Abandoned",
        "The session was left without an answer",
        "Nobody answered the person's last word, or the person left in the middle of a call.",
    ),
    "tool_failures": (
        "ToolFailures",
        "Calls failed",
        "Calls of tools that ran and failed, or that the model got wrong, as the agent's own log says.",
    ),
    "tool_retries": (
        "ToolRetries",
        "Calls were repeated",
        "Calls with the tool and the input of the call right before them.",
    ),
    "edit_churn": (
        "EditChurn",
        "Files were changed again and again",
        "Changes of a file beyond its first one.",
    ),
    "failure_streak": (
        "FailureStreak",
        "Many calls failed in a row",
        "The longest run of failed calls has three or more.",
    ),
}
"""Of each kind of penalty its name in code, what happened, and when it is said."""

_GROUPS = 10
"""Groups of calls that are listed for one line of a breakdown."""


class _Lost(NamedTuple):
    """One line of a breakdown."""

    kind: PenaltyKind
    line: BreakdownLine
    """Its calls name files as the code host knows them, where it does."""
    files: tuple[str | None, ...]
    """Of each call the file that the code host knows."""

    @property
    def main(self) -> int | None:
        """The call that the line is shown at: the first one on the file that most of them name."""
        counted = Counter(file for file in self.files if file is not None)
        return self.files.index(counted.most_common(1)[0][0]) if counted else 0 if self.files else None


def _lost(report: Report, places: Places) -> Iterator[_Lost]:
    # `assess` made the lines of these penalties, one by one.
    for penalty, line in zip(penalties(report.signals), report.breakdown, strict=True):
        files = tuple(places.in_project(report, call.file) for call in line.calls)
        calls = (replace(call, file=file or call.file) for call, file in zip(line.calls, files, strict=True))
        yield _Lost(penalty.kind, replace(line, calls=tuple(calls)), files)


def _level(kind: PenaltyKind) -> Literal["error", "warning"]:
    return "error" if kind in ("errored", "abandoned") else "warning"


def _calls(line: BreakdownLine) -> tuple[str, list[str]]:
    """What is to be said of all calls behind a line, and the calls: those alike together, and how many more."""
    shared = shared_reason(line) if len(line.calls) > 1 else ""
    groups = alike(line, shared)[:_GROUPS]
    left = total_of(line) - sum(len(group.calls) for group in groups)
    return shared, [*map(said, groups), *([f"{left:,} more"] if groups and left > 0 else [])]


def _points(line: BreakdownLine) -> str:
    points = f"{line.points} point{'' if line.points == 1 else 's'} lost"
    return f"{clean(line.label)}: {points}{', the most that this can cost' if line.is_capped else ''}"


def _mark(report: Report) -> str:
    return "unscored" if report.score is None else f"{report.score} {report.grade}"


# --- where files lie --------------------------------------------------------------------------------------

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_LONGEST_PATH = 4096


class Places(NamedTuple):
    """Folders that paths are told relative to; empty where they are not known."""

    here: str = ""
    """Where demerit was started."""
    checkout: str = ""
    """Where the CI system keeps the repository."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Places:
        """The places of this process, with the checkout that GitHub or GitLab names."""
        try:
            here = os.getcwd()
        except OSError:  # it was deleted
            here = ""
        return cls(here, environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR") or "")

    def in_project(self, report: Report, file: str | None) -> str | None:
        """A file that a log names, relative to the checkout, else to the session's own folder, with forward slashes.

        None when it lies in neither, or is no path at all.
        """
        if not file or len(file) > _LONGEST_PATH or "://" in file or file.startswith("~"):
            return None
        cwd = report.cwd or ""
        paths: ModuleType = ntpath if _WINDOWS.match(cwd) or _WINDOWS.match(file) else posixpath
        whole = str(paths.normpath(paths.join(cwd, file)))
        if not cwd and not paths.isabs(whole) and not whole.startswith(".."):
            return whole.replace("\\", "/") if paths is ntpath else whole
        return _below(whole, self.checkout, paths) or _below(whole, cwd, paths)

    def log(self, path: str | None) -> dict[str, str]:
        """SARIF's location of a log: relative where it lies below the checkout or the present folder."""
        if path is None or path == "-":
            return {"uri": quote("standard input")}
        whole = os.path.normpath(os.path.join(self.here, path))
        for base in (self.checkout, self.here):
            if (below := _below(whole, base, os.path)) is not None:
                return _in_source_root(below)
        if not os.path.isabs(whole):
            return {"uri": _uri(whole.replace("\\", "/") if os.path is ntpath else whole)}
        return {"uri": "file://" + _uri(whole if whole.startswith("/") else "/" + whole.replace("\\", "/"))}


def _below(path: str, folder: str, paths: ModuleType) -> str | None:
    """`path` relative to `folder`; None when it does not lie below it. Below the root of a disk lies everything."""
    folder = paths.normpath(folder) if folder else ""
    if not folder or not paths.isabs(folder) or paths.dirname(folder) == folder:
        return None
    if not paths.normcase(path).startswith(paths.normcase(folder) + paths.sep):
        return None
    rest = path[len(folder) + 1 :]
    return rest.replace("\\", "/") if paths is ntpath else rest


def _uri(path: str) -> str:
    """A path's bytes, percent-encoded."""
    try:
        return quote(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # a text that was never a file's name
        return quote(path.encode("utf-8", "replace"))


def _in_source_root(path: str) -> dict[str, str]:
    return {"uri": _uri(path), "uriBaseId": _SOURCE_ROOT}


def _project(report: Report) -> str:
    """Whose session it is and on what: the agent and the last part of the folder that it worked in."""
    cwd = report.cwd or ""
    name = (ntpath if _WINDOWS.match(cwd) else posixpath).basename(cwd.rstrip("/\\"))
    return "/".join(part for part in (clean(report.agent), clean(name).strip()) if part)


# --- JUnit ------------------------------------------------------------------------------------------------

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write."""


def junit(reports: Sequence[Report], unread: Unread, gate: Gate | None, now: datetime, places: Places) -> bytes:
    """Report cards as JUnit XML: a suite for each log, and in it a case for each session.

    A suite is a log because JUnit gives a time and properties to suites alone, and most logs hold one session. The
    file keeps to what both common schemas allow, Jenkins' and Ant's, which is why empty parts stand where Ant's
    wants them.
    now: what a log without times is dated.
    """
    root = Element("testsuites")
    for path, group in groupby(reports, key=lambda report: report.path):
        _suite(root, place(path or "-"), list(group), gate, now, places)
    failed, skipped = unread
    if failed or skipped:
        cases = [_case(failure.path, "error", "unreadable", failure.reason) for failure in failed]
        cases += [_case(failure.path, "skipped", "", failure.reason) for failure in skipped]
        _add_suite(root, "files without a session", "demerit", now, {}, cases)
    indent(root)
    return bytes(tostring(root, encoding="UTF-8", xml_declaration=True)) + b"\n"


def _suite(
    root: Element, name: str, reports: Sequence[Report], gate: Gate | None, now: datetime, places: Places
) -> None:
    properties: dict[str, str] = {}
    for report in reports:
        prefix = f"{report.session_id}." if len(reports) > 1 else ""
        properties[f"{prefix}session"] = report.session_id
        properties[f"{prefix}outcome"] = report.outcome.value
        if report.score is not None:
            properties[f"{prefix}grade"] = report.grade or ""
            properties[f"{prefix}score"] = str(report.score)
    times = [at for report in reports if (at := report.started_at or report.ended_at) is not None]
    cases = [_session(report, gate, places) for report in reports]
    _add_suite(root, name, reports[0].agent, min(times, default=now), properties, cases)


def _add_suite(
    root: Element, name: str, package: str, at: datetime, properties: Mapping[str, str], cases: Sequence[Element]
) -> None:
    tally = Counter(inner.tag for case in cases for inner in case)
    attributes = {
        "name": name,
        "package": package,
        "id": str(len(root)),
        "timestamp": at.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat(),
        "hostname": "localhost",  # what Ant says where it does not know one, and nobody's business
        "tests": str(len(cases)),
        "failures": str(tally["failure"]),
        "errors": str(tally["error"]),
        "skipped": str(tally["skipped"]),
        "time": f"{sum(float(case.attrib['time']) for case in cases):.3f}",
    }
    suite = SubElement(root, "testsuite", {key: _xml(value) or "-" for key, value in attributes.items()})
    held = SubElement(suite, "properties")
    for key, value in properties.items():
        SubElement(held, "property", name=_xml(key) or "-", value=_xml(value))
    suite.extend(cases)
    SubElement(suite, "system-out")
    SubElement(suite, "system-err")


def _session(report: Report, gate: Gate | None, places: Places) -> Element:
    name = title(report)
    if report.title and clean(report.session_id) not in name:
        name += f" ({clean(report.session_id)})"
    seconds = max(report.duration_minutes * 60, 0)
    missed = gate.missed(report) if gate else None
    if missed:
        case = _case(name, "failure", missed.kind, missed.sentence, "\n".join(_explained(report, places)))
    elif gate and not gate.holds(report):
        case = _case(name, "skipped", "", "a sub-agent's session, which is held to no bar without --subagents")
    elif report.score is None or not report.messages:
        case = _case(name, "skipped", "", f"not scored: {why_unscored(report)}")
    else:
        case = _case(name)
    case.attrib |= {"classname": _xml(_project(report)) or "-", "time": f"{seconds:.3f}"}
    return case


def _case(name: str, verdict: str = "", kind: str = "", message: str = "", text: str = "") -> Element:
    case = Element("testcase", {"classname": "demerit", "name": _xml(name) or "-", "time": "0.000"})
    if verdict:
        inner = SubElement(case, verdict, {"message": _xml(message)} | ({"type": kind} if kind else {}))
        inner.text = _NO_XML.sub("", text) or None
    return case


def _explained(report: Report, places: Places) -> Iterator[str]:
    """A card in lines of plain text."""
    if report.score is not None:
        yield " ".join(arithmetic(report))
    yield f"{report.outcome.value}, {report.confidence.value} confidence"
    for _, line, _ in _lost(report, places):
        shared, calls = _calls(line)
        yield f"-{line.points} {clean(line.label)}{': ' + shared if shared else ''}"
        yield from (f"    {call}" for call in calls)
    yield f"log: {clean(place(report.path or '-'))}"


def _xml(text: str) -> str:
    return _NO_XML.sub("", clean(text)).strip()


# --- SARIF ------------------------------------------------------------------------------------------------

_SOURCE_ROOT = "%SRCROOT%"
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RELATED = 20
"""Further calls that a result points at."""


def sarif(reports: Sequence[Report], unread: Unread, places: Places) -> bytes:
    """Report cards as a SARIF 2.1.0 log: a rule for each kind of penalty, a result for each line of a breakdown."""
    notifications = [
        {
            "level": level,
            "message": _message(f"{place(failure.path)}: {failure.reason}"),
            "locations": [{"physicalLocation": {"artifactLocation": places.log(failure.path)}}],
        }
        for level, failures in (("error", unread.errors), ("note", unread.passed_over))
        for failure in failures
    ]
    driver = {"name": "demerit", "version": __version__, "rules": [_rule(kind) for kind in _RULES]}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "demerit/"},
        "invocations": [{"executionSuccessful": not unread.errors, "toolExecutionNotifications": notifications}],
        "originalUriBaseIds": {
            _SOURCE_ROOT: {"description": {"text": "The checkout, or the folder that the agent worked in."}}
        },
        "results": [_result(report, loss, places) for report in reports for loss in _lost(report, places)],
    }
    return encoded({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(kind: PenaltyKind) -> dict[str, Any]:
    name, what, when = _RULES[kind]
    page = f"docs/signals.md#{kind}"
    return {
        "id": kind,
        "name": name,
        "shortDescription": {"text": what},
        "fullDescription": {"text": when},
        # Not helpUri: that has to be absolute, and where the docs of this version are read is not ours to say.
        "help": {"text": f"{when} See {page}.", "markdown": f"{when} See [{page}]({page})."},
        "defaultConfiguration": {"level": _level(kind)},
        "properties": {"tags": ["agent-session"]},
    }


def _result(report: Report, loss: _Lost, places: Places) -> dict[str, Any]:
    kind, line, files = loss
    seen = [_location(report, call, file, places) for call, file in zip(line.calls, files, strict=True)]
    main = _location(report, None, None, places) if loss.main is None else seen.pop(loss.main)
    shared, calls = _calls(line)
    words = [f"{_points(line)}.", f"Session: {title(report)} ({clean(report.agent)}, {_mark(report)})."]
    words += [f"{shared[:1].upper()}{shared[1:]}:"] if shared else []
    words += [f"{'; '.join(calls)}."] if calls else []
    return {
        "ruleId": kind,
        "ruleIndex": list(_RULES).index(kind),
        "level": _level(kind),
        "message": _message(" ".join(words)),
        "locations": [main],
        "relatedLocations": [{"id": at} | location for at, location in enumerate(seen[:_RELATED], 1)],
        "partialFingerprints": {"sessionAndKind/v1": _fingerprint(report.agent, report.session_id, kind)},
        "properties": {
            "agent": report.agent,
            "session": report.session_id,
            "outcome": report.outcome.value,
            "grade": report.grade,
            "score": report.score,
            "points": line.points,
        },
    }


def _location(report: Report, call: CallRef | None, file: str | None, places: Places) -> dict[str, Any]:
    """Where a call is to be seen: at the file that it names, else in the log."""
    artifact = places.log(report.path) if file is None else _in_source_root(file)
    # Code hosts show nothing without a line, and no log tells one.
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": 1}}}
    if call is not None:
        [group] = alike(BreakdownLine("", 0, (call,)), "")
        location["message"] = _message(said(group))
    return location


def _message(text: str) -> dict[str, str]:
    """A SARIF message in which nothing is a link or a placeholder."""
    shown = clean(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")
    return {"text": shown or "-"}


def _fingerprint(*parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


# --- GitHub -----------------------------------------------------------------------------------------------

_SUMMARY_BYTES = 1 << 20
"""What GitHub takes as the summary of one step; of a longer one it shows nothing."""
_SUMMARY_CUT = "\n**The rest is left out: GitHub shows no more of one step. `--format markdown` has all of it.**\n"


def workflow_commands(reports: Sequence[Report], unread: Unread, gate: Gate | None, places: Places) -> str:
    """GitHub workflow commands: one for each line of a breakdown, and one for each advice.

    GitHub shows the first ten of each level of a step, so the worst sessions come first, and sub-agents last.
    """
    ordered = sorted(reports, key=lambda report: (report.relation == "subagent", _rank(report)))
    lines = [_command("error", "A log could not be read", [f"{place(f.path)}: {f.reason}"]) for f in unread.errors]
    for report in ordered:
        about = f"{title(report)} ({clean(report.agent)}, {_mark(report)})"
        log = f"log: {place(report.path or '-')}"
        missed = gate.missed(report) if gate else None
        if missed and not report.breakdown:
            lines.append(_command("error", "Not scored", [about, missed.sentence, log]))
        for loss in _lost(report, places):
            shared, calls = _calls(loss.line)
            words = [about, *([shared] if shared else []), *calls, log]
            file = None if loss.main is None else loss.files[loss.main]
            lines.append(_command(_level(loss.kind), _points(loss.line), words, file))
    for report in ordered:
        for advice in report.advice:
            file = next((found for call in advice.calls if (found := places.in_project(report, call.file))), None)
            lines.append(_command("notice", "Advice", [advice.text, title(report)], file))
    return "".join(f"{line}\n" for line in lines)


def _rank(report: Report) -> int:
    return 101 if report.score is None else report.score


def _command(level: str, heading: str, lines: Sequence[str], file: str | None = None) -> str:
    """A workflow command. The line ends between `lines` are GitHub's own escapes; a transcript gives none."""
    named = {"file": file, "title": heading} if file else {"title": heading}
    properties = ",".join(f"{key}={_property(clean(value))}" for key, value in named.items())
    return f"::{level} {properties}::{_data(chr(10).join(map(clean, lines)))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def append_summary(path: str, markdown: str) -> None:
    """Add a Markdown report to the job summary, cut at the end of a line where GitHub would refuse it.

    path: what GitHub names in GITHUB_STEP_SUMMARY. Raises OSError.
    """
    with open(path, "ab") as file:
        present = file.tell()
        file.write(cut_summary(("\n" if present else "") + markdown, _SUMMARY_BYTES - present))


def cut_summary(markdown: str, room: int) -> bytes:
    """`markdown` in UTF-8, in at most `room` bytes; empty when not even the note on what is missing fits."""
    data = markdown.encode("utf-8", "replace")
    if len(data) <= room:
        return data
    note = _SUMMARY_CUT.encode()
    end = data.rfind(b"\n", 0, max(room - len(note), 0)) + 1
    return data[:end] + note if end else b""
