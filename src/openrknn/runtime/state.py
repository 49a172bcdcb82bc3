"""States that stay on the device: what a step writes is what the next one reads.

Two programs of the same graph take turns. They share all memory, but the state that one of them writes is where the
other one reads: nothing is copied, converted or rounded between steps. Where an output and the input that it becomes do
not have the same memory layout, the state is read and fed again, once a step.

Models from TFLite and TensorFlow have inputs that are [N, C, H, W] for us and outputs that are [N, H, W, C]: which of
the two a state is, follows from the shapes, or from `layout=` where they do not say it. A state has the shape of its
output wherever a program sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from openrknn.closing import Closing
from openrknn.runtime.engine import Engine, Runnable
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.feed import feed, in_order, layouts_in_order
from openrknn.runtime.io.arrange import shape_in, state_layout
from openrknn.runtime.io.copies import copier
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.outputs import OutputPort, Outputs
from openrknn.runtime.io.tensors import Array, StoredTensor, stored_bytes
from openrknn.runtime.program.program import Program

Execute = Callable[[Runnable, frozenset[str]], None]
Layouts = str | Mapping[str, str] | None


class Carried(Closing):
    """A model with a memory: `session.carry` makes it.

    with session.carry({"h_out": "h_in"}) as layer:
        for frame in frames:
            found = layer.step({"x": frame})        # without the states
    """

    pairs: Mapping[str, str]
    """Output -> the input that it becomes."""
    joined: tuple[str, ...]
    """The outputs that are not copied."""
    steps: int
    """Since the last reset."""

    def step(self, inputs: object, *, layout: str | Mapping[str, str] | None = None) -> Outputs:
        """One step; takes the other inputs as `Session.run` does, and gives the other outputs.

        Raises what `Session.run` raises.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Array]:
        """What the next step will read, by input: copies, for `reset`."""
        raise NotImplementedError

    def reset(self, initial: Mapping[str, object] | None = None) -> None:
        """Begin again with zeros, or with these states by input; states that are not named are zeros."""
        raise NotImplementedError


class CarriedProgram(Carried):
    """`Carried` on a device."""

    def __init__(
        self, engine: Engine, graph: int, pairs: Mapping[str, str], execute: Callable[..., None], layout: Layouts = None
    ) -> None:
        self._execute = execute
        first = engine.program_in(graph, {})
        self._turns: list[Runnable] = [first]
        self.steps = 0
        self._closed = False
        try:
            inputs, outputs = {p.name: p for p in first.inputs}, {p.name: p for p in first.outputs}
            shapes = {name: port.stored.tensor.shape for name, port in inputs.items()}
            shapes.update({name: port.stored.tensor.shape for name, port in outputs.items()})
            self.pairs = check_pairs(pairs, list(inputs), list(outputs), shapes)
            self._layouts, self._shapes = state_forms(self.pairs, shapes, layout)
            self.joined = ()
            if isinstance(first, Program):
                self.joined = tuple(
                    one
                    for one, other in pairs.items()
                    if self._layouts[other] != "nhwc" and alike(outputs[one], inputs[other])
                )
            if self.joined and isinstance(first, Program):
                self._turns.append(engine.program_in(graph, _exchanged(first, {n: pairs[n] for n in self.joined})))
            self._free = [name for name in inputs if name not in set(pairs.values())]
            self._ports = [{port.name: port for port in turn.inputs} for turn in self._turns]
            self._results = [{port.name: port for port in turn.outputs} for turn in self._turns]
            self._copies = [self._copies_of(turn) for turn in range(len(self._turns))]
            self.reset()
        except BaseException:
            self.close()
            raise

    def step(self, inputs: object, *, layout: str | Mapping[str, str] | None = None) -> Outputs:
        self._check_open()
        at = self.steps % len(self._turns)
        program, ports, results = self._turns[at], self._ports[at], self._results[at]
        values = in_order(inputs if self._free or inputs else {}, self._free)
        layouts = None if layout is None else layouts_in_order(layout, self._free)
        pixels = feed(program, [ports[name] for name in self._free], values, layouts, pass_through=False)
        self._execute(program, pixels)
        self.steps += 1
        for copy in self._copies[at]:
            copy()
        return Outputs((name, port.read("float")) for name, port in results.items() if name not in self.pairs)

    def state(self) -> dict[str, Array]:
        self._check_open()
        ports = self._ports[self.steps % len(self._turns)]
        return {name: self._taken(ports[name]) for name in self.pairs.values()}

    def reset(self, initial: Mapping[str, object] | None = None) -> None:
        self._check_open()
        ports = self._ports[0]
        states = initial_states(initial or {}, self._shapes)
        self.steps = 0
        for name, value in states.items():
            ports[name].stored.clear_lanes()
            self._put(ports[name], value)

    def close(self) -> None:
        self._closed = True
        while self._turns:
            self._turns.pop().close()

    def _copies_of(self, turn: int) -> list[Callable[[], None]]:
        """What takes the states that are not joined from one step to the next."""
        results, following = self._results[turn], self._ports[(turn + 1) % len(self._turns)]
        return [
            self._copy(results[name], following[becomes])
            for name, becomes in self.pairs.items()
            if name not in self.joined
        ]

    def _copy(self, made: OutputPort, read: InputPort) -> Callable[[], None]:
        source, target = made.stored, read.stored
        is_own = isinstance(self._turns[0], Program)
        if not (is_own and read.keeps_numbers and source.dtype == target.dtype == np.float16):
            return lambda: self._put(read, made.read("float"))
        given = target.places()
        given = given.transpose(0, 2, 3, 1) if self._layouts[read.name] == "nhwc" else given
        taken = source.places()
        copy, numbers = copier(source, taken, target, given), source.elements[int(taken.min()) : int(taken.max()) + 1]

        def checked() -> None:
            if np.isnan(numbers).any():
                self._put(read, made.read("float"))  # says what is wrong; other memory between is no state
            else:
                copy()

        return checked

    def _put(self, port: InputPort, value: Array) -> None:
        """A state into the input; `value` has its numbers in the order of the output."""
        if port.stored.dtype.kind in "iu" and port.stored.tensor.quantization is None and value.dtype.kind == "f":
            value = np.rint(value).astype(port.stored.dtype)  # a counter: whole numbers are fed as such
        port.feed(value.reshape(self._shapes[port.name]), self._layouts[port.name])

    def _taken(self, port: InputPort) -> Array:
        """A state as the output gave it."""
        value = port.unnormalized(OutputPort(port.stored).read("float"))
        if self._layouts[port.name] == "nhwc":
            value = value.transpose(0, 2, 3, 1)
        return np.array(value.reshape(self._shapes[port.name]))

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("what was carried is closed: its session was closed or given other shapes; carry again")


