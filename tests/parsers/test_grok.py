"""Grok Build sessions. The Q and T rows named in the ids are the mistakes known in the field.

Expectations are worked out by hand from the files of the fixtures in `grok/`, which are invented.
"""

from __future__ import annotations

import json
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
from demerit.parsers import grok
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "grok"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl") if ".updates" not in path.name)

SESSION = "019f0000-0000-7000-8000-000000000001"
HISTORY = Source(name="chat_history")


def records(data: bytes, part: str = "") -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, None if part else offset, part)
        offset += len(line) + 1


def files(name: str) -> list[Record]:
    """The records of a session's folder, as `demerit.sources` gives them."""
    found = list(records((FIXTURES / f"{name}.jsonl").read_bytes()))
    summary, updates = FIXTURES / f"{name}.summary.json", FIXTURES / f"{name}.updates.jsonl"
    if summary.exists():
        found.append(Record(summary.read_bytes(), None, "summary.json"))
    if updates.exists():
        found += records(updates.read_bytes(), "updates.jsonl")
    return found


def read_records(rows: Iterable[Record], source: Source = HISTORY) -> Session:
    (session,) = grok.parse(rows, source)
    return session


def read(*lines: dict[str, Any], source: Source = HISTORY) -> Session:
    return read_records(records(b"\n".join(json.dumps(line).encode() for line in lines)), source)


def fixture(name: str) -> Session:
    return read_records(files(name))


def user(*texts: str, **more: Any) -> dict[str, Any]:
    return {"type": "user", "content": [{"type": "text", "text": text} for text in texts], **more}


def says(text: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "content": text, "tool_calls": list(calls), "model_id": "grok-4.5"}


def call(number: str, name: str = "run_terminal_cmd", **arguments: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "arguments": json.dumps(arguments)}


def got(number: str, text: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_call_id": number, "content": text}


def said(session: Session) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in session.messages]


# --- one session, from end to end -------------------------------------------------------------------------


def test_the_files_beside_a_history_tell_who_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.title) == ("grok", SESSION, "Round half up")
    assert (session.cwd, session.branch, session.relation) == ("/home/dev/shop", "main", None)
    assert session.started == datetime(2026, 6, 14, 5, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 6, 14, 5, 10, tzinfo=UTC)
    assert not (session.events or session.losses or session.terminal)


def test_a_folder_that_is_named_elsewhere_is_not_the_sessions() -> None:
    session = read(user("<user_info>\nOS\n</user_info>"), user("Workspace Path: /tmp", prompt_index=0))
    assert session.cwd is None


def test_a_history_alone_has_its_files_name_and_no_times() -> None:
    session = read_records(records((FIXTURES / "plain.jsonl").read_bytes()))
    assert (session.source_id, session.title) == ("chat_history", None)
    assert session.cwd == "/home/dev/shop"  # of the program's text about the user's machine
    assert (session.started, session.ended) == (None, None)
    assert statuses(session) == ["unknown", "unknown", "ok", "unknown"]  # the service tells its own call's


def test_reasoning_the_services_calls_and_the_answer_are_one_response() -> None:
    session = fixture("plain")
    assert [(message.role, message.author) for message in session.messages] == [
        ("system", "harness"),
        ("context", "harness"),
        ("user", "human"),
        ("assistant", "agent"),
        ("assistant", "agent"),
        ("assistant", "agent"),
    ]
    first, second, last = session.messages[3:]
    assert (first.text, [call.name for call in first.calls]) == ("I will look.", ["read_file", "run_terminal_cmd"])
    assert [call.name for call in second.calls] == ["web_search", "search_replace"]
    assert (last.text, last.model) == ("Done: it rounds half up.", "grok-4.5")


def test_thinking_is_a_ciphertext_with_a_summary() -> None:
    thought = fixture("plain").messages[3]
    assert (thought.thinking_kind, thought.thinking_bytes) == ("ciphertext", len("b3BhcXVl"))
    assert thought.thinking[0].head == "Look first."


def test_reasoning_without_an_answer_is_a_response() -> None:
    session = read({"type": "reasoning", "summary": [{"text": "Well."}]}, user("Stop."))
    assert [(message.role, message.thinking_bytes, message.thinking_kind) for message in session.messages] == [
        ("assistant", 5, "text"),
        ("user", 0, None),
    ]


