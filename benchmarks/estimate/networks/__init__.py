"""The networks of the published figures, rebuilt: the same layers and sizes, random weights. `NETWORKS` has them all."""

from __future__ import annotations

from collections.abc import Callable

from estimate.networks.classic import CLASSIC
from estimate.networks.graph import Graph
from estimate.networks.yolo import YOLO

__all__ = ["NETWORKS"]

NETWORKS: dict[str, Callable[[], Graph]] = {**CLASSIC, **YOLO}
