"""Quantisation of language models: rotation, ranges of activations, integers of weights, and what they cost."""
