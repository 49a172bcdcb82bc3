"""Refused calls: queries, contexts, inputs, runs and outputs."""

from __future__ import annotations

from functools import partial

from openrknn.vendor.context.answers import QUERIES
from openrknn.vendor.tables.enums import QueryCommand as Q
from tests.capi.asking import CODEC, Script
from tests.capi.refusal_cases import (
    CASES,
    COLLECT_PERF,
    FLOAT32,
    GOLDENS,
    INT8,
    MODEL,
    MODEL_INFO_ONLY,
    OUTPUT_BYTES,
    PICTURE_BYTES,
    TWO,
    case,
    fed,
    gone,
    picture,
    ran,
)

# ----------------------------------------------------------------------------------------------------------------------
# rknn_query


def _query_size(command: Q, change: int, script: Script, name: str) -> None:
    context = ran(script, name, COLLECT_PERF)
    size = CODEC.size(QUERIES[command].struct)
    script.query(f"{name} asked", context, command, size=0 if change == -size else size + change)
    gone(script, name, context)


for _command in Q:
    CASES[f"query {_command.name} one byte short"] = partial(_query_size, _command, -1)
    CASES[f"query {_command.name} 8 bytes more"] = partial(_query_size, _command, 8)
    if QUERIES[_command].tensor:

        def _index(script: Script, name: str, command: Q = _command) -> None:
            context = script.init(MODEL, 0, f"{name} init")
            for index in (1, 2**31, 2**32 - 1):
                script.query(f"{name} {index}", context, command, index)
            gone(script, name, context)

        CASES[f"query {_command.name} of a tensor that is not there"] = _index


@case("query without a struct")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    for command in (0, 1, 5, 6, 8):
        script.call(f"{name} {command}", "rknn_query", f"*{context}", command, 0, 376)
    gone(script, name, context)


@case("query with no such command")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    room = script.buffer(40000)
    for command in (18, 19, 100, -1, 2**31 - 1):
        script.call(f"{name} {command}", "rknn_query", f"*{context}", command, f"@{room}", 376)
    gone(script, name, context)


@case("query of times before a run")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, COLLECT_PERF, f"{name} init")
    room = script.buffer(64)
    script.call(f"{name} run", "rknn_query", f"*{context}", int(Q.PERF_RUN), f"@{room}", 8)
    script.call(f"{name} detail", "rknn_query", f"*{context}", int(Q.PERF_DETAIL), f"@{room}", 16)
    gone(script, name, context)


@case("query of details without the flag")
def _(script: Script, name: str) -> None:
    context = ran(script, name)
    room = script.buffer(64)
    script.call(f"{name} detail", "rknn_query", f"*{context}", int(Q.PERF_DETAIL), f"@{room}", 16)
    script.call(f"{name} run time", "rknn_query", f"*{context}", int(Q.PERF_RUN), f"@{room}", 8)
    gone(script, name, context)


# ----------------------------------------------------------------------------------------------------------------------
# Contexts that are none


def _no_context(value: str, script: Script, name: str) -> None:
    room = script.buffer(40000)
    given = picture(script)
    script.call(f"{name} query", "rknn_query", value, 0, f"@{room}", 8)
    script.call(f"{name} inputs", "rknn_inputs_set", value, 1, f"@{given}")
    script.call(f"{name} run", "rknn_run", value, 0)
    script.call(f"{name} wait", "rknn_wait", value, 0)
    script.call(f"{name} outputs", "rknn_outputs_get", value, 1, f"@{room}", 0)
    script.call(f"{name} core", "rknn_set_core_mask", value, 1)
    script.call(f"{name} batch", "rknn_set_batch_core_num", value, 1)
    script.call(f"{name} shapes", "rknn_set_input_shapes", value, 1, f"@{room}")
    script.make(f"{name} memory", "rknn_create_mem", value, 4096)
    script.call(f"{name} destroy", "rknn_destroy", value)


CASES["context 0"] = partial(_no_context, "0")
CASES["context 1234"] = partial(_no_context, "4660")


def _destroyed(function: str, arguments: tuple[str, ...], script: Script, name: str) -> None:
    context = ran(script, name)
    gone(script, name, context)
    room = script.buffer(40000)
    script.call(f"{name} again", function, f"*{context}", *(word.replace("ROOM", f"@{room}") for word in arguments))


