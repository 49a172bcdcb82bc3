"""`import onnxruntime` gives `openrknn.onnxruntime`, whose submodules are those of ONNX Runtime and no second copy."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import openrknn.onnxruntime
from openrknn.installed_onnxruntime import NAME, installed, is_redirected
from openrknn.onnxruntime.options import PROVIDERS_VARIABLE
from openrknn.onnxruntime.real import RKNN


def redirect(*, children: bool = False) -> None:
    """From now on, in this process; `children`: also in Python programs that it starts.

    Our provider goes in front of those that sessions ask for, unless OPENRKNN_PROVIDERS says otherwise.
    """
    sys.modules[NAME] = openrknn.onnxruntime
    os.environ.setdefault(PROVIDERS_VARIABLE, RKNN)
    if children:
        folders = [str(Path(__file__).parent / "children"), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)


_OURS, _REAL, _BACKEND = "openrknn.onnxruntime.", "onnxruntime.", "backend"


class _Aliases(MetaPathFinder, Loader):
    """Finds what is not ours in the real package."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Asked before the ordinary finders: these would find the files of the real package, and load them again."""
        if name.startswith(_REAL):
            return self._redirected(name)
        if not name.startswith(_OURS) or name.removeprefix(_OURS).partition(".")[0] in self._own:
            return None
        try:
            found = importlib.util.find_spec(_REAL + name.removeprefix(_OURS))
        except (ImportError, ValueError):
            return None
        return None if found is None else ModuleSpec(name, self)

    def _redirected(self, name: str) -> ModuleSpec | None:
        """`onnxruntime.NAME` where `onnxruntime` is ours: our backend, and of all others the files of the real one."""
        if not is_redirected() or "." in name.removeprefix(_REAL):
            return None
        if name == _REAL + _BACKEND:
            return ModuleSpec(name, self)
        return PathFinder.find_spec(name, installed().__path__)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The real module, or our backend. It keeps what the import system is about to overwrite."""
        is_ours = spec.name == _REAL + _BACKEND
        module = importlib.import_module(_OURS + _BACKEND if is_ours else _REAL + spec.name.removeprefix(_OURS))
        spec.loader_state = (module.__spec__, getattr(module, "__loader__", None))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran when it was imported under its own name."""
        spec = module.__spec__
        if spec is not None and spec.loader is self and spec.loader_state:
            module.__spec__, module.__loader__ = spec.loader_state


def install(path: Iterable[str]) -> None:
    """Once; `path` is the folder of the modules that are ours."""
    if not any(isinstance(finder, _Aliases) for finder in sys.meta_path):
        own = frozenset(entry.name for entry in pkgutil.iter_modules(path))
        sys.meta_path.insert(0, _Aliases(own))
