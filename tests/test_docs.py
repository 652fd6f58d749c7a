"""The docs name what the code has, their links lead somewhere, and their examples run."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path
from typing import get_args

import pytest
import typer
from msgspec.structs import replace

from demerit import cli
from demerit.model import CallStatus
from demerit.parsers import PARSERS
from demerit.parsers.records import Parser
from demerit.quality.advice import RULES
from demerit.quality.archetype import Archetype
from demerit.quality.outcome import Facts, Outcome
from demerit.quality.prompts import PromptHygiene
from demerit.quality.score import GRADE_ORDER, PenaltyKind, Signals, penalties
from demerit.quality.thinking import ThinkingBand

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
SIGNALS = (DOCS / "signals.md").read_text(encoding="utf-8")
SETTINGS = (DOCS / "settings.md").read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", without_code(text), re.MULTILINE)


def anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# --- names ------------------------------------------------------------------------------------------------


def test_every_advice_rule_has_its_heading_in_order() -> None:
    written = headings((DOCS / "advice.md").read_text(encoding="utf-8"))
    assert [text for text in written if text.startswith("`")] == [f"`{rule.__name__}`" for rule in RULES]


@pytest.mark.parametrize("kind", get_args(PenaltyKind))
def test_every_penalty_has_its_heading_and_its_true_points(kind: str) -> None:
    assert f"`{kind}`" in headings(SIGNALS)
    if kind in ("errored", "abandoned"):
        one = most = Signals(outcome=Outcome(kind))
    elif kind == "failure_streak":
        one, most = Signals(longest_failure_streak=3), Signals(longest_failure_streak=1000)
    else:
        one, most = (replace(Signals(), **{kind: count}) for count in (1, 1000))
    ([line], [capped]) = penalties(one), penalties(most)
    points = f"{line.points} each | {capped.points} |" if capped.points > line.points else f"{line.points} | |"
    assert f"| [`{kind}`](#{kind}) | {points}" in SIGNALS


@pytest.mark.parametrize("status", [status.value for status in CallStatus])
def test_every_call_status_has_its_row(status: str) -> None:
    assert re.search(rf"^\| `{status}` \|", SIGNALS, re.MULTILINE)


@pytest.mark.parametrize("outcome", [outcome.value for outcome in Outcome])
def test_every_outcome_is_explained(outcome: str) -> None:
    assert f"- **`{outcome}`**:" in SIGNALS


@pytest.mark.parametrize(
    "name",
    [
        *(archetype.value for archetype in Archetype),
        *get_args(ThinkingBand),
        *(grade for grade in GRADE_ORDER if grade),
        "unscored",
    ],
)
def test_every_band_has_its_row(name: str) -> None:
    assert re.search(rf"^\| {name} \|", SIGNALS, re.MULTILINE)


@pytest.mark.parametrize(
    "name",
    [
        *Facts.__struct_fields__,
        *PromptHygiene._fields,
        *("interrupted", "api_error", "children_failed"),
        *("failures_per_100_calls", "usage", "losses", "basis"),
    ],
)
def test_every_fact_is_explained(name: str) -> None:
    assert f"`{name}`" in SIGNALS


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.agent)
def test_every_parser_has_its_row_and_its_page(parser: Parser) -> None:
    index = (DOCS / "formats.md").read_text(encoding="utf-8")
    row = re.search(rf"^\|.*\| `{parser.agent}` \|.*\]\((formats/.+\.md)\)", index, re.MULTILINE)
    assert row is not None
    assert (DOCS / row[1]).is_file()


def test_every_environment_variable_is_explained() -> None:
    read = {home.env for parser in PARSERS for home in parser.homes if home.env} | {"NO_COLOR", "COLUMNS"}
    assert all(f"| `{name}` |" in SETTINGS for name in read)


def test_every_option_is_explained() -> None:
    program = typer.main.get_command(cli.app)
    commands = [program, *getattr(program, "commands", {}).values()]
    options = {
        option
        for command in commands
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert "--fail-under" in options
    assert [option for option in sorted(options) if f"`{option}" not in SETTINGS] == []


# --- links and examples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, fragment = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{target} leads nowhere"
        if fragment:
            assert fragment in map(anchor, headings(there.read_text(encoding="utf-8"))), f"{target}: no such heading"


EXAMPLES = [
    pytest.param(code, shown, id=f"{name_of(page)} {number}")
    for page in (ROOT / "README.md", DOCS / "guide.md")
    for number, (code, shown) in enumerate(
        re.findall(
            r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?",
            page.read_text(encoding="utf-8"),
            re.DOTALL | re.MULTILINE,
        )
    )
]


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_python_examples_run_and_print_what_they_show(code: str, shown: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    if shown:
        assert printed.getvalue() == shown


def test_the_readme_has_an_example() -> None:
    assert any(str(example.id).startswith("README.md") for example in EXAMPLES)


def test_the_picture_shows_the_card_as_it_is() -> None:
    made = runpy.run_path(str(DOCS / "img" / "make.py"))
    is_current = made["draw"]() == made["PICTURE"].read_text(encoding="utf-8")
    assert is_current, "the card looks different now: run `make picture`"
