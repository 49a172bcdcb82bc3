"""Single faults in the compiler: the check names the operator that has the fault, and none on a build without one.

Registers and constants of one operator are changed between lowering and linking, as a mistake in a recipe would change
them. Evidence: ONNX in float.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import onnx
import pytest

from openrknn.chip.target import Encoded, Registers
from openrknn.compiler import compile_model, pipeline
from openrknn.compiler.check.boundaries import label_of
from openrknn.compiler.errors import WrongResultError
from openrknn.compiler.lower import Lowering, lower
from openrknn.compiler.program import Place, Step, Table
from openrknn.task.kinds import Pooling, Work
from openrknn.task.place import Address
from tests.compiler.nets import Net, feeds

SHAPE = (1, 16, 12, 10)
Fault = Callable[[Lowering, Step], bool]
"""Changes a step; False: it has nothing to change."""


def chain() -> onnx.ModelProto:
    net = Net()
    a = net.add("Relu", net.conv("x", 16, 24, 3, pads=[1, 1, 1, 1]))
    b = net.add("Relu", net.conv(a, 24, 24, 3, pads=[1, 1, 1, 1], strides=[2, 2]))
    return net.model({"x": SHAPE}, [net.conv(b, 24, 40)])


def branches() -> onnx.ModelProto:
    net = Net()
    a = net.add("Sigmoid", net.conv("x", 16, 16, 3, pads=[1, 1, 1, 1]))
    deep = net.conv(a, 16, 16, 3, group=16, pads=[1, 1, 1, 1])
    pool = net.add("MaxPool", a, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    both = net.add("Concat", net.add("Tanh", deep), pool, axis=1)
    return net.model({"x": SHAPE}, [net.add("Add", net.conv(both, 32, 16), "x")])


NETS = {"chain": chain, "branches": branches}


def part(work: Work) -> object:
    """What stays the same object when a task is linked behind a table."""
    return work.pooling if isinstance(work, Pooling) else work.dpu


def registers(pattern: str, change: Callable[[Address], Address]) -> Fault:
    """Change the numbers or addresses in registers that match, of all tasks of the step."""

    def changed(found: Registers) -> Registers:
        return {
            register: {
                name: change(value) if re.fullmatch(pattern, f"{register}.{name}") else value
                for name, value in fields.items()
            }
            for register, fields in found.items()
        }

    def fault(lowering: Lowering, step: Step) -> bool:
        target, parts = lowering.program.target, [part(task.work) for task in step.tasks]

        def encode(work: Work) -> Encoded:
            blocks, found = target.encode(work)
            return blocks, changed(found) if any(part(work) is entry for entry in parts) else found

        lowering.program.target = dataclasses.replace(target, encode=encode)
        return any(encode(task.work) != target.encode(task.work) for task in step.tasks)

    return fault


def field(pattern: str, change: Callable[[int], int]) -> Fault:
    """Change a number."""
    return registers(pattern, lambda value: value if isinstance(value, Place) else change(int(value)))


def place(pattern: str, more: int) -> Fault:
    """Move an address."""
    return registers(
        pattern, lambda value: value._replace(offset=value.offset + more) if isinstance(value, Place) else value
    )


def constant(suffix: str, change: Callable[[bytes], bytes]) -> Fault:
    """Change weights or biases."""

    def fault(lowering: Lowering, step: Step) -> bool:
        program = lowering.program
        names = [name for name in step.inputs if name.endswith(suffix) and program.tensors[name].data]
        for name in names:
            tensor = program.tensors[name]
            program.tensors[name] = dataclasses.replace(tensor, data=change(tensor.data or b""))
        return bool(names)

    return fault


def table(change: Callable[[Table], Table]) -> Fault:
    """Change the lookup table."""

    def fault(lowering: Lowering, step: Step) -> bool:
        hits = {place: function for place, function in lowering.functions.items() if function.key == step.table}
        for place, function in hits.items():
            wrong = lowering.functions[place] = dataclasses.replace(function)  # functions are shared between builds
            wrong.__dict__["table"] = change(function.table)  # a cached property
        return bool(hits)

    return fault


def halves(data: bytes) -> bytes:
    return data[len(data) // 2 :] + data[: len(data) // 2]


FAULTS: dict[str, Fault] = {
    "scale": field(r"DPU\.OUT_CVT_SCALE\.out_cvt_scale", lambda value: value // 2 if value > 1 else value),
    "shift": field(r"DPU\.OUT_CVT_SHIFT\.out_cvt_shift", lambda value: value + 1),
    "zero point": field(r"DPU\.OUT_CVT_OFFSET\.out_cvt_offset", lambda value: value + 25),
    "relu dropped": field(r"DPU\.BN_CFG\.bn_relu_bypass", lambda value: 1),
    "relu added": field(r"DPU\.BS_CFG\.bs_relu_bypass", lambda value: 0),
    "bias dropped": field(r"DPU\.BS_CFG\.bs_alu_bypass", lambda value: 1),
    "padding": field(r"CNA\.PAD_CON0\.pad_(top|left)", lambda value: 0),
    "padding of one side": field(r"CNA\.PAD_CON0\.pad_left", lambda value: 0),
    "padding value": field(r"CNA\.PAD_CON1\.pad_value", lambda value: 60),
    "stride": field(r"CNA\.CONV_CON3\.conv_x_stride", lambda value: 3 - value),
    "dilation": field(r"CNA\.CONV_CON3\.atrous_y_dilation", lambda value: 2),
    "surface stride in": field(r"CNA\.DMA_CON2\.surf_stride", lambda value: value + 4),
    "line stride in": field(r"CNA\.DMA_CON1\.line_stride", lambda value: value + 4),
    "surface stride out": field(r"DPU\.DST_SURF_STRIDE\.dst_surf_stride", lambda value: value - 4),
    "a row less": field(r"DPU\.(WDMA_SIZE_1\.height_wdma|DATA_CUBE_HEIGHT\.height)", lambda value: value - 1),
    "channels in": field(r"CNA\.DATA_SIZE1\.datain_channel_real", lambda value: value - 8),
    "input address": place(r"CNA\.FEATURE_DATA_ADDR\.feature_base_addr", 16),
    "weight address": place(r"CNA\.DCOMP_ADDR0\.decompress_addr0", 32),
    "bias address": place(r"DPU_RDMA\.RDMA_BS_BASE_ADDR\.bs_base_addr", 32),
    "second operand's address": place(r"DPU_RDMA\.RDMA_EW_BASE_ADDR\.ew_base_addr", 16),
    "weights": constant("_w", halves),
    "weights of zero": constant("_w", lambda data: bytes(len(data))),
    "biases of zero": constant("_b", lambda data: bytes(len(data))),
    "table": table(lambda old: Table(old.name, old.high, old.low)),
    "half of a table": table(lambda old: Table(old.name, (0,) * len(old.low), old.high)),
    "pool address": place(r"PPU_RDMA\.RDMA_SRC_BASE_ADDR\.src_base_addr", 16),
    "pool window": field(r"PPU\.POOLING_KERNEL_CFG\.kernel_width", lambda value: value - 1),
    "pool padding": field(r"PPU\.POOLING_PADDING_CFG\.pad_left", lambda value: 0),
    "pool method": field(r"PPU\.OPERATION_MODE_CFG\.pooling_method", lambda value: 2),
}


CASES: dict[tuple[str, str, str], list[str]] = {
    ("branches", "fp16", "ConvAdd 'Conv_t7, Add_t8'"): [
        "bias address", "second operand's address", "surface stride out",
    ],
    ("branches", "fp16", "ConvSigmoid 'Conv_t1, Sigmoid_t2'"): [
        "half of a table", "padding", "padding of one side", "stride", "table", "weights of zero",
    ],
    ("branches", "fp16", "ConvTanh 'Conv_t3, Tanh_t5'"): ["dilation", "relu added", "surface stride in", "weights"],
    ("branches", "fp16", "MaxPool 'MaxPool_t4'"): ["pool address", "pool method", "pool padding", "pool window"],
    ("branches", "int8", "ConvAdd 'Conv_t7, Add_t8'"): ["scale", "shift", "weight address", "zero point"],
    ("branches", "int8", "ConvSigmoid 'Conv_t1, Sigmoid_t2'"): ["biases of zero", "weight address"],
    ("branches", "int8", "ConvTanh 'Conv_t3, Tanh_t5'"): ["input address", "line stride in", "relu added", "table"],
    ("branches", "int8", "MaxPool 'MaxPool_t4'"): ["pool method"],
    ("chain", "fp16", "Conv 'Conv_t5'"): ["input address", "relu added", "weights of zero"],
    ("chain", "fp16", "ConvRelu 'Conv_t1, Relu_t2'"): ["a row less", "bias dropped", "padding", "relu dropped"],
    ("chain", "fp16", "ConvRelu 'Conv_t3, Relu_t4'"): [
        "bias address", "bias dropped", "relu dropped", "stride", "weights",
    ],
    ("chain", "int8", "Conv 'Conv_t5'"): ["biases of zero", "line stride in", "scale", "stride", "surface stride in"],
    ("chain", "int8", "ConvRelu 'Conv_t1, Relu_t2'"): ["line stride in", "padding value", "shift", "zero point"],
    ("chain", "int8", "ConvRelu 'Conv_t3, Relu_t4'"): [
        "a row less", "dilation", "padding of one side", "surface stride out",
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", ["fp16", "int8"])
@pytest.mark.parametrize("net", sorted(NETS))
def test_a_build_without_a_fault_blames_nothing(net: str, form: str) -> None:
    compiled = compile_model(NETS[net](), cores=1, calibration=feeds(SHAPE) if form == "int8" else None)
    assert not compiled.check.warnings
    assert not compiled.check.notes
    assert {label_of(step, "") for step in compiled.lowering.program.steps} >= {
        label for where, kind, label in CASES if (where, kind) == (net, form)
    }


@pytest.mark.parametrize(("net", "form", "label", "fault"), [(*key, fault) for key in CASES for fault in CASES[key]])
def test_the_operator_with_the_fault_is_named(
    net: str, form: str, label: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    def faulty(*words: Any) -> Lowering:
        lowering = lower(*words)
        (step,) = (step for step in lowering.program.steps if label_of(step, "") == label)
        assert FAULTS[fault](lowering, step)
        return lowering

    monkeypatch.setattr(pipeline, "lower", faulty)
    data = feeds(SHAPE) if form == "int8" else None
    with pytest.raises(WrongResultError, match=f"the first operator that departs is {re.escape(label)} "):
        compile_model(NETS[net](), cores=1, calibration=data, adaptive_rounding=False)
