"""`rknn_query`."""

from __future__ import annotations

from openrknn.capi.call import Call, CallError, Code, Reply
from openrknn.capi.client import Client
from openrknn.capi.context import ModelContext
from openrknn.capi.handlers import answers
from openrknn.capi.queries import answer, sdk_version
from openrknn.capi.wire import Operation
from openrknn.vendor.tables.enums import QueryCommand


@answers(Operation.QUERY)
def query(program: Client, call: Call) -> Reply:
    """All commands; a context of rknn_matmul_create has a version and no tensors."""
    found = program.contexts.get(call.context)
    if found is not None and not isinstance(found, ModelContext):
        return _of_matmul(program, call)
    context = program.context(call, ModelContext)
    with context.lock:
        return answer(context, call.a, call.b, call.payload, program.codec)


def _of_matmul(program: Client, call: Call) -> Reply:
    from openrknn.capi.matmul import MatmulContext  # here: the engine's start waits for imports

    if call.a == QueryCommand.SDK_VERSION:
        return sdk_version(program.context(call, MatmulContext).device, call.b, call.payload, program.codec)
    raise CallError(Code.CTX_INVALID, "of a context of rknn_matmul_create only SDK_VERSION can be asked")
