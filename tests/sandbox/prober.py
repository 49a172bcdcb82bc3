"""A converter that tries what a hostile file would try, and reports what it could do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def convert(request: Mapping[str, Any]) -> bytes:
    do: Callable[[Any], bytes] = globals()[request["do"]]
    return do(request)


def answer(request: Mapping[str, Any]) -> bytes:
    return request["text"].encode()  # type: ignore[no-any-return]


def linked(secret: str) -> str:
    Path("link").symlink_to(secret)
    return Path("link").read_text()


def probe(request: Mapping[str, Any]) -> bytes:
    threads: list[int] = []
    tries: dict[str, Callable[[], Any]] = {
        "read": lambda: Path(request["secret"]).read_text(),
        "write": lambda: Path(request["secret"]).write_text("x"),
        "list": lambda: os.listdir(os.path.dirname(request["secret"])),
        "link": lambda: linked(request["secret"]),
        "chmod": lambda: os.chmod(request["secret"], 0o777),
        "socket": lambda: socket.socket(socket.AF_UNIX),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "fork": lambda: os._exit(0) if os.fork() == 0 else None,
        "kill": lambda: os.kill(os.getppid(), 0),
        "environment of the parent": lambda: Path(f"/proc/{os.getppid()}/environ").read_text(),
        "memory": lambda: len(bytearray(3 << 30)),
        "own file": lambda: Path("own").write_text("x"),
        "thread": lambda: threading.Thread(target=lambda: threads.append(1)).start(),
    }
    worked = []
    for name, attempt in tries.items():
        with contextlib.suppress(OSError, MemoryError):
            attempt()
            worked.append(name)
    return json.dumps({"worked": worked, "token": os.environ.get("OPENRKNN_TEST_TOKEN")}).encode()


def refuse(request: Mapping[str, Any]) -> bytes:
    from openrknn.compiler.errors import ModelError

    raise ModelError("is \x1b[31mnot\n good")


def fail(request: Mapping[str, Any]) -> bytes:
    raise KeyError("a library's exception")


def memory(request: Mapping[str, Any]) -> bytes:
    return bytes(3 << 30)


def kill(request: Mapping[str, Any]) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def crash(request: Mapping[str, Any]) -> bytes:
    import ctypes

    return ctypes.string_at(0)


def spin(request: Mapping[str, Any]) -> bytes:
    while True:
        pass


def leave(request: Mapping[str, Any]) -> bytes:
    os._exit(3)


def write(request: Mapping[str, Any]) -> bytes:
    return b"x" * (2 << 20)
