"""What can go wrong with a job.

RknnError
└── JobError
    ├── ItemsError          nothing to do, or items that cannot be distinguished
    ├── ChangedJobError     the folder holds a job with another model, other options or other items
    ├── BusyJobError        another process works on the same job
    ├── TooManyErrorsError  more items failed than allowed
    ├── ClusterError        Ray is not there, or has no NPU to offer
    └── IncompleteJobError  parts are missing that could not be computed
"""

from __future__ import annotations

from openrknn.errors import RknnError

__all__ = [
    "BusyJobError", "ChangedJobError", "ClusterError", "IncompleteJobError", "ItemsError", "JobError",
    "TooManyErrorsError",
]  # fmt: skip


class JobError(RknnError):
    """The root of what can go wrong with a job."""


class ItemsError(JobError):
    """Nothing to do, or items that cannot be distinguished."""


class ChangedJobError(JobError):
    """The folder holds a job with another model, other options or other items."""


class BusyJobError(JobError):
    """Another process works on the same job."""


class TooManyErrorsError(JobError):
    """More items failed than allowed. What was done is kept."""


class ClusterError(JobError):
    """Ray is not there, or has no NPU to offer."""


class IncompleteJobError(JobError):
    """Parts are missing that could not be computed."""
