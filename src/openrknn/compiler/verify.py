"""Whether a compiled model computes what its source does: ONNX in float, the software NPU, the vendor's runtime.

The first calibration inputs are run through all of them. Per output: the signal-to-noise ratio against float, and
where the vendor's library is installed, whether its bytes on an emulated device are the same (see `witness`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.compiler.api import Compiled
from openrknn.compiler.ir import Array
from openrknn.compiler.quantise.evaluate import FloatModel
from openrknn.distance import Distance, measure
from openrknn.errors import UnsupportedError
from openrknn.runtime.session import Session

__all__ = ["Verdict", "inputs_for", "raw_inputs", "verify", "verify_vendor"]

_INPUTS = 4
_GOOD_DB = {"int8": 20.0, "mixed": 20.0, "fp16": 40.0}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One output."""

    output: str
    distance: Distance
    """From ONNX in float."""
    runs: int
    expected_decibels: float

    @property
    def decibels(self) -> float:
        return self.distance.snr_db

    @property
    def is_good(self) -> bool:
        return self.decibels >= self.expected_decibels

    def as_json(self) -> dict[str, Any]:
        word = "ok" if self.is_good else f"below the usual {self.expected_decibels:.0f} dB; see docs: lost accuracy"
        if self.distance.overflowed:
            word = f"{self.distance.overflowed} numbers are infinite or NaN; see docs: lost accuracy"
        cosine = self.distance.cosine or 0.0
        return {
            "output": self.output, "snr_db": self.decibels, "cosine": cosine,
            "largest_error": self.distance.largest_error, "runs": self.runs, "is_good": self.is_good,
            "overflowed": self.distance.overflowed,
            "text": f"{self.output}: {self.decibels:.1f} dB, cosine {cosine:.5f} against ONNX in float ({word})",
        }  # fmt: skip


def verify(compiled: Compiled, feeds: list[dict[str, Array]] | None = None) -> list[Verdict]:
    """Compare on `feeds` (what the ONNX model takes), or on the first calibration inputs, or on noise."""
    graph = compiled.graph
    used = feeds or inputs_for(compiled)
    float_model = FloatModel(compiled.source, graph.outputs)
    wanted: dict[str, list[Array]] = {}
    given: dict[str, list[Array]] = {}
    with Session(compiled.model, "software") as session:
        layouts = {spec.name: "nchw" for spec in session.inputs if len(spec.shape) == 4}
        for feed in used:
            for name, values in float_model.run(feed):
                if name in graph.outputs:
                    wanted.setdefault(name, []).append(values)
            raw = raw_inputs(compiled, feed)
            for name, values in session.run(raw, layout=layouts or None).items():
                given.setdefault(name, []).append(values)
    limit = _GOOD_DB[compiled.format_name]
    return [
        Verdict(name, measure(_joined(given[name]), _joined(wanted[name])), len(used), limit)
        for name in compiled.lowering.program.outputs
    ]


def inputs_for(compiled: Compiled) -> list[dict[str, Array]]:
    """What to try it on, as the ONNX model takes it: the first calibration inputs, or noise."""
    return compiled.samples[:_INPUTS] or [_noise(compiled)]


def raw_inputs(compiled: Compiled, feed: dict[str, Array]) -> dict[str, Array]:
    """What the ONNX model takes, as a Session takes it."""
    return {name: compiled.preprocess.undo(name, values) for name, values in feed.items()}


def verify_vendor(compiled: Compiled, library: str | None = None) -> list[dict[str, Any]]:
    """The vendor's runtime beside the software NPU and float; one entry that says why, where it cannot be run."""
    from openrknn.compiler.witness import ask_vendor

    used = inputs_for(compiled)
    try:
        witnesses = ask_vendor(compiled, [raw_inputs(compiled, feed) for feed in used], library)
    except (UnsupportedError, OSError) as error:
        return [{"is_same": None, "text": f"the vendor's runtime was not asked: {error}"}]
    float_model = FloatModel(compiled.source, compiled.graph.outputs)
    wanted = [dict(float_model.run(feed)) for feed in used]
    on_cpu = [step.name for step in compiled.lowering.program.steps if step.is_cpu]
    entries = []
    for witness in witnesses:
        reference = _joined(values[witness.output] for values in wanted)
        decibels = measure(_joined(witness.values), reference).snr_db
        entries.append({
            "output": witness.output, "is_same": witness.is_same, "numbers": witness.numbers,
            "different": witness.different, "largest_steps": witness.largest_steps, "first": list(witness.first),
            "snr_db": decibels, "text": witness.text(on_cpu, decibels),
        })  # fmt: skip
    return entries


def _joined(arrays: Iterable[Array]) -> Array:
    return np.concatenate([values.reshape(-1) for values in arrays])


def _noise(compiled: Compiled) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {
        name: generator.normal(0, 1, compiled.graph.values[name].shape).astype(np.float32)
        for name in compiled.graph.inputs
    }
