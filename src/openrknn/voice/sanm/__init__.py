"""Models of FunASR in the form of sherpa-onnx: SenseVoice and Paraformer. Both have encoders with SAN-M attention.

frontend    filter banks, seven frames in one, normalised by the model's own mean and deviation
tables      what the CPU computes with, read from the set
cif         Paraformer's integrate-and-fire: as many vectors as there are tokens
sensevoice, paraformer   the two families
"""
