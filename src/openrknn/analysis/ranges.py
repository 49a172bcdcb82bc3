"""Findings about quantisation: scales under which values vanish.

An int8 tensor has 256 levels. When boxes (0..640) and scores (0..1) share one of them, all scores fall on one or two
levels: the most common reason for "int8 detects nothing" (ultralytics#24223, airockchip/rknn_model_zoo#290).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from openrknn.analysis.io_reports import calibrated_range, stored_limits
from openrknn.analysis.reports import Finding, Severity
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Kind, Tensor

_FEW_LEVELS = 32
_LARGE_SCORE_STEP = 1 / 16
_DETECTOR_RANK = 3
_DETECTOR_ROWS = range(5, 513)
_DETECTOR_CANDIDATES = 300
_SPLIT = (
    "make boxes and scores separate outputs before conversion (cut the last Concat), or keep that part in fp16 "
    "(hybrid quantization)"
)


def range_findings(model: Model, graph: Graph) -> Iterator[Finding]:
    """Suspicious scales and zero points in one graph."""
    quantized = [tensor for tensor in graph.tensors if tensor.quantization is not None and tensor.quantization.scale]
    yield from _broken(quantized)
    activations = [tensor for tensor in quantized if tensor.kind.is_activation and _is_sound(tensor)]
    yield from _constant(activations)
    squeezed = {finding.subject: finding for finding in _squeezed(model.operators_of(graph))}
    yield from squeezed.values()
    outputs = [graph.tensors[index] for index in graph.outputs]
    yield from _coarse([tensor for tensor in outputs if tensor in activations and tensor.name not in squeezed])


def _is_sound(tensor: Tensor) -> bool:
    assert tensor.quantization is not None
    scale = tensor.quantization.scale[0]
    return math.isfinite(scale) and scale > 0


def _broken(tensors: Iterable[Tensor]) -> Iterator[Finding]:
    """Scales that are no scales, and zero points outside the type."""
    for tensor in tensors:
        assert tensor.quantization is not None
        limits = stored_limits(tensor.dtype)
        if any(not math.isfinite(scale) or scale <= 0 for scale in tensor.quantization.scale):
            yield Finding(
                "broken-scale",
                Severity.WARNING,
                tensor.name,
                f"the scale of {tensor.name!r} is {tensor.quantization.scale[0]:g}",
                "values cannot be computed from it",
                "convert the model again; look for NaN or infinity in the calibration data",
            )
        if limits and any(not limits[0] <= point <= limits[1] for point in tensor.quantization.zero_point):
            yield Finding(
                "far-zero-point",
                Severity.WARNING,
                tensor.name,
                f"the zero point {tensor.quantization.zero_point[0]} of {tensor.name!r} is outside its type",
                "the value 0 cannot be stored, so padding and ReLU are wrong by a constant",
                "calibrate with data whose range includes 0",
            )


def _constant(tensors: Iterable[Tensor]) -> Iterator[Finding]:
    """Tensors that had one value only while the model was calibrated."""
    for tensor in tensors:
        seen = calibrated_range(tensor)
        if seen is not None and seen[0] == seen[1] and tensor.elements > 1:
            yield Finding(
                "constant-range",
                Severity.WARNING,
                tensor.name,
                f"{tensor.name!r} had the one value {seen[0]:g} in calibration",
                "at run time every other value is lost",
                "calibrate with real data (many different pictures, preprocessed as in training)",
            )


def _squeezed(operators: Iterable[Operator]) -> Iterator[Finding]:
    """Concats whose parts have so different ranges that the smallest falls on a few levels."""
    for operator in operators:
        if not operator.type.startswith("Concat") or len(operator.outputs) != 1:
            continue
        output = operator.outputs[0]
        if output.quantization is None or not output.quantization.scale or not _is_sound(output):
            continue
        parts = [(tensor, _levels(tensor, output)) for tensor in operator.inputs if _is_part(tensor)]
        worst = min(parts, key=lambda part: part[1], default=None)
        if worst is None or not 0 < worst[1] < _FEW_LEVELS or max(levels for _, levels in parts) < 2 * worst[1]:
            continue
        yield _shared_scale(output, worst[0], worst[1])


def _is_part(tensor: Tensor) -> bool:
    # Scratch memory of the compiler is listed among the inputs of an operator.
    return tensor.kind.is_activation and not tensor.name.endswith("_exSecondary") and bool(tensor.maximum)


def _levels(part: Tensor, whole: Tensor) -> float:
    """How many levels of `whole` the calibrated range of `part` covers."""
    seen = calibrated_range(part)
    assert seen is not None
    assert whole.quantization is not None
    levels = (seen[1] - seen[0]) / whole.quantization.scale[0]
    return levels if math.isfinite(levels) else math.inf


def _shared_scale(whole: Tensor, part: Tensor, levels: float) -> Finding:
    assert whole.quantization is not None
    seen = calibrated_range(part) or (0.0, 0.0)
    is_output = whole.kind is Kind.OUTPUT
    return Finding(
        "shared-scale",
        Severity.WARNING if is_output or levels < _FEW_LEVELS / 4 else Severity.NOTE,
        whole.name,
        f"{part.name!r} ({seen[0]:.3g}..{seen[1]:.3g}) is joined into {'output ' if is_output else ''}{whole.name!r}, "
        f"whose step is {whole.quantization.scale[0]:.3g}: {max(round(levels), 1)} of 256 levels are left for it",
        "small values such as scores become equal or vanish" if is_output else "this part loses accuracy",
        _SPLIT,
    )


def _coarse(outputs: Iterable[Tensor]) -> Iterator[Finding]:
    """Outputs that look as if scores were in them and whose step is too large for scores."""
    for tensor in outputs:
        assert tensor.quantization is not None
        step = tensor.quantization.scale[0]
        if step > _LARGE_SCORE_STEP and _looks_like_detections(tensor.shape):
            yield Finding(
                "coarse-detections",
                Severity.WARNING,
                tensor.name,
                f"output {tensor.name!r} {list(tensor.shape)} looks like boxes with scores, and its step is {step:.3g}",
                f"a score between 0 and 1 has {1 + int(1 / step)} possible values: all scores may read 0",
                _SPLIT,
            )
            continue
        seen = calibrated_range(tensor)
        levels = (seen[1] - seen[0]) / step if seen else math.inf
        if 0 < levels < _FEW_LEVELS:
            yield Finding(
                "few-levels",
                Severity.WARNING,
                tensor.name,
                f"output {tensor.name!r} used {max(round(levels), 1)} levels in calibration",
                "neighbouring results become equal",
                "look for a range that was forced on this tensor; calibrate it on its own",
            )


def _looks_like_detections(shape: tuple[int, ...]) -> bool:
    """[1, 84, 8400] and [1, 25200, 85]: a short row per candidate, many candidates."""
    if len(shape) != _DETECTOR_RANK:
        return False
    row, candidates = sorted(shape[1:])
    return row in _DETECTOR_ROWS and candidates >= _DETECTOR_CANDIDATES and candidates > 2 * row
