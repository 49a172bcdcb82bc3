"""`openrknn.lint`: what it finds in files with a mistake, and that it finds nothing in others.

The files in goldens/lint were made by the vendor's converter 2.5.0, each with one mistake (see build.py there). That
they are wrong is shown with the network itself: ONNX is the witness.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import openrknn
from openrknn.analysis.lint import CODES, RULES, Finding, Severity, explain, lint_commands
from openrknn.analysis.lint.context import LintContext
from openrknn.analysis.lint.program import decode
from openrknn.analysis.lint.rules import memory
from openrknn.analysis.lint_codes import RULE_CODES
from openrknn.container.model import Model
from tests.cli.changed import with_graph, with_tensor
from tests.container.places import GOLDENS, ROOT, golden, sample_of_corpus
from tests.goldens.lint.build import ROWS

FOLDER = ROOT / "tests" / "goldens" / "lint"
PARTS = 2
Array = npt.NDArray[Any]


def file(name: str) -> Path:
    return FOLDER / f"{name}.rknn"


def found(model: Model | Path, code: str) -> list[Finding]:
    return [finding for finding in openrknn.lint(model) if finding.code == code]


def answer(name: str) -> tuple[Array, Array]:
    """What the software NPU says, and what the network says."""
    from onnx.reference import ReferenceEvaluator

    network = ROWS[name].network()
    random = np.random.default_rng(7)
    feeds = {
        value.name: random.normal(0, 1, [d.dim_value for d in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in network.graph.input
    }
    with openrknn.Session(file(name)) as session:
        ours = session.run(feeds, layout="nchw")["y"]
    right: list[Any] = list(ReferenceEvaluator(network).run(None, feeds))
    return ours.astype(np.float64).reshape(-1), right[0].reshape(-1)


def correlation(name: str) -> float:
    ours, right = answer(name)
    kept = np.isfinite(ours)
    return float(np.corrcoef(ours[kept], right[kept])[0, 1]) if ours[kept].std() else 0.0


@pytest.mark.parametrize(
    ("name", "code", "severity"),
    [
        ("picture_gate_rk3562_fp", "layout-mismatch", Severity.ERROR),
        ("lone_softmax_rv1106_i8", "never-written", Severity.ERROR),
        ("shared_maximum_rk3588_i8", "multiplier-overflow", Severity.ERROR),
        ("channel_maximum_rk3566_i8", "operand-format", Severity.ERROR),
        ("infinite_rk3588_fp", "not-finite", Severity.ERROR),
        ("dead_channels_rk3588_i8", "constant-channels", Severity.NOTE),
        ("low_scores_rk3588_i8", "cannot-decide", Severity.WARNING),
        ("low_sigmoid_rk3588_i8", "cannot-decide", Severity.WARNING),
        ("cancelling_rk3588_i8", "lost-in-sum", Severity.WARNING),
        ("scaled_pixels_rk3588_i8", "normalised-twice", Severity.WARNING),
        ("boxes_and_scores_rk3588_i8", "shared-scale", Severity.WARNING),
        ("boxes_and_scores_rk3588_i8", "coarse-detections", Severity.WARNING),
        ("wide_input_rk3588_i8", "input-rearranged", Severity.NOTE),
    ],
)
def test_each_mistake_is_found_and_nothing_else(name: str, code: str, severity: Severity) -> None:
    finding = found(file(name), code)[0]
    assert finding.severity is severity
    assert finding.what
    assert finding.why
    assert finding.change
    others = {item.code for item in lint_commands(openrknn.load(file(name))) if item.severity is not Severity.NOTE}
    assert others <= {code}


def test_where_it_is() -> None:
    where = found(file("picture_gate_rk3562_fp"), "layout-mismatch")[0].where
    assert (where.operator, where.operator_type, where.tensor) == (1, "ConvMul", "x0")
    assert (where.task, where.register) == (0, "RDMA_EW_BASE_ADDR")
    assert str(where) == "#1 ConvMul, 'x0', task 0, RDMA_EW_BASE_ADDR"
    where = found(file("shared_maximum_rk3588_i8"), "multiplier-overflow")[0].where
    assert (where.operator, where.operator_type, where.register) == (4, "Max", "BS_MUL_CFG")


def test_files_with_errors_compute_something_else_than_their_network() -> None:
    assert correlation("picture_gate_rk3562_fp") < 0.9
    assert correlation("lone_softmax_rv1106_i8") < 0.9
    ours, right = answer("shared_maximum_rk3588_i8")
    assert np.ptp(ours) == 0 < np.ptp(right)
    assert correlation("channel_maximum_rk3566_i8") < 0.9
    assert correlation("channel_maximum_rk3588_i8") > 0.99
    assert not found(file("channel_maximum_rk3588_i8"), "operand-format")
    ours, right = answer("infinite_rk3588_fp")
    assert not np.isfinite(ours).any()
    assert np.isfinite(right).all()


def test_the_same_network_is_right_where_the_converter_copies_the_picture() -> None:
    assert not found(file("picture_gate_rk3588_fp"), "layout-mismatch")
    assert correlation("picture_gate_rk3588_fp") > 0.999


def test_a_head_that_saw_no_object_never_says_more_than_half() -> None:
    with openrknn.Session(file("low_sigmoid_rk3588_i8")) as session:
        scores = session.run({"x0": np.full((1, 16, 8, 8), 3.4, np.float32)}, layout="nchw")["y"]
    assert scores.max() <= 0.5


def test_constant_channels_are_constant() -> None:
    model = openrknn.load(file("dead_channels_rk3588_i8"))
    assert "#1 2 of 16" in found(model, "constant-channels")[0].what
    from openrknn.runtime.inspector import Inspector

    seen = []
    for seed in range(2):
        with Inspector(model, "software") as inspector:
            feed = np.random.default_rng(seed).normal(0, 1, (1, 16, 8, 8)).astype(np.float32)
            inspector.feed({"x0": feed}, "nchw")
            seen.append(next(item.stored for item in inspector.captured() if item.tensor.name == "relu1"))
    flat = np.concatenate([array.reshape(16, -1) for array in seen], 1)
    assert [channel for channel in range(16) if np.ptp(flat[channel].astype(int)) == 0] == [3, 5]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_sound_files_have_no_errors_and_no_warnings(path: Path) -> None:
    serious = [finding for finding in lint_commands(openrknn.load(path)) if finding.severity is not Severity.NOTE]
    assert serious == []


def test_a_tensor_that_is_overwritten_too_early() -> None:
    """In the residual block the shortcut is read after the convolution beside it has been computed."""
    model = openrknn.load(golden("projection_rk3588_i8"))
    assert not found(model, "overwritten")
    internal = [tensor for tensor in model.graphs[0].tensors if tensor.kind.name == "INTERNAL"]
    hits = set()
    for one in internal:
        for other in internal:
            if one is not other:
                moved = with_tensor(model, one.name, offset=other.offset)
                hits |= {finding.where.operator for finding in found(moved, "overwritten")}
    assert hits


def test_reads_behind_the_end_of_a_tensor() -> None:
    """A tensor too small for its shape is not damage: files for RV1103/06 have such, and memory has the room."""
    model = openrknn.load(golden("residual_rk3588_i8"))
    small = with_tensor(model, "relu1", size_bytes=64)
    hits = [_bounds(item) for item in (model, small)]
    assert hits[0] == []
    assert {finding.where.tensor for finding in hits[1]} == {"relu1"}
    assert openrknn.lint(small)[0].code == "out-of-bounds"


def _bounds(model: Model) -> list[Finding]:
    return list(memory.OUT_OF_BOUNDS.findings(LintContext(model, model.graphs[0], decode(model))))


def test_multipliers_that_do_not_fit_the_scales() -> None:
    """A converter that forgets a bit: half of the second operand's multiplier."""
    model = openrknn.load(golden("projection_rk3588_i8"))
    assert not found(model, "multiplier-overflow")
    changed = {
        value: found(_with_register(file("cancelling_rk3588_i8"), 0x4078, value), "multiplier-overflow")
        for value in (0, 0x8000, 0x2000)
    }
    assert all(changed.values()), changed


