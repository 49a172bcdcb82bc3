"""The example models, pictures, sounds and programs: beside the sources in a clone, inside the package in a wheel."""

from __future__ import annotations

import os
from pathlib import Path

from openrknn.cli.common.output import CommandError

__all__ = ["EXAMPLES", "example_files", "find_examples"]

EXAMPLES = "OPENRKNN_EXAMPLES"
"""The environment variable that names the folder."""
_PROOF = os.path.join("models", "efficientnet_lite0_rk3588_i8.rknn")


def find_examples() -> Path:
    """The folder `examples`: as the environment says, in the package, beside the sources, or here."""
    package = Path(__file__).resolve().parents[2]
    named = os.environ.get(EXAMPLES)
    places = [Path(named)] if named else [place / "examples" for place in (package, package.parents[1], Path.cwd())]
    for place in places:
        if (place / _PROOF).is_file():
            return place
    looked = ", ".join(map(str, places))
    raise CommandError(
        f"the example models are not in {looked}; they are in every wheel of openrknn and in its repository: "
        f"install one again, or set {EXAMPLES} to the folder examples of a clone"
    )


def example_files(folder: Path) -> list[Path]:
    """The files, relative to the folder, without what Python left there."""
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc"]
