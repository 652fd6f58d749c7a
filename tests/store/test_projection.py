"""From a session in memory to the rows that are kept of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.quality.sessions import (
    API_ERROR,
    INTERRUPT,
    JUST_NOW,
    LONG_AGO,
    NOW,
    agent,
    harness,
    human,
    request,
    session,
    tool,
)
from tests.store.logs import at, project, without_cost

from demerit.defects import LoopGuardTrip
from demerit.loops import scan
from demerit.model import Body, CallStatus, Event, Message, Session, ToolCall, Usage
from demerit.quality import assess
from demerit.store import projection
from demerit.store.projection import HEADS, UNDATED, Projection, below, is_request_key, message_key
from demerit.store.rounds import Rounds
from demerit.store.schema import messages, session_defects, session_hours, session_tools, tool_calls
from demerit.store.texts import TEXT_SPACE, plain, unpacked

HOUR = 20_575 * 24 + 9
"""The hour of the first line of every log here: nine o'clock, 20,575 days after 1970 began."""


def projected(
    *spoken: dict[str, Any], number: int = 1, known: dict[str, int] | None = None, **fields: Any
) -> Projection:
    return project(number, session(*spoken, **fields), "log", NOW, known)


def dicts(table: Any, rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip((column.name for column in table.c), row, strict=True)) for row in rows]


# --- what tells the same message ----------------------------------------------------------------------------------


def message(**fields: Any) -> Message:
    return Message(**{"ordinal": 0, "role": "user", "author": "human", "text": "fix it", "at": at(1), **fields})


def test_a_request_tells_its_message_whatever_else_is_said() -> None:
    one = message(usage=Usage(1, key="m1"))
    assert message_key(one) == message_key(message(usage=Usage(9, key="m1"), text="other", at=None, ordinal=7))
    assert message_key(one) != message_key(message(usage=Usage(1, key="m2")))
    assert is_request_key(message_key(one) or 0)


def test_the_same_text_at_the_same_moment_is_the_same_message() -> None:
    assert message_key(message()) == message_key(message(ordinal=9, model="m"))
    assert not is_request_key(message_key(message()) or 1)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"text": "fix that"}, id="another text"),
        pytest.param({"at": at(2)}, id="another moment"),
        pytest.param({"role": "assistant", "author": "agent"}, id="another role"),
        pytest.param({"text_digest": "0" * 16}, id="a longer text that begins alike"),
        pytest.param({"calls": session(agent("", tool(id="1"))).messages[0].calls}, id="a call beside it"),
    ],
)
def test_a_message_that_differs_is_another(other: dict[str, Any]) -> None:
    assert message_key(message(**other)) != message_key(message())


@pytest.mark.parametrize("nothing", [{"at": None}, {"text": ""}])
def test_without_a_time_or_anything_said_nothing_tells_a_message(nothing: dict[str, Any]) -> None:
    assert message_key(message(**nothing)) is None


def test_the_first_messages_lead_to_a_session() -> None:
    spoken = [human(f"prompt {number}", at=at(number)) for number in range(HEADS + 3)]
    made = projected(human("without a time"), *spoken)
    assert made.heads == [message_key(one) for one in made.session.messages[1 : HEADS + 1]]


# --- rows ---------------------------------------------------------------------------------------------------------


def test_a_prompt_has_its_facts_and_nothing_else_has() -> None:
    made = projected(
        human("fix it"),
        human(""),
        harness("fix it"),
        {"role": "user", "author": "agent", "text": "fix it"},
        agent("fix it"),
    )
    [part] = made.parts()
    rows = dicts(messages, part.messages)
    assert [row["prompt_version"] is not None for row in rows] == [True, False, False, False, False]
    assert (rows[0]["prompt_short"], rows[0]["prompt_no_code"], rows[0]["prompt_greeting"]) == (True, True, False)


