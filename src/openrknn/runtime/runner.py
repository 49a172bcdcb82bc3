"""What a `Session` and a `SessionPool` have in common: the ways to run a model, and to ask what it takes and gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from openrknn.closing import AsyncClosing
from openrknn.container.specs import Specs, TensorSpec, table_of
from openrknn.names import refuse_unknown
from openrknn.records import dataclass
from openrknn.runtime.feed import output_names
from openrknn.runtime.io.outputs import OutputKind, Outputs, check_kind
from openrknn.runtime.io.tensors import Array

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from openrknn.runtime.futures import RunFuture

_Layout = str | Mapping[str, str] | None
_ONNX_NAMES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output as ONNX Runtime describes it; `Session.inputs` says more."""

    name: str
    """By which `run` takes or gives it."""
    type: str
    """What to feed or what comes, as ONNX Runtime spells it: "tensor(uint8)" for pictures, "tensor(float)"."""
    shape: list[int]
    """As in `TensorSpec.shape`."""


class Runner(AsyncClosing):
    """The ways to run a model that `Session` and `SessionPool` share."""

    @property
    def inputs(self) -> Specs:
        """What to feed, for the current shapes: by number, or by name."""
        raise NotImplementedError

    @property
    def outputs(self) -> Specs:
        """What comes out, for the current shapes: by number, or by name."""
        raise NotImplementedError

    def get_inputs(self) -> list[NodeArg]:
        """`inputs` as in ONNX Runtime: a list of `name`, `type` and `shape`."""
        return [self._node_arg(spec) for spec in self.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """`outputs` as in ONNX Runtime: a list of `name`, `type` and `shape`."""
        return [self._node_arg(spec) for spec in self.outputs]

    @overload
    def run(
        self, inputs: object, feed: None = None, *, layout: _Layout = None, pass_through: bool = False,
        outputs: OutputKind = "float",
    ) -> Outputs: ...  # fmt: skip

    @overload
    def run(
        self, inputs: Sequence[str] | None, feed: Mapping[str, object], *, layout: _Layout = None,
        pass_through: bool = False, outputs: OutputKind = "float",
    ) -> list[Array]: ...  # fmt: skip

    def run(
        self, inputs: object, feed: Mapping[str, object] | None = None, *, layout: _Layout = None,
        pass_through: bool = False, outputs: OutputKind = "float", **unknown: object,
    ) -> Outputs | list[Array]:  # fmt: skip
        """Run the model once.

        `inputs`: one array, a list or tuple in the model's order, or a dict by name. uint8 pictures go in as they are;
        the model subtracts the mean and divides by std itself. Other numbers are normalized and quantized as the model
        says. The shape shows whether an array is NHWC or NCHW; if it fits both, `layout` must be given. With
        `pass_through` the arrays are bytes in the model's own type and memory layout.

        `outputs`: "float" (float32 in the original shape), "raw" (stored elements in the original shape) or "native"
        (the memory itself, [N, C1, H, W, C2] and no copy: the next run of the same session writes into it).

        Returns `Outputs`, a dict by name that takes numbers. As in ONNX Runtime, `run(names or None, {name: array})`
        returns a list: the named outputs, or all of them.

        Raises `TypeError` (not an array), `ValueError` (a name, shape, layout or NaN that does not fit), `ClosedError`,
        `ExecutionError` (the NPU refuses the commands), `BudgetError` (too much work or memory). Numbers that look
        like a mistake give an `InputWarning`.
        """
        if unknown:
            refuse_unknown("run", unknown, _run_once)
        check_kind(outputs)
        if feed is None:
            return self._run(inputs, layout, pass_through, outputs)
        wanted = output_names(inputs, self._output_names())
        found = self._run(feed, layout, pass_through, outputs)
        return [found[name] for name in wanted]

    @overload
    def run_async(
        self, inputs: object, feed: None = None, *, layout: _Layout = None, pass_through: bool = False,
        outputs: OutputKind = "float",
    ) -> RunFuture[Outputs]: ...  # fmt: skip

    @overload
    def run_async(
        self, inputs: Sequence[str] | None, feed: Mapping[str, object], *, layout: _Layout = None,
        pass_through: bool = False, outputs: OutputKind = "float",
    ) -> RunFuture[list[Array]]: ...  # fmt: skip

    def run_async(self, inputs: object, feed: Any = None, **options: Any) -> RunFuture[Any]:
        """`run` in another thread, with the same arguments.

        Returns a `RunFuture`: `result()` waits for it, and it can be awaited. Runs of one session follow each other;
        a pool runs as many at once as it has sessions. Raises `ClosedError`; what `run` raises comes with the result.
        """
        refuse_unknown("run_async", options, _run_once)
        from openrknn.runtime.futures import submit

        return submit(self._executor(), self.run, inputs, feed, **options)

    def map(
        self, many: Iterable[object], *, layout: _Layout = None, pass_through: bool = False,
        outputs: OutputKind = "float",
    ) -> Iterator[Outputs]:  # fmt: skip
        """`run` for each of `many` inputs, which may be an endless stream; yields `Outputs` in their order."""
        for inputs in many:
            yield self.run(inputs, layout=layout, pass_through=pass_through, outputs=outputs)

    def _run(self, inputs: object, layout: _Layout, pass_through: bool, outputs: OutputKind) -> Outputs:
        raise NotImplementedError

    def _executor(self) -> Executor:
        raise NotImplementedError

    def _output_names(self) -> Sequence[str]:
        return self.outputs.names

    def _node_arg(self, spec: TensorSpec) -> NodeArg:
        kind = spec.dtype
        if spec.is_image:
            kind = "uint8"
        elif spec.quantization is not None or kind.startswith(("float", "bfloat")):
            kind = "float32"
        return node_arg(spec, kind)

    def _repr_html_(self) -> str:
        """For notebooks: where it runs, and a table of what to feed and what comes out."""
        from html import escape

        return f"<p>{escape(repr(self))}</p>{table_of([('in', self.inputs), ('out', self.outputs)])}"


def node_arg(spec: TensorSpec, kind: str) -> NodeArg:
    """A spec in the words of ONNX Runtime."""
    return NodeArg(spec.name, f"tensor({_ONNX_NAMES.get(kind, kind)})", list(spec.shape))


def _run_once(inputs: object, feed: object, *, layout: object, pass_through: object, outputs: object) -> None:
    """The arguments of `run`, for the message about one that it does not have."""
