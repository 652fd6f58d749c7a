"""What a proxy tells of itself: the document, its schema and types, and the metrics."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from prometheus_client.openmetrics.exposition import generate_latest as as_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_metrics

from demerit.defects import COUNTERS, DefectLedger, LoopGuardTrip, counters_page, rates
from demerit.proxy.exchange import Record
from demerit.proxy.status import InFlight, Metrics, Status, UpstreamStatus, schema, status, typescript

DOCS = Path(__file__).parents[2] / "docs"
SINCE = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOSTILE = 'a"b\\c\nd\x1b[31m{}'

LOCAL = UpstreamStatus("local", "http://127.0.0.1:8080/v1", ("*",), 2, 1, 4, 3, "answered 503")


def record(**changes: Any) -> Record:
    facts: dict[str, Any] = {
        "at": SINCE,
        "model": "m",
        "upstream": "local",
        "streaming": True,
        "status": 200,
        "ended": "clean",
        "trip": None,
        "first_byte_s": 0.2,
        "duration_s": 3.0,
    }
    return Record(**{**facts, **changes})


def ledger() -> DefectLedger:
    made = DefectLedger(SINCE)
    for _ in range(3):
        made.record_request("m")
        made.record_turn("m", scanned=1, streamed_turns=1, completed_turns=1)
    made.record_loop_guard_trip("m", LoopGuardTrip.loop, counts_request=False)
    made.record_loop_guard_trip("m", LoopGuardTrip.stagnation, counts_request=False)
    made.record_empty_response("m", reasoning_only=True)
    made.record_request(HOSTILE)
    return made


def nothing() -> Status:
    return status(DefectLedger(SINCE), uptime_s=0, version="1.2.3", guard_mode="off")


def everything() -> Status:
    return status(
        ledger(),
        uptime_s=90.5,
        version="1.2.3",
        guard_mode="note",
        in_flight=[InFlight("m", "queued", 0.5, False), InFlight("m", "answering", 7, True)],
        recent=[
            record(),
            record(upstream=None, status=400, ended="guard_refused", trip=LoopGuardTrip.loop, first_byte_s=None),
        ],
        upstreams=[LOCAL],
        uncounted_paths={"/v1/responses": 2},
        stage_failures={"classify": 1},
        trips_log=(4, 5),
        dialects={"m": "hermes"},
        residue_samples={"m": ["<tool_call>"]},
    )


def as_json(of: Status) -> Any:
    return json.loads(msgspec.json.encode(of))


# --- the document -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [nothing, everything])
def test_documents_are_as_the_schema_says(made: Any) -> None:
    written = as_json(made())
    jsonschema_rs.validator_for(schema(), validate_formats=True).validate(written)


def objects(kind: Any, whole: Any, written: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every object of a document, with its part of the schema."""
    if isinstance(kind, dict) and "$ref" in kind:
        kind = whole["$defs"][kind["$ref"].rpartition("/")[2]]
    if isinstance(written, list):
        for item in written:
            yield from objects(kind["items"], whole, item)
    elif isinstance(written, dict):
        if "anyOf" in kind:
            kind = next(whole["$defs"][part["$ref"].rpartition("/")[2]] for part in kind["anyOf"] if "$ref" in part)
        if "properties" in kind:
            yield kind, written
        for name, value in written.items():
            yield from objects(kind["properties"][name] if "properties" in kind else kind["additionalProperties"],
                               whole, value)  # fmt: skip


def test_the_schema_has_every_key_that_is_written_and_no_other() -> None:
    whole = schema()
    seen = list(objects(whole, whole, as_json(everything())))
    assert len({kind["description"] for kind, _ in seen}) == 9  # the document, and each struct in it
    for kind, written in seen:
        assert list(written) == list(kind["properties"]) == kind["required"]


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        pytest.param(("models", "m", "defects", "requests"), -1, id="a count below 0"),
        pytest.param(("models", "m", "turns", "scanned"), None, id="a count that is null"),
        pytest.param(("models", "m", "rates"), [["a/b", 1, 2, None, None, None]], id="a rate that is a list"),
        pytest.param(("guard_mode",), "on", id="no such mode"),
        pytest.param(("recent", 0, "ended"), "well", id="no such ending"),
        pytest.param(("started_at",), "today", id="no time"),
        pytest.param(("schema",), "demerit.proxy-status/2", id="another format"),
    ],
)
def test_the_schema_refuses_what_is_not_so(path: tuple[Any, ...], wrong: object) -> None:
    written = as_json(everything())
    there = written
    for step in path[:-1]:
        there = there[step]
    there[path[-1]] = wrong
    assert not jsonschema_rs.validator_for(schema(), validate_formats=True).is_valid(written)


