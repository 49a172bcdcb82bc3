"""All bombs at once; the long version is benchmarks/siege.py."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image

from tests.serve.asking import PATIENCE, ask, infer
from tests.serve.bombs import INPUTS, MIB, NAME, PATH, flood
from tests.serve.parts import FILES, ROOT


def peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_a_siege() -> None:
    """Every bomb there is for a few seconds: health answers, and the server's memory stays within its budget."""
    budget, seconds = 96, 4.0
    model = ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn"
    command = [
        sys.executable, "-m", "openrknn.cli", "serve", str(model), str(FILES["picture"]), "--port", "0",
        "--grpc-port", "0", "--log-format", "json", "--max-memory", str(budget), "--max-body", "24", "--instances", "1",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            server, address = _Address(), ""
            for line in process.stderr:
                words = json.loads(line)["message"].split()
                if words[:2] == ["listening", "on"]:
                    server.url, address = words[2], words[-1]
                if words == ["ready"]:
                    break
            lines: list[str] = []
            reading = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
            reading.start()
            before = peak_mib(process.pid)
            bombs = _attacks(server, model.stem, address)
            until_when = time.monotonic() + seconds
            slowest = [0.0]

            def again(attack: Any, least: int = 2) -> int:
                """For some seconds, and on a slow machine until it was done a few times."""
                count = 0
                while time.monotonic() < until_when or count < least:
                    attack()
                    count += 1
                return count

            def health() -> None:
                started = time.monotonic()
                assert ask(server, "GET", "/v2/health/live").status == 200  # type: ignore[arg-type]
                slowest[0] = max(slowest[0], time.monotonic() - started)
                time.sleep(0.02)

            with ThreadPoolExecutor(32) as threads:
                probes = threads.submit(again, health, 6)
                attacks = [threads.submit(again, attack) for attack in bombs * 3]
                assert probes.result() > 5
                assert sum(one.result() for one in attacks) > 20
            assert peak_mib(process.pid) - before < budget + 48
            assert infer(server, NAME, INPUTS).status == 200  # type: ignore[arg-type]
            assert slowest[0] < PATIENCE
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            reading.join(PATIENCE)
            assert not [line for line in lines if "Traceback" in line]
        finally:
            process.kill()


class _Address:
    url = ""


def _attacks(server: Any, model: str, address: str) -> list[Any]:
    def encoded(form: str, width: int, height: int) -> bytes:
        stream = io.BytesIO()
        Image.new("RGB" if form == "WEBP" else "1", (width, height)).save(stream, form)
        return stream.getvalue()

    png, webp = encoded("PNG", 8000, 7999), encoded("WEBP", 4000, 4000)
    fitting = encoded("WEBP", 1700, 1700)
    texts = json.dumps({"inputs": [{"name": "image", "shape": [1], "datatype": "FP32",
                                    "data": ["x" * 60_000, *["a"] * 50_000]}]})  # fmt: skip
    lists = '{"inputs": [' + ",".join(["[]"] * 60_000) + "]}"
    zipped = gzip.compress(bytes(64 * MIB))
    host = urlsplit(server.url)

    def post(path: str, body: bytes | str, headers: dict[str, str] | None = None) -> None:
        with contextlib.suppress(OSError):  # sent away in the middle of its body
            assert ask(server, "POST", path, body, headers).status in {200, 400, 413, 429}

    def header() -> None:
        with socket.create_connection((host.hostname or "", host.port or 0), PATIENCE) as connection:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * MIB)
                connection.recv(100)
            except OSError:
                pass

    return [
        lambda: post(f"/v2/models/{model}/image", png),
        lambda: post(f"/v2/models/{model}/image", webp),
        lambda: post(f"/v2/models/{model}/image", fitting),
        lambda: post(PATH, texts),
        lambda: post(PATH, lists),
        lambda: post(f"/v2/models/{model}/image", zipped, {"Content-Encoding": "gzip"}),
        header,
        lambda: flood(address, 2, 20 * MIB),
    ]
