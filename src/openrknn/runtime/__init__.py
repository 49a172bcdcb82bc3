"""Running models: a `Session` is a `Model` bound to a device.

session     Session: what users hold
pool        SessionPool: several sessions with one copy of the weights
program     one graph on a device: buffers, commands, steps
steps       nodes in execution order: jobs for the NPU, operators for the CPU
relocate    commands with addresses filled in
weights     constants in device memory, shared between sessions
inputs      from users' arrays to the bytes of input buffers;  outputs: back
tensors     tensors in device memory, read and written as arrays
operators   operators that the compiler left to the CPU
inspector   operator by operator, with a look at each result
profile     what each operator costs;  memory: how much each part needs
"""
