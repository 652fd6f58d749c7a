"""What many logs tell of one conversation counts once, in whatever order they are read, and is linked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, select, update
from tests.parsers import test_codex, test_opencode
from tests.parsers.claude_lines import Line, assistant, read, usage, user
from tests.quality.sessions import agent, human, request, session, tool
from tests.store.logs import (
    at,
    content,
    ids_by_file,
    keep,
    links,
    of_turns,
    renamed,
    report_of,
    sync,
    totals,
    turns,
    write,
)
from tests.test_sources_databases import OPENCODE, insert, text

from demerit.model import Session, Usage
from demerit.parsers.records import Source
from demerit.store import Store, writer
from demerit.store.reads import read_report
from demerit.store.schema import logs, messages, sessions, tool_calls, usage_events
from demerit.store.writer import forget_sessions


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


def empty(store: Store) -> None:
    with store.writing() as connection:
        connection.execute(delete(logs))


def parsed(files: dict[str, list[Line]]) -> dict[str, Session]:
    return {name: read(*lines, source=Source(name)) for name, lines in files.items()}


def in_every_order(store: Store, files: dict[str, Session]) -> dict[str, Any]:
    """What the store holds of these logs, after it was seen to be the same whichever is read first."""
    expected: dict[str, Any] | None = None
    for order in permutations(files):
        empty(store)
        for name in order:
            keep(store, name, files[name])
        with store.reading() as connection:
            found = content(connection)
        expected = expected or found
        for part, rows in found.items():
            assert rows == expected[part], (order, part)
    assert expected is not None
    return expected


# --- replays ----------------------------------------------------------------------------------------------------

_FAMILIES = [
    pytest.param(
        {"a": turns(4), "copy": turns(4), "z": turns(2, "z")},
        of_turns(6, sessions=2),
        {"a": (None, None, None), "copy": (None, None, "a"), "z": (None, None, None)},
        id="a copy",
    ),
    pytest.param(
        {
            "a": turns(50),
            "b": renamed(turns(50), "b") + turns(1, "a", 50, "b"),
            "c": renamed(turns(51), "c") + turns(2, "a", 51, "c"),
        },
        of_turns(53, sessions=3),
        {"a": (None, None, None), "b": ("continuation", "a", None), "c": ("continuation", "b", None)},
        id="resumed twice, each time in a new file with all turns before",
    ),
    pytest.param(
        {
            "a": turns(3),
            "b": turns(3) + turns(2, "a", 3, "b"),
            "c": turns(3) + turns(2, "a", 3, "b") + turns(1, "a", 5, "c"),
        },
        of_turns(6, sessions=3),
        {"a": (None, None, None), "b": ("continuation", "a", None), "c": ("continuation", "b", None)},
        id="resumed twice, and the old lines keep the old name",
    ),
    pytest.param(
        {
            "a": turns(5),
            "b": renamed(turns(3), "b") + turns(2, "x", 3, "b"),
            "c": renamed(turns(3) + turns(1, "x", 3), "c") + turns(2, "y", 4, "c"),
        },
        of_turns(5 + 2 + 2, sessions=3),
        {"a": (None, None, None), "b": ("fork", "a", None), "c": ("fork", "b", None)},
        id="a fork at turn 3, and a fork of the fork",
    ),
    pytest.param(
        {
            "a": turns(6),
            "backup": turns(3),
            "b": renamed(turns(6), "b") + turns(1, "a", 6, "b"),
        },
        of_turns(7, sessions=2),
        {"a": (None, None, None), "backup": (None, None, "a"), "b": ("continuation", "a", None)},
        id="an older backup of a session that was resumed",
    ),
    pytest.param(
        {"old": turns(2), "older": turns(1), "a": turns(3)},
        of_turns(3),
        {"a": (None, None, None), "old": (None, None, "a"), "older": (None, None, "a")},
        id="three states of one session",
    ),
]


@pytest.mark.parametrize(("files", "expected", "linked"), _FAMILIES)
def test_what_several_logs_tell_counts_once_in_whatever_order(
    store: Store, files: dict[str, list[Line]], expected: dict[str, int], linked: dict[str, Any]
) -> None:
    in_every_order(store, parsed(files))
    with store.reading() as connection:
        assert totals(connection) == expected
        assert links(connection) == linked


@pytest.mark.parametrize(("files", "expected", "linked"), _FAMILIES[:4])
def test_all_in_one_pass_is_the_same_as_one_after_the_other(
    store: Store, tmp_path: Path, files: dict[str, list[Line]], expected: dict[str, int], linked: dict[str, Any]
) -> None:
    for name, lines in files.items():
        write(tmp_path / "logs" / f"{name}.jsonl", lines)
    sync(store, tmp_path / "logs", archive=False)
    with store.reading() as connection:
        assert totals(connection) == expected
        assert {name.removesuffix(".jsonl"): row[0] for name, row in links(connection).items()} == {
            name: row[0] for name, row in linked.items()
        }


def test_logs_that_grow_in_turn_are_counted_as_if_they_had_been_whole(store: Store) -> None:
    whole = parsed({"a": turns(5), "b": renamed(turns(3), "b") + turns(3, "x", 3, "b")})
    expected = in_every_order(store, whole)
    empty(store)
    for name, lines in (
        ("b", renamed(turns(1), "b")),
        ("a", turns(2)),
        ("b", renamed(turns(3), "b") + turns(1, "x", 3, "b")),
        ("a", turns(5)),
        ("b", renamed(turns(3), "b") + turns(3, "x", 3, "b")),
    ):
        keep(store, name, read(*lines, source=Source(name)))
    with store.reading() as connection:
        found = content(connection)
    assert found == expected


@st.composite
def _families(draw: st.DrawFn) -> list[tuple[str, list[int], bool]]:
    """Up to four logs: (name, ids of its turns, whether the old lines get its name), each after one before it."""
    made: list[tuple[str, list[int], bool]] = []
    last = 0
    for name in "abcd"[: draw(st.integers(2, 4))]:
        before = draw(st.sampled_from(made))[1] if made else []
        kept = before[: draw(st.integers(0, len(before)))]
        own = draw(st.integers(0 if kept else 1, 3))
        made.append((name, [*kept, *range(last, last + own)], draw(st.booleans())))
        last += own
    return made


def _log_of(name: str, numbers: Sequence[int], is_renamed: bool, owners: dict[int, str]) -> Session:
    lines: list[Line] = []
    for number in numbers:
        owner = owners.setdefault(number, name)
        lines += turns(1, "t", number, name if is_renamed else owner)
    return read(*lines, source=Source(name))


def test_any_family_of_logs_counts_each_turn_once(store: Store) -> None:
    @given(_families(), st.randoms(use_true_random=False))
    @settings(max_examples=40)
    def check(family: list[tuple[str, list[int], bool]], random: Any) -> None:
        owners: dict[int, str] = {}
        made = [(name, _log_of(name, numbers, is_renamed, owners)) for name, numbers, is_renamed in family]
        found = []
        for _ in range(2):
            empty(store)
            for name, one in made:
                keep(store, name, one)
            with store.reading() as connection:
                found.append(content(connection))
                told = totals(connection)
            expected = of_turns(len(owners))
            assert {**told, "sessions": 1} == expected
            random.shuffle(made)
        assert found[0] == found[1]

    check()


def test_a_codex_log_that_was_archived_counts_once(store: Store, tmp_path: Path) -> None:
    name = f"rollout-2026-05-28T20-00-00-{test_codex.SESSION}.jsonl"
    lines = [
        test_codex.meta(),
        test_codex.said("user", "please fix the rounding in src/cart.py"),
        test_codex.command(),
        test_codex.tokens(total_token_usage=test_codex.counts(100, 40, 20)),
        test_codex.output("ok"),
        test_codex.item("message", role="assistant", content=[{"type": "output_text", "text": "Done."}]),
        test_codex.tokens(total_token_usage=test_codex.counts(250, 160, 25)),
        test_codex.tokens(total_token_usage=test_codex.counts(250, 160, 25)),
    ]
    for folder in ("sessions/2026/05/28", "archived_sessions"):
        write(tmp_path / "codex" / folder / name, lines)
    sync(store, tmp_path / "codex")
    with store.reading() as connection:
        found = totals(connection)
    # The last running total is all that was spent, and its cached part is no fresh input.
    assert found == {
        "sessions": 1,
        "messages": 3,
        "prompts": 1,
        "requests": 2,
        "input": 90,
        "read": 160,
        "output": 25,
        "calls": 1,
    }


def opencode_database(path: Path, most: int | None = None) -> None:
    """The sessions of all fixtures; of each, at most so many messages."""
    with closing(sqlite3.connect(path)) as made:
        made.executescript(OPENCODE)
        for name in test_opencode.NAMES:
            document = test_opencode.document(name)
            row = json.loads(test_opencode.as_rows(document)[0].data)
            insert(made, "session", row)
            for message in document["messages"][:most]:
                info = message["info"]
                about = {"id": info["id"], "session_id": row["id"], "time_created": info["time"]["created"]}
                insert(made, "message", about | text(info))
                for part in message["parts"]:
                    insert(made, "part", {"id": part["id"], "message_id": info["id"]} | text(part))
        made.commit()


def test_an_opencode_database_and_its_backup_count_once(store: Store, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    opencode_database(tmp_path / "alone" / "opencode.db")
    sync(store, tmp_path / "alone")
    with store.reading() as connection:
        expected = totals(connection)
        many = connection.execute(select(func.count()).select_from(sessions)).scalar_one()
    assert many == len(test_opencode.NAMES)  # many sessions of one log
    empty(store)
    folder = tmp_path / "both"
    folder.mkdir()
    opencode_database(folder / "opencode.db")
    opencode_database(folder / "opencode-backup.db", most=2)
    sync(store, folder)
    with store.reading() as connection:
        assert totals(connection) == expected


def test_sub_agents_that_start_with_one_prompt_at_one_moment_are_no_replays(store: Store) -> None:
    prompt = "review src/cart.py for rounding"
    files = {}
    for name in ("one", "two"):
        lines = [
            user(prompt, uuid=f"u-{name}", sessionId="parent", agentId=name, isSidechain=True),
            assistant(f"I am {name}.", id=f"m-{name}", sessionId="parent", agentId=name, isSidechain=True, second=5),
        ]
        files[f"agent-{name}"] = read(*lines, source=Source(f"agent-{name}"))
    in_every_order(store, files)
    with store.reading() as connection:
        found = connection.execute(select(sessions.c.messages, sessions.c.replayed_messages, sessions.c.copy_of)).all()
    assert [tuple(row) for row in found] == [(2, 0, None), (2, 0, None)]


def test_the_same_words_at_other_times_are_no_replay(store: Store) -> None:
    files = {
        name: session(human("go on", at=at(second)), agent("Done.", at=at(second + 1)), source_id=name)
        for name, second in (("a", 0), ("b", 100))
    }
    in_every_order(store, files)
    with store.reading() as connection:
        assert totals(connection)["messages"] == 4


def test_call_ids_are_known_in_their_own_session_only(store: Store) -> None:
    """Appendix D 24: one id in two sessions is two calls."""
    for name in ("a", "b"):
        keep(store, name, session(human(), agent("", tool(id="1")), source_id=name))
    with store.reading() as connection:
        assert totals(connection)["calls"] == 2


def test_a_request_counts_where_most_of_it_is_told(store: Store) -> None:
    def answered(name: str, output: int) -> Session:
        used = Usage(10, output_tokens=output, key="m1")
        return session(human(name, at=at(1)), agent("Done.", usage=used, at=at(2)), source_id=name)

    files = {"a": answered("a", 3), "b": answered("b", 41), "c": answered("c", 3)}
    in_every_order(store, files)
    with store.reading() as connection:
        assert totals(connection)["output"] == 41
        assert totals(connection)["input"] == 10


def test_one_answer_in_many_lines_counts_with_its_largest_output(store: Store) -> None:
    """T2."""
    lines = [user("please fix the rounding in src/cart.py")]
    lines += [assistant(f"part {output}", id="m1", used=usage(10, output)) for output in (3, 3, 41)]
    keep(store, "a", read(*lines, source=Source("a")))
    with store.reading() as connection:
        found = totals(connection)
    assert (found["requests"], found["input"], found["output"]) == (1, 10, 41)


def test_a_repeat_of_what_was_replayed_counts_once_and_where_it_was_made(store: Store) -> None:
    """Every turn of these makes the same call and gets the same answer."""
    found = in_every_order(
        store, parsed({"a": turns(3), "b": renamed(turns(3), "b") + turns(1, "a", 3, "b") + turns(1, "b", 4)})
    )
    counted = {name: [row for row in found["session_defects"] if f"('{name}', " in row] for name in "ab"}
    for name, batches, repeats in (("a", 3, 2), ("b", 2, 2)):
        [row] = counted[name]
        assert f"'batches': {batches}, 'repeats_seen': {repeats}, 'identical_repeats': {repeats}," in row


def test_prompts_of_replayed_turns_are_no_prompts_of_the_session(store: Store) -> None:
    """Appendix D 15: 50 turns in a file that replays them all, and one more."""
    keep(store, "a", read(*turns(50), source=Source("a")))
    [number] = keep(store, "b", read(*renamed(turns(50), "b"), *turns(1, "a", 50, "b"), source=Source("b")))
    report = report_of(store, number)
    assert report is not None
    assert report.usage is not None
    assert (report.hygiene.prompts, report.signals.tool_calls, report.usage.requests) == (1, 1, 1)
    assert (report.messages, report.signals.edit_churn, report.hygiene.duplicate) == (2, 0, 0)
    assert report.relation == "continuation"
    with store.reading() as connection:
        row = connection.execute(select(sessions).where(sessions.c.id == number)).one()
    assert (row.messages, row.replayed_messages, row.user_messages) == (2, 100, 1)


def test_models_that_answered_in_replayed_turns_only_are_not_the_sessions(store: Store) -> None:
    theirs = turns(2)
    own = [dict(line, message=dict(line["message"])) for line in turns(1, "a", 2, "b")]
    own[1]["message"]["model"] = "claude-sonnet-4-5"
    keep(store, "a", read(*theirs, source=Source("a")))
    [number] = keep(store, "b", read(*renamed(theirs, "b"), *own, source=Source("b")))
    report = report_of(store, number)
    assert report is not None
    assert report.models == ("claude-sonnet-4-5",)


def test_a_copy_has_no_grade_that_counts_and_its_original_keeps_its_own(store: Store) -> None:
    [original] = keep(store, "a", read(*turns(3), source=Source("a")))
    before = report_of(store, original)
    [copy] = keep(store, "copy", read(*turns(3), source=Source("copy")))
    assert report_of(store, original) == before
    with store.reading() as connection:
        row = connection.execute(select(sessions.c.copy_of, sessions.c.messages).where(sessions.c.id == copy)).one()
    assert tuple(row) == (original, 0)


def test_what_is_deleted_counts_in_its_copy(store: Store) -> None:
    [original] = keep(store, "a", read(*turns(3), source=Source("a")))
    [copy] = keep(store, "copy", read(*turns(3), source=Source("copy")))
    [more] = keep(store, "b", read(*renamed(turns(3), "b"), *turns(1, "a", 3, "b"), source=Source("b")))
    with store.writing() as connection:
        forget_sessions(connection, [original])
    with store.reading() as connection:
        assert totals(connection) == of_turns(4, sessions=2)
        row = connection.execute(select(sessions.c.copy_of, sessions.c.messages).where(sessions.c.id == copy)).one()
        assert tuple(row) == (None, 6)
    with store.writing() as connection:
        forget_sessions(connection, [copy])
    with store.reading() as connection:
        assert totals(connection) == of_turns(4)
        row = connection.execute(select(sessions.c.relation, sessions.c.parent_id).where(sessions.c.id == more)).one()
        assert tuple(row) == (None, None)


def test_a_request_that_was_told_elsewhere_counts_again_when_that_is_deleted(store: Store) -> None:
    def answered(name: str, output: int) -> Session:
        used = Usage(10, output_tokens=output, key="m1")
        return session(human(name, at=at(1)), loose_usage=(used,), source_id=name)

    [kept] = keep(store, "a", answered("a", 3))
    [other] = keep(store, "b", answered("b", 41))
    with store.reading() as connection:
        assert totals(connection)["output"] == 41
    with store.writing() as connection:
        forget_sessions(connection, [other])
    with store.reading() as connection:
        assert totals(connection)["output"] == 3
        row = connection.execute(select(sessions.c.input_tokens).where(sessions.c.id == kept)).one()
        assert tuple(row) == (10,)


def test_deleting_a_session_leaves_nothing_of_it(store: Store) -> None:
    [number] = keep(store, "a", read(*turns(3), source=Source("a")))
    with store.writing() as connection:
        forget_sessions(connection, [number])
    with store.reading() as connection:
        found = content(connection)
    assert not any(found.values())


def test_messages_without_a_time_or_an_identity_are_never_taken_for_replays(store: Store) -> None:
    untimed = session(human(), agent("Done."), source_id="a", ended=None)
    keep(store, "a", untimed)
    keep(store, "b", untimed)
    with store.reading() as connection:
        assert totals(connection)["messages"] == 4


# --- links ------------------------------------------------------------------------------------------------------


def named(name: str, parent: str | None, second: float | None = 0, **fields: Any) -> Session:
    """A session of its own words, that names its parent."""
    start = None if second is None else at(second)
    made = session(
        human(f"I am {name}", at=start),
        agent("Done.", at=start),
        source_id=name,
        parent_source_id=parent,
        relation=None if parent is None else "subagent",
        ended=start,
        **fields,
    )
    # `session` lets it begin ten minutes before.
    return Session(**{field: getattr(made, field) for field in made.__struct_fields__} | {"started": start})


def parents(store: Store, files: dict[str, Session]) -> dict[str, str | None]:
    in_every_order(store, files)
    with store.reading() as connection:
        return {name: row[1] for name, row in links(connection).items()}


def test_a_sub_agent_finds_its_parent_whichever_is_read_first(store: Store) -> None:
    files = {"parent": named("parent", None), "child": named("child", "parent", 5), "grand": named("grand", "child", 9)}
    assert parents(store, files) == {"parent": None, "child": "parent", "grand": "child"}


def test_a_sub_agent_whose_parent_is_nowhere_has_none(store: Store) -> None:
    assert parents(store, {"child": named("child", "parent")}) == {"child": None}


def test_a_session_that_names_itself_has_no_parent(store: Store) -> None:
    assert parents(store, {"a": named("a", "a"), "b": named("b", None)}) == {"a": None, "b": None}


def test_a_copy_of_a_session_that_names_itself_is_not_its_parent(store: Store) -> None:
    found = parents(store, {"a": named("a", "a"), "copy": named("a", "a"), "b": named("b", None)})
    assert set(found.values()) == {None}


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param((0, 5, 9), id="begun one after the other"),
        pytest.param((9, 5, 0), id="begun the other way round"),
        pytest.param((0, 0, 0), id="begun at one moment"),
        pytest.param((None, None, None), id="without times"),
    ],
)
@pytest.mark.parametrize("size", [2, 3])
def test_logs_that_name_each_other_as_parent_are_cut_at_one_place(
    store: Store, seconds: tuple[float | None, ...], size: int
) -> None:
    names = "abc"[:size]
    files = {name: named(name, names[(place + 1) % size], seconds[place]) for place, name in enumerate(names)}
    found = parents(store, files)
    for name in names:
        seen: set[str] = set()
        at_name: str | None = name
        while at_name is not None:
            assert at_name not in seen, "a circle"
            seen.add(at_name)
            at_name = found[at_name]
    roots = sum(parent is None for parent in found.values())
    assert 1 <= roots < size


def test_a_parent_that_has_a_copy_is_the_one_that_counts(store: Store) -> None:
    files = {"p": read(*turns(4, "p"), source=Source("p")), "backup": read(*turns(2, "p"), source=Source("backup"))}
    files["child"] = named("child", "p", 70)
    in_every_order(store, files)
    with store.reading() as connection:
        assert links(connection)["child"] == ("subagent", "p", None)


def test_a_parent_that_is_deleted_is_no_parent_any_more(store: Store) -> None:
    keep(store, "parent", named("parent", None))
    keep(store, "child", named("child", "parent", 5))
    with store.writing() as connection:
        forget_sessions(connection, ids_by_file(connection)["parent"])
    with store.reading() as connection:
        assert links(connection) == {"child": ("subagent", None, None)}


# --- writing ----------------------------------------------------------------------------------------------------


def test_a_log_that_somebody_else_wrote_meanwhile_is_left_to_them(store: Store) -> None:
    keep(store, "a", named("a", None))
    with store.writing() as connection:
        connection.execute(update(logs).values(fingerprint="theirs"))
    with pytest.raises(ValueError, match="theirs"):  # `keep` counts fingerprints
        keep(store, "a", named("a", None))
    with store.reading() as connection:
        known = writer.stored_sessions(connection, connection.execute(select(logs.c.key)).scalar_one())
    assert [one.source_id for one in known] == ["a"]


def test_many_sessions_of_one_log_are_kept_in_their_places(store: Store) -> None:
    found = [named("a", None), named("b", "a", 1), named("a", None, 500)]
    numbers = keep(store, "log", *found)
    with store.reading() as connection:
        rows = connection.execute(select(sessions.c.id, sessions.c.source_id, sessions.c.place).order_by(sessions.c.id))
        assert [tuple(row) for row in rows] == [
            (numbers[0], "a", 0),
            (numbers[1], "b", 0),
            (numbers[2], "a", 1),
        ]
    assert keep(store, "log", *found) == numbers


def test_every_row_of_a_session_is_replaced_when_it_is_read_again(store: Store) -> None:
    whole = read(*turns(6), source=Source("a"))
    for lines in (turns(6), turns(2), turns(4)):  # it grew, was rewound, and grew
        [number] = keep(store, "a", read(*lines, source=Source("a")))
    [again] = keep(store, "a", whole)
    assert again == number
    with store.reading() as connection:
        assert totals(connection) == of_turns(6)
        assert connection.execute(select(func.count()).select_from(messages)).scalar_one() == 12
        assert connection.execute(select(func.count()).select_from(tool_calls)).scalar_one() == 6
        assert connection.execute(select(func.count()).select_from(usage_events)).scalar_one() == 6
        assert read_report(connection, number) is not None


def test_nul_which_no_database_takes_is_replaced(store: Store) -> None:
    bad = "NUL \0 here"
    calls = [tool(bad, input="x", files=[bad]), tool("Edit", files=[bad])]
    spoken = [human(bad), agent(bad, *calls, model=bad, usage=request(1, key=bad))]
    [number] = keep(store, "a", session(*spoken, title=bad, cwd=bad, branch=bad))
    with store.reading() as connection:
        row = connection.execute(select(sessions).where(sessions.c.id == number)).one()
    assert (row.title, row.cwd, row.branch, row.model) == ("NUL \ufffd here",) * 4


def test_numbers_as_large_as_a_log_may_claim_are_kept(store: Store) -> None:
    huge = 2**53
    used = Usage(huge, huge, huge, huge, huge, huge, "m")
    [number] = keep(store, "a", session(human(), agent("Done.", tool(exit_code=2**63), usage=used)))
    report = report_of(store, number)
    assert report is not None
    assert report.usage is not None
    assert (report.usage.output_tokens, report.usage.cache_write_tokens) == (huge, 2 * huge)


# --- what is told no more ---------------------------------------------------------------------------------------


def test_what_a_session_tells_no_more_counts_where_it_is_still_told(store: Store) -> None:
    """A log is rewound behind turns that another one, which began later, repeats."""
    whole, resumed = turns(4), renamed(turns(4), "b") + turns(1, "a", 4, "b")
    keep(store, "a", read(*whole, source=Source("a")))
    keep(store, "b", read(*resumed, source=Source("b")))
    keep(store, "a", read(*whole[:6], source=Source("a")))
    with store.reading() as connection:
        assert totals(connection) == of_turns(5, sessions=2)
        found = dict(tuple(row) for row in connection.execute(select(sessions.c.source_id, sessions.c.messages)))
    assert found == {"a": 4, "b": 6}


def test_a_request_that_is_told_no_more_counts_where_it_is_still_told(store: Store) -> None:
    def answered(name: str, *outputs: int) -> Session:
        used = tuple(Usage(10, output_tokens=output, key=f"m{place}") for place, output in enumerate(outputs))
        return session(human(name, at=at(1)), loose_usage=used, source_id=name)

    keep(store, "a", answered("a", 3))
    keep(store, "b", answered("b", 41))
    keep(store, "b", answered("b"))
    with store.reading() as connection:
        assert totals(connection)["output"] == 3
