"""What is asked of both libraries: scripts for `asking`, made for a model."""

from __future__ import annotations

from pathlib import Path

from openrknn.container.model import Model
from openrknn.runtime.shapes import specs
from openrknn.vendor.context.answers import QUERIES
from openrknn.vendor.tables.enums import QueryCommand as Q
from openrknn.vendor.tables.enums import TensorFormat
from tests.capi.asking import CODEC, Script

NOT_OF_A_FILE = (Q.PERF_DETAIL, Q.PERF_RUN)
"""Answers that are about a run."""
FILL = 0xA5
"""What is in an answer before the call: a field that the library leaves alone is seen."""
NOT_ANSWERED = {
    False: ("CURRENT_INPUT_ATTR", "CURRENT_NATIVE_INPUT_ATTR", "CURRENT_OUTPUT_ATTR", "CURRENT_NATIVE_OUTPUT_ATTR"),
    True: ("NATIVE_NHWC_OUTPUT_ATTR",),
}
"""Attributes that 1.5.2 has no answer to: of a model with one shape, of a dynamic model after its shapes were set."""


def ask_all(script: Script, context: int, model: Model, when: str = "", fill: int = FILL) -> None:
    """Every query with every index."""
    graph = model.graphs[0]
    counts = {"": 1, "input": len(graph.inputs), "output": len(graph.outputs)}
    for command in Q:
        if command not in NOT_OF_A_FILE:
            for index in range(counts[QUERIES[command].tensor]):
                script.query(f"{when}{command.name} {index}", context, command, index, fill=fill)


def shapes_of(model: Model, graph: int) -> bytes:
    """rknn_tensor_attr of every input, for `rknn_set_input_shapes`."""
    rows = b""
    for index, spec in enumerate(specs(model, model.graphs[graph], inputs=True)):
        form = TensorFormat.NHWC if spec.layout == "nhwc" else TensorFormat.UNDEFINED
        values = {"index": index, "n_dims": len(spec.shape), "dims": list(spec.shape), "name": spec.name, "fmt": form}
        rows += CODEC.encode("rknn_tensor_attr", values)
    return rows


def attributes_script(path: Path, model: Model) -> Script:
    """All queries after `rknn_init`, and for each choice of shapes of a dynamic model."""
    script = Script()
    context = script.init(path)
    ask_all(script, context, model)
    if model.is_dynamic:
        for graph in model.graphs:
            wanted = script.data(shapes_of(model, graph.index))
            count = len(graph.inputs)
            script.call(f"shapes {graph.index}", "rknn_set_input_shapes", f"*{context}", count, f"@{wanted}")
            ask_all(script, context, model, f"graph {graph.index} ")
    script.call("rknn_destroy", "rknn_destroy", f"*{context}")
    return script
