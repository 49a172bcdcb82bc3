"""`rknn.api.RKNN`: it runs models, measures and compares them, and is honest about the rest."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
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


def test_checkpoints_of_pytorch_are_refused_with_a_way_out(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    path = lab.folder / "weights.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights/data.pkl", pickle.dumps({}, 2))
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") == 0
    assert rknn.load_pytorch(str(path), [[1, 3, 8, 8]]) == -1
    assert "torch.export.save" in caplog.text


def converted(lab: Lab, **options: Any) -> tuple[RKNN, str]:
    """The way of programs that convert: config, load_onnx, build, export_rknn."""
    np.save(lab.folder / "a.npy", lab.golden("image_rk3588_i8")["x0"])
    (lab.folder / "list.txt").write_text("a.npy\n")
    rknn = RKNN(verbose=False)
    assert rknn.config(mean_values=[[0, 0, 0]], std_values=[[255, 255, 255]], target_platform="rk3588", **options) == 0
    assert rknn.load_onnx(model=str(GOLDENS / "image.onnx")) == 0
    assert rknn.build(do_quantization=True, dataset=str(lab.folder / "list.txt")) == 0
    path = str(lab.folder / "made.rknn")
    assert rknn.export_rknn(path) == 0
    return rknn, path


def test_an_onnx_model_is_converted_as_programs_do_it(lab: Lab) -> None:
    pytest.importorskip("onnx", reason="the extra `compile` is not installed")
    _, path = converted(lab, quantized_algorithm="mmse", optimization_level=3)
    made = openrknn.load(path)
    assert made.inputs[0].is_image
    assert made.inputs[0].dtype == "int8"
    assert made.inputs[0].normalization is not None
    assert made.inputs[0].normalization.std[0] == 255


def test_a_converted_model_runs_at_once(lab: Lab) -> None:
    pytest.importorskip("onnx", reason="the extra `compile` is not installed")
    rknn, path = converted(lab)
    picture = lab.golden("image_rk3588_i8")["x0"]
    assert rknn.init_runtime() == 0
    found = rknn.inference(inputs=[picture])
    assert found is not None
    with openrknn.Session(path) as session:
        wanted = list(session.run(picture).values())
    np.testing.assert_array_equal(found[0], wanted[0])
    rknn.release()


def test_what_the_compiler_does_not_have_is_refused_by_name(lab: Lab) -> None:
    rknn = RKNN()
    assert rknn.config() == -1
    assert rknn.config(target_platform="rk3588", quantized_dtype="w4a16") == -1
    assert rknn.config(target_platform="rk3588") == 0
    assert rknn.build() == -1
    assert rknn.export_rknn(str(lab.folder / "no.rknn")) == -1
    assert rknn.load_onnx(str(lab.folder / "nothing.onnx")) == -1
    assert rknn.load_onnx(str(GOLDENS / "image.onnx")) == 0
    assert rknn.build(do_quantization=True) == -1
    assert not (lab.folder / "no.rknn").exists()
