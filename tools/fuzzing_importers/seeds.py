"""Small valid files of every format that the compiler imports.

Each seed is a set of files in a folder of its own. PyTorch's and TensorFlow's are made by these packages, and missing
where they are not installed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tools.fuzzing.build import ROOT

__all__ = ["FORMATS", "Seed", "missing", "seeds"]

_LARGEST = 60_000


@dataclass(frozen=True, slots=True)
class Seed:
    """Files by their names in the folder; `given` are those that the compiler gets: a pair, a file, or a folder (.)."""

    format: str
    name: str
    files: dict[str, bytes]
    given: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)


def missing(kind: str) -> str:
    """Why there are no files of this format here; empty if there are."""
    needed = _NEEDS.get(kind, ())
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"{' and '.join(absent)} not installed" if absent else ""


def seeds(kind: str) -> list[Seed]:
    """Of one format, always the same."""
    return _MAKERS[kind]()


def _onnx() -> list[Seed]:
    found = sorted(ROOT.glob("tests/goldens/*.onnx"))
    made = [Seed("onnx", path.stem, {"net.onnx": path.read_bytes()}, ("net.onnx",)) for path in found
            if path.stat().st_size <= _LARGEST]  # fmt: skip
    return [*made, *_operators(), _external()]


def _operators() -> list[Seed]:
    """One operator each, with what they take: sizes and types that a file can get wrong."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def net(name: str, kind: str, more: list[Any], shape: tuple[int, ...] = (1, 4, 8, 8), **attributes: Any) -> Seed:
        constants = [numpy_helper.from_array(np.asarray(value), f"c{number}") for number, value in enumerate(more)]
        node = helper.make_node(kind, ["x", *(f"c{number}" for number in range(len(more)))], ["y"], **attributes)
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants,
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return Seed("onnx", name, {"net.onnx": onnx.ModelProto.SerializeToString(model)}, ("net.onnx",))

    ones = np.ones((4, 4, 3, 3), np.float32)
    empty = np.zeros(0, np.float32)
    return [
        net("resize", "Resize", [empty, np.asarray([1, 1, 2, 2], np.float32)], mode="linear"),
        net("gemm", "Gemm", [np.ones((8, 5), np.float32), np.ones(5, np.float32)], (1, 8), alpha=1.5),
        net("matmul", "MatMul", [np.ones((8, 3), np.float32)]),
        net("cast", "Cast", [], to=1),
        net("reshape", "Reshape", [np.asarray([1, -1], np.int64)]),
        net("slice", "Slice", [np.asarray([0], np.int64), np.asarray([4], np.int64), np.asarray([2], np.int64)]),
        net("pad", "Pad", [np.asarray([0, 0, 1, 1, 0, 0, 1, 1], np.int64)], mode="constant"),
        net("tile", "Tile", [np.asarray([1, 1, 2, 2], np.int64)]),
        net("expand", "Expand", [np.asarray([1, 4, 8, 8], np.int64)]),
        net("gather", "Gather", [np.asarray([0, 2], np.int64)], axis=1),
        net("deconv", "ConvTranspose", [ones], strides=[2, 2]),
        net("norm", "LayerNormalization", [np.ones(8, np.float32)], axis=-1),
        net("split", "Split", [np.asarray([2, 2], np.int64)], axis=1),
        net("lstm", "LSTM", [np.ones((1, 16, size), np.float32) for size in (6, 4)], (3, 1, 6), hidden_size=4),
        net("einsum", "Einsum", [np.ones((8, 3), np.float32)], equation="abij,jk->abik"),
        net("pool", "AveragePool", [], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]),
    ]  # fmt: skip


