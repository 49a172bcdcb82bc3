"""fp16 on the software NPU beside ONNX Runtime in float, one thread each, in one run.

    python benchmarks/half.py [--voice FOLDER] [--set SET] [--only resnet,bert,encoder,step] [--rounds 10] [--json]

ResNet18 (224 x 224) and a layer of BERT (128 tokens of 768) have random weights and are made here. Moonshine needs a
FOLDER with moonshine_tiny_encoder.onnx, moonshine_tiny_decoder_first.onnx, moonshine_tiny_decoder_step.onnx and
beckett.wav, and SET, a folder or a name of `openrknn voice get`; without a FOLDER it is left out.

Both engines take turns in one process. Times are of the processor, and the least of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENRKNN_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

import openrknn
from openrknn.compiler import compile_onnx

Array = npt.NDArray[Any]
FLOAT = onnx.TensorProto.FLOAT
NAMES = ("resnet", "bert", "encoder", "step")
SHORTEST, TOLERANCE = 0.05, 0.02
"""Seconds of a round, and of the largest output."""


class Net:
    """Grows a model node by node."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        """A tensor that is part of the model."""
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weights(self, *shape: int, fan: int) -> str:
        """Random numbers that keep the size of what they are multiplied with."""
        return self.constant(self.random.normal(0, fan**-0.5, shape))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node; its output has the node's name."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def model(self, shape: tuple[int, ...], output: str) -> bytes:
        """Of one input x."""
        graph = helper.make_graph(
            self.nodes, "net",
            [helper.make_tensor_value_info("x", FLOAT, list(shape))],
            [helper.make_tensor_value_info(output, FLOAT, None)],
            self.constants,
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


def resnet() -> tuple[bytes, tuple[int, ...]]:
    """ResNet18, its batch norms folded."""
    net = Net()

    def conv(source: str, inputs: int, outputs: int, kernel: int, stride: int) -> str:
        weight = net.weights(outputs, inputs, kernel, kernel, fan=inputs * kernel * kernel)
        bias = net.constant(net.random.normal(0, 0.1, outputs))
        sizes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "kernel_shape": [kernel] * 2}
        return net.add("Conv", source, weight, bias, **sizes)

    x = net.add("Relu", conv("x", 3, 64, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for outputs in (64, 128, 256, 512):
        for stride in (1 if outputs == inputs else 2, 1):
            way = x if stride == 1 else conv(x, inputs, outputs, 1, 2)
            x = conv(net.add("Relu", conv(x, inputs, outputs, 3, stride)), outputs, outputs, 3, 1)
            x, inputs = net.add("Relu", net.add("Add", x, way)), outputs
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    x = net.add("Gemm", x, net.weights(512, 1000, fan=512), net.weights(1000, fan=100))
    return net.model((1, 3, 224, 224), x), (1, 3, 224, 224)


def bert(tokens: int = 128, heads: int = 12, depth: int = 64) -> tuple[bytes, tuple[int, ...]]:
    """A layer: attend, add, normalise; two products with GELU between them, add, normalise."""
    net, width = Net(), heads * depth

    def linear(source: str, inputs: int, outputs: int) -> str:
        product = net.add("MatMul", source, net.weights(inputs, outputs, fan=inputs))
        return net.add("Add", product, net.weights(outputs, fan=100))

    def norm(source: str) -> str:
        gamma, beta = net.constant(net.random.normal(1, 0.1, width)), net.constant(net.random.normal(0, 0.1, width))
        return net.add("LayerNormalization", source, gamma, beta, axis=-1)

    def apart(order: list[int]) -> str:
        return net.add("Transpose", net.add("Reshape", linear("x", width, width), sizes), perm=order)

    sizes = net.constant([1, tokens, heads, depth], np.int64)
    scores = net.add("MatMul", apart([0, 2, 1, 3]), apart([0, 2, 3, 1]))
    weights = net.add("Softmax", net.add("Mul", scores, net.constant(depth**-0.5)), axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", weights, apart([0, 2, 1, 3])), perm=[0, 2, 1, 3])
    joined = net.add("Reshape", mixed, net.constant([1, tokens, width], np.int64))
    middle = norm(net.add("Add", "x", linear(joined, width, width)))
    wide = linear(middle, width, 4 * width)
    error = net.add("Erf", net.add("Div", wide, net.constant(2**0.5)))
    gelu = net.add("Mul", net.add("Mul", wide, net.add("Add", error, net.constant(1.0))), net.constant(0.5))
    out = norm(net.add("Add", middle, linear(gelu, 4 * width, width)))
    return net.model((1, tokens, width), out), (1, tokens, width)


@dataclass
class Pair:
    """One workload on both engines; `each` says how many times a call does it."""

    title: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    each: int = 1
    our_best: float = float("inf")
    their_best: float = float("inf")

    def turn(self) -> None:
        """One round."""
        self.our_best = min(self.our_best, busy(self.ours) / self.each)
        self.their_best = min(self.their_best, busy(self.theirs) / self.each)


def busy(function: Callable[[], Any]) -> float:
    """Seconds of the processor; short calls are repeated."""
    start, count = time.process_time(), 0
    while True:
        function()
        count += 1
        passed = time.process_time() - start
        if passed > SHORTEST:
            return passed / count


def peer(model: bytes | str) -> Any:
    """ONNX Runtime with one thread."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def network(title: str, made: tuple[bytes, tuple[int, ...]]) -> Pair:
    """A network of one input."""
    model, shape = made
    x = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    session = openrknn.Session(compile_onnx(model, check=False), device="software")
    reference = peer(model)
    name = next(iter(session.run({"x": x})))
    mine, other = session.run({"x": x})[name], reference.run(None, {"x": x})[0]
    error = float(np.abs(mine - other).max() / np.abs(other).max())
    if error > TOLERANCE:
        raise SystemExit(f"{title}: the two engines differ by {error:.3f} of the largest output")
    return Pair(title, lambda: session.run({"x": x}), lambda: reference.run(None, {"x": x}))