def test_times_come_from_the_updates() -> None:
    session = fixture("plain")
    assert session.messages[2].at == datetime(2026, 6, 14, 5, 0, 1, tzinfo=UTC)  # the first update
    assert session.messages[3].at == datetime(2026, 6, 14, 5, 0, 3, tzinfo=UTC)  # its first call
    assert session.messages[5].at is None


def test_q19_q26_each_tool_has_its_category_and_the_files_that_it_names() -> None:
    assert [(call.name, call.category, call.file_paths) for call in calls(fixture("plain"))] == [
        ("read_file", "read", ("/home/dev/shop/total.py",)),
        ("run_terminal_cmd", "shell", ()),
        ("web_search", "web", ()),
        ("search_replace", "edit", ("/home/dev/shop/total.py",)),
    ]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("run_terminal_command", "shell"),
        ("write", "write"),
        ("list_dir", "search"),
        ("grep", "search"),
        ("web_fetch", "web"),
        ("todo_write", "plan"),
        ("spawn_subagent", "agent"),
        ("use_tool", "mcp"),
        ("shop__price", "mcp"),
        ("kill_task", "shell"),
        ("something_new", "other"),
    ],
)
def test_q26_a_tool_is_mapped(name: str, category: str) -> None:
    assert [call.category for call in calls(read(says("", call("c", name))))] == [category]


def test_a_body_stands_in_the_log_where_it_says() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for made in calls(fixture("plain")):
        for body in (made.input, made.result) if made.name != "web_search" else (made.input,):
            assert body is not None and body.offset is not None
            assert json.loads(data[body.offset : body.offset + body.bytes])


# --- how calls went ---------------------------------------------------------------------------------------


def test_without_the_updates_only_the_programs_own_texts_tell() -> None:
    session = fixture("no_status")
    assert [(call.name, call.status.value) for call in calls(session)] == [
        ("run_terminal_cmd", "unknown"),
        ("grep", "cancelled"),
        ("run_terminal_cmd", "cancelled"),
        ("run_terminal_cmd", "declined"),
        ("write", "declined"),
        ("read_file", "failed"),
        ("list_dir", "pending"),
    ]
    assert calls(session)[0].evidence == "the history has no status"
    assert losses(session) == {"orphan_result": 1}


def test_the_first_result_stands() -> None:
    first = calls(fixture("no_status"))[0]
    assert first.result is not None and first.result.head.startswith("1 failed")


def test_q1_newer_versions_begin_a_commands_output_with_its_exit() -> None:
    assert [(call.status.value, call.exit_code) for call in calls(fixture("exit_header"))] == [
        ("failed", 1),
        ("benign", 1),
        ("ok", 0),
        ("failed", None),  # killed by the time limit
        ("cancelled", None),
        ("unknown", None),  # words in an output
        ("unknown", None),  # no command
    ]


def test_the_updates_have_a_status_and_of_a_command_its_exit_code() -> None:
    session = fixture("statuses")
    assert [(call.status.value, call.exit_code, call.evidence) for call in calls(session)] == [
        ("failed", 1, "exit code 1 of pytest"),
        ("benign", 1, "exit code 1 of grep"),
        ("declined", None, "text: User rejected the execution for tool `run_terminal_cmd`."),
        ("unknown", None, "the history has no status"),
        (
            "cancelled",
            None,
            "text: Tool execution was cancelled by the user (tool `run_terminal_cmd` was not execut",
        ),
        ("ok", None, "status completed"),  # of two statuses, the first stands
        ("failed", None, "status failed"),
    ]


def test_t25_a_copy_of_a_call_has_its_first_ones_result() -> None:
    session = read(says("", call("a")), got("a", "Tool `x` failed: no"), says("", call("a")))
    assert statuses(session) == ["failed", "failed"]


def test_q17_polls_are_no_repetitions_of_each_other() -> None:
    session = read(says("", *(call(number, "get_task_output", task_id="t") for number in "ab")))
    first, second = calls(session)
    assert first.is_poll and second.is_poll and first.input_hash != second.input_hash


def test_arguments_that_are_no_json_are_counted_and_none_at_all_are_empty() -> None:
    broken = {"id": "a", "name": "grep", "arguments": '{"pattern": '}
    assert losses(read(says("", broken))) == {"malformed_input": 1}
    assert losses(read(says("", {**broken, "arguments": ""}))) == {}


