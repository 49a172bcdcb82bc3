"""The networks of the published figures, rebuilt: the same layers and sizes, random weights."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.estimate.networks.classic import CLASSIC
from benchmarks.estimate.networks.graph import Graph
from benchmarks.estimate.networks.yolo import YOLO

__all__ = ["NETWORKS"]

NETWORKS: dict[str, Callable[[], Graph]] = {**CLASSIC, **YOLO}
