"""The plan of a graph that was split: steps on the CPU, products on the NPU, noise. `plan.json` beside its files.

A product is a 1-D convolution, a transposed one or a MatMul with constant weights, compiled for a window of columns
(frames or tokens). A sequence of any length is computed in windows: the input of a window overlaps its neighbours as
far as the kernel reaches, so that every column is what the whole would give.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openrknn.voice.errors import VoiceSetError
from openrknn.wholefiles import write_atomically

FORMAT = 1
KINDS = ("conv", "transposed", "matmul")
_LARGEST = 8 << 20
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class CpuStep:
    """A part of the graph for ONNX Runtime."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """One product: `window` columns of the output at a time."""

    net: str
    kind: str
    input: str
    output: str
    window: int
    rows_in: int
    rows_out: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad_begin: int = 0
    pad_end: int = 0

    @property
    def macs(self) -> int:
        """Multiplications for a column of the output (of the input where it is transposed)."""
        return self.rows_in * self.rows_out * self.kernel

    @property
    def span(self) -> int:
        """Columns that a window of the output is made of."""
        if self.kind == "transposed":
            return self.window + self.reach
        return (self.window - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    @property
    def reach(self) -> int:
        """Transposed: columns before a column that reach into what it makes."""
        return -(-(self.kernel - 1) * self.dilation // self.stride)


@dataclass(frozen=True, slots=True)
class NoiseStep:
    """Normal noise of the shape of another value."""

    like: str
    output: str
    mean: float = 0.0
    scale: float = 1.0


Step = CpuStep | Product | NoiseStep


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps in order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def products(self) -> list[Product]:
        """The steps on the NPU."""
        return [step for step in self.steps if isinstance(step, Product)]


_NAMES: dict[str, type[CpuStep | Product | NoiseStep]] = {"cpu": CpuStep, "product": Product, "noise": NoiseStep}


def write_plan(plan: Plan, path: Path) -> None:
    """As JSON."""
    names = {kind: name for name, kind in _NAMES.items()}
    rows = [{"step": names[type(step)], **asdict(step)} for step in plan.steps]
    row = {"format": FORMAT, "inputs": plan.inputs, "outputs": plan.outputs, "steps": rows}
    write_atomically(path, json.dumps(row, ensure_ascii=False))


def read_plan(path: Path) -> Plan:
    """Read and check: every name, every number and the order of the steps."""
    try:
        if path.stat().st_size > _LARGEST:
            raise VoiceSetError(f"{path}: larger than {_LARGEST} bytes; this is no plan of a voice")
        row = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise VoiceSetError(f"{path}: cannot be read: {error}; make the set again") from error
    if not isinstance(row, dict) or row.get("format") != FORMAT or not isinstance(row.get("steps"), list):
        raise VoiceSetError(f"{path}: no plan of format {FORMAT}; make the set again")
    check = _Check(path)
    inputs, outputs = (check.names(row.get(key), key) for key in ("inputs", "outputs"))
    known = set(inputs)
    steps: list[Step] = []
    for number, entry in enumerate(row["steps"]):
        step = check.step(entry, f"step {number}")
        needs = step.inputs if isinstance(step, CpuStep) else (
            (step.input,) if isinstance(step, Product) else (step.like,)
        )  # fmt: skip
        made = step.outputs if isinstance(step, CpuStep) else (step.output,)
        if missing := [name for name in needs if name not in known]:
            raise VoiceSetError(f"{path}: step {number} needs {missing[0]!r:.60}, which nothing before it makes")
        known.update(made)
        steps.append(step)
    if missing := [name for name in outputs if name not in known]:
        raise VoiceSetError(f"{path}: no step makes the output {missing[0]!r:.60}; make the set again")
    return Plan(inputs, outputs, tuple(steps))


class _Check:
    def __init__(self, path: Path) -> None:
        self.path = path

    def wrong(self, where: str, what: str) -> VoiceSetError:
        return VoiceSetError(f"{self.path}: {where}: {what}; make the set again with `openrknn voice get`")

    def names(self, value: Any, where: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self.wrong(where, "should be a list of names")
        return tuple(value)

    def inside(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or not value or Path(value).is_absolute() or ".." in Path(value).parts:
            raise self.wrong(where, f"{value!r:.60} is not a path inside the set")
        return value

    def step(self, entry: Any, where: str) -> Step:
        kind = _NAMES.get(str(entry.get("step"))) if isinstance(entry, dict) else None
        if kind is None:
            raise self.wrong(where, "is of no known kind")
        if kind is CpuStep:
            return CpuStep(
                self.inside(entry.get("file"), where), self.names(entry.get("inputs"), where),
                self.names(entry.get("outputs"), where),
            )  # fmt: skip
        if kind is NoiseStep:
            like, output = self.names([entry.get("like"), entry.get("output")], where)
            scales = [entry.get(key, default) for key, default in (("mean", 0.0), ("scale", 1.0))]
            if not all(isinstance(scale, int | float) and abs(scale) < 1e6 for scale in scales):
                raise self.wrong(where, "mean and scale should be numbers")
            return NoiseStep(like, output, float(scales[0]), float(scales[1]))
        return self._product(entry, where)

    def _product(self, entry: dict[str, Any], where: str) -> Product:
        source, result = self.names([entry.get("input"), entry.get("output")], where)
        if entry.get("kind") not in KINDS:
            raise self.wrong(where, f"kind {entry.get('kind')!r:.40} is none of {', '.join(KINDS)}")
        sizes = self._sizes(entry, ("window", "rows_in", "rows_out", "kernel", "stride", "dilation"), 1, where)
        pads = self._sizes(entry, ("pad_begin", "pad_end"), 0, where)
        return Product(self.inside(entry.get("net"), where), entry["kind"], source, result, *sizes, *pads)

    def _sizes(self, entry: dict[str, Any], keys: Sequence[str], least: int, where: str) -> list[int]:
        found = []
        for key in keys:
            value = entry.get(key)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
                raise self.wrong(where, f"{key} should be a whole number of {least} to {_MOST}")
            found.append(value)
        return found
