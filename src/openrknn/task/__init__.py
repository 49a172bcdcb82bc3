"""One task of the NPU in natural units: what every block does, independent of the registers.

    place      addresses: numbers, or places in tensors that the loader fills in
    formats    sizes of number formats and atoms
    cna, core  fetch, decompress, pad, convolve
    stage, lut, ew, out_cvt, write, dpu    the DPU: its stages in the order of the data flow, and all of it
    rdma       the DPU's readers
    ppu        pooling

Compilers make these values and chips encode them (`task -> words`); chips decode words into them, and the software NPU,
cost models and checks read them. Nothing here knows a register, and nothing computes: formulas are in `npu.blocks`.
"""
