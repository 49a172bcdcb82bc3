"""Models through the engine give the bytes of `Session`, which stands on the ladder of oracles in tests/runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.container.load import load
from openrknn.errors import UnsupportedError
from openrknn.runtime.session import Session
from openrknn.vendor.tables.enums import TensorFormat, TensorType
from tests.capi.client import Client, RefusedError

GOLDENS = Path(__file__).parents[1] / "goldens"
STATIC = sorted(
    path for path in GOLDENS.glob("*.rknn")
    if not path.name.startswith("dynamic") and not any(part in path.name for part in ("batch", "no_weights", "w4a16"))
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
    with open_session(path) as session:
        inputs = random_inputs(session)
        expected = session.run(inputs, layout="nhwc"), session.run(inputs, layout="nhwc", outputs="raw")
        context = client.init(path)
        client.inputs_set(context, dict(enumerate(inputs)))
        client.run(context)
        for want_float, wanted in zip((True, False), expected, strict=True):
            found = client.outputs_get(context, len(session.outputs), want_float=want_float)
            for data, (name, values) in zip(found, wanted.items(), strict=True):
                assert data == (values.astype(np.float32) if want_float else values).tobytes(), name
        client.destroy(context)


@pytest.mark.parametrize("path", STATIC, ids=lambda path: path.stem)
def test_native_memory_is_bound_without_a_copy(client: Client, path: Path) -> None:
    """Inputs as the NPU reads them (pass_through), outputs as it writes them; bytes equal a session's."""
    with open_session(path) as session:
        inputs = random_inputs(session)
        expected = session.run(inputs, layout="nhwc", outputs="native")
        program = session._program
        pixels = session._pixels
        context = client.init(path)
        for port in program.inputs:
            memory = program.buffer_of(port.name).array  # type: ignore[attr-defined]
            number, mapped = client.create_mem(context, memory.nbytes)
            mapped.array[: memory.nbytes] = memory
            if port.name in pixels:
                attr = {"fmt": TensorFormat.NHWC, "type": TensorType.UINT8, "pass_through": 0}
            else:
                attr = {"fmt": TensorFormat.NC1HWC2, "type": TensorType.INT8, "pass_through": 1}
            client.set_io_mem(context, number, mapped, name=port.name, **attr)
        outputs = {}
        for output in program.outputs:
            memory = program.buffer_of(output.name).array  # type: ignore[attr-defined]
            number, outputs[output.name] = client.create_mem(context, memory.nbytes)
            form = TensorFormat.NC1HWC2 if output.stored.is_feature else TensorFormat.UNDEFINED
            kind = TensorType[output.stored.dtype.name.upper()]
            client.set_io_mem(context, number, outputs[output.name], name=output.name, fmt=form, type=kind)
        for _ in range(2):
            client.run(context)
            for name in expected:
                memory = program.buffer_of(name).array  # type: ignore[attr-defined]
                assert outputs[name].array[: memory.nbytes].tobytes() == memory.tobytes()
        client.destroy(context)


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (lambda client: client.run(7), -7),
        (lambda client: client.init(b"no model at all, but long enough to be read" * 10), -6),
        (lambda client: client.init(RESIDUAL.read_bytes()[:1000]), -6),
        (lambda client: client.init(RESIDUAL, 1 << 30), -5),
        (lambda client: client.inputs_set(client.init(RESIDUAL), {3: np.zeros(10, np.uint8)}), -8),
        (lambda client: client.inputs_set(client.init(RESIDUAL), {0: np.zeros(10, np.uint8)}), -5),
        (lambda client: client.outputs_get(client.init(RESIDUAL), 5), -9),
    ],
)
def test_refusals_have_a_code_and_a_reason(client: Client, operation: Callable[[Client], Any], code: int) -> None:
    with pytest.raises(RefusedError) as caught:
        operation(client)
    assert caught.value.code == code
    assert len(caught.value.reason) > 20
    client.run(client.init(RESIDUAL))  # and the channel goes on
