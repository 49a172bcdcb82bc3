"""Voices of Kokoro-82M.

symbols   its table of symbols, and what espeak-ng says written in them
speaking  KokoroVoice: phonemes, style and speed to sound
"""
