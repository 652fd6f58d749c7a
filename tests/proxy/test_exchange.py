from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.defects import DefectLedger, LoopGuardTrip, ModelDefectCounts, ModelTurnCounts
from demerit.proxy import exchange as module
from demerit.proxy.chat import AnswerFacts
from demerit.proxy.exchange import Exchange, Stage, Stop
from demerit.proxy.gate import Reply
from demerit.proxy.options import GuardMode, Options, Upstream
from demerit.proxy.sse import Reader

AT = datetime(2026, 12, 1, 12, tzinfo=UTC)
ASK = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
SENTINEL = b"data: [DONE]\n\n"


def chunk(**part: Any) -> bytes:
    finish = part.pop("finish_reason", None)
    return (
        b"data: %s\n\n"
        % json.dumps({"id": "c", "choices": [{"index": 0, "delta": part, "finish_reason": finish}]}).encode()
    )


TEXT, STOP = chunk(content="Hello"), chunk(finish_reason="stop")
THOUGHT, CALL = chunk(reasoning_content="hm"), chunk(tool_calls=[{"index": 0, "function": {"name": "f"}}])
UPSTREAM_ERROR = b'data: {"error":{"message":"out of memory"}}\n\n'


def options(mode: GuardMode = "note") -> Options:
    return Options(upstreams=(Upstream(name="up", url="http://127.0.0.1:1/v1"),), guard_mode=mode)


class Played:
    """A stream as it goes through an exchange: what the client got, and what was counted."""

    def __init__(
        self,
        chunks: Sequence[bytes],
        stop: Stop | None = "end",
        body: bytes = ASK,
        mode: GuardMode = "note",
    ) -> None:
        """stop: None: the client leaves."""
        self.ledger = DefectLedger(AT)
        self.failures: list[Stage] = []
        self.exchange = Exchange(options(mode), self.ledger, lambda stage, error: self.failures.append(stage))
        assert self.exchange.read(body) or self.failures
        self.step = self.exchange.guard(AT)
        self.got = b""
        if isinstance(self.step, Reply):
            return
        self.exchange.forwarded()
        self.exchange.answered(is_stream=True)
        self.got = b"".join(map(self.exchange.feed, chunks))
        if stop is None:
            self.exchange.client_left()
        else:
            self.got += self.exchange.finish(stop)

    @property
    def defects(self) -> dict[str, int]:
        return counted(self.ledger.snapshot().get("m"))

    @property
    def turns(self) -> dict[str, int]:
        return counted(self.ledger.turns().get("m"))


def counted(counts: ModelDefectCounts | ModelTurnCounts | None) -> dict[str, int]:
    names = counts.__struct_fields__ if counts is not None else ()
    return {name: getattr(counts, name) for name in names if getattr(counts, name)}


def error_of(got: bytes) -> str:
    """The code of the error that is the last frame but the sentinel."""
    *_, error, sentinel = got.removesuffix(b"\n\n").split(b"\n\n")
    assert sentinel == b"data: [DONE]"
    code: str = json.loads(error.removeprefix(b"data: "))["error"]["code"]
    return code


