"""Words that the caller said before the agent came: a transport gives them late, in front of the live audio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import anyio
import pytest
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents import Agent, AgentSession, SessionOptions, SpeechHandle
from vivavoce.agents.events import AgentStateChanged
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.io import TransportEvents
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD

RATE = 16000
LOUD, QUIET = 1000, 0
SOON = 0.1
"""Seconds after which the recording comes."""


def sound(level: int, seconds: float) -> Iterator[AudioFrame]:
    for _ in range(round(seconds / FRAME_SECONDS)):
        yield AudioFrame(level.to_bytes(2, "little") * round(RATE * FRAME_SECONDS), RATE)


class Recorded(LocalTransport):
    """A room whose caller has recorded before: soon after the start it comes at once, then the live microphone.

    Args:
        frames: The recording.
        live: What the microphone carries then; silence follows.
    """

    def __init__(self, clock: VirtualClock, frames: list[AudioFrame], live: Iterable[AudioFrame]) -> None:
        super().__init__(clock, is_audible=False)
        self._recording = frames
        self._live = chain(live, sound(QUIET, 60.0))

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(super().run, events)
            task_status.started()
            await anyio.sleep(SOON)
            late = sum(frame.duration for frame in self._recording)
            for frame in self._recording:
                late -= frame.duration
                events.audio(frame, late)
            self.set_audible()
            for frame in self._live:
                await anyio.sleep(FRAME_SECONDS)
                events.audio(frame)


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings.")
        self.greeting: SpeechHandle | None = None

    async def on_enter(self) -> None:
        self.greeting = self.session.say("Hello, a table for when?")


class Call:
    """A call whose caller has recorded `frames`.

    Args:
        finals: What the recogniser hears in each utterance.
    """

    def __init__(
        self,
        *frames: Iterator[AudioFrame],
        live: Iterable[AudioFrame] = (),
        finals: tuple[str, ...] = ("A table at eight.",),
    ) -> None:
        self.host = Host()
        self.history: list[tuple[str, str]] = []
        self.agent_states: list[tuple[str, float]] = []
        self.turns: list[Any] = []
        run_virtual(self._run([frame for part in frames for frame in part], live, finals))

    async def _run(self, frames: list[AudioFrame], live: Iterable[AudioFrame], finals: tuple[str, ...]) -> None:
        clock = VirtualClock()
        pipeline = CascadingPipeline(
            stt=ScriptedSTT(finals, final_delay=0.1),
            llm=ScriptedLLM([0.1, "At eight, gladly."]),
            tts=ScriptedTTS(),
            vad=ScriptedVAD(),
        )
        session = AgentSession(self.host, pipeline, options=SessionOptions(clock=clock))
        session.on("agent_state_changed", self._note)
        await session.start(Recorded(clock, frames, live))
        await anyio.sleep(5.0)
        await session.close()
        self.history = [(item.role, item.content) for item in session.history.messages()]
        self.turns = list(session.turns)

    def _note(self, event: AgentStateChanged) -> None:
        self.agent_states.append((event.state, round(event.at, 2)))


def test_a_sentence_said_before_the_agent_came_is_a_turn_that_is_answered_behind_the_whole_greeting() -> None:
    call = Call(sound(LOUD, 1.5), sound(QUIET, 0.2))
    assert call.history == [
        *(("user", "A table at eight."), ("assistant", "Hello, a table for when?")),
        ("assistant", "At eight, gladly."),
    ]
    assert call.host.greeting is not None
    assert call.host.greeting.outcome == "completed"


def test_the_times_of_such_a_turn_are_those_of_its_words_and_its_stages_sum_to_the_wait_of_the_caller() -> None:
    call = Call(sound(LOUD, 1.5), sound(QUIET, 1.0))
    (turn,) = [each for each in call.turns if each.kind == "turn"]
    assert turn.user_started_at == pytest.approx(SOON - 2.5, abs=0.05)
    assert turn.user_ended_at == pytest.approx(SOON - 1.0, abs=0.05)
    assert turn.e2e_latency == pytest.approx(turn.first_audio_at - turn.user_ended_at)
    assert sum(stage.seconds for stage in turn.stages) == pytest.approx(turn.e2e_latency)
    assert turn.committed_at == pytest.approx(SOON + 0.1), "the pause is over: only the recogniser takes time"


def test_words_that_go_on_in_the_live_audio_are_one_turn_that_ends_by_the_live_silence() -> None:
    call = Call(sound(LOUD, 1.5))
    assert [role for role, _ in call.history] == ["user", "assistant", "assistant"]
    (turn,) = [each for each in call.turns if each.kind == "turn"]
    assert turn.user_ended_at == pytest.approx(SOON, abs=0.05)
    assert turn.committed_at == pytest.approx(SOON + 0.4, abs=0.05)


def test_a_caller_who_has_spoken_for_long_and_goes_on_is_not_spoken_over() -> None:
    call = Call(sound(LOUD, 8.0), live=sound(LOUD, 2.0))
    assert call.history[0] == ("user", "A table at eight.")
    speaking = next(at for state, at in call.agent_states if state == "speaking")
    assert speaking >= SOON + 2.0


def test_a_recording_of_silence_lets_the_agent_greet() -> None:
    call = Call(sound(QUIET, 3.0), finals=())
    assert call.history == [("assistant", "Hello, a table for when?")]


def test_two_sentences_with_a_pause_between_them_are_both_heard_in_order() -> None:
    call = Call(
        sound(LOUD, 1.0),
        sound(QUIET, 0.5),
        sound(LOUD, 1.0),
        sound(QUIET, 0.2),
        finals=("A table at eight.", "For two."),
    )
    user = " ".join(text for role, text in call.history if role == "user")
    assert user == "A table at eight. For two."
    assert [role for role, _ in call.history][-1] == "assistant"
