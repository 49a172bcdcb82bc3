"""`Session.carry`: LSTM and GRU steps whose states stay on the device. Stands on ONNX Runtime, and on `run` itself."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.float_model import FloatModel
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.session import Session
from tests.compiler.nets import Net
from tests.compiler.test_recurrent import recurrent

ROOT = Path(__file__).resolve().parents[2]
PAIRS = {"LSTM": {"y_h": "h", "y_c": "c"}, "GRU": {"y_h": "h"}}
STEPS = 7
_RANDOM = np.random.default_rng(7)
FRAMES = [_RANDOM.normal(0, 1, (1, 1, 8)).astype(np.float16).astype(np.float32) for _ in range(STEPS)]


@cache
def layer(kind: str) -> tuple[Any, Any]:
    """One step of a layer: the ONNX model and the compiled one."""
    model, _ = recurrent(kind, 1, 16)
    return model, compile_model(model, check=False).model


def expected(model: Any, pairs: dict[str, str], states: dict[str, Any]) -> list[Any]:
    """ONNX Runtime, with states that are fed back as floats."""
    reference, found = FloatModel(model, ["y", *pairs]), []
    for frame in FRAMES:
        made = dict(reference.run({"x": frame, **states}))
        states = {becomes: made[name] for name, becomes in pairs.items()}
        found.append(made["y"])
    return found


def zeros(pairs: dict[str, str]) -> dict[str, Any]:
    return {name: np.zeros((1, 1, 16), np.float32) for name in pairs.values()}


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_states_are_carried_without_copies(kind: str) -> None:
    model, compiled = layer(kind)
    pairs = PAIRS[kind]
    with Session(compiled, "software") as session, session.carry(pairs) as carried:
        assert set(carried.joined) == set(pairs)
        found = [carried.step({"x": frame})["y"].copy() for frame in FRAMES]
        assert carried.steps == STEPS
        by_run, states = [], zeros(pairs)
        for frame in FRAMES:
            made = session.run({"x": frame, **states})
            states = {becomes: made[name] for name, becomes in pairs.items()}
            by_run.append(made["y"])
        last = carried.state()
    assert all(np.array_equal(one, other) for one, other in zip(found, by_run, strict=True))
    assert all(np.array_equal(last[name], states[name]) for name in states)
    wanted = expected(model, pairs, zeros(pairs))
    assert np.abs(np.stack(found).reshape(-1) - np.stack(wanted).reshape(-1)).max() < 0.01


def test_reset_begins_with_zeros_or_with_what_was_kept() -> None:
    _, compiled = layer("GRU")
    with Session(compiled, "software") as session, session.carry({"y_h": "h"}) as carried:
        first = [carried.step(frame)["y"].copy() for frame in FRAMES[:3]]
        kept = carried.state()
        fourth = carried.step([FRAMES[3]])["y"].copy()
        carried.reset()
        assert np.array_equal(carried.step(FRAMES[0])["y"], first[0])
        carried.reset(kept)
        assert carried.steps == 0
        assert np.array_equal(carried.step(FRAMES[3])["y"], fourth)
        with pytest.raises(ValueError, match="no carried input is called 'g'; there are h"):
            carried.reset({"g": np.zeros(16)})
        with pytest.raises(ValueError, match=r"state 'h' is \[1, 1, 16\]; \[3\] was given"):
            carried.reset({"h": np.zeros(3)})


def test_two_of_one_session_do_not_see_each_other() -> None:
    _, compiled = layer("LSTM")
    with Session(compiled, "software") as session:
        one, other = session.carry(PAIRS["LSTM"]), session.carry(PAIRS["LSTM"])
        alone = [one.step(frame)["y"].copy() for frame in FRAMES]
        one.reset()
        for frame, wanted in zip(FRAMES, alone, strict=True):
            assert np.array_equal(one.step(frame)["y"], wanted)
            other.step(frame + 1)
    with pytest.raises(ClosedError, match="carry again"):
        one.step(FRAMES[0])


def test_int8_begins_with_the_number_zero_not_with_the_byte() -> None:
    net = Net()
    out = net.add("Tanh", net.add("Add", "x", "h"))
    model = net.model({"x": (1, 8, 4, 4), "h": (1, 8, 4, 4)}, [out])
    chance = np.random.default_rng(0)
    data = [{name: chance.uniform(-0.2, 1, (1, 8, 4, 4)).astype(np.float32) for name in "xh"} for _ in range(4)]
    compiled = compile_model(model, calibration=data, check=False).model
    with Session(compiled, "software") as session, session.carry({out: "h"}) as carried:
        assert np.abs(carried.state()["h"]).max() < 0.01
        states = np.zeros((1, 8, 4, 4), np.float32)
        for item in data:
            assert carried.step({"x": item["x"]}, layout="nchw") == {}
            states = session.run({"x": item["x"], "h": states}, layout="nchw")[out]
        assert np.abs(carried.state()["h"] - states).max() <= (0 if carried.joined else 0.02)


def test_a_state_that_lies_otherwise_is_copied() -> None:
    net = Net()
    moved = net.add("Add", "x", "h")
    out = net.add("Reshape", moved, net.constant([1, 48], np.int64))
    compiled = compile_model(net.model({"x": (1, 3, 4, 4), "h": (1, 3, 4, 4)}, [out]), check=False).model
    with Session(compiled, "software") as session, session.carry({out: "h"}) as carried:
        assert carried.joined == ()
        ones = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
        for _ in range(3):
            carried.step({"x": ones}, layout="nchw")
        assert np.array_equal(carried.state()["h"], ones * 3)


def test_a_state_that_is_copied_and_becomes_no_number_is_refused_as_an_input_is() -> None:
    net = Net()
    moved = net.add("Sub", "x", "h")
    out = net.add("Reshape", moved, net.constant([1, 48], np.int64))
    compiled = compile_model(net.model({"x": (1, 3, 4, 4), "h": (1, 3, 4, 4)}, [out]), check=False).model
    with Session(compiled, "software") as session, session.carry({out: "h"}) as carried:
        assert carried.joined == ()
        infinite = np.full((1, 3, 4, 4), np.inf, np.float32)
        with pytest.raises(ValueError, match=r"'h'.*are NaN"):  # infinity times 0
            carried.step({"x": infinite}, layout="nchw")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({}, "output: input"),
        ({"z": "h"}, "no output is called 'z'"),
        ({"y_h": "z"}, "no input is called 'z'"),
        ({"y_h": "x"}, "a state has one size"),
        ({"y_h": "h", "y": "h"}, "two outputs would become the input 'h'"),
    ],
)
def test_wrong_pairs_are_named(pairs: dict[str, str], message: str) -> None:
    _, compiled = layer("GRU")
    with Session(compiled, "software") as session, pytest.raises(ValueError, match=message):
        session.carry(pairs)


def test_a_model_in_parts_carries_arrays() -> None:
    from openrknn.container.bundle import write_bundle
    from openrknn.partition import make_bundle

    model, _ = layer("GRU")
    bundle = write_bundle(make_bundle(model))
    with Session(bundle, "software") as session, session.carry({"y_h": "h"}) as carried:
        found = [np.array(carried.step({"x": frame})["y"]) for frame in FRAMES]
        kept = carried.state()
        carried.reset()
        assert np.array_equal(carried.step({"x": FRAMES[0]})["y"], found[0])
    wanted = expected(model, {"y_h": "h"}, zeros({"y_h": "h"}))
    assert np.abs(np.stack(found).reshape(-1) - np.stack(wanted).reshape(-1)).max() < 0.01
    assert kept["h"].shape == (1, 1, 16)


SHAPES = {
    "nchw": (1, 3, 4, 5), "nhwc": (1, 3, 4, 5), "cube": (1, 4, 4, 4), "cube-nhwc": (1, 4, 4, 4), "many": (1, 20, 2, 3),
    "many-nhwc": (1, 20, 2, 3), "plain": (1, 24), "rows": (1, 6, 8), "five": (1, 2, 3, 4, 5),
    "pixel-nhwc": (1, 16, 1, 1),
}  # fmt: skip


@cache
def stateful(kind: str, precision: str, *, is_parted: bool) -> tuple[Any, Any]:
    """A model whose state goes in as [N, C, H, W] and, for nhwc, comes out as [N, H, W, C], as TFLite's do."""
    net = Net()
    shape = SHAPES[kind]
    made = net.add("Tanh", net.add("Add", net.add("Mul", "h", net.constant(np.full(1, 0.75, np.float32))), "x"))
    if kind.endswith("nhwc"):
        made = net.add("Transpose", made, perm=[0, 2, 3, 1])
    model = net.model({"x": shape, "h": shape}, [made])
    if is_parted:
        from openrknn.container.bundle import write_bundle
        from openrknn.partition import PartitionOptions, make_bundle

        return write_bundle(make_bundle(model, PartitionOptions(prefer="npu", cache=False))), made
    chance = np.random.default_rng(0)
    data = [{name: chance.uniform(-1, 1, shape).astype(np.float32) for name in "xh"} for _ in range(4)]
    return compile_model(model, calibration=data if precision == "int8" else None, check=False).model, made


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("precision", ["fp16", "int8", "parts"])
def test_carrying_is_feeding_by_hand_in_every_layout(kind: str, precision: str) -> None:
    """The evidence is `run` itself, given each state in the input's own order."""
    model, out = stateful(kind, precision, is_parted=precision == "parts")
    shape = SHAPES[kind]
    is_turned, is_whole = kind.endswith("nhwc"), precision == "parts"
    layout = ("nhwc" if is_turned else "nchw") if kind.startswith("cube") else None
    form = (shape[0], *shape[2:], shape[1]) if is_turned else shape
    chance = np.random.default_rng(1)
    frames = chance.uniform(-1, 1, (4, *shape)).astype(np.float32)
    start = chance.uniform(-1, 1, shape).astype(np.float32)
    options: dict[str, Any] = {} if is_whole or len(shape) != 4 else {"layout": "nchw"}

    def in_order(value: Any) -> Any:
        return value.transpose(0, 3, 1, 2) if is_turned else value

    with Session(model, "software") as session, session.carry({out: "h"}, layout=layout) as carried:
        for first in (None, start):
            if first is not None:
                carried.reset({"h": first.transpose(0, 2, 3, 1) if is_turned else first})
            state = np.zeros(shape, np.float32) if first is None else first
            for frame in frames:
                assert carried.step({"x": frame}, **options) == {}
                state = in_order(session.run({"x": frame, "h": state}, **options)[out])
                kept = carried.state()["h"]
                assert kept.shape == form
                assert np.abs(in_order(kept) - state).max() <= (0.02 if precision == "int8" else 0.002)
        states = carried.state()
        carried.reset(states)
        assert np.abs(carried.state()["h"] - states["h"]).max() <= (0.02 if precision == "int8" else 0.002)


