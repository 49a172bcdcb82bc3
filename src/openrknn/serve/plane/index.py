"""The contents of a model repository.

    models/
    ├── scene.rknn              model "scene", version 1
    ├── speech.rknnz            model "speech", in parts for NPU and CPU
    ├── street/
    │   ├── model.rknn          model "street", version 1
    │   ├── labels.txt          names of its classes (optional)
    │   └── model.toml          what is different for it (optional; see `config`)
    └── faces/
        ├── 1/model.rknn        model "faces", versions 1 and 2
        └── 2/model.rknn

Requests name models, never files: a name is looked up in this table and in nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.serve.plane.config import ModelConfig, read_config
from openrknn.serve.stamps import FileStamp, stamp_of

__all__ = ["FoundModel", "Stamp", "is_model_name", "scan"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_VERSION = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_SUFFIXES, _CONFIG = (".rknn", ".rknnz"), "model.toml"
Stamp = tuple[FileStamp | None, ...]
"""Of the model, its labels and its model.toml: another one means another model."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """One model with all its versions."""

    name: str
    versions: dict[int, Path]
    config: ModelConfig = field(default_factory=ModelConfig)
    labels: Path | None = None
    problem: str = ""
    """Why it cannot be served."""

    def stamps(self) -> dict[int, Stamp]:
        """Version -> what tells whether its files have changed; versions whose file is gone are left out."""
        beside = [stamp_of(self.labels), stamp_of(self.config.folder / _CONFIG if self.config.folder else None)]
        stamps = {number: stamp_of(path) for number, path in self.versions.items()}
        return {number: (stamp, *beside) for number, stamp in stamps.items() if stamp is not None}

    def wanted(self, policy: str) -> list[int]:
        """The versions to load, lowest first."""
        chosen = self.config.versions or policy
        if chosen == "all":
            return sorted(self.versions)
        if isinstance(chosen, tuple):
            return sorted(number for number in chosen if number in self.versions)
        return [max(self.versions)] if self.versions else []


def scan(sources: Iterable[str | os.PathLike[str]], name: str | None = None) -> dict[str, FoundModel]:
    """All models of files and folders, by name; the only one may be given another name."""
    found: dict[str, FoundModel] = {}
    for source in map(Path, sources):
        if not source.exists():
            raise FileNotFoundError(2, "no such file or folder", os.fspath(source))
        models = _folder(source) if source.is_dir() else [_single(source)]
        for model in models:
            if model.name in found:
                raise UnsupportedError(f"two models are called {model.name!r}; give one of them another name")
            found[model.name] = model
    if name is None or not found:
        return found
    if not _NAME.fullmatch(name):
        raise UnsupportedError(f"a model cannot be called {name!r}; names have letters, digits, and _ . - inside")
    if len(found) > 1:
        raise UnsupportedError(f"{len(found)} models cannot all be called {name!r}")
    (only,) = found.values()
    return {name: replace(only, name=name)}


def is_model_name(name: str) -> bool:
    """Whether a model may be called so."""
    return _NAME.fullmatch(name) is not None


def _single(path: Path) -> FoundModel:
    """A file; labels may lie beside it."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", _stem(path)).lstrip("_.-") or "model"
    return FoundModel(name[:128], {1: path}, labels=_existing([path.with_suffix(".labels.txt")]))


def _folder(folder: Path) -> list[FoundModel]:
    """A repository, or the folder of one model with its versions."""
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and _NAME.fullmatch(entry.name):
            model = _model_folder(entry)
            if model is not None:
                found.append(model)
        elif entry.is_file() and entry.name.endswith(_SUFFIXES) and _NAME.fullmatch(_stem(entry)):
            found.append(_single(entry))
    return found


def _model_folder(folder: Path) -> FoundModel | None:
    versions: dict[int, Path] = {}
    problem = ""
    files = [entry for entry in sorted(folder.iterdir()) if entry.name.endswith(_SUFFIXES) and entry.is_file()]
    if files:
        versions[1], problem = _only(files, folder)
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and _VERSION.fullmatch(entry.name):
            inside = [path for path in sorted(entry.iterdir()) if path.name.endswith(_SUFFIXES) and path.is_file()]
            if inside:
                versions[int(entry.name)], more = _only(inside, entry)
                problem = problem or more
    if not versions:
        return None
    config, config_file = ModelConfig(folder=folder), folder / _CONFIG
    if config_file.is_file():
        try:
            config = read_config(config_file)
        except Exception as error:  # noqa: BLE001 - one bad model must not hide the others
            problem = problem or str(error)
    wanted = [folder / Path(config.labels).name] if config.labels else [folder / "labels.txt"]
    labels = _existing(wanted)
    if config.labels and labels is None:
        problem = problem or f"{folder / _CONFIG}: there is no file {config.labels!r} beside it"
    return FoundModel(folder.name, versions, config, labels, problem)


def _only(files: Sequence[Path], folder: Path) -> tuple[Path, str]:
    named = [path for path in files if _stem(path) == "model"]
    if named:
        return named[0], ""
    if len(files) > 1:
        return files[0], f"{folder} has {len(files)} models; call the one to serve model{_SUFFIXES[0]}"
    return files[0], ""


def _stem(path: Path) -> str:
    """The name without the suffix of a model."""
    return path.stem if path.suffix in _SUFFIXES else path.name


def _existing(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)
