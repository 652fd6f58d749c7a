"""`import demerit` as people use it, and grading many logs at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.parsers.claude_lines import START, Line, assistant, call, result, usage, user

import demerit
from demerit.library import grade_file, grade_files
from demerit.parsers.records import Source
from demerit.quality.summary import summarize
from demerit.quality.usage import RequestTotals
from demerit.sources import read_sessions

NOW = START + timedelta(days=1)


def write(path: Path, *lines: Line) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(
        tmp_path / "good.jsonl",
        user("fix the rounding in src/cart.py"),
        assistant(call("t", command="ls"), id="m1", used=usage(5, 7)),
        result("t"),
        assistant("Done.", id="m2", used=usage(6, 8)),
    )


def test_grade_a_log(good: Path) -> None:
    (report,) = demerit.grade(good, now=NOW)
    assert (report.path, report.agent, report.grade, report.score) == (str(good), "claude-code", "A", 100)


def test_grade_takes_a_text_for_a_path(good: Path) -> None:
    assert demerit.grade(str(good))[0].score == 100


def test_ended_settles_a_session_that_has_just_been_active(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", user("hello there my friend"))
    now = START + timedelta(minutes=1)
    assert demerit.grade(path, now=now)[0].outcome == "unknown"
    assert demerit.grade(path, now=now, ended=True)[0].outcome == "abandoned"


def test_grade_a_list_of_messages() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"}]
    before = json.dumps(messages)
    (report,) = demerit.grade(messages)
    assert (report.path, report.outcome, report.grade) == (None, "completed", "A")
    assert json.dumps(messages) == before


def test_grade_a_request_body() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"}]
    body = {"model": "gpt-5", "messages": messages}
    (report,) = demerit.grade(body)
    assert (report.outcome, report.messages) == ("completed", 2)


def test_a_list_in_memory_is_never_idle_unless_it_ended() -> None:
    """Neither the list nor a file tells when it was."""
    messages = [{"role": "user", "content": "hi"}]
    assert demerit.grade(messages, now=datetime(2036, 1, 1, tzinfo=UTC))[0].outcome == "unknown"
    assert demerit.grade(messages, ended=True)[0].outcome == "abandoned"


def test_parse_keeps_bodies(good: Path) -> None:
    (session,) = demerit.parse(good)
    body = session.messages[1].calls[0].input
    assert body is not None
    assert body.head == '{"command": "ls"}'


def test_what_is_no_log_raises_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(demerit.Unreadable, match="no such file"):
        demerit.grade(tmp_path / "nope.jsonl")


def test_every_public_name_is_there_and_no_other() -> None:
    assert set(dir(demerit)) >= set(demerit.__all__)
    for name in demerit.__all__:
        assert getattr(demerit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        demerit.nope  # noqa: B018


def test_importing_demerit_loads_none_of_its_parts() -> None:
    code = "import sys, demerit; print(sorted(m for m in sys.modules if m.startswith(('demerit.', 'msgspec', 'rich'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_pool_gives_the_same_as_one_process_in_the_same_order(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no log")
    files = [good, bad, write(tmp_path / "big.jsonl", *[user("x" * 3_000_000) for _ in range(3)])]
    alone = list(grade_files(files, NOW, workers=1))
    pooled = list(grade_files(files, NOW, workers=2))
    assert [entry.path for entry in pooled] == [str(path) for path in files]
    assert [entry.reports for entry in pooled] == [entry.reports for entry in alone]
    assert [str(entry.error) for entry in pooled] == [str(entry.error) for entry in alone]


def test_a_fault_of_ours_costs_one_log(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("demerit.library.read_sessions", fail)
    (graded,) = grade_files([good], NOW)
    assert graded.error is not None
    assert graded.error.reason == (
        "demerit failed on it (IndexError: list index out of range), which is our fault; --debug shows where"
    )
    with pytest.raises(IndexError):
        list(grade_files([good], NOW, debug=True))


def test_a_killed_reader_costs_one_log(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, the system kills a process of a pool: that must not cost the others' work."""
    deadly = write(tmp_path / "deadly.jsonl", *[user("x" * 3_000_000) for _ in range(3)])

    def kill(path: Path, limits: Source) -> object:
        if path.name == "deadly.jsonl":
            os.kill(os.getpid(), signal.SIGKILL)
        return read_sessions(path, limits)

    monkeypatch.setattr("demerit.library.read_sessions", kill)
    graded = list(grade_files([good, deadly], NOW, workers=2))
    assert [len(one.reports) for one in graded] == [1, 0]
    assert graded[1].error is not None
    assert "was killed" in graded[1].error.reason


