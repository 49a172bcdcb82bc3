"""`describe`: a model in the words of the one who has to use it. Values only; the command line draws them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from openrknn.analysis import findings
from openrknn.analysis.io_reports import input_reports, output_reports
from openrknn.analysis.reports import (
    SCHEMA_VERSION,
    GraphReport,
    Lifetime,
    ModelReport,
    OperatorReport,
    Origin,
    TensorUse,
    Totals,
    WeightQuantization,
)
from openrknn.analysis.versions import oldest_runtime
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import WeightReader
from openrknn.chips import TARGETS, Chip, TaskList
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Tensor
from openrknn.container.sizes import constant_bytes, internal_bytes, weight_bytes
from openrknn.cost.macs import macs
from openrknn.errors import RknnError

BOUNDARY = frozenset({"InputOperator", "OutputOperator"})
_TAIL_COMMANDS = 4


def describe(model: Model, *, graph: int | None = None) -> ModelReport:
    """Everything worth saying about `model`; `graph` limits the tables to one graph of a dynamic-shape model."""
    if graph is not None and not 0 <= graph < len(model.graphs):
        raise ValueError(f"there is no graph {graph}; the model has {len(model.graphs)}")
    chosen = model.graphs if graph is None else (model.graphs[graph],)
    single = dataclasses.replace(model, graphs=(chosen[0],))
    inputs = input_reports(single)
    graphs = tuple(_graph(model, entry) for entry in chosen)
    return ModelReport(
        schema_version=SCHEMA_VERSION,
        path=model.path,
        size_bytes=model.size_bytes,
        origin=_origin(model),
        runtime=oldest_runtime(model),
        inputs=inputs,
        outputs=output_reports(single),
        is_dynamic=model.is_dynamic,
        batch_size=model.batch_size,
        custom_string=model.custom_string,
        custom_operators=tuple(name.strip() for name in model.custom_operators.split(",") if name.strip()),
        graph_count=len(model.graphs),
        graphs=graphs,
        findings=findings.find(model, inputs, graphs),
    )


def list_label(entry: TaskList) -> str:
    """How people name a task list: "1" for one core, "3.2" for core 2 when three share the work."""
    return "1" if entry == (1, 0) else f"{entry.core_count}.{entry.core}"


def _origin(model: Model) -> Origin:
    return Origin(
        toolkit_version=model.toolkit_version,
        compiler=model.toolkit_text,
        framework=model.framework,
        target=model.target,
        platform=model.platform,
        chip=_chip_title(model.chip),
        cores=model.chip.cores,
        container_version=model.container_version,
        flavour=str(model.flavour),
        format_version=model.format_version,
    )


def _chip_title(chip: Chip) -> str:
    others = [other.title for other in TARGETS.get(chip.target, ()) if other.title != chip.title]
    return " / ".join([chip.title, *others])


def _graph(model: Model, graph: Graph) -> GraphReport:
    counts = _task_counts(graph)
    reader = WeightReader(model, graph)
    rows = tuple(_operator(operator, counts.get(operator.index, {}), reader) for operator in model.operators_of(graph))
    return GraphReport(
        index=graph.index,
        input_shapes=tuple(graph.tensors[index].shape for index in graph.inputs),
        output_shapes=tuple(graph.tensors[index].shape for index in graph.outputs),
        totals=_totals(graph, rows),
        operators=rows,
        memory=_lifetimes(graph),
    )


def _task_counts(graph: Graph) -> dict[int, dict[str, int]]:
    """Operator index -> task list -> number of tasks, counted in the task records."""
    counts: dict[int, dict[str, int]] = {}
    for entry, numbers in graph.task_lists.items():
        label = list_label(entry)
        for task in graph.tasks[numbers.start : numbers.stop]:
            row = counts.setdefault(task.op_index, {})
            row[label] = row.get(label, 0) + 1
    return counts


def _operator(operator: Operator, tasks: Mapping[str, int], reader: WeightReader) -> OperatorReport:
    constants = tuple(tensor for tensor in operator.inputs if not tensor.kind.is_activation and tensor.name)
    return OperatorReport(
        index=operator.index,
        type=operator.type,
        name=operator.name,
        placement=str(operator.placement),
        is_boundary=operator.type in BOUNDARY,
        tasks=MappingProxyType(dict(tasks)),
        commands=sum(task.amount + _TAIL_COMMANDS for task in operator.tasks),
        inputs=tuple(_use(tensor) for tensor in operator.inputs if tensor.kind.is_activation),
        constants=tuple(_use(tensor) for tensor in constants),
        outputs=tuple(_use(tensor) for tensor in operator.outputs),
        weight_bytes=sum(_stored_bytes(tensor) for tensor in dict.fromkeys(constants)),
        output_bytes=sum(tensor.size_bytes for tensor in operator.outputs),
        macs=macs(operator),
        weight_quantization=_weight_quantization(operator, reader),
    )


def _weight_quantization(operator: Operator, reader: WeightReader) -> WeightQuantization | None:
    try:
        use = reader.use(operator)
        found = None if use is None else quantization_of(reader, operator, use)
    except RknnError:  # damaged, or of a kind that is not understood: the rest of the report is worth having
        return None
    if found is None or not found.scale:
        return None
    return WeightQuantization(
        axis=found.axis,
        channels=len(found.scale),
        smallest_scale=min(found.scale),
        largest_scale=max(found.scale),
        is_symmetric=not any(found.zero_point),
    )


def _use(tensor: Tensor) -> TensorUse:
    size = _stored_bytes(tensor) if tensor.data is not None else tensor.size_bytes
    return TensorUse(tensor.name, tensor.kind.name.lower(), tensor.shape, tensor.dtype.label, size)


def _stored_bytes(tensor: Tensor) -> int:
    return len(tensor.data) if tensor.data is not None else 0


def _totals(graph: Graph, rows: tuple[OperatorReport, ...]) -> Totals:
    work = [row for row in rows if not row.is_boundary]
    placements: dict[str, int] = {}
    for row in work:
        placements[row.placement] = placements.get(row.placement, 0) + 1
    return Totals(
        operators=len(work),
        placements=MappingProxyType(placements),
        tasks=MappingProxyType({list_label(entry): len(numbers) for entry, numbers in graph.task_lists.items()}),
        weight_bytes=weight_bytes(graph),
        constant_bytes=constant_bytes(graph),
        internal_bytes=internal_bytes(graph),
        command_bytes=8 * len(graph.commands),
        macs=sum(row.macs or 0 for row in work),
        macs_unknown=sum(row.macs is None for row in work),
    )


def _lifetimes(graph: Graph) -> tuple[Lifetime, ...]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for node in graph.nodes:
        for number in (*node.inputs, *node.outputs):
            first.setdefault(number, node.index)
            last[number] = node.index
    activations = (tensor for tensor in graph.tensors if tensor.kind.is_activation)
    return tuple(
        Lifetime(
            tensor=tensor.name,
            kind=tensor.kind.name.lower(),
            shape=tensor.shape,
            dtype=tensor.dtype.label,
            offset=tensor.offset,
            size_bytes=tensor.size_bytes,
            first=first.get(tensor.index, -1),
            last=last.get(tensor.index, -1),
            memory_class=tensor.memory_class,
        )
        for tensor in sorted(activations, key=lambda tensor: (tensor.offset, tensor.index))
    )
