"""Tracking: which box of this frame is which object of the last one.

tracker      ByteTrack: two associations per frame, confident boxes first
kalman       position, shape and speed of one object;   assignment: which box to which track
"""

from __future__ import annotations

from openrknn.watch.tracking.tracker import Track, Tracker, TrackerSettings

__all__ = ["Track", "Tracker", "TrackerSettings"]