def _with_register(path: Path, register: int, low: int) -> Model:
    """The low half of a register in every task."""
    model = openrknn.load(path)
    graph = model.graphs[0]
    words = [
        word & ~(0xFFFF << 16) | low << 16 if word & 0xFFFF == register and word >> 48 == 0x1001 else word
        for word in graph.commands
    ]
    return with_graph(model, commands=memoryview(struct.pack(f"<{len(words)}Q", *words)).cast("Q"))


def test_cpu_islands_are_counted() -> None:
    assert "stops 1 times for 1 operators" in found(golden("cpu_sin_rk3588_i8"), "cpu-island")[0].what


def test_codes_and_words() -> None:
    assert tuple(rule.code for rule in RULES) == RULE_CODES
    assert all(explain(code) for code in CODES)
    assert explain("no-such-code") is None
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    assert [code for code in CODES if f"`{code}`" not in page] == []


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_serious_in_the_corpus_but_what_is_known(part: int) -> None:
    """Each of these was looked into: see docs/lint.md."""
    known = {("softmax_rv1106_i8", "never-written"), ("oww_embedding_rk3588_i8", "multiplier-overflow")}
    found_there = {
        (path.stem, finding.code)
        for path in sample_of_corpus(3)[part::PARTS]
        for finding in lint_commands(openrknn.load(path, strict=False))
        if finding.severity is not Severity.NOTE
    }
    assert found_there <= known


