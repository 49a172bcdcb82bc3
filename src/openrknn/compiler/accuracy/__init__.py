"""int8 that holds its accuracy: what a compiled model loses, measured, and the search for one that loses little.

    losses   what an output loses, by what it means: classes, scores, boxes, numbers
    outputs  what each output of a model means
    judge    runs a model on calibration data and measures its loss
    search   `accuracy_drop`: cheap recipes first, more fp16 until the bound holds
"""
