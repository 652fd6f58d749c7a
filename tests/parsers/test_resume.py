"""A log read on from a state: the same as a whole read, or an honest None.

The one rule is checked everywhere: what was told before, with what a resumed read tells on top, is what a whole read
of the same lines gives. Where the answer is None, the test reads the whole, as every caller has to.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers import claude_lines as claude_log
from tests.parsers.claude_lines import Line, assistant, call, line, result, user

from demerit.model import Session
from demerit.parsers import claude, codex, records
from demerit.parsers.records import MOST_STATE_BYTES, Parser, Record, Resumed, Source

CLAUDE, CODEX = claude.PARSER, codex.PARSER
HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "src" / "demerit" / "samples"
LOGS = [
    *((CODEX, path) for path in sorted(HERE.glob("codex/*.jsonl"))),
    *(
        (parser, path)
        for parser in (CLAUDE, CODEX)
        for path in sorted(SAMPLES.rglob(f"{parser.title.split()[0].lower()}*.jsonl"))
    ),
    *((CLAUDE, path) for path in sorted(SAMPLES.rglob("agent-*.jsonl"))),
]
LOG = Source("log")


def records_in(path: Path) -> list[Record]:
    return claude_log.records(list[Line | str | bytes](path.read_bytes().splitlines()))


def whole(parser: Parser, lines: Sequence[Record], source: Source) -> Session | None:
    return next(iter(parser.parse(lines, source)), None)


def resume(parser: Parser, state: bytes | None, lines: Iterable[Record], source: Source = LOG) -> Resumed | None:
    assert parser.resume is not None
    return parser.resume(state, lines, source)


def read_in_steps(parser: Parser, lines: Sequence[Record], cuts: Iterable[int], source: Source = LOG) -> Counter[str]:
    """How often each step was `begun`, `read on`, or answered `None`. Every step is checked against a whole read."""
    steps: Counter[str] = Counter()
    session: Session | None = None
    state: bytes | None = None
    for begin, end in pairwise([0, *sorted(set(cuts) - {0, len(lines)}), len(lines)]):
        got = resume(parser, state, lines[begin:end], source) if state is not None else None
        if state is not None:
            steps["None" if got is None else "read on"] += 1
        if got is not None and session is not None:
            assert got.first <= len(session.messages)
            session = got.onto(session)
        else:
            steps["begun"] += 1
            got = resume(parser, None, lines[:end], source)
            session = got.session if got is not None else None
        assert session == whole(parser, lines[:end], source)
        state = got.state if got is not None else None
        assert state is None or len(state) <= MOST_STATE_BYTES
    return steps


# --- logs that agents wrote -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parser", "path"), [pytest.param(*log, id=f"{log[1].parent.name}/{log[1].stem}") for log in LOGS]
)
def test_every_cut_of_a_log_gives_what_a_whole_read_gives(parser: Parser, path: Path) -> None:
    lines = records_in(path)
    source = Source(path.stem)
    for cut in range(len(lines) + 1):
        read_in_steps(parser, lines, [cut], source)
    read_in_steps(parser, lines, range(len(lines)), source)


@pytest.mark.parametrize(("parser", "most_none"), [(CLAUDE, 0.02), (CODEX, 0.0)], ids=["claude", "codex"])
def test_real_logs_are_read_on_line_by_line_and_seldom_ask_for_a_whole_read(
    corpus: Path, parser: Parser, most_none: float
) -> None:
    steps: Counter[str] = Counter()
    for path in sorted((corpus / parser.title.split()[0].lower()).glob("*.jsonl")):
        lines = records_in(path)
        source = Source(path.stem)
        # Each step compares with a whole read: of a long log, the lines of its last part, and cuts all over it.
        steps += read_in_steps(parser, lines, range(max(0, len(lines) - 60), len(lines)), source)
        read_in_steps(parser, lines, range(0, len(lines), max(1, len(lines) // 25)), source)
    assert steps["read on"] > 500
    assert steps["None"] <= most_none * steps["read on"]


# --- generated logs ---------------------------------------------------------------------------------------

# Few ids, so that results come late, calls are logged again and responses go on.
few = st.sampled_from("abcd")
claude_lines = st.one_of(
    st.builds(lambda id, call_id: assistant(call(f"c{call_id}", command="ls"), id=f"m{id}"), few, few),
    st.builds(lambda id, text: assistant(text, id=f"m{id}", used=claude_log.usage(output=len(text))), few, few),
    st.builds(lambda id: assistant("aside", call(f"s{id}", "Read"), id=f"s{id}", isSidechain=True, agentId="a1"), few),
    st.builds(lambda id, bad: result(f"c{id}", "Exit code 1" if bad else "done", is_error=bad), few, st.booleans()),
    st.builds(lambda id: result(f"s{id}", isSidechain=True), few),
    st.builds(lambda id: line("progress", parentToolUseID=f"c{id}", data={"type": "bash_progress"}), few),
    st.builds(lambda text: user(f"please {text}"), few),
    st.builds(lambda text: user(f"please {text}", promptSource="queued"), few),
    st.builds(lambda text: user(f"please {text}", isSidechain=True), few),
    st.builds(
        lambda operation, text: line("queue-operation", operation=operation, content=f"please {text}", uuid=None),
        st.sampled_from(["enqueue", "remove", "dequeue", "popAll"]),
        few,
    ),
    st.builds(lambda text: line("attachment", attachment={"type": "queued_command", "prompt": f"please {text}"}), few),
    st.builds(lambda: user("[Request interrupted by user]")),
    st.builds(lambda: line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})),
    st.builds(lambda: assistant("API Error: overloaded", isApiErrorMessage=True, model="<synthetic>")),
    st.builds(lambda title: line("ai-title", aiTitle=title, uuid=None, timestamp=None), few),
    st.builds(lambda id: user("from elsewhere", sessionId=f"session-{id}"), few),
    st.builds(lambda: line("nobody-knows")),
    st.just("{broken"),
)


def repeated(data: st.DataObject, lines: Sequence[Any], most: int) -> list[Any]:
    """The lines, with some of them once more further on."""
    found = list(lines)
    for _ in range(data.draw(st.integers(0, most)) if lines else 0):
        found.insert(data.draw(st.integers(0, len(found))), data.draw(st.sampled_from(lines)))
    return found


@given(data=st.data())
@settings(max_examples=300)
def test_any_claude_log_read_in_any_steps_is_what_a_whole_read_gives(data: st.DataObject) -> None:
    lines = repeated(data, data.draw(st.lists(claude_lines, max_size=25)), 3)
    read_in_steps(CLAUDE, claude_log.records(lines), data.draw(st.sets(st.integers(0, len(lines)))))


SESSION = "019e7044-7478-7000-8000-000000000001"
PARENT = "019e6fbb-33c0-7000-8000-000000000002"


def entry(kind: str, **payload: Any) -> Line:
    return {"type": kind, "payload": payload}


def item(kind: str, **payload: Any) -> Line:
    return entry("response_item", type=kind, **payload)


def event(kind: str, **payload: Any) -> Line:
    return entry("event_msg", type=kind, **payload)


def said(role: str, text: str) -> Line:
    return item("message", role=role, content=[{"type": "input_text", "text": text}])


def asked(call_id: str | None, name: str = "exec_command", **arguments: Any) -> Line:
    return item("function_call", call_id=call_id, name=name, arguments=json.dumps(arguments))


def answered(call_id: str | None, text: str, **more: Any) -> Line:
    return item("function_call_output", call_id=call_id, output=text, **more)


def tokens(total: int, last: int = 1) -> Line:
    return event(
        "token_count",
        info={
            "total_token_usage": {"input_tokens": total, "output_tokens": total},
            "last_token_usage": {"input_tokens": last, "output_tokens": last},
        },
    )


meta = st.builds(
    lambda id: entry("session_meta", id=id, source="cli", timestamp="2026-05-28T20:00:00Z"), st.just(SESSION)
)
small = st.integers(1, 4)
codex_lines = st.one_of(
    meta,
    st.just(entry("session_meta", id=PARENT, source="cli")),
    st.builds(lambda id, text: asked(f"c{id}", cmd=f"run {text}"), few, few),
    st.builds(lambda id, n: asked(f"c{id}", "write_stdin", session_id=n, chars=""), few, small),
    st.builds(lambda id, n: asked(f"c{id}", "write_stdin", session_id=n, chars="\x03"), few, small),
    st.builds(lambda n: asked(None, cmd=f"run {n}"), small),
    st.builds(lambda id, n: answered(f"c{id}", f"Process exited with code {n % 3}\nOutput:\nx"), few, small),
    st.builds(lambda id, n: answered(f"c{id}", f"Process running with session ID {n}\nOutput:\n"), few, small),
    st.builds(lambda id: answered(f"c{id}", "x"), few),
    st.builds(lambda: answered(None, "Exit code: 1\nOutput:\nx", name="exec_command")),
    st.builds(lambda id, n: event("exec_command_end", call_id=f"c{id}", exit_code=n % 3, command=["ls"]), few, small),
    st.builds(lambda id: event("patch_apply_end", call_id=f"c{id}", success=True, changes={"a.py": {}}), few),
    st.builds(lambda: item("web_search_call", status="completed", action={"query": "x"})),
    st.builds(lambda id: event("web_search_end", call_id=f"c{id}"), few),
    st.builds(lambda text: said("assistant", text), few),
    st.builds(lambda text: event("agent_message", message=text), few),
    st.builds(lambda text: item("reasoning", summary=[{"type": "summary_text", "text": text}]), few),
    st.builds(lambda text: said("user", text), few),
    st.builds(lambda text: event("user_message", message=text), few),
    st.builds(lambda text: event("user_message", message=text, images=["x"]), few),
    st.builds(lambda text: item("agent_message", content=text), few),
    st.builds(lambda: said("user", "<turn_aborted>")),
    st.builds(lambda: said("developer", "<permissions instructions>")),
    st.builds(tokens, small, small),
    st.builds(lambda n: entry("token_usage_record", usage={"input_tokens": n}, response_id=f"r{n}"), small),
    st.builds(lambda: event("task_started")),
    st.builds(lambda: event("task_complete")),
    st.builds(lambda: event("turn_aborted", reason="interrupted")),
    st.builds(lambda: event("error", message="stream lost")),
    st.builds(lambda: event("context_compacted")),
    st.builds(lambda name: entry("turn_context", model=name), few),
    st.builds(lambda: event("nobody_knows")),
)
burst = st.integers(0, 3)
"""Seconds between a line and the next."""


def timed(lines: Iterable[Line], gaps: Iterable[int]) -> list[Record]:
    at = datetime(2026, 5, 28, 20, 0, tzinfo=UTC)
    found: list[Line | str | bytes] = []
    for one, gap in zip(lines, gaps, strict=True):
        at += timedelta(seconds=gap)
        found.append({"timestamp": at.isoformat(), **one})
    return claude_log.records(found)


@given(
    data=st.data(), begin=st.lists(meta | st.just(entry("session_meta", id=SESSION, forked_from_id=PARENT)), max_size=1)
)
@settings(max_examples=400)
def test_any_codex_log_read_in_any_steps_is_what_a_whole_read_gives(data: st.DataObject, begin: list[Line]) -> None:
    lines = repeated(data, begin + data.draw(st.lists(codex_lines, max_size=30)), 3)
    gaps = data.draw(st.lists(burst, min_size=len(lines), max_size=len(lines)))
    read_in_steps(CODEX, timed(lines, gaps), data.draw(st.sets(st.integers(0, len(lines)))))


def claude_turns(count: int, after: int = 0) -> list[Line]:
    """Turns of a run without a person: a response with one call, and its result; a second a line."""
    return [
        one
        for n in range(after, after + count)
        for one in (
            assistant(call(f"call-{n}", command=f"make {n}"), id=f"answer-{n}", second=2 * n),
            result(f"call-{n}", second=2 * n + 1),
        )
    ]


def codex_turns(count: int) -> list[Line]:
    return [
        one
        for n in range(count)
        for one in (
            asked(f"call-{n}", cmd=f"make {n}"),
            tokens(n + 1),
            answered(f"call-{n}", "Process exited with code 0\nOutput:\nx"),
        )
    ]


def timed_codex(lines: list[Line]) -> list[Record]:
    return timed(lines, [1] * len(lines))


@given(data=st.data())
@settings(max_examples=150)
def test_what_was_forgotten_is_told_apart_from_what_is_new(data: st.DataObject) -> None:
    """With room for a few ids only: copies of old lines, late results, and results of calls that nobody made."""
    lines: list[Any] = claude_turns(15)
    lines.insert(data.draw(st.integers(0, 30)), user("once upon a time", timestamp=None))
    for _ in range(data.draw(st.integers(1, 3))):
        late = result(f"call-{data.draw(st.integers(0, 20))}", "Exit code 1", is_error=True, second=40)
        new = data.draw(st.sampled_from(lines) | st.just(late))
        lines.insert(data.draw(st.integers(0, len(lines))), new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_GENERATION", 4)
        patch.setattr(claude, "_WINDOWS", (2, 1))
        read_in_steps(CLAUDE, claude_log.records(lines), data.draw(st.sets(st.integers(0, len(lines)), min_size=1)))


@given(data=st.data())
@settings(max_examples=150)
def test_a_late_word_on_a_forgotten_codex_call_is_told_apart_from_a_new_one(data: st.DataObject) -> None:
    lines = [asked("server", cmd="serve"), answered("server", "Process running with session ID 7\nOutput:\n")]
    lines += codex_turns(12)
    late: list[Line] = [
        event("exec_command_end", call_id="server", exit_code=1, command=["serve"]),
        asked("poll", "write_stdin", session_id=7, chars=""),
        answered("poll", "Process exited with code 1\nOutput:\n"),
        answered("call-1", "Exit code: 1\nOutput:\n"),
        answered("nobody", "x"),
    ]
    for one in data.draw(st.lists(st.sampled_from(range(len(late))), min_size=1, max_size=3, unique=True)):
        lines.insert(data.draw(st.integers(2, len(lines))), late[one])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_GENERATION", 4)
        patch.setattr(codex, "_WINDOWS", (3, 1))
        read_in_steps(CODEX, timed_codex(lines), data.draw(st.sets(st.integers(0, len(lines)), min_size=1)))


def test_an_old_line_without_a_time_costs_no_whole_read_of_lines_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_GENERATION", 4)
    lines = claude_log.records([user("once upon a time", timestamp=None), *claude_turns(20)])
    assert read_in_steps(CLAUDE, lines, range(len(lines))) == {"begun": 1, "read on": len(lines) - 1}
    # Another line without a time may be that one again: its id was let go.
    again = claude_log.records([user("once upon a time", timestamp=None)])[0]._replace(offset=10**6)
    assert read_on(CLAUDE, lines, [again]) is None


# --- what a state takes, and what it saves ----------------------------------------------------------------


LONG: list[tuple[Parser, Callable[[int], list[Record]]]] = [
    (CLAUDE, lambda count: claude_log.records([user("build it"), *claude_turns(count)])),
    (CODEX, lambda count: timed_codex([said("user", "build it"), *codex_turns(count)])),
]
both = pytest.mark.parametrize(("parser", "log"), LONG, ids=["claude", "codex"])


@both
def test_what_a_new_line_costs_is_the_same_however_long_the_log(
    parser: Parser, log: Callable[[int], list[Record]]
) -> None:
    """Handed in: one line. Told: the last response. Kept: as many ids as there is room for, so no more than that."""
    sizes = []
    for turns in (3000, 6000):
        lines = log(turns)
        begun = resume(parser, None, lines[:-1])
        assert begun is not None and begun.state is not None
        got = resume(parser, begun.state, lines[-1:])
        assert got is not None and got.state is not None
        assert got.first == turns  # after the prompt and all responses but the last
        assert [message.ordinal for message in got.session.messages] == [turns]
        assert got.onto(begun.session) == whole(parser, lines, LOG)
        sizes.append(max(len(begun.state), len(got.state)))
    assert sizes[1] < 80 << 10
    # Each kind of ids swings between one and two generations, of eight bytes an id.
    assert sizes[1] - sizes[0] <= 3 * 1024 * 8


@both
def test_a_call_that_never_gets_a_result_holds_no_more_than_a_few_messages_back(
    parser: Parser, log: Callable[[int], list[Record]]
) -> None:
    lines = log(200)
    lines = lines[:2] + lines[4:]  # the first call's result, and lines about it, are not there
    begun = resume(parser, None, lines)
    assert begun is not None and begun.state is not None
    got = resume(parser, begun.state, [])
    assert got is not None and got.first >= 198


@both
def test_an_answer_too_long_for_a_state_costs_one_whole_read(
    parser: Parser, log: Callable[[int], list[Record]]
) -> None:
    long = "a" * MOST_STATE_BYTES
    if parser is CLAUDE:
        lines = claude_log.records(
            [user("hi"), assistant(long, second=1), assistant("b", second=2), user("c", second=3)]
        )
    else:
        lines = timed_codex([said("user", "hi"), said("assistant", long), said("user", "b"), said("assistant", "c")])
    assert read_in_steps(parser, lines, range(4)) == {"begun": 2, "read on": 2}


@both
def test_a_prompt_too_long_for_a_state_costs_nothing(parser: Parser, log: Callable[[int], list[Record]]) -> None:
    prompt = "a" * MOST_STATE_BYTES
    if parser is CLAUDE:
        lines = claude_log.records([user("hi"), user(prompt, second=1), assistant("b", second=2)])
    else:
        lines = timed_codex([said("user", "hi"), said("user", prompt), said("assistant", "b")])
    assert read_in_steps(parser, lines, range(3)) == {"begun": 1, "read on": 2}


# --- when only a whole read can tell ----------------------------------------------------------------------


def read_on(parser: Parser, before: list[Record], new: list[Record], source: Source = LOG) -> Resumed | None:
    begun = resume(parser, None, before)
    assert begun is not None and begun.state is not None
    return resume(parser, begun.state, new, source)


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(
            result("call-0", "Exit code 1", is_error=True, second=99), id="a late result of a call told without"
        ),
        pytest.param(assistant("and more", id="answer-1", second=99), id="an older response goes on"),
        pytest.param(assistant(call("call-1"), second=99), id="a call is logged again"),
        pytest.param(user("hi", sessionId="another", second=99), id="it is another session's log"),
    ],
)
def test_a_claude_line_that_changes_what_was_told_asks_for_a_whole_read(new: Line) -> None:
    turns = claude_turns(40)
    del turns[1]  # the first call's result
    lines = claude_log.records([*turns, new])
    assert read_on(CLAUDE, lines[:-1], lines[-1:]) is None


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(result("call-1", "Exit code 1", is_error=True, second=99), id="of two results the first stands"),
        pytest.param(line("system", subtype="compact_boundary", second=99), id="a compaction"),
        pytest.param(user("hi", second=99), id="a prompt"),
        pytest.param(result("nobodys", second=99), id="a result of no call"),
    ],
)
def test_a_claude_line_that_changes_nothing_told_is_read_on(new: Line) -> None:
    lines = claude_log.records([*claude_turns(40), new])
    assert read_in_steps(CLAUDE, lines, [len(lines) - 1]) == {"begun": 1, "read on": 1}


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(answered("call-1", "Exit code: 1\nOutput:\n"), id="another result of a call told"),
        pytest.param(event("exec_command_end", call_id="call-1", exit_code=1), id="an event tells more of a call told"),
        pytest.param(asked("call-1", cmd="make"), id="a call is logged again"),
        pytest.param(entry("session_meta", id=PARENT), id="what was read was the parent's history"),
    ],
)
def test_a_codex_line_that_changes_what_was_told_asks_for_a_whole_read(new: Line) -> None:
    lines = timed_codex([entry("session_meta", id=SESSION), *codex_turns(40), new])
    assert read_on(CODEX, lines[:-1], lines[-1:]) is None


def test_a_codex_log_whose_copied_history_has_not_ended_is_read_whole_until_it_has() -> None:
    own_turn = "019e7044-7479-7000-8000-000000000003"
    lines = timed_codex(
        [
            entry("session_meta", id=SESSION, forked_from_id=PARENT),
            said("user", "the parent's"),
            said("assistant", "the parent's answer"),
            event("task_started", turn_id=own_turn),
            said("user", "its own"),
            said("assistant", "its own answer"),
        ]
    )
    assert read_in_steps(CODEX, lines, range(len(lines))) == {"begun": 4, "read on": 2}


def test_a_web_export_and_a_log_without_offsets_are_read_whole_each_time() -> None:
    export = Record(json.dumps({"loglines": [user("hi")]}).encode(), 0)
    for lines in ([export], [record._replace(offset=None) for record in claude_log.records([user("hi")])]):
        got = resume(CLAUDE, None, lines)
        assert got is not None and got.state is None
        assert got.session == whole(CLAUDE, lines, LOG)


@both
def test_a_state_for_something_else_gives_none(parser: Parser, log: Callable[[int], list[Record]]) -> None:
    lines = log(3)
    before, new = lines[:-1], lines[-1:]
    assert read_on(parser, before, new) is not None
    assert read_on(parser, before, before) is None, "lines that it has seen"
    assert read_on(parser, before, new, Source("another")) is None
    assert read_on(parser, before, new, LOG._replace(text_bytes=10)) is None
    assert read_on(parser, before, new, LOG._replace(modified=datetime(2026, 5, 2, tzinfo=UTC))) is not None
    other = CODEX if parser is CLAUDE else CLAUDE
    begun = resume(parser, None, before)
    assert begun is not None
    assert resume(other, begun.state, new) is None


@both
def test_a_damaged_state_gives_none(parser: Parser, log: Callable[[int], list[Record]]) -> None:
    lines = log(3)
    begun = resume(parser, None, lines[:-1])
    assert begun is not None and begun.state is not None
    state = begun.state
    for at in range(len(state)):
        assert resume(parser, state[:at], lines[-1:]) is None
        assert resume(parser, state[:at] + bytes([state[at] ^ 0x10]) + state[at + 1 :], lines[-1:]) is None
    assert resume(parser, b"\x00" * 100, lines[-1:]) is None
