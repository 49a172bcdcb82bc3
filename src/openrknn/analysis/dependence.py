"""Whether the outputs of a model depend on its inputs: run it on four different inputs and compare.

    noise       pixels or numbers in the range of calibration
    lowest      the smallest number of the noise everywhere (0 where all are larger): a black picture
    highest     the largest one: a white picture
    gradient    the numbers of the noise in ascending order

`openrknn lint --run` reports outputs that do not depend on the inputs; `tools/wild` counts such files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.analysis.io_reports import input_reports
from openrknn.analysis.reports import InputReport
from openrknn.container.model import Model

Array: TypeAlias = npt.NDArray[Any]


def random_arrays(model: Model, seed: int = 0) -> dict[str, Array]:
    """Numbers as the model could meet them: pixels for pictures, else what calibration saw.

    Integers without a scale are 0: they can be indices, and the file does not say which ones are valid.
    """
    chance = np.random.default_rng(seed)
    batch = max(model.batch_size, 1)
    return {report.name: _random(report, batch, chance) for report in input_reports(model)}


def fixed_inputs(noise: Mapping[str, Array]) -> list[str]:
    """The inputs that have one value in all four inputs, so that nothing is known about their effect."""
    return [name for name, array in noise.items() if not array.any()]


def constant_outputs(run: Callable[[dict[str, Array]], Mapping[str, Array]], noise: Mapping[str, Array]) -> list[str]:
    """The outputs that are equal for all four inputs. Stops as soon as each output has changed once."""
    first = {name: np.array(value) for name, value in run(dict(noise)).items()}
    constant = list(first)
    for feeds in _others(noise):
        if not constant:
            break
        found = run(feeds)
        constant = [name for name in constant if _equal(first[name], found[name])]
    return constant


def _others(noise: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    yield {name: np.full_like(array, array.min(initial=0)) for name, array in noise.items()}
    yield {name: np.full_like(array, array.max(initial=0)) for name, array in noise.items()}
    yield {name: np.sort(array, axis=None).reshape(array.shape) for name, array in noise.items()}


def _equal(one: Array, other: Array) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _random(report: InputReport, batch: int, chance: np.random.Generator) -> Array:
    shape = (report.shape[0] * batch, *report.shape[1:]) if report.shape else ()
    if report.is_image:
        return chance.integers(0, 256, shape, np.uint8)
    if report.scale is None and not report.dtype.startswith("float"):
        return np.zeros(shape, report.dtype)
    low, high = report.calibrated or report.range or (-1.0, 1.0)
    # The range is that of the numbers behind the model's own mean and std; what is fed comes before them.
    mean, std = (values[0] if values else default for values, default in ((report.mean, 0.0), (report.std, 1.0)))
    return (chance.uniform(low, high, shape) * std + mean).astype(np.float32)