def _external() -> Seed:
    """Weights beside the file."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    raw, weight.raw_data = weight.raw_data, b""
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", str(len(raw)))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Seed("onnx", "external", {"net.onnx": model.SerializeToString(), "weights.bin": raw}, ("net.onnx",))


def _tflite() -> list[Seed]:
    found = sorted(ROOT.glob("tests/compiler/formats/tflite/*.tflite"))
    return [Seed("tflite", path.stem, {"net.tflite": path.read_bytes()}, ("net.tflite",)) for path in found
            if path.stat().st_size <= _LARGEST]  # fmt: skip


def _ort() -> list[Seed]:
    import onnxruntime

    made = []
    for seed in _onnx()[::2]:
        if len(seed.files) > 1:
            continue
        with tempfile.TemporaryDirectory() as folder:
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = f"{folder}/net.ort"
            options.add_session_config_entry("session.save_model_format", "ORT")
            options.log_severity_level = 4
            try:
                onnxruntime.InferenceSession(seed.files["net.onnx"], options, providers=["CPUExecutionProvider"])
                data = Path(folder, "net.ort").read_bytes()
            except Exception:  # noqa: BLE001  (operators that ONNX Runtime does not have)
                continue
        made.append(Seed("ort", seed.name, {"net.ort": data}, ("net.ort",)))
    return made


def _darknet() -> list[Seed]:
    from tests.compiler.formats.darknet_nets import Darknet

    def pair(net: Darknet, name: str) -> Seed:
        files = {"net.cfg": "\n".join(net.text).encode(), "net.weights": net.weights()}
        return Seed("darknet", name, files, ("net.cfg", "net.weights"))

    plain, heads, many = Darknet(3, 16, 16), Darknet(3, 16, 16), Darknet(4, 16, 16)
    plain.conv(4)
    plain.add("maxpool", size=2, stride=2)
    plain.conv(8, 1, activation="mish")
    heads.conv(8)
    heads.conv(8, stride=2)
    heads.add("upsample", stride=2)
    heads.route(2, 0)
    heads.conv(18, 1, activation="linear", normalised=False)
    heads.add("yolo", mask="0,1", anchors="10,14, 23,27", classes=4)
    many.conv(8, groups=2)
    many.add("shortcut", **{"from": -1})
    many.add("reorg", 32, stride=2)
    many.add("avgpool")
    many.connected(32, 6)
    many.add("softmax")
    one = Seed("darknet", "upsampled", {"net.cfg": (
        b"[net]\nwidth=32\nheight=32\nchannels=3\n[upsample]\nstride=2\nscale=1.5\n[local_avgpool]\nsize=2\nstride=2\n"
        b"[crop]\ncrop_height=8\ncrop_width=8\n[reorg3d]\nstride=2\n[dropout]\n[activation]\nactivation=elu\n"
    ), "net.weights": bytes(20)}, ("net.cfg", "net.weights"))  # fmt: skip
    return [pair(plain, "plain"), pair(heads, "heads"), pair(many, "many"), one]


def _caffe() -> list[Seed]:
    from tests.compiler.formats.caffe_nets import Caffe

    made = []
    for is_old in (False, True):
        net = Caffe(1, 4, 8, 8, is_old=is_old)
        kinds = ("CONVOLUTION", "POOLING", "RELU", "INNER_PRODUCT", "SOFTMAX") if is_old else (
            "Convolution", "Pooling", "ReLU", "InnerProduct", "Softmax")  # fmt: skip
        last = net.add(kinds[0], "data", text="convolution_param { num_output: 6 kernel_size: 3 pad: 1 }",
                       arrays=[net.weights(6, 4, 3, 3), net.weights(6)])  # fmt: skip
        last = net.add(kinds[2], last)
        last = net.add(kinds[1], last, text="pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
        last = net.add(kinds[3], last, text="inner_product_param { num_output: 5 }",
                       arrays=[net.weights(5, 96), net.weights(5)])  # fmt: skip
        net.add(kinds[4], last)
        made.append(net)
    more = Caffe(1, 4, 8, 8)
    last = more.add("Reshape", "data", text="reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 8 } }")
    last = more.add("Permute", last, text="permute_param { order: 0 order: 2 order: 1 order: 3 }")
    last = more.add("Tile", last, text="tile_param { axis: 1 tiles: 2 }")
    last = more.add("Interp", "data", text="interp_param { height: 16 width: 16 }")
    last = more.add("Upsample", last, text="upsample_param { scale: 2 }")
    more.add("LRN", last, text="lrn_param { local_size: 3 }")
    return [
        Seed("caffe", f"net{number}", {"net.prototxt": "\n".join(net.text).encode(),
                                       "net.caffemodel": b"".join(net.layers) or b"\xa2\x06\x00"},
             ("net.prototxt", "net.caffemodel")) for number, net in enumerate((*made, more))
    ]  # fmt: skip


_TORCH = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
folder = sys.argv[1]
torch.manual_seed(0)
conv = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.BatchNorm2d(4)).eval()
class Sized(torch.nn.Module):
    def forward(self, x): return torch.nn.functional.avg_pool2d(x, 2) + x.shape[0]
class Looped(torch.nn.Module):
    def forward(self, x):
        for _ in range(3): x = x * 2 + 1
        return x
x = torch.randn(1, 3, 8, 8)
torch.export.save(torch.export.export(conv, (x,)), f"{folder}/conv.pt2")
sizes = ({0: torch.export.Dim("b", min=1, max=8)},)
torch.export.save(torch.export.export(Sized(), (torch.randn(2, 3, 8, 8),), dynamic_shapes=sizes), f"{folder}/sized.pt2")
torch.jit.save(torch.jit.trace(conv, x), f"{folder}/conv.pt")
torch.jit.save(torch.jit.script(Looped()), f"{folder}/looped.pt")
"""

