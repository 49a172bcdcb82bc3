"""PyTorch's files: `.pt2` (torch.export) and TorchScript `.pt`, through PyTorch itself.

Both are exchange formats that PyTorch reads: `.pt2` as tensors and a graph in JSON, TorchScript with PyTorch's own
interpreter. What only Python classes can bring back to life (checkpoints, pickled modules) is not loaded: it would run
the code inside it. The message says how to export it.
"""

from __future__ import annotations

import io
import os
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pairs import Source, name_of
from openrknn.compiler.importer.formats.pytorch.archive import check_harmless, kind_of
from openrknn.compiler.importer.formats.pytorch.exported import ProgramError, program_model, quiet, reason_of
from openrknn.compiler.importer.formats.pytorch.scripted import Shapes, script_model
from openrknn.extras import missing

__all__ = ["read"]

_EXPORT = "`torch.export.save(torch.export.export(model.eval(), (example,)), 'model.pt2')`"
_INSTEAD = {
    "state": "has parameters only, and no network. Load it into the network that it belongs to, and save that: "
    f"{_EXPORT}",
    "module": "is a pickled Python object, and loading it would run the code in it. Load it in your program, and save "
    f"the network: {_EXPORT}",
    "ultralytics": "is a checkpoint of ultralytics. Export it with `yolo export model=FILE format=onnx`, or in Python: "
    "YOLO(FILE).export(format='onnx')",
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
    if kind == "pt2":
        check_harmless(source)
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise ModelError(f"{name} is a PyTorch model: {missing(error, 'torch')}") from None
    given: Any = io.BytesIO(source) if isinstance(source, bytes) else os.fspath(source)  # type: ignore[arg-type]
    if kind == "script":
        return script_model(torch, given, name, shapes)
    try:
        with quiet():
            program = torch.export.load(given)
    except Exception as error:  # noqa: BLE001  (PyTorch checks versions and graphs with errors of all kinds)
        raise ModelError(f"{name} is not a .pt2 that this PyTorch can read: {reason_of(error)}") from None
    try:
        return program_model(program)
    except ProgramError as error:
        raise ModelError(
            f"{name} cannot be said in ONNX: {error}. In a program, torch.compile(module, backend='openrknn') leaves "
            "such operators to PyTorch"
        ) from None
