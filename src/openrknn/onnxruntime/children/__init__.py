"""A folder for PYTHONPATH: Python programs that start with it have `openrknn.onnxruntime` as `onnxruntime`."""