# --- ends of a turn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "stop", "defects", "turns", "added"),
    [
        pytest.param([TEXT, STOP, SENTINEL], "end", {}, {"completed_turns": 1}, b"", id="a clean end"),
        pytest.param([TEXT, STOP], "end", {}, {"completed_turns": 1}, b"", id="a finish reason and no sentinel"),
        pytest.param([TEXT, SENTINEL], "end", {}, {"completed_turns": 1}, b"", id="a sentinel and no finish reason"),
        pytest.param(
            [TEXT, STOP, SENTINEL],
            "broken",
            {},
            {"completed_turns": 1},
            b"",
            id="a connection that breaks after the sentinel",
        ),
        pytest.param([CALL, STOP, SENTINEL], "end", {}, {"completed_turns": 1, "tool_turns": 1}, b"", id="a call"),
        pytest.param(
            [TEXT, chunk(finish_reason="length"), SENTINEL],
            "end",
            {"truncated_generations": 1},
            {"completed_turns": 1},
            b"",
            id="cut off at the limit",
        ),
        pytest.param([STOP, SENTINEL], "end", {"empty_responses": 1}, {"completed_turns": 1}, b"", id="nothing"),
        pytest.param(
            [chunk(content=" \n"), STOP, SENTINEL],
            "end",
            {"empty_responses": 1},
            {"completed_turns": 1},
            b"",
            id="white space alone",
        ),
        pytest.param(
            [THOUGHT, STOP, SENTINEL],
            "end",
            {"empty_responses": 1, "reasoning_only": 1},
            {"completed_turns": 1},
            b"",
            id="reasoning alone",
        ),
        pytest.param(
            [THOUGHT, chunk(finish_reason="length"), SENTINEL],
            "end",
            {"truncated_generations": 1, "empty_responses": 1, "reasoning_only": 1},
            {"completed_turns": 1},
            b"",
            id="reasoning up to the limit",
        ),
        pytest.param([THOUGHT, TEXT, STOP, SENTINEL], "end", {}, {"completed_turns": 1}, b"", id="reasoning and text"),
        pytest.param(
            [TEXT, b"data: {oops\n\n", TEXT, STOP, SENTINEL],
            "end",
            {"stream_errors": 1},
            {"completed_turns": 1, "unreadable_frames": 1},
            b"",
            id="an unreadable frame, and on it goes",
        ),
        pytest.param(
            [b"data: {\n\n", b"data: [\n\n", STOP, SENTINEL],
            "end",
            {"stream_errors": 1},
            {"completed_turns": 1, "unreadable_frames": 2},
            b"",
            id="two of them are one failed stream, and not empty",
        ),
        pytest.param(
            [TEXT, UPSTREAM_ERROR],
            "end",
            {"stream_errors": 1},
            {"completed_turns": 1},
            SENTINEL,
            id="an error of the upstream, and the sentinel that it left out",
        ),
        pytest.param(
            [UPSTREAM_ERROR, SENTINEL],
            "end",
            {"stream_errors": 1},
            {"completed_turns": 1},
            b"",
            id="an error of the upstream with its sentinel, and not empty",
        ),
        pytest.param(
            [UPSTREAM_ERROR],
            "broken",
            {"stream_errors": 1},
            {"completed_turns": 1},
            SENTINEL,
            id="an error and then a broken connection are one failed stream",
        ),
        pytest.param(
            [TEXT], "broken", {"stream_errors": 1}, {"completed_turns": 1}, "upstream_broken", id="broken off"
        ),
        pytest.param(
            [],
            "broken",
            {"stream_errors": 1},
            {"completed_turns": 1},
            "upstream_broken",
            id="broken off before anything came, and not empty",
        ),
        pytest.param(
            [TEXT, STOP],
            "broken",
            {"stream_errors": 1},
            {"completed_turns": 1},
            "upstream_broken",
            id="broken off between the finish reason and the sentinel",
        ),
        pytest.param([TEXT], "stalled", {"stream_errors": 1}, {"completed_turns": 1}, "upstream_stalled", id="stalled"),
        pytest.param(
            [TEXT],
            "end",
            {"stream_errors": 1},
            {"completed_turns": 1},
            "upstream_incomplete",
            id="an end with neither finish reason nor sentinel",
        ),
        pytest.param(
            [],
            "end",
            {"stream_errors": 1},
            {"completed_turns": 1},
            "upstream_incomplete",
            id="an end without a single frame",
        ),
        pytest.param([TEXT], None, {}, {"client_aborts": 1}, b"", id="the client leaves in the middle"),
        pytest.param(
            [], None, {}, {"client_aborts": 1}, b"", id="the client leaves before anything came, and it is not empty"
        ),
        pytest.param(
            [TEXT, STOP, SENTINEL], None, {}, {"completed_turns": 1}, b"", id="the client leaves when all is read"
        ),
        pytest.param(
            [UPSTREAM_ERROR],
            None,
            {"stream_errors": 1},
            {"completed_turns": 1},
            b"",
            id="the client leaves because of the error",
        ),
        pytest.param(
            [TEXT, b": ping\n\n", b"event: x\n\n", STOP, SENTINEL],
            "end",
            {},
            {"completed_turns": 1},
            b"",
            id="comments and other fields",
        ),
    ],
)
def test_how_a_streamed_turn_ends(
    sent: list[bytes], stop: Stop | None, defects: dict[str, int], turns: dict[str, int], added: bytes | str
) -> None:
    stream = b"".join(sent)
    for chunks in (sent, [stream], [stream[at : at + 1] for at in range(len(stream))]):
        played = Played(chunks, stop)
        assert played.defects == {"requests": 1, **defects}
        assert played.turns == {"scanned": 1, "streamed_turns": 1, **turns}
        assert played.failures == []
        if isinstance(added, str):
            assert played.got.startswith(stream)
            assert error_of(played.got) == added
        else:
            assert played.got == stream + added


