"""ATIF: docs/formats/atif.md.

Expectations are worked out by hand from the fixtures in `atif/`, which are invented.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.sessions import CORPUS, calls, losses

from demerit.model import Session, Usage
from demerit.parsers import atif, chat, claude, codex
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "atif"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
DOCUMENTS = {name: json.loads((FIXTURES / f"{name}.json").read_text()) for name in NAMES}


def read_all(value: Any) -> list[Session]:
    return atif.parse([Record(json.dumps(value).encode())], Source("run"))


def read(*steps: dict[str, Any], name: str = "an-agent", **more: Any) -> Session:
    sessions = read_all({"schema_version": "ATIF-v1.7", "agent": {"name": name}, "steps": list(steps), **more})
    return sessions[0]


def fixture(name: str) -> Session:
    return atif.parse([Record((FIXTURES / f"{name}.json").read_bytes())], Source(name))[0]


def called(name: str, arguments: Any, **result: Any) -> dict[str, Any]:
    call = {"tool_call_id": "c1", "function_name": name, "arguments": arguments}
    results = [{"source_call_id": "c1", "content": "x", **result}]
    return {"source": "agent", "message": "", "tool_calls": [call], "observation": {"results": results}}


STATUSES = {
    "plain": ["Bash unknown", "Edit unknown"],
    "tool_error": [
        "Bash failed",
        "Bash declined",
        "Read failed",
        "Read ok",
        "Nope invalid",
        "Read unknown",
        "Read failed",
        "Bash pending",
    ],
    "benign_exit": ["bash benign", "bash failed"],
    "terminus": ["bash_command unknown", "bash_command unknown", "bash_command unknown", "mark_task_complete unknown"],
    "continuation": [],
    "relay": ["process unknown", "delegate_task unknown"],
    "unknown": ["Read pending", " pending"],
}


@pytest.mark.parametrize("name", STATUSES)
def test_how_each_call_went(name: str) -> None:
    assert [f"{call.name} {call.status}" for call in calls(fixture(name))] == STATUSES[name]


@pytest.mark.parametrize(
    ("name", "place", "evidence", "exit_code"),
    [
        pytest.param("plain", 0, "a result; the format has no status", None, id="the format has no status"),
        pytest.param("tool_error", 0, "exit code 2 of pytest", 2, id="Claude Code's text under an error flag"),
        pytest.param("tool_error", 1, "text: the user said no", None, id="the user said no"),
        pytest.param("tool_error", 2, "is_error true", None, id="a flag beside the call"),
        pytest.param("tool_error", 3, "is_error false", None, id="a flag beside the result"),
        pytest.param("tool_error", 5, "a result; the format has no status", None, id="completed is no success"),
        pytest.param("tool_error", 6, "extra.status Failed", None, id="a status that says it"),
        pytest.param("benign_exit", 0, "extra.exit_code 1 of grep", 1, id="grep that found nothing"),
        pytest.param("benign_exit", 1, "extra.exit_code 2 of make", 2, id="an exit code"),
    ],
)
def test_what_decided(name: str, place: int, evidence: str, exit_code: int | None) -> None:
    call = calls(fixture(name))[place]
    assert (call.evidence, call.exit_code) == (evidence, exit_code)


AUTHORS = {
    "plain": "system/harness user/human assistant/agent assistant/agent",
    "terminus": "system/harness user/harness assistant/agent context/harness!compaction_summary assistant/agent",
    "continuation": "context/harness!compaction_summary context/harness user/human context/harness "
    "context/harness!interrupt assistant/agent",
    "relay": "user/human assistant/agent assistant/harness assistant/agent context/harness!interrupt",
    "unknown": "context/harness context/harness assistant/agent assistant/agent assistant/agent user/human",
}


@pytest.mark.parametrize("name", AUTHORS)
def test_who_wrote_each_message(name: str) -> None:
    written = [f"{m.role}/{m.author}" + (f"!{m.notice}" if m.notice else "") for m in fixture(name).messages]
    assert written == AUTHORS[name].split()


def test_facts_of_a_run() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.agent_version) == ("atif", "atif-session-1", "2.0.1")
    assert (session.losses, session.loose_usage, session.terminal) == ((), (), False)
    assert session.started == datetime(2026, 3, 1, 10, 0, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 3, 1, 10, 0, 3, tzinfo=UTC)
    first, last = session.messages[2:]
    assert (first.model, last.model) == ("claude-sonnet-4-5", "claude-haiku-4-5")
    assert first.usage == Usage(100, 700, 200, 0, 50, 20)
    assert last.usage == Usage(100, 1000, 0, 0, 10)
    assert (first.thinking_bytes, first.thinking_kind) == (14, "text")
    assert first.calls[1].file_paths == ("/home/dev/shop/a.py",)
    assert first.calls[1].category == "edit"


def test_totals_stand_for_a_run_whose_steps_have_no_metrics() -> None:
    total = Usage(1000, 4000, output_tokens=300, is_sum=True)
    assert fixture("terminus").loose_usage == (total,)


def test_results_without_an_id_are_those_of_their_step() -> None:
    first, waits, again, done = calls(fixture("terminus"))
    assert [call.result.head for call in (first, waits, again, done) if call.result] == [
        "New Terminal Output: building",
        "New Terminal Output: building",
        "built",
        "marked",
    ]
    assert [call.is_poll for call in (first, waits, again, done)] == [False, True, False, False]
    assert first.input_hash == again.input_hash


def test_a_result_may_come_in_a_later_step() -> None:
    (late, dispatched) = calls(fixture("relay"))
    assert late.result is not None
    assert late.result.head == "late"
    assert dispatched.message_ordinal == 2


def test_what_no_model_said_has_no_model_and_no_usage() -> None:
    message = fixture("relay").messages[2]
    assert (message.model, message.usage) == (None, None)


def test_events() -> None:
    assert [(e.kind, e.message_ordinal) for e in fixture("continuation").events] == [
        ("compaction", None),
        ("interrupt", 3),
    ]
    assert [(e.kind, e.message_ordinal) for e in fixture("terminus").events] == [("compaction", 2)]
    assert [(e.kind, e.detail) for e in fixture("relay").events] == [("interrupt", "turn.end")]


def test_copied_steps_are_left_out() -> None:
    session = fixture("continuation")
    assert all("Old" not in message.text for message in session.messages)
    assert session.loose_usage == ()
    assert session.messages[2].has_image


def test_embedded_sub_agents_are_sessions() -> None:
    sessions = read_all(DOCUMENTS["subagents"])
    assert [(s.source_id, s.parent_source_id, s.relation) for s in sessions] == [
        ("atif-session-1", None, None),
        ("t-2", "atif-session-1", "subagent"),
        ("t-3", "t-2", "subagent"),
        ("atif-session-1/2", "atif-session-1", "subagent"),
    ]
    assert {s.messages[0].author for s in sessions[1:]} == {"agent"}
    assert losses(sessions[0]) == {"not_an_object": 1}


def test_what_is_not_understood_is_counted() -> None:
    assert losses(fixture("unknown")) == {
        "bad_time": 1,
        "call_without_name": 1,
        "malformed_input": 1,
        "no_source": 1,
        "orphan_result": 1,
        "unknown_source": 1,
    }


@pytest.mark.parametrize(
    ("step", "name", "status"),
    [
        pytest.param(called("Read", {}, extra={"status": "success"}), "x", "ok", id="a status of success"),
        pytest.param(called("Read", {}, extra={"status": "cancelled"}), "x", "cancelled", id="cancelled"),
        pytest.param(called("Read", {}, extra={"status": "denied"}), "x", "declined", id="denied"),
        pytest.param(called("Read", {}, extra={"exit_code": 1}), "x", "unknown", id="the code of what is no command"),
        pytest.param(
            called("Read", {}, extra={"is_error": True}, content="Permission to use Read has been denied"),
            "codex",
            "failed",
            id="Claude Code's texts mean nothing in another agent's run",
        ),
    ],
)
def test_statuses_that_producers_add(step: dict[str, Any], name: str, status: str) -> None:
    (call,) = calls(read(step, name=name))
    assert call.status == status


@pytest.mark.parametrize(
    ("name", "arguments", "category", "paths"),
    [
        ("str_replace_editor", {"command": "view", "path": "a.py"}, "read", ("a.py",)),
        ("file_editor", {"command": "create", "path": "a.py"}, "write", ("a.py",)),
        ("run_in_terminal", {"command": "ls"}, "shell", ()),
        ("apply_patch", '{"input": "*** Begin Patch\\n*** Update File: a.py\\n"}', "edit", ("a.py",)),
        ("mcp__tracker__list", {}, "mcp", ()),
    ],
)
def test_what_a_call_does(name: str, arguments: Any, category: str, paths: tuple[str, ...]) -> None:
    (call,) = calls(read(called(name, arguments)))
    assert (call.category, call.file_paths) == (category, paths)


def test_ids_that_repeat_from_step_to_step() -> None:
    step = called("Read", {"path": "a"})
    first, second = calls(read(step, called("Read", {"path": "b"}, extra={"is_error": True})))
    assert (first.status, second.status) == ("unknown", "failed")


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        pytest.param(b'{"schema_version": "ATIF-v1.7", "steps": [{', {"malformed_line": 1}, id="a cut file"),
        pytest.param(b"3", {"not_an_object": 1}, id="a number"),
    ],
)
def test_a_damaged_file_gives_a_session_with_its_losses(data: bytes, kinds: dict[str, int]) -> None:
    (session,) = atif.parse([Record(data)], Source("x"))
    assert session.messages == ()
    assert losses(session) == kinds


def test_nothing_gives_no_session() -> None:
    assert atif.parse([], Source("x")) == []


@pytest.mark.parametrize("name", NAMES)
def test_bodies_lie_where_they_say(name: str) -> None:
    data = (FIXTURES / f"{name}.json").read_bytes()
    for call in calls(atif.parse([Record(data)], Source(name))[0]):
        for body in (call.input, call.result):
            if body is not None:
                assert body.offset is not None
                value = json.loads(data[body.offset : body.offset + body.bytes])
                assert isinstance(value, dict) or value.startswith(body.head)


# --- whatever the log holds -------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


PLACES = [(name, path) for name in NAMES for path in places(DOCUMENTS[name]) if path]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def replaced(name: str, path: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(DOCUMENTS[name])
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_no_value_anywhere_raises(place: tuple[str, tuple[Any, ...]], value: Any) -> None:
    for session in read_all(replaced(*place, value)):
        assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("plain", ("session_id",)),
        ("plain", ("agent",)),
        ("plain", ("agent", "model_name")),
        ("plain", ("steps",)),
        ("plain", ("steps", 2)),
        ("plain", ("steps", 2, "source")),
        ("plain", ("steps", 2, "message")),
        ("plain", ("steps", 2, "reasoning_content")),
        ("plain", ("steps", 2, "metrics", "prompt_tokens")),
        ("plain", ("steps", 2, "metrics", "extra")),
        ("plain", ("steps", 2, "tool_calls", 0, "function_name")),
        ("plain", ("steps", 2, "observation", "results")),
        ("plain", ("steps", 2, "observation", "results", 0, "content")),
        ("tool_error", ("steps", 1, "observation", "results", 0, "extra", "tool_result_is_error")),
        ("continuation", ("steps", 0, "is_copied_context")),
        ("continuation", ("steps", 2, "extra", "context_management")),
        ("subagents", ("subagent_trajectories",)),
    ],
)
def test_a_read_field_of_the_wrong_type_is_counted(name: str, path: tuple[Any, ...]) -> None:
    assert losses(read_all(replaced(name, path, 7.5))[0]).get("wrong_type", 0) >= 1


# --- whose it is ------------------------------------------------------------------------------------------------

SNIFFED = [
    *((DOCUMENTS[name], True, f"the fixture {name}") for name in NAMES),
    ({"schema_version": "ATIF-v1.0", "agent": {}, "steps": []}, True, "an empty run"),
    ({"schema_version": "1.0", "agent": {}, "steps": []}, False, "another schema"),
    ({"schema_version": "ATIF-v1.7", "agent": {}}, False, "no steps"),
    ({"steps": [{"source": "agent"}], "agent": {}}, False, "no schema"),
    ({**DOCUMENTS["plain"], "schema_version": "1.4"}, True, "the bare number of the version"),
    ([{"schema_version": "ATIF-v1.7"}], False, "a list"),
    (7, False, "a number"),
]


@pytest.mark.parametrize(("value", "is_ours"), [pytest.param(v, ours, id=name) for v, ours, name in SNIFFED])
def test_sniff(value: Any, is_ours: bool) -> None:
    assert atif.sniff(Sample((value,), is_document=True)) is is_ours


@pytest.mark.parametrize("name", NAMES)
def test_nobody_else_takes_it(name: str) -> None:
    sample = Sample((DOCUMENTS[name],), is_document=True, text=json.dumps(DOCUMENTS[name])[:4096])
    assert [p.PARSER.agent for p in (claude, codex, chat) if p.sniff(sample)] == []


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_a_real_run_whose_words_were_taken_out() -> None:
    (path,) = (CORPUS / "atif").iterdir()
    data = path.read_bytes()
    assert atif.sniff(Sample((json.loads(data),), is_document=True))
    (session,) = atif.parse([Record(data)], Source(path.stem))
    assert losses(session) == {"bad_time": 6, "unknown_source": 4}
    assert len(calls(session)) == 4
