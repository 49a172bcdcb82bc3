"""Operators of the CPU against ONNX's own node tests: inputs, attributes and answers as the standard publishes them."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.backend.test.case import node as node_cases
from onnx.backend.test.case.test_case import TestCase as NodeCase

from openrknn.runtime.operators import ABSENT, OPERATORS, SEVERAL
from tests.runtime.cases import Array

REFUSED = {
    "_antialias": "Resize that takes a mean of what falls together; the file has no slot for it",
    "_volumetric": "GridSample of volumes; the NPU's tensors have four dimensions",
    "training": "training, which no .rknn does",
    "_blocked": "scales per block of values",
    "_empty_set": "the extreme of nothing",
    "_downsample_scales_linear_align_corners": "2.4 pixels wide; in the vendor's simulator corners meet",
    "_downsample_scales_cubic_align_corners": "the same, 3.2 pixels wide",
}
"""Parts of names of tests, and why they do not fit."""
ROUNDED = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad",
    "test_gridsample_bicubic",
    "test_roialign_aligned_false",
    "test_roialign_aligned_true",
}
"""Tests whose answers are written with four digits."""
NEWER = {"Softmax": "exSoftmax13"}
"""ONNX's tests are those of the newest opset; a .rknn has another type for it where opset 13 changed the meaning."""
NUMBERS = "fiub"


def modules() -> dict[str, str]:
    """Operator -> the module that holds its tests."""
    files = {entry.name.replace("_", ""): entry.name for entry in pkgutil.iter_modules(node_cases.__path__)}
    return {name: files[name.lower()] for name in {**OPERATORS, **SEVERAL} if name.lower() in files}


def cases(operator: str) -> Iterator[NodeCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{node_cases.__name__}.{modules()[operator]}")
    for case in node_cases._NodeTestCases:
        nodes = list(case.model.graph.node) if case.model is not None else []
        if len(nodes) == 1 and nodes[0].op_type == operator and not nodes[0].domain:
            yield case


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """As a .rknn stores them: texts, numbers, lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, onnx.TensorProto):
            return numpy_helper.to_array(value)
        if isinstance(value, bytes):
            return value.decode()
        return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value

    return {entry.name: plain(helper.get_attribute_value(entry)) for entry in node.attribute}


def computed(node: onnx.NodeProto, inputs: list[Array], shapes: list[tuple[int, ...]]) -> list[Array]:
    if node.op_type in SEVERAL:
        return list(SEVERAL[node.op_type].compute(inputs, attributes_of(node), shapes))
    compute = OPERATORS[NEWER.get(node.op_type, node.op_type)].compute
    return [compute(inputs, attributes_of(node), shapes[0]).reshape(shapes[0])]


def as_array(value: Any) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def check(case: NodeCase) -> int:
    """1 if its types are those of NumPy, and then the answers are right."""
    assert case.model is not None
    graph = case.model.graph
    (node,) = graph.node
    count = 0
    for given, wanted in case.data_sets or ():
        inputs = dict(zip([value.name for value in graph.input], map(as_array, given), strict=True))
        answers = dict(zip([value.name for value in graph.output], map(as_array, wanted), strict=True))
        types = {array.dtype for array in (*inputs.values(), *answers.values())}
        if any(kind.kind not in NUMBERS or kind.isbuiltin != 1 for kind in types):  # 8-bit floats and their like
            continue
        outputs = [answers.get(name) for name in node.output]
        shapes = [() if array is None else array.shape for array in outputs]
        ours = computed(node, [inputs[name] if name else ABSENT for name in node.input], shapes)
        for array, theirs in zip(ours, outputs, strict=False):
            if theirs is None:
                continue
            coarse = theirs.dtype == np.float16 or case.name in ROUNDED
            np.testing.assert_allclose(
                np.asarray(array).reshape(theirs.shape).astype(np.float64),
                theirs.astype(np.float64),
                rtol=2e-3 if coarse else 1e-4,
                atol=1e-3 if coarse else 1e-5,
                err_msg=case.name,
            )
        count += 1
    return count


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", sorted(modules()))
def test_onnx_says_the_same(operator: str) -> None:
    fitting = [case for case in cases(operator) if not any(part in case.name for part in REFUSED)]
    assert sum(map(check, fitting)) or operator in {"DequantizeLinear", "QuantizeLinear"}


def test_the_others_are_tested_by_hand() -> None:
    """In test_operators.py; those with "ex" in front are the compiler's own."""
    others = {name for name in {**OPERATORS, **SEVERAL} if name not in modules() and not name.startswith("ex")}
    assert others == {"ConvRelu", "GlobalLpPool", "MaxRoiPool", "Range"}
