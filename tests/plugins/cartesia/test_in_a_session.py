"""A whole session with cartesia.TTS on its twin, in virtual time: an answer, a barge-in, and the answer behind it."""

from __future__ import annotations

import anyio

from vivavoce.agents import Agent
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
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
