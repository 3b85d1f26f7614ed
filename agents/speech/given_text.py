"""Speaks the argument of `say()`: a whole text, a stream of text, or audio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import anyio

from vivavoce.agents.audio.given_audio import play_given
from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.extension.text_parts import PartText
from vivavoce.agents.speech.blaming import Blaming
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.limits import SpeechLimits
from vivavoce.agents.speech.request import SpeechRequest
from vivavoce.agents.speech.text_channel import TextChannel
from vivavoce.agents.telemetry.observer import NO_WATCH, Watch
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.watchdog import Watchdog


@dataclass(slots=True, eq=False)
class GivenText:
    """The text of one speech.

    Args:
        limits: The limits of a model's text, which hold for the application's text too.
        watchdog: Ends the speech when the text stalls.
        blaming: Blames the application for a failure here.
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


async def speak_given(
    request: SpeechRequest,
    utterance: Utterance,
    context: ReplyContext,
    record: TurnRecordBuilder,
    *,
    blaming: Callable[[str], Blaming],
    limit: Callable[[str, float, float, Watch], Watchdog],
    voice: Callable[[str | TextChannel, Utterance], Awaitable[None]],
) -> None:
    """Speak the text or audio of `request` into the utterance, and wait until that is played.

    Args:
        blaming: Blames a component for a failure in the block.
        limit: Returns the watchdog that ends the speech, by its component and its limits for first piece and stall.
        voice: Synthesises text into the utterance.
    """
    if request.audio is not None:
        text = request.text if isinstance(request.text, str) else ""
        record.agent_text.append(text)
        await play_given(request.audio, text, utterance, context.clock, limit=context.limits.tts_stall)
    elif isinstance(request.text, str):
        utterance.heard.add_text(request.text)
        record.agent_text.append(request.text)
        with blaming("tts"):
            await voice(request.text, utterance)
    else:
        assert request.text is not None
        channel, limits = TextChannel(), context.limits
        watchdog = limit("text", limits.llm_first_token, limits.llm_stall, NO_WATCH)
        if isinstance(request.text, PartText):
            watchdog.hold()
        given = GivenText(request.text, utterance, record, limits, watchdog, blaming("text"))
        async with anyio.create_task_group() as group:
            group.start_soon(given.feed, channel)
            with blaming("tts"):
                await voice(channel, utterance)
    utterance.finish()
    await utterance.done.wait()
