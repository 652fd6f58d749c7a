"""Shell lines: which command gave the code, and whether it answers or fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.parsers.shell import answering_program, describe, program, split_commands


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
        ("git ls-files src && grep -n foo src/a.py", ""),
        ("git --no-pager log -3 && git status && cat a | grep foo", ""),
        ("git grep foo", ""),
        ("git merge-base --is-ancestor a b", ""),
        ("gh auth status", "You are not logged into any GitHub hosts."),
        ("ssh -T git@example.test", "Hi! You've successfully authenticated"),
        ("systemctl is-active nginx", "inactive"),
        ("git config --global user.email", ""),
        ("git config user.email", ""),
        ("test -f x && echo yes", ""),
        ("grep -q x f && echo found && echo twice", ""),
        ("pkill -f server", ""),
        ("timeout 5 grep foo x", ""),
        ("timeout -s KILL 5s grep foo x", ""),
        ("env A=1 grep foo x", ""),
        ("find . -name x | xargs grep -l foo", ""),
        ("find . -print0 | xargs -0 -n 1 grep -l foo", ""),
        ("sudo -n grep foo x", ""),
        ("bash -lc 'rg foo src'", ""),
        ('/bin/zsh -c "cd x && rg \\"foo\\" src"', ""),
        ("cd src && grep foo x", ""),
        ("export A=1; cd x && A=2 /usr/bin/grep foo x", ""),
        ("cat log | grep ERROR", ""),
        ("npm test | grep FAIL", "all the output that grep did not let through"),
        ("npm test; grep FAIL log", ""),
        ("grep a x || grep b x", ""),
        ("cat <<'X' > f\na | b\nX\ngrep c f", ""),
    ],
)
def test_exit_1_that_only_answers_is_benign(command: str, output: str) -> None:
    assert answering_program(command, 1, output) is not None


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
        pytest.param("git status && pytest && grep a b", 1, "", id="a test run between git and grep"),
        pytest.param("git pull && grep foo x", 1, "", id="a git command that may fail with 1, before a grep"),
        pytest.param("grep foo x && git log", 1, "fatal: bad revision", id="git log that complains"),
        pytest.param("git diff", 1, "", id="git diff without --exit-code does not answer with 1"),
        pytest.param("echo 'grep x'", 1, "", id="a grep in quotes is none"),
        pytest.param("grep foo x; false", 1, "", id="something else came last"),
        pytest.param("test -f x && make", 1, "make: *** [all] Error 1", id="make came last"),
        pytest.param("", 1, "", id="no command"),
        pytest.param("ls x && grep foo x", 1, "", id="ls before it may have failed"),
        pytest.param("command npm test", 1, "", id="command runs something else"),
        pytest.param("git config user.email me@example.test", 1, "", id="git config that sets"),
        pytest.param("npm test && echo ok", 1, "", id="a quiet command after one that failed"),
        pytest.param("echo x", 1, "", id="nothing that answers"),
        pytest.param("find . | xargs rm", 123, "", id="xargs of something else"),
        pytest.param("grep a x || npm test", 1, "", id="npm test came last"),
        pytest.param("grep foo", -1, "", id="a signal"),
        pytest.param("ls nope", 1, "ls: cannot access 'nope': No such file or directory", id="ls of a missing path"),
    ],
)
def test_other_exits_are_failures(command: str, code: int, output: str) -> None:
    assert answering_program(command, code, output) is None


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


def test_program_skips_what_only_sets_the_stage() -> None:
    assert program("A=1 B=2 sudo /usr/bin/grep -n x") == "grep"
    assert program("(cd x)") == "cd"
    assert program("") == ""


def test_codes_that_have_a_meaning_of_their_own() -> None:
    assert answering_program("systemctl is-active nginx", 3, "inactive") == "systemctl"
    assert answering_program("find . | xargs grep foo", 123, "") == "grep"
    assert answering_program("grep foo x", 123, "") is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cd x && npm test -- --run", "npm test"),
        ("git rev-parse HEAD && git checkout -b x", "git rev-parse && git checkout"),
        ("if true; then make; fi", "make"),
        ("pytest || exit 1", "pytest"),
        ("pytest | tail -5", "tail"),
        ("bash -lc 'cd x && make all'", "make all"),
        ("git push origin main", "git push"),
        ("/usr/bin/python3 -m pytest", "python3"),
        ("npm --version", "npm"),
        ("make", "make"),
        ("", ""),
    ],
)
def test_a_line_is_described_by_its_last_command(line: str, said: str) -> None:
    assert describe(line) == said


@pytest.mark.parametrize(
    "line",
    [
        "git config " + "--a " * 4000 + "!",
        "git " + "-c -x0 " * 2500 + "commit",
        "git " + "-a " * 6000 + "x",
        "ssh " + "a " * 9000,
    ],
    ids=["options that look like two things", "options with values", "options without end", "words without end"],
)
def test_a_line_that_was_made_to_hurt_has_its_answer_at_once(line: str) -> None:
    """Each took longer than anybody waits when a pattern could read it in more than one way (benchmarks/hostile.py)."""
    assert answering_program(line, 1, "") in (None, "git")


@given(st.text(max_size=60), st.integers(-5, 300), st.text(max_size=20))
def test_any_line_has_an_answer(line: str, code: int, output: str) -> None:
    answering_program(line, code, output)
    describe(line)