def test_a_repeated_line_of_a_call_is_kept_and_does_not_count() -> None:
    made = projected(human(), agent("", tool(id="1"), tool(id="1")), agent("", tool(id="1"), tool(id=None)))
    [part] = made.parts()
    assert [row["is_counted"] for row in dicts(tool_calls, part.calls)] == [True, False, False, True]


def test_a_change_is_one_row_a_file_and_only_of_calls_that_worked_and_count() -> None:
    calls = [
        tool("Edit", files=["a", "b"], id="1"),
        tool("Edit", files=["a", "b"], id="1"),
        tool("Edit", "failed", files=["c"]),
        tool("Read", files=["d"]),
        tool("Write", "unknown", files=["e"]),
    ]
    [part] = projected(human(), agent("", *calls)).parts()
    assert [(row[2], row[3], row[4]) for row in part.changes] == [(0, 0, "a"), (0, 1, "b"), (4, 0, "e")]


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        pytest.param("/w/shop/src/a.py", "/w/shop", "src/a.py", id="below the folder"),
        pytest.param("/w/shop/src/a.py", "/w/shop/", "src/a.py", id="a slash at the folder's end"),
        pytest.param("/w/shop2/a.py", "/w/shop", "/w/shop2/a.py", id="beside it, with a name that begins alike"),
        pytest.param("./src/a.py", "/w/shop", "src/a.py", id="relative"),
        pytest.param("/w/a.py", None, "/w/a.py", id="no folder"),
        pytest.param("/w/a.py", "/", "/w/a.py", id="the root"),
        pytest.param("C:\\shop\\src\\a.py", "C:\\shop", "src/a.py", id="Windows"),
    ],
)
def test_a_path_is_told_from_the_working_folder(path: str, cwd: str | None, expected: str) -> None:
    assert below(path, cwd) == expected


def test_rows_in_parts_are_the_rows_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = [
        human(f"prompt {number}") if number % 2 else agent("yes", tool("Edit", files=["a"])) for number in range(20)
    ]
    whole, split = projected(*spoken), projected(*spoken)
    whole.prepare()
    [one] = whole.parts()
    monkeypatch.setattr(projection, "_PART_BYTES", 2000)
    many = list(split.parts())
    assert len(many) > 2
    for name in ("messages", "calls", "changes", "texts"):
        assert [row for part in many for row in getattr(part, name)] == getattr(one, name)


def test_a_text_is_kept_once_in_its_first_place_and_under_the_number_it_had() -> None:
    spoken = [human("fix it"), agent("Done."), human("fix it"), agent("Done."), human("and that")]
    [part] = projected(*spoken, number=3).parts()
    assert [(one.id - 3 * TEXT_SPACE, one.kind, one.message_ordinal, unpacked(one.data)) for one in part.texts] == [
        (0, "prompt", 0, "fix it"),
        (1, "answer", 1, "Done."),
        (2, "prompt", 4, "and that"),
    ]
    rows = dicts(messages, part.messages)
    assert rows[0]["text_id"] == rows[2]["text_id"]
    known = {one.digest: one.id for one in part.texts[1:]}
    again = projected(*spoken[1:], human("new"), number=3, known=known)
    [later] = again.parts()
    # "fix it" was forgotten meanwhile, so it gets a number that nothing had.
    assert [(one.id - 3 * TEXT_SPACE, unpacked(one.data)) for one in later.texts] == [(3, "fix it"), (4, "new")]
    assert again.texts.used == {one + 3 * TEXT_SPACE for one in (1, 2, 3, 4)}


def test_answers_that_differ_in_an_image_alone_are_two_texts_and_an_empty_one_is_a_third() -> None:
    results = [Body("shot", 9000, "d1"), Body("shot", 9000, "d2"), Body("shot", 9000, "d1"), Body("", 2, "d3")]
    calls = [msgspec.structs.replace(tool(), result=result) for result in results]
    [part] = projected(human(), agent("", *calls)).parts()
    assert [(unpacked(one.data), one.words) for one in part.texts[1:]] == [("shot", "shot")] * 2 + [("", None)]
    first, second, third, empty = (row["result_id"] for row in dicts(tool_calls, part.calls))
    assert (first, len({first, second, empty})) == (third, 3)


