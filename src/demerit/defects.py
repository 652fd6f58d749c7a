"""What went wrong, counted for each model: the counters, the ledger that adds them up, and the rates that they give.

    ledger = DefectLedger()
    ledger.record_request("qwen3-8b")
    ledger.record_stream_error("qwen3-8b")
    ledger.snapshot()["qwen3-8b"].stream_errors   # 1

Who writes says what happened and never interprets it; who reads never guesses. What a counter counts, what it leaves
out and what it may be divided by is said once, where its field is declared: docs/counters.md, the JSON Schema of the
status, the help of the metrics and the dashboard's tips are made from there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, NamedTuple, get_type_hints

import msgspec

from demerit.rates import Share, wilson

__all__ = [
    "COUNTERS",
    "OTHER",
    "Counter",
    "DefectLedger",
    "LoopGuardTrip",
    "ModelCounts",
    "ModelDefectCounts",
    "ModelTurnCounts",
    "Rate",
    "counters_page",
    "is_counted",
    "rates",
]

OTHER = "(other)"
"""The model under which all are counted that come after the first 1,000."""

_MOST_MODELS = 1000
_MODEL_CHARS = 256


class LoopGuardTrip(StrEnum):
    """Which of the guard's two detectors tripped."""

    loop = "loop"
    stagnation = "stagnation"


class Counter(NamedTuple):
    """What one counter says. It stands in the annotation of its field, without its name, which `COUNTERS` adds."""

    counts: str
    excludes: str = ""
    over: str | None = None
    """The counter that it is a part of; None where it is a part of none."""
    test: str = ""
    """The pytest id of a test that fails where it counts anything else; empty: the one of its name at the proxy."""
    is_fed: bool = True
    """False where the ledger takes it and this release's proxy does not look for it yet: a 0 there says nothing."""
    name: str = ""
    denominators: tuple[str, ...] = ()
    """What its rates are taken over: it never counts more than any of these."""

    @property
    def says(self) -> str:
        """All of it in one paragraph."""
        coming = "" if self.is_fed else " Not measured yet: the proxy will feed it in a coming release."
        return f"{self.counts}{' Not counted: ' if self.excludes else ''}{self.excludes}{coming}"


_AGENT_TEST = "tests/test_loops.py::test_agent_counts"
_REPAIR_TEST = "tests/test_defects.py::test_repairs"
_TURNS_TEST = "tests/test_defects.py::test_validated_turns_and_coercions"


