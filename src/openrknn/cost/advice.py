"""What to change in a network whose operator is limited by a part of the NPU."""

from __future__ import annotations

from openrknn.cost.time import Bound

__all__ = ["ADVICE"]

ADVICE: dict[str, str] = {
    Bound.ARRAY: "limited by the MAC array: fewer channels, a smaller feature map or a larger stride make it faster",
    Bound.TABLE: "limited by the lookup table, which takes one value at a time: ReLU, LeakyReLU and Clip need no table",
    Bound.DPU: "limited by the element-wise unit (DPU): use fewer elements, or operators that fuse with convolutions",
    Bound.POOLING: "limited by the pooling unit: use a smaller window, or a strided convolution instead",
    Bound.MEMORY: "limited by memory bandwidth: use fewer channels or a smaller feature map",
    Bound.START: "limited by the overhead of starting tasks: use fewer, larger operators",
}
