"""RemoteCut: a stop of an utterance whose player, another service, reports later where it stopped."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.audio.utterance import Utterance


class RemoteCut:
    """Corrects the position of an utterance that was paused or stopped at an estimate.

    Args:
        utterance: Its write position is the estimate.
    """

    def __init__(self, utterance: Utterance) -> None:
        self.utterance = utterance
        self._position = utterance.written
        self._is_settled = False
        self._on_settled: Callable[[int], None] | None = None

    def settle(self, unplayed: int) -> None:
        """Take the error of the estimate: the samples of it that were not played, below 0 if more were played."""
        self._is_settled = True
        utterance = self.utterance
        if not utterance.done.is_set():
            utterance.rewind(unplayed)
            self._position = utterance.written
            return
        self._position = min(utterance.total, max(0, self._position - unplayed))
        if self._on_settled is not None:
            self._on_settled(self._position)

    def when_settled(self, callback: Callable[[int], None]) -> None:
        """Call `callback` once with the position in samples: now, if it is known."""
        if self._is_settled:
            callback(self._position)
        else:
            self._on_settled = callback
