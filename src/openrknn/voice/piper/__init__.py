"""Voices of Piper: text to phonemes, phonemes to numbers, numbers to sound.

config      VOICE.onnx.json, checked
clauses     text cut where a voice breathes
phonemes    clauses to phonemes, by espeak-ng;   ids: phonemes to the numbers of the voice
windows     frames in pieces that overlap as far as the networks look
regulate    the length regulator
engine      the stages of a voice, one after the other
"""
