"""From samples to what nets for speech take: spectra, mel bands, cepstra, by the conventions of the field.

frames      windows, frames, stft
mel         mel bands by Slaney's, HTK's and Kaldi's rules
log_mel     whisper_log_mel;   kaldi_fbank
cepstra     mfcc as librosa does it;   kaldi_mfcc

All are compared with librosa's and torchaudio's numbers (tools/make_voice_goldens.py). NumPy only.
"""

from __future__ import annotations

from openrknn.voice.features.cepstra import dct_matrix, kaldi_mfcc, mfcc
from openrknn.voice.features.frames import power_spectrum, stft, window
from openrknn.voice.features.log_mel import KaldiOptions, decibels, kaldi_fbank, mel_spectrogram, whisper_log_mel
from openrknn.voice.features.mel import kaldi_banks, mel_banks

__all__ = [
    "KaldiOptions", "dct_matrix", "decibels", "kaldi_banks", "kaldi_fbank", "kaldi_mfcc", "mel_banks",
    "mel_spectrogram", "mfcc", "power_spectrum", "stft", "whisper_log_mel", "window",
]  # fmt: skip
