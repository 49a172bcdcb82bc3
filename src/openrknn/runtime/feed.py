"""The arguments of `Session.run`: one value per input in the order of the model, one item of a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np

from openrknn.names import meant
from openrknn.runtime.engine import Runnable
from openrknn.runtime.io.arrange import LAYOUTS
from openrknn.runtime.io.input_warnings import InputWarnings
from openrknn.runtime.io.inputs import InputPort, as_numbers
from openrknn.runtime.io.outputs import OutputKind, Outputs
from openrknn.runtime.shapes import allowed_shapes
from openrknn.runtime.times import RunTimes

Execute = Callable[[Runnable, frozenset[str]], None]
_NONE: frozenset[str] = frozenset()


def compute(
    program: Runnable,
    values: Sequence[object],
    layouts: Sequence[str | None] | None,
    execute: Execute,
    *,
    pass_through: bool,
    outputs: OutputKind,
    watch: InputWarnings | None = None,
) -> tuple[Outputs, RunTimes]:
    """Feed the values, run, read the outputs: as many items of a batch at once as the program takes."""
    if not program.batch:
        began = perf_counter()
        pixels = feed(program, program.inputs, values, layouts, pass_through=pass_through, watch=watch)
        fed = perf_counter()
        execute(program, pixels)
        ran = perf_counter()
        read = Outputs((port.name, port.read(outputs)) for port in program.outputs)
        return read, RunTimes(fed - began, ran - fed, perf_counter() - ran)
    items = split_batch(values, program.names, program.batch)
    results: list[Outputs] = []
    feeding = running = reading = 0.0
    for start in range(0, len(items), len(program.lanes)):
        began = perf_counter()
        pixels, group = _NONE, items[start : start + len(program.lanes)]
        for (inputs, _), item in zip(program.lanes, group, strict=False):
            pixels = feed(program, inputs, item, layouts, pass_through=pass_through, watch=watch)
        fed = perf_counter()
        execute(program, pixels)
        ran = perf_counter()
        for (_, ports), _ in zip(program.lanes, group, strict=False):
            read = Outputs((port.name, port.read(outputs)) for port in ports)
            results.append(Outputs((n, v.copy()) for n, v in read.items()) if outputs == "native" else read)
        feeding, running, reading = feeding + fed - began, running + ran - fed, reading + perf_counter() - ran
    return join_batch(results), RunTimes(feeding, running, reading)


def feed(
    program: Runnable,
    ports: Sequence[InputPort],
    values: Sequence[object],
    layouts: Sequence[str | None] | None,
    *,
    pass_through: bool,
    watch: InputWarnings | None = None,
) -> frozenset[str]:
    """Put the values into the input buffers; the names of the inputs that took raw pixels."""
    pixels = []
    try:
        for number, (port, value) in enumerate(zip(ports, values, strict=True)):
            if pass_through:
                port.feed_native(value)
            elif port.feed(value, None if layouts is None else layouts[number]):
                pixels.append(port.name)
            if watch is not None and not pass_through:
                watch.look(port, value)
    except ValueError as error:
        if not program.model.is_dynamic:
            raise
        others = "; ".join(str(entry) for entry in allowed_shapes(program.model))
        raise ValueError(f"{error}. For other shapes call set_shapes first; there are {others}") from None
    return frozenset(pixels) if pixels else _NONE


def split_batch(values: Sequence[object], names: Sequence[str], batch: int) -> list[list[object]]:
    """The inputs of each item; models without rknn_batch_size take everything at once."""
    if batch <= 1:
        return [list(values)]
    arrays = [as_numbers(value, name) for value, name in zip(values, names, strict=True)]
    for array, name in zip(arrays, names, strict=True):
        if not array.ndim or array.shape[0] != batch:
            raise ValueError(f"input {name!r}: {array.shape} was given; the model takes {batch} items per run")
    return [[array[item : item + 1] for array in arrays] for item in range(batch)]


def join_batch(results: Sequence[Outputs]) -> Outputs:
    """The outputs of all items behind each other."""
    if len(results) == 1:
        return results[0]
    return Outputs((name, np.concatenate([result[name] for result in results])) for name in results[0])


def in_order(inputs: object, names: Sequence[str]) -> list[object]:
    """One array, a list or tuple of them, or a dict by name."""
    if type(inputs) is np.ndarray and len(names) == 1:
        return [inputs]
    if isinstance(inputs, Mapping):
        return _by_name(inputs, names)
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if len(values) != len(names):
        given = f"{len(values)} inputs were given" if isinstance(inputs, list | tuple) else "one array was given"
        raise ValueError(f"{given}; the model has {len(names)}: {', '.join(names)}")
    return values


def output_names(wanted: object, names: Sequence[str]) -> Sequence[str]:
    """The first argument of ONNX Runtime's `run`: a list of outputs, or None for all."""
    if wanted is None:
        return names
    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or not all(isinstance(one, str) for one in wanted):
        raise TypeError("run takes inputs alone, or a list of output names (or None) and a dict of inputs by name")
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"no output is called {unknown[0]!r}; {_there_are(unknown[0], names)}")
    return wanted


def layouts_in_order(layout: str | Mapping[str, str] | None, names: Sequence[str]) -> list[str | None]:
    """`layout=` for each input: one for all, or by name."""
    chosen = dict.fromkeys(names, layout) if not isinstance(layout, Mapping) else dict(layout)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(f"layout= names {unknown[0]!r}, but the inputs are {', '.join(names)}")
    lowered = [value.lower() if isinstance(value, str) else value for value in map(chosen.get, names)]
    wrong = [value for value in lowered if value is not None and value not in LAYOUTS]
    if wrong:
        raise ValueError(f"layout {wrong[0]!r} is unknown; the choices are 'nhwc' and 'nchw'")
    return lowered


def _there_are(name: object, names: Sequence[str]) -> str:
    return f"the model has {', '.join(names)}{meant(name, names)}"


def _by_name(inputs: Mapping[object, object], names: Sequence[str]) -> list[object]:
    unknown = [name for name in inputs if name not in names]
    missing = [name for name in names if name not in inputs]
    if unknown:
        raise ValueError(f"no input is called {unknown[0]!r}; {_there_are(unknown[0], names)}")
    if missing:
        raise ValueError(f"input {missing[0]!r} is missing; the model has {', '.join(names)}")
    return [inputs[name] for name in names]
