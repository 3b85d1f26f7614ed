"""Whole sessions on ElevenLabs' twin, in virtual time: an answer, a barge-in, and the answer behind it."""

from __future__ import annotations

import anyio

from vivavoce.agents import Agent
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.plugins import elevenlabs
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin, TwinFault, TwinPace

COUNT = "One two three four five six seven eight nine ten. " * 3


async def connected(twin: ElevenLabsTwin) -> elevenlabs.TTS:
    """Return a voice with an open connection: the harness would count the server's task as a leak."""
    tts = elevenlabs.TTS(base_url=twin.url, api_key=twin.key)
    tts.warm()
    await twin.until(lambda: twin.connections)
    await anyio.sleep(0.1)
    return tts


def test_a_barge_in_closes_the_context_and_the_heard_text_is_exact() -> None:
    async def main() -> None:
        pace = TwinPace(interval=0.2)
        async with ElevenLabsTwin(pace=pace) as twin, await connected(twin) as tts:
            harness = SessionHarness(Agent("Be brief."), ScriptedLLM(COUNT.strip(), "Stopped."), tts=tts)
            harness.caller.says("count", 0.5, 1.0)
            harness.caller.says("stop it please", 4.0, 5.0)
            async with harness:
                records = [(await harness.next(TurnCompleted)).record for _ in range(2)]
                await twin.until(lambda: not twin.live)  # the vendor says what it has begun
                await anyio.sleep(0.1)
            assert [record.outcome for record in records] == ["interrupted", "completed"]
            (_, heard), (_, answer) = [message for message in harness.messages if message[0] == "assistant"]
            assert answer == "Stopped."

            cut, stopped = twin.contexts
            assert {"context_id": cut.id, "close_context": True} in twin.received
            assert cut.text.split() == COUNT.split()
            assert stopped.text.strip() == "Stopped."
            assert len(twin.connections) == 1

            spoken = heard.split()
            assert spoken == COUNT.split()[: len(spoken)]
            seconds = records[0].played_seconds
            assert len(spoken) == round(seconds / pace.word - 0.5)
            assert 4 < len(spoken) < 30

    run_virtual(main())


def test_an_answer_whose_context_fails_is_spoken_in_the_next_one() -> None:
    async def main() -> None:
        async with ElevenLabsTwin() as twin, await connected(twin) as tts:
            twin.faults.append(TwinFault(kind="error", after=0, code=0))
            harness = SessionHarness(Agent("Be brief."), ScriptedLLM("Hello there.", "Yes."), tts=tts)
            harness.caller.says("hello", 0.5, 1.0)
            harness.caller.says("and now", 6.0, 6.5)
            async with harness:
                records = [(await harness.next(TurnCompleted)).record for _ in range(2)]
            assert [record.outcome for record in records] == ["completed", "completed"]
            assert [text for role, text in harness.messages if role == "assistant"] == ["Hello there.", "Yes."]
            assert [context.text.strip() for context in twin.contexts] == ["Hello there.", "Hello there.", "Yes."]

    run_virtual(main())


def test_a_whole_call_with_its_ears_and_its_voice_and_a_connection_lost_in_mid_utterance() -> None:
    async def main() -> None:
        pace = TwinPace(interval=0.05)
        async with ElevenLabsTwin(pace=pace) as twin, await connected(twin) as tts:
            async with elevenlabs.STT(base_url=twin.url, api_key=twin.key) as stt:
                llm = ScriptedLLM(COUNT.strip(), "Sure.")
                pipeline = CascadingPipeline(stt=stt, llm=llm, tts=tts, vad=ScriptedVAD())
                harness = SessionHarness(Agent("Be brief."), llm, pipeline=pipeline)
                async with harness:
                    end = speaks(harness, twin, "A table for two, please.", 0.5)
                    await harness.until(1.2)
                    twin.connection.abort()
                    await harness.until(end + 3.0)
                    speaks(harness, twin, "No, wait a moment.", end + 3.2)
                    while len(harness.session.turns) < 2:
                        await harness.next(TurnCompleted)
        (_, asked), (_, heard), *rest = harness.messages
        assert asked == "A table for two, please."
        assert heard.split() == COUNT.split()[: len(heard.split())]
        assert 4 < len(heard.split()) < 30
        assert rest == [("user", "No, wait a moment."), ("assistant", "Sure.")]

    run_virtual(main())


def speaks(harness: SessionHarness, twin: ElevenLabsTwin, text: str, start: float) -> float:
    """Have the caller say words that the twin hears; return the time of their end."""
    for word in text.split():
        harness.caller.makes_noise(round(start, 2), round(start + 0.24, 2), level=twin.level(word))
        start += 0.26
    return round(start, 2)
