"""The vendor's runtime 1.5.2 as a witness: the bytes that it puts into input buffers, and its operators of the CPU.

Its device computes nothing, so all results of the NPU are zeros. That is enough: inputs are there before the first job,
and an operator of the CPU has something to do with zeros as well.

Where we differ on purpose, because the vendor's result is wrong (each has a line in the tests below):

* int8 pictures in padded rows: the ends of the rows are 0 there, the zero point here.
* NCHW for pictures and feature maps: not taken there; here it is.
* numbers beyond the range of two- and three-dimensional int8 inputs: they wrap around there, and saturate here.
* Sin with int8 output: cut off there, rounded here (and in the simulator).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session
from tests.runtime.cases import CORPUS, GOLDENS, Array, answers, internal_of, program_of, shared_case
from tests.witness import testimony as vendor
from tests.witness.testimony import Input, Type
from tests.witness.witness import Witness

pytestmark = pytest.mark.witness

KINDS: dict[Type, type] = {"uint8": np.uint8, "int8": np.int8, "float16": np.float16, "float32": np.float32}
PICTURES = [
    GOLDENS / "image_rk3588_i8.rknn",
    GOLDENS / "image_rk3588_fp.rknn",
    GOLDENS / "two_inputs_rk3588_i8.rknn",
    GOLDENS / "image_rk3566_i8.rknn",
    CORPUS / "rk3588" / "img1_rk3588_i8.rknn",
    CORPUS / "rk3588" / "img4_rk3588_i8.rknn",
    CORPUS / "variants" / "w30_rk3588_i8.rknn",
]
MAPS = [
    GOLDENS / "conv_rk3588_i8.rknn",
    GOLDENS / "conv_rk3588_fp.rknn",
    GOLDENS / "conv_rk3566_i8.rknn",
    GOLDENS / "average_pool_rk3588_i8.rknn",
    GOLDENS / "gemm_rk3588_i8.rknn",
    GOLDENS / "layer_norm_rk3588_fp.rknn",
]


def tell(witness: Witness, session: Session, values: list[Array], kinds: list[Type]) -> vendor.Testimony:
    """What the vendor's runtime does with these inputs, four-dimensional ones in NHWC."""
    inputs = [
        Input(np.ascontiguousarray(value).tobytes(), kind, "nhwc" if value.ndim == 4 else "undefined")
        for value, kind in zip(values, kinds, strict=True)
    ]
    testimony = witness.run(str(session.model.path), inputs, chip=session.model.chip.name)
    assert [call for call in testimony.calls if call.code] == []
    return testimony


def buffers(session: Session, testimony: vendor.Testimony) -> list[tuple[Array, Array]]:
    """Each input buffer: ours, theirs. Theirs is as long as the runtime asked for."""
    program = program_of(session)
    seen = {buffer.allocation.name: buffer for buffer in testimony.submits[0].buffers}
    return [
        (_memory(program, port.name)[: len(theirs)], theirs)
        for port in program.inputs
        for theirs in [np.frombuffer(seen[port.name].data, np.uint8)[: seen[port.name].allocation.requested_bytes]]
    ]


def _memory(program: Program, name: str) -> Array:
    return next(buffer.array for buffer in program.buffers if buffer.name == name)


def random_inputs(session: Session, kind: Type, seed: int) -> list[Array]:
    """Numbers over the whole range that the model can hold, without ties."""
    rng = np.random.default_rng(seed)
    values: list[Array] = []
    for spec in session.inputs:
        if kind in {"uint8", "int8"}:
            limits = np.iinfo(KINDS[kind])
            values.append(rng.integers(limits.min, limits.max + 1, spec.shape).astype(KINDS[kind]))
        elif spec.is_image and spec.normalization is not None and spec.normalization.std[0] != 1:
            values.append((rng.random(spec.shape) * 255).astype(KINDS[kind]))
        else:
            scale = spec.quantization.scale[0] if spec.quantization is not None else 0.03
            zero = spec.quantization.zero_point[0] if spec.quantization is not None else 0
            values.append(((rng.random(spec.shape) * 250 - 125 - zero) * scale).astype(KINDS[kind]))
    return values


