"""Models in parts: some for the NPU, some for ONNX Runtime on the CPU, run as one."""
