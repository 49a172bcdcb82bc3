"""A streaming transducer in the form of sherpa-onnx: encoder, decoder and joiner as ONNX, and tokens.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.nets import compile_net
from openrknn.voice.sets import VoiceSet, write_set
from openrknn.voice.transducer import FBANK, read_tokens
from openrknn.wholefiles import write_atomically

_ROLES = ("encoder", "decoder", "joiner")


def is_transducer(source: Path) -> bool | None:
    """Whether a folder has the three nets; None where names alone say it."""
    return None if source.is_dir() and any(source.rglob("*joiner*.onnx")) else False


def make(source: Path, folder: Path, target: str = "rk3588", *, name: str = "transducer", origin: str = "",
         language: str = "en") -> VoiceSet:  # fmt: skip
    """From a folder of sherpa-onnx. Float models are preferred to int8 ones: the set is fp16."""
    import onnx

    nets: dict[str, Any] = {}
    for role in _ROLES:
        path = _net(source, role)
        try:
            nets[role] = onnx.load(str(path))
        except Exception as error:
            raise VoiceSetError(f"{path}: is no ONNX model: {error}") from error
    found = sorted(source.rglob("tokens.txt"))
    if not found:
        raise VoiceSetError(f"{source}: no tokens.txt beside the models")
    read_tokens(found[0])
    facts = {one.key: one.value for one in nets["encoder"].metadata_props}
    length, shift = (_number(facts, key, source) for key in ("T", "decode_chunk_len"))
    context = _number({one.key: one.value for one in nets["decoder"].metadata_props}, "context_size", source)
    states = _states(nets["encoder"], source)
    files = {"tokens": "tokens.txt"}
    for role, model in nets.items():
        files[role] = f"{role}.rknn"
        compile_net(model, folder / files[role], target, shapes=_shapes(model))
    write_atomically(folder / "tokens.txt", found[0].read_bytes())
    made = VoiceSet(
        folder, name, "transducer", "transcriber", FBANK.rate, language=language, target=target,
        source=origin or source.name, files=files,
        options={"states": states, "length": length, "shift": shift, "context": context,
                 "model": facts.get("model_type", "")},
    )  # fmt: skip
    write_set(made)
    return made


def _net(source: Path, role: str) -> Path:
    found = sorted(source.rglob(f"*{role}*.onnx"), key=lambda path: ("int8" in path.name, path))
    if not found:
        raise VoiceSetError(f"{source}: no {role} among its ONNX files; a transducer has {', '.join(_ROLES)}")
    return found[0]


def _number(facts: dict[str, str], key: str, source: Path) -> int:
    value = facts.get(key, "")
    if not value.isdecimal() or not 1 <= int(value) <= 10_000:
        raise VoiceSetError(
            f"{source}: the models have no metadata {key!r} of a streaming transducer ({value!r:.40}); one that hears "
            "whole recordings, or from another exporter, is not understood"
        )
    return int(value)


def _states(model: Any, source: Path) -> dict[str, str]:
    """Output -> input, by their names: `new_NAME` becomes `NAME`."""
    known = {one.name for one in model.graph.initializer}
    ins = [one.name for one in model.graph.input if one.name not in known][1:]
    outs = [one.name for one in model.graph.output][1:]
    pairs = {one: one.removeprefix("new_") for one in outs}
    if sorted(pairs.values()) != sorted(ins):
        raise VoiceSetError(
            f"{source}: the encoder's outputs {', '.join(outs)[:200]} are not its inputs {', '.join(ins)[:200]} with "
            "new_ before them: which state is which is not known"
        )
    if not pairs:
        raise VoiceSetError(f"{source}: the encoder has no states: a model for whole recordings, not for streams")
    return pairs


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Of the inputs, one stream at a time."""
    known = {one.name for one in model.graph.initializer}
    return {
        one.name: tuple(size.dim_value or 1 for size in one.type.tensor_type.shape.dim)
        for one in model.graph.input
        if one.name not in known
    }
