"""How the library and its engine talk: packets of a Unix socket (SOCK_SEQPACKET), one request and its reply at a time.

A packet is a header, a payload of raw structs of the C API, and descriptors beside it (SCM_RIGHTS). Structs are sent as
the caller's compiler stores them; the engine knows from HELLO which version and which width of pointers that is, and
reads them by the tables of `openrknn.vendor.tables`. Pointers in them mean nothing to the engine. Bulk data are never
in a packet: they are in shared memory (memfd or dma-buf), whose descriptor travels once.

`native/capi/protocol.h` is generated from this table; `WIRE_VERSION` is made of it, and it is part of the socket's
name, so a library never meets an engine of another protocol.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from types import MappingProxyType

REQUEST = struct.Struct("<IIQQqqqq")
"""operation, bytes of the payload, context, memory, a, b, c, d"""
REPLY = struct.Struct("<iIIIQqqqq")
"""code, bytes of the payload, bytes of the reason behind it, 1: a callback and not the answer, value, a, b, c, d"""

FIELDS = MappingProxyType({
    "capi_request": (("uint32_t", "operation"), ("uint32_t", "payload_bytes"), ("uint64_t", "context"),
                     ("uint64_t", "memory"), *(("int64_t", name) for name in "abcd")),
    "capi_reply": (("int32_t", "code"), ("uint32_t", "payload_bytes"), ("uint32_t", "reason_bytes"),
                   ("uint32_t", "is_callback"), ("uint64_t", "value"), *(("int64_t", name) for name in "abcd")),
})  # fmt: skip
"""The two headers as C has them."""

LARGEST_PACKET = 192 * 1024
"""Below the default of net.core.wmem_default (208 KiB), with room for the kernel's own bookkeeping."""
MOST_DESCRIPTORS = 4

SOCKET_VARIABLE = "OPENRKNN_ENGINE_SOCKET"
"""Where the engine listens, if not at the usual place."""
ENGINE_VARIABLE = "OPENRKNN_ENGINE"
"""The program that is started as the engine, if not the one beside the library."""


class Operation(IntEnum):
    """What a request asks for. Arguments a to d, payload and descriptors: see `LAYOUT`."""

    HELLO = 1
    CHANNEL = 2
    INIT = 3
    DUP_CONTEXT = 4
    DESTROY = 5
    QUERY = 6
    INPUTS_SET = 7
    SET_BATCH_CORE_NUM = 8
    SET_CORE_MASK = 9
    RUN = 10
    WAIT = 11
    OUTPUTS_GET = 12
    CREATE_MEM = 13
    MEM_FROM_FD = 14
    MEM_FROM_PHYS = 15
    MEM_FROM_MB_BLK = 16
    DESTROY_MEM = 17
    SET_WEIGHT_MEM = 18
    SET_INTERNAL_MEM = 19
    SET_IO_MEM = 20
    SET_INPUT_SHAPE = 21
    SET_INPUT_SHAPES = 22
    MEM_SYNC = 23
    MATMUL_CREATE = 24
    MATMUL_CREATE_DYNAMIC_SHAPE = 25
    MATMUL_SET_IO_MEM = 26
    MATMUL_SET_CORE_MASK = 27
    MATMUL_SET_QUANT_PARAMS = 28
    MATMUL_GET_QUANT_PARAMS = 29
    MATMUL_SET_DYNAMIC_SHAPE = 30
    MATMUL_RUN = 31
    MATMUL_DESTROY = 32
    B_TO_NATIVE = 33
    REGISTER_CUSTOM_OPS = 34
    GET_OP_ATTR = 35
    CALLBACK_DONE = 36
    LLM_INIT = 37
    LLM_RUN = 38
    LLM_NEXT = 39
    LLM_STOP = 40
    LLM_CLEAR = 41
    LLM_LENGTH = 42
    LLM_TEMPLATE = 43
    LLM_TOOLS = 44
    LLM_LOAD_CACHE = 45
    LLM_DESTROY = 46


class Phase(IntEnum):
    """Which function of a custom operator a callback calls."""

    INIT = 0
    PREPARE = 1
    COMPUTE = 2
    DESTROY = 3


