"""A model server that costs next to nothing: it answers with bytes made beforehand.

`python -m benchmarks.proxy_peers.upstream PORT`. A request with `"stream": true` gets 500 events and `[DONE]`, each in
a chunk of its own: all in one write where the model's name has `burst` in it, else one event a write, as a model
server sends them.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import cast

import uvloop

EVENTS = 500
SHORT = 10
"""Events of a stream where the model's name has `short` in it."""

_MADE = b'"id":"chatcmpl-9f2c41d07be84a6c","created":1764590000,"model":"bench","system_fingerprint":"b7420"'
_TEXT = b"The tests of the parser pass now; the header was read twice when it came in two parts. " * 4
WHOLE = (
    b'{"object":"chat.completion",' + _MADE + b',"choices":[{"index":0,"finish_reason":"stop","message":'
    b'{"role":"assistant","content":"' + _TEXT + b'"}}],"usage":{"prompt_tokens":31,"completion_tokens":80,'
    b'"total_tokens":111}}'
)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.I)
_STREAM = re.compile(rb'"stream": *true')


def _event(delta: bytes, finish: bytes = b"null") -> bytes:
    choice = b'"choices":[{"index":0,"delta":' + delta + b',"logprobs":null,"finish_reason":' + finish + b"}]"
    return b'data: {"object":"chat.completion.chunk",' + _MADE + b"," + choice + b"}\n\n"


def events(count: int) -> list[bytes]:
    """A stream of so many events, without `[DONE]`."""
    first, last = _event(b'{"role":"assistant","content":""}'), _event(b"{}", b'"stop"')
    return [first, *(_event(b'{"content":" word%d"}' % number) for number in range(count - 2)), last]


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_MODELS = b'{"object":"list","data":[{"id":"bench","object":"model","created":1764590000,"owned_by":"nobody"}]}'
_LIST = _HEAD % (b"application/json", b"Content-Length: %d" % len(_MODELS)) + _MODELS
_ANSWER = _HEAD % (b"application/json", b"Content-Length: %d" % len(WHOLE)) + WHOLE
_STREAM_HEAD = _HEAD % (b"text/event-stream", b"Transfer-Encoding: chunked")
_END = chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"
_CHUNKS = {count: [*map(chunked, events(count)), _END] for count in (EVENTS, SHORT)}
_BURST = {count: b"".join(chunks) for count, chunks in _CHUNKS.items()}


class _Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.read = bytearray()
        self.body_at = 0
        self.full = 0
        self.can_write = asyncio.Event()
        self.can_write.set()
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is of another family

    def data_received(self, data: bytes) -> None:
        self.read += data
        if not self.full:
            head = self.read.find(b"\r\n\r\n")
            if head < 0:
                return
            length = _LENGTH.search(self.read, 0, head)
            self.body_at = head + 4
            self.full = self.body_at + (int(length[1]) if length else 0)
        if len(self.read) >= self.full:
            body = bytes(self.read[self.body_at : self.full])
            del self.read[: self.full]
            self.full = 0
            self.answer(body)

    def answer(self, body: bytes) -> None:
        if not _STREAM.search(body):
            self.transport.write(_ANSWER if body else _LIST)
            return
        self.transport.write(_STREAM_HEAD)
        count = SHORT if b"short" in body else EVENTS
        if b"burst" in body:
            self.transport.write(_BURST[count])
        else:
            self.task = asyncio.get_running_loop().create_task(self.one_a_write(_CHUNKS[count]))

    async def one_a_write(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            await asyncio.sleep(0)  # what is written in one turn of the loop goes out in one piece
            if not self.can_write.is_set():
                await self.can_write.wait()
            self.transport.write(chunk)

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()


async def _main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Client, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
