"""Task folders of Cline, Roo and Kilo (docs/formats/cline.md). Expectations are worked out by hand from the files."""

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
from tests.parsers.sessions import CORPUS, calls, losses, prompts, statuses

from demerit.model import Session, ToolCall, Usage
from demerit.parsers import cline
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "cline"
NAMES = sorted(path.name.removesuffix(".ui.json") for path in FIXTURES.glob("*.ui.json"))
PARTS = {
    "api": "api_conversation_history.json",
    "task": "task_metadata.json",
    "item": "history_item.json",
}
TASK = "1777712400000"
UI = Source(name="ui_messages")


def files_of(name: str) -> dict[str, Any]:
    return {
        kind: json.loads(path.read_bytes())
        for kind in ("ui", *PARTS)
        if (path := FIXTURES / f"{name}.{kind}.json").exists()
    }


def read_files(files: dict[str, Any], source: Source = UI) -> Session:
    records = [
        Record(json.dumps(value).encode(), 0 if kind == "ui" else None, PARTS.get(kind, ""))
        for kind, value in files.items()
    ]
    (session,) = cline.parse(records, source)
    return session


def fixture(name: str, *without: str) -> Session:
    return read_files({kind: value for kind, value in files_of(name).items() if kind not in without})


def read(*rows: object) -> Session:
    return read_files({"ui": list(rows)})


def row(kind: str, text: object = None, *, ask: bool = False, **more: Any) -> dict[str, Any]:
    how = "ask" if ask else "say"
    shown = text if isinstance(text, str) or text is None else json.dumps(text)
    return {"ts": 1777712400000, "type": how, how: kind, "text": shown, **more}


def request(text: str | None = "<task>hi</task>", **more: Any) -> dict[str, Any]:
    return row("api_req_started", {"request": text, "tokensIn": 1, "tokensOut": 1, **more})


def spoken(session: Session) -> list[tuple[str, str, str | None]]:
    return [(message.role, message.author, message.notice) for message in session.messages]


def answers(session: Session) -> list[str]:
    return [message.text for message in session.messages if message.role == "assistant"]


def counted(usage: Usage | None) -> tuple[int, int, int, int] | None:
    if usage is None:
        return None
    return usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.output_tokens


def judged(command: str, result: str) -> ToolCall:
    (call,) = calls(
        read(
            row("text", "hi"),
            request(),
            row("command", command, ask=True),
            request(f"[execute_command for '{command}'] Result:\n{result}"),
        )
    )
    return call


# --- what was shown, alone --------------------------------------------------------------------------------


def test_a_plain_task_tells_who_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.cwd) == ("cline", TASK, "/home/dev/shop")
    assert session.started == datetime(2026, 5, 2, 9, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 5, 2, 9, 0, 32, tzinfo=UTC)
    assert session.losses == ()
    assert session.events == ()
    assert session.loose_usage == ()
    assert not session.terminal


def test_rows_of_one_request_are_one_message() -> None:
    session = fixture("plain")
    assert answers(session) == ["I will read it.", "", "Totals round half up.", "Which tests?", "Then the cart."]
    assert session.messages[1].model == "claude-sonnet-4"
    assert (session.messages[1].thinking_bytes, session.messages[1].thinking_kind) == (16, "text")


def test_only_what_a_person_wrote_is_a_prompt() -> None:
    session = fixture("plain")
    assert prompts(session) == ["round half up in cart.py", "thanks, and the tests?", "cart"]
    assert [message.has_image for message in session.messages if message.role == "user"] == [False, True, False]


def test_results_stand_in_the_next_request() -> None:
    session = fixture("plain")
    assert [(call.name, call.category, call.status.value, call.file_paths) for call in calls(session)] == [
        ("read_file", "read", "ok", ("cart.py",)),
        ("replace_in_file", "edit", "ok", ("cart.py",)),
        ("ask_followup_question", "question", "ok", ()),
    ]
    first = calls(session)[0]
    assert first.result is not None
    assert first.result.head.startswith("round(total, 2)")


