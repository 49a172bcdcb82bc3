"""RGA on the emulated board: through /dev/rga, the preload library and the kernel's answers, as on a real one."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.log import LOG
from openrknn.uapi import rga
from openrknn.uapi.rga_cores import CORES, Core, Picture, cores_of, refusal
from openrknn.video import PixelFormat, Plane, VideoFrame, open_converter
from openrknn.video.rga_requests import NotForRgaError, placed
from tests.fakekernel.client import Client, File, block, refused
from tests.video.images import dma_frame

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found() -> Any:
    """What a program on the board saw."""
    model = ROOT / "tests" / "goldens" / "image_rk3588_i8.rknn"
    program = [sys.executable, str(ROOT / "tests" / "video" / "rga_program.py"), str(model)]
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--", *program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_rga_converts_without_the_cpu(found: Any) -> None:
    assert found["blit"] == ["rga", 0, 0, ""]
    assert found["same"]
    assert found["cores"] == ["rga3_core0", "rga3_core1", "rga2"]


def test_the_cpu_does_what_rga_cannot_and_says_why(found: Any) -> None:
    for name, words in (("small", "rga2 needs rows of a multiple of 4"), ("matrix", "BT2020"), ("array", "dma-bufs"),
                        ("foreign", "cannot import")):  # fmt: skip
        converter, copies, note = found[name]
        assert (converter in ("native", "numpy"), copies) == (True, 1), name
        assert words in note
    assert "scales by at most 16" in found["too small"]


def test_fences_instead_of_waiting(found: Any) -> None:
    assert found["fence"]
    assert found["same after fence"]


def test_the_driver_tells_its_load(found: Any) -> None:
    assert "scheduler[2]: rga2" in found["load"]


def test_a_frame_reaches_the_npu_without_a_copy(found: Any) -> None:
    session = found["session"]
    assert session["exported"] == 0
    assert session["imported is the same"]
    assert session["as by the CPU"]
    assert "the NPU reads rows of 48" in session["stride"]


# -- the driver's answers --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Iterator[File]:
    """/dev/rga without the preload library."""
    with Device("rk3588") as device, Client(device.folder) as client:
        file = client.open(rga.NODE)
        yield file
        file.close()


def imported(node: File, descriptor: int) -> int:
    element = rga.EXTERNAL_BUFFER.pack({"memory": descriptor, "type": rga.DMA_BUFFER})
    answer = node.send(rga.IMPORT_BUFFER, {"buffers": 1, "size": 1}, blocks=block(element), descriptor=descriptor)
    return rga.EXTERNAL_BUFFER.unpack(answer.texts[0])["handle"] if answer.texts[0] else 0


def submit(node: File, *tasks: dict[str, int], number: int | None = None) -> None:
    number = node.ioctl(rga.REQUEST_CREATE).values["id"] if number is None else number
    data = b"".join(map(rga.TASK.pack, tasks))
    values = {"task_ptr": 1, "task_num": len(tasks), "id": number, "sync_mode": rga.SYNC}
    node.send(rga.REQUEST_SUBMIT, values, blocks=block(data))


def task_of(node: File, **changes: int) -> dict[str, int]:
    """NV12 of 320x240 to RGB of 160x120."""
    source, target = dma_frame(PixelFormat.NV12, 320, 240, 320), dma_frame(PixelFormat.RGB, 160, 120, 480)
    handles = [imported(node, frame.planes[0].descriptor) for frame in (source, target)]
    source.release()
    target.release()
    task = {"cosa": 1 << 16, "handle_flag": 1}
    for name, handle, kind, width, height in (
        ("src", handles[0], rga.Format.NV12, 320, 240), ("dst", handles[1], rga.Format.RGB, 160, 120),
    ):  # fmt: skip
        sizes = {"act_w": width, "act_h": height, "vir_w": width, "vir_h": height, "format": kind}
        task |= {f"{name}_{field}": value for field, value in {**sizes, "yrgb_addr": handle}.items()}
    return task | changes


def test_a_request_is_used_once(node: File) -> None:
    number = node.ioctl(rga.REQUEST_CREATE).values["id"]
    submit(node, task_of(node), number=number)
    with refused(errno.EFAULT):
        submit(node, task_of(node), number=number)
    with refused(errno.EINVAL):
        node.ioctl(rga.REQUEST_CANCEL, id=number)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dst_yrgb_addr": 999_999}, "not imported"),
        ({"handle_flag": 0}, "not imported"),
        ({"dst_vir_w": 150, "dst_act_w": 150}, "multiple of 4 pixels"),
        ({"dst_vir_h": 4000}, "not inside of its buffer"),
        ({"dst_act_h": 200}, "not inside of its image"),
        ({"src_x_offset": 1, "src_act_w": 318}, "even places"),
        ({"dst_act_w": 8}, "scales by at most 16"),
        ({"core": 1, "dst_act_w": 20}, "rga3_core0 needs 68x2"),
        ({"core": 8}, "names none that is there"),
        ({"render_mode": 1}, "render mode 1"),
        ({"alpha_rop_flag": 1}, "alpha_rop_flag"),
        ({"src_rotate_mode": 1}, "src_rotate_mode"),
        ({"yuv2rgb_mode": 16}, "yuv2rgb_mode"),
        ({"src_format": 0x33}, "does not know the format"),
        ({"src_rd_mode": 2}, "tiled and compressed"),
    ],
)
def test_refusals_are_efault_and_the_log_says_why(
    node: File, changes: dict[str, int], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, LOG.name), refused(errno.EFAULT):
        submit(node, task_of(node, **changes))
    assert words in caplog.text


def test_what_is_wrong_with_a_call_itself(node: File) -> None:
    with refused(errno.EINVAL):
        submit(node, task_of(node), number=0)
    with refused(errno.EINVAL):
        node.send(rga.REQUEST_SUBMIT, {"id": 1, "task_ptr": 1}, blocks=block(b""))
    with refused(errno.EFBIG):
        node.send(rga.IMPORT_BUFFER, {"buffers": 1, "size": 41}, blocks=block(b""))
    with refused(errno.EFAULT):
        node.send(rga.IMPORT_BUFFER, {"buffers": 0, "size": 1}, blocks=block(b""))
    with refused(errno.ENOENT):
        node.send(
            rga.RELEASE_BUFFER, {"buffers": 1, "size": 1}, blocks=block(rga.EXTERNAL_BUFFER.pack({"handle": 5555}))
        )
    read, write = os.pipe()
    assert imported(node, read) == 0, "a pipe is no dma-buf, and the driver answers 0 for a failed import"
    os.close(read)
    os.close(write)


# -- what RGA can be told --------------------------------------------------------------------------------------


def test_structures_have_the_sizes_of_the_public_headers() -> None:
    assert (rga.TASK.size, rga.EXTERNAL_BUFFER.size, rga.REQUEST_SUBMIT.argument.size) == (504, 288, 168)
    places = [rga.TASK.offsets[name] for name in ("src_format", "dst_yrgb_addr", "fg_color", "mmu_en", "handle_flag")]
    assert places == [32, 64, 220, 280, 360]
    assert rga.REQUEST_SUBMIT.request == 0xC0A87206


def test_planes_that_rga_can_be_told_of() -> None:
    frame = dma_frame(PixelFormat.NV12, 300, 200, 320)
    where = placed(frame, "frame")
    assert (where.virtual_width, where.virtual_height, where.top) == (320, 200, 0)
    memory, descriptor = frame.planes[0].memory, frame.planes[0].descriptor
    assert memory is not None
    # A decoder's rows: 200 of 208.
    decoded = VideoFrame(
        PixelFormat.NV12, 300, 180, [Plane(0, 320, descriptor, memory), Plane(64_000, 320, descriptor)]
    )
    assert placed(decoded, "frame").virtual_height == 200
    for planes, words in (
        ([Plane(0, 320, -1, memory), Plane(64_000, 320, descriptor)], "ordinary memory"),
        ([Plane(0, 320, descriptor), Plane(64_010, 320, descriptor)], "whole rows"),
        ([Plane(0, 320, descriptor), Plane(64_000, 352, descriptor)], "rows of 352 bytes"),
    ):
        with pytest.raises(NotForRgaError, match=words):
            placed(VideoFrame(PixelFormat.NV12, 300, 180, planes), "frame")
    frame.release()


def test_cores_are_known_by_their_versions() -> None:
    for cores in CORES.values():
        assert cores_of([core.version for core in cores]) == cores
    assert cores_of([(3, 2, 0x18218)])[0].name == "rga2"


def picture(**changes: int) -> Picture:
    values = {"format": rga.Format.RGB, "left": 0, "top": 0, "width": 640, "height": 640, "virtual_width": 640}
    return Picture(**{**values, "virtual_height": 640, **changes})


@pytest.mark.parametrize("core", CORES["rk3588"], ids=lambda core: core.name)
def test_limits_are_those_of_the_guide(core: Core) -> None:
    is_three = core.name.startswith("rga3")
    source = picture(format=rga.Format.NV12, width=1920, height=1080, virtual_width=1920, virtual_height=1080)
    assert refusal(core, source, picture()) == ""
    assert bool(refusal(core, None, picture())) == is_three
    assert bool(refusal(core, source, picture(width=200, height=130))) == (is_three and 1920 > 8 * 200)
    assert "multiple of" in refusal(core, source, picture(virtual_width=642))
    assert bool(refusal(core, source, picture(virtual_width=644))) == is_three
    large = {"width": 5000, "height": 5000, "virtual_width": 5008, "virtual_height": 5000}
    assert bool(refusal(core, source, picture(**large))) != is_three


def test_without_a_board_the_cpu_converts_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rga, "NODE", "/nowhere/rga")
    monkeypatch.setattr("openrknn.video.rga.Rga.__init__.__defaults__", ("/nowhere/rga",))
    converter = open_converter()
    assert converter.name == "cpu"
    frame = dma_frame(PixelFormat.NV12, 32, 32, 32)
    done = converter.convert(frame, dma_frame(PixelFormat.RGB, 16, 16, 48))
    assert done.copies == 1
    assert "/nowhere/rga" in done.note
