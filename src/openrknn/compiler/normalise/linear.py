"""Gemm, and MatMul with constant weights, as convolutions; window attributes in one form."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from openrknn.compiler.forms import Concat, Conv
from openrknn.compiler.ir import Array, Graph, Op, StoredWeights
from openrknn.compiler.normalise.common import pair, refuse, replace_op, sole_reader

_SAME = {"SAME_UPPER", "SAME_LOWER"}
_LARGEST_STRIDE = 7
_MAX_OUTPUTS = 8192
"""Channels that the DPU writes in one task; the dictionaries of text recognisers have more characters."""
_MAX_FLATTENED = 7
"""Rows and columns of a map that a fully connected layer can cover with one kernel."""


def normalise_linear(graph: Graph) -> None:
    """[1, K] x [K, N] is a 1x1 convolution on one pixel; with a flattened map before it, a kernel as large as that."""
    for op in list(graph.ops):
        if op.type == "Gemm":
            _gemm(graph, op)
        elif op.type == "MatMul" and op.inputs[1] in graph.constants:
            _matmul(graph, op)


def _gemm(graph: Graph, op: Op) -> None:
    weight = graph.constants.get(op.inputs[1])
    if weight is None or op.inputs[0] in graph.constants or op.attributes.get("transA"):
        refuse(op, "only an activation [1, K] times constant weights can be compiled")
        return
    matrix = weight.astype(np.float64) * float(op.attributes.get("alpha", 1.0))
    matrix = matrix if op.attributes.get("transB") else matrix.T
    bias = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
    if len(op.inputs) > 2 and op.inputs[2] and bias is None:
        refuse(op, "its third operand is not constant")
    summand = np.zeros(len(matrix)) if bias is None else np.broadcast_to(bias, (1, len(matrix))).reshape(-1)
    plain = op.inputs[1] if op.attributes.get("transB") and float(op.attributes.get("alpha", 1.0)) == 1.0 else ""
    _become_conv(graph, op, matrix, summand.astype(np.float64) * float(op.attributes.get("beta", 1.0)))
    _keep_stored(graph, plain, op.inputs[1], graph.constants[op.inputs[1]].shape)


def _matmul(graph: Graph, op: Op) -> None:
    weight = graph.constants[op.inputs[1]]
    shape = graph.shape(op.inputs[0])
    if weight.ndim != 2:
        return
    if int(np.prod(shape[:-1])) != 1:
        if len(shape) == 3 and shape[0] == 1:
            _project(graph, op, weight)
        return
    _become_conv(graph, op, weight.T.astype(np.float64), np.zeros(weight.shape[1]))


def _project(graph: Graph, op: Op, weight: Array) -> None:
    """[1, T, K] x [K, N]: a 1x1 convolution over T pixels, once channels are where the NPU wants them."""
    _, length, inputs = graph.shape(op.inputs[0])
    outputs = weight.shape[1]
    bias = _take_bias(graph, op, outputs)
    flat = graph.add_value(f"{op.output}_rows", (1, 1, length, inputs))
    turned = graph.add_value(f"{op.output}_in", (1, inputs, 1, length))
    made = graph.add_value(f"{op.output}_out", (1, outputs, 1, length))
    back = graph.add_value(f"{op.output}_back", (1, 1, length, outputs))
    for name, source in ((flat, op.inputs[0]), (turned, op.inputs[0]), (made, op.output), (back, op.output)):
        graph.derived[name] = (source, _rows_to_channels if name in {turned, made} else _as_is)
    kernel = graph.add_constant(f"{op.output}_weight", weight.T[:, :, None, None])
    replace_op(
        graph, op,
        Op("Reshape", flat, [op.inputs[0]], [flat], {}, (op.name,)),
        Op("Transpose", turned, [flat], [turned], {"perm": [0, 3, 1, 2]}, (op.name,)),
        Op("Conv", op.name, [turned, kernel, *bias], [made], {"kernel_shape": [1, 1], "from": "MatMul"},
           (op.name, *op.fused)),
        Op("Transpose", back, [made], [back], {"perm": [0, 2, 3, 1]}, (op.name,)),
        Op("Reshape", f"{op.name}_end", [back], [op.output], {}, (op.name,)),
    )  # fmt: skip


def _take_bias(graph: Graph, op: Op, outputs: int) -> list[str]:
    """The Add that follows, if it adds one number per output: it becomes the convolution's bias."""
    add = sole_reader(graph, op.output)
    if add is None or add.type != "Add" or op.output not in graph.values or op.output in graph.given:
        return []
    name = next((entry for entry in add.inputs if entry in graph.constants), "")
    if not name or graph.constants[name].size != outputs or graph.constants[name].shape[-1:] != (outputs,):
        return []
    op.outputs, op.fused = [add.output], (*op.fused, add.name)
    graph.ops.remove(add)
    return [graph.add_constant(f"{op.output}_bias", graph.constants[name].reshape(-1).astype(np.float64))]


