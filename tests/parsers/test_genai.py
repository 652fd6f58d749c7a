"""What Gemini CLI and Qwen Code share: results, calls, prompts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from demerit.parsers.genai import Answer, OpenCall, answer_in, by_shell_text, judge, prompt_in
from demerit.parsers.records import Losses, Record, Source

RECORD = Record(b"")


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def old(output: str, code: object = 0, signal: object = 0, error: str = "(none)") -> str:
    """A shell's result as versions up to early 2026 write it."""
    return (
        f"Command: x\nDirectory: (root)\nOutput: {output}\nError: {error}\nExit Code: {code}\nSignal: {signal}\n"
        "Background PIDs: (none)\nProcess Group PGID: 135"
    )


def new(output: str, *lines: str) -> str:
    return "\n".join([f"Output: {output}", *lines, "Process Group PGID: 512"])


@pytest.mark.parametrize(
    ("command", "text", "status", "code"),
    [
        pytest.param("pytest", old("1 failed", 1), "failed", 1, id="older versions always write the exit code"),
        pytest.param("pytest", old("3 passed"), "ok", 0, id="and 0 is ok"),
        pytest.param("grep -n half cart.py", old("(empty)", 1), "benign", 1, id="the program's own Error line is none"),
        pytest.param("grep x f", old("grep: f: No such file or directory", 1), "failed", 1, id="a complaint is one"),
        pytest.param("pytest", new("1 failed", "Exit Code: 1"), "failed", 1, id="newer ones write it when not 0"),
        pytest.param("pytest", new("3 passed"), "ok", 0, id="and leave it out when 0"),
        pytest.param("ls", "Output: a.py", "ok", 0, id="on Windows nothing need follow the output"),
        pytest.param("rg half src", new("(empty)", "Exit Code: 1"), "benign", 1, id="nothing found is no failure"),
        pytest.param(
            "cat ci.log", new("Exit Code: 1\nTraceback (most recent call last)\n..."), "ok", 0,
            id="Q13: words and codes inside an output decide nothing",
        ),
        pytest.param("./server", new("(empty)", "Signal: 9"), "failed", None, id="killed by a signal"),
        pytest.param("./server", old("", "(none)", 15), "failed", None, id="killed by a signal, older form"),
        pytest.param("x", f"<untrusted_context>\n{new('y', 'Exit Code: 3')}\n</untrusted_context>", "failed", 3,
                     id="newest versions put all of it into a tag"),
        pytest.param("x", old("y", 0) + "\n\n[System] Tool input parameters were modified by a hook before execution.",
                     "ok", 0, id="a remark may follow"),
        pytest.param("x", old("y", 4) + "\n\nNote: this foreground command ran for 65s. Next time, pass it.",
                     "failed", 4, id="advice may follow"),
        pytest.param("x", "Command timed out after 120000ms before it could complete. There was no output.",
                     "failed", None, id="a timeout is a failure"),
        pytest.param("x", "Command moved to background (PID: 7). Output hidden.", "ok", None, id="in the background"),
        pytest.param("test -d dist", "Command exited with code: 1", "benign", 1, id="what a stream shows"),
        pytest.param("x", "Command terminated by signal: SIGKILL", "failed", None, id="a signal in a stream"),
        pytest.param("x", "Exit Code: 1", "failed", 1, id="nothing but the exit code"),
    ],
)  # fmt: skip
def test_the_lines_around_an_output_tell_how_a_command_ended(
    command: str, text: str, status: str, code: int | None
) -> None:
    verdict = by_shell_text(command, text)
    assert verdict is not None
    assert (verdict.status.value, verdict.exit_code) == (status, code)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("> vite build\nbuilt in 2s", id="an output alone"),
        pytest.param("", id="no text"),
        pytest.param(old("x", "(none)", "(none)"), id="an exit code that is none"),
        pytest.param("Exit Code: many", id="a code that is no number"),
        pytest.param("Exit Code: " + "9" * 5000, id="a code of thousands of digits"),
    ],
)
def test_a_text_without_those_lines_tells_nothing(text: str) -> None:
    assert by_shell_text("x", text) is None


def test_the_end_of_a_long_output_is_found_in_linear_time() -> None:
    assert by_shell_text("x", "Output: " + " \n" * 200_000 + "\nExit Code: 2\nProcess Group PGID: 1") is not None


FAILED, DECLINED = "failed", "declined"


