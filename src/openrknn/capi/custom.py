"""Operators that a C program brings: while a model runs, the library calls the program's functions.

A function sees tensors in an area of shared memory: inputs are copied there, the library calls `prepare` and `compute`,
and outputs are copied back. Real numbers are float32 there, whatever the model stores; integers without a scale are
what they are. `init` is called at the registration, once for each operator of the type in the model, and `destroy` with
the context.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from openrknn.capi.call import Call, CallError, Code, Reply
from openrknn.capi.memory import Memory
from openrknn.capi.structs import Codec, Values
from openrknn.capi.wire import Phase
from openrknn.container.model import Model, Operator
from openrknn.container.parts import NO_TENSOR, DataType, Placement, Tensor
from openrknn.errors import RknnError
from openrknn.runtime.operators import OPERATORS, SEVERAL
from openrknn.runtime.program.cpu import CustomOperator, OperatorAttributes, is_placeholder, is_scratch
from openrknn.runtime.program.steps import operators_to_run
from openrknn.vendor.tables.codes import SKIP_CUSTOM_OP_COMPUTE
from openrknn.vendor.tables.enums import MemoryOrigin, TargetType, TensorFormat, TensorType
from openrknn.vendor.tables.names import LIMITS

Array = npt.NDArray[Any]
_LINE = 64
_NCHW = 4
_TYPES = {
    np.dtype(np.float32): TensorType.FLOAT32, np.dtype(np.int8): TensorType.INT8, np.dtype(np.uint8): TensorType.UINT8,
    np.dtype(np.int16): TensorType.INT16, np.dtype(np.uint16): TensorType.UINT16, np.dtype(np.int32): TensorType.INT32,
    np.dtype(np.uint32): TensorType.UINT32, np.dtype(np.int64): TensorType.INT64, np.dtype(np.bool_): TensorType.BOOL,
}  # fmt: skip
_WHOLE = {
    DataType.INT8: np.int8, DataType.UINT8: np.uint8, DataType.INT16: np.int16, DataType.UINT16: np.uint16,
    DataType.INT32: np.int32, DataType.UINT32: np.uint32, DataType.INT64: np.int64, DataType.BOOL: np.bool_,
}  # fmt: skip
_BY_CPU = (Placement.CPU, Placement.CUSTOM)
_numbers = itertools.count(1)
"""internal_ctx of operators: a program's process has one line of them."""


class Owner(Protocol):
    """The context that operators belong to."""

    model: Model
    under_way: Call | None
    custom_ops: dict[str, CustomOperator]

    def operators_changed(self) -> None: ...


class Registered:
    """One rknn_custom_op."""

    def __init__(self, number: int, values: Values) -> None:
        self.number = number
        self.name: str = values["op_type"]
        self.phases = {phase for phase in Phase if values[phase.name.lower()]}
        """The functions that are not NULL."""
        if not self.name:
            raise CallError(Code.PARAM_INVALID, f"operator {number} has no op_type")
        if values["target"] != TargetType.CPU:
            raise CallError(
                Code.PARAM_INVALID,
                f"operator {self.name!r} is for target {values['target']}: openrknn runs no OpenCL, so functions must "
                "be for RKNN_TARGET_TYPE_CPU",
            )
        if Phase.COMPUTE not in self.phases:
            raise CallError(Code.PARAM_INVALID, f"operator {self.name!r} has no compute function")


class Instance:
    """An operator of the model."""

    def __init__(self, registered: Registered, operator: Operator) -> None:
        self.number = next(_numbers)
        self.registered, self.operator = registered, operator
        parameters = operator.node.parameters
        self.attributes: Mapping[str, Any] = {
            **((parameters and parameters.values) or {}), **operator.attributes
        }  # fmt: skip
        found = iter(operator.outputs)
        self.outputs = [None if number == NO_TENSOR else next(found) for number in operator.node.outputs]
        self.inputs = [tensor for tensor in operator.inputs if not is_scratch(tensor) and not is_placeholder(tensor)]

    @property
    def title(self) -> str:
        return f"operator {self.operator.index} {self.operator.name!r} ({self.registered.name})"


