"""Gemini CLI's chats and streams. The Q and T rows named in the ids are the mistakes known in the field.

Expectations are worked out by hand from the fixtures in `gemini/`, which are invented.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import fits, junk, places, put
from tests.parsers.sessions import CORPUS, calls, losses, prompts, spoken, statuses

from demerit.model import Session, Usage
from demerit.parsers import gemini
from demerit.parsers.records import Record, Sample, Source
from demerit.quality import assess

FIXTURES = Path(__file__).parent / "gemini"
NAMES = sorted(path.name for path in FIXTURES.iterdir())
SESSION = "3f0c1a52-0000-4000-8000-000000000001"
CHAT = Source(name="session-1")


def records(data: bytes) -> Iterator[Record]:
    if data.startswith(b"{\n"):  # as a whole file comes
        yield Record(data, 0)
        return
    offset = 0
    for line in data.splitlines(keepends=True):
        yield Record(line, offset)
        offset += len(line)


def all_of(name: str, source: Source = CHAT) -> list[Session]:
    return gemini.parse(records((FIXTURES / name).read_bytes()), source)


def fixture(name: str, source: Source = CHAT) -> Session:
    (session,) = all_of(name, source)
    return session


def read(*lines: dict[str, Any], source: Source = CHAT) -> Session:
    (session,) = gemini.parse(records(b"".join(json.dumps(line).encode() + b"\n" for line in lines)), source)
    return session


HEAD = {"sessionId": SESSION, "projectHash": "9f0c", "startTime": "2026-05-02T09:00:00Z", "kind": "main"}


def line(kind: str, content: Any, name: str = "m", at: str = "2026-05-02T09:00:05Z", **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": at, "type": kind, "content": content, **more}


def usages(session: Session) -> list[Usage]:
    return [message.usage for message in session.messages if message.usage is not None]


def kinds(session: Session) -> list[str]:
    return [event.kind for event in session.events]


# --- a chat in lines ---------------------------------------------------------------------------------------


def test_a_plain_chat_tells_who_where_and_when() -> None:
    session = fixture("plain.jsonl")
    assert (session.agent, session.source_id, session.title) == ("gemini", SESSION, "Round half up in the cart")
    assert (session.cwd, session.branch, session.agent_version) == ("/home/dev/shop", None, None)
    assert session.started == datetime(2026, 5, 2, 9, 0, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 5, 2, 9, 0, 20, tzinfo=UTC)
    assert (session.relation, session.parent_source_id, session.terminal) == (None, None, False)
    assert not (session.events or session.loose_usage or session.losses)


def test_t2_the_same_id_again_is_the_same_message_and_results_are_none() -> None:
    session = fixture("plain.jsonl")
    assert [(message.role, message.author) for message in session.messages] == [
        ("context", "harness"),
        ("user", "human"),
        ("assistant", "agent"),
        ("assistant", "agent"),
        ("assistant", "agent"),
    ]
    first, second, third = session.messages[2:]
    assert (first.text, [call.name for call in first.calls]) == ("I will look first.", ["read_file"])
    assert (second.text, [call.name for call in second.calls]) == ("", ["replace"])
    assert (third.text, third.calls, third.model) == ("Rounding is half up now.", (), "gemini-3-pro-preview")
    assert prompts(session) == ["round half up in cart.py please"]


def test_t5_cached_tokens_are_a_part_of_the_input_and_thoughts_beside_the_output() -> None:
    first = usages(fixture("plain.jsonl"))[0]
    assert (first.input_tokens, first.cache_read_tokens) == (1000, 11000)
    assert (first.output_tokens, first.reasoning_tokens) == (230, 200)
    assert first.key == f"{SESSION}:a1"


def test_q19_an_edit_names_its_file() -> None:
    edit = calls(fixture("plain.jsonl"))[1]
    assert (edit.category, edit.file_paths, edit.changes_files) == ("edit", ("cart.py",), True)


def test_thoughts_are_text() -> None:
    first = fixture("plain.jsonl").messages[2]
    assert (first.thinking_kind, first.thinking_bytes) == ("text", len("Reading\nI need to see the file."))
    assert [body.head for body in first.thinking] == ["Reading\nI need to see the file."]


def test_bodies_are_left_out_when_nobody_wants_them() -> None:
    session = fixture("plain.jsonl", Source(name="s", bodies=False, text_bytes=8))
    assert calls(session)[0].result is None and calls(session)[0].input_hash is not None
    assert session.messages[2].thinking == () and session.messages[2].thinking_bytes > 0
    assert (session.messages[2].text, session.messages[2].text_bytes) == ("I will l", 18)
    assert prompts(session) == ["round half up in cart.py please"]


@pytest.mark.parametrize("name", ["plain.jsonl", "whole.json"])
def test_bodies_stay_at_their_place_in_the_file(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    bodies = [body for call in calls(fixture(name)) for body in (call.input, call.result) if body is not None]
    assert len(bodies) == 2 * len(calls(fixture(name)))
    for body in bodies:
        assert body.offset is not None
        value = json.loads(data[body.offset : body.offset + body.bytes])
        assert body.head == (value if isinstance(value, str) else data[body.offset :][: body.bytes].decode())


# --- a whole file ------------------------------------------------------------------------------------------


def test_q24_tokens_are_those_of_each_request() -> None:
    # Five requests of 100,000 tokens, of which 99,000 came from the cache.
    found = usages(fixture("whole.json"))
    assert [usage.context_tokens for usage in found] == [100_000] * 5
    assert sum(usage.input_tokens for usage in found) == 5_000
    assert [usage.output_tokens for usage in found] == [15, 16, 17, 18, 19]


def test_t7_a_request_is_read_by_itself() -> None:
    sent = {"input": 109_007, "cached": 108_219, "output": 4, "thoughts": 0, "tool": 0, "total": 109_011}
    before = {**sent, "input": 100_000, "cached": 0}
    found = usages(read(HEAD, line("gemini", "a", "m1", tokens=before), line("gemini", "b", "m2", tokens=sent)))
    assert [(usage.input_tokens, usage.cache_read_tokens) for usage in found] == [(100_000, 0), (788, 108_219)]


def test_a_whole_file_under_any_name_is_one_chat() -> None:
    session = fixture("whole.json")
    assert session.source_id == SESSION and prompts(session) == ["run the tests of the cart please"]
    assert [(call.status.value, call.exit_code) for call in calls(session)] == [
        ("failed", 1),
        ("benign", 1),
        ("ok", 0),
        ("failed", 1),
    ]
    compact = json.dumps(json.loads((FIXTURES / "whole.json").read_text())).encode()
    (same,) = gemini.parse([Record(compact, 0)], CHAT)
    assert statuses(same) == statuses(session) and spoken(same) == spoken(session)


def test_a_saved_conversation_has_no_times_and_no_ids() -> None:
    session = fixture("saved.json")
    assert spoken(session) == [
        ("user", "human", "what does this picture of the cart show?"),
        ("assistant", "agent", ""),
        ("assistant", "agent", "A cart."),
    ]
    assert session.messages[0].has_image and session.started is None and session.source_id == "session-1"
    assert (statuses(session), session.messages[1].thinking_bytes) == (["failed"], len("Let me look."))


@pytest.mark.parametrize("field", ["messages", "history"])
def test_a_wrong_field_beside_the_messages_costs_none_of_them(field: str) -> None:
    whole = {**HEAD, "summary": 7, field: [line("user", "hello", "u"), line("gemini", "Hi.", "g"), "odd"]}
    session = read(whole)
    assert [message.text for message in session.messages] == ["hello", "Hi."] and session.source_id == SESSION
    assert losses(session) == {"wrong_type": 1, "not_an_object": 1}


def test_messages_that_are_no_list_are_told_as_a_loss() -> None:
    assert losses(read({**HEAD, "messages": {"m": 1}})) == {"wrong_type": 1}


# --- how calls went ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_id", "status", "code"),
    [
        pytest.param("s1", "failed", 1, id="a command with exit 1 under a success"),
        pytest.param("s2", "benign", 1, id="T23: rg that finds nothing"),
        pytest.param("s3", "ok", 0, id="no Exit Code line means 0"),
        pytest.param("s4", "failed", None, id="a timeout"),
        pytest.param("s5", "failed", None, id="a signal"),
        pytest.param("s6", "ok", None, id="moved to the background"),
        pytest.param("e1", "failed", None, id="Q6: status error"),
        pytest.param("e2", "invalid", None, id="T50: an unknown tool is the model's mistake"),
        pytest.param("e3", "invalid", None, id="T50: arguments that do not fit are the model's mistake"),
        pytest.param("e4", "invalid", None, id="an unknown skill"),
        pytest.param("d1", "declined", None, id="a policy said no"),
        pytest.param("d2", "declined", None, id="nobody was there to say yes"),
        pytest.param("d3", "declined", None, id="a person said no"),
        pytest.param("k1", "cancelled", None, id="Q6: cancelled is no failure"),
        pytest.param("k2", "cancelled", None, id="Esc on a sub-agent"),
        pytest.param("m1", "failed", None, id="a server's tool that answers with an error under a success"),
        pytest.param("m2", "failed", None, id="a server's tool that reports an error"),
        pytest.param("m3", "ok", None, id="a server's answer of any other status"),
        pytest.param("o1", "ok", None, id="T35: error words in a file that was read"),
    ],
)
def test_the_status_of_a_call(call_id: str, status: str, code: int | None) -> None:
    (call,) = [call for call in calls(fixture("tool_error.jsonl")) if call.call_id == call_id]
    assert (call.status.value, call.exit_code) == (status, code)
    assert call.evidence


def test_the_first_result_stands() -> None:
    tool = {"id": "c1", "name": "read_file", "args": {"file_path": "a"}}
    answer = [{"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "(masked)"}}}]
    open_call, done = {**tool, "status": "executing"}, {**tool, "status": "error", "result": "no such file"}
    session = read(
        HEAD,
        line("gemini", "", toolCalls=[open_call]),
        line("gemini", "", toolCalls=[done]),
        line("user", answer, "r"),
        line("gemini", "", toolCalls=[{**done, "status": "success"}]),
    )
    (call,) = calls(session)
    assert (call.status.value, call.result and call.result.head) == ("failed", "no such file")


def test_a_result_in_the_history_alone_is_one() -> None:
    asked = [{"functionCall": {"id": "c1", "name": "read_file", "args": {"file_path": "a"}}}]
    answer = [{"functionResponse": {"id": "c1", "name": "read_file", "response": {"error": "no such file"}}}]
    assert statuses(read(HEAD, line("gemini", asked))) == ["pending"]
    assert statuses(read(HEAD, line("gemini", asked), line("user", answer, "r"))) == ["failed"]


def test_calls_of_a_response_that_come_after_a_note_are_its_own() -> None:
    session = fixture("interrupted.jsonl")
    assert [message.role for message in session.messages] == ["user", "assistant", "context"]
    assert statuses(session) == ["cancelled"]


# --- who wrote it, and what happened -----------------------------------------------------------------------


def test_q27_an_interrupt_that_ends_the_session_is_told() -> None:
    session = fixture("interrupted.jsonl")
    assert kinds(session) == ["interrupt"] and session.messages[-1].notice == "interrupt"
    report = assess(session, datetime(2026, 5, 3, tzinfo=UTC))
    assert (report.ending, report.outcome.value) == ("interrupted", "abandoned")


def test_q22_an_api_error_that_ends_the_session_is_told_and_another_error_is_none() -> None:
    session = fixture("api_error.jsonl")
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("user", "human", None),
        ("context", "harness", None),
        ("assistant", "harness", "api_error"),
    ]
    report = assess(session, datetime(2026, 5, 3, tzinfo=UTC))
    assert (report.ending, report.outcome.value) == ("api_error", "abandoned")


def test_a_compaction_is_one_event_and_the_history_before_it_stays() -> None:
    session = fixture("compaction.jsonl")
    assert kinds(session) == ["compaction", "compaction"]
    assert prompts(session) == ["round half up in cart.py please"]
    assert [message.text for message in session.messages if message.role == "assistant"] == [
        "",
        "Done, half up.",
        "And tested.",
    ]
    (summary,) = [message for message in session.messages if message.notice == "compaction_summary"]
    assert (summary.role, summary.author) == ("context", "harness")
    (call,) = calls(session)
    assert call.result is not None and call.result.head == "def total(): ..."
    assert [usage.context_tokens for usage in usages(session)] == [90_000, 9_000, 8_000]


def test_ids_that_are_taken_out_of_the_history_are_a_compaction() -> None:
    assert kinds(read(HEAD, line("user", "hello"), {"$patch": {"removeIds": ["m"]}})) == ["compaction"]
    assert kinds(read(HEAD, line("user", "hello"), {"$patch": {"id": "m", "content": "h"}})) == []


def test_what_was_rewound_stays_for_it_was_done() -> None:
    session = fixture("rewind.jsonl")
    assert kinds(session) == ["rewind"] and session.events[0].message_ordinal == 3
    assert len(prompts(session)) == 3 and len(usages(session)) == 3


def test_a_subagents_prompt_was_written_by_an_agent() -> None:
    session = fixture("subagent.jsonl", Source(name="7b1f", parent=SESSION))
    assert (session.relation, session.parent_source_id, session.cwd) == ("subagent", SESSION, "/home/dev/shop")
    assert spoken(session)[0] == ("user", "agent", "Find out where prices are rounded.")
    assert fixture("subagent.jsonl").parent_source_id is None


def test_a_parent_names_its_subagents() -> None:
    session = fixture("parent.jsonl")
    assert [(event.kind, event.detail) for event in session.events] == [
        ("subagent", "7b1f1a9c-0000-4000-8000-000000000002")
    ]
    assert [(call.category, call.status.value) for call in calls(session)] == [("agent", "ok")]


def test_the_prompt_is_what_was_displayed() -> None:
    content = [{"text": "fix @cart.py"}, {"text": "\n--- Content from referenced files ---"}, {"text": "x = 1"}]
    assert prompts(read(HEAD, line("user", content))) == ["fix @cart.py"]
    shown = [{"text": "/fix @cart.py"}]
    assert prompts(read(HEAD, line("user", content, displayContent=shown))) == ["/fix @cart.py"]


def test_a_picture_alone_is_a_prompt() -> None:
    session = read(HEAD, line("user", [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]))
    assert [(m.role, m.author, m.has_image) for m in session.messages] == [("user", "human", True)]


# --- a stream ----------------------------------------------------------------------------------------------


def test_each_run_of_a_stream_is_a_session_that_nobody_sat_at() -> None:
    first, second = all_of("stream.jsonl")
    assert (first.source_id, second.source_id) == ("run-1", "run-2")
    assert (first.terminal, second.terminal) == (True, False)
    for session in (first, second):
        assert spoken(session)[:2] == [
            ("context", "harness", "Task 7 of the bench"),
            ("user", "harness", "build the shop page"),
        ]
        assert assess(session, datetime(2026, 5, 3, tzinfo=UTC)).archetype == "automation"
    assert (statuses(second), losses(first), losses(second)) == (["pending"], {}, {})


def test_a_response_in_a_stream_goes_on_until_a_result() -> None:
    session = all_of("stream.jsonl")[0]
    said = [(message.text, len(message.calls)) for message in session.messages if message.role == "assistant"]
    assert said == [("I will start.", 2), ("", 1), ("", 1), ("", 1), ("", 1), ("", 1), ("The page is built.", 0)]
    assert {message.model for message in session.messages if message.role == "assistant"} == {"gemini-3-pro-preview"}


def test_the_status_of_a_call_in_a_stream() -> None:
    found = {call.call_id: (call.status.value, call.exit_code) for call in calls(all_of("stream.jsonl")[0])}
    assert found == {
        "k1": ("invalid", None),  # error type invalid_tool_params
        "k2": ("ok", 0),  # an empty output, and no exit code in its place
        "k3": ("unknown", None),  # an output, and nothing tells how the command ended
        "k4": ("benign", 1),  # test -d
        "k5": ("failed", None),  # error type mcp_tool_error
        "k6": ("failed", None),  # the server's own status is error
        "k7": ("ok", None),
    }


def test_a_stream_does_not_tell_how_the_model_thought_and_a_chat_does() -> None:
    session = all_of("stream.jsonl")[0]
    assert session.untold == ("compaction", "thinking")
    assert {"compaction", "thinking"} <= set(assess(session, datetime(2026, 5, 3, tzinfo=UTC)).basis)
    assert fixture("plain.jsonl").untold == ()


def test_a_stream_tells_the_tokens_of_a_run_only() -> None:
    session = all_of("stream.jsonl")[0]
    (usage,) = session.loose_usage
    assert (usage.input_tokens, usage.cache_read_tokens) == (800, 1200)
    assert (usage.output_tokens, usage.reasoning_tokens) == (200, 50)  # 2200 in all, 2000 sent, 150 said
    assert usages(session) == []


def test_an_error_that_ended_a_run_is_told() -> None:
    session = fixture("stream_error.jsonl")
    assert session.terminal and session.messages[-1].notice == "api_error"
    assert session.messages[1].role == "context" and session.loose_usage == ()
    assert assess(session, datetime(2026, 5, 2, 9, 1, tzinfo=UTC)).ending == "api_error"


@pytest.mark.parametrize(
    ("kind", "notice"),
    [("FatalCancellationError", "interrupt"), ("FatalTurnLimitedError", None), ("ApiError", "api_error")],
)
def test_how_a_run_ended_in_an_error(kind: str, notice: str | None) -> None:
    at = "2026-05-02T09:00:05Z"
    begin = {"type": "init", "timestamp": at, "session_id": "r", "model": "m"}
    end = {"type": "result", "timestamp": at, "status": "error", "error": {"type": kind, "message": "stopped"}}
    assert read(begin, end).messages[-1].notice == notice


def test_a_run_that_is_resumed_goes_on() -> None:
    at = "2026-05-02T09:00:05Z"
    begin = {"type": "init", "timestamp": at, "session_id": "r", "model": "m"}
    asked = {"type": "message", "timestamp": at, "role": "user", "content": "go on"}
    session = read(begin, asked, {"type": "result", "timestamp": at, "status": "success"}, begin, asked)
    assert len(session.messages) == 2 and not session.terminal


# --- what is not understood --------------------------------------------------------------------------------


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type.jsonl")
    assert losses(session) == {"unknown_type": 2, "orphan_result": 1, "not_an_object": 1, "malformed_line": 1}
    assert [message.text for message in session.messages] == ["round half up in cart.py please", "Done."]


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("cut.jsonl")
    assert losses(session) == {"malformed_line": 1} and len(session.messages) == 1


def test_a_source_without_records_has_no_session() -> None:
    assert gemini.parse([], Source()) == []


# --- hostile content ---------------------------------------------------------------------------------------

ROWS = {
    name: [json.loads(row) for row in (FIXTURES / name).read_bytes().splitlines()]
    for name in NAMES
    if name.endswith(".jsonl") and name not in ("cut.jsonl", "unknown_type.jsonl")
}
ROWS |= {name: [json.loads((FIXTURES / name).read_bytes())] for name in NAMES if name.endswith(".json")}

# Fields that are read, by their place (`*` is any index), with the JSON types they may have. Null is absence.
TIME = (str, int, float)
READ: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("type", "id", "sessionId", "kind", "summary", "model", "$rewindTo", "role"), (str,)),
    **dict.fromkeys(("timestamp", "startTime", "lastUpdated", "$set.lastUpdated"), TIME),
    **dict.fromkeys(("$set", "tokens", "stats", "error"), (dict,)),
    **dict.fromkeys(("$set.messages", "messages", "history", "toolCalls", "directories"), (list,)),
    "content": (str, list, dict),
    "content.*": (dict,),
    "content.*.text": (str,),
    "content.*.functionResponse": (dict,),
    "content.*.functionCall": (dict,),
    "content.*.functionCall.name": (str,),
    "thoughts": (list,),
    "thoughts.*.subject": (str,),
    "tokens.input": (int,),
    "tokens.cached": (int,),
    "toolCalls.*": (dict,),
    "toolCalls.*.id": (str,),
    "toolCalls.*.name": (str,),
    "toolCalls.*.args": (dict,),
    "toolCalls.*.status": (str,),
    "toolCalls.*.result": (str, list, dict),
    **dict.fromkeys(("session_id", "tool_name", "tool_id", "status", "message", "error.type"), (str,)),
    **dict.fromkeys(("stats.input_tokens", "stats.cached"), (int,)),
}
WRONG = ("wrong_type", "bad_time", "unknown_type", "unknown_role")


def parsed(rows: list[Any]) -> list[Session]:
    return gemini.parse([Record(json.dumps(row).encode(), 0) for row in rows], CHAT)


def wrong(sessions: list[Session]) -> int:
    return sum(loss.count for session in sessions for loss in session.losses if loss.kind in WRONG)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    rows = ROWS[data.draw(st.sampled_from(sorted(ROWS)))]
    index = data.draw(st.integers(0, len(rows) - 1))
    at = data.draw(st.sampled_from(sorted(places(rows[index]), key=repr)))
    new = data.draw(junk)
    before = wrong(parsed(rows))
    after = parsed([*rows[:index], put(rows[index], at, new), *rows[index + 1 :]])
    for session in after:
        assert_well_formed(session)
    wanted = READ.get(".".join("*" if isinstance(key, int) else key for key in at))
    if wanted is not None and not fits(new, wanted):
        assert wrong(after) > before, (at, new)


@settings(max_examples=40, deadline=None)
@given(st.permutations([row for rows in ROWS.values() for row in rows]), st.integers(0, 60))
def test_lines_in_any_order_and_twice_give_well_formed_sessions(rows: list[Any], size: int) -> None:
    for session in (*parsed(rows[:size]), *parsed(rows[:size] * 2)):
        assert_well_formed(session)


def assert_well_formed(session: Session) -> None:
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]
        assert message.usage is None or min(message.usage.context_tokens, message.usage.output_tokens) >= 0
    for happened in session.events:
        assert happened.message_ordinal is None or happened.message_ordinal < len(session.messages)


def test_a_log_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "compaction.jsonl").read_bytes()
    for size in range(0, len(data), 3):
        for session in gemini.parse(records(data[:size]), CHAT):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["content", "toolCalls", "$set", "messages", "args", "result", "thoughts", "history"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    inner = b'{"id": "m", "type": "gemini", "toolCalls": [{"id": "c", "name": "x", "%s": %s}]}' % (field.encode(), deep)
    gemini.parse([Record(b'{"%s": %s}' % (field.encode(), deep), 0), Record(inner, 0)], CHAT)
    nested = b'{"$set": {"messages": [' * 300 + b"]}}" * 300
    gemini.parse([Record(nested, 0)], CHAT)


# --- whose log ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_its_own_logs_are_claimed(name: str) -> None:
    values = []
    data = (FIXTURES / name).read_bytes()
    for row in [data] if name.endswith(".json") else data.splitlines()[:50]:
        try:
            values.append(json.loads(row))
        except ValueError:
            continue
    assert gemini.sniff(Sample(tuple(values), is_document=name.endswith(".json")))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"general": {}, "mcpServers": {}}, id="Gemini's own settings"),
        pytest.param([{"sessionId": "s", "messageId": 0, "type": "user", "message": "hi"}], id="its list of prompts"),
        pytest.param({"session_id": "s", "response": "hi", "stats": {}}, id="what --output-format json prints"),
        pytest.param({"contents": [{"role": "user", "parts": []}]}, id="a request to Google's API"),
        pytest.param(
            {"uuid": "u", "sessionId": "s", "type": "user", "message": {"role": "user", "parts": []}}, id="Qwen"
        ),
        pytest.param({"uuid": "u", "sessionId": "s", "type": "user", "message": {"content": "hi"}}, id="Claude Code"),
        pytest.param({"type": "message", "role": "user", "content": "hi", "timestamp": "t"}, id="anybody's message"),
        pytest.param({"type": "system", "subtype": "init", "session_id": "s", "model": "m"}, id="a claude -p stream"),
        pytest.param({"type": "PLANNER_RESPONSE", "tool_calls": [], "source": "MODEL"}, id="Antigravity"),
        pytest.param({"messages": [{"role": "user", "content": "hi"}]}, id="a request body"),
        pytest.param("text", id="no object"),
    ],
)
def test_other_files_are_not(value: object) -> None:
    assert not gemini.sniff(Sample((value,), is_document=True))


def test_messages_of_its_own_type_tell_a_file_that_lost_its_name() -> None:
    said = [line("user", "hello", "u"), line("gemini", "Hi.", "g")]
    assert gemini.sniff(Sample(({"messages": said},), is_document=True))
    assert not gemini.sniff(Sample(({"messages": said[:1]},), is_document=True))
    assert not gemini.sniff(
        Sample(({"messages": [{"type": ["gemini"], "id": 1, "content": ""}, 7]},), is_document=True)
    )


def test_nothing_is_nobodys() -> None:
    assert not gemini.sniff(Sample())


# --- real logs ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus beside the project")
@pytest.mark.parametrize(
    "path", sorted(p for f in ("gemini", "gemini-stream") for p in (CORPUS / f).glob("*")), ids=str
)
def test_real_logs_are_read_without_a_loss(path: Path) -> None:
    if path.name.endswith("settings.json"):
        pytest.skip("no transcript")
    for session in gemini.parse(records(path.read_bytes()), Source(name=path.stem)):
        assert losses(session) == {}
        assert_well_formed(session)
        assert (
            session.ended is None or session.started is None or session.ended - session.started < timedelta(days=4000)
        )