def test_each_request_counts_once_and_cached_tokens_are_apart() -> None:
    usages = [message.usage for message in fixture("plain").messages if message.role == "assistant"]
    assert [counted(usage) for usage in usages] == [
        (1200, 9000, 300, 80),
        (100, 10000, 0, 60),
        (90, 10500, 0, 20),
        (80, 10800, 0, 15),
        (70, 10900, 0, 10),
    ]
    assert [usage.key for usage in usages if usage][:2] == [f"{TASK}:1777712401000", f"{TASK}:1777712406000"]


def test_q1_q2_fixed_texts_decide_and_words_do_not() -> None:
    session = fixture("tool_error")
    assert [(call.name, call.status.value, call.exit_code) for call in calls(session)] == [
        ("execute_command", "ok", 0),
        ("execute_command", "failed", 2),
        ("execute_command", "benign", 1),
        ("execute_command", "declined", None),
        ("execute_command", "unknown", None),
        ("execute_command", "unknown", None),
        ("replace_in_file", "failed", None),
        ("write_to_file", "invalid", None),
        ("use_mcp_tool", "failed", None),
        ("write_to_file", "declined", None),
        ("read_file", "ok", None),
    ]
    assert losses(session) == {}


def test_calls_that_failed_before_they_were_shown_are_told_by_their_results() -> None:
    failed = calls(fixture("tool_error"))[6:8]
    assert [(call.file_paths, call.input_hash) for call in failed] == [(("cart.py",), None)] * 2


@pytest.mark.parametrize(
    ("result", "status", "code"),
    [
        pytest.param("Command executed successfully (exit code 0).", "ok", 0, id="ok"),
        pytest.param("Command failed with exit code 127.\nOutput:\nx", "failed", 127, id="failed"),
        pytest.param(
            "Command executed in terminal  within working directory '/w'. Exit code: 3", "failed", 3, id="Roo"
        ),
        pytest.param(
            "Command executed in terminal \nOutput:\nExit code: 3", "unknown", None, id="an output that says so"
        ),
        pytest.param("The user denied this operation.", "declined", None, id="refused"),
        pytest.param(
            "The user denied this operation and provided the following feedback:\n<feedback>\nno\n</feedback>",
            "declined",
            None,
            id="refused with a reason",
        ),
        pytest.param(
            "Skipping tool [execute_command] due to user rejecting a previous tool.", "cancelled", None, id="after"
        ),
        pytest.param("Command timed out after 30 seconds. Running in background.", "unknown", None, id="still running"),
        pytest.param("Command executed.\nOutput:\nerror: 3 failed", "unknown", None, id="T25 words of an output"),
        pytest.param("This tool cannot be used in PLAN MODE. ...", "failed", None, id="in plan mode"),
        pytest.param("", "unknown", None, id="nothing"),
    ],
)
def test_how_a_command_went(result: str, status: str, code: int | None) -> None:
    call = judged("make test", result)
    assert (call.status.value, call.exit_code) == (status, code), call.evidence


def test_an_interrupt_ends_the_session() -> None:
    session = fixture("interrupted")
    assert spoken(session) == [
        ("user", "human", None),
        ("assistant", "agent", None),
        ("context", "harness", "interrupt"),
    ]
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("interrupt", 1)]


def test_t20_an_api_error_without_an_answer_is_a_message_before_what_was_written_next() -> None:
    session = fixture("api_error")
    assert spoken(session) == [
        ("user", "human", None),
        ("assistant", "harness", "api_error"),
        ("user", "human", None),
        ("assistant", "agent", None),
        ("user", "human", None),
        ("assistant", "harness", "api_error"),
    ]
    assert [event.message_ordinal for event in session.events if event.kind == "api_error"] == [0, 0, 4]


