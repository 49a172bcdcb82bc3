"""Build the golden `.rknn` files of this folder with the vendor's converter.

    python -m tests.goldens.build              all of them (needs rknn-toolkit2, see README.md)
    python -m tests.goldens.build NAME ...     only these
    python -m tests.goldens.build --sources    the networks as .onnx (needs onnx alone)
    python -m tests.goldens.build --list       what there is

The networks are in networks.py, one function each; one `Golden` row per file. Each file is built in a process of
its own, because the converter keeps state between builds and its native part is not stable for long.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tests.goldens import networks as nets

HERE = Path(__file__).resolve().parent
CALIBRATION_SAMPLES = 3

Array = npt.NDArray[Any]

# --------------------------------------------------------------------------------------------------
# The files

Network = Callable[[], onnx.ModelProto]
Options = Mapping[str, Any]
ImageNorm = Mapping[str, list[list[float]]]
IMAGE: ImageNorm = {"mean_values": [[123.675, 116.28, 103.53]], "std_values": [[58.395, 57.12, 57.375]]}
UNIT: ImageNorm = {"mean_values": [[0.0] * 3], "std_values": [[255.0] * 3]}
DYNAMIC: Options = {"dynamic_input": [[[1, 3, 8, 8]], [[1, 3, 16, 16]], [[1, 3, 8, 24]]]}


@dataclass(frozen=True)
class Golden:
    """One file: a network, a chip, a number format, and the converter's options."""

    network: Network
    chip: str
    dtype: str = "i8"
    variant: str = ""
    config: Options = field(default_factory=dict)
    build: Options = field(default_factory=dict)
    answers: bool = False
    """Ask the converter's simulator, and keep inputs and answers beside the file."""
    layers: bool = False
    """Ask it for every tensor on the way too, and keep them in layers/NAME.npz."""
    folder: str = ""
    """Where it lies: in `cpu` what the NPU alone, or the vendor's runtime 1.5.2, cannot run."""

    @property
    def name(self) -> str:
        return "_".join(part for part in (self.network.__name__, self.chip, self.dtype, self.variant) if part)

    @property
    def place(self) -> Path:
        return HERE / self.folder

    @property
    def takes_images(self) -> bool:
        return "mean_values" in self.config


def _operators() -> list[Golden]:
    plain = [
        nets.conv,
        nets.silu,
        nets.sigmoid,
        nets.cpu_sin,
        nets.two_inputs,
        nets.two_outputs,
        nets.softmax,
        nets.transpose,
        nets.matmul,
        nets.gemm,
    ]
    plain += [nets.nearest, nets.bilinear, nets.deconv, nets.group_conv, nets.average_pool]
    rows = [Golden(network, "rk3588", answers=True) for network in plain]
    rows += [
        Golden(network, "rk3588", "fp", answers=True)
        for network in (nets.conv, nets.silu, nets.softmax, nets.layer_norm)
    ]
    rows.append(Golden(nets.projection, "rk3588", answers=True, layers=True))
    rows += [Golden(nets.deconv3, "rk3588", answers=True), Golden(nets.one_kernel, "rv1106", answers=True)]
    rows += [Golden(nets.square_root, chip, "fp", answers=True) for chip in ("rk3562", "rk3576")]
    return [*rows, Golden(nets.cpu_argmax, "rk3588")]


def _images() -> list[Golden]:
    rows = [Golden(nets.image, "rk3588", dtype, config=IMAGE, answers=True) for dtype in ("i8", "fp")]
    rows += [Golden(nets.residual, chip, config=UNIT, answers=True) for chip in ("rk3588", "rk3566")]
    rows += [Golden(nets.image, "rk3566", config=IMAGE, answers=True)]
    rows += [Golden(nets.dynamic, chip, config={**UNIT, **DYNAMIC}) for chip in ("rk3588", "rk3576")]
    return rows


def _variants() -> list[Golden]:
    """The converter's options, each on the smallest network that shows it."""

    def row(network: Network, variant: str, build: Options | None = None, **config: Any) -> Golden:
        return Golden(network, "rk3588", "i8", variant, {**UNIT, **config}, build or {})

    return [
        row(nets.image, "batch2", {"rknn_batch_size": 2}),
        row(nets.image, "custom_string", custom_string="made for openrknn, äöü 中文"),
        row(nets.image, "layer", quantized_method="layer"),
        row(nets.residual, "single_core", single_core_mode=True),
        row(nets.residual, "compressed", compress_weight=True),
        row(nets.residual, "no_weights", remove_weight=True),
        row(nets.residual, "mini", mini_rknn=True),
        Golden(nets.residual, "rk3588", "w16a16i_dfp", config={**UNIT, "quantized_dtype": "w16a16i_dfp"}),
        Golden(nets.dense, "rk3576", "w4a16", config={"quantized_dtype": "w4a16"}),
    ]


