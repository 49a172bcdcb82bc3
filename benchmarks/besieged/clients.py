"""Good clients, whose answers are compared byte for byte; probes; and the process that throws bombs."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np

from benchmarks.besieged.bombs import Target, arsenal
from benchmarks.besieged.server import EFFICIENT, ROOT, SMALL
from openrknn.serve.rpc.messages import health, inference

__all__ = ["CLIENTS", "Plan", "attack", "good", "probe"]

_PATIENCE = 60.0
_INFER = "/inference.GRPCInferenceService/ModelInfer"
_SHAPES = {EFFICIENT.stem: [1, 224, 224, 3], SMALL.stem: [1, 16, 16, 3]}


@dataclass(frozen=True)
class Plan:
    """How many bad clients at once, from how many addresses, for how long, how nice, with which bombs (none: all)."""

    count: int
    addresses: int
    seconds: float
    nice: int
    only: list[str]


def _pixels(model: str) -> bytes:
    shape = _SHAPES[model]
    return np.random.default_rng(1).integers(0, 256, shape, np.uint8).tobytes()


def rest_client(port: int, model: str, token: str | None) -> Callable[[], bytes]:
    """Tensors as bytes, over one connection that is kept; it is made again where the server closed it."""
    data = _pixels(model)
    entry = {
        "name": "image",
        "shape": _SHAPES[model],
        "datatype": "UINT8",
        "parameters": {"binary_data_size": len(data)},
    }
    text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    return _poster(port, f"/v2/models/{model}/infer", text + data, headers, token)


def picture_client(port: int, model: str, token: str | None) -> Callable[[], bytes]:
    """A photo."""
    ask = _poster(port, f"/v2/models/{model}/image", (ROOT / "examples/images/cat.jpg").read_bytes(), {}, token)
    return lambda: json.dumps(json.loads(ask())["found"]).encode()


def _poster(port: int, path: str, body: bytes, headers: dict[str, str], token: str | None) -> Callable[[], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    if token is not None:
        headers = {**headers, "Authorization": f"Bearer {token}"}

    def call() -> bytes:
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        if answer.status != 200:
            raise OSError(f"{answer.status} {content[:120]!r}")
        return content

    return call


def rpc_client(port: int, model: str, token: str | None) -> Callable[[], bytes]:
    """The same over gRPC."""
    request = inference().message("ModelInferRequest")(model_name=model, raw_input_contents=[_pixels(model)])
    request.inputs.add(name="image", datatype="UINT8", shape=_SHAPES[model])
    raw = request.SerializeToString()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
    ask = channel.unary_unary(_INFER)
    metadata = [("authorization", f"Bearer {token}")] if token is not None else None
    return lambda: ask(raw, timeout=_PATIENCE, metadata=metadata)


CLIENTS: dict[str, Callable[[int, int, str | None], Callable[[], bytes]]] = {
    "REST tensors, small": lambda rest, _, token: rest_client(rest, SMALL.stem, token),
    "REST picture": lambda rest, _, token: picture_client(rest, EFFICIENT.stem, token),
    "gRPC, small": lambda _, rpc, token: rpc_client(rpc, SMALL.stem, token),
    "gRPC": lambda _, rpc, token: rpc_client(rpc, EFFICIENT.stem, token),
}


def good(rest: int, rpc: int, token: str | None, until: float, found: Any) -> None:
    """A process: four clients, one request after the other each; `found` gets their times and problems."""

    def work(name: str) -> None:
        call = CLIENTS[name](rest, rpc, token)
        first: bytes | None = None
        times: list[float] = []
        seconds: list[float] = []
        problems: Counter[str] = Counter()
        wrong = 0
        while (started := time.time()) < until:
            try:
                answer = call()
            except (OSError, http.client.HTTPException, grpc.RpcError) as error:
                text = str(error.details() or error.code()) if isinstance(error, grpc.RpcError) else repr(error)
                problems[text[:100]] += 1
                time.sleep(0.05)
                continue
            if first is None:
                first = answer
            wrong += answer != first
            times.append(time.time())
            seconds.append(times[-1] - started)
        found.put((name, times, seconds, wrong, dict(problems)))

    threads = [threading.Thread(target=work, args=(name,)) for name in CLIENTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def probe(rest: int, rpc: int, until: float, found: Any) -> None:
    """A process: what a cluster does, more often. Each probe is a connection of its own."""
    check = health().message("HealthCheckRequest")().SerializeToString()

    def http_probe() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", rest, timeout=10.0)
        with contextlib.closing(connection):
            connection.request("GET", "/v2/health/ready")
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise OSError(str(answer.status))

    def rpc_probe() -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{rpc}", options=options) as channel:
            channel.unary_unary("/grpc.health.v1.Health/Check")(check, timeout=10.0)

    def work(name: str, ask: Callable[[], None]) -> None:
        seconds: list[float] = []
        problems: Counter[str] = Counter()
        while (started := time.time()) < until:
            try:
                ask()
            except (OSError, http.client.HTTPException, grpc.RpcError) as error:
                problems[repr(error)[:100]] += 1
            seconds.append(time.time() - started)
            time.sleep(0.2)
        found.put((name, seconds, dict(problems)))

    threads = [threading.Thread(target=work, args=one) for one in (("REST", http_probe), ("gRPC", rpc_probe))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def attack(ports: tuple[int, int], token: str | None, plan: Plan, signals: tuple[Any, Any], found: Any) -> None:
    """A process: it says when its bombs are made, and waits for the sign to throw them."""
    made = arsenal(EFFICIENT.stem, SMALL.stem)
    bombs = {name: one for name, one in made.items() if not plan.only or name in plan.only}
    names = list(bombs)
    outcomes: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()
    ready, go = signals
    os.nice(plan.nice)
    ready.set()
    go.wait()
    until = time.time() + plan.seconds

    def work(number: int) -> None:
        turn = number
        while (left := until - time.time()) > 0:
            name = names[turn % len(names)]
            turn += 1
            target = Target(*ports, f"127.0.1.{1 + number % plan.addresses}", token, max(0.5, min(15.0, left)))
            try:
                outcome = bombs[name](target)
            except TimeoutError:
                outcome = "slow"
            except OSError:
                outcome = "gone"
            with lock:
                outcomes[name, outcome] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(plan.count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = os.times()
    found.put((dict(outcomes), used.user + used.system))
