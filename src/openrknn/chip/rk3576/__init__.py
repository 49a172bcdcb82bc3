"""RK3576 and RV1126B. `operand_tensors`: operands that they keep in memory instead of registers."""
