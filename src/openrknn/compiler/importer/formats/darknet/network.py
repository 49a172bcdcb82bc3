"""Layers of Darknet, one after the other, each with its number; what a layer makes is found by that number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.assembly import Assembly
from openrknn.compiler.importer.formats.darknet import layers, pools
from openrknn.compiler.importer.formats.darknet.cfg import Section
from openrknn.compiler.importer.formats.darknet.place import Place
from openrknn.compiler.importer.formats.darknet.weights import Weights

Make = Callable[[Place], str]

HEADS = ("yolo", "region", "gaussian_yolo", "detection")
"""Layers whose input is an output of the network."""
LAYERS: dict[str, Make] = {
    "convolutional": layers.convolutional,
    "conv": layers.convolutional,
    "connected": layers.connected,
    "conn": layers.connected,
    "maxpool": pools.maxpool,
    "max": pools.maxpool,
    "avgpool": pools.avgpool,
    "avg": pools.avgpool,
    "local_avgpool": pools.local_avgpool,
    "route": layers.route,
    "shortcut": layers.shortcut,
    "upsample": layers.upsample,
    "reorg": layers.reorg,
    "reorg3d": layers.reorg3d,
    "scale_channels": layers.product,
    "sam": layers.product,
    "softmax": layers.softmax,
    "soft": layers.softmax,
    "activation": layers.activation,
    "dropout": layers.same,
    "cost": layers.same,
    "crop": layers.crop,
}


class Network:
    """Builds the graph while it reads the weights: both are in the order of the layers."""

    def __init__(self, build: Assembly, weights: Weights) -> None:
        self._build = build
        self._weights = weights
        self._values: list[str] = []
        self._outputs: list[str] = []

    def build(self, sections: Sequence[Section]) -> Any:
        """The whole model."""
        net, *rest = sections
        sizes = [net.whole(name, default, 1) for name, default in (("channels", 3), ("height", 0), ("width", 0))]
        current = self._build.input("data", (1, *sizes))
        for number, section in enumerate(rest):
            current = self._layer(section, number, current)
            self._values.append(current)
        self._weights.finish(self._build.what)
        if not self._outputs:
            last = max((number for number, section in enumerate(rest) if section.kind not in _NOTHING), default=0)
            self._outputs = [self._named(self._values[-1], _name(rest[last].kind, last))]
        return self._build.model(self._outputs)

    def _layer(self, section: Section, number: int, source: str) -> str:
        name = _name(section.kind, number)
        if section.kind in HEADS:
            layers.check_head(section, self._build.shapes[source])
            self._outputs.append(self._build.add("Identity", [source], name, self._build.shapes[source]))
            return source
        if section.kind not in LAYERS:
            raise ModelError(
                f"{section.file}, line {section.line}: the layer [{section.kind}] is not one that the compiler has; "
                f"there are {', '.join(sorted({*LAYERS, *HEADS}))}. Remove the layers from there on (Darknet's "
                "`partial` cuts the weights), or export the network to ONNX from a program that has it"
            )
        return LAYERS[section.kind](
            Place(self._build, self._weights, section, name, source, number, tuple(self._values))
        )

    def _named(self, value: str, name: str) -> str:
        """The last layer as an output, under its own name: some make no value of their own."""
        return value if value == name else self._build.add("Identity", [value], name, self._build.shapes[value])


_NOTHING = {"cost", "dropout"}
_SHORT = {"convolutional": "conv", "connected": "fc", "conn": "fc", "max": "maxpool", "avg": "avgpool",
          "soft": "softmax"}  # fmt: skip


def _name(kind: str, number: int) -> str:
    return f"{_SHORT.get(kind, kind)}_{number}"
