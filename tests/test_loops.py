"""The guard: what is the same call, the same answer, a loop, a cycle; and that reading a conversation never raises."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import fuzz_loops
from tests.parsers.mutations import junk

from demerit.defects import DefectLedger, LoopGuardTrip
from demerit.loops import (
    COSTLY,
    READ_ONLY,
    Call,
    GuardConfig,
    LoopGuard,
    Scan,
    Scanner,
    Turn,
    canonical,
    digest,
    is_costly,
    is_read_only,
    join_answers,
    read_turns,
    scan,
    scan_turns,
    signature,
)

LOOP, STAGNATION = LoopGuardTrip.loop, LoopGuardTrip.stagnation
Messages = list[dict[str, Any]]

TOOLS = {"r": "read_file", "s": "browser_snapshot", "n": "browser_navigate", "f": "fetch_webpage"}
"""What a letter calls in a script; every other letter calls a tool that writes."""


def told(script: str) -> Messages:
    """Messages of a script of words.

    `A=1`: a call of A that is answered "1"; `A` alone is answered by nothing; `A+B=1`: two calls in one turn, both
    answered "1". `~hm`: text of the model. `@user:go`: a message of anybody else.
    """
    messages: Messages = []
    for turn, word in enumerate(script.split()):
        if word.startswith("~"):
            messages.append({"role": "assistant", "content": word[1:]})
        elif word.startswith("@"):
            role, _, content = word[1:].partition(":")
            messages.append({"role": role, "content": content})
        else:
            letters, is_answered, answer = word.partition("=")
            messages += batch(turn, letters.split("+"), answer if is_answered else None)
    return messages


def batch(turn: int, letters: list[str], answer: str | None) -> Messages:
    calls = [wire(TOOLS.get(letter, "write_file"), {"path": letter}, f"c{turn}{letter}") for letter in letters]
    messages: Messages = [{"role": "assistant", "content": None, "tool_calls": calls}]
    if answer is not None:
        messages += [answered(call["id"], answer) for call in calls]
    return messages


def wire(name: str, arguments: object, call_id: object = "c") -> dict[str, Any]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


def answered(call_id: object, content: object) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def asked(calls: object, *answers: dict[str, Any]) -> Messages:
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *answers]


def moving(letter: str, count: int) -> str:
    return " ".join(f"{letter}={turn}" for turn in range(count))


def again(word: str, count: int) -> str:
    return " ".join([word] * count)


# --- the same call ----------------------------------------------------------------------------------------


def deep(levels: int, bottom: str) -> str:
    return "[" * levels + bottom + "]" * levels


SAME = [
    ("keys in another order", '{"a":1,"b":2}', '{"b":2,"a":1}', True),
    ("keys in another order, deep down", '[[{"a":1,"b":{"c":1,"d":2}}]]', '[[{"b":{"d":2,"c":1},"a":1}]]', True),
    ("spaces between tokens", '{"a":[1,2]}', ' { "a" : [ 1, 2 ] } ', True),
    ("escapes for letters", '{"a":"\\u0041"}', '{"a":"A"}', True),
    ("an integer as a float", '{"a":2}', '{"a":2.0}', True),
    ("an integer with an exponent", '{"a":200}', '{"a":2e2}', True),
    ("zero below zero", "[0]", "[-0.0]", True),
    ("an integer too large for a machine", f"[{10**40}]", f"[ {10**40} ]", True),
    ("integers too large for a machine that differ", f"[{10**40}]", f"[{10**40 + 1}]", False),
    ("numbers too large for a float that differ", "[1e400]", "[1e401]", False),
    ("a number too large for a float, and null", "[1e400]", "[null]", False),
    ("a list in another order", "[1,2]", "[2,1]", False),
    ("a number and its text", '{"a":1}', '{"a":"1"}', False),
    ("null and the text of it", '{"a":null}', '{"a":"null"}', False),
    ("spaces in a text", '{"a":"x"}', '{"a":"x "}', False),
    ("a key twice: the last counts", '{"a":1,"a":2}', '{"a":2}', True),
    ("broken JSON, the same", '{"a":', '{"a":', True),
    ("broken JSON, another", '{"a":', '{"a": ', False),
    ("half a surrogate", '["\ud800"]', '["\ud800"]', True),
    ("NaN, which is no JSON", "NaN", "NaN", True),
    ("nested 10,000 deep, the same", deep(10_000, "1"), deep(10_000, "1"), True),
    ("nested 10,000 deep, other at the bottom", deep(10_000, "1"), deep(10_000, "2"), False),
    ("nested 20 deep, other at the bottom", deep(20, "1"), deep(20, "2"), False),
    ("a million zeros", "[1.%s]" % ("0" * 10**6), "[1]", True),
    ("digits without end", "9" * 10_000, "9" * 10_000, True),
]


@pytest.mark.parametrize(("one", "other", "same"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_the_same_call_is_the_same_json(one: str, other: str, same: bool) -> None:
    assert (signature_of(wire("t", one)) == signature_of(wire("t", other))) is same


def signature_of(*calls: object) -> str | None:
    return scan(asked(list(calls))).signature


def test_arguments_that_are_no_text_are_taken_as_they_are() -> None:
    as_object = {"id": "c", "function": {"name": "t", "arguments": {"b": 2.0, "a": [1]}}}
    assert signature_of(as_object) == signature_of(wire("t", '{"a":[1],"b":2}'))
    assert signature_of({"function": {"name": "t"}}) == signature_of({"function": {"name": "t", "arguments": None}})
    assert signature_of({"function": {"name": "t"}}) != signature_of(wire("t", ""))


def test_a_signature_is_the_name_and_a_digest_and_no_id() -> None:
    one, other = wire("write_file", {"a": 1}, "c1"), wire("read_file", {}, "c2")
    assert re.fullmatch(r"write_file:[0-9a-f]{32}", signature_of(one) or "")
    assert signature_of(one, other) == signature_of(other, {**one, "id": "c9"})
    assert signature_of(one, one) != signature_of(one)


def test_a_custom_tool_has_a_name_and_an_input() -> None:
    patch = {"id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}}
    assert signature_of(patch) == signature_of(wire("apply_patch", "*** Begin"))


def test_calls_of_an_unknown_kind_are_the_same_only_to_the_last_field() -> None:
    one, other = ({"id": f"c{number}", "type": "new", "new": number} for number in (1, 2))
    assert signature_of(one) == signature_of({**one, "id": "c3"}) != signature_of(other)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_canonical_json_does_not_depend_on_the_spelling(value: object) -> None:
    def turned(inner: object) -> object:
        if isinstance(inner, dict):
            return {key: turned(inner[key]) for key in reversed(inner)}
        return [turned(member) for member in inner] if isinstance(inner, list) else inner

    assert json.loads(canonical(value)) == value
    assert canonical(turned(value)) == canonical(value)
    assert signature_of(wire("t", json.dumps(turned(value), indent=1))) == signature_of(
        {"function": {"name": "t", "arguments": value}} if not isinstance(value, str) else wire("t", json.dumps(value))
    )


@given(json_values, json_values)
@example([[]], [])
@example({"a": [], "b": 1}, {"a": [1], "b": []})
@example([1, [2]], [[1], 2])
def test_what_the_encoder_does_not_take_is_compared_as_well(one: object, other: object) -> None:
    # A key that is no string sends both of them past the encoder.
    assert (canonical({1: one}) == canonical({1: other})) is (canonical(one) == canonical(other))


def test_no_value_is_too_deep_or_too_odd() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    def nested(bottom: object) -> object:
        for _ in range(10_000):
            bottom = {"a": [bottom]}
        return bottom

    round_and_round: list[object] = []
    round_and_round.append(round_and_round)
    assert canonical(nested(1)) == canonical(nested(1)) != canonical(nested(2))
    assert canonical({"a": "\ud800"}) == canonical({"a": "\ud800"}) != canonical({"a": "\ud801"})
    assert canonical(round_and_round)
    assert canonical([Rude(), 10**5000, float("nan"), float("inf"), {1, 2}, {3: 4, "5": object}])


# --- the same answer --------------------------------------------------------------------------------------

ANSWERS = [
    ("equal texts", "done", "done", True),
    ("null and the text of it", None, "null", False),
    ("a list of parts and its text", [{"type": "text", "text": "done"}], "done", False),
    ("a list, and the JSON text of it", [1], "[1]", False),
    ("keys in another order", [{"type": "text", "text": "x"}], [{"text": "x", "type": "text"}], True),
    ("half a surrogate", "\udcff", "\udcff", True),
    ("spaces at the end", "done", "done ", False),
]


@pytest.mark.parametrize(("one", "other", "same"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS])
def test_answers_are_compared_as_they_came(one: object, other: object, same: bool) -> None:
    assert (digest(one) == digest(other)) is same
    found = scan(asked([wire("t", {})], answered("c", one)) + asked([wire("t", {})], answered("c", other)))
    assert (found.repeat_seen, found.identical, found.not_evaluated) == (True, same, False)


X, Y = wire("x", {}, "1"), wire("y", {}, "2")
JOINS = [
    ("the other order of answers", [X, Y], [answered("2", "b"), answered("1", "a")], True),
    ("the other order of calls", [Y, X], [answered("1", "a"), answered("2", "b")], True),
    ("answers swapped", [X, Y], [answered("1", "b"), answered("2", "a")], False),
    ("other ids", [{**X, "id": "8"}, {**Y, "id": "9"}], [answered("8", "a"), answered("9", "b")], True),
    ("an answer to another call besides", [X, Y], [answered("1", "a"), answered("7", "z"), answered("2", "b")], True),
    ("an answer without an id besides", [X, Y], [answered(None, "z"), answered("1", "a"), answered("2", "b")], True),
    ("one call not answered", [X, Y], [answered("1", "a")], None),
    ("none answered", [X, Y], [], None),
    ("one call answered twice", [X, Y], [answered("1", "a"), answered("2", "b"), answered("2", "b")], None),
    ("a stranger answered twice", [X, Y], [answered("1", "a"), answered("2", "b"), *[answered("7", "z")] * 2], None),
    ("two calls with one id", [X, {**Y, "id": "1"}], [answered("1", "a")], None),
    ("a call without an id", [X, {**Y, "id": None}], [answered("1", "a"), answered("2", "b")], None),
    ("a call with an empty id", [X, {**Y, "id": ""}], [answered("1", "a"), answered("", "b")], None),
    ("ids that are numbers", [{**X, "id": 1}, Y], [answered(1, "a"), answered("2", "b")], None),
    ("answers after a user's word", [X, Y], [answered("1", "a"), {"role": "user"}, answered("2", "b")], None),
]


@pytest.mark.parametrize(("calls", "answers", "same"), [case[1:] for case in JOINS], ids=[case[0] for case in JOINS])
def test_answers_are_joined_by_id(calls: object, answers: Messages, same: bool | None) -> None:
    [known] = read_turns(asked([X, Y], answered("1", "a"), answered("2", "b")))
    found = read_turns(asked(calls, *answers))[0].answers
    assert found is None if same is None else (found == known.answers) is same


def test_ids_are_resolved_only_right_after_their_turn() -> None:
    # Some servers count the ids of each answer from 0.
    found = scan([*asked([X], answered("1", "a")), *asked([X], answered("1", "b"))])
    assert (found.repeat_seen, found.identical, found.not_evaluated) == (True, False, False)


# --- names ------------------------------------------------------------------------------------------------

LOOKS = """
    browser_snapshot take_screenshot read_page browser_navigate click read_file read_text_file read_media_file
    read_multiple_files list_directory list_directory_with_sizes list_allowed_directories directory_tree search_files
    get_file_info list_files list_code_definition_names file_search grep_search semantic_search codebase_search
    test_search get_errors get_changed_files get_terminal_output list_code_usages fetch_webpage list_dir 2:read_file
    mcp_filesystem_read_text_file mcp__disk__read_file readFile ReadFile disk.read-file
    Read Grep Glob LS NotebookRead WebSearch list_directory read_many_files search_file_content view read
    mcp__my_server__Read 2:view
