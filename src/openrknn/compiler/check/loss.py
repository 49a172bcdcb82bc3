"""What an int8 file loses on calibration data, by what its outputs mean: decibels do not say whether it matters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from openrknn.compiler.accuracy.outputs import losses_of
from openrknn.compiler.check_result import LARGE_LOSS, CheckResult
from openrknn.compiler.ir import Array
from openrknn.compiler.result import Variant

_FEWEST = 2
"""Inputs: one alone says little about scores and classes."""


def add_losses(
    result: CheckResult, variant: Variant, pairs: Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]],
    told: Collection[str],
) -> None:  # fmt: skip
    """Measure the outputs, and warn of the worst one if it loses much and has not been `told` of yet."""
    if len(pairs) < _FEWEST:
        return
    names = [name for name in variant.graph.outputs if all(name in wanted for _, wanted in pairs)]
    names = [name for name in names if pairs[0][1][name].dtype.kind == "f"]
    if not names:
        return
    found = {name: [ours[name] for ours, _ in pairs] for name in names}
    wanted = {name: [right[name] for _, right in pairs] for name in names}
    losses = losses_of(variant.source, variant.graph, found, wanted)
    worst = max(losses, key=lambda entry: entry.loss)
    result.losses += [entry.as_json() for entry in losses]
    result.loss = max(result.loss, worst.loss)
    if worst.loss > LARGE_LOSS and worst.output not in told:
        result.warnings.append(
            f"int8 loses {worst.loss:.1%} of output {worst.output!r} on {len(pairs)} calibration inputs "
            f"({worst.measure}, {worst.snr_db:.1f} dB): --accuracy-drop 1% looks for a model that does not"
        )
