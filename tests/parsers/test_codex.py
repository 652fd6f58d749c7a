"""Codex rollouts. The Q and T rows named in the ids are the mistakes known in the field: docs/formats/codex.md.

Expectations are worked out by hand from the lines of the fixtures in `codex/`, which are invented.
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
from tests.parsers.sessions import CORPUS, assert_well_formed, calls, losses, prompts, spoken, statuses

from demerit.model import CallStatus, Session, ToolCall, Usage
from demerit.parsers import codex
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "codex"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))

SESSION = "019e7044-7478-7000-8000-000000000001"
PARENT = "019e6fbb-33c0-7000-8000-000000000002"


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


ROLLOUT = Source(name="rollout")


def read_bytes(data: bytes, source: Source = ROLLOUT) -> Session:
    (session,) = codex.parse(records(data), source)
    return session


def read(*lines: dict[str, Any], source: Source = ROLLOUT) -> Session:
    return read_bytes(b"\n".join(json.dumps(line).encode() for line in lines), source)


def fixture(name: str) -> Session:
    return read_bytes((FIXTURES / f"{name}.jsonl").read_bytes())


def line(kind: str, payload: dict[str, Any], at: str = "2026-05-28T20:00:00Z", **more: Any) -> dict[str, Any]:
    return {"timestamp": at, "type": kind, "payload": payload, **more}


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return line("response_item", {"type": kind, **payload})


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return line("event_msg", {"type": kind, **payload})


def meta(**payload: Any) -> dict[str, Any]:
    return line("session_meta", {"id": SESSION, "cwd": "/work/shop", "source": "cli", **payload})


def said(role: str, *texts: str) -> dict[str, Any]:
    return item("message", role=role, content=[{"type": "input_text", "text": text} for text in texts])


def tokens(**info: Any) -> dict[str, Any]:
    return event("token_count", info=info)


def counts(input_tokens: int, cached: int, output: int, reasoning: int = 0) -> dict[str, int]:
    return {
        "input_tokens": input_tokens,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": input_tokens + output,
    }


def command(text: str = "ls", call_id: str = "c1", name: str = "exec_command", **more: Any) -> dict[str, Any]:
    return item("function_call", name=name, arguments=json.dumps({"cmd": text}), call_id=call_id, **more)


def output(text: object, call_id: str = "c1") -> dict[str, Any]:
    return item("function_call_output", call_id=call_id, output=text)


def judged(*lines: dict[str, Any]) -> ToolCall:
    (call,) = calls(read(meta(), *lines))
    return call


def usages(session: Session) -> list[Usage]:
    return [message.usage for message in session.messages if message.usage is not None] + list(session.loose_usage)


# --- one session, from end to end -------------------------------------------------------------------------


def test_a_plain_session_tells_who_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.title) == ("codex", SESSION, "Round half up")
    assert (session.cwd, session.branch, session.agent_version) == ("/work/shop", "main", "0.142.0")
    assert session.started == datetime(2026, 5, 28, 20, 26, 40, tzinfo=UTC)
    assert session.ended == datetime(2026, 5, 28, 20, 26, 59, tzinfo=UTC)
    assert (session.relation, session.parent_source_id, session.terminal) == (None, None, False)
    assert not (session.events or session.loose_usage or session.losses)


def test_items_between_two_token_counts_are_one_response() -> None:
    session = fixture("plain")
    assert [(message.role, message.author) for message in session.messages] == [
        ("system", "harness"),
        ("context", "harness"),
        ("user", "human"),
        ("assistant", "agent"),
        ("assistant", "agent"),
    ]
    first, second = session.messages[3:]
    assert (first.text, [call.name for call in first.calls]) == ("I will look at the rounding.", ["exec_command"])
    assert (second.text, second.calls) == ("Rounding is half up now.", ())
    assert first.model == second.model == "gpt-5.5"
    assert [message.ordinal for message in session.messages] == [0, 1, 2, 3, 4]


def test_t5_cached_input_is_a_part_of_the_input_and_t8_reasoning_of_the_output() -> None:
    first, second = usages(fixture("plain"))
    assert (first.input_tokens, first.cache_read_tokens, first.output_tokens, first.reasoning_tokens) == (
        60,
        40,
        20,
        12,
    )
    assert (second.input_tokens, second.cache_read_tokens, second.output_tokens) == (20, 40, 10)
    assert first.context_tokens == 100 and second.context_tokens == 60


def test_t6_a_repeated_token_count_counts_once() -> None:
    # Totals 100, 100, 160.
    assert sum(usage.context_tokens for usage in usages(fixture("plain"))) == 160


def test_ciphertext_is_thinking_and_a_word_in_its_place_is_none() -> None:
    first, second = fixture("plain").messages[3:]
    assert (first.thinking_kind, first.thinking_bytes) == ("ciphertext", 167)  # "gAAAAAB" and 160 more
    assert first.thinking[0].bytes == 169 and first.thinking[0].offset is not None  # with its quotes
    assert (second.thinking_kind, second.thinking_bytes) == ("text", 8)
    assert [body.head for body in second.thinking] == ["**Done**"]


def test_bodies_are_left_out_when_nobody_wants_them() -> None:
    session = read_bytes((FIXTURES / "plain.jsonl").read_bytes(), Source(bodies=False, text_bytes=8))
    assert calls(session)[0].result is None and calls(session)[0].input_hash is not None
    assert session.messages[3].thinking == () and session.messages[3].thinking_bytes == 167
    assert (session.messages[3].text, session.messages[3].text_bytes) == ("I will l", 28)
    assert prompts(session) == ["round half up in cart.py please"]


def test_a_result_stays_at_its_place_in_the_log() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    result = calls(read_bytes(data))[0].result
    assert result is not None and result.offset is not None
    assert json.loads(data[result.offset : result.offset + result.bytes]).endswith("def total(): ...")


# --- how calls went ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "status"),
    [
        pytest.param(0, "failed", id="Q3: a header says that the process exited with code 1"),
        pytest.param(1, "failed", id="Q4: a patch did not apply though the item's status is completed"),
        pytest.param(2, "declined", id="the user rejected a command"),
        pytest.param(3, "invalid", id="an unknown tool"),
        pytest.param(4, "invalid", id="arguments that do not parse"),
        pytest.param(5, "ok", id="Q13: a log with a traceback was read"),
        pytest.param(6, "ok", id="Q14: source code with Permission denied was found"),
        pytest.param(7, "failed", id="an MCP error shows in the event alone"),
        pytest.param(8, "cancelled", id="a command was aborted by the user"),
    ],
)
def test_statuses(index: int, status: str) -> None:
    assert statuses(fixture("tool_error"))[index] == status


@pytest.mark.parametrize(
    ("index", "status", "code"),
    [
        pytest.param(0, "benign", 1, id="rg found nothing"),
        pytest.param(1, "benign", 1, id="git diff --exit-code, in the JSON output of old shells"),
        pytest.param(2, "failed", 1, id="pytest, in the JSON output of old shells"),
        pytest.param(3, "benign", 1, id="grep as a local_shell_call"),
        pytest.param(4, "failed", 1, id="rg that the sandbox did not start"),
    ],
)
def test_exit_1_that_only_says_nothing_found(index: int, status: str, code: int) -> None:
    call = calls(fixture("benign_exit"))[index]
    assert (call.status.value, call.exit_code, call.category) == (status, code, "shell")


def test_q19_a_patch_names_every_file_it_touches() -> None:
    patch = calls(fixture("tool_error"))[1]
    assert (patch.category, patch.file_paths) == ("edit", ("cart.py", "tests/test_cart.py"))


def test_a_patch_inside_a_shell_command_is_an_edit() -> None:
    script = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n*** End Patch\nEOF"
    call = judged(command(script), output("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess."))
    assert (call.status, call.category, call.file_paths) == (CallStatus.OK, "edit", ("a.py", "b.py"))


def test_a_patch_in_a_script_is_told_by_its_own_event() -> None:
    script = "tools.apply_patch(`*** Begin Patch\n*** Update File: a.py\n*** End Patch`)"
    session = read(
        meta(),
        item("custom_tool_call", name="exec", call_id="c1", input=script),
        event("patch_apply_end", call_id="exec-1", success=True, changes={"a.py": {"type": "update"}}),
    )
    assert [(call.category, call.file_paths) for call in calls(session)] == [("shell", ()), ("edit", ("a.py",))]


EXIT_0 = "Process exited with code 0\nOutput:\n"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        pytest.param([command(), output(EXIT_0)], "ok", id="the header without its other lines"),
        pytest.param([command(), output("Exit code: 2\nOutput:\n")], "failed", id="Exit code: 2"),
        pytest.param([command(), output("exit code 2\n")], "failed", id="exit code 2"),
        pytest.param([command(), output("it had exit code 2")], "unknown", id="the words inside the text"),
        pytest.param([command(), output("Output:\nProcess exited with code 1")], "unknown", id="after Output:"),
        pytest.param(
            [command(), output(EXIT_0), event("exec_command_end", call_id="c1", exit_code=1, status="failed")],
            "failed",
            id="the event wins over the text before it",
        ),
        pytest.param(
            [
                command(),
                event("exec_command_end", call_id="c1", exit_code=0, status="completed"),
                output("Exit code: 1"),
            ],
            "ok",
            id="the event wins over the text after it",
        ),
        pytest.param(
            [command(), event("exec_command_end", call_id="c1", exit_code=0, status="completed")],
            "ok",
            id="the output is missing but the event says exit 0",
        ),
        pytest.param(
            [command(), event("exec_command_end", call_id="c1", exit_code=-1, status="declined")],
            "declined",
            id="the event says declined",
        ),
        pytest.param(
            [command(), output({"content": "no", "success": False})], "failed", id="success false in an object"
        ),
        pytest.param([command(), output({"stdout": "", "exitCode": 3})], "failed", id="exitCode in an object"),
        pytest.param([command(), output([{"type": "input_text", "text": EXIT_0}])], "ok", id="a list of parts"),
        pytest.param([command(), output(EXIT_0), output("Exit code: 1\n")], "ok", id="the first of two results wins"),
        pytest.param([command()], "pending", id="no result"),
        pytest.param(
            [command(), output("failed in sandbox MacosSeatbelt with execution error: denied")], "failed", id="sandbox"
        ),
        pytest.param(
            [command(name="update_plan"), output("Plan updated")], "ok", id="a tool of Codex, no failure form"
        ),
        pytest.param([command(name="mcp__a__b"), output("a text")], "unknown", id="an MCP text without an event"),
        pytest.param([command(), output("exec command rejected by user")], "declined", id="rejected by user"),
        pytest.param(
            [command(), output("approval policy is Never; reject command — you should not ask")],
            "declined",
            id="nobody gives permissions in this run",
        ),
        pytest.param([command(), output("aborted by user after 3.1s")], "cancelled", id="aborted by user after"),
        pytest.param(
            [command(name="write_stdin"), output("write_stdin failed: Unknown process id 9")], "failed", id="stdin"
        ),
        pytest.param(
            [
                item("custom_tool_call", name="apply_patch", call_id="c1", input="*** Begin Patch\n*** End Patch"),
                event("patch_apply_end", call_id="c1", success=False, status="failed"),
                item("custom_tool_call_output", call_id="c1", output="Exit code: 0\nOutput:\nSuccess."),
            ],
            "failed",
            id="Q4: patch_apply_end says no success",
        ),
        pytest.param(
            [event("mcp_tool_call_end", call_id="m1", invocation={"server": "s", "tool": "t"}, result={"Err": "gone"})],
            "failed",
            id="an MCP call without its item",
        ),
        pytest.param(
            [
                event(
                    "mcp_tool_call_end",
                    call_id="m1",
                    invocation={"server": "s", "tool": "t"},
                    result={"Err": "user rejected MCP tool call"},
                )
            ],
            "declined",
            id="an MCP call that the user rejected",
        ),
        pytest.param(
            [item("web_search_call", status="completed", action={"query": "q"})], "ok", id="web search, no output"
        ),
        pytest.param(
            [
                item("tool_search_call", call_id="c1", arguments={"query": "q"}),
                item("tool_search_output", call_id="c1", status="completed", tools=[]),
            ],
            "ok",
            id="tool search",
        ),
    ],
)
def test_what_decides(lines: list[dict[str, Any]], status: str) -> None:
    assert judged(*lines).status.value == status


def test_a_command_that_the_person_ran_is_no_call() -> None:
    assert calls(read(meta(), event("exec_command_end", call_id="u1", exit_code=1, source="user_shell"))) == []


def test_a_web_search_and_its_event_are_one_call_in_either_order() -> None:
    told = event("web_search_end", call_id="ws_1", query="q", action={"query": "q"})
    listed = item("web_search_call", status="completed", action={"query": "q"})
    for lines in ([told, listed], [listed, told]):
        (call,) = calls(read(meta(), *lines))
        assert (call.name, call.call_id, call.category) == ("web_search", "ws_1", "web")


def test_a_result_fills_every_copy_of_its_call() -> None:
    session = read(meta(), command(), command(), output("Exit code: 1\n"))
    assert statuses(session) == ["failed", "failed"]


def test_a_running_process_is_decided_by_the_poll_that_sees_its_end() -> None:
    assert [(call.name, call.status.value, call.exit_code) for call in calls(fixture("running_session"))] == [
        ("exec_command", "failed", 1),  # the suite, seen by call_3
        ("write_stdin", "ok", None),  # a poll: still running
        ("write_stdin", "ok", None),  # the poll that saw the end did its own work
        ("exec_command", "ok", 130),  # the server, which the model stopped with ^C
        ("write_stdin", "ok", None),
        ("exec_command", "unknown", None),  # nobody looked again
    ]


def test_an_event_about_a_process_says_nothing_of_the_call_that_polled_it() -> None:
    poll = item("function_call", name="write_stdin", call_id="c2", arguments={"session_id": 5, "chars": ""})
    ends = [event("exec_command_end", call_id=name, exit_code=3, status="failed") for name in ("c1", "c2")]
    running = output("Process running with session ID 5\nOutput:\n")
    session = read(meta(), command(), running, poll, *ends, output("Process exited with code 3\n", "c2"))
    assert statuses(session) == ["failed", "ok"]


def test_the_event_of_a_process_that_the_model_stopped_is_no_failure() -> None:
    stop = item("function_call", name="write_stdin", call_id="c2", arguments={"session_id": 5, "chars": "\x03"})
    end = event("exec_command_end", call_id="c1", exit_code=130, status="failed")
    running = output("Process running with session ID 5\nOutput:\n")
    assert statuses(read(meta(), command(), running, stop, end))[0] == "ok"


def test_commands_of_a_script_count_through_their_events() -> None:
    session = fixture("code_mode")
    assert [(call.name, call.status.value, call.exit_code, call.file_paths) for call in calls(session)] == [
        ("exec", "ok", None, ()),
        ("exec_command", "failed", 2, ()),
        ("apply_patch", "ok", None, ("/work/shop/Makefile",)),
        ("mcp__stock__lookup", "declined", None, ()),
        ("exec", "failed", None, ()),  # its script failed after `wait`
        ("wait", "ok", None, ()),
    ]
    assert len(session.messages[1].calls) == 4
    assert prompts(session) == ["fix the build"]


def test_arguments_may_be_a_text_or_an_object_and_equal_inputs_have_equal_hashes() -> None:
    one = judged(item("function_call", name="exec_command", call_id="c", arguments='{"cmd": "ls", "n": 1}'))
    two = judged(item("function_call", name="exec_command", call_id="c", arguments={"n": 1, "cmd": "ls"}))
    assert one.input_hash == two.input_hash is not None


# --- prompts ----------------------------------------------------------------------------------------------


def told(text: str, **more: Any) -> dict[str, Any]:
    return event("user_message", message=text, **more)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([said("user", "fix it"), told("fix it")], ["fix it"], id="item and event are one prompt"),
        pytest.param([told("fix it"), said("user", "fix it")], ["fix it"], id="event and item are one prompt"),
        pytest.param([said("user", "fix it")], ["fix it"], id="an item alone"),
        pytest.param([told("fix it")], ["fix it"], id="an event alone"),
        pytest.param(
            [said("user", "go on"), told("go on"), said("user", "go on"), told("go on")],
            ["go on", "go on"],
            id="the same words twice are two prompts",
        ),
        pytest.param([said("user", "<environment_context>\n</environment_context>")], [], id="environment"),
        pytest.param(
            [said("user", "# AGENTS.md instructions for /w\n\nx", "<environment_context>")], [], id="AGENTS.md"
        ),
        pytest.param([said("user", "<turn_aborted>\nThe user interrupted")], [], id="T32: an abort notice"),
        pytest.param([said("user", "<skill>\n<name>x</name>")], [], id="a skill"),
        pytest.param([said("user", "<subagent_notification>\n{}")], [], id="a sub-agent's notification"),
        pytest.param([said("user", "<recommended_plugins>\n")], [], id="recommended plugins"),
        pytest.param([said("user", "<goal_context>\n")], [], id="a goal"),
        pytest.param([said("user", "<user_shell_command>\n")], [], id="a command that the user ran"),
        pytest.param([said("developer", "be brief")], [], id="developer"),
        pytest.param([said("user", "why is <div> empty?")], ["why is <div> empty?"], id="markup in a question"),
        pytest.param(
            [said("user", "# Files mentioned by the user:\n\n## a.png: /t/a.png\n\n## My request for Codex:\nlook\n")],
            ["look"],
            id="attachments",
        ),
        pytest.param(
            [
                said(
                    "user",
                    "# Context from my IDE setup:\n\n## Open tabs:\n- a\n\n## My request for Codex:\nfix the bug",
                )
            ],
            ["fix the bug"],
            id="T57: an editor's envelope",
        ),
        pytest.param(
            [said("user", "<environment_context>\n</environment_context>", "and a prompt")],
            ["and a prompt"],
            id="a prompt beside a block in one message",
        ),
    ],
)
def test_only_what_a_person_typed_is_a_prompt(lines: list[dict[str, Any]], expected: list[str]) -> None:
    assert prompts(read(meta(), *lines)) == expected


def test_a_prompt_is_kept_whole_and_an_answer_is_cut() -> None:
    session = read(meta(), said("user", "x" * 90_000), said("assistant", "ä" * 40_000))
    prompt, answer = session.messages
    assert len(prompt.text) == 90_000
    assert (len(answer.text), answer.text_bytes) == (32_768, 80_000)


def test_an_image_alone_is_a_prompt() -> None:
    parts = [{"type": "input_text", "text": '<image name="1">'}, {"type": "input_image", "image_url": "data:,"}]
    session = read(meta(), item("message", role="user", content=parts), told("", images=["data:,"]))
    assert [(message.role, message.text, message.has_image) for message in session.messages] == [("user", "", True)]


def test_the_prompt_that_comes_again_after_an_interrupt_counts_once() -> None:
    session = fixture("aborted_turn")
    assert prompts(session) == ["rewrite it all"]
    assert [event.kind for event in session.events] == ["interrupt", "rewind", "interrupt"]
    assert statuses(session) == ["pending"]


def test_an_interrupt_that_ends_the_session_is_its_last_message() -> None:
    last = fixture("aborted_turn").messages[-1]
    assert (last.role, last.author, last.notice) == ("context", "harness", "interrupt")


def test_an_interrupt_told_by_text_and_event_is_one() -> None:
    text, mark = said("user", "<turn_aborted>\nstopped"), event("turn_aborted", reason="interrupted")
    for lines in ([text, mark], [mark, text], [mark, said("developer", "<turn_aborted>\nstopped")]):
        session = read(meta(), said("user", "go on then"), *lines)
        assert [event.kind for event in session.events] == ["interrupt"]
        assert [message.notice for message in session.messages] == [None, "interrupt"]
        assert session.messages[-1].text == "<turn_aborted>\nstopped"


@pytest.mark.parametrize(
    ("about", "author", "relation"),
    [
        pytest.param({"source": "cli", "thread_source": "user"}, "human", None, id="a person at the terminal"),
        pytest.param({"source": "vscode"}, "human", None, id="a person in the editor"),
        pytest.param({"source": "exec"}, "harness", None, id="codex exec"),
        pytest.param({"source": "mcp"}, "harness", None, id="another program"),
        pytest.param({"source": {"subagent": "review"}}, "agent", "subagent", id="a review"),
        pytest.param({"thread_source": "subagent"}, "agent", "subagent", id="a sub-agent by thread_source"),
        pytest.param({"source": None}, "human", None, id="an old log that does not say"),
    ],
)
def test_who_wrote_the_prompt(about: dict[str, Any], author: str, relation: str | None) -> None:
    session = read(meta(**about), said("user", "tidy up"))
    assert (session.messages[0].author, session.relation) == (author, relation)


def test_a_run_of_codex_exec_records_its_own_end() -> None:
    session = fixture("exec_run")
    assert session.terminal
    assert spoken(session) == [("user", "harness", "summarise the diff"), ("assistant", "agent", "It renames a file.")]


def test_a_sub_agent_names_its_parent_and_its_prompts_are_an_agents() -> None:
    session = fixture("subagent")
    assert (session.relation, session.parent_source_id) == ("subagent", PARENT)
    assert session.source_id.endswith("4")  # its own id, though `session_id` is the parent's
    assert [(role, author) for role, author, _ in spoken(session)] == [
        ("context", "harness"),
        ("user", "agent"),
        ("assistant", "agent"),
        ("user", "agent"),  # told twice: as a line and as an item
        ("assistant", "agent"),
    ]


# --- forks ------------------------------------------------------------------------------------------------


def test_t3_t10_the_parents_history_in_a_fork_is_left_out() -> None:
    session = fixture("fork_replay")
    assert (session.relation, session.parent_source_id) == ("fork", PARENT)
    assert session.source_id == "019e7044-8800-7000-8000-000000000003"
    assert (session.cwd, session.agent_version) == ("/work/shop", "0.142.0")
    assert spoken(session) == [
        ("user", "human", "the child asked this"),
        ("assistant", "agent", "The child said this."),
    ]
    (usage,) = usages(session)
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (100, 1100, 10)
    assert session.started == datetime(2026, 5, 28, 20, 26, 40, tzinfo=UTC)  # when it was forked


def test_a_copied_history_whose_fork_is_not_named_names_it_itself() -> None:
    own, old = "019e7044-7479-7000-8000-00000000000a", "019e6fbb-33c0-7000-8000-00000000000a"
    session = read(
        meta(),
        line("session_meta", {"id": PARENT}),
        event("task_started", turn_id=old),
        said("user", "the parent's"),
        event("task_started", turn_id=own),
        said("user", "its own"),
    )
    assert (session.relation, session.parent_source_id, prompts(session)) == ("fork", PARENT, ["its own"])


def test_without_turn_ids_the_first_burst_is_the_parents() -> None:
    session = fixture("fork_without_turn_ids")
    assert [usage.input_tokens for usage in usages(session)] == [10, 10]  # of five rows, three are copied


def test_a_copy_with_its_old_times_starts_with_the_fork_and_its_tokens_go_nowhere() -> None:
    own, old = "019e7044-7479-7000-8000-00000000000a", "019e6fbb-33c0-7000-8000-00000000000a"
    early, late = "2026-05-27T08:00:00Z", "2026-05-28T20:30:00Z"
    session = read(
        meta(forked_from_id=PARENT),
        line("event_msg", {"type": "task_started", "turn_id": old}, early),
        line("response_item", {"type": "message", "role": "assistant", "content": "the parent's"}, early),
        line("turn_context", {"turn_id": own}, late),
        tokens(last_token_usage=counts(9, 0, 9), total_token_usage=counts(99, 0, 99)),
    )
    assert session.started == datetime(2026, 5, 28, 20, 0, tzinfo=UTC)
    assert session.messages == () and [usage.context_tokens for usage in session.loose_usage] == [9]


def test_ordinals_tell_where_a_sub_agents_own_lines_begin() -> None:
    session = read(
        meta(subagent_history_start_ordinal="3", thread_source="subagent"),
        {**said("user", "the parent's prompt"), "ordinal": 1},
        {**tokens(last_token_usage=counts(9, 0, 9), total_token_usage=counts(9, 0, 9)), "ordinal": 2},
        {**said("user", "its own prompt"), "ordinal": 3},
    )
    assert spoken(session) == [("user", "agent", "its own prompt")]
    assert usages(session) == []


def test_a_fork_that_was_never_used_has_no_messages() -> None:
    old = "019e6fbb-33c0-7000-8000-00000000000a"
    session = read(meta(forked_from_id=PARENT), event("task_started", turn_id=old), said("user", "the parent's"))
    assert session.messages == ()


def test_a_sub_agent_that_copied_nothing_keeps_everything() -> None:
    own = "019e7044-7479-7000-8000-00000000000a"
    session = read(
        meta(source={"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}),
        event("task_started", turn_id=own),
        said("user", "its own prompt"),
    )
    assert (session.parent_source_id, len(session.messages)) == (PARENT, 1)


# --- tokens -----------------------------------------------------------------------------------------------


def test_t8_a_cache_write_is_a_part_of_the_input_and_both_records_of_a_response_count_once() -> None:
    (usage,) = usages(fixture("code_mode"))
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens) == (40, 10, 30)
    assert usage.key == "resp_1"


def test_a_usage_record_without_totals_and_its_token_count_are_one_request() -> None:
    record = line("token_usage_record", {"response_id": "resp_9", "usage": counts(50, 0, 5)})
    count = tokens(last_token_usage=counts(50, 0, 5), total_token_usage=counts(50, 0, 5))
    (usage,) = usages(read(meta(), said("assistant", "done"), record, count))
    assert (usage.key, usage.input_tokens) == ("resp_9", 50)


def test_totals_alone_are_counted_by_their_difference() -> None:
    session = read(
        meta(),
        said("assistant", "one"),
        tokens(total_token_usage=counts(100, 40, 10)),
        said("assistant", "two"),
        tokens(total_token_usage=counts(250, 140, 15)),
    )
    assert [(usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) for usage in usages(session)] == [
        (60, 40, 10),
        (50, 100, 5),
    ]


def test_a_token_count_without_a_response_is_loose() -> None:
    session = read(meta(), tokens(last_token_usage=counts(7, 0, 1), total_token_usage=counts(7, 0, 1)))
    assert session.messages == () and len(session.loose_usage) == 1


def test_a_request_has_one_key_in_every_copy_of_its_log() -> None:
    keys = [usage.key for usage in usages(fixture("plain"))]
    assert keys == [usage.key for usage in usages(fixture("plain"))] and len(set(keys)) == 2
    assert all(key is not None and key.startswith(SESSION) for key in keys)


def test_the_usage_of_0_51_and_0_52_is_per_turn() -> None:
    session = read(
        meta(),
        event("turn.completed", usage={"input_tokens": 980, "cached_input_tokens": 0, "output_tokens": 640}),
        event("turn.completed", usage={"input_tokens": 1620, "cached_input_tokens": 980, "output_tokens": 240}),
    )
    assert [(usage.context_tokens, usage.output_tokens) for usage in session.loose_usage] == [(980, 640), (1620, 240)]


def test_the_token_count_of_0_50_has_two_numbers() -> None:
    session = read(
        meta(), event("token_count", info={"prompt": 1420, "completion": 910}), tokens(), event("token_count")
    )
    assert [(usage.input_tokens, usage.output_tokens) for usage in session.loose_usage] == [(1420, 910)]


# --- events -----------------------------------------------------------------------------------------------


def test_q5_a_compaction_counts_once_and_its_history_is_no_news() -> None:
    session = fixture("compaction")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("compaction", 1), ("compaction", 5)]
    assert prompts(session) == ["port the module", "and now?"]
    assert [usage.context_tokens for usage in session.loose_usage] == [29000]  # the summary's own request
    assert [usage.context_tokens for usage in usages(session)[:3]] == [30000, 5000, 6000]


def test_an_error_that_ends_the_turn_is_a_message_and_one_that_was_overcome_is_not() -> None:
    ended = fixture("error_end")
    assert (ended.messages[-1].role, ended.messages[-1].notice) == ("assistant", "api_error")
    assert ended.messages[-1].text == "You have hit your usage limit."
    overcome = fixture("exec_run")
    assert [event.kind for event in overcome.events] == ["api_error"]
    assert all(message.notice is None for message in overcome.messages)


def test_a_new_model_is_sticky_and_told() -> None:
    context = [line("turn_context", {"model": name}) for name in ("gpt-5.4", "gpt-5.4", "gpt-5.5")]
    session = read(meta(), context[0], said("assistant", "a"), said("user", "b"), *context[1:], said("assistant", "c"))
    assert [message.model for message in session.messages] == ["gpt-5.4", None, "gpt-5.5"]
    assert [(event.kind, event.detail) for event in session.events] == [("model_change", "gpt-5.4 -> gpt-5.5")]


def test_reasoning_events_stand_in_where_the_items_have_no_text() -> None:
    shown = event("agent_reasoning", text="**Thinking**")
    alone = read(meta(), shown, said("assistant", "done"))
    assert (alone.messages[0].thinking_kind, alone.messages[0].thinking_bytes) == ("text", 12)
    both = read(meta(), shown, item("reasoning", summary=[{"type": "summary_text", "text": "**Thinking**"}]))
    assert both.messages[0].thinking_bytes == 12 and len(both.messages[0].thinking) == 1


def test_an_event_that_comes_late_repeats_no_answer() -> None:
    count = tokens(last_token_usage=counts(5, 0, 1), total_token_usage=counts(5, 0, 1))
    session = read(meta(), said("assistant", "Hello!"), count, event("agent_message", message="Hello!"))
    assert [text for _, _, text in spoken(session)] == ["Hello!"]


def test_an_answer_that_only_an_event_tells_is_kept() -> None:
    session = read(meta(), told("hello there"), event("agent_message", message="Hello!"))
    assert spoken(session) == [("user", "human", "hello there"), ("assistant", "agent", "Hello!")]


# --- logs that are old, drifted or broken -------------------------------------------------------------------


def test_lines_without_an_envelope_are_read() -> None:
    session = fixture("bare")
    assert (session.source_id, session.branch) == ("5f0e", "dev")
    assert spoken(session) == [
        ("user", "human", "list the files please"),
        ("assistant", "agent", ""),  # no token counts: what follows a result is another response
        ("assistant", "agent", "One file."),
    ]
    assert statuses(session) == ["ok"] and session.losses == ()


def test_drifted_lines_are_read() -> None:
    session = read(
        {"created_at": "2025-09-10T12:00:00Z", "role": "user", "message": "say hello", "model": "gpt-4o-mini"},
        {"type": "function_call", "function": {"name": "translate"}, "arguments": {"to": "es"}},
        {"type": "function_result", "name": "translate", "result": "hola"},
        {"created_at": "2025-09-10T12:00:02Z", "role": "assistant", "content": "hola"},
    )
    assert prompts(session) == ["say hello"]
    assert [(call.name, call.status.value) for call in calls(session)] == [("translate", "unknown")]
    assert session.started == datetime(2025, 9, 10, 12, tzinfo=UTC) and session.losses == ()


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {"unknown_type": 3, "orphan_result": 1, "not_an_object": 1, "malformed_line": 1}
    assert [message.text for message in session.messages] == ["hello there, what is new?", "Much."]


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1}
    assert statuses(session) == ["pending"] and len(session.messages) == 2


def test_a_source_without_records_has_no_session() -> None:
    assert codex.parse([], Source()) == []


def test_a_log_without_a_name_has_its_files() -> None:
    assert read(said("user", "hello there"), source=Source(name="rollout-7")).source_id == "rollout-7"


# --- hostile content --------------------------------------------------------------------------------------

LINES = [(name, row) for name in NAMES for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("timestamp",): (str, int, float),
    ("type",): (str,),
    ("payload",): (dict,),
    ("payload", "content"): (str, list),
    ("payload", "summary"): (str, list),
    ("payload", "exit_code"): (int,),
    ("payload", "success"): (bool,),
    ("payload", "info"): (dict,),
    ("payload", "git"): (dict,),
    ("payload", "git", "branch"): (str,),
    ("payload", "item"): (dict,),
    ("payload", "item", "exit_code"): (int,),
    ("payload", "info", "last_token_usage"): (dict,),
    ("payload", "info", "total_token_usage", "input_tokens"): (int,),
    ("payload", "info", "last_token_usage", "output_tokens"): (int,),
}
TEXTS = (
    "type id role call_id name namespace cwd cli_version forked_from_id parent_thread_id thread_source turn_id model "
    "message text thread_name reason response_id aggregated_output"
)
READ.update({("payload", name): (str,) for name in TEXTS.split()})
WRONG = ("wrong_type", "bad_time", "no_payload")


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in NAMES if name not in ("cut", "unknown_type")]))
    rows = [json.loads(row) for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]
    index = data.draw(st.integers(0, len(rows) - 1))
    at = data.draw(st.sampled_from(sorted(places(rows[index]), key=repr)))
    new = data.draw(junk)
    before = losses(read(*rows))
    rows[index] = put(rows[index], at, new)
    after = losses(read(*rows))
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)) if "payload" in rows[index] else ())
    if wanted is not None and not any(isinstance(key, int) for key in at) and not fits(new, wanted):
        assert sum(after.get(kind, 0) for kind in WRONG) > sum(before.get(kind, 0) for kind in WRONG), (at, new, after)


@settings(max_examples=60, deadline=None)
@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_and_twice_give_a_well_formed_session(lines: list[tuple[str, bytes]], size: int) -> None:
    rows = [row for _, row in lines[:size]]
    for data in (b"\n".join(rows), b"\n".join(rows + rows)):
        for session in codex.parse(records(data), Source()):
            assert_well_formed(session)


def test_a_log_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "code_mode.jsonl").read_bytes()
    for size in range(len(data)):
        for session in codex.parse(records(data[:size]), Source()):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["payload", "timestamp", "type", "arguments", "output", "content", "info", "source"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    inner = b'{"type": "function_call", "role": "user", "call_id": "c", "%s": %s}' % (field.encode(), deep)
    for kind in (b"response_item", b"event_msg", b"session_meta"):
        outer = b'{"timestamp": "2026-05-28T20:00:00Z", "type": "%s", "payload": %s}' % (kind, inner)
        codex.parse([Record(outer, 0), Record(b'{"%s": %s}' % (field.encode(), deep), 0)], Source())


# --- whose log ---------------------------------------------------------------------------------------------


def sample(*values: Any) -> Sample:
    return Sample(values)


@pytest.mark.parametrize("name", NAMES)
def test_its_own_logs_are_claimed(name: str) -> None:
    values = []
    for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()[:20]:
        try:
            values.append(json.loads(row))
        except ValueError:
            continue
    assert codex.sniff(Sample(tuple(values)))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(
            {"type": "user", "sessionId": "s", "uuid": "u", "message": {}, "timestamp": "t"}, id="Claude Code"
        ),
        pytest.param({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/w"}, id="pi"),
        pytest.param(
            {"type": "session.start", "data": {}, "id": "e", "timestamp": "t", "parentId": None}, id="Copilot"
        ),
        pytest.param({"type": "message", "role": "user", "content": "hi"}, id="a bare chat message"),
        pytest.param({"role": "user", "content": "hi"}, id="a list of messages"),
        pytest.param({"type": "event", "payload": {}, "timestamp": "t"}, id="an envelope of somebody else"),
        pytest.param({"type": ["session_meta"], "payload": 3}, id="a type that is no text"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not codex.sniff(sample(value))


# --- real logs, where they are at hand ----------------------------------------------------------------------

REAL = sorted((CORPUS / "codex").glob("*.jsonl")) if CORPUS.is_dir() else []
needs_corpus = pytest.mark.skipif(not REAL, reason="no corpus beside the repository")


def values_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in path.read_bytes().splitlines() if row.strip()]


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_log_adds_up_to_its_own_totals(path: Path) -> None:
    session = read_bytes(path.read_bytes(), Source(name=path.stem))
    assert session.losses == ()
    assert_well_formed(session)
    rows = [value["payload"] for value in values_of(path) if value.get("type") == "event_msg"]
    infos = [
        row["info"] for row in rows if row["type"] == "token_count" and row["info"] and "prompt" not in row["info"]
    ]
    if infos and session.relation is None:
        total = infos[-1]["total_token_usage"]
        assert sum(usage.context_tokens for usage in usages(session)) == total["input_tokens"]
        assert sum(usage.output_tokens for usage in usages(session)) == total["output_tokens"]
    typed = [row for row in rows if row["type"] == "user_message"]
    if session.agent_version not in (None, "0.106.0"):  # an invented log has prompts without an event
        assert len(prompts(session)) == len(typed)


@needs_corpus
def test_a_real_fork_counts_what_it_added_to_its_parent() -> None:
    for parent, child in (("parent", "child"), ("parent~1", "child~1")):
        first, second = (
            values_of(CORPUS / "codex" / f"steipete__CodexBar--{name}.jsonl")[-1]["payload"]["info"][
                "total_token_usage"
            ]
            for name in (parent, child)
        )
        session = read_bytes((CORPUS / "codex" / f"steipete__CodexBar--{child}.jsonl").read_bytes())
        added = sum(usage.context_tokens for usage in usages(session))
        assert added == second["input_tokens"] - first["input_tokens"]


@needs_corpus
def test_statuses_read_by_hand() -> None:
    expected = {
        "EntityProcess__agentv--a3-92ff332928-0-full": {"ok": 18, "failed": 1, "benign": 2, "pending": 2},
        "iamaanahmad__firststep--codex-session": {"ok": 13, "failed": 3, "benign": 1, "pending": 1},
        "therealjhay__Soul--codex-session": {"ok": 5, "failed": 4, "pending": 2},
        "yashpunmiya__Solsmile--codex-session": {"ok": 6, "failed": 1, "pending": 1},
    }
    for name, counted in expected.items():
        session = read_bytes((CORPUS / "codex" / f"{name}.jsonl").read_bytes())
        assert Counter(statuses(session)) == counted, name


@needs_corpus
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        values: list[Any] = []
        data = path.read_bytes()
        for text in [data] if data[:1] == b"[" else data.splitlines()[:20]:
            try:
                values.append(json.loads(text))
            except ValueError:
                continue
        assert codex.sniff(Sample(tuple(values))) == (path.parent.name == "codex"), path
