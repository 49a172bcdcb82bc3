"""Task lists for two and three cores: the same bytes as one core makes, meetings where the vendor has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.chips import TaskList
from openrknn.compiler import compile_model
from openrknn.compiler.cost import cost_of
from openrknn.compiler.targets import RK3588
from openrknn.compiler.tile import Shape, share_bands, shares
from openrknn.container.check import problems
from openrknn.container.model import Model
from openrknn.runtime.session import Session
from openrknn.task.kinds import Convolution
from tests.compiler.nets import Net, feeds, small_cnn
from tests.runtime.cases import CORPUS, shared_case

pytestmark = pytest.mark.unchecked
FP16, INT8 = RK3588.fp16, RK3588.int8

SHAPE = (1, 32, 13, 10)


def outputs(model: Model, value: Any, cores: int) -> dict[str, bytes]:
    with Session(model, "software", cores=cores, strict=True) as session:
        return {name: array.tobytes() for name, array in session.run(value, outputs="raw").items()}


def same_on_all_cores(model: Model, value: Any) -> None:
    assert not list(problems(model))
    one = outputs(model, value, 1)
    for cores in (2, 3):
        assert outputs(model, value, cores) == one


def links(model: Model, entry: TaskList) -> list[tuple[int, str, int]]:
    """(operator, P for a pooling, C for a convolution, E for the rest, cores to wait for) of each task."""
    graph = model.graphs[0]
    found = []
    for number in graph.task_lists[entry]:
        task = graph.tasks[number]
        amounts = graph.commands[task.first_command + task.amount + 1]
        kind = "P" if task.enable_mask == 0x60 else "C" if task.enable_mask & 1 else "E"
        found.append((task.op_index, kind, amounts >> 32 & 3))
    return found


def forms(net: Net) -> list[str]:
    """Convolutions of all kinds: rows and channels are shared, with residuals and slopes per channel."""
    a = net.add("Relu", net.conv("x", 32, 96, 3, pads=[1, 1, 1, 1]))
    b = net.conv(a, 96, 96, 3, group=96, pads=[1, 1, 1, 1], strides=[2, 2])
    slope = net.constant(np.linspace(0.1, 0.4, 200).reshape(200, 1, 1))
    c = net.add("PRelu", net.conv(b, 96, 200), slope)
    d = net.add("Add", net.conv(c, 200, 200, 3, pads=[2, 2, 2, 2], dilations=[2, 2]), c)
    e = net.add("MaxPool", d, kernel_shape=[2, 2], strides=[2, 2])
    f = net.conv(net.add("GlobalAveragePool", e), 200, 120)
    g = net.conv(net.add("Sigmoid", net.conv(e, 200, 64, 2, group=4)), 64, 33)
    return [f, g]


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_any_number_of_cores_makes_the_same_bytes(form: str) -> None:
    net = Net()
    model, data = net.model({"x": SHAPE}, forms(net)), feeds(SHAPE)
    compiled = compile_model(model, calibration=data if form == "int8" else None, cores=3)
    assert {entry.core_count for entry in compiled.model.graphs[0].task_lists} == {1, 2, 3}
    same_on_all_cores(compiled.model, data[0])


def test_pictures_are_shared_by_rows() -> None:
    model, _ = small_cnn()
    pixels = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)
    compiled = compile_model(model, calibration=[pixels], mean=127.0, std=64.0, cores=3)
    first = next(step for step in compiled.lowering.program.steps if step.tasks[0].picture)
    assert len(first.shares[3]) == 3
    same_on_all_cores(compiled.model, pixels)


@pytest.mark.parametrize(("name", "gains"), [("resnet", True), ("mbv2", False)])
def test_a_whole_network(name: str, gains: bool) -> None:
    """From the corpus. ResNet gets the lists by the rule and time falls from core to core; MobileNet at 96 x 96 is so
    small that a job per operator costs more than three cores save, and gets them only if asked for.
    """
    path = shared_case(CORPUS / "rk3588" / f"{name}.onnx")
    shape = [1, *compile_model(path).graph.values["x"].shape[1:]]
    data = feeds(tuple(shape))
    compiled = compile_model(path, calibration=data)
    assert (len(compiled.model.graphs[0].task_lists) > 1) == gains
    if not gains:
        compiled = compile_model(path, calibration=data, cores=3)
    same_on_all_cores(compiled.model, data[0])
    one, two, three = (cost_of(compiled.model, cores) for cores in (1, 2, 3))
    assert (one.cycles > 1.1 * two.cycles > 1.1 * three.cycles) == gains
    assert one.macs == two.macs == three.macs


def test_cores_meet_after_each_shared_step() -> None:
    """As in the vendor's files: between convolutions in the link, else and at the end in a task of the PPU."""
    net = Net()
    a = net.conv("x", 32, 64)
    b = net.conv(a, 64, 64, 3, pads=[1, 1, 1, 1])
    c = net.conv(net.add("MaxPool", b, kernel_shape=[3, 3]), 64, 96)
    model = compile_model(net.model({"x": SHAPE}, [c]), cores=3).model
    shared = [(1, "C", 1), (2, "C", 1), (2, "P", 0), (3, "P", 1), (3, "P", 0), (4, "C", 1), (4, "P", 0)]
    assert links(model, TaskList(2, 0)) == links(model, TaskList(2, 1)) == shared
    assert links(model, TaskList(3, 2)) == [(op, kind, wait * 2) for op, kind, wait in shared]


