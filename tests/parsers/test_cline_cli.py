"""Cline's command line agent (docs/formats/cline-cli.md). Expectations are worked out by hand from the files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import fits, junk, put
from tests.parsers.sessions import calls, losses, prompts

from demerit.model import Session, ToolCall, Usage
from demerit.parsers import cline_cli
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "cline_cli"
NAMES = sorted(path.name.removesuffix(".messages.json") for path in FIXTURES.glob("*.messages.json"))
ID = "1777712400000_a1b2c"
PARTS = {"": f"{ID}.json", "compaction": f"{ID}.compaction.json"}
MESSAGES = Source(name=f"{ID}.messages")


def files_of(name: str) -> dict[str, Any]:
    files = {"messages": json.loads((FIXTURES / f"{name}.messages.json").read_bytes())}
    for kind in PARTS:
        path = FIXTURES / ".".join(filter(None, (name, kind, "json")))
        if path.exists():
            files[kind] = json.loads(path.read_bytes())
    return files


def read_files(files: dict[str, Any], source: Source = MESSAGES) -> Session:
    records = [
        Record(json.dumps(value).encode(), 0 if kind == "messages" else None, PARTS.get(kind, ""))
        for kind, value in files.items()
    ]
    (session,) = cline_cli.parse(records, source)
    return session


def fixture(name: str, source: Source = MESSAGES) -> Session:
    return read_files(files_of(name), source)


def conversation(*messages: dict[str, Any]) -> Session:
    return read_files({"messages": {"agent": "lead", "sessionId": ID, "messages": list(messages)}})


def judged(name: str, content: object, is_error: bool | None = None, **given: Any) -> ToolCall:
    made = {"type": "tool_use", "id": "t", "name": name, "input": given}
    result = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": is_error}
    session = conversation({"role": "assistant", "content": [made]}, {"role": "user", "content": [result]})
    (call,) = calls(session)
    return call


def spoken(session: Session) -> list[tuple[str, str, str | None]]:
    return [(message.role, message.author, message.notice) for message in session.messages]


def answers(session: Session) -> list[str]:
    return [message.text for message in session.messages if message.role == "assistant"]


def counted(usage: Usage | None) -> tuple[int, int, int, int] | None:
    if usage is None:
        return None
    return usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.output_tokens


# --- one session ------------------------------------------------------------------------------------------


def test_a_plain_session_tells_who_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.title) == ("cline-cli", ID, "Half up rounding")
    assert (session.cwd, session.agent_version, session.models) == ("/home/dev/shop", "3.2.0", ("claude-sonnet-4",))
    assert session.started == datetime(2026, 5, 2, 9, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 5, 2, 9, 1, 10, tzinfo=UTC)
    assert (session.terminal, session.losses, session.events) == (True, (), ())


def test_what_was_typed_is_told_from_what_is_put_around_it() -> None:
    session = fixture("plain")
    assert prompts(session) == ["round half up"]
    assert answers(session) == ["I read the cart.", "", "Totals round half up."]


def test_calls_are_read_with_their_files() -> None:
    assert [(call.name, call.category, call.status.value, call.file_paths) for call in calls(fixture("plain"))] == [
        ("read_files", "read", "ok", ("/home/dev/shop/cart.py", "/home/dev/shop/tax.py")),
        ("search_codebase", "search", "benign", ()),
        ("apply_patch", "edit", "ok", ("cart.py",)),
        ("submit_and_exit", "other", "ok", ()),
    ]


def test_the_input_holds_what_was_cached() -> None:
    usages = [message.usage for message in fixture("plain").messages if message.role == "assistant"]
    assert [counted(usage) for usage in usages] == [(200, 9000, 300, 120), (500, 9300, 0, 60), (200, 9700, 0, 20)]
    assert [usage.key for usage in usages if usage] == ["m2", "m4", "m6"]


def test_without_the_other_files_a_session_is_read_as_well() -> None:
    session = read_files({"messages": files_of("plain")["messages"]})
    assert (session.source_id, session.cwd, session.terminal) == (ID, None, False)
    assert prompts(session) == ["round half up"]


def test_a_prompts_first_line_is_no_title() -> None:
    assert fixture("fork").title is None


# --- how a call went --------------------------------------------------------------------------------------


def test_q1_q2_q13_flags_and_exit_codes_decide() -> None:
    assert [(call.name, call.status.value, call.exit_code) for call in calls(fixture("tool_error"))] == [
        ("run_commands", "ok", 0),
        ("run_commands", "benign", 1),
        ("run_commands", "cancelled", None),
        ("run_commands", "failed", None),  # of two commands: no one code is the call's
        ("editor", "failed", None),
        ("run_commands", "declined", None),
        ("fly", "invalid", None),
        ("read_files", "invalid", None),
        ("shop__stock", "failed", None),
        ("fetch_web_content", "ok", None),
        ("run_commands", "unknown", None),
    ]


def test_q26_tools_are_mapped() -> None:
    categories = [call.category for call in calls(fixture("tool_error"))]
    assert categories == [
        "shell", "shell", "shell", "shell", "edit", "shell", "other", "read", "mcp", "web", "shell",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("operations", "status", "code"),
    [
        pytest.param([("make", True, None), ("make", True, None)], "ok", None, id="all worked"),
        pytest.param([("make", True, None)], "ok", 0, id="one worked"),
        pytest.param([("make", False, "Command failed: Command exited with code 2")], "failed", 2, id="an exit code"),
        pytest.param(
            [("make", False, "Command failed: Command timed out after 30000ms")], "failed", None, id="too slow"
        ),
        pytest.param(
            [("rg x", False, "[Command exited with code 1]"), ("ls", True, None)], "benign", None, id="no match"
        ),
        pytest.param(
            [("rg x", False, "[Command exited with code 2]"), ("ls", True, None)], "failed", None, id="one failed"
        ),
    ],
)
def test_commands_are_judged_together(operations: list[Any], status: str, code: int | None) -> None:
    content = [{"query": query, "result": "", "success": ok, "error": error} for query, ok, error in operations]
    call = judged("run_commands", content, commands=[query for query, _, _ in operations])
    assert (call.status.value, call.exit_code) == (status, code if len(operations) == 1 else call.exit_code), (
        call.evidence
    )


def test_a_search_that_went_wrong_failed() -> None:
    content = [{"query": "x", "result": "", "success": False, "error": "Search failed: bad pattern"}]
    assert judged("search_codebase", content).status == "failed"


def test_a_call_without_a_result_is_pending() -> None:
    assert [call.status for call in calls(fixture("pending"))] == ["pending"]


# --- who wrote it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "author"),
    [
        pytest.param({"interactive": True}, "human", id="a person"),
        pytest.param({"interactive": False}, "harness", id="nobody at the terminal"),
        pytest.param({"metadata": {"sessionHistoryOrigin": {"mode": "user"}}}, "human", id="started by a person"),
        pytest.param({"metadata": {"sessionHistoryOrigin": {"mode": "automation"}}}, "harness", id="started by a rule"),
        pytest.param(
            {"metadata": {"sessionHistoryOrigin": {"mode": "user", "trigger": "nightly"}}},
            "harness",
            id="on a schedule",
        ),
    ],
)
def test_who_wrote_the_prompt(about: dict[str, Any], author: str) -> None:
    files = files_of("pending")
    files[""] = {"session_id": ID, **about}
    assert read_files(files).messages[0].author == author


def test_a_run_that_nobody_sits_at_records_its_own_end() -> None:
    session = fixture("headless")
    assert (session.terminal, spoken(session)[0]) == (True, ("user", "harness", None))


@pytest.mark.parametrize(
    ("name", "own"),
    [
        pytest.param("subagent", f"{ID}__agent_7", id="a sub-agent"),
        pytest.param("teammate", f"{ID}__teamtask__agent_7", id="a team mate"),
    ],
)
def test_q28_a_sub_agent_names_its_parent_and_its_prompt_is_an_agents(name: str, own: str) -> None:
    files = files_of(name)
    files[""] = files_of("plain")[""]
    session = read_files(files, Source(name="agent_7.messages"))
    assert (session.source_id, session.parent_source_id, session.relation) == (own, ID, "subagent")
    assert spoken(session) == [("user", "agent", None), ("assistant", "agent", None)]
    assert (session.cwd, session.title, session.terminal) == ("/home/dev/shop", None, False)


def test_t10_what_a_fork_copied_is_left_out() -> None:
    session = fixture("fork")
    assert (session.relation, session.parent_source_id) == ("fork", "1777700000000_zzzzz")
    assert (prompts(session), answers(session)) == (["new"], ["New answer."])


def test_a_session_of_another_tool_is_continued() -> None:
    session = fixture("imported")
    assert (session.relation, session.parent_source_id) == ("continuation", "019e7044")


def test_a_reminder_beside_results_is_no_prompt() -> None:
    made = {"type": "tool_use", "id": "t", "name": "read_files", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    session = conversation(
        {"role": "assistant", "content": [made]},
        {"role": "user", "content": [result, {"type": "text", "text": "Remember the goal."}]},
        {"role": "user", "content": "status", "metadata": {"displayRole": "system"}},
    )
    assert prompts(session) == []


def test_an_image_is_a_prompt() -> None:
    image = {"type": "image", "data": "AA", "mediaType": "image/png"}
    session = conversation({"role": "user", "content": [image, {"type": "text", "text": "this"}]})
    assert [(message.text, message.has_image) for message in session.messages] == [("this", True)]


# --- what happened beside ----------------------------------------------------------------------------------


def test_a_compaction_is_told_by_its_own_file_or_by_its_summary() -> None:
    assert [(event.kind, event.message_ordinal) for event in fixture("compaction").events] == [("compaction", 1)]
    session = fixture("summary")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("compaction", 1)]
    assert spoken(session)[2] == ("context", "harness", "compaction_summary")


def test_t20_an_error_that_ends_the_session_is_a_message() -> None:
    session = fixture("api_error")
    assert spoken(session)[-1] == ("assistant", "harness", "api_error")
    assert [event.kind for event in session.events] == ["api_error"]


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {"no_type": 1, "orphan_result": 1, "unknown_type": 2}
    assert (prompts(session), answers(session)) == (["hi"], ["Hello."])


def test_a_cut_file_is_read_up_to_its_last_whole_message_and_the_rest_is_a_loss() -> None:
    (session,) = cline_cli.parse([Record((FIXTURES / "cut.messages.json").read_bytes(), 0)], MESSAGES)
    assert losses(session) == {"malformed_tail": 1}
    assert [(message.role, message.text) for message in session.messages] == [
        ("user", "round half up"),
        ("assistant", "I read the cart."),
    ]
    assert [call.status.value for call in session.messages[1].calls] == ["ok", "benign"]


# --- hostile content --------------------------------------------------------------------------------------

# Fields that are read, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("messages", "agent"): (str,),
    ("messages", "sessionId"): (str,),
    ("messages", "updated_at"): (str,),
    ("messages", "messages", "role"): (str,),
    ("messages", "messages", "content"): (str, list),
    ("messages", "messages", "content", "type"): (str,),
    ("messages", "messages", "content", "text"): (str,),
    ("messages", "messages", "content", "name"): (str,),
    ("messages", "messages", "content", "is_error"): (bool,),
    ("messages", "messages", "modelInfo"): (dict,),
    ("messages", "messages", "metrics", "inputTokens"): (int,),
    ("messages", "messages", "ts"): (int, float),
    ("", "session_id"): (str,),
    ("", "status"): (str,),
    ("", "interactive"): (bool,),
    ("", "started_at"): (str,),
    ("", "cwd"): (str,),
    ("", "metadata"): (dict,),
    ("", "metadata", "title"): (str,),
    ("", "metadata", "fork", "forkedAt"): (str,),
    ("compaction", "source_message_count"): (int,),
}


def places(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inside: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, inner in inside:
        yield (*at, key)
        yield from places(inner, (*at, key))


@settings(max_examples=300)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    files = files_of(data.draw(st.sampled_from([name for name in NAMES if name not in ("cut", "unknown_type")])))
    at = data.draw(st.sampled_from(sorted(places(files), key=repr)))
    new = data.draw(junk)
    before = losses(read_files(files))
    session = read_files(put(files, at, new))
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for event in session.events:
        assert event.message_ordinal is None or event.message_ordinal < len(session.messages)
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and isinstance(at[-1], str) and not fits(new, wanted):
        wrong = ("wrong_type", "bad_time")
        after = losses(session)
        assert sum(after.get(kind, 0) for kind in wrong) > sum(before.get(kind, 0) for kind in wrong), (at, new, after)


def test_a_folder_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "plain.messages.json").read_bytes()
    about = (FIXTURES / "plain.json").read_bytes()
    for size in range(1, len(about), 5):
        cline_cli.parse([Record(data, 0), Record(about[:size], None, f"{ID}.json")], MESSAGES)
        cline_cli.parse([Record(data[: size * 4], 0)], MESSAGES)


# --- whose log --------------------------------------------------------------------------------------------


def document(value: object) -> Sample:
    return Sample((value,), is_document=True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cut"])
def test_its_own_files_are_claimed(name: str) -> None:
    assert cline_cli.sniff(document(files_of(name)["messages"]))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"messages": []}, id="a request body"),
        pytest.param({"messages": [], "agent": "lead"}, id="no session"),
        pytest.param({"messages": [], "agent": "build", "sessionId": "s"}, id="an agent of another kind"),
        pytest.param({"session_id": ID, "status": "idle"}, id="the file that says where it ran"),
        pytest.param([{"role": "user", "content": "hi"}], id="a list of messages"),
        pytest.param(3, id="a number"),
    ],
)
def test_other_values_are_not_claimed(value: object) -> None:
    assert not cline_cli.sniff(document(value))
    assert not cline_cli.sniff(Sample((value,)))
