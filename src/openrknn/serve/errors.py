"""What a server answers instead of a result.

    RknnError
    └── ServeError              `status` for HTTP, `code` for gRPC (the name of a grpc.StatusCode)
        ├── BadRequestError         400  INVALID_ARGUMENT       the request makes no sense for this model
        ├── UnauthorizedError       401  UNAUTHENTICATED        no token, or a wrong one
        ├── ForbiddenError          403  PERMISSION_DENIED      from a place that may not ask
        ├── NotFoundError           404  NOT_FOUND              no such model, version or page
        ├── SlowError               408  DEADLINE_EXCEEDED      the body came too slowly
        ├── ConflictError           409  FAILED_PRECONDITION    not possible in this state
        │   └── ExistsError         409  ALREADY_EXISTS         there is one of that name
        ├── TooLargeError           413  INVALID_ARGUMENT       more bytes than allowed
        ├── MediaError              415  INVALID_ARGUMENT       a body in a form that is not known
        ├── FullError               429  RESOURCE_EXHAUSTED     the queue is full; try again later
        ├── ModelFailedError        500  INTERNAL               the model could not run
        ├── NotReadyError           503  UNAVAILABLE            not loaded yet, broken, or shutting down
        └── DeadlineError           504  DEADLINE_EXCEEDED      not done in time
"""

from __future__ import annotations

from openrknn.backports import Self
from openrknn.errors import RknnError

__all__ = [
    "BadRequestError", "ConflictError", "DeadlineError", "ExistsError", "ForbiddenError", "FullError", "MediaError",
    "ModelFailedError", "NotFoundError", "NotReadyError", "ServeError", "SlowError", "TooLargeError",
    "UnauthorizedError",
]  # fmt: skip


class ServeError(RknnError):
    """The root of what a server answers instead of a result."""

    status = 500
    code = "INTERNAL"
    param: str | None = None
    """The field of the request that is wrong, where it is one."""
    reason: str | None = None
    """A word for programs, where there is a usual one."""

    def about(self, param: str, reason: str | None = None) -> Self:
        """The same, with the field that it is about."""
        self.param, self.reason = param, reason
        return self


class BadRequestError(ServeError):
    """The request makes no sense for this model."""

    status, code = 400, "INVALID_ARGUMENT"


class UnauthorizedError(ServeError):
    """No token, or a wrong one."""

    status, code = 401, "UNAUTHENTICATED"


class ForbiddenError(ServeError):
    """Asked from a place that may not ask."""

    status, code = 403, "PERMISSION_DENIED"


class NotFoundError(ServeError):
    """No such model, version or page."""

    status, code = 404, "NOT_FOUND"


class SlowError(ServeError):
    """The client sends too slowly."""

    status, code = 408, "DEADLINE_EXCEEDED"


class ConflictError(ServeError):
    """Not possible in this state."""

    status, code = 409, "FAILED_PRECONDITION"


class ExistsError(ConflictError):
    """There is one of that name."""

    code = "ALREADY_EXISTS"


class TooLargeError(ServeError):
    """More bytes than allowed."""

    status, code = 413, "INVALID_ARGUMENT"


class MediaError(ServeError):
    """A body in a form that is not known."""

    status, code = 415, "INVALID_ARGUMENT"


class FullError(ServeError):
    """The queue is full; `retry_seconds` is when to try again."""

    status, code = 429, "RESOURCE_EXHAUSTED"

    def __init__(self, message: str, *, retry_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class ModelFailedError(ServeError):
    """The model could not run."""

    status, code = 500, "INTERNAL"


class NotReadyError(ServeError):
    """Not loaded yet, broken, or shutting down."""

    status, code = 503, "UNAVAILABLE"


class DeadlineError(ServeError):
    """Not done in time."""

    status, code = 504, "DEADLINE_EXCEEDED"