def test_a_body_that_was_left_in_its_log_is_read_there_and_any_other_is_at_hand() -> None:
    asked: list[int] = []

    def whole(body: Body, chars: int) -> str | None:
        asked.append(body.bytes)
        return "the whole"

    call = msgspec.structs.replace(tool(), input=Body("short", 5, "d1"), result=Body("x" * 2048, 9000, "d2", 9))
    made = Projection(1, session(human(), agent("", call)), whole, {}, 0, None, NOW, "log")
    [part] = made.parts()
    assert [(one.kind, unpacked(one.data), one.size) for one in part.texts[1:]] == [
        ("input", "short", 5),
        ("output", "the whole", 9000),
    ]
    assert asked == [9000]


@given(st.text())
def test_a_plain_text_is_one_that_every_database_takes(text: str) -> None:
    found = plain(text)
    assert "\0" not in found
    assert len(found) == len(text)
    assert plain(found) == found


# --- going round in circles -------------------------------------------------------------------------------------


def answered(name: str = "Bash", answer: str | None = "same", **fields: Any) -> ToolCall:
    """A call with what it was answered; equal answers are equal. None: that is not known."""
    body = None if answer is None else Body(answer, len(answer), answer)
    return msgspec.structs.replace(tool(name, **fields), result=body)


def turn(*answers: str | None, **fields: Any) -> dict[str, Any]:
    """A turn that makes one and the same call, and only with each answer another."""
    return agent("", *(answered(input=f"x{at}", answer=answer) for at, answer in enumerate(answers)), **fields)


SAME = turn("same")
OTHER = agent("", answered("Edit"))
SUMMARY = harness("What was done so far.", notice="compaction_summary")
WAITING = agent("Waiting.")
NUDGE = human("continue")
NUDGED = (WAITING, NUDGE)


def rounds(made: Projection) -> dict[str, Rounds]:
    """By model, of those with any."""
    found = {}
    for row in dicts(session_defects, made.sums.rows[3]):
        one = Rounds(**{name: row[name] for name in Rounds.__struct_fields__})
        if one != Rounds():
            found[row["model"]] = one
    return found


