"""Who wrote what each task reads: operators are followed in execution order over labels instead of data.

Every byte of internal memory, of the inputs and of the outputs has a label: the operator that wrote it last, or that
none did. A read looks at the label of the first byte of each atom that it fetches: all units write whole atoms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.analysis.lint.program import Decoded, Region, Work
from openrknn.container.parts import Tensor
from openrknn.npu.accesses import Access, accesses_of
from openrknn.npu.task import Step

Labels = npt.NDArray[np.int16]

NOBODY = 0
OUTSIDE = -1
"""The application, which fills the inputs."""


_MAP_DIMENSIONS = 5
"""NC1HWC2."""
_NOW = 0
"""Row of the labels; row 1 has the label before the last."""


def is_scratch(tensor: Tensor) -> bool:
    """Memory of the compiler's own that it lists among an operator's inputs."""
    return tensor.name.endswith("_exSecondary")


class Seen(NamedTuple):
    """One read of memory that changes, and whose data it finds there."""

    work: Work
    step: Step
    access: Access
    tensor: Tensor | None
    """The operator's input at this address; None for scratch memory and where none is known."""
    labels: frozenset[int]
    overwritten_by: int | None
    """An operator that wrote over the tensor after its maker did."""


class History:
    """Follows the whole graph once: `seen` has all reads in order, `unwritten` the outputs that were never written."""

    def __init__(self, decoded: Decoded) -> None:
        self.decoded = decoded
        ends = {decoded.graph.tensors[index].index for index in (*decoded.graph.inputs, *decoded.graph.outputs)}
        self._labels: dict[int, Labels] = {}
        for region in decoded.regions:
            if region == decoded.internal or (region.tensor is not None and region.tensor.index in ends):
                self._labels[region.address] = np.zeros((2, region.size_bytes), np.int16)
        for index in decoded.graph.inputs:
            labels = self._labels.get(decoded.places[decoded.graph.tensors[index].name])
            if labels is not None:
                labels[_NOW] = OUTSIDE
        self.seen: tuple[Seen, ...] = tuple(self._follow())
        self.unwritten = tuple(
            tensor
            for tensor in (decoded.graph.tensors[index] for index in decoded.graph.outputs)
            if tensor.size_bytes and self._is_untouched(tensor)
        )

    def _is_untouched(self, tensor: Tensor) -> bool:
        labels = self._labels.get(self.decoded.places[tensor.name])
        return labels is not None and not labels[_NOW].any()

    def _follow(self) -> Iterator[Seen]:
        for work in self.decoded.works:
            if not work.on_npu:
                for tensor in work.operator.outputs:
                    self._mark_tensor(tensor, self.label(work))
                continue
            for step in work.steps:
                found = list(accesses_of(step))
                for access in found:
                    if not access.writes:
                        yield from self._read(work, step, access)
                for access in found:
                    if access.writes and access.exact:
                        self._write(access, self.label(work))
                    elif access.writes:
                        self._write_within(access, work)

    @staticmethod
    def label(work: Work) -> int:
        """Of an operator; 0 means none."""
        return work.operator.index + 1

    def _region(self, access: Access) -> tuple[Region, Labels] | None:
        region = self.decoded.region_at(access.first)
        if region is None or region.address not in self._labels or access.first >= region.end:
            return None
        return region, self._labels[region.address]

    def _read(self, work: Work, step: Step, access: Access) -> Iterator[Seen]:
        place = self._region(access)
        if place is None or access.end > place[0].end:
            return  # a constant, or outside: another rule's
        region, labels = place
        now, before = (_walk(part, access.address - region.address, access, axes=3) for part in labels)
        tensor = self.decoded.tensor_at(access.first, work.operator.inputs)
        if tensor is None or is_scratch(tensor):
            yield Seen(work, step, access, None, frozenset(np.unique(now).tolist()), None)
            return
        makers = list(self.makers(tensor) | {self.label(work)})
        lost = ~np.isin(now, makers) & np.isin(before, makers)
        guilty = int(now[lost][0]) if lost.any() else None
        yield Seen(work, step, access, tensor, frozenset(np.unique(now).tolist()), guilty)

    def _write(self, access: Access, label: int) -> None:
        place = self._region(access)
        if place is None:
            return
        region, labels = place
        start = access.address - region.address
        if access.end > region.end:  # clipped: what lies behind a region is another rule's
            parts = [part[access.first - region.address :] for part in labels]
        else:
            parts = [_walk(part, start, access, axes=4) for part in labels]
        now, before = parts
        np.copyto(before, now, where=now != label)
        now[...] = label

    def _write_within(self, access: Access, work: Work) -> None:
        """A superset of what is written: only bytes inside the operator's own tensors count."""
        for tensor in (*work.operator.outputs, *work.operator.inputs):
            if tensor.name in self.decoded.places and (tensor in work.operator.outputs or is_scratch(tensor)):
                address = self.decoded.places[tensor.name]
                start, end = max(address, access.first), min(address + tensor.size_bytes, access.end)
                if start < end:
                    self._write(replace(access, address=start, shape=(1, 1, 1, end - start)), self.label(work))

    def _mark_tensor(self, tensor: Tensor, label: int) -> None:
        address = self.decoded.places.get(tensor.name)
        region = self.decoded.region_at(address) if address is not None else None
        if address is None or region is None or region.address not in self._labels:
            return
        start = address - region.address
        self._labels[region.address][_NOW, start : start + tensor.size_bytes] = label

    def _overlap(self, one: Tensor, other: Tensor) -> bool:
        first, second = (self.decoded.places.get(tensor.name, -1) for tensor in (one, other))
        return first < second + other.size_bytes and second < first + one.size_bytes

    def _sharers(self, tensor: Tensor) -> set[int]:
        """Labels of the operators that make parts of a tensor, or a tensor of which it is a part.

        Of a Concat or Split that is done by addresses alone a file may keep no operator: only the places tell.
        """
        address = self.decoded.places.get(tensor.name)
        if address is None:
            return set()
        end = address + _extent(tensor)
        found: set[int] = set()
        for name, maker in self._makers.items():
            start = self.decoded.places.get(name)
            if start is None:
                continue
            stop = start + self._extents[name]
            if address <= start < stop <= end or start <= address < end <= stop:
                found.add(self.label(maker))
        return found

    @cached_property
    def _extents(self) -> Mapping[str, int]:
        return {tensor.name: _extent(tensor) for tensor in self.decoded.graph.tensors}

    @cached_property
    def _makers(self) -> Mapping[str, Work]:
        """The last operator that writes each tensor."""
        return {name: writers[-1] for name, writers in self._writers.items()}

    @cached_property
    def _writers(self) -> Mapping[str, list[Work]]:
        """All operators that write each tensor: some work in place, such as the exponential of a Softmax."""
        works = {work.operator.index: work for work in self.decoded.works}
        found: dict[str, list[Work]] = {}
        for operator in self.decoded.operators:
            for tensor in operator.outputs:
                found.setdefault(tensor.name, []).append(works.get(operator.index, Work(operator, (), on_npu=True)))
        return found

    def makers(self, tensor: Tensor) -> set[int]:
        """Labels that may stand in a tensor: its operator's, and those of the inputs that it finds in place.

        A Reshape has no task, and a Concat only tasks for inputs that are not in its output already.
        """
        found: set[int] = set()
        waiting, seen = [tensor], {tensor.name}
        while waiting:
            current = waiting.pop()
            writers = self._writers.get(current.name)
            if writers is None:
                found |= {OUTSIDE, *self._sharers(current)}
                continue
            for maker in writers:
                found.add(self.label(maker))
                for source in maker.operator.inputs:
                    is_new = source.kind.is_activation and source.name not in seen
                    if is_new and (not maker.steps or self._overlap(source, current)):
                        seen.add(source.name)
                        waiting.append(source)
        return found


def _extent(tensor: Tensor) -> int:
    """Bytes of the surfaces of a tensor; its size in the file may be rounded up to an even number of surfaces."""
    if len(tensor.native_shape) != _MAP_DIMENSIONS:
        return tensor.size_bytes
    count, surfaces, height, width, atom = tensor.native_shape
    step = max(tensor.pixel_alignment, 1)  # surfaces begin at multiples of so many pixels
    pixels = -(-height * width // step) * step
    return min(count * surfaces * pixels * atom * tensor.dtype.bits // 8, tensor.size_bytes)


def _walk(labels: Labels, start: int, access: Access, *, axes: int) -> Labels:
    """The labels along an access, as a view."""
    return np.lib.stride_tricks.as_strided(
        labels[start:],
        shape=access.shape[:axes],
        strides=tuple(step * labels.itemsize for step in access.steps[:axes]),
    )
