"""The open `librknnrt.so`: the C library is in native/capi, and here is the engine that it talks to.

A C program loads the library; the library connects to an engine of the same user (and starts one if there is none);
the engine forks a process for each program, which holds its contexts and memory and runs its models with
`openrknn.runtime`. Calls travel as small packets (`wire`), tensors as shared memory. `docs/library.md` is for users,
`docs/why/library.md` has the reasons.
"""
