"""A set of small tasks that determines how an NPU computes, byte for byte.

    streams     single tasks, written with our own register commands
    cases       what is asked: one open question about the hardware each
    candidates  their arithmetic
    rules       where rules come into question: the candidates, ours, and its evidence
    battery     the cases on a device and on the software NPU, compared

A board owner runs `openrknn verify` and sends the report; every difference is a rule that the software NPU has wrong.
"""
