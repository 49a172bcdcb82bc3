"""Traces: record what a program does with the NPU, look at it, and run it again on the software NPU.

    from openrknn.trace import Replayer, Trace

    with Trace("run.trace") as trace:
        for number in trace.jobs:
            ...

    records     the events of a trace
    archive     traces on disk
    recorder    a hook of the emulated device that writes one
    roles       which buffer is weights, instructions, tasks, working memory, input or output
    replay      the jobs of a trace on the software NPU, compared with the record
    timeline    when which job ran, and how long each ioctl took

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.trace.archive import Trace, TraceError, TraceWriter
    from openrknn.trace.recorder import Recorder
    from openrknn.trace.records import (
        BufferState,
        CallRecord,
        CloseRecord,
        FinishRecord,
        MapRecord,
        OpenRecord,
        SubmitRecord,
    )
    from openrknn.trace.replay import Difference, LoadedJob, Replayer
    from openrknn.trace.timeline import CallTotal, Lane, Span, Timeline, timeline_of

__all__ = [
    "BufferState", "CallRecord", "CallTotal", "CloseRecord", "Difference", "FinishRecord", "Lane", "LoadedJob",
    "MapRecord", "OpenRecord", "Recorder", "Replayer", "Span", "SubmitRecord", "Timeline", "Trace", "TraceError",
    "TraceWriter", "timeline_of",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "archive": "Trace TraceError TraceWriter",
        "recorder": "Recorder",
        "records": "BufferState CallRecord CloseRecord FinishRecord MapRecord OpenRecord SubmitRecord",
        "replay": "Difference LoadedJob Replayer",
        "timeline": "CallTotal Lane Span Timeline timeline_of",
    },
)