@pytest.mark.parametrize(
    ("spoken", "batches", "expected"),
    [
        pytest.param([SAME, OTHER, SAME], 3, {"repeats_seen": 1, "identical_repeats": 1}, id="a call comes again"),
        pytest.param(
            [SAME, SAME, SAME],
            3,
            {"repeats_seen": 2, "identical_repeats": 2, "loops": 1},
            id="the third of one kind in a row is a loop",
        ),
        pytest.param(
            [SAME, SAME, harness("Look at the list."), SAME],
            3,
            {"repeats_seen": 2, "identical_repeats": 2},
            id="a reminder between the calls reached the model, and ends the run",
        ),
        pytest.param(
            [SAME, SAME, INTERRUPT, SAME],
            3,
            {"repeats_seen": 2, "identical_repeats": 2},
            id="so does an interruption",
        ),
        pytest.param(
            [SAME, SAME, API_ERROR, SAME],
            3,
            {"repeats_seen": 2, "identical_repeats": 2, "loops": 1},
            id="the note of an API error did not reach it",
        ),
        pytest.param(
            [SAME, {**SAME, "sidechain": True}, human("dig", sidechain=True), SAME],
            2,
            {"repeats_seen": 1, "identical_repeats": 1},
            id="a sub-agent neither counts nor comes between",
        ),
        pytest.param(
            [turn("same", "other"), agent("", *reversed(turn("same", "other")["calls"]))],
            2,
            {"repeats_seen": 1, "identical_repeats": 1},
            id="the order of parallel calls plays no part",
        ),
        pytest.param([turn("a"), turn("b")], 2, {"repeats_seen": 1}, id="another answer is no identical repeat"),
        pytest.param(
            [turn("a"), turn("b"), turn("c")],
            3,
            {"repeats_seen": 2, "repeats_rescued": 1},
            id="changing answers keep the third from being a loop",
        ),
        pytest.param(
            [turn(None), SAME, turn(None)],
            3,
            {"repeats_seen": 2, "repeats_not_evaluated": 2, "loops": 1},
            id="an answer that is not known can be compared with none",
        ),
        pytest.param(
            [agent("", answered(input=None))] * 3, 3, {}, id="an input that was not recorded is equal to no other"
        ),
        pytest.param(
            [agent("", answered(id="1")), agent("", answered(id="1"))], 1, {}, id="the line of a call told again"
        ),
        pytest.param([SAME, SAME, SUMMARY, SAME], 3, {"repeats_seen": 1, "identical_repeats": 1}, id="a compaction"),
        pytest.param(
            [SAME, OTHER] * 3,
            6,
            {"repeats_seen": 4, "identical_repeats": 4, "cycles": 1},
            id="the third round of two turns is a cycle",
        ),
        pytest.param([NUDGE, *NUDGED * 5, WAITING], 0, {"stagnations": 1}, id="the sixth time that a text is said"),
        pytest.param([NUDGE, *NUDGED * 5, human("No."), WAITING], 0, {}, id="somebody said something new meanwhile"),
        pytest.param(
            [WAITING, human("continue", has_image=True)] * 6, 0, {}, id="an image is never the one that came before"
        ),
    ],
)
def test_rounds(spoken: list[dict[str, Any]], batches: int, expected: dict[str, int]) -> None:
    wanted = Rounds(batches, **expected)
    assert rounds(projected(human(), *spoken)) == ({"claude-opus-4-8": wanted} if wanted != Rounds() else {})


def test_a_compaction_that_left_no_summary_is_one() -> None:
    made = projected(human(), SAME, SAME, SAME, events=(Event("compaction", message_ordinal=2),))
    assert rounds(made)["claude-opus-4-8"] == Rounds(batches=3, repeats_seen=1, identical_repeats=1)


def test_a_repeat_is_of_the_model_that_made_it() -> None:
    made = projected(human(), turn("same", model="m1"), turn("same", model="m1"), turn("same", model="m2"))
    assert rounds(made) == {
        "m1": Rounds(batches=2, repeats_seen=1, identical_repeats=1),
        "m2": Rounds(batches=1, repeats_seen=1, identical_repeats=1, loops=1),
    }


_CALLS = st.tuples(st.sampled_from(["Read", "Edit"]), st.sampled_from("ab"), st.sampled_from(["x", "x", "y", None]))
_SCRIPTS = st.lists(
    st.one_of(
        st.lists(_CALLS, min_size=1, max_size=2),
        st.sampled_from(["Waiting.", "Done."]),
        st.sampled_from(["continue", "No."]).map(lambda text: (text,)),
    ).flatmap(lambda step: st.integers(1, 7).map(lambda times: [step] * times)),
    max_size=8,
)


