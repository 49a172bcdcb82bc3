"""Fields that a kernel does not implement make it decline the step; NumPy says what comes out then."""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from openrknn.compute import native
from openrknn.errors import ExecutionError
from openrknn.isa.enums import ChannelReduction
from openrknn.npu.native import accelerate, table
from openrknn.npu.native.places import refuse_overlap
from openrknn.npu.native.reading import Reading, RefusedError, Way, ignore, whole
from openrknn.npu.task import Convolution, Pooling, Step
from tests.npu.chip_models import place
from tests.npu.loaded import load

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
pytestmark = pytest.mark.skipif(not native.find(), reason="no native library")


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


def test_a_reduction_behind_a_convolution() -> None:
    loaded = load(GOLDENS / "conv_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Convolution))
    step.dpu = replace(step.dpu, reduction=ChannelReduction.ENABLE)
    assert "a reduction" in accelerate(program, loaded.memory).reasons[number]


def test_pooling_whose_surfaces_overlap() -> None:
    loaded = load(GOLDENS / "residual_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Pooling))
    step.config = replace(step.config, channels=32, target_surface_bytes=step.config.target_line_bytes)
    assert "twice" in accelerate(program, loaded.memory).reasons[number]


@pytest.mark.parametrize("field", ["kernels", "input_group", "stride_y", "height"])
def test_convolutions_of_nothing(field: str) -> None:
    loaded = load(GOLDENS / "conv_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Convolution))
    changes: dict[str, Any] = {field: 0}
    step.source = replace(step.source, **changes)
    assert "size of 0" in accelerate(program, loaded.memory).reasons[number]


@pytest.mark.parametrize(
    ("shape", "steps", "overlaps"),
    [
        ((4, 3, 2), (96, 32, 16), False),
        ((4, 3, 2), (32, 128, 16), False),  # surfaces inside lines
        ((4, 3, 2), (95, 32, 16), True),
        ((4, 3, 2), (96, 32, 0), True),
        ((1, 3, 2), (0, 32, 16), False),
        ((4, 3, 2), (-96, 32, 16), False),
    ],
)
def test_walks_that_come_to_a_place_twice(shape: tuple[int, ...], steps: tuple[int, ...], overlaps: bool) -> None:
    if not overlaps:
        refuse_overlap(shape, steps)
        return
    with pytest.raises(RefusedError):
        refuse_overlap(shape, steps)


def test_registers_that_contradict_each_other_are_an_error_with_a_name() -> None:
    loaded = load(GOLDENS / "conv_rk3588_i8.rknn")
    program = loaded.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Convolution))
    step.source = replace(step.source, spread_y=0)
    accelerate(program, loaded.memory)
    with pytest.raises(ExecutionError, match="contradict each other") as caught:
        step.run()
    assert (caught.value.task, caught.value.operator) == (step.task, str(step.operator))
    assert program.steps[number].native is None


# ---------------------------------------------------------------------------------------------------- made-up fields


def grown(config: Any, value: int) -> Any:
    """The same configuration of a block that has learned something new."""
    kind = type(config)
    new = make_dataclass(kind.__name__, [("made_up", int, field(default=0))], bases=(kind,), frozen=True, slots=True)
    return new(**{old.name: getattr(config, old.name) for old in fields(config)}, made_up=value)


def with_grown(config: Any, path: list[str], value: int) -> Any:
    if not path:
        return grown(config, value)
    name, *rest = path
    return replace(config, **{name: with_grown(getattr(config, name), rest, value)})


def has(config: object, path: str) -> bool:
    return reduce(lambda found, name: getattr(found, name, None), path.split("."), config) is not None


CONVOLUTION = ["source", "array", "dpu", "dpu.bias", "dpu.bias.scaling", "dpu.out", "dpu.write", "reader"]
PLACES = [
    *(("residual_rk3588_i8", "convolution", path) for path in CONVOLUTION),
    *(("conv_rk3588_fp", "convolution", path) for path in ["source", "array", "dpu", "dpu.bias", "dpu.out", "reader"]),
    *(("conv_rk3566_i8", "convolution", path) for path in CONVOLUTION if path != "dpu.bias.scaling"),
    *(("residual_rk3588_i8", "element-wise", path) for path in ["dpu", "dpu.write", "reader", "reader.main"]),
    ("residual_rk3588_i8", "pooling", "config"),
]


@pytest.mark.parametrize(("name", "kind", "path"), PLACES)
@pytest.mark.parametrize("value", [0, 1])
def test_a_field_that_nobody_reads(name: str, kind: str, path: str, value: int) -> None:
    """By construction: no list says which fields kernels know. The default of a new field means "as ever"."""
    placed = place(GOLDENS / f"{name}.rknn")
    program = placed.program()
    accelerate(program, placed.memory)
    number, step = next(
        (n, step)
        for n, step in enumerate(program.steps)
        if step.kind == kind and step.native and has(step, path)
    )
    first, *rest = path.split(".")
    setattr(step, first, with_grown(getattr(step, first), rest, value))
    step.native = None
    reasons = accelerate(program, placed.memory).reasons
    assert (number in reasons) == bool(value)
    assert (step.native is None) == bool(value)


def first_convolution() -> Convolution:
    steps = load(GOLDENS / "conv_rk3588_i8.rknn").program().steps
    return next(step for step in steps if isinstance(step, Convolution))


def test_what_one_way_reads_does_not_count_for_another() -> None:
    step = first_convolution()
    reading = Reading(step)
    assert (reading.step.dpu.out.scale, reading.chain.view(step).dpu.out.shift) == (step.dpu.out.scale,
                                                                                    step.dpu.out.shift)
    unread = {name: {text.split()[1] for text in way.unread(step.dpu.out)}
              for name, way in (("shared", reading.shared), ("chain", reading.chain), ("general", reading.general))}
    assert {"shift"} == unread["shared"] - unread["chain"] == unread["general"] - unread["chain"]
    assert not any("scale" in names for names in unread.values())
    with pytest.raises(RefusedError, match="no kernel knows"):
        reading.refuse_unread()


def test_configurations_that_are_read_whole_or_change_nothing() -> None:
    step, way = first_convolution(), Way()
    view = way.view(step.dpu)
    assert view.out.precision is step.dpu.out.precision
    assert whole(view.out) is step.dpu.out
    assert not list(way.unread(step.dpu.out))
    assert any("address" in text for text in Way().unread(step.dpu.write))
    ignore(view, "write")
    assert not any(text.startswith("write:") for text in way.unread(step.dpu))


def test_a_view_is_what_it_shows() -> None:
    step: Step = first_convolution()
    view = Reading(step).step
    assert isinstance(view, Convolution)
    assert view.macs == step.macs
    with pytest.raises(AttributeError):
        replace(view.source, kernels=1)


def test_tables_of_two_configurations_are_two() -> None:
    """A table is made by the code of the blocks, which knows every field: so is the key under which it is kept."""
    loaded = load(GOLDENS / "silu_rk3588_i8.rknn")
    program = loaded.program()
    stages = (step.dpu.element_wise for step in program.steps if isinstance(step, Convolution))
    config = next(found for found in stages if found is not None)
    others = [replace(config), grown(config, 0), grown(config, 1), with_grown(config, ["table"], 1)]
    keys = [table._values(each) for each in (config, *others)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
