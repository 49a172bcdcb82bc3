"""The vendor's library (librknnrt.so, librknnmrt.so) from Python, one to one with the C API."""
