"""How a table is written down: JSON with a schema, CSV, and the page that describes them all."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import jsonschema_rs
import msgspec
import pytest
from tests.panels.conftest import add_some_of_every_kind
from tests.panels.test_panels import UTC_ZONE, VIEWS
from tests.store.rows import NOON, Call, add_session

from demerit.panels import PANELS, as_csv, document, reference
from demerit.store import Store
from demerit.store.filters import Filter

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "panel.schema.json").read_text(encoding="utf-8"))


def as_json(store: Store, panel: str, by: str | None = None, chosen: Filter = Filter()) -> Any:  # noqa: B008
    with store.reading() as connection:
        table = PANELS[panel].run(connection, chosen, UTC_ZONE, by)
    return json.loads(msgspec.json.encode(document(table, PANELS[panel])))


@pytest.mark.parametrize(("panel", "by"), VIEWS)
def test_every_view_is_as_the_schema_says(sqlite_store: Store, panel: str, by: str) -> None:
    with sqlite_store.writing() as connection:
        add_some_of_every_kind(connection)
    written = as_json(sqlite_store, panel, by)
    jsonschema_rs.validator_for(SCHEMA).validate(written)
    names = [column["name"] for column in written["columns"]]
    assert Counter(names).most_common(1)[0][1] == 1
    assert all(list(row["values"]) == names for row in written["rows"])


def test_a_row_names_its_list_as_a_filter(sqlite_store: Store) -> None:
    with sqlite_store.writing() as connection:
        add_session(connection, calls=[Call("Read")])
    written = as_json(sqlite_store, "tools", chosen=Filter(since=NOON, subagents=False))
    assert written["sessions"] == {"since": "2026-03-02T12:00:00Z", "subagents": False, "has_calls": True}
    [row] = written["rows"]
    assert row["sessions"] == {"since": "2026-03-02T12:00:00Z", "subagents": False, "tool": "Read"}


def test_the_schema_names_the_filters_there_are() -> None:
    assert list(SCHEMA["$defs"]["filter"]["properties"]) == list(Filter.__struct_fields__)


def test_csv_has_a_line_a_row_and_an_empty_cell_for_what_is_not_measured(sqlite_store: Store) -> None:
    with sqlite_store.writing() as connection:
        add_session(connection, files={"=cmd()": 2, 'a "b", c.py': 3})
        with_table = PANELS["churn"].run(connection, Filter(), UTC_ZONE)
        grades = PANELS["grades"].run(connection, Filter(), UTC_ZONE)
    assert as_csv(with_table) == (
        "project,project_key,path,sessions,sessions_again,changes,re_edits\n"
        'shop,/code/shop,"a ""b"", c.py",1,1,3,2\n'
        "shop,/code/shop,'=cmd(),1,1,2,1\n"
    )
    assert as_csv(grades).splitlines()[2] == "B,0,1,0.0,,3"


def test_the_zone_is_named(sqlite_store: Store) -> None:
    with sqlite_store.reading() as connection:
        table = PANELS["rhythm"].run(connection, Filter(), ZoneInfo("Europe/Berlin"))
    assert table.zone == "Europe/Berlin"


def test_the_page_describes_every_panel_as_it_is() -> None:
    page = (DOCS / "panels.md").read_text(encoding="utf-8")
    between = re.findall(r"<!-- panels -->\n(.*)<!-- end of panels -->\n", page, re.DOTALL)
    is_current = between == [reference(PANELS)]
    assert is_current, "put what demerit.panels.reference(PANELS) returns between the marks of docs/panels.md"
