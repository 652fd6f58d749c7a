"""One request through the proxy, as a state machine without input or output: what it is told, and what to do then.

    exchange = Exchange(options, ledger, failed)
    exchange.read(body)                      # whose model it is, and so where it goes
    step = exchange.guard(at)                # a Reply of ours, or the body to forward
    exchange.forwarded()                     # it goes to the upstream now: from here on it counts
    exchange.answered(200, is_stream=True)
    exchange.feed(chunk) -> bytes            # what the client gets now
    exchange.finish("end") -> bytes          # and at the end; exchange.client_left() where nobody is there any more

Whatever fails in here is passed over: the client gets the upstream's bytes, and `failed` is told.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import msgspec

from demerit.defects import DefectLedger, LoopGuardTrip
from demerit.loops import Scan, scan
from demerit.proxy.chat import (
    SENTINEL,
    AnswerFacts,
    Request,
    conversation_hash,
    error_body,
    read_request,
    short_hash,
    with_note,
)
from demerit.proxy.gate import Reply, reply_error
from demerit.proxy.options import GuardMode, Options
from demerit.proxy.sse import Reader, as_json_list, encode, payloads

Ended = Literal[
    "clean",
    "unreadable_frame",
    "upstream_error",
    "broken",
    "stalled",
    "no_end",
    "upstream_refused",
    "first_byte_timeout",
    "client_left",
    "stopped",
    "guard_refused",
]
"""How a turn ended: the rows of the table "Ends of a turn" in docs/proxy.md."""

Stop = Literal["end", "broken", "stalled", "stopped"]
"""How the upstream's bytes ended: as announced, in an error of the transport, in too long a silence, or because the
proxy was told to stop, which is nobody's failure and is not counted."""

Stage = Literal["read", "guard", "note", "frames", "classify", "count"]


class Decision(msgspec.Struct, frozen=True):
    """What the guard decided about one request, for the trips log. Hashes only."""

    at: datetime
    model: str
    mode: GuardMode
    detector: LoopGuardTrip
    signature_hash: str | None
    session_hash: str | None
    count: int
    limit: int | None


class Record(msgspec.Struct, frozen=True):
    """What became of one request that counted."""

    at: datetime
    """When it came, UTC."""
    model: str
    upstream: str | None
    """None where the guard refused it."""
    streaming: bool
    status: int
    """What the client got; 0 where it left before."""
    ended: Ended
    trip: LoopGuardTrip | None
    first_byte_s: float | None
    """From the request to the first byte of its answer; None where none came."""
    duration_s: float


_BROKEN = {
    "broken": ("the upstream broke off its answer", "upstream_broken"),
    "stalled": ("the upstream sent nothing more for too long", "upstream_stalled"),
    "no_end": ("the upstream ended its answer without a finish reason", "upstream_incomplete"),
    "stopped": ("the proxy was stopped before the answer ended; ask again", "proxy_stopped"),
}


