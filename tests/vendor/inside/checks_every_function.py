"""Each of the 25 functions that runtime 1.5.2 exports is called through the safe objects."""

from __future__ import annotations

import numpy as np

from openrknn.vendor import (
    CallError,
    Context,
    CoreMask,
    InitFlag,
    Library,
    Matmul,
    MatmulType,
    default_library,
)
from tests.vendor.inside.board_tools import golden, raises

_called: set[str] = set()


def _watch(library: Library) -> None:
    for name in library.exports:
        library._bound[name] = _watched(name, library.function(name))


def _watched(name: str, function: object) -> object:
    def call(*arguments: object) -> object:
        _called.add(name)
        return function(*arguments)  # type: ignore[operator]

    return call


def check_every_function_is_called() -> None:
    library = default_library()
    library.check_platform = False  # rknn_wait is there, but on no chip
    _watch(library)
    with Context(golden("residual_rk3588_i8")) as context:
        context.set_core_mask(CoreMask.CORE_0)
        context.set_inputs([np.zeros((1, 16, 16, 3), np.uint8)])
        context.run()
        context.get_outputs()
        context.duplicate().close()
        owner = context.create_memory(4096)
        context.bind_input(0, context.memory_from_fd(owner.fd, 4096, buffer=owner.virtual_address))
        context.memory_from_physical(owner.physical_address, 4096, buffer=owner.virtual_address).close()
        context.run(non_blocking=True)
        with raises(CallError, "rknn_wait returned -1"):
            context.wait()
    with Context(golden("residual_rk3588_i8"), InitFlag.MEM_ALLOC_OUTSIDE) as context:
        context.set_weight_memory()
        context.set_internal_memory()
    with Context(golden("image_rk3588_i8_batch2")) as context:
        context.set_batch_core_num(2)
    with Context(golden("dynamic_rk3588_i8")) as context:
        context.set_input_shapes([(1, 8, 8, 3)])
        context.set_input_shape(0, (1, 16, 16, 3))
    with Matmul(4, 64, 32, MatmulType.INT8_MM_INT8_TO_INT32) as matmul:
        matmul.set_core_mask(CoreMask.AUTO)
        matmul(np.ones((4, 64), np.int8), np.ones((64, 32), np.int8))
    assert len(library.exports) == 25
    assert _called == library.exports, library.exports - _called
