"""Graphs of any length: products with constant weights on the NPU in windows, the rest in ONNX Runtime.

plan   what runs in which order, as `plan.json` of a set says it
graph  ProductGraph: the steps of a plan, run
"""
