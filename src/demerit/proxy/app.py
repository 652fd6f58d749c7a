"""The proxy as an ASGI application, and the server that runs it: sockets and clocks around the pure parts.

    Proxy(Options(upstreams=(Upstream(name="local", url="http://127.0.0.1:8080/v1"),)))

One task serves one request. What can end it early (the client's leaving, too long a silence) cancels that task, and
says why before it does; the task then tells the exchange, and closes the connection to the upstream.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, TypeAlias

import aiohttp
import msgspec
import uvicorn
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from yarl import URL

from demerit import __version__
from demerit.defects import DefectLedger, LoopGuardTrip
from demerit.proxy.chat import read_request
from demerit.proxy.exchange import Ended, Exchange, Record, Stage, Stop
from demerit.proxy.gate import (
    HEAD_LIMIT_BYTES,
    Gate,
    Headers,
    Reply,
    backwards,
    matches,
    reply_error,
    shown_url,
    upstream_for,
    url_for,
)
from demerit.proxy.keeping import Keeping
from demerit.proxy.options import Options, Upstream
from demerit.proxy.sse import comment, encode
from demerit.proxy.status import METRICS_TYPE, RECENT, InFlight, Metrics, Status, UpstreamStatus, schema, status

log = logging.getLogger("demerit.proxy")

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_CHAT = "/chat/completions"
_UNCOUNTED = ("/responses", "/messages", "/completions")
"""Ends of the paths of other ways to ask a model: passed through, and counted in no counter."""
_QUICK_S = 0.05
"""A turn that is over by then is not looked after: whether its client left does not matter any more."""
_BODY_S = 60.0
"""Longest silence of a client within its request."""
_WHOLE_LIMIT_BYTES = 32 << 20
"""A whole answer that is longer is passed on as it comes, and is not read."""
_LONG_BODY_BYTES = 1 << 20
_MODELS_EVERY_S = 300.0
_LIST_LIMIT_BYTES = 8 << 20
_DRAIN_S = 10.0
"""How long answers may go on when the proxy is told to stop."""
_PIPELINED = 1000
"""Requests of one connection that may wait for their turn; uvicorn would take any number of them."""
_EMBEDDING = frozenset(("embedding", "embeddings", "embed"))


class _Left(Exception):
    """The client hung up."""


class _Upstream:
    """One model server, and who is being served by it or waits for it."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.in_flight = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.refusals = 0
        self.last_error: str | None = None
        self.embedding_models: frozenset[str] = frozenset()
        """Those that its own list of models calls so."""
        self.models_read_at: float | None = None

    async def admit(self, queue: int, wait_s: float) -> bool:
        """Wait for a place; False when there is none in time."""
        limit = self.upstream.max_inflight
        if limit is None or (self.in_flight < limit and not self.waiting):
            self.in_flight += 1
            return True
        if len(self.waiting) >= queue:
            return False
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(place)
        try:
            async with asyncio.timeout(wait_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.release()
            else:
                with suppress(ValueError):  # `release` passes over one that was cancelled, and takes it out
                    self.waiting.remove(place)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def release(self) -> None:
        """Give a place back: to the one that waits longest, if any does."""
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.in_flight -= 1

    def failed(self, what: str) -> None:
        self.refusals += 1
        self.last_error = what


class _ToUpstream(ResponseHandler):
    """aiohttp's connection, which would give an answer that nobody asked for to whoever has the connection next, and
    take framing that breaks within a body for silence."""

    def is_connected(self) -> bool:
        return super().is_connected() and not (self._buffer or self._tail or self._exception)

    def data_received(self, data: bytes) -> None:
        body = self._payload
        super().data_received(data)
        if self._exception is not None and body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError("what came is no HTTP"))


class _Turn:
    """One request that is being served: what the status shows of it, and what may end it early."""

    __slots__ = (
        "begun", "commented", "comments", "first_byte", "heard", "leaving", "left", "model", "phase", "reused",
        "sending", "stalled", "stopped", "streaming", "task", "ticks",
    )  # fmt: skip

    def __init__(self, model: str, streaming: bool, now: float) -> None:
        self.model = model
        self.streaming = streaming
        self.phase: Literal["queued", "waiting", "answering"] = "queued"
        self.begun = now
        self.first_byte: float | None = None
        self.heard = now
        """When the upstream sent something last, or was asked."""
        self.sending: float | None = None
        """Since when the client has been taking what it was sent; None while nothing is being sent."""
        self.comments = False
        """Whether a comment may be put between two frames of the answer."""
        self.commented = now
        self.reused = False
        """Whether the upstream was asked over a connection that had served before."""
        self.left = False
        self.stalled = False
        self.stopped = False
        """Whether the proxy ended it, as it was told to stop."""
        self.task: asyncio.Task[Any] | None = None
        self.leaving: asyncio.Task[None] | None = None
        """Waits for the client to leave; None as long as the turn is young."""
        self.ticks: asyncio.TimerHandle

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def uncancel(self) -> None:
        """The cancellation is dealt with, and the task goes on."""
        if self.task is not None:
            self.task.uncancel()


