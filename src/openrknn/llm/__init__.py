"""Language models on the NPU: files of weights in, tokens out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openrknn.llm.generation.constraint import Constraint
    from openrknn.llm.generation.generator import Generator
    from openrknn.llm.generation.request import Request
    from openrknn.llm.generation.sampling import Sampling
    from openrknn.llm.generation.speculation import Speculation

__all__ = ["Constraint", "Generator", "Request", "Sampling", "Speculation"]

_MODULES = {
    "Constraint": "constraint", "Generator": "generator", "Request": "request", "Sampling": "sampling",
    "Speculation": "speculation",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"openrknn.llm.generation.{_MODULES[name]}"), name)
