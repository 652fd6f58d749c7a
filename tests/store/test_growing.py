"""A session that goes on: what is added to it, against the same log read whole."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from sqlalchemy import select
from tests.parsers.claude_lines import Line, assistant, call, line, result, usage, user
from tests.store.killing import contents, difference, settings_for

from demerit import ingest
from demerit.store import Store, growing
from demerit.store.reads import read_report
from demerit.store.schema import session_defects

LATER = datetime(2040, 1, 1, tzinfo=UTC)
WRITTEN = LATER.timestamp() - 7200
# What a whole read does not leave behind, or numbers in another order.
LEFT_OUT = ("logs.checkpoint", "sessions.digest", "sessions.advice")


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How often a log was added to (True), and how often that could not be done (False)."""
    counted: Counter[bool] = Counter()
    add = growing.grow

    def counting(*args: object) -> int | None:
        number = add(*args)  # type: ignore[arg-type]
        counted[number is not None] += 1
        return number

    monkeypatch.setattr(ingest, "grow", counting)
    monkeypatch.setattr(ingest, "_WORTH_A_STATE", 0)
    return counted


def kept(url: str, path: Path, steps: Iterator[bytes]) -> Store:
    """A store that saw the log after each of the steps."""
    store = Store.open(url)
    settings = settings_for(url, workers=1)
    path.write_bytes(b"")
    for step in steps:
        with path.open("ab") as file:
            file.write(step)
        os.utime(path, (WRITTEN, WRITTEN))
        result = ingest.sync(store, settings, [path], LATER, debug=True)
        assert not result.failed
    return store


def compare(tmp_path: Path, url: str, content: bytes, cuts: list[int]) -> None:
    path = tmp_path / "log.jsonl"
    ends = [*cuts, len(content)]
    with kept(url, path, (content[a:b] for a, b in zip([0, *cuts], ends, strict=True) if b > a)) as store:
        found = contents(store, LEFT_OUT)
        with store.reading() as connection:
            report = to_builtins(read_report(connection, 1))
    clean = f"sqlite:///{tmp_path / 'clean.db'}"
    with kept(clean, path, iter([content])) as store:
        wanted = contents(store, LEFT_OUT)
        with store.reading() as connection:
            card = to_builtins(read_report(connection, 1))
    assert {key: value for key, value in card.items() if report[key] != value} == {}
    for told in (found, wanted):
        rows: list[Any] = list(told["usage_events"].values())
        without = [{name: value for name, value in row.items() if name != "place"} for row in rows]
        told["usage_events"] = {str(row): row for row in without}
    assert difference(found, wanted) is None
    for name in ("clean.db", "clean-archive.db"):
        for end in ("", "-wal", "-shm"):
            (tmp_path / f"{name}{end}").unlink(missing_ok=True)


def working(turns: int) -> list[Line]:
    """A person asks once, and the agent works on it: every third call fails, every fifth changes a file again."""
    lines: list[Line] = [user("Make the orders test pass, please", 0)]
    for turn in range(turns):
        made = (
            call(f"toolu_{turn}", "Edit", file_path=f"/p/{turn % 3}.py")
            if turn % 5 == 0
            else call(f"toolu_{turn}", "Bash", command=f"t {turn}")
        )
        lines.append(assistant(made, id=f"msg_{turn}", second=10 * turn + 1, used=usage(fresh=turn)))
        lines.append(result(f"toolu_{turn}", f"said {turn}", is_error=turn % 3 == 0, second=10 * turn + 2))
    return lines


