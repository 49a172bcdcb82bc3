"""The compiler's table of ONNX operators against the compiler itself, on onnx's own node tests."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.operators import CPU_ANY, ONNX_ON_NPU, QUANTISERS
from openrknn.errors import RknnError
from openrknn.partition import PartitionOptions, make_bundle
from tests.compiler.nets import Net
from tests.container.places import IS_WHOLE

_TRIES = 2
_BRANCHES = {"If", "Loop", "Scan", "SequenceMap"}
"""What is in them is compiled, where they are decided."""


def _cases() -> dict[str, list[tuple[Any, dict[str, Any]]]]:
    """ONNX operator -> models of it alone with float inputs, and the values of the others."""
    from onnx import defs
    from onnx.backend.test.case.node import collect_testcases

    found: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    standard = {schema.name for schema in defs.get_all_schemas() if schema.domain == ""}
    for case in collect_testcases(None):
        if case.model is None:
            continue
        nodes = list(case.model.graph.node)
        if len(nodes) != 1 or nodes[0].domain or nodes[0].op_type not in standard or not case.data_sets:
            continue
        kinds = [entry.type.tensor_type.elem_type for entry in case.model.graph.input]
        values = dict(zip((entry.name for entry in case.model.graph.input), case.data_sets[0][0], strict=False))
        others = {entry.name for entry, kind in zip(case.model.graph.input, kinds, strict=True) if kind != 1}
        constants = {name: value for name, value in values.items() if name in others and isinstance(value, np.ndarray)}
        if 1 in kinds and len(constants) == len(others):
            found.setdefault(nodes[0].op_type, []).append((case.model, constants))
    return found


_LEFT_OUT = {
    "BlackmanWindow", "CastLike", "HammingWindow", "HannWindow", "NegativeLogLikelihoodLoss", "Range",
    "SoftmaxCrossEntropyLoss", "AffineGrid", "CausalConvWithState", "LinearAttention", "Bernoulli",
    "SequenceMap", "ConstantOfShape",
}  # fmt: skip
"""Made of constants, refused by the compiler, or nothing but work of the CPU."""


def test_a_rule_for_a_new_operator_needs_a_decision_here() -> None:
    """Every operator that the compiler writes with others, itself or by ONNX's own definition."""
    from onnx import defs

    from openrknn.compiler.importer.rewrite import RULES

    known = ONNX_ON_NPU | QUANTISERS | CPU_ANY | _BRANCHES | _LEFT_OUT
    written = {kind for kind in RULES if "." not in kind}
    assert sorted(written - known) == []
    schemas: list[Any] = list(defs.get_all_schemas())
    defined = {
        schema.name
        for schema in schemas
        if schema.domain == "" and (schema.has_function or schema.has_context_dependent_function)
    }
    assert sorted(defined - known) == []


@pytest.mark.skipif(not IS_WHOLE, reason="a minute; with ./test --all")
def test_no_operator_that_the_compiler_gives_to_the_npu_is_missing() -> None:
    known = ONNX_ON_NPU | QUANTISERS | CPU_ANY | _BRANCHES
    missing, seen = set(), Counter[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, cases in _cases().items():
            if kind in known:
                continue
            for model, constants in cases[:_TRIES]:
                seen[kind] += 1
                try:
                    made = compile_model(model, constants=constants, check=False).model
                except RknnError:
                    continue
                except AttributeError:  # sequences
                    break
                if any(graph.tasks for graph in made.graphs):
                    missing.add(kind)
                    break
    assert len(seen) > 10, "onnx has no node tests any more?"
    assert missing == set()


@pytest.mark.parametrize("kind", ["Mean", "LogSoftmax"])
def test_a_network_that_compiles_whole_is_one_part(kind: str) -> None:
    net = Net()
    chance = np.random.default_rng(0)
    weights = [net.constant(chance.normal(0, 0.1, (32, 32, 3, 3)).astype(np.float32)) for _ in range(2)]
    first, second = (net.add("Conv", "x", one, pads=[1, 1, 1, 1]) for one in weights)
    made = net.add(kind, first, second) if kind == "Mean" else net.add(kind, net.add("Add", first, second), axis=1)
    out = net.add("Conv", made, weights[0], pads=[1, 1, 1, 1])
    bundle = make_bundle(net.model({"x": (1, 32, 32, 32)}, [out]), PartitionOptions(cache=False, prefer="npu"))
    assert [part.kind for part in bundle.parts] == ["npu"]