# --- tokens -----------------------------------------------------------------------------------------------


def test_t18_q24_a_turns_tokens_are_a_sum_and_the_cached_ones_are_in_its_input() -> None:
    session = fixture("plain")
    assert session.loose_usage == (
        Usage(200, 1000, 100, output_tokens=70, reasoning_tokens=20, key="p-1", is_sum=True),
    )
    assert all(message.usage is None for message in session.messages)


def test_t18_a_forks_copy_of_a_turn_has_its_parents_key() -> None:
    session = fixture("fork")
    assert [usage.key for usage in session.loose_usage] == ["p-1"]
    assert (session.relation, session.parent_source_id) == ("fork", SESSION)


# --- who wrote it -----------------------------------------------------------------------------------------


def test_t20_what_a_person_typed_is_told_from_what_the_program_wrote() -> None:
    session = fixture("who_wrote")
    assert [(role, author) for role, author, _ in said(session)] == [
        ("system", "harness"),
        ("context", "harness"),
        ("user", "human"),
        ("assistant", "agent"),
        ("user", "human"),
        ("context", "harness"),
        ("context", "harness"),
        ("context", "harness"),
        ("context", "harness"),
        ("user", "human"),
        ("user", "human"),
    ]
    assert [text for role, _, text in said(session) if role == "user"] == [
        "Mend it.",
        "And the tests.",
        "Like this.",
        "",
    ]
    assert [message.has_image for message in session.messages[-2:]] == [True, True]


def test_a_preamble_beside_the_prompt_is_no_part_of_it() -> None:
    session = read(user("<user_info>\nOS\n</user_info>", "<user_query>\nMend it.\n</user_query>", prompt_index=0))
    assert said(session) == [("user", "human", "Mend it.")]


def test_a_prompt_that_names_the_tag_is_whole() -> None:
    session = read(user("<user_query>\nWhat does </user_query> mean?\n</user_query>", prompt_index=0))
    assert said(session) == [("user", "human", "What does </user_query> mean?")]


def test_a_sub_agents_prompt_is_an_agents() -> None:
    session = fixture("subagent")
    assert (session.source_id[-1], session.relation, session.parent_source_id) == ("2", "subagent", SESSION)
    assert ("user", "agent", "Count the files.") in said(session)


def test_lines_of_older_versions_have_a_role() -> None:
    session = fixture("old_roles")
    assert [role for role, _, _ in said(session)] == ["system", "user", "assistant", "assistant"]
    assert statuses(session) == ["unknown"] and not session.losses


# --- interrupts and compactions ---------------------------------------------------------------------------


def test_q27_an_interrupt_is_told_with_the_next_prompt_and_the_last_by_the_updates() -> None:
    session = fixture("interrupted")
    assert [(message.role, message.notice) for message in session.messages] == [
        ("system", None),
        ("user", None),
        ("assistant", None),
        ("context", "interrupt"),
        ("user", None),
        ("assistant", None),
        ("context", "interrupt"),
    ]
    assert session.messages[4].text == "No, test it."
    assert [(event.kind, event.detail) for event in session.events] == [
        ("interrupt", "mid_turn_abort"),
        ("interrupt", "cancelled"),
    ]
    assert statuses(session) == ["cancelled"]


def test_t32_a_compaction_is_an_event_and_its_summary_no_prompt() -> None:
    session = fixture("compaction")
    assert [event.kind for event in session.events] == ["compaction"]
    assert [message.notice for message in session.messages] == [None, "compaction_summary", None]


# --- lines that are not understood ------------------------------------------------------------------------


def test_a_cut_line_costs_itself_alone() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1}
    assert len(session.messages) == 3


def test_what_is_not_known_is_counted() -> None:
    assert losses(fixture("unknown_type")) == {
        "unknown_type": 1,
        "no_type": 1,
        "empty_message": 2,
        "no_call": 1,
        "call_without_name": 1,
        "malformed_input": 1,
        "wrong_type": 1,
    }


def test_a_source_without_records_has_no_session() -> None:
    assert grok.parse([], Source()) == []


