"""Contexts on kernel drivers: memory of the driver as a dma-buf, bound without a copy. On the emulated kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, tempfile
from pathlib import Path
import numpy as np
from openrknn.capi.attributes import native_output_attr
from openrknn.capi.wire import Operation
from openrknn.container.load import load
from openrknn.runtime.session import Session
from openrknn.vendor.tables.enums import TensorFormat, TensorType
from tests.capi.conftest import RunningEngine

driver, path = sys.argv[1], Path(sys.argv[2])
frames = np.random.default_rng(1).integers(0, 256, (3, 1, 16, 16, 3), np.uint8)
with Session(str(path), device="software") as session:
    expected = [session.run(frame, outputs="native")["features"].tobytes() for frame in frames]
    raw = [session.run(frame, outputs="raw")["features"].tobytes() for frame in frames]
with tempfile.TemporaryDirectory(prefix="orknn") as folder:
    engine = RunningEngine(Path(folder))
    client = engine.client(environment={"OPENRKNN_DEVICE": driver})
    context, other = client.init(path), client.init(path)
    attr = native_output_attr(load(path), 0, 0)
    picture, image = client.create_mem(context, 4096)
    number, output = client.create_mem(context, attr["size_with_stride"])
    for made in (context, other):  # the other one has a device of its own, and copies
        client.set_io_mem(made, picture, image, name="image", fmt=TensorFormat.NHWC, type=TensorType.UINT8)
        client.set_io_mem(made, number, output, **attr)
        for frame, wanted, stored in zip(frames, expected, raw):
            image.array[:768] = frame.reshape(-1)
            client.run(made)
            assert client.outputs_get(made, 1, want_float=False) == [stored]
            print(output.array[: len(wanted)].tobytes() == wanted)
    made = client.codec.decode("rknn_tensor_mem", client.call(Operation.CREATE_MEM, context=context, a=9).payload)
    print("an address of the NPU" if made["phys_addr"] < 1 << 32 else "copied")
    client.close()
    engine.stop()
    print(engine.log.read_text(), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("driver", "chip", "way"),
    [
        ("rknpu", "rk3588", "an address of the NPU"),
        ("rocket", "rk3588", "an address of the NPU"),
        ("rknpu", "rv1106", "copied"),  # no DRM device
    ],
)
def test_memory_of_a_driver_is_bound(driver: str, chip: str, way: str) -> None:
    """Without a copy where the driver exports its memory."""
    command = [sys.executable, "-m", "openrknn.cli", "exec", "-q", "--chip", chip, "--driver", driver, "--"]
    command += [sys.executable, "-c", PROGRAM, driver, str(ROOT / "tests" / "goldens" / f"residual_{chip}_i8.rknn")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert result.stdout.splitlines() == [*["True"] * 6, way], result.stderr
