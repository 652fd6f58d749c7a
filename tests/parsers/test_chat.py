"""Message lists. The expectations follow from docs/formats/chat.md, not from what the parser gave."""

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

from demerit.model import CallStatus, Session, ToolCall, Usage
from demerit.parsers.chat import parse, parse_messages, sniff
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "chat"
NAMES = sorted(path.name for path in FIXTURES.iterdir())
AT = datetime(2026, 5, 2, 9, 0, tzinfo=UTC)


def records_of(name: str) -> list[Record]:
    data = (FIXTURES / name).read_bytes()
    if name.endswith(".json"):
        return [Record(data, 0)]
    found = []
    offset = 0
    for line in data.splitlines(keepends=True):
        found.append(Record(line, offset))
        offset += len(line)
    return found


def sessions_of(name: str) -> list[Session]:
    return parse(records_of(name), Source(name.partition(".")[0], modified=AT))


def session_of(name: str) -> Session:
    (session,) = sessions_of(name)
    return session


def from_value(value: Any) -> Session:
    (session,) = parse([Record(json.dumps(value).encode(), 0)], Source())
    return session


def calls_of(session: Session) -> list[ToolCall]:
    return [call for message in session.messages for call in message.calls]


def judged(session: Session) -> list[tuple[str, str, str]]:
    return [(call.name, call.status.value, call.evidence) for call in calls_of(session)]


def roles(session: Session) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in session.messages]


def losses_of(session: Session) -> dict[str, int]:
    return {loss.kind: loss.count for loss in session.losses}


def called(*arguments: str, result: dict[str, Any] | None = None, tools: Any = None, name: str = "f") -> Session:
    """A request with one assistant message that calls a tool once per text of arguments."""
    calls = [
        {"id": f"c{index}", "type": "function", "function": {"name": name, "arguments": text}}
        for index, text in enumerate(arguments)
    ]
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": None, "tool_calls": calls}]
    if result is not None:
        messages.append({"role": "tool", "tool_call_id": "c0", "content": "done", **result})
    return from_value({"messages": messages, **({"tools": tools} if tools is not None else {})})


def use(id_: str, name: str = "Bash", **input_: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id_, "name": name, "input": input_}]}