class ModelDefectCounts(msgspec.Struct, frozen=True):
    """The sixteen counts of one model. A turn is one request and its answer, and counts once in a counter at most."""

    requests: Annotated[
        int,
        Counter(
            "Requests for this model that were forwarded, or would have been but for the guard.",
            "bodies that are no JSON, models that no upstream has, embedding models asked to chat, requests that found "
            "no place in the queue. A second try at the upstream is the same request.",
        ),
    ] = 0
    loop_guard_trips: Annotated[
        int,
        Counter(
            "Requests that the loop guard acted on: it forwarded them with a note, or refused them. The sum of "
            "loop_guard_loops and loop_guard_stagnations, so that adding all three counts each trip twice.",
            "a noted request that a later check turned away: that is a decision in the trips log, which may hold more "
            "than this counter for the same traffic.",
            over="scanned",
        ),
    ] = 0
    loop_guard_loops: Annotated[
        int,
        Counter(
            "Of these trips, those for calls: the same batch back to back with the same answer, or a batch that is not "
            "read-only carried past the read-only limit by changing answers. The two are not told apart, as the remedy "
            "is the same.",
            "text that repeats.",
            over="scanned",
        ),
    ] = 0
    loop_guard_stagnations: Annotated[
        int,
        Counter(
            "Of these trips, those for the same text repeated beyond the limit.",
            "calls that repeat.",
            over="scanned",
        ),
    ] = 0
    repairs_attempted: Annotated[
        int,
        Counter(
            "Turns with a tool call that did not conform to its schema and was asked for again, with tool_choice "
            '"required" or under a grammar of our own.',
            "calls that a coercion alone put right, and calls cut off by the limit of tokens.",
            over="validated_turns",
            test=_REPAIR_TEST,
            is_fed=False,
        ),
    ] = 0
    repairs_succeeded: Annotated[
        int,
        Counter(
            "Of these, the turns whose second answer had a call that conformed as it came.",
            "one that conformed only after a coercion.",
            over="repairs_attempted",
            test=_REPAIR_TEST,
            is_fed=False,
        ),
    ] = 0
    stream_errors: Annotated[
        int,
        Counter(
            "Streamed turns that the upstream failed in: an error event, a broken byte stream, an unreadable frame, "
            "too long a silence, or an end with neither a finish reason nor the end sentinel. The only sign of a model "
            "whose output makes its server give up.",
            "clients that hung up, which is a person's action; what failed before an answer began; whole answers.",
            over="streamed_turns",
        ),
    ] = 0
    truncated_generations: Annotated[
        int,
        Counter(
            "Turns cut off at the limit of tokens: finish reason length, or max_tokens in other wire formats. A long "
            "answer may be long; a rising rate is how runaway generation or too small a budget shows first.",
            "answers that broke off in any other way, and turns whose client had left.",
            over="completed_turns",
        ),
    ] = 0
    empty_responses: Annotated[
        int,
        Counter(
            "Turns that ended and brought nothing that a client can render: no call, image, audio or refusal, and no "
            "text but white space.",
            "turns whose client had left, and turns in stream_errors.",
            over="completed_turns",
        ),
    ] = 0
    reasoning_only: Annotated[
        int,
        Counter(
            "Of the empty responses, those that brought reasoning. It says why they were empty, and is counted inside "
            "empty_responses: adding the two counts a turn twice.",
            "reasoning beside anything that can be rendered.",
            over="empty_responses",
        ),
    ] = 0
    dialect_residue: Annotated[
        int,
        Counter(
            "Turns with markup of tool calls or channels in the text that the client sees: the alarm for a dialect "
            "that drifted.",
            "markup in fenced or inline code, and what a normalization error surfaced.",
            over="completed_turns",
            test="tests/test_defects.py::test_dialect_residue",
            is_fed=False,
        ),
    ] = 0
    unvalidatable_schemas: Annotated[
        int,
        Counter(
            "Turns with a call that no verdict was possible on, as its schema is invalid or refers to a remote one; "
            "with repair off too. Where it is high, repairs_attempted speaks of a small part of the traffic only.",
            "turns in which another call did not conform.",
            over="tool_turns",
            test="tests/test_defects.py::test_unvalidatable_schemas",
            is_fed=False,
        ),
    ] = 0
    normalization_errors: Annotated[
        int,
        Counter(
            "Turns with a call in a dialect that began and could not be read, so that its raw body came out as text.",
            "calls that could be read and do not conform to their schema.",
            over="completed_turns",
            test="tests/test_defects.py::test_normalization_errors",
            is_fed=False,
        ),
    ] = 0
    identical_result_repeats: Annotated[
        int,
        Counter(
            "Requests whose newest batch of calls repeats an earlier one and got an answer equal to that of the "
            "occurrence right before. With or without a trip: it tells of the conversation, and nothing acts on it.",
            "an answer that changed and changed back (A, B, A), and repeats further back, which were counted when they "
            "were new.",
            over="repeats_seen",
        ),
    ] = 0
    repeats_not_evaluated: Annotated[
        int,
        Counter(
            "Requests whose newest batch of calls repeats an earlier one, and whose answers could not be compared: an "
            "id is missing or there twice, or a call went unanswered. What makes a 0 in identical_result_repeats "
            "readable.",
            "repeats with both answers known, equal or not.",
            over="repeats_seen",
        ),
    ] = 0
    repeats_rescued: Annotated[
        int,
        Counter(
            "Requests that the guard would have acted on for repeating, and did not because the answer had moved. Far "
            "more of these than of identical_result_repeats says that answers carry a clock rather than progress.",
            "repeats within the limit.",
            over="scanned",
        ),
    ] = 0


