"""Conversions as programs do them, after Frigate's converter: each call compared with 0.

    python converter.py FOLDER      FOLDER has net.onnx (open sizes), list.txt and list.npy; prints JSON

It runs with any `rknn.api`: openrknn's, or the vendor's rknn-toolkit2. What is printed does not depend on whose it is.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np


def convert(path: str, model: str, config: dict[str, Any], load: dict[str, Any], build: dict[str, Any]) -> Any:
    """The four calls; an object that has the built model."""
    from rknn.api import RKNN  # not above: the vendor's package is slow to import, and changes the logging

    rknn = RKNN(verbose=False)
    if rknn.config(target_platform="rk3588", **config) != 0:
        raise RuntimeError("config")
    if rknn.load_onnx(model=model, **load) != 0:
        raise RuntimeError("load_onnx")
    if rknn.build(**build) != 0:
        raise RuntimeError("build")
    if rknn.export_rknn(path) != 0:
        raise RuntimeError("export_rknn")
    return rknn


def main(folder: str) -> dict[str, Any]:
    """What came out: output shapes, and whether float and int8 agree."""
    os.chdir(folder)
    pixels = {"mean_values": [[0, 0, 0]], "std_values": [[255, 255, 255]]}
    one = {"inputs": ["x"], "input_size_list": [[1, 3, 24, 16]]}
    picture = np.ascontiguousarray(np.load("list.npy").transpose(0, 2, 3, 1))
    facts: dict[str, Any] = {}
    exact = convert("float.rknn", "net.onnx", pixels, one, {"do_quantization": False})
    facts["init"] = exact.init_runtime()
    wanted = exact.inference(inputs=[picture])
    facts["shapes"] = [list(array.shape) for array in wanted]
    facts["types"] = [str(array.dtype) for array in wanted]
    quantised = convert("int8.rknn", "net.onnx", pixels, one, {"do_quantization": True, "dataset": "list.txt"})
    quantised.init_runtime()
    found = quantised.inference(inputs=[picture], data_format=["nhwc"])
    errors = [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, wanted, strict=True)]
    facts["is_close"] = [error < 0.1 for error in errors]
    turned = quantised.inference(inputs=[picture.transpose(0, 3, 1, 2)], data_format="nchw")
    facts["is_same_turned"] = all(np.array_equal(a, b) for a, b in zip(found, turned, strict=True))
    alone = quantised.inference(inputs=[picture[0]])
    facts["is_same_alone"] = all(np.array_equal(a, b) for a, b in zip(found, alone, strict=True))
    facts["analysis"] = quantised.accuracy_analysis(inputs=["list.npy"], output_dir="snapshot")
    sizes = [[[1, 3, 24, 16]], [[1, 3, 32, 40]]]
    convert("dynamic.rknn", "net.onnx", {**pixels, "dynamic_input": sizes}, {}, {"do_quantization": False})
    batch = {"do_quantization": True, "dataset": "list.txt", "rknn_batch_size": 2}
    convert("batch.rknn", "net.onnx", {**pixels, "custom_string": "mine"}, one, batch)
    for rknn in (exact, quantised):
        rknn.release()
    return facts


if __name__ == "__main__":
    facts = main(sys.argv[1])
    print(json.dumps(facts))
