"""Scenarios 8 and 9 for long sound without words: a machine, a television, a crowd."""

from __future__ import annotations

import anyio
import pytest

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


def no_interims() -> ScriptedSTT:
    return ScriptedSTT(capabilities=STTCapabilities(emits_interims=False))


def test_a_caller_before_a_television_is_answered_and_woken_up_though_words_come_late() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("For when?", delay=0.1), stt=no_interims(), wake_up=20.0)
    harness.caller.makes_noise(0.5, 120.0)
    harness.caller.is_recognised("a table", 2.3)
    harness.run(until=70.0)
    harness.expect_history(("user", "a table"), ("assistant", "For when?"))
    (answer,) = harness.played
    assert answer.start == pytest.approx(32.6, abs=0.05)  # 30 s after the last word, then the model and the voice
    (turn,) = (event.record for event in harness.recording.of(TurnCompleted))
    assert turn.ended_by == "no_words"
    (woken,) = harness.recording.of(WakeUpFired)
    assert woken.at == pytest.approx(answer.start + answer.seconds + 20.0, abs=0.1)


def test_a_caller_whose_audio_stops_in_mid_speech_is_answered_and_woken_up() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("For when?", delay=0.1), stt=no_interims(), wake_up=8.0)
    harness.caller.makes_noise(0.5, 120.0)
    harness.caller.is_recognised("a table", 2.3)

    async def lose(harness: SessionHarness) -> None:
        await harness.until(6.0)
        harness.caller.stop()

    harness.run(lose, until=30.0)
    harness.expect_history(("user", "a table"), ("assistant", "For when?"))
    (answer,) = harness.played
    assert 7.0 < answer.start < 9.0  # a second without a frame, and the wait for a transcript
    assert len(harness.recording.of(WakeUpFired)) == 1


def test_the_agent_does_not_speak_over_a_caller_whose_words_a_slow_recogniser_shows_late() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(default="For when?", delay=0.1))
    says = harness.caller.says
    says("so I would like to book", 0.5, 4.0, final_at=4.2, interims=[(3.0, "so I would")])
    says("a table for the two of us", 4.3, 8.0, final_at=8.2, interims=[(6.9, "a table")])
    says(
        "and it is to be at a window",
        8.3,
        16.0,
        final_at=16.2,
        interims=[(11.0, "and it is"), (14.9, "and it is to be")],
    )
    harness.run(until=19.0)
    assert [text for role, text in harness.messages if role == "user"] == [
        "so I would like to book a table for the two of us and it is to be at a window"
    ]
    assert [stretch.start > 16.0 for stretch in harness.played] == [True]