def test_every_core_loads_the_table_where_the_first_one_does() -> None:
    net = Net()
    a = net.conv(net.add("Sigmoid", net.conv("x", 32, 64)), 64, 96)
    out = net.add("Sigmoid", net.conv(a, 96, 64))
    compiled = compile_model(net.model({"x": SHAPE}, [out]), calibration=feeds(SHAPE), cores=3)
    nodes = [node for node in compiled.model.graphs[0].nodes if node.target]
    assert [(node.task_counts[:3], node.lut_task_counts[0]) for node in nodes] == [
        ((1, 3, 3), 1), ((1, 1, 1), 0), ((1, 2, 2), 0),
    ]  # fmt: skip
    loading = [(1, "E", 0), (1, "C", 2), (1, "P", 0)]
    for core in range(3):
        assert links(compiled.model, TaskList(3, core))[:3] == loading
    same_on_all_cores(compiled.model, feeds(SHAPE)[0])


def test_a_table_is_loaded_by_all_even_if_one_core_uses_it_first() -> None:
    """The first user is too small to share; the second is not."""
    net = Net()
    one = net.add("Sigmoid", net.conv(net.add("GlobalAveragePool", "x"), 32, 8))
    wide = net.add("Sigmoid", net.conv("x", 32, 96, 3, pads=[1, 1, 1, 1]))
    model = net.model({"x": (1, 32, 40, 40)}, [one, wide])
    compiled = compile_model(model, calibration=feeds((1, 32, 40, 40)), bold=True)
    steps = {step.outputs[0]: step for step in compiled.lowering.program.steps}
    assert [len(tasks) for tasks in steps[one].shares[3]] == [1, 0, 0]
    assert all(len(tasks) for tasks in steps[wide].shares[3])
    same_on_all_cores(compiled.model, feeds((1, 32, 40, 40))[0])


