"""What people and programs see of a report: words, Markdown, JSON, and cards for the terminal."""

from __future__ import annotations

import io
import json
import os
import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from demerit.model import Usage
from demerit.quality.archetype import Archetype
from demerit.quality.outcome import Confidence, Facts, Outcome
from demerit.quality.report import (
    Advice,
    BreakdownLine,
    CallRef,
    Context,
    Hygiene,
    Report,
    ToolTally,
    UsageTotals,
)
from demerit.quality.score import Signals, grade_for
from demerit.quality.summary import Summary, summarize
from demerit.quality.thinking import Thinking
from demerit.quality.usage import RequestTotals
from demerit.render import (
    Failure,
    alike,
    arithmetic,
    clean,
    count,
    document,
    duration,
    escaped,
    facts,
    lost,
    markdown,
    shared_reason,
    title,
    tokens,
    unmeasured,
    why_unscored,
    worst_and_newest,
)
from demerit.terminal import Cards, console_for, watched

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
SCHEMA = json.loads((DOCS / "report.schema.json").read_text(encoding="utf-8"))
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

FAILED = [
    CallRef(3, 0, "Bash", None, "failed", "exit code 1"),
    CallRef(5, 0, "Edit", "/home/dev/shop/src/checkout/cart.py", "failed", "is_error flag"),
    CallRef(6, 0, "Bash", None, "failed", "exit code 1"),
    CallRef(6, 1, "Bash", None, "failed", "exit code 1"),
    CallRef(8, 0, "Bash", None, "failed", "exit code 1"),
]
RETRIED = CallRef(6, 1, "Bash", None, "same tool and input as the call right before", "exit code 1")
UNANSWERED = CallRef(11, None, None, None, "nobody answered the user's last word", "")

FULL = Report(
    path="/home/dev/.claude/projects/shop/11111111-2222-3333-4444-555555555555.jsonl",
    agent="claude-code",
    session_id="11111111-2222-3333-4444-555555555555",
    title="Round the cart total half up",
    models=("claude-opus-4-7", "claude-haiku-4-5"),
    started_at=datetime(2026, 2, 28, 9, 0, tzinfo=UTC),
    ended_at=datetime(2026, 2, 28, 10, 12, 30, 250000, tzinfo=UTC),
    outcome=Outcome.abandoned,
    confidence=Confidence.medium,
    score=65,
    grade="C",
    archetype=Archetype.deep,
    ending="interrupted",
    terminal=True,
    parent_session_id="99999999-2222-3333-4444-555555555555",
    statuses={"failed": 5, "ok": 12, "declined": 1},
    failures_per_100_calls=27.8,
    basis=("edit_churn",),
    advice=(Advice("prompts_repeat", "2 prompts repeat an earlier one word for word: say what was wrong."),),
    facts=Facts(3, 10, 11, False, 0, True),
    signals=Signals(18, 5, 1, None, 2, Outcome.abandoned),
    breakdown=(
        BreakdownLine("abandoned", 15, (UNANSWERED,)),
        BreakdownLine("5 tool failures", 15, tuple(FAILED)),
        BreakdownLine("1 retry", 5, (RETRIED,)),
    ),
    hygiene=Hygiene(3, 1, 2, 0, True),
    context=Context(152_331, 1),
    thinking=Thinking(12, 4, 1800, 2100, "high"),
    usage=UsageTotals(950, 1_234_567, 100_000, 34_000, 12_000, 40, None, 2_000),
    losses={"malformed_line": 2},
    relation="continuation",
    messages=12,
    duration_minutes=72.5,
    cwd="/home/dev/shop",
    branch="main",
    agent_version="2.1.0",
    tools={"Bash": ToolTally(10, 4), "Edit": ToolTally(8, 1)},
    events={"compaction": 1, "api_error": 2},
)
EMPTY = Report(
    path=None,
    agent="chat",
    session_id="-",
    title=None,
    models=(),
    started_at=None,
    ended_at=None,
    outcome=Outcome.unknown,
    confidence=Confidence.low,
    score=None,
    grade=None,
    archetype=Archetype.automation,
    ending=None,
    terminal=False,
    parent_session_id=None,
    statuses={},
    failures_per_100_calls=None,
    basis=("duration", "usage", "context", "models"),
    advice=(),
    facts=Facts(),
    signals=Signals(None, None, None, None, None),
    breakdown=(),
    hygiene=Hygiene(0, 0, 0, 0, False),
    context=None,
    thinking=None,
    usage=None,
    losses={},
)
PERFECT = msgspec.structs.replace(
    FULL,
    path="-",
    title="予定の時刻のずれを直す",
    score=100,
    grade="A",
    outcome=Outcome.completed,
    confidence=Confidence.high,
    breakdown=(),
    ending=None,
    basis=(),
    advice=(),
    signals=Signals(outcome=Outcome.completed),
    relation="subagent",
)
REPORTS = [FULL, EMPTY, PERFECT]
FAILURES = [Failure("/logs/package.json", "JSON, but no agent's log that demerit knows")]


