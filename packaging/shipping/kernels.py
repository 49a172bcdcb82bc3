"""Runs in a clean root: says what computes there."""

from openrknn.nativelib import library

print("KERNELS", "NumPy" if library() is None else "native")
