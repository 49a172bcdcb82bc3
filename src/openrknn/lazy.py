"""Packages whose names are loaded on first use, so that importing them is cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, names: Mapping[str, str], *, has_modules: bool = False
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    `names`: module below the package -> the public names that it has, with spaces between them; "compile=compile_onnx"
    is a name that is another one there. `has_modules`: modules are names as well, as if imported (`openrknn.vision`).
    """
    homes = {}
    for module, words in names.items():
        for word in words.split():
            public, _, other = word.partition("=")
            homes[public] = (f"{package}.{module}", other or public)

    def find(name: str) -> object:
        if name not in homes and has_modules and not name.startswith("_"):
            from importlib.util import find_spec  # here: it takes as long as all the rest

            if find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, other = homes[name]
        value = getattr(import_module(module), other)
        setattr(sys.modules[package], name, value)  # the next use finds it there
        return value

    return find, lambda: sorted(sys.modules[package].__all__)
