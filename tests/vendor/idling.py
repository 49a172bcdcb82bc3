"""The idle library from Python: built, and told the tensors of a model, so that sessions can be on it."""

from __future__ import annotations

import ctypes
from pathlib import Path

from openrknn.container.model import Model
from openrknn.container.parts import DataType, Layout, Tensor
from openrknn.layout.features import FeatureLayout, ImageRows
from openrknn.vendor.context.answers import TensorAttributes
from openrknn.vendor.library.library import Library
from openrknn.vendor.tables.enums import QuantizationType, TensorFormat, TensorType
from tests.vendor.compiler import HERE, compiled, native_compiler

_TYPES = {
    DataType.INT8: TensorType.INT8, DataType.FLOAT16: TensorType.FLOAT16, DataType.FLOAT32: TensorType.FLOAT32,
    DataType.INT64: TensorType.INT64, DataType.INT32: TensorType.INT32, DataType.INT16: TensorType.INT16,
}  # fmt: skip
_BYTES = {TensorType.INT8: 1, TensorType.FLOAT16: 2, TensorType.INT16: 2, TensorType.INT64: 8}


def idle_library(model: Model, *, answers: bool = False) -> Library:
    """A library that knows this model and computes nothing; one model at a time."""
    options = ["-DAPI=232", "-shared", "-fPIC", "-O2"]
    path = compiled(native_compiler(), HERE / "idle.c", "librknnrt.so", options)
    library = Library(path, chip=None)
    raw = ctypes.CDLL(str(path))
    graph = model.graphs[0]
    for is_output, indices in ((0, graph.inputs), (1, graph.outputs)):
        for number, index in enumerate(indices):
            plain, native = _attributes(graph.tensors[index], number, is_output=bool(is_output))
            structs = [library.structs.rknn_tensor_attr(), library.structs.rknn_tensor_attr()]
            plain.fill(structs[0])
            native.fill(structs[1])
            raw.idle_describe(is_output, number, ctypes.byref(structs[0]), ctypes.byref(structs[1]))
    raw.idle_answer(int(answers))
    return library


def runs(library: Library) -> int:
    """How often any context ran."""
    function = ctypes.CDLL(str(Path(library.path))).idle_runs
    function.restype = ctypes.c_long
    return int(function())


def _attributes(tensor: Tensor, index: int, *, is_output: bool) -> tuple[TensorAttributes, TensorAttributes]:
    kind = _TYPES[tensor.dtype]
    size = _BYTES.get(kind, 4)
    quantization = tensor.quantization
    common = TensorAttributes(
        index=index, name=tensor.name, shape=tensor.shape, format=TensorFormat.UNDEFINED, type=kind,
        quantization=QuantizationType.AFFINE_ASYMMETRIC if quantization else QuantizationType.NONE,
        zero_point=quantization.zero_point[0] if quantization else 0,
        scale=quantization.scale[0] if quantization else 1.0,
        elements=tensor.elements, size_bytes=tensor.elements * size, size_with_stride_bytes=tensor.elements * size,
    )  # fmt: skip
    if len(tensor.shape) != 4:
        return common, common
    batches, channels, height, width = tensor.shape
    last = common.replaced(format=TensorFormat.NHWC, shape=(batches, height, width, channels), width_stride=width)
    plain = common.replaced(format=TensorFormat.NCHW) if is_output else last
    if tensor.layout is not Layout.NC1HWC2:
        return plain, plain
    if tensor.row_alignment:
        rows = ImageRows.aligned((batches, height, width, channels), tensor.row_alignment)
        native = last.replaced(width_stride=rows.row_pixels, size_with_stride_bytes=rows.elements * size)
        return native, native
    places = FeatureLayout.from_native(tensor.native_shape, channels=channels, pixel_alignment=tensor.pixel_alignment)
    native = common.replaced(
        format=TensorFormat.NC1HWC2, shape=tensor.native_shape, elements=places.elements,
        size_bytes=places.elements * size, size_with_stride_bytes=max(places.elements * size, tensor.size_bytes),
    )  # fmt: skip
    return plain, native