for _function, _arguments in {
    "rknn_query": ("0", "ROOM", "8"), "rknn_run": ("0",), "rknn_destroy": (), "rknn_set_core_mask": ("1",),
    "rknn_outputs_get": ("1", "ROOM", "0"), "rknn_inputs_set": ("1", "ROOM"),
}.items():  # fmt: skip
    CASES[f"{_function} after rknn_destroy"] = partial(_destroyed, _function, _arguments)


# ----------------------------------------------------------------------------------------------------------------------
# rknn_init


def _init(places: str, size: int, flags: int, script: Script, name: str) -> None:
    room, data = script.buffer(8), script.file(MODEL)
    words = places.replace("ROOM", f"@{room}").replace("MODEL", f"@{data}").split()
    script.call(f"{name} init", "rknn_init", *words, size, flags, 0)
    if places.startswith("ROOM") and not places.endswith("0"):
        script.query(f"{name} counts", room, Q.IN_OUT_NUM)


SIZE = MODEL.stat().st_size
CASES["init without a place for the context"] = partial(_init, "0 MODEL", SIZE, 0)
CASES["init without a model"] = partial(_init, "ROOM 0", SIZE, 0)
CASES["init without a model and size"] = partial(_init, "ROOM 0", 0, 0)
CASES["init of half a model"] = partial(_init, "ROOM MODEL", SIZE // 2, 0)
CASES["init of 10 bytes"] = partial(_init, "ROOM MODEL", 10, 0)
CASES["init of a model without its last byte"] = partial(_init, "ROOM MODEL", SIZE - 1, 0)
for _bit in range(32):
    CASES[f"init with flag {1 << _bit:#x}"] = partial(_init, "ROOM MODEL", SIZE, 1 << _bit)


def _path(text: str, script: Script, name: str) -> None:
    room, path = script.buffer(8), script.data(text.encode() + b"\0")
    script.call(f"{name} init", "rknn_init", f"@{room}", f"@{path}", 0, 0, 0)


CASES["init from a path"] = partial(_path, str(MODEL))
CASES["init from a path that is not there"] = partial(_path, str(MODEL) + ".gone")
CASES["init from a folder"] = partial(_path, str(GOLDENS))
CASES["init from a file that is no model"] = partial(_path, str(GOLDENS / "build.py"))
CASES["init from an empty path"] = partial(_path, "")


# ----------------------------------------------------------------------------------------------------------------------
# rknn_inputs_set


def _inputs(count: int, changes: dict[str, int], script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    given = picture(script, **changes)
    script.call(f"{name} set", "rknn_inputs_set", f"*{context}", count, f"@{given}")
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    gone(script, name, context)


CASES["no inputs"] = partial(_inputs, 0, {})
CASES["two inputs for one"] = partial(_inputs, 2, {})
CASES["an input that is not there"] = partial(_inputs, 1, {"index": 1})
CASES["an input without bytes"] = partial(_inputs, 1, {"buf": 0})
CASES["an input of size 0"] = partial(_inputs, 1, {"size": 0})
CASES["an input one byte short"] = partial(_inputs, 1, {"size": PICTURE_BYTES - 1})
CASES["an input one byte long"] = partial(_inputs, 1, {"size": PICTURE_BYTES + 1})
CASES["a float input with the size of bytes"] = partial(_inputs, 1, {"type": FLOAT32})
for _type in range(-1, 13):
    CASES[f"an input of type {_type}"] = partial(_inputs, 1, {"type": _type, "size": 4096})
for _format in range(-1, 5):
    CASES[f"an input of layout {_format}"] = partial(_inputs, 1, {"fmt": _format})
    _as_it_is = {"fmt": _format, "pass_through": 1, "type": INT8}
    CASES[f"an input of layout {_format} as it is"] = partial(_inputs, 1, _as_it_is)
CASES["an input as it is, one byte short"] = partial(_inputs, 1, {"pass_through": 1, "size": PICTURE_BYTES - 1})
CASES["an input as it is, of floats"] = partial(_inputs, 1, {"pass_through": 1, "type": FLOAT32})


@case("inputs without structs")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    script.call(f"{name} set", "rknn_inputs_set", f"*{context}", 1, 0)
    gone(script, name, context)


@case("one of two inputs")
def _(script: Script, name: str) -> None:
    context = script.init(TWO, 0, f"{name} init")
    given = picture(script)
    script.call(f"{name} set", "rknn_inputs_set", f"*{context}", 1, f"@{given}")
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    gone(script, name, context)


# ----------------------------------------------------------------------------------------------------------------------
# rknn_run, rknn_wait, rknn_outputs_get, rknn_outputs_release


@case("a run without inputs")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    script.call(f"{name} wait", "rknn_wait", f"*{context}", 0)
    gone(script, name, context)


@case("a run with a struct of zeros")
def _(script: Script, name: str) -> None:
    context = fed(script, name)
    extend = script.buffer(64)
    script.call(f"{name} run", "rknn_run", f"*{context}", f"@{extend}")
    script.show(f"{name} extend", f"@{extend}", CODEC.size("rknn_run_extend"), "rknn_run_extend")
    script.call(f"{name} wait", "rknn_wait", f"*{context}", f"@{extend}")
    gone(script, name, context)


@case("a run of a context for queries only")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, MODEL_INFO_ONLY, f"{name} init")
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    gone(script, name, context)


def _outputs(count: int, changes: dict[str, int], is_run: bool, script: Script, name: str) -> None:
    context = fed(script, name)
    if is_run:
        script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    wanted = script.data(CODEC.encode("rknn_output", changes) + bytes(256))
    if changes.get("buf"):
        room = script.buffer(8192)
        script.put(wanted, CODEC.offset("rknn_output", "buf"), f"@{room}")
    script.call(f"{name} get", "rknn_outputs_get", f"*{context}", count, f"@{wanted}", 0)
    script.show(f"{name} size", f"@{wanted}+{CODEC.offset('rknn_output', 'size')}", 4)
    script.call(f"{name} release", "rknn_outputs_release", f"*{context}", count, f"@{wanted}")
    gone(script, name, context)


CASES["outputs before a run"] = partial(_outputs, 1, {}, False)
CASES["no outputs"] = partial(_outputs, 0, {}, True)
CASES["two outputs of one"] = partial(_outputs, 2, {}, True)
CASES["an output that is not there"] = partial(_outputs, 1, {"index": 1}, True)
CASES["outputs"] = partial(_outputs, 1, {}, True)
CASES["an output into own memory"] = partial(_outputs, 1, {"is_prealloc": 1, "buf": 1, "size": OUTPUT_BYTES}, True)
CASES["an output into own memory, float"] = partial(
    _outputs, 1, {"want_float": 1, "is_prealloc": 1, "buf": 1, "size": OUTPUT_BYTES * 4}, True
)
CASES["an output into too little memory"] = partial(
    _outputs, 1, {"is_prealloc": 1, "buf": 1, "size": OUTPUT_BYTES - 1}, True
)
CASES["an output into too much memory"] = partial(
    _outputs, 1, {"is_prealloc": 1, "buf": 1, "size": OUTPUT_BYTES + 1}, True
)
CASES["an output into no memory"] = partial(_outputs, 1, {"is_prealloc": 1, "size": OUTPUT_BYTES}, True)


@case("outputs without structs")
def _(script: Script, name: str) -> None:
    context = ran(script, name)
    script.call(f"{name} get", "rknn_outputs_get", f"*{context}", 1, 0, 0)
    script.call(f"{name} release", "rknn_outputs_release", f"*{context}", 1, 0)
    gone(script, name, context)


@case("outputs released that were not given")
def _(script: Script, name: str) -> None:
    context = ran(script, name)
    wanted = script.buffer(64)
    script.call(f"{name} release", "rknn_outputs_release", f"*{context}", 1, f"@{wanted}")
    gone(script, name, context)


@case("outputs released twice")
def _(script: Script, name: str) -> None:
    context = ran(script, name)
    wanted = script.buffer(64)
    script.call(f"{name} get", "rknn_outputs_get", f"*{context}", 1, f"@{wanted}", 0)
    script.call(f"{name} release", "rknn_outputs_release", f"*{context}", 1, f"@{wanted}")
    script.call(f"{name} again", "rknn_outputs_release", f"*{context}", 1, f"@{wanted}")
    gone(script, name, context)
