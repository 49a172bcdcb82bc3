"""Outputs are those of `Session.run`, bit for bit, for every golden that the software NPU runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.runtime.session import Session
from rknnlite.engine.context import Context
from rknnlite.engine.sources import read_source

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
NAMES = [path.stem for path in sorted(GOLDENS.glob("*_rk35[68][68]_*.rknn"))]
NOT_RUN = {"residual_rk3588_i8_no_weights"}


def inputs_of(model: Model) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    batch = max(1, model.batch_size)
    return [random.random((spec.shape[0] * batch, *spec.shape[1:]), np.float32) for spec in model.inputs]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_RUN])
def test_outputs_equal_those_of_a_session(name: str) -> None:
    path = GOLDENS / f"{name}.rknn"
    model = load(path)
    inputs = inputs_of(model)
    context = Context(read_source(path))
    context.run(inputs, pass_through=False)
    with Session(model) as session:
        floats = session.run(inputs, layout="nhwc")
        stored = session.run(inputs, layout="nhwc", outputs="raw")
    for index, (wanted, raw) in enumerate(zip(floats.values(), stored.values(), strict=True)):
        assert np.array_equal(context.floats()[index], wanted.astype(np.float32))
        assert np.array_equal(context.floats(reuse=True)[index], wanted.astype(np.float32))
        found = context.output(index, as_float=False)
        assert found.dtype == raw.dtype
        assert np.array_equal(found, raw)
    context.close()
