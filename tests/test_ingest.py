"""A pass over logs on disk: what it reads, what it passes over, what it keeps, and that its figures are right."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import func, select, text
from tests.parsers.claude_lines import Line, assistant, call, result, usage, user
from tests.store.conftest import database_url, postgres, postgres_url
from tests.store.logs import (
    LATER,
    content,
    ids_by_file,
    of_turns,
    renamed,
    report_of,
    settings_for,
    sync,
    totals,
    turns,
    without_cost,
    write,
)

from demerit import ingest
from demerit.cli import main
from demerit.projects import Projects
from demerit.samples import SAMPLES
from demerit.sources import Unreadable
from demerit.store import Store, archive
from demerit.store.filters import Filter, archetype, conditions, with_signals
from demerit.store.projection import Projection
from demerit.store.reads import read_report
from demerit.store.schema import archived_frames, archived_logs, logs, projects, session_signals, sessions
from demerit.store.status import status

__all__ = ["database_url", "postgres", "postgres_url"]

LONG_AFTER = datetime.fromisoformat("2040-01-01T00:00:00Z")


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two logs."""
    for name in ("a", "b"):
        write(tmp_path / "logs" / f"{name}.jsonl", turns(2, name))
    return tmp_path / "logs"


def log_rows(store: Store) -> dict[str, Any]:
    with store.reading() as connection:
        return {Path(row.path).name: row for row in connection.execute(select(logs))}


# --- what is read -------------------------------------------------------------------------------------------------


def test_a_pass_reads_what_is_new_and_nothing_else(store: Store, folder: Path) -> None:
    first = sync(store, folder)
    assert (first.found, first.unchanged, first.read, first.sessions) == (2, 0, 2, 2)
    assert first.bytes == sum(path.stat().st_size for path in folder.iterdir())
    write(folder / "c.jsonl", turns(1, "c"))
    second = sync(store, folder)
    assert (second.found, second.unchanged, second.read, second.sessions) == (3, 2, 1, 1)


@contextmanager
def watching(store: Store) -> Iterator[Callable[[], Any]]:
    """Gives what changes whenever anybody writes into the database."""
    if store.is_sqlite:
        with closing(sqlite3.connect(store.url.database or "")) as other:
            yield lambda: other.execute("pragma data_version").fetchone()
    else:
        with store.engine.connect() as connection:
            yield lambda: connection.execute(text("select pg_current_wal_insert_lsn()")).scalar_one()


