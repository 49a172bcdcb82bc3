"""Steps that write where they read: the kernels have to leave what NumPy leaves, which reads everything first.

Memory planners of the compilers do this, with 1 x 1 convolutions too.
"""

from __future__ import annotations

import numpy as np
import pytest

from openrknn import numerics
from openrknn.compute import native
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, OperandKinds, PoolingMethod
from openrknn.npu import Program
from openrknn.npu.memory import Memory
from openrknn.npu.native import accelerate
from openrknn.npu.task import Convolution, Flying, Pooling, Step
from openrknn.task import cna, core, out_cvt, ppu, rdma
from openrknn.task import dpu as task_dpu
from openrknn.task.write import Config as Write
from tests.npu.accelerate_cases import ATOM, SOURCE, WEIGHTS, memory_of, threads

HEIGHT, WIDTH, SURFACES = 14, 14, 5
"""1.25 million products: enough that threads share them."""
LINE, SURFACE = WIDTH * ATOM, HEIGHT * WIDTH * ATOM
EVEN = numerics.Rounding.EVEN


def check(step: Step, memory: Memory) -> None:
    data = memory.at(SOURCE, 1, "source").data
    before = data.copy()
    step.execute()
    wanted = data.tobytes()
    assert wanted != before.tobytes()
    for kernels in native.available():
        for count in (1, 2, 3):
            with threads(count):
                for _ in range(5):
                    data[...] = before
                    step.native = None
                    fast = accelerate(Program([step]), memory, kernels=kernels)
                    assert not fast.reasons, fast.reasons
                    fast.run()
                    assert data.tobytes() == wanted, (kernels.name, count)


def dpu(*, flying: bool, real: int = SURFACES * ATOM) -> task_dpu.Config:
    return task_dpu.Config(
        flying=flying, precision=Precision.INT8, in_precision=Precision.INT8, channels=SURFACES * ATOM,
        real_channels=real, pad_bits=0, reduction=ChannelReduction(0), correction=None, bias=None, norm=None,
        element_wise=None,
        out=out_cvt.Config(Precision.INT8, 3, 9, 7, add_first=False, rounding=EVEN, minus_exponent=0),
        write=Write(
            SOURCE, 1, WIDTH, HEIGHT, LINE, SURFACE, SURFACE, packed_bytes=None, transposes_atoms=False,
            transposed_lanes=None,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("size", [1, 3])
def test_convolutions(size: int, depthwise: bool) -> None:
    memory = memory_of(size)
    source = cna.Config(
        feature_address=SOURCE, height=HEIGHT, width=WIDTH, channels=SURFACES * ATOM, packed_channels=0,
        line_bytes=LINE, surface_bytes=SURFACE, precision=Precision.INT8, is_unsigned=False, converter=None,
        pad_top=size // 2, pad_left=size // 2, pad_bits=0x0303, out_height=HEIGHT, out_width=WIDTH,
        weight_address=WEIGHTS, weight_bytes=1 << 18, weight_channels=SURFACES * ATOM, weight_precision=Precision.INT8,
        kernels=1 if depthwise else SURFACES * ATOM, kernel_height=size, kernel_width=size, stride_x=1, stride_y=1,
        dilation_x=1, dilation_y=1, spread_x=1, spread_y=1, depthwise=depthwise,
    )  # fmt: skip
    array = core.Config(window_sums=False, shift=0, rounding=EVEN)
    config = dpu(flying=False, real=SURFACES * ATOM - 8)
    check(Convolution(0, 0, memory, source=source, array=array, dpu=config, reader=None), memory)


@pytest.mark.parametrize("method", [PoolingMethod.MAX, PoolingMethod.AVERAGE])
def test_poolings(method: PoolingMethod) -> None:
    memory = memory_of(3)
    config = ppu.Config(
        method=method, precision=Precision.INT8, source_address=SOURCE, source_line_bytes=LINE,
        source_surface_bytes=SURFACE, target_address=SOURCE, target_line_bytes=LINE, target_surface_bytes=SURFACE,
        channels=SURFACES * ATOM, height=HEIGHT, width=WIDTH, out_height=HEIGHT, out_width=WIDTH, kernel_height=3,
        kernel_width=3, stride_y=1, stride_x=1, pad_top=1, pad_left=1, pad_value=-128, reciprocal_width=65536 // 3,
        reciprocal_height=65536 // 3,
    )  # fmt: skip
    check(Pooling(0, 0, memory, config=config), memory)


def test_element_wise_programs() -> None:
    memory = memory_of(4)
    reader = rdma.Config(
        width=WIDTH, height=HEIGHT, channels=SURFACES * ATOM, precision=Precision.INT8, proc_precision=Precision.INT8,
        main=rdma.Walk(SOURCE, LINE, SURFACE), bias_kinds=OperandKinds(0), bias_address=0, norm_kinds=OperandKinds(0),
        norm_address=0, operand=None, combine=CombineUse(0), repeat_x=1, repeat_y=1, repeats=False,
    )  # fmt: skip
    check(Flying(0, 0, memory, dpu=dpu(flying=True), reader=reader), memory)


def test_noise_is_noise() -> None:
    """Nothing above would be seen with data that a step does not change."""
    assert len(np.unique(memory_of(0).at(SOURCE, 1, "source").data)) == 256