_TENSORFLOW = """
import sys
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
folder = sys.argv[1]
layers = tf.keras.layers
x = layers.Input((8, 8, 3), name="picture")
y = layers.BatchNormalization()(layers.Conv2D(4, 3, activation="relu")(x))
model = tf.keras.Model(x, layers.Dense(5, activation="softmax", name="scores")(layers.GlobalAveragePooling2D()(y)))
model.save(f"{folder}/net.keras")
model.save(f"{folder}/net.h5")
model.export(f"{folder}/saved", verbose=False)
spec = tf.TensorSpec((1, 8, 8, 3), tf.float32, name="picture")
function = tf.function(lambda x: model(x)).get_concrete_function(spec)
graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
open(f"{folder}/frozen.pb", "wb").write(graph.SerializeToString())
"""


@cache
def _made(script: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:  # TorchScript reads the source of a class
            file.write(script)
            file.flush()
            done = subprocess.run([sys.executable, file.name, folder], check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the seeds cannot be made:\n{done.stderr}")
        return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def _torch(suffix: str) -> list[Seed]:
    kind = {".pt2": "pt2", ".pt": "torchscript"}[suffix]
    inputs = {"conv.pt": "input", "looped.pt": "x"}
    return [
        Seed(kind, name, {f"net{suffix}": data}, (f"net{suffix}",),
             {inputs[name]: (1, 3, 8, 8)} if name in inputs else {})
        for name, data in _made(_TORCH).items() if name.endswith(suffix)
    ]  # fmt: skip


def _keras(name: str) -> list[Seed]:
    return [Seed("keras" if name.endswith("keras") else "h5", name, {name: _made(_TENSORFLOW)[name]}, (name,))]


def _saved() -> list[Seed]:
    files = _made(_TENSORFLOW)
    inner = {name.removeprefix("saved/"): data for name, data in files.items() if name.startswith("saved/")}
    return [Seed("saved_model", "saved", inner, (".",))]


def _frozen() -> list[Seed]:
    return [Seed("frozen", "frozen", {"net.pb": _made(_TENSORFLOW)["frozen.pb"]}, ("net.pb",))]


_MAKERS = {
    "onnx": _onnx, "tflite": _tflite, "ort": _ort, "darknet": _darknet, "caffe": _caffe,
    "pt2": lambda: _torch(".pt2"), "torchscript": lambda: _torch(".pt"), "keras": lambda: _keras("net.keras"),
    "h5": lambda: _keras("net.h5"), "saved_model": _saved, "frozen": _frozen,
}  # fmt: skip
_PYTORCH, _TF = ("torch", "onnxscript"), ("tensorflow", "tf2onnx")
_NEEDS = {"ort": ("onnxruntime",), "pt2": _PYTORCH, "torchscript": _PYTORCH,
          **dict.fromkeys(("keras", "h5", "saved_model", "frozen"), _TF)}  # fmt: skip
FORMATS = tuple(_MAKERS)
