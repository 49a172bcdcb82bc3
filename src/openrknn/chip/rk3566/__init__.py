"""RK3566 and RK3568."""
