"""A virtual board: real Linux kernels with their NPU drivers, in QEMU, on the software NPU."""
