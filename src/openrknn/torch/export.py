"""A flat FX graph as an ONNX model: `torch.export`, then PyTorch's own ONNX exporter.

Two ways are tried: the graph as it is, which keeps large operators (attention, normalisation), and the graph in
PyTorch's core operators, of which the exporter knows nearly all.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from openrknn.torch.errors import LOG, ExportError
from openrknn.torch.widen import widen

__all__ = ["LARGEST", "exported_model", "input_name", "output_name", "program_model", "quiet"]

LARGEST = 1_900_000_000
"""Bytes of a model: a protobuf message ends at 2 GB. What is larger is cut by who calls."""


def input_name(number: int) -> str:
    """How the inputs of exported graphs are called."""
    return f"input{number}"


def output_name(number: int) -> str:
    """How their outputs are called."""
    return f"output{number}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """PyTorch's exporter talks to the terminal and warns about its own insides."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def exported_model(module: Any, inputs: Sequence[Any]) -> Any:
    """The ONNX model of a `GraphModule` that takes tensors and returns a list of tensors."""
    _check_size(module)
    with quiet(), torch.no_grad(), _in_its_own_world():
        try:
            program = torch.export.export(module, tuple(inputs), strict=False)
        except Exception as error:
            raise ExportError(f"torch.export: {_first_line(error)}") from error
    changed = _mutated(program)
    if changed:
        raise ExportError(f"it writes to {changed[0]!r}")
    return program_model(program, len(inputs))


def program_model(program: Any, inputs: int, names: tuple[Sequence[str], Sequence[str]] | None = None) -> Any:
    """An `ExportedProgram` as ONNX, with float in place of half."""
    given, made = names or ([input_name(number) for number in range(inputs)], _output_names(program))
    with quiet(), torch.no_grad(), _in_its_own_world():
        try:
            model = _onnx(program, given, made)
        except Exception as error:  # noqa: BLE001  (its exporter raises what its operators raise)
            LOG.debug("ONNX export of the graph as it is: %s", _first_line(error))
            try:
                model = _onnx(program.run_decompositions(), given, made)
            except Exception as second:  # noqa: BLE001
                raise ExportError(f"torch.onnx: {_first_line(second)}") from error
    widen(model)
    return model


def _onnx(program: Any, given: Sequence[str], made: Sequence[str]) -> Any:
    exported = torch.onnx.export(
        program, (), dynamo=True, verbose=False, optimize=True, input_names=list(given), output_names=list(made)
    )
    return exported.model_proto


@contextlib.contextmanager
def _in_its_own_world() -> Iterator[None]:
    """A graph is exported while another one runs: modes and contexts of that one are not ours."""
    from torch._guards import tracing

    with tracing(None), torch.inference_mode(mode=False):
        yield


def _output_names(program: Any) -> list[str]:
    return [output_name(number) for number in range(len(program.graph_signature.user_outputs))]


def _mutated(program: Any) -> list[str]:
    signature = program.graph_signature
    return [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]


def _check_size(module: Any) -> None:
    held = {id(value): value.nbytes for value in (*module.parameters(), *module.buffers())}
    if sum(held.values()) > LARGEST:
        raise ExportError(f"it has over {LARGEST // 10**9 + 1} GB of parameters, more than one ONNX model can hold")


def _first_line(error: BaseException) -> str:
    """The innermost reason, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]
