"""rknn_register_custom_ops and rknn_custom_op_get_op_attr."""

from __future__ import annotations

from openrknn.capi.call import OK, Call, CallError, Code, Reply
from openrknn.capi.client import Client
from openrknn.capi.context import ModelContext
from openrknn.capi.handlers import answers
from openrknn.capi.wire import Operation

_MOST = 1024


@answers(Operation.REGISTER_CUSTOM_OPS)
def register_custom_ops(program: Client, call: Call) -> Reply:
    """rknn_register_custom_ops."""
    context = program.context(call, ModelContext)
    if not 0 < call.a <= _MOST or call.a * program.codec.size("rknn_custom_op") != len(call.payload):
        raise CallError(Code.PARAM_INVALID, f"{call.a} operators do not have {len(call.payload)} bytes")
    with context.settled():
        given = program.codec.decode_array("rknn_custom_op", call.payload, call.a)
        context.operators.register(call, program.codec, given)
    return OK


@answers(Operation.GET_OP_ATTR)
def get_op_attr(program: Client, call: Call) -> Reply:
    """rknn_custom_op_get_op_attr: asked by a function while its run holds the context, so without its lock."""
    context = program.context(call, ModelContext)
    name = bytes(call.payload).split(b"\0")[0].decode("utf-8", "replace")
    kind, values = context.operators.attribute(call.a, name)
    head = program.codec.encode("rknn_custom_op_attr", {"name": name, "dtype": int(kind), "n_elems": values.size})
    return Reply(payload=head + values.tobytes())
