"""Amp threads. The Q and T rows named in the ids are the mistakes known in the field: docs/formats/amp.md.

Expectations are worked out by hand from the fixtures in `amp/`, which are invented.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parsers.mutations import HUGE, junk, places, put
from tests.parsers.sessions import CORPUS, assert_well_formed, calls, losses, spoken, statuses

from demerit.model import Session, ToolCall, Usage
from demerit.parsers import amp
from demerit.parsers.records import Record, Sample, Source

FIXTURES = Path(__file__).parent / "amp"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))

THREAD = "T-0199f2aa-0000-7000-8000-000000000001"
FILE = Source(name="T-file")


def read_bytes(data: bytes, source: Source = FILE) -> Session:
    (session,) = amp.parse([Record(data, 0)], source)
    return session


def fixture(name: str) -> Session:
    return read_bytes((FIXTURES / f"{name}.json").read_bytes())


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_bytes())
    return found


def thread(*messages: Any, **more: Any) -> Session:
    return read_bytes(json.dumps({"v": 7, "id": THREAD, "created": 0, "messages": messages, **more}).encode())


def ran(name: str, run: object, **arguments: Any) -> ToolCall:
    block = {"type": "tool_use", "id": "c", "name": name, "input": arguments}
    session = thread(
        {"role": "assistant", "messageId": 0, "content": [block]},
        {"role": "user", "messageId": 1, "content": [{"type": "tool_result", "toolUseID": "c", "run": run}]},
    )
    return calls(session)[0]


def usages(session: Session) -> list[Usage]:
    return [message.usage for message in session.messages if message.usage is not None]


# --- one thread, from end to end ----------------------------------------------------------------------------


def test_a_plain_thread_tells_where_and_when() -> None:
    session = fixture("plain")
    assert (session.agent, session.source_id, session.title) == ("amp", THREAD, "Round half up")
    assert (session.cwd, session.branch, session.agent_version) == ("/home/dev/shop", "main", "0.0.1762000000-g0a1b2c")
    assert session.started == datetime(2025, 11, 1, 12, 26, 40, tzinfo=UTC)  # created
    assert session.ended == datetime(2025, 11, 1, 12, 27, 5, tzinfo=UTC)  # the end of a trace
    assert (session.relation, session.terminal, session.events, session.losses) == (None, False, (), ())


def test_messages_that_only_bring_results_are_none() -> None:
    session = fixture("plain")
    assert spoken(session) == [
        ("user", "human", "round half up in cart.py please"),
        ("assistant", "agent", "I will look at the rounding."),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Rounding is half up now."),
    ]
    assert [(call.name, call.category, call.file_paths) for call in calls(session)] == [
        ("Read", "read", ("/home/dev/shop/cart.py",)),
        ("Bash", "shell", ()),
        ("edit_file", "edit", ("/home/dev/shop/cart.py",)),
    ]
    assert session.messages[1].at == datetime(2025, 11, 1, 12, 26, 41, tzinfo=UTC)
    assert session.messages[3].stop_reason == "end_turn"


def test_t15_the_classes_of_the_cache_stay_apart() -> None:
    first = usages(fixture("plain"))[0]
    assert (first.input_tokens, first.cache_read_tokens, first.cache_write_5m_tokens) == (3, 100, 60)
    assert (first.output_tokens, first.key) == (40, f"{THREAD}:1")


def test_the_cache_creation_of_a_model_of_openai_is_uncached_input() -> None:
    first, second = usages(fixture("openai"))
    assert (first.input_tokens, first.cache_read_tokens, first.cache_write_5m_tokens) == (345, 1000, 0)
    assert (second.input_tokens, second.cache_write_5m_tokens) == (107, 0)


@pytest.mark.parametrize(
    ("name", "index", "kind", "size"),
    [
        pytest.param("plain", 1, "signature", 200, id="a signature"),
        pytest.param("plain", 2, None, 0, id="no thinking"),
        pytest.param("openai", 1, "ciphertext", 300, id="a ciphertext of OpenAI's"),
        pytest.param("openai", 2, "signature", 90, id="redacted thinking"),
    ],
)
def test_thinking(name: str, index: int, kind: str | None, size: int) -> None:
    message = fixture(name).messages[index]
    assert (message.thinking_kind, message.thinking_bytes) == (kind, size)


def test_bodies_are_left_out_when_nobody_wants_them() -> None:
    session = read_bytes((FIXTURES / "plain.json").read_bytes(), Source(bodies=False, text_bytes=8))
    assert calls(session)[0].result is None and calls(session)[0].input_hash is not None
    assert [message.text for message in session.messages[:2]] == ["round half up in cart.py please", "I will l"]


def test_a_result_stays_at_its_place_in_the_file() -> None:
    data = (FIXTURES / "plain.json").read_bytes()
    body = calls(read_bytes(data))[0].result
    assert body is not None and body.offset is not None
    assert json.loads(data[body.offset : body.offset + body.bytes])["content"] == "def total(): ..."


# --- how calls went -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "status"),
    [
        pytest.param(0, "failed", id="Q11: run status error"),
        pytest.param(1, "declined", id="rejected by the user"),
        pytest.param(2, "cancelled", id="cancelled by the user"),
        pytest.param(3, "failed", id="a run that is done, of a command that exits with 1"),
        pytest.param(4, "ok", id="T25: words in a file that was read decide nothing"),
        pytest.param(5, "unknown", id="a process that gave no exit code"),
        pytest.param(6, "pending", id="a run in progress"),
        pytest.param(7, "failed", id="a run that is done without success"),
        pytest.param(8, "unknown", id="a status that is new to us"),
        pytest.param(9, "pending", id="no result"),
    ],
)
def test_statuses(index: int, status: str) -> None:
    assert statuses(fixture("tool_error"))[index] == status


@pytest.mark.parametrize(
    ("error", "evidence"),
    [
        pytest.param(
            {"message": "No match for old_str\nTry again"}, "run status error: No match for old_str", id="object"
        ),
        pytest.param("no such file", "run status error: no such file", id="text"),
        pytest.param({"code": 3}, "run status error", id="no message"),
        pytest.param([1], "run status error", id="neither"),
        pytest.param(None, "run status error", id="nothing"),
    ],
)
def test_a_failure_shows_how_its_message_begins(error: Any, evidence: str) -> None:
    thread = json.loads((FIXTURES / "tool_error.json").read_bytes())
    blocks = [block for message in thread["messages"] for block in message["content"] if isinstance(block, dict)]
    next(block for block in blocks if block.get("type") == "tool_result")["run"] = {"status": "error", "error": error}
    assert calls(read_bytes(json.dumps(thread).encode()))[0].evidence == evidence


@pytest.mark.parametrize(
    ("index", "status", "code"),
    [
        pytest.param(0, "benign", 1, id="T23: grep found nothing"),
        pytest.param(1, "benign", 1, id="T23: rg after cd"),
        pytest.param(2, "failed", 2, id="grep could not read its file"),
        pytest.param(3, "failed", 1, id="tests failed"),
    ],
)
def test_exit_1_that_only_says_nothing_found(index: int, status: str, code: int) -> None:
    call = calls(fixture("benign_exit"))[index]
    assert (call.status.value, call.exit_code, call.category) == (status, code, "shell")


@pytest.mark.parametrize(
    ("index", "status"),
    [
        pytest.param(0, "ok", id="is_error false"),
        pytest.param(1, "failed", id="is_error true"),
        pytest.param(2, "unknown", id="neither a run nor a flag"),
    ],
)
def test_results_as_the_api_has_them(index: int, status: str) -> None:
    assert statuses(fixture("imported"))[index] == status


def test_a_queued_run_that_came_to_an_end_is_decided_by_it() -> None:
    block = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"cmd": "ls"}}
    runs = [{"status": status} for status in ("queued", "error", "done")]
    results = [{"role": "user", "content": [{"type": "tool_result", "toolUseID": "c", "run": run}]} for run in runs]
    assert statuses(thread({"role": "assistant", "content": [block]}, *results)) == ["failed"]


def test_q19_a_patch_names_its_files() -> None:
    call = calls(fixture("openai"))[0]
    assert (call.category, call.file_paths) == ("edit", ("cart.py",))


def test_an_answer_of_the_api_itself_is_a_call() -> None:
    call = calls(fixture("openai"))[1]
    assert (call.name, call.category, call.status.value) == ("web_search", "web", "ok")


def test_equal_inputs_have_equal_hashes() -> None:
    one, two = ran("Read", {"status": "done"}, path="a", limit=3), ran("Read", {"status": "done"}, limit=3, path="a")
    assert one.input_hash == two.input_hash is not None


# --- who wrote it, and what happened --------------------------------------------------------------------------


def test_a_cancelled_response_is_an_interrupt() -> None:
    session = fixture("cancelled")
    assert statuses(session) == ["cancelled"]
    assert [(event.kind, event.message_ordinal) for event in session.events] == [("interrupt", 1)]
    assert (session.messages[-1].role, session.messages[-1].notice) == ("context", "interrupt")


def test_t20_an_error_of_the_service_ends_the_thread() -> None:
    session = fixture("error_end")
    assert [(message.role, message.author, message.notice) for message in session.messages] == [
        ("user", "human", None),
        ("assistant", "harness", "api_error"),
    ]
    assert session.messages[-1].text == "529 overloaded_error"


def test_notes_of_the_program_are_context_and_what_the_user_ran_is_no_call() -> None:
    session = fixture("compaction")
    assert [(message.role, message.text, message.notice) for message in session.messages[2:4]] == [
        ("context", "The module is ported.", "compaction_summary"),
        ("context", "git log", None),
    ]
    assert [event.kind for event in session.events] == ["compaction"] and calls(session) == []


def test_prompts_of_agents_are_an_agents() -> None:
    session = fixture("subagent")
    assert [(message.author, message.text, message.sidechain) for message in session.messages] == [
        ("human", "survey the shop", False),
        ("agent", "", False),
        ("agent", "find the discount", True),
        ("agent", "", True),
        ("agent", "In src/cart.py.", True),
        ("agent", "now the tax", False),  # from another thread
        ("agent", "There is none.", False),
    ]
    assert [(call.name, call.category, call.status.value) for call in calls(session)] == [
        ("Task", "agent", "ok"),
        ("Grep", "search", "ok"),
    ]


def test_an_attached_image_is_noted() -> None:
    image = {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "iVBORw0KGgo="}}
    (message,) = thread({"role": "user", "content": [image]}).messages
    assert message.has_image and message.author == "human"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        pytest.param("file:///home/dev/my%20shop", "/home/dev/my shop", id="a space"),
        pytest.param("file:///c%3A/dev/shop", "c:/dev/shop", id="a drive"),
        pytest.param("vscode-vfs://github/shop", None, id="no file"),
    ],
)
def test_the_folder(uri: str, path: str | None) -> None:
    assert thread(env={"initial": {"trees": [{"uri": uri}]}}).cwd == path


# --- threads that are old, drifted or broken -----------------------------------------------------------------


def test_a_thread_without_times_and_environment_is_read() -> None:
    session = fixture("imported")
    assert (session.started, session.cwd, session.title, session.losses) == (None, None, None, ())
    assert spoken(session) == [
        ("user", "human", "hello there"),
        ("assistant", "agent", ""),
        ("assistant", "agent", "Two files."),
    ]


def test_t55_what_is_not_understood_is_counted_and_the_rest_is_read() -> None:
    session = fixture("unknown_type")
    assert losses(session) == {"unknown_role": 1, "unknown_block": 2, "orphan_result": 1, "not_an_object": 1}
    assert [message.text for message in session.messages] == ["hello there, what is new?", "Much."]


def test_of_a_file_that_was_cut_before_its_messages_the_id_is_read() -> None:
    session = fixture("cut")
    assert session.messages == () and losses(session) == {"malformed_tail": 1, "no_messages": 1}
    assert session.source_id == "T-0199f2aa-0000-7000-8000-000000000001"


def test_several_records_are_several_threads() -> None:
    data = (FIXTURES / "plain.json").read_bytes()
    assert [len(session.messages) for session in amp.parse([Record(data, 0)] * 2, FILE)] == [4, 4]
    assert amp.parse([], FILE) == []


# --- hostile content ------------------------------------------------------------------------------------------

SOUND = [name for name in NAMES if name not in ("cut", "unknown_type")]

# Fields that are read wherever they stand, with the JSON types they may have. Null is absence.
TEXT, NUMBER, OBJECT, LIST, TIME = (str,), (int,), (dict,), (list,), (str, int, float)
READ: dict[tuple[str, ...], tuple[type, ...]] = {
    ("id",): TEXT,
    ("title",): TEXT,
    ("created",): TIME,
    ("messages",): LIST,
    ("env",): OBJECT,
    ("env", "initial"): OBJECT,
    ("env", "initial", "trees"): LIST,
    ("env", "initial", "trees", "uri"): TEXT,
    ("env", "initial", "trees", "repository"): OBJECT,
    ("env", "initial", "trees", "repository", "ref"): TEXT,
    ("env", "initial", "platform"): (dict, str),
    ("env", "initial", "platform", "clientVersion"): TEXT,
    ("meta",): OBJECT,
    ("meta", "traces"): LIST,
    ("meta", "traces", "startTime"): TIME,
    ("messages", "messageId"): (int, str),
    ("messages", "content"): (str, list),
    ("messages", "meta"): OBJECT,
    ("messages", "meta", "sentAt"): TIME,
    ("messages", "meta", "fromExecutorThreadID"): TEXT,
    ("messages", "state"): OBJECT,
    ("messages", "state", "error"): (str, dict),
    ("messages", "state", "error", "message"): TEXT,
    ("messages", "usage"): OBJECT,
    ("messages", "usage", "timestamp"): TIME,
    ("messages", "content", "run"): OBJECT,
    ("messages", "content", "run", "status"): TEXT,
    ("messages", "content", "is_error"): (bool,),
    ("messages", "content", "summary"): OBJECT,
    ("messages", "content", "summary", "summary"): TEXT,
    ("messages", "content", "args"): OBJECT,
    ("messages", "content", "openAIReasoning"): OBJECT,
    ("messages", "content", "openAIReasoning", "encryptedContent"): TEXT,
}
READ.update({("messages", name): TEXT for name in ("role", "parentToolUseId")})
READ.update({("messages", "state", name): TEXT for name in ("type", "stopReason")})
READ.update({("messages", "usage", "model"): TEXT})
BLOCK = "type text signature id name toolUseID tool_use_id"
READ.update({("messages", "content", name): TEXT for name in BLOCK.split()})
COUNTS = "inputTokens outputTokens cacheCreationInputTokens cacheReadInputTokens"
READ.update({("messages", "usage", name): NUMBER for name in COUNTS.split()})
WRONG = ("wrong_type", "bad_time")


def fits(value: object, wanted: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in wanted
    if isinstance(value, float) and int in wanted and value.is_integer():
        return True
    return value is None or isinstance(value, wanted) or value == HUGE


DOCUMENTS = {name: document(name) for name in SOUND}
PLACES = {name: sorted(places(value), key=repr) for name, value in DOCUMENTS.items()}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_may_stand_anywhere_and_a_wrong_type_is_counted(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(SOUND))
    at = data.draw(st.sampled_from(PLACES[name]))
    new = data.draw(junk)
    session = read_bytes(json.dumps(put(DOCUMENTS[name], at, new)).encode())
    assert_well_formed(session)
    wanted = READ.get(tuple(key for key in at if isinstance(key, str)))
    if wanted is not None and not isinstance(at[-1], int) and not fits(new, wanted):
        assert sum(losses(session).get(kind, 0) for kind in WRONG), (at, new, losses(session))


def test_a_file_may_be_cut_at_any_byte() -> None:
    data = (FIXTURES / "subagent.json").read_bytes()
    for size in range(0, len(data), 23):
        assert_well_formed(read_bytes(data[:size]))


@pytest.mark.parametrize("field", ["id", "created", "env", "messages", "title"])
def test_nesting_without_end_is_survived(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    read_bytes(b'{"id": "T-1", "%s": %s}' % (field.encode(), deep))
    read_bytes(b'{"id": "T-1", "messages": [{"role": "assistant", "content": %s}]}' % deep)


# --- whose thread -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cut"])
def test_its_own_threads_are_claimed(name: str) -> None:
    assert amp.sniff(Sample((document(name),), is_document=True))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"id": "chatcmpl-1", "messages": [], "created": 1}, id="another id"),
        pytest.param({"id": "T-1", "messages": []}, id="neither version nor time"),
        pytest.param({"id": "T-1", "messages": {}, "v": 1}, id="messages that are no list"),
        pytest.param({"id": ["T-1"], "messages": [], "v": 1}, id="an id that is no text"),
        pytest.param({"sessionId": "s", "messages": [], "startTime": "t"}, id="Gemini"),
        pytest.param([{"role": "user", "content": "hi"}], id="a list of messages"),
    ],
)
def test_the_logs_of_others_are_not_claimed(value: object) -> None:
    assert not amp.sniff(Sample((value,), is_document=True))


def test_a_line_that_looks_like_a_thread_is_none() -> None:
    assert not amp.sniff(Sample((document("plain"),)))


REAL = sorted(path for path in CORPUS.rglob("*") if path.is_file()) if CORPUS.is_dir() else []


@pytest.mark.skipif(not REAL, reason="no corpus beside the repository")
def test_no_log_of_another_agent_is_claimed() -> None:
    for path in REAL:
        data = path.read_bytes()
        values: list[Any] = []
        try:
            values.append(json.loads(data))
        except ValueError:
            continue
        assert amp.sniff(Sample(tuple(values), is_document=True)) == (path.parent.name == "amp"), path
