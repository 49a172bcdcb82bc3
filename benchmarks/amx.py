"""AMX beside VNNI on each dense layer of ResNet18, and the whole network beside ONNX Runtime int8, in one run.

    python benchmarks/amx.py [--threads 1] [--rounds 20] [--sets vnni,amx] [--page docs/benchmarks.md]

On a processor without AMX the times of AMX are missing and the model stands alone. The model counts cycles of one core:
a product of tiles takes 16, two VPDPBUSD are done in one, an atom of the DPU's chain takes 8, and 16 copied bytes one.
A model is not a measurement. The bar: all dense layers together at least twice as fast as with VNNI.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import sections
from inference import MODELS, NETS, PEERS, Engine, processor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openrknn.compute import native  # noqa: E402
from openrknn.compute.native import Kernels  # noqa: E402
from openrknn.npu.native import accelerate  # noqa: E402
from openrknn.npu.task import Convolution  # noqa: E402
from tests.npu.loaded import load  # noqa: E402

NET = "ResNet18 224"
BAR = 2.0
TILE_CYCLES, CHAIN_CYCLES, DOTS_PER_CYCLE = 16, 8, 2
MEASURED = """Written by `benchmarks/amx.py`. The dense layers of ResNet18, {threads}: milliseconds of the best of
{rounds} runs with each set of kernels, and what the model of `benchmarks/amx.py` expects of AMX over VNNI from the
number of instructions. {processor}, {day}."""
NOT_MEASURED = """This processor has no AMX: **its speed was not measured**, and the last column is a model. Emulated
processors (`tools/amx/witness`) tell about bits and nothing about time."""


class Layer(NamedTuple):
    """A convolution and its cycles by the model."""

    name: str
    macs: int
    vnni: float
    amx: float


def up(a: int, b: int) -> int:
    """Divided and rounded up."""
    return -(-a // b)


def modelled(step: Convolution, number: int) -> Layer:
    """native/tile_template.h and native/vnni.c in cycles of one core."""
    source, channels = step.source, step.dpu.channels
    height, width, kernel = source.out_height, source.out_width, source.kernel_height * source.kernel_width
    lanes = 4 if source.packed_channels else 16
    atoms_in, atoms_out = up(min(source.channels, source.weight_channels), lanes), up(channels, 16)
    if source.packed_channels:
        atoms_in = 1
    pixels, padded = height * width, width + source.kernel_width - 1
    chain = CHAIN_CYCLES * pixels * atoms_out
    copied = source.height * source.width * atoms_in
    vnni = pixels * atoms_out * kernel * atoms_in * (lanes // 4) / DOTS_PER_CYCLE
    tiles = height * up(width, 16)
    if source.stride_x == 1 and source.stride_y == 1:
        tiles = min(tiles, up((height - 1) * padded + width, 16))
    pieces = source.kernel_height * up(source.kernel_width * atoms_in * lanes, 64)
    reads = kernel == 1 and source.stride_x == 1
    name = (f"{number}: {source.kernel_height}x{source.kernel_width}, {source.channels} to {source.kernels}, "
            f"{height}x{width}")  # fmt: skip
    return Layer(name, pixels * source.kernels * kernel * source.channels, vnni + chain + (0 if reads else copied),
                 tiles * atoms_out * pieces * TILE_CYCLES + chain + copied)  # fmt: skip


def measured(path: Path, kernels: Kernels, rounds: int) -> dict[int, float]:
    """Milliseconds of each dense convolution, by its place in the program."""
    loaded = load(path)
    program = loaded.program()
    accelerate(program, loaded.memory, kernels=kernels)
    best: dict[int, float] = {}
    for _ in range(rounds):
        for number, step in enumerate(program.steps):
            run = step.native or step.execute
            start = time.perf_counter()
            run()
            passed = (time.perf_counter() - start) * 1e3
            if isinstance(step, Convolution) and not step.source.depthwise:
                best[number] = min(best.get(number, passed), passed)
    return best


def whole(arguments: argparse.Namespace, kernels: Sequence[Kernels]) -> dict[str, float | None]:
    """The whole network in milliseconds: ours with each set, and ONNX Runtime."""
    ours, quantised = (str(arguments.models / name) for name in NETS[NET])
    count, python = str(arguments.threads), arguments.onnxruntime or sys.executable
    working = [
        Engine(one.name.lower(), [sys.executable, str(PEERS / "session.py"), ours, count],
               {"OPENRKNN_KERNELS": one.name.lower()}) for one in kernels
    ]  # fmt: skip
    working.append(Engine("ONNX Runtime int8", [python, str(PEERS / "onnxruntime_int8.py"), quantised, count]))
    for engine in working:
        engine.start()
    for _ in range(arguments.rounds):
        for engine in working:
            engine.turn()
    for engine in working:
        engine.stop()
    return {engine.name: min(engine.passed) * 1e3 if engine.passed else None for engine in working}


def table(layers: dict[int, Layer], times: dict[str, dict[int, float]], nets: dict[str, float | None]) -> list[str]:
    """Lines of Markdown."""
    names = list(times)
    has_both = {"vnni", "amx"} <= times.keys()
    columns = ["layer", "products", *(f"{name}, ms" for name in names), *(["amx / vnni"] if has_both else []), "model"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for number, layer in layers.items():
        cells = [f"{times[name][number]:.3f}" for name in names]
        if has_both:
            cells.append(f"{times['vnni'][number] / times['amx'][number]:.2f} x")
        cells.append(f"{layer.vnni / layer.amx:.1f} x")
        lines.append(f"| {layer.name} | {layer.macs / 1e6:.0f} M | " + " | ".join(cells) + " |")
    cells = [f"{sum(times[name].values()):.2f}" for name in names]
    if has_both:
        ratio = sum(times["vnni"].values()) / sum(times["amx"].values())
        cells.append(f"**{ratio:.2f} x**" + ("" if ratio >= BAR else " *"))
    model = sum(layer.vnni for layer in layers.values()) / sum(layer.amx for layer in layers.values())
    products = sum(layer.macs for layer in layers.values()) / 1e6
    lines.append(f"| all dense layers | {products:.0f} M | " + " | ".join(cells) + f" | {model:.1f} x |")
    told = ", ".join(f"{name} {'missing' if time is None else f'{time:.2f} ms'}" for name, time in nets.items())
    return [*lines, "", f"The whole network: {told}."]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sets", help="sets of kernels (default: vnni and amx, or the fastest that is there)")
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="a Python with onnxruntime (default: this one)")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of the models (default: %(default)s)")
    parser.add_argument("--note", default="", help="what else to say about this run on the page")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the section of the documentation page")
    arguments = parser.parse_args()
    usable = native.available()
    if not usable:
        parser.error("the native library is not installed, or switched off")
    named = [Kernels[name.upper()] for name in arguments.sets.split(",")] if arguments.sets else []
    kernels = named or [one for one in usable if one in (Kernels.VNNI, Kernels.AMX)] or [usable[-1]]
    native.set_threads(arguments.threads)
    path = arguments.models / NETS[NET][0]
    layers = {
        number: modelled(step, number)
        for number, step in enumerate(load(path).program().steps)
        if isinstance(step, Convolution) and not step.source.depthwise
    }
    times = {one.name.lower(): measured(path, one, arguments.rounds) for one in kernels}
    nets = whole(arguments, kernels)
    threads = "1 thread" if arguments.threads == 1 else f"{arguments.threads} threads"
    about = MEASURED.format(threads=threads, rounds=arguments.rounds, processor=processor(), day=date.today())
    about = f"{about} {arguments.note}"
    lines = ["## AMX", "", *textwrap.wrap(about, 118), ""]
    if Kernels.AMX not in kernels:
        lines += [*textwrap.wrap(NOT_MEASURED, 118), ""]
    lines += table(layers, times, nets)
    if arguments.json:
        found: dict[str, Any] = {"layers": {number: layer._asdict() for number, layer in layers.items()}}
        print(json.dumps(found | {"milliseconds": times, "networks": nets}, indent=2))
    else:
        sys.stdout.write("\n".join(lines) + "\n")
    if arguments.page:
        sections.put(arguments.page, "amx", lines)


if __name__ == "__main__":
    main()
