"""What `demerit doctor` finds on a machine, and how it says so."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.test_cli import bad, good

from demerit import __version__, config, doctor, ingest, sources
from demerit.cli import main
from demerit.doctor import Survey, coverage_table, in_words
from demerit.library import Graded, grade_file
from demerit.parsers import PARSERS
from demerit.parsers.records import Coverage, Home, Parser
from demerit.sources import Unreadable
from demerit.store import Store

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA = json.loads((DOCS / "doctor.schema.json").read_text(encoding="utf-8"))
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def surveyed(survey: Survey) -> Any:
    for path in survey.paths:
        survey.add(grade_file(str(path), NOW, False))
    return json.loads(doctor.document(survey.result()))


def agent(found: Any, key: str) -> Any:
    [wanted] = [agent for agent in found["agents"] if agent["agent"] == key]
    return wanted


def damaged(path: Path) -> Path:
    """A log with a line that was cut, another of an unknown kind, and the first again."""
    lines = good("damaged").text.splitlines()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([lines[0], '{"type": "user", "mess', lines[1], '{"type": "user", "mess']) + "\n")
    return path


# --- what is found ----------------------------------------------------------------------------------------


def test_the_folders_of_an_agent_and_what_lies_in_them(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects"
    good("one").write(projects / "p" / "one.jsonl")
    last = Path(bad("two").write(projects / "p" / "two.jsonl"))
    os.utime(projects / "p" / "one.jsonl", (0, 0))
    os.utime(last, (1_770_000_000, 1_770_000_000))
    (projects / "p" / "picture.png").write_bytes(b"x")
    found = agent(surveyed(Survey(tmp_path, {})), "claude-code")
    assert found["folders"] == [
        {
            "path": str(projects),
            "patterns": ["**/*.jsonl"],
            "variable": "CLAUDE_CONFIG_DIR",
            "is_moved": False,
            "exists": True,
            "files": 2,
            "others": 1,
        }
    ]
    assert (found["files"], found["sessions"]) == (2, 2)
    assert found["bytes"] == sum(path.stat().st_size for path in projects.glob("p/*.jsonl"))
    assert found["newest"] == "2026-02-02T02:40:00Z"


def test_a_folder_that_a_variable_moved(tmp_path: Path) -> None:
    good().write(tmp_path / "moved" / "projects" / "a.jsonl")
    found = surveyed(Survey(tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path / "moved"), "CODEX_HOME": "/nowhere"}))
    [folder] = agent(found, "claude-code")["folders"]
    assert folder["path"] == str(tmp_path / "moved" / "projects")
    assert (folder["is_moved"], folder["exists"], folder["files"]) == (True, True, 1)
    assert [folder["exists"] for folder in agent(found, "codex")["folders"]] == [False, False]


@pytest.mark.parametrize("is_moved", [False, True])
def test_every_folder_is_the_one_that_logs_are_read_from(is_moved: bool, tmp_path: Path) -> None:
    homes = [home for parser in PARSERS for home in parser.homes if home.pattern.endswith((".json", ".jsonl"))]
    environ = {home.env: str(tmp_path / "moved" / home.env) for home in homes if home.env} if is_moved else {}
    for parser in Survey(tmp_path, environ).result().agents:
        for folder in parser.folders:
            assert folder.is_moved == bool(folder.variable and is_moved)
            for pattern in folder.patterns:
                if pattern.endswith((".json", ".jsonl")):
                    good(folder.path).write(Path(folder.path, pattern.replace("**/", "").replace("*", "x")))
    found = [folder for agent in Survey(tmp_path, environ).result().agents for folder in agent.folders]
    assert {folder.path for folder in found if folder.exists} == {folder.path for folder in found if folder.files}
    assert len({folder.path for folder in found if folder.files}) >= 3


def test_a_log_counts_for_the_agent_that_wrote_it_wherever_it_lies(tmp_path: Path) -> None:
    sessions = tmp_path / ".codex" / "sessions"
    good().write(sessions / "claude.jsonl")
    found = surveyed(Survey(tmp_path, {}))
    assert agent(found, "claude-code")["files"] == 1
    assert agent(found, "codex")["files"] == 0
    assert agent(found, "codex")["folders"][0]["files"] == 1


def test_losses_are_counted_with_the_place_of_the_first(tmp_path: Path) -> None:
    good("a").write(tmp_path / "a.jsonl")
    first, second = damaged(tmp_path / "b.jsonl"), damaged(tmp_path / "c.jsonl")
    found = surveyed(Survey(tmp_path, {}, [str(tmp_path)]))
    [loss] = agent(found, "claude-code")["losses"]
    offset = first.read_bytes().index(b'{"type": "user", "mess')
    assert loss == {"kind": "malformed_line", "count": 4, "path": str(first), "offset": offset}
    assert second.exists()


def test_a_log_that_went_away_has_no_place_any_more(tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.jsonl")
    survey = Survey(tmp_path, {}, [str(path)])
    survey.add(grade_file(str(path), NOW, False))
    path.unlink()
    [loss] = next(agent for agent in survey.result().agents if agent.files).losses
    assert (loss.count, loss.offset) == (2, None)


def test_what_gave_no_session_is_grouped_by_reason_without_what_it_holds(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.json").write_text(json.dumps({f"secret-{number}": 1}))
    (tmp_path / "x.jsonl").write_text("")
    with sqlite3.connect(tmp_path / "shop.json") as database:
        database.execute("create table carts (id)")
    database.close()
    found = surveyed(Survey(tmp_path, {}, [str(tmp_path)]))
    assert found["skipped"] == [
        {
            "reason": "JSON, but no agent's log that demerit knows",
            "files": 5,
            "examples": [str(tmp_path / f"{number}.json") for number in range(3)],
        },
        {
            "reason": "an SQLite database, but no agent's that demerit knows",
            "files": 1,
            "examples": [str(tmp_path / "shop.json")],
        },
        {"reason": "it is empty", "files": 1, "examples": [str(tmp_path / "x.jsonl")]},
    ]
    assert found["unreadable"] == []
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("reason", "group", "said"),
    [
        ("no permission to read it", "unreadable", "no permission to read it"),
        ("SQLite says: file is not a database", "unreadable", "SQLite says: file is not a database"),
        ("its link leads nowhere", "unreadable", "its link leads nowhere"),
        (
            "demerit failed on it (ValueError: my secret), which is our fault; --debug shows where",
            "unreadable",
            "demerit failed on it (ValueError), which is our fault; --debug shows where",
        ),
        (None, "skipped", "no session in it"),
        (
            "no JSON in its first lines, so no agent's log that demerit knows",
            "skipped",
            "no JSON in its first lines, so no agent's log that demerit knows",
        ),
    ],
)
def test_what_could_not_be_read_is_told_from_what_is_no_log(
    reason: str | None, group: str, said: str, tmp_path: Path
) -> None:
    path = good().write(tmp_path / "a.jsonl")
    survey = Survey(tmp_path, {}, [path])
    survey.add(Graded(path, reason=reason))
    found = json.loads(doctor.document(survey.result()))
    assert found[group] == [{"reason": said, "files": 1, "examples": [path]}]
    assert found["files"][0]["reason"] == said


def test_a_name_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no such file or folder"):
        Survey(tmp_path, {}, [str(tmp_path / "nope")])


# --- coverage ---------------------------------------------------------------------------------------------


def test_the_page_of_formats_has_the_coverage_of_every_parser() -> None:
    path = DOCS / "formats.md"
    page = path.read_text(encoding="utf-8")
    between = re.compile(r"(?<=<!-- coverage -->\n).*?(?=<!-- /coverage -->)", re.DOTALL)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        page = between.sub(lambda _: coverage_table(), page)
        path.write_text(page, encoding="utf-8")
    is_current = between.findall(page) == [coverage_table()]
    assert is_current, "a parser covers something else now: run UPDATE_SNAPSHOTS=1 make test ARGS='-k coverage'"


def test_the_table_has_a_row_for_each_format() -> None:
    lines = coverage_table().splitlines()
    assert lines[0] == (
        "| agent | how calls went | exit codes | declined calls | usage | models | times | sub-agents | compactions "
        "| thinking |"
    )
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {parser.title}" for parser in PARSERS]
    assert {line.count("|") for line in lines} == {len(Coverage._fields) + 2}


def parser(title: str, **coverage: Any) -> Parser:
    return Parser("x", title, (Home(".x", "*.jsonl"),), lambda _: False, lambda *_: [], coverage=Coverage(**coverage))


def test_where_formats_of_one_agent_differ_it_tells_partly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    two = (parser("X", times="no", usage="no"), parser("X (stream)", usage="no", models="partly"))
    monkeypatch.setattr(doctor, "PARSERS", two)
    [found] = Survey(tmp_path, {}, [str(tmp_path)]).result().agents
    assert (found.title, found.coverage["times"], found.coverage["usage"]) == ("X", "partly", "no")
    assert (found.coverage["models"], found.coverage["thinking"]) == ("partly", "yes")


# --- in words ---------------------------------------------------------------------------------------------


def words(survey: Survey, home: Path) -> str:
    for path in survey.paths:
        survey.add(grade_file(str(path), NOW, False))
    return in_words(survey.result(), str(home))


def test_a_machine_in_words(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects"
    for name in ("a", "b"):
        good(name).write(projects / f"{name}.jsonl")
        os.utime(projects / f"{name}.jsonl", (1_770_000_000, 1_770_000_000))
    size = sum(path.stat().st_size for path in projects.iterdir())
    (projects / "empty.jsonl").write_text("")
    first, _, rest = words(Survey(tmp_path, {}), tmp_path).partition("\n\n")
    assert first.startswith(f"demerit {__version__}, Python 3.")
    assert rest.startswith(
        f"Claude Code (claude-code): 2 sessions in 2 files, {size / 1000:.3g} kB, "
        "the newest of 2026-02-02 02:40 UTC\n"
        "  looked in  ~/.claude/projects: 3 logs (CLAUDE_CONFIG_DIR may move it)\n"
        "  tells      how calls went, exit codes, declined calls, usage, models, sub-agents, compactions, thinking\n"
        "  partly     times\n"
        "\n"
        "No log\n"
        "  1 file: it is empty\n"
        "      ~/.claude/projects/empty.jsonl\n"
        "\n"
        "Not on this machine\n"
        "  Codex: ~/.codex/sessions (CODEX_HOME may move it), ~/.codex/archived_sessions (CODEX_HOME may move it)\n"
    )
    assert re.search(r"\n\nWithout a folder of their own, so to be named on the command line: .*Message list", rest)


def test_named_files_in_words(tmp_path: Path) -> None:
    good().write(tmp_path / "good.jsonl")
    damaged(tmp_path / "logs" / "cut.jsonl")
    (tmp_path / "package.json").write_text('{"name": "shop"}')
    text = words(Survey(tmp_path, {}, [str(tmp_path)]), tmp_path)
    offset = len(good("damaged").text.splitlines()[0]) + 1
    assert f"  unread     malformed line (2), first in ~/logs/cut.jsonl at byte {offset}\n" in text
    assert (
        "\nFiles\n"
        "  ~/good.jsonl: claude-code, 1 session\n"
        "  ~/package.json: JSON, but no agent's log that demerit knows\n"
        "  ~/logs/cut.jsonl: claude-code, 1 session\n"
    ) in text
    assert "looked in" not in text
    assert "Not on this machine" not in text


def test_many_named_files_are_not_listed(tmp_path: Path) -> None:
    for number in range(21):
        good(str(number)).write(tmp_path / f"{number}.jsonl")
    text = words(Survey(tmp_path, {}, [str(tmp_path)]), tmp_path)
    assert "\nFiles\n" not in text
    assert text.endswith("--format json lists every file, and whose it was taken for.\n")


def test_what_an_agent_tells_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = parser("X", times="no", usage="partly", subagents="no")
    monkeypatch.setattr(doctor, "PARSERS", (x,))
    monkeypatch.setattr(sources, "PARSERS", (x,))
    (tmp_path / ".x").mkdir()
    assert words(Survey(tmp_path, {}), tmp_path).split("\n\n", 1)[1] == (
        "X (x): no session\n"
        "  looked in  ~/.x: 0 logs\n"
        "  tells      how calls went, exit codes, declined calls, models, compactions, thinking\n"
        "  partly     usage\n"
        "  never      times, sub-agents\n"
    )


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="a file's name is text there")
def test_a_name_that_is_no_text_can_be_said(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")
    good().write(Path(path))
    survey = Survey(tmp_path, {}, [path])
    assert "  ~/\ufffd.jsonl: claude-code, 1 session\n" in words(survey, tmp_path)
    assert json.loads(doctor.document(survey.result()))["files"][0]["path"] == f"{tmp_path}/\ufffd.jsonl"


def test_neither_names_nor_reasons_reach_the_terminal_as_they_are(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    path = bad().write(tmp_path / f"{evil}.jsonl")
    survey = Survey(tmp_path, {}, [path])
    survey.add(Graded(path, reason=f"SQLite says: {evil}"))
    assert not {"\x1b", "\x07", "\u202e"} & set(in_words(survey.result(), str(tmp_path)))


# --- JSON -------------------------------------------------------------------------------------------------


def objects_in(value: Any, schema: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every object in a document beside the schema of it."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        return [found for item in value for found in objects_in(item, schema["items"])]
    if not isinstance(value, dict):
        return []
    inner = [found for key, item in value.items() for found in objects_in(item, schema["properties"][key])]
    return [(value, schema), *inner]


def test_the_document_fits_its_schema_in_every_key(tmp_path: Path) -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    validator = jsonschema_rs.Draft202012Validator(SCHEMA, validate_formats=True)
    damaged(tmp_path / ".claude" / "projects" / "a.jsonl")
    (tmp_path / ".claude" / "projects" / "b.jsonl").write_text("")
    survey = Survey(tmp_path, {})
    survey.add(Graded(str(survey.paths[0]), reason="no permission to read it"))
    value = surveyed(survey)
    validator.validate(value)
    keys: set[str] = set()
    for inner, schema in objects_in(value, SCHEMA):
        assert list(inner) == list(schema["properties"]) == schema["required"]
        keys |= inner.keys()
    assert {"kind", "reason", "patterns", "statuses", "python", "modified"} <= keys


def test_every_key_of_the_schema_is_documented() -> None:
    page = (DOCS / "doctor.md").read_text(encoding="utf-8")
    written: dict[str, list[str]] = {}
    for part in page.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        written[heading] = re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
    assert written.pop("The JSON object") == list(SCHEMA["properties"])
    assert written == {name: list(schema["properties"]) for name, schema in SCHEMA["$defs"].items()}


def test_coverage_has_the_facts_of_the_parsers() -> None:
    assert list(SCHEMA["$defs"]["coverage"]["properties"]) == list(Coverage._fields)


def test_of_many_places_that_are_not_there_a_few_are_named(tmp_path: Path) -> None:
    text = words(Survey(tmp_path, {}), tmp_path)
    (line,) = [line for line in text.splitlines() if line.startswith("  Cline, Roo Code and Kilo Code: ")]
    assert line.count("~/") == 4
    assert re.search(r", and \d+ other places$", line)
    (tmp_path / ".cline/data/tasks").mkdir(parents=True)
    lines = words(Survey(tmp_path, {}), tmp_path).splitlines()
    at = lines.index("Cline, Roo Code and Kilo Code (cline): no session")
    assert lines[at + 1].startswith("  looked in  ~/.cline/data/tasks: 0 logs")
    assert re.fullmatch(r"  and in     \d+ other places, none of which is there", lines[at + 2])


# --- the history ------------------------------------------------------------------------------------------


def test_the_history_its_losses_and_what_it_could_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    logs = tmp_path / ".claude" / "projects" / "p"
    bad("one").write(logs / "one.jsonl")
    damaged(logs / "two.jsonl")
    broken = logs / "three.jsonl"
    broken.mkdir()
    database = tmp_path / "history.db"
    settings = config.load({"DEMERIT_DATABASE_URL": str(database)})
    with Store.open(settings.database_url) as store:
        paths = [logs / "one.jsonl", logs / "two.jsonl", broken]
        ingest.sync(store, settings, paths, datetime(2030, 1, 1, tzinfo=UTC))
    (logs / "one.jsonl").unlink()
    monkeypatch.setenv("DEMERIT_DATABASE_URL", str(database))
    assert main(["doctor", str(logs), "--format", "json"]) == 0
    found = json.loads(capsysbinary.readouterr().out)
    assert jsonschema_rs.is_valid(SCHEMA, found)
    assert found["store"]["database"] == str(database)
    assert (found["store"]["logs"], found["store"]["sessions"], found["store"]["waiting"]) == (2, 2, 0)
    assert found["store"]["losses"] == {"malformed_line": 2}
    assert main(["doctor", str(logs)]) == 0
    words = capsysbinary.readouterr().out.decode()
    assert f"History in {database}\n  holds      2 sessions; 2 files looked at\n" in words
    assert "  unread     malformed line (2)\n" in words


def test_looking_makes_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    good("one").write(tmp_path / "one.jsonl")
    monkeypatch.setenv("DEMERIT_DATABASE_URL", str(tmp_path / "history.db"))
    assert main(["doctor", str(tmp_path / "one.jsonl"), "--format", "json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["store"] is None
    assert not (tmp_path / "history.db").exists()


def test_a_history_that_cannot_be_used_is_said_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    good("one").write(tmp_path / "one.jsonl")
    (tmp_path / "history.db").write_bytes(b"this is no database" * 100)
    monkeypatch.setenv("DEMERIT_DATABASE_URL", str(tmp_path / "history.db"))
    assert main(["doctor", str(tmp_path / "one.jsonl")]) == 0
    words = capsysbinary.readouterr().out.decode()
    assert "Claude Code (claude-code): 1 session" in words
    assert "is no SQLite database" in words
