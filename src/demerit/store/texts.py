"""How texts are kept: compressed one by one, and unpacked only when somebody opens them."""

from __future__ import annotations

import codecs
import threading
from hashlib import blake2b
from typing import NamedTuple

import zstandard

from demerit.store.engines import StoreError

TEXT_CHARS = 1 << 20
"""Characters kept of one text; the whole stays in the log and its archive."""
TEXT_SPACE = 1 << 24
"""Numbers for the texts of one session: the ids of its texts begin at its own id times this."""
KEPT_HEAD_BYTES = (1 << 17) + 32
"""Bytes of a packed text that hold at least the first 128 KiB of it, or all: a block of zstd, with its headers."""
_MOST_BYTES = 1 << 26
_MOST_WINDOW_BYTES = 1 << 23
_LEVEL = 1


class _Tools(threading.local):
    """The compressors, of each thread its own: two may not use one at a time."""

    def __init__(self) -> None:
        self.packer = zstandard.ZstdCompressor(level=_LEVEL)
        self.checked_packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self.unpacker = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES)


_tools = _Tools()


class Head(NamedTuple):
    text: str
    is_cut: bool
    """More of it is kept."""


def packed(text: str) -> bytes:
    """A text as it is kept."""
    return _tools.packer.compress(text.encode("utf-8", "replace"))


def unpacked(data: bytes) -> str:
    """The text of what `packed` gave. Raises StoreError when the bytes are damaged."""
    return unpacked_bytes(data).decode("utf-8", "replace")


def packed_bytes(data: bytes) -> bytes:
    """Bytes as they are kept, with a checksum."""
    return _tools.checked_packer.compress(data)


def unpacked_bytes(data: bytes) -> bytes:
    """The bytes of what `packed` or `packed_bytes` gave, 64 MiB at most. Raises StoreError when they are damaged."""
    try:
        _sized(data)
        return _tools.unpacker.decompress(data)
    except zstandard.ZstdError as error:
        raise _damaged(error) from error


def unpacked_head(data: bytes, most_bytes: int) -> Head:
    """The beginning of what `packed` gave, in whole characters. Raises StoreError when the bytes are damaged.

    data: all of it, or its first bytes: KEPT_HEAD_BYTES for each 128 KiB that are wanted.
    """
    try:
        size = _sized(data)
        with _tools.unpacker.stream_reader(data) as reader:
            head = reader.read(most_bytes)
    except zstandard.ZstdError as error:
        raise _damaged(error) from error
    return Head(codecs.utf_8_decode(head, "replace", len(head) == size)[0], len(head) < size)


def _sized(data: bytes) -> int:
    """The size that the frame claims to have, which the decompressor would believe and make room for."""
    size: int = zstandard.frame_content_size(data)
    if not 0 <= size <= _MOST_BYTES:
        raise zstandard.ZstdError(f"it claims a size of {size} bytes")
    return size


def _damaged(error: Exception) -> StoreError:
    return StoreError(f"a stored text is damaged ({error}); demerit rebuild reads it again")


def plain(text: str) -> str:
    """A text that every database takes: without NUL, and without halves of characters."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if "\0" in text else text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def text_digest(text: str) -> str:
    """Sixteen hex digits by which equal texts are found."""
    return blake2b(text.encode(), digest_size=8).hexdigest()
