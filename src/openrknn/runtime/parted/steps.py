"""What runs one part: a `Session` for the NPU, ONNX Runtime for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from time import monotonic_ns
from typing import Any, Protocol

import numpy as np

from openrknn.container.bundle import Bundle, Part, Plan
from openrknn.container.onnxdata import refuse_external_data
from openrknn.errors import FormatError, RknnError, UnsupportedError
from openrknn.extras import missing
from openrknn.installed_onnxruntime import installed
from openrknn.numerics import MASKED
from openrknn.runtime.session import Session

_QUIET = 3


class UnfitError(RknnError, ValueError):
    """A value that has no place in the NPU: NaN on the way there, or more than 65504 inside."""


class Step(Protocol):
    """One part, ready to run."""

    part: Part

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Results in the order of the part's outputs."""

    def close(self) -> None:
        """Give everything back."""


class NpuStep:
    """A `.rknn` in a session of its own."""

    def __init__(self, part: Part, data: bytes, open_session: Callable[[bytes], Session]) -> None:
        self.part = part
        self.session = open_session(data)
        known = {spec.name: spec for spec in self.session.inputs}
        made = {spec.name for spec in self.session.outputs}
        lost = [name for name in part.inputs if name not in known] + [name for name in part.outputs if name not in made]
        if lost or len(known) != len(part.inputs):
            self.session.close()
            raise FormatError(f"{part.file} has no tensor {lost[0]!r}" if lost else f"{part.file} has other inputs")
        self._layouts = {name: "nchw" for name, spec in known.items() if len(spec.shape) == 4} or None

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Floats in, floats out."""
        feed = {
            name: np.ascontiguousarray(value, np.float32).reshape(self.part.shapes[name] or (1,))
            for name, value in zip(self.part.inputs, values, strict=True)
        }
        for name in self.part.masks:
            feed[name] = np.clip(feed[name], -MASKED, MASKED)
        try:
            found = self.session.run(feed, layout=self._layouts)
        except ValueError as error:
            raise UnfitError(f"{self.part.file}: {error}") from None
        for name in self.part.outputs:
            if not np.isfinite(found[name]).all():
                raise UnfitError(
                    f"{self.part.file}: {name!r} is more than a half float can hold; give smaller inputs, and masks of "
                    f"attention as {-MASKED:g} instead of minus infinity"
                )
        return [found[name].reshape(self.part.shapes[name]) for name in self.part.outputs]

    def close(self) -> None:
        """The session's memory."""
        self.session.close()


class CpuStep:
    """An `.onnx` in ONNX Runtime."""

    def __init__(self, part: Part, data: bytes, options: Any = None) -> None:
        """`options`: an `onnxruntime.SessionOptions`."""
        self.part = part
        refuse_external_data(data, part.file)
        try:
            onnxruntime = installed()
        except ImportError as error:
            raise UnsupportedError(f"parts of the CPU run in ONNX Runtime: {missing(error, 'parts')}") from None
        if options is None:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = _QUIET
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001  (it raises types of its own)
            raise FormatError(f"ONNX Runtime does not take {part.file}: {str(error).splitlines()[0]}") from None

        # Networks in half are floats inside, so an input of the model may not be what the part says.
        self._floats = {entry.name for entry in self._session.get_inputs() if entry.type == "tensor(float)"}

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Any types."""
        feed = dict(zip(self.part.inputs, values, strict=True))
        for name in self._floats.intersection(feed):
            if isinstance(feed[name], np.ndarray) and feed[name].dtype == np.float16:
                feed[name] = feed[name].astype(np.float32)
        found: list[Any] = self._session.run(list(self.part.outputs), feed)
        return found

    def shared(self) -> CpuStep:
        """This step for a second user: ONNX Runtime's sessions run from several threads at once."""
        return copy(self)

    def close(self) -> None:
        """The session's memory."""
        self._session = None


def run_plan(
    bundle: Bundle, plan: Plan, step_of: Callable[[int], Step], feed: Mapping[str, Any],
    timings: list[tuple[Part, int, int]] | None = None, *, kept: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """All parts in order; values are released after their last reader. `timings`: (part, start, stop).

    `kept`: gets every value.
    """
    wanted = {port.name for port in bundle.outputs}
    last: dict[str, int] = {}
    for at, number in enumerate(plan.parts):
        for name in bundle.parts[number].inputs:
            last[name] = at
    values = dict(feed)
    for at, number in enumerate(plan.parts):
        part, step = bundle.parts[number], step_of(number)
        began = monotonic_ns()
        found = step.run([values[name] for name in part.inputs])
        if timings is not None:
            timings.append((part, began, monotonic_ns()))
        for name in part.inputs:
            if last[name] == at and name not in wanted:
                values.pop(name, None)
        made = dict(zip(part.outputs, found, strict=True))
        values.update(made)
        if kept is not None:
            kept.update(made)
    return {port.name: values[port.name] for port in bundle.outputs}
