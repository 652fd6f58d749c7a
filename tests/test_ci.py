"""What CI systems are told: the gate, JUnit XML, SARIF, GitHub's workflow commands and job summary."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element, fromstring

import jsonschema_rs
import msgspec
import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from tests.test_render import EMPTY, FULL, PERFECT

from demerit import __version__
from demerit.ci import (
    Gate,
    Places,
    Unread,
    append_summary,
    cut_summary,
    document,
    junit,
    sarif,
    workflow_commands,
)
from demerit.quality.outcome import Facts, Outcome
from demerit.quality.report import Advice, BreakdownLine, CallRef, Report
from demerit.quality.score import PenaltyKind, Signals, penalties, score
from demerit.render import Failure, clean, unmeasured

SCHEMAS = Path(__file__).parent / "schemas"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOWHERE = Places()
NOTHING = Unread()
B = Gate.read("B")

CART = "/home/dev/shop/src/cart.py"


def changed(report: Report, **fields: Any) -> Report:
    return msgspec.structs.replace(report, **fields)


def edited(n: int, file: str = CART) -> CallRef:
    return CallRef(n, 0, "Edit", file, f"change {n} to this file", "")


CHURNED = changed(
    PERFECT,
    path="/home/dev/.claude/projects/shop/a.jsonl",
    title="Fix the cart",
    session_id="s-1",
    score=92,
    grade="A",
    relation=None,
    signals=Signals(edit_churn=2, outcome=Outcome.completed),
    breakdown=(BreakdownLine("2 churned edits", 8, (edited(2), edited(3))),),
)
UNSCORED = changed(EMPTY, path="logs/empty.jsonl", session_id="e-1")
SUBAGENT = changed(FULL, relation="subagent", path="logs/agent.jsonl", session_id="sub-1")


# --- reports of every kind --------------------------------------------------------------------------------

HOSTILE = [
    "\x1b]0;owned\x07",
    "a\x00b\x0b\x0c\x1f\x7f\x85\x9b",
    "]]>",
    "<!--&<script>\"'",
    "\ud800\udfff\udcff",
    "\ufffe\uffff\U0001fffe",
    "\n::set-output name=x::y",
    "\r\n::error::no",
    "::stop-commands::x",
    "##[add-path]/tmp ##[error]x",
    "%0A::error::x%25",
    "a:b,c=d;e",
    "{0} {1} }{ {{",
    "[text](https://evil.example) [x](1)",
    "\u202e\u2028\u2029",
    " \t ",
    "../" * 40,
    "C:\\Users\\x\\a.py",
    "\\\\server\\share",
    "file:///etc/passwd",
    "~/x",
    "/",
    "//",
    ".",
    "",
]
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5), max_size=4).map("".join),
    st.text(st.characters(), max_size=30),
)
paths = texts | st.sampled_from([CART, "src/cart.py", "./a b/ü%.py", "/home/dev/shop", "c:/repo/x.py", "a:b/c"])
folders = st.none() | texts | st.sampled_from(["/home/dev/shop", "/home/dev/shop/", "/", "C:\\repo", "relative"])
calls = st.builds(
    CallRef,
    message=st.integers(-1, 10**6),
    call=st.none() | st.integers(0, 9),
    tool=st.none() | texts,
    file=st.none() | paths,
    why=texts,
    evidence=texts,
)
counts = st.none() | st.integers(0, 12)


@st.composite
def graded(draw: st.DrawFn) -> Report:
    signals = Signals(
        draw(counts), draw(counts), draw(counts), draw(counts), draw(counts), draw(st.sampled_from(Outcome))
    )
    lines = tuple(
        BreakdownLine(
            draw(st.just(line.label) | texts), line.points, tuple(draw(st.lists(calls, max_size=4))), line.is_capped
        )
        for line in penalties(signals)
    )
    points, grade = score(signals)
    at = st.none() | st.datetimes(timezones=st.just(UTC))
    return changed(
        FULL,
        path=draw(st.none() | st.just("-") | paths),
        agent=draw(st.just("codex") | texts),
        session_id=draw(texts),
        title=draw(st.none() | texts),
        cwd=draw(folders),
        started_at=draw(at),
        ended_at=draw(at),
        duration_minutes=draw(st.floats(-1e6, 1e9)),
        outcome=signals.outcome,
        score=points,
        grade=grade,
        signals=signals,
        breakdown=lines,
        messages=draw(st.integers(0, 3)),
        relation=draw(st.sampled_from([None, "subagent", "fork"])),
        advice=tuple(draw(st.lists(st.builds(Advice, st.just("rule"), texts, st.tuples(calls)), max_size=2))),
        facts=Facts(idle_long_enough=draw(st.booleans())),
    )


failures = st.lists(st.builds(Failure, texts, texts), max_size=2)
unreads = st.builds(Unread, failures, failures)
gates = st.none() | st.builds(Gate.read, st.sampled_from(["A", "F", "70"]), st.booleans(), st.booleans())
places = st.builds(
    Places,
    st.sampled_from(["", "/", "/home/dev", "/home/dev/shop", "/tmp/\udcff"]),
    st.sampled_from(["", "/", "/home/dev", "C:\\repo"]),
)
many = st.lists(graded(), max_size=4)


# --- the gate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "report", "sentence"),
    [
        pytest.param(B, PERFECT, None, id="above the bar"),
        pytest.param(Gate.read("65"), FULL, None, id="at the score"),
        pytest.param(Gate.read("C"), FULL, None, id="a letter means it or better"),
        pytest.param(
            B,
            FULL,
            "65 C is below B: lost 15 for abandoned, 15 for 5 tool failures, 5 for 1 retry",
            id="below the bar",
        ),
        pytest.param(
            B,
            UNSCORED,
            "not scored, so not B or better: there is no message in it; --allow-unscored lets it pass",
            id="unscored",
        ),
        pytest.param(B._replace(allow_unscored=True), UNSCORED, None, id="unscored, let pass"),
        pytest.param(B, SUBAGENT, None, id="a sub-agent is held to nothing"),
        pytest.param(
            B._replace(subagents=True),
            SUBAGENT,
            "65 C is below B: lost 15 for abandoned, 15 for 5 tool failures, 5 for 1 retry",
            id="a sub-agent that has to pass",
        ),
    ],
)
def test_who_passes(gate: Gate, report: Report, sentence: str | None) -> None:
    missed = gate.missed(report)
    assert (missed and missed.sentence) == sentence


def test_of_several_sessions_in_a_log_the_one_that_failed_is_named() -> None:
    other = changed(FULL, session_id="other")
    said = list(B.failures([FULL, other, PERFECT], [Failure("/x.jsonl", "no permission to read it")]))
    assert said == [
        f"{FULL.path}, session {FULL.session_id}: 65 C is below B: lost 15 for abandoned, 15 for 5 tool failures, "
        "5 for 1 retry",
        f"{FULL.path}, session other: 65 C is below B: lost 15 for abandoned, 15 for 5 tool failures, 5 for 1 retry",
        "/x.jsonl: no permission to read it, and a gate does not pass over an agent's log that it cannot read",
    ]


# --- where files lie --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "file", "checkout", "shown"),
    [
        pytest.param("/home/dev/shop", CART, "", "src/cart.py", id="below the session's folder"),
        pytest.param("/home/dev/shop/", CART, "", "src/cart.py", id="whose name may end in a slash"),
        pytest.param("/home/dev/shop", "src/./x/../cart.py", "", "src/cart.py", id="relative to it"),
        pytest.param("/home/dev/shop", "../shop/src/cart.py", "", "src/cart.py", id="a detour"),
        pytest.param("/home/dev/shop", "../other.py", "", None, id="outside of it"),
        pytest.param("/home/dev/shop", "/home/dev/shopping.py", "", None, id="beside it"),
        pytest.param("/home/dev/shop", "/home/dev/shop", "", None, id="the folder itself"),
        pytest.param("/home/dev/shop/web", "/home/dev/shop/web/a.ts", "/home/dev/shop", "web/a.ts", id="the checkout"),
        pytest.param("/home/dev/shop/web", "/home/dev/shop/b.py", "/home/dev/shop", "b.py", id="the checkout alone"),
        pytest.param("/work/x", "/work/x/a.py", "/somewhere/else", "a.py", id="another checkout"),
        pytest.param("/", "/etc/hosts", "", None, id="below the root lies everything"),
        pytest.param("/home/dev/shop", "/etc/hosts", "/", None, id="a root is no checkout"),
        pytest.param(None, "src/cart.py", "", "src/cart.py", id="relative, and no folder known"),
        pytest.param(None, "../cart.py", "", None, id="climbing, and no folder known"),
        pytest.param(None, CART, "", None, id="absolute, and no folder known"),
        pytest.param("C:\\repo", "C:\\repo\\src\\a.py", "", "src/a.py", id="Windows"),
        pytest.param("c:\\repo", "C:/Repo/src/a.py", "", "src/a.py", id="Windows, spelled otherwise"),
        pytest.param("C:\\repo", "src\\a.py", "", "src/a.py", id="Windows, relative"),
        pytest.param("C:\\repo", "D:\\repo\\a.py", "", None, id="another disk"),
        pytest.param("C:\\", "C:\\a.py", "", None, id="the root of a disk"),
        pytest.param("/home/dev/shop", "odd\\name.py", "", "odd\\name.py", id="a backslash is a letter elsewhere"),
        pytest.param("/home/dev/shop", "~/.bashrc", "", None, id="the home folder"),
        pytest.param("/home/dev/shop", "https://example.org/a.py", "", None, id="an address"),
        pytest.param("/home/dev/shop", "a/" * 3000, "", None, id="too long for a path"),
        pytest.param("/home/dev/shop", "", "", None, id="nothing"),
        pytest.param("/home/dev/shop", None, "", None, id="none"),
    ],
)
def test_where_a_file_is_shown(cwd: str | None, file: str | None, checkout: str, shown: str | None) -> None:
    assert Places("", checkout).in_project(changed(FULL, cwd=cwd), file) == shown


@pytest.mark.parametrize(
    ("path", "here", "checkout", "uri", "is_relative"),
    [
        pytest.param("logs/a b.jsonl", "/work", "", "logs/a%20b.jsonl", True, id="relative"),
        pytest.param("/work/logs/ü.jsonl", "/work", "", "logs/%C3%BC.jsonl", True, id="below where we are"),
        pytest.param("a.jsonl", "/work/logs", "/work", "logs/a.jsonl", True, id="the checkout comes first"),
        pytest.param("../a.jsonl", "/work/logs", "", "file:///work/a.jsonl", False, id="elsewhere"),
        pytest.param("/x/\udcff.jsonl", "/work", "", "file:///x/%FF.jsonl", False, id="a name that is no text"),
        pytest.param("a:b.jsonl", "/work", "", "a%3Ab.jsonl", True, id="no scheme"),
        pytest.param("-", "/work", "", "standard%20input", False, id="standard input"),
        pytest.param(None, "/work", "", "standard%20input", False, id="no path"),
    ],
)
def test_where_a_log_is_shown(path: str | None, here: str, checkout: str, uri: str, is_relative: bool) -> None:
    found = Places(here, checkout).log(path)
    assert found == {"uri": uri} | ({"uriBaseId": "%SRCROOT%"} if is_relative else {})


def test_the_checkout_is_named_by_the_ci_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Places.of({}) == Places(str(tmp_path), "")
    assert Places.of({"CI_PROJECT_DIR": "/builds/x"}).checkout == "/builds/x"
    assert Places.of({"GITHUB_WORKSPACE": "/w", "CI_PROJECT_DIR": "/builds/x"}).checkout == "/w"


# --- JUnit ------------------------------------------------------------------------------------------------


@cache
def jenkins() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))


def ant_complaints(root: Element) -> list[str]:
    """What Ant's JUnit schema (Windy Road's JUnit.xsd) would find wrong: its rules, written anew."""
    decimal, whole, stamp = r"-?\d+(\.\d+)?", r"\d{1,9}", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    token = r"\S(.*\S)?"
    suite = {"name": token, "package": token, "hostname": token, "timestamp": stamp, "time": decimal}
    suite |= dict.fromkeys(("id", "tests", "failures", "errors", "skipped"), whole)
    attributes = {
        "testsuites": {},
        "testsuite": suite,
        "property": {"name": token, "value": r".*"},
        "testcase": {"name": token, "classname": token, "time": decimal},
        "failure": {"type": r".*", "message": r".*"},
        "error": {"type": r".*", "message": r".*"},
        "skipped": {"message": r".*"},
    }
    children = {
        "testsuites": r"(testsuite )*",
        "testsuite": r"properties (testcase )*system-out system-err ",
        "properties": r"(property )*",
        "testcase": r"((skipped|error|failure) )?",
    }
    found = []
    for element in root.iter():
        wanted = attributes.get(element.tag, {})
        if set(element.attrib) != set(wanted):
            found.append(f"attributes of {element.tag}: {sorted(element.attrib)}")
        found += [
            f"{element.tag}.{name}: {value!r}"
            for name, value in element.attrib.items()
            if not re.fullmatch(wanted.get(name, "$."), value)
        ]
        inside = "".join(f"{child.tag} " for child in element)
        if not re.fullmatch(children.get(element.tag, ""), inside):
            found.append(f"children of {element.tag}: {inside}")
    ids = [suite.attrib["id"] for suite in root]
    return found + ([] if ids == [str(n) for n in range(len(ids))] else [f"ids: {ids}"])


def as_junit(reports: list[Report], gate: Gate | None = None, unread: Unread = NOTHING) -> Element:
    return fromstring(junit(reports, unread, gate, NOW, NOWHERE))


def verdicts(root: Element) -> list[tuple[str, str | None, str]]:
    """Of each case its name, and what is inside: tag and type, and the message."""
    found: list[tuple[str, str | None, str]] = []
    for case in root.iter("testcase"):
        inner = next(iter(case), None)
        if inner is None:
            found.append((case.attrib["name"], None, ""))
        else:
            kind = inner.attrib.get("type")
            found.append((case.attrib["name"], f"{inner.tag} {kind}" if kind else inner.tag, inner.attrib["message"]))
    return found


def test_a_log_is_a_suite_and_its_session_a_case() -> None:
    assert junit([changed(CHURNED, path="logs/a.jsonl")], NOTHING, None, NOW, NOWHERE).decode() == (
        """\
