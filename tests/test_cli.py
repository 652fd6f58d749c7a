"""The command line: what it reads, what it prints, how it exits."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

import demerit
from demerit.cli import main
from demerit.model import Session
from demerit.parsers import PARSERS
from demerit.parsers.records import Source
from demerit.sources import Unreadable, read_sessions

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW = "2026-03-02T12:00:00Z"


# --- invented logs ----------------------------------------------------------------------------------------


class Log:
    """Lines of a log in Claude Code's shape, a minute apart."""

    def __init__(self, session: str = "s1", sidechain: bool = False) -> None:
        self.lines: list[dict[str, Any]] = []
        self.session = session
        self.sidechain = sidechain

    def line(self, kind: str, message: dict[str, Any]) -> Log:
        number = len(self.lines)
        self.lines.append(
            {
                "type": kind,
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "sessionId": self.session,
                "isSidechain": self.sidechain,
                "timestamp": (START + timedelta(minutes=number)).isoformat(),
                "message": message,
            }
        )
        return self

    def says(self, text: str) -> Log:
        return self.line("user", {"role": "user", "content": text})

    def answers(self, *content: dict[str, Any] | str) -> Log:
        blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
        usage = {"input_tokens": 100, "output_tokens": 20}
        message = {"id": f"m{len(self.lines)}", "role": "assistant", "model": "claude-x", "content": blocks}
        return self.line("assistant", {**message, "usage": usage})

    def calls(self, tool: str, **arguments: str) -> Log:
        return self.answers({"type": "tool_use", "id": f"c{len(self.lines)}", "name": tool, "input": arguments})

    def gets(self, text: str, failed: bool = False) -> Log:
        block = {"type": "tool_result", "tool_use_id": f"c{len(self.lines) - 1}", "content": text, "is_error": failed}
        return self.line("user", {"role": "user", "content": [block]})

    def fails(self, times: int) -> Log:
        for number in range(times):
            self.calls("Bash", command=f"make step-{number}").gets("Exit code 2\nno such target", failed=True)
        return self

    @property
    def text(self) -> str:
        return "".join(json.dumps(line) + "\n" for line in self.lines)

    def write(self, path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")
        return str(path)


def good(session: str = "good") -> Log:
    """100 A."""
    return Log(session).says("Add a flag to the report command in cli.py").answers("It is there.")


def poor(session: str = "poor") -> Log:
    """94 A: two failures that were got over."""
    return (
        Log(session)
        .says("Make the tests of cart.py pass")
        .fails(2)
        .calls("Bash", command="make")
        .gets("ok")
        .answers("Done.")
    )


def bad(session: str = "bad") -> Log:
    """45 D: it ends on five failures in a row."""
    return Log(session).says("Make the tests of cart.py pass").fails(5)


def silent(session: str = "silent") -> Log:
    """No message: unscored."""
    log = Log(session).says("x")
    log.lines[0] |= {"isMeta": True, "type": "attachment", "attachment": {"type": "file"}}
    return log


def subagent(session: str = "parent") -> Log:
    """A sub-agent's own log, ending badly."""
    return Log(session, sidechain=True).says("Look into it").fails(5)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home folder of a machine without logs, its own environment, and the interrupt handler as it was."""
    home = tmp_path / "home"
    home.mkdir()
    ours = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR")
    for name in (*ours, *(home.env for parser in PARSERS for home in parser.homes if home.env)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGINT)
    yield home
    signal.signal(signal.SIGINT, handler)


class Ran:
    """What one run printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> Ran:
        code = main(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ran(code, out, err)

    return run


# --- paths ------------------------------------------------------------------------------------------------


def test_a_log_gives_its_card(tmp_path: Path, run: Any) -> None:
    ran = run("grade", bad().write(tmp_path / "a.jsonl"), "--now", NOW)
    assert ran.code == 0
    assert "100 - 30 - 15 - 10 = 45 D" in ran.out
    assert "errored, high confidence" in ran.out
    assert "#1 #2 #3 +2  Bash x5  failed, exit code 2" in ran.out
    assert ran.err == ""


def test_several_logs_give_their_cards_and_a_summary(tmp_path: Path, run: Any) -> None:
    ran = run("grade", good().write(tmp_path / "a.jsonl"), bad().write(tmp_path / "b.jsonl"), "--now", NOW)
    assert "2 sessions · average score 72.5" in ran.out
    assert ran.out.index("a.jsonl") < ran.out.index("b.jsonl")


def test_a_folder_gives_all_logs_below_it(tmp_path: Path, run: Any) -> None:
    good("one").write(tmp_path / "logs" / "a.jsonl")
    good("two").write(tmp_path / "logs" / "deep" / "down" / "b.jsonl")
    ran = run("grade", "logs", "--format", "json")
    assert [report["session_id"] for report in ran.json["reports"]] == ["one", "two"]


def test_a_glob_is_expanded(tmp_path: Path, run: Any) -> None:
    good("one").write(tmp_path / "a1.jsonl")
    good("two").write(tmp_path / "b1.jsonl")
    ran = run("grade", "a*.jsonl", "--format", "json")
    assert [report["session_id"] for report in ran.json["reports"]] == ["one"]


def test_a_log_that_is_named_twice_counts_once(tmp_path: Path, run: Any) -> None:
    path = good().write(tmp_path / "logs" / "a.jsonl")
    ran = run("grade", "logs", path, "./logs/a.jsonl", path, "--format", "json")
    assert (ran.code, len(ran.json["reports"]), ran.json["errors"]) == (0, 1, [])


NOT_A_LOG = '{"name": "shop", "version": "1.0"}'


@pytest.mark.parametrize(
    ("files", "names", "code", "errors"),
    [
        pytest.param({}, ["nowhere.jsonl"], 2, [("nowhere.jsonl", "no such file")], id="a file that is not there"),
        pytest.param({"a.jsonl": ""}, ["a.jsonl"], 2, [("a.jsonl", "it is empty")], id="an empty file"),
        pytest.param(
            {"a.json": NOT_A_LOG}, ["a.json"], 2, [("a.json", "no agent's log")], id="a file of something else"
        ),
        pytest.param({"d/x.txt": "x"}, ["d"], 2, [("d", "no log in it")], id="a folder without a log"),
        pytest.param(
            {"d/a.json": NOT_A_LOG, "d/b.json": ""},
            ["d"],
            2,
            [("d", "none of the 2 files in it gave a session"), ("d/a.json", "no agent's log"), ("d/b.json", "empty")],
            id="a folder with nothing but other files",
        ),
        pytest.param(
            {"d/a.json": NOT_A_LOG, "d/good.jsonl": good().text},
            ["d"],
            0,
            [("d/a.json", "no agent's log")],
            id="what a walk cannot read changes no code",
        ),
        pytest.param(
            {"a.json": NOT_A_LOG, "good.jsonl": good().text},
            ["a.json", "good.jsonl", "nowhere", "x*"],
            2,
            [("nowhere", "no such file"), ("x*", "no such file"), ("a.json", "no agent's log")],
            id="each name that gave nothing, and the others are reported",
        ),
        pytest.param(
            {"d/a.json": NOT_A_LOG, "d/good.jsonl": good().text},
            ["d", "./d/a.json"],
            2,
            [("d/a.json", "no agent's log")],
            id="a file that is named and met counts as named",
        ),
    ],
)
def test_paths_without_a_session(
    files: dict[str, str], names: list[str], code: int, errors: list[tuple[str, str]], tmp_path: Path, run: Any
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    ran = run("grade", *names, "--format", "json")
    assert ran.code == code
    found = [(error["path"], error["reason"]) for error in ran.json["errors"]]
    assert [path for path, _ in found] == [path for path, _ in errors]
    for (_, reason), (path, expected) in zip(found, errors, strict=True):
        assert expected in reason
        assert f"{path}: {reason}" in ran.err
    assert len(ran.json["reports"]) == any("good" in name for name in files)


def test_many_passed_over_files_are_counted_rather_than_told(tmp_path: Path, run: Any) -> None:
    good().write(tmp_path / "d" / "good.jsonl")
    for number in range(12):
        (tmp_path / "d" / f"{number}.json").write_text(NOT_A_LOG)
    ran = run("grade", "d")
    assert (ran.code, ran.err.count("\n")) == (0, 6)
    assert "passed over 7 more files" in ran.err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is readable to root")
def test_a_folder_that_may_not_be_entered(tmp_path: Path, run: Any) -> None:
    (tmp_path / "d").mkdir(mode=0)
    ran = run("grade", "d")
    assert (ran.code, "permission" in ran.err) == (2, True)


def test_a_file_may_hold_several_sessions(tmp_path: Path, run: Any) -> None:
    messages = [{"role": "user", "content": "hello there my friend"}, {"role": "assistant", "content": "hi"}]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps({"messages": messages}) + "\n" for _ in range(3)))
    ran = run("grade", "many.jsonl", "--format", "json")
    assert ran.code == 0
    assert {report["path"] for report in ran.json["reports"]} == {"many.jsonl"}


# --- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["grade", "--format", "tabel"],
            "--format 'tabel' is none of table, json, markdown, junit, sarif, github; did you mean table?",
        ),
        (["grade", "--format", "yaml"], "--format 'yaml' is none of table, json, markdown"),
        (["grade", "--fail-under", "B+"], "no score from 0 to 100; did you mean B?"),
        (["grade", "--fail-under", "E"], "--fail-under 'E' is none of A, B, C, D, F"),
        (["grade", "--fail-under", "101"], "did you mean 100?"),
        (["grade", "--fail-under", "80%"], "did you mean 80?"),
        (["grade", "--fail-under=-1"], "no score from 0 to 100"),
        (["grade", "--fail-under", "nan"], "no score from 0 to 100"),
        (["grade", "--fail-under", ""], "--fail-under '' is none of"),
        (["grade", "--now", "yesterday"], "--now 'yesterday' is no time in ISO 8601"),
        (["grade", "--now", "0001-01-01T00:00:00+14:00"], "is no time"),
        (["grade", "--now", "0001-01-05"], "lies before 1970"),
        (["grade", "--fromat", "json"], "No such option: --fromat; did you mean --format?"),
        (["grade", "--format"], "requires an argument"),
        (["report"], "No such command 'report'"),
        (["log.jsonl"], "to grade a file: demerit grade log.jsonl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_sentence(arguments: list[str], sentence: str, tmp_path: Path, run: Any) -> None:
    good().write(tmp_path / "log.jsonl")
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.startswith("demerit: ")
    assert ran.err.count("\n") == 1


def test_version(run: Any) -> None:
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"demerit {demerit.__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["grade", "--help"]])
def test_help(arguments: list[str], run: Any) -> None:
    ran = run(*arguments)
    assert ran.code == 0
    assert "grade" in ran.out


def test_a_session_that_may_go_on_is_unknown_until_it_is_ended(tmp_path: Path, run: Any) -> None:
    path = Log().says("Make the tests of cart.py pass").calls("Bash", command="make").write(tmp_path / "a.jsonl")
    soon = ["--now", "2026-03-01T12:05:00"]
    assert "it may still be going on (--ended" in run("grade", path, *soon).out
    assert "85 B" in run("grade", path, *soon, "--ended").out
    assert "85 B" in run("grade", path, "--now", "2026-03-01T13:05:00").out


def test_a_time_without_a_zone_is_utc(tmp_path: Path, run: Any) -> None:
    path = Log().says("Make the tests of cart.py pass").calls("Bash", command="make").write(tmp_path / "a.jsonl")
    for now, outcome in (
        ("2026-03-01T12:30:59", "unknown"),
        ("2026-03-01T12:31:00", "abandoned"),
        ("2026-03-01T14:30:59+02:00", "unknown"),
    ):
        assert run("grade", path, "--now", now, "--format", "json").json["reports"][0]["outcome"] == outcome


# --- the gate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logs", "arguments", "code", "said"),
    [
        pytest.param([good], ["A"], 0, [], id="at the bar"),
        pytest.param([poor], ["94"], 0, [], id="at the score"),
        pytest.param(
            [poor], ["94.5"], 1, ["0.jsonl: 94 A is below 94.5: lost 6 for 2 tool failures"], id="below the score"
        ),
        pytest.param([bad], ["D"], 0, [], id="a letter means it or better"),
        pytest.param([bad], ["c"], 1, ["45 D is below C: lost 30 for errored ending"], id="letters in any case"),
        pytest.param([good, bad], ["B"], 1, ["1.jsonl: 45 D is below B"], id="one bad session is enough"),
        pytest.param([silent], ["F"], 1, ["not scored", "no message", "--allow-unscored"], id="unscored fails"),
        pytest.param([silent], ["F", "--allow-unscored"], 0, [], id="unscored may be let pass"),
        pytest.param([good, subagent], ["B"], 0, [], id="a sub-agent does not gate"),
        pytest.param(
            [good, subagent], ["B", "--subagents"], 1, ["1.jsonl: 45 D"], id="a sub-agent gates when asked for"
        ),
        pytest.param([subagent], ["B"], 0, ["without --subagents"], id="nothing but sub-agents is said"),
    ],
)
def test_the_gate(logs: list[Any], arguments: list[str], code: int, said: list[str], tmp_path: Path, run: Any) -> None:
    names = [log().write(tmp_path / f"{number}.jsonl") for number, log in enumerate(logs)]
    ran = run("grade", *names, "--now", NOW, "--fail-under", *arguments)
    assert ran.code == code
    assert all(words in ran.err for words in said)
    assert (ran.err == "") == (not said)
    assert "jsonl" in ran.out