@given(_SCRIPTS)
def test_a_log_tells_what_a_proxy_would_have_reported(script: list[list[Any]]) -> None:
    """script: calls with their answers, or a text of the model's, or in a tuple one of the user's."""
    wire: list[dict[str, Any]] = []
    spoken, expected = [], Rounds()
    for number, step in enumerate(step for steps in script for step in steps):
        if isinstance(step, tuple):
            wire.append({"role": "user", "content": step[0]})
            spoken.append(human(step[0]))
            continue
        calls = step if isinstance(step, list) else []
        made = [
            {"id": f"{number}.{place}", "function": {"name": name, "arguments": json.dumps({"command": given})}}
            for place, (name, given, _) in enumerate(calls)
        ]
        wire.append({"role": "assistant", "content": None if calls else step, "tool_calls": made})
        wire += [
            {"role": "tool", "tool_call_id": f"{number}.{place}", "content": answer}
            for place, (_, _, answer) in enumerate(calls)
            if answer is not None
        ]
        logged = [
            answered(name, answer, input=given, id=f"{number}.{place}")
            for place, (name, given, answer) in enumerate(calls)
        ]
        spoken.append(agent("" if calls else step, *logged))
        found = scan(wire)
        expected.batches += bool(calls)
        expected.repeats_seen += found.repeat_seen
        expected.identical_repeats += found.identical
        expected.repeats_not_evaluated += found.not_evaluated
        expected.repeats_rescued += found.rescued
        expected.loops += found.trip is LoopGuardTrip.loop
        expected.stagnations += found.trip is LoopGuardTrip.stagnation
        expected.cycles += found.cycle
    assert rounds(projected(*spoken)).get("claude-opus-4-8", Rounds()) == expected


# --- requests -----------------------------------------------------------------------------------------------------


def test_of_several_records_of_a_request_the_largest_stands_in_the_place_of_the_first() -> None:
    made = projected(
        human(),
        agent("a", usage=Usage(100, output_tokens=3, key="m1", output_is_partial=True)),
        agent("b", usage=request(7, key="m2")),
        agent("c", usage=Usage(120, output_tokens=41, key="m1")),
        agent("d", usage=Usage(900, output_tokens=2, key="m1")),
    )
    assert [(row.place, row.input_tokens, row.output_tokens, row.context_tokens) for row in made.usage] == [
        (0, 120, 41, 100),
        (1, 7, 1, 7),
    ]
    assert made.sums.columns["requests"] == 2
    assert made.sums.columns["output_is_partial"] is False


@pytest.mark.parametrize(
    ("spoken", "contexts"),
    [
        pytest.param([agent("a", usage=request(5))], [5, None], id="beside those of messages they are somebody else's"),
        pytest.param([agent("a")], [9], id="alone they are the conversation's own"),
        pytest.param([agent("a", usage=request(5), sidechain=True)], [None, None], id="a sidechain has its own"),
    ],
)
def test_requests_outside_of_messages(spoken: list[dict[str, Any]], contexts: list[int | None]) -> None:
    made = projected(human(), *spoken, loose_usage=(request(9), Usage()))
    assert [row.context_tokens for row in made.usage] == contexts


def test_a_session_without_usage_has_none_rather_than_zero() -> None:
    columns = projected(human(), agent("Done.")).sums.columns
    assert [columns[name] for name in ("input_tokens", "output_tokens", "reasoning_tokens", "cost_usd")] == [None] * 4
    assert columns["requests"] == 0


def test_what_has_no_price_is_unpriced_rather_than_free() -> None:
    columns = projected(human(), agent("Done.", model="nobody-knows", usage=request(9))).sums.columns
    assert (columns["cost_usd"], columns["unpriced_requests"]) == (None, 1)


# --- sums ---------------------------------------------------------------------------------------------------------


def test_hours_hold_what_happened_in_them() -> None:
    spoken = [
        human(at=at(0)),
        agent("a", tool(), at=at(300), usage=Usage(10, 5, 1, 2, 20, key="m1")),  # 5 minutes later: still at it
        human(at=at(900)),  # 10 minutes later: a pause
        agent("b", at=at(3600), usage=request(7)),
        human("no time"),
    ]
    made = projected(*spoken)
    hours = {(row["hour"], row["model"]): row for row in dicts(session_hours, made.sums.rows[0])}
    model = "claude-opus-4-8"
    assert set(hours) == {(HOUR, ""), (HOUR, model), (HOUR + 1, model), (UNDATED, "")}
    first, answered = hours[HOUR, ""], hours[HOUR, model]
    assert (first["messages"], first["prompts"], first["active_us"]) == (2, 2, 0)
    assert (answered["messages"], answered["tool_calls"], answered["active_us"]) == (1, 1, 300_000_000)
    assert [answered[f"{name}_tokens"] for name in ("input", "cache_read", "cache_write", "output")] == [10, 5, 3, 20]
    assert hours[UNDATED, ""]["prompts"] == 1
    assert sum(row["messages"] for row in hours.values()) == made.sums.columns["messages"] == 5