def gave(id_: str, content: Any = "out", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": content, **more}]}


# --- whole files ------------------------------------------------------------------------------------------


def test_an_openai_list_is_read_whole() -> None:
    session = session_of("openai_tools.json")
    assert session.agent == "chat"
    assert session.source_id == "openai_tools"
    assert session.modified == AT
    assert session.started is None
    assert not session.terminal
    assert roles(session) == [
        ("system", "harness", "You mend small programs."),
        ("user", "human", "Round the cart total in cart.py half up."),
        ("assistant", "agent", "I read the file first."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "The total rounds half up now."),
    ]
    assert judged(session) == [
        ("read_file", "unknown", "no status in the log"),
        ("bash", "benign", "exit_code 1 of grep"),
        ("edit_file", "ok", "status success"),
    ]
    read, search, edit = calls_of(session)
    assert (read.category, read.file_paths, read.message_ordinal, read.index) == ("read", ("cart.py",), 2, 0)
    assert (search.category, search.exit_code, search.message_ordinal, search.index) == ("shell", 1, 2, 1)
    assert (edit.category, edit.file_paths, edit.message_ordinal, edit.index) == ("edit", ("cart.py",), 3, 0)
    assert edit.result is not None
    assert edit.result.head == "done"
    assert session.losses == ()


def test_reasoning_of_an_openai_list_is_thinking_and_no_text() -> None:
    messages = session_of("openai_tools.json").messages
    assert (messages[3].thinking_bytes, messages[3].thinking_kind) == (len("Only one place."), "text")
    assert [body.head for body in messages[4].thinking] == ["All is well."]
    assert messages[4].thinking_bytes == len("All is well.")
    assert messages[2].thinking_kind is None


def test_an_anthropic_request_is_read_whole() -> None:
    session = session_of("anthropic_tools.json")
    assert roles(session) == [
        ("system", "harness", "You mend small programs."),
        ("user", "human", "Why does the cart test fail?"),
        ("assistant", "agent", "I look at it."),
        ("assistant", "agent", "It rounds half to even."),
    ]
    assert judged(session) == [
        ("Read", "ok", "no is_error, where other results carry it"),
        ("Bash", "failed", "is_error true"),
        ("Edit", "invalid", "text: InputValidationError: Edit failed: old_string is missing"),
        ("Write", "invalid", "no tool of this name in the request"),
        ("Bash", "declined", "text: the user said no"),
        ("web_search", "ok", "web_search_tool_result without an error"),
        ("web_search", "failed", "error_code max_uses_exceeded"),
    ]
    assert {message.model for message in session.messages} == {None, "claude-test-1"}
    first, second = session.messages[2:]
    assert (first.thinking_bytes, first.thinking_kind) == (len("c2VhbGVkLXRob3VnaHRz"), "signature")
    assert first.thinking[0].head == "The test first."
    assert (second.thinking_bytes, second.thinking_kind) == (len("b3BhcXVl"), "signature")
    assert session.losses == ()


def test_one_message_a_line_is_one_conversation_with_times_and_usage() -> None:
    session = session_of("messages.jsonl")
    assert [message.text for message in session.messages] == [
        "List the open orders.",
        "Which shop?",
        "The one in Bern.",
    ]
    assert [message.at for message in session.messages] == [
        AT,
        AT.replace(second=5),
        AT.replace(second=10),
    ]
    assert (session.started, session.ended) == (AT, AT.replace(second=10))
    assert session.messages[1].model == "gpt-test"
    assert session.messages[1].usage == Usage(60, 40, 0, 0, 20, 12)
    assert losses_of(session) == {"malformed_line": 1}
    assert session.losses[0].first_offset == records_of("messages.jsonl")[2].offset


def test_each_line_with_a_conversation_is_a_session_of_its_own() -> None:
    sessions = sessions_of("conversations.jsonl")
    assert [session.source_id for session in sessions] == [f"conversations#{line}" for line in (1, 2, 3)]
    assert [[message.text for message in session.messages] for session in sessions] == [
        ["one", "1"],
        ["two", "2"],
        ["three"],
    ]
    assert [session.messages[-1].model for session in sessions] == ["m-1", "m-2", None]
    assert [losses_of(session) for session in sessions] == [{}, {"not_an_object": 1}, {}]


def test_a_chat_completion_is_one_message_with_its_usage() -> None:
    session = session_of("completion.json")
    (message,) = session.messages
    assert (message.role, message.model, message.stop_reason) == ("assistant", "gpt-test-2026", "tool_calls")
    assert message.at == AT.replace(second=5)
    # The total is 526 + 27 + 72: this server counts reasoning beside the output.
    assert message.usage == Usage(14, 512, 0, 0, 99, 72, "chatcmpl-8f1c22aa90b1")
    assert judged(session) == [("weather", "unknown", "one response alone holds no results")]
    assert losses_of(session) == {"unused_choice": 1}


def test_an_anthropic_response_is_one_message_with_its_usage() -> None:
    (message,) = session_of("anthropic_response.json").messages
    assert (message.text, message.model, message.stop_reason) == ("Half up it is.", "claude-test-1", "tool_use")
    assert message.usage == Usage(6, 14000, 100, 800, 41, None, "msg_01InventedForTests")
    assert message.usage.context_tokens == 14906
    assert [(call.name, call.status, call.file_paths) for call in message.calls] == [
        ("Edit", CallStatus.UNKNOWN, ("cart.py",))
    ]


def test_items_of_one_response_are_one_message() -> None:
    session = session_of("responses_input.json")
    assert roles(session) == [
        ("system", "harness", "You mend small programs."),
        ("user", "human", "Mend cart.py."),
        ("assistant", "agent", ""),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Mended."),
    ]
    assert judged(session) == [
        ("shell", "unknown", "no status in the log"),
        ("web_search_call", "ok", "status completed"),
        ("apply_patch", "unknown", "no status in the log"),
    ]
    assert calls_of(session)[2].file_paths == ("cart.py", "basket.py")
    thought = session.messages[2]
    assert (thought.thinking_bytes, thought.thinking_kind) == (len("gAAAAAinvented"), "ciphertext")
    assert thought.thinking[0].head == "Search first."
    assert session.losses == ()


def test_a_response_of_the_responses_api_is_one_message_with_its_usage() -> None:
    (message,) = session_of("responses_response.json").messages
    assert message.text == "Sure."
    assert [call.name for call in message.calls] == ["shell"]
    assert message.usage == Usage(70, 30, 0, 0, 20, 12, "resp_0d44284ff704da0c")
    assert message.at == AT.replace(second=5)
    assert message.thinking_kind is None


def test_function_calls_without_ids_find_their_results_by_name() -> None:
    session = session_of("legacy_functions.json")
    assert judged(session) == [
        ("add", "unknown", "no status in the log"),
        ("divide", "invalid", "arguments are no JSON object"),
        ("multiply", "invalid", "no tool of this name in the request"),
    ]
    heads = [call.result.head if call.result else None for call in calls_of(session)]
    assert heads == ["5", "bad input", None]
    assert session.losses == ()


def test_what_a_harness_put_in_is_no_prompt() -> None:
    session = session_of("harness_texts.json")
    assert [(m.role, m.author, m.notice, m.has_image) for m in session.messages] == [
        ("context", "harness", "compaction_summary", False),
        ("context", "harness", None, False),
        ("user", "human", None, False),
        ("assistant", "agent", None, False),
        ("context", "harness", "interrupt", False),
        ("user", "human", None, True),
        ("context", "harness", "compaction_summary", False),
        ("user", "human", None, True),
    ]
    assert session.messages[2].text == "Now the basket."
    assert session.messages[5].text == "Not that one."
    assert judged(session) == [("Bash", "cancelled", "text: [Request interrupted by user for tool use]")]
    assert [(event.kind, event.message_ordinal) for event in session.events] == [
        ("compaction", None),
        ("interrupt", 3),
        ("interrupt", 4),
        ("compaction", 5),
    ]


# --- statuses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status", "evidence"),
    [
        pytest.param({}, "unknown", "no status in the log", id="a plain tool message tells nothing"),
        pytest.param({"content": "Error: boom"}, "unknown", "no status in the log", id="words decide nothing"),
        pytest.param({"is_error": True}, "failed", "is_error true", id="a true error flag is a failure"),
        pytest.param({"is_error": False}, "ok", "is_error false", id="a false error flag is a success"),
        pytest.param({"status": "error"}, "failed", "status error", id="status error is a failure"),
        pytest.param({"status": "success"}, "ok", "status success", id="status success is a success"),
        pytest.param(
            {"status": "completed"}, "unknown", "no status in the log", id="completed says only that it ended"
        ),
        pytest.param({"error": True}, "failed", "error field", id="error true is a failure"),
        pytest.param({"error": False}, "ok", "error false", id="error false is a success"),
        pytest.param({"error": "no such file"}, "failed", "error field", id="a filled error field is a failure"),
        pytest.param({"error": {"code": 1}, "status": "ok"}, "failed", "error field", id="an error outranks a status"),
        pytest.param({"error": None}, "unknown", "no status in the log", id="an empty error field tells nothing"),
        pytest.param({"exit_code": 0}, "ok", "exit_code 0", id="exit code 0 is a success"),
        pytest.param({"exitCode": 2}, "failed", "exit_code 2", id="the other spelling of the exit code counts"),
        pytest.param({"is_error": "yes"}, "unknown", "no status in the log", id="a flag of a wrong type is none"),
    ],
)
def test_only_fields_decide_how_a_tool_message_went(fields: dict[str, Any], status: str, evidence: str) -> None:
    assert judged(called("{}", result=fields)) == [("f", status, evidence)]