def summary(reports: list[Report]) -> Summary:
    requests = RequestTotals()
    requests.add(
        [Usage(input_tokens=950, output_tokens=100, key="a"), Usage(input_tokens=950, output_tokens=90, key="a")]
    )
    return summarize(reports, requests.result())


def printed(reports: list[Report], width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(
        file=stream, width=width, force_terminal=colour, color_system="truecolor" if colour else None, markup=False
    )
    Cards(console, NOW, zone=UTC, home="/home/dev").all(reports, summary(reports))
    return shown(stream)


def shown(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def overview(reports: list[Report], width: int = 120) -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    cards = Cards(Console(file=stream, width=width, markup=False), NOW, zone=UTC, home="/home/dev")
    cards.overview(reports, summary(reports), "of the last 30 days")
    return shown(stream).splitlines()


def as_markdown(reports: list[Report]) -> str:
    return markdown([("", reports)], reports, summary(reports), FAILURES)


def same_as_snapshot(name: str, text: str) -> bool:
    """Whether `text` is what the snapshot holds; UPDATE_SNAPSHOTS=1 writes it anew, to be looked at in the diff."""
    path = HERE / "snapshots" / name
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    return text == path.read_text(encoding="utf-8")


# --- cleaning ---------------------------------------------------------------------------------------------

FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("plain text", "plain text", id="plain text stays"),
        pytest.param("größer 予定 🎈", "größer 予定 🎈", id="letters of any script stay"),
        pytest.param("a\tb\nc\r\nd\x0be", "a b c  d e", id="each white space becomes a space"),
        pytest.param("a\x85b\u2028c\u2029d\xa0e", "a b c d e", id="line ends beyond ASCII become spaces"),
        pytest.param("\x1b[1;31mred\x1b[0m", "red", id="colours go"),
        pytest.param("a\x1b[2J\x1b[Hb", "ab", id="clearing the screen goes"),
        pytest.param("\x1b]0;owned\x07x", "x", id="a window title goes with its text"),
        pytest.param("\x1b]0;owned\x1b\\x", "x", id="a window title ended by ST goes"),
        pytest.param("\x9d0;owned\x9cx", "x", id="a window title in 8 bits goes"),
        pytest.param("\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text", id="of a link the text stays"),
        pytest.param("\x9b31mred", "red", id="a colour in 8 bits goes"),
        pytest.param("\x1bPq#0\x1b\\x", "x", id="an image goes"),
        pytest.param("\x1bc\x1b(Bx", "x", id="resets and charsets go"),
        pytest.param("\x1b]0;never closed", "]0;never closed", id="what follows an unclosed sequence stays in sight"),
        pytest.param("\x1b\x1b[0m[31mx", "[31mx", id="a sequence that appears when another goes is none"),
        pytest.param("a\u202egpj.exe", "agpj.exe", id="nothing turns the text around"),
        pytest.param("a\u2066b\u2069c\u200bd\ufeffe\u00adf", "abcdef", id="nothing hides between letters"),
        pytest.param("tag\U000e0041\U000e007f", "tag", id="letters of the tag block go"),
        pytest.param("half \ud800 pair", "half \ufffd pair", id="half a surrogate pair is replaced"),
        pytest.param("\x00\x07\x08\x7f", "", id="other control characters go"),
        pytest.param("[bold]x[/bold]", "[bold]x[/bold]", id="Rich's markup is text"),
        pytest.param("x" * 5000, "x" * 2000, id="a long text is cut"),
    ],
)
def test_clean(text: str, left: str) -> None:
    assert clean(text) == left


