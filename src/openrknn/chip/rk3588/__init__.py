"""RK3588, from which the other maps derive. One module per block."""
