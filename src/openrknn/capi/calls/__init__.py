"""The handlers of all operations, by module.

Those of models are imported with this package, because every program needs them. The others are imported when the
first request for one of them comes, or when the engine has nothing else to do (`load_all`): the first program waits
for the engine's imports.
"""

from __future__ import annotations

import importlib
import pkgutil

__all__ = ["load_all"]

_EVERYBODY = ("io", "memories", "models", "programs", "queries")

for _name in _EVERYBODY:
    importlib.import_module(f"{__name__}.{_name}")


def load_all() -> None:
    """Import the handlers that are not there yet."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
