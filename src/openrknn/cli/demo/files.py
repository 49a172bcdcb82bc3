"""Where the example models and pictures are."""

from __future__ import annotations

import os
from pathlib import Path

from openrknn.cli.common.output import CommandError

__all__ = ["EXAMPLES", "find_examples"]

EXAMPLES = "OPENRKNN_EXAMPLES"
"""The environment variable that names the folder."""
_PROOF = os.path.join("models", "efficientnet_lite0_rk3588_i8.rknn")


def find_examples() -> Path:
    """The folder `examples`: as the environment says, beside the sources, or here."""
    named = os.environ.get(EXAMPLES)
    places = [Path(named)] if named else [Path(__file__).resolve().parents[3] / "examples", Path.cwd() / "examples"]
    for place in places:
        if (place / _PROOF).is_file():
            return place
    looked = ", ".join(map(str, places))
    raise CommandError(
        f"the example models are not in {looked}; run this in a clone of the repository, or set {EXAMPLES} to its "
        "folder examples"
    )
