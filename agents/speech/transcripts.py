"""TranscriptFeed: sends the words of both sides to the room, the agent's words in step with its playout."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.core.log import SessionLog
from vivavoce.agents.events import UserTranscript
from vivavoce.agents.history.voices import HeardVoices
from vivavoce.agents.records import TurnRecord
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.words import unless_blank
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.io import TranscriptSegment, Transport

Side = Literal["user", "agent"]


class TranscriptFeed:
    """Turns progress and transcripts into segments for the transport.

    The ids of segments differ from any other session's: after one agent replaces another in a call, the same clients
    see both.

    Args:
        voices: Gets the speakers of the user's words.
        on_final: Called with each final transcript, and with the side that spoke.
    """

    def __init__(self, log: SessionLog, voices: HeardVoices, *, on_final: Callable[[Side, str], None]) -> None:
        self._log = log
        self._voices = voices
        self._on_final = on_final
        self._transport: Transport | None = None
        self._utterance: Utterance | None = None
        self._shown = ""
        self._agent_segment = ""
        self._user_segment = ""

    def open(self, transport: Transport) -> None:
        """Send to that transport from now on. No speech is heard before this call."""
        self._transport = transport

    def agent_progress(self, utterance: Utterance, position: int, is_over: bool) -> None:
        """Show the words of `utterance` heard up to `position` (samples); `is_over` if no more words follow."""
        if utterance is not self._utterance:
            self._utterance = utterance
            self._shown = ""
            self._agent_segment = new_id("agent")
        heard = utterance.heard.at(position)
        if heard != self._shown or (is_over and heard):
            self._shown = heard
            segment_id, turn_id = self._agent_segment, utterance.turn_id
            self._send(
                TranscriptSegment(segment_id=segment_id, who="agent", text=heard, is_final=is_over, turn_id=turn_id)
            )

    def user(self, heard: UserFinal | UserInterim, turn_id: str) -> None:
        """Show the user's words so far, and note their event and their speakers."""
        self._voices.heard(heard)
        text, is_final = unless_blank(heard.text), isinstance(heard, UserFinal)
        if text:
            fields: dict[str, Any] = {**heard.recognised(), "text": text, "words": self._log.timed(heard.words)}
            self._log.note(UserTranscript, turn_id=turn_id, is_final=is_final, **fields)
        if not self._user_segment:
            if not text:
                return
            self._user_segment = new_id("user")
        elif not (text or is_final):
            return
        segment, speakers = self._user_segment, heard.speakers
        self._send(TranscriptSegment(segment_id=segment, who="user", text=text, is_final=is_final, speakers=speakers))
        if is_final:
            self._user_segment = ""

    def typed(self, text: str) -> None:
        """Note the user's typed text; the room has it already."""
        self._voices.typed(text)
        self._on_final("user", text)

    def turn(self, record: TurnRecord) -> None:
        """Send a turn's record, if the transport wants records."""
        if self._transport is not None and self._transport.wants_turn_records:
            self._transport.send_turn_record(json.dumps(record.to_json()))

    def _send(self, segment: TranscriptSegment) -> None:
        if segment.is_final:
            self._on_final(segment.who, segment.text)
        if self._transport is not None:
            self._transport.send_transcript(segment)
