"""The upstream of these tests does what its scripts say, as a client sees it that takes bytes as they come."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from tests.proxy.upstream import (
    BOM,
    COMMENT,
    Answer,
    Close,
    HalfClose,
    Reset,
    Send,
    Stall,
    answer,
    bytes_of,
    call,
    call_chunks,
    chat,
    chunk,
    cut,
    delta,
    early,
    error,
    every,
    frame,
    frames,
    gzipped,
    header_bomb,
    never_ends,
    open_stream,
    slow,
    stream,
    until_close,
    upstream,
    whole,
)

GET = b"GET /v1/models HTTP/1.1\r\nHost: up\r\n\r\n"


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as client:
        yield client


def everything(client: socket.socket) -> bytes:
    """What comes until the connection is closed."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def exactly(client: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        part = client.recv(size - len(got))
        assert part, got
        got += part
    return got


def test_a_request_is_kept_as_it_came() -> None:
    raw = b"POST /v1/x?a=1 HTTP/1.1\r\nhost: up\r\nX-Twice: 1\r\nx-twice:  2\r\nContent-Length: 8\r\n\r\n" + b'{"n": 1}'
    with upstream(whole({})) as up, connected(up.url) as client:
        client.sendall(raw[:30])
        client.sendall(raw[30:])
        (request,) = up.wait_for(1)
    assert (request.raw, request.method, request.path, request.json) == (raw, "POST", "/v1/x?a=1", {"n": 1})
    assert request.headers == [(b"host", b"up"), (b"X-Twice", b"1"), (b"x-twice", b"2"), (b"Content-Length", b"8")]
    assert (request.header("X-TWICE"), request.header("accept")) == (b"1", None)


def test_a_chunked_request_is_kept_with_its_body_put_together() -> None:
    raw = (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"one ", b";x=1") + chunk(b"two") + chunk(b"")
    )
    with upstream(whole({})) as up, connected(up.url) as client:
        for part in every(raw, 7):
            client.sendall(part)
        (request,) = up.wait_for(1)
    assert (request.raw, request.body) == (raw, b"one two")


def test_each_request_has_its_script_and_the_last_one_serves_for_ever() -> None:
    with upstream(whole(b"1"), lambda request: whole(request.path.encode()), whole(b"3")) as up:
        assert [httpx.get(f"{up.url}/{number}").text for number in range(4)] == ["1", "/v1/1", "3", "3"]
        up.then(whole(b"other"))
        assert httpx.get(up.url).text == "other"
        assert up.connections == 5


def test_a_connection_is_kept_for_the_next_request() -> None:
    with upstream(stream([b"a", b"b"]), whole(b"c")) as up, httpx.Client() as client:
        assert [client.get(up.url).text for _ in range(2)] == ["ab", "c"]
        assert [request.connection for request in up.requests] == [0, 0]


@pytest.mark.parametrize(
    ("script", "wire"),
    [
        pytest.param(
            whole(b"{}", 404, [("X-A", "1")], length=9),
            b"HTTP/1.1 404 Whatever\r\nContent-Type: application/json\r\nContent-Length: 9\r\nX-A: 1\r\n\r\n{}",
            id="a length that is too long",
        ),
        pytest.param(
            [*stream([b"ab", b"c"], extension=b";x=1", trailers=b"X-T: 1\r\n"), Close()],
            b"HTTP/1.1 200 Whatever\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2;x=1\r\nab\r\n1;x=1\r\nc\r\n0\r\nX-T: 1\r\n\r\n",
            id="chunk extensions and trailers",
        ),
        pytest.param(
            until_close([b"a", b"b"]),
            b"HTTP/1.0 200 Whatever\r\nContent-Type: text/event-stream\r\n\r\nab",
            id="HTTP/1.0",
        ),
        pytest.param(
            [*early(100, 103), Send(b"x"), Close()],
            b"HTTP/1.1 100 Whatever\r\n\r\nHTTP/1.1 103 Whatever\r\nLink: </style.css>; rel=preload\r\n\r\nx",
            id="interim answers",
        ),
        pytest.param([*slow([Send(b"abc")]), Close()], b"abc", id="a byte a write"),
    ],
)
def test_what_goes_over_the_wire(script: Answer, wire: bytes) -> None:
    with upstream(script) as up, connected(up.url) as client:
        client.sendall(GET)
        assert everything(client) == wire


