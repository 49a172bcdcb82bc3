"""`View`: one graph of a model with everything that the page says about it, and who writes and reads each tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from openrknn.analysis.reports import GraphReport, OperatorReport
from openrknn.container.model import Model
from openrknn.container.parts import NO_TENSOR, Graph
from openrknn.pages.markup import clean
from openrknn.pages.model.texts import dims

__all__ = ["MAX_ROWS", "View", "kernel_text", "op_name", "tensor_name"]

MAX_ROWS = 5000
"""Tables and pictures end here; a browser becomes slow, and `--json` has the rest."""


@dataclass(frozen=True)
class View:
    """One graph: as the file has it, and as the report describes it."""

    model: Model
    graph: Graph
    report: GraphReport
    number: int | None = None
    """Of the part, in a page with several models."""

    @property
    def prefix(self) -> str:
        """Begins every id of this graph in the page."""
        return f"g{self.report.index if self.number is None else self.number}-"

    @property
    def operators(self) -> tuple[OperatorReport, ...]:
        return self.report.operators

    @cached_property
    def writers(self) -> dict[int, list[int]]:
        """Tensor index -> operators that write it."""
        found: dict[int, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            for tensor in dict.fromkeys(node.outputs):
                found.setdefault(tensor, []).append(number)
        return found

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """Tensor index -> operators that read it."""
        found: dict[int, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            for tensor in dict.fromkeys(node.inputs):
                found.setdefault(tensor, []).append(number)
        return found

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Pairs of operators: the reader of an activation and the last one before it that wrote it."""
        last: dict[int, int] = {}
        found: dict[tuple[int, int], None] = {}
        for number, node in enumerate(self.graph.nodes):
            for tensor in node.inputs:
                if tensor in last and tensor != NO_TENSOR and self.graph.tensors[tensor].kind.is_activation:
                    found[last[tensor], number] = None
            for tensor in node.outputs:
                last[tensor] = number
        return list(found)


def op_name(operator: OperatorReport) -> str:
    """The name without the type that the converter puts before it: "Conv:/stem/Conv" -> "/stem/Conv"."""
    head, colon, tail = operator.name.partition(":")
    return clean(tail if colon and tail and operator.type.startswith(head) else operator.name)


def tensor_name(name: str) -> str:
    """A tensor's name; the first tensor of a file has none."""
    return clean(name) if name else "(no name)"


def kernel_text(view: View, number: int) -> str:
    """ "3×3 /2" for a window of 3×3 that moves by 2; empty for operators without a window."""
    node = view.graph.nodes[number]
    values = {**node.attributes, **((node.parameters and node.parameters.values) or {})}
    kernel, strides = values.get("kernel_shape"), values.get("strides")
    if not isinstance(kernel, list | tuple) or not 0 < len(kernel) <= 3:
        return ""
    text = dims([size for size in kernel if isinstance(size, int)])
    if isinstance(strides, list | tuple) and any(step != 1 for step in strides[:3]):
        steps = sorted({step for step in strides[:3] if isinstance(step, int)})
        text += f" /{'×'.join(map(str, steps))}"
    group = values.get("group")
    if isinstance(group, int) and group > 1:
        text += " dw" if _is_depthwise(view, number, group) else f" g{group}"
    return text


def _is_depthwise(view: View, number: int, group: int) -> bool:
    outputs = view.operators[number].outputs
    return bool(outputs) and len(outputs[0].shape) > 1 and outputs[0].shape[1] == group
