"""Synthesis: text into an utterance, by the pipeline's voice or by a voice that was begun before the turn was over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.speech.blaming import Failure
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.preemptive import PreemptiveReply
from vivavoce.agents.speech.reply_audio import ReplyAudio
from vivavoce.agents.speech.text_channel import TextChannel
from vivavoce.agents.telemetry.observer import NO_WATCH, Watch
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.watchdog import Watchdog


async def synthesise(
    text: str | TextChannel,
    utterance: Utterance,
    *,
    context: ReplyContext,
    record: TurnRecordBuilder,
    audio: ReplyAudio,
    limit: Callable[[str, float, float, Watch], Watchdog],
    attempt: PreemptiveReply | None,
    failure: Failure,
) -> None:
    """Speak `text` into `utterance`, which the caller finishes, once the speech may play.

    Args:
        audio: The audio of the speech; notes the text for which the voice yields no audio.
        limit: Returns the watchdog that ends the speech when the voice hangs. Its limits count only while all text is
            in.
        attempt: The answer begun ahead; its voice is used if it has one.
        failure: The failure of the speech.
    Raises:
        ProviderError: The voice failed.
    """
    await audio.floor.may_play()
    limits, ahead = context.limits, attempt if attempt is not None and attempt.with_voice else None
    watch = NO_WATCH if ahead is not None else context.session.observer.voice()
    watchdog = limit("tts", limits.tts_first_byte, limits.tts_stall, watch)
    unvoiced = audio.unvoiced
    with watch:
        channel = text if isinstance(text, TextChannel) else None
        has_audio = False
        text_is_in = partial(watchdog.arm, limits.tts_first_byte)
        if channel is None or channel.is_closed:
            text_is_in()
        else:
            channel.watch_close(text_is_in)
        try:
            async with aclosing(ahead.audio() if ahead is not None else context.stages.speak(text, failure)) as chunks:
                async for chunk in chunks:
                    watchdog.disarm()
                    if chunk.unvoiced is not None:
                        unvoiced.note(chunk.unvoiced)
                    elif chunk.frame.data and not has_audio:
                        has_audio = True
                        unvoiced.voiced()
                    if chunk.requested_at is not None:
                        watch.first_byte(context.clock.now() - chunk.requested_at)
                        record.mark("first_sentence", "provider", chunk.requested_at)
                        if record.tts_first_byte is None:
                            took = context.clock.now() - chunk.requested_at if ahead is None else ahead.first_byte
                            record.first_byte(took)
                    if has_audio:
                        record.mark("tts_first_byte", "provider", context.clock.now())
                        if not utterance.total:
                            await context.first_frame(record)
                    utterance.push(chunk)
                    if channel is not None:
                        channel.watch_close(None)  # the voice does not hang while it waits for the playout
                    await utterance.room()
                    if channel is None or channel.is_closed:
                        watchdog.arm(limits.tts_stall)
                    else:
                        channel.watch_close(text_is_in)
        finally:
            if channel is not None:
                channel.watch_close(None)
            watchdog.close()
            seconds = utterance.total / utterance.rate
            watch.spoken(len(utterance.heard.text), seconds)
            if context.live.capabilities.speaks:
                context.add_usage(characters=len(utterance.heard.text), audio_seconds=seconds, record=record)
        if not has_audio:
            unvoiced.judge_step(utterance.heard, provider="tts", component="tts")
