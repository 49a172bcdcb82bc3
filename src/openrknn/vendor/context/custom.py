"""Custom operators: Python functions that the library calls during a run.

    def softmax(op: Operation) -> None:
        axis = int(op.attribute("axis")[0])
        op.outputs[0].array[...] = scipy.special.softmax(op.inputs[0].array, axis)

    context.register_custom_ops([CustomOp("cstSoftmax", softmax)])

A function that raises ends the run: the library gets an error code, and the exception comes out of `Context.run` (or of
`register_custom_ops`, for `init`). Arrays over the library's tensors are valid inside the function only; one that is
kept raises there, as it would point into freed memory later.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.vendor.context.answers import TensorAttributes
from openrknn.vendor.library.library import Library
from openrknn.vendor.library.structs import CALLBACK, DESTROY_CALLBACK, encoded_name
from openrknn.vendor.tables.codes import SKIP_CUSTOM_OP_COMPUTE
from openrknn.vendor.tables.enums import TargetType, TensorFormat, TensorType

_FAIL = -1
_GOOD = 0
_LARGEST_ATTRIBUTE = 1 << 24


class Skip(Exception):  # noqa: N818 - it is an answer, not an error
    """Raised by a function to tell the library that there is nothing to compute (2.0.0-beta0)."""


class OperationTensor:
    """One input or output of an operator."""

    def __init__(self, raw: Any) -> None:
        self.attributes = TensorAttributes.from_struct(raw.attr)
        self._address: int = (raw.mem.virt_addr or 0) + max(raw.mem.offset, 0)
        self._size: int = raw.mem.size or raw.attr.size
        self._base: Any = None

    @property
    def array(self) -> npt.NDArray[Any]:
        """The tensor's memory, without a copy."""
        if self._address == 0:
            raise ValueError(f"tensor {self.attributes.name!r} has no address for the CPU")
        dtype, shape = self.attributes.dtype, self.attributes.shape
        needed = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if needed > self._size:
            raise ValueError(f"tensor {self.attributes.name!r} needs {needed} bytes and has {self._size}")
        if self._base is None:
            self._base = (ctypes.c_ubyte * self._size).from_address(self._address)
        return np.frombuffer(self._base, np.uint8)[:needed].view(dtype).reshape(shape)

    def end(self) -> bool:
        """Forget the memory; whether somebody still holds an array over it."""
        base, self._base, self._address = self._base, None, 0
        # Two references: `base` here and the argument of getrefcount.
        return base is not None and sys.getrefcount(base) > 2