@pytest.mark.parametrize(
    ("text", "is_invalid"),
    [
        pytest.param('{"a": 1}', False, id="an object is valid"),
        pytest.param("", False, id="no text is a call without arguments"),
        pytest.param("  \n", False, id="a blank text is a call without arguments"),
        pytest.param('{"a": "\\ud800"}', False, id="half a surrogate pair is still JSON"),
        pytest.param('{"a": ' + "1" * 6000 + "}", False, id="a number of any size is still JSON"),
        pytest.param('{"a": ' + "[" * 9000 + "]" * 9000 + "}", False, id="depth is no fault of the model's"),
        pytest.param('{"a": 1', True, id="a cut object is invalid"),
        pytest.param("[1]", True, id="a list is invalid"),
        pytest.param('"x"', True, id="a string in the string is invalid"),
        pytest.param("{'a': 1}", True, id="single quotes are invalid"),
        pytest.param('{"a": 1} done', True, id="trailing prose is invalid"),
    ],
)
@pytest.mark.parametrize("result", [None, {"is_error": False}], ids=["open", "answered"])
def test_arguments_must_be_a_json_object(text: str, is_invalid: bool, result: dict[str, Any] | None) -> None:
    (call,) = calls_of(called(text, result=result))
    assert (call.status is CallStatus.INVALID) == is_invalid
    assert call.input_hash is not None
    if is_invalid:
        assert call.evidence == "arguments are no JSON object"


