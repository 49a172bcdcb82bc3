"""One operator on the CPU: real numbers in, real numbers out, between tensors in device memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from openrknn.container.model import Model, Operator
from openrknn.container.parts import Kind, Tensor
from openrknn.errors import UnsupportedError
from openrknn.npu.budget import Demand
from openrknn.runtime.io.copies import copier
from openrknn.runtime.io.tensors import Array, StoredTensor
from openrknn.runtime.io.values import decode, encode
from openrknn.runtime.operators import CpuOperator, SeveralOutputs

CustomOperator: TypeAlias = Callable[[Sequence[Array], Mapping[str, Any]], Array | Sequence[Array]]
"""(inputs as float32 arrays or constants, attributes) -> the output, or a sequence of them."""

_Known: TypeAlias = CpuOperator | SeveralOutputs | CustomOperator
_SCRATCH = "_exSecondary"
"""In the names of memory that the compiler adds to the inputs of an operator for its own use."""
_ELEMENT_WORK, _ROWS, _ELEMENT_BYTES, _MOST = 8, 3, 32, 1 << 31
_RUNS_BEFORE_COPY, _SMALL = 2, 1 << 16
"""When it pays to look for a shorter way, and for how many elements the way is what takes time."""
_COPIES = ("Reshape", "Transpose", "Split")
_PLACEHOLDER = "empty_placeholder"
"""Begins the name of a constant that stands for an optional input."""


def find_operators(
    model: Model, operators: Sequence[Operator], custom: Mapping[str, CustomOperator]
) -> dict[str, _Known]:
    """How to compute each type of operator that is not for the NPU; custom functions win over our own."""
    if not operators:
        return {}
    from openrknn.runtime.operators.rearrange import REARRANGES  # here: most models run on the NPU alone

    known: dict[str, _Known] = {name: CpuOperator(compute, moves=True) for name, compute in REARRANGES.items()}
    known.update(custom)
    types = dict.fromkeys(operator.type for operator in operators)
    if not known.keys() >= types.keys():
        from openrknn.runtime.operators.table import OPERATORS, SEVERAL

        known = {**OPERATORS, **SEVERAL, **custom}
    missing = [name for name in types if name not in known]
    if missing:
        first = next(operator for operator in operators if operator.type == missing[0])
        raise UnsupportedError(
            f"model {model.path or 'from bytes'}: the CPU has to run {', '.join(missing)} "
            f"(first: operator {first.index} {first.name!r}), which openrknn does not have. Give a function: "
            f"Session(model, custom_ops={{{missing[0]!r}: lambda inputs, attributes: ...}}), and send the file to "
            "openrknn's issues, so that the next version has it"
        )
    return {name: known[name] for name in types}


def is_scratch(tensor: Tensor) -> bool:
    """Memory for the vendor's own use, behind the inputs."""
    return _SCRATCH in tensor.name


def is_placeholder(tensor: Tensor) -> bool:
    """An optional input that is not there: by its name, or a constant of the compiler's without data."""
    return tensor.name.startswith(_PLACEHOLDER) or (tensor.kind is Kind.COMPILER_CONSTANT and not tensor.data)


def cpu_demand(operator: Operator, tensors: Sequence[Tensor]) -> Demand:
    """What an operator asks of the CPU, at the most.

    A product of matrices has sqrt(|A| * |B| * |C|) multiplications, exactly; a convolution has as many for each row of
    its kernel. Windows read all of their elements. Numbers are computed in double precision, in a few arrays.
    """
    sizes = sorted((tensor.elements for tensor in tensors), reverse=True)
    window = operator.attributes.get("kernel_shape")
    taps = math.prod(abs(int(side)) for side in window) if isinstance(window, Sequence) and _whole(window) else 1
    products = math.isqrt(math.prod(sizes[:3])) if len(sizes) > 2 else 0
    return Demand((_ELEMENT_WORK + taps) * sum(sizes) + products * _ROWS, _ELEMENT_BYTES * sum(sizes))


def _whole(numbers: Sequence[object]) -> bool:
    return all(isinstance(number, int | float) and abs(number) < _MOST for number in numbers)


