"""Runs every model of a folder on the software NPU and compares it with the answer of the vendor's simulator.

    .venv/bin/python tools/measure_fidelity.py ../shared/corpus/rk3588

Beside each NAME.rknn there must be a NAME.npz with the inputs x0, x1 ... (or x) and the answers o0, o1 ... (or o).
Prints the tables of docs/fidelity.md: int8 as shares of equal numbers and of numbers at most one step apart; fp16 as
the share of numbers within 2 units in the last place, 1 % of the value, or 2 units of the largest value. With
--networks: how a difference grows through whole networks, from their ONNX sources beside them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import openrknn
from openrknn.analysis.accuracy.feeds import feeds_for
from openrknn.analysis.accuracy.measure import Bench, Layer
from openrknn.analysis.accuracy.reference import Reference
from openrknn.analysis.accuracy.weights import read_weights
from openrknn.distance import in_steps, measure
from openrknn.runtime.inspector import Inspector

Array = npt.NDArray[Any]


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="*", metavar="NAME", help="whole networks, layer by layer")
    arguments = parser.parse_args()
    if arguments.networks is None:
        cases(sorted(arguments.folder.glob("*.rknn")))
    else:
        networks([arguments.folder / f"{name}.rknn" for name in arguments.networks])
    return 0


def arrays(path: Path, letter: str, count: int) -> list[Array]:
    """x0, x1 ... or x; o0, o1 ... or o."""
    archive = np.load(path.with_suffix(".npz"))
    return [archive[f"{letter}{number}" if f"{letter}{number}" in archive else letter] for number in range(count)]


def cases(paths: list[Path]) -> None:
    """One row per output."""
    print("| case | elements | equal % | ±1 or close % | largest | cosine |\n|---|---:|---:|---:|---:|---:|")
    for path in paths:
        model = openrknn.load(path)
        with openrknn.Session(model) as session:
            found = session.run(arrays(path, "x", len(model.inputs)), outputs="raw")
        for spec, answer in zip(model.outputs, arrays(path, "o", len(model.outputs)), strict=True):
            stored = found[spec.name]
            print(f"| {path.stem} | {row(stored, answer, spec)} | {cosine(stored, answer, spec):.6f} |")


def row(stored: Array, answer: Array, spec: openrknn.TensorSpec) -> str:
    """Quantised outputs in steps, others relative to the largest value. The last size mod 4 do not count."""
    kept = answer.size // 4 * 4 or answer.size
    ours, theirs = stored.reshape(-1)[:kept], answer.reshape(-1)[:kept]
    if spec.quantization is not None:
        steps = in_steps(ours, theirs, spec.quantization.scale[0], spec.quantization.zero_point[0])
        most = np.abs(steps.differences).max()
        return f"{kept} | {100 * steps.equal:.2f} | {100 * steps.within_one:.2f} | {most} steps"
    most = np.abs(theirs).max()
    error = np.abs(ours.astype(np.float64) - theirs)
    unit = np.spacing(np.abs(theirs).astype(np.float16)).astype(np.float64)
    largest_unit = float(np.spacing(most.astype(np.float16)))
    close = (error <= 2 * unit) | (error <= 0.01 * np.abs(theirs)) | (error <= 2 * largest_unit)
    equal = ours == theirs.astype(ours.dtype)
    return f"{kept} | {100 * equal.mean():.2f} | {100 * close.mean():.2f} | {error.max() / most:.1e} of the range"


def cosine(stored: Array, answer: Array, spec: openrknn.TensorSpec) -> float:
    """Of the real numbers, without the last size mod 4."""
    kept = answer.size // 4 * 4 or answer.size
    left, right = stored.reshape(-1)[:kept].astype(np.float64), answer.reshape(-1)[:kept].astype(np.float64)
    if spec.quantization is not None:
        left = (left - spec.quantization.zero_point[0]) * spec.quantization.scale[0]
    return measure(left, right).cosine or 0.0


def networks(paths: list[Path]) -> None:
    """Each operator alone, and the whole network, against the quantised reference."""
    from onnx import numpy_helper

    for path in paths:
        model = openrknn.load(path)
        reference = Reference.load(str(path.with_name(f"{path.stem.split('_rk')[0]}.onnx")))
        constants = {name: numpy_helper.to_array(item) for name, item in reference.constants.items()}
        given = dict(zip((spec.name for spec in model.inputs), arrays(path, "x", len(model.inputs)), strict=True))
        feeds = feeds_for(model, reference, given, None)
        with Inspector(model) as inspector:
            bench = Bench(inspector, reference, read_weights(model, constants), feeds)
            alone = {layer.tensor: layer for layer in bench.isolated(quantized=True)}
            free = bench.free(given, None, quantized=True)
            unequal = 1 - float(np.mean([layer.metrics.equal for layer in alone.values() if layer.metrics.equal]))
            control = disturbed(bench, unequal)
        print(f"\n{path.stem}\n\n| # | operator | alone: equal % | alone: ±1 % | free: equal % | free: ±1 % |")
        print("|---:|---|---:|---:|---:|---:|")
        for layer in free:
            print(f"| {layer.operator} | {layer.op_type} | {shares(alone.get(layer.tensor))} | {shares(layer)} |")
        print(f"\nalone, all operators: {100 * unequal:.2f} % unequal")
        for name, (equal, one) in control.items():
            print(f"control, {name}: {100 * equal:.2f} % equal, {100 * one:.2f} % within one step")
        print_ends(path, model)


def disturbed(bench: Bench, share: float) -> dict[str, tuple[float, float]]:
    """The reference against itself, with this share of the elements of every tensor moved by one step."""
    chance = np.random.default_rng(1)

    def change(values: Array, tensor: Any) -> Array:
        scale = tensor.quantization.scale[0] if tensor.quantization else 0
        moved = chance.choice([-scale, 0, scale], values.shape, p=[share / 2, 1 - share, share / 2])
        return np.asarray(values + moved, values.dtype)

    still, shaken = bench.rounded_run(), bench.rounded_run(change)
    found = {}
    for name in bench.outputs:
        quantization = bench.matched[name].quantization if name in bench.matched else None
        if quantization is not None:
            apart = np.rint(np.abs(still[name] - shaken[name]) / quantization.scale[0])
            found[name] = float((apart == 0).mean()), float((apart <= 1).mean())
    return found


def shares(layer: Layer | None) -> str:
    """Equal and within one step, in percent."""
    if layer is None or layer.metrics.equal is None or layer.metrics.within_one is None:
        return " | "
    return f"{100 * layer.metrics.equal:.2f} | {100 * layer.metrics.within_one:.2f}"


def print_ends(path: Path, model: openrknn.Model) -> None:
    """The outputs against the simulator's own answer."""
    with openrknn.Session(model) as session:
        found = session.run(arrays(path, "x", len(model.inputs)), outputs="raw")
    for spec, answer in zip(model.outputs, arrays(path, "o", len(model.outputs)), strict=True):
        said = f"{row(found[spec.name], answer, spec)} | cosine {cosine(found[spec.name], answer, spec):.6f}"
        print(f"\n{spec.name} against the simulator: {said}")


if __name__ == "__main__":
    sys.exit(main())
