"""How `openrknn serve` holds up: what it adds to a run, and what many clients at once do to it.

    python benchmarks/serve.py                          overhead, then 64 clients for 60 s, then too many
    python benchmarks/serve.py --seconds 5 --clients 8  a short look
    python benchmarks/serve.py --peer DIR/bin/python    MLServer beside it, in the same turns (see below)

Overhead: an identity model of 600 KB (float32 [1, 3, 224, 224] in and out) answers without an NPU's time, so that what
is left is the server's own. `Session.run` is replaced by a copy of the input, in this process and in the server alike.
REST binary, REST JSON, gRPC and the peer take turns, request by request: all of them see the same machine.

Peer: `python3 -m venv DIR && DIR/bin/pip install mlserver`, then --peer DIR/bin/python. MLServer serves the same
identity; its REST has no binary tensors, so it is measured over gRPC.

Load: every client has pictures and answers of its own; a wrong byte, a lost answer or a growing process is a failure.
Uses tritonclient (extra test). Exit code 1 when a limit of docs/serve.md is not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from openrknn.runtime.session import Session
from openrknn.serve.memory import keep_freed_memory
from openrknn.serve.rpc.messages import inference

Array = npt.NDArray[Any]
ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "tests/goldens/image_rk3588_i8.rknn"
SHAPE = (1, 3, 224, 224)
LIMITS_MS = {"REST binary": 3.0, "gRPC": 2.0}
REFUSAL_MS = 50.0
GROWTH_MIB = 32.0

# -- servers ---------------------------------------------------------------------------------------------------------

_IDENTITY = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from benchmarks.serve_identity import main; main()"

_PEER_MODEL = '''
from mlserver import MLModel
from mlserver.types import InferenceResponse, ResponseOutput

class Identity(MLModel):
    async def load(self): return True
    async def predict(self, payload):
        one = payload.inputs[0]
        output = ResponseOutput(name="output", shape=one.shape, datatype=one.datatype, data=one.data,
                                parameters=one.parameters)
        return InferenceResponse(model_name=self.name, outputs=[output])
'''


def free_port() -> int:
    """One that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def program(command: list[str], url: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A server of its own, ready."""
    with subprocess.Popen(command, **options) as process:
        try:
            client = triton_http.InferenceServerClient(url)
            for _ in range(1200):
                if process.poll() is not None:
                    raise SystemExit(f"{command[0]} ended with {process.returncode}")
                with contextlib.suppress(OSError, ConnectionError):
                    if client.is_server_ready():
                        break
                time.sleep(0.1)
            client.close()
            yield process
        finally:
            process.terminate()
            process.wait(60)


@contextlib.contextmanager
def peer(python: str, folder: Path) -> Iterator[str]:
    """MLServer with the identity; the address of its gRPC."""
    ports = [free_port() for _ in range(3)]
    settings = {"debug": False, "http_port": ports[0], "grpc_port": ports[1], "metrics_port": ports[2],
                "host": "127.0.0.1", "parallel_workers": 0, "use_structured_logging": False}  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "model-settings.json").write_text(json.dumps({"name": "identity", "implementation": "peer.Identity"}))
    (folder / "peer.py").write_text(_PEER_MODEL)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [str(Path(python).absolute().with_name("mlserver")), "start", str(folder)]
    with program(command, f"127.0.0.1:{ports[0]}", env=environment, cwd=folder, **quiet):
        yield f"127.0.0.1:{ports[1]}"


# -- overhead --------------------------------------------------------------------------------------------------------


def plain_rest(port: int, model: str, array: Array) -> Callable[[], Array]:
    """Python's own HTTP client: what is measured is the server, and as little as possible else."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    entry = {"name": "input", "shape": SHAPE, "datatype": "FP32", "parameters": {"binary_data_size": array.nbytes}}
    text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}

    def call() -> Array:
        connection.request("POST", f"/v2/models/{model}/infer", text + array.tobytes(), headers)
        answer = connection.getresponse()
        size = int(answer.headers["Inference-Header-Content-Length"])
        return np.frombuffer(answer.read(), np.float32, offset=size)

    return call


