"""Live results of a pipeline in a browser.

server      serve(): a page and a motion JPEG;   sockets: the HTTP server under it
broadcast   the newest picture, for everybody who looks;   meter: draws it and measures speed and load
"""

from __future__ import annotations

from openrknn.vision.live.broadcast import Broadcast
from openrknn.vision.live.meter import Meter
from openrknn.vision.live.server import serve

__all__ = ["Broadcast", "Meter", "serve"]
