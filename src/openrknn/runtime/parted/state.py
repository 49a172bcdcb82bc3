"""States of a model in parts: arrays that go back in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.container.bundle import Port
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.feed import in_order
from openrknn.runtime.io.outputs import Outputs
from openrknn.runtime.parted.types import as_type
from openrknn.runtime.state import Carried, Layouts, check_pairs, initial_states, state_forms

Shapes = Mapping[str, tuple[int, ...]]


class CarriedArrays(Carried):
    """`Carried` of a model in parts, whose tensors have no memory of their own."""

    joined = ()

    def __init__(
        self, pairs: Mapping[str, str], ports: tuple[Sequence[Port], Sequence[Port]], shapes: Shapes,
        run: Callable[[dict[str, Any]], Outputs], layout: Layouts = None,
    ) -> None:  # fmt: skip
        """`ports`: inputs and outputs; `shapes`: of all of them, 0 where only a run decides."""
        inputs, outputs = ([port.name for port in some] for some in ports)
        self.pairs = check_pairs(pairs, inputs, outputs, shapes)
        self._run, self._closed = run, False
        self._types = {port.name: port.type for port in ports[0]}
        self._shapes = {name: shapes[name] for name in self.pairs.values()}
        unknown = next((name for name, shape in self._shapes.items() if 0 in shape), None)
        if unknown is not None:
            raise ValueError(f"input {unknown!r} has an open dimension; say its shape with set_shapes first")
        self._layouts, self._shapes = state_forms(self.pairs, shapes, layout)
        self._free = [name for name in inputs if name not in self._shapes]
        self.reset()

    def step(self, inputs: object, *, layout: str | Mapping[str, str] | None = None) -> Outputs:
        """Arrays have the shapes of the model that was cut, so `layout` says nothing new."""
        self._check_open()
        given = dict(zip(self._free, in_order(inputs if self._free or inputs else {}, self._free), strict=True))
        found = self._run({**given, **{name: self._as_input(name, value) for name, value in self._states.items()}})
        for name, becomes in self.pairs.items():
            self._states[becomes] = np.asarray(found.pop(name)).reshape(self._shapes[becomes])
        self.steps += 1
        return found

    def state(self) -> dict[str, Any]:
        self._check_open()
        return {name: np.array(value) for name, value in self._states.items()}

    def reset(self, initial: Mapping[str, object] | None = None) -> None:
        self._check_open()
        found = initial_states(initial or {}, self._shapes)
        self._states: dict[str, Any] = {name: as_type(_kept(value, self._types[name]), self._types[name], name)
                                        for name, value in found.items()}  # fmt: skip
        self.steps = 0

    def _as_input(self, name: str, value: Any) -> Any:
        return value.transpose(0, 3, 1, 2) if self._layouts[name] == "nhwc" else value

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("what was carried is closed; carry again")


def _kept(value: Any, kind: str) -> Any:
    """States of whole numbers came in as floats."""
    return value if "float" in kind or "double" in kind else value.astype(np.int64)
