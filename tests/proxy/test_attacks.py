"""What clients and upstreams with bad manners, or bad luck, must not be able to do."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable

import pytest
from tests.proxy import upstream as up
from tests.proxy.test_app import ASK, STREAM, ask, between, defects, eventually, raw, turns

from demerit.proxy.app import _Upstream
from demerit.proxy.options import Upstream

CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
UNFINISHED = up.chat("Hi", finish=None, done=False)
FAILED = b'data: {"error": {"message": "out of memory"}}\n\n'
UNREADABLE = b"data: {no\n\n"


def post(body: object) -> bytes:
    data = json.dumps(body).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data


def connect(base: str) -> socket.socket:
    host, port = base.split("/")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def stream_until(base: str, last: bytes, then: Callable[[], None] = lambda: None) -> bytes:
    """What a client reads that leaves after these bytes. then: called when the first came."""
    with connect(base) as client:
        client.sendall(post(STREAM))
        got = client.recv(1 << 16)
        then()
        while last not in got:
            part = client.recv(1 << 16)
            assert part, f"{last!r} never came"
            got += part
    return got


# --- clients -----------------------------------------------------------------------------------------------------


def test_trailers_become_no_headers() -> None:
    with between(up.whole(up.answer("Hi"))) as (base, _, upstream):
        trailers = b"X-Late: 1\r\nX-Demerit-Upstream-Authorization: Bearer late\r\n"
        raw(base, CHUNKED + b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\n" + trailers + b"\r\n")
        assert upstream.requests[0].header("x-late") is None
        assert upstream.requests[0].header("authorization") is None


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        pytest.param(b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 10_000, id="trailers"),
        pytest.param(b"2\r\n{}\r\n0\r\na: ", b"b" * 60_000, id="one trailer"),
        pytest.param(b"2;a=", b"b" * 60_000, id="what extends a chunk"),
    ],
)
def test_what_never_ends_is_cut_off_though_nobody_showed_a_key(start: bytes, piece: bytes) -> None:
    with between(up.whole(up.answer("Hi")), key="k" * 16) as (base, _, _), connect(base) as client:
        client.sendall(CHUNKED + b"\r\n" + start)
        with pytest.raises(ConnectionError):
            client.sendall(piece * 300)


def test_the_beginning_of_a_head_behind_a_long_body_is_no_head_that_is_too_long() -> None:
    long = {**ASK, "messages": [{"role": "user", "content": "x" * 100_000}]}
    with between(up.whole(up.answer("Hi"))) as (base, _, _):
        assert raw(base, post(long) + b"GET /health HT", 1).startswith(b"HTTP/1.1 200 ")


def test_requests_that_wait_behind_others_are_so_many_at_most() -> None:
    answer = up.whole(up.answer("Hi"))
    with between(answer) as (base, _, _), connect(base) as client, pytest.raises(ConnectionError):
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200_000)


def test_half_a_surrogate_pair_in_a_name_does_not_hide_the_status() -> None:
    with between(up.whole(up.answer("Hi"))) as (base, proxy, _):
        assert ask(base, b'{"model": "\\ud800", "messages": []}').status == 200
        status = ask(base, None, "/v1/proxy/status", "GET")
        assert status.status == 200
        assert [status.json["recent"][0]["model"]] == list(status.json["models"]) == list(proxy.ledger.snapshot())


@pytest.mark.parametrize(
    ("frames", "last", "counts"),
    [
        pytest.param([*UNFINISHED, FAILED], b"memory", {"completed_turns": 1}, id="the upstream's error"),
        pytest.param(
            [UNREADABLE, *up.chat("Hi", done=False)],
            b'"stop"',
            {"completed_turns": 1, "unreadable_frames": 1},
            id="junk and the finish",
        ),
        pytest.param(
            [*UNFINISHED, UNREADABLE], UNREADABLE, {"client_aborts": 1, "unreadable_frames": 1}, id="junk and no end"
        ),
    ],
)
def test_a_failed_turn_whose_client_leaves_has_ended_or_was_left_and_not_neither(
    frames: list[bytes], last: bytes, counts: dict[str, int]
) -> None:
    with between([*up.open_stream(frames), up.Stall()]) as (base, proxy, _):
        stream_until(base, last)
        eventually(lambda: not proxy.status().in_flight, "the turn goes on")
        assert defects(proxy) == {"requests": 1, "stream_errors": 1}
        assert turns(proxy) == {"scanned": 1, "streamed_turns": 1, **counts}


def test_a_place_that_comes_free_as_its_taker_leaves_goes_to_the_next() -> None:
    async def run() -> None:
        upstream = _Upstream(Upstream(name="up", url="http://localhost/v1", max_inflight=1))
        assert await upstream.admit(2, 10)
        leaves, stays = (asyncio.create_task(upstream.admit(2, 10)) for _ in range(2))
        await asyncio.sleep(0)
        leaves.cancel()
        upstream.release()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        assert await stays
        assert (upstream.in_flight, len(upstream.waiting)) == (1, 0)

    asyncio.run(run())


# --- upstreams ---------------------------------------------------------------------------------------------------


def test_an_answer_that_nobody_asked_for_is_given_to_nobody() -> None:
    twice = [*up.whole(up.answer("mine")), up.Stall(), *up.whole(up.answer("nobody's"))]
    with between(twice, up.whole(up.answer("yours"))) as (base, _, upstream):
        assert b"mine" in ask(base).body
        upstream.go()
        asyncio.run(asyncio.sleep(0.1))  # so that it has arrived: who asks before that cannot know better
        assert b"yours" in ask(base).body


def test_framing_that_breaks_within_a_stream_is_no_silence() -> None:
    cut = [*up.open_stream(UNFINISHED), up.Stall(), up.Send(b"zzz\r\n"), up.Stall("never")]
    with between(cut) as (base, proxy, upstream):
        assert b'"upstream_broken"' in stream_until(base, b"[DONE]", upstream.go)
        assert defects(proxy)["stream_errors"] == 1


@pytest.mark.parametrize("status", [101, 600, 999])
def test_a_status_that_is_no_answer_becomes_a_bad_gateway(status: int) -> None:
    with between(up.whole(b"{}", status)) as (base, proxy, _):
        assert ask(base).status == 502
        assert turns(proxy) == {"scanned": 1, "upstream_refusals": 1}


def test_a_header_that_no_client_may_be_sent_is_left_out() -> None:
    with between(up.whole(up.answer("Hi"), headers=(("X-Odd", "a\x1b[2Jb"), ("X-Even", "é")))) as (base, _, _):
        answer = ask(base)
        assert (answer.status, "x-odd" in answer.headers, "x-even" in answer.headers) == (200, False, True)
