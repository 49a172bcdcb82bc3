"""`rknn.api.RKNN`: it runs models, measures and compares them, and is honest about the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from rknn.api import RKNN
from tests.compat.lab import Lab, listening

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MODEL = str(GOLDENS / "image_rk3588_i8.rknn")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(GOLDENS, tmp_path)


def ready(**options: Any) -> RKNN:
    rknn = RKNN(verbose=False)
    assert rknn.load_rknn(MODEL) == 0
    assert rknn.init_runtime(**options) == 0
    return rknn


@pytest.mark.parametrize("target", [None, "rk3588", "RK3588"])
def test_a_model_runs(target: str | None, lab: Lab) -> None:
    golden = lab.golden("image_rk3588_i8")
    rknn = ready(target=target, perf_debug=True, core_mask=RKNN.NPU_CORE_0_1_2)
    outputs = rknn.inference(inputs=[golden["x0"]], data_format=["nhwc"])
    assert outputs is not None
    assert np.abs(outputs[0] - golden["o0"]).max() < 0.04
    assert "software:rk3588" in str(rknn.get_sdk_version())
    rknn.release()
    assert rknn.inference(inputs=[golden["x0"]]) is None


@pytest.mark.parametrize("target", ["rk3566", "rk9999"])
def test_a_target_that_does_not_fit(target: str) -> None:
    rknn = RKNN()
    rknn.load_rknn(MODEL)
    with listening(rknn.rknn_base) as heard:
        assert rknn.init_runtime(target=target) == -1
    assert target in heard.text()


def test_performance_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = ready()
    text = rknn.eval_perf()
    assert text is not None
    assert "Conv:conv0" in text
    assert "software:rk3588" in text
    memory = rknn.eval_memory(is_print=False)
    assert memory is not None
    assert memory["total_memory"] == sum(size for name, size in memory.items() if name != "total_memory")
    assert capsys.readouterr().out.strip() == text
    rknn.release()
    assert rknn.eval_perf() is None
    assert rknn.eval_memory() is None


def test_accuracy_is_compared_with_the_source(lab: Lab) -> None:
    pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    np.save(lab.folder / "picture.npy", lab.golden("image_rk3588_i8")["x0"])
    folder = lab.folder / "snapshot"
    code = ready().accuracy_analysis(
        [str(lab.folder / "picture.npy")], output_dir=str(folder), onnx=GOLDENS / "image.onnx"
    )
    assert code == 0
    assert json.loads((folder / "error_analysis.json").read_text())
    assert "features" in (folder / "error_analysis.txt").read_text()


def test_accuracy_needs_the_source(lab: Lab) -> None:
    assert ready().accuracy_analysis([]) == -1
    assert RKNN().accuracy_analysis([], onnx="model.onnx") == -1


@pytest.mark.parametrize("method", ["config", "load_onnx", "load_pytorch", "load_tflite", "build", "export_rknn"])
def test_making_models_is_refused_with_a_way_out(method: str) -> None:
    with pytest.raises(UnsupportedError, match="rknn-toolkit2 in an environment of its own"):
        getattr(RKNN(), method)("anything", target_platform="rk3588")
