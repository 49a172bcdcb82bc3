"""External data of ONNX models: found wherever it is, allowed in the model's folder only. Evidence: onnx.proto."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.container.bundle import read_bundle, write_bundle
from openrknn.container.onnxdata import (
    _MESSAGES,
    check_external_data,
    check_onnx_file,
    external_data,
    external_in_model,
    refuse_external_data,
)
from openrknn.errors import BadReferenceError, FormatError
from tests.parted_file import parted_bundle

onnx = pytest.importorskip("onnx")
SECRET = "secret.txt"


def outside(name: str = "stolen", location: str = SECRET) -> Any:
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.UINT8, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def model_of(nodes: Any, initializers: Any = ()) -> Any:
    from onnx import helper

    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "g", [given], [onnx.ValueInfoProto(name="y")], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def plain() -> Any:
    return model_of([onnx.helper.make_node("Relu", ["x"], ["y"])])


def initializer() -> Any:
    return model_of([onnx.helper.make_node("Identity", ["stolen"], ["y"])], [outside()])


def unmarked() -> Any:
    """A location without the flag."""
    model = initializer()
    model.graph.initializer[0].data_location = 0
    return model


def constant() -> Any:
    return model_of([onnx.helper.make_node("Constant", [], ["y"], value=outside())])


def attribute_list() -> Any:
    node = onnx.helper.make_node("Custom", ["x"], ["y"])
    node.attribute.add(name="tensors", type=onnx.AttributeProto.TENSORS).tensors.append(outside())
    return model_of([node])


def sparse() -> Any:
    model = plain()
    model.graph.sparse_initializer.add().values.CopyFrom(outside())
    return model


def sparse_indices() -> Any:
    node = onnx.helper.make_node("Constant", [], ["y"])
    node.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR).sparse_tensor.indices.CopyFrom(
        outside()
    )
    return model_of([node])


def subgraph() -> Any:
    node = onnx.helper.make_node("If", ["x"], ["y"])
    for name in ("then_branch", "else_branch"):
        node.attribute.add(name=name, type=onnx.AttributeProto.GRAPH).g.CopyFrom(constant().graph)
    return model_of([node])


def function() -> Any:
    model = plain()
    made = model.functions.add(name="f", domain="d")
    made.node.append(onnx.helper.make_node("Constant", [], ["y"], value=outside()))
    return model


def function_default() -> Any:
    model = plain()
    made = model.functions.add(name="f", domain="d")
    made.attribute_proto.add(name="a", type=onnx.AttributeProto.TENSOR).t.CopyFrom(outside())
    return model


def training() -> Any:
    model = plain()
    model.training_info.add().initialization.initializer.append(outside())
    return model


PLACES = [
    initializer, unmarked, constant, attribute_list, sparse, sparse_indices, subgraph, function, function_default,
    training,
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_it_is_found_wherever_it_is(place: Callable[[], Any]) -> None:
    model = place()
    found = external_data(model.SerializeToString())
    assert {(entry.tensor, entry.location) for entry in found} == {("stolen", SECRET)}
    assert external_in_model(model) == found
    with pytest.raises(BadReferenceError, match="'stolen' in another file"):
        refuse_external_data(model.SerializeToString(), "it")


def test_the_table_of_messages_is_that_of_onnx() -> None:
    """Every way from a model to a tensor, as the installed onnx declares it."""
    tensor = onnx.TensorProto.DESCRIPTOR
    messages = {
        "model": onnx.ModelProto, "training": onnx.TrainingInfoProto, "function": onnx.FunctionProto,
        "graph": onnx.GraphProto, "node": onnx.NodeProto, "attribute": onnx.AttributeProto,
        "sparse": onnx.SparseTensorProto, "tensor": onnx.TensorProto,
    }  # fmt: skip
    names = {kind.DESCRIPTOR.full_name: name for name, kind in messages.items()}

    def holds(descriptor: Any, seen: frozenset[str] = frozenset()) -> bool:
        if descriptor.full_name == tensor.full_name:
            return True
        if descriptor.full_name in seen:
            return False
        inner = [field.message_type for field in descriptor.fields if field.message_type is not None]
        return any(holds(entry, seen | {descriptor.full_name}) for entry in inner)

    for name in _MESSAGES:
        fields = [field for field in messages[name].DESCRIPTOR.fields if field.message_type is not None]
        wanted = {
            field.number: names.get(field.message_type.full_name) for field in fields if holds(field.message_type)
        }
        assert wanted == _MESSAGES[name], name


def test_models_without_it_pass() -> None:
    refuse_external_data(plain().SerializeToString(), "it")
    assert external_in_model(plain()) == []


@pytest.mark.parametrize(
    "data", [b"\x0b", b"\x0f\xff", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"ORTM" * 9, b"\x3a\x7f"]
)
def test_what_is_no_protobuf_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        external_data(data)


def test_messages_in_messages_end() -> None:
    data = constant().graph.SerializeToString()
    for _ in range(60):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # a graph in an attribute in a node in a graph
            length = len(data)
            data = tag + bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + data
    with pytest.raises(FormatError, match="deep"):
        external_data(b"\x3a" + bytes([len(data) & 127 | 128, len(data) >> 7 & 127 | 128, len(data) >> 14]) + data)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_parts_of_a_file_contain_their_weights(
    place: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openrknn.runtime.parted.steps import CpuStep

    (tmp_path / SECRET).write_bytes(b"token")
    monkeypatch.chdir(tmp_path)
    bundle = parted_bundle()
    part = next(part for part in bundle.parts if part.kind == "cpu")
    hostile = replace(bundle, files={**bundle.files, part.file: place().SerializeToString()})
    with pytest.raises(BadReferenceError, match=part.file):
        read_bundle(write_bundle(hostile))
    with pytest.raises(BadReferenceError, match="another file"):
        CpuStep(part, hostile.files[part.file])


@pytest.mark.parametrize(
    "location",
    ["/etc/hostname", "../secret.txt", "a/../../secret.txt", "", "link", "sub/link", "sub", "gone", "a\0b", "circle"],
)
def test_files_outside_of_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    from openrknn.compiler.errors import ModelError
    from openrknn.compiler.importer.read import read_model

    (tmp_path / SECRET).write_bytes(b"token")
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / SECRET)
    (folder / "sub" / "link").symlink_to(tmp_path)
    (folder / "circle").symlink_to(folder / "circle")
    data = model_of(
        [onnx.helper.make_node("Identity", ["stolen"], ["y"])], [outside(location=location)]
    ).SerializeToString()
    (folder / "m.onnx").write_bytes(data)
    with pytest.raises(BadReferenceError, match="'stolen'"):
        check_external_data(data, folder, "m.onnx")
    with pytest.raises(BadReferenceError, match=r"m\.onnx"):
        check_onnx_file(folder / "m.onnx")
    with pytest.raises(ModelError, match=r"its external weights cannot be read: .*'stolen'"):
        read_model(folder / "m.onnx")


def test_files_inside_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.compiler.importer.read import read_model

    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(b"abcd")
    os.symlink(tmp_path / "weights" / "w.bin", tmp_path / "w.bin")
    model = model_of([onnx.helper.make_node("Identity", ["stolen"], ["y"])], [outside(location="weights/w.bin")])
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [4]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    check_onnx_file(tmp_path / "m.onnx")
    read = read_model(tmp_path / "m.onnx")
    assert onnx.numpy_helper.to_array(read.graph.initializer[0]).tobytes() == b"abcd"
    model.graph.initializer[0].external_data[0].value = "w.bin"  # a link that stays inside
    check_external_data(model.SerializeToString(), tmp_path, "m.onnx")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert onnx.numpy_helper.to_array(read_model(tmp_path / "m.onnx").graph.initializer[0]).tobytes() == b"abcd"


def test_tensors_that_share_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.compiler.errors import ModelError
    from openrknn.compiler.importer.read import read_model

    monkeypatch.setattr("openrknn.compiler.importer.external._FREE", 0)
    (tmp_path / "w.bin").write_bytes(b"abcd")
    tensors = [outside(location="w.bin") for _ in range(3)]
    model = model_of([onnx.helper.make_node("Identity", ["stolen"], ["y"])], tensors)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="take 12 bytes from files of 4 bytes: too many tensors share"):
        read_model(tmp_path / "m.onnx")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_models_without_a_folder_are_refused_by_the_reader(
    place: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openrknn.compiler.errors import ModelError
    from openrknn.compiler.float_model import FloatModel
    from openrknn.compiler.importer.read import read_model

    (tmp_path / SECRET).write_bytes(b"token")
    monkeypatch.chdir(tmp_path)
    model = place()
    for source in (model, model.SerializeToString()):
        with pytest.raises(ModelError, match="another file"):
            read_model(source)
    with pytest.raises(Exception, match="another file"):
        FloatModel(model, ["y"])


def test_the_reference_of_comparisons_stays_in_its_folder(tmp_path: Path) -> None:
    from openrknn.analysis.accuracy.reference import Reference
    from openrknn.errors import ComparisonError

    (tmp_path / SECRET).write_bytes(b"token")
    (tmp_path / "model").mkdir()
    for number, place in enumerate((initializer, constant, function, sparse)):
        model = place()
        if place is initializer:
            model.graph.initializer[0].external_data[0].value = f"../{SECRET}"
        path = tmp_path / "model" / f"{number}.onnx"
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ComparisonError, match="stolen"):
            Reference.load(str(path))


def test_the_front_end_gives_bytes_without_a_folder_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pytest.importorskip("onnxruntime")
    import openrknn.onnxruntime as ours

    (tmp_path / SECRET).write_bytes(b"tokn")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    model = model_of([onnx.helper.make_node("Identity", ["stolen"], ["y"])], [outside()])
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [4]))
    data = model.SerializeToString()
    with pytest.raises(real.capi.onnxruntime_pybind11_state.Fail, match="'stolen' in another file"):
        ours.InferenceSession(data)
    model.graph.initializer[0].external_data[0].value = f"../{SECRET}"
    (tmp_path / "elsewhere" / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(real.capi.onnxruntime_pybind11_state.Fail, match="not a path inside"):
        ours.InferenceSession(tmp_path / "elsewhere" / "m.onnx")
    options = real.SessionOptions()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="given up"):
        session = ours.InferenceSession(data, options)
    (found,) = session.run(None, {"x": np.zeros(1, np.float32)})
    assert found.tobytes() == b"tokn"
