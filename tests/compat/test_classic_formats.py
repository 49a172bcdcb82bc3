"""`RKNN.load_darknet`, `load_caffe` and `load_tensorflow` with the vendor's arguments and return codes."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import openrknn
from rknn.api import RKNN
from tests.compat.lab import listening

pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from tests.compiler.formats.caffe_nets import Caffe
from tests.compiler.formats.darknet_nets import Darknet


def small_darknet() -> Darknet:
    net = Darknet(3, 16, 16)
    net.conv(8, stride=2)
    net.conv(9, 1, activation="linear", normalised=False)
    net.yolo("0", "10,14", 4)
    return net


def small_caffe() -> Caffe:
    net = Caffe(1, 3, 16, 16)
    net.relu(net.conv("data", 3, 8, 3, 2))
    return net


def ready() -> RKNN:
    rknn = RKNN()
    assert rknn.config(mean_values=[[0, 0, 0]], std_values=[[255, 255, 255]], target_platform="rk3588") == 0
    return rknn


def test_signatures_are_the_vendors() -> None:
    wanted = {
        "load_darknet": ["model", "weight"],
        "load_caffe": ["model", "blobs", "input_name"],
        "load_tensorflow": ["tf_pb", "inputs", "input_size_list", "outputs", "input_is_nchw"],
    }
    for name, arguments in wanted.items():
        assert list(inspect.signature(getattr(RKNN, name)).parameters)[1:] == arguments


def test_a_darknet_network_is_loaded_built_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_darknet().save(tmp_path)
    (tmp_path / "net.weights").rename(tmp_path / "trained.weights")
    rknn = ready()
    assert rknn.load_darknet(model="./net.cfg", weight="./trained.weights") == 0
    assert rknn.build(do_quantization=False) == 0
    assert rknn.export_rknn("net.rknn") == 0
    assert rknn.init_runtime() == 0
    outputs = rknn.inference(inputs=[np.full((16, 16, 3), 128, np.uint8)])
    assert outputs is not None
    assert [value.shape for value in outputs] == [(1, 9, 8, 8)]
    assert outputs[0].std() > 0.01
    rknn.release()
    assert [spec.name for spec in openrknn.Session("net.rknn", "software").outputs] == ["yolo_2"]


def test_its_layers_can_be_compared_with_float(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_darknet().save(tmp_path)
    np.save("picture.npy", np.random.default_rng(0).integers(0, 256, (1, 16, 16, 3)).astype(np.uint8))
    rknn = ready()
    assert rknn.load_darknet("net.cfg", "net.weights") == 0
    assert rknn.build(do_quantization=False) == 0
    assert rknn.accuracy_analysis(inputs=["picture.npy"], output_dir="snapshot") == 0
    assert "yolo_2" in Path("snapshot/error_analysis.txt").read_text()
    assert Path("snapshot/net.onnx").exists()


def test_a_caffe_network_is_loaded_in_int8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_caffe().save(tmp_path)
    np.save("picture.npy", np.random.default_rng(0).integers(0, 256, (1, 3, 16, 16)).astype(np.uint8))
    Path("list.txt").write_text("picture.npy\n")
    rknn = ready()
    assert rknn.load_caffe(model="net.prototxt", blobs="net.caffemodel", input_name=["data"]) == 0
    assert rknn.build(do_quantization=True, dataset="list.txt") == 0
    assert rknn.init_runtime() == 0
    outputs = rknn.inference(inputs=[np.load("picture.npy").transpose(0, 2, 3, 1)])
    assert outputs is not None
    assert outputs[0].shape == (1, 8, 7, 7)
    rknn.release()


def test_what_is_missing_is_minus_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = small_darknet().save(tmp_path)
    rknn = RKNN()
    with listening(rknn.rknn_base) as heard:
        assert rknn.load_darknet("net.cfg", "net.weights") == -1
        assert rknn.config(target_platform="rk3588") == 0
        assert rknn.load_darknet("net.cfg", "none.weights") == -1
        assert rknn.load_caffe("none.prototxt") == -1
        path.with_suffix(".weights").write_bytes(b"too short")
        assert rknn.load_darknet("net.cfg") == -1
    said = heard.text()
    assert "call config" in said
    assert "none.weights cannot be read: No such file" in said
    assert "none.prototxt is one of the two files of a Caffe network" in said
    assert "too short for the header of Darknet weights" in said


def test_a_frozen_graph_is_loaded_with_the_toolkits_arguments(tmp_path: Path) -> None:
    if not all(importlib.util.find_spec(name) for name in ("tensorflow", "tf2onnx")):
        pytest.skip("the extra `tensorflow` is not installed")
    code = """
import sys
import tensorflow as tf
with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [None, 16, 16, 3], name="picture")
    kernel = tf.constant([0.1] * 3 * 3 * 3 * 8, shape=[3, 3, 3, 8])
    tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "SAME"), name="map")
open(sys.argv[1], "wb").write(graph.as_graph_def().SerializeToString())
"""
    path = tmp_path / "net.pb"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True)
    rknn = ready()
    assert rknn.load_tensorflow(
        tf_pb=str(path), inputs=["picture"], input_size_list=[[16, 16, 3]], outputs=["map"]
    ) == 0  # fmt: skip
    assert rknn.build(do_quantization=False) == 0
    assert rknn.init_runtime() == 0
    outputs = rknn.inference(inputs=[np.full((1, 16, 16, 3), 255, np.uint8)])
    assert outputs is not None
    assert outputs[0].shape == (1, 8, 8, 8)
    np.testing.assert_allclose(outputs[0][0, 0, 0], 2.7, rtol=2e-3)
    rknn.release()


def test_tensorflow_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / "net.pb").write_bytes(b"\n\x05\n\x03abc")
    rknn = ready()
    with listening(rknn.rknn_base) as heard:
        assert rknn.load_tensorflow(str(tmp_path / "net.pb"), ["x"], [[16, 16, 3]], ["y"]) == -1
    assert "tensorflow and tf2onnx are not installed" in heard.text()