def test_a_gate_takes_every_session_as_ended(tmp_path: Path, run: Any) -> None:
    path = Log().says("Make the tests of cart.py pass").calls("Bash", command="make").write(tmp_path / "a.jsonl")
    ran = run("grade", path, "--now", "2026-03-01T12:02:00Z", "--fail-under", "A")
    assert (ran.code, "85 B is below A: lost 15 for abandoned" in ran.err) == (1, True)


def test_a_name_without_a_session_outranks_the_gate(tmp_path: Path, run: Any) -> None:
    ran = run("grade", bad().write(tmp_path / "a.jsonl"), "nowhere", "--fail-under", "A")
    assert ran.code == 2
    assert "is below A" in ran.err
    assert "nowhere: no such file" in ran.err


def test_a_gate_does_not_pass_over_a_log_of_an_agent_that_it_cannot_read(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path, limits: Source) -> list[Session]:
        if path.name == "damaged.jsonl":
            raise Unreadable(str(path), "no permission to read it", known_agent=True)
        return read_sessions(path, limits)

    monkeypatch.setattr("demerit.library.read_sessions", read)
    for name in ("good", "damaged"):
        good().write(tmp_path / "d" / f"{name}.jsonl")
    ran = run("grade", "d")
    assert (ran.code, ran.err) == (0, "demerit: passed over d/damaged.jsonl: no permission to read it\n")
    ran = run("grade", "d", "--fail-under", "B")
    assert ran.code == 1
    assert ran.err.startswith("demerit: d/damaged.jsonl: no permission to read it, and a gate does not pass over")
    assert ran.err.count("\n") == 1
    assert run("grade", "d/damaged.jsonl", "--fail-under", "B").code == 2


