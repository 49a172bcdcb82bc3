"""What `openrknn --version --verbose` prints: the facts that a bug report needs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from openrknn import __version__
from openrknn.errors import RknnError

__all__ = ["version_lines"]

_PACKAGES = (
    "numpy", "onnx", "onnxruntime", "Pillow", "opencv-python-headless", "opencv-python", "torch", "tensorflow", "gguf",
    "tokenizers", "starlette", "grpcio", "ray", "openrknn-lite", "openrknn-toolkit", "rknn-toolkit2",
    "rknn-toolkit-lite2",
)  # fmt: skip


def version_lines() -> Iterator[str]:
    """One fact in a line; what is not installed is left out."""
    yield f"openrknn   {__version__} in {os.path.dirname(os.path.dirname(os.path.dirname(__file__)))}"
    yield f"python     {platform.python_version()} {platform.python_implementation()}, {sys.executable}"
    yield f"machine    {platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} processors"
    yield f"kernels    {_kernels()}"
    for npu in _npus():
        yield f"npu        {npu}"
    installed = [f"{name} {version}" for name in _PACKAGES if (version := _version(name))]
    yield f"packages   {', '.join(installed)}"
    set_here = sorted(name for name in os.environ if name.startswith("OPENRKNN_"))
    yield f"variables  {', '.join(f'{name}={_shown(name)}' for name in set_here) or 'none of OPENRKNN_* are set'}"


def _kernels() -> str:
    from openrknn.compute import native

    try:
        kernels = native.choose() if native.load() is not None else None
    except RknnError as error:
        return f"none: {error}"
    return "NumPy" if kernels is None else f"native, {kernels.name}"


def _npus() -> Iterator[str]:
    from openrknn import monitor

    found = [npu for npu in monitor.read().npus if npu.driver != "software"]
    for npu in found:
        yield f"{npu.driver} {npu.version or ''}".rstrip()
    if not found:
        yield "none; models run on the software NPU"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _shown(name: str) -> str:
    """Tokens and keys do not belong into a bug report."""
    return "(hidden)" if any(word in name for word in ("TOKEN", "KEY", "SECRET", "PASSWORD")) else os.environ[name]