@given(st.text() | st.text(alphabet="\x1b\x9b\x9d\x9c\x07[]0;mHP\\ a\u202e\u200b\n"))
def test_clean_leaves_nothing_to_obey(text: str) -> None:
    left = clean(text)
    assert not FORBIDDEN.search(left)
    assert not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in left)
    assert clean(left) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("a|b", "a&#124;b", id="a pipe ends no cell"),
        pytest.param("a\nb", "a b", id="a line end ends no row"),
        pytest.param("`rm`", "&#96;rm&#96;", id="a back-tick opens no code"),
        pytest.param("<script>&amp;", "&lt;script&gt;&amp;amp;", id="HTML is text"),
        pytest.param("@team", "@&#8203;team", id="nobody is called"),
        pytest.param("fixes #12", "fixes #&#8203;12", id="no issue is linked"),
        pytest.param("https://evil", "https:&#8203;//evil", id="no address is linked"),
        pytest.param("www.evil", "www.&#8203;evil", id="no address without a scheme is linked"),
        pytest.param("[a](b) ![c](d)", "\\[a\\](b) !\\[c\\](d)", id="no link and no image"),
        pytest.param("**a** _b_ ~c~ $d$", "\\*\\*a\\*\\* \\_b\\_ \\~c\\~ \\$d\\$", id="no emphasis and no formula"),
        pytest.param("\\|", "\\\\&#124;", id="a backslash protects nothing"),
        pytest.param("\x1b[31ma\u202e", "a", id="it is cleaned as well"),
    ],
)
def test_escaped(text: str, left: str) -> None:
    assert escaped(text) == left


EVIL = "\x1b]0;owned\x07\x9b2J\x1b[31m[bold]|`<script>alert(1)</script>@team #1 http://evil\u202e\u200b\r\n## x | y\x00"


def hostile(value: Any) -> Any:
    """`value` with every text in it, and every key that comes from a transcript, made hostile."""
    if isinstance(value, str) and not isinstance(value, Outcome | Confidence | Archetype):
        return EVIL + value
    if isinstance(value, tuple | list):
        return type(value)(map(hostile, value))
    if isinstance(value, dict):
        return {hostile(key): hostile(item) for key, item in value.items()}
    if isinstance(value, CallRef | BreakdownLine | Advice):
        return msgspec.structs.replace(
            value, **{name: hostile(getattr(value, name)) for name in value.__struct_fields__ if name != "points"}
        )
    return value


HOSTILE = msgspec.structs.replace(
    FULL,
    **{
        name: hostile(getattr(FULL, name))
        for name in FULL.__struct_fields__
        if name not in ("grade", "relation", "thinking", "context", "usage", "hygiene", "facts", "signals")
    },
)


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("width", [40, 100, 200])
def test_a_terminal_gets_nothing_to_obey(width: int, colour: bool) -> None:
    text = printed([HOSTILE, HOSTILE], width, colour)
    # What Rich itself writes: colours, and line ends.
    assert not FORBIDDEN.search(re.sub("\x1b\\[[0-9;]*m|\n", "", text))
    assert "owned" not in text
    assert "[bold]" in text
    assert not FORBIDDEN.search("".join(overview([HOSTILE] * 12, width)))