# --- standard input ---------------------------------------------------------------------------------------


def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1]), **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "demerit", *arguments], capture_output=True, env=environment, **options
    )


def test_standard_input() -> None:
    ran = program("grade", "-", "--format", "json", "--fail-under", "B", input=bad().text.encode())
    assert ran.returncode == 1
    [report] = json.loads(ran.stdout)["reports"]
    assert (report["path"], report["score"]) == ("-", 45)
    assert ran.stderr.startswith(b"demerit: standard input: 45 D is below B")


def test_standard_input_without_a_session() -> None:
    ran = program("grade", "-", "--format", "json", input=b"")
    assert ran.returncode == 2
    assert json.loads(ran.stdout)["errors"] == [{"path": "-", "reason": "it is empty"}]
    assert ran.stderr == b"demerit: standard input: it is empty\n"


# --- formats ----------------------------------------------------------------------------------------------


def test_json_has_requests_once_over_all_logs(tmp_path: Path, run: Any) -> None:
    ran = run("grade", good("a").write(tmp_path / "a.jsonl"), good("b").write(tmp_path / "b.jsonl"), "--format", "json")
    assert [report["usage"]["requests"] for report in ran.json["reports"]] == [1, 1]
    assert ran.json["summary"]["usage"]["requests"] == 1
    assert list(ran.json) == ["schema", "reports", "summary", "errors"]


