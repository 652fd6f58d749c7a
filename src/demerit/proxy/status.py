"""Draft."""

from __future__ import annotations
from typing import Any
import msgspec

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class InFlight(msgspec.Struct, frozen=True):
    model: str
    phase: str
    age_s: float
    streaming: bool


class UpstreamStatus(msgspec.Struct, frozen=True):
    name: str
    url: str
    models: tuple[str, ...]
    in_flight: int
    queued: int
    max_inflight: int | None
    refusals: int
    last_error: str | None


Status = dict[str, Any]


def status(ledger: Any, **named: Any) -> Status:
    return {
        "models": {m: {"defects": d, "turns": ledger.turns().get(m)} for m, d in ledger.snapshot().items()},
        **{k: (list(v) if k == "recent" else v) for k, v in named.items()},
    }


def schema() -> dict[str, Any]:
    return {}


class Metrics:
    def observe(self, record: Any) -> None: ...
    def render(self, status: Status) -> bytes:
        return b""
