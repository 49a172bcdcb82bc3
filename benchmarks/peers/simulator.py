"""The vendor's simulator (rknn-toolkit2): the quantised graph MODEL.onnx, whose float original it quantises again.

The simulator cannot run a stored `.rknn`, so the model is built here, once, before anything is measured.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from worker import serve


def without_quantisation(model: Any) -> Any:
    """The same graph on floats: constants are dequantised, other pairs of Q and DQ are left out."""
    import onnx
    from onnx import numpy_helper

    graph = model.graph
    constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    renamed, kept = {}, []
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            renamed[node.output[0]] = node.input[0]
        elif node.op_type == "DequantizeLinear" and node.input[0] in constants:
            values, scale, zero = (constants[name].astype("float32") for name in node.input)
            axis = next((item.i for item in node.attribute if item.name == "axis"), 1)
            shape = [-1 if number == axis and scale.ndim else 1 for number in range(values.ndim)]
            floats = (values - zero.reshape(shape)) * scale.reshape(shape) if values.ndim else (values - zero) * scale
            graph.initializer.append(numpy_helper.from_array(floats, node.output[0]))
        elif node.op_type == "DequantizeLinear":
            renamed[node.output[0]] = node.input[0]
        else:
            kept.append(node)

    def source(name: str) -> str:
        while name in renamed:
            name = renamed[name]
        return name

    outputs = {item.name: source(item.name) for item in graph.output}
    back = {inner: outer for outer, inner in outputs.items()}
    for node in kept:
        node.input[:] = [back.get(source(name), source(name)) for name in node.input]
        node.output[:] = [back.get(name, name) for name in node.output]
    del graph.node[:]
    graph.node.extend(kept)
    used = {name for node in kept for name in node.input}
    unused = [item for item in graph.initializer if item.name not in used]
    for item in unused:
        graph.initializer.remove(item)
    del graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model)


if __name__ == "__main__":
    path = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        import numpy as np
        import onnx

        from rknn.api import RKNN

        onnx.save(without_quantisation(onnx.load(path)), "float.onnx")
        shape = [side.dim_value for side in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]
        picture = np.random.default_rng(0).integers(0, 256, (1, shape[2], shape[3], 3), np.uint8)
        np.save("picture.npy", picture.transpose(0, 3, 1, 2))
        Path("dataset.txt").write_text("picture.npy\n")
        rknn = RKNN(verbose=False)
        rknn.config(mean_values=[[127.0] * 3], std_values=[[128.0] * 3], target_platform="rk3588")
        for outcome in (
            rknn.load_onnx(model="float.onnx"),
            rknn.build(do_quantization=True, dataset="dataset.txt"),
            rknn.init_runtime(),
        ):
            if outcome:
                sys.exit(f"the vendor's toolkit refuses {path.name}")
        from importlib.metadata import version

        serve(lambda: rknn.inference(inputs=[picture], data_format=["nhwc"]), {"version": version("rknn-toolkit2")})
        rknn.release()
