"""Batches: a model for several items at once becomes the model for one, which the runtime repeats with shared weights.

That is right only if no operator mixes the items. It is proved by computing: the whole model on random items, and the
model for one on each of them, have to agree in every value. Where they part, the operator is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.errors import CompileError, ModelError, UnsupportedOperatorError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.fold import fold
from openrknn.compiler.importer.shapes import known_shapes, model_inputs, set_size
from openrknn.compiler.importer.store import constants_of
from openrknn.compiler.ir import Array
from openrknn.compiler.operators import ELEMENTWISE, IDENTITIES
from openrknn.onnxgraph import makers_of

MOST_ITEMS = 1024
"""Of one run: each item has its own tasks in the file."""

_SHAPED = {"Reshape": 1, "Expand": 1, "Resize": 3}
"""Operators that name sizes of their result, the batch first -> the input that does."""
_LARGEST = 1 << 27
"""Elements of a value that the proof computes: half a gigabyte."""
_CLOSE = 1e-3
"""Of the largest number of a value: float sums in another order differ by less."""


def batch_of(model: Any) -> int:
    """The items that the model takes at once: the first size of every input, where they agree."""
    shapes = known_shapes(model)
    firsts = {shapes[entry.name][0] if len(shapes.get(entry.name, ())) > 1 else 1 for entry in model_inputs(model)}
    batch = firsts.pop() if len(firsts) == 1 else 1
    if batch > MOST_ITEMS:
        raise ModelError(
            f"the model takes {batch} items at once, a run at most {MOST_ITEMS}; export it for fewer, or bind "
            "its first dimension with --shapes"
        )
    return batch


def one_item(whole: Any, batch: int) -> Any:
    """The folded model for one item of a folded model for `batch`; an error names the operator that mixes them."""
    _refuse_moved(whole, batch)
    item = onnx_package().ModelProto()
    item.CopyFrom(whole)
    for entry in model_inputs(item):
        set_size(entry, 0, 1)
    del item.graph.value_info[:]
    for output in item.graph.output:
        output.type.tensor_type.ClearField("shape")
    _divide_constants(item, whole, batch)
    item = fold(item)
    _prove(whole, item, batch)
    return item


def _refuse_moved(whole: Any, batch: int) -> None:
    """If another dimension is inserted in front, there are no items; one of them may not even have a size.

    ONNX's shape inference ends the process where a window is larger than what it slides over.
    """
    names = {entry.name for entry in model_inputs(whole)}
    constants = constants_of(whole)
    for node in whole.graph.node:
        if not names.intersection(node.input):
            continue
        if node.op_type in _IN_PLACE:
            names.update(node.output)
            continue
        given = {entry.name: list(entry.ints) for entry in node.attribute}
        axes = given.get("axes") or [int(axis) for name in node.input[1:2] for axis in constants.get(name, _NONE).flat]
        in_front = node.op_type == "Unsqueeze" and 0 in axes
        if in_front or (node.op_type == "Transpose" and given.get("perm", [0])[:1] != [0]):
            raise UnsupportedOperatorError(
                f"{node.op_type} {node.name or node.output[0]!r} mixes the {batch} items of the batch; the NPU "
                "computes one item at a time. Export the model for one item, or cut it before this operator with "
                "--outputs",
                operators=(node.name, *node.output),
            )


_IN_PLACE = ELEMENTWISE | IDENTITIES | {"Cast"}
_NONE = np.zeros(0)


def _divide_constants(item: Any, whole: Any, batch: int) -> None:
    """Sizes that hold the batch, and constants that repeat the same numbers for each item."""
    onnx = onnx_package()
    constants, shapes = constants_of(item), known_shapes(whole)
    made: dict[str, str] = {}
    for node in item.graph.node:
        place = _SHAPED.get(node.op_type, -1)
        for at, name in enumerate(node.input):
            values = constants.get(name)
            if values is None:
                continue
            divided = _sizes(values, batch) if at == place else _repeated(values, shapes.get(node.output[0], ()), batch)
            if divided is None:
                continue
            if name not in made:
                made[name] = f"{name}_item"
                item.graph.initializer.append(onnx.numpy_helper.from_array(divided, made[name]))
            node.input[at] = made[name]


def _sizes(values: Array, batch: int) -> Array | None:
    if values.ndim != 1 or not values.size or values.dtype.kind != "i" or values[0] < batch or values[0] % batch:
        return None
    result = values.copy()
    result[0] //= batch
    return result


def _repeated(values: Array, shape: tuple[int, ...], batch: int) -> Array | None:
    is_per_item = values.ndim == len(shape) > 1 and values.shape[0] == shape[0] == batch
    if not is_per_item or not (values == values[:1]).all():
        return None
    return np.ascontiguousarray(values[:1])


def _prove(whole: Any, item: Any, batch: int) -> None:
    outputs = [entry.name for entry in whole.graph.output]
    if _parts_at(whole, item, batch, outputs) is None:
        return
    shapes, single = known_shapes(whole), known_shapes(item)
    makers = makers_of(whole.graph.node)
    names = [name for name in makers if _is_split(shapes.get(name), single.get(name), batch) or name in outputs]
    first = _parts_at(whole, item, batch, names) or outputs[0]
    node = makers[first]
    raise UnsupportedOperatorError(
        f"{node.op_type} {node.name or first!r} mixes the {batch} items of the batch; the NPU computes one item "
        "at a time. Export the model for one item, or cut it before this operator with --outputs",
        operators=(node.name, first),
    )


def _parts_at(whole: Any, item: Any, batch: int, names: Sequence[str]) -> str | None:
    """The first of these values that is not what the items give one by one."""
    from openrknn.compiler.float_model import FloatModel

    random = np.random.default_rng(0)
    shapes = known_shapes(whole)
    if max((prod(shape) for shape in shapes.values()), default=0) > _LARGEST:
        raise UnsupportedOperatorError(f"the model takes {batch} items of such size at once; export it for one item")
    feed = {entry.name: random.normal(0, 1, shapes[entry.name]).astype(_dtype(entry)) for entry in model_inputs(whole)}
    runner = FloatModel(item, names)
    try:
        runs = [dict(runner.run({name: values[at : at + 1] for name, values in feed.items()})) for at in range(batch)]
    except CompileError as error:
        raise UnsupportedOperatorError(f"the model takes {batch} items at once, and not one of them: {error}") from None
    for name, wanted in FloatModel(whole, names).run(feed):
        if name in names and name in runs[0]:
            joined = np.concatenate([np.atleast_1d(run[name]) for run in runs])
            if joined.shape != wanted.shape or not _is_close(joined, wanted):
                return name
    return None


def _dtype(entry: Any) -> Any:
    return onnx_package().helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)


def _is_split(whole: tuple[int, ...] | None, item: tuple[int, ...] | None, batch: int) -> bool:
    return bool(whole and item) and whole == (item[0] * batch, *item[1:])  # type: ignore[index]


def _is_close(left: Array, right: Array) -> bool:
    if left.dtype.kind != "f":
        return bool((left == right).all())
    limit = _CLOSE * float(np.abs(right[np.isfinite(right)]).max(initial=0.0)) + 1e-6
    return bool(np.isclose(left, right, rtol=0.0, atol=limit, equal_nan=True).all())
