"""The backend that `torch.compile(model, backend="openrknn")` finds by its entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.config

from openrknn.compiler.errors import OptionError
from openrknn.torch.constants import is_constant
from openrknn.torch.errors import warn_once
from openrknn.torch.examples import matcher
from openrknn.torch.graph import CompiledGraph
from openrknn.torch.options import TorchOptions

# Dynamo leaves nn.RNN, nn.LSTM and nn.GRU to PyTorch without a word, so that no backend sees them. The first
# torch.compile(..., backend="openrknn") loads this module, before anything is traced.
torch._dynamo.config.allow_rnn = True


def openrknn(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """A graph of dynamo's as a callable. It is compiled at the first call, for the shapes of that call."""
    chosen = TorchOptions.of(options)
    if chosen.free_parameters:
        raise OptionError(
            "free_parameters is an option of openrknn.torch.compile: torch.compile looks at the module's own "
            "parameters before each call"
        )
    if mode not in {None, "default"}:
        warn_once(f"openrknn: mode={mode!r} of torch.compile has no effect; options={{...}} chooses")
    if not chosen.inference and torch.is_grad_enabled() and any(_has_gradient(one) for one in inputs):
        warn_once(
            "openrknn: PyTorch records gradients here, and the NPU computes none, so this runs in PyTorch. Call the "
            "model inside `with torch.inference_mode():` or torch.no_grad(), or give options={'inference': True}"
        )
        run: Callable[..., Any] = module.forward
        return run
    places = [node for node in module.graph.nodes if node.op == "placeholder"]
    constants = [
        at for at, (one, node) in enumerate(zip(inputs, places, strict=True)) if is_constant(one, node)
    ]
    if any(_is_training(node) for node in module.graph.nodes):
        warn_once("openrknn: the model is in training mode, so this runs in PyTorch; call model.eval() first")
        run = module.forward
        return run
    graph = CompiledGraph(module, constants, chosen, matcher(chosen, places, constants))
    return _Entry(graph)


class _Entry:
    """Holds the graph: dynamo keeps the callable as long as its code."""

    def __init__(self, graph: CompiledGraph) -> None:
        self.graph = graph

    def __call__(self, *inputs: Any) -> Any:
        return self.graph(*inputs)


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _is_training(node: Any) -> bool:
    """Dropout and normalisation say in their arguments that they train."""
    name = getattr(node.target, "__name__", "")
    if node.op != "call_function" or name not in {"batch_norm", "dropout", "instance_norm"}:
        return False
    if "training" in node.kwargs:
        return bool(node.kwargs["training"])
    position = {"batch_norm": 5, "dropout": 2}.get(name)
    return position is not None and len(node.args) > position and node.args[position] is True
