"""Errors of language models; all of them are `RknnError`."""

from __future__ import annotations

from openrknn.errors import FormatError, RknnError, UnsupportedError
from openrknn.runtime.errors import CacheFullError

__all__ = [
    "CacheFullError", "MissingPackageError", "MissingTensorError", "NotWeightsError", "NumberRangeError",
    "TemplateError", "TokenizerError", "UnsupportedArchitectureError",
]  # fmt: skip


class NotWeightsError(FormatError):
    """Neither a GGUF file nor a folder with config.json and safetensors."""


class MissingTensorError(FormatError):
    """The architecture needs a tensor that the file does not have."""


class NumberRangeError(RknnError):
    """A text has numbers that a compiled file cannot hold, so that its tokens cannot be computed."""


class UnsupportedArchitectureError(UnsupportedError):
    """A family of models that is not in the table of architectures, or a variant of one that cannot be computed."""


class TokenizerError(FormatError):
    """The vocabulary in the file is not one, or not of a kind that is known."""


class TemplateError(RknnError):
    """A chat template is wrong, refuses these messages, or exceeds what a template may compute."""


class MissingPackageError(UnsupportedError):
    """A package of the extra `llm` is not installed; the message has the line that installs it."""
