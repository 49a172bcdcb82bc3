"""One call that compares a `.rknn` with the ONNX model that it was made from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from openrknn.analysis.accuracy.feeds import feeds_for
from openrknn.analysis.accuracy.measure import Bench
from openrknn.analysis.accuracy.reference import Reference
from openrknn.analysis.accuracy.result import Comparison, culprits, lint_lines
from openrknn.analysis.accuracy.weights import read_weights
from openrknn.analysis.accuracy.windows import windows_in
from openrknn.container.model import Model
from openrknn.errors import ComparisonError, UnsupportedError
from openrknn.runtime.inspector import Inspector

Mode: TypeAlias = Literal["free", "isolated"]


def check_comparable(model: Model) -> None:
    """Raise `UnsupportedError` for models that cannot be compared yet."""
    if len(model.graphs) > 1 or model.batch_size > 1:
        raise UnsupportedError(f"{model.path or 'model'}: dynamic shapes and rknn_batch_size cannot be compared yet")


def compare(
    model: Model,
    onnx: str | os.PathLike[str],
    inputs: Mapping[str, npt.NDArray[Any]],
    *,
    layout: str | None = None,
    reference: Literal["float", "quantized"] = "float",
    modes: Sequence[Mode] = ("free",),
    limit: float = 0.99,
    device: str = "auto",
    clouds: bool = False,
    fed: Sequence[str] = (),
) -> Comparison:
    """Run both on the same inputs and compare every tensor that both have.

    modes       "free": both run from inputs to outputs, errors add up; "isolated": each operator is given the
                reference's numbers, so that only its own error shows
    reference   the ONNX model as it is ("float"), or with the weights and the rounding of the file ("quantized")
    limit       cosine below which a tensor has drifted; if an output has, the operators to blame are looked for
    clouds      also count where the pairs (reference, ours) lie, for pictures
    fed         what the inputs are, in words; for the report
    """
    check_comparable(model)
    source = Reference.load(os.fspath(onnx))  # complains if the package onnx is missing
    from onnx import numpy_helper

    feeds = feeds_for(model, source, inputs, layout)
    weights = read_weights(model, {name: numpy_helper.to_array(item) for name, item in source.constants.items()})
    quantized = reference == "quantized"
    with Inspector(model, device, windows=windows_in(model)) as inspector:
        bench = Bench(inspector, source, weights, feeds, clouds=clouds)
        if not any(name in bench.matched for name in bench.outputs):
            raise ComparisonError(f"the models do not belong together: {onnx} has none of the outputs' names")
        result = Comparison(
            model=model.path or "",
            onnx=os.fspath(onnx),
            chip=model.chip.title,
            engine=source.engine,
            reference=reference,
            fed=list(fed) or sorted(inputs),
            limit=limit,
            outputs=bench.outputs,
            tensors=len(bench.names),
            unmatched=[name for name in bench.names if name not in bench.matched],
            foreign_weights=weights.unknown,
        )
        if "free" in modes:
            result.free = bench.free(inputs, layout, quantized=quantized)
        if "isolated" in modes:
            result.isolated = bench.isolated(quantized=quantized)
        if result.is_bad:
            result.culprits = culprits(result.isolated or bench.isolated(quantized=quantized), limit)
            result.lint = lint_lines(model)
    return result