def plain_rpc(address: str, model: str, array: Array) -> Callable[[], Array]:
    """grpcio and the messages, without a client library around them."""
    request, answer = inference().message("ModelInferRequest"), inference().message("ModelInferResponse")
    channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
    stub = channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=request.SerializeToString,
        response_deserializer=answer.FromString,
    )

    def call() -> Array:
        made = request(model_name=model, raw_input_contents=[array.tobytes()])
        made.inputs.add(name="input", datatype="FP32", shape=SHAPE)
        return np.frombuffer(stub(made).raw_output_contents[0], np.float32)

    return call


def caller(module: Any, address: str, model: str, array: Array, **input_options: Any) -> Callable[[], Array]:
    """Triton's client, with what it costs itself."""
    client = module.InferenceServerClient(address)
    tensor = module.InferInput("input", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array, **input_options)
    options = {}
    if input_options.get("binary_data") is False:
        options["outputs"] = [module.InferRequestedOutput("output", binary_data=False)]

    def call() -> Array:
        found: Array = client.infer(model, [tensor], **options).as_numpy("output")
        return found

    return call


@contextlib.contextmanager
def identity() -> Iterator[tuple[Path, int, int]]:
    """A server whose model gives back what it gets: its folder, and the ports of REST and gRPC."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(PICTURE, folder / "identity.rknn")
        port, rpc = free_port(), free_port()
        command = [sys.executable, "-c", _IDENTITY, str(folder / "identity.rknn"), str(port), str(rpc)]
        with program(command, f"127.0.0.1:{port}"):
            yield folder, port, rpc


def overhead(rounds: int, peer_python: str | None) -> bool:
    """Median milliseconds over a direct run."""
    array = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    with contextlib.ExitStack() as stack:
        folder, port, rpc = stack.enter_context(identity())
        calls: dict[str, Callable[[], Any]] = {
            "direct": array.copy,
            "REST binary": plain_rest(port, "identity", array),
            "gRPC": plain_rpc(f"127.0.0.1:{rpc}", "identity", array),
            "  tritonclient.http": caller(triton_http, f"127.0.0.1:{port}", "identity", array),
            "  tritonclient.grpc": caller(triton_grpc, f"127.0.0.1:{rpc}", "identity", array),
            "  with JSON": caller(triton_http, f"127.0.0.1:{port}", "identity", array, binary_data=False),
        }
        if peer_python:
            (folder / "peer").mkdir()
            address = stack.enter_context(peer(peer_python, folder / "peer"))
            calls["MLServer gRPC"] = plain_rpc(address, "identity", array)
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(rounds + 5):
            for name, call in calls.items():
                if name in ("  with JSON", "MLServer gRPC") and turn % 5:
                    continue  # slow ones, and they slow the others down
                started = time.perf_counter()
                answer = call()
                seconds = time.perf_counter() - started
                if turn >= 5:
                    times[name].append(1000 * seconds)
                assert answer.tobytes() == array.tobytes(), name
    direct = statistics.median(times.pop("direct"))
    print(f"600 KB in and out, {rounds} turns; milliseconds over a direct run ({direct:.2f} ms)")
    kept = True
    for name, values in times.items():
        p50 = statistics.median(values) - direct
        p95 = sorted(values)[int(0.95 * len(values))] - direct
        limit = LIMITS_MS.get(name)
        verdict = "" if limit is None else f"   limit {limit:g} ms: {'kept' if p50 <= limit else 'NOT KEPT'}"
        kept &= limit is None or p50 <= limit
        print(f"  {name:20s} p50 {p50:7.2f}   p95 {p95:7.2f}{verdict}")
    return kept


# -- load ------------------------------------------------------------------------------------------------------------


def resident_mib(pid: int) -> float:
    """Memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


