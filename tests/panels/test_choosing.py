"""From the filter of a panel to that of a row."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.rows import NOON

from demerit.panels.choosing import EPOCH, by_activity, by_usage, narrowed
from demerit.store.filters import Filter

LATER = NOON.replace(hour=18)


@pytest.mark.parametrize(
    ("chosen", "wanted", "row"),
    [
        pytest.param(Filter(), {"grade": "A"}, Filter(grade="A"), id="what was open is set"),
        pytest.param(Filter(agent="codex"), {"grade": "A"}, Filter(agent="codex", grade="A"), id="the rest stays"),
        pytest.param(Filter(grade="A"), {"grade": "A"}, Filter(grade="A"), id="the same again is the same"),
        pytest.param(Filter(grade="A"), {"grade": "B"}, None, id="no session has two grades"),
        pytest.param(Filter(since=LATER), {"since": NOON}, Filter(since=LATER), id="the later beginning holds"),
        pytest.param(Filter(until=LATER), {"until": NOON}, Filter(until=NOON), id="the earlier end holds"),
        pytest.param(Filter(peak_below=9), {"peak_from": 0}, Filter(peak_from=0, peak_below=9), id="bounds meet"),
        pytest.param(Filter(project="shop"), {"project": "/w/shop"}, Filter(project="/w/shop"), id="key over name"),
        pytest.param(Filter(subagents=False), {"subagents": False}, Filter(subagents=False), id="marks as well"),
        pytest.param(Filter(measured=True), {"measured": False}, None, id="measured and not measured"),
    ],
)
def test_a_row_s_filter_demands_both(chosen: Filter, wanted: dict[str, Any], row: Filter | None) -> None:
    assert narrowed(chosen, **wanted) == row


def test_usage_is_cut_by_its_own_time_and_model() -> None:
    chosen = Filter(since=NOON, until=LATER, model="m1", grade="A")
    assert by_usage(chosen) == Filter(used_since=NOON, used_until=LATER, used_model="m1", grade="A")
    assert by_usage(Filter()) == Filter(used_since=EPOCH)


def test_activity_is_cut_by_its_own_time_in_sessions_of_the_model() -> None:
    chosen = Filter(since=NOON, until=LATER, model="m1")
    assert by_activity(chosen) == Filter(active_since=NOON, active_until=LATER, model="m1")
