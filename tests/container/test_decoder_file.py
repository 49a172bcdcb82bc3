"""The file of a decoder with caches: what is in it comes back, and what does not fit together is refused by name."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from typing import Any

import pytest

from openrknn.container.bundle import is_bundle, read_bundle
from openrknn.container.sequence import (
    BoundInput,
    CacheInput,
    DecoderFile,
    TableEntry,
    is_decoder,
    read_decoder,
    write_decoder,
)
from openrknn.errors import FormatError, NotRknnError, UnsupportedError

TOKENS = TableEntry("row.token.0", "token", (1, 1, 4), "tables/0.bin", "uint8", 3, (0.5,), 128)
PLACES = TableEntry("row.position.0", "position", (1, 4), "tables/1.bin", "float16", 5)
FILE = DecoderFile(
    target="rk3588", capacity=5, frames=7, vocabulary=3, tables=(TOKENS, PLACES), caches=(CacheInput("c", "n", 2),),
    bound=(BoundInput("b", 2),), cross_mask="cross_mask", made_by="a test",
    files={"step.rknn": b"RKNN", "tables/0.bin": bytes(12), "tables/1.bin": bytes(40)},
)  # fmt: skip


def test_what_was_written_comes_back() -> None:
    data = write_decoder(FILE)
    assert data == write_decoder(FILE)
    assert read_decoder(data) == FILE
    assert is_decoder(data)
    assert is_bundle(data)
    assert not is_decoder(b"PK\x03\x04 and no more")


def test_a_reader_of_models_in_parts_says_what_it_is() -> None:
    with pytest.raises(NotRknnError, match=r"is a decoder with a cache: openrknn\.Decoder runs it"):
        read_bundle(write_decoder(FILE))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": 0}, "capacity of 0"),
        ({"capacity": 6}, "5 positions for a capacity of 6"),
        ({"vocabulary": -1}, "vocabulary of -1"),
        ({"frames": 0}, "0 frames of an encoder, and 1 inputs"),
        ({"states": "x"}, "do not agree about cross.rknn"),
        ({"caches": ()}, "it is no decoder"),
        ({"tables": (PLACES,)}, "it is no decoder"),
        ({"caches": (CacheInput("c", "n", 9),)}, "'c' has its rows on dimension 9"),
        ({"files": {}}, "has no step.rknn"),
        ({"tables": (replace(TOKENS, rows=4),)}, "has 12 bytes, not 16"),
        ({"tables": (replace(TOKENS, file="x"),)}, "'x', which is not in the zip"),
        ({"tables": (replace(TOKENS, type="int64"),)}, "of 'int64'"),
        ({"tables": (replace(TOKENS, scale=()),)}, "0 scales for 4 columns"),
        ({"tables": (replace(TOKENS, scale=(float("nan"),)),)}, "a scale or a zero point"),
        ({"tables": (replace(TOKENS, shape=(1 << 40, 1 << 40)),)}, "which cannot be"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_decoder(write_decoder(replace(FILE, **changes)))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"version": 2}, UnsupportedError, "of version 2"),
        ({"format": "other"}, NotRknnError, "not a decoder of openrknn"),
        ({"tables": 7}, FormatError, "is not one of a decoder"),
        ({"capacity": "many"}, FormatError, "is not one of a decoder"),
        ({"caches": [{}]}, FormatError, "is not one of a decoder"),
        ({"tables": [{"input": "x"}]}, FormatError, "is not one of a decoder"),
    ],
)
def test_a_manifest_of_something_else(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(write_decoder(FILE))) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            data = before.read(name)
            after.writestr(name, json.dumps({**json.loads(data), **change}) if name == "manifest.json" else data)
    with pytest.raises(kind, match=message):
        read_decoder(out.getvalue())


def test_every_cut_of_the_file_is_an_error_of_ours() -> None:
    data = write_decoder(FILE)
    for length in range(0, len(data), 97):
        with pytest.raises((FormatError, UnsupportedError)):
            read_decoder(data[:length])