def test_json_is_printed_when_nothing_could_be_read(run: Any) -> None:
    ran = run("grade", "nowhere", "--format", "JSON")
    assert (ran.json["reports"], ran.json["summary"]["sessions"], len(ran.json["errors"])) == ([], 0, 1)


def test_markdown(tmp_path: Path, run: Any) -> None:
    ran = run("grade", bad().write(tmp_path / "a.jsonl"), "--format", "markdown")
    assert ran.out.startswith("## Report cards: 1 session, average score 45\n")
    assert "### D 45: Make the tests of cart.py pass" in ran.out
    assert "- **-15** 5 tool failures\n  - messages 1, 2, 3 +2, Bash: failed, exit code 2" in ran.out


def test_junit_says_what_the_exit_code_says(tmp_path: Path, run: Any) -> None:
    names = [good().write(tmp_path / "d" / "a.jsonl"), bad().write(tmp_path / "d" / "b.jsonl")]
    (tmp_path / "d" / "package.json").write_text(NOT_A_LOG)
    ran = run("grade", "d", "--format", "junit", "--fail-under", "B", "--now", NOW)
    root = fromstring(ran.out)
    assert (ran.code, [suite.attrib["name"] for suite in root]) == (
        1,
        ["d/a.jsonl", "d/b.jsonl", "files without a session"],
    )
    assert [[case[0].tag if len(case) else None for case in suite.iter("testcase")] for suite in root] == [
        [None],
        ["failure"],
        ["skipped"],
    ]
    ran = run("grade", *names, "nowhere", "--format", "junit", "--now", NOW)
    root = fromstring(ran.out)
    assert (ran.code, [len(list(root.iter(tag))) for tag in ("failure", "error")]) == (2, [0, 1])


