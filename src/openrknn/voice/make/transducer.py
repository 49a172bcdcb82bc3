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
_OF_NUMBERS = {"Cast", "Clip", "Max", "Identity", "GreaterOrEqual", "Greater", "Unsqueeze", "Reshape"}
_LONGEST_CHAIN = 8


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
    turned_states(nets["encoder"])
    before = plain_lookup(nets["decoder"], source)
    files = {"tokens": "tokens.txt"}
    for role, model in nets.items():
        files[role] = f"{role}.rknn"
        compile_net(model, folder / files[role], target, shapes=_shapes(model))
    write_atomically(folder / "tokens.txt", found[0].read_bytes())
    made = VoiceSet(
        folder, name, "transducer", "transcriber", FBANK.rate, language=language, target=target,
        source=origin or source.name, files=files,
        options={"states": states, "length": length, "shift": shift, "context": context, "before": before,
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


def plain_lookup(model: Any, source: Path) -> int:
    """Make the decoder look its tokens up and nothing else; the row that stands for -1, "no token yet".

    icefall's decoders clip -1 to 0 and multiply its row by 0 afterwards: integers that an NPU does not have. A row of
    zeros behind the others says the same.
    """
    import numpy as np
    from onnx import helper, numpy_helper

    graph = model.graph
    index = graph.input[0].name
    numbers = {one.name: one for one in graph.initializer}
    made = {name: node for node in graph.node for name in node.output}
    lookup = next(
        (node for node in graph.node
         if node.op_type == "Gather" and node.input[0] in numbers and _comes_from(node.input[1], index, made)),
        None,
    )  # fmt: skip
    if lookup is None:
        raise VoiceSetError(f"{source}: the decoder does not look its tokens up in a table: it is none of icefall's")
    table = numpy_helper.to_array(numbers[lookup.input[0]])
    found = lookup.output[0]
    users = [node for node in graph.node if found in node.input]
    row = table[:1] if lookup.input[1] != index else table[-1:]
    if len(users) == 1 and users[0].op_type == "Mul":
        other = next(name for name in users[0].input if name != found)
        if _comes_from(other, index, made):
            found, row = users[0].output[0], np.zeros_like(table[:1])
    name = f"{lookup.input[0]}_and_none"
    graph.initializer.append(numpy_helper.from_array(np.concatenate([table, row]), name))
    wanted, kept = {one.name for one in graph.output}, []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            plain = helper.make_node("Gather", [name, index], [found]) if found in node.output else node
            kept.append(plain)
            wanted |= set(plain.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    left = [one for one in graph.initializer if one.name in wanted]
    del graph.initializer[:]
    graph.initializer.extend(left)
    return len(table)


def _comes_from(name: str, index: str, made: dict[str, Any]) -> bool:
    """Whether a value is computed of the tokens' numbers alone."""
    for _ in range(_LONGEST_CHAIN):
        if name == index:
            return True
        node = made.get(name)
        if node is None or node.op_type not in _OF_NUMBERS or not node.input:
            return False
        name = node.input[0]
    return False


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


_WHOLE_CHANNELS, _WHOLE_FRAMES = 16, 4


def turned_states(model: Any) -> None:
    """States of frames, [T, 1, C] or the like, become [1, C, 1, T], the NPU's order, where they enter and leave.

    Only the encoder reads them, so in this order a chunk's states need not be transposed twice. Outputs end at
    whole groups of channels and frames: a state of other sizes would have to be copied, and stays as it is.
    """
    from onnx import TensorProto, helper

    graph, shapes = model.graph, _shapes(model)
    kept = {one.name: one for one in graph.input}
    outputs = {one.name.removeprefix("new_"): one for one in graph.output[1:]}
    before, after = [], []
    for name in list(outputs):
        readers = [node for node in graph.node if name in node.input]
        shape = shapes[name]
        wide = [axis for axis, size in enumerate(shape) if size != 1]
        if len(readers) != 1 or readers[0].op_type != "Concat" or len(wide) != 2 or len(shape) < 3:
            continue
        time = next(one.i for one in readers[0].attribute if one.name == "axis") % len(shape)
        if time not in wide or kept[name].type.tensor_type.elem_type != TensorProto.FLOAT:
            continue
        channels = next(axis for axis in wide if axis != time)
        if shape[channels] % _WHOLE_CHANNELS or shape[time] % _WHOLE_FRAMES:
            continue
        turned = (1, shape[channels], 1, shape[time])
        plain, given = f"{name}_plain", outputs[name].name
        for node in graph.node:
            node.input[:] = [f"{given}_plain" if one == given else plain if one == name else one for one in node.input]
            node.output[:] = [f"{given}_plain" if one == given else one for one in node.output]
        is_turned = time < channels
        flat = [shape[axis] for axis in wide]
        before += _moved(model, name, plain, [flat[::-1] if is_turned else flat, shape], is_turned)
        after += _moved(model, f"{given}_plain", given, [flat, turned], is_turned)
        for entry in (kept[name], outputs[name]):
            entry.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, turned))
    nodes = [*before, *graph.node, *after]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)


def _moved(model: Any, source: str, target: str, shapes: list[Any], is_turned: bool) -> list[Any]:
    """As a matrix, perhaps transposed, and in a shape of its own."""
    import numpy as np
    from onnx import helper, numpy_helper

    names = [f"{target}_{part}" for part in ("flat_shape", "last_shape", "flat", "turned")]
    for name, shape in zip(names[:2], shapes, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
    made = [helper.make_node("Reshape", [source, names[0]], [names[2]])]
    if is_turned:
        made.append(helper.make_node("Transpose", [names[2]], [names[3]], perm=[1, 0]))
    return [*made, helper.make_node("Reshape", [made[-1].output[0], names[1]], [target])]


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Of the inputs, one stream at a time."""
    known = {one.name for one in model.graph.initializer}
    return {
        one.name: tuple(size.dim_value or 1 for size in one.type.tensor_type.shape.dim)
        for one in model.graph.input
        if one.name not in known
    }
