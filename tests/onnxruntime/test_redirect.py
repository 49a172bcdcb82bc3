"""`import onnxruntime` redirected to ours: no recursion, the real one's submodules, and unmodified programs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import openrknn

pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "models" / "tiny.onnx"
PROGRAM = """
import sys
import numpy as np
import onnxruntime as ort
from onnxruntime import SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
session = ort.InferenceSession(sys.argv[1], SessionOptions(), providers=["CPUExecutionProvider"])
entry = session.get_inputs()[0]
session.run(None, {entry.name: np.zeros(entry.shape, np.float32)})
print(__name__, ort.__name__, session.get_providers()[0], *sys.argv[2:])
sys.exit(7)
"""


def started(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    options = "prefer=npu;device=software;cache=off"
    modules = str(Path(openrknn.__file__).parents[1])
    environment = {**os.environ, "OPENRKNN_PROVIDER_OPTIONS": options, "PYTHONPATH": modules}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=cwd
    )


def test_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = started("-m", "openrknn.onnxruntime", str(program), str(MODEL), "--children", "-m")
    assert found.stdout.split() == ["__main__", "openrknn.onnxruntime", "RknnExecutionProvider", "--children", "-m"]
    assert found.returncode == 7, found.stderr


def test_a_module_and_the_programs_that_it_starts(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text(PROGRAM)
    (tmp_path / "outer.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'inner.py', *sys.argv[1:]]))\n"
    )
    found = started("-m", "openrknn.onnxruntime", "--children", "-m", "outer", str(MODEL), cwd=tmp_path)
    assert found.stdout.split() == ["__main__", "openrknn.onnxruntime", "RknnExecutionProvider"]
    assert found.returncode == 7, found.stderr
    alone = started("-m", "openrknn.onnxruntime", "-m", "outer", str(MODEL), cwd=tmp_path)
    assert alone.stdout.split() == ["__main__", "onnxruntime", "CPUExecutionProvider"]


def test_by_hand_with_late_imports() -> None:
    """Modules that import ONNX Runtime when they need it get the real one, and its submodules are its own."""
    code = f"""
import sys
import numpy as np
import openrknn.onnxruntime
sys.modules["onnxruntime"] = openrknn.onnxruntime
import onnxruntime.quantization, onnxruntime.backend
from onnxruntime.tools import check_onnx_model_mobile_usability
from openrknn.compiler.float_model import FloatModel
import onnxruntime, onnx
model = onnx.load({str(MODEL)!r})
name = model.graph.input[0].name
shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
session = onnxruntime.InferenceSession({str(MODEL)!r}, providers=[("RknnExecutionProvider", {{"prefer": "npu"}})])
x = np.ones(shape, np.float32)
(found,) = session.run(None, {{name: x}})
output = model.graph.output[0].name
wanted = dict(FloatModel(model, [output]).run({{name: x}}))[output]
assert np.abs(found - wanted).max() < 1e-2
print(onnxruntime.quantization.__name__, onnxruntime.backend.__name__)
"""
    found = started("-c", code)
    assert found.stdout.split() == ["onnxruntime.quantization", "openrknn.onnxruntime.backend"], found.stderr


def test_no_module_imports_onnx_runtime_past_its_owner() -> None:
    found = []
    for path in (ROOT / "src" / "openrknn").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "onnxruntime" in text else ():
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found += [f"{path}:{name}" for name in names if name.partition(".")[0] == "onnxruntime"]
    assert not found


def test_a_file_that_is_not_there() -> None:
    found = started("-m", "openrknn.onnxruntime", "nowhere.py")
    assert found.returncode == 2
    assert "nowhere.py: no such file" in found.stderr
