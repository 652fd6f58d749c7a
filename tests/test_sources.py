"""Finding and reading files: bytes in, sessions or one plain sentence out."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.parsers.claude_lines import Line, assistant, call, result, user

from demerit import sources
from demerit.parsers.records import Source
from demerit.sources import Unreadable, agent_logs, find_logs, read_body, read_sessions, read_stream

LINES: list[Line] = [user("go"), assistant(call("t", command="ls")), result("t"), assistant("done")]
TEXT = "".join(json.dumps(line) + "\n" for line in LINES)


def log(folder: Path, name: str = "log.jsonl", text: str = TEXT) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def reason(path: Path) -> str:
    with pytest.raises(Unreadable) as caught:
        read_sessions(path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


# --- reading ----------------------------------------------------------------------------------------------


def test_a_log_gives_its_session(tmp_path: Path) -> None:
    path = log(tmp_path)
    (session,) = read_sessions(path)
    assert session.agent == "claude-code"
    assert len(session.messages) == 3
    assert session.modified == datetime.fromtimestamp(path.stat().st_mtime, UTC)


def test_a_body_is_found_again_at_its_place_in_the_file(tmp_path: Path) -> None:
    path = log(tmp_path, text="\n  \n" + TEXT)
    body = read_sessions(path)[0].messages[1].calls[0].input
    assert body is not None
    assert body.offset is not None
    assert json.loads(path.read_bytes()[body.offset : body.offset + body.bytes]) == {"command": "ls"}


def test_a_body_is_read_back_whole_until_its_file_changes(tmp_path: Path) -> None:
    long = "größer\n" * 5000
    path = log(tmp_path, text="".join(json.dumps(entry) + "\n" for entry in [*LINES[:2], result("t", long)]))
    body = read_sessions(path)[0].messages[1].calls[0].result
    assert body is not None
    assert body.head == long[:2048]
    assert read_body(path, body) == long
    path.write_text("x" + path.read_text())
    with pytest.raises(Unreadable, match="has changed since"):
        read_body(path, body)
    path.unlink()
    with pytest.raises(Unreadable, match="no such file"):
        read_body(path, body)


class Dripping(io.RawIOBase):
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, step: int) -> None:
        self.data, self.step = data, step

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(self.step, len(buffer))
        part, self.data = self.data[:size], self.data[size:]
        buffer[: len(part)] = part
        return len(part)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_stream_gives_the_same_in_every_chunking(step: int, encoding: str) -> None:
    data = TEXT.replace("go", "größer 🎈").encode(encoding)
    whole = read_stream(io.BytesIO(data), Source(), "stdin")
    dripped = read_stream(io.BufferedReader(Dripping(data, step), 16), Source(), "stdin")
    assert dripped == whole
    assert whole[0].messages[0].text == "größer 🎈"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_log_with_a_byte_order_mark_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(TEXT.replace("go", "größer 🎈").encode(encoding))
    (session,) = read_sessions(path)
    assert session.messages[0].text == "größer 🎈"
    assert len(session.messages) == 3


def test_a_cut_utf_16_log_keeps_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(TEXT.encode("utf-16")[:-301])
    assert len(read_sessions(path)[0].messages) >= 1


def test_windows_line_ends_and_blank_lines_are_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(TEXT.replace("\n", "\r\n\r\n").encode())
    (session,) = read_sessions(path)
    assert (len(session.messages), session.losses) == (3, ())


def test_a_last_line_without_an_end_is_read(tmp_path: Path) -> None:
    assert len(read_sessions(log(tmp_path, text=TEXT.rstrip()))[0].messages) == 3


def test_nul_bytes_at_the_end_cost_nothing_else(tmp_path: Path) -> None:
    (session,) = read_sessions(log(tmp_path, text=TEXT + "\0" * 5000))
    assert len(session.messages) == 3
    assert [loss.kind for loss in session.losses] == ["empty_record"]


def test_a_pretty_printed_document_is_read_under_any_name(tmp_path: Path) -> None:
    path = log(tmp_path, "export.jsonl", json.dumps({"loglines": LINES}, indent=2))
    assert len(read_sessions(path)[0].messages) == 3


def test_a_document_with_half_a_character_is_read(tmp_path: Path) -> None:
    text = '[\n {"role": "user", "content": "a\\ud83d"},\n {"role": "assistant", "content": "b"}\n]'
    (session,) = read_sessions(log(tmp_path, "x.json", text))
    assert [message.text[0] for message in session.messages] == ["a", "b"]


USER = '{"role":"user","content":"a%s"}'
BOTH = f'[{USER},{{"role":"assistant","content":"b"}}'


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        pytest.param(BOTH % "\\ud83d" + "]", set(), id="half a letter"),
        pytest.param(BOTH % "\t" + "]", set(), id="a bare tab"),
        pytest.param(BOTH % "" + ',{"ro', {"malformed_tail"}, id="cut"),
        pytest.param((BOTH % "").replace(",{", ",\n{") + ",\n", {"malformed_tail"}, id="cut, over lines"),
        pytest.param((BOTH % '","n":"').replace('""', "9" * 5000) + "]", set(), id="a huge number"),
        pytest.param((BOTH % '","n":"').replace('""', "NaN") + "]", set(), id="NaN"),
    ],
)
def test_a_damaged_document_is_read_as_far_as_it_goes(tmp_path: Path, text: str, lost: set[str]) -> None:
    (session,) = read_sessions(log(tmp_path, "x.json", text))
    assert [message.role for message in session.messages] == ["user", "assistant"]
    assert lost <= {loss.kind for loss in session.losses}


def test_a_log_whose_first_line_is_cut_is_read_from_the_second(tmp_path: Path) -> None:
    (session,) = read_sessions(log(tmp_path, text='{"type":"user","mess\n' + TEXT))
    assert len(session.messages) == 3
    assert [loss.kind for loss in session.losses] == ["malformed_line"]


def test_a_file_with_a_date_beyond_the_calendar_is_read(tmp_path: Path) -> None:
    path = log(tmp_path)
    os.utime(path, (0, 253402300800))
    (session,) = read_sessions(path)
    assert session.modified is None or session.modified.year > 2100  # some file systems hold no such date


def test_a_log_that_grows_while_it_is_read_is_read_as_far_as_it_went(tmp_path: Path) -> None:
    path = log(tmp_path)
    size = path.stat().st_size
    with path.open("rb") as reader, path.open("a") as writer:
        lines = sources._lines(reader, size)
        first = next(lines)
        writer.write(TEXT)
        writer.flush()
        assert len([first, *lines]) == len(LINES)


def test_a_stream_is_read_like_a_file() -> None:
    (session,) = read_stream(io.BytesIO(TEXT.encode()), Source(), "stdin")
    assert (len(session.messages), session.modified) == (3, None)


def test_a_sub_agents_folder_names_the_parent(tmp_path: Path) -> None:
    sub = "".join(json.dumps(user("look", isSidechain=True, agentId="a1")) + "\n" for _ in range(2))
    (session,) = read_sessions(log(tmp_path, "parent-id/subagents/agent-a1.jsonl", sub))
    assert (session.source_id, session.parent_source_id, session.relation) == ("a1", "parent-id", "subagent")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b"\n \n\t\n", "it is empty", id="blank"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0" + bytes(range(256)) * 50, "no JSON in its first lines", id="binary"),
        pytest.param(b"\0" * 100_000, "no JSON in its first lines", id="NUL bytes"),
        pytest.param(b"# a heading\n\ntext\n", "no JSON in its first lines", id="text"),
        pytest.param(b'{"a": 1}\n{"b": 2}\n', "it begins with an object of 'a'", id="another program's lines"),
        pytest.param(b'{\n "a": 1\n}', "it begins with an object of 'a'", id="another program's document"),
        pytest.param(b"[1, 2]", "JSON, but no agent's log", id="a list of numbers"),
        pytest.param(b"{" * 100_000, "no JSON in its first lines", id="nesting without end"),
        pytest.param(b"[" * 100_000 + b"\n" + b"[" * 100_000, "no JSON in its first lines", id="more nesting"),
    ],
)
def test_what_is_no_log_gets_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    assert said in reason(path)
    assert "\n" not in reason(path)


def test_a_missing_file_a_folder_and_a_pipe_get_one_sentence(tmp_path: Path) -> None:
    assert reason(tmp_path / "nope") == "no such file"
    assert reason(tmp_path) == "it is a folder; name a log in it"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.jsonl")  # which nobody writes to: opening it would wait for ever
        assert reason(tmp_path / "pipe.jsonl") == "not a regular file"


@pytest.mark.parametrize("content", ["", "no log", '{"other": 1}\n'])
def test_a_broken_file_among_an_agents_logs_is_known_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    path = log(tmp_path, ".claude/projects/p/s.jsonl", content)
    monkeypatch.chdir(tmp_path)
    for name in (path, path.relative_to(tmp_path)):
        with pytest.raises(Unreadable) as caught:
            read_sessions(name)
        assert caught.value.known_agent
    with pytest.raises(Unreadable) as caught:
        read_sessions(log(tmp_path, "elsewhere.jsonl", content))
    assert not caught.value.known_agent


def test_a_name_with_nul_gets_one_sentence() -> None:
    with pytest.raises(Unreadable):
        read_sessions(Path("a\0b"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter (pytest's own are closed to others)."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def as_plain_user() -> Iterator[None]:
    """Without the right to read everything, also where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="has other permissions")
