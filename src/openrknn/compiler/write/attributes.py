"""Attributes of operators of the CPU: as BSON for newer runtimes, as a table for runtime 1.5.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openrknn.compiler.program import Step
from openrknn.container.bson import encode
from openrknn.container.parameters import PARAMETERS
from openrknn.container.parts import Parameters, ParameterValue

_TYPES: Mapping[str, int] = {table.operator: number for number, table in PARAMETERS.items()}
_DEFAULTS: Mapping[str, Any] = {"auto_pad": "NOTSET", "ceil_mode": 0, "count_include_pad": 0}


def attribute_bytes(step: Step) -> bytes:
    """`{name: {dtype, value}}`; nothing for operators of the NPU."""
    if not step.is_cpu or not step.attributes:
        return b""
    return encode({name: {"dtype": _code(value), "value": _plain(value)} for name, value in step.attributes.items()})


def _code(value: object) -> str:
    if isinstance(value, str):
        return "s"
    if isinstance(value, float):
        return "f"
    if isinstance(value, list | tuple):
        return "fs" if any(isinstance(entry, float) for entry in value) else "is"
    return "i"


def _plain(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return [entry if isinstance(entry, float) else int(entry) for entry in value]


def parameters_for(step: Step) -> Parameters | None:
    """The table that the operator's CPU implementation reads, where its form is known."""
    number = _TYPES.get(step.type)
    if not step.is_cpu or number is None:
        return None
    values: dict[str, ParameterValue] = {}
    for name, _ in PARAMETERS[number].slots:
        value = step.attributes.get(name, _DEFAULTS.get(name))
        if value is not None:
            values[name] = tuple(int(entry) for entry in value) if isinstance(value, list | tuple) else value
    return Parameters(number, values)
