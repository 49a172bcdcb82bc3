"""Values that carry the number of a mask: minus infinity, or the lowest float.

A half float ends at 65504. Before a Softmax of the same part such a number only means "far below every score", and is
made smaller (`compiler.importer.masks`); everywhere else the NPU would hand on an infinity that nobody can tell from an
overflow, so these operators are the CPU's.
"""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.masks import MASK_ARITHMETIC, is_huge, leads_to_softmax
from openrknn.compiler.operators import MOVES
from openrknn.onnxgraph import readers_of
from openrknn.partition.extract import borders
from openrknn.partition.view import Node, View

_TAKES = (MASK_ARITHMETIC | MOVES) - {"Max", "Min"}
"""Whose constants count: in a Max or Min they are limits that no number reaches."""
_CARRIES = MASK_ARITHMETIC | MOVES | {"Pad"}


def masked_values(view: View) -> frozenset[str]:
    """Constants with such numbers, and the values that they reach."""
    onnx = onnx_package()
    read = {name for node in view.nodes if node.type in _TAKES for name in node.proto.input}
    found = {name for name in read.intersection(view.constants)
             if view.constants[name].data_type == onnx.TensorProto.FLOAT
             and is_huge(onnx.numpy_helper.to_array(view.constants[name]))}  # fmt: skip
    for node in view.nodes:
        if node.type in _CARRIES and _reads(view, node, found):
            found.update(node.makes)
    return frozenset(found)


def unfit_for(view: View, numbers: Sequence[int], masked: frozenset[str]) -> list[int]:
    """Nodes of one part of the NPU that read such a number, and from which a way leads elsewhere than to a Softmax."""
    reading = [view.nodes[number] for number in numbers if _reads(view, view.nodes[number], masked)]
    if not reading:
        return []
    readers = readers_of(view.nodes[number].proto for number in numbers)
    outputs = set(borders(view, numbers)[1])
    return [node.index for node in reading if not leads_to_softmax(node.proto, readers, outputs)]


def _reads(view: View, node: Node, masked: frozenset[str] | set[str]) -> bool:
    return any(name in masked and (node.type in _TAKES or name not in view.constants) for name in node.proto.input)