class Proxy:
    """The guarded endpoint, its status and its metrics."""

    def __init__(
        self,
        options: Options,
        ledger: DefectLedger | None = None,
        *,
        keeping: Keeping | None = None,
        host: str = "127.0.0.1",
        version: str = "",
        reads_models: bool = True,
    ) -> None:
        """reads_models: ask each upstream for its list of models, for those that cannot chat."""
        self.options = options
        self.ledger = DefectLedger() if ledger is None else ledger
        self._keeping = keeping
        self._version = version
        self._reads_models = reads_models
        self._gate = Gate(options, host)
        self._upstreams = {upstream.name: _Upstream(upstream) for upstream in options.upstreams}
        self._turns: set[_Turn] = set()
        self._recent: deque[Record] = deque(maxlen=RECENT)
        self._metrics = Metrics()
        self._stage_failures: dict[str, int] = {}
        self._uncounted: dict[str, int] = {}
        self._changes = 0
        self._begun = time.monotonic()
        self._tick_s = min(5.0, max(0.02, min(options.idle_s, options.keepalive_s, options.first_byte_s) / 4))
        self._session: aiohttp.ClientSession | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    async def drain(self, wait_s: float) -> None:
        """End the status streams at once, and after so long, in words, all that is still being answered."""
        self._closing.set()
        until = time.monotonic() + wait_s
        while self._turns and time.monotonic() < until:
            await asyncio.sleep(0.05)
        for turn in self._turns:
            turn.stopped = True
            turn.cancel()

    # --- ASGI -------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._client()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self) -> None:
        """Let go of the connections to the upstreams."""
        self._closing.set()
        for task in self._background:
            task.cancel()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=15)
            connector._factory = partial(_ToUpstream, loop=asyncio.get_running_loop())  # type: ignore[assignment]
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.options.connect_s),
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
                max_line_size=1 << 16,
                max_field_size=1 << 16,
                trace_configs=[trace],
            )
        return self._session

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        method: str = scope["method"]
        path: str = scope["path"]
        reply = self._gate.refusal(method, path, headers) or self._gate.preflight(method, headers)
        if reply is not None:
            await _reply(send, reply, self._gate.cors(headers))
            return
        own = _OWN_PATHS.get(path)
        if own is not None and method in ("GET", "HEAD"):
            await own(self, scope, receive, send)
            return
        try:
            body = await _body(receive, headers, self.options.body_limit_bytes)
        except _Left:
            return
        if isinstance(body, Reply):
            await _reply(send, body, self._gate.cors(headers))
            return
        request = _Request(scope, receive, send, self._gate.cors(headers), body)
        try:
            if method == "POST" and path.endswith(_CHAT):
                await self._chat(request)
            else:
                await self._pass_on(request)
        except _Left:
            pass
        except Exception:
            log.exception("a request failed in the proxy itself")
            if request.status:
                raise
            await request.reply(reply_error(500, "the proxy itself failed; its log says how", "internal_error"))

    # --- chat completions ---------------------------------------------------------------------------------------

    async def _chat(self, request: _Request) -> None:
        at = datetime.now(UTC)
        exchange = Exchange(self.options, self.ledger, self._stage_failed)
        is_long = len(request.body) > _LONG_BODY_BYTES  # read beside the others, who would wait for it
        if not (await asyncio.to_thread(exchange.read, request.body) if is_long else exchange.read(request.body)):
            await self._pass_on(request)
            return
        found = upstream_for(exchange.model, self.options.upstreams)
        if found is None:
            await request.reply(self._no_upstream(exchange.model))
            return
        session = request.header(b"x-demerit-session-id")
        step = await asyncio.to_thread(exchange.guard, at, session) if is_long else exchange.guard(at, session)
        turn = _Turn(exchange.model, exchange.streaming, time.monotonic())
        self._keep(exchange, at)
        if isinstance(step, Reply):
            await request.reply(step)
            self._done(turn, exchange.ended or "guard_refused", at, None, step.status, exchange.trip)
            return
        upstream = self._upstreams[found.name]
        self._maybe_read_models(upstream)
        if self._cannot_chat(upstream, exchange.model):
            await request.reply(
                reply_error(
                    400,
                    f"{exchange.model} makes embeddings and cannot chat; ask another model, or use /v1/embeddings",
                    "embedding_model_cannot_chat",
                )
            )
            return

        async def ask() -> None:
            exchange.forwarded()
            await self._exchange(request, exchange, turn, upstream, step)

        try:
            await self._serving(turn, upstream, request, ask)
        except BaseException:
            if turn.stopped:
                exchange.stopped()
            elif turn.phase != "queued":
                exchange.client_left()
            raise
        finally:
            if turn.phase != "queued":
                self._done(turn, exchange.ended or "client_left", at, upstream, request.status, exchange.trip)

    def _keep(self, exchange: Exchange, at: datetime) -> None:
        """The trips log takes what the guard decided, whatever becomes of the request."""
        if self._keeping is None or not exchange.was_scanned:
            return
        try:
            self._keeping.scanned(at, exchange.model)
            if exchange.decision is not None:
                self._keeping.decision(exchange.decision)
        except Exception as error:
            self._stage_failed("count", error)

    async def _exchange(
        self, request: _Request, exchange: Exchange, turn: _Turn, upstream: _Upstream, body: bytes
    ) -> None:
        """Ask the upstream and give the client its answer."""
        response = await self._asked(request, turn, upstream, body, is_read=True)
        if isinstance(response, _Failed):
            exchange.refused(response.ended)
            await request.reply(response.reply)
            return
        async with response:
            turn.first_byte = turn.heard = time.monotonic()
            turn.phase = "answering"
            if not 200 <= response.status < 300:
                upstream.failed(f"answered {response.status}")
                exchange.refused("upstream_refused")
                await self._copy(request, response, turn)
            elif _is_stream(response, exchange.streaming):
                exchange.answered(is_stream=True)
                await self._stream(request, exchange, response, turn)
            else:
                exchange.answered(is_stream=False)
                await self._whole(request, exchange, response, turn, upstream)

    async def _stream(
        self, request: _Request, exchange: Exchange, response: aiohttp.ClientResponse, turn: _Turn
    ) -> None:
        await request.start(response.status, backwards(response.raw_headers, drops_length=True))
        turn.comments = True
        stop: Stop = "end"
        read = response.content.readany
        clock = time.monotonic
        try:
            while chunk := await read():
                turn.heard = clock()
                out = exchange.feed(chunk)
                if out:
                    turn.sending = turn.heard
                    await request.send_body(out)
                    turn.sending = None
                    turn.heard = clock()  # a client that took long is no silence of the upstream's
        except (aiohttp.ClientError, OSError):
            stop = "broken"
        except asyncio.CancelledError:
            if not (turn.stalled or turn.stopped):
                raise
            stop = "stopped" if turn.stopped else "stalled"
            response.close()
            turn.uncancel()
        turn.comments = False
        turn.sending = clock()
        await request.send_body(exchange.finish(stop), more=False)

    async def _whole(
        self,
        request: _Request,
        exchange: Exchange,
        response: aiohttp.ClientResponse,
        turn: _Turn,
        upstream: _Upstream,
    ) -> None:
        parts: list[bytes] = []
        size = 0
        failure: Reply | None = None
        try:
            while chunk := await response.content.readany():
                turn.heard = time.monotonic()
                parts.append(chunk)
                size += len(chunk)
                if size > _WHOLE_LIMIT_BYTES:
                    break
        except (aiohttp.ClientError, OSError):
            failure = reply_error(502, "the upstream broke off its answer", "upstream_broken", "upstream_error")
        except asyncio.CancelledError:
            if not turn.stalled:
                raise
            response.close()
            turn.uncancel()
            failure = reply_error(504, "the upstream stopped in its answer", "upstream_stalled", "upstream_error")
        if failure is not None:
            upstream.failed("broke off its answer")
            exchange.refused("upstream_refused")
            await request.reply(failure)
            return
        headers = backwards(response.raw_headers)
        turn.sending = time.monotonic()
        if size > _WHOLE_LIMIT_BYTES:
            await request.start(response.status, headers)
            await request.send_body(b"".join(parts))
            await self._rest(request, response, turn)
            exchange.ended = "clean"
            return
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if b"content-encoding" not in dict(headers):
            exchange.finish_whole(body)
        else:  # it was asked for plain text, and this cannot be read
            exchange.ended = "clean"
        await request.start(response.status, headers)
        await request.send_body(body, more=False)

    # --- everything else ----------------------------------------------------------------------------------------

    async def _pass_on(self, request: _Request) -> None:
        """Forward what is not read, and its answer, as they are."""
        found = self._route(request)
        if found is None:
            if request.method == "GET" and request.path.endswith("/models"):
                await request.reply(await self._all_models())
                return
            await request.reply(self._no_route(request))
            return
        end = next((end for end in _UNCOUNTED if request.path in (end, f"/v1{end}")), None)
        if end is not None and request.method == "POST":
            self._uncounted[f"/v1{end}"] = self._uncounted.get(f"/v1{end}", 0) + 1
            self._changes += 1
        upstream = self._upstreams[found.name]
        turn = _Turn(request.path, False, time.monotonic())

        async def ask() -> None:
            response = await self._asked(request, turn, upstream, request.body, is_read=False)
            if isinstance(response, _Failed):
                await request.reply(response.reply)
                return
            async with response:
                turn.phase = "answering"
                turn.heard = time.monotonic()
                await self._copy(request, response, turn)

        await self._serving(turn, upstream, request, ask, takes_a_place=request.method == "POST")

    async def _copy(self, request: _Request, response: aiohttp.ClientResponse, turn: _Turn) -> None:
        await request.start(response.status, backwards(response.raw_headers))
        await self._rest(request, response, turn)

    async def _rest(self, request: _Request, response: aiohttp.ClientResponse, turn: _Turn) -> None:
        """Copy what is left of an answer. One that breaks off breaks off for the client as well."""
        try:
            while chunk := await response.content.readany():
                turn.sending = time.monotonic()
                await request.send_body(chunk)
                turn.sending = None
                turn.heard = time.monotonic()
        except (aiohttp.ClientError, OSError):
            raise _Left from None  # the server closes a connection whose answer was not ended
        except asyncio.CancelledError:
            if not turn.stalled:
                raise
            turn.uncancel()
            raise _Left from None
        await request.send_body(b"", more=False)

    def _route(self, request: _Request) -> Upstream | None:
        upstreams = self.options.upstreams
        if len(upstreams) == 1:
            return upstreams[0]
        _, found, name = request.path.partition("/models/")
        if found:
            return upstream_for(name, upstreams)
        model = _model_in(request.body)
        return upstream_for(model, upstreams) if model is not None else None

    def _no_route(self, request: _Request) -> Reply:
        model = _model_in(request.body)
        if model is not None:
            return self._no_upstream(model)
        return reply_error(
            400,
            "this request names no model, and there are several upstreams "
            f"({', '.join(self._upstreams)}): name a model in a JSON body, or ask the upstream itself",
            "no_model_named",
            "invalid_request_error",
        )

    def _no_upstream(self, model: str) -> Reply:
        globs = ", ".join(glob for upstream in self.options.upstreams for glob in upstream.models)
        return reply_error(
            404,
            f"no upstream has the model {model[:256]!r}; the settings name {globs}",
            "model_not_found",
            "invalid_request_error",
        )

    async def _all_models(self) -> Reply:
        """The lists of all upstreams as one, each with the models that are routed to it."""
        lists = await asyncio.gather(*map(self._models_of, self._upstreams.values()))
        data = []
        for upstream, models in zip(self._upstreams.values(), lists, strict=True):
            for model in models or ():
                name = model.get("id") if isinstance(model, dict) else None
                if isinstance(name, str) and upstream_for(name, self.options.upstreams) is upstream.upstream:
                    data.append(model)
        if not data and all(models is None for models in lists):
            return reply_error(502, "no upstream gave its list of models", "upstream_unreachable", "upstream_error")
        return Reply(
            200, [(b"content-type", b"application/json")], msgspec.json.encode({"object": "list", "data": data})
        )

    # --- what an upstream says of its models --------------------------------------------------------------------

    async def _models_of(self, upstream: _Upstream) -> list[Any] | None:
        """Its list of models; None where it gave none. A client's own key is for one upstream, and is shown to none."""
        headers = self._gate.onwards([], upstream.upstream, is_read=True)
        url = URL(url_for(upstream.upstream, "/v1/models", ""), encoded=True)
        try:
            timeout = aiohttp.ClientTimeout(total=10)
            async with self._client().get(
                url, headers=_named(headers), allow_redirects=False, timeout=timeout
            ) as response:
                body = b""
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > _LIST_LIMIT_BYTES:
                        return None
                found = msgspec.json.decode(body)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError):
            return None
        data = found.get("data") if isinstance(found, dict) else None
        return data if isinstance(data, list) else None

    def _maybe_read_models(self, upstream: _Upstream) -> None:
        now = time.monotonic()
        if not self._reads_models or (
            upstream.models_read_at is not None and now - upstream.models_read_at < _MODELS_EVERY_S
        ):
            return
        upstream.models_read_at = now
        self._in_background(self._read_models(upstream))

    async def _read_models(self, upstream: _Upstream) -> None:
        models = await self._models_of(upstream)
        if models is not None:
            upstream.embedding_models = frozenset(
                model["id"]
                for model in models
                if isinstance(model, dict) and isinstance(model.get("id"), str) and _only_embeds(model)
            )

    def _cannot_chat(self, upstream: _Upstream, model: str) -> bool:
        return model in upstream.embedding_models or matches(model, upstream.upstream.embedding_models)

    # --- one request to one upstream ----------------------------------------------------------------------------

    async def _asked(
        self, request: _Request, turn: _Turn, upstream: _Upstream, body: bytes, is_read: bool
    ) -> aiohttp.ClientResponse | _Failed:
        """The head of the upstream's answer, or why there is none. It is asked once more where the connection had
        been closed before it could have seen the request."""
        url = URL(url_for(upstream.upstream, request.raw_path, request.query), encoded=True)
        headers = _named(self._gate.onwards(request.headers, upstream.upstream, is_read))
        turn.heard = time.monotonic()
        for attempt in (1, 2):
            try:
                response = await self._client().request(
                    request.method,
                    url,
                    headers=headers,
                    data=body or None,
                    allow_redirects=False,
                    trace_request_ctx=turn,
                )
                if 200 <= response.status < 600:
                    return response
                response.close()
                what = f"answered with the status {response.status}"
                return self._unreached(upstream, what, "upstream_broken", 502)
            except TimeoutError:
                return self._unreached(upstream, "did not take the connection in time", "upstream_unreachable", 504)
            except asyncio.CancelledError:
                if not turn.stalled:
                    raise
                turn.uncancel()
                turn.stalled = False
                return self._unreached(
                    upstream,
                    f"sent nothing for {self.options.first_byte_s:g} s",
                    "upstream_timeout",
                    504,
                    "first_byte_timeout",
                )
            except aiohttp.ClientConnectorError as error:
                cause = getattr(error, "os_error", None)  # one about a certificate has none
                reason = getattr(cause, "strerror", None) or str(cause or error)
                return self._unreached(upstream, f"cannot be reached ({reason})", "upstream_unreachable", 502)
            except (aiohttp.ServerDisconnectedError, ConnectionResetError, aiohttp.ClientOSError):
                if attempt == 2 or not turn.reused:
                    return self._unreached(upstream, "closed the connection without an answer", "upstream_broken", 502)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                what = f"answered with what is no HTTP ({type(error).__name__})"
                return self._unreached(upstream, what, "upstream_broken", 502)
        raise AssertionError("unreachable")

    def _unreached(
        self,
        upstream: _Upstream,
        what: str,
        code: str,
        status: int,
        ended: Literal["upstream_refused", "first_byte_timeout"] = "upstream_refused",
    ) -> _Failed:
        upstream.failed(what)
        where = f"the upstream {upstream.upstream.name} at {shown_url(upstream.upstream.url)}"
        return _Failed(ended, reply_error(status, f"{where} {what}; is it running?", code, "upstream_error"))

    def _busy(self, upstream: _Upstream) -> Reply:
        return reply_error(
            503,
            f"the upstream {upstream.upstream.name} is busy with {upstream.upstream.max_inflight} requests, and no "
            "place came free in time; try again later",
            "admission_timeout",
            headers=[(b"retry-after", b"%d" % max(1, round(self.options.queue_wait_s)))],
        )

    async def _serving(
        self,
        turn: _Turn,
        upstream: _Upstream,
        request: _Request,
        ask: Callable[[], Awaitable[None]],
        takes_a_place: bool = True,
    ) -> None:
        """Run `ask` when the upstream has a place, or refuse. Raises _Left when the client leaves, before or during."""
        loop = asyncio.get_running_loop()
        turn.task = asyncio.current_task()
        # Most that is quick is over before anybody can leave, and is spared a task.
        turn.ticks = loop.call_later(_QUICK_S, self._watch, turn, request)
        self._turns.add(turn)
        self._changes += 1
        admitted = False
        try:
            admitted = not takes_a_place or await upstream.admit(self.options.queue, self.options.queue_wait_s)
            if not admitted:
                await request.reply(self._busy(upstream))
                return
            turn.phase = "waiting"
            await ask()
        except asyncio.CancelledError:
            if not (turn.left or turn.stopped):
                raise
            turn.uncancel()
            if turn.stopped and not request.status:
                await request.reply(
                    reply_error(503, "the proxy was stopped before the answer came; ask again", "proxy_stopped")
                )
            raise _Left from None
        finally:
            turn.ticks.cancel()
            if turn.leaving is not None:
                turn.leaving.cancel()
            self._turns.discard(turn)
            self._changes += 1
            if admitted and takes_a_place:
                upstream.release()

    def _watch(self, turn: _Turn, request: _Request) -> None:
        """Begin to look after a turn: whether its client leaves, and what `_tick` looks at."""

        def left(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                turn.left = True
                turn.cancel()

        turn.leaving = asyncio.get_running_loop().create_task(_gone(request.receive))
        turn.leaving.add_done_callback(left)
        self._tick(turn, request)

    def _tick(self, turn: _Turn, request: _Request) -> None:
        """Look at one turn now and then: whether it has to end, or its client to be kept warm."""
        loop = asyncio.get_running_loop()
        turn.ticks = loop.call_later(self._tick_s, self._tick, turn, request)
        now = time.monotonic()
        options = self.options
        if turn.sending is not None:
            if now - turn.sending > options.idle_s:  # the client takes nothing: what it was sent is held for it here
                turn.left = True
                turn.cancel()
        elif turn.phase != "queued" and now - turn.heard > (
            options.idle_s if turn.phase == "answering" else options.first_byte_s
        ):
            turn.stalled = True
            turn.cancel()
        elif turn.comments and now - max(turn.heard, turn.commented) >= options.keepalive_s:
            turn.commented = now
            self._in_background(self._keep_warm(turn, request))

    async def _keep_warm(self, turn: _Turn, request: _Request) -> None:
        if turn.comments:  # not where the answer ended since
            await request.send_body(comment("waiting for the model"))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # --- what is known of all this ------------------------------------------------------------------------------

    def _done(
        self,
        turn: _Turn,
        ended: Ended,
        at: datetime,
        upstream: _Upstream | None,
        status: int,
        trip: LoopGuardTrip | None,
    ) -> None:
        first = turn.first_byte
        record = Record(
            at,
            turn.model,
            upstream.upstream.name if upstream is not None else None,
            turn.streaming,
            status,
            ended,
            trip,
            first - turn.begun if first is not None else None,
            time.monotonic() - turn.begun,
        )
        self._recent.append(record)
        self._changes += 1
        try:
            self._metrics.observe(record)
        except Exception as error:
            self._stage_failed("count", error)

    def _stage_failed(self, stage: Stage, error: Exception) -> None:
        """A fault of ours: the request went on without that stage. Logged once a stage, counted always."""
        if stage not in self._stage_failures:
            log.error("the stage %r failed and was passed over; the answer went on without it", stage, exc_info=error)
        self._stage_failures[stage] = self._stage_failures.get(stage, 0) + 1
        self._changes += 1

    def status(self) -> Status:
        """What the proxy is doing and has counted, now."""
        now = time.monotonic()
        keeping = self._keeping
        return status(
            self.ledger,
            uptime_s=now - self._begun,
            version=self._version,
            guard_mode=self.options.guard_mode,
            in_flight=[InFlight(turn.model, turn.phase, now - turn.begun, turn.streaming) for turn in self._turns],
            recent=self._recent,
            upstreams=[
                UpstreamStatus(
                    upstream.upstream.name,
                    shown_url(upstream.upstream.url),
                    upstream.upstream.models,
                    upstream.in_flight,
                    len(upstream.waiting),
                    upstream.upstream.max_inflight,
                    upstream.refusals,
                    upstream.last_error,
                )
                for upstream in self._upstreams.values()
            ],
            uncounted_paths=self._uncounted,
            stage_failures=self._stage_failures,
            trips_log=None if keeping is None else (keeping.lost, keeping.pending),
        )

    async def _send_status(self, scope: Message, receive: Receive, send: Send) -> None:
        await self._send_own(scope, send, msgspec.json.encode(self.status()))

    async def _send_schema(self, scope: Message, receive: Receive, send: Send) -> None:
        await self._send_own(scope, send, msgspec.json.encode(schema()))

    async def _send_metrics(self, scope: Message, receive: Receive, send: Send) -> None:
        # Beside the requests: a thousand models take a tenth of a second.
        body = await asyncio.to_thread(self._metrics.render, self.status())
        await self._send_own(scope, send, body, METRICS_TYPE.encode())

    async def _send_health(self, scope: Message, receive: Receive, send: Send) -> None:
        await self._send_own(scope, send, b'{"status":"ok"}')

    async def _send_own(self, scope: Message, send: Send, body: bytes, kind: bytes = b"application/json") -> None:
        headers = [(b"content-type", kind), (b"cache-control", b"no-store"), *self._gate.cors(scope["headers"])]
        await _reply(send, Reply(200, headers, b"" if scope["method"] == "HEAD" else body), [])

    async def _send_status_stream(self, scope: Message, receive: Receive, send: Send) -> None:
        """The status now, and then each second in which something changed or is going on."""
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({
            "type": "http.response.start",
            "status": 200,
            "headers": headers + self._gate.cors(scope["headers"]),
        })  # fmt: skip
        gone = asyncio.get_running_loop().create_task(_gone(receive))
        closing = asyncio.get_running_loop().create_task(self._closing.wait())
        seen, quiet_s = -1, 0.0
        try:
            while not (gone.done() or closing.done()):
                if self._changes != seen or self._turns:
                    seen, quiet_s = self._changes, 0.0
                    await send(_part(encode(msgspec.json.encode(self.status()))))
                elif quiet_s >= self.options.keepalive_s:
                    quiet_s = 0.0
                    await send(_part(comment()))
                await asyncio.wait((gone, closing), timeout=1, return_when=asyncio.FIRST_COMPLETED)
                quiet_s += 1
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            closing.cancel()


_OWN_PATHS = {
    "/health": Proxy._send_health,
    "/metrics": Proxy._send_metrics,
    "/v1/proxy/status": Proxy._send_status,
    "/v1/proxy/status/stream": Proxy._send_status_stream,
    "/v1/proxy/status/schema": Proxy._send_schema,
}


class _Failed(NamedTuple):
    """There is no answer of the upstream's."""

    ended: Literal["upstream_refused", "first_byte_timeout"]
    reply: Reply


class _Request:
    """One request of a client, and the way back to it."""

    __slots__ = ("_cors", "_send", "body", "headers", "method", "path", "query", "raw_path", "receive", "status")

    def __init__(self, scope: Message, receive: Receive, send: Send, cors: Headers, body: bytes) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: str = scope["raw_path"].decode("latin-1")
        self.query: str = scope["query_string"].decode("latin-1")
        self.headers: Headers = scope["headers"]
        self.body = body
        self.receive = receive
        self.status = 0
        """What the client was answered; 0 as long as it was not."""
        self._send = send
        self._cors = cors

    def header(self, wanted: bytes) -> str | None:
        return next((value.decode("latin-1") for name, value in self.headers if name == wanted), None)

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        if self._cors:
            headers = [pair for pair in headers if not pair[0].startswith(b"access-control-")] + self._cors
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_body(self, body: bytes, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def reply(self, reply: Reply) -> None:
        self.status = reply.status
        await _reply(self._send, reply, self._cors)


async def _reply(send: Send, reply: Reply, cors: Headers) -> None:
    headers = [*reply.headers, *cors]
    if reply.status != 204:
        headers.append((b"content-length", b"%d" % len(reply.body)))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body, "more_body": False})


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _body(receive: Receive, headers: Headers, limit_bytes: int) -> bytes | Reply:
    """The whole body, or why it is not taken. Raises _Left when the client goes first."""
    too_large = reply_error(
        413,
        f"the request's body is over {limit_bytes >> 20} MiB; send less, or raise body_limit_mb in the settings",
        "request_too_large",
        "invalid_request_error",
        [(b"connection", b"close")],
    )
    announced = next((value for name, value in headers if name == b"content-length"), b"")
    if announced.isdigit() and (len(announced) > 15 or int(announced) > limit_bytes):
        return too_large
    parts: list[bytes] = []
    size = 0
    while True:
        message = await _in_time(receive)
        if message is None:
            return reply_error(
                408,
                f"nothing more of the request came for {_BODY_S:g} s",
                "request_timeout",
                "invalid_request_error",
                [(b"connection", b"close")],
            )
        if message["type"] == "http.disconnect":
            raise _Left
        if part := message.get("body", b""):
            size += len(part)
            if size > limit_bytes:
                return too_large
            parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def _in_time(receive: Receive) -> Message | None:
    """The next message of a client; None when it sends none for too long."""
    task = asyncio.current_task()
    assert task is not None
    is_late = False

    def end() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    # Less work than asyncio.timeout, and nearly always the message is here already.
    timer = asyncio.get_running_loop().call_later(_BODY_S, end)
    try:
        return await receive()
    except asyncio.CancelledError:
        if not is_late:
            raise
        task.uncancel()
        return None
    finally:
        timer.cancel()


