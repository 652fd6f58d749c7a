from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.proxy import sse
from demerit.proxy.sse import Reader, as_json_list, comment, encode, payloads

PIECES = [b"data: x", b"data:y", b"data", b"data:  z", b": note", b"event: e", b"id", b"caf\xc3\xa9", b"\xef\xbb\xbf"]
ENDS = [b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\r\r", b"\n\r\n", b""]


def read(chunks: list[bytes]) -> tuple[list[bytes], list[bytes], bytes]:
    """Blocks of frames, what they say, and what is left."""
    reader = Reader()
    blocks = [reader.feed(chunk) for chunk in chunks]
    return blocks, [data for block in blocks for data in payloads(block)], reader.rest()


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="two frames with LF"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="two frames with CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="two frames with CR"),
        pytest.param(b"data: a\n\r\ndata: b\r\n\n", [b"a", b"b"], id="line ends of several kinds"),
        pytest.param(b"data:a\n\n", [b"a"], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [b" a"], id="only the first space is dropped"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="lines of data are joined by LF"),
        pytest.param(b"data\n\n", [b""], id="a field without a colon is empty"),
        pytest.param(b": ping\n\nevent: x\nid: 7\n\n", [], id="comments and other fields say nothing"),
        pytest.param(b": ping\ndata: a\nevent: x\n\n", [b"a"], id="other lines beside data"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="a byte order mark opens the stream"),
        pytest.param(b"\n\n\ndata: a\n\n", [b"a"], id="blank lines before a frame"),
        pytest.param(b"\n\n\r\n\xef\xbb\xbfdata: a\n\n", [b"a"], id="a byte order mark after blank lines"),
        pytest.param(b"data: a\n\ndata: b\n", [b"a"], id="a frame without its blank line is not whole"),
        pytest.param(b"datax: a\n\n", [], id="a longer name is another field"),
        pytest.param('data: {"t":"é"}\n\n'.encode(), ['{"t":"é"}'.encode()], id="characters of several bytes"),
    ],
)
def test_what_a_stream_says_under_every_cut_in_two_and_byte_by_byte(stream: bytes, said: list[bytes]) -> None:
    cuts = [[stream[:at], stream[at:]] for at in range(len(stream) + 1)]
    for chunks in [*cuts, [stream[at : at + 1] for at in range(len(stream))]]:
        blocks, found, rest = read(chunks)
        assert found == said
        assert b"".join(blocks) + rest == stream


@given(
    st.lists(st.sampled_from(PIECES + ENDS), max_size=14).map(b"".join),
    st.lists(st.integers(1, 5), min_size=1, max_size=8),
)
def test_every_chunking_reads_alike_and_loses_no_byte(stream: bytes, lengths: list[int]) -> None:
    whole = read([stream])
    chunks, at, turn = [], 0, 0
    while at < len(stream):
        chunks.append(stream[at : at + lengths[turn % len(lengths)]])
        at += lengths[turn % len(lengths)]
        turn += 1
    blocks, said, rest = read(chunks)
    assert said == whole[1]
    assert b"".join(blocks) + rest == stream == b"".join(whole[0]) + whole[2]


def test_a_frame_without_end_is_let_through_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LIMIT_BYTES", 1000)
    reader = Reader()
    out = b"".join(reader.feed(b"data: " + b"x" * 94) for _ in range(100))
    assert reader.overlong
    assert len(out) > 9000
    out += reader.feed(b"\n") + reader.feed(b"\ndata: next\n\n")
    assert out == (b"data: " + b"x" * 94) * 100 + b"\n\ndata: next\n\n"
    assert not reader.overlong


def test_a_long_frame_in_single_bytes_costs_no_more_than_its_bytes() -> None:
    reader = Reader()
    frame = b"data: " + b"x" * 200_000 + b"\n\n"
    tracemalloc.start()
    try:
        found = [reader.feed(frame[at : at + 1]) for at in range(len(frame))]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert b"".join(found) == found[-1] == frame
    assert peak < 15 * len(frame)


def test_what_is_written_is_read_back() -> None:
    assert read([encode(b'{"a":1}') + comment("wait") + encode(b"[DONE]")])[1] == [b'{"a":1}', b"[DONE]"]


@pytest.mark.parametrize(
    ("block", "listed"),
    [
        pytest.param(b'data: {"a":1}\n\ndata: {}\n\n', (b'[{"a":1},{}]', 2), id="frames of one object each"),
        pytest.param(b'data: {"a":1}\n\n', (b'[{"a":1}]', 1), id="one frame"),
        pytest.param(b"data: {}\n\n: x\n\ndata: {}\n\n", (b"[{}\n\n: x,{}]", 3), id="a comment leaves no JSON"),
        pytest.param(b"data: {}\n\ndata: [DONE]\n\n", None, id="the sentinel"),
        pytest.param(b'data: {"a":\n1}\n\n', None, id="a line of another field"),
        pytest.param(b'data: {"a":\ndata: 1}\n\n', None, id="data of two lines"),
        pytest.param(b"data: {}\r\n\r\n", None, id="another line end"),
        pytest.param(b'data: {"a":\r1}\n\n', None, id="a CR in the middle ends a line"),
        pytest.param(b"data:{}\n\n", None, id="no space after the colon"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_a_block_as_one_list(block: bytes, listed: tuple[bytes, int] | None) -> None:
    assert as_json_list(block) == listed


def fuzz(cases: int, seed: int) -> None:
    """Streams of noise, cut anywhere: nothing raises, no byte is lost, and every chunking says the same."""
    chance = random.Random(seed)
    for _ in range(cases):
        parts = [
            chance.choice(PIECES + ENDS) if chance.random() < 0.9 else chance.randbytes(chance.randint(1, 6))
            for _ in range(chance.randint(0, 12))
        ]
        stream = b"".join(parts)
        chunks, at = [], 0
        while at < len(stream):
            step = chance.choice((1, 1, 2, 3, 7))
            chunks.append(stream[at : at + step])
            at += step
        blocks, said, rest = read(chunks)
        assert b"".join(blocks) + rest == stream, (seed, stream)
        assert said == read([stream])[1], (seed, stream, chunks)


def test_noise() -> None:
    fuzz(3000, 1)


if __name__ == "__main__":  # python -m tests.proxy.test_sse: a million cases
    fuzz(1_000_000, 20261201)
    print("1,000,000 streams")
