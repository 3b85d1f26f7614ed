"""Whole calls in virtual time on the twin: turns by the VAD and by Flux, an early answer, an interruption."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from kit.limits import LIMIT
from vivavoce.agents import Agent
from vivavoce.agents.events import TurnCompleted, UserTranscript
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, run_virtual
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.plugins import deepgram
from vivavoce.plugins.deepgram.twin import DeepgramTwin

WORD, GAP = 0.24, 0.02


def speaks(harness: SessionHarness, twin: DeepgramTwin, text: str, start: float) -> float:
    """Have the caller say words that the twin hears; return the time of their end."""
    for word in text.split():
        harness.caller.makes_noise(round(start, 2), round(start + WORD, 2), level=twin.level(word))
        start += WORD + GAP
    return round(start - GAP, 2)


async def completed(harness: SessionHarness, count: int) -> None:
    while len(harness.session.turns) < count:
        await harness.next(TurnCompleted, limit=LIMIT)


def in_a_call(
    make: Callable[[DeepgramTwin], STT],
    act: Callable[[SessionHarness, DeepgramTwin], Awaitable[None]],
    llm: ScriptedLLM,
    vad: ScriptedVAD | None,
    preemptive: bool = False,
) -> SessionHarness:
    """Run a call on a recogniser, and return its record."""

    async def main() -> SessionHarness:
        async with DeepgramTwin() as twin, make(twin) as stt:
            pipeline = CascadingPipeline(stt=stt, llm=llm, tts=ScriptedTTS(), vad=vad)
            harness = SessionHarness(Agent("Be brief."), llm, pipeline=pipeline)
            harness.preemptive = preemptive
            async with harness:
                await act(harness, twin)
        return harness

    return run_virtual(main())


def nova(twin: DeepgramTwin) -> STT:
    return deepgram.STT(base_url=twin.url, api_key=twin.key)


def flux(twin: DeepgramTwin) -> STT:
    options = deepgram.FluxOptions(eager_threshold=0.3, end_threshold=0.7)
    return deepgram.FluxSTT(base_url=twin.url, api_key=twin.key, options=options)


def test_a_call_on_nova_with_an_interruption_whose_heard_text_is_in_the_history() -> None:
    async def act(harness: SessionHarness, twin: DeepgramTwin) -> None:
        speaks(harness, twin, "A table for two, please.", 0.5)
        await harness.until(4.0)
        speaks(harness, twin, "No, wait a moment.", 4.2)
        await completed(harness, 2)

    long = "We have one by the window at seven, one by the door at eight, and the large one in the garden at nine."
    harness = in_a_call(nova, act, ScriptedLLM(long, "Sure."), vad=ScriptedVAD())
    (first, asked), (_, heard), *rest = harness.messages
    assert (first, asked) == ("user", "A table for two, please.")
    assert long.startswith(heard)
    assert 0 < len(heard) < len(long)
    assert rest == [("user", "No, wait a moment."), ("assistant", "Sure.")]
    finals = [event for event in harness.recording.of(UserTranscript) if event.is_final]
    assert [event.text for event in finals] == ["A table for two, please.", "No, wait a moment."]


def test_a_connection_lost_in_mid_utterance_does_not_show_in_the_call() -> None:
    async def act(harness: SessionHarness, twin: DeepgramTwin) -> None:
        speaks(harness, twin, "A table for two, please.", 0.5)
        await harness.until(1.2)
        twin.connection.abort()
        await completed(harness, 1)

    harness = in_a_call(nova, act, ScriptedLLM("Sure."), vad=ScriptedVAD())
    assert harness.messages == [("user", "A table for two, please."), ("assistant", "Sure.")]


def test_a_call_on_flux_without_vad_and_detector_answers_at_the_vendors_end_of_turn() -> None:
    async def act(harness: SessionHarness, twin: DeepgramTwin) -> None:
        end = speaks(harness, twin, "A table", 0.5)
        end = speaks(harness, twin, "for two, please.", round(end + 0.4, 2))  # an eager end, which is taken back
        await completed(harness, 1)
        speaks(harness, twin, "Thank you.", round(harness.now + 0.5, 1))
        await completed(harness, 2)

    llm = ScriptedLLM(default="Begun too soon.").when("please", "For when?").when("Thank you.", "Bye.")
    harness = in_a_call(flux, act, llm, vad=None, preemptive=True)
    assert harness.messages == [
        ("user", "A table for two, please."),
        ("assistant", "For when?"),
        ("user", "Thank you."),
        ("assistant", "Bye."),
    ]
    words = [request.context.messages("user")[-1].content for request in harness.llm.requests]
    assert "A table" in words, "begun ahead, and dropped"
    assert harness.session.turns[-1].preemptive, "begun at the eager end, and used"
    assert all(turn.ended_by == "recogniser" for turn in harness.session.turns)


def test_a_cut_flux_voice_tells_the_heard_text_itself() -> None:
    written = "We have *one* by the window at 7, one by the door at 8, and the large one in the garden at nine."

    async def main() -> None:
        async with DeepgramTwin(interval=0.1) as twin, deepgram.FluxTTS(base_url=twin.url, api_key=twin.key) as tts:
            tts.warm()
            await twin.until(lambda: bool(twin.voices))
            await anyio.sleep(0.1)  # the harness would count the tasks of a later connection as a leak
            harness = SessionHarness(Agent("Be brief."), ScriptedLLM(written, "Sure."), tts=tts)
            harness.caller.says("a table for two", 0.5, 1.0)
            harness.caller.says("stop it please", 4.0, 5.0)
            async with harness:
                await completed(harness, 2)
            first, second = harness.session.turns
            assert (first.outcome, second.outcome) == ("interrupted", "completed")
            [voice] = twin.voices
            [offset] = [told["playback_offset"]["value"] for told in voice.received if told["type"] == "Interrupt"]
            assert offset == round(first.played_seconds * 1000)
            said = voice.turns[0].text.split()
            count = int(first.played_seconds / (WORD + GAP))
            assert first.heard_text.replace("*", "").split() == said[:count]
            assert 3 < count < len(said)
            assert ("assistant", first.heard_text) in harness.messages
            assert voice.turns[1].text.strip() == "Sure."

    run_virtual(main())