<?xml version='1.0' encoding='UTF-8'?>
<testsuites>
  <testsuite name="logs/a.jsonl" package="claude-code" id="0" timestamp="2026-02-28T09:00:00" hostname="localhost" \
tests="1" failures="0" errors="0" skipped="0" time="4350.000">
    <properties>
      <property name="session" value="s-1" />
      <property name="outcome" value="completed" />
      <property name="grade" value="A" />
      <property name="score" value="92" />
    </properties>
    <testcase classname="claude-code/shop" name="Fix the cart (s-1)" time="4350.000" />
    <system-out />
    <system-err />
  </testsuite>
</testsuites>
"""
    )


def test_a_session_below_the_bar_fails_with_its_card() -> None:
    root = as_junit([FULL], B)
    [failure] = root.iter("failure")
    assert failure.attrib == {
        "type": "below_bar",
        "message": "65 C is below B: lost 15 for abandoned, 15 for 5 tool failures, 5 for 1 retry",
    }
    assert failure.text == (
        "100 - 15 - 15 - 5 = 65 C\n"
        "abandoned, medium confidence\n"
        "-15 abandoned\n"
        "    message 11: nobody answered the user's last word\n"
        "-15 5 tool failures\n"
        "    message 3, Bash: failed, exit code 1\n"
        "    message 5, Edit, src/checkout/cart.py: failed, is_error flag\n"
        "    messages 6, 8, Bash: failed, exit code 1\n"
        "-5 1 retry\n"
        "    message 6, Bash: same tool and input as the call right before, exit code 1\n"
        f"log: {FULL.path}"
    )
    assert root[0].attrib["failures"] == "1"


SUBAGENTS_PASS = "a sub-agent's session, which is held to no bar without --subagents"
NOT_SCORED = "not scored, so not B or better: there is no message in it; --allow-unscored lets it pass"


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        pytest.param(None, [None, ("skipped", "not scored: there is no message in it"), None], id="no bar"),
        pytest.param(
            B,
            ["failure below_bar", ("failure unscored", NOT_SCORED), ("skipped", SUBAGENTS_PASS)],
            id="a bar",
        ),
        pytest.param(
            B._replace(allow_unscored=True),
            ["failure below_bar", ("skipped", "not scored: there is no message in it"), ("skipped", SUBAGENTS_PASS)],
            id="unscored ones are let pass",
        ),
        pytest.param(
            B._replace(subagents=True),
            ["failure below_bar", ("failure unscored", NOT_SCORED), "failure below_bar"],
            id="sub-agents have to pass",
        ),
    ],
)
def test_what_a_bar_makes_of_sessions(gate: Gate | None, found: list[Any]) -> None:
    said = verdicts(as_junit([FULL, UNSCORED, SUBAGENT], gate))
    for (_, verdict, message), expected in zip(said, found, strict=True):
        assert expected in (verdict, (verdict, message))


def test_sessions_of_one_log_are_cases_of_one_suite() -> None:
    first, second = changed(CHURNED, session_id="one"), changed(UNSCORED, path=CHURNED.path, session_id="two")
    root = as_junit([first, second, FULL])
    assert [len(list(suite.iter("testcase"))) for suite in root] == [2, 1]
    assert {node.attrib["name"]: node.attrib["value"] for node in root[0].iter("property")} == {
        "one.session": "one",
        "one.outcome": "completed",
        "one.grade": "A",
        "one.score": "92",
        "two.session": "two",
        "two.outcome": "unknown",
    }


def test_a_log_without_times_is_dated_by_the_grading() -> None:
    [suite] = as_junit([UNSCORED])
    assert (suite.attrib["timestamp"], suite.attrib["time"]) == ("2026-03-01T12:00:00", "0.000")


def test_logs_that_could_not_be_read_are_errors_and_other_files_are_skipped() -> None:
    unread = Unread([Failure("/x/a.jsonl", "no permission to read it")], [Failure("package.json", "no log")])
    root = as_junit([PERFECT], B, unread)
    assert verdicts(root)[1:] == [
        ("/x/a.jsonl", "error unreadable", "no permission to read it"),
        ("package.json", "skipped", "no log"),
    ]
    assert {name: root[1].attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "2",
        "failures": "0",
        "errors": "1",
        "skipped": "1",
    }


def test_nothing_at_all_is_a_document_too() -> None:
    root = as_junit([])
    assert list(root) == []
    jenkins().validate(root)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_leave_a_document_that_can_be_read(text: str) -> None:
    report = changed(FULL, title=text, session_id=text, agent=text, cwd=text, path=text or "-")
    report = changed(report, breakdown=tuple(changed_calls(line, text) for line in report.breakdown))
    root = as_junit([report], B, Unread([Failure(text, text)], [Failure(text, text)]))
    jenkins().validate(root)
    assert ant_complaints(root) == []
    assert len(list(root.iter("testcase"))) == 3


def changed_calls(line: BreakdownLine, text: str) -> BreakdownLine:
    calls = tuple(
        msgspec.structs.replace(call, tool=text, file=text, why=text, evidence=text, call_id=text)
        for call in line.calls
    )
    return msgspec.structs.replace(line, calls=calls)


@given(many, unreads, gates, places)
def test_every_junit_document_fits_both_schemas(
    reports: list[Report], unread: Unread, gate: Gate | None, where: Places
) -> None:
    root = fromstring(junit(reports, unread, gate, NOW, where))
    jenkins().validate(root)
    assert ant_complaints(root) == []
    cases = list(root.iter("testcase"))
    assert len(cases) == len(reports) + len(unread.errors) + len(unread.passed_over)
    assert len(list(root.iter("failure"))) == (sum(map(bool, map(gate.missed, reports))) if gate else 0)
    assert len(list(root.iter("error"))) == len(unread.errors)
    for name in ("failure", "error", "skipped"):
        plural = {"failure": "failures", "error": "errors"}.get(name, name)
        assert sum(int(suite.attrib[plural]) for suite in root) == len(list(root.iter(name)))


def test_our_reading_of_ants_schema_finds_faults() -> None:
    for fault in ("<testsuites name='x'/>", "<testsuites><testsuite/></testsuites>"):
        root = fromstring(fault)
        for suite in root:
            suite.attrib["id"] = "0"
        assert ant_complaints(root)


# --- SARIF ------------------------------------------------------------------------------------------------


@cache
def sarif_schema() -> Any:
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


def as_sarif(reports: list[Report], unread: Unread = NOTHING, where: Places = NOWHERE) -> Any:
    log = json.loads(sarif(reports, unread, where))
    sarif_schema().validate(log)
    [run] = log["runs"]
    return run


def test_the_schema_refuses_what_is_wrong() -> None:
    log = json.loads(sarif([FULL], NOTHING, NOWHERE))
    log["runs"][0]["results"][0]["level"] = "bad"
    assert not sarif_schema().is_valid(log)


def test_a_lost_point_group_is_a_result() -> None:
    [result] = as_sarif([CHURNED])["results"]
    assert result == {
        "ruleId": "edit_churn",
        "ruleIndex": 4,
        "level": "warning",
        "message": {
            "text": "2 churned edits: 8 points lost. Session: Fix the cart (claude-code, 92 A). "
            "message 2, Edit, src/cart.py: change 2 to this file; message 3, Edit, src/cart.py: change 3 to this file."
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "src/cart.py", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 1},
                },
                "message": {"text": "message 2, Edit, src/cart.py: change 2 to this file"},
            }
        ],
        "relatedLocations": [
            {
                "id": 1,
                "physicalLocation": {
                    "artifactLocation": {"uri": "src/cart.py", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 1},
                },
                "message": {"text": "message 3, Edit, src/cart.py: change 3 to this file"},
            }
        ],
        "partialFingerprints": {"sessionAndKind/v1": result["partialFingerprints"]["sessionAndKind/v1"]},
        "properties": {
            "agent": "claude-code",
            "session": "s-1",
            "outcome": "completed",
            "grade": "A",
            "score": 92,
            "points": 8,
        },
    }


def test_a_session_that_ended_badly_is_an_error_and_the_rest_a_warning() -> None:
    found = [(result["ruleId"], result["level"]) for result in as_sarif([FULL])["results"]]
    assert found == [("abandoned", "error"), ("tool_failures", "warning"), ("tool_retries", "warning")]


def test_what_names_no_file_of_the_project_is_shown_in_the_log() -> None:
    where = Places("/home/dev", "")
    abandoned, failures, retry = as_sarif([FULL], NOTHING, where)["results"]
    log = {"uri": FULL.path.removeprefix("/home/dev/") if FULL.path else "", "uriBaseId": "%SRCROOT%"}
    assert abandoned["locations"][0]["physicalLocation"]["artifactLocation"] == log
    assert failures["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/checkout/cart.py"
    assert [place["physicalLocation"]["artifactLocation"] for place in failures["relatedLocations"]] == [log] * 4
    assert "home/dev/shop" not in json.dumps(failures)
    assert retry["relatedLocations"] == []


def test_the_file_that_most_calls_name_comes_first() -> None:
    calls = (edited(1, "a.py"), edited(2, "b.py"), edited(3, "b.py"))
    signals = Signals(edit_churn=3, outcome=Outcome.completed)
    report = changed(CHURNED, signals=signals, breakdown=(BreakdownLine("3 churned edits", 12, calls),))
    [result] = as_sarif([report])["results"]
    uris = [
        place["physicalLocation"]["artifactLocation"]["uri"]
        for place in [*result["locations"], *result["relatedLocations"]]
    ]
    assert uris == ["b.py", "a.py", "b.py"]


def test_a_rule_for_each_kind_of_penalty() -> None:
    run = as_sarif([])
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["version"] == __version__
    assert [rule["id"] for rule in rules] == list(get_args(PenaltyKind))
    page = (Path(__file__).parents[1] / "docs" / "signals.md").read_text(encoding="utf-8")
    for rule in rules:
        assert f"### `{rule['id']}`" in page
        assert f"docs/signals.md#{rule['id']}" in rule["help"]["text"]
        assert f"(docs/signals.md#{rule['id']})" in rule["help"]["markdown"]


def test_a_fingerprint_is_of_the_session_and_the_kind_and_of_nothing_else() -> None:
    def prints(report: Report) -> list[str]:
        results = as_sarif([report])["results"]
        return [result["partialFingerprints"]["sessionAndKind/v1"] for result in results]

    first = prints(FULL)
    assert len(set(first)) == 3
    assert prints(changed(FULL, path="/elsewhere.jsonl", title="another", score=1, grade="F")) == first
    assert set(prints(changed(FULL, session_id="another"))).isdisjoint(first)
    # Over versions of demerit too, or every alert is closed and opened anew.
    assert prints(CHURNED) == ["3b5dbdd8bf7b14e6075d686303a6bd00"]


def test_texts_are_no_links_and_no_placeholders() -> None:
    evil = "see [here](https://evil.example) and {0}"
    [result] = as_sarif([changed(CHURNED, title=evil)])["results"]
    assert "Session: see [here] (https://evil.example) and {{0}} (claude-code, 92 A)." in result["message"]["text"]


def test_files_that_gave_no_session_are_notifications() -> None:
    unread = Unread([Failure("/x/a.jsonl", "no permission to read it")], [Failure("package.json", "no log")])
    [invocation] = as_sarif([], unread)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [(note["level"], note["message"]["text"]) for note in invocation["toolExecutionNotifications"]] == [
        ("error", "/x/a.jsonl: no permission to read it"),
        ("note", "package.json: no log"),
    ]
    assert as_sarif([], Unread((), unread.passed_over))["invocations"][0]["executionSuccessful"] is True


@given(many, unreads, places)
def test_every_sarif_log_fits_its_schema(reports: list[Report], unread: Unread, where: Places) -> None:
    run = as_sarif(reports, unread, where)
    assert len(run["results"]) == sum(len(report.breakdown) for report in reports)
    for text in messages_in(run):
        assert not re.search(r"\]\(|(?<!\{)(\{\{)*\{(?!\{)|[\x00-\x1f\x7f-\x9f]", text)
    for location in artifacts_in(run):
        uri = urlsplit(location["uri"])
        assert uri.scheme in ("", "file")
        assert location["uri"].isascii()
        if "uriBaseId" in location:
            assert uri.scheme == ""
            assert not uri.path.startswith("/")
            assert ".." not in unquote(uri.path).split("/")


def messages_in(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in messages_in(item)]
    if not isinstance(value, dict):
        return []
    own = [value["message"]["text"]] if isinstance(value.get("message"), dict) else []
    return own + [text for item in value.values() for text in messages_in(item)]


def artifacts_in(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [found for item in value for found in artifacts_in(item)]
    if not isinstance(value, dict):
        return []
    own = [value["artifactLocation"]] if "artifactLocation" in value else []
    return own + [found for item in value.values() for found in artifacts_in(item)]


# --- GitHub -----------------------------------------------------------------------------------------------


def as_commands(
    reports: list[Report], unread: Unread = NOTHING, gate: Gate | None = None, where: Places = NOWHERE
) -> list[str]:
    text = workflow_commands(reports, unread, gate, where)
    assert text == "" or text.endswith("\n")
    return text.split("\n")[:-1]


def obeyed(line: str) -> tuple[str, dict[str, str], str] | None:
    """What GitHub's runner makes of a printed line: the command, its properties and its text."""
    if (stripped := line.lstrip()).startswith("::") and (end := stripped.find("::", 2)) >= 0:
        name, _, rest = stripped[2:end].partition(" ")
        pairs = dict(pair.split("=", 1) for pair in rest.strip().split(",") if "=" in pair)
        escapes = {"%3A": ":", "%2C": ",", "%0A": "\n", "%0D": "\r"}
        for escape, letter in escapes.items():
            pairs = {key: value.replace(escape, letter) for key, value in pairs.items()}
        data = stripped[end + 2 :].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
        return name, {key: value.replace("%25", "%") for key, value in pairs.items()}, data
    if (start := line.find("##[")) >= 0 and "]" in line[start:]:
        return line[start + 3 : line.index("]", start)], {}, ""
    return None


