"""Streaming speech models, whose first dimension is time: what their layers are made of runs on the NPU.

Witness: ONNX Runtime with the graph as it was written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from openrknn.compiler import compile_onnx
from openrknn.container.parts import Placement
from openrknn.runtime.session import Session

runtime = pytest.importorskip("onnxruntime")
Array = npt.NDArray[Any]
TIMES, HEADS, DEPTH, KEYS = 8, 2, 4, 24
CHANNELS = HEADS * DEPTH


def parsed(text: str, **constants: npt.ArrayLike) -> Any:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    return model


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def checked(model: Any, feed: dict[str, Array], *, decibels: float = 55.0) -> set[str]:
    """Operators of the CPU, after a comparison with float."""
    made = compile_onnx(model, fp16=True)
    wanted = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
    with Session(made, "software") as session:
        found = np.asarray(next(iter(session.run(feed).values())), np.float64).reshape(wanted.shape)
    assert 10 * np.log10((wanted.astype(np.float64) ** 2).sum() / ((found - wanted) ** 2).sum()) > decibels
    operators = made.operators
    return {op.type for op in operators if op.placement is Placement.CPU} - {"InputOperator", "OutputOperator"}


def relative(**changes: Array) -> Any:
    """Queries times a table of positions, shifted by one for each row: Transformer-XL, Zipformer."""
    places = np.arange(TIMES)[::-1, None] + np.arange(KEYS)
    constants = {
        "weight": random(16, CHANNELS) / 4,
        "table": random(HEADS, 1, DEPTH, KEYS + TIMES - 1, seed=1),
        "places": np.tile(places, (HEADS, 1)).astype(np.int64),
        "apart": np.array([TIMES, 1, HEADS, DEPTH]),
        "flat": np.array([HEADS * TIMES, KEYS + TIMES - 1]),
        "whole": np.array([1, HEADS, TIMES, KEYS]),
    }
    return parsed(
        f"""net (float[{TIMES}, 1, 16] x) => (float[1, {HEADS}, {TIMES}, {KEYS}] y) {{
            q = MatMul (x, weight)
            h = Reshape (q, apart)
            t = Transpose <perm = [2, 1, 0, 3]> (h)
            s = MatMul (t, table)
            f = Reshape (s, flat)
            g = GatherElements <axis = 1> (f, places)
            z = Reshape (g, whole)
            y = Tanh (z)
        }}""",
        **{**constants, **changes},
    )


def test_relative_positions_are_one_product() -> None:
    assert "GatherElements" not in checked(relative(), {"x": random(TIMES, 1, 16, seed=3)})


def test_any_columns_may_be_picked_also_from_behind() -> None:
    places = np.random.default_rng(5).integers(-KEYS, KEYS, (HEADS * TIMES, KEYS))
    assert "GatherElements" not in checked(relative(places=places), {"x": random(TIMES, 1, 16, seed=4)})


def test_rows_that_are_not_those_of_times_and_heads_are_picked_one_by_one() -> None:
    changes = {
        "table": random(HEADS, 1, DEPTH, 32, seed=1), "flat": np.array([2 * HEADS * TIMES, 16]),
        "places": np.random.default_rng(5).integers(0, 16, (HEADS * TIMES, KEYS)),
    }  # fmt: skip
    assert "GatherElements" in checked(relative(**changes), {"x": random(TIMES, 1, 16, seed=4)})


def test_a_norm_with_a_bias_inside_the_mean_stays_on_the_npu() -> None:
    model = parsed(
        """net (float[8, 1, 16] x) => (float[8, 1, 32] y) {
            a = MatMul (x, weight)
            d = Sub (a, bias)
            q = Pow (d, two)
            v = ReduceMean <axes = [-1], keepdims = 1> (q)
            r = Pow (v, power)
            s = Mul (r, scale)
            n = Mul (a, s)
            y = MatMul (n, other)
        }""",
        weight=random(16, 32), bias=random(32, seed=1), other=random(32, 32, seed=2) / 5,
        two=np.float32(2), power=np.float32(-0.5), scale=np.float32(2.5),
    )  # fmt: skip
    assert checked(model, {"x": random(8, 1, 16, seed=3)}) <= {"Reshape", "Transpose"}


@pytest.mark.parametrize("each", [2, 4, 8])
def test_frames_become_fewer_and_more_again(each: int) -> None:
    times = 2 * each
    model = parsed(
        f"""net (float[{times}, 1, 16] x) => (float[{times}, 1, 16] y) {{
            a = MatMul (x, weight)
            b = Reshape (a, apart)
            c = Mul (b, weights)
            d = ReduceSum <keepdims = 0> (c, one)
            e = MatMul (d, other)
            f = Unsqueeze (e, one)
            g = Expand (f, apart)
            h = Reshape (g, whole)
            y = Add (a, h)
        }}""",
        weight=random(16, 16) / 4, other=random(16, 16, seed=1) / 4, one=np.array([1]),
        weights=random(each, 1, 1, seed=2), apart=np.array([2, each, 1, 16]), whole=np.array([times, 1, 16]),
    )  # fmt: skip
    assert checked(model, {"x": random(times, 1, 16, seed=3)}) <= {"Reshape", "Transpose"}


def masked(fill: float, *, is_kept: bool = False, last: str = "Softmax <axis = -1>") -> Any:
    """A mask of the length that was fed, as streaming models mask a past that is not there yet."""
    order = "long, s, fill" if is_kept else "short, fill, s"
    return parsed(
        f"""net (float[1, 8, 16] x, int64[1] fed) => (float[1, 8, 16] y) {{
            a = MatMul (x, weight)
            k = Transpose <perm = [0, 2, 1]> (a)
            s = MatMul (a, k)
            short = LessOrEqual (fed, numbers)
            long = Not (short)
            w = Where ({order})
            p = {last} (w)
            y = MatMul (p, a)
        }}""",
        weight=random(16, 16) / 8, numbers=np.arange(8).reshape(1, 1, 8), fill=np.float32(fill),
    )  # fmt: skip


@pytest.mark.parametrize(("fill", "is_kept", "last"), [
    (-1000.0, False, "Softmax <axis = -1>"), (-np.inf, False, "Softmax <axis = -1>"),
    (-1e9, True, "Softmax <axis = -1>"), (0.0, False, "Identity"), (0.5, True, "Identity"),
])  # fmt: skip
@pytest.mark.parametrize("fed", [3, 8])
def test_a_mask_of_integers_leaves_scores_on_the_npu(fill: float, is_kept: bool, last: str, fed: int) -> None:
    model = masked(fill, is_kept=is_kept, last=last)
    found = checked(model, {"x": random(1, 8, 16, seed=3), "fed": np.array([fed])}, decibels=50)
    assert "exSoftmax13" not in found
    assert "MatMul" not in found


def test_a_choice_by_floats_may_guard_against_what_is_no_number() -> None:
    model = parsed(
        """net (float[1, 8, 16] x) => (float[1, 8, 16] y) {
            a = MatMul (x, weight)
            m = Greater (a, zero)
            y = Where (m, a, half)
        }""",
        weight=random(16, 16), zero=np.float32(0), half=np.float32(0.5),
    )  # fmt: skip
    assert "Where" in checked(model, {"x": random(1, 8, 16, seed=3)})
