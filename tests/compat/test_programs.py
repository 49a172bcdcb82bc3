"""Programs for the vendor's wheel run unmodified on ours, on the software NPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from openrknn.fakekernel.preload import host_machine, library_for
from openrknn.runtime.session import Session
from tests.compat.programs import camera, others, photos, photos_newer

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"
CLASSIFIER = ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"
PICTURE = np.arange(768, dtype=np.uint8).reshape(1, 16, 16, 3)


def model(name: str) -> str:
    return str(GOLDENS / f"{name}.rknn")


@pytest.fixture
def device_tree(tmp_path: Path) -> Path:
    path = tmp_path / "compatible"
    path.write_text("rockchip,rk3588-evb1\0rockchip,rk3588\0")
    return path


# -- after Frigate ---------------------------------------------------------------------------------------------------


def test_camera_sees_the_chip(device_tree: Path) -> None:
    assert camera.soc(str(device_tree)) == "rk3588"


@pytest.mark.parametrize("cores", [0, 1, 2, 3])
def test_camera_classifies_a_picture(cores: int) -> None:
    with np.load(CLASSIFIER.with_name("efficientnet_lite0_rk3588_i8_coffee.npz")) as golden:
        picture, answer = golden["x0"], golden["o0"]
    runner = camera.Runner(str(CLASSIFIER), cores)
    outputs = runner.detect(picture)
    assert [(output.dtype, output.shape) for output in outputs] == [(np.dtype(np.float32), (1, 1000))]
    assert camera.best(outputs) == camera.best([answer])


def test_camera_gets_four_dimensional_maps() -> None:
    outputs = camera.Runner(model("two_outputs_rk3588_i8")).detect(np.zeros((1, 8, 8, 16), np.float32))
    assert [output.shape for output in outputs] == [(1, 8, 8, 8), (1, 24, 4, 4)]


def test_camera_is_told_that_a_model_is_missing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Failed to load"):
        camera.Runner(str(tmp_path / "none.rknn"))


def test_camera_runs_as_a_program_on_an_emulated_board(tmp_path: Path) -> None:
    """The real path of the device tree, the import inside the method, a process of its own."""
    try:
        library_for(host_machine())
    except UnsupportedError as missing:
        pytest.skip(f"no preload library: {missing}")
    np.save(tmp_path / "picture.npy", PICTURE)
    program = [sys.executable, "-m", "tests.compat.programs.camera", model("image_rk3588_i8"), "picture.npy", "3"]
    result = subprocess.run(
        [sys.executable, "-m", "openrknn.cli", "exec", "--quiet", "--", *program],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    with Session(model("image_rk3588_i8")) as session:
        best = int(session.run(PICTURE)["features"].argmax())
    assert result.stdout.split() == ["rk3588", str(best), "3"]


def test_camera_makes_its_own_model(tmp_path: Path) -> None:
    """As it does on the board, then detects with it."""
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    target = str(tmp_path / "model.rknn")
    assert camera.convert(str(GOLDENS / "image.onnx"), target, "rk3588", "image", [1, 3, 16, 16])
    assert camera.Runner(target, 3).detect(PICTURE)[0].shape == (1, 16, 16, 16)
    assert not camera.convert(str(tmp_path / "missing.onnx"), target, "rk3588", "image", [1, 3, 16, 16])
    assert camera.toolkit_version()


# -- after Immich ----------------------------------------------------------------------------------------------------


def test_photos_pool_keeps_the_order(device_tree: Path) -> None:
    arrays = [np.roll(PICTURE, shift).transpose(0, 3, 1, 2).astype(np.float32) for shift in range(5)]
    pool = photos.Pool(model("image_rk3588_i8"), threads=2, chip=photos.soc(device_tree))
    for array in arrays:
        pool.put([array])
    results = [pool.get() for _ in arrays]
    assert pool.get() is None
    with Session(model("image_rk3588_i8")) as session:
        for array, result in zip(arrays, results, strict=True):
            assert result is not None
            assert (result[0] == session.run(array)["features"]).all()


def test_photos_on_a_board_with_one_core() -> None:
    pool = photos.Pool(model("image_rk3566_i8"), threads=1, chip="rk3566")
    pool.put([PICTURE.transpose(0, 3, 1, 2)])
    result = pool.get()
    assert result is not None
    assert result[0].shape == (1, 16, 16, 16)


def test_photos_reports_a_failure() -> None:
    pool = photos.Pool(model("image_rk3588_i8"), threads=1, chip="rk3588")
    pool.put([PICTURE[0, 0]])
    with pytest.raises(RuntimeError, match="RKNN inference failed!"):
        pool.get()


def test_newer_photos_asks_the_model() -> None:
    found = photos_newer.Model(model("image_rk3588_i8_custom_string"))
    assert found.inputs == [("image", (1, 16, 16, 3))]
    assert found.outputs == [("features", (1, 16, 16, 16))]
    with Session(model("image_rk3588_i8_custom_string")) as session:
        assert found.text == session.model.custom_string


@pytest.mark.parametrize("name", ["image_rk3588_fp", "image_rk3588_i8"])
def test_newer_photos_takes_outputs_unwidened(name: str) -> None:
    found = photos_newer.Model(model(name))
    planes = np.ascontiguousarray(PICTURE.transpose(0, 3, 1, 2))
    outputs = [found.run([array])[0] for array in (PICTURE, planes)]
    with Session(model(name)) as session:
        stored = session.run(PICTURE, outputs="raw")["features"]
    assert outputs[0].dtype == stored.dtype
    assert all((output == stored).all() for output in outputs)


def test_newer_photos_with_dynamic_shapes() -> None:
    found = photos_newer.Model(model("dynamic_rk3588_i8"))
    for height, width in ((16, 16), (8, 24), (8, 8)):
        assert found.run([np.zeros((1, height, width, 3), np.uint8)])[0].shape == (1, 8, height, width)


# -- others ----------------------------------------------------------------------------------------------------------


def test_a_session_like_onnx_runtimes() -> None:
    session = others.InferenceSession(model("two_inputs_rk3588_i8"))
    assert session.inputs == [("picture", [1, 8, 8, 3]), ("features", [1, 8, 8, 16])]
    assert session.outputs == [[1, 16, 8, 8]]
    assert session.version()["driver"] == "software:rk3588"
    with np.load(GOLDENS / "two_inputs_rk3588_i8.npz") as golden:
        outputs = session.run({"features": golden["x1"], "picture": golden["x0"]})
        assert np.abs(outputs[0] - golden["o0"]).max() < 0.1


def test_tokens_with_their_type_said() -> None:
    tokens = np.arange(512, dtype=np.int16).reshape(1, 16, 32)
    assert others.embed(model("layer_norm_rk3588_fp"), tokens).shape == (1, 16, 32)


def test_one_runtime_per_core() -> None:
    pictures = [np.roll(PICTURE, shift) for shift in range(7)]
    results = others.frames(model("image_rk3588_i8"), pictures)
    with Session(model("image_rk3588_i8")) as session:
        assert all(
            (result[0] == session.run(picture)["features"]).all()
            for picture, result in zip(pictures, results, strict=True)
        )
