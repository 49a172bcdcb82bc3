"""Files and streams through the program `ffmpeg`, which writes Y4M into a pipe.

Each frame goes through the pipe, which costs two copies; the decoder in hardware of a board's ffmpeg is worth them.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from typing import IO

from openrknn.video.errors import SourceError
from openrknn.video.frame import VideoFrame
from openrknn.video.sources.base import VideoSource
from openrknn.video.sources.problems import network_reason
from openrknn.video.sources.streams import ByteReader, Y4mSource

__all__ = ["FfmpegSource"]

_PIPE_COPIES = 1
"""By ffmpeg into the pipe; reading it is counted by the reader."""
_TIMEOUT_MICROSECONDS = 10_000_000
_GOODBYE_SECONDS = 2.0
_HARDWARE = (("rkmpp", "/dev/mpp_service"), ("drm", "/dev/media0"))
"""Ways of ffmpeg on Rockchip boards, and the device that each needs."""


class FfmpegSource(VideoSource):
    """A file or an address, decoded by a child process."""

    def __init__(self, place: str, *, is_live: bool) -> None:
        super().__init__(place, is_live=is_live, decoder="ffmpeg")
        program = shutil.which("ffmpeg")
        if program is None:
            raise SourceError(f"{place}: the program ffmpeg is not here (Debian: apt install ffmpeg)")
        hardware = _hardware(program)
        self.decoder = f"{hardware + ' in hardware' if hardware else 'software'} (ffmpeg, child process)"
        if not hardware:
            self.notes = ("ffmpeg decodes in software: it has no decoder for hardware of this machine",)
        self._number = 0
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close
        words = _command(program, place, hardware)
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=writing, stderr=self._errors)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reader = ByteReader(reading, place)
        self._frames: Y4mSource | None = None

    def read(self) -> VideoFrame | None:
        """The next frame."""
        if self._frames is None:
            if not self._reader.peek(1):
                raise SourceError(f"{self.place}: {self._reason()}")
            self._frames = Y4mSource(self._reader)
        frame = self._frames.read()
        if frame is not None:
            frame.copies += _PIPE_COPIES
            self._number += 1
            return frame
        if self._process.wait() or self.is_live:
            raise SourceError(f"{self.place}: {self._reason()}")
        return None

    def _reason(self) -> str:
        """What ffmpeg said; it has closed the pipe, so it ends."""
        self._process.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        return network_reason(text) if text.strip() else "the stream ended; check the source"

    def close(self) -> None:
        """End the child process. Closing twice is allowed."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_GOODBYE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.close()
        self._errors.close()


def _command(program: str, place: str, hardware: str) -> list[str]:
    words = [program, "-nostdin", "-hide_banner", "-loglevel", "error"]
    words += ["-hwaccel", hardware] if hardware else []
    if place.lower().startswith("rtsp"):
        words += ["-rtsp_transport", "tcp", "-timeout", str(_TIMEOUT_MICROSECONDS)]
    # A file whose name begins with a dash is still a file.
    source = place if "://" in place else f"file:{place}"
    words += ["-i", source, "-map", "0:v:0", "-pix_fmt", "yuv420p"]
    return [*words, "-strict", "-1", "-f", "yuv4mpegpipe", "pipe:1"]


@functools.cache
def _hardware(program: str) -> str:
    """The way to a decoder in hardware that both this machine and this ffmpeg have."""
    here = [name for name, node in _HARDWARE if os.path.exists(node)]
    if not here:
        return ""
    done = subprocess.run([program, "-hide_banner", "-hwaccels"], capture_output=True, text=True, check=False)
    return next((name for name in here if name in done.stdout.split()), "")
