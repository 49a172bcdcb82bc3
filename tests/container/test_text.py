"""BSON and the converter's notes: round trips, and damage that is told."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.container import bson, notes
from openrknn.errors import BadTextError

LETTERS = st.characters(exclude_characters="\0", codec="utf-8")
PLAIN = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
KEYS = st.text(LETTERS, max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(LETTERS, max_size=12)
    | st.binary(max_size=12)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_bson_round_trip(document: dict[str, bson.Value]) -> None:
    assert bson.decode(bson.encode(document)) == document


@given(st.binary(max_size=64))
def test_bson_of_anything_is_a_document_or_an_error(data: bytes) -> None:
    with contextlib.suppress(BadTextError):
        assert isinstance(bson.decode(data), dict)


@given(st.dictionaries(KEYS, st.integers(0, 2**31 - 1), max_size=3), st.data())
def test_damaged_bson_never_crashes(document: dict[str, int], data: st.DataObject) -> None:
    encoded = bytearray(bson.encode(document))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(BadTextError):
        assert isinstance(bson.decode(bytes(encoded)), dict)


NOTES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(PLAIN, max_size=10),
    lambda inner: st.lists(inner, max_size=4)
    | st.lists(inner, min_size=2, max_size=4).map(tuple)
    | st.dictionaries(st.text(PLAIN, max_size=6) | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(PLAIN, max_size=6), NOTES, max_size=4))
def test_notes_read_what_python_writes(value: dict[str | int | float, notes.Note]) -> None:
    assert notes.parse(repr(value)) == value


@given(st.text(max_size=40))
def test_notes_of_anything_are_a_dict_or_an_error(text: str) -> None:
    with contextlib.suppress(BadTextError):
        assert isinstance(notes.parse(text), dict)


def test_notes_by_example() -> None:
    text = (
        "{'attrs': {'x': {'mean': [0], 'std': [255, 255.0], 'rgb2bgr': False, "
        "'range': (0, 1), 'q': None, 's': 'it\\'s'}}}"
    )
    assert notes.parse(text) == {
        "attrs": {"x": {"mean": [0], "std": [255, 255.0], "rgb2bgr": False, "range": (0, 1), "q": None, "s": "it's"}}
    }
    assert notes.parse("") == {}
    limits = notes.parse("{'a': inf, 'b': -inf, 'c': nan}")
    assert (limits["a"], limits["b"]) == (math.inf, -math.inf)
    assert isinstance(limits["c"], float)
    assert math.isnan(limits["c"])


@pytest.mark.parametrize("text", ["[1]", "{'a': 1} x", "{'a': [1, 2}", "{[1]: 2}", "{'a': 1 2}", "x" * 10])
def test_notes_that_are_not(text: str) -> None:
    with pytest.raises(BadTextError):
        notes.parse(text)
