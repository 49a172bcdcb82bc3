"""rknn_tensor_attr: what the library says of the inputs and outputs of a model.

Every rule is what the vendor's runtime 1.5.2 was seen to answer for all goldens and corpus files of RK3588 and RK3566
that it loads (tests/capi/test_attributes.py, test_differential.py). Names: A is the bytes of an atom (`Chip`), e the
bytes of an element, C2 = A / e, up(x, n) the next multiple of n.

    plain input       NHWC, w_stride up(W, row alignment); size_with_stride is what the compiler allocated
    native input      pictures NHWC with rows of w_stride pixels, maps NC1HWC2, what the CPU reads first NCHW
    NHWC input        the native one
    plain output      NCHW, size_with_stride = N * up(C, C2) * H * up(W, C2) * e
    native output     NC1HWC2, or NCHW if the CPU writes it; planes of no multiple of four pixels are [1, up(H*W, 4)]
    NHWC output       [N, H, W, C], on RK3566 and RK3568 [N, H, W, up(C, C2)]; size_with_stride = up(size, C2)

Tensors of other ranks than four have no layout and no strides. A model built for a batch has it in the first
dimension of everything.
"""

from __future__ import annotations

import math
from types import MappingProxyType

from openrknn.capi.structs import Values
from openrknn.chip.target import align
from openrknn.container.model import Model
from openrknn.container.parts import DataType, Layout, Tensor
from openrknn.vendor.tables.enums import QuantizationType, TensorFormat, TensorType

_RANK = 4
_NATIVE_RANK = 5
_PLANE = 4
"""The DPU writes whole runs of this many pixels."""
_SMALL_ATOM = 8
"""RK3566 and RK3568: the NPU writes whole atoms, with channels last too."""

ELEMENT_TYPES = MappingProxyType({
    DataType.FLOAT32: TensorType.FLOAT32, DataType.FLOAT16: TensorType.FLOAT16, DataType.INT8: TensorType.INT8,
    DataType.UINT8: TensorType.UINT8, DataType.INT16: TensorType.INT16, DataType.UINT16: TensorType.UINT16,
    DataType.INT32: TensorType.INT32, DataType.UINT32: TensorType.UINT32, DataType.INT64: TensorType.INT64,
    DataType.BOOL: TensorType.BOOL, DataType.INT4: TensorType.INT4, DataType.BFLOAT16: TensorType.BFLOAT16,
})  # fmt: skip
"""The file's code -> the C API's."""


def input_tensor(model: Model, graph: int, index: int) -> Tensor:
    """An input of one graph; IndexError if there is none."""
    return _tensor(model, graph, model.graphs[graph].inputs, index)


def output_tensor(model: Model, graph: int, index: int) -> Tensor:
    """An output of one graph."""
    return _tensor(model, graph, model.graphs[graph].outputs, index)


def _tensor(model: Model, graph: int, numbers: tuple[int, ...], index: int) -> Tensor:
    if not 0 <= index < len(numbers):
        raise IndexError(f"there is no tensor {index}, only {len(numbers)}")
    return model.graphs[graph].tensors[numbers[index]]


# ----------------------------------------------------------------------------------------------------------------------
# Inputs


def input_attr(model: Model, graph: int, index: int) -> Values:
    """RKNN_QUERY_INPUT_ATTR: what `rknn_inputs_set` takes."""
    tensor = input_tensor(model, graph, index)
    batch = _batch(model)
    if len(tensor.shape) != _RANK:
        return _attr(
            index, tensor, TensorFormat.UNDEFINED, _batched(tensor.shape, batch), stored=_allocated(tensor, batch)
        )
    count, channels, height, width = tensor.shape
    return _attr(
        index, tensor, TensorFormat.NHWC, (count * batch, height, width, channels), w_stride=_row_pixels(tensor),
        stored=_allocated(tensor, batch),
    )  # fmt: skip


def native_input_attr(model: Model, graph: int, index: int) -> Values:
    """RKNN_QUERY_NATIVE_INPUT_ATTR: the input as the NPU, or the first operator, reads it; pictures are NHWC."""
    tensor = input_tensor(model, graph, index)
    batch = _batch(model)
    if len(tensor.shape) != _RANK:
        return _native(index, tensor, batch)
    if not tensor.row_alignment:
        return _native(index, tensor, batch, w_stride=tensor.shape[3])
    count, channels, height, width = tensor.shape
    row = _row_pixels(tensor)
    stored = count * batch * height * row * channels * tensor.dtype.bits // 8
    dims = (count * batch, height, width, channels)
    return _attr(index, tensor, TensorFormat.NHWC, dims, w_stride=row, stored=stored)


# ----------------------------------------------------------------------------------------------------------------------
# Outputs


