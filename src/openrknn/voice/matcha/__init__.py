"""Voices of Matcha-TTS with a vocoder, as sherpa-onnx has them.

speaking  MatchaVoice: tokens to a mel spectrogram, and that to sound
"""
