"""The process that runs the CPU parts of one model: within a limit of memory, and ended when it takes too long.

Its first connection opens parts and further connections; each of those has a thread that runs parts. When the first
one is closed the process ends, whatever a part is doing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

from openrknn.installed_onnxruntime import installed
from openrknn.runtime.parted.messages import ClosedError, receive, send

_QUIET = 4
_THREAD_BYTES, _FREE_BYTES = 9 << 20, 128 << 20
"""What each thread of ONNX Runtime, and the rest of it, takes beside a model."""
_WEIGHT_TIMES = 3
"""A weight is in the file, in the session, and packed for the kernels."""
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "allocate memory", "failed to allocate", "memory allocation")


def main(descriptor: int) -> None:
    """Answer until the session is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    parts: dict[int, Any] = {}
    try:
        while True:
            words, values = receive(control)
            if words["do"] == "limit":
                installed()  # before the limit: its own memory does not count

                _limit(words["memory"], words["files"])
                send(control, {})
            elif words["do"] == "connect":
                _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
                connection = socket.socket(fileno=descriptors[0])
                threading.Thread(target=_serve, args=(connection, parts), daemon=True).start()
            else:
                send(control, _opened(parts, words["part"], bytes(values[0])))
    except ClosedError:
        pass
    os._exit(0)  # a thread inside a part that does not end would keep the process


def _limit(memory: int | None, files: int) -> None:
    """RLIMIT_DATA counts private memory that can be written: allocations beyond it fail."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    if memory is None:
        return
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    used = next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:")), 0)
    limit = used + memory + _WEIGHT_TIMES * files + _FREE_BYTES + _THREAD_BYTES * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _opened(parts: dict[int, Any], number: int, data: bytes) -> dict[str, Any]:
    onnxruntime = installed()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        parts[number] = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  (it raises types of its own)
        return _failed(error)
    return {"floats": [entry.name for entry in parts[number].get_inputs() if entry.type == "tensor(float)"]}


def _serve(connection: socket.socket, parts: dict[int, Any]) -> None:
    with contextlib.suppress(ClosedError), connection:
        while True:
            words, values = receive(connection)
            try:
                found = parts[words["part"]].run(words["outputs"], dict(zip(words["inputs"], values, strict=True)))
            except Exception as error:  # noqa: BLE001  (it raises types of its own)
                send(connection, _failed(error))
            else:
                send(connection, {}, found)


def _failed(error: Exception) -> dict[str, Any]:
    text = str(error) or type(error).__name__
    is_memory = isinstance(error, MemoryError) or any(word in text.lower() for word in _OUT_OF_MEMORY)
    return {"error": text.splitlines()[0][:500], "is_memory": is_memory}