def output_attr(model: Model, graph: int, index: int) -> Values:
    """RKNN_QUERY_OUTPUT_ATTR: what `rknn_outputs_get` gives."""
    tensor = output_tensor(model, graph, index)
    dims = _batched(tensor.shape, _batch(model))
    if len(tensor.shape) != _RANK:
        return _attr(index, tensor, TensorFormat.UNDEFINED, dims)
    count, channels, height, width = dims
    lanes = _lanes(model, tensor)
    stored = count * align(channels, lanes) * height * align(width, lanes) * tensor.dtype.bits // 8
    return _attr(index, tensor, TensorFormat.NCHW, dims, stored=stored)


def native_output_attr(model: Model, graph: int, index: int) -> Values:
    """RKNN_QUERY_NATIVE_OUTPUT_ATTR: the output as the NPU, or the last operator, writes it."""
    return _native(index, output_tensor(model, graph, index), _batch(model))


def nhwc_output_attr(model: Model, graph: int, index: int) -> Values:
    """RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR: the output with channels last."""
    tensor = output_tensor(model, graph, index)
    dims, form, lanes = _batched(tensor.shape, _batch(model)), TensorFormat.UNDEFINED, _lanes(model, tensor)
    if len(tensor.shape) == _RANK:
        count, _, height, width = dims
        form, dims = TensorFormat.NHWC, (count, height, width, nhwc_channels(tensor, model.chip.atom_bytes))
    return _attr(index, tensor, form, dims, stored=align(math.prod(dims) * tensor.dtype.bits // 8, lanes))


def nhwc_channels(tensor: Tensor, atom_bytes: int) -> int:
    """How many channels a pixel has in an output with channels last."""
    channels = tensor.shape[1]
    is_padded = atom_bytes == _SMALL_ATOM and tensor.layout is Layout.NC1HWC2
    return align(channels, max(atom_bytes * 8 // max(tensor.dtype.bits, 1), 1)) if is_padded else channels


def native_bytes(tensor: Tensor) -> int:
    """What the native attributes of one item say; the compiler may have allocated more."""
    if not tensor.row_alignment or len(tensor.shape) != _RANK:
        size = _native(0, tensor, 1)["size"]
        assert isinstance(size, int)
        return size
    count, channels, height, _ = tensor.shape
    return count * height * _row_pixels(tensor) * channels * tensor.dtype.bits // 8


# ----------------------------------------------------------------------------------------------------------------------
# What they have in common


def _native(index: int, tensor: Tensor, batch: int, w_stride: int = 0) -> Values:
    """As stored in memory: a map, or a tensor of the CPU in its own order."""
    if tensor.layout is Layout.NC1HWC2 and len(tensor.native_shape) == _NATIVE_RANK:
        count, surfaces, height, width, lanes = tensor.native_shape
        if tensor.pixel_alignment and height * width % _PLANE:
            height, width = 1, align(height * width, _PLANE)
        dims: tuple[int, ...] = (count * batch, surfaces, height, width, lanes)
        return _attr(index, tensor, TensorFormat.NC1HWC2, dims, w_stride=w_stride)
    form = TensorFormat.NCHW if len(tensor.shape) == _RANK else TensorFormat.UNDEFINED
    return _attr(index, tensor, form, _batched(tensor.shape, batch), w_stride=w_stride)


def _attr(
    index: int,
    tensor: Tensor,
    form: TensorFormat,
    dims: tuple[int, ...],
    *,
    w_stride: int = 0,
    stored: int | None = None,
) -> Values:
    """The struct; what is not quantized has the scale 1, and says that it is affine all the same."""
    elements = math.prod(dims)
    size = elements * tensor.dtype.bits // 8
    quantization = tensor.quantization
    return {
        "index": index,
        "n_dims": len(dims),
        "dims": list(dims),
        "name": tensor.name,
        "n_elems": elements,
        "size": size,
        "fmt": form,
        "type": ELEMENT_TYPES.get(tensor.dtype, TensorType.FLOAT32),
        "qnt_type": QuantizationType.AFFINE_ASYMMETRIC,
        "fl": 0,
        "zp": quantization.zero_point[0] if quantization else 0,
        "scale": quantization.scale[0] if quantization else 1.0,
        "w_stride": w_stride,
        "size_with_stride": size if stored is None else stored,
        "pass_through": 0,
        "h_stride": 0,
    }


def _batch(model: Model) -> int:
    return max(model.batch_size, 1)


def _batched(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    return (shape[0] * batch, *shape[1:]) if shape else ()


def _allocated(tensor: Tensor, batch: int) -> int:
    return tensor.size_bytes * batch


def _lanes(model: Model, tensor: Tensor) -> int:
    """C2."""
    return max(model.chip.atom_bytes * 8 // max(tensor.dtype.bits, 1), 1)


def _row_pixels(tensor: Tensor) -> int:
    return align(tensor.shape[3], max(tensor.row_alignment, 1))