def check_pairs(
    pairs: Mapping[str, str], inputs: Sequence[str], outputs: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, str]:
    """Names that are there, each input once, and as many numbers on both sides."""
    if not pairs:
        raise ValueError('carry takes a dict, output: input, such as {"state_out": "state_in"}')
    for name, becomes in pairs.items():
        if name not in outputs:
            raise ValueError(f"no output is called {name!r}; the model has {', '.join(outputs)}")
        if becomes not in inputs:
            raise ValueError(f"no input is called {becomes!r}; the model has {', '.join(inputs)}")
        if 0 not in shapes[name] and np.prod(shapes[name]) != np.prod(shapes[becomes]):
            raise ValueError(
                f"output {name!r} is {list(shapes[name])} and input {becomes!r} {list(shapes[becomes])}: a state has "
                "one size"
            )
    taken = list(pairs.values())
    twice = next((name for name in taken if taken.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two outputs would become the input {twice!r}")
    return dict(pairs)


def initial_states(given: Mapping[str, object], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """What the first step reads: arrays of the right size, zeros where nothing was given."""
    unknown = [name for name in given if name not in shapes]
    if unknown:
        raise ValueError(f"no carried input is called {unknown[0]!r}; there are {', '.join(shapes)}")
    found: dict[str, Array] = {}
    for name, shape in shapes.items():
        value = np.asarray(given[name], np.float32) if name in given else np.zeros(shape, np.float32)
        if value.size != np.prod(shape):
            raise ValueError(f"state {name!r} is {list(shape)}; {list(value.shape)} was given")
        found[name] = value.reshape(shape)
    return found


def state_forms(
    pairs: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]], given: Layouts
) -> tuple[dict[str, str | None], dict[str, tuple[int, ...]]]:
    """Layout and shape of the state of each input, by the shapes of output and input."""
    wanted = dict(zip(pairs.values(), layouts_in_order(given, list(pairs.values())), strict=True))
    layouts: dict[str, str | None] = {}
    forms: dict[str, tuple[int, ...]] = {}
    for name, becomes in pairs.items():
        made, read = shapes[name], shapes[becomes]
        layouts[becomes] = state_layout(becomes, made, read, wanted[becomes])
        forms[becomes] = shape_in(read, "nhwc") if layouts[becomes] == "nhwc" else read
    return layouts, forms


def alike(made: OutputPort, read: InputPort) -> bool:
    """Whether the bytes of an output are those of the input; an input that is normalized has other numbers."""
    return read.keeps_numbers and same_memory(made.stored, read.stored)


def same_memory(left: StoredTensor, right: StoredTensor) -> bool:
    """Whether the bytes of one are those of the other."""
    one, other = left.tensor, right.tensor
    return (
        left.native.strides == right.native.strides
        and all(
            getattr(one, what) == getattr(other, what)
            for what in ("shape", "native_shape", "layout", "dtype", "quantization", "row_alignment")
        )
        and stored_bytes(one) == stored_bytes(other)
    )


def _exchanged(first: Program, joined: Mapping[str, str]) -> dict[str, object]:
    """The memory of the other program: the same, with states the other way round."""
    names = [*(port.name for port in first.inputs), *(port.name for port in first.outputs)]
    places: dict[str, object] = {name: first.buffer_of(name) for name in names}
    for name, becomes in joined.items():
        places[name], places[becomes] = first.buffer_of(becomes), first.buffer_of(name)
    return places
