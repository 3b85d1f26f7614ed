"""Whole calls in virtual time on the twin: its ear and its voice, a barge-in whose heard text is exact, key terms."""

from __future__ import annotations

import anyio

from kit.limits import LIMIT
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.testing import ScriptedTTS, ScriptedVAD
from vivavoce.plugins import azure
from vivavoce.plugins.azure.twin import AzureTwin, TwinPace

WORD, GAP = 0.24, 0.02
COUNT = "One two three four five six seven eight nine ten. " * 3


def speaks(harness: SessionHarness, twin: AzureTwin, text: str, start: float) -> None:
    """Have the caller say words that the twin hears."""
    for word in text.split():
        harness.caller.makes_noise(round(start, 2), round(start + WORD, 2), level=twin.level(word))
        start += WORD + GAP


async def completed(harness: SessionHarness, count: int) -> None:
    while len(harness.session.turns) < count:
        await harness.next(TurnCompleted, limit=LIMIT)


def test_a_barge_in_stops_the_voice_at_the_vendor_and_the_heard_text_is_exact() -> None:
    async def main() -> None:
        async with AzureTwin(pace=TwinPace(interval=0.2)) as twin:
            stt = azure.STT(base_url=twin.stt_url, api_key=twin.key)
            tts = azure.TTS(base_url=twin.tts_url, api_key=twin.key)
            async with stt, tts:
                tts.warm()  # the harness would count the server's task of a later connection as a leak
                await twin.until(lambda: twin.connections)
                await anyio.sleep(0.1)
                llm = ScriptedLLM(COUNT.strip(), "Stopped.")
                pipeline = CascadingPipeline(stt=stt, llm=llm, tts=tts, vad=ScriptedVAD())
                harness = SessionHarness(Agent("Be brief."), llm, pipeline=pipeline)
                async with harness:
                    speaks(harness, twin, "Count for me, please.", 0.5)
                    speaks(harness, twin, "No, stop it now.", 5.0)
                    await completed(harness, 2)
            assert [record.outcome for record in harness.session.turns] == ["interrupted", "completed"]
            assert [text for role, text in harness.messages if role == "user"] == [
                "Count for me, please.",
                "No, stop it now.",
            ]
            heard, answer = [text for role, text in harness.messages if role == "assistant"]
            assert answer == "Stopped."
            dead, after = twin.turns
            assert dead.is_stopped
            assert len(dead.spoken) < len(COUNT.split()), "the vendor was spared the rest"
            assert after.text.strip() == "Stopped."
            spoken = heard.split()
            assert spoken == COUNT.split()[: len(spoken)]
            seconds = harness.session.turns[0].played_seconds
            assert len(spoken) == round(seconds / twin.pace.word - 0.5)
            assert 4 < len(spoken) < 30
            voices = [one for one in twin.connections if one.listening is None]
            assert len(voices) == 1, "the connection went on"

    run_virtual(main())


def test_a_connection_lost_in_mid_utterance_does_not_show_in_the_call_and_key_terms_are_sent_again() -> None:
    async def main() -> None:
        async with AzureTwin() as twin, azure.STT(base_url=twin.stt_url, api_key=twin.key) as stt:
            llm = ScriptedLLM("Sure.")
            pipeline = CascadingPipeline(stt=stt, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())
            options = SessionOptions(key_terms=("Vivavoce",))
            harness = SessionHarness(Agent("Be brief."), llm, pipeline=pipeline, options=options)
            async with harness:
                speaks(harness, twin, "A table for two, please.", 0.5)
                await harness.until(1.2)
                twin.connection.abort()
                await completed(harness, 1)
            assert harness.messages == [("user", "A table for two, please."), ("assistant", "Sure.")]
            terms = [one.listening.key_terms for one in twin.connections if one.listening is not None]
            assert terms == [["Vivavoce"]] * 2

    run_virtual(main())
