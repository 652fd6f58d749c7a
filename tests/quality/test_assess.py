"""Gathering: from messages and calls to facts, signals and the report. Expectations come from docs/signals.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.quality.sessions import (
    API_ERROR,
    FAILED_CHILD,
    INTERRUPT,
    JUST_NOW,
    LONG_AGO,
    NOW,
    RETRIED,
    agent,
    harness,
    human,
    report,
    request,
    session,
    tool,
)

from demerit.model import CallStatus, ParseLoss, Session, Usage
from demerit.quality.assess import Assessor, assess, is_idle
from demerit.quality.report import EVIDENCE_LIMIT, CallRef

# --- calls ------------------------------------------------------------------------------------------------


def test_the_worked_example_of_every_penalty_but_an_ending() -> None:
    got = report(
        human(),
        agent("", tool("Edit", input="X", files=["a.go"]), tool("Edit", input="X", files=["a.go"])),
        agent("", *[tool("Bash", "failed", input="t")] * 3),
        agent("", tool("Edit", input="Y", files=["b.go"])),
        agent("Done."),
    )
    signals = got.signals
    assert (signals.tool_calls, signals.tool_failures, signals.tool_retries) == (6, 3, 3)
    assert (signals.edit_churn, signals.longest_failure_streak) == (1, 3)
    assert (got.outcome.value, got.confidence.value, got.score, got.grade) == ("completed", "high", 62, "C")
    assert [(line.label, line.points) for line in got.breakdown] == [
        ("3 tool failures", 9),
        ("3 retries", 15),
        ("1 churned edit", 4),
        ("failure streak", 10),
    ]


def test_every_lost_point_names_the_calls_that_cost_it() -> None:
    got = report(
        human(),
        agent("", tool("Edit", input="X", files=["a.go"])),
        agent("", tool("Edit", input="Y", files=["a.go"]), tool("Bash", "failed", input="t")),
        agent("Done."),
    )
    failures, churn = got.breakdown
    assert failures.calls == (CallRef(2, 1, "Bash", None, "failed", "by hand"),)
    assert churn.calls == (CallRef(2, 0, "Edit", "a.go", "change 2 to this file", ""),)


@pytest.mark.parametrize(
    ("calls", "total", "failures"),
    [
        pytest.param([tool(id="1", status="failed")] * 3 + [tool(id="2")], 2, 1, id="a replayed call counts once"),
        pytest.param([tool(id=None), tool(id=None), tool(id="1:0")], 3, 0, id="calls without an id never collapse"),
        pytest.param([tool(id="1"), tool(id="1", input="y")], 2, 0, id="one id with another input is another call"),
        pytest.param([tool(id="1"), tool("Read", id="1")], 2, 0, id="one id with another tool is another call"),
        pytest.param(
            [tool(id="1"), tool(id="1", status="failed")],
            2,
            1,
            id="one id with another status is another row",
        ),
        pytest.param([tool(status="invalid")], 1, 1, id="a broken call counts as failed"),
        pytest.param(
            [tool(status=s) for s in ("declined", "cancelled", "benign", "pending")],
            4,
            0,
            id="none of these did",
        ),
    ],
)
def test_calls_and_failures(calls: list[Any], total: int, failures: int) -> None:
    signals = report(human(), agent("", *calls), agent("Done.")).signals
    assert (signals.tool_calls, signals.tool_failures) == (total, failures)


@pytest.mark.parametrize(
    ("calls", "retries"),
    [
        pytest.param([tool(input="a"), tool(input="a")], 1, id="the same call right after, though the first was ok"),
        pytest.param([tool(input="a"), tool(input="b"), tool(input="a")], 0, id="another call between"),
        pytest.param([tool("A", input="a"), tool("B", input="a")], 0, id="another tool"),
        pytest.param([tool(input=None), tool(input=None), tool(input="a")], 0, id="inputs that were not recorded"),
        pytest.param([tool(input="a")] * 4, 3, id="Q17: four in a row are three"),
        pytest.param(
            [tool(input="a"), tool(input="b")] * 3,
            0,
            id="Q16: A B A B are no retries (a cycle is another fact)",
        ),
        pytest.param([tool(input="a", id="1"), tool(input="a", id="1")], 0, id="a replay is no retry"),
    ],
)
def test_retries(calls: list[Any], retries: int) -> None:
    assert report(human(), agent("", *calls), agent("Done.")).signals.tool_retries == retries


def test_retries_are_seen_across_messages() -> None:
    assert report(human(), agent("", tool(input="a")), agent("", tool(input="a"))).signals.tool_retries == 1


@pytest.mark.parametrize(
    ("calls", "churn"),
    [
        pytest.param([tool("Edit", files=["a"]), tool("Write", files=["a"])], 1, id="an edit and a write of one file"),
        pytest.param([tool("Edit", files=["a"])] * 3, 2, id="Q18: three edits of one file"),
        pytest.param([tool("Edit", files=["a"]), tool("Edit", files=["b"])], 0, id="two files"),
        pytest.param([tool("Edit"), tool("Edit")], 0, id="an unknown path counts for nothing"),
        pytest.param([tool("Read", files=["a"])] * 3, 0, id="reading changes nothing"),
        pytest.param(
            [tool("Edit", "failed", files=["a"]), tool("Edit", files=["a"])],
            0,
            id="a failed edit changed nothing",
        ),
        pytest.param([tool("Edit", "unknown", files=["a"])] * 2, 1, id="without a status it is taken to have worked"),
        pytest.param([tool("NotebookEdit", files=["n.ipynb"])] * 2, 1, id="notebooks"),
        pytest.param(
            [tool("apply_patch", files=["a", "b"]), tool("apply_patch", files=["b", "c", "b"])],
            1,
            id="Q19: a patch names all",
        ),
        pytest.param([tool("apply_patch", files=["a"])] * 8, 7, id="appendix D 6: one file patched eight times"),
    ],
)
def test_edit_churn(calls: list[Any], churn: int) -> None:
    assert report(human(), agent("", *calls), agent("Done.")).signals.edit_churn == churn


@pytest.mark.parametrize(
    ("statuses", "streak", "trailing"),
    [
        pytest.param(["failed", "ok", "failed", "failed"], 2, 2, id="an ok call ends a run"),
        pytest.param(["failed", "failed", "failed", "benign"], 3, 0, id="a benign call ends a run"),
        pytest.param(["failed", "invalid", "failed"], 3, 3, id="a broken call belongs to a run"),
        pytest.param(["failed", "pending", "failed"], 1, 1, id="a pending call ends a run"),
        pytest.param(["failed", "declined"], 1, 0, id="a declined call ends a run"),
        pytest.param(["failed", "unknown", "failed"], 1, 1, id="a call of unknown status ends a run"),
        pytest.param([], 0, 0, id="no calls"),
    ],
)
def test_streaks(statuses: list[str], streak: int, trailing: int) -> None:
    calls = [tool(status=status, input=str(n)) for n, status in enumerate(statuses)]
    got = report(human(), agent("", *calls), agent("Done."))
    assert got.signals.longest_failure_streak == streak
    assert got.facts.trailing_failures == trailing


def test_waiting_is_no_retry_and_ends_no_run() -> None:
    poll = tool("write_stdin", input="w", is_poll=True)
    failing = tool("Bash", "failed", input="make")
    got = report(human(), agent("", failing, poll, poll, failing, poll, failing, poll), agent("Done."))
    signals = got.signals
    assert (signals.tool_calls, signals.tool_failures, signals.tool_retries) == (7, 3, 2)
    assert (signals.longest_failure_streak, got.facts.trailing_failures) == (3, 3)


def test_a_session_of_polls_alone_has_measured_zeros() -> None:
    got = report(human(), agent("", tool("BashOutput", is_poll=True)), agent("Done."))
    assert (got.signals.tool_retries, got.signals.edit_churn) == (0, 0)


def test_a_poll_that_fails_is_a_failure_like_any_other() -> None:
    poll = tool("write_stdin", "failed", input="w", is_poll=True)
    assert report(human(), agent("", poll), agent("Done.")).signals.tool_failures == 1


def test_a_few_known_statuses_among_many_unknown_are_no_measure() -> None:
    calls = [tool(status="unknown", input=str(n)) for n in range(5)] + [tool(status="failed", input="x")]
    got = report(human(), agent("", *calls), agent("Done."))
    assert got.signals.tool_failures is None
    assert got.tools["Bash"].failures is None
    assert "tool_failures" in got.basis


def test_requests_outside_of_messages_are_the_context_where_there_are_no_others() -> None:
    alone = report(human(), loose_usage=(request(5_000), request(9_000)), models=("m",))
    assert alone.context is not None
    assert (alone.context.peak_tokens, alone.models) == (9_000, ("m",))
    beside = report(human(), agent("a", usage=request(10)), loose_usage=(request(9_000),))
    assert beside.context is not None
    assert beside.context.peak_tokens == 10


def test_text_after_failures_does_not_end_their_run() -> None:
    """Appendix D 1 keeps the seed's answer: three failures at the end are an errored ending."""
    got = report(human(), agent("", *[tool(status="failed", input=str(n)) for n in range(3)]), agent("It works now."))
    assert (got.outcome.value, got.confidence.value, got.score, got.grade) == ("errored", "high", 51, "D")
    assert [line.label for line in got.breakdown] == ["errored ending", "3 tool failures", "failure streak"]
    assert [ref.call for ref in got.breakdown[0].calls] == [0, 1, 2]


