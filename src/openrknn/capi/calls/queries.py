"""`rknn_query`."""

from __future__ import annotations

from openrknn.capi.call import Call, Reply, answers
from openrknn.capi.context import Context
from openrknn.capi.program import Program
from openrknn.capi.queries import answer
from openrknn.capi.wire import Operation

__all__: list[str] = []


@answers(Operation.QUERY)
def query(program: Program, call: Call) -> Reply:
    """All commands."""
    context = program.context(call, Context)
    with context.lock:
        return answer(context, call.a, call.b, call.payload, program.codec)
