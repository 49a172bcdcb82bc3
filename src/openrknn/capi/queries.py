"""`rknn_query`: every command, with the sizes it takes and the codes it returns, as runtime 1.5.2 was seen to do it.

An answer is written over what the program passed: fields that 1.5.2 leaves alone stay as they were (`pass_through`,
the dimensions behind `n_dims`). A struct may be longer than the command needs, and not shorter; MEM_SIZE also takes the
two fields of its oldest form. `docs/capi/differences.md` says where 1.5.2 does something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Protocol

import openrknn
from openrknn.capi import attributes
from openrknn.capi.call import CallError, Code, Reply
from openrknn.capi.memory import file_of
from openrknn.capi.sizes import memory_size
from openrknn.capi.structs import Codec, Values
from openrknn.container.model import Model
from openrknn.device.protocol import Device
from openrknn.runtime.shapes import specs
from openrknn.vendor.tables.enums import InitFlag, TensorFormat, TensorType
from openrknn.vendor.tables.enums import QueryCommand as Q

_OLD_MEM_SIZE = 8
_NO_DRIVER = "0.9.8"
"""What a device without a driver says: the newest version of the vendor's kernel driver that is known."""


class Asked(Protocol):
    """A context, as far as it is asked."""

    @property
    def model(self) -> Model: ...
    @property
    def graph(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def is_shaped(self) -> bool: ...
    @property
    def is_fed(self) -> bool: ...
    @property
    def pixel_inputs(self) -> Collection[str]: ...
    @property
    def device(self) -> Device: ...
    @property
    def last_run_us(self) -> int: ...
    def profile_text(self) -> str | None: ...


Reader = Callable[[Model, int, int], Values]

_ATTRIBUTES: Mapping[Q, Reader] = MappingProxyType({
    Q.INPUT_ATTR: attributes.input_attr, Q.OUTPUT_ATTR: attributes.output_attr,
    Q.NATIVE_INPUT_ATTR: attributes.native_input_attr, Q.NATIVE_OUTPUT_ATTR: attributes.native_output_attr,
    Q.NATIVE_NHWC_INPUT_ATTR: attributes.native_input_attr, Q.NATIVE_NHWC_OUTPUT_ATTR: attributes.nhwc_output_attr,
    Q.CURRENT_INPUT_ATTR: attributes.input_attr, Q.CURRENT_OUTPUT_ATTR: attributes.output_attr,
    Q.CURRENT_NATIVE_INPUT_ATTR: attributes.native_input_attr,
    Q.CURRENT_NATIVE_OUTPUT_ATTR: attributes.native_output_attr,
})  # fmt: skip
_OF_THE_FIRST = frozenset({Q.NATIVE_INPUT_ATTR, Q.NATIVE_OUTPUT_ATTR, Q.NATIVE_NHWC_INPUT_ATTR})
"""Of a dynamic model: answered for its first shapes, whichever are set."""
_NATIVE_INPUTS = frozenset({Q.NATIVE_INPUT_ATTR, Q.NATIVE_NHWC_INPUT_ATTR, Q.CURRENT_NATIVE_INPUT_ATTR})
"""They say uint8 once the input was given as raw pixels."""
_STATIC = MappingProxyType({
    Q.CURRENT_INPUT_ATTR: Code.MODEL_INVALID, Q.CURRENT_OUTPUT_ATTR: Code.MODEL_INVALID,
    Q.CURRENT_NATIVE_INPUT_ATTR: Code.CTX_INVALID, Q.CURRENT_NATIVE_OUTPUT_ATTR: Code.CTX_INVALID,
})  # fmt: skip
"""What a model with one shape answers."""
_ONE_SHAPE = "the model has one shape; build it with dynamic_input to have several"


def answer(context: Asked, cmd: int, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    """What `rknn_query(context, cmd, info, size)` writes; `given` are the first bytes of `info`."""
    if cmd not in set(Q):
        code = Code.PARAM_INVALID if cmd > max(Q) else Code.FAIL
        raise CallError(code, f"rknn_query has the commands 0 to {max(Q)}, not {cmd}")
    command = Q(cmd)
    if command in _ATTRIBUTES:
        return _attribute(context, command, size, given, codec)
    return _OTHERS[command](context, size, given, codec)


def _checked(struct: str, size: int, given: bytes | memoryview, codec: Codec) -> bytes | memoryview:
    """The struct as it came; refused if there is no room for the answer."""
    needed = codec.size(struct)
    if size < needed or len(given) < needed:
        raise CallError(Code.PARAM_INVALID, f"{struct} has {needed} bytes in version {codec.version}, info has {size}")
    return given


def _attribute(context: Asked, command: Q, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    given = _checked("rknn_tensor_attr", size, given, codec)
    model = context.model
    if command in _STATIC:
        if not model.is_dynamic:
            raise CallError(_STATIC[command], _ONE_SHAPE)
        if not context.is_shaped:
            raise CallError(Code.CTX_INVALID, "no shapes are set yet; call rknn_set_input_shapes first")
    if command is Q.NATIVE_NHWC_OUTPUT_ATTR and model.is_dynamic:
        raise CallError(Code.PARAM_INVALID, f"{command.name} is not answered for a model with several shapes")
    index = int.from_bytes(given[:4], "little")
    graph = 0 if command in _OF_THE_FIRST else context.graph
    _check_index(context, command, index)
    values = _ATTRIBUTES[command](model, graph, index)
    del values["pass_through"]
    if command in _NATIVE_INPUTS and values["name"] in context.pixel_inputs:
        values["type"] = TensorType.UINT8
    return Reply(payload=codec.update("rknn_tensor_attr", given, values))


def _check_index(context: Asked, command: Q, index: int) -> None:
    inputs, outputs = _counts(context)
    kind, count = ("input", inputs) if "INPUT" in command.name else ("output", outputs)
    if index >= count:
        raise CallError(Code.PARAM_INVALID, f"{command.name}: there is no {kind} {index}, the context has {count}")


def _counts(context: Asked) -> tuple[int, int]:
    """A context that only tells sizes has neither inputs nor outputs."""
    if context.flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        return 0, 0
    graph = context.model.graphs[0]
    return len(graph.inputs), len(graph.outputs)


# ----------------------------------------------------------------------------------------------------------------------
# The other commands


def _in_out_num(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    given = _checked("rknn_input_output_num", size, given, codec)
    inputs, outputs = _counts(context)
    return Reply(payload=codec.update("rknn_input_output_num", given, {"n_input": inputs, "n_output": outputs}))


def _sdk_version(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    return sdk_version(context.device, size, given, codec)


def sdk_version(device: object, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    """SDK_VERSION of a context with this device."""
    given = _checked("rknn_sdk_version", size, given, codec)
    number = getattr(device, "driver_version", 0)
    driver = f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else _NO_DRIVER
    # rknn-toolkit-lite2 takes the text apart at its dots and counts on two of them.
    ours = openrknn.__version__.replace(".", "-")
    values = {"api_version": f"{codec.version} (openrknn {ours})", "drv_version": driver}
    return Reply(payload=codec.update("rknn_sdk_version", given, values))


def _mem_size(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    values = memory_size(context.model, context.flags, is_fed=context.is_fed)
    whole = codec.size("rknn_mem_size")
    if size >= whole:
        return Reply(payload=codec.update("rknn_mem_size", given, values))
    if size < _OLD_MEM_SIZE:
        raise CallError(Code.PARAM_INVALID, f"rknn_mem_size has {whole} bytes, or {_OLD_MEM_SIZE} at first; not {size}")
    return Reply(payload=codec.encode("rknn_mem_size", values)[:_OLD_MEM_SIZE])


def _custom_string(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    given = _checked("rknn_custom_string", size, given, codec)
    return Reply(payload=codec.update("rknn_custom_string", given, {"string": context.model.custom_string}))


def _perf_run(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    given = _checked("rknn_perf_run", size, given, codec)
    return Reply(payload=codec.update("rknn_perf_run", given, {"run_duration": context.last_run_us}))


def _perf_detail(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    """The text is in a descriptor; `perf_data` is the library's to fill. Without the flag, or a run, it is empty."""
    given = _checked("rknn_perf_detail", size, given, codec)
    text = (context.profile_text() or "").encode()
    values = {"perf_data": 0, "data_len": len(text)}
    return Reply(
        a=len(text),
        payload=codec.update("rknn_perf_detail", given, values),
        descriptors=(file_of(text + b"\0", "openrknn-perf"),),
    )


def _device_mem_info(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    raise CallError(Code.FAIL, "DEVICE_MEM_INFO is a command of RV1103 and RV1106 for memory outside; not known here")


def _dynamic_range(context: Asked, size: int, given: bytes | memoryview, codec: Codec) -> Reply:
    """Every choice of shapes, in the order of the file."""
    model = context.model
    if not model.is_dynamic:
        raise CallError(Code.MODEL_INVALID, _ONE_SHAPE)
    given = _checked("rknn_input_range", size, given, codec)
    index = int.from_bytes(given[:4], "little")
    _check_index(context, Q.INPUT_DYNAMIC_RANGE, index)
    inputs = [specs(model, graph, inputs=True)[index] for graph in model.graphs]
    width = len(codec.decode("rknn_input_range", bytes(codec.size("rknn_input_range")))["dyn_range"][0])
    values = {
        "index": index,
        "shape_number": len(inputs),
        "fmt": TensorFormat.NHWC if inputs[0].layout == "nhwc" else TensorFormat.UNDEFINED,
        "name": inputs[0].name,
        "dyn_range": [[*spec.shape, *[0] * (width - len(spec.shape))] for spec in inputs],
        "n_dims": len(inputs[0].shape),
    }
    return Reply(payload=codec.update("rknn_input_range", given, values))


_OTHERS: Mapping[Q, Callable[[Asked, int, bytes | memoryview, Codec], Reply]] = MappingProxyType({
    Q.IN_OUT_NUM: _in_out_num, Q.PERF_DETAIL: _perf_detail, Q.PERF_RUN: _perf_run, Q.SDK_VERSION: _sdk_version,
    Q.MEM_SIZE: _mem_size, Q.CUSTOM_STRING: _custom_string, Q.DEVICE_MEM_INFO: _device_mem_info,
    Q.INPUT_DYNAMIC_RANGE: _dynamic_range,
})  # fmt: skip
