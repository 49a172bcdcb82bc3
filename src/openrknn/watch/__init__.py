"""`openrknn watch`: several cameras through shared models, with tracking, zones and events.

    from openrknn.watch import Watch, read_config

    with Watch(read_config("watch.toml")) as watch:
        watch.start()
        ...

    config      reads the file;   settings: all that it can say
    capture     one thread per camera, which keeps the newest frame;   scene: simulated cameras (test:)
    schedule    whose frame is next;   models: shared, replaced while they run, started again when they crash
    feed        one camera with one model;   tracking: ByteTrack;   zones: enter, leave, loiter, cross
    events      a spool on disk, and what is delivered from it: file, webhook, MQTT
    engine      all of it together;   page: the web page and the metrics;   demo: a detector without training

Needs the extra `watch`.
"""

from __future__ import annotations

from openrknn.watch.config import read_config
from openrknn.watch.engine import Watch
from openrknn.watch.errors import ConfigError, WatchError

__all__ = ["ConfigError", "Watch", "WatchError", "read_config"]
