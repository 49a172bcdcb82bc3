"""Matrix products by the vendor's library (`rknn_matmul_*`)."""