def test_a_lost_point_group_is_an_annotation_at_its_file() -> None:
    assert as_commands([CHURNED]) == [
        "::warning file=src/cart.py,title=2 churned edits%3A 8 points lost::Fix the cart (claude-code, 92 A)"
        "%0Amessage 2, Edit, src/cart.py: change 2 to this file"
        "%0Amessage 3, Edit, src/cart.py: change 3 to this file"
        "%0Alog: /home/dev/.claude/projects/shop/a.jsonl"
    ]


def test_an_ending_is_an_error_and_an_advice_a_notice() -> None:
    commands = list(map(obeyed, as_commands([FULL])))
    assert [command and (command[0], command[1]) for command in commands] == [
        ("error", {"title": "abandoned: 15 points lost"}),
        ("warning", {"file": "src/checkout/cart.py", "title": "5 tool failures: 15 points lost"}),
        ("warning", {"title": "1 retry: 5 points lost"}),
        ("notice", {"title": "Advice"}),
    ]
    assert commands[3] is not None
    assert commands[3][2] == (
        "2 prompts repeat an earlier one word for word: say what was wrong.\nRound the cart total half up"
    )


def test_the_worst_session_comes_first_and_sub_agents_last() -> None:
    worst = changed(SUBAGENT, score=1, grade="F")
    sessions = [command[2].split("\n")[0] for line in as_commands([worst, CHURNED, FULL]) if (command := obeyed(line))]
    assert list(dict.fromkeys(sessions))[:3] == [
        "Round the cart total half up (claude-code, 65 C)",
        "Fix the cart (claude-code, 92 A)",
        "Round the cart total half up (claude-code, 1 F)",
    ]


