"""TensorFlow and Keras files of an attacker, up to the point where TensorFlow would open them: none is needed here."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.tensorflow.keras_config import checked_config
from openrknn.compiler.importer.formats.tensorflow.members import copy_model
from tests.compiler.formats.caffe_nets import field


def layer(kind: str, module: str | None = "keras.layers", **more: Any) -> str:
    inner = {"module": module, "class_name": kind, "config": {}, "registered_name": None, **more}
    outer = {"module": "keras.src.models.functional", "class_name": "Functional", "registered_name": "Functional"}
    return json.dumps({**outer, "config": {"layers": [inner]}})


def test_keras_layers_are_read() -> None:
    for text in (layer("Conv2D"), layer("Add", "keras.src.ops.numpy"), layer("ReLU", None)):
        assert json.loads(checked_config(text, "net")) == json.loads(text)


@pytest.mark.parametrize("text", [
    layer("Lambda"), layer("Lambda", None), layer("__lambda__"), layer("TFOpLambda", None), layer("TFSMLayer"),
    layer("TorchModuleWrapper"), layer("StringLookup"), layer("system", "os"), layer("function", "builtins"),
    layer("get_file", "keras.utils"), layer("run", "keras.src.utils.python_utils"), layer("X", registered_name="my>X"),
    layer("a.b"), "[]", "{", "{}", "[" * 100_000, layer("Conv2D", activation={"class_name": "__lambda__"}),
    layer("Conv2D", activation={"module": "subprocess", "class_name": "function", "config": "run"}),
])  # fmt: skip
def test_keras_code_is_refused(text: str) -> None:
    with pytest.raises(ModelError):
        checked_config(text, "net")


def test_a_keras_archive_is_taken_apart(tmp_path: Path) -> None:
    path, folder = tmp_path / "net.keras", tmp_path / "private"
    folder.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", layer("Dense"))
        archive.writestr("model.weights.h5", b"weights")
        archive.writestr("assets/evil.py", b"code")
    assert Path(copy_model(path, "keras", folder)).read_bytes() == b"weights"
    assert sorted(os.listdir(folder)) == ["config.json", "weights.h5"]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("CONFIG.json", layer("Lambda"))
    with pytest.raises(ModelError, match="two members"):
        copy_model(path, "keras", folder)


def graph(operator: str) -> bytes:
    return field(1, field(1, b"node") + field(2, operator.encode()))


def function(operator: str) -> bytes:
    """An operator inside a function of the graph."""
    return field(2, field(1, field(3, field(2, operator.encode()))))


@pytest.mark.parametrize("operator", ["ReadFile", "PyFunc", "EagerPyFunc", "WriteFile", "TFRecordDataset", "PrintV2"])
def test_operators_that_reach_out_are_refused(tmp_path: Path, operator: str) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    for data in (graph(operator), function(operator)):
        (tmp_path / "net.pb").write_bytes(data)
        with pytest.raises(ModelError, match=operator):
            copy_model(tmp_path / "net.pb", "frozen", folder)
        saved = tmp_path / "saved"
        saved.mkdir(exist_ok=True)
        (saved / "saved_model.pb").write_bytes(field(2, field(2, data)))
        with pytest.raises(ModelError, match=operator):
            copy_model(saved, "saved_model", tmp_path / f"private{len(data)}")
    (tmp_path / "net.pb").write_bytes(graph("Conv2D"))
    assert Path(copy_model(tmp_path / "net.pb", "frozen", folder)).read_bytes() == graph("Conv2D")


def test_a_saved_model_has_plain_files_only(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    (saved / "variables").mkdir(parents=True)
    (saved / "saved_model.pb").write_bytes(field(2, field(2, graph("Conv2D"))))
    (saved / "variables" / "variables.index").write_bytes(b"index")
    (saved / "variables" / "evil.py").write_bytes(b"code")
    made = Path(copy_model(saved, "saved_model", tmp_path / "one"))
    assert [entry.name for entry in (made / "variables").iterdir()] == ["variables.index"]
    (tmp_path / "secret").write_text("secret")
    (saved / "variables" / "variables.data-00000-of-00001").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="links are not followed"):
        copy_model(saved, "saved_model", tmp_path / "two")
    (saved / "variables" / "variables.data-00000-of-00001").unlink()
    os.mkfifo(saved / "variables" / "variables.data-00000-of-00001")
    with pytest.raises(ModelError, match="not a regular file"):
        copy_model(saved, "saved_model", tmp_path / "three")
