"""One operator on the CPU: real numbers in, real numbers out, between tensors in device memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from openrknn import numerics
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Tensor
from openrknn.errors import UnsupportedError
from openrknn.runtime.operators import OPERATORS, CpuOperator
from openrknn.runtime.tensors import Array, StoredTensor

__all__ = ["CpuCall", "CustomOperator", "decode", "encode", "find_operators"]

CustomOperator: TypeAlias = Callable[[Sequence[Array], Mapping[str, Any]], Array | Sequence[Array]]
"""(inputs as float32 arrays or constants, attributes) -> the output, or a sequence of them."""

_SCRATCH = "_exSecondary"
"""Memory that the compiler adds to the inputs of an operator for its own use."""


def find_operators(
    model: Model, operators: Sequence[Operator], custom: Mapping[str, CustomOperator]
) -> dict[str, CpuOperator | CustomOperator]:
    """How to compute each type of operator that is not for the NPU; custom functions win over our own."""
    known: dict[str, CpuOperator | CustomOperator] = {**OPERATORS, **custom}
    types = dict.fromkeys(operator.type for operator in operators)
    missing = [name for name in types if name not in known]
    if missing:
        first = next(operator for operator in operators if operator.type == missing[0])
        raise UnsupportedError(
            f"model {model.path or 'from bytes'}: the CPU has to run {', '.join(missing)} "
            f"(first: operator {first.index} {first.name!r}), which openrknn does not have. Give a function: "
            f"Session(model, custom_ops={{{missing[0]!r}: lambda inputs, attributes: ...}})"
        )
    return {name: known[name] for name in types}


def decode(stored: Array, tensor: Tensor, dtype: type[np.floating[Any]] = np.float32) -> Array:
    """Stored elements as real numbers; integers that are no quantized numbers stay as they are."""
    if tensor.quantization is not None and stored.dtype.kind == "i":
        real = np.subtract(stored, tensor.quantization.zero_point[0], dtype=dtype)
        real *= dtype(np.float32(tensor.quantization.scale[0]))
        return real
    return stored.astype(dtype) if stored.dtype.kind == "f" else stored


def encode(values: Array, tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    """The other way round; the zero point is added before rounding, as in the vendor's runtime 1.5.2 (ties tell).

    What was computed in single precision as it does is multiplied by 1 / scale and added in one step, as it does.
    """
    if tensor.quantization is not None and dtype.kind == "i":
        scale, zero_point = np.float32(tensor.quantization.scale[0]), tensor.quantization.zero_point[0]
        steps: Array
        if values.dtype == np.float32:
            steps = (values.astype(np.float64) * (np.float32(1) / scale) + zero_point).astype(np.float32)
        else:
            steps = np.asarray(values, np.float64) / scale + zero_point
        return numerics.saturate(numerics.round_to_integer(steps), dtype.type)
    if dtype == np.float16:
        return numerics.encode_fp16(values).view(np.float16)
    return values.astype(dtype)


class CpuCall:
    """An operator with its tensors in memory."""

    def __init__(
        self,
        operator: Operator,
        compute: CpuOperator | CustomOperator,
        inputs: Sequence[StoredTensor | Array],
        outputs: Sequence[StoredTensor],
    ) -> None:
        self.operator = operator
        self._compute = compute
        self._inputs = inputs
        self._outputs = outputs
        parameters = operator.node.parameters
        self._attributes: Mapping[str, Any] = {**((parameters and parameters.values) or {}), **operator.attributes}
        self._moves = isinstance(compute, CpuOperator) and compute.moves and self._has_one_scale()

    @staticmethod
    def real_inputs(operator: Operator) -> tuple[Tensor, ...]:
        """The inputs without the compiler's scratch memory."""
        return tuple(tensor for tensor in operator.inputs if not tensor.name.endswith(_SCRATCH))

    def run(self) -> None:
        """Read the inputs, compute, write the outputs."""
        arrays = [self._value(entry) for entry in self._inputs]
        for stored, values in zip(self._outputs, self._results(arrays), strict=True):
            if values.size != stored.tensor.elements:
                raise ValueError(
                    f"operator {self.operator.name!r} gave {list(values.shape)}, "
                    f"but its output {stored.tensor.name!r} is {list(stored.tensor.shape)}"
                )
            stored.clear_lanes()
            kept = values if self._moves else encode(values, stored.tensor, stored.dtype)
            stored.write(kept.reshape(stored.tensor.shape))

    def _value(self, entry: StoredTensor | Array) -> Array:
        if not isinstance(entry, StoredTensor):
            return entry
        if self._moves:
            return entry.read()
        # Quantized numbers are exact in double precision, and ties stay ties; custom functions get the usual float32.
        is_ours = isinstance(self._compute, CpuOperator)
        return decode(entry.read(), entry.tensor, np.float64 if is_ours else np.float32)

    def _results(self, arrays: Sequence[Array]) -> Sequence[Array]:
        if isinstance(self._compute, CpuOperator):
            return [self._ours(self._compute, arrays)]
        given = self._compute(arrays, self._attributes)
        results = [given] if isinstance(given, np.ndarray) or np.isscalar(given) else list(given)
        if len(results) != len(self._outputs):
            raise ValueError(f"operator {self.operator.name!r} has {len(self._outputs)} outputs, not {len(results)}")
        return [np.asarray(value) for value in results]

    def _ours(self, operator: CpuOperator, arrays: Sequence[Array]) -> Array:
        shape = self._outputs[0].tensor.shape
        try:
            return operator.compute(arrays, self._attributes, shape).reshape(shape)
        except (TypeError, ValueError, IndexError) as error:  # a file whose attributes do not fit its tensors
            name = f"{self.operator.type} {self.operator.name!r}"
            raise UnsupportedError(f"operator {self.operator.index} {name} cannot be computed: {error}") from None

    def _has_one_scale(self) -> bool:
        entries = [entry for entry in (*self._inputs, *self._outputs) if isinstance(entry, StoredTensor)]
        return len({(entry.dtype, entry.tensor.quantization) for entry in entries}) == 1
