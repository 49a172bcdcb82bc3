"""`.rknn` files: read, checked, written.

openrknn.load(path)         Model: everything in the file as typed objects
container.check.problems    what does not fit together in it
container.link              the memory image that a loader hands to the NPU
container.write             a Model back into a file
"""
