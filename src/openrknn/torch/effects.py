"""What each node of a graph makes, and which of them touch memory that outlives the graph.

One pass with PyTorch's fake tensors, which have shapes, types, strides and storage but no numbers. A node has to run in
PyTorch if it writes to an input (a buffer that counts, a cache that grows), or makes a view of an input that is
returned or written to: a copy would not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from openrknn.torch.errors import LOG

_OURS = {"aten", "prim", "prims", "torchvision", "higher_order", "onnx", "onnx_symbolic", "quantized_decomposed"}
"""Namespaces of operators whose export is worth a trial; others are somebody's own kernels."""


@dataclass(slots=True)
class Effects:
    """What the pass found."""

    values: dict[Any, Any] = field(default_factory=dict)
    """Node -> fake tensors, numbers, or tuples of them. A node that is not here could not be looked at."""
    eager: dict[Any, str] = field(default_factory=dict)
    """Node -> why it runs in PyTorch."""
    written: set[Any] = field(default_factory=set)
    """Placeholders whose memory is written to: they are never constants."""


def look(module: Any, inputs: Sequence[Any]) -> Effects:
    """Run the graph without numbers, for the shapes of these inputs."""
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import FakeTensorMode

    found = Effects()
    nodes = list(module.graph.nodes)
    for node in nodes:
        own = _foreign(node)
        if own:
            found.eager[node] = own
    try:
        with tracing(None), torch.no_grad(), torch.inference_mode(mode=False):
            mode = FakeTensorMode(allow_non_fake_inputs=True)
            fakes = [_fake(mode, one) if isinstance(one, torch.Tensor) else one for one in inputs]
            with mode:
                written = _walk(module, nodes, fakes, found)
    except Exception as error:  # noqa: BLE001  (an operator without shapes: all that follows is not known)
        LOG.debug("fake pass ended: %s", error)
        _mark_rest(nodes, found, f"its shapes are not known ahead ({type(error).__name__})")
        return found
    _mark_shared(nodes, found, written)
    return found


def _fake(mode: Any, tensor: Any) -> Any:
    """A stand-in without numbers. Tensors of `inference_mode` do not count writes: plain ones stand for them."""
    if not tensor.is_inference():
        return mode.from_tensor(tensor)
    with mode:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def leaves_of(value: Any) -> list[Any]:
    """Tensors and numbers of a value, in order."""
    if isinstance(value, tuple | list):
        return [leaf for one in value for leaf in leaves_of(one)]
    return [value]


def _walk(module: Any, nodes: Sequence[Any], fakes: Sequence[Any], found: Effects) -> set[int]:
    """Fill in the values; the storages that are written to."""
    interpreter = torch.fx.Interpreter(module, garbage_collect_values=False)
    given = iter(fakes)
    written: set[int] = set()
    tensors: list[tuple[Any, Any]] = []
    for node in nodes:
        if node.op == "placeholder":
            value = next(given)
            if isinstance(value, torch.Tensor):
                tensors.append((node, value))
        elif node.op == "output":
            break
        else:
            before = [value._version for _, value in tensors]
            value = interpreter.run_node(node)
            for (place, tensor), version in zip(tensors, before, strict=True):
                if tensor._version != version:
                    written.add(_storage(tensor))
                    found.written.add(place)
                    found.eager.setdefault(node, f"it writes to {place.name}")
        interpreter.env[node] = found.values[node] = value
    return written


def _mark_rest(nodes: Sequence[Any], found: Effects, reason: str) -> None:
    for node in nodes:
        if node not in found.values and node.op not in {"placeholder", "output"}:
            found.eager.setdefault(node, reason)


def _mark_shared(nodes: Sequence[Any], found: Effects, written: set[int]) -> None:
    """Views of inputs that are written to or returned, with everything between."""
    inputs = {
        _storage(value): node
        for node, value in found.values.items()
        if node.op == "placeholder" and isinstance(value, torch.Tensor)
    }
    returned = [node for node in nodes if node.op == "output"]
    shared = set(written)
    for node in returned[0].all_input_nodes if returned else ():
        shared.update(_storages(found.values.get(node)) & inputs.keys())
    for node, value in found.values.items():
        if node.op == "placeholder":
            if _storages(value) & written:
                found.written.add(node)
        elif _storages(value) & shared & inputs.keys():
            found.eager.setdefault(node, "it is a view of an input")


def _storages(value: Any) -> set[int]:
    return {_storage(leaf) for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)}


def _storage(tensor: Any) -> int:
    found: int = tensor.untyped_storage()._cdata
    return found


def _foreign(node: Any) -> str:
    """The namespace of the operator, if exporters cannot know it."""
    if node.op != "call_function":
        return ""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        space = target.namespace
    elif isinstance(target, torch._ops.OpOverloadPacket):
        space = target._qualified_op_name.partition("::")[0]
    else:
        return ""
    name = str(target.__name__).partition(".")[0]
    return "" if space in _OURS else f"{space}::{name} is an operator of its own"
