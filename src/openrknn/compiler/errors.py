"""What can go wrong between an ONNX file and a `.rknn`; each message says what, where, and what to do."""

from __future__ import annotations

from openrknn.errors import RknnError, UnsupportedError

__all__ = [
    "CalibrationError", "CompileError", "MisfitError", "ModelError", "OptionError", "UnsupportedOperatorError",
    "WrongResultError",
]  # fmt: skip


class CompileError(RknnError):
    """The root of what the compiler raises."""


class OptionError(CompileError, ValueError):
    """An option of the compilation that cannot be, whatever the model is."""


class ModelError(CompileError):
    """The ONNX file is not what it should be: damaged, without shapes, with NaN in its weights."""


class CalibrationError(CompileError):
    """The calibration data are missing, unreadable, or do not fit the model's inputs."""


class MisfitError(CalibrationError):
    """A calibration array has another shape than the input."""


class UnsupportedOperatorError(CompileError, UnsupportedError):
    """The model needs an operator, or a form of one, that the compiler does not have."""


class WrongResultError(CompileError):
    """The file that was made does not compute what the model does: a mistake of the compiler, found in time."""
