"""What a proxy is doing and has counted: as one JSON document, its schema and its types, and as metrics.

status(ledger, uptime_s=12.5, ...)    # Status; msgspec.json.encode makes the document of it
schema(), typescript()                # what describes that document
metrics = Metrics()
metrics.observe(record)               # once a request
metrics.render(status)                # Prometheus' text format
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from demerit.defects import (
    COUNTERS,
    DefectLedger,
    LoopGuardTrip,
    ModelCounts,
    ModelDefectCounts,
    ModelTurnCounts,
    Rate,
    is_counted,
    rates,
)
from demerit.proxy.exchange import Record
from demerit.proxy.options import GuardMode

__all__ = [
    "METRICS_TYPE",
    "RECENT",
    "InFlight",
    "Metrics",
    "ModelStatus",
    "Status",
    "TripsLogStatus",
    "UpstreamStatus",
    "schema",
    "status",
    "typescript",
]

METRICS_TYPE = CONTENT_TYPE_PLAIN_0_0_4
RECENT = 20
"""How many of the requests that ended last are shown."""


class InFlight(msgspec.Struct, frozen=True):
    """One request that is being served."""

    model: Annotated[str, Meta(description="What the request calls it; the path where it is no chat.")]
    phase: Annotated[
        Literal["queued", "waiting", "answering"],
        Meta(description="It waits for a place at the upstream, for the first byte, or is being answered."),
    ]
    age_s: Annotated[float, Meta(description="Seconds since it came.")]
    streaming: Annotated[bool, Meta(description="Whether the client asked for a stream.")]


class UpstreamStatus(msgspec.Struct, frozen=True):
    """One model server."""

    name: Annotated[str, Meta(description="As the settings call it.")]
    url: Annotated[str, Meta(description="Its base, without any secret.")]
    models: Annotated[tuple[str, ...], Meta(description="Globs of the models that go to it.")]
    in_flight: Annotated[int, Meta(description="Requests that it is serving.")]
    queued: Annotated[int, Meta(description="Requests that wait for a place at it.")]
    max_inflight: Annotated[int | None, Meta(description="Requests that it is given at a time; null: no limit.")]
    refusals: Annotated[int, Meta(description="How often it gave no answer, or no 2xx, to any request at all.")]
    last_error: Annotated[str | None, Meta(description="What it did then, last; null: it never did.")]


class ModelStatus(msgspec.Struct, frozen=True):
    """What was counted for one model."""

    defects: Annotated[ModelDefectCounts, Meta(description="The sixteen counts.")]
    turns: Annotated[ModelTurnCounts, Meta(description="What the sixteen are parts of, and what they leave out.")]
    rates: Annotated[
        tuple[Rate, ...], Meta(description="Every counter over each of its denominators, in the order of the counters.")
    ]
    dialect: Annotated[str | None, Meta(description="The dialect in which it writes calls; null: none was seen.")] = (
        None
    )
    residue_samples: Annotated[
        tuple[str, ...], Meta(description="Some of the markup that dialect_residue counted.")
    ] = ()


class TripsLogStatus(msgspec.Struct, frozen=True):
    """The log that outlives the process."""

    lost: Annotated[int, Meta(description="Entries that could not be kept.")]
    pending: Annotated[int, Meta(description="Entries that are not written yet.")]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a demerit proxy is doing and has counted. A key that is not described here may come at any time."""

    schema: Annotated[
        Literal["demerit.proxy-status/1"], Meta(description="Name and number of this format: demerit.proxy-status/1.")
    ] = "demerit.proxy-status/1"
    started_at: Annotated[datetime, Meta(tz=True, description="Since when it counts.")]
    uptime_s: Annotated[float, Meta(description="Seconds since it began.")]
    version: Annotated[str, Meta(description="Version of demerit.")]
    guard_mode: Annotated[GuardMode, Meta(description="What the loop guard does where it acts.")]
    in_flight: Annotated[tuple[InFlight, ...], Meta(description="What is being served, the oldest first.")]
    recent: Annotated[
        tuple[Record, ...], Meta(description=f"The requests that ended last, at most {RECENT}, the newest last.")
    ]
    upstreams: Annotated[tuple[UpstreamStatus, ...], Meta(description="The model servers, in the settings' order.")]
    models: Annotated[
        dict[str, ModelStatus],
        Meta(description="Every model of which anything was counted, by what requests call it; `(other)` is the rest."),
    ]
    uncounted_paths: Annotated[
        dict[str, int],
        Meta(description="Requests in wire formats that pass through and are in no counter, by their path."),
    ]
    stage_failures: Annotated[
        dict[str, int],
        Meta(description="How often a step of the proxy's own failed and was passed over, by its name."),
    ]
    trips_log: Annotated[TripsLogStatus | None, Meta(description="The trips log; null: none is kept.")]


