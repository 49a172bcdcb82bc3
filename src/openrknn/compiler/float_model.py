"""The float model on calibration data: ONNX Runtime where it is installed, else onnx's own reference evaluator.

ONNX Runtime is the choice of the extra `compile`: hundreds of times faster on convolutions, wheels for every platform
that boards and PCs have. The reference evaluator comes with `onnx`, needs nothing else, and computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.compiler.errors import CalibrationError, CompileError
from openrknn.compiler.ir import Array
from openrknn.container.onnxdata import refuse_external_data
from openrknn.errors import FormatError
from openrknn.extras import how_to_install
from openrknn.installed_onnxruntime import installed

_LONGEST_REASON = 200
_QUIET = 4


def onnx_package() -> Any:
    """The package `onnx`, or an error that says how to get it."""
    try:
        import onnx
    except ImportError:
        raise CompileError(f"reading ONNX files needs the package onnx; {how_to_install('compile')}") from None
    return onnx


class FloatModel:
    """Computes named values of a model from its inputs."""

    def __init__(
        self, model: Any, names: Sequence[str], *, fuses: bool = False, is_reference: bool = False
    ) -> None:  # fmt: skip
        """`fuses`: faster, if only values at the end are asked for; `is_reference`: not with ONNX Runtime."""
        made = {name for node in model.graph.node for name in node.output}
        self.names = [name for name in names if name in made]
        data = _with_outputs(model, self.names)
        self.engine, self._run = _second(data, self.names) if is_reference else _engine(data, self.names, fuses=fuses)

    def run(self, feed: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
        """(name, value) for every value, the inputs included."""
        try:
            results = self._run(dict(feed))
        except Exception as error:  # noqa: BLE001  (both engines raise types of their own)
            shapes = ", ".join(f"{name} {list(np.shape(value))}" for name, value in feed.items())
            said = str(error).splitlines()[0][:_LONGEST_REASON] if str(error) else type(error).__name__
            raise CalibrationError(
                f"the model cannot be run in float on {shapes} ({self.engine}: {said}); check it with onnx.checker, "
                "and give inputs as in real use: --calibrate, --verify-with"
            ) from None
        yield from zip(self.names, results, strict=True)
        yield from feed.items()


def _with_outputs(model: Any, names: list[str]) -> bytes:
    """The stored model with other outputs. Its weights are not copied on the way: models are large."""
    onnx = onnx_package()
    outputs = [onnx.ValueInfoProto.FromString(entry.SerializeToString()) for entry in model.graph.output]
    del model.graph.output[:]
    try:
        model.graph.output.extend([onnx.helper.make_empty_tensor_value_info(name) for name in names])
        data: bytes = model.SerializeToString()
    finally:
        del model.graph.output[:]
        model.graph.output.extend(outputs)
    return data


def _engine(model: bytes, names: list[str], *, fuses: bool) -> tuple[str, Any]:
    if not names:
        return "none", lambda feed: []
    try:
        refuse_external_data(model, "the model")
    except FormatError as error:
        raise CalibrationError(str(error)) from None
    try:
        onnxruntime = installed()
    except ImportError:
        return _reference(model, names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    # Fused operators would hide the values that are asked for, and more threads would change the order of sums.
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if fuses else levels.ORT_DISABLE_ALL
    options.use_deterministic_compute = True
    # Threads that wait for work by spinning take the cores of others, and double the time of a run for all.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False  # memory is given back at once
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  (it raises types of its own)
        return _without(error, model, names)
    return f"onnxruntime {onnxruntime.__version__}", lambda feed: session.run(names, feed)


def _without(refusal: Exception, model: bytes, names: list[str]) -> tuple[str, Any]:
    """ONNX Runtime is behind onnx: operator sets and operators of this year are in the reference evaluator only."""
    try:
        return _reference(model, names)
    except Exception:  # noqa: BLE001  (it raises types of its own, too)
        text = str(refusal).splitlines()[0]
    raise CalibrationError(f"ONNX Runtime does not take the model: {text}")


def _second(model: bytes, names: list[str]) -> tuple[str, Any]:
    """ONNX's reference evaluator; a `ModelError` if it rejects the model."""
    try:
        return _reference(model, names)
    except Exception as error:  # noqa: BLE001  (it raises types of its own)
        raise CalibrationError(f"the reference evaluator does not take the model: {error}") from None


def _reference(model: bytes, names: list[str]) -> tuple[str, Any]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx_package().load_model_from_string(model))

    @np.errstate(all="ignore")  # overflow is a result: ONNX Runtime does not mention it either
    def run(feed: Mapping[str, Array]) -> list[Array]:
        return list(evaluator.run(names, dict(feed)))

    return "onnx reference evaluator", run