def test_a_log_without_statuses_has_no_failure_count_and_says_so() -> None:
    got = report(human(), agent("", *[tool(status="unknown", input=str(n)) for n in range(5)]), agent("Done."))
    assert (got.signals.tool_failures, got.signals.longest_failure_streak, got.failures_per_100_calls) == (
        None,
        None,
        None,
    )
    assert (got.outcome.value, got.score) == ("completed", 100)
    assert {"tool_failures", "longest_failure_streak"} <= set(got.basis)


def test_a_session_without_calls_has_no_failures_and_that_is_measured() -> None:
    got = report(human(), agent("Done."))
    assert (got.signals.tool_failures, got.failures_per_100_calls) == (0, None)
    assert "tool_failures" not in got.basis


def test_a_log_without_inputs_has_no_retries_and_no_churn() -> None:
    got = report(human(), agent("", tool("Edit", input=None), tool("Edit", input=None)), agent("Done."))
    assert (got.signals.tool_retries, got.signals.edit_churn) == (None, None)
    assert {"tool_retries", "edit_churn"} <= set(got.basis)


def test_failures_per_100_calls() -> None:
    calls = [tool(input=str(n), status="failed" if n < 1 else "ok") for n in range(7)]
    assert report(human(), agent("", *calls), agent("Done.")).failures_per_100_calls == 14.3


