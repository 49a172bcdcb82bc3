"""Architectures with random weights through `torch.compile(backend="openrknn")`: a row for each.

    python benchmarks/frameworks/torch_models.py [--only NAME ...] [--prefer cost|npu|cpu] [--markdown OUT.md]

A row: graphs of dynamo's and graph breaks, parts, the share of the MACs that is on the NPU, the SNR of the worst output
to the same model in PyTorch (float), and seconds of the first call (export, compile, run) and of the second.
Needs torch, onnxscript, timm, torchvision, transformers and ultralytics. Without an NPU the software NPU runs it: small
pictures are used where the architecture allows.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch._dynamo

from benchmarks.frameworks.torch_zoo import ZOO
from openrknn.torch import compiled_graphs


@dataclass
class Row:
    """What was measured of one model."""

    name: str
    kind: str
    graphs: int = 0
    breaks: int = 0
    npu: int = 0
    cpu: int = 0
    eager: int = 0
    """Nodes of dynamo's graphs that stayed in PyTorch."""
    macs: float = 0.0
    share: float = 0.0
    snr: float = 0.0
    first: float = 0.0
    second: float = 0.0
    error: str = ""

    def cells(self) -> list[str]:
        """For a table."""
        if self.error:
            return [self.name, self.kind, *[""] * 6, self.error]
        snr = "exact" if math.isinf(self.snr) else f"{self.snr:.1f}"
        return [
            self.name, self.kind, f"{self.graphs} / {self.breaks}", f"{self.npu} + {self.cpu}", str(self.eager),
            f"{self.macs / 1e6:.1f}", f"{100 * self.share:.1f}", snr, f"{self.first:.0f} / {self.second:.1f}",
        ]  # fmt: skip


HEAD = ["model", "kind", "graphs / breaks", "parts NPU + CPU", "nodes in PyTorch", "M MACs", "% on the NPU", "SNR dB",
        "s first / second"]  # fmt: skip


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All floating tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from tensors(one)


def worst(found: Any, expected: Any) -> float:
    """SNR in dB of the worst output."""
    numbers = [math.inf]
    for one, other in zip(tensors(found), tensors(expected), strict=True):
        noise = float((one.double() - other.double()).square().sum())
        signal = float(other.double().square().sum())
        numbers.append(math.inf if noise == 0 else 10 * math.log10(max(signal, 1e-30) / noise))
    return min(numbers)


def settle(model: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Give batch normalisations the statistics of random data: with fresh ones, numbers shrink from layer to layer."""
    norms = [one for one in model.modules() if isinstance(one, torch.nn.modules.batchnorm._BatchNorm)]
    model.eval()
    if norms and len(arguments) == 1:
        for one in norms:
            one.train()
            one.momentum = 1.0
        with torch.no_grad():
            model(torch.randn(4, *arguments[0].shape[1:]), **keywords)
        model.eval()


def measure(name: str, kind: str, make: Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]], options: Any) -> Row:
    """Compile, run twice, compare."""
    from torch._dynamo.utils import counters
    from torch.utils.flop_counter import FlopCounterMode

    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    row = Row(name, kind)
    model, arguments, keywords = make()
    settle(model, arguments, keywords)
    with torch.no_grad():
        model(*arguments, **keywords)  # some fill caches of their own
        with FlopCounterMode(display=False) as counter:
            expected = model(*arguments, **keywords)
        fast = torch.compile(model, backend="openrknn", options=options)
        started = time.perf_counter()
        found = fast(*arguments, **keywords)
        row.first = time.perf_counter() - started
        started = time.perf_counter()
        found = fast(*arguments, **keywords)
        row.second = time.perf_counter() - started
    row.snr = worst(found, expected)
    graphs = compiled_graphs()
    shares = [share for graph in graphs for program in graph.programs for share in program.shares]
    parts = [part for share in shares if share.parted is not None for plan in share.parted.plans for part in plan.parts]
    row.graphs, row.breaks = len(graphs), sum(counters["graph_break"].values())
    row.npu, row.cpu = (sum(part.kind == kind for part in parts) for kind in ("npu", "cpu"))
    row.eager = sum(share.nodes for share in shares if share.kind == "torch")
    row.macs = max(counter.get_total_flops() / 2, sum(part.macs for part in parts))
    row.share = sum(part.npu_macs for part in parts) / max(row.macs, 1)
    for graph in graphs:
        print(graph.report(), file=sys.stderr)
    for graph in graphs:
        graph.close()
    return row


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="names or kinds of models")
    parser.add_argument("--prefer", default="cost")
    parser.add_argument("--cache", action="store_true", help="use the user's cache")
    parser.add_argument("--markdown", type=Path, help="write the table here too; rows are added as they come")
    arguments = parser.parse_args()
    # The SNR is measured here: the compiler's own check, and lists for several cores, would only take time.
    options = {"prefer": arguments.prefer, "cache": arguments.cache, "compile": {"check": False, "cores": 1}}
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    print("\n".join(lines))
    failed = 0
    for name, (kind, make) in ZOO.items():
        if arguments.only and name not in arguments.only and kind not in arguments.only:
            continue
        try:
            row = measure(name, kind, make, options)
        except Exception as error:  # noqa: BLE001  (one model's failure is a row)
            traceback.print_exc()
            row = Row(name, kind, error=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            failed += 1
        lines.append("| " + " | ".join(row.cells()) + " |")
        print(lines[-1], flush=True)
        if arguments.markdown:
            arguments.markdown.write_text("\n".join(lines) + "\n")
        with contextlib.suppress(Exception):
            torch._dynamo.reset()
        gc.collect()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