def test_a_try_that_failed_counts_once_though_the_last_one_is_told_twice() -> None:
    def row(ts: int, kind: str, name: str, text: str) -> dict[str, object]:
        return {"ts": ts, "type": kind, kind: name, "text": text}

    rows = [
        row(1777712400000, "say", "text", "explain"),
        row(1777712401000, "say", "api_req_started", '{"request": "<task>explain</task>"}'),
        row(1777712402000, "say", "error_retry", '{"attempt": 1, "maxAttempts": 3}'),
        row(1777712403000, "say", "error_retry", '{"attempt": 3, "maxAttempts": 3, "failed": true}'),
        row(1777712404000, "ask", "api_req_failed", "overloaded"),
        row(1777712405000, "ask", "api_req_failed", "overloaded"),  # older versions ask without a row before
        row(1777712406000, "say", "error_retry", "no JSON"),
        row(1777712407000, "ask", "api_req_failed", "overloaded"),
        row(1777712408000, "say", "error_retry", '{"attempt": 3, "failed": true}'),
        row(1777712409000, "say", "api_req_started", '{"request": "<task>explain</task>"}'),
        row(1777712410000, "ask", "api_req_failed", "overloaded"),  # of another request
    ]
    (session,) = cline.parse([Record(json.dumps(rows).encode(), 0)], Source(name="ui_messages"))
    assert [event.kind for event in session.events] == ["api_error"] * 7


def test_a_summary_is_no_prompt_and_its_draft_is_none() -> None:
    session = fixture("compaction")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("compaction", 1)]
    assert spoken(session)[2] == ("context", "harness", "compaction_summary")


def test_requests_that_were_taken_back_cost_what_they_cost() -> None:
    session = fixture("rewind")
    assert [event.kind for event in session.events] == ["rewind"]
    assert [counted(usage) for usage in session.loose_usage] == [(900, 100, 0, 50)]
    assert session.loose_usage[0].is_sum


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {"no_type": 1, "not_an_object": 1, "unknown_type": 1}
    assert (prompts(session), answers(session)) == (["hi"], ["Hello."])


def test_a_cut_list_is_read_as_far_as_it_goes() -> None:
    (session,) = cline.parse([Record((FIXTURES / "cut.ui.json").read_bytes(), 0)], UI)
    assert losses(session) == {"malformed_tail": 1}
    assert statuses(session) == ["ok"]


def test_drafts_of_calls_are_no_calls() -> None:
    draft = row("tool", {"tool": "readFile", "path": "a"}, partial=True)
    assert statuses(read(row("text", "hi"), request(), draft, row("text", "Hello."))) == []


def test_q17_calls_that_were_resumed_past_are_cancelled() -> None:
    asked = row("command", "make", ask=True)
    session = read(row("text", "hi"), request(), asked, request("[TASK RESUMPTION] This task was interrupted."))
    assert statuses(session) == ["cancelled"]


def test_a_call_at_the_end_is_pending() -> None:
    assert statuses(read(row("text", "hi"), request(), row("command", "make", ask=True))) == ["pending"]


# --- with the conversation --------------------------------------------------------------------------------


def test_native_calls_are_read_from_the_history_and_tokens_from_what_was_shown() -> None:
    session = fixture("native")
    assert (session.source_id, session.agent_version, session.models) == (TASK, "3.40.0", ("claude-sonnet-4",))
    assert [(call.name, call.call_id, call.status.value, call.exit_code) for call in calls(session)] == [
        ("read_file", "t1", "ok", None),
        ("read_file", "t2", "ok", None),
        ("execute_command", "t3", "failed", 1),
    ]
    assert answers(session) == ["Reading.", "", "It fails."]
    assert [counted(message.usage) for message in session.messages if message.role == "assistant"] == [
        (500, 7000, 0, 40),
        (50, 7500, 0, 30),
        (50, 7600, 0, 5),
    ]
    assert (session.messages[1].thinking_bytes, session.messages[1].thinking_kind) == (12, "signature")
    assert losses(session) == {}


def test_both_files_tell_of_the_same_calls() -> None:
    assert [(call.name, call.status, call.file_paths) for call in calls(fixture("native", "api"))] == [
        (call.name, call.status, call.file_paths) for call in calls(fixture("native"))
    ]


def test_notes_on_a_call_are_no_part_of_its_input() -> None:
    files = files_of("native")
    before = calls(read_files(files))[0].input_hash
    del files["api"][1]["content"][2]["input"]["task_progress"]
    assert calls(read_files(files))[0].input_hash == before


def test_calls_in_tags_are_read() -> None:
    session = fixture("xml")
    (call,) = calls(session)
    assert (call.name, call.status.value, call.file_paths) == ("apply_diff", "declined", ("cart.py",))
    assert answers(session) == ["Now.", "Not done."]
    assert session.messages[1].thinking_bytes == len("A diff.")
    assert [counted(message.usage) for message in session.messages[1:]] == [(100, 0, 0, 10), (100, 0, 0, 12)]