def test_a_report_needs_no_bodies() -> None:
    session = read_records(files("plain"), Source(bodies=False, text_bytes=4))
    assert session.messages[-1].text == "Done" and session.messages[2].text == "Round the totals half up."
    assert all(call.input is None and call.result is None and call.input_hash for call in calls(session))
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
    "content": (str, list),
    "prompt_index": (int,),
    "summary": (list,),
    "tool_calls": (list,),
    "kind": (dict,),
}
READ.update(
    dict.fromkeys(
        "type role synthetic_reason prior_turn_interrupt encrypted_content model_id tool_call_id tool_calls.id "
        "tool_calls.name kind.tool_type kind.id kind.status summary.text".split(),
        (str,),
    )
)
BESIDE: dict[str, tuple[type, ...]] = {
    "info": (dict,),
    "created_at": (str, int, float),
    "params": (dict,),
    "params.update": (dict,),
    "params._meta": (dict,),
    "params._meta.agentTimestampMs": (int,),
    "params._meta.promptIndex": (int,),
    "params.update.usage": (dict,),
    "params.update.usage.inputTokens": (int,),
    "params.update.usage.reasoningTokens": (int,),
}
BESIDE.update(
    dict.fromkeys(
        "info.id info.cwd generated_title head_branch parent_session_id session_kind params.update.sessionUpdate "
        "params.update.toolCallId params.update.status params.update.prompt_id params.update.stop_reason".split(),
        (str,),
    )
)


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
    wanted = (BESIDE if part else READ).get(".".join(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        counted = losses(session)
        assert counted.get("wrong_type", 0) + counted.get("bad_time", 0) > 0, (at, new)


@settings(max_examples=60, deadline=None)
@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_and_twice_give_a_well_formed_session(lines: list[Record], size: int) -> None:
    for rows in (lines[:size], lines[:size] * 2):
        for session in grok.parse(rows, Source()):
            assert_well_formed(session)


def test_a_history_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    for size in range(0, len(data), 7):
        for session in grok.parse(records(data[:size]), Source()):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["content", "tool_calls", "summary", "kind", "arguments", "params", "rawOutput"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for kind in (b"user", b"assistant", b"reasoning", b"backend_tool_call"):
        row = b'{"type": "%s", "%s": %s}' % (kind, field.encode(), deep)
        inner = b'{"type": "assistant", "tool_calls": [{"%s": %s}]}' % (field.encode(), deep)
        beside = b'{"params": {"update": {"%s": %s}}}' % (field.encode(), deep)
        grok.parse([Record(row), Record(inner), Record(beside, None, "updates.jsonl")], Source())


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
def test_its_own_histories_are_claimed(name: str) -> None:
    assert grok.PARSER.one_line_tells and grok.sniff(Sample(first_values(FIXTURES / f"{name}.jsonl")))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"type": "system", "content": "You are"}, id="a system prompt, of anybody"),
        pytest.param({"type": "user", "content": [{"type": "text", "text": "hi"}]}, id="a message, of anybody"),
        pytest.param({"role": "assistant", "content": "", "tool_calls": []}, id="a list of messages"),
        pytest.param(
            {"type": "assistant", "message": {"content": []}, "model_id": "m"}, id="a response in an envelope"
        ),
        pytest.param({"type": "reasoning", "summary": [], "encrypted_content": ""}, id="a bare item of Codex"),
        pytest.param({"type": "tool_result", "tool_call_id": "c", "content": "x"}, id="a bare result"),
        pytest.param({"type": "user", "content": "hi", "prompt_index": 1}, id="a content that is no list"),
        pytest.param({"type": ["user"], "content": []}, id="a type that is no text"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not grok.sniff(Sample((value,)))


def test_the_files_of_a_folder_are_one_source() -> None:
    assert grok.PARSER.bundle == ("chat_history.jsonl", ("summary.json", "updates.jsonl"))


# --- real histories, where they are at hand ---------------------------------------------------------------

REAL = sorted((CORPUS / "grok").glob("*.jsonl")) if CORPUS.is_dir() else []
needs_corpus = pytest.mark.skipif(not REAL, reason="no corpus beside the repository")


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_history_is_read_without_losses(path: Path) -> None:
    session = read_records(records(path.read_bytes()), Source(name=path.stem))
    assert_well_formed(session)
    assert not session.losses
    assert {call.status.value for call in calls(session) if call.name != "web_search"} == {"unknown"}


@needs_corpus
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        assert grok.sniff(Sample(first_values(path))) == (path.parent.name == "grok"), path
