"""A flat FX graph as an ONNX model: `torch.export`, then PyTorch's own ONNX exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from openrknn.compiler.importer.formats.pytorch.exported import ProgramError, program_model, quiet, reason_of
from openrknn.torch.errors import ExportError

LARGEST = 1_900_000_000
"""Bytes of a model: a protobuf message ends at 2 GB. What is larger is cut by who calls."""


def input_name(number: int) -> str:
    """How the inputs of exported graphs are called."""
    return f"input{number}"


def output_name(number: int) -> str:
    """How their outputs are called."""
    return f"output{number}"


def exported_model(module: Any, inputs: Sequence[Any]) -> Any:
    """The ONNX model of a `GraphModule` that takes tensors and returns a list of tensors."""
    _check_size(module)
    with quiet(), torch.no_grad(), _in_its_own_world():
        try:
            program = torch.export.export(module, tuple(inputs), strict=False)
        except Exception as error:  # whatever PyTorch says: the graph runs eagerly then
            raise ExportError(f"torch.export: {reason_of(error)}") from error
    changed = _mutated(program)
    if changed:
        raise ExportError(f"it writes to {changed[0]!r}")
    return model_of(program, len(inputs))


def model_of(program: Any, inputs: int) -> Any:
    """An `ExportedProgram` as ONNX, with our names."""
    outputs = len(program.graph_signature.user_outputs)
    with _in_its_own_world():
        try:
            return program_model(
                program, [input_name(at) for at in range(inputs)], [output_name(at) for at in range(outputs)]
            )
        except ProgramError as error:
            raise ExportError(str(error)) from error


@contextlib.contextmanager
def _in_its_own_world() -> Iterator[None]:
    """A graph is exported while another one runs: modes and contexts of that one are not ours."""
    from torch._guards import tracing

    with tracing(None), torch.inference_mode(mode=False):
        yield


def _mutated(program: Any) -> list[str]:
    signature = program.graph_signature
    return [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]


def _check_size(module: Any) -> None:
    held = {id(value): value.nbytes for value in (*module.parameters(), *module.buffers())}
    if sum(held.values()) > LARGEST:
        raise ExportError(f"it has over {LARGEST / 1e9} GB of parameters, more than one ONNX model can hold")
