"""What all lowerings share: the graph, the program that grows, and the tensors of values and constants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.compiler.budget import MOST_TASKS, refuse_tasks
from openrknn.compiler.formats import Format, align, dtype_of
from openrknn.compiler.functions import Function
from openrknn.compiler.ir import Array, Graph, Op, Quantization
from openrknn.compiler.program import Program, Step, Task, Tensor
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.recipes.elementwise import LARGEST_SIDE, Cube, band_task
from openrknn.compiler.targets import Target
from openrknn.compiler.tile import parts
from openrknn.container.parts import DataType, Kind
from openrknn.layout.features import FeatureLayout
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address

_SHARED = 1024
"""Bytes of constants that are worth a look whether there are equal ones."""


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that change what is emitted."""

    bias_correction: bool = False
    core_counts: tuple[int, ...] = ()
    """Numbers of cores, above one, that steps are shared by."""


@dataclass(slots=True)
class Lowering:
    """State of the stage."""

    graph: Graph
    program: Program
    options: Options
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    """What an operator writes -> the table that it needs."""
    errors: dict[str, float] = field(default_factory=dict)
    current: Format | None = None
    """Of the operator that is being lowered."""
    known: dict[Any, str] = field(default_factory=dict)
    """Constants by what is in them."""
    packed: MutableMapping[str, Any] | None = None
    """What convolutions of other graphs with the same weights have packed, by name; None: there are none."""

    @property
    def format(self) -> Format:
        return self.current or self.program.format

    @property
    def has_floats(self) -> bool:
        """Whether anything is fp16."""
        return any(value.quantization is None for value in self.graph.values.values())

    def format_of(self, name: str) -> Format:
        """How a value is stored."""
        return self.target.fp16 if self.quantization(name) is None else self.target.int8

    @property
    def target(self) -> Target:
        """The chip."""
        return self.program.target

    def tensor(self, name: str) -> Tensor:
        return self.program.tensors[name]

    def quantization(self, name: str) -> Quantization | None:
        return self.graph.values[name].quantization

    def cube(self, name: str) -> Cube:
        tensor = self.tensor(name)
        return Cube(tensor.at(), tensor.pitch)

    def step(self, op: Op, kind: str, *, inputs: list[str] | None = None, outputs: list[str] | None = None) -> Step:
        """A new step of the program."""
        step = Step(
            kind, f"{kind}:{op.name}", list(inputs if inputs is not None else self.graph.activations(op)),
            list(outputs if outputs is not None else op.outputs), fused=(op.name, *op.fused),
        )  # fmt: skip
        self.program.steps.append(step)
        return step

    def expect(self, step: Step, count: int) -> None:
        """Before so many more tasks are made."""
        if len(step.tasks) + count > MOST_TASKS:
            refuse_tasks(step.name, *step.fused)

    def add(self, step: Step, task: Task) -> None:
        self.expect(step, 1)
        step.tasks.append(task)

    def add_rows(self, step: Step, task: Elementwise[Address]) -> None:
        """A task of the DPU that works pixel by pixel: cores share its rows, or the columns of its only row."""
        size = next((side for side in (task.reader.height, task.reader.width) if side > 1), 1)
        if size > LARGEST_SIDE:  # one row, of a number of pixels that has no factors
            self.expect(step, -(-size // LARGEST_SIDE))
            for part in parts(size, 1, -(-size // LARGEST_SIDE)):
                self.add_rows(step, band_task(task, *part, self.program.tensors))
            return
        made = Task(task)
        self.add(step, made)
        for cores in self.options.core_counts:
            bands = [Task(band_task(task, *part, self.program.tensors)) for part in parts(size, 1, cores)]
            self.share(step, cores, [[band] for band in bands] or [[made]])

    def share(self, step: Step, cores: int, lists: list[list[Task]]) -> None:
        """More tasks for each core; what cannot be shared is for the first."""
        known = step.shares.setdefault(cores, [[] for _ in range(cores)])
        for core, tasks in enumerate(lists):
            known[core] += tasks

    def data(self, base: str, data: bytes, shape: tuple[int, ...], dtype: DataType, layout: str = "data",
             native: tuple[int, ...] = (), kind: Kind = Kind.WEIGHT) -> str:  # fmt: skip
        """A constant of the file; equal ones are stored once (the steps of a recurrent layer share their weights)."""
        key = (hashlib.sha256(data).digest(), shape, dtype, layout, native, kind) if len(data) > _SHARED else None
        if key in self.known:
            return self.known[key]
        name, number = base, 0
        while name in self.program.tensors:
            existing = self.program.tensors[name]
            if existing.data == data and existing.layout == layout:
                return name
            number += 1
            name = f"{base}_{number}"
        self.program.tensors[name] = Tensor(
            name, kind, dtype, shape, layout, native_shape=native or shape, data=data, size_bytes=len(data),
            atom_bytes=self.target.atom_bytes,
        )  # fmt: skip
        if key is not None:
            self.known[key] = name
        return name

    def feature_constant(self, name: str, cube: tuple[int, int, int], quantization: Quantization | None) -> str:
        """A constant operand in the layout of an activation."""
        given = self.graph.constants[name]
        whole = given.reshape(1, *cube) if given.size == cube[0] * cube[1] * cube[2] else given
        array = np.broadcast_to(whole, (1, *cube)).astype(np.float64)
        pitch = align(cube[1] * cube[2], 4) if cube[1] * cube[2] > 1 else 1
        packed = pack_features(array, self.format, quantization, pitch)
        made = self.data(f"{name}_map", packed, (1, *cube), dtype_of(self.format))
        tensor = self.program.tensors[made]
        tensor.cube, tensor.element_bytes, tensor.pitch = cube, self.format.element_bytes, pitch
        return made


def pack_features(values: Array, form: Format, quantization: Quantization | None, pitch: int) -> bytes:
    """[1, C, H, W] as the NPU reads it."""
    if quantization is not None:
        stored = np.clip(np.rint(values / quantization.scale) + quantization.zero_point, -128, 127).astype(np.int8)
    else:
        stored = values.astype(np.float16)
    _, channels, height, width = stored.shape
    layout = FeatureLayout(
        1, channels, height, width, form.atom, form.surfaces(channels), line_pitch=width, surface_pitch=pitch
    )
    return layout.pack(stored).tobytes()
