"""Whole sessions on Cartesia's twin, in virtual time: a voice that is cut, a recogniser that decides turns, both."""

from __future__ import annotations

import anyio

from vivavoce.agents import Agent
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.plugins import cartesia
from vivavoce.plugins.cartesia.twin import CartesiaTwin, TwinFault, TwinPace

COUNT = "One two three four five six seven eight nine ten. " * 3


async def connected(twin: CartesiaTwin) -> cartesia.TTS:
    """Return a voice with an open connection: the harness would count the server's task as a leak."""
    tts = cartesia.TTS(base_url=twin.url, api_key=twin.key)
    tts.warm()
    await twin.until(lambda: twin.connections)
    await anyio.sleep(0.1)
    return tts


def test_a_barge_in_cancels_the_context_and_the_heard_text_is_exact() -> None:
    async def main() -> None:
        pace = TwinPace(interval=0.2)
        async with CartesiaTwin(pace=pace) as twin, await connected(twin) as tts:
            harness = SessionHarness(Agent("Be brief."), ScriptedLLM(COUNT.strip(), "Stopped."), tts=tts)
            harness.caller.says("count", 0.5, 1.0)
            harness.caller.says("stop it please", 4.0, 5.0)
            async with harness:
                records = [(await harness.next(TurnCompleted)).record for _ in range(2)]
            assert [record.outcome for record in records] == ["interrupted", "completed"]
            (_, heard), (_, answer) = [message for message in harness.messages if message[0] == "assistant"]
            assert answer == "Stopped."

            cut, stopped = twin.contexts
            assert {"context_id": cut.id, "cancel": True} in twin.received
            assert len(cut.spoken) < len(COUNT.split()), "the vendor was spared the rest"
            assert cut.text.split() == COUNT.split()
            assert stopped.text.strip() == "Stopped."
            assert len(twin.connections) == 1

            spoken = heard.split()
            assert spoken == COUNT.split()[: len(spoken)]
            seconds = records[0].played_seconds
            assert len(spoken) == round(seconds / twin.pace.word - 0.5)
            assert 4 < len(spoken) < 30

    run_virtual(main())


def test_an_answer_whose_connection_breaks_goes_on_with_the_next_turn() -> None:
    async def main() -> None:
        async with CartesiaTwin() as twin, await connected(twin) as tts:
            twin.faults.append(TwinFault(kind="error", after=0))
            harness = SessionHarness(Agent("Be brief."), ScriptedLLM("Hello there.", "Yes."), tts=tts)
            harness.caller.says("hello", 0.5, 1.0)
            harness.caller.says("and now", 6.0, 6.5)
            async with harness:
                records = [(await harness.next(TurnCompleted)).record for _ in range(2)]
            assert [record.outcome for record in records] == ["completed", "completed"]
            assert [text for role, text in harness.messages if role == "assistant"] == ["Hello there.", "Yes."]
            assert [context.text.strip() for context in twin.contexts] == ["Hello there.", "Hello there.", "Yes."]

    run_virtual(main())


def speaks(harness: SessionHarness, twin: CartesiaTwin, text: str, start: float) -> float:
    """Have the caller say words that the twin hears; return the time of their end."""
    for word in text.split():
        harness.caller.makes_noise(round(start, 2), round(start + 0.24, 2), level=twin.level(word))
        start += 0.26
    return round(start - 0.02, 2)


def test_a_call_whose_recogniser_decides_turns_begins_an_answer_early_and_cuts_one_with_exact_heard_text() -> None:
    async def main() -> None:
        pace = TwinPace(interval=0.2)
        async with (
            CartesiaTwin(pace=pace) as twin,
            await connected(twin) as tts,
            cartesia.STT(base_url=twin.url, api_key=twin.key) as stt,
        ):
            llm = ScriptedLLM(default="Begun too soon.").when("please", COUNT.strip()).when("Stop", "Stopped.")
            pipeline = CascadingPipeline(stt=stt, llm=llm, tts=tts)
            harness = SessionHarness(Agent("Be brief."), llm, pipeline=pipeline)
            harness.preemptive = True
            async with harness:
                end = speaks(harness, twin, "Count", 0.5)
                speaks(harness, twin, "to ten, please.", round(end + 0.7, 2))  # behind an eager end
                await harness.until(7.0)
                speaks(harness, twin, "Stop it now.", 7.2)
                records = [(await harness.next(TurnCompleted)).record for _ in range(2)]
                await twin.until(lambda: not twin.live)
            assert [record.outcome for record in records] == ["interrupted", "completed"]
            assert [record.ended_by for record in records] == ["recogniser"] * 2
            (_, asked), (_, heard), *rest = harness.messages
            assert asked == "Count to ten, please."
            assert rest == [("user", "Stop it now."), ("assistant", "Stopped.")]
            assert heard.split() == COUNT.split()[: len(heard.split())]
            assert len(heard.split()) == round(records[0].played_seconds / twin.pace.word - 0.5)
            words = [request.context.messages("user")[-1].content for request in llm.requests]
            assert "Count" in words, "begun ahead, and dropped"

    run_virtual(main())


def test_a_call_behind_a_vad_has_the_words_of_ink_whisper_with_their_times() -> None:
    async def main() -> None:
        async with (
            CartesiaTwin() as twin,
            await connected(twin) as tts,
            cartesia.STT("ink-whisper", base_url=twin.url, api_key=twin.key) as stt,
        ):
            llm = ScriptedLLM("Sure.")
            pipeline = CascadingPipeline(stt=stt, llm=llm, tts=tts, vad=ScriptedVAD())
            harness = SessionHarness(Agent("Be brief."), llm, pipeline=pipeline)
            async with harness:
                speaks(harness, twin, "A table for two, please.", 0.5)
                record = (await harness.next(TurnCompleted)).record
            assert harness.messages == [("user", "A table for two, please."), ("assistant", "Sure.")]
            assert [word.text for word in record.user_words] == ["A", "table", "for", "two,", "please."]

    run_virtual(main())
