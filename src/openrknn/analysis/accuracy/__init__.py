"""A `.rknn` on the software NPU beside the ONNX model that it was made from, layer by layer.

    reference   the ONNX graph, whole or cut between tensors;  feeds: its inputs
    weights     the weights that the file really holds
    measure     both beside each other, free or isolated;  metrics: how far apart
    result      what it says;  phrases: the same in words;  api: all of it in one call
"""
