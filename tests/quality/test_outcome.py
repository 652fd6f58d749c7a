"""How a session ended: the rules in order, each with the edge where it stops holding."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.quality.outcome import Confidence, Facts, Outcome, Verdict, classify

COMPLETED_HIGH = (Outcome.completed, Confidence.high)
COMPLETED_MEDIUM = (Outcome.completed, Confidence.medium)
ABANDONED_MEDIUM = (Outcome.abandoned, Confidence.medium)
ERRORED_HIGH = (Outcome.errored, Confidence.high)
ERRORED_MEDIUM = (Outcome.errored, Confidence.medium)
UNKNOWN_LOW = (Outcome.unknown, Confidence.low)

# user messages, last assistant, last user, pending, trailing failures, idle
CASES = [
    (
        "three failures at the end are errored before an open call counts",
        (2, 9, 4, True, 3, True),
        ERRORED_HIGH,
    ),
    ("an open call in a session that is not idle is unknown", (2, 9, 4, True, 0, False), UNKNOWN_LOW),
    ("an open call in an idle automated run is errored", (0, 6, -1, True, 0, True), ERRORED_MEDIUM),
    ("an open call in an idle session of a person is abandoned", (3, 6, 10, True, 0, True), ABANDONED_MEDIUM),
    ("an idle automated run whose agent spoke is completed", (0, 5, -1, False, 0, True), COMPLETED_MEDIUM),
    ("an automated run that is not idle is unknown", (0, 5, -1, False, 0, False), UNKNOWN_LOW),
    ("an automated run whose agent never spoke is unknown", (0, -1, -1, False, 0, True), UNKNOWN_LOW),
    ("three failures are errored though the agent spoke last", (2, 9, 4, False, 3, False), ERRORED_HIGH),
    ("two failures at the end do not make it errored", (2, 9, 4, False, 2, False), COMPLETED_HIGH),
    ("neither side spoke: unknown", (1, -1, -1, False, 0, False), UNKNOWN_LOW),
    ("neither side spoke: unknown when idle, too", (1, -1, -1, False, 0, True), UNKNOWN_LOW),
    ("the agent spoke last: completed without waiting for idle", (3, 12, 8, False, 0, False), COMPLETED_HIGH),
    ("the agent spoke last: completed when idle, too", (3, 12, 8, False, 0, True), COMPLETED_HIGH),
    ("the person spoke last and is gone: abandoned", (3, 6, 10, False, 0, True), ABANDONED_MEDIUM),
    ("the person spoke last and may still wait: unknown", (3, 6, 10, False, 0, False), UNKNOWN_LOW),
    ("only the person ever spoke, and is gone: abandoned", (1, -1, 0, False, 0, True), ABANDONED_MEDIUM),
    ("only the agent spoke with substance: completed", (1, 0, -1, False, 0, False), COMPLETED_HIGH),
    ("equal ordinals name no last speaker: unknown", (1, 4, 4, False, 0, True), UNKNOWN_LOW),
    (
        "the agent's first message has ordinal 0 and counts as spoken",
        (0, 0, -1, False, 0, True),
        COMPLETED_MEDIUM,
    ),
    (
        "many failures at the end of an automated run are errored at once",
        (0, 5, -1, False, 40, False),
        ERRORED_HIGH,
    ),
    ("two failures and an open call: the open call decides", (2, 9, 4, True, 2, True), ABANDONED_MEDIUM),
    ("two failures and an open call of a live session: unknown", (2, 9, 4, True, 2, False), UNKNOWN_LOW),
    (
        "an idle automated run with a person's text but no person's message",
        (0, 3, 5, False, 0, True),
        COMPLETED_MEDIUM,
    ),
]


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [(facts, verdict) for _, facts, verdict in CASES],
    ids=[name for name, _, _ in CASES],
)
def test_the_first_rule_that_holds_decides(
    facts: tuple[int, int, int, bool, int, bool], verdict: tuple[Outcome, Confidence]
) -> None:
    assert classify(Facts(*facts)) == verdict


def test_facts_without_arguments_describe_a_session_of_which_nothing_is_known() -> None:
    assert Facts() == Facts(
        user_messages=0,
        last_assistant_ord=-1,
        last_user_ord=-1,
        tool_call_pending=False,
        trailing_failures=0,
        idle_long_enough=False,
    )
    assert classify(Facts()) == UNKNOWN_LOW


def test_facts_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Facts().user_messages = 1  # type: ignore[misc]


def test_a_verdict_has_names_and_unpacks() -> None:
    verdict = classify(Facts(3, 12, 8))
    outcome, confidence = verdict
    assert isinstance(verdict, Verdict)
    assert (verdict.outcome, verdict.confidence) == (outcome, confidence) == COMPLETED_HIGH


def test_the_names_of_the_closed_sets_are_their_values() -> None:
    assert [outcome.value for outcome in Outcome] == ["completed", "abandoned", "errored", "unknown"]
    assert [confidence.value for confidence in Confidence] == ["high", "medium", "low"]
    assert Outcome("completed") is Outcome.completed
    assert f"{Outcome.errored}" == "errored"
    assert msgspec.json.encode(Verdict(Outcome.errored, Confidence.high)) == b'["errored","high"]'


def by_the_table(facts: Facts) -> tuple[str, str]:
    """The rules written down one by one, as the table has them."""
    n, a, u = facts.user_messages, facts.last_assistant_ord, facts.last_user_ord
    pending, failures, idle = facts.tool_call_pending, facts.trailing_failures, facts.idle_long_enough
    rules = [
        (failures >= 3, ("errored", "high")),
        (pending and not idle, ("unknown", "low")),
        (pending and n == 0, ("errored", "medium")),
        (pending, ("abandoned", "medium")),
        (n == 0 and a >= 0 and idle, ("completed", "medium")),
        (n == 0, ("unknown", "low")),
        (a == -1 and u == -1, ("unknown", "low")),
        (a > u, ("completed", "high")),
        (u > a and idle, ("abandoned", "medium")),
        (u > a, ("unknown", "low")),
        (True, ("unknown", "low")),
    ]
    return next(verdict for holds, verdict in rules if holds)


def test_every_small_combination_of_facts_agrees_with_the_table() -> None:
    ordinals = (-1, 0, 1, 2)
    for values in itertools.product((0, 1, 2), ordinals, ordinals, (False, True), (0, 2, 3, 4), (False, True)):
        facts = Facts(*values)
        assert classify(facts) == by_the_table(facts), facts


@given(st.builds(Facts, user_messages=st.integers(0), trailing_failures=st.integers(0, 2)))
def test_only_an_unknown_outcome_has_low_confidence(facts: Facts) -> None:
    verdict = classify(facts)
    assert (verdict.outcome is Outcome.unknown) == (verdict.confidence is Confidence.low)


@given(st.builds(Facts, user_messages=st.integers(0)))
def test_waiting_never_takes_a_verdict_away(facts: Facts) -> None:
    live = classify(msgspec.structs.replace(facts, idle_long_enough=False))
    idle = classify(msgspec.structs.replace(facts, idle_long_enough=True))
    assert live.outcome is Outcome.unknown or live == idle
