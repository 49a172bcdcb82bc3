"""Build the example text detector from published weights: ONNX -> int8 `.rknn` for the RK3588.

    python build_ppocr.py        (README.md says which packages it needs)

Writes beside this file the model and what the simulator makes of the example page, and into ../images the page itself.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from build_efficientnet import CALIBRATION, IMAGES, Pixels, package_folder, read_photo

HERE = Path(__file__).resolve().parent
NAME = "ppocrv4_det_rk3588_i8"
WEIGHTS = "ch_PP-OCRv4_det_infer.onnx"
SIDE = 480
GRAY = 114  # the bars of a letterbox
# What the weights were trained with; inside the model, so that it takes plain uint8 pixels.
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
PAGE = "page"

WORDS = (
    "The quick brown fox", "jumps over the lazy dog", "OPEN 24 HOURS", "No. 5, Baker Street", "12:30  17:45",
    "www.example.org", "Total  EUR 42.17", "Exit", "Platform 9", "do not feed the birds",
)  # fmt: skip
FONTS = (
    cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_TRIPLEX, cv2.FONT_HERSHEY_COMPLEX,
)  # fmt: skip


def letterbox(photo: Pixels) -> Pixels:
    """The whole picture in the middle of a gray square."""
    height, width = photo.shape[:2]
    scale = SIDE / max(height, width)
    size = max(round(width * scale), 1), max(round(height * scale), 1)
    sheet = np.full((SIDE, SIDE, 3), GRAY, np.uint8)
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    sheet[top : top + size[1], left : left + size[0]] = cv2.resize(photo, size, interpolation=cv2.INTER_AREA)
    return sheet


def sign(number: int) -> Pixels:
    """A page of invented text, dark on light or the other way round."""
    chance = np.random.default_rng(number)
    paper, ink = (int(value) for value in chance.permutation([chance.integers(0, 90), chance.integers(160, 256)]))
    sheet = np.full((SIDE, SIDE, 3), paper, np.uint8)
    y = 20
    while y < SIDE - 20:
        scale = float(chance.uniform(0.4, 1.6))
        word, font = WORDS[chance.integers(len(WORDS))], FONTS[chance.integers(len(FONTS))]
        y += int(38 * scale)
        cv2.putText(sheet, word, (int(chance.integers(5, 60)), y), font, scale, (ink,) * 3, 1 + int(scale), cv2.LINE_AA)
    noise = chance.normal(0, 6, sheet.shape)
    return np.clip(sheet + noise, 0, 255).astype(np.uint8)


def calibration() -> Iterator[Pixels]:
    """Pages of text, and photos, most of which have none."""
    for number in range(30):
        yield sign(number)
    for name in CALIBRATION:
        yield letterbox(read_photo(package_folder("skimage") / "data" / name))
    for name in ("page.png", "text.png"):
        photo = read_photo(package_folder("skimage") / "data" / name)
        for left in (0.0, 0.2, 0.4):
            yield letterbox(photo[:, int(photo.shape[1] * left) : int(photo.shape[1] * (left + 0.6))])


def write_page() -> None:
    """The example page, stored again as JPEG."""
    photo = cv2.imread(str(package_folder("skimage") / "data" / "page.png"))
    assert photo is not None, "scikit-image no longer has this image"
    cv2.imwrite(str(IMAGES / f"{PAGE}.jpg"), photo, [cv2.IMWRITE_JPEG_QUALITY, 92])


def write_dataset(folder: Path) -> Path:
    """The pictures as the converter wants them: one NCHW array per file, and a list of the files."""
    lines = []
    for index, pixels in enumerate(calibration()):
        path = folder / f"{index}.npy"
        np.save(path, pixels.transpose(2, 0, 1)[None].astype(np.float32))
        lines.append(str(path))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing


def convert(dataset: Path) -> Any:
    """Quantise and write the `.rknn`; the converter comes back for its simulator."""
    from rknn.api import RKNN

    weights = package_folder("rapidocr_onnxruntime") / "models" / WEIGHTS
    rknn = RKNN(verbose=False)
    # One core: the lists of tasks for three would be a fifth of the file.
    rknn.config(target_platform="rk3588", mean_values=[MEAN], std_values=[STD], single_core_mode=True)
    if rknn.load_onnx(model=str(weights), inputs=["x"], input_size_list=[[1, 3, SIDE, SIDE]]) != 0:
        raise SystemExit("the converter refused the model")
    if rknn.build(do_quantization=True, dataset=str(dataset)) != 0:
        raise SystemExit("the converter could not quantise the model")
    if rknn.export_rknn(str(HERE / f"{NAME}.rknn")) != 0:
        raise SystemExit("the converter could not write the file")
    return rknn


def write_answer(rknn: Any) -> None:
    """What the simulator says about the page: probabilities in steps of 1/255, which is what int8 holds."""
    if rknn.init_runtime() != 0:
        raise SystemExit("the simulator did not start")
    pixels = letterbox(read_photo(IMAGES / f"{PAGE}.jpg"))[None]
    (text,) = rknn.inference(inputs=[pixels], data_format=["nhwc"])
    np.savez_compressed(HERE / f"{NAME}_{PAGE}.npz", o0=np.rint(text * 255).astype(np.uint8))
    print(f"{PAGE}: {int((text > 0.3).sum())} pixels of text, most probable {text.max():.3f}")


def main() -> None:
    """Do all of it."""
    write_page()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)  # the converter leaves files where it is started
        rknn = convert(write_dataset(Path(name)))
        write_answer(rknn)
        rknn.release()


if __name__ == "__main__":
    main()
