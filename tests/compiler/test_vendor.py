"""The vendor's unmodified runtime 1.5.2 takes our files and returns the bytes that our Session returns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.chips import TaskList
from openrknn.compiler import compile_model
from openrknn.fakekernel.device import Device
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net, feeds, small_cnn
from tests.compiler.test_shapes import flexible
from tests.fakekernel.vendor import run
from tests.witness.testimony import Input
from tests.witness.witness import Witness

pytestmark = pytest.mark.witness


def check(device: Device, witness: Witness, data: bytes, value: Array, folder: Path, *, picture: bool,
          options: tuple[str, ...] = ()) -> None:  # fmt: skip
    path = folder / "net.rknn"
    path.write_bytes(data)
    with Session(path, "software") as session:
        ours = session.run(value, outputs="raw", layout="nhwc")
    kind = "uint8" if picture else "float32"
    theirs = run(device, witness, path, [Input(value.tobytes(), kind, "nhwc")], options)  # type: ignore[arg-type]
    assert theirs.codes == {}, theirs.text
    for array, found in zip(ours.values(), theirs.outputs, strict=True):
        assert array.tobytes() == found


def test_a_small_network_of_pictures(device: Device, witness: Witness, tmp_path: Path) -> None:
    model, _ = small_cnn()
    pixels = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)
    compiled = compile_model(model, calibration=[pixels], mean=127.0, std=64.0)
    check(device, witness, compiled.data, pixels, tmp_path, picture=True)


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_operators_of_the_cpu_and_two_tables(device: Device, witness: Witness, tmp_path: Path, form: str) -> None:
    net = Net()
    a = net.add("Tanh", net.conv("x", 16, 24))
    b = net.add("Sigmoid", net.conv(a, 24, 40))
    c = net.add("Softmax", net.add("Concat", a, b, axis=1), axis=1)
    out = net.conv(net.add("Transpose", c, perm=[0, 1, 3, 2]), 64, 8)
    shape = (1, 16, 8, 6)
    data = feeds(shape)
    compiled = compile_model(net.model({"x": shape}, [out]), calibration=data if form == "int8" else None)
    value = np.ascontiguousarray(data[0].transpose(0, 2, 3, 1))
    check(device, witness, compiled.data, value, tmp_path, picture=False)


@pytest.mark.parametrize("form", ["int8", "fp16"])
@pytest.mark.parametrize("channels", [1, 4, 5])
def test_what_the_cpu_reads_first(device: Device, witness: Witness, tmp_path: Path, form: str, channels: int) -> None:
    """Up to four channels are quantised with the multiplier of the NPU's converter, more with the exact scale."""
    net = Net()
    shape = (1, channels, 40, 100)
    data = feeds(shape, 1)
    model = net.model({"x": shape}, [net.add("Transpose", "x", perm=[0, 1, 3, 2])])
    compiled = compile_model(model, calibration=data if form == "int8" else None)
    value = np.ascontiguousarray(data[0].transpose(0, 2, 3, 1))
    check(device, witness, compiled.data, value, tmp_path, picture=False)


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_a_product_of_two_activations_adds_in_order(
    device: Device, witness: Witness, tmp_path: Path, form: str
) -> None:
    net = Net()
    a = net.add("Relu", "x")
    out = net.add("MatMul", a, net.add("Transpose", "x", perm=[0, 1, 3, 2]))
    shape = (1, 2, 17, 500)
    data = feeds(shape, 1)
    compiled = compile_model(net.model({"x": shape}, [out]), calibration=data if form == "int8" else None)
    value = np.ascontiguousarray(data[0].transpose(0, 2, 3, 1))
    check(device, witness, compiled.data, value, tmp_path, picture=False)


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_layer_normalisation(device: Device, witness: Witness, tmp_path: Path, form: str) -> None:
    net = Net()
    a = net.add("LayerNormalization", "x", net.constant(np.ones(40)), net.constant(np.full(40, 0.1)), axis=-1)
    shape = (1, 24, 40)
    data = feeds(shape)
    compiled = compile_model(net.model({"x": shape}, [a]), calibration=data if form == "int8" else None)
    check(device, witness, compiled.data, data[0], tmp_path, picture=False)


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_scaling_inside_of_padded_convolutions(
    device: Device, witness: Witness, tmp_path: Path, form: str
) -> None:
    net = Net()
    h = net.add("HardSwish", net.conv("x", 16, 24))
    y = net.add("Add", net.add("Mul", h, net.constant([0.4])), net.constant([-0.3]))
    out = net.conv(net.conv(y, 24, 24, 5, group=24, pads=[2] * 4), 24, 8, 3, pads=[1] * 4)
    shape = (1, 16, 12, 10)
    data = feeds(shape)
    compiled = compile_model(net.model({"x": shape}, [out]), calibration=data if form == "int8" else None)
    value = np.ascontiguousarray(data[0].transpose(0, 2, 3, 1))
    check(device, witness, compiled.data, value, tmp_path, picture=False)


