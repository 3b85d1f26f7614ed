"""EchoCanceller: takes what the speakers play out of what the microphone hears, by livekit's WebRTC."""

from __future__ import annotations

from vivavoce.pipelines.media.buffer import FrameChunker

BLOCK_SECONDS = 0.01
"""What WebRTC's audio processing takes at a time."""
MAX_DELAY_MS = 500


class EchoCanceller:
    """One conversation's echo cancellation, with noise suppression and a high-pass filter.

    Args:
        sample_rate: Hz of both sides.
    """

    def __init__(self, sample_rate: int) -> None:
        from livekit import rtc

        self._rtc = rtc
        self._rate = sample_rate
        self._module = rtc.AudioProcessingModule(echo_cancellation=True, noise_suppression=True, high_pass_filter=True)
        self._far = FrameChunker(sample_rate, BLOCK_SECONDS)
        self._near = FrameChunker(sample_rate, BLOCK_SECONDS)

    def set_delay(self, seconds: float) -> None:
        """Say how long the devices hold a sound on its way from `played` to `clean`."""
        self._module.set_stream_delay_ms(min(MAX_DELAY_MS, round(1000 * seconds)))

    def played(self, data: bytes) -> None:
        """Take what the speakers were given, 16-bit mono PCM; before the sound of it comes back to `clean`."""
        for block in self._far.push(data):
            self._module.process_reverse_stream(self._frame(block.data))

    def clean(self, data: bytes) -> bytes:
        """Return what the microphone heard without the speakers' sound, in whole blocks of 10 ms."""
        cleaned = bytearray()
        for block in self._near.push(data):
            frame = self._frame(block.data)
            self._module.process_stream(frame)
            cleaned += bytes(frame.data)
        return bytes(cleaned)

    def _frame(self, data: bytes):  # type: ignore[no-untyped-def]  # rtc.AudioFrame, which loads on first use
        return self._rtc.AudioFrame(bytearray(data), self._rate, 1, len(data) // 2)
