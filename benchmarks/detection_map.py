"""mAP of a detector as exported, in float (ONNX Runtime), fp16 and int8 (software NPU), all in one pipeline.

    python benchmarks/detection_map.py yolov8n.onnx PICTURES LABELS [--limit N] [--processes N] [--forms fp16,int8]

PICTURES is a folder of pictures, LABELS one of text files with the same names (class x y w h, relative). The model
takes 1x3x640x640 pixels divided by 255 and gives 1x(4+classes)xN: boxes in pixels (middle, size) and scores. Needs the
package pycocotools. int8 is calibrated with the first pictures, with the compiler's default options.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

_SIZE = 640
_GRAY = 114
_LEAST_SCORE, _OVERLAP, _MOST = 0.001, 0.7, 300
_WIDE = 7680
"""Between the boxes of two classes, so that one pass keeps them apart."""


def letterbox(path: Path) -> tuple[Any, float, tuple[int, int]]:
    """(pixels [1, 3, H, W], scale, offset of the picture in them)."""
    picture = Image.open(path).convert("RGB")
    scale = min(_SIZE / picture.width, _SIZE / picture.height)
    size = round(picture.width * scale), round(picture.height * scale)
    left, top = (_SIZE - size[0]) // 2, (_SIZE - size[1]) // 2
    whole = Image.new("RGB", (_SIZE, _SIZE), (_GRAY,) * 3)
    whole.paste(picture.resize(size, Image.Resampling.BILINEAR), (left, top))
    return np.asarray(whole, np.float32).transpose(2, 0, 1)[None], scale, (left, top)


def boxes_of(output: Any) -> tuple[Any, Any, Any]:
    """(boxes as corners, scores, classes) of one result."""
    rows = np.asarray(output, np.float32)[0].T
    places, classes = np.nonzero(rows[:, 4:] > _LEAST_SCORE)
    scores = rows[places, 4 + classes]
    middle, half = rows[places, :2], rows[places, 2:4] / 2
    corners = np.concatenate([middle - half, middle + half], 1)
    order = np.argsort(-scores, kind="stable")[:30000]
    corners, scores, classes = corners[order], scores[order], classes[order]
    kept = suppressed(corners + classes[:, None] * _WIDE)[:_MOST]
    return corners[kept], scores[kept], classes[kept]


def suppressed(boxes: Any) -> list[int]:
    """Numbers of the boxes that no better one covers; they come in the order of their scores."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left = np.arange(len(boxes))
    kept: list[int] = []
    while len(left) and len(kept) < _MOST:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        low = np.maximum(boxes[best, :2], boxes[left, :2])
        high = np.minimum(boxes[best, 2:], boxes[left, 2:])
        common = np.prod(np.clip(high - low, 0, None), axis=1)
        left = left[common <= _OVERLAP * (area[best] + area[left] - common)]
    return kept


def detect(job: tuple[str, str, list[Path]]) -> list[dict[str, Any]]:
    """Everything that one process finds."""
    kind, model, paths = job
    found: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        if kind == "float":
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            name = session.get_inputs()[0].name

            def run(pixels: Any) -> Any:
                return session.run(None, {name: pixels / np.float32(255)})[0]
        else:
            from openrknn import Session

            npu = stack.enter_context(Session(model, "software"))

            def run(pixels: Any) -> Any:
                results = npu.run({npu.inputs[0].name: pixels}, layout="nchw", outputs="float")
                return next(iter(results.values()))

        for path in paths:
            pixels, scale, (left, top) = letterbox(path)
            corners, scores, classes = boxes_of(run(pixels))
            corners = (corners - [left, top, left, top]) / scale
            for box, score, number in zip(corners, scores, classes, strict=True):
                x, y, right, bottom = (float(entry) for entry in box)
                found.append({"image_id": int(path.stem), "category_id": int(number), "score": float(score),
                              "bbox": [x, y, right - x, bottom - y]})  # fmt: skip
    return found


def truth_of(paths: list[Path], labels: Path) -> dict[str, Any]:
    """The labels in the form of COCO."""
    images, entries, classes = [], [], set()
    for path in paths:
        width, height = Image.open(path).size
        images.append({"id": int(path.stem), "width": width, "height": height})
        file = labels / f"{path.stem}.txt"
        for line in file.read_text().splitlines() if file.exists() else ():
            number, x, y, w, h = (float(word) for word in line.split()[:5])
            size = w * width, h * height
            classes.add(int(number))
            corner = x * width - size[0] / 2, y * height - size[1] / 2
            entries.append({
                "id": len(entries) + 1, "image_id": int(path.stem), "category_id": int(number), "iscrowd": 0,
                "area": size[0] * size[1], "bbox": [*corner, *size],
            })  # fmt: skip
    categories = [{"id": entry, "name": str(entry)} for entry in sorted(classes)]
    return {"images": images, "annotations": entries, "categories": categories}


def score(truth: dict[str, Any], found: list[dict[str, Any]]) -> float:
    """mAP at overlaps of 0.50 to 0.95."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    if not found:
        return 0.0
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "truth.json").write_text(json.dumps(truth))
        known = COCO(str(Path(folder) / "truth.json"))
        judge = COCOeval(known, known.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[0])


def main() -> None:
    """Compile, run and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("pictures", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="only so many pictures")
    parser.add_argument("--calibrate", type=int, default=32, help="pictures that int8 is calibrated with")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--forms", default="fp16,int8")
    parser.add_argument("--target", default="rk3588")
    wish = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    every = sorted(path for path in wish.pictures.iterdir() if path.stem.isdigit())
    paths = every[: wish.limit or None]
    truth = truth_of(paths, wish.labels)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(wish.processes) as pool:
        models = {"float": wish.model}
        for form in wish.forms.split(","):
            from openrknn.compiler import compile_model

            data = [str(path) for path in every[: wish.calibrate]] if form == "int8" else None
            made = compile_model(wish.model, wish.target, calibration=data, std=255.0)
            print(f"{form}: {made.checked}", flush=True)
            models[form] = str(Path(folder) / f"{form}.rknn")
            Path(models[form]).write_bytes(made.data)
        first = 0.0
        for kind, model in models.items():
            where = "float" if kind == "float" else "npu"
            jobs = [(where, model, paths[at :: wish.processes]) for at in range(wish.processes)]
            found = [entry for part in pool.map(detect, jobs) for entry in part]
            value = score(truth, found)
            first = value if kind == "float" else first
            print(f"{kind:6} mAP {value:.4f}  {value - first:+.4f}  ({len(paths)} pictures)", flush=True)


if __name__ == "__main__":
    main()
