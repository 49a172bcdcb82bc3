"""RK3562. `decode_named` and its neighbours read what RK3576 and RV1103/06 have at other offsets."""
