"""Entire's transcript format. The Q and T rows named in the ids are mistakes known in the field.

Expectations are worked out by hand from the lines of the fixtures in `entire/`, which are invented.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import HUGE, places, put
from tests.parsers.sessions import CORPUS, calls, losses, spoken

from demerit.model import Session, ToolCall
from demerit.parsers import entire
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "entire"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))
FILE = Source(name="transcript")


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


def read_bytes(data: bytes, source: Source = FILE) -> Session:
    (session,) = entire.parse(records(data), source)
    return session


def read(*lines: Any) -> Session:
    return read_bytes(b"\n".join(json.dumps(line).encode() for line in lines))


def rows(name: str) -> list[Any]:
    return [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]


def fixture(name: str, source: Source = FILE) -> Session:
    return read_bytes((FIXTURES / f"{name}.jsonl").read_bytes(), source)


def told(session: Session) -> dict[str | None, tuple[str, str]]:
    return {call.call_id: (call.status.value, call.evidence) for call in calls(session)}


# --- one session, from end to end -----------------------------------------------------------------------------


def test_a_plain_transcript_tells_who_said_what_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.agent_version) == ("entire", "transcript", "0.5.1")
    assert session.started == datetime(2026, 7, 1, 9, 0, 0, tzinfo=UTC)
    assert session.ended == datetime(2026, 7, 1, 9, 0, 6, tzinfo=UTC)
    assert spoken(session) == [
        ("user", "human", "round half up in cart.py please"),
        ("assistant", "agent", "I will look."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Rounding is half up now."),
        ("user", "human", "and the footer, as here"),
        ("user", "human", ""),
        ("assistant", "agent", "I see it."),
    ]
    assert [message.has_image for message in session.messages[4:6]] == [True, True]
    assert not (session.losses or session.events or session.terminal)


def test_tokens_are_left_alone_for_their_meaning_differs_by_agent() -> None:
    session = fixture("plain")
    assert session.loose_usage == () and all(message.usage is None for message in session.messages)
    assert entire.PARSER.coverage.usage == entire.PARSER.coverage.models == "no"


def test_calls_have_their_files_and_the_result_that_stands_inside_them() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    read_call, edit = calls(read_bytes(data))
    assert (read_call.category, read_call.file_paths) == ("read", ("/home/dev/shop/cart.py",))
    assert (edit.category, edit.status.value, edit.evidence) == ("edit", "ok", "status success")
    result = read_call.result
    assert result is not None and result.offset is not None
    assert json.loads(data[result.offset : result.offset + result.bytes]) == "def total(): ..."


def test_t10_the_pieces_of_one_response_are_one_message_until_the_next_prompt() -> None:
    session = fixture("pieces")
    assert spoken(session) == [
        ("user", "human", "look at both files"),
        ("assistant", "agent", "First,\nthen."),
        ("assistant", "agent", "Both are short."),
        ("user", "human", "once more, please"),
        ("assistant", "agent", "As I said."),
    ]
    assert [call.call_id for call in session.messages[1].calls] == ["t1", "t2"]


def test_a_text_is_cut_to_what_is_kept_and_a_prompt_never() -> None:
    session = fixture("plain", Source(bodies=False, text_bytes=4))
    assert (session.messages[1].text, session.messages[1].text_bytes) == ("I wi", 12)
    assert session.messages[0].text == "round half up in cart.py please"
    assert calls(session)[0].result is None and calls(session)[0].input_hash is not None


# --- how calls went -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_id", "status", "evidence"),
    [
        pytest.param("t1", "failed", "exit code 1 of pytest", id="Q1 a command that failed"),
        pytest.param("t2", "benign", "exit code 1 of grep", id="T23 grep found nothing"),
        pytest.param("t3", "failed", "status error: String to replace not found in file.", id="Q2 a failed edit"),
        pytest.param("t4", "declined", "text: the user said no", id="Claude's text of a refusal"),
        pytest.param("t5", "ok", "status success", id="Q13 Q14 words in an output decide nothing"),
        pytest.param("t6", "invalid", "text: Error: No such tool available: Nope", id="a tool that is not there"),
        pytest.param("t7", "cancelled", "text: Sibling tool call errored", id="never ran"),
        pytest.param("t8", "failed", "status error", id="an error without a word"),
        pytest.param("t9", "unknown", "status odd", id="a status that is not known"),
    ],
)
def test_status_of_a_claude_call(call_id: str, status: str, evidence: str) -> None:
    assert told(fixture("tool_error"))[call_id] == (status, evidence)


def test_q3_every_codex_result_is_called_a_success_so_only_an_exit_code_tells() -> None:
    session = fixture("codex")
    assert told(session) == {
        "c1": ("failed", "header, exit code 1 of pytest"),
        "c2": ("ok", "header, exit code 0"),
        "c3": ("benign", "header, exit code 1 of rg"),
        "c4": ("unknown", "every Codex result is called a success"),
        "c5": ("pending", "no result in the last message"),
    }
    assert calls(session)[3].file_paths == ("a.py",)
    assert session.started is None and session.losses == ()  # empty times


def test_a_copilot_success_may_have_exited_with_1() -> None:
    assert told(fixture("copilot")) == {
        "c1": ("failed", "last line, exit code 1 of pytest"),
        "c2": ("benign", "last line, exit code 1 of grep"),
        "c3": ("ok", "last line, exit code 0"),
        "c4": ("ok", "status success"),  # a file that was read says what it likes
        "c5": ("failed", "status error"),
    }


@pytest.mark.parametrize(
    ("agent", "name", "output", "status", "code"),
    [
        pytest.param(
            "Gemini CLI", "run_shell_command", "Output: 1 failed\nExit Code: 2", "failed", 2, id="Gemini's exit"
        ),
        pytest.param("gemini", "run_shell_command", "Output: (empty)\nExit Code: 1", "benign", 1, id="no match"),
        pytest.param("gemini", "run_shell_command", "Output: fine", "ok", 0, id="Gemini writes no exit code 0"),
        pytest.param("gemini", "run_shell_command", "1 failed", "unknown", None, id="an output that is shown alone"),
        pytest.param("gemini", "read_file", "Exit Code: 2", "ok", None, id="a file that was read says what it likes"),
        pytest.param("opencode", "bash", "1 failed\nExit Code: 2", "unknown", None, id="OpenCode's exit is left out"),
        pytest.param("opencode", "bash", None, "unknown", None, id="a command without an output"),
        pytest.param("opencode", "read", "text", "ok", None, id="another tool of OpenCode"),
        pytest.param("pi", "bash", "done", "ok", None, id="pi flags each command that failed"),
    ],
)
def test_a_success_of_the_shell_is_none_of_its_command(
    agent: str, name: str, output: str | None, status: str, code: int | None
) -> None:
    call = answered(agent, name, output, "success")
    assert (call.status.value, call.exit_code) == (status, code)


@pytest.mark.parametrize(
    ("agent", "name", "output", "status", "code"),
    [
        pytest.param("pi", "bash", "(no output)\n\nCommand exited with code 1", "benign", 1, id="T23 pi: no match"),
        pytest.param("Pi", "bash", "bad\n\nCommand exited with code 2", "failed", 2, id="pi: a command that failed"),
        pytest.param("pi", "bash", "Command aborted", "cancelled", None, id="pi: Esc"),
        pytest.param("pi", "edit", 'Validation failed for tool "edit":', "invalid", None, id="pi: a broken call"),
        pytest.param("copilot-cli", "bash", "Command aborted", "failed", None, id="the same words of another agent"),
        pytest.param("gemini", "nope", 'Tool "nope" not found. Did you', "invalid", None, id="Gemini: an unknown tool"),
        pytest.param("gemini", "replace", "Failed to edit", "failed", None, id="Gemini: a tool that failed"),
        pytest.param("gemini", "replace", None, "failed", None, id="Gemini: an error without a word"),
    ],
)
def test_an_error_in_the_words_of_its_agent(
    agent: str, name: str, output: str | None, status: str, code: int | None
) -> None:
    call = answered(agent, name, output, "error")
    assert (call.status.value, call.exit_code) == (status, code)


def test_a_failure_shows_how_its_output_begins() -> None:
    assert answered("droid", "Edit", "No match\nin a.py", "error").evidence == "status error: No match"
    assert answered("droid", "Edit", "", "error").evidence == "status error"


def test_a_poll_is_told() -> None:
    assert answered("claude-code", "BashOutput", "", "success").is_poll
    assert not answered("claude-code", "Bash", "", "success").is_poll


def answered(agent: str, name: str, output: str | None, status: str) -> ToolCall:
    result = {"output": output, "status": status}
    block = {"type": "tool_use", "id": "c1", "name": name, "input": {"command": "grep -c x a.txt"}, "result": result}
    line = {"v": 1, "agent": agent, "cli_version": "0.5.1", "type": "assistant", "id": "m", "content": [block]}
    (call,) = calls(read(line))
    return call


def test_cursor_logs_no_results_so_a_missing_one_is_not_pending() -> None:
    assert told(fixture("cursor")) == {None: ("unknown", "no result was kept")}


def test_a_missing_result_is_pending_only_at_the_end() -> None:
    assert told(fixture("cut")) == {"t1": ("pending", "no result in the last message")}
    assert told(fixture("pieces"))["t2"] == ("unknown", "no result was kept")
    assert told(fixture("compaction")) == {"t1": ("pending", "no result in the last message")}  # then a notice


def test_t43_the_first_result_of_a_call_stands_and_fills_its_copies() -> None:
    assert [call.status.value for call in calls(fixture("replay"))] == ["failed", "failed"]
    assert [call.exit_code for call in calls(fixture("replay"))] == [2, 2]


# --- who wrote it, and what else happened -----------------------------------------------------------------------


def test_a_summary_is_a_compaction_and_an_interrupt_no_prompt() -> None:
    session = fixture("compaction")
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("context", "harness", "compaction_summary"),
        ("user", "human", None),
        ("context", "harness", None),
        ("context", "harness", None),
        ("assistant", "agent", None),
        ("context", "harness", "interrupt"),
    ]
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("compaction", None), ("interrupt", 4)]


# --- broken and hostile content -----------------------------------------------------------------------------------


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {
        "call_without_name": 1,
        "no_type": 1,
        "not_an_object": 1,
        "unknown_type": 2,
        "wrong_type": 1,
    }
    assert [text for _, _, text in spoken(session)] == [
        "what is new in here?",
        "Much.",
        "",
        "A plain text.",
        "A plain prompt.",
        "",
    ]


def test_a_cut_last_line_costs_itself() -> None:
    assert losses(fixture("cut")) == {"malformed_line": 1}


@pytest.mark.parametrize("name", NAMES)
def test_a_log_may_be_cut_at_any_byte(name: str) -> None:
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    for size in range(1, len(data), 41):
        read_bytes(data[:size])


def test_a_source_without_records_has_no_session() -> None:
    assert entire.parse([], Source()) == []


# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("type",): (str,),
    ("agent",): (str,),
    ("cli_version",): (str,),
    ("id",): (str,),
    ("ts",): (str, int, float),
    ("content",): (str, list),
    ("content", "type"): (str,),
    ("content", "text"): (str,),
    ("content", "id"): (str,),
    ("content", "name"): (str,),
    ("content", "result"): (dict,),
    ("content", "result", "status"): (str,),
}
WRONG = ("wrong_type", "bad_time")
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.just(HUGE) | st.just(1.5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def fits(value: object, wanted: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in wanted
    return value is None or isinstance(value, wanted)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    lines = rows(data.draw(st.sampled_from([name for name in NAMES if name not in ("cut", "unknown_type")])))
    index = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.sampled_from(sorted(places(lines[index]), key=repr)))
    new = data.draw(junk)
    before = losses(read(*lines))
    lines[index] = put(lines[index], at, new)
    after = losses(read(*lines))
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        assert sum(after.get(kind, 0) for kind in WRONG) > sum(before.get(kind, 0) for kind in WRONG), (at, new)


# --- whose it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_fixture_is_recognised_by_its_first_line(name: str) -> None:
    first = (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()[0]
    assert entire.sniff(Sample((json.loads(first),)))


@pytest.mark.parametrize(
    "value",
    [
        {"v": 1, "type": "user", "agent": "codex", "content": []},
        {"v": 2, "type": "user", "agent": "codex", "cli_version": "1", "content": []},
        {"v": 1, "type": "system", "agent": "codex", "cli_version": "1", "content": []},
        {"v": 1, "type": ["user"], "agent": "codex", "cli_version": "1", "content": []},
        {"type": "user", "message": {"content": "hi"}},
        [],
        None,
    ],
)
def test_other_lines_are_not_claimed(value: object) -> None:
    assert not entire.sniff(Sample((value,)))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real logs is not here")
def test_every_real_log_is_read_without_a_loss() -> None:
    for path in (CORPUS / "claude-entire-compact").iterdir():
        session = read_bytes(path.read_bytes())
        assert session.messages and session.losses == (), path.name
        assert {call.status.value for call in calls(session)} == {"ok"}
