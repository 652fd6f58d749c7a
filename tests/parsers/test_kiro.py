"""Kiro. The Q and T rows named in the ids are mistakes known in the field: docs/formats/kiro.md.

Expectations are worked out by hand from the fixtures in `kiro/`, which are invented.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import HUGE, fits, places, put
from tests.parsers.sessions import CORPUS, calls, losses, spoken

from demerit.model import Session
from demerit.parsers import kiro
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "kiro"
DOCUMENTS = sorted(path.stem for path in FIXTURES.glob("*.json") if ".beside" not in path.name)
LINES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))
BESIDE = (FIXTURES / "lines.beside.json").read_bytes()
FILE = Source(name="k1")


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


def read_bytes(data: bytes, source: Source = FILE) -> Session:
    (session,) = kiro.parse(records(data), source)
    return session


def read(*values: Any) -> Session:
    return read_bytes(b"\n".join(json.dumps(value).encode() for value in values))


def data_of(name: str) -> bytes:
    return (FIXTURES / (f"{name}.json" if name in DOCUMENTS else f"{name}.jsonl")).read_bytes()


def fixture(name: str, source: Source = FILE) -> Session:
    return read_bytes(data_of(name), source)


def with_beside(beside: bytes = BESIDE) -> Session:
    (session,) = kiro.parse([*records(data_of("lines")), Record(beside, None, "k1.json")], FILE)
    return session


def rows(*values: dict[str, Any]) -> list[Session]:
    return kiro.parse([Record(json.dumps(value).encode(), None, "conversations_v2") for value in values], FILE)


def row(name: str, **columns: Any) -> dict[str, Any]:
    value = data_of(name).decode()
    return {"key": "/home/dev/shop", "conversation_id": f"k1-{name}", "value": value, **columns}


def told(session: Session) -> dict[str | None, tuple[str, str]]:
    return {call.call_id: (call.status.value, call.evidence) for call in calls(session)}


# --- the editor's document ------------------------------------------------------------------------------------


def test_a_document_of_the_editor_tells_who_said_what_and_no_more() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.started, session.cwd) == ("kiro", "k1", None, None)
    assert spoken(session) == [
        ("user", "human", "make a readme for the shop"),
        ("assistant", "agent", "I make it."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "It is there."),
    ]
    (call,) = calls(session)
    assert (call.name, call.category, call.file_paths) == ("fs_write", "write", ("shop/README.md",))
    assert (call.call_id, call.status.value, call.evidence) == (None, "unknown", "the log has no ids and no results")
    assert session.untold == ("statuses",)
    assert fixture("cli").untold == ()


# --- the command line's document ------------------------------------------------------------------------------


def test_a_document_of_the_command_line_has_times_models_and_results() -> None:
    session = fixture("cli")
    assert (session.source_id, session.cwd, session.losses) == ("k1-cli", "/home/dev/shop", ())
    assert session.started == datetime(2026, 7, 1, 7, 0, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 7, 1, 7, 0, 9, 900_000, tzinfo=UTC)
    assert spoken(session) == [
        ("user", "human", "round half up in cart.py please"),
        ("assistant", "agent", "I look."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Rounding is half up now."),
    ]
    assert [message.model for message in session.messages] == [None, "claude-sonnet-4.5", "claude-sonnet-4.5", None]
    assert session.messages[1].at == datetime(2026, 7, 1, 7, tzinfo=UTC)
    assert {status for status, _ in told(session).values()} == {"ok"}


def test_q19_q26_each_tool_is_mapped_and_names_its_files() -> None:
    assert [(call.name, call.category, call.file_paths) for call in calls(fixture("cli"))] == [
        ("fs_read", "read", ("cart.py", "order.py")),
        ("execute_bash", "shell", ()),
        ("fs_write", "edit", ("cart.py",)),
        ("fs_write", "write", ("NEW.md",)),
    ]


def test_credits_are_no_tokens() -> None:
    session = with_beside()
    assert session.loose_usage == () and all(message.usage is None for message in session.messages)
    assert kiro.PARSER.coverage.usage == "no"


@pytest.mark.parametrize(
    ("call_id", "status", "evidence"),
    [
        pytest.param("t1", "failed", "exit_status 1 of pytest", id="the status is Success though it exited with 1"),
        pytest.param("t2", "benign", "exit_status 1 of grep", id="T23 grep found nothing"),
        pytest.param("t3", "failed", "status Error", id="Q2 an edit that did not fit"),
        pytest.param("t4", "invalid", "text: Failed to parse the tool use", id="arguments that do not fit"),
        pytest.param("t5", "ok", "exit_status 0", id="Q13 Q14 T25 words in an output decide nothing"),
        pytest.param("t6", "failed", "exit_status signal: 9 (SIGKILL)", id="ended by a signal"),
        pytest.param("t7", "failed", "status Error", id="an error of another service"),
        pytest.param("t8", "unknown", "status Odd", id="a status that is not known"),
        pytest.param("t9", "pending", "no result in the log", id="no result"),
    ],
)
def test_status(call_id: str, status: str, evidence: str) -> None:
    session = fixture("tool_error")
    assert told(session)[call_id] == (status, evidence)
    assert losses(session) == {"orphan_result": 1}


def test_a_refusal_a_prompt_instead_and_an_interrupt_are_three_things() -> None:
    session = fixture("refused")
    assert told(session) == {
        "t1": ("declined", "CancelledToolUses: I deny this tool request. Ask a follow u"),
        "t2": ("declined", "CancelledToolUses: I deny this tool request. Ask a follow u"),
        "t3": ("declined", "another prompt in place of a permission"),
        "t4": ("cancelled", "CancelledToolUses after an interrupt"),
    }
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("user", "human", None),
        ("assistant", "agent", None),
        ("context", "harness", None),  # the program's words for a refusal
        ("assistant", "agent", None),
        ("user", "human", None),
        ("assistant", "agent", None),
        ("context", "harness", "interrupt"),
        ("assistant", "harness", None),  # the program's words, too
    ]
    assert session.messages[4].text == "no, only look at it"
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("interrupt", 5)]


def test_q5_t20_a_summary_is_a_compaction_and_a_time_out_an_api_error() -> None:
    session = fixture("compaction")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("compaction", None), ("api_error", 3)]
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("context", "harness", "compaction_summary"),
        ("context", "harness", None),
        ("assistant", "agent", None),
        ("user", "human", None),
        ("assistant", "harness", "api_error"),
        ("context", "harness", None),
        ("assistant", "agent", None),
    ]
    assert session.messages[0].text == "The port is half done."


def test_t43_the_first_result_of_a_call_stands_and_fills_its_copies() -> None:
    assert [(call.status.value, call.exit_code) for call in calls(fixture("replay"))] == [("failed", 2), ("failed", 2)]


def test_what_a_call_is_called_for_the_reader_makes_it_no_other_call() -> None:
    def turn(name: str, summary: str) -> dict[str, Any]:
        use = {"id": name, "name": "execute_bash", "args": {"command": "make", "summary": summary}}
        return {"user": None, "assistant": {"ToolUse": {"tool_uses": [use]}}}

    history = [turn("t1", "Build"), turn("t2", "Build again")]
    first, second = calls(read({"conversation_id": "k", "history": history}))
    assert first.input_hash is not None and first.input_hash == second.input_hash


def test_bodies_stay_at_their_place_or_are_left_out() -> None:
    data = data_of("cli")
    result = calls(read_bytes(data))[1].result
    assert result is not None and result.offset is not None
    assert json.loads(data[result.offset : result.offset + result.bytes])["stdout"] == "cart.py"
    bare = fixture("cli", Source(bodies=False, text_bytes=4))
    assert calls(bare)[1].result is None and bare.messages[1].text == "I lo"


# --- the database -----------------------------------------------------------------------------------------------


def test_each_conversation_of_the_database_is_a_session_and_the_newest_of_two_rows_counts() -> None:
    old = row("cli", created_at=1782889100000, updated_at=1782889300000)
    moved = old | {"key": "/home/dev/till", "updated_at": 1782889400000}
    sessions = rows(moved, old, row("refused"))
    assert [(session.source_id, session.cwd) for session in sessions] == [
        ("k1-cli", "/home/dev/till"),
        ("k1-refused", "/home/dev/shop"),
    ]
    assert sessions[0].started == datetime(2026, 7, 1, 6, 58, 20, tzinfo=UTC)
    assert sessions[0].ended == datetime(2026, 7, 1, 7, 3, 20, tzinfo=UTC)
    assert len(sessions[0].messages) == 4 and calls(sessions[0])[0].status.value == "ok"


def test_a_row_without_a_value_costs_itself() -> None:
    whole, broken = rows(row("cli"), {"key": "/x", "conversation_id": "k9", "value": '{"conversation_id": "k9", "his'})
    assert whole.losses == () and losses(broken) == {"malformed_line": 1}


def test_the_query_reads_every_column_that_there_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "data.sqlite3")) as database:
        database.execute("create table conversations_v2 (key, conversation_id, value, created_at, updated_at, more)")
        database.execute("insert into conversations_v2 values ('/x', 'k9', '{}', 1, 2, 3)")
        cursor = database.execute(kiro.PARSER.queries[0].sql)
        assert [column[0] for column in cursor.description][:3] == ["key", "conversation_id", "value"]


# --- the files of one line a record ---------------------------------------------------------------------------


def test_lines_are_read_with_the_file_beside_them() -> None:
    session = with_beside()
    assert (session.source_id, session.title, session.cwd) == ("5e55-1", "Round half up", "/home/dev/shop")
    assert (session.parent_source_id, session.relation) == ("5e55-0", "subagent")
    assert session.started == datetime(2026, 7, 1, 6, 59, tzinfo=UTC)
    assert session.ended == datetime(2026, 7, 1, 7, 30, tzinfo=UTC)
    assert [(message.role, message.author, message.model) for message in session.messages] == [
        ("user", "agent", None),  # a sub-agent's prompt
        ("assistant", "agent", "claude-sonnet-4.5"),  # its turn names it
        ("assistant", "agent", "claude-sonnet-4.5"),
        ("user", "agent", None),
        ("assistant", "agent", "claude-opus-4.5"),  # the session's
    ]
    assert session.losses == ()


def test_lines_alone_tell_the_conversation() -> None:
    session = fixture("lines")
    assert (session.source_id, session.relation, session.title) == ("k1", None, None)
    assert [message.author for message in session.messages if message.role == "user"] == ["human", "human"]
    assert session.messages[0].has_image
    first = session.messages[1]
    assert (first.text, first.thinking_kind, first.thinking_bytes) == ("I look.", "text", 15)
    assert told(session) == {
        "t1": ("ok", "status success"),
        "t2": ("benign", "exit_status 1 of grep"),
        "t3": ("failed", "exit_status 1 of pytest"),
        "t4": ("cancelled", "result Cancelled"),
        "t5": ("pending", "no result in the log"),
    }
    assert [(call.category, call.file_paths) for call in calls(session)][-2:] == [
        ("write", ("NEW.md",)),
        ("edit", ("order.py",)),
    ]


def test_the_purpose_of_a_call_is_no_part_of_its_input() -> None:
    def line(name: str) -> dict[str, Any]:
        use = {"toolUseId": name, "name": "shell", "input": {"command": "ls", "__tool_use_purpose": name}}
        return {"version": "v1", "kind": "AssistantMessage", "data": {"content": [{"kind": "toolUse", "data": use}]}}

    first, second = calls(read(line("t1"), line("t2")))
    assert first.input_hash == second.input_hash


# --- broken and hostile content -----------------------------------------------------------------------------------


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {"no_data": 1, "no_type": 1, "not_an_object": 1, "orphan_result": 1, "unknown_type": 2}
    assert [message.text for message in session.messages] == ["what is new in here?", "Much."]


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1} and told(session) == {"t1": ("pending", "no result in the log")}


@pytest.mark.parametrize("name", [*DOCUMENTS, *LINES])
def test_a_log_may_be_cut_at_any_byte(name: str) -> None:
    data = data_of(name)
    for size in range(1, len(data), 37):
        read_bytes(data[:size])


def test_a_source_without_records_has_no_session() -> None:
    assert kiro.parse([], Source()) == []


# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("conversation_id",): (str,),
    ("history",): (list,),
    ("history", "user"): (dict,),
    ("history", "user", "timestamp"): (str, int, float),
    ("history", "user", "env_context", "env_state", "current_working_directory"): (str,),
    ("history", "user", "content", "Prompt", "prompt"): (str,),
    ("history", "user", "content", "ToolUseResults", "tool_use_results", "status"): (str,),
    ("history", "assistant"): (dict,),
    ("history", "assistant", "Response", "content"): (str,),
    ("history", "assistant", "ToolUse", "tool_uses"): (list,),
    ("history", "assistant", "ToolUse", "tool_uses", "name"): (str,),
    ("history", "request_metadata", "model_id"): (str,),
    ("model_info",): (dict,),
    ("kind",): (str,),
    ("data",): (dict,),
    ("data", "message_id"): (str,),
    ("data", "content"): (list,),
    ("data", "content", "kind"): (str,),
    ("data", "meta", "timestamp"): (str, int, float),
}
WRONG = ("wrong_type", "bad_time")
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.just(HUGE) | st.just(1.5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in (*DOCUMENTS, *LINES) if name not in ("cut", "unknown_type")]))
    values = [json.loads(line) for line in data_of(name).splitlines()]
    index = data.draw(st.integers(0, len(values) - 1))
    at = data.draw(st.sampled_from(sorted(places(values[index]), key=repr)))
    new = data.draw(junk)
    before = losses(read(*values))
    values[index] = put(values[index], at, new)
    after = losses(read(*values))
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        assert sum(after.get(kind, 0) for kind in WRONG) > sum(before.get(kind, 0) for kind in WRONG), (at, new, after)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_value_may_stand_in_the_file_beside_and_in_a_row(data: st.DataObject) -> None:
    beside = json.loads(BESIDE)
    at = data.draw(st.sampled_from(sorted(places(beside), key=repr)))
    with_beside(json.dumps(put(beside, at, data.draw(junk))).encode())
    columns = row("cli", created_at=1, updated_at=2)
    assert len(rows(put(columns, (data.draw(st.sampled_from(sorted(columns))),), data.draw(junk)))) == 1


# --- whose it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*DOCUMENTS, *LINES])
def test_each_fixture_is_recognised_by_its_first_value(name: str) -> None:
    assert kiro.sniff(Sample((json.loads(data_of(name).splitlines()[0]),)))


def test_the_database_is_recognised_by_its_tables() -> None:
    assert kiro.sniff(Sample(tables=frozenset(("conversations_v2", "auth_kv", "history", "state"))))
    assert not kiro.sniff(Sample(tables=frozenset(("conversations", "auth_kv"))))


@pytest.mark.parametrize(
    "value",
    [
        {"conversation_id": "x", "history": [{"role": "user", "content": "hi"}]},
        {"conversation_id": "x", "history": "none"},
        {"history": [{"user": {}, "assistant": {}}]},
        {"version": "v2", "kind": "Prompt", "data": {}},
        {"version": "v1", "kind": "Prompt", "data": []},
        {"version": "v1", "kind": ["Prompt"], "data": {}},
        {"role": "user", "message": {"content": "hi"}},
        [],
        None,
    ],
)
def test_other_content_is_not_claimed(value: object) -> None:
    assert not kiro.sniff(Sample((value,)))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real logs is not here")
def test_every_real_log_is_read_without_a_loss() -> None:
    for path in (CORPUS / "kiro").iterdir():
        session = read_bytes(path.read_bytes())
        assert session.messages and session.losses == (), path.name
        assert {call.status.value for call in calls(session)} <= {"unknown"}
