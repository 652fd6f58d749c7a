"""Qwen Code's logs. The Q and T rows named in the ids are the mistakes known in the field.

Expectations are worked out by hand from the fixtures in `qwen/`, which are invented.
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
from tests.parsers.mutations import fits, junk, places, put
from tests.parsers.sessions import calls, losses, spoken, statuses

from demerit.model import Session, Usage
from demerit.parsers import qwen
from demerit.parsers.records import Record, Sample, Source
from demerit.quality import assess

FIXTURES = Path(__file__).parent / "qwen"
NAMES = sorted(path.name for path in FIXTURES.iterdir())
CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "transcripts" / "qwen"
SESSION = "0d3f7c1e-0000-4000-8000-000000000011"
PARENT = "aaaaaaaa-0000-4000-8000-000000000001"
NOW = datetime(2026, 5, 3, tzinfo=UTC)


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.splitlines(keepends=True):
        yield Record(line, offset)
        offset += len(line)


def fixture(name: str, source: Source | None = None) -> Session:
    (session,) = qwen.parse(records((FIXTURES / name).read_bytes()), source or Source(name=SESSION))
    return session


def read(*lines: dict[str, Any]) -> Session:
    (session,) = qwen.parse([Record(json.dumps(line).encode(), 0) for line in lines], Source(name=SESSION))
    return session


def line(kind: str, *parts: dict[str, Any], name: str = "u", **more: Any) -> dict[str, Any]:
    at = "2026-05-02T09:00:05Z"
    return {"uuid": name, "sessionId": SESSION, "timestamp": at, "type": kind, "message": {"parts": parts}, **more}


def usages(session: Session) -> list[Usage]:
    return [message.usage for message in session.messages if message.usage is not None]


# --- a session ---------------------------------------------------------------------------------------------


def test_a_plain_log_tells_who_where_and_when() -> None:
    session = fixture("plain.jsonl")
    assert (session.agent, session.source_id, session.title) == ("qwen-code", SESSION, "Round half up")
    assert (session.cwd, session.branch, session.agent_version) == ("/home/dev/shop", "main", "0.21.13")
    assert session.started == datetime(2026, 5, 2, 9, 0, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 5, 2, 9, 0, 40, tzinfo=UTC)
    assert (session.relation, session.parent_source_id, session.terminal) == (None, None, True)
    assert not (session.events or session.loose_usage or session.losses)


def test_a_prompt_is_what_was_displayed_and_a_notification_is_none() -> None:
    assert spoken(fixture("plain.jsonl")) == [
        ("user", "human", "round half up in @cart.py please"),
        ("assistant", "agent", "I will look first."),
        ("assistant", "agent", "Half up now."),
        ("context", "harness", "A background task is done."),
        ("user", "human", "and mind the tax rows"),
        ("assistant", "agent", "Minded."),
    ]


def test_calls_and_thoughts_belong_to_the_response() -> None:
    first = fixture("plain.jsonl").messages[1]
    assert [(call.name, call.category, call.status.value, call.exit_code) for call in first.calls] == [
        ("read_file", "read", "ok", None),
        ("run_shell_command", "shell", "failed", 2),
    ]
    assert (first.thinking_kind, first.thinking_bytes, first.model) == ("text", 23, "qwen3-coder-plus")
    assert first.calls[0].file_paths == ("/home/dev/shop/cart.py",)


def test_t5_tokens_once_and_cached_ones_inside_the_input() -> None:
    # The telemetry record repeats those of the first response.
    first, second, third = usages(fixture("plain.jsonl"))
    assert (first.input_tokens, first.cache_read_tokens) == (200, 700)
    assert (third.input_tokens, third.cache_read_tokens, third.reasoning_tokens) == (100, 1000, None)
    assert first.key == f"{SESSION}:q04" and second.key == f"{SESSION}:q07"


def test_t8_thoughts_are_inside_the_output_unless_the_total_says_beside() -> None:
    first, second, _ = usages(fixture("plain.jsonl"))
    assert (first.output_tokens, first.reasoning_tokens) == (25, 20)  # 900 + 25 = 925
    assert (second.output_tokens, second.reasoning_tokens) == (40, 10)  # 1000 + 30 + 10 = 1040


def test_thoughts_that_would_not_fit_into_the_output_are_beside_it() -> None:
    counts = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 8}
    (usage,) = usages(read(line("assistant", {"text": "hi"}, usageMetadata=counts)))
    assert (usage.output_tokens, usage.reasoning_tokens) == (13, 8)


def test_bodies_stay_at_their_place_in_the_file_or_are_left_out() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for call in calls(fixture("plain.jsonl")):
        for body in (call.input, call.result):
            assert body is not None and body.offset is not None
            value = json.loads(data[body.offset : body.offset + body.bytes])
            assert body.head == (value if isinstance(value, str) else data[body.offset :][: body.bytes].decode())
    lean = fixture("plain.jsonl", Source(name=SESSION, bodies=False, text_bytes=8))
    assert calls(lean)[0].result is None and calls(lean)[0].input_hash == calls(fixture("plain.jsonl"))[0].input_hash
    assert (lean.messages[1].text, lean.messages[0].text) == ("I will l", "round half up in @cart.py please")


def test_t2_records_of_one_uuid_are_one_response_and_a_replay_adds_nothing() -> None:
    session = fixture("split.jsonl")
    assert spoken(session)[1:] == [("assistant", "agent", "Looking."), ("assistant", "agent", "Found.")]
    first = session.messages[1]
    assert ([call.call_id for call in first.calls], first.thinking_bytes) == (["f1"], len("Reason first."))
    assert [usage.output_tokens for usage in usages(session)] == [4, 3]
    assert statuses(session) == ["ok"] and not session.losses


# --- how calls went ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_id", "status", "code"),
    [
        pytest.param("t1", "benign", 1, id="T23: grep that finds nothing, under a status error"),
        pytest.param("t2", "failed", 1, id="an exit code without a status"),
        pytest.param("t3", "failed", None, id="Q6: status error"),
        pytest.param("t4", "declined", None, id="permission was not given"),
        pytest.param("t5", "invalid", None, id="T50: arguments that do not fit are the model's mistake"),
        pytest.param("t6", "invalid", None, id="T50: an unknown tool is the model's mistake"),
        pytest.param("t7", "declined", None, id="a person said no"),
        pytest.param("t8", "cancelled", None, id="Q6: cancelled is no failure"),
        pytest.param("t9", "failed", None, id="a timeout under a success"),
        pytest.param("ta", "ok", 0, id="advice after the Exit Code line"),
        pytest.param("tb", "failed", None, id="a server's tool that answers with an error under a success"),
        pytest.param("tc", "ok", None, id="T35: error words in a file that was read"),
        pytest.param("td", "pending", None, id="no result"),
    ],
)
def test_the_status_of_a_call(call_id: str, status: str, code: int | None) -> None:
    (call,) = [call for call in calls(fixture("tool_error.jsonl")) if call.call_id == call_id]
    assert (call.status.value, call.exit_code) == (status, code)
    assert call.evidence


def test_waiting_again_is_no_repetition() -> None:
    first, second = [call for call in calls(fixture("tool_error.jsonl")) if call.name == "task_output"]
    assert first.input_hash != second.input_hash


def test_what_a_model_says_about_a_command_makes_no_other_of_it() -> None:
    def call(name: str, remark: str) -> dict[str, Any]:
        args = {"command": "pytest", "description": remark}
        return {"functionCall": {"id": name, "name": "run_shell_command", "args": args}}

    first, second = calls(read(line("assistant", call("a", "Runs the tests"), call("b", "Runs them again"))))
    assert first.input_hash == second.input_hash


def test_the_first_result_stands_and_a_result_without_an_id_goes_to_the_tool_of_its_name() -> None:
    made = line("assistant", {"functionCall": {"name": "edit", "args": {}}})
    failed = line("tool_result", {"functionResponse": {"name": "edit", "response": {"error": "no"}}}, name="r1")
    done = line("tool_result", {"functionResponse": {"name": "edit", "response": {"output": "yes"}}}, name="r2")
    session = read(made, failed, done)
    assert (statuses(session), losses(session)) == (["failed"], {"orphan_result": 1})


# --- forks, sub-agents, events -----------------------------------------------------------------------------


def test_t10_a_branch_leaves_out_what_its_parent_did() -> None:
    session = fixture("fork.jsonl")
    assert (session.relation, session.parent_source_id, session.title) == ("fork", PARENT, "Half up")
    assert [text for _, _, text in spoken(session)] == ["now do the same for the invoices", "Invoices too."]
    assert (calls(session), len(usages(session)), losses(session)) == ([], 1, {})
    assert session.started == datetime(2026, 5, 2, 9, 1, 40, tzinfo=UTC)


def test_a_subagent_names_its_session_and_an_agent_wrote_its_prompt() -> None:
    session = fixture("subagent.jsonl", Source(name="agent-explore-7f3c"))
    assert (session.source_id, session.relation, session.parent_source_id) == ("explore-7f3c", "subagent", SESSION)
    assert spoken(session) == [
        ("user", "agent", "Find out where prices are rounded."),
        ("assistant", "agent", "Searching."),
        ("assistant", "agent", "In cart.py, line 3."),
    ]
    assert [(call.status.value, call.exit_code) for call in session.messages[1].calls] == [("ok", None), ("failed", 1)]
    assert not any(message.sidechain for message in session.messages)


def test_q27_what_happened_and_an_interrupt_that_ends_the_session() -> None:
    session = fixture("compaction.jsonl")
    assert [(event.kind, event.detail) for event in session.events] == [
        ("compaction", "90000 to 9000 tokens"),  # the second one did not succeed
        ("rewind", ""),
        ("api_error", "Connection error."),
        ("interrupt", ""),
    ]
    assert [usage.context_tokens for usage in usages(session)] == [90_000, 9_000]
    report = assess(session, NOW)
    assert (report.ending, report.outcome.value) == ("interrupted", "abandoned")


def test_q22_an_api_error_that_ends_the_session_is_told() -> None:
    session = fixture("api_error.jsonl")
    assert (session.relation, session.parent_source_id) == ("subagent", PARENT)
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("user", "agent", None),
        ("assistant", "harness", "api_error"),
    ]
    assert assess(session, NOW).ending == "api_error"


def test_a_session_that_goes_on_after_quit_has_not_ended() -> None:
    def command(text: str, name: str) -> dict[str, Any]:
        row = line("system", name=name, subtype="slash_command")
        return {**row, "systemPayload": {"phase": "invocation", "rawCommand": text}}

    assert read(line("user", {"text": "hi"}), command("/quit", "q")).terminal
    assert not read(command("/quit", "q"), line("user", {"text": "hi"})).terminal
    assert not read(line("user", {"text": "hi"}), command("/quitter", "q")).terminal


@pytest.mark.parametrize("subtype", ["notification", "cron", "goal_runtime"])
def test_what_the_program_says_as_the_user_is_context(subtype: str) -> None:
    assert spoken(read(line("user", {"text": "Time is up."}, subtype=subtype))) == [
        ("context", "harness", "Time is up.")
    ]


# --- what is not understood --------------------------------------------------------------------------------


def test_two_records_on_one_line_are_both_read() -> None:
    session = fixture("fused.jsonl")
    assert spoken(session) == [
        ("user", "human", 'Inspect {"glued": "objects"} safely.'),
        ("assistant", "agent", "Both were read."),
    ]
    assert losses(session) == {"fused_line": 1}


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type.jsonl")
    assert losses(session) == {"unknown_type": 2, "orphan_result": 1, "not_an_object": 1}
    assert [text for _, _, text in spoken(session)] == ["round half up in cart.py please", "Done."]


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("cut.jsonl")
    assert (losses(session), statuses(session)) == ({"malformed_line": 1}, ["pending"])


def test_a_source_without_records_has_no_session() -> None:
    assert qwen.parse([], Source()) == []


# --- hostile content ---------------------------------------------------------------------------------------

ROWS = {
    name: [json.loads(row) for row in (FIXTURES / name).read_bytes().splitlines()]
    for name in NAMES
    if name not in ("cut.jsonl", "fused.jsonl", "unknown_type.jsonl")
}

# Fields that are read, by their place (`*` is any index), with the JSON types they may have. Null is absence.
PART = "message.parts.*"
READ: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("uuid", "sessionId", "type", "subtype", "cwd", "version", "gitBranch", "model"), (str,)),
    **dict.fromkeys(("agentId", "toolCallResult.callId", "toolCallResult.status", f"{PART}.text"), (str,)),
    **dict.fromkeys(("message", "usageMetadata", "toolCallResult", "systemPayload", "forkedFrom", PART), (dict,)),
    **dict.fromkeys((f"{PART}.functionCall", f"{PART}.functionCall.args", f"{PART}.functionResponse"), (dict,)),
    **dict.fromkeys(("usageMetadata.promptTokenCount", "usageMetadata.cachedContentTokenCount"), (int,)),
    "systemPayload.info.compressionStatus": (int, str),
    "message.parts": (list,),
    "isSidechain": (bool,),
    f"{PART}.thought": (bool,),
    "timestamp": (str, int, float),
}
# Not read where a record is a copy of one before it, or of the parent's.
ONCE = ("timestamp", "args")
WRONG = ("wrong_type", "bad_time", "unknown_type")


def parsed(rows: list[Any]) -> list[Session]:
    return qwen.parse([Record(json.dumps(row).encode(), 0) for row in rows], Source(name=SESSION))


def wrong(sessions: list[Session]) -> int:
    return sum(loss.count for session in sessions for loss in session.losses if loss.kind in WRONG)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    rows = ROWS[data.draw(st.sampled_from(sorted(ROWS)))]
    index = data.draw(st.integers(0, len(rows) - 1))
    at = data.draw(st.sampled_from(sorted(places(rows[index]), key=repr)))
    new = data.draw(junk)
    after = parsed([*rows[:index], put(rows[index], at, new), *rows[index + 1 :]])
    for session in after:
        assert_well_formed(session)
    is_copy = "forkedFrom" in rows[index] or any(row["uuid"] == rows[index]["uuid"] for row in rows[:index])
    if is_copy and at[-1] in ONCE:
        return
    wanted = READ.get(".".join("*" if isinstance(key, int) else key for key in at))
    if wanted is not None and not fits(new, wanted):
        assert wrong(after) > 0, (at, new)


@settings(max_examples=40, deadline=None)
@given(st.permutations([row for rows in ROWS.values() for row in rows]), st.integers(0, 80))
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
    data = (FIXTURES / "split.jsonl").read_bytes()
    for size in range(0, len(data), 3):
        for session in qwen.parse(records(data[:size]), Source(name="s")):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["message", "systemPayload", "toolCallResult", "usageMetadata", "forkedFrom"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    objects = b'{"message":' * 5_000 + b"1" + b"}" * 5_000
    for value in (deep, objects, b'{"parts": [{"functionCall": {"args": %s}}]}' % deep):
        head = b'{"uuid": "u", "sessionId": "s", "type": "assistant", "%s": ' % field.encode()
        qwen.parse([Record(head + value + b"}", 0)], Source())


# --- whose log ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_its_own_logs_are_claimed(name: str) -> None:
    text = (FIXTURES / name).read_text()
    values = []
    for row in text.splitlines()[:50]:
        try:
            values.append(json.loads(row))
        except ValueError:
            continue
    assert qwen.sniff(Sample(tuple(values), text=text[:4096]))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"uuid": "u", "sessionId": "s", "type": "user", "message": {"content": "hi"}}, id="Claude Code"),
        pytest.param(
            {"uuid": "u", "sessionId": "s", "type": "system", "subtype": "local_command"}, id="Claude Code's system"
        ),
        pytest.param({"sessionId": "s", "projectHash": "p", "startTime": "t"}, id="Gemini CLI's first line"),
        pytest.param({"id": "m", "type": "gemini", "content": "hi", "timestamp": "t"}, id="Gemini CLI's message"),
        pytest.param({"role": "user", "parts": [{"text": "hi"}]}, id="a message of Google's API"),
        pytest.param({"type": "system", "subtype": "init", "session_id": "s", "uuid": "u"}, id="a stream"),
        pytest.param({"sessionId": "s", "uuid": "u", "type": "user", "message": "text"}, id="another message"),
        pytest.param(["uuid", "sessionId"], id="no object"),
    ],
)
def test_other_files_are_not(value: object) -> None:
    assert not qwen.sniff(Sample((value,), text=json.dumps(value)))


def test_nothing_is_nobodys() -> None:
    assert not qwen.sniff(Sample())


# --- logs beside the project ---------------------------------------------------------------------------------


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus beside the project")
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*")), ids=str)
def test_logs_of_the_corpus_are_read(path: Path) -> None:
    (session,) = qwen.parse(records(path.read_bytes()), Source(name=path.stem))
    assert_well_formed(session)
    assert set(losses(session)) <= {"fused_line"}  # one is there to be one
