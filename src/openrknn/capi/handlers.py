"""Which function answers which call of a C program.

A module of `openrknn.capi.calls` answers some operations:

    @answers(Operation.SET_CORE_MASK)
    def set_core_mask(program: Program, call: Call) -> Reply:
        program.context(call).set_core_mask(call.a)
        return Reply()
"""

from __future__ import annotations

from collections.abc import Callable

from openrknn.capi.call import Call, Reply
from openrknn.capi.client import Client
from openrknn.capi.wire import Operation

Handler = Callable[[Client, Call], Reply]
HANDLERS: dict[Operation, Handler] = {}


def answers(operation: Operation) -> Callable[[Handler], Handler]:
    """The decorated function answers this operation."""

    def register(handler: Handler) -> Handler:
        if operation in HANDLERS:
            raise ValueError(f"{operation.name} has two answers: {HANDLERS[operation]} and {handler}")
        HANDLERS[operation] = handler
        return handler

    return register
