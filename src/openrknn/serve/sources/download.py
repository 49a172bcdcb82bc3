"""A body into a file, and its digest on the way."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

from openrknn.serve.sources.errors import CacheError, PartialError
from openrknn.serve.sources.http_client import Answer

__all__ = ["save_body"]


def save_body(answer: Answer, file: BinaryIO, most_bytes: int, *, is_promised: bool) -> tuple[int, str]:
    """Bytes and SHA-256 of what came. A tried-again download begins at the beginning.

    `is_promised`: somebody will check it. Otherwise a body whose end cannot be told from a cut is refused.
    """
    if not answer.is_framed and not is_promised:
        raise PartialError("the server does not say how long the file is, and no checksum tells whether it is whole")
    digest, size = hashlib.sha256(), 0
    try:
        file.seek(0)
        file.truncate()
        for data in answer.chunks(most_bytes):
            digest.update(data)
            size += len(data)
            file.write(data)
        file.flush()
    except OSError as error:
        raise CacheError(f"the cache cannot be written: {error}") from None
    return size, digest.hexdigest()
