"""How a session ended, and how far to trust that: a verdict from six facts."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

__all__ = ["ERRORED_TAIL", "Confidence", "Facts", "Outcome", "Verdict", "classify"]

ERRORED_TAIL = 3
"""Failed calls in a row at the very end that make an ending errored. One or two are an agent that
looked around and then answered; three are one that was stuck."""


class Outcome(StrEnum):
    """How a session ended. `unknown` is the absence of a verdict, not a bad one."""

    completed = "completed"
    abandoned = "abandoned"
    errored = "errored"
    unknown = "unknown"


class Confidence(StrEnum):
    """How far to trust an outcome: logs seldom record their own end, so most verdicts are inferred."""

    high = "high"
    medium = "medium"
    low = "low"


class Facts(msgspec.Struct, frozen=True):
    """What `classify` reads of a session."""

    user_messages: int = 0
    """Messages that a person sent, whatever their content."""
    last_assistant_ord: int = -1
    """Ordinal of the last message in which the model wrote text; -1 when there is none."""
    last_user_ord: int = -1
    """Ordinal of the last message in which a person wrote text; -1 when there is none."""
    tool_call_pending: bool = False
    """The session ended in the middle of a tool call."""
    trailing_failures: int = 0
    """Failed calls after the last call that did not fail; 0 when the log cannot tell."""
    idle_long_enough: bool = False
    """So long inactive, or known to have ended, that nothing more is coming."""


class Verdict(NamedTuple):
    outcome: Outcome
    confidence: Confidence


def classify(facts: Facts) -> Verdict:
    """The outcome and the confidence in it, by the first rule that holds.

    The hard evidence comes first (a failing tail, an open call), so that a session which ended badly
    is never completed merely because the model spoke last. A session that may still go on is unknown.
    """
    idle = facts.idle_long_enough
    assistant, user = facts.last_assistant_ord, facts.last_user_ord
    unknown = Verdict(Outcome.unknown, Confidence.low)

    if facts.trailing_failures >= ERRORED_TAIL:
        return Verdict(Outcome.errored, Confidence.high)
    if facts.tool_call_pending:
        if not idle:
            return unknown
        # Nobody was there to walk away from an automated run: it was killed, or it crashed.
        outcome = Outcome.errored if facts.user_messages == 0 else Outcome.abandoned
        return Verdict(outcome, Confidence.medium)
    if facts.user_messages == 0:
        return Verdict(Outcome.completed, Confidence.medium) if assistant >= 0 and idle else unknown
    if assistant > user:  # both are -1 when neither side spoke
        return Verdict(Outcome.completed, Confidence.high)
    if user > assistant and idle:
        return Verdict(Outcome.abandoned, Confidence.medium)
    return unknown
