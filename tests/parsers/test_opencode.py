"""OpenCode: what is read from its database, its tree of files, its exports, and how each fact is decided."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import fits, junk, places, put
from tests.parsers.sessions import CORPUS, calls, losses, spoken

from demerit.model import Session, ToolCall
from demerit.parsers import chat, claude, codex, opencode
from demerit.parsers.records import Record, Sample, Source
from demerit.quality.assess import assess

FIXTURES = Path(__file__).parent / "opencode"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
LATER = datetime(2026, 6, 1, tzinfo=UTC)

Json = dict[str, Any]


# --- the three places, from one document ---------------------------------------------------------------------


def document(name: str) -> Json:
    loaded: Json = json.loads((FIXTURES / f"{name}.json").read_bytes())
    return loaded


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def as_export(doc: Json) -> list[Record]:
    return [Record(encoded(doc), 0)]


def as_tree(doc: Json) -> list[Record]:
    records = [Record(encoded(doc["info"]), 0)]
    for message in doc["messages"]:
        info = message["info"]
        records.append(Record(encoded(info), None, f"../../message/{info['sessionID']}/{info['id']}.json"))
    for message in doc["messages"]:
        for part in message["parts"]:
            name = f"../../part/{message['info']['id']}/{part['id']}.json"
            records.append(Record(encoded(part), None, name))
    return records


def as_rows(doc: Json) -> list[Record]:
    info = doc["info"]
    row = {
        "id": info["id"],
        "project_id": info["projectID"],
        "parent_id": info.get("parentID"),
        "directory": info["directory"],
        "title": info["title"],
        "version": info["version"],
        "permission": json.dumps(info["permission"]) if "permission" in info else None,
        "revert": json.dumps(info["revert"]) if "revert" in info else None,
        "time_created": info["time"]["created"],
        "time_updated": info["time"]["updated"],
    }
    records = [Record(encoded(row), None, "session")]
    for message in doc["messages"]:
        data = {key: value for key, value in message["info"].items() if key not in ("id", "sessionID")}
        for part in message["parts"] or [None]:
            held = part and {key: part[key] for key in part if key not in ("id", "sessionID", "messageID")}
            joined = {
                "session_id": info["id"],
                "message_id": message["info"]["id"],
                "message": json.dumps(data),
                "part": held and json.dumps(held),
            }
            records.append(Record(encoded(joined), None, "message"))
    return records


PLACES = {"an export": as_export, "files": as_tree, "the database": as_rows}


def read(doc: Json, source: Source = Source("log")) -> Session:  # noqa: B008 - immutable
    return opencode.parse(as_export(doc), source)[0]


def fixture(name: str) -> Session:
    return opencode.parse([Record((FIXTURES / f"{name}.json").read_bytes(), 0)], Source("log"))[0]


def version_2() -> list[Record]:
    records = []
    for line in (FIXTURES / "version_2.jsonl").read_text().splitlines():
        row = json.loads(line)["row"]
        if "data" in row:
            row["data"] = json.dumps(row["data"])
        records.append(Record(encoded(row), None, json.loads(line)["query"]))
    return records


# --- short forms ---------------------------------------------------------------------------------------------


def statuses(session: Session) -> dict[str, str]:
    return {(call.call_id or "").removeprefix("call_"): call.status.value for call in calls(session)}


def happened(session: Session) -> list[tuple[str, int | None, str]]:
    return [(event.kind, event.message_ordinal, event.detail) for event in session.events]


def tool(name: str, /, **state: Any) -> Json:
    return {"type": "tool", "id": "prt_1", "callID": "call_a", "tool": name, "state": state}


def said(*parts: Json, role: str = "assistant", **info: Any) -> Json:
    tokens = {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    common = {"id": "msg_1", "role": role, "time": {"created": 1772000001000}}
    if role == "assistant":
        common |= {"tokens": tokens, "modelID": "m", "providerID": "p"}
    return {"info": common | info, "parts": list(parts)}


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


def session_of(*messages: Json, **info: Any) -> Session:
    meta = {"id": "ses_1", "directory": "/home/dev/shop", "time": {"created": 1772000000000}} | info
    return read({"info": meta, "messages": list(messages)})


def call_of(part: Json) -> ToolCall:
    return calls(session_of(said(part)))[0]


# --- a plain session -----------------------------------------------------------------------------------------


def test_a_plain_session_is_read() -> None:
    session = fixture("plain")
    assert spoken(session) == [
        ("user", "human", "Please add a total to the cart page in src/cart.py"),
        ("assistant", "agent", "I will read it."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "The cart page has a total now."),
    ]
    assert (session.agent, session.source_id, session.title) == ("opencode", "ses_4a10plain", "Add a cart total")
    assert (session.cwd, session.branch, session.agent_version) == ("/home/dev/shop", None, "1.2.24")
    assert session.started == datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)
    assert session.ended == datetime(2026, 2, 25, 6, 13, 24, 900000, tzinfo=UTC)
    assert (session.relation, session.parent_source_id, session.losses) == (None, None, ())
    assert [message.model for message in session.messages] == [None, *["claude-sonnet-4-5"] * 3]
    assert [message.stop_reason for message in session.messages] == [None, "tool-calls", "tool-calls", "stop"]


def test_the_calls_of_a_plain_session_are_read() -> None:
    read_call, edit, shell = calls(fixture("plain"))
    assert (read_call.name, read_call.category, read_call.status, read_call.evidence) == (
        "read",
        "read",
        "ok",
        "status completed",
    )
    assert (edit.message_ordinal, edit.index, shell.index) == (2, 0, 1)
    assert (shell.status, shell.exit_code, shell.evidence) == ("ok", 0, "metadata exit 0")
    assert read_call.input is not None and read_call.result is not None
    assert read_call.result.head == "def cart(): ..."
    data = (FIXTURES / "plain.json").read_bytes()
    assert data[read_call.input.offset :].startswith(b'{"filePath": "/home/dev/shop/src/cart.py"}')
    assert read_call.at == datetime(2026, 2, 25, 6, 13, 22, 500000, tzinfo=UTC)


def test_reasoning_is_told_by_its_bytes_and_its_tokens() -> None:
    first = fixture("plain").messages[1]
    assert (first.thinking_kind, first.thinking_bytes) == ("signature", len("c2lnbmF0dXJl"))
    assert [body.head for body in first.thinking] == ["Look at the cart."]
    assert first.usage is not None and first.usage.reasoning_tokens == 5


def test_a_ciphertext_that_each_part_repeats_counts_once_and_a_scrubbed_one_never() -> None:
    def thought(cipher: str) -> Json:
        return {"type": "reasoning", "text": "abc", "metadata": {"openai": {"reasoningEncryptedContent": cipher}}}

    message = session_of(said(thought("Z0FBQUE"), thought("Z0FBQUE"))).messages[0]
    assert (message.thinking_kind, message.thinking_bytes) == ("ciphertext", 7)
    message = session_of(said(thought("REDACTED"))).messages[0]
    assert (message.thinking_kind, message.thinking_bytes) == ("text", 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", [place for place in PLACES if place != "an export"])
def test_files_and_the_database_tell_the_same_as_an_export(name: str, place: str) -> None:
    source = Source("log", bodies=False)
    expected = opencode.parse(as_export(document(name)), source)
    found = opencode.parse(PLACES[place](document(name)), source)
    assert [losses(session) for session in found] == [losses(session) for session in expected]
    replace = msgspec.structs.replace
    assert [replace(session, losses=()) for session in found] == [replace(session, losses=()) for session in expected]


def test_t59_a_session_of_the_global_project_has_its_own_folder() -> None:
    session = session_of(said(text("x"), path={"cwd": "/", "root": "/"}), projectID="global")
    assert session.cwd == "/home/dev/shop"


# --- statuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_id", "status", "evidence"),
    [
        pytest.param("a", "failed", "metadata exit 2 of make build", id="a command that failed"),
        pytest.param("b", "failed", "status error: oldString not found in content", id="Q7 the status says error"),
        pytest.param("c", "invalid", "tool invalid: ", id="T22 the tool invalid stands for a broken call"),
        pytest.param("d", "declined", "status error: The user rejected permission", id="the person said no"),
        pytest.param("e", "cancelled", "metadata interrupted true", id="an interrupt while it ran"),
        pytest.param("f", "invalid", "status error: The read tool was called", id="arguments that do not fit"),
        pytest.param("g", "invalid", "text: MCP error -32602", id="a server that did not take the arguments"),
        pytest.param("h", "failed", "text: MCP error -32000", id="a server that failed"),
        pytest.param("i", "failed", "no exit code: timed out", id="a command that took too long"),
        pytest.param("j", "cancelled", "no exit code: the user aborted it", id="a command that the person stopped"),
        pytest.param("k", "failed", "metadata exitCode 1 of npm run", id="T24 the code under its other name"),
        pytest.param("l", "unknown", "status completed, without an exit code", id="T24 no code at all"),
        pytest.param("m", "pending", "status pending", id="no result yet"),
        pytest.param("n", "failed", "status error: Subagent failed", id="a sub-agent that failed"),
    ],
)
def test_how_a_call_went(call_id: str, status: str, evidence: str) -> None:
    found = next(call for call in calls(fixture("tool_error")) if call.call_id == f"call_{call_id}")
    assert found.status == status
    assert found.evidence.startswith(evidence)


def test_t22_a_broken_call_has_the_name_that_the_model_gave() -> None:
    assert [call.name for call in calls(fixture("tool_error"))][2] == "bahs"


def test_q7_the_text_of_an_error_is_its_result() -> None:
    result = calls(fixture("tool_error"))[1].result
    assert result is not None and result.head == "Error: oldString not found in content"


def test_t21_a_completed_command_with_exit_code_1_failed() -> None:
    call = call_of(tool("bash", status="completed", input={"command": "npm test"}, output="", metadata={"exit": 1}))
    assert (call.status, call.exit_code) == ("failed", 1)


def test_t23_an_exit_code_that_is_an_answer_is_benign() -> None:
    assert statuses(fixture("benign_exit")) == {"a": "benign", "b": "benign", "c": "benign"}


@pytest.mark.parametrize(
    ("metadata", "output", "status"),
    [
        pytest.param({"exit": None}, "killed", "failed", id="a signal"),
        pytest.param({"exit": None}, "x\n(Command timed out after 60000 ms)", "failed", id="an old timeout"),
        pytest.param({"exit": None}, "x\n(Command was aborted)", "cancelled", id="an old abort"),
        pytest.param({"exit": 0}, "User aborted the command", "ok", id="words beside an exit code"),
        pytest.param({"status": "running"}, "", "unknown", id="a command in the background"),
        pytest.param({"exit": None}, "User aborted the command" + "." * 600, "failed", id="words far from the end"),
    ],
)
def test_a_command_without_an_exit_code(metadata: Json, output: str, status: str) -> None:
    part = tool("bash", status="completed", input={"command": "make"}, output=output, metadata=metadata)
    assert call_of(part).status == status


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("The user has specified a rule which prevents you from using this specific tool call.", "declined"),
        ("PermissionRejectedError: The user rejected permission to use this specific tool call.", "declined"),
        ("The user dismissed this question", "declined"),
        ("Tool execution was interrupted", "cancelled"),
        ("AbortError: The operation was aborted.", "cancelled"),
        ("Error: Cancelled", "cancelled"),
        ("Model tried to call unavailable tool 'foo'.", "invalid"),
        ("Unknown tool: foo", "invalid"),
        ("Invalid input for tool read: ...", "invalid"),
        ("File not found: The user rejected permission", "failed"),
        ("", "failed"),
    ],
)
def test_the_text_of_an_error_decides_by_how_it_begins(error: str, status: str) -> None:
    assert call_of(tool("read", status="error", input={"filePath": "a"}, error=error)).status == status


def test_a_status_of_the_future_is_unknown() -> None:
    assert call_of(tool("read", status="dreaming", input={})).status == "unknown"
    assert call_of({"type": "tool", "tool": "read"}).status == "unknown"


def test_only_a_web_or_foreign_tool_can_have_an_error_of_the_protocol_in_its_output() -> None:
    state = {"status": "completed", "input": {}, "output": "MCP error -32000: gone"}
    assert call_of(tool("docs_find", **state)).status == "failed"
    assert call_of(tool("read", **state)).status == "ok"


def test_q19_edits_name_their_file_so_that_churn_is_seen() -> None:
    session = fixture("old_steps")
    assert [call.file_paths for call in calls(session)] == [("/home/dev/shop/README.md",)] * 2
    assert assess(session, LATER).signals.edit_churn == 1


def test_a_patch_names_all_its_files() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Delete File: b.py\n*** End Patch"
    call = call_of(tool("apply_patch", status="completed", input={"patchText": patch}))
    assert (call.category, call.file_paths) == ("edit", ("a.py", "b.py"))


def test_what_a_command_is_called_makes_no_other_command() -> None:
    def run(words: str) -> str | None:
        return call_of(tool("bash", status="pending", input={"command": "ls", "description": words})).input_hash

    assert run("Lists") == run("Lists again") != None  # noqa: E711


def test_an_id_that_was_scrubbed_is_none() -> None:
    first = tool("read", status="completed", input={}) | {"callID": "REDACTED"}
    session = session_of(said(first, id="REDACTED"), parentID="REDACTED")
    assert calls(session)[0].call_id is None
    assert session.messages[0].usage is not None and session.messages[0].usage.key is None
    assert (session.relation, session.parent_source_id) == ("subagent", None)


@pytest.mark.parametrize(
    ("name", "category"),
    [("list", "search"), ("codesearch", "web"), ("question", "question"), ("plan_exit", "plan"), ("skill", "other")],
)
def test_what_kind_of_work_a_tool_does(name: str, category: str) -> None:
    assert call_of(tool(name, status="pending", input={})).category == category


# --- tokens --------------------------------------------------------------------------------------------------


def tokens(fresh: int, output: int, reasoning: int = 0, read: int = 0, write: int = 0, **more: int) -> Json:
    return {"input": fresh, "output": output, "reasoning": reasoning, "cache": {"read": read, "write": write}, **more}


@pytest.mark.parametrize(
    ("counts", "provider", "output"),
    [
        pytest.param(tokens(10, 20, 5, total=30), "openai", 20, id="a total without reasoning: it is in the output"),
        pytest.param(tokens(10, 20, 5, total=35), "openai", 25, id="a total with reasoning: it is beside the output"),
        pytest.param(tokens(10, 20, 5), "openai", 20, id="no total"),
        pytest.param(tokens(10, 20, 25), "openai", 45, id="more reasoning than output"),
        pytest.param(tokens(10, 20, 5), "google-vertex", 25, id="Google counts reasoning apart"),
    ],
)
def test_where_reasoning_is_counted(counts: Json, provider: str, output: int) -> None:
    usage = session_of(said(text("x"), tokens=counts, providerID=provider)).messages[0].usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (10, output, counts["reasoning"])


def test_the_classes_of_tokens_do_not_overlap() -> None:
    usage = fixture("plain").messages[1].usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens) == (10, 1000, 200)
    assert (usage.output_tokens, usage.context_tokens, usage.key) == (20, 1210, "msg_0003")


def test_a_count_below_zero_is_zero() -> None:
    usage = session_of(said(text("x"), tokens=tokens(-400, 20, 0, 500))).messages[0].usage
    assert usage is not None and (usage.input_tokens, usage.cache_read_tokens) == (0, 500)


def test_the_zeros_of_an_unanswered_request_are_no_usage() -> None:
    assert fixture("cut").messages[1].usage is None


def test_the_responses_that_an_old_version_put_into_one_message_are_told_apart() -> None:
    session = fixture("old_steps")
    answers = [message for message in session.messages if message.role == "assistant"]
    assert [answer.text for answer in answers] == ["The first.", "", "Both are fixed."]
    assert [answer.usage and answer.usage.context_tokens for answer in answers] == [100, 105, 126]
    keys = [answer.usage.key for answer in answers if answer.usage]
    assert keys == [keys[0], f"{keys[0]}:1", f"{keys[0]}:2"]
    assert [call.message_ordinal for call in calls(session)] == [1, 2]


def test_t11_a_database_and_its_backup_name_sessions_and_requests_alike() -> None:
    first, second = (opencode.parse(as_rows(document("plain")), Source(name)) for name in ("opencode", "opencode-1"))
    assert [session.source_id for session in first] == [session.source_id for session in second]
    keys = [[message.usage.key for message in session.messages if message.usage] for session in first + second]
    assert keys[0] == keys[1] and None not in keys[0] and len(set(keys[0])) == 3


# --- who wrote it --------------------------------------------------------------------------------------------


def test_what_is_added_to_a_prompt_is_not_of_the_person() -> None:
    assert spoken(fixture("old_steps"))[0] == ("user", "human", "Fix the two typos in README.md")


def test_a_message_of_added_text_alone_is_context() -> None:
    session = session_of(said(text("Continue if you have next steps", synthetic=True), role="user"))
    assert spoken(session) == [("context", "harness", "Continue if you have next steps")]


def test_the_prompts_of_a_sub_agent_are_of_the_agent() -> None:
    session = fixture("subagent")
    assert (session.relation, session.parent_source_id) == ("subagent", "ses_4a10plain")
    assert spoken(session)[0] == ("user", "agent", "Find all callers of total().")


def test_the_prompt_of_a_headless_run_is_of_no_person() -> None:
    assert spoken(fixture("headless_api_error"))[0] == ("user", "harness", "Update all dependencies of the shop")


def test_a_command_that_the_person_ran_is_neither_prompt_nor_call() -> None:
    session = fixture("interrupt")
    assert calls(session) == []
    assert [message.role for message in session.messages] == ["context", "user", "assistant", "context"]


def test_a_command_that_starts_a_sub_agent_is_a_prompt_whose_words_are_not_logged() -> None:
    session = session_of(said({"type": "subtask", "prompt": "review", "agent": "general"}, role="user"))
    assert spoken(session) == [("user", "human", "")]


def test_an_image_is_a_part_of_the_prompt() -> None:
    assert fixture("interrupt").messages[1].has_image


def test_what_a_plugin_wraps_around_a_prompt_is_left_out() -> None:
    session = session_of(said(text("<system-reminder>be nice</system-reminder>\nFix the cart"), role="user"))
    assert spoken(session) == [("user", "human", "Fix the cart")]
    session = session_of(said(text("<system-reminder>be nice</system-reminder>"), role="user"))
    assert session.messages[0].role == "context"


def test_a_prompt_without_parts_is_counted() -> None:
    session = session_of(said(role="user"))
    assert spoken(session) == [("user", "human", "")]
    assert losses(session) == {"no_parts": 1}


@pytest.mark.parametrize(
    "title", ["New session - 2026-02-25T06:13:20.000Z", "Child session - 2026-02-25T06:13:20Z", ""]
)
def test_a_title_that_nobody_gave_is_none(title: str) -> None:
    assert session_of(said(text("x")), title=title).title is None


# --- what happened beside --------------------------------------------------------------------------------------


def test_a_compaction_is_an_event_and_its_summary_no_answer() -> None:
    session = fixture("compaction")
    assert happened(session) == [("compaction", 1, "")]
    assert [(message.role, message.notice) for message in session.messages] == [
        ("user", None),
        ("assistant", None),
        ("context", "compaction_summary"),
        ("context", None),
        ("assistant", None),
    ]
    assert [usage.context_tokens for usage in session.loose_usage] == [91000]


def test_a_compaction_that_failed_is_none() -> None:
    error = {"name": "APIError", "data": {"message": "too long"}}
    session = session_of(said(summary=True, error=error, mode="compaction"))
    assert happened(session) == [("api_error", None, "too long")]


def test_an_interrupt_ends_the_session() -> None:
    session = fixture("interrupt")
    assert happened(session) == [("interrupt", 2, "")]
    assert session.messages[-1].notice == "interrupt"
    assert assess(session, LATER).ending == "interrupted"


def test_an_api_error_ends_the_session() -> None:
    session = fixture("headless_api_error")
    assert happened(session) == [("api_error", 0, "retried"), ("api_error", 1, "Overloaded"), ("rewind", 2, "")]
    assert spoken(session)[-1] == ("assistant", "harness", "Overloaded")
    assert assess(session, LATER).ending == "api_error"


def test_an_answer_that_grew_too_long_is_no_api_error() -> None:
    session = session_of(said(text("x"), error={"name": "MessageOutputLengthError", "data": {}}))
    assert (happened(session), session.messages[-1].author) == ([], "agent")


# --- forks ---------------------------------------------------------------------------------------------------


def test_what_a_fork_copied_is_left_out() -> None:
    session = fixture("fork")
    assert spoken(session) == [
        ("user", "human", "Now do it with a dictionary instead"),
        ("assistant", "agent", "It uses a dictionary."),
    ]
    assert (session.relation, session.parent_source_id) == ("fork", None)
    assert [message.ordinal for message in session.messages] == [0, 1]
    assert [call.message_ordinal for call in calls(session)] == [1]
    assert session.started == datetime(2026, 2, 25, 6, 15, tzinfo=UTC)


def test_a_fork_without_its_title_is_seen_by_its_old_messages() -> None:
    doc = document("fork")
    doc["info"]["title"] = "Renamed"
    session = read(doc)
    assert (len(session.messages), session.relation) == (2, "fork")


def test_an_imported_session_of_old_messages_keeps_them() -> None:
    doc = document("plain")
    doc["info"]["time"]["created"] += 10**9
    session = read(doc)
    assert (len(session.messages), session.relation) == (4, None)


def test_events_of_what_was_copied_are_left_out() -> None:
    doc = document("compaction")
    doc["info"]["title"] += " (fork #2)"
    doc["info"]["time"]["created"] = doc["messages"][-1]["info"]["time"]["created"] - 10
    session = read(doc)
    assert (session.events, session.loose_usage, len(session.messages)) == ((), (), 2)


# --- OpenCode 2 ----------------------------------------------------------------------------------------------


def second() -> dict[str, Session]:
    return {session.source_id: session for session in opencode.parse(version_2(), Source("opencode"))}


def test_a_database_of_version_2_gives_all_sessions_that_have_messages() -> None:
    assert list(second()) == ["ses_5two", "ses_5fork"]


def test_the_messages_of_version_2_are_read() -> None:
    session = second()["ses_5two"]
    assert [(message.role, message.author, message.text, message.notice) for message in session.messages] == [
        ("user", "human", "Add the total to the cart, please", None),
        ("assistant", "agent", "", None),
        ("context", "harness", "We work on the cart.", "compaction_summary"),
        ("context", "harness", "Continue with the task", None),
        ("context", "harness", "git status", None),
        ("assistant", "agent", "It is", None),
        ("context", "harness", "", "interrupt"),
        ("user", "human", "Go on with it then", None),
        ("assistant", "harness", "Overloaded", "api_error"),
    ]
    assert session.messages[0].has_image
    assert (session.title, session.agent_version, session.cwd) == ("Cart in two", "2.0.4", "/home/dev/shop")
    assert losses(session) == {"unknown_type": 1}


def test_the_calls_of_version_2_are_judged() -> None:
    session = second()["ses_5two"]
    assert statuses(session) == {
        "a": "benign",
        "b": "failed",
        "c": "unknown",
        "d": "failed",
        "e": "invalid",
        "f": "declined",
        "g": "declined",
        "h": "cancelled",
        "i": "pending",
        "j": "invalid",
    }
    assert calls(session)[3].file_paths == ("/home/dev/shop/src/cart.py",)


def test_what_version_2_counts_and_notes() -> None:
    session = second()["ses_5two"]
    usage = session.messages[1].usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.key) == (10, 27, 7, "msg_4")
    assert (session.messages[1].thinking_kind, session.messages[1].model) == ("ciphertext", "gpt-5.4")
    assert [loose.key for loose in session.loose_usage] == ["msg_6"]
    assert happened(session) == [
        ("api_error", 0, "retried"),
        ("model_change", 1, "gpt-5.4 -> gpt-5.5"),
        ("compaction", 1, ""),
        ("interrupt", 5, ""),
        ("api_error", 7, "Overloaded"),
    ]


def test_a_fork_in_version_2_names_its_origin() -> None:
    session = second()["ses_5fork"]
    assert (session.relation, session.parent_source_id) == ("fork", "ses_5two")
    assert spoken(session) == [("user", "human", "And once more, with feeling")]


def test_a_session_that_stands_in_both_forms_is_read_once() -> None:
    old = as_rows(document("plain"))
    rows = version_2()
    for record in old:
        data = record.data.replace(b"ses_4a10plain", b"ses_5two")
        rows.append(Record(data, None, "session" if record.part == "session" else "message"))
    rows.sort(key=lambda record: ("session", "session_v2", "session_message", "message").index(record.part))
    sessions = opencode.parse(rows, Source("opencode"))
    assert sorted(session.source_id for session in sessions) == ["ses_5fork", "ses_5two"]
    assert sum(len(session.messages) for session in sessions) == 10


def test_rows_of_other_types_beside_messages_of_version_1_change_nothing() -> None:
    rows = as_rows(document("plain"))
    row = {"session_id": "ses_4a10plain", "id": "x", "type": "model-switched", "data": '{"model": {"id": "m"}}'}
    rows.insert(1, Record(encoded(row), None, "session_message"))
    assert [len(session.messages) for session in opencode.parse(rows, Source("opencode"))] == [4]


# --- logs that are cut or broken ------------------------------------------------------------------------------


def test_a_call_that_was_cut_off_is_pending() -> None:
    session = fixture("cut")
    assert statuses(session) == {"a": "pending"} and session.losses == ()


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {"unknown_type": 3}
    assert [message.text for message in session.messages] == ["What is new in this version of it?", "Much."]


def test_a_document_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "interrupt.json").read_bytes()
    for size in range(0, len(data), 7):
        for session in opencode.parse([Record(data[:size], 0)], Source("log")):
            assert_well_formed(session)


def test_parts_of_a_message_that_is_not_there_are_counted() -> None:
    records = [record for record in as_tree(document("cut")) if "/message/" not in record.part]
    session = opencode.parse(records, Source("ses_4a16cut"))[0]
    assert losses(session) == {"orphan_part": 3}


def test_files_are_put_in_order_by_time_and_then_by_name() -> None:
    doc = document("plain")
    records = as_tree(doc)
    assert spoken(opencode.parse([records[0], *reversed(records[1:])], Source("x"))[0]) == spoken(fixture("plain"))


def test_a_source_without_records_has_no_session() -> None:
    assert opencode.parse([], Source()) == []


def test_a_row_that_does_not_say_whose_it_is_is_counted() -> None:
    rows = as_rows(document("plain"))
    rows.append(Record(b'{"session_id": 5, "message_id": "m", "message": "{}", "part": null}', None, "message"))
    assert losses(opencode.parse(rows, Source("x"))[0]) == {"no_session": 1, "wrong_type": 1}


def test_messages_of_a_session_that_has_no_row_are_read() -> None:
    session = opencode.parse(as_rows(document("plain"))[1:], Source("x"))[0]
    assert (session.source_id, len(session.messages)) == ("ses_4a10plain", 4)


def assert_well_formed(session: Session) -> None:
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]
    for event in session.events:
        assert event.message_ordinal is None or event.message_ordinal < len(session.messages)


# --- hostile content -----------------------------------------------------------------------------------------

NUMBER = (int, float)

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[str, tuple[type, ...]] = {
    "info": (dict,),
    "info.id": (str,),
    "info.title": (str,),
    "info.directory": (str,),
    "info.version": (str,),
    "info.parentID": (str,),
    "info.time": (dict,),
    "info.time.created": NUMBER,
    "messages": (list,),
    "messages.info": (dict,),
    "messages.info.id": (str,),
    "messages.info.role": (str,),
    "messages.info.time": (dict,),
    "messages.info.time.created": NUMBER,
    "messages.info.time.completed": NUMBER,
    "messages.info.tokens": (dict,),
    "messages.info.tokens.input": NUMBER,
    "messages.info.tokens.cache": (dict,),
    "messages.info.tokens.cache.read": NUMBER,
    "messages.info.modelID": (str,),
    "messages.info.providerID": (str,),
    "messages.info.finish": (str,),
    "messages.info.path": (dict,),
    "messages.info.error": (dict,),
    "messages.info.error.name": (str,),
    "messages.parts": (list,),
    "messages.parts.type": (str,),
    "messages.parts.text": (str,),
    "messages.parts.synthetic": (bool,),
    "messages.parts.mime": (str,),
    "messages.parts.tool": (str,),
    "messages.parts.callID": (str,),
    "messages.parts.tokens": (dict,),
    "messages.parts.tokens.output": NUMBER,
    "messages.parts.state": (dict,),
    "messages.parts.state.status": (str,),
    "messages.parts.state.error": (str, dict),
    "messages.parts.state.time": (dict,),
    "messages.parts.state.time.start": NUMBER,
    "messages.parts.state.metadata.exit": (int,),
    "messages.parts.state.metadata.interrupted": (bool,),
}
WRONG = ("wrong_type", "bad_time", "no_message", "not_an_object")


def wrong(sessions: list[Session]) -> int:
    return sum(losses(session).get(kind, 0) for session in sessions for kind in WRONG)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    doc = document(data.draw(st.sampled_from([name for name in NAMES if name != "unknown_type"])))
    at = data.draw(st.sampled_from(sorted(places(doc), key=repr)))
    new = data.draw(junk)
    before = opencode.parse(as_export(doc), Source("x"))
    after = opencode.parse(as_export(put(doc, at, new)), Source("x"))
    for session in after:
        assert_well_formed(session)
    wanted = READ.get(".".join(key for key in at if isinstance(key, str))) if isinstance(at[-1], str) else None
    if wanted is not None and not fits(new, wanted):
        assert wrong(after) > wrong(before), (at, new, [losses(session) for session in after])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_value_may_stand_in_any_row(data: st.DataObject) -> None:
    records = version_2() if data.draw(st.booleans()) else as_rows(document(data.draw(st.sampled_from(NAMES))))
    index = data.draw(st.integers(0, len(records) - 1))
    row = json.loads(records[index].data)
    inner = data.draw(st.sampled_from([key for key in ("data", "message", "part", "") if key == "" or row.get(key)]))
    value = json.loads(row[inner]) if inner else row
    changed = put(value, data.draw(st.sampled_from(sorted(places(value), key=repr))), data.draw(junk))
    row = row | {inner: json.dumps(changed)} if inner else changed
    records[index] = records[index]._replace(data=encoded(row))
    for session in opencode.parse(records, Source("x")):
        assert_well_formed(session)


@pytest.mark.parametrize("field", ["input", "output", "metadata", "error", "time", "content"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    state = b'{"status": "completed", "%s": %s}' % (field.encode(), deep)
    part = b'{"type": "tool", "tool": "bash", "state": %s}' % state
    whole = b'{"info": {"role": "assistant"}, "parts": [%s]}' % part
    opencode.parse([Record(b'{"info": {}, "messages": [%s]}' % whole, 0)], Source())


# --- whose log -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_its_own_exports_are_claimed_by_nobody_else(name: str) -> None:
    sample = Sample((document(name),), is_document=True)
    assert opencode.sniff(sample)
    assert not any(parser.PARSER.sniff(sample) for parser in (claude, codex, chat))


def test_the_file_of_a_session_is_claimed_by_nobody_else() -> None:
    sample = Sample((document("plain")["info"],), is_document=True)
    assert opencode.sniff(sample)
    assert not any(parser.PARSER.sniff(sample) for parser in (claude, codex, chat))


@pytest.mark.parametrize(
    ("tables", "is_ours"),
    [
        pytest.param({"session", "message", "part", "project", "todo"}, True, id="version 1"),
        pytest.param({"session_v2", "session_message", "event"}, True, id="version 2"),
        pytest.param({"session", "session_message"}, True, id="version 2 while it was new"),
        pytest.param({"sessions", "messages", "schema_version"}, False, id="Goose"),
        pytest.param({"ItemTable", "cursorDiskKV"}, False, id="Cursor"),
        pytest.param({"session", "user"}, False, id="a web site"),
        pytest.param({"message", "part"}, False, id="no sessions"),
    ],
)
def test_a_database_is_told_by_its_tables(tables: set[str], is_ours: bool) -> None:
    assert opencode.sniff(Sample(tables=frozenset(tables))) is is_ours


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(document("plain")["messages"][0]["info"], id="a message alone"),
        pytest.param(document("plain")["messages"][0]["parts"][0], id="a part alone"),
        pytest.param({"messages": [{"role": "user", "content": "hi"}]}, id="a list of messages"),
        pytest.param({"info": {"title": "x"}, "messages": []}, id="an object with the same keys"),
        pytest.param({"info": {"time": {}, "slug": "x"}, "messages": [{"role": "user"}]}, id="messages without info"),
        pytest.param([{"id": "1", "seq": 1, "content": {"role": "session", "content": {"data": {}}}}], id="Happy"),
        pytest.param({"sessionId": "s", "messages": [], "projectHash": "p"}, id="Gemini"),
        pytest.param({"loglines": []}, id="Claude Code's web export"),
        pytest.param({"id": "ses_1", "title": "x"}, id="something of the same name"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_files_of_others_are_not_claimed(value: object) -> None:
    assert not opencode.sniff(Sample((value,), is_document=True))


# --- real exports, where they are at hand ---------------------------------------------------------------------

REAL = sorted((CORPUS / "opencode").glob("*")) if CORPUS.is_dir() else []


@pytest.mark.skipif(not REAL, reason="no corpus beside the repository")
def test_real_exports_are_read_without_loss() -> None:
    found = []
    for path in REAL:
        data = path.read_bytes()
        try:
            sample = Sample((json.loads(data),), is_document=True)
        except ValueError:
            continue  # lines of another agent
        if opencode.sniff(sample):
            found += opencode.parse([Record(data, 0)], Source(path.stem, bodies=False))
    assert len(found) == 7
    assert all(session.losses == () and session.relation == "subagent" for session in found)
    bad = [call.evidence for session in found for call in calls(session) if call.status != "ok"]
    assert sorted(bad) == ["metadata exit 1 of bun run", "metadata exit 1 of npm test", "text: MCP error -32602"]
    assert all(message.usage for session in found for message in session.messages if message.role == "assistant")
