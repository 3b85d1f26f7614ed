"""The stream of a recogniser that decides turns (`/stt/turns/websocket`), sans-I/O.

* A transcript is that of the turn so far, and only grows: what was shown is never revised.
* No message has times. The position of the audio when a message comes, less a moment for its way, is taken for that up
  to which words are known.
* The service has no message that ends a turn. A turn that something else has ended is ended here: its words so far are
  the final, and what the turn brings later is the next utterance.

Sources: https://docs.cartesia.ai/use-the-api/stt/turns/turns, and the fields in cartesia 4.2.0,
`types/stt/stt_auto_finalize_*.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import (
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTTurnResumed,
)
from vivavoce.plugins.cartesia.wire import failure_in

logger = logging.getLogger(__name__)

CLOSE = json.dumps({"type": "close"})

TOLD_WITHIN = 2.0
"""Seconds of audio after which a turn that has begun is known to have; audio without one holds no words."""

ON_ITS_WAY = 0.3
"""Seconds of audio that the service may not have heard when it ended a turn; a turn's last words are older."""

EVENTS = ("turn.update", "turn.eager_end", "turn.end")
"""Those with the words of the turn."""


class TurnsWire:
    """One stream's turns.

    Args:
        language, position, settle, report: As for `InkWire`.
    """

    def __init__(
        self,
        language: str,
        *,
        position: Callable[[], float],
        settle: Callable[[float], None],
        report: Callable[[STTEvent], None],
        failures: Failures,
    ) -> None:
        self._language = language
        self._position = position
        self._tell_settled = settle
        self._report = report
        self._failures = failures
        self._is_turn = False
        self._is_eager = False
        self._said = ""
        """The turn's words so far."""
        self._taken = ""
        """The words of the turn that were an utterance of their own, or are not wanted."""
        self._shown = ""
        self._shown_until = 0.0
        self._counted = 0.0
        self._settled = 0.0
        self._quiet_from: float | None = None
        """The position from which on audio is new to the present connection, which may hear kept audio before; None: it
        is not open."""

    @property
    def shown_until(self) -> float:
        """The position up to which words were settled or shown."""
        return self._shown_until

    def begin(self) -> None:
        """Read the messages of a new connection, which hears the turn again: an eager end is no longer true."""
        self._is_turn, self._said, self._taken, self._quiet_from = False, "", "", None
        self._resume()

    def pushed(self) -> None:
        """Note that audio was pushed: between turns, older audio is settled."""
        quiet = self._position() - TOLD_WITHIN
        if not self._is_turn and self._quiet_from is not None and quiet > self._quiet_from:
            self._settle(quiet)

    def flush(self, position: float) -> None:
        """Note that the turn is over by another judgement."""
        if self._shown:
            self._finish(self._shown, position)
            self._settle(position)

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there."""
        self._taken, self._shown, self._is_eager = self._said, "", False
        self._shown_until = self._counted = position

    def feed(self, message: str | bytes) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error.
        """
        try:
            told = json_object(message, self._failures)
            kind = told.get("type")
            if kind in EVENTS:
                self._take(str(kind), told)
        except ProviderProtocolError as error:  # this message is lost, and the next one may be valid
            logger.warning("%s", error)
            return
        if kind == "connected":
            position = self._position()
            self._quiet_from = position + (position - self._settled)  # kept audio takes no longer than it is
        elif kind == "turn.start":
            self._is_turn, self._said, self._taken = True, "", ""
        elif kind == "turn.resume":
            self._resume()
        elif kind == "error":
            raise failure_in(told, self._failures)

    def _take(self, kind: str, told: Mapping[str, Any]) -> None:
        said = told.get("transcript")
        if not isinstance(said, str):
            raise self._failures.malformed(f"a transcript in {kind}", type(said).__name__)
        self._is_turn, self._said = True, said
        text = said.removeprefix(self._taken).strip()
        if kind == "turn.end":
            self._end(text)
            return
        if text != self._shown:
            self._shown, self._shown_until = text, self._position()
            self._report(STTInterim(text=text, language=self._language))
        if kind == "turn.eager_end" and text:
            self._is_eager = True
            self._report(STTEagerEndOfTurn(text))

    def _end(self, text: str) -> None:
        if text or self._shown:
            self._finish(text, self._position())
        self._settle(self._position() - ON_ITS_WAY)
        if text:
            self._report(STTEndOfTurn())
        self._is_turn, self._said, self._taken = False, "", ""

    def _finish(self, text: str, position: float) -> None:
        """Report a final of these words."""
        self._taken, self._shown, self._is_eager, self._shown_until = self._said, "", False, position
        seconds, self._counted = max(0.0, position - self._counted), position
        self._report(STTFinal(text=text, language=self._language, audio_seconds=seconds))

    def _settle(self, position: float) -> None:
        self._settled = max(self._settled, position)
        self._tell_settled(position)

    def _resume(self) -> None:
        if self._is_eager:
            self._is_eager = False
            self._report(STTTurnResumed())
