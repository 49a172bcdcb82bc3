"""What which chip supports: the tables, and calls that are refused before they are made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.vendor import Context, CoreMask, InitFlag, Library, Matmul, QueryCommand
from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.platforms import (
    FLAG_SUPPORT,
    FUNCTION_SUPPORT,
    GROUPS,
    QUERY_SUPPORT,
    group_of,
    refusal,
    this_chip,
)
from tests.vendor.recording import Recorder

# Table 4-1 of the reference: what is crossed out, by column. Everything else has a tick.
CROSSED_OUT = {
    "rk356x": {
        "rknn_set_core_mask", "rknn_wait", "rknn_create_mem_from_mb_blk", "rknn_matmul_set_core_mask",
        "rknn_set_batch_core_num",
    },
    "rk3588": {"rknn_wait", "rknn_create_mem_from_mb_blk"},
    "rv1106": {
        "rknn_set_core_mask", "rknn_dup_context", "rknn_inputs_set", "rknn_wait", "rknn_outputs_get",
        "rknn_create_mem_from_mb_blk", "rknn_set_input_shapes", "rknn_matmul_create", "rknn_matmul_set_io_mem",
        "rknn_matmul_set_core_mask", "rknn_matmul_run", "rknn_matmul_destroy", "rknn_register_custom_ops",
        "rknn_custom_op_get_op_attr", "rknn_set_batch_core_num", "rknn_matmul_set_quant_params",
        "rknn_matmul_get_quant_params", "rknn_matmul_create_dynamic_shape", "rknn_matmul_set_dynamic_shape",
        "rknn_B_normal_layout_to_native_layout",
    },
}  # fmt: skip


def test_functions_are_those_of_table_4_1() -> None:
    assert set(FUNCTION_SUPPORT) == set(FUNCTIONS)
    for group, crossed in CROSSED_OUT.items():
        assert {name for name, row in FUNCTION_SUPPORT.items() if row[group] is False} == crossed
        assert {name for name, row in FUNCTION_SUPPORT.items() if row[group] is None} == {"rknn_set_input_shape"}


def test_queries_are_those_of_table_4_2() -> None:
    crossed = {name for name, row in QUERY_SUPPORT.items() if row["rv1106"] is False}
    assert crossed == {
        "RKNN_QUERY_PERF_DETAIL", "RKNN_QUERY_PERF_RUN", "RKNN_QUERY_INPUT_DYNAMIC_RANGE",
        "RKNN_QUERY_CURRENT_INPUT_ATTR", "RKNN_QUERY_CURRENT_OUTPUT_ATTR", "RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR",
        "RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR",
    }  # fmt: skip
    for group in ("rk356x", "rk3588"):
        assert {name for name, row in QUERY_SUPPORT.items() if row[group] is False} == {"RKNN_QUERY_DEVICE_MEM_INFO"}
    assert len(QUERY_SUPPORT) == 20


def test_every_chip_has_one_column() -> None:
    for chip in CHIPS.values():
        assert group_of(chip) in GROUPS
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(CHIPS)
    assert set(FLAG_SUPPORT["RKNN_FLAG_ENABLE_SRAM"].values()) == {None}


def test_a_refusal_says_why() -> None:
    assert refusal(CHIPS["rk3588"], "rknn_set_core_mask") is None
    text = refusal(CHIPS["rk3566"], "rknn_set_core_mask")
    assert text == "rknn_set_core_mask does not work on RK3566: its NPU has one core"
    text = refusal(CHIPS["rv1106"], "rknn_inputs_set")
    assert text == "rknn_inputs_set does not work on RV1106: inputs are given by memory there: Context.bind_input"
    text = refusal(CHIPS["rv1103"], "rknn_query", QueryCommand.PERF_RUN)
    assert text == "RKNN_QUERY_PERF_RUN does not work on RV1103"
    text = refusal(CHIPS["rv1103b"], "rknn_init", None, InitFlag.SHARE_WEIGHT_MEM)
    assert text is not None
    assert "rknn_init_extend is not available there" in text
    assert refusal(CHIPS["rv1126b"], "rknn_set_core_mask") is None


def test_refused_calls_do_not_reach_the_library(recorder: Recorder) -> None:
    path = recorder.library.path
    one_core = Library(path, chip="rk3566")
    with Context(b"model", library=one_core, check=False) as context:
        recorder.clear()
        with pytest.raises(UnsupportedError, match="set_core_mask does not work on RK3566"):
            context.set_core_mask(CoreMask.CORE_0)
        with pytest.raises(UnsupportedError, match="batch_core_num does not work on RK3566"):
            context.set_batch_core_num(1)
        with pytest.raises(UnsupportedError, match="use threads"):
            context.run(non_blocking=True)
        with pytest.raises(UnsupportedError, match="DEVICE_MEM_INFO does not work on RK3566: only RV1103"):
            _ = context.device_memory
        assert recorder.log() == []
    small = Library(path, chip="rv1106")
    with pytest.raises(UnsupportedError, match="rknn_matmul_create does not work on RV1106"):
        Matmul(32, 32, 32, library=small)
    with Context(b"model", library=small, check=False) as context:
        recorder.clear()
        calls: list[Callable[[], object]] = [
            lambda: context.set_inputs([]),
            context.get_outputs,
            context.duplicate,
            lambda: context.run_time_us,
        ]
        for call in calls:
            with pytest.raises(UnsupportedError, match="does not work on RV1106"):
                call()
        assert recorder.log() == []
    with pytest.raises(UnsupportedError, match="COLLECT_PERF_MASK does not work on RV1106"):
        Context(b"model", InitFlag.COLLECT_PERF_MASK, library=small, check=False)


def test_the_check_can_be_switched_off(recorder: Recorder) -> None:
    library = Library(recorder.library.path, chip="rk3566", check_platform=False)
    with Context(b"model", library=library, check=False) as context:
        context.set_core_mask(CoreMask.CORE_0)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588"),
        (b"friendlyarm,nanopi-r6s\0rockchip,rk3588s\0", "rk3588"),
        (b"pine64,quartz64-a\0rockchip,rk3566\0", "rk3566"),
        (b"rockchip,rv1106g-evb1\0rockchip,rv1106\0", "rv1106"),
        (b"raspberrypi,4-model-b\0brcm,bcm2711\0", None),
    ],
)
def test_the_device_tree_names_the_chip(text: bytes, name: str | None, tmp_path: Path) -> None:
    path = tmp_path / "compatible"
    path.write_bytes(text)
    found = this_chip(path)
    assert (found.name if found else None) == name
    assert this_chip(tmp_path / "nothing") is None
