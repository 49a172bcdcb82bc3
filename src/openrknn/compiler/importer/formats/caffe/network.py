"""Layers of a `.prototxt` one after the other; blobs are found by their names."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.assembly import Array, Assembly
from openrknn.compiler.importer.formats.caffe import arranging, norms, pointwise, windows
from openrknn.compiler.importer.formats.caffe.inputs import DATA_LAYERS, data_shapes, declared_inputs
from openrknn.compiler.importer.formats.caffe.message import Message
from openrknn.compiler.importer.formats.caffe.place import Place

_LOG = logging.getLogger(__name__)
_MOST_LAYERS = 20_000

LAYERS: dict[str, Callable[[Place], str | list[str]]] = {
    "AbsVal": pointwise.plain("Abs"),
    "ArgMax": arranging.arg_max,
    "Axpy": pointwise.axpy,
    "BNLL": pointwise.bnll,
    "BatchNorm": pointwise.batch_norm,
    "Bias": pointwise.bias,
    "Clip": pointwise.clip,
    "Concat": arranging.concat,
    "Convolution": windows.convolution,
    "ConvolutionDepthwise": windows.depthwise,
    "Crop": arranging.crop,
    "Deconvolution": windows.deconvolution,
    "DepthwiseConvolution": windows.depthwise,
    "Dropout": arranging.same,
    "ELU": pointwise.elu,
    "Eltwise": pointwise.eltwise,
    "Embed": arranging.embed,
    "Exp": pointwise.exponential,
    "Flatten": arranging.flatten,
    "InnerProduct": windows.inner_product,
    "Interp": arranging.interp,
    "LRN": norms.lrn,
    "Log": pointwise.logarithm,
    "MVN": norms.mvn,
    "Mish": pointwise.mish,
    "Normalize": norms.normalize,
    "PReLU": pointwise.prelu,
    "Permute": arranging.permute,
    "Pooling": windows.pooling,
    "Power": pointwise.power,
    "PriorBox": norms.prior_box,
    "ROIPooling": windows.roi_pooling,
    "ReLU": pointwise.relu,
    "ReLU6": pointwise.relu6,
    "Reduction": arranging.reduction,
    "Reshape": arranging.reshape,
    "Scale": pointwise.scale,
    "ShuffleChannel": arranging.shuffle_channel,
    "Sigmoid": pointwise.plain("Sigmoid"),
    "Slice": arranging.slices,
    "Softmax": arranging.softmax,
    "Split": arranging.split,
    "Swish": pointwise.swish,
    "TanH": pointwise.plain("Tanh"),
    "Threshold": pointwise.threshold,
    "Tile": arranging.tile,
    "Upsample": arranging.upsample,
}
_OLD_NAMES = {
    "ABSVAL": "AbsVal", "ARGMAX": "ArgMax", "BNLL": "BNLL", "CONCAT": "Concat", "CONVOLUTION": "Convolution",
    "DATA": "Data", "DECONVOLUTION": "Deconvolution", "DROPOUT": "Dropout", "DUMMY_DATA": "DummyData",
    "ELTWISE": "Eltwise", "EXP": "Exp", "FLATTEN": "Flatten", "HDF5_DATA": "HDF5Data", "IMAGE_DATA": "ImageData",
    "INNER_PRODUCT": "InnerProduct", "LRN": "LRN", "MEMORY_DATA": "MemoryData", "MVN": "MVN", "POOLING": "Pooling",
    "POWER": "Power", "RELU": "ReLU", "SIGMOID": "Sigmoid", "SILENCE": "Silence", "SLICE": "Slice",
    "SOFTMAX": "Softmax", "SPLIT": "Split", "TANH": "TanH", "THRESHOLD": "Threshold", "ACCURACY": "Accuracy",
    "WINDOW_DATA": "WindowData",
}  # fmt: skip
"""Types of `layers { }`, which are words without quotes."""
_SINKS = {"Silence", "Accuracy"}
_DETECTIONS = {"DetectionOutput", "DetectionOutput2"}


class Network:
    """Builds the graph; a blob that is written again in place is a new value with the old name."""

    def __init__(self, build: Assembly, net: Message, blobs: Mapping[str, list[Array]], weights_file: str) -> None:
        self._build, self._net, self._blobs, self._weights_file = build, net, blobs, weights_file
        self._values: dict[str, str] = {}
        self._left: dict[str, None] = {}
        """Blobs that have not been read yet, in the order in which they were made: in the end, the outputs."""
        self._heads: list[str] = []
        self._fed: set[str] = set()
        self._writes: Counter[str] = Counter()

    def build(self) -> Any:
        """The whole model."""
        layers = [layer for layer in self._layers() if _is_used(layer)]
        for name, shape in declared_inputs(self._net, self._build.what):
            self._feed(name, shape)
        self._writes = Counter(top for layer in layers for top in layer.words("top"))
        for layer in layers:
            self._layer(layer)
        outputs = list(dict.fromkeys([*self._heads, *(name for name in self._left if name not in self._heads)]))
        outputs = [self._output(name) for name in outputs if name not in self._inputs()]
        if not outputs:
            raise ModelError(f"{self._build.what} has no layers that compute something")
        return self._build.model(outputs)

    def _layers(self) -> list[Message]:
        old, new = self._net.inners("layers"), self._net.inners("layer")
        if any(layer.inners("layer") for layer in old):
            raise ModelError(
                f"{self._build.what} is of Caffe's first format (layers {{ layer {{ ... }} }}); bring it up to "
                "date with Caffe's upgrade_net_proto_text, and its weights with upgrade_net_proto_binary"
            )
        layers = new or old
        if len(layers) > _MOST_LAYERS:
            raise ModelError(f"{self._build.what} has more than {_MOST_LAYERS} layers")
        if not layers:
            raise ModelError(f"{self._build.what} has no layers; is it a .prototxt of a network?")
        return layers

    def _feed(self, name: str, shape: Sequence[int]) -> None:
        self._values[name] = self._build.input(name, shape)
        self._left[name] = None
        self._fed.add(name)

    def _inputs(self) -> set[str]:
        """Blobs that are still what was fed: an unused input is not an output."""
        return {name for name in self._fed if self._values[name] == name}

    def _layer(self, layer: Message) -> None:
        written = layer.word("type")
        kind, name = _OLD_NAMES.get(written, written), layer.word("name") or written
        layer.where = f"{self._build.what}: layer {name!r} ({kind})"
        tops = layer.words("top")
        if kind in DATA_LAYERS:
            for top, shape in zip(tops, data_shapes(layer, kind, len(tops)), strict=False):
                self._feed(top, shape)
            return
        bottoms = layer.words("bottom")
        missing = [bottom for bottom in bottoms if bottom not in self._values]
        if missing:
            raise layer.wrong(f"no layer before it makes {missing[0]!r}")
        for bottom in bottoms:
            self._left.pop(bottom, None)
        if kind in _SINKS:
            return
        if kind in _DETECTIONS:
            self._cut(layer, bottoms)
            return
        self._record(layer, kind, tops, self._made(layer, kind, name, bottoms, tops))

    def _made(
        self, layer: Message, kind: str, name: str, bottoms: Sequence[str], tops: Sequence[str]
    ) -> Sequence[str]:
        if kind not in LAYERS:
            raise ModelError(_unknown(layer, kind, bottoms))
        if not bottoms or not tops:
            raise layer.wrong("it has no bottom, or no top")
        names = []
        for top in tops:
            self._writes[top] -= 1
            names.append(top if self._writes[top] == 0 and top not in self._values.values() else f"{top}/{name}")
        place = Place(
            self._build, layer, name, kind, tuple(self._values[bottom] for bottom in bottoms), tuple(names),
            tuple(self._blobs.get(name, ())), self._weights_file,
        )  # fmt: skip
        made = LAYERS[kind](place)
        return [made] if isinstance(made, str) else made

    def _record(self, layer: Message, kind: str, tops: Sequence[str], values: Sequence[str]) -> None:
        if len(tops) > len(values):
            raise layer.wrong(f"{len(tops)} tops; {kind} makes {len(values)}")
        for top, value in zip(tops, values, strict=False):
            self._values[top] = value
            self._left.pop(top, None)
            self._left[top] = None

    def _cut(self, layer: Message, bottoms: Sequence[str]) -> None:
        """SSD's last layer chooses boxes: it belongs to the program. Places and scores are the outputs."""
        self._heads += bottoms[:2]
        _LOG.warning(
            "%s: the layer is left out, and %s are outputs: boxes are chosen by the program", layer.where,
            " and ".join(bottoms[:2]),
        )  # fmt: skip

    def _output(self, name: str) -> str:
        """A value under its blob's own name."""
        value = self._values[name]
        return value if value == name else self._build.add("Identity", [value], name, self._build.shapes[value])


def _is_used(layer: Message) -> bool:
    """Whether it is there when a network is used: phase TEST, no stages."""
    if layer.inners("exclude") and any(_meets(rule) for rule in layer.inners("exclude")):
        return False
    rules = layer.inners("include")
    return not rules or any(_meets(rule) for rule in rules)


def _meets(rule: Message) -> bool:
    return rule.word("phase", "TEST") in {"TEST", "1"} and not rule.words("stage") and rule.whole("min_level", 0) <= 0


def _unknown(layer: Message, kind: str, bottoms: Sequence[str]) -> str:
    if kind.upper().endswith("LOSS") or kind == "SoftmaxWithLoss":
        return f"{layer.where}: this layer is for training; take the deploy .prototxt of the network"
    cut = f"Remove it and what follows from the .prototxt: {', '.join(bottoms)} are then outputs" if bottoms else ""
    return f"{layer.where}: the compiler does not have this layer; there are {', '.join(sorted(LAYERS))}. {cut}".strip()
