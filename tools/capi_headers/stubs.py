"""native/capi/plain.c: the functions that are only a request, out of `marshalling`; and exports.map."""

from __future__ import annotations

from openrknn.vendor.tables.functions import FUNCTIONS, Function, Parameter, Signature
from tools.capi_headers.abi import changing
from tools.capi_headers.marshalling import BY_HAND, PLAIN, Plain, Role

_TOP = """\
/* Generated from tools.capi_headers.marshalling; do not edit. A test makes it again and compares. */
#include "capi.h"
"""


def stubs() -> str:
    """The text of plain.c."""
    missing = set(FUNCTIONS) ^ set(PLAIN) ^ set(BY_HAND)
    if missing:
        raise ValueError(f"in both tables or in none: {sorted(missing)}")
    return _TOP + "".join(_definition(FUNCTIONS[name], plain) for name, plain in PLAIN.items())


def exports_map() -> str:
    """The version script: the functions and their older names, and nothing else."""
    names = [name for function in FUNCTIONS.values() for name in _names(function)]
    rows = "".join(f"        {name};\n" for name in names)
    return f"/* Generated from openrknn.vendor.tables; do not edit. */\n{{\n    global:\n{rows}    local: *;\n}};\n"


def _names(function: Function) -> list[str]:
    return list(dict.fromkeys(signature.name for signature in reversed(function.signatures)))


def _definition(function: Function, plain: Plain) -> str:
    names = _names(function)
    text = _exported(function.newest, function.newest.name, plain)
    for older in names[1:]:
        # Declared here: the public header has it for older versions only.
        parameters = ", ".join(f"{item.type} {item.name}" for item in function.newest.parameters)
        passed = ", ".join(item.name for item in function.newest.parameters)
        text += f"\nint {older}({parameters});\nEXPORT int {older}({parameters}) {{\n"
        text += f"    return {function.newest.name}({passed});\n}}\n"
    return text


def _exported(signature: Signature, name: str, plain: Plain) -> str:
    parameters = ", ".join(f"{item.type} {item.name}" for item in signature.parameters)
    steps = [_step(parameter, role) for parameter, role in zip(signature.parameters, plain.roles, strict=True)]
    # The count is known before the arrays, and the place of a new context is looked at last.
    order = sorted(range(len(steps)), key=lambda number: plain.roles[number] is Role.NEW_MATMUL)
    lines = "".join(f"    {steps[number]}\n" for number in order)
    return (
        f"\nEXPORT int {name}({parameters}) {{\n"
        f"    struct call call;\n"
        f'    call_begin(&call, "{name}", OP_{plain.operation.name});\n'
        f"{lines}    return call_end(&call);\n}}\n"
    )


def _step(parameter: Parameter, role: Role) -> str:
    name, kind = parameter.name, parameter.type.removesuffix("*")
    size = f"abi()->{kind}" if kind in changing() else f"sizeof({kind})"
    match role:
        case Role.MODEL:
            return f"call_context(&call, {name}, KIND_MODEL);"
        case Role.MATMUL:
            return f"call_context(&call, {name}, KIND_MATMUL);"
        case Role.CONTEXT:
            return f"call_context(&call, {name}, KIND_ANY);"
        case Role.NEW_MATMUL:
            return f"call_new_context(&call, {name}, KIND_MATMUL);"
        case Role.MEMORY:
            return f"call_memory(&call, {name}, 1);"
        case Role.SYNCED:
            return f"call_memory(&call, {name}, 0);"
        case Role.A | Role.COUNT:
            return f"call.request.a = {name};"
        case Role.GIVEN:
            return f'call_given(&call, "{name}", {name}, {size}, 1);'
        case Role.GIVEN_ARRAY:
            return f'call_given(&call, "{name}", {name}, {size}, call.request.a);'
        case Role.MADE:
            return f'call_made(&call, "{name}", {name}, {size}, 1);'
        case Role.MADE_ARRAY:
            return f'call_made(&call, "{name}", {name}, {size}, call.request.a);'
