"""Sets of SenseVoice and Paraformer, from ONNX files in the form of sherpa-onnx.

weights     the numbers and their places in an exported file, plain or quantised
graphs      the nets for the NPU, built from them
make        the two families
"""
