"""Split a model: what the NPU supports becomes `.rknn` parts, the remainder runs in ONNX Runtime.

    parted = Parted("model.onnx", PartitionOptions(target="rk3588"))
    parted.run({"ids": ids})                # name -> array, with the model's own types
    make_bundle("model.onnx")               # the file that `openrknn compile --partition` writes
"""

from __future__ import annotations

from openrknn.container.bundle import Bundle, Part, Plan, Port
from openrknn.partition.make import make_bundle
from openrknn.partition.options import PartitionOptions
from openrknn.partition.parted import Parted

__all__ = ["Bundle", "Part", "Parted", "PartitionOptions", "Plan", "Port", "make_bundle"]
