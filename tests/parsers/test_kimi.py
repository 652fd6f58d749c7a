"""Kimi Code and Kimi CLI. The Q and T rows named in the ids are the mistakes known in the field.

Expectations are worked out by hand from the files of the fixtures in `kimi/`, which are invented.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import fits, junk, places, put
from tests.parsers.sessions import CORPUS, assert_well_formed, calls, losses, statuses

from demerit.model import Session, Usage
from demerit.parsers import kimi
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "kimi"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))

WIRE = Source(name="wire")


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


def files(name: str) -> list[Record]:
    """The records of a session's files, as `demerit.sources` gives them."""
    found = list(records((FIXTURES / f"{name}.jsonl").read_bytes()))
    state = FIXTURES / f"{name}.state.json"
    if state.exists():
        found.append(Record(state.read_bytes(), None, "../../state.json"))
    return found


def read_records(rows: Iterable[Record], source: Source = WIRE) -> Session:
    (session,) = kimi.parse(rows, source)
    return session


def read(*lines: dict[str, Any], source: Source = WIRE) -> Session:
    return read_records(records(b"\n".join(json.dumps(line).encode() for line in lines)), source)


def fixture(name: str) -> Session:
    return read_records(files(name))


def prompt(text: str, kind: str = "user", **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "origin": {"kind": kind, **more}}
    return {"type": "context.append_message", "message": message}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": kind, **more}}


def call(number: str, name: str = "Bash", step: str = "s", **arguments: Any) -> dict[str, Any]:
    return event("tool.call", toolCallId=number, name=name, args=arguments, stepUuid=step)


def got(number: str, output: Any, is_error: bool | None = None) -> dict[str, Any]:
    return event("tool.result", toolCallId=number, result={"output": output, "isError": is_error})


def wired(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": 1770000000.5, "message": {"type": kind, "payload": payload}}


def said(session: Session) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in session.messages]


def usages(session: Session) -> list[Usage]:
    return [message.usage for message in session.messages if message.usage is not None] + list(session.loose_usage)


# --- Kimi Code: one session, from end to end --------------------------------------------------------------


def test_a_plain_session_tells_who_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.title) == ("kimi", "session_1", "Round half up")
    assert (session.cwd, session.relation, session.parent_source_id) == ("/home/dev/shop", None, None)
    assert session.started == datetime(2026, 8, 1, 19, 33, 21, tzinfo=UTC)
    assert session.ended == datetime(2026, 8, 1, 19, 33, 48, tzinfo=UTC)
    assert not (session.events or session.losses or session.loose_usage or session.terminal)


def test_a_wire_alone_has_its_files_name() -> None:
    session = read_records(records((FIXTURES / "plain.jsonl").read_bytes()))
    assert (session.source_id, session.title) == ("wire", None)


def test_the_lines_of_one_step_are_one_response() -> None:
    session = fixture("plain")
    assert said(session) == [
        ("user", "human", "Round the totals half up."),
        ("assistant", "agent", "I will look."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Done: it rounds half up."),
    ]
    first = session.messages[1]
    assert (first.model, first.stop_reason, [call.name for call in first.calls]) == (
        "kimi-k2",
        "tool_use",
        ["Read", "Bash"],
    )
    assert (first.thinking_kind, first.thinking_bytes, first.thinking[0].head) == ("text", 11, "Look first.")


def test_t22_usage_that_is_recorded_twice_counts_once() -> None:
    assert usages(fixture("plain")) == [
        Usage(100, 1000, 50, output_tokens=20, key="s1"),
        Usage(10, 1150, output_tokens=5, key="chatcmpl-2"),
        Usage(12, 1160, output_tokens=6, key="s3"),
    ]


def test_q14_q19_q26_each_tool_has_its_category_its_files_and_its_flag() -> None:
    assert [(call.name, call.category, call.file_paths, call.evidence) for call in calls(fixture("plain"))] == [
        ("Read", "read", ("/home/dev/shop/total.py",), "no error flag"),
        ("Bash", "shell", (), "no error flag"),
        ("Edit", "edit", ("/home/dev/shop/total.py",), "no error flag"),
    ]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("ReadMediaFile", "read"),
        ("StrReplaceFile", "edit"),
        ("WriteFile", "write"),
        ("Grep", "search"),
        ("Shell", "shell"),
        ("TaskStop", "shell"),
        ("FetchURL", "web"),
        ("SearchWeb", "web"),
        ("AgentSwarm", "agent"),
        ("SetTodoList", "plan"),
        ("ExitPlanMode", "plan"),
        ("AskUserQuestion", "question"),
        ("mcp__shop__price", "mcp"),
        ("Skill", "other"),
    ],
)
def test_q26_a_tool_is_mapped(name: str, category: str) -> None:
    assert [made.category for made in calls(read(call("a", name)))] == [category]