@pytest.mark.parametrize(
    ("tools", "is_invalid"),
    [
        pytest.param(None, False, id="no tools in the request, no judgement"),
        pytest.param([], False, id="an empty list of tools is none"),
        pytest.param([{"type": "function", "function": {"name": "f"}}], False, id="OpenAI's spelling names it"),
        pytest.param([{"name": "f", "input_schema": {}}], False, id="Anthropic's spelling names it"),
        pytest.param([{"type": "function", "function": {"name": "g"}}], True, id="another tool only"),
        pytest.param([{"name": "g"}, {"type": "mcp"}], False, id="a tool without a name leaves the list open"),
        pytest.param("f", False, id="tools of a wrong type are none"),
    ],
)
def test_a_call_of_a_tool_that_the_request_does_not_name_is_invalid(tools: Any, is_invalid: bool) -> None:
    (call,) = calls_of(called("{}", tools=tools, result={"is_error": False}))
    assert (call.status is CallStatus.INVALID) == is_invalid


def test_equal_arguments_have_equal_hashes_whatever_the_order_of_keys() -> None:
    one, two, other = calls_of(called('{"a": 1, "b": 2}', '{"b":2,"a":1}', '{"a": 1, "b": 3}'))
    assert one.input_hash == two.input_hash != other.input_hash


def test_arguments_as_text_and_as_an_object_have_equal_hashes() -> None:
    flat = {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "args": {"a": 1}}]}
    (call,) = calls_of(from_value([flat]))
    assert call.input_hash == calls_of(called('{"a": 1}'))[0].input_hash


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param("1 failed, 8 passed", "failed", id="an error is a failure"),
        pytest.param(
            "<tool_use_error>File does not exist.</tool_use_error>", "failed", id="a precondition is a failure"
        ),
        pytest.param(
            "<tool_use_error>Error: No such tool available: Foo</tool_use_error>",
            "invalid",
            id="an unknown tool is invalid",
        ),
        pytest.param(
            "<tool_use_error>Sibling tool call errored</tool_use_error>", "cancelled", id="a sibling's failure cancels"
        ),
        pytest.param("The user doesn't want to take this action right now.", "declined", id="a no declines"),
        pytest.param(
            "Claude requested permissions to use Bash, but you haven't granted it yet.",
            "declined",
            id="no permission declines",
        ),
        pytest.param(
            "log: The user doesn't want to proceed with this tool use",
            "failed",
            id="the form counts at the beginning only",
        ),
    ],
)
@pytest.mark.parametrize("as_blocks", [False, True], ids=["text", "blocks"])
def test_fixed_texts_say_more_than_an_error_flag(text: str, status: str, as_blocks: bool) -> None:
    content = [{"type": "text", "text": text}] if as_blocks else text
    session = from_value([use("a"), gave("a", content, is_error=True)])
    assert [call.status.value for call in calls_of(session)] == [status]


def test_fixed_texts_decide_nothing_without_the_error_flag() -> None:
    session = from_value([use("a"), gave("a", "The user doesn't want to proceed with this tool use", is_error=False)])
    assert judged(session) == [("Bash", "ok", "is_error false")]


def test_an_absent_error_flag_means_success_only_where_others_carry_it() -> None:
    messages = [use("a"), gave("a"), use("b"), gave("b")]
    assert [status for _, status, _ in judged(from_value(messages))] == ["unknown", "unknown"]
    messages[3]["content"][0]["is_error"] = True
    assert [status for _, status, _ in judged(from_value(messages))] == ["ok", "failed"]


# --- calls and their results ------------------------------------------------------------------------------


def test_a_result_fills_every_copy_of_its_call() -> None:
    session = from_value([use("a", x=1), use("a", x=1), gave("a", is_error=True)])
    assert [call.status.value for call in calls_of(session)] == ["failed", "failed"]
    assert all(call.result is not None for call in calls_of(session))


def test_ids_that_begin_anew_in_every_turn_keep_their_own_results() -> None:
    session = from_value(
        [use("0", x=1), gave("0", is_error=True), use("0", x=2), gave("0", is_error=False), use("0", x=3)]
    )
    assert [call.status.value for call in calls_of(session)] == ["failed", "ok", "pending"]


def test_an_open_call_does_not_take_the_result_of_a_later_turn() -> None:
    session = from_value([use("0", x=1), use("0", x=2), gave("0", is_error=False)])
    assert [call.status.value for call in calls_of(session)] == ["pending", "ok"]


def test_a_result_before_its_call_is_still_its_result() -> None:
    session = from_value([gave("a", is_error=True), use("a")])
    assert [call.status.value for call in calls_of(session)] == ["failed"]
    assert session.losses == ()


