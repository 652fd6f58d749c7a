"""Draft."""
from __future__ import annotations
import threading
from datetime import UTC, datetime
from enum import StrEnum
import msgspec


class LoopGuardTrip(StrEnum):
    loop = "loop"
    stagnation = "stagnation"


class ModelDefectCounts(msgspec.Struct, frozen=True):
    requests: int = 0
    loop_guard_trips: int = 0
    loop_guard_loops: int = 0
    loop_guard_stagnations: int = 0
    repairs_attempted: int = 0
    repairs_succeeded: int = 0
    stream_errors: int = 0
    truncated_generations: int = 0
    empty_responses: int = 0
    reasoning_only: int = 0
    dialect_residue: int = 0
    unvalidatable_schemas: int = 0
    normalization_errors: int = 0
    identical_result_repeats: int = 0
    repeats_not_evaluated: int = 0
    repeats_rescued: int = 0


class ModelTurnCounts(msgspec.Struct, frozen=True):
    scanned: int = 0
    streamed_turns: int = 0
    completed_turns: int = 0
    tool_turns: int = 0
    validated_turns: int = 0
    repeats_seen: int = 0
    client_aborts: int = 0
    unreadable_frames: int = 0
    upstream_refusals: int = 0
    first_byte_timeouts: int = 0
    coercions: int = 0
    cycles: int = 0
    agent_scanned: int = 0
    agent_loops: int = 0
    agent_stagnations: int = 0


class DefectLedger:
    def __init__(self, since: datetime | None = None) -> None:
        self.since = since or datetime.now(UTC)
        self._lock = threading.Lock()
        self._counts: dict[str, dict[str, int]] = {}

    def _add(self, model: str, **what: int) -> None:
        with self._lock:
            row = self._counts.setdefault(model[:256], {})
            for name, n in what.items():
                row[name] = row.get(name, 0) + int(n)

    def record_request(self, model: str) -> None:
        self._add(model, requests=1)

    def record_loop_guard_trip(self, model: str, trip: LoopGuardTrip, counts_request: bool = True) -> None:
        self._add(model, loop_guard_trips=1, **{f"loop_guard_{trip}s": 1}, requests=int(counts_request))

    def record_stream_error(self, model: str) -> None:
        self._add(model, stream_errors=1)

    def record_truncated_generation(self, model: str) -> None:
        self._add(model, truncated_generations=1)

    def record_empty_response(self, model: str, reasoning_only: bool) -> None:
        self._add(model, empty_responses=1, reasoning_only=int(reasoning_only))

    def record_repeats(self, model: str, identical: bool, not_evaluated: bool, rescued: bool) -> None:
        self._add(model, identical_result_repeats=identical, repeats_not_evaluated=not_evaluated, repeats_rescued=rescued)

    def record_turn(self, model: str, **turn_counts: int) -> None:
        self._add(model, **turn_counts)

    def snapshot(self) -> dict[str, ModelDefectCounts]:
        with self._lock:
            return {m: ModelDefectCounts(**{k: v for k, v in r.items() if k in ModelDefectCounts.__struct_fields__}) for m, r in self._counts.items()}

    def turns(self) -> dict[str, ModelTurnCounts]:
        with self._lock:
            return {m: ModelTurnCounts(**{k: v for k, v in r.items() if k in ModelTurnCounts.__struct_fields__}) for m, r in self._counts.items()}