class OperatorAttributes(dict[str, Any]):
    """What a custom function gets as its attributes; `operator` says which one of the model it computes."""

    def __init__(self, operator: Operator, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.operator = operator


class CpuCall:
    """An operator with its tensors in memory."""

    def __init__(
        self,
        operator: Operator,
        compute: _Known,
        inputs: Sequence[StoredTensor | Array],
        outputs: Sequence[StoredTensor | None],
        *,
        cut: Sequence[bool] = (),
    ) -> None:
        self.operator = operator
        self._compute = compute
        self._inputs = inputs
        self._outputs = outputs
        """None: an unused optional output."""
        parameters = operator.node.parameters
        values = {**((parameters and parameters.values) or {}), **operator.attributes}
        self._attributes = OperatorAttributes(operator, values)
        moves = isinstance(compute, CpuOperator | SeveralOutputs) and compute.moves
        self._moves = moves and self._has_one_scale()
        # What only moves numbers to another scale rounds in every layout: Concat in runtime 1.5.2.
        self._cut = (False,) * len(outputs) if moves or not cut else tuple(cut)
        self._runs = 0
        self._copy: Callable[[], None] | None = None

    def run(self) -> None:
        """Read the inputs, compute, write the outputs."""
        if self._copy is not None:
            self._copy()
            return
        self._compute_all()
        self._runs += 1
        if self._runs == _RUNS_BEFORE_COPY:
            self._copy = self._plain_copy()

    def _plain_copy(self) -> Callable[[], None] | None:
        """For what moves elements to places that are always the same: one copy from memory to memory."""
        wanted = [number for number, stored in enumerate(self._outputs) if stored is not None]
        if self.operator.type not in _COPIES or not self._moves or len(wanted) != 1:
            return None
        target, source, *others = self._outputs[wanted[0]], *self._inputs
        if target is None or not isinstance(source, StoredTensor) or source.dtype != target.dtype:
            return None
        is_small = target.tensor.elements > 0 and max(source.elements.size, target.elements.size) <= _SMALL
        if not is_small or any(isinstance(entry, StoredTensor) for entry in others):
            return None
        arrays = [source.places(), *(self._value(entry) for entry in others)]
        return copier(source, self._results(arrays)[wanted[0]], target, target.places())

    def _compute_all(self) -> None:
        arrays = [self._value(entry) for entry in self._inputs]
        for stored, cut, values in zip(self._outputs, self._cut, self._results(arrays), strict=True):
            if stored is None:
                continue
            if values.size != stored.tensor.elements:
                raise ValueError(
                    f"operator {self.operator.name!r} gave {list(values.shape)}, "
                    f"but its output {stored.tensor.name!r} is {list(stored.tensor.shape)}"
                )
            stored.clear_lanes()
            kept = values if self._moves else encode(values, stored.tensor, stored.dtype, cut=cut)
            stored.write(kept.reshape(stored.tensor.shape))

    def _value(self, entry: StoredTensor | Array) -> Array:
        if not isinstance(entry, StoredTensor):
            return entry
        if self._moves:
            return entry.read()
        # Quantized numbers are exact in double precision, and ties stay ties; custom functions get the usual float32.
        is_ours = isinstance(self._compute, CpuOperator | SeveralOutputs)
        return decode(entry.read(), entry.tensor, np.float64 if is_ours else np.float32)

    def _results(self, arrays: Sequence[Array]) -> Sequence[Array]:
        if isinstance(self._compute, CpuOperator | SeveralOutputs):
            return self._ours(self._compute, arrays)
        given = self._compute(arrays, self._attributes)
        results = [given] if isinstance(given, np.ndarray) or np.isscalar(given) else list(given)
        if len(results) != len(self._outputs):
            raise ValueError(f"operator {self.operator.name!r} has {len(self._outputs)} outputs, not {len(results)}")
        return [np.asarray(value) for value in results]

    @np.errstate(all="ignore")  # infinities and NaN are data like any other, as on the NPU
    def _ours(self, operator: CpuOperator | SeveralOutputs, arrays: Sequence[Array]) -> Sequence[Array]:
        try:
            if isinstance(operator, CpuOperator):
                shape = self._outputs[0].tensor.shape if self._outputs and self._outputs[0] is not None else ()
                made = [operator.compute(arrays, self._attributes, shape).reshape(shape)]
            else:
                shapes = [() if stored is None else stored.tensor.shape for stored in self._outputs]
                made = list(operator.compute(arrays, self._attributes, shapes))
            return self._fitted(made)
        except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, MemoryError) as error:
            raise self._refusal(error) from None  # a file whose attributes do not fit its tensors
        except UnsupportedError as error:
            raise self._refusal(error) from None

    def _fitted(self, made: Sequence[Array]) -> Sequence[Array]:
        """As many results as there are outputs: those behind the last one are not wanted either."""
        if len(made) < len(self._outputs):
            raise UnsupportedError(f"{len(self._outputs)} outputs, where it has {len(made)}")
        pairs = zip(self._outputs, made, strict=False)
        return [values if stored is None else values.reshape(stored.tensor.shape) for stored, values in pairs]

    def _refusal(self, error: Exception) -> UnsupportedError:
        name = f"{self.operator.type} {self.operator.name!r}"
        return UnsupportedError(f"operator {self.operator.index} {name} cannot be computed: {error}")

    def _has_one_scale(self) -> bool:
        entries = [entry for entry in (*self._inputs, *self._outputs) if isinstance(entry, StoredTensor)]
        return len({(entry.dtype, entry.tensor.quantization) for entry in entries}) == 1