def voices(folder: Path, name: str, only: list[str]) -> Iterator[Pair]:
    """Moonshine's encoder, and a step of its decoder (the mean of a whole text)."""
    from voice_speed import END, Reference

    from openrknn.voice.audio import read_audio
    from openrknn.voice.moonshine import Moonshine
    from openrknn.voice.sets import open_set

    audio = read_audio(folder / "beckett.wav")
    samples = np.ascontiguousarray(audio.samples, np.float32)
    reference, ours = Reference(folder), Moonshine(open_set(name), device="software")
    heard = ours.hear(samples)
    states = reference.encode(samples)
    tokens = reference.decode(states, len(samples), 200)
    if [token for token in tokens if token != END] != [token for token in heard.tokens if token != END]:
        print(f"other words than float: {heard.text!r}", file=sys.stderr)
    if "encoder" in only:
        yield Pair(
            "Moonshine tiny, encoder, 10 s", lambda: ours.encode(samples), lambda: reference.encode(samples),
        )  # fmt: skip
    decoder = ours._decoder

    def steps() -> None:
        decoder.begin(1)
        for token in [1, *tokens[:-1]]:
            decoder.step([token])

    if "step" in only:
        yield Pair(
            "Moonshine tiny, step of the decoder", steps, lambda: reference.decode(states, len(samples), 200),
            each=len(tokens),
        )  # fmt: skip


def main() -> int:
    """Print a row for each workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", type=Path)
    parser.add_argument("--set", default="moonshine-tiny")
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    pairs = []
    if "resnet" in only:
        pairs.append(network("ResNet18, fp16", resnet()))
    if "bert" in only:
        pairs.append(network("a layer of BERT, 128 x 768", bert()))
    if arguments.voice is not None:
        pairs.extend(voices(arguments.voice, arguments.set, only))
    for _ in range(arguments.rounds):
        for pair in pairs:
            pair.turn()
    rows = [(pair.title, pair.our_best * 1e3, pair.their_best * 1e3) for pair in pairs]
    if arguments.json:
        print(json.dumps({"machine": platform.machine(), "rows": rows}))
        return 0
    print(f"| {platform.machine()} | openrknn | ONNX Runtime | ratio |\n|---|---|---|---|")
    for title, mine, other in rows:
        print(f"| {title} | {mine:.1f} ms | {other:.1f} ms | {mine / other:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
