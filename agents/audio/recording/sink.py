"""RecordedSink: reports to a recording the audio that a sink plays, and the audio that is taken back from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import AudioFrame


class Listener(Protocol):
    """Receives the reports; see `Recorder`."""

    def wrote(self, frame: AudioFrame, queued: int) -> None: ...
    def cleared(self, samples: int) -> None: ...


class RecordedSink(AudioSink):
    """The sink, which reports to a listener while it has one; without one it costs one call a frame."""

    def __init__(self, sink: AudioSink) -> None:
        self._sink = sink
        self._listener: Listener | None = None
        self.queued = sink.queued  # type: ignore[method-assign]  # called three times a frame, and not reported

    def listen(self, listener: Listener | None) -> None:
        """Report to that listener from now on, or to none with None."""
        self._listener = listener

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._sink.capabilities

    def write(self, frame: AudioFrame) -> None:
        self._sink.write(frame)
        if self._listener is not None:
            self._listener.wrote(frame, self._sink.queued())

    def queued(self) -> int:
        return self._sink.queued()

    def clear(self) -> int:
        dropped = self._sink.clear()
        if self._listener is not None:
            self._listener.cleared(dropped)
        return dropped

    def flush(self) -> None:
        self._sink.flush()

    def when_playing(self, callback: Callable[[], None]) -> None:
        self._sink.when_playing(callback)

    def when_cleared(self, callback: Callable[[int], None]) -> None:
        self._sink.when_cleared(callback)
