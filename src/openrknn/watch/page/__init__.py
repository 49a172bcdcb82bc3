"""The web page of `openrknn watch`: live images, states, events and metrics."""

from __future__ import annotations

from openrknn.watch.page.server import serve_page

__all__ = ["serve_page"]
