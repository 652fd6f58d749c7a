"""Claude Code logs. Row names (Q1, T2, ...) are the mistakes known in the field: docs/formats/claude-code.md."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.parsers.claude_lines import (
    START,
    Line,
    assistant,
    call,
    kinds,
    line,
    losses,
    read,
    records,
    result,
    statuses,
    usage,
    user,
)

from demerit.model import Usage
from demerit.parsers import claude
from demerit.parsers.records import Sample, Source

REFUSAL = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how "
    "to proceed."
)
INTERRUPT = "[Request interrupted by user]"


# --- responses --------------------------------------------------------------------------------------------


def test_lines_with_one_message_id_are_one_message_and_the_largest_usage_counts() -> None:
    """T2: three lines with output 3, 3 and 41 are one request with 41."""
    session = read(
        user("make the cart total round half up"),
        assistant(
            {"type": "thinking", "thinking": "", "signature": "s" * 400},
            id="m1",
            used=usage(6, 3, 14000, 0, 900),
        ),
        assistant("Looking.", id="m1", used=usage(6, 3, 14000, 0, 900)),
        assistant(call("t1", command="pytest -q"), id="m1", used=usage(6, 41, 14000, 0, 900)),
        result("t1", "Exit code 1\n1 failed, 8 passed", is_error=True),
    )
    assert len(session.messages) == 2
    response = session.messages[1]
    assert response.text == "Looking."
    assert response.thinking_bytes == 400
    assert response.thinking_kind == "signature"
    assert response.usage == Usage(6, 14000, 0, 900, 41, key="m1:req_m1")
    assert [c.name for c in response.calls] == ["Bash"]


def test_parallel_calls_with_results_between_them_fold_into_one_message() -> None:
    session = read(
        assistant(call("t1", "Read", file_path="/a.py"), id="m1"),
        result("t1"),
        assistant(call("t2", "Read", file_path="/b.py"), id="m1"),
        result("t2"),
        assistant("Both read.", id="m2"),
    )
    assert [len(message.calls) for message in session.messages] == [2, 0]
    assert [(c.message_ordinal, c.index, c.file_paths) for c in session.messages[0].calls] == [
        (0, 0, ("/a.py",)),
        (0, 1, ("/b.py",)),
    ]


def test_a_gateway_that_gives_every_response_one_id_still_has_a_message_for_each_prompt() -> None:
    session = read(user("first"), assistant("one", id="x"), user("second"), assistant("two", id="x"))
    assert [text for _, _, text in kinds(session)] == ["first", "one", "second", "two"]


def test_a_line_that_is_repeated_counts_once() -> None:
    again = assistant("Hello.", id="m1")
    session = read(user("hi"), again, again, again)
    assert [text for _, _, text in kinds(session)] == ["hi", "Hello."]


def test_a_call_replayed_in_another_message_has_the_status_of_its_copy() -> None:
    session = read(
        assistant(call("t1", command="ls"), id="m1"),
        result("t1"),
        assistant(call("t1", command="ls"), id="m2"),
    )
    assert statuses(session) == ["ok", "ok"]


def test_thinking_counts_signature_bytes_and_plain_text_only_without_one() -> None:
    session = read(
        assistant({"type": "thinking", "thinking": "plain words", "signature": "s" * 120}, id="m1"),
        assistant({"type": "redacted_thinking", "data": "d" * 250}, id="m2"),
        assistant({"type": "thinking", "thinking": "häh"}, id="m3"),
        assistant("none", id="m4"),
    )
    assert [(m.thinking_bytes, m.thinking_kind) for m in session.messages] == [
        (120, "signature"),
        (250, "signature"),
        (4, "text"),
        (0, None),
    ]


def test_cache_writes_without_a_split_have_the_default_lifetime() -> None:
    used = {
        "input_tokens": 1,
        "cache_creation_input_tokens": 500,
        "cache_read_input_tokens": 7,
        "output_tokens": 9,
    }
    assert read(assistant("x", id="m", used=used)).messages[0].usage == Usage(1, 7, 500, 0, 9, key="m:req_m")


def test_an_api_error_line_is_a_notice_of_the_harness_without_usage_or_model() -> None:
    """Q22, T20."""
    session = read(
        user("go on"),
        assistant("You've hit your limit", model="<synthetic>", isApiErrorMessage=True, used=usage(0, 0)),
    )
    error = session.messages[1]
    assert (error.role, error.author, error.notice, error.usage, error.model) == (
        "assistant",
        "harness",
        "api_error",
        None,
        None,
    )
    assert not error.has_substance
    assert [event.kind for event in session.events] == ["api_error"]


# --- how a call went --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "content", "is_error", "detail", "status", "exit_code"),
    [
        pytest.param(call("t", "Read", file_path="/a"), "1\tx", None, None, "ok", None, id="no error flag means ok"),
        pytest.param(call("t", command="ls"), "a", False, None, "ok", None, id="a flag that is false means ok"),
        pytest.param(
            call("t", command="pytest"), "Exit code 1\n1 failed", True, None, "failed", 1, id="Q1: exit 1 of a test run"
        ),
        pytest.param(
            call("t", "Edit", file_path="/a"),
            "<tool_use_error>String to replace not found in file.</tool_use_error>",
            True,
            None,
            "failed",
            None,
            id="Q2: an edit that did not match failed",
        ),
        pytest.param(
            call("t", command="cat build.log"),
            "Traceback (most recent call last):\nValueError: no",
            False,
            None,
            "ok",
            None,
            id="Q13: a traceback in a log that was read is no failure",
        ),
        pytest.param(
            call("t", "Grep", pattern="x"), 'throw "Permission denied"', None, None, "ok", None, id="Q14: found words"
        ),
        pytest.param(call("t", command="cat x.go"), "goroutine 7 [running]", False, None, "ok", None, id="Q15: source"),
        pytest.param(call("t", command="make"), "0 errors", False, None, "ok", None, id="T25: 0 errors is a success"),
        pytest.param(
            call("t", command="cd src && grep -rn foo ."),
            "Exit code 1",
            True,
            None,
            "benign",
            1,
            id="T23: grep found none",
        ),
        pytest.param(
            call("t", command="grep foo x"),
            "",
            False,
            {"stdout": "", "interrupted": False, "returnCodeInterpretation": "No matches found"},
            "benign",
            None,
            id="the program's own reading of the exit code is benign",
        ),
        pytest.param(
            call("t", command="cd nope && grep x y"),
            "Exit code 1\n/usr/bin/bash: line 1: cd: nope: No such file or directory",
            True,
            None,
            "failed",
            1,
            id="an error text of the shell makes it a failure",
        ),
        pytest.param(
            call("t", command="rm x"), REFUSAL, True, "User rejected tool use", "declined", None, id="refused"
        ),
        pytest.param(
            call("t", "Write", file_path="/a"),
            "Claude requested permissions to write to /a, but you haven't granted it yet.",
            True,
            None,
            "declined",
            None,
            id="a permission that nobody gave is declined",
        ),
        pytest.param(
            call("t", command="a | b"),
            "This command requires approval",
            True,
            None,
            "declined",
            None,
            id="a command that wanted approval is declined",
        ),
        pytest.param(
            call("t", "AskUserQuestion", questions=[]),
            "The user doesn't want to proceed with this tool use. They want to clarify these questions.",
            True,
            None,
            "declined",
            None,
            id="a question answered with a question is no failure",
        ),
        pytest.param(
            call("t", "Edit", file_path="/a"),
            "<tool_use_error>Sibling tool call errored</tool_use_error>",
            True,
            None,
            "cancelled",
            None,
            id="a sibling of a failed call never ran",
        ),
        pytest.param(
            call("t", "Task"),
            "<tool_use_error>InputValidationError: Task failed due to the following issue:\nThe required parameter",
            True,
            None,
            "invalid",
            None,
            id="arguments that do not fit are the model's fault",
        ),
        pytest.param(
            call("t", "Foo"),
            "<tool_use_error>Error: No such tool available: Foo</tool_use_error>",
            True,
            None,
            "invalid",
            None,
            id="an unknown tool is the model's fault",
        ),
        pytest.param(
            call("t", "Write", file_path="/a"),
            "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>",
            True,
            None,
            "failed",
            None,
            id="a missing precondition is failed, not invalid",
        ),
        pytest.param(
            call("t", "mcp__db__query", sql="x"),
            "MCP error -32602: Input validation error: sql",
            None,
            None,
            "invalid",
            None,
            id="a protocol error under a success is invalid",
        ),
        pytest.param(
            call("t", "mcp__db__query", sql="x"),
            "MCP error -32000: connection closed",
            None,
            None,
            "failed",
            None,
            id="another protocol error under a success is failed",
        ),
        pytest.param(
            call("t", command="sleep 99"),
            "",
            False,
            {"stdout": "", "stderr": "", "interrupted": True},
            "cancelled",
            None,
            id="the interrupted flag says cancelled",
        ),
        pytest.param(
            call("t", "Task"),
            [{"type": "text", "text": "x"}],
            None,
            {"status": "completed"},
            "ok",
            None,
            id="sub-agent ok",
        ),
        pytest.param(
            call("t", command="x"),
            [{"type": "text", "text": "Exit code 127"}],
            True,
            None,
            "failed",
            127,
            id="text blocks",
        ),
        pytest.param(call("t", command="x"), None, True, None, "failed", None, id="a flag without any text"),
        pytest.param(
            call("t", command="sleep 60"),
            "Exit code 137\n[Request interrupted by user for tool use]",
            True,
            None,
            "cancelled",
            137,
            id="Esc on a running command is cancelled, and keeps its code",
        ),
        pytest.param(
            call("t", command="cat notes"),
            "Exit code 1\nClaude requested permissions to write, but you haven't granted it yet.",
            True,
            None,
            "failed",
            1,
            id="words about permissions in an output decide nothing",
        ),
        pytest.param(
            call("t", command="pytest"),
            "Exit code 1\nPermission to use device denied",
            True,
            None,
            "failed",
            1,
            id="nor do words about devices",
        ),
        pytest.param(
            call("t", "Agent", prompt="look"),
            "API Error: 400 bad request",
            None,
            {"status": "completed", "totalTokens": 0},
            "failed",
            None,
            id="a sub-agent that got nothing but an API error failed under its success",
        ),
        pytest.param(
            call("t", command="find . | xargs grep -l foo 2>/dev/null"),
            "Error",
            True,
            None,
            "benign",
            None,
            id="an older version's word for a grep that found nothing",
        ),
        pytest.param(
            call("t", command="make"), "Error", True, None, "failed", None, id="the same word of another command"
        ),
        pytest.param(
            call("t", command="x"),
            "Output too large. Saved to: /tmp/x",
            None,
            {"persistedOutputPath": "/tmp/x"},
            "ok",
            None,
            id="a persisted output is a success",
        ),
    ],
)
def test_status(
    made: Line, content: Any, is_error: bool | None, detail: Any, status: str, exit_code: int | None
) -> None:
    session = read(assistant(made), result("t", content, is_error, detail=detail))
    got = session.messages[0].calls[0]
    assert (got.status.value, got.exit_code) == (status, exit_code)
    assert got.evidence


def test_a_command_run_again_under_another_description_has_the_same_input() -> None:
    first, second, third = (
        read(assistant(call("t", command=command, description=text))).messages[0].calls[0].input_hash
        for command, text in (("npm test", "Run tests"), ("npm test", "Run them again"), ("npm run x", "Run tests"))
    )
    assert first == second
    assert first != third


def test_a_look_at_a_running_command_is_a_poll() -> None:
    session = read(assistant(call("a", "BashOutput", bash_id="1"), call("b", command="ls")))
    assert [made.is_poll for made in session.messages[0].calls] == [True, False]


def test_an_output_that_was_logged_before_the_answer_was_whole_is_a_lower_bound() -> None:
    long = "word " * 200
    partial = read(assistant(long, used=usage(5, 2))).messages[0].usage
    whole = read(assistant(long, used=usage(5, 200))).messages[0].usage
    assert partial is not None
    assert whole is not None
    assert (partial.output_is_partial, whole.output_is_partial) == (True, False)
    ended = assistant(long, used=usage(5, 2))
    ended["message"]["stop_reason"] = "end_turn"
    told = read(ended).messages[0].usage
    assert told is not None
    assert not told.output_is_partial


@pytest.mark.parametrize(
    ("summary", "children"),
    [
        ('Agent "search" failed', 1),
        ('Background command "npm run dev" failed with exit code 1', 0),
    ],
)
def test_a_failed_sub_agent_in_the_background_is_an_event(summary: str, children: int) -> None:
    note = f"<task-notification>\n<task-id>b1</task-id>\n<status>failed</status>\n<summary>{summary}</summary>\n"
    session = read(user("go"), user(note + "</task-notification>"))
    assert sum(event.kind == "subagent" for event in session.events) == children


def test_a_refusal_text_after_progress_lines_is_an_interrupted_tool() -> None:
    session = read(
        assistant(call("t", command="sleep 60")),
        line("progress", 1, data={"type": "bash_progress"}, toolUseID="bash-progress-0", parentToolUseID="t"),
        result("t", REFUSAL, True, detail="User rejected tool use"),
        user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
    )
    assert statuses(session) == ["cancelled"]


def test_hook_progress_does_not_say_that_the_tool_ran() -> None:
    session = read(
        assistant(call("t", command="x")),
        line("progress", 1, data={"type": "hook_progress"}, parentToolUseID="t"),
        result("t", REFUSAL, True),
    )
    assert statuses(session) == ["declined"]


def test_newer_versions_name_a_denial() -> None:
    session = read(assistant(call("t")), result("t", "anything", True, toolDenialKind="user-rejected"))
    assert statuses(session) == ["declined"]


def test_a_call_without_result_is_pending_and_a_result_without_call_is_counted() -> None:
    session = read(assistant(call("t1", command="ls")), result("t2", "swallowed by a compaction"))
    assert statuses(session) == ["pending"]
    assert losses(session) == {"orphan_result": 1}


def test_a_structured_result_of_another_type_costs_only_itself() -> None:
    """T58: a string, a list or a number instead of the object."""
    for detail in ("Error: x", [{"type": "text", "text": "x"}], 7, True):
        session = read(assistant(call("t")), result("t", "Exit code 2", True, detail=detail))
        assert statuses(session) == ["failed"], detail


def test_large_bodies_stay_in_the_log_and_can_be_found_there() -> None:
    lines = records([assistant(call("t", command="cat big")), result("t", "x" * 5000 + "é\n", False)])
    whole = b"".join(record.data for record in lines)
    got = claude.parse(lines, Source("log"))[0].messages[0].calls[0]
    assert got.result is not None
    assert got.result.head == "x" * 2048
    assert got.result.offset is not None
    stored = whole[got.result.offset : got.result.offset + got.result.bytes]
    assert json.loads(stored) == "x" * 5000 + "é\n"
    assert got.input is not None
    assert got.input.offset is not None
    assert json.loads(whole[got.input.offset : got.input.offset + got.input.bytes]) == {"command": "cat big"}


def test_bodies_that_are_alike_have_places_of_their_own() -> None:
    lines = records([assistant(call("a", command="ls"), call("b", command="ls"))])
    first, second = claude.parse(lines, Source("log"))[0].messages[0].calls
    assert first.input is not None
    assert second.input is not None
    assert first.input.offset is not None
    assert second.input.offset is not None
    assert first.input.offset < second.input.offset
    assert first.input.digest == second.input.digest


@pytest.mark.parametrize("count", [-5, 10**20, True, 1.5])
def test_a_count_that_none_can_be_is_no_count(count: Any) -> None:
    used = read(assistant("x", used={"input_tokens": 3, "output_tokens": count})).messages[0].usage
    assert used is not None
    assert (used.input_tokens, used.output_tokens) == (3, 0)


def test_the_order_of_keys_makes_no_other_input() -> None:
    session = read(assistant(call("a", "Read", file_path="/x", limit=5), call("b", "Read", limit=5, file_path="/x")))
    first, second = session.messages[0].calls
    assert first.input_hash == second.input_hash


# --- who wrote it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(user("fix the cart"), ("user", "human", "fix the cart"), id="a typed prompt"),
        pytest.param(
            user([{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "base64", "data": "aGk="}}]),
            ("user", "human", "look"),
            id="text with an image",
        ),
        pytest.param(user("/x", isMeta=True), ("context", "harness", "/x"), id="a line marked meta"),
        pytest.param(user(INTERRUPT), ("context", "harness", INTERRUPT), id="an interrupt notice"),
        pytest.param(
            user("<local-command-stdout>Bye!</local-command-stdout>"),
            ("context", "harness", "<local-command-stdout>Bye!</local-command-stdout>"),
            id="output of a local command",
        ),
        pytest.param(
            user("<bash-input>ls</bash-input>"), ("context", "harness", "<bash-input>ls</bash-input>"), id="bash mode"
        ),
        pytest.param(
            user("<system-reminder>Be nice.</system-reminder>"),
            ("context", "harness", "<system-reminder>Be nice.</system-reminder>"),
            id="a reminder alone",
        ),
        pytest.param(
            user("<ide_opened_file>The user opened /a.py</ide_opened_file>\nadd a test for it"),
            ("user", "human", "add a test for it"),
            id="T57: an editor's envelope before a prompt is stripped",
        ),
        pytest.param(
            user("why?\n<system-reminder>Be nice.</system-reminder>"),
            ("user", "human", "why?"),
            id="a reminder after one",
        ),
        pytest.param(
            user("<command-name>/model</command-name>\n<command-args>opus</command-args>"),
            ("context", "harness", "<command-name>/model</command-name>\n<command-args>opus</command-args>"),
            id="a setting of the program",
        ),
        pytest.param(
            user(
                "<command-message>pr</command-message>\n<command-name>/pr</command-name>\n"
                "<command-args>only the cart</command-args>"
            ),
            ("user", "human", "only the cart"),
            id="a request typed behind a command of one's own",
        ),
        pytest.param(
            user("<task-notification><status>completed</status></task-notification>"),
            ("context", "harness", "<task-notification><status>completed</status></task-notification>"),
            id="a task notification without any mark",
        ),
        pytest.param(
            user("done", origin={"kind": "task-notification"}), ("context", "harness", "done"), id="an origin not human"
        ),
        pytest.param(
            user("This session is being continued from a previous conversation that ran out of context."),
            (
                "context",
                "harness",
                "This session is being continued from a previous conversation that ran out of context.",
            ),
            id="a compaction's summary of older versions",
        ),
        pytest.param(user("Summary.", isCompactSummary=True), ("context", "harness", "Summary."), id="a summary"),
        pytest.param(
            user("<task-notification> is a tag that I see too often"),
            ("user", "human", "<task-notification> is a tag that I see too often"),
            id="a prompt about a tag",
        ),
        pytest.param(
            user("Stop hook feedback:\n- no"), ("context", "harness", "Stop hook feedback:\n- no"), id="a hook"
        ),
        pytest.param(
            user("count to 3", entrypoint="sdk-cli"), ("user", "harness", "count to 3"), id="a run of a script"
        ),
        pytest.param(user("x y", promptSource="sdk"), ("user", "harness", "x y"), id="a prompt of a program"),
        pytest.param(
            user("x y", promptSource="sdk", origin={"kind": "human"}),
            ("user", "human", "x y"),
            id="a person in the app",
        ),
        pytest.param(
            user("x y", promptSource="typed", entrypoint="sdk-ts"),
            ("user", "human", "x y"),
            id="typed, whatever the entry",
        ),
        pytest.param(user("search", isSidechain=True), ("user", "agent", "search"), id="a sub-agent's prompt"),
        pytest.param(
            user("Implement the following plan:\n\n# Plan", planContent="# Plan"),
            ("user", "human", "Implement the following plan:\n\n# Plan"),
            id="a plan that the user accepted is the user's request",
        ),
    ],
)
def test_author(made: Line, expected: tuple[str, str, str]) -> None:
    assert kinds(read(made, assistant("ok"))) [0] == expected  # fmt: skip


def test_a_line_that_only_delivers_results_is_no_message() -> None:
    session = read(user("go"), assistant(call("t")), result("t"), assistant("done"))
    assert [role for role, _, _ in kinds(session)] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize(
    ("lines", "prompts"),
    [
        pytest.param(
            [
                line("queue-operation", operation="enqueue", content="push"),
                line("queue-operation", operation="dequeue"),
                user("push", promptSource="queued"),
            ],
            ["push"],
            id="queued and taken as the next prompt",
        ),
        pytest.param(
            [
                line("queue-operation", operation="enqueue", content="push"),
                line("queue-operation", operation="remove"),
            ],
            ["push"],
            id="T56: taken into the running turn, written nowhere else",
        ),
        pytest.param(
            [
                line("queue-operation", operation="enqueue", content="push"),
                line("queue-operation", operation="remove"),
                line(
                    "attachment",
                    attachment={"type": "queued_command", "prompt": "push", "commandMode": "prompt"},
                ),
            ],
            ["push"],
            id="taken into the running turn, and attached after that",
        ),
        pytest.param(
            [
                line("queue-operation", operation="enqueue", content="push"),
                line(
                    "attachment",
                    attachment={"type": "queued_command", "prompt": "push", "commandMode": "prompt"},
                ),
                line("queue-operation", operation="remove"),
            ],
            ["push"],
            id="taken into the running turn, and attached before that",
        ),
        pytest.param(
            [
                line("queue-operation", operation="enqueue", content="push"),
                line("queue-operation", operation="popAll"),
            ],
            [],
            id="taken back into the input box",
        ),
        pytest.param(
            [
                line("queue-operation", operation="enqueue", content='{"task_id": "b1", "status": "done"}'),
                line("queue-operation", operation="remove"),
            ],
            [],
            id="a queued notification is no prompt",
        ),
        pytest.param(
            [
                line(
                    "attachment",
                    attachment={
                        "type": "queued_command",
                        "prompt": "t done",
                        "commandMode": "task-notification",
                    },
                )
            ],
            [],
            id="an attached notification is no prompt",
        ),
    ],
)
def test_a_queued_prompt_counts_once(lines: list[Line], prompts: list[str]) -> None:
    session = read(user("start"), *lines, assistant("ok"))
    assert [text for role, author, text in kinds(session) if (role, author) == ("user", "human")] == [
        "start",
        *prompts,
    ]


# --- the session ------------------------------------------------------------------------------------------


def test_facts_of_the_session() -> None:
    session = read(
        line("custom-title", customTitle="Rounding"),
        user("go", 0, cwd="/home/dev/shop", gitBranch="main"),
        assistant("ok", second=90, cwd="/home/dev/shop/src", gitBranch="round", version="2.1.41"),
    )
    assert session.source_id == "5e55a0e1-0000-4000-8000-000000000001"
    assert (session.title, session.cwd, session.branch, session.agent_version) == (
        "Rounding",
        "/home/dev/shop",
        "round",
        "2.1.41",
    )
    assert session.started == START
    assert session.ended == START + timedelta(seconds=90)


def test_times_may_run_backwards() -> None:
    session = read(user("go", 60), assistant("ok", second=10))
    assert (session.started, session.ended) == (START + timedelta(seconds=10), START + timedelta(seconds=60))


def test_a_time_without_zone_is_utc_and_counted() -> None:
    session = read(user("go", timestamp="2026-05-02T09:00:00"))
    assert session.started == START
    assert losses(session) == {"time_without_zone": 1}


def test_a_time_that_is_none_costs_only_itself() -> None:
    session = read(user("go", timestamp="yesterday"), assistant("ok", second=5))
    assert session.started == START + timedelta(seconds=5)
    assert losses(session) == {"bad_time": 1}


def test_a_file_of_sidechain_lines_is_a_sub_agents_session() -> None:
    session = read(
        user("search the repository", isSidechain=True, agentId="a0ad"),
        assistant("found", isSidechain=True, agentId="a0ad", used=usage(30)),
        source=Source("agent-a0ad"),
    )
    assert (session.source_id, session.parent_source_id, session.relation) == (
        "a0ad",
        "5e55a0e1-0000-4000-8000-000000000001",
        "subagent",
    )
    assert kinds(session)[0] == ("user", "agent", "search the repository")
    assert not session.messages[1].sidechain


def test_sidechain_lines_in_a_parents_file_are_marked() -> None:
    session = read(
        user("go"),
        user("sub task", isSidechain=True),
        assistant("sub answer", isSidechain=True),
        assistant("done"),
    )
    assert [message.sidechain for message in session.messages] == [False, True, True, False]


def test_a_resumed_file_names_the_session_that_it_goes_on_from() -> None:
    old = "0lder000-0000-4000-8000-000000000000"
    session = read(user("before", sessionId=old), assistant("yes", sessionId=old), user("after"), source=Source("log"))
    assert session.relation == "continuation"
    assert {session.source_id, session.parent_source_id} == {old, "5e55a0e1-0000-4000-8000-000000000001"}


def test_exit_ends_the_session_and_a_later_prompt_opens_it_again() -> None:
    bye = user("<command-name>/exit</command-name>\n<command-args></command-args>")
    assert read(user("go"), assistant("ok"), bye).terminal
    assert not read(user("go"), assistant("ok"), bye, user("one more")).terminal
    assert not read(user("go"), assistant("ok"), bye, assistant("one more")).terminal


def test_an_exit_from_the_queue_ends_the_session_and_is_no_prompt() -> None:
    queued = [
        line("queue-operation", operation="enqueue", content="/exit"),
        line("queue-operation", operation="remove"),
    ]
    session = read(user("go"), assistant("ok"), *queued)
    assert session.terminal
    assert [author for _, author, _ in kinds(session)] == ["human", "agent", "harness"]


def test_the_request_id_of_any_line_names_the_request() -> None:
    first, second = assistant("a", id="m"), assistant("b", id="m", used=usage(1, 99))
    del second["requestId"]
    got = read(first, second).messages[0].usage
    assert got is not None
    assert (got.key, got.output_tokens) == ("m:req_m", 99)


def test_compaction_is_an_event_with_its_size() -> None:
    boundary = line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 150000})
    session = read(user("go"), assistant("ok"), boundary, user("Summary.", isCompactSummary=True))
    assert [(event.kind, event.detail, event.message_ordinal) for event in session.events] == [
        ("compaction", "auto, 150000 tokens", 1)
    ]
    assert session.messages[2].notice == "compaction_summary"


def test_the_web_export_is_the_same_lines() -> None:
    lines = [user("go"), assistant(call("t", command="ls")), result("t", "a", True)]
    export = json.dumps({"loglines": lines}, indent=1).encode()
    session = claude.parse(records([export]), Source("export"))[0]
    assert kinds(session)[0] == ("user", "human", "go")
    assert statuses(session) == ["failed"]
    body = session.messages[1].calls[0].input
    assert body is not None
    assert body.offset is not None
    assert json.loads(export[body.offset : body.offset + body.bytes]) == {"command": "ls"}


@pytest.mark.parametrize("rest", ["", ' {"type": "user", "mess', "]}, and more"], ids=["the end", "a line", "a tail"])
def test_a_web_export_that_was_cut_is_read_as_far_as_it_is_whole(rest: str) -> None:
    lines = [user("go"), assistant(call("t", command="ls")), result("t", "a", True)]
    whole = json.dumps({"version": 1, "loglines": lines}, indent=1)
    cut = (whole.removesuffix("\n ]\n}") + "," + rest) if not rest.startswith("]") else whole + rest
    session = claude.parse(records([cut.encode()]), Source("export"))[0]
    assert kinds(session)[0] == ("user", "human", "go")
    assert statuses(session) == ["failed"]
    assert [loss.kind for loss in session.losses] == ["malformed_tail"]


# --- what is not understood -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        pytest.param("{this is no JSON}", "malformed_line", id="no JSON"),
        pytest.param('{"type":"user","uuid":"u","sess', "malformed_line", id="a cut line"),
        pytest.param(b"\x00" * 64, "empty_record", id="NUL bytes of a crashed disk"),
        pytest.param("[1,2]", "not_an_object", id="no object"),
        pytest.param("7", "not_an_object", id="a number"),
        pytest.param({"type": "brand-new", "sessionId": "s"}, "unknown_type", id="T55: a new type of line"),
        pytest.param({"sessionId": "s"}, "no_type", id="no type"),
        pytest.param({"type": "assistant", "sessionId": "s"}, "no_message", id="no message"),
        pytest.param({"type": "user", "message": {"role": "user", "content": ""}}, "empty_message", id="empty"),
        pytest.param({"type": "user", "message": "text"}, "wrong_type", id="a text for an object"),
        pytest.param("[" * 10_000 + "]" * 10_000, "malformed_line", id="10,000 levels deep"),
        pytest.param('{"a":' * 10_000 + "1" + "}" * 10_000, "malformed_line", id="10,000 objects deep"),
        pytest.param('{"type":"user","timestamp":' + "9" * 1_000_000 + "}", "bad_time", id="a million digits"),
        pytest.param(b'{"type":"user","message":{"role":"user","content":"\xff\xfe"}}', "invalid_utf8", id="not UTF-8"),
        pytest.param('{"type":"user","message":{"content":"\\ud83d"}}', "lone_surrogate", id="half a character"),
    ],
)
def test_a_bad_line_costs_itself_and_is_counted(bad: Any, kind: str) -> None:
    session = read(user("before"), bad, assistant("after"))
    texts = [text for _, _, text in kinds(session)]
    assert texts[0] == "before"
    assert texts[-1] == "after"
    assert losses(session)[kind] >= 1


def test_two_records_fused_on_one_line_are_both_read() -> None:
    fused = json.dumps(user("one")) + json.dumps(user("two"))
    session = read(fused, assistant("ok"))
    assert [text for _, _, text in kinds(session)] == ["one", "two", "ok"]
    assert losses(session) == {"fused_line": 1}


def test_a_record_fused_to_half_of_another_is_read() -> None:
    session = read(json.dumps(user("one")) + '{"type":"us', assistant("ok"))
    assert [text for _, _, text in kinds(session)] == ["one", "ok"]
    assert losses(session) == {"malformed_tail": 1}


def test_nothing_at_all_is_a_session_without_messages() -> None:
    session = claude.parse([], Source("empty"))[0]
    assert session.messages == ()
    assert session.source_id == "empty"


A_LOG = [
    user("fix the rounding", promptSource="typed", origin={"kind": "human"}, entrypoint="cli"),
    assistant(
        {"type": "thinking", "thinking": "hm", "signature": "abc"}, "Looking.", call("t1", command="ls"), id="m1",
        isApiErrorMessage=False,
    ),
    result("t1", [{"type": "text", "text": "Exit code 1"}], True, detail={"interrupted": False, "stdout": ""}),
    line("attachment", attachment={"type": "queued_command", "prompt": "and push", "commandMode": "prompt"}),
    line("queue-operation", operation="enqueue", content="more"),
    line("queue-operation", operation="remove"),
    line("system", subtype="compact_boundary", compactMetadata={"trigger": "manual", "preTokens": 5}),
    line("progress", data={"type": "bash_progress"}, parentToolUseID="t1"),
    line("ai-title", aiTitle="Rounding"),
    assistant("Done.", id="m2", used=usage(5, 6, 7, 8, 9)),
]  # fmt: skip

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(min_value=2**64) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def paths_of(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [prefix, *(path for key, child in children for path in paths_of(child, (*prefix, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = replaced(value[path[0]], path[1:], new)
    return value


@given(st.data())
def test_any_value_replaced_by_any_other_costs_no_more_than_itself(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(A_LOG) - 1))
    path = data.draw(st.sampled_from(paths_of(A_LOG[at])))
    changed = list(A_LOG)
    changed[at] = replaced(A_LOG[at], path, data.draw(JSON_VALUES))
    session = read(*changed)
    assert session.messages
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))


READ_FIELDS = [
    (0, ("message", "content")),
    (0, ("timestamp",)),
    (0, ("promptSource",)),
    (0, ("origin", "kind")),
    (0, ("isSidechain",)),
    (1, ("message", "id")),
    (1, ("message", "content", 0, "signature")),
    (1, ("message", "content", 2, "name")),
    (1, ("message", "usage", "output_tokens")),
    (1, ("message", "usage")),
    (2, ("message", "content", 0, "is_error")),
    (2, ("toolUseResult", "interrupted")),
    (3, ("attachment", "prompt")),
    (6, ("compactMetadata", "preTokens")),
    (8, ("aiTitle",)),
]


@pytest.mark.parametrize(("at", "path"), READ_FIELDS, ids=lambda value: str(value))
def test_a_wrong_type_in_a_field_that_is_read_is_counted(at: int, path: tuple[Any, ...]) -> None:
    changed = list(A_LOG)
    changed[at] = replaced(A_LOG[at], path, {"odd": [1]})
    if path[-1] == "usage" or path[-1] == "content":
        changed[at] = replaced(A_LOG[at], path, 3.5)
    session = read(*changed)
    assert sum(losses(session).values()) >= 1


@given(st.integers(0, 100_000))
def test_a_log_cut_anywhere_keeps_what_stands_before_the_cut(cut: int) -> None:
    whole = b"".join(record.data for record in records(list(A_LOG)))
    part = whole[: cut % len(whole)]
    got = claude.parse(records([piece for piece in part.split(b"\n") if piece]), Source("cut"))[0]
    full_lines = part.count(b"\n")
    assert len(got.messages) >= (full_lines > 0) + (full_lines > 1)


# --- whose log it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "claimed"),
    [
        pytest.param((user("x"),), True, id="a prompt line"),
        pytest.param(
            ({"type": "summary", "summary": "s", "leafUuid": "l"}, assistant("x")), True, id="a summary first"
        ),
        pytest.param(
            ({"type": "file-history-snapshot", "sessionId": "s", "snapshot": {}},), True, id="a snapshot only"
        ),
        pytest.param(({"type": "system", "subtype": "init", "session_id": "s"},), False, id="a stream of claude -p"),
        pytest.param(({"role": "user", "content": "x"},), False, id="a message list"),
        pytest.param(({"type": "session_meta", "payload": {}},), False, id="a Codex rollout"),
        pytest.param(
            ({"uuid": "1", "sessionId": "w", "type": "user", "message": {"role": "user", "parts": []}},),
            False,
            id="Qwen Code, with the same keys",
        ),
        pytest.param((), False, id="nothing"),
        pytest.param((1, "x", None, []), False, id="no objects"),
    ],
)
def test_sniff(values: tuple[Any, ...], claimed: bool) -> None:
    assert claude.PARSER.sniff(Sample(values)) is claimed


def test_an_export_is_claimed_as_a_document() -> None:
    assert claude.PARSER.sniff(Sample(({"loglines": [user("x")]},), is_document=True))
    assert not claude.PARSER.sniff(Sample(({"messages": [user("x")]},), is_document=True))


def test_the_source_gives_the_time_and_the_parent_that_the_log_lacks() -> None:
    written = datetime(2026, 6, 1, tzinfo=UTC)
    session = read(user("x", isSidechain=True), source=Source("agent-1", modified=written, parent="p"))
    assert (session.modified, session.parent_source_id) == (written, "p")