class ModelTurnCounts(msgspec.Struct, frozen=True):
    """Of one model, what the sixteen are parts of, and what they leave out; never mixed into them."""

    scanned: Annotated[
        int,
        Counter(
            "Requests that the guard read, counted when they are forwarded or refused.",
            "everything while the guard is off, and bodies without messages.",
        ),
    ] = 0
    streamed_turns: Annotated[
        int,
        Counter(
            "Requests that were forwarded and answered with an event stream.",
            "whole answers, and answers with another status than 2xx.",
        ),
    ] = 0
    completed_turns: Annotated[
        int,
        Counter(
            "Turns whose answer came to an end, a failure included, with the client still there.",
            "turns whose client had left, turns without an answer, and whole answers that are no JSON.",
        ),
    ] = 0
    tool_turns: Annotated[int, Counter("Of the completed turns, those with a tool call.")] = 0
    validated_turns: Annotated[
        int,
        Counter(
            "Of the turns with a tool call, those in which at least one was judged: valid, or invalid.",
            "turns whose calls all have schemas that cannot be evaluated.",
            test=_TURNS_TEST,
            is_fed=False,
        ),
    ] = 0
    repeats_seen: Annotated[
        int,
        Counter(
            "Scanned requests whose newest batch of calls has an earlier occurrence in the conversation.",
            "a newest batch that an earlier request has reported.",
            over="scanned",
        ),
    ] = 0
    client_aborts: Annotated[
        int,
        Counter(
            "Forwarded requests whose client hung up before the end of the answer. None of the sixteen counts them.",
            "a client that had read the end.",
            over="requests",
        ),
    ] = 0
    unreadable_frames: Annotated[
        int,
        Counter(
            "Frames, not turns: pieces of a stream that are no JSON, and whole answers that are none.",
            "comments and the end sentinel.",
        ),
    ] = 0
    upstream_refusals: Annotated[
        int,
        Counter(
            "Forwarded requests without an answer: the upstream could not be reached, answered with another status "
            "than 2xx or with an error in place of a whole answer, or broke off before a whole answer was there.",
            "a first byte that did not come in time, and what failed within a stream.",
            over="requests",
        ),
    ] = 0
    first_byte_timeouts: Annotated[
        int,
        Counter(
            "Forwarded requests whose answer did not begin in time.",
            "a silence within an answer, which is one of the stream_errors.",
            over="requests",
        ),
    ] = 0
    coercions: Annotated[
        int,
        Counter(
            "Turns with a call that was put right beyond doubt, such as a number sent as text, for the client.",
            "calls that conformed as they came.",
            over="validated_turns",
            test=_TURNS_TEST,
            is_fed=False,
        ),
    ] = 0
    cycles: Annotated[
        int,
        Counter(
            "Scanned requests whose newest batch goes round in a cycle of two to four batches, three rounds with the "
            "same answers. Nothing acts on it.",
            "one batch repeated, which is a loop.",
            over="scanned",
        ),
    ] = 0
    agent_scanned: Annotated[
        int,
        Counter(
            "Turns that LoopGuard checked in an agent's own process.",
            "requests at the proxy, which are in scanned.",
            test=_AGENT_TEST,
        ),
    ] = 0
    agent_loops: Annotated[
        int,
        Counter(
            "Of these, the turns that it called a loop.",
            "the proxy's trips.",
            over="agent_scanned",
            test=_AGENT_TEST,
        ),
    ] = 0
    agent_stagnations: Annotated[
        int,
        Counter(
            "Of these, the turns that it called a stagnation.",
            "the proxy's trips.",
            over="agent_scanned",
            test=_AGENT_TEST,
        ),
    ] = 0


DEFECTS = ModelDefectCounts.__struct_fields__
TURNS = ModelTurnCounts.__struct_fields__


def _declared() -> Iterator[Counter]:
    for counts in (ModelDefectCounts, ModelTurnCounts):
        hints = get_type_hints(counts, include_extras=True)
        for name in counts.__struct_fields__:
            [counter] = hints[name].__metadata__
            # The seed of the sixteen divides by requests; the turn counts are divided by what they are parts of alone.
            seeds = ("requests",) if counts is ModelDefectCounts and name != "requests" else ()
            own = (counter.over,) if counter.over else ()
            yield counter._replace(
                name=name,
                test=counter.test or f"tests/proxy/test_counters.py::test_{name}",
                denominators=seeds + own,
            )


COUNTERS: Mapping[str, Counter] = {counter.name: counter for counter in _declared()}
"""Every counter by name: the sixteen, and then the turn counts."""


# --- the ledger -------------------------------------------------------------------------------------------


class ModelCounts(NamedTuple):
    """All that is counted for one model."""

    defects: ModelDefectCounts
    turns: ModelTurnCounts