def test_a_state_that_could_lie_in_two_ways_is_asked_for() -> None:
    model, out = stateful("cube", "fp16", is_parted=False)
    with Session(model, "software") as session:
        with pytest.raises(ValueError, match="can be NHWC and NCHW"):
            session.carry({out: "h"})
        with pytest.raises(ValueError, match="names 'z'"):
            session.carry({out: "h"}, layout={"z": "nchw"})
    model, out = stateful("nhwc", "fp16", is_parted=False)
    with Session(model, "software") as session, pytest.raises(ValueError, match="is nhwc and not nchw"):
        session.carry({out: "h"}, layout="nchw")


PROGRAM = """
import sys
import numpy as np
import openrknn

device, model = sys.argv[1:]
frames = np.random.default_rng(7).normal(0, 1, (5, 1, 1, 8)).astype(np.float32)
found = {}
for name in ("software", device):
    with openrknn.Session(model, name) as session, session.carry({"y_h": "h", "y_c": "c"}) as carried:
        assert len(carried.joined) == 2, carried.joined
        found[name] = np.stack([carried.step({"x": frame})["y"].copy() for frame in frames])
print("same" if np.array_equal(found["software"], found[device]) else "different")
"""


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_on_kernel_drivers_as_on_the_software_npu(driver: str, tmp_path: Path) -> None:
    model, _ = layer("LSTM")
    path = tmp_path / "layer.rknn"
    path.write_bytes(compile_model(model, check=False).data)
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--driver", driver, "--", sys.executable, "-c", PROGRAM]
    done = subprocess.run([*command, driver, str(path)], capture_output=True, text=True, timeout=300, check=False,
                          cwd=ROOT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "same"
