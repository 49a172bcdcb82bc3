"""The ONNX graph as a reference: all of it at once, or cut between tensors.

ONNX Runtime computes where it is installed; otherwise the reference evaluator of the onnx package does, slowly.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.container.onnxdata import check_onnx_file, external_in_model
from openrknn.errors import BadReferenceError, ComparisonError
from openrknn.extras import how_to_install
from openrknn.installed_onnxruntime import installed
from openrknn.onnxgraph import makers_of

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_SILENT = 3
"""ONNX Runtime's level of messages: errors only."""
_OLDEST_KNOWN_IR = 8


class _Compute(Protocol):
    def __call__(self, model: Any, outputs: Sequence[str], feeds: Mapping[str, npt.NDArray[Any]]) -> list[Any]: ...


@dataclass
class Reference:
    """An ONNX model whose tensors can be asked for by name."""

    model: Any
    engine: str
    """Who computes."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Initializers by name."""
    producers: dict[str, Any] = field(default_factory=dict)
    """Tensor -> the node that makes it."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str) -> Reference:
        """Read an ONNX file; what is wrong with it is one line."""
        try:
            import onnx
            from google.protobuf.message import DecodeError
        except ImportError:
            raise ComparisonError(f"comparing needs the package onnx; {how_to_install('onnx')}") from None

        try:
            check_onnx_file(path)
            model = onnx.load(path)
        except (DecodeError, BadReferenceError, onnx.checker.ValidationError, ValueError) as error:
            raise ComparisonError(f"{path}: not an ONNX file: {str(error).splitlines()[0]}") from None
        for found in external_in_model(model):
            raise ComparisonError(f"{path}: its tensor {found.tensor!r} is in another file, which onnx does not read")
        if not model.graph.node:
            raise ComparisonError(f"{path}: not an ONNX file, or one without operators")
        return cls._of(model)

    @classmethod
    def _of(cls, model: Any) -> Reference:
        constants = {item.name: item for item in model.graph.initializer}
        has_runtime = importlib.util.find_spec("onnxruntime") is not None
        return cls(
            model=model,
            engine="onnxruntime" if has_runtime else "onnx reference evaluator",
            constants=constants,
            producers=makers_of(model.graph.node),
            inputs=tuple(item.name for item in model.graph.input if item.name not in constants),
            outputs=tuple(item.name for item in model.graph.output),
        )

    @property
    def tensors(self) -> set[str]:
        """Everything that can be asked for."""
        return {*self.producers, *self.inputs}

    def with_constants(self, values: Mapping[str, npt.NDArray[Any]]) -> Reference:
        """A copy of the graph with other values in some of its constants."""
        import onnx
        from onnx import numpy_helper

        changed = onnx.ModelProto()
        changed.CopyFrom(self.model)
        for item in changed.graph.initializer:
            if item.name in values:
                item.CopyFrom(numpy_helper.from_array(values[item.name].astype(np.float32), item.name))
        return self._of(changed)

    def run(self, feeds: Arrays, wanted: Iterable[str]) -> Arrays:
        """Run the whole graph and keep these tensors."""
        import onnx

        made = [name for name in dict.fromkeys(wanted) if name in self.producers]
        whole = onnx.ModelProto()
        whole.CopyFrom(self.model)
        del whole.graph.output[:]
        whole.graph.output.extend([onnx.ValueInfoProto(name=name) for name in made])
        found = dict(zip(made, self._compute(whole, made, feeds), strict=True))
        return {**found, **{name: feeds[name] for name in wanted if name in feeds}}

    def run_part(self, feeds: Arrays, output: str) -> npt.NDArray[Any] | None:
        """Compute one tensor from others; None where it depends on more than these."""
        import onnx
        from onnx import helper

        nodes = self._between(set(feeds), output)
        if nodes is None:
            return None
        used = {name for node in nodes for name in node.input}
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in feeds.items()
            if name in used
        ]
        constants = [item for name, item in self.constants.items() if name in used and name not in feeds]
        graph = helper.make_graph(nodes, "part", inputs, [onnx.ValueInfoProto(name=output)], constants)
        model = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self._ir_version)
        (value,) = self._compute(model, [output], {name: feeds[name] for name in used if name in feeds})
        return np.asarray(value)

    @property
    def _ir_version(self) -> int:
        return max(int(self.model.ir_version), _OLDEST_KNOWN_IR)

    def _between(self, known: set[str], output: str) -> list[Any] | None:
        """The nodes that lead from the known tensors to the output, in the order of the graph."""
        wanted, chosen = [output], set()
        while wanted:
            name = wanted.pop()
            if not name or name in known or name in self.constants:
                continue
            node = self.producers.get(name)
            if node is None:
                return None
            if id(node) not in chosen:
                chosen.add(id(node))
                wanted += node.input
        return [node for node in self.producers_in_order() if id(node) in chosen]

    def producers_in_order(self) -> list[Any]:
        """Every node once, as the graph has them."""
        return list({id(node): node for node in self.producers.values()}.values())

    def _compute(self, model: Any, outputs: Sequence[str], feeds: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
        if not outputs:
            return []
        compute: _Compute = _with_runtime if self.engine == "onnxruntime" else _with_evaluator
        return compute(model, outputs, feeds)


def _with_runtime(model: Any, outputs: Sequence[str], feeds: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
    onnxruntime = installed()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    # Fused operators would not be the ones that the comparison is about.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(list(outputs), dict(feeds)))
    except Exception as error:  # ONNX Runtime's errors have no common class that it exports
        raise ComparisonError(f"ONNX Runtime cannot run the model: {str(error).splitlines()[0]}") from error


def _with_evaluator(model: Any, outputs: Sequence[str], feeds: Mapping[str, npt.NDArray[Any]]) -> list[Any]:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):  # overflow is a result: ONNX Runtime does not mention it either
            return list(ReferenceEvaluator(model).run(list(outputs), dict(feeds)))
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise ComparisonError(f"the onnx package cannot run the model: {error}; install onnxruntime") from error
