"""`openrknn run`: pictures and arrays in, classes and numbers out."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.cli.common.inputs import arrays_for, random_inputs
from openrknn.cli.common.labels import Labels, find_labels
from openrknn.cli.run.results import best_classes
from openrknn.runtime.session import Session
from tests.cli.run import messages, run
from tests.container.places import ROOT, golden

Capture = pytest.CaptureFixture[str]
MODELS, IMAGES = ROOT / "examples" / "models", ROOT / "examples" / "images"
CLASSIFIER = MODELS / "efficientnet_lite0_rk3588_i8.rknn"
needs_pillow = pytest.mark.skipif(
    importlib.util.find_spec("PIL") is None, reason="the extra 'images' (Pillow) is not installed"
)


@needs_pillow
@pytest.mark.parametrize(
    ("photo", "names"),
    [
        ("cat", {"Egyptian cat", "tiger cat", "tabby"}),
        ("coffee", {"espresso", "cup", "consomme"}),
    ],
)
def test_the_example_names_what_is_on_the_photos(photo: str, names: set[str], capsys: Capture) -> None:
    result = run(capsys, "run", CLASSIFIER, "--input", IMAGES / f"{photo}.jpg", "--json")
    assert (result.code, result.err) == (0, "")
    report = json.loads(result.out)
    assert report["labels"] == str(MODELS / "imagenet_labels.txt")
    assert report["inputs"][0]["how"] == "crop to 224x224, RGB"
    assert {entry["label"] for entry in report["top"][:3]} == names
    # The converter's simulator on the same square, which other software scaled by area.
    answer = np.load(MODELS / f"efficientnet_lite0_rk3588_i8_{photo}.npz")["o0"][0]
    simulated = np.exp(answer - answer.max()) / np.exp(answer - answer.max()).sum()
    for entry in report["top"]:
        assert entry["probability"] == pytest.approx(simulated[entry["number"]], abs=0.05)


@needs_pillow
def test_the_table_of_classes(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = run(capsys, "run", CLASSIFIER, "-i", IMAGES / "coffee.jpg", "--top", "2").out
    assert "espresso" in text
    assert "cup" in text
    assert "consomme" not in text
    assert "█" * 20 in text
    assert "software:rk3588" in text


def pixels(path: Path, size: tuple[int, int]) -> np.ndarray:
    """Left half red, right half blue, as a PNG."""
    from PIL import Image

    array = np.zeros((size[1], size[0], 3), np.uint8)
    array[:, : size[0] // 2, 0] = 200
    array[:, size[0] // 2 :, 2] = 100
    Image.fromarray(array).save(path)
    return array


@needs_pillow
@pytest.mark.parametrize(
    ("fit", "order", "corners"),
    [
        ("stretch", "rgb", ([200, 0, 0], [0, 0, 100], [200, 0, 0])),
        ("stretch", "bgr", ([0, 0, 200], [100, 0, 0], [0, 0, 200])),
        ("crop", "rgb", ([200, 0, 0], [0, 0, 100], [200, 0, 0])),
        ("letterbox", "rgb", ([200, 0, 0], [0, 0, 100], [114, 114, 114])),
    ],
)
def test_pictures_are_made_to_fit(fit: str, order: str, corners: tuple[list[int], ...], tmp_path: Path) -> None:
    """The pixels in the middle of the left and of the right edge, and in the upper left corner."""
    pixels(tmp_path / "x.png", (64, 32))
    model = openrknn.load(golden("image_rk3588_i8"))
    (fed,) = arrays_for(model, [str(tmp_path / "x.png")], fit=fit, order=order)
    assert fed.array.shape == (1, 16, 16, 3)
    assert fed.array.dtype == np.uint8
    assert (fed.array[0, 8, 0].tolist(), fed.array[0, 8, 15].tolist(), fed.array[0, 0, 0].tolist()) == corners


@needs_pillow
def test_a_small_picture_grows_and_a_turned_one_is_turned_back(tmp_path: Path) -> None:
    from PIL import Image

    array = np.zeros((4, 2, 3), np.uint8)
    array[:2] = 250
    exif = Image.Exif()
    exif[0x0112] = 3  # held upside down
    Image.fromarray(array).save(tmp_path / "x.png", exif=exif)
    model = openrknn.load(golden("image_rk3588_i8"))
    (fed,) = arrays_for(model, [str(tmp_path / "x.png")], fit="stretch", order="rgb")
    assert fed.array[0, 0].max() == 0
    assert fed.array[0, 15].min() == 250


def test_arrays_by_name_by_order_and_from_an_archive(tmp_path: Path, capsys: Capture) -> None:
    path = golden("two_inputs_rk3588_i8")
    answers = np.load(path.with_suffix(".npz"))
    names = [spec.name for spec in openrknn.load(path).inputs]
    np.save(tmp_path / "a.npy", answers["x0"])
    np.save(tmp_path / "b=c.npy", answers["x1"])
    np.savez(tmp_path / "named.npz", **{names[1]: answers["x1"], names[0]: answers["x0"]})
    archive = path.with_suffix(".npz")
    ways: list[list[object]] = [
        ["--input", archive],
        ["--input", tmp_path / "named.npz"],
        ["--input", tmp_path / "a.npy", "--input", tmp_path / "b=c.npy"],
        ["--input", f"{names[1]}={tmp_path / 'b=c.npy'}", "--input", f"{names[0]}={tmp_path / 'a.npy'}"],
        ["--input", f"{names[1]}={tmp_path / 'named.npz'}", "--input", tmp_path / "a.npy"],
    ]
    for number, words in enumerate(ways):
        out = tmp_path / f"out{number}"
        result = run(capsys, "run", path, *words, "-o", out)
        assert (result.code, result.err) == (0, ""), words
        index = json.loads((out / "index.json").read_text())
        saved = np.load(out / index["files"][0]["path"])
        assert np.corrcoef(saved.ravel(), answers["o0"].ravel())[0, 1] > 0.999


def test_raw_outputs_are_the_stored_numbers(tmp_path: Path, capsys: Capture) -> None:
    path = golden("conv_rk3588_i8")
    scale = openrknn.load(path).outputs[0].quantization
    assert scale is not None
    saved = {}
    for words in (["--raw"], []):
        result = run(capsys, "run", path, "-i", path.with_suffix(".npz"), "-o", tmp_path / "o", "--force", *words)
        assert result.code == 0
        assert "wrote 1 arrays" in result.out
        saved[bool(words)] = np.load(next((tmp_path / "o").glob("0_*.npy")))
    assert saved[True].dtype == np.int8
    real = (saved[True].astype(np.float32) - scale.zero_point[0]) * np.float32(scale.scale[0])
    np.testing.assert_array_equal(real, saved[False])


def test_raw_bytes_are_told_apart_by_their_number(tmp_path: Path) -> None:
    model = openrknn.load(golden("image_rk3588_i8"))
    for dtype in (np.uint8, np.float16, np.float32):
        (tmp_path / "x.bin").write_bytes(np.arange(768, dtype=dtype).tobytes())
        (fed,) = arrays_for(model, [str(tmp_path / "x.bin")], fit="auto", order="auto")
        assert fed.array.dtype == dtype
        assert fed.array.shape == (1, 16, 16, 3)


def test_other_outputs_show_their_range(capsys: Capture) -> None:
    path = golden("two_outputs_rk3588_i8")
    text = run(capsys, "run", path, "-i", path.with_suffix(".npz")).out
    assert "Outputs" in text
    assert text.count("float32") == 2
    report = json.loads(run(capsys, "run", path, "-i", path.with_suffix(".npz"), "--json").out)
    assert report["top"] is None
    answer = np.load(path.with_suffix(".npz"))["o0"]
    assert report["outputs"][0]["maximum"] == pytest.approx(float(answer.max()), abs=0.1)


def test_dynamic_shapes_follow_the_array(tmp_path: Path, capsys: Capture) -> None:
    path = golden("dynamic_rk3588_i8")
    np.save(tmp_path / "x.npy", np.full((1, 8, 24, 3), 7, np.uint8))
    report = json.loads(run(capsys, "run", path, "-i", tmp_path / "x.npy", "--json").out)
    assert report["inputs"][0]["shape"] == [1, 8, 24, 3]
    np.save(tmp_path / "x.npy", np.full((1, 9, 24, 3), 7, np.uint8))
    result = run(capsys, "run", path, "-i", tmp_path / "x.npy")
    assert (result.code, messages(result.err)) == (2, 1)
    assert "was not built for the shapes" in result.err


def test_cores_give_the_same(capsys: Capture) -> None:
    path = golden("residual_rk3588_i8")
    words = ("run", path, "-i", path.with_suffix(".npz"), "--json")
    one, three = (json.loads(run(capsys, *words, "--cores", cores).out)["outputs"] for cores in (1, 3))
    assert one == three
    result = run(capsys, *words, "--cores", "4")
    assert (result.code, messages(result.err)) == (2, 1)


# ---------------------------------------------------------------- labels and classes


def test_labels_beside_the_model(tmp_path: Path) -> None:
    model = tmp_path / "net.rknn"
    shapes = [(1, 3)]
    assert find_labels(str(model), shapes) is None
    (tmp_path / "pets_labels.txt").write_text("cat\ndog\nfish\n")
    (tmp_path / "long_labels.txt").write_text("a\nb\nc\nd\n")
    found = find_labels(str(model), shapes)
    assert found == Labels(("cat", "dog", "fish"), str(tmp_path / "pets_labels.txt"))
    (tmp_path / "more_labels.txt").write_text("x\ny\nz\n")
    assert find_labels(str(model), shapes) is None, "two fit: nobody knows which"
    (tmp_path / "net_labels.txt").write_text("one\ntwo\nthree")
    found = find_labels(str(model), shapes)
    assert found is not None
    assert found.names == ("one", "two", "three")
    assert find_labels(str(model), [(1, 3), (1, 3)]) is None


def test_probabilities_are_kept_and_scores_become_them() -> None:
    best = best_classes(np.array([[0.1, 0.7, 0.2]], np.float32), 2, None)
    assert [(entry.number, round(entry.probability, 6)) for entry in best] == [(1, 0.7), (2, 0.2)]
    best = best_classes(np.array([0.0, np.log(3.0)], np.float32), 5, Labels(("a", "b"), "x"))
    assert [(entry.label, round(entry.probability, 6)) for entry in best] == [("b", 0.75), ("a", 0.25)]
    assert best_classes(np.array([np.nan, 1.0, -np.inf]), 1, None)[0].number == 1


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --input FILE for 'image'; the model takes image: raw uint8 pixels"),
        (["-i", "none.npy"], "no such file"),
        (["-i", "text.npy"], "not a NumPy file"),
        (["-i", "wrong.npy"], "(1, 5)"),
        (["-i", "objects.npy"], "it holds objects, not numbers (objects.npy)"),
        (["-i", "short.bin"], "neither uint8, float16 nor float32"),
        (["-i", "other=good.npy"], "no input 'other'"),
        (["-i", "good.npy", "-i", "good.npy"], "one --input too many"),
        (["-i", "image=good.npy", "-i", "image=good.npy"], "given twice"),
        (["-i", "two.npz"], "name its arrays 'image' or x0"),
        (["-i", "good.npy", "--labels", "none.txt"], "no such file"),
        (["-i", "good.npy", "--top", "0"], "not a whole number"),
        (["-i", "good.npy", "--device", "toaster"], "no device is called 'toaster'"),
        (["-i", "text.png"], "picture"),
        (["-i", "half.png"], "half.png"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "good.npy", np.zeros((1, 16, 16, 3), np.uint8))
    np.save(tmp_path / "wrong.npy", np.zeros((1, 5), np.uint8))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "short.bin").write_bytes(bytes(100))
    if importlib.util.find_spec("PIL"):
        pixels(tmp_path / "whole.png", (64, 64))
        (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:70])
    result = run(capsys, "run", golden("image_rk3588_i8"), *words)
    assert (result.code, result.out, messages(result.err)) == (2, "", 1)
    assert message in result.err


def test_a_picture_for_something_else(tmp_path: Path, capsys: Capture) -> None:
    result = run(capsys, "run", golden("conv_rk3588_i8"), "-i", tmp_path / "x.png")
    assert "which is not a picture; give a .npy file" in result.err


def test_without_pillow_the_line_says_what_to_install(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    result = run(capsys, "run", golden("image_rk3588_i8"), "-i", IMAGES / "cat.jpg")
    assert (result.code, messages(result.err)) == (2, 1)
    assert "pip install 'openrknn[images]'" in result.err


def test_a_full_folder_is_not_overwritten(tmp_path: Path, capsys: Capture) -> None:
    path = golden("conv_rk3588_i8")
    shutil.copy(path, tmp_path)
    result = run(capsys, "run", path, "-i", path.with_suffix(".npz"), "-o", tmp_path)
    assert (result.code, messages(result.err)) == (2, 1)
    assert "not empty" in result.err


def test_quiet_prints_the_classes_only(capsys: Capture) -> None:
    path = golden("gemm_rk3588_i8")
    result = run(capsys, "run", path, "-i", path.with_suffix(".npz"), "--top", "2", "-q")
    assert len(result.out.splitlines()) == 2


def test_random_inputs_fit_every_golden() -> None:
    for path in ("image_rk3588_i8_batch2", "two_inputs_rk3588_i8", "conv_rk3588_fp"):
        model = openrknn.load(golden(path))
        with Session(model) as session:
            fed = {item.name: item.array for item in random_inputs(model)}
            assert session.run(fed)