def test_a_file_without_permission_gets_one_sentence_and_is_known_by_its_folder(open_folder: Path) -> None:
    path = log(open_folder, ".claude/projects/p/s.jsonl")
    path.chmod(0)
    with as_plain_user(), pytest.raises(Unreadable, match="no permission to read it") as caught:
        read_sessions(path)
    assert caught.value.known_agent


# --- finding ----------------------------------------------------------------------------------------------


def names(paths: list[Path], root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]


def test_folders_are_walked_in_order_and_files_taken_as_they_are(tmp_path: Path) -> None:
    log(tmp_path, "b/two.jsonl")
    log(tmp_path, "a/one.jsonl")
    log(tmp_path, "a/notes.txt", "user: no log\n")
    log(tmp_path, "a/log.dat")
    other = log(tmp_path, "odd.name")
    found = list(find_logs([str(tmp_path / "a"), str(tmp_path / "b"), str(other)], []))
    assert names(found, tmp_path) == ["a/one.jsonl", "b/two.jsonl", "odd.name"]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = log(tmp_path)
    os.link(path, tmp_path / "same.jsonl")
    assert len(list(find_logs([str(path), str(tmp_path), str(path)], []))) == 1


def test_globs_match(tmp_path: Path) -> None:
    log(tmp_path, "a/x.jsonl")
    log(tmp_path, "a/deep/y.jsonl")
    assert names(list(find_logs([str(tmp_path / "**" / "*.jsonl")], [])), tmp_path) == [
        "a/deep/y.jsonl",
        "a/x.jsonl",
    ]


