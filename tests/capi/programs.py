"""`examples/classify.c` for the tests: built in several ways, run on an engine of its own, and what it has to say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from openrknn.capi.engine_process import running_engine, stop_engine
from openrknn.capi.parts import library_for
from openrknn.capi.wire import SOCKET_VARIABLE
from openrknn.errors import UnsupportedError
from openrknn.runtime.session import Session

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SOURCE = EXAMPLES / "classify.c"
MODEL = EXAMPLES / "models/efficientnet_lite0_rk3588_i8.rknn"
LABELS = EXAMPLES / "models/imagenet_labels.txt"
PICTURE = EXAMPLES / "models/efficientnet_lite0_rk3588_i8_coffee.npz"
OPENRKNN = (sys.executable, "-m", "openrknn.cli")


def need_library(machine: str | None = None) -> Path:
    """The library, or the test is skipped with the reason."""
    try:
        return library_for(machine)
    except UnsupportedError as error:
        pytest.skip(str(error))


def compiler(name: str = "cc") -> str:
    """A compiler, or the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here (Debian: apt install gcc)")
    return found


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command, with these variables on top."""
    return subprocess.run(
        list(map(str, words)), env={**os.environ, **environment}, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def done(*words: object, **environment: str) -> str:
    """What a command that succeeds prints."""
    result = run(*words, **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def arguments(folder: Path) -> tuple[str, ...]:
    """For the program: the model, the picture as a PPM, the names."""
    picture = folder / "coffee.ppm"
    with np.load(PICTURE) as stored:
        picture.write_bytes(b"P6 224 224 255\n" + stored["x0"].tobytes())
    return str(MODEL), str(picture), str(LABELS)


def expected() -> list[str]:
    """The lines that follow the first one, by a Session: `Session` stands on the ladder of oracles in tests/runtime."""
    with np.load(PICTURE) as stored, Session(str(MODEL), device="software") as session:
        scores = session.run(stored["x0"])["logits"].reshape(-1)
    names = LABELS.read_text().splitlines()
    best = np.argsort(-scores, kind="stable")[:3]
    return [f"{scores[number]:6.2f}  {names[number]}" for number in best]


@contextmanager
def own_engine() -> Iterator[dict[str, str]]:
    """Variables for programs that start an engine; it is ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="orknn") as folder:
        path = f"{folder}/engine"
        try:
            yield {SOCKET_VARIABLE: path}
        finally:
            engine = running_engine(path)
            if engine is not None:
                stop_engine(engine)
