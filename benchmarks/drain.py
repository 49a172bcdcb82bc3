"""64 clients while the server is stopped, a worker is killed, or a model is replaced: is anything lost or wrong?

    python benchmarks/drain.py                      all three, 64 clients each, inside 1 GiB
    python benchmarks/drain.py sigterm --clients 8  one of them: sigterm, kill, replace
    python benchmarks/drain.py --json drain.json

Half of the clients speak REST on one connection that is kept, half gRPC; every answer is compared byte for byte with
what `Session.run` gives. A request is lost when it was sent on a connection that the server had accepted and no answer
came; a reset (ECONNRESET, EPIPE) is counted apart. sigterm: every REST connection has to end with `Connection: close`.
kill: SIGKILL to the worker; its requests get 500 or INTERNAL with a reason, everything else goes on, and the model is
back. replace: the file of the model is replaced by another one (`--poll`), and each answer is the old model's or the
new one's, never anything else. Exit code 1: something was lost, reset or wrong.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.besieged.cage import Cage
from benchmarks.besieged.server import ROOT, SMALL, Served
from openrknn.runtime.session import Session
from openrknn.serve.rpc.messages import inference

OTHER = ROOT / "tests/goldens/image_rk3588_fp.rknn"
SHAPE = [1, 16, 16, 3]
MODEL = "model"
_PATIENCE = 60.0


class Tally:
    """What became of all requests."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.lock = threading.Lock()

    def add(self, what: str, note: str = "") -> None:
        """One request."""
        with self.lock:
            self.counts[what] += 1
            if note:
                self.notes[note[:160]] += 1


class Client:
    """One client with a picture of its own, and the answers that are right."""

    def __init__(self, number: int, expected: list[Callable[[Any], bytes]]) -> None:
        self.pixels = np.random.default_rng(number).integers(0, 256, SHAPE, np.uint8)
        self.right = {answer(self.pixels) for answer in expected}

    def rest(self, port: int, tally: Tally, stop: threading.Event) -> None:
        """Until `stop`, or until the server says that the connection ends."""
        data = self.pixels.tobytes()
        entry = {"name": "image", "shape": SHAPE, "datatype": "UINT8", "parameters": {"binary_data_size": len(data)}}
        text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text))}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        while not stop.is_set():
            try:
                connection.request("POST", f"/v2/models/{MODEL}/infer", text + data, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (ConnectionResetError, BrokenPipeError) as error:
                tally.add("reset", repr(error))
                return
            except ConnectionRefusedError:
                tally.add("refused")  # never accepted: nothing is lost
                return
            except (OSError, http.client.HTTPException) as error:
                tally.add("lost", repr(error))
                return
            if answer.status != 200:
                tally.add(str(answer.status), content.decode("utf-8", "replace"))
            else:
                size = int(answer.headers["Inference-Header-Content-Length"])
                tally.add("right" if content[size:] in self.right else "wrong")
            if (answer.getheader("connection") or "").lower() == "close":
                tally.add("closed by word")
                connection.close()
                if answer.status == 200:
                    return

    def rpc(self, port: int, tally: Tally, stop: threading.Event) -> None:
        """The same over gRPC, on a connection of its own."""
        request = inference().message("ModelInferRequest")(model_name=MODEL, raw_input_contents=[self.pixels.tobytes()])
        request.inputs.add(name="image", datatype="UINT8", shape=SHAPE)
        raw, answer = request.SerializeToString(), inference().message("ModelInferResponse")
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            ask = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            while not stop.is_set():
                try:
                    content = b"".join(answer.FromString(ask(raw, timeout=_PATIENCE)).raw_output_contents)
                except grpc.RpcError as error:
                    code, details = error.code(), error.details() or ""
                    if code is grpc.StatusCode.UNAVAILABLE and ("refused" in details or "GOAWAY" in details.upper()):
                        tally.add("refused", details)
                        return
                    what = code.name if code is grpc.StatusCode.INTERNAL else "reset" if "reset" in details else "lost"
                    if code is grpc.StatusCode.UNAVAILABLE and "not ready" in details:
                        what = "503"
                    tally.add(what, f"{code.name} {details}")
                    if what in {"lost", "reset"}:
                        return
                else:
                    tally.add("right" if content in self.right else "wrong")


def expected_of(file: Path) -> Callable[[Any], bytes]:
    """What a model gives, as bytes."""
    session = Session(file)
    return lambda pixels: b"".join(
        np.ascontiguousarray(one).tobytes() for one in session.run({"image": pixels}).values()
    )


def sigterm(server: Served, _: Path, __: Cage) -> None:
    """Stop while everybody asks."""
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)