def test_the_list_behind_a_count_is_bounded_and_the_count_is_not() -> None:
    calls = [tool(input=str(n), status="failed") for n in range(EVIDENCE_LIMIT + 50)]
    got = report(human(), agent("", *calls), agent("", tool()), agent("Done."))
    assert got.signals.tool_failures == EVIDENCE_LIMIT + 50
    assert len(got.breakdown[0].calls) == EVIDENCE_LIMIT
    assert got.signals.longest_failure_streak == EVIDENCE_LIMIT + 50


# --- endings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "fields", "expected"),
    [
        pytest.param([human(), agent("Done.")], {}, ("completed", "high", None), id="the agent had the last word"),
        pytest.param(
            [human(), agent("Done.")],
            {"ended": JUST_NOW},
            ("completed", "high", None),
            id="that holds at once, without idling",
        ),
        pytest.param(
            [human(), agent("Done."), human("thanks!")],
            {},
            ("abandoned", "medium", None),
            id="Q20: a last thanks",
        ),
        pytest.param([human()], {"ended": JUST_NOW}, ("unknown", "low", None), id="the user has just spoken"),
        pytest.param(
            [human()],
            {"ended": JUST_NOW, "terminal": True},
            ("abandoned", "medium", None),
            id="and the log ended",
        ),
        pytest.param(
            [human(), agent("Failed, sorry.")],
            {},
            ("completed", "high", None),
            id="Q21: what the words say is not judged",
        ),
        pytest.param([human(), INTERRUPT], {}, ("abandoned", "medium", "interrupted"), id="Q27: Esc, and gone"),
        pytest.param(
            [human(), agent("Half an ans"), INTERRUPT],
            {},
            ("abandoned", "medium", "interrupted"),
            id="appendix D 4: the notice is the user's last word",
        ),
        pytest.param(
            [human(), INTERRUPT, human("no, the other one"), agent("Done.")],
            {},
            ("completed", "high", None),
            id="an interrupt that the session went on from is no ending",
        ),
        pytest.param(
            [human(), API_ERROR],
            {},
            ("abandoned", "medium", "api_error"),
            id="Q22: nothing but an API error came",
        ),
        pytest.param(
            [human(), agent("Done."), API_ERROR],
            {},
            ("completed", "high", "api_error"),
            id="T20: an API error after an answer",
        ),
        pytest.param(
            [human(), API_ERROR, human("again"), agent("Done.")],
            {},
            ("completed", "high", None),
            id="it went on",
        ),
        pytest.param(
            [human(), agent("", tool("Task", "failed")), agent("All done.")],
            {},
            ("completed", "high", "children_failed"),
            id="Q28, T26: a sub-agent failed and the parent says done",
        ),
        pytest.param(
            [human(), agent("All done.")],
            {"events": (FAILED_CHILD,)},
            ("completed", "high", "children_failed"),
            id="a sub-agent in the background failed",
        ),
        pytest.param(
            [human(), agent("", tool("Task", "failed")), agent("", tool("Task")), agent("Done.")],
            {},
            ("completed", "high", None),
            id="a sub-agent that worked makes up for one that failed before it",
        ),
        pytest.param(
            [human(), agent("", tool("Task", "failed"), tool("Task", input="y")), agent("Done.")],
            {},
            ("completed", "high", "children_failed"),
            id="not for one that failed beside it",
        ),
        pytest.param(
            [human(), agent("", tool("Task", "invalid")), agent("Done.")],
            {},
            ("completed", "high", None),
            id="a broken call started no sub-agent",
        ),
        pytest.param(
            [human()],
            {"events": (RETRIED,) * 3},
            ("abandoned", "medium", "api_error"),
            id="retries that came to nothing",
        ),
        pytest.param(
            [human(), agent("Done.")],
            {"events": (RETRIED,) * 3},
            ("completed", "high", None),
            id="retries that an answer came after",
        ),
        pytest.param(
            [human(), agent("", tool("Task", "failed")), human("try again"), agent("Done.")],
            {},
            ("completed", "high", None),
            id="a sub-agent that failed before the last prompt is past",
        ),
        pytest.param(
            [human(), agent("", tool(status="pending"))],
            {},
            ("abandoned", "medium", None),
            id="ended mid-tool",
        ),
        pytest.param(
            [human(), agent("", tool(status="pending"))],
            {"ended": JUST_NOW},
            ("unknown", "low", None),
            id="appendix D 27: the tool may still be running",
        ),
        pytest.param(
            [human(), agent("", tool(status="pending")), agent("", tool()), agent("Done.")],
            {},
            ("completed", "high", None),
            id="appendix D 2: a call left open long before the end is not pending",
        ),
        pytest.param(
            [human(), agent("", tool(status="cancelled")), INTERRUPT],
            {},
            ("abandoned", "medium", "interrupted"),
            id="a cancelled call at the end is pending, and an interrupt notice does not change that",
        ),
        pytest.param(
            [human(), agent("", tool(), tool(status="pending", input="y"))],
            {},
            ("abandoned", "medium", None),
            id="one open call of several is enough",
        ),
        pytest.param(
            [human(), agent("", tool(status="pending")), human("hello?")],
            {},
            ("abandoned", "medium", None),
            id="the user spoke after it: the user's word is what stands open",
        ),
        pytest.param(
            [{"role": "user", "author": "harness", "text": "count"}, agent("", tool(status="pending"))],
            {},
            ("errored", "medium", None),
            id="an automation that was killed mid-tool",
        ),
        pytest.param(
            [{"role": "user", "author": "harness", "text": "count"}, agent("1 2 3")],
            {},
            ("completed", "medium", None),
            id="an automation that answered and went idle",
        ),
        pytest.param(
            [{"role": "user", "author": "agent", "text": "search"}, agent("found")],
            {"ended": JUST_NOW},
            ("unknown", "low", None),
            id="a sub-agent that may still go on",
        ),
        pytest.param([], {}, ("unknown", "low", None), id="nothing"),
        pytest.param(
            [human(), agent("", tool())],
            {},
            ("abandoned", "medium", None),
            id="an assistant without a word said nothing",
        ),
        pytest.param(
            [human(), agent("Done."), harness("<system-reminder>x</system-reminder>")],
            {},
            ("completed", "high", None),
            id="harness text is nobody's word",
        ),
        pytest.param(
            [human("", has_image=True)],
            {},
            ("abandoned", "medium", None),
            id="an image alone is a word of the user's",
        ),
        pytest.param(
            [
                human(),
                agent("Done."),
                agent("sub answer", sidechain=True),
                human("sub", author="agent", sidechain=True),
            ],
            {},
            ("completed", "high", None),
            id="a sub-agent's words inside the log are not the session's",
        ),
    ],
)
def test_ending(messages: list[Any], fields: dict[str, Any], expected: tuple[str, str, str | None]) -> None:
    got = report(*messages, **fields)
    assert (got.outcome.value, got.confidence.value, got.ending) == expected