def test_markdown_gets_nothing_to_obey() -> None:
    text = markdown([("", [HOSTILE])], [HOSTILE], summary([HOSTILE, HOSTILE]), [Failure(EVIL, EVIL)])
    assert not FORBIDDEN.search(text.replace("\n", ""))
    assert "<" not in text
    assert "`" not in text
    assert not re.search(r"@\w|://|[^\\]\[", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {8}
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert [line[:8] for line in headings] == ["## Repor", "### C 65", "### No s"]


def test_json_gives_hostile_texts_as_they_are_and_nothing_to_obey() -> None:
    data = document([HOSTILE], summary([HOSTILE]), [Failure(EVIL, EVIL)])
    assert not FORBIDDEN.search(data.decode())
    value = json.loads(data)
    assert value["reports"][0]["title"] == HOSTILE.title
    assert value["reports"][0]["breakdown"][1]["calls"][1]["file"] == EVIL + str(FAILED[1].file)
    assert value["errors"] == [{"path": EVIL, "reason": EVIL}]


def test_a_file_name_that_is_no_text_costs_only_its_odd_letters_in_json() -> None:
    odd = msgspec.structs.replace(FULL, path="/x/\udcff.jsonl")
    value, same = (json.loads(document([report], summary([report]), [])) for report in (odd, FULL))
    assert value["reports"][0].pop("path") == "/x/\ufffd.jsonl"
    del same["reports"][0]["path"]
    assert value == same


# --- JSON -------------------------------------------------------------------------------------------------


def test_the_document_is_as_its_snapshot() -> None:
    data = document(REPORTS, summary(REPORTS), FAILURES)
    assert b"\n" not in data
    assert same_as_snapshot("report.json", msgspec.json.format(data, indent=2).decode() + "\n")


def test_the_document_fits_its_schema() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    validator = jsonschema_rs.Draft202012Validator(SCHEMA, validate_formats=True)
    validator.validate(json.loads(document(REPORTS, summary(REPORTS), FAILURES)))
    validator.validate(json.loads(document([], summary([]), [])))


def objects_in(value: Any, schema: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every object in a document beside the schema of it."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return objects_in(value, schema["anyOf"][0]) if value is not None else []
    if isinstance(value, list):
        return [found for item in value for found in objects_in(item, schema["items"])]
    if not isinstance(value, dict):
        return []
    if "properties" not in schema:
        return [found for item in value.values() for found in objects_in(item, schema["additionalProperties"])]
    inner = [found for key, item in value.items() for found in objects_in(item, schema["properties"][key])]
    return [(value, schema), *inner]


def test_every_key_is_in_the_schema_in_its_order() -> None:
    found = objects_in(json.loads(document(REPORTS, summary(REPORTS), FAILURES)), SCHEMA)
    assert len(found) > 30
    for value, schema in found:
        assert list(value) == list(schema["properties"]) == schema["required"]


def test_every_key_of_the_schema_is_documented() -> None:
    page = (DOCS / "report-json.md").read_text(encoding="utf-8")
    written: dict[str, list[str]] = {}
    for part in page.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        written[heading.replace(" ", "_")] = re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
    assert written.pop("The_object") == list(SCHEMA["properties"])
    assert written == {name: list(schema["properties"]) for name, schema in SCHEMA["$defs"].items()}


def test_times_end_in_z_and_thinking_is_an_object() -> None:
    report = json.loads(document([FULL], summary([FULL]), []))["reports"][0]
    assert report["started_at"] == "2026-02-28T09:00:00Z"
    assert report["ended_at"] == "2026-02-28T10:12:30.250000Z"
    assert report["thinking"]["band"] == "high"


# --- words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "said"),
    [(0, "0"), (950, "950"), (1000, "1k"), (152_331, "152k"), (999_600, "1M"), (1_250_000, "1.25M"), (3 * 10**9, "3G")],
)
def test_tokens(n: int, said: str) -> None:
    assert tokens(n) == said


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(0.2, "12 s"), (1.0, "1 min"), (72.5, "1 h 12 min"), (60 * 49 + 0.0, "2 d 1 h")],
)
def test_duration(minutes: float, said: str) -> None:
    assert duration(msgspec.structs.replace(FULL, duration_minutes=minutes)) == said


def test_no_duration_without_times() -> None:
    assert duration(EMPTY) == ""


def test_count() -> None:
    assert [count(1, "call"), count(0, "call"), count(1234, "call")] == ["1 call", "0 calls", "1,234 calls"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"title": "  a\n b\t c "}, "a b c", id="a title is one line"),
        pytest.param({"title": None}, f"session {FULL.session_id}", id="without a title its id"),
        pytest.param({"title": "\x1b[0m \u200b"}, f"session {FULL.session_id}", id="an invisible title is none"),
    ],
)
def test_title(change: dict[str, Any], said: str) -> None:
    assert title(msgspec.structs.replace(FULL, **change)) == said


