"""Inputs in, run, outputs out."""

from __future__ import annotations

import math
from typing import Any

from openrknn.capi.call import OK, Call, CallError, Code, Reply, answers
from openrknn.capi.context import Context
from openrknn.capi.frames import Frame, output_type
from openrknn.capi.memory import Memory
from openrknn.capi.program import Program
from openrknn.capi.wire import Operation

__all__: list[str] = []


@answers(Operation.INPUTS_SET)
def inputs_set(program: Program, call: Call) -> Reply:
    """`rknn_inputs_set`: each input is a piece of the staging memory."""
    context = program.context(call, Context)
    entries = _structs(program, call, "rknn_input")
    with context.lock:
        context.check_ready()
        if call.descriptors:
            made = Memory.of_descriptor(call.take(), call.b, 0)
            if context.staging is not None:
                context.staging.close()
            context.staging = made
        if context.staging is None:
            raise CallError(Code.PARAM_INVALID, "inputs came without their memory")
        for entry in entries:
            data = context.staging.region(entry["buf"], entry["size"], entry["size"])
            context.feed(entry["index"], data, entry["type"], entry["fmt"], pass_through=bool(entry["pass_through"]))
    return OK


@answers(Operation.RUN)
def run(program: Program, call: Call) -> Reply:
    """`rknn_run`."""
    context = program.contexts.get(call.context)
    if not isinstance(context, Context):
        context = program.context(call, Context)
    context.under_way = call
    try:
        context.run()
    finally:
        context.under_way = None
    if not call.payload:
        return OK
    extend = program.codec.decode("rknn_run_extend", call.payload)
    return Reply(payload=program.codec.encode("rknn_run_extend", {**extend, "frame_id": context.runs}))


@answers(Operation.OUTPUTS_GET)
def outputs_get(program: Program, call: Call) -> Reply:
    """`rknn_outputs_get`."""
    context = program.context(call, Context)
    entries = _structs(program, call, "rknn_output")
    with context.lock:
        context.check_ready()
        frame = context.frame
        sizes = []
        for place, entry in enumerate(_numbered(entries)):
            needed = _bytes(frame, entry)
            if entry["is_prealloc"] and entry["size"] < needed:
                raise CallError(
                    Code.OUTPUT_INVALID,
                    f"output {entry['index']} needs {needed} bytes; outputs[{place}].size is {entry['size']}",
                )
            sizes.append(needed)
        offsets, fresh = context.results.reserve(sizes)
        for entry, offset, size in zip(entries, offsets, sizes, strict=True):
            ports = frame.output(entry["index"])
            context.results.store(ports, offset, want_float=bool(entry["want_float"]))
            entry["buf"], entry["size"] = offset, size
        payload = b"".join(program.codec.encode("rknn_output", entry) for entry in entries)
        if call.b:
            payload += program.codec.encode("rknn_output_extend", {"frame_id": frame.number})
        return Reply(a=context.results.size_bytes, payload=payload, descriptors=() if fresh is None else (fresh,))


@answers(Operation.SET_IO_MEM)
def set_io_mem(program: Program, call: Call) -> Reply:
    """`rknn_set_io_mem`."""
    context = program.context(call, Context)
    attr = program.codec.decode("rknn_tensor_attr", call.payload)
    context.bind(program.memory(call).piece(call.a, call.b), attr)
    return OK


def _structs(program: Program, call: Call, name: str) -> list[dict[str, Any]]:
    if call.a < 1 or call.a * program.codec.size(name) != len(call.payload):
        raise CallError(Code.PARAM_INVALID, f"{call.a} structs {name} do not have {len(call.payload)} bytes")
    return program.codec.decode_array(name, call.payload, call.a)


def _numbered(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Programs may leave all indices at 0, and mean the outputs in their order."""
    if len({entry["index"] for entry in entries}) < len(entries):
        for number, entry in enumerate(entries):
            entry["index"] = number
    return entries


def _bytes(frame: Frame, entry: dict[str, Any]) -> int:
    ports = frame.output(entry["index"])
    dtype = output_type(ports[0], want_float=bool(entry["want_float"]))
    return len(ports) * math.prod(ports[0].stored.tensor.shape) * dtype.itemsize
