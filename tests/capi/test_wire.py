"""The protocol's tables agree with themselves and with the tables of the C API; a struct comes back as it went."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.capi import wire
from openrknn.capi.call import Code
from openrknn.capi.structs import Codec
from openrknn.vendor.library.structs import structs_for
from openrknn.vendor.tables.codes import CODES
from openrknn.vendor.tables.layouts import ARM32, LP64
from openrknn.vendor.tables.versions import KNOWN_VERSIONS

C_SIZES = {"uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8}


def test_every_operation_says_what_goes_with_it() -> None:
    assert set(wire.LAYOUT) == set(wire.Operation)


@pytest.mark.parametrize(("name", "packed"), [("capi_request", wire.REQUEST), ("capi_reply", wire.REPLY)])
def test_headers_are_the_same_in_c(name: str, packed: struct.Struct) -> None:
    assert sum(C_SIZES[kind] for kind, _ in wire.FIELDS[name]) == packed.size
    assert packed.size % 8 == 0


def test_codes_are_those_of_the_c_api() -> None:
    for code in Code:
        name = "RKNN_SUCC" if code is Code.SUCC else f"RKNN_ERR_{code.name}"
        assert CODES[name].code == code


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
def test_a_struct_is_what_ctypes_makes_of_it(version: object) -> None:
    codec = Codec(version)  # type: ignore[arg-type]
    made = structs_for(codec.version).rknn_input(index=2, buf=4096, size=7, pass_through=1, type=3, fmt=1)
    assert codec.decode("rknn_input", bytes(made)) == {
        "index": 2, "buf": 4096, "size": 7, "pass_through": 1, "type": 3, "fmt": 1,
    }  # fmt: skip
    assert codec.encode("rknn_input", codec.decode("rknn_input", bytes(made))) == bytes(made)


@given(st.sampled_from([LP64, ARM32]), st.lists(st.integers(0, 2**32 - 1), max_size=16), st.text(max_size=40))
def test_an_attribute_comes_back(pointer: int, dims: list[int], name: str) -> None:
    codec = Codec(pointer_bytes=pointer)
    text = name.split("\0", maxsplit=1)[0]
    given_values = {"index": 1, "n_dims": len(dims), "dims": dims, "name": text, "zp": -3, "scale": 0.5}
    found = codec.decode("rknn_tensor_attr", codec.encode("rknn_tensor_attr", given_values))
    assert found["dims"] == dims + [0] * (16 - len(dims))
    assert (found["name"], found["zp"], found["scale"], found["n_dims"]) == (text, -3, 0.5, len(dims))


def test_structs_inside_structs_and_tables_of_shapes() -> None:
    codec = Codec()
    io = codec.decode("rknn_matmul_io_attr", codec.encode("rknn_matmul_io_attr", {"B": {"name": "B", "dims": [3, 4]}}))
    assert (io["B"]["name"], io["B"]["dims"][:2], io["A"]["name"]) == ("B", [3, 4], "")
    shapes = [[1, 2], [3, 4]]
    padded = [row + [0] * 14 for row in shapes]
    ranges = codec.decode("rknn_input_range", codec.encode("rknn_input_range", {"dyn_range": padded}))
    assert [row[:2] for row in ranges["dyn_range"][:2]] == shapes


def test_a_short_struct_is_refused() -> None:
    with pytest.raises(ValueError, match="rknn_input has 32 bytes, 31 came"):
        Codec().decode("rknn_input", bytes(31))
