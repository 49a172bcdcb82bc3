"""Operators of the CPU that only move numbers: after two runs one copy from memory to memory, with the same bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openrknn.container.parts import DataType, Layout
from openrknn.runtime.io.tensors import StoredTensor
from openrknn.runtime.program.cpu import CpuCall, find_operators
from tests.runtime.test_tensors import tensor

PLAIN = {"layout": Layout.UNDEFINED}
RUNS, LEFT = 5, 0x7E01


def stored(shape: tuple[int, ...], *, is_feature: bool) -> StoredTensor:
    """fp16 in memory of its own, full of NaN."""
    native = (shape[0], -(-shape[1] // 8), *shape[2:], 8) if is_feature else shape
    more: dict[str, Any] = {} if is_feature else PLAIN
    described = tensor(shape, native_shape=native, dtype=DataType.FLOAT16, **more)
    return StoredTensor(described, np.full(2 * int(np.prod(native)), 0xFF, np.uint8))


def call_of(kind: str, source: StoredTensor, targets: list[StoredTensor | None], **attributes: Any) -> CpuCall:
    """The operator, as a program makes it."""
    node = SimpleNamespace(parameters=None)
    operator: Any = SimpleNamespace(type=kind, name="o", index=0, node=node, attributes=attributes)
    model: Any = SimpleNamespace(path=None)
    return CpuCall(operator, find_operators(model, [operator], {})[kind], [source], targets)


@pytest.mark.parametrize(
    ("kind", "ends", "attributes"),
    [
        ("Reshape", (((1, 1, 128), False), ((1, 128, 1, 1), True)), {}),
        ("Reshape", (((1, 12, 3, 2), True), ((1, 72), False)), {}),
        ("Reshape", (((1, 1, 16, 4), True), ((1, 64, 1, 1), True)), {}),
        ("Transpose", (((1, 6, 4), False), ((1, 4, 6), False)), {"perm": [0, 2, 1]}),
        ("Transpose", (((1, 3, 4, 5), True), ((1, 5, 3, 4), True)), {"perm": [0, 3, 1, 2]}),
    ],
)
def test_all_runs_give_the_same_bytes(kind: str, ends: Any, attributes: Any) -> None:
    """With NaN in lanes without a channel, other numbers each time, and every bit of them. `ends`: shapes, features."""
    (shape, is_feature), (wanted, to_feature) = ends
    source, target = stored(shape, is_feature=is_feature), stored(wanted, is_feature=to_feature)
    call, noise = call_of(kind, source, [target], **attributes), np.random.default_rng(3)
    for run in range(RUNS):
        values = noise.integers(0, 1 << 16, shape, np.uint16).view(np.float16)
        source.write(values)
        target.elements.view(np.uint16)[...] = LEFT
        call.run()
        moved = values.transpose(attributes["perm"]) if attributes else values.reshape(wanted)
        assert np.array_equal(target.read().view(np.uint16), np.ascontiguousarray(moved).view(np.uint16)), run
        found, given = (np.count_nonzero(each.view(np.uint16) == LEFT) for each in (target.elements, values))
        assert found == given, "a lane without a channel keeps what was there"
    assert call._copy is not None


def test_what_is_read_and_written_may_be_the_same_memory() -> None:
    source = stored((1, 6, 4), is_feature=False)
    described = tensor((1, 4, 6), native_shape=(1, 4, 6), dtype=DataType.FLOAT16, **PLAIN)
    target = StoredTensor(described, source.elements.view(np.uint8))
    call = call_of("Transpose", source, [target], perm=[0, 2, 1])
    for run in range(RUNS):
        values = np.arange(24, dtype=np.float16).reshape(1, 6, 4) + run
        source.write(values)
        call.run()
        assert np.array_equal(target.read(), values.transpose(0, 2, 1)), run
