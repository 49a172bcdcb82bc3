"""rknn_mem_size: what a model takes, in the numbers that runtime 1.5.2 reports.

    weights     the constants of the first graph, each in whole 64 bytes; placeholders of the CPU's constants count too
    internal    what the compiler planned for tensors between operators
    dma         pages: the tasks of the first graph, all constants of the file (with commands and tasks), internal, and
                once inputs were set the buffers of inputs and outputs

With memory from outside neither weights nor internal are in the last one, and a context that only tells sizes has none.
Equal to 1.5.2 for all goldens and corpus files (tests/capi/test_differential.py).
"""

from __future__ import annotations

from openrknn.capi.attributes import native_input_attr, native_output_attr
from openrknn.capi.structs import Values
from openrknn.chip.target import align
from openrknn.container.model import Model
from openrknn.container.parts import TASK, Graph, Kind, Tensor
from openrknn.vendor.tables.enums import InitFlag

_LINE = 64
_PAGE = 4096


def memory_size(model: Model, flags: int = 0, *, is_fed: bool = False) -> Values:
    """The fields of the struct; `is_fed`: `rknn_inputs_set` was called."""
    return {
        "total_weight_size": weight_bytes(model),
        "total_internal_size": internal_bytes(model),
        "total_dma_allocated_size": _dma_bytes(model, flags, is_fed),
        "total_sram_size": 0,
        "free_sram_size": 0,
    }


def weight_bytes(model: Model) -> int:
    """What `rknn_set_weight_mem` has to bring."""
    return sum(_kept(tensor) for tensor in model.graphs[0].tensors)


def internal_bytes(model: Model) -> int:
    """What `rknn_set_internal_mem` has to bring."""
    return model.memory.internal_bytes


def _kept(tensor: Tensor) -> int:
    if tensor.kind not in {Kind.WEIGHT, Kind.CPU_CONSTANT}:
        return 0
    if tensor.data is None:  # weights that were removed from the file take nothing
        return align(tensor.size_bytes, _LINE) if tensor.kind is Kind.CPU_CONSTANT else 0
    return align(len(tensor.data), _LINE)


def _dma_bytes(model: Model, flags: int, is_fed: bool) -> int:
    if flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        return 0
    constants = sum(_constants(graph) for graph in model.graphs)
    internal = internal_bytes(model)
    if flags & InitFlag.MEM_ALLOC_OUTSIDE:
        constants, internal = constants - weight_bytes(model), 0
    if flags & InitFlag.INTERNAL_ALLOC_OUTSIDE:
        internal = 0
    first = model.graphs[0]
    total = sum(align(size, _PAGE) for size in (len(first.tasks) * TASK.size, constants, internal))
    if not is_fed:
        return total
    buffers = [native_input_attr(model, 0, index) for index in range(len(first.inputs))]
    buffers += [native_output_attr(model, 0, index) for index in range(len(first.outputs))]
    return total + sum(align(one["size_with_stride"], _PAGE) for one in buffers)


def _constants(graph: Graph) -> int:
    return sum(align(len(tensor.data), _LINE) for tensor in graph.tensors if tensor.data is not None)
