"""Models through the engine give the bytes of `Session`, which stands on the ladder of oracles in tests/runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.capi.attributes import input_attr, native_output_attr, output_attr
from openrknn.capi.memory import Memory
from openrknn.capi.wire import Operation
from openrknn.container.load import load
from openrknn.errors import UnsupportedError
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session
from openrknn.vendor.tables.enums import TensorFormat, TensorType
from tests.capi.client import Client, RefusedError

GOLDENS = Path(__file__).parents[1] / "goldens"
STATIC = sorted(
    path for path in GOLDENS.glob("*.rknn")
    if not path.name.startswith("dynamic") and not any(part in path.name for part in ("batch", "no_weights"))
)  # fmt: skip
RESIDUAL = GOLDENS / "residual_rk3588_i8.rknn"


def random_inputs(session: Session) -> list[np.ndarray[Any, Any]]:
    """Numbers for each input, NHWC where it has four dimensions."""
    generator = np.random.default_rng(len(session.inputs))
    made = []
    for spec in session.inputs:
        if spec.dtype == "int64":
            made.append(generator.integers(0, 2, spec.shape, np.int64))
        else:
            made.append(generator.integers(0, 255, spec.shape).astype(np.uint8))
    return made


def open_session(path: Path) -> Session:
    try:
        return Session(str(path), device=f"software:{load(path).chip.name}")
    except UnsupportedError as error:
        pytest.skip(f"openrknn itself cannot run it: {error}")


@pytest.mark.parametrize("path", STATIC, ids=lambda path: path.stem)
def test_outputs_are_those_of_a_session(client: Client, path: Path) -> None:
    """Copied in and out; then in native memory that is bound: the very bytes that the session's memory holds."""
    with open_session(path) as session:
        inputs = random_inputs(session)
        expected = session.run(inputs, layout="nhwc"), session.run(inputs, layout="nhwc", outputs="raw")
        context = client.init(path)
        client.inputs_set(context, dict(enumerate(inputs)))
        client.run(context)
        for want_float, wanted in zip((True, False), expected, strict=True):
            found = client.outputs_get(context, len(session.outputs), want_float=want_float)
            for data, (name, values) in zip(found, wanted.items(), strict=True):
                if want_float:  # to the last bit, as the vendor's runtime does it: tests/capi/test_differential.py
                    floats = np.frombuffer(data, np.float32)
                    np.testing.assert_allclose(floats, values.reshape(-1), rtol=5e-4, atol=1e-6)
                else:
                    assert data == values.tobytes(), name
        program = session._program
        assert isinstance(program, Program)
        bound = bind_natively(client, context, program, session._pixels)
        for _ in range(2):
            client.run(context)
            for index, (name, memory) in enumerate(bound.items()):
                size = native_output_attr(session.model, 0, index)["size_with_stride"]
                assert memory.array[:size].tobytes() == program.buffer_of(name).array[:size].tobytes(), name
        client.destroy(context)


def bind_natively(client: Client, context: int, program: Program, pixels: frozenset[str]) -> dict[str, Memory]:
    """The inputs as they lie in a session's memory, and room for the outputs."""
    for port in program.inputs:
        whole = program.buffer_of(port.name).array
        number, memory = client.create_mem(context, whole.nbytes)
        memory.array[: whole.nbytes] = whole
        if port.name in pixels:
            attr = {"fmt": TensorFormat.NHWC, "type": TensorType.UINT8, "pass_through": 0}
        else:
            attr = {"fmt": TensorFormat.NC1HWC2, "type": TensorType.INT8, "pass_through": 1}
        client.set_io_mem(context, number, memory, name=port.name, **attr)
    made = {}
    for output in program.outputs:
        number, memory = client.create_mem(context, program.buffer_of(output.name).array.nbytes)
        form = TensorFormat.NC1HWC2 if output.stored.is_feature else TensorFormat.UNDEFINED
        kind = TensorType[output.stored.dtype.name.upper()]
        client.set_io_mem(context, number, memory, name=output.name, fmt=form, type=kind)
        made[output.name] = memory
    return made


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (lambda client: client.run(7), -7),
        (lambda client: client.init(b"no model at all, but long enough to be read" * 10), -6),
        (lambda client: client.init(RESIDUAL.read_bytes()[:1000]), -6),
        (lambda client: client.inputs_set(client.init(RESIDUAL), {3: np.zeros(10, np.uint8)}), -8),
        (lambda client: client.inputs_set(client.init(RESIDUAL), {0: np.zeros(10, np.uint8)}), -5),
        (lambda client: client.outputs_get(client.init(RESIDUAL), 5), -5),
    ],
)
def test_refusals_have_a_code_and_a_reason(client: Client, operation: Callable[[Client], Any], code: int) -> None:
    with pytest.raises(RefusedError) as caught:
        operation(client)
    assert caught.value.code == code
    assert len(caught.value.reason) > 20
    client.run(client.init(RESIDUAL))  # and the channel goes on


ODD = ("conv_", "cpu_argmax", "gemm_", "length_", "residual_r", "square_root", "two_", "image_", "pruned_rk3566_fp")
"""Models whose tensors take more room than they have bytes, or have rows and planes that are rounded up."""


@pytest.mark.parametrize("path", [path for path in STATIC if path.name.startswith(ODD)], ids=lambda path: path.stem)
@pytest.mark.parametrize("is_native", [True, False], ids=["native", "floats"])
def test_memory_of_the_size_that_queries_say(client: Client, path: Path, is_native: bool) -> None:
    """As the vendor's examples do it: pictures with `w_stride`, outputs of `size_with_stride` bytes, or floats."""
    model = load(path)
    with open_session(path) as session:
        inputs = random_inputs(session)
        floats, raw = (session.run(inputs, layout="nhwc", outputs=kind) for kind in ("float", "raw"))
    context = client.init(path)
    for index, values in enumerate(inputs):
        attr = input_attr(model, 0, index)
        rows = with_row_ends(values, attr["w_stride"])
        number, memory = client.create_mem(context, rows.nbytes)
        memory.array[: rows.nbytes] = rows.reshape(-1).view(np.uint8)
        kind = TensorType[values.dtype.name.upper()]
        client.set_io_mem(context, number, memory, **{**attr, "type": kind})
    made = []
    for index in range(len(floats)):
        attr = native_output_attr(model, 0, index) if is_native else output_attr(model, 0, index)
        size = attr["size_with_stride"] if is_native else 4 * attr["n_elems"]
        number, memory = client.create_mem(context, size)
        attr["type"] = attr["type"] if is_native else TensorType.FLOAT32
        payload = client.codec.encode("rknn_tensor_attr", attr)
        client.call(Operation.SET_IO_MEM, context=context, memory=number, b=size, payload=payload)
        made.append(memory)
    client.run(context)
    found = client.outputs_get(context, len(raw), want_float=False)
    assert found == [values.tobytes() for values in raw.values()]
    if not is_native:
        for memory, values in zip(made, floats.values(), strict=True):
            numbers = memory.array[: 4 * values.size].view(np.float32)
            np.testing.assert_allclose(numbers, values.reshape(-1), rtol=5e-4, atol=1e-6)
    client.destroy(context)


def with_row_ends(values: np.ndarray[Any, Any], pixels: int) -> np.ndarray[Any, Any]:
    """Rows of a picture, each with something behind it."""
    if values.ndim != 4 or pixels <= values.shape[2]:
        return np.ascontiguousarray(values)
    rows = np.full((*values.shape[:2], pixels, values.shape[3]), 0x5A).astype(values.dtype)
    rows[:, :, : values.shape[2]] = values
    return rows
