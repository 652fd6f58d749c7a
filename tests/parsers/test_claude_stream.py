"""Streams of `claude -p`. The Q and T rows named in the ids are the mistakes known in the field.

Expectations are worked out by hand from the lines of the fixtures in `claude_stream/`, which are invented.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import fits, junk, places, put
from tests.parsers.sessions import CORPUS, assert_well_formed, calls, losses, statuses

from demerit.model import CallStatus, Session, Usage
from demerit.parsers import claude_stream
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "claude_stream"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))

SESSION = "5f0c2a10-0000-4000-8000-000000000001"
OTHER = "5f0c2a10-0000-4000-8000-000000000002"
STREAM = Source(name="stream")


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


def read_all(data: bytes, source: Source = STREAM) -> list[Session]:
    return claude_stream.parse(records(data), source)


def read(*lines: dict[str, Any], source: Source = STREAM) -> Session:
    (session,) = read_all(b"\n".join(json.dumps(line).encode() for line in lines), source)
    return session


def fixture(name: str) -> Session:
    (session,) = read_all((FIXTURES / f"{name}.jsonl").read_bytes())
    return session


def line(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "session_id": SESSION, "parent_tool_use_id": None, **more}


def says(name: str, *blocks: dict[str, Any], usage: Any = None, **more: Any) -> dict[str, Any]:
    message = {"id": name, "model": "claude-opus-4-6", "content": list(blocks), "usage": usage}
    return line("assistant", message=message, **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(number: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": number, "name": name, "input": arguments}


def got(number: str, content: Any, is_error: bool | None = None, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": number, "content": content, "is_error": is_error}
    return line("user", message={"role": "user", "content": [block]}, **more)


def prompt(words: str, **more: Any) -> dict[str, Any]:
    return line("user", message={"role": "user", "content": words}, **more)


def said(session: Session) -> list[tuple[str, str, str | None]]:
    return [(message.role, message.author, message.notice) for message in session.messages]


def usages(session: Session) -> list[Usage]:
    return [message.usage for message in session.messages if message.usage is not None] + list(session.loose_usage)


# --- one run, from end to end -----------------------------------------------------------------------------


def test_a_plain_run_tells_who_and_where() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id) == ("claude-code", SESSION)
    assert (session.cwd, session.agent_version, session.branch) == ("/home/dev/shop", "2.1.41", None)
    assert (session.started, session.ended, session.terminal) == (None, None, True)
    assert not (session.events or session.losses or session.relation or session.title)


def test_lines_of_one_message_id_are_one_response_and_the_prompt_is_a_programs() -> None:
    session = fixture("plain")
    assert said(session) == [("user", "harness", None)] + [("assistant", "agent", None)] * 3
    first = session.messages[1]
    assert (first.text, first.model, [call.name for call in first.calls]) == (
        "I will look.",
        "claude-opus-4-6",
        ["Bash"],
    )
    assert (first.thinking_kind, first.thinking_bytes, first.thinking[0].head) == (
        "signature",
        len("c2lnbmF0dXJl"),
        "Look at the rounding.",
    )
    assert [message.text for message in session.messages[2:]] == ["", "Done: it rounds half up."]


def test_a_plain_runs_calls_have_their_inputs_and_results() -> None:
    shell, edit = calls(fixture("plain"))
    assert (shell.category, shell.status, shell.evidence) == ("shell", CallStatus.OK, "is_error false")
    assert shell.result is not None and shell.result.head == "1 passed"
    assert (edit.category, edit.status, edit.evidence) == ("edit", CallStatus.OK, "no error flag")


def test_q19_churn_sees_the_files_that_an_edit_names() -> None:
    assert [call.file_paths for call in calls(fixture("plain"))] == [(), ("/home/dev/shop/total.py",)]


def test_a_body_stands_in_the_log_where_it_says() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for call_ in calls(fixture("plain")):
        for body in (call_.input, call_.result):
            assert body is not None and body.offset is not None
            assert json.loads(data[body.offset : body.offset + body.bytes])


def test_a_label_of_a_command_makes_no_other_call_of_it() -> None:
    session = read(
        says("msg_1", call("a", command="make", description="Build"), call("b", command="make", description="Again"))
    )
    first, second = calls(session)
    assert first.input_hash == second.input_hash


# --- tokens -----------------------------------------------------------------------------------------------


def test_messages_and_the_rest_add_up_to_what_the_process_says_of_all_its_models() -> None:
    session = fixture("plain")
    assert [
        (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.output_tokens, usage.is_sum)
        for usage in usages(session)
    ] == [(3, 1000, 500, 2, False), (1, 1500, 200, 4, False), (1, 1700, 100, 3, False), (50, 0, 0, 421, True)]
    # 420 of one model and 10 of the other, of which the messages have 2, 4 and 3.
    assert sum(usage.output_tokens for usage in usages(session)) == 430
    assert not any(usage.output_is_partial for usage in usages(session))


def test_runs_of_one_session_are_one_and_each_process_counts_from_nothing() -> None:
    first, second = read_all((FIXTURES / "resumed.jsonl").read_bytes())
    assert (first.source_id, second.source_id) == (SESSION, OTHER)
    assert [message.text for message in first.messages] == ["One.", "Two."]
    assert sum(usage.output_tokens for usage in usages(first)) == 30 + 25
    assert sum(usage.input_tokens for usage in usages(first)) == 10 + 20
    assert sum(usage.output_tokens for usage in usages(second)) == 9


def test_a_process_of_several_turns_tells_the_sum_each_time() -> None:
    spent = {"input_tokens": 10, "output_tokens": 2}
    total = [{"m": {"inputTokens": 10, "outputTokens": 30}}, {"m": {"inputTokens": 20, "outputTokens": 55}}]
    session = read(
        says("msg_1", text("One."), usage=spent),
        line("result", subtype="success", modelUsage=total[0]),
        says("msg_2", text("Two."), usage=spent),
        line("result", subtype="success", modelUsage=total[1]),
    )
    assert sum(usage.output_tokens for usage in usages(session)) == 55
    assert sum(usage.input_tokens for usage in usages(session)) == 20


def test_without_a_last_line_a_count_that_cannot_be_whole_is_marked() -> None:
    spent = {"input_tokens": 10, "output_tokens": 2}
    (usage,) = usages(read(says("msg_1", text("word " * 20), usage=spent)))
    assert (usage.output_tokens, usage.output_is_partial) == (2, True)


def test_partial_messages_tell_the_whole_output_and_why_it_ended() -> None:
    session = fixture("partial_messages")
    (message,) = session.messages
    assert message.usage is not None
    assert (message.usage.output_tokens, message.usage.output_is_partial, message.stop_reason) == (
        77,
        False,
        "end_turn",
    )


def test_the_hour_cache_is_told_from_the_five_minutes() -> None:
    created = {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 6}
    spent = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 10, "cache_creation": created}
    (usage,) = usages(read(says("msg_1", usage=spent)))
    assert (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens) == (4, 6)


# --- how calls went ---------------------------------------------------------------------------------------


def test_q1_q2_each_call_by_its_flag_its_exit_code_and_the_fixed_texts() -> None:
    session = fixture("tool_error")
    assert [(call.call_id, call.status.value, call.exit_code) for call in calls(session)] == [
        ("toolu_a", "failed", 1),
        ("toolu_b", "failed", None),
        ("toolu_c", "cancelled", None),
        ("toolu_d", "benign", 1),
        ("toolu_e", "benign", None),
        ("toolu_f", "declined", None),
        ("toolu_g", "declined", None),
        ("toolu_h", "invalid", None),
        ("toolu_i", "cancelled", None),
        ("toolu_j", "failed", None),
        ("toolu_k", "pending", None),
    ]
    assert losses(session) == {"orphan_result": 1}


def test_a_refusal_that_only_the_last_line_tells() -> None:
    refused = calls(fixture("tool_error"))[6]
    assert refused.evidence == "listed among the permission denials"


def test_a_refusal_that_a_line_of_its_own_tells() -> None:
    session = read(
        says("msg_1", call("a", "WebFetch")),
        line("system", subtype="permission_denied", tool_use_id="a"),
        got("a", "No.", is_error=True),
    )
    assert statuses(session) == ["declined"]


def test_the_first_result_of_a_call_stands() -> None:
    moved = calls(fixture("tool_error"))[9]
    assert moved.result is not None and moved.result.head == "MCP error -32000: closed"


def test_t25_a_copy_of_a_call_has_its_first_ones_result() -> None:
    session = read(
        says("msg_1", call("a", command="make")),
        got("a", "Exit code 2", is_error=True),
        says("msg_2", call("a", command="make")),
    )
    assert statuses(session) == ["failed", "failed"]


@pytest.mark.parametrize(
    ("detail", "status"),
    [
        pytest.param({"status": "failed"}, "failed", id="a sub-agent that failed"),
        pytest.param({"status": "killed"}, "cancelled", id="a sub-agent that was stopped"),
        pytest.param({"status": "completed"}, "ok", id="a sub-agent that came to its end"),
        pytest.param("Error: words", "ok", id="a text of the detail says nothing"),
        pytest.param(
            {"stdout": "Traceback: Error", "interrupted": False}, "ok", id="Q13 words in an output say nothing"
        ),
    ],
)
def test_what_claude_code_keeps_of_a_result(detail: object, status: str) -> None:
    session = read(says("msg_1", call("a", "Task")), got("a", "words", tool_use_result=detail))
    assert statuses(session) == [status]


def test_q26_the_tools_of_a_server_and_the_apis_own() -> None:
    session = read(
        says("msg_1", call("a", "mcp__shop__price"), {"type": "server_tool_use", "id": "b", "name": "web_search"})
    )
    assert [(call.category, call.status.value) for call in calls(session)] == [("mcp", "pending"), ("web", "ok")]


def test_q17_a_poll_is_one_by_its_tool() -> None:
    session = read(says("msg_1", call("a", "TaskOutput", task_id="t"), call("b", "Bash", command="ls")))
    assert [call.is_poll for call in calls(session)] == [True, False]


# --- sub-agents -------------------------------------------------------------------------------------------


def test_q28_a_sub_agents_lines_are_beside_the_conversation_and_its_end_is_told() -> None:
    session = fixture("subagent")
    assert [(message.role, message.author, message.sidechain) for message in session.messages] == [
        ("assistant", "agent", False),
        ("user", "agent", True),
        ("assistant", "agent", True),
        ("assistant", "agent", False),
    ]
    assert [(event.kind, event.detail) for event in session.events] == [("subagent", "failed")]
    assert statuses(session) == ["failed", "ok"]  # it used no token and gave the error of the API
    assert sum(usage.output_tokens for usage in usages(session)) == 60 + 30


def test_a_command_in_the_background_that_failed_is_no_sub_agent() -> None:
    session = read(
        says("msg_1", call("a", "Bash", command="make")),
        line("system", subtype="task_notification", tool_use_id="a", status="failed"),
    )
    assert session.events == ()


# --- who wrote it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(prompt("Mend it."), ("user", "harness", None), id="a prompt comes from a program"),
        pytest.param(prompt("Mend it.", origin={"kind": "human"}), ("user", "human", None), id="said to be a person's"),
        pytest.param(prompt("Go on.", origin={"kind": "hook"}), ("context", "harness", None), id="said to be a hook's"),
        pytest.param(prompt("Go on.", isSynthetic=True), ("context", "harness", None), id="said to be made up"),
        pytest.param(prompt("Mend it.", isReplay=True), ("user", "harness", None), id="a prompt printed back"),
        pytest.param(
            prompt("<task-notification>x</task-notification>"), ("context", "harness", None), id="T20 a notice"
        ),
        pytest.param(
            prompt("<system-reminder>x</system-reminder>"), ("context", "harness", None), id="T20 a reminder alone"
        ),
        pytest.param(
            prompt("[Request interrupted by user]"), ("context", "harness", "interrupt"), id="Q27 an interrupt"
        ),
    ],
)
def test_who_wrote_a_text(row: dict[str, Any], expected: tuple[str, str, str | None]) -> None:
    assert said(read(row)) == [expected]


def test_an_image_alone_is_a_prompt() -> None:
    row = line("user", message={"role": "user", "content": [{"type": "image", "source": {}}]})
    (message,) = read(row).messages
    assert message.has_image and message.role == "user"


# --- compactions, interrupts, errors, ends --------------------------------------------------------------


def test_t32_a_compaction_is_an_event_and_its_summary_no_prompt() -> None:
    session = fixture("compaction")
    assert [(event.kind, event.detail) for event in session.events] == [("compaction", "auto, 155000 tokens")]
    assert said(session)[1] == ("context", "harness", "compaction_summary")
    assert not session.terminal


def test_q27_an_interrupt_ends_a_run_and_is_no_error_of_the_service() -> None:
    session = fixture("interrupt")
    assert statuses(session) == ["cancelled"]
    assert said(session)[-1] == ("context", "harness", "interrupt")
    assert [event.kind for event in session.events] == ["interrupt"]
    assert session.terminal


def test_q22_an_error_of_the_service_is_told_once() -> None:
    session = fixture("api_error")
    assert said(session) == [("assistant", "harness", "api_error")]
    assert session.messages[0].model is None and session.messages[0].usage is None
    assert [(event.kind, event.detail) for event in session.events] == [
        ("api_error", "retried"),
        ("api_error", "server_error"),
    ]


def test_q22_a_run_that_broke_says_so_in_its_last_line() -> None:
    session = fixture("broken_run")
    assert said(session)[-1] == ("assistant", "harness", "api_error")
    assert session.messages[-1].text == "the connection was closed"
    assert statuses(session) == ["pending"]


def test_a_run_that_came_to_a_limit_of_its_caller_did_not_break() -> None:
    session = fixture("limit")
    assert said(session) == [("assistant", "agent", None)]
    assert session.terminal and not session.events


def test_what_follows_an_end_takes_it_back() -> None:
    assert read(line("result", subtype="success")).terminal
    assert not read(line("result", subtype="success"), prompt("More.")).terminal
    assert not read(line("result", subtype="success"), says("msg_1", text("More."))).terminal


# --- lines that are not understood ------------------------------------------------------------------------


def test_a_cut_line_costs_itself_alone() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1}
    assert said(session) == [("user", "harness", None), ("assistant", "agent", None)]


def test_what_is_not_known_is_counted() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {
        "unknown_type": 1,
        "no_type": 2,
        "no_message": 2,
        "no_event": 1,
        "empty_message": 1,
        "call_without_name": 1,
        "wrong_type": 1,
    }
    assert session.messages[0].thinking_bytes == len("abcdef")


def test_t55_a_line_printed_twice_counts_once() -> None:
    row = says("msg_1", text("Once."), uuid="u1")
    assert [message.text for message in read(row, row).messages] == ["Once."]


def test_a_line_of_two_objects_is_two_lines() -> None:
    data = json.dumps(prompt("One.")).encode() + json.dumps(says("msg_1", text("Two."))).encode()
    (session,) = read_all(data)
    assert [message.text for message in session.messages] == ["One.", "Two."]
    assert losses(session) == {"fused_line": 1}


def test_a_source_without_records_has_no_session() -> None:
    assert claude_stream.parse([], Source()) == []


def test_a_stream_without_a_name_has_its_files() -> None:
    row = prompt("hi")
    del row["session_id"]
    assert read(row, source=Source(name="run-7")).source_id == "run-7"


def test_a_report_needs_no_bodies() -> None:
    (session,) = read_all((FIXTURES / "plain.jsonl").read_bytes(), Source(bodies=False, text_bytes=4))
    assert session.messages[-1].text == "Done" and session.messages[0].text == "Round the totals half up."
    assert all(call.input is None and call.result is None and call.input_hash for call in calls(session))


# --- hostile content --------------------------------------------------------------------------------------

LINES = [row for name in NAMES for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]
WHOLE = [
    [json.loads(row) for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]
    for name in NAMES
    if name not in ("cut", "unknown_type")
]

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[str, tuple[type, ...]] = {
    "message": (dict,),
    "message.content": (str, list),
    "message.usage": (dict,),
    "message.usage.input_tokens": (int,),
    "message.usage.output_tokens": (int,),
    "message.usage.cache_creation": (dict,),
    "message.usage.cache_creation.ephemeral_1h_input_tokens": (int,),
    "message.content.is_error": (bool,),
    "tool_use_result": (dict, str, list),
    "tool_use_result.interrupted": (bool,),
    "tool_use_result.returnCodeInterpretation": (str,),
    "tool_use_result.totalTokens": (int,),
    "compact_metadata": (dict,),
    "compact_metadata.pre_tokens": (int,),
    "is_error": (bool,),
    "isSynthetic": (bool,),
    "errors": (list,),
    "modelUsage": (dict,),
    "permission_denials": (list,),
    "permission_denials.tool_use_id": (str,),
    "event": (dict,),
    "event.usage.output_tokens": (int,),
    "event.delta.stop_reason": (str,),
}
TEXTS = (
    "type subtype uuid session_id parent_tool_use_id cwd claude_code_version tool_use_id message.id message.model "
    "message.stop_reason message.content.type message.content.text message.content.id message.content.name "
    "message.content.tool_use_id message.content.signature compact_metadata.trigger"
)
READ.update(dict.fromkeys(TEXTS.split(), (str,)))


def wrong_types(sessions: list[Session]) -> int:
    return sum(losses(session).get("wrong_type", 0) for session in sessions)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    rows = list(data.draw(st.sampled_from(WHOLE)))
    index = data.draw(st.integers(0, len(rows) - 1))
    at = data.draw(st.sampled_from(sorted(places(rows[index]), key=repr)))
    new = data.draw(junk)
    rows[index] = put(rows[index], at, new)
    sessions = read_all(b"\n".join(json.dumps(row).encode() for row in rows))
    for session in sessions:
        assert_well_formed(session)
    wanted = READ.get(".".join(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        assert wrong_types(sessions) > 0, (at, new)


@settings(max_examples=60, deadline=None)
@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_and_twice_give_well_formed_sessions(lines: list[bytes], size: int) -> None:
    for data in (b"\n".join(lines[:size]), b"\n".join(lines[:size] * 2)):
        for session in read_all(data):
            assert_well_formed(session)


def test_a_stream_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for size in range(0, len(data), 7):
        for session in read_all(data[:size]):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["message", "timestamp", "type", "error", "result", "modelUsage", "event", "status"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for kind in (b"assistant", b"user", b"system", b"result", b"stream_event"):
        read_all(b'{"type": "%s", "session_id": "s", "%s": %s}' % (kind, field.encode(), deep))


# --- whose log --------------------------------------------------------------------------------------------


def first_values(path: Path) -> tuple[Any, ...]:
    values = []
    data = path.read_bytes()
    for row in [data] if data[:1] == b"[" else data.splitlines()[:20]:
        try:
            values.append(json.loads(row))
        except ValueError:
            continue
    return tuple(values)


@pytest.mark.parametrize("name", NAMES)
def test_its_own_streams_are_claimed(name: str) -> None:
    assert claude_stream.PARSER.one_line_tells and claude_stream.sniff(Sample(first_values(FIXTURES / f"{name}.jsonl")))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(line("system", subtype="init", claude_code_version="2.1.41"), id="the first line"),
        pytest.param(
            line("system", subtype="init", tools=[], mcp_servers=[], apiKeySource=""), id="an older first line"
        ),
        pytest.param(says("msg_1"), id="a response"),
        pytest.param(line("result", subtype="success", num_turns=1, total_cost_usd=0.1), id="the last line"),
    ],
)
def test_one_line_tells(value: object) -> None:
    assert claude_stream.sniff(Sample((value,)))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"type": "user", "sessionId": "s", "uuid": "u", "message": {"content": "x"}}, id="Claude Code"),
        pytest.param(
            {"type": "system", "subtype": "init", "session_id": "s", "apiKeySource": ""}, id="Cursor's stream"
        ),
        pytest.param(
            {"type": "system", "subtype": "init", "session_id": "s", "tools": [], "qwen_code_version": "0"},
            id="Qwen Code",
        ),
        pytest.param(
            {
                "type": "assistant",
                "session_id": "s",
                "parent_tool_use_id": None,
                "message": {"id": "0f", "content": []},
            },
            id="Qwen Code, a response",
        ),
        pytest.param({"type": "result", "session_id": "s", "subtype": "success", "result": ""}, id="Cursor, its end"),
        pytest.param({"type": "message", "session_id": "s", "role": "user", "text": "hi"}, id="Droid's stream"),
        pytest.param({"type": "init", "session_id": "s", "model": "m"}, id="Gemini's stream"),
        pytest.param({"type": ["system"], "session_id": "s"}, id="a type that is no text"),
        pytest.param({"type": "assistant", "session_id": "s", "parent_tool_use_id": "", "message": 3}, id="no message"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not claude_stream.sniff(Sample((value,)))


# --- real streams, where they are at hand -----------------------------------------------------------------

REAL = sorted((CORPUS / "claude-stream").glob("*claude-stream.jsonl")) if CORPUS.is_dir() else []
needs_corpus = pytest.mark.skipif(not REAL, reason="no corpus beside the repository")


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_stream_adds_up_to_its_own_totals(path: Path) -> None:
    (session,) = read_all(path.read_bytes(), Source(name=path.stem))
    assert session.losses == ()
    assert_well_formed(session)
    total = json.loads(path.read_bytes().splitlines()[-1])
    own = [message.usage for message in session.messages if message.usage is not None and not message.sidechain]
    assert sum(usage.input_tokens for usage in own) == total["usage"]["input_tokens"]
    assert sum(usage.cache_read_tokens for usage in own) == total["usage"]["cache_read_input_tokens"]
    models = total["modelUsage"].values()
    assert sum(usage.output_tokens for usage in usages(session)) == sum(model["outputTokens"] for model in models)


@needs_corpus
def test_statuses_read_by_hand() -> None:
    (path,) = REAL
    (session,) = read_all(path.read_bytes())
    counted = Counter((call.name, call.status.value) for call in calls(session))
    assert {key: count for key, count in counted.items() if key[1] != "ok"} == {
        ("Read", "failed"): 3,
        ("Read", "cancelled"): 4,
        ("Bash", "cancelled"): 1,
    }


@needs_corpus
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        assert claude_stream.sniff(Sample(first_values(path))) == (path in REAL), path
