"""The open compiler: ONNX to `.rknn`.

    model = openrknn.compile("net.onnx", target="rk3588", calibration="pictures/")

One folder per stage, in this order; each can be used and tested alone, and none sees a later one (pyproject.toml):

    importer    ONNX, shapes bound and inferred, constants folded
    normalise   many operators become few, and what runs together is fused
    quantise    a scale and zero point for every value, from calibration data
    lower       each operator becomes tasks (with `tile`: what does not fit is cut; `recipes`: what a task does)
    link        registers become command words, tasks become one stream, tensors get their place in memory
    write       the file

`ir` is the form in between: it prints, and two of it can be compared. `targets` says what a chip can do.
"""

from openrknn.compiler.api import Compiled, compile_model, compile_onnx, compile_with, input_names
from openrknn.compiler.errors import (
    CalibrationError,
    CompileError,
    MisfitError,
    ModelError,
    OptionError,
    SequenceError,
    UnsupportedOperatorError,
    WrongResultError,
)
from openrknn.compiler.importer.constants import fix_inputs, read_constant
from openrknn.compiler.importer.formats.tensorflow import read as read_tensorflow
from openrknn.compiler.importer.formats.tflite import read as read_tflite
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.importer.shapes import bind_shapes, cut_outputs, infer, known_shapes, model_inputs
from openrknn.compiler.options import CompileOptions, Shapes

__all__ = [
    "CalibrationError",
    "CompileError",
    "CompileOptions",
    "Compiled",
    "MisfitError",
    "ModelError",
    "OptionError",
    "SequenceError",
    "Shapes",
    "UnsupportedOperatorError",
    "WrongResultError",
    "bind_shapes",
    "compile_model",
    "compile_onnx",
    "compile_with",
    "cut_outputs",
    "fix_inputs",
    "infer",
    "input_names",
    "known_shapes",
    "model_inputs",
    "read_constant",
    "read_model",
    "read_tensorflow",
    "read_tflite",
]