def test_unasked_only_what_the_vendor_shares_is_shared() -> None:
    """Tables, pooling and repeated pixels are core 0's in all of the vendor's files; bold people get them shared."""
    net, shape = Net(), (1, 32, 80, 80)
    a = net.conv("x", 32, 96, 3, pads=[1, 1, 1, 1])
    b = net.add("MaxPool", a, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    c = net.add("Sigmoid", net.conv(b, 96, 96, 3, pads=[1, 1, 1, 1]))
    d = net.conv(net.add("Add", c, a), 96, 96, 3, pads=[1, 1, 1, 1])
    model = net.model({"x": shape}, [d])
    shared = {
        bold: {step.outputs[0] for step in compile_model(model, bold=bold).lowering.program.steps if 3 in step.shares}
        for bold in (False, True)
    }
    assert shared[True] - shared[False] == {b, c}
    assert shared[False] >= {a, d}


def every_kind(net: Net) -> list[str]:
    """Activations, sums, products per channel, pooling with pads, repeated pixels, parts that are copied."""
    a = net.add("Tanh", "x")
    b = net.add("Mul", net.add("Add", a, net.conv("x", 32, 32)), net.add("GlobalAveragePool", "x"))
    c = net.add("MaxPool", b, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    d = net.add("AveragePool", c, kernel_shape=[2, 3], strides=[1, 2])
    e = net.add("Resize", c, "", net.constant(np.array([1, 1, 2, 3]), np.float32), mode="nearest")
    f = net.add("Concat", a, b, a, axis=1)
    return [d, e, f]


@pytest.mark.parametrize("form", ["int8", "fp16"])
@pytest.mark.parametrize("size", [(13, 10), (1, 37), (30, 1), (2, 5)])
def test_everything_is_shared(form: str, size: tuple[int, int]) -> None:
    """By rows, by columns of a single row, or not at all where there is too little."""
    net = Net()
    shape = (1, 32, *size)
    outputs = every_kind(net) if min(size) > 2 else [
        net.add("Tanh", net.add("Mul", net.add("Add", "x", net.conv("x", 32, 32)), net.add("Relu", "x")))
    ]  # fmt: skip
    compiled = compile_model(net.model({"x": shape}, outputs), calibration=feeds(shape) if form == "int8" else None,
                             cores=3)  # fmt: skip
    steps = compiled.lowering.program.steps
    flying = [step for step in steps if step.tasks and not isinstance(step.tasks[0].work, Convolution)]
    assert flying
    assert all(bool(step.shares) == (size != (2, 5) or 2 in step.shares) for step in flying)
    same_on_all_cores(compiled.model, feeds(shape)[0])


def test_lists_are_written_when_they_are_worth_it() -> None:
    def lists(size: int, **options: Any) -> int:
        net = Net()
        model = net.model({"x": (1, 32, size, size)}, [net.conv("x", 32, 32)])
        return len(compile_model(model, **options).model.graphs[0].task_lists)

    assert lists(4) == 1
    assert lists(4, cores=3) == 6
    assert lists(40) == 6
    assert lists(40, cores=1) == 1
    with pytest.raises(ValueError, match="choose 1"):
        lists(4, cores=2)


@pytest.mark.parametrize("form", [INT8, FP16], ids=["int8", "fp16"])
@pytest.mark.parametrize("cores", [2, 3])
def test_shares_cover_every_row_once(form: Any, cores: int) -> None:
    shape = Shape(
        channels=64, height=57, width=80, out_height=29, kernel=(3, 3), stride=2, dilation=1, pad_top=1,
        depthwise=False, stored_kernels=48, kernel_channels=64, picture_row=0, buffer=RK3588.buffer,
    )  # fmt: skip
    parts = shares(shape, form, 48, 48 * 9 * 64, cores)
    assert parts is not None
    rows: list[int] = []
    for part in parts:
        for band in share_bands(shape, form, "c", part):
            assert band.row + band.rows <= shape.height
            assert band.row - band.pad_top == band.out_row * 2 - 1
            rows += range(band.out_row, band.out_row + band.out_rows)
    assert rows == list(range(29))
    assert not parts[0].kernel


def test_heavy_weights_share_channels() -> None:
    shape = Shape(
        channels=512, height=6, width=6, out_height=6, kernel=(3, 3), stride=1, dilation=1, pad_top=1,
        depthwise=False, stored_kernels=500, kernel_channels=512, picture_row=0, buffer=RK3588.buffer,
    )  # fmt: skip
    parts = shares(shape, INT8, 500, 500 * 9 * 512, 3)
    assert parts is not None
    assert [(part.kernel, part.kernels) for part in parts] == [(0, 192), (192, 160), (352, 148)]




@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_what_is_counted_without_decoding_is_what_the_file_says(form: str) -> None:
    """Pictures, depthwise and grouped ones, residuals, slopes, tables, pooling, cores that meet."""
    net = Net()
    wide = net.model({"x": SHAPE}, forms(net))
    small, shape = small_cnn()
    for model, size in ((wide, SHAPE), (small, shape)):
        compiled = compile_model(model, calibration=feeds(size) if form == "int8" else None, cores=3)
        assert compiled.costs == {cores: cost_of(compiled.model, cores) for cores in (1, 2, 3)}