async def _gone(receive: Receive) -> None:
    """Returns when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _note_reuse(session: aiohttp.ClientSession, context: Any, params: object) -> None:
    turn = context.trace_request_ctx
    if isinstance(turn, _Turn):
        turn.reused = True


def _named(headers: Headers) -> CIMultiDict[str]:
    """Headers as the client library takes them: it writes them as UTF-8."""
    return CIMultiDict((name.decode("latin-1"), _in_characters(value)) for name, value in headers)


def _in_characters(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _is_stream(response: aiohttp.ClientResponse, was_asked: bool) -> bool:
    """Whether to read an answer as events: where it says so, or was asked to and does not say that it is JSON."""
    if "Content-Encoding" in response.headers:
        return False
    kind = response.headers.get("Content-Type", "").lower()
    return kind.startswith("text/event-stream") or (was_asked and "json" not in kind)


def _model_in(body: bytes) -> str | None:
    """The model that a body names; None where it is no JSON object or names none."""
    request = read_request(body, with_messages=False) if body else None
    return request.model or None if request is not None else None


def _only_embeds(model: Mapping[str, Any]) -> bool:
    """Whether an entry in a list of models says of itself that it makes embeddings and nothing else."""
    told = {model.get("type"), model.get("task")}
    capabilities = model.get("capabilities")
    if isinstance(capabilities, list):
        named = {name for name in capabilities if isinstance(name, str)}
        if named and named <= _EMBEDDING:
            return True
    return any(isinstance(word, str) and word in _EMBEDDING for word in told)


# --- the server -----------------------------------------------------------------------------------------------


class _Connection(HttpToolsProtocol):
    """uvicorn's connection, with an end to how much may come that is neither a body nor the end of anything: a head,
    trailers, what extends a chunk. uvicorn would keep any amount of it, and take trailers for headers."""

    _unread_bytes = 0
    _gets_on = False
    _in_head = False

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer comes after what was decided by the headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._gets_on = False, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._gets_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._gets_on = True
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._gets_on = False
        super().data_received(data)
        self._unread_bytes = 0 if self._gets_on else self._unread_bytes + len(data)
        if len(self.pipeline) > _PIPELINED:
            self.transport.close()
        elif self._unread_bytes > HEAD_LIMIT_BYTES and not self.transport.is_closing():
            if self._in_head and (self.cycle is None or self.cycle.response_complete):  # type: ignore[redundant-expr]
                self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n")
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn for a proxy: it says nothing of its own, and its status streams end when it is asked to stop."""

    def __init__(self, proxy: Proxy, announce: Callable[[], None] | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                proxy,
                http=_Connection,
                loop="uvloop" if _has_uvloop() else "asyncio",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=5,
                backlog=4096,
            )
        )
        self._proxy = proxy
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._announce is not None:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._proxy.drain(_DRAIN_S)
        await super().shutdown(sockets)


def _has_uvloop() -> bool:
    return find_spec("uvloop") is not None


def serve(
    options: Options, host: str, port: int, database_url: str | None = None, announce: Callable[[], None] | None = None
) -> None:
    """Run a proxy until it is told to stop. Raises OSError when it cannot listen there.

    port: 0 takes a free one. database_url: where trips and counts are kept; None keeps none.
    announce: called when it listens.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what matters of it is told by the proxy
    listening = listen(host, port)
    ledger = DefectLedger(datetime.now(UTC))
    keeping = None
    if database_url is not None:
        keeping = Keeping(database_url, ledger, __version__, options.guard_mode, warn=log.warning)
    try:
        proxy = Proxy(options, ledger, keeping=keeping, host=host, version=__version__)

        def ready() -> None:
            # What is here by now stays: looking through it for garbage again and again costs a tenth of all requests.
            gc.collect()
            gc.freeze()
            if announce is not None:
                announce()

        Server(proxy, ready).run(sockets=[listening])
    finally:
        listening.close()
        if keeping is not None:
            keeping.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that clients can connect to. Raises OSError when the address is taken or is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=4096)
