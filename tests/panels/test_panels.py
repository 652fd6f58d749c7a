"""What each panel counts, and that the list it names has exactly what it counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import func
from tests.panels.conftest import add_some_of_every_kind
from tests.store.rows import NOON, Call, Request, add_session

from demerit.panels import PANELS, Table, score_percentile
from demerit.panels.tables import Row
from demerit.quality import Archetype
from demerit.store import Store
from demerit.store.filters import Filter, chosen_sessions

UTC_ZONE = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
VIEWS = [pytest.param(panel.name, by, id=f"{panel.name} by {by}") for panel in PANELS.values() for by in panel.by]
FILTERS = {
    "all": Filter(),
    "a range": Filter(since=NOON - timedelta(hours=3), until=NOON + timedelta(days=1)),
    "a project by its name": Filter(project="shop"),
    "no project": Filter(project=""),
    "an agent": Filter(agent="codex"),
    "a model": Filter(model="m2"),
    "a tool": Filter(tool="Bash", tool_model="m2"),
    "a grade": Filter(grade="A"),
    "unscored": Filter(grade="unscored"),
    "an outcome": Filter(outcome="abandoned", confidence="medium"),
    "an archetype": Filter(archetype="automation"),
    "no special ending": Filter(ending="none"),
    "a rule": Filter(rule="prompts_repeat"),
    "no sub-agents": Filter(subagents=False),
    "sub-agents alone": Filter(relation="subagent"),
    "with sub-agents": Filter(children_from=1, children_below=2),
    "measured": Filter(measured=True),
    "hygiene": Filter(hygiene="short"),
    "context": Filter(peak_from=1_000, peak_below=100_000, resets=True),
    "a file": Filter(file="a.py"),
    "usage": Filter(used_since=NOON, used_until=NOON + timedelta(days=2), used_model="m2"),
    "usage without a time": Filter(undated_usage=True, used_model="m1"),
    "activity": Filter(active_since=NOON, active_until=NOON + timedelta(hours=1)),
    "a version that is not told": Filter(agent_version="", main_model=""),
    "nothing": Filter(agent="nobody"),
}


def ask(store: Store, name: str, by: str | None = None, chosen: Filter = Filter(), **options: Any) -> Table:  # noqa: B008
    with store.reading() as connection:
        return PANELS[name].run(connection, chosen, options.pop("zone", UTC_ZONE), by, **options)


def filled(store: Store, *sessions: dict[str, Any]) -> Store:
    with store.writing() as connection:
        for facts in sessions:
            add_session(connection, **facts)
    return store


def rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows."""
    return [cells(table, row, *columns) for row in table.rows]


def cells(table: Table, row: Row | None, *columns: str) -> tuple[Any, ...]:
    assert row is not None
    names = [column.name for column in table.columns]
    return tuple(row.values[names.index(column)] for column in columns)


# --- every panel ----------------------------------------------------------------------------------------------


def count(store: Store, chosen: Filter) -> int:
    with store.reading() as connection:
        return int(connection.execute(chosen_sessions(chosen, func.count())).scalar_one())


def test_every_panel_reconciles_with_the_list_it_names(store: Store) -> None:
    with store.writing() as connection:
        add_some_of_every_kind(connection)
    counted: set[tuple[str, str]] = set()
    for panel in PANELS.values():
        for by in panel.by:
            for name, chosen in FILTERS.items():
                table = ask(store, panel.name, by, chosen, zone=ZoneInfo("Asia/Kolkata"))
                where = f"{panel.name} by {by}, {name}"
                assert table.counted == count(store, table.sessions), where
                for row in (*table.rows, *([table.total] if table.total else [])):
                    assert len(row.values) == len(table.columns), where
                    if row.sessions is not None and "sessions" in [column.name for column in table.columns]:
                        [sessions] = cells(table, row, "sessions")
                        assert sessions == count(store, row.sessions), f"{where}: {row.values}"
                        counted.add((panel.name, by) if sessions else ("", ""))
    # None of them reconciles merely because it counts nothing.
    assert {(panel, by) for panel, by in counted if panel} == {
        (panel.name, by) for panel in PANELS.values() for by in panel.by if panel.name != "rhythm"
    }


ADDITIVE = ("sessions", "prompts", "messages", "calls", "requests", "tokens", "responses")