def _chips() -> list[Golden]:
    both = ["rk3566", "rk3562", "rk3576", "rv1126b"]
    rows = [Golden(nets.conv, chip, dtype, answers=True) for chip in both for dtype in ("i8", "fp")]
    small = ["rv1103", "rv1106", "rv1103b", "rv1106b"]
    rows += [Golden(nets.residual, chip, config=UNIT, answers=True) for chip in ["rk3562", "rk3576", "rv1126b", *small]]
    more = [nets.silu, nets.transpose, nets.softmax, nets.matmul, nets.bilinear, nets.image]
    rows += [
        Golden(network, chip, config=IMAGE if network is nets.image else {}, answers=True)
        for network in more
        for chip in ("rk3562", "rk3576", "rv1106", "rv1106b")
        if network is not nets.softmax
        or chip not in {"rv1106", "rv1106b"}  # the converter forgets a convolution on RV1106
    ]
    rows += [Golden(nets.reshaped_rows, chip, answers=True) for chip in ("rk3562", "rk3576", "rv1106")]
    rows += [Golden(nets.depthwise40, "rk3576", dtype, answers=True) for dtype in ("i8", "fp")]
    return [*rows, Golden(nets.silu, "rk3562", "fp", answers=True)]


def _quantisation() -> list[Golden]:
    """Where each chip keeps what tells the scale and the zero point of weights."""
    chips = ["rk3588", "rk3566", "rk3562", "rk3576", "rv1106", "rv1106b"]
    return [*(Golden(nets.single, chip) for chip in chips), Golden(nets.activations, "rk3588")]


def _on_the_cpu() -> list[Golden]:
    """The converter gives operators to the CPU that it is told to."""
    rows = []
    for network in (nets.cpu_many, nets.cpu_common, nets.cpu_grid, nets.cpu_recurrent):
        wanted = {name: "cpu" for node in network().graph.node for name in node.output}
        dtypes = ["i8", "fp"] if network in (nets.cpu_many, nets.cpu_common) else ["fp"]
        rows += [
            Golden(network, "rk3588", dtype, config={"op_target": wanted}, answers=True, folder="cpu")
            for dtype in dtypes
        ]
    recurrent = Golden(nets.gru, "rk3588", "fp", answers=True, folder="cpu")
    return [*rows, recurrent, Golden(nets.length, "rk3588", "fp", answers=True)]


def _compressed() -> list[Golden]:
    """Pairs with and without compressed weights."""
    kinds = [("rk3588", "i8"), ("rk3566", "i8"), ("rk3566", "fp"), ("rk3562", "i8"), ("rk3576", "fp"), ("rv1106", "i8")]
    return [
        Golden(nets.pruned, chip, dtype, variant, {"compress_weight": bool(variant)})
        for chip, dtype in kinds
        for variant in ("", "compressed")
    ]


_ALL = [*_images(), *_operators(), *_variants(), *_chips(), *_quantisation(), *_on_the_cpu(), *_compressed()]
GOLDENS = {golden.name: golden for golden in _ALL}


# --------------------------------------------------------------------------------------------------
# Building


def _input_shapes(model: onnx.ModelProto, golden: Golden) -> list[list[int]]:
    if shape_sets := golden.config.get("dynamic_input"):
        largest: list[list[int]] = max(shape_sets, key=lambda shapes: sum(map(math.prod, shapes)))
        return largest  # the converter calibrates with this one
    return [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input]


def _sample(golden: Golden, shapes: Sequence[Sequence[int]], seed: int) -> list[Array]:
    """Inputs as the ONNX model takes them (NCHW), in the units before mean and std."""
    random = np.random.default_rng(seed)
    if golden.takes_images:
        return [random.integers(0, 256, shape).astype(np.float32) for shape in shapes]
    return [random.normal(0, 1, shape).astype(np.float32) for shape in shapes]


