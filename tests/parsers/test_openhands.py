"""OpenHands: the SDK's conversations and the older trajectories. Q10 is a mistake known in the field: docs/formats.

Expectations are worked out by hand from the fixtures in `openhands/`, which are invented. Those of the SDK hold
`base_state.json` and then the events, each of which is a file of its own on disk; `old_*` are whole trajectories.
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
from tests.parsers.sessions import CORPUS, calls

from demerit.model import CallStatus, Session, Usage
from demerit.parsers import chat, claude, codex, openhands
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "openhands"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
DOCUMENTS = {name: json.loads((FIXTURES / f"{name}.json").read_text()) for name in NAMES}
CONVERSATION = "5f0e1d2c00004000800000000000000a"


def records(items: list[Any], is_old: bool, first: int = 0) -> Iterator[Record]:
    if is_old:
        yield Record(json.dumps(items).encode())
        return
    yield Record(json.dumps(items[0]).encode())
    for number, event in enumerate(items[1:], first):
        yield Record(json.dumps(event).encode(), None, f"events/event-{number:05d}-0000.json")


def read(items: list[Any], is_old: bool = False) -> Session:
    (session,) = openhands.parse(records(items, is_old), Source("trajectory"))
    return session


def fixture(name: str) -> Session:
    return read(DOCUMENTS[name], name.startswith("old"))


def losses(session: Session) -> dict[str, int]:
    """What was lost, but for the zone of the times: no time has one."""
    return {loss.kind: loss.count for loss in session.losses if loss.kind != "time_without_zone"}


STATUSES = {
    "plain": ["terminal ok", "file_editor ok", "finish ok"],
    "tool_error": ["terminal failed", "file_editor failed", "tracker_list failed", "tracker_list invalid"],
    "benign_exit": ["terminal benign"],
    "broken_calls": [
        "no_such_tool invalid",
        "terminal invalid",
        "terminal failed",
        "terminal cancelled",
        "terminal ok",
        "terminal declined",
        "terminal declined",
    ],
    "running": [
        "terminal failed",
        "terminal ok",
        "terminal failed",
        "terminal ok",
        "terminal ok",
        "terminal ok",
        "terminal failed",
        "terminal unknown",
        "terminal ok",
        "terminal cancelled",
    ],
    "acp": ["read ok", "execute failed", "execute pending"],
    "interrupt": ["terminal pending"],
    "unknown_type": ["terminal pending"],
    "old_plain": ["execute_bash ok", "str_replace_editor ok", "finish ok"],
    "old_errors": [
        "execute_bash failed",
        "execute_bash benign",
        "str_replace_editor failed",
        "execute_ipython_cell unknown",
        "browser failed",
        "tracker_list failed",
        "execute_bash declined",
        "execute_bash cancelled",
        "execute_bash invalid",
        "str_replace_editor failed",
        "execute_bash unknown",
        "think ok",
    ],
    "old_delegate": ["delegate ok", "browse_interactive ok"],
}


@pytest.mark.parametrize("name", STATUSES)
def test_how_each_call_went(name: str) -> None:
    assert [f"{call.name} {call.status}" for call in calls(fixture(name))] == STATUSES[name]


@pytest.mark.parametrize(
    ("name", "place", "evidence", "exit_code"),
    [
        pytest.param("tool_error", 0, "exit code 2 of pytest", 2, id="Q10: exit code 2 is a failure"),
        pytest.param("tool_error", 1, "is_error true", None, id="Q10: is_error is a failure"),
        pytest.param(
            "tool_error",
            3,
            "is_error true: the server refused the arguments",
            None,
            id="arguments that an MCP server refused",
        ),
        pytest.param("benign_exit", 0, "exit code 1 of grep", 1, id="grep that found nothing"),
        pytest.param(
            "broken_calls",
            0,
            "AgentErrorEvent: Tool 'no_such_tool' not found. Available: ['terminal']",
            None,
            id="a tool that does not exist (sdk#2888)",
        ),
        pytest.param(
            "broken_calls",
            2,
            "AgentErrorEvent: Error executing tool 'terminal': the pane is gone",
            None,
            id="a tool that broke is no broken call",
        ),
        pytest.param("broken_calls", 4, "exit code 0", 0, id="a result that came after the restart"),
        pytest.param("broken_calls", 5, "rejected by user", None, id="the person said no"),
        pytest.param("broken_calls", 6, "rejected by hook", None, id="a hook said no"),
        pytest.param(
            "running", 0, "a later call saw exit code 2 of make build", 2, id="the end of a command, seen later"
        ),
        pytest.param("running", 1, "a look at a command that still ran", -1, id="exit code -1 of a look is no failure"),
        pytest.param(
            "running", 2, "not executed: another command was still running", -1, id="a command that never ran"
        ),
        pytest.param("running", 4, "exit code 130 by the model's own ^C", 130, id="a server that the model stopped"),
        pytest.param("running", 6, "is_error true", -1, id="a look at nothing"),
        pytest.param(
            "running", 7, "exit code -1: still running when last seen", -1, id="a command whose end nobody saw"
        ),
        pytest.param("old_errors", 2, "text: ERROR:", None, id="the editor's own word for an error"),
        pytest.param(
            "old_errors", 3, "a run_ipython observation without a status", None, id="a cell of Python has no status"
        ),
        pytest.param(
            "old_errors", 7, "error_id AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED", None, id="an action that never ran"
        ),
    ],
)
def test_what_decided(name: str, place: int, evidence: str, exit_code: int | None) -> None:
    call = calls(fixture(name))[place]
    assert (call.evidence, call.exit_code) == (evidence, exit_code)


AUTHORS = {
    "plain": "system/harness user/human assistant/agent assistant/agent",
    "compaction": "system/harness user/human assistant/agent context/harness!compaction_summary context/harness "
    "context/harness user/human assistant/agent",
    "subagent": "system/harness user/agent assistant/agent",
    "interrupt": "system/harness user/human assistant/agent user/human assistant/agent context/harness!interrupt",
    "error_end": "system/harness user/human assistant/harness!api_error",
    "limit_end": "system/harness user/human assistant/agent context/harness",
    "acp": "system/harness user/human assistant/agent assistant/agent",
    "old_delegate": "user/human assistant/agent user/agent assistant/agent context/harness!compaction_summary "
    "assistant/agent context/harness assistant/harness!api_error",
}


@pytest.mark.parametrize("name", AUTHORS)
def test_who_wrote_each_message(name: str) -> None:
    written = [f"{m.role}/{m.author}" + (f"!{m.notice}" if m.notice else "") for m in fixture(name).messages]
    assert written == AUTHORS[name].split()


def test_facts_of_a_conversation() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.cwd) == ("openhands", CONVERSATION, "/home/dev/shop")
    assert session.terminal
    assert session.started == datetime(2026, 3, 1, 10, 0, 0, 500000, tzinfo=UTC)
    assert session.ended == datetime(2026, 3, 1, 10, 0, 7, 500000, tzinfo=UTC)
    first, last = session.messages[2:]
    assert first.text == "I look first."
    assert first.usage == Usage(100, 700, 200, 0, 50, 20, "resp_1")
    assert last.usage == Usage(100, 1000, 0, 0, 10, 0, "resp_2")
    assert session.loose_usage == (Usage(30, output_tokens=5, reasoning_tokens=0, key="resp_title"),)
    assert first.model == "litellm_proxy/anthropic/claude-sonnet-4-5"
    assert (first.thinking_bytes, first.thinking_kind, len(first.thinking)) == (12, "signature", 1)
    assert [call.category for call in first.calls] == ["shell", "write"]
    assert first.calls[1].file_paths == ("/home/dev/shop/store.py",)


def test_times_have_no_zone_and_each_is_counted() -> None:
    assert [(loss.kind, loss.count) for loss in fixture("plain").losses] == [("time_without_zone", 8)]


def test_facts_of_a_trajectory() -> None:
    session = fixture("old_plain")
    assert (session.source_id, session.agent_version, session.terminal) == ("trajectory", "0.39.2", True)
    assert [message.role for message in session.messages] == ["system", "user", "assistant", "assistant"]
    first, last = session.messages[2:]
    assert first.usage == Usage(100, 700, 200, 0, 50, None, "chatcmpl-1")
    assert first.model == "claude-3-5-sonnet"
    assert [call.category for call in first.calls] == ["shell", "read"]
    assert last.text == "Renamed."
    assert losses(session) == {}


def test_a_message_from_the_person_begins_anew_after_the_end() -> None:
    more = {"id": 99, "source": "user", "action": "message", "args": {"content": "And the docs"}}
    assert not read([*DOCUMENTS["old_plain"], more], is_old=True).terminal


def test_what_only_looks_is_a_poll() -> None:
    assert [call.is_poll for call in calls(fixture("running"))] == [
        False, True, False, True, False, False, True, False, False, False,
    ]  # fmt: skip
    looks = [call.input_hash for call in calls(fixture("running")) if call.is_poll]
    assert len(set(looks)) == len(looks)


def test_remarks_on_a_call_do_not_make_it_another() -> None:
    first, second = copy.deepcopy(DOCUMENTS["benign_exit"][3]), copy.deepcopy(DOCUMENTS["benign_exit"][3])
    arguments = json.loads(second["tool_call"]["arguments"])
    second["tool_call"]["arguments"] = json.dumps({**arguments, "summary": "again", "security_risk": "HIGH"})
    one, other = calls(read([DOCUMENTS["benign_exit"][0], first, {**second, "llm_response_id": "resp_9"}]))
    assert one.input_hash == other.input_hash


def test_events() -> None:
    found = {name: [(e.kind, e.message_ordinal) for e in fixture(name).events] for name in NAMES}
    assert {name: events for name, events in found.items() if events} == {
        "compaction": [("compaction", 2)],
        "interrupt": [("rewind", 2), ("interrupt", 4)],
        "error_end": [("api_error", 1)],
        "old_errors": [("interrupt", 14)],
        "old_delegate": [("compaction", 3), ("api_error", 6)],
    }


def test_the_condensers_request_is_no_messages() -> None:
    assert fixture("compaction").loose_usage == (Usage(500, output_tokens=60, reasoning_tokens=0, key="resp_c"),)


def test_a_sum_stands_for_requests_that_are_not_listed() -> None:
    assert fixture("acp").loose_usage == (Usage(100, 900, output_tokens=40, is_sum=True),)


def test_a_sub_agent_names_its_parent() -> None:
    session = fixture("subagent")
    assert (session.parent_source_id, session.relation) == (CONVERSATION, "subagent")
    assert fixture("plain").relation is None


def test_a_delegates_work_is_a_side_chain() -> None:
    assert [message.sidechain for message in fixture("old_delegate").messages] == [
        False, False, True, True, False, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "is_terminal"),
    [("plain", True), ("error_end", True), ("limit_end", True), ("interrupt", False), ("tool_error", False)],
)
def test_whether_the_log_records_its_end(name: str, is_terminal: bool) -> None:
    assert fixture(name).terminal is is_terminal


def test_what_is_not_understood_is_counted() -> None:
    assert losses(fixture("unknown_type")) == {"orphan_result": 1, "unknown_type": 1}
    assert losses(fixture("old_unknown")) == {"no_type": 1, "orphan_result": 1, "unknown_type": 2}


def test_events_beyond_99999_come_in_their_order() -> None:
    base, prompt, answer = DOCUMENTS["compaction"][0], DOCUMENTS["compaction"][2], DOCUMENTS["compaction"][3]
    by_name = [
        Record(json.dumps(base).encode()),
        Record(json.dumps(answer).encode(), None, "events/event-100000-0000.json"),
        Record(json.dumps(prompt).encode(), None, "events/event-99999-0000.json"),
    ]
    (session,) = openhands.parse(by_name, Source("x"))
    assert [message.role for message in session.messages] == ["user", "assistant"]


def test_a_cut_event_costs_that_event() -> None:
    whole = list(records(DOCUMENTS["plain"], is_old=False))
    cut = whole[-1]._replace(data=whole[-1].data[:100])
    (session,) = openhands.parse([*whole[:-1], cut], Source("x"))
    assert calls(session)[-1].status is CallStatus.PENDING
    assert losses(session) == {"malformed_line": 1}


def test_a_cut_trajectory_is_read_as_far_as_it_goes() -> None:
    data = json.dumps(DOCUMENTS["old_plain"]).encode()
    (session,) = openhands.parse([Record(data[:-400])], Source("x"))
    assert losses(session) == {"malformed_tail": 1}
    assert [message.role for message in session.messages][:3] == ["system", "user", "assistant"]


def test_nothing_gives_no_session() -> None:
    assert openhands.parse([], Source("x")) == []


@pytest.mark.parametrize("name", NAMES)
def test_bodies_are_left_out_when_nobody_wants_them(name: str) -> None:
    items = records(DOCUMENTS[name], name.startswith("old"))
    (session,) = openhands.parse(items, Source("x", bodies=False))
    assert all(call.input is None and call.result is None for call in calls(session))
    assert [call.status for call in calls(session)] == [call.status for call in calls(fixture(name))]


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
    session = read(replaced(*place, value), place[0].startswith("old"))
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("plain", (0, "id")),
        ("plain", (0, "agent")),
        ("plain", (0, "agent", "llm", "model")),
        ("plain", (0, "stats", "usage_to_metrics", "agent", "token_usages", 0, "prompt_tokens")),
        ("plain", (1, "system_prompt", "text")),
        ("plain", (2, "source")),
        ("plain", (2, "llm_message", "content")),
        ("plain", (3, "thought")),
        ("plain", (3, "llm_response_id")),
        ("plain", (3, "tool_name")),
        ("plain", (3, "tool_call", "name")),
        ("plain", (3, "thinking_blocks", 0, "signature")),
        ("plain", (5, "observation")),
        ("plain", (5, "observation", "metadata", "exit_code")),
        ("plain", (6, "observation", "is_error")),
        ("broken_calls", (4, "error")),
        ("old_plain", (1, "args", "content")),
        ("old_plain", (5, "tool_call_metadata", "model_response", "choices")),
        ("old_plain", (5, "tool_call_metadata", "model_response", "usage", "prompt_tokens")),
        ("old_plain", (7, "extras", "metadata", "exit_code")),
        ("old_plain", (7, "cause")),
    ],
)
def test_a_read_field_of_the_wrong_type_is_counted(name: str, path: tuple[Any, ...]) -> None:
    session = read(replaced(name, path, 7.5), name.startswith("old"))
    assert losses(session).get("wrong_type", 0) >= 1


# --- whose it is ------------------------------------------------------------------------------------------------

MAIN = {name: DOCUMENTS[name] if name.startswith("old") else DOCUMENTS[name][0] for name in NAMES}
SNIFFED = [
    *((MAIN[name], True, f"the fixture {name}") for name in NAMES),
    ({"agent": {}, "agent_status": "finished", "persistence_dir": "x"}, True, "the first versions of the SDK"),
    (DOCUMENTS["plain"][1], False, "an event without its conversation"),
    ([{"source": "user", "message": "x"}], False, "a list of something else"),
    ([{"role": "user", "content": "x"}], False, "a list of messages"),
    ({"messages": [], "tools": [], "response": {}, "context_window": 200000}, False, "a log of one request"),
    ({"agent": {}, "steps": [], "schema_version": "ATIF-v1.7"}, False, "ATIF"),
    ([], False, "an empty list"),
    (7, False, "a number"),
]


@pytest.mark.parametrize(("value", "is_ours"), [pytest.param(v, ours, id=name) for v, ours, name in SNIFFED])
def test_sniff(value: Any, is_ours: bool) -> None:
    assert openhands.sniff(Sample((value,), is_document=True)) is is_ours


@pytest.mark.parametrize("name", NAMES)
def test_nobody_else_takes_it(name: str) -> None:
    sample = Sample((MAIN[name],), is_document=True, text=json.dumps(MAIN[name])[:4096])
    assert [p.PARSER.agent for p in (claude, codex, chat) if p.sniff(sample)] == []


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.parametrize(("name", "count"), [("basic", 2), ("wrong_initial_state", 4)])
def test_real_trajectories(name: str, count: int) -> None:
    (path,) = (CORPUS / "openhands").glob(f"*--{name}.json")
    data = path.read_bytes()
    assert openhands.sniff(Sample((json.loads(data),), is_document=True))
    (session,) = openhands.parse([Record(data)], Source(path.stem))
    assert losses(session) == {}
    assert [call.status for call in calls(session)] == [CallStatus.OK] * count
    assert session.terminal