@pytest.mark.parametrize("kind", ["uint8", "float32", "float16"])
@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_become_the_same_bytes(witness: Witness, path: Path, kind: Type) -> None:
    with Session(shared_case(path)) as session:
        values = random_inputs(session, kind, 1)
        session.run(values)
        for ours, theirs in buffers(session, tell(witness, session, values, [kind] * len(values))):
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("path", MAPS, ids=lambda path: path.stem)
def test_feature_maps_become_the_same_bytes(witness: Witness, path: Path, kind: Type) -> None:
    with Session(path) as session:
        if kind == "int8" and session.inputs[0].dtype != "int8":
            pytest.skip("the vendor's runtime takes int8 only for int8 inputs")
        values = random_inputs(session, kind, 2)
        session.run(values, layout="nhwc" if values[0].ndim == 4 else None)
        for ours, theirs in buffers(session, tell(witness, session, values, [kind] * len(values))):
            assert np.array_equal(ours, theirs)


def test_ties_of_pictures_are_the_same(witness: Witness) -> None:
    """Numbers that lie, as far as float32 can say, half way between two steps."""
    with Session(GOLDENS / "image_rk3588_i8.rknn") as session:
        port = program_of(session).inputs[0]
        rng = np.random.default_rng(3)
        steps = rng.integers(-120, 120, session.inputs[0].shape) + 0.5
        assert port._factor is not None
        values = [((steps - port._offset) / port._factor).astype(np.float32)]
        session.run(values)
        ((ours, theirs),) = buffers(session, tell(witness, session, values, ["float32"]))
        assert np.array_equal(ours, theirs)


def near_ties(shape: tuple[int, ...], scale: float, zero: int) -> Array:
    """Numbers half way between two steps, and up to two float32 numbers beside that."""
    steps = np.arange(-127, 127) - zero + 0.5
    bits = (steps * np.float64(np.float32(scale))).astype(np.float32).view(np.int32)
    numbers = (bits[:, None] + np.arange(-2, 3)).astype(np.int32).view(np.float32)
    return np.resize(numbers, shape)


