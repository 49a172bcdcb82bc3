"""int8 results of the CPU in files of model format 1 (toolkits 1.1 to 1.5.0): what becomes of their fractions.

The vendor's runtime 1.5.2 multiplies by 1 / scale and adds the zero point in one step, in single precision. In atoms of
channels (NC1HWC2) it then leaves out the fraction, towards zero; in other layouts, and where numbers only move, it
rounds. `cut_fractions.npz` holds 1024 numbers that were put into the memory of its device, and what each operator left
there. The same was seen with 512,000 numbers in the public YOLOv8 of toolkit 1.3.0, and at scales where a quotient, a
product that is rounded before the sum, or double precision would have shown.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from openrknn.container.model import Model
from openrknn.container.writer import encode
from openrknn.fakekernel.device import Device
from openrknn.runtime.session import Session
from tests.fakekernel.vendor import run
from tests.runtime.cases import GOLDENS, Array, answers, program_of
from tests.runtime.other_operator import CUT, ROUNDED, Other, with_other
from tests.witness.testimony import Input
from tests.witness.witness import Witness

LABELS = [other.label for other in CUT]


def old_format(model: Model) -> Model:
    return replace(model, format_version=1)


def computed(model: Model, other: Other, values: Array) -> Array:
    """What the operator makes of these stored numbers."""
    with Session(model, device="software") as session:
        program = program_of(session)
        (operator,) = [operator for operator in program.operators if operator.type == other.type]
        program._activation(operator.inputs[0]).write(values)
        (step,) = [step for segment, step in program._steps(frozenset(), singly=False) if not segment.is_npu]
        step()
        return np.array(program._activation(operator.outputs[0]).read())


@pytest.mark.parametrize("other", CUT, ids=LABELS)
def test_atoms_lose_their_fractions_in_model_format_1(other: Other) -> None:
    model = with_other("cpu_sin_rk3588_i8", "Sin", other)
    with np.load(GOLDENS / "runtime_1_5_2" / "cut_fractions.npz") as stored:
        values, theirs = stored["x"], stored[other.label]
    ours = computed(old_format(model), other, values)
    assert np.array_equal(ours, theirs)
    rounded = computed(model, other, values)
    assert not np.array_equal(rounded, theirs)
    away = np.abs(rounded.astype(int)) - np.abs(ours.astype(int))
    assert set(np.unique(away).tolist()) <= {0, 1}


def test_numbers_that_only_move_to_another_scale_are_rounded() -> None:
    """Concat in atoms of channels: 25 of them in the public YOLOv5 of toolkit 1.2.0, which is equal in all bits."""
    with np.load(GOLDENS / "runtime_1_5_2" / "cut_fractions.npz") as stored:
        values, theirs = stored["x"], stored[ROUNDED.label]
    model = old_format(with_other("cpu_sin_rk3588_i8", "Sin", ROUNDED))
    assert np.array_equal(computed(model, ROUNDED, values), theirs)


@pytest.mark.witness
@pytest.mark.parametrize("other", [CUT[0], CUT[2]], ids=[LABELS[0], LABELS[2]])
def test_the_vendors_runtime_answers_the_same(witness: Witness, tmp_path: Path, other: Other) -> None:
    """On the emulated device, with convolutions before and behind the operator."""
    model = with_other("cpu_sin_rk3588_i8", "Sin", other)
    (theirs,), (ours,) = both(witness, tmp_path, model, old_format(model), "cpu_sin_rk3588_i8")
    assert theirs == ours


@pytest.mark.witness
def test_other_layouts_are_rounded(witness: Witness, tmp_path: Path) -> None:
    """And a Softmax of type 18 takes all axes from its own on as one row."""
    other = Other("Softmax", 18, {"axis": 2}, (0.02497248537838459, 3), (1 / 256, -128))
    model = with_other("cpu/cpu_common_rk3588_i8", "Cos", other)
    theirs, ours = both(witness, tmp_path, model, old_format(model), "cpu/cpu_common_rk3588_i8")
    assert theirs == ours


def both(witness: Witness, folder: Path, model: Model, mine: Model, name: str) -> tuple[list[bytes], list[bytes]]:
    """The outputs of the vendor's runtime with the file, and those of our Session with `mine`."""
    path = folder / "model.rknn"
    path.write_bytes(encode(model))
    given, _ = answers(GOLDENS / f"{name}.rknn")
    values = [np.ascontiguousarray(array.transpose(0, 2, 3, 1), np.float32) for array in given]
    with Session(mine, device="software") as session:
        ours = [array.tobytes() for array in session.run(values, outputs="raw", layout="nhwc").values()]
    with Device("rk3588") as device:
        answer = run(device, witness, path, [Input(value.tobytes(), "float32", "nhwc") for value in values])
    assert answer.codes == {}, answer.text
    return [data[: len(raw)] for raw, data in zip(ours, answer.outputs, strict=True)], ours
