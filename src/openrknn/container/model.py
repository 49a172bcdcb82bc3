"""`Model`: a parsed `.rknn`, the face that users and tools see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from openrknn.chips import Chip
from openrknn.container import notes
from openrknn.container.outer import Flavour
from openrknn.container.parts import (
    NO_TENSOR,
    DynamicInput,
    Graph,
    Layout,
    MemoryPlan,
    Node,
    Normalization,
    Placement,
    Task,
    Tensor,
)
from openrknn.container.specs import Specs, TensorSpec, table_of
from openrknn.errors import BadTextError
from openrknn.records import dataclass

__all__ = ["Model", "Operator", "TensorSpec"]

_MAX_JSON_BYTES = 1024 * 1024
_IMAGE_CHANNELS = {1, 3, 4}
_NPU_TARGET, _GPU_TARGET = 2, 1
_FEATURE_RANK = 4


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with its tensors and tasks resolved."""

    index: int
    type: str
    name: str
    placement: Placement
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    tasks: tuple[Task, ...]
    """Tasks of the one-core list; empty for operators that the NPU does not execute."""
    attributes: Mapping[str, object]
    node: Node = field(repr=False)


@dataclass(frozen=True)
class Model:
    """A parsed `.rknn`. Needs no device; weights and commands stay in the file until they are looked at."""

    path: str | None
    """Where it was read from; None for bytes."""
    size_bytes: int
    container_version: int
    flavour: Flavour
    format_version: int
    """Model format: 1 (toolkit 1.4) or 6."""
    target: str
    """The NPU's name as the vendor's runtime compares it: "RKNPU v2"."""
    platform: str
    """The chip's name as the user gave it to the toolkit: "rk3588"."""
    chip: Chip
    toolkit_number: int
    toolkit_text: str
    framework: str
    framework_layout: int
    custom_string: str
    batch_text: str
    shape_mode: str
    dynamic_inputs: tuple[DynamicInput, ...]
    shared_weights: tuple[str, ...]
    memory: MemoryPlan
    custom_operators: str
    input_json: str
    output_json: str
    notes_text: str = field(repr=False)
    json_bytes: memoryview = field(repr=False)
    graphs: tuple[Graph, ...] = field(repr=False)
    unknown: tuple[str, ...] = ()
    """What the file has and this reader does not understand."""
    trailing_bytes: int = 0
    """Bytes after the end of the model; they are unused."""

    @cached_property
    def toolkit_version(self) -> str:
        """ "2.5.0"; the text, or the number where the text is missing."""
        if self.toolkit_text:
            return self.toolkit_text.split("(", 1)[0].strip()
        number = self.toolkit_number
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else ""

    @property
    def batch_size(self) -> int:
        """How many inputs one run takes (`rknn_batch_size`); the graph itself is built for one."""
        return int(self.batch_text) if self.batch_text.isdigit() and len(self.batch_text) < 6 else 0

    @property
    def is_dynamic(self) -> bool:
        """Whether the inputs can take several shapes, each with a graph of its own."""
        return self.shape_mode == "dynamic_shape"

    @cached_property
    def notes(self) -> Mapping[str | int | float, notes.Note]:
        """The converter's notes (mean, std, source shapes) as a dict."""
        return notes.parse(self.notes_text)

    @cached_property
    def legacy_json(self) -> object:
        """The trailing JSON; the vendor's runtime only wants it to be there."""
        if len(self.json_bytes) > _MAX_JSON_BYTES:
            raise BadTextError(f"{len(self.json_bytes)} bytes of trailing JSON", section="trailing JSON")
        try:
            return json.loads(str(self.json_bytes, "utf-8"))
        except (ValueError, RecursionError) as error:
            raise BadTextError(f"the trailing JSON cannot be read: {error}", section="trailing JSON") from None

    @cached_property
    def inputs(self) -> Specs:
        """What a program has to feed, by number and by name."""
        return self._specs(self.input_json, inputs=True)

    @cached_property
    def outputs(self) -> Specs:
        """What a program gets, by number and by name."""
        return self._specs(self.output_json, inputs=False)

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """The operators of the (first) graph in execution order."""
        return self.operators_of(self.graphs[0])

    def operators_of(self, graph: Graph) -> tuple[Operator, ...]:
        """The operators of one graph, with the tasks of the one-core list."""
        tasks: dict[int, list[Task]] = {}
        lists = self.chip.task_lists
        for number in graph.task_lists.get(lists[0], range(0)):
            task = graph.tasks[number]
            tasks.setdefault(task.op_index, []).append(task)
        return tuple(
            Operator(
                index=node.index,
                type=node.type,
                name=node.name,
                placement=self._placement(node),
                inputs=tuple(graph.tensors[number] for number in node.inputs if number != NO_TENSOR),
                outputs=tuple(graph.tensors[number] for number in node.outputs if number != NO_TENSOR),
                tasks=tuple(tasks.get(node.index, ())),
                attributes=node.attributes,
                node=node,
            )
            for node in graph.nodes
        )

    def _repr_html_(self) -> str:
        """For notebooks: what it is for, and a table of what to feed and what comes out."""
        title = f"{self.path or 'model from bytes'}: {self.chip.title}, {len(self.operators)} operators"
        from html import escape

        return f"<p>{escape(title)}</p>{table_of([('in', self.inputs), ('out', self.outputs)])}"

    def _placement(self, node: Node) -> Placement:
        if node.target == _NPU_TARGET:
            return Placement.NPU
        if node.target == _GPU_TARGET:
            return Placement.GPU
        is_custom = node.type.startswith("cst") or (node.type and node.type in self.custom_operators.split(","))
        return Placement.CUSTOM if is_custom else Placement.CPU

    def _specs(self, described: str, *, inputs: bool) -> Specs:
        graph = self.graphs[0]
        layouts = _layouts(described)
        norms = graph.normalizations
        return Specs(
            self._spec(
                graph.tensors[index],
                layouts.get(graph.tensors[index].name),
                norms[number] if inputs and number < len(norms) else None,
                inputs=inputs,
            )
            for number, index in enumerate(graph.inputs if inputs else graph.outputs)
        )

    def _spec(
        self, tensor: Tensor, layout: str | None, normalization: Normalization | None, *, inputs: bool
    ) -> TensorSpec:
        shape = tensor.shape
        if layout is None:
            layout = ("nhwc" if inputs else "nchw") if len(shape) == _FEATURE_RANK else Layout.UNDEFINED.label
        is_image = inputs and len(shape) == _FEATURE_RANK and shape[1] in _IMAGE_CHANNELS and bool(tensor.row_alignment)
        if layout == "nhwc" and len(shape) == _FEATURE_RANK:
            shape = (shape[0], shape[2], shape[3], shape[1])
        return TensorSpec(
            name=tensor.name,
            shape=shape,
            dtype=tensor.dtype.label,
            layout=layout,
            quantization=tensor.quantization,
            normalization=normalization,
            is_image=is_image,
        )


def _layouts(text: str) -> dict[str, str]:
    """Tensor name -> layout from the file's own small JSON; empty where it is absent or damaged."""
    try:
        described = json.loads(text) if text and len(text) <= _MAX_JSON_BYTES else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(described, dict):
        return {}
    return {
        name: str(entry.get("layout", "")).lower()
        for name, entry in described.items()
        if isinstance(entry, dict) and str(entry.get("layout", "")).lower() in _LAYOUT_LABELS
    }


_LAYOUT_LABELS = {layout.label for layout in Layout}
