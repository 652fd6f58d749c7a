"""An upstream that does what a script says, over real sockets, in a thread of this process.

    with upstream(stream(chat("Hello", " there")), whole(answer("Bye"))) as up:
        ...  # point a client at up.url; the first request gets the stream, every later one the whole answer
        assert up.requests[0].json["model"] == "m"

A script is a list of steps. No HTTP library is in the way, so that it can lie, stall and break off. What makes scripts
comes first, then what makes the objects of a chat answer, then the server.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias


class Send(NamedTuple):
    """Write this, in a write of its own."""

    data: bytes


class Wait(NamedTuple):
    seconds: float


class Stall(NamedTuple):
    """Do nothing until told by `Upstream.go(name)`, or until the client leaves."""

    name: str = ""


class Close(NamedTuple):
    """End the connection, in order."""


class Reset(NamedTuple):
    """End the connection by a TCP reset."""


class HalfClose(NamedTuple):
    """Say that no more will be sent, and stay until the client leaves."""


Step: TypeAlias = Send | Wait | Stall | Close | Reset | HalfClose
Script: TypeAlias = Iterable[Step]


class Request:
    """One request as it arrived."""

    def __init__(self, raw: bytes, body: bytes, connection: int) -> None:
        self.raw = raw
        """Every byte of it."""
        self.body = body
        """Without the chunks' framing, where it came in chunks."""
        self.connection = connection
        """Which of the connections it came over, from 0."""
        self.left = threading.Event()
        """Set when the client has left before its script was through."""
        line, _, rest = raw.partition(b"\r\n\r\n")[0].partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        self.method = words[0]
        self.path = words[1] if len(words) > 1 else ""
        """With the query, as it came."""
        pairs = (field.partition(b":") for field in rest.split(b"\r\n") if field)
        self.headers = [(name, value.strip(b" \t")) for name, _, value in pairs]
        """In their order, the names in their case."""

    def header(self, name: str) -> bytes | None:
        """The first value of a header, whatever the case of its name; None without one."""
        wanted = name.lower().encode()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer: TypeAlias = Script | Callable[[Request], Script]
Pairs: TypeAlias = Sequence[tuple[str, str]]

# --- scripts: HTTP -----------------------------------------------------------------------------------------------

EVENT_STREAM = ("Content-Type", "text/event-stream")
JSON = ("Content-Type", "application/json")
CHUNKED = ("Transfer-Encoding", "chunked")


