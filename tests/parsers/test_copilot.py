"""GitHub Copilot CLI. The Q and T rows named in the ids are mistakes known in the field: docs/formats/copilot.md.

Expectations are worked out by hand from the lines of the fixtures in `copilot/`, which are invented.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import HUGE, fits, places, put
from tests.parsers.sessions import CORPUS, calls, losses, spoken

from demerit.model import Session
from demerit.parsers import copilot
from demerit.parsers.records import Record, Sample, Source
from demerit.quality.assess import assess

FIXTURES = Path(__file__).parent / "copilot"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))
SESSION = "5a1e0000-0000-4000-8000-000000000001"
EVENTS = Source(name="events")


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


def read_bytes(data: bytes, source: Source = EVENTS) -> Session:
    (session,) = copilot.parse(records(data), source)
    return session


def read(*lines: Any, source: Source = EVENTS) -> Session:
    return read_bytes(b"\n".join(json.dumps(line).encode() for line in lines), source)


def rows(name: str) -> list[Any]:
    return [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]


def fixture(name: str, source: Source = EVENTS) -> Session:
    return read_bytes((FIXTURES / f"{name}.jsonl").read_bytes(), source)


def event(kind: str, data: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "data": data or {}, "id": "e", "timestamp": "2026-07-01T09:00:00Z", "parentId": None, **more}


def said(text: str = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return event("assistant.message", {"content": text, "toolRequests": list(calls), **more})


def bash(command: str, call_id: str = "c1", name: str = "bash") -> dict[str, Any]:
    return {"toolCallId": call_id, "name": name, "arguments": {"command": command}}


def done(content: Any = "", call_id: str = "c1", success: Any = True, **more: Any) -> dict[str, Any]:
    data = {"toolCallId": call_id, "success": success, "result": {"content": content}, **more}
    return event("tool.execution_complete", data)


def statuses(session: Session) -> dict[str | None, str]:
    return {call.call_id: call.status.value for call in calls(session)}


def happened(session: Session) -> list[tuple[str, str]]:
    return [(event.kind, event.detail) for event in session.events]


# --- one session, from end to end -----------------------------------------------------------------------------


def test_a_plain_session_tells_who_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.agent_version) == ("copilot", SESSION, "1.0.64")
    assert (session.cwd, session.branch, session.title) == ("/home/dev/shop", "main", None)
    assert session.started == datetime(2026, 7, 1, 9, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 7, 1, 9, 0, 18, tzinfo=UTC)
    assert session.terminal and not (session.events or session.losses or session.relation)
    assert spoken(session) == [
        ("system", "harness", "You are the GitHub Copilot CLI."),
        ("user", "human", "round half up in cart.py please"),
        ("assistant", "agent", "I will look."),
        ("assistant", "agent", "Now I change it."),
        ("assistant", "agent", "Rounding is half up now."),
    ]
    assert {message.model for message in session.messages if message.role == "assistant"} == {"gpt-5.4"}


def test_calls_have_their_category_their_files_and_their_results() -> None:
    session = fixture("plain")
    assert [(call.name, call.category, call.file_paths) for call in calls(session)] == [
        ("bash", "shell", ()),
        ("view", "read", ("/home/dev/shop/cart.py",)),
        ("edit", "edit", ("/home/dev/shop/cart.py",)),
    ]
    data = (FIXTURES / "plain.jsonl").read_bytes()
    result = calls(session)[0].result
    assert result is not None and result.offset is not None
    assert json.loads(data[result.offset : result.offset + result.bytes]).startswith("def total(): ...")
    assert [call.exit_code for call in calls(session)] == [0, None, None]


def test_t5_t8_the_totals_of_a_shutdown_hold_cached_input_and_reasoning() -> None:
    (usage,) = fixture("plain").loose_usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens) == (300, 600, 100)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.context_tokens) == (60, 24, 1000)
    assert all(message.usage is None for message in fixture("plain").messages)


def test_t10_t16_totals_grow_over_the_legs_of_a_session_and_count_once() -> None:
    session = fixture("resume")
    found = {
        usage.key: (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) for usage in session.loose_usage
    }
    assert found == {
        f"{SESSION}:gpt-5.4:0": (160, 140, 30),  # the second leg's, which holds the first's
        f"{SESSION}:gpt-5.4:1": (80, 0, 8),  # smaller: counted anew
        f"{SESSION}:gpt-5-mini:0": (50, 0, 5),
    }
    assert session.branch == "port" and session.terminal


def test_a_session_that_goes_on_after_its_shutdown_has_not_ended() -> None:
    assert not read(*rows("resume")[:-4]).terminal
    assert read(*rows("resume")[:6]).terminal


def test_the_name_of_a_session_stands_in_the_file_beside_it() -> None:
    for text, title in (
        (b"id: x\nname: Round half up\n", "Round half up"),
        (b'name: "Half: up"', "Half: up"),
        (b"name: 'it''s done'", "it's done"),
        (b"name: null\n", None),
        (b"cwd: /x\nname: |\n  long\n", None),
    ):
        main = records((FIXTURES / "plain.jsonl").read_bytes())
        (session,) = copilot.parse([*main, Record(text, None, "workspace.yaml")], EVENTS)
        assert session.title == title and session.losses == ()


def test_bodies_are_left_out_when_nobody_wants_them() -> None:
    session = fixture("pieces", Source(bodies=False, text_bytes=4))
    assert calls(session)[0].result is None and calls(session)[0].input_hash is not None
    first = session.messages[1]
    assert (first.text, first.text_bytes, first.thinking, first.thinking_bytes) == ("Firs", 12, (), 80)


# --- how calls went -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_id", "status", "evidence", "code"),
    [
        pytest.param(
            "c1", "failed", "last line, exit code 1 of pytest", 1, id="success is true though it exited with 1"
        ),
        pytest.param("c2", "benign", "telemetry exit code 1 of grep", 1, id="T23 grep found nothing"),
        pytest.param(
            "c3", "failed", "success false, code failure: No match found", None, id="an edit that did not fit"
        ),
        pytest.param("c4", "declined", "success false, code rejected", None, id="the user said no"),
        pytest.param("c5", "ok", "telemetry exit code 0", 0, id="Q13 Q14 T25 words in an output decide nothing"),
        pytest.param("c6", "failed", "shell_exit 2 of make", 2, id="the exit code in a content block"),
        pytest.param("c7", "cancelled", "success false, code cancelled", None, id="the request was cancelled"),
        pytest.param("c8", "unknown", "a completion that does not say whether it succeeded", None, id="no flag at all"),
    ],
)
def test_status(call_id: str, status: str, evidence: str, code: int | None) -> None:
    (call,) = (call for call in calls(fixture("tool_error")) if call.call_id == call_id)
    assert (call.status.value, call.evidence, call.exit_code) == (status, evidence, code)


def test_the_text_of_an_error_is_the_result_of_a_call_without_another() -> None:
    edit = calls(fixture("tool_error"))[2]
    assert edit.result is not None and edit.result.head == "No match found"


@pytest.mark.parametrize(
    ("error", "evidence"),
    [
        (
            {"code": "failure", "message": "\nNo such shell.\nActive shells: 0"},
            "success false, code failure: No such shell.",
        ),
        ("No such shell.", "success false: No such shell."),
        ({"message": "x" * 200}, "success false: " + "x" * 80),
        ({"code": "failure"}, "success false, code failure"),
        (None, "success false"),
    ],
)
def test_a_tool_that_failed_says_why_in_the_first_line_of_its_error(error: Any, evidence: str) -> None:
    (call,) = calls(read(said("", bash("make")), done(None, success=False, result=None, error=error)))
    assert (call.status.value, call.evidence) == ("failed", evidence)
    assert (call.result is not None) == ("message" in error if isinstance(error, dict) else bool(error))


def test_the_end_of_a_command_that_outlived_its_wait_belongs_to_the_call_that_started_it() -> None:
    session = fixture("background")
    assert {call.call_id: (call.status.value, call.exit_code) for call in calls(session)} == {
        "c1": ("unknown", None),  # stopped by the model: no exit code is known
        "c2": ("failed", 1),  # told by the second look
        "c3": ("ok", 0),  # told by the notification
        "p1": ("ok", None),
        "p2": ("ok", None),
        "p3": ("ok", None),
    }
    assert calls(session)[0].evidence == "still running in shell 1"
    assert session.messages[3].role == "context"  # nobody typed the notification


def test_a_call_that_writes_to_a_running_shell_does_not_start_it() -> None:
    running = "<command with shellId: 4 is still running after 30 seconds.>"
    write = {"toolCallId": "c2", "name": "write_bash", "arguments": {"shellId": "4", "input": "y{enter}"}}
    look = {"toolCallId": "c3", "name": "read_bash", "arguments": {"shellId": "4"}}
    session = read(
        said("", bash("npm init")),
        done(running),
        said("", write, look),
        done(running, "c2"),
        done("<command with id: 4 exited with exit code 3>", "c3"),
    )
    assert statuses(session) == {"c1": "failed", "c2": "ok", "c3": "ok"}


def test_polls_are_no_retries() -> None:
    first, second = (call for call in calls(fixture("background")) if call.name == "read_bash")
    assert first.input_hash != second.input_hash
    assert first.is_poll and second.is_poll


@pytest.mark.parametrize(
    ("name", "is_poll"),
    [
        ("read_bash", True),
        ("read_powershell", True),
        ("list_bash", True),
        ("read_agent", True),
        ("write_bash", False),
        ("stop_bash", False),
        ("bash", False),
    ],
)
def test_a_look_at_what_runs_is_a_poll_and_what_acts_on_it_is_none(name: str, is_poll: bool) -> None:
    (call,) = calls(read(said("", {"toolCallId": "c1", "name": name, "arguments": {"shellId": "1"}})))
    assert call.is_poll is is_poll


def test_builds_that_fail_and_are_waited_for_are_one_run_of_failures() -> None:
    lines = []
    for shell in "123":
        lines += [
            said("", bash("make", f"b{shell}")),
            done(f"<command with shellId: {shell} is still running after 30 seconds.>", f"b{shell}"),
            said("", {"toolCallId": f"r{shell}", "name": "read_bash", "arguments": {"shellId": shell}}),
            done(f"<command with id: {shell} exited with exit code 2>", f"r{shell}"),
        ]
    report = assess(read(event("user.message", {"content": "build it"}), *lines), datetime(2026, 8, 1, tzinfo=UTC))
    found = report.signals
    assert (found.tool_failures, found.longest_failure_streak, found.tool_retries) == (3, 3, 2)
    assert report.outcome == "errored"


def test_what_a_command_is_called_for_the_reader_makes_it_no_other_command() -> None:
    one, two = bash("make"), bash("make", "c2")
    one["arguments"]["description"], two["arguments"]["description"] = "Build", "Build again"
    first, second = calls(read(said("", one, two)))
    assert first.input_hash == second.input_hash


def test_the_first_result_of_a_call_stands_and_fills_its_copies() -> None:
    session = read(said("", bash("make")), done("ok"), said("", bash("make")), done("no", success=False))
    assert [call.status.value for call in calls(session)] == ["ok", "ok"]


def test_a_call_without_a_result_is_pending_and_one_of_an_aborted_turn_cancelled() -> None:
    assert statuses(fixture("cut")) == {"c1": "pending"}
    assert statuses(fixture("compaction")) == {"c1": "cancelled"}


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("denied-by-rules", "declined"),
        ("denied-interactively-by-user", "declined"),
        ("cancelled", "cancelled"),
        ("approved", "pending"),
    ],
)
def test_a_permission_decides_where_no_result_comes(kind: str, status: str) -> None:
    asked = event("permission.requested", {"requestId": "q", "permissionRequest": {"toolCallId": "c1"}})
    answer = event("permission.completed", {"requestId": "q", "result": {"kind": kind}})
    assert statuses(read(said("", bash("make")), asked, answer)) == {"c1": status}


def test_a_command_that_the_person_ran_is_no_call() -> None:
    session = read(
        event("tool.user_requested", {"toolCallId": "u1", "toolName": "bash", "arguments": {"command": "ls"}}),
        event("tool.execution_start", {"toolCallId": "u1", "toolName": "bash"}),
        done("x", "u1"),
    )
    assert calls(session) == [] and session.losses == ()


def test_q19_q26_old_tools_are_mapped_and_patches_name_their_files() -> None:
    session = fixture("old")
    assert [(call.category, call.file_paths, call.status.value) for call in calls(session)] == [
        ("read", ("README.md",), "ok"),
        ("write", ("NEW.md",), "ok"),
        ("edit", ("README.md",), "ok"),
        ("edit", ("a.py",), "ok"),
        ("mcp", (), "declined"),
    ]
    assert session.source_id == "old-1" and session.losses == ()
    assert [call.server for call in calls(session)][-2:] == [None, "github"]


# --- who wrote it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "role", "author"),
    [
        ({}, "user", "human"),
        ({"source": "user"}, "user", "human"),
        ({"source": "immediate-prompt"}, "user", "human"),
        ({"source": "something-new"}, "user", "human"),
        ({"source": "system"}, "context", "harness"),
        ({"source": "skill-pdf"}, "context", "harness"),
        ({"source": "jit-instruction"}, "context", "harness"),
        ({"source": "thinking-exhausted-continuation"}, "context", "harness"),
        ({"isAutopilotContinuation": True}, "context", "harness"),
        ({"source": "agent-c7"}, "context", "agent"),
        ({"content": "<skill-context name='x'>read this</skill-context>"}, "context", "harness"),
        ({"parentToolCallId": "c7"}, "user", "agent"),
    ],
)
def test_a_prompt_is_a_persons_where_nothing_else_is_told(data: dict[str, Any], role: str, author: str) -> None:
    (message,) = read(event("user.message", {"content": "hello there", **data})).messages
    assert (message.role, message.author) == (role, author)


def test_what_was_attached_may_be_an_image() -> None:
    data = {"content": "see", "attachments": [{"type": "blob", "mimeType": "image/png"}]}
    (message,) = read(event("user.message", data)).messages
    assert message.has_image


def test_a_detached_session_has_a_parent_and_no_person() -> None:
    start = event("session.start", {"sessionId": "s", "detachedFromSpawningParentSessionId": "p"})
    session = read(start, event("user.message", {"content": "tidy up"}))
    assert (session.parent_source_id, session.relation) == ("p", "continuation")
    assert session.messages[0].author == "harness"


# --- responses, agents, and what else happened --------------------------------------------------------------------


def test_the_pieces_of_one_response_are_one_message() -> None:
    session = fixture("pieces")
    first, second, third = session.messages[1:]
    assert (first.text, [call.name for call in first.calls]) == ("First,\nthen.", ["bash", "bash"])
    assert statuses(session) == {"c1": "ok", "c2": "ok", "c3": "ok"}
    assert (second.text, second.calls) == ("An answer.", ())
    assert [call.name for call in third.calls] == ["report_intent"]  # ran without being named in a response


def test_reasoning_is_sealed_or_text_and_a_word_in_its_place_is_none() -> None:
    first, second, third = fixture("pieces").messages[1:]
    assert (first.thinking_kind, first.thinking_bytes) == ("signature", 80)
    assert [body.head for body in first.thinking] == ["Totals need care.", "And one more."]
    assert (second.thinking_kind, second.thinking_bytes) == ("ciphertext", 100)
    assert (third.thinking_kind, third.thinking_bytes) == (None, 0)


def test_t26_a_sub_agent_has_its_own_lane_and_may_fail() -> None:
    session = fixture("subagent")
    inner = [message for message in session.messages if message.sidechain]
    assert [(message.role, message.author, message.text) for message in inner] == [
        ("user", "agent", "find the parser"),
        ("assistant", "agent", ""),
        ("assistant", "agent", "It is in src/parse.py."),
    ]
    own = [message for message in session.messages if not message.sidechain and message.role == "assistant"]
    assert [[call.call_id for call in message.calls] for message in own] == [["c1", "c2"], []]
    assert happened(session) == [("subagent", "started explore"), ("subagent", "failed")]
    assert statuses(session) == {"c1": "ok", "c2": "ok", "s1": "ok"}


def test_q5_compactions_rewinds_and_model_changes_are_events() -> None:
    session = fixture("compaction")
    assert happened(session) == [
        ("compaction", "background"),
        ("compaction", "messages dropped"),
        ("rewind", ""),
        ("model_change", "gpt-5.4 -> claude-sonnet-4.6"),
        ("interrupt", "user_initiated"),
    ]
    notices = [(message.role, message.notice) for message in session.messages if message.notice]
    assert notices == [("context", "compaction_summary"), ("context", "interrupt")]
    assert session.messages[-1].notice == "interrupt"  # Q27: it ends the session


def test_t20_an_api_error_ends_a_session_as_a_notice() -> None:
    session = fixture("api_error")
    last = session.messages[-1]
    assert (last.role, last.author, last.notice) == ("assistant", "harness", "api_error")
    assert happened(session) == [("api_error", "You have hit a rate limit.")]


def test_a_limit_that_the_program_kept_to_is_no_interrupt() -> None:
    session = read(said("", bash("make")), event("abort", {"reason": "autopilot_credit_limit"}))
    assert session.events == () and statuses(session) == {"c1": "pending"}


def test_a_replay_of_another_tool_is_read_and_its_calls_have_no_status() -> None:
    session = fixture("replay")
    assert (session.source_id, session.cwd) == ("replay-1", "/home/dev/shop")
    assert spoken(session) == [
        ("user", "human", "read the readme aloud"),
        ("assistant", "agent", ""),
        ("assistant", "agent", "It says: Shop."),
    ]
    assert [(call.status.value, call.file_paths) for call in calls(session)] == [
        ("unknown", ("README.md",)),
        ("pending", ("gone.md",)),
    ]
    assert losses(session) == {"unknown_type": 1}


# --- broken and hostile content -----------------------------------------------------------------------------------


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {
        "malformed_line": 1,
        "no_data": 1,
        "no_type": 1,
        "not_an_object": 1,
        "orphan_result": 1,
        "unknown_type": 1,
    }
    assert [message.text for message in session.messages] == ["what is new in here?", "Much."]


def test_a_cut_last_line_costs_itself() -> None:
    assert losses(fixture("cut")) == {"malformed_line": 1}


@pytest.mark.parametrize("name", NAMES)
def test_a_log_may_be_cut_at_any_byte(name: str) -> None:
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    for size in range(1, len(data), 97):
        read_bytes(data[:size])


def test_a_source_without_records_has_no_session() -> None:
    assert copilot.parse([], Source()) == []


# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("type",): (str,),
    ("timestamp",): (str, int, float),
    ("data",): (dict,),
    ("agentId",): (str,),
    ("data", "success"): (bool,),
    ("data", "context"): (dict,),
    ("data", "context", "branch"): (str,),
    ("data", "attachments"): (list,),
    ("data", "error"): (dict, str),
    ("data", "error", "code"): (str,),
    ("data", "modelMetrics"): (dict,),
    ("data", "toolTelemetry", "metrics", "exit_code"): (int,),
    ("data", "toolRequests"): (list,),
    ("data", "toolRequests", "name"): (str,),
    ("data", "toolRequests", "toolCallId"): (str,),
}
for _name in "sessionId copilotVersion selectedModel newModel content model reasoningText toolCallId reason".split():
    READ[("data", _name)] = (str,)
WRONG = ("wrong_type", "bad_time")
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.just(HUGE) | st.just(1.5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in NAMES if name not in ("cut", "unknown_type")]))
    lines = rows(name)
    index = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.sampled_from(sorted(places(lines[index]), key=repr)))
    new = data.draw(junk)
    before = losses(read(*lines))
    lines[index] = put(lines[index], at, new)
    after = losses(read(*lines))
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and name != "replay" and not isinstance(at[-1], int) and not fits(new, wanted):
        assert sum(after.get(kind, 0) for kind in WRONG) > sum(before.get(kind, 0) for kind in WRONG), (at, new, after)


@settings(max_examples=40, deadline=None)
@given(st.permutations([line for name in NAMES for line in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]))
def test_lines_in_any_order_give_a_well_formed_session(lines: list[bytes]) -> None:
    session = read_bytes(b"\n".join(lines))
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]


# --- whose it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_fixture_is_recognised_by_one_of_its_lines(name: str) -> None:
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    values = [json.loads(line) for line in data.splitlines() if not line.endswith((b"succ", b"assis"))]
    assert copilot.sniff(Sample((values[0],))) and copilot.sniff(Sample(tuple(values)))


@pytest.mark.parametrize(
    "value",
    [
        {"type": "session.start", "data": {}},
        {"type": "user.message", "data": "x", "parentId": None, "timestamp": "t"},
        {"type": "message", "data": {}, "parentId": None, "timestamp": "t"},
        {"type": "session.dreamed", "data": {}, "parentId": None, "timestamp": "t"},
        {"type": ["user.message"], "data": {}, "parentId": None, "timestamp": "t"},
        {"schema_version": "agentv.transcript.v1", "source": {"provider": "codex"}},
        {"role": "user", "message": {"content": "x"}},
        [],
        "user.message",
        None,
    ],
)
def test_other_lines_are_not_claimed(value: object) -> None:
    assert not copilot.sniff(Sample((value,)))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real logs is not here")
def test_every_real_log_is_read_without_an_unknown_type() -> None:
    for path in (CORPUS / "copilot").iterdir():
        session = read_bytes(path.read_bytes())
        assert session.messages and "unknown_type" not in losses(session), path.name