def test_a_result_without_a_call_is_an_orphan() -> None:
    session = from_value([gave("a"), {"role": "tool", "content": "x"}, {"role": "tool", "tool_call_id": "b"}])
    assert session.messages == ()
    assert losses_of(session) == {"orphan_result": 3}


def test_of_two_results_the_first_stands() -> None:
    session = from_value([use("a"), gave("a", is_error=False), gave("a", is_error=True)])
    assert judged(session) == [("Bash", "ok", "is_error false")]
    assert losses_of(session) == {"repeated_result": 1}


def test_results_without_ids_go_to_the_open_calls_in_order() -> None:
    calls: list[Any] = [{"function": {"name": name, "arguments": {}}} for name in ("f", "g")]
    session = from_value(
        [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "content": "1", "is_error": True},
            {"role": "tool", "content": "2", "is_error": False},
        ]
    )
    assert [(name, status) for name, status, _ in judged(session)] == [("f", "failed"), ("g", "ok")]


def test_a_call_in_an_unknown_spelling_is_a_loss_and_no_call() -> None:
    session = from_value([{"role": "assistant", "content": "", "tool_calls": [{"tool": "f", "output": "x"}]}])
    assert calls_of(session) == []
    assert losses_of(session) == {"unknown_call": 1}


# --- messages ---------------------------------------------------------------------------------------------


def test_every_message_of_a_plain_list_stays_its_own() -> None:
    entries = [{"role": role, "content": role} for role in ("developer", "user", "user", "assistant", "assistant")]
    assert roles(from_value(entries)) == [
        ("system", "harness", "developer"),
        ("user", "human", "user"),
        ("user", "human", "user"),
        ("assistant", "agent", "assistant"),
        ("assistant", "agent", "assistant"),
    ]


@pytest.mark.parametrize(
    ("content", "text", "thought"),
    [
        pytest.param("<think>a</think>b", "b", "a", id="think is reasoning"),
        pytest.param("\n<thinking>\na\n</thinking>\nb", "b", "a", id="blanks around do not matter"),
        pytest.param("<REASONING_SCRATCHPAD>a</REASONING_SCRATCHPAD>b", "b", "a", id="a scratchpad is reasoning"),
        pytest.param("b <think>a</think>", "b <think>a</think>", None, id="only at the beginning"),
        pytest.param("<think>a", "<think>a", None, id="without its end it stays"),
        pytest.param("<think></think>b", "b", None, id="empty reasoning is none"),
    ],
)
def test_reasoning_in_marks_is_no_text(content: str, text: str, thought: str | None) -> None:
    (message,) = from_value([{"role": "assistant", "content": content}]).messages
    assert message.text == text
    assert [body.head for body in message.thinking] == ([thought] if thought else [])
    assert message.thinking_kind == ("text" if thought else None)


def test_a_refusal_is_text() -> None:
    session = from_value(
        [
            {"role": "assistant", "content": None, "refusal": "I may not."},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "Nor this."}]},
        ]
    )
    assert [message.text for message in session.messages] == ["I may not.", "Nor this."]


def test_a_human_prompt_stays_whole_and_an_answer_is_cut() -> None:
    long = "é" * 10
    entries = [{"role": "user", "content": long}, {"role": "assistant", "content": long}]
    (session,) = parse([Record(json.dumps(entries).encode(), 0)], Source(text_bytes=7))
    assert [(message.text, message.text_bytes) for message in session.messages] == [(long, 20), ("é" * 3, 20)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("a <system-reminder>x</system-reminder> b", "a  b", id="a block in the middle goes"),
        pytest.param("<system-reminder>x", "<system-reminder>x", id="without its end it stays"),
        pytest.param("what is <system-reminder>?", "what is <system-reminder>?", id="a mention stays"),
        pytest.param(" a < b ", " a < b ", id="nothing to strip, nothing changed"),
    ],
)
def test_a_prompt_is_kept_without_its_wrappers(text: str, kept: str) -> None:
    assert roles(from_value([{"role": "user", "content": text}])) == [("user", "human", kept)]