def head(status: int = 200, headers: Pairs = (), version: str = "1.1", reason: str = "Whatever") -> bytes:
    """A status line and headers, to the empty line."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/{version} {status} {reason}\r\n{lines}\r\n".encode("latin-1")


def encoded(body: object) -> bytes:
    """Bytes as they are, anything else as JSON."""
    return body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()


def whole(body: object, status: int = 200, headers: Pairs = (), length: int | None = None) -> list[Step]:
    """An answer with a length; a wrong one when told, and then the connection is closed after the body."""
    data = encoded(body)
    given = (JSON, ("Content-Length", str(len(data) if length is None else length)), *headers)
    return [Send(head(status, given) + data), *([] if length is None else [Close()])]


def error(status: int, message: str = "no", headers: Pairs = (), **more: object) -> list[Step]:
    """A refusal as OpenAI-compatible servers send it."""
    return whole({"error": {"message": message, "type": "server_error", "code": status, **more}}, status, headers)


def gzipped(body: object) -> list[Step]:
    """An answer that is compressed, asked for or not."""
    return whole(gzip.compress(encoded(body)), headers=(("Content-Encoding", "gzip"),))


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    """One chunk of a chunked body. extension: with its `;`."""
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def stream(
    parts: Iterable[bytes], status: int = 200, headers: Pairs = (), extension: bytes = b"", trailers: bytes = b""
) -> list[Step]:
    """A chunked event stream to its end, each part a chunk and a write of its own. trailers: lines with CRLF."""
    return [*open_stream(parts, status, headers, extension), Send(b"0\r\n" + trailers + b"\r\n")]


def open_stream(parts: Iterable[bytes], status: int = 200, headers: Pairs = (), extension: bytes = b"") -> list[Step]:
    """As `stream`, without the chunk that ends it: for what breaks off, stalls or goes on otherwise."""
    start = Send(head(status, (EVENT_STREAM, CHUNKED, *headers)))
    return [start, *(Send(chunk(part, extension)) for part in parts if part)]


def until_close(parts: Iterable[bytes], version: str = "1.0", headers: Pairs = (EVENT_STREAM,)) -> list[Step]:
    """A body that has neither a length nor chunks: it ends with the connection."""
    return [Send(head(200, headers, version)), *map(Send, parts), Close()]


def never_ends(part: bytes, every_s: float = 0.001) -> Answer:
    """A stream of the same part until the client leaves."""

    def steps(request: Request) -> Iterator[Step]:
        yield from open_stream(())
        while True:
            yield Send(chunk(part))
            yield Wait(every_s)

    return steps


def header_bomb(count: int = 1, size: int = 1 << 20) -> list[Step]:
    """An answer with so many headers of so many bytes each."""
    return whole(b"{}", headers=[(f"X-Bomb-{number}", "x" * size) for number in range(count)])


def early(*statuses: int) -> list[Step]:
    """Interim answers (100, 103), to be followed by a script of the real one."""
    return [
        Send(head(status, (("Link", "</style.css>; rel=preload"),) if status == 103 else ())) for status in statuses
    ]


def cut(data: bytes, *places: int) -> list[bytes]:
    """The data in parts, cut at these offsets (from the end where negative): within a character, a line, a frame."""
    ends = sorted(place if place >= 0 else len(data) + place for place in places)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def every(data: bytes, size: int) -> list[bytes]:
    """The data in parts of so many bytes."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def slow(script: Script, size: int = 1, wait_s: float = 0) -> list[Step]:
    """The same bytes on the wire, so many a write, with a pause after each write."""
    steps: list[Step] = []
    for step in script:
        if isinstance(step, Send):
            for part in every(step.data, size):
                steps += [Send(part), Wait(wait_s)]
        else:
            steps.append(step)
    return steps


def bytes_of(script: Script) -> bytes:
    """All that a script sends."""
    return b"".join(step.data for step in script if isinstance(step, Send))


# --- events ------------------------------------------------------------------------------------------------------

DONE = b"data: [DONE]\n\n"
BOM = b"\xef\xbb\xbf"
COMMENT = b": keep-alive\n\n"


def frame(payload: object, newline: bytes = b"\n", space: bool = True, event: str | None = None) -> bytes:
    """One event. A payload with line ends in it (bytes or JSON of `indent`) becomes one `data:` line for each."""
    name = [b"event: " + event.encode()] if event is not None else []
    field = b"data: " if space else b"data:"
    return newline.join([*name, *(field + line for line in encoded(payload).split(b"\n")), b"", b""])


def frames(payloads: Iterable[object], newline: bytes = b"\n", done: bool = True) -> list[bytes]:
    """An event for each payload, and `[DONE]`."""
    return [frame(payload, newline) for payload in (*payloads, *([b"[DONE]"] if done else []))]


# --- the objects of a chat answer ----------------------------------------------------------------------------------


def delta(
    content: str | None = None, finish: str | None = None, index: int = 0, usage: object = None, **more: object
) -> dict[str, Any]:
    """One chunk of a streamed chat answer. more: further keys of its delta (role, reasoning_content, tool_calls)."""
    inner = {**more, **({"content": content} if content is not None else {})}
    choice = {"index": index, "delta": inner, "finish_reason": finish}
    made: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764590000, "model": "m"}
    return {**made, "choices": [choice], **({"usage": usage} if usage is not None else {})}