def test_a_file_whose_name_looks_like_a_glob_is_taken_as_it_is(tmp_path: Path) -> None:
    path = log(tmp_path, "[a].jsonl")
    assert list(find_logs([str(path)], [])) == [path]


def test_a_name_that_matches_nothing_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no such file or folder"):
        list(find_logs([str(tmp_path / "nope*")], []))


def test_links_in_a_loop_and_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    log(inside, "a.jsonl")
    secret = log(outside, "b.jsonl")
    (inside / "loop").symlink_to(inside)
    (inside / "away").symlink_to(outside)
    (inside / "b.jsonl").symlink_to(secret)
    (inside / "self.jsonl").symlink_to(inside / "self.jsonl")
    (inside / "dangling.jsonl").symlink_to(inside / "nothing.jsonl")
    assert names(list(find_logs([str(inside)], [])), inside) == ["a.jsonl"]


def test_a_link_that_the_user_named_is_followed(tmp_path: Path) -> None:
    path = log(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert len(read_sessions(next(find_logs([str(link)], [])))) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="has other permissions")
def test_a_folder_that_cannot_be_entered_is_skipped_with_the_reason(open_folder: Path) -> None:
    log(open_folder, "a/x.jsonl")
    closed = log(open_folder, "closed/y.jsonl").parent
    closed.chmod(0)
    skipped: list[Unreadable] = []
    try:
        with as_plain_user():
            found = list(find_logs([str(open_folder)], skipped))
        assert names(found, open_folder) == ["a/x.jsonl"]
    finally:
        closed.chmod(stat.S_IRWXU)
    assert [(entry.path, entry.reason) for entry in skipped] == [(str(closed), "no permission to read it")]


def test_the_agents_own_folders_are_found_below_the_home_or_where_their_variable_says(tmp_path: Path) -> None:
    home, moved = tmp_path / "home", tmp_path / "moved"
    log(home, ".claude/projects/p/one.jsonl")
    log(home, ".claude/history.jsonl")
    log(home, ".codex/sessions/2026/05/02/rollout-x.jsonl")
    log(moved, "projects/p/two.jsonl")
    assert {path.name for path in agent_logs(home, {}, [])} == {"one.jsonl", "rollout-x.jsonl"}
    assert {path.name for path in agent_logs(home, {"CLAUDE_CONFIG_DIR": str(moved)}, [])} == {
        "two.jsonl",
        "rollout-x.jsonl",
    }
    assert list(agent_logs(tmp_path / "nobody", {}, [])) == []


def test_a_log_that_reading_can_go_on_from_is_read_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [user("go on", 0)]
    for at in range(1, 30):  # more than a buffer holds
        lines += [assistant("word " * 20_000, second=2 * at), user(f"and {at}", 2 * at + 1)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with sources.open_log(path) as log:
        going_on = log.sessions(Source(), resumable=True)
        assert log.state is not None
    assert going_on == read_sessions(path)
    assert len(going_on[0].messages) == 59
