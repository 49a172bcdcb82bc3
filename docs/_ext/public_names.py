"""The names that users may rely on: what the public packages list in `__all__`, each by the shortest way to it."""

from __future__ import annotations

import importlib
from functools import cache

__all__ = ["PACKAGES", "public_names", "public_objects", "public_objects_of"]

PACKAGES = (
    "openrknn", "openrknn.errors", "openrknn.chips", "openrknn.compiler", "openrknn.container", "openrknn.partition",
    "openrknn.device", "openrknn.analysis", "openrknn.trace", "openrknn.vision", "openrknn.voice", "openrknn.vendor",
    "openrknn.onnxruntime", "openrknn.ray", "openrknn.torch",
)  # fmt: skip
"""What an earlier one has, a later one need not show again."""
_OURS = {"openrknn.onnxruntime": ("InferenceSession", "IOBinding", "get_all_providers", "get_available_providers")}
"""The rest of its names are the real module's."""
_NO_REFERENCE = {"openrknn.__version__"}


def public_names() -> dict[str, tuple[str, ...]]:
    """Package -> its names."""
    found = {}
    for package in PACKAGES:
        names = _OURS.get(package) or importlib.import_module(package).__all__
        found[package] = tuple(name for name in names if f"{package}.{name}" not in _NO_REFERENCE)
    return found


def public_objects_of(package: str) -> dict[str, object]:
    """The names of one package."""
    module = importlib.import_module(package)
    return {f"{package}.{name}": getattr(module, name) for name in public_names()[package]}


@cache
def public_objects() -> dict[str, object]:
    """Public name -> the object; of several names for one object only the first."""
    found: dict[str, object] = {}
    seen: set[int] = set()
    for package in PACKAGES:
        for name, value in public_objects_of(package).items():
            if id(value) not in seen:
                seen.add(id(value))
                found[name] = value
    return found