@pytest.mark.parametrize(
    ("panel", "by"),
    [
        *(("grades", "grade"), ("outcomes", "outcome"), ("outcomes", "ending"), ("archetypes", "archetype")),
        *(("score-trend", by) for by in PANELS["score-trend"].by),
        *(("subagents", "children"), ("rhythm", "hour"), ("rhythm", "day")),
    ],
)
def test_every_total_is_the_sum_of_its_rows(sqlite_store: Store, panel: str, by: str) -> None:
    with sqlite_store.writing() as connection:
        add_some_of_every_kind(connection)
    table = ask(sqlite_store, panel, by)
    for place, column in enumerate(table.columns):
        if column.unit in ADDITIVE and column.name not in ("measured", "of", "children") and table.total:
            if panel == "grades" and column.name == "graded":
                continue  # what all rows are a share of
            values = [row.values[place] for row in table.rows]
            assert table.total.values[place] == sum(value for value in values if isinstance(value, int)), column.name


@pytest.mark.parametrize(("panel", "by"), VIEWS)
def test_an_empty_store_has_no_rates(sqlite_store: Store, panel: str, by: str) -> None:
    table = ask(sqlite_store, panel, by)
    assert table.counted == 0
    for place, column in enumerate(table.columns):
        if column.unit in ("share", "points", "USD"):
            assert [row.values[place] for row in table.rows] == [None] * len(table.rows), column.name


def test_a_view_that_a_panel_has_not_is_told_with_those_it_has(sqlite_store: Store) -> None:
    with pytest.raises(ValueError, match="the panel context has no view by 'day'; it has: all, size"):
        ask(sqlite_store, "context", "day")


def test_a_ranking_says_how_many_rows_it_leaves_out(sqlite_store: Store) -> None:
    calls = [Call("Read"), Call("Read"), Call("Bash"), Call("Edit")]
    filled(sqlite_store, {"calls": calls, "files": {"a": 2, "b": 3, "c": 2}})
    table = ask(sqlite_store, "tools", limit=2)
    assert (rows(table, "tool"), table.more) == ([("Read",), ("Bash",)], 1)
    assert cells(table, table.total, "calls") == (4,)
    table = ask(sqlite_store, "churn", limit=1)
    assert (rows(table, "path"), table.more) == ([("b",)], 2)
    assert (len(ask(sqlite_store, "churn", limit=None).rows), ask(sqlite_store, "churn", limit=None).more) == (3, 0)


# --- each of them ---------------------------------------------------------------------------------------------


def test_grades(store: Store) -> None:
    filled(store, {"score": 80}, {"score": 90}, {"score": None, "outcome": "unknown"}, {"score": 0, "is_stale": True})
    table = ask(store, "grades")
    assert rows(table, "grade", "sessions", "share", "average_score") == [
        ("A", 1, 0.5, 90),
        ("B", 1, 0.5, 80),
        *((grade, 0, 0, None) for grade in "CDF"),
        ("unscored", 2, None, None),
    ]
    assert cells(table, table.total, "sessions", "graded", "average_score", "gpa") == (4, 2, 85, 3.5)
    assert table.notes == ("1 of the unscored sessions are not measured: they still run, or wait to be graded.",)


def test_outcomes_and_endings(store: Store) -> None:
    filled(
        store,
        *[{"outcome": "completed", "confidence": "high"}] * 3,
        {"outcome": "errored", "confidence": "medium", "ending": "api_error"},
        {"signals_version": None},
    )
    assert ask(store, "outcomes").rows[-1].values == (None, None, 1, 4, None)
    assert rows(ask(store, "outcomes"), "outcome", "confidence", "sessions", "share")[:2] == [
        ("completed", "high", 3, 0.75),
        ("errored", "medium", 1, 0.25),
    ]
    assert rows(ask(store, "outcomes", "ending"), "ending", "sessions", "share") == [
        ("api_error", 1, 0.25),
        ("none", 3, 0.75),
        (None, 1, None),
    ]


def test_archetypes_and_where_a_score_stands(store: Store) -> None:
    quick = {"minutes": 1}
    scores = [40, 60, 60, 80, 100]
    filled(store, *({**quick, "score": score} for score in scores), {**quick, "score": None}, {"prompts": 0})
    table = ask(store, "archetypes")
    columns = ("archetype", "sessions", "graded", "average_score", "p25_score", "p50_score", "p75_score")
    # The 2nd, 3rd and 4th of five are the first with at least 25, 50 and 75 % at or below them.
    assert rows(table, *columns)[0] == ("quick", 6, 5, 68, 60, 60, 80)
    assert rows(table, "archetype", "sessions")[1:] == [
        ("standard", 0),
        ("deep", 0),
        ("marathon", 0),
        ("automation", 1),
    ]
    with store.reading() as connection:
        # One is lower and two are the same: 1 + 2 / 2 of 5.
        assert score_percentile(connection, Filter(), Archetype.quick, 60) == (40, 5)
        assert score_percentile(connection, Filter(), Archetype.deep, 60) == (None, 0)
        assert score_percentile(connection, Filter(archetype="deep"), Archetype.quick, 60) == (None, 0)


