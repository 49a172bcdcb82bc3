"""Compile one net of a set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.voice.errors import VoiceSetError


def find_file(source: Path, *names: str) -> Path:
    """The source itself if it is a file, or the first of these names in the folder or below it."""
    return source if source.is_file() else find_below(source, *names)


def find_below(folder: Path, *names: str) -> Path:
    """The first of these names in the folder or below it."""
    for name in names:
        if found := sorted(folder.rglob(name)):
            return found[0]
    raise VoiceSetError(f"{folder}: no {' or '.join(names)} in this folder; give a folder that has it, or the file")


def compile_net(
    model: Path | Any, to: Path, target: str, *, constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None, outputs: Sequence[str] = (),
) -> Path:  # fmt: skip
    """One net in fp16 as a `.rknn`: all on the NPU but for operators that the compiler leaves to the CPU."""
    from openrknn.compiler import compile_onnx
    from openrknn.container.save import save

    to.parent.mkdir(parents=True, exist_ok=True)
    save(compile_onnx(model, target, constants=constants, shapes=dict(shapes) if shapes else None, outputs=outputs), to)
    return to


def states_of(net: Path) -> dict[str, str]:
    """Output -> input of the state of a net: all that comes behind the first input and the first output."""
    from openrknn.container.load import load

    model = load(net)
    ins, outs = model.inputs[1:], model.outputs[1:]
    if not ins or [math.prod(port.shape) for port in ins] != [math.prod(port.shape) for port in outs]:
        raise VoiceSetError(
            f"{net}: takes {[port.shape for port in model.inputs]} and gives {[port.shape for port in model.outputs]}: "
            "the second ones should be its state"
        )
    return {one.name: other.name for one, other in zip(outs, ins, strict=True)}
