"""What can go wrong while text is generated."""

from __future__ import annotations

from openrknn.errors import RknnError, UnsupportedError

__all__ = ["ConstraintError", "ContextFullError", "NoConstraintsError", "PromptError"]


class PromptError(RknnError):
    """A prompt that the model cannot take: empty, or tokens that are not in its vocabulary."""


class ContextFullError(PromptError):
    """More tokens than the cache holds; the message has both numbers."""


class ConstraintError(RknnError):
    """A grammar or JSON schema that cannot be compiled, or that no text satisfies."""


class NoConstraintsError(UnsupportedError):
    """Constraints need a package that is not installed."""
