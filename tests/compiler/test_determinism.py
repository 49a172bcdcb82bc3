"""Same input, same bytes: in other processes, with other hash seeds, with other numbers of threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from tests.compiler.nets import Net, feeds

PROGRAM = """
import hashlib, sys
import numpy as np
import onnxruntime
make = onnxruntime.SessionOptions
def with_threads():
    options = make()
    options.intra_op_num_threads = int(sys.argv[3])
    return options
onnxruntime.SessionOptions = with_threads
from openrknn.compiler import compile_model
data = [np.load(sys.argv[2])[n] for n in range(3)]
for options in ({}, {"calibration": data}, {"calibration": data, "method": "mse", "cores": 3}):
    print(hashlib.sha256(compile_model(sys.argv[1], check=False, **options).data).hexdigest())
"""


def test_other_processes_write_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="its threads are what is tried: pip install onnxruntime")
    net = Net()
    x = net.add("HardSwish", net.conv("x", 3, 32, 3, pads=[1] * 4))
    scaled = net.add("Add", net.add("Mul", x, net.constant([0.5])), net.constant([0.1]))
    a, b = net.conv(scaled, 32, 32, 5, group=32, pads=[2] * 4), net.conv(scaled, 32, 48)
    joined = net.add("Concat", net.add("Sigmoid", a), net.add("Tanh", b), axis=1)
    rows = net.add("Reshape", joined, net.constant([1, 80, 256], np.int64))
    turned = net.add("Transpose", rows, perm=[0, 2, 1])
    out = net.add("LayerNormalization", turned, net.constant(np.ones(80)), net.constant(np.ones(80)), axis=-1)
    shape = (1, 3, 16, 16)
    model = net.model({"x": shape}, [out])
    data = feeds(shape)
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "data.npy", np.stack(data))
    found = []
    for seed, threads in (("1", "1"), ("77", "3")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": threads}
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "net.onnx"), str(tmp_path / "data.npy"), threads],
            env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        found.append(result.stdout.split())
    assert found[0] == found[1]
    here = hashlib.sha256(compile_model(str(tmp_path / "net.onnx"), calibration=data, check=False).data).hexdigest()
    assert here == found[0][1]
