"""Chips other than RK3588: the same model gives the same numbers, in streams and files that the chip understands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import openrknn
from openrknn import distance
from openrknn.chips import CHIPS
from openrknn.compiler import compile_model
from openrknn.compiler.cost import cost_of
from openrknn.compiler.errors import CompileError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.targets import TARGETS, target_of
from openrknn.compiler.tile import Shape, tile
from openrknn.fakekernel.device import Device
from openrknn.runtime.session import Session
from openrknn.task.kinds import Convolution
from tests.compiler.nets import Array, Net, feeds, small_cnn
from tests.compiler.test_attention import attention
from tests.container.places import IS_WHOLE
from tests.fakekernel.vendor import run
from tests.witness.testimony import Input
from tests.witness.witness import Witness

pytestmark = pytest.mark.unchecked

Shape4 = tuple[int, int, int, int]


def _joints(net: Net) -> str:
    """Channels and pixels that are whole neither in atoms of 16 nor of 8 bytes."""
    a = net.add("LeakyRelu", net.conv("x", 20, 12, 3, pads=[1] * 4), alpha=0.1)
    b = net.conv("x", 20, 20)
    joined = net.add("Concat", a, b, axis=1)
    pooled = net.add("MaxPool", joined, kernel_shape=[9, 9], pads=[4] * 4)
    mean = net.add("AveragePool", net.add("Add", pooled, joined), kernel_shape=[3, 3], strides=[2, 2])
    slopes = net.constant(np.linspace(0.1, 0.9, 32).reshape(32, 1, 1))
    return net.add("PRelu", net.conv(mean, 32, 32, 3, group=32, pads=[1] * 4), slopes)


def _functions(net: Net) -> str:
    a = net.add("Tanh", net.conv("x", 24, 24, 3, pads=[1] * 4))
    b = net.add("Sigmoid", net.add("Mul", a, net.conv("x", 24, 24)))
    up = net.add("ConvTranspose", b, net.weights(24, 16, 4, 4), net.constant(np.zeros(16)),
                 kernel_shape=[4, 4], strides=[2, 2], pads=[1] * 4)  # fmt: skip
    return net.add("Sub", up, net.add("Relu", up))


def _pointwise(net: Net) -> str:
    """More weights than fit beside the data: kernels are cut."""
    return net.add("Add", net.conv("x", 320, 480), net.add("Relu", net.conv("x", 320, 480)))


def _bands(net: Net) -> str:
    """More rows than fit, and depthwise channels in chunks."""
    a = net.conv("x", 80, 80, 3, group=80, pads=[1] * 4)
    return net.add("Relu", net.add("Add", net.conv(a, 80, 80, 3, pads=[1] * 4), a))


def _pixels_that_look_at_each_other(net: Net) -> str:
    """Attention between the pixels of a map, as in newer detectors."""
    heads, depth, pixels = 2, 16, 40
    split = net.constant([1, heads, 3 * depth, pixels], np.int64)
    whole = net.add("Reshape", net.conv("x", 16, heads * 3 * depth), split)
    net.nodes.append(helper.make_node("Split", [whole], ["q", "k", "v"], axis=2, num_outputs=3))
    scores = net.add("MatMul", net.add("Transpose", "q", perm=[0, 1, 3, 2]), "k")
    weights = net.add("Softmax", net.add("Mul", scores, net.constant(0.25)), axis=-1)
    mixed = net.add("MatMul", "v", net.add("Transpose", weights, perm=[0, 1, 3, 2]))
    return net.conv(net.add("Reshape", mixed, net.constant([1, heads * depth, 8, 5], np.int64)), heads * depth, 16)


def attentive() -> tuple[Any, Shape4]:
    net = Net()
    return net.model({"x": (1, 16, 8, 5)}, [_pixels_that_look_at_each_other(net)], opset=18), (1, 16, 8, 5)


NETS: dict[str, tuple[Callable[[Net], str], Shape4]] = {
    "joints": (_joints, (1, 20, 13, 15)),
    "functions": (_functions, (1, 24, 9, 11)),
    "pointwise": (_pointwise, (1, 320, 20, 20)),
    "bands": (_bands, (1, 80, 60, 50)),
}


def model_of(name: str) -> tuple[Any, Shape4]:
    build, shape = NETS[name]
    net = Net()
    return net.model({"x": shape}, [build(net)]), shape


def raw(model: Any, value: Array) -> list[Array]:
    with Session(model, "software") as session:
        return list(session.run(value, outputs="raw", layout="nchw").values())


OTHERS = ("rk3566", "rk3562", "rk3576")
INT8 = ("rv1106",)
"""Those without fp16."""


@pytest.mark.parametrize("name", NETS)
def test_int8_is_the_same_integers_on_every_chip(name: str) -> None:
    onnx, shape = model_of(name)
    data = feeds(shape, 2)
    chips = ("rk3588", *OTHERS, *INT8)
    wanted, *others = (raw(compile_model(onnx, chip, calibration=data).model, data[0]) for chip in chips)
    for found in others:
        for left, right in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("chip", OTHERS)
@pytest.mark.parametrize("name", NETS)
def test_fp16_is_as_close_to_float(name: str, chip: str) -> None:
    onnx, shape = model_of(name)
    value = feeds(shape, 1)[0]
    compiled = compile_model(onnx, chip)
    wanted = dict(FloatModel(onnx, compiled.graph.outputs).run({"x": value}))
    for name_, found in zip(compiled.graph.outputs, raw(compiled.model, value), strict=True):
        assert distance.measure(found, wanted[name_]).snr_db > 55


@pytest.mark.parametrize("width", [32, 30])
@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_pictures_whose_rows_are_padded_too(form: str, width: int) -> None:
    net = Net()
    out = net.conv("x", 3, 16, 3, pads=[1] * 4, strides=[2, 2])
    onnx = net.model({"x": (1, 3, 20, width)}, [out])
    pixels = np.random.default_rng(0).integers(0, 256, (1, 20, width, 3)).astype(np.uint8)
    results = []
    for chip in ("rk3588", *OTHERS, *(INT8 if form == "int8" else ())):
        compiled = compile_model(onnx, chip, calibration=[pixels] if form == "int8" else None, mean=127.0, std=64.0)
        with Session(compiled.model, "software") as session:
            results.append(session.run(pixels, outputs="raw")[out])
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_the_file_is_one_for_the_chip() -> None:
    onnx, _ = small_cnn()
    model = compile_model(onnx, "RK3568").model
    assert (model.chip.name, model.target) == ("rk3568", "RKNPU lite")
    graph = model.graphs[0]
    assert graph.list_starts == ()
    assert all(len(group.cores) == 0 for group in graph.relocations)
    assert all(len(node.task_counts) == 1 for node in graph.nodes)
    for name in ("rv1106b",):
        with pytest.raises(CompileError, match=f"{CHIPS[name].title} has other registers"):
            compile_model(onnx, name)


@pytest.mark.parametrize("chip", OTHERS)
def test_int8_and_fp16_meet_in_one_model(chip: str) -> None:
    net = Net()
    norm = net.add("LayerNormalization", "x", net.constant(np.ones(16)), net.constant(np.zeros(16)), axis=-1)
    onnx = net.model({"x": (1, 8, 16)}, [norm])
    value = feeds((1, 8, 16), 1)[0]
    wanted = dict(FloatModel(onnx, [norm]).run({"x": value}))[norm]
    compiled = compile_model(onnx, chip, calibration=[value])
    assert "exDataConvert" in [step.type for step in compiled.lowering.program.steps]
    with Session(compiled.model, "software") as session:
        assert distance.measure(session.run(value)[norm], wanted).snr_db > 35
    assert compile_model(onnx, chip, calibration=[value], auto_mixed=True).model.chip.name == chip
    with pytest.raises(CompileError, match="choose 1"):
        compile_model(onnx, chip, cores=3)


def test_buffers_are_shared_out_as_in_the_vendors_files() -> None:
    """(channels, height, width, kernels, kernel, stride) -> (rows, output rows, banks of data, banks of weights)."""
    seen = {
        (64, 56, 56, 64, 3, 1): [(56, 56, 7, 1)],
        (128, 56, 56, 128, 1, 1): [(32, 32, 7, 1), (24, 24, 7, 1)],
        (256, 28, 28, 256, 3, 2): [(26, 13, 6, 2), (3, 1, 6, 2)],
        (24, 100, 90, 30, 3, 1): [(79, 78, 7, 1), (23, 22, 7, 1)],
        (256, 40, 40, 80, 3, 1): [(19, 18, 6, 2), (19, 17, 6, 2), (6, 5, 6, 2)],
    }
    form = TARGETS["rk3566"].int8
    for (channels, height, width, kernels, kernel, stride), wanted in seen.items():
        out = (height - 1) // stride + 1
        shape = Shape(channels, height, width, out, (kernel, kernel), stride, 1, kernel // 2, False, kernels,
                      form.surfaces(channels) * form.atom, 0, pixels=out * out,
                      buffer=TARGETS["rk3566"].buffer)  # fmt: skip
        found = [(band.rows, band.out_rows, band.data_banks, band.weight_banks) for band in tile(shape, form, "conv")]
        assert found == wanted
    shape = Shape(1024, 7, 7, 7, (1, 1), 1, 1, 0, False, 256, 1024, 0, pixels=49, buffer=TARGETS["rk3566"].buffer)
    assert [(band.kernel, band.kernels) for band in tile(shape, form, "conv")] == [(0, 192), (192, 64)]


def test_the_buffer_of_rk3562_is_a_ring() -> None:
    """(channels, height, width, kernels, kernel, stride) -> (rows, kept rows, entry, data banks, weight banks)."""
    seen = {
        (64, 56, 56, 64, 3, 1): [(54, 0, 0, 6, 2), (4, 2, 2912, 6, 2)],
        (128, 56, 56, 128, 1, 1): [(32, 0, 0, 7, 1), (24, 0, 0, 7, 1)],
        (256, 28, 28, 256, 3, 2): [(26, 0, 0, 6, 2), (3, 1, 2800, 6, 2)],
        (256, 40, 40, 80, 3, 1): [(19, 0, 0, 6, 2), (19, 2, 2720, 6, 2), (6, 2, 2368, 6, 2)],
        (512, 14, 14, 512, 3, 1): [(14, 0, 0, 5, 3)],
        (2048, 1, 1, 1000, 1, 1): [(1, 0, 0, 6, 2)],
    }
    form = TARGETS["rk3562"].int8
    for (channels, height, width, kernels, kernel, stride), wanted in seen.items():
        out = (height - 1) // stride + 1
        shape = Shape(channels, height, width, out, (kernel, kernel), stride, 1, kernel // 2, False, kernels,
                      form.surfaces(channels) * form.atom, 0, pixels=out * out,
                      buffer=TARGETS["rk3562"].buffer)  # fmt: skip
        found = [(band.rows, band.kept, band.entry, band.data_banks, band.weight_banks)
                 for band in tile(shape, form, "conv")]  # fmt: skip
        assert found == wanted


def test_depthwise_weights_of_rk3562_carry_their_zero_points() -> None:
    net = Net()
    out = net.conv("x", 40, 40, 3, group=40, pads=[1] * 4)
    onnx, data = net.model({"x": (1, 40, 9, 7)}, [out]), feeds((1, 40, 9, 7), 1)
    made = {chip: compile_model(onnx, chip, calibration=data, cores=1) for chip in ("rk3588", "rk3562")}
    tasks = {chip: entry.lowering.program.steps[-1].tasks[0].work for chip, entry in made.items()}
    kernels = {chip: task.source.kernels for chip, task in tasks.items() if isinstance(task, Convolution)}
    assert kernels == {"rk3588": 1, "rk3562": 2}
    sizes = {name: len(tensor.data) for name, tensor in made["rk3562"].lowering.program.tensors.items() if tensor.data}
    assert max(sizes.values()) == 2 * 64 * 9  # whole groups of 32 channels, each weight with its zero point


# -- the vendor's runtime ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with Device("rk3566") as made:
        yield made


@pytest.mark.witness
@pytest.mark.parametrize("form", ["int8", "fp16"])
@pytest.mark.parametrize("name", ["joints", "functions", "picture", "attention"])
def test_the_vendors_runtime_takes_it(
    device: Device, witness: Witness, tmp_path: Path, name: str, form: str
) -> None:
    value: Array
    if name == "picture":
        onnx, _ = small_cnn()
        value = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)
        data, options = [value], {"mean": 127.0, "std": 64.0}
    else:
        onnx, shape = attentive() if name == "attention" else model_of(name)
        data, options = feeds(shape, 2), {}
        value = np.ascontiguousarray(data[0].transpose(0, 2, 3, 1))
    compiled = compile_model(onnx, "rk3566", calibration=data if form == "int8" else None, **options)  # type: ignore[arg-type]
    path = tmp_path / "net.rknn"
    path.write_bytes(compiled.data)
    with Session(path, "software") as session:
        ours = session.run(value, outputs="raw", layout="nhwc")
    given = Input(value.tobytes(), "uint8" if name == "picture" else "float32", "nhwc")
    theirs = run(device, witness, path, [given], ())
    assert theirs.codes == {}, theirs.text
    for array, found in zip(ours.values(), theirs.outputs, strict=True):
        assert array.tobytes() == found


# -- the vendor's files --------------------------------------------------------------------------------------------

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
NAMED = {("softmax", "i8"): "the vendor's converter leaves it in fp16"}
SEEDS = (100, 101, 102)
_GOOD = 64.0
"""Decibels: fp16 rounds to that, and what is added up first is a matter of taste."""


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the shared corpus")
@pytest.mark.parametrize("kind", ["i8", "fp"])
@pytest.mark.parametrize("chip", ["rk3566", "rk3576"])
def test_as_close_to_float_as_the_vendors_build(chip: str, kind: str) -> None:
    """A quarter of the networks each, another one for each of the four, or all with OPENRKNN_CORPUS=all."""
    worse = []
    first = 2 * ("rk3566", "rk3576").index(chip) + ("i8", "fp").index(kind)
    paths = sorted((CORPUS / chip).glob(f"*_{chip}_{kind}.rknn"))
    for path in paths if IS_WHOLE else paths[first::4]:
        name = path.name.removesuffix(f"_{chip}_{kind}.rknn")
        source = CORPUS / "rk3588" / f"{name}.onnx"
        if (name, kind) in NAMED or not source.exists():
            continue
        with np.load(path.with_suffix(".npz")) as archive:
            inputs = [archive[entry] for entry in archive.files if entry.startswith("x")]
        if inputs[0].dtype == np.uint8:
            continue
        random = [np.random.default_rng(seed) for seed in SEEDS]
        data = [tuple(one.normal(0, 1, entry.shape).astype(np.float32) for entry in inputs) for one in random]
        ours = compile_model(source, chip, calibration=data if kind == "i8" else None)
        theirs = openrknn.load(path)
        names = [spec.name for spec in ours.model.inputs]
        wanted = dict(FloatModel(ours.source, ours.graph.outputs).run(dict(zip(names, inputs, strict=True))))
        closeness = []
        for model in (ours.model, theirs):
            with Session(model, "software") as session:
                found = session.run(inputs, layout="nchw" if inputs[0].ndim == 4 else None)
            closeness.append(min(distance.measure(found[key], wanted[key]).snr_db for key in wanted if key in found))
        if closeness[0] < min(closeness[1], _GOOD) - 0.3:
            worse.append(f"{name} {closeness}")
        assert cost_of(ours.model).cycles >= 0
    assert worse == []


def test_every_target_has_a_chip() -> None:
    assert set(TARGETS) <= {name for chip in CHIPS.values() for name in (chip.family, chip.name)}


# -- transformers --------------------------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", ["int8", "fp16"])
@pytest.mark.parametrize("chip", OTHERS)
@pytest.mark.parametrize(("tokens", "heads", "depth"), [(20, 2, 32), (33, 1, 48), (40, 2, 64), (25, 2, 15)])
def test_products_are_the_npus_and_as_close_as_rk3588s(
    tokens: int, heads: int, depth: int, chip: str, form: str
) -> None:
    onnx, shape = attention(tokens, heads, depth)
    value = feeds(shape, 1)[0]
    closeness = []
    for name in ("rk3588", chip):
        made = compile_model(onnx, name, calibration=[value] if form == "int8" else None, cores=1)
        types = [step.type for step in made.lowering.program.steps if step.is_cpu]
        assert not {"MatMul", "exMatMul"} & set(types)
        assert ("exSoftmax13" in types) is not target_of(made.model.chip).has_softmax
        assert set(types) <= {"Transpose", "Reshape", "exSoftmax13"}
        assert types.count("Transpose") == 2, "at the two ends alone"
        wanted = dict(FloatModel(onnx, [entry.name for entry in onnx.graph.output]).run({"x": value}))
        with Session(made.model, "software") as session:
            found = session.run(value)
        closeness.append(min(distance.measure(found[key], wanted[key]).snr_db for key in wanted if key in found))
    assert closeness[1] > closeness[0] - 0.5
