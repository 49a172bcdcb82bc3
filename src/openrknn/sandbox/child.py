"""The child of `openrknn.sandbox`: confines itself, then imports the converter and calls it."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from openrknn.errors import RknnError
from openrknn.sandbox.confine import confine

__all__ = ["UnprotectedError", "main", "serve"]

_PARENT_DEATH = 1  # prctl(2), linux/prctl.h


class UnprotectedError(RknnError):
    """A guard that the worker needs is missing on this kernel."""


def main() -> None:
    """The order comes on standard input as JSON, the answer goes to the descriptor that the command line names."""
    order = json.load(sys.stdin)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
    if os.getppid() != order["parent"]:
        return  # the parent ended before the line above
    serve(order, int(sys.argv[1]))


def serve(order: Mapping[str, Any], descriptor: int) -> None:
    """Confine this process for the rest of its life, convert, and write the answer."""
    guards = confine(order["folder"], order["memory"], order["seconds"], order["file_bytes"])
    data, refusal, named = b"", "", True
    try:
        if lacking := set(order.get("required", ())) - guards:
            words = " and ".join(sorted(lacking))
            raise UnprotectedError(
                f"can run any code when it is loaded, and this kernel cannot protect {words} from it (Landlock, "
                "seccomp). Set OPENRKNN_TRUST_CHECKPOINTS=1 if you trust the file"
            )
        data = importlib.import_module(order["worker"]).convert(order["request"])
    except RknnError as error:
        refusal = str(error) or "no message"
    except MemoryError:
        refusal = (
            f"it needs more than {order['memory'] / 2**30:.1f} GB of memory; allow more with OPENRKNN_IMPORT_MEMORY "
            "(such as 8G) if you trust the file"
        )
    except Exception as error:  # noqa: BLE001  (the border of the process: the parent reports it)
        lines = [line for line in str(error).splitlines() if line.strip()]
        refusal, named = f"{type(error).__name__}: {lines[0] if lines else 'no message'}", False
    head = json.dumps({"guards": sorted(guards), "refusal": refusal[:4000], "named": named, "size": len(data)})
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(head.encode() + b"\n")
        file.write(data)