def test_of_a_log_without_statuses_no_failure_is_counted_not_even_none() -> None:
    got = report(human(), agent("Done."), untold=("statuses",))
    assert (got.signals.tool_failures, got.signals.longest_failure_streak, got.score) == (None, None, 100)
    assert {"statuses", "tool_failures", "longest_failure_streak"} <= set(got.basis)


def test_an_abandoned_session_points_to_the_word_that_nobody_answered() -> None:
    got = report(human(), agent("Done."), human("one more thing, add a test in tests/test_cart.py"))
    assert got.breakdown[0].label == "abandoned"
    assert got.breakdown[0].calls == (CallRef(2, None, None, None, "nobody answered the user's last word", ""),)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        pytest.param([human(), INTERRUPT], "the user stopped it and wrote no more", id="an interrupt"),
        pytest.param([human(), API_ERROR], "the API failed, and nothing came after", id="an API error"),
        pytest.param([human(), agent("")], "the model answered with nothing", id="an empty answer"),
        pytest.param([human(), agent("", tool())], "the agent worked on it and never answered", id="work and no word"),
        pytest.param(
            [human(), agent("", tool()), agent("Done."), human("thanks")],
            "nobody answered the user's last word",
            id="a word after the work",
        ),
    ],
)
def test_an_abandoned_session_says_what_became_of_the_last_word(messages: list[Any], why: str) -> None:
    (line,) = report(*messages).breakdown
    assert [ref.why for ref in line.calls] == [why]


