"""Inputs in, run, outputs out."""

from __future__ import annotations

import math
from typing import Any

from openrknn.capi.async_runs import wait_for_fence
from openrknn.capi.call import OK, Call, CallError, Code, Reply
from openrknn.capi.client import Client
from openrknn.capi.context import ModelContext
from openrknn.capi.frames import Frame, output_type
from openrknn.capi.handlers import answers
from openrknn.capi.memory import Memory
from openrknn.capi.wire import Operation
from openrknn.vendor.tables.enums import InitFlag


@answers(Operation.INPUTS_SET)
def inputs_set(program: Client, call: Call) -> Reply:
    """`rknn_inputs_set`: each input is a piece of the staging memory."""
    context = program.context(call, ModelContext)
    entries = _structs(program, call, "rknn_input")
    with context.settled():
        context.check_ready()
        _check_count("inputs", len(entries), len(context.runnable.inputs))
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
def run(program: Client, call: Call) -> Reply:
    """`rknn_run`."""
    context = program.contexts.get(call.context)
    if not isinstance(context, ModelContext):
        context = program.context(call, ModelContext)
    context.under_way = call
    try:
        if call.payload or call.descriptors or context.is_asynchronous:
            return _run_extended(program, context, call)
        context.run()
    finally:
        context.under_way = None
    return OK


@answers(Operation.WAIT)
def wait(program: Client, call: Call) -> Reply:
    """`rknn_wait`."""
    context = program.context(call, ModelContext)
    extend = _extend(program, call)
    context.wait(extend["timeout_ms"])
    return _extended(program, extend, context.runs)


def _run_extended(program: Client, context: ModelContext, call: Call) -> Reply:
    """With an `rknn_run_extend`, or in a context that does not wait."""
    extend = _extend(program, call)
    if context.flags & InitFlag.FENCE_OUT_OUTSIDE:
        raise CallError(
            Code.FAIL, "fences come from a kernel driver, and runs end in a process here: use non_block and rknn_wait"
        )
    if call.descriptors and context.flags & InitFlag.FENCE_IN_OUTSIDE:
        wait_for_fence(call.descriptors[0], extend["timeout_ms"])
    if context.is_asynchronous or extend["non_block"] or extend["timeout_ms"] > 0:
        context.start()
    else:
        context.run()
    if extend["timeout_ms"] > 0 and not extend["non_block"] and context.is_pending and not context.is_asynchronous:
        context.wait(extend["timeout_ms"])
    return _extended(program, extend, context.runs) if call.payload else OK


def _extend(program: Client, call: Call) -> dict[str, Any]:
    if call.payload:
        return program.codec.decode("rknn_run_extend", call.payload)
    return {"frame_id": 0, "non_block": 0, "timeout_ms": 0, "fence_fd": -1}


def _extended(program: Client, extend: dict[str, Any], number: int) -> Reply:
    return Reply(payload=program.codec.encode("rknn_run_extend", {**extend, "frame_id": number}))


@answers(Operation.OUTPUTS_GET)
def outputs_get(program: Client, call: Call) -> Reply:
    """`rknn_outputs_get`."""
    context = program.context(call, ModelContext)
    entries = _structs(program, call, "rknn_output")
    with context.lock if context.is_asynchronous else context.finished():
        context.check_ready()
        frame = context.frame()
        _check_count("outputs", len(entries), len(frame.ports))
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
            context.results.store(ports, offset, context.model.chip, want_float=bool(entry["want_float"]))
            entry["buf"], entry["size"] = offset, size
        payload = b"".join(program.codec.encode("rknn_output", entry) for entry in entries)
        if call.b:
            payload += program.codec.encode("rknn_output_extend", {"frame_id": frame.number})
        return Reply(a=context.results.size_bytes, payload=payload, descriptors=() if fresh is None else (fresh,))


@answers(Operation.SET_IO_MEM)
def set_io_mem(program: Client, call: Call) -> Reply:
    """`rknn_set_io_mem`."""
    context = program.context(call, ModelContext)
    attr = program.codec.decode("rknn_tensor_attr", call.payload)
    context.bind(program.memory(call).piece(call.a, call.b), attr)
    return OK


def _structs(program: Client, call: Call, name: str) -> list[dict[str, Any]]:
    if call.a < 0 or call.a * program.codec.size(name) != len(call.payload):
        raise CallError(Code.PARAM_INVALID, f"{call.a} structs {name} do not have {len(call.payload)} bytes")
    return program.codec.decode_array(name, call.payload, call.a)


def _check_count(what: str, count: int, known: int) -> None:
    if count > known:
        raise CallError(Code.PARAM_INVALID, f"{count} {what} are more than the {known} of the model")


def _numbered(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runtime 1.5.2 gives outputs in their order and writes their numbers, whatever `index` says."""
    for number, entry in enumerate(entries):
        entry["index"] = number
    return entries


def _bytes(frame: Frame, entry: dict[str, Any]) -> int:
    ports = frame.output(entry["index"])
    dtype = output_type(ports[0], want_float=bool(entry["want_float"]))
    return len(ports) * math.prod(ports[0].stored.tensor.shape) * dtype.itemsize
