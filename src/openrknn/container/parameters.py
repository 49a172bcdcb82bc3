"""The parameters of an operator's CPU implementation: one FlatBuffer table per type, by its number in the node.

Facts only, worked out from files that the vendor's converter made with every attribute at a value of its own. Values
that are the default are not in the file. Most operators have the same as BSON; Resize and recurrent ones do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from openrknn.records import dataclass


@dataclass(frozen=True, slots=True)
class ParameterTable:
    """What an operator's CPU implementation reads: ONNX attribute names in alphabetical order are the slots.

    The kinds are "i" (32-bit integer), "f" (32-bit float), "s" (text), "is" and "fs" (vectors of them), "ss" (texts).
    """

    operator: str
    slots: tuple[tuple[str, str], ...]


_WINDOW = (("kernel_shape", "is"), ("pads", "is"))
_AUTO_PAD = ("auto_pad", "s")
_DILATIONS = ("dilations", "is")
_STRIDES = ("strides", "is")
_TRANSPOSED = (
    _AUTO_PAD,
    _DILATIONS,
    ("group", "i"),
    ("kernel_shape", "is"),
    ("output_padding", "is"),
    ("output_shape", "is"),
    ("pads", "is"),
    _STRIDES,
)

PARAMETERS: Mapping[int, ParameterTable] = MappingProxyType(
    {
        1: ParameterTable("Conv", (_AUTO_PAD, _DILATIONS, ("group", "i"), *_WINDOW, _STRIDES)),
        2: ParameterTable("ConvTranspose", _TRANSPOSED),
        3: ParameterTable(
            "MaxPool",
            (_AUTO_PAD, ("ceil_mode", "i"), _DILATIONS, *_WINDOW, ("storage_order", "i"), _STRIDES),
        ),
        5: ParameterTable(
            "AveragePool",
            (_AUTO_PAD, ("ceil_mode", "i"), ("count_include_pad", "i"), *_WINDOW, _STRIDES),
        ),
        9: ParameterTable("LeakyRelu", (("alpha", "f"),)),
        17: ParameterTable("BatchNormalization", (("epsilon", "f"), ("momentum", "f"))),
        18: ParameterTable("Softmax", (("axis", "i"),)),
        19: ParameterTable("Concat", (("axis", "i"),)),
        20: ParameterTable("Split", (("axis", "i"), ("split", "is"))),
        25: ParameterTable("Transpose", (("perm", "is"),)),
        26: ParameterTable(
            "Resize",
            (
                ("coordinate_transformation_mode", "s"),
                ("cubic_coeff_a", "f"),
                ("exclude_outside", "i"),
                ("extrapolation_value", "f"),
                ("mode", "s"),
                ("nearest_mode", "s"),
            ),
        ),
        27: ParameterTable(
            "RoiAlign",
            (
                ("mode", "s"),
                ("output_height", "i"),
                ("output_width", "i"),
                ("sampling_ratio", "i"),
                ("spatial_scale", "f"),
            ),
        ),
        28: ParameterTable("MaxRoiPool", (("pooled_shape", "is"), ("spatial_scale", "f"))),
        29: ParameterTable("MaxUnpool", (*_WINDOW, _STRIDES)),
        30: ParameterTable("Pad", (("mode", "s"),)),
        31: ParameterTable("LRN", (("alpha", "f"), ("beta", "f"), ("bias", "f"), ("size", "i"))),
        33: ParameterTable("SpaceToDepth", (("blocksize", "i"),)),
        50: ParameterTable("Gather", (("axis", "i"),)),
        51: ParameterTable("ArgMax", (("axis", "i"), ("keepdims", "i"), ("select_last_index", "i"))),
        52: ParameterTable("ArgMin", (("axis", "i"), ("keepdims", "i"), ("select_last_index", "i"))),
        53: ParameterTable("ReduceMax", (("axes", "is"), ("keepdims", "i"))),
        54: ParameterTable("ReduceMin", (("axes", "is"), ("keepdims", "i"))),
        61: ParameterTable("exSoftmax13", (("axis", "i"),)),
        64: ParameterTable("LogSoftmax", (("axis", "i"),)),
        66: ParameterTable("exConvTransposePad", _TRANSPOSED),
        67: ParameterTable(
            "exGRU",
            (
                ("batch_size", "i"),
                ("hidden_size", "i"),
                ("input_layout", "s"),
                ("linear_before_reset", "i"),
                ("output_layout", "s"),
                ("sequence_length", "i"),
            ),
        ),
        71: ParameterTable("GRU", (("direction", "s"), ("hidden_size", "i"), ("linear_before_reset", "i"))),
        72: ParameterTable("Cos", ()),
        73: ParameterTable("Sin", ()),
        75: ParameterTable("Not", ()),
        77: ParameterTable("exGlu", (("axis", "i"),)),
        78: ParameterTable("Log", ()),
        79: ParameterTable("Erf", ()),
        81: ParameterTable("Floor", ()),
        82: ParameterTable("GatherElements", (("axis", "i"),)),
        83: ParameterTable("Mod", (("fmod", "i"),)),
        87: ParameterTable("exNorm", (("mode", "s"), ("eps", "f"), ("axes", "is"))),
        88: ParameterTable("Round", ()),
        89: ParameterTable("TopK", (("axis", "i"), ("largest", "i"), ("sorted", "i"))),
        90: ParameterTable("Hardmax", (("axis", "i"),)),
        93: ParameterTable("OneHot", (("axis", "i"),)),
        96: ParameterTable("Cast", (("saturate", "i"), ("to", "i"))),
        97: ParameterTable("GridSample", (("align_corners", "i"), ("mode", "s"), ("padding_mode", "s"))),
        98: ParameterTable(
            "LSTM",
            (
                ("activation_alpha", "fs"),
                ("activation_beta", "fs"),
                ("activations", "ss"),
                ("batch_size", "i"),
                ("clip", "f"),
                ("direction", "s"),
                ("hidden_size", "i"),
                ("input_forget", "i"),
                ("input_layout", "s"),
                ("output_layout", "s"),
                ("projection_size", "i"),
                ("sequence_length", "i"),
            ),
        ),
        99: ParameterTable("ReduceLogSumExp", ()),
    }
)
"""Parameter tables by their type number in the node, as far as files have shown them."""

RECURRENT: Final = frozenset({"GRU", "LSTM", "exGRU", "exLSTM"})
"""Operators that have words for their layouts where others have BSON."""
