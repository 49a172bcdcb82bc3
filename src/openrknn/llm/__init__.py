"""Language models on the NPU: files of weights in, tokens out."""
