"""`rknn_query`."""

from __future__ import annotations

from openrknn.capi.call import Call, CallError, Code, Reply
from openrknn.capi.context import Context
from openrknn.capi.handlers import answers
from openrknn.capi.program import Program
from openrknn.capi.queries import answer, sdk_version
from openrknn.capi.wire import Operation
from openrknn.vendor.tables.enums import QueryCommand

__all__: list[str] = []


@answers(Operation.QUERY)
def query(program: Program, call: Call) -> Reply:
    """All commands; a context of rknn_matmul_create has a version and no tensors."""
    found = program.contexts.get(call.context)
    if found is not None and not isinstance(found, Context):
        return _of_matmul(program, call)
    context = program.context(call, Context)
    with context.lock:
        return answer(context, call.a, call.b, call.payload, program.codec)


def _of_matmul(program: Program, call: Call) -> Reply:
    from openrknn.capi.matmul import MatmulContext  # here: the engine's start waits for imports

    if call.a == QueryCommand.SDK_VERSION:
        return sdk_version(program.context(call, MatmulContext).device, call.b, call.payload, program.codec)
    raise CallError(Code.CTX_INVALID, "of a context of rknn_matmul_create only SDK_VERSION can be asked")