def test_a_frame_that_never_ends_does_not_reach_the_client_before_our_error() -> None:
    played = Played([TEXT, b'data: {"choi'], "broken")
    assert played.got.startswith(TEXT + b'data: {"error"')
    assert error_of(played.got) == "upstream_broken"


def test_a_last_frame_without_its_blank_line_counts_and_goes_out_as_it_came() -> None:
    played = Played([TEXT, STOP.removesuffix(b"\n")])
    assert played.got == TEXT + STOP.removesuffix(b"\n")
    assert played.defects == {"requests": 1}


@pytest.mark.parametrize(
    ("body", "defects", "turns"),
    [
        pytest.param(
            b'{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}',
            {},
            {"completed_turns": 1},
            id="an answer",
        ),
        pytest.param(
            b'{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}',
            {"truncated_generations": 1},
            {"completed_turns": 1},
            id="cut off at the limit",
        ),
        pytest.param(
            b'{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}',
            {"empty_responses": 1},
            {"completed_turns": 1},
            id="nothing",
        ),
        pytest.param(
            b'{"choices":[{"message":{"content":null,"reasoning_content":"hm"}}]}',
            {"empty_responses": 1, "reasoning_only": 1},
            {"completed_turns": 1},
            id="reasoning alone",
        ),
        pytest.param(
            b'{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]}}]}',
            {},
            {"completed_turns": 1, "tool_turns": 1},
            id="a call",
        ),
        pytest.param(b'{"error":{"message":"x"}}', {}, {"upstream_refusals": 1}, id="an error with status 200"),
        pytest.param(b"<html>", {}, {"unreadable_frames": 1}, id="what cannot be read"),
    ],
)
def test_how_a_whole_turn_ends(body: bytes, defects: dict[str, int], turns: dict[str, int]) -> None:
    ledger = DefectLedger(AT)
    exchange = Exchange(options("off"), ledger, pytest.fail)  # type: ignore[arg-type]
    exchange.read(ASK)
    exchange.guard(AT)
    exchange.forwarded()
    exchange.answered(is_stream=False)
    exchange.finish_whole(body)
    assert counted(ledger.snapshot()["m"]) == {"requests": 1, **defects}
    assert counted(ledger.turns()["m"]) == turns


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(["", " ", "x", "é\U0001f600", None]),
        "reasoning_content": st.sampled_from(["", "hm"]),
        "tool_calls": st.just([{"index": 0, "id": "1", "function": {"name": "f", "arguments": ""}}]),
        "refusal": st.sampled_from([None, "No."]),
    },
)
ANSWERS = st.tuples(st.lists(PARTS, max_size=4), st.sampled_from(["stop", "length", "tool_calls"]))


@given(ANSWERS)
def test_an_answer_counts_the_same_streamed_and_whole(answer: tuple[list[dict[str, Any]], str]) -> None:
    parts, reason = answer
    streamed = Played([*(chunk(**part) for part in parts), chunk(finish_reason=reason), SENTINEL], mode="off")
    message: dict[str, Any] = {"content": "", "reasoning_content": ""}
    for part in parts:
        for name, value in part.items():
            message[name] = (message.get(name) or "") + value if isinstance(value, str) else value or message.get(name)
    whole = DefectLedger(AT)
    exchange = Exchange(options("off"), whole, pytest.fail)  # type: ignore[arg-type]
    exchange.read(ASK)
    exchange.guard(AT)
    exchange.forwarded()
    exchange.answered(is_stream=False)
    exchange.finish_whole(json.dumps({"choices": [{"message": message, "finish_reason": reason}]}).encode())
    assert counted(whole.snapshot()["m"]) == streamed.defects
    assert counted(whole.turns()["m"]) | {"streamed_turns": 1} == streamed.turns


# --- byte for byte ------------------------------------------------------------------------------------------

