"""Events of a session: transcripts with their turn, removed items, and unattributed time."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from vivavoce.agents import Agent, CompletedTurn
from vivavoce.agents.agent import StopResponse
from vivavoce.agents.events import HistoryItemAdded, HistoryItemRemoved, SpeechCreated, UserTranscript
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame


def test_a_transcript_that_opens_its_turn_names_it() -> None:
    stt = ScriptedSTT()
    pipeline = CascadingPipeline(stt=stt, llm=ScriptedLLM("Hi."), tts=ScriptedTTS())  # no VAD: words open the turn
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        stt.interim("hel")
        await harness.until(1.1)
        stt.final("hello")

    harness.run(scenario, until=5.0)
    (turn,) = harness.session.turns
    assert [(event.turn_id, event.text) for event in harness.recording.of(UserTranscript)] == [
        (turn.turn_id, "hel"),
        (turn.turn_id, "hello"),
    ]


def test_a_transcript_is_told_before_the_commit_of_its_turn() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi."))
    harness.caller.says("hello there", 0.5, 1.5, final_at=2.5)  # the delay has run out: committed on arrival
    harness.run(until=5.0)
    transcript = harness.recording.of(UserTranscript)[-1]
    item = harness.recording.of(HistoryItemAdded)[0]
    created = harness.recording.of(SpeechCreated)[0]
    assert transcript.turn_id == item.turn_id == harness.session.turns[0].turn_id
    assert transcript.at == item.at
    assert transcript.sequence < item.sequence < created.sequence


def test_an_item_that_a_hook_takes_back_is_told() -> None:
    class Strict(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            raise StopResponse

    harness = SessionHarness(Strict("Help."), ScriptedLLM("Hi."))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=5.0)
    assert harness.session.history.items == ()
    (added,), (removed,) = harness.recording.of(HistoryItemAdded), harness.recording.of(HistoryItemRemoved)
    assert removed.item.id == added.item.id
    assert removed.turn_id == harness.session.turns[0].turn_id
    assert removed.name == "history_item_removed"


def block(event: SpeechCreated) -> None:
    threading.Event().wait(0.5)  # as no handler may


async def test_the_time_of_code_that_holds_the_loop_up_is_not_booked_to_the_model() -> None:
    async with SessionHarness(Agent("Help."), ScriptedLLM("Hi.")) as harness:
        harness.session.on(SpeechCreated, block)
        harness.session.input.text("hello")
        while not harness.session.turns:
            await harness.until(harness.now + 0.05)
    stages = {stage.name: stage for stage in harness.session.turns[0].stages}
    assert stages["unattributed"].seconds >= 0.45
    assert stages["unattributed"].owner == "runtime"
    assert sum(stage.seconds for stage in stages.values()) == pytest.approx(harness.session.turns[0].e2e_latency)


def test_ready_audio_that_cannot_be_played_or_noted_is_refused() -> None:
    async def words() -> AsyncGenerator[str, None]:
        yield "beep"

    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        mono: Any = AudioFrame(bytes(2 * 2400), 24000)
        with pytest.raises(ConfigurationError, match=r"AudioFrame.*got bytes"):
            await harness.session.say("beep", audio=mono.data)
        with pytest.raises(ConfigurationError, match="whole text"):
            await harness.session.say(words(), audio=mono)
        speech = harness.session.say("beep", audio=mono)
        await speech
        assert speech.outcome == "completed"

    harness.run(scenario)
