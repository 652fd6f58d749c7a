"""pi and its forks. The Q and T rows named in the ids are the mistakes known in the field: docs/formats/pi.md.

Expectations are worked out by hand from the lines of the fixtures in `pi/`, which are invented.
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
from tests.parsers.mutations import HUGE, junk, places, put
from tests.parsers.sessions import CORPUS, assert_well_formed, calls, losses, spoken, statuses

from demerit.model import Session, Usage
from demerit.parsers import pi
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "pi"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl"))

SESSION = "019dc132-b9ea-736e-aa6f-000000000001"
PARENT = "019dc0ff-0000-7000-8000-000000000002"


def records(data: bytes) -> Iterator[Record]:
    offset = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield Record(line, offset)
        offset += len(line) + 1


LOG = Source(name="log")


def read_bytes(data: bytes, source: Source = LOG) -> Session:
    (session,) = pi.parse(records(data), source)
    return session


def read(*lines: Any, source: Source = LOG) -> Session:
    return read_bytes(b"\n".join(json.dumps(line).encode() for line in lines), source)


def fixture(name: str) -> Session:
    return read_bytes((FIXTURES / f"{name}.jsonl").read_bytes())


def rows_of(name: str) -> list[Any]:
    return [json.loads(row) for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]


HEADER = {"type": "session", "version": 3, "id": SESSION, "timestamp": "2026-04-24T20:33:40Z", "cwd": "/home/dev/shop"}


def said(role: str, content: object, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "timestamp": "2026-04-24T20:34:00Z",
        "message": {"role": role, "content": content, **more},
    }


def called(name: str = "bash", call_id: str = "c", **arguments: Any) -> dict[str, Any]:
    return said("assistant", [{"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}])


def result(text: object, call_id: str = "c", **more: Any) -> dict[str, Any]:
    return said("toolResult", text, toolCallId=call_id, **more)


def usages(session: Session) -> list[Usage]:
    return [message.usage for message in session.messages if message.usage is not None] + list(session.loose_usage)


def events(session: Session) -> list[tuple[str, int | None]]:
    return [(event.kind, event.message_ordinal) for event in session.events]


# --- one session, from end to end -------------------------------------------------------------------------


def test_a_plain_session_tells_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.title) == ("pi", SESSION, "Round half up")
    assert (session.cwd, session.branch, session.agent_version) == ("/home/dev/shop", None, None)
    assert session.started == datetime(2026, 4, 24, 20, 33, 40, tzinfo=UTC)
    assert session.ended == datetime(2026, 4, 24, 20, 33, 50, tzinfo=UTC)  # the header, and ten entries
    assert (session.relation, session.parent_source_id, session.terminal) == (None, None, False)
    assert not (session.events or session.loose_usage or session.losses)


def test_results_are_no_messages() -> None:
    session = fixture("plain")
    assert spoken(session) == [
        ("user", "human", "round half up in cart.py please"),
        ("assistant", "agent", "I will look at the rounding."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Rounding is half up now."),
    ]
    assert [(call.name, call.category, call.file_paths) for call in calls(session)] == [
        ("read", "read", ("cart.py",)),
        ("bash", "shell", ()),
        ("edit", "edit", ("cart.py",)),
    ]
    assert {message.model for message in session.messages[1:]} == {"claude-opus-4-7"}


def test_t15_the_classes_of_the_cache_stay_apart() -> None:
    first, _, third = usages(fixture("plain"))
    assert (first.input_tokens, first.cache_read_tokens, first.cache_write_5m_tokens) == (3, 100, 60)
    assert (first.output_tokens, first.reasoning_tokens) == (40, 12)  # reasoning is a part of the output
    assert (third.cache_write_5m_tokens, third.cache_write_1h_tokens) == (10, 30)  # of 40 in all


def test_a_request_has_one_key_in_every_copy_of_its_log() -> None:
    keys = [usage.key for usage in usages(fixture("plain"))]
    assert len(set(keys)) == 3 and None not in keys
    assert keys == [usage.key for usage in usages(read(HEADER, *rows_of("plain")[1:]))]


@pytest.mark.parametrize(
    ("name", "index", "kind", "size"),
    [
        pytest.param("plain", 1, "signature", 200, id="a signature of Anthropic's"),
        pytest.param("plain", 2, None, 0, id="no thinking"),
        pytest.param("version_1", 4, "ciphertext", 300, id="OpenAI's item, whole, in the signature"),
        pytest.param("omp", 4, "signature", 120, id="redacted thinking"),
    ],
)
def test_thinking(name: str, index: int, kind: str | None, size: int) -> None:
    message = fixture(name).messages[index]
    assert (message.thinking_kind, message.thinking_bytes) == (kind, size)


def test_thinking_with_a_word_in_place_of_its_signature_is_measured_by_its_text() -> None:
    block = {"type": "thinking", "thinking": "twelve bytes", "thinkingSignature": "REDACTED"}
    message = read(HEADER, said("assistant", [block], api="anthropic-messages")).messages[0]
    assert (message.thinking_kind, message.thinking_bytes) == ("text", 12)


def test_bodies_are_left_out_when_nobody_wants_them() -> None:
    session = read_bytes((FIXTURES / "plain.jsonl").read_bytes(), Source(bodies=False, text_bytes=8))
    assert calls(session)[0].result is None and calls(session)[0].input_hash is not None
    assert session.messages[1].thinking == () and session.messages[1].thinking_bytes == 200
    assert [message.text for message in session.messages[:2]] == ["round half up in cart.py please", "I will l"]


def test_a_result_stays_at_its_place_in_the_log() -> None:
    data = (FIXTURES / "plain.jsonl").read_bytes()
    body = calls(read_bytes(data))[0].result
    assert body is not None and body.offset is not None
    assert json.loads(data[body.offset : body.offset + body.bytes]) == [{"type": "text", "text": "def total(): ..."}]


# --- how calls went ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "status"),
    [
        pytest.param(0, "failed", id="Q9: an edit did not find its text"),
        pytest.param(1, "invalid", id="arguments that do not fit the tool"),
        pytest.param(2, "invalid", id="an unknown tool"),
        pytest.param(3, "cancelled", id="the user stopped a command"),
        pytest.param(4, "failed", id="a command took too long"),
        pytest.param(5, "failed", id="pytest exits with 1"),
        pytest.param(6, "ok", id="T25: words in a file that was read decide nothing"),
        pytest.param(7, "declined", id="the call was blocked"),
        pytest.param(8, "cancelled", id="skipped for a prompt that was waiting"),
        pytest.param(9, "cancelled", id="aborted before it ran"),
        pytest.param(10, "failed", id="an exit code in the text of a tool that is no shell"),
        pytest.param(11, "invalid", id="a call that the output limit cut off"),
        pytest.param(12, "pending", id="no result"),
    ],
)
def test_statuses(index: int, status: str) -> None:
    assert statuses(fixture("tool_error"))[index] == status


@pytest.mark.parametrize(
    ("index", "status", "code"),
    [
        pytest.param(0, "benign", 1, id="Q8, T23: grep found nothing (pi#3051)"),
        pytest.param(1, "benign", 1, id="T23: rg after cd"),
        pytest.param(2, "benign", 1, id="T23: diff found a difference"),
        pytest.param(3, "failed", 2, id="grep could not read its file"),
        pytest.param(4, "failed", 1, id="tests failed"),
        pytest.param(5, "ok", None, id="the words printed by a command that went well"),
    ],
)
def test_exit_1_that_only_says_nothing_found(index: int, status: str, code: int | None) -> None:
    call = calls(fixture("benign_exit"))[index]
    assert (call.status.value, call.exit_code) == (status, code)


@pytest.mark.parametrize(
    ("index", "status", "code"),
    [
        pytest.param(0, "benign", 1, id="details.exitCode of grep"),
        pytest.param(1, "failed", 2, id="details.exitCode wins over isError false"),
        pytest.param(2, "ok", None, id="a question that was answered"),
        pytest.param(3, "failed", None, id="code that raised"),
        pytest.param(4, "unknown", None, id="a result without isError"),
    ],
)
def test_statuses_of_oh_my_pi(index: int, status: str, code: int | None) -> None:
    call = calls(fixture("omp"))[index]
    assert (call.status.value, call.exit_code) == (status, code)


def test_the_first_of_two_results_stands_and_fills_every_copy_of_its_call() -> None:
    session = read(
        HEADER, called(command="ls"), called(command="ls"), result("", isError=False), result("", isError=True)
    )
    assert statuses(session) == ["ok", "ok"]


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("ENOENT: no such file, access 'a'\nat x", "isError true: ENOENT: no such file, access 'a'"),
        ("", "isError true"),
    ],
)
def test_a_failure_shows_how_its_text_begins(text: str, evidence: str) -> None:
    session = read(HEADER, called("read", path="a"), result(text, isError=True))
    assert calls(session)[0].evidence == evidence


def test_ids_that_a_small_server_gives_again_are_other_calls() -> None:
    first = [called(command="ls"), result("", isError=False)]
    second = [called(command="make"), result("Command exited with code 2", isError=True)]
    assert statuses(read(HEADER, *first, *second)) == ["ok", "failed"]


def test_the_reason_that_a_model_gives_for_a_call_makes_it_no_other_call() -> None:
    why, again, other = (
        calls(read(HEADER, called("read", path=path, _i=reason)))[0].input_hash
        for path, reason in (("a.py", "look"), ("a.py", "look again"), ("b.py", "look"))
    )
    assert why == again != other


def test_what_the_user_ran_is_neither_a_call_nor_a_prompt() -> None:
    session = fixture("version_1")
    assert calls(session) == [] and ("context", "harness", "git log") in spoken(session)
    assert ("context", "harness", "print(1)") in spoken(fixture("omp"))


# --- responses that broke off -------------------------------------------------------------------------------


def test_calls_of_an_aborted_response_never_ran() -> None:
    session = fixture("aborted")
    assert statuses(session) == ["ok", "cancelled"]
    assert calls(session)[1].evidence == "never ran: stopReason aborted"
    assert events(session) == [("interrupt", 2)]
    assert (session.messages[-1].role, session.messages[-1].notice) == ("context", "interrupt")


def test_t20_an_error_of_the_service_ends_the_session() -> None:
    session = fixture("error_end")
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("user", "human", None),
        ("assistant", "harness", "api_error"),
    ]
    assert session.messages[-1].text == "529 overloaded_error: Overloaded"
    assert events(session) == [("api_error", 0)] and usages(session) == []


# --- trees and copies ---------------------------------------------------------------------------------------


def test_branches_that_were_left_count_in_the_order_of_the_log() -> None:
    session = fixture("branch")
    assert [message.text for message in session.messages] == [
        "use a database",
        "Which?",
        "sqlite",
        "",
        "Done with sqlite.",
        "The branch explored sqlite.",
        "postgres",
        "Done with postgres.",
        "use files instead",
        "Done with files.",
    ]
    assert sum(usage.input_tokens for usage in usages(session)) == 10 + 20 + 30 + 40 + 50 + 7


def test_every_step_back_is_a_rewind() -> None:
    session = fixture("branch")
    assert [(event.kind, event.message_ordinal, event.detail) for event in session.events] == [
        ("rewind", 4, "back over 3 messages"),
        ("rewind", 7, "back over 8 messages"),  # before the first prompt
    ]


def test_settings_between_messages_and_unknown_parents_are_no_rewind() -> None:
    assert fixture("plain").events == () and fixture("prime").events == ()
    row = {**said("user", "hello there"), "id": "b", "parentId": "a line that was lost"}
    assert read(HEADER, {**said("assistant", "Hi."), "id": "a", "parentId": None}, row).events == ()


def test_t10_a_fork_counts_nothing_of_the_copy_that_it_begins_with() -> None:
    session = fixture("fork")
    assert (session.relation, session.parent_source_id) == ("fork", PARENT)
    assert [message.text for message in session.messages] == ["postgres", "Done with postgres."]
    assert [usage.input_tokens for usage in usages(session)] == [40]
    assert session.events == () and session.losses == ()
    assert session.started == datetime(2026, 4, 24, 20, 33, 40, tzinfo=UTC)


def test_a_session_with_a_parent_and_no_copies_continues_it() -> None:
    session = read({**HEADER, "parentSession": PARENT}, said("user", "hello there"))
    assert (session.relation, session.parent_source_id) == ("continuation", PARENT)


def test_a_compaction_takes_tokens_of_its_own() -> None:
    session = fixture("compaction")
    assert events(session) == [("compaction", 1)] and session.events[0].detail == "30005 tokens"
    assert [message.notice for message in session.messages] == [
        None, None, "compaction_summary", None, None, "compaction_summary",
    ]  # fmt: skip
    assert [(usage.input_tokens, usage.output_tokens) for usage in session.loose_usage] == [(900, 100)]


# --- who wrote it ---------------------------------------------------------------------------------------------


def test_the_request_after_a_skill_is_kept() -> None:
    assert ("user", "human", "review the cart") in spoken(fixture("version_1"))
    alone = read(HEADER, said("user", '<skill name="review" location="/s">\nLook closely.\n</skill>'))
    assert [message.role for message in alone.messages] == ["context"]


def test_prompts_of_the_program_are_no_prompts() -> None:
    assert spoken(fixture("omp"))[:4] == [
        ("system", "harness", "Plan mode is off."),
        ("context", "harness", "continue"),
        ("user", "human", "add a discount"),
        ("context", "harness", ""),
    ]
    assert fixture("omp").messages[2].has_image


def test_a_sub_agent_was_asked_by_an_agent() -> None:
    session = fixture("omp_subagent")
    assert (session.relation, session.parent_source_id) == ("subagent", "0198f2aa0000700080000000000000aa")
    assert spoken(session)[0] == ("user", "agent", "find the discount")
    assert session.terminal  # session_exit
    assert [usage.input_tokens for usage in session.loose_usage] == [11]  # model_usage


def test_a_prompt_that_an_extension_adds_is_context() -> None:
    row = {
        "type": "custom_message",
        "customType": "plan",
        "content": "Plan first.",
        "timestamp": "2026-04-24T20:34:00Z",
    }
    assert spoken(read(HEADER, row)) == [("context", "harness", "Plan first.")]


# --- models, titles, branches -------------------------------------------------------------------------------


def test_a_change_of_model_is_told_once_and_other_roles_change_nothing() -> None:
    session = fixture("omp")
    assert [(event.kind, event.detail) for event in session.events] == [
        ("model_change", "claude-sonnet-4-6 -> claude-opus-4-7")
    ]
    assert [message.model for message in session.messages if message.role == "assistant"] == [
        "claude-sonnet-4-6",
        "claude-opus-4-7",
    ]


def test_the_last_title_stands_and_prime_names_the_branch() -> None:
    assert fixture("omp").title == "A tenth off"
    assert fixture("prime").branch == "main"


def test_one_hour_writes_of_oh_my_pi() -> None:
    first = usages(fixture("omp"))[0]
    assert (first.cache_write_5m_tokens, first.cache_write_1h_tokens, first.reasoning_tokens) == (100, 800, 40)


# --- logs that are drifted or broken ------------------------------------------------------------------------


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {
        "unknown_type": 1,
        "unknown_role": 1,
        "unknown_block": 1,
        "orphan_result": 1,
        "not_an_object": 1,
        "malformed_line": 1,
        "no_type": 1,
    }
    assert [message.text for message in session.messages] == ["hello there, what is new?", "Much."]


def test_a_cut_last_line_costs_itself() -> None:
    session = fixture("cut")
    assert losses(session) == {"malformed_line": 1}
    assert statuses(session) == ["pending"] and len(session.messages) == 2


def test_a_source_without_records_has_no_session() -> None:
    assert pi.parse([], Source()) == []


def test_a_log_without_a_header_has_its_files_name() -> None:
    assert read(said("user", "hello there"), source=Source(name="log-7")).source_id == "log-7"


# --- hostile content ----------------------------------------------------------------------------------------

SOUND = [name for name in NAMES if name not in ("cut", "unknown_type")]
LINES = [row for name in NAMES for row in (FIXTURES / f"{name}.jsonl").read_bytes().splitlines()]

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
TEXT, NUMBER, TRUTH, OBJECT = (str,), (int,), (bool,), (dict,)
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("timestamp",): (str, int, float),
    ("message",): OBJECT,
    ("usage",): OBJECT,
    ("git",): OBJECT,
    ("git", "branch"): TEXT,
    ("tokensBefore",): NUMBER,
    ("message", "timestamp"): (str, int, float),
    ("message", "usage"): OBJECT,
    ("message", "usage", "cttl"): OBJECT,
    ("message", "usage", "cttl", "ephemeral1h"): NUMBER,
    ("message", "isError"): TRUTH,
    ("message", "synthetic"): TRUTH,
}
ENTRY = "type id parentId cwd parentSession modelId model role summary name title customType"
READ.update({(name,): TEXT for name in ENTRY.split()})
MESSAGE = "role api model responseId stopReason errorMessage toolCallId command code attribution"
READ.update({("message", name): TEXT for name in MESSAGE.split()})
READ.update({("message", "content", name): TEXT for name in ("type", "text", "id", "name", "thinkingSignature")})
COUNTS = "input output cacheRead cacheWrite cacheWrite1h reasoning reasoningTokens"
READ.update({(*at, name): NUMBER for at in (("usage",), ("message", "usage")) for name in COUNTS.split()})
WRONG = ("wrong_type", "bad_time")


def fits(value: object, wanted: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in wanted
    if isinstance(value, float) and int in wanted and value.is_integer():
        return True
    return value is None or isinstance(value, wanted) or value == HUGE


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(SOUND))
    rows = rows_of(name)
    index = data.draw(st.integers(0, len(rows) - 1))
    at = data.draw(st.sampled_from(sorted(places(rows[index]), key=repr)))
    new = data.draw(junk)
    before = losses(read(*rows))
    # A result that went well and the copies of a fork are not looked into; nor are a tool's own values.
    is_read = rows[index].get("message", {}).get("role") != "toolResult" and name != "fork" and "arguments" not in at
    rows[index] = put(rows[index], at, new)
    session = read(*rows)
    assert_well_formed(session)
    after = losses(session)
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and not fits(new, wanted) and (is_read or "content" not in at):
        assert sum(after.get(kind, 0) for kind in WRONG) > sum(before.get(kind, 0) for kind in WRONG), (at, new, after)


@settings(max_examples=60, deadline=None)
@given(st.permutations(LINES), st.integers(0, len(LINES)))
def test_lines_in_any_order_and_twice_give_a_well_formed_session(lines: list[bytes], size: int) -> None:
    for data in (b"\n".join(lines[:size]), b"\n".join(lines[:size] * 2)):
        for session in pi.parse(records(data), Source()):
            assert_well_formed(session)


def test_a_log_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "branch.jsonl").read_bytes()
    for size in range(0, len(data), 7):
        for session in pi.parse(records(data[:size]), Source()):
            assert_well_formed(session)


@pytest.mark.parametrize("field", ["message", "timestamp", "type", "usage", "content", "git"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    inner = b'{"type": "message", "message": {"role": "assistant", "%s": %s}}' % (field.encode(), deep)
    pi.parse([Record(inner, 0), Record(b'{"%s": %s}' % (field.encode(), deep), 0)], Source())


# --- whose log ----------------------------------------------------------------------------------------------


def first_values(path: Path) -> tuple[Any, ...]:
    values = []
    data = path.read_bytes()
    for row in [data] if data[:1] == b"[" else data.splitlines()[:20]:
        try:
            values.append(json.loads(row))
        except ValueError:
            continue
    return tuple(values)


@pytest.mark.parametrize("name", NAMES)
def test_its_own_logs_are_claimed(name: str) -> None:
    assert pi.sniff(Sample(first_values(FIXTURES / f"{name}.jsonl")))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(called(command="ls") | {"message": {"role": "bashExecution", "command": "ls"}}, id="a command"),
        pytest.param(result("text", isError=False), id="a result"),
        pytest.param(said("assistant", [], api="a", provider="p", stopReason="stop"), id="a response"),
    ],
)
def test_a_log_that_lost_its_header_is_claimed_by_one_line(value: object) -> None:
    assert pi.PARSER.one_line_tells and pi.sniff(Sample((value,)))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(
            {"type": "user", "sessionId": "s", "uuid": "u", "message": {}, "timestamp": "t"}, id="Claude Code"
        ),
        pytest.param({"timestamp": "t", "type": "session_meta", "payload": {"id": "s"}}, id="Codex"),
        pytest.param({"type": "session_start", "id": "s", "title": "t", "cwd": "/w"}, id="Droid"),
        pytest.param({"type": "message", "id": "m", "message": {"role": "user", "content": []}}, id="Droid's message"),
        pytest.param({"type": "message", "session_id": "s", "role": "user", "text": "hi"}, id="Droid's stream"),
        pytest.param({"type": "session.start", "data": {}, "id": "e", "timestamp": "t"}, id="Copilot"),
        pytest.param({"role": "user", "content": "hi"}, id="a list of messages"),
        pytest.param({"type": "session", "id": 3, "timestamp": "t", "cwd": "/w"}, id="an id that is no text"),
        pytest.param({"type": "message", "message": {"role": ["bashExecution"]}}, id="a role that is no text"),
        pytest.param([1, 2], id="a list"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not pi.sniff(Sample((value,)))


# --- real logs, where they are at hand ----------------------------------------------------------------------

REAL = sorted((CORPUS / "pi").glob("*.jsonl")) if CORPUS.is_dir() else []
needs_corpus = pytest.mark.skipif(not REAL, reason="no corpus beside the repository")


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_log_adds_up(path: Path) -> None:
    session = read_bytes(path.read_bytes(), Source(name=path.stem))
    assert_well_formed(session)
    assert losses(session).keys() <= {"fused_line", "unknown_type"}
    text = path.read_text().replace("}{", "}\n{")
    told: list[dict[str, Any]] = []
    for row in text.splitlines():
        try:
            message = json.loads(row).get("message") or {}
        except ValueError:
            continue
        if message.get("role") == "assistant" and "usage" in message:
            told.append(message["usage"])
    if "fused_line" not in losses(session):
        assert sum(usage.output_tokens for usage in usages(session)) == sum(usage["output"] for usage in told)


@needs_corpus
def test_statuses_read_by_hand() -> None:
    expected = {
        "large-session": {"ok": 354, "cancelled": 20, "benign": 11, "failed": 6},
        "session": {"ok": 177, "benign": 6, "failed": 5, "cancelled": 1},
    }
    for name, counted in expected.items():
        session = read_bytes((CORPUS / "pi" / f"badlogic__pi-mono--{name}.jsonl").read_bytes())
        assert Counter(statuses(session)) == counted, name


@needs_corpus
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        assert pi.sniff(Sample(first_values(path))) == (path.parent.name == "pi"), path