def test_junit_of_a_broken_log_is_an_error(tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, limits: Source) -> list[Session]:
        raise Unreadable(str(path), "no permission to read it", known_agent=True)

    monkeypatch.setattr("demerit.library.read_sessions", read)
    keep(Path.home(), good())
    ran = run("--format", "junit", "--fail-under", "B", "--now", NOW)
    [error] = fromstring(ran.out).iter("error")
    assert (ran.code, error.attrib["message"]) == (1, "no permission to read it")


def test_sarif_names_files_as_the_checkout_has_them(tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log().says("Tidy up cart.py please")
    for number in range(2):
        log.calls("Write", file_path=str(tmp_path / "web" / "cart.py"), content=f"# {number}").gets("ok")
    for line in log.answers("Done.").lines:
        line["cwd"] = str(tmp_path / "web")
    path = log.write(tmp_path / "logs" / "a.jsonl")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    ran = run("grade", path, "--format", "sarif", "--now", NOW)
    [result] = ran.json["runs"][0]["results"]
    assert (ran.code, result["ruleId"]) == (0, "edit_churn")
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "web/cart.py", "uriBaseId": "%SRCROOT%"}
    assert str(tmp_path) not in ran.out


def test_github_gets_annotations_and_a_job_summary(tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bad().write(tmp_path / "a.jsonl")
    ran = run("grade", path, "--format", "github", "--now", NOW)
    assert [line.partition("::")[2].partition(" ")[0] for line in ran.out.splitlines()] == [
        "error",
        "warning",
        "warning",
    ]
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    again = run("grade", path, "--format", "github", "--now", NOW, "--fail-under", "B")
    assert (again.code, again.out) == (1, ran.out)
    assert (tmp_path / "summary.md").read_text().startswith("## Report cards: 1 session, average score 45\n")
    assert "### D 45: Make the tests of cart.py pass" in (tmp_path / "summary.md").read_text()


def test_a_job_summary_that_cannot_be_written_is_said(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "summary.md"))
    ran = run("grade", good().write(tmp_path / "a.jsonl"), "--format", "github", "--fail-under", "B", "--now", NOW)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith(f"demerit: the job summary could not be written to {tmp_path / 'no' / 'summary.md'}: ")


