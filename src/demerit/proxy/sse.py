"""Server-sent events as they come over a wire: bytes cut anywhere in, whole frames out, in the bytes they came in.

    reader = Reader()
    for chunk in chunks:
        block = reader.feed(chunk)       # frames that are whole now, as they came
        for data in payloads(block):     # and what they say

Joined, the blocks and what `rest` still holds are byte for byte what was fed.
Source: the event stream interpretation of the HTML standard, section 9.2.
"""

from __future__ import annotations

import re

LIMIT_BYTES = 32 << 20
"""A frame that grows longer is let through in pieces: it is not read, and it is not held either."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
# A line end and then another: the blank line that ends a frame. The halves of one CRLF are not two ends.
_FRAME_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"


class Reader:
    """Cuts a stream where a frame ends: after the blank line that follows its lines."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._after_cr = False
        self.overlong = False
        """Whether a piece of a frame beyond `LIMIT_BYTES` was let through, and its end has not come yet."""

    def feed(self, chunk: bytes) -> bytes:
        """The frames that end in this chunk, with all their bytes; empty while the first is not whole.

        After a frame that ended in CR the next block may begin with the LF that belonged to it. It says nothing.
        """
        if not chunk:
            return b""
        lone = b"\n" if self._after_cr and chunk.startswith(b"\n") else b""
        self._after_cr = False
        if lone:
            chunk = chunk[1:]
        # Looked for in what is new and a few bytes before: a frame that comes byte by byte costs no more than another.
        window = bytes(self._held[-3:]) + chunk if self._held else chunk
        if b"\r" not in window:
            end = window.rfind(b"\n\n")
            end += 2 if end >= 0 else 0
        else:
            end = max((match.end() for match in _FRAME_END.finditer(window)), default=-1)
            self._after_cr = end == len(window) and window.endswith(b"\r")
        if end < 0:
            return lone + self._hold(chunk)
        end -= len(window) - len(chunk)
        self.overlong = False
        block = chunk if end == len(chunk) else chunk[:end]
        if self._held:
            block = self.rest() + block
        if end < len(chunk):
            block += self._hold(chunk[end:])
        return lone + block if lone else block

    def _hold(self, piece: bytes) -> bytes:
        """Keep the beginning of a frame. What of it is too much to keep comes back."""
        self._held += piece
        if len(self._held) <= LIMIT_BYTES:
            return b""
        # Its last bytes stay: they may be the first half of the frame's end.
        too_much = bytes(self._held[:-3])
        del self._held[:-3]
        self.overlong = True
        return too_much

    def rest(self) -> bytes:
        """What came and is no whole frame; it is held no longer."""
        held = bytes(self._held)
        self._held.clear()
        return held


def payloads(block: bytes) -> list[bytes]:
    """The data of each frame in a block, its lines joined by LF, without the frames that have none (comments)."""
    frames = block.split(b"\n\n") if b"\r" not in block else _FRAME_END.split(block)
    found = []
    for frame in frames:
        if frame.startswith(b"data: ") and b"\n" not in frame and b"\r" not in frame:
            found.append(frame[6:])
        elif frame and (data := _payload(frame)) is not None:
            found.append(data)
    return found


def _payload(frame: bytes) -> bytes | None:
    found = None
    for line in _LINE_END.split(frame):
        # A byte order mark may open a stream. Here it may open any line: where a block begins depends on the chunks.
        name, _, value = line.removeprefix(_BOM).partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            found = value if found is None else found + b"\n" + value
    return found


def as_json_list(block: bytes) -> tuple[bytes, int] | None:
    """A block as one JSON list and the length that it must have, where each of its frames looks like one line of data
    with an object; None for any other block. Reading one list is several times quicker than reading frame by frame."""
    if not (block.startswith(b"data: {") and block.endswith(b"}\n\n")) or b"\r" in block:
        return None
    length, odd = divmod(block.count(b"\n"), 2)
    return None if odd else (b"[" + b",".join(block[6:-2].split(b"\n\ndata: ")) + b"]", length)


def encode(data: bytes) -> bytes:
    """One frame with this data: JSON on one line."""
    return b"data: " + data + b"\n\n"


def comment(text: str = "") -> bytes:
    """A frame that every reader passes over."""
    return f": {text}\n\n".encode()
