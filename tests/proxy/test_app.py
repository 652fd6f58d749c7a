"""The proxy over real sockets: between a raw client and an upstream that does what a script says."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from tests.proxy import upstream as up
from tests.proxy.running import options_for, running
from tests.proxy.test_exchange import counted, looping

from demerit.proxy import app as module
from demerit.proxy.app import Proxy
from demerit.proxy.chat import AnswerFacts
from demerit.proxy.options import Options, Upstream

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
STREAM = {**ASK, "stream": True}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool
    """False where the connection ended before the body did."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        code: str = self.json["error"]["code"]
        return code


def ask(
    base: str,
    body: object = ASK,
    path: str = "/v1/chat/completions",
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request over a connection of its own. body: None: none; bytes as they are; anything else as JSON."""
    connection = http.client.HTTPConnection(base.split("/")[2], timeout=20)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        try:
            return Answer(response.status, named, response.read(), True)
        except http.client.IncompleteRead as error:
            return Answer(response.status, named, error.partial, False)
    finally:
        connection.close()


def raw(base: str, data: bytes, wait_s: float = 5) -> bytes:
    """What comes back for these bytes until the server closes or is silent."""
    host, port = base.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=wait_s) as connection:
        got = b""
        try:
            connection.sendall(data)
            while part := connection.recv(1 << 16):
                got += part
        except (TimeoutError, ConnectionError):
            pass
        return got


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def defects(proxy: Proxy, model: str = "m") -> dict[str, int]:
    return counted(proxy.ledger.snapshot().get(model))


def turns(proxy: Proxy, model: str = "m") -> dict[str, int]:
    return counted(proxy.ledger.turns().get(model))


@contextmanager
def between(*answers: up.Answer, **options: Any) -> Iterator[tuple[str, Proxy, up.Upstream]]:
    with up.upstream(*answers) as upstream, running(options_for(upstream.url, **options)) as (base, proxy):
        yield base, proxy, upstream


# --- what goes through -------------------------------------------------------------------------------------------

STREAMED = b"".join(up.chat("Hel", "lo é\U0001f600", reasoning=["hm"]))
CHOICES = b"".join(
    up.frames(
        [
            up.delta("a", index=0, logprobs={"content": []}),
            up.delta("b", index=1),
            {**up.delta("c", index=1, finish="stop"), "x_unknown": [1, {"y": None}]},
            up.usage_chunk(),
        ]
    )
)
CRLF, CR, MARKED = STREAMED.replace(b"\n", b"\r\n"), STREAMED.replace(b"\n", b"\r"), up.BOM + up.COMMENT + STREAMED
SHAPES: dict[str, tuple[up.Script, bytes]] = {
    "one event a write": (up.stream(up.chat("Hel", "lo é\U0001f600", reasoning=["hm"])), STREAMED),
    "all in one write": (up.stream([STREAMED]), STREAMED),
    "split within a character": (up.stream(up.cut(STREAMED, *range(1, len(STREAMED), 7))), STREAMED),
    "byte by byte": (up.stream(up.every(STREAMED, 1)), STREAMED),
    "with chunk extensions and trailers": (up.stream([STREAMED], extension=b";a=b", trailers=b"X-T: 1\r\n"), STREAMED),
    "ended by closing, HTTP/1.0": (up.until_close([STREAMED]), STREAMED),
    "ended by closing, HTTP/1.1": (up.until_close([STREAMED], version="1.1"), STREAMED),
    "with an interim answer before it": ([*up.early(103), *up.stream([STREAMED])], STREAMED),
    "lines that end in CRLF": (up.stream([CRLF]), CRLF),
    "lines that end in CR": (up.stream([CR]), CR),
    "a byte order mark and comments": (up.stream([MARKED]), MARKED),
    "several choices and log probabilities": (up.stream([CHOICES]), CHOICES),
}


@pytest.mark.parametrize("name", SHAPES)
def test_an_idle_proxy_gives_the_client_the_very_bytes(name: str) -> None:
    script, sent = SHAPES[name]
    with between(script) as (base, proxy, _):
        through = ask(base, STREAM)
        assert through.body == sent
        assert (through.status, through.headers["content-type"]) == (200, "text/event-stream")
        assert defects(proxy) == {"requests": 1}
        assert turns(proxy) == {"scanned": 1, "streamed_turns": 1, "completed_turns": 1}


def test_a_whole_answer_and_its_headers_go_through() -> None:
    body = json.dumps(up.answer("Hi"), indent=2).encode()
    with between(up.whole(body, headers=[("X-Own", "1"), ("Set-Cookie", "a"), ("Set-Cookie", "b")])) as (
        base,
        proxy,
        _,
    ):
        answer = ask(base)
        assert answer.body == body
        assert answer.headers["x-own"] == "1"
        assert answer.headers["content-length"] == str(len(body))
        assert "server" not in answer.headers
        assert defects(proxy) == {"requests": 1}
        assert turns(proxy) == {"scanned": 1, "completed_turns": 1}


def test_the_request_reaches_the_upstream_as_it_was() -> None:
    sent = b'{"model" : "m", "messages":[], "x": 1.50, "y": "\\u00e9"}'
    with between(up.whole(up.answer("Hi"))) as (base, _, upstream):
        ask(base, sent, path="/v1/chat/completions?a=%20b", headers={"X-Own": "1", "Accept-Encoding": "gzip"})
        (got,) = upstream.requests
        assert got.body == sent
        assert got.path == "/v1/chat/completions?a=%20b"
        assert got.header("x-own") == b"1"
        assert got.header("host") == upstream.url.split("/")[2].encode()
        assert got.header("accept-encoding") == b"identity"
        assert got.header("user-agent") is None, "a client without one has none"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/models", None),
        ("GET", "/v1/models/m", None),
        ("POST", "/v1/embeddings", {"model": "m", "input": "x"}),
        ("POST", "/v1/responses", {"model": "m", "input": "x"}),
        ("POST", "/v1/messages?beta=true", {"model": "m", "messages": []}),
        ("POST", "/v1/audio/transcriptions", b"--x\r\n\xff\x00"),
        ("DELETE", "/v1/files/7", None),
        ("GET", "/props", None),
        ("POST", "/v1/chat/completions", b"this is not JSON"),
    ],
)
def test_all_else_is_passed_through_and_counted_nowhere(method: str, path: str, body: object) -> None:
    with between(up.whole({"object": "list"}, 201)) as (base, proxy, upstream):
        answer = ask(base, body, path, method)
        assert (answer.status, answer.json) == (201, {"object": "list"})
        (got,) = upstream.requests
        assert (got.method, got.path) == (method, path)
        expected = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        assert got.body == expected
        assert proxy.ledger.snapshot() == {}
        uncounted = path.partition("?")[0] if path.startswith(("/v1/responses", "/v1/messages")) else None
        assert list(proxy.status().uncounted_paths) == ([uncounted] if uncounted else [])


def test_a_compressed_answer_goes_through_unread() -> None:
    with between(up.gzipped(up.answer(""))) as (base, proxy, upstream):
        assert ask(base).body == ask(upstream.url).body
        assert defects(proxy) == {"requests": 1}


# --- ends of a turn ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status", "code", "counted_as"),
    [
        pytest.param(up.error(429, headers=[("Retry-After", "7")]), 429, 429, "upstream_refusals", id="too many"),
        pytest.param(up.error(500), 500, 500, "upstream_refusals", id="an internal error"),
        pytest.param(up.error(404), 404, 404, "upstream_refusals", id="no such model"),
        pytest.param([up.Close()], 502, "upstream_broken", "upstream_refusals", id="closed without a word"),
        pytest.param([up.Reset()], 502, "upstream_broken", "upstream_refusals", id="reset without a word"),
        pytest.param([up.Send(b"junk\r\n\r\n"), up.Close()], 502, "upstream_broken", "upstream_refusals", id="no HTTP"),
        pytest.param(up.header_bomb(), 502, "upstream_broken", "upstream_refusals", id="a header of a megabyte"),
        pytest.param(up.whole(up.answer("Hi"), length=9999), 502, "upstream_broken", "upstream_refusals",
                     id="a whole answer that is shorter than it says"),
        pytest.param([up.Stall()], 504, "upstream_timeout", "first_byte_timeouts", id="no answer in time"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("streaming", [False, True])
def test_where_there_is_no_answer_the_client_is_told_why(
    script: up.Script, status: int, code: object, counted_as: str, streaming: bool
) -> None:
    with between(script, first_byte_s=0.3, idle_s=5) as (base, proxy, upstream):
        answer = ask(base, {**ASK, "stream": streaming})
        assert answer.status == status
        assert answer.code == code
        assert defects(proxy) == {"requests": 1}
        assert turns(proxy) == {"scanned": 1, counted_as: 1}
        assert len(upstream.requests) == 1
        if status == 429:
            assert answer.headers["retry-after"] == "7"


def test_an_upstream_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with running(options_for(f"http://127.0.0.1:{port}/v1")) as (base, proxy):
        answer = ask(base)
        assert (answer.status, answer.code) == (502, "upstream_unreachable")
        assert f"127.0.0.1:{port}/v1 cannot be reached" in answer.json["error"]["message"]
        assert turns(proxy) == {"scanned": 1, "upstream_refusals": 1}
        assert proxy.status().upstreams[0].last_error is not None


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param([*up.open_stream(up.chat("Hi", finish=None, done=False)), up.Close()], "upstream_broken",
                     id="closed in the middle of its chunks"),
        pytest.param([*up.open_stream(up.chat("Hi", finish=None, done=False)), up.Reset()], "upstream_broken",
                     id="reset in the middle"),
        pytest.param([*up.open_stream([*up.chat("Hi", finish=None, done=False), b'data: {"cho'.ljust(12)]), up.Close()],
                     "upstream_broken", id="closed within a frame"),
        pytest.param([*up.open_stream(up.chat("Hi", finish=None, done=False)), up.Stall()], "upstream_stalled",
                     id="silent for too long"),
        pytest.param(up.stream(up.chat("Hi", finish=None, done=False)), "upstream_incomplete",
                     id="ended without a finish reason"),
    ],
)  # fmt: skip
def test_a_stream_that_breaks_ends_in_an_error_and_the_sentinel(script: up.Script, code: str) -> None:
    with between(script, idle_s=0.3) as (base, proxy, _):
        answer = ask(base, STREAM)
        assert answer.is_whole
        start = b"".join(up.chat("Hi", finish=None, done=False))
        assert answer.body.startswith(start + b'data: {"error"')
        *_, error, sentinel = answer.body.removesuffix(b"\n\n").split(b"\n\n")
        assert sentinel == b"data: [DONE]"
        assert json.loads(error[6:])["error"]["code"] == code
        assert defects(proxy) == {"requests": 1, "stream_errors": 1}
        assert turns(proxy) == {"scanned": 1, "streamed_turns": 1, "completed_turns": 1}


def test_a_waiting_client_is_kept_warm_by_comments_between_frames() -> None:
    frames = up.chat("Hi")
    with between(
        [
            *up.open_stream([frames[0], frames[1][:9]]),
            up.Wait(0.5),
            *map(up.Send, map(up.chunk, [frames[1][9:], *frames[2:], b""])),
        ],
        keepalive_s=0.1,
        idle_s=5,
    ) as (base, proxy, _):
        answer = ask(base, STREAM)
        comments = [frame for frame in answer.body.split(b"\n\n") if frame.startswith(b":")]
        assert comments
        assert b"".join(f + b"\n\n" for f in answer.body.split(b"\n\n")[:-1] if f not in comments) == b"".join(frames)
        assert defects(proxy) == {"requests": 1}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([up.Stall()], id="before the answer"),
        pytest.param([*up.open_stream(up.chat("Hi", finish=None, done=False)), up.Stall()], id="within a stream"),
        pytest.param(
            [up.Send(up.head(200, [up.JSON, ("Content-Length", "99")]) + b"{"), up.Stall()], id="within a whole answer"
        ),
    ],
)
def test_when_the_client_leaves_the_upstream_is_let_go_at_once(script: up.Script) -> None:
    with between(script) as (base, proxy, upstream):
        host, port = base.split("/")[2].split(":")
        body = json.dumps(STREAM).encode()
        connection = socket.create_connection((host, int(port)))
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        (request,) = upstream.wait_for(1)
        time.sleep(0.05)
        connection.close()
        assert request.left.wait(5), "the upstream still works for nobody"
        eventually(lambda: "client_aborts" in turns(proxy), "the hang-up was not counted")
        assert defects(proxy) == {"requests": 1}
        assert turns(proxy).keys() <= {"scanned", "streamed_turns", "client_aborts"}
        eventually(lambda: not proxy.status().in_flight, "the turn is still there")


def test_a_client_that_never_reads_is_let_go_and_holds_little() -> None:
    with between(up.never_ends(up.frame(up.delta("x" * 60_000)), every_s=0), idle_s=0.5) as (base, proxy, upstream):
        host, port = base.split("/")[2].split(":")
        body = json.dumps(STREAM).encode()
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                + body
            )
            (request,) = upstream.wait_for(1)
            assert request.left.wait(10), "the upstream writes for ever"
        eventually(lambda: turns(proxy).get("client_aborts") == 1, "it was not counted")


def test_a_connection_that_the_upstream_closed_meanwhile_is_opened_anew() -> None:
    closing = [*up.whole(up.answer("Hi")), up.Wait(0.05), up.Close()]
    with between(closing, up.whole(up.answer("Ho"))) as (base, proxy, upstream):
        ask(base)
        time.sleep(0.2)
        answer = ask(base)
        assert answer.json["choices"][0]["message"]["content"] == "Ho"
        assert defects(proxy) == {"requests": 2}
        assert len(upstream.requests) == 2


# --- the guard ---------------------------------------------------------------------------------------------------


class Kept:
    """What was told to the trips log."""

    lost = pending = 0

    def __init__(self) -> None:
        self.scans: list[str] = []
        self.decisions: list[Any] = []

    def scanned(self, at: object, model: str) -> None:
        self.scans.append(model)

    def decision(self, decision: object) -> None:
        self.decisions.append(decision)


def test_a_refused_request_never_reaches_the_upstream() -> None:
    kept = Kept()
    with (
        up.upstream(up.whole(up.answer("Hi"))) as upstream,
        running(options_for(upstream.url, guard_mode="refuse"), keeping=kept) as (base, proxy),
    ):
        answer = ask(base, looping(3))
        assert (answer.status, answer.code) == (400, "loop_detected")
        assert ask(base, looping(2)).status == 200
        assert len(upstream.requests) == 1
        assert defects(proxy)["requests"] == 2
        assert kept.scans == ["m", "m"]
        assert [str(decision.detector) for decision in kept.decisions] == ["loop"]
        assert [record.ended for record in proxy.status().recent] == ["guard_refused", "clean"]


def test_a_noted_request_reaches_the_upstream_with_its_note() -> None:
    with between(up.whole(up.answer("Hi"))) as (base, proxy, upstream):
        assert ask(base, looping(3)).status == 200
        assert "[demerit loop guard]" in upstream.requests[0].json["messages"][-1]["content"]
        assert defects(proxy)["loop_guard_loops"] == 1


def test_a_noted_request_that_is_refused_afterwards_is_a_decision_and_no_request() -> None:
    kept = Kept()
    with up.upstream(up.whole(up.answer("Hi"))) as upstream:
        options = Options(upstreams=(Upstream(name="up", url=upstream.url, embedding_models=("m*",)),))
        with running(options, keeping=kept) as (base, proxy):
            answer = ask(base, looping(3))
            assert (answer.status, answer.code) == (400, "embedding_model_cannot_chat")
            assert len(kept.decisions) == 1
            assert proxy.ledger.snapshot() == {}
            assert upstream.requests == []


# --- several upstreams, places, models ---------------------------------------------------------------------------


@contextmanager
def two(**named: Any) -> Iterator[tuple[str, Proxy, up.Upstream, up.Upstream]]:
    listing = {"object": "list", "data": [{"id": "qwen-1"}, {"id": "gpt-5"}]}
    answer = [up.whole(listing)]
    with up.upstream(*answer) as first, up.upstream(*answer) as second:
        options = Options(
            upstreams=(
                Upstream(name="first", url=first.url, models=("qwen*",)),
                Upstream(name="second", url=second.url, models=("gpt-*",)),
            )
        )
        with running(options, **named) as (base, proxy):
            yield base, proxy, first, second


def test_each_request_goes_to_the_upstream_of_its_model() -> None:
    with two() as (base, _, first, second):
        ask(base, {**ASK, "model": "gpt-5"})
        ask(base, {"model": "qwen-1", "input": "x"}, "/v1/embeddings")
        ask(base, None, "/v1/models/gpt-5", "GET")
        assert [request.path for request in first.requests] == ["/v1/embeddings"]
        assert [request.path for request in second.requests] == ["/v1/chat/completions", "/v1/models/gpt-5"]


def test_with_several_upstreams_the_list_of_models_is_one() -> None:
    with two() as (base, _, first, second):
        assert ask(base, None, "/v1/models", "GET", headers={"Authorization": "Bearer of-the-first"}).json == {
            "object": "list",
            "data": [{"id": "qwen-1"}, {"id": "gpt-5"}],
        }
        assert all(b"of-the-first" not in request.raw for request in first.requests + second.requests)


def test_what_passes_through_breaks_off_where_the_upstream_falls_silent() -> None:
    with between([up.Send(up.head(200, [("Content-Length", "99")]) + b"begun"), up.Stall()], idle_s=0.2) as (
        base,
        _,
        _,
    ):
        answer = ask(base, None, "/v1/files/7", "GET")
        assert (answer.status, answer.body, answer.is_whole) == (200, b"begun", False)


@pytest.mark.parametrize(
    ("body", "path", "status", "code"),
    [
        (b"not JSON", "/v1/chat/completions", 400, "no_model_named"),
        ({"messages": []}, "/v1/chat/completions", 404, "model_not_found"),
        ({**ASK, "model": "llama"}, "/v1/chat/completions", 404, "model_not_found"),
        ({"model": "llama"}, "/v1/embeddings", 404, "model_not_found"),
        (b"--x", "/v1/audio/transcriptions", 400, "no_model_named"),
    ],
)
def test_what_no_upstream_has(body: object, path: str, status: int, code: str) -> None:
    with two() as (base, proxy, first, second):
        answer = ask(base, body, path)
        assert (answer.status, answer.code) == (status, code)
        assert proxy.ledger.snapshot() == {}
        assert first.requests == second.requests == []


def test_a_model_that_its_upstream_calls_an_embedding_model_cannot_chat() -> None:
    listing = {"data": [{"id": "e", "capabilities": ["embeddings"]}, {"id": "m", "capabilities": ["completion"]}, 7]}

    def answer(request: up.Request) -> up.Script:
        return up.whole(listing if request.path == "/v1/models" else up.answer("Hi"))

    with up.upstream(answer) as upstream, running(options_for(upstream.url), reads_models=True) as (base, _):
        assert ask(base, {**ASK, "model": "m"}).status == 200
        eventually(lambda: ask(base, {**ASK, "model": "e"}).status == 400, "the list of models was not read")
        assert ask(base, {**ASK, "model": "m"}).status == 200


def test_an_upstream_is_given_so_many_requests_at_a_time() -> None:
    with up.upstream([up.Stall("all"), *up.whole(up.answer("Hi"))]) as upstream:
        options = Options(upstreams=(Upstream(name="up", url=upstream.url, max_inflight=1),), queue=1, queue_wait_s=20)
        with running(options) as (base, proxy):
            answers: list[Answer] = []
            threads = [threading.Thread(target=lambda: answers.append(ask(base))) for _ in range(2)]
            threads[0].start()
            upstream.wait_for(1)
            threads[1].start()
            eventually(lambda: proxy.status().upstreams[0].queued == 1, "nobody waits")
            refused = ask(base)
            assert (refused.status, refused.code) == (503, "admission_timeout")
            assert int(refused.headers["retry-after"]) >= 1
            assert len(upstream.requests) == 1
            upstream.go("all")
            for thread in threads:
                thread.join(10)
            assert [answer.status for answer in answers] == [200, 200]
            assert defects(proxy) == {"requests": 2}
            assert proxy.status().upstreams[0].in_flight == 0


def test_one_that_waits_too_long_or_leaves_gives_up_its_turn() -> None:
    with up.upstream([up.Stall("all"), *up.whole(up.answer("Hi"))]) as upstream:
        options = Options(upstreams=(Upstream(name="up", url=upstream.url, max_inflight=1),), queue=5, queue_wait_s=0.2)
        with running(options) as (base, proxy):
            first = threading.Thread(target=ask, args=(base,))
            first.start()
            upstream.wait_for(1)
            assert ask(base).status == 503
            host, port = base.split("/")[2].split(":")
            with socket.create_connection((host, int(port))) as leaving:
                leaving.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
                time.sleep(0.05)
            eventually(lambda: proxy.status().upstreams[0].queued == 0, "the one that left still waits")
            upstream.go("all")
            first.join(10)
            assert ask(base).status == 200
            assert defects(proxy) == {"requests": 2}


# --- access ------------------------------------------------------------------------------------------------------


def test_the_key_opens_and_stays_here() -> None:
    with between(up.whole(up.answer("Hi")), key="the-proxy-key") as (base, _, upstream):
        assert ask(base).status == 401
        assert ask(base, headers={"Authorization": "Bearer guess"}).status == 401
        assert upstream.requests == []
        for headers in (
            {"Authorization": "Bearer the-proxy-key"},
            {"x-api-key": "the-proxy-key"},
            {
                "x-api-key": "the-proxy-key",
                "x-demerit-upstream-authorization": "Bearer theirs",
                "Cookie": "k=the-proxy-key",
            },
        ):
            assert ask(base, headers=headers).status == 200
        assert all(b"the-proxy-key" not in request.raw for request in upstream.requests)
        assert upstream.requests[-1].header("authorization") == b"Bearer theirs"


def test_a_page_whose_name_was_pointed_here_gets_nothing() -> None:
    with between(up.whole(up.answer("Hi"))) as (base, _, upstream):
        for path in ("/health", "/metrics", "/v1/proxy/status", "/v1/models"):
            answer = ask(base, None, path, "GET", headers={"Host": "rebound.example"})
            assert (answer.status, answer.code) == (403, "host_not_allowed")
        assert upstream.requests == []


def test_a_configured_page_may_call() -> None:
    with between(up.whole(up.answer("Hi")), cors_origins=("https://app.example",), key="k") as (base, _, _):
        asked = ask(base, None, "/v1/chat/completions", "OPTIONS", headers={"Origin": "https://app.example"})
        assert (asked.status, asked.headers["access-control-allow-origin"]) == (204, "https://app.example")
        answer = ask(base, headers={"Origin": "https://app.example", "x-api-key": "k"})
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert (
            "access-control-allow-origin"
            not in ask(base, headers={"Origin": "https://x.example", "x-api-key": "k"}).headers
        )


# --- hostile requests --------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_before_and_while_it_comes() -> None:
    with between(up.whole(up.answer("Hi")), body_limit_bytes=1000) as (base, _, upstream):
        answer = ask(base, b"x" * 1001)
        assert (answer.status, answer.code) == (413, "request_too_large")
        chunked = b"".join(b"64\r\n" + b"x" * 100 + b"\r\n" for _ in range(20))
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert raw(base, head + chunked).startswith(b"HTTP/1.1 413 ")
        huge = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n"
        assert raw(base, huge, 1)[:12] in (b"HTTP/1.1 413", b"HTTP/1.1 400")
        assert upstream.requests == []


_TE, _LENGTH = b"Transfer-Encoding: ", b"Content-Length: "
_SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_LENGTH + b"5\r\n" + _TE + b"chunked\r\n\r\n0\r\n\r\n" + _SMUGGLED, id="a length and chunks"),
        pytest.param(_TE + b"chunked\r\n" + _TE + b"identity\r\n\r\n0\r\n\r\n", id="two encodings"),
        pytest.param(_LENGTH + b"5\r\n" + _LENGTH + b"6\r\n\r\nhello!", id="two lengths"),
        pytest.param(_LENGTH + b"+5\r\n\r\nhello", id="a length with a sign"),
        pytest.param(_TE + b"xchunked\r\n\r\n0\r\n\r\n", id="an encoding that nobody knows"),
        pytest.param(_TE + b"chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n", id="a bare line feed in a chunk's head"),
        pytest.param(b"X: a\r\n b\r\nContent-Length : 5\r\n\r\nhello", id="a space before the colon"),
    ],
)
def test_no_request_is_smuggled_to_the_upstream(data: bytes) -> None:
    with between(up.whole(up.answer("Hi"))) as (base, _, upstream):
        got = raw(base, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + data, 1)
        assert all(request.path == "/v1/chat/completions" for request in upstream.requests)
        assert len(upstream.requests) <= 1
        assert got.startswith(b"HTTP/1.1 400") or upstream.requests or not got
        assert ask(base, None, "/health", "GET").status == 200


@pytest.mark.parametrize(
    "line",
    [
        b"GET http://127.0.0.1:1/v1/models HTTP/1.1",
        b"GET //127.0.0.1:1/v1/models HTTP/1.1",
        b"GET /v1/@127.0.0.1:1/models HTTP/1.1",
        b"GET /v1/../../x HTTP/1.1",
        b"GET /v1/%2e%2e/x HTTP/1.1",
        b"GET /v1/models?%0d%0aX: 1 HTTP/1.1",
    ],
)
def test_no_request_chooses_its_upstream(line: bytes) -> None:
    with between(up.whole({"data": []})) as (base, _, upstream):
        got = raw(base, line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert got[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 400")
        assert len(upstream.requests) == (got[9:12] == b"200")
        assert all(request.header("x") is None for request in upstream.requests)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([b"X-Bomb: " + b"x" * 70_000], id="one long header"),
        pytest.param([b"X-%d: %b" % (number, b"x" * 100) for number in range(700)], id="many headers"),
        pytest.param([b"X-Bomb: " + b"x" * 5_000_000], id="one that would fill the memory"),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_header_bomb_is_refused_and_the_proxy_lives(headers: list[bytes], is_whole: bool) -> None:
    with between(up.whole(up.answer("Hi"))) as (base, _, upstream):
        head = b"\r\n".join([b"GET /v1/models HTTP/1.1", b"Host: localhost", *headers, b""])
        # Nothing is read where it was refused while it was still being sent.
        assert raw(base, head + (b"\r\n" if is_whole else b""), 1)[:12] in (b"HTTP/1.1 431", b"")
        assert upstream.requests == []
        assert ask(base).status == 200


# --- faults of ours ----------------------------------------------------------------------------------------------


def test_what_fails_in_here_is_passed_over_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object, **named: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(AnswerFacts, "add", failing)
    monkeypatch.setattr(AnswerFacts, "add_list", failing)
    with between(up.stream([STREAMED]), up.whole(up.answer("Hi"))) as (base, proxy, upstream):
        assert ask(base, STREAM).body == STREAMED
        assert ask(base).body == ask(upstream.url).body
        assert proxy.status().stage_failures == {"classify": 2}


class Broken(Kept):
    def scanned(self, at: object, model: str) -> None:
        raise RuntimeError("a fault of ours")


def test_a_trips_log_that_fails_stops_nothing() -> None:
    answer = up.whole(up.answer("Hi"))
    with up.upstream(answer) as upstream, running(options_for(upstream.url), keeping=Broken()) as (base, proxy):
        assert ask(base).status == 200
        assert proxy.status().stage_failures == {"count": 1}


# --- what it serves ----------------------------------------------------------------------------------------------


def test_status_health_schema_and_metrics() -> None:
    with between(up.whole(up.answer("Hi"))) as (base, _, _):
        ask(base)
        assert ask(base, None, "/health", "GET").json == {"status": "ok"}
        status = ask(base, None, "/v1/proxy/status", "GET")
        assert status.json["models"]["m"]["defects"]["requests"] == 1
        assert status.headers["cache-control"] == "no-store"
        assert ask(base, None, "/v1/proxy/status", "HEAD").body == b""
        assert ask(base, None, "/v1/proxy/status/schema", "GET").json["type"] == "object"
        assert b'demerit_requests_total{model="m"} 1.0' in ask(base, None, "/metrics", "GET").body


def test_the_status_stream_tells_now_and_after_a_change_and_ends_with_the_server() -> None:
    with between(up.whole(up.answer("Hi"))) as (base, _, _):
        host, port = base.split("/")[2].split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("GET", "/v1/proxy/status/stream")
        response = connection.getresponse()
        assert response.headers["content-type"] == "text/event-stream"
        first = json.loads(response.readline().removeprefix(b"data: "))
        assert first["models"] == {}
        assert response.readline() == b"\n"
        ask(base)
        second = json.loads(response.readline().removeprefix(b"data: "))
        assert second["models"]["m"]["defects"]["requests"] == 1
    assert response.read().count(b"data: ") <= 1
    connection.close()


def test_it_serves_many_at_a_time() -> None:
    """200 busy streams beside 1,000 connections that say nothing."""
    with between(up.stream(up.chat(*["word "] * 20))) as (base, proxy, _):
        host, port = base.split("/")[2].split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(1000)]
        try:
            answers: list[Answer] = []
            threads = [threading.Thread(target=lambda: answers.append(ask(base, STREAM))) for _ in range(200)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert {(answer.status, answer.body) for answer in answers} == {(200, b"".join(up.chat(*["word "] * 20)))}
            assert defects(proxy) == {"requests": 200}
            assert ask(base, None, "/health", "GET").status == 200
        finally:
            for connection in idle:
                connection.close()


def test_listening_where_somebody_else_does_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        module.listen("127.0.0.1", taken.getsockname()[1])


def test_a_client_that_stops_within_its_request_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BODY_S", 0.1)
    with between(up.whole(up.answer("Hi"))) as (base, _, upstream):
        for sent in (b"", b'{"model":'):
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
            assert raw(base, head + sent).startswith(b"HTTP/1.1 408 ")
        assert upstream.requests == []


def test_when_the_proxy_stops_what_is_still_being_answered_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DRAIN_S", 0.2)
    begun = b"".join(up.chat("Hi", finish=None, done=False))
    script = [*up.open_stream([begun]), up.Stall()]
    with up.upstream(script, [up.Stall()], up.whole(up.answer("Hi"))) as upstream:
        answers: list[Answer] = []
        with running(options_for(upstream.url)) as (base, proxy):
            threads = [threading.Thread(target=lambda: answers.append(ask(base, STREAM))) for _ in range(2)]
            for number, thread in enumerate(threads):
                thread.start()
                upstream.wait_for(number + 1)
            eventually(lambda: turns(proxy).get("streamed_turns") == 1, "the stream did not begin")
        for thread in threads:
            thread.join(10)
        assert sorted(answer.status for answer in answers) == [200, 503]
        streamed, refused = sorted(answers, key=lambda answer: answer.status)
        assert refused.code == "proxy_stopped"
        assert streamed.body.startswith(begun + b'data: {"error"')
        assert b'"proxy_stopped"' in streamed.body
        assert streamed.body.endswith(b"data: [DONE]\n\n")
        assert defects(proxy) == {"requests": 2}, "nobody failed"
        assert turns(proxy) == {"scanned": 2, "streamed_turns": 1}


@pytest.mark.parametrize("line", [b"TRACE /v1/models", b"CONNECT evil.example:443", b"OPTIONS *"])
def test_methods_that_are_none_of_its_business(line: bytes) -> None:
    with between(up.whole({})) as (base, _, upstream):
        got = raw(base, line + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 2)
        assert got[9:12] in (b"405", b"400")
        assert upstream.requests == []


def test_events_under_another_content_type_flow_where_a_stream_was_asked_for() -> None:
    script = [*up.until_close([STREAMED], headers=[("Content-Type", "text/plain")])]
    with between(script) as (base, proxy, _):
        assert ask(base, STREAM).body == STREAMED
        assert turns(proxy)["streamed_turns"] == 1


def test_headers_keep_their_characters() -> None:
    with between(up.whole({})) as (base, _, upstream):
        raw(base, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Own: caf\xc3\xa9\r\nConnection: close\r\n\r\n", 2)
        assert upstream.requests[0].header("x-own") == b"caf\xc3\xa9"