def test_the_schema_describes_every_counter_in_its_own_words() -> None:
    whole = schema()["$defs"]
    described = {
        name: kind["description"]
        for struct in ("ModelDefectCounts", "ModelTurnCounts")
        for name, kind in whole[struct]["properties"].items()
    }
    assert described == {name: counter.says for name, counter in COUNTERS.items()}
    assert described["agent_loops"] == "Of these, the turns that it called a loop. Not counted: the proxy's trips."
    assert described["dialect_residue"].endswith("Not measured yet: the proxy will feed it in a coming release.")


def test_every_key_is_described() -> None:
    whole = schema()
    for kind in (whole, *whole["$defs"].values()):
        assert kind["description"]
        assert all(field["description"] for field in kind.get("properties", {}).values())


def test_what_is_served_longest_comes_first_and_what_ended_last_comes_last() -> None:
    many = [record(at=SINCE + timedelta(seconds=second)) for second in range(25)]
    made = status(
        DefectLedger(SINCE),
        uptime_s=1,
        version="",
        guard_mode="note",
        in_flight=[InFlight("new", "queued", 1, False), InFlight("old", "waiting", 2, False)],
        recent=many,
    )
    assert [turn.model for turn in made.in_flight] == ["old", "new"]
    assert list(made.recent) == many[5:]


def test_a_model_has_its_counts_and_their_rates() -> None:
    found = everything().models["m"]
    assert (found.defects.requests, found.defects.loop_guard_trips, found.turns.scanned) == (3, 2, 3)
    assert list(found.rates) == rates(found.defects, found.turns)
    assert (found.dialect, found.residue_samples) == ("hermes", ("<tool_call>",))
    assert (everything().models[HOSTILE].dialect, everything().models[HOSTILE].residue_samples) == (None, ())


# --- the files ----------------------------------------------------------------------------------------------


def is_current(path: Path, text: str) -> bool:
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8") == text


STALE = "the status changed: run UPDATE_SNAPSHOTS=1 make test ARGS='-k in_the_docs'"


def test_the_schema_in_the_docs_is_current() -> None:
    text = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    assert is_current(DOCS / "proxy-status.schema.json", text), STALE


def test_the_types_in_the_docs_are_current() -> None:
    assert is_current(DOCS / "proxy-status.ts", typescript()), STALE


def test_the_page_in_the_docs_shows_the_types_and_names_the_metrics() -> None:
    path = DOCS / "proxy-status.md"
    between = re.compile(r"(?<=<!-- types -->\n).*?(?=<!-- /types -->)", re.DOTALL)
    page = between.sub(lambda _: f"```ts\n{typescript()}```\n", path.read_text(encoding="utf-8"))
    assert is_current(path, page), STALE
    named = set(re.findall(r"^\| `(demerit_\w+?)(?:_total)?` \|", page, re.MULTILINE))
    counters = {f"demerit_{name}" for name in COUNTERS} - {"demerit_loop_guard_trips"}
    metrics = Metrics()
    metrics.observe(record())
    families = {family.name + ("_info" if family.type == "info" else "") for family in metrics.families(everything())}
    assert named == (families - counters) | {"demerit_COUNTER"}
    assert counters_page()  # the page that it leads to has the counters


# --- types --------------------------------------------------------------------------------------------------


def test_types_are_those_of_the_schema() -> None:
    types = typescript()
    assert '  guard_mode: "note" | "off" | "refuse";\n' in types
    assert "  recent: RecentRequest[];\n" in types
    assert "  models: { [name: string]: ModelStatus };\n" in types
    assert "  trips_log: TripsLogStatus | null;\n" in types
    assert 'export type LoopGuardTrip = "loop" | "stagnation";\n' in types
    assert '  ended:\n    | "broken"\n    | "clean"\n' in types
    assert max(map(len, types.splitlines())) <= 120
    used = set(re.findall(r"\b[A-Z]\w+\b", re.sub(r"/\*\*.*?\*/|//[^\n]*|\"", "", types, flags=re.DOTALL)))
    assert used == set(re.findall(r"^export \w+ (\w+)", types, re.MULTILINE))
    fields = {name for kind in (schema(), *schema()["$defs"].values()) for name in kind.get("properties", {})}
    assert set(re.findall(r"^  (\w+):", types, re.MULTILINE)) == fields


