"""libdrm, as Mesa uses it, on the emulated drivers: drmGetVersion of old ones crashes on an empty text."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys

import pytest

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare

PROGRAM = """
import ctypes, os, sys

class Version(ctypes.Structure):
    _fields_ = [("numbers", ctypes.c_int * 3)] + [
        pair for name in ("name", "date", "desc") for pair in ((name + "_len", ctypes.c_int), (name, ctypes.c_char_p))
    ]

drm = ctypes.CDLL(sys.argv[1])
drm.drmGetVersion.restype = ctypes.POINTER(Version)
version = drm.drmGetVersion(os.open(sys.argv[2], os.O_RDWR))[0]
print(version.name.decode(), version.date.decode(), version.desc.decode(), sep="|")
"""
LIBRARY = ctypes.util.find_library("drm")
NODES = {"rocket": "/dev/accel/accel0", "rknpu": "/dev/dri/renderD129"}


@pytest.mark.skipif(LIBRARY is None, reason="libdrm is not here (Debian: apt install libdrm2)")
@pytest.mark.parametrize("driver", NODES)
def test_libdrm_reads_the_version(driver: str) -> None:
    assert LIBRARY is not None
    with Device("rk3588", driver=driver) as device:
        words = [sys.executable, "-c", PROGRAM, LIBRARY, NODES[driver]]
        command = prepare(words, device.environment, device.folder)
        done = subprocess.run(
            command.arguments, executable=command.path, env=dict(command.environment), capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    name, date, description = done.stdout.strip().split("|")
    assert name == driver
    assert date
    assert description
