"""GivenText: a stream of text that an application gave to `say()`, on its way to the voice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from vivavoce.agents.observe.turn_record import TurnRecordBuilder
from vivavoce.agents.speech.blaming import Blaming
from vivavoce.agents.speech.host import SpeechLimits
from vivavoce.agents.speech.playout import Utterance
from vivavoce.agents.speech.text_channel import TextChannel
from vivavoce.pipelines.core.watchdog import Watchdog


@dataclass(slots=True, eq=False)
class GivenText:
    """The text of one speech.

    Args:
        limits: Of a model's text; the application's keeps them too.
        watchdog: Ends the speech when the text stalls.
        blaming: Blames the application for what fails here.
    """

    text: AsyncIterator[str]
    utterance: Utterance
    record: TurnRecordBuilder
    limits: SpeechLimits
    watchdog: Watchdog
    blaming: Blaming

    async def feed(self, channel: TextChannel) -> None:
        """Push all of the text.

        Raises:
            ConfigurationError: It is too long, or something else than text.
        """
        self.record.agent_text.append("")
        self.watchdog.arm(self.limits.llm_first_token)
        try:
            with self.blaming:
                await channel.feed(self.text, self._add)
        finally:
            self.watchdog.close()

    def _add(self, piece: str) -> None:
        self.watchdog.arm(self.limits.llm_stall)
        self.utterance.heard.add_text(piece)
        self.record.agent_text[-1] += piece