LAYOUT = MappingProxyType({
    Operation.HELLO: "a version (major * 10000 + minor * 100 + patch), b bytes of a pointer, c process, "
                     "d WIRE_VERSION; payload: NAME=VALUE texts, each ended by a zero byte -> value: the "
                     "engine's process",
    Operation.CHANNEL: "descriptor: one end of a socket pair, served from now on like this one",
    Operation.INIT: "a flag, b the argument size, c where the model begins in the descriptor, d its bytes; payload: "
                    "rknn_init_extend or nothing; descriptor: the model -> value: context; payload: the "
                    "name of the device",
    Operation.DUP_CONTEXT: "-> value: context",
    Operation.DESTROY: "",
    Operation.QUERY: "a cmd, b size; payload: at most `size` bytes of info -> payload: what to write there; for "
                     "PERF_DETAIL a descriptor with the text and a: its bytes",
    Operation.INPUTS_SET: "a count, b bytes of the staging memory; payload: rknn_input[a], buf is an offset in it; "
                          "descriptor: the staging memory, if it is new",
    Operation.SET_BATCH_CORE_NUM: "a core_num",
    Operation.SET_CORE_MASK: "a core_mask",
    Operation.RUN: "payload: rknn_run_extend or nothing; descriptor: its fence -> payload: rknn_run_extend",
    Operation.WAIT: "payload: rknn_run_extend or nothing -> payload: rknn_run_extend",
    Operation.OUTPUTS_GET: "a count, b 1: an rknn_output_extend is wanted; payload: rknn_output[a] -> payload: "
                           "rknn_output[a], buf is an offset in the results, then rknn_output_extend; a bytes of the "
                           "results; descriptor: the results, if they are new",
    Operation.CREATE_MEM: "a size, b alloc_flags; context 0: without one -> value: memory, a bytes to map, b offset; "
                          "payload: rknn_tensor_mem; descriptor: the memory",
    Operation.MEM_FROM_FD: "a size, b offset; descriptor: the memory -> value: memory; payload: rknn_tensor_mem",
    Operation.MEM_FROM_PHYS: "a address, b size -> as MEM_FROM_FD",
    Operation.MEM_FROM_MB_BLK: "a offset -> as MEM_FROM_FD",
    Operation.DESTROY_MEM: "",
    Operation.SET_WEIGHT_MEM: "a mem->offset, b mem->size",
    Operation.SET_INTERNAL_MEM: "a mem->offset, b mem->size",
    Operation.SET_IO_MEM: "a mem->offset, b mem->size; payload: rknn_tensor_attr",
    Operation.SET_INPUT_SHAPE: "payload: rknn_tensor_attr",
    Operation.SET_INPUT_SHAPES: "a count; payload: rknn_tensor_attr[a]",
    Operation.MEM_SYNC: "a mode",
    Operation.MATMUL_CREATE: "payload: rknn_matmul_info -> value: context; payload: rknn_matmul_io_attr",
    Operation.MATMUL_CREATE_DYNAMIC_SHAPE: "a count; payload: rknn_matmul_info, rknn_matmul_shape[a] -> "
                                           "value: context; payload: rknn_matmul_io_attr[a]",
    Operation.MATMUL_SET_IO_MEM: "a mem->offset, b mem->size; payload: rknn_matmul_tensor_attr",
    Operation.MATMUL_SET_CORE_MASK: "a core_mask",
    Operation.MATMUL_SET_QUANT_PARAMS: "a count of scales, b count of zero points; payload: rknn_quant_params, scales "
                                       "(float), zero points (int32); if these are too many, they are in a descriptor",
    Operation.MATMUL_GET_QUANT_PARAMS: "a room for scales, b room for zero points, c 1: `scale` is wanted; payload: "
                                       "rknn_quant_params -> a scales, b zero points; payload: rknn_quant_params, "
                                       "scales, zero points, then `scale` (float) if it was wanted; if these are too "
                                       "many, they are in a descriptor",
    Operation.MATMUL_SET_DYNAMIC_SHAPE: "payload: rknn_matmul_shape",
    Operation.MATMUL_RUN: "",
    Operation.MATMUL_DESTROY: "",
    Operation.B_TO_NATIVE: "a K, b N, c subN, d subK (before 2.1: no info then); payload: rknn_matmul_info, or "
                           "rknn_matmul_type (int32) before 2.1; descriptor: B -> a bytes; descriptor: the result",
    Operation.REGISTER_CUSTOM_OPS: "a count; payload: rknn_custom_op[a]",
    Operation.GET_OP_ATTR: "a: internal_ctx of the operator; payload: the attribute's name -> payload: "
                           "rknn_custom_op_attr, then the values",
    Operation.CALLBACK_DONE: "a: what the function returned",
    Operation.LLM_INIT: "payload: model, context, keep, skip_special, ignore_eos as NAME=VALUE texts, each ended by a "
                        "zero byte -> value: language model",
    Operation.LLM_RUN: "a RKLLMInputType, b bytes of tokens; payload: texts as in LLM_INIT: role, thinking, mode, "
                       "keep_history, max_new_tokens, save_cache, prompt, and what says how to sample; descriptor: "
                       "tokens (int32), if these are the input",
    Operation.LLM_NEXT: "-> a LLMCallState, b token, c rows, d columns, value: RKLLMInferMode; payload: the text, or "
                        "RKLLMPerfStat at the end; descriptor: float32 [c, d], if there are rows",
    Operation.LLM_STOP: "",
    Operation.LLM_CLEAR: "a 1: keep the system prompt, b first position, c end (-1: all)",
    Operation.LLM_LENGTH: "-> value: positions in the cache",
    Operation.LLM_TEMPLATE: "payload: system, prefix, postfix as in LLM_INIT",
    Operation.LLM_TOOLS: "payload: system, tools, response as in LLM_INIT",
    Operation.LLM_LOAD_CACHE: "payload: path as in LLM_INIT",
    Operation.LLM_DESTROY: "",
})  # fmt: skip
"""What goes with each request and, behind the arrow, with its reply."""

CALLBACK = (
    "A reply with is_callback set, while RUN, WAIT, OUTPUTS_GET, REGISTER_CUSTOM_OPS or DESTROY is in progress. value: "
    "internal_ctx of the operator, a: its number in REGISTER_CUSTOM_OPS (counted over all registrations), b: Phase, "
    "c: inputs, d: outputs; payload: rknn_custom_op_tensor[c + d], where mem.virt_addr is an offset in the area; "
    "descriptor: the area, if it is new (then it replaces the one before). The library calls the function and sends "
    "CALLBACK_DONE on the same channel."
)


def _table() -> str:
    rows = [f"{operation.name}={operation.value}: {LAYOUT[operation]}" for operation in Operation]
    phases = [f"{phase.name}={phase.value}" for phase in Phase]
    return "\n".join([REQUEST.format, REPLY.format, *rows, *phases, CALLBACK])


WIRE_VERSION = zlib.crc32(_table().encode())


def socket_name() -> str:
    """The name of the socket in the user's folder."""
    return f"engine-{WIRE_VERSION:08x}.socket"
