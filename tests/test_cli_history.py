"""The commands over the history: what they keep, choose, print and refuse, on a database of their own."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any
from zoneinfo import ZoneInfo

import jsonschema_rs
import pytest
from rich.cells import cell_len
from rich.console import Console
from sqlalchemy import update
from tests.test_cli import Log, Ran, bad, good, machine, poor, run

import demerit
from demerit.cli.app import Misuse
from demerit.cli.choosing import days_of, span
from demerit.cli.history import PANEL_NAMES, SORTS, pager
from demerit.ingest import Pass, Progress
from demerit.listing import Pages, in_short, size, snippet, under_way
from demerit.panels import PANELS
from demerit.store import Store
from demerit.store.reads import _KEYS
from demerit.store.schema import logs, sessions
from demerit.store.search import Hit
from demerit.store.status import Rebuilding

__all__ = ["machine", "run"]

DOCS = Path(__file__).parents[1] / "docs"
SCHEMAS = {name: json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8")) for name in ("store", "report")}
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
ROME = ZoneInfo("Europe/Rome")


@pytest.fixture(autouse=True)
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the database of this test will be; it is noon of the day after the logs."""
    path = tmp_path / "demerit.db"
    for name in [name for name in os.environ if name.startswith(("DEMERIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DEMERIT_DATABASE_URL", str(path))
    monkeypatch.setenv("DEMERIT_TIMEZONE", "UTC")
    monkeypatch.setattr("demerit.cli.choosing.moment", lambda text: NOW)
    return path


def placed(log: Log, **fields: str) -> Log:
    """A log with these fields on every line, and ids that no other log has: else it would be taken for a replay."""
    for number, line in enumerate(log.lines):
        line |= {"uuid": f"{log.session} {number}", "parentUuid": f"{log.session} {number - 1}" if number else None}
        if "id" in line["message"]:
            line["message"]["id"] = f"{log.session} {number}"
        line |= fields
    return log


@pytest.fixture
def kept(tmp_path: Path, run: Any) -> Callable[..., Ran]:
    """A history of three sessions: `good` (100 A) and `poor` (94 A) of the project shop, `bad` (45 D) without one."""
    placed(good(), cwd="/code/shop", gitBranch="main").write(tmp_path / "logs" / "good.jsonl")
    placed(poor(), cwd="/code/shop").write(tmp_path / "logs" / "poor.jsonl")
    placed(bad()).write(tmp_path / "logs" / "bad.jsonl")
    assert run("sync", "logs").code == 0
    ran: Callable[..., Ran] = run
    return ran


def change(history: Path, table: Any, **values: Any) -> None:
    with Store.open(f"sqlite:///{history}") as store, store.writing() as connection:
        connection.execute(update(table).values(**values))


def names(ran: Ran) -> list[str]:
    assert ran.code == 0
    return [row["source_id"] for row in ran.json["sessions"]]


# --- sync ------------------------------------------------------------------------------------------------------


def test_what_is_new_is_read_and_what_is_kept_is_passed_over(tmp_path: Path, run: Any) -> None:
    good().write(tmp_path / "logs" / "good.jsonl")
    (tmp_path / "logs" / "shop.json").write_text('{"name": "shop"}')
    first = run("sync", "logs")
    assert first.code == 0
    assert first.out.startswith("2 logs found, 0 unchanged, 2 read (")
    assert first.out.endswith(" MB/s), 1 session new or changed, 1 without a session\n")
    assert "logs/shop.json: JSON, but no agent's log" in first.err
    again = run("sync", "logs", "--json").json
    assert {key: again[key] for key in ("found", "unchanged", "read", "sessions")} == {
        "found": 2,
        "unchanged": 2,
        "read": 0,
        "sessions": 0,
    }


def test_a_session_that_was_still_going_on_is_graded_when_it_is_over(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good().write(tmp_path / "good.jsonl")
    monkeypatch.setattr("demerit.cli.choosing.moment", lambda text: datetime(2026, 3, 1, 12, 10, tzinfo=UTC))
    assert run("sync", "good.jsonl").code == 0
    assert "ungraded" in run("sessions").out
    assert "It is not graded: it may still be going on." in run("show", "good").out
    monkeypatch.setattr("demerit.cli.choosing.moment", lambda text: NOW)
    ran = run("sync", "good.jsonl")
    assert ran.out == "1 log found, 1 unchanged, 0 read, 0 sessions new or changed, 1 graded that had ended since\n"
    assert "A 100" in run("sessions").out
    assert run("settle").out == "0 sessions graded\n"


def test_ended_grades_what_is_just_now_active(tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demerit.cli.choosing.moment", lambda text: datetime(2026, 3, 1, 12, 2, tzinfo=UTC))
    good().write(tmp_path / "good.jsonl")
    assert run("sync", "--ended", "good.jsonl").code == 0
    assert run("sessions", "--json").json["sessions"][0]["grade"] == "A"


def test_logs_without_a_session_are_told_with_five_reasons(tmp_path: Path, run: Any) -> None:
    good().write(tmp_path / "logs" / "good.jsonl")
    for number in range(7):
        (tmp_path / "logs" / f"{number}.json").write_text('{"name": "shop"}')
    ran = run("sync", "logs")
    assert ran.err.count("passed over") == 6
    assert ran.err.endswith("demerit: passed over 2 more; --json lists all of them\n")


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C comes as a signal elsewhere")
@pytest.mark.parametrize(
    ("how", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="a request to end"),
    ],
)
def test_a_sync_that_is_stopped_says_what_is_kept(
    how: signal.Signals, code: int, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: Any) -> None:
        arguments[5](Progress(logs=120, of_logs=300, bytes=1, of_bytes=2, sessions=9))
        os.kill(os.getpid(), how)
        time.sleep(5)

    good().write(tmp_path / "good.jsonl")
    monkeypatch.setattr("demerit.ingest.sync", stopped)
    ran = run("sync", "good.jsonl")
    assert (ran.code, ran.out) == (code, "")
    said = "demerit: 120 of 300 logs are read and kept; demerit sync goes on from there\ndemerit: stopped\n"
    assert ran.err == said


def write_until(write: Callable[[], object], seen: Event) -> None:
    """Write again and again: when a watch has begun to look, nobody is told."""
    for _ in range(60):
        write()
        if seen.wait(0.5):
            return


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C comes as a signal elsewhere")
def test_a_watch_tells_each_pass_and_ends_cleanly(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    good().write(folder / "good.jsonl")
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    environment["DEMERIT_WATCH_INTERVAL_S"] = "0.1"
    command = [sys.executable, "-m", "demerit", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as ran:
        assert ran.stdout is not None
        last = Timer(60, ran.kill)  # whatever goes wrong, the test ends
        last.start()
        first = ran.stdout.readline()
        later = Thread(target=write_until, args=(lambda: bad().write(folder / "bad.jsonl"), seen := Event()))
        later.start()
        second = ran.stdout.readline()
        seen.set()
        later.join()
        ran.send_signal(signal.SIGINT)
        out, err = ran.communicate()
        last.cancel()
    assert re.fullmatch(r"\d\d:\d\d:\d\d 1 log found, 0 unchanged, 1 read, .*\n", first)
    assert "1 session new or changed" in second
    assert (ran.returncode, out, err) == (0, "", "demerit: watching; Ctrl-C ends it\n")


# --- sessions --------------------------------------------------------------------------------------------------


def test_a_list_says_what_it_shows_and_how_many_there_are(kept: Any) -> None:
    ran = kept("sessions")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["id", "score", "outcome", "when", "session", "agent", "project", "took", "model"]
    first = r"A 100  completed +24 h ago  Add a flag to the .*  claude-code  shop +1 min  claude-x$"
    assert re.search(first, ran.out, re.M)
    assert re.search(r"D  45  errored .*  Make the tests of .* +claude-code ", ran.out)
    assert lines[-1] == "3 of 3 sessions, newest first"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], {"good", "poor", "bad"}, id="all of them"),
        pytest.param(["--grade", "d"], {"bad"}, id="a grade, however it is spelled"),
        pytest.param(["--outcome", "completed"], {"good", "poor"}, id="an outcome"),
        pytest.param(["--project", "shop"], {"good", "poor"}, id="a project"),
        pytest.param(["--branch", "main"], {"good"}, id="a branch"),
        pytest.param(["--tool", "Bash", "--grade", "A"], {"poor"}, id="a tool and a grade"),
        pytest.param(["--model", "claude-x"], {"good", "poor", "bad"}, id="a model"),
        pytest.param(["--agent", "codex"], set(), id="an agent that has none"),
        pytest.param(["--range", "2d"], {"good", "poor", "bad"}, id="today and yesterday"),
        pytest.param(["--range", "1d"], set(), id="today"),
        pytest.param(["--range", "2026-03-01"], {"good", "poor", "bad"}, id="one day"),
        pytest.param(["--range", "..2026-02-28"], set(), id="up to the day before"),
    ],
)
def test_filters_choose(arguments: list[str], expected: set[str], kept: Any) -> None:
    ran = kept("sessions", "--json", *arguments)
    assert set(names(ran)) == expected
    assert ran.json["total"] == len(expected)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        pytest.param(None, None, None, id="no span"),
        pytest.param("all", None, None, id="all"),
        # Rome is one hour ahead of UTC in winter and two in summer; today is 2026-03-30 there.
        pytest.param("1d", "2026-03-29T22:00", None, id="today begins at midnight in the zone"),
        pytest.param("7D", "2026-03-23T23:00", None, id="a week that begins before the clocks change"),
        pytest.param("2w", "2026-03-16T23:00", None, id="weeks are of seven days"),
        pytest.param("1y", "2025-03-30T22:00", None, id="a year is of 365 days"),
        pytest.param("2026-03-29", "2026-03-28T23:00", "2026-03-29T22:00", id="a day of 23 hours"),
        pytest.param("2026-03-01..2026-03-02", "2026-02-28T23:00", "2026-03-02T23:00", id="both days belong to it"),
        pytest.param("2026-03-01..", "2026-02-28T23:00", None, id="without an end"),
        pytest.param("..2026-03-01", None, "2026-03-01T23:00", id="without a begin"),
    ],
)
def test_a_range_is_of_whole_days_in_the_zone(text: str | None, since: str | None, until: str | None) -> None:
    now = datetime(2026, 3, 29, 23, 30, tzinfo=UTC)
    expected = tuple(None if one is None else datetime.fromisoformat(f"{one}+00:00") for one in (since, until))
    assert span(text, now, ROME) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("yesterday", "is no span of days; write it like 30d"),
        ("7", "is no span of days"),
        ("0d", "is no span of days"),
        ("99999y", "is no span of days"),
        ("..", "is no span of days"),
        ("2026-02-30", "is no span of days"),
        ("2026-03-02..2026-03-01", "ends before it begins; write 2026-03-01..2026-03-02"),
        ("0001-01-01", "is no span of days"),
    ],
)
def test_what_is_no_range_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Misuse, match=re.escape(sentence)):
        span(text, NOW, ZoneInfo("Pacific/Auckland"))


