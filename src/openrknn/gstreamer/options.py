"""The pipeline that the properties of an element describe."""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.errors import FormatError
from openrknn.vision.labels import LISTS, names_of
from openrknn.vision.pipeline import Pipeline

__all__ = ["open_pipeline"]

_LARGEST_LABEL_FILE = 1 << 24
_TEXTS = ("task", "family", "fit", "order")
_NUMBERS = ("threshold", "overlap")
_COUNTS = ("limit", "cores")
_OTHERS = ("model", "device", "labels")


def open_pipeline(options: Mapping[str, str]) -> Pipeline:
    """The model with its decoder. Options that are not given have `Pipeline`'s defaults."""
    unknown = sorted(set(options) - {*_TEXTS, *_NUMBERS, *_COUNTS, *_OTHERS})
    if unknown:
        raise FormatError(f"the engine knows no option {unknown[0]!r}; the plugin and openrknn are of two versions")
    if not options.get("model"):
        raise FormatError("no model was named: set the property `model` to a file, such as model=yolo.rknn")
    values: dict[str, object] = {name: options[name] for name in _TEXTS if name in options}
    values.update({name: float(options[name]) for name in _NUMBERS if name in options})
    values.update({name: int(options[name]) for name in _COUNTS if name in options})
    labels = _labels(options["labels"]) if options.get("labels") else None
    pipeline = Pipeline(options["model"], labels=labels, device=options.get("device", "auto"), **values)  # type: ignore[arg-type]
    if labels is not None and pipeline.classes > 1 and len(labels) != pipeline.classes:
        pipeline.close()
        raise FormatError(
            f"{options['labels']}: {len(labels)} names for {pipeline.classes} classes; give one class name per line"
        )
    return pipeline


def _labels(which: str) -> tuple[str, ...]:
    """A list that is built in, or a file with one name per line."""
    if which in LISTS:
        return names_of(which)
    with open(which, encoding="utf-8", errors="replace") as file:
        text = file.read(_LARGEST_LABEL_FILE)
    return tuple(name.strip() for name in text.removesuffix("\n").split("\n"))
