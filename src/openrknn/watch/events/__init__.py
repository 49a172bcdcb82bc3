"""Events: kept on disk until every receiver has them.

spool       the queue on disk, with numbers that only grow;   delivery: one receiver after its own pace
file_sink   JSON lines;   webhook: HTTP POST with a signature
mqtt        a broker;   topics: names of topics, and Home Assistant's discovery
"""

from __future__ import annotations

from openrknn.watch.events.delivery import Delivery, Sink
from openrknn.watch.events.spool import Event, Spool

__all__ = ["Delivery", "Event", "Sink", "Spool"]
