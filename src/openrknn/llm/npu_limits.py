"""What an engine decides and checks when it opens a compiled file: cores, sequences in memory, ports of graphs."""

from __future__ import annotations

from math import prod

import numpy as np

from openrknn.container.model import Model
from openrknn.device import Device
from openrknn.device.rknpu import RknpuDevice
from openrknn.device.rocket import RocketDevice
from openrknn.errors import FormatError
from openrknn.llm.file import LanguageFile, StepEntry
from openrknn.llm.limits import joined_cores
from openrknn.llm.ports import Ports, cache_numbers
from openrknn.runtime.binding import Binding

__all__ = ["check_ports", "least_together", "most_cores", "most_resident"]

_MOST_RESIDENT = 8
_RESIDENT_BYTES = 1 << 28
"""Limit of all resident caches together, unless `resident` is given."""


_SOFTWARE_LEAST = 5
"""Of eight tokens: the software NPU computes them all, which takes it as long as five alone."""


def least_together(entry: StepEntry, device: Device) -> int:
    """Sequences from which on one run for all of them is faster."""
    if isinstance(device, RknpuDevice | RocketDevice):
        return entry.least
    return max(entry.least, min(entry.sequences, -(-_SOFTWARE_LEAST * entry.tokens // 8)))


def most_cores(model: Model, device: Device) -> int:
    """Of the vendor's driver, which starts cores together. The software NPU does one task after the other anyway."""
    if not isinstance(device, RknpuDevice):
        return 1
    cores = joined_cores(model)
    return cores if cores <= device.cores else 1


def most_resident(file: LanguageFile, device: Device) -> int:
    """Sequences with memory of the NPU, unless the user says."""
    if not isinstance(device, RknpuDevice | RocketDevice):
        return 1
    return min(_MOST_RESIDENT, max(1, _RESIDENT_BYTES // (2 * cache_numbers(file.config, file.capacity))))


def check_ports(ports: Ports, bound: Binding, name: str, *, logits: bool) -> None:
    """The manifest and the model have to agree: a file is not to be trusted."""
    inputs, outputs = (
        {one: prod(shape) for one, shape in shapes.items()} for shapes in (ports.inputs(), ports.outputs(logits=logits))
    )
    for wanted, there in ((inputs, bound.inputs), (outputs, bound.outputs)):
        found = {one: (there[one].size, there[one].dtype) for one in there}
        fits = wanted.keys() == found.keys() and all(found[one][1] == np.float16 for one in wanted)
        # Channels are padded to whole atoms, for each of the tokens.
        room = {one: 32 * (ports.tokens if one == "logits" else 1) for one in wanted}
        if not fits or any(not numbers <= found[one][0] < numbers + room[one] for one, numbers in wanted.items()):
            raise FormatError(f"{name}: the graph of {ports.tokens} token(s) takes and gives {found}, not {wanted}")
