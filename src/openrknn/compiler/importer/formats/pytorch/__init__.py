"""PyTorch's files: `.pt2` (torch.export) and TorchScript `.pt`, through PyTorch itself.

Both are exchange formats that PyTorch reads: `.pt2` as tensors and a graph in JSON, TorchScript with PyTorch's own
interpreter. PyTorch never opens the file itself: a new one is written from members that were checked (`archive`), and
converted in a confined child process (`worker`). What needs Python classes (checkpoints, pickled modules) is not
loaded: that would run the code inside it. The message says how to export it.

Checkpoints of Ultralytics are the exception, as users have little else: the package of the user exports them
(`checkpoint`), in a child that must have all guards of the sandbox.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.contained import converted
from openrknn.compiler.importer.formats.pairs import Source, name_of
from openrknn.compiler.importer.formats.pytorch.archive import kind_of, rewrite
from openrknn.compiler.importer.formats.pytorch.checkpoint import ENVIRONMENT
from openrknn.compiler.importer.formats.pytorch.scripted import Shapes
from openrknn.extras import missing
from openrknn.sandbox import FILES, NETWORK, private_folder

__all__ = ["TRUST", "is_checkpoint", "read"]

TRUST = "OPENRKNN_TRUST_CHECKPOINTS"
"""Set to 1, checkpoints are loaded on kernels without the guards too."""

_EXPORT = "`torch.export.save(torch.export.export(model.eval(), (example,)), 'model.pt2')`"
_INSTEAD = {
    "state": "has parameters only, and no network. Load it into the network that it belongs to, and save that: "
    f"{_EXPORT}",
    "module": "is a pickled Python object, and loading it would run the code in it. Load it in your program, and save "
    f"the network: {_EXPORT}",
    "legacy": f"is an old pickle, or damaged. Load it in your program, and save the network: {_EXPORT}",
    "unknown": "is a zip, but neither a .pt2 nor a TorchScript file",
}


def read(source: Source, *, shapes: Shapes | None = None) -> Any:
    """The model as ONNX. TorchScript needs the shapes of its inputs."""
    name = name_of(source)
    try:
        kind = kind_of(source)
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {error.strerror or error}") from None
    if kind in _INSTEAD:
        raise ModelError(f"{name} {_INSTEAD[kind]}")
    if kind == "ultralytics":
        return _exported(source, name, shapes)
    with private_folder() as folder:
        path = folder / ("model.pt2" if kind == "pt2" else "model.pt")
        rewrite(source, kind, path)
        for package in ("torch", "onnxscript"):
            if importlib.util.find_spec(package) is None:
                raise ModelError(f"{name} is a PyTorch model: {missing(ImportError(name=package), 'torch')}")
        request = {"path": str(path), "kind": kind, "shapes": _plain(shapes)}
        return converted(f"{__name__}.worker", request, folder, name, "cannot be converted by PyTorch")


def is_checkpoint(source: Source) -> bool:
    """Whether it is a checkpoint of Ultralytics; what else may be wrong with the file, `read` reports."""
    try:
        return kind_of(source) == "ultralytics"
    except (ModelError, OSError):
        return False


def _exported(source: Source, name: str, shapes: Shapes | None) -> Any:
    """A checkpoint of Ultralytics, exported by the user's own package."""
    for package in ("ultralytics", "onnx"):
        if importlib.util.find_spec(package) is None:
            raise ModelError(
                f"{name} is a checkpoint of ultralytics, which its own package has to export, and {package} is not "
                "installed here: `pip install ultralytics onnx` (AGPL-3.0). Or export it elsewhere with `yolo export "
                "model=FILE format=onnx` and compile the .onnx"
            )
    trusted = os.environ.get(TRUST) == "1"
    with private_folder() as folder:
        path = folder / "model.pt"
        path.write_bytes(source if isinstance(source, bytes) else Path(cast("str", source)).read_bytes())
        request = {"path": str(path), "shapes": _plain(shapes)}
        environment = {**ENVIRONMENT, "YOLO_CONFIG_DIR": str(folder)}
        required = frozenset() if trusted else frozenset({FILES, NETWORK})
        return converted(
            f"{__name__}.checkpoint", request, folder, name, "cannot be exported by ultralytics", environment,
            required=required,
        )  # fmt: skip


def _plain(shapes: Shapes | None) -> Any:
    """For JSON."""
    if isinstance(shapes, Mapping):
        return {str(one): [int(size) for size in shape] for one, shape in shapes.items()}
    return [[int(size) for size in shape] for shape in shapes] if shapes else None