def circling(turns: int, seed: int) -> list[Line]:
    """An agent that says and does few different things, and what a person, the harness and sub-agents say meanwhile."""
    chosen = random.Random(seed)
    lines = working(5)
    calls = [("Bash", "a"), ("Bash", "b"), ("Read", "a")]
    made = ("calls", "round", "run", "both", "text", "texts", "prompt", "reminder", "sidechain", "summary")
    second = 100.0
    for turn in range(turns):
        [kind] = chosen.choices(made, (8, 4, 3, 2, 2, 2, 2, 1, 1, 0.4))
        batches: dict[str, list[Any]] = {
            "calls": [[chosen.choice(calls)]],
            "round": [[one] for one in chosen.choice([calls[:2], calls]) * 3],
            "run": [[chosen.choice(calls)]] * 4,
            "both": [chosen.sample(calls, 2)],
            "sidechain": [[calls[0]]],
        }
        for place, many in enumerate(batches.get(kind, [])):
            aside = {"isSidechain": kind == "sidechain"}
            names = [f"t_{turn}_{place}_{number}" for number in range(len(many))]
            asked = [call(name, tool, command=given) for name, (tool, given) in zip(names, many, strict=True)]
            second += 1
            lines.append(assistant(*asked, id=f"m_{turn}_{place}", second=second, **aside))
            told = chosen.choice("xy") if chosen.random() < 0.3 else "x"
            lines += [result(name, told, second=second, **aside) for name in names if chosen.random() < 0.97]
        for place in range({"text": 1, "texts": 7}.get(kind, 0)):
            second += 1
            lines.append(assistant(chosen.choice(["Done."] * 9 + ["Waiting."]), id=f"m_{turn}_{place}", second=second))
            if chosen.random() < 0.3:
                lines.append(user("continue", second))
        second += 1
        if kind == "prompt":
            lines.append(user(chosen.choice(["continue", "No."]), second))
        elif kind == "reminder":
            lines.append(user("Look at the list.", second, isMeta=True))
        elif kind == "summary":
            lines.append(line("system", second, subtype="compact_boundary", compactMetadata={"trigger": "auto"}))
            lines.append(user("Summary.", second, isCompactSummary=True))
    return lines


def encoded(lines: list[Line]) -> list[bytes]:
    return [json.dumps(line).encode() + b"\n" for line in lines]


def test_a_long_run_is_added_to_line_by_line(tmp_path: Path, database_url: str, grown: Counter[bool]) -> None:
    lines = encoded(working(30))
    begun = len(b"".join(lines[:40]))
    cuts, at = [begun], begun
    for one in lines[40:-1]:
        at += len(one)
        cuts.append(at)
    compare(tmp_path, database_url, b"".join(lines), cuts)
    assert grown[True] >= 20, "lines are added, not read again"


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_rounds_are_found_wherever_the_log_was_cut(tmp_path: Path, grown: Counter[bool], seed: int) -> None:
    lines = encoded(circling(60, seed))
    ends = [len(b"".join(lines[:at])) for at in range(12, len(lines))]
    url = f"sqlite:///{tmp_path / 'demerit.db'}"
    compare(tmp_path, url, b"".join(lines), ends)
    assert grown[True] > grown[False], "lines are added, not read again"
    with Store.open(url) as store, store.reading() as connection:
        [row] = connection.execute(select(session_defects)).mappings()
    found = ("identical_repeats", "repeats_not_evaluated", "repeats_rescued", "loops", "stagnations", "cycles")
    assert all(row[name] for name in found), "there is something to be equal"


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_real_logs(tmp_path: Path, corpus: Path, agent: str, grown: Counter[bool]) -> None:
    chosen = random.Random(4)
    for path in sorted((corpus / agent).glob("*.jsonl")):
        content = path.read_bytes()
        ends = [at + 1 for at, byte in enumerate(content) if byte == 10][:-1]
        if len(ends) < 30 or len(content) > 400_000:
            continue
        cuts = sorted({ends[len(ends) // 2], *chosen.sample(ends[len(ends) // 2 :], 4)})
        folder = tmp_path / path.stem
        folder.mkdir()
        compare(folder, f"sqlite:///{folder / 'demerit.db'}", content, cuts)
    assert grown[True], "only sessions of a few messages are read whole"