""".split()
CHANGES = """
    thread_create listen_port set_global_config preview_changes write_file edit_file create_file create_directory
    delete_file delete_directory move_file run_in_terminal run_in_terminal_background apply_patch insert_edit_into_file
    replace_string_in_file search_and_replace execute_command write_to_file create_view mark_as_read thread_files
    mcp__reader__write mcp__view__create mcp__read 2:create_view get_clickable_elements bread_file Reader
""".split()


@pytest.mark.parametrize("name", LOOKS)
def test_a_tool_that_only_looks(name: str) -> None:
    assert is_read_only(name)


@pytest.mark.parametrize("name", [*CHANGES, ""])
def test_a_tool_that_may_change_something(name: str) -> None:
    assert not is_read_only(name)


COSTS = """
    browser_navigate mcp__playwright__click click_element_by_index double_click_element navigate_to_url fetch_webpage
    browserNavigate clickElement navigate_to_definition get_click_count ad_click_report click_house_query
""".split()


@pytest.mark.parametrize("name", COSTS)
def test_a_tool_that_costs(name: str) -> None:
    assert is_costly(name)


@pytest.mark.parametrize("name", ["get_clickable_elements", "clickhouse_query", "prefetcher", "read_file"])
def test_a_tool_that_costs_nothing(name: str) -> None:
    assert not is_costly(name)


def test_lists_are_settings() -> None:
    assert is_read_only("my_peek_tool", ("peek",)) and is_read_only("peek", ("=peek",))
    assert not is_read_only("my_peek_tool", ("=peek",))
    assert not any(is_read_only(name, entries) for name in ("read_file", "") for entries in ((), ("",), ("=",), ("_",)))


# --- loops ------------------------------------------------------------------------------------------------

DEFAULTS = GuardConfig()
TRIPS: list[tuple[str, str, LoopGuardTrip | None]] = [
    ("nothing", "", None),
    ("a first message", "@user:go", None),
    ("answers to nothing", again("@user:go @tool:x", 10), None),
    ("a batch twice", again("A=1", 2), None),
    ("a batch three times, the same answer", again("A=1", 3), LOOP),
    ("other arguments each time", "A=1 B=1 C=1 D=1", None),
    ("two calls, in another order", "A+B=1 B+A=1 A+B=1", LOOP),
    ("looking three times", again("s=1", 3), None),
    ("looking fifteen times", again("s=1", 15), None),
    ("looking sixteen times", again("s=1", 16), LOOP),
    ("looking and writing in one batch", again("s+A=1", 3), LOOP),
    ("two batches in turn", again("A=1 B=1", 50), None),
    ("two of one and one of another", again("A=1 A=1 B=1", 40), None),
    ("text between the batches", "A=1 ~hm A=1 ~so A=1", LOOP),
    ("a user between the batches: a build that fails, asked for three times", "A=1 @user:x A=1 @user:y A=1", None),
    ("a system message between the batches", "A=1 A=1 @system:x A=1", None),
    ("a message of no known role between the batches", "A=1 A=1 @developer:x A=1", None),
    ("a nudge between the batches", "@user:go A=1 A=1 @user:go A=1", None),
    ("a system message first", "@system:x A=1 A=1 A=1", LOOP),
    ("the answer moved once, then three times the same", "A=1 A=2 A=2", None),
    ("the answer moved once, then four times the same", "A=1 A=2 A=2 A=2", LOOP),
    ("the newest answer moved", "A=1 A=1 A=2", None),
    ("answers to and fro", again("A=1 A=2", 6), None),
    ("writing, other answers, fifteen times", moving("A", 15), None),
    ("writing, other answers, sixteen times", moving("A", 16), LOOP),
    ("writing, other answers, with a user in between", f"{moving('A', 15)} @user:x {moving('A', 14)}", None),
    ("reading, other answers, a hundred times", moving("r", 100), None),
    ("reading, the same answer, fifteen times", again("r=1", 15), None),
    ("reading, the same answer, sixteen times", again("r=1", 16), LOOP),
    ("fetching, other answers, fifteen times", moving("f", 15), None),
    ("fetching, other answers, sixteen times", moving("f", 16), LOOP),
    ("navigating, other answers, sixteen times", moving("n", 16), LOOP),
    ("reading and navigating in one batch, sixteen times", moving("r+n", 16), LOOP),
    ("no answer is known", "A A A", LOOP),
    ("an unknown answer forgets the one before: no news", "A=1 A A=2", LOOP),
    ("an unknown answer after news", "A=1 A=2 A", None),
    ("tests run again after each edit", "T=1 A=1 T=1 B=1 T=1 C=1 T=1", None),
    ("an outage, the same words each time", again("A=429", 5), LOOP),
    ("polling that has news", "A=wait A=wait A=done", None),
    ("eight calls in turn", again("A=1 B=1 C=1 D=1 E=1 F=1 G=1 H=1", 4), None),
    ("an old loop, left by other work", "A=1 A=1 A=1 B=1", None),
    ("an old loop, left by a user's word", "A=1 A=1 A=1 @user:stop", None),
    ("an old loop, left by text", "A=1 A=1 A=1 ~sorry", None),
    ("a loop that goes on", again("A=1", 9), LOOP),
]


@pytest.mark.parametrize(("script", "trip"), [case[1:] for case in TRIPS], ids=[case[0] for case in TRIPS])
def test_loops(script: str, trip: LoopGuardTrip | None) -> None:
    assert scan(told(script)).trip is trip


LIMITS = [
    ("no tier for looking: its limit is the others'", {"read_only_limit": None}, again("r=1", 3), LOOP),
    ("no tier for looking: nor does news help", {"read_only_limit": None}, moving("r", 3), LOOP),
    ("no tier for looking: twice is well", {"read_only_limit": None}, moving("r", 2), None),
    ("a low limit for looking leaves the others alone", {"read_only_limit": 1}, again("A=1", 2), None),
    ("a low limit for looking", {"read_only_limit": 1}, again("r=1", 2), LOOP),
    ("a low limit for looking is no ceiling for the others", {"read_only_limit": 1}, moving("A", 2), None),
    ("a limit of 0: the first acts", {"repeat_limit": 0}, "A=1", LOOP),
    ("a limit of 0 for looking", {"read_only_limit": 0}, "r=1", LOOP),
    ("no limit: no loop", {"repeat_limit": None}, again("A=1", 40), None),
    ("no limit: nor of looking", {"repeat_limit": None}, again("r=1", 40), None),
    ("a higher limit", {"repeat_limit": 3}, again("A=1", 3), None),
    ("a higher limit, exceeded", {"repeat_limit": 3}, again("A=1", 4), LOOP),
    ("a list of one's own", {"read_only": ("write_file",)}, again("A=1", 15), None),
    ("an empty list: nothing only looks", {"read_only": ()}, again("r=1", 3), LOOP),
    ("nothing costs", {"costly": ()}, moving("f", 40), None),
    ("stagnation at another limit", {"stagnation_limit": 2}, again("~x", 3), STAGNATION),
    ("a stagnation limit of 0: the first text acts", {"stagnation_limit": 0}, "~x", STAGNATION),
    ("a stagnation limit of 0 and no text", {"stagnation_limit": 0}, "~", None),
    ("no stagnation limit", {"stagnation_limit": None}, again("~x", 40), None),
    ("a limit of 100 sees two texts in turn", {"stagnation_limit": 100}, again("~x ~y", 101), STAGNATION),
]


@pytest.mark.parametrize(("limits", "script", "trip"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_limits(limits: dict[str, Any], script: str, trip: LoopGuardTrip | None) -> None:
    assert scan(told(script), GuardConfig(**limits)).trip is trip


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="repeat_limit is -1: give 0 or more, or None to switch it off"):
        GuardConfig(repeat_limit=-1)


PROSE: list[tuple[str, str, LoopGuardTrip | None]] = [
    ("five times", again("~x", 5), None),
    ("six times", again("~x", 6), STAGNATION),
    ("two texts in turn, ten turns", again("~x ~y", 5), None),
    ("two texts in turn, eleven turns", f"{again('~x ~y', 5)} ~x", STAGNATION),
    ("six times, the first of them 21 turns ago", again("~x ~a ~b ~c ~d", 5) + " ~x", None),
    ("six times in 20 turns", "~x ~a ~b ~c ~d ~e ~f ~g ~h ~i ~j ~k ~l ~m ~n " + again("~x", 5), STAGNATION),
    ("six times in 21 turns", "~x ~a ~b ~c ~d ~e ~f ~g ~h ~i ~j ~k ~l ~m ~n ~o " + again("~x", 5), None),
    ("texts beside calls", again("A=1 B=1 ~x", 3), None),
    ("a user in between", "~x ~x ~x @user:go ~x ~x ~x", None),
    ("a system message in between", "~x ~x ~x @system:go ~x ~x ~x", None),
    ("a user who says the same again is a harness", again("@user:continue ~x", 6), STAGNATION),
    ("and the request ends with it", again("@user:continue ~x", 6) + " @user:continue", STAGNATION),
    ("a harness whose words differ", " ".join(f"@user:{turn} ~x" for turn in range(9)), None),
    ("the nudge comes after the first answer", "@user:do ~x " + again("@user:continue ~x", 6), STAGNATION),
    ("old stagnation, left by a user's word", again("~x", 6) + " @user:stop", None),
    ("old stagnation, left by a user's word and other text", again("~x", 6) + " @user:stop ~y", None),
    ("old stagnation, left by other text", again("~x", 6) + " ~y", None),
    ("old stagnation, left by a call", again("~x", 6) + " A=1", None),
    ("no text", again("~", 9), None),
]


@pytest.mark.parametrize(("script", "trip"), [case[1:] for case in PROSE], ids=[case[0] for case in PROSE])
def test_stagnation(script: str, trip: LoopGuardTrip | None) -> None:
    assert scan(told(script)).trip is trip


def test_text_is_read_from_parts_and_narration_beside_calls_is_none() -> None:
    parts = [{"type": "text", "text": "I will "}, {"type": "image_url"}, {"type": "text", "text": "check."}]
    as_parts = [{"role": "assistant", "content": parts}] * 6
    assert scan(as_parts) == Scan(STAGNATION, None, 6, 5, "I will check.")
    narrated = [
        message | ({"content": "I will check."} if message["role"] == "assistant" else {})
        for message in told("A=1 B=1 C=1 D=1 E=1 F=1 G=1")
    ]
    assert scan(narrated).trip is None


def test_a_nudge_is_the_whole_message() -> None:
    def picture(url: str) -> dict[str, Any]:
        parts = [{"type": "text", "text": "next"}, {"type": "image_url", "image_url": {"url": url}}]
        return {"role": "user", "content": parts}

    text = {"role": "assistant", "content": "A cat."}
    assert scan([message for number in range(9) for message in (picture(f"{number}.png"), text)]).trip is None
    assert scan([message for _ in range(9) for message in (picture("0.png"), text)]).trip is STAGNATION


# --- what is only counted ---------------------------------------------------------------------------------

BITS = [
    ("once", "A=1", ""),
    ("twice, the same answer", "A=1 A=1", "repeat identical"),
    ("twice, another answer", "A=1 A=2", "repeat"),
    ("there and back: compared with the last time only", "A=1 A=2 A=1", "repeat rescued"),
    ("three times: a trip is no rescue", "A=1 A=1 A=1", "repeat identical trip"),
    ("the newest answer moved: rescued, not tripped", "A=1 A=1 A=2", "repeat rescued"),
    ("the newest is not answered", "A=1 A", "repeat unknown"),
    ("the one before was not answered", "A A=1", "repeat unknown"),
    ("neither was answered", "A A", "repeat unknown"),
    ("text in between", "A=1 ~hm A=1", "repeat identical"),
    ("another batch in between", "A=1 B=1 A=1", "repeat identical"),
    ("a user in between", "A=1 @user:go A=1", "repeat identical"),
    ("text last: it was reported before", "A=1 A=1 ~hm", ""),
    ("a user last: it was reported before", "A=1 A=1 @user:go", ""),
    ("a nudge last: it was reported before", "@user:go A=1 A=1 @user:go", ""),
    ("a system message last", "A=1 A=1 @system:go", ""),
    ("an empty turn last", "A=1 A=1 ~", ""),
    ("text, and a tool message last", "A=1 A=1 ~hm @tool:x", ""),
    ("a user, and a tool message last", "A=1 A=1 @user:go @tool:x", ""),
    ("another batch last", "A=1 A=1 B=1", ""),
    ("the second batch of two was the same", "A+B=1 A+B=1", "repeat identical"),
    ("a part of a batch is another batch", "A+B=1 A=1", ""),
    ("writing, other answers: the second", moving("A", 2), "repeat"),
    ("writing, other answers: the third", moving("A", 3), "repeat rescued"),
    ("writing, other answers: the fifteenth", moving("A", 15), "repeat rescued"),
    ("writing, other answers: the sixteenth", moving("A", 16), "repeat trip"),
    ("reading, other answers: the fifteenth", moving("r", 15), "repeat"),
    ("reading, other answers: the sixteenth", moving("r", 16), "repeat rescued"),
    ("reading, other answers: the fortieth", moving("r", 40), "repeat rescued"),
    ("reading twice, the same answer", "r=1 r=1", "repeat identical"),
    ("an old loop, and a new batch twice", "A=1 A=1 A=1 B=1 B=1", "repeat identical"),
    ("A, B in turn three times", again("A=1 B=1", 3), "repeat identical cycle"),
    ("in the middle of the third round", "A=1 B=1 A=1 B=1 A=1", "repeat identical"),
    ("two rounds", again("A=1 B=1", 2), "repeat identical"),
    ("in the middle of the fourth round", again("A=1 B=1", 3) + " A=1", "repeat identical"),
    ("the fourth round", again("A=1 B=1", 4), "repeat identical cycle"),
    ("two of one and one of another, three times", again("A=1 A=1 B=1", 3), "repeat identical cycle"),
    ("four in turn, three times", again("A=1 B=1 C=1 D=1", 3), "repeat identical cycle"),
    ("five in turn, three times", again("A=1 B=1 C=1 D=1 E=1", 3), "repeat identical"),
    ("after other work", "X=1 Y=1 " + again("A=1 B=1", 3), "repeat identical cycle"),
    ("text within a cycle", "A=1 B=1 ~hm A=1 B=1 A=1 ~hm B=1", "repeat identical cycle"),
    ("a user after two rounds", "A=1 B=1 A=1 B=1 @user:go A=1 B=1", "repeat identical"),
    ("a user after one round", "A=1 B=1 @user:go A=1 B=1 A=1 B=1", "repeat identical"),
    ("a cycle with another answer in the last round", "A=1 B=1 A=1 B=1 A=2 B=1", "repeat identical"),
    ("a cycle whose rounds have two answers each", again("A=1 B=2", 3), "repeat identical cycle"),
    ("a cycle without answers", again("A B", 3), "repeat unknown"),
    ("one batch all through is a run", again("r=1", 6), "repeat identical"),
    ("one batch with answers to and fro is a run", again("r=1 r=2", 3), "repeat"),
]
NAMES = {"repeat_seen": "repeat", "identical": "identical", "not_evaluated": "unknown", "rescued": "rescued"}


def bits(found: Scan) -> set[str]:
    flags = {word for name, word in {**NAMES, "cycle": "cycle"}.items() if getattr(found, name)}
    return flags | ({"trip"} if found.trip else set())


@pytest.mark.parametrize(("script", "shown"), [case[1:] for case in BITS], ids=[case[0] for case in BITS])
def test_what_the_newest_batch_reports(script: str, shown: str) -> None:
    assert bits(scan(told(script))) == set(shown.split())


def test_repeats_are_counted_with_the_detector_off() -> None:
    found = scan(told("A=1 A=1 A=1"), GuardConfig(repeat_limit=None))
    assert bits(found) == {"repeat", "identical"}


def test_a_verdict_tells_what_came_how_often() -> None:
    found = scan(told(again("A=1", 4)))
    assert (found.count, found.limit, found.label) == (4, 2, 'write_file {"path":"A"}')
    ceiling = scan(told(moving("A", 16)))
    assert (ceiling.count, ceiling.limit) == (16, 15)
    fine = scan(told("A=1 A=1"))
    assert (fine.count, fine.limit, fine.label) == (2, None, "")


@pytest.mark.parametrize("size", [100, 239, 240, 241, 100_000])
def test_a_label_is_short_and_on_one_line(size: int) -> None:
    text = "a\nb" + "x" * (size - 3)
    label = scan([{"role": "assistant", "content": text}] * 6).label
    assert label.startswith("a bx") and len(label) <= 240 and label.endswith("x" if size < 240 else "…")
    long = asked([wire("t" * size, "é" * size)])
    assert len(scan(long * 3).label) <= 240


# --- odd shapes -------------------------------------------------------------------------------------------

NO_TURNS: list[object] = [None, "x", 7, {}, {"messages": []}, ()]


@pytest.mark.parametrize("messages", NO_TURNS, ids=repr)
def test_what_is_no_list_of_messages_has_no_turns(messages: object) -> None:
    assert scan(messages) == Scan()


ODD_CALLS: list[object] = [None, {}, "x", 7, [7, None], [[]], [{}]]
ODD: list[object] = [
    *({"role": "assistant", "tool_calls": calls} for calls in ODD_CALLS),
    {"role": "assistant", "tool_calls": [{"id": 7, "function": "search"}]},
    {"role": "assistant", "tool_calls": [{"id": [], "function": {"name": 7, "arguments": 1.5}}]},
    {"role": "assistant", "content": {"type": "text"}},
    {"role": "assistant", "content": [7, {"type": "text"}, {"type": "text", "text": 7}]},
    {"role": "tool", "tool_call_id": {}, "content": {}},
    {"role": "user", "content": [None, {"type": []}]},
    {"role": 7},
    {"role": []},
    {},
    None,
    "assistant",
    7,
    [],
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_message_hides_no_loop(odd: object) -> None:
    assert scan([odd, odd, *told("A=1 A=1 A=1")]).trip is LOOP
    scan([*told("A=1 A=1 A=1"), odd])


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("role", "content", "tool_calls"), junk)) | junk))
def test_reading_never_raises(messages: list[object]) -> None:
    scan(messages)


def test_the_fuzz_of_conversations_runs() -> None:
    assert fuzz_loops.run(300, seed=1) == 300


# --- one rule, driven in three ways -----------------------------------------------------------------------

words = st.sampled_from("A=1 A=1 A=1 A=2 A B=1 A+B=1 r=1 r=2 n=1 ~x ~x ~y @user:go @user:on @system:x @tool:x".split())
scripts = st.lists(words, max_size=24).map(" ".join) | st.lists(
    st.sampled_from("A=1 A=2 B=1 ~x".split()), max_size=5
).map(lambda round_: again(" ".join(round_), 5))
configs = st.builds(
    GuardConfig,
    repeat_limit=st.none() | st.integers(0, 3),
    read_only_limit=st.none() | st.integers(0, 4),
    stagnation_limit=st.none() | st.integers(0, 2),
)


@given(scripts, configs)
def test_each_turn_of_a_stream_is_a_request_of_its_own(script: str, config: GuardConfig) -> None:
    scanner = Scanner(config)
    steps = script.split()
    for number in range(1, len(steps) + 1):
        so_far = told(" ".join(steps[:number]))
        turns = read_turns(so_far)
        fed = scanner.feed(turns[-1]) if steps[number - 1] != "@tool:x" else scan_turns(turns, config)
        assert fed == scan(so_far, config)


@given(scripts, configs)
def test_checking_before_the_answers_is_a_scan_without_them(script: str, config: GuardConfig) -> None:
    guard = LoopGuard(config)
    steps = script.split()
    for number, step in enumerate(steps):
        if step.startswith("@user"):
            guard.user(step.partition(":")[2])
        if step.startswith("@"):
            continue
        before, _, answer = step.partition("=")
        asked_now = scan(told(" ".join([*steps[:number], before])), config)
        if step.startswith("~"):
            verdict = guard.check(text=step[1:])
        else:
            [message, *answers] = batch(number, before.split("+"), answer or None)
            verdict = guard.check(message["tool_calls"])
            guard.record(answers)
        if "@system" in script:
            continue  # an agent's own loop has no word for it
        if verdict is None:
            assert asked_now.trip is None
        else:
            seen = (asked_now.trip, asked_now.count, asked_now.limit, asked_now.label)
            assert (verdict.trip, verdict.count, verdict.limit, verdict.label) == seen


@given(scripts)
def test_at_most_one_bit_tells_of_the_answers(script: str) -> None:
    found = scan(told(script))
    assert found.identical + found.not_evaluated <= found.repeat_seen
    assert not (found.trip and found.rescued)
    assert (found.limit is None) is (found.trip is None)


def test_a_log_brings_digests_of_its_own() -> None:
    call = Call("Bash", "a1b2", "toolu_1")
    turn = Turn("assistant", calls=(call,), answers=join_answers((call,), {"toolu_1": "d00d"}))
    found = scan_turns([turn] * 3)
    assert (found.trip, found.signature, found.identical) == (LOOP, "Bash:a1b2", True)
    assert signature([call]) == "Bash:a1b2" and join_answers((call,), {}) is None


# --- LoopGuard --------------------------------------------------------------------------------------------


def thing(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(**fields)


FORMS: list[tuple[str, object]] = [
    ("OpenAI, dicts", [wire("save", {"path": "a"})]),
    ("OpenAI, objects", [thing(id="c", type="function", function=thing(name="save", arguments='{"path": "a"}'))]),
    ("OpenAI Responses, dicts", [{"name": "save", "arguments": '{"path":"a"}', "id": "fc", "call_id": "c"}]),
    ("LangChain, dicts", [{"name": "save", "args": {"path": "a"}, "id": "c", "type": "tool_call"}]),
    ("Anthropic, dicts, with text", [
        {"type": "text", "text": "Saving."}, {"type": "tool_use", "id": "c", "name": "save", "input": {"path": "a"}},
    ]),
    ("Anthropic, objects, with text", [
        thing(type="text", text="Saving."), thing(type="tool_use", id="c", name="save", input={"path": "a"}),
    ]),
    ("pairs", [("save", {"path": "a"})]),
    ("pairs with JSON text", [["save", '{"path":"a"}']]),
    ("one pair", ("save", {"path": "a"})),
    ("one dict", wire("save", {"path": "a"})),
    ("a tuple", (wire("save", {"path": "a"}),)),
    ("a call of ours", [Call("save", read_turns(asked([wire("save", {"path": "a"})]))[0].calls[0].arguments, "c")]),
]  # fmt: skip


@pytest.mark.parametrize("calls", [case[1] for case in FORMS], ids=[case[0] for case in FORMS])
def test_calls_of_any_make_are_one_call(calls: object) -> None:
    guard = LoopGuard()
    guard.check([wire("save", {"path": "a"})])
    assert guard.check(calls) is None
    verdict = guard.check(calls)
    assert verdict is not None and (verdict.trip, verdict.count, verdict.limit) == (LOOP, 3, 2)


@pytest.mark.parametrize("calls", [None, [], (), [None], [7, "save"], [{"type": "text"}], [("a", "b", "c")]], ids=repr)
def test_no_calls_are_a_turn_of_text(calls: object) -> None:
    guard = LoopGuard()
    assert [guard.check(calls, "Still working.") for _ in range(5)] == [None] * 5
    verdict = guard.check(calls, "Still working.")
    assert verdict is not None and verdict.message == (
        "The same text came 6 times (5 allowed): Still working.; do something else, or say what is missing."
    )


@pytest.mark.parametrize("calls", ["save", b"save", 7], ids=repr)
def test_what_cannot_be_calls_is_refused(calls: object) -> None:
    with pytest.raises(TypeError, match=r"check takes the tool calls of a turn, and .* give them as a list"):
        LoopGuard().check(calls)


TWO = [wire("x", {}, "1"), wire("y", {}, "2")]
RESULTS: list[tuple[str, Callable[[str], object], bool]] = [
    ("contents in order", lambda answer: ["ok", answer], True),
    ("contents by id", lambda answer: {"2": answer, "1": "ok"}, True),
    ("tool messages", lambda answer: [answered("2", answer), answered("1", "ok")], True),
    ("tool messages as objects", lambda answer: [thing(tool_call_id=i, content=answer) for i in "12"], True),
    ("tool results of Anthropic", lambda answer: [{"tool_use_id": i, "content": [answer]} for i in "12"], True),
    ("values that are no text", lambda answer: ({"rows": [1, answer]}, 2.5), True),
    ("one of two", lambda answer: [answer], False),
    ("one of two by id", lambda answer: {"1": answer}, False),
    ("one text for two calls", lambda answer: answer, False),
    ("an answer twice", lambda answer: [answered("2", "ok"), answered("1", "ok"), answered("1", answer)], False),
    ("none", lambda _: None, False),
]


@pytest.mark.parametrize(("made", "is_known"), [case[1:] for case in RESULTS], ids=[case[0] for case in RESULTS])
def test_news_in_results_of_any_make_is_seen(made: Callable[[str], object], is_known: bool) -> None:
    def third(answers: list[str]) -> bool:
        guard = LoopGuard()
        for answer in answers:
            assert guard.check(TWO) is None
            guard.record(made(answer))
        return guard.check(TWO) is None

    assert third(["old", "new"]) is is_known
    assert not third(["old", "old"])


@pytest.mark.parametrize("answers", [("1", "2", "3", "4"), ({"a": 1}, {"a": 2}, {"b": 2}, {})], ids=["text", "dict"])
def test_one_result_needs_no_list(answers: tuple[object, ...]) -> None:
    guard = LoopGuard()
    for answer in answers:
        assert guard.check([("x", {})]) is None
        guard.record(answer)


def test_a_result_belongs_to_the_turn_that_was_checked_last() -> None:
    guard = LoopGuard()
    for answer in ("1", "2"):
        guard.check([("x", {})])
        guard.record([answer])
        guard.check(text="Let me see.")
        guard.record(["1"])
    assert [guard.check([("x", {})]) is None for _ in range(2)] == [True, False]


def test_a_result_that_was_not_recorded_is_no_news_and_nothing_to_compare_with() -> None:
    guard = LoopGuard()
    for results in (["1"], None, ["2"]):
        guard.check([("x", {})])
        if results:
            guard.record(results)
    assert guard.check([("x", {})]) is not None


def test_a_result_of_the_responses_api_names_the_call_and_not_its_item() -> None:
    guard = LoopGuard()
    calls = [{"type": "function_call", "id": f"fc{i}", "call_id": i, "name": "x", "arguments": "{}"} for i in "12"]
    for answer in ("1", "2", "3"):
        assert guard.check(calls) is None
        guard.record({"1": answer, "2": answer})


def test_a_user_who_speaks_ends_it() -> None:
    guard = LoopGuard()
    for _ in range(3):
        verdict = guard.check([("x", {})])
        guard.record(["1"])
    assert verdict is not None
    guard.user("Go on.")
    guard.record(["1"])
    assert guard.check([("x", {})]) is None
    for _ in range(9):
        guard.user()  # what was said is not known, so it is no nudge
        assert guard.check(text="Hm.") is None


def test_agent_counts() -> None:
    ledger = DefectLedger()
    guard = LoopGuard(ledger=ledger, model="qwen3")
    for _ in range(3):
        guard.check([("x", {})])
    for _ in range(6):
        guard.check(text="Hm.")
    turns = ledger.turns()["qwen3"]
    assert (turns.agent_scanned, turns.agent_loops, turns.agent_stagnations) == (9, 1, 1)
    assert turns.scanned == 0
    counts = ledger.snapshot().get("qwen3")
    assert counts is None or (counts.requests, counts.loop_guard_trips) == (0, 0)


# --- the page ---------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "loop-guard.md").read_text(encoding="utf-8")
PLAIN, OPENAI, LANGGRAPH, OVER = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def agent_of(code: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "example", "exec"), names)
    return cast(Callable[..., Any], names["agent"])


def test_the_plain_loop_of_the_page_ends() -> None:
    ran: list[object] = []

    def run_tool(name: str, arguments: object) -> str:
        ran.append((name, arguments))
        return "disk full"

    stuck = agent_of(PLAIN)(lambda history: ("", [("save", {"path": "a"})]), run_tool, "Save it.")
    assert stuck == (
        'The same tool call came 3 times in a row (2 allowed): save {"path":"a"}; '
        "do something else, or say what is missing."
    )
    assert ran == [("save", {"path": "a"})] * 2
    assert agent_of(PLAIN)(lambda history: ("Saved.", []), run_tool, "Save it.") == "Saved."


def test_the_openai_loop_of_the_page_tells_the_model_once() -> None:
    ran: list[str] = []
    seen: list[Any] = []

    def create(model: str, messages: list[Any], tools: object) -> object:
        seen.append(messages[-1])
        call = thing(id=f"c{len(messages)}", type="function", function=thing(name="save", arguments='{"path":"a"}'))
        return thing(choices=[thing(message=thing(role="assistant", content=None, tool_calls=[call]))])

    def run_tool(name: str, arguments: str) -> str:
        ran.append(name)
        return "disk full"

    client = thing(chat=thing(completions=thing(create=create)))
    ended = agent_of(OPENAI)(client, "m", [], run_tool, "Save it.")
    assert ended.startswith("The same tool call came 4 times in a row (2 allowed): save")
    assert ran == ["save"] * 2
    assert [message["content"][:22] for message in seen] == ["Save it.", *["disk full"] * 2, "The same tool call cam"]


@pytest.mark.skipif(importlib.util.find_spec("langgraph") is None, reason="LangGraph is not installed")
def test_the_langgraph_graph_of_the_page_ends() -> None:
    # In a process of its own: it takes a second to import, and its warnings are not ours.
    drive = """
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool

        ran = []

        @tool
        def save(path: str) -> str:
            "Saves a file."
            ran.append(path)
            return "disk full"

        class Model:
            def invoke(self, messages):
                call = {"name": "save", "args": {"path": "a"}, "id": f"c{len(messages)}"}
                return AIMessage("", tool_calls=[call])

        last = agent(Model(), [save]).invoke({"messages": [("user", "Save it.")]})["messages"][-1]
        assert ran == ["a", "a"], ran
        assert last.content.startswith("The same tool call came 3 times in a row (2 allowed): save"), last
    """
    code = LANGGRAPH + textwrap.dedent(drive)
    paths = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


def test_the_scan_of_the_page_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(OVER, "example", "exec"), {"__name__": "example"})
    [shown] = re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert capsys.readouterr().out == shown


def test_the_page_has_the_true_limits_and_lists() -> None:
    for name in ("repeat_limit", "read_only_limit", "stagnation_limit"):
        assert f"| `{name}` | {getattr(DEFAULTS, name)} |" in PAGE
    assert f"| `costly` | {', '.join(f'`{entry}`' for entry in COSTLY)} |" in PAGE
    assert DEFAULTS.read_only == READ_ONLY
