"""`model.toml`: what is different for one model of a repository.

    instances = 3               # contexts
    cores = 1                   # that share each run
    queue_size = 32
    versions = "all"            # latest (default), all, or a list: [1, 3]
    batch_delay_ms = 2.0
    labels = "labels.txt"       # in the same folder
    task = "detect"             # where the outputs do not tell; also family = "yolov8"
    threshold = 0.4
    reader = "ppocr_rec"        # a finder of text: the model that reads what it finds
    priority_levels = 10        # of requests: 1 is the highest
    default_priority = 5        # of those that say nothing
    timeout_ms = 500            # of requests that say nothing
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.errors import FormatError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["LEVELS", "ModelConfig", "read_config", "read_labels"]

_MAX_LABELS = 100_000
LEVELS = 10
"""Of priority, where model.toml does not say it."""
Declared = tuple[str, str, tuple[int, ...]]
"""Name, TYPE_..., dims."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """None: as the server's settings say."""

    instances: int | None = None
    cores: int | None = None
    queue_size: int | None = None
    versions: str | tuple[int, ...] | None = None
    batch_delay_ms: float | None = None
    labels: str | None = None
    task: str | None = None
    family: str | None = None
    threshold: float | None = None
    reader: str | None = None
    priority_levels: int | None = None
    default_priority: int | None = None
    timeout_ms: float | None = None
    inputs: tuple[Declared, ...] = ()
    """What a client believes that the model has: checked when it is loaded."""
    outputs: tuple[Declared, ...] = ()
    most_batch: int = 0
    folder: Path | None = field(default=None, repr=False)

    def level(self, priority: int) -> int:
        """The level of a request: 1 is the highest. What is no level of this model is its default, as in Triton."""
        levels = self.priority_levels or LEVELS
        default = self.default_priority or (levels + 1) // 2
        return priority if 1 <= priority <= levels else default


_KINDS: dict[str, tuple[type, ...]] = {
    "instances": (int,),
    "cores": (int,),
    "queue_size": (int,),
    "versions": (str, list),
    "batch_delay_ms": (int, float),
    "labels": (str,),
    "task": (str,),
    "family": (str,),
    "threshold": (int, float),
    "reader": (str,),
    "priority_levels": (int,),
    "default_priority": (int,),
    "timeout_ms": (int, float),
}


def read_config(path: Path) -> ModelConfig:
    """The file's words, checked."""
    try:
        words: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is no TOML: {error}") from None
    for key, value in words.items():
        if key not in _KINDS:
            raise FormatError(f"{path}: {key!r} is unknown; the choices are {', '.join(_KINDS)}")
        if isinstance(value, bool) or not isinstance(value, _KINDS[key]):
            raise FormatError(f"{path}: {key} = {value!r} is not a {_KINDS[key][-1].__name__}")
        if isinstance(value, int | float) and value < (1 if _KINDS[key] == (int,) else 0):
            raise FormatError(f"{path}: {key} = {value!r} is too small")
    if words.get("default_priority", 1) > words.get("priority_levels", LEVELS):
        raise FormatError(f"{path}: default_priority = {words['default_priority']} is none of the priority_levels")
    versions = words.get("versions")
    if isinstance(versions, list):
        if not versions or not all(isinstance(number, int) and number > 0 for number in versions):
            raise FormatError(f"{path}: versions = {versions!r} is not a list of version numbers")
        words["versions"] = tuple(versions)
    elif versions not in {None, "latest", "all"}:
        raise FormatError(f"{path}: versions = {versions!r}; there are 'latest', 'all' and lists such as [1, 3]")
    return ModelConfig(**words, folder=path.parent)


def read_labels(path: Path) -> tuple[str, ...]:
    """Names of classes, one per line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is no UTF-8 text: {error}") from None
    if len(lines) > _MAX_LABELS:
        raise FormatError(f"{path} has {len(lines)} lines; that are no labels")
    return tuple(line.strip() for line in lines)