def test_a_history_that_lacks_an_answer_is_not_used() -> None:
    files = files_of("native")
    files["api"] = files["api"][2:]
    session = read_files(files)
    assert len(calls(session)) == 3
    assert [call.call_id for call in calls(session)] == [None] * 3


def test_a_prompt_after_the_history_is_kept() -> None:
    files = files_of("native")
    files["ui"].append({"ts": 1777712420000, "type": "say", "say": "user_feedback", "text": "and now?"})
    assert prompts(read_files(files))[-1] == "and now?"


def test_roos_own_results_are_read_and_its_subtask_names_its_parent() -> None:
    session = fixture("roo")
    assert (session.relation, session.parent_source_id) == ("subagent", "019e7044-0000-7000-8000-000000000001")
    assert (session.source_id, session.cwd, session.terminal) == (
        "019e7044-0000-7000-8000-000000000002",
        "/home/dev/shop",
        True,
    )
    assert [(call.name, call.status.value, call.file_paths) for call in calls(session)] == [
        ("read_file", "ok", ("stock.py", "cart.py")),
        ("write_to_file", "invalid", ("cart.py",)),
        ("execute_command", "declined", ()),
    ]
    assert spoken(session)[0] == ("user", "agent", None)
    assert prompts(session) == ["not that one"]


def test_roo_logs_the_whole_input_which_holds_what_was_cached() -> None:
    usages = [message.usage for message in fixture("roo").messages if message.role == "assistant"]
    assert [counted(usage) for usage in usages] == [
        (1000, 8000, 100, 40),
        (400, 9000, 0, 30),
        (200, 9300, 0, 25),
        (200, 9400, 0, 10),
    ]


def test_of_requests_that_were_not_logged_only_errors_tell() -> None:
    assert [(call.name, call.status.value) for call in calls(fixture("roo_alone"))] == [
        ("read_file", "unknown"),
        ("write_to_file", "invalid"),
        ("execute_command", "unknown"),
    ]


def test_a_request_as_it_was_sent_is_a_session_with_its_broken_call() -> None:
    (session,) = cline.parse([Record((FIXTURES / "body.json").read_bytes(), 0)], Source(name="body"))
    assert (session.source_id, session.cwd) == ("body", "/home/dev/shop")
    assert spoken(session) == [
        ("system", "harness", None),
        ("user", "human", None),
        ("assistant", "agent", None),
        ("context", "harness", None),
    ]
    assert [(call.name, call.status.value) for call in calls(session)] == [("read_file", "invalid")]
    assert session.messages[2].model == "qwen3-max"


def test_a_request_that_was_not_answered_names_its_model() -> None:
    body = {
        "model": "qwen3-max",
        "messages": [
            {"role": "system", "content": "You are Roo, a highly skilled software engineer."},
            {"role": "user", "content": [{"type": "text", "text": "<task>\nread the plan\n</task>"}]},
        ],
    }
    (session,) = cline.parse([Record(json.dumps(body).encode(), 0)], Source(name="body"))
    assert session.models == ("qwen3-max",)
    assert spoken(session) == [("system", "harness", None), ("user", "human", None)]


def test_a_report_needs_no_bodies() -> None:
    session = read_files(files_of("native"), UI._replace(bodies=False, text_bytes=3))
    assert all(call.input is None and call.result is None for call in calls(session))
    assert (session.messages[0].text, answers(session)[0]) == ("fix the stock", "Rea")


# --- hostile content --------------------------------------------------------------------------------------

# Fields that are read, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("ui", "ts"): (int, float),
    ("ui", "type"): (str,),
    ("ui", "say"): (str,),
    ("ui", "ask"): (str,),
    ("ui", "text"): (str,),
    ("ui", "images"): (list,),
    ("ui", "partial"): (bool,),
    ("ui", "conversationHistoryIndex"): (int,),
    ("ui", "modelInfo"): (dict,),
    ("ui", "modelInfo", "modelId"): (str,),
    ("api", "role"): (str,),
    ("api", "content"): (str, list),
    ("api", "content", "type"): (str,),
    ("api", "content", "text"): (str,),
    ("api", "content", "id"): (str,),
    ("api", "content", "name"): (str,),
    ("api", "content", "tool_use_id"): (str,),
    ("api", "content", "is_error"): (bool,),
    ("api", "ts"): (int, float),
    ("task", "environment_history"): (list,),
    ("item", "id"): (str,),
    ("item", "parentTaskId"): (str,),
    ("item", "workspace"): (str,),
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
    assert_well_formed(session)
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and isinstance(at[-1], str) and not fits(new, wanted):
        wrong = ("wrong_type", "bad_time")
        after = losses(session)
        assert sum(after.get(kind, 0) for kind in wrong) > sum(before.get(kind, 0) for kind in wrong), (at, new, after)