def test_an_output_that_is_a_lower_bound_is_not_measured() -> None:
    got = report(human(), agent("Done.", usage=Usage(5, output_tokens=2, output_is_partial=True)))
    assert got.usage is not None
    assert got.usage.output_is_partial
    assert "output_tokens" in got.basis


def test_an_abandoned_session_points_to_the_call_that_never_came_back() -> None:
    got = report(human(), agent("", tool(), tool("Read", "pending", input="y", files=["a"])))
    assert [(ref.message, ref.call, ref.tool) for ref in got.breakdown[0].calls] == [(1, 1, "Read")]


@pytest.mark.parametrize(
    ("made", "idle"),
    [
        pytest.param({"ended": NOW - timedelta(minutes=30)}, True, id="thirty minutes to the second"),
        pytest.param({"ended": NOW - timedelta(minutes=29, seconds=59)}, False, id="a second less"),
        pytest.param({"ended": NOW + timedelta(hours=1)}, False, id="a time in the future"),
        pytest.param(
            {"ended": None, "modified": LONG_AGO},
            True,
            id="appendix D 20: the file's time where the log has none",
        ),
        pytest.param({"ended": JUST_NOW, "modified": LONG_AGO}, False, id="the log's time goes before the file's"),
        pytest.param({"ended": None}, False, id="neither"),
        pytest.param({"ended": None, "terminal": True}, True, id="terminal"),
    ],
)
def test_idle(made: dict[str, Any], idle: bool) -> None:
    assert is_idle(session(human(), **made), NOW) is idle


# --- the rest of the card ---------------------------------------------------------------------------------


