"""From registers to configurations of blocks: one file per family of chips.

    registers       the registers of one task, by class or by name, and which of them were read;  watch: observer hooks
    family          which blocks a chip has, and which file reads their registers
    rk3588          RK3588; its DPU is in `rk3588_dpu`
    common          what RK3562, RK3576 and RV1103/06 share; CNA is in `common_cna`, DPU in `common_dpu`
    operand_tensors operands that RK3576 and RV1126B keep in memory instead of registers
"""
