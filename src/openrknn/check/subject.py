"""What is checked: a `.rknn`, a `.rknnz` in parts, or the folder of a voice with several of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openrknn.check.errors import CannotCheckError
from openrknn.container.bundle import SUFFIX, Bundle, is_bundle, read_bundle
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.errors import NotRknnError, RknnError
from openrknn.voice.sets import FILE as VOICE_FILE
from openrknn.voice.sets import open_set


@dataclass(frozen=True, slots=True)
class Subject:
    """Models under one path. A plain `.rknn` is one without a name."""

    path: str
    parts: Mapping[str, Model]
    bundle: Bundle | None = None
    is_voice: bool = False
    size_bytes: int = 0

    @property
    def model(self) -> Model | None:
        """The model, if there is just one."""
        return self.parts.get("")

    @property
    def chip(self) -> str:
        return next((model.chip.name for model in self.parts.values()), "")


def open_subject(path: str | os.PathLike[str] | Model) -> Subject:
    """Read it; whatever is wrong with it is a `CannotCheckError` that names the file."""
    if isinstance(path, Model):
        return Subject(path.path or "model", {"": path}, size_bytes=path.size_bytes)
    where = os.fspath(path)
    try:
        if os.path.isdir(where):
            return _voice(Path(where))
        if not os.path.exists(where):
            raise CannotCheckError(f"{where}: no such file; check the path")
        if is_bundle(where):
            bundle = read_bundle(where)
            return Subject(where, _parts(bundle), bundle, size_bytes=os.path.getsize(where))
        return Subject(where, {"": load(where)}, size_bytes=os.path.getsize(where))
    except CannotCheckError:
        raise
    except NotRknnError as error:
        raise CannotCheckError(f"{where}: {error}; give a .rknn, made by rknn-toolkit2 or `openrknn compile`") from None
    except RknnError as error:
        raise CannotCheckError(f"{where}: {error}") from None
    except OSError as error:
        raise CannotCheckError(f"{where}: {error.strerror or error}") from None


def _parts(bundle: Bundle, prefix: str = "") -> dict[str, Model]:
    return {f"{prefix}{name}": load(data) for name, data in bundle.files.items() if name.endswith(".rknn")}


def _voice(folder: Path) -> Subject:
    if not (folder / VOICE_FILE).is_file():
        raise CannotCheckError(f"{folder}: a folder without models; give .rknn files, or a voice made by `voice get`")
    found: dict[str, Model] = {}
    size = 0
    voice = open_set(folder)
    for role in sorted(voice.files):
        file = voice.file(role)
        size += file.stat().st_size
        if file.suffix == SUFFIX and is_bundle(file):
            found |= _parts(read_bundle(file), f"{file.name}/")
        elif file.suffix == ".rknn":
            found[file.name] = load(file)
    return Subject(str(folder), found, is_voice=True, size_bytes=size)
