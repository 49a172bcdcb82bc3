"""Rebuild the networks of the published figures, and count what their tasks ask for.

    python -m benchmarks.estimate PYTHON_OF_THE_TOOLKIT FOLDER [--also ONNX_FOLDER] [--only NAME ...] [--chips ...]

FOLDER keeps the networks and the vendor's builds of them. `--also` takes ONNX files that are no networks of ours; they
are called as their files. The result is benchmarks/estimate/features.csv, from which `python -m
tools.make_estimate_docs` makes docs/estimate.md. Networks that are in the file already and are not asked for stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.estimate.build import build
from benchmarks.estimate.facts import CHIPS, HERE
from benchmarks.estimate.features import Features, features_of, read, write
from benchmarks.estimate.networks import NETWORKS


def main() -> None:
    """Build, count, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--also", type=Path, help="a folder with more ONNX files")
    parser.add_argument("--only", nargs="+", help="networks by name (default: all)")
    parser.add_argument("--chips", nargs="+", default=list(CHIPS))
    parser.add_argument("--fp16", action="store_true", help="not quantised; the networks are called NAME fp16 then")
    asked = parser.parse_args()
    target = HERE / "features.csv"
    found: dict[tuple[str, str], Features] = {}
    if target.exists():
        found = {(entry.network, entry.chip): entry for entry in read(target)}
    for name, source in _sources(asked.folder, asked.also, asked.only).items():
        paths = build(source, asked.python, asked.folder / "rknn", tuple(asked.chips), quantise=not asked.fp16)
        for chip, path in paths.items():
            title = f"{name} fp16" if asked.fp16 else name
            try:
                found[title, chip] = features_of(title, path)
            except ValueError as error:
                print(error)
        print(name, *paths)
        write(target, found.values())


def _sources(folder: Path, also: Path | None, only: list[str] | None) -> dict[str, Path]:
    """Name -> ONNX file; ours are written first."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = {}
    for name, make in NETWORKS.items():
        if only is None or name in only:
            sources[name] = folder / f"{name.replace(' ', '_')}.onnx"
            if not sources[name].exists():
                make().save(str(sources[name]))
    for path in sorted(also.glob("*.onnx")) if also else ():
        name = path.stem.replace("_", " ")
        if only is None or name in only:
            sources[name] = path
    return sources


if __name__ == "__main__":
    main()
