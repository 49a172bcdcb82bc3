"""One graph on a device: relocated commands, constants, and the operators of the CPU between them."""
