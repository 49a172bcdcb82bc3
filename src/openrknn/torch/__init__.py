"""PyTorch integration: modules run on NPU and CPU together and remain callables.

    fast = torch.compile(model, backend="openrknn", options={"target": "rk3588"})     # while the program runs
    fixed = openrknn.torch.compile(model, (picture,), target="rk3588")                # ahead; fixed.save(path)

Inside this package `import torch` is the real one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.torch.ahead_of_time import CompiledModule
    from openrknn.torch.ahead_of_time import compile_module as compile  # noqa: A004
    from openrknn.torch.errors import EagerWarning, ExportError, NotSavableError
    from openrknn.torch.graph import CompiledGraph, compiled_graphs
    from openrknn.torch.options import TorchOptions

__all__ = [
    "CompiledGraph", "CompiledModule", "EagerWarning", "ExportError", "NotSavableError", "TorchOptions", "compile",
    "compiled_graphs",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ahead_of_time": "CompiledModule compile=compile_module",
        "errors": "EagerWarning ExportError NotSavableError",
        "graph": "CompiledGraph compiled_graphs",
        "options": "TorchOptions",
    },
)
