"""Goose: what is read from its database, its older JSONL files, its exports, and how each fact is decided."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import fits, junk, places, put
from tests.parsers.sessions import calls, losses, spoken

from demerit.model import Session, ToolCall
from demerit.parsers import chat, claude, codex, goose
from demerit.parsers.records import Record, Sample, Source
from demerit.quality.assess import assess

FIXTURES = Path(__file__).parent / "goose"
FILES = sorted(path.stem for path in FIXTURES.glob("2025*.jsonl"))
DATABASES = sorted(path.stem for path in FIXTURES.glob("*.jsonl") if path.stem not in FILES)
EXPORTS = sorted(path.stem for path in FIXTURES.glob("*.json"))
LATER = datetime(2026, 6, 1, tzinfo=UTC)

Json = dict[str, Any]


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def rows(name: str) -> list[tuple[str, Json]]:
    """The rows of a database, with their JSON texts as objects."""
    lines = (FIXTURES / f"{name}.jsonl").read_text().splitlines()
    return [(line["query"], line["row"]) for line in map(json.loads, lines)]


def as_records(given_rows: Iterable[tuple[str, Json]]) -> list[Record]:
    records = []
    for query, row in given_rows:
        texts = {key: json.dumps(row[key]) for key in ("content_json", "metadata_json") if row.get(key) is not None}
        records.append(Record(encoded(row | texts), None, query))
    return records


def lines_of(name: str) -> list[Record]:
    records = []
    offset = 0
    for line in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines(keepends=True):
        records.append(Record(line, offset))
        offset += len(line)
    return records


def load(name: str) -> list[Record]:
    if name in EXPORTS:
        return [Record((FIXTURES / f"{name}.json").read_bytes(), 0)]
    return lines_of(name) if name in FILES else as_records(rows(name))


def fixture(name: str, source: Source | None = None) -> Session:
    sessions = goose.parse(load(name), source or Source(name))
    assert len(sessions) == 1
    return sessions[0]


# --- short forms ---------------------------------------------------------------------------------------------


def happened(session: Session) -> list[tuple[str, int | None]]:
    return [(event.kind, event.message_ordinal) for event in session.events]


def words(text: str) -> Json:
    return {"type": "text", "text": text}


def ask(name: str, call_id: str = "call_a", /, **arguments: Any) -> Json:
    value = {"name": name, "arguments": arguments}
    return {"type": "toolRequest", "id": call_id, "toolCall": {"status": "success", "value": value}}


def answer(result: Json, call_id: str = "call_a") -> Json:
    return {"type": "toolResponse", "id": call_id, "toolResult": result}


def said(role: str, *blocks: Json, at: int = 1, **fields: Any) -> Json:
    return {"role": role, "created": 1772000000 + at, "content": list(blocks), **fields}


def session_of(*messages: Json, **meta: Any) -> Session:
    header = {"working_dir": "/home/dev/shop", "description": "", "message_count": 1} | meta
    return goose.parse([Record(encoded(line), None) for line in (header, *messages)], Source("log"))[0]


def call_of(name: str, result: Json, **arguments: Any) -> ToolCall:
    return calls(session_of(said("assistant", ask(name, **arguments)), said("user", answer(result))))[0]


# --- a plain session -----------------------------------------------------------------------------------------


def test_a_plain_session_is_read() -> None:
    session = fixture("plain")
    assert spoken(session) == [
        ("user", "human", "Please add a total to the cart page"),
        ("assistant", "agent", "I look."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "The cart page has a total."),
    ]
    assert (session.agent, session.source_id, session.title) == ("goose", "20260225_1", "Cart total")
    assert (session.cwd, session.branch, session.agent_version) == ("/home/dev/shop", None, None)
    assert session.started == datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)
    assert session.ended == datetime(2026, 2, 25, 6, 13, 32, tzinfo=UTC)
    assert (session.relation, session.parent_source_id, session.losses) == (None, None, ())
    assert [message.model for message in session.messages] == [None, *["claude-sonnet-4-5"] * 3]


def test_the_rows_of_one_response_are_one_message() -> None:
    first = fixture("plain").messages[1]
    assert [call.name for call in first.calls] == ["developer__shell", "text_editor"]
    assert (first.thinking_kind, first.thinking_bytes) == ("signature", 4)
    assert [body.head for body in first.thinking] == ["Where is it?"]


def test_a_response_some_seconds_after_a_result_is_another() -> None:
    assert [len(message.calls) for message in fixture("plain").messages] == [0, 2, 1, 0]


def test_the_calls_of_a_plain_session_are_read() -> None:
    shell, view, edit = calls(fixture("plain"))
    assert (shell.category, shell.status, shell.exit_code, shell.evidence) == ("shell", "ok", 0, "exit_code 0")
    assert (view.category, view.status, view.evidence) == ("read", "ok", "toolResult status success")
    assert (edit.category, edit.file_paths) == ("edit", ("/home/dev/shop/src/cart.py",))
    assert shell.result is not None and shell.result.head == "src/cart.py"


# --- statuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_id", "status", "evidence"),
    [
        pytest.param("a", "failed", "exit_code 2 of make", id="a command that failed"),
        pytest.param("b", "failed", "toolResult status error: -32603: The string", id="Q12 a result of status error"),
        pytest.param("c", "declined", "text: the user declined", id="the person said no"),
        pytest.param("d", "failed", "timed_out true", id="a command that took too long"),
        pytest.param("e", "invalid", "toolCall status error: -32602", id="a call that could not be read"),
        pytest.param("f", "invalid", "text: -32602: Invalid parameters", id="arguments that do not fit"),
        pytest.param("g", "invalid", "name unparseable_tool_call", id="the name that stands for a broken call"),
        pytest.param("h", "declined", "text: chat mode runs no tools", id="a mode without tools"),
        pytest.param("i", "unknown", "a result without an exit code", id="a command in an older version"),
        pytest.param("j", "benign", "text: exit code 1 of grep", id="an answer in the text"),
        pytest.param("k", "failed", "text: exit code 2 of make", id="an exit code at the end of the text"),
        pytest.param("l", "failed", "isError true", id="a tool that says that it failed"),
        pytest.param("m", "cancelled", "text: interrupted by the user", id="an interrupt"),
        pytest.param("n", "pending", "no result in the log", id="no result"),
    ],
)
def test_how_a_call_went(call_id: str, status: str, evidence: str) -> None:
    found = next(call for call in calls(fixture("tool_error")) if call.call_id == f"call_{call_id}")
    assert found.status == status
    assert found.evidence.startswith(evidence)


def test_an_exit_code_that_is_an_answer_is_benign() -> None:
    assert [call.status.value for call in calls(fixture("benign_exit"))] == ["benign", "benign"]


def test_words_in_an_output_decide_nothing() -> None:
    value = [
        words("grep found: The user has declined to run this tool, Invalid parameters, Command exited with code 2")
    ]
    assert call_of("text_editor", {"status": "success", "value": value}, command="view").status == "ok"
    assert call_of("tree", {"status": "success", "value": [words("Invalid parameters")]}).status == "ok"


def test_the_first_of_two_results_stands() -> None:
    good: Json = {"status": "success", "value": []}
    bad = {"status": "error", "error": "-32603: no"}
    session = session_of(said("assistant", ask("tree")), said("user", answer(bad)), said("user", answer(good)))
    assert [call.status.value for call in calls(session)] == ["failed"]


def test_a_copy_of_a_call_has_the_same_result() -> None:
    bad = {"status": "error", "error": "-32603: no"}
    copied = said("assistant", ask("tree"), at=50)
    session = session_of(said("assistant", ask("tree")), said("user", answer(bad)), copied)
    assert [call.status.value for call in calls(session)] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("name", "arguments", "category"),
    [
        ("developer__shell", {}, "shell"),
        ("shell", {}, "shell"),
        ("developer__text_editor", {"command": "view"}, "read"),
        ("developer__text_editor", {"command": "write"}, "write"),
        ("text_editor", {"command": "insert"}, "edit"),
        ("text_editor", {"command": ["view"]}, "edit"),
        ("tree", {}, "search"),
        ("todo__todo_write", {}, "plan"),
        ("subagent__execute_task", {}, "agent"),
        ("delegate", {}, "agent"),
        ("computercontroller__web_scrape", {}, "web"),
        ("github__search", {}, "mcp"),
        ("load", {}, "other"),
    ],
)
def test_what_kind_of_work_a_tool_does(name: str, arguments: Json, category: str) -> None:
    assert call_of(name, {"status": "success", "value": []}, **arguments).category == category


def test_edits_name_their_file_so_that_churn_is_seen() -> None:
    assert assess(fixture("20250225_061320"), LATER).signals.edit_churn == 1


# --- tokens --------------------------------------------------------------------------------------------------


def numbers(session: Session) -> list[tuple[int, int, int, int]]:
    return [
        (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.output_tokens)
        for usage in session.loose_usage
    ]


def test_the_ledger_gives_each_response_its_usage() -> None:
    found = [message.usage for message in fixture("plain").messages if message.usage]
    assert [(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens) for usage in found] == [
        (150, 800, 50),
        (100, 1000, 0),
        (100, 1100, 0),
    ]
    assert [usage.key for usage in found] == [f"20260225_1:1772000000:{row}" for row in (1, 2, 3)]
    assert fixture("plain").loose_usage == ()


def test_a_ledger_that_does_not_fit_the_responses_is_counted_beside_them() -> None:
    short = [row for row in rows("plain") if row[1].get("id") != 3 or row[0] != "usage_ledger"]
    session = goose.parse(as_records(short), Source("x"))[0]
    assert [message.usage for message in session.messages] == [None] * 4
    assert numbers(session) == [(150, 800, 50, 30), (100, 1000, 0, 40)]


def test_usage_in_a_message_goes_before_the_ledger_and_counts_once() -> None:
    session = fixture("subagent")
    usage = session.messages[-1].usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (100, 400, 9)
    assert usage.key == "msg_20260225_5_3"
    assert numbers(session) == [(70, 0, 0, 3)]


def test_a_compaction_is_no_response_in_the_ledger() -> None:
    session = fixture("compaction")
    assert [message.usage.context_tokens for message in session.messages if message.usage] == [900, 300]
    assert numbers(session) == [(950, 0, 0, 200), (400, 0, 0, 100)]


@pytest.mark.parametrize("name", EXPORTS)
def test_t17_flat_and_nested_counts_are_the_same_and_of_the_whole_session(name: str) -> None:
    session = fixture(name)
    assert numbers(session) == [(14, 112820, 11777, 394)]
    assert session.loose_usage[0].key == "20260225_9:1772000000:accumulated"


def test_t17_the_counts_of_the_last_call_alone_are_no_usage() -> None:
    assert session_of(said("user", words("hi there")), total_tokens=500, input_tokens=400).loose_usage == ()


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param((100, 10, 110, 60, 30), (10, 60, 30, 10), id="the cache is a part of the input"),
        pytest.param((10, 10, 110, 60, 30), (10, 60, 30, 10), id="the cache is more than the input"),
        pytest.param((200, 10, 300, 60, 30), (200, 60, 30, 10), id="the total counts the cache beside the input"),
        pytest.param((-5, 10, 5, 0, 0), (0, 0, 0, 10), id="a count below zero"),
    ],
)
def test_where_the_cache_is_counted(counts: tuple[int, ...], expected: tuple[int, ...]) -> None:
    names = ("input", "output", "total", "cache_read", "cache_write")
    meta = {f"accumulated_{name}_tokens": count for name, count in zip(names, counts, strict=True)}
    assert numbers(session_of(said("user", words("hi there")), **meta)) == [expected]


def test_t11_a_database_and_its_backup_name_sessions_and_requests_alike() -> None:
    first, second = (fixture("plain", Source(name)) for name in ("sessions", "sessions-backup"))
    assert first.source_id == second.source_id
    assert [m.usage and m.usage.key for m in first.messages] == [m.usage and m.usage.key for m in second.messages]


def test_the_requests_of_two_machines_are_two_though_their_sessions_have_one_name() -> None:
    other = rows("plain")
    other[0][1]["created_at"] = "2026-02-25 09:00:00"
    here, there = fixture("plain"), goose.parse(as_records(other), Source("x"))[0]
    keys = [{m.usage.key for m in session.messages if m.usage} for session in (here, there)]
    assert keys[0].isdisjoint(keys[1])


# --- who wrote it --------------------------------------------------------------------------------------------


def test_a_sub_agent_has_its_parent_and_its_prompt_is_of_the_agent() -> None:
    session = fixture("subagent")
    assert (session.relation, session.parent_source_id) == ("subagent", "20260225_1")
    assert [(message.role, message.author) for message in session.messages] == [
        ("context", "harness"),
        ("user", "agent"),
        ("assistant", "agent"),
    ]
    assert session.messages[-1].model == "gpt-5.4-2026"


def test_the_prompt_of_a_schedule_is_of_no_person() -> None:
    assert spoken(fixture("scheduled_api_error"))[0] == ("user", "harness", "Update all dependencies of the shop")


def test_a_line_of_results_is_no_message() -> None:
    assert [message.role for message in fixture("20250225_061320").messages] == ["user", *["assistant"] * 3]


def test_an_image_is_a_part_of_the_prompt() -> None:
    assert fixture("interrupt").messages[0].has_image


def test_a_command_of_the_program_is_no_prompt() -> None:
    session = session_of(said("user", words("/compact")), said("user", words("/promptly answer me, please")))
    assert [message.role for message in session.messages] == ["context", "user"]


def test_the_limit_of_turns_is_said_by_the_program() -> None:
    text = "I've reached the maximum number of actions I can do without user input. Would you like me to continue?"
    assert spoken(session_of(said("assistant", words(text)))) == [("assistant", "harness", text)]


@pytest.mark.parametrize("title", ["", "New Chat", "CLI Session", "ACP Session", "New session 12", "20260225_1"])
def test_a_title_that_nobody_gave_is_none(title: str) -> None:
    assert session_of(said("user", words("hi")), name=title, id="20260225_1").title is None


def test_the_older_title_stands_where_the_newer_has_none() -> None:
    assert fixture("benign_exit").title == "Find the flag"


# --- what happened beside --------------------------------------------------------------------------------------


def test_a_compaction_is_an_event_and_the_prompt_that_it_repeats_counts_once() -> None:
    session = fixture("compaction")
    assert [(message.role, message.author, message.text, message.notice) for message in session.messages] == [
        ("user", "human", "Explain every module of the shop to me", None),
        ("assistant", "agent", "Here is the first.", None),
        ("user", "human", "And now explain the second one too", None),
        ("context", "harness", "**Summary** The shop has modules.", "compaction_summary"),
        ("assistant", "agent", "The second is the cart.", None),
        ("context", "harness", "/compact", None),
        ("context", "harness", "**Summary** More of it.", "compaction_summary"),
    ]
    assert happened(session) == [("compaction", 3), ("compaction", 6)]


def test_a_prompt_that_the_person_repeats_counts_twice() -> None:
    prompt = said("user", words("Run the tests again"))
    session = session_of(prompt, said("assistant", words("They pass.")), prompt)
    assert [message.role for message in session.messages] == ["user", "assistant", "user"]


def test_the_block_of_an_older_compaction_is_an_event() -> None:
    block = {"type": "conversationCompacted", "msg": "Compacted"}
    session = session_of(
        said("user", words("Tell me of it")), said("assistant", block), said("assistant", words("Yes."))
    )
    assert happened(session) == [("compaction", 0)]
    assert [message.role for message in session.messages] == ["user", "assistant"]


def test_an_interrupt_ends_the_session() -> None:
    session = fixture("interrupt")
    assert happened(session) == [("interrupt", 1)]
    assert session.messages[-1].notice == "interrupt"
    assert assess(session, LATER).ending == "interrupted"


def test_an_api_error_ends_the_session() -> None:
    session = fixture("scheduled_api_error")
    assert happened(session) == [("api_error", 1)]
    assert (session.messages[-1].author, session.messages[-1].notice) == ("harness", "api_error")
    assert assess(session, LATER).ending == "api_error"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "error", "kind": "creditsExhausted", "message": "No credits"},
        {"type": "systemNotification", "notificationType": "creditsExhausted", "msg": "No credits"},
    ],
)
def test_an_error_may_have_a_block_of_its_own(block: Json) -> None:
    session = session_of(said("user", words("Tell me of it")), said("assistant", block))
    assert spoken(session)[-1] == ("assistant", "harness", "No credits")
    assert assess(session, LATER).ending == "api_error"


# --- the older files, the exports -------------------------------------------------------------------------------


def test_a_file_of_lines_is_read() -> None:
    session = fixture("20250225_061320")
    assert (session.source_id, session.title, session.cwd) == ("20250225_061320", "Fix two typos", "/home/dev/shop")
    assert [call.status.value for call in calls(session)] == ["ok", "ok"]
    assert numbers(session) == [(300, 0, 0, 30)]
    offset = calls(session)[0].input
    assert offset is not None and offset.offset is not None
    data = (FIXTURES / "20250225_061320.jsonl").read_bytes()
    assert data[offset.offset :].startswith(b'{"command": "str_replace"')


def test_a_file_that_was_taken_into_the_database_counts_its_tokens_once() -> None:
    row = {"id": "20250225_061320", "created_at": "2025-02-25 06:13:20", "accumulated_input_tokens": 300}
    message = {"session_id": row["id"], "role": "user", "content_json": [words("hi")], "created_timestamp": 1772000000}
    taken = goose.parse(as_records([("sessions", row), ("messages", message)]), Source("sessions"))[0]
    assert taken.loose_usage[0].key == fixture("20250225_061320").loose_usage[0].key


def test_a_file_without_its_header_is_read() -> None:
    session = goose.parse(lines_of("20250225_061320")[1:], Source("20250225_061320"))[0]
    assert (session.source_id, len(session.messages), session.cwd) == ("20250225_061320", 4, None)


def test_an_export_is_read() -> None:
    session = fixture("export_nested")
    assert [text for _, _, text in spoken(session)] == ["Fix the two typos in README.md", "Both are fixed."]
    assert session.title == "Typos"


def test_a_model_that_no_message_names_is_the_sessions() -> None:
    session = fixture("export_nested")
    assert (session.messages[1].model, session.models) == (None, ("claude-sonnet-4-5",))
    assert assess(session, LATER).models == ("claude-sonnet-4-5",)


def test_a_sum_over_the_session_says_nothing_of_one_request() -> None:
    session = fixture("export_nested")
    assert session.loose_usage[0].is_sum
    assert assess(session, LATER).context is None


def test_columns_that_an_older_database_has_not_are_missed_by_nobody() -> None:
    old = []
    for query, row in rows("plain"):
        newer = ("message_id", "metadata_json", "name", "session_type", "parent_session_id", "model_config_json")
        old.append((query, {key: value for key, value in row.items() if key not in newer}))
    session = goose.parse(as_records(old), Source("x"))[0]
    assert (len(session.messages), session.losses, session.title) == (4, (), None)


def test_one_database_has_many_sessions_and_empty_ones_are_left_out() -> None:
    both = rows("plain") + rows("compaction") + [("sessions", {"id": "20260225_99"})]
    both.sort(key=lambda row: ("sessions", "usage_ledger", "messages").index(row[0]))
    sessions = goose.parse(as_records(both), Source("sessions"))
    assert [(session.source_id, len(session.messages)) for session in sessions] == [
        ("20260225_1", 4),
        ("20260225_4", 7),
    ]


# --- logs that are cut or broken ------------------------------------------------------------------------------


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("20250225_061321")
    assert losses(session) == {"malformed_line": 1}
    assert [call.status.value for call in calls(session)] == ["pending"]


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("20250225_061322")
    assert losses(session) == {"unknown_type": 3, "orphan_result": 1}
    assert [message.text for message in session.messages] == ["Fix the two typos in README.md", "Fine."]


def test_a_row_that_does_not_say_whose_it_is_is_counted() -> None:
    session = goose.parse(as_records([*rows("plain"), ("messages", {"role": "user"})]), Source("x"))[0]
    assert losses(session) == {"no_session": 1}


def test_a_source_without_records_has_no_session() -> None:
    assert goose.parse([], Source()) == []


def assert_well_formed(session: Session) -> None:
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]
    for event in session.events:
        assert event.message_ordinal is None or event.message_ordinal < len(session.messages)


# --- hostile content -----------------------------------------------------------------------------------------


# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
MESSAGE: dict[str, tuple[type, ...]] = {
    "": (list,),
    ".type": (str,),
    ".id": (str,),
    ".text": (str,),
    ".thinking": (str,),
    ".signature": (str,),
    ".toolCall": (dict,),
    ".toolCall.status": (str,),
    ".toolCall.value": (dict,),
    ".toolCall.value.name": (str,),
    ".toolResult": (dict,),
    ".toolResult.status": (str,),
    ".toolResult.value.isError": (bool,),
}
READ: dict[str, tuple[type, ...]] = {f"content_json{place}": wanted for place, wanted in MESSAGE.items()}
READ |= {f"content{place}": wanted for place, wanted in MESSAGE.items()}
READ |= {
    "role": (str,),
    "created": (int, float),
    "created_timestamp": (int, float),
    "session_id": (str,),
    "message_id": (str,),
    "metadata_json.userVisible": (bool,),
    "metadata_json.agentVisible": (bool,),
    "metadata_json.usage": (dict,),
    "metadata_json.usage.inputTokens": (int,),
    "metadata_json.inference": (dict,),
    "metadata_json.inference.resolvedModel": (str,),
    "input_tokens": (int,),
    "working_dir": (str,),
    "accumulated_input_tokens": (int,),
    "session_type": (str,),
    "parent_session_id": (str,),
}
WRONG = ("wrong_type", "bad_time", "not_an_object", "no_session")


def wrong(sessions: list[Session]) -> int:
    return sum(losses(session).get(kind, 0) for session in sessions for kind in WRONG)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*DATABASES, "20250225_061320"]))
    found = [("", json.loads(record.data)) for record in lines_of(name)] if name in FILES else rows(name)
    index = data.draw(st.integers(0, len(found) - 1))
    query, row = found[index]
    at = data.draw(st.sampled_from(sorted(places(row), key=repr)))
    new = data.draw(junk)
    before = goose.parse(as_records(found), Source("x"))
    found[index] = (query, put(row, at, new))
    after = goose.parse(as_records(found), Source("x"))
    for session in after:
        assert_well_formed(session)
    wanted = READ.get(".".join(key for key in at if isinstance(key, str))) if isinstance(at[-1], str) else None
    # The one header of a file is asked for no tokens but the session's, the ledger for no names.
    is_read = query != "sessions" or at[0] not in ("input_tokens", "id")
    is_read = is_read and (query != "" or at[0] not in ("input_tokens",))
    if after and is_read and wanted is not None and not fits(new, wanted):
        assert wrong(after) > wrong(before), (at, new, [losses(session) for session in after])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_value_may_stand_in_an_export(data: st.DataObject) -> None:
    document = json.loads((FIXTURES / f"{data.draw(st.sampled_from(EXPORTS))}.json").read_bytes())
    at = data.draw(st.sampled_from(sorted(places(document), key=repr)))
    for session in goose.parse([Record(encoded(put(document, at, data.draw(junk))), 0)], Source("x")):
        assert_well_formed(session)


def test_a_file_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "20250225_061320.jsonl").read_bytes()
    for size in range(0, len(data), 3):
        cut = [Record(line, None) for line in data[:size].splitlines()]
        for session in goose.parse(cut, Source("x")):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["arguments", "value", "error", "data", "thinking", "content"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    inner = b'{"%s": %s}' % (field.encode(), deep)
    block = b'{"type": "toolRequest", "id": "a", "toolCall": %s, "toolResult": %s, "%s": %s}'
    line = b'{"role": "assistant", "content": [' + block % (inner, inner, field.encode(), deep) + b"]}"
    goose.parse([Record(line, 0)], Source())


# --- whose log -----------------------------------------------------------------------------------------------


def sample(records: list[Record], is_document: bool = False) -> Sample:
    values = []
    for record in records[:20]:
        try:
            values.append(json.loads(record.data))
        except ValueError:
            continue
    return Sample(tuple(values), is_document=is_document)


@pytest.mark.parametrize("name", FILES + EXPORTS)
def test_its_own_files_are_claimed_by_nobody_else(name: str) -> None:
    found = sample(load(name), name in EXPORTS)
    assert goose.sniff(found)
    assert not any(parser.PARSER.sniff(found) for parser in (claude, codex, chat))


def test_a_file_without_its_header_is_told_by_its_blocks() -> None:
    assert goose.sniff(sample(lines_of("20250225_061320")[1:]))


@pytest.mark.parametrize(
    ("tables", "is_ours"),
    [
        pytest.param({"schema_version", "sessions", "messages"}, True, id="the first version"),
        pytest.param({"schema_version", "sessions", "messages", "usage_ledger", "threads"}, True, id="a newer version"),
        pytest.param({"schema_version", "sessions", "messages", "state_meta", "messages_fts"}, False, id="Hermes"),
        pytest.param({"session", "message", "part"}, False, id="OpenCode"),
        pytest.param({"sessions", "messages", "files"}, False, id="Crush"),
    ],
)
def test_a_database_is_told_by_its_tables(tables: set[str], is_ours: bool) -> None:
    assert goose.sniff(Sample(tables=frozenset(tables))) is is_ours


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"role": "user", "content": "hi"}, id="a list of messages"),
        pytest.param({"role": "user", "content": [{"type": "text", "text": "hi"}], "created": 1}, id="no tools"),
        pytest.param({"role": "assistant", "content": [{"type": "toolCall", "id": "a", "name": "b"}]}, id="pi"),
        pytest.param({"working_dir": "/w", "session_id": "s"}, id="something with a folder"),
        pytest.param({"working_dir": ["/w"], "description": "", "message_count": 1}, id="a folder that is no text"),
        pytest.param({"type": "user", "sessionId": "s", "uuid": "u", "message": {}}, id="Claude Code"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_files_of_others_are_not_claimed(value: object) -> None:
    assert not goose.sniff(Sample((value,)))
