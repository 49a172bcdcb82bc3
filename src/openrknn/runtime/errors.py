"""The errors of running models.

    RknnError
    ├── ClosedError         a session, a pool or a binding was used after it was closed
    ├── CacheFullError      a decoder was given more tokens than its cache has room for
    └── PartsError          one file's worth was asked of a model in parts; the message says what to use

Wrong inputs are `TypeError` (the kind of thing) and `ValueError` (its shape, name or contents); what the software
cannot do is `UnsupportedError`; commands that the NPU refuses are `ExecutionError`.
"""

from __future__ import annotations

from openrknn.errors import RknnError


class ClosedError(RknnError):
    """Something was used after it was closed."""


class CacheFullError(RknnError):
    """A decoder has no room for another token."""


class PartsError(RknnError, AttributeError):
    """A model in parts is no single `.rknn`: it does not have what was asked for."""
