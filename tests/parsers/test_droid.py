"""Factory Droid: session files and streams. The T rows named in the ids are known mistakes: docs/formats/droid.md.

Expectations are worked out by hand from the lines of the fixtures in `droid/`, which are invented.
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
from tests.parsers.mutations import HUGE, junk, places, put
from tests.parsers.sessions import CORPUS, assert_well_formed, calls, losses, spoken, statuses

from demerit.model import Session, ToolCall
from demerit.parsers import droid
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "droid"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))

SESSION = "a31fbbb0-0922-4b2b-be85-000000000001"
PARENT = "a31fbbb0-0922-4b2b-be85-0000000000aa"
STREAM = "5f0e8d1c-0000-4000-8000-000000000001"


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


LOG = Source(name="log")


def read_bytes(data: bytes, source: Source = LOG, beside: bytes | None = None) -> Session:
    parts = [Record(beside, 0, "log.settings.json")] if beside is not None else []
    (session,) = droid.parse([*records(data), *parts], source)
    return session


def read(*lines: Any, source: Source = LOG) -> Session:
    return read_bytes(b"\n".join(json.dumps(line).encode() for line in lines), source)


def fixture(name: str) -> Session:
    beside = FIXTURES / f"{name}.settings.json"
    return read_bytes(
        (FIXTURES / f"{name}.jsonl").read_bytes(), beside=beside.read_bytes() if beside.exists() else None
    )


def rows_of(name: str) -> list[Any]:
    return [json.loads(row) for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]


HEADER = {"type": "session_start", "id": SESSION, "title": "t", "owner": "dev", "version": 2, "cwd": "/home/dev/shop"}


def said(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "timestamp": "2026-03-30T18:50:00Z",
        "message": {"role": role, "content": content},
    } | more


def streamed(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "session_id": STREAM, "timestamp": "2026-03-30T19:00:00Z", **more}


def judged(name: str, content: object, **flag: Any) -> ToolCall:
    """The call that a result of this content decides."""
    use = {"type": "tool_use", "id": "c", "name": name, "input": {"command": "make"}}
    (call,) = calls(
        read(
            HEADER,
            said("assistant", use),
            said("user", {"type": "tool_result", "tool_use_id": "c", "content": content, **flag}),
        )
    )
    return call


# --- one session, from end to end -------------------------------------------------------------------------


def test_a_plain_session_tells_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.title) == ("droid", SESSION, "Round half up")
    assert (session.cwd, session.agent_version) == ("/home/dev/shop", "0.105.1")
    assert session.started == datetime(2026, 3, 30, 18, 50, 1, tzinfo=UTC)
    assert session.ended == datetime(2026, 3, 30, 18, 50, 6, tzinfo=UTC)
    assert (session.relation, session.terminal, session.events, session.losses) == (None, False, (), ())


def test_results_are_no_messages_and_a_note_beside_the_prompt_is_left_out() -> None:
    session = fixture("plain")
    assert spoken(session) == [
        ("user", "human", "round half up in cart.py please"),
        ("assistant", "agent", "I will look at the rounding."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Rounding is half up now."),
    ]
    assert [(call.name, call.category, call.file_paths, call.exit_code) for call in calls(session)] == [
        ("Read", "read", ("/home/dev/shop/cart.py",), None),
        ("Execute", "shell", (), 0),
        ("Edit", "edit", ("/home/dev/shop/cart.py",), None),
    ]
    assert (session.messages[1].thinking_kind, session.messages[1].thinking_bytes) == ("signature", 200)


def test_t15_the_sum_of_the_tokens_stands_in_the_file_beside() -> None:
    (usage,) = fixture("plain").loose_usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens) == (12, 469, 143)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.key) == (80, 12, f"{SESSION}:total")
    assert read_bytes((FIXTURES / "plain.jsonl").read_bytes()).loose_usage == ()


def test_the_model_of_the_file_beside_is_told_where_no_message_names_one() -> None:
    beside = b'{"model": "claude-sonnet-4-5"}'
    named = fixture("plain")
    assert {message.model for message in named.messages[1:]} == {"claude-opus-4-6"}
    unnamed = read_bytes((FIXTURES / "compaction.jsonl").read_bytes(), beside=beside)
    assert unnamed.models == ("claude-sonnet-4-5",) and {message.model for message in unnamed.messages} == {None}
    assert named.models == ()


def test_the_first_prompt_is_no_title() -> None:
    assert fixture("tool_error").title is None  # "New Session"
    assert read(HEADER, said("user", {"type": "text", "text": "hello there"})).title is None


def test_bodies_are_left_out_when_nobody_wants_them() -> None:
    session = read_bytes((FIXTURES / "plain.jsonl").read_bytes(), Source(bodies=False, text_bytes=8))
    assert calls(session)[0].result is None and calls(session)[0].input_hash is not None
    assert session.messages[1].thinking == () and session.messages[1].thinking_bytes == 200
    assert [message.text for message in session.messages[:2]] == ["round half up in cart.py please", "I will l"]


def test_a_result_stays_at_its_place_in_the_log() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    body = calls(read_bytes(data))[0].result
    assert body is not None and body.offset is not None
    assert json.loads(data[body.offset : body.offset + body.bytes]) == "def total(): ..."


# --- how calls went ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "status", "code"),
    [
        pytest.param(0, "failed", None, id="an edit did not find its text"),
        pytest.param(1, "failed", 2, id="the text begins with the exit code"),
        pytest.param(2, "failed", 1, id="the text ends with the exit code, and the flag is false"),
        pytest.param(3, "cancelled", None, id="cancelled by the user"),
        pytest.param(4, "declined", None, id="the run has no permission"),
        pytest.param(5, "ok", None, id="T25: words in a file that was read decide nothing"),
        pytest.param(6, "unknown", None, id="an error without a flag"),
        pytest.param(7, "ok", None, id="no flag, and no error"),
        pytest.param(8, "pending", None, id="no result"),
    ],
)
def test_statuses(index: int, status: str, code: int | None) -> None:
    call = calls(fixture("tool_error"))[index]
    assert (call.status.value, call.exit_code) == (status, code)


@pytest.mark.parametrize(
    ("index", "status", "code"),
    [
        pytest.param(0, "benign", 1, id="T23: grep found nothing, the code before the output"),
        pytest.param(1, "benign", 1, id="T23: rg after cd, the code after the output"),
        pytest.param(2, "failed", 2, id="grep could not read its file"),
        pytest.param(3, "failed", 1, id="tests failed"),
    ],
)
def test_exit_1_that_only_says_nothing_found(index: int, status: str, code: int) -> None:
    call = calls(fixture("benign_exit"))[index]
    assert (call.status.value, call.exit_code, call.category) == (status, code, "shell")


@pytest.mark.parametrize(
    ("content", "flag", "status"),
    [
        pytest.param("it said [Process exited with code 1] and went on", False, "ok", id="the form inside the text"),
        pytest.param("a\nCommand failed (exit code: 1)", False, "ok", id="the form on a later line"),
        pytest.param([{"type": "text", "text": "x\n[Process exited with code 3]"}], True, "failed", id="parts"),
        pytest.param({"stdout": "", "exitCode": 0}, None, "ok", id="T24: exitCode 0"),
        pytest.param(None, None, "ok", id="an empty result"),
    ],
)
def test_what_decides(content: object, flag: bool | None, status: str) -> None:
    call = judged("Execute", content, **({} if flag is None else {"is_error": flag}))
    assert call.status.value == status


def test_the_first_of_two_results_stands_and_fills_every_copy_of_its_call() -> None:
    use = {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "a"}}
    results = [{"type": "tool_result", "tool_use_id": "c", "content": "", "is_error": flag} for flag in (False, True)]
    session = read(HEADER, said("assistant", use), said("assistant", use), said("user", *results))
    assert statuses(session) == ["ok", "ok"]


def test_the_reason_that_a_model_gives_for_a_command_makes_it_no_other_command() -> None:
    one, two, other = (
        calls(read(HEADER, said("assistant", {"type": "tool_use", "id": "c", "name": "Execute", "input": value})))[0]
        for value in (
            {"command": "make", "riskLevelReason": "builds", "riskLevel": "low"},
            {"command": "make", "riskLevelReason": "builds again", "riskLevel": "medium"},
            {"command": "make test", "riskLevelReason": "builds", "riskLevel": "low"},
        )
    )
    assert one.input_hash == two.input_hash != other.input_hash


@pytest.mark.parametrize(
    ("name", "category"),
    [
        pytest.param("Execute", "shell", id="Execute"),
        pytest.param("FetchUrl", "web", id="FetchUrl"),
        pytest.param("ExitSpecMode", "plan", id="ExitSpecMode"),
        pytest.param("AskUser", "question", id="AskUser"),
        pytest.param("Task", "agent", id="Task"),
        pytest.param("linear___list_issues", "other", id="a tool of a server"),
    ],
)
def test_categories(name: str, category: str) -> None:
    assert judged(name, "").category == category


# --- forks, sub-agents, compactions -----------------------------------------------------------------------


def test_t10_a_fork_counts_nothing_of_the_copy_that_it_begins_with() -> None:
    session = fixture("fork")
    assert (session.relation, session.parent_source_id) == ("fork", PARENT)
    assert [message.text for message in session.messages] == ["postgres", "Done with postgres."]
    assert calls(session) == [] and session.losses == ()
    assert session.started == datetime(2026, 3, 30, 18, 50, 3, tzinfo=UTC)


def test_a_session_with_a_parent_and_no_copies_continues_it() -> None:
    session = read(HEADER | {"parent": PARENT}, said("user", {"type": "text", "text": "hello there"}))
    assert (session.relation, session.parent_source_id) == ("continuation", PARENT)


def test_a_sub_agent_was_asked_by_an_agent() -> None:
    session = fixture("subagent")
    assert (session.relation, session.parent_source_id) == ("subagent", PARENT)
    assert spoken(session)[0] == ("user", "agent", "find the discount")


def test_a_compaction() -> None:
    session = fixture("compaction")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("compaction", 1)]
    assert (session.messages[2].role, session.messages[2].notice) == ("context", "compaction_summary")


# --- who wrote it -------------------------------------------------------------------------------------------


def test_who_wrote_what() -> None:
    texts = [(role, author, text[:22]) for role, author, text in spoken(fixture("who_wrote"))]
    assert texts == [
        ("context", "harness", "<system-reminder>\n\nUse"),
        ("user", "human", "add a tax"),  # a note before it
        ("context", "harness", "The plan was approved."),  # visibility llm_only
        ("context", "harness", "lint is clean"),  # of a hook
        ("user", "harness", "run the nightly check"),  # userMessageSource
        ("user", "human", "like this"),
        ("assistant", "agent", "Started."),
        ("context", "harness", ""),
    ]


def test_a_cancelled_turn_is_an_interrupt() -> None:
    session = fixture("who_wrote")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("interrupt", 6)]
    assert session.messages[-1].notice == "interrupt"


def test_t20_a_limit_that_the_user_is_told_of_ends_the_session() -> None:
    session = fixture("limit_end")
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("user", "human", None),
        ("assistant", "harness", "api_error"),
    ]
    assert session.messages[-1].text.startswith("Token limit reached.")


# --- the stream -----------------------------------------------------------------------------------------------


def test_lines_of_one_response_are_one_message_and_the_last_answer_counts_once() -> None:
    session = fixture("stream")
    assert (session.source_id, session.cwd, session.terminal) == (STREAM, "/home/dev/shop", True)
    assert spoken(session) == [
        ("user", "harness", "fix the build"),
        ("assistant", "agent", "I will build."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "The build is fixed."),
    ]
    assert [len(message.calls) for message in session.messages] == [0, 2, 1, 0]
    assert {message.model for message in session.messages[1:]} == {"claude-opus-4-6"}
    assert (session.messages[1].thinking_kind, session.messages[1].thinking_bytes) == ("text", 11)
    assert session.losses == ()


def test_calls_of_a_stream() -> None:
    assert [(call.status.value, call.exit_code) for call in calls(fixture("stream"))] == [
        ("failed", 2),  # the error's message has the code
        ("benign", 1),
        ("ok", None),
    ]


def test_the_last_line_of_a_stream_tells_the_tokens() -> None:
    (usage,) = fixture("stream").loose_usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens) == (50, 700, 90)
    assert (usage.output_tokens, usage.reasoning_tokens) == (30, 8)


def test_every_run_in_one_stream_counts_its_tokens() -> None:
    turn = [row | {"timestamp": "2026-03-30T19:01:00.000Z"} for row in rows_of("stream")[1:]]
    session = read(*rows_of("stream"), *turn)
    assert [usage.input_tokens for usage in session.loose_usage] == [50, 50]
    assert len({usage.key for usage in session.loose_usage}) == 2


def test_a_run_that_goes_on_has_not_ended() -> None:
    session = read(*rows_of("stream"), streamed("message", role="user", text="and now?"))
    assert not session.terminal


def test_an_older_stream_tells_exit_codes_in_objects() -> None:
    session = fixture("stream_old")
    assert [(call.status.value, call.exit_code) for call in calls(session)] == [("benign", 1)]
    assert spoken(session) == [("user", "harness", "say hi"), ("assistant", "agent", ""), ("assistant", "agent", "Hi.")]


def test_without_ids_what_follows_a_result_is_another_response() -> None:
    session = read(
        streamed("tool_call", toolCallId="a", toolName="Read", parameters={}),
        streamed("tool_call", toolCallId="b", toolName="Read", parameters={}),
        streamed("tool_result", toolCallId="a", value=""),
        streamed("tool_call", toolCallId="c", toolName="Read", parameters={}),
    )
    assert [len(message.calls) for message in session.messages] == [2, 1]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(streamed("error", source="agent_loop", message="402 payment required"), id="an error"),
        pytest.param(streamed("completion", finalText="402 payment required", isError=True), id="a failed end"),
    ],
)
def test_t20_an_error_of_the_service_ends_the_stream(row: dict[str, Any]) -> None:
    session = read(*rows_of("stream_error")[:2], row)
    assert (session.messages[-1].author, session.messages[-1].notice) == ("harness", "api_error")
    assert session.messages[-1].text == "402 payment required"
    assert [event.kind for event in session.events] == ["api_error"]


# --- logs that are drifted or broken ------------------------------------------------------------------------


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {
        "unknown_type": 1,
        "unknown_role": 1,
        "unknown_block": 1,
        "orphan_result": 1,
        "no_message": 1,
        "not_an_object": 1,
        "malformed_line": 1,
        "no_type": 1,
    }
    assert [message.text for message in session.messages] == ["hello there, what is new?", "Much."]


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1}
    assert statuses(session) == ["pending"] and len(session.messages) == 2


def test_a_source_without_records_has_no_session() -> None:
    assert droid.parse([], Source()) == []


def test_a_log_without_a_header_has_its_files_name() -> None:
    lone = said("user", {"type": "text", "text": "hello there"})
    assert read(lone, source=Source(name="log-7")).source_id == "log-7"


# --- hostile content ----------------------------------------------------------------------------------------

SOUND = [name for name in NAMES if name not in ("cut", "unknown_type", "fork")]
LINES = [row for name in NAMES for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
TEXT, NUMBER, OBJECT = (str,), (int,), (dict,)
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("timestamp",): (str, int, float),
    ("message",): (dict, str),
    ("version",): (str, int, float),
    ("isError",): (bool,),
    ("usage",): OBJECT,
    ("message", "content"): (str, list),
    ("message", "content", "is_error"): (bool,),
}
LINE = "type id visibility title sessionTitle cwd parent forkedAtMessageId callingSessionId summaryText reason"
STREAMED = "session_id role text model messageId toolName toolId toolCallId finalText"
READ.update({(name,): TEXT for name in f"{LINE} {STREAMED}".split()})
READ.update({("message", name): TEXT for name in "role modelId userMessageSource hookEventName".split()})
READ.update({("message", "content", name): TEXT for name in "type text signature id name tool_use_id".split()})
COUNTS = "input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens thinking_tokens"
READ.update({("usage", name): NUMBER for name in COUNTS.split()})
BESIDE: dict[tuple[str, ...], tuple[type, ...]] = {("model",): TEXT, ("tokenUsage",): OBJECT}
SUMS = "inputTokens outputTokens cacheCreationTokens cacheReadTokens thinkingTokens"
BESIDE.update({("tokenUsage", name): NUMBER for name in SUMS.split()})
WRONG = ("wrong_type", "bad_time")


def fits(value: object, wanted: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in wanted
    if isinstance(value, float) and int in wanted and value.is_integer():
        return True
    return value is None or isinstance(value, wanted) or value == HUGE


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    rows = rows_of(data.draw(st.sampled_from(SOUND)))
    index = data.draw(st.integers(0, len(rows) - 1))
    at = data.draw(st.sampled_from(sorted(places(rows[index]), key=repr)))
    new = data.draw(junk)
    before = losses(read(*rows))
    rows[index] = put(rows[index], at, new)
    session = read(*rows)
    assert_well_formed(session)
    after = losses(session)
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        assert sum(after.get(kind, 0) for kind in WRONG) > sum(before.get(kind, 0) for kind in WRONG), (at, new, after)


SETTINGS = json.loads((FIXTURES / "plain.settings.json").read_bytes())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(places(SETTINGS), key=repr)), junk)
def test_any_value_may_stand_in_the_file_beside(at: tuple[str | int, ...], new: object) -> None:
    session = read_bytes(b"", beside=json.dumps(put(SETTINGS, at, new)).encode())
    wanted = BESIDE.get(tuple(key for key in at if isinstance(key, str)))
    assert wanted is None or fits(new, wanted) or losses(session).get("wrong_type")


@settings(max_examples=60, deadline=None)
@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_and_twice_give_a_well_formed_session(lines: list[bytes], size: int) -> None:
    for data in (b"\n".join(lines[:size]), b"\n".join(lines[:size] * 2)):
        for session in droid.parse(records(data), Source()):
            assert_well_formed(session)


@pytest.mark.parametrize("name", ["who_wrote", "stream"])
def test_a_log_may_be_cut_at_any_byte(name: str) -> None:
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    for size in range(0, len(data), 7):
        for session in droid.parse(records(data[:size]), Source()):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["message", "timestamp", "type", "content", "value", "error", "parameters"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    inner = b'{"type": "message", "message": {"role": "user", "%s": %s}}' % (field.encode(), deep)
    call = b'{"type": "tool_call", "session_id": "s", "toolName": "Execute", "toolCallId": "c"}'
    result = b'{"type": "tool_result", "session_id": "s", "toolCallId": "c", "%s": %s}' % (field.encode(), deep)
    droid.parse([Record(inner, 0), Record(call, 0), Record(result, 0), Record(deep, 0, "x.settings.json")], Source())


# --- whose log ----------------------------------------------------------------------------------------------


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
def test_its_own_logs_are_claimed(name: str) -> None:
    assert droid.PARSER.one_line_tells and droid.sniff(Sample(first_values(FIXTURES / f"{name}.jsonl")))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(HEADER, id="the header"),
        pytest.param(streamed("system", model="m", reasoning_effort="high"), id="the stream's first line"),
        pytest.param(streamed("message", role="user", text="hi"), id="a text"),
        pytest.param(streamed("tool_call", toolName="Read"), id="a call"),
        pytest.param(streamed("completion", finalText=""), id="the stream's last line"),
    ],
)
def test_one_line_tells(value: object) -> None:
    assert droid.sniff(Sample((value,)))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"type": "system", "subtype": "init", "session_id": "s", "model": "m"}, id="claude -p"),
        pytest.param({"type": "assistant", "session_id": "s", "message": {"content": []}}, id="claude -p, a response"),
        pytest.param({"type": "result", "session_id": "s", "result": "text"}, id="claude -p, its end"),
        pytest.param({"type": "tool_call", "session_id": "s", "call_id": "c", "tool_call": {}}, id="Cursor's stream"),
        pytest.param({"type": "message", "role": "user", "content": "hi", "timestamp": "t"}, id="Gemini's stream"),
        pytest.param({"type": "tool_use", "tool_name": "read", "session_id": "s"}, id="Gemini's stream, a call"),
        pytest.param({"type": "user", "sessionId": "s", "uuid": "u", "message": {}}, id="Claude Code"),
        pytest.param({"type": "session", "id": "s", "timestamp": "t", "cwd": "/w"}, id="pi"),
        pytest.param({"type": "message", "id": "m", "message": {"role": "user", "content": []}}, id="pi or Droid"),
        pytest.param({"type": "session_start", "payload": {}}, id="somebody else's start"),
        pytest.param({"type": "session_start", "id": 3, "title": "t"}, id="an id that is no text"),
        pytest.param({"type": ["message"], "session_id": "s", "text": "hi"}, id="a type that is no text"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not droid.sniff(Sample((value,)))


# --- real logs, where they are at hand ----------------------------------------------------------------------

REAL = sorted((CORPUS / "droid").glob("*.jsonl")) if CORPUS.is_dir() else []
needs_corpus = pytest.mark.skipif(not REAL, reason="no corpus beside the repository")


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_log_is_read_without_losses(path: Path) -> None:
    session = read_bytes(path.read_bytes(), Source(name=path.stem))
    assert_well_formed(session)
    assert session.losses == () and session.messages[0].author == "human"


@needs_corpus
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        is_ours = path.parent.name == "droid" or "stream_json_" in path.name
        assert droid.sniff(Sample(first_values(path))) == is_ours, path
