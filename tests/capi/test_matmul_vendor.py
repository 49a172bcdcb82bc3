"""The same products asked of the vendor's runtime 1.5.2, on an emulated device that computes, and of our library."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from openrknn.fakekernel.device import Device
from openrknn.vendor.matmul.matrices import pack_a, pack_b, stored
from openrknn.vendor.tables.enums import MatmulLayout, TensorType
from tests.capi.asking import CODEC, Answers, Ours, Script, Vendor, differences
from tests.capi.building import Programs
from tests.capi.products import numbers

pytestmark = pytest.mark.witness

SHAPES = [(4, 64, 32), (1, 128, 64), (8, 96, 96)]
KINDS = (TensorType.INT8, TensorType.FLOAT16)
LAYOUTS = [(b, ac) for b in (0, 1) for ac in (0, 1)]
SIZES = [(4, 33, 32), (4, 64, 33), (4, 64, 48), (4, 48, 32), (4, 64, 16)]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with Device("rk3588") as made:
        yield made


@pytest.fixture
def ours(programs: Programs) -> Ours:
    program = programs.compiled("ask", linked=False)
    return Ours(programs.library, programs.environment, program)


def product(script: Script, label: str, kind: TensorType, shape: tuple[int, ...], layouts: tuple[int, int]) -> None:
    """One product, from its creation to its end."""
    m, k, n = shape
    fields = {"M": m, "K": k, "N": n, "type": int(kind), "native_layout": layouts[0], "perf_layout": layouts[1]}
    context, info = script.buffer(8), script.data(CODEC.encode("rknn_matmul_info", fields))
    attributes = script.buffer(CODEC.size("rknn_matmul_io_attr"))
    script.call(f"{label} create", "rknn_matmul_create", f"@{context}", f"@{info}", f"@{attributes}")
    script.show(f"{label} attributes", f"@{attributes}", CODEC.size("rknn_matmul_io_attr"), "rknn_matmul_io_attr")
    a, b = numbers(kind, (m, k)), numbers(kind, (k, n))
    size = 2 if kind is TensorType.FLOAT16 else 1
    if layouts[0] == MatmulLayout.NATIVE:
        b = pack_b(b, 32 // size, 32)
    if layouts[1] == MatmulLayout.NATIVE:
        a = pack_a(a, 16 // size)
    for number, (name, data) in enumerate((("A", stored(a, kind)), ("B", stored(b, kind)), ("C", None))):
        attribute = number * CODEC.size("rknn_matmul_tensor_attr")
        needed = m * n * 4 if data is None else data.nbytes
        memory = script.make(f"{label} memory {name}", "rknn_create_mem", f"*{context}", needed)
        script.put(memory, 0, f"*{memory}")
        if data is not None:
            given = script.data(data.tobytes())
            held = script.buffer(8)
            script.copy(f"@{held}", f"*{memory}", 8)  # virt_addr comes first
            script.copy(f"*{held}", f"@{given}", needed)
        script.call(
            f"{label} set {name}", "rknn_matmul_set_io_mem", f"*{context}", f"*{memory}", f"@{attributes}+{attribute}"
        )
    script.call(f"{label} run", "rknn_matmul_run", f"*{context}")
    held = script.buffer(8)
    script.copy(f"@{held}", f"*{memory}", 8)
    script.show(f"{label} C", f"*{held}", m * n * 4)
    script.call(f"{label} destroy", "rknn_matmul_destroy", f"*{context}")


def compared(theirs: Answers, mine: Answers) -> dict[str, object]:
    return {label: pair for label, pair in differences(theirs, mine).items() if "memory" not in label}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.lower())
def test_attributes_layouts_and_products(vendor: Vendor, device: Device, ours: Ours, kind: TensorType) -> None:
    script = Script()
    for shape in SHAPES:
        for layouts in LAYOUTS:
            product(script, f"{shape} {layouts}".replace(" ", ""), kind, shape, layouts)
    theirs, mine = vendor.ask(script, device), ours.ask(script)
    assert theirs.died_in == ""
    assert not compared(theirs, mine)
    results = [value for label, value in theirs.said.items() if label.endswith(")_C")]
    assert len(results) == len(SHAPES) * len(LAYOUTS)
    assert all(np.frombuffer(bytes.fromhex(value), np.uint8).any() for value in results)


def test_sizes_that_it_refuses(vendor: Vendor, ours: Ours) -> None:
    script = Script()
    for kind in KINDS:
        for shape in SIZES:
            fields = {"M": shape[0], "K": shape[1], "N": shape[2], "type": int(kind)}
            context, info = script.buffer(8), script.data(CODEC.encode("rknn_matmul_info", fields))
            attributes = script.buffer(CODEC.size("rknn_matmul_io_attr"))
            label = f"{kind.name} {shape}"
            script.call(label, "rknn_matmul_create", f"@{context}", f"@{info}", f"@{attributes}")
    theirs, mine = vendor.ask(script), ours.ask(script)
    assert not compared(theirs, mine)
    assert set(theirs.said.values()) == {0, -5}
