"""JSON files of a model's folder: of bounded size and depth, with one object at the top."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openrknn.errors import BadTextError, TooComplexError
from openrknn.llm.errors import NotWeightsError


def read_object(path: Path, most_bytes: int = 16 << 20) -> dict[str, Any]:
    """The object in this file."""
    if not path.is_file():
        raise NotWeightsError(f"{path} is not there")
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise TooComplexError(f"{path.name} has more than {most_bytes} bytes, the most that is read")
    return parse_object(data, path.name)


def parse_object(data: bytes, name: str) -> dict[str, Any]:
    """The object in these bytes."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadTextError(f"{name} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadTextError(f"{name} is no JSON object")
    return found