def kill(server: Served, _: Path, cage: Cage) -> None:
    """Three times the worker."""
    for _round in range(3):
        for pid in cage.pids() - {server.process.pid}:
            os.kill(pid, signal.SIGKILL)
        time.sleep(2.0)


def replace(_: Served, folder: Path, __: Cage) -> None:
    """There and back, whole files by renaming."""
    for file in (OTHER, SMALL, OTHER):
        shutil.copy(file, folder / f".{MODEL}.rknn")
        (folder / f".{MODEL}.rknn").rename(folder / f"{MODEL}.rknn")
        time.sleep(3.0)


FAULTS = {"sigterm": sigterm, "kill": kill, "replace": replace}


def drill(name: str, count: int, seconds: float, mebibytes: int) -> dict[str, Any]:
    """One fault under load."""
    expected = [expected_of(SMALL), *([expected_of(OTHER)] if name == "replace" else [])]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(SMALL, Path(folder) / f"{MODEL}.rknn")
        cage = Cage(mebibytes)
        server = Served(cage.start, [Path(folder)], "--poll=0.5")
        tally, stop = Tally(), threading.Event()
        clients = [Client(number, expected) for number in range(count)]
        threads = [
            threading.Thread(target=one.rest, args=(server.http, tally, stop))
            if number % 2
            else threading.Thread(target=one.rpc, args=(server.grpc, tally, stop))
            for number, one in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        FAULTS[name](server, Path(folder), cage)
        if name != "sigterm":
            time.sleep(1.0)
        stop.set()
        for thread in threads:
            thread.join(_PATIENCE)
        code = server.stop() if server.process.poll() is None else server.process.returncode
        cage.close()
    counts = tally.counts
    found: dict[str, Any] = {
        "fault": name, "clients": count, "memory": cage.kind, "exit_code": code, "counts": dict(counts),
        "notes": dict(tally.notes.most_common(8)), "load_average": round(os.getloadavg()[0], 2),
        "broken": [key for key in ("wrong", "lost", "reset") if counts[key]] + ([f"exit code {code}"] if code else []),
    }  # fmt: skip
    if name == "kill" and not counts["500"] + counts["INTERNAL"]:
        found["notes"]["no request was in the worker when it was killed"] = 1
    return found


def main() -> int:
    """All drills and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="sigterm, kill, replace (default: all)")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0, help="of load before the fault (default: 4)")
    parser.add_argument("--memory", type=int, default=1024, help="MiB of the cage (default: 1024)")
    parser.add_argument("--json", metavar="FILE", help="write everything that was counted")
    arguments = parser.parse_args()
    names = arguments.faults or list(FAULTS)
    if not set(names) <= set(FAULTS):
        parser.error(f"there are {', '.join(FAULTS)}")
    found = [drill(name, arguments.clients, arguments.seconds, arguments.memory) for name in names]
    for one in found:
        print(f"{one['fault']:8} {one['clients']} clients, {one['memory']}, load average {one['load_average']}: "
              f"{one['counts']}")  # fmt: skip
        for note, count in one["notes"].items():
            print(f"         {count} x {note}")
        print(f"         {'BROKEN: ' + ', '.join(one['broken']) if one['broken'] else 'nothing lost, reset or wrong'}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 1 if any(one["broken"] for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
