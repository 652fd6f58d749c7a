from __future__ import annotations

import json
from typing import Any

import pytest

from demerit.proxy.chat import AnswerFacts, conversation_hash, read_request, with_note

NOTE = "[note]"


@pytest.mark.parametrize(
    ("body", "model", "streaming", "messages"),
    [
        pytest.param(b'{"model":"m","stream":true,"messages":[1]}', "m", True, [1], id="the usual"),
        pytest.param(b'{"model":"m","messages":[]}', "m", False, [], id="no stream"),
        pytest.param(b'{"model":7,"stream":"true","messages":{}}', "", False, None, id="values of other types"),
        pytest.param(b"{}", "", False, None, id="nothing in it"),
        pytest.param(
            b' {"messages":[NaN, 1e400, "\\ud83d"],"model":"m"}', "m", False, None, id="what only lenient readers take"
        ),
        pytest.param(b'{"model":"a","model":"b"}', "b", False, None, id="the last of two names"),
    ],
)
def test_what_a_request_asks(body: bytes, model: str, streaming: bool, messages: list[Any] | None) -> None:
    request = read_request(body)
    assert request is not None
    assert (request.model, request.streaming) == (model, streaming)
    if b"NaN" in body:
        assert request.messages is not None
        assert len(request.messages) == 3
    else:
        assert request.messages == messages


@pytest.mark.parametrize("body", [b"", b"nope", b"[]", b"7", b'{"model":', b"\xff\xfe", b"[" * 100_000, b"\x00"])
def test_what_is_no_request(body: bytes) -> None:
    assert read_request(body) is None