def test_a_body_stands_in_the_log_where_it_says() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for made in calls(fixture("plain")):
        for body in (made.input, made.result):
            assert body is not None and body.offset is not None
            assert json.loads(data[body.offset : body.offset + body.bytes])


# --- Kimi Code: how calls went ----------------------------------------------------------------------------


def test_q1_each_call_by_its_flag_its_exit_code_what_the_user_said_and_the_fixed_texts() -> None:
    session = fixture("tool_error")
    assert [(made.call_id, made.status.value, made.exit_code) for made in calls(session)] == [
        ("Bash_0", "failed", 1),
        ("Bash_1", "benign", 1),
        ("Bash_2", "failed", 2),
        ("Bash_3", "ok", None),  # what a log says is no exit code
        ("Reed_4", "invalid", None),
        ("Read_5", "invalid", None),
        ("Bash_6", "declined", None),
        ("Write_7", "declined", None),
        ("Bash_8", "cancelled", None),
        ("Bash_9", "cancelled", None),
        ("Agent_10", "cancelled", None),
        ("Read_11", "failed", None),
        ("Bash_12", "pending", None),
    ]
    assert losses(session) == {"orphan_result": 1}
    read_ = calls(session)[11]
    assert read_.result is not None and read_.result.head == "File not found."  # of two, the first stands
    assert read_.evidence == "error flag true: File not found."


def test_q28_a_task_in_the_background_is_judged_by_the_notice_of_its_end() -> None:
    session = fixture("background")
    assert [(made.name, made.status.value, made.evidence) for made in calls(session)[:5]] == [
        ("Bash", "ok", "task completed"),
        ("Bash", "failed", "task failed"),
        ("Agent", "failed", "task failed"),
        ("Bash", "cancelled", "task killed"),
        ("Bash", "unknown", "put in the background, and no end of it in the log"),
    ]
    assert [message.author for message in session.messages[2:]] == ["harness"] * 4


def test_q17_polls_are_no_repetitions_of_each_other() -> None:
    first, second = calls(fixture("background"))[5:]
    assert first.is_poll and second.is_poll and first.input_hash != second.input_hash


def test_t25_ids_begin_anew_when_a_session_is_opened_again() -> None:
    session = fixture("reopened")
    assert statuses(session) == ["failed", "failed", "ok"]  # the second is a copy, the third another call
    assert [(happened.kind, happened.detail) for happened in session.events] == [
        ("model_change", "moonshot-ai/kimi-k2 -> moonshot-ai/kimi-k3")
    ]


def test_what_the_user_said_of_a_call_holds_for_that_call_alone() -> None:
    no = {"type": "permission.record_approval_result", "toolCallId": "Bash_0", "result": {"decision": "rejected"}}
    session = read(
        no,
        call("Bash_0", step="s1"),
        got("Bash_0", "Not run.", True),
        call("Bash_0", step="s2"),
        got("Bash_0", "Not found.", True),
    )
    assert statuses(session) == ["declined", "failed"]


# --- Kimi Code: who wrote it, forks, compactions, ends ----------------------------------------------------


def test_t20_what_a_person_typed_is_told_from_what_the_program_wrote() -> None:
    session = fixture("who_wrote")
    assert [text for role, author, text in said(session) if (role, author) == ("user", "human")] == [
        "Mend it.",
        "the totals",  # what was typed behind the command of a skill
        "Like this.",
        "And this.",
    ]
    assert sum(message.role == "context" for message in session.messages) == 5
    assert [message.has_image for message in session.messages if message.role == "user"] == [False, False, True, False]


def test_a_sub_agents_prompt_is_an_agents_and_its_session_has_a_parent() -> None:
    session = fixture("subagent")
    assert (session.source_id, session.relation, session.parent_source_id) == ("wire", "subagent", "session_1")
    assert said(session)[0] == ("user", "agent", "Find it.")


def test_t23_a_fork_begins_with_a_copy_of_its_parent() -> None:
    session = fixture("fork")
    assert (session.source_id, session.relation, session.parent_source_id) == ("session_2", "fork", "session_1")
    assert [text for _, _, text in said(session)] == ["Of the fork.", "Another answer."]
    assert [(usage.input_tokens, usage.output_tokens) for usage in usages(session)] == [(8, 4)]
    assert session.title is None  # it is the first prompt
    assert session.started == datetime(2026, 8, 1, 19, 33, 27, tzinfo=UTC)