def test_tools_hold_their_calls_by_model_and_status() -> None:
    made = projected(
        human(),
        agent("", tool("Bash", "failed"), tool("Bash", id="1"), tool("Bash", id="1"), model="m1"),
        agent("", tool("Bash", "invalid"), tool("Read"), model="m2"),
    )
    rows = {(row["tool"], row["model"]): row for row in dicts(session_tools, made.sums.rows[1])}
    counted = {key: (row["calls"], row["ok"], row["failed"], row["invalid"]) for key, row in rows.items()}
    assert counted == {("Bash", "m1"): (2, 1, 1, 0), ("Bash", "m2"): (1, 0, 0, 1), ("Read", "m2"): (1, 1, 0, 0)}
    assert all(row["calls"] == sum(row[status.value] for status in CallStatus) for row in rows.values())
    assert all(row["is_judged"] for row in rows.values())


@pytest.mark.parametrize(
    ("spoken", "fields"),
    [
        pytest.param([agent("", *[tool(status="unknown")] * 2, tool())], {}, id="of most calls nothing"),
        pytest.param([agent("", tool())], {"untold": ("statuses",)}, id="by its agent never"),
    ],
)
def test_whether_the_log_tells_how_calls_went(spoken: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    made = projected(human(), *spoken, **fields)
    assert not any(row["is_judged"] for row in dicts(session_tools, made.sums.rows[1]))


def test_defects_are_counted_by_model_over_its_answers_and_calls() -> None:
    made = projected(
        human(),
        agent("cut", text_bytes=3, stop_reason="max_tokens"),
        agent("", thinking_bytes=9),
        agent(""),
        agent("", tool(status="invalid"), tool()),
        agent("an API error", author="harness", notice="api_error"),
    )
    [row] = dicts(session_defects, made.sums.rows[3])
    names = ("responses", "truncated", "empty", "reasoning_only", "calls", "invalid")
    # An answer that calls a tool is not empty, and an API error is no answer.
    assert [row[name] for name in names] == [4, 1, 2, 1, 2, 1]


# --- the card -----------------------------------------------------------------------------------------------------


def test_only_what_has_settled_has_its_card_at_once() -> None:
    spoken = [human(), agent("Done.", usage=request(9))]
    assert projected(*spoken, ended=JUST_NOW).report is None
    assert projected(*spoken, ended=JUST_NOW, terminal=True).report is not None
    settled = projected(*spoken, ended=LONG_AGO)
    assert without_cost(settled.report) == assess(settled.session, NOW, "log")


def test_equal_digests_mean_that_nothing_is_to_be_written() -> None:
    spoken = [human(at=at(0)), agent("Done.", tool("Edit", files=["a"]), usage=request(9))]
    first = projected(*spoken)
    assert projected(*spoken, number=9, modified=NOW).digest == first.digest
    others: list[Session] = [
        session(*spoken, title="x"),
        session(*spoken, terminal=True),
        session(*spoken, ended=LONG_AGO + timedelta(microseconds=1)),
        session(*spoken[:1], agent("Done.", tool("Edit", "failed", files=["a"]), usage=request(9))),
        session(*spoken[:1], agent("Done.", tool("Edit", files=["a"]), usage=request(10))),
        session(*spoken, human("more")),
    ]
    digests = {project(1, one).digest for one in others}
    assert len(digests | {first.digest}) == len(others) + 1