def test_arithmetic() -> None:
    assert arithmetic(FULL) == ("100 - 15 - 15 - 5 =", "65 C")
    assert arithmetic(PERFECT) == ("nothing lost:", "100 A")
    lines = tuple(BreakdownLine(label, points, ()) for label, points in (("a", 30), ("b", 75)))
    assert arithmetic(msgspec.structs.replace(FULL, breakdown=lines, score=0, grade="F")) == (
        "100 - 30 - 75 =",
        "0 F, never below 0",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({}, "there is no message in it", id="no message"),
        pytest.param({"messages": 1}, "it may still be going on (--ended says that it is not)", id="not idle"),
        pytest.param(
            {"messages": 1, "facts": Facts(idle_long_enough=True)},
            "its log does not tell how it ended, and nothing in it counts against it",
            id="idle",
        ),
    ],
)
def test_why_unscored(change: dict[str, Any], said: str) -> None:
    assert why_unscored(msgspec.structs.replace(EMPTY, **change)) == said


def test_the_score_rests_on_less_only_where_a_scored_fact_is_missing() -> None:
    assert unmeasured(FULL) == "not measured: edit churn; the score rests on less"
    assert unmeasured(EMPTY) == "not measured: duration, usage, context, models"
    assert unmeasured(PERFECT) == ""


def test_lost() -> None:
    assert lost(FULL) == "15 for abandoned, 15 for 5 tool failures, 5 for 1 retry"


def test_calls_alike_stand_together() -> None:
    groups = alike(FULL.breakdown[1], "")
    assert [(group.messages, group.tool, len(group.calls)) for group in groups] == [
        ("#3", "Bash", 1),
        ("#5", "Edit", 1),
        ("#6 #8", "Bash", 3),
    ]
    many = BreakdownLine("9 tool failures", 27, tuple(msgspec.structs.replace(FAILED[0], message=n) for n in range(9)))
    assert [group.messages for group in alike(many, "")] == ["#0 #1 #2 +6"]


def test_a_reason_that_all_share_is_said_once_unless_it_is_a_status() -> None:
    assert [shared_reason(line) for line in FULL.breakdown] == ["", "", RETRIED.why]
    assert alike(FULL.breakdown[2], RETRIED.why)[0].reason == "exit code 1"


def test_hygiene_is_silent_when_nothing_fired() -> None:
    quiet = msgspec.structs.replace(FULL, hygiene=Hygiene(3, 0, 0, 0, False))
    assert "prompts" in dict(facts(FULL))
    assert "prompts" not in dict(facts(quiet))


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert facts(EMPTY) == []


# --- lists ------------------------------------------------------------------------------------------------


def sessions(n: int, **change: Any) -> list[Report]:
    return [
        msgspec.structs.replace(
            PERFECT,
            title=f"session number {i}",
            score=100 - i,
            grade=grade_for(100 - i),
            ended_at=NOW - timedelta(hours=i),
            relation=None,
            **change,
        )
        for i in range(n)
    ]


def test_few_sessions_are_listed_once() -> None:
    [(heading, listed)] = worst_and_newest(sessions(10))
    assert heading == "Newest first"
    assert [report.score for report in listed] == list(range(100, 90, -1))


def test_many_sessions_give_the_worst_and_the_newest() -> None:
    unscored = msgspec.structs.replace(sessions(1)[0], score=None, grade=None, ended_at=NOW + timedelta(hours=1))
    (worst, worst_listed), (newest, newest_listed) = worst_and_newest([*sessions(30), unscored])
    assert (worst, newest) == ("The 10 worst", "The 10 newest")
    assert [report.score for report in worst_listed] == list(range(71, 81))
    assert [report.score for report in newest_listed] == [None, *range(100, 91, -1)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"relation": "subagent"}, id="a sub-agent is not listed"),
        pytest.param({"messages": 0}, id="a session without a message is not listed"),
    ],
)
def test_what_is_not_listed(change: dict[str, Any]) -> None:
    assert worst_and_newest([msgspec.structs.replace(FULL, **{"relation": None, **change})]) == []


