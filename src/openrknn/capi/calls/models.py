"""Contexts of models: begin, copy, end, settings."""

from __future__ import annotations

import os
import stat

from openrknn.capi.call import OK, Call, CallError, Code, Reply, answers
from openrknn.capi.context import Context
from openrknn.capi.opening import open_context
from openrknn.capi.program import Program
from openrknn.capi.wire import Operation
from openrknn.container.load import load
from openrknn.container.model import Model

__all__: list[str] = []


@answers(Operation.INIT)
def init(program: Program, call: Call) -> Reply:
    """`rknn_init`."""
    extend = program.codec.decode("rknn_init_extend", call.payload) if call.payload else {}
    context = open_context(program, _model(call), call.a, extend)
    return Reply(value=program.add_context(context))


@answers(Operation.DUP_CONTEXT)
def dup_context(program: Program, call: Call) -> Reply:
    """`rknn_dup_context`."""
    return Reply(value=program.add_context(program.context(call, Context).duplicate()))


@answers(Operation.DESTROY)
def destroy(program: Program, call: Call) -> Reply:
    """`rknn_destroy`."""
    context = program.context(call, Context)
    program.contexts.pop(call.context, None)
    context.under_way = call
    context.close()
    return OK


@answers(Operation.SET_CORE_MASK)
def set_core_mask(program: Program, call: Call) -> Reply:
    """`rknn_set_core_mask`."""
    program.context(call, Context).set_core_mask(call.a)
    return OK


def _model(call: Call) -> Model:
    descriptor = call.take()
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise CallError(Code.MODEL_INVALID, "the model is not a file")
        if call.c < 0 or call.d < 0 or call.c + call.d > found.st_size:
            raise CallError(
                Code.MODEL_INVALID,
                f"{call.d} bytes from {call.c} on were asked for, and the file has {found.st_size}",
            )
        return load(_read(descriptor, call.c, call.d))
    finally:
        os.close(descriptor)


def _read(descriptor: int, offset: int, size: int) -> bytes:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = os.preadv(descriptor, [view[done:]], offset + done)
        if not count:
            raise CallError(Code.MODEL_INVALID, f"the file was cut short: {done} of {size} bytes came")
        done += count
    return bytes(data)
