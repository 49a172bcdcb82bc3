"""A picture for an input of any model: size, proportions, colour order and channels as the model wants them."""

from __future__ import annotations

import os
from collections.abc import Callable

from openrknn.analysis.io_reports import input_reports
from openrknn.container.model import Model, TensorSpec
from openrknn.quantities import shape_text
from openrknn.vision.errors import SourceError
from openrknn.vision.geometry import place
from openrknn.vision.heads import Frame
from openrknn.vision.pictures import Pixels, fitted, read_picture

_PICTURE_CHANNELS = (1, 3, 4)


def picture_for(
    model: Model, spec: TensorSpec, path: str | os.PathLike[str], *, fit: str = "auto", order: str = "auto"
) -> tuple[Pixels, str]:
    """The picture as uint8 [1, height, width, channels], and what was done to it in words.

    `fit`: letterbox, crop, stretch or line; "auto" is crop for classifiers, which look at the middle, and letterbox
    for all others, which have to see everything in its proportions. `order`: rgb or bgr; "auto" is what the model was
    calibrated with.
    """
    return pixels_for(model, spec, lambda: read_picture(path), os.fspath(path), fit=fit, order=order)


def pixels_for(
    model: Model, spec: TensorSpec, read: Callable[[], Pixels], name: str, *, fit: str = "auto", order: str = "auto"
) -> tuple[Pixels, str]:
    """`picture_for` for pixels that are already decoded, once the input is known to be one for pictures."""
    shape = spec.shape
    if len(shape) == 4 and spec.layout != "nhwc":
        shape = (shape[0], shape[2], shape[3], shape[1])
    if len(shape) != 4 or shape[3] not in _PICTURE_CHANNELS or shape[0] != 1:
        raise SourceError(
            f"{name}: the input {spec.name!r} is {shape_text(spec.shape)}, which is not a picture; give a "
            ".npy file"
        )
    report = next(item for item in input_reports(model) if item.name == spec.name)
    chosen_fit = _fit(model) if fit == "auto" else fit
    chosen_order = ("bgr" if report.calibrated_as_bgr else "rgb") if order == "auto" else order
    _, height, width, channels = shape
    picture = read()
    placement = place(picture.shape[1], picture.shape[0], Frame(width, height), chosen_fit)
    how = f"{chosen_fit} to {width}x{height}" + (f", {chosen_order.upper()}" if channels >= 3 else "")
    return fitted(picture, placement, channels=channels, order=chosen_order), how


def _fit(model: Model) -> str:
    counts = [sum(size > 1 for size in spec.shape) for spec in model.outputs]
    return "crop" if counts == [1] else "letterbox"
