"""TensorFlow's files become ONNX in a process of its own. The witness is TensorFlow itself."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from openrknn.compiler import read_model
from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats import format_of, tensorflow
from tests.compiler.formats.witness import ran
from tests.compiler.nets import Net

HAS = all(importlib.util.find_spec(name) for name in ("tensorflow", "tf2onnx"))
needed = pytest.mark.skipif(not HAS, reason="the extra `tensorflow` is not installed")

MAKE = """
import sys
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

folder = sys.argv[1]
tf.keras.utils.set_random_seed(0)
layers = tf.keras.layers
x = layers.Input((16, 16, 3), name="picture")
y = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(x)
y = layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(y))
y = layers.GlobalAveragePooling2D()(layers.ReLU(6.0)(y))
model = tf.keras.Model(x, [layers.Dense(5, activation="softmax", name="scores")(y), layers.Dense(2, name="place")(y)])
model.save(f"{folder}/net.keras")
model.save(f"{folder}/net.h5")
model.export(f"{folder}/saved")
spec = tf.TensorSpec((None, 16, 16, 3), tf.float32, name="picture")
function = tf.function(lambda x: model(x)).get_concrete_function(spec)
graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
open(f"{folder}/frozen.pb", "wb").write(graph.SerializeToString())
fed = np.random.default_rng(0).normal(0, 1, (1, 16, 16, 3)).astype(np.float32)
scores, place = model(fed)
np.savez(f"{folder}/said.npz", fed=fed, scores=scores.numpy(), place=place.numpy())
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorflow")
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], check=True, capture_output=True)
    return folder


@needed
@pytest.mark.parametrize("name", ["net.keras", "net.h5", "saved", "saved/saved_model.pb"])
def test_models_compute_what_tensorflow_says(made: Path, name: str) -> None:
    said = np.load(made / "said.npz")
    got = ran(read_model(made / name), {"picture": said["fed"].transpose(0, 3, 1, 2)})
    assert sorted(got) == (["output_0", "output_1"] if "saved" in name else ["place", "scores"])
    by_size = {value.shape[1]: value for value in got.values()}
    np.testing.assert_allclose(by_size[5], said["scores"], atol=1e-5)
    np.testing.assert_allclose(by_size[2], said["place"], atol=1e-5)


@needed
def test_frozen_graphs_find_their_ends_or_are_told(made: Path) -> None:
    said = np.load(made / "said.npz")
    fed = said["fed"].transpose(0, 3, 1, 2)
    whole = ran(read_model(made / "frozen.pb"), {"picture": fed})
    assert {value.shape for value in whole.values()} == {(1, 5), (1, 2)}
    name = next(name for name, value in whole.items() if value.shape == (1, 5))
    told = tensorflow.read(made / "frozen.pb", inputs=["picture:0"], sizes=[[16, 16, 3]], outputs=[name])
    assert [dim.dim_value for dim in told.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 16, 16]
    (got,) = ran(told, {"picture": fed}).values()
    np.testing.assert_allclose(got, said["scores"], atol=1e-5)
    as_is = tensorflow.read(made / "frozen.pb", inputs=["picture"], outputs=[name], input_is_nchw=True)
    np.testing.assert_allclose(ran(as_is, {"picture": said["fed"]})[name], said["scores"], atol=1e-5)


@needed
def test_what_cannot_be_converted_is_one_line(made: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no operator 'nothing'; inputs look like picture"):
        tensorflow.read(made / "frozen.pb", inputs=["nothing"])
    cut = tmp_path / "cut.keras"
    cut.write_bytes((made / "net.keras").read_bytes()[:2000])
    with pytest.raises(ModelError, match=r"cut\.keras cannot be converted: "):
        read_model(cut)
    cut = tmp_path / "cut.pb"
    cut.write_bytes((made / "frozen.pb").read_bytes()[:2000])
    with pytest.raises(ModelError, match=r"cut\.pb cannot be converted: "):
        read_model(cut)


LAMBDA = """
import sys
import tensorflow as tf
code = tf.keras.layers.Lambda(lambda x: (open(sys.argv[1] + "/ran", "w"), x)[1], output_shape=(4,))
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), code])
for name in ("net.keras", "net.h5"):
    model.save(f"{sys.argv[1]}/{name}")
"""


@needed
def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LAMBDA, str(tmp_path)], check=True, capture_output=True)
    (tmp_path / "ran").unlink(missing_ok=True)
    for name in ("net.keras", "net.h5"):
        with pytest.raises(ModelError, match="Lambda"):
            read_model(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_without_tensorflow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    path = tmp_path / "net.pb"
    path.write_bytes(b"\n\x05\n\x03abc")
    with pytest.raises(ModelError, match=r"tensorflow and tf2onnx are not installed; install it with .*openrknn\[tens"):
        read_model(path)


def test_onnx_under_the_name_of_a_graph_is_onnx(tmp_path: Path) -> None:
    net = Net()
    model = net.model({"x": (1, 3, 4, 4)}, [net.conv("x", 3, 4)])
    onnx.save(model, str(tmp_path / "net.pb"))
    assert format_of(tmp_path / "net.pb") is None
    assert len(read_model(tmp_path / "net.pb").graph.node) == 1
    (tmp_path / "graph.pb").write_bytes(b"\n\x05\n\x03abc")
    found = format_of(tmp_path / "graph.pb")
    assert found is not None
    assert found.reader == "tensorflow"
    (tmp_path / "empty.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="is empty"):
        read_model(tmp_path / "empty.pb")