@pytest.mark.parametrize(
    ("status", "response", "error_type", "expected"),
    [
        pytest.param("success", {"output": "Error: it failed"}, None, "ok", id="T25: words in an output are none"),
        pytest.param("error", {"error": "0 occurrences found"}, None, FAILED, id="Q6: status error is a failure"),
        pytest.param("cancelled", {"error": "[Operation Cancelled] x"}, None, "cancelled", id="Q6: cancelled is none"),
        pytest.param("cancelled", {"error": "[Operation Cancelled] Reason: User denied execution."}, None, DECLINED,
                     id="a person said no"),
        pytest.param("cancelled", {"error": "[Operation Cancelled] Reason: User did not allow tool call"}, None,
                     DECLINED, id="a person said no, older words"),
        pytest.param("error", {"error": 'Tool "x" not found. Did you mean one of: "y"?'}, None, "invalid",
                     id="an unknown tool"),
        pytest.param("error", {"error": "params/limit must be number"}, None, "invalid", id="wrong arguments"),
        pytest.param("error", {"error": "MCP error -32602: Input validation error"}, None, "invalid",
                     id="a server refuses the arguments"),
        pytest.param("error", {"error": "The user aborted a request."}, None, "cancelled", id="Esc on a sub-agent"),
        pytest.param("error", {"error": "Tool execution denied by policy."}, None, DECLINED, id="a policy said no"),
        pytest.param("error", {"error": "x"}, "invalid_tool_params", "invalid", id="an error type decides"),
        pytest.param("error", {"error": "x"}, "policy_violation", DECLINED, id="an error type of a refusal"),
        pytest.param("error", {"error": "x"}, "file_not_found", FAILED, id="any other error type"),
        pytest.param("success", {"error": "x"}, None, FAILED, id="an error under a success"),
        pytest.param(None, {"error": "x"}, None, FAILED, id="an error without a status"),
        pytest.param(None, {"output": "x"}, None, "ok", id="an output where an error would be called one"),
        pytest.param(None, {"content": "x"}, None, "unknown", id="an answer that says neither"),
        pytest.param("dreaming", {"output": "x"}, None, "unknown", id="a status nobody knows"),
    ],
)  # fmt: skip
def test_how_a_call_went(status: str | None, response: Any, error_type: str | None, expected: str) -> None:
    answer = answer_in(raw(response), RECORD, Losses())
    verdict = judge("read", None, status, answer, error_type)
    assert verdict is not None
    assert verdict.status.value == expected


@pytest.mark.parametrize("status", ["validating", "scheduled", "executing", "awaiting_approval"])
def test_a_call_that_is_under_way_has_no_verdict(status: str) -> None:
    assert judge("read", None, status, Answer()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"status": "error", "error": "429"}', "failed"),
        ('\n{"status":"error"}', "failed"),
        ('{"status": "not_found"}', "ok"),
        ('{"status": "success", "note": "no error"}', "ok"),
        ('{"status": "error"', "ok"),
        ("status: error", "ok"),
    ],
)
def test_a_servers_tool_may_fail_under_a_success(text: str, expected: str) -> None:
    verdict = judge("mcp", None, "success", Answer(raw(text)))
    assert verdict is not None
    assert verdict.status.value == expected
    own = judge("read", None, "success", Answer(raw(text)))
    assert own is not None
    assert own.status.value == "ok"


def opened(name: str, args: object, call_id: str = "c1", display: str | None = None) -> OpenCall:
    call = OpenCall(name, call_id, None, display)
    call.takes(raw(args), RECORD, Source(), Losses())
    return call


def test_what_a_command_is_called_makes_no_other_call_of_it() -> None:
    first = opened("run_shell_command", {"command": "pytest", "description": "Runs the tests"})
    again = opened("run_shell_command", {"command": "pytest", "description": "Again", "wait_for_previous": True})
    assert first.hash == again.hash != opened("run_shell_command", {"command": "ls"}).hash


def test_polls_are_told_apart_and_told() -> None:
    assert opened("task_output", {"id": 7}, "c1").hash != opened("task_output", {"id": 7}, "c2").hash
    assert opened("task_output", {"id": 7}).frozen(0, 0).is_poll
    assert not opened("run_shell_command", {"command": "ls"}).frozen(0, 0).is_poll


