"""Where GStreamer looks for plugins."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["plugin_folder"]


def plugin_folder() -> Path:
    """The folder for plugins of this user; it need not exist."""
    data = os.environ.get("XDG_DATA_HOME")
    base = Path(data) if data else Path.home() / ".local" / "share"
    return base / "gstreamer-1.0" / "plugins"
