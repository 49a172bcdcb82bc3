"""The handlers of all operations, by module.

Those of models are imported with this package, because every program needs them. The others are imported when the
first request for one of them comes, or when the engine has nothing else to do (`load_all`): the first program waits
for the engine's imports. Those of language models bring `openrknn.llm`, which other programs never need.
"""

from __future__ import annotations

import importlib
import pkgutil

from openrknn.capi.wire import Operation

__all__ = ["load_all", "load_for"]

_EVERYBODY = ("io", "memories", "models", "programs", "queries")
_LANGUAGE, _LANGUAGE_OPERATIONS = "language", "LLM_"

for _name in _EVERYBODY:
    importlib.import_module(f"{__name__}.{_name}")


def load_all() -> None:
    """Import the handlers that are not there yet, but for those of language models."""
    for module in pkgutil.iter_modules(__path__):
        if module.name != _LANGUAGE:
            importlib.import_module(f"{__name__}.{module.name}")


def load_for(operation: Operation) -> None:
    """Import the handlers among which the one of this operation is."""
    if operation.name.startswith(_LANGUAGE_OPERATIONS):
        importlib.import_module(f"{__name__}.{_LANGUAGE}")
    else:
        load_all()