def test_a_day_without_a_session_is_a_gap_and_no_zero(store: Store) -> None:
    # 23:30 in London is the next day in Berlin.
    late = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)
    filled(store, {"started": late, "score": 90}, {"started": late + timedelta(days=2), "score": 50})
    days = rows(ask(store, "score-trend", zone=BERLIN), "day", "sessions", "graded", "average_score", "a_share")
    assert days == [("2026-03-03", 1, 1, 90, 1), ("2026-03-04", 0, 0, None, None), ("2026-03-05", 1, 1, 50, 0)]
    assert rows(ask(store, "score-trend", "week", zone=BERLIN), "week", "sessions", "average_score", "gpa") == [
        ("2026-03-02", 2, 70, 2.5)
    ]


def test_days_far_apart_are_not_filled_up(sqlite_store: Store) -> None:
    filled(sqlite_store, {"started": NOON - timedelta(days=5_000)}, {"started": NOON})
    assert len(ask(sqlite_store, "score-trend").rows) == 2


def test_scores_by_model_project_agent_and_version(store: Store) -> None:
    filled(
        store,
        {"score": 90, "model": "m1"},
        {"score": 70, "model": "m1", "project_key": "/other/shop", "agent": "codex"},
        {"score": 50, "model": None, "project": None, "version": None},
    )
    assert rows(ask(store, "score-trend", "model"), "model", "sessions", "average_score") == [
        ("m1", 2, 80),
        (None, 1, 50),
    ]
    assert sorted(rows(ask(store, "score-trend", "project"), "project_key", "average_score"), key=str) == [
        ("/code/shop", 90),
        ("/other/shop", 70),
        (None, 50),
    ]
    assert rows(ask(store, "score-trend", "version"), "agent", "agent_version", "average_score") == [
        ("claude-code", None, 50),
        ("claude-code", "1.0", 90),
        ("codex", "1.0", 70),
    ]


def test_hygiene_is_over_sessions_with_a_prompt(store: Store) -> None:
    filled(
        store,
        {"prompts": 6, "short": 2, "duplicate": 1, "unstructured_start": True},
        {"prompts": 2, "no_code": 2},
        {"prompts": 0},
        {"prompts": 9, "short": 9, "signals_version": None},
    )
    assert rows(ask(store, "hygiene"), "fact", "count", "of", "share", "sessions", "measured") == [
        ("prompts", 8, 8, 1, 2, 2),
        ("short", 2, 8, 0.25, 1, 2),
        ("duplicate", 1, 8, 0.125, 1, 2),
        ("no_code", 2, 8, 0.25, 1, 2),
        ("unstructured_start", 1, 2, 0.5, 1, 2),
    ]


def test_context_percentiles_are_peaks_that_sessions_have(store: Store) -> None:
    peaks = [{"peak": thousand * 1_000, "resets": thousand == 300 and 3} for thousand in (100, 200, 300, 400)]
    filled(store, *peaks, {"peak": None})
    table = ask(store, "context")
    columns = ("sessions", "p50_peak_tokens", "p90_peak_tokens", "max_peak_tokens", "resets", "with_resets_share")
    assert rows(table, *columns) == [(4, 200_000, 400_000, 400_000, 3, 0.25)]
    assert table.notes == ("The context of 1 sessions is not measured.",)
    sizes = rows(ask(store, "context", "size"), "from_tokens", "below_tokens", "sessions", "resets")
    assert sizes[0] == (0, 8_000, 0, 0)
    assert [row for row in sizes if row[2]] == [
        (64_000, 128_000, 1, 0),
        (128_000, 256_000, 1, 0),
        (256_000, 512_000, 2, 3),
    ]
    assert sizes[-1] == (1_024_000, None, 0, 0)


