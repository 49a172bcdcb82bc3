"""The description of a Keras model (JSON): only layers of Keras itself, and none that carries code or opens files."""

from __future__ import annotations

import json
import re
from typing import Any

from openrknn.compiler.errors import ModelError

_DEEPEST = 100
_MODULE = re.compile(
    r"keras(\.(layers|initializers|regularizers|constraints|activations|models|dtype_policies|ops|quantizers"
    r"|src\.(models\.(functional|sequential|model)|ops\.[a-z_]+|layers(\.[a-z0-9_]+)*|initializers(\.[a-z_]+)*"
    r"|activations(\.[a-z_]+)*|dtype_policies(\.[a-z_]+)*)))?"
)
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITH_CODE = re.compile(r".*(lambda|wrapper|tfsm|jax|flax|torch|pyfunc).*", re.IGNORECASE)
_HARMLESS_WRAPPERS = {"Wrapper"}
_WITH_FILES = {"StringLookup", "IntegerLookup", "TextVectorization"}
"""Their vocabulary may be the path of a file."""


def checked_config(data: bytes | str, name: str) -> str:
    """The rewritten description; an error that begins with `name` for one that could run code."""
    try:
        config = json.loads(data)
    except (ValueError, RecursionError):
        raise ModelError(f"{name} is damaged: its description of layers is not JSON") from None
    if not isinstance(config, dict) or not isinstance(config.get("class_name"), str):
        raise ModelError(f"{name} is damaged: its description has no layers")
    _check(config, name, 0)
    return json.dumps(config)


def _check(value: Any, name: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ModelError(f"{name}: its description is nested more than {_DEEPEST} deep")
    if isinstance(value, dict):
        if "class_name" in value:
            _check_class(value, name)
        for one in value.values():
            _check(one, name, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _check(one, name, depth + 1)


def _check_class(value: dict[str, Any], name: str) -> None:
    kind, module, registered = value["class_name"], value.get("module"), value.get("registered_name")
    if not isinstance(kind, str) or not _CLASS.fullmatch(kind):
        raise ModelError(f"{name} is damaged: {str(kind)[:60]!r} is not the name of a layer")
    if (_WITH_CODE.fullmatch(kind) and kind not in _HARMLESS_WRAPPERS) or kind in _WITH_FILES:
        raise ModelError(
            f"{name} has the layer {kind}, which carries code of its own or reads other files (Lambda and its "
            "relatives). Build the model without it, and do that step in your program"
        )
    if module is not None and (not isinstance(module, str) or not _MODULE.fullmatch(module)):
        raise ModelError(f"{name}: {kind} comes from the module {str(module)[:60]!r}; only layers of Keras are read")
    if registered is not None and registered != kind:
        raise ModelError(f"{name}: {kind} is a layer of another package, {str(registered)[:60]!r}; only Keras is read")
