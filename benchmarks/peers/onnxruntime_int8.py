"""ONNX Runtime on a quantised graph (QDQ): MODEL.onnx, number of threads. Inputs are floats already."""

from __future__ import annotations

import sys

from worker import serve

if __name__ == "__main__":
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[2])
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    noise = np.random.default_rng(0)
    inputs = {item.name: noise.normal(0, 1, item.shape).astype(np.float32) for item in session.get_inputs()}
    serve(lambda: session.run(None, inputs), {"version": onnxruntime.__version__})