def test_the_failure_rate_is_over_calls_that_tell_something(store: Store) -> None:
    statuses = ["ok"] * 5 + ["benign", "failed", "invalid", "declined", "cancelled", "pending", "unknown"]
    filled(
        store,
        {"calls": [Call("Bash", status) for status in statuses]},
        {"calls": [Call("Bash", "unknown", "m2"), Call("Ask", "unknown", "")], "is_judged": False},
    )
    table = ask(store, "tools")
    columns = (
        "tool",
        "sessions",
        "calls",
        "untold",
        "judged",
        "failures",
        "failure_rate",
        "failed",
        "invalid",
        "unknown",
    )
    assert rows(table, *columns) == [
        ("Bash", 2, 13, 1, 8, 2, 0.25, 1, 1, 2),
        ("Ask", 1, 1, 1, 0, None, None, None, None, None),
    ]
    assert cells(table, table.total, "sessions", "calls", "judged") == (2, 14, 8)
    assert rows(ask(store, "tools", "model"), "model", "calls") == [("m1", 12), (None, 1), ("m2", 1)]
    of_model = ask(store, "tools", "tool-model", Filter(model="m2"))
    assert rows(of_model, "tool", "model", "calls") == [("Bash", "m2", 1)]


def test_churn_keeps_projects_apart_and_counts_the_changes_after_the_first(store: Store) -> None:
    filled(
        store,
        {"files": {"a.py": 4, "once.py": 1}},
        {"files": {"a.py": 1}},
        {"files": {"a.py": 2}, "project_key": "/other/shop"},
    )
    columns = ("project_key", "path", "sessions", "sessions_again", "changes", "re_edits")
    assert rows(ask(store, "churn"), *columns) == [
        ("/code/shop", "a.py", 2, 1, 5, 3),
        ("/other/shop", "a.py", 1, 1, 2, 1),
    ]


def test_cost_is_cut_by_the_hour_of_use_and_names_what_has_no_price(store: Store) -> None:
    # The session begins before midnight in Berlin and goes on after it.
    before, after = datetime(2026, 3, 2, 22, tzinfo=UTC), datetime(2026, 3, 2, 23, tzinfo=UTC)
    requests = [
        Request(before, "m1", input=100, cached=300, written=100, output=7, cost=0.5),
        Request(after, "m1", input=10, cost=0.25),
        Request(after, "new", input=20, output=3),
        Request(None, "m1", input=5, cost=9.0),
    ]
    filled(store, {"started": before, "minutes": 90, "requests": requests})
    table = ask(store, "cost", zone=BERLIN)
    columns = (
        "day",
        "is_dated",
        "sessions",
        "requests",
        "input_tokens",
        "cache_hit_rate",
        "cost_usd",
        "unpriced_tokens",
    )
    assert rows(table, *columns) == [
        ("2026-03-02", True, 1, 1, 100, 0.6, 0.5, 0),
        ("2026-03-03", True, 1, 2, 30, 0, 0.25, 23),
        (None, False, 1, 1, 5, 0, 9.0, 0),
    ]
    assert cells(table, table.total, "sessions", "requests", "cost_usd") == (1, 3, 0.75)
    assert table.notes == ("Without a price, so in no cost: new (1 requests, 23 tokens).",)
    # What has no price is no cost of 0, and the model keeps its name.
    assert rows(ask(store, "cost", "model"), "model", "is_dated", "cost_usd", "unpriced_requests") == [
        ("m1", True, 0.75, 0),
        ("new", True, None, 1),
        ("m1", False, 9.0, 0),
    ]
    # The range cuts the hours, not the sessions, and a model's filter its requests.
    day = ask(store, "cost", chosen=Filter(since=after, model="m1"), zone=BERLIN)
    assert rows(day, "day", "requests", "cost_usd") == [("2026-03-03", 1, 0.25)]
    assert day.sessions == Filter(used_since=after, used_model="m1")


def test_rhythm_follows_the_clocks_when_they_change(store: Store) -> None:
    # Both at 9:30 in Berlin, on the Monday before and after the clocks went forward.
    winter, summer = datetime(2026, 3, 23, 8, 30, tzinfo=UTC), datetime(2026, 3, 30, 7, 30, tzinfo=UTC)
    facts = {"prompts": 2, "answers": 1, "minutes": 4, "calls": [Call("Read")]}
    filled(store, {"started": winter, **facts}, {"started": summer, **facts}, {"started": None})
    table = ask(store, "rhythm", zone=BERLIN)
    assert len(table.rows) == 7 * 24
    assert [row.values for row in table.rows if any(row.values[2:])] == [("Monday", 9, 6, 4, 2, 8.0)]
    assert table.notes == ("2 messages have no time, and are in no row.",)
    assert rows(ask(store, "rhythm", "day", zone=BERLIN), "day", "active_minutes") == [
        ("2026-03-23", 4),
        ("2026-03-30", 4),
    ]


