"""Calls that should not be made, or not yet: one case each, with a context of its own.

A case adds lines to a script; both libraries are asked, and the codes are compared. Cases that make the vendor's
library crash are named in `CRASHES`: what they show is that ours does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from openrknn.container.load import load
from openrknn.vendor.context.answers import QUERIES
from openrknn.vendor.tables.enums import QueryCommand as Q
from tests.capi.asking import CODEC, Script
from tests.capi.scenarios import shapes_of

Case = Callable[[Script, str], None]
"""Adds the calls of a case; the text begins all labels."""

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MODEL = GOLDENS / "residual_rk3588_i8.rknn"
BATCH = GOLDENS / "image_rk3588_i8_batch2.rknn"
DYNAMIC = GOLDENS / "dynamic_rk3588_i8.rknn"
TWO = GOLDENS / "two_inputs_rk3588_i8.rknn"
PICTURE_BYTES = 16 * 16 * 3
OUTPUT_BYTES = 32 * 4 * 4
UINT8, INT8, FLOAT32, INT64 = 3, 2, 0, 8
NCHW, NHWC, NC1HWC2, UNDEFINED = 0, 1, 2, 3
COLLECT_PERF = 0x8
MODEL_INFO_ONLY = 0x100
OUTSIDE = 0x10
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """Name a case."""

    def keep(made: Case) -> Case:
        CASES[name] = made
        return made

    return keep


def picture(script: Script, **changes: int) -> int:
    """An rknn_input for `MODEL`, and where it is."""
    pixels = script.buffer(4096, 7)
    values = {"index": 0, "size": PICTURE_BYTES, "type": UINT8, "fmt": NHWC} | changes
    given = script.data(CODEC.encode("rknn_input", values))
    if values.get("buf", 1):
        script.put(given, CODEC.offset("rknn_input", "buf"), f"@{pixels}")
    return given


def fed(script: Script, name: str, path: Path = MODEL, flags: int = 0) -> int:
    """A context with its inputs set."""
    context = script.init(path, flags, f"{name} init")
    given = picture(script)
    script.call(f"{name} inputs", "rknn_inputs_set", f"*{context}", 1, f"@{given}")
    return context


def ran(script: Script, name: str, flags: int = 0) -> int:
    """A context that ran."""
    context = fed(script, name, flags=flags)
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    return context


def gone(script: Script, name: str, context: int) -> None:
    script.call(f"{name} destroy", "rknn_destroy", f"*{context}")


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


# ----------------------------------------------------------------------------------------------------------------------
# Memory


@case("memory of size 0")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    script.make(f"{name} made", "rknn_create_mem", f"*{context}", 0)
    gone(script, name, context)


@case("memory that is destroyed twice")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    memory = script.make(f"{name} made", "rknn_create_mem", f"*{context}", 4096)
    script.call(f"{name} once", "rknn_destroy_mem", f"*{context}", f"*{memory}")
    script.call(f"{name} twice", "rknn_destroy_mem", f"*{context}", f"*{memory}")
    gone(script, name, context)


@case("no memory is destroyed")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    script.call(f"{name} null", "rknn_destroy_mem", f"*{context}", 0)
    gone(script, name, context)


def _bound(command: Q, size: int, changes: dict[str, int], script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    attr = script.query(f"{name} attr", context, command)
    for field, value in changes.items():
        width = 1 if field == "pass_through" else 4
        text = value.to_bytes(width, "little", signed=value < 0).hex()
        script.lines.append(f"write {attr} {CODEC.offset('rknn_tensor_attr', field)} {text}")
    memory = script.make(f"{name} made", "rknn_create_mem", f"*{context}", size)
    script.call(f"{name} set", "rknn_set_io_mem", f"*{context}", f"*{memory}", f"@{attr}")
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    gone(script, name, context)


CASES["memory for an input"] = partial(_bound, Q.INPUT_ATTR, 4096, {"type": UINT8})
CASES["memory for an input of its own type"] = partial(_bound, Q.INPUT_ATTR, 4096, {})
CASES["memory for an input as it is"] = partial(_bound, Q.NATIVE_INPUT_ATTR, 4096, {"pass_through": 1})
CASES["memory for an input, one byte short"] = partial(_bound, Q.INPUT_ATTR, PICTURE_BYTES - 1, {"type": UINT8})
CASES["memory for an input of floats"] = partial(_bound, Q.INPUT_ATTR, 4096, {"type": FLOAT32})
CASES["memory for an input of floats, too small"] = partial(_bound, Q.INPUT_ATTR, PICTURE_BYTES, {"type": FLOAT32})
CASES["memory for an input of int64"] = partial(_bound, Q.INPUT_ATTR, 8192, {"type": INT64})
CASES["memory for an input, NCHW"] = partial(_bound, Q.INPUT_ATTR, 4096, {"fmt": NCHW, "type": UINT8})
CASES["memory for an input, NC1HWC2"] = partial(_bound, Q.INPUT_ATTR, 8192, {"fmt": NC1HWC2, "type": UINT8})
CASES["memory for an input that is not there"] = partial(_bound, Q.INPUT_ATTR, 4096, {"index": 1})
CASES["memory for an output"] = partial(_bound, Q.OUTPUT_ATTR, 8192, {})
CASES["memory for a native output"] = partial(_bound, Q.NATIVE_OUTPUT_ATTR, 8192, {})
CASES["memory for an output with channels last"] = partial(_bound, Q.NATIVE_NHWC_OUTPUT_ATTR, 8192, {})
CASES["memory for an output of floats"] = partial(_bound, Q.OUTPUT_ATTR, 8192, {"type": FLOAT32})
CASES["memory for an output of floats, too small"] = partial(_bound, Q.OUTPUT_ATTR, OUTPUT_BYTES, {"type": FLOAT32})
CASES["memory for an output, one byte short"] = partial(_bound, Q.OUTPUT_ATTR, OUTPUT_BYTES - 1, {})
CASES["memory for a native output, one byte short"] = partial(_bound, Q.NATIVE_OUTPUT_ATTR, OUTPUT_BYTES - 1, {})
CASES["memory for an output that is not there"] = partial(_bound, Q.OUTPUT_ATTR, 8192, {"index": 1})


@case("no memory for an input")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    attr = script.query(f"{name} attr", context, Q.INPUT_ATTR)
    memory = script.make(f"{name} made", "rknn_create_mem", f"*{context}", 4096)
    script.call(f"{name} no memory", "rknn_set_io_mem", f"*{context}", 0, f"@{attr}")
    script.call(f"{name} no struct", "rknn_set_io_mem", f"*{context}", f"*{memory}", 0)
    gone(script, name, context)


def _own(function: str, flags: int, size: int, script: Script, name: str) -> None:
    context = script.init(MODEL, flags, f"{name} init")
    memory = script.make(f"{name} made", "rknn_create_mem", f"*{context}", size)
    script.call(f"{name} set", function, f"*{context}", f"*{memory}")
    script.call(f"{name} nothing", function, f"*{context}", 0)
    gone(script, name, context)


CASES["weights in memory that was not announced"] = partial(_own, "rknn_set_weight_mem", 0, 65536)
CASES["own memory for weights"] = partial(_own, "rknn_set_weight_mem", OUTSIDE, 65536)
CASES["too little memory for weights"] = partial(_own, "rknn_set_weight_mem", OUTSIDE, 64)
CASES["tensors in memory that was not announced"] = partial(_own, "rknn_set_internal_mem", 0, 65536)
CASES["own memory for tensors"] = partial(_own, "rknn_set_internal_mem", OUTSIDE, 65536)
CASES["too little memory for tensors"] = partial(_own, "rknn_set_internal_mem", OUTSIDE, 64)


# ----------------------------------------------------------------------------------------------------------------------
# Cores, batches, shapes, copies


def _number(function: str, path: Path, value: int, script: Script, name: str) -> None:
    context = script.init(path, 0, f"{name} init")
    script.call(f"{name} set", function, f"*{context}", value)
    gone(script, name, context)


for _mask in (0, 1, 2, 3, 4, 5, 6, 7, 8, 0xFFFF, 0x10000, -1):
    CASES[f"core mask {_mask}"] = partial(_number, "rknn_set_core_mask", MODEL, _mask)
for _cores in (-1, 0, 1, 2, 3, 4):
    CASES[f"{_cores} cores for a batch"] = partial(_number, "rknn_set_batch_core_num", BATCH, _cores)
    CASES[f"{_cores} cores for no batch"] = partial(_number, "rknn_set_batch_core_num", MODEL, _cores)


def _shaped(path: Path, count: int, change: str, script: Script, name: str) -> None:
    context = script.init(path, 0, f"{name} init")
    model = load(path)
    wanted = script.data(shapes_of(model, min(1, len(model.graphs) - 1)))
    if change:
        script.lines.append(f"write {wanted} {change}")
    script.call(f"{name} set", "rknn_set_input_shapes", f"*{context}", count, f"@{wanted}" if count >= 0 else 0)
    gone(script, name, context)


CASES["shapes of a model with one"] = partial(_shaped, MODEL, 1, "")
CASES["shapes"] = partial(_shaped, DYNAMIC, 1, "")
CASES["no shapes"] = partial(_shaped, DYNAMIC, 0, "")
CASES["shapes for two inputs"] = partial(_shaped, DYNAMIC, 2, "")
CASES["shapes without structs"] = partial(_shaped, DYNAMIC, -1, "")
CASES["shapes that the model does not have"] = partial(_shaped, DYNAMIC, 1, "12 09000000")
CASES["shapes of five dimensions"] = partial(_shaped, DYNAMIC, 1, "4 05000000")
CASES["shapes in another layout"] = partial(_shaped, DYNAMIC, 1, f"{CODEC.offset('rknn_tensor_attr', 'fmt')} 00000000")
CASES["shapes of an input that is not there"] = partial(_shaped, DYNAMIC, 1, "0 01000000")


def _one_shape(path: Path, script: Script, name: str) -> None:
    context = script.init(path, 0, f"{name} init")
    wanted = script.data(shapes_of(load(path), 0))
    script.call(f"{name} set", "rknn_set_input_shape", f"*{context}", f"@{wanted}")
    gone(script, name, context)


CASES["the old function for shapes"] = partial(_one_shape, DYNAMIC)
CASES["the old function for shapes of a model with one"] = partial(_one_shape, MODEL)


@case("a dynamic model before its shapes are chosen")
def _(script: Script, name: str) -> None:
    context = script.init(DYNAMIC, 0, f"{name} init")
    given = picture(script)
    script.call(f"{name} inputs", "rknn_inputs_set", f"*{context}", 1, f"@{given}")
    gone(script, name, context)


@case("a run of a dynamic model before its shapes are chosen")
def _(script: Script, name: str) -> None:
    context = script.init(DYNAMIC, 0, f"{name} init")
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    gone(script, name, context)


@case("a copy")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    other = script.buffer(8)
    script.call(f"{name} made", "rknn_dup_context", f"@{context}", f"@{other}")
    script.query(f"{name} counts", other, Q.IN_OUT_NUM)
    gone(script, f"{name} other", other)
    gone(script, name, context)


@case("a copy of nothing")
def _(script: Script, name: str) -> None:
    other = script.buffer(8)
    script.call(f"{name} null", "rknn_dup_context", 0, f"@{other}")


@case("a copy of context 0")
def _(script: Script, name: str) -> None:
    other, zero = script.buffer(8), script.buffer(8)
    script.call(f"{name} zero", "rknn_dup_context", f"@{zero}", f"@{other}")


@case("a copy into nothing")
def _(script: Script, name: str) -> None:
    context = script.init(MODEL, 0, f"{name} init")
    script.call(f"{name} made", "rknn_dup_context", f"@{context}", 0)


CRASHES = {
    "query NATIVE_OUTPUT_ATTR of a tensor that is not there": ("_1", -5),
    "context 0": ("_batch", -7),
    "context 1234": ("_query", -7),
    **{f"{function} after rknn_destroy": ("_again", -7) for function in (
        "rknn_query", "rknn_run", "rknn_destroy", "rknn_set_core_mask", "rknn_outputs_get", "rknn_inputs_set",
    )},
    "init from a folder": ("_init", -6),
    "an input without bytes": ("_set", -5),
    "an input of layout -1": ("_set", -5),
    "an input of layout 4": ("_set", -5),
    "inputs without structs": ("_set", -5),
    "outputs without structs": ("_get", -5),
    "outputs released twice": ("_again", -5),
    "memory that is destroyed twice": ("_twice", -5),
    "no shapes": ("_set", -5),
    "a dynamic model before its shapes are chosen": ("_inputs", -7),
    "a run of a dynamic model before its shapes are chosen": ("_run", -7),
    "a copy of context 0": ("_zero", -7),
}  # fmt: skip
"""Cases in which the vendor's library crashes: where, and what ours returns there."""