# --- Markdown and the terminal ----------------------------------------------------------------------------


def test_markdown_is_as_its_snapshot() -> None:
    assert same_as_snapshot("report.md", as_markdown(REPORTS))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_cards_are_as_their_snapshot(width: int) -> None:
    assert same_as_snapshot(f"cards-{width}.txt", printed(REPORTS, width))


def test_cards_without_the_letters_for_it_are_as_their_snapshot() -> None:
    assert same_as_snapshot("cards-ascii.txt", printed([FULL], 80, encoding="ascii"))


@pytest.mark.parametrize("width", [60, 120])
def test_the_overview_is_as_its_snapshot(width: int) -> None:
    lines = overview([FULL, EMPTY, PERFECT, *sessions(12)], width)
    assert same_as_snapshot(f"overview-{width}.txt", "\n".join(lines) + "\n")


WIDE = msgspec.structs.replace(
    FULL,
    title="予定の時刻のずれを直す" * 9,
    path="/home/dev/" + "とても長い名前" * 20 + ".jsonl",
    models=("very-long-model-name-" * 4,),
    breakdown=(
        BreakdownLine(
            "3 tool failures",
            9,
            (
                CallRef(12345, 0, "mcp__a_server__a_tool_with_a_long_name", "予定/" * 30, "failed", "evidence " * 30),
                CallRef(3, 0, "Bash", None, "failed", "x" * 300),
                CallRef(3, None, None, None, "a reason " * 20, ""),
            ),
        ),
    ),
)


@pytest.mark.parametrize(
    "report", [FULL, EMPTY, PERFECT, HOSTILE, WIDE], ids=["full", "empty", "perfect", "hostile", "wide"]
)
def test_no_line_is_wider_than_the_terminal(report: Report) -> None:
    for width in [*range(32, 130), 160, 200]:
        lines = [*printed([report, report], width).splitlines(), *overview([report] * 12, width)]
        assert max(map(cell_len, lines)) <= width, f"at width {width}"


def test_colour_changes_nothing_but_colour() -> None:
    coloured = printed(REPORTS, 80, colour=True)
    assert "\x1b[" in coloured
    plain = re.sub("\x1b\\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == [line.rstrip() for line in printed(REPORTS).splitlines()]


def test_times_at_the_ends_of_the_calendar_are_shown() -> None:
    for at in (datetime.min, datetime.max):
        odd = msgspec.structs.replace(FULL, started_at=at.replace(tzinfo=UTC), ended_at=at.replace(tzinfo=UTC))
        for hours in (-12, 14):
            stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
            cards = Cards(Console(file=stream, width=100), NOW, zone=timezone(timedelta(hours=hours)))
            cards.card(odd)
            cards.overview([odd], summary([odd]), "")
            assert str(at.year) in shown(stream)


def test_a_count_that_was_cut_says_how_many_more() -> None:
    calls = tuple(msgspec.structs.replace(FAILED[0], message=n, tool=f"T{n}") for n in range(200))
    cut = msgspec.structs.replace(FULL, breakdown=(BreakdownLine("450 tool failures", 30, calls),))
    assert "+446 more" in printed([cut])
    assert "445 more" in as_markdown([cut])


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("columns", "width"),
    [
        pytest.param(None, 100, id="100 columns into a pipe"),
        pytest.param("60", 60, id="COLUMNS decides"),
        pytest.param("0", 100, id="no width of nothing"),
        pytest.param("wide", 100, id="what is no number is passed over"),
        pytest.param("٦٠", 100, id="digits of other scripts are passed over"),
    ],
)
def test_the_width_of_a_pipe(columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console = console_for(io.StringIO(), {} if columns is None else {"COLUMNS": columns})
    assert (console.width, console.is_terminal) == (width, False)


def test_the_width_of_a_terminal_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert console_for(_Terminal(), {}).is_terminal
    assert console_for(_Terminal(), {"COLUMNS": "77"}).width == 77


@pytest.mark.parametrize("columns", ["40", "120"])
def test_a_progress_bar_hands_everything_on(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(watched(iter("abc"), [1000, 0, 5000])) == ["a", "b", "c"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "3 of 3 files" in err
