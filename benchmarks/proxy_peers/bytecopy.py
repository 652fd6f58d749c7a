"""The least that a proxy can do: hand on bytes. `python -m benchmarks.proxy_peers.bytecopy PORT UPSTREAM_URL CLIENT`

The same server as demerit's, and as CLIENT one of aiohttp (which demerit uses), httpx, pyreqwest.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import httpx
import uvicorn

Send = Callable[[dict[str, Any]], Awaitable[None]]
Copy = Callable[[bytes, Send], Awaitable[None]]
_JSON = {"Content-Type": "application/json"}


async def _start(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    kept = [(name, value) for name, value in headers if name.lower() in (b"content-type", b"content-length")]
    await send({"type": "http.response.start", "status": status, "headers": kept})


def _aiohttp(url: str) -> Copy:
    sessions: list[aiohttp.ClientSession] = []

    async def copy(body: bytes, send: Send) -> None:
        if not sessions:
            connector = aiohttp.TCPConnector(limit=0)
            sessions.append(aiohttp.ClientSession(connector=connector, auto_decompress=False))
        async with sessions[0].post(url, data=body, headers=_JSON) as response:
            await _start(send, response.status, list(response.raw_headers))
            while chunk := await response.content.readany():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

    return copy


def _httpx(url: str) -> Copy:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    client = httpx.AsyncClient(limits=limits, timeout=None, trust_env=False)

    async def copy(body: bytes, send: Send) -> None:
        async with client.stream("POST", url, content=body, headers=_JSON) as response:
            await _start(send, response.status_code, response.headers.raw)
            async for chunk in response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

    return copy


def _pyreqwest(url: str) -> Copy:
    client = importlib.import_module("pyreqwest.client").ClientBuilder().no_proxy().gzip(False).build()

    async def copy(body: bytes, send: Send) -> None:
        asked = client.post(url).headers(_JSON).body_bytes(body).streamed_read_buffer_limit(0)  # else it holds back
        async with asked.build_streamed() as response:
            headers = [(name.encode(), value.encode()) for name, value in response.headers.items()]
            await _start(send, response.status, headers)
            while (chunk := await response.body_reader.read_chunk()) is not None:
                await send({"type": "http.response.body", "body": bytes(chunk), "more_body": True})

    return copy


CLIENTS = {"aiohttp": _aiohttp, "httpx": _httpx, "pyreqwest": _pyreqwest}


def app(url: str, client: str) -> Any:
    copy = CLIENTS[client](f"{url}/chat/completions")

    async def application(scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Send) -> None:
        assert scope["type"] == "http"
        message = await receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        await copy(body, send)
        await send({"type": "http.response.body", "body": b""})

    return application


if __name__ == "__main__":
    uvicorn.run(
        app(sys.argv[2], sys.argv[3]),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
