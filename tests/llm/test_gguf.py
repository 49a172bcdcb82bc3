"""GGUF files: what comes out is what llama.cpp's own package put in, and what cannot be is an error with a name."""

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from openrknn.errors import BadTableError, BadTensorError, BadTextError, FormatError, TruncatedError, UnsupportedError
from openrknn.llm.errors import MissingTensorError, NotWeightsError, UnsupportedArchitectureError
from openrknn.llm.files import open_weights
from openrknn.llm.files.types import GGML_FORMATS, to_floats
from tests.llm.tiny import LAYERS, llama_weights, write_gguf


def test_all_weights_come_back_under_their_names(tmp_path: Path) -> None:
    weights = llama_weights()
    source = open_weights(write_gguf(tmp_path / "m.gguf", weights))
    assert set(source.names()) == set(weights)
    assert source.config.tied_head
    for name, value in weights.items():
        np.testing.assert_array_equal(source.get(name), value)
        np.testing.assert_array_equal(source.rows(name, 3, 5), value[3:8])
        assert source.shape(name) == value.shape


def test_rows_outside_a_tensor_are_an_error(tmp_path: Path) -> None:
    source = open_weights(write_gguf(tmp_path / "m.gguf", llama_weights()))
    with pytest.raises(IndexError, match="40 rows"):
        source.rows("embedding", 38, 3)
    with pytest.raises(KeyError):
        source.get("head")


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1"])
def test_quantised_rows_of_heads_are_put_in_order(tmp_path: Path, kind: str) -> None:
    weights = llama_weights()
    source = open_weights(write_gguf(tmp_path / "m.gguf", weights, kind=kind))
    stored = gguf.quants.dequantize(
        gguf.quants.quantize(weights["layers.1.q"], gguf.GGMLQuantizationType[kind]), gguf.GGMLQuantizationType[kind]
    )
    np.testing.assert_array_equal(source.get("layers.1.q"), stored)


def test_the_formats_are_those_of_llama_cpp() -> None:
    for number, form in GGML_FORMATS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)] == (form.block, form.size), form
        assert gguf.GGMLQuantizationType(number).name == form.name


@pytest.mark.parametrize("form", GGML_FORMATS.values(), ids=lambda form: form.name)
def test_every_format_becomes_floats(form: Any) -> None:
    columns = max(form.block, 2) * 2
    data = np.random.default_rng(7).integers(0, 60, (3, form.row_bytes(columns)), np.uint8)
    found = to_floats(data, form, columns)
    assert found.shape == (3, columns)
    assert found.dtype == np.float32
    if form.name != "F64":  # gguf has no rule for it
        kind = gguf.GGMLQuantizationType[form.name]
        np.testing.assert_array_equal(found, gguf.quants.dequantize(data, kind).reshape(3, columns))


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"expert_count": 8}, UnsupportedArchitectureError, "8 experts"),
        ({"block_count": 3}, MissingTensorError, r"blk\.2\."),
        ({"block_count": 1}, UnsupportedArchitectureError, r"does not have: blk\.1\."),
        ({"block_count": 4_000_000_000}, BadTextError, "block_count"),
        ({"embedding_length": 32}, BadTensorError, r"shape \[40, 64\]"),
        ({"attention.head_count_kv": 3}, BadTextError, "cannot share 3"),
        ({"attention.head_count_kv": [2, 1]}, UnsupportedArchitectureError, "differs from layer to layer"),
        ({"context_length": None}, BadTextError, "context_length is missing"),
        ({"rope.dimension_count": 8}, UnsupportedArchitectureError, "rotates 8 of 16"),
        ({"attention.layer_norm_rms_epsilon": float("nan")}, BadTextError, "nan"),
    ],
)
def test_contradictions_have_names(
    tmp_path: Path, changes: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        open_weights(write_gguf(tmp_path / "m.gguf", llama_weights(), changes=changes))


def test_one_number_for_each_layer_is_one_number(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", llama_weights(), changes={"attention.head_count_kv": [2] * LAYERS})
    assert open_weights(path).config.kv_heads == 2


def test_a_file_that_ends_early_says_so(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "m.gguf", llama_weights()).read_bytes()
    for length in (0, 3, 7, 20, 100, 900, len(whole) - 1):
        (tmp_path / "short.gguf").write_bytes(whole[:length])
        with pytest.raises((TruncatedError, NotWeightsError, BadTableError)):
            open_weights(tmp_path / "short.gguf")


@pytest.mark.parametrize(("offset", "value"), [(8, 2**63), (16, 2**63), (24, 2**62)])
def test_huge_counts_reserve_nothing(tmp_path: Path, offset: int, value: int) -> None:
    data = bytearray(write_gguf(tmp_path / "m.gguf", llama_weights()).read_bytes())
    struct.pack_into("<Q", data, offset, value)
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(FormatError):
        open_weights(tmp_path / "m.gguf")


def test_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF\x00\x00\x00\x03" + bytes(40))
    with pytest.raises(UnsupportedError, match="big-endian"):
        open_weights(tmp_path / "a.gguf")
    (tmp_path / "a.gguf").write_bytes(b"\x89PNG....")
    with pytest.raises(NotWeightsError, match="no GGUF file"):
        open_weights(tmp_path / "a.gguf")
    with pytest.raises(NotWeightsError, match="is not there"):
        open_weights(tmp_path / "b.gguf")


@pytest.mark.parametrize("name", ["qwen3moe", "mamba", "deepseek2"])
def test_architectures_that_are_not_in_the_table_are_refused_by_name(tmp_path: Path, name: str) -> None:
    data = write_gguf(tmp_path / "m.gguf", llama_weights()).read_bytes()
    old, new = struct.pack("<Q", 5) + b"llama", struct.pack("<Q", len(name)) + name.encode()
    assert data.count(old) == 1
    (tmp_path / "m.gguf").write_bytes(data.replace(old, new))
    with pytest.raises(UnsupportedArchitectureError, match=name):
        open_weights(tmp_path / "m.gguf")
