"""Model files for commands; whatever goes wrong is one clear line."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError, Output
from openrknn.errors import EmptyFileError, FormatError, ModelInPartsError, NotRknnError, OutputError, RknnError

if TYPE_CHECKING:
    from openrknn.container.model import Model

__all__ = ["load_model", "os_problem", "save_atomically"]


def load_model(path: str, *, strict: bool = True) -> Model:
    """The model in `path`; whatever is wrong with it becomes a `CommandError` that names the file."""
    from openrknn.container.load import load

    try:
        if not os.path.isfile(path) and os.path.exists(path) and not os.path.isdir(path):
            raise CommandError(f"{path}: not a regular file; give a .rknn file")
        return load(path, strict=strict)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    except NotRknnError as error:
        raise CommandError(f"{path}: {_other_file(error, path)}") from error
    except RknnError as error:
        raise CommandError(f"{path}: {error}{_hint(error)}") from error


def save_atomically(path: str, data: bytes, *, replaces_input: bool = False) -> None:
    """Write a file; `CommandError` names it and the reason."""
    from openrknn.wholefiles import write_atomically  # here: commands start fast

    try:
        write_atomically(path, data, replaces_input=replaces_input)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error


def save_page(path: str, page: str, output: Output) -> None:
    """Write an HTML page and print its path; half characters of a hostile file are escaped."""
    save_atomically(path, page.encode("utf-8", "backslashreplace"))
    output.value(f"wrote {path}")


def os_problem(error: OSError, path: str = "") -> str:
    """An operating system's error in words, with what to do."""
    name = path or (str(error.filename) if error.filename else "")
    where = f"{name}: " if name else ""
    match error:
        case OutputError():
            return str(error)
        case FileNotFoundError():
            return f"{where}no such file; check the path"
        case IsADirectoryError():
            return f"{where}this is a directory; give the .rknn file in it"
        case PermissionError():
            return f"{where}permission denied; check the permissions of the file and its directories"
        case _:
            return f"{where}{error.strerror or error}"


def _other_file(error: NotRknnError, path: str) -> str:
    """What to do with a file that is no .rknn; an ONNX model can become one, and one in parts has some."""
    if isinstance(error, ModelInPartsError):
        given = shlex.quote(path)
        return (
            "a model in parts for NPU and CPU; this command takes one .rknn: `openrknn extract "
            f"{given} -o parts` writes its parts, give one of those (`openrknn inspect {given}` lists them)"
        )
    if path.lower().endswith(".onnx") or "ONNX" in str(error):
        return f"this is an ONNX model, not a .rknn; make one with `openrknn compile {shlex.quote(path)}`"
    return f"{error}; give a .rknn file, made by rknn-toolkit2 or `openrknn compile`"


def _hint(error: RknnError) -> str:
    match error:
        case EmptyFileError():
            return "; copy or download it again"
        case FormatError():
            return "; the file is damaged, copy or convert it again"
        case _:
            return ""
