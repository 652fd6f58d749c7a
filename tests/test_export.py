"""Exports in every form: whole, in a shape that holds, safe to open, and without a secret that was planted."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.parsers.claude_lines import START, assistant, call, line, result, user
from tests.secrets_planted import PLANTED, planted_in, planted_lines

from demerit import config, export, ingest
from demerit.export import SCHEMA, Form, What, export_sessions
from demerit.parsers.records import HEAD_CHARS
from demerit.quality import Report
from demerit.store import Store, reads
from demerit.store.filters import Filter
from demerit.store.keeping import set_verdict
from demerit.store.reads import CallView, SessionRow, TurnView, count_sessions
from demerit.store.texts import TEXT_CHARS

NOW = START + timedelta(days=100)
WHATS: tuple[What, ...] = get_args(What)
FORMS: tuple[Form, ...] = get_args(Form)


def kept(folder: Path, logs: Mapping[str, Sequence[Any]]) -> Store:
    """A store of these logs, by the names of their files."""
    (folder / "logs").mkdir()
    paths = [folder / "logs" / f"{name}.jsonl" for name in logs]
    for path, lines in zip(paths, logs.values(), strict=True):
        path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in lines))
    url = f"sqlite:///{folder / 'demerit.db'}"
    store = Store.open(url)
    settings = config.load({"DEMERIT_DATABASE_URL": url, "DEMERIT_WORKERS": "1"})
    assert ingest.sync(store, settings, paths, NOW, debug=True).failed == []
    return store


def exported(store: Store, what: What, form: Form, redacted: bool = True, chosen: Filter = Filter()) -> bytes:  # noqa: B008 - immutable
    with store.reading() as connection:
        return b"".join(export_sessions(connection, chosen, what, form, redacted))


def items(store: Store, what: What, redacted: bool = True, chosen: Filter = Filter()) -> list[dict[str, Any]]:  # noqa: B008 - immutable
    found: list[dict[str, Any]] = json.loads(exported(store, what, "json", redacted, chosen))["items"]
    return found


def rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def said(data: bytes, form: Form) -> str:
    """All texts of an export as somebody would read them, and its very bytes."""
    if form == "csv":
        cells = [cell for row in rows(data) for cell in row]
        inner = [text for cell in cells if cell[:1] in ("{", "[") for text in _strings_of(cell)]
        return "\n".join([*cells, *inner, data.decode()])
    lines = data.splitlines() if form == "ndjson" else [data]
    return "\n".join([*(text for one in lines for text in strings(json.loads(one))), data.decode()])


def _strings_of(cell: str) -> Iterator[str]:
    with suppress(ValueError):
        yield from strings(json.loads(cell))


# --- secrets ----------------------------------------------------------------------------------------------------


def claude_log(secret: str) -> list[Any]:
    """The line with the secret wherever a Claude log has text."""
    place: Any = {"cwd": f"/home/dev/{secret}", "gitBranch": f"fix {secret}", "sessionId": f"claude {secret[:0]}"}
    return [
        line("ai-title", aiTitle=secret, uuid=None, timestamp=None, **place),
        user(f"please use\n{secret}\nfor it", **place),
        assistant(
            {"type": "thinking", "thinking": f"hm\n{secret}\n", "signature": "c2ln"},
            f"I will use\n{secret}\nnow",
            call("t1", "Bash", command=f"x\n{secret}\n", description=secret),
            call("t2", "Edit", file_path=f"/home/dev/{secret}", old_string=secret, new_string="b"),
            second=1,
            **place,
        ),
        result("t1", f"Exit code 1\n{secret}\nfailed", True, second=2, **place),
        result("t2", f"<tool_use_error>{secret}</tool_use_error>", True, second=3, **place),
        line("system", 4, subtype="informational", content=secret, **place),
        assistant(f"API Error: {secret}", second=5, model="<synthetic>", isApiErrorMessage=True, **place),
    ]


def codex_log(secret: str, number: int) -> list[Any]:
    """The line with the secret wherever a Codex log has text."""
    turn = f"019e7044-8be8-7000-8000-{number:012x}"

    def at(second: int, kind: str, **payload: Any) -> Any:
        return {"timestamp": f"2026-05-28T20:26:{second:02d}.000Z", "type": kind, "payload": payload}

    def said_by(second: int, role: str, kind: str) -> Any:
        content = [{"type": kind, "text": f"see\n{secret}\nhere"}]
        return at(second, "response_item", type="message", role=role, content=content)

    git = {"branch": secret, "commit_hash": "0" * 40}
    arguments = json.dumps({"cmd": f"x\n{secret}\n", "workdir": "/code/shop"})
    patch = f"*** Begin Patch\n*** Update File: {secret}\n@@\n-{secret}\n+b\n*** End Patch"
    failed = f"Chunk ID: 0a1b2c\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n{secret}"
    return [
        at(
            0, "session_meta", id=f"019e7044-7478-7000-8000-{number:012x}", cwd=f"/code/{secret}", source="cli", git=git
        ),
        at(1, "event_msg", type="task_started", turn_id=turn),
        at(1, "turn_context", turn_id=turn, cwd=f"/code/{secret}", model="gpt-5.5"),
        said_by(2, "user", "input_text"),
        at(3, "event_msg", type="user_message", message=f"see\n{secret}\nhere", images=[]),
        at(3, "event_msg", type="thread_name_updated", thread_name=secret),
        at(4, "response_item", type="reasoning", summary=[{"type": "summary_text", "text": f"hm\n{secret}"}]),
        at(5, "response_item", type="function_call", name="exec_command", arguments=arguments, call_id="c1"),
        at(6, "response_item", type="function_call_output", call_id="c1", output=failed),
        at(7, "response_item", type="custom_tool_call", name="apply_patch", input=patch, call_id="c2"),
        at(8, "response_item", type="custom_tool_call_output", call_id="c2", output=f"failed to parse {secret}"),
        said_by(9, "assistant", "output_text"),
        at(10, "event_msg", type="error", message=secret),
    ]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    lines = planted_lines()
    logs: dict[str, Sequence[Any]] = {}
    for number, secret in enumerate(lines):
        claude = [{**one, "sessionId": f"claude-{number}"} for one in claude_log(secret)]
        logs |= {f"claude-{number}": claude, f"rollout-{number}": codex_log(secret, number)}
    with kept(tmp_path_factory.mktemp("planted"), logs) as store:
        with store.writing() as connection:
            for number, row in enumerate(reads.list_sessions(connection, Filter(), limit=500).rows):
                set_verdict(connection, row.id, "bad", lines[number % len(lines)], NOW)
        yield store


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", WHATS)
def test_no_planted_secret_is_in_an_export(planted: Store, what: What, form: Form) -> None:
    data = exported(planted, what, form)
    assert planted_in(said(data, form)) == []
    assert data.count(b"[REDACTED:") > len(PLANTED)


@pytest.mark.parametrize("form", FORMS)
def test_without_redaction_they_all_are(planted: Store, form: Form) -> None:
    found = {what: set(planted_in(said(exported(planted, what, form, redacted=False), form))) for what in WHATS}
    assert found["sessions"] == found["transcripts"] == set(PLANTED)
    assert len(found["reports"]) > 30


def test_they_were_planted_in_every_place(planted: Store) -> None:
    """So that the tests above say something: without redaction each place of both agents holds one."""
    places: dict[str, set[str]] = {"claude-code": set(), "codex": set()}

    def look(agent: str, name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                look(agent, f"{name}.{key}" if name else key, inner)
        elif isinstance(value, list):
            for inner in value:
                look(agent, name, inner)
        elif isinstance(value, str) and planted_in(value):
            places[agent].add(name)

    for what in WHATS:
        for item in items(planted, what, redacted=False):
            look(item["agent"], "", item)
    common = {"title", "cwd", "branch", "note", "text", "thinking", "calls.input", "calls.result", "events.detail"}
    common |= {"calls.file_paths", "report.title", "report.cwd", "report.branch", "report.breakdown.calls.file"}
    assert common - places["claude-code"] == set()
    assert common - places["codex"] == {"report.breakdown.calls.file"}


SECRET = "gh" + "p_" + "R4ndomLettersAnd1234567890OfATokenXy"
PIECES = {SECRET[at : at + 8] for at in range(len(SECRET) - 7)}


def pieces_in(data: bytes) -> list[str]:
    return [piece for piece in sorted(PIECES) if piece.encode() in data]


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        pytest.param("text", 65_536, id="an answer, where its kept beginning ends"),
        pytest.param("prompt", 65_536, id="a prompt, where its shown beginning ends"),
        pytest.param("prompt", 1 << 20, id="a prompt, where its kept beginning ends"),
        pytest.param("result", 2048, id="a result, where its shown beginning ends"),
        pytest.param("result", 1 << 20, id="a result, where its kept beginning ends"),
        pytest.param("input", 2048, id="an input, where its shown beginning ends"),
        pytest.param("title", 80, id="a first line that was too long for a title"),
        pytest.param("error", 200, id="the complaint of an API, of which the beginning is kept"),
    ],
)
@pytest.mark.parametrize("back", [9, 16, 30])
def test_a_secret_that_a_limit_cuts_does_not_leak(tmp_path: Path, kind: str, limit: int, back: int) -> None:
    before = ("lorem ipsum " * (limit // 12 + 1))[: limit - back - 1]
    text = f"{before} {SECRET} and so on {'dolor ' * 20}"
    lines = [
        user(text if kind == "title" else f"say\n{text[4:]}" if kind == "prompt" else "say it"),
        assistant(text if kind == "text" else "it is", call("t", "Bash", command=text if kind == "input" else "ls")),
        result("t", text if kind == "result" else "done", second=2),
        assistant(text if kind == "error" else "no", second=3, model="<synthetic>", isApiErrorMessage=True),
    ]
    with kept(tmp_path, {"one": lines}) as store:
        for what in WHATS:
            for form in FORMS:
                assert pieces_in(exported(store, what, form)) == []
        assert pieces_in(b"".join(exported(store, what, "csv", redacted=False) for what in WHATS)) != []


def test_json_in_a_text_is_read_as_json(tmp_path: Path) -> None:
    told = '{"pass\\u0077ord": "correcthorse", "n": 1, "say": "gh\\u0070_' + SECRET[4:] + '"}'
    with kept(tmp_path, {"one": [user("go"), assistant(call("t", "Bash", command="x")), result("t", told)]}) as store:
        (turn,) = [item for item in items(store, "transcripts") if item["calls"]]
    found = json.loads(turn["calls"][0]["result"])
    assert found["n"] == 1
    assert found["password"].startswith("[REDACTED:password:")
    assert found["say"].startswith("[REDACTED:github-token:")


def test_the_lengths_at_which_bodies_are_cut_are_those_of_their_makers() -> None:
    assert {HEAD_CHARS, ingest.LIMITS.unplaced_chars, TEXT_CHARS} == export._CUT_CHARS


def test_what_may_be_half_a_secret_goes_and_other_endings_stay() -> None:
    long = "the server said that the key was not of any use"
    stay = ["short sk-ant-a", f"{long} overloaded", f"{long}: Not Found.", f"{long}: [REDACTED:bearer:0a1b2c3d]"]
    assert [export._without_half(text) for text in stay] == stay
    assert export._without_half(f"{long}: overloaded") == f"{long}: …"  # what is given so may be a password
    assert export._without_half(f"{long} sk-ant-a") == f"{long} …"
    assert export._without_half("use sk-ant-a…") == "use …"


# --- shapes -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An old session with two calls, of which one failed, and a new one of one prompt."""
    first: Any = {"sessionId": "first"}
    second: Any = {"sessionId": "second"}
    logs = {
        "first": [
            user('=SUM(A1) "quoted", and\na line', **first),
            assistant("-1 it is", call("t1", "Bash", command="ls"), call("t2", "Read", file_path="/a.py"), **first),
            result("t1", "Exit code 2\nls: no", True, second=1, **first),
            result("t2", "x = 1", second=2, **first),
            assistant("done", second=3, **first),
        ],
        "second": [user("hello \x1b[31m there", 86_400, **second)],
    }
    with kept(tmp_path_factory.mktemp("two"), logs) as store:
        with store.writing() as connection:
            number = reads.find_session(connection, "first")
            set_verdict(connection, number, "good", "+1", NOW)
        yield store


