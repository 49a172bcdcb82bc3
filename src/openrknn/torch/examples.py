"""Calibration inputs of the user's model as inputs of dynamo's graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from openrknn.compiler.errors import CalibrationError
from openrknn.torch.options import TorchOptions


def matcher(
    options: TorchOptions, places: Sequence[Any], constants: Sequence[int]
) -> Callable[[Sequence[Any]], list[list[Any]]] | None:
    """For a call, the examples with the call's own parameters and numbers; None if there are none to match."""
    if options.calibrate is None or isinstance(options.calibrate, int):
        return None
    fixed = set(constants)

    def match(inputs: Sequence[Any]) -> list[list[Any]]:
        free = [at for at, one in enumerate(inputs) if at not in fixed and isinstance(one, torch.Tensor)]
        names = [_name(places[at]) for at in free]
        found = []
        for example in options.calibrate:
            values = list(inputs)
            for at, value in zip(free, _ordered(example, names), strict=True):
                if not isinstance(value, torch.Tensor) or value.dim() != inputs[at].dim():
                    raise _misfit(names)
                values[at] = value
            found.append(values)
        return found

    return match


def flat_examples(calibrate: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Each example as arguments and keywords of the module."""
    return [
        ((), dict(one)) if isinstance(one, Mapping) else (tuple(one) if isinstance(one, tuple | list) else (one,), {})
        for one in calibrate
    ]


def _ordered(example: Any, names: Sequence[str]) -> list[Any]:
    if isinstance(example, torch.Tensor):
        example = (example,)
    if isinstance(example, Mapping):
        if not set(names) <= example.keys():
            raise _misfit(names)
        return [example[name] for name in names]
    if not isinstance(example, tuple | list) or len(example) != len(names):
        raise _misfit(names)
    return list(example)


def _name(place: Any) -> str:
    """The argument of the user's function: L_x_ is x."""
    source = getattr(place, "_dynamo_source", None)
    return str(getattr(source, "local_name", "") or place.name)


def _misfit(names: Sequence[str]) -> CalibrationError:
    return CalibrationError(
        f"the calibration inputs do not fit this graph, which takes {', '.join(names) or 'no tensors'}. PyTorch cut "
        "the model into several graphs, or the examples have other arguments: give calibrate a number, and as many "
        "first calls are calibrated on"
    )