def _as_is(values: Array) -> Array:
    return values


def _rows_to_channels(values: Array) -> Array:
    return values.transpose(0, 2, 1)[:, :, None, :]


def _become_conv(graph: Graph, op: Op, matrix: Array, bias: Array) -> None:
    source = op.inputs[0]
    flat = graph.producer(source)
    shape: tuple[int, ...] = (matrix.shape[1], 1, 1)
    if int(np.prod(graph.shape(source)[:-1])) != 1:
        refuse(op, f"an activation of shape {list(graph.shape(source))}; only one row can be compiled")
    if flat is not None and flat.type == "Reshape" and sole_reader(graph, source) is op:
        before = graph.shape(flat.inputs[0])
        if len(before) == 4 and before[0] == 1 and max(before[2:]) <= _MAX_FLATTENED:
            source, shape = flat.inputs[0], before[1:]
            op.fused = (*op.fused, flat.name)
    weight = matrix.reshape(len(matrix), *shape)
    op.type = "Conv"
    op.inputs = [
        source,
        graph.add_constant(f"{op.output}_weight", weight),
        graph.add_constant(f"{op.output}_bias", bias),
    ]
    op.attributes, op.origin = {"kernel_shape": list(shape[1:])}, "Gemm"


def _several_items(graph: Graph, name: str) -> str:
    """Items that the inputs of the model have, or another dimension that was moved to the front."""
    count = graph.shape(name)[0]
    fed = next((given for given in graph.inputs if graph.shape(given)[:1] == (count,)), None)
    if fed is not None:
        sizes = ",".join(map(str, (1, *graph.shape(fed)[1:])))
        return f"a batch of {count}; compile for one item: --shapes {fed}={sizes}"
    return (
        f"it reads {name!r} of shape {list(graph.shape(name))}: {count} items, where the model takes one. A Reshape or "
        f"Transpose before it made items of another dimension, and the NPU convolves one item at a time. Cut the model "
        f"before it (--outputs {name}), or leave it to the CPU (--partition)"
    )


def normalise_convolutions(graph: Graph) -> None:
    """Kernel, strides, pads (top, left, bottom, right), dilations and group of every convolution."""
    for op in graph.ops:
        if op.type not in {"Conv", "ConvTranspose"}:
            continue
        weight = graph.constants.get(op.inputs[1])
        if weight is None:
            refuse(op, "its weights are computed at run time")
            continue
        if weight.ndim == 3:
            weight = weight[:, :, None, :]
        elif weight.ndim != 4:
            refuse(op, f"weights of {weight.ndim} dimensions; the NPU convolves over one or two")
        if graph.shape(op.inputs[0])[0] != 1:
            refuse(op, _several_items(graph, op.inputs[0]))
        given = op.form if isinstance(op.form, Conv) else None
        group = given.group if given is not None else int(op.attributes.get("group", 1))
        outputs = weight.shape[0] if op.type == "Conv" else weight.shape[1] * group
        bias = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
        # Single precision stays so: whoever computes with the weights widens them, layer by layer.
        wide = weight if weight.dtype in {np.dtype(np.float32), np.dtype(np.float64)} else weight.astype(np.float64)
        if weight.shape != graph.constants[op.inputs[1]].shape or wide is not weight:
            old = op.inputs[1]
            op.inputs[1] = graph.add_constant(f"{old}_f", wide)
            _keep_stored(graph, old, op.inputs[1], weight.shape)
        summand = np.zeros(outputs) if bias is None else bias.astype(np.float64)
        op.inputs = [*op.inputs[:2], graph.add_constant(f"{op.output}_b", summand), *op.inputs[3:]]
        strides = given.strides if given is not None else pair(op, "strides", 1)
        if op.type == "Conv" and max(strides) > _LARGEST_STRIDE:
            refuse(
                op, f"a stride of {max(strides)}; the NPU has up to {_LARGEST_STRIDE}, and patches (a "
                "kernel as large as the stride, no padding) of up to 49"
            )  # fmt: skip
        if given is not None:
            continue
        kernel, dilations = (weight.shape[2], weight.shape[3]), pair(op, "dilations", 1)
        pads = _pads(graph, op, kernel, strides, dilations)
        if op.type == "ConvTranspose":
            kernel, pads = _reach_padding(graph, op, kernel, dilations, pads)
        form = Conv(kernel, strides, dilations, pads, group, edges=op.attributes.get("edges"))
        op.form, op.attributes = form, {}