def test_json_is_one_object_with_its_items_newest_first(two: Store) -> None:
    found = json.loads(exported(two, "sessions", "json", chosen=Filter(agent="claude-code")))
    assert [item["source_id"] for item in found.pop("items")] == ["second", "first"]
    asked = found.pop("filter")
    assert (list(asked), asked["agent"], asked["model"]) == (list(Filter.__struct_fields__), "claude-code", None)
    assert found == {"schema": SCHEMA, "what": "sessions", "redacted": True}


@pytest.mark.parametrize("what", WHATS)
def test_ndjson_has_the_items_of_json_one_a_line(two: Store, what: What) -> None:
    lines = exported(two, what, "ndjson").decode().splitlines()
    assert [json.loads(one) for one in lines] == items(two, what)
    assert len(lines) == {"sessions": 2, "reports": 2, "transcripts": 4}[what]


def test_items_have_the_fields_that_the_store_shows(two: Store) -> None:
    session, report, message = (items(two, what)[-1] for what in WHATS)
    assert list(session) == [*SessionRow.__struct_fields__, "note"]
    assert (session["verdict"], session["note"]) == ("good", "+1")
    assert list(report) == ["id", "agent", "source_id", "report"]
    assert set(report["report"]) == set(Report.__struct_fields__)
    assert set(message) == {"id", "agent", "source_id", *TurnView.__struct_fields__, "text_is_cut", "thinking_is_cut"}
    (called,) = [item for item in items(two, "transcripts") if item["calls"]]
    cut = {"input_is_cut", "result_is_cut"}
    assert set(called["calls"][0]) == {*CallView.__struct_fields__} | cut
    assert [(one["name"], one["status"], one["result"]) for one in called["calls"]] == [
        ("Bash", "failed", "Exit code 2\nls: no"),
        ("Read", "ok", "x = 1"),
    ]


