"""Where the time of whole networks goes, by type of layer, and how far each type is from what the machine can do.

    python benchmarks/performance.py [--models FOLDER] [--rounds 20] [--kernels SET] [--no-measuring]

Measures this machine with one thread, keeps the figures in benchmarks/results/performance/MACHINE.json, and writes
docs/performance.md from all files that are there: rows of other machines stay. The limits are measured in the same run:
products on registers alone (benchmarks/peak.py), and bytes that `memcpy` moves between arrays larger than the caches.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from inference import MODELS, NETS, processor
from peak import INSTRUCTIONS, kind_of, macs_of, peaks

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openrknn import Session  # noqa: E402
from openrknn.compute import native  # noqa: E402
from openrknn.compute.native import Kernels  # noqa: E402
from openrknn.npu.accesses import accesses_of  # noqa: E402
from openrknn.npu.native import accelerate  # noqa: E402
from openrknn.npu.task import Convolution, Flying, Step, TableLoad  # noqa: E402
from tests.npu.loaded import load  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "performance"
PAGE = ROOT / "docs" / "performance.md"
HALVES = {"PP-OCRv4 recognition, fp16": "ppocrv4_rec_rk3588_fp.rknn", "DNSMOS, fp16": "dnsmos_v8_rk3588_fp.rknn"}
FLOAT = "fp16 products"
PYTHON = "Python"
COPIED_BYTES = 64 << 20
PARTS = {0xD03: "Cortex-A53", 0xD05: "Cortex-A55", 0xD08: "Cortex-A72", 0xD0B: "Cortex-A76", 0xD0C: "Neoverse-N1",
         0xD40: "Neoverse-V1", 0xD49: "Neoverse-N2", 0xD4F: "Neoverse-V2"}  # fmt: skip
"""Arm's numbers of its cores, where the system has no name for the processor."""
TOP = """# Performance

Written by `benchmarks/performance.py`; do not edit. Where the time of one inference goes with one thread, by type of
layer, over the networks of the benchmarks; *of the peak* is how many of the products that the processor can do on
registers alone were done in that time, *of the memory* how many of the bytes that it can copy were read and written.
The larger of the two is in bold: what it lacks to 100 % is what a better kernel could win. More than 100 % of the
memory is the work of caches. Products of padding and of channels that no input has do not count. *Python* is what a run
of a session takes beyond its steps: inputs, outputs, operators on the CPU and calls.

How the kernels work, and what limits the number of threads, is on [the page of the kernels](kernels.md); whole networks
beside other engines are on [the page of figures](benchmarks.md), and first runs on [the page of the first
answer](cold-start.md).
"""