def test_facts_count_messages_and_people() -> None:
    got = report(human("", has_image=True), harness("x"), agent("a"), human("b b b b"), agent("c", tool()))
    assert (got.facts.user_messages, got.facts.last_user_ord, got.facts.last_assistant_ord) == (2, 3, 4)
    assert got.messages == 5
    assert got.hygiene.prompts == 1  # appendix D 19: an image alone is a message, not a prompt


def test_archetype_counts_messages_of_every_role() -> None:
    quiet = [harness("x")] * 57
    assert report(human(), agent("a"), *quiet, ended=LONG_AGO).archetype.value == "standard"  # 59 messages, 10 minutes
    assert report(human(), agent("a"), agent("b"), *quiet, ended=LONG_AGO).archetype.value == "deep"  # 60 messages


def test_a_sub_agents_session_is_an_automation() -> None:
    got = report({"role": "user", "author": "agent", "text": "search"}, agent("found"))
    assert got.archetype.value == "automation"  # appendix D 14
    assert got.hygiene.prompts == 0


def test_hygiene_reads_only_what_people_typed() -> None:
    got = report(
        human("hey"),
        human("add pagination to the sessions list"),
        human("Add  pagination to the sessions LIST"),
        human("now refactor the loop in internal/server/store/signals.go"),
        harness("fix fix fix fix"),
    )
    assert (got.hygiene.prompts, got.hygiene.short, got.hygiene.duplicate, got.hygiene.no_code_context) == (
        4,
        1,
        1,
        2,
    )
    assert got.hygiene.unstructured_start is True


def test_context_folds_the_requests_of_the_sessions_own_conversation() -> None:
    got = report(
        human(),
        agent("a", usage=request(150_000)),
        agent("sub", usage=request(10), sidechain=True),
        {**API_ERROR, "usage": None},
        agent("b", usage=request(160_000)),
        agent("c", usage=request(30_000)),
    )
    assert got.context is not None
    assert (got.context.peak_tokens, got.context.resets) == (
        160_000,
        1,
    )  # appendix D 12: the error is no reset


def test_context_is_unmeasured_without_usage() -> None:
    got = report(human(), agent("a"))
    assert got.context is None
    assert got.usage is None
    assert {"usage", "context"} <= set(got.basis)


def test_a_request_that_is_repeated_counts_once() -> None:
    """T1."""
    got = report(human(), agent("a", usage=request(5, key="m1")), agent("a", usage=request(5, key="m1")))
    assert got.usage is not None
    assert (got.usage.input_tokens, got.usage.requests) == (5, 1)


def test_reasoning_is_a_part_of_the_output_and_unknown_when_nobody_reports_it() -> None:
    """T8."""
    told = report(agent("a", usage=request(5, reasoning_tokens=12))).usage
    untold = report(agent("a", usage=request(5))).usage
    assert told is not None
    assert untold is not None
    assert (told.output_tokens, told.reasoning_tokens) == (1, 12)
    assert untold.reasoning_tokens is None


def test_thinking_is_measured_by_turn() -> None:
    got = report(
        human(),
        agent("a", usage=request(1, reasoning_tokens=100)),
        agent("b"),
        agent("c", thinking_bytes=3210, thinking_kind="signature"),
    )
    assert got.thinking is not None
    assert (got.thinking.assistant_turns, got.thinking.thinking_turns) == (3, 2)
    assert (got.thinking.tail_tokens, got.thinking.peak_tokens, got.thinking.band) == (300, 300, "medium")


def test_of_a_log_that_tells_no_thinking_none_is_not_called_off() -> None:
    assert report(human(), agent("y"), untold=("thinking",)).thinking is None


def test_tools_of_mcp_servers_are_counted_by_server() -> None:
    calls = [
        tool("mcp__github__get_issue"),
        tool("mcp__github__close_issue", "failed"),
        tool("mcp__grepai"),
        tool("use_mcp_tool", server="linear"),
        tool("mcp_told_by_nothing"),
        tool("my__bash"),
    ]
    got = report(human(), agent("y", *calls)).mcp_servers
    assert {name: (tally.calls, tally.failures) for name, tally in got.items()} == {
        "github": (2, 1),
        "grepai": (1, 0),
        "linear": (1, 0),
    }