def test_a_session_that_is_not_measured_has_no_card(tmp_path: Path) -> None:
    with kept(tmp_path, {"one": [user("go", 100 * 86_400)]}) as store:
        (item,) = items(store, "reports")
        header, row = rows(exported(store, "reports", "csv"))
    assert item["report"] is None
    cells = dict(zip(header, row, strict=True))
    assert [name for name, cell in cells.items() if cell] == ["id", "agent", "source_id"]


def test_csv_has_a_row_a_session(two: Store) -> None:
    header, *found = rows(exported(two, "sessions", "csv"))
    cells = dict(zip(header, found[1], strict=True))
    assert header == [*SessionRow.__struct_fields__, "note"]
    assert (cells["source_id"], cells["models"], cells["is_terminal"]) == ("first", '["claude-opus-4-8"]', "false")
    assert (cells["title"], cells["note"], cells["parent_id"]) == ('\'=SUM(A1) "quoted", and', "'+1", "")


def test_csv_of_reports_has_the_signals_in_columns(two: Store) -> None:
    header, *found = rows(exported(two, "reports", "csv"))
    cells = dict(zip(header, found[1], strict=True))
    assert (cells["signals.tool_calls"], cells["signals.tool_failures"]) == ("2", "1")
    assert (cells["hygiene.prompts"], cells["usage.requests"]) == ("1", "2")
    (label, points), *rest = json.loads(cells["breakdown"]).items()
    assert label == "1 tool failure" and points > 0 and rest == []
    assert len(header) == len(set(header))


