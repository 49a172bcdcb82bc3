"""The loaded library: where it is found, its ctypes structs and functions, and the handles that it gives out."""
