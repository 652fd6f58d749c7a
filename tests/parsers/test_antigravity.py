"""Antigravity transcripts. The Q and T rows named in the ids are the mistakes known in the field.

Expectations are worked out by hand from the lines of the fixtures in `antigravity/`, which are invented.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import fits, junk, places, put
from tests.parsers.sessions import CORPUS, assert_well_formed, calls, losses, statuses

from demerit.model import Session
from demerit.parsers import antigravity
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "antigravity"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))

CONVERSATION = "c0ffee00-0000-4000-8000-000000000001"
TRANSCRIPT = Source(name="transcript")
OK = "The command completed successfully.\n\t\t\t\tOutput:\n"


def records(data: bytes, part: str = "") -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset, part)
        offset += len(line) + 1


def read_bytes(data: bytes, source: Source = TRANSCRIPT) -> Session:
    (session,) = antigravity.parse(records(data), source)
    return session


def read(*lines: dict[str, Any], source: Source = TRANSCRIPT) -> Session:
    return read_bytes(b"\n".join(json.dumps(line).encode() for line in lines), source)


def fixture(name: str) -> Session:
    return read_bytes((FIXTURES / f"{name}.jsonl").read_bytes())


def step(kind: str, content: Any = None, source: str = "MODEL", status: str = "DONE", **more: Any) -> dict[str, Any]:
    return {"step_index": 0, "source": source, "type": kind, "status": status, "content": content, **more}


def plan(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return step("PLANNER_RESPONSE", tool_calls=list(calls), **more)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": {key: json.dumps(value) for key, value in arguments.items()}}


def prompt(text: str, source: str = "USER_EXPLICIT") -> dict[str, Any]:
    return step("USER_INPUT", text, source)


def chosen(before: str, after: str) -> dict[str, Any]:
    return prompt(
        f"<USER_REQUEST>hi</USER_REQUEST>The user changed setting `Model Selection` from {before} to {after}."
    )


def said(session: Session) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in session.messages]


# --- one conversation, from end to end --------------------------------------------------------------------


def test_a_plain_conversation_tells_who_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id) == ("antigravity", "transcript")
    assert session.started == datetime(2026, 6, 14, 5, 0, 1, tzinfo=UTC)
    assert session.ended == datetime(2026, 6, 14, 5, 0, 12, tzinfo=UTC)
    assert (session.cwd, session.title, session.relation, session.terminal) == (None, None, None, False)
    assert not (session.losses or session.loose_usage)


def test_a_step_of_the_planner_is_a_response_and_a_result_is_no_message() -> None:
    assert said(fixture("plain")) == [
        ("user", "human", "Round the totals half up."),
        ("context", "harness", "# Conversation History\nNone."),
        ("assistant", "agent", ""),
        ("assistant", "agent", ""),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Done: it rounds half up."),
        ("user", "human", "Thanks. Now in Pro."),
        ("assistant", "agent", "Hello."),
    ]


def test_the_model_is_the_one_that_was_chosen_and_a_change_is_told() -> None:
    session = fixture("plain")
    models = [message.model for message in session.messages if message.author == "agent"]
    assert models == ["Gemini 3.5 Flash (Medium)"] * 4 + ["Gemini 3.5 Pro (High)"]
    assert [(event.kind, event.detail) for event in session.events] == [
        ("model_change", "Gemini 3.5 Flash (Medium) -> Gemini 3.5 Pro (High)")
    ]


def test_thinking_is_text_and_tokens_are_told_nowhere() -> None:
    session = fixture("plain")
    thought = session.messages[2]
    assert (thought.thinking_bytes, thought.thinking_kind, thought.thinking[0].head) == (11, "text", "Look first.")
    assert all(message.usage is None for message in session.messages)
    assert antigravity.PARSER.coverage.usage == "no"


def test_q19_q26_each_tool_has_its_category_and_the_files_that_it_names() -> None:
    assert [(call.name, call.category, call.file_paths) for call in calls(fixture("plain"))] == [
        ("view_file", "read", ("/home/dev/shop/total.py",)),
        ("replace_file_content", "edit", ("/home/dev/shop/total.py",)),
        ("run_command", "shell", ()),
    ]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("multi_replace_file_content", "edit"),
        ("write_to_file", "write"),
        ("find_by_name", "search"),
        ("list_dir", "search"),
        ("command_status", "shell"),
        ("read_url_content", "web"),
        ("browser_subagent", "agent"),
        ("call_mcp_tool", "mcp"),
        ("list_permissions", "other"),
    ],
)
def test_q26_a_tool_is_mapped(name: str, category: str) -> None:
    assert [call.category for call in calls(read(plan(call(name))))] == [category]


def test_q14_words_in_a_file_say_nothing_of_the_call() -> None:
    looked = calls(fixture("plain"))[0]
    assert looked.status == "ok" and looked.result is not None and "error: failed" in looked.result.head


def test_a_body_stands_in_the_log_where_it_says() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for made in calls(fixture("plain")):
        for body in (made.input, made.result):
            assert body is not None and body.offset is not None
            assert json.loads(data[body.offset : body.offset + body.bytes])


def test_what_a_call_is_called_for_the_reader_makes_no_other_call_of_it() -> None:
    made = calls(
        read(
            plan(call("run_command", CommandLine="make", toolAction="Building", toolSummary="Build")),
            plan(call("run_command", CommandLine="make", toolAction="Again", toolSummary="Build again")),
            plan(call("run_command", CommandLine="make check", toolAction="Building", toolSummary="Build")),
        )
    )
    assert made[0].input_hash == made[1].input_hash != made[2].input_hash


# --- how calls went ---------------------------------------------------------------------------------------


def test_q1_a_step_that_is_done_may_be_a_command_that_failed() -> None:
    session = fixture("tool_error")
    assert [(call.name, call.status.value, call.exit_code) for call in calls(session)] == [
        ("run_command", "failed", 1),
        ("list_dir", "failed", None),
        ("run_command", "benign", 1),
        ("run_command", "declined", None),
        ("list_dir", "declined", None),
        ("run_command", "unknown", None),
        ("run_command", "cancelled", None),
        ("search_web", "ok", None),
        ("view_file", "pending", None),
    ]
    assert [call.evidence for call in calls(session)][:4] == [
        "exit code 1 of pytest",
        "status ERROR: directory /home/dev/shop/none does not exist",
        "exit code 1 of grep",
        "status ERROR, text: permission denied",
    ]


def test_results_of_one_response_go_to_the_calls_that_they_fit() -> None:
    session = read(
        plan(call("view_file"), call("run_command", CommandLine="make")),
        step("RUN_COMMAND", "The command failed with exit code: 2\nOutput:\n"),
        step("VIEW_FILE", "1: x"),
    )
    assert statuses(session) == ["ok", "failed"]


def test_a_result_of_no_call_is_counted_and_an_older_call_does_not_take_it() -> None:
    session = read(
        plan(call("run_command", CommandLine="make")),
        plan(call("view_file")),
        step("VIEW_FILE", "1: x"),
        step("RUN_COMMAND", OK),
    )
    assert statuses(session) == ["pending", "ok"]
    assert losses(session) == {"orphan_result": 1}


def test_a_call_that_was_not_accepted_a_missing_file_is_a_failure_of_the_tool() -> None:
    session = fixture("broken_call")
    assert [(call.name, call.status.value) for call in calls(session)] == [
        ("view_file", "failed"),
        ("view_file", "invalid"),
        ("write_to_file", "declined"),
    ]
    assert not session.events
    assert session.messages[-1].role == "context"  # of an answer that held no call


def test_a_command_in_the_background_is_judged_by_the_message_of_its_end() -> None:
    session = fixture("background")
    assert session.source_id == CONVERSATION
    assert [(call.name, call.status.value, call.exit_code) for call in calls(session)[:4]] == [
        ("run_command", "ok", 0),
        ("run_command", "failed", 2),  # of two messages, the first stands
        ("run_command", "unknown", None),
        ("schedule", "ok", None),
    ]
    assert [message.author for message in session.messages[-4:]] == ["harness"] * 4


def test_q17_polls_are_no_repetitions_of_each_other() -> None:
    timer, first, second, kill = calls(fixture("background"))[3:]
    assert [call.is_poll for call in (timer, first, second, kill)] == [True, True, True, False]
    assert first.input_hash != second.input_hash


def test_a_result_that_is_written_again_when_it_ends() -> None:
    (built,) = calls(fixture("updated"))
    assert (built.status, built.exit_code) == ("ok", 0)
    assert built.result is not None and "completed" in built.result.head


def test_the_first_result_stands() -> None:
    session = read(
        plan(call("run_command", CommandLine="make")),
        step("RUN_COMMAND", OK),
        step("RUN_COMMAND", "The command failed with exit code: 1"),
    )
    assert statuses(session) == ["ok"] and losses(session) == {"orphan_result": 1}


# --- who wrote it -----------------------------------------------------------------------------------------


def test_t20_only_what_the_person_typed_is_a_prompt() -> None:
    session = fixture("who_wrote")
    assert [(role, author) for role, author, _ in said(session)] == [
        ("user", "human"),
        ("context", "harness"),
        ("context", "harness"),
        ("context", "harness"),
        ("user", "human"),
        ("user", "human"),
        ("context", "harness"),
    ]
    prompts = [text for role, _, text in said(session) if role == "user"]
    assert prompts == ["Mend it.", "Typed without a tag.", "A long text that was cut"]


def test_a_prompt_that_names_the_tag_is_whole() -> None:
    session = read(prompt("<USER_REQUEST>\nWhat does </USER_REQUEST> mean?\n</USER_REQUEST>\nmore"))
    assert session.messages[0].text == "What does </USER_REQUEST> mean?"


def test_a_model_without_a_name_is_none() -> None:
    assert read(plan()).messages[0].model is None
    assert read(chosen("None", "Gemini 3.5 Flash"), plan()).messages[1].model == "Gemini 3.5 Flash"


# --- compactions, interrupts, errors ----------------------------------------------------------------------


def test_t32_a_compaction_is_an_event_and_its_summary_no_prompt() -> None:
    session = fixture("compaction")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("compaction", 1)]
    assert [message.notice for message in session.messages] == [None, None, "compaction_summary", None]


def test_q22_an_error_of_the_service_ends_a_conversation() -> None:
    last = fixture("api_error").messages[-1]
    assert (last.role, last.author, last.notice) == ("assistant", "harness", "api_error")
    assert last.text == "Encountered retryable error from model provider: model unreachable"


def test_q27_an_answer_that_was_cancelled_ends_in_an_interrupt() -> None:
    session = fixture("interrupted")
    assert session.messages[-1].notice == "interrupt" and session.messages[-1].role == "context"
    assert [event.kind for event in session.events] == ["interrupt"]
    assert statuses(session) == ["pending"]


# --- lines that are not understood ------------------------------------------------------------------------


def test_a_cut_line_costs_itself_alone() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1}
    assert len(session.messages) == 3 and statuses(session) == ["pending"]


def test_what_is_not_known_is_counted() -> None:
    assert losses(fixture("unknown_type")) == {
        "unknown_type": 1,
        "no_type": 1,
        "call_without_name": 1,
        "wrong_type": 1,
        "orphan_result": 1,
    }


def test_the_shorter_form_beside_the_full_one_adds_nothing() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    (session,) = antigravity.parse([*records(data), *records(data, "transcript.jsonl")], TRANSCRIPT)
    assert session == fixture("plain")
    assert antigravity.PARSER.bundle == ("transcript_full.jsonl", ("transcript.jsonl",))


def test_a_source_without_records_has_no_session() -> None:
    assert antigravity.parse([], Source()) == []


def test_a_report_needs_no_bodies() -> None:
    session = read_bytes((FIXTURES / "plain.jsonl").read_bytes(), Source(bodies=False, text_bytes=4))
    assert session.messages[5].text == "Done" and session.messages[0].text == "Round the totals half up."
    assert all(call.input is None and call.result is None and call.input_hash for call in calls(session))


# --- hostile content --------------------------------------------------------------------------------------

LINES = [row for name in NAMES for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]
WHOLE = [
    [json.loads(row) for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]
    for name in NAMES
    if name not in ("cut", "unknown_type")
]

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("step_index",): (int,),
    ("source",): (str,),
    ("type",): (str,),
    ("status",): (str,),
    ("created_at",): (str, int, float),
    ("thinking",): (str,),
    ("error",): (str,),
    ("tool_calls",): (list,),
    ("tool_calls", "name"): (str,),
}


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    rows = list(data.draw(st.sampled_from(WHOLE)))
    index = data.draw(st.integers(0, len(rows) - 1))
    at = data.draw(st.sampled_from(sorted(places(rows[index]), key=repr)))
    new = data.draw(junk)
    rows[index] = put(rows[index], at, new)
    session = read(*rows)
    assert_well_formed(session)
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        counted = losses(session)
        assert counted.get("wrong_type", 0) + counted.get("bad_time", 0) > 0, (at, new)


@pytest.mark.parametrize("kind", ["USER_INPUT", "PLANNER_RESPONSE", "RUN_COMMAND", "SYSTEM_MESSAGE", "ERROR_MESSAGE"])
def test_a_content_that_is_no_text_is_counted(kind: str) -> None:
    source = "MODEL" if kind in ("PLANNER_RESPONSE", "RUN_COMMAND") else "SYSTEM"
    assert losses(read(plan(call("run_command")), step(kind, 7, source)))["wrong_type"] == 1


@settings(max_examples=60, deadline=None)
@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_and_twice_give_a_well_formed_session(lines: list[bytes], size: int) -> None:
    for data in (b"\n".join(lines[:size]), b"\n".join(lines[:size] * 2)):
        for session in antigravity.parse(records(data), Source()):
            assert_well_formed(session)


def test_a_transcript_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for size in range(0, len(data), 7):
        for session in antigravity.parse(records(data[:size]), Source()):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["content", "thinking", "tool_calls", "created_at", "type", "error", "args"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for kind in (b"USER_INPUT", b"PLANNER_RESPONSE", b"RUN_COMMAND"):
        row = b'{"type": "%s", "source": "MODEL", "%s": %s}' % (kind, field.encode(), deep)
        antigravity.parse([Record(row, 0), Record(b'{"tool_calls": [{"args": %s}]}' % deep, 0)], Source())


@pytest.mark.parametrize("text", ["<USER_REQUEST>", "<ADDITIONAL_METADATA>", "\n[Message] timestamp=", " \n" * 9])
def test_a_long_hostile_text_takes_no_long_time(text: str) -> None:
    for kind in ("USER_INPUT", "SYSTEM_MESSAGE", "ERROR_MESSAGE"):
        read(step(kind, text * 20_000, "SYSTEM"))


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
def test_its_own_transcripts_are_claimed_by_their_first_line(name: str) -> None:
    assert antigravity.PARSER.one_line_tells
    assert antigravity.sniff(Sample(first_values(FIXTURES / f"{name}.jsonl")[:1]))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"type": "user", "sessionId": "s", "uuid": "u", "message": {}}, id="Claude Code"),
        pytest.param({"step_id": 1, "source": "agent", "message": "x", "timestamp": "t"}, id="a step of a trajectory"),
        pytest.param({"step_index": "1", "source": "s", "type": "t", "status": "DONE"}, id="a step that is no number"),
        pytest.param({"step_index": True, "source": "s", "type": "t", "status": "DONE"}, id="a step that is a truth"),
        pytest.param({"step_index": 1, "source": "s", "type": "t"}, id="nothing but a step"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not antigravity.sniff(Sample((value,)))


# --- real transcripts, where they are at hand -------------------------------------------------------------

REAL = sorted((CORPUS / "antigravity").glob("*transcript.jsonl")) if CORPUS.is_dir() else []
needs_corpus = pytest.mark.skipif(not REAL, reason="no corpus beside the repository")


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_statuses_and_prompts_of_a_real_transcript_read_by_hand(path: Path) -> None:
    session = read_bytes(path.read_bytes(), Source(name=path.stem))
    assert session.losses == ()
    assert_well_formed(session)
    assert Counter(statuses(session)) == {"ok": 112, "failed": 4, "declined": 2}
    assert sum(message.author == "human" for message in session.messages) == 16
    assert session.source_id != path.stem


@needs_corpus
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        assert antigravity.sniff(Sample(first_values(path))) == (path.parent.name == "antigravity"), path
