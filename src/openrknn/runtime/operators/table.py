"""The operators by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from openrknn.runtime.operators import (
    binary,
    convert,
    convolve,
    matmul,
    normalise,
    pick,
    pools,
    rearrange,
    recurrent,
    reduce,
    regions,
    resize,
    shape,
    unary,
)
from openrknn.runtime.operators.interface import Compute, CpuOperator, SeveralOutputs
from openrknn.runtime.operators.pools import average_pool
from openrknn.runtime.operators.resize import grid_sample
from openrknn.runtime.operators.softmax import flat_softmax, softmax

_MOVES: Mapping[str, Compute] = {
    **rearrange.REARRANGES,
    "Compress": pick.compress,
    "Gather": pick.gather,
    "GatherElements": pick.gather_elements,
    "GatherND": pick.gather_nd,
    "GlobalMaxPool": pools.global_max,
    **reduce.PICKING,
}

_COMPUTES: Mapping[str, Compute] = {
    "ArgMax": pick.arg_max,
    "ArgMin": pick.arg_min,
    "AveragePool": average_pool,
    "BatchNormalization": normalise.batch_norm,
    "Cast": convert.cast,
    "Constant": shape.constant,
    "ConstantOfShape": shape.constant_of_shape,
    "Conv": convolve.conv,
    "ConvRelu": convolve.followed_by(convolve.conv, lambda x, _: np.maximum(x, 0)),
    "ConvTranspose": convolve.conv_transpose,
    "CumSum": shape.cum_sum,
    "DequantizeLinear": convert.dequantize,
    "Det": matmul.determinant,
    "Einsum": matmul.einsum,
    "EyeLike": shape.eye_like,
    "Gemm": matmul.gemm,
    "GlobalAveragePool": pools.global_average,
    "GlobalLpPool": pools.global_lp,
    "GridSample": grid_sample,
    "GroupNormalization": normalise.group_norm,
    "InstanceNormalization": normalise.instance_norm,
    "LRN": normalise.local_response,
    "LogSoftmax": convert.log_softmax,
    "LpNormalization": normalise.lp_normalise,
    "LpPool": pools.lp_pool,
    "MatMul": matmul.matmul,
    "MaxRoiPool": regions.max_roi_pool,
    "MaxUnpool": pools.max_unpool,
    "MeanVarianceNormalization": normalise.mean_variance,
    "NonMaxSuppression": regions.non_max_suppression,
    "NonZero": shape.non_zero,
    "OneHot": pick.one_hot,
    "Pad": rearrange.pad,
    "QuantizeLinear": convert.quantize,
    "RMSNormalization": normalise.rms_norm,
    "Range": shape.range_,
    "Resize": resize.resize,
    "RoiAlign": regions.roi_align,
    "ScatterElements": pick.scatter_elements,
    "ScatterND": pick.scatter_nd,
    "Shape": shape.shape_,
    "Size": shape.size,
    "Softmax": flat_softmax,
    "Trilu": rearrange.trilu,
    "Upsample": resize.upsample,
    "exConvTransposePad": convolve.conv_transpose_pad,
    "exDataConvert": rearrange.identity,
    "exMatMul": matmul.ex_matmul,
    "exNorm": normalise.ex_norm,
    "exSDPAttention": matmul.attention,
    "exSoftmax13": softmax,
    **unary.ACTIVATIONS,
    **binary.BINARY,
    **reduce.REDUCTIONS,
    **unary.UNARY,
}

OPERATORS: Mapping[str, CpuOperator] = MappingProxyType(
    {
        **{name: CpuOperator(compute, moves=True) for name, compute in _MOVES.items()},
        **{name: CpuOperator(compute) for name, compute in _COMPUTES.items()},
    }
)
"""Operator type -> how to compute it."""

SEVERAL: Mapping[str, SeveralOutputs] = MappingProxyType(
    {
        "GRU": SeveralOutputs(recurrent.gru),
        "LSTM": SeveralOutputs(recurrent.lstm),
        "LayerNormalization": SeveralOutputs(normalise.layer_norm),
        "MaxPool": SeveralOutputs(pools.max_pool),
        "RNN": SeveralOutputs(recurrent.rnn),
        "Split": SeveralOutputs(rearrange.split, moves=True),
        "TopK": SeveralOutputs(pick.top_k),
        "exGRU": SeveralOutputs(recurrent.gru),
        "exLSTM": SeveralOutputs(recurrent.lstm),
    }
)
"""Operator type -> how to compute it, for operators that can have more than one output."""
