"""From exported decoders to the file that `openrknn.Decoder` opens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import openrknn
from openrknn.backports import Unpack
from openrknn.compiler.api import compile_model
from openrknn.compiler.check_result import CheckResult
from openrknn.compiler.errors import OptionError, SequenceError
from openrknn.compiler.options import CompileKeywords
from openrknn.compiler.sequence.arrange import GROUP, arranged, arranged_cross, shape_of
from openrknn.compiler.sequence.compare import compare
from openrknn.compiler.sequence.cross import Cross, cut_cross
from openrknn.compiler.sequence.moving import trace
from openrknn.compiler.sequence.net import flat
from openrknn.compiler.sequence.rewrite import CROSS_MASK, MASK, Step, rewritten
from openrknn.compiler.sequence.roles import find_roles
from openrknn.compiler.sequence.tables import Table
from openrknn.compiler.sequence.tidy import tidy
from openrknn.compiler.write import join_models
from openrknn.container.sequence import BoundInput, CacheInput, DecoderFile, TableEntry, write_decoder
from openrknn.container.writer import encode

Source = str | os.PathLike[str] | bytes | Any
_MOST_ROWS = 65536
_FRAMES = 1500
"""Default for an encoder: Whisper's."""


@dataclass(frozen=True)
class CachedDecoder:
    """A decoder's step with caches of fixed capacity, and what belongs to it."""

    step: Step
    cross: Cross | None
    capacity: int
    frames: int
    """Of the encoder, at the most; 0: there is none."""
    off: float
    """The largest difference to the model that was given, in float, as a part of the largest number."""


def cached(step: Source, capacity: int, *, first: Source | None = None, frames: int | None = None) -> CachedDecoder:
    """Rewrite a decoder's step; `first` is the model of the first step, where cross attention is computed.

    `step` takes one token, a past for each layer, and gives logits and the past with one row more. A merged model
    (`use_cache_branch`) is both. The result was compared with the model that was given, step by step.
    """
    for name, value in (("capacity", capacity), ("frames", 1 if frames is None else frames)):
        if not 1 <= value <= _MOST_ROWS:
            raise OptionError(f"{name}={value!r}: from 1 to {_MOST_ROWS} rows can be")
    if capacity < 2:
        raise OptionError("capacity=1: a cache of one row is no past")
    roles = find_roles(flat(step))
    count = (frames or _FRAMES) if roles.bound or any(roles.ones.values()) or roles.idle else 1
    traced = trace(roles, capacity, count)
    made = rewritten(traced)
    tidy(made.model)
    off = compare(traced, made)
    has_frames = bool(made.bound)
    cross = cut_cross(traced.roles, first, count) if first is not None and has_frames else None
    return CachedDecoder(made, cross, capacity, count if has_frames else 0, off)


def compile_decoder(
    step: Source,
    target: str = "rk3588",
    *,
    capacity: int,
    first: Source | None = None,
    frames: int | None = None,
    checks: dict[str, CheckResult] | None = None,
    **options: Unpack[CompileKeywords],
) -> bytes:
    """`cached`, compiled: the bytes of a `.rknnz` for `openrknn.Decoder`. `options` are those of `openrknn.compile`.

    `checks` gets what the check of each compiled file has found.
    """
    try:
        made = cached(step, _whole(capacity), first=first, frames=frames and _whole(frames))
    except SequenceError:  # a table of positions may end before whole groups do
        made = cached(step, capacity, first=first, frames=frames and _whole(frames))
    shapes = {entry.name: shape_of(entry) for entry in made.step.model.graph.input}
    files: dict[str, bytes] = {}
    arranged_step = arranged(made.step)
    if made.cross is not None:
        cross = made.cross
        if arranged_step is not made.step:
            cross = arranged_cross(cross, {name: shapes[name] for name in made.step.bound})
        chosen: dict[str, Any] = {"check": options.get("check", True), "progress": options.get("progress")}
        sizes = {cross.states: cross.shape, **{name: value.shape for name, value in cross.constants.items()}}
        constants = {name: value.reshape(-1)[0].item() for name, value in cross.constants.items()}
        compiled = compile_model(cross.model, target, shapes=sizes, constants=constants, **chosen)
        files["cross.rknn"] = compiled.data
        if checks is not None:
            checks["cross.rknn"] = compiled.check
    return pack_decoder(arranged_step, target, capacity=capacity, frames=made.frames, states=made.cross, files=files,
                        checks=checks, **options)  # fmt: skip


def pack_decoder(
    step: Step,
    target: str = "rk3588",
    *,
    capacity: int,
    frames: int,
    states: Cross | None = None,
    files: Mapping[str, bytes] | None = None,
    checks: dict[str, CheckResult] | None = None,
    many: Any | None = None,
    **options: Unpack[CompileKeywords],
) -> bytes:
    """A step that is written already: compile it and put everything into a file.

    `frames` are what the encoder gives at the most; a step with `shapes=` for several has a graph for each of them.
    `many`: the same step for several tokens at once, with the same names; it shares the weights.
    """
    compiled = compile_model(step.model, target, **options)
    if checks is not None:
        checks["step.rknn"] = compiled.check
    data = compiled.data
    if many is not None:
        data = encode(join_models([compiled.model, compile_model(many, target, **options).model]))
    inside = {"step.rknn": data, **(files or {})}
    tables = tuple(_entry(name, table, inside) for name, table in step.tables.items())
    inputs = {entry.name for entry in step.model.graph.input}
    return write_decoder(
        DecoderFile(
            target=target,
            capacity=capacity,
            frames=frames,
            vocabulary=_vocabulary(step.model),
            tables=tables,
            caches=tuple(CacheInput(name, new, step.axes[name]) for name, new in step.caches.items()),
            bound=tuple(BoundInput(name, step.axes[name]) for name in step.bound),
            states=states.states if states is not None else "",
            mask=MASK if MASK in inputs else "",
            cross_mask=CROSS_MASK if CROSS_MASK in inputs else "",
            made_by=f"openrknn {openrknn.__version__}",
            files=inside,
        )
    )


def _whole(rows: int) -> int:
    """As many rows as products take without filling up."""
    return -(-rows // GROUP) * GROUP if 1 < rows <= _MOST_ROWS else rows


def _vocabulary(model: Any) -> int:
    logits = next(entry for entry in model.graph.output if entry.name == "logits")
    return int(np.prod([size.dim_value for size in logits.type.tensor_type.shape.dim]))


def _entry(name: str, table: Table, files: dict[str, bytes]) -> TableEntry:
    """In the file: int8 as it is, floats as the half floats that the NPU takes."""
    rows = table.rows if table.scale is not None else table.rows.astype(np.float16)
    file = f"tables/{name}.bin"
    files[file] = np.ascontiguousarray(rows).tobytes()
    scale = () if table.scale is None else tuple(float(number) for number in table.scale)
    return TableEntry(name, table.by, table.shape, file, rows.dtype.name, rows.shape[0], scale, table.zero)