def test_a_folder_may_be_cut_at_any_byte() -> None:
    shown, sent = ((FIXTURES / f"native.{kind}.json").read_bytes() for kind in ("ui", "api"))
    for size in range(0, len(sent), 5):
        parts = [Record(shown[:size] or b"[", 0), Record(sent[: len(sent) - size], None, PARTS["api"])]
        for session in cline.parse(parts, UI):
            assert_well_formed(session)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<read_file>", id="calls"),
        pytest.param("<thinking>", id="thoughts"),
        pytest.param("<feedback>", id="prompts"),
        pytest.param("<tool_call>", id="calls in another form"),
        pytest.param("<read_file><path>", id="parameters"),
    ],
)
def test_tags_that_are_never_closed_take_no_time_of_n_times_n(text: str) -> None:
    many = text * (300_000 // len(text))
    entries = [
        {"role": "user", "content": f"<task>\nhi\n</task>{many}"},
        {"role": "assistant", "content": many},
        {
            "role": "user",
            "content": [{"type": "text", "text": "[ERROR] You did not use a tool in your previous response!"}],
        },
    ]
    read_files({"ui": [], "api": entries})


def assert_well_formed(session: Session) -> None:
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]
    for event in session.events:
        assert event.message_ordinal is None or event.message_ordinal < len(session.messages)


# --- whose log --------------------------------------------------------------------------------------------


def document(value: object) -> Sample:
    return Sample((value,), is_document=True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cut"])
def test_its_own_files_are_claimed(name: str) -> None:
    assert cline.sniff(document(files_of(name)["ui"]))


def test_a_request_as_it_was_sent_is_claimed() -> None:
    assert cline.sniff(document(json.loads((FIXTURES / "body.json").read_bytes())))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([], id="an empty list"),
        pytest.param([{"role": "user", "content": "<task>hi</task>"}], id="the conversation alone: a list of messages"),
        pytest.param([{"ts": 1, "type": "say"}], id="a row that says nothing"),
        pytest.param([{"ts": "1", "type": "say", "say": "text"}], id="a time that is a text"),
        pytest.param({"messages": [{"role": "system", "content": "You are Root."}, {"role": "user", "content": "x"}]},
                     id="somebody else's body"),
        pytest.param({"messages": [{"role": "system", "content": "You are Roo,"}, {"role": "user", "content": "hi"}]},
                     id="a body without tags"),
        pytest.param({"ts": 1, "type": "say", "say": "text"}, id="one row"),
        pytest.param(3, id="a number"),
    ],
)  # fmt: skip
def test_other_values_are_not_claimed(value: object) -> None:
    assert not cline.sniff(document(value))
    assert not cline.sniff(Sample((value,)))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus beside the repository")
def test_real_tasks_add_up_to_their_requests() -> None:
    for path in (CORPUS / "cline").glob("*.json"):
        try:
            rows = json.loads(path.read_bytes())
        except ValueError:
            continue  # not Cline's: a program's texts under the same name
        session = read_files({"ui": rows})
        assert_well_formed(session)
        assert session.losses == ()
        sent = [json.loads(one["text"]) for one in rows if one.get("say") == "api_req_started"]
        usages = [message.usage for message in session.messages if message.usage] + list(session.loose_usage)
        assert sum(usage.output_tokens for usage in usages) == sum(one["tokensOut"] for one in sent)
        assert sum(usage.cache_read_tokens for usage in usages) == sum(one["cacheReads"] for one in sent)
        assert len(prompts(session)) == 1 + sum(one.get("say") == "user_feedback" for one in rows)
