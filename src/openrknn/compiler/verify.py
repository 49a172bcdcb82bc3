"""Whether a compiled model computes what its source does: ONNX in float, the software NPU, the vendor's runtime.

The first calibration inputs are run through all of them. Per output: the signal-to-noise ratio against float, and
where the vendor's library is installed, whether its bytes on an emulated device are the same (see `witness`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from openrknn.compiler.answers import Answer, decision_of
from openrknn.compiler.calibration import Calibration, feeds_for
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array
from openrknn.compiler.result import Compiled
from openrknn.compiler.trials import Feeds, choose_shapes, items_of, named, raw_inputs, run_items, shapes_text, trials
from openrknn.distance import Distance, measure
from openrknn.errors import UnsupportedError
from openrknn.runtime.session import Session

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
    shapes: str = ""
    """Of the inputs, where the model has several."""
    answer: Answer | None = None
    """Where the output decides something: how often as in float."""

    @property
    def decibels(self) -> float:
        return self.distance.snr_db

    @property
    def is_good(self) -> bool:
        """The answers are the float model's; where there are none, enough is left of the signal."""
        if self.distance.overflowed:
            return False
        if self.answer is not None and self.answer.of:
            return self.answer.is_same
        return self.decibels >= self.expected_decibels

    def as_json(self) -> dict[str, Any]:
        word = "ok" if self.is_good else f"below the usual {self.expected_decibels:.0f} dB; see docs: lost accuracy"
        if self.answer is not None and self.answer.of:
            word = str(self.answer) if self.is_good else f"{self.answer}; see docs: lost accuracy"
        if self.distance.overflowed:
            word = f"{self.distance.overflowed} numbers are infinite or NaN; see docs: lost accuracy"
        cosine, name = self.distance.cosine or 0.0, named(self.output, self.shapes)
        return {
            "output": self.output, "snr_db": self.decibels, "cosine": cosine,
            "largest_error": self.distance.largest_error, "runs": self.runs, "is_good": self.is_good,
            "overflowed": self.distance.overflowed, **self._answer(),
            **({"shapes": self.shapes} if self.shapes else {}),
            "text": f"{name}: {self.decibels:.1f} dB, cosine {cosine:.5f} against ONNX in float ({word})",
        }  # fmt: skip

    def _answer(self) -> dict[str, Any]:
        found = self.answer
        return {} if found is None else {"answers": {"what": found.what, "same": found.same, "of": found.of}}


def verify(compiled: Compiled, feeds: Feeds | None = None, *, count: int = _INPUTS) -> list[Verdict]:
    """Compare on `feeds` (what the ONNX model takes), or on the first calibration inputs, or on noise."""
    limit = _GOOD_DB[compiled.format_name]
    found = []
    with Session(compiled.model, "software") as session:
        for number, variant, used in trials(compiled, feeds, count):
            choose_shapes(session, number)
            float_model = FloatModel(variant.source, variant.graph.outputs)
            wanted = [dict(float_model.run(feed)) for feed in used]
            items = items_of(compiled.model, variant)
            given = run_items(session, [raw_inputs(compiled, feed) for feed in used], items)
            for name in variant.lowering.program.outputs:
                distance = measure(_joined(run[name] for run in given), _joined(run[name] for run in wanted))
                decides = decision_of(variant.source, variant.graph, name)
                pairs = [run[name] for run in given], [run[name] for run in wanted]
                answer = decides.compare(*pairs) if decides is not None else None
                found.append(Verdict(name, distance, len(used), limit, shapes_text(compiled, variant), answer))
    return found


def examples(compiled: Compiled, data: Calibration) -> list[dict[str, Array]]:
    """Data in any form that calibration takes, as the ONNX model takes them; the first few for each shape."""
    found: list[dict[str, Array]] = []
    for variant in compiled.variants:
        feeds = feeds_for(
            data, variant.graph, compiled.preprocess, batch=items_of(compiled.model, variant),
            is_choosy=len(compiled.variants) > 1,
        )
        found += islice(feeds, _INPUTS)
    if not found:
        raise CalibrationError("none of the examples fits an input of the model")
    return found


def verify_vendor(
    compiled: Compiled, library: str | None = None, feeds: list[dict[str, Array]] | None = None
) -> list[dict[str, Any]]:
    """The vendor's runtime beside the software NPU and float; one entry that says why, where it cannot be run."""
    from openrknn.compiler.witness import ask_vendor

    entries: list[dict[str, Any]] = []
    for number, variant, used in trials(compiled, feeds, _INPUTS):
        try:
            witnesses = ask_vendor(compiled, number, [raw_inputs(compiled, feed) for feed in used], library)
        except (UnsupportedError, OSError) as error:
            return [*entries, {"is_same": None, "text": f"the vendor's runtime was not asked: {error}"}]
        float_model = FloatModel(variant.source, variant.graph.outputs)
        wanted = [dict(float_model.run(feed)) for feed in used]
        on_cpu = [step.name for step in variant.lowering.program.steps if step.is_cpu]
        shapes = shapes_text(compiled, variant)
        for witness in witnesses:
            reference = _joined(values[witness.output] for values in wanted)
            decibels = measure(_joined(witness.values), reference).snr_db
            entries.append({
                "output": witness.output, "is_same": witness.is_same, "numbers": witness.numbers,
                "different": witness.different, "largest_steps": witness.largest_steps, "first": list(witness.first),
                "snr_db": decibels, **({"shapes": shapes} if shapes else {}),
                "text": witness.text(on_cpu, decibels, named(witness.output, shapes)),
            })  # fmt: skip
    return entries


def _joined(arrays: Iterable[Array]) -> Array:
    return np.concatenate([values.reshape(-1) for values in arrays])
