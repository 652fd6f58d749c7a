"""Decoding that never raises on content, and what it counts as lost."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demerit.parsers.records import (
    NOTHING,
    LineDecoder,
    Losses,
    Record,
    Source,
    input_hash,
    json_head,
    parse_time,
    raw_body,
    salvage,
    text_body,
    utf8_length,
)


class Inner(msgspec.Struct):
    n: int | None = None


class Shape(msgspec.Struct):
    text: str | None = None
    inner: Inner | None = None
    items: str | list[Inner] | None = None
    raw: msgspec.Raw = NOTHING


DECODER = LineDecoder(Shape)


def decode(data: bytes) -> tuple[list[Shape], dict[str, int]]:
    losses = Losses()
    found = DECODER.decode(Record(data, 7), losses)
    return found, {loss.kind: loss.count for loss in losses.result()}


@pytest.mark.parametrize(
    ("data", "found", "lost"),
    [
        pytest.param(b'{"text":"a"}', [Shape("a")], {}, id="as it should be"),
        pytest.param(b'{"text":"a","new":1}', [Shape("a")], {}, id="a field that nobody knows"),
        pytest.param(b'{"text":5}', [Shape()], {"wrong_type": 1}, id="a number for a text"),
        pytest.param(b'{"text":5,"inner":{"n":1}}', [Shape(inner=Inner(1))], {"wrong_type": 1}, id="the other stays"),
        pytest.param(b'{"inner":{"n":"x"}}', [Shape(inner=Inner())], {"wrong_type": 1}, id="deeper"),
        pytest.param(b'{"inner":7}', [Shape()], {"wrong_type": 1}, id="a number for an object"),
        pytest.param(
            b'{"items":[{"n":1},3,{"n":"x"}]}',
            [Shape(items=[Inner(1), Inner()])],
            {"wrong_type": 2},
            id="each item of a list by itself",
        ),
        pytest.param(b'{"text":"a"}{"text":"b"}', [Shape("a"), Shape("b")], {"fused_line": 1}, id="two on a line"),
        pytest.param(b'{"text":"a"} \n {"te', [Shape("a")], {"malformed_tail": 1}, id="one and a half"),
        pytest.param(b'{"text":', [], {"malformed_line": 1}, id="half"),
        pytest.param(b'[{"text":"a"},{"te', [], {"malformed_tail": 1, "not_an_object": 1}, id="a list that was cut"),
        pytest.param(b"", [], {"empty_record": 1}, id="nothing"),
        pytest.param(b"null", [], {"not_an_object": 1}, id="null"),
        pytest.param(b'\xef\xbb\xbf{"text":"a"}', [Shape("a")], {}, id="a byte order mark"),
        pytest.param(b'\0\0{"text":"a"}\0', [Shape("a")], {}, id="NUL bytes around it"),
        pytest.param(b'{"text":"\xff"}', [Shape("\ufffd")], {"invalid_utf8": 1}, id="not UTF-8"),
        pytest.param(b'{"text":"\\ud83d"}', [Shape("?")], {"lone_surrogate": 1}, id="half a character"),
        pytest.param('{"text":"\ufffd","inner":3}'.encode(), [Shape("\ufffd")], {"wrong_type": 1}, id="a real U+FFFD"),
        pytest.param(b'{"text":"a\tb"}', [Shape("a\tb")], {}, id="a bare control character"),
        pytest.param(b'{"inner":{"n":' + b"9" * 10_000 + b"}}", [Shape(inner=Inner())], {"wrong_type": 1}, id="huge"),
    ],
)
def test_decode(data: bytes, found: list[Shape], lost: dict[str, int]) -> None:
    assert decode(data) == (found, lost)


def test_what_is_left_undecoded_survives_a_wrong_type_beside_it() -> None:
    (found,), lost = decode(b'{"text":1,"raw":{"a":[1,2]}}')
    assert json.loads(bytes(found.raw)) == {"a": [1, 2]}
    assert lost == {"wrong_type": 1}


def test_the_place_of_the_first_loss_is_kept() -> None:
    losses = Losses()
    for offset in (40, 10):
        losses.add("x", offset)
    assert [(loss.kind, loss.count, loss.first_offset) for loss in losses.result()] == [("x", 2, 40)]


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_counted(data: bytes) -> None:
    found, lost = decode(data)
    assert found or lost


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["text", "inner", "items"]), inner),
    )
)
def test_any_json_is_decoded_or_counted(value: Any) -> None:
    found, lost = decode(json.dumps(value).encode())
    assert found or lost


# --- times ------------------------------------------------------------------------------------------------

NOON = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected", "lost"),
    [
        pytest.param("2026-05-02T12:00:00.000Z", NOON, {}, id="UTC"),
        pytest.param("2026-05-02T14:00:00+02:00", NOON, {}, id="another zone"),
        pytest.param("2026-05-02T12:00:00", NOON, {"time_without_zone": 1}, id="no zone is UTC, and counted"),
        pytest.param(NOON.timestamp(), NOON, {}, id="seconds"),
        pytest.param(int(NOON.timestamp() * 1000), NOON, {}, id="milliseconds"),
        pytest.param(None, None, {}, id="none"),
        pytest.param("soon", None, {"bad_time": 1}, id="no time"),
        pytest.param("", None, {"bad_time": 1}, id="empty"),
        pytest.param(True, None, {"bad_time": 1}, id="a flag"),
        pytest.param([], None, {"bad_time": 1}, id="a list"),
        pytest.param(1e300, None, {"bad_time": 1}, id="beyond the calendar"),
        pytest.param(math.inf, None, {"bad_time": 1}, id="infinity"),
        pytest.param(math.nan, None, {"bad_time": 1}, id="no number"),
        pytest.param("9999-12-31T23:59:59-23:00", None, {"bad_time": 1}, id="beyond it by its zone"),
    ],
)
def test_times(value: object, expected: datetime | None, lost: dict[str, int]) -> None:
    losses = Losses()
    assert parse_time(value, losses) == expected
    assert {loss.kind: loss.count for loss in losses.result()} == lost


@given(st.datetimes(min_value=datetime(1900, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-720, 720))
def test_a_written_time_is_read_back(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_time(zoned.isoformat(), Losses()) == zoned


# --- bodies -----------------------------------------------------------------------------------------------


@given(st.text(max_size=300), st.integers(1, 120), st.booleans())
def test_the_head_of_a_text_is_its_beginning(text: str, chars: int, ascii_only: bool) -> None:
    data = json.dumps(text, ensure_ascii=ascii_only).encode("utf-8", "replace")
    whole = json.loads(data)
    expected = whole.encode("utf-8", "replace").decode() if any("\ud800" <= c <= "\udfff" for c in whole) else whole
    head = json_head(data, chars)
    if expected == whole:
        assert head == whole[:chars]
    assert len(head) <= chars


@pytest.mark.parametrize("text", ["x" * 9000, "é" * 9000, "🎈" * 9000, "\n" * 9000, '"\\' * 5000, "a🎈\n" * 4000])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_head_of_a_long_text_never_splits_a_character(text: str, ascii_only: bool) -> None:
    data = json.dumps(text, ensure_ascii=ascii_only).encode()
    for chars in (1, 2, 3, 7, 100, 2048):
        assert json_head(data, chars) == text[:chars]


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (b"null", ""),
        (b'[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]', "a\nb"),
        (b"[1,2]", "[1,2]"),
        (b'{"a":1}', '{"a":1}'),
        (b"17", "17"),
        (b'"cut', "cut"),
    ],
)
def test_heads_of_other_values(data: bytes, head: str) -> None:
    assert json_head(data, 100) == head


def test_a_body_says_where_it_stands_how_long_it_is_and_what_it_holds() -> None:
    record = Record(b'{"a":"xx","b":"yy"}', 1000)
    one, two = (raw_body(msgspec.Raw(part), record, Source()) for part in (b'"xx"', b'"yy"'))
    assert one is not None
    assert two is not None
    assert (one.head, one.bytes, one.offset) == ("xx", 4, 1005)
    assert (two.head, two.offset) == ("yy", 1014)
    assert one.digest != two.digest
    assert len(one.digest) == 16


def test_a_body_that_does_not_stand_in_its_source_has_no_place() -> None:
    body = raw_body(msgspec.Raw(b'"x"'), Record(b'"x"', None), Source())
    assert body is not None
    assert body.offset is None


def test_no_bodies_are_kept_for_a_reader_that_needs_none() -> None:
    bare = Source(bodies=False)
    assert raw_body(msgspec.Raw(b'"x"'), Record(b'"x"'), bare) is None
    assert text_body("x", bare) is None
    assert raw_body(NOTHING, Record(b"{}"), Source()) is None


def test_equal_inputs_have_equal_hashes_whatever_their_spelling() -> None:
    assert input_hash({"a": 1, "b": {"c": 2, "d": 3}}) == input_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert input_hash({"a": 1}) != input_hash({"a": 2})
    assert input_hash("text") != input_hash({"a": 1})
    assert input_hash(None) is None
    assert input_hash({"a": "\ud800"}) is not None


@given(st.text())
def test_utf8_length(text: str) -> None:
    assert utf8_length(text) == len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("text", "values", "losses"),
    [
        pytest.param('{"a": [{"b": 1},\n{"b": "x{', [{"a": [{"b": 1}]}], {"malformed_tail": 1}, id="in a text"),
        pytest.param('{"a": {"b": [1, 2]},\n"c": 3', [{"a": {"b": [1, 2]}}], {"malformed_tail": 1}, id="after a value"),
        pytest.param(
            '{"a": [{"b": [1]\n, "c"', [{"a": [{"b": [1]}]}], {"malformed_tail": 1}, id="in an item of a list"
        ),
        pytest.param('{"a": [1],\n"b": ?, "c": []}', [{"a": [1]}], {"malformed_tail": 1}, id="damage in the middle"),
        pytest.param('{"a": 1,\n"b": 2', [], {"malformed_line": 1}, id="nothing in it is whole"),
        pytest.param('{"a": [{"b": 1}, {"b":', [], {"malformed_line": 1}, id="a line of a log is not completed"),
        pytest.param(
            '{"a": "\\"]}",\n"b": {"c": []', [{"a": '"]}', "b": {"c": []}}], {"malformed_tail": 1}, id="quotes"
        ),
    ],
)
def test_of_a_document_that_was_cut_what_is_whole_is_kept(text: str, values: list[Any], losses: dict[str, int]) -> None:
    counted = Losses()
    assert salvage(Record(text.encode()), counted) == values
    assert {loss.kind: loss.count for loss in counted.result()} == losses
