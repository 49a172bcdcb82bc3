"""Networks of Darknet and Caffe on the software NPU: compiled in fp16, checked against the float model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.cli.main import main
from openrknn.compiler import compile_model, read_model
from openrknn.compiler.verify import verify
from tests.compiler.formats.caffe_nets import Caffe, resnet18, squeezenet
from tests.compiler.formats.darknet_nets import Darknet, yolov3_tiny, yolov4_tiny
from tests.compiler.formats.witness import ran

NETWORKS: list[tuple[Callable[[], Darknet | Caffe], list[str]]] = [
    (yolov3_tiny, []), (yolov4_tiny, []), (resnet18, ["exSoftmax13"]), (squeezenet, ["exSoftmax13"]),
]  # fmt: skip


@pytest.mark.parametrize(("make", "on_cpu"), NETWORKS, ids=lambda value: getattr(value, "__name__", ""))
def test_whole_networks_run_on_the_npu(make: Callable[[], Darknet | Caffe], on_cpu: list[str], tmp_path: Path) -> None:
    made = compile_model(make().save(tmp_path))
    assert [step.type for step in made.lowering.program.steps if step.is_cpu] == on_cpu
    assert min(verdict.decibels for verdict in verify(made)) > 50


def mish_net(folder: Path) -> Path:
    net = Darknet(3, 32, 32)
    net.conv(8, 3, 2, activation="mish")
    net.conv(8, 3, 1, activation="mish")
    net.shortcut(0, "linear")
    net.conv(9, 1, activation="linear", normalised=False)
    net.yolo("0", "10,14", 4)
    return net.save(folder)


def test_from_python_a_pair_is_a_model(tmp_path: Path) -> None:
    path = mish_net(tmp_path)
    model = openrknn.compile((path, path.with_suffix(".weights")))
    feed = np.random.default_rng(0).uniform(0, 1, (1, 3, 32, 32)).astype(np.float32)
    (wanted,) = ran(read_model(path), {"data": feed}).values()
    with openrknn.Session(model, "software") as session:
        assert [spec.name for spec in session.outputs] == ["yolo_4"]
        got = session.run({"data": feed.transpose(0, 2, 3, 1)})["yolo_4"]
    np.testing.assert_allclose(got, wanted, atol=0.02)


def test_the_command_takes_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = mish_net(tmp_path)
    assert main(["compile", str(path), "-o", str(tmp_path / "a.rknn"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0].startswith("yolo_4")
    path.with_suffix(".weights").rename(tmp_path / "other.weights")
    assert main(["compile", str(path)]) != 0
    assert "net.weights is not beside it" in capsys.readouterr().err
    assert main(["compile", str(path), "--weights", str(tmp_path / "other.weights"), "-q"]) == 0
    assert (tmp_path / "net.rknn").read_bytes() == (tmp_path / "a.rknn").read_bytes()
