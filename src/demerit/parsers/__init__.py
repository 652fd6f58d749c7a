"""One agent, one file: where its logs live, how to tell them by their content, and how to read them.

A parser is pure. It gets records (`records.Record`) from `demerit.sources` and gives Sessions; it opens
nothing and knows no clock. To add one: a file here, its line in `PARSERS`, its fixtures. CONTRIBUTING.md has
the recipe.
"""

from __future__ import annotations

from demerit.parsers import (
    aider,
    amp,
    antigravity,
    atif,
    chat,
    claude,
    claude_stream,
    cline,
    cline_cli,
    codex,
    copilot,
    cursor,
    droid,
    entire,
    gemini,
    goose,
    grok,
    kimi,
    kiro,
    opencode,
    openhands,
    pi,
    qwen,
    specstory,
    swe_agent,
)
from demerit.parsers.records import Parser, Sample

PARSERS: tuple[Parser, ...] = (
    claude.PARSER,
    claude_stream.PARSER,
    codex.PARSER,
    gemini.PARSER,
    opencode.PARSER,
    goose.PARSER,
    pi.PARSER,
    copilot.PARSER,
    qwen.PARSER,
    cline.PARSER,
    cline_cli.PARSER,
    aider.PARSER,
    amp.PARSER,
    kiro.PARSER,
    cursor.PARSER,
    droid.PARSER,
    entire.PARSER,
    antigravity.PARSER,
    grok.PARSER,
    kimi.PARSER,
    openhands.PARSER,
    swe_agent.PARSER,
    atif.PARSER,
    specstory.PARSER,
    chat.PARSER,
)
"""In the order in which they are asked. No two claim one source, so the order only saves time."""


def parser_for(sample: Sample) -> Parser | None:
    """The parser whose agent wrote a source that begins like this; None when it is nobody's."""
    return next((parser for parser in PARSERS if parser.sniff(sample)), None)


__all__ = ["PARSERS", "parser_for"]
