"""`CompiledGraph`: a flat FX graph as a callable, compiled for each set of shapes that it meets."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from openrknn.closing import Closing
from openrknn.torch.constants import ConstantWatch
from openrknn.torch.errors import LOG, warn_once
from openrknn.torch.options import TorchOptions
from openrknn.torch.program import FlatProgram

_GRAPHS: weakref.WeakSet[CompiledGraph] = weakref.WeakSet()
_MOST_CHANGES = 8
"""New parameters that a graph is compiled for again; a training loop would compile indefinitely."""

_AT_ONCE = 2
"""Sets of shapes that are compiled when they first come; later ones when they come again. A text that grows by one
token at each call would wait for the compiler at each call."""
_MOST_MET = 256

Examples = Callable[[Sequence[Any]], list[list[Any]]]
"""Flat example inputs for a call like this one."""


def compiled_graphs() -> list[CompiledGraph]:
    """Every graph that lives, in the order in which they were made: `report()` of each says what runs where."""
    return sorted(_GRAPHS, key=lambda graph: graph.number)


class CompiledGraph(Closing):
    """Takes and returns what the graph does. From whichever thread; one call runs at a time."""

    _made = 0

    def __init__(
        self, module: Any, constants: Sequence[int], options: TorchOptions, examples: Examples | None = None,
        name: str = "",
    ) -> None:  # fmt: skip
        CompiledGraph._made += 1
        self.number = CompiledGraph._made
        self.name = name or f"graph {self.number}"
        self.module = module
        self.options = options
        self.calls = 0
        self._constants = list(constants)
        self._examples = examples
        self._seen: list[list[Any]] = []
        self._programs: dict[tuple[Any, ...], list[tuple[ConstantWatch, FlatProgram]]] = {}
        self._changes = 0
        self._met: set[tuple[Any, ...]] = set()
        self._lock = threading.RLock()
        _GRAPHS.add(self)

    def __call__(self, *inputs: Any) -> Any:
        """Run it; compile it first where the shapes or the parameters are new."""
        with self._lock, torch.no_grad():
            self.calls += 1
            if self._is_collecting(inputs):
                return self.module(*inputs)
            program = self._program(inputs)
            if program is None:
                return self.module(*inputs)
            try:
                return program.run(inputs)
            except Exception as error:
                if program.effects.written or self.options.free_parameters:
                    raise  # a second run would write twice, or there is nothing to run
                LOG.debug("the run failed", exc_info=True)
                program.give_up(f"{type(error).__name__}: {error}")
                warn_once(f"openrknn: {self.name} runs in PyTorch, because its parts failed: {error}")
                return self.module(*inputs)

    def prepare(self, inputs: Sequence[Any]) -> None:
        """Compile for these inputs without running."""
        with self._lock, torch.no_grad():
            self._program(inputs, at_once=True)

    def forget_parameters(self) -> None:
        """From now on the caller guarantees that the parameters are the compiled ones."""
        with self._lock:
            for entries in self._programs.values():
                for watch, program in entries:
                    watch.trust()
                    program.forget()

    @property
    def programs(self) -> list[FlatProgram]:
        """One for each set of shapes and parameters."""
        return [program for entries in self._programs.values() for _, program in entries]

    def report(self) -> str:
        """What runs where, in words."""
        lines = [f"{self.name}: {len(self.programs)} sets of shapes, {self.calls} calls"]
        for key, entries in self._programs.items():
            for _, program in entries:
                lines.append(f"  inputs {_shapes_text(key)}")
                for share in program.shares:
                    reason = f": {share.reason}" if share.reason else ""
                    lines.append(f"    {share.kind:7} {share.nodes} nodes{reason}")
                    lines.extend(f"      {line}" for line in plan_lines(share.parted))
        return "\n".join(lines)

    def close(self) -> None:
        """Give everything back."""
        with self._lock:
            for program in self.programs:
                program.close()
            self._programs.clear()

    def _is_collecting(self, inputs: Sequence[Any]) -> bool:
        """Whether this call is one of those that int8 is calibrated on."""
        wanted = self.options.calibrate
        if not isinstance(wanted, int) or len(self._seen) >= wanted:
            return False
        self._seen.append([one.detach().clone() if isinstance(one, torch.Tensor) else one for one in inputs])
        return True

    def _program(self, inputs: Sequence[Any], *, at_once: bool = False) -> FlatProgram | None:
        mine = [inputs[at] for at in self._constants]
        key = self._key(inputs)
        entries = self._programs.get(key, [])
        for at, (watch, program) in enumerate(entries):
            difference = watch.difference(mine)
            if not difference:
                return program
            if difference == "changed":
                program.close()
                del entries[at]
                self._changes += 1
                LOG.warning("%s: a parameter has changed since it was compiled; it is compiled again", self.name)
                break
        if self._changes > _MOST_CHANGES:
            warn_once(
                f"openrknn: the parameters of {self.name} keep changing; it runs in PyTorch. Compile a model when it "
                "is trained"
            )
            return None
        if self.options.free_parameters and self.programs:
            raise ValueError(
                f"openrknn: {self.name} was compiled for other input shapes, and its parameters were released "
                "(free_parameters); call it with those shapes, or compile it with dynamic_shapes"
            )
        if len(self.programs) >= self.options.max_shapes:
            warn_once(
                f"openrknn: {self.name} met more than {self.options.max_shapes} sets of input shapes; further ones run "
                "in PyTorch. Pad the inputs to a few sizes, or raise the option max_shapes"
            )
            return None
        if not at_once and self._is_new(key):
            warn_once(
                f"openrknn: {self.name} has been compiled for {len(self.programs)} sets of input shapes, and further "
                "ones keep coming; each runs in PyTorch when it first comes, and is compiled when it comes again. Pad "
                "the inputs to a few sizes (a language model: a static cache)"
            )
            return None
        return self._compiled(inputs)

    def _is_new(self, key: tuple[Any, ...]) -> bool:
        """Whether these shapes come for the first time, after others that were compiled."""
        if key in self._met or key in self._programs or len(self.programs) < _AT_ONCE:
            return False
        if len(self._met) >= _MOST_MET:
            self._met.clear()
        self._met.add(key)
        return True

    def _key(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        constants = set(self._constants)
        return tuple(() if at in constants else _signature(one) for at, one in enumerate(inputs))

    def _compiled(self, inputs: Sequence[Any]) -> FlatProgram:
        examples = self._seen if self._seen else self._examples(inputs) if self._examples is not None else []
        fitting = [one for one in examples if _fits(one, inputs)]
        statics = {at: inputs[at].detach() for at in self._constants}
        program = FlatProgram(self.module, inputs, statics, self.options, fitting)
        self._constants = list(program.bound)  # what the graph itself writes to is no constant
        watch = ConstantWatch([inputs[at] for at in self._constants], self.options)
        if program.is_eager:
            reasons = "; ".join(dict.fromkeys(share.reason for share in program.shares if share.reason))
            LOG.info("%s runs in PyTorch: %s", self.name, reasons or "it computes nothing")
        self._programs.setdefault(self._key(inputs), []).append((watch, program))
        return program


def _signature(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), str(value.dtype))
    return value


def _fits(example: Sequence[Any], inputs: Sequence[Any]) -> bool:
    return all(_signature(one) == _signature(other) for one, other in zip(example, inputs, strict=True))


def _shapes_text(key: Sequence[Any]) -> str:
    texts = ("x".join(map(str, one[0])) or "scalar" if isinstance(one, tuple) else str(one) for one in key if one)
    return ", ".join(texts)


def plan_lines(parted: Any) -> list[str]:
    """The parts of a partition, a line each."""
    lines: list[str] = []
    for plan in getattr(parted, "plans", ()):
        lines.extend(
            f"{part.kind} {part.operators} operators, {part.macs / 1e6:.1f} M MACs"
            + (f": {part.reason}" if part.reason else "")
            for part in plan.parts
        )
    return lines