def test_title_is_the_logs_or_the_first_line_of_the_first_prompt() -> None:
    assert report(human("first line\nsecond"), title="Given").title == "Given"
    assert report(human("\n first line\nsecond")).title == "first line"
    assert report(human("Implement the following plan:\n\n# Round half up\n\nx")).title == "Round half up"
    assert report(human("Look at this:")).title == "Look at this:"
    assert report(human("We solve an issue.\nISSUE:\nx")).title == "We solve an issue."
    assert report(human("Task:\nISSUE:\nRounding is off")).title == "Rounding is off"
    assert report(human("Please list:\n\n1. the files\n2. the tests")).title == "Please list:"
    assert report(human("<git-context>\nWhere is the cart?")).title == "Where is the cart?"
    assert report(human("<div>")).title == "<div>"
    order = harness("run the linter\nand mend") | {"role": "user"}
    assert report(order, agent("y")).title == "run the linter"
    assert report(harness("x"), agent("y")).title is None
    assert report(agent("y")).title is None


def test_names_and_losses_are_handed_through() -> None:
    got = report(human(), agent("a", model="m2"), agent("b", model="m1"), agent("c", model="m2"), parent_source_id="p",
                 relation="subagent", losses=(ParseLoss("malformed_line", 2, 0),))  # fmt: skip
    assert got.models == ("m2", "m1")
    assert (got.parent_session_id, got.relation, got.losses) == ("p", "subagent", {"malformed_line": 2})
    assert got.duration_minutes == 10.0


def test_without_two_times_there_is_no_duration() -> None:
    got = report(human(), agent("a"), ended=None)
    assert got.duration_minutes == 0.0
    assert "duration" in got.basis


# --- properties -------------------------------------------------------------------------------------------

_calls = st.builds(
    lambda name, status, input, id, files: tool(name, status, input=input, id=id, files=files),
    st.sampled_from(["Bash", "Edit", "Read", "Task", "mcp__x__y"]),
    st.sampled_from([status.value for status in CallStatus]),
    st.sampled_from(["a", "b", None]),
    st.sampled_from(["1", "2", None]),
    st.lists(st.sampled_from(["f", "g"]), max_size=2),
)
_messages = st.one_of(
    st.builds(human, st.text(max_size=30)),
    st.builds(lambda text, calls: agent(text, *calls), st.text(max_size=5), st.lists(_calls, max_size=4)),
    st.builds(lambda tokens: agent("x", usage=request(tokens)), st.integers(0, 200_000)),
    st.just(INTERRUPT),
    st.just(API_ERROR),
    st.builds(harness, st.text(max_size=5)),
)
_sessions = st.lists(_messages, max_size=12).map(lambda messages: session(*messages))


@given(_sessions)
def test_properties_of_every_report(made: Session) -> None:
    got = assess(made, NOW)
    assert got.score is None or 0 <= got.score <= 100
    assert got.score is None or got.score == max(0, 100 - sum(line.points for line in got.breakdown))
    assert (got.score is None) == (got.grade is None)
    assert sum(got.statuses.values()) == got.signals.tool_calls
    assert got.signals.edit_churn is None or got.signals.edit_churn >= 0
    assert len(got.advice) <= 3
    hygiene = got.hygiene
    assert max(hygiene.short, hygiene.duplicate, hygiene.no_code_context) <= hygiene.prompts
    for line in got.breakdown:
        assert line.calls, line.label
        for ref in line.calls:
            assert ref.message < len(made.messages)
    assert msgspec.json.decode(msgspec.json.encode(got))["agent"] == "claude-code"


@given(_sessions)
def test_the_fold_equals_the_whole(made: Session) -> None:
    assessor = Assessor(NOW)
    for message in made.messages:
        assessor.add(message, message.calls)
    header = msgspec.structs.replace(made, messages=())
    assert assessor.result(header) == assess(made, NOW)


def test_a_sum_of_requests_is_tokens_and_neither_a_context_nor_a_request() -> None:
    got = report(human(), agent("Done."), loose_usage=(Usage(50_000, output_tokens=7, is_sum=True),))
    assert got.usage is not None
    assert (got.usage.input_tokens, got.usage.output_tokens, got.usage.requests) == (50_000, 7, 0)
    assert got.context is None
    assert "context" in got.basis
