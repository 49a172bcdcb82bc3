"""Runs on an emulated board (`openrknn exec -- python tests/video/rga_program.py MODEL`) and prints JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from openrknn import DmaBuf, Session
from openrknn.video import ColourSpace, PixelFormat, Plane, VideoError, VideoFrame, boxes_for, convert, open_converter
from openrknn.video.rga import Rga
from tests.video.images import dma_frame


def main(model: str) -> dict[str, object]:
    found: dict[str, object] = {}
    random = np.random.default_rng(0)
    frame = dma_frame(PixelFormat.NV12, 320, 240, 320, random)
    target = dma_frame(PixelFormat.RGB, 160, 160, 480)
    crop, place = boxes_for(320, 240, 160, 160, "letterbox")
    wanted = np.zeros((160, 160, 3), np.uint8)
    convert(frame, wanted, crop=crop, place=place)

    converter = open_converter()
    done = converter.convert(frame, target, crop=crop, place=place)
    found["blit"] = [done.converter, done.copies, done.total, done.note]
    found["same"] = bool((target.rows(0).reshape(160, 160, 3) == wanted).all())
    for name, other in {
        "small": dma_frame(PixelFormat.RGB, 18, 18, 54),  # rows of no multiple of 4 pixels
        "matrix": None,
        "array": np.zeros((160, 160, 3), np.uint8),
    }.items():
        source = frame
        if other is None:
            source = dma_frame(PixelFormat.NV12, 320, 240, 320, random, colour_space=ColourSpace.BT2020)
        result = converter.convert(source, target if other is None else other)
        found[name] = [result.converter, result.copies, result.note]
    # A descriptor that the driver does not import: a file.
    sealed = dma_frame(PixelFormat.NV12, 320, 240, 320, random)
    descriptor = os.open(sys.executable, os.O_RDONLY)
    planes = [Plane(plane.offset, plane.stride, descriptor, plane.memory) for plane in sealed.planes]
    result = converter.convert(VideoFrame(PixelFormat.NV12, 320, 240, planes), target)
    found["foreign"] = [result.converter, result.copies, result.note]
    converter.close()

    with Rga() as rga:
        found["cores"] = [core.name for core in rga.cores]
        target.rows(0)[...] = 0
        pending = rga.start(frame, target, crop=crop, place=place)
        found["fence"] = pending.fence >= 0
        again = rga.start(frame, dma_frame(PixelFormat.BGR, 96, 96, 288), acquire=os.dup(pending.fence))
        pending.wait()
        again.wait()
        found["same after fence"] = bool((target.rows(0).reshape(160, 160, 3) == wanted).all())
        try:
            rga.convert(frame, dma_frame(PixelFormat.RGB, 16, 16, 48))
        except VideoError as error:
            found["too small"] = str(error)
    found["load"] = Path("/sys/kernel/debug/rkrga/load").read_text()
    found["session"] = session(model, random)
    return found


def session(path: str, random: np.random.Generator) -> dict[str, object]:
    """A frame to the NPU without a copy: into the NPU's own memory, and into memory that the NPU imports."""
    found: dict[str, object] = {}
    with Session(path, "rknpu") as session, Rga() as rga:
        bound = session.bind()
        (name, view), *_ = bound.inputs.items()
        _, height, width, _ = view.shape
        found["shape"] = list(view.shape)
        frame = dma_frame(PixelFormat.NV12, 2 * width, 2 * height, 2 * width, random)
        expected = session.run({name: software(frame, width, height)})
        piece = bound.dma_buf(name)
        pixels = VideoFrame(PixelFormat.RGB, width, height, [Plane(0, piece.stride or 0, piece.fd, memory_of(piece))])
        found["exported"] = rga.convert(frame, pixels).copies
        bound.run()
        out = next(iter(bound.outputs))
        exported = bound.outputs[out].copy()

        own = dma_frame(PixelFormat.RGB, width, height, view.strides[1])
        rga.convert(frame, own)
        imported = session.bind(inputs={name: own})
        imported.run()
        found["imported is the same"] = bool((imported.outputs[out] == exported).all())
        found["as run"] = len(expected)
        try:
            session.bind(inputs={name: DmaBuf(own.planes[0].descriptor, stride=view.strides[1] + 64)})
        except ValueError as error:
            found["stride"] = str(error)
        bound.inputs[name][...] = software(frame, width, height)
        bound.run()
        found["as by the CPU"] = bool((bound.outputs[out] == exported).all())
    return found


def software(frame: VideoFrame, width: int, height: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    made = np.zeros((1, height, width, 3), np.uint8)
    convert(frame, made[0])
    return made


def memory_of(piece: DmaBuf) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    from openrknn.runtime.io.user_memory import mapped

    return mapped(piece)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
