"""Models that a client gives with its load request: a configuration as Triton's, and files.

    config      JSON of a ModelConfig: what our own `model_config` says may come back changed
    file:1/model.rknn, file:labels.txt
                contents; they are kept in a private folder until the model is unloaded or loaded otherwise
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openrknn.serve.errors import BadRequestError, ConflictError
from openrknn.serve.plane.config import ModelConfig
from openrknn.serve.plane.index import FoundModel, is_model_name, scan
from openrknn.serve.plane.process_folder import ProcessFolder, remove_leftovers
from openrknn.serve.plane.tritonconfig import read_triton_config

__all__ = ["UploadedModel", "UploadedModels", "files_of"]

_LOG = logging.getLogger(__name__)
_FILE = re.compile(r"file:(?:([1-9][0-9]{0,17})/)?([A-Za-z0-9][A-Za-z0-9_.-]{0,127})", re.ASCII)
_MOST_FILES, _MOST_MODELS = 32, 64


@dataclass(slots=True)
class UploadedModel:
    """What one load request brought."""

    config: ModelConfig
    own: ProcessFolder | None = None
    size_bytes: int = 0

    @property
    def folder(self) -> Path | None:
        """Where its files are; None: a configuration alone."""
        return None if self.own is None else self.own.path

    def over(self, name: str, found: FoundModel | None) -> FoundModel | None:
        """The model with it; None: the configuration was for a model that is gone."""
        if self.folder is not None:
            found = scan([self.folder]).get(name)
        if found is None:
            return None
        config = replace(self.config, folder=found.config.folder)
        labels = self.config.labels and found.config.folder and found.config.folder / Path(self.config.labels).name
        return replace(found, config=config, labels=labels if labels and labels.is_file() else found.labels)

    def close(self) -> None:
        """Remove its files."""
        if self.own is not None:
            self.own.close()


class UploadedModels:
    """All that clients have given, by the names of models."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._given: dict[str, UploadedModel] = {}
        self._making: list[UploadedModel] = []
        """Written, and not kept yet."""
        for path in remove_leftovers():
            _LOG.info("removed %s, which a server left that was killed", path)

    def make(self, name: str, config: object, files: Mapping[str, bytes]) -> UploadedModel:
        """Check a request and write its files."""
        if config is None:
            raise BadRequestError("files need a 'config' beside them; '{}' is one")
        read = read_triton_config(config, name)
        if not files:
            return UploadedModel(read)
        if not is_model_name(name):
            raise BadRequestError(f"a model cannot be called {name[:80]!r}; names have letters, digits, _ . - inside")
        if len(files) > _MOST_FILES:
            raise BadRequestError(f"a model has at most {_MOST_FILES} files; {len(files)} were sent")
        places = {key: _FILE.fullmatch(key) for key in files}
        for key, place in places.items():
            if place is None:
                raise BadRequestError(f"{key[:80]!r} names no file; write 'file:1/model.rknn' or 'file:labels.txt'")
        size = sum(map(len, files.values()))
        with self._lock:
            self._check_room(name, size)
            try:
                own = ProcessFolder()
            except OSError as error:
                raise ConflictError(f"the files cannot be kept: {error.strerror}") from None
            given, folder = UploadedModel(read, own, size), own.path
            self._making.append(given)
        try:
            for key, place in places.items():
                assert place is not None
                target = folder / name / (place[1] or "") / place[2]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files[key])
            found = given.over(name, None)
            if found is None or found.problem:
                problem = found.problem if found is not None else "there is no .rknn or .rknnz file among them"
                raise BadRequestError(f"the files make no model: {problem.replace(str(folder), '')}")
        except BaseException as error:
            given.close()
            if isinstance(error, OSError):
                raise ConflictError(f"the files cannot be kept: {error.strerror}") from None
            raise
        return given

    def _check_room(self, name: str, size: int) -> None:
        self._making = [one for one in self._making if one.folder is not None and one.folder.exists()]
        others = [one for other, one in self._given.items() if other != name and one.folder is not None]
        others += self._making
        used = sum(one.size_bytes for one in others)
        if len(others) >= _MOST_MODELS or size > self._most_bytes - used:
            raise ConflictError(
                f"clients may load {_MOST_MODELS} models of {self._most_bytes} bytes together (--max-memory); "
                f"there are {len(others)} of {used} bytes: unload some"
            )

    def keep(self, name: str, given: UploadedModel) -> None:
        """From now on the model is this one."""
        self.drop(name)
        with self._lock:
            self._making = [one for one in self._making if one is not given]
            self._given = {**self._given, name: given}

    def drop(self, name: str) -> None:
        """The model is the repository's again, or gone."""
        with self._lock:
            old = self._given.get(name)
            self._given = {other: given for other, given in self._given.items() if other != name}
        if old is not None:
            old.close()

    def has(self, name: str) -> bool:
        """Whether a client said anything about it."""
        return name in self._given

    def has_files(self, name: str) -> bool:
        """Whether a client gave the model itself."""
        return name in self._given and self._given[name].folder is not None

    def over(self, found: Mapping[str, FoundModel]) -> dict[str, FoundModel]:
        """What there is, with what clients gave."""
        made = dict(found)
        for name, given in self._given.items():
            model = given.over(name, found.get(name))
            if model is not None:
                made[name] = model
        return made

    def close(self) -> None:
        """Remove everything."""
        for name in list(self._given):
            self.drop(name)


def files_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The files among the parameters of a load request; refuses what is neither a file nor a configuration."""
    for key in parameters:
        if key != "config" and not key.startswith("file:"):
            raise BadRequestError(f"load takes 'config' and 'file:...', and nothing called {key[:80]!r}")
    return {key: value for key, value in parameters.items() if key != "config"}
