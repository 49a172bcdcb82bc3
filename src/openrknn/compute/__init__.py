"""The door to the native kernels, with the NumPy twin of each."""