def test_short_ids_tell_no_two_requests_apart() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    body = {"id": "chatcmpl-212", "choices": [{"message": {"role": "assistant", "content": "a"}}], "usage": usage}
    (message,) = from_value(body).messages
    assert message.usage == Usage(1, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param({"prompt_tokens": 100, "completion_tokens": 20}, Usage(100, 0, 0, 0, 20), id="no cache"),
        pytest.param(
            {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}},
            Usage(0, 9, 0, 0, 1),
            id="input is never negative",
        ),
        pytest.param(
            {"input_tokens": 7, "output_tokens": 1, "cache_creation_input_tokens": 5},
            Usage(7, 0, 5, 0, 1),
            id="writes without a lifetime are the short ones",
        ),
        pytest.param(
            {"prompt_tokens": -1, "completion_tokens": 3}, Usage(0, 0, 0, 0, 3), id="a bad count costs itself"
        ),
        pytest.param({"total_tokens": 5}, None, id="a total alone is no measurement"),
        pytest.param(None, None, id="null is no measurement"),
    ],
)
def test_usage_is_in_our_classes(usage: Any, expected: Usage | None) -> None:
    (message,) = from_value([{"role": "assistant", "content": "a", "usage": usage}]).messages
    assert message.usage == expected


def test_bodies_stand_where_they_say() -> None:
    for name in NAMES:
        data = (FIXTURES / name).read_bytes()
        for session in sessions_of(name):
            bodies = [body for call in calls_of(session) for body in (call.input, call.result) if body]
            bodies += [body for message in session.messages for body in message.thinking if body.offset is not None]
            for body in bodies:
                assert body.offset is not None
                value = json.loads(data[body.offset : body.offset + body.bytes])
                if isinstance(value, str):
                    assert value == body.head


def test_no_bodies_are_kept_when_none_are_asked_for() -> None:
    (session,) = parse(records_of("anthropic_tools.json"), Source(bodies=False))
    whole = session_of("anthropic_tools.json")
    assert all(call.input is None and call.result is None for call in calls_of(session))
    assert [call.input_hash for call in calls_of(session)] == [call.input_hash for call in calls_of(whole)]
    assert judged(session) == judged(whole)
    assert [m.thinking_bytes for m in session.messages] == [m.thinking_bytes for m in whole.messages]


# --- losses -----------------------------------------------------------------------------------------------


def test_what_is_not_understood_is_counted() -> None:
    session = from_value(
        [
            {"role": "user", "content": 5},
            {"role": "wizard", "content": "a"},
            {"content": "b"},
            {"type": "item_reference", "id": "x"},
            {"role": "assistant", "content": [{"type": "hologram"}, 7]},
            "c",
        ]
    )
    assert [message.role for message in session.messages] == ["user", "assistant"]
    assert losses_of(session) == {
        "wrong_type": 1,
        "unknown_role": 1,
        "not_a_message": 1,
        "unknown_type": 2,
        "not_an_object": 2,
    }


def test_half_a_surrogate_pair_costs_one_character() -> None:
    (session,) = parse([Record(b'[{"role": "user", "content": "a\\ud800b"}]', 0)], Source())
    assert session.messages[0].text == "a?b"


def test_losses_before_the_first_conversation_are_its_own() -> None:
    (session,) = parse([Record(b"%", 0), Record(b'{"role": "user", "content": "a"}', 2)], Source())
    assert losses_of(session) == {"malformed_line": 1}


def test_losses_after_the_last_conversation_are_its_own() -> None:
    body = b'{"messages": [{"role": "user", "content": "a"}]}'
    (session,) = parse([Record(body, 0), Record(b'{"messages": [', 50)], Source())
    assert losses_of(session) == {"malformed_line": 1}


def test_nothing_but_rubbish_gives_no_session() -> None:
    assert parse([Record(b"%", 0), Record(b"", 2)], Source()) == []


# --- lists in memory --------------------------------------------------------------------------------------


def test_a_list_in_memory_is_read_as_its_file_is() -> None:
    for name in ("openai_tools.json", "harness_texts.json"):
        messages = json.loads((FIXTURES / name).read_text())
        session = parse_messages(messages, Source(name.partition(".")[0]))
        written = session_of(name)
        assert roles(session) == roles(written)
        assert judged(session) == judged(written)
        assert [c.input_hash for c in calls_of(session)] == [c.input_hash for c in calls_of(written)]
        assert session.modified is None
        assert all(call.input is not None and call.input.offset is None for call in calls_of(session))


