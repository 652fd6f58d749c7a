"""Those who ask: as many clients as told, each with one connection that it keeps.

    python -m benchmarks.proxy_peers.load '{"kind": "whole", "url": ..., "clients": 32, "seconds": 5}'

prints what came of it as JSON. It knows just enough HTTP for answers with a length or in chunks.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

_END = b"0\r\n\r\n"
PROMPT = "Make the tests of the parser pass, and say in one sentence what was wrong with it."


def request_bytes(url: str, model: str, stream: bool, headers: dict[str, str]) -> bytes:
    """One chat request to the endpoint at `url`, which ends with `/v1`."""
    parts = urlsplit(url)
    body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": PROMPT}]}).encode()
    given = {"Host": parts.netloc, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"POST {parts.path}/chat/completions HTTP/1.1\r\n{lines}\r\n".encode() + body


class Connection(asyncio.Protocol):
    """One kept connection: a request at a time, and what its answer was like."""

    def __init__(self) -> None:
        self.events = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is of another family

    def ask(self, request: bytes) -> asyncio.Future[None]:
        """Done when the answer is complete; raises ConnectionError unless it is one of status 200."""
        self.done = asyncio.get_running_loop().create_future()
        self.head = b""
        self.left: int | None = None
        self.tail = b""
        self.events = 0
        self.transport.write(request)
        return self.done

    def data_received(self, data: bytes) -> None:
        if self.head.find(b"\r\n\r\n") < 0:
            self.head += data
            at = self.head.find(b"\r\n\r\n")
            if at < 0:
                return
            data = self.head[at + 4 :]
            self.head = self.head[: at + 4]
            if self.head[9:12] != b"200":
                self.fail(f"answered {self.head[:300]!r} {data[:600]!r}")
                return
            length = self.head.lower().partition(b"content-length:")[2]
            self.left = int(length.partition(b"\r\n")[0]) if length else None
        if self.left is not None:
            self.left -= len(data)
            if self.left <= 0 and not self.done.done():
                self.done.set_result(None)
            return
        if self.tail:
            data = self.tail + data
        self.events += data.count(b"data: ")
        self.tail = data[-5:]  # shorter than what is counted, and as long as what ends it
        if self.tail == _END and not self.done.done():
            self.done.set_result(None)

    def fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(why))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail("closed the connection")


async def connect(url: str) -> Connection:
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Connection, parts.hostname or "", parts.port or 80))[1]


async def _clients(url: str, clients: int, jobs: Iterator[bytes]) -> tuple[float, list[float], int]:
    """Seconds it took all clients to work off `jobs`, milliseconds of each, and the events that came."""
    took: list[float] = []
    events = 0

    async def client() -> None:
        nonlocal events
        connection = await connect(url)
        for job in jobs:
            start = time.perf_counter()
            await connection.ask(job)
            took.append((time.perf_counter() - start) * 1000)
            events += connection.events
        connection.transport.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - begun, took, events


def _until(seconds: float, requests: list[bytes]) -> Iterator[bytes]:
    """The requests over and over, until the time is up."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        yield from requests


async def whole(url: str, clients: int, seconds: float, headers: dict[str, str], model: str) -> dict[str, float]:
    """Whole answers for so long."""
    job = request_bytes(url, model, False, headers)
    spent, took, _ = await _clients(url, clients, _until(seconds, [job]))
    took.sort()
    middle, high = took[len(took) // 2], took[int(len(took) * 0.99)]
    return {"per_s": len(took) / spent, "count": len(took), "p50_ms": middle, "p99_ms": high}


async def streamed(url: str, clients: int, seconds: float, headers: dict[str, str], model: str) -> dict[str, float]:
    """Streams for so long; those begun are read to their end."""
    job = request_bytes(url, model, True, headers)
    spent, _, events = await _clients(url, clients, _until(seconds, [job]))
    return {"per_s": events / spent, "count": events}


async def latency(urls: list[str], seconds: float, headers: list[dict[str, str]], model: str) -> dict[str, list[float]]:
    """Milliseconds of one request at a time, at each address in turn: the median, and the 99th percentile."""
    jobs = [request_bytes(url, model, False, of) for url, of in zip(urls, headers, strict=True)]
    connections = [await connect(url) for url in urls]
    took: list[list[float]] = [[] for _ in urls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for job, connection, times in zip(jobs, connections, took, strict=True):
            start = time.perf_counter()
            await connection.ask(job)
            times.append((time.perf_counter() - start) * 1000)
            await asyncio.sleep(0.002)
    for connection in connections:
        connection.transport.close()
    return {
        "p50_ms": [statistics.median(times) for times in took],
        "p99_ms": [sorted(times)[int(len(times) * 0.99)] for times in took],
    }


async def mixed(url: str, clients: int, count: int, headers: dict[str, str], model: str) -> dict[str, float]:
    """So many requests, every tenth a short stream."""
    jobs = [request_bytes(url, model, False, headers)] * 9 + [request_bytes(url, f"{model}-short", True, headers)]
    spent, took, _ = await _clients(url, clients, (jobs[number % 10] for number in range(count)))
    return {"per_s": len(took) / spent}


def main(job: dict[str, Any]) -> Any:
    kinds: dict[str, Any] = {"whole": whole, "streamed": streamed, "latency": latency, "mixed": mixed}
    return uvloop.run(kinds[job.pop("kind")](**job))


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
