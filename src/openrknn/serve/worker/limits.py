"""What a worker may use. Everything here is best effort: what a system does not have is left out."""

from __future__ import annotations

import contextlib
import ctypes
import signal
from pathlib import Path

__all__ = ["bound_memory", "stand_back"]

_BYTES_PER_MODEL_BYTE = 8
"""Weights exist in the file, in the NPU's memory and packed for the native kernels, and some are widened there."""
_LEAST_BYTES = 128 * 1024 * 1024
"""Tensors, Python and threads of any model: a small budget for requests does not keep models from loading."""
_OOM_SCORE = "500"
_NO_NEW_PRIVILEGES = 38  # prctl(2), linux/prctl.h


def stand_back() -> None:
    """The server decides when a worker ends, no core file is written, and the kernel ends it before the server."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def bound_memory(more_bytes: int, model_bytes: int) -> int | None:
    """Let the process grow by `more_bytes` and eight times its model; the limit, or None where there is none.

    RLIMIT_DATA counts private writable memory (Linux 4.7 and later): Python gets MemoryError, C code gets NULL.
    """
    used = _data_bytes()
    if used is None:
        return None
    import resource

    limit = used + max(more_bytes, _LEAST_BYTES) + _BYTES_PER_MODEL_BYTE * model_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (OSError, ValueError):
        return None
    return limit


def _data_bytes() -> int | None:
    """VmData of this process."""
    try:
        lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("VmData:")]
    return 1024 * int(found[0]) if found else None