def _write_dataset(golden: Golden, shapes: Sequence[Sequence[int]], folder: Path) -> Path:
    lines = []
    for index in range(CALIBRATION_SAMPLES):
        paths = []
        for number, array in enumerate(_sample(golden, shapes, 100 + index)):
            path = folder / f"sample{index}_{number}.npy"
            np.save(path, array)
            paths.append(str(path))
        lines.append(" ".join(paths))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing


def _write_answers(golden: Golden, rknn: Any, shapes: Sequence[Sequence[int]]) -> None:
    if rknn.init_runtime() != 0:
        raise RuntimeError(f"{golden.name}: the simulator did not start")
    inputs = _sample(golden, shapes, 100)
    layout = "nchw"
    if golden.takes_images:
        inputs, layout = [array.transpose(0, 2, 3, 1).astype(np.uint8) for array in inputs], "nhwc"
    outputs = rknn.inference(inputs=inputs, data_format=[layout] * len(inputs))
    arrays: dict[str, Any] = {f"x{index}": array for index, array in enumerate(inputs)}
    arrays |= {f"o{index}": array for index, array in enumerate(outputs)}
    np.savez_compressed(golden.place / f"{golden.name}.npz", **arrays)


def _write_layers(golden: Golden, rknn: Any, folder: Path) -> None:
    """What the simulator's own analysis says of the first sample, tensor by tensor."""
    snapshot = folder / "snapshot"
    if rknn.accuracy_analysis(inputs=[str(folder / "sample0_0.npy")], output_dir=str(snapshot)) != 0:
        raise RuntimeError(f"{golden.name}: the analysis failed")
    layers = {path.stem: np.load(path) for path in sorted((snapshot / "simulator/npy").glob("*.npy"))}
    (HERE / "layers").mkdir(exist_ok=True)
    np.savez_compressed(HERE / "layers" / f"{golden.name}.npz", **layers)


def build(golden: Golden, folder: Path) -> None:
    """Convert one network; leave NAME.rknn, and NAME.npz if answers are wanted, beside this script."""
    from rknn.api import RKNN  # slow and heavy: only when a file is really built

    model = golden.network()
    source = folder / f"{golden.network.__name__}.onnx"
    onnx.save(model, source)
    shapes = _input_shapes(model, golden)
    dataset = _write_dataset(golden, shapes, folder)

    rknn: Any = RKNN(verbose=False)  # the vendor's, or our stand-in that cannot build
    rknn.config(target_platform=golden.chip, **golden.config)
    if rknn.load_onnx(model=str(source)) != 0:
        raise RuntimeError(f"{golden.name}: load_onnx failed")
    quantize = golden.dtype != "fp"
    if rknn.build(do_quantization=quantize, dataset=str(dataset), **golden.build) != 0:
        raise RuntimeError(f"{golden.name}: build failed")
    if rknn.export_rknn(str(golden.place / f"{golden.name}.rknn")) != 0:
        raise RuntimeError(f"{golden.name}: export_rknn failed")
    if golden.answers:
        _write_answers(golden, rknn, shapes)
    if golden.layers:
        _write_layers(golden, rknn, folder)
    rknn.release()


def write_sources() -> None:
    """Every network once, as NETWORK.onnx beside this script."""
    for network, place in {(golden.network, golden.place) for golden in GOLDENS.values()}:
        onnx.save(network(), place / f"{network.__name__}.onnx")


def _build_in_child(name: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.goldens.build", "--in-folder", folder, name]
        found = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}  # the converter writes into its working directory
        child = subprocess.run(command, cwd=folder, env=found, capture_output=True, text=True, check=False)
    if child.returncode == 0:
        print(f"{name}: {(GOLDENS[name].place / f'{name}.rknn').stat().st_size} bytes", flush=True)
        return True
    print(f"{name}: FAILED ({child.returncode})\n{child.stdout[-1500:]}{child.stderr[-1500:]}", flush=True)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the golden .rknn files.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--sources", action="store_true", help="write the networks as .onnx and stop")
    parser.add_argument("--in-folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.names or list(GOLDENS)
    if unknown := [name for name in names if name not in GOLDENS]:
        parser.error(f"no such golden: {', '.join(unknown)}")
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.sources:
        write_sources()
        return 0
    if arguments.in_folder:
        build(GOLDENS[names[0]], arguments.in_folder)
        return 0
    failed = [name for name in names if not _build_in_child(name)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
