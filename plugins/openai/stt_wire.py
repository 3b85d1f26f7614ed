"""A transcription session of the Realtime API, sans-I/O: utterances out, transcripts in, in the order of the speech.

Source: https://platform.openai.com/docs/guides/realtime-transcription.
"""

from __future__ import annotations

import base64
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderProtocolError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim
from vivavoce.plugins.openai.realtime_messages import AUDIO, PCM, RATE, Message
from vivavoce.plugins.openai.realtime_wire import EXPIRED, FATAL, MIN_COMMIT, TRANSCRIPTION
from vivavoce.plugins.openai.wire import PROVIDER, protocol_error, text_of

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Utterance:
    """Speech between an onset and a flush."""

    commit_id: str = ""
    item_id: str = ""
    seconds: float = 0.0
    text: str = field(default="", repr=False)
    is_final: bool = False
    is_discarded: bool = False


class TranscriptionWire:
    """One stream's utterances.

    Args:
        transcription: The session's `transcription` object: model, language and so on.
        post: Sends a client event, in order.
        report: Called with events for the session.
        failures: Makes the errors.
        has_interims: Whether deltas are reported: whether they come while the user speaks.
    """

    def __init__(
        self,
        transcription: Message,
        language: str,
        *,
        post: Callable[[Message], None],
        report: Callable[[STTEvent], None],
        failures: Failures,
        has_interims: bool = True,
    ) -> None:
        self._transcription = transcription
        self._language = language
        self._post = post
        self._report = report
        self._failures = failures
        self._has_interims = has_interims
        self._utterances: deque[Utterance] = deque()
        self._open: Utterance | None = None
        self.is_ready = False

    @property
    def is_blocked(self) -> bool:
        """Whether a transcript waits for the one before it."""
        return any(one.is_final for one in self._utterances)

    def begin(self) -> None:
        """Send the settings: the client ends utterances."""
        audio = {"format": PCM, "transcription": self._transcription, "turn_detection": None, "noise_reduction": None}
        self._post({"type": "session.update", "session": {"type": "transcription", "audio": {"input": audio}}})

    def start(self) -> None:
        """Begin an utterance."""
        self._open = Utterance()
        self._utterances.append(self._open)

    def push(self, frame: AudioFrame) -> None:
        """Take audio of the open utterance."""
        if self._open is not None:
            self._open.seconds += frame.duration
            audio = base64.b64encode(frame.data).decode("ascii")
            self._post({"type": AUDIO, "audio": audio})

    def flush(self) -> None:
        """End the open utterance; without one, report behind the earlier ones that all is settled."""
        if self._open is None:
            nothing = Utterance()
            self._utterances.append(nothing)
            self._settle(nothing, "")
            return
        if (missing := MIN_COMMIT - self._open.seconds) > 0:
            self.push(AudioFrame.silence(missing + 1 / RATE, RATE))
        utterance, self._open = self._open, None
        utterance.commit_id = new_id("commit")
        self._post({"type": "input_audio_buffer.commit", "event_id": utterance.commit_id})

    def discard(self) -> None:
        """Forget the open utterance, and those without a transcript yet."""
        if self._open is not None:
            self._utterances.remove(self._open)
            self._open = None
            self._post({"type": "input_audio_buffer.clear"})
        for utterance in self._utterances:
            utterance.is_discarded = True

    def release(self) -> None:
        """Wait no longer for a transcript that later ones wait for."""
        if self._utterances and self.is_blocked and not self._utterances[0].is_final:
            logger.warning("openai: a transcript did not come; those behind it go on")
            self._settle(self._utterances[0], "")

    def feed(self, data: str | bytes) -> None:
        """Take one frame.

        Raises:
            ProviderError: The stream cannot be used any more.
        """
        try:
            event = json_object(data, self._failures)
            kind = event.get("type")
            if not isinstance(kind, str):
                raise protocol_error("an event with a type", type(kind).__name__)
            self._take(kind, event)
        except ProviderProtocolError as error:  # this event is lost, and the next may be valid
            logger.warning("%s", error)

    def _take(self, kind: str, event: dict[str, Any]) -> None:
        if kind.startswith(TRANSCRIPTION):
            self._take_transcript(kind.removeprefix(TRANSCRIPTION), event)
        elif kind == "input_audio_buffer.committed":
            self._find(text_of(event.get("item_id"), "item_id"))
        elif kind in ("session.updated", "transcription_session.updated"):
            self.is_ready = True
        elif kind == "error":
            self._take_error(event.get("error"))

    def _take_transcript(self, kind: str, event: dict[str, Any]) -> None:
        utterance = self._find(text_of(event.get("item_id"), "item_id"))
        if utterance is None:
            return
        if kind == "delta":
            utterance.text += text_of(event.get("delta"), "delta")
            is_next = utterance is self._utterances[0] and not utterance.is_discarded
            if self._has_interims and is_next and utterance.text.strip():
                self._report(STTInterim(text=utterance.text, language=self._language))
        elif kind == "completed":
            self._settle(utterance, text_of(event.get("transcript"), "transcript"))
        elif kind == "failed":
            failure = self._failure(event.get("error"))
            logger.warning("openai: an utterance was not transcribed: %s", failure)
            self._settle(utterance, "")

    def _settle(self, utterance: Utterance, text: str) -> None:
        utterance.text, utterance.is_final = text, True
        while self._utterances and self._utterances[0].is_final:
            first = self._utterances.popleft()
            if not first.is_discarded:
                final = STTFinal(text=first.text.strip(), language=self._language, audio_seconds=first.seconds)
                self._report(final)

    def _find(self, item_id: str) -> Utterance | None:
        """Return the utterance of an item; one that is new is the oldest without a name."""
        for utterance in self._utterances:
            if utterance.item_id == item_id:
                return utterance
        for utterance in self._utterances:
            if not utterance.item_id and not utterance.is_final:
                utterance.item_id = item_id
                return utterance
        return None

    def _take_error(self, error: Any) -> None:
        error = error if isinstance(error, dict) else {}
        if error.get("code") == EXPIRED:
            raise ProviderConnectionError("the session reached its longest duration", provider=PROVIDER)
        failure = self._failure(error)
        for utterance in list(self._utterances):
            if utterance.commit_id and utterance.commit_id == error.get("event_id"):
                logger.warning("openai: an utterance was refused: %s", failure)
                self._settle(utterance, "")
                return
        if not self.is_ready or error.get("code") in FATAL:
            raise failure
        logger.warning("openai: %s", failure)

    def _failure(self, error: Any) -> ProviderError:
        error = error if isinstance(error, dict) else {}
        return self._failures.in_answer(error.get("code") or error.get("type"), error.get("message"))
