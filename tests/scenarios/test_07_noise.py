"""Scenarios 8 and 9 for long sound without words: a machine, a television, a crowd."""

from __future__ import annotations

import anyio

from vivavoce.agents import Agent, WakeUp
from vivavoce.agents.events import TurnCompleted, WakeUpFired
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedTTSOptions
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream


def telling(*, stt: ScriptedSTT | None = None) -> SessionHarness:
    """An agent that speaks for 20 s when it is asked to."""
    voice = ScriptedTTS(options=ScriptedTTSOptions(duration=20.0))
    return SessionHarness(Agent("Tell."), ScriptedLLM("A long story."), stt=stt, tts=voice)


async def tell(harness: SessionHarness) -> None:
    await harness.until(1.0)
    _ = harness.session.say("A long story.")


def test_the_agent_does_not_go_on_over_a_caller_for_noise_that_came_before() -> None:
    harness = telling()
    harness.caller.makes_noise(3.0, 6.0)
    harness.caller.says("wait please", 6.9, 9.4)
    harness.run(tell, until=12.0)
    assert harness.played[0].start + harness.played[0].seconds < 3.7
    assert all(stretch.start > 9.4 for stretch in harness.played[1:])


def test_where_the_recogniser_gives_no_interims_the_agent_does_not_go_on_over_a_caller() -> None:
    harness = telling(stt=ScriptedSTT(capabilities=STTCapabilities(emits_interims=False)))
    harness.caller.says("wait please and listen to me", 3.0, 12.0)
    harness.run(tell, until=14.0)
    assert harness.played[0].start + harness.played[0].seconds < 3.7
    assert all(stretch.start > 12.0 for stretch in harness.played[1:])


def test_a_television_does_not_keep_a_turn_open() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("For when?", delay=0.1))
    harness.caller.says("a table", 0.5, 1.5, final_at=1.7)
    harness.caller.makes_noise(1.8, 30.0)
    harness.run(until=20.0)
    harness.expect_history(("user", "a table"), ("assistant", "For when?"))
    assert harness.played[0].start == 5.0  # 3.0 after the last word, then the model and the voice
    (turn,) = (event.record for event in harness.recording.of(TurnCompleted))
    assert turn.ended_by == "no_words"


def test_a_television_does_not_keep_a_silent_caller_from_being_woken_up() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(), wake_up=WakeUp(after=8.0))
    harness.caller.makes_noise(2.0, 30.0)
    harness.run(until=12.0)
    assert [event.at for event in harness.recording.of(WakeUpFired)] == [8.0]


class SlowToComeBack(ScriptedSTT):
    """Is open at once the first time, and four seconds later after a loss."""

    async def open(self) -> ScriptedSTTStream:
        if self.streams:
            await anyio.sleep(4.0)
        return await super().open()


def test_nothing_is_noise_while_the_recogniser_is_lost() -> None:
    stt = SlowToComeBack()
    harness = SessionHarness(Agent("Help."), ScriptedLLM(default="Fine.", delay=0.1), stt=stt)
    harness.caller.says("a table for two please", 0.5, 8.0, final_at=8.5, interims=[(1.0, "a table")])

    async def lose(harness: SessionHarness) -> None:
        await harness.until(2.0)
        stt.fail()

    harness.run(lose, until=14.0)
    assert [text for role, text in harness.messages if role == "user"] == ["a table a table for two please"]
