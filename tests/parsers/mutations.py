"""Any value anywhere: what the property tests of all parsers put into their fixtures."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies as st

HUGE = int("9" * 30)
"""A number that fits no field."""


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.just(HUGE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def places(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where each value stands in a decoded document, at every depth."""
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def put(value: Any, at: tuple[str | int, ...], new: object) -> Any:
    """A copy of a document with another value at one place."""
    changed = copy.deepcopy(value)
    target = changed
    for key in at[:-1]:
        target = target[key]
    target[at[-1]] = new
    return changed


def fits(value: object, wanted: tuple[type, ...]) -> bool:
    """Whether a field that may have these JSON types can hold a value. Null is absence."""
    if isinstance(value, bool):
        return bool in wanted
    return value is None or isinstance(value, wanted) or value == HUGE
