"""Memory that CPU and NPU share (`rknn_tensor_mem`)."""
