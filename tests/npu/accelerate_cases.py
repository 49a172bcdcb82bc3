"""Steps with invented configurations, in a small memory full of noise: for tests of the native kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from openrknn import numerics
from openrknn.compute import native
from openrknn.compute.native import Kernels
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, EwAlgorithm, OperandKinds, OperandMode, PoolingMethod
from openrknn.npu import Buffer, Memory, Program
from openrknn.npu.native import accelerate
from openrknn.npu.task import Convolution, Flying, Pooling, Step
from openrknn.task import cna, core, ew, lut, out_cvt, ppu, rdma, write
from openrknn.task import dpu as task_dpu
from openrknn.task.stage import Clamp, Scaling, Stage

SOURCE, OPERAND, TARGET, WEIGHTS, CHANNELS = 0x1000_0000, 0x2000_0000, 0x3000_0000, 0x4000_0000, 0x5000_0000
ATOM = 16
EVEN, AWAY = numerics.Rounding.EVEN, numerics.Rounding.AWAY


@dataclass
class Case:
    """A step and its memory."""

    step: Step
    memory: Memory

    def outcome(self, kernels: Kernels | None) -> bytes:
        """What the step leaves in the target, with these kernels or (None) with NumPy."""
        target = self.memory.at(TARGET, 1, "target").data
        target[...] = 0xA5
        if kernels is None:
            self.step.execute()
        else:
            self.step.native = None
            fast = accelerate(Program([self.step]), self.memory, kernels=kernels)
            assert not fast.reasons, fast.reasons
            fast.run()
        return target.tobytes()

    def check(self) -> None:
        """Every set of kernels that this processor can run gives the same bytes as NumPy, with one thread and two."""
        wanted = self.outcome(None)
        for kernels in native.available():
            for count in (1, 2):
                with threads(count):
                    assert self.outcome(kernels) == wanted, (kernels.name, count)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """With this number of threads, also where they are not worth it."""
    before = native.threads()
    native.set_threads(count)
    try:
        with native.sharing(cores=count, nanoseconds=0):
            yield
    finally:
        native.set_threads(before)


def memory_of(seed: int, *, low: int = 0, high: int = 256, operands: npt.NDArray[np.uint8] | None = None) -> Memory:
    """Buffers of noise; the target is larger than anything that is written."""
    noise = np.random.default_rng(seed)
    buffers = [
        Buffer(SOURCE, noise.integers(low, high, 1 << 18, np.uint8), "source"),
        Buffer(OPERAND, noise.integers(low, high, 1 << 18, np.uint8), "operand"),
        Buffer(TARGET, np.zeros(1 << 19, np.uint8), "target"),
        Buffer(WEIGHTS, noise.integers(low, high, 1 << 18, np.uint8), "weights", constant=True),
    ]
    memory = Memory(buffers)
    if operands is not None:
        memory.add(Buffer(CHANNELS, operands, "weight", constant=True))
    return memory


# ---------------------------------------------------------------------------------------------------- the DPU


@st.composite
def clamps(draw: st.DrawFn, largest: int = 1 << 20) -> Clamp | None:
    kind = draw(st.sampled_from(["none", "none", "below", "both"]))
    if kind == "none":
        return None
    return Clamp(None if kind == "below" else draw(st.integers(0, largest)))


@st.composite
def stages(draw: st.DrawFn, *, per_channel: bool, usual: bool) -> Stage | None:
    """BS or BN on integers. `usual`: what compilers emit."""
    if not draw(st.integers(0, 3)):
        return None
    scaling = None
    if draw(st.booleans()):
        shift = draw(st.integers(0, 24))
        scaling = Scaling(
            operand=None if per_channel and draw(st.booleans()) else draw(st.integers(-32768, 32767)),
            shift=shift,
            shift_negative=shift if usual or draw(st.booleans()) else draw(st.integers(0, 24)),
            negative_only=not usual and draw(st.booleans()),
        )
    adds = draw(st.booleans())
    return Stage(
        addend=None if adds and per_channel and draw(st.booleans()) else draw(st.integers(-(2**20), 2**20)),
        adds=adds,
        subtracts=adds and draw(st.booleans()),
        scaling=scaling,
        clamp=draw(clamps()),
        is_float=False,
    )


@st.composite
def tables(draw: st.DrawFn) -> lut.Config:
    """A table that looks like an activation, at an invented scale."""
    scale, bend = draw(st.integers(1, 4000)), draw(st.floats(0.1, 8))
    place = np.linspace(-bend, bend, 1025)
    curve = np.rint(scale * place / (1 + np.exp(-3 * place)) * 8).clip(-32768, 32767).astype(np.int64)
    return lut.Config(
        entries=np.stack([curve[:513], curve[512:]]),
        le_start=-16384, lo_start=0, lo_end=16384, le_select=5, lo_select=5,
        below=lut.Slope(draw(st.integers(-300, 300)), draw(st.integers(0, 20))),
        above=lut.Slope(draw(st.integers(0, 32767)), draw(st.integers(8, 20))),
    )  # fmt: skip


@st.composite
def operations(draw: st.DrawFn, *, usual: bool) -> ew.Operation:
    """x op e, e from memory."""
    algorithms = [EwAlgorithm.ADD, EwAlgorithm.MAX, EwAlgorithm.MIN, EwAlgorithm.MINUS]
    converter = ew.Converter(
        add_first=usual or draw(st.booleans()),
        offset=draw(st.integers(-300, 300)),
        scale=draw(st.integers(-32768, 32767)),
        shift=draw(st.integers(0, 12)),
        rounding=EVEN if usual else draw(st.sampled_from([EVEN, AWAY])),
    )
    if not usual:
        algorithms += [EwAlgorithm.ABS, EwAlgorithm.NEG, EwAlgorithm.FLOOR]
    multiplies = draw(st.integers(0, 3)) == 0
    return ew.Operation(
        multiplies=multiplies,
        algorithm=draw(st.sampled_from(algorithms)),
        operand=None if usual or draw(st.booleans()) else draw(st.integers(-(2**15), 2**15)),
        converter=converter if draw(st.booleans()) else None,
        negative_only=not usual and draw(st.booleans()),
        shift=0 if usual else draw(st.integers(0, 4)),
        shift_negative=0 if usual else draw(st.integers(0, 4)),
    )


@st.composite
def element_wise(draw: st.DrawFn, *, usual: bool) -> ew.Config | None:
    kind = draw(st.sampled_from(["none", "table", "operation", "clamp"] + ([] if usual else ["both"])))
    if kind == "none":
        return None
    return ew.Config(
        table=draw(tables()) if kind in {"table", "both"} else None,
        operation=draw(operations(usual=usual)) if kind in {"operation", "both"} else None,
        clamp=draw(clamps()),
    )


@st.composite
def out_converters(draw: st.DrawFn, precision: Precision) -> out_cvt.Config:
    unusual = draw(st.integers(0, 4)) == 0
    return out_cvt.Config(
        precision=precision,
        scale=draw(st.integers(-32768, 32767) if unusual else st.integers(1 << 14, (1 << 15) - 1)),
        shift=draw(st.integers(0, 40) if unusual else st.integers(14, 30)),
        offset=draw(st.integers(-(2**16), 2**16) if unusual else st.integers(-128, 127)),
        add_first=unusual and draw(st.booleans()),
        rounding=draw(st.sampled_from([EVEN, AWAY])) if unusual else EVEN,
        minus_exponent=0,
    )


def write_walk(height: int, width: int, per_pixel: int, gap: int) -> write.Config:
    """Surfaces one after another, with `gap` atoms behind each line."""
    line = (width + gap) * ATOM
    surface = line * height + gap * ATOM
    return write.Config(
        address=TARGET + 64, per_pixel=per_pixel, width=width, height=height, line_bytes=line,
        atom_step_bytes=surface, group_step_bytes=surface * per_pixel, packed_bytes=None, transposes_atoms=False,
        transposed_lanes=None,
    )  # fmt: skip


@st.composite
def readers(
    draw: st.DrawFn, *, height: int, width: int, channels: int, precision: Precision, usual: bool
) -> rdma.Config:
    """Everything that the DPU may want from memory."""
    gap = draw(st.integers(0, 3))
    line = (width + gap) * ATOM
    walk = rdma.Walk(OPERAND + 32, line, line * height)
    mode = draw(st.sampled_from([OperandMode.PER_PIXEL, OperandMode.PER_CHANNEL]))
    combined = draw(st.booleans())
    return rdma.Config(
        width=width, height=height, channels=channels, precision=precision, proc_precision=precision,
        main=rdma.Walk(SOURCE + 16, line, line * height + 2 * ATOM),
        bias_kinds=OperandKinds.ALU | OperandKinds.CPEND | OperandKinds.MUL, bias_address=CHANNELS,
        norm_kinds=OperandKinds.ALU | OperandKinds.MUL, norm_address=CHANNELS + (1 << 14),
        operand=rdma.Operand(mode, 1 if usual else draw(st.sampled_from([1, 2])), walk),
        combine=CombineUse.ENABLE | CombineUse.OPERAND if combined else CombineUse(0),
        repeat_x=1, repeat_y=1, repeats=False,
    )  # fmt: skip


def channel_operands(seed: int, usual: bool) -> npt.NDArray[np.uint8]:
    """Blocks of 8 channels: addend, zero point, multiplier for BS; addend, multiplier for BN."""
    noise = np.random.default_rng(seed)
    blocks = []
    for kinds in (3, 2):
        for _ in range(64):
            reach = 1 << (20 if usual else 28)
            blocks.append(noise.integers(-reach, reach, 8).astype(np.int32).tobytes())
            if kinds == 3:
                blocks.append(noise.integers(-127, 129, 8).astype(np.int16).tobytes())
            blocks.append(noise.integers(-200 if usual else -32768, 1 << 14, 8).astype(np.int16).tobytes())
        blocks.append(bytes((1 << 14) - sum(map(len, blocks)) % (1 << 14)))
    return np.frombuffer(b"".join(blocks), np.uint8).copy()


@st.composite
def dpus(draw: st.DrawFn, *, height: int, width: int, channels: int, real: int, usual: bool, flying: bool) -> Any:
    """The stages of an integer task."""
    precision = Precision.INT8 if usual else draw(st.sampled_from([Precision.INT8, Precision.INT16, Precision.INT32]))
    per_pixel = draw(st.sampled_from([1, 2, 4]))
    return task_dpu.Config(
        flying=flying,
        precision=Precision.INT8,
        in_precision=Precision.INT8,
        channels=channels,
        real_channels=real,
        pad_bits=draw(st.sampled_from([0, 0x8101])),
        reduction=ChannelReduction(0),
        correction=draw(st.sampled_from([None, task_dpu.Correction(None), task_dpu.Correction(5)])),
        bias=draw(stages(per_channel=True, usual=usual)),
        norm=draw(stages(per_channel=not usual, usual=usual)),
        element_wise=draw(element_wise(usual=usual)),
        out=draw(out_converters(precision)),
        write=write_walk(height, width, per_pixel, draw(st.integers(0, 2))),
    )


# ---------------------------------------------------------------------------------------------------- steps


@st.composite
def convolutions(draw: st.DrawFn, *, depthwise: bool, picture: bool = False, usual: bool = True) -> Case:
    """An int8 convolution of any shape."""
    kernel_height, kernel_width = (draw(st.integers(1, 5)) for _ in range(2))
    stride_y, stride_x = (draw(st.sampled_from([1, 1, 2, 3])) for _ in range(2))
    dilation_y, dilation_x = (draw(st.sampled_from([1, 1, 2])) for _ in range(2))
    spread_y, spread_x = (draw(st.sampled_from([1, 1, 1, 2])) for _ in range(2))
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    pad_top, pad_left = (draw(st.integers(0, 3)) for _ in range(2))
    below, right = (draw(st.integers(0, 2)) for _ in range(2))

    def out(size: int, padding: int, spread: int, reach: int, stride: int) -> int:
        return max(((size - 1) * spread + padding - reach) // stride, 0) + 1

    out_height = out(height, pad_top + below, spread_y, (kernel_height - 1) * dilation_y, stride_y)
    out_width = out(width, pad_left + right, spread_x, (kernel_width - 1) * dilation_x, stride_x)
    packed = draw(st.integers(1, 4)) if picture else 0
    channels = 16 if picture else draw(st.integers(1, 5)) * 16 - draw(st.sampled_from([0, 0, 7]))
    weight_channels = -(-channels // 16) * 16
    kernels = draw(st.integers(1, 40)) * 2
    real = channels if depthwise else kernels - draw(st.sampled_from([0, 0, 1]))
    out_channels = -(-real // 32) * 32
    converter = None
    if picture or draw(st.integers(0, 4)) == 0:
        converter = cna.Converter(
            add_first=draw(st.booleans()), rounding=draw(st.sampled_from([EVEN, AWAY])), shifts=(14, 13, 14, 15),
            scales=(16384, 9000, -7000, 20000), offsets=(-128, 3, 40, -9), lanes=0xFFFF,
        )  # fmt: skip
    gap = draw(st.integers(0, 3))
    line = (width + gap) * (packed or ATOM)
    seed = draw(st.integers(0, 2**32 - 1))
    source = cna.Config(
        feature_address=SOURCE + 16, height=height, width=width, channels=channels, packed_channels=packed,
        line_bytes=line, surface_bytes=line * height + gap * ATOM, precision=Precision.INT8, is_unsigned=picture,
        converter=converter, pad_top=pad_top, pad_left=pad_left, pad_bits=draw(st.integers(0, 0xFFFF)),
        out_height=out_height, out_width=out_width, weight_address=WEIGHTS, weight_bytes=1 << 18,
        weight_channels=weight_channels, weight_precision=Precision.INT8, kernels=1 if depthwise else kernels,
        kernel_height=kernel_height, kernel_width=kernel_width, stride_x=stride_x, stride_y=stride_y,
        dilation_x=dilation_x, dilation_y=dilation_y, spread_x=spread_x, spread_y=spread_y, depthwise=depthwise,
    )  # fmt: skip
    place = {"height": out_height, "width": out_width}
    dpu = draw(dpus(**place, channels=out_channels, real=real, usual=usual, flying=False))
    reader = draw(readers(**place, channels=out_channels, precision=Precision.INT8, usual=usual))
    memory = memory_of(seed, operands=channel_operands(seed, usual))
    array = core.Config(
        window_sums=draw(st.sampled_from([True, True, False])),
        shift=0 if usual else draw(st.sampled_from([0, 3])),
        rounding=draw(st.sampled_from([EVEN, AWAY])),
    )
    return Case(Convolution(0, 0, memory, source=source, array=array, dpu=dpu, reader=reader), memory)


@st.composite
def flights(draw: st.DrawFn, *, usual: bool) -> Case:
    """int8 element-wise programs."""
    height, width = draw(st.integers(1, 5)), draw(st.integers(1, 70))
    channels = draw(st.integers(1, 4)) * 16
    real = channels - draw(st.sampled_from([0, 0, 5]))
    seed = draw(st.integers(0, 2**32 - 1))
    place = {"height": height, "width": width, "channels": channels}
    reader = draw(readers(**place, precision=Precision.INT8, usual=usual))
    dpu = draw(dpus(**place, real=real, usual=usual, flying=True))
    memory = memory_of(seed, operands=channel_operands(seed, usual))
    return Case(Flying(0, 0, memory, dpu=dpu, reader=reader), memory)


@st.composite
def moves(draw: st.DrawFn) -> Case:
    """Lane transposes of any size, also of surfaces that do not end with a run."""
    height, width, count = draw(st.integers(1, 7)), draw(st.integers(1, 20)), draw(st.integers(1, 4))
    lanes = draw(st.sampled_from([8, 16]))
    precision = Precision.INT8 if lanes == ATOM else Precision.INT16
    channels = count * lanes
    reader = draw(readers(height=height, width=width, channels=channels, precision=precision, usual=True))
    dpu = draw(dpus(height=height, width=width, channels=channels, real=channels, usual=True, flying=True))
    seed = draw(st.integers(0, 2**32 - 1))
    memory = memory_of(seed, operands=channel_operands(seed, True))
    dpu = replace(dpu, in_precision=precision, write=replace(dpu.write, transposed_lanes=lanes))
    return Case(Flying(0, 0, memory, dpu=dpu, reader=replace(reader, combine=CombineUse(0))), memory)


@st.composite
def poolings(draw: st.DrawFn, precision: Precision | None = None) -> Case:
    height, width = draw(st.integers(1, 12)), draw(st.integers(1, 30))
    kernel_height, kernel_width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    stride_y, stride_x = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    pad_top, pad_left = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    out_height = max(height + pad_top - kernel_height, 0) // stride_y + draw(st.integers(1, 2))
    out_width = max(width + pad_left - kernel_width, 0) // stride_x + draw(st.integers(1, 2))
    method = draw(st.sampled_from(list(PoolingMethod)))
    precision = precision or draw(st.sampled_from([Precision.INT8, Precision.FP16]))
    reciprocals = [65536 // kernel_width, 65536 // kernel_height]
    if precision is Precision.FP16:
        reciprocals = [int(np.float16(size).view(np.uint16)) if size < 65536 else 0x7C00 for size in reciprocals]
    config = ppu.Config(
        method=method, precision=precision, source_address=SOURCE + 16,
        source_line_bytes=(width + 1) * ATOM, source_surface_bytes=(width + 1) * height * ATOM,
        target_address=TARGET + 16, target_line_bytes=(out_width + 1) * ATOM,
        target_surface_bytes=(out_width + 1) * out_height * ATOM, channels=draw(st.integers(1, 3)) * 16,
        height=height, width=width, out_height=out_height, out_width=out_width, kernel_height=kernel_height,
        kernel_width=kernel_width, stride_y=stride_y, stride_x=stride_x, pad_top=pad_top, pad_left=pad_left,
        pad_value=draw(st.integers(-128, 127)), reciprocal_width=reciprocals[0], reciprocal_height=reciprocals[1],
    )  # fmt: skip
    # fp16: no infinities, whose sums are NaN of either sign
    memory = memory_of(draw(st.integers(0, 2**32 - 1)), high=0x70 if precision is Precision.FP16 else 256)
    return Case(Pooling(0, 0, memory, config=config), memory)


# ---------------------------------------------------------------------------------------------------- floating point


def float_memory(seed: int, precision: Precision, *, is_hard: bool = False) -> Memory:
    """Numbers of everyday size; some of them zero, of either sign.

    Hard ones are powers of two, some with one more bit far behind: sums cancel, and end in the middle of two numbers.
    """
    noise = np.random.default_rng(seed)

    def buffer(address: int, name: str, count: int, kind: Precision = precision) -> Buffer:
        values = noise.normal(0, 3, count).astype(np.float32) * noise.choice([1, 1, 1, 0, -0.0, 1e-5], count)
        if is_hard:
            values = noise.choice([-1, 1, 1 + 2.0**-7], count) * 2.0 ** noise.integers(-12, 12, count)
        single = values.astype(np.float32)
        if kind is Precision.FP32:
            return Buffer(address, single.view(np.uint8).copy(), name, constant=True)
        bits = numerics.encode_fp16(single) if kind is Precision.FP16 else numerics.encode_bf16(single)
        return Buffer(address, bits.view(np.uint8).copy(), name, constant=address == WEIGHTS)

    return Memory([
        buffer(SOURCE, "source", 1 << 17),
        buffer(OPERAND, "operand", 1 << 17),
        Buffer(TARGET, np.zeros(1 << 19, np.uint8), "target"),
        buffer(WEIGHTS, "weights", 1 << 17),
        buffer(CHANNELS, "weight", 1 << 13, Precision.FP32),
    ])


@st.composite
def float_stages(draw: st.DrawFn) -> Stage | None:
    if not draw(st.integers(0, 2)):
        return None
    numbers = st.floats(-100, 100, width=16)
    scaling = Scaling(draw(numbers), 0, 0, negative_only=draw(st.booleans()))
    adds = draw(st.booleans())
    return Stage(
        addend=None if adds and draw(st.booleans()) else draw(numbers),
        adds=adds,
        subtracts=adds and draw(st.booleans()),
        scaling=scaling if draw(st.booleans()) else None,
        clamp=draw(st.sampled_from([None, None, Clamp(None), Clamp(6.0), Clamp(2.0, -1.0), Clamp(2.0, -1.0, 0.5)])),
        is_float=True,
    )


@st.composite
def float_element_wise(draw: st.DrawFn) -> ew.Config | None:
    kind = draw(st.sampled_from(["none", "table", "operation"]))
    if kind == "none":
        return None
    operation = ew.Operation(
        multiplies=draw(st.booleans()),
        algorithm=draw(st.sampled_from([one for one in EwAlgorithm if one <= EwAlgorithm.CEIL])),
        operand=draw(st.sampled_from([None, 2.5])), converter=None, negative_only=draw(st.booleans()), shift=0,
        shift_negative=0,
    )  # fmt: skip
    return ew.Config(
        table=draw(tables()) if kind == "table" else None,
        operation=operation if kind == "operation" else None,
        clamp=draw(st.sampled_from([None, Clamp(None)])),
    )


_READ = (Precision.FP16, Precision.BF16, Precision.FP32)
_WRITTEN = (Precision.FP16, Precision.FP32, Precision.BF16, Precision.INT16, Precision.INT8)


@st.composite
def float_dpus(
    draw: st.DrawFn, *, place: dict[str, int], real: int, precision: Precision, flying: bool,
    written: Sequence[Precision] = _WRITTEN,
) -> Any:  # fmt: skip
    return task_dpu.Config(
        flying=flying, precision=precision, in_precision=precision, channels=place["channels"], real_channels=real,
        pad_bits=draw(st.sampled_from([0, 0xFBFF])), reduction=ChannelReduction(0), correction=None,
        bias=draw(float_stages()), norm=draw(float_stages()), element_wise=draw(float_element_wise()),
        out=out_cvt.Config(
            draw(st.sampled_from(written)), scale=draw(st.sampled_from([1, 1, 3])), shift=0, offset=0,
            add_first=False, rounding=EVEN, minus_exponent=draw(st.sampled_from([0, 0, 4])),
        ),
        write=write_walk(place["height"], place["width"], draw(st.sampled_from([1, 2, 4])), 1),
    )  # fmt: skip


@st.composite
def float_readers(draw: st.DrawFn, *, place: dict[str, int], precision: Precision) -> rdma.Config:
    line = place["width"] * ATOM
    mode = draw(st.sampled_from(list(OperandMode)))
    return rdma.Config(
        width=place["width"], height=place["height"], channels=place["channels"], precision=precision,
        proc_precision=precision, main=rdma.Walk(SOURCE, line, line * place["height"]), bias_kinds=OperandKinds.ALU,
        bias_address=CHANNELS, norm_kinds=OperandKinds.ALU, norm_address=CHANNELS + 4096,
        operand=rdma.Operand(mode, 2, rdma.Walk(OPERAND, line, line * place["height"])), combine=CombineUse(0),
        repeat_x=1, repeat_y=1, repeats=False,
    )  # fmt: skip


@st.composite
def float_convolutions(
    draw: st.DrawFn, *, depthwise: bool, picture: bool = False, single: bool = False, matrix: bool = False
) -> Case:
    """fp16 and bf16; `single`: the output is one pixel; `matrix`: 1 x 1, and whole groups of kernels and channels."""
    precision = draw(st.sampled_from([Precision.FP16, Precision.BF16]))
    kernel_height, kernel_width = (1, 1) if matrix else (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride_y, stride_x = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    height = kernel_height if single else draw(st.integers(kernel_height, 8))
    width = kernel_width if single else draw(st.integers(kernel_width, 30))
    packed = draw(st.integers(1, 4)) if picture else 0
    channels = draw(st.sampled_from([packed, 8])) if picture else draw(st.integers(1, 5)) * 8
    kernels = draw(st.integers(1, 20)) * 2
    if matrix:
        channels, kernels = draw(st.integers(1, 4)) * 32, draw(st.integers(1, 3)) * 16
    out_channels = channels if depthwise else kernels
    padding = 0 if single else draw(st.integers(0, 2))
    line = width * (packed * 2 or ATOM)
    source = cna.Config(
        feature_address=SOURCE, height=height, width=width, channels=channels, packed_channels=packed,
        line_bytes=line, surface_bytes=line * height, precision=precision, is_unsigned=False, converter=None,
        pad_top=padding, pad_left=padding, pad_bits=draw(st.sampled_from([0, 0x3C00])),
        out_height=(height + 2 * padding - kernel_height) // stride_y + 1,
        out_width=(width + 2 * padding - kernel_width) // stride_x + 1, weight_address=WEIGHTS, weight_bytes=1 << 18,
        weight_channels=-(-channels // 8) * 8, weight_precision=precision, kernels=1 if depthwise else kernels,
        kernel_height=kernel_height, kernel_width=kernel_width, stride_x=stride_x, stride_y=stride_y, dilation_x=1,
        dilation_y=1, spread_x=1, spread_y=1, depthwise=depthwise, kernel_group=16, input_group=32,
        depthwise_group=32,
    )  # fmt: skip
    place = {"height": source.out_height, "width": source.out_width, "channels": out_channels}
    dpu = draw(float_dpus(place=place, real=out_channels, precision=precision, flying=False))
    reader = draw(float_readers(place=place, precision=precision))
    memory = float_memory(draw(st.integers(0, 2**32 - 1)), precision, is_hard=draw(st.booleans()))
    array = core.Config(window_sums=False, shift=0, rounding=EVEN)
    return Case(Convolution(0, 0, memory, source=source, array=array, dpu=dpu, reader=reader), memory)


@st.composite
def float_flights(
    draw: st.DrawFn, *, single: bool = False, read: Sequence[Precision] = _READ, written: Sequence[Precision] = _WRITTEN
) -> Case:  # fmt: skip
    """`single`: one pixel, of more channels."""
    precision = draw(st.sampled_from(read))
    channels = draw(st.integers(1, 200 if single else 9)) * 4
    height, width = (1, 1) if single else (draw(st.integers(1, 4)), draw(st.integers(1, 40)))
    place = {"height": height, "width": width, "channels": channels}
    real = channels - draw(st.integers(0, 3))
    dpu = draw(float_dpus(place=place, real=real, precision=precision, flying=True, written=written))
    reader = draw(float_readers(place=place, precision=precision))
    memory = float_memory(draw(st.integers(0, 2**32 - 1)), precision, is_hard=draw(st.booleans()))
    return Case(Flying(0, 0, memory, dpu=dpu, reader=reader), memory)
