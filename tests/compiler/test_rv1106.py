"""RV1103 and RV1106: int8 only, mini files, no operators of the CPU; the numbers are those of RK3588."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.compiler import compile_model
from openrknn.compiler.errors import CalibrationError, CompileError, OptionError
from openrknn.compiler.targets import TARGETS
from openrknn.compiler.tile import Shape, tile
from openrknn.container import mini, outer
from openrknn.container.outer import Flavour
from openrknn.container.writer import encode
from openrknn.isa import map_for
from openrknn.isa.words import Command
from openrknn.runtime.session import Session
from tests.compiler.nets import Net, feeds, small_cnn

SHAPE = (1, 3, 24, 30)


def picture_net() -> Any:
    """A picture, depthwise channels, a table, a residual, a pool."""
    net = Net()
    first = net.add("Relu", net.conv("x", 3, 24, 3, pads=[1] * 4, strides=[2, 2]))
    deep = net.add("HardSwish", net.conv(net.conv(first, 24, 24, 3, group=24, pads=[1] * 4), 24, 40))
    back = net.add("Add", net.conv(deep, 40, 24), first)
    pooled = net.add("MaxPool", back, kernel_shape=[2, 2], strides=[2, 2])
    return net.model({"x": SHAPE}, [net.conv(pooled, 24, 10)])


def pixels(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (1, 24, 30, 3)).astype(np.uint8)


@pytest.mark.parametrize("chip", ["rv1106", "rv1103"])
def test_the_file_is_a_mini_file_of_the_chip(chip: str) -> None:
    model = compile_model(picture_net(), chip, calibration=[pixels(1)], mean=127.0, std=64.0).model
    assert (model.chip.name, model.target, model.flavour, model.container_version) == (
        chip, "RKNPU t3", Flavour.MINI, 0x1004)  # fmt: skip
    graph = model.graphs[0]
    assert {node.target for node in graph.nodes if node.task_counts != (0,)} == {2}
    assert model.memory.constant_bytes == 0
    assert encode(model) == encode(openrknn.load(encode(model)))


def test_relocations_are_sorted_by_name() -> None:
    """librknnmrt 2.3.2 finds an input's only in that order; tests/fakekernel/test_newer.py asks it."""
    for chip in ("rv1106", "rk3588"):
        graph = compile_model(picture_net(), chip, calibration=[pixels(1)]).model.graphs[0]
        names = [group.tensor.encode() for group in graph.relocations]
        assert names == sorted(names)
        assert names != [tensor.name.encode() for tensor in graph.tensors if tensor.name.encode() in names]


def test_addresses_are_those_of_one_image() -> None:
    """[commands | weights | internal memory] from 0 on: each relocated word holds its tensor's place."""
    data = encode(compile_model(picture_net(), "rv1106", calibration=[pixels(1)]).model)
    model = openrknn.load(data)
    parts = mini.split(outer.split(memoryview(data)).payload, 64)
    graph = model.graphs[0]
    weights = 8 * len(graph.commands)
    starts = {}
    for tensor in graph.tensors:
        starts[tensor.name] = tensor.offset + weights + (len(parts.weights) if tensor.kind.is_activation else 0)
    checked = 0
    for group in graph.relocations:
        for entry in group:
            if entry.tensor in starts and graph.tensor_named(entry.tensor).kind.name != "LUT":  # type: ignore[union-attr]
                value = Command.decode(graph.commands[entry.command]).value
                assert value == starts[entry.tensor] + entry.addend
                checked += 1
    assert checked > 20


def test_pictures_are_fed_as_uint8_and_as_int8() -> None:
    onnx = picture_net()
    results = []
    for chip in ("rk3588", "rv1106"):
        compiled = compile_model(onnx, chip, calibration=[pixels(1)], mean=127.0, std=64.0)
        with Session(compiled.model, "software") as session:
            results.append(next(iter(session.run(pixels(2), outputs="raw").values())))
    np.testing.assert_array_equal(results[0], results[1])


def test_the_file_holds_the_converter_for_uint8() -> None:
    """As the vendor's files do: without a runtime that knows better, the commands are those for pictures."""
    model = compile_model(picture_net(), "rv1106", calibration=[pixels(1)], mean=127.0, std=64.0).model
    graph = model.graphs[0]
    register = map_for(model.chip).find("CNA.CVT_CON0")
    words = [Command.decode(word) for word in graph.task_words(graph.tasks[0], tail=False)]
    first = next(word for word in words if word.offset == register.offset)
    assert register(first.value).values()["cvt_bypass"] == 0
    assert graph.convert_patches[0].slots[0] is not None
    assert graph.convert_patches[0].slots[0].value & 0xFFFFFFFF == first.value