def test_t32_a_compaction_is_an_event_its_summary_no_prompt_and_its_request_counts() -> None:
    session = fixture("compaction")
    assert [happened.kind for happened in session.events] == ["compaction", "rewind"]
    assert [message.notice for message in session.messages] == [None, None, "compaction_summary"]
    assert session.loose_usage == (Usage(900, output_tokens=80),)


def test_q27_a_turn_that_was_cancelled_is_an_interrupt_and_its_retries_are_errors() -> None:
    session = fixture("interrupted")
    assert [(message.role, message.notice) for message in session.messages] == [
        ("user", None),
        ("context", "interrupt"),
        ("user", None),
        ("user", None),
        ("assistant", None),
        ("context", "interrupt"),
    ]
    assert Counter(happened.kind for happened in session.events) == {"api_error": 2, "interrupt": 2}
    assert [happened.message_ordinal for happened in session.events] == [0, 0, 0, 4]


def test_a_session_without_an_answer_names_the_model_that_was_asked() -> None:
    asked = {"type": "llm.request", "kind": "loop", "model": "kimi-k2"}
    session = read(prompt("Go"), asked)
    assert (session.models, [message.role for message in session.messages]) == (("kimi-k2",), ["user"])
    assert fixture("plain").models == ()  # its messages name it


def test_a_cancel_when_all_is_done_breaks_nothing_off() -> None:
    assert fixture("plain").messages[-1].notice is None  # a record `turn.cancel` stands at its end


def test_q22_a_turn_that_failed_ends_in_an_error_of_the_service() -> None:
    last = fixture("failed_turn").messages[-1]
    assert (last.role, last.author, last.notice) == ("assistant", "harness", "api_error")
    assert last.text == "429 too many requests"


# --- Kimi CLI ---------------------------------------------------------------------------------------------


def test_the_older_wire_is_read_step_by_step() -> None:
    session = fixture("cli_plain")
    assert said(session) == [
        ("user", "human", "Round the totals half up."),
        ("assistant", "agent", "I will look."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Done."),
    ]
    assert session.messages[1].thinking_bytes == len("Look first.")
    assert usages(session)[0] == Usage(100, 1000, output_tokens=20, key="chatcmpl-1")
    assert [happened.kind for happened in session.events] == ["compaction"]
    assert session.started == datetime(2026, 2, 2, 2, 40, 1, 500_000, tzinfo=UTC)


def test_arguments_that_came_in_pieces_are_put_together() -> None:
    read_, shell, edit = calls(fixture("cli_plain"))
    assert read_.file_paths == edit.file_paths == ("/home/dev/shop/total.py",)
    assert read_.input is not None and json.loads(read_.input.head) == {"path": "/home/dev/shop/total.py"}
    assert (shell.category, shell.status, edit.category) == ("shell", "ok", "edit")


def test_q1_the_older_wire_tells_how_calls_went() -> None:
    session = fixture("cli_tool_error")
    assert [(made.call_id, made.status.value, made.exit_code) for made in calls(session)] == [
        ("a", "failed", 1),
        ("b", "benign", 1),
        ("c", "declined", None),
        ("d", "invalid", None),
        ("e", "invalid", None),
        ("f", "failed", None),
        ("g", "failed", None),
        ("h", "pending", None),
    ]
    assert session.messages[0].has_image
    assert session.messages[-1].notice == "interrupt"
    assert losses(session) == {"malformed_input": 1}


def test_of_a_sub_agent_on_the_older_wire_only_the_tokens_are_read() -> None:
    session = fixture("cli_subagent")
    assert [role for role, _, _ in said(session)] == ["user", "assistant", "user"]
    assert session.loose_usage == (Usage(7, output_tokens=3, key="chatcmpl-9"),)


def test_a_context_file_alone_is_read() -> None:
    session = fixture("context")
    assert said(session) == [
        ("system", "harness", "You are Kimi."),
        ("user", "human", "Test it."),
        ("context", "harness", "<system>CHECKPOINT 1</system>"),
        ("assistant", "agent", "I do."),
        (
            "context",
            "harness",
            "<system>Previous context has been compacted. Here is the compaction output:</system>\nThe totals.",
        ),
        ("context", "harness", "<system-reminder>\nMind it.\n</system-reminder>"),
        ("assistant", "agent", "Done."),
    ]
    assert [(made.status.value, made.exit_code) for made in calls(session)] == [
        ("failed", 1),
        ("ok", None),
        ("declined", None),
        ("invalid", None),
    ]
    assert [happened.kind for happened in session.events] == ["compaction"]
    assert session.messages[4].notice == "compaction_summary"
    assert not (session.losses or usages(session) or session.started)


def test_a_context_beside_a_wire_adds_nothing() -> None:
    context = [record._replace(part="context.jsonl") for record in files("context")]
    assert read_records([*files("cli_plain"), *context]) == fixture("cli_plain")


# --- lines that are not understood ------------------------------------------------------------------------


def test_a_cut_line_costs_itself_alone() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1}
    assert [role for role, _, _ in said(session)] == ["user", "assistant"]


