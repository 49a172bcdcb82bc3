"""What the vendor's runtime makes of a compiled model, on an emulated device, beside what the software NPU makes of it.

Both share the NPU's arithmetic; what can differ is everything around it: how the file is read, inputs, operators of
the CPU, and outputs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openrknn.compiler.ir import Array
from openrknn.compiler.result import Compiled
from openrknn.compiler.trials import choose_shapes, grouped, items_of, run_items
from openrknn.container.model import TensorSpec
from openrknn.container.writer import encode
from openrknn.distance import in_bits
from openrknn.errors import UnsupportedError
from openrknn.runtime.io.values import decode
from openrknn.runtime.session import Session
from openrknn.runtime.shapes import specs


@dataclass(frozen=True, slots=True)
class Witness:
    """One output."""

    output: str
    numbers: int
    different: int
    largest_steps: float
    """The largest difference from the software NPU: steps of int8, or of the last bit of fp16."""
    first: tuple[int, ...]
    """Run and place of the first difference."""
    values: list[Array]
    """What the vendor's runtime gave, as real numbers, run by run."""

    @property
    def is_same(self) -> bool:
        return not self.different

    def text(self, cpu_operators: Sequence[str], decibels: float, name: str) -> str:
        """One line."""
        if self.is_same:
            return f"{name}: the vendor's runtime gives the same bytes"
        run, *place = self.first
        line = (
            f"{name}: the vendor's runtime differs in {self.different} of {self.numbers} numbers, by "
            f"{self.largest_steps:.0f} steps at most, first in run {run} at {place}; {decibels:.1f} dB against ONNX"
        )
        return line + (f". It has its own {', '.join(cpu_operators)}" if cpu_operators else "")


def ask_vendor(
    compiled: Compiled, number: int, raws: Sequence[Mapping[str, Array]], library: str | os.PathLike[str] | None = None
) -> list[Witness]:
    """Run both on `raws` (what a Session takes, [N, C, H, W]) with the shapes of the n-th graph.

    An `UnsupportedError` says why that cannot be done.
    """
    from openrknn.fakekernel.vendor_run import VendorRuntime

    runtime = VendorRuntime.find(library)
    model, variant = compiled.model, compiled.variants[number]
    with Session(model, "software") as session:
        choose_shapes(session, number)
        names = [spec.name for spec in session.inputs]
        fed = [{spec.name: _in_range(_channels_last(raw[spec.name]), spec) for spec in session.inputs} for raw in raws]
        ours = run_items(session, fed, items_of(model, variant), layout="nhwc", outputs="raw")
    # Runtime 1.5.2 crashes on float inputs of rknn_batch_size, in the vendor's own files too: it gets one at a time.
    single = replace(model, batch_text="0")
    shapes = [spec.shape for spec in specs(single, model.graphs[number], inputs=True)] if model.is_dynamic else None
    data = encode(single) if model.batch_size > 1 else compiled.data
    batch = variant.batch
    groups = [[group[name] for name in names] for group in grouped(fed, batch)]
    theirs = runtime.run(model.chip.name, data, groups, shapes=shapes)
    graph = model.graphs[number]
    found = []
    for index, output in enumerate(graph.outputs):
        tensor = graph.tensors[output]
        pairs = []
        for item, mine in enumerate(ours):
            whole = _like(mine[tensor.name], theirs[item // batch], index, tensor.name, batch)
            pairs.append((mine[tensor.name], whole[item % batch]))
        found.append(_compare(tensor.name, pairs, tensor))
    return found


def _channels_last(array: Array) -> Array:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1) if array.ndim == 4 else array, np.float32)


def _in_range(array: Array, spec: TensorSpec) -> Array:
    """Without four dimensions, runtime 1.5.2 wraps what is out of range round: 130 steps become -126, in the vendor's
    own files too. Our Session saturates. That is known, and not what is asked here."""
    if array.ndim == 4 or spec.quantization is None:
        return array
    scale, zero_point = spec.quantization.scale[0], spec.quantization.zero_point[0]
    return np.clip(array, (-128 - zero_point) * scale, (127 - zero_point) * scale)


def _like(mine: Array, outputs: list[bytes], index: int, name: str, batch: int) -> Array:
    """The items of an output; the runtime's buffer may be larger than they are."""
    size = mine.nbytes * batch
    if index >= len(outputs) or len(outputs[index]) < size:
        raise UnsupportedError(f"the vendor's runtime gave no output {name!r} of {size} bytes")
    return np.frombuffer(outputs[index], mine.dtype, mine.size * batch).reshape(batch, *mine.shape)


def _compare(name: str, pairs: list[tuple[Array, Array]], tensor: Any) -> Witness:
    count, largest = 0, 0.0
    first: tuple[int, ...] = ()
    for run, (mine, other) in enumerate(pairs):
        places = np.argwhere(mine.view(f"u{mine.itemsize}") != other.view(f"u{mine.itemsize}"))
        if len(places):
            first = first or (run, *map(int, places[0]))
            largest = max(largest, float(np.abs(in_bits(mine, other)).max()))
        count += len(places)
    values = [decode(other, tensor) for _, other in pairs]
    return Witness(name, sum(mine.size for mine, _ in pairs), count, largest, first, values)