class DefectLedger:
    """Adds up what happened, for each model, in memory: safe to use from several threads, and never cleared.

    A model is what a request calls it, at most 256 characters of that. The first 1,000 have counts of their own, so
    that clients that invent names cannot fill the memory; the others share those of `(other)`.
    """

    def __init__(self, since: datetime | None = None) -> None:
        """since: what the counts began at, with a zone; the moment of this call when None."""
        # The one look at a clock in here, and only where the caller has not looked.
        self.since = datetime.now(UTC) if since is None else since  # noqa: TID251
        self._lock = threading.Lock()
        self._counts: dict[str, dict[str, int]] = {}

    def record_request(self, model: str) -> None:
        """A request was forwarded."""
        self._add(model, {"requests": 1})

    def record_loop_guard_trip(self, model: str, trip: LoopGuardTrip, counts_request: bool = True) -> None:
        """The guard acted. counts_request: False where the request that it rides on is recorded by itself."""
        part = "loop_guard_loops" if trip is LoopGuardTrip.loop else "loop_guard_stagnations"
        self._add(model, {"requests": int(counts_request), "loop_guard_trips": 1, part: 1})

    def record_repair(self, model: str, succeeded: bool) -> None:
        """A turn's call was asked for again."""
        self._add(model, {"repairs_attempted": 1, "repairs_succeeded": int(succeeded)})

    def record_stream_error(self, model: str) -> None:
        """The upstream failed in a streamed turn."""
        self._add(model, {"stream_errors": 1})

    def record_truncated_generation(self, model: str) -> None:
        """A turn was cut off at the limit of tokens."""
        self._add(model, {"truncated_generations": 1})

    def record_empty_response(self, model: str, reasoning_only: bool) -> None:
        """A turn brought nothing to render. reasoning_only: it brought reasoning."""
        self._add(model, {"empty_responses": 1, "reasoning_only": int(reasoning_only)})

    def record_dialect_residue(self, model: str) -> None:
        """A turn had markup in the text that the client sees."""
        self._add(model, {"dialect_residue": 1})

    def record_unvalidatable_schema(self, model: str) -> None:
        """A turn had a call that no verdict was possible on."""
        self._add(model, {"unvalidatable_schemas": 1})

    def record_normalization_error(self, model: str) -> None:
        """A turn had a call that could not be read and came out as text."""
        self._add(model, {"normalization_errors": 1})

    def record_repeats(self, model: str, identical: bool, not_evaluated: bool, rescued: bool) -> None:
        """What a scanned request's newest batch repeats. Raises ValueError for answers equal and not compared."""
        if identical and not_evaluated:
            raise ValueError("a repeat is identical or not evaluated, and cannot be both")
        self._add(
            model,
            {
                "identical_result_repeats": int(identical),
                "repeats_not_evaluated": int(not_evaluated),
                "repeats_rescued": int(rescued),
            },
        )

    def record_turn(self, model: str, **turn_counts: int) -> None:
        """Add to the fields of ModelTurnCounts. Raises ValueError for another name or a number below 0."""
        for name, n in turn_counts.items():
            if name not in TURNS or n < 0:
                raise ValueError(f"{name}={n!r}: record_turn adds 0 or more to one of {', '.join(TURNS)}")
        self._add(model, turn_counts)

    def models(self) -> dict[str, ModelCounts]:
        """Everything that was counted, as it stood at one moment."""
        with self._lock:
            counted = {model: dict(row) for model, row in self._counts.items()}
        return {
            model: ModelCounts(
                ModelDefectCounts(*(row.get(name, 0) for name in DEFECTS)),
                ModelTurnCounts(*(row.get(name, 0) for name in TURNS)),
            )
            for model, row in counted.items()
        }

    def snapshot(self) -> dict[str, ModelDefectCounts]:
        """The sixteen counts of every model of which anything was recorded."""
        return {model: counts.defects for model, counts in self.models().items()}

    def turns(self) -> dict[str, ModelTurnCounts]:
        """The turn counts of every model of which anything was recorded."""
        return {model: counts.turns for model, counts in self.models().items()}

    def _add(self, model: str, counts: Mapping[str, int]) -> None:
        with self._lock:
            row = self._counts.get(model)
            if row is None:
                row = self._row(model)
            for name, n in counts.items():
                row[name] = row.get(name, 0) + n

    def _row(self, model: str) -> dict[str, int]:
        # Half a surrogate pair could not be written as JSON.
        key = model[:_MODEL_CHARS].encode(errors="replace").decode()
        if key not in self._counts and len(self._counts) - (OTHER in self._counts) >= _MOST_MODELS:
            key = OTHER
        return self._counts.setdefault(key, {})


# --- rates ------------------------------------------------------------------------------------------------


class Rate(msgspec.Struct, frozen=True):
    """How many of a counter's denominator it counts, with the 95 % interval: Wilson's, each from 0 to 1.

    There is no value and no interval where that was not measured: the denominator is 0; the guard, which would have
    seen it, read no request; nothing feeds the counter in this release; or the numerator is larger, as a window was cut
    through a turn.
    """

    name: str
    """`NUMERATOR/DENOMINATOR`."""
    numerator: int
    denominator: int
    value: float | None
    low: float | None
    high: float | None


