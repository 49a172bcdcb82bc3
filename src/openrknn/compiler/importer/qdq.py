"""Models that are quantised already (QuantizeLinear, DequantizeLinear): the integers of their weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.importer.store import constants_of
from openrknn.compiler.ir import StoredWeights


def stored_weights(model: Any) -> dict[str, StoredWeights]:
    """Result of a DequantizeLinear over constants -> its integers, with one scale and zero point per output."""
    constants = constants_of(model)
    found = {}
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or any(name not in constants for name in node.input if name):
            continue
        stored, scale = constants[node.input[0]], constants[node.input[1]].astype(np.float64).reshape(-1)
        axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 1)
        if stored.ndim < 2 or stored.dtype.kind not in "iu" or (scale.size > 1 and axis % stored.ndim != 0):
            continue
        zero = constants[node.input[2]] if len(node.input) > 2 and node.input[2] else np.zeros(1, stored.dtype)
        shift = 128 if stored.dtype == np.uint8 else 0
        if stored.dtype not in (np.int8, np.uint8):
            continue
        found[node.output[0]] = StoredWeights(
            stored.astype(np.int64) - shift,
            np.broadcast_to(scale, len(stored)).copy(),
            np.broadcast_to(zero.astype(np.int64).reshape(-1) - shift, len(stored)).copy(),
        )
    return found
