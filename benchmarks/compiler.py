#!/usr/bin/env python3
"""Our compiler beside the vendor's: closeness to float, bytes moved, estimated cycles, seconds.

    python benchmarks/compiler.py CORPUS [--models MODELS] [--only NAME ...]
    python benchmarks/compiler.py CORPUS --theirs FOLDER    (another chip: what its files are for)

CORPUS is a folder with NAME.onnx, and NAME_CHIP_{i8,fp}.rknn and .npz as the vendor's toolkit made them (or FOLDER is).
Both files of a case run on the strict software NPU on the same input; the reference is ONNX Runtime in float. Single
operators are calibrated with the three random inputs that the vendor's build had; pictures with the stored one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import openrknn
from openrknn import distance
from openrknn.compiler import compile_model
from openrknn.compiler.cost import cost_of
from openrknn.compiler.float_model import FloatModel
from openrknn.errors import RknnError

SEEDS = (100, 101, 102)


@dataclass(frozen=True)
class Row:
    """One case."""

    name: str
    ours_db: float
    theirs_db: float
    ours: Any
    theirs: Any
    seconds: float


def stored_inputs(path: Path) -> list[Any]:
    """The inputs beside a vendor's file."""
    with np.load(path) as archive:
        return [archive[name] for name in archive.files if name.startswith("x")]


def measure(name: str, source: Path, theirs: Path, *, is_int8: bool) -> Row:
    """Compile, run both, compare."""
    model = openrknn.load(theirs)
    inputs = stored_inputs(theirs.with_suffix(".npz"))
    proto = onnx.load(source)
    norm = model.graphs[0].normalizations[0]
    is_picture = inputs[0].dtype == np.uint8
    options: dict[str, Any] = {}
    feeds = inputs
    calibration: list[Any] = [inputs[0]] if is_picture or "qdq" in source.stem else list(random_inputs(proto))
    if is_picture:
        channels = inputs[0].shape[-1]
        mean, std = norm.mean[:channels], norm.std[:channels]
        options = {"mean": mean, "std": std}
        planes = inputs[0].astype(np.float32).transpose(0, 3, 1, 2)
        offset, factor = (np.asarray(row, np.float32).reshape(1, -1, 1, 1) for row in (mean, std))
        feeds = [(planes - offset) / factor]
    started = time.perf_counter()
    is_quantised = any(node.op_type == "QuantizeLinear" for node in proto.graph.node)
    compiled = compile_model(
        proto, model.chip.name, calibration=calibration if is_int8 and not is_quantised else None, **options
    )
    seconds = time.perf_counter() - started
    names = [entry.name for entry in proto.graph.input]
    outputs = [entry.name for entry in proto.graph.output]
    wanted = dict(FloatModel(proto, outputs).run(dict(zip(names, feeds, strict=False))))
    reference = np.concatenate([wanted[entry].reshape(-1) for entry in outputs])
    ours, vendors = (distance.measure(answer(one, inputs), reference).snr_db for one in (compiled.model, model))
    return Row(
        name, ours, vendors,
        cost_of(compiled.model), cost_of(model), seconds,
    )  # fmt: skip


def random_inputs(proto: Any) -> Iterator[tuple[Any, ...]]:
    """What the vendor's builds of the corpus were calibrated with."""
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        shapes = [[dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in proto.graph.input]
        yield tuple(random.normal(0, 1, shape).astype(np.float32) for shape in shapes)


def answer(model: Any, inputs: list[Any]) -> Any:
    """All outputs as one vector."""
    is_picture = inputs[0].dtype == np.uint8
    layout = None if inputs[0].ndim != 4 else "nhwc" if is_picture else "nchw"
    with openrknn.Session(model, "software") as session:
        found = session.run(inputs, layout=layout)
        return np.concatenate([found[spec.name].reshape(-1) for spec in session.outputs])


def cases(
    corpus: Path, folder: Path, models: Path | None, only: list[str]
) -> Iterator[tuple[str, Path, Path, bool]]:
    """(name, ONNX, the vendor's file, whether it is int8)."""
    for source in sorted(corpus.glob("*.onnx")):
        for kind in ("i8", "fp"):
            theirs = next(iter(sorted(folder.glob(f"{source.stem}_r[kv]*_{kind}.rknn"))), None)
            if theirs is not None and (not only or source.stem in only):
                yield f"{source.stem} {kind}", source, theirs, kind == "i8"
    if models is not None:
        for name, source in (("yolox_nano", models / "yolox_nano_416.onnx"),):
            yield f"{name} i8", source, models / f"{name}_rk3588_i8.rknn", True
        for source in sorted((models / "bench").glob("*_qdq.onnx")):
            theirs = models / "bench" / source.name.replace("_qdq.onnx", "_rk3588_i8.rknn")
            if theirs.exists():
                yield f"{source.stem} i8", source, theirs, True


def main() -> int:
    """Print one line per case, and what is worse than the vendor's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--theirs", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    print("| case | dB ours | dB vendor | kB ours | kB vendor | kcycles ours | kcycles vendor | tasks | compile s |")
    print("|---|---|---|---|---|---|---|---|---|")
    worse, failed, count = [], [], 0
    for name, source, theirs, is_int8 in cases(
        arguments.corpus, arguments.theirs or arguments.corpus, arguments.models, arguments.only
    ):
        count += 1
        try:
            row = measure(name, source, theirs, is_int8=is_int8)
        except RknnError as error:
            failed.append(f"{name}: {error}")
            continue
        print(
            f"| {name} | {row.ours_db:.2f} | {row.theirs_db:.2f} | {row.ours.moved_bytes / 1e3:.1f} | "
            f"{row.theirs.moved_bytes / 1e3:.1f} | {row.ours.cycles / 1e3:.1f} | {row.theirs.cycles / 1e3:.1f} | "
            f"{row.ours.tasks}/{row.theirs.tasks} | {row.seconds:.2f} |",
            flush=True,
        )
        if row.ours_db < row.theirs_db - 0.3:
            worse.append(f"{name}: {row.ours_db:.2f} dB, vendor {row.theirs_db:.2f} dB")
    print(f"\n{count} cases, {len(failed)} not compiled, {len(worse)} more than 0.3 dB below the vendor's build")
    for line in (*failed, *worse):
        print(f"- {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