class _Ratio(NamedTuple):
    parts: tuple[str, ...]  # counters whose sum is the numerator
    over: str
    name: str


_BROKEN_CALLS = ("repairs_attempted", "coercions")
_RATIOS = (
    *(
        _Ratio((counter.name,), over, f"{counter.name}/{over}")
        for counter in COUNTERS.values()
        for over in counter.denominators
    ),
    _Ratio(_BROKEN_CALLS, "validated_turns", "broken_calls/validated_turns"),
)
_UNKNOWN = Share(None, None, None)


def rates(counts: ModelDefectCounts, turns: ModelTurnCounts) -> list[Rate]:
    """Every counter over each of its denominators, in the order of `COUNTERS`, and then `broken_calls`, which are
    repairs_attempted and coercions together."""
    return list(_rates(counts, turns))


@lru_cache(2 * _MOST_MODELS)  # the status asks for those of all models every second, and few of them change
def _rates(counts: ModelDefectCounts, turns: ModelTurnCounts) -> tuple[Rate, ...]:
    found = []
    for parts, over, name in _RATIOS:
        numerator, of = sum(_read(counts, turns, part) for part in parts), _read(counts, turns, over)
        is_measured = numerator <= of and any(is_counted(part, counts, turns) for part in parts)
        found.append(Rate(name, numerator, of, *(wilson(numerator, of) if is_measured else _UNKNOWN)))
    return tuple(found)


def is_counted(name: str, counts: ModelDefectCounts, turns: ModelTurnCounts) -> bool:
    """Whether this counter says anything of a model. Its 0 says nothing where nobody looked: with the guard off, where
    no agent was checked, or before the release that feeds it."""
    if _read(counts, turns, name) > 0:
        return True
    counter = COUNTERS[name]
    whole = counter
    while whole.over is not None:
        whole = COUNTERS[whole.over]
    where = whole.name if whole.name in ("scanned", "agent_scanned") else "requests"
    return counter.is_fed and _read(counts, turns, where) > 0


def _read(counts: ModelDefectCounts, turns: ModelTurnCounts, name: str) -> int:
    n: int = getattr(counts if name in DEFECTS else turns, name)
    return n


# --- the page ---------------------------------------------------------------------------------------------

_PAGE = """\
# Counters

<!-- Made by demerit.defects.counters_page: change the text there. -->

What `demerit proxy` counts for each model. A *turn* is one request and its answer; it counts once in a counter at most,
streamed or whole. The counts are of one process since its `started_at`, begin at 0 with it, and never decrease. A
request's model is the `model` that it names.

The status, the metrics and the dashboard show them: see [proxy-status.md](proxy-status.md).

## Rates

Each of the sixteen is given over `requests` and over what it is a part of; a turn count over the latter alone. Each
rate has Wilson's interval at 95 %: compare two by theirs. A rate is null where it was not measured: its denominator is
0, the guard was off, or nothing looks for it in this release. `broken_calls/validated_turns` is `repairs_attempted` and
`coercions` together.

## What always holds

- `loop_guard_loops + loop_guard_stagnations == loop_guard_trips <= requests`
- `repairs_succeeded <= repairs_attempted`, and `reasoning_only <= empty_responses`
- A turn in `stream_errors` is never in `empty_responses`.
- That a client hangs up adds to none of the sixteen; it is in `client_aborts`.
"""
_NOT_YET = (
    "- **Not measured yet:** the ledger takes it, which is what the test is about; the proxy will feed it in a coming "
    "release. Until then its 0 says nothing."
)


def counters_page() -> str:
    """docs/counters.md: every counter with what it counts, what it leaves out, its denominators and its test."""
    lines = [_PAGE]
    for heading, names in (("The sixteen", DEFECTS), ("The turn counts", TURNS)):
        lines.append(f"## {heading}\n")
        for counter in (COUNTERS[name] for name in names):
            over = " and over ".join(f"`{name}`" for name in counter.denominators)
            lines += [
                f"### `{counter.name}`\n",
                counter.counts + "\n",
                *([f"- **Not counted:** {counter.excludes}"] if counter.excludes else []),
                f"- **Rates:** {f'over {over}' if over else 'none'}.",
                f"- **Test:** `{counter.test}`",
                *([] if counter.is_fed else [_NOT_YET]),
                "",
            ]
    return "\n".join(lines).rstrip("\n") + "\n"