FRAMES = st.one_of(
    st.sampled_from(
        [
            TEXT,
            THOUGHT,
            CALL,
            b": keep-alive\n\n",
            b"event: ping\ndata: {}\n\n",
            b"id: 7\nretry: 10\n\n",
            b'data:{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x"}]}}]}\n\n',
            b'data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}\n\n',
            b'data: {"choices":[],"usage":{"total_tokens":3},"timings":{"predicted_ms":1.50}}\n\n',
            b'data: {"choices":\ndata: []}\n\n',
            'data: {"choices":[{"delta":{"content":"日本語 \U0001f600"}}]}\n\n'.encode(),
            b'data: {"x_own": [1e400, {"a" : 1}],  "choices":[]}\n\n',
        ]
    ),
    st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"), max_size=12).map(
        lambda text: f"data: {json.dumps({'choices': [{'delta': {'content': text}}]}, ensure_ascii=False)}\n\n".encode()
    ),
)


@given(
    st.lists(FRAMES, max_size=8).map(b"".join),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.booleans(),
    st.lists(st.integers(1, 40), min_size=1, max_size=10),
)
def test_an_idle_proxy_sends_what_it_got(frames: bytes, line_end: bytes, has_mark: bool, lengths: list[int]) -> None:
    stream = (b"\xef\xbb\xbf" if has_mark else b"") + (frames + STOP + SENTINEL).replace(b"\n", line_end)
    chunks, at = [], 0
    for turn in range(len(stream)):
        chunks.append(stream[at : at + lengths[turn % len(lengths)]])
        at += len(chunks[-1])
    played = Played(chunks)
    assert played.got == stream
    assert "stream_errors" not in played.defects
    assert played.failures == []


# --- the guard ----------------------------------------------------------------------------------------------


def looping(times: int, last: object = None) -> bytes:
    """A request whose history holds the same call so many times, each answered alike."""
    messages: list[object] = [{"role": "user", "content": "Go"}]
    for turn in range(times):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "write_file", "arguments": '{"path":"a"}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": "written"})
    return json.dumps({"model": "m", "messages": messages + ([last] if last else [])}).encode()


def stagnating(times: int) -> bytes:
    said = [{"role": "assistant", "content": "I will look."}] * times
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "Go"}, *said]}).encode()


@pytest.mark.parametrize(
    ("mode", "body", "defects", "turns"),
    [
        pytest.param(
            "note",
            looping(2),
            {"identical_result_repeats": 1},
            {"scanned": 1, "repeats_seen": 1},
            id="a second time is a repeat and no trip",
        ),
        pytest.param(
            "note",
            looping(3),
            {"loop_guard_trips": 1, "loop_guard_loops": 1, "identical_result_repeats": 1},
            {"scanned": 1, "repeats_seen": 1},
            id="a third time is noted, and is one request",
        ),
        pytest.param(
            "refuse",
            looping(3),
            {"loop_guard_trips": 1, "loop_guard_loops": 1, "identical_result_repeats": 1},
            {"scanned": 1, "repeats_seen": 1},
            id="a third time is refused, and is one request",
        ),
        pytest.param("off", looping(3), {}, {}, id="switched off, nothing is looked at"),
        pytest.param(
            "refuse",
            stagnating(6),
            {"loop_guard_trips": 1, "loop_guard_stagnations": 1},
            {"scanned": 1},
            id="the same text a sixth time",
        ),
        pytest.param(
            "note",
            looping(3, {"role": "user", "content": "Stop that."}),
            {},
            {"scanned": 1},
            id="a loop that a person has broken",
        ),
        pytest.param("note", b'{"model":"m","messages":"x"}', {}, {}, id="messages that are no list are not scanned"),
    ],
)
def test_what_the_guard_counts(mode: GuardMode, body: bytes, defects: dict[str, int], turns: dict[str, int]) -> None:
    played = Played([TEXT, STOP, SENTINEL], mode=mode, body=body)
    assert played.defects == {"requests": 1, **defects}
    answered = {} if isinstance(played.step, Reply) else {"streamed_turns": 1, "completed_turns": 1}
    assert played.turns == {**turns, **answered}
    assert (played.exchange.decision is not None) == ("loop_guard_trips" in defects)