@pytest.mark.parametrize("format", ["json", "junit", "sarif", "github"])
def test_a_machine_without_logs_gives_a_program_an_empty_document(format: str, run: Any) -> None:
    ran = run("--format", format)
    assert ran.code == 0
    assert "no agent has left a log" in ran.err
    if format == "junit":
        assert list(fromstring(ran.out)) == []
    elif format == "sarif":
        assert ran.json["runs"][0]["results"] == []


def test_a_log_commands_nothing_of_githubs_runner(tmp_path: Path, run: Any) -> None:
    evil = "##[add-path]/tmp\n::error::no"
    path = bad(evil).says(evil).write(tmp_path / "##[error]x.jsonl")
    for format in ("table", "markdown", "github"):
        ran = run("grade", path, "--format", format, "--fail-under", "A")
        assert "##[" not in ran.out + ran.err
        assert all(not line.startswith("::error::") for line in ran.out.splitlines())


# --- this machine -----------------------------------------------------------------------------------------


def keep(home: Path, log: Log, days_ago: int = 0) -> None:
    path = Path(log.write(home / ".claude" / "projects" / "p" / f"{log.session}.jsonl"))
    at = (START - timedelta(days=days_ago)).timestamp()
    os.utime(path, (at, at))


@pytest.mark.parametrize("arguments", [[], ["grade"]])
def test_without_a_path_the_sessions_of_this_machine(arguments: list[str], machine: Path, run: Any) -> None:
    for number in range(12):
        keep(machine, good(f"good{number}"))
    keep(machine, bad("worst"))
    keep(machine, bad("as-bad"))
    ran = run(*arguments, "--now", NOW)
    assert ran.code == 0
    assert ran.out.startswith("14 sessions of the last 30 days · average score 92.1\n")
    worst, _, newest = ran.out.partition("The 2 worst")[2].partition("The 10 newest")
    assert "D   45  errored" in worst.splitlines()[1]
    assert worst.count("\n  ") == 2
    assert newest.count("100") + newest.count("45") == 10
    assert ran.err.startswith("demerit: the card of the first one: demerit grade ")
    assert "nothing lost" not in ran.out


def test_what_is_older_than_30_days_is_not_even_opened(machine: Path, run: Any) -> None:
    keep(machine, good("new"))
    keep(machine, bad("old"), days_ago=40)
    (machine / ".claude" / "projects" / "p" / "old.jsonl").write_text("no log any more")
    os.utime(machine / ".claude" / "projects" / "p" / "old.jsonl", (0, 0))
    ran = run("--now", NOW, "--format", "json")
    assert [report["session_id"] for report in ran.json["reports"]] == ["new"]
    assert ran.json["errors"] == []


def test_a_session_that_ended_long_ago_is_old_though_its_file_is_new(machine: Path, run: Any) -> None:
    path = Path(good("copied").write(machine / ".claude" / "projects" / "p" / "copied.jsonl"))
    later = START + timedelta(days=60)
    os.utime(path, (later.timestamp(), later.timestamp()))
    ran = run("--now", later.isoformat())
    assert (ran.code, ran.out) == (0, "No session in the last 30 days; demerit --all goes through the older ones.\n")
    assert "100 A" in run("--all", "--now", later.isoformat()).out


def test_all_prints_every_card(machine: Path, run: Any) -> None:
    keep(machine, good("new"))
    keep(machine, bad("old"), days_ago=400)
    ran = run("--all", "--now", NOW)
    assert "nothing lost: 100 A" in ran.out
    assert "= 45 D" in ran.out


def test_the_sessions_of_this_machine_can_gate(machine: Path, run: Any) -> None:
    keep(machine, bad())
    assert run("--fail-under", "B", "--now", NOW).code == 1


