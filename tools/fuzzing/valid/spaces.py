"""Kinds of tasks, their parameters and values, and `Tasks`, which makes as many as are wanted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tools.fuzzing.valid.networks import OPERATORS
from tools.fuzzing.valid.pairs import covering
from tools.fuzzing.valid.stages import ALGORITHMS

__all__ = ["KINDS", "Kind", "Tasks", "convolution_output"]

Task = dict[str, Any]
Space = Mapping[str, Sequence[Any]]

CHIPS = ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106", "rv1106b")
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 25, 31, 32, 33, 40, 41, 47, 48, 49, 56, 57, 63, 64, 65,
            72, 80, 96, 97, 112, 120, 127, 128, 129, 130)  # fmt: skip
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 20, 24, 27, 28, 29, 31, 32, 33, 39, 40)
STAGES = ("none", "add", "add channel", "subtract channel", "scale", "scale channel", "add scale", "add scale channel",
          "add scale channel relu", "add relu6", "relu", "leaky", "two", "add scale two channel pair", "larger channel",
          "subtract scale below")  # fmt: skip
_MOST_WORK = 3_000_000
_MOST_ELEMENTS = 120_000
_LARGEST_CHANNELS, _LARGEST_SIZE = CHANNELS[-1], SIZES[-1]

_STAGES: Space = {
    "bias": STAGES,
    "norm": STAGES,
    "table": ("none", "none", "curve", "noise", "curve pieces"),
    "operand": ("none", "constant", "channel", "tensor", "combined", "pixel"),
    "algorithm": ALGORITHMS,
    "operand_converter": ("none", "add first", "add last"),
    "operand_size": ("same", "same", "byte", "wide"),
    "last_clamp": ("none", "relu", "relu6", "pair", "below"),
    "out": ("int8", "int16", "int32", "fp16", "bf16", "fp32"),
    "style": ("usual", "usual", "wild"),
    "per_pixel": (1, 2, 4),
    "counters": ("grid", "grid", "folded", "turned", "split"),
    "packed": ("none", "none", "none", "whole", "half", "element"),
    "gap": (0, 1, 3),
    "surplus": (0, 0, 1, 5, 15),
    "data": ("usual", "hard", "wild"),
    "place": ("apart", "apart", "apart", "same", "shifted"),
    "threads": (1, 1, 2),
    "factor": (False, False, False, True),
}
"""`surplus`: channels of the DPU that carry no data. `place`: the result on top of the input, or beside it."""

_WINDOW: Space = {
    "height": SIZES,
    "width": SIZES,
    "kernel_height": (1, 2, 3, 4, 5, 7),
    "kernel_width": (1, 2, 3, 4, 5, 7),
    "stride_y": (1, 2, 3, 4),
    "stride_x": (1, 2, 3, 4),
    "pad_top": (0, 1, 2, 3),
    "pad_left": (0, 1, 2, 3),
    "pad_bottom": (0, 1, 2, 5),
    "pad_right": (0, 1, 2, 5),
}

CONVOLUTION: Space = {
    "chip": CHIPS,
    "precision": ("int8", "int8", "int8", "fp16", "fp16", "bf16", "int16"),
    "mode": ("direct", "depthwise", "depthwise", "picture 1", "picture 2", "picture 3", "picture 4"),
    "channels": CHANNELS,
    "kernels": CHANNELS,
    **_WINDOW,
    "dilation_y": (1, 2, 3),
    "dilation_x": (1, 2, 3),
    "spread_y": (1, 1, 2, 3),
    "spread_x": (1, 1, 2, 3),
    "pad_value": (0, 1, 0x80, 0x817F, 0x3C00, 0xFC00),
    "weights": ("plain", "plain", "offset", "inline", "rows", "input major", "fresh"),
    "weight_surplus": (0, 0, 1, 16),
    "converter": ("none", "none", "add first", "add last", "some lanes"),
    "correction": ("none", "constant", "channel"),
    "truncate": (0, 0, 3),
    **_STAGES,
}
"""`weight_surplus`: weights for channels that the input does not have."""

FORMATS: Space = {
    **CONVOLUTION,
    "chip": ("rk3588", "rk3576"),
    "precision": ("int4", "fp16 int8", "fp16 int4", "int8 int4"),
    "mode": ("direct", "direct", "depthwise"),
    "weights": ("plain", "fresh"),
}
"""Features of 4 bits, and weights narrower than features: `precision` is that of both, or of each."""

FLYING: Space = {
    "chip": CHIPS,
    "precision": ("int8", "int8", "int16", "fp16", "bf16", "int32", "fp32"),
    "arithmetic": ("same", "same", "same", "fp16", "int8"),
    "channels": CHANNELS,
    "height": SIZES,
    "width": SIZES,
    "main": ("alone", "alone", "alone", "combined"),
    "missing": (0, 0, 0, 1, 9),
    **_STAGES,
}
"""`missing`: channels of the DPU that the reader does not read."""

MOVE: Space = {
    "chip": CHIPS,
    "move": ("lanes", "atoms", "repeat", "largest", "smallest"),
    "precision": ("int8", "int16", "fp16"),
    "channels": CHANNELS,
    "height": SIZES,
    "width": SIZES,
    "repeat_x": (1, 2, 3, 4),
    "repeat_y": (1, 2, 3),
    "main": ("alone", "combined"),
    "gap": (0, 1, 3),
    "per_pixel": (1, 2, 4),
    "counters": ("grid", "folded", "turned"),
    "data": ("usual", "hard", "wild"),
    "place": ("apart", "apart", "same", "shifted"),
    "threads": (1, 2),
}

POOLING: Space = {
    "chip": CHIPS,
    "precision": ("int8", "fp16", "int16"),
    "method": ("max", "min", "average"),
    "channels": CHANNELS,
    **_WINDOW,
    "whole": (False, False, True),
    "gap": (0, 1, 3),
    "pad_value": (0, -128, 127, 5),
    "data": ("usual", "hard", "wild"),
    "place": ("apart", "apart", "same", "shifted"),
    "threads": (1, 2),
}
"""`whole`: the window is the whole input, as in global pooling."""


NETWORK: Space = {
    "chip": ("rk3588", "rk3566", "rk3562", "rk3576", "rv1126b", "rv1106", "rv1103"),
    "format": ("fp16", "int8"),
    "operator": OPERATORS,
    "channels": CHANNELS,
    "kernels": (1, 3, 8, 17, 32, 40, 65),
    "height": SIZES,
    "width": SIZES,
    "kernel": (1, 2, 3, 5),
    "stride": (1, 2, 3),
    "dilation": (1, 2),
    "pad": (0, 1, 2),
    "broadcast": ("tensor", "channel", "pixel", "scalar", "row", "input"),
    "threads": (1, 2),
}

HOST: Space = {
    "work": ("arrange", "dequantize", "softmax", "suppress", "product"),
    "dtype": ("int8", "int16", "float16", "uint8", "int32", "float32"),
    "style": ("plain", "scaled", "float"),
    "channels": CHANNELS,
    "height": SIZES,
    "width": SIZES,
    "gap": (0, 1, 3),
    "data": ("usual", "hard", "wild"),
    "threads": (1, 2),
}


def convolution_output(task: Task) -> tuple[int, int]:
    """Rows and columns of the result; below 1 where the window does not fit."""
    found = []
    for size, kernel, stride, before, after, axis in (
        ("height", "kernel_height", "stride_y", "pad_top", "pad_bottom", "y"),
        ("width", "kernel_width", "stride_x", "pad_left", "pad_right", "x"),
    ):
        spread, dilation = task.get(f"spread_{axis}", 1), task.get(f"dilation_{axis}", 1)
        whole = (task[size] - 1) * spread + 1 + task[before] + task[after]
        found.append((whole - (task[kernel] - 1) * dilation - 1) // task[stride] + 1)
    return found[0], found[1]


def _knows_table(task: Task) -> bool:
    """Chips with pieces beyond the tables look up integers only."""
    integers = task["precision"].startswith("int") and task.get("arithmetic", "same") != "fp16"
    return integers or "pieces" not in task["table"]


def _small_convolution(task: Task) -> bool:
    if not _knows_table(task):
        return False
    rows, columns = convolution_output(task)
    if min(rows, columns) < 1:
        return False
    depthwise = task["mode"] == "depthwise"
    kernels = task["channels"] if depthwise else task["kernels"]
    each = 1 if depthwise else 4 if task["mode"].startswith("picture") else task["channels"]
    work = rows * columns * kernels * each * task["kernel_height"] * task["kernel_width"]
    read = task["height"] * task["width"] * task["channels"]
    return bool(work <= _MOST_WORK and max(read, rows * columns * kernels) <= _MOST_ELEMENTS)


def _small_pooling(task: Task) -> bool:
    if task["whole"]:
        return bool(task["height"] * task["width"] * task["channels"] <= _MOST_ELEMENTS)
    rows, columns = convolution_output(task)
    area = rows * columns * task["kernel_height"] * task["kernel_width"]
    return bool(min(rows, columns) >= 1 and area * task["channels"] <= _MOST_WORK)


def _small(task: Task) -> bool:
    repeats = task.get("repeat_x", 1) * task.get("repeat_y", 1)
    return bool(task["channels"] * task["height"] * task["width"] * repeats <= _MOST_ELEMENTS)


def _small_host(task: Task) -> bool:
    limit = _MOST_ELEMENTS // 10 if task["work"] == "product" else _MOST_ELEMENTS
    return bool(task["channels"] * task["height"] * task["width"] <= limit)


def _small_network(task: Task) -> bool:
    window = (task["kernel"] - 1) * task["dilation"] + 1
    if task["format"] == "fp16" and task["chip"].startswith("rv110"):  # they compute int8 only
        return False
    if min(task["height"], task["width"]) < window:
        return False
    work = task["height"] * task["width"] * task["channels"] * task["kernels"] * task["kernel"] ** 2
    return bool(work <= _MOST_WORK and _small(task))


class Kind(NamedTuple):
    """Parameters, which of their combinations are used, and how many of 100 tasks are of this kind."""

    space: Space
    is_allowed: Callable[[Task], bool]
    share: int


KINDS: dict[str, Kind] = {
    "convolution": Kind(CONVOLUTION, _small_convolution, 45),
    "formats": Kind(FORMATS, _small_convolution, 10),
    "flying": Kind(FLYING, lambda task: _small(task) and _knows_table(task), 25),
    "move": Kind(MOVE, _small, 8),
    "pooling": Kind(POOLING, _small_pooling, 10),
    "host": Kind(HOST, _small_host, 8),
    "network": Kind(NETWORK, _small_network, 4),
}


class Tasks:
    """Tasks without an end: of each kind rows that cover all pairs, then random ones. A seed always gives the same."""

    def __init__(self, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> None:
        self.pairs_left = set(kinds)
        """Kinds whose pairs were not all seen yet."""
        self._rng = random.Random(f"{seed}:kinds")
        self._kinds = list(kinds)
        self._rows = {name: self._of(name, random.Random(f"{seed}:{name}")) for name in kinds}

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        name = self._rng.choices(self._kinds, [KINDS[kind].share for kind in self._kinds])[0]
        return next(self._rows[name])

    def _of(self, name: str, rng: random.Random) -> Iterator[Task]:
        kind = KINDS[name]
        for row in covering(kind.space, rng, kind.is_allowed):
            yield self._named(name, row, rng)
        self.pairs_left.discard(name)
        while True:
            row = {parameter: _drawn(parameter, values, rng) for parameter, values in kind.space.items()}
            if kind.is_allowed(row):
                yield self._named(name, row, rng)

    @staticmethod
    def _named(name: str, row: Task, rng: random.Random) -> Task:
        return {"kind": name, "seed": rng.randrange(1 << 31), **row}


def _drawn(parameter: str, values: Sequence[Any], rng: random.Random) -> Any:
    if values is CHANNELS:
        return rng.randint(1, _LARGEST_CHANNELS)
    if values is SIZES:
        return rng.randint(1, _LARGEST_SIZE)
    return rng.choice(values)
