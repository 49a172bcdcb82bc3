"""Output files of commands: complete or not there, and one clear line when it does not work."""

from __future__ import annotations

from openrknn.cli.files import os_problem
from openrknn.cli.output import CommandError

__all__ = ["save_atomically"]


def save_atomically(path: str, data: bytes) -> None:
    """Write a file; `CommandError` names it and the reason."""
    from openrknn.container.save import write_atomically  # here: commands start fast

    try:
        write_atomically(path, data)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