class Exchange:
    """One chat completion, from the client's bytes to the record of what became of it."""

    def __init__(self, options: Options, ledger: DefectLedger, failed: Callable[[Stage, Exception], None]) -> None:
        """failed: told of what was passed over because it raised: a fault of ours."""
        self._options = options
        self._ledger = ledger
        self._failed = failed
        self.model = ""
        self.streaming = False
        """Whether the client asked for a stream."""
        self.decision: Decision | None = None
        """What goes to the trips log at once; None where the guard had nothing to say."""
        self.was_scanned = False
        self._body = b""
        self._request: Request | None = None
        self._scan: Scan | None = None
        self.ended: Ended | None = None
        self._is_counted = False
        self._unreadable = 0
        self._facts: AnswerFacts | None = AnswerFacts()
        self._reader: Reader | None = Reader()
        self._unsent = bytearray()  # what came and has not gone out; kept here, so that no fault of the reader loses it
        self._is_stream = False

    # --- the request ------------------------------------------------------------------------------------------

    def read(self, body: bytes) -> bool:
        """Read who is asked for what. False where it is no JSON object: that is forwarded as it is, and not counted."""
        self._body = body
        with_messages = self._options.guard_mode != "off"
        self._request = self._guarded("read", lambda: read_request(body, with_messages))
        if self._request is None:
            return False
        # Half a surrogate pair could not be written anywhere.
        self.model = self._request.model[:256].encode(errors="replace").decode() or "(unnamed)"
        self.streaming = self._request.streaming
        return True

    def guard(self, at: datetime, session: str | None = None) -> Reply | bytes:
        """What to do with the request that was read: refuse it with this reply, or forward these bytes.

        session: what the client calls the conversation; None where it does not say.
        """
        body, request = self._body, self._request
        self._body, self._request = b"", None  # a long conversation is not kept as long as its answer takes
        if self._options.guard_mode == "off" or request is None or request.messages is None:
            return body
        found: Scan | None = self._guarded("guard", lambda: scan(request.messages, self._options.guard))
        if found is None:
            return body
        self.was_scanned = True
        self._scan = found
        if found.trip is None:
            return body
        self.decision = self._guarded("guard", lambda: self._decided(request, found, at, session))
        if self._options.guard_mode == "refuse":
            self.ended = "guard_refused"
            self._count_request(refused=True)
            return _refusal(found)
        noted = self._guarded("note", lambda: with_note(body, note_for(found)))
        return body if noted is None else noted

    def _decided(self, request: Request, found: Scan, at: datetime, session: str | None) -> Decision:
        assert found.trip is not None and request.messages is not None
        from_client = short_hash(session) if session else None
        return Decision(
            at,
            self.model,
            self._options.guard_mode,
            found.trip,
            short_hash(found.signature) if found.signature is not None else None,
            from_client or conversation_hash(request.messages),
            found.count,
            found.limit,
        )

    def forwarded(self) -> None:
        """The request goes to the upstream now. A second try is no second request."""
        self._count_request(refused=False)

    def _count_request(self, refused: bool) -> None:
        def count() -> None:
            found, ledger, model = self._scan, self._ledger, self.model
            trip = found.trip if found is not None else None
            if refused and trip is not None:
                ledger.record_loop_guard_trip(model, trip)
            else:
                ledger.record_request(model)
                if trip is not None:
                    ledger.record_loop_guard_trip(model, trip, counts_request=False)
            if found is None:
                return
            if found.repeat_seen or found.rescued:
                ledger.record_repeats(model, found.identical, found.not_evaluated, found.rescued)
            ledger.record_turn(model, scanned=1, repeats_seen=int(found.repeat_seen), cycles=int(found.cycle))

        self._guarded("count", count)

    @property
    def trip(self) -> LoopGuardTrip | None:
        return self._scan.trip if self._scan is not None else None

    # --- the answer -------------------------------------------------------------------------------------------

    def answered(self, is_stream: bool) -> None:
        """The upstream begins an answer (a 2xx)."""
        self._is_stream = is_stream
        if is_stream:
            self._guarded("count", lambda: self._ledger.record_turn(self.model, streamed_turns=1))

    def feed(self, chunk: bytes) -> bytes:
        """What the client gets for some bytes of a stream: the frames that are whole now, as they came."""
        reader = self._reader
        if reader is None:
            return chunk
        self._unsent += chunk
        try:
            block = reader.feed(chunk)
        except Exception as error:
            self._failed("frames", error)
            self._reader = self._facts = None
            return self._released()
        if self._facts is not None:
            try:
                self._read(self._facts, block)
            except Exception as error:
                self._failed("classify", error)
                self._facts = None
            else:
                self._look_at(self._facts)
        if len(block) == len(self._unsent):
            self._unsent.clear()
        else:
            del self._unsent[: len(block)]
        return block

    @staticmethod
    def _read(facts: AnswerFacts, block: bytes) -> None:
        last = encode(SENTINEL)
        is_last = block.endswith(last)
        listed = as_json_list(block[: -len(last)] if is_last else block)
        if listed is None or not facts.add_list(*listed):
            for data in payloads(block):
                facts.add(data)
        elif is_last:
            facts.add(SENTINEL)

    def _released(self) -> bytes:
        held = bytes(self._unsent)
        self._unsent.clear()
        return held

    def finish(self, stop: Stop) -> bytes:
        """What the client gets last, after the upstream's bytes of a stream ended. Counts the turn."""
        reader = self._reader
        is_cut = reader is not None and reader.overlong
        held = self._released()
        facts = self._facts
        if facts is None:  # what came is not known: it goes out as it is, and nothing is said of it
            self.ended = self.ended or ("clean" if stop == "end" else stop)
            return held
        if stop != "end":
            held = b""  # the beginning of a frame that will never end
        elif held:
            # A last frame without its blank line: readers drop it, but some servers end that way.
            for data in payloads(held):
                facts.add(data)
            self._look_at(facts)
        tail = b""
        if facts.errored:
            tail = b"" if facts.ended else encode(SENTINEL)
        elif not (facts.ended or (facts.finished and stop == "end")):
            how: Literal["broken", "stalled", "stopped", "no_end"] = "no_end" if stop == "end" else stop
            if how != "stopped":
                self._end_in_error(how)
            message, code = _BROKEN[how]
            tail = encode(error_body(message, "upstream_error", code)) + encode(SENTINEL)
            if how == "stopped":
                self.stopped()
        if not self._is_counted:
            self._count_end(facts)
        return held + b"\n\n" + tail if tail and (held or is_cut) else held + tail

    def _look_at(self, facts: AnswerFacts) -> None:
        """Count what failed as it comes: many a client leaves because of it."""
        if news := facts.unreadable - self._unreadable:
            self._unreadable = facts.unreadable
            self._guarded("count", lambda: self._ledger.record_turn(self.model, unreadable_frames=news))
        if facts.errored:
            self._end_in_error("upstream_error")
        elif facts.unreadable:
            self._end_in_error("unreadable_frame")

    def finish_whole(self, body: bytes) -> None:
        """A whole answer came, and the client gets it as it is. Counts the turn."""
        facts = self._facts
        if facts is None:
            return
        try:
            facts.add(body)
        except Exception as error:
            self._failed("classify", error)
            self._facts = None
            return
        if facts.errored:
            self.refused("upstream_refused")
        else:
            self._count_end(facts)

    def _end_in_error(self, how: Ended) -> None:
        """A stream failed, in whatever ways: it counts once."""
        is_first = self.ended is None
        if is_first or self.ended == "unreadable_frame":
            self.ended = how
        if not is_first:
            return
        self._guarded("count", lambda: self._ledger.record_stream_error(self.model))

    def _count_end(self, facts: AnswerFacts) -> None:
        """The turn ended with the client still there."""
        self._is_counted = True

        def count() -> None:
            ledger, model = self._ledger, self.model
            is_read = self._is_stream or not facts.unreadable
            ledger.record_turn(
                model,
                completed_turns=int(is_read),
                tool_turns=int(is_read and facts.called),
                unreadable_frames=facts.unreadable - self._unreadable,
            )
            if facts.truncated:
                ledger.record_truncated_generation(model)
            if is_read and not facts.rendered and self.ended is None:
                ledger.record_empty_response(model, facts.reasoned)

        self._guarded("count", count)
        self.ended = self.ended or ("unreadable_frame" if facts.unreadable else "clean")

    def refused(self, how: Literal["upstream_refused", "first_byte_timeout"]) -> None:
        """There is no answer: the upstream was not reached, refused, or did not begin in time."""
        self.ended = how
        self._is_counted = True
        name = "upstream_refusals" if how == "upstream_refused" else "first_byte_timeouts"
        self._guarded("count", lambda: self._ledger.record_turn(self.model, **{name: 1}))

    def stopped(self) -> None:
        """The proxy stops, and the turn with it."""
        if not self._is_counted:
            self.ended, self._is_counted = "stopped", True

    def client_left(self) -> None:
        """The client hung up. One that has read the end of the answer has not left early, though more bytes follow."""
        facts = self._facts
        if self._is_counted:
            return
        if facts is not None and self._is_stream and (facts.ended or facts.finished or facts.errored):
            self._count_end(facts)
            return
        self.ended = self.ended or "client_left"
        self._guarded("count", lambda: self._ledger.record_turn(self.model, client_aborts=1))

    def _guarded(self, stage: Stage, run: Callable[[], Any]) -> Any:
        """What `run` gives; None where it raised: the proxy fails open."""
        try:
            return run()
        except Exception as error:
            self._failed(stage, error)
            return None


