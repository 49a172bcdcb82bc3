"""TensorFlow: SavedModel folders, frozen graphs (`.pb`) and Keras files (`.keras`, `.h5`), through tf2onnx.

TensorFlow runs in a process of its own: it is large, takes all threads and much memory, and what it does to the process
that loads it (signal handlers, logs) stays there. Inputs with four dimensions become [N, C, H, W], which is what the
NPU's pictures are made of; a `.rknn` takes them as [N, H, W, C] again. Outputs keep TensorFlow's order.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.extras import how_to_install

__all__ = ["kind_of", "read"]

_WORKER = "openrknn.compiler.importer.formats.tensorflow.worker"
_HDF, _ZIP = b"\x89HDF", b"PK\x03\x04"
_ANSWER = "openrknn: "
"""What the line begins with that the other process answers with; TensorFlow prints as well."""


def read(
    source: str | os.PathLike[str] | bytes, *, inputs: Sequence[str] = (), sizes: Sequence[Sequence[int]] = (),
    outputs: Sequence[str] = (), input_is_nchw: bool = False,
) -> Any:  # fmt: skip
    """The model as an ONNX `ModelProto`.

    A frozen graph does not say what goes in and out: without `inputs` and `outputs` all placeholders are inputs, and
    what nobody reads is an output. `sizes` are the shapes of the inputs, with or without the batch.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            path.write_bytes(source)
            return read(path, inputs=inputs, sizes=sizes, outputs=outputs, input_is_nchw=input_is_nchw)
    path = Path(source)
    kind = kind_of(path)
    if path.name == "saved_model.pb":
        path = path.parent
    _check_installed(path)
    wish = {
        "path": os.path.abspath(path), "kind": kind, "inputs": [_bare(name) for name in inputs],
        "sizes": [list(size) for size in sizes], "outputs": [_bare(name) for name in outputs],
        "is_nchw": input_is_nchw,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "model.onnx")
        _convert({**wish, "target": target}, path)
        return onnx_package().load(target)


def kind_of(path: Path) -> str:
    """ "saved_model", "frozen" or "keras"."""
    if path.is_dir() or path.name == "saved_model.pb":
        return "saved_model"
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if not head:
        raise ModelError(f"{path} is empty")
    return "keras" if head in {_HDF, _ZIP} else "frozen"


def _bare(name: str) -> str:
    """ "scores:0" -> "scores"."""
    return name.removesuffix(":0")


def _check_installed(path: Path) -> None:
    absent = [name for name in ("tensorflow", "tf2onnx") if importlib.util.find_spec(name) is None]
    if absent:
        raise ModelError(
            f"{path} is a TensorFlow model, and {' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not "
            f"installed; {how_to_install('tensorflow')}, or convert it elsewhere: python -m tf2onnx.convert"
        )


def _convert(wish: dict[str, Any], path: Path) -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-m", _WORKER], input=json.dumps(wish), capture_output=True, text=True, errors="replace",
        env=environment, check=False,
    )  # fmt: skip
    answers = [line for line in done.stdout.splitlines() if line.startswith(_ANSWER)]
    said = answers[-1].removeprefix(_ANSWER) if answers else ""
    if said == "done":
        return
    if not said:
        last = done.stderr.strip().splitlines()
        said = f"TensorFlow ended with code {done.returncode}: {last[-1] if last else 'it said nothing'}"
    raise ModelError(f"{path} cannot be converted: {said[:500]}")
