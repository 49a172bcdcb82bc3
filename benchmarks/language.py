"""Tokens a second of a compiled language model on the software NPU, beside llama.cpp on the same core, in one run.

    python benchmarks/language.py MODEL.rknnz [--peer FILE.gguf] [--rounds 8] [--prompt 128] [--json]

MODEL.rknnz is what `openrknn llm compile` or `openrknn llm quantise` made, FILE.gguf the same model in the same class
of precision (F16 beside fp16, Q8_0 beside W8A8). llama.cpp runs in a process of its own: that of the Python in
LLAMA_CPP_PYTHON, or of this one if `llama_cpp` can be imported. Without it, its columns are empty.

Both take turns, one thread each; times are of the processor, and the least of the rounds counts. Opening is measured in
processes of their own: with a cache that is empty, and with one that is filled; `memory` is what those processes had at
most (VmHWM), to be compared with the file, the keys and values, and 300 MB.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENRKNN_THREADS", "1")

TOKENS = 8
"""Of a round, one after the other."""
MB = 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description="Tokens a second on the software NPU, beside llama.cpp.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", type=Path, metavar="FILE.gguf")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=128, metavar="TOKENS")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", choices=("open", "peer"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.inside == "open":
        print(json.dumps(opened(given.model)))
        return 0
    if given.inside == "peer":
        serve(given.model, given.prompt)
        return 0
    found: dict[str, Any] = {"openrknn": {}, "llama.cpp": {}}
    found["opening"] = openings(given.model)
    peer = Peer(given.peer, given.prompt) if given.peer is not None and peer_python() else None
    ours = engine(given.model, given.prompt)
    for _ in range(given.rounds):
        for name, measure in (("openrknn", ours), ("llama.cpp", peer)):
            for kind in ("token", "prompt") if measure is not None else ():
                seconds = measure(kind) if measure is not None else 0.0
                found[name][kind] = min(found[name].get(kind, seconds), seconds)
    print(json.dumps(found, indent=1) if given.json else text(found, given.prompt))
    return 0


def text(found: dict[str, Any], prompt: int) -> str:
    """The table."""
    ours, other = found["openrknn"], found["llama.cpp"]
    lines = [f"{'one thread':24}{'openrknn':>12}{'llama.cpp':>12}{'ratio':>8}"]
    for kind, tokens, name in (("token", 1, "tokens/s"), ("prompt", prompt, f"tokens/s of {prompt}")):
        mine, theirs = tokens / ours[kind], tokens / other[kind] if other else None
        end = f"{theirs:12.1f}{mine / theirs:8.2f}" if theirs is not None else f"{'-':>12}"
        lines.append(f"{name:24}{mine:12.1f}{end}")
    for name, one in found["opening"].items():
        seconds = f"{one['processor']:10.2f} s to the first token (wall {one['wall']:.1f} s)"
        sizes = f"(file {one['file'] / MB:.0f}, keys and values {one['kv'] / MB:.0f})"
        lines.append(f"{name + ' cache':24}{seconds}, memory {one['memory'] / MB:.0f} MB {sizes}")
    return "\n".join(lines)


# -- openrknn ----------------------------------------------------------------------------------------------------


def engine(path: Path, prompt: int) -> Callable[[str], float]:
    """Seconds of a token, or of a prompt."""
    from openrknn.llm.npu import NpuEngine

    model = NpuEngine(path, "software")
    given = _some(model.config.vocabulary, prompt)
    cache = model.new_cache()
    model.forward(cache, given)  # so that all graphs are ready

    def measure(kind: str) -> float:
        nonlocal cache
        if kind == "prompt":
            cache.close()
            cache = model.new_cache()
            start = time.process_time()
            model.forward(cache, given)
            return time.process_time() - start
        cache.truncate(len(given))
        start = time.process_time()
        for token in given[:TOKENS]:
            model.forward(cache, [token])
        return (time.process_time() - start) / TOKENS

    return measure


def opened(path: Path) -> dict[str, float]:
    """From the import to the first token."""
    start = time.monotonic()
    from openrknn.llm.npu import NpuEngine

    model = NpuEngine(path, "software")
    model.forward(model.new_cache(), [1, 2])  # the first one of a quantised model is a constant
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    size = model.graphs[1].inputs["cache"].nbytes
    return {"processor": time.process_time(), "wall": time.monotonic() - start, "file": path.stat().st_size, "kv": size,
            "memory": 1024 * int(status["VmHWM"].split()[0])}  # fmt: skip


def openings(path: Path) -> dict[str, Any]:
    """With an empty cache, and with one that is filled."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, str(path), "--inside", "open"]
        environment = {**os.environ, "OPENRKNN_CACHE": folder}
        return {name: json.loads(subprocess.check_output(command, env=environment)) for name in ("empty", "filled")}


# -- llama.cpp ---------------------------------------------------------------------------------------------------


def peer_python() -> str:
    """The Python that has llama.cpp; empty: none."""
    return os.environ.get("LLAMA_CPP_PYTHON") or (sys.executable if importlib.util.find_spec("llama_cpp") else "")


class Peer:
    """llama.cpp in a process, which measures when it is asked to."""

    def __init__(self, model: Path, prompt: int) -> None:
        command = [peer_python(), __file__, str(model), "--prompt", str(prompt), "--inside", "peer"]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, kind: str) -> float:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(kind, file=self._child.stdin, flush=True)
        return float(self._child.stdout.readline())


def serve(model: Path, prompt: int) -> None:
    """Inside that process."""
    import llama_cpp

    peer = llama_cpp.Llama(str(model), n_ctx=prompt + 64, n_threads=1, n_threads_batch=1, verbose=False)
    given = _some(peer.n_vocab(), prompt)
    peer.eval(given)
    for line in sys.stdin:
        if line.strip() == "prompt":
            peer.reset()
            start = time.process_time()
            peer.eval(given)
            print(time.process_time() - start, flush=True)
            continue
        peer.n_tokens = prompt
        start = time.process_time()
        for token in given[:TOKENS]:
            peer.eval([token])
        print((time.process_time() - start) / TOKENS, flush=True)


def _some(vocabulary: int, count: int) -> list[int]:
    return [(7919 * number + 13) % vocabulary for number in range(count)]


if __name__ == "__main__":
    sys.exit(main())