def usage(prompt: int = 7, completion: int = 5) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def usage_chunk() -> dict[str, Any]:
    """The last chunk of those who asked for `include_usage`: it has no choice."""
    return {**delta(usage=usage()), "choices": []}


def error_event(message: str = "the model fell over", code: object = 500) -> dict[str, Any]:
    """What comes instead of a chunk when generation fails midway."""
    return {"error": {"message": message, "type": "server_error", "code": code}}


def call(name: str, arguments: object, call_id: str = "call_1") -> dict[str, Any]:
    """One tool call of a whole message. arguments: a string as it is, else as JSON."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


def call_chunks(*calls: dict[str, Any], parts: int = 2) -> list[dict[str, Any]]:
    """Chunks of a streamed turn of calls: the role, each call's head, its arguments in parts, the finish."""
    made = [delta(role="assistant", content=None)]
    for index, whole_call in enumerate(calls):
        function = whole_call["function"]
        start = {**whole_call, "index": index, "function": {**function, "arguments": ""}}
        made.append(delta(tool_calls=[start]))
        arguments = function["arguments"]
        size = max(1, -(-len(arguments) // parts))
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        made += [delta(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for piece in pieces]
    return [*made, delta(finish="tool_calls")]


def chat(*texts: str, finish: str | None = "stop", reasoning: Sequence[str] = (), done: bool = True) -> list[bytes]:
    """The frames of a streamed answer: the role, what was reasoned, the texts, the finish (None: without), `[DONE]`."""
    made = [delta("", role="assistant"), *(delta(reasoning_content=text) for text in reasoning), *map(delta, texts)]
    return frames([*made, *([delta(finish=finish)] if finish is not None else [])], done=done)


def answer(
    content: str | None = None, *calls: dict[str, Any], finish: str | None = None, **message: object
) -> dict[str, Any]:
    """A whole chat answer. finish: by default as its calls have it. message: further keys (reasoning_content)."""
    said = {"role": "assistant", "content": content, **message, **({"tool_calls": list(calls)} if calls else {})}
    choice = {"index": 0, "message": said, "finish_reason": finish or ("tool_calls" if calls else "stop")}
    made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1764590000, "model": "m"}
    return {**made, "choices": [choice], "usage": usage()}


# --- the server --------------------------------------------------------------------------------------------------


class Upstream:
    """A server at work. Everything here may be used from the test's thread."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.requests: list[Request] = []
        """In the order in which they were complete."""
        self.connections = 0
        """How many were accepted so far."""
        self.url = ""
        """With `/v1` at its end."""
        self._answers = list(answers)
        self._failure: Exception | None = None
        self._gates: dict[str, asyncio.Event] = {}
        self._open: set[_Connection] = set()
        self._arrived = threading.Condition()
        self._loop = asyncio.new_event_loop()

    def then(self, *answers: Answer) -> None:
        """Answer the next requests so instead: one each, the last for ever."""
        self._answers = list(answers)

    def go(self, name: str = "") -> None:
        """Let go on whoever stalls by this name, now or later."""
        self._loop.call_soon_threadsafe(lambda: self._gate(name).set())

    def wait_for(self, count: int, timeout_s: float = 10) -> list[Request]:
        """The requests, once there are so many; raises AssertionError when they do not come in time."""
        with self._arrived:
            came = self._arrived.wait_for(lambda: len(self.requests) >= count, timeout_s)
        assert came, f"{len(self.requests)} requests reached the upstream, not {count}"
        return self.requests

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    def _took(self, request: Request) -> Script:
        chosen = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        return chosen(request) if callable(chosen) else chosen

    async def _serve(self, listening: socket.socket, stop: asyncio.Event, up: threading.Event) -> None:
        server = await self._loop.create_server(lambda: _Connection(self), sock=listening)
        up.set()
        await stop.wait()
        server.close()
        tasks = [connection.task for connection in self._open if connection.task is not None]
        for connection in list(self._open):
            connection.end(abort=True)
        await asyncio.gather(*tasks, return_exceptions=True)


class _Connection(asyncio.Protocol):
    """One client's connection: requests one after the other, each answered by its script."""

    def __init__(self, server: Upstream) -> None:
        self.server = server
        self.number = server.connections
        server.connections += 1
        self.read = bytearray()
        self.changed = asyncio.Event()
        self.gone = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server._open.add(self)
        self.task = asyncio.get_running_loop().create_task(self.serve())

    def data_received(self, data: bytes) -> None:
        self.read += data
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self.changed.set()
        self.writable.set()
        self.server._open.discard(self)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    async def serve(self) -> None:
        try:
            while (request := await self.request()) is not None:
                for step in self.server._took(request):
                    await self.do(step)
                    if self.gone.is_set():
                        if not isinstance(step, Close | Reset):
                            request.left.set()
                        return
        except Exception as error:  # a script's mistake is the test's failure
            self.server._failure = error
            self.end(abort=True)

    async def request(self) -> Request | None:
        """The next one; None when the client is gone."""
        while not (found := _complete(self.read)):
            if self.gone.is_set():
                return None
            self.changed.clear()
            await self.changed.wait()
        size, body = found
        request = Request(bytes(self.read[:size]), body, self.number)
        del self.read[:size]
        return request

    async def do(self, step: Step) -> None:
        match step:
            case Send(data):
                if not self.gone.is_set():
                    self.transport.write(data)
                await self.writable.wait()
                await asyncio.sleep(0)  # lets the client's leaving be seen
            case Wait(seconds):
                await self.unless_gone(asyncio.sleep(seconds))
            case Stall(name):
                await self.unless_gone(self.server._gate(name).wait())
            case HalfClose():
                self.transport.write_eof()
                await self.gone.wait()
            case Close() | Reset():
                self.end(abort=isinstance(step, Reset))
                await self.gone.wait()

    async def unless_gone(self, waiting: Any) -> None:
        """Wait, but no longer than the client stays."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self.gone.wait())]
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    def end(self, abort: bool) -> None:
        if not abort:
            self.transport.close()
            return
        to_client = self.transport.get_extra_info("socket")
        if to_client is not None:  # lingering for no time makes the close a reset
            to_client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _complete(data: bytearray) -> tuple[int, bytes] | None:
    """Size and body of the request that the data begins with; None while it is not all there."""
    at = data.find(b"\r\n\r\n")
    if at < 0:
        return None
    start = at + 4
    fields = {}
    for line in bytes(data[:at]).lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name] = value.strip()
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        return _unchunked(data, start)
    size = start + int(fields.get(b"content-length", b"0"))
    return (size, bytes(data[start:size])) if len(data) >= size else None


def _unchunked(data: bytearray, start: int) -> tuple[int, bytes] | None:
    body = b""
    while (at := data.find(b"\r\n", start)) >= 0:
        size = int(bytes(data[start:at]).partition(b";")[0], 16)
        if len(data) < at + 2 + size + 2:
            return None
        body += data[at + 2 : at + 2 + size]
        start = at + 2 + size + 2
        if size == 0:
            return start, body
    return None


@contextmanager
def upstream(*answers: Answer) -> Iterator[Upstream]:
    """A server that gives the first request the first answer, and so on; the last one for ever."""
    assert answers, "say how requests are to be answered"
    server = Upstream(answers)
    listening = socket.create_server(("127.0.0.1", 0))
    server.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    stop, up = asyncio.Event(), threading.Event()

    def run() -> None:
        try:
            server._loop.run_until_complete(server._serve(listening, stop, up))
        finally:
            server._loop.close()

    thread = threading.Thread(target=run, name="upstream")
    thread.start()
    try:
        assert up.wait(10), "the upstream did not start"
        yield server
    finally:
        server._loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive(), "the upstream did not stop"
    if server._failure is not None:
        raise server._failure