@pytest.mark.parametrize("order", [[0, 1, 3, 2], [0, 3, 2, 1], [0, 2, 3, 1]])
def test_transpositions_in_the_middle_are_the_npus(order: list[int]) -> None:
    net, shape = Net(), (1, 32, 16, 48)
    turned = net.add("Transpose", net.conv("x", 32, 32), perm=order)
    onnx = net.model({"x": shape}, [net.conv(turned, shape[order[1]], 16)])
    data = feeds(shape, 1)
    results = []
    for chip in ("rk3588", "rv1106"):
        compiled = compile_model(onnx, chip, calibration=data, cores=1)
        with Session(compiled.model, "software") as session:
            results.append(next(iter(session.run(data[0], outputs="raw").values())))
    np.testing.assert_array_equal(results[0], results[1])


def test_a_pixel_at_the_end_needs_no_reshape() -> None:
    net, shape = Net(), (1, 16, 8, 8)
    mean = net.add("GlobalAveragePool", net.add("Relu", net.conv("x", 16, 40)))
    onnx = net.model({"x": shape}, [net.add("Flatten", mean)])
    data = feeds(shape, 1)
    found = []
    for chip in ("rk3588", "rv1106"):
        compiled = compile_model(onnx, chip, calibration=data, cores=1)
        with Session(compiled.model, "software") as session:
            found.append(next(iter(session.run(data[0], outputs="raw").values())))
    assert found[1].shape == (1, 40)
    np.testing.assert_array_equal(found[0], found[1])


def test_products_of_two_activations_are_refused() -> None:
    """The array computes int8 only: in the vendor's files nothing but int8 goes through it."""
    net, shape = Net(), (1, 32, 8, 8)
    left = net.add("Reshape", net.conv("x", 32, 32), net.constant([1, 32, 64], np.int64))
    right = net.add("Reshape", net.conv("x", 32, 32), net.constant([1, 64, 32], np.int64))
    onnx = net.model({"x": shape}, [net.add("MatMul", left, right)])
    with pytest.raises(CompileError, match=r"no operators for the CPU.*MatMul"):
        compile_model(onnx, "rv1106", calibration=feeds(shape))


def test_int8_is_all_that_there_is() -> None:
    onnx, shape = small_cnn()
    with pytest.raises(OptionError, match="RV1106 computes int8 only: leave out fp16"):
        compile_model(onnx, "rv1106", fp16=True)
    with pytest.raises(OptionError, match="leave out auto_mixed"):
        compile_model(onnx, "rv1106", auto_mixed=True, calibration=feeds(shape))
    with pytest.raises(CalibrationError, match="needs calibration data"):
        compile_model(onnx, "rv1106")


def test_operators_of_the_cpu_are_refused_with_the_place_to_cut() -> None:
    net = Net()
    scores = net.conv("x", 16, 20)
    onnx = net.model({"x": (1, 16, 6, 6)}, [net.add("Softmax", scores, axis=1)])
    with pytest.raises(CompileError, match=rf"no operators for the CPU.*Softmax.*--outputs {scores}"):
        compile_model(onnx, "rv1106", calibration=feeds((1, 16, 6, 6)))
    assert compile_model(onnx, "rv1106", calibration=feeds((1, 16, 6, 6)), outputs=[scores]).model.outputs


def test_the_buffer_is_shared_out_as_in_the_vendors_files() -> None:
    """(channels, height, width, kernels, kernel, stride) -> (rows, output rows, banks of data); toolkit 2.5.0."""
    seen = {
        (1024, 26, 26, 24, 1, 1): [(8, 8, 7), (8, 8, 7), (8, 8, 7), (2, 2, 7)],
        (320, 13, 64, 192, 3, 1): [(8, 7, 5), (7, 6, 5)],
        (192, 13, 64, 128, 5, 1): [(10, 8, 4), (7, 5, 4)],
        (240, 28, 30, 40, 5, 2): [(17, 8, 4), (14, 6, 4)],
        (160, 26, 33, 640, 3, 2): [(26, 13, 5)],
        (64, 56, 59, 32, 1, 1): [(56, 56, 7)],
    }
    form = TARGETS["rv1106"].int8
    for (channels, height, width, kernels, kernel, stride), wanted in seen.items():
        out = (height - 1) // stride + 1
        shape = Shape(channels, height, width, out, (kernel, kernel), stride, 1, kernel // 2, False, kernels,
                      channels, 0, pixels=out * out, buffer=TARGETS["rv1106"].buffer)  # fmt: skip
        assert [(band.rows, band.out_rows, band.data_banks) for band in tile(shape, form, "conv")] == wanted