def status(
    ledger: DefectLedger,
    *,
    uptime_s: float,
    version: str,
    guard_mode: GuardMode,
    in_flight: Iterable[InFlight] = (),
    recent: Iterable[Record] = (),
    upstreams: Iterable[UpstreamStatus] = (),
    uncounted_paths: Mapping[str, int] | None = None,
    stage_failures: Mapping[str, int] | None = None,
    trips_log: tuple[int, int] | None = None,
    dialects: Mapping[str, str] | None = None,
    residue_samples: Mapping[str, Iterable[str]] | None = None,
) -> Status:
    """The status at one moment.

    recent: oldest first. trips_log: entries lost and entries pending; None where no log is kept.
    dialects, residue_samples: by model.
    """
    dialects, residue_samples = dialects or {}, residue_samples or {}
    return Status(
        started_at=ledger.since,
        uptime_s=uptime_s,
        version=version,
        guard_mode=guard_mode,
        in_flight=tuple(sorted(in_flight, key=lambda turn: -turn.age_s)),
        recent=tuple(recent)[-RECENT:],
        upstreams=tuple(upstreams),
        models={
            model: ModelStatus(
                *counts, tuple(rates(*counts)), dialects.get(model), tuple(residue_samples.get(model, ()))
            )
            for model, counts in ledger.models().items()
        },
        uncounted_paths=dict(uncounted_paths or {}),
        stage_failures=dict(stage_failures or {}),
        trips_log=None if trips_log is None else TripsLogStatus(*trips_log),
    )


# --- what describes it ----------------------------------------------------------------------------------------

