"""ONNX Runtime's own checks of inputs, without the model.

A model with the same inputs and nothing behind them is opened in ONNX Runtime when a feed looks odd. It takes the feed
(and turns lists into arrays as usual), or it refuses it with the exception and the words that programs know.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.container.onnxdata import check_external_data, check_onnx_file, refuse_external_data
from openrknn.errors import BadReferenceError, FormatError
from openrknn.onnxruntime.real import CPU, onnxruntime, state
from openrknn.partition import Port
from openrknn.runtime.parted.types import DTYPES

_ELEMENTS = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
    "float16": 10, "double": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
}  # fmt: skip
"""ONNX Runtime's word -> TensorProto.DataType."""


_FOLDER = "session.model_external_initializers_file_folder_path"


class NodeArg:
    """An input or an output, as ONNX Runtime shows it."""

    __slots__ = ("name", "shape", "type")

    def __init__(self, port: Port) -> None:
        self.name = port.name
        self.type = port.type
        self.shape: list[int | str | None] = list(port.shape)

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


def unknown_output(name: str) -> Exception:
    """ONNX Runtime's exception for an output that is not there."""
    error: Exception = state.InvalidArgument(f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid output name:{name}")
    return error


def check_files(path: str | None, data: bytes | None, options: Any) -> None:
    """ONNX Runtime's exception for a model that keeps tensors outside of its folder.

    The folder of a model that is given as bytes is the one that the session's options name; without it there is none.
    """
    try:
        if path is not None:
            check_onnx_file(path)
        elif data is not None:
            folder = _folder_of(options)
            if folder:
                check_external_data(data, folder, "the model")
            else:
                refuse_external_data(data, "the model")
    except BadReferenceError as error:
        raise state.Fail(f"[ONNXRuntimeError] : 1 : FAIL : {error}") from error
    except FormatError:
        return  # another format, or no model: ONNX Runtime or a reader of ours says so


def _folder_of(options: Any) -> str:
    try:
        return str(options.get_session_config_entry(_FOLDER))
    except (AttributeError, RuntimeError):  # no options, or none of this name
        return ""


class InputChecker:
    """Checks feeds for the inputs of a model."""

    def __init__(self, inputs: Sequence[Port]) -> None:
        self._inputs = {port.name: port for port in inputs}
        self._plain = {
            port.name: (np.dtype(DTYPES[port.type]), port.shape) for port in inputs if port.type in DTYPES
        }
        self._lock = threading.Lock()
        self._session: Any = None

    def take(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """The feed as arrays; ONNX Runtime's exceptions."""
        names = list(feed)
        absent = [p.name for p in self._inputs.values() if p.name not in feed and not p.type.startswith("optional")]
        if absent:
            raise ValueError(f"Required inputs ({absent}) are missing from input feed ({names}).")
        left_out = dict.fromkeys(name for name in self._inputs if name not in feed)  # optional ones
        if all(map(self._fits, feed, feed.values())):
            return {**feed, **left_out}
        opened = self._open()
        if opened is None:
            return {**feed, **left_out}
        taken = opened.run([f"{_PASSED}{name}" for name in names if name in self._inputs] or None, dict(feed))
        return {**dict(zip(names, taken, strict=True)), **left_out}

    def __contains__(self, name: object) -> bool:
        return name in self._inputs

    def _fits(self, name: str, value: Any) -> bool:
        if name not in self._plain or not isinstance(value, np.ndarray):
            return False
        kind, shape = self._plain[name]
        return (
            value.dtype == kind
            # Without sizes: a scalar, or any rank. ONNX Runtime checks neither.
            and (not shape or len(shape) == value.ndim)
            and all(not isinstance(want, int) or want == got for want, got in zip(shape, value.shape, strict=False))
        )

    def _open(self) -> Any:
        with self._lock:
            if self._session is None:
                try:
                    model = _passage(list(self._inputs.values()))
                except KeyError:  # a type that cannot be passed on, a map for one: nothing is checked
                    return None
                quiet = onnxruntime.SessionOptions()
                quiet.log_severity_level = 4
                self._session = onnxruntime.InferenceSession(model, quiet, providers=[CPU])
            return self._session


_PASSED = "passed the gate: "


def _passage(inputs: Sequence[Port]) -> bytes:
    """A model that gives its inputs back."""
    from onnx import helper

    kinds = " ".join(port.type for port in inputs)
    opset, ir = (21, 10) if "int4" in kinds else (19, 9) if "float8" in kinds else (16, 8)
    nodes, entries, results = [], [], []
    for port in inputs:
        entries.append(helper.make_value_info(port.name, _type(port.type, port.shape)))
        nodes.append(helper.make_node("Identity", [port.name], [_PASSED + port.name]))
        results.append(helper.make_value_info(_PASSED + port.name, _type(port.type, port.shape)))
    graph = helper.make_graph(nodes, "gate", entries, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    written: bytes = model.SerializeToString()
    return written


def _type(text: str, shape: Sequence[int | str | None]) -> Any:
    """A TypeProto of "tensor(float)", "seq(tensor(int64))", "optional(seq(tensor(float)))"."""
    from onnx import helper

    kind, _, inside = text.removesuffix(")").partition("(")
    if kind == "seq":
        return helper.make_sequence_type_proto(_type(inside, shape))
    if kind == "optional":
        return helper.make_optional_type_proto(_type(inside, shape))
    if kind != "tensor":
        raise KeyError(text)
    return helper.make_tensor_type_proto(_ELEMENTS[inside], list(shape) or None)
