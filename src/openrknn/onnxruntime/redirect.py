"""`import onnxruntime` gives `openrknn.onnxruntime`, for programs and packages that are not edited."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import openrknn.onnxruntime
from openrknn.installed_onnxruntime import NAME
from openrknn.onnxruntime.options import PROVIDERS_VARIABLE
from openrknn.onnxruntime.real import RKNN

__all__ = ["redirect"]


def redirect(*, children: bool = False) -> None:
    """From now on, in this process; `children`: also in Python programs that it starts.

    Our provider goes in front of those that sessions ask for, unless OPENRKNN_PROVIDERS says otherwise.
    """
    sys.modules[NAME] = openrknn.onnxruntime
    os.environ.setdefault(PROVIDERS_VARIABLE, RKNN)
    if children:
        folders = [str(Path(__file__).parent / "children"), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)
