"""Conversion by a framework, in a child process that can reach nothing but the model: the parent's side."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openrknn import sandbox
from openrknn.compiler.budget import memory_for, seconds_for
from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.external import refuse_external_data

_LOG = logging.getLogger(__name__)


def converted(
    worker: str, request: Mapping[str, Any], folder: Path, name: str, what: str,
    environment: Mapping[str, str] | None = None, *, required: frozenset[str] = frozenset(),
) -> Any:  # fmt: skip
    """The ONNX model that `convert(request)` of the module `worker` makes of the files in the private folder.

    `name` is the file, and `what` says in a sentence what cannot be done with it: "cannot be converted".
    `required` are guards of the sandbox without which nothing is read.
    """
    size = sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
    limits = sandbox.Limits(memory_for(size), seconds_for())
    try:
        made = sandbox.run(worker, request, folder, limits, environment, required=required)
    except sandbox.SandboxError as error:
        raise ModelError(f"{name} {what}: {error}") from None
    if missing := {sandbox.FILES, sandbox.NETWORK} - made.guards:
        _LOG.warning(
            "%s was converted without protection of %s: this kernel lacks Landlock or seccomp. Use a container for "
            "files that you do not trust (SECURITY.md)", name, " and ".join(sorted(missing)),
        )  # fmt: skip
    if made.refusal:
        raise ModelError(f"{name} {made.refusal}" if made.is_named else f"{name} {what}: {made.refusal}")
    return _model(made.data, name)


def _model(data: bytes, name: str) -> Any:
    from google.protobuf.message import DecodeError

    onnx = onnx_package()
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError):
        raise ModelError(f"{name}: its conversion gave something that is not ONNX") from None
    refuse_external_data(model, f"{name}: its conversion")
    return model