# --- metrics ------------------------------------------------------------------------------------------------


def series(made: Status, metrics: Metrics | None = None) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, these in the order of the labels' names."""
    text = (metrics or Metrics()).render(made).decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in read_metrics(text)
        for sample in family.samples
    }


def test_metrics_of_an_idle_proxy_are_when_it_began_and_what_it_is() -> None:
    assert series(nothing()) == {
        ("demerit_start_time_seconds",): SINCE.timestamp(),
        ("demerit_build_info", "1.2.3"): 1,
    }


def test_counters_are_series_by_model() -> None:
    found = series(everything())
    assert found["demerit_requests_total", "m"] == 3
    assert found["demerit_requests_total", HOSTILE] == 1
    assert found["demerit_empty_responses_total", "m"] == found["demerit_reasoning_only_total", "m"] == 1
    assert found["demerit_stream_errors_total", "m"] == 0


def test_the_two_detectors_are_one_family_whose_sum_is_the_trips() -> None:
    assert {key: n for key, n in series(everything()).items() if key[0].startswith("demerit_loop_guard")} == {
        ("demerit_loop_guard_trips_total", "loop", "m"): 1,
        ("demerit_loop_guard_trips_total", "stagnation", "m"): 1,
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("repairs_attempted", id="of what nothing feeds yet"),
        pytest.param("agent_scanned", id="of agents where no agent was checked"),
    ],
)
def test_a_series_that_was_not_measured_is_absent(name: str) -> None:
    assert not any(of.startswith(f"demerit_{name}") for of, *_ in series(everything()))


def test_with_the_guard_off_its_series_are_absent_and_the_others_are_there() -> None:
    made = DefectLedger(SINCE)
    made.record_request("m")
    found = series(status(made, uptime_s=1, version="", guard_mode="off"))
    names = {name for name, *_ in found}
    assert not names & {
        f"demerit_{name}_total" for name in ("scanned", "loop_guard_trips", "repeats_rescued", "cycles")
    }
    assert {"demerit_stream_errors_total", "demerit_client_aborts_total"} <= names


def test_gauges_are_by_upstream() -> None:
    found = series(everything())
    assert found["demerit_requests_in_flight", "local"] == 2
    assert found["demerit_requests_queued", "local"] == 1
    assert found["demerit_stage_failures_total", "classify"] == 1
    assert found["demerit_trips_log_lost_total",] == 4


def test_times_are_histograms_by_upstream() -> None:
    metrics = Metrics()
    metrics.observe(record(first_byte_s=0.25, duration_s=3.0))
    metrics.observe(record(first_byte_s=0.26, duration_s=700.0))
    metrics.observe(record(first_byte_s=None, duration_s=3.5, ended="first_byte_timeout", status=504))
    metrics.observe(record(upstream=None, first_byte_s=None, ended="guard_refused", status=400))
    found = series(everything(), metrics)
    of = "demerit_request_duration_seconds"
    assert [found[f"{of}_bucket", bound, "local"] for bound in ("2.5", "5.0", "600.0", "+Inf")] == [0, 2, 2, 3]
    assert (found[f"{of}_count", "local"], found[f"{of}_sum", "local"]) == (3, 706.5)
    of = "demerit_time_to_first_byte_seconds"
    assert [found[f"{of}_bucket", bound, "local"] for bound in ("0.1", "0.25", "0.5", "+Inf")] == [0, 1, 2, 2]
    assert (found[f"{of}_count", "local"], found[f"{of}_sum", "local"]) == (2, 0.51)


def test_the_families_are_right_for_openmetrics_too() -> None:
    metrics = Metrics()
    metrics.observe(record())
    made = everything()

    class Families:
        def collect(self) -> Any:
            return metrics.families(made)

    text = as_openmetrics(Families()).decode()  # type: ignore[no-untyped-call]
    read = list(read_openmetrics(text))  # type: ignore[no-untyped-call]
    assert {family.name: family.type for family in read}["demerit_loop_guard_trips"] == "counter"
    assert {family.documentation for family in read} >= {COUNTERS["requests"].says, COUNTERS["reasoning_only"].says}
    assert sum(sample.value for family in read for sample in family.samples if "detector" in sample.labels) == 2
