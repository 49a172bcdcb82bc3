"""The chips beside RK3588: every stream executes strictly. What comes out is held to the simulator in tests/runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.chip.rk3562 import decode_named_cna
from openrknn.chip.rk3562.registers import RK3562
from openrknn.chip.rk3588.cna import ConvCon1
from openrknn.chip.task_registers import Registers
from openrknn.chip.watch import Watcher
from openrknn.chips import chip_named
from openrknn.container.outer import Flavour
from openrknn.container.patch import input_values
from openrknn.errors import ExecutionError
from openrknn.isa import Register
from openrknn.npu import Buffer, Machine, TaskRef
from openrknn.npu.blocks.cna import fetch_weights
from openrknn.npu.task import Convolution
from tests.npu.chip_models import CHIPS, GOLDENS, place

UNUSABLE = ("dynamic",)
FILES = [
    path
    for chip in CHIPS
    for path in sorted(GOLDENS.glob(f"*_{chip}_*.rknn"))
    if not any(word in path.stem for word in UNUSABLE)
]
PICTURES = [path for path in FILES if path.stem.startswith(("image", "residual")) and "rk3566" not in path.stem]

def stems(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", FILES, ids=stems)
def test_every_task_of_a_golden_executes_strictly(path: Path) -> None:
    """No register is left unread and no bit undeclared, the conversions of OutputOperator included."""
    placed = place(path)
    for cores in sorted({entry.core_count for entry in placed.graph.task_lists}):
        program = placed.program(cores)
        assert program.steps
        program.run()


@pytest.mark.parametrize("path", PICTURES, ids=stems)
def test_image_files_hold_the_converter_that_we_compute(path: Path) -> None:
    """RK3562, RK3576 and RV1106 files come with the registers for uint8 pictures filled in."""
    model = openrknn.load(path)
    graph = model.graphs[0]
    images = {graph.tensors[index].name: True for index in graph.inputs if graph.tensors[index].row_alignment}
    assert images
    patches = list(input_values(model, graph, images))
    assert len(patches) >= 7
    for command, value in patches:
        assert graph.commands[command] >> 16 & 0xFFFFFFFF == value & 0xFFFFFFFF


@pytest.mark.parametrize("name", ["conv_rk3562_i8", "conv_rk3562_fp", "residual_rv1106_i8", "transpose_rk3562_i8"])
def test_output_operators_make_channels_last_and_floats(name: str) -> None:
    placed = place(GOLDENS / f"{name}.rknn")
    graph = placed.graph
    operator = next(node for node in graph.nodes if node.type == "OutputOperator")
    native_tensor, last = graph.tensors[operator.inputs[0]], graph.tensors[operator.inputs[-1]]
    steps = [step for step in placed.program().steps if graph.nodes[step.operator].type == "OutputOperator"]
    kind = np.float16 if native_tensor.dtype.name == "FLOAT16" else np.int8
    _, surfaces, height, width, lanes = native_tensor.native_shape
    pitch = -(-height * width // 4) * 4 if native_tensor.pixel_alignment and height * width > 1 else height * width
    atoms = placed.bytes_of(native_tensor, surfaces * pitch * 16).copy().view(kind).reshape(surfaces, pitch, lanes)
    pixels = atoms[:, : height * width].transpose(1, 0, 2).reshape(height * width, -1)
    wanted = pixels[:, : native_tensor.shape[1]]
    first, second = operator.output_groups[:2]
    assert first + second == len(steps)
    for step in steps[:first]:
        step.run()
    got = placed.bytes_of(last, wanted.nbytes).view(kind).reshape(wanted.shape)
    assert np.array_equal(got, wanted)
    for step in steps[first:]:
        step.run()
    real = wanted.astype(np.float32)
    if native_tensor.quantization is not None:  # the NPU's scale is an fp16
        scale, zero = native_tensor.quantization.scale[0], native_tensor.quantization.zero_point[0]
        real = (real - np.float32(zero)) * np.float32(np.float16(scale))
    floats = placed.bytes_of(native_tensor, wanted.size * 4).view(np.float32).reshape(wanted.shape)
    assert np.array_equal(floats, real)


def test_all_task_lists_of_rk3576_give_the_same_bytes() -> None:
    """Two lists for one core, which use the convolution buffer differently, and one for two cores."""
    path = GOLDENS / "residual_rk3576_i8.rknn"
    results = []
    for cores, core in ((1, 0), (1, 1), (2, 0)):
        placed = place(path)
        placed.program(cores, core).run()
        output = placed.graph.tensors[placed.graph.outputs[0]]
        results.append(placed.bytes_of(output, output.size_bytes).tobytes())
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("name", [f"residual_{chip}_i8" for chip in ("rk3562", "rk3576", "rv1106", "rv1106b")])
def test_depthwise_weights_are_the_same_on_every_chip(name: str) -> None:
    """RK3588 has the zero points beside the bias, these chips between the weights: 128 stands there as -128."""
    from tests.npu.loaded import load

    there, here = load(GOLDENS / "residual_rk3588_i8.rknn"), place(GOLDENS / f"{name}.rknn")
    right = next(step for step in there.program().steps if isinstance(step, Convolution) and step.source.depthwise)
    ours = next(step for step in here.program().steps if isinstance(step, Convolution) and step.source.depthwise)
    assert right.reader is not None
    from openrknn.npu.blocks.rdma import fetch_channels

    weights = fetch_weights(right.source, there.memory).astype(np.int64)
    operands = fetch_channels(right.reader, len(weights), right.dpu.precision, there.memory, norm=False)
    assert operands.cpend is not None
    wanted = weights + operands.cpend[:, None, None]
    channels = min(len(wanted), right.dpu.real_channels)
    assert np.array_equal(fetch_weights(ours.source, here.memory)[:channels], wanted[:channels])


@pytest.mark.parametrize("chip", [name for name in CHIPS if name != "rv1103b"])
def test_the_table_of_chips_says_what_streams_hold(chip: str) -> None:
    """Atoms, groups of weights, zero points between weights, operands: facts of the chip, and what its streams give."""
    facts = chip_named(chip)
    placed = place(GOLDENS / f"residual_{chip}_i8.rknn")
    steps = [step for step in placed.program().steps if isinstance(step, Convolution)]
    direct, depthwise = (next(step for step in steps if step.source.depthwise is wanted) for wanted in (False, True))
    assert {step.source.atom_bytes for step in steps} == {facts.atom_bytes}
    assert (direct.source.kernel_group, direct.source.input_group) == facts.weight_group
    assert depthwise.source.depthwise_group == facts.depthwise_group
    assert depthwise.source.inline_zero_points == facts.inline_zero_points
    assert direct.reader is not None
    assert direct.reader.operand_block == facts.bias_group
    assert (placed.model.flavour is Flavour.MINI) == facts.linked_at_zero


def test_packed_rows_without_a_width_are_refused() -> None:
    """A stream that nobody wrote in earnest: rows left in CBUF, of a picture that has none."""
    cna = Registers({}, chip_named("rk3562"), RK3562).named("CNA")
    with pytest.raises(ExecutionError, match="no width"):
        decode_named_cna.kept_rows(cna, 0, packed=True)


class Listener(Watcher):
    """Has to hear of every word, so that none is passed on the short way."""

    def __init__(self) -> None:
        self.words = 0

    def wrote(self, register: type[Register]) -> None:
        self.words += 1


@pytest.mark.parametrize(
    "name",
    ["silu_rk3588_fp", "silu_rk3562_i8", "silu_rk3576_i8", "silu_rv1106_i8", "silu_rv1106b_i8", "conv_rk3566_i8"],
)
def test_words_that_are_only_kept_are_decoded_alike_on_both_ways(name: str) -> None:
    placed = place(GOLDENS / f"{name}.rknn")
    short = placed.program().steps
    listener = Listener()
    placed.machine = Machine(placed.model.chip, placed.memory, watcher=listener)
    assert list(map(repr, placed.program().steps)) == list(map(repr, short))
    assert listener.words > 40 * len(short)


def test_undeclared_bits_are_found_on_the_short_way() -> None:
    placed = place(GOLDENS / "conv_rk3588_i8.rknn")
    count = placed.graph.tasks[0].amount
    words = placed.memory.view(placed.commands + placed.graph.tasks[0].address, 8 * count, "commands").copy()
    buffer = Buffer(0x7000_0000, words, "commands")
    placed.memory.add(buffer)
    stream = words.view(np.uint64)
    (at,) = np.flatnonzero((stream & 0xFFFF) == ConvCon1.offset)[:1]
    stream[at] |= np.uint64(~ConvCon1.declared & 0xFFFF_FFFF) << np.uint64(16)
    with pytest.raises(ExecutionError, match="are set but not declared"):
        placed.machine.prepare([[TaskRef(0, buffer.address, count - 4)]])
