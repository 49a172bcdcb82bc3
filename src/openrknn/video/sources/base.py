"""What every source of video has: frames one after the other, and how they came about."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.closing import Closing
from openrknn.pixels.formats import ColourSpace
from openrknn.video.errors import SourceError
from openrknn.video.frame import MOST_PIXELS, VideoFrame

__all__ = ["VideoSource", "check_size", "default_space"]

_HD_ROWS = 576


class VideoSource(Closing):
    """Frames of one camera, file or stream.

    `read` gives the next frame, or None at the end of a file; a live source that ends raises `SourceError`. A frame's
    memory belongs to the source: `VideoFrame.release` gives it back.
    """

    def __init__(self, place: str, *, is_live: bool, decoder: str) -> None:
        self.place = place
        """What the user called it."""
        self.is_live = is_live
        """Whether frames come by themselves, so that those without a reader have to be dropped."""
        self.decoder = decoder
        """Who makes the frames, in words: "V4L2 camera (uvcvideo)", "h264 in software (PyAV)"."""
        self.notes: tuple[str, ...] = ()
        """What a user should know: that a decoder in hardware was not used, and why."""
        self.dropped = 0
        """Frames that were captured or sent, and that no reader has seen."""

    def about(self) -> tuple[str, tuple[str, ...]]:
        """Decoder and notes as they are known now."""
        return self.decoder, self.notes

    def read(self) -> VideoFrame | None:
        """The next frame; None at the end."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[VideoFrame]:
        while (frame := self.read()) is not None:
            yield frame

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.place}: {self.decoder}>"


def check_size(place: str, width: int, height: int) -> None:
    """Before memory is taken for it: a header can promise anything."""
    if width < 1 or height < 1 or width * height > MOST_PIXELS:
        raise SourceError(
            f"{place}: frames of {width}x{height} pixels; 1 to {MOST_PIXELS} pixels are possible, so check the source "
            "or scale it down"
        )


def default_space(height: int) -> ColourSpace:
    """The colour space of a stream that does not name one: as GStreamer and players assume."""
    return ColourSpace.BT709 if height > _HD_ROWS else ColourSpace.BT601
