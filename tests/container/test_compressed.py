"""Compressed weights, extracted: the arrays and scales of the twin without compression."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.analysis.weights.arrays import Array, stored_elements, weight_array
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import WeightReader, WeightUse, tensor_data
from openrknn.container.compressed import decompressed
from openrknn.container.parts import Quantization
from openrknn.errors import UnsupportedError

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
PAIRS = sorted(path.stem.removesuffix("_compressed") for path in GOLDENS.glob("*_compressed.rknn"))


def uses(name: str) -> tuple[WeightReader, list[tuple[WeightUse, Quantization | None]]]:
    model = openrknn.load(GOLDENS / f"{name}.rknn")
    reader = WeightReader(model, model.graphs[0])
    found = [(operator, reader.use(operator)) for operator in model.operators_of(model.graphs[0])]
    return reader, [(use, quantization_of(reader, operator, use)) for operator, use in found if use is not None]


def arrays(name: str) -> dict[str, tuple[Array, Quantization | None, bool]]:
    reader, found = uses(name)
    return {
        use.tensor.name: (weight_array(reader, use.tensor, use), quantization, bool(use.tensor.compressed))
        for use, quantization in found
    }


@pytest.mark.parametrize("name", PAIRS)
def test_weights_and_scales_are_those_of_the_twin(name: str) -> None:
    plain, packed = arrays(name), arrays(f"{name}_compressed")
    assert plain.keys() == packed.keys()
    assert any(is_compressed for _, _, is_compressed in packed.values())
    for key, (weights, quantization, _) in plain.items():
        assert packed[key][0].dtype == weights.dtype
        np.testing.assert_array_equal(packed[key][0], weights)
        assert packed[key][1] == quantization


def test_what_no_operator_loads_stays_as_it_is() -> None:
    model = openrknn.load(GOLDENS / "pruned_rk3588_i8_compressed.rknn")
    tensor = next(tensor for tensor in model.graphs[0].tensors if tensor.compressed)
    with pytest.raises(UnsupportedError, match="no operator was found that loads it"):
        stored_elements(model, tensor)


def test_the_table_of_lanes_agrees_with_the_commands() -> None:
    """Bytes of the payload, offsets and headers of containers of version 6, against the registers of the task."""
    _, found = uses("pruned_rk3566_i8_compressed")
    for use, _ in found:
        amounts, offsets, headers = use.tensor.compression or ((), (), ())
        regnum = use.registers[0x1104]
        assert [regnum >> 3 * lane & 7 for lane in range(8)] == [size // 8 for size in headers]
        assert [use.registers[0x1110 + 4 * lane] for lane in range(8)] == list(offsets)
        stored = [use.registers[offset] for offset in (*range(0x1140, 0x1150, 4), *range(0x1130, 0x1140, 4))]
        assert stored == [-(-(amount + header) // 8) - 1 for amount, header in zip(amounts, headers, strict=True)]


@pytest.mark.parametrize(
    ("register", "value", "words"),
    [(0x1140, 0xFFFF, "outside of their data"), (0x1030, 1 << 30, "bytes of weights"), (0x1100, 3, "is unknown for")],
)
def test_commands_that_lie(register: int, value: int, words: str) -> None:
    reader, ((use, _), *_) = uses("pruned_rk3588_i8_compressed")
    lying = replace(use, registers={**use.registers, register: value})
    with pytest.raises(UnsupportedError, match=words):
        decompressed(reader.model.chip, lying.tensor, tensor_data(reader.model, lying.tensor), lying.registers)
