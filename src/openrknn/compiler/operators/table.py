"""One row for each ONNX operator that something is known about."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from openrknn.compiler.operators.functions import FUNCTION_ROWS
from openrknn.compiler.operators.row import Family, Inline, Npu, NpuFunction, Operator, Rows

_two = partial(Operator, family=Family.BROADCAST, rows=Rows.BROADCAST)
_dpu = partial(_two, npu=Npu.TASK, adjoint="elementwise")
_view = partial(Operator, family=Family.VIEW, npu=Npu.FREE, rows=Rows.FIRST, adjoint="view")
_move = partial(Operator, family=Family.MOVE)
_fill = partial(Operator, family=Family.FILL)
_reduction = partial(Operator, family=Family.REDUCTION)
_norm = partial(Operator, family=Family.NORM)
_window = partial(Operator, family=Family.WINDOW)
_product = partial(Operator, family=Family.PRODUCT)
_recurrent = partial(Operator, family=Family.RECURRENT, npu=Npu.WRITTEN)
_other = partial(Operator, family=Family.OTHER)
_random = partial(Operator, family=Family.RANDOM)
_constant = partial(Operator, family=Family.CONSTANT)

_STEPS = "more than 512 steps, lengths or weights that are computed, {}clipping, or unusual activations"
_PICKS = "the NPU cannot pick pixels by numbers that it computes"

_TWO_NUMBERS = (
    _dpu("Add", cpu=True),
    _two("And", cpu=True),
    _two("BitShift"),
    _two("BitwiseAnd"),
    _two("BitwiseOr"),
    _two("BitwiseXor"),
    _dpu("Div", cpu=True),
    _two("Equal", cpu=True),
    _two("Greater", cpu=True),
    _two("GreaterOrEqual", cpu=True),
    _two("Less", cpu=True),
    _two("LessOrEqual", cpu=True),
    _dpu("Max", cpu=True),
    _two("Mean", npu=Npu.WRITTEN),
    _dpu("Min", cpu=True),
    _two("Mod", cpu=True),
    _dpu("Mul", cpu=True),
    _two("Or", cpu=True),
    _two("PRelu", npu=Npu.FUNCTION, adjoint="difference", function=NpuFunction("prelu", fused="PRelu"),
         inline=Inline.COMPUTED),
    _two("Pow", npu=Npu.FUNCTION, cpu=True, adjoint="pow",
         function=NpuFunction("pow", lambda x, a: np.nan_to_num(np.power(x, a["alpha"])))),
    _dpu("Sub", cpu=True),
    _dpu("Sum"),
    _two("Where", cpu=True),
    _two("Xor", cpu=True),
)  # fmt: skip

_MOVES = (
    Operator("Identity", Family.IDENTITY, Npu.FREE, rows=Rows.APART, adjoint="view"),
    Operator("Dropout", Family.IDENTITY, Npu.FREE, rows=Rows.APART, adjoint="view"),
    Operator("Cast", Family.CAST, cpu=True, rows=Rows.APART),
    Operator("CastLike", Family.CAST),
    Operator("BitCast", Family.CAST),
    _view("Flatten"),
    _view("Reshape"),
    _view("Squeeze"),
    _view("Unsqueeze"),
    _fill("CenterCropPad", npu=Npu.WRITTEN, inline=Inline.ALWAYS),
    _move("Compress", counts_depend=True),
    _move("Concat", npu=Npu.TASK, cpu=True, rows=Rows.ALONG, adjoint="concat"),
    _move("DepthToSpace", npu=Npu.TASK, rows=Rows.ITEMS),
    _move("Expand", cpu=True, picks=True, adjoint="expand"),
    _move("Gather", cpu=True, picks=True, rows=Rows.PICKED),
    _move("GatherElements", cpu=True, picks=True),
    _move("GatherND", cpu=True, picks=True),
    _fill("OneHot", cpu=True),
    _fill("Pad", npu=Npu.TASK, cpu=True, rows=Rows.FIRST, adjoint="pad"),
    _move("ReverseSequence", cpu=True),
    _fill("Scatter"),
    _fill("ScatterElements", cpu=True),
    _fill("ScatterND", cpu=True),
    _move("Slice", npu=Npu.TASK, cpu=True, rows=Rows.FIRST, adjoint="slice"),
    _move("SpaceToDepth", npu=Npu.TASK, rows=Rows.ITEMS),
    _move("Split", npu=Npu.TASK, cpu=True, rows=Rows.ALONG, axis=0),
    _fill("TensorScatter"),
    _move("Tile", cpu=True, picks=True),
    _move("Transpose", npu=Npu.TASK, cpu=True, rows=Rows.TURNED, adjoint="transpose"),
    _fill("Trilu", cpu=True),
)

_LINES = (
    _reduction("ArgMax", cpu=True),
    _reduction("ArgMin", cpu=True),
    _reduction("CumSum", cpu=True),
    _reduction("CumProd"),
    _reduction("Hardmax", cpu=True, rows=Rows.ALONG, axis=-1),
    _reduction("ReduceL1", cpu=True),
    _reduction("ReduceL2", cpu=True),
    _reduction("ReduceLogSum", cpu=True),
    _reduction("ReduceLogSumExp", cpu=True),
    _reduction("ReduceMax", cpu=True, adjoint="mean"),
    _reduction("ReduceMean", npu=Npu.TASK, cpu=True, adjoint="mean"),
    _reduction("ReduceMin", cpu=True),
    _reduction("ReduceProd", cpu=True),
    _reduction("ReduceSum", cpu=True, adjoint="mean"),
    _reduction("ReduceSumSquare", cpu=True),
    _reduction("TopK", cpu=True, counts_depend=True, hint="sort in your program"),
    _norm("BatchNormalization", npu=Npu.TASK, rows=Rows.ITEMS, adjoint="batch_norm"),
    _norm("GroupNormalization", npu=Npu.WRITTEN, rows=Rows.ITEMS, inline=Inline.COMPUTED),
    _norm("InstanceNormalization", npu=Npu.WRITTEN, rows=Rows.ITEMS),
    _norm("LayerNormalization", npu=Npu.TASK, rows=Rows.LAST, inline=Inline.COMPUTED),
    _norm("LogSoftmax", npu=Npu.WRITTEN, rows=Rows.ALONG, axis=-1),
    _norm("LpNormalization", npu=Npu.WRITTEN, rows=Rows.ALONG, axis=-1),
    _norm("LRN", cpu=True, rows=Rows.ITEMS),
    _norm("MeanVarianceNormalization", npu=Npu.WRITTEN),
    _norm("RMSNormalization", npu=Npu.WRITTEN, rows=Rows.LAST, inline=Inline.ALWAYS),
    _norm("Softmax", npu=Npu.TASK, rows=Rows.ALONG, axis=-1, adjoint="softmax"),
)

_WINDOWS = (
    _window("AveragePool", npu=Npu.TASK, rows=Rows.ITEMS, adjoint="average_pool", has_kernel=True),
    _window("Col2Im"),
    _window("GlobalAveragePool", npu=Npu.TASK, rows=Rows.ITEMS, adjoint="mean"),
    _window("GlobalLpPool", rows=Rows.ITEMS),
    _window("GlobalMaxPool", npu=Npu.TASK, rows=Rows.ITEMS),
    _window("GridSample", cpu=True, hint=_PICKS),
    _window("LpPool", cpu=True, rows=Rows.ITEMS, has_kernel=True),
    _window("MaxPool", npu=Npu.TASK, cpu=True, rows=Rows.ITEMS, adjoint="max_pool", has_kernel=True),
    _window("MaxRoiPool", cpu=True),
    _window("MaxUnpool", has_kernel=True, hint="the NPU cannot put numbers at places that it computes"),
    _window("Resize", npu=Npu.TASK, cpu=True, rows=Rows.FIRST, adjoint="resize",
            hint="nearest and linear by integer factors are supported"),
    _window("RoiAlign", cpu=True, hint=_PICKS),
    _window("Upsample", npu=Npu.TASK, rows=Rows.FIRST, adjoint="resize"),
)  # fmt: skip

_PRODUCTS = (
    _product("Attention", npu=Npu.WRITTEN, inline=Inline.ALWAYS),
    _product("CausalConvWithState", inline=Inline.ALWAYS),
    _product("Conv", npu=Npu.TASK, rows=Rows.ITEMS, adjoint="conv", has_kernel=True),
    _product("ConvInteger", npu=Npu.WRITTEN, has_kernel=True),
    _product("ConvTranspose", npu=Npu.TASK, rows=Rows.ITEMS, adjoint="conv_transpose", has_kernel=True),
    _product("DeformConv", has_kernel=True),
    _product("Einsum", npu=Npu.WRITTEN),
    _product("FlexAttention", inline=Inline.ALWAYS),
    _product("Gemm", npu=Npu.TASK, rows=Rows.GEMM, adjoint="gemm"),
    _product("LinearAttention"),
    _product("MatMul", npu=Npu.TASK, rows=Rows.MATMUL, adjoint="matmul"),
    _product("MatMulInteger", npu=Npu.WRITTEN),
    _product("QLinearConv", npu=Npu.WRITTEN, has_kernel=True),
    _product("QLinearMatMul", npu=Npu.WRITTEN),
    _product("SwiGLU", npu=Npu.WRITTEN, inline=Inline.ALWAYS),
    _recurrent("GRU", hint=_STEPS.format("")),
    _recurrent("LSTM", hint=_STEPS.format("peepholes, ")),
    _recurrent("RNN", hint=_STEPS.format("")),
)

_OTHERS = (
    Operator("DequantizeLinear", Family.QUANTISER, Npu.FREE),
    Operator("DynamicQuantizeLinear", Family.OTHER, Npu.WRITTEN),
    Operator("QuantizeLinear", Family.QUANTISER, Npu.FREE),
    Operator("If", Family.CONTROL, counts_depend=True, hint="its condition depends on what is fed"),
    Operator("Loop", Family.CONTROL, counts_depend=True, hint="how often it runs depends on what is fed"),
    Operator("Scan", Family.CONTROL, counts_depend=True),
    Operator("SequenceMap", Family.CONTROL),
    _constant("AffineGrid", inline=Inline.ALWAYS),
    _constant("BlackmanWindow"),
    _constant("Constant"),
    _constant("ConstantOfShape"),
    _constant("EyeLike"),
    _constant("HammingWindow"),
    _constant("HannWindow"),
    _constant("MelWeightMatrix"),
    _constant("Range", counts_depend=True),
    _constant("Shape"),
    _constant("Size"),
    _other("DFT"),
    _other("Det"),
    _other("NegativeLogLikelihoodLoss", inline=Inline.ALWAYS),
    _other("NonMaxSuppression", counts_depend=True, hint="openrknn.vision and your program have it"),
    _other("NonZero", counts_depend=True),
    _other("RotaryEmbedding", npu=Npu.WRITTEN, inline=Inline.ALWAYS),
    _other("STFT"),
    _other("SoftmaxCrossEntropyLoss", inline=Inline.ALWAYS),
    _other("Unique", counts_depend=True),
    _random("Bernoulli"),
    _random("Multinomial"),
    _random("RandomNormal"),
    _random("RandomNormalLike"),
    _random("RandomUniform"),
    _random("RandomUniformLike"),
)

OPERATORS: Mapping[str, Operator] = MappingProxyType({
    row.name: row
    for row in (*FUNCTION_ROWS, *_TWO_NUMBERS, *_MOVES, *_LINES, *_WINDOWS, *_PRODUCTS, *_OTHERS)
})  # fmt: skip
"""ONNX operator -> its row."""
