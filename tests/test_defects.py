"""The counters, the ledger that adds them up, and the rates that they give."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier, Thread
from typing import TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.defects import (
    COUNTERS,
    OTHER,
    DefectLedger,
    LoopGuardTrip,
    ModelCounts,
    ModelDefectCounts,
    ModelTurnCounts,
    Rate,
    counters_page,
    rates,
)

ROOT = Path(__file__).parents[1]
SINCE = datetime(2026, 3, 2, 12, tzinfo=UTC)

Event: TypeAlias = tuple[Callable[[DefectLedger], None], int]
"""Something that happens to a model, and by how much it must raise `requests`."""


def ledger_with(*calls: Callable[[DefectLedger], None]) -> DefectLedger:
    ledger = DefectLedger(SINCE)
    for call in calls:
        call(ledger)
    return ledger


def counted(counts: ModelDefectCounts | ModelTurnCounts) -> dict[str, int]:
    """What is not 0."""
    return {name: n for name, n in msgspec.to_builtins(counts).items() if n}


# --- the names ----------------------------------------------------------------------------------------------


def test_the_counts_are_written_by_their_names_and_begin_at_0() -> None:
    assert list(msgspec.json.decode(msgspec.json.encode(ModelDefectCounts())).items()) == [
        (name, 0)
        for name in (
            "requests loop_guard_trips loop_guard_loops loop_guard_stagnations repairs_attempted repairs_succeeded "
            "stream_errors truncated_generations empty_responses reasoning_only dialect_residue unvalidatable_schemas "
            "normalization_errors identical_result_repeats repeats_not_evaluated repeats_rescued"
        ).split()
    ]


def test_a_trip_is_written_as_its_name() -> None:
    assert msgspec.json.encode(list(LoopGuardTrip)) == b'["loop","stagnation"]'


def test_every_counter_says_what_it_counts_and_in_sentences() -> None:
    assert list(COUNTERS) == [*ModelDefectCounts.__struct_fields__, *ModelTurnCounts.__struct_fields__]
    for counter in COUNTERS.values():
        assert counter.counts.endswith(".")
        assert counter.excludes.endswith(".") or counter.name in ("tool_turns",)
        assert set(counter.denominators) <= set(COUNTERS)


# --- recording ----------------------------------------------------------------------------------------------


def test_requests_and_a_refusal_of_two_models() -> None:
    ledger = ledger_with(
        lambda to: to.record_request("a"),
        lambda to: to.record_request("a"),
        lambda to: to.record_request("b"),
        lambda to: to.record_loop_guard_trip("a", LoopGuardTrip.loop),
    )
    found = ledger.snapshot()
    assert counted(found["a"]) == {"requests": 3, "loop_guard_trips": 1, "loop_guard_loops": 1}
    assert counted(found["b"]) == {"requests": 1}


def test_a_noted_request_counts_once() -> None:
    ledger = ledger_with(
        lambda to: to.record_request("a"),
        lambda to: to.record_loop_guard_trip("a", LoopGuardTrip.stagnation, counts_request=False),
    )
    assert counted(ledger.snapshot()["a"]) == {"requests": 1, "loop_guard_trips": 1, "loop_guard_stagnations": 1}


def test_stream_errors_and_truncations_leave_requests_alone() -> None:
    ledger = ledger_with(
        lambda to: to.record_request("a"),
        lambda to: to.record_stream_error("a"),
        lambda to: to.record_truncated_generation("a"),
    )
    assert counted(ledger.snapshot()["a"]) == {"requests": 1, "stream_errors": 1, "truncated_generations": 1}


def test_reasoning_only_is_counted_inside_empty() -> None:
    ledger = ledger_with(
        lambda to: to.record_empty_response("a", reasoning_only=True),
        lambda to: to.record_empty_response("a", reasoning_only=False),
    )
    assert counted(ledger.snapshot()["a"]) == {"empty_responses": 2, "reasoning_only": 1}


def test_repairs() -> None:
    ledger = ledger_with(lambda to: to.record_repair("a", False), lambda to: to.record_repair("a", True))
    assert counted(ledger.snapshot()["a"]) == {"repairs_attempted": 2, "repairs_succeeded": 1}


def test_dialect_residue() -> None:
    ledger = ledger_with(lambda to: to.record_dialect_residue("a"))
    assert counted(ledger.snapshot()["a"]) == {"dialect_residue": 1}


def test_unvalidatable_schemas() -> None:
    ledger = ledger_with(lambda to: to.record_unvalidatable_schema("a"))
    assert counted(ledger.snapshot()["a"]) == {"unvalidatable_schemas": 1}


def test_normalization_errors() -> None:
    ledger = ledger_with(lambda to: to.record_normalization_error("a"))
    assert counted(ledger.snapshot()["a"]) == {"normalization_errors": 1}


def test_validated_turns_and_coercions() -> None:
    ledger = ledger_with(lambda to: to.record_turn("a", validated_turns=2, coercions=1))
    assert counted(ledger.turns()["a"]) == {"validated_turns": 2, "coercions": 1}
    assert counted(ledger.snapshot()["a"]) == {}


def test_repeats() -> None:
    ledger = ledger_with(
        lambda to: to.record_repeats("a", identical=True, not_evaluated=False, rescued=False),
        lambda to: to.record_repeats("a", identical=False, not_evaluated=True, rescued=False),
        lambda to: to.record_repeats("a", identical=False, not_evaluated=False, rescued=True),
        lambda to: to.record_repeats("a", identical=True, not_evaluated=False, rescued=True),
    )
    assert counted(ledger.snapshot()["a"]) == {
        "identical_result_repeats": 2,
        "repeats_not_evaluated": 1,
        "repeats_rescued": 2,
    }


def test_a_repeat_is_not_both_equal_and_not_compared() -> None:
    with pytest.raises(ValueError, match="cannot be both"):
        DefectLedger(SINCE).record_repeats("a", identical=True, not_evaluated=True, rescued=False)


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param({"turns": 1}, id="no such counter"),
        pytest.param({"requests": 1}, id="one of the sixteen"),
        pytest.param({"scanned": -1}, id="a count that decreases"),
    ],
)
def test_what_is_no_turn_count_is_refused_whole(turn: dict[str, int]) -> None:
    ledger = DefectLedger(SINCE)
    with pytest.raises(ValueError, match="record_turn adds 0 or more"):
        ledger.record_turn("a", completed_turns=1, **turn)
    assert ledger.models() == {}


# --- the ledger -----------------------------------------------------------------------------------------------


def test_a_ledger_knows_since_when_it_counts() -> None:
    assert DefectLedger(SINCE).since == SINCE
    assert DefectLedger().since.utcoffset() is not None
    assert DefectLedger().models() == {}


def test_what_was_read_does_not_change_afterwards() -> None:
    ledger = ledger_with(lambda to: to.record_request("a"))
    before = ledger.snapshot()
    ledger.record_request("a")
    assert (before["a"].requests, ledger.snapshot()["a"].requests) == (1, 2)


@pytest.mark.parametrize(
    ("model", "key"),
    [
        pytest.param("x" * 256, "x" * 256, id="256 characters stay"),
        pytest.param("x" * 257, "x" * 256, id="the 257th is cut off"),
        pytest.param("é" * 300, "é" * 256, id="characters are counted and not bytes"),
        pytest.param("a\ud800b", "a?b", id="half a surrogate pair cannot be written"),
        pytest.param("", "", id="no name is a name"),
    ],
)
def test_a_model_is_what_the_request_calls_it(model: str, key: str) -> None:
    ledger = ledger_with(lambda to: to.record_request(model), lambda to: to.record_turn(model, scanned=1))
    assert ledger.models() == {key: ModelCounts(ModelDefectCounts(requests=1), ModelTurnCounts(scanned=1))}
    assert msgspec.json.decode(msgspec.json.encode(ledger.snapshot()))[key]["requests"] == 1


def test_models_after_the_first_thousand_share_one_row_and_lose_nothing() -> None:
    ledger = ledger_with(lambda to: to.record_request(OTHER))  # a client may call a model so, and takes no place by it
    for number in range(1003):
        ledger.record_request(f"m{number}")
    ledger.record_request("m0")
    found = ledger.snapshot()
    assert len(found) == 1001
    assert (found["m0"].requests, found["m999"].requests, found[OTHER].requests) == (2, 1, 1 + 3)


def test_two_threads_lose_nothing() -> None:
    ledger = DefectLedger(SINCE)
    begin = Barrier(2)

    def work() -> None:
        begin.wait()
        for _ in range(20_000):
            ledger.record_request("a")
            ledger.record_turn("a", scanned=1, cycles=2)

    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.models() == {
        "a": ModelCounts(ModelDefectCounts(requests=40_000), ModelTurnCounts(scanned=40_000, cycles=80_000))
    }


# --- what always holds ------------------------------------------------------------------------------------------

MODELS = st.sampled_from("ab")
BOOLS = st.booleans()
TRIPS = st.sampled_from(LoopGuardTrip)


def event(
    record: Callable[..., None], raises_requests_by: int, *arguments: st.SearchStrategy[object]
) -> st.SearchStrategy[Event]:
    return st.tuples(MODELS, *arguments).map(lambda given: (lambda to: record(to, *given), raises_requests_by))


def noted(ledger: DefectLedger, model: str, trip: LoopGuardTrip) -> None:
    ledger.record_request(model)
    ledger.record_loop_guard_trip(model, trip, counts_request=False)


def repeats(ledger: DefectLedger, model: str, what: str, rescued: bool) -> None:
    ledger.record_repeats(model, what == "identical", what == "not evaluated", rescued)


EVENTS: st.SearchStrategy[Event] = st.one_of(
    event(DefectLedger.record_request, 1),
    event(DefectLedger.record_loop_guard_trip, 1, TRIPS),
    event(noted, 1, TRIPS),
    event(DefectLedger.record_repair, 0, BOOLS),
    event(DefectLedger.record_stream_error, 0),
    event(DefectLedger.record_truncated_generation, 0),
    event(DefectLedger.record_empty_response, 0, BOOLS),
    event(DefectLedger.record_dialect_residue, 0),
    event(DefectLedger.record_unvalidatable_schema, 0),
    event(DefectLedger.record_normalization_error, 0),
    event(repeats, 0, st.sampled_from(["identical", "not evaluated", "changed"]), BOOLS),
    event(lambda to, model, name, n: to.record_turn(model, **{name: n}), 0,
          st.sampled_from(ModelTurnCounts.__struct_fields__), st.integers(0, 3)),
)  # fmt: skip


@given(st.lists(EVENTS, max_size=40))
def test_whatever_happens_the_identities_hold_and_no_count_decreases(events: list[Event]) -> None:
    ledger = DefectLedger(SINCE)
    seen: dict[str, ModelCounts] = {}
    for happen, more_requests in events:
        happen(ledger)
        now = ledger.models()
        assert sum(counts.defects.requests for counts in now.values()) == more_requests + sum(
            counts.defects.requests for counts in seen.values()
        )
        for model, (defects, turns) in now.items():
            assert defects.loop_guard_loops + defects.loop_guard_stagnations == defects.loop_guard_trips
            assert defects.loop_guard_trips <= defects.requests
            assert defects.repairs_succeeded <= defects.repairs_attempted
            assert defects.reasoning_only <= defects.empty_responses
            before = seen.get(model, ModelCounts(ModelDefectCounts(), ModelTurnCounts()))
            for old, new in zip(before, (defects, turns), strict=True):
                assert all(getattr(new, name) >= getattr(old, name) for name in new.__struct_fields__)
        seen = now


@given(st.lists(EVENTS, max_size=20), st.randoms(use_true_random=False))
def test_the_order_in_which_things_happen_does_not_matter(events: list[Event], order: object) -> None:
    shuffled = list(events)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ledger_with(*(happen for happen, _ in events)).models() == (
        ledger_with(*(happen for happen, _ in shuffled)).models()
    )


# --- rates --------------------------------------------------------------------------------------------------


def rate(name: str, counts: ModelDefectCounts, turns: ModelTurnCounts) -> Rate:
    [found] = [rate for rate in rates(counts, turns) if rate.name == name]
    return found


def test_every_counter_has_its_denominators_in_the_order_of_the_counters() -> None:
    assert [rate.name for rate in rates(ModelDefectCounts(), ModelTurnCounts())] == (
        "loop_guard_trips/requests loop_guard_trips/scanned loop_guard_loops/requests loop_guard_loops/scanned "
        "loop_guard_stagnations/requests loop_guard_stagnations/scanned "
        "repairs_attempted/requests repairs_attempted/validated_turns "
        "repairs_succeeded/requests repairs_succeeded/repairs_attempted "
        "stream_errors/requests stream_errors/streamed_turns "
        "truncated_generations/requests truncated_generations/completed_turns "
        "empty_responses/requests empty_responses/completed_turns "
        "reasoning_only/requests reasoning_only/empty_responses "
        "dialect_residue/requests dialect_residue/completed_turns "
        "unvalidatable_schemas/requests unvalidatable_schemas/tool_turns "
        "normalization_errors/requests normalization_errors/completed_turns "
        "identical_result_repeats/requests identical_result_repeats/repeats_seen "
        "repeats_not_evaluated/requests repeats_not_evaluated/repeats_seen "
        "repeats_rescued/requests repeats_rescued/scanned "
        "repeats_seen/scanned client_aborts/requests upstream_refusals/requests first_byte_timeouts/requests "
        "coercions/validated_turns cycles/scanned agent_loops/agent_scanned agent_stagnations/agent_scanned "
        "broken_calls/validated_turns"
    ).split()


def test_a_rate_has_the_interval_of_its_share() -> None:
    """15 of 148 and 81 of 263: R. G. Newcombe, 1998, table I, method 3."""
    counts = ModelDefectCounts(requests=263, stream_errors=15, truncated_generations=81)
    turns = ModelTurnCounts(streamed_turns=148)
    streamed = rate("stream_errors/streamed_turns", counts, turns)
    assert (streamed.numerator, streamed.denominator, streamed.value) == (15, 148, 15 / 148)
    assert (streamed.low, streamed.high) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    all_of_them = rate("truncated_generations/requests", counts, turns)
    assert (all_of_them.low, all_of_them.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)


@pytest.mark.parametrize(
    ("name", "counts", "turns", "numerator", "denominator"),
    [
        pytest.param("stream_errors/streamed_turns", {}, {}, 0, 0, id="over nothing"),
        pytest.param(
            "stream_errors/streamed_turns", {"stream_errors": 2}, {"streamed_turns": 1}, 2, 1, id="of a cut window"
        ),
        pytest.param(
            "dialect_residue/completed_turns", {}, {"completed_turns": 9}, 0, 9, id="of what nothing looks for yet"
        ),
        pytest.param("repeats_rescued/requests", {"requests": 9}, {}, 0, 9, id="of the guard's, with the guard off"),
        pytest.param("broken_calls/validated_turns", {}, {"validated_turns": 4}, 0, 4, id="of broken calls, unfed"),
    ],
)
def test_a_rate_that_was_not_measured_is_none(
    name: str, counts: dict[str, int], turns: dict[str, int], numerator: int, denominator: int
) -> None:
    found = rate(name, ModelDefectCounts(**counts), ModelTurnCounts(**turns))
    assert found == Rate(name, numerator, denominator, None, None, None)


@pytest.mark.parametrize(
    ("name", "counts", "turns", "value"),
    [
        pytest.param(
            "loop_guard_trips/scanned", {"requests": 9}, {"scanned": 8}, 0.0, id="none of what the guard read"
        ),
        pytest.param("stream_errors/requests", {"requests": 9}, {}, 0.0, id="none, which needs no guard"),
        pytest.param(
            "dialect_residue/completed_turns",
            {"dialect_residue": 1},
            {"completed_turns": 4},
            0.25,
            id="somebody looked",
        ),
        pytest.param(
            "broken_calls/validated_turns",
            {"repairs_attempted": 1},
            {"coercions": 2, "validated_turns": 4},
            0.75,
            id="repairs and coercions together",
        ),
    ],
)
def test_a_rate_that_was_measured(name: str, counts: dict[str, int], turns: dict[str, int], value: float) -> None:
    assert rate(name, ModelDefectCounts(**counts), ModelTurnCounts(**turns)).value == value


# --- the page -----------------------------------------------------------------------------------------------


def test_the_page_describes_every_counter_as_it_is() -> None:
    page = ROOT / "docs" / "counters.md"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        page.write_text(counters_page(), encoding="utf-8")
    is_current = page.read_text(encoding="utf-8") == counters_page()
    assert is_current, "a counter changed: run UPDATE_SNAPSHOTS=1 make test ARGS='-k the_page_describes_every_counter'"


@pytest.mark.parametrize("test", sorted({counter.test for counter in COUNTERS.values()}))
def test_every_test_that_the_page_names_is_there(test: str) -> None:
    file, _, function = test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {function}\(", text, re.MULTILINE), f"{file} has no {function}"
