"""What shape a session had: not how well it went, but how large it was."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = [
    "DEEP_MESSAGES",
    "DEEP_MINUTES",
    "MARATHON_MESSAGES",
    "MARATHON_MINUTES",
    "STANDARD_MESSAGES",
    "STANDARD_MINUTES",
    "Archetype",
    "ArchetypeFacts",
    "classify_archetype",
]

MARATHON_MINUTES, MARATHON_MESSAGES = 120, 200
DEEP_MINUTES, DEEP_MESSAGES = 30, 60
STANDARD_MINUTES, STANDARD_MESSAGES = 5, 15


class Archetype(StrEnum):
    """The shape of a session. `automation` is a run in which no person took part."""

    automation = "automation"
    quick = "quick"
    standard = "standard"
    deep = "deep"
    marathon = "marathon"


class ArchetypeFacts(msgspec.Struct, frozen=True):
    """What `classify_archetype` reads of a session."""

    user_messages: int = 0
    """Messages that a person sent, whatever their content."""
    messages: int = 0
    """Messages of every role, system and context too."""
    duration_min: float = 0.0
    """First to last time in the log, in minutes; 0 without two times."""


_BANDS = (
    (Archetype.marathon, MARATHON_MINUTES, MARATHON_MESSAGES),
    (Archetype.deep, DEEP_MINUTES, DEEP_MESSAGES),
    (Archetype.standard, STANDARD_MINUTES, STANDARD_MESSAGES),
)


def classify_archetype(facts: ArchetypeFacts) -> Archetype:
    """The heaviest band whose minutes or messages the session reaches; automation without a person.

    Either measure is enough, so that a long quiet session and a short busy one both count as work.
    """
    if facts.user_messages == 0:
        return Archetype.automation
    for archetype, minutes, messages in _BANDS:
        if facts.duration_min >= minutes or facts.messages >= messages:
            return archetype
    return Archetype.quick
