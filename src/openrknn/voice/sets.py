"""A voice set: a folder with `voice.json` and the models of one family, made by `openrknn voice get`.

{"format": 1, "name": "moonshine-tiny", "family": "moonshine", "kind": "transcriber", "rate": 16000,
 "language": "en", "target": "rk3588", "licence": "MIT", "source": "moonshine-voice 0.0.4",
 "files": {"encoder": "encoder.rknnz", "tokens": "tokens.bin"}, "options": {}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from openrknn.folders import data_folder
from openrknn.voice.errors import VoiceSetError
from openrknn.wholefiles import write_atomically

FORMAT = 1
FILE = "voice.json"
"""A folder that has it is a set."""
KINDS = ("transcriber", "speaker", "activity", "denoiser", "wake", "pitch", "notes", "embedding")
_LARGEST = 1 << 20
"""Bytes of `voice.json`. The numbers are in other files."""


@dataclass(frozen=True)
class VoiceSet:
    """What is in the folder."""

    folder: Path
    name: str
    family: str
    kind: str
    rate: int
    language: str = "en"
    target: str = "rk3588"
    licence: str = ""
    source: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def file(self, role: str) -> Path:
        """The path of one of its files, which is inside the folder and there."""
        try:
            name = self.files[role]
        except KeyError:
            raise VoiceSetError(
                f"{self.folder}: the set {self.name!r} has no file for {role!r}, only "
                f"{', '.join(self.files) or 'none'}; make it again with `openrknn voice get`"
            ) from None
        path = self.folder / name
        if not path.is_file():
            raise VoiceSetError(
                f"{path}: this file of the set {self.name!r} is missing; make it again with `openrknn voice get`"
            )
        return path


def home() -> Path:
    """Where sets are kept: $OPENRKNN_VOICES, else openrknn/voices in the user's folder for data."""
    if chosen := os.environ.get("OPENRKNN_VOICES"):
        return Path(chosen)
    return data_folder("voices")


def installed(kind: str | None = None) -> list[VoiceSet]:
    """The sets at home, by name; broken ones are left out."""
    found = []
    for folder in sorted(home().glob(f"*/{FILE}")):
        try:
            one = _read(folder.parent)
        except VoiceSetError:
            continue
        if kind in (None, one.kind):
            found.append(one)
    return found


def open_set(where: str | Path | VoiceSet, kind: str | None = None) -> VoiceSet:
    """A set by its folder, or by the name of one at home."""
    if isinstance(where, VoiceSet):
        found = where
    elif (Path(where) / FILE).is_file():
        found = _read(Path(where))
    elif (home() / where / "voice.json").is_file():
        found = _read(home() / where)
    else:
        names = ", ".join(one.name for one in installed(kind)) or "none"
        source = where if Path(where).exists() else Path(where).name
        raise VoiceSetError(
            f"{where}: neither a folder with a voice.json nor the name of a set in {home()} (there: {names}); "
            f"make one with `openrknn voice get {source}`"
        )
    if kind is not None and found.kind != kind:
        raise VoiceSetError(
            f"{found.folder}: {found.name!r} is a set for {found.kind!r}, and one for {kind!r} is needed"
        )
    return found


def write_set(made: VoiceSet) -> Path:
    """Write `voice.json`, last of all: a folder without it is no set."""
    row = {"format": FORMAT, **asdict(made)}
    del row["folder"]
    path = made.folder / FILE
    write_atomically(path, json.dumps(row, indent=1, ensure_ascii=False) + "\n")
    return path


def _read(folder: Path) -> VoiceSet:
    path = folder / "voice.json"
    try:
        if path.stat().st_size > _LARGEST:
            raise VoiceSetError(f"{path}: larger than {_LARGEST} bytes; this is no list of a voice's files")
        row = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise VoiceSetError(f"{path}: cannot be read: {error}") from error
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise VoiceSetError(
            f"{path}: not of format {FORMAT}; make it again with `openrknn voice get`, or update openrknn"
        )
    checks = {
        "name": str,
        "family": str,
        "kind": str,
        "rate": int,
        "language": str,
        "target": str,
        "licence": str,
        "source": str,
    }
    for key, kind in checks.items():
        if key in row and (not isinstance(row[key], kind) or isinstance(row[key], bool)):
            raise VoiceSetError(f"{path}: {key!r} should be {kind.__name__}, not {row[key]!r:.60}")
    for key in ("name", "family", "kind", "rate"):
        if key not in row:
            raise VoiceSetError(f"{path}: {key!r} is missing")
    if row["kind"] not in KINDS or not 1000 <= row["rate"] <= 384_000:
        raise VoiceSetError(f"{path}: kind {row['kind']!r:.60} or rate {row['rate']} is not known")
    files, options = row.get("files", {}), row.get("options", {})
    if not isinstance(files, dict) or not isinstance(options, dict):
        raise VoiceSetError(f"{path}: 'files' and 'options' should be objects")
    for role, name in files.items():
        if (
            not isinstance(name, str)
            or not name
            or Path(name).is_absolute()
            or ".." in Path(name).parts
            or "\0" in name
        ):
            raise VoiceSetError(f"{path}: the file of {role!r} is {name!r:.60}, which is not a path inside the folder")
    return VoiceSet(folder, files=files, options=options, **{key: row[key] for key in checks if key in row})