def test_a_pass_over_unchanged_logs_opens_none_and_writes_nothing(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(store, folder)
    paths = [folder / "a.jsonl", folder / "b.jsonl"]

    def opened(*_: Any) -> Any:
        raise AssertionError("a log was opened")

    with watching(store) as writes:
        before = writes()
        monkeypatch.setattr(ingest, "open_log", opened)
        found = ingest.sync(store, settings_for(store), paths, LATER, debug=True)
        after = writes()
    assert (found.unchanged, found.read) == (2, 0)
    assert after == before


def test_a_log_that_grew_is_its_session_as_if_read_whole(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.jsonl"
    for count in (1, 2, 3):
        write(path, turns(count))
        assert sync(store, path).sessions == 1
    with store.reading() as connection:
        assert totals(connection) == of_turns(3)
        [number] = ids_by_file(connection)["a.jsonl"]
    report = report_of(store, number)
    assert report is not None
    assert (report.messages, report.signals.edit_churn, report.score) == (6, 2, 82)
    # Each turn edits the one file, and with the same input as the turn before: 8 for churn, 10 for retries.


def test_logs_of_one_family_that_grow_in_turn_are_as_if_read_whole(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_WORTH_A_STATE", 0)  # small logs, too, are read on from where they were
    whole = {
        "a": turns(12),
        "b": renamed(turns(8), "b") + turns(4, "x", 8, "b"),
        "c": renamed(turns(8), "c") + turns(2, "x", 8, "c") + turns(2, "y", 10, "c"),
        "z": turns(12, "z"),
    }
    for lines in range(18, 37, 3):
        for name in ("c", "a", "z", "b"):
            write(tmp_path / "logs" / f"{name}.jsonl", whole[name][:lines])
            sync(store, tmp_path / "logs")
    with store.reading() as connection:
        grown = content(connection)
        assert totals(connection) == of_turns(12 + 4 + 2 + 12, sessions=4)
    with store.writing() as connection:
        connection.execute(logs.delete())
    sync(store, tmp_path / "logs", archive=False)
    with store.reading() as connection:
        found = content(connection)
    for row in (*grown["sessions"].values(), *found["sessions"].values()):
        row.pop("digest")  # of what was read last
    for part, rows in found.items():
        assert grown[part] == rows, part


def test_a_log_that_was_touched_and_says_the_same_changes_no_session(store: Store, folder: Path) -> None:
    sync(store, folder)
    os.utime(folder / "a.jsonl", (1, 1))
    found = sync(store, folder)
    assert (found.read, found.sessions) == (1, 0)


def test_a_rewind_takes_back_what_was_read(store: Store, folder: Path) -> None:
    sync(store, folder)
    write(folder / "a.jsonl", turns(1))
    sync(store, folder)
    with store.reading() as connection:
        assert totals(connection) == of_turns(3, sessions=2)


def test_a_log_that_another_session_took_over_keeps_the_old_one(store: Store, folder: Path) -> None:
    sync(store, folder)
    write(folder / "a.jsonl", turns(3, "other", session="a"))
    sync(store, folder)
    with store.reading() as connection:
        assert totals(connection) == of_turns(4 + 3, sessions=3)
        assert len(ids_by_file(connection)["a.jsonl"]) == 2
    ingest.begin_rebuild(store)
    ingest.rebuild(store, settings_for(store), LATER, debug=True)
    with store.reading() as connection:
        assert totals(connection) == of_turns(4 + 3, sessions=3)


def test_a_session_with_a_hostile_name_is_known_again(store: Store, folder: Path) -> None:
    hostile = "a\0\x1b]0;b'; drop table sessions; --"
    for count in (1, 2, 3):
        write(folder / "a.jsonl", turns(count, "a", session=hostile))
        sync(store, folder)
    with store.reading() as connection:
        assert totals(connection) == of_turns(5, sessions=2)


def test_a_line_that_is_cut_costs_itself_until_it_is_whole(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "logs" / "a.jsonl", turns(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    sync(store, path)
    path.write_bytes(whole)
    sync(store, path)
    with store.reading() as connection:
        assert totals(connection) == of_turns(2)
        assert status(connection, LATER).losses == {}


def test_many_sessions_of_one_log_are_kept_and_grow_apart(store: Store, tmp_path: Path) -> None:
    def document(*texts: str) -> str:
        roles = ("user", "assistant")
        spoken = [{"role": roles[place % 2], "content": one} for place, one in enumerate(texts)]
        return json.dumps({"messages": spoken})

    path = tmp_path / "chats.jsonl"
    write(path, [document("one", "yes"), document("two", "yes")])
    sync(store, path)
    before = log_rows(store)
    write(path, [document("one", "yes"), document("two", "yes", "three", "yes")])
    sync(store, path)
    with store.reading() as connection:
        found = connection.execute(select(sessions.c.messages).order_by(sessions.c.id)).scalars().all()
    assert list(before) == list(log_rows(store)) == ["chats.jsonl"]
    assert sum(found) == 6


# --- what cannot be read ------------------------------------------------------------------------------------------


def test_what_gives_no_session_is_kept_with_its_reason_and_read_again_when_it_changes(
    store: Store, folder: Path
) -> None:
    path = write(folder / "notes.jsonl", ['{"nothing": "of ours"}'])
    found = sync(store, folder)
    [(failed, reason)] = found.failed
    assert (failed, found.sessions) == (str(path), 2)
    row = log_rows(store)["notes.jsonl"]
    assert (row.reason, row.known_agent, row.agent) == (reason, False, None)
    assert sync(store, folder).failed == []  # told once, and not read again
    write(path, turns(1, "c"))
    assert sync(store, folder).sessions == 1
    assert log_rows(store)["notes.jsonl"].reason is None


def test_a_log_that_breaks_keeps_the_sessions_that_it_gave(store: Store, folder: Path) -> None:
    sync(store, folder)
    write(folder / "a.jsonl", ["nothing that anybody knows"])
    found = sync(store, folder)
    assert [Path(path).name for path, _ in found.failed] == ["a.jsonl"]
    with store.reading() as connection:
        assert totals(connection) == of_turns(4, sessions=2)


def test_a_fault_of_ours_costs_one_log(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def projection(number: int, session: Any, *rest: Any) -> Any:
        if session.source_id == "a":
            raise ZeroDivisionError("so it is")
        return Projection(number, session, *rest)

    monkeypatch.setattr(ingest, "Projection", projection)
    found = sync(store, folder, debug=False)
    [(failed, reason)] = found.failed
    assert (Path(failed).name, found.sessions) == ("a.jsonl", 1)
    assert reason.startswith("demerit failed on it (ZeroDivisionError: so it is)")
    assert log_rows(store)["a.jsonl"].known_agent


def test_a_log_that_vanishes_before_it_is_read_is_no_error_row(store: Store, folder: Path) -> None:
    found = ingest.sync(store, settings_for(store), [folder / "gone.jsonl"], LATER, debug=True)
    assert len(found.failed) == 1
    assert log_rows(store) == {}


def test_a_name_that_matches_nothing_is_told(store: Store, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no such file or folder"):
        sync(store, tmp_path / "nowhere")


# --- where logs are found -----------------------------------------------------------------------------------------


def found_by(store: Store, home: Path, **chosen: Any) -> tuple[list[str], list[str]]:
    skipped: list[Unreadable] = []
    paths = ingest.find(settings_for(store, **chosen), home, {}, [], skipped)
    return sorted(path.name for path in paths), [error.reason for error in skipped]


def test_logs_are_found_in_the_agents_folders_and_in_the_roots(store: Store, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home / ".claude" / "projects" / "p" / "own.jsonl", turns(1))
    write(tmp_path / "more" / "root.jsonl", turns(1, "b"))
    assert found_by(store, home) == (["own.jsonl"], [])
    assert found_by(store, home, roots=[str(tmp_path / "more")]) == (["own.jsonl", "root.jsonl"], [])
    assert found_by(store, home, roots=[str(tmp_path / "none")]) == (["own.jsonl"], ["no such folder"])
    both = [str(tmp_path / "more"), str(tmp_path / "more" / "root.jsonl")]
    assert found_by(store, home, roots=both)[0] == ["own.jsonl", "root.jsonl"]  # each once


def test_what_is_excluded_is_not_looked_at(store: Store, folder: Path) -> None:
    write(folder / "secret" / "c.jsonl", turns(1, "c"))
    assert sync(store, folder, exclude=["*/secret/*", "*/b.jsonl"]).found == 1
    assert list(log_rows(store)) == ["a.jsonl"]


def test_a_link_out_of_a_root_is_not_followed(store: Store, folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "c.jsonl", turns(1, "c"))
    (folder / "c.jsonl").symlink_to(tmp_path / "elsewhere" / "c.jsonl")
    (folder / "more").symlink_to(tmp_path / "elsewhere")
    sync(store, folder)
    assert sorted(log_rows(store)) == ["a.jsonl", "b.jsonl"]


def test_two_machines_may_have_logs_of_one_path(store: Store, folder: Path) -> None:
    sync(store, folder, machine="here")
    write(folder / "a.jsonl", turns(2, "c"))
    found = sync(store, folder, machine="there")
    assert found.read == 2
    with store.reading() as connection:
        assert connection.execute(select(func.count()).select_from(logs)).scalar_one() == 4
        assert totals(connection) == of_turns(6, sessions=3)  # b is the same on both


# --- projects -----------------------------------------------------------------------------------------------------


def clone(folder: Path, remote: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


def in_folder(lines: list[Line], cwd: Path) -> list[Line]:
    return [{**line, "cwd": str(cwd)} for line in lines]


def test_clones_of_one_remote_are_one_project_and_folders_without_are_their_own(store: Store, tmp_path: Path) -> None:
    places = {
        "a": clone(tmp_path / "shop", "git@github.com:Dev/Shop.git"),
        "b": clone(tmp_path / "again", "https://github.com/dev/shop"),
        "c": tmp_path / "notes",
    }
    for name, cwd in places.items():
        cwd.mkdir(exist_ok=True)
        write(tmp_path / "logs" / f"{name}.jsonl", in_folder(turns(1, name), cwd))
    sync(store, tmp_path / "logs")
    with store.reading() as connection:
        rows = connection.execute(
            select(sessions.c.source_id, projects.c.key, projects.c.kind)
            .join(projects, projects.c.id == sessions.c.project_id)
            .order_by(sessions.c.source_id)
        ).all()
    expected = Projects(None).of(str(places["a"]))
    assert expected is not None
    assert [tuple(row) for row in rows] == [
        ("a", expected.key, "remote"),
        ("b", expected.key, "remote"),
        ("c", f"here:{places['c']}", "folder"),
    ]


# --- ended, archive -----------------------------------------------------------------------------------------------


def test_ended_grades_sessions_whose_last_line_has_just_come(store: Store, folder: Path) -> None:
    just_now = LATER - timedelta(days=1) + timedelta(minutes=2)
    sync(store, folder, now=just_now)
    with store.reading() as connection:
        [number] = ids_by_file(connection)["a.jsonl"]
    assert report_of(store, number) is None
    found = sync(store, folder, now=just_now, ended=True)
    assert found.unchanged == 2
    assert ingest.settle(store, just_now) == 2
    report = report_of(store, number)
    assert report is not None
    assert report.terminal
    write(folder / "c.jsonl", turns(1, "c"))
    sync(store, folder, now=just_now, ended=True)
    with store.reading() as connection:
        [new] = ids_by_file(connection)["c.jsonl"]
    assert report_of(store, new) is not None  # at once


def test_a_later_line_of_an_ended_session_clears_its_end(store: Store, folder: Path) -> None:
    just_now = LATER - timedelta(days=1) + timedelta(minutes=2)
    sync(store, folder, now=just_now, ended=True)
    write(folder / "a.jsonl", turns(3))
    sync(store, folder, now=just_now)
    assert ingest.settle(store, just_now) == 0
    with store.reading() as connection:
        [number] = ids_by_file(connection)["a.jsonl"]
        assert not connection.execute(select(sessions.c.is_terminal).where(sessions.c.id == number)).scalar_one()
    assert report_of(store, number) is None


def test_without_the_archive_no_raw_bytes_are_kept(store: Store, folder: Path) -> None:
    sync(store, folder, archive=False)
    with store.archiving() as connection:
        assert connection.execute(select(func.count()).select_from(archived_logs)).scalar_one() == 0
        assert connection.execute(select(func.count()).select_from(archived_frames)).scalar_one() == 0
    with store.reading() as connection:
        assert totals(connection) == of_turns(4, sessions=2)


def test_with_or_without_the_archive_and_over_one_or_two_processes_the_store_is_the_same(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(store, folder)
    with store.reading() as connection:
        expected = content(connection)
    for chosen in ({"archive": False}, {"workers": 2}):
        with store.writing() as connection:
            connection.execute(logs.delete())
        monkeypatch.setattr(ingest, "_WORTH_A_POOL", 0)
        monkeypatch.setattr(ingest, "_BATCH_LOGS", 1)
        sync(store, folder, **chosen)
        with store.reading() as connection:
            assert content(connection) == expected


def test_an_archive_grows_with_its_log_and_begins_anew_when_that_is_rewritten(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "logs" / "a.jsonl", turns(2))

    def generations() -> list[tuple[int, int]]:
        with store.archiving() as connection:
            frame = archived_frames.c
            query = (
                select(frame.generation, func.sum(frame.bytes)).group_by(frame.generation).order_by(frame.generation)
            )
            return [(row[0], int(row[1])) for row in connection.execute(query)]

    sync(store, path)
    write(path, turns(3))
    sync(store, path)
    assert generations() == [(0, path.stat().st_size)]
    whole = path.stat().st_size
    write(path, turns(1, "b", session="a"))
    sync(store, path)
    assert generations() == [(0, whole), (1, path.stat().st_size)]  # the old bytes are nowhere else
    path.unlink()
    ingest.begin_rebuild(store)
    ingest.rebuild(store, settings_for(store), LATER, debug=True)
    with store.reading() as connection:
        assert totals(connection) == of_turns(4, sessions=2)


# --- figures ------------------------------------------------------------------------------------------------------


def graded(paths: list[Path], capsys: pytest.CaptureFixture[str]) -> Any:
    """What `demerit grade` says of the same logs."""
    capsys.readouterr()
    main(["grade", "--format", "json", "--now", LONG_AFTER.isoformat(), *map(str, paths)])
    return json.loads(capsys.readouterr().out)


def assert_same_as_graded(store: Store, paths: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Sums, and each session that repeats nothing of another one, are those of `demerit grade`."""
    told = graded(paths, capsys)
    with store.reading() as connection:
        rows = connection.execute(
            select(
                sessions.c.id,
                logs.c.path,
                sessions.c.source_id,
                sessions.c.copy_of,
                sessions.c.replayed_messages,
                archetype.label("shape"),
            ).join(logs, logs.c.id == sessions.c.log_id)
        ).all()
        kept = {(row.path, row.source_id): row for row in rows}
        reports = {row.id: read_report(connection, row.id) for row in rows}
        total = connection.execute(
            select(
                func.sum(sessions.c.input_tokens),
                func.sum(sessions.c.cache_read_tokens),
                func.sum(sessions.c.cache_write_tokens),
                func.sum(sessions.c.output_tokens),
                func.sum(sessions.c.requests),
            )
        ).one()
        visible = select(session_signals.c.grade).select_from(with_signals).where(*conditions(Filter()))
        grades = Counter(connection.execute(visible).scalars())
    used = told["summary"]["usage"]
    names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "requests")
    assert [int(value or 0) for value in total] == [used[name] for name in names]
    seen: Counter[str | None] = Counter()
    whole = 0
    for one in told["reports"]:
        row = kept[one["path"], one["session_id"]]
        report = reports[row.id]
        assert report is not None, one["path"]
        if row.copy_of is None:
            seen[report.grade] += 1
        if row.replayed_messages == 0 and row.copy_of is None:
            whole += 1
            assert (report.grade, report.score, report.outcome.value, report.ending) == (
                one["grade"],
                one["score"],
                one["outcome"],
                one["ending"],
            ), one["path"]
            assert report.archetype.value == row.shape == one["archetype"]
    assert len(kept) == len(told["reports"])
    assert grades == seen
    assert whole > len(kept) / 2


def test_the_bundled_samples_come_to_what_grade_says_of_them(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(path for path in SAMPLES.rglob("*.json*") if path.is_file())
    sync(store, SAMPLES, now=LONG_AFTER)
    assert_same_as_graded(store, paths, capsys)


def test_real_logs_come_to_what_grade_says_of_them(
    store: Store, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = sync(store, corpus, now=LONG_AFTER)
    failed = {path for path, _ in found.failed}
    settings = settings_for(store)
    paths = [path for path in ingest.find(settings, corpus, {}, [str(corpus)], []) if str(path) not in failed]
    assert_same_as_graded(store, paths, capsys)


def claude_tokens(paths: list[Path]) -> Counter[str]:
    """One count a request, with its largest output, over all of the logs: by plain `json` alone.

    A line that does not tell its request belongs to the one that others with its message's id tell.
    """
    best: dict[Any, dict[str | None, dict[str, int]]] = {}
    for path in paths:
        for number, raw in enumerate(path.read_bytes().split(b"\n")):
            try:
                line = json.loads(raw)
                message = line["message"]
                used = message["usage"]
                created = used.get("cache_creation") or {}
            except (ValueError, LookupError, TypeError, AttributeError):
                continue
            hour = created.get("ephemeral_1h_input_tokens") or 0
            five = created.get("ephemeral_5m_input_tokens") or 0
            found = {
                "input": used.get("input_tokens") or 0,
                "read": used.get("cache_read_input_tokens") or 0,
                "written": max(five, (used.get("cache_creation_input_tokens") or 0) - hour) + hour,
                "output": used.get("output_tokens") or 0,
            }
            told = best.setdefault(message.get("id") or (path, number), {})
            before = told.setdefault(line.get("requestId"), found)
            if found["output"] > before["output"]:
                told[line.get("requestId")] = found
    total: Counter[str] = Counter()
    for told in best.values():
        for request, found in told.items():
            if request is not None or len(told) == 1:
                total.update(found)
    return Counter({name: count for name, count in total.items() if count})


def codex_tokens(paths: list[Path]) -> Counter[str]:
    """What the running totals of each log come to, at their last row: by plain `json` alone."""
    found: Counter[str] = Counter()
    for path in paths:
        total: dict[str, int] = {}
        for raw in path.read_bytes().split(b"\n"):
            try:
                payload = json.loads(raw)["payload"]
                if payload["type"] == "token_count":
                    total = payload["info"]["total_token_usage"] or total
            except (ValueError, LookupError, TypeError):
                continue
        cached, written = total.get("cached_input_tokens", 0), total.get("cache_write_input_tokens", 0)
        found += Counter(
            input=total.get("input_tokens", 0) - cached - written,
            read=cached,
            written=written,
            output=total.get("output_tokens", 0),
        )
    return found


def kept_tokens(store: Store) -> Counter[str]:
    with store.reading() as connection:
        row = connection.execute(
            select(
                func.sum(sessions.c.input_tokens),
                func.sum(sessions.c.cache_read_tokens),
                func.sum(sessions.c.cache_write_tokens),
                func.sum(sessions.c.output_tokens),
            )
        ).one()
    names = ("input", "read", "written", "output")
    return Counter({name: int(value) for name, value in zip(names, row, strict=True) if value})


def test_the_counts_by_plain_json_know_what_is_told_twice(store: Store, tmp_path: Path) -> None:
    lines = [user("please fix src/cart.py"), assistant("a", id="m1", used=usage(10, 3, 5, 2, 4))]
    lines += [assistant("b", id="m1", used=usage(10, 41, 5, 2, 4)), assistant("c", id="m1", used=usage(10, 3, 5, 2, 4))]
    paths = [write(tmp_path / f"{name}.jsonl", lines) for name in ("one", "two")]
    assert claude_tokens(paths) == {"input": 10, "read": 5, "written": 6, "output": 41}
    sync(store, tmp_path / "one.jsonl", tmp_path / "two.jsonl")
    assert kept_tokens(store) == claude_tokens(paths)


def test_tokens_of_real_claude_logs_are_those_of_an_independent_count(store: Store, corpus: Path) -> None:
    folder = corpus / "claude"
    sync(store, folder, now=LONG_AFTER)
    with store.reading() as connection:
        query = select(logs.c.path).where(logs.c.reason.is_(None), logs.c.agent == "claude-code")
        paths = [Path(path) for path in connection.execute(query).scalars()]
    assert len(paths) > 20
    assert kept_tokens(store) == claude_tokens(paths)


def test_tokens_of_real_codex_logs_are_those_of_an_independent_count(
    store: Store, corpus: Path, tmp_path: Path
) -> None:
    """Of logs that begin their own history: one that copies another's begins with what that had spent."""
    copied = tmp_path / "codex"
    copied.mkdir()
    for path in sorted((corpus / "codex").glob("*.jsonl")):
        raw = path.read_bytes()
        if b'"total_token_usage"' in raw and raw.count(b'"session_meta"') == 1 and b'"forked_from_id"' not in raw:
            shutil.copy(path, copied / path.name)
    sync(store, copied, now=LONG_AFTER)
    expected = codex_tokens(sorted(copied.iterdir()))
    assert len(list(copied.iterdir())) > 3
    assert kept_tokens(store) == expected


def test_a_report_in_the_store_names_its_log(store: Store, folder: Path) -> None:
    sync(store, folder)
    with store.reading() as connection:
        [number] = ids_by_file(connection)["a.jsonl"]
    report = without_cost(report_of(store, number))
    assert report is not None
    assert report.path == str(folder / "a.jsonl")


def test_calls_of_a_tool_that_fails_cost_the_grade_that_grade_says(store: Store, tmp_path: Path) -> None:
    lines: list[Line] = [user("please run make")]
    for number in range(3):
        lines.append(assistant("", call(f"c{number}", command=f"make {number}"), second=number * 2.0))
        lines.append(result(f"c{number}", "Exit code 2", is_error=True, second=number * 2.0 + 1))
    path = write(tmp_path / "a.jsonl", lines)
    sync(store, path)
    with store.reading() as connection:
        [number] = ids_by_file(connection)["a.jsonl"]
    report = report_of(store, number)
    assert report is not None
    assert (report.outcome, report.score, report.grade) == ("errored", 51, "D")  # 30, three failures 9, a streak 10


def test_a_large_log_is_archived_and_written_in_parts(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_LARGE", 5_000)
    path = write(tmp_path / "long.jsonl", turns(60))
    whole = path.read_bytes()
    assert len(whole) > 20_000
    assert sync(store, path).sessions == 1
    key = ingest.log_key("here", str(path))
    with store.reading_archive() as connection:
        assert b"".join(archive.pieces(connection, key, 0)) == whole
    with store.reading() as connection:
        before = content(connection)
    path.unlink()
    ingest.begin_rebuild(store)
    assert ingest.rebuild(store, settings_for(store), LATER).failed == []
    with store.reading() as connection:
        after = content(connection)
    assert before == after


def test_watching_reads_again_what_only_the_archive_has(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    path = write(folder / "gone.jsonl", turns(3))
    sync(store, folder)
    path.unlink()
    with store.writing() as connection:
        connection.execute(logs.update().values(epoch=0))
        connection.execute(sessions.update().values(epoch=0, digest=""))
    stop = Event()
    passes: list[ingest.Pass] = []

    def report(result: ingest.Pass) -> None:
        passes.append(result)
        stop.set()

    ingest.watch(store, settings_for(store), Path("/nonexistent"), {}, lambda: LATER, report, stop, [str(folder)])
    assert [(one.read, one.sessions, one.gone) for one in passes] == [(1, 1, 0)]
    with store.reading() as connection:
        assert status(connection, LATER).rebuilding is None
        assert totals(connection)["sessions"] == 1