_SAYS: dict[str, dict[str, str]] = {
    **{
        counts.__name__: {name: COUNTERS[name].says for name in counts.__struct_fields__}
        for counts in (ModelDefectCounts, ModelTurnCounts)
    },
    "Rate": {
        "name": "NUMERATOR/DENOMINATOR, by the names of the counters.",
        "numerator": "What the counter counts.",
        "denominator": "What that is a part of.",
        "value": "The one over the other, from 0 to 1; null: not measured.",
        "low": "Lower end of its 95 % interval (Wilson's); null: not measured.",
        "high": "Upper end of its 95 % interval; null: not measured.",
    },
    "Record": {
        "at": "When it came.",
        "model": "What the request calls it.",
        "upstream": "Who was asked; null: the guard refused it.",
        "streaming": "Whether the client asked for a stream.",
        "status": "The HTTP status that the client got; 0: it left before.",
        "ended": "How it ended.",
        "trip": "Which detector of the loop guard acted on it; null: none.",
        "first_byte_s": "Seconds until the first byte of its answer; null: none came.",
        "duration_s": "Seconds that it took.",
    },
}
"""What the fields of others' structs say, by the names of both."""
_NAMED = {"Record": "RecentRequest"}  # TypeScript has a Record of its own


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a status document. Every key is always there."""
    _, structs = msgspec.json.schema_components([Status], ref_template="#/$defs/{name}")
    for name, struct in structs.items():
        struct.pop("title", None)
        properties = struct.get("properties", {})
        if not properties:
            continue
        struct["required"] = list(properties)
        for field, kind in properties.items():
            kind.pop("default", None)
            says = _SAYS.get(name, {}).get(field)
            properties[field] = kind = {"description": says, **kind} if says else kind
            if kind.get("type") == "integer":
                kind["minimum"] = 0
    structs["Record"]["properties"]["at"]["format"] = "date-time"
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GET /v1/proxy/status",
        **structs.pop("Status"),
        "$defs": {_NAMED.get(name, name): kind for name, kind in sorted(structs.items())},
    }
    text = json.dumps(whole)
    for name, named in _NAMED.items():
        text = text.replace(f'"#/$defs/{name}"', f'"#/$defs/{named}"')
    made: dict[str, Any] = json.loads(text)
    return made


_WIDTH = 120


def typescript() -> str:
    """The types of a status document, made from its schema."""
    whole = schema()
    parts = [_declared("Status", whole), *(_declared(name, kind) for name, kind in whole["$defs"].items())]
    return "// Made by demerit from the JSON Schema of GET /v1/proxy/status: change it there.\n\n" + "\n".join(parts)


def _declared(name: str, kind: Mapping[str, Any]) -> str:
    lines = list(_comment(kind.get("description"), ""))
    if "properties" not in kind:
        return "\n".join([*lines, f"export type {name} = {_type(kind)};", ""])
    lines.append(f"export interface {name} {{")
    for field, type_ in kind["properties"].items():
        line = f"  {field}: {_type(type_)};"
        if len(line) > _WIDTH:  # a union, member by member
            line = f"  {field}:\n    | " + _type(type_).replace(" | ", "\n    | ") + ";"
        lines += [*_comment(type_.get("description"), "  "), line]
    return "\n".join([*lines, "}", ""])


def _comment(text: str | None, indent: str) -> Iterator[str]:
    if not text:
        return
    # Nothing in a description may end the comment.
    words = text.replace("*/", "* /").split()
    if len(indent) + len(text) + 7 <= _WIDTH:
        yield f"{indent}/** {' '.join(words)} */"
        return
    yield f"{indent}/**"
    line = f"{indent} *"
    for word in words:
        if len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = f"{indent} *"
        line += f" {word}"
    yield line
    yield f"{indent} */"


_PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def _type(kind: Mapping[str, Any]) -> str:
    """One type of those that msgspec writes for a struct's fields."""
    if "$ref" in kind:
        return str(kind["$ref"]).rpartition("/")[2]
    if "const" in kind or "enum" in kind:
        return " | ".join(json.dumps(value) for value in kind.get("enum", [kind.get("const")]))
    if "anyOf" in kind:
        return " | ".join(_type(part) for part in kind["anyOf"])
    if kind["type"] == "array":
        item = _type(kind["items"])
        return f"({item})[]" if " " in item else f"{item}[]"
    if kind["type"] == "object":
        return f"{{ [name: string]: {_type(kind['additionalProperties'])} }}"
    return _PLAIN[kind["type"]]


# --- metrics --------------------------------------------------------------------------------------------------

# From an answer out of a cache to a model that thinks for minutes.
_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BOUNDS = (*map(str, _BOUNDS_S), "+Inf")
_TRIPS = {LoopGuardTrip.loop: "loop_guard_loops", LoopGuardTrip.stagnation: "loop_guard_stagnations"}


