"""In the child process: PyTorch reads a checked file and says it in ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pytorch.exported import ProgramError, program_model, quiet, reason_of
from openrknn.compiler.importer.formats.pytorch.scripted import script_model


def convert(request: Mapping[str, Any]) -> bytes:
    """The file `path` of the kind "pt2" or "script", as ONNX. Errors begin after the name of the file."""
    import torch

    torch.set_num_threads(1)
    made = script_model(torch, request["path"], request["shapes"]) if request["kind"] == "script" else _program(
        torch, request["path"]
    )
    data: bytes = made.SerializeToString()
    return data


def _program(torch: Any, path: str) -> Any:
    try:
        with quiet():
            program = torch.export.load(path)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  (PyTorch checks versions and graphs with errors of all kinds)
        raise ModelError(f"is not a .pt2 that this PyTorch can read: {reason_of(error)}") from None
    try:
        return program_model(program)
    except ProgramError as error:
        raise ModelError(
            f"cannot be said in ONNX: {error}. In a program, torch.compile(module, backend='openrknn') leaves such "
            "operators to PyTorch"
        ) from None