def test_what_fails_the_gate_without_a_lost_point_is_said() -> None:
    unread = Unread([Failure("/x/a.jsonl", "no permission to read it")], [Failure("package.json", "no log")])
    assert as_commands([UNSCORED], unread, B) == [
        "::error title=A log could not be read::/x/a.jsonl: no permission to read it",
        f"::error title=Not scored::session e-1 (chat, unscored)%0A{NOT_SCORED}%0Alog: logs/empty.jsonl",
    ]
    assert as_commands([UNSCORED]) == []


def test_what_github_would_read_otherwise_is_escaped() -> None:
    evil = "50%0A\r\n::set-output name=a::b, c:d"
    report = changed(CHURNED, title=evil, breakdown=(changed_calls(CHURNED.breakdown[0], evil),))
    [line] = as_commands([report])
    assert line.startswith(
        "::warning file=50%250A  %3A%3Aset-output name=a%3A%3Ab%2C c%3Ad,title=2 churned edits%3A 8 points lost"
        "::50%250A ::set-output name=a::b, c:d (claude-code, 92 A)%0A"
    )
    command = obeyed(line)
    assert command is not None
    assert command[2].split("\n")[0] == "50%0A ::set-output name=a::b, c:d (claude-code, 92 A)"


@given(many, unreads, gates, places)
def test_a_transcript_commands_nothing(reports: list[Report], unread: Unread, gate: Gate | None, where: Places) -> None:
    lines = as_commands(reports, unread, gate, where)
    lost = sum(len(report.breakdown) for report in reports)
    advice = sum(len(report.advice) for report in reports)
    bare = sum(bool(gate and gate.missed(report) and not report.breakdown) for report in reports)
    assert len(lines) == lost + advice + bare + len(unread.errors)
    for line in lines:
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", line)
        assert "##[" not in line
        command = obeyed(line)
        assert command is not None
        name, properties, text = command
        assert name in ("error", "warning", "notice")
        assert properties.keys() <= {"file", "title"}
        assert properties["title"]
        assert "\r" not in text


