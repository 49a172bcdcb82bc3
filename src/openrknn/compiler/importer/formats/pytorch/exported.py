"""An `ExportedProgram` as ONNX, by PyTorch's own exporter.

Two ways are tried: the program as it is, which keeps large operators (attention, normalisation), and the program in
PyTorch's core operators, of which the exporter knows nearly all.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from openrknn.compiler.importer.formats.pytorch.widen import widen

_LOG = logging.getLogger(__name__)


class ProgramError(Exception):
    """The exporter cannot say it in ONNX; the message says why."""


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


def program_model(program: Any, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Any:
    """With these names, and with float in place of half."""
    import torch

    with quiet(), torch.no_grad():
        try:
            model = _onnx(torch, program, inputs, outputs)
        except Exception as error:  # noqa: BLE001  (its exporter raises what its operators raise)
            _LOG.debug("ONNX export of the program as it is: %s", reason_of(error))
            try:
                model = _onnx(torch, program.run_decompositions(), inputs, outputs)
            except Exception as second:  # noqa: BLE001
                raise ProgramError(f"torch.onnx: {reason_of(second)}") from error
    widen(model)
    return model


def _onnx(torch: Any, program: Any, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> Any:
    exported = torch.onnx.export(
        program, (), dynamo=True, verbose=False, optimize=True,
        input_names=None if inputs is None else list(inputs), output_names=None if outputs is None else list(outputs),
    )  # fmt: skip
    return exported.model_proto


def reason_of(error: BaseException) -> str:
    """The innermost reason, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]
