"""How far each step of a network is from what the processor can do: time, products, and the fraction of the peak.

    python benchmarks/peak.py [--net "ResNet18 224"] [--kernels dotprod] [--rounds 20] [--steps] [--json]

The peak is measured in the same run: the instruction that the kernels multiply with, on registers alone (peak_loop.c,
which `cc` builds). Times are CPU time of one thread, the best of all rounds. Steps are grouped by type: dense
convolutions by kernel size, depthwise convolutions, pictures (dense, up to 4 channels), and steps without products.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from inference import MODELS, NETS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(__file__).resolve().with_name("peak_loop.c")
sys.path.insert(0, str(ROOT))

from openrknn.compute import native  # noqa: E402
from openrknn.compute.native import Kernels  # noqa: E402
from openrknn.npu.native import accelerate  # noqa: E402
from openrknn.npu.task import Convolution, Step  # noqa: E402
from tests.npu.loaded import load  # noqa: E402

INSTRUCTIONS = {
    Kernels.NEON: "smlal", Kernels.DOTPROD: "sdot", Kernels.I8MM: "smmla", Kernels.AVX2: "vpmaddwd",
    Kernels.AVXVNNI: "avx-vnni",
    Kernels.VNNI: "vpdpbusd", Kernels.AMX: "tdpbssd",
}  # fmt: skip
"""What each set multiplies int8 with; AMX leaves depthwise convolutions and first layers to VNNI."""


@dataclass(frozen=True)
class Measured:
    """A step of a network."""

    number: int
    kind: str
    name: str
    macs: int
    milliseconds: float

    def fraction(self, peak: float) -> float:
        """Of `peak` products in a nanosecond."""
        return self.macs / (self.milliseconds * 1e6 * peak)


def peaks() -> dict[str, float]:
    """Products in a nanosecond of one core, by instruction."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peak"
        subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE)], check=True)
        words = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(words[::2], map(float, words[1::2]), strict=True))


def kind_of(step: Step) -> str:
    """Which layers are counted together."""
    if not isinstance(step, Convolution):
        return step.kind
    source = step.source
    if source.depthwise:
        return "depthwise"
    size = f"{source.kernel_height}x{source.kernel_width}"
    return f"picture {size}" if source.packed_channels else f"dense {size}"


def macs_of(step: Step) -> int:
    """Products that count: of a picture, those of the channels that memory has."""
    if isinstance(step, Convolution) and step.source.packed_channels:
        return step.macs // step.source.weight_channels * step.source.packed_channels
    return step.macs


def name_of(step: Step) -> str:
    """A layer in words."""
    if not isinstance(step, Convolution):
        return step.kind
    source = step.source
    return (
        f"{source.kernel_height}x{source.kernel_width} stride {source.stride_x}, "
        f"{source.packed_channels or source.channels} to "
        f"{source.kernels}, {source.out_height}x{source.out_width}"
    )


def measured(path: Path, kernels: Kernels, rounds: int) -> list[Measured]:
    """The steps of a model, each with its best time."""
    loaded = load(path)
    program = loaded.program()
    accelerate(program, loaded.memory, kernels=kernels)
    best = [float("inf")] * len(program.steps)
    for _ in range(rounds):
        for number, step in enumerate(program.steps):
            run = step.native or step.execute
            start = time.thread_time_ns()
            run()
            best[number] = min(best[number], (time.thread_time_ns() - start) / 1e6)
    return [
        Measured(number, kind_of(step), name_of(step), macs_of(step), best[number])
        for number, step in enumerate(program.steps)
    ]


def together(steps: list[Measured], peak: float) -> list[tuple[str, int, float, int, float | None]]:
    """By kind: how many, milliseconds, products and their fraction of the peak; the longest first."""
    found = []
    for kind in {step.kind for step in steps}:
        some = [step for step in steps if step.kind == kind]
        passed, macs = sum(step.milliseconds for step in some), sum(step.macs for step in some)
        found.append((kind, len(some), passed, macs, macs / (passed * 1e6 * peak) if macs else None))
    return sorted(found, key=lambda row: -row[2])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", choices=NETS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of the models (default: %(default)s)")
    parser.add_argument("--kernels", help="set of kernels (default: the fastest)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", action="store_true", help="every step, not only the sums of each kind")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if not native.available():
        parser.error("the native library is not installed, or switched off")
    kernels = Kernels[arguments.kernels.upper()] if arguments.kernels else native.available()[-1]
    native.set_threads(1)
    rates = peaks()
    instruction = INSTRUCTIONS.get(kernels, "")
    if instruction not in rates:
        parser.error(f"no peak is known for {kernels.name.lower()}; choose another set with --kernels")
    peak = rates[instruction]
    result = {}
    for net in arguments.net or NETS:
        steps = measured(arguments.models / NETS[net][0], kernels, arguments.rounds)
        result[net] = [vars(step) | {"fraction": step.fraction(peak)} for step in steps]
        if arguments.json:
            continue
        print(f"{net}, {kernels.name.lower()}: peak {peak:.1f} products in a nanosecond ({instruction})")
        for step in steps if arguments.steps else ():
            part = f"{step.fraction(peak):6.1%}" if step.macs else ""
            about = f"{step.number:4} {step.kind:12} {step.name:36}"
            print(f"  {about} {step.macs / 1e6:8.2f} M {step.milliseconds:8.3f} ms {part}")
        for kind, count, passed, macs, fraction in together(steps, peak):
            part = f"{fraction:6.1%}" if fraction is not None else ""
            print(f"  {kind:14} {count:3} steps {passed:8.3f} ms {macs / 1e6:9.1f} M {part}")
        print(f"  all            {len(steps):3} steps {sum(step.milliseconds for step in steps):8.3f} ms")
    if arguments.json:
        print(json.dumps({"kernels": kernels.name.lower(), "peaks": rates, "networks": result}, indent=2))


if __name__ == "__main__":
    main()
