"""TensorFlow: SavedModel folders, frozen graphs (`.pb`) and Keras files (`.keras`, `.h5`), through tf2onnx.

TensorFlow never opens the files themselves: members that were checked are copied (`members`), and converted in a
confined child process (`worker`). Inputs with four dimensions become [N, C, H, W], which is what the
NPU's pictures are made of; a `.rknn` takes them as [N, H, W, C] again. Outputs keep TensorFlow's order.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.contained import converted
from openrknn.compiler.importer.formats.tensorflow.members import copy_model
from openrknn.extras import how_to_install
from openrknn.sandbox import private_folder

__all__ = ["kind_of", "read"]

_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}
_HDF, _ZIP = b"\x89HDF", b"PK\x03\x04"


def read(
    source: str | os.PathLike[str] | bytes, *, inputs: Sequence[str] = (), sizes: Sequence[Sequence[int]] = (),
    outputs: Sequence[str] = (), input_is_nchw: bool = False,
) -> Any:  # fmt: skip
    """The model as an ONNX `ModelProto`.

    A frozen graph does not say what goes in and out: without `inputs` and `outputs` all placeholders are inputs, and
    unused results are outputs. `sizes` are the shapes of the inputs, with or without the batch.
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
    with private_folder() as folder:
        copy = copy_model(path, kind, folder)
        _check_installed(path)
        request = {
            "path": copy, "kind": kind, "inputs": [_bare(name) for name in inputs],
            "sizes": [list(size) for size in sizes], "outputs": [_bare(name) for name in outputs],
            "is_nchw": input_is_nchw,
        }  # fmt: skip
        return converted(f"{__name__}.worker", request, folder, str(path), "cannot be converted", _ENVIRONMENT)


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