def test_csv_of_transcripts_has_a_row_a_message_and_a_row_a_call(two: Store) -> None:
    header, *found = rows(exported(two, "transcripts", "csv"))
    cells = [dict(zip(header, row, strict=True)) for row in found]
    seen = [(one["source_id"], one["ordinal"], one["role"], one["text"], one["call.name"]) for one in cells]
    assert seen == [
        ("second", "0", "user", "hello \ufffd[31m there", ""),
        ("first", "0", "user", '\'=SUM(A1) "quoted", and\na line', ""),
        ("first", "1", "assistant", "'-1 it is", ""),
        ("first", "1", "", "", "Bash"),
        ("first", "1", "", "", "Read"),
        ("first", "2", "assistant", "done", ""),
    ]
    assert (cells[3]["call.input"], cells[3]["call.exit_code"]) == ('{"command": "ls"}', "2")


def test_an_export_of_nothing_is_still_one(two: Store) -> None:
    nothing = Filter(agent="none")
    assert exported(two, "reports", "json", chosen=nothing).endswith(b'"items":[\n]}\n')
    assert exported(two, "reports", "ndjson", chosen=nothing) == b""
    assert len(rows(exported(two, "reports", "csv", chosen=nothing))) == 1


CELL = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["=1", "+", "-2", "@a", "\tb"])


