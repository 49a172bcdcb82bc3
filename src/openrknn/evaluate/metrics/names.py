"""The metrics by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T", float, Any)


@dataclass(frozen=True, slots=True)
class Metric:
    """What a number means."""

    name: str
    """In JSON and on the command line."""
    title: str
    about: str
    is_share: bool = True
    """From 0 to 1, shown in percent."""
    is_error: bool = False
    """Less is better."""

    def text(self, value: float | None) -> str:
        """The number as people read it: "37.3 %", "31.4 dB"."""
        if value is None:
            return "-"
        if self.is_share:
            return f"{100 * value:.1f} %"
        return f"{value:.1f} dB" if self.name.endswith("_db") else f"{value:.4g}"

    def loss(self, value: T, reference: T) -> T:
        """How much worse `value` is: positive is worse. Numbers, or arrays of them."""
        return value - reference if self.is_error else reference - value


_AP = "average precision, the mean over classes"
_MADE = (
    Metric("map", "mAP50-95", f"{_AP} and IoU 0.50 to 0.95"),
    Metric("map50", "mAP50", f"{_AP} at IoU 0.50"),
    Metric("map75", "mAP75", f"{_AP} at IoU 0.75"),
    Metric("map_small", "mAP small", "objects below 32x32 pixels"),
    Metric("map_medium", "mAP medium", "objects from 32x32 to 96x96 pixels"),
    Metric("map_large", "mAP large", "objects above 96x96 pixels"),
    Metric("ar1", "AR 1", "recall with 1 detection per image and class"),
    Metric("ar10", "AR 10", "recall with 10 detections per image and class"),
    Metric("ar100", "AR 100", "recall with 100 detections per image and class"),
    Metric("ar_small", "AR small", "recall of objects below 32x32 pixels"),
    Metric("ar_medium", "AR medium", "recall of objects from 32x32 to 96x96 pixels"),
    Metric("ar_large", "AR large", "recall of objects above 96x96 pixels"),
    Metric("mask_map", "mask mAP50-95", f"{_AP} and IoU of masks 0.50 to 0.95"),
    Metric("mask_map50", "mask mAP50", f"{_AP} at IoU of masks 0.50"),
    Metric("mask_map75", "mask mAP75", f"{_AP} at IoU of masks 0.75"),
    Metric("mask_map_small", "mask mAP small", "objects below 32x32 pixels"),
    Metric("mask_map_medium", "mask mAP medium", "objects from 32x32 to 96x96 pixels"),
    Metric("mask_map_large", "mask mAP large", "objects above 96x96 pixels"),
    Metric("pose_map", "keypoint mAP50-95", f"{_AP} and object keypoint similarity 0.50 to 0.95"),
    Metric("pose_map50", "keypoint mAP50", f"{_AP} at object keypoint similarity 0.50"),
    Metric("pose_map75", "keypoint mAP75", f"{_AP} at object keypoint similarity 0.75"),
    Metric("pose_map_medium", "keypoint mAP medium", "people from 32x32 to 96x96 pixels"),
    Metric("pose_map_large", "keypoint mAP large", "people above 96x96 pixels"),
    Metric("pose_ar20", "keypoint AR 20", "recall with 20 people per image"),
    Metric("obb_map", "oriented mAP50-95", f"{_AP} and IoU of oriented boxes 0.50 to 0.95"),
    Metric("obb_map50", "oriented mAP50", f"{_AP} at IoU of oriented boxes 0.50"),
    Metric("obb_map75", "oriented mAP75", f"{_AP} at IoU of oriented boxes 0.75"),
    Metric("top1", "top-1", "the best class is the right one"),
    Metric("top5", "top-5", "the right class is among the best five"),
    Metric("class_accuracy", "mean per class", "top-1, the mean over classes"),
    Metric("miou", "mean IoU", "intersection over union of pixels, the mean over classes"),
    Metric("pixel_accuracy", "pixel accuracy", "pixels with the right class"),
    Metric("wer", "WER", "word errors per word that was said", is_error=True),
    Metric("cer", "CER", "character errors per character", is_error=True),
    Metric("exact", "exact lines", "lines without an error"),
    Metric("hmean", "hmean", "harmonic mean of precision and recall of lines at IoU 0.50"),
    Metric("precision", "precision", "lines found that are there"),
    Metric("recall", "recall", "lines there that are found"),
    Metric("cosine", "cosine", "similarity of outputs, the mean over samples", is_share=False),
    Metric("snr_db", "SQNR", "signal to quantisation noise", is_share=False),
    Metric("mse", "MSE", "mean squared error", is_share=False, is_error=True),
    Metric("largest_error", "largest error", "of any element", is_share=False, is_error=True),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _MADE}
