"""Traces: record what a program does with the NPU, look at it, and run it again on the software NPU.

    records     the events of a trace
    archive     traces on disk
    recorder    a hook of the emulated device that writes one
    roles       which buffer is weights, instructions, tasks, working memory, input or output
    replay      the jobs of a trace on the software NPU, compared with the record
"""