def test_a_mixed_model(device: Device, witness: Witness, tmp_path: Path) -> None:
    model, shape = small_cnn()
    data = feeds(shape)
    compiled = compile_model(model, calibration=data, fp16_layers=["Conv_t5", "Conv_t14"])
    assert compiled.format_name == "mixed"
    pixels = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)
    check(device, witness, compiled.data, pixels, tmp_path, picture=True)


@pytest.mark.parametrize("core_mask", [0b011, 0b111], ids=["0_1", "0_1_2"])
def test_two_and_three_cores(device: Device, witness: Witness, tmp_path: Path, core_mask: int) -> None:
    net = Net()
    a = net.add("Relu", net.conv("x", 16, 96, 3, pads=[1, 1, 1, 1]))
    b = net.add("Sigmoid", net.conv(net.conv(a, 96, 96, 3, group=96, pads=[1, 1, 1, 1]), 96, 40))
    c = net.add("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2])
    d = net.conv(net.add("Transpose", c, perm=[0, 1, 3, 2]), 40, 160)
    shape = (1, 16, 12, 10)
    data = feeds(shape)
    compiled = compile_model(net.model({"x": shape}, [d]), calibration=data, cores=3)
    value = np.ascontiguousarray(data[0].transpose(0, 2, 3, 1))
    check(device, witness, compiled.data, value, tmp_path, picture=False, options=("--core-mask", str(core_mask)))
    lists, cores = compiled.model.graphs[0].task_lists, core_mask.bit_count()
    walked: dict[int, list[int]] = {core: [] for core in range(cores)}
    for submit in witness.run(tmp_path / "net.rknn", core_mask=core_mask).submits:
        for core, (start, count) in submit.ranges.items():
            walked[core] += range(start, start + count)
    assert walked == {core: list(lists[TaskList(cores, core)]) for core in range(cores)}


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_several_shapes(device: Device, witness: Witness, tmp_path: Path, form: str) -> None:
    sizes = [(1, 3, 24, 16), (1, 3, 32, 40)]
    arrays = [array for size in sizes for array in feeds(size)]
    compiled = compile_model(flexible(), shapes={"x": sizes}, calibration=arrays if form == "int8" else None)
    path = tmp_path / "net.rknn"
    path.write_bytes(compiled.data)
    for _, _, height, width in sizes:
        value = np.random.default_rng(3).integers(0, 256, (1, height, width, 3)).astype(np.uint8)
        with Session(path, "software") as session:
            session.set_shapes({"x": value.shape})
            ours = session.run(value, outputs="raw")
        options = ("--shape", ",".join(map(str, value.shape)))
        theirs = run(device, witness, path, [Input(value.tobytes(), "uint8", "nhwc")], options)
        assert theirs.codes == {}, theirs.text
        assert tuple(array.tobytes() for array in ours.values()) == theirs.outputs


@pytest.mark.parametrize("form", ["int8", "fp16"])
@pytest.mark.parametrize("kind", ["picture", "features", "cpu"])
def test_items_of_a_batch(device: Device, witness: Witness, tmp_path: Path, form: str, kind: str) -> None:
    net = Net()
    if kind == "cpu":
        turned = net.add("Transpose", "x", perm=[0, 1, 3, 2])
        model = net.model({"x": (3, 6, 7, 5)}, [net.add("Reshape", turned, net.constant([3, -1], np.int64))])
    else:
        channels = 3 if kind == "picture" else 24
        a = net.add("Tanh", net.conv("x", channels, 20, 3, pads=[1] * 4))
        mean = net.add("Flatten", net.add("GlobalAveragePool", a))
        model = net.model({"x": (3, channels, 7, 5)}, [a, net.add("Gemm", mean, net.weights(10, 20), transB=1)])
    value = feeds([dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim], 1)[0]
    compiled = compile_model(model, calibration=[value] if form == "int8" else None)
    check(device, witness, compiled.data, np.ascontiguousarray(value.transpose(0, 2, 3, 1)), tmp_path, picture=False)


def test_items_that_the_runtime_makes(device: Device, witness: Witness, tmp_path: Path) -> None:
    """rknn_batch_size: 1.5.2 takes pictures only, and no floats."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 16, 12, 3)).astype(np.uint8)
    model = flexible("n")
    del model.graph.output[1]
    compiled = compile_model(model, shapes={"x": (1, 3, 16, 12)}, batch=4, calibration=[pixels], std=255.0)
    check(device, witness, compiled.data, pixels, tmp_path, picture=True)


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_softmax_along_every_axis(device: Device, witness: Witness, tmp_path: Path, form: str) -> None:
    """Groups of 4 or 16 and what is left of them, other ranks than four, and results that the NPU reads."""
    net = Net()
    axes = [net.add("Softmax", "x", axis=axis) for axis in (1, 2, 3)]
    flat = net.add("Softmax", net.add("Reshape", "x", net.constant([1, 19, 315], np.int64)), axis=1)
    shape = (1, 19, 9, 35)
    model = net.model({"x": shape}, [*axes, flat, net.conv(axes[0], 19, 5)])
    data = feeds(shape, 1)
    compiled = compile_model(model, calibration=data if form == "int8" else None)
    value = np.ascontiguousarray(data[0].transpose(0, 2, 3, 1))
    check(device, witness, compiled.data, value, tmp_path, picture=False)