def machine() -> str:
    """The processor by its name."""
    found = re.search(r"^CPU part\s*:\s*(0x[0-9a-f]+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return PARTS.get(int(found[1], 16), processor()) if found else processor()


def bandwidth() -> float:
    """Bytes that one thread reads and writes in a nanosecond."""
    source, target = np.ones(COPIED_BYTES, np.uint8), np.ones(COPIED_BYTES, np.uint8)
    return 2 * COPIED_BYTES / (best_of(lambda: np.copyto(target, source), 8) * 1e6)


def best_of(function: Callable[[], object], rounds: int) -> float:
    """Milliseconds of this thread, the best of all rounds."""
    best = math.inf
    for _ in range(rounds):
        begun = time.thread_time_ns()
        function()
        best = min(best, (time.thread_time_ns() - begun) / 1e6)
    return best


def type_of(step: Step, operator: str) -> str:
    """Which layers are counted together."""
    if isinstance(step, Convolution):
        if step.source.is_float:
            return FLOAT
        kind = kind_of(step)
        return "first layer" if kind.startswith("picture") else kind
    if "Softmax" in operator:
        return "softmax"
    if isinstance(step, Flying):
        is_moved = (step.dpu.bias, step.dpu.norm, step.dpu.element_wise) == (None, None, None)
        return "layout" if is_moved else "element-wise"
    return step.kind


def measured(path: Path, kernels: Kernels, rounds: int) -> dict[str, Any]:
    """A network: milliseconds, products and bytes of each type of layer."""
    loaded = load(path)
    program = loaded.program()
    accelerate(program, loaded.memory, kernels=kernels)
    steps = [step for step in program.steps if not isinstance(step, TableLoad)]
    types = [node.type for node in loaded.model.graphs[0].nodes]
    best = [math.inf] * len(steps)
    for _ in range(rounds):
        for number, step in enumerate(steps):
            best[number] = min(best[number], best_of(step.native or step.execute, 1))
    kinds: dict[str, dict[str, float]] = {}
    for step, passed in zip(steps, best, strict=True):
        kind = kinds.setdefault(
            type_of(step, types[step.operator] if step.operator < len(types) else ""),
            {"steps": 0, "milliseconds": 0.0, "products": 0, "bytes": 0},
        )
        kind["steps"] += 1
        kind["milliseconds"] += passed
        kind["products"] += macs_of(step)
        kind["bytes"] += sum(math.prod(access.shape) for access in accesses_of(step))
    with Session(path, "software") as session:
        random = np.random.default_rng(1)
        feeds = [random.integers(0, 256, spec.shape).astype(np.uint8 if spec.is_image else np.float32)
                 for spec in session.inputs]  # fmt: skip
        session.run(feeds)
        whole = best_of(lambda: session.run(feeds), rounds)
    rest = max(whole - sum(best), 0.0)
    kinds[PYTHON] = {"steps": 1, "milliseconds": rest, "products": 0, "bytes": 0}
    return {"milliseconds": whole, "kinds": kinds}


def measure(arguments: argparse.Namespace, kernels: Kernels) -> dict[str, Any]:
    """This machine."""
    native.set_threads(1)
    rates = peaks()
    paths = {**{f"{net}, int8": names[0] for net, names in NETS.items()}, **HALVES}
    networks = {}
    for net, name in paths.items():
        if (arguments.models / name).is_file():
            networks[net] = measured(arguments.models / name, kernels, arguments.rounds)
    return {
        "machine": machine(), "kernels": kernels.name.lower(), "date": str(date.today()), "bandwidth": bandwidth(),
        "instruction": INSTRUCTIONS.get(kernels, ""), "peaks": rates, "networks": networks,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- the page


def fractions(kind: str, row: dict[str, float], found: dict[str, Any]) -> tuple[float | None, float | None]:
    """Of the peak of products, and of what memory can move; None where there is nothing to compare."""
    name = "fma" if kind == FLOAT else found["instruction"]
    peak, passed = found["peaks"].get(name), row["milliseconds"] * 1e6
    if not passed:
        return None, None
    products = row["products"] / passed / peak if row["products"] and peak else None
    return products, row["bytes"] / passed / found["bandwidth"] if row["bytes"] else None


def added(networks: dict[str, Any]) -> dict[str, dict[str, float]]:
    """All networks together, by type; the longest first."""
    sums: dict[str, dict[str, float]] = {}
    for network in networks.values():
        for kind, row in network["kinds"].items():
            total = sums.setdefault(kind, dict.fromkeys(row, 0.0))
            for name, value in row.items():
                total[name] += value
    return dict(sorted(sums.items(), key=lambda entry: -entry[1]["milliseconds"]))


def cells_of(products: float | None, memory: float | None) -> list[str]:
    """Two cells, the larger one in bold."""
    largest = max((one for one in (products, memory) if one is not None), default=None)
    shown = ["" if one is None else f"{one:.0%}" for one in (products, memory)]
    return [f"**{text}**" if one is not None and one == largest else text
            for one, text in zip((products, memory), shown, strict=True)]  # fmt: skip


def rendered(found: dict[str, Any]) -> Iterator[str]:
    """The lines of one machine."""
    rates = ", ".join(f"`{name}` {rate:.1f}" for name, rate in found["peaks"].items())
    yield from ("", f"## {found['machine']}, kernels `{found['kernels']}`", "")
    yield f"{found['date']}, one thread. Products in a nanosecond on registers: {rates}."
    yield f"Memory: {found['bandwidth']:.1f} bytes read and written in a nanosecond."
    for title, is_half in (("int8", False), ("fp16", True)):
        networks = {net: row for net, row in found["networks"].items() if net.endswith("fp16") is is_half}
        if not networks:
            continue
        sums = added(networks)
        whole = sum(row["milliseconds"] for row in sums.values())
        yield from ("", f"| {title}, all networks | steps | time | share | products | of the peak | of the memory |",
                    "|---|---|---|---|---|---|---|")  # fmt: skip
        for kind, row in sums.items():
            parts = cells_of(*fractions(kind, row, found))
            products = f"{row['products'] / 1e6:.0f} M" if row["products"] else ""
            cells = [kind, f"{row['steps']:.0f}", f"{row['milliseconds']:.2f} ms", f"{row['milliseconds'] / whole:.0%}",
                     products, *parts]  # fmt: skip
            yield "| " + " | ".join(cells) + " |"
        kinds = list(sums)
        yield from ("", f"| share of the time | all | {' | '.join(kinds)} |", "|---|---|" + "---|" * len(kinds))
        for net, network in networks.items():
            total = sum(row["milliseconds"] for row in network["kinds"].values())
            shares = [network["kinds"].get(kind, {}).get("milliseconds", 0.0) / total for kind in kinds]
            texts = [f"{share:.0%}" if share else "" for share in shares]
            yield f"| {net.rpartition(',')[0]} | {total:.1f} ms | " + " | ".join(texts) + " |"


def write_page() -> None:
    """From all files of results."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    PAGE.write_text(TOP + "\n".join(line for one in found for line in rendered(one)) + "\n")


def main() -> None:
    """Measure, keep and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of the models (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kernels", help="set of kernels (default: the fastest)")
    parser.add_argument("--no-measuring", action="store_true", help="only write the page again")
    arguments = parser.parse_args()
    if not arguments.no_measuring:
        if not native.available():
            parser.error("the native library is not installed, or switched off")
        if not arguments.models.is_dir():
            parser.error(f"there is no folder {arguments.models}; --models says where the models are")
        kernels = Kernels[arguments.kernels.upper()] if arguments.kernels else native.available()[-1]
        found = measure(arguments, kernels)
        name = re.sub(r"[^a-z0-9]+", "-", f"{found['machine']} {found['kernels']}".lower()).strip("-")
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    write_page()
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
