"""The running engine, as `openrknn library --status` sees it from outside."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from openrknn.capi.engine_process import running_engine, stop_engine
from openrknn.capi.wire import Operation
from tests.capi.conftest import RunningEngine
from tests.cli.run import program

GOLDENS = Path(__file__).parents[1] / "goldens"


def test_an_engine_with_a_program(engine: RunningEngine) -> None:
    client = engine.client()
    found = running_engine(str(engine.path))
    assert found is not None
    assert (found.pid, found.programs) == (engine.process.pid, (client.engine,))
    assert 5 * 2**20 < found.memory_bytes < 2**30
    client.close()


def test_the_end_of_an_engine(engine: RunningEngine) -> None:
    found = running_engine(str(engine.path))
    assert found is not None
    stop_engine(found)
    assert engine.process.wait(30) in {0, -signal.SIGTERM}  # the latter before it was warm
    assert running_engine(str(engine.path)) is None
    stop_engine(found)  # it is gone already


def test_the_command(engine: RunningEngine) -> None:
    variables = {"OPENRKNN_ENGINE_SOCKET": str(engine.path)}
    shown = program("library", "--status", **variables)
    assert shown.out.startswith(f"running as process {engine.process.pid} for ")
    stopped = program("library", "--stop", **variables)
    assert stopped.out.startswith(f"stopped: running as process {engine.process.pid}")
    assert engine.process.wait(30) in {0, -signal.SIGTERM}  # the latter before it was warm
    for option in ("--status", "--stop"):
        assert program("library", option, **variables).out.startswith("not running")
    assert program("library", "--status", "--json", **variables).out == "null\n"


@pytest.mark.parametrize("device", ["vendor", "vendor:/usr/lib/librknnrt.so"])
def test_who_chose_the_vendors_library_and_got_ours_runs_like_others(shared_engine: RunningEngine, device: str) -> None:
    """Session(device="auto") with OPENRKNN_DEVICE=vendor loads the library, which hands the variable on."""
    client = shared_engine.client(environment={"OPENRKNN_DEVICE": device})
    assert client.init(GOLDENS / "conv_rk3588_i8.rknn")
    client.close()


def test_a_model_for_one_core_takes_every_mask(shared_engine: RunningEngine) -> None:
    """Runtime 1.5.2 does (tests/compat asks it), and the vendor's wheel counts on it."""
    client = shared_engine.client()
    number = client.init(GOLDENS / "residual_rk3588_i8_single_core.rknn")
    for mask in (0, 1, 2, 4, 3, 7, 0xFFFF):
        client.call(Operation.SET_CORE_MASK, context=number, a=mask)
        client.call(Operation.RUN, context=number)
    client.close()