class Dumped:
    """Like a message object of an SDK."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_message_objects_of_the_sdks_are_read() -> None:
    session = parse_messages(
        [
            {"role": "user", "content": "a"},
            Dumped(
                role="assistant", content=None, tool_calls=[{"id": "1", "function": Dumped(name="f", arguments="{}")}]
            ),
            {"role": "assistant", "content": [Dumped(type="text", text="b")]},
        ],
        Source(),
    )
    assert [message.text for message in session.messages] == ["a", "", "b"]
    assert [call.name for call in calls_of(session)] == ["f"]
    assert session.losses == ()


def test_what_is_no_message_in_memory_is_counted() -> None:
    circle: list[Any] = []
    circle.append(circle)
    session = parse_messages([None, "a", 5, circle, Broken(), {"role": "user", "content": "b"}], Source())
    assert [message.text for message in session.messages] == ["b"]
    assert losses_of(session) == {"not_an_object": 5}


def test_odd_values_in_memory_cost_themselves() -> None:
    tools = [{"id": "1", "function": {"name": "f", "arguments": {"a": {1, 2}, "b": object(), ("c",): 1}}}]
    session = parse_messages(
        [
            {"role": "user", "content": "a\ud800", "timestamp": datetime(2026, 5, 2, 9, tzinfo=UTC)},
            {"role": "assistant", "content": float("nan"), "tool_calls": tools},
            {"role": "assistant", "content": "c", "usage": {"prompt_tokens": 10**400}},
        ],
        Source(),
    )
    assert [message.text for message in session.messages] == ["a?", "", "c"]
    assert [(call.name, call.status) for call in calls_of(session)] == [("f", CallStatus.PENDING)]


# --- whose it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_fixture_is_claimed(name: str) -> None:
    values = []
    for record in records_of(name):
        try:
            values.append(json.loads(record.data))
        except ValueError:
            continue
    assert sniff(Sample(tuple(values), name.endswith(".json")))


def test_each_example_of_the_documentation_is_claimed_and_gives_messages() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "chat.md").read_text()
    examples = [part.partition("```")[0] for part in page.split("```json\n")[1:]]
    assert len(examples) >= 6
    for example in examples:
        try:
            lines = [json.dumps(json.loads(example))]
        except ValueError:
            lines = example.splitlines()
        assert sniff(Sample(tuple(json.loads(line) for line in lines)))
        sessions = parse([Record(line.encode(), 0) for line in lines], Source())
        assert all(session.messages for session in sessions)
        assert all(not session.losses for session in sessions)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), id="nothing"),
        pytest.param(([],), id="an empty list"),
        pytest.param(({},), id="an empty object"),
        pytest.param(({"messages": []},), id="an empty conversation"),
        pytest.param((None, 5, "a"), id="no objects"),
        pytest.param(({"role": 5, "content": "a"},), id="a role that is no text"),
        pytest.param(({"role": "wizard", "content": "a"},), id="an unknown role"),
        pytest.param(({"type": "user", "message": {"role": "user", "content": "a"}},), id="Claude Code"),
        pytest.param(
            ({"timestamp": "t", "type": "response_item", "payload": {"role": "user", "content": []}},), id="Codex"
        ),
        pytest.param(({"role": "user", "message": {"content": [{"type": "text", "text": "a"}]}},), id="Cursor"),
        pytest.param(({"type": "message", "role": "user", "content": "a", "ts": "t"},), id="Gemini's stream"),
        pytest.param(({"sessionId": "s", "messages": [{"type": "user", "content": "a"}]},), id="Gemini"),
        pytest.param(({"history": [{"role": "user", "content": "a"}], "trajectory": []},), id="SWE-agent"),
        pytest.param(
            ({"info": {}, "messages": [{"role": "user", "content": "a"}], "trajectory_format": "x"},),
            id="mini-swe-agent",
        ),
        pytest.param(({"info": {}, "messages": [{"info": {"role": "user"}, "parts": []}]},), id="OpenCode"),
        pytest.param(({"id": "T-1", "messages": [{"role": "user", "messageId": 0, "content": []}]},), id="Amp"),
        pytest.param(({"role": "_system_prompt", "content": "a"}, {"role": "user", "content": "b"}), id="Kimi"),
        pytest.param(
            ({"producer": "hermes", "messages": [{"role": "user", "text": "a", "tool_results": []}]},), id="Hermes"
        ),
        pytest.param(([{"ts": 1, "type": "say", "say": "text", "text": "a"}],), id="Cline's interface"),
        pytest.param(([{"id": 0, "source": "user", "action": "message", "message": "a"}],), id="OpenHands"),
        pytest.param(({"role": "user", "parts": [{"text": "a"}]},), id="Gemini's contents"),
        pytest.param(({"role": "user", "content": "a", "schema_version": "x.v1"},), id="an agent's own transcript"),
        pytest.param(
            ({"messages": [{"role": "user", "content": "a"}], "context_window": 9, "response": {}},),
            id="OpenHands' log",
        ),
        pytest.param(({"f00d": {"input": {"data": [{"role": "user", "content": "a"}]}}},), id="a trace export"),
        pytest.param(
            ({"object": "chat.completion.chunk", "choices": [{"delta": {"role": "assistant"}}]},), id="a chunk"
        ),
        pytest.param(([{"role": "assistant", "content": [{"type": "tool-call", "toolName": "f"}]}],), id="another SDK"),
        pytest.param(({"role": "user", "content": "a"}, {"type": "init"}), id="lines of two kinds"),
    ],
)
def test_what_is_not_ours_is_not_claimed(values: tuple[Any, ...]) -> None:
    assert not sniff(Sample(values))


# --- nothing raises ---------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**18, 10**22)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["user", "assistant", "tool", "tool_use", "tool_result", "function_call", "t1", "{}", '{"a":'])
    | st.sampled_from(["<think>", "\ud800", "2026-05-02T09:00:00", "[Request interrupted by user]", "1" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value at every depth."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_of(item, (*path, key))


def values_of(name: str) -> list[Any]:
    found = []
    for record in records_of(name):
        try:
            found.append(json.loads(record.data))
        except ValueError:
            found.append("not json")
    return found


VALUES = {name: values_of(name) for name in NAMES}
PATHS = {name: [path for path in paths_of(values) if path] for name, values in VALUES.items()}


@st.composite
def damaged(draw: st.DrawFn) -> list[Any]:
    name = draw(st.sampled_from(NAMES))
    values: list[Any] = copy.deepcopy(VALUES[name])
    for path in draw(st.lists(st.sampled_from(PATHS[name]), min_size=1, max_size=3)):
        target: Any = values
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = draw(JSON)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    return values


def check(session: Session) -> None:
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]
        assert all(call.evidence for call in message.calls)
        assert (message.thinking_kind is None) == (message.thinking_bytes == 0)
        if message.usage is not None:
            assert min(message.usage.input_tokens, message.usage.cache_write_5m_tokens) >= 0
    assert all(loss.count > 0 for loss in session.losses)


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_no_value_at_any_depth_makes_it_raise(values: list[Any]) -> None:
    sniff(Sample(tuple(values)))
    data = [json.dumps(value).encode() for value in values]
    for session in parse([Record(line, 0) for line in data], Source()):
        check(session)
    entries = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    before = copy.deepcopy(entries)
    check(parse_messages(entries, Source()))
    assert json.dumps(entries) == json.dumps(before)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_no_damage_to_the_bytes_makes_it_raise(name: str, data: st.DataObject) -> None:
    records = records_of(name)
    whole = records[0].data
    at = data.draw(st.integers(0, len(whole)))
    piece = data.draw(st.binary(max_size=4))
    records[0] = Record(whole[:at] + piece + whole[at + data.draw(st.integers(0, 20)) :], 0)
    for session in parse(records, Source()):
        check(session)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="depth"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="depth of objects"),
        pytest.param(b"1" * 100_000, id="a long number"),
        pytest.param(b"1e999", id="a number out of range"),
        pytest.param(b"-" + b"9" * 30, id="a number past 64 bits"),
        pytest.param(b'"\\ud800"', id="half a surrogate pair"),
        pytest.param(b'"\xff"', id="a byte that is no UTF-8"),
        pytest.param(b"NaN", id="not a number"),
    ],
)
@pytest.mark.parametrize("key", ["content", "timestamp", "usage", "tool_calls", "is_error", "exit_code", "role"])
def test_extreme_values_cost_no_more_than_their_line(key: str, value: bytes) -> None:
    good = b'{"role": "user", "content": "a"}'
    bad = b'{"role": "tool", "tool_call_id": "x", "%s": %s}' % (key.encode(), value)
    (session,) = parse([Record(good, 0), Record(bad, 40), Record(good, 90)], Source())
    assert [message.text for message in session.messages] == ["a", "a"]
    for found in parse([Record(b"[%s, %s]" % (good, bad), 0)], Source()):
        check(found)


def test_many_calls_with_one_id_take_no_more_than_linear_time() -> None:
    many = 20_000
    calls = [{"id": "0", "function": {"name": "f", "arguments": f'{{"n": {n}}}'}} for n in range(many)]
    results = [{"role": "tool", "tool_call_id": "0", "content": "x", "is_error": False}] * many
    session = parse_messages([{"role": "assistant", "tool_calls": calls}, *results], Source())
    assert {call.status for call in calls_of(session)} == {CallStatus.OK}
    assert session.losses == ()
