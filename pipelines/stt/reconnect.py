"""Recognizer: one session's recognition across lost streams; the audio that comes between two of them is kept."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.core.incidents import dropping
from vivavoce.pipelines.core.reconnect import ReconnectingStream
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT, STT_EVENTS, STTEvent, STTFinal, STTInterim, STTStream

KEPT_SECONDS = 10.0
"""Audio that is kept for the next stream while there is none."""


class Recognizer(ReconnectingStream[STTStream, STTEvent]):
    """One session's recognition.

    The words of a lost stream's interim are settled as a final one, since its successor will not hear them again.

    Args:
        stt: Shared; only the streams opened here are closed here.
        on_event: Takes what the recogniser reports.
        on_connected: Called with False when a stream was lost, with True when another one takes its place.
        on_failure, retries, open_limit: As for ReconnectingStream.
    """

    def __init__(
        self,
        stt: STT,
        *,
        clock: Clock,
        on_event: Callable[[STTEvent], None],
        on_failure: Callable[[ProviderError, bool], None],
        on_connected: Callable[[bool], None],
        retries: RetryOptions,
        open_limit: float,
    ) -> None:
        super().__init__(
            stt.provider, STT_EVENTS, clock=clock, retries=retries, open_limit=open_limit, on_failure=on_failure
        )
        self._stt = stt
        self._on_event = on_event
        self._on_connected = on_connected
        self._kept = RecentFrames(KEPT_SECONDS, dropping("stt"))
        self._stream: STTStream | None = None
        self._speech_at: float | None = None
        self._is_flush_due = False
        self._interim = ""
        self.push: Callable[[AudioFrame], None] = self._kept.push
        """Takes one frame at the recogniser's rate."""

    def speech_started(self, ago: float) -> None:
        """Tell the recogniser that speech began `ago` seconds before the end of the newest frame."""
        self._speech_at = self._clock.now() - ago
        self._is_flush_due = False  # what is kept of two utterances is heard as one
        if self._stream is not None:
            self._call(self._stream.speech_started, ago)

    def flush(self) -> None:
        """Tell the recogniser that speech has ended."""
        self._speech_at = None
        if self._stream is not None:
            self._call(self._stream.flush)
        else:
            self._is_flush_due = True

    def discard(self) -> None:
        """Forget the current utterance."""
        self._interim = ""
        self._is_flush_due = False
        if self._stream is not None:
            self._call(self._stream.discard)
        else:
            self._kept.drain()

    async def _open(self) -> STTStream:
        return await self._stt.open()

    def _begin(self, stream: STTStream) -> None:
        self._stream = stream
        self.push = self._push
        for frame in self._kept.drain():
            self.push(frame)
        if self._speech_at is not None:
            self._call(stream.speech_started, self._clock.now() - self._speech_at)
        if self._is_flush_due:
            self._is_flush_due = False
            self._call(stream.flush)
        if self._lost is not None:
            self._on_connected(True)

    def _push(self, frame: AudioFrame) -> None:
        assert self._stream is not None
        try:
            self._stream.push(frame)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the recogniser's code: another stream is opened
            self._leave_broken(error)
            self._kept.push(frame)

    def _call(self, call: Callable[..., None], *args: float) -> None:
        try:
            call(*args)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            self._leave_broken(error)

    def _leave_broken(self, error: BaseException) -> None:
        """Have frames wait for the next stream from here on."""
        self._stream, self.push = None, self._kept.push
        self._break(error)

    def _take(self, event: STTEvent) -> None:
        self._interim = event.text if isinstance(event, STTInterim) else ""
        self._on_event(event)

    def _end(self) -> None:
        self._stream = None
        self.push = self._kept.push
        if self._lost is None:
            return
        if self._interim:
            interim, self._interim = self._interim, ""
            self._on_event(STTFinal(text=interim))
        self._on_connected(False)

    def take_unheard(self) -> list[AudioFrame]:
        """Return and forget the audio that waits for a stream."""
        return self._kept.drain()

    def _give_up(self) -> None:
        self.push = _drop


def _drop(_: AudioFrame) -> None:
    """Take a frame when there is no recogniser any more."""
