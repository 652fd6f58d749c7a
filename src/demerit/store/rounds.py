"""What a session goes round in, by the rules of the loop guard: as a proxy would have reported it, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from demerit.defects import LoopGuardTrip
from demerit.loops import Call, Scanner, Turn
from demerit.model import Event, Message, ToolCall
from demerit.store.texts import TEXT_CHARS, plain, text_digest


class Rounds(msgspec.Struct):
    """What of a model's turns was said before: sums of what a proxy would have reported of them, request by request."""

    batches: int = 0
    """Turns with calls, in the session's own conversation: all others are parts of these, but for `stagnations`."""
    repeats_seen: int = 0
    identical_repeats: int = 0
    repeats_not_evaluated: int = 0
    repeats_rescued: int = 0
    loops: int = 0
    stagnations: int = 0
    cycles: int = 0


class RoundsFolder:
    """Reads a session as the loop guard would have read it off the wire, one turn after the other.

    What repeats an earlier session is read as well, for the model had it before its eyes, and counts there. Messages of
    sub-agents are other conversations: they neither count nor come between. A compaction puts a summary in the place of
    what was said, so what comes after it repeats nothing that came before.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.by_model: dict[str, Rounds] = {}
        compacted = (one.message_ordinal for one in events if one.kind == "compaction")
        self._compacted = sorted((ordinal for ordinal in compacted if ordinal is not None), reverse=True)
        self._scanner = Scanner()

    def add(self, message: Message, calls: Sequence[ToolCall], said: str, counts: bool = True) -> None:
        """Take in the next message. calls: its own, without lines that repeat an earlier call. said: see `spoken`."""
        if message.sidechain:
            return
        while self._compacted and self._compacted[-1] < message.ordinal:
            self._compacted.pop()
            self._scanner = Scanner()
        if message.notice == "compaction_summary":
            self._scanner = Scanner()
        turn = _turn(message, calls, said)
        if turn is None:
            return
        scan = self._scanner.feed(turn)
        if turn.role != "assistant" or not counts:
            return
        model = plain(message.model) if message.model else ""
        found = self.by_model.setdefault(model, Rounds())
        found.batches += bool(turn.calls)
        found.repeats_seen += scan.repeat_seen
        found.identical_repeats += scan.identical
        found.repeats_not_evaluated += scan.not_evaluated
        found.repeats_rescued += scan.rescued
        found.loops += scan.trip is LoopGuardTrip.loop
        found.stagnations += scan.trip is LoopGuardTrip.stagnation
        found.cycles += scan.cycle

    def interrupt(self) -> None:
        """What was read until now is remembered, and nothing is a continuation of it."""
        self._scanner.feed(Turn("system"))


def _turn(message: Message, calls: Sequence[ToolCall], said: str) -> Turn | None:
    """The turn that a message was on the wire; None for what was not sent, or only repeats the line of another.

    Reminders, results of commands and notes of an interruption went to the model in the name of the user or the system,
    and so come between two calls here as they do there. We would rather miss a loop than accuse of one.
    """
    if message.role != "assistant":
        if message.notice == "api_error":
            return None
        # Of an image we know only that there was one: it is equal to no other.
        return Turn("system" if message.role == "system" else "user", said + f" {message.ordinal}" * message.has_image)
    if message.author != "agent" or message.notice is not None:
        return None
    if not message.calls:
        return Turn("assistant", said)
    # An input that was not recorded is equal to no other.
    made = [Call(plain(call.name), call.input_hash or f"{message.ordinal}.{call.index}") for call in calls]
    return Turn("assistant", "", tuple(made), answers_of(calls)) if made else None


def spoken(message: Message) -> str:
    """Equal for messages of equal text, as far as texts are kept; empty where there is none."""
    return spoken_as(text_digest(plain(message.text[:TEXT_CHARS])), message.text_bytes) if message.text else ""


def spoken_as(digest: str, size: int) -> str:
    """`spoken` of a message whose kept text has this digest. size: bytes of the whole text."""
    return f"{digest} {size}"


def answers_of(calls: Iterable[ToolCall]) -> str | None:
    """Equal for equal answers to equal calls, in whatever order; None when not all are known."""
    pairs = []
    for call in calls:
        if call.input_hash is None or call.result is None:
            return None
        pairs.append(f"{call.name} {call.input_hash} {call.result.digest}")
    return "\n".join(sorted(pairs))