def test_a_reset_is_no_orderly_end() -> None:
    with upstream([Send(b"abc"), Reset()]) as up, connected(up.url) as client:
        client.sendall(GET)
        with pytest.raises(ConnectionResetError):
            everything(client)


def test_a_half_closed_connection_still_takes_bytes() -> None:
    with upstream([Send(b"abc"), HalfClose()]) as up, connected(up.url) as client:
        client.sendall(GET)
        assert everything(client) == b"abc"
        client.sendall(b"still there")


def test_a_stall_lasts_until_told() -> None:
    with upstream([Send(b"a"), Stall("x"), Send(b"b"), Close()]) as up, connected(up.url) as client:
        client.sendall(GET)
        assert exactly(client, 1) == b"a"
        up.go("x")
        assert everything(client) == b"b"
        assert not up.requests[0].left.is_set()


@pytest.mark.parametrize(
    "script", [pytest.param([Stall()], id="in a stall"), pytest.param(never_ends(b"x" * 5000), id="in a stream")]
)
def test_a_client_that_leaves_is_seen(script: Answer) -> None:
    with upstream(script) as up:
        with connected(up.url) as client:
            client.sendall(GET)
            (request,) = up.wait_for(1)
        assert request.left.wait(10)


def test_answers_that_a_client_reads() -> None:
    bomb = header_bomb(3, 10)
    with upstream(gzipped({"a": 1}), error(429, "slow down", [("Retry-After", "7")]), bomb) as up:
        assert httpx.get(up.url).json() == {"a": 1}
        refused = httpx.get(up.url)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
        assert refused.json()["error"]["message"] == "slow down"
        assert httpx.get(up.url).headers["x-bomb-2"] == "x" * 10


def test_parts_make_the_whole_again() -> None:
    text = "naïve".encode()
    assert cut(text, 3) == [b"na\xc3", b"\xafve"]
    assert cut(text, 1, -1) == [b"n", b"a\xc3\xafv", b"e"]
    assert every(text, 4) == [b"na\xc3\xaf", b"ve"]
    assert bytes_of(slow(open_stream([text]), 3)) == bytes_of(open_stream([text]))


def test_frames_in_every_form() -> None:
    assert frame({"a": "é"}) == 'data: {"a": "é"}\n\n'.encode()
    assert frame(b"1\n2", b"\r\n", space=False, event="x") == b"event: x\r\ndata:1\r\ndata:2\r\n\r\n"
    assert frame(b"1", b"\r") == b"data: 1\r\r"
    assert frames([b"1"]) == [b"data: 1\n\n", b"data: [DONE]\n\n"]
    assert BOM + COMMENT == b"\xef\xbb\xbf: keep-alive\n\n"


def test_a_streamed_answer_in_its_parts() -> None:
    made = [json.loads(part.removeprefix(b"data: ")) for part in chat("Hi", finish=None, reasoning=["Hm"], done=False)]
    assert [part["choices"][0]["delta"] for part in made] == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Hm"},
        {"content": "Hi"},
    ]
    assert chat("Hi")[-2:] == frames([delta(finish="stop")])


def test_calls_streamed_and_whole_are_the_same() -> None:
    read = call("read", {"path": "a.py"})
    _, first, *parts, last = [part["choices"][0] for part in call_chunks(read)]
    assert first["delta"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "index": 0, "function": {"name": "read", "arguments": ""}}
    ]
    arguments = [part["delta"]["tool_calls"][0]["function"]["arguments"] for part in parts]
    assert arguments == ['{"path":', ' "a.py"}']
    assert last["finish_reason"] == answer(None, read)["choices"][0]["finish_reason"] == "tool_calls"
    assert answer(None, read)["choices"][0]["message"]["tool_calls"] == [read]
