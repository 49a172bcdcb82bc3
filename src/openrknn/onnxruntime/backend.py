"""ONNX's interface of backends (`onnx.backend.base`): what ONNX's own tests talk to.

runner = onnx.backend.test.BackendTest(openrknn.onnxruntime.backend, __name__)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx.backend.base import Backend, BackendRep

from openrknn.onnxruntime.real import CPU, RKNN
from openrknn.onnxruntime.session import InferenceSession

_OPSET, _FORMAT = 21, 10
"""Of operators that come alone: the newest that all releases of ONNX Runtime of the last years know."""


class OpenrknnRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Inputs in order, by name, or the only one."""
        names = [entry.name for entry in self.session.get_inputs()]
        if isinstance(inputs, Mapping):
            feed = dict(inputs)
        elif isinstance(inputs, list | tuple):
            feed = dict(zip(names, inputs, strict=False))
        else:
            feed = {names[0]: inputs}
        return tuple(self.session.run(None, feed))


class OpenrknnBackend(Backend):
    """Runs models on the NPU and the CPU. Devices: NPU, and CPU, which means the machine that we are on."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "NPU", **kwargs: Any) -> bool:
        """No model is refused for what is in it."""
        return cls.supports_device(device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU and NPU."""
        return device.partition(":")[0].upper() in {"CPU", "NPU"}

    @classmethod
    def prepare(cls, model: Any, device: str = "NPU", **kwargs: Any) -> OpenrknnRep:
        """`kwargs` are options of our provider: prefer, target, precision, ..."""
        if not cls.supports_device(device):
            raise RuntimeError(f"device {device!r} is not here; there are NPU and CPU")
        if isinstance(model, OpenrknnRep):
            return model
        if isinstance(model, InferenceSession):
            return OpenrknnRep(model)
        session = InferenceSession(model, providers=[(RKNN, kwargs), CPU], enable_fallback=0)
        return OpenrknnRep(session)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "NPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepare and run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Sequence[Any], device: str = "NPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """One operator as a model of its own."""
        import numpy as np
        from onnx import helper, shape_inference

        names = [name for name in node.input if name]
        arrays = dict(zip(names, map(np.asarray, inputs), strict=True))
        entries = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in arrays.items()
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", entries, results)
        opset = int(kwargs.pop("opset_version", _OPSET))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_FORMAT)
        return cls.run_model(shape_inference.infer_shapes(model), arrays, device, **kwargs)


is_compatible = OpenrknnBackend.is_compatible
prepare = OpenrknnBackend.prepare
run = run_model = OpenrknnBackend.run_model
supports_device = OpenrknnBackend.supports_device