@pytest.mark.parametrize("text", ["##[add-path]x", "a##[b", "#\u200b#[x", "###[x", "#" * 1999 + "["])
def test_what_the_runner_obeys_anywhere_in_a_line_is_broken_up(text: str) -> None:
    left = clean(text)
    assert "##[" not in left
    assert len(left) <= 2000
    assert clean(left) == left


# --- the job summary --------------------------------------------------------------------------------------


def test_a_summary_is_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    append_summary(str(path), "## One\n")
    append_summary(str(path), "## Two \udcff\n")
    assert path.read_text(encoding="utf-8") == "## One\n\n## Two ?\n"


CUT = b"\n**The rest is left out: GitHub shows no more of one step. `--format markdown` has all of it.**\n"


@pytest.mark.parametrize(
    ("room", "left"),
    [
        pytest.param(1000, "a" * 40 + "\n" + "ü" * 100 + "\n" + "b" * 10 + "\n", id="enough room"),
        pytest.param(253, "a" * 40 + "\n" + "ü" * 100 + "\n" + "b" * 10 + "\n", id="just enough"),
        pytest.param(252, "a" * 40 + "\n", id="a byte too little"),
        pytest.param(len(CUT) + 41, "a" * 40 + "\n", id="one line and the note"),
        pytest.param(len(CUT) + 40, "", id="not even one line"),
        pytest.param(0, "", id="none"),
        pytest.param(-5, "", id="less than none"),
    ],
)
def test_a_summary_is_cut_at_the_end_of_a_line(room: int, left: str) -> None:
    text = "a" * 40 + "\n" + "ü" * 100 + "\n" + "b" * 10 + "\n"
    cut = cut_summary(text, room)
    assert len(cut) <= max(room, 0)
    assert cut == (left.encode() if left in ("", text) else left.encode() + CUT)


