"""The emulated kernel's log, and how threads that serve everybody outlive what one of their customers did."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LOG", "unharmed"]

LOG = logging.getLogger("openrknn.fakekernel")
"""What a driver would print when it refuses something; an error with a traceback is a bug in openrknn."""


@contextmanager
def unharmed(what: str) -> Iterator[None]:
    """Whatever goes wrong in here is written down, and the thread goes on: others depend on it."""
    try:
        yield
    except Exception:
        LOG.exception("%s failed; this is a fault of openrknn, please report it", what)
