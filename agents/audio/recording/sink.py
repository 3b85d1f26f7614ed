"""RecordedSink: tells a recording what a sink plays, and what is taken back from it."""

from __future__ import annotations

from typing import Protocol

from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import AudioFrame


class Listener(Protocol):
    """What is told; see `Recorder`."""

    def wrote(self, frame: AudioFrame, queued: int) -> None: ...
    def cleared(self, samples: int) -> None: ...


class RecordedSink(AudioSink):
    """The sink itself, with a listener while there is one; without one it costs a call a frame."""

    def __init__(self, sink: AudioSink) -> None:
        self._sink = sink
        self.listener: Listener | None = None
        self.queued = sink.queued  # type: ignore[method-assign]  # asked thrice a frame, and nothing of it is told

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._sink.capabilities

    def write(self, frame: AudioFrame) -> None:
        self._sink.write(frame)
        if self.listener is not None:
            self.listener.wrote(frame, self._sink.queued())

    def queued(self) -> int:
        return self._sink.queued()

    def clear(self) -> int:
        dropped = self._sink.clear()
        if self.listener is not None:
            self.listener.cleared(dropped)
        return dropped
