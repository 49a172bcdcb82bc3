"""Native kernels give the bytes of the NumPy code: on every step of real models, and on invented ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings

import openrknn
from openrknn.compute import native
from openrknn.compute.native import Kernels
from openrknn.errors import ExecutionError, UnsupportedError
from openrknn.isa import Precision
from openrknn.npu import Buffer, Program
from openrknn.npu.native import accelerate, accelerated
from openrknn.npu.task import Convolution, Step, TableLoad
from tests.container.places import IS_WHOLE
from tests.npu.accelerate_cases import (
    SOURCE,
    WEIGHTS,
    Case,
    convolutions,
    flights,
    float_convolutions,
    float_flights,
    memory_of,
    moves,
    poolings,
    threads,
)
from tests.npu.chip_models import Placed, place
from tests.npu.left_to_numpy import LEFT_TO_NUMPY
from tests.npu.loaded import Loaded, load

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = sorted((ROOT / "tests/goldens").glob("*.rknn"))
SHARED = ROOT.parent / "shared"
OTHERS = sorted([*SHARED.glob("corpus/rk3588/*.rknn"), *SHARED.glob("models/**/*_rk3588_*.rknn")])
UNUSABLE = ("_mini", "no_weights")

KERNELS = native.available() if native.find() else ()
pytestmark = pytest.mark.skipif(not KERNELS, reason="no native kernels: not installed, or OPENRKNN_KERNELS=numpy")
each_set = pytest.mark.parametrize("kernels", KERNELS, ids=lambda kernels: kernels.name.lower())
slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
many = settings(max_examples=60 if IS_WHOLE else 25, deadline=None, suppress_health_check=slow)


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


def compare_steps(loaded: Loaded | Placed, *sets: Kernels, every: int = 1, first: int = 0) -> dict[Kernels, int]:
    """Run each step in all ways on the same memory; for each set of kernels the number of steps that have none.

    NumPy takes most of the time, so it computes once for all sets; of steps between those of `every` it computes none.
    """
    program = loaded.program()
    natives = {}
    for kernels in sets:
        for step in program.steps:
            step.native = None
        accelerate(program, loaded.memory, kernels=kernels)
        natives[kernels] = [step.native for step in program.steps]
    buffers = [buffer for buffer in loaded.memory if buffer.data.flags.writeable]
    left = dict.fromkeys(sets, 0)
    for number, step in enumerate(program.steps):
        quick = natives[sets[-1]][number]
        if quick is not None and (number - first) % every:
            quick()
            continue
        before = [buffer.data.copy() for buffer in buffers]
        step.execute()
        wanted = [buffer.data.copy() for buffer in buffers]
        for kernels in sets:
            call = natives[kernels][number]
            if call is None:
                left[kernels] += not isinstance(step, TableLoad)
                continue
            for buffer, saved in zip(buffers, before, strict=True):
                buffer.data[...] = saved
            call()
            where = f"{kernels.name}, step {number}, task {step.task}: {step.kind}"
            for buffer, right in zip(buffers, wanted, strict=True):
                assert np.array_equal(buffer.data, right), where
    return left


def has_tiles(path: Path) -> bool:
    """Of other files the set TILES does with the kernels of SCALAR what that set does."""
    return "rk3588_i8" in path.stem or "rk3566_i8" in path.stem


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_each_step_of_each_golden_is_the_same(path: Path) -> None:
    if any(word in path.stem for word in UNUSABLE):
        pytest.skip("not a file that the NPU can run by itself")
    if not openrknn.load(path).graphs[0].tasks:
        pytest.skip("the whole model runs on the CPU")
    try:
        placed = place(path)
    except UnsupportedError as reason:
        pytest.skip(str(reason))
    sets = [kernels for kernels in KERNELS if kernels is not Kernels.TILES or has_tiles(path)]
    assert set(compare_steps(placed, *sets).values()) == {LEFT_TO_NUMPY.get(path.stem, 0)}


@pytest.mark.sample(3)
@pytest.mark.skipif(not OTHERS, reason="the shared corpus is not on this machine")
@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_each_step_of_the_shared_models_is_the_same(path: Path) -> None:
    if not openrknn.load(path).graphs[0].tasks:
        pytest.skip("the whole model runs on the CPU")
    # A third of them, another one of the next file: networks have few kinds of layers, and files many of the same.
    chosen = {} if IS_WHOLE else {"every": 3, "first": OTHERS.index(path) % 3}
    assert compare_steps(load(path), KERNELS[-1], **chosen) == {KERNELS[-1]: LEFT_TO_NUMPY.get(path.stem, 0)}


NATIVE = ["residual_rk3588_i8", "silu_rk3588_i8", "matmul_rk3588_i8", "image_rk3588_i8", "conv_rk3588_fp",
          "image_rk3588_fp", "silu_rk3588_fp", "layer_norm_rk3588_fp", "softmax_rk3588_fp"]


@pytest.mark.parametrize("name", NATIVE)
def test_whole_networks_are_native(name: str) -> None:
    """Not one step is left to NumPy: these are the models that speed is promised for."""
    loaded = load(ROOT / f"tests/goldens/{name}.rknn")
    program = loaded.program()
    fast = accelerate(program, loaded.memory)
    assert not fast.reasons
    assert all(step.native or isinstance(step, TableLoad) for step in program.steps)


@each_set
def test_a_program_in_one_call_is_the_same(kernels: Kernels) -> None:
    loaded = load(ROOT / "tests/goldens/residual_rk3588_i8.rknn")
    noise = loaded.internal.data.copy()
    program = loaded.program()
    program.run()
    wanted = loaded.internal.data.copy()
    for count in (1, 2, 3):
        loaded.internal.data[...] = noise
        with threads(count):
            accelerate(program, loaded.memory, kernels=kernels).run()
        assert np.array_equal(loaded.internal.data, wanted)


@pytest.mark.parametrize("at_once", [1, 1 << 40])
def test_weights_are_packed_for_several_steps_or_one_by_one(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers hear of each time but the last, to drop what was packed from memory."""
    loaded = load(ROOT / "tests/goldens/residual_rk3588_i8.rknn")
    noise = loaded.internal.data.copy()
    program = loaded.program()
    program.run()
    heard: list[int] = []
    wanted = loaded.internal.data.copy()
    loaded.internal.data[...] = noise
    monkeypatch.setattr(accelerated, "_PACKED_AT_ONCE", at_once)
    accelerate(program, loaded.memory, after_pack=lambda: heard.append(1)).run()
    assert np.array_equal(loaded.internal.data, wanted)
    weights = {step.source.weight_address for step in program.steps if isinstance(step, Convolution)}
    assert len(heard) == (len(weights) if at_once == 1 else 0)


