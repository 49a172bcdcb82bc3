"""Build the two small models that are not about pictures: tones of a telephone, and a bare matrix product.

    python build_plain.py        (README.md says which packages it needs)

Both are our own: their weights are formulas. Writes beside this file two fp16 `.rknn` for the RK3588.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent

RATE_HZ = 8000
TONES_HZ = (697, 770, 852, 941, 1209, 1336, 1477, 1633)  # ITU-T Q.23: four rows, four columns of keys
FRAME_SAMPLES = 256
FRAMES = 24
ROWS, INNER, COLUMNS = 64, 128, 32


def tones() -> onnx.ModelProto:
    """[1, 256 samples, 24 frames] -> [1, 8 tones, 24 frames]: the power of each tone in each frame.

    A 1-D convolution correlates each frame with a cosine and a sine of every tone (under a Hann window), the product
    with itself squares, and a second convolution adds the two squares: |sum of x e^(i w t)|^2.
    """
    time = np.arange(FRAME_SAMPLES) / RATE_HZ
    window = np.hanning(FRAME_SAMPLES + 2)[1:-1]
    window /= window.sum()
    waves = [wave(2 * np.pi * tone * time) * window for tone in TONES_HZ for wave in (np.cos, np.sin)]
    pairs = np.repeat(np.eye(len(TONES_HZ)), 2, axis=1) * 4  # a tone of amplitude 1 gives 1
    weights = [
        numpy_helper.from_array(np.array(waves, np.float32)[:, :, None], "waves"),
        numpy_helper.from_array(pairs.astype(np.float32)[:, :, None], "pairs"),
    ]
    nodes = [
        helper.make_node("Conv", ["frames", "waves"], ["correlation"], kernel_shape=[1]),
        helper.make_node("Mul", ["correlation", "correlation"], ["squares"]),
        helper.make_node("Conv", ["squares", "pairs"], ["tones"], kernel_shape=[1]),
    ]
    frames = helper.make_tensor_value_info("frames", TensorProto.FLOAT, [1, FRAME_SAMPLES, FRAMES])
    powers = helper.make_tensor_value_info("tones", TensorProto.FLOAT, [1, len(TONES_HZ), FRAMES])
    return model(helper.make_graph(nodes, "tones", [frames], [powers], weights))


def product() -> onnx.ModelProto:
    """c = a b, nothing else."""
    ends = {"a": (ROWS, INNER), "b": (INNER, COLUMNS), "c": (ROWS, COLUMNS)}
    a, b, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in ends.items())
    return model(helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product", [a, b], [c]))


def model(graph: Any) -> onnx.ModelProto:
    """The graph as a model that is checked."""
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def convert(made: onnx.ModelProto, name: str) -> None:
    """Write the `.rknn`."""
    from rknn.api import RKNN

    onnx.save(made, "model.onnx")
    rknn = RKNN(verbose=False)
    rknn.config(target_platform="rk3588", single_core_mode=True)
    if rknn.load_onnx(model="model.onnx") != 0 or rknn.build(do_quantization=False) != 0:
        raise SystemExit("the converter refused the model")
    if rknn.export_rknn(str(HERE / f"{name}.rknn")) != 0:
        raise SystemExit("the converter could not write the file")
    rknn.release()


def main() -> None:
    """Do all of it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the converter leaves files where it is started
        convert(tones(), "tones_rk3588_fp")
        convert(product(), "product_rk3588_fp")


if __name__ == "__main__":
    main()
