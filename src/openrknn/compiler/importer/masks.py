"""Masks of attention: the lowest float (or minus infinity) beside scores, before a Softmax.

fp16 ends at 65504, so such a number becomes infinite, and infinity times 0 or minus infinity is NaN. The intention is
"far below every score": the exponential of -30000 is as much 0 as that of -3.4e38, and in a row that is masked
completely both leave every score alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.operators import ARITHMETIC, MOVES
from openrknn.numerics import MASKED
from openrknn.onnxgraph import readers_of

_HUGE = 1e5
"""No score of attention is so large, and fp16 has no such number."""
MASK_ARITHMETIC = (ARITHMETIC | {"Where", "Neg"}) - {"Div"}
"""What a mask may go through."""
_ENDS = {"Softmax", "LogSoftmax"}


def soften_masks(model: Any) -> None:
    """Change constants in place whose every way forward ends in a Softmax."""
    onnx = onnx_package()
    readers = readers_of(model.graph.node)
    outputs = {entry.name for entry in model.graph.output}
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or tensor.name in outputs:
            continue
        array = onnx.numpy_helper.to_array(tensor)
        if is_huge(array) and is_mask(tensor.name, readers, outputs):
            softer = np.clip(array, -MASKED, MASKED).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(softer, tensor.name))


def is_huge(array: npt.NDArray[Any]) -> bool:
    """Whether a number is so large that it can only mean "all" or "none"."""
    return bool(array.size) and float(np.abs(array).max()) > _HUGE


def is_mask(start: str, readers: dict[str, list[Any]], outputs: set[str]) -> bool:
    """Whether every way forward ends in a Softmax."""
    waiting, seen = [start], {start}
    ends = False
    while waiting:
        name = waiting.pop()
        if name in outputs or not readers.get(name):
            return False
        for node in readers[name]:
            if node.op_type in _ENDS:
                ends = True
                continue
            if node.op_type not in MASK_ARITHMETIC | MOVES:
                return False
            fresh = [made for made in node.output if made and made not in seen]
            seen.update(fresh)
            waiting += fresh
    return ends


def leads_to_softmax(node: Any, readers: dict[str, list[Any]], outputs: set[str]) -> bool:
    """Whether a node is a Softmax, or every way forward from it ends in one."""
    if node.op_type in _ENDS:
        return True
    made = [name for name in node.output if name]
    return node.op_type in MASK_ARITHMETIC | MOVES and all(is_mask(name, readers, outputs) for name in made)
