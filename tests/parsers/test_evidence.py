"""The rules that all agents share: exit codes, tools, paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.model import Category
from demerit.parsers.evidence import (
    by_claude_error,
    by_exit_code,
    category_of,
    is_poll,
    patch_paths,
    paths_in,
    server_in,
)


def test_a_judgement_says_what_decided_it() -> None:
    assert by_exit_code("ls", 0, "") == ("ok", "exit code 0", 0)
    assert by_exit_code("cd x && grep y z", 1, "") == ("benign", "exit code 1 of grep", 1)
    assert by_exit_code("make", 2, "", "event exit_code") == ("failed", "event exit_code 2 of make", 2)
    assert by_exit_code(None, 1, "") == ("failed", "exit code 1", 1)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("Edit", "edit"), ("MultiEdit", "edit"), ("NotebookEdit", "edit"), ("apply_patch", "edit"),
        ("str_replace_editor", "edit"), ("Write", "write"), ("create", "write"), ("Bash", "shell"),
        ("BashOutput", "shell"), ("exec_command", "shell"), ("local_shell_call", "shell"), ("Read", "read"),
        ("Grep", "search"), ("Glob", "search"), ("WebFetch", "web"), ("Task", "agent"), ("spawn_agent", "agent"),
        ("TodoWrite", "plan"), ("update_plan", "plan"), ("AskUserQuestion", "question"),
        ("mcp__linear__get_issue", "mcp"), ("anything", "other"), ("", "other"),
    ],
)  # fmt: skip
def test_categories(name: str, category: str) -> None:
    """Q26: no tool of the agents that we know is left under `other`."""
    assert category_of(name) == category


@pytest.mark.parametrize(
    ("name", "arguments", "polls"),
    [
        ("BashOutput", {"bash_id": "1"}, True),
        ("TaskOutput", {"task_id": "1"}, True),
        ("write_stdin", {"session_id": 1, "chars": "", "yield_time_ms": 1000}, True),
        ("write_stdin", {"session_id": 1, "chars": "y\n"}, False),
        ("wait", {"cell_id": "1"}, True),
        ("Bash", {"command": "gh run view"}, False),
    ],
)
def test_a_call_that_only_waits_is_a_poll(name: str, arguments: object, polls: bool) -> None:
    assert is_poll(name, arguments) is polls


def test_paths() -> None:
    assert paths_in({"file_path": "/a", "content": "x"}) == ("/a",)
    assert paths_in({"filePath": "/a"}) == ("/a",)
    assert paths_in({"paths": ["a", "b", "a", 3, ""]}) == ("a", "b")
    assert paths_in({"path": 7}) == ()
    assert paths_in(["x"]) == ()
    assert paths_in(None) == ()


def test_an_error_text_of_nothing_but_its_tag_is_a_failure() -> None:
    assert by_claude_error("<tool_use_error>").status == "failed"
    assert by_claude_error("").status == "failed"


@given(st.text(max_size=30), st.sampled_from(["", "<tool_use_error>", "Exit code 1", "Exit code 1\n"]))
def test_any_error_text_has_a_status(text: str, start: str) -> None:
    assert by_claude_error(start + text, "make").evidence


def test_a_patch_names_every_file_that_it_touches() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@\n-x\n+y\n*** Add File: c d.md\n"
        "+*** Add File: no\n"
        "*** Delete File: e\n*** Update File: src/a.py\n*** End Patch"
    )
    assert patch_paths(patch) == ("src/a.py", "src/b.py", "c d.md", "e")


@pytest.mark.parametrize(
    ("category", "arguments", "server"),
    [
        ("mcp", {"server_name": "linear", "tool_name": "get"}, "linear"),
        ("mcp", {"server": "linear"}, "linear"),
        ("mcp", {"ServerName": ""}, None),
        ("mcp", {"serverName": 3}, None),
        ("mcp", ["linear"], None),
        ("shell", {"server": "db.example.com"}, None),
    ],
    ids=["Cline's", "Cursor's", "an empty name", "no text", "a list", "a tool of another kind"],
)
def test_the_server_that_a_tool_for_all_servers_was_given(
    category: Category, arguments: object, server: str | None
) -> None:
    assert server_in(category, arguments) == server
