"""The blocks of the hardware: of each a frozen `Config` in natural units, and the formula from arrays to arrays.

    cna, core     fetch, decompress, pad, convolve
    dpu           bias, scale, table, element-wise operation, output format, write
    rdma          the DPU's readers
    ppu           pooling
    formats       number formats as arrays

No block reads a register: `openrknn.chip` makes configurations of them, for each family of chips.
"""
