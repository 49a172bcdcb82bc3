"""`rknn_tensor_attr` of inputs and outputs, as the vendor's runtime 1.5.2 fills it in."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from openrknn.container import DataType, Layout, Tensor
from rknnlite.api.constants import (
    RKNN_TENSOR_NC1HWC2,
    RKNN_TENSOR_NCHW,
    RKNN_TENSOR_NHWC,
    RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC,
    RKNN_TENSOR_UNDEFINED,
    rknn_input_data_type,
)
from rknnlite.api.structures import RKNNRtTensorAttr
from rknnlite.engine.outputs import OutputPort
from rknnlite.engine.ports import FEATURE_RANK, InputPort

__all__ = ["attribute_of", "native_attribute_of"]

_TYPES = {
    **{data_type: rknn_input_data_type.get(data_type.label, -1) for data_type in DataType},
    DataType.INT4: 10,
    DataType.BFLOAT16: 11,
}
"""Our types -> rknn_tensor_type; -1 where the C API has none."""
_FORMATS = {"nhwc": RKNN_TENSOR_NHWC, "nchw": RKNN_TENSOR_NCHW, "undefined": RKNN_TENSOR_UNDEFINED}


def attribute_of(port: InputPort | OutputPort, index: int) -> RKNNRtTensorAttr:
    """In the original shape: NHWC for inputs of four dimensions, NCHW for such outputs."""
    if isinstance(port, InputPort):
        attribute = _filled(port.tensor, index, port.shape, _FORMATS[port.layout])
        attribute.w_stride = _row_pixels(port.tensor)
        attribute.stride_with_stride = _strided_bytes(port.tensor, port.shape)
        return attribute
    kind = RKNN_TENSOR_NCHW if len(port.shape) == FEATURE_RANK else RKNN_TENSOR_UNDEFINED
    attribute = _filled(port.tensor, index, port.shape, kind)
    attribute.stride_with_stride = max(_strided_bytes(port.tensor, port.shape), int(attribute.size))
    return attribute


def native_attribute_of(port: InputPort | OutputPort, index: int) -> RKNNRtTensorAttr:
    """As the tensor lies in memory: [N, C1, H, W, C2] for feature maps, the original shape for the rest."""
    tensor = port.tensor
    if tensor.layout is not Layout.NC1HWC2 or tensor.row_alignment or len(tensor.native_shape) <= FEATURE_RANK:
        return attribute_of(port, index)
    shape = (port.shape[0], *tensor.native_shape[1:])
    attribute = _filled(tensor, index, shape, RKNN_TENSOR_NC1HWC2)
    attribute.w_stride = _row_pixels(tensor) if isinstance(port, InputPort) else 0
    attribute.stride_with_stride = attribute.size
    return attribute


def _filled(tensor: Tensor, index: int, shape: Sequence[int], layout: int) -> RKNNRtTensorAttr:
    quantization = tensor.quantization if tensor.dtype.label.startswith("int") else None
    attribute = RKNNRtTensorAttr(index=index, n_dims=len(shape), fmt=layout)
    attribute.dims[: len(shape)] = list(shape)
    attribute.name = tensor.name.encode()[: RKNNRtTensorAttr.name.size - 1]
    attribute.n_elems = prod(shape)
    attribute.size = attribute.n_elems * tensor.dtype.bits // 8
    attribute.type = _TYPES[tensor.dtype]
    attribute.qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC
    attribute.scale = quantization.scale[0] if quantization else 1.0
    attribute.zp = quantization.zero_point[0] if quantization else 0
    return attribute


def _row_pixels(tensor: Tensor) -> int:
    """Pixels from one row to the next; 0 where there are no rows."""
    if len(tensor.shape) != FEATURE_RANK:
        return 0
    width, alignment = tensor.shape[3], tensor.row_alignment or 1
    return -(-width // alignment) * alignment


def _strided_bytes(tensor: Tensor, shape: Sequence[int]) -> int:
    """With everything that pads it."""
    if tensor.row_alignment and len(tensor.shape) == FEATURE_RANK:
        _, channels, height, _ = tensor.shape
        return shape[0] * channels * height * _row_pixels(tensor) * tensor.dtype.bits // 8
    return tensor.size_bytes * max(1, shape[0] // max(1, tensor.shape[0])) if shape else tensor.size_bytes