def test_an_operator_that_works_in_place_has_written_its_input() -> None:
    """The exponential of a compiled Softmax reads and writes one tensor, which the operator before it has made."""
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' (package onnx) is not installed")
    from openrknn.compiler import compile_model

    helper, float_type = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, float_type, [1, 37, 16]) for name in ("x", "y")]
    nodes = [
        helper.make_node("Transpose", ["x"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "x"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "attention", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    compiled = compile_model(model, check=False)
    loaded = openrknn.load(compiled.data)
    names = [[tensor.name for tensor in (*one.inputs, *one.outputs)] for one in loaded.operators_of(loaded.graphs[0])]
    assert any(len(found) != len(set(found)) for found in names), "no operator works in place any more"
    assert [finding.code for finding in openrknn.lint(loaded) if finding.code == "never-written"] == []


def test_a_part_that_is_read_with_the_strides_of_the_whole_is_in_bounds() -> None:
    """A Gather of one row is done by address: its reader steps over the whole tensor, beyond the size of the row."""
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' (package onnx) is not installed")
    from openrknn.compiler import compile_model

    helper, float_type = onnx.helper, onnx.TensorProto.FLOAT
    ends = [
        helper.make_tensor_value_info(name, float_type, shape) for name, shape in (("x", [1, 49, 64]), ("y", [1, 32]))
    ]
    constants = {"w": np.ones((64, 192), np.float32), "zero": np.int64(0), "v": np.ones((192, 32), np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Gather", ["h", "zero"], ["row"], axis=1),
        helper.make_node("MatMul", ["row", "v"], ["y"]),
    ]
    stored = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "first", ends[:1], ends[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    loaded = openrknn.load(compile_model(model, check=False).data)
    made = {tensor.name for one in loaded.operators_of(loaded.graphs[0]) for tensor in one.outputs}
    assert "row_moved" not in made, "the Gather has an operator of its own"
    assert [finding.what for finding in openrknn.lint(loaded) if finding.code == "out-of-bounds"] == []
