"""Why a source cannot be used.

RknnError
└── SourceError                 `reason` is its short name, for metrics
    ├── BadAddressError         the address is not one of a source
    ├── UnreachableError        no connection, no answer in time, or the server's own trouble (5xx, 429)
    ├── PartialError            an answer ended before its end
    ├── RedirectError           sent to a place where we do not go
    ├── CredentialsError        no credentials, wrong or expired ones, or a clock that is wrong
    ├── MissingError            no such bucket, object or file
    │   └── GoneError           it was there and has been taken away (410)
    ├── TooMuchError            more bytes or files than allowed
    ├── ChecksumError           not the bytes that were promised, or no promise where one is required
    ├── AnswerError             an answer that makes no sense
    └── CacheError              the mirror cannot be written
"""

from __future__ import annotations

from openrknn.errors import RknnError

__all__ = [
    "AnswerError", "BadAddressError", "CacheError", "ChecksumError", "CredentialsError", "GoneError", "MissingError",
    "PartialError", "RedirectError", "SourceError", "TooMuchError", "UnreachableError",
]  # fmt: skip


class SourceError(RknnError):
    """The root of what can be wrong with a source."""

    reason = "other"


class BadAddressError(SourceError):
    """The address is not one of a source."""

    reason = "address"


class UnreachableError(SourceError):
    """No connection, no answer in time, or the server's own trouble; `retry_seconds` is what it asks for."""

    reason = "unreachable"

    def __init__(self, message: str, *, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class PartialError(SourceError):
    """An answer ended before its end."""

    reason = "partial"


class RedirectError(SourceError):
    """Sent to a place where we do not go."""

    reason = "redirect"


class CredentialsError(SourceError):
    """No credentials, wrong or expired ones, or a clock that is wrong."""

    reason = "credentials"


class MissingError(SourceError):
    """No such bucket, object or file."""

    reason = "missing"


class GoneError(MissingError):
    """It was there and has been taken away."""

    reason = "gone"


class TooMuchError(SourceError):
    """More bytes or files than allowed."""

    reason = "size"


class ChecksumError(SourceError):
    """Not the bytes that were promised, or no promise where one is required."""

    reason = "checksum"


class AnswerError(SourceError):
    """An answer that makes no sense."""

    reason = "answer"


class CacheError(SourceError):
    """The mirror cannot be written."""

    reason = "cache"
