"""One graph on a device: its buffers, its commands with addresses, and its steps, ready to run again and again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from time import perf_counter

import numpy as np
import numpy.typing as npt

from openrknn.container.model import Model, Operator
from openrknn.container.parts import NO_TENSOR, DataType, Graph, Placement, Tensor
from openrknn.container.patch import input_values
from openrknn.device import DeviceBuffer, Job, PreparedJob
from openrknn.device.software import SoftwareDevice
from openrknn.errors import BudgetError, ExecutionError, UnsupportedError
from openrknn.isa import TAIL_WORDS
from openrknn.isa.words import value_of
from openrknn.npu.budget import UNLIMITED, Budget
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.outputs import OutputPort
from openrknn.runtime.io.tensors import Array, StoredTensor, constant, stored_bytes
from openrknn.runtime.io.values import cuts_fractions, decode_constant
from openrknn.runtime.operators import ABSENT
from openrknn.runtime.program.cpu import CpuCall, CustomOperator, cpu_demand, find_operators, is_placeholder, is_scratch
from openrknn.runtime.program.relocate import addresses_of, relocated_tasks, write_commands, write_values
from openrknn.runtime.program.rows import ferried, is_recurrent
from openrknn.runtime.program.steps import Segment, core_lists, is_joined, operators_to_run, split
from openrknn.runtime.program.weights import WeightStore

_MIN_BYTES = 64
_MOST_TIMES, _FREE_COMMANDS = 8, 100_000


class Program:
    """A graph that is bound to memory. `run` executes it on whatever the input buffers hold."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        store: WeightStore,
        internal: DeviceBuffer | None,
        *,
        cores: int,
        custom_ops: Mapping[str, CustomOperator],
        places: Mapping[str, DeviceBuffer] | None = None,
        borrowed: Collection[str] = (),
        budget: Budget = UNLIMITED,
    ) -> None:
        """`places`: memory of inputs and outputs; those of the names in `borrowed` stay when the program is closed."""
        self.model, self.graph, self._store, self._internal = model, graph, store, internal
        self._budget = budget
        self.operators = operators_to_run(model.operators_of(graph))
        self._lists = core_lists(graph, model.chip, cores)
        _check_decoding(graph, self._lists)
        self._compute = find_operators(
            model, [operator for operator in self.operators if operator.placement is not Placement.NPU], custom_ops
        )
        self.buffers: list[DeviceBuffer] = []
        self._tensors: dict[str, StoredTensor] = {}
        """Inputs, outputs and what CPU operators touch, by name."""
        ends = {graph.tensors[index].name: graph.tensors[index] for index in (*graph.inputs, *graph.outputs)}
        given = places or {}
        self._borrowed = frozenset(given[name] for name in borrowed)
        self._ends: dict[str, DeviceBuffer] = {}
        asked = sum(stored_bytes(tensor) for name, tensor in ends.items() if name not in given)
        budget.check_memory(asked, "inputs and outputs")
        addresses = {name: self._place(tensor, given.get(name)).address for name, tensor in ends.items()}
        self.inputs = tuple(self._input(number, graph.tensors[index]) for number, index in enumerate(graph.inputs))
        self.outputs = tuple(OutputPort(self._tensors[graph.tensors[index].name]) for index in graph.outputs)
        self.names = tuple(port.name for port in self.inputs)
        self.lanes = ((self.inputs, self.outputs),)
        self.batch = model.batch_size if model.batch_size > 1 else 0
        self._link(addresses)
        self._runs_singly = False
        self._plans: dict[tuple[frozenset[str], bool], list[tuple[Segment, Callable[[], None]]]] = {}
        self._jobs: list[tuple[bool, PreparedJob]] = []
        """Of all plans, each with whether its plan runs operators singly."""
        self._fed: frozenset[str] | None = None
        self._work = 0

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, pixels: frozenset[str]) -> None:
        """Execute all steps. `pixels` names the inputs that hold raw pixels."""
        for _, step in self._steps(pixels, singly=self._runs_singly):
            step()

    def forget(self) -> None:
        """Another program ran in between; the commands and the memory of this one are its own, so that is nothing."""

    def run_timed(self, pixels: frozenset[str]) -> Iterator[tuple[Operator, float]]:
        """`run`, operator by operator, with the seconds that each took."""
        for segment, step in self._steps(pixels, singly=True):
            started = perf_counter()
            step()
            yield segment.operators[0], perf_counter() - started

    def prepare_single_steps(self, pixels: frozenset[str]) -> None:
        """Decode what `run_timed` needs, and let `run` use it too: decoding takes longer than running."""
        self._runs_singly = True
        self._steps(pixels, singly=True)

    def forget_single_steps(self) -> None:
        """Drop what `run_timed` has prepared: it can be as large as the weights."""
        self._plans = {key: plan for key, plan in self._plans.items() if not key[1]}
        self._close_jobs(lambda singly: singly)

    def sizes(self) -> dict[str, int]:
        """Bytes of commands, inputs and outputs."""
        inputs = {port.name for port in self.inputs}
        totals = {"commands": 0, "inputs": 0, "outputs": 0}
        for buffer in self.buffers:
            kind = "commands" if buffer is self._commands else "inputs" if buffer.name in inputs else "outputs"
            totals[kind] += buffer.array.nbytes
        return totals

    def close(self) -> None:
        """Give the buffers back."""
        self._plans.clear()
        self._close_jobs(lambda singly: True)
        while self.buffers:
            buffer = self.buffers.pop()
            if buffer not in self._borrowed:
                self._store.device.free(buffer)

    def buffer_of(self, name: str) -> DeviceBuffer:
        """Where an input or output is."""
        return self._ends[name]

    def _steps(self, pixels: frozenset[str], *, singly: bool) -> list[tuple[Segment, Callable[[], None]]]:
        if self._fed != pixels:
            self._patch(pixels)
        if (pixels, singly) not in self._plans:
            if singly and is_joined(self.graph, self._lists) and not isinstance(self._store.device, SoftwareDevice):
                raise UnsupportedError(
                    "an operator of a job in which cores meet cannot run alone on a board; measure it with cores=1"
                )
            self._work = 0
            segments = split(self.graph, self.operators, self._lists, singly=singly)
            self._plans[pixels, singly] = [(segment, self._step(segment, singly=singly)) for segment in segments]
        return self._plans[pixels, singly]

    def _close_jobs(self, is_over: Callable[[bool], bool]) -> None:
        for singly, job in self._jobs:
            if is_over(singly):
                job.close()
        self._jobs = [(singly, job) for singly, job in self._jobs if not is_over(singly)]

    def _step(self, segment: Segment, *, singly: bool) -> Callable[[], None]:
        if not segment.is_npu:
            return self._call(segment.operators[0]).run
        try:
            job = self._store.device.prepare(self._job(segment, singly=singly))
            self._add_work(getattr(job, "operations", 0))
        except ExecutionError as error:
            error.operator = self._describe(error.operator)
            raise
        self._jobs.append((singly, job))
        first = segment.operators[0]
        if not is_recurrent(first):
            return job.run
        return ferried(first, self.graph, job.run, stored=self._activation, scratch=self._internal_bytes)

    def _job(self, segment: Segment, *, singly: bool) -> Job:
        """Operators that run singly are measured, once: nothing of them is kept for the next process."""
        constants = (self._store.buffer,) if self._store.buffer is not None else ()
        internal = (self._internal,) if self._internal is not None else ()
        return Job(self._tasks, segment.lists, constants=constants, buffers=(*self.buffers, *internal),
                   budget=self._budget, constants_digest=b"" if singly else self._store.digest(),
                   late=self._store)  # fmt: skip

    def _add_work(self, operations: int) -> None:
        """All parts of a run together stay within its budget."""
        self._work += operations
        self._budget.check_work(self._work, "the model")

    def _describe(self, number: str | None) -> str | None:
        """An operator's number with its name, for people."""
        known = {str(operator.index): operator.name or operator.type for operator in self.operators}
        return f"{number} {known[number]!r}" if number in known else number

    # -- memory --------------------------------------------------------------------------------------------------

    def _allocate(self, size_bytes: int, name: str) -> DeviceBuffer:
        buffer = self._store.device.allocate(max(size_bytes, _MIN_BYTES), name)
        self.buffers.append(buffer)
        return buffer

    def _place(self, tensor: Tensor, given: DeviceBuffer | None) -> DeviceBuffer:
        """Memory for an input or output: the user's, or new."""
        buffer = self._allocate(stored_bytes(tensor), tensor.name) if given is None else given
        if given is not None:
            self.buffers.append(given)
        self._tensors[tensor.name] = StoredTensor(tensor, buffer.array)
        self._ends[tensor.name] = buffer
        return buffer

    def _input(self, number: int, tensor: Tensor) -> InputPort:
        norms = self.graph.normalizations
        return InputPort(
            self._tensors[tensor.name],
            norms[number] if number < len(norms) else None,
            takes_pixels=self._takes_pixels(tensor) and number < len(norms),
        )

    def _takes_pixels(self, tensor: Tensor) -> bool:
        """The converter sits in front of the first convolution: all who read the input must have one."""
        return (
            self._tensors[tensor.name].is_image
            and tensor.dtype is DataType.INT8
            and any(patch.input == tensor.name for patch in self.graph.convert_patches)
            and all(one.placement is Placement.NPU for one in self.operators if tensor in one.inputs)
        )

    def _link(self, addresses: Mapping[str, int]) -> None:
        self._commands = commands = self._allocate(8 * len(self.graph.commands), "commands")
        located = addresses_of(
            self.graph,
            commands=commands.address,
            weights=self._store.address,
            weight_offsets=self._store.offsets[self.graph.index],
            internal=self._internal.address if self._internal is not None else 0,
            tensors=addresses,
        )
        self._words = commands.array.view(np.uint64)
        write_commands(self.graph, self._words, commands.address, located)
        self._tasks = relocated_tasks(self.graph, commands.address)
        patches = (*self.graph.convert_patches, *self.graph.image_patches)
        places = {slot.command for patch in patches for slot in patch.slots if slot is not None}
        self._unpatched = {command: value_of(int(self._words[command])) for command in places}

    def _patch(self, pixels: frozenset[str]) -> None:
        """Registers that depend on what is fed: they start from what the file says each time."""
        fed = {port.name: port.name in pixels for port in self.inputs}
        write_values(self._words, {**self._unpatched, **dict(input_values(self.model, self.graph, fed))})
        self._fed = pixels

    # -- operators of the CPU ------------------------------------------------------------------------------------

    def _call(self, operator: Operator) -> CpuCall:
        inputs, outputs = (
            [None if number == NO_TENSOR else self.graph.tensors[number] for number in numbers]
            for numbers in (operator.node.inputs, operator.node.outputs)
        )
        operands = [self._operand(tensor, operator) for tensor in inputs if tensor is None or not is_scratch(tensor)]
        results = [None if tensor is None else self._activation(tensor) for tensor in outputs]
        asked = cpu_demand(operator, [tensor for tensor in (*inputs, *outputs) if tensor is not None])
        self._budget.check_memory(asked.memory, f"operator {operator.index} {operator.name!r} ({operator.type})")
        self._add_work(asked.work)
        cut = [tensor is not None and cuts_fractions(self.model, tensor) for tensor in outputs]
        return CpuCall(operator, self._compute[operator.type], operands, results, cut=cut)

    def _operand(self, tensor: Tensor | None, operator: Operator) -> StoredTensor | Array:
        if tensor is None or is_placeholder(tensor):
            return ABSENT
        if tensor.kind.is_activation:
            return self._activation(tensor)
        return decode_constant(constant(self.model, tensor), tensor, operator)

    def _activation(self, tensor: Tensor) -> StoredTensor:
        if tensor.name not in self._tensors:
            self._tensors[tensor.name] = StoredTensor(tensor, self._internal_bytes(tensor))
        return self._tensors[tensor.name]

    def _internal_bytes(self, tensor: Tensor) -> npt.NDArray[np.uint8]:
        internal = self._internal.array if self._internal is not None else np.zeros(0, np.uint8)
        return internal[tensor.offset : tensor.offset + stored_bytes(tensor)]


def _check_decoding(graph: Graph, lists: Iterable[range]) -> None:
    """Task records of 40 bytes can name the same commands again and again, and each of them is decoded."""
    asked = sum(graph.tasks[number].amount + TAIL_WORDS for numbers in lists for number in numbers)
    if asked > _MOST_TIMES * len(graph.commands) + _FREE_COMMANDS:
        raise BudgetError(f"its tasks have {asked:,} commands, but the file has {len(graph.commands):,}; it is damaged")