class _Spread:
    """How long something took, in buckets."""

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.sum_s = 0.0

    def add(self, took_s: float) -> None:
        self.counts[bisect_left(_BOUNDS_S, took_s)] += 1
        self.sum_s += took_s

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bounds, with how many took no longer."""
        found, so_far = [], 0
        for bound, count in zip(_BOUNDS, self.counts, strict=True):
            so_far += count
            found.append((bound, float(so_far)))
        return found


class Metrics:
    """The status as metrics, and how long requests took. A series of what was not measured is left out."""

    def __init__(self) -> None:
        self._durations: dict[str, _Spread] = {}
        self._first_bytes: dict[str, _Spread] = {}

    def observe(self, record: Record) -> None:
        """One request ended. What the guard refused took no time of any upstream's, and is left out."""
        if record.upstream is None:
            return
        self._durations.setdefault(record.upstream, _Spread()).add(record.duration_s)
        if record.first_byte_s is not None:
            self._first_bytes.setdefault(record.upstream, _Spread()).add(record.first_byte_s)

    def render(self, status: Status) -> bytes:
        """Everything in Prometheus' text format, `METRICS_TYPE`."""
        return generate_latest(_Families(self.families(status)))

    def families(self, status: Status) -> Iterator[Metric]:
        """Everything, family by family."""
        models = {model: ModelCounts(of_model.defects, of_model.turns) for model, of_model in status.models.items()}
        for counter in COUNTERS.values():
            if counter.name in _TRIPS.values():
                continue
            labels = ["model", "detector"] if counter.name == "loop_guard_trips" else ["model"]
            family = CounterMetricFamily(f"demerit_{counter.name}", counter.says, labels=labels)
            for model, counts in models.items():
                if not is_counted(counter.name, *counts):
                    continue
                if counter.name == "loop_guard_trips":
                    # In two parts, and without their sum: so a sum over all series of the family is right.
                    for trip, name in _TRIPS.items():
                        family.add_metric([model, trip.value], getattr(counts.defects, name))
                else:
                    of = counts.defects if hasattr(counts.defects, counter.name) else counts.turns
                    family.add_metric([model], getattr(of, counter.name))
            yield from _with_series(family)
        yield from self._around(status)

    def _around(self, status: Status) -> Iterator[Metric]:
        in_flight = GaugeMetricFamily(
            "demerit_requests_in_flight", "Requests that an upstream is serving.", labels=["upstream"]
        )
        queued = GaugeMetricFamily(
            "demerit_requests_queued", "Requests that wait for a place at an upstream.", labels=["upstream"]
        )
        for upstream in status.upstreams:
            in_flight.add_metric([upstream.name], upstream.in_flight)
            queued.add_metric([upstream.name], upstream.queued)
        yield from (*_with_series(in_flight), *_with_series(queued))
        yield from _histogram(
            "demerit_request_duration_seconds",
            "How long requests took, from their arrival to the end of the answer.",
            dict(self._durations),
        )
        yield from _histogram(
            "demerit_time_to_first_byte_seconds",
            "How long requests waited for the first byte of the answer, from their arrival.",
            dict(self._first_bytes),
        )
        failures = CounterMetricFamily(
            "demerit_stage_failures",
            "How often a step of the proxy's own failed and was passed over.",
            labels=["stage"],
        )
        for stage, count in status.stage_failures.items():
            failures.add_metric([stage], count)
        yield from _with_series(failures)
        if status.trips_log is not None:
            yield CounterMetricFamily(
                "demerit_trips_log_lost", "Entries of the trips log that could not be kept.", status.trips_log.lost
            )
        yield GaugeMetricFamily(
            "demerit_start_time_seconds",
            "Since when the proxy counts, in seconds since 1970.",
            status.started_at.timestamp(),
        )
        yield InfoMetricFamily("demerit_build", "Version of demerit.", {"version": status.version})


def _histogram(name: str, says: str, spreads: Mapping[str, _Spread]) -> Iterator[Metric]:
    family = HistogramMetricFamily(name, says, labels=["upstream"])
    for upstream, spread in spreads.items():
        family.add_metric([upstream], spread.buckets(), spread.sum_s)
    yield from _with_series(family)


def _with_series(family: Metric) -> Iterator[Metric]:
    if family.samples:
        yield family


class _Families(Collector):
    """What prometheus-client writes out; there is no registry, so nothing of it is anyone else's."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
