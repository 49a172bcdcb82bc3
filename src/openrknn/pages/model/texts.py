"""Shapes, shares and quantisation as the page writes them; sizes and counts are in `openrknn.quantities`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from openrknn.analysis.reports import WeightQuantization
from openrknn.container.parts import Layout, Quantization, Tensor
from openrknn.quantities import count_text

__all__ = [
    "attribute", "dims", "macs", "native", "number", "percent", "quantization", "short_shape", "tasks", "weight_scales",
]  # fmt: skip

_MAX_ITEMS = 12


def macs(value: int | None) -> str:
    """385250272 -> "385 M"; "?" if unknown."""
    return "?" if value is None else count_text(value)


def number(value: float) -> str:
    """A measured value in six digits at most; minus zero is 0."""
    return f"{value + 0.0:.6g}" if math.isfinite(value) else str(value)


def percent(part: float, whole: float) -> str:
    """A share in per cent; "<1 %" for what is little and not nothing."""
    share = 100 * part / whole if whole else 0.0
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


def dims(shape: Sequence[int]) -> str:
    """(1, 3, 224, 224) -> "1×3×224×224"; a scalar is "scalar"."""
    shown = "×".join(map(str, shape[:_MAX_ITEMS])) or "scalar"
    return shown if len(shape) <= _MAX_ITEMS else f"{shown}×…"


def short_shape(shape: Sequence[int]) -> str:
    """`dims` without the batch of one, for labels in a picture."""
    return dims(shape[1:] if len(shape) > 1 and shape[0] == 1 else shape)


def native(tensor: Tensor) -> str:
    """Its memory layout: "nc1hwc2 1×2×112×112×16"; empty where the file does not say."""
    if not tensor.native_shape:
        return ""
    layout = "" if tensor.layout is Layout.UNDEFINED else f"{tensor.layout.label} "
    return f"{layout}{dims(tensor.native_shape)}"


def quantization(values: Quantization | None) -> str:
    """ "scale 0.0078125, zero point -1", or the range of the scales when there is one per channel."""
    if values is None or not values.scale:
        return ""
    low, high = min(values.scale), max(values.scale)
    if len(values.scale) == 1:
        return f"scale {number(low)}, zero point {values.zero_point[0] if values.zero_point else 0}"
    return f"per channel ({len(values.scale)}): scale {number(low)} … {number(high)}"


def weight_scales(values: WeightQuantization | None) -> str:
    """The range of the scales, and how many channels have one of their own."""
    if values is None:
        return ""
    low, high = number(values.smallest_scale), number(values.largest_scale)
    offset = "symmetric" if values.is_symmetric else "with zero points"
    return f"{low} … {high}, {values.channels} channels, {offset}" if values.channels > 1 else f"{low}, {offset}"


def tasks(lists: Mapping[str, int]) -> str:
    """{"1": 3, "2.0": 2, "2.1": 2} -> "3; 2 cores: 2 + 2"; the list of one core needs no name."""
    cores: dict[str, list[int]] = {}
    for label, amount in lists.items():
        cores.setdefault(label.partition(".")[0], []).append(amount)
    return "; ".join(
        str(shares[0]) if number == "1" else f"{number} cores: {' + '.join(map(str, shares))}"
        for number, shares in cores.items()
    )


def attribute(value: object) -> str:
    """An operator's attribute on one line."""
    match value:
        case list() | tuple():
            more = ", …" if len(value) > _MAX_ITEMS else ""
            return f"[{', '.join(attribute(item) for item in value[:_MAX_ITEMS])}{more}]"
        case float():
            return number(value)
        case memoryview() | bytes():
            return f"{len(value)} bytes"
        case dict():
            return f"{len(value)} entries"
        case str():
            return value[:200]
        case _:
            return str(value)[:200]