def test_a_noted_request_says_what_repeated() -> None:
    noted = Played([], None, body=looping(3)).step
    assert isinstance(noted, bytes)
    last = json.loads(noted)["messages"][-1]
    assert last["content"].startswith("written\n\n[demerit loop guard] ")
    assert "write_file" in last["content"]
    assert json.loads(noted)["messages"][:-1] == json.loads(looping(3))["messages"][:-1]


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        (looping(3), "loop_detected", ["write_file", "3 times", "repeat_limit", "loop_guard_mode"]),
        (stagnating(6), "stagnation_detected", ["I will look.", "6 times", "stagnation_limit is 5", "loop_guard_mode"]),
    ],
)
def test_a_refusal_says_what_repeated_and_the_setting(body: bytes, code: str, named: list[str]) -> None:
    reply = Played([], body=body, mode="refuse").step
    assert isinstance(reply, Reply)
    assert reply.status == 400
    error = json.loads(reply.body)["error"]
    assert (error["type"], error["code"]) == (code, code)
    for word in named:
        assert word in error["message"]


def test_a_decision_holds_hashes_only() -> None:
    ledger = DefectLedger(AT)
    exchange = Exchange(options("refuse"), ledger, pytest.fail)  # type: ignore[arg-type]
    exchange.read(looping(3))
    exchange.guard(AT, session="my session")
    decision = exchange.decision
    assert decision is not None
    assert (decision.at, decision.model, decision.mode, decision.detector) == (AT, "m", "refuse", LoopGuardTrip.loop)
    assert (decision.count, decision.limit) == (3, 2)
    for told in (decision.signature_hash, decision.session_hash):
        assert told is not None
        assert len(told) == 16
        assert set(told) <= set("0123456789abcdef")


def test_a_request_is_not_counted_before_it_goes() -> None:
    ledger = DefectLedger(AT)
    exchange = Exchange(options(), ledger, pytest.fail)  # type: ignore[arg-type]
    exchange.read(looping(3))
    exchange.guard(AT)
    assert ledger.snapshot() == {}
    assert ledger.turns() == {}


def test_a_model_without_a_name_has_one_in_the_counts() -> None:
    ledger = DefectLedger(AT)
    exchange = Exchange(options(), ledger, pytest.fail)  # type: ignore[arg-type]
    assert exchange.read(b'{"messages":[]}')
    assert exchange.guard(AT) == b'{"messages":[]}'
    exchange.forwarded()
    assert list(ledger.snapshot()) == ["(unnamed)"]


@pytest.mark.parametrize("body", [b"", b"not JSON", b"[1]", b'"text"'])
def test_what_is_no_request_is_forwarded_uncounted(body: bytes) -> None:
    ledger = DefectLedger(AT)
    assert not Exchange(options(), ledger, pytest.fail).read(body)  # type: ignore[arg-type]
    assert ledger.snapshot() == {}


# --- faults of ours -----------------------------------------------------------------------------------------


def raising(*args: object, **named: object) -> Any:
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize(
    ("place", "name", "stage"),
    [
        (module, "read_request", "read"),
        (module, "scan", "guard"),
        (module, "conversation_hash", "guard"),
        (module, "with_note", "note"),
        (module, "note_for", "note"),
        (module, "payloads", "classify"),
        (module, "as_json_list", "classify"),
        (Reader, "feed", "frames"),
        (Reader, "rest", "frames"),
        (AnswerFacts, "add", "classify"),
        (AnswerFacts, "add_list", "classify"),
        (DefectLedger, "record_request", "count"),
        (DefectLedger, "record_turn", "count"),
        (DefectLedger, "record_stream_error", "count"),
        (DefectLedger, "record_empty_response", "count"),
    ],
)
@pytest.mark.parametrize("when", [0, 1])
def test_whatever_of_ours_fails_the_client_gets_the_upstreams_bytes(
    place: Any, name: str, stage: Stage, when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = getattr(place, name)
    calls = 0

    def failing(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return raising() if calls > when else real(*args, **named)

    monkeypatch.setattr(place, name, failing)
    stream = TEXT + b"data: {oops\n\n" + STOP + SENTINEL
    played = Played([stream[:20], stream[20:60], stream[60:]], body=looping(3))
    assert played.got == stream
    assert set(played.failures) <= {stage}
    assert isinstance(played.step, bytes | None)
