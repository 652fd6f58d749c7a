"""Aider's chat history (docs/formats/aider.md). Expectations are worked out by hand from the invented files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.sessions import CORPUS, calls, prompts

from demerit.model import Session
from demerit.parsers import aider
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "aider"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.md"))
STARTED = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
HISTORY = Source(name=".aider.chat.history.md")


def records(data: bytes, placed: bool = True) -> Iterator[Record]:
    offset = 0
    for line in data.splitlines(keepends=True):
        if line.strip():
            yield Record(line, offset if placed else None)
        offset += len(line)


def read_all(data: bytes, source: Source = HISTORY, placed: bool = True) -> list[Session]:
    return aider.parse(records(data, placed), source)


def fixture(name: str, source: Source = HISTORY) -> Session:
    (session,) = read_all((FIXTURES / f"{name}.md").read_bytes(), source)
    return session


def history(*texts: str) -> Session:
    (session,) = read_all("".join(("\n# aider chat started at 2026-05-02 11:00:00\n\n", *texts)).encode())
    return session


def judged(session: Session) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(call.name, call.status.value, call.file_paths) for call in calls(session)]


def spoken(session: Session) -> list[tuple[str, str, str | None]]:
    return [(message.role, message.author, message.notice) for message in session.messages]


# --- sessions ---------------------------------------------------------------------------------------------


def test_a_plain_session_tells_who_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id) == ("aider", ".aider.chat.history.md@20260502110000")
    assert (session.agent_version, session.started, session.ended) == ("0.86.1", STARTED, None)
    assert {loss.kind for loss in session.losses} == {"time_without_zone"}
    assert spoken(session) == [("user", "human", None), ("assistant", "agent", None)] * 2
    assert {message.model for message in session.messages[1::2]} == {"claude-sonnet-4"}


def test_lines_of_a_prompt_are_one_prompt() -> None:
    assert prompts(fixture("plain")) == ["round half up in cart.py", "thanks\nand now the tests, please"]


def test_several_sessions_of_a_file_have_ids_that_survive_appending_and_removing() -> None:
    data = (FIXTURES / "sessions.md").read_bytes()
    first, second, third = (session.source_id for session in read_all(data))
    assert len({first, second, third}) == 3
    assert third == ".aider.chat.history.md@20260503093000"
    start = data.index(b"# aider", 40)
    assert [session.source_id for session in read_all(data + data[-290:].replace(b"2026-05-03", b"2026-05-04"))][
        :3
    ] == [
        first,
        second,
        third,
    ]
    # Only by the same second does an id carry the prompt; without its twin, a session is named by its time.
    assert [session.source_id for session in read_all(data[start:])] == [second.rpartition("-")[0], third]


def test_only_the_last_session_may_still_be_going_on() -> None:
    ended = [session.ended for session in read_all((FIXTURES / "sessions.md").read_bytes())]
    assert ended == [STARTED, STARTED, None]


def test_what_stands_before_the_first_heading_is_counted() -> None:
    (session,) = read_all(b"words\n#### a prompt  \n")
    assert (session.messages, [(loss.kind, loss.count) for loss in session.losses]) == (
        (),
        [("before_first_session", 2)],
    )


# --- calls ------------------------------------------------------------------------------------------------


def test_an_applied_edit_names_its_file_and_what_was_written() -> None:
    (call,) = calls(fixture("plain"))
    assert (call.name, call.category, call.status, call.file_paths) == ("edit", "edit", "ok", ("cart.py",))
    assert call.input is not None
    assert call.input.head.startswith("<<<<<<< SEARCH\n    return round(total, 2)")


def test_q2_a_search_block_that_does_not_match_failed_and_what_is_sent_back_is_no_prompt() -> None:
    session = fixture("failed_edit")
    assert judged(session) == [
        ("edit", "failed", ("shop.py",)),
        ("edit", "ok", ("cart.py",)),
        ("edit", "ok", ("shop.py",)),
    ]
    assert spoken(session)[2] == ("context", "harness", None)
    assert prompts(session) == ["rename total to amount"]


def test_equal_edits_have_equal_hashes_and_an_edit_without_a_block_has_none() -> None:
    failed, other, applied = calls(fixture("failed_edit"))
    assert failed.input_hash != applied.input_hash
    assert other.input_hash is None  # its block stands in the answer before


def test_an_answer_in_no_edit_format_is_a_broken_call() -> None:
    assert judged(fixture("not_conforming")) == [("edit", "invalid", ())]


def test_q13_a_command_that_was_run_has_no_status_and_one_that_was_refused_is_declined() -> None:
    session = fixture("shell")
    assert judged(session) == [("shell", "unknown", ()), ("shell", "declined", ())]
    assert [call.input.head for call in calls(session) if call.input] == ["pip install ruff", "rm -rf old"]


def test_edits_that_were_not_allowed_are_declined() -> None:
    assert judged(fixture("declined")) == [("edit", "declined", ("stock.py",))]


def test_errors_of_the_linter_that_go_to_the_model_are_no_prompt() -> None:
    session = fixture("lint")
    assert [message.role for message in session.messages] == ["user", "assistant", "context", "assistant"]
    assert len(prompts(session)) == 1


# --- who wrote it, and how it ended ------------------------------------------------------------------------


def test_code_may_hold_lines_that_look_like_prompts() -> None:
    session = fixture("fenced")
    assert prompts(session) == ["write a readme", "thanks"]
    (call,) = calls(session)
    assert call.input is not None
    assert call.input.head.endswith("```bash\n#### no prompt\nmake\n```")


def test_a_prompt_that_was_logged_with_its_command_and_without_counts_once() -> None:
    session = fixture("commands")
    assert prompts(session) == ["what does it do?"]
    assert [event.kind for event in session.events] == ["rewind"]
    assert session.terminal


def test_a_command_with_a_prompt_that_was_never_answered_is_a_prompt() -> None:
    assert prompts(history("\n#### /ask why?  \n")) == ["why?"]


def test_a_later_prompt_opens_a_session_again() -> None:
    assert not history("\n#### /exit  \n", "\n#### hello  \n").terminal


def test_an_interrupt_that_ends_the_session_is_its_last_message() -> None:
    session = fixture("interrupted")
    assert spoken(session) == [("user", "human", None), ("context", "harness", "interrupt")] * 2
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("interrupt", 0), ("interrupt", 2)]


def test_t20_an_api_error_that_ends_the_session_is_a_message_and_one_that_was_overcome_is_none() -> None:
    session = fixture("api_error")
    assert spoken(session)[-1] == ("assistant", "harness", "api_error")
    assert sum(message.notice == "api_error" for message in session.messages) == 1
    assert [event.kind for event in session.events] == ["api_error", "api_error"]


def test_a_run_with_a_message_is_nobodys() -> None:
    assert spoken(fixture("unattended"))[0] == ("user", "harness", None)


def test_the_architects_answer_that_goes_to_the_editor_is_no_prompt() -> None:
    session = fixture("architect")
    assert spoken(session)[2] == ("context", "harness", None)
    answers = [message for message in session.messages if message.role == "assistant"]
    assert [message.model for message in answers] == ["o3", "gpt-4.1"]
    # The editor is given the answer alone: its small context does not mean that the architect's was shed.
    assert [message.sidechain for message in answers] == [False, True]


def test_after_a_command_the_architect_answers_again() -> None:
    tested = b"\n#### /test pytest  \n\nThe test is old.\n\n> Tokens: 6k sent, 10 received.  \n"
    (session,) = read_all((FIXTURES / "architect.md").read_bytes() + tested)
    assert (session.messages[-1].model, session.messages[-1].sidechain) == ("o3", False)


def test_reasoning_is_no_answer() -> None:
    answer = fixture("thinking").messages[1]
    assert (answer.text, answer.thinking_bytes, answer.thinking_kind) == ("Because.", 22, "text")


def test_a_history_cut_in_a_block_of_code_keeps_what_is_there() -> None:
    session = fixture("cut")
    assert [message.role for message in session.messages] == ["user", "assistant"]
    assert not calls(session)


# --- tokens -----------------------------------------------------------------------------------------------


def test_cached_tokens_are_a_part_of_those_sent() -> None:
    first, second = (message.usage for message in fixture("plain").messages[1::2])
    assert first is not None
    assert second is not None
    assert (first.input_tokens, first.output_tokens) == (3100, 220)
    assert (second.input_tokens, second.cache_read_tokens, second.cache_write_5m_tokens) == (3500, 15000, 2500)
    assert second.output_tokens == 1200


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("Tokens: 812 sent, 9 received.", (812, 9), id="small counts are exact"),
        pytest.param("Tokens: 1.2M sent, 3k received.", (1_200_000, 3000), id="millions"),
        pytest.param("Tokens: 1,234 sent, 56 received.", (1234, 56), id="with a comma"),
        pytest.param("Tokens: ... sent, 1 received.", None, id="no number"),
        pytest.param("Tokens: " + "9" * 400 + "M sent, 1 received.", (0, 1), id="a number that none can be"),
    ],
)
def test_counts_as_they_are_printed(line: str, expected: tuple[int, int] | None) -> None:
    usage = history("\n#### hi  \n", "\nHello.\n\n", f"> {line}  \n").messages[1].usage
    assert (None if usage is None else (usage.input_tokens, usage.output_tokens)) == expected


def test_a_report_needs_no_bodies() -> None:
    session = fixture("thinking", HISTORY._replace(bodies=False, text_bytes=3))
    assert (session.messages[1].thinking, session.messages[1].thinking_bytes) == ((), 22)
    assert (session.messages[0].text, session.messages[1].text) == ("why?", "Bec")


# --- hostile content --------------------------------------------------------------------------------------

LINES = sorted({line for name in NAMES for line in (FIXTURES / f"{name}.md").read_bytes().splitlines(keepends=True)})


@settings(max_examples=150)
@given(st.lists(st.sampled_from(LINES) | st.binary(max_size=12).map(lambda data: data + b"\n")), st.booleans())
def test_lines_in_any_order_give_well_formed_sessions(lines: list[bytes], placed: bool) -> None:
    for session in read_all(b"# aider chat started at 2026-05-02 11:00:00\n" + b"".join(lines), placed=placed):
        assert_well_formed(session)


def test_a_history_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "failed_edit.md").read_bytes()
    for size in range(0, len(data), 3):
        for session in read_all(data[:size]):
            assert_well_formed(session)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("## A: b in c\n<<<<<<< SEARCH\n", id="failed blocks that never end"),
        pytest.param("a.py\n```\n<<<<<<< SEARCH\n", id="edits that never end"),
        pytest.param("-" * 50, id="a rule"),
        pytest.param("<think>", id="thoughts that never end"),
        pytest.param("> ", id="quotes"),
    ],
)
def test_what_repeats_takes_no_time_of_n_times_n(text: str) -> None:
    many = text * (400_000 // len(text))
    history("\n#### hi  \n\n", many, "**THINKING** \n\n> Applied edit to a.py  \n")
    history("\n#### hi  \n\nx\n\n> The LLM did not conform to the edit format.  \n> # 1 block\n", many, "  \n\nx\n")


def assert_well_formed(session: Session) -> None:
    assert [message.ordinal for message in session.messages] == list(range(len(session.messages)))
    for message in session.messages:
        assert [(call.message_ordinal, call.index) for call in message.calls] == [
            (message.ordinal, index) for index in range(len(message.calls))
        ]
    for event in session.events:
        assert event.message_ordinal is None or event.message_ordinal < len(session.messages)


# --- whose log --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_its_own_histories_are_claimed(name: str) -> None:
    assert aider.sniff(Sample(text=(FIXTURES / f"{name}.md").read_text()[:4096]))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# aider chat started at noon\n", id="no time"),
        pytest.param("# Notes\n\n# aider chat started at 2026-05-02 11:00:00\n", id="a heading further down"),
        pytest.param("about # aider chat started at 2026-05-02 11:00:00\n", id="words before it"),
        pytest.param("<!-- Generated by SpecStory -->\n", id="SpecStory"),
        pytest.param("", id="nothing"),
    ],
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not aider.sniff(Sample(text=text))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus beside the repository")
def test_statuses_read_by_hand() -> None:
    (path,) = (CORPUS / "aider").glob("AndrewJacop*")
    sessions = read_all(path.read_bytes())
    assert len(sessions) == path.read_text().count("\n# aider chat started at ")
    for session in sessions:
        assert_well_formed(session)
        assert {loss.kind for loss in session.losses} <= {"time_without_zone"}
