"""What holds for all parsers together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from demerit.parsers import PARSERS
from demerit.parsers.records import Coverage, Parser
from demerit.sources import Unreadable, _lines, _recognise, read_sessions

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "parsers"


def logs() -> Iterator[Path]:
    """Every fixture and every sample that is a file of its own."""
    for folder in (FIXTURES, ROOT / "src" / "demerit" / "samples"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                yield path


def claims(path: Path) -> list[str]:
    """The agents whose parsers say that a file is theirs, whatever order they are asked in."""
    with path.open("rb") as file:
        _, sample, _ = _recognise(_lines(file))
    return [parser.agent for parser in PARSERS if parser.sniff(sample)]


@pytest.mark.parametrize("path", list(logs()), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_two_parsers_claim_one_file(path: Path) -> None:
    assert len(claims(path)) <= 1


def test_no_two_parsers_claim_one_real_file(corpus: Path) -> None:
    for path in sorted(corpus.rglob("*")):
        if path.is_file():
            assert len(claims(path)) <= 1, path


def test_agents_have_names_of_their_own() -> None:
    # `claude -p` streams are Claude Code's, in a form of their own.
    assert [agent for agent, found in Counter(p.agent for p in PARSERS).items() if found > 1] == ["claude-code"]
    assert len({parser.title for parser in PARSERS}) == len(PARSERS)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.agent)
def test_a_parser_has_tests_and_a_page(parser: Parser) -> None:
    module = parser.parse.__module__.rpartition(".")[2]
    assert (FIXTURES / f"test_{module}.py").exists(), "write its tests: CONTRIBUTING.md, Add a parser"
    pages = [page for page in (ROOT / "docs" / "formats").glob("*.md") if page.stem.replace("-", "") in (
        module.replace("_", ""), parser.agent.replace("-", ""))]  # fmt: skip
    assert pages, f"write docs/formats/{parser.agent}.md"


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.agent)
def test_a_parser_says_what_its_logs_can_tell(parser: Parser) -> None:
    assert set(parser.coverage) <= {"yes", "partly", "no"}
    assert len(parser.coverage) == len(Coverage._fields)


@pytest.mark.parametrize("path", list(logs()), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_fixture_is_read_or_named(path: Path) -> None:
    reason = ""
    try:
        sessions = read_sessions(path)
    except Unreadable as error:
        sessions, reason = [], error.reason
    assert sessions or reason
