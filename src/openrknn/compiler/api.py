"""`compile`: what programs call."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from openrknn.backports import Unpack
from openrknn.compiler.check_result import skipped
from openrknn.compiler.errors import CompileError
from openrknn.compiler.importer.formats import format_of
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.importer.shapes import bind_shapes, cut_outputs, model_inputs
from openrknn.compiler.options import CompileKeywords, CompileOptions
from openrknn.compiler.pipeline import compile_stages
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.result import Compiled, Variant
from openrknn.container.model import Model

__all__ = ["Compiled", "Variant", "compile_model", "compile_onnx", "compile_with", "input_names"]

_LARGEST_PIXEL = 255.0
_LOG = logging.getLogger(__name__)


def compile_onnx(
    onnx: str | os.PathLike[str] | bytes | Any, target: str = "rk3588", **options: Unpack[CompileKeywords]
) -> Model:
    """An ONNX model as a `.rknn` model; `openrknn.save` or `Session` take it from there.

    Files of other frameworks become ONNX first (docs/formats.md); networks of two files, Darknet's and Caffe's, may be
    given as a pair of them.

    `calibration`: a folder of pictures, paths, arrays, or dicts of arrays by input name; without it the model is fp16.
    `openrknn.compiler.CompileOptions` lists all options.
    """
    return compile_model(onnx, target, **options).model


def compile_model(
    onnx: str | os.PathLike[str] | bytes | Any, target: str = "rk3588", **options: Unpack[CompileKeywords]
) -> Compiled:
    """Compile, and keep what each stage made of the model."""
    return compile_with(onnx, CompileOptions(target=target, **options))


def input_names(
    onnx: str | os.PathLike[str] | bytes | Any, *, shapes: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """What an ONNX model has to be fed with; shapes and outputs that do not fit it are errors."""
    model = read_model(onnx, outputs=outputs, shapes=shapes)
    if shapes is not None:
        bind_shapes(model, shapes)
    if outputs:
        cut_outputs(model, outputs)
    return [entry.name for entry in model_inputs(model)]


def compile_with(onnx: str | os.PathLike[str] | bytes | Any, options: CompileOptions) -> Compiled:
    """Compile with options that are checked already."""
    if options.mean is None and options.std is None and _takes_unit_pixels(onnx):
        options = replace(options, std=_LARGEST_PIXEL)
    made = _compile(onnx, options)
    if made.accuracy is not None and made.accuracy.warning:
        _LOG.warning("openrknn: warning: %s", made.accuracy.warning)
    if not options.check:
        made.check = skipped()
        return made
    from openrknn.compiler.check import check

    checked = partial(check, seconds=options.check_seconds, tell=options.progress)
    made.check = checked(made)
    if made.format_name != "fp16" and made.accuracy is None and any(variant.samples for variant in made.variants):
        from openrknn.compiler.search import improved

        made = improved(onnx, options, made, checked)
    for text in made.check.warnings:
        _LOG.warning("openrknn: warning: %s", text)
    return made


def _takes_unit_pixels(source: Any) -> bool:
    """Whether the file is a checkpoint of Ultralytics: all of its models take pixels of 0 to 1."""
    found = None
    if isinstance(source, str | os.PathLike | bytes):
        found = format_of(source)
    if found is None or found.reader != "pytorch":
        return False
    from openrknn.compiler.importer.formats.pytorch import is_checkpoint

    return is_checkpoint(source)


def _compile(onnx: Any, options: CompileOptions) -> Compiled:
    if options.accuracy_drop is not None:
        from openrknn.compiler.search import search

        options.is_fp16(is_quantised=False)  # says what is missing
        return search(onnx, options)
    if options.method == "auto":
        return _best(onnx, options)
    made = compile_stages(onnx, options, {})
    if options.auto_mixed and made.format_name == "mixed":
        made.fp16_cycles = _fp16_cycles(onnx, options)
    return made


def _fp16_cycles(onnx: Any, options: CompileOptions) -> int | None:
    """What the same model costs with everything in fp16: the search counts operators, and borders cost too."""
    alone = replace(options, calibration=None, fp16=True, auto_mixed=False, fp16_layers=(), method="minmax")
    try:
        return compile_stages(onnx, replace(alone, equalize=False, cores=1, progress=None), {}).costs[1].cycles
    except CompileError:  # an operator that needs calibration data
        return None


_EXACT_DB = 60.0
"""Nothing to gain beyond that."""
_JUDGED = 2
"""Calibration inputs that `method="auto"` judges by."""


def _best(onnx: Any, options: CompileOptions) -> Compiled:
    """Compile with three kinds of ranges, and keep what is closest to float.

    The worst output on the first calibration inputs decides; on a draw the earlier one stays.
    """
    from openrknn.compiler.verify import verify

    if options.auto_mixed:  # the way is chosen for int8, and then the operators that it does not suffice for
        plain = _best(onnx, replace(options, auto_mixed=False))
        return _compile(onnx, replace(options, **plain.way))
    seen: dict[str, Statistics] = {}

    def attempt(method: str) -> tuple[float, Compiled]:
        made = compile_stages(onnx, replace(options, method=method), seen)
        if made.lowering.format.name != "int8" or not any(variant.samples for variant in made.variants):
            return math.inf, made
        return min(verdict.decibels for verdict in verify(made, count=_JUDGED)), made

    best = attempt("cost")
    for method in ("minmax", "mse"):
        if best[0] < _EXACT_DB:
            best = max(best, attempt(method), key=lambda pair: pair[0])
    return best[1]
