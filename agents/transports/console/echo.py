"""EchoCanceller: removes the speakers' sound from the microphone's audio, by livekit's WebRTC."""

from __future__ import annotations

from vivavoce.pipelines.media.buffer import FrameChunker

BLOCK_SECONDS = 0.01
"""Length of a block for WebRTC's audio processing."""
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
        """Set how long the devices delay a sound on its way from `played` to `clean`."""
        self._module.set_stream_delay_ms(min(MAX_DELAY_MS, round(1000 * seconds)))

    def played(self, data: bytes) -> None:
        """Take audio given to the speakers, 16-bit mono PCM, before its echo reaches `clean`."""
        for block in self._far.push(data):
            self._module.process_reverse_stream(self._frame(block.data))

    def clean(self, data: bytes) -> bytes:
        """Return the microphone's audio without the speakers' sound, in whole blocks of 10 ms."""
        cleaned = bytearray()
        for block in self._near.push(data):
            frame = self._frame(block.data)
            self._module.process_stream(frame)
            cleaned += bytes(frame.data)
        return bytes(cleaned)

    def _frame(self, data: bytes):  # type: ignore[no-untyped-def]  # rtc.AudioFrame, which loads on first use
        return self._rtc.AudioFrame(bytearray(data), self._rate, 1, len(data) // 2)
