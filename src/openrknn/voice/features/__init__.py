"""From samples to what nets for speech take: spectra, mel bands, cepstra, by the conventions of the field.

frames      windows, frames, stft
mel         mel bands by Slaney's, HTK's and Kaldi's rules
log_mel     whisper_log_mel;   kaldi_fbank
cepstra     mfcc as librosa does it;   kaldi_mfcc

All are compared with librosa's and torchaudio's numbers (tools/make_voice_goldens.py). NumPy only.
"""

from __future__ import annotations

from openrknn.voice.features.frames import kaldi_banks, mel_banks, power_spectrum, stft, window
from openrknn.voice.features.log_mel import (
    KaldiOptions,
    dct_matrix,
    decibels,
    kaldi_fbank,
    kaldi_mfcc,
    mel_spectrogram,
    mfcc,
    whisper_levels,
    whisper_log_mel,
    whisper_logs,
)

__all__ = [
    "KaldiOptions", "dct_matrix", "decibels", "kaldi_banks", "kaldi_fbank", "kaldi_mfcc", "mel_banks",
    "mel_spectrogram", "mfcc", "power_spectrum", "stft", "whisper_levels", "whisper_log_mel", "whisper_logs", "window",
]  # fmt: skip
