"""Every bundled sample gets the card that its story tells, and is a sound log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import demerit
from demerit.parsers import PARSERS
from demerit.parsers.records import Sample
from demerit.samples import SAMPLES

LONG_AFTER = datetime(2027, 1, 1, tzinfo=UTC)
PARENT = "444dbaaf-e857-4854-a93d-eaddc52e6985"


class Card(NamedTuple):
    """What a report says, as far as the stories decide it. A count is None where the log cannot tell it."""

    agent: str
    grade: str
    score: int
    outcome: str
    confidence: str
    ending: str | None
    archetype: str
    failures: int | None = 0
    retries: int | None = 0
    churn: int | None = 0
    streak: int | None = 0


CLAUDE, CODEX, CHAT = "claude-code", "codex", "chat"
CARDS = {
    # A clean fix in two prompts; the grep that finds nothing is no failure.
    "claude-good.jsonl": Card(CLAUDE, "A", 100, "completed", "high", None, "standard"),
    # One red test on the way, and a grep with exit 1 that only says "none".
    "claude-japanese.jsonl": Card(CLAUDE, "A", 97, "completed", "high", None, "standard", 1, 0, 0, 1),
    # No person took part. A permission that nobody could give is not held against the agent; a wrong path is.
    "claude-automation.jsonl": Card(CLAUDE, "A", 97, "completed", "medium", None, "automation", 1, 0, 0, 1),
    "claude-subagent.jsonl": Card(CLAUDE, "A", 100, "completed", "high", None, "quick"),
    f"{PARENT}/subagents/agent-affa36031efcf1b80.jsonl": Card(
        CLAUDE, "A", 100, "completed", "medium", None, "automation"
    ),
    # 15 for a last prompt that nobody answered, 3 for a failed test.
    "claude-abandoned.jsonl": Card(CLAUDE, "B", 82, "abandoned", "medium", None, "standard", 1, 0, 0, 1),
    # Esc during a command: the call is cancelled, not failed, and the person had the last word.
    "claude-interrupted.jsonl": Card(CLAUDE, "B", 82, "abandoned", "medium", "interrupted", "quick", 1, 0, 0, 1),
    "claude-api-error.jsonl": Card(CLAUDE, "B", 85, "abandoned", "medium", "api_error", "quick"),
    # 30 errored, 18 failures, 25 retries, 10 streak.
    "claude-looping.jsonl": Card(CLAUDE, "F", 17, "errored", "high", None, "quick", 6, 5, 0, 6),
    # 30 errored, 27 failures, 15 retries, 12 churn, 10 streak.
    "claude-bad.jsonl": Card(CLAUDE, "F", 6, "errored", "high", None, "standard", 9, 3, 3, 3),
    "codex-good.jsonl": Card(CODEX, "A", 100, "completed", "high", None, "quick"),
    # 6 failures, 20 churn: each patch touches the same two files.
    "codex-patches.jsonl": Card(CODEX, "C", 74, "completed", "high", None, "quick", 2, 0, 8, 2),
    # 24 failures, 10 retries, 10 streak, and a right answer in the end.
    "codex-failing.jsonl": Card(CODEX, "D", 56, "completed", "high", None, "quick", 8, 2, 0, 5),
    # This spelling logs no status of a call: failures are unmeasured, not 0.
    "chat-openai.json": Card(CHAT, "A", 100, "completed", "high", None, "quick", None, 0, 0, None),
    "chat-anthropic.json": Card(CHAT, "A", 97, "completed", "high", None, "quick", 1, 0, 0, 1),
}


def report(name: str) -> demerit.Report:
    [card] = demerit.grade(SAMPLES / name, now=LONG_AFTER)
    return card


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_sample_is_in_the_table() -> None:
    files = {path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*.json*")}
    assert files == set(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_card(name: str) -> None:
    got = report(name)
    signals = got.signals
    assert CARDS[name] == Card(
        got.agent,
        str(got.grade),
        int(got.score or 0),
        got.outcome.value,
        got.confidence.value,
        got.ending,
        got.archetype.value,
        signals.tool_failures,
        signals.tool_retries,
        signals.edit_churn,
        signals.longest_failure_streak,
    )
    assert got.losses == {}, "a sample must hold nothing that its parser does not understand"


@pytest.mark.parametrize("name", CARDS)
def test_one_parser_alone_claims_it(name: str) -> None:
    text = (SAMPLES / name).read_text(encoding="utf-8")
    is_document = name.endswith(".json")
    values = (json.loads(text),) if is_document else tuple(map(json.loads, text.splitlines()))
    claims = [parser.agent for parser in PARSERS if parser.sniff(Sample(values, is_document))]
    assert claims == [CARDS[name].agent]


def test_a_subagent_names_its_parent() -> None:
    child = report(f"{PARENT}/subagents/agent-affa36031efcf1b80.jsonl")
    assert (child.relation, child.parent_session_id) == ("subagent", PARENT)
    assert report("claude-subagent.jsonl").session_id == PARENT


def test_prompts_without_spaces_are_not_short() -> None:
    assert report("claude-japanese.jsonl").hygiene.short == 0


def test_the_bad_session_gets_advice_and_the_good_one_none() -> None:
    assert "same_call_fails_again" in [advice.rule for advice in report("claude-bad.jsonl").advice]
    assert report("claude-good.jsonl").advice == ()


@pytest.mark.parametrize("name", [name for name in CARDS if name.endswith(".jsonl")])
def test_sessions_are_small_and_from_an_invented_machine(name: str) -> None:
    logged = lines(SAMPLES / name)
    assert 6 <= len(logged) <= 40
    assert report(name).context is not None
    folders = {str(line.get("cwd") or (line.get("payload") or {}).get("cwd") or "") for line in logged}
    assert all(folder.startswith("/home/dev/") for folder in folders - {""})


@pytest.mark.parametrize("name", [name for name in CARDS if CARDS[name].agent == CLAUDE])
def test_claude_lines_hang_together(name: str) -> None:
    logged = lines(SAMPLES / name)
    parent = None
    for line in logged:
        if "uuid" in line:
            assert line["parentUuid"] == parent
            parent = line["uuid"]
    uuids = [line["uuid"] for line in logged if "uuid" in line]
    assert len(set(uuids)) == len(uuids)
    times = [line["timestamp"] for line in logged if "timestamp" in line]
    assert times == sorted(times)
    blocks = [
        block
        for line in logged
        for block in (line.get("message") or {}).get("content") or []
        if isinstance(block, dict)
    ]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert calls == results, "each call has one result, in order"
