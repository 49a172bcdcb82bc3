"""Optional packages: the command that installs what is missing.

pip is called through the running interpreter. The pip on the PATH may belong to another environment.
"""

from __future__ import annotations

import shlex
import sys

_PACKAGES = {"google": "protobuf", "google.protobuf": "protobuf", "grpc": "grpcio"}
"""Module -> the package that brings it, where the names differ."""


SOURCE = "git+https://github.com/openrknn/openrknn"
"""Where pip gets the package itself; there is no release on PyPI."""


def how_to_install(extra: str) -> str:
    """ "install it with `/usr/bin/python3 -m pip install 'openrknn[serve]'`".

    openrknn is installed, from wherever, so that pip fetches the packages of the extra only.
    """
    return f"install it with `{shlex.quote(sys.executable or 'python3')} -m pip install 'openrknn[{extra}]'`"


def missing(error: ImportError, extra: str) -> str:
    """What could not be imported, and how to get it; other import errors in their own words."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return f"{error}; {how_to_install(extra)}"
    return f"{_PACKAGES.get(error.name, error.name)} is not installed; {how_to_install(extra)}"