def test_weights_that_other_steps_write_are_packed_each_time() -> None:
    loaded = load(ROOT / "tests/goldens/matmul_rk3588_i8.rknn")
    program = loaded.program()
    fast = accelerate(program, loaded.memory)
    for seed in (1, 2):
        noise = np.random.default_rng(seed).integers(0, 256, loaded.internal.data.size, np.uint8)
        loaded.internal.data[...] = noise
        fast.run()
        found = loaded.internal.data.copy()
        loaded.internal.data[...] = noise
        for step in program.steps:
            step.execute()
        assert np.array_equal(loaded.internal.data, found)


def test_a_program_does_not_run_on_other_buffers() -> None:
    loaded = load(ROOT / "tests/goldens/conv_rk3588_i8.rknn")
    fast = accelerate(loaded.program(), loaded.memory)
    fast.run()
    loaded.memory.remove(loaded.internal)
    loaded.memory.add(Buffer(loaded.internal.address, loaded.internal.data.copy(), "internal"))
    with pytest.raises(ExecutionError, match="'internal' was mapped again; prepare the program again"):
        fast.run()


def test_numpy_only_has_no_native_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "numpy")
    loaded = load(ROOT / "tests/goldens/conv_rk3588_i8.rknn")
    program = loaded.program()
    fast = accelerate(program, loaded.memory)
    assert fast.kernels is None
    assert all(step.native is None for step in program.steps)
    fast.run()


def test_a_step_outside_its_buffers_is_left_to_numpy_which_says_so() -> None:
    loaded = load(ROOT / "tests/goldens/conv_rk3588_i8.rknn")
    program = loaded.program()
    step = program.steps[0]
    step.source = replace(step.source, feature_address=0x7000_0000)  # type: ignore[attr-defined]
    fast = accelerate(program, loaded.memory)
    assert "are in no buffer" in fast.reasons[0]
    with pytest.raises(ExecutionError, match="are in no buffer"):
        fast.run()


