"""`openrknn.load`: from every kind of source, with every fact that FORMAT promises."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

import openrknn
from openrknn.chips import TaskList
from openrknn.container import outer
from openrknn.container.check import problems
from openrknn.container.outer import Flavour
from openrknn.container.parts import DataType, Kind, Layout, Placement
from tests.container.places import GOLDENS, golden, need_corpus


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_every_golden_is_read_completely(path: Path) -> None:
    model = openrknn.load(path)
    assert list(problems(model)) == []
    assert model.unknown == ()
    assert model.path == str(path)
    assert model.size_bytes == path.stat().st_size
    assert model.toolkit_version == "2.5.0"
    assert model.inputs
    assert model.outputs
    assert model.notes
    assert isinstance(model.legacy_json, dict)
    assert f"_{model.chip.name}_" in path.stem or model.chip.target in {"RKNPU t3", "RKNPU w1", "RKNPU lite"}


def test_the_corpus_is_read_completely() -> None:
    paths = need_corpus()
    for path in paths:
        model = openrknn.load(path)
        assert (path, model.unknown) == (path, ())
    assert len(paths) > 200


def test_bytes_files_and_paths_give_the_same_model() -> None:
    path = golden("residual_rk3588_i8")
    data = path.read_bytes()
    from_path, from_bytes = openrknn.load(str(path)), openrknn.load(data)
    with path.open("rb") as file:
        from_file = openrknn.load(file)
    assert from_path.graphs == from_bytes.graphs == from_file.graphs == openrknn.load(bytearray(data)).graphs
    assert from_bytes.path is None
    with pytest.raises(TypeError, match="rb"):
        openrknn.load(io.StringIO("text"))  # type: ignore[arg-type]


def test_a_file_that_is_cut_short_later_does_not_end_the_process(tmp_path: Path) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(golden("conv_rk3588_i8").read_bytes())
    model = openrknn.load(path)
    before = [bytes(tensor.data) for tensor in model.graphs[0].tensors if tensor.data]
    os.truncate(path, 0)  # as `cp` does before it writes
    assert [bytes(tensor.data) for tensor in model.graphs[0].tensors if tensor.data] == before


def test_a_huge_file_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer, "_MAPPED_BYTES", 1000)
    model = openrknn.load(golden("conv_rk3588_i8"))
    blobs = [tensor.data for tensor in model.graphs[0].tensors if tensor.data]
    assert {type(blob.obj).__name__ for blob in blobs} == {"mmap"}


@pytest.mark.parametrize("number", [0, 5, True, 3.5, None])
def test_a_number_is_no_descriptor(number: object) -> None:
    with pytest.raises(TypeError, match="a path, bytes or a binary file"):
        openrknn.load(number)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a path, bytes or a binary file"):
        openrknn.Session(number)  # type: ignore[arg-type]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.rknn")
    with pytest.raises(openrknn.UnsupportedError, match="not a regular file"):
        openrknn.load(tmp_path / "pipe.rknn")


def test_an_image_model_says_what_to_feed() -> None:
    model = openrknn.load(golden("image_rk3588_i8"))
    (image,) = model.inputs
    assert (image.name, image.shape, image.dtype, image.layout) == ("image", (1, 16, 16, 3), "int8", "nhwc")
    assert image.is_image
    assert image.quantization is not None
    assert image.quantization.zero_point == (-14,)
    assert image.normalization is not None
    assert image.normalization.mean[:3] == pytest.approx((123.675, 116.28, 103.53))
    assert image.normalization.std[:3] == pytest.approx((58.395, 57.12, 57.375))
    assert str(image) == "image: int8[1,16,16,3] nhwc scale=0.0186584 zero_point=-14"


def test_the_facts_of_a_network() -> None:
    model = openrknn.load(golden("residual_rk3588_i8"))
    assert (model.flavour, model.container_version, model.format_version) == (Flavour.FLATBUFFER, 6, 6)
    assert (model.target, model.platform, model.framework) == ("RKNPU v2", "rk3588", "ONNX")
    assert (model.is_dynamic, model.batch_size, model.custom_string) == (False, 0, "")
    graph = model.graphs[0]
    types = [operator.type for operator in model.operators]
    assert types[0] == "InputOperator"
    assert types[-1] == "OutputOperator"
    for operator in model.operators[1:-1]:
        assert operator.placement is Placement.NPU
        assert operator.tasks
        assert all(task.op_index == operator.index for task in operator.tasks)
    assert set(graph.task_lists) == set(model.chip.task_lists)
    assert sum(map(len, graph.task_lists.values())) == len(graph.tasks)
    weights = [tensor for tensor in graph.tensors if tensor.layout is Layout.O1I1HWI2O2]
    assert {tensor.dtype for tensor in weights} == {DataType.INT8}
    assert {tensor.kind for tensor in weights} <= {Kind.WEIGHT, Kind.COMPILER_CONSTANT}


def test_operators_on_the_cpu_are_told_apart() -> None:
    model = openrknn.load(golden("cpu_sin_rk3588_i8"))
    placed = {operator.type: operator.placement for operator in model.operators}
    assert placed["Sin"] is Placement.CPU
    assert Placement.NPU in placed.values()


def test_attributes_and_parameters() -> None:
    model = openrknn.load(golden("average_pool_rk3588_i8"))
    (pool,) = [operator for operator in model.operators if operator.type == "AveragePool"]
    assert pool.attributes["kernel_shape"] == [3, 3] or pool.attributes["kernel_shape"] == [2, 2]
    parameters = pool.node.parameters
    assert parameters is not None
    assert parameters.values is not None
    assert list(parameters.values["kernel_shape"]) == pool.attributes["kernel_shape"]  # type: ignore[arg-type]


def test_dynamic_shapes() -> None:
    model = openrknn.load(golden("dynamic_rk3588_i8"))
    assert model.is_dynamic
    assert len(model.graphs) == 3
    (shapes,) = model.dynamic_inputs
    assert [graph.tensors[graph.inputs[0]].shape for graph in model.graphs] == list(shapes.shapes)
    assert model.shared_weights
    for name in model.shared_weights:
        first, *others = (graph.tensor_named(name) for graph in model.graphs)
        assert first is not None
        assert first.data
        assert all(tensor is not None and not tensor.data for tensor in others)


def test_variants_of_the_converter() -> None:
    assert openrknn.load(golden("image_rk3588_i8_batch2")).batch_size == 2
    assert not openrknn.load(golden("image_rk3588_i8_custom_string")).custom_string.isascii()
    single = openrknn.load(golden("residual_rk3588_i8_single_core"))
    assert set(single.graphs[0].task_lists) == {TaskList(1, 0)}
    compressed = openrknn.load(golden("residual_rk3588_i8_compressed"))
    assert openrknn.load(golden("residual_rk3588_w16a16i_dfp")).inputs[0].dtype == "int16"
    assert compressed.graphs


@pytest.mark.parametrize("name", ["residual_rv1106_i8", "residual_rv1103_i8", "residual_rk3588_i8_mini"])
def test_mini_files_are_linked_already(name: str) -> None:
    """Each relocated register holds its address in [commands | constants | weights | internal] with base 0."""
    model = openrknn.load(golden(name))
    assert (model.flavour, model.container_version) == (Flavour.MINI, 0x1004)
    graph = model.graphs[0]
    commands = len(graph.commands) * 8
    constants = commands + model.memory.constant_bytes
    starts = {Kind.WEIGHT: constants, Kind.CPU_CONSTANT: constants, Kind.COMPILER_CONSTANT: commands}
    for kind in (Kind.INPUT, Kind.OUTPUT, Kind.INTERNAL):
        starts[kind] = constants + model.memory.weight_bytes
    checked = 0
    for group in graph.relocations:
        tensor = graph.tensor_named(group.tensor)
        assert tensor is not None
        if tensor.kind not in starts:
            continue
        for entry in group:
            value = (graph.commands[entry.command] >> 16) & 0xFFFFFFFF
            assert value == starts[tensor.kind] + tensor.offset + entry.addend
            checked += 1
    assert checked > 10


def test_task_words_end_with_the_tail() -> None:
    graph = openrknn.load(golden("conv_rk3588_i8")).graphs[0]
    task = graph.tasks[0]
    words = graph.task_words(task)
    assert len(words) == task.amount + 4 == len(graph.task_words(task, tail=False)) + 4
    assert words[-1] == 0x0081_0000_0000_0008 | task.enable_mask << 16


def test_specs_survive_a_damaged_description() -> None:
    from dataclasses import replace

    model = openrknn.load(golden("conv_rk3588_i8"))
    damaged = replace(model, input_json="{", output_json=json.dumps([1]))
    assert [spec.name for spec in damaged.inputs] == [spec.name for spec in model.inputs]
    assert damaged.outputs[0].layout == "nchw"


def test_toolkit_version_without_text() -> None:
    from dataclasses import replace

    model = replace(openrknn.load(golden("conv_rk3588_i8")), toolkit_text="")
    assert model.toolkit_version == "2.5.0"
