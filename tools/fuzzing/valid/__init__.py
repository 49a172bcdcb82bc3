"""Tasks that the NPU may be given: every kind, size, format and chip, in combinations that cover all pairs of values.

A task is a dictionary of plain values, so that it can be stored, sent and replayed. `Tasks` makes them: first rows in
which every pair of values of two parameters occurs (`pairs`), then as many random ones as are wanted.

    pairs       rows that cover all pairs
    spaces      kinds of tasks, their parameters and values
    memory      noise; the bytes that NumPy touches, cut out exactly, so that a sanitizer sees every byte beyond them
    stages      parameters as stages of the DPU
    steps       parameters as steps: convolution, element-wise, moves, pooling
    networks    parameters as graphs of one operator that the compiler translates: registers of every chip
    host        parameters as work of the kernels that no task of the NPU uses: products, layouts, softmax, detections
    judge       a task with native kernels and with NumPy: one verdict
"""
