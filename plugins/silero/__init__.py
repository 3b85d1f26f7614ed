"""Silero VAD: voice activity detection offline, by a small neural network."""

from __future__ import annotations

from vivavoce.plugins.silero.vad import VAD

__all__ = ["VAD"]
