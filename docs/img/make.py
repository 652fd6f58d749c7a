"""Draws card.svg: a bundled sample's card as a terminal shows it. `make picture` runs this."""

from __future__ import annotations

import io
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

import demerit
from demerit.samples import SAMPLES
from demerit.terminal import Cards

PICTURE = Path(__file__).with_name("card.svg")
_SAMPLE = "claude-bad.jsonl"
_NOW = datetime(2026, 12, 1, tzinfo=UTC)
# Rich asks a server for a font; the viewer's own monospace font does as well, without a request.
_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def draw() -> str:
    """The picture as SVG text."""
    folder = Path.cwd()
    os.chdir(SAMPLES)  # so that the card shows no path of this machine
    try:
        [report] = demerit.grade(_SAMPLE, now=_NOW)
    finally:
        os.chdir(folder)
    console = Console(
        file=io.StringIO(), record=True, width=100, force_terminal=True, color_system="truecolor", _environ={}
    )
    Cards(console, _NOW, zone=UTC).card(report)
    return _FONT.sub("", console.export_svg(title=f"demerit grade {_SAMPLE}"))


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