def test_a_field_that_the_kernels_do_not_know_is_left_to_numpy() -> None:
    loaded = load(ROOT / "tests/goldens/conv_rk3588_i8.rknn")
    program = loaded.program()
    step = program.steps[0]
    step.source = replace(step.source, input_major=True)  # type: ignore[attr-defined]
    assert accelerate(program, loaded.memory).reasons == {0: "no kernel knows cna: input_major = True"}


def test_a_step_that_is_too_large_for_the_counters_of_the_kernels_is_left_to_numpy() -> None:
    loaded = load(ROOT / "tests/goldens/conv_rk3588_i8.rknn")
    program = loaded.program()
    step = program.steps[0]
    huge = replace(step.source, height=1 << 16, width=1 << 16, line_bytes=0)  # type: ignore[attr-defined]
    step.source = huge  # type: ignore[attr-defined]
    assert accelerate(program, loaded.memory).reasons == {0: "too large for the kernels"}


@pytest.mark.parametrize("name", ["stride_x", "stride_y", "spread_x", "out_height", "kernel_width"])
def test_a_convolution_that_stands_still_is_left_to_numpy(name: str) -> None:
    """Kernels divide by strides; silicon takes a stride of 0 for Expand, and so does NumPy."""
    loaded = load(ROOT / "tests/goldens/conv_rk3588_i8.rknn")
    program = loaded.program()
    step = program.steps[0]
    step.source = replace(step.source, **{name: 0})  # type: ignore[attr-defined]
    assert accelerate(program, loaded.memory).reasons == {0: "a stride or size of 0"}


# ---------------------------------------------------------------------------------------------------- invented steps


@many
@given(convolutions(depthwise=False))
def test_convolutions(case: Case) -> None:
    case.check()


@many
@given(convolutions(depthwise=True))
def test_depthwise_convolutions(case: Case) -> None:
    case.check()


@many
@given(convolutions(depthwise=False, picture=True))
def test_pictures(case: Case) -> None:
    case.check()


@many
@given(convolutions(depthwise=False, usual=False))
def test_convolutions_with_unusual_stages(case: Case) -> None:
    case.check()


@many
@given(flights(usual=True))
def test_element_wise_programs(case: Case) -> None:
    case.check()


@many
@given(flights(usual=False))
def test_unusual_element_wise_programs(case: Case) -> None:
    case.check()


@many
@given(moves())
def test_lane_transposes(case: Case) -> None:
    case.check()


@many
@given(poolings())
def test_poolings(case: Case) -> None:
    case.check()


@many
@given(float_convolutions(depthwise=False))
def test_floating_point_convolutions(case: Case) -> None:
    case.check()


@many
@given(float_convolutions(depthwise=True))
def test_floating_point_depthwise_convolutions(case: Case) -> None:
    case.check()


@many
@given(float_convolutions(depthwise=False, picture=True))
def test_floating_point_pictures(case: Case) -> None:
    case.check()


def test_products_that_are_negative_zeros_add_up_to_zero() -> None:
    """Found by the test above: exact sums of bf16 were -0 where NumPy says 0."""
    case = find(float_convolutions(depthwise=False), lambda found: _is_plain_bf16(found.step))
    case.memory.at(SOURCE, 1, "source").data.view(np.uint16)[:] = np.tile([0x8000, 0xBF80], 1 << 16)
    case.memory.at(WEIGHTS, 1, "weights").data.view(np.uint16)[:] = np.tile([0x3F80, 0x0000], 1 << 16)
    case.check()
    assert 0x8000 not in np.frombuffer(case.outcome(None), np.uint16)


def _is_plain_bf16(step: Step) -> bool:
    return (
        isinstance(step, Convolution)
        and step.source.precision is Precision.BF16
        and (step.dpu.bias, step.dpu.norm, step.dpu.element_wise, step.pooling) == (None, None, None, None)
        and step.source.channels > 1
    )


@many
@given(float_flights())
def test_floating_point_element_wise_programs(case: Case) -> None:
    case.check()


def test_no_steps_at_all() -> None:
    accelerate(Program([]), memory_of(0)).run()
