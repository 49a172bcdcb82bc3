"""The operator table: it agrees with those who compute, and nobody else keeps lists of operators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, defs, numpy_helper, parser

import openrknn
from openrknn.compiler.importer.rewrite import RULES
from openrknn.compiler.operators import CPU_ANY, OPERATORS, UNARY, Npu, Rows
from openrknn.compiler.quantise.backward import RULES as ADJOINTS
from openrknn.compiler.sequence.parts import HANDLERS
from openrknn.partition.padding import rows_are_apart
from openrknn.partition.prepare import prepare
from openrknn.runtime.operators import OPERATORS as COMPUTED
from openrknn.runtime.operators import SEVERAL

ROOT = Path(openrknn.__file__).parent
FEWEST = 3
STANDARD = {schema.name for schema in defs.get_all_schemas() if schema.domain == ""}

HANDLER = "says which function of this module handles which operator"
FORMAT = "names of another format, some of which ONNX has too"
FILE = "operators of .rknn files; `analysis` and `cost` are below the compiler"
IR = "operators of the intermediate form, not of ONNX"
PATTERN = "the steps of one pattern that is looked for, each with its own meaning there"
ALLOWED = {
    "analysis/findings.py": FILE,
    "analysis/lint/rules/numbers.py": FILE,
    "analysis/lint/rules/memory.py": FILE,
    "analysis/weights/channels.py": FILE,
    "compiler/identity.py": "what made a convolution that only moves",
    "compiler/importer/batch.py": "which operand names sizes",
    "compiler/importer/evaluate.py": "what can grow without limit while constants are folded",
    "compiler/importer/formats/caffe/network.py": FORMAT,
    "compiler/importer/formats/ort/internal.py": FORMAT,
    "compiler/importer/formats/pytorch/program.py": FORMAT,
    "compiler/importer/formats/pytorch/widen.py": "which attribute holds the number type",
    "compiler/importer/lazy.py": HANDLER,
    "compiler/importer/rewrite/__init__.py": "what rules write that takes floats only",
    "compiler/importer/rewrite/frames.py": HANDLER,
    "compiler/importer/rewrite/functions.py": HANDLER,
    "compiler/importer/rewrite/masks.py": PATTERN,
    "compiler/importer/rewrite/moves.py": HANDLER,
    "compiler/importer/rewrite/normalisation.py": HANDLER,
    "compiler/importer/rewrite/quantised.py": HANDLER,
    "compiler/importer/rewrite/recurrent.py": HANDLER,
    "compiler/importer/rewrite/reductions.py": HANDLER,
    "compiler/importer/rewrite/windows.py": HANDLER,
    "compiler/importer/shapes.py": "layers with weights at the end of a detector",
    "compiler/forms.py": IR,
    "compiler/lower/__init__.py": IR,
    "compiler/legalise/shapes.py": "whose ranks do not matter to the vendor's runtime",
    "compiler/normalise/attention.py": HANDLER,
    "compiler/normalise/clean.py": "reductions that become smaller work in another order",
    "compiler/normalise/find_norms.py": PATTERN,
    "compiler/normalise/layouts.py": IR,
    "compiler/normalise/rotary.py": "moves that cost more than an address",
    "compiler/normalise/quotients.py": "functions that fp16 has no table for",
    "compiler/normalise/roots.py": PATTERN,
    "compiler/quantise/groups.py": IR,
    "compiler/rounded.py": "which operand has the weights",
    "compiler/sequence/parts.py": HANDLER,
    "compiler/sequence/tables.py": "what is cheap enough to go into a table of tokens",
    "cost/macs.py": FILE,
    "partition/view.py": "which formula counts the products",
    "runtime/program/cpu.py": "which operators only move numbers",
    "runtime/operators/rearrange.py": HANDLER,
    "runtime/operators/unary.py": HANDLER,
    "runtime/operators/binary.py": HANDLER,
    "runtime/operators/recurrent.py": HANDLER,
    "runtime/operators/reduce.py": HANDLER,
    "runtime/operators/table.py": HANDLER,
    "voice/make/moonshine.py": "the layers of one network",
    "voice/make/moonshine_weights.py": "what weights of one network are unpacked with",
    "voice/make/transducer.py": "what stands between an input and the rows that it chooses, in one network",
}


QUOTED = re.compile(r"[\"'](\w+)(?=[\"'])")


def _texts(node: ast.AST) -> Iterator[str]:
    entries: list[Any] = []
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        entries = node.elts
    elif isinstance(node, ast.Dict):
        entries = node.keys
    for entry in entries:
        if isinstance(entry, ast.Constant) and isinstance(entry.value, str):
            yield entry.value


def test_operators_are_listed_in_the_table_only() -> None:
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if place.startswith("compiler/operators/"):
            continue
        text = path.read_text()
        if len(STANDARD.intersection(QUOTED.findall(text))) < FEWEST:
            continue  # most need not be parsed
        for node in ast.walk(ast.parse(text)):
            if len(STANDARD.intersection(_texts(node))) >= FEWEST:
                found.add(place)
    assert sorted(found - set(ALLOWED)) == [], "ask openrknn.compiler.operators, or say in ALLOWED why not"
    assert sorted(set(ALLOWED) - found) == [], "no longer needed in ALLOWED"


def test_rows_agree_with_those_who_compute() -> None:
    assert set(OPERATORS) - STANDARD <= {"FlexAttention", "SwiGLU", "BitCast", "CumProd", "TensorScatter", "Swish",
                                         "LinearAttention", "CausalConvWithState", "RotaryEmbedding", "Attention",
                                         "RMSNormalization"}, "only what older packages of onnx lack"  # fmt: skip
    assert sorted(CPU_ANY - set(COMPUTED) - set(SEVERAL)) == []
    assert sorted(kind for kind in RULES if "." not in kind and kind not in OPERATORS) == []
    assert sorted(name for name, row in OPERATORS.items() if row.write is not None and name not in RULES) == []
    assert sorted(name for name in ADJOINTS if OPERATORS[name].npu is None and name not in CPU_ANY) == []
    for name, row in OPERATORS.items():
        assert (row.npu is Npu.FUNCTION) <= (row.function is not None), name
        assert (row.axis is None) or row.rows is Rows.ALONG, name


@pytest.mark.parametrize("kind", sorted((UNARY & set(COMPUTED)) - {"Clip"}))
def test_functions_of_one_number_keep_their_numbers_apart(kind: str) -> None:
    """The family is a promise: passes and the partitioner build on it."""
    whole = np.array([[0.25, 0.5], [0.75, 0.125]], bool if kind == "Not" else np.float32)
    if kind == "Acosh":
        whole += 1
    alone = [COMPUTED[kind].compute([row], {}, row.shape) for row in whole]
    np.testing.assert_array_equal(COMPUTED[kind].compute([whole], {}, whole.shape), np.stack(alone))


def _view(body: str) -> Any:
    return prepare(parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> g (float[4, 8] x) => (float[4, 8] y) {{ {body} }}'
    ), {})  # fmt: skip


@pytest.mark.parametrize("body", [
    "y = Shrink (x)",
    "y = Cosh (x)",
    "a = GreaterOrEqual (x, x) y = Where (a, x, x)",
    "a = Less (x, x) b = LessOrEqual (x, x) c = Xor (a, b) y = Where (c, x, x)",
])  # fmt: skip
def test_the_partitioner_knows_that_rows_are_apart(body: str) -> None:
    """Its own lists lacked these operators, and a network with one of them was compiled for each size anew."""
    assert rows_are_apart(_view(body))


def test_the_partitioner_turns_half_precision_of_recurrent_networks_into_float() -> None:
    """It looked for convolutions and products only."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float16[4, 1, 8] x, float16[1, 24, 8] w, float16[1, 24, 8] r)'
        " => (float16[4, 1, 1, 8] y) { y = GRU <hidden_size = 8> (x, w, r) }"
    )
    assert prepare(model, {}).values["x"].kind == TensorProto.FLOAT


def test_the_partitioner_knows_layers_between_stored_numbers() -> None:
    """The compiler had a rule for QLinearConv; the partitioner left the layer to the CPU."""
    from openrknn.partition import PartitionOptions, make_bundle

    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 8, 8] x) => (float[1, 16, 8, 8] y) {
            s = Constant <value_float = 0.05> ()
            z = Constant <value = int8 {0}> ()
            a = QuantizeLinear (x, s, z)
            b = QLinearConv <pads = [1, 1, 1, 1]> (a, s, z, w, s, z, s, z)
            y = DequantizeLinear (b, s, z)
        }""")
    weights = np.random.default_rng(0).integers(-9, 9, (16, 16, 3, 3)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    bundle = make_bundle(model, PartitionOptions(cache=False, prefer="npu"))
    assert "npu" in {part.kind for part in bundle.parts}


@pytest.mark.parametrize("kind", ["HardSwish", "Mish", "Round", "Xor", "GreaterOrEqual"])
def test_sequences_take_every_function_of_single_numbers(kind: str) -> None:
    assert kind in HANDLERS
