"""Refused calls: memory, cores, shapes and copies of contexts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from openrknn.container.load import load
from openrknn.vendor.tables.enums import QueryCommand as Q
from tests.capi.asking import CODEC, Script
from tests.capi.refusal_cases import (
    BATCH,
    CASES,
    DYNAMIC,
    FLOAT32,
    INT64,
    MODEL,
    NC1HWC2,
    NCHW,
    OUTPUT_BYTES,
    OUTSIDE,
    PICTURE_BYTES,
    UINT8,
    case,
    gone,
    picture,
)
from tests.capi.scenarios import shapes_of

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
