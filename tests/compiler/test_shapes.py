"""Several shapes in one file, and batches: one graph per shape with the same scales, one set of weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import openrknn
from openrknn.compiler import CompileOptions, compile_model
from openrknn.compiler.errors import CalibrationError, ModelError, OptionError, UnsupportedOperatorError
from openrknn.compiler.pipeline import compile_stages
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.trials import choose_shapes
from openrknn.compiler.verify import verify
from openrknn.container.check import problems
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net, feeds

pytestmark = pytest.mark.unchecked

SIZES = [(1, 3, 24, 16), (1, 3, 32, 40), (1, 3, 8, 8)]


def flexible(batch: int | str = 1) -> onnx.ModelProto:
    """Every size of the picture: convolutions, depthwise, a table, a sum, pooling, a concatenation, a mean."""
    net = Net()
    a = net.add("Relu", net.conv("x", 3, 16, 3, pads=[1] * 4, strides=[2, 2]))
    b = net.add("Sigmoid", net.conv(a, 16, 16, 3, group=16, pads=[1] * 4))
    c = net.add("Add", a, b)
    pooled = net.add("MaxPool", c, kernel_shape=[2, 2], strides=[2, 2])
    joined = net.add("Concat", net.conv(pooled, 16, 16), pooled, axis=1)
    mean = net.add("Flatten", net.add("GlobalAveragePool", joined))
    out = net.add("Gemm", mean, net.weights(10, 32), net.constant(np.zeros(10)), transB=1)
    return net.model({"x": (batch, 3, "height", "width")}, [joined, out])


def data(*sizes: tuple[int, ...], count: int = 2) -> list[Array]:
    return [array for size in sizes for array in feeds(size, count)]


def answers(model: openrknn.Model, number: int, value: Array) -> dict[str, bytes]:
    with Session(model, "software") as session:
        choose_shapes(session, number)
        return {name: array.tobytes() for name, array in session.run(value, layout="nchw", outputs="raw").items()}


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_every_shape_gives_the_bytes_of_a_file_of_its_own(form: str) -> None:
    # Ranges and rounding that look at more than `seen` would be others for the data of one shape alone.
    options = CompileOptions(
        shapes={"x": SIZES}, calibration=data(*SIZES) if form == "int8" else None, method="minmax",
        adaptive_rounding=False,
    )  # fmt: skip
    seen: dict[str, Statistics] = {}
    compiled = compile_stages(flexible(), options, seen)
    assert [variant.shapes["x"] for variant in compiled.variants] == sorted(SIZES, key=np.prod, reverse=True)
    assert list(problems(compiled.model)) == []
    for number, variant in enumerate(compiled.variants):
        shape = variant.shapes["x"]
        own = replace(options, shapes={"x": shape}, calibration=data(shape) if form == "int8" else None)
        alone = compile_stages(flexible(), own, seen)
        value = feeds(shape, 1, seed=5)[0]
        assert answers(compiled.model, number, value) == answers(alone.model, 0, value)
    assert all(verdict.is_good for verdict in verify(compiled))
    assert len(verify(compiled)) == 6


def test_scales_are_the_same_and_weights_are_stored_once() -> None:
    compiled = compile_model(flexible(), shapes={"x": SIZES}, calibration=data(*SIZES))
    graphs = compiled.model.graphs
    scales = [{t.name: t.quantization for t in graph.tensors if t.quantization} for graph in graphs]
    common = set.intersection(*(set(entry) for entry in scales))
    assert len(common) > 8
    assert all(scales[0][name] == entry[name] for entry in scales[1:] for name in common)
    shared = set(compiled.model.shared_weights)
    for graph in graphs[1:]:
        sizes = {t.name: len(t.data) for t in graph.tensors if t.data is not None}
        assert {name for name, size in sizes.items() if not size} == shared & set(sizes)
    weights = {t.name for t in graphs[0].tensors if t.name.startswith("k") and len(t.shape) == 4}
    assert weights <= shared
    # The mean over all pixels is a kernel that depends on the shape.
    assert not any("GlobalAveragePool" in name for name in shared)


def test_the_first_graph_is_the_one_that_needs_most_memory() -> None:
    compiled = compile_model(flexible(), shapes={"x": SIZES})
    ends = [max(t.offset + t.size_bytes for t in graph.tensors) for graph in compiled.model.graphs]
    assert compiled.model.memory.internal_bytes == max(ends) == ends[0]


def test_the_same_options_give_the_same_file() -> None:
    first, second = (compile_model(flexible(), shapes={"x": SIZES}, calibration=data(*SIZES)).data for _ in range(2))
    backwards = compile_model(flexible(), shapes={"x": SIZES[::-1]}, calibration=data(*SIZES)).data
    assert first == second == backwards


def test_shapes_of_several_inputs_belong_together() -> None:
    net = Net()
    out = net.add("Add", net.conv("x", 16, 16, 1, strides=[2, 2]), net.conv("y", 8, 16))
    model = net.model({"x": (1, 16, "h", "w"), "y": (1, 8, "i", "j")}, [out])
    shapes = {"x": [(1, 16, 8, 8), (1, 16, 12, 20)], "y": [(1, 8, 4, 4), (1, 8, 6, 10)]}
    pairs = list(zip(data(*shapes["x"]), data(*shapes["y"]), strict=True))
    compiled = compile_model(model, shapes=shapes, calibration=pairs)
    assert [variant.shapes for variant in compiled.variants] == [
        {"x": (1, 16, 12, 20), "y": (1, 8, 6, 10)}, {"x": (1, 16, 8, 8), "y": (1, 8, 4, 4)},
    ]  # fmt: skip
    assert all(verdict.is_good for verdict in verify(compiled))
    one = compile_model(model, shapes={"x": (1, 16, 12, 20), "y": [(1, 8, 6, 10)]})
    assert len(one.variants) == 1


def test_arrays_calibrate_the_shapes_that_they_fit_and_count_for_all() -> None:
    compiled = compile_model(flexible(), shapes={"x": SIZES}, calibration=data(SIZES[0]))
    assert [len(variant.samples) for variant in compiled.variants] == [0, 2, 0]
    strong = [10 * array for array in data(SIZES[2])]
    other = compile_model(flexible(), shapes={"x": SIZES}, calibration=[*data(SIZES[0]), *strong])
    scales = [entry.model.inputs[0].quantization for entry in (compiled, other)]
    assert scales[0] is not None
    assert scales[1] is not None
    assert scales[1].scale[0] > 5 * scales[0].scale[0]
    with pytest.raises(CalibrationError, match=r"calibration input 3 fits none of the shapes; there are x \[1, 3, 32"):
        compile_model(flexible(), shapes={"x": SIZES}, calibration=[*data(SIZES[0]), np.zeros((1, 3, 9, 9))])


def test_pictures_are_resized_to_every_shape(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 30, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    compiled = compile_model(flexible(), shapes={"x": SIZES}, calibration=tmp_path, std=255.0)
    assert [len(variant.samples) for variant in compiled.variants] == [2, 2, 2]


@pytest.mark.parametrize("extra", [{"equalize": True}, {"method": "auto"}, {"fp16_layers": ["Conv_t1"]}])
def test_options_hold_for_all_shapes(extra: dict[str, Any]) -> None:
    compiled = compile_model(flexible(), shapes={"x": SIZES[:2]}, calibration=data(*SIZES[:2]), **extra)
    assert all(verdict.is_good for verdict in verify(compiled))
    assert compiled.model.shared_weights
    one, other = ({t.name: t.dtype for t in graph.tensors} for graph in compiled.model.graphs)
    common = set(one) & set(other)
    assert len(common) > 20
    assert {name: one[name] for name in common} == {name: other[name] for name in common}


def test_wrong_shapes_have_one_clear_message_each() -> None:
    model = flexible()
    with pytest.raises(ModelError, match=r"openrknn compile MODEL.onnx --shapes x=1,3,640,640 \(in Python: shapes="):
        compile_model(model)
    with pytest.raises(OptionError, match="the same number: x has 2, y has 3"):
        CompileOptions(shapes={"x": [(1, 2), (1, 3)], "y": [(1, 2), (1, 3), (1, 4)]})
    with pytest.raises(OptionError, match="given twice"):
        CompileOptions(shapes={"x": [(1, 2), (1, 2)]})
    with pytest.raises(OptionError, match="whole numbers"):
        CompileOptions(shapes={"x": "1,3,224,224"})  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="are empty"):
        CompileOptions(shapes={"x": []})
    net = Net()
    pair = net.model({"x": (1, 4, "w"), "y": (1, 4, "v")}, [net.add("Add", "x", "y")])
    with pytest.raises(ModelError, match=r"Add 'Add_t1' cannot be computed from 'x' \[1, 4, 6\] and 'y' \[1, 4, 8\]"):
        compile_model(pair, shapes={"x": [(1, 4, 6), (1, 4, 8)], "y": (1, 4, 8)})
    net = Net()
    both = net.model({"a": (1, 4, "w"), "b": ("n", "c")}, [net.add("Relu", "a"), net.add("Relu", "b")])
    with pytest.raises(ModelError, match=r"'a' has the open shape \[1, 4, w\], input 'b' .* --shapes a=1,4,128 --sh"):
        compile_model(both)


# -- batches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["int8", "fp16"])
@pytest.mark.parametrize("way", ["fixed", "shapes", "option"])
def test_a_batch_is_so_many_single_runs(form: str, way: str) -> None:
    size = (4, 3, 16, 12)
    values = feeds(size, 2)
    calibration = values if form == "int8" else None
    if way == "fixed":
        net = flexible(4)
        for axis, number in ((2, 16), (3, 12)):
            net.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = number
        compiled = compile_model(net, calibration=calibration)
    elif way == "shapes":
        compiled = compile_model(flexible("n"), shapes={"x": size}, calibration=calibration)
    else:
        compiled = compile_model(flexible("n"), shapes={"x": (1, *size[1:])}, batch=4, calibration=calibration)
    items = [value[number : number + 1] for value in values for number in range(4)]
    single = compile_model(flexible(), shapes={"x": (1, *size[1:])}, calibration=items if form == "int8" else None)
    assert compiled.model.batch_size == (4 if way == "option" else 0)
    assert single.model.batch_size == 0
    with Session(compiled.model, "software") as session:
        assert session.inputs[0].shape == (4, 16, 12, 3)
        together = session.run(values[0], layout="nchw", outputs="raw")
    with Session(single.model, "software") as session:
        for number in range(4):
            alone = session.run(values[0][number : number + 1], layout="nchw", outputs="raw")
            for name, array in alone.items():
                assert together[name][number : number + 1].tobytes() == array.tobytes()
    assert all(verdict.is_good for verdict in verify(compiled))


def test_shapes_with_batches_of_their_own() -> None:
    sizes = [(1, 3, 16, 16), (4, 3, 16, 16), (3, 3, 8, 24)]
    compiled = compile_model(flexible("n"), shapes={"x": sizes})
    assert [variant.batch for variant in compiled.variants] == [4, 3, 1]
    assert list(problems(compiled.model)) == []
    assert all(verdict.is_good for verdict in verify(compiled))
    value = feeds((4, 3, 16, 16), 1)[0]
    with Session(compiled.model, "software") as session:
        together = session.run(value, layout="nchw", outputs="raw")
        session.set_shapes({"x": (1, 3, 16, 16)})
        for number in range(4):
            alone = session.run(value[number : number + 1], layout="nchw", outputs="raw")
            for name, array in alone.items():
                assert together[name][number : number + 1].tobytes() == array.tobytes()


def test_a_batch_reads_the_same_weights_and_needs_no_more_memory_between_its_ends() -> None:
    one, four = (compile_model(flexible("n"), shapes={"x": (count, 3, 32, 40)}) for count in (1, 4))
    weights = [sum(t.size_bytes for t in m.model.graphs[0].tensors if t.kind.name == "WEIGHT") for m in (one, four)]
    assert weights[0] == weights[1]
    counts = [m.costs[1].tasks for m in (one, four)]
    assert 3 * counts[0] < counts[1] <= 4 * counts[0]  # the table is loaded once
    ends = [
        sum(t.size_bytes for t in m.model.graphs[0].tensors if t.kind.name in {"INPUT", "OUTPUT"}) for m in (one, four)
    ]
    between = [m.model.memory.internal_bytes - size for m, size in zip((one, four), ends, strict=True)]
    assert between[1] <= one.model.memory.internal_bytes


def test_items_at_ends_that_only_the_cpu_touches() -> None:
    net = Net()
    turned = net.add("Transpose", "x", perm=[0, 2, 1])
    made = net.add("Relu", net.add("MatMul", turned, net.weights(7, 12)))
    out = net.add("Softmax", made, axis=-1)
    model = net.model({"x": ("n", 7, 20)}, [out, made])
    value = feeds((3, 7, 20), 1)[0]
    results = []
    for count in (3, 1):
        compiled = compile_model(model, shapes={"x": (count, 7, 20)}, calibration=feeds((1, 7, 20)))
        assert all(verdict.decibels > 20 for verdict in verify(compiled))
        with Session(compiled.model, "software") as session:
            runs = [session.run(value[at : at + count], outputs="raw") for at in range(0, 3, count)]
        results.append({name: np.concatenate([run[name] for run in runs]).tobytes() for name in runs[0]})
    assert results[0] == results[1]


def test_sizes_and_constants_that_hold_the_batch_are_taken_apart() -> None:
    net = Net()
    a = net.conv("x", 8, 16)
    heads = net.add("Reshape", a, net.constant([12, 4, 20], np.int64))
    back = net.add("Reshape", heads, net.constant([3, 16, 4, 5], np.int64))
    bias = np.broadcast_to(net.random.normal(0, 1, (1, 16, 1, 1)), (3, 16, 1, 1))
    out = net.add("Add", back, net.constant(bias))
    compiled = compile_model(net.model({"x": (3, 8, 4, 5)}, [out]))
    assert compiled.variants[0].batch == 3
    assert verify(compiled)[0].is_good


def test_an_operator_that_mixes_the_batch_is_named() -> None:
    net = Net()
    a = net.add("Relu", net.conv("x", 8, 16))
    mixed = net.add("Softmax", a, axis=0)
    out = net.conv(mixed, 16, 8)
    with pytest.raises(UnsupportedOperatorError, match="Softmax 'Softmax_t3' mixes the 2 items of the batch"):
        compile_model(net.model({"x": (2, 8, 4, 4)}, [out]))
    net = Net()
    out = net.add("Add", net.conv("x", 8, 16), net.constant(net.random.normal(0, 1, (2, 16, 1, 1))))
    with pytest.raises(UnsupportedOperatorError, match="Add 'Add_t2' mixes the 2 items"):
        compile_model(net.model({"x": (2, 8, 4, 4)}, [out]))
    net = Net()
    out = net.add("Transpose", net.conv("x", 8, 16), perm=[1, 0, 2, 3])
    with pytest.raises(UnsupportedOperatorError, match="Transpose_t2' mixes"):
        compile_model(net.model({"x": (2, 8, 4, 4)}, [out]))


def test_wrong_batches() -> None:
    with pytest.raises(OptionError, match="a run has 1 to 1024 items"):
        CompileOptions(batch=0)
    with pytest.raises(OptionError, match="batch=2, but the model takes 4 items itself"):
        compile_model(flexible("n"), shapes={"x": (4, 3, 16, 16)}, batch=2)


def test_the_report_adds_up_the_items() -> None:
    from openrknn.compiler.rows import rows_of

    one, three = (
        compile_model(flexible("n"), shapes={"x": (count, 3, 16, 24)}, calibration=feeds((1, 3, 16, 24)))
        for count in (1, 3)
    )
    single, batch = rows_of(one), rows_of(three)
    assert [row.name for row in batch] == [row.name for row in single]
    assert [row.macs for row in batch] == [3 * row.macs for row in single]
    assert [row.output_db for row in batch[:2]] == [row.output_db for row in single[:2]]
