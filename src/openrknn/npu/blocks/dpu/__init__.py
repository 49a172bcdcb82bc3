"""DPU: bias, scale, element-wise operation, output format and write, in the order of the data flow.

    accumulators or MRDMA data -> zero-point correction -> BS -> BN -> EW -> output converter -> write DMA

One file per stage; `pipeline` runs them in order.
"""