class Operators:
    """What a program registered for one context."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._registered: list[Registered] = []
        self._instances: dict[int, Instance] = {}
        """By the node of the graph, which stays as long as the model."""
        self._codec = Codec()
        self._area: Memory | None = None
        self._is_new = False

    def register(self, call: Call, codec: Codec, given: Sequence[Values]) -> None:
        """rknn_register_custom_ops: all of them, or none."""
        self._codec = codec
        first = len(self._registered)
        made = [Registered(first + number, values) for number, values in enumerate(given)]
        before = dict(self._instances), dict(self._owner.custom_ops)
        self._registered += made
        try:
            for registered in made:
                self._begin(call, registered)
        except BaseException:
            del self._registered[first:]
            self._instances, kept = before
            self._owner.custom_ops.clear()
            self._owner.custom_ops.update(kept)
            raise
        self._owner.operators_changed()

    def missing(self) -> Operator | None:
        """The first operator of the model that neither openrknn nor the program has a function for."""
        model, known = self._owner.model, {*OPERATORS, *SEVERAL, *self._owner.custom_ops}
        everything = (one for graph in model.graphs for one in operators_to_run(model.operators_of(graph)))
        return next((one for one in everything if one.placement in _BY_CPU and one.type not in known), None)

    def check(self) -> None:
        """Refuse what needs all of them."""
        found = self.missing()
        if found is not None:
            raise CallError(
                Code.FAIL,
                f"nothing computes {found.type}, the type of operator {found.index} {found.name!r} of the model: give "
                "functions for it with rknn_register_custom_ops",
            )

    def attribute(self, number: int, name: str) -> tuple[TensorType, Array]:
        """rknn_custom_op_get_op_attr."""
        found = next((one for one in self._instances.values() if one.number == number), None)
        if found is None:
            raise CallError(Code.PARAM_INVALID, "op_ctx is not one of this context's operators")
        if name not in found.attributes:
            known = ", ".join(found.attributes) or "none"
            raise CallError(Code.PARAM_INVALID, f"{found.title} has no attribute {name!r}; it has {known}")
        return _stored(found.attributes[name])

    def close(self) -> None:
        """With the context: the functions `destroy`, if the program is still there."""
        call = self._owner.under_way
        for instance in self._instances.values():
            if call is not None and Phase.DESTROY in instance.registered.phases:
                try:
                    self._call_back(call, instance, Phase.DESTROY, b"", (0, 0))
                except (RknnError, OSError):
                    break
        self._instances.clear()
        self._registered.clear()
        if self._area is not None:
            self._area.close()
            self._area = None

    # ------------------------------------------------------------------------------------------ calling back

    def _begin(self, call: Call, registered: Registered) -> None:
        model = self._owner.model
        for operator in _operators(model, registered.name):
            instance = Instance(registered, operator)
            self._instances[id(operator.node)] = instance
            if Phase.INIT in registered.phases:
                inputs = [np.zeros(tensor.shape, _dtype(tensor)) for tensor in instance.inputs]
                payload, counts, _ = self._placed(instance, inputs)
                code = self._call_back(call, instance, Phase.INIT, payload, counts)
                _check(code, "init", instance)
        self._owner.custom_ops[registered.name] = self._computed

    def _computed(self, arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Sequence[Array]:
        """What the runtime calls for each operator of a registered type."""
        assert isinstance(attributes, OperatorAttributes)
        instance = self._instances[id(attributes.operator.node)]
        call = self._owner.under_way
        if call is None:
            raise CallError(Code.FAIL, f"{instance.title} is a function of the program, which waits for no run")
        payload, counts, outputs = self._placed(instance, [_plain(one) for one in arrays if one.size])
        if Phase.PREPARE in instance.registered.phases:
            code = self._call_back(call, instance, Phase.PREPARE, payload, counts)
            if code == SKIP_CUSTOM_OP_COMPUTE:
                return outputs()
            _check(code, "prepare", instance)
        _check(self._call_back(call, instance, Phase.COMPUTE, payload, counts), "compute", instance)
        return outputs()

    def _call_back(self, call: Call, instance: Instance, phase: Phase, payload: bytes, counts: tuple[int, int]) -> int:
        if call.channel is None:
            raise CallError(Code.FAIL, "the call has no channel for callbacks")
        descriptors = (self._area.fd,) if self._is_new and self._area is not None else ()
        self._is_new = False
        reply = Reply(
            is_callback=True, value=instance.number, a=instance.registered.number, b=int(phase), c=counts[0],
            d=counts[1], payload=payload, descriptors=descriptors,
        )  # fmt: skip
        return call.channel.call_back(reply)

    # ------------------------------------------------------------------------------------------ tensors

    def _placed(
        self, instance: Instance, inputs: Sequence[Array]
    ) -> tuple[bytes, tuple[int, int], Callable[[], list[Array]]]:
        """Inputs in the area, the structs that describe all tensors, and how to read the outputs afterwards."""
        results = [(tensor, np.dtype(_dtype(tensor))) for tensor in instance.outputs if tensor is not None]
        sizes = [one.nbytes for one in inputs] + [tensor.elements * kind.itemsize for tensor, kind in results]
        places = list(itertools.accumulate((-(-size // _LINE) * _LINE for size in sizes), initial=0))
        area = self._room(max(places[-1], 1))
        structs = []
        for number, values in enumerate(inputs):
            area[places[number] : places[number] + values.nbytes] = values.reshape(-1).view(np.uint8)
            name = instance.inputs[number].name if number < len(instance.inputs) else ""
            structs.append(self._struct(number, name, values.shape, values.dtype, places[number]))
        for number, (tensor, kind) in enumerate(results):
            structs.append(self._struct(number, tensor.name, tensor.shape, kind, places[len(inputs) + number]))

        def outputs() -> list[Array]:
            read = iter(zip(results, places[len(inputs) :], strict=False))
            return [_read(area, *next(read)) if tensor is not None else np.zeros(0) for tensor in instance.outputs]

        return b"".join(structs), (len(inputs), len(results)), outputs

    def _room(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        if self._area is None or self._area.size_bytes < size_bytes:
            if self._area is not None:
                self._area.close()
            self._area, self._is_new = Memory.create(size_bytes, "openrknn-operators"), True
        return self._area.array

    def _struct(self, index: int, name: str, shape: Sequence[int], kind: np.dtype[Any], place: int) -> bytes:
        dims = list(shape) or [1]
        if len(dims) > LIMITS["RKNN_MAX_DIMS"]:
            raise CallError(Code.FAIL, f"tensor {name!r} has {len(dims)} dimensions; rknn_tensor_attr has 16")
        elements = int(np.prod(dims, dtype=np.int64))
        size = elements * kind.itemsize
        attributes = {
            "index": index, "n_dims": len(dims), "dims": dims, "name": name, "n_elems": elements, "size": size,
            "fmt": int(TensorFormat.NCHW if len(dims) == _NCHW else TensorFormat.UNDEFINED), "type": int(_TYPES[kind]),
            "scale": 1.0, "size_with_stride": size,
        }  # fmt: skip
        memory = {"virt_addr": place, "fd": -1, "size": size, "flags": int(MemoryOrigin.ALLOC_INSIDE)}
        return self._codec.encode("rknn_custom_op_tensor", {"attr": attributes, "mem": memory})


def _operators(model: Model, name: str) -> Iterator[Operator]:
    for graph in model.graphs:
        for operator in model.operators_of(graph):
            if operator.type == name and operator.placement is not Placement.NPU:
                yield operator


def _check(code: int, function: str, instance: Instance) -> None:
    if code not in (0, SKIP_CUSTOM_OP_COMPUTE):
        raise CallError(Code.FAIL, f"{function} of {instance.title} returned {code}")


def _dtype(tensor: Tensor) -> Any:
    return np.float32 if tensor.quantization is not None else _WHOLE.get(tensor.dtype, np.float32)


def _plain(values: Array) -> Array:
    """Of a type that the C API has."""
    known = values.dtype in _TYPES
    return np.ascontiguousarray(values if known else values.astype(np.float32))


def _read(area: npt.NDArray[np.uint8], result: tuple[Tensor, np.dtype[Any]], place: int) -> Array:
    tensor, kind = result
    return area[place : place + tensor.elements * kind.itemsize].view(kind).reshape(tensor.shape).copy()


def _stored(value: Any) -> tuple[TensorType, Array]:
    """Whole numbers as int64, real ones as float32, text as its bytes."""
    if isinstance(value, str | bytes):
        return TensorType.UINT8, np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
    values = np.ravel(np.asarray(value))
    if values.dtype.kind in "US":
        text = "\0".join(str(one) for one in values)
        return TensorType.UINT8, np.frombuffer(text.encode(), np.uint8)
    if values.dtype.kind in "biu":
        return TensorType.INT64, values.astype(np.int64)
    return TensorType.FLOAT32, values.astype(np.float32)
