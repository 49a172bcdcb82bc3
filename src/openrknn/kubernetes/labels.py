"""A file for Node Feature Discovery: labels that tell which nodes have which NPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from openrknn.kubernetes.inventory import Unit
from openrknn.wholefiles import write_atomically

__all__ = ["FOLDER", "file", "labels", "write_labels"]

FOLDER = Path("/etc/kubernetes/node-feature-discovery/features.d")
_PREFIX = "rockchip.com/npu"
_FILE = "openrknn"


def labels(units: Sequence[Unit]) -> dict[str, str]:
    """Nothing for software NPUs alone but their number: every node could have those."""
    found = {f"{_PREFIX}.software": str(sum(unit.driver == "software" for unit in units))}
    real = [unit for unit in units if unit.driver != "software"]
    if not real:
        return {name: value for name, value in found.items() if value != "0"}
    first = real[0]
    found |= {
        f"{_PREFIX}.present": "true",
        f"{_PREFIX}.count": str(len(real)),
        f"{_PREFIX}.driver": first.driver,
        f"{_PREFIX}.cores": str(first.cores),
    }
    if first.soc:
        found[f"{_PREFIX}.soc"] = first.soc
    if first.version:
        found[f"{_PREFIX}.driver-version"] = first.version
    return {name: value for name, value in sorted(found.items()) if value != "0"}


def write_labels(folder: Path, units: Sequence[Unit]) -> None:
    """Replace the file at once; NFD must not read half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{name}={value}\n" for name, value in labels(units).items())
    write_atomically(file(folder), text, mode=0o644)


def file(folder: Path) -> Path:
    """This program's file in NFD's folder."""
    return folder / _FILE