# --- what the guard says --------------------------------------------------------------------------------------


def note_for(found: Scan) -> str:
    """What a model is told about its own loop."""
    if found.trip is LoopGuardTrip.stagnation:
        return (
            f"[demerit loop guard] You have now written the same text {found.count} times: {found.label!r}. Do not "
            "write it again: take another step, or say plainly what keeps you from going on."
        )
    return (
        f"[demerit loop guard] You have now made the same call {found.count} times in a row: {found.label}. Making it "
        "again will not help: use what you have, try something else, or say plainly what keeps you from going on."
    )


def _refusal(found: Scan) -> Reply:
    if found.trip is LoopGuardTrip.stagnation:
        return reply_error(
            400,
            f"demerit's loop guard refused this request: the model wrote the same text {found.count} times "
            f"({found.label!r}), and stagnation_limit is {found.limit}. Tell it something else, raise "
            "stagnation_limit, or set loop_guard_mode to note or off.",
            "stagnation_detected",
        )
    return reply_error(
        400,
        f"demerit's loop guard refused this request: the same call was made {found.count} times in a row "
        f"({found.label}), and the limit is {found.limit}. Tell the model something else, raise repeat_limit or "
        "read_only_limit, or set loop_guard_mode to note or off.",
        "loop_detected",
    )
