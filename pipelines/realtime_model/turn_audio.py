"""TurnAudio: the caller's audio for a realtime model: all of it, or the caller's turns alone."""

from __future__ import annotations

from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.reconnecting import ReconnectingModel

ONSET_SECONDS = 0.5
"""Audio before the VAD's report that the model receives too, so that it hears the first syllable."""


class TurnAudio:
    """Sends the caller's audio to the model.

    With local turn detection the model receives audio from the onset of speech to the turn's end. With remote turn
    detection it receives everything.
    """

    def __init__(self, model: ReconnectingModel, *, is_local: bool) -> None:
        self._model = model
        self._is_local = is_local
        self._is_open = not is_local
        self._onset = RecentFrames(ONSET_SECONDS)
        self._are_words_known = False

    def __repr__(self) -> str:
        return f"TurnAudio({self._model!r})"

    def push(self, frame: AudioFrame) -> None:
        """Send a frame, or keep it while no turn is open. Without a connection it waits for the next one."""
        if self._is_open:
            self._model.push(frame)
        else:
            self._onset.push(frame)

    def speech_started(self) -> None:
        """A turn begins, or continues: send the kept onset."""
        self._model.user_is(silent=False)
        self._are_words_known = False
        if not self._is_open:
            self._is_open = True
            for frame in self._onset.drain():
                self._model.push(frame)

    def words_came(self) -> None:
        """A recogniser has settled what was heard: no new connection need hear the audio of it."""
        self._are_words_known = True
        self._model.settle()

    def commit(self, *, is_speaking: bool) -> None:
        """The turn is over. With local turn detection, the model receives no more until the caller speaks again."""
        if self._is_local:
            self._model.commit()
            if self._are_words_known and not is_speaking:
                self._model.settle()
            self._is_open = is_speaking
        self._model.user_is(silent=True)

    def clear(self, *, is_speaking: bool) -> None:
        """Have the model forget the open turn's audio."""
        self._model.clear()
        self._are_words_known = False
        self._is_open = is_speaking or not self._is_local
        self._model.user_is(silent=not is_speaking)
