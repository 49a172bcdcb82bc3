"""GStreamer elements: the process that computes for them, and how their plugin is built.

The elements `openrknn` and `openrknnoverlay` are C (native/gstreamer). Models run in a child process of each `openrknn`
element, `openrknn-gst-engine`: Python stays out of the pipeline's process, there is one decoder for every family of
models, and an engine that ends is an error on the bus instead of the end of the program.
"""
