"""Public recordings of boards: what somebody else's program printed on silicon.

The files are other people's and not in this repository. They are looked for in the folder that OPENRKNN_SILICON names,
then in `shared/silicon` beside the checkout; tests skip without them. Each test says which rule it stands for.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.runtime.session import Session

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]

FOLDERS = [
    Path(folder)
    for folder in (os.environ.get("OPENRKNN_SILICON"), Path(__file__).resolve().parents[3] / "shared" / "silicon")
    if folder
]


def recording(name: str) -> Path:
    """A file of a recording, or a skip that says what is not here."""
    for folder in FOLDERS:
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"the recording {name} is not on this machine (OPENRKNN_SILICON=folder)")


def board_says(name: str) -> dict[str, Any]:
    """What the board printed."""
    said: dict[str, Any] = json.loads(recording(name).read_text())
    return said


def answer(model: str, *inputs: Array) -> list[Array]:
    """The outputs of the software NPU."""
    with Session(recording(model)) as session:
        return list(session.run(list(inputs)).values())
