"""What shared memory saves: the same tensor of 600 KB sent to `openrknn serve`, and left in /dev/shm for it.

    python benchmarks/shared_memory.py               300 turns
    python benchmarks/shared_memory.py --rounds 50   a short look

Triton's own client, unmodified, over REST and gRPC. The server's model copies its input (`serve_identity`), so what is
measured is the way there and back. Four ways take turns, request by request, so that all of them see the same machine;
every answer is compared with what was sent, byte for byte, outside the time that is measured.

    sent        tensors travel in the request and in the answer
    input       the input lies in shared memory, the output travels
    both        both lie there; the client writes the input into its region and reads the output from there
    both, new   the same with the client's own copy into the region counted: a picture that is new each time

The ratio that counts is sent / both, new. Exit code 1 where it is below 1.5 for REST or for gRPC.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm

from benchmarks.serve import SHAPE, Array, identity
from openrknn.serve.memory import keep_freed_memory

LEAST_RATIO = 1.5
Call = Callable[[Array], Array]


class Ways:
    """The ways of one protocol."""

    def __init__(self, module: Any, address: str, what: str) -> None:
        self._module, self._client = module, module.InferenceServerClient(address)
        self._bytes = int(np.prod(SHAPE)) * 4
        self._handles = {}
        for end in ("in", "out"):
            name = f"openrknn-{what}-{end}-{os.getpid()}"
            self._handles[end] = shm.create_shared_memory_region(name, f"/{name}", self._bytes)
            self._client.register_system_shared_memory(name, f"/{name}", self._bytes)
        self._names = {end: handle._triton_shm_name for end, handle in self._handles.items()}

    def close(self) -> None:
        self._client.unregister_system_shared_memory()
        for handle in self._handles.values():
            shm.destroy_shared_memory_region(handle)
        self._client.close()

    def calls(self) -> dict[str, Call]:
        """Each takes an array and gives what came back."""
        tensor = self._module.InferInput("input", list(SHAPE), "FP32")
        shared = self._module.InferInput("input", list(SHAPE), "FP32")
        shared.set_shared_memory(self._names["in"], self._bytes)
        place = self._module.InferRequestedOutput("output")
        place.set_shared_memory(self._names["out"], self._bytes)

        def sent(array: Array) -> Array:
            tensor.set_data_from_numpy(array)
            found: Array = self._infer(tensor).as_numpy("output")
            return found

        def by_input(array: Array) -> Array:
            found: Array = self._infer(shared).as_numpy("output")
            return found

        def both(array: Array) -> Array:
            self._infer(shared, outputs=[place])
            found: Array = shm.get_contents_as_numpy(self._handles["out"], np.float32, SHAPE)
            return found

        def both_new(array: Array) -> Array:
            self.write(array)
            return both(array)

        return {"sent": sent, "input": by_input, "both": both, "both, new": both_new}

    def write(self, array: Array) -> None:
        """What a client does before it asks."""
        shm.set_shared_memory_region(self._handles["in"], [array])

    def _infer(self, tensor: Any, **options: Any) -> Any:
        return self._client.infer("identity", [tensor], **options)


def main() -> int:
    """All of it."""
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=SHAPE).astype(np.float32) for _ in range(8)]
    with contextlib.ExitStack() as stack:
        _, port, rpc = stack.enter_context(identity())
        calls: dict[tuple[str, str], tuple[Ways, Call]] = {}
        for what, module, address in (("REST", triton_http, port), ("gRPC", triton_grpc, rpc)):
            ways = Ways(module, f"127.0.0.1:{address}", what)
            stack.callback(ways.close)
            calls |= {(what, name): (ways, call) for name, call in ways.calls().items()}
        times: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
        for turn in range(rounds + 10):
            array = arrays[turn % len(arrays)]
            for key, (ways, call) in calls.items():
                if key[1] in {"input", "both"}:
                    ways.write(array)
                started = time.perf_counter()
                found = call(array)
                seconds = time.perf_counter() - started
                if turn >= 10:
                    times[key].append(1000 * seconds)
                assert found.tobytes() == array.tobytes(), key
    print(f"{arrays[0].nbytes} bytes in and out, {rounds} turns; milliseconds")
    kept = True
    for what in ("REST", "gRPC"):
        base = statistics.median(times[what, "sent"])
        for name in ("sent", "input", "both", "both, new"):
            values = times[what, name]
            p50, p95 = statistics.median(values), sorted(values)[int(0.95 * len(values))]
            print(f"  {what} {name:10s} p50 {p50:6.2f}   p95 {p95:6.2f}   {base / p50:5.2f} x")
        kept &= base / statistics.median(times[what, "both, new"]) >= LEAST_RATIO
    print(f"at least {LEAST_RATIO} x as fast: {'kept' if kept else 'NOT KEPT'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
