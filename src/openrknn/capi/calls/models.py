"""Contexts of models: begin, copy, end, settings."""

from __future__ import annotations

import gc
import os
import stat

from openrknn.capi.call import OK, Call, CallError, Code, Reply
from openrknn.capi.client import Client
from openrknn.capi.context import ModelContext
from openrknn.capi.handlers import answers
from openrknn.capi.initialize import open_context
from openrknn.capi.shapes import graph_of
from openrknn.capi.sizes import internal_bytes, weight_bytes
from openrknn.capi.wire import Operation
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.runtime.options import core_count
from openrknn.vendor.tables.enums import CoreMask, InitFlag


@answers(Operation.INIT)
def init(program: Client, call: Call) -> Reply:
    """`rknn_init`."""
    extend = program.codec.decode("rknn_init_extend", call.payload) if call.payload else {}
    context = open_context(program, _model(call), call.a, extend)
    device = context.device.name if context.is_open else "no device: queries only"
    return Reply(value=program.add_context(context), payload=device.encode())


@answers(Operation.DUP_CONTEXT)
def dup_context(program: Client, call: Call) -> Reply:
    """`rknn_dup_context`."""
    return Reply(value=program.add_context(program.context(call, ModelContext).duplicate()))


@answers(Operation.DESTROY)
def destroy(program: Client, call: Call) -> Reply:
    """`rknn_destroy`; as in the vendor's runtime 1.5.2 it ends contexts of rknn_matmul_create, too."""
    context = program.any_context(call)
    program.contexts.pop(call.context, None)
    if isinstance(context, ModelContext):
        context.under_way = call
    context.close()
    del context
    gc.collect()  # decoded programs have cycles, and hold memory of the program; what was imported is frozen
    return OK


@answers(Operation.SET_CORE_MASK)
def set_core_mask(program: Client, call: Call) -> Reply:
    """`rknn_set_core_mask`."""
    context = program.context(call, ModelContext)
    chip = context.model.chip
    wanted = (1 << chip.cores) - 1 if call.a == CoreMask.ALL else call.a
    if call.a not in set(CoreMask) or call.a < 0 or wanted >> chip.cores or chip.cores == 1:
        raise CallError(Code.FAIL, f"{chip.title} has {chip.cores} core(s); core mask {call.a:#x} is not possible")
    there = {entry.core_count for entry in context.model.graphs[0].chip_lists(chip)}
    if there and wanted.bit_count() not in there:
        wanted &= -wanted  # built for one core (single_core_mode): its first one works, as in the vendor's runtime
    context.set_cores(core_count(None, wanted, chip), wanted)
    return OK


@answers(Operation.SET_BATCH_CORE_NUM)
def set_batch_core_num(program: Client, call: Call) -> Reply:
    """`rknn_set_batch_core_num`. The items of a batch follow each other here, so it changes no more than the speed."""
    chip = program.context(call, ModelContext).model.chip
    if not 1 <= call.a <= chip.cores or chip.cores == 1:
        raise CallError(Code.FAIL, f"{chip.title} has {chip.cores} core(s); {call.a} for a batch is not possible")
    return OK


@answers(Operation.SET_INPUT_SHAPES)
def set_input_shapes(program: Client, call: Call) -> Reply:
    """`rknn_set_input_shapes`."""
    context = program.context(call, ModelContext)
    count = len(context.model.graphs[0].inputs)
    _check_dynamic(context)
    if call.a != count or call.a * program.codec.size("rknn_tensor_attr") != len(call.payload):
        raise CallError(Code.PARAM_INVALID, f"the model has {count} input(s), and {call.a} shapes came")
    context.choose_graph(graph_of(context, program.codec.decode_array("rknn_tensor_attr", call.payload, call.a)))
    return OK


@answers(Operation.SET_INPUT_SHAPE)
def set_input_shape(program: Client, call: Call) -> Reply:
    """`rknn_set_input_shape` of 1.5.0: one input; the others keep their shapes, or follow if they cannot."""
    context = program.context(call, ModelContext)
    _check_dynamic(context)
    context.choose_graph(graph_of(context, [program.codec.decode("rknn_tensor_attr", call.payload)]))
    return OK


@answers(Operation.SET_WEIGHT_MEM)
def set_weight_mem(program: Client, call: Call) -> Reply:
    """`rknn_set_weight_mem`."""
    context = program.context(call, ModelContext)
    if not context.flags & InitFlag.MEM_ALLOC_OUTSIDE:
        raise CallError(Code.PARAM_INVALID, "weights in memory of the program need RKNN_FLAG_MEM_ALLOC_OUTSIDE")
    region = program.memory(call).region(call.a, call.b, weight_bytes(context.model))
    context.use_memory("weights", region)
    return OK


@answers(Operation.SET_INTERNAL_MEM)
def set_internal_mem(program: Client, call: Call) -> Reply:
    """`rknn_set_internal_mem`; runtime 1.5.2 takes it from any context."""
    context = program.context(call, ModelContext)
    region = program.memory(call).region(call.a, call.b, internal_bytes(context.model))
    context.use_memory("internal", region)
    return OK


def _check_dynamic(context: ModelContext) -> None:
    if not context.is_dynamic:
        raise CallError(
            Code.MODEL_INVALID, "the model has one shape; it has to be built with dynamic_input to take others"
        )


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
