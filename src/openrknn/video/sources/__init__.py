"""Sources of video: cameras, files, streams, pipelines, standard input.

open_source     which source a word names, and the decoder for it
base            what every source has;   newest: back-pressure for live ones
v4l2            cameras through the kernel's ioctls;   v4l2_format: how their frames are stored
gstreamer, pyav, ffmpeg, opencv     decoders for files and addresses, in the order of preference
streams         Y4M, raw frames and Motion JPEG from files and standard input;   jpeg: its images
"""

from __future__ import annotations

from openrknn.video.sources.base import VideoSource
from openrknn.video.sources.newest import Newest
from openrknn.video.sources.open import SCHEMES, SUFFIXES, is_live_place, is_video_place, open_source

__all__ = ["SCHEMES", "SUFFIXES", "Newest", "VideoSource", "is_live_place", "is_video_place", "open_source"]