def test_names_that_are_no_text_come_back_from_the_pool(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(bytes(tmp_path) + b"/bad\xff.jsonl"))
    write(odd, *[user("x" * 3_000_000) for _ in range(2)])
    other = write(tmp_path / "other.jsonl", *[user("x" * 3_000_000) for _ in range(2)])
    graded = list(grade_files([odd, other], NOW, workers=2))
    assert [one.reports[0].path for one in graded] == [str(odd), str(other)]


@pytest.mark.parametrize(
    "body", [{"messages": [{"role": "user", "content": "a\ud800"}]}, {"messages": [], "x": object()}]
)
def test_an_odd_body_in_memory_is_graded(body: dict[str, object]) -> None:
    assert demerit.grade(body)[0].agent == "chat"


def test_requests_that_a_resumed_log_repeats_count_once_over_all_logs(good: Path, tmp_path: Path) -> None:
    """T1, T10."""
    resumed = write(
        tmp_path / "resumed.jsonl",
        assistant(call("t", command="ls"), id="m1", used=usage(5, 7)),
        assistant("More.", id="m3", used=usage(100, 50)),
    )
    graded = [grade_file(str(path), NOW, False) for path in (good, resumed)]
    totals = RequestTotals()
    for entry in graded:
        totals.add(entry.usages)
    summary = summarize([report for entry in graded for report in entry.reports], totals.result())
    assert summary.usage is not None
    assert (summary.usage.input_tokens, summary.usage.output_tokens, summary.usage.requests) == (111, 65, 3)
    assert summary.sessions == 2


def test_a_summary_counts_grades_outcomes_tools_and_points(good: Path, tmp_path: Path) -> None:
    bad = write(
        tmp_path / "bad.jsonl",
        user("run it"),
        *[assistant(call(str(n), command=f"make {n}"), id=f"x{n}") for n in range(4)],
        *[result(str(n), "Exit code 2", True) for n in range(4)],
    )
    reports = [report for path in (good, bad) for report in demerit.grade(path, now=NOW)]
    summary = summarize(reports, None)
    # four failures and a streak on an errored ending: 100 - 30 - 12 - 10 = 48
    assert summary.grades == {"A": 1, "B": 0, "C": 0, "D": 1, "F": 0, "unscored": 0}
    assert (summary.outcomes["completed"], summary.outcomes["errored"]) == (1, 1)
    assert summary.average_score == 74.0
    assert [(tool.tool, tool.calls, tool.failures) for tool in summary.worst_tools] == [("Bash", 5, 4)]
    assert [(s.signal, s.points, s.sessions) for s in summary.costly_signals] == [
        ("errored", 30, 1),
        ("tool_failures", 12, 1),
        ("failure_streak", 10, 1),
    ]


def test_a_summary_of_nothing_has_no_average() -> None:
    summary = summarize([], RequestTotals().result())
    assert (summary.sessions, summary.average_score, summary.usage) == (0, None, None)


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_it_went(good: Path) -> None:
    with good.open("a") as file:
        file.write(json.dumps(user("one more"))[:40])
    (report,) = demerit.grade(good, now=NOW)
    assert report.losses == {"malformed_line": 1}
    assert report.grade == "A"
