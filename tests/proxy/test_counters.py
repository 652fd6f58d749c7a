"""One test a counter, through the whole proxy: each sentence that says what it counts, and what it does not.

docs/counters.md names these tests. Each begins with what counts and goes on with what is near and does not.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from tests.proxy import upstream as up
from tests.proxy.running import options_for, running
from tests.proxy.test_app import ASK, STREAM, Kept, ask, between, defects, eventually, turns

from demerit.defects import LoopGuardTrip
from demerit.proxy.app import Proxy
from demerit.proxy.options import Options, Upstream

FINE = up.stream(up.chat("Hi"))
WHOLE = up.whole(up.answer("Hi"))
USER = {"role": "user", "content": "Go on"}


def batch(*calls: tuple[str, object], ids: Sequence[str | None] = ()) -> dict[str, Any]:
    """A turn of calls. Their ids are c0, c1, ... unless given."""
    made = []
    for place, (name, arguments) in enumerate(calls):
        call: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        call_id = ids[place] if ids else f"c{place}"
        made.append(call if call_id is None else {**call, "id": call_id})
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(content: object, call_id: str = "c0") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def write(answer: object = "written") -> list[dict[str, Any]]:
    """One turn that writes, and what it was answered; None: nothing."""
    made = [batch(("write_file", {"path": "a"}))]
    return made if answer is None else [*made, result(answer)]


def read(answer: object = "text") -> list[dict[str, Any]]:
    return [batch(("read_file", {"path": "a"})), result(answer)]


def prose(text: str = "I will look.") -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text}]


def history(*turns_of: list[dict[str, Any]]) -> dict[str, Any]:
    return {"model": "m", "messages": [USER, *(message for turn in turns_of for message in turn)]}


def scanned(body: dict[str, Any], mode: str = "note") -> tuple[dict[str, int], dict[str, int]]:
    """What one request with this history adds to the defects and the turn counts."""
    with between(WHOLE, guard_mode=mode) as (base, proxy, _):
        ask(base, body)
        return defects(proxy), turns(proxy)


def streamed(*frames: bytes, model: str = "m") -> tuple[dict[str, int], dict[str, int]]:
    """What one streamed answer of these frames adds to them."""
    with between(up.stream(frames)) as (base, proxy, _):
        ask(base, {**STREAM, "model": model})
        return defects(proxy), turns(proxy)


# --- the sixteen -------------------------------------------------------------------------------------------------


def test_requests() -> None:
    with between(WHOLE, FINE, up.error(500), [up.Close()], WHOLE) as (base, proxy, upstream):
        ask(base)
        ask(base, STREAM)
        assert defects(proxy)["requests"] == 2, "forwarded, whole and streamed"
        ask(base)
        ask(base)
        assert defects(proxy)["requests"] == 4, "forwarded, and never answered"
        before = proxy.ledger.snapshot()
        ask(base, b"not JSON")
        ask(base, {"model": "m", "input": "x"}, "/v1/embeddings")
        ask(base, None, "/v1/models", "GET")
        assert proxy.ledger.snapshot() == before, "what is no chat request"
    with between(WHOLE, guard_mode="refuse") as (base, proxy, upstream):
        ask(base, history(write(), write(), write()))
        assert defects(proxy)["requests"] == 1, "it would have been forwarded, but for the guard"
        assert upstream.requests == []
    closing = [*WHOLE, up.Wait(0.02), up.Close()]
    with between(closing, WHOLE) as (base, proxy, upstream):
        ask(base)
        eventually(lambda: ask(base).status == 200, "no second answer")
        assert defects(proxy)["requests"] == len(upstream.requests), "a second try is the same request"


def test_requests_that_are_refused_before_they_go_are_none() -> None:
    with up.upstream(WHOLE) as upstream:
        chats = Upstream(name="up", url=upstream.url, models=("m",), embedding_models=("m",))
        other = Upstream(name="other", url=upstream.url, models=("n",))
        with running(Options(upstreams=(chats, other))) as (base, proxy):
            assert ask(base).code == "embedding_model_cannot_chat"
            assert ask(base, {**ASK, "model": "q"}).code == "model_not_found"
            assert ask(base, b"not JSON").code == "no_model_named"
            assert proxy.ledger.snapshot() == {}
    with up.upstream([up.Stall("go"), *WHOLE]) as upstream:
        full = Upstream(name="up", url=upstream.url, max_inflight=0)
        with running(Options(upstreams=(full,), queue=0)) as (base, proxy):
            assert ask(base).code == "admission_timeout"
            assert proxy.ledger.snapshot() == {}


def test_loop_guard_trips() -> None:
    looping, stagnating = history(write(), write(), write()), history(*[prose()] * 6)
    for mode in ("note", "refuse"):
        found, _ = scanned(looping, mode)
        assert (found["loop_guard_trips"], found["requests"]) == (1, 1), "noted and refused both are interventions"
        found, _ = scanned(stagnating, mode)
        assert (found["loop_guard_trips"], found["requests"]) == (1, 1)
    assert scanned(looping, "off") == ({"requests": 1}, {"completed_turns": 1}), "switched off it acts on nothing"
    kept = Kept()
    with up.upstream(WHOLE) as upstream:
        options = Options(upstreams=(Upstream(name="up", url=upstream.url, embedding_models=("*",)),))
        with running(options, keeping=kept) as (base, proxy):
            ask(base, looping)
            assert len(kept.decisions) == 1, "a decision"
            assert proxy.ledger.snapshot() == {}, "and no intervention: a later check turned it away"


def test_loop_guard_trips_are_the_sum_of_the_two() -> None:
    with between(WHOLE) as (base, proxy, _):
        for body in (history(write(), write(), write()), history(*[prose()] * 6), history(*[prose()] * 7)):
            ask(base, body)
        found = defects(proxy)
        assert (found["loop_guard_trips"], found["loop_guard_loops"], found["loop_guard_stagnations"]) == (3, 1, 2)


def test_loop_guard_loops() -> None:
    found, _ = scanned(history(write(), write(), write()))
    assert found["loop_guard_loops"] == 1, "the same batch back to back with the same answer"
    assert "loop_guard_stagnations" not in found
    moving = [write(f"answer {turn}") for turn in range(16)]
    assert scanned(history(*moving))[0]["loop_guard_loops"] == 1, "carried past the read-only limit by changing answers"
    assert "loop_guard_loops" not in scanned(history(*moving[:15]))[0], "within it"
    reading = [read(f"answer {turn}") for turn in range(40)]
    assert "loop_guard_loops" not in scanned(history(*reading))[0], "one that only reads may go on"
    assert "loop_guard_loops" not in scanned(history(write(), [USER], write(), [USER], write()))[0], "not back to back"


def test_loop_guard_stagnations() -> None:
    found, _ = scanned(history(*[prose()] * 6))
    assert found["loop_guard_stagnations"] == 1
    assert "loop_guard_loops" not in found
    assert "loop_guard_trips" not in scanned(history(*[prose()] * 5))[0], "within the limit"
    narrated = [[{**write()[0], "content": "I will look."}, result(f"{turn}")] for turn in range(6)]
    assert "loop_guard_stagnations" not in scanned(history(*narrated))[0], "text beside calls is none"


def test_stream_errors() -> None:
    start = up.chat("Hi", finish=None, done=False)
    for script in (
        up.stream([*start, up.frame(up.error_event())]),  # the server says that generation failed
        [*up.open_stream(start), up.Reset()],  # the byte stream breaks
        [*up.open_stream(start), up.Stall()],  # it falls silent
        up.stream([*start, b"data: {oops\n\n", *up.chat("Ho")]),  # a frame that nobody can read
        up.stream(start),  # an end that is none
    ):
        with between(script, idle_s=0.2) as (base, proxy, _):
            ask(base, STREAM)
            assert defects(proxy) == {"requests": 1, "stream_errors": 1}
            assert turns(proxy)["streamed_turns"] == 1
    with between(up.whole(up.answer("Hi"), length=999)) as (base, proxy, _):
        ask(base)
        assert "stream_errors" not in defects(proxy), "a whole answer is no stream"
    with between(up.error(500)) as (base, proxy, _):
        ask(base, STREAM)
        assert "stream_errors" not in defects(proxy), "what fails before the answer begins is no failed stream"
    with between([*up.open_stream(start), up.Stall()]) as (base, proxy, upstream):
        hang_up(base, STREAM, upstream)
        eventually(lambda: "client_aborts" in turns(proxy), "the hang-up was not counted")
        assert "stream_errors" not in defects(proxy), "hanging up is a person's action"


def test_truncated_generations() -> None:
    assert streamed(*up.chat("Hi", finish="length"))[0] == {"requests": 1, "truncated_generations": 1}
    with between(up.whole(up.answer("Hi", finish="length"))) as (base, proxy, _):
        ask(base)
        assert defects(proxy) == {"requests": 1, "truncated_generations": 1}, "whole answers count as well"
    assert streamed(*up.chat("Hi", finish="stop"))[0] == {"requests": 1}
    two = up.frames([up.delta("a", "length", 0), up.delta("b", "length", 1)])
    assert streamed(*two)[0]["truncated_generations"] == 1, "once a turn"


def test_empty_responses() -> None:
    for nothing in ((), ("", ""), (" \n\t", "\u2003")):
        assert streamed(*up.chat(*nothing))[0] == {"requests": 1, "empty_responses": 1}
    with between(up.whole(up.answer(None))) as (base, proxy, _):
        ask(base)
        assert defects(proxy) == {"requests": 1, "empty_responses": 1}, "whole answers count as well"
    for shown in (
        up.chat("Hi"),
        up.frames(up.call_chunks(up.call("f", {}))),
        up.frames([up.delta(refusal="No."), up.delta(finish="stop")]),
        up.frames([up.delta(audio={"data": "AA"}), up.delta(finish="stop")]),
        up.frames([up.delta(images=[{"type": "image_url"}]), up.delta(finish="stop")]),
    ):
        assert "empty_responses" not in streamed(*shown)[0]
    with between([*up.open_stream(()), up.Stall()]) as (base, proxy, upstream):
        hang_up(base, STREAM, upstream)
        eventually(lambda: "client_aborts" in turns(proxy), "the hang-up was not counted")
        assert "empty_responses" not in defects(proxy), "the client left first"
    assert streamed(up.frame(up.error_event()), up.DONE)[0] == {"requests": 1, "stream_errors": 1}, "it failed"


def test_reasoning_only() -> None:
    found, _ = streamed(*up.chat(reasoning=["I should", " think"]))
    assert (found["empty_responses"], found["reasoning_only"]) == (1, 1), "counted inside the empty ones"
    assert "reasoning_only" not in streamed(*up.chat())[0], "nothing at all is no reasoning"
    assert "reasoning_only" not in streamed(*up.chat("Hi", reasoning=["hm"]))[0], "it is not alone"
    with between(up.whole(up.answer(None, reasoning_content="hm"))) as (base, proxy, _):
        ask(base)
        assert defects(proxy) == {"requests": 1, "empty_responses": 1, "reasoning_only": 1}


@pytest.mark.parametrize(
    ("turns_of", "identical", "why"),
    [
        ([write("a"), write("a")], True, "asked twice, and answered twice the same"),
        ([write("a"), prose(), write("a")], True, "with words between"),
        ([write("a"), read(), write("a")], True, "with other calls between"),
        ([write("a"), [USER], write("a")], True, "with a person between"),
        ([write("a"), write("a"), write("a")], True, "with a trip as well"),
        ([read("a"), read("a")], True, "far below any limit"),
        ([write("a"), write("b")], False, "another answer"),
        ([write("a"), write("b"), write("a")], False, "against the occurrence right before, not any earlier one"),
        ([write("a")], False, "no repeat"),
        ([write("a"), write("a"), prose("Done.")], False, "reported by an earlier request"),
        ([write("a"), write("a"), [USER]], False, "and so was this"),
        ([write("a"), write("a"), read()], False, "the newest batch is another"),
        ([write("null"), write(None)], False, "unanswered"),
        ([[*write(None), result(None)], write("null")], False, "null is not the text null"),
    ],
)
def test_identical_result_repeats(turns_of: list[list[dict[str, Any]]], identical: bool, why: str) -> None:
    found, _ = scanned(history(*turns_of))
    assert found.get("identical_result_repeats", 0) == int(identical), why


def test_identical_result_repeats_count_a_turn_once_though_clients_resend_the_history() -> None:
    with between(WHOLE) as (base, proxy, _):
        turns_of = [write("a"), write("a"), read(), prose("Done."), [USER], prose("Bye.")]
        for end in range(1, len(turns_of) + 1):
            ask(base, history(*turns_of[:end]))
        assert defects(proxy)["identical_result_repeats"] == 1


@pytest.mark.parametrize(
    ("second", "not_evaluated", "why"),
    [
        ([batch(("f", {}), ids=[None]), result("a")], True, "a client that leaves the id out"),
        ([batch(("f", {}))], True, "no answer"),
        ([batch(("f", {})), result("a", "other")], True, "an answer to another call"),
        ([batch(("f", {})), result("a"), result("a")], True, "two answers with one id"),
        ([batch(("f", {})), result("a")], False, "answered"),
        (
            [batch(("f", {})), USER, result("a")],
            False,
            "answers that are not next to it: the person's words came after",
        ),
    ],
)
def test_repeats_not_evaluated(second: list[dict[str, Any]], not_evaluated: bool, why: str) -> None:
    found, seen = scanned(history([batch(("f", {})), result("a")], second))
    assert found.get("repeats_not_evaluated", 0) == int(not_evaluated), why
    assert not (found.get("repeats_not_evaluated") and found.get("identical_result_repeats"))
    assert seen.get("repeats_seen", 0) >= found.get("repeats_not_evaluated", 0)


def test_repeats_not_evaluated_where_a_parallel_batch_is_partly_answered() -> None:
    two = batch(("f", {}), ("g", {}))
    found, _ = scanned(history([two, result("a", "c0"), result("b", "c1")], [two, result("a", "c0")]))
    assert found["repeats_not_evaluated"] == 1


def test_repeats_rescued() -> None:
    assert scanned(history(write("a"), write("b"), write("a")))[0]["repeats_rescued"] == 1, "the answer moved"
    assert "repeats_rescued" not in scanned(history(write("a"), write("b")))[0], "within the allowance"
    assert "repeats_rescued" not in scanned(history(write(), write(), write()))[0], "it acted"
    reading = [read(f"{turn}") for turn in range(16)]
    assert scanned(history(*reading))[0]["repeats_rescued"] == 1
    assert "repeats_rescued" not in scanned(history(*reading[:15]))[0]
    moved = scanned(history(write("a"), write("a"), write("b")))[0]
    assert (moved.get("repeats_rescued"), moved.get("loop_guard_trips")) == (1, None), "its own answer comes first"


# --- ours --------------------------------------------------------------------------------------------------------


def test_scanned() -> None:
    assert scanned(history(write()))[1]["scanned"] == 1
    assert scanned(history(write(), write(), write()), "refuse")[1] == {"scanned": 1, "repeats_seen": 1}
    assert "scanned" not in scanned(history(write()), "off")[1], "switched off, nothing is read"
    assert "scanned" not in scanned({"model": "m", "messages": "x"})[1], "no messages to read"


def test_streamed_turns() -> None:
    assert streamed(*up.chat("Hi"))[1]["streamed_turns"] == 1
    with between(WHOLE, up.error(500)) as (base, proxy, _):
        ask(base, STREAM)
        ask(base, STREAM)
        assert "streamed_turns" not in turns(proxy), "what is asked does not matter: it was not answered with a stream"


def test_completed_turns() -> None:
    assert streamed(*up.chat("Hi"))[1]["completed_turns"] == 1
    assert streamed(up.frame(up.error_event()))[1]["completed_turns"] == 1, "a failure is an end as well"
    with between(WHOLE, up.error(500), [up.Close()], up.whole(b"<html>")) as (base, proxy, _):
        for completed in (1, 1, 1, 1):
            ask(base)
            assert turns(proxy)["completed_turns"] == completed
    with between([*up.open_stream(up.chat("Hi", done=False, finish=None)), up.Stall()]) as (base, proxy, upstream):
        hang_up(base, STREAM, upstream)
        eventually(lambda: "client_aborts" in turns(proxy), "the hang-up was not counted")
        assert "completed_turns" not in turns(proxy), "nobody was there"


def test_tool_turns() -> None:
    assert streamed(*up.frames(up.call_chunks(up.call("f", {}), up.call("g", {}))))[1]["tool_turns"] == 1
    assert "tool_turns" not in streamed(*up.chat("Hi"))[1]
    with between(up.whole(up.answer(None, up.call("f", {})))) as (base, proxy, _):
        ask(base)
        assert turns(proxy)["tool_turns"] == 1


def test_repeats_seen() -> None:
    for answers in (("a", "a"), ("a", "b"), ("a", None)):
        assert scanned(history(*map(write, answers)))[1]["repeats_seen"] == 1
    assert "repeats_seen" not in scanned(history(write(), read()))[1]
    assert "repeats_seen" not in scanned(history(write(), write(), prose("Done.")))[1]


def hang_up(base: str, body: dict[str, Any], upstream: up.Upstream) -> None:
    """Ask, and leave when the upstream has the request."""
    host, port = base.split("/")[2].split(":")
    data = json.dumps(body).encode()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data
        )
        upstream.wait_for(1)
        if body.get("stream"):
            connection.recv(100)


def aborted(proxy: Proxy) -> bool:
    return turns(proxy).get("client_aborts") == 1


def test_client_aborts() -> None:
    for body, script in ((ASK, [up.Stall()]), (STREAM, [*up.open_stream(up.chat("Hi")[:2]), up.Stall()])):
        with between(script) as (base, proxy, upstream):
            hang_up(base, body, upstream)
            eventually(partial(aborted, proxy), "the hang-up was not counted")
            assert defects(proxy) == {"requests": 1}, "it touches none of the sixteen"
    assert "client_aborts" not in streamed(*up.chat("Hi"))[1]


def test_a_client_that_closes_when_it_has_read_the_sentinel_has_not_left_early() -> None:
    with between([*up.open_stream(up.chat("Hi")), up.Stall()]) as (base, proxy, _):
        host, port = base.split("/")[2].split(":")
        data = json.dumps(STREAM).encode()
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data)
                + data
            )
            got = b""
            while b"[DONE]" not in got:
                got += connection.recv(1000)
        eventually(lambda: turns(proxy).get("completed_turns") == 1, "the turn was not counted")
        assert "client_aborts" not in turns(proxy)


def test_unreadable_frames() -> None:
    found, seen = streamed(b"data: {oops\n\n", b"data: 7\n\n", *up.chat("Hi"))
    assert (seen["unreadable_frames"], found["stream_errors"]) == (2, 1), "frames here, and one turn there"
    with between(up.whole(b"<html>")) as (base, proxy, _):
        ask(base)
        assert turns(proxy)["unreadable_frames"] == 1
        assert defects(proxy) == {"requests": 1}
    assert "unreadable_frames" not in streamed(up.COMMENT, *up.chat("Hi"))[1]


def test_upstream_refusals() -> None:
    for script in (up.error(429), up.error(500), [up.Close()], up.whole({"error": {"message": "no"}})):
        with between(script) as (base, proxy, _):
            ask(base)
            assert turns(proxy) == {"scanned": 1, "upstream_refusals": 1}
            assert defects(proxy) == {"requests": 1}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with running(options_for(f"http://127.0.0.1:{port}/v1")) as (base, proxy):
        ask(base)
        assert turns(proxy)["upstream_refusals"] == 1, "nobody is there"


def test_first_byte_timeouts() -> None:
    with between([up.Stall()], first_byte_s=0.2) as (base, proxy, _):
        assert ask(base).status == 504
        assert turns(proxy) == {"scanned": 1, "first_byte_timeouts": 1}
        assert defects(proxy) == {"requests": 1}
    with between([*up.open_stream(up.chat("Hi")[:2]), up.Stall()], first_byte_s=0.2, idle_s=0.4) as (base, proxy, _):
        ask(base, STREAM)
        assert "first_byte_timeouts" not in turns(proxy), "a silence within the answer is a failed stream"
        assert defects(proxy)["stream_errors"] == 1


def test_cycles() -> None:
    there, back = write("a"), read("b")
    assert scanned(history(*[there, back] * 3))[1]["cycles"] == 1, "three rounds of two"
    assert "loop_guard_trips" not in scanned(history(*[there, back] * 3))[0], "nothing acts on it"
    assert "cycles" not in scanned(history(*[there, back] * 2))[1], "two rounds"
    assert "cycles" not in scanned(history(*[write("a")] * 6))[1], "one batch again and again is a loop"
    moving = [turn for number in range(3) for turn in (write(f"{number}"), back)]
    assert "cycles" not in scanned(history(*moving))[1], "the answers move"


def test_a_turn_keeps_its_model_though_many_others_come_meanwhile() -> None:
    """Counts of a turn that ends late are not lost, and go to the model that it was asked of."""
    with up.upstream(late_then_quick) as upstream, running(options_for(upstream.url)) as (base, proxy):
        host, port = base.split("/")[2].split(":")
        data = json.dumps({**STREAM, "model": "late"}).encode()
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data)
                + data
            )
            upstream.wait_for(1)
            for number in range(60):
                ask(base, {**ASK, "model": f"quick-{number}"})
            upstream.go("late")
            eventually(lambda: defects(proxy, "late").get("truncated_generations") == 1, "it was lost")


def late_then_quick(request: up.Request) -> up.Script:
    if request.json["model"] == "late":
        return [up.Stall("late"), *up.stream(up.chat("Hi", finish="length"))]
    return WHOLE


def test_what_a_status_says_is_what_was_counted() -> None:
    with between(up.stream(up.chat("Hi", finish="length"))) as (base, proxy, _):
        ask(base, STREAM)
        shown = ask(base, None, "/v1/proxy/status", "GET").json["models"]["m"]
        assert shown["defects"]["truncated_generations"] == 1
        assert {rate["name"]: rate["value"] for rate in shown["rates"]}["truncated_generations/completed_turns"] == 1.0
        assert proxy_counts(proxy) == shown["defects"]


def proxy_counts(proxy: Proxy) -> dict[str, int]:
    counts = proxy.ledger.snapshot()["m"]
    return {name: getattr(counts, name) for name in counts.__struct_fields__}


def test_the_two_detectors_are_named_as_the_log_names_them() -> None:
    assert [str(trip) for trip in LoopGuardTrip] == ["loop", "stagnation"]
