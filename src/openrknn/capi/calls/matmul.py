"""rknn_matmul_* and rknn_B_normal_layout_to_native_layout."""

from __future__ import annotations

import mmap
import os

import numpy as np
import numpy.typing as npt

from openrknn.capi.call import OK, Call, Reply
from openrknn.capi.client import Client
from openrknn.capi.handlers import answers
from openrknn.capi.matmul import MatmulContext, matmul_chip
from openrknn.capi.matmul_attributes import Shape, Spec, b_to_native, invalid
from openrknn.capi.memory import file_of
from openrknn.capi.structs import Values
from openrknn.capi.wire import LARGEST_PACKET, Operation
from openrknn.vendor.tables.enums import MatmulLayout

_MOST_SHAPES = 128
_FEWEST = {"B_layout": int(MatmulLayout.NATIVE), "AC_layout": 0}


@answers(Operation.MATMUL_CREATE)
def create(program: Client, call: Call) -> Reply:
    """rknn_matmul_create."""
    info = program.codec.decode("rknn_matmul_info", call.payload)
    return _created(program, info, [Shape(info["M"], info["K"], info["N"])], is_dynamic=False)


@answers(Operation.MATMUL_CREATE_DYNAMIC_SHAPE)
def create_dynamic(program: Client, call: Call) -> Reply:
    """rknn_matmul_create_dynamic_shape: M, K and N of the info do not count."""
    if not 0 < call.a <= _MOST_SHAPES:
        raise invalid(f"shape_num is {call.a}, not a number from 1 to {_MOST_SHAPES}")
    info = program.codec.decode("rknn_matmul_info", call.payload)
    given = program.codec.decode_array(
        "rknn_matmul_shape", call.payload, call.a, program.codec.size("rknn_matmul_info")
    )
    return _created(program, info, [Shape(one["M"], one["K"], one["N"]) for one in given], is_dynamic=True)


def _created(program: Client, info: Values, shapes: list[Shape], *, is_dynamic: bool) -> Reply:
    spec = Spec.of(info, matmul_chip())
    for shape in shapes:
        spec.check_shape(shape)
    attributes = [
        program.codec.encode(
            "rknn_matmul_io_attr", {name: matrix.values() for name, matrix in spec.matrices(shape).items()}
        )
        for shape in shapes
    ]
    context = program.add_context(MatmulContext(spec, shapes, is_dynamic=is_dynamic))
    return Reply(value=context, payload=b"".join(attributes))


@answers(Operation.MATMUL_SET_IO_MEM)
def set_io_mem(program: Client, call: Call) -> Reply:
    """rknn_matmul_set_io_mem."""
    attributes = program.codec.decode("rknn_matmul_tensor_attr", call.payload)
    program.context(call, MatmulContext).bind(attributes, program.memory(call), call.a, call.b)
    return OK


@answers(Operation.MATMUL_SET_CORE_MASK)
def set_core_mask(program: Client, call: Call) -> Reply:
    """rknn_matmul_set_core_mask."""
    program.context(call, MatmulContext).set_core_mask(call.a)
    return OK


@answers(Operation.MATMUL_SET_QUANT_PARAMS)
def set_quant_params(program: Client, call: Call) -> Reply:
    """rknn_matmul_set_quant_params."""
    context = program.context(call, MatmulContext)
    name = program.codec.decode("rknn_quant_params", call.payload)["name"]
    start, middle = program.codec.size("rknn_quant_params"), max(call.a, 0) * 4
    arrays = _mapped(call.take(), 4 * (call.a + call.b)).tobytes() if call.descriptors else bytes(call.payload[start:])
    if call.a < 1 or call.b < 0 or len(arrays) != middle + 4 * call.b:
        raise invalid(f"{call.a} scales and {call.b} zero points are {4 * (call.a + call.b)} bytes, not {len(arrays)}")
    context.set_scales(name, np.frombuffer(arrays[:middle], "<f4"), np.frombuffer(arrays[middle:], "<i4"))
    return OK


