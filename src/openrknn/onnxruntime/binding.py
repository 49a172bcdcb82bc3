"""`IOBinding` of sessions with NPU parts: values live in the memory of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from openrknn.onnxruntime.real import onnxruntime, state


class Owner(Protocol):
    """The session that a binding belongs to."""

    def has_input(self, name: str) -> bool:
        """Whether the model has this input."""

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> list[Any]:
        """The outputs, in the order of their names."""


class IOBinding(onnxruntime.IOBinding):  # type: ignore[misc]
    """Inputs and outputs that stay bound from run to run. A session without our provider gets ONNX Runtime's own."""

    def __new__(cls, session: Any) -> Any:
        """ONNX Runtime's for its own sessions."""
        if getattr(session, "parted", None) is None:
            return onnxruntime.IOBinding(session)
        return super().__new__(cls)

    def __init__(self, session: Owner) -> None:
        # The one of ONNX Runtime is bound to a session of C++, which is not there.
        self._owner = session
        self._inputs: dict[str, Callable[[], Any]] = {}
        self._outputs: dict[str, Callable[[Any], None]] = {}
        self._results: dict[str, Any] = {}

    # ------------------------------------------------------------ inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """An array; what it holds at the time of the run is what counts."""
        self._check_input(name)
        if not isinstance(arr_on_cpu, np.ndarray):
            raise RuntimeError("Unable to create OrtValue from the given python object")
        self._inputs[name] = lambda: arr_on_cpu

    def bind_input(  # noqa: PLR0917 - as ONNX Runtime has it
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Memory of the caller, which has to live as long as the binding."""
        self._check_input(name)
        _check_device(device_type)
        seen = _memory(element_type, shape, buffer_ptr)
        self._inputs[name] = lambda: seen

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """An OrtValue; what it holds at the time of the run is what counts."""
        self._check_input(name)
        _check_device(ortvalue.device_name())
        self._inputs[name] = ortvalue.numpy

    def _check_input(self, name: str) -> None:
        if not self._owner.has_input(name):
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")

    # ------------------------------------------------------------ outputs

    def bind_output(  # noqa: PLR0917 - as ONNX Runtime has it
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Into the caller's memory if it is given, else into new arrays."""
        _check_device(device_type)
        if buffer_ptr is None:
            self._outputs[name] = lambda value: None
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        place = _memory(element_type, shape, buffer_ptr)

        def fill(value: Any) -> None:
            _check_place(name, place, value)
            place[...] = value

        self._outputs[name] = fill

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Into an OrtValue of the right type and shape."""
        _check_device(ortvalue.device_name())

        def fill(value: Any) -> None:
            _check_place(name, ortvalue.numpy(), value)
            ortvalue.update_inplace(np.ascontiguousarray(value))

        self._outputs[name] = fill

    # ------------------------------------------------------------ the run, and what came of it

    def run(self, run_options: Any = None) -> None:
        """Called by `run_with_iobinding`."""
        if not self._outputs:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        names = list(self._outputs)
        try:
            values = self._owner.run(names, {name: get() for name, get in self._inputs.items()}, run_options)
        except (ValueError, state.InvalidArgument) as error:
            text = str(error).partition("INVALID_ARGUMENT : ")[2] or str(error)
            raise RuntimeError(f"Error in execution: {text}") from error
        for name, value in zip(names, values, strict=True):
            self._outputs[name](value)
        self._results = dict(zip(names, values, strict=True))

    def get_outputs(self) -> list[Any]:
        """OrtValues of the last run, in the order of binding."""
        return [
            onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)) for value in self._results.values()
        ]

    def get_outputs_as_ortvaluevector(self) -> Any:
        """`get_outputs` as ONNX Runtime's C++ vector."""
        vector = state.OrtValueVector()
        for value in self.get_outputs():
            vector.push_back(value._get_c_value())
        return vector

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Arrays of the last run, in the order of binding."""
        return list(self._results.values())

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs, and what came of them."""
        self._outputs.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: a run ends when its outputs are there."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: a run ends when its outputs are there."""


def _check_device(kind: str) -> None:
    if kind.lower() not in {"cpu", "npu"}:
        raise RuntimeError(f"device {kind!r} is not here; bind memory of the CPU (device_type='cpu')")


def _check_place(name: str, place: Any, value: Any) -> None:
    value = np.asarray(value)
    if place.shape != value.shape or place.dtype != value.dtype:
        raise RuntimeError(
            f"Error in execution: output {name} is {value.dtype} {list(value.shape)}, but what was bound for it is "
            f"{place.dtype} {list(place.shape)}"
        )


def _memory(element_type: Any, shape: Sequence[int], address: int) -> Any:
    """An array over memory of the caller."""
    if isinstance(element_type, int):  # ONNX's number of a type
        from onnx import helper

        element_type = helper.tensor_dtype_to_np_dtype(element_type)
    kind = np.dtype(element_type)
    sizes = tuple(int(size) for size in shape)
    count = int(np.prod(sizes, dtype=np.int64))
    if not count:
        return np.zeros(sizes, kind)
    memory = (ctypes.c_byte * (count * kind.itemsize)).from_address(address)
    return np.frombuffer(memory, kind).reshape(sizes)