def test_a_step_gets_no_more_than_github_takes(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("x" * 1000)
    append_summary(str(path), "a line of the report\n" * 100_000)
    assert 1_048_000 < path.stat().st_size <= 1 << 20
    assert path.read_bytes().endswith(b"a line of the report\n" + CUT)


# --- the line that says what was not measured -------------------------------------------------------------


@pytest.mark.parametrize(
    ("basis", "said"),
    [
        pytest.param(
            ("exit_codes", "declined", "subagents", "compaction", "thinking"),
            "not measured: exit codes, declined calls, sub-agents, compactions, thinking",
            id="facts that an agent never logs",
        ),
        pytest.param(
            ("tool_failures", "longest_failure_streak", "duration", "statuses", "times"),
            "not measured: tool failures, longest failure streak, duration; the score rests on less",
            id="what follows from another is not said again",
        ),
        pytest.param(("statuses", "times"), "not measured: how calls went, times", id="by itself it is"),
    ],
)
def test_what_was_not_measured_in_words(basis: tuple[str, ...], said: str) -> None:
    assert unmeasured(changed(FULL, basis=basis)) == said


# --- all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["junit", "sarif", "github"])
def test_equal_reports_give_equal_bytes(format: str) -> None:
    first, second = (document(format, [FULL, UNSCORED, CHURNED], NOTHING, B, NOW, {}) for _ in range(2))
    assert first == second
    assert first.endswith(b"\n")
