"""The rules that all agents share: exit codes, tools, paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.parsers.evidence import (
    by_exit_code,
    category_of,
    is_benign_exit,
    is_poll,
    patch_paths,
    paths_in,
    program,
    split_commands,
)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("grep -rn foo src", ""),
        ("rg foo", ""),
        ("egrep -c foo x", "0"),
        ("diff a b", "1c1\n< a\n---\n> b"),
        ("cmp a b", "a b differ: byte 1, line 1"),
        ("test -f nope", ""),
        ("[ -d nope ]", ""),
        ("[[ -n $X ]]", ""),
        ("which foo", ""),
        ("pgrep -f server", ""),
        ("command -v foo", ""),
        ("git diff --exit-code", "diff --git a/x b/x"),
        ("git -C repo diff --quiet HEAD", ""),
        ("git grep foo", ""),
        ("git merge-base --is-ancestor a b", ""),
        ("gh auth status", "You are not logged into any GitHub hosts."),
        ("ssh -T git@example.test", "Hi! You've successfully authenticated"),
        ("systemctl is-active nginx", "inactive"),
        ("cd src && grep foo x", ""),
        ("export A=1; cd x && A=2 /usr/bin/grep foo x", ""),
        ("cat log | grep ERROR", ""),
        ("npm test | grep FAIL", "all the output that grep did not let through"),
        ("npm test; grep FAIL log", ""),
        ("grep a x || grep b x", ""),
        ("ls \\\n && grep foo x", ""),
        ("cat <<'X' > f\na | b\nX\ngrep c f", ""),
    ],
)
def test_exit_1_that_only_answers_is_benign(command: str, output: str) -> None:
    if command.startswith("ls"):  # ls can fail by itself
        assert not is_benign_exit(command, 1, output)
    else:
        assert is_benign_exit(command, 1, output)


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        pytest.param("grep foo x", 2, "grep: x: No such file or directory", id="exit 2 of grep is an error"),
        pytest.param("pytest", 1, "1 failed", id="a test run"),
        pytest.param("pytest && grep foo x", 1, "1 failed", id="the part before the grep may have failed"),
        pytest.param("make | tee log", 1, "", id="the last of the pipe is no grep"),
        pytest.param("cd nope && grep foo x", 1, "bash: line 1: cd: nope: No such file or directory", id="the shell"),
        pytest.param("cd nope && grep foo x", 1, "(eval):cd:1: no such file or directory: nope", id="zsh"),
        pytest.param("rg foo", 1, "rg: command not found", id="not installed"),
        pytest.param("git diff", 1, "", id="git diff without --exit-code does not answer with 1"),
        pytest.param("echo 'grep x'", 1, "", id="a grep in quotes is none"),
        pytest.param("grep foo x; false", 1, "", id="something else came last"),
        pytest.param("test -f x && make", 1, "make: *** [all] Error 1", id="make came last"),
        pytest.param("", 1, "", id="no command"),
        pytest.param("grep foo", -1, "", id="a signal"),
        pytest.param("ls nope", 1, "ls: cannot access 'nope': No such file or directory", id="ls of a missing path"),
    ],
)
def test_other_exits_are_failures(command: str, code: int, output: str) -> None:
    assert not is_benign_exit(command, code, output)


def test_a_judgement_says_what_decided_it() -> None:
    assert by_exit_code("ls", 0, "") == ("ok", "exit code 0", 0)
    assert by_exit_code("cd x && grep y z", 1, "") == ("benign", "exit code 1 of grep", 1)
    assert by_exit_code("make", 2, "", "event exit_code") == ("failed", "event exit_code 2", 2)
    assert by_exit_code(None, 1, "") == ("failed", "exit code 1", 1)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("a && b || c; d | e", [("a", "&&"), ("b", "||"), ("c", ";"), ("d", "|"), ("e", "")]),
        ('a \'x && y\' "z | \\" w"', [('a \'x && y\' "z | \\" w"', "")]),
        ("a 2>&1 | b &> c", [("a 2>&1", "|"), ("b &> c", "")]),
        ("a & b", [("a", ";"), ("b", "")]),
        ("a\n\nb", [("a", ";"), ("b", "")]),
        ("a \\; b", [("a \\; b", "")]),
        ("'open", [("'open", "")]),
        ("", []),
    ],
)
def test_split_commands(line: str, parts: list[tuple[str, str]]) -> None:
    assert split_commands(line) == parts


@given(st.text(alphabet="ab '\"\\;|&\n><", max_size=40))
def test_splitting_loses_no_character_that_matters(line: str) -> None:
    joined = "".join(text for text, _ in split_commands(line))
    assert joined.replace(" ", "") in line.translate(str.maketrans("", "", " ")) or len(joined) <= len(line)


def test_program_skips_assignments_and_paths() -> None:
    assert program("A=1 B=2 sudo /usr/bin/grep -n x") == "grep"
    assert program("") == ""


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


def test_a_patch_names_every_file_that_it_touches() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@\n-x\n+y\n*** Add File: c d.md\n"
        "+*** Add File: no\n"
        "*** Delete File: e\n*** Update File: src/a.py\n*** End Patch"
    )
    assert patch_paths(patch) == ("src/a.py", "src/b.py", "c d.md", "e")
