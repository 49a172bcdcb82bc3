"""Which registers, fields and modes models use, and what the software NPU does with each: `openrknn coverage`."""
