"""Internal memory over time: one rectangle per tensor, as wide as it lives and as high as it is large."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from openrknn.analysis.reports import Lifetime
from openrknn.pages.markup import Markup, clean, join, tag
from openrknn.pages.model.texts import dims, short_shape
from openrknn.pages.model.view import MAX_ROWS, View, tensor_name
from openrknn.quantities import size_text

__all__ = ["alive_bytes", "draw"]

_WIDTH, _HEIGHT = 1000.0, 380.0
_LEFT, _BOTTOM, _TOP, _RIGHT = 76.0, 34.0, 14.0, 12.0
_COLOURS = 6
_CLASS_TITLES = {0: "Internal memory (DRAM)", 2: "On-chip buffer (a guess from the files)"}


def alive_bytes(tensors: Sequence[Lifetime], steps: int) -> list[int]:
    """Bytes of the tensors that are alive at each operator."""
    change = [0] * (steps + 1)
    for tensor in tensors:
        if 0 <= tensor.first <= tensor.last < steps:
            change[tensor.first] += tensor.size_bytes
            change[tensor.last + 1] -= tensor.size_bytes
    return list(accumulate(change[:steps]))


def draw(view: View) -> Markup:
    """One map per memory; almost every model has one only."""
    memories: dict[int, list[Lifetime]] = {}
    for tensor in view.report.memory[:MAX_ROWS]:
        memories.setdefault(tensor.memory_class, []).append(tensor)
    return join(_figure(view, kind, tensors, titled=len(memories) > 1) for kind, tensors in sorted(memories.items()))


def _figure(view: View, memory_class: int, tensors: list[Lifetime], *, titled: bool) -> Markup:
    steps = len(view.operators)
    used = [tensor for tensor in tensors if tensor.first >= 0]
    top = max((tensor.offset + tensor.size_bytes for tensor in tensors), default=0)
    alive = alive_bytes(used, steps)
    peak = max(alive, default=0)
    busiest = alive.index(peak) if alive else 0
    title = _CLASS_TITLES.get(memory_class, f"Memory class {memory_class}")
    words = f"{size_text(top)} reserved; at most {size_text(peak)} alive at once, at operator #{busiest}."
    return tag(
        "figure",
        tag("h4", title) if titled else None,
        tag("ul", tag("li", tag("span", class_="dot alive-key"), "bytes alive"), class_="legend"),
        tag("div", _chart(view, used, alive, max(top, 1)), class_="scroll"),
        tag("figcaption", words, tag("span", class_="readout")),
        class_="memory",
        data_alive=" ".join(map(str, alive)),
        data_prefix=view.prefix,
    )


def _chart(view: View, tensors: list[Lifetime], alive: list[int], top: int) -> Markup:
    steps = max(len(alive), 1)
    scale_x = (_WIDTH - _LEFT - _RIGHT) / steps
    scale_y = (_HEIGHT - _TOP - _BOTTOM) / top
    order = sorted(tensors, key=lambda tensor: (tensor.first, tensor.offset))
    return tag(
        "svg",
        tag("title", "Memory map: operators from left to right, offset in memory from bottom to top"),
        _axes(steps, top, scale_x, scale_y),
        *(_block(tensor, number, scale_x, scale_y) for number, tensor in enumerate(order)),
        _alive_line(alive, scale_x, scale_y),
        tag("path", d=f"M{_LEFT} {_TOP}H{_WIDTH - _RIGHT}", class_="peak"),
        tag("text", f"reserved {size_text(top)}", x=_WIDTH - _RIGHT - 4, y=_TOP - 4, class_="peak-label"),
        tag("line", x1=0, x2=0, y1=_TOP, y2=_HEIGHT - _BOTTOM, class_="cursor"),
        class_="chart",
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label="Memory map over time",
        data_left=_LEFT,
        data_step=scale_x,
        data_steps=steps,
    )


def _y(offset: float, scale: float) -> float:
    return _HEIGHT - _BOTTOM - offset * scale


def _axes(steps: int, top: int, scale_x: float, scale_y: float) -> Markup:
    parts: list[Markup] = []
    for size in _ticks(top):
        y = _y(size, scale_y)
        parts.append(tag("path", d=f"M{_LEFT} {y:.5g}H{_WIDTH - _RIGHT}", class_="rule"))
        parts.append(tag("text", size_text(size), x=_LEFT - 8, y=y + 4, class_="tick end"))
    step = max(1, -(-steps // 12))
    step = next(nice for nice in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, step) if nice >= step)
    for number in range(0, steps, step):
        x = _LEFT + (number + 0.5) * scale_x
        parts.append(tag("text", f"#{number}", x=x, y=_HEIGHT - _BOTTOM + 16, class_="tick mid"))
    parts.append(
        tag("text", "operators in the order of execution", x=_WIDTH - _RIGHT, y=_HEIGHT - 4, class_="tick end")
    )
    return join(parts)


def _ticks(top: int) -> list[int]:
    """About four round sizes: powers of two, or three quarters of the way."""
    step = 1
    while top / step > 5:
        step *= 2
    return list(range(0, top + 1, step))


def _block(tensor: Lifetime, number: int, scale_x: float, scale_y: float) -> Markup:
    x, width = _LEFT + tensor.first * scale_x, (tensor.last - tensor.first + 1) * scale_x
    y, height = _y(tensor.offset + tensor.size_bytes, scale_y), tensor.size_bytes * scale_y
    title = (
        f"{tensor_name(tensor.tensor)}\n{tensor.dtype} {dims(tensor.shape)}, {size_text(tensor.size_bytes)}\n"
        f"offset {tensor.offset:#x}, alive from operator #{tensor.first} to #{tensor.last}"
    )
    shape = short_shape(tensor.shape)
    label = clean(tensor.tensor if tensor.kind != "internal" else shape, 40)
    middle_x, middle_y, length = x + width / 2, y + height / 2, 6.4 * len(label) + 8
    turn = None if width > length else f"rotate(-90 {middle_x:.5g} {middle_y:.5g})"
    fits = (height > 13) if turn is None else (width > 13 and height > length)
    look = tensor.kind if tensor.kind in {"input", "output"} else f"c{number % _COLOURS}"
    return tag(
        "g",
        tag("title", title),
        tag("rect", x=x, y=y, width=max(width - 0.6, 0.8), height=max(height - 0.6, 0.8), rx=min(2.0, width / 4)),
        tag("text", label, x=middle_x, y=middle_y + 4, transform=turn) if fits else None,
        class_=f"b {look}",
    )


def _alive_line(alive: Sequence[int], scale_x: float, scale_y: float) -> Markup | None:
    if not alive:
        return None
    path = f"M{_LEFT} {_y(alive[0], scale_y):.5g}H{_LEFT + scale_x:.6g}"
    for number, (before, now) in enumerate(pairwise(alive), 1):
        rise = f"V{_y(now, scale_y):.5g}" if now != before else ""
        path += f"{rise}H{_LEFT + (number + 1) * scale_x:.6g}"
    return tag("path", d=path, class_="alive")
