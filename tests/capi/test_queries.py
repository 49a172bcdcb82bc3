"""`rknn_query` as a program sees it; codes and sizes are those of runtime 1.5.2 (see test_differential.py)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.capi.call import Reply
from openrknn.capi.wire import Operation
from openrknn.vendor.context.perf import parse_perf_detail
from openrknn.vendor.tables.enums import InitFlag, TensorFormat
from openrknn.vendor.tables.enums import QueryCommand as Q
from tests.capi.client import Client, RefusedError

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
RESIDUAL = GOLDENS / "residual_rk3588_i8.rknn"
DYNAMIC = GOLDENS / "dynamic_rk3588_i8.rknn"
PICTURE = np.zeros((1, 16, 16, 3), np.uint8)


def ask(
    client: Client, context: int, command: int, struct: str, *, given: dict[str, Any] | None = None, more: int = 0
) -> Reply:
    payload = client.codec.encode(struct, given or {})
    payload = payload[: len(payload) + min(more, 0)]
    return client.call(Operation.QUERY, context=context, a=int(command), b=len(payload) + max(more, 0), payload=payload)


def answered(client: Client, context: int, command: int, struct: str, **given: Any) -> dict[str, Any]:
    return client.codec.decode(struct, ask(client, context, command, struct, given=given).payload)


def code(client: Client, context: int, command: int, struct: str, **options: Any) -> int:
    with pytest.raises(RefusedError) as caught:
        ask(client, context, command, struct, **options)
    assert caught.value.reason
    return caught.value.code


def test_counts_versions_sizes_and_the_string(client: Client) -> None:
    context = client.init(GOLDENS / "image_rk3588_i8_custom_string.rknn")
    assert answered(client, context, Q.IN_OUT_NUM, "rknn_input_output_num") == {"n_input": 1, "n_output": 1}
    version = answered(client, context, Q.SDK_VERSION, "rknn_sdk_version")
    assert version["api_version"].startswith(str(client.codec.version))
    assert "openrknn" in version["api_version"]
    assert version["drv_version"].count(".") == 2
    sizes = answered(client, context, Q.MEM_SIZE, "rknn_mem_size")
    assert (sizes["total_weight_size"], sizes["total_internal_size"]) == (4608, 8960)
    assert sizes["total_dma_allocated_size"] == 32768
    assert answered(client, context, Q.CUSTOM_STRING, "rknn_custom_string")["string"] == "made for openrknn, äöü 中文"


def test_what_the_runtime_leaves_alone_is_left_alone(client: Client) -> None:
    context = client.init(RESIDUAL)
    given = {"pass_through": 1, "dims": [9] * 16}
    found = answered(client, context, Q.INPUT_ATTR, "rknn_tensor_attr", **given)
    assert found["pass_through"] == 1
    assert found["dims"][:5] == [1, 16, 16, 3, 9]


@pytest.mark.parametrize(
    ("command", "struct"),
    [
        (Q.IN_OUT_NUM, "rknn_input_output_num"),
        (Q.INPUT_ATTR, "rknn_tensor_attr"),
        (Q.NATIVE_NHWC_INPUT_ATTR, "rknn_tensor_attr"),
        (Q.CURRENT_INPUT_ATTR, "rknn_tensor_attr"),
        (Q.PERF_RUN, "rknn_perf_run"),
        (Q.PERF_DETAIL, "rknn_perf_detail"),
        (Q.SDK_VERSION, "rknn_sdk_version"),
        (Q.CUSTOM_STRING, "rknn_custom_string"),
    ],
)
def test_a_struct_that_is_too_short(client: Client, command: Q, struct: str) -> None:
    assert code(client, client.init(RESIDUAL), command, struct, more=-1) == -5


def test_a_struct_that_is_longer(client: Client) -> None:
    reply = ask(client, client.init(RESIDUAL), Q.IN_OUT_NUM, "rknn_input_output_num", more=8)
    assert len(reply.payload) == 8


def test_the_first_form_of_sizes(client: Client) -> None:
    """1.5.2 answers the two oldest fields to who has room for them only."""
    context = client.init(RESIDUAL)
    for size in (8, 16, 63):
        reply = client.call(Operation.QUERY, context=context, a=int(Q.MEM_SIZE), b=size, payload=bytes(size))
        assert np.frombuffer(reply.payload, "<u4").tolist() == [9920, 8960]
    assert code(client, context, Q.MEM_SIZE, "rknn_mem_size", more=-60) == -5


def test_sizes_depend_on_flags_and_inputs(client: Client) -> None:
    """The four numbers are those of 1.5.2."""

    def total(context: int) -> int:
        found = answered(client, context, Q.MEM_SIZE, "rknn_mem_size")["total_dma_allocated_size"]
        assert isinstance(found, int)
        return found

    context = client.init(RESIDUAL)
    assert total(context) == 81920
    client.inputs_set(context, {0: PICTURE})
    assert total(context) == 90112
    only_sizes = client.init(RESIDUAL, InitFlag.COLLECT_MODEL_INFO_ONLY)
    assert total(only_sizes) == 0
    assert answered(client, only_sizes, Q.IN_OUT_NUM, "rknn_input_output_num") == {"n_input": 0, "n_output": 0}
    assert code(client, only_sizes, Q.INPUT_ATTR, "rknn_tensor_attr") == -5


@pytest.mark.parametrize(("command", "expected"), [(18, -5), (100, -5), (-1, -1), (12, -1)])
def test_commands_that_are_none(client: Client, command: int, expected: int) -> None:
    assert code(client, client.init(RESIDUAL), command, "rknn_tensor_attr") == expected


@pytest.mark.parametrize("command", [Q.INPUT_ATTR, Q.OUTPUT_ATTR, Q.NATIVE_INPUT_ATTR, Q.NATIVE_OUTPUT_ATTR])
def test_an_index_that_is_not_there(client: Client, command: Q) -> None:
    context = client.init(RESIDUAL)
    for index in (1, 2**32 - 1):
        assert code(client, context, command, "rknn_tensor_attr", given={"index": index}) == -5


def test_a_model_with_one_shape_has_no_range(client: Client) -> None:
    context = client.init(RESIDUAL)
    assert code(client, context, Q.INPUT_DYNAMIC_RANGE, "rknn_input_range") == -6
    assert code(client, context, Q.CURRENT_INPUT_ATTR, "rknn_tensor_attr") == -6
    assert code(client, context, Q.CURRENT_OUTPUT_ATTR, "rknn_tensor_attr") == -6
    assert code(client, context, Q.CURRENT_NATIVE_INPUT_ATTR, "rknn_tensor_attr") == -7
    assert code(client, context, Q.CURRENT_NATIVE_OUTPUT_ATTR, "rknn_tensor_attr") == -7


def test_the_shapes_of_a_dynamic_model(client: Client) -> None:
    context = client.init(DYNAMIC)
    found = answered(client, context, Q.INPUT_DYNAMIC_RANGE, "rknn_input_range")
    assert (found["shape_number"], found["n_dims"], found["fmt"], found["name"]) == (3, 4, TensorFormat.NHWC, "image")
    assert [row[:4] for row in found["dyn_range"][:3]] == [[1, 16, 16, 3], [1, 8, 24, 3], [1, 8, 8, 3]]
    assert code(client, context, Q.INPUT_DYNAMIC_RANGE, "rknn_input_range", given={"index": 1}) == -5
    assert code(client, context, Q.CURRENT_INPUT_ATTR, "rknn_tensor_attr") == -7
    assert code(client, context, Q.NATIVE_NHWC_OUTPUT_ATTR, "rknn_tensor_attr") == -5


def perf_text(client: Client, context: int) -> str:
    reply = ask(client, context, Q.PERF_DETAIL, "rknn_perf_detail")
    (descriptor,) = reply.descriptors
    try:
        data = os.pread(descriptor, reply.a + 1, 0)
    finally:
        os.close(descriptor)
    assert data[-1:] == b"\0"
    assert client.codec.decode("rknn_perf_detail", reply.payload)["data_len"] == reply.a == len(data) - 1
    return data[:-1].decode()


def test_times_of_operators(client: Client) -> None:
    """Rows, shapes, tasks and traffic are those of 1.5.2."""
    context = client.init(RESIDUAL, InitFlag.COLLECT_PERF_MASK)
    assert perf_text(client, context) == ""
    client.inputs_set(context, {0: PICTURE})
    client.run(context)
    detail = parse_perf_detail(perf_text(client, context))
    assert [(row.number, row.type, row.target) for row in detail.operators] == [
        (1, "InputOperator", "CPU"), (2, "ConvRelu", "NPU"), (3, "ConvRelu", "NPU"), (4, "ConvAdd", "NPU"),
        (5, "MaxPool", "NPU"), (6, "Conv", "NPU"), (7, "Conv", "NPU"), (8, "Concat", "NPU"),
        (9, "OutputOperator", "CPU"),
    ]  # fmt: skip
    assert detail.operators[3].name == "Conv:conv4_ConvAdd"
    assert [row.traffic_kib for row in detail.operators] == [0.75, 4.25, 2.64, 3.5, 1.25, 0.88, 4.38, 2.75, 0.5]
    assert detail.operators[7].columns["InputShape"] == "(1,8,4,4),(1,24,4,4),(32,48,1,1)"
    assert [row.columns["Task Number"] for row in detail.operators] == ["0", "1", "1", "1", "1", "1", "1", "3", "0"]
    assert detail.total_us == sum(row.time_us or 0 for row in detail.operators) > 0
    run = answered(client, context, Q.PERF_RUN, "rknn_perf_run")["run_duration"]
    assert run >= detail.total_us * 0.5


def test_without_the_flag_there_are_no_times_of_operators(client: Client) -> None:
    context = client.init(RESIDUAL)
    client.inputs_set(context, {0: PICTURE})
    client.run(context)
    assert perf_text(client, context) == ""
    assert answered(client, context, Q.PERF_RUN, "rknn_perf_run")["run_duration"] > 0
