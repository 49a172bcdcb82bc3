"""What people read about operators of the intermediate form: the source of two tables in the docs.

Keys of `NPU_OPERATORS` are the intermediate form's operators, keys of `CPU_OPERATORS` those of ONNX that the vendor's
runtime 1.5.2 and ours both run on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Row(NamedTuple):
    """One operator: the ONNX operators that become it, and how it runs."""

    onnx: str
    how: str


NPU_OPERATORS: Mapping[str, Row] = MappingProxyType(
    {
        "Conv": Row(
            "Conv (1-D, 2-D, dilated, grouped, depthwise, any padding), Gemm, MatMul of [1, C] or [1, T, C] with "
            "constant weights, BatchNormalization, Add/Sub/Mul/Div with constants per channel, GlobalAveragePool, "
            "ReduceMean over pixels, Pad, Slice of pixels, SpaceToDepth",
            "CNA and CORE, with bias, activation and a residual addition in the same task",
        ),
        "ConvTranspose": Row(
            "ConvTranspose, DepthToSpace, Resize linear by whole factors with half-pixel centres",
            "CNA with pad values between the pixels",
        ),
        "LayerNormalization": Row(
            "LayerNormalization and RMSNormalization of [1, T, C] or [1, H, W, C] over C, also written out",
            "in fp16, in int8 models too: convolutions, products, and Newton's method for the root; rows of any size",
        ),
        "Softmax": Row(
            "Softmax over channels, or over the last dimension of attention scores, where something follows it",
            "DPU for the maximum, the exponential by table and the division, 1x1 convolutions for the sum; fp16, also "
            "in int8 models",
        ),
        "Product": Row(
            "MatMul of two activations [1, H, M, K] x [1, H, K, N]",
            "DPU rearranges the second operand as weights, a 1x1 convolution per head; fp16, also in int8 models",
        ),
        "Turn": Row(
            "Transpose of [1, C, H, W] in the middle of a network, where C and what becomes the channels are multiples "
            "of 16 (fp16: 8), and Transpose of rows and columns",
            "DPU, moving atoms and lanes; next to an operator that works in any order it is no task at all",
        ),
        "Pool": Row("MaxPool, AveragePool, GlobalMaxPool", "PPU; wide maps in stripes"),
        "Activation": Row(
            "Relu, Clip, LeakyRelu, PRelu, Sigmoid, Tanh, HardSwish, HardSigmoid, Elu, Gelu, Mish, Softplus, Erf, "
            "SiLU; with calibration also Exp, Sqrt, Log, Abs, Reciprocal, Sin, Cos, Pow with a constant",
            "DPU; functions by lookup table, loaded once where only one is needed",
        ),
        "Binary": Row(
            "Add, Sub, Mul, Max, Min, Sum, Div (fp16)", "DPU; second operand per pixel, per channel, or constant"
        ),
        "Concat": Row(
            "Concat over any dimension",
            "no task over channels, rows or tokens: parts are written where they belong; others become rows",
        ),
        "Slice": Row(
            "Slice and Split over any dimension",
            "no task over channels, rows or tokens: an address; columns by the CNA",
        ),
        "Repeat": Row("Resize and Upsample, nearest, by whole factors up to 8", "DPU, repeating pixels"),
        "Reshape": Row("Reshape, Flatten, Squeeze, Unsqueeze", "no task where memory stays as it is, else the CPU"),
    }
)

CPU_OPERATORS: Mapping[str, Row] = MappingProxyType(
    {
        "AveragePool": Row("AveragePool that leaves padding out", "the NPU's mean counts padding pixels"),
        "Reshape": Row("Reshape that moves channels", "the NPU keeps 16 bytes of channels together"),
        "MatMul": Row(
            "MatMul of two activations with broadcast, more than 3072 deep, or with nothing else in the model",
            "no recipe, or nothing to gain: the CPU would have to arrange all operands for the NPU",
        ),
        "Softmax": Row(
            "Softmax that an output follows; Softmax over pixels",
            "exact on the CPU, and nothing waits for it; the NPU reduces over channels only",
        ),
        "Transpose": Row(
            "Transpose at the ends of a model, or of channels that are no multiple of 16 (fp16: 8)",
            "the CPU arranges inputs and outputs anyway; the NPU turns whole runs of lanes",
        ),
    }
)
"""Why the second column: what keeps it from the NPU."""