def _reach_padding(
    graph: Graph, op: Op, kernel: tuple[int, int], dilations: tuple[int, int], pads: tuple[int, int, int, int]
) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    """Taps of zero behind a kernel that is smaller than what is cut off before it.

    A transposed convolution is a direct one over spread pixels, padded with reach - 1 - pad: that must not be negative,
    because the CNA skips whole pixels and not the zeros between them. A tap of zero changes nothing but the reach.
    """
    more = [max(0, -(-pads[at] // dilations[at]) + 1 - kernel[at]) for at in (0, 1)]
    if not any(more):
        return kernel, pads
    if op.inputs[1] in graph.stored:
        refuse(op, f"it cuts off {pads[:2]} pixels with a kernel of {kernel}, in integers; export it in float")
    weight = np.pad(graph.constants[op.inputs[1]], ((0, 0), (0, 0), (0, more[0]), (0, more[1])))
    op.inputs[1] = graph.add_constant(f"{op.inputs[1]}_reach", weight)
    longer = (kernel[0] + more[0], kernel[1] + more[1])
    return longer, (pads[0], pads[1], pads[2] + more[0] * dilations[0], pads[3] + more[1] * dilations[1])


def cut_outputs(graph: Graph, atom: int) -> None:
    """A convolution with more kernels than one task takes becomes several, whose results lie side by side."""
    for op in list(graph.ops):
        if op.type != "Conv" or op.get(Conv).group != 1 or len(graph.constants[op.inputs[1]]) <= _MAX_OUTPUTS:
            continue
        weight, bias = (graph.constants[name] for name in op.inputs[1:3])
        size = -(-len(weight) // -(-len(weight) // _MAX_OUTPUTS))
        size = -(-size // atom) * atom
        starts = list(range(0, len(weight), size))
        shape = graph.shape(op.output)
        steps = []
        for start in starts:
            part = slice(start, start + size)
            name = graph.add_value(f"{op.output}_part", (1, len(weight[part]), *shape[2:]))
            graph.derived[name] = (op.output, partial(_some_channels, part=part))
            constants = [graph.add_constant(f"{name}_w", weight[part]), graph.add_constant(f"{name}_b", bias[part])]
            stored = graph.stored.get(op.inputs[1])
            if stored is not None:
                graph.stored[constants[0]] = StoredWeights(
                    stored.stored[part], stored.scale[part], stored.zero_point[part]
                )
            fused = op.fused or (op.name,)
            steps.append(replace(op, name=name, inputs=[op.inputs[0], *constants], outputs=[name], fused=fused))
        names = [step.output for step in steps]
        joined = Op("Concat", op.name, names, [op.output], {}, op.fused, Concat(tuple(starts)))
        replace_op(graph, op, *steps, joined)


def _some_channels(values: Array, part: slice) -> Array:
    return values[:, part]


def _keep_stored(graph: Graph, old: str, new: str, shape: tuple[int, ...]) -> None:
    """Integers of weights stay with them when their shape changes."""
    kept = graph.stored.get(old)
    if kept is not None:
        graph.stored[new] = StoredWeights(kept.stored.reshape(shape), kept.scale, kept.zero_point)


def _pads(
    graph: Graph, op: Op, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> tuple[int, int, int, int]:
    auto = op.attributes.get("auto_pad", "NOTSET")
    given = [int(value) for value in op.attributes.get("pads") or ()]
    _, *size = graph.values[op.inputs[0]].cube
    reach = [(taps - 1) * gap + 1 for taps, gap in zip(kernel, dilations, strict=True)]
    if op.type == "ConvTranspose" and (auto in _SAME or op.attributes.get("output_shape")):
        _, *made = graph.values[op.output].cube
        extra = pair(op, "output_padding", 0)
        total = [strides[at] * (size[at] - 1) + extra[at] + reach[at] - made[at] for at in (0, 1)]
        if min(total) < 0:
            refuse(op, f"an output of {made} is larger than what its kernel reaches")
    elif auto in _SAME:
        total = [max(0, (-(-size[at] // strides[at]) - 1) * strides[at] + reach[at] - size[at]) for at in (0, 1)]
    else:
        if not given:
            return 0, 0, 0, 0
        if len(given) == 2:
            return 0, given[0], 0, given[1]
        return given[0], given[1], given[2], given[3]
    small = [value // 2 for value in total]
    large = [value - half for value, half in zip(total, small, strict=True)]
    first, second = (small, large) if auto == "SAME_UPPER" else (large, small)
    return first[0], first[1], second[0], second[1]
