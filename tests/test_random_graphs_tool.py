"""tools/random_graphs: graphs are correct by construction and repeatable, and the checker tells outcomes apart.

The graphs themselves need the vendor's toolkit and an hour; here are the generator and the checker, on files whose
answers the vendor's simulator gave.
"""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.runtime.cases import GOLDENS, answers

causes: Any = importlib.import_module("tools.random_graphs.causes")
check: Any = importlib.import_module("tools.random_graphs.check")
Drawn: Any = importlib.import_module("tools.random_graphs.draw").Drawn
QUANTISED = SimpleNamespace(quantization=SimpleNamespace(scale=(0.5,), zero_point=(3,)))


@pytest.mark.parametrize("number", range(12))
def test_graphs_are_correct_by_construction(number: int) -> None:
    drawn = Drawn(number, seed=4)
    onnx.checker.check_model(drawn.model, full_check=True)
    assert 1 <= len(drawn.graph.inputs) <= 3
    assert drawn.model.graph.output
    assert Drawn(number, seed=4).model.SerializeToString() == drawn.model.SerializeToString()


def test_shapes_are_those_that_onnx_computes() -> None:
    drawn = Drawn(3, seed=4)
    feeds = {value.name: array for value, array in zip(drawn.graph.inputs, drawn.inputs(0), strict=True)}
    found: Any = ReferenceEvaluator(drawn.model).run(None, feeds)
    said = [[size.dim_value for size in item.type.tensor_type.shape.dim] for item in drawn.model.graph.output]
    assert [list(array.shape) for array in found] == said


def test_one_step_is_agreement_and_two_are_not() -> None:
    real = np.arange(8, dtype=np.float32)
    stored = (real / 0.5 + 3).astype(np.int8)
    assert check.judge(stored + 1, real, real, QUANTISED)[0] == "agree"
    assert check.judge(stored + 2, real, real, QUANTISED)[0] == "differ"
    assert check.judge(stored + 2, real, real + 1, QUANTISED)[0] == "near"


def test_the_simulators_last_elements_do_not_count() -> None:
    real = np.arange(10, dtype=np.float32)
    wrong = real.copy()
    wrong[8:] = np.nan
    assert check.judge((real / 0.5 + 3).astype(np.int8), wrong, real, QUANTISED)[0] == "agree"


def golden(folder: Path, name: str, number: str) -> Path:
    """A golden file under a number, with the simulator's answer as the third witness too."""
    path = folder / "rk3588" / f"{number}_i8.rknn"
    path.parent.mkdir(exist_ok=True)
    shutil.copy(GOLDENS / f"{name}.rknn", path)
    with np.load(GOLDENS / f"{name}.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    arrays |= {f"f{key[1:]}": value for key, value in arrays.items() if key[0] == "o"}
    np.savez(path.with_suffix(".npz"), **arrays)
    return path


def test_the_checker_runs_files_and_names_refusals(tmp_path: Path) -> None:
    right = golden(tmp_path, "conv_rk3588_i8", "00010")
    assert check.outcome(right)[0] == "agree"
    check.record(tmp_path, right, *check.outcome(right))
    assert check.todo(tmp_path, []) == []
    broken = golden(tmp_path, "conv_rk3588_i8", "00011")
    broken.write_bytes(broken.read_bytes()[:200])
    assert check.todo(tmp_path, []) == [broken]
    assert check.outcome(broken)[0] == "refused"


def softmax_case(folder: Path) -> Path:
    """A golden whose exponential is the commands', laid out as make.py does: chip/number_kind and onnx/number."""
    (folder / "rk3588").mkdir()
    (folder / "onnx").mkdir()
    path = folder / "rk3588" / "00001_fp.rknn"
    shutil.copy(GOLDENS / "softmax_rk3588_fp.rknn", path)
    shutil.copy(GOLDENS / "softmax.onnx", folder / "onnx" / "00001.onnx")
    inputs, outputs = answers(GOLDENS / "softmax_rk3588_fp.rknn")
    fed = dict(zip([item.name for item in onnx.load(GOLDENS / "softmax.onnx").graph.input], inputs, strict=True))
    true: Any = ReferenceEvaluator(onnx.load(GOLDENS / "softmax.onnx")).run(None, fed)
    np.savez(path.with_suffix(".npz"), x0=inputs[0], o0=outputs[0], f0=np.asarray(true[0]))
    return path


def test_softmax_is_explained_by_its_exponential(tmp_path: Path) -> None:
    path = softmax_case(tmp_path)
    outcome, details = check.outcome(path)
    assert outcome == "explained"
    assert details.startswith("softmax's exponential: ")


def test_another_exponential_explains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = softmax_case(tmp_path)
    explain: Any = importlib.import_module("tools.random_graphs.explain")
    monkeypatch.setattr(explain, "CAUSES", ())
    monkeypatch.setattr(explain, "attributed", lambda *_: [None])
    assert check.outcome(path)[0] == "differ"


def own(op_type: str, error: float, *nodes: str) -> Any:
    made = tuple(onnx.helper.make_node(kind, ["x"], ["y"]) for kind in nodes)
    return causes.Own(1, op_type, made, True, error, 0.5)


def test_every_large_error_needs_a_cause() -> None:
    facts = causes.Facts({}, {}, ())
    sine, conv = own("Sin", 130.0, "Sin"), own("Conv", 130.0, "Conv")
    assert causes.attributed("rk3576", [sine], facts) == ["sine's remainder saturated"]
    assert causes.attributed("rk3588", [sine], facts) == [None]
    assert causes.attributed("rk3576", [sine, conv], facts) == ["sine's remainder saturated", None]
    assert causes.attributed("rk3588", [own("Conv", 1.0, "Conv")], facts) == ["rounding between operators"]