@answers(Operation.MATMUL_GET_QUANT_PARAMS)
def get_quant_params(program: Client, call: Call) -> Reply:
    """rknn_matmul_get_quant_params: the parameters as they were set, and in `scale` the one that B has as a whole."""
    context = program.context(call, MatmulContext)
    values = program.codec.decode("rknn_quant_params", call.payload)
    name = values["name"] or "B"
    known = context.scales.known.get(name)
    if known is None:
        raise invalid(f"the matrices are called A, B and C, not {name!r}")
    scales, zeros = known.scales[: max(call.a, 0)], known.zeros[: max(call.b, 0)]
    raw = program.codec.encode(
        "rknn_quant_params", {**values, "name": name, "scale_len": scales.size, "zp_len": zeros.size}
    )
    answer = np.float32(known.scales.max()).tobytes() if call.c else b""
    arrays = scales.tobytes() + zeros.tobytes() + answer
    if len(arrays) < LARGEST_PACKET // 2:
        return Reply(a=scales.size, b=zeros.size, payload=raw + arrays)
    return Reply(a=scales.size, b=zeros.size, payload=raw, descriptors=(file_of(arrays, "openrknn-scales"),))


@answers(Operation.MATMUL_SET_DYNAMIC_SHAPE)
def set_dynamic_shape(program: Client, call: Call) -> Reply:
    """rknn_matmul_set_dynamic_shape."""
    given = program.codec.decode("rknn_matmul_shape", call.payload)
    program.context(call, MatmulContext).set_shape(Shape(given["M"], given["K"], given["N"]))
    return OK


@answers(Operation.MATMUL_RUN)
def run(program: Client, call: Call) -> Reply:
    """rknn_matmul_run."""
    program.context(call, MatmulContext).run()
    return OK


@answers(Operation.MATMUL_DESTROY)
def destroy(program: Client, call: Call) -> Reply:
    """rknn_matmul_destroy."""
    context = program.context(call, MatmulContext)
    del program.contexts[call.context]
    context.close()
    return OK


@answers(Operation.B_TO_NATIVE)
def to_native(program: Client, call: Call) -> Reply:
    """rknn_B_normal_layout_to_native_layout."""
    chip = matmul_chip()
    if len(call.payload) >= program.codec.size("rknn_matmul_info"):
        info = {**program.codec.decode("rknn_matmul_info", call.payload), **_FEWEST}
    elif len(call.payload) == 4:
        info = {"type": int.from_bytes(call.payload, "little", signed=True), **_FEWEST}
    else:
        raise invalid("neither rknn_matmul_info nor rknn_matmul_type came")
    spec = Spec.of({**info, "AC_quant_type": 0}, chip)
    shape = Shape(1, call.a, call.b)
    spec.check_shape(shape)
    matrix = spec.matrices(shape)["B"]
    if call.c and (call.c, call.d) != matrix.dims[2:]:
        raise invalid(
            f"subN and subK are {call.c} and {call.d}; for this type they are {matrix.dims[2]} and {matrix.dims[3]}"
        )
    source = _mapped(call.take(), matrix.size_bytes)
    native = b_to_native(matrix, source, spec.segment)
    return Reply(a=native.nbytes, descriptors=(file_of(native.tobytes(), "openrknn-b"),))


def _mapped(fd: int, size_bytes: int) -> npt.NDArray[np.uint8]:
    try:
        if size_bytes < 1:
            raise invalid("a descriptor came for no numbers")
        if os.fstat(fd).st_size < size_bytes:
            raise invalid(f"{size_bytes} bytes are needed, {os.fstat(fd).st_size} came")
        return np.frombuffer(mmap.mmap(fd, size_bytes, access=mmap.ACCESS_READ), np.uint8)
    finally:
        os.close(fd)