class Client(threading.Thread):
    """Sends requests in a loop, with images whose answers it knows."""

    def __init__(self, number: int, rest: str, rpc: str, known: list[tuple[Array, bytes]], stop: Event) -> None:
        super().__init__()
        self.known, self.stop = known, stop
        module = triton_grpc if number % 2 else triton_http
        self.module = module
        self.client = module.InferenceServerClient(rpc if number % 2 else rest)
        self.good = self.wrong = self.refused = 0
        self.lost: list[str] = []
        self.refusals_ms: list[float] = []

    def run(self) -> None:
        turn = 0
        while not self.stop.is_set():
            picture, wanted = self.known[turn % len(self.known)]
            turn += 1
            tensor = self.module.InferInput("image", list(picture.shape), "UINT8")
            tensor.set_data_from_numpy(picture)
            started = time.perf_counter()
            try:
                got = self.client.infer("image_rk3588_i8", [tensor]).as_numpy("features").tobytes()
            except (InferenceServerException, OSError) as error:
                if "requests waiting" in str(error):
                    self.refused += 1
                    self.refusals_ms.append(1000 * (time.perf_counter() - started))
                else:
                    self.lost.append(repr(error))
                continue
            self.good += got == wanted
            self.wrong += got != wanted
        self.client.close()


def load(clients: int, seconds: float, queue: int) -> bool:
    """Many clients; `queue` decides whether they find room."""
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 256, (1, 16, 16, 3), np.uint8) for _ in range(64)]
    with Session(PICTURE) as session:
        known = [(picture, session.run({"image": picture})["features"].tobytes()) for picture in pictures]
    port, rpc = free_port(), free_port()
    command = [sys.executable, "-m", "openrknn.cli", "serve", str(PICTURE), "--port", str(port)]
    command += ["--grpc-port", str(rpc), "--queue", str(queue), "--log-format", "json"]
    with tempfile.TemporaryFile() as log, program(command, f"127.0.0.1:{port}", stderr=log) as process:
        stop = Event()
        crowd = [
            Client(number, f"127.0.0.1:{port}", f"127.0.0.1:{rpc}", known[number % 64 :] + known[: number % 64], stop)
            for number in range(clients)
        ]
        for one in crowd:
            one.start()
        time.sleep(seconds / 3)
        early = resident_mib(process.pid)
        time.sleep(2 * seconds / 3)
        late = resident_mib(process.pid)
        stop.set()
        for one in crowd:
            one.join()
        log.seek(0)
        lines = [json.loads(line) for line in log]
    good, wrong = sum(one.good for one in crowd), sum(one.wrong for one in crowd)
    lost = [problem for one in crowd for problem in one.lost]
    refusals = sorted(value for one in crowd for value in one.refusals_ms)
    refused = {429, "RESOURCE_EXHAUSTED"}
    inside = sorted(line["ms"] for line in lines if refused & {line.get("status"), line.get("code")})
    print(
        f"{clients} clients for {seconds:g} s, queue of {queue}: {good} right ({good / seconds:.0f}/s), "
        f"{wrong} wrong, {len(lost)} lost, {len(refusals)} refused; memory {early:.0f} -> {late:.0f} MiB"
    )
    for problem in lost[:3]:
        print("  lost:", problem)
    if refusals:
        for who, values in (("server", inside), ("crowd in one Python process", refusals)):
            p50, p99 = statistics.median(values), values[int(0.99 * len(values))]
            print(f"  refusals as the {who} sees them: p50 {p50:.1f} ms, p99 {p99:.1f} ms (limit {REFUSAL_MS:g} ms)")
    quick = not inside or inside[int(0.99 * len(inside))] <= REFUSAL_MS
    return not wrong and not lost and bool(good) and late - early < GROWTH_MIB and quick


def main() -> int:
    """All of it."""
    keep_freed_memory()  # as the server does: what the clients' allocator costs is not what is measured
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--peer", metavar="PYTHON", help="of an environment that has mlserver")
    chosen = parser.parse_args()
    results = [
        overhead(chosen.rounds, chosen.peer),
        load(chosen.clients, chosen.seconds, queue=2 * chosen.clients),
        load(chosen.clients, min(chosen.seconds, 10.0), queue=4),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
