"""Matrix products on the NPU by register commands of our own."""
