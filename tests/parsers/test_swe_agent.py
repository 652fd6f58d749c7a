"""SWE-agent's and mini-swe-agent's trajectories: docs/formats/swe-agent.md.

Expectations are worked out by hand from the fixtures in `swe_agent/`, which are invented.
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

from demerit.model import CallStatus, Session, Usage
from demerit.parsers import chat, claude, codex, swe_agent
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "swe_agent"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
DOCUMENTS = {name: json.loads((FIXTURES / f"{name}.json").read_text()) for name in NAMES}


def read_all(value: Any, source: Source = Source("run.traj")) -> list[Session]:  # noqa: B008 - immutable
    return swe_agent.parse([Record(json.dumps(value).encode())], source)


def read(value: Any) -> Session:
    (session,) = read_all(value)
    return session


def fixture(name: str) -> Session:
    data = (FIXTURES / f"{name}.json").read_bytes()
    (session,) = swe_agent.parse([Record(data)], Source(f"{name}.traj"))
    return session


def mini(*messages: dict[str, Any], **info: Any) -> Session:
    return read(
        {
            "info": {"mini_version": "2.1.0", **info},
            "messages": list(messages),
            "trajectory_format": "mini-swe-agent-1.1",
        }
    )


def acted(*commands: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "extra": {"actions": [{"command": c} for c in commands]}, **more}


STATUSES = {
    "plain": ["find_file unknown", "open unknown", "edit ok", "bash unknown", "submit ok"],
    "asked_again": [
        "open unknown",
        "edit failed",
        "edit failed",
        "bash invalid",
        "edit ok",
        "bash failed",
    ],
    "cost_end": ["bash unknown"],
    "api_end": ["bash unknown"],
    "history_only": ["str_replace_editor unknown", "str_replace_editor failed"],
    "mini_text": [
        "bash benign",
        "bash failed",
        "bash invalid",
        "bash invalid",
        "bash failed",
        "bash ok",
    ],
    "mini_tools": ["bash ok", "bash failed", "bash failed", "bash cancelled", "bash ok"],
    "mini_attended": ["bash declined", "bash cancelled", "bash invalid", "bash invalid"],
    "mini_responses": ["bash ok"],
    "mini_list": ["bash ok", "bash ok"],
}


def test_a_flag_that_was_wrong_is_a_submission_that_failed() -> None:
    def said(role: str, content: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": content, "agent": "primary", **more}

    seen = "Wrong flag!\n(Open file: n/a)\n(Current directory: /ctf)\nbash-$"
    history = [
        said("user", "Find the flag."),
        said("assistant", "```\nsubmit flag{a}\n```", action="submit flag{a}\n"),
        said("user", seen),
        said("assistant", "```\ncat answer.txt\n```", action="cat answer.txt\n"),
        said("user", seen),  # what a command prints is not the environment's own
        said("assistant", "```\nsubmit flag{b}\n```", action="submit flag{b}\n"),
    ]
    session = read({"history": history, "trajectory": [], "info": {"exit_status": "submitted"}})
    assert [(call.name, call.status, call.evidence) for call in calls(session)] == [
        ("submit", "failed", "text: Wrong flag!"),
        ("bash", "unknown", "a result; SWE-agent logs no status"),
        ("submit", "ok", "exit_status submitted"),
    ]


@pytest.mark.parametrize("name", STATUSES)
def test_how_each_call_of_a_run_went(name: str) -> None:
    assert [f"{call.name} {call.status}" for call in calls(fixture(name))] == STATUSES[name]


@pytest.mark.parametrize(
    ("name", "place", "evidence", "exit_code"),
    [
        pytest.param("plain", 0, "a result; SWE-agent logs no status", None, id="SWE-agent logs no status"),
        pytest.param("plain", 2, "text: Text replaced.", None, id="an edit that its own tool made"),
        pytest.param("plain", 4, "exit_status submitted", None, id="the submission that ended the run"),
        pytest.param(
            "asked_again",
            1,
            "text: Your proposed edit has introduced new syntax error(s)",
            None,
            id="an edit that its own tool refused",
        ),
        pytest.param(
            "asked_again", 2, "the tool had the model asked again", None, id="an edit that is not in the history"
        ),
        pytest.param(
            "asked_again",
            3,
            "refused before it ran: the model was asked again",
            None,
            id="a blocked command that is not in the history",
        ),
        pytest.param("mini_text", 0, "returncode 1 of grep", 1, id="grep that found nothing"),
        pytest.param("mini_text", 1, "returncode 2 of pytest", 2, id="the code in the text"),
        pytest.param("mini_text", 4, "text: the last command timed out", None, id="a command that timed out in mini 1"),
        pytest.param("mini_tools", 1, "returncode 1 of false", 1, id="the code beside the text"),
        pytest.param("mini_tools", 2, "exception_info: TimeoutExpired", None, id="a command that timed out in mini 2"),
        pytest.param("mini_attended", 0, "text: the user rejected it", None, id="the person said no"),
    ],
)
def test_what_decided(name: str, place: int, evidence: str, exit_code: int | None) -> None:
    call = calls(fixture(name))[place]
    assert (call.evidence, call.exit_code) == (evidence, exit_code)


AUTHORS = {
    "plain": "system/harness user/harness" + " assistant/agent" * 5,
    "asked_again": "system/harness context/harness user/harness" + " assistant/agent" * 7,
    "cost_end": "system/harness user/harness assistant/agent context/harness context/harness",
    "api_end": "system/harness user/harness assistant/agent context/harness context/harness "
    "assistant/harness!api_error",
    "mini_text": "system/harness user/harness assistant/agent assistant/agent assistant/agent context/harness "
    "assistant/agent context/harness assistant/agent assistant/agent",
    "mini_attended": "system/harness user/human assistant/agent user/human assistant/agent context/harness!interrupt "
    "user/human context/harness context/harness assistant/agent context/harness assistant/agent user/human "
    "context/harness!interrupt",
    "mini_responses": "system/harness user/harness assistant/agent assistant/harness!api_error",
}


@pytest.mark.parametrize("name", AUTHORS)
def test_who_wrote_each_message(name: str) -> None:
    written = [f"{m.role}/{m.author}" + (f"!{m.notice}" if m.notice else "") for m in fixture(name).messages]
    assert written == AUTHORS[name].split()


def test_what_a_person_typed_stands_alone() -> None:
    typed = [m.text for m in fixture("mini_attended").messages if m.author == "human"]
    assert typed == ["prices are wrong", "Not that folder", "look at tax.py", "write a test"]


def test_facts_of_a_run() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.cwd, session.agent_version) == (
        "swe-agent",
        "plain",
        "/home/dev/shop",
        "1.1.0",
    )
    assert session.terminal
    assert session.losses == ()
    assert (session.started, session.messages[2].at) == (None, None)
    assert {message.model for message in session.messages if message.role == "assistant"} == {"gpt-4o"}
    assert session.loose_usage == (Usage(input_tokens=7000, output_tokens=240, is_sum=True),)
    assert (session.messages[2].thinking_bytes, session.messages[2].thinking_kind) == (8, "signature")


def test_an_edit_changes_the_file_that_is_open() -> None:
    edits = [call for call in calls(fixture("asked_again")) if call.name == "edit"]
    assert {call.file_paths for call in edits} == {("/home/dev/shop/price.py",)}
    assert {call.category for call in edits} == {"edit"}
    assert calls(fixture("plain"))[2].file_paths == ("/home/dev/shop/price.py",)


def test_the_editor_that_only_views_reads() -> None:
    view, change = calls(fixture("history_only"))
    assert (view.category, change.category) == ("read", "edit")
    assert view.file_paths == change.file_paths == ("/home/dev/shop/price.py",)


def test_steps_that_the_history_left_out_stand_in_their_place() -> None:
    said = [m.text.splitlines()[0] for m in fixture("asked_again").messages if m.role == "assistant"]
    assert said == ["I open it.", "I mend it.", "Again.", "An editor.", "I think about it.", "Now.", "I wait."]


def test_attempts_are_sessions() -> None:
    sessions = read_all(DOCUMENTS["attempts"], Source("shop-1.traj"))
    assert [session.source_id for session in sessions] == ["shop-1", "shop-1#2"]
    assert [session.messages[2].text for session in sessions] == ["First.", "Second."]


def test_facts_of_a_mini_run() -> None:
    text, tools, responses = fixture("mini_text"), fixture("mini_tools"), fixture("mini_responses")
    assert (text.source_id, text.cwd, text.agent_version, text.terminal) == (
        "shop__shop-1",
        "/home/dev/shop",
        "1.9.0",
        True,
    )
    assert text.messages[2].usage == Usage(100, 600, 300, 0, 50, None, "chatcmpl-1")
    assert text.messages[2].model == "claude-sonnet-4-20250514"
    assert text.messages[3].model == "claude-sonnet-4"
    assert tools.started == datetime(2026, 3, 1, 10, 0, 1, tzinfo=UTC)
    assert tools.ended == datetime(2026, 3, 1, 10, 0, 9, tzinfo=UTC)
    assert (tools.messages[2].thinking_bytes, tools.messages[2].thinking_kind) == (4, "text")
    assert tools.messages[2].usage == Usage(100, output_tokens=10, reasoning_tokens=4, key="chatcmpl-1")
    assert responses.messages[2].usage == Usage(100, 400, 0, 0, 70, 30, "resp_1")
    assert (responses.messages[2].thinking_bytes, responses.messages[2].thinking_kind) == (12, "ciphertext")
    assert responses.messages[2].text == "I look."
    assert losses(responses) == {"orphan_result": 1, "unknown_block": 1}


def test_events() -> None:
    assert [event.kind for event in fixture("mini_attended").events] == ["interrupt", "interrupt"]
    assert [event.kind for event in fixture("api_end").events] == ["api_error"]
    assert [event.detail for event in fixture("mini_responses").events] == ["RateLimitError"]
    assert fixture("cost_end").events == ()
    assert losses(fixture("history_only")) == {"orphan_result": 1, "unknown_role": 1}


def test_equal_commands_have_equal_hashes() -> None:
    first, second, third = calls(mini(acted("ls"), acted("ls"), acted("ls -l")))
    assert first.input_hash == second.input_hash != third.input_hash


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        pytest.param("```bash\nls\n```", ["ls"], id="mini 1"),
        pytest.param("a ```mswea_bash_command\nls\nls -l\n``` b", ["ls\nls -l"], id="later versions"),
        pytest.param("<mswea_bash_command>ls</mswea_bash_command>", ["ls"], id="in a tag"),
        pytest.param("```python\nls()\n```", [], id="another language is no command"),
        pytest.param("```bash\nls", [], id="a block without an end"),
    ],
)
def test_the_command_in_a_response_of_text(text: str, commands: list[str]) -> None:
    session = mini({"role": "user", "content": "x"}, {"role": "assistant", "content": text})
    assert [call.input.head for call in calls(session) if call.input] == commands


def test_a_call_without_a_result_is_pending() -> None:
    (call,) = calls(mini(acted("make"), exit_status="LimitsExceeded"))
    assert call.status is CallStatus.PENDING


def test_of_two_results_the_first_stands() -> None:
    call = {"id": "c1", "function": {"name": "bash", "arguments": '{"command":"make"}'}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "", "extra": {"returncode": 0}}
    second = {**result, "extra": {"returncode": 2}}
    (made,) = calls(mini({"role": "assistant", "content": "", "tool_calls": [call]}, result, second))
    assert made.status is CallStatus.OK


def test_a_result_in_text_that_nothing_asked_for_is_counted() -> None:
    session = mini({"role": "user", "content": "x"}, {"role": "user", "content": "<returncode>0</returncode>"})
    assert losses(session) == {"orphan_result": 1}


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        pytest.param(b'{"history": [{"role": "user", "agent": "main", "cont', {"malformed_line": 1}, id="a cut file"),
        pytest.param(b"[1, 2", {"malformed_line": 1}, id="a cut list of something else"),
        pytest.param(b"3", {"not_an_object": 1}, id="a number"),
    ],
)
def test_a_damaged_file_gives_a_session_with_its_losses(data: bytes, kinds: dict[str, int]) -> None:
    (session,) = swe_agent.parse([Record(data)], Source("x"))
    assert session.messages == ()
    assert losses(session) == kinds


def test_nothing_gives_no_session() -> None:
    assert swe_agent.parse([], Source("x")) == []


@pytest.mark.parametrize("name", NAMES)
def test_bodies_lie_where_they_say(name: str) -> None:
    data = (FIXTURES / f"{name}.json").read_bytes()
    for session in swe_agent.parse([Record(data)], Source(name)):
        for call in calls(session):
            for body in (call.input, call.result):
                if body is not None and body.offset is not None:
                    text = json.loads(data[body.offset : body.offset + body.bytes])
                    assert text.startswith(body.head)


@pytest.mark.parametrize("name", NAMES)
def test_bodies_are_left_out_when_nobody_wants_them(name: str) -> None:
    data = (FIXTURES / f"{name}.json").read_bytes()
    for session in swe_agent.parse([Record(data)], Source(name, bodies=False)):
        assert all(call.input is None and call.result is None for call in calls(session))
        assert [call.status for call in calls(session)]


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
        ("plain", ("history",)),
        ("plain", ("history", 2)),
        ("plain", ("history", 2, "role")),
        ("plain", ("history", 2, "content")),
        ("plain", ("history", 2, "tool_calls")),
        ("plain", ("history", 2, "tool_calls", 0, "id")),
        ("plain", ("history", 2, "tool_calls", 0, "function", "name")),
        ("plain", ("history", 2, "thinking_blocks", 0, "signature")),
        ("plain", ("history", 3, "tool_call_ids")),
        ("plain", ("trajectory", 0, "action")),
        ("plain", ("trajectory", 0, "state")),
        ("plain", ("trajectory", 0, "state", "open_file")),
        ("plain", ("info", "exit_status")),
        ("plain", ("info", "model_stats", "tokens_sent")),
        ("plain", ("replay_config",)),
        ("mini_text", ("messages", 2, "extra", "response", "usage", "prompt_tokens")),
        ("mini_tools", ("messages", 3, "extra", "returncode")),
        ("mini_tools", ("messages", 2, "extra", "actions")),
        ("mini_responses", ("messages", 2, "output")),
        ("mini_responses", ("info", "config", "model", "model_name")),
    ],
)
def test_a_read_field_of_the_wrong_type_is_counted(name: str, path: tuple[Any, ...]) -> None:
    session = read(replaced(name, path, 7.5 if path[-1] != "content" else {"a": 1}))
    assert losses(session).get("wrong_type", 0) >= 1


# --- whose it is ------------------------------------------------------------------------------------------------

SNIFFED = [
    *((DOCUMENTS[name], True, f"the fixture {name}") for name in NAMES),
    ({"history": [], "trajectory": []}, True, "a run that never began"),
    ({"history": []}, False, "an empty history alone"),
    ({"history": [{"role": "user", "content": "x"}]}, False, "a history of another program"),
    ({"messages": [{"role": "user", "content": "x"}]}, False, "a request body"),
    ({"messages": [], "info": {"id": "ses_1"}}, False, "an export of another agent"),
    ({"messages": [], "info": {"mini_version": "1.0"}}, True, "mini before it named its format"),
    ({"steps": [], "agent": {}, "schema_version": "ATIF-v1.7"}, False, "ATIF"),
    ([{"role": "user", "content": "what does <returncode> mean?"}], False, "a chat about mini"),
    ([], False, "an empty list"),
    (7, False, "a number"),
]


@pytest.mark.parametrize(("value", "is_ours"), [pytest.param(v, ours, id=name) for v, ours, name in SNIFFED])
def test_sniff(value: Any, is_ours: bool) -> None:
    assert swe_agent.sniff(Sample((value,), is_document=True)) is is_ours


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mini_list"])
def test_nobody_else_takes_it(name: str) -> None:
    sample = Sample((DOCUMENTS[name],), is_document=True, text=json.dumps(DOCUMENTS[name])[:4096])
    assert [p.PARSER.agent for p in (claude, codex, chat) if p.sniff(sample)] == []


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_real_runs_are_read_without_loss() -> None:
    for path in sorted((CORPUS / "swe-agent").iterdir()):
        data = path.read_bytes()
        assert swe_agent.sniff(Sample((json.loads(data),), is_document=True))
        (session,) = swe_agent.parse([Record(data)], Source(path.stem))
        assert session.losses == ()
        assert all(call.status is not CallStatus.PENDING for call in calls(session))
