"""Lookup tables of model format 1 (toolkits 1.2 to 1.4).

The register lists of such a file load no table. A list that uses one names the tensor that loads it, and the runtime
inserts the loading tasks. Evidence: the jobs of the vendor's runtime 1.5.2 on the emulated device, for YOLOv10 and
YOLOv8-OBB (1.3.0, RK3588), PicoDet (1.4.0, RK3588), a text detector (1.3.0, RK3566) and five more public files: the
same tasks, and after this change the same outputs in all bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import openrknn
from openrknn.chip.rk3588.dpu_lut import LutAccessCfg
from openrknn.chips import TaskList
from openrknn.compute import native
from openrknn.container.check import problems
from openrknn.container.model import Model
from openrknn.container.parts import Task
from openrknn.container.tables import table_loads
from openrknn.errors import BadReferenceError, BadTaskError, UnwrittenTableError
from openrknn.npu.blocks.dpu.lut import Tables

from .as_format_1 import as_format_1
from .places import golden
from .test_v1 import model_bytes


def run(model: Model, value: npt.NDArray[np.float32]) -> npt.NDArray[np.generic]:
    with openrknn.Session(model, device="software") as session:
        return next(iter(session.run(value, outputs="raw").values()))


def shown(task: Task) -> tuple[int, ...]:
    return task.op_index, task.enable_mask, task.int_mask, task.amount


def model_of(name: str) -> Model:
    """A golden, or for RK3566, which loads a table in two tasks, a network of our own compiler."""
    if "rk3566" not in name:
        return openrknn.load(golden(name))
    return openrknn.compile(golden("silu").with_suffix(".onnx"), target="rk3566")


@pytest.mark.parametrize("name", ["sigmoid_rk3588_i8", "silu_rk3588_i8", "silu_rk3588_fp", "silu_rk3566_fp"])
def test_tables_are_loaded_before_they_are_used(name: str) -> None:
    new = model_of(name)
    old = openrknn.load(as_format_1(new))
    assert old.format_version == 1
    assert list(problems(old)) == []
    one_core = new.graphs[0].task_lists[TaskList(1, 0)]
    assert [shown(task) for task in old.graphs[0].tasks] == [shown(new.graphs[0].tasks[number]) for number in one_core]
    loads = [load for load in table_loads(new.graphs[0]) if load.task in one_core]
    found = list(table_loads(old.graphs[0]))
    assert found
    assert [(load.task, load.negative, load.positive) for load in found] == [
        (load.task - one_core.start, load.negative, load.positive) for load in loads
    ]
    value = np.random.default_rng(3).normal(0, 4, new.inputs[0].shape).astype(np.float32)
    expected = run(new, value)
    assert len(np.unique(expected)) > 10
    assert np.array_equal(run(old, value), expected)


@pytest.mark.parametrize("kernels", ["native", "numpy"])
def test_a_table_that_no_task_has_loaded_stops_a_run(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros in its place gave one output for any picture, without an error."""
    if kernels == "numpy":
        monkeypatch.setenv(native.ENVIRONMENT, "numpy")
    old = openrknn.load(as_format_1(model_of("silu_rk3588_i8"), tables=False))
    with pytest.raises(UnwrittenTableError, match=r"513 of 513 entries of LE and 513 of 513 entries of LO") as caught:
        run(old, np.ones(old.inputs[0].shape, np.float32))
    assert caught.value.task == 0
    assert caught.value.register == "LUT_ACCESS_DATA"


def test_a_missing_table_is_damage() -> None:
    """A list that names a table which is not one: `register_task` of test_v1 with slot 1."""
    with pytest.raises(BadTaskError, match="kind LUT"):
        openrknn.load(model_bytes(lut=3))
    with pytest.raises(BadReferenceError, match="register list 77"):
        openrknn.load(model_bytes(lut=77))


def test_core_0_does_operators_alone_that_the_file_does_not_divide() -> None:
    """A second operator has no lists for two cores (PicoDet 1.4.0: 111 of 218): two cores skipped it before."""
    graph = openrknn.load(model_bytes(undivided=True)).graphs[0]
    nodes = {place: [graph.tasks[number].op_index for number in numbers] for place, numbers in graph.task_lists.items()}
    assert nodes == {TaskList(1, 0): [1, 1, 2], TaskList(2, 0): [1, 2], TaskList(2, 1): [1]}


def test_a_table_that_is_loaded_in_part_stops_a_run_too() -> None:
    tables = Tables()
    for table, count in ((0, 513), (1, 512)):
        tables.select(LutAccessCfg(2 << 16 | table << 16))
        tables.store_all(np.arange(count))
    with pytest.raises(UnwrittenTableError, match=r"\(1 of 513 entries of LO\)"):
        tables.snapshot()
    copy = Tables()
    copy.restore(tables.save())
    copy.store(7)
    assert copy.snapshot()[1, 512] == 7