@pytest.mark.parametrize(
    ("response", "error_type", "evidence"),
    [
        ({"error": "Path not in workspace: /x\nmore"}, None, "status error: Path not in workspace: /x"),
        ({"error": "File not found: a"}, "file_not_found", "error type file_not_found: File not found: a"),
        ({"error": " "}, None, "status error"),
    ],
)
def test_a_failure_shows_how_its_error_begins(response: Any, error_type: str | None, evidence: str) -> None:
    verdict = judge("read", None, "error", answer_in(raw(response), RECORD, Losses()), error_type)
    assert verdict is not None and verdict.evidence == evidence


@pytest.mark.parametrize(
    ("output", "evidence"),
    [
        ('{"status": "error", "error": "429"}', "the answer's own status is error: 429"),
        ('{"status": "error", "error": {"code": 1}}', "the answer's own status is error"),
        ('{"status": "not_found"}', "status success"),
        ('{"status": "error"', "status success"),
        ('["error"]', "status success"),
    ],
)
def test_a_servers_answer_may_call_itself_an_error(output: str, evidence: str) -> None:
    verdict = judge("mcp", None, "success", answer_in(raw({"output": output}), RECORD, Losses()))
    assert verdict is not None and verdict.evidence == evidence


@pytest.mark.parametrize(
    ("name", "display", "category"),
    [
        ("replace", None, "edit"),
        ("write_todos", None, "plan"),
        ("codebase_investigator", None, "agent"),
        ("get_file", "get_file (figma MCP Server)", "mcp"),
        ("mcp_figma_get_file", None, "mcp"),
        ("mcp__figma__get_file", None, "mcp"),
        ("figma__get_file", None, "mcp"),
        ("fetch", "fetch (web MCP Server)", "mcp"),
        ("dream", None, "other"),
    ],
)
def test_q26_every_tool_has_its_category(name: str, display: str | None, category: str) -> None:
    assert opened(name, {}, display=display).category == category


def test_the_name_that_is_shown_names_the_server() -> None:
    assert opened("get_file", {}, display="get_file (figma MCP Server)").frozen(0, 0).server == "figma"
    assert opened("mcp_figma_get_file", {}).frozen(0, 0).server is None


@pytest.mark.parametrize(
    ("texts", "typed"),
    [
        pytest.param(["fix the cart"], "fix the cart", id="a prompt"),
        pytest.param(["fix @cart.py", "\n--- Content from referenced files ---", "\nContent from @cart.py:\n", "x"],
                     "fix @cart.py", id="files named with an @ follow it"),
        pytest.param(["<hook_context>x</hook_context>\n\nfix the cart"], "fix the cart", id="a hook's context"),
        pytest.param(["fix the cart", "<qwen:user-prompt-submit-context>\nx\n</qwen:user-prompt-submit-context>"],
                     "fix the cart", id="a hook's context as a part of its own"),
        pytest.param(["Here is the user's editor context as a JSON object. This is for your information only.", "fix"],
                     "fix", id="T57: what the editor shows"),
        pytest.param(["<system-reminder>x</system-reminder>", "fix the cart"], "fix the cart", id="a reminder"),
        pytest.param(["what does <hook_context> mean?"], "what does <hook_context> mean?", id="a question about a tag"),
    ],
)  # fmt: skip
def test_of_a_wrapped_prompt_the_prompt_is_kept(texts: list[str], typed: str) -> None:
    assert prompt_in(texts) == (typed, True, None)


@pytest.mark.parametrize(
    "text",
    [
        "<session_context>\nThis is the Gemini CLI.\n</session_context>",
        "System: Please continue.",
        "System: Potential loop detected. Details: x. Please take a step back.",
        "I ran the following shell command:\n```sh\nls\n```",
        "<hook_context>x</hook_context>",
    ],
)
def test_what_the_program_says_was_typed_by_nobody(text: str) -> None:
    assert prompt_in([text]) == (text, False, None)


def test_a_summary_is_no_prompt() -> None:
    text = "<scratchpad>x</scratchpad>\n<state_snapshot>y</state_snapshot>"
    assert prompt_in([text]) == (text, False, "compaction_summary")


@pytest.mark.parametrize("value", [7, True, 1.5])
def test_an_answer_of_a_wrong_type_is_counted(value: object) -> None:
    losses = Losses()
    answer_in(raw(value), RECORD, losses)
    assert [loss.kind for loss in losses.result()] == ["wrong_type"]
