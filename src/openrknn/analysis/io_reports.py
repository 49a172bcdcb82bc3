"""Inputs and outputs as the user must feed and read them, in one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from openrknn.analysis.reports import InputReport, OutputReport
from openrknn.container.model import Model, TensorSpec
from openrknn.container.notes import Note
from openrknn.container.parts import DataType, Tensor
from openrknn.errors import BadTextError

_SIGNED = {DataType.INT4: 4, DataType.INT8: 8, DataType.INT16: 16, DataType.INT32: 32}
_UNSIGNED = {DataType.UINT8: 8, DataType.UINT16: 16}
_FLOATS = {"float16", "bfloat16", "float32"}


def input_reports(model: Model) -> tuple[InputReport, ...]:
    """What to feed into the first graph of `model`."""
    graph = model.graphs[0]
    tensors = (graph.tensors[index] for index in graph.inputs)
    return tuple(
        _input(model, spec, tensor, number)
        for number, (spec, tensor) in enumerate(zip(model.inputs, tensors, strict=True))
    )


def output_reports(model: Model) -> tuple[OutputReport, ...]:
    """What comes out of the first graph of `model`."""
    graph = model.graphs[0]
    tensors = (graph.tensors[index] for index in graph.outputs)
    return tuple(_output(spec, tensor) for spec, tensor in zip(model.outputs, tensors, strict=True))


def stored_limits(dtype: DataType) -> tuple[int, int] | None:
    """Smallest and largest integer that the type can store."""
    if dtype in _SIGNED:
        half = 1 << (_SIGNED[dtype] - 1)
        return -half, half - 1
    return (0, (1 << _UNSIGNED[dtype]) - 1) if dtype in _UNSIGNED else None


def value_range(tensor: Tensor) -> tuple[float, float] | None:
    """Smallest and largest real value that a quantised tensor can hold."""
    limits = stored_limits(tensor.dtype)
    if limits is None or tensor.quantization is None:
        return None
    scale, zero_point = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
    return (limits[0] - zero_point) * scale, (limits[1] - zero_point) * scale


def calibrated_range(tensor: Tensor) -> tuple[float, float] | None:
    """Smallest and largest value that the converter saw in calibration."""
    return (min(tensor.minimum), max(tensor.maximum)) if tensor.minimum and tensor.maximum else None


class _Pixels(NamedTuple):
    """What the model does to an input before the first operator."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    bgr: bool

    @property
    def normalizes(self) -> bool:
        return any(self.mean) or any(value != 1 for value in self.std)


def _input(model: Model, spec: TensorSpec, tensor: Tensor, number: int) -> InputReport:
    pixels = _pixels(model, spec, tensor)
    scale, zero_point = _quantization(tensor)
    dynamic = model.dynamic_inputs[number].shapes if number < len(model.dynamic_inputs) else ()
    return InputReport(
        name=spec.name,
        shape=spec.shape,
        layout=spec.layout,
        dtype=spec.dtype,
        scale=scale,
        zero_point=zero_point,
        range=value_range(tensor),
        calibrated=calibrated_range(tensor),
        is_image=spec.is_image,
        mean=pixels.mean,
        std=pixels.std,
        normalizes=pixels.normalizes,
        calibrated_as_bgr=pixels.bgr,
        native_shape=tensor.native_shape,
        native_layout=tensor.layout.label,
        native_bytes=tensor.size_bytes,
        offset=tensor.offset,
        dynamic_shapes=dynamic,
        feed=_feed(spec, pixels, model.batch_size),
    )


def _output(spec: TensorSpec, tensor: Tensor) -> OutputReport:
    scale, zero_point = _quantization(tensor)
    return OutputReport(
        name=spec.name,
        shape=spec.shape,
        layout=spec.layout,
        dtype=spec.dtype,
        scale=scale,
        zero_point=zero_point,
        range=value_range(tensor),
        calibrated=calibrated_range(tensor),
        native_shape=tensor.native_shape,
        native_layout=tensor.layout.label,
        native_bytes=tensor.size_bytes,
        offset=tensor.offset,
        read=_read(spec, scale, zero_point),
    )


def _quantization(tensor: Tensor) -> tuple[float | None, int | None]:
    if tensor.quantization is None or not tensor.quantization.scale:
        return None, None
    return tensor.quantization.scale[0], tensor.quantization.zero_point[0]


def _pixels(model: Model, spec: TensorSpec, tensor: Tensor) -> _Pixels:
    bgr = _noted(model, spec.name).get("rgb2bgr") is True
    if spec.normalization is None:
        return _Pixels((), (), bgr)
    # The file always has four entries and repeats the first one behind the real channels.
    channels = tensor.shape[1] if len(tensor.shape) > 1 and 0 < tensor.shape[1] <= 4 else 4
    return _Pixels(_short(spec.normalization.mean[:channels]), _short(spec.normalization.std[:channels]), bgr)


def _short(values: tuple[float, ...]) -> tuple[float, ...]:
    """The decimal numbers that people typed, instead of the 32-bit floats that they became."""
    return tuple(float(f"{value:.7g}") for value in values)


def _noted(model: Model, name: str) -> Mapping[str | int | float, Note]:
    """What the converter noted about a tensor; nothing where the notes are damaged."""
    try:
        attributes = model.notes.get("attrs")
    except BadTextError:
        return {}
    entry = attributes.get(name) if isinstance(attributes, dict) else None
    return entry if isinstance(entry, dict) else {}


def _feed(spec: TensorSpec, pixels: _Pixels, batch: int) -> str:
    many = f"{batch} inputs per run, each " if batch > 1 else ""
    shape = f"[{','.join(map(str, spec.shape))}]"
    named = len(spec.shape) == 4 and spec.layout != "undefined"
    place = f"{many}{shape} {spec.layout.upper()}" if named else f"{many}{shape}"
    if spec.is_image:
        return f"raw uint8 pixels 0..255, {place}{_color(spec, pixels)}; {_normalization_of_image(pixels)}"
    if spec.dtype in _FLOATS:
        return f"float32 or {spec.dtype}, {place}{_normalization(pixels)}"
    if spec.quantization is None:
        return f"{spec.dtype} as it is, {place}"
    return f"float32, {place}; the runtime quantizes it to {spec.dtype}{_normalization(pixels)}"


def _color(spec: TensorSpec, pixels: _Pixels) -> str:
    if spec.shape[-1 if spec.layout == "nhwc" else 1] < 3:
        return ""
    return " in the order BGR (so it was calibrated)" if pixels.bgr else " in the order of the training (mostly RGB)"


def _normalization_of_image(pixels: _Pixels) -> str:
    if pixels.normalizes:
        return "the model computes (x - mean) / std itself, do not normalize before"
    return "no mean and std in the model: the network sees the numbers as you feed them"


def _normalization(pixels: _Pixels) -> str:
    return "; (x - mean) / std is computed for you" if pixels.normalizes else ""


def _read(spec: TensorSpec, scale: float | None, zero_point: int | None) -> str:
    if scale is not None:
        offset = f"q {'+' if zero_point and zero_point < 0 else '-'} {abs(zero_point or 0)}" if zero_point else "q"
        formula = f"({offset}) * {scale:.6g}" if zero_point else f"q * {scale:.6g}"
        return f"ask the runtime for float32, or take {spec.dtype} q and compute {formula}"
    if spec.dtype in _FLOATS:
        return f"{spec.dtype}; ask the runtime for float32"
    return f"{spec.dtype}, as it is"