def test_an_hour_of_a_zone_that_is_half_an_hour_off_counts_where_it_begins(sqlite_store: Store) -> None:
    # 18:40 UTC is ten past midnight in Kolkata, in an hour of UTC that begins there at half past eleven.
    filled(sqlite_store, {"started": datetime(2026, 3, 2, 18, 40, tzinfo=UTC), "minutes": 1})
    kolkata = ZoneInfo("Asia/Kolkata")
    active = [row.values[:3] for row in ask(sqlite_store, "rhythm", zone=kolkata).rows if row.values[2]]
    assert active == [("Monday", 23, 2)]
    assert rows(ask(sqlite_store, "rhythm", "day", zone=kolkata), "day") == [("2026-03-02",)]


def test_subagents_count_with_the_session_right_above_them(store: Store) -> None:
    with store.writing() as connection:
        lead = add_session(connection, requests=[Request(cost=1.0)], score=90)
        children = [
            add_session(
                connection, relation="subagent", parent=lead, requests=[Request(cost=1.5)], started=NOON - timedelta(1)
            )
            for _ in range(2)
        ]
        add_session(connection, relation="subagent", parent=children[0], score=50)
        add_session(connection, relation="fork", parent=lead, requests=[Request(cost=7.0)])
        add_session(connection, relation="subagent", parent=lead, copy_of=children[0])
    table = ask(store, "subagents", chosen=Filter(since=NOON))
    columns = ("children", "sessions", "share", "subagents", "cost_usd", "subagents_cost_usd", "subagents_cost_share")
    assert rows(table, *columns)[:3] == [
        ("0", 1, 0.5, 0, 7.0, None, None),
        ("1", 0, 0, 0, None, None, None),
        ("2-3", 1, 0.5, 2, 1.0, 3.0, 0.75),
    ]
    assert rows(ask(store, "subagents", "agent"), "agent", "sessions", "average_score") == [("claude-code", 3, 250 / 3)]


def test_advice_is_over_measured_sessions(store: Store) -> None:
    filled(
        store,
        {"rules": ["prompts_repeat", "context_overflows"]},
        {"rules": ["prompts_repeat"]},
        {},
        {"rules": ["prompts_repeat"], "is_stale": True},
    )
    table = ask(store, "advice")
    assert rows(table, "rule", "sessions", "measured", "share") == [
        ("prompts_repeat", 2, 3, 2 / 3),
        ("context_overflows", 1, 3, 1 / 3),
    ]
    assert cells(table, table.rows[0], "when") == ("Two prompts or more repeat an earlier one to the letter.",)


def test_defects_have_denominators_of_their_own(store: Store) -> None:
    filled(
        store,
        {
            "answers": 8,
            "truncated": 2,
            "empty": 4,
            "reasoning_only": 1,
            "calls": [Call("Read"), Call("Read", "invalid")],
        },
        {"answers": 2, "version": "2.0", "calls": [Call("Read", "invalid", "m2")]},
    )
    table = ask(store, "defects", "model")
    rates = ("truncated_rate", "empty_rate", "reasoning_only_rate", "invalid_rate")
    assert rows(table, "model", "sessions", "responses", "calls", *rates) == [
        ("m1", 2, 10, 2, 0.2, 0.4, 0.25, 0.5),
        ("m2", 1, 0, 1, None, None, None, 1),
    ]
    keys = rows(ask(store, "defects"), "model", "agent", "agent_version", "responses")
    assert keys == [("m1", "claude-code", "1.0", 8), ("m1", "claude-code", "2.0", 2), ("m2", "claude-code", "2.0", 0)]
    assert rows(ask(store, "defects", "model", Filter(model="m2")), "model") == [("m2",)]


def test_repetitions_are_shares_of_what_could_repeat(store: Store) -> None:
    filled(
        store,
        {
            "answers": 20,
            "repetitions": {
                "batches": 10,
                "repeats_seen": 5,
                "identical_repeats": 4,
                "repeats_not_evaluated": 1,
                "repeats_rescued": 0,
                "loops": 2,
                "stagnations": 5,
                "cycles": 1,
            },
        },
        {"answers": 2, "model": "m2"},
    )
    names = (
        *("batches", "repeats_seen", "identical_repeats", "repeats_not_evaluated"),
        *("loops", "repeats_rescued", "cycles", "stagnations"),
    )
    table = ask(store, "defects", "model")
    assert rows(table, "model", *names) == [("m1", 10, 5, 4, 1, 2, 0, 1, 5), ("m2", *(None,) * 8)]
    assert rows(table, *(f"{name}_rate" for name in names[2:])) == [(0.8, 0.2, 0.2, 0, 0.1, 0.25), (None,) * 6]
