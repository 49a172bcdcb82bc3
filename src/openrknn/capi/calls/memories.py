"""Memory: made here, or brought by the program."""

from __future__ import annotations

from openrknn.capi.call import OK, Call, CallError, Code, Reply
from openrknn.capi.client import Client
from openrknn.capi.context import ModelContext
from openrknn.capi.handlers import answers
from openrknn.capi.memory import Memory
from openrknn.capi.wire import Operation
from openrknn.vendor.tables.enums import MemoryOrigin, SyncMode

_LARGEST = (1 << 32) - (1 << 20)
"""The NPU's addresses have 32 bits; runtime 1.5.2 refuses what does not fit."""


@answers(Operation.CREATE_MEM)
def create_mem(program: Client, call: Call) -> Reply:
    """`rknn_create_mem` and `rknn_create_mem2`."""
    _check_context(program, call)
    if not 0 < call.a < _LARGEST:
        raise CallError(Code.MALLOC_FAIL, f"a memory of {call.a} bytes is not possible")
    context = program.contexts.get(call.context)
    made = Memory.of_device(context.device, call.a) if isinstance(context, ModelContext) and context.is_open else None
    return _made(program, made or Memory.create(call.a), MemoryOrigin.ALLOC_INSIDE, is_sent=True)


@answers(Operation.MEM_FROM_FD)
def mem_from_fd(program: Client, call: Call) -> Reply:
    """`rknn_create_mem_from_fd`."""
    _check_context(program, call)
    return _made(program, Memory.of_descriptor(call.take(), call.a, call.b), MemoryOrigin.FROM_FD)


@answers(Operation.MEM_FROM_PHYS)
def mem_from_phys(program: Client, call: Call) -> Reply:
    """`rknn_create_mem_from_phys`: an address that another memory of this program has (`phys_addr`)."""
    _check_context(program, call)
    if call.b < 1:
        raise CallError(Code.PARAM_INVALID, f"a memory of {call.b} bytes is not possible")
    owner, offset = program.memory_at(call.a, call.b)
    made = Memory.of_memory(owner, offset, call.b)
    made.address = call.a
    return _made(program, made, MemoryOrigin.FROM_PHYS)


@answers(Operation.MEM_FROM_MB_BLK)
def mem_from_mb_blk(program: Client, call: Call) -> Reply:
    """`rknn_create_mem_from_mb_blk`: no chip has it."""
    raise CallError(
        Code.FAIL, "blocks of the media library cannot be seen by another process; use rknn_create_mem_from_fd"
    )


@answers(Operation.MEM_SYNC)
def mem_sync(program: Client, call: Call) -> Reply:
    """`rknn_mem_sync`: both sides see the same pages, so there is nothing to do."""
    _check_context(program, call)
    program.memory(call)
    if call.a not in set(SyncMode):
        raise CallError(Code.PARAM_INVALID, f"mode {call.a} is none of {', '.join(mode.name for mode in SyncMode)}")
    return OK


@answers(Operation.DESTROY_MEM)
def destroy_mem(program: Client, call: Call) -> Reply:
    """`rknn_destroy_mem`: what is bound to it keeps the memory until something else is bound."""
    memory = program.memory(call)
    program.memories.pop(call.memory, None)
    for context in list(program.contexts.values()):
        if isinstance(context, ModelContext):
            context.forget(memory)
    memory.close()
    return OK


def _check_context(program: Client, call: Call) -> None:
    if call.context and call.context not in program.contexts:
        raise CallError(Code.CTX_INVALID, f"there is no context {call.context:#x}")


def _made(program: Client, memory: Memory, origin: MemoryOrigin, *, is_sent: bool = False) -> Reply:
    number = program.add_memory(memory)
    described = {
        "phys_addr": memory.address, "fd": -1, "offset": memory.offset, "size": memory.size_bytes, "flags": int(origin),
    }  # fmt: skip
    return Reply(
        value=number,
        a=memory.array.nbytes,
        b=memory.offset,
        payload=program.codec.encode("rknn_tensor_mem", described),
        descriptors=(memory.fd,) if is_sent else (),
    )