@pytest.mark.parametrize(
    "path",
    [
        GOLDENS / "gemm_rk3588_i8.rknn",
        GOLDENS / "conv_rk3566_i8.rknn",
        GOLDENS / "average_pool_rk3588_i8.rknn",
        CORPUS / "rk3588" / "dw_rk3588_i8.rknn",
        CORPUS / "rk3588" / "gemm_rk3588_i8.rknn",
    ],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_ties_of_maps_and_flat_inputs_are_the_same(witness: Witness, path: Path) -> None:
    with Session(shared_case(path)) as session:
        spec = session.inputs[0]
        assert spec.quantization is not None
        values = [near_ties(spec.shape, spec.quantization.scale[0], spec.quantization.zero_point[0])]
        session.run(values, layout="nhwc" if values[0].ndim == 4 else None)
        ((ours, theirs),) = buffers(session, tell(witness, session, values, ["float32"]))
        assert np.array_equal(ours, theirs)


def test_only_the_ends_of_padded_int8_rows_differ(witness: Witness) -> None:
    with Session(GOLDENS / "two_inputs_rk3588_i8.rknn") as session:
        values = random_inputs(session, "int8", 4)
        session.run(values)
        (ours, theirs), features = buffers(session, tell(witness, session, values, ["int8", "int8"]))
        rows = [array.reshape(8, 16, 3) for array in (ours, theirs)]
        assert np.array_equal(rows[0][:, :8], rows[1][:, :8])
        assert np.all(rows[0][:, 8:].view(np.int8) == 14)  # the zero point: what padding has to be
        assert np.all(rows[1][:, 8:] == 0)
        assert np.array_equal(*features)


def test_only_far_numbers_of_flat_inputs_differ(witness: Witness) -> None:
    with Session(shared_case(CORPUS / "rk3588" / "gemm_rk3588_i8.rknn")) as session:
        quantization = session.inputs[0].quantization
        assert quantization is not None
        steps = np.linspace(-250, 250, session.inputs[0].shape[1]) + 0.2
        values = [((steps - quantization.zero_point[0]) * quantization.scale[0]).astype(np.float32)[None]]
        session.run(values)
        ((ours, theirs),) = buffers(session, tell(witness, session, values, ["float32"]))
        wrapped = np.rint(steps).astype(np.int64).astype(np.uint8)
        assert np.array_equal(theirs, wrapped)
        inside = (steps > -128) & (steps < 127)
        assert np.array_equal(ours[inside], theirs[inside])
        assert set(ours[~inside].view(np.int8)) == {-128, 127}


CPU_CASES = [
    GOLDENS / "cpu_argmax_rk3588_i8.rknn",
    GOLDENS / "gemm_rk3588_i8.rknn",
    CORPUS / "rk3588" / "avgpool3p_rk3588_i8.rknn",
    CORPUS / "rk3588" / "avgpool3p_rk3588_fp.rknn",
    CORPUS / "rk3588" / "exp_rk3588_i8.rknn",
    CORPUS / "rk3588" / "exp_rk3588_fp.rknn",
    CORPUS / "rk3588" / "reshape_rk3588_i8.rknn",
    CORPUS / "rk3588" / "reshape_rk3588_fp.rknn",
    CORPUS / "variants" / "cpu_rk3588_fp.rknn",
    CORPUS / "variants" / "misc_rk3588_i8.rknn",
    CORPUS / "rk3566" / "transpose_rk3566_i8.rknn",
    CORPUS / "rk3566" / "softmax_rk3566_fp.rknn",
]


@pytest.mark.parametrize("path", CPU_CASES, ids=lambda path: path.stem)
def test_operators_of_the_cpu_write_the_same_bytes(witness: Witness, path: Path) -> None:
    """Internal memory before each job, and the outputs: with an NPU that leaves zeros, as the witness has."""
    with Session(shared_case(path)) as session:
        program = program_of(session)
        values = random_inputs(session, "float32", 5)
        for port, value in zip(program.inputs, values, strict=True):
            port.feed(value, "nhwc" if value.ndim == 4 else None)
        testimony = tell(witness, session, values, ["float32"] * len(values))
        jobs = iter(testimony.submits)
        for segment, step in program._steps(frozenset(), singly=False):
            if segment.is_npu:
                _compare_internal(session, next(jobs))
            else:
                step()
        for output, theirs in zip(program.outputs, testimony.outputs, strict=True):
            ours = output.read("raw").tobytes()
            assert ours == theirs[: len(ours)], output.name


def _compare_internal(session: Session, submit: vendor.Submit) -> None:
    seen = next((buffer for buffer in submit.buffers if buffer.allocation.name == "internal"), None)
    if seen is not None and internal_of(session) is not None:
        theirs = np.frombuffer(seen.data, np.uint8)
        assert np.array_equal(internal_of(session).array[: len(theirs)], theirs)


def test_the_sine_is_cut_off_there(witness: Witness) -> None:
    """sin(-0.1317) / 0.00784 is -16.74: -16 in the vendor's runtime 1.5.2, -17 here and in the simulator."""
    with Session(GOLDENS / "cpu_sin_rk3588_i8.rknn") as session:
        values = random_inputs(session, "float32", 6)
        testimony = tell(witness, session, values, ["float32"])
        program = program_of(session)
        (step,) = [step for segment, step in program._steps(frozenset(), singly=False) if not segment.is_npu]
        step()
        operator = next(operator for operator in program.operators if operator.type == "Sin")
        output = operator.outputs[0]
        theirs = np.frombuffer(testimony.submits[1].buffer("internal").data, np.int8)
        assert theirs[output.offset] == -16
        assert program._activation(output).read()[0, 0, 0, 0] == -17


@pytest.mark.parametrize("name", ["cpu_common_rk3588_i8", "cpu_common_rk3588_fp"])
def test_operators_that_both_have_write_the_same_bytes(witness: Witness, name: str) -> None:
    """Nine operators of the CPU on random numbers, without the NPU."""
    path = GOLDENS / "cpu" / f"{name}.rknn"
    given, _ = answers(path)
    values = [np.ascontiguousarray(array.transpose(0, 2, 3, 1)) for array in given]
    with Session(path) as session:
        ours = session.run(values, outputs="raw")
        theirs = tell(witness, session, values, ["float32"] * len(values)).outputs
        for spec, data in zip(session.outputs, theirs, strict=True):
            assert ours[spec.name].tobytes() == data[: ours[spec.name].nbytes], spec.name
