"""Logs to measure on: real ones from a folder beside the repository where there are any, else the bundled samples.

Copies get ids and days of their own, so that no reader can take them for replays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / ".data"
CORPUS = ROOT.parent / "shared" / "corpus" / "transcripts"
SAMPLES = ROOT / "src" / "demerit" / "samples"

_IDS = re.compile(
    rb'("(?:uuid|parentUuid|sessionId|requestId|leafUuid|messageId|tool_use_id|toolUseID|parentToolUseID|id|call_id)"'
    rb'\s*:\s*")(?=[^"])'
)


_DAY = re.compile(rb"20\d\d-\d\d-\d\d(?=T\d\d:)")


@cache
def _later(day: bytes, days: int) -> bytes:
    try:
        return (date.fromisoformat(day.decode()) + timedelta(days)).isoformat().encode()
    except (ValueError, OverflowError):
        return day


def originals(agent: str) -> list[Path]:
    """The logs of `claude` or `codex` to start from."""
    folder = CORPUS / agent
    found = sorted(folder.glob("*.jsonl")) if folder.is_dir() else sorted(SAMPLES.rglob(f"{agent}-*.jsonl"))
    return [path for path in found if path.stat().st_size]


def on_a_day_of_its_own(content: bytes, number: int) -> bytes:
    """A log with other ids, so many days before it was."""
    return _DAY.sub(lambda day: _later(day[0], -(number % 20_000)), _IDS.sub(rb"\g<1>%x." % number, content))


def copies(agent: str, total_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents of copies of the originals, with ids of their own, `total_bytes` in all or a little more."""
    sources = [(path.stem, path.read_bytes()) for path in originals(agent)]
    made = number = 0
    while made < total_bytes:
        for stem, content in sources:
            copy = on_a_day_of_its_own(content, number)
            yield f"{number}-{stem}", copy if copy.endswith(b"\n") else copy + b"\n"
            made += len(copy)
            if made >= total_bytes:
                return
        number += 1


def folder_of_logs(agent: str, total_bytes: int) -> Path:
    """A folder of logs as the agent itself would keep them, made once."""
    home = DATA / f"{agent}-{total_bytes >> 20}MiB"
    logs = home / ("projects/shop" if agent == "claude" else "sessions/2026/05/02")
    if not (home / "complete").exists():
        logs.mkdir(parents=True, exist_ok=True)
        for name, content in copies(agent, total_bytes):
            if agent == "codex":  # other tools know its logs by their names
                name = f"rollout-2026-05-02T10-00-00-{uuid5(NAMESPACE_OID, name)}"
            (logs / f"{name}.jsonl").write_bytes(content)
        (home / "complete").touch()
    return home


def one_log(agent: str, total_bytes: int) -> Path:
    """One log of that size, made once."""
    path = DATA / f"{agent}-{total_bytes >> 20}MiB.jsonl"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        with path.with_suffix(".part").open("wb") as file:
            for _, content in copies(agent, total_bytes):
                file.write(content)
        path.with_suffix(".part").rename(path)
    return path