def test_what_is_not_known_is_counted() -> None:
    assert losses(fixture("unknown_type")) == {
        "unknown_type": 3,
        "no_type": 1,
        "no_message": 1,
        "no_event": 1,
        "no_part": 1,
        "call_without_name": 1,
        "malformed_input": 1,
        "unknown_role": 1,
    }


def test_a_source_without_records_has_no_session() -> None:
    assert kimi.parse([], Source()) == []


def test_a_report_needs_no_bodies() -> None:
    session = read_records(files("plain"), Source(bodies=False, text_bytes=4))
    assert session.messages[-1].text == "Done" and session.messages[0].text == "Round the totals half up."
    assert all(made.input is None and made.result is None and made.input_hash for made in calls(session))
    assert not any(message.thinking for message in session.messages)


# --- hostile content --------------------------------------------------------------------------------------

LINES = [record for name in NAMES for record in files(name)]
WHOLE = [
    [(json.loads(record.data), record.part) for record in files(name)]
    for name in NAMES
    if name not in ("cut", "unknown_type")
]

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[str, tuple[type, ...]] = {
    "time": (int, float, str),
    "message": (dict,),
    "message.content": (str, list),
    "message.origin": (dict,),
    "event": (dict,),
    "event.part": (dict,),
    "event.result": (dict,),
    "event.result.isError": (bool,),
    "event.usage": (dict,),
    "event.usage.inputOther": (int,),
    "event.usage.output": (int,),
    "usage": (dict,),
    "usage.output": (int,),
    "attempt": (str, int),
    "timestamp": (int, float, str),
    "message.payload.user_input": (str, list),
    "message.payload.return_value": (dict,),
    "message.payload.return_value.is_error": (bool,),
    "message.payload.token_usage": (dict,),
    "message.payload.token_usage.output": (int,),
    "message.payload.function": (dict,),
    "content": (str, list),
    "tool_calls": (list,),
    "tool_calls.function": (dict,),
}
READ.update(
    dict.fromkeys(
        "type message.role message.content.text message.origin.kind message.origin.taskId event.type event.uuid "
        "event.stepUuid event.toolCallId event.name event.part.type event.part.text event.part.think "
        "event.finishReason event.messageId model modelAlias cwd toolCallId reason message.type "
        "message.payload.id message.payload.tool_call_id message.payload.text message.payload.arguments_part "
        "message.payload.function.name role tool_call_id tool_calls.id tool_calls.function.name".split(),
        (str,),
    )
)
STATE: dict[str, tuple[type, ...]] = {
    "title": (str,),
    "isCustomTitle": (bool,),
    "workDir": (str,),
    "id": (str,),
    "forkedFrom": (str,),
}


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    rows = list(data.draw(st.sampled_from(WHOLE)))
    index = data.draw(st.integers(0, len(rows) - 1))
    row, part = rows[index]
    at = data.draw(st.sampled_from(sorted(places(row), key=repr)))
    new = data.draw(junk)
    rows[index] = put(row, at, new), part
    session = read_records(Record(json.dumps(row).encode(), None if part else 0, part) for row, part in rows)
    assert_well_formed(session)
    wanted = (STATE if part else READ).get(".".join(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        # Of Kimi CLI, a payload is read for the types of messages that are told from others.
        is_read = "payload" not in at or row["message"]["type"] in (
            "TurnBegin",
            "ToolCall",
            "ToolResult",
            "StatusUpdate",
        )
        counted = losses(session)
        assert counted.get("wrong_type", 0) + counted.get("bad_time", 0) > 0 or not is_read, (at, new)


@settings(max_examples=60, deadline=None)
@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_and_twice_give_a_well_formed_session(lines: list[Record], size: int) -> None:
    for rows in (lines[:size], lines[:size] * 2):
        for session in kimi.parse(rows, Source()):
            assert_well_formed(session)


@pytest.mark.parametrize("name", ["plain", "cli_plain", "context"])
def test_a_log_may_be_cut_at_any_byte(name: str) -> None:
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    for size in range(0, len(data), 17):
        for session in kimi.parse(records(data[:size]), Source()):
            assert_well_formed(session)


@pytest.mark.parametrize(
    "field", ["message", "event", "usage", "content", "result", "error", "payload", "args", "output"]
)
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for row in (
        b'{"type": "turn.ended", "reason": "failed", "%s": %s}',
        b'{"type": "permission.record_approval_result", "toolCallId": "c", "%s": %s}',
        b'{"type": "context.append_loop_event", "event": {"type": "tool.call", "%s": %s}}',
        b'{"timestamp": 1.5, "message": {"type": "ToolCall", "%s": %s}}',
        b'{"timestamp": 1.5, "message": {"type": "ToolResult", "payload": {"return_value": {"%s": %s}}}}',
        b'{"role": "tool", "%s": %s}',
    ):
        kimi.parse([Record(row % (field.encode(), deep), 0)], Source())


@pytest.mark.parametrize("text", ["Command failed with exit code: 1.\n ", "task_id: ", "<system>ERROR: ", 'Tool "x" '])
def test_a_long_hostile_text_takes_no_long_time(text: str) -> None:
    read(call("a"), got("a", text * 20_000, True), {"role": "tool", "content": text * 20_000, "tool_call_id": "b"})


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
def test_its_own_logs_are_claimed_by_their_first_line(name: str) -> None:
    assert kimi.PARSER.one_line_tells and kimi.sniff(Sample(first_values(FIXTURES / f"{name}.jsonl")[:1]))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({**prompt("hi"), "time": 1785612800000}, id="a record of Kimi Code"),
        pytest.param(wired("TurnBegin", user_input="hi"), id="a message of Kimi CLI"),
        pytest.param({"role": "_checkpoint", "id": 0}, id="a checkpoint of a context"),
        pytest.param({"role": "_usage", "token_count": 7}, id="the usage of a context"),
    ],
)
def test_one_line_tells(value: object) -> None:
    assert kimi.sniff(Sample((value,)))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"role": "user", "content": "hi"}, id="a list of messages"),
        pytest.param({"type": "metadata", "version": 1}, id="somebody else's metadata"),
        pytest.param({"type": "turn.prompt"}, id="a record without a time"),
        pytest.param({"type": "user", "timestamp": "t", "message": {"role": "user", "content": ""}}, id="Claude Code"),
        pytest.param({"timestamp": "t", "type": "event_msg", "payload": {"type": "x"}}, id="Codex"),
        pytest.param({"timestamp": "t", "message": {"type": "x", "payload": {}}}, id="a time that is no number"),
        pytest.param({"role": "_checkpoint", "id": "x"}, id="a checkpoint that is no number"),
        pytest.param({"type": ["metadata"], "protocol_version": "1"}, id="a type that is no text"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not kimi.sniff(Sample((value,)))


def test_the_files_of_a_session_are_one_source() -> None:
    assert kimi.PARSER.bundle == ("wire.jsonl", ("../../state.json", "state.json", "context*.jsonl"))


# --- real logs, where they are at hand --------------------------------------------------------------------

REAL = sorted((CORPUS / "kimi").glob("*.jsonl")) if CORPUS.is_dir() else []
needs_corpus = pytest.mark.skipif(not REAL, reason="no corpus beside the repository")


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_wire_adds_up_to_its_own_records_of_usage(path: Path) -> None:
    session = read_records(records(path.read_bytes()), Source(name=path.stem))
    assert_well_formed(session)
    assert not session.losses
    rows = [json.loads(row) for row in path.read_bytes().splitlines()]
    told = [row["usage"] for row in rows if row["type"] == "usage.record"]
    assert sum(usage.output_tokens for usage in usages(session)) == sum(usage["output"] for usage in told)
    assert sum(usage.input_tokens for usage in usages(session)) == sum(usage["inputOther"] for usage in told)


@needs_corpus
def test_statuses_and_prompts_read_by_hand() -> None:
    expected: dict[str, tuple[dict[str, int], int]] = {
        "assistant_tools": ({"ok": 18, "failed": 1}, 8),
        "small": ({}, 3),
        "subagent_agent-0": ({"ok": 2}, 0),
    }
    for name, (counted, prompts) in expected.items():
        (path,) = (path for path in REAL if path.stem.endswith(f"--{name}"))
        session = read_records(records(path.read_bytes()))
        assert Counter(statuses(session)) == counted, name
        assert sum(message.author == "human" for message in session.messages) == prompts, name


@needs_corpus
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        assert kimi.sniff(Sample(first_values(path))) == (path.parent.name == "kimi"), path
