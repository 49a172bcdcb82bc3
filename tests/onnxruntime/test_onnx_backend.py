"""A sample of ONNX's node tests through the face; `tools/onnx_backend.py` runs all of them.

ONNX's own data are the witness, and ONNX Runtime says which tests can be passed.
"""

import dataclasses

import pytest

from openrknn.runtime.parted.steps import NpuStep
from tools.onnx_backend import cases, judge, run_case

QUICK = [
    "add", "argmax", "averagepool", "batch_normalization", "clip", "compress", "concat", "conv", "convtranspose",
    "depthtospace", "flatten", "gather", "gemm", "greater", "identity", "if_", "instance_normalization",
    "leakyrelu", "lrn", "lstm", "matmul", "maxpool", "min", "mul", "nonmaxsuppression", "pad", "prelu", "reducemean",
    "relu", "reshape", "scatternd", "shape", "slice", "softmax", "splittosequence", "squeeze", "string_concat", "sub",
    "transpose", "unsqueeze", "where",
]  # fmt: skip
ON_NPU = {"averagepool": 14, "flatten": 9, "gemm": 11, "matmul": 7, "maxpool": 12, "softmax": 21, "transpose": 7}
"""At least so many have a part there."""


@pytest.mark.parametrize("module", QUICK)
def test_what_onnx_runtime_passes_passes_here(module: str) -> None:
    answers = list(judge(module))
    passed = [answer for answer in answers if answer["mode"] == "ort" and answer["passed"]]
    assert passed or module in {"compress", "depthtospace"}, "ONNX Runtime knows this operator"
    assert [
        (one["test"], one["mode"], one["error"]) for one in answers if one["mode"] != "ort" and not one["passed"]
    ] == []
    npu = sum(answer["npu"] for answer in answers if answer["mode"] == "npu")
    assert npu >= ON_NPU.get(module, 0)


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge of the tests above can say no, of the NPU's numbers as well."""
    case = cases("relu")[0]
    inputs, outputs = case.data_sets[0]
    wrong = dataclasses.replace(case, data_sets=[(inputs, [outputs[0] + 0.1])])
    for mode in ("ort", "cost", "npu"):
        assert run_case(case, mode)["passed"]
        assert not run_case(wrong, mode)["passed"] or mode == "npu"  # which may ask ONNX Runtime a second time
    honest = NpuStep.run
    monkeypatch.setattr(NpuStep, "run", lambda step, values: [value + 0.1 for value in honest(step, values)])
    assert run_case(case, "npu")["npu"]
    assert not run_case(case, "npu")["passed"]
