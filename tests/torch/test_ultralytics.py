"""Checkpoints of Ultralytics: exported by the package of that name, here a small stand-in, in a confined child."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.compiler import compile_onnx
from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats import pytorch
from openrknn.compiler.importer.formats.pytorch.checkpoint import image_size
from openrknn.compiler.importer.read import read_model
from openrknn.container.metadata import metadata_of

STUB = '''
import os
from pathlib import Path


class YOLO:
    def __init__(self, path):
        self.path = Path(path)
        assert self.path.read_bytes()[:2] == b"PK"

    def export(self, format, simplify, dynamic, device, imgsz=(32, 32)):
        print("chatter that nobody reads")
        assert (format, simplify, dynamic, device) == ("onnx", False, False, "cpu")
        assert os.environ["YOLO_AUTOINSTALL"] == "false"
        assert "SECRET" not in os.environ
        import numpy as np
        from onnx import TensorProto, helper, numpy_helper

        height, width = imgsz
        image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, height, width])
        scores = helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 2, height, width])
        weights = numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w")
        node = helper.make_node("Conv", ["images", "w"], ["output0"])
        model = helper.make_model(
            helper.make_graph([node], "net", [image], [scores], [weights]), opset_imports=[helper.make_opsetid("", 13)]
        )
        helper.set_model_props(
            model,
            {"names": "{0: 'cat', 1: 'dog'}", "task": "segment", "imgsz": str([height, width]), "stride": "32"},
        )
        made = self.path.with_suffix(".onnx")
        made.write_bytes(model.SerializeToString())
        return str(made)
'''


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that names ultralytics' classes, and a package of that name."""
    library = tmp_path / "library"
    (library / "ultralytics").mkdir(parents=True)
    (library / "ultralytics" / "__init__.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(library))
    monkeypatch.setenv("SECRET", "a token")
    monkeypatch.setenv(pytorch.TRUST, "1")  # the stand-in is ours; kernels of test machines may lack the guards
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.delitem(sys.modules, "ultralytics", raising=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("best/data.pkl", b"cultralytics.nn.tasks\nDetectionModel\n.")
        archive.writestr("best/version", b"3\n")
    path = tmp_path / "best.pt"
    path.write_bytes(buffer.getvalue())
    return path


def test_a_checkpoint_becomes_a_model_with_its_names(checkpoint: Path) -> None:
    model = compile_onnx(checkpoint, fp16=True, check=False)
    found = metadata_of(model)
    assert (found.names, found.task, found.stride, found.imgsz) == (("cat", "dog"), "segment", 32, (32, 32))
    assert model.inputs[0].shape == (1, 32, 32, 3)
    with openrknn.Session(model, "software") as session:
        (scores,) = session.run(np.full((1, 32, 32, 3), 255, np.uint8)).values()
    np.testing.assert_allclose(scores, 3, atol=0.02)  # pixels of 0 to 1, as all its models take them


def test_the_size_of_images_is_chosen_by_shapes(checkpoint: Path) -> None:
    model = read_model(checkpoint, shapes={"images": (1, 3, 64, 96)})
    assert [entry.dim_value for entry in model.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 64, 96]
    assert image_size(None) == []
    with pytest.raises(ModelError, match="its shape is 1,3,HEIGHT,WIDTH"):
        image_size({"images": (1, 3, 64)})


def test_without_the_package_it_says_what_to_do(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"best\.pt is a checkpoint of ultralytics.*pip install ultralytics"):
        read_model(checkpoint)


def test_without_guards_nothing_is_loaded(checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import json
    import os

    from openrknn.sandbox import child

    monkeypatch.setattr(child, "confine", lambda *_: frozenset({"network"}))
    order = {"worker": "no.such.module", "request": {}, "folder": "", "memory": 1, "seconds": 1, "file_bytes": 1}
    with (tmp_path / "answer").open("w+b") as file:
        child.serve({**order, "required": ["files", "network"]}, file.fileno())
        head = json.loads(os.pread(file.fileno(), 4096, 0).splitlines()[0])
    assert (head["size"], head["named"]) == (0, True)
    assert "cannot protect files from it" in head["refusal"]
