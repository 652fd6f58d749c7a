"""Cursor. The Q and T rows named in the ids are mistakes known in the field: docs/formats/cursor.md.

Expectations are worked out by hand from the lines of the fixtures in `cursor/`, which are invented.
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

from demerit.model import Session
from demerit.parsers import cursor
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "cursor"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))
TEXT = (FIXTURES / "text.txt").read_bytes()
FILE = Source(name="5c1e-1")


def records(data: bytes) -> Iterator[Record]:
    """As they come from a file: blank lines are left out."""
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line + b"\n", offset)
        offset += len(line) + 1


def read_bytes(data: bytes, source: Source = FILE) -> Session:
    (session,) = cursor.parse(records(data), source)
    return session


def read(*lines: Any, source: Source = FILE) -> Session:
    return read_bytes(b"\n".join(json.dumps(line).encode() for line in lines), source)


def rows(name: str) -> list[Any]:
    return [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]


def fixture(name: str, source: Source = FILE) -> Session:
    return read_bytes((FIXTURES / f"{name}.jsonl").read_bytes(), source)


def line(role: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "message": {"content": list(blocks)}, **more}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


# --- one session, from end to end -----------------------------------------------------------------------------


def test_a_plain_session_tells_who_said_what_and_no_time() -> None:
    modified = datetime(2026, 7, 1, tzinfo=UTC)
    session = fixture("plain", FILE._replace(modified=modified))
    assert (session.agent, session.source_id, session.modified) == ("cursor", "5c1e-1", modified)
    assert (session.started, session.ended, session.cwd, session.title) == (None, None, None, None)
    assert spoken(session) == [
        ("user", "human", "round half up in cart.py please"),
        ("assistant", "agent", "I will look."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Rounding is half up now."),
    ]
    assert not (session.terminal or session.events or session.losses or session.relation)


def test_no_call_has_a_status_for_there_are_no_results() -> None:
    session = fixture("plain")
    assert [(call.name, call.category, call.status.value) for call in calls(session)] == [
        ("Read", "read", "unknown"),
        ("Grep", "search", "unknown"),
        ("StrReplace", "edit", "unknown"),
    ]
    assert {(call.evidence, call.call_id, call.result) for call in calls(session)} == {
        ("Cursor logs no results", None, None)
    }
    assert cursor.PARSER.coverage.statuses == cursor.PARSER.coverage.times == cursor.PARSER.coverage.usage == "no"


def test_q19_q26_each_tool_is_mapped_and_names_its_files() -> None:
    assert [(call.name, call.category, call.file_paths) for call in calls(fixture("tools"))[:10]] == [
        ("Shell", "shell", ()),
        ("Delete", "edit", ("old.py",)),
        ("EditNotebook", "edit", ("a.ipynb",)),
        ("ApplyPatch", "edit", ("b.py", "c.py")),
        ("CallMcpTool", "mcp", ()),
        ("Task", "agent", ()),
        ("TodoWrite", "plan", ()),
        ("AskQuestion", "question", ()),
        ("SemanticSearch", "search", ()),
        ("AwaitShell", "shell", ()),
    ]


def test_two_looks_at_a_running_shell_are_no_retry() -> None:
    first, second = calls(fixture("tools"))[-2:]
    assert first.name == second.name == "AwaitShell" and first.input_hash != second.input_hash
    assert [call.name for call in calls(fixture("tools")) if call.is_poll] == ["AwaitShell", "AwaitShell"]


def test_equal_inputs_have_equal_hashes() -> None:
    call = {"type": "tool_use", "name": "Shell", "input": {"command": "make", "cwd": "/x"}}
    same = {"type": "tool_use", "name": "Shell", "input": {"cwd": "/x", "command": "make"}}
    first, second = calls(read(line("assistant", call), line("assistant", same)))
    assert first.input_hash is not None and first.input_hash == second.input_hash


def test_an_input_stays_at_its_place_in_the_log() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    body = calls(read_bytes(data))[0].input
    assert body is not None and body.offset is not None
    assert json.loads(data[body.offset : body.offset + body.bytes]) == {"path": "/home/dev/shop/cart.py"}
    assert calls(fixture("plain", Source(bodies=False)))[0].input is None


# --- who wrote it ---------------------------------------------------------------------------------------------


def test_t57_a_prompt_is_kept_without_what_the_editor_puts_around_it() -> None:
    assert spoken(fixture("wrappers")) == [
        ("user", "human", "what does the cart do?"),
        ("assistant", "agent", "It sums."),
        ("user", "human", "and the order page?"),
        ("assistant", "agent", "It lists."),
        ("context", "harness", "<system_reminder>\nYou are in plan mode.\n</system_reminder>"),
        ("context", "harness", "<git_status>clean</git_status>\n<user_info>linux</user_info>"),
        ("user", "human", "what about this one, which is cut"),
        ("user", "human", "why does <timestamp> stand in my page?"),
        ("user", "human", "see this"),
        ("user", "human", ""),
        ("assistant", "agent", ""),  # a text that was taken out
        ("assistant", "agent", "Because.\n\n**Explaining the tag**"),
    ]
    assert [message.has_image for message in fixture("wrappers").messages[8:10]] == [True, True]


def test_a_file_among_subagents_is_a_sub_agents_and_its_prompt_the_agents() -> None:
    session = fixture("subagent", FILE._replace(parent="5c1e-0"))
    assert (session.parent_source_id, session.relation) == ("5c1e-0", "subagent")
    assert [(message.role, message.author) for message in session.messages[:2]] == [
        ("user", "agent"),
        ("assistant", "agent"),
    ]
    alone = fixture("subagent")
    assert (alone.relation, alone.messages[0].author) == (None, "human")


def test_q27_t32_an_interrupt_is_told_once_and_is_no_prompt() -> None:
    session = fixture("interrupted")
    last = session.messages[-1]
    assert len(session.messages) == 3
    assert (last.role, last.author, last.notice) == ("context", "harness", "interrupt")
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("interrupt", 1)]


def test_t20_a_turn_that_ended_with_an_error_is_an_api_error() -> None:
    session = fixture("api_error")
    last = session.messages[-1]
    assert (last.role, last.author, last.notice) == ("assistant", "harness", "api_error")
    assert [event.detail for event in session.events] == ['{"message": "overloaded"}']


@pytest.mark.parametrize(
    ("end", "notice"),
    [
        ({"status": "success"}, None),
        ({"status": "completed"}, None),
        ({"status": "error", "error": "User aborted the request."}, "interrupt"),
        ({"status": "error", "error": {}}, "api_error"),
        ({"status": "error"}, "api_error"),
    ],
)
def test_the_end_of_a_turn(end: dict[str, Any], notice: str | None) -> None:
    session = read(line("assistant", text("hm")), {"type": "turn_ended", **end})
    assert session.messages[-1].notice == notice and not session.terminal


# --- the older plain text ---------------------------------------------------------------------------------------


def test_plain_text_is_read_block_by_block() -> None:
    session = read_bytes(TEXT, Source(name="5c1e-1.txt"))
    assert session.source_id == "5c1e-1" and session.losses == ()
    assert spoken(session) == [
        ("user", "human", "round half up\nin cart.py please"),
        ("assistant", "agent", "I will look.\nIt rounds once."),
        ("assistant", "agent", ""),
        ("user", "human", "thanks!"),
        ("assistant", "agent", "You are welcome."),
    ]
    first = session.messages[1]
    assert [body.head for body in first.thinking] == ["I have to look.\nThe cart sums."]
    assert (first.thinking_kind, first.thinking_bytes) == ("text", 30)


def test_calls_in_plain_text_have_their_inputs_and_files() -> None:
    session = read_bytes(TEXT)
    assert [(call.name, call.category, call.file_paths, call.status.value) for call in calls(session)] == [
        ("Read", "read", ("/home/dev/shop/cart.py",), "unknown"),
        ("Shell", "shell", (), "unknown"),
        ("ApplyPatch", "edit", ("cart.py",), "unknown"),
    ]
    assert all(call.input_hash for call in calls(session))


def test_a_role_in_the_output_of_a_tool_opens_no_message() -> None:
    told = b"user:\nhello there\nassistant:\n[Tool result] Read\n  user:\n  name: x\nDone.\n"
    assert [role for role, _, _ in spoken(read_bytes(told))] == ["user", "assistant"]


# --- broken and hostile content -----------------------------------------------------------------------------------


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("drift")
    # a new block, a status, a type and a role that are not known; a result that names no call
    assert losses(session) == {"no_type": 1, "orphan_result": 1, "unknown_type": 4}
    assert spoken(session) == [
        ("user", "human", "explain the build"),
        ("assistant", "agent", "Something new."),
        ("assistant", "agent", "It failed."),
    ]
    first = session.messages[1]
    assert (first.model, first.thinking_kind, first.thinking_bytes) == ("cursor-auto", "text", 25)
    assert [(call.name, call.file_paths) for call in first.calls] == [("read_file", ("build.log",))]


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1} and len(session.messages) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_log_may_be_cut_at_any_byte(name: str) -> None:
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    for size in range(1, len(data), 11):
        read_bytes(data[:size])
    for size in range(1, len(TEXT), 3):
        read_bytes(TEXT[:size])


def test_a_source_without_records_has_no_session() -> None:
    assert cursor.parse([], Source()) == []


# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("role",): (str,),
    ("type",): (str,),
    ("status",): (str,),
    ("model",): (str,),
    ("message",): (dict,),
    ("message", "content"): (str, list),
    ("message", "content", "type"): (str,),
    ("message", "content", "text"): (str,),
    ("message", "content", "name"): (str,),
    ("message", "content", "thinking"): (str,),
}
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
    lines = rows(data.draw(st.sampled_from([name for name in NAMES if name != "cut"])))
    index = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.sampled_from(sorted(places(lines[index]), key=repr)))
    new = data.draw(junk)
    before = losses(read(*lines)).get("wrong_type", 0)
    lines[index] = put(lines[index], at, new)
    after = losses(read(*lines)).get("wrong_type", 0)
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        assert after > before, (at, new)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*TEXT.splitlines(), b"[Tool call] ", b"  x=", b"\xff", b"[Thinking]"]), max_size=30))
def test_lines_of_text_in_any_order_give_a_well_formed_session(lines: list[bytes]) -> None:
    for session in cursor.parse(records(b"user:\n" + b"\n".join(lines)), Source()):
        assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))


# --- whose it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_fixture_is_recognised_by_its_first_line(name: str) -> None:
    first = (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()[0]
    assert cursor.sniff(Sample((json.loads(first),)))


def test_plain_text_is_recognised_by_how_it_begins() -> None:
    assert cursor.sniff(Sample(text=TEXT.decode()))
    assert cursor.sniff(Sample(({"command": "grep -c round cart.py"},), text=TEXT.decode()))
    assert cursor.sniff(Sample(text="\n\nuser:\n<user_query>\nhi"))
    assert cursor.sniff(Sample(text="user:\nhi\nassistant:\nhello\n"))


@pytest.mark.parametrize(
    "sample",
    [
        Sample(({"role": "user", "content": "hi"},)),
        Sample(({"role": "user", "message": {"role": "user", "content": "hi"}},)),
        Sample(({"role": "user", "message": {"content": "hi"}, "uuid": "x"},)),
        Sample(({"type": "user", "message": {"content": "hi"}},)),
        Sample(({"type": "turn_ended"},)),
        Sample(({"role": ["user"], "message": {"content": "hi"}},)),
        Sample((["user"], "user", None, 1)),
        Sample(text="user:\n  name: x\n  shell: bash\n"),
        Sample(text="users:\nassistant:\n"),
        Sample(text="hello\nuser:\n<user_query>"),
        Sample(),
    ],
)
def test_other_content_is_not_claimed(sample: Sample) -> None:
    assert not cursor.sniff(sample)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real logs is not here")
def test_every_real_log_is_read() -> None:
    for path in (CORPUS / "cursor").iterdir():
        session = read_bytes(path.read_bytes())
        assert session.messages and ("unknown_type" in losses(session)) == ("drift" in path.name), path.name
