"""Server-sent events as they come over a wire: bytes cut anywhere in, whole frames out, each with the bytes it came in.

    reader = Reader()
    for chunk in chunks:
        for frame in reader.feed(chunk):
            data = payload(frame)

Joined, the frames and what `rest` still holds are byte for byte what was fed.
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
    """Cuts a stream into frames: some lines, and the blank line that ends them."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._after_cr = False
        self.overlong = False
        """Whether a piece of a frame beyond `LIMIT_BYTES` was let through, and its end has not come yet."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The frames that end in this chunk, with their bytes; none while the first is not whole.

        After a frame that ended in CR, an LF that belonged to it comes as a frame of its own: it says nothing.
        """
        frames = []
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                frames.append(b"\n")
                chunk = chunk[1:]
        if not chunk:
            return frames
        # Only about its own bytes and a few before them: a frame that comes byte by byte costs no more than another.
        window = bytes(self._held[-3:]) + chunk
        if b"\n\n" not in window and (b"\r" not in window or not _FRAME_END.search(window)):
            self._hold(chunk, frames)
            return frames
        if self._held:
            chunk = self.rest() + chunk
        self.overlong = False
        if b"\r" not in chunk:
            parts = chunk.split(b"\n\n")
            rest = parts.pop()
            frames += [part + b"\n\n" for part in parts]
        else:
            start = 0
            for match in _FRAME_END.finditer(chunk):
                frames.append(chunk[start : match.end()])
                start = match.end()
            rest = chunk[start:]
            self._after_cr = not rest and chunk.endswith(b"\r")
        if rest:
            self._hold(rest, frames)
        return frames

    def _hold(self, piece: bytes, frames: list[bytes]) -> None:
        self._held += piece
        if len(self._held) > LIMIT_BYTES:
            # Its last bytes stay: they may be the first half of the frame's end.
            frames.append(bytes(self._held[:-3]))
            del self._held[:-3]
            self.overlong = True

    def rest(self) -> bytes:
        """What came and is no whole frame; it is held no longer."""
        held = bytes(self._held)
        self._held.clear()
        return held


def payload(frame: bytes) -> bytes | None:
    """The data of a frame, its lines joined by LF; None when it has no data (a comment, another field, nothing)."""
    if frame.startswith(b"data: ") and frame.endswith(b"\n\n") and b"\n" not in frame[:-2] and b"\r" not in frame:
        return frame[6:-2]
    if frame.startswith(_BOM):  # it may open a stream, and means nothing
        frame = frame[3:]
    found = None
    for line in _LINE_END.split(frame):
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            found = value if found is None else found + b"\n" + value
    return found


def encode(data: bytes) -> bytes:
    """One frame with this data, of which no line may be empty-handed: JSON on one line."""
    return b"data: " + data + b"\n\n"


def comment(text: str = "") -> bytes:
    """A frame that every reader passes over."""
    return f": {text}\n\n".encode()