@given(st.lists(CELL | st.none() | st.booleans() | st.integers(), min_size=2, max_size=6))
def test_a_row_of_csv_is_read_back_as_it_was_and_no_cell_computes(values: list[Any]) -> None:
    (found,) = rows(export._row(values))
    for value, cell in zip(values, found, strict=True):
        if isinstance(value, str):
            assert cell[:1] not in ("=", "+", "-", "@", "\t", "\r", "\n")
            clean = "".join(c if c in "\t\r\n" or not (c < " " or "\x7f" <= c <= "\x9f") else "\ufffd" for c in value)
            assert cell.removeprefix("'") == clean.removeprefix("'")
        else:
            assert cell == ("" if value is None else str(value).lower())


# --- streaming --------------------------------------------------------------------------------------------------


def test_all_pages_and_windows_are_gone_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def session(name: str) -> list[Any]:
        own: Any = {"sessionId": name}
        lines = [user(f"go {name}", **own)]
        for turn in range(5):
            calls = [call(f"{name}-{turn}-{place}", "Bash", command=f"{turn} {place}") for place in range(3)]
            lines.append(assistant(*calls, second=turn + 1, **own))
        return lines

    with kept(tmp_path, {name: session(name) for name in ("a", "b", "c", "d", "e")}) as store:
        whole = [items(store, what) for what in WHATS]
        monkeypatch.setattr(export, "_PAGE", 2)
        monkeypatch.setattr(export, "_WINDOW", 2)
        monkeypatch.setattr(reads, "_MOST_CALLS", 4)  # fewer than a window has, more than a message
        monkeypatch.setattr(export, "_CHUNK_BYTES", 1)
        assert [items(store, what) for what in WHATS] == whole
        with store.reading() as connection:
            assert count_sessions(connection, Filter()) == len(whole[0]) == 5
    assert [len(item["calls"]) for item in whole[2]] == [0, 3, 3, 3, 3, 3] * 5


def test_memory_does_not_grow_with_what_is_exported(tmp_path: Path) -> None:
    logs = {}
    for name in ("a", "b", "c"):
        own: Any = {"sessionId": name}
        texts = ["".join(f"{pow(7, at, 1_000_003)} " for at in range(turn, turn + 20_000)) for turn in range(60)]
        logs[name] = [assistant(text, second=at, **own) for at, text in enumerate(texts)]
    with kept(tmp_path, logs) as store, store.reading() as connection:
        tracemalloc.start()
        try:
            size = sum(map(len, export_sessions(connection, Filter(), "transcripts", "ndjson", redacted=False)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert size > 10_000_000
    assert peak < 9_000_000
