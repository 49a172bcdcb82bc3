"""What a build is checked on: calibration data, else inputs of several sizes."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.result import Compiled, Variant
from openrknn.compiler.trials import noise

_SAMPLES = 3
"""Calibration inputs: as many as there are task lists for one, two and three cores."""
_SMALLER, _LARGER = 0.01, 100.0
_PICTURE_CHANNELS = (1, 3, 4)
_PIXEL = 255
_SIGNAL = 400
"""Numbers in a row: 25 ms of sound at 16 kHz, the shortest piece that networks look at."""
_TONE = (0.5, 0.005, 0.05)
"""Amplitude; cycles a number at the beginning and at the end: 80 to 800 Hz at 16 kHz."""


class Trial(NamedTuple):
    """One input, and what it is in words."""

    feed: dict[str, Array]
    data: str
    is_real: bool
    """Calibration data, or numbers of the declared range: what is wrong here is a mistake."""
    is_likely: bool = False
    """The model may well get it, so loss is a warning; on data that are neither it is a note."""


def trials_of(compiled: Compiled, variant: Variant) -> list[Trial]:
    """The first one decides; the others show what other inputs do."""
    if variant.samples:
        count = min(len(variant.samples), _SAMPLES)
        words = "the first calibration input" if count == 1 else f"{count} calibration inputs"
        return [Trial(feed, words, is_real=True) for feed in variant.samples[:count]]
    graph = variant.graph
    usual = noise(graph)
    pixels = {name for name in graph.inputs if _is_picture(graph, name) and _is_declared(compiled, name)}
    usual |= {name: _pixels(compiled, name, usual[name]) for name in pixels}
    found = [Trial(usual, "random pixels" if pixels else "random numbers", is_real=True)]
    if compiled.format_name == "fp16" and any(values.dtype.kind == "f" for values in usual.values()):
        found.append(Trial(_scaled(usual, _SMALLER), f"inputs {_SMALLER:g} times as large", is_real=False))
        if pixels != set(graph.inputs):  # pixels are never larger than 255
            large = {**_scaled(usual, _LARGER), **{name: usual[name] for name in pixels}}
            found.append(Trial(large, f"inputs {_LARGER:g} times as large", is_real=False))
            found += _pictures(graph, large, pixels)
        found += _signals(graph, usual)
    return found


def _scaled(feed: dict[str, Array], factor: float) -> dict[str, Array]:
    return {name: (values * factor).astype(values.dtype) if values.dtype.kind == "f" else values
            for name, values in feed.items()}  # fmt: skip


def _pictures(graph: Graph, large: dict[str, Array], pixels: set[str]) -> list[Trial]:
    """Pictures as they are before anything is subtracted or divided, if an input may be one.

    It need not be one, and pixels are never negative: the other large inputs are not left out for it.
    """
    names = [name for name in graph.inputs if _is_picture(graph, name) and name not in pixels]
    feed = {**large, **{name: _noise_of_pixels(large[name].shape, 1) for name in names}}
    return [Trial(feed, f"pixels of 0 to {_PIXEL}", is_real=False)] if names else []


def _signals(graph: Graph, usual: dict[str, Array]) -> list[Trial]:
    """A gliding tone without noise, if an input may be sound: most of its spectrum is empty, and fp16 is not."""
    names = [name for name in graph.inputs if _is_signal(graph, name)]
    feed = {**usual, **{name: _tone(usual[name].shape) for name in names}}
    return [Trial(feed, "a tone without noise", is_real=False, is_likely=True)] if names else []


def _tone(shape: tuple[int, ...]) -> Array:
    amplitude, first, last = _TONE
    cycles = np.cumsum(np.linspace(first, last, shape[-1]))
    return np.broadcast_to(amplitude * np.sin(2 * np.pi * cycles), shape).astype(np.float32)


def _pixels(compiled: Compiled, name: str, like: Array) -> Array:
    return compiled.preprocess.apply(name, _noise_of_pixels(like.shape, 0))


def _noise_of_pixels(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, _PIXEL + 1, shape).astype(np.float32)


def _is_declared(compiled: Compiled, name: str) -> bool:
    """An input with a mean or a deviation holds pixels: their range is known."""
    mean, std = compiled.preprocess.pairs[name]
    return any(mean) or any(number != 1 for number in std)


def _is_picture(graph: Graph, name: str) -> bool:
    value = graph.values[name]
    if value.integer or len(value.shape) != 4:
        return False
    return value.shape[1] in _PICTURE_CHANNELS and min(value.shape[2:]) > 1


def _is_signal(graph: Graph, name: str) -> bool:
    """One or two rows of many numbers."""
    value = graph.values[name]
    return not value.integer and prod(value.shape[-1:]) >= _SIGNAL and prod(value.shape[:-1]) <= 2
