"""Back-pressure for live sources: a thread reads all the time and keeps the newest frame only."""

from __future__ import annotations

import threading

from openrknn.video.frame import VideoFrame
from openrknn.video.sources.base import VideoSource

__all__ = ["Newest"]

_GOODBYE_SECONDS = 1.0
"""A camera that hangs must not hang the program."""


class Newest(VideoSource):
    """Always the newest frame of `source`, which it owns; older ones are released and counted in `dropped`."""

    def __init__(self, source: VideoSource) -> None:
        self._source = source
        self._replaced = 0
        super().__init__(source.place, is_live=source.is_live, decoder=source.decoder)
        self._frame: VideoFrame | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._fill, name="openrknn-newest", daemon=True)
        self._thread.start()

    def about(self) -> tuple[str, tuple[str, ...]]:
        """Those of the source, which may know them only after its first frame."""
        return self._source.about()

    @property
    def dropped(self) -> int:
        """By the source, and here."""
        return self._source.dropped + self._replaced

    @dropped.setter
    def dropped(self, count: int) -> None:
        self._replaced = count

    def read(self) -> VideoFrame | None:
        """Wait for a frame that is newer than the last; what went wrong in the source is raised after it."""
        with self._changed:
            self._changed.wait_for(lambda: self._frame is not None or self._is_over)
            frame, self._frame = self._frame, None
            if frame is None and self._error is not None:
                raise self._error
            return frame

    def _fill(self) -> None:
        try:
            while not self._is_over and (frame := self._source.read()) is not None:
                self._put(frame)
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that waits
            self._error = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            self._source.close()  # here: no decoder stands being closed while another thread reads

    def _put(self, frame: VideoFrame) -> None:
        with self._changed:
            old, self._frame = self._frame, None if self._is_over else frame
            if self._is_over:
                old = frame
            elif old is not None:
                self._replaced += 1
            self._changed.notify_all()
        if old is not None:
            old.release()

    def close(self) -> None:
        """Stop reading, and release the frame that waits; the thread closes the source when its last read is over."""
        with self._changed:
            self._is_over = True
            frame, self._frame = self._frame, None
            self._changed.notify_all()
        if frame is not None:
            frame.release()
        if self._thread is not threading.current_thread():
            self._thread.join(_GOODBYE_SECONDS)
