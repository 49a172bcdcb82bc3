"""Parameters of the outputs that a request asks for: shared memory and classification, for REST and gRPC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane.classes import LABEL_BYTES
from openrknn.serve.plane.plane import Request
from openrknn.serve.plane.signature import Signature
from openrknn.serve.shared.regions import Part, Regions

__all__ = ["OutputParameters", "answer_bytes", "parse", "priority"]


@dataclass(frozen=True, slots=True)
class OutputParameters:
    """By the names of outputs."""

    places: Mapping[str, Part] = field(default_factory=dict)
    """Where in shared memory it shall be."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """How many of its highest values, as texts."""


def parse(outputs: Iterable[tuple[str, Mapping[str, Any]]], regions: Regions) -> OutputParameters:
    """Read the parameters of outputs."""
    places: dict[str, Part] = {}
    classes: dict[str, int] = {}
    seen: set[str] = set()
    for name, parameters in outputs:
        if name in seen:
            raise BadRequestError(f"output {name[:80]!r} appears twice")
        seen.add(name)
        count = parameters.get("classification")
        if count is not None:
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise BadRequestError("parameter 'classification' is a number of classes")
            if count:
                classes[name] = count
        place = regions.part(parameters, f"output {name[:80]!r}")
        if place is None:
            continue
        if count or parameters.get("binary_data"):
            other = "classification" if count else "binary_data"
            raise BadRequestError(f"output {name[:80]!r} cannot have both shared_memory_region and {other}")
        if any(place.overlaps(taken) for taken in places.values()):
            raise BadRequestError(f"output {name[:80]!r} would overwrite another one in shared memory")
        places[name] = place
    return OutputParameters(places, classes)


def answer_bytes(request: Request, signature: Signature, element_bytes: int) -> int:
    """The most memory that an answer can take: outputs in shared memory take none of the server's."""
    if request.outputs is not None and all(name in request.places for name in request.outputs):
        return 0
    texts = sum(min(count, signature.answer_elements) for count in request.classes.values())
    return signature.answer_elements * element_bytes + texts * LABEL_BYTES


def priority(parameters: Mapping[str, Any]) -> int:
    """`priority`: 1 is the highest; 0, or none: as the model says."""
    value = parameters.get("priority", 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise BadRequestError("parameter 'priority' is a whole number from 0 on")
    return value