def test_a_machine_without_logs_shows_the_samples(run: Any) -> None:
    ran = run()
    assert ran.code == 0
    assert ran.out.startswith("No agent has left a log on this machine yet. These are the samples that come along.")
    assert "The 7 worst" in ran.out
    assert "claude-bad.jsonl" in ran.err


def test_a_variable_that_names_no_folder_is_named(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "nope"))
    assert f"CLAUDE_CONFIG_DIR names {tmp_path / 'nope'}, which is not there" in run().out


def test_a_machine_without_logs_gives_a_program_no_samples(run: Any) -> None:
    ran = run("--format", "json")
    assert (ran.code, ran.json["reports"]) == (0, [])
    assert "no agent has left a log" in ran.err


def test_a_machine_without_logs_has_nothing_to_gate(run: Any) -> None:
    ran = run("--fail-under", "B")
    assert (ran.code, ran.out) == (2, "")
    assert "name what to grade" in ran.err


# --- doctor -----------------------------------------------------------------------------------------------


def test_doctor_looks_at_this_machine(machine: Path, run: Any) -> None:
    good().write(machine / ".claude" / "projects" / "a.jsonl")
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert "Claude Code (claude-code): 1 session in 1 file" in ran.out
    assert "~/.claude/projects: 1 log (CLAUDE_CONFIG_DIR may move it)" in ran.out


def test_doctor_is_content_whatever_it_finds(tmp_path: Path, run: Any) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "broken.jsonl").symlink_to(tmp_path / "nowhere")
    ran = run("doctor", "a.json", "broken.jsonl", "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    assert [len(ran.json[key]) for key in ("skipped", "unreadable")] == [1, 1]
    assert run("doctor").code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nope.jsonl"], "nope.jsonl: no such file or folder"),
        (["--format", "markdown"], "--format 'markdown' is none of table, json"),
        (["--since", "x"], "No such option: --since"),
    ],
)
def test_wrong_usage_of_doctor(arguments: list[str], sentence: str, run: Any) -> None:
    ran = run("doctor", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"demerit: {sentence}")


def test_doctor_prints_nothing_of_a_transcript(machine: Path, run: Any) -> None:
    log = (
        Log("s").says("my secret prompt").calls("Bash", command="echo hidden").gets("hidden result").answers("whisper")
    )
    log.line("secret-kind", {"role": "secret-role"})
    log.write(machine / ".claude" / "projects" / "a.jsonl")
    (machine / ".claude" / "projects" / "b.jsonl").write_text('{"secret-key": "secret"}')
    for format in ("table", "json"):
        ran = run("doctor", "--format", format)
        assert ran.code == 0
        assert not re.search("secret|hidden|whisper", ran.out + ran.err)


# --- hostile texts ----------------------------------------------------------------------------------------


def test_neither_a_log_nor_its_name_reaches_the_terminal_as_it_is(tmp_path: Path, run: Any) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J[bold]\u202e"
    name = tmp_path / f"{evil}.jsonl"
    bad(evil).says(evil + "x").write(name)
    (tmp_path / f"{evil}.json").write_text(evil)
    for format in ("table", "markdown"):
        ran = run("grade", str(name), str(tmp_path / f"{evil}.json"), "--fail-under", "A", "--format", format)
        assert ran.code == 2
        assert ran.err.count("[bold]") == 2
        for text in (ran.out, ran.err):
            assert not {"\x1b", "\x07", "\u202e"} & set(text)


# --- the program ------------------------------------------------------------------------------------------


def test_the_program_exits_with_the_code() -> None:
    assert program("grade", "nowhere").returncode == 2
    assert program("--version").returncode == 0


def test_a_shell_completes_the_formats() -> None:
    asked = {"_DEMERIT_COMPLETE": "complete_bash", "COMP_WORDS": "demerit grade --format ", "COMP_CWORD": "3"}
    formats = [b"table", b"json", b"markdown", b"junit", b"sarif", b"github"]
    assert program(env=asked).stdout.split() == formats