class Operation:
    """One call of a custom operator."""

    def __init__(
        self, library: Library, raw: Any, inputs: list[OperationTensor], outputs: list[OperationTensor]
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._library = library
        self._raw = raw

    @property
    def target(self) -> TargetType:
        """Who executes the operator."""
        return TargetType(self._live().target)

    @property
    def gpu(self) -> tuple[int, int, int]:
        """OpenCL's context, command queue and kernel, for operators on the GPU."""
        gpu = self._live().gpu_ctx
        return gpu.cl_context or 0, gpu.cl_command_queue or 0, gpu.cl_kernel or 0

    def attribute(self, name: str) -> npt.NDArray[Any]:
        """`rknn_custom_op_get_op_attr`: an attribute of the operator in the model, as an array of its own."""
        self._live()
        answer = self._library.structs.rknn_custom_op_attr()
        function = self._library.function("rknn_custom_op_get_op_attr")
        function(ctypes.byref(self._raw), encoded_name(name), ctypes.byref(answer))
        count, data = int(answer.n_elems), answer.data
        if not data or count > _LARGEST_ATTRIBUTE:
            raise KeyError(f"the operator has no attribute {name!r}")
        kind = TensorAttributes(0, name, (count,), TensorFormat.UNDEFINED, TensorType(answer.dtype)).dtype
        return np.frombuffer(ctypes.string_at(data, count * kind.itemsize), kind).copy()

    def _live(self) -> Any:
        if self._raw is None:
            raise ValueError("an operation can only be used inside the function that it was given to")
        return self._raw

    def end(self) -> list[str]:
        """Nothing may be used from here on; the names of tensors that somebody kept an array of."""
        self._raw = None
        return [tensor.attributes.name for tensor in (*self.inputs, *self.outputs) if tensor.end()]


Function: TypeAlias = Callable[[Operation], object]


@dataclass(frozen=True)
class CustomOp:
    """An operator type of a model, and what to do for it.

    `init` is called at registration, `prepare` and `compute` at each run, `destroy` when the context is destroyed. For
    operators on the GPU `kernel_source` is an OpenCL program, or the path of one with `kernel_is_path`.
    """

    name: str
    """The operator's type in the model, such as "cstSoftmax"."""
    compute: Function
    init: Function | None = None
    prepare: Function | None = None
    compute_native: Function | None = None
    destroy: Callable[[], object] | None = None
    target: TargetType = TargetType.CPU
    version: int = 1
    kernel_name: str = ""
    kernel_source: str = ""
    kernel_is_path: bool = False
    build_options: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("an operator needs a name")
        for text in (self.name, self.kernel_name, self.build_options):
            encoded_name(text)
        for role in ("compute", "init", "prepare", "compute_native", "destroy"):
            function = getattr(self, role)
            if not callable(function) and (role == "compute" or function is not None):
                raise TypeError(f"{role} of operator {self.name!r} is not a function")
        if self.target is TargetType.GPU and not (self.kernel_name and self.kernel_source):
            raise ValueError(f"operator {self.name!r} on the GPU needs kernel_name and kernel_source")


class Registration:
    """The C structs of operators, and the callbacks in them; must live as long as the context."""

    def __init__(self, library: Library, operators: Sequence[CustomOp], errors: list[BaseException]) -> None:
        if not operators:
            raise ValueError("no operators were given")
        for operator in operators:
            if not isinstance(operator, CustomOp):
                raise TypeError(f"a CustomOp is needed, not {type(operator).__name__}")
        self._library = library
        self._errors = errors
        self._kept: list[object] = []
        self.structs = (library.structs.rknn_custom_op * len(operators))()
        for raw, operator in zip(self.structs, operators, strict=True):
            self._fill(raw, operator)

    def _fill(self, raw: Any, operator: CustomOp) -> None:
        raw.version, raw.target = operator.version, int(TargetType(operator.target))
        raw.op_type, raw.cl_kernel_name = encoded_name(operator.name), encoded_name(operator.kernel_name)
        raw.cl_build_options = encoded_name(operator.build_options)
        if operator.kernel_source:
            source = ctypes.create_string_buffer(operator.kernel_source.encode())
            self._kept.append(source)
            raw.cl_kernel_source = ctypes.addressof(source)
            raw.cl_source_size = 0 if operator.kernel_is_path else len(source) - 1
        for role in ("init", "prepare", "compute", "compute_native"):
            function = getattr(operator, role)
            if function is not None:
                setattr(raw, role, self._callback(function))
        if operator.destroy is not None:
            raw.destroy = self._destroyer(operator.destroy)

    def _callback(self, function: Function) -> Any:
        tensors = self._library.structs.rknn_custom_op_tensor
        contexts = self._library.structs.rknn_custom_op_context

        def called(context: int, inputs: int, n_inputs: int, outputs: int, n_outputs: int) -> int:
            try:
                read = [_tensors(tensors, address, n) for address, n in ((inputs, n_inputs), (outputs, n_outputs))]
                operation = Operation(self._library, contexts.from_address(context), *read)
                try:
                    function(operation)
                finally:
                    kept = operation.end()
                if kept:
                    raise BufferError(f"an operator kept an array over {', '.join(kept)}; keep a copy instead")
            except Skip:
                return SKIP_CUSTOM_OP_COMPUTE
            except BaseException as error:  # noqa: BLE001 - nothing may travel through the library's frames
                self._errors.append(error)
                return _FAIL
            return _GOOD

        made = CALLBACK(called)
        self._kept.append(made)
        return made

    def _destroyer(self, function: Callable[[], object]) -> Any:
        def called(context: int) -> int:
            try:
                function()
            except BaseException as error:  # noqa: BLE001 - as above
                self._errors.append(error)
                return _FAIL
            return _GOOD

        made = DESTROY_CALLBACK(called)
        self._kept.append(made)
        return made


def _tensors(kind: type[ctypes.Structure], address: int, count: int) -> list[OperationTensor]:
    return [OperationTensor(raw) for raw in (kind * count).from_address(address)] if address and count else []
