"""An agent's own ears, model and turn-taking in a room, on both servers: real ears, real voices, real audio.

All facts in one call: the components that an agent brings are opened while the agent before it still answers, serve
until the handoff from it, and are given back, as are its options.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import pairwise

import pytest
from livekit import rtc

from kit.e2e.calls import GRAMMAR, Call, caller_and_agent
from kit.e2e.faults import FaultySTT
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import Talker
from vivavoce.agents import Agent, AgentOverrides, EndpointingOptions, InterruptionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import ScriptedTurnDetector
from vivavoce.pipelines.vad.base import VADEvent, VADStream
from vivavoce.plugins import pocketsphinx, silero

pytestmark = [
    pytest.mark.real_server,
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

SILENCE = 1.5
"""Seconds that may pass between the first agent's goodbye and the second one's greeting."""
PATIENT = 1.0
"""Seconds of silence that end a turn in the second agent's time; 0.4 in the first one's."""
RULES = "the kitchen of this house takes the last order at ten"

Start = Callable[..., Awaitable[Call]]


@pytest.fixture
async def call(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Start]:
    """Start the test's call, with the model's script."""
    async with caller_and_agent(room_server, room_name, agent_room) as start:
        yield start


class CountedVAD(silero.VAD):
    """Silero, which counts the seconds that it hears and its open streams."""

    def __init__(self) -> None:
        super().__init__()
        self.heard_seconds = 0.0
        self.open_streams = 0

    def open(self) -> VADStream:  # type: ignore[override]  # the port's stream, around silero's
        self.open_streams += 1
        return CountedStream(self, super().open())


class CountedStream(VADStream):
    """One stream of a CountedVAD."""

    def __init__(self, vad: CountedVAD, inner: VADStream) -> None:
        self._vad, self._inner = vad, inner

    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        self._vad.heard_seconds += frame.duration
        return self._inner.push(frame)

    def reset(self) -> None:
        self._inner.reset()

    def close(self) -> None:
        self._vad.open_streams -= 1
        self._inner.close()


class First(Agent):
    """Says goodbye; notes whether the next agent's recogniser was open by then."""

    def __init__(self, next_ears: FaultySTT) -> None:
        super().__init__("Be brief.")
        self.next_ears = next_ears
        self.streams_at_goodbye = 0

    async def on_exit(self) -> None:
        if self.session.agent_state != "closing":
            self.streams_at_goodbye = len(self.next_ears.streams)
            await self.session.say("one moment")


class Firm(Agent):
    """Greets."""

    async def on_enter(self) -> None:
        await self.session.say("now you speak with me")


def silences(talker: Talker, *, since: float) -> list[float]:
    """The pauses between the agent's sounds, from that time on."""
    sounds = [(start, end) for start, end in talker.heard() if end > since]
    return [start - end for (_, end), (start, _) in pairwise(sounds)]


async def test_the_components_of_an_agent_are_open_before_it_comes_and_serve_until_it_goes(call: Start) -> None:
    detector, vad = ScriptedTurnDetector(), CountedVAD()
    model = ScriptedLLM(RULES, "Very well")
    async with pocketsphinx.STT(grammar=GRAMMAR, fillers=pocketsphinx.FILLERS) as inner, vad:
        ears = FaultySTT(inner)
        ears.can_open.clear()
        first = First(ears)
        firm = Firm(
            "Be firm.",
            overrides=AgentOverrides(
                stt=ears,
                llm=model,
                vad=vad,
                turn_detector=detector,
                endpointing=EndpointingOptions(min_delay=PATIENT),
                interruption=InterruptionOptions(enabled=False),
            ),
        )
        it = await call("We do", RULES, "Goodbye", agent=first)

        # While the second agent's recogniser opens, the first agent hears and answers.
        there = it.session.update_agent(firm)
        it.talker.say("table for friday please")
        await it.turns(1)
        asked_at = it.talker.now
        ears.can_open.set()
        await there
        assert there.outcome == "completed"
        await it.talker.listens(0.5)
        assert first.streams_at_goodbye == 1
        assert max(silences(it.talker, since=asked_at), default=0.0) < SILENCE

        # Its turns take its delay, its detector's verdict and its model; its speech is not cut.
        it.talker.say("at seven")
        await it.talker.hears_the_agent(for_seconds=0.3)
        it.talker.say("wait stop please")
        await it.turns(3)
        back = it.session.update_agent(first)
        await back
        assert back.outcome == "completed"
        heard_by_its_vad = vad.heard_seconds

        # The first agent has its own again.
        it.talker.say("table for friday please")
        await it.talker.hears_the_agent(for_seconds=0.5)
        it.talker.say("wait stop please")
        turns = sorted(await it.turns(5), key=lambda turn: turn.committed_at or 0.0)
        await it.talker.until(lambda: vad.open_streams == 0)  # in the call
        await it.session.close()

    cut = turns[3].heard_text
    assert it.messages == [
        ("user", "table for friday please"),
        ("assistant", "We do"),
        ("assistant", "one moment"),
        ("assistant", "now you speak with me"),
        ("user", "at seven"),
        ("assistant", RULES),
        ("user", "wait stop please"),
        ("assistant", "Very well"),
        ("user", "table for friday please"),
        *([("assistant", cut)] if cut else []),
        ("user", "wait stop please"),
        ("assistant", "Goodbye"),
    ]
    assert [turn.outcome for turn in turns] == ["completed", "completed", "completed", "interrupted", "completed"]
    assert [turn.endpointing_delay for turn in turns] == [0.4, PATIENT, PATIENT, 0.4, 0.4]
    assert [context.text for context in detector.asked] == ["at seven", "wait stop please"]
    assert ears.finals == ["at seven", "wait stop please"]
    assert (len(it.llm.requests), len(model.requests)) == (3, 2)
    assert heard_by_its_vad > 3.0
    assert vad.heard_seconds == heard_by_its_vad
    seven = next(end for start, end in it.talker.said() if start > asked_at)
    answer = next(start for start, _ in it.talker.heard() if start > seven)
    assert answer - seven > PATIENT - 0.1
    assert not it.recording.of(ErrorOccurred)