def test_an_age_is_in_days_weeks_or_years() -> None:
    assert [days_of(text) for text in ("90d", "12W", "1y", "90", "d", "1.5d")] == [90, 84, 365, None, None, None]


def test_pages_go_on_where_the_last_one_ended(kept: Any) -> None:
    seen: list[str] = []
    after: list[str] = []
    for _ in range(3):
        page = kept("sessions", "--json", "--limit", "1", "--sort", "score", *after)
        seen += names(page)
        after = ["--after", page.json["next"]]
    assert seen == ["good", "poor", "bad"]
    assert page.json["next"] is None
    assert names(kept("sessions", "--json", "--sort", "score", "--asc")) == ["bad", "poor", "good"]
    said = kept("sessions", "--limit", "2").out.splitlines()[-2:]
    assert said[0] == "2 of 3 sessions, newest first; the next ones:"
    assert re.fullmatch(r"  --after [\w-]+", said[1])


def test_what_it_is_sorted_by_is_shown_however_narrow_it_is(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for key, heading in (("messages", "messages"), ("duration", "took"), ("cost", "cost"), ("tokens", "tokens")):
        assert heading in kept("sessions", "--sort", key).out.splitlines()[0].split()


def test_sorts_and_panels_of_the_help_are_those_that_there_are() -> None:
    assert tuple(_KEYS) == SORTS
    assert tuple(PANELS) == PANEL_NAMES


# --- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["sessions"], ["show", "1"], ["search", "cart"], ["insights"], ["export"]])
def test_an_empty_history_says_what_to_do(command: list[str], run: Any) -> None:
    ran = run(*command)
    assert ran.code == 0
    what = "demerit sync reads the logs on this machine, demerit sync PATH those in a folder"
    assert ran.err == f"demerit: nothing is kept yet; {what}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sessions", "--grade", "E"], "--grade 'E' is none of A, B, C, D, F, unscored"),
        (["sessions", "--outcome", "complete"], "did you mean completed?"),
        (["sessions", "--agent", "claude"], "did you mean claude-code?"),
        (["sessions", "--verdict", "ok"], "--verdict 'ok' is none of good, bad"),
        (["sessions", "--sort", "date"], "--sort 'date' is none of started, score"),
        (["sessions", "--json", "--csv"], "--json and --csv are two formats; give one of them"),
        (["sessions", "--after", "here"], "'here' is no place in this list; begin again at the first page"),
        (["sessions", "--limit", "0"], "--limit 0 is not from 1 to 500"),
        (["search", "--kind", "outputs", "x"], "--kind 'outputs' is none of prompt, answer, input, output"),
        (["search", "--", "-x"], "says only what to leave out"),
        (["search", ".."], "there is nothing to look for in '..'"),
        (["show", "nothing"], "no session is called 'nothing'; demerit sessions lists them"),
        (["show", "good", "--messages", "last"], "--messages 'last' names no messages; write 10:20"),
        (["show", "good", "--messages", "5:2"], "--messages '5:2' names no messages"),
        (["insights", "grade"], "PANEL 'grade' is none of grades"),
        (["insights", "grades", "--by", "week"], "--by 'week' is none of grade"),
        (["insights", "--csv"], "--csv is for one panel: demerit insights PANEL --csv"),
        (["sync", "nowhere"], "nowhere: no such file or folder"),
        (["sync", "--ended"], "--ended is for logs that you name: demerit sync --ended PATH"),
        (["prune"], "say what may go: --older-than 90d"),
        (["prune", "--older-than", "90"], "--older-than '90' is no age; write it like 90d, 12w or 1y"),
        (["prune", "--max-size", "2"], "--max-size '2' is no size; write it like 500MB or 2GB"),
        (["prune", "--project", "shp"], "no project is called 'shp'; did you mean 'shop'?"),
        (["verdict", "good", "great"], "the verdict 'great' is none of good, bad, none"),
        (["verdict", "good", "none", "--note", "x"], "--note goes with good or bad"),
        (["export", "--format", "xml"], "--format 'xml' is none of json, ndjson, csv"),
        (["export", "--what", "session"], "did you mean sessions?"),
        (["export", "-o", "no/such/folder/x"], "no/such/folder/x could not be written: No such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_sentence(arguments: list[str], sentence: str, kept: Any) -> None:
    ran = kept(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.startswith("demerit: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--project", "Shpo"], "no project is called 'Shpo'; did you mean 'shop'?"),
        (["--model", "claude"], "no model is called 'claude'; did you mean 'claude-x'?"),
        (["--tool", "bash"], "no tool is called 'bash'; did you mean 'Bash'?"),
        (["--branch", "release"], "no branch is called 'release'"),
        (["--grade", "F"], "no session is like that; demerit sessions without options lists all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_filter_that_chooses_nothing_says_why(arguments: list[str], sentence: str, kept: Any) -> None:
    for command in ("sessions", "insights"):
        ran = kept(command, *arguments)
        assert (ran.code, ran.out, ran.err) == (0, "", f"demerit: {sentence}\n")


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("DEMERIT_DATABASE_URL", "mysql://x/y", "DEMERIT_DATABASE_URL is 'mysql://x/y', and must be a file"),
        ("DEMERIT_TIMEZONE", "Rome", "did you mean Europe/Rome?"),
        ("DEMERIT_ARCHIV", "no", "unknown environment variable DEMERIT_ARCHIV; did you mean DEMERIT_ARCHIVE?"),
    ],
)
def test_a_setting_that_cannot_be_used(
    variable: str, value: str, sentence: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    for command in ("sessions", "config"):
        ran = run(command)
        assert (ran.code, ran.out) == (2, "")
        assert sentence in ran.err


def test_a_file_that_is_no_database_is_left_alone(history: Path, run: Any) -> None:
    history.write_text("not a database, but somebody's notes " * 100)
    ran = run("sessions")
    assert ran.code == 2
    assert "is no SQLite database" in ran.err
    assert history.read_text().startswith("not a database")


# --- show ------------------------------------------------------------------------------------------------------


def test_a_session_is_shown_with_its_card_its_calls_and_what_they_cost(kept: Any) -> None:
    out = kept("show", "bad").out
    assert "100 - 30 - 15 - 10 = 45 D" in out
    assert "#0 user · 2026-03-01 12:00\n  Make the tests of cart.py pass\n" in out
    call = out[out.index("#1 assistant") : out.index("#2 assistant")]
    assert "→ Bash · failed · exit code 2 of make\n" in call
    assert "cost points: 5 tool failures, failed" in call
    assert '    in  {"command": "make step-0"}\n    out Exit code 2\n        no such target\n' in call
    assert out.count("→ Bash") == 5


def test_a_session_goes_by_its_number_its_name_or_the_beginning_of_it(kept: Any) -> None:
    number = kept("sessions", "--json", "--grade", "D").json["sessions"][0]["id"]
    placed(Log("0f3a-long-name").says("Look at it").answers("Yes.")).write(Path("more.jsonl"))
    assert kept("sync", "more.jsonl").code == 0
    assert kept("show", str(number), "--json").json["session"]["row"]["source_id"] == "bad"
    assert kept("show", "0f3a-l", "--json").json["session"]["row"]["source_id"] == "0f3a-long-name"


@pytest.mark.parametrize(
    ("arguments", "shown", "following"),
    [
        pytest.param(["--messages", "1:2"], [1, 2], 3, id="both ends belong to it"),
        pytest.param(["--messages", "4:"], [4, 5], None, id="to the end"),
        pytest.param(["--messages", ":1"], [0, 1], 2, id="from the beginning"),
        pytest.param(["--messages", "#3"], [3], 4, id="one of them"),
        pytest.param(["--messages", "9:"], [], None, id="beyond the end"),
        pytest.param(["--all"], [0, 1, 2, 3, 4, 5], None, id="all"),
    ],
)
def test_a_part_of_a_transcript(arguments: list[str], shown: list[int], following: int | None, kept: Any) -> None:
    found = kept("show", "bad", "--json", *arguments).json
    assert [turn["ordinal"] for turn in found["messages"]] == shown
    assert found["next"] == following


def test_a_long_transcript_says_how_to_go_on(kept: Any) -> None:
    log = Log("long")
    for number in range(120):
        log.says(f"Question number {number} about cart.py").answers("Yes.")
    placed(log).write(Path("long.jsonl"))
    assert kept("sync", "long.jsonl").code == 0
    out = kept("show", "long").out
    assert out.endswith(
        "There is more:\n  demerit show {} --messages 200:\n".format(*re.findall(r"session +(\d+)", out))
    )
    assert ("#199 assistant" in out, "#200 user" in out) == (True, False)
    assert "#239 assistant" in kept("show", "long", "--all").out
    assert kept("show", "long", "--messages", "300:").out == "\nThere is no such message.\n"


def test_long_texts_are_folded_and_full_shows_them(kept: Any) -> None:
    text = "\n".join(f"line {number}" for number in range(60))
    long = "".join(f"{number} " for number in range(2000))
    log = Log("texts").says(text).calls("Bash", command="seq").gets(long).answers("Done.")
    placed(log).write(Path("texts.jsonl"))
    assert kept("sync", "texts.jsonl").code == 0
    out = kept("show", "texts").out
    assert ("line 39\n  +20 lines\n" in out, "line 40" in out, "8.89 kB in all" in out) == (True, False, True)
    full = kept("show", "texts", "--full").out
    assert ("line 59" in full, "1998 1999" in full) == (True, True)
    whole = kept("show", "texts", "--full", "--json").json["messages"][1]["calls"][0]["result"]
    assert (whole["text"], whole["is_cut"]) == (long, False)


def test_what_is_special_about_a_session_is_said(kept: Any, history: Path) -> None:
    for name in ("one.jsonl", "two.jsonl"):
        placed(Log("twice").says("Rename the function in cart.py").answers("Done.")).write(Path(name))
    assert kept("sync", "one.jsonl", "two.jsonl").code == 0
    change(history, logs, is_gone=True)
    [first] = [row for row in kept("sessions", "--json").json["sessions"] if row["source_id"] == "twice"]
    [copy] = kept("show", "twice", "--json").json["session"]["copies"]
    out = kept("show", str(copy["id"])).out
    assert f"All of it stands in session {first['id']} as well, and counts there" in " ".join(out.split())
    assert "Its log is gone from the disk" in out
    change(history, sessions, epoch=0)
    assert "An older version of demerit read it (epoch 0;" in kept("show", "good").out


def test_replayed_messages_are_folded_until_they_are_asked_for(kept: Any) -> None:
    first = (
        Log("first").says("Look into cart.py, please").answers("It adds up.").says("And test_cart.py?").answers("Yes.")
    )
    placed(first)
    second = Log("second")
    second.lines = [{**line, "sessionId": "second"} for line in first.lines]
    second.says("Now change cart.py").answers("Done.")
    first.write(Path("a.jsonl"))
    second.write(Path("b.jsonl"))
    assert kept("sync", "a.jsonl").code == 0
    assert kept("sync", "b.jsonl").code == 0
    [row] = [row for row in kept("sessions", "--json").json["sessions"] if row["source_id"] == "second"]
    assert row["replayed_messages"] == 4
    out = kept("show", "second").out
    assert "4 messages of an earlier session, where they count: #0 to #3\n" in out
    assert "It adds up." not in out
    for asked in (["--full"], ["--messages", "0:1"]):
        assert "It adds up." in kept("show", "second", *asked).out


def test_context_that_was_shed_and_events_divide_a_transcript(kept: Any) -> None:
    log = Log("shed").says("Look into cart.py, please").answers("Yes.")
    log.says("And now?").answers("Yes.")
    for line, tokens in zip((log.lines[1], log.lines[3]), (90_000, 5_000), strict=True):
        line["message"]["usage"] = {"input_tokens": tokens, "output_tokens": 20}
    placed(log).write(Path("shed.jsonl"))
    assert kept("sync", "shed.jsonl").code == 0
    out = kept("show", "shed").out
    assert out.count("──── context shed ───") == 1
    assert out.index("#2 user") < out.index("context shed") < out.index("#3 assistant")


class Screen(io.StringIO):
    """A terminal, for whoever asks."""

    def isatty(self) -> bool:
        return True


@pytest.mark.skipif(os.name == "nt", reason="the pager is a shell script")
def test_a_pager_gets_what_a_terminal_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "pager"
    script.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    script.chmod(0o700)
    monkeypatch.setenv("PAGER", str(script))
    screen, pipe = Screen(), io.StringIO()
    with pager(screen) as stream:
        assert stream.isatty()
        stream.write("über\n")
    assert (screen.getvalue(), (tmp_path / "paged").read_text(encoding="utf-8")) == ("", "über\n")
    with pager(pipe) as stream:  # nothing is paged that does not go to a terminal
        assert stream is pipe


@pytest.mark.parametrize("command", ["", "cat", "no-such-pager-anywhere", "'"])
def test_without_a_pager_it_is_printed(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", command)
    screen = Screen()
    with pager(screen) as stream:
        assert stream is screen


@pytest.mark.skipif(os.name == "nt", reason="has no true")
def test_a_pager_that_ends_early_ends_the_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "true")
    handler = signal.getsignal(signal.SIGINT)
    with pager(Screen()) as stream:
        for _ in range(10_000):
            stream.write("a line of a long transcript\n" * 10)
    assert signal.getsignal(signal.SIGINT) is handler


# --- search ----------------------------------------------------------------------------------------------------


def test_a_search_shows_the_places_and_how_to_open_them(kept: Any) -> None:
    ran = kept("search", "step-3", "target")
    assert (ran.code, ran.out) == (0, "")
    assert "nothing that is kept has 'step-3 target' in one text" in ran.err
    ran = kept("search", "make step-3")
    number = kept("sessions", "--json", "--grade", "D").json["sessions"][0]["id"]
    assert '#4 Bash input\n       {"command": "make step-3"}\n' in ran.out
    assert ran.out.endswith(f"To open the first place:\n  demerit show {number} --messages 4:\n")
    found = kept("search", "make step-3", "--json").json
    [hit] = found["results"][0]["hits"]
    assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["make", "step-3"]


def test_a_search_keeps_to_kinds_and_filters(kept: Any) -> None:
    assert len(kept("search", "cart", "--json").json["results"]) == 2
    assert len(kept("search", "cart", "--grade", "D", "--json").json["results"]) == 1
    assert kept("search", "cart", "--kind", "output", "--kind", "answer", "--json").json["results"] == []


def test_what_was_found_is_bold_and_clean() -> None:
    hit = Hit("answer", 1, 0, None, None, "a \x1b[31mred\x1b[0m fox \u202eand", ((7, 10), (15, 18)))
    shown = snippet(hit)
    assert shown.plain == "a red fox and"
    assert [(shown.plain[span.start : span.end], span.style) for span in shown.spans] == [
        ("red", "bold"),
        ("fox", "bold"),
    ]


# --- insights --------------------------------------------------------------------------------------------------


def test_the_page_of_insights_has_the_most_telling_figures(kept: Any) -> None:
    out = kept("insights").out
    assert "How good were the sessions? · 3 sessions, by grade" in out
    assert re.search(r"^D +1 +33% +45$", out, re.M)
    # Eight calls: seven failed, and the eighth worked.
    assert re.search(r"^Bash +2 +8 +7  88% \(53-98%\)$", out, re.M)
    assert "demerit insights tools" in out


def test_a_panel_says_everything(kept: Any) -> None:
    out = kept("insights", "grades", "--project", "shop").out
    assert "How good were the sessions? · 2 sessions, by grade" in out
    assert re.search(r"^A +2 +2 +100% +97 +4$", out, re.M)
    assert "Time: when a session started." in out
    assert "Other views: --by tool-model, --by model" in kept("insights", "tools").out
    assert kept("insights", "grades", "--csv").out.splitlines()[1] == "A,2,3,0.6666666666666666,97.0,4"


@pytest.mark.parametrize("panel", PANEL_NAMES)
@pytest.mark.parametrize("columns", [40, 60, 80, 140])
def test_a_panel_fits_the_terminal_and_leaves_out_no_column(
    panel: str, columns: int, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for by in PANELS[panel].by:
        out = kept("insights", panel, "--by", by).out
        assert max(map(cell_len, out.splitlines())) <= columns
        if "There is nothing to show." in out:
            continue
        words = set(re.findall(r"\w+", out))
        merged = ("_low", "_high", "project_key", "is_dated")
        for column in PANELS[panel].columns(by):
            if not column.name.endswith(merged) and column.name != PANELS[panel].columns(by)[0].name:
                assert set(column.name.removesuffix("_usd").split("_")) <= words


# --- rebuilding ------------------------------------------------------------------------------------------------


def test_nothing_is_compared_while_a_rebuild_is_due(kept: Any, history: Path) -> None:
    change(history, logs, epoch=0, read_us=0)
    change(history, sessions, epoch=0)
    sentence = (
        "demerit: this version of demerit reads all logs again, and has done 0 of 3 logs; "
        "nothing is compared until all are read: demerit rebuild goes on\n"
    )
    for command in (["sessions"], ["search", "cart"], ["insights"], ["insights", "grades", "--csv"]):
        ran = kept(*command)
        assert (ran.code, ran.out, ran.err) == (0, "", sentence)
    for command in (["sessions"], ["search", "cart"], ["insights"]):
        assert kept(*command, "--json").json["rebuilding"] == {"logs_done": 0, "logs": 3, "seconds_left": None}
    ran = kept("export")
    assert (ran.code, ran.out, ran.err) == (2, "", sentence)
    ran = kept("rebuild")
    assert ran.out.startswith("3 logs found, 0 unchanged, 3 read (")
    assert set(names(kept("sessions", "--json"))) == {"good", "poor", "bad"}
    assert kept("rebuild").err == (
        "demerit: nothing is due: this version has read every log; --all reads them all again\n"
    )
    assert kept("rebuild", "--all", "--json").json["read"] == 3


@pytest.mark.parametrize(
    ("seconds", "end"),
    [
        (None, ": demerit rebuild goes on"),
        (0.2, ", in about 1 second"),
        (89.6, ", in about 90 seconds"),
        (600.0, ", in about 10 minutes"),
    ],
)
def test_a_rebuild_says_how_long_it_may_take(seconds: float | None, end: str) -> None:
    assert under_way(Rebuilding(10, 20, seconds)).endswith(
        f"10 of 20 logs; nothing is compared until all are read{end}"
    )


# --- verdicts, pruning, export, settings -----------------------------------------------------------------------


def test_a_verdict_is_kept_shown_and_taken_back(kept: Any) -> None:
    ran = kept("verdict", "bad", "GOOD", "--note", "it found the fault")
    assert re.fullmatch(r"session \d+, Make the tests of cart.py pass: yours is good, ours is D 45\n", ran.out)
    assert "yours     good · it found the fault" in kept("show", "bad").out
    assert names(kept("sessions", "--json", "--verdict", "good")) == ["bad"]
    assert "no verdict of yours" in kept("verdict", "bad", "none").out
    assert names(kept("sessions", "--json", "--verdict", "good")) == []


def test_a_prune_deletes_only_what_it_showed_and_only_with_yes(kept: Any) -> None:
    ran = kept("prune", "--project", "shop")
    assert "2 sessions to go, oldest first: about" in ran.out
    assert ran.err == "demerit: nothing is deleted yet; with --yes it is\n"
    assert kept("sessions", "--json").json["total"] == 3
    assert "Deleted: 2 sessions, 2 archived logs;" in kept("prune", "--project", "shop", "--yes").out
    assert names(kept("sessions", "--json")) == ["bad"]
    assert "Nothing is to go" in kept("prune", "--older-than", "1d", "--max-size", "1.5GiB").out


def test_an_export_is_a_private_file_of_what_was_chosen(kept: Any, tmp_path: Path) -> None:
    ran = kept("export", "--grade", "D", "--format", "ndjson", "-o", "out.ndjson")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    [line] = (tmp_path / "out.ndjson").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["source_id"] == "bad"
    if os.name != "nt":
        assert (tmp_path / "out.ndjson").stat().st_mode & 0o777 == 0o600
    assert json.loads(kept("export", "--what", "reports").out)["what"] == "reports"


def test_an_export_masks_secrets_unless_it_is_told_not_to(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    placed(Log("leak").says(f"Use {secret} for cart.py").answers("Done.")).write(Path("leak.jsonl"))
    assert kept("sync", "leak.jsonl").code == 0
    leaks = ["export", "--what", "transcripts", "--format", "ndjson"]
    assert secret not in kept(*leaks).out
    assert secret in kept(*leaks, "--no-redact").out
    monkeypatch.setenv("DEMERIT_REDACT", "false")
    assert secret in kept(*leaks).out


def test_settings_are_shown_with_where_they_came_from(run: Any, history: Path) -> None:
    ran = run("config")
    assert f'database_url         = "sqlite:///{history}"  (environment DEMERIT_DATABASE_URL)\n' in ran.out
    assert "archive              = true\n" in ran.out
    [first, *_] = run("config", "--json").json["settings"]
    assert first == {
        "name": "database_url",
        "value": f"sqlite:///{history}",
        "origin": "environment",
        "place": "DEMERIT_DATABASE_URL",
    }


# --- every command ---------------------------------------------------------------------------------------------

UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff]")
HOSTILE = (
    "\x1b]0;owned\x07Look \x1b[2J\u202eat\u2028cart.py [bold]漢字かな交じり文の長い題名\x9b31m\r\tend\x08 ##[error]"
)


@pytest.fixture
def hostile(kept: Any) -> Any:
    log = Log("evil\x1b[31m\u202e").says(HOSTILE)
    log.calls("Bash\x1b[5m", command=HOSTILE + "x" * 5000 + "漢" * 900).gets(HOSTILE + "y" * 30_000, failed=True)
    log.answers(HOSTILE, "W" * 300)
    placed(log, cwd="/code/évil\x1b[31m漢字", gitBranch="b\x1b[7m\u202e", version="1\x1b[7m")
    log.lines[1]["message"]["model"] = "=model\x1b[31m\u202e"
    log.write(Path("evil.jsonl"))
    assert kept("sync", "evil.jsonl").code == 0
    assert kept("verdict", "evil", "bad", "--note", HOSTILE).code == 0
    return kept


COMMANDS = (
    ["sessions"],
    ["sessions", "--csv"],
    ["sessions", "--json"],
    ["sessions", "--project", HOSTILE],
    ["show", "evil"],
    ["show", "evil", "--full"],
    ["show", "evil", "--json"],
    ["show", HOSTILE],
    ["search", "cart"],
    ["search", "cart", "--json"],
    ["search", HOSTILE],
    ["insights"],
    ["insights", "--json"],
    ["insights", "tools"],
    ["insights", "tools", "--csv"],
    ["insights", "cost", "--by", "model"],
    ["verdict", "evil", "bad"],
    ["prune", "--older-than", "1d"],
    ["export"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: ascii(" ".join(words))[1:60])
def test_nothing_of_a_transcript_is_obeyed_and_every_line_fits(
    command: list[str], hostile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (60, 80, 140):
        monkeypatch.setenv("COLUMNS", str(columns))
        ran = hostile(*command)
        assert UNSEEN.findall(ran.out + ran.err) == []
        if "--json" not in command and "export" not in command:
            assert "##[" not in ran.out
        if not {"--csv", "--json", "export", "verdict"}.intersection(command):
            assert max(map(cell_len, ran.out.splitlines()), default=0) <= columns


def test_a_cell_of_csv_is_no_formula(hostile: Any) -> None:
    assert ",'=model" in hostile("sessions", "--csv").out


def test_colours_are_for_terminals_that_want_them(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in kept("sessions").out
    rows: list[Any] = []
    monkeypatch.setattr(Pages, "sessions", lambda self, found, sort: rows.extend(found))
    kept("sessions")
    monkeypatch.undo()
    for environment, has_colour in (({}, True), ({"NO_COLOR": "1"}, False)):
        console = Console(file=io.StringIO(), force_terminal=True, width=80, _environ={"TERM": "xterm", **environment})
        Pages(console, NOW).sessions(rows)
        assert isinstance(console.file, io.StringIO)
        assert ("\x1b[32m" in console.file.getvalue()) == has_colour


# --- documents -------------------------------------------------------------------------------------------------


def objects_in(value: Any, schema: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every object in a document beside the schema of it, as far as this schema goes."""
    reference = schema.get("$ref", "#")
    if not reference.startswith("#"):
        return
    if "$ref" in schema:
        schema = SCHEMAS["store"]["$defs"][reference.rpartition("/")[2]]
    if "anyOf" in schema:
        yield from objects_in(value, schema["anyOf"][0]) if value is not None else ()
    elif isinstance(value, list):
        for item in value:
            yield from objects_in(item, schema["items"])
    elif isinstance(value, dict) and "properties" in schema:
        yield value, schema
        for key, item in value.items():
            yield from objects_in(item, schema["properties"][key])


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("sessions", ["sessions"]),
        ("session", ["show", "bad"]),
        ("session", ["show", "evil"]),
        ("search", ["search", "cart"]),
        ("insights", ["insights"]),
        ("pass", ["sync", "evil.jsonl", "logs"]),
        ("pass", ["rebuild", "--all"]),
        ("settled", ["settle"]),
        ("settings", ["config"]),
        ("said", ["verdict", "bad", "good"]),
        ("said", ["verdict", "bad", "none"]),
        ("prune", ["prune", "--project", "shop"]),
        ("prune", ["prune", "--project", "shop", "--yes"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_document_fits_its_schema_in_every_key(name: str, command: list[str], hostile: Any) -> None:
    ran = hostile(*command, "--json")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    panel = json.loads((DOCS / "panel.schema.json").read_text(encoding="utf-8"))
    known = jsonschema_rs.Registry(
        [("json-schema:///report.schema.json", SCHEMAS["report"]), ("json-schema:///panel.schema.json", panel)]
    )
    jsonschema_rs.meta.validate(SCHEMAS["store"])
    jsonschema_rs.Draft202012Validator(SCHEMAS["store"], registry=known, validate_formats=True).validate(ran.json)
    found = list(objects_in(ran.json, {"$ref": f"#/$defs/{name}"}))
    assert found
    for value, schema in found:
        assert list(value) == list(schema["properties"]) == schema["required"]


def test_every_key_of_the_schema_is_documented() -> None:
    page = (DOCS / "store-json.md").read_text(encoding="utf-8")
    written: dict[str, list[str]] = {}
    for part in page.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        written[heading] = re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
    assert written == {name: list(schema["properties"]) for name, schema in SCHEMAS["store"]["$defs"].items()}


# --- in words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (12_345, "12.3 kB"), (999_499, "999 kB"), (1_000_000, "1 MB"),
     (2_500_000_000, "2.5 GB"), (3_000_000_000_000, "3,000 GB")],
)  # fmt: skip
def test_sizes_are_in_three_digits(number: int, words: str) -> None:
    assert size(number) == words


def test_a_pass_in_one_line() -> None:
    done = Pass(found=10, unchanged=6, read=4, bytes=30_000_000, sessions=5, graded=2, gone=1, failed=[("x", "why")])
    assert in_short(done, 2.0) == (
        "10 logs found, 6 unchanged, 4 read (30 MB, 15.0 MB/s), 5 sessions new or changed, "
        "2 graded that had ended since, 1 gone from the disk, 1 without a session"
    )


def test_the_help_is_quick_and_names_every_command() -> None:
    code = "import sys; from demerit.cli import main; main(['--help']); print([m for m in sys.modules if m in %r])"
    heavy = ("sqlalchemy", "demerit.store", "demerit.panels", "demerit.parsers", "rich.progress", "watchfiles")
    environment = {**os.environ, "PYTHONPATH": str(Path(demerit.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, env=environment)
    assert ran.stdout.splitlines()[-1] == "[]"
    for name in ("sync", "watch", "sessions", "show", "search", "insights", "settle", "rebuild", "config", "verdict"):
        assert f" {name} " in ran.stdout
