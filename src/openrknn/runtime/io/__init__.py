"""Tensors in device memory, and the way from and to users' arrays."""
