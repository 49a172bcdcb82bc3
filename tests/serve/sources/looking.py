"""What the tests of model sources share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from openrknn.serve.sources.http_client import Bounds

Look = Callable[..., tuple[list[str], list[str]]]
BOUNDS = Bounds(stall_seconds=2.0, head_seconds=2.0)


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
