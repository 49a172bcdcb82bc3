from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer import import_model
from openrknn.compiler.ir import format_graph
from tests.compiler.nets import Net


def test_constants_and_shapes_are_computed() -> None:
    net = Net()
    a = net.conv("x", 4, 8)
    shape = net.add("Shape", a)
    half = net.add("Div", shape, net.constant([1, 2, 1, 1], np.int64))
    twice = net.add("Mul", half, net.constant([1, 1, 1, 2], np.int64))
    out = net.add("Reshape", a, twice)
    graph = import_model(net.model({"x": (1, 4, 6, 6)}, [out])).graph
    assert [op.type for op in graph.ops] == ["Conv", "Reshape"]
    assert graph.shape(out) == (1, 4, 6, 12)


def test_the_text_form_names_every_operator_and_shape() -> None:
    net = Net()
    out = net.add("Relu", net.conv("x", 3, 8))
    text = format_graph(import_model(net.model({"x": (1, 3, 5, 5)}, [out])).graph)
    assert "input  %x[1,3,5,5]" in text
    assert "%t2[1,8,5,5] = Relu(%t1)" in text


def test_an_open_shape_is_bound_or_asked_for() -> None:
    net = Net()
    out = net.conv("x", 3, 8)
    model = net.model({"x": ("batch", 3, "height", "width")}, [out])
    with pytest.raises(ModelError, match=r"'x' has the open shape \[1, 3, height, width\]; .*--shapes x=1,3,640,640"):
        import_model(model)
    assert import_model(model, shapes={"x": (1, 3, 10, 12)}).graph.shape(out) == (1, 8, 10, 12)
    with pytest.raises(ModelError, match="not an input; the model has: x"):
        import_model(model, shapes={"y": (1, 3, 10, 12)})
    with pytest.raises(ModelError, match="is fixed to"):
        import_model(model, shapes={"x": (1, 4, 10, 12)})


def test_the_model_is_cut_at_named_outputs() -> None:
    net = Net()
    middle = net.conv("x", 3, 8)
    out = net.add("Relu", middle)
    model = net.model({"x": (1, 3, 5, 5)}, [out])
    assert import_model(model, outputs=[middle]).graph.outputs == [middle]
    with pytest.raises(ModelError, match="'nothing' is not computed"):
        import_model(model, outputs=["nothing"])


def test_weights_that_are_not_numbers_are_named() -> None:
    net = Net()
    out = net.add("Conv", "x", net.constant(np.full((8, 3, 1, 1), np.nan)), kernel_shape=[1, 1])
    with pytest.raises(ModelError, match=r"24 of 24 numbers in the constant 'k0' .* are NaN"):
        import_model(net.model({"x": (1, 3, 5, 5)}, [out]))


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "is empty"), (b"RKNN\0\0\0\0", "is a .rknn already"), (b"\x89PNG\r\n\x1a\n" * 9, "is not an ONNX model")],
)
def test_files_that_are_no_onnx(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=message):
        import_model(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        import_model(tmp_path / "net.onnx")
