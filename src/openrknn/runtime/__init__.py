"""Running models: a `Session` is a `Model` bound to a device.

session     Session: what users hold;  pool: SessionPool, several sessions with one copy of the weights
engine      what a session runs on: our own programs on a device;  vendor: or the vendor's library
program     one graph on a device: relocated commands, weights, steps for the NPU and for the CPU
io          tensors in device memory, and the way from and to users' arrays
operators   operators that the compiler left to the CPU
matmul      matrix products by register commands of our own
inspector   operator by operator, with a look at each result
profile     what each operator costs;  memory: how much each part needs
shapes      which shapes a model takes, and which graph belongs to them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.runtime.errors import ClosedError
    from openrknn.runtime.io.spares import Spares
    from openrknn.runtime.io.tensors import stored_type
    from openrknn.runtime.shapes import graph_for, specs

__all__ = ["ClosedError", "Spares", "graph_for", "specs", "stored_type"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"errors": "ClosedError", "io.spares": "Spares", "io.tensors": "stored_type", "shapes": "graph_for specs"},
)