def test_no_colour_into_a_pipe(tmp_path: Path) -> None:
    ran = program("grade", bad().write(tmp_path / "a.jsonl"))
    assert (ran.returncode, b"\x1b" in ran.stdout) == (0, False)
    assert b"\x1b[" in program("grade", str(tmp_path / "a.jsonl"), env={"FORCE_COLOR": "1"}).stdout
    ran = program("grade", str(tmp_path / "a.jsonl"), env={"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"})
    assert b"\x1b[31m" not in ran.stdout


def test_a_console_that_cannot_show_a_letter(tmp_path: Path) -> None:
    path = Log().says("予定の時刻のずれを直してください").answers("はい").write(tmp_path / "a.jsonl")
    ran = program("grade", path, env={"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"})
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"[A]  ????" in ran.stdout
    ran = program("grade", path, "--format", "json", env={"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"})
    assert json.loads(ran.stdout)["reports"][0]["title"].startswith("予定")


@pytest.mark.skipif(os.name == "nt", reason="no such pipes there")
@pytest.mark.parametrize("format", ["table", "json", "markdown", "junit", "sarif", "github"])
def test_a_reader_that_has_seen_enough_changes_nothing(format: str, tmp_path: Path) -> None:
    names = [bad(f"s{number}").write(tmp_path / f"{number}.jsonl") for number in range(150)]
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    command = [sys.executable, "-m", "demerit", "grade", *names, "--format", format]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(10)
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to be had")
@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_full_disk_is_said(tmp_path: Path, unbuffered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is buffered fails once more when Python exits, unless it was given up.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    if unbuffered:
        monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    path = good().write(tmp_path / "a.jsonl")
    for format in ("table", "json", "markdown", "junit", "sarif"):
        with open("/dev/full", "wb") as full:
            environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
            ran = subprocess.run(
                [sys.executable, "-m", "demerit", "grade", path, "--format", format],
                stdout=full,
                stderr=subprocess.PIPE,
                env=environment,
            )
        assert (ran.returncode, ran.stderr) == (
            2,
            b"demerit: the report could not be written: No space left on device\n",
        )


@pytest.mark.skipif(os.name == "nt", reason="no such signals there")
@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_stop_stops_with_one_line(asked: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    command = [sys.executable, "-m", "demerit", "grade", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        # More than a pipe holds: when all of it is written, the program is up and reading, and waits for the rest.
        running.stdin.write(good().text.encode() * 1000)
        running.stdin.flush()
        running.send_signal(asked)
        assert running.stderr.read() == b"demerit: stopped\n"
    assert running.returncode == 128 + asked


@pytest.mark.skipif(os.name == "nt", reason="no such signals there")
def test_readers_end_with_the_program_that_was_killed(tmp_path: Path) -> None:
    """They hold its standard output: whoever reads that would wait for ever."""
    for number in range(6):
        (tmp_path / f"{number}.jsonl").write_text(good().text * 8000)
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    command = [sys.executable, "-m", "demerit", "grade", str(tmp_path), "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as running:
        time.sleep(1)  # until the readers are at work; when they are done already, the test shows nothing
        running.kill()
        running.communicate(timeout=60)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to be had")
def test_a_sentence_that_nobody_can_be_told_changes_no_exit_code(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "demerit", "grade", str(tmp_path / "nope")]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, env=environment)
    assert ran.returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="has no sh")
def test_a_closed_standard_input_is_said() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    command = f"exec {shlex.quote(sys.executable)} -m demerit grade - <&-"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment)
    assert (ran.returncode, ran.stderr) == (2, "demerit: standard input: it is closed\n")


def test_a_fault_of_demerit_is_a_sentence_and_with_debug_a_traceback(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr("demerit.library.grade_files", broken)
    path = good().write(tmp_path / "a.jsonl")
    ran = run("grade", path)
    assert ran.code == 2
    assert ran.err == "demerit: ZeroDivisionError: oh no. This is a fault of demerit; --debug shows where it is.\n"
    for arguments in (["grade", path, "--debug"], ["--debug", "grade", path]):
        with pytest.raises(ZeroDivisionError):
            main(arguments)