def test_a_history_of_any_depth_is_read_or_is_none() -> None:
    request = read_request(b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert request is None or request.messages is None


def body_with(*messages: object) -> bytes:
    return json.dumps({"model": "m", "temperature": 0.70, "messages": messages, "x": {"b": 1, "a": [1e2]}}).encode()


@pytest.mark.parametrize(
    ("last", "noted"),
    [
        pytest.param(
            [{"role": "user", "content": "Hi"}],
            [{"role": "user", "content": "Hi\n\n[note]"}],
            id="after a blank line in a text of the user's",
        ),
        pytest.param(
            [{"role": "tool", "tool_call_id": "1", "content": "out"}],
            [{"role": "tool", "tool_call_id": "1", "content": "out\n\n[note]"}],
            id="or of a tool's",
        ),
        pytest.param(
            [{"role": "user", "content": ""}], [{"role": "user", "content": "[note]"}], id="alone in an empty text"
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": NOTE}]}],
            id="as one more part",
        ),
        pytest.param(
            [{"role": "user", "content": []}],
            [{"role": "user", "content": [{"type": "text", "text": NOTE}]}],
            id="as the only part",
        ),
        pytest.param(
            [{"role": "assistant", "content": "So"}],
            [{"role": "assistant", "content": "So"}, {"role": "user", "content": NOTE}],
            id="never in the model's mouth",
        ),
        pytest.param(
            [{"role": "system", "content": "So"}],
            [{"role": "system", "content": "So"}, {"role": "user", "content": NOTE}],
            id="never at the end of a system message",
        ),
        pytest.param(
            [{"role": "user", "content": None}],
            [{"role": "user", "content": None}, {"role": "user", "content": NOTE}],
            id="after null content",
        ),
        pytest.param([{"role": "user"}], [{"role": "user"}, {"role": "user", "content": NOTE}], id="after no content"),
        pytest.param([{"content": "x"}], [{"content": "x"}, {"role": "user", "content": NOTE}], id="after no role"),
        pytest.param([7], [7, {"role": "user", "content": NOTE}], id="after what is no message"),
        pytest.param(
            [{"role": "user", "content": "first"}, {"role": "user", "content": "é\U0001f600"}],
            [{"role": "user", "content": "first"}, {"role": "user", "content": "é\U0001f600\n\n[note]"}],
            id="only in the last",
        ),
    ],
)
def test_where_the_note_goes(last: list[object], noted: list[object]) -> None:
    assert json.loads(with_note(body_with(*last), NOTE)) == json.loads(body_with(*noted))


@pytest.mark.parametrize("body", [b'{"messages":[]}', b'{"model":"m"}', b"nope", b'{"messages":{}}', b"[]"])
def test_where_there_is_no_place_for_it_nothing_changes(body: bytes) -> None:
    assert with_note(body, NOTE) == body


def test_what_the_note_does_not_touch_keeps_its_very_bytes() -> None:
    body = (
        b'{"seed":12345678901234567890123,"top_p":0.10,"messages":[{"role":"user","content":"\\u00e9","n":1.0},'
        b'{"role":"user","content":"b","k":1.50}],"tools":[ {"a" : 1e5} ]}'
    )
    assert with_note(body, NOTE) == (
        b'{"seed":12345678901234567890123,"top_p":0.10,"messages":[{"role":"user","content":"\\u00e9","n":1.0},'
        b'{"role":"user","content":"b\\n\\n[note]","k":1.50}],"tools":[ {"a" : 1e5} ]}'
    )


def test_a_note_reaches_a_body_that_only_lenient_readers_take() -> None:
    noted = with_note(b'{"top_p":NaN,"messages":[{"role":"user","content":"\\ud83d"}]}', NOTE)
    assert json.loads(noted)["messages"] == [{"role": "user", "content": "\ud83d\n\n[note]"}]


def facts(*frames: object) -> set[str]:
    """Names of what is true of an answer."""
    found = AnswerFacts()
    for frame in frames:
        found.add(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
    return {name for name in AnswerFacts.__slots__ if getattr(found, name)}


def delta(**part: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": part, "finish_reason": None}]}


def finish(reason: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("frames", "true"),
    [
        pytest.param([delta(content="x")], {"rendered"}, id="text"),
        pytest.param([delta(content=" \n\u00a0\u2003")], set(), id="white space of any kind renders nothing"),
        pytest.param([delta(content=""), delta(content=None), delta(role="assistant")], set(), id="nothing"),
        pytest.param([delta(refusal="No.")], {"rendered"}, id="a refusal"),
        pytest.param([delta(audio={"data": "AA"})], {"rendered"}, id="audio"),
        pytest.param([delta(images=[{"image_url": {}}])], {"rendered"}, id="an image"),
        pytest.param(
            [delta(tool_calls=[{"index": 0, "function": {"name": "f"}}])], {"called", "rendered"}, id="a call"
        ),
        pytest.param([delta(tool_calls=[])], set(), id="no calls"),
        pytest.param([delta(function_call={"name": "f"})], {"called", "rendered"}, id="a call in the old form"),
        pytest.param([delta(reasoning_content="hm")], {"reasoned"}, id="reasoning as DeepSeek and llama.cpp send it"),
        pytest.param([delta(reasoning="hm")], {"reasoned"}, id="reasoning as OpenRouter and Ollama send it"),
        pytest.param([delta(reasoning_content="hm"), delta(content="x")], {"reasoned", "rendered"}, id="both"),
        pytest.param([delta(content=[{"type": "text", "text": "x"}])], {"rendered"}, id="content in parts"),
        pytest.param(
            [delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "x"}]}])],
            {"reasoned"},
            id="a part that thinks, as Mistral sends it",
        ),
        pytest.param([delta(content=[{"type": "text", "text": "  "}])], set(), id="a part of white space"),
        pytest.param([delta(content=[{"type": "image_url"}])], {"rendered"}, id="a part that is an image"),
        pytest.param([finish("stop")], {"finished"}, id="a finish reason"),
        pytest.param([finish("length")], {"finished", "truncated"}, id="cut off at the limit"),
        pytest.param([finish("max_tokens")], {"finished", "truncated"}, id="cut off, as others say it"),
        pytest.param([finish("error")], {"errored"}, id="a finish reason that is an error"),
        pytest.param([finish(None)], set(), id="no finish reason yet"),
        pytest.param([b"[DONE]"], {"ended"}, id="the sentinel"),
        pytest.param([b" [DONE] "], {"ended"}, id="the sentinel with white space"),
        pytest.param([{"error": {"message": "x"}}], {"errored"}, id="an error"),
        pytest.param([{"error": "x", "choices": []}], {"errored"}, id="an error as a text, without choices"),
        pytest.param(
            [{"error": None, "choices": [{"delta": {"content": "x"}}]}], {"rendered"}, id="no error after all"
        ),
        pytest.param(
            [{"error": {"message": "x"}, "choices": [{"delta": {"content": "x"}}]}],
            {"rendered"},
            id="an error beside choices decides nothing",
        ),
        pytest.param([{"choices": [], "usage": {"total_tokens": 3}}], set(), id="usage alone"),
        pytest.param([b"{"], {"unreadable"}, id="no JSON"),
        pytest.param([b"7"], {"unreadable"}, id="JSON that is no object"),
        pytest.param([b"\xff"], {"unreadable"}, id="no UTF-8"),
        pytest.param(
            [{"choices": [{"delta": {}}, {"index": 1, "delta": {"content": "x"}}]}], {"rendered"}, id="a second choice"
        ),
        pytest.param(
            [{"choices": {"a": 1}}, {"choices": [7, None, {"delta": 7}, {"delta": {"content": 7}}]}],
            {"rendered"},
            id="odd shapes are read as far as they go",
        ),
        pytest.param(
            [{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}],
            {"finished", "rendered"},
            id="a whole answer",
        ),
        pytest.param(
            [{"choices": [{"message": {"content": None, "tool_calls": None}, "finish_reason": "stop"}]}],
            {"finished"},
            id="a whole answer with nothing in it",
        ),
    ],
)
def test_what_came_of_an_answer(frames: list[object], true: set[str]) -> None:
    assert facts(*frames) == true


def test_every_unreadable_frame_is_counted() -> None:
    found = AnswerFacts()
    for frame in (b"{", b"{}", b"nope"):
        found.add(frame)
    assert found.unreadable == 2


def test_a_conversation_keeps_its_hash_while_it_grows() -> None:
    opening = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fix it"}]
    first = conversation_hash(opening)
    assert first is not None
    assert len(first) == 16
    assert conversation_hash([*opening, {"role": "assistant", "content": "Yes"}]) == first
    assert conversation_hash([opening[0], {"role": "user", "content": "Break it"}]) != first
    assert conversation_hash([opening[0]]) is None
    assert conversation_hash([7]) is None
    assert conversation_hash([{"role": "user", "content": "\ud83d"}]) is not None
