"""Files of parts: hostile ones get a named error, and nothing else."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.container.bundle import Bundle, Part, Plan, Port, is_bundle, read_bundle, write_bundle
from openrknn.errors import FormatError, NotRknnError, RknnError, UnsupportedError

X, Y = Port("x", "tensor(float)", (1, "n")), Port("y", "tensor(int64)", (None,))


def bundle() -> Bundle:
    parts = (
        Part("npu", "parts/00.rknn", ("x",), ("a",), {"x": (1, 4), "a": (1, 4)}, 3, 100, 90, 12.5, 50.0, "faster"),
        Part("cpu", "parts/01.onnx", ("a",), ("y",), {}, 1, 0, 0, None, 1.0, "the NPU has no Det"),
    )
    files = {"parts/00.rknn": b"RKNN", "parts/01.onnx": b"\x08\x08"}  # a model of nothing but its IR version
    return Bundle("rk3588", (X,), (Y,), parts, (Plan((0, 1), {"x": (1, 4)}),), files, "openrknn 1", "fp16", {"x": 0})


def with_manifest(change: Callable[[dict[str, Any]], None]) -> bytes:
    with zipfile.ZipFile(BytesIO(write_bundle(bundle()))) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        files = {name: archive.read(name) for name in archive.namelist()}
    change(manifest)
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {**files, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_what_is_written_is_read() -> None:
    data = write_bundle(bundle())
    assert is_bundle(data)
    assert read_bundle(data) == bundle()
    assert write_bundle(bundle()) == data
    assert bundle().npu_share == 0.9


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m: m.update(version=2), UnsupportedError, "version 2"),
        (lambda m: m.update(format="zip"), NotRknnError, "not a parted model"),
        (lambda m: m.update(plans=[]), FormatError, "no plan"),
        (lambda m: m.pop("parts"), FormatError, "manifest"),
        (lambda m: m["parts"][0].update(kind="gpu"), FormatError, "'gpu'"),
        (lambda m: m["parts"][0].update(file="../../etc/passwd"), FormatError, "not in the zip"),
        (lambda m: m["parts"][0].update(shapes={}), FormatError, "which shape"),
        (lambda m: m["plans"][0].update(parts=[1, 0]), FormatError, "no part before it"),
        (lambda m: m["plans"][0].update(parts=[0, 7]), FormatError, "part 7"),
        (lambda m: m["plans"][0].update(parts=[0]), FormatError, "its output 'y'"),
        (lambda m: m["plans"][0].update(parts=["a"]), FormatError, "manifest"),
    ],
)
def test_a_manifest_that_cannot_be(change: Callable[[dict[str, Any]], None], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        read_bundle(with_manifest(change))


def test_a_zip_that_is_something_else() -> None:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("data.pkl", b"x")
    assert not is_bundle(out.getvalue())
    with pytest.raises(NotRknnError, match="without manifest"):
        read_bundle(out.getvalue())


def test_a_zip_that_lies_about_its_sizes() -> None:
    data = bytearray(write_bundle(bundle()))
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (2**32 - 1).to_bytes(4, "little")
    with pytest.raises(FormatError):
        read_bundle(bytes(data))


@given(st.data())
def test_damage_is_an_error_of_ours_or_harmless(drawn: st.DataObject) -> None:
    data = bytearray(write_bundle(bundle()))
    for _ in range(drawn.draw(st.integers(1, 4))):
        data[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    cut = drawn.draw(st.integers(0, len(data)))
    for damaged in (bytes(data), bytes(data[:cut])):
        is_bundle(damaged)
        with contextlib.suppress(RknnError):
            read_bundle(damaged)


def test_a_member_without_a_name_is_not_read() -> None:
    buffer = BytesIO(write_bundle(bundle()))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("no-name", b"x")
    data = buffer.getvalue().replace(b"no-name", b"\0o-name")
    assert read_bundle(data).files == read_bundle(write_bundle(bundle())).files
