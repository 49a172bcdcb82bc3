"""One network of the collection: a folder with `model.onnx`, `network.json` and `data.npz`.

`data.npz` holds `calibration/N/INPUT` and `evaluation/N/INPUT`, as ONNX takes them. The two never share an item.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Feed = dict[str, Array]


@dataclass(frozen=True)
class Network:
    """What is known about it."""

    folder: Path
    facts: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Network:
        """From its folder."""
        return cls(folder, json.loads((folder / "network.json").read_text()))

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def model(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def shapes(self) -> dict[str, list[int]]:
        return dict(self.facts["shapes"])

    def feeds(self, what: str) -> list[Feed]:
        """`calibration` or `evaluation`: the arrays of each item by the name of the input."""
        found: dict[int, Feed] = {}
        with np.load(self.folder / "data.npz") as archive:
            for key in archive.files:
                kind, number, name = key.split("/", 2)
                if kind == what:
                    found.setdefault(int(number), {})[name] = archive[key]
        return [{name: found[number][name] for name in self.shapes} for number in sorted(found)]


def networks(folder: Path, only: list[str] | None = None) -> list[Network]:
    """All below a folder, by name."""
    found = [Network.read(path.parent) for path in sorted(folder.glob("*/network.json"))]
    return [entry for entry in found if not only or entry.name in only]
