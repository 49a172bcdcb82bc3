"""Partition, never refuse: what the NPU can do becomes `.rknn` parts, the rest runs in ONNX Runtime.

    parted = Parted("model.onnx", PartitionOptions(target="rk3588"))
    parted.run({"ids": ids})                # name -> array, with the model's own types
"""

from __future__ import annotations

from openrknn.partition.options import PartitionOptions
from openrknn.partition.parted import Parted, Port

__all__ = ["Parted", "PartitionOptions", "Port"]
